"""One-way tables of all columns: one question, consistent counts, spikes kept, and columns with nothing to learn."""

from __future__ import annotations

import datetime
import math
import os
from pathlib import Path

import numpy as np
import pytest
from simulated import dependent_codes, schema, session

from synth.generators.adaptive.coarsening import Coarseness, coarsen
from synth.generators.independent import IndependentOptions
from synth.generators.independent.independent import Independent
from synth.generators.one_way_marginals import OneWayMarginals, fine_grid, measure_one_way_marginals
from synth.generators.protocol import GeneratorTask
from synth.privacy.accounting import PrivacyBudget
from synth.privacy.bins import Bins
from synth.privacy.feature_maps import Stack
from synth.privacy.session import PrivateSession
from synth.progress import NullProgress
from synth.reading.reader import read_codes
from synth.reports.forecast import PlannedSession
from synth.schema import (
    CategoryColumn,
    DateColumn,
    ModelledColumn,
    Neighbours,
    NumberColumn,
    PrivacyUnit,
    Schema,
    Weight,
    YesNoColumn,
    load_config,
)

DATA = os.environ.get("HERMITAGE_DATA")
ADULT = Path(__file__).parents[2] / "examples" / "adult.yaml"

LONG = NumberColumn("long", 0, 99_999, 1)
SIGNED = NumberColumn("signed", -60, 60, 0.01, missing=True)


def measured(opened: PrivateSession, label: str | None = None) -> OneWayMarginals:
    return measure_one_way_marginals(opened, opened.schema.modelled, label=label, share=1.0, source="test")


def alone(column: ModelledColumn, codes: np.ndarray, **options: float) -> np.ndarray:
    """Estimated proportions of a table of one column."""
    return measured(session(Schema((column,)), {column.name: codes}, **options)).columns[0].proportions


def by_place(column: ModelledColumn, codes: np.ndarray) -> np.ndarray:
    places = fine_grid(column)
    return np.add.reduceat(np.bincount(codes, minlength=column.size), places.first).astype(float)


def test_everything_comes_from_one_answer() -> None:
    opened = session(schema(), dependent_codes(500))
    measured(opened, "outcome")
    assert [(one.query, one.source) for one in opened.receipts] == [("one-way tables", "test")]
    assert opened.remaining_share == 0


def test_two_answers_are_averaged_by_their_precision() -> None:
    opened = session(schema(), dependent_codes(500), epsilon=1.0)
    columns = opened.schema.modelled
    first, both = None, None
    for share in (0.2, 0.6):
        first, both = (
            both,
            measure_one_way_marginals(opened, columns, label=None, share=share, source="test", earlier=both),
        )
    assert first is not None
    assert both is not None
    assert [one.query for one in opened.receipts] == ["one-way tables", "one-way tables again (1)"]
    for early, late in zip(first.columns, both.columns, strict=True):
        # Four times the budget, half of the noise.
        assert late.cell_std == pytest.approx(early.cell_std / 2, rel=1e-3)
    again = np.asarray(opened.sums[1].value).reshape(-1)
    once = np.asarray(opened.sums[0].value).reshape(-1)
    weights = np.repeat(
        opened.sums[1].feature_map.weights, [part.dimension for part in opened.sums[1].feature_map.parts]
    )
    kept = np.concatenate([values for column in both.answers for values, _ in column])
    np.testing.assert_allclose(kept, (0.25 * once + 0.75 * again) / weights, rtol=1e-3, atol=0.05)
    assert both.unit_noise == pytest.approx(first.unit_noise, rel=1e-3)


ALIKE_AND_NEARLY = (
    NumberColumn("one", 0, 5000, 1),
    NumberColumn("another", 0, 5000, 1),
    NumberColumn("heavy", 0, 5000, 1, weight=Weight.HIGH),
    NumberColumn("of another zero", -2000, 3000, 1),
    NumberColumn("of fewer places", 0, 4999, 1, missing=True),
    NumberColumn("with a code beside them", 0, 5000, 1, missing=True),
    CategoryColumn("in no order", tuple(f"v{place}" for place in range(5001))),
)
"""The first three of the same codes, each of the others like them in all but one thing."""


