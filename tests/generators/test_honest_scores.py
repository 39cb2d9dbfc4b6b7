"""What tables are weighed by: nothing but the model, the noise and a number of rows that is public or released."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from simulated import no_sets, session, task

from synth import generators
from synth.bundle.recorded_session import RecordedSession
from synth.generators.adaptive import all_pairs, dp_hp_adaptive, pairs_look, tables
from synth.generators.adaptive.budget import allocate_budget
from synth.generators.adaptive.coarsening import Coarseness, coarsen
from synth.generators.adaptive.dp_hp_adaptive import DpHpAdaptive
from synth.generators.adaptive.survey import Survey
from synth.generators.adaptive.tables import CoarseTables, expected_errors, sampling_errors
from synth.generators.adaptive.whole_rows import WholeRows
from synth.generators.one_way_marginals import measure_one_way_marginals
from synth.models.marginals import NoisyMarginal, coarse
from synth.models.mrf_estimation import fit_markov_random_field
from synth.privacy.answers import of_kind
from synth.privacy.counting import PrivateRows
from synth.privacy.selection import SCORE_STEP, Candidate, Selection, scores_of
from synth.privacy.session import PrivateSession
from synth.progress import NullProgress
from synth.schema import CategoryColumn, NumberColumn, Schema, YesNoColumn


class Weighed:
    """Hands questions on and keeps what there was to choose from, and what part of the budget it cost."""

    def __init__(self, source) -> None:
        self.source, self.choices = source, []
        self.schema, self.budget, self.neighbours = source.schema, source.budget, source.neighbours

    rows = property(lambda self: self.source.rows)
    remaining_share = property(lambda self: self.source.remaining_share)

    def noisy_sum(self, feature_map, **asked):
        return self.source.noisy_sum(feature_map, **asked)

    def noisy_max(self, candidates, **asked):
        if not asked["query"].startswith("choice of wide"):
            self.choices.append((list(candidates), asked["share"]))
        return self.source.noisy_max(candidates, **asked)


def fit(opened, label: str | None, **options: str) -> DpHpAdaptive:
    """Fit in rounds alone: without a look at all pairs and without sets of many columns."""
    made = generators.make(DpHpAdaptive.card.name, task(opened.schema, label), {"model": "field", **options})
    with no_sets():
        return made.fit(opened, NullProgress())


def codebook(n_rows: int, n_codes: int = 60) -> tuple[Schema, dict[str, np.ndarray]]:
    """Two long lists of codes that go together loosely, and short columns next to them."""
    random = np.random.default_rng(4)
    first = random.integers(n_codes, size=n_rows)
    codes = {
        "a": first,
        "b": np.where(random.random(n_rows) < 0.7, first // 6 * 6 + random.integers(6, size=n_rows), 0),
        "c": first // (n_codes // 4),
        "d": random.integers(2, size=n_rows),
    }
    listed = tuple(map(str, range(n_codes)))
    declared = (CategoryColumn("a", listed), CategoryColumn("b", listed), CategoryColumn("c", tuple("pqrs")))
    return Schema((*declared, YesNoColumn("d")), row_count="public"), codes


def related(n_columns: int, n_rows: int = 3000) -> tuple[Schema, dict[str, np.ndarray]]:
    """Columns of yes and no of which each follows the one before."""
    random = np.random.default_rng(6)
    codes = {"c0": random.integers(0, 2, n_rows)}
    for d in range(1, n_columns):
        codes[f"c{d}"] = np.where(random.random(n_rows) < 0.7, codes[f"c{d - 1}"], random.integers(0, 2, n_rows))
    return Schema(tuple(map(YesNoColumn, codes)), row_count="public"), codes


@pytest.fixture(scope="module")
def weighed() -> Weighed:
    noted = Weighed(session(*codebook(1500), epsilon=3.0))
    fit(noted, None)
    return noted


# The penalty


def test_a_penalty_is_worked_out_from_the_model_and_public_numbers_alone(weighed):
    """Again, from the candidates' own public tables, the share of the choice and the released noise of a count."""
    assert len(weighed.choices) > 3
    # All but the last, which is what was left.
    for candidates, share in weighed.choices[:-1]:
        part = share / 0.15
        noise = math.sqrt(1.0 / (weighed.budget.mu_squared * 0.85 * part)) * math.sqrt(2.0)  # replaced: two counts
        believed = [one.table for one in candidates]
        errors = expected_errors(believed, noise)
        sharper = np.clip(np.exp(0.5 * (np.log(errors) - np.log(errors).mean())), 0.4, 3.0)
        chance = [float(np.minimum(2 * t, np.sqrt(2 * t / np.pi)).sum()) for t in believed]
        weights = [one.weight for one in candidates]
        expected = np.array(weights) * np.hypot(errors / np.sqrt(sharper), chance)
        np.testing.assert_allclose([one.penalty for one in candidates], expected, rtol=1e-3)


