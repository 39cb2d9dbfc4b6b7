"""DP-HP adaptive: what it asks and fits comes from answers, budgets are spent whole, and odd tables fit and sample."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from choosing import each_once
from recorded_noise import RecordedNoise
from safetensors.numpy import load, save
from simulated import COLUMNS, check_domain, dependent_codes, no_sets, schema, session, task
from timing import require_within

from synth import generators
from synth.bundle.recorded_session import RecordedSession
from synth.errors import ConfigError, RunCancelledError
from synth.generators.adaptive import AdaptiveOptions, dp_hp_adaptive, tables
from synth.generators.adaptive.budget import columns_error, share_for_columns
from synth.generators.adaptive.coarsening import Coarseness
from synth.generators.adaptive.dp_hp_adaptive import DpHpAdaptive
from synth.generators.one_way_marginals import measure_one_way_marginals
from synth.models.joint_model import MarkovRandomFieldFitter, MixtureFitter, kind_for
from synth.models.marginals import NoisyMarginal
from synth.privacy.answers import of_kind
from synth.privacy.selection import Candidate, Selection
from synth.privacy.session import PrivateSession
from synth.privacy.table import PrivateTable
from synth.progress import NullProgress
from synth.reports.forecast import forecast
from synth.schema import CategoryColumn, NumberColumn, PrivacyUnit, RunConfig, Schema, Weight, YesNoColumn
from synth.services.planning import forecast_lines

NAME = DpHpAdaptive.card.name
QUICK_MODELS = ("field", "mixture")
BOTH_RELATIONS = ("public", "private")


@pytest.fixture(autouse=True)
def few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Mixtures that are fitted in a moment; their quality is tested with the mixture."""
    monkeypatch.setattr(MixtureFitter, "first_steps", 20)
    monkeypatch.setattr(MixtureFitter, "last_steps", 40)


def fit(opened, declared: Schema | None = None, *, label="outcome", **options) -> DpHpAdaptive:
    made = generators.make(NAME, task(declared or opened.schema, label), options)
    return made.fit(opened, NullProgress())


def opened_on(n_rows: int = 600, *, row_count: str = "public", epsilon: float = 5.0, key: int | None = 0):
    return session(schema(row_count=row_count), dependent_codes(n_rows), epsilon=epsilon, noise_key=key)


def counted_together(opened: PrivateSession) -> list[tuple[str, ...]]:
    """The columns of every table that was chosen, in order."""
    return [selection.candidate.columns for selection in of_kind(opened.answers, Selection)]


# What it is fitted to


@pytest.mark.thorough
@pytest.mark.parametrize("model", QUICK_MODELS)
@pytest.mark.parametrize("row_count", BOTH_RELATIONS)
def test_all_that_the_model_is_fitted_to_was_answered_with_a_receipt(model, row_count, monkeypatch):
    fitted_to: list[list[NoisyMarginal]] = []
    kind = MarkovRandomFieldFitter if model == "field" else MixtureFitter
    right = kind.refit

    def refit(self, measured, **asked):
        fitted_to.append(list(measured))
        right(self, measured, **asked)

    monkeypatch.setattr(kind, "refit", refit)
    opened = opened_on(row_count=row_count)
    with no_sets():
        made = fit(opened, model=model)
    answers = {release.receipt.query: release for release in opened.sums}
    assert [receipt.query for receipt in opened.receipts if receipt.mechanism == "discrete_gaussian"] == list(answers)

    last = fitted_to[-1]
    assert all(one in last for measured in fitted_to for one in measured)
    joint = [one for one in last if len(one.columns) > 1]
    tables = [release for query, release in answers.items() if query.startswith("table ")]
    by_label, chosen = joint[: len(opened.schema.names) - 1], joint[len(opened.schema.names) - 1 :]
    together = answers["tables by label"]
    ends = np.cumsum([part.dimension for part in together.feature_map.parts])
    pieces = np.split(together.value, ends[:-1])
    for one, piece, weight, part in zip(
        by_label, pieces, together.feature_map.weights, together.feature_map.parts, strict=True
    ):
        assert tuple(opened.schema.names[d] for d in one.columns) == part.columns
        counts, noise = piece.reshape(part.shape) / weight, together.noise_std / weight
        np.testing.assert_array_equal(one.table, counts)
        assert one.noise_std == noise
    assert len(chosen) == len(tables) > 3
    for one, release in zip(chosen, tables, strict=True):
        assert tuple(opened.schema.names[d] for d in one.columns) == release.feature_map.columns
        np.testing.assert_array_equal(one.table, release.value)
        assert one.noise_std == release.noise_std

    # Columns by themselves: computed again from the answers about them alone.
    alone = [one for one in last if len(one.columns) == 1]
    about_columns = [release for query, release in answers.items() if query.startswith("one-way tables")]
    assert len(about_columns) == 2
    knows_columns = RecordedSession(opened.schema, opened.budget, rows=opened.rows, answers=about_columns)
    one_ways = None
    for _ in about_columns:
        one_ways = measure_one_way_marginals(
            knows_columns,
            opened.schema.modelled,
            label="outcome",
            share=0.25,
            source="test",
            earlier=one_ways,
        )
    assert [one.columns for one in alone] == [(d,) for d in range(len(opened.schema.names))]
    for one, bins, way in zip(alone, made._bins, one_ways.columns, strict=True):
        again = type(bins).of(way, bins.bin_of_place).measured(one.columns[0])
        np.testing.assert_array_equal(one.table, again.table)
        assert one.noise_std == again.noise_std