def test_columns_share_what_follows_from_the_same_codes_and_nothing_else() -> None:
    codes = {column.name: np.arange(7) for column in ALIKE_AND_NEARLY}
    together = session(Schema(ALIKE_AND_NEARLY), codes)
    measured(together)
    bins: dict[str, list[Bins | None]] = {}
    for part in together.sums[0].feature_map.parts:
        bins.setdefault(part.columns[0], []).extend(part.bins)
    for column in ALIKE_AND_NEARLY:
        by_itself = session(Schema((column,)), {column.name: codes[column.name]})
        measured(by_itself)
        asked = [part.bins[0] for part in by_itself.sums[0].feature_map.parts]
        assert len(asked) == len(bins[column.name])
        assert asked == bins[column.name]
    assert all(one is other for one, other in zip(bins["one"], bins["heavy"], strict=True))


def test_a_plan_learns_of_columns_together_what_it_learns_of_each() -> None:
    def planned(columns: tuple[ModelledColumn, ...], share: float) -> OneWayMarginals:
        plan = PlannedSession(Schema(columns, PrivacyUnit()), PrivacyBudget(1.0, 1e-5, Neighbours.ADD_REMOVE), rows=900)
        return measure_one_way_marginals(plan, columns, label=None, share=share, source="test")

    together = planned(ALIKE_AND_NEARLY, 1.0)
    squares = {part.columns[0]: 0.0 for part in together.question.parts}
    for part, weight in zip(together.question.parts, together.question.weights, strict=True):
        squares[part.columns[0]] += weight**2
    bins = coarsen(together, Coarseness())
    for d, column in enumerate(ALIKE_AND_NEARLY):
        one = together.columns[d]
        by_itself = planned((column,), squares[column.name])
        (alone_bins,) = coarsen(by_itself, Coarseness())
        assert one.column is column
        assert one.cell_std == pytest.approx(by_itself.columns[0].cell_std, rel=1e-6)
        np.testing.assert_allclose(one.proportions, by_itself.columns[0].proportions)
        np.testing.assert_allclose(bins[d].noise_std, alone_bins.noise_std, rtol=1e-6)
        assert np.array_equal(bins[d].bin_of_place, alone_bins.bin_of_place)


def test_weights_follow_importance_and_length() -> None:
    columns = (
        NumberColumn("wide", 0, 5000, 1, weight=Weight.HIGH),
        NumberColumn("plain", 0, 5000, 1),
        YesNoColumn("short"),
        YesNoColumn("label"),
    )
    declared = Schema(columns)
    opened = session(declared, {column.name: np.zeros(5, dtype=int) for column in columns})
    one_ways = measured(opened, "label")
    question = opened.sums[0].feature_map
    assert isinstance(question, Stack)
    squares = {name: 0.0 for name in declared.names}
    for part, weight in zip(question.parts, question.weights, strict=True):
        squares[part.columns[0]] += weight**2
    assert sum(squares.values()) == pytest.approx(1.0, abs=1e-6)
    assert squares["wide"] == pytest.approx(2 * squares["plain"], rel=1e-5)
    assert squares["plain"] == pytest.approx(16 ** (1 / 3) * squares["short"], rel=1e-5)
    assert squares["label"] == pytest.approx(squares["plain"], rel=1e-5)
    assert one_ways.label == 3
    stds = [one.cell_std for one in one_ways.columns]
    noise = opened.sums[0].noise_std
    np.testing.assert_allclose(stds, [noise / math.sqrt(squares[name]) for name in declared.names], rtol=1e-6)


@pytest.mark.parametrize("column", [LONG, SIGNED], ids=lambda column: column.name)
def test_cells_of_every_resolution_come_in_the_order_of_their_codes(column: NumberColumn) -> None:
    """So that a report on the coarse counts reads from low to high."""
    opened = session(Schema((column,)), {column.name: np.zeros(5, dtype=int)})
    measured(opened)
    question = opened.sums[0].feature_map
    assert isinstance(question, Stack)
    assert len(question.parts) == 3
    for part in question.parts:
        found, first = np.unique(part.bins[0].plain(), return_index=True)
        assert len(found) == part.dimension
        assert (np.diff(first) > 0).all()


@pytest.mark.parametrize("row_count", ["public", "private"])
def test_counts_without_noise_are_the_counts(row_count: str) -> None:
    declared, codes = schema(row_count=row_count), dependent_codes(500)
    one_ways = measured_rest(session(declared, codes, noise_key=None))
    for column, one in zip(declared.modelled, one_ways.columns, strict=True):
        np.testing.assert_allclose(one.counts, by_place(column, codes[column.name]), atol=1e-6)


def measured_rest(opened: PrivateSession) -> OneWayMarginals:
    """Ask with what counting the rows has left."""
    return measure_one_way_marginals(
        opened,
        opened.schema.modelled,
        label=None,
        share=opened.remaining_share,
        source="test",
    )