def test_other_rows_and_the_same_answers_make_the_same_penalties(weighed):
    source = weighed.source
    asked_again = Weighed(RecordedSession(source.schema, source.budget, rows=source.rows, answers=source.answers))
    fit(asked_again, None)
    for (before, _), (after, _) in zip(weighed.choices, asked_again.choices, strict=True):
        assert [one.penalty for one in before] == [one.penalty for one in after]
        assert all(np.array_equal(one.table, other.table) for one, other in zip(before, after, strict=True))


@pytest.mark.parametrize("mean", [0.05, 0.5, 3.0, 40.0])
def test_what_chance_makes_is_what_poisson_counts_are_off_by(mean):
    random = np.random.default_rng(1)
    off = np.abs(random.poisson(mean, 200_000) - mean).mean()
    assert sampling_errors([np.full((3, 4), mean)])[0] / 12 == pytest.approx(off, rel=0.2)


def test_a_table_that_chance_alone_leaves_uneven_is_not_chosen_before_one_that_tells(monkeypatch):
    """Codes of which few rows know each pair look far from any model; a fifth of the rows follow the other relation."""
    random = np.random.default_rng(0)
    codes = {name: random.integers(50, size=1200) for name in "ab"} | {"c": random.integers(4, size=1200)}
    codes["d"] = np.where(random.random(1200) < 0.2, codes["c"], random.integers(4, size=1200))
    listed = tuple(map(str, range(50)))
    declared = Schema(
        (*(CategoryColumn(n, listed) for n in "ab"), *(CategoryColumn(n, tuple("pqrs")) for n in "cd")),
        row_count="public",
    )

    def first() -> set[str]:
        opened = session(declared, codes, epsilon=8.0)
        fit(opened, None)
        return set(of_kind(opened.answers, Selection)[0].candidate.columns)

    assert first() == {"c", "d"}
    monkeypatch.setattr(tables, "sampling_errors", lambda believed: np.zeros(len(believed)))
    assert first() >= {"a", "b"}


# Sensitivity


def scores(candidates: list[Candidate], codes: dict[str, np.ndarray], n_rows: int) -> np.ndarray:
    return scores_of(candidates, PrivateRows(codes.__getitem__, n_rows)) * SCORE_STEP


def test_a_row_moves_no_score_by_more_than_the_largest_weight_and_a_replaced_one_by_twice_that(weighed):
    declared, codes = codebook(1500)
    random = np.random.default_rng(2)
    for candidates, _ in weighed.choices[::3]:
        whole = scores(candidates, codes, 1500)
        for gone in random.integers(1500, size=4):
            fewer = {name: np.delete(one, gone) for name, one in codes.items()}
            assert np.abs(whole - scores(candidates, fewer, 1499)).max() <= 1.0
            other = {name: one.copy() for name, one in codes.items()}
            for column in declared.modelled:
                other[column.name][gone] = random.integers(column.size)
            assert np.abs(whole - scores(candidates, other, 1500)).max() <= 2.0


# Coarse tables


def test_a_table_too_fine_for_its_rows_is_offered_in_coarser_cells_too(weighed):
    sizes = {tuple(one.one_hot.shape) for one in weighed.choices[0][0] if one.columns == ("a", "b")}
    fine, coarser = max(sizes), min(sizes)
    assert math.prod(fine) > 2000
    assert max(coarser) <= 16
    # Short columns are offered as they are.
    assert [one.one_hot.shape for one in weighed.choices[0][0] if one.columns == ("c", "d")] == [(4, 2)]


def test_coarse_tables_hold_sums_of_what_is_expected_of_fine_ones(weighed):
    """Fewer and fewer parts, whose expected counts are sums of the model's; nothing coarser of a short column."""
    declared = weighed.schema
    opened = session(*codebook(1500), epsilon=3.0)
    one_ways = measure_one_way_marginals(opened, declared.modelled, label=None, share=0.2, source="test")
    bins = coarsen(one_ways, Coarseness(bins=32))
    made = CoarseTables(Survey(opened, declared.modelled, None, "test"), bins)
    believed = 1500 * np.outer(bins[0].expected, bins[1].expected)
    shapes = [one.one_hot.shape for one in made.of((0, 1), believed)]
    assert shapes == sorted(shapes, reverse=True)
    assert max(shapes[-1]) == 4
    for one in made.of((0, 1), believed):
        assert one.believed.sum() == pytest.approx(1500)
        np.testing.assert_allclose(one.believed, coarse(believed, one.cells, one.one_hot.shape))
    assert not list(made.of((2, 3), np.ones((bins[2].size, bins[3].size))))