class Noting:
    """Hands questions on and writes down what there was to choose from, and what is asked right now."""

    def __init__(self, source) -> None:
        self.source, self.candidates = source, []
        self.schema, self.budget, self.neighbours = source.schema, source.budget, source.neighbours
        self.asking = False

    rows = property(lambda self: self.source.rows)
    remaining_share = property(lambda self: self.source.remaining_share)

    def sub_session(self, share: float):
        return self.source.sub_session(share)

    def noisy_sum(self, feature_map, **asked):
        self.asking = True
        release = self.source.noisy_sum(feature_map, **asked)
        self.asking = False
        return release

    def noisy_max(self, candidates, **asked) -> Selection:
        self.asking = True
        self.candidates.append(list(candidates))
        selection = self.source.noisy_max(candidates, **asked)
        self.asking = False
        return selection


def same_candidate(one: Candidate, other: Candidate) -> bool:
    return (
        (one.columns, one.weight, one.penalty) == (other.columns, other.weight, other.penalty)
        and np.array_equal(one.table, other.table)
        and one.one_hot.is_same(other.one_hot)
    )


@pytest.mark.thorough
@pytest.mark.parametrize("model", QUICK_MODELS)
def test_what_there_is_to_choose_from_follows_from_answers_alone(model):
    opened = opened_on()
    first = Noting(opened)
    fit(first, model=model)
    replayed = Noting(RecordedSession(opened.schema, opened.budget, rows=opened.rows, answers=opened.answers))
    fit(replayed, model=model)
    assert len(first.candidates) == len(replayed.candidates) > 3
    for once, again in zip(first.candidates, replayed.candidates, strict=True):
        assert all(same_candidate(one, other) for one, other in zip(once, again, strict=True))
    # Other rows, or other noise, and other candidates.
    other = Noting(opened_on(key=1))
    fit(other, model=model)
    assert not all(same_candidate(*both) for both in zip(first.candidates[0], other.candidates[0], strict=False))


@pytest.mark.thorough
def test_rows_are_read_while_a_question_is_answered_and_never_between(monkeypatch):
    noting = Noting(opened_on())
    read: list[bool] = []
    right = PrivateTable._column

    def column(self, name):
        read.append(noting.asking)
        return right(self, name)

    monkeypatch.setattr(PrivateTable, "_column", column)
    fit(noting)
    assert read
    assert all(read)


@pytest.mark.thorough
def test_every_choice_is_followed_by_its_table():
    opened = opened_on()
    fit(opened)
    kinds = [(receipt.mechanism, receipt.query) for receipt in opened.receipts]
    assert kinds[0] == ("discrete_gaussian", "round values")
    assert kinds[1] == ("discrete_gaussian", "one-way tables")
    assert kinds[2] == ("discrete_gaussian", "one-way tables again (1)")
    assert kinds[3] == ("discrete_gaussian", "sums of numbers")
    assert kinds[4] == ("discrete_gaussian", "tables by label")
    choices, tables = kinds[5::2], kinds[6::2]
    assert [query for _, query in choices] == [f"choice {number + 1}" for number in range(len(choices))]
    assert [mechanism for mechanism, _ in choices] == ["exponential"] * len(choices)
    chosen = counted_together(opened)
    assert [query for _, query in tables] == [f"table {n + 1}: {' x '.join(one)}" for n, one in enumerate(chosen)]


