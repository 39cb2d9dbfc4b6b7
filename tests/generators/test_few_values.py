"""Numbers of few values: exactly these come back where answers allow it, and a real spread is never taken for noise."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from simulated import session, task

from synth import generators
from synth.generators.adaptive.bins import ColumnBins
from synth.generators.adaptive.coarsening import Coarseness, coarsen
from synth.generators.adaptive.written_values import as_written, few_values, with_round_values, with_tails
from synth.generators.one_way_marginals import (
    OneWayMarginals,
    fine_grid,
    measure_one_way_marginals,
)
from synth.generators.round_values import RoundCounts, RoundPlan, measure_round_values
from synth.generators.sampling import random_source
from synth.progress import NullProgress
from synth.schema import NumberColumn, PrivacyUnit, Schema, YesNoColumn

DENSITY = NumberColumn("density", 0, 2, 0.0001)
"""Several codes in a place: remainders name them."""

RATE = NumberColumn("rate", 0, 1, 0.001, special=(-1.0,), missing=True)
"""A place for each code."""

VALUES = {"density": [7913, 8765, 9982, 10301, 11127], "rate": [0, 125, 333, 500, 1000]}
ROWS = 20_000
COLUMNS = pytest.mark.parametrize("column", [DENSITY, RATE], ids=lambda one: one.name)


def spiked(column: NumberColumn, elsewhere: float, seed: int = 0, rows: int = ROWS) -> np.ndarray:
    """Codes of five values, of which a part is spread evenly over half of the grid."""
    random = np.random.default_rng(seed)
    codes = random.choice(VALUES[column.name], size=rows, p=[0.11, 0.27, 0.27, 0.21, 0.14])
    spread = random.random(rows) < elsewhere
    codes[spread] = random.integers(column.levels // 4, 3 * column.levels // 4, int(spread.sum()))
    return codes


def asked(
    column: NumberColumn, codes: np.ndarray, *, key: int = 0, share: float = 0.02, epsilon: float = 1.0
) -> tuple[OneWayMarginals, dict[str, RoundCounts]]:
    opened = session(Schema((column,), PrivacyUnit(), "private"), {column.name: codes}, epsilon=epsilon, noise_key=key)
    counted = measure_round_values(opened, (column,), plan=RoundPlan(share=share / 4), source="test")
    return measure_one_way_marginals(opened, (column,), label=None, share=share, source="test"), counted


def written(one_ways: OneWayMarginals, counted: dict[str, RoundCounts]) -> ColumnBins:
    way = one_ways.columns[0]
    bins = coarsen(one_ways, Coarseness())[0]
    return as_written(bins, way, counted[way.column.name], one_ways.rows)


def drawn(bins: ColumnBins, rows: int = 50_000) -> np.ndarray:
    parts = np.rint(rows * bins.expected / bins.expected.sum()).astype(int)
    of_model = np.repeat(np.arange(bins.size), parts)
    return bins.codes(of_model if bins.drawn_as is None else bins.drawn_as[of_model], random_source(0))


@COLUMNS
@pytest.mark.parametrize("key", range(4))
def test_five_values_come_back_as_exactly_five(column: NumberColumn, key: int) -> None:
    codes = spiked(column, 0.0)
    one_ways, counted = asked(column, codes, key=key)
    bins = written(one_ways, counted)
    before = coarsen(one_ways, Coarseness())[0]
    before = with_round_values(before, counted[column.name], one_ways.rows, one_ways.columns[0].cell_std)
    assert len(np.unique(drawn(before))) > 5
    made = drawn(bins)
    on_grid = made[made < column.levels]
    assert np.unique(on_grid).tolist() == VALUES[column.name]
    noise = one_ways.columns[0].cell_std / ROWS
    for value in VALUES[column.name]:
        assert abs((on_grid == value).mean() - (codes == value).mean()) < 12 * noise


@pytest.mark.thorough
@COLUMNS
@pytest.mark.parametrize("elsewhere", [0.1, 0.03])
def test_a_spread_that_noise_does_not_explain_is_kept(column: NumberColumn, elsewhere: float) -> None:
    kept = []
    for key in range(6):
        one_ways, counted = asked(column, spiked(column, elsewhere, seed=key), key=key)
        assert few_values(one_ways.columns[0], counted[column.name]) is None
        made = drawn(written(one_ways, counted))
        kept.append((~np.isin(made, VALUES[column.name])).mean())
        assert len(np.unique(made)) > 50
    # Where codes share a place, some of it goes to the named ones, as it did before.
    assert elsewhere / 2 < np.mean(kept) < 1.5 * elsewhere


@COLUMNS
def test_one_row_in_a_hundred_is_kept_where_noise_is_less_than_that(column: NumberColumn) -> None:
    """A hundredth is 200 rows: noise of a sum over five values is 120 with little budget, and 30 with much."""
    found = {
        share: [
            few_values(one_ways.columns[0], counted[column.name]) is not None
            for one_ways, counted in (
                asked(column, spiked(column, 0.01, seed=key), key=key, share=share) for key in range(6)
            )
        ]
        for share in (0.02, 0.4)
    }
    assert not any(found[0.4])
    assert sum(found[0.02]) <= 4


@pytest.mark.thorough
@COLUMNS
@pytest.mark.parametrize(("rows", "epsilon"), [(600, 1.0), (5000, 0.1)])
def test_with_more_noise_than_that_nothing_is_concluded(column: NumberColumn, rows: int, epsilon: float) -> None:
    for key in range(6):
        one_ways, counted = asked(column, spiked(column, 0.0, rows=rows), key=key, share=0.4, epsilon=epsilon)
        assert few_values(one_ways.columns[0], counted[column.name]) is None


@COLUMNS
def test_a_value_that_stands_out_but_is_not_clear_leaves_it_open(column: NumberColumn) -> None:
    codes = spiked(column, 0.0)
    one_ways, counted = asked(column, codes)
    way = one_ways.columns[0]
    few = few_values(way, counted[column.name])
    assert few is not None
    other = int(np.argmin(np.abs(way.grid.first[: way.grid.levels] - column.levels * 0.6)))
    groups = (np.arange(way.grid.size) == other).astype(int)
    noise = float(np.sqrt(way.variances_of(groups, 2)[1]))
    counts = way.counts.copy()
    counts[other] = 4.8 * noise
    assert few_values(replace(way, counts=counts), counted[column.name]) is None


@COLUMNS
def test_a_sixth_value_is_one_more(column: NumberColumn) -> None:
    codes = spiked(column, 0.0)
    codes[:1500] = sixth = round(0.58 * column.levels)
    one_ways, counted = asked(column, codes, share=0.05)
    few = few_values(one_ways.columns[0], counted[column.name])
    assert few is not None
    assert few.codes.tolist() == sorted([*VALUES[column.name], sixth])


def test_two_values_in_one_place_are_both_kept() -> None:
    codes = spiked(DENSITY, 0.0)
    first = fine_grid(DENSITY).first
    at = int(first[first > 9000][0])
    codes[:3000], codes[3000:5000] = at, at + 2
    one_ways, counted = asked(DENSITY, codes, share=0.05)
    made = drawn(written(one_ways, counted))
    assert np.unique(made).tolist() == sorted([*VALUES["density"], at, at + 2])
    assert (made == at).sum() / (made == at + 2).sum() == pytest.approx(1.5, abs=0.2)


def test_heaps_beside_a_spread_are_no_few_values() -> None:
    """Half of the rows are at tens and half anywhere: many places are clear, and others hold rows together."""
    random = np.random.default_rng(3)
    codes = random.integers(1, 1000, ROWS)
    codes = np.where(random.random(ROWS) < 0.5, codes // 100 * 100, codes)
    one_ways, counted = asked(RATE, codes, share=0.2)
    assert few_values(one_ways.columns[0], counted["rate"]) is None


@COLUMNS
@pytest.mark.parametrize("key", range(4))
def test_a_faint_tail_of_a_column_that_is_nearly_all_one_value_is_not_cut_off(column: NumberColumn, key: int) -> None:
    """Of 100 rows 93 have one value, and half a row any of many others, which noise would explain."""
    codes = spiked(column, 0.0)
    random = np.random.default_rng(key)
    codes[:18_000] = VALUES[column.name][2]
    codes[18_000:18_100] = random.integers(column.levels // 4, 3 * column.levels // 4, 100)
    one_ways, counted = asked(column, codes, key=key, share=0.05)
    assert few_values(one_ways.columns[0], counted[column.name]) is None


@pytest.mark.parametrize("faint", [0, 30])
def test_one_value_is_no_few_values(faint: int) -> None:
    codes = np.zeros(ROWS, dtype=int)
    codes[:faint] = np.arange(faint) * 20
    one_ways, counted = asked(RATE, codes)
    assert few_values(one_ways.columns[0], counted["rate"]) is None


def test_special_values_and_missing_cells_keep_what_they_had() -> None:
    codes = spiked(RATE, 0.0)
    codes[:3000], codes[3000:4000] = RATE.levels, RATE.size - 1
    one_ways, counted = asked(RATE, codes, share=0.05)
    bins = coarsen(one_ways, Coarseness())[0]
    after = as_written(bins, one_ways.columns[0], counted["rate"], one_ways.rows)
    kept = slice(bins.grid.levels, None)
    np.testing.assert_array_equal(after.proportions[kept], bins.proportions[kept])
    np.testing.assert_allclose(after.expected, bins.expected, atol=1e-12)
    assert np.unique(drawn(after)).tolist() == [*VALUES["rate"], RATE.levels, RATE.size - 1]


@COLUMNS
def test_bins_keep_their_rows_and_those_without_a_value_are_drawn_as_the_nearest(column: NumberColumn) -> None:
    one_ways, counted = asked(column, spiked(column, 0.0))
    bins = coarsen(one_ways, Coarseness())[0]
    after = as_written(bins, one_ways.columns[0], counted[column.name], one_ways.rows)
    np.testing.assert_allclose(after.expected, bins.expected, atol=1e-12)
    np.testing.assert_array_equal(after.bin_of_place, bins.bin_of_place)
    assert after.drawn_as is not None
    of_code, values = bins.bins.plain(), np.array(VALUES[column.name])
    assert of_code is not None
    for one in range(int(of_code[column.levels - 1]) + 1):
        inside = np.flatnonzero(of_code == one)
        nearest = values[np.abs(values - (inside[0] + inside[-1]) / 2).argmin()]
        assert after.drawn_as[one] == (one if np.isin(values, inside).any() else of_code[nearest])
    assert (after.drawn_as[of_code[column.levels - 1] + 1 :] >= of_code[column.levels - 1] + 1).all()


@COLUMNS
def test_without_the_question_or_an_answer_nothing_is_changed(column: NumberColumn) -> None:
    one_ways, counted = asked(column, spiked(column, 0.0))
    way, told = one_ways.columns[0], counted[column.name]
    even = coarsen(one_ways, Coarseness())[0]
    for answer in (None, replace(told, counts=np.zeros_like(told.counts))):
        plain = as_written(even, way, answer, one_ways.rows)
        np.testing.assert_array_equal(plain.proportions, with_tails(even, way).proportions)
        assert plain.drawn_as is plain.chances is None


@COLUMNS
def test_saved_and_rebuilt_they_draw_the_same_bytes(column: NumberColumn) -> None:
    one_ways, counted = asked(column, spiked(column, 0.0))
    bins = written(one_ways, counted)
    again = ColumnBins.from_state(column, bins.state())
    assert again.drawn_as is not None
    np.testing.assert_array_equal(again.drawn_as, bins.drawn_as)
    rows = np.arange(5000) % bins.size
    for seed in (0, 1):
        np.testing.assert_array_equal(bins.codes(rows, random_source(seed)), again.codes(rows, random_source(seed)))


def test_rows_of_the_generator_have_the_five_values_and_what_goes_with_them() -> None:
    codes = {"density": spiked(DENSITY, 0.0)}
    codes["smoker"] = (np.random.default_rng(1).random(ROWS) < np.where(codes["density"] > 9000, 0.8, 0.2)).astype(int)
    declared = Schema((DENSITY, YesNoColumn("smoker")), PrivacyUnit(), "private")
    asked_for = task(declared, "smoker")
    made = generators.make("dp-hp-adaptive", asked_for, {"cells": 20_000})
    made.fit(session(declared, codes, epsilon=1.0), NullProgress())
    rows = made.sample(ROWS, 5)
    assert np.unique(rows[:, 0]).tolist() == VALUES["density"]
    for value in VALUES["density"]:
        real = codes["smoker"][codes["density"] == value].mean()
        assert rows[rows[:, 0] == value, 1].mean() == pytest.approx(real, abs=0.1)
    again = type(made).from_state(asked_for, made._options, made.state())
    np.testing.assert_array_equal(again.sample(ROWS, 5), rows)
