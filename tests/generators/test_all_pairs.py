"""Dense tables: they are told from others by one small question, and all their pairs are counted in one."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from choosing import each_once
from safetensors.numpy import load, save
from simulated import check_domain, no_sets, session, task

from synth import generators
from synth.bundle.recorded_session import RecordedSession
from synth.generators.adaptive import all_pairs, dp_hp_adaptive, pairs_look, whole_rows
from synth.generators.adaptive.coarsening import Coarseness, coarsen, grouped
from synth.generators.adaptive.dp_hp_adaptive import DpHpAdaptive
from synth.generators.adaptive.pairs_look import halves, noise_of_all_pairs, relations_left
from synth.generators.one_way_marginals import measure_one_way_marginals
from synth.models import mixture_estimation
from synth.models.mixture import Mixture
from synth.privacy.session import PrivateSession
from synth.progress import NullProgress
from synth.schema import CategoryColumn, NumberColumn, Schema

NAME = DpHpAdaptive.card.name
LOOK, ALL = "which columns go together", "all pairs of columns"


def declared(row_count: str = "public") -> Schema:
    numbers = tuple(NumberColumn(f"n{d}", 0, 39, 1) for d in range(6))
    return Schema((*numbers, CategoryColumn("kind", ("a", "b", "c"))), row_count=row_count)


def numbers_of(correlations: np.ndarray, n_rows: int = 6000) -> dict[str, np.ndarray]:
    """Normal numbers in equal places, and a category that the last of them tells."""
    random = np.random.default_rng(3)
    drawn = random.multivariate_normal(np.zeros(7), correlations, n_rows)
    codes = {f"n{d}": np.clip((drawn[:, d] + 3) * 40 / 6, 0, 39).astype(int) for d in range(6)}
    return codes | {"kind": np.digitize(drawn[:, 6], [-0.4, 0.4])}


def dense() -> np.ndarray:
    """Correlations that no few pairs imply."""
    factors = np.random.default_rng(5).normal(size=(7, 4))
    covariances = factors @ factors.T + 0.3 * np.eye(7)
    scale = np.sqrt(np.diag(covariances))
    return np.asarray(covariances / np.outer(scale, scale))


def chain() -> np.ndarray:
    """Correlations of a chain: neighbours imply all others."""
    return np.asarray(0.7 ** np.abs(np.subtract.outer(np.arange(7), np.arange(7))))


def halved(correlations: np.ndarray) -> np.ndarray:
    """Correlations of the halves of normal columns (Sheppard 1899)."""
    return np.asarray(2 / np.pi * np.arcsin(np.clip(correlations, -1.0, 1.0)))


def fitted(opened: PrivateSession | RecordedSession, **options: object) -> DpHpAdaptive:
    made = generators.make(NAME, task(opened.schema, "kind"), {"bins": 16, "cells": 8000, **options})
    return made.fit(opened, NullProgress())


@pytest.fixture(autouse=True)
def few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(all_pairs, "_STEPS", 40)
    monkeypatch.setattr(all_pairs, "_MORE", ())
    monkeypatch.setattr(all_pairs, "_FITS", 2)
    monkeypatch.setattr(all_pairs, "_COMPONENTS", 16)


def left(correlations: np.ndarray, *, noise: float = 0.0, cells: int = 5000, tables: float = 20.0) -> float:
    n = len(correlations)
    random = np.random.default_rng(0)
    drawn = np.triu(random.normal(0, max(noise, 1e-12), (n, n)), 1)
    return relations_left(
        halved(correlations) + drawn + drawn.T,
        noise,
        np.ones(n),
        sizes=(16,) * n,
        cells=cells,
        tables=tables,
    )


def test_a_chain_is_held_whole_and_a_dense_table_is_not():
    assert left(chain(), cells=8000) < 1e-9
    assert left(dense()) > 0.05
    # With cells for everything nothing is left; without tables all is, but for the diagonal.
    assert left(dense(), cells=10**9, tables=100) < 1e-6
    upper = np.triu_indices(7, 1)
    assert left(dense(), tables=0) == pytest.approx(np.sqrt((halved(dense())[upper] ** 2).mean()))


def test_noise_is_not_taken_for_relations():
    assert left(np.eye(7), noise=0.05) == 0.0
    assert left(dense(), noise=0.02) == pytest.approx(left(dense()), rel=0.3)


@pytest.mark.thorough
def test_the_look_knows_covariances_of_halves_within_classes():
    opened = session(declared(), numbers_of(dense()), epsilon=50.0)
    asked: dict[str, object] = {}
    with pytest.MonkeyPatch.context() as patch:

        def kept(covariances, noise, deviations, **more):
            asked.update(covariances=covariances, noise=noise, deviations=deviations, **more)
            return 0.0

        patch.setattr(pairs_look, "relations_left", kept)
        made = fitted(opened)
    codes = numbers_of(dense())
    signs = np.stack([halves(one)[one.bins[codes[f"n{d}"]]] for d, one in enumerate(made._bins[:6])])
    within = np.mean([np.cov(signs[:, codes["kind"] == kind]) for kind in range(3)], axis=0)
    upper = np.triu_indices(6, 1)
    np.testing.assert_allclose(asked["covariances"][upper], within[upper], atol=0.05)  # long rows are clipped
    np.testing.assert_allclose(asked["deviations"], np.sqrt(np.diag(within)), atol=0.05)  # long rows are clipped
    # The label takes its part of the cells.
    assert asked["cells"] == 8000 // 3


@pytest.mark.parametrize(
    ("then", "row_count"), each_once(["never", "all pairs again", "whole rows"], ["public", "private"])
)
def test_a_dense_table_is_asked_for_all_pairs_at_once(row_count, then, monkeypatch):
    if then == "never":
        monkeypatch.setattr(dp_hp_adaptive, "_CLEAR_WHOLE_ROWS", math.inf)
    monkeypatch.setattr(dp_hp_adaptive, "STANDS_OUT", math.inf if then == "all pairs again" else -math.inf)
    opened = session(declared(row_count), numbers_of(dense()), epsilon=3.0)
    made = fitted(opened)
    queries = [receipt.query for receipt in opened.receipts]
    place = queries.index(ALL)
    assert queries[place - 1] == LOOK
    assert not any(query.startswith("choice 1") for query in queries)
    following = queries[place + 1 :]
    if then == "never":
        assert following == []
    else:
        assert following[0] == "choice of wide table 1"
        assert following[1].startswith("wide table 1: ")
    if then == "all pairs again":
        assert following[2:] == [f"{ALL} again"]
    if then == "whole rows":
        assert following[2] == "choice of wide table 2"
    assert opened.remaining_share < 1e-8
    parts = next(one for one in opened.sums if one.receipt.query == ALL).feature_map.parts
    assert [part.columns for part in parts] == list(itertools.combinations(opened.schema.names, 2))
    # The same answers, the same model; a saved model draws the same rows.
    recorded = RecordedSession(opened.schema, opened.budget, rows=opened.rows, answers=opened.answers)
    again = fitted(recorded)
    saved = load(save(made.state()))
    restored = DpHpAdaptive.from_state(made._task, made._options, saved)
    rows = made.sample(500, 4)
    check_domain(rows, opened.schema, 500)
    for other in (again, restored):
        np.testing.assert_array_equal(rows, other.sample(500, 4))


@pytest.mark.thorough
@pytest.mark.parametrize("correlations", [chain(), np.eye(7)], ids=["chain", "nothing"])
def test_other_tables_are_asked_round_by_round(correlations):
    opened = session(declared(), numbers_of(correlations), epsilon=3.0)
    fitted(opened)
    queries = [receipt.query for receipt in opened.receipts]
    assert LOOK in queries
    assert ALL not in queries
    assert "choice 1" in queries


@pytest.mark.thorough
@pytest.mark.parametrize("correlations", [dense(), chain()], ids=["dense", "chain"])
def test_a_label_of_two_classes_is_looked_at_before_it_is_asked_for(correlations):
    is_dense = correlations[0, 2] != pytest.approx(0.49)
    codes = numbers_of(correlations)
    codes["kind"] = (codes["kind"] > 0).astype(int)
    schema = Schema((*declared().columns[:-1], CategoryColumn("kind", ("a", "b"))), row_count="public")
    opened = session(schema, codes, epsilon=3.0)
    fitted(opened)
    queries = [receipt.query for receipt in opened.receipts]
    assert queries[queries.index(LOOK) - 1].startswith("one-way tables")
    assert queries[queries.index(LOOK) + 1] == (ALL if is_dense else "tables by label")
    # A dense table's label is one of its columns, and asked for once.
    assert ("tables by label" in queries) != is_dense


def test_what_a_label_tells_is_not_missing():
    # All columns follow the last one and nothing else.
    loadings = np.array([0.6, 0.5, 0.7, 0.6, 0.5, 1.0])
    correlations = np.outer(loadings, loadings)
    np.fill_diagonal(correlations, 1.0)
    arguments = {"noise": 0.0, "deviations": np.ones(6), "sizes": (16,) * 6, "cells": 5000, "tables": 0}
    assert relations_left(halved(correlations), **arguments) > 0.1
    assert relations_left(halved(correlations), **arguments, hub=5) < 1e-9


def test_two_columns_that_are_nearly_one_are_told_by_their_table():
    """As two times a few minutes apart are: no two normal columns go together as closely as their halves do."""
    correlations = np.eye(6)
    correlations[0, 1] = correlations[1, 0] = 0.999
    correlations[3, 4] = correlations[4, 3] = -0.99
    arguments = {"noise": 1e-3, "deviations": np.ones(6), "sizes": (16,) * 6, "cells": 5000, "tables": 20}
    assert relations_left(halved(correlations), **arguments) < 1e-3
    assert left(dense()) > 0.05


@pytest.mark.thorough
@pytest.mark.parametrize("model", ["field", "mixture"])
def test_nothing_is_looked_at_where_a_model_was_chosen(model):
    opened = session(declared(), numbers_of(chain(), 1500), epsilon=3.0)
    fitted(opened, model=model)
    assert LOOK not in [receipt.query for receipt in opened.receipts]


@pytest.mark.thorough
def test_nothing_is_looked_at_where_noise_would_hide_every_pair(monkeypatch):
    monkeypatch.setattr(pairs_look, "_MOST_MISSING", 1e-6)
    opened = session(declared(), numbers_of(dense(), 1500), epsilon=3.0)
    fitted(opened)
    assert LOOK not in [receipt.query for receipt in opened.receipts]


def asked_pairs(opened, *, share):
    """Count the columns with a fifth of the budget, and all pairs with a share of it."""
    one_ways = measure_one_way_marginals(opened, opened.schema.modelled, label="kind", share=0.2, source="test")
    bins = coarsen(one_ways, Coarseness(bins=16))
    survey = all_pairs.Survey(opened, opened.schema.modelled, 6, "test")
    pairs = all_pairs.AllPairs(
        survey, bins, total=6000, unit_noise=one_ways.unit_noise, share=share, seed=0, device="cpu"
    )
    pairs.measure(share, "all pairs")
    return one_ways, bins, pairs


def test_the_noise_of_all_pairs_is_that_of_the_question():
    one_ways, _, pairs = asked_pairs(session(declared(), numbers_of(dense()), epsilon=3.0), share=0.5)
    noise = {one.noise_std for one in pairs.answers.measured}
    # The product of two halves is the sum of four counts.
    expected = noise_of_all_pairs(7, one_ways.unit_noise, 6000, 0.5)
    assert len(noise) == 1
    assert 2 * noise.pop() / 6000 == pytest.approx(expected, rel=1e-3)
    assert all(one.table.sum() == pytest.approx(6000, rel=0.2) for one in pairs.answers.measured)


@pytest.mark.parametrize("epsilon", [0.5, 3.0])
def test_groups_are_so_few_that_cells_stand_clear_of_noise(epsilon):
    _, _, pairs = asked_pairs(session(declared(), numbers_of(dense()), epsilon=epsilon), share=0.8)
    for one in pairs.answers.measured:
        assert 6000 / one.table.size > 4 * one.noise_std
        # Nor so few that nothing is told: the label's classes are never joined.
        assert min(one.table.shape) >= (3 if epsilon > 1 else 2)
        assert one.table.shape[-1] == 3 or 6 not in one.columns


@pytest.mark.thorough
def test_the_same_answers_are_fitted_once(monkeypatch):
    fits = []
    right = mixture_estimation.fit_mixtures

    def counted(*args, **more):
        fits.append(more["grouped"])
        return right(*args, **more)

    monkeypatch.setattr(mixture_estimation, "fit_mixtures", counted)
    monkeypatch.setattr(dp_hp_adaptive, "STANDS_OUT", -math.inf)
    monkeypatch.setattr(whole_rows, "_LEAST_EFFECTIVE", math.inf)
    opened = session(declared(), numbers_of(dense()), epsilon=3.0)
    fitted(opened)
    # Before a set of many columns, and once all pairs were asked again as no pool could follow it.
    assert f"{ALL} again" in [receipt.query for receipt in opened.receipts]
    assert [len(one.measured) for one in fits] == [21, 42]


@pytest.mark.thorough
@pytest.mark.parametrize(("epsilon", "fits"), [(100.0, 3), (0.2, 1)])
def test_a_fit_goes_on_while_it_is_off_by_more_than_noise(epsilon, fits, monkeypatch):
    begun, off, made_of = [], [], []
    right = mixture_estimation.fit_mixtures

    def counted(*args, steps, report, seeds=None, starts=None, **more):
        begun.append((steps, seeds, starts))
        chi_squares = []
        made = right(
            *args,
            steps=steps,
            report=lambda step, of_all: (chi_squares.append(of_all), report(step, of_all)),
            **more,
            **({"starts": starts} if seeds is None else {"seeds": seeds}),
        )
        made_of.append(list(made))
        off.append(chi_squares[-1])
        return made

    monkeypatch.setattr(mixture_estimation, "fit_mixtures", counted)
    monkeypatch.setattr(all_pairs, "_MORE", (60, 80))
    _, bins, pairs = asked_pairs(session(declared(), numbers_of(dense()), epsilon=epsilon), share=0.5)
    told = []
    pairs.refit([one.measured(d) for d, one in enumerate(bins)], last=True, report=lambda *one: told.append(one))
    # At epsilon 100 not even 180 steps reach the noise; at .2 noise is all that there is.
    assert [steps for steps, *_ in begun] == [40, 60, 80][:fits]
    assert [None if seeds is None else list(seeds) for _, seeds, _ in begun] == [[0, 1], *[None] * (fits - 1)]
    assert [starts for *_, starts in begun] == [None, *made_of[: fits - 1]]
    assert off == sorted(off, reverse=True)
    assert all((one <= 1.0) == (epsilon < 1) for one in off[0])
    assert len(told) >= fits


def test_only_fits_that_are_off_by_more_than_noise_go_on(monkeypatch):
    """Of two fits the second is off after 40 steps and no more after 60 further ones."""
    right, begun = mixture_estimation.fit_mixtures, []
    says = {40: (0.9, 1.1), 60: (0.8,)}

    def told(*args, steps, report, **more):
        begun.append((steps, more.get("starts")))
        made = right(*args, steps=steps, report=None, **more)
        report(steps - 1, says[steps])
        begun.append(list(made))
        return made

    monkeypatch.setattr(mixture_estimation, "fit_mixtures", told)
    monkeypatch.setattr(all_pairs, "_MORE", (60, 80))
    with no_sets():
        model = fitted(session(declared(), numbers_of(dense()), epsilon=3.0))._model
    (_, _), (first, second), (steps, starts), (longer,) = begun
    assert (steps, list(starts)) == (60, [second])
    assert np.array_equal(model.probabilities, np.concatenate([first.probabilities, longer.probabilities]))


def test_the_model_of_all_pairs_is_the_mean_of_its_fits(monkeypatch):
    """Fits from other first components differ."""
    made = []
    right = mixture_estimation.fit_mixtures
    monkeypatch.setattr(
        mixture_estimation, "fit_mixtures", lambda *args, **more: made.append(right(*args, **more)) or made[-1]
    )
    with no_sets():
        model = fitted(session(declared(), numbers_of(dense()), epsilon=3.0))._model
    assert isinstance(model, Mixture)
    ((first, second),) = made
    assert np.abs(first.marginal((0, 1)) - second.marginal((0, 1))).max() > 1e-5
    for columns in ((0,), (0, 1), (1, 4, 6)):
        assert np.allclose(model.marginal(columns), (first.marginal(columns) + second.marginal(columns)) / 2)


def test_groups_are_of_neighbours_and_about_even():
    opened = session(declared(), numbers_of(dense()), epsilon=20.0)
    one_ways = measure_one_way_marginals(opened, opened.schema.modelled, label="kind", share=1.0, source="test")
    for one in coarsen(one_ways, Coarseness(bins=32)):
        groups = grouped(one, 5, 1.0)
        assert groups.shape == (one.size,)
        assert set(groups.tolist()) == set(range(int(groups.max()) + 1))
        if one.size > 5:
            assert groups.max() + 1 <= 5
            assert (np.diff(groups) >= 0).all()
            masses = np.bincount(groups, weights=one.expected)
            assert masses.max() < 2.5 / 5
        else:
            assert grouped(one, one.size, 1.0).tolist() == list(range(one.size))
    few = math.inf
    for most in (2, 3, 8):
        assert (few := grouped(one, most, 1.0).max() + 1) <= max(most, one.size)
    assert few == one.size