# What it spends


@pytest.mark.four_cases
@pytest.mark.parametrize("row_count", BOTH_RELATIONS)
@pytest.mark.parametrize("n_rows", [30, 600])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 10.0])
def test_the_whole_budget_is_spent_by_its_last_question(row_count, n_rows, epsilon):
    opened = opened_on(n_rows, row_count=row_count, epsilon=epsilon)
    part = opened.sub_session(opened.remaining_share)
    fit(part)
    assert part.remaining_share < 1e-8  # a unit or two, rounded down
    spent = sum(receipt.mu_squared_units for receipt in opened.receipts)
    # Noise is rounded up to whole steps of a grid; that is all that is lost.
    assert (1 - 1e-6) * opened.budget.mu_squared <= spent * 2.0**-40 <= opened.budget.mu_squared


def test_a_part_of_a_session_is_spent_and_no_more():
    opened = opened_on()
    part = opened.sub_session(0.4)
    fit(part)
    assert part.remaining_share < 1e-11  # a unit or two, rounded down
    assert opened.remaining_share == pytest.approx(0.6, abs=1e-9)
    assert counted_together(opened)


@pytest.mark.parametrize(
    ("n_rows", "asked"),
    [(40, ["one-way tables"]), (600, ["one-way tables", "tables by label"])],
    ids=["columns alone", "columns and classes"],
)
def test_few_rows_spend_everything_on_columns_and_choose_nothing(n_rows, asked):
    opened = opened_on(n_rows, epsilon=0.5)
    made = fit(opened)
    assert [receipt.query for receipt in opened.receipts] == asked
    assert opened.remaining_share < 1e-8
    check_domain(made.sample(100, 0), opened.schema, 100)
    assert len(counted_together(opened)) == 0


def test_numbers_in_one_bin_are_counted_again_and_nothing_else_is_asked(monkeypatch):
    # Bins so wide that no number has two of them.
    monkeypatch.setattr(dp_hp_adaptive, "coarseness_for", lambda *_, **named: Coarseness(bins=1))
    declared = Schema((NumberColumn("a", 0, 499, 1), NumberColumn("b", 0, 499, 1)))
    codes = {name: np.random.default_rng(0).integers(0, 500, 4000) for name in "ab"}
    opened = session(declared, codes, epsilon=5.0)
    made = fit(opened, label=None)
    first, *queries = [receipt.query for receipt in opened.receipts]
    assert first == "round values"
    queries.remove("sums of numbers")
    assert all(query.startswith("one-way tables") for query in queries)
    assert len(queries) > 1
    assert opened.remaining_share < 1e-8
    # The last answer sharpened the columns, and the model's bins were cut anew.
    assert min(one.size for one in made._bins) > 1


@pytest.mark.thorough
@pytest.mark.parametrize("related", [False, True], ids=["unrelated", "related"])
def test_rounds_end_where_columns_would_gain_more(related):
    random = np.random.default_rng(2)
    declared = Schema(tuple(YesNoColumn(f"c{d}") for d in range(16)), row_count="public")
    first = random.integers(0, 2, 8000)
    codes = {
        name: np.where(random.random(8000) < 0.8, first, 1 - first) if related else (random.random(8000) < 0.05)
        for name in declared.names
    }
    opened = session(declared, {name: one.astype(int) for name, one in codes.items()}, epsilon=1.0)
    made = fit(opened, label=None)
    queries = [receipt.query for receipt in opened.receipts]
    assert counted_together(opened)
    assert opened.remaining_share < 1e-8
    assert queries[-1].startswith("one-way tables again" if not related else "table ")
    # The bins hold what all answers about columns say together.
    precision = sum(
        1 / (release.noise_std / release.feature_map.weights[0]) ** 2
        for release in opened.sums
        if release.receipt.query.startswith("one-way tables")
    )
    # With a public number of rows two counts that add up to it have half of the variance of one.
    assert made._bins[0].noise_std[0] == pytest.approx(math.sqrt(0.5 / precision), rel=1e-6)