@pytest.mark.thorough
@pytest.mark.parametrize("row_count", ["public", "private"])
def test_counts_are_unbiased_and_as_noisy_as_they_say(row_count: str) -> None:
    declared = schema("income", "score", "outcome", row_count=row_count)
    codes = {name: one for name, one in dependent_codes(300).items() if name in declared.names}
    errors: dict[str, list[np.ndarray]] = {name: [] for name in declared.names}
    for key in range(60):
        one_ways = measured_rest(session(declared, codes, noise_key=key))
        for column, cut in zip(declared.modelled, one_ways.columns, strict=True):
            one = cut.everywhere  # a cell that is emptied far out has neither rows nor noise
            groups = np.arange(one.grid.size) * min(5, one.grid.size) // one.grid.size
            exact = np.bincount(groups, weights=by_place(column, codes[column.name]))
            std = np.sqrt(one.variances_of(groups, len(exact)))
            if row_count == "public":
                assert one.counts.sum() == pytest.approx(300)
            errors[column.name].append((np.bincount(groups, weights=one.counts) - exact) / std)
    for name, found in errors.items():
        scores = np.array(found)
        # Means of 60 are within 5 standard errors, variances (chi squared, 60 degrees) within 1e-6 tails.
        assert np.abs(scores.mean(axis=0)).max() < 5 / math.sqrt(60), name
        assert (scores.var(axis=0) > 0.35).all(), name
        assert (scores.var(axis=0) < 2.2).all(), name


def test_counts_far_below_zero_are_no_overflow() -> None:
    """Warnings are errors here: the noise of cells far out adds up to tens of thousands of rows that are not there."""
    proportions = alone(LONG, np.arange(90_000) % 500, epsilon=0.0005, noise_key=1)
    assert proportions.sum() == pytest.approx(1.0)


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 100.0])
def test_proportions_are_possible(epsilon: float) -> None:
    one_ways = measured(session(schema(), dependent_codes(300), epsilon=epsilon))
    for one in one_ways.columns:
        assert (one.proportions >= 0).all()
        assert one.proportions.sum() == pytest.approx(1.0)
        assert one.proportions.shape == one.counts.shape == one.grid.first.shape


@pytest.mark.parametrize(
    "column",
    [
        LONG,
        SIGNED,
        NumberColumn("below", -9000, -1000, 1, special=(0.0, 5.0)),
        NumberColumn("huge", 0, 2**24 - 1, 1),
        NumberColumn("short", 0, 99, 1),
        DateColumn("day", datetime.date(1900, 1, 1), datetime.date(2025, 1, 1)),
        CategoryColumn("category", tuple(map(str, range(9000))), other=True),
    ],
    ids=lambda column: column.name,
)
def test_places_hold_every_code_once(column: ModelledColumn) -> None:
    places = fine_grid(column)
    assert (places.width > 0).all()
    assert places.first[0] == 0
    np.testing.assert_array_equal(places.first[1:], np.cumsum(places.width)[:-1])
    assert places.width.sum() == column.size
    assert places.levels <= 2048
    assert places.width[: places.levels].sum() == column.levels


@pytest.mark.parametrize(
    ("column", "zero"),
    [(LONG, 0), (SIGNED, 6000), (NumberColumn("below", -9000, -1000, 1), 8000)],
    ids=lambda one: None,
)
def test_zero_and_the_ends_stand_alone(column: NumberColumn, zero: int) -> None:
    places = fine_grid(column)
    width_of_code = np.repeat(places.width, places.width)
    assert width_of_code[[0, zero, column.levels - 1]].tolist() == [1, 1, 1]
    # Near zero places are narrow, and nowhere wider than twice an equal share.
    assert width_of_code[max(zero - 20, 0) : zero + 20].max() == 1
    assert places.width.max() <= 2 * math.ceil(column.levels / 1024)


@pytest.mark.parametrize("spike", [0, 99_999])
@pytest.mark.parametrize("epsilon", [0.1, 1.0])
def test_spikes_survive(spike: int, epsilon: float) -> None:
    random = np.random.default_rng(1)
    codes = np.where(random.random(20_000) < 0.7, spike, random.integers(100_000, size=20_000))
    proportions = alone(LONG, codes, epsilon=epsilon)
    assert proportions[0 if spike == 0 else -1] == pytest.approx(0.7, abs=0.05)