def test_a_field_takes_a_coarse_answer_for_what_it_counts():
    """A coarse table of single bins is a fine one; a truly coarse one moves sums and leaves what is within them."""
    random = np.random.default_rng(5)
    alone = [NoisyMarginal((0,), np.full(6, 100.0), 1.0), NoisyMarginal((1,), np.full(4, 150.0), 1.0)]
    counts = random.multinomial(600, random.dirichlet(np.ones(24))).reshape(6, 4).astype(float)
    believed = np.full((6, 4), 25.0)
    fine = NoisyMarginal((0, 1), counts, 4.0, believed)
    single = NoisyMarginal((0, 1), counts, 4.0, believed, np.arange(24).reshape(6, 4))
    fitted = [fit_markov_random_field((6, 4), [*alone, one], 600.0, steps=400) for one in (fine, single)]
    np.testing.assert_allclose(fitted[0].marginal((0, 1)), fitted[1].marginal((0, 1)), atol=1e-3)

    cells = (np.arange(6) // 3)[:, None] * 2 + (np.arange(4) // 2)
    halves = np.array([[250.0, 50.0], [50.0, 250.0]])
    answer = NoisyMarginal((0, 1), halves, 3.0, np.full((2, 2), 150.0), cells)
    found = 600 * fit_markov_random_field((6, 4), [*alone, answer], 600.0, steps=400).marginal((0, 1))
    np.testing.assert_allclose(coarse(found, cells, (2, 2)), halves, atol=5)
    np.testing.assert_allclose(found[:3, :2], halves[0, 0] / 6, rtol=0.02)
    # Fine and coarse answers about the same columns are held side by side, and a fit continues from another.
    both = fit_markov_random_field((6, 4), [*alone, fine, answer], 600.0)
    again = fit_markov_random_field((6, 4), [*alone, fine, answer, answer], 600.0, start=both)
    assert len(both.weights) == len(again.weights) == 4


# The search


def test_no_table_is_asked_twice_before_others_were(weighed):
    """Of nine columns three others."""
    declared, codes = related(9)
    opened = session(declared, codes, epsilon=4.0)
    noted = Weighed(opened)
    fit(noted, None)
    chosen = [one.candidate.columns for one in of_kind(opened.answers, Selection)]
    assert len(set(chosen)) > 4
    for place, columns in enumerate(chosen):
        for candidates, _ in noted.choices[place + 1 : place + 4]:
            assert columns not in {one.columns for one in candidates}


def test_a_rounds_part_grows_only_after_several_different_tables():
    random = np.random.default_rng(3)
    declared = Schema(tuple(YesNoColumn(f"c{d}") for d in range(9)), row_count="public")
    opened = session(declared, {f"c{d}": random.integers(0, 2, 3000) for d in range(9)}, epsilon=2.0)
    noted = Weighed(opened)
    fit(noted, None)
    shares = [share for _, share in noted.choices]
    assert len(shares) >= tables._SEVERAL
    assert shares[: tables._SEVERAL] == pytest.approx([shares[0]] * tables._SEVERAL, rel=1e-6)


@pytest.mark.thorough
def test_rounds_divide_what_a_look_at_all_pairs_has_left(monkeypatch):
    """Of a plan that did not know of the look, the last question would be refused after its run was charged."""
    planned = []

    class Planned(tables.SelectionRounds):
        def __init__(self, survey, bins, **told):
            planned.append((told["share"], survey.session.remaining_share))
            super().__init__(survey, bins, **told)

    monkeypatch.setattr(dp_hp_adaptive, "SelectionRounds", Planned)
    opened = session(*related(6, 20_000), epsilon=3.0)
    with no_sets():
        generators.make(DpHpAdaptive.card.name, task(opened.schema, None), {}).fit(opened, NullProgress())
    assert "which columns go together" in [receipt.query for receipt in opened.receipts]
    [(share, left)] = planned
    assert share <= left
    assert opened.remaining_share < 1e-8


def test_what_sets_of_columns_leave_is_spent_on_a_dense_table_too(monkeypatch):
    """Its columns are counted again; a bundle whose receipts spend less than all does not verify."""
    monkeypatch.setattr(pairs_look, "relations_left", lambda *told, **more: 1.0)
    monkeypatch.setattr(all_pairs, "_STEPS", 2)
    monkeypatch.setattr(all_pairs, "_MORE", ())
    monkeypatch.setattr(all_pairs, "_FITS", 2)
    monkeypatch.setattr(all_pairs, "_COMPONENTS", 2)
    monkeypatch.setattr(dp_hp_adaptive, "STANDS_OUT", -10.0)
    right = WholeRows._answered
    monkeypatch.setattr(WholeRows, "_answered", lambda self, *answer: (right(self, *answer)[0], False))
    opened = session(*related(6), epsilon=2.0)
    generators.make(DpHpAdaptive.card.name, task(opened.schema, None), {}).fit(opened, NullProgress())
    queries = [receipt.query for receipt in opened.receipts]
    assert "all pairs of columns" in queries
    assert queries[-1].startswith("one-way tables again")
    assert opened.remaining_share < 1e-8


# Small tables


def divided(n_rows: int, n_columns: int) -> float:
    declared = Schema(tuple(NumberColumn(f"c{d}", 0, 9, 1) for d in range(n_columns)), row_count="public")
    opened: PrivateSession = session(declared, {f"c{d}": np.zeros(n_rows, dtype=int) for d in range(n_columns)})
    return allocate_budget(opened, 1.0, declared.sizes, for_columns=0.2, label_share=0.2, label_size=1).n_rounds


def test_a_few_coarse_rounds_are_held_where_many_fine_ones_are_too_dear():
    assert 4 <= divided(800, 15) < 11.25
    assert divided(200, 15) == 0
    # The more columns, the more a single relation has to be left to noise.
    assert divided(800, 60) == 0
    assert divided(30_000, 15) == 45


# What the rows are for


@pytest.fixture(scope="module")
def asked_for() -> dict[str, Weighed]:
    kept = {}
    for purpose in ("balanced", "prediction", "marginals"):
        kept[purpose] = Weighed(session(*codebook(3000), epsilon=3.0))
        fit(kept[purpose], "c", purpose=purpose)
    return kept


@pytest.mark.thorough
@pytest.mark.parametrize(("purpose", "times"), [("balanced", 1.0), ("prediction", 2.0), ("marginals", 1.0)])
def test_a_table_with_the_label_counts_twice_where_rows_are_for_its_prediction(asked_for, purpose, times):
    """A pair of columns of usual importance counts 1, one of three a half; and no sensitivity is another one."""
    seen = set()
    for candidates, _ in asked_for[purpose].choices:
        for one in candidates:
            labelled = "c" in one.columns
            seen.add(labelled)
            assert one.weight == (0.5 if len(one.columns) > 2 else 1.0) * (times if labelled else 1.0)
    assert seen == {True, False}


def test_a_table_of_groups_counts_twice():
    """Of two columns, one of which tells declared groups apart; no choice has another sensitivity for it."""
    noted = Weighed(session(*codebook(3000), epsilon=3.0))
    asked = replace(task(noted.schema, None), groups=("d",))
    with no_sets():
        generators.make(DpHpAdaptive.card.name, asked, {"model": "field"}).fit(noted, NullProgress())
    seen = set()
    for candidates, _ in noted.choices:
        for one in candidates:
            own = "d" in one.columns and len(one.columns) == 2
            seen.add(own)
            assert one.weight == (0.5 if len(one.columns) > 2 else 1.0) * (2.0 if own else 1.0)
    assert seen == {True, False}
    chosen = [one.receipt for one in noted.source.answers if one.receipt.query.startswith("choice")]
    assert len({one.sensitivity for one in chosen}) == 1


def test_where_rows_are_for_counts_alone_no_question_is_about_the_label(asked_for):
    asked = {purpose: [one.receipt.query for one in noted.source.answers] for purpose, noted in asked_for.items()}
    assert any("by label" in query for query in asked["balanced"])
    assert any("by label" in query for query in asked["prediction"])
    assert not any("by label" in query for query in asked["marginals"])
    assert all(noted.remaining_share == pytest.approx(0, abs=1e-6) for noted in asked_for.values())


def test_tables_by_label_get_more_where_rows_are_for_its_prediction(asked_for):
    parts = {}
    for purpose in ("balanced", "prediction"):
        receipts = [one.receipt for one in asked_for[purpose].source.answers]
        by_label = sum(one.units for one in receipts if one.query == "tables by label")
        parts[purpose] = by_label / sum(one.units for one in receipts)
    assert parts["balanced"] == pytest.approx(0.2, abs=0.02)
    assert parts["prediction"] == pytest.approx(0.35, abs=0.02)