def test_the_error_of_columns_is_what_noise_leaves():
    declared = Schema((YesNoColumn("a"), YesNoColumn("b")), row_count="public")
    even = np.repeat([0, 1], 2000)
    opened = session(declared, {"a": even, "b": even}, epsilon=2.0)
    made = fit(opened, label=None, columns_share=1.0)
    noise = made._bins[0].noise_std[0] / 4000
    assert 0 < noise < 0.01
    # Two columns of two halves each: half of the sum of the mean absolute normal noise of every count.
    assert columns_error(made._bins) == pytest.approx(2 * math.sqrt(2 / math.pi) * noise, rel=0.01)


def test_columns_get_more_where_tables_of_several_could_tell_little():
    def wanted(codes: dict[str, np.ndarray], epsilon: float) -> float:
        declared = Schema(tuple(YesNoColumn(name) for name in codes), row_count="public")
        opened = session(declared, codes, epsilon=epsilon)
        one_ways = measure_one_way_marginals(opened, declared.modelled, label=None, share=0.2, source="test")
        return share_for_columns(one_ways, 0.2)

    random = np.random.default_rng(0)
    even = {f"c{d}": random.integers(0, 2, 4000) for d in range(12)}
    rare = {f"c{d}": (random.random(4000) < 0.02).astype(int) for d in range(12)}
    assert wanted(even, 1.0) + 0.1 < wanted(rare, 1.0)
    assert wanted(even, 8.0) + 0.05 < wanted(even, 1.0)
    assert 0.95 < wanted(rare, 0.01) < 1.0


def test_a_share_for_columns_is_where_both_errors_are_least():
    declared = Schema((YesNoColumn("a"), YesNoColumn("b"), YesNoColumn("c")))
    codes = {name: np.random.default_rng(3).integers(0, 2, 4000) for name in "abc"}
    opened = session(declared, codes, epsilon=0.3)
    one_ways = measure_one_way_marginals(opened, declared.modelled, label=None, share=0.3, source="test")
    # Noise of a cell for the whole budget, as a part of the rows: two cells of one half each, in two pairs a column.
    noise = one_ways.columns[0].cell_std * math.sqrt(0.3) / 4000
    columns, tables = 3 * 2 * math.sqrt(2 / math.pi) * noise, 0.1 * 3 * 0.5
    shares = np.linspace(0.001, 0.999, 100_000)
    best = shares[np.argmin(columns / np.sqrt(shares) + tables / np.sqrt(1 - shares))]
    assert 0.05 < best < 0.45
    assert share_for_columns(one_ways, 0.3) == pytest.approx(best, abs=0.01)


@pytest.mark.thorough
def test_more_budget_asks_for_more_and_less_noisy_tables():
    stds = []
    for epsilon in (2.0, 8.0):
        opened = opened_on(2000, epsilon=epsilon)
        fit(opened)
        stds.append([release.noise_std for release in opened.sums[2:]])
    assert min(map(len, stds)) > 3
    assert np.median(stds[1]) < np.median(stds[0])


# What it chooses


def alike(n_columns: int, n_rows: int, *, seed: int = 0, weights: dict[int, Weight] | None = None):
    """Columns of four codes that all depend on one cause to the same extent."""
    declared = Schema(
        tuple(
            CategoryColumn(f"c{d}", tuple("abcd"), weight=(weights or {}).get(d, Weight.NORMAL))
            for d in range(n_columns)
        )
    )
    random = np.random.default_rng(seed)
    cause = random.integers(4, size=n_rows)
    codes = {
        f"c{d}": np.where(random.random(n_rows) < 0.6, cause, random.integers(4, size=n_rows)) for d in range(n_columns)
    }
    return declared, codes


def first_choices(opened: PrivateSession, n: int) -> list[tuple[str, ...]]:
    """What is chosen first; the run is stopped then."""

    class Stopped(NullProgress):
        def step(self, k: int, of: int) -> None:
            if len(counted_together(opened)) == n:
                raise RunCancelledError("The run was cancelled.")

    with pytest.raises(RunCancelledError):
        generators.make(NAME, task(opened.schema, None), {}).fit(opened, Stopped())
    return counted_together(opened)


