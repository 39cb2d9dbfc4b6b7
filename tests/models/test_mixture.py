"""The mixture of products: exact marginals against enumeration, a fit that finds what made the tables, exact counts."""

from __future__ import annotations

import itertools
import subprocess
import sys
from functools import partial

import numpy as np
import pytest
import torch
from mixture_by_hand import dependence as dependence_by_hand
from mixture_by_hand import objective as objective_by_hand
from pretended_card import pretended_card
from pretended_graphs import pretended_graphs

from synth.models import mixture_estimation
from synth.models.marginal_loss import BinLayout, MarginalLoss
from synth.models.marginals import NoisyMarginal, pooled
from synth.models.mixture import Mixture
from synth.models.mixture_estimation import (
    GroupedMarginals,
    _Adam,
    _Objective,
    fit_mixtures,
)

SIZES = (3, 1, 4, 2, 3)
# Several columns of a size, a table of one column, tables of two and three, the column of one bin, and one asked twice.
COLUMNS = [(0,), (3,), (0, 2), (0, 4), (1, 3), (2, 3), (0, 2), (0, 2, 4), (1, 2, 3), (0, 2, 3, 4)]


def known(components: int = 3, sizes: tuple[int, ...] = SIZES, seed: int = 7, peak: float = 1.5) -> Mixture:
    """Return a mixture with components far apart."""
    random = np.random.default_rng(seed)
    weights = np.exp(0.5 * random.standard_normal(components))
    columns = [np.exp(peak * random.standard_normal((components, size))) for size in sizes]
    return Mixture(
        sizes,
        weights / weights.sum(),
        np.concatenate([column / column.sum(axis=1, keepdims=True) for column in columns], axis=1),
    )


def joint(mixture: Mixture) -> np.ndarray:
    """Return the whole table of proportions, cell by cell from the definition."""
    first = np.cumsum([0, *mixture.sizes])
    table = np.zeros(mixture.sizes)
    for cell in itertools.product(*map(range, mixture.sizes)):
        for component, weight in enumerate(mixture.weights):
            product = weight
            for column, value in enumerate(cell):
                product *= mixture.probabilities[component, first[column] + value]
            table[cell] += product
    return table


def summed(table: np.ndarray, columns: tuple[int, ...]) -> np.ndarray:
    return table.sum(axis=tuple(axis for axis in range(table.ndim) if axis not in columns))


def tables(mixture: Mixture, total: float, std: float, columns=tuple(COLUMNS), seed: int = 1) -> list[NoisyMarginal]:
    random = np.random.default_rng(seed)
    exact = joint(mixture)
    return [
        NoisyMarginal(one, total * summed(exact, one) + std * random.standard_normal(summed(exact, one).shape), std)
        for one in columns
    ]


def counted(rows: np.ndarray, sizes: tuple[int, ...], columns: tuple[int, ...]) -> np.ndarray:
    shape = [sizes[column] for column in columns]
    flat = np.ravel_multi_index([rows[:, column] for column in columns], shape)
    return np.bincount(flat, minlength=int(np.prod(shape))).reshape(shape)


@pytest.mark.parametrize("columns", [(), (1,), (2,), (0, 2), (0, 1, 4), (0, 2, 3, 4), (0, 1, 2, 3, 4)], ids=str)
def test_marginals_equal_enumeration(columns):
    mixture = known()
    np.testing.assert_allclose(mixture.marginal(columns), summed(joint(mixture), columns), rtol=1e-12)


def fit_mixture(*args, seed=0, start=None, report=None, **settings) -> Mixture:
    """Fit one mixture."""
    starts = None if start is None else (start,)
    told = None if report is None else lambda step, chi_squares: report(step, *chi_squares)
    (fitted,) = fit_mixtures(*args, seeds=(seed,), starts=starts, report=told, **settings)
    return fitted


def parameters(mixture: Mixture, layout: BinLayout) -> tuple[torch.Tensor, torch.Tensor]:
    """Return weights and probabilities in the order of the layout."""
    probabilities = np.empty_like(mixture.probabilities.T)
    probabilities[layout.original_order] = mixture.probabilities.T
    return torch.tensor(mixture.weights), torch.tensor(probabilities)


