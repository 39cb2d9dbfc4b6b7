"""The Markov random field against enumeration: objective, fit, tables, rows."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pretended_card import Traffic, pretended_card
from pretended_graphs import pretended_graphs

from synth.models import markov_random_field as field_sampling
from synth.models.junction_tree import JunctionTree
from synth.models.marginals import NoisyMarginal, pooled
from synth.models.markov_random_field import MarkovRandomField
from synth.models.mrf_estimation import _Dual, fit_markov_random_field
from synth.models.shrinkage import PRIOR, SpreadPrior

SIZES = (3, 1, 4, 2, 3)
# Two loops, a triple, a column of one bin, and one column that stands alone.
COLUMNS = [(0,), (1,), (2,), (3,), (4,), (0, 2), (2, 3), (0, 3), (1, 3)]
TRUSTING = SpreadPrior((1e6,), (1.0,), loose=1e-9)
"""A prior that believes every count."""


def summed(joint: np.ndarray, columns: tuple[int, ...]) -> np.ndarray:
    return joint.sum(axis=tuple(axis for axis in range(joint.ndim) if axis not in columns))


def some_joint(sizes=SIZES, seed: int = 0, peak: float = 1.0) -> np.ndarray:
    table = np.exp(peak * np.random.default_rng(seed).standard_normal(sizes))
    return table / table.sum()


def tables(joint: np.ndarray, columns, total: float, std: float, seed: int = 1) -> list[NoisyMarginal]:
    """Noisy tables; without believed counts of their own."""
    random = np.random.default_rng(seed)
    exact = [summed(joint, one) for one in columns]
    return [
        NoisyMarginal(one, total * table + std * random.standard_normal(table.shape), max(std, 1e-3))
        for one, table in zip(columns, exact, strict=True)
    ]


def dual_of(sizes, measured: list[NoisyMarginal], total: float) -> _Dual:
    tree = JunctionTree.of(sizes, [one.columns for one in measured])
    return _Dual(tree, measured, total, PRIOR, "cpu")


def spread(table: np.ndarray, columns, sizes) -> np.ndarray:
    return table.reshape([size if column in columns else 1 for column, size in enumerate(sizes)])


def everything(model: MarkovRandomField) -> np.ndarray:
    """The whole joint table of a field, from its cliques and separators by the formula of its docstring."""
    joint = np.ones(model.sizes)
    tree = model.tree
    for clique, belief in zip(tree.cliques, model.beliefs, strict=True):
        joint = joint * spread(belief, clique, model.sizes)
    for clique, separator in zip(tree.cliques, tree.separators, strict=True):
        home = model.beliefs[tree.cliques.index(clique)]
        shared = home.sum(axis=tuple(axis for axis, column in enumerate(clique) if column not in separator))
        divided = spread(np.asarray(shared), separator, model.sizes)
        joint = np.divide(joint, divided, out=np.zeros(model.sizes), where=divided > 0)
    return joint


@st.composite
def problems(draw: st.DrawFn):
    """Some columns, and tables over them, every column by itself included."""
    sizes = tuple(draw(st.lists(st.integers(1, 4), min_size=1, max_size=6)))
    columns = st.integers(0, len(sizes) - 1)
    several = draw(st.sets(st.sets(columns, min_size=1, max_size=3).map(lambda one: tuple(sorted(one))), max_size=7))
    alone = [(column,) for column in range(len(sizes))]
    seed = draw(st.integers(0, 1000))
    measured = tables(some_joint(sizes, seed), [*alone, *sorted(one for one in several if len(one) > 1)], 400.0, 6.0)
    return sizes, measured, seed


# The objective


def by_enumeration(dual: _Dual, sizes, measured: list[NoisyMarginal], theta: np.ndarray) -> tuple[float, np.ndarray]:
    """The objective of ``fit_markov_random_field`` and its gradient, from the whole joint table."""
    ends = np.cumsum([one.table.size for one in measured])[:-1]
    factors = [part.reshape(one.table.shape) for one, part in zip(measured, np.split(theta, ends), strict=True)]
    logs = np.zeros(sizes)
    for one, factor in zip(measured, factors, strict=True):
        logs = logs + spread(factor, one.columns, sizes)
    joint = np.exp(logs - logs.max())
    normaliser = math.log(joint.sum()) + logs.max()
    joint /= joint.sum()
    away = theta - dual.centre
    pull = dual.ridge * away
    answers = np.concatenate([one.table.reshape(-1) for one in measured])
    counts = dual.total * np.concatenate([summed(joint, one.columns).reshape(-1) for one in measured])
    return dual.total * normaliser - theta @ answers + 0.5 * away @ pull, counts - answers + pull


@pytest.mark.thorough
@settings(max_examples=60)
@given(problems(), st.sampled_from([0.1, 1.0, 30.0]))
def test_objective_and_gradient_equal_enumeration(problem, scale):
    sizes, measured, seed = problem
    dual = dual_of(sizes, measured, 350.0)
    cells = sum(one.table.size for one in measured)
    theta = scale * np.random.default_rng(seed).standard_normal(cells)
    value, gradient = dual.value(theta)
    expected, slope = by_enumeration(dual, sizes, measured, theta)
    assert value == pytest.approx(expected, rel=1e-10, abs=1e-8)
    np.testing.assert_allclose(gradient, slope, rtol=1e-9, atol=1e-8 * 350.0)


def test_large_tables_equal_enumeration():
    # Beyond some thousand cells sums are made another way.
    sizes = (40, 3, 90)
    measured = tables(some_joint(sizes), [(0,), (1,), (2,), (0, 2), (0, 1)], 5000.0, 3.0)
    dual = dual_of(sizes, measured, 5000.0)
    theta = np.random.default_rng(0).standard_normal(sum(one.table.size for one in measured))
    value, gradient = dual.value(theta)
    expected, slope = by_enumeration(dual, sizes, measured, theta)
    assert value == pytest.approx(expected, rel=1e-12)
    np.testing.assert_allclose(gradient, slope, rtol=1e-9, atol=1e-8)


def test_gradient_agrees_with_differences():
    measured = tables(some_joint(), COLUMNS, 300.0, 5.0)
    dual = dual_of(SIZES, measured, 300.0)
    theta = np.random.default_rng(2).standard_normal(sum(one.table.size for one in measured))
    _, gradient = dual.value(theta)
    for cell in range(len(theta)):
        step = np.zeros_like(theta)
        step[cell] = 1e-5
        slope = (dual.value(theta + step)[0] - dual.value(theta - step)[0]) / 2e-5
        assert slope == pytest.approx(float(gradient[cell]), rel=1e-5, abs=1e-4)


# The fit


def proportionally_fitted(sizes, wanted: list[tuple[tuple[int, ...], np.ndarray]], sweeps: int = 3000) -> np.ndarray:
    """The joint table of greatest entropy with given tables: iterative proportional fitting from an even one."""
    joint = np.full(sizes, 1 / math.prod(sizes))
    for _ in range(sweeps):
        for columns, table in wanted:
            joint = joint * spread(table / summed(joint, columns), columns, sizes)
    return joint


def test_exact_tables_are_reproduced_by_the_distribution_of_greatest_entropy():
    truth, total = some_joint(peak=0.7), 1e7
    fitted = fit_markov_random_field(SIZES, tables(truth, COLUMNS, total, 0.0), total, prior=TRUSTING, steps=1000)
    for columns in COLUMNS:
        np.testing.assert_allclose(fitted.marginal(columns), summed(truth, columns), atol=2e-5)
    expected = proportionally_fitted(SIZES, [(columns, summed(truth, columns)) for columns in COLUMNS])
    joint = everything(fitted)
    assert 0.5 * np.abs(joint - expected).sum() < 1e-4
    # Which is another distribution than the one the tables were made of.
    assert 0.5 * np.abs(truth - expected).sum() > 0.05


def test_what_was_measured_of_columns_alone_stays_independent():
    truth = some_joint()
    fitted = fit_markov_random_field(
        SIZES, tables(truth, [(column,) for column in range(5)], 1e6, 0.0), 1e6, prior=TRUSTING
    )
    product = np.ones(())
    for column in range(5):
        product = product[..., None] * summed(truth, (column,))
    np.testing.assert_allclose(everything(fitted), product, atol=1e-6)


@settings(max_examples=25)
@given(problems())
def test_at_the_optimum_counts_are_answers_less_the_pull_of_the_ridge(problem):
    sizes, measured, _ = problem
    total = 400.0
    fitted = fit_markov_random_field(sizes, measured, total, steps=2000)
    dual = dual_of(sizes, measured, total)
    theta = np.concatenate([fitted.weights[one.columns].reshape(-1) for one in measured])
    pulled = np.split(dual.ridge * (theta - dual.centre), np.cumsum([m.table.size for m in measured])[:-1])
    for one, pull in zip(measured, pulled, strict=True):
        counts = total * fitted.marginal(one.columns)
        error = counts - (one.table - pull.reshape(one.table.shape))
        # The fit stops where half a thousandth of a nat is left.
        assert np.abs(error).max() < 0.1 * np.sqrt(counts.max() + one.noise_std**2)


@settings(max_examples=15)
@given(problems())
def test_a_later_fit_from_an_earlier_one_ends_where_one_from_nothing_does(problem):
    sizes, measured, _ = problem
    total = 400.0
    earlier = fit_markov_random_field(sizes, measured[: max(len(measured) // 2, 1)], total)
    warm = fit_markov_random_field(sizes, measured, total, start=earlier, steps=2000)
    cold = fit_markov_random_field(sizes, measured, total, steps=2000)
    for one in measured:
        np.testing.assert_allclose(total * warm.marginal(one.columns), total * cold.marginal(one.columns), atol=1.5)


def test_a_fit_that_is_done_is_left_where_it_is():
    measured = tables(some_joint(), COLUMNS, 1000.0, 5.0)
    done = fit_markov_random_field(SIZES, measured, 1000.0, steps=1000)
    told: list[int] = []
    again = fit_markov_random_field(SIZES, measured, 1000.0, start=done, report=lambda step, _: told.append(step))
    for columns in COLUMNS:
        np.testing.assert_allclose(again.marginal(columns), done.marginal(columns), atol=1e-3)
    assert told


def test_answers_to_one_question_count_as_their_weighted_mean():
    random = np.random.default_rng(0)
    first, second, third = (NoisyMarginal((0, 2), random.normal(50, 10, (3, 4)), std) for std in (2.0, 5.0, 10.0))
    precision = 1 / 4 + 1 / 25 + 1 / 100
    (pool,) = pooled([first, second, third])
    np.testing.assert_allclose(pool.table, (first.table / 4 + second.table / 25 + third.table / 100) / precision)
    assert pool.noise_std == pytest.approx(precision**-0.5)

    rest = tables(some_joint(), [(column,) for column in range(5)], 600.0, 3.0)
    separate = fit_markov_random_field(SIZES, [first, *rest, second, third], 600.0)
    together = fit_markov_random_field(SIZES, [pool, *rest], 600.0)
    np.testing.assert_allclose(separate.marginal((0, 2)), together.marginal((0, 2)), atol=1e-12)


def test_pooled_answers_keep_what_was_believed_before_any_of_them():
    believed = [np.full((3,), level) for level in (1.0, 2.0)]
    answers = [NoisyMarginal((1,), np.zeros(3), 1.0, one) for one in believed]
    assert pooled(answers)[0].believed is believed[0]
    only = NoisyMarginal((0,), np.zeros(2), 1.0)
    assert pooled([*answers, only])[1] is only


def test_counts_near_what_was_believed_are_trusted_less():
    alone = [NoisyMarginal((column,), np.array([50.0, 50.0]), 1.0) for column in (0, 1)]
    believed = np.full((2, 2), 25.0)
    prior = SpreadPrior((0.1, 1.0), (0.9, 0.1))

    def moved(far: float) -> float:
        answer = NoisyMarginal((0, 1), believed + far * np.array([[1, -1], [-1, 1]]), 10.0, believed)
        fitted = fit_markov_random_field((2, 2), [*alone, answer], 100.0, prior=prior)
        return (100 * fitted.marginal((0, 1))[0, 0] - 25) / far

    near, plain = moved(4.0), moved(20.0)
    assert 0 < near < 0.3
    assert plain < 1
    assert fit_markov_random_field((2, 2), alone, 100.0).marginal((0, 1))[0, 0] == pytest.approx(0.25)


@pytest.mark.parametrize(
    ("sizes", "measured", "total"),
    [
        ((1,), [NoisyMarginal((0,), np.array([3.0]), 1.0)], 3.0),
        ((4,), [NoisyMarginal((0,), np.array([3.0, -2.0, 0.0, 9.0]), 1.0)], 10.0),
        ((1, 1), [NoisyMarginal((0,), np.array([3.0]), 1.0), NoisyMarginal((0, 1), np.array([[-5.0]]), 1.0)], 3.0),
        ((2, 3), [NoisyMarginal((0,), np.zeros(2), 5.0), NoisyMarginal((0, 1), np.zeros((2, 3)), 5.0)], 10.0),
        ((2, 3), [NoisyMarginal((1,), np.full(3, -7.0), 5.0), NoisyMarginal((0, 1), np.full((2, 3), -9.0), 5.0)], 10.0),
        ((2, 3), [NoisyMarginal((0,), np.array([1e-3, 0]), 1e3), NoisyMarginal((0, 1), np.ones((2, 3)), 1e4)], 1e-3),
        ((2, 3), [NoisyMarginal((0,), np.array([1e9, 0]), 1e-6), NoisyMarginal((0, 1), np.ones((2, 3)), 1e-6)], 1.0),
        ((2, 3), [NoisyMarginal((0,), np.array([1.0, 2.0]), 1.0)], 3.0),
        ((2, 300), [NoisyMarginal((0, 1), np.random.default_rng(0).normal(0, 50, (2, 300)), 50.0)], 5.0),
        ((2, 2), [NoisyMarginal((0, 1), np.array([[1e6, 0.0], [0.0, 1e6]]), 1.0)], 2e6),
    ],
    ids=[
        "one bin", "one column", "bins of one", "zeros", "negative", "hardly a row", "at odds with the total",
        "a column unmeasured", "far apart in size", "two columns in step",
    ],
)  # fmt: skip
def test_degenerate_tables_fit_and_sample(sizes, measured, total):
    for fitted in (
        fit_markov_random_field(sizes, measured, total),
        fit_markov_random_field(sizes, measured, total, steps=1),
    ):
        for belief in fitted.beliefs:
            assert np.isfinite(belief).all()
            assert (belief >= 0).all()
            assert belief.sum() == pytest.approx(1.0, abs=1e-9)
        again = fit_markov_random_field(sizes, measured, total, start=fitted, steps=20)
        assert again.marginal((0,)).sum() == pytest.approx(1.0, abs=1e-9)
        for n_rows in (1, 2, 50):
            rows = fitted.sample(n_rows, np.random.default_rng(1))
            assert rows.shape == (n_rows, len(sizes))
            assert rows.dtype == np.int64
            assert (rows >= 0).all()
            assert (rows < np.array(sizes)).all()


# Tables


@pytest.mark.thorough
@settings(max_examples=40)
@given(problems())
def test_tables_of_pairs_equal_enumeration_wherever_the_columns_stand(problem):
    sizes, measured, _ = problem
    fitted = fit_markov_random_field(sizes, measured, 400.0, steps=30)
    joint = everything(fitted)
    assert joint.sum() == pytest.approx(1.0, abs=1e-9)
    pairs = list(itertools.combinations(range(len(sizes)), 2))
    found = fitted.tables(pairs)
    assert sorted(found) == pairs
    for pair in pairs:
        np.testing.assert_allclose(found[pair], summed(joint, pair), atol=1e-9)
        np.testing.assert_allclose(fitted.marginal(pair), found[pair], atol=1e-15)
    for column in range(len(sizes)):
        np.testing.assert_allclose(fitted.marginal((column,)), summed(joint, (column,)), atol=1e-9)


@settings(max_examples=20)
@given(problems())
def test_tables_of_three_columns_equal_enumeration_wherever_the_columns_stand(problem):
    sizes, measured, _ = problem
    fitted = fit_markov_random_field(sizes, measured, 400.0, steps=30)
    joint = everything(fitted)
    triples = list(itertools.combinations(range(len(sizes)), 3))
    found = fitted.tables(triples)
    for triple in triples:
        np.testing.assert_allclose(found[triple], summed(joint, triple), atol=1e-9)
        np.testing.assert_allclose(fitted.marginal(triple), found[triple], atol=1e-15)


# Rows


def chain(seed: int = 3) -> MarkovRandomField:
    """Five columns, each tied to the one before; two of them to a third as well."""
    sizes = (4, 5, 3, 6, 4)
    random = np.random.default_rng(seed)
    joint = random.dirichlet(np.ones(sizes[0]))
    for before, size in itertools.pairwise(sizes):
        joint = joint[..., None] * random.dirichlet(np.full(size, 0.7), before)
    columns = [*((column,) for column in range(5)), *((column, column + 1) for column in range(4)), (0, 2)]
    return fit_markov_random_field(sizes, tables(joint, columns, 1e6, 0.0), 1e6, prior=TRUSTING, steps=500)


def counted(rows: np.ndarray, sizes, columns) -> np.ndarray:
    shape = [sizes[column] for column in columns]
    flat = np.ravel_multi_index([rows[:, column] for column in columns], shape)
    return np.bincount(flat, minlength=math.prod(shape)).reshape(shape)


@pytest.mark.parametrize("n_rows", [1, 7, 100, 12_345])
def test_rows_that_agree_in_what_is_given_are_about_as_many_as_expected(n_rows):
    fitted = chain()
    rows = fitted.sample(n_rows, np.random.default_rng(n_rows))
    root = fitted.tree.cliques[fitted.tree.order[0]]
    first = n_rows * fitted.marginal(root[:1])
    assert (np.abs(counted(rows, fitted.sizes, root[:1]) - first) < 1).all()
    known = [root[0]]
    for clique in fitted.tree.order:
        columns = fitted.tree.cliques[clique]
        for column in columns:
            if column in known:
                continue
            given = tuple(sorted(one for one in columns if one in known))
            both = tuple(sorted((*given, column)))
            table = np.moveaxis(fitted.marginal(both), both.index(column), -1)
            chances = table / table.sum(axis=-1, keepdims=True)
            found = np.moveaxis(counted(rows, fitted.sizes, both), both.index(column), -1)
            # Each of up to three divisions into halves rounds once, and passes on a part of what came before.
            assert (np.abs(found - found.sum(axis=-1, keepdims=True) * chances) < 2).all()
            known.append(column)


def test_what_one_group_rounds_up_the_next_ones_round_down():
    """Of two values, all groups up to any one have the floor or the ceiling; of more, all groups nearly so."""
    random = np.random.default_rng(0)
    counts = random.integers(1, 4, 5_000)
    for n_values, most in ((2, 1.0), (7, 25.0)):
        chances = random.dirichlet(np.ones(n_values), 5_000)
        found = field_sampling._apportioned(chances, counts, random)
        assert (found.sum(axis=1) == counts).all()
        assert (found >= 0).all()
        strayed = np.cumsum(found - counts[:, None] * chances, axis=0)
        assert np.abs(strayed[-1]).max() < most  # each group rounded on its own: about the root of 5,000
        if n_values == 2:
            assert np.abs(strayed).max() < 1 + 1e-6


def test_no_row_gets_a_value_that_it_cannot_have():
    chances = np.tile([0.0, 0.3, 0.0, 0.7, 0.0], (20_000, 1))
    found = field_sampling._apportioned(chances, np.ones(20_000, dtype=np.int64), np.random.default_rng(0))
    assert not found[:, [0, 2, 4]].any()
    nothing = field_sampling._apportioned(np.zeros((1, 5)), np.array([10]), np.random.default_rng(0))
    assert nothing.sum() == 10
    assert nothing.max() <= 4


def far_from_the_model(fitted: MarkovRandomField, seed: int = 0, n_rows: int = 50_000) -> float:
    """Largest error of a table of columns that share no clique, in standard deviations of rows drawn one by one."""
    rows = fitted.sample(n_rows, np.random.default_rng(seed))
    joint = everything(fitted)
    errors = []
    for size in (2, 3):
        for columns in itertools.combinations(range(5), size):
            if fitted.tree.home(columns) is None:
                expected = summed(joint, columns)
                error = counted(rows, fitted.sizes, columns) / n_rows - expected
                errors.append(np.abs(error) / (np.sqrt(expected * (1 - expected) / n_rows) + 1e-9 + 1 / n_rows))
    return max(float(error.max()) for error in errors)


def test_tables_that_nothing_measured_follow_the_model():
    assert max(far_from_the_model(chain(), seed) for seed in range(3)) < 6


def test_rows_whose_values_come_in_order_would_be_noticed(monkeypatch):
    """A sampler that leaves the values of each group sorted ties all children of a column to each other."""

    def in_order(chances, counts, random):
        edges = np.floor(np.cumsum(chances, axis=1) / chances.sum(axis=1, keepdims=True) * counts[:, None] + 0.5)
        edges[:, -1] = counts
        repeats = np.diff(np.minimum(edges, counts[:, None]), prepend=0, axis=1).astype(int).reshape(-1)
        return np.repeat(np.tile(np.arange(chances.shape[1]), len(counts)), repeats)

    monkeypatch.setattr(field_sampling, "_dealt", in_order)
    assert far_from_the_model(chain()) > 20


def test_unmeasured_triples_are_nearer_than_rows_drawn_one_by_one():
    fitted, n_rows = chain(), 4_000
    joint = everything(fitted)
    triples = [one for one in itertools.combinations(range(5), 3) if fitted.tree.home(one) is None]

    def error(rows: np.ndarray) -> float:
        return float(
            np.mean([np.abs(counted(rows, fitted.sizes, one) / n_rows - summed(joint, one)).sum() for one in triples])
        )

    random = np.random.default_rng(5)
    spread_out = np.mean([error(fitted.sample(n_rows, random)) for _ in range(5)])
    cells = [random.choice(joint.size, n_rows, p=joint.reshape(-1) / joint.sum()) for _ in range(5)]
    by_chance = np.mean([error(np.stack(np.unravel_index(one, fitted.sizes), axis=1)) for one in cells])
    assert spread_out < 0.85 * by_chance


def test_rows_come_in_no_order():
    fitted = chain()
    rows = fitted.sample(20_000, np.random.default_rng(0))
    halves = [counted(half, fitted.sizes, (0, 4)) / 10_000 for half in (rows[:10_000], rows[10_000:])]
    np.testing.assert_allclose(*halves, atol=0.03)


def test_a_state_samples_the_same_bytes_in_whatever_order_it_was_kept():
    fitted = chain()
    state = {name: array.copy(order="F") for name, array in fitted.state().items()}
    drawn = fitted.sample(3_000, np.random.default_rng(5)).tobytes()
    for names in (list(state), list(reversed(state)), sorted(state)):
        again = MarkovRandomField.from_state(fitted.sizes, {name: state[name] for name in names})
        assert again.sample(3_000, np.random.default_rng(5)).tobytes() == drawn
        np.testing.assert_array_equal(again.marginal((0, 4)), fitted.marginal((0, 4)))
    assert fitted.sample(3_000, np.random.default_rng(6)).tobytes() != drawn


def test_a_card_is_waited_for_once_in_an_evaluation_and_what_lies_between_is_recorded(monkeypatch):
    measured = tables(some_joint(), COLUMNS, 10_000.0, 10.0)
    cells = np.arange(3)[:, None] // 2 * 2 + np.arange(4) // 2
    measured.append(NoisyMarginal((0, 2), np.array([[4200.0, 2100.0], [1500.0, 2200.0]]), 40.0, cells=cells))
    here = fit_markov_random_field(SIZES, measured, 10_000.0, steps=6)
    evaluations, right = [], _Dual.value

    def counted(dual: _Dual, theta: np.ndarray) -> tuple[float, np.ndarray]:
        evaluations.append(theta.size)
        return right(dual, theta)

    monkeypatch.setattr(_Dual, "value", counted)

    def fitted(steps: int) -> tuple[MarkovRandomField, Traffic, int]:
        evaluations.clear()
        with pretended_card(monkeypatch) as traffic:
            made = fit_markov_random_field(SIZES, measured, 10_000.0, steps=steps, device="cuda")
        return made, traffic, len(evaluations)

    (_, few, some), (there, more, others) = fitted(2), fitted(6)
    assert others > some
    assert more.uploads - few.uploads == more.downloads - few.downloads == others - some
    assert more.waits == few.waits == 0, more.by_name
    with pretended_graphs(monkeypatch) as graphs:
        recorded = fitted(6)[0]
    assert (graphs.warmed, graphs.recorded, graphs.replayed) == (1, 1, others - 1)
    for clique, one in enumerate(there.beliefs):
        assert one.tobytes() == recorded.beliefs[clique].tobytes()
        np.testing.assert_allclose(one, here.beliefs[clique], atol=1e-9)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device on this machine")
def test_cuda_fits_like_the_cpu():
    measured = tables(some_joint(), COLUMNS, 10_000.0, 5.0)
    on_cpu, on_cuda = (
        fit_markov_random_field(SIZES, measured, 10_000.0, steps=500, device=device) for device in ("cpu", "cuda")
    )
    for columns in COLUMNS:
        np.testing.assert_allclose(on_cuda.marginal(columns), on_cpu.marginal(columns), atol=2e-4)