def test_the_pair_that_depends_is_chosen_first():
    random = np.random.default_rng(0)
    names = ("a", "b", "c", "d", "e")
    declared = Schema(tuple(CategoryColumn(name, tuple("pqrst")) for name in names))
    codes = {name: random.integers(5, size=3000) for name in names}
    codes["d"] = np.where(random.random(3000) < 0.7, codes["b"], codes["d"])
    for key in range(3):
        assert first_choices(session(declared, codes, epsilon=2.0, noise_key=key), 1) == [("b", "d")]


def test_of_few_columns_three_are_counted_together_of_which_no_two_tell_anything():
    """The parity of two columns is unrelated to each of them, and is all there is to know about the third."""
    random = np.random.default_rng(7)
    first, second = random.integers(0, 6, (2, 6000))
    columns = {"a": first, "b": second, "c": (first + second) % 2, "d": random.integers(0, 4, 6000)}
    sizes = {"a": 6, "b": 6, "c": 2, "d": 4}
    declared = Schema(
        tuple(CategoryColumn(name, tuple("abcdef"[: sizes[name]])) for name in columns), row_count="public"
    )
    opened = session(declared, columns, epsilon=1.0, noise_key=3)
    made = fit(opened, declared, label="c")
    assert counted_together(opened)[0] == ("a", "b", "c")
    rows = made.sample(6000, 1)
    assert float(((rows[:, 0] + rows[:, 1]) % 2 == rows[:, 2]).mean()) > 0.95


@pytest.mark.thorough
def test_columns_of_high_weight_are_counted_with_others_more_often():
    times = {}
    for weight in Weight:
        declared, codes = alike(7, 1500, weights={3: weight})
        times[weight] = 0
        for key in range(3):
            chosen = first_choices(session(declared, codes, epsilon=3.0, noise_key=key), 6)
            times[weight] += sum("c3" in columns for columns in chosen)
    assert times[Weight.LOW] < times[Weight.NORMAL] < times[Weight.HIGH]


def test_pairs_with_the_label_are_candidates_where_others_are_left_out(monkeypatch):
    monkeypatch.setattr(tables, "_MOST_CANDIDATES", 3)
    declared, codes = alike(7, 1500)
    noting = Noting(session(declared, codes, epsilon=3.0))
    with no_sets():
        fit(noting, label="c5")
    wanted = {tuple(sorted(("c5", f"c{d}"))) for d in range(7) if d != 5}
    assert len(noting.candidates) > 3
    for candidates in noting.candidates:
        offered = {candidate.columns for candidate in candidates}
        assert wanted <= offered
        assert len({one for one in offered if len(one) == 2}) <= 3 + len(wanted)


def test_a_small_model_takes_the_label_first():
    random = np.random.default_rng(0)
    declared = Schema(tuple(CategoryColumn(f"c{d}", tuple(map(str, range(20)))) for d in range(5)))
    codes = {name: random.integers(20, size=4000) for name in declared.names}
    # A pair has 400 cells: at first there is room for 300, and for the label 1,500.
    noting = Noting(session(declared, codes, epsilon=10.0))
    fit(noting, label="c2", cells=1500, model="field")
    assert {candidate.columns for candidate in noting.candidates[0]} == {
        tuple(sorted(("c2", f"c{d}"))) for d in range(5) if d != 2
    }


@pytest.mark.thorough
def test_the_model_never_outgrows_its_cells():
    declared, codes = alike(9, 4000)
    for cells in (1000, 3000):
        with no_sets():
            made = fit(session(declared, codes, epsilon=20.0), label="c0", cells=cells, model="field")
        assert made._model.tree.cells <= cells


def test_no_question_is_asked_about_columns_of_one_bin():
    declared = Schema((CategoryColumn("only", ("x",)), *alike(3, 1)[0].columns))
    codes = alike(3, 2000)[1] | {"only": np.zeros(2000, dtype=int)}
    opened = session(declared, codes, epsilon=5.0)
    fit(opened, label=None)
    chosen = counted_together(opened)
    assert chosen
    assert not [columns for columns in chosen if "only" in columns]


# Which model