@pytest.mark.parametrize("dense", [False, True], ids=["by column", "one product"])
def test_loss_is_the_chi_square_of_exact_marginals(dense):
    mixture, total = known(), 500.0
    measured = [
        NoisyMarginal(one.columns, one.table, 3.0 + position)
        for position, one in enumerate(tables(known(seed=8), total, 5.0))
    ]
    # The pair that was asked twice counts as one answer, the mean weighted by inverse variance.
    first, second = (one for one in measured if one.columns == (0, 2))
    precision = first.noise_std**-2 + second.noise_std**-2
    mean = (first.table * first.noise_std**-2 + second.table * second.noise_std**-2) / precision
    once = [one for one in measured if one.columns != (0, 2)] + [NoisyMarginal((0, 2), mean, precision**-0.5)]
    expected = sum(
        (((total * summed(joint(mixture), one.columns) - one.table) / one.noise_std) ** 2).sum() for one in once
    )

    layout = BinLayout(SIZES)
    loss = MarginalLoss(layout, measured, total, device=torch.device("cpu"), dtype=torch.float64, dense=dense)
    assert float(loss(*parameters(mixture, layout))) == pytest.approx(expected, rel=1e-12)
    halved = MarginalLoss(
        layout, measured, total, device=torch.device("cpu"), dtype=torch.float64, dense=dense, factor=0.5
    )
    assert float(halved(*parameters(mixture, layout))) == pytest.approx(expected / 2, rel=1e-12)