def test_a_smooth_column_stays_smooth() -> None:
    codes = np.clip(np.random.default_rng(2).normal(40_000, 8_000, 20_000), 0, 99_999).astype(int)
    places = fine_grid(LONG)
    made = np.cumsum(np.repeat(alone(LONG, codes, epsilon=0.3) / places.width, places.width))
    real = np.cumsum(np.bincount(codes, minlength=LONG.size)) / len(codes)
    assert np.abs(made - real).max() < 0.03


def test_missing_and_special_values_are_cells_of_their_own() -> None:
    column = NumberColumn("gain", 0, 99_999, 1, special=(0.0,), missing=True)
    codes = np.repeat([500, column.levels, column.levels + 1], [1000, 6000, 3000])
    proportions = alone(column, codes)
    np.testing.assert_allclose(proportions[-2:], [0.6, 0.3], atol=0.02)


@pytest.mark.parametrize(
    ("columns", "codes"),
    [
        ((CategoryColumn("one", ("only",)),), {"one": np.zeros(5, dtype=int)}),
        ((LONG,), {"long": np.array([77])}),
        ((SIGNED,), {"signed": np.full(50, SIGNED.size - 1)}),
        ((NumberColumn("tiny", 0, 1, 1), LONG), {"tiny": np.zeros(9, dtype=int), "long": np.full(9, 123)}),
        ((CategoryColumn("many", tuple(map(str, range(9000)))),), {"many": np.arange(40)}),
        ((NumberColumn("single", 0, 1, 5, missing=True),), {"single": np.ones(3, dtype=int)}),
    ],
    ids=["one code", "one row", "all missing", "constant", "many categories", "one level"],
)
@pytest.mark.parametrize("row_count", ["public", "private"])
@pytest.mark.parametrize("epsilon", [0.001, 1.0])
def test_nothing_to_learn(columns, codes, row_count: str, epsilon: float) -> None:
    opened = session(Schema(columns, row_count=row_count), codes, epsilon=epsilon)
    for one in measured_rest(opened).columns:
        assert np.isfinite(one.counts).all()
        assert (one.proportions >= 0).all()
        assert one.proportions.sum() == pytest.approx(1.0)


def test_a_measured_number_of_rows_may_be_below_zero() -> None:
    declared = Schema((LONG,), row_count="private")
    seen = []
    for key in range(6):
        opened = session(declared, {"long": np.array([5])}, epsilon=0.01, noise_key=key)
        seen.append(float(opened.sums[0].value[0]))
        assert measured_rest(opened).columns[0].proportions.sum() == pytest.approx(1.0)
    assert min(seen) < 0


@pytest.mark.skipif(DATA is None, reason="HERMITAGE_DATA does not name a folder of real tables")
def test_adult_capital_gain() -> None:
    """Zero and the top code are not declared special here, as an owner might forget."""
    config = load_config(ADULT)
    read = read_codes(lambda: (Path(DATA or "") / "adult" / "adult.data.gz").open("rb"), config.format, config.schema)
    codes = {name: read._codes[name].astype(np.int64) for name in config.schema.names}
    columns = []
    for column in config.schema.modelled:
        if column.name.startswith("capital"):
            codes[column.name][codes[column.name] == column.levels] = 0
            column = NumberColumn(column.name, column.low, column.high, column.step)
        columns.append(column)
    declared, gain = Schema(tuple(columns)), config.schema.names.index("capital-gain")
    real = np.bincount(codes["capital-gain"], minlength=100_000) / read._n_rows
    opened = session(declared, codes)
    one = measured(opened, "income").columns[gain]
    assert one.proportions[0] == pytest.approx(real[0], abs=0.01)
    assert one.proportions[-1] == pytest.approx(real[-1], abs=0.003)
    made = np.repeat(one.proportions / one.grid.width, one.grid.width)
    assert np.abs(np.cumsum(made) - np.cumsum(real)).max() < 0.03
    # The control spreads the zeros over a 32nd of the range.
    control = Independent(GeneratorTask(schema=declared), IndependentOptions()).fit(
        session(declared, codes), NullProgress()
    )
    state = control.state()[f"table.{gain}"][0]
    spread = np.repeat(state / 3125, 3125)
    assert np.abs(np.cumsum(spread) - np.cumsum(real)).max() > 0.5


def test_every_code_of_the_longest_list_is_counted_by_itself() -> None:
    """Neighbours in a list have nothing in common: a frequent code must not give half of its rows to the next one."""
    column = CategoryColumn("code", tuple(map(str, range(10_000))))
    grid = fine_grid(column)
    assert grid.size == 10_000
    assert (grid.width == 1).all()