def wide(n_columns: int) -> Schema:
    return Schema(tuple(CategoryColumn(f"c{d}", tuple(map(str, range(200)))) for d in range(n_columns)))


@pytest.mark.thorough
def test_wide_tables_get_a_mixture_whatever_their_rows():
    for declared, kind in ((wide(12), "model.weights"), (wide(3), "model.clique.0")):
        for codes in (
            {name: np.zeros(20, dtype=int) for name in declared.names},
            {name: np.arange(900) % 200 for name in declared.names},
        ):
            made = fit(session(declared, codes, epsilon=1.0), label=None)
            assert any(name.startswith(kind) for name in made.state())


@pytest.mark.parametrize(
    ("sizes", "cells", "kind"),
    [
        ((2,) * 60, 200_000, "field"),
        ((200,) * 20, 200_000, "mixture"),
        ((10**6,), 1000, "field"),
        ((), 1000, "field"),
        ((30, 30, 2, 2), 1000, "field"),
        ((30, 30, 30, 30), 1000, "mixture"),
    ],
    ids=["sixty of two", "twenty of two hundred", "one column", "no column", "a few", "too many"],
)
def test_a_field_is_taken_where_a_tree_of_typical_pairs_fits(sizes, cells, kind):
    assert kind_for(sizes, cells) == kind


@pytest.mark.thorough
@pytest.mark.parametrize("row_count", BOTH_RELATIONS)
def test_a_mixture_serves_from_end_to_end(row_count):
    opened = opened_on(800, row_count=row_count)
    made = fit(opened, model="mixture")
    assert len(counted_together(opened)) > 3
    assert opened.remaining_share < 1e-9
    rows = made.sample(5000, seed=2)
    check_domain(rows, opened.schema, 5000)
    state = load(save({name: np.ascontiguousarray(array) for name, array in made.state().items()}))
    again = generators.restore(NAME, task(opened.schema), {"model": "mixture"}, state)
    assert again.sample(5000, seed=2).tobytes() == rows.tobytes()


@pytest.mark.thorough
def test_a_saved_field_draws_the_same_bytes_in_whatever_order_it_was_kept():
    made = fit(opened_on())
    state = {name: array.copy() for name, array in made.state().items()}
    drawn = made.sample(3000, seed=4).tobytes()
    for names in (list(state), list(reversed(state)), sorted(state)):
        again = generators.restore(NAME, task(schema()), {}, {name: state[name] for name in names})
        assert again.sample(3000, seed=4).tobytes() == drawn


def test_an_empty_state_is_refused():
    made = fit(opened_on(30, epsilon=0.5))
    state = {name: array for name, array in made.state().items() if name.startswith("column.")}
    with pytest.raises(ConfigError, match="empty"):
        generators.restore(NAME, task(schema()), {}, state)


# Odd tables

LONG = NumberColumn("long", 0, 2**20 - 1, 1)


def odd(case: str, row_count: str) -> tuple[Schema, dict[str, np.ndarray], str | None]:
    """A table, and its label."""

    def declared(*columns) -> Schema:
        return Schema(columns, PrivacyUnit(), row_count=row_count)

    random = np.random.default_rng(3)
    n_rows = 300
    if case == "one row":
        chosen = declared(*COLUMNS.values())
        return chosen, {column.name: np.zeros(1, dtype=int) for column in chosen.modelled}, "outcome"
    if case == "constant columns":
        chosen = declared(*COLUMNS.values())
        return chosen, {column.name: np.full(n_rows, 1) for column in chosen.modelled}, "outcome"
    if case == "one category":
        chosen = declared(CategoryColumn("only", ("x",)), CategoryColumn("too", ("y",)))
        return chosen, {name: np.zeros(n_rows, dtype=int) for name in chosen.names}, "too"
    if case == "all missing":
        columns = [column for column in COLUMNS.values() if column.name in {"income", "score", "smoker"}]
        chosen = declared(*columns)
        return chosen, {column.name: np.full(n_rows, column.size - 1) for column in columns}, None
    if case == "identical columns":
        chosen = declared(*(replace(COLUMNS["age"], name=name) for name in ("one", "two")), COLUMNS["outcome"])
        age = random.integers(73, size=n_rows)
        return chosen, {"one": age, "two": age, "outcome": age % 3}, "outcome"
    if case == "no label":
        return declared(*COLUMNS.values()), dependent_codes(n_rows), None
    if case == "one column":
        return declared(COLUMNS["income"]), {"income": dependent_codes(n_rows)["income"]}, None
    if case == "sixty of two":
        # As few rows as get the fewest rounds at the largest epsilon.
        chosen = declared(*(YesNoColumn(f"c{d}") for d in range(60)))
        cause = random.integers(2, size=200)
        return chosen, {name: np.where(random.random(200) < 0.7, cause, 1 - cause) for name in chosen.names}, "c0"
    chosen = declared(LONG, COLUMNS["outcome"])
    return chosen, {"long": random.integers(LONG.size, size=n_rows), "outcome": np.arange(n_rows) % 3}, "outcome"