HALVES = tuple(np.arange(size, dtype=np.int32) // 2 for size in SIZES)
OF_GROUPS = [(0,), (0, 2), (2, 4), (0, 2, 4)]


@pytest.mark.four_cases
@pytest.mark.parametrize("several", [(), (2,)], ids=["one", "side by side"])
@pytest.mark.parametrize("overlap", [0.0, 0.5])
@pytest.mark.parametrize("grouped", [False, True], ids=["bins", "groups"])
@pytest.mark.parametrize(
    "columns",
    [
        pytest.param(COLUMNS, id="all kinds"),
        pytest.param([(0,), (3,)], id="single columns", marks=pytest.mark.thorough),
    ],
)
@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("dense", [False, True], ids=["by column", "one product"])
def test_the_slope_is_that_of_the_objective(dense, padded, columns, grouped, overlap, several, monkeypatch):
    right = MarginalLoss.__init__
    monkeypatch.setattr(MarginalLoss, "__init__", lambda *args, **more: right(*args, **more, dense=dense))
    layout, total, price = BinLayout(SIZES, padded=padded), 60.0, 2.0
    measured = tables(known(seed=8), total, 5.0, columns)[: len(columns)]
    coarse = None
    if grouped:
        sizes = tuple(int(one.max()) + 1 for one in HALVES)
        coarse = GroupedMarginals(HALVES, tuple(tables(known(sizes=sizes), total, 4.0, OF_GROUPS)))
    random = torch.Generator().manual_seed(1)
    logits = torch.full((*several, layout.n_rows, 4), layout.NO_BIN, dtype=torch.float64)
    logits[..., layout.original_order, :] = torch.randn(*several, sum(SIZES), 4, generator=random, dtype=torch.float64)
    of_weights = torch.randn(*several, 4, generator=random, dtype=torch.float64)

    measured = pooled(measured)
    ours = _Objective(
        layout,
        measured,
        total,
        grouped=coarse,
        price=price,
        overlap=overlap,
        device=torch.device("cpu"),
        dtype=torch.float64,
    )
    inner = (logits.clone().requires_grad_(), of_weights.clone().requires_grad_())
    bins = [inner[0][..., layout.rows(column), :].softmax(dim=-2) for column in range(len(SIZES))]
    chi_squares, nats = objective_by_hand(inner[1].softmax(dim=-1), bins, measured, coarse, total, overlap)
    noise = [one.noise_std for one in (*measured, *(coarse.measured if coarse else ())) if len(one.columns) > 1]
    nat = price * total * np.exp(-np.mean(np.log(noise))) if noise else price * total
    cells = sum(one.table.size for one in (*measured, *(coarse.measured if coarse else ())))
    slopes = torch.autograd.grad(((chi_squares + nat * nats) / cells).sum(), inner)
    for found, expected in zip(ours.slope(logits, of_weights), slopes, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(ours.chi_squares(logits, of_weights), chi_squares.detach() / cells)


@pytest.mark.thorough
def test_fit_finds_the_mixture_that_made_the_tables():
    truth, total, std = known(), 10_000.0, 5.0
    told: list[tuple[int, float]] = []
    fitted = fit_mixture(
        SIZES, tables(truth, total, std), total, components=12, report=lambda step, chi: told.append((step, chi))
    )
    # The triples bind all columns but the one of one bin, so that unmeasured tables follow as well.
    far = 0.5 * np.abs(joint(fitted) - joint(truth)).sum()
    independent = np.einsum("i,j,k,l,m->ijklm", *(truth.marginal((column,)) for column in range(5)))
    assert 0.5 * np.abs(independent - joint(truth)).sum() > 0.2
    assert far < 0.02
    assert told[-1][0] == 999
    assert 0.5 < told[-1][1] < 1.5


def nats(table: np.ndarray) -> float:
    """Return the entropy of a table of proportions."""
    return float(-(table[table > 0] * np.log(table[table > 0])).sum())


def dependence(mixture: Mixture) -> float:
    weights, probabilities = parameters(mixture, BinLayout(mixture.sizes))
    bins = [probabilities[BinLayout(mixture.sizes).rows(column)] for column in range(len(mixture.sizes))]
    return float(dependence_by_hand(weights, bins, 0.5))


def of_columns(mixture: Mixture) -> float:
    """Return the mutual information of component and column, summed over columns."""
    within = sum(weight * nats(row) for weight, row in zip(mixture.weights, mixture.probabilities, strict=True))
    return sum(nats(mixture.marginal((column,))) for column in range(len(mixture.sizes))) - within


@pytest.mark.parametrize("peak", [0.3, 1.5, 4.0])
def test_dependence_takes_off_at_least_half_of_what_rows_tell_about_their_component(peak):
    mixture = known(4, peak=peak)
    within = sum(weight * nats(row) for weight, row in zip(mixture.weights, mixture.probabilities, strict=True))
    of_rows = nats(joint(mixture)) - within
    taken_off = of_columns(mixture) - dependence(mixture)
    assert taken_off >= 0.5 * of_rows - 1e-12
    assert taken_off <= 0.5 * nats(mixture.weights) + 1e-12


def test_dependence_is_exact_for_components_that_are_equal_or_apart():
    one = known(1)
    equal = Mixture(SIZES, np.array([0.3, 0.7]), np.repeat(one.probabilities, 2, axis=0))
    assert dependence(equal) == pytest.approx(0.0, abs=1e-12)
    # The first column tells the component, hence so does the row.
    apart = known(3)
    apart.probabilities[:, :3] = np.eye(3)
    assert dependence(apart) == pytest.approx(of_columns(apart) - 0.5 * nats(apart.weights), rel=1e-9)


@pytest.mark.thorough
def test_the_price_of_dependence_keeps_noise_out():
    independent, total, std = known(1), 1000.0, 30.0
    measured = tables(independent, total, std, list(itertools.combinations(range(5), 2)))

    def error(price: float) -> float:
        fitted = fit_mixture(SIZES, measured, total, components=20, price=price)
        return np.abs(joint(fitted) - joint(independent)).sum()

    assert error(2.0) < 0.5 * error(0.0)


def test_steps_are_those_of_adam():
    random = torch.Generator().manual_seed(0)
    ours = torch.randn(7, 3, generator=random, dtype=torch.float64)
    theirs = ours.clone().requires_grad_()
    rates = [0.1, 0.2, 0.05, 0.1]
    adam = _Adam([ours], rates)
    published = torch.optim.Adam([theirs], lr=0.1, betas=(0.95, 0.99))
    for step, rate in enumerate(rates):
        slope = torch.randn(7, 3, generator=random, dtype=torch.float64)
        adam.refill(step, 1)
        adam.step([slope], 0)
        published.param_groups[0]["lr"], theirs.grad = rate, slope
        published.step()
    torch.testing.assert_close(ours, theirs.detach())


@pytest.mark.thorough
def test_a_fit_loads_no_compiler():
    fit = "fit_mixtures((2, 2), [NoisyMarginal((0, 1), np.ones((2, 2)), 1.0)], 4.0, components=2, steps=2)"
    script = f"""
import sys
import numpy as np
from synth.models.marginals import NoisyMarginal
from synth.models.mixture_estimation import fit_mixtures
{fit}
sys.exit("torch._dynamo" in sys.modules)
"""
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def test_the_same_seed_fits_the_same_bytes_and_another_does_not():
    measured = tables(known(), 1000.0, 5.0)
    fits = [fit_mixture(SIZES, measured, 1000.0, components=5, steps=40, seed=seed) for seed in (3, 3, 4)]
    assert fits[0].probabilities.tobytes() == fits[1].probabilities.tobytes()
    assert fits[0].probabilities.tobytes() != fits[2].probabilities.tobytes()


@pytest.mark.thorough
def test_fits_side_by_side_are_those_made_one_by_one():
    """But for the rounding of float32."""
    total = 1000.0
    singles, pairs = [(column,) for column in range(5)], [(0, 2), (0, 3), (2, 3)]
    for measured, overlap in (
        (tables(known(), total, 5.0), 0.5),
        (tables(known(), total, 5.0, columns=[*singles, *pairs]), 0.0),
    ):
        settings = {"components": 5, "steps": 30, "overlap": overlap, "grouped": GROUPED}
        together = fit_mixtures(SIZES, measured, total, seeds=(3, 8, 5), **settings)
        alone = [fit_mixture(SIZES, measured, total, seed=seed, **settings) for seed in (3, 8, 5)]
        for one, other in zip(together, alone, strict=True):
            np.testing.assert_allclose(one.probabilities, other.probabilities, atol=1e-4)
            np.testing.assert_allclose(one.weights, other.weights, atol=1e-4)
        assert np.abs(together[0].probabilities - together[1].probabilities).max() > 0.01
        further = fit_mixtures(SIZES, measured, total, steps=9, starts=together[1:], grouped=GROUPED, overlap=overlap)
        apart = [
            fit_mixture(SIZES, measured, total, steps=9, start=one, grouped=GROUPED, overlap=overlap)
            for one in together[1:]
        ]
        for one, other in zip(further, apart, strict=True):
            np.testing.assert_allclose(one.probabilities, other.probabilities, atol=1e-4)


GROUPED = GroupedMarginals(HALVES, (NoisyMarginal((0, 4), np.full((2, 2), 250.0), 5.0),))


@pytest.mark.parametrize("several", [pytest.param(1, marks=pytest.mark.thorough), 2])
def test_steps_recorded_on_a_card_are_those_that_are_not(several, monkeypatch):
    """A number of the program that a recording kept, or memory that is not written again, would show."""
    measured, told = tables(known(), 1000.0, 5.0), []
    monkeypatch.setattr(mixture_estimation, "_STEPS_TOGETHER", 3)
    monkeypatch.setattr(mixture_estimation, "_TOLD_EVERY", 6)
    steps = 4 * 3 + 2

    def fit() -> list[Mixture]:
        told.clear()
        seeds, report = range(several), lambda *one: told.append(one)
        return fit_mixtures(
            SIZES,
            measured,
            1000.0,
            components=4,
            steps=steps,
            seeds=seeds,
            grouped=GROUPED,
            device="cuda",
            report=report,
        )

    with pretended_card(monkeypatch):
        plain, said = fit(), list(told)
        with pretended_graphs(monkeypatch) as graphs:
            recorded = fit()
    assert (graphs.warmed, graphs.recorded, graphs.replayed) == (1, 1, 3)
    assert said == told
    assert len(told) == 3
    assert said[-1][0] == steps - 1
    for one, other in zip(plain, recorded, strict=True):
        assert one.probabilities.tobytes() == other.probabilities.tobytes()
        assert one.weights.tobytes() == other.weights.tobytes()


def test_a_card_fits_what_the_processor_fits(monkeypatch):
    """But for the rounding of float32: on a card columns are padded to one size, and start alike."""
    fit = partial(fit_mixtures, SIZES, tables(known(), 1000.0, 5.0), 1000.0, components=4, steps=10, grouped=GROUPED)
    here = fit(seeds=(1, 2))
    with pretended_card(monkeypatch):
        there = fit(seeds=(1, 2), device="cuda")
    for one, other in zip(here, there, strict=True):
        np.testing.assert_allclose(one.probabilities, other.probabilities, atol=1e-4)


def test_every_fit_side_by_side_tells_its_own_chi_square():
    measured, seen = tables(known(), 1000.0, 5.0), []
    fit_mixtures(SIZES, measured, 1000.0, components=5, steps=20, seeds=(3, 8), report=lambda *one: seen.append(one))
    for place, seed in enumerate((3, 8)):
        told = []
        settings = {"components": 5, "steps": 20, "seed": seed}
        fit_mixture(SIZES, measured, 1000.0, report=lambda *one, to=told: to.append(one), **settings)
        assert [(step, chi_squares[place]) for step, chi_squares in seen] == [
            (step, pytest.approx(chi_square, rel=1e-4)) for step, chi_square in told
        ]


@pytest.mark.thorough
def test_a_fit_goes_on_from_an_earlier_one():
    measured = tables(known(), 1000.0, 5.0)
    earlier = fit_mixture(SIZES, measured, 1000.0, components=6, steps=300)
    unmoved = fit_mixture(SIZES, measured, 1000.0, steps=0, start=earlier)
    np.testing.assert_allclose(unmoved.probabilities, earlier.probabilities, atol=1e-6)
    np.testing.assert_allclose(unmoved.weights, earlier.weights, atol=1e-6)


@pytest.mark.parametrize(
    ("sizes", "columns", "total"),
    [
        ((1,), [(0,)], 10.0),
        ((4,), [(0,)], 10.0),
        ((1, 1, 1), [(0, 1), (0, 1, 2)], 3.0),
        ((2, 3), [], 10.0),
        ((2, 300), [(0, 1)], 5.0),
        ((2, 3), [(0,), (0, 1)], 1e-3),
    ],
    ids=["one bin", "one column", "bins of one", "nothing measured", "far apart in size", "hardly a row"],
)
def test_degenerate_tables_fit_and_sample(sizes, columns, total):
    random = np.random.default_rng(0)
    measured = [NoisyMarginal(one, random.normal(0, 5, [sizes[column] for column in one]), 5.0) for one in columns]
    fitted = fit_mixture(sizes, measured, total, components=3, steps=30)
    assert np.isfinite(fitted.probabilities).all()
    everything = tuple(range(len(sizes)))
    assert fitted.marginal(everything).sum() == pytest.approx(1.0, abs=1e-12)
    for n_rows in (1, 2, 50):
        rows = fitted.sample(n_rows, np.random.default_rng(1))
        assert rows.shape == (n_rows, len(sizes))
        assert rows.dtype == np.int64
        assert (rows >= 0).all()
        assert (rows < np.array(sizes)).all()


def test_sampled_tables_follow_the_model_also_where_nothing_was_measured():
    mixture, n_rows = known(4), 200_000
    rows = mixture.sample(n_rows, np.random.default_rng(0))
    for size in (1, 2, 3):
        for columns in itertools.combinations(range(5), size):
            expected = mixture.marginal(columns)
            error = counted(rows, SIZES, columns) / n_rows - expected
            # Six standard deviations of rows drawn one by one; sorting two columns alike is off by hundreds.
            assert (np.abs(error) <= 6 * np.sqrt(expected * (1 - expected) / n_rows) + 1e-9).all(), columns


def test_rows_of_a_bin_within_a_component_number_the_floor_or_the_ceiling():
    # The first column names the component, so that the counts within it can be seen.
    mixture = known(3, (3, 4, 5))
    probabilities = mixture.probabilities.copy()
    probabilities[:, :3] = np.eye(3)
    mixture = Mixture(mixture.sizes, mixture.weights, probabilities)
    for seed, n_rows in enumerate((1, 7, 100, 12_345)):
        rows = mixture.sample(n_rows, np.random.default_rng(seed))
        per_component = counted(rows, mixture.sizes, (0,))
        assert (np.abs(per_component - n_rows * mixture.weights) < 1).all()
        for column in (1, 2):
            within = counted(rows, mixture.sizes, (0, column))
            assert (np.abs(within - per_component[:, None] * mixture.column(column)) < 1).all()


def test_few_rows_of_many_components_have_the_expected_columns():
    # Hardly a row a component: rounding each on its own would be off by several rows a bin.
    mixture, n_rows = known(300, (4, 7), peak=0.5), 200
    for seed in range(5):
        rows = mixture.sample(n_rows, np.random.default_rng(seed))
        for column in (0, 1):
            error = counted(rows, mixture.sizes, (column,)) - n_rows * mixture.marginal((column,))
            # Half a row of rounding, and what the choice of components takes away from the model.
            assert np.abs(error).max() < 2.5


def test_components_of_few_rows_and_many_bins_give_up_no_row_that_they_do_not_have():
    """Most chances of a move are next to none here, and a component without such a row was chosen all the same."""
    for seed in range(3):
        random = np.random.default_rng(seed)
        probabilities = np.maximum(random.dirichlet(np.full(80, 0.02), 200), 1e-60)
        mixture = Mixture((80,), random.dirichlet(np.ones(200)), probabilities)
        rows = mixture.sample(5_000, random)
        error = counted(rows, (80,), (0,)) - 5_000 * mixture.marginal((0,))
        assert np.abs(error).max() < 2.5, seed


def test_rows_come_in_no_order():
    mixture = known(3, (3, 4))
    rows = mixture.sample(10_000, np.random.default_rng(0))
    halves = [counted(half, mixture.sizes, (0, 1)) / 5_000 for half in (rows[:5_000], rows[5_000:])]
    np.testing.assert_allclose(*halves, atol=0.04)


def test_a_state_samples_the_same_bytes():
    mixture = fit_mixture(SIZES, tables(known(), 1000.0, 5.0), 1000.0, components=5, steps=20)
    again = Mixture.from_state(SIZES, {name: array.copy(order="F") for name, array in mixture.state().items()})
    drawn = [one.sample(1_000, np.random.default_rng(5)).tobytes() for one in (mixture, again)]
    assert drawn[0] == drawn[1]


def test_a_mixture_of_another_shape_is_refused():
    with pytest.raises(ValueError, match="one row a component"):
        Mixture((2, 2), np.ones(1), np.ones((1, 3)))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device on this machine")
def test_cuda_fits_like_the_cpu_and_like_itself():
    measured = tables(known(), 10_000.0, 5.0)
    on_cpu, on_cuda, again = (
        fit_mixture(SIZES, measured, 10_000.0, components=12, device=device) for device in ("cpu", "cuda", "cuda")
    )
    assert on_cuda.probabilities.tobytes() == again.probabilities.tobytes()
    assert 0.5 * np.abs(joint(on_cuda) - joint(on_cpu)).sum() < 0.01


@pytest.mark.thorough
def test_a_fit_to_groups_of_bins_agrees_with_them_and_leaves_the_columns_fine():
    truth, total = known(), 10_000.0
    groups = tuple(np.arange(size, dtype=np.int32) // 2 for size in SIZES)
    singles = [(column,) for column in range(5)]
    pairs = list(itertools.combinations((0, 2, 3, 4), 2))

    def coarse(table: np.ndarray, columns: tuple[int, ...]) -> np.ndarray:
        for axis, column in enumerate(columns):
            table = np.stack(
                [
                    table.take(np.flatnonzero(groups[column] == one), axis).sum(axis)
                    for one in range(groups[column].max() + 1)
                ],
                axis,
            )
        return table

    fine = tables(truth, total, 1e-6, columns=pairs)
    grouped = GroupedMarginals(
        groups, tuple(NoisyMarginal(one.columns, coarse(one.table, one.columns), 5.0) for one in fine)
    )
    assert grouped.sizes == (2, 1, 2, 1, 2)
    fitted = fit_mixture(SIZES, tables(truth, total, 5.0, columns=singles), total, components=12, grouped=grouped)
    for one in grouped.measured:
        np.testing.assert_allclose(total * coarse(fitted.marginal(one.columns), one.columns), one.table, atol=40.0)
    for column in singles:
        np.testing.assert_allclose(fitted.marginal(column), truth.marginal(column), atol=0.005)
    # What only finer pairs tell is not there, and what the groups tell is.
    pair = (0, 2)
    independent = np.outer(truth.marginal((0,)), truth.marginal((2,)))
    assert np.abs(coarse(fitted.marginal(pair) - independent, pair)).sum() > 0.02