ODD = (
    "one row", "constant columns", "one category", "all missing", "identical columns", "no label", "one column",
    "sixty of two", "a million codes",
)  # fmt: skip


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("case", "row_count", "epsilon"), each_once(ODD, BOTH_RELATIONS, [0.1, 1.0, 10.0], others=pytest.mark.slow)
)
def test_odd_tables_fit_and_sample(case, row_count, epsilon):
    declared, codes, label = odd(case, row_count)
    opened = session(declared, codes, epsilon=epsilon)
    made = fit(opened, label=label)
    assert opened.remaining_share < 1e-9
    check_domain(made.sample(500, seed=1), declared, 500)
    check_domain(made.sample(1, seed=1), declared, 1)


def test_two_identical_columns_come_out_alike():
    declared, codes, label = odd("identical columns", "public")
    codes = {name: np.tile(column, 20) for name, column in codes.items()}
    rows = fit(session(declared, codes, epsilon=5.0), label=label).sample(5000, seed=0)
    # Bins of a number are a few years wide; independent columns would be 25 years apart.
    assert np.abs(rows[:, 0] - rows[:, 1]).mean() < 6


# Its options, its progress, its forecast


@pytest.mark.parametrize(
    "options",
    [{"bins": 1}, {"columns_share": 0.0}, {"label_share": 0.6}, {"cells": 10}, {"model": "copula"}],
    ids=lambda options: next(iter(options)),
)
def test_useless_options_are_refused(options):
    with pytest.raises(ConfigError, match=rf"\b{next(iter(options))}'? must "):
        generators.make(NAME, task(schema()), options)


def test_a_part_for_columns_of_one_asks_nothing_more():
    opened = opened_on()
    fit(opened, columns_share=1.0)
    assert [receipt.query for receipt in opened.receipts] == ["round values", "one-way tables", "sums of numbers"]


class Written(NullProgress):
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.phases: list[str] = []
        self.steps: list[tuple[int, int]] = []
        self.losses: list[float] = []

    def phase(self, name: str) -> None:
        self.phases.append(name)

    def step(self, k: int, of: int) -> None:
        self.steps.append((k, of))

    def loss(self, value: float) -> None:
        self.losses.append(value)


@pytest.mark.thorough
def test_progress_goes_to_the_end_and_losses_are_finite():
    told = Written()
    generators.make(NAME, task(schema()), {}).fit(opened_on(), told)
    assert told.phases == ["Counting columns", "Choosing tables", "Fitting"]
    assert [of for _, of in told.steps] == [100] * len(told.steps)
    done = [k for k, _ in told.steps]
    assert done == sorted(done)
    assert done[-1] == 100
    assert np.isfinite(told.losses).all()
    assert len(told.losses) > 3
    # Held against the same answers, a model that learned from more of them is nearer, but for what noise moves.
    assert told.losses[-1] == min(told.losses)
    assert all(later < 1.05 * before for before, later in itertools.pairwise(told.losses))
    assert told.losses[-1] < 0.9 * told.losses[0]


def test_a_run_that_is_cancelled_while_choosing_asks_no_more():
    class Stopped(NullProgress):
        def step(self, k: int, of: int) -> None:
            raise RunCancelledError("The run was cancelled.")

    opened = opened_on()
    with pytest.raises(RunCancelledError):
        generators.make(NAME, task(schema()), {}).fit(opened, Stopped())
    assert len(counted_together(opened)) == 1


def config(declared: Schema, **changes) -> RunConfig:
    settings = {
        "schema": declared, "account": "people", "epsilon": 1.0, "delta": 1e-5, "rows": 100, "generator": NAME,
        "people_at_most": 2000, "label": None, "table": "/elsewhere/table.csv",
    }  # fmt: skip
    return RunConfig(**settings | changes)


@pytest.mark.thorough
def test_the_forecast_knows_the_columns_and_sets_the_choices_aside():
    found = forecast(config(schema(), label="outcome", epsilon=5.0))
    opened = opened_on(2000)
    fit(opened)
    (planned,) = [part for part in found.parts if part.name == "one-way tables"]
    (receipt,) = [one for one in opened.receipts if one.query == "one-way tables"]
    assert planned.share == pytest.approx(receipt.mu_squared_units * 2.0**-40 / opened.budget.mu_squared, rel=1e-6)
    assert sum(part.share for part in found.parts) == pytest.approx(1.0)
    assert "private choices" in {part.name for part in found.parts}
    assert len(found.columns) == len(COLUMNS)
    assert all(np.isfinite(cell.noise_std) for cell in (*found.columns, *found.pairs))


@pytest.mark.parametrize("row_count", BOTH_RELATIONS)
def test_a_forecast_of_few_people_has_no_choices(row_count):
    found = forecast(config(schema(row_count=row_count), people_at_most=30, epsilon=0.5))
    assert "private choices" not in {part.name for part in found.parts}
    assert sum(part.share for part in found.parts) == pytest.approx(1.0)


def test_the_forecast_of_a_wide_table_is_quick():
    kinds: tuple[Callable[[int], object], ...] = (
        lambda d: NumberColumn(f"c{d}", 0, 9999, 1, missing=True),
        lambda d: CategoryColumn(f"c{d}", tuple(map(str, range(30))), missing=True),
    )
    declared = Schema(tuple(kinds[d % 2](d) for d in range(60)), number_of_units=900_000)
    found = []
    require_within(5, lambda: found.append(forecast_lines(config(declared, people_at_most=1_000_000))))
    lines = found[-1]
    assert len(lines) > 60
    assert any("one-way tables" in line for line in lines)
    assert any("private choices" in line for line in lines)


# Parts


def test_larger_tables_pay_a_larger_penalty_and_important_ones_in_proportion():
    declared = Schema(
        (
            CategoryColumn("small", tuple("ab")),
            CategoryColumn("large", tuple(map(str, range(30)))),
            CategoryColumn("valued", tuple(map(str, range(30))), weight=Weight.HIGH),
            CategoryColumn("other", tuple("ab")),
        )
    )
    random = np.random.default_rng(0)
    noting = Noting(session(declared, {c.name: random.integers(c.size, size=5000) for c in declared.modelled}))
    fit(noting, label=None)
    found = {candidate.columns: candidate for candidate in noting.candidates[0]}
    assert 0 < found["small", "other"].penalty < found["small", "large"].penalty
    assert found["small", "large"].penalty < found["small", "valued"].penalty
    assert found["small", "large"].weight < found["small", "valued"].weight


def test_options_as_the_form_shows_them():
    names = {field.name for field in generators.options_of(NAME)}
    assert names == {"bins", "columns_share", "label_share", "cells", "model", "purpose"}
    assert AdaptiveOptions().model == "auto"
    # Switches of earlier versions are unknown.
    with pytest.raises(ConfigError, match="whole_rows"):
        generators.make(NAME, task(schema()), {"whole_rows": "never"})


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device on this machine")
@pytest.mark.parametrize("model", QUICK_MODELS)
def test_cuda_makes_rows_like_the_cpu(model):
    found = []
    for device in ("cpu", "cuda"):
        opened = PrivateSession(
            PrivateTable.from_codes(schema(), dependent_codes(600)), opened_on().budget, noise=RecordedNoise(0)
        )
        made = generators.make(NAME, task(schema(), device=device), {"model": model}).fit(opened, NullProgress())
        rows = made.sample(20_000, seed=0)
        found.append(np.bincount(rows[:, -1] * 3 + rows[:, -3] % 3, minlength=9) / 20_000)
    np.testing.assert_allclose(*found, atol=0.05)
