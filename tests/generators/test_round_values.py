"""Round values: public classes, one question, and codes inside bins that are as round as they were counted."""

from __future__ import annotations

import dataclasses
import datetime
import itertools
import math

import numpy as np
import pytest
from simulated import session

from synth.generators import round_values
from synth.generators.adaptive.bins import ColumnBins
from synth.generators.adaptive.coarsening import Coarseness, coarsen
from synth.generators.adaptive.written_values import with_round_values, with_tails
from synth.generators.one_way_marginals import measure_one_way_marginals
from synth.generators.round_values import (
    RoundCounts,
    RoundPlan,
    class_factors,
    long_numbers,
    measure_round_values,
    plan_round_values,
    round_classes,
)
from synth.generators.sampling import random_source
from synth.privacy.bins import Bins
from synth.schema import CategoryColumn, DateColumn, DateStep, NumberColumn, PrivacyUnit, Schema, Weight

INCOME = NumberColumn("income", 0, 300_000, 1, special=(-1.0,), missing=True)
FARE = NumberColumn("fare", 0, 300, 0.01)
PRESSURE = NumberColumn("pressure", 60, 260, 1)
ODD = NumberColumn("odd", -512.5, 700, 2.5)
LONG = (INCOME, FARE, PRESSURE, ODD)
ROWS = 12_000
FINE = RoundPlan(share=0.03)


def schema_of(*columns, row_count: str = "private", rows_per_unit: int = 1) -> Schema:
    return Schema(columns, PrivacyUnit(rows_per_unit=rows_per_unit), row_count=row_count)


def heaped(column: NumberColumn, unit: int, share: float, seed: int = 0, rows: int = ROWS) -> np.ndarray:
    """Codes of a bell over the grid, of which a share lies at multiples of so many steps."""
    random = np.random.default_rng(seed)
    codes = np.clip(random.normal(0.3, 0.08, rows), 0, 1) * (column.levels - 1)
    low = round(column.low / column.step)
    rounded = np.rint((codes + low) / unit) * unit - low
    return np.clip(np.where(random.random(rows) < share, rounded, codes), 0, column.levels - 1).astype(int)


def written(column: NumberColumn, codes: np.ndarray) -> np.ndarray:
    """Whole numbers of the last printed digit."""
    return np.array([int(text.replace(".", "").replace("-", "")) for text in column.texts(codes.tolist())])


def learned(
    column: NumberColumn, codes: np.ndarray, epsilon: float = 1.0, plan: RoundPlan = FINE
) -> tuple[ColumnBins, RoundCounts, float]:
    opened = session(schema_of(column), {column.name: codes}, epsilon=epsilon)
    counted = measure_round_values(opened, (column,), plan=plan, source="test")[column.name]
    one_ways = measure_one_way_marginals(opened, (column,), label=None, share=0.5, source="test")
    return coarsen(one_ways, Coarseness())[0], counted, one_ways.columns[0].cell_std


# Classes


@pytest.mark.parametrize("column", LONG, ids=lambda one: one.name)
def test_a_class_is_what_the_printed_digits_say_and_nothing_else(column: NumberColumn) -> None:
    classes, _, _ = round_classes(column)
    assert classes.size == column.levels
    out = {0, column.code_near_zero, column.levels - 1}
    digits: dict[int, set[tuple]] = {}
    longest = max(len(str(value)) for value in written(column, np.array([0, column.levels - 1])))
    step = 1 if column.levels < 50_000 else 7
    codes = np.arange(0, column.levels, step)
    for code, value in zip(codes.tolist(), written(column, codes).tolist(), strict=True):
        if code in out:
            assert classes[code] == 0
            continue
        text = str(value)
        kept = text.rstrip("0")
        zeros = len(text) - len(kept)
        quarter = kept[-2:] in ("25", "75")
        kind = "quarter" if quarter else kept[-1] if zeros == 0 or kept[-1] == "5" else "other"
        digits.setdefault(int(classes[code]), set()).add((max(len(text), longest - 3), zeros, kind))
    assert all(len(said) == 1 for said in digits.values())
    assert len(set(itertools.chain(*digits.values()))) == len(digits)


@pytest.mark.parametrize(
    "column",
    [
        NumberColumn("of both signs", -61_234, 151_000, 1),
        NumberColumn("in quarters", 3.25, 60_000, 0.25),
        NumberColumn("in thirties", -30, 12_000_000, 30),
        NumberColumn("in thousands", 5000, 200_000_000, 1000),
        NumberColumn("below zero", -2_000_000, -5, 7),
    ],
    ids=lambda one: one.name,
)
@pytest.mark.parametrize("magnitudes", [1, 4])
def test_pages_of_classes_are_those_of_every_value(column: NumberColumn, magnitudes: int) -> None:
    low, step = round_values._whole(column)
    values = np.abs(low + step * np.arange(column.levels))
    longest, zeros = len(str(values.max())), round_values._fewest_zeros(low, step, column.levels)
    keys = round_values._keys(values, zeros, longest, magnitudes)
    keys[[0, column.code_near_zero, column.levels - 1]] = 0
    _, ranks = np.unique(keys, return_inverse=True)
    assert (round_classes(column, magnitudes)[0].plain() == ranks).all()


def test_a_grid_of_thousands_tells_their_digits_apart() -> None:
    classes, _, _ = round_classes(NumberColumn("x", 0, 900_000, 1000))
    assert len(set(classes[np.arange(1, 10)].tolist())) == 9


def test_numbers_that_are_counted_place_by_place_are_left_out() -> None:
    short = NumberColumn("short", 0, 63, 1)
    date = DateColumn("day", datetime.date(2000, 1, 1), datetime.date(2024, 12, 31), DateStep.DAY)
    huge = NumberColumn("huge", 0, 2.0**60, 2.0**40)
    columns = (short, *LONG, date, huge, CategoryColumn("kind", tuple(map(str, range(100)))))
    assert long_numbers(columns) == LONG


# The question


def test_columns_share_classes_where_their_values_are_the_same_alone() -> None:
    columns = (
        NumberColumn("one", 0, 5000, 1),
        NumberColumn("another", 0, 5000, 1, weight=Weight.HIGH),
        NumberColumn("from one on", 1, 5001, 1),
        NumberColumn("of another zero", -2000, 3000, 1),
        NumberColumn("in fives", 0, 25_000, 5),
        NumberColumn("of fewer places", 0, 4999, 1, missing=True),
        NumberColumn("with a code beside them", 0, 5000, 1, missing=True),
    )
    codes = {column.name: np.arange(7) for column in columns}
    together = session(schema_of(*columns), codes)
    counted = measure_round_values(together, columns, plan=FINE, source="test")
    asked = {column.name: [] for column in columns}
    for part in together.sums[-1].feature_map.parts:
        asked[part.columns[0]].append(part.bins[0])
    for column in columns:
        by_itself = session(schema_of(column), {column.name: codes[column.name]})
        measure_round_values(by_itself, (column,), plan=FINE, source="test")
        parts = by_itself.sums[-1].feature_map.parts
        assert len(parts) == len(asked[column.name])
        assert all(part.bins[0] == bins for part, bins in zip(parts, asked[column.name], strict=True))
        assert counted[column.name].classes == round_classes(column)[0]
        assert np.array_equal(counted[column.name].sets, round_classes(column)[2])
    assert all(one is other for one, other in zip(asked["one"], asked["another"], strict=True))


@pytest.mark.parametrize("row_count", ["private", "public"])
@pytest.mark.parametrize("rows_per_unit", [1, 3])
def test_a_row_adds_one_vector_of_length_one(row_count: str, rows_per_unit: int) -> None:
    declared = schema_of(INCOME, FARE, row_count=row_count, rows_per_unit=rows_per_unit)
    opened = session(declared, {"income": heaped(INCOME, 1000, 0.6), "fare": heaped(FARE, 50, 0.9)})
    measure_round_values(opened, (INCOME, FARE), plan=FINE, source="test")
    receipt = opened.receipts[-1]
    row = math.sqrt(2) if row_count == "public" else 1.0
    assert receipt.query == "round values"
    assert receipt.sensitivity == pytest.approx(rows_per_unit * row, rel=1e-5)
    counted = 0.0 if declared.rows_are_public else 0.05
    assert opened.remaining_share == pytest.approx(0.97 - counted, abs=1e-4)


def test_every_row_is_counted_once_in_each_column_whatever_its_code() -> None:
    codes = {"income": np.arange(ROWS) % INCOME.size, "fare": heaped(FARE, 50, 0.9)}
    codes["income"][:3] = INCOME.levels, INCOME.size - 1, 0
    opened = session(schema_of(INCOME, FARE), codes, noise_key=None)
    found = measure_round_values(opened, (INCOME, FARE), plan=RoundPlan(share=0.5), source="test")
    for column in (INCOME, FARE):
        classes = np.zeros(column.size, dtype=int)
        classes[: column.levels] = round_classes(column)[0].plain()
        counts = np.bincount(classes[codes[column.name]], minlength=int(classes.max()) + 1)
        np.testing.assert_allclose(found[column.name].counts, counts, atol=0.01)


def test_importance_decides_whose_noise_is_less() -> None:
    important = NumberColumn("fare", 0, 300, 0.01, weight=Weight.HIGH)
    opened = session(schema_of(INCOME, important), {"income": heaped(INCOME, 1, 0), "fare": heaped(FARE, 1, 0)})
    found = measure_round_values(opened, (INCOME, important), plan=FINE, source="test")
    assert found["income"].noise_std == pytest.approx(math.sqrt(2) * found["fare"].noise_std, rel=1e-5)


def test_the_plan_follows_from_rows_and_columns_and_costs_little() -> None:
    def plan(rows: int, columns: int) -> RoundPlan:
        opened = session(schema_of(PRESSURE, row_count="public"), {"pressure": np.arange(rows) % 200})
        return plan_round_values(opened, (PRESSURE,) * columns)

    assert plan(5000, 0).share == 0.0
    assert plan(60, 1).share == 0.0  # noise would drown every class
    plans = [plan(rows, 2) for rows in (1_000, 20_000, 100_000, 300_000)]
    assert [one.fine for one in plans] == [False, True, True, True]
    shares = [one.share for one in plans]
    assert shares[0] == 0.03
    assert shares == sorted(shares, reverse=True)
    assert shares[-1] >= 0.002
    # Four times the columns need four times the share.
    assert plan(130_000, 4).share / plan(130_000, 1).share == pytest.approx(4.0)


def test_where_rows_are_few_wide_classes_are_asked() -> None:
    opened = session(schema_of(FARE), {"fare": heaped(FARE, 50, 0.9)})
    found = measure_round_values(opened, (FARE,), plan=RoundPlan(share=0.03, fine=False), source="test")["fare"]
    fine = round_classes(FARE)
    assert found.remainders is None
    assert found.magnitudes.max() == 1
    assert len(found.counts) < len(fine[1]) / 2
    # Every class of the other kind lies in one of these.
    assert len({*zip(fine[0].plain(), found.classes.plain(), strict=True)}) == len(fine[1])


# What is made of the answer


@pytest.mark.parametrize(
    ("column", "unit", "share", "epsilon", "off"),
    [(INCOME, 1000, 0.62, 1.0, 0.5), (FARE, 50, 0.985, 1.0, 0.5), (PRESSURE, 10, 0.4, 0.1, 0.0)],
    ids=["incomes", "fares", "pressures"],
)
def test_heaps_are_written_as_often_as_they_were(
    column: NumberColumn, unit: int, share: float, epsilon: float, off: float
) -> None:
    codes = heaped(column, unit, share)
    bins, counted, noise = learned(column, codes, epsilon)
    rounder = with_round_values(bins, counted, ROWS, noise)
    drawn = np.random.default_rng(1).choice(bins.size, ROWS, p=bins.expected / bins.expected.sum())
    real = (written(column, codes) % unit == 0).mean()
    before, after = (one.codes(drawn, random_source(3)) for one in (bins, rounder))
    before, after = ((written(column, one[one < column.levels]) % unit == 0).mean() for one in (before, after))
    assert abs(before - real) > off
    assert abs(after - real) < 0.05


def test_heaps_of_few_rows_come_back_though_every_class_is_noisy() -> None:
    """Of 700 ages in hundredths of a year nearly all are whole; a class has noise of 4 % of the rows."""
    age = NumberColumn("age", 0, 110, 0.01)
    codes = heaped(age, 100, 0.97, rows=700)
    real = (written(age, codes) % 100 == 0).mean()
    made = []
    for key in range(6):
        opened = session(schema_of(age, FARE), {"age": codes, "fare": codes % 30_000}, epsilon=1.0, noise_key=key)
        plan = plan_round_values(opened, (age, FARE))
        counted = measure_round_values(opened, (age, FARE), plan=plan, source="test")["age"]
        assert counted.noise_std > 0.04 * 700
        one_ways = measure_one_way_marginals(opened, (age,), label=None, share=0.5, source="test")
        bins = with_round_values(coarsen(one_ways, Coarseness())[0], counted, 700, one_ways.columns[0].cell_std)
        drawn = np.random.default_rng(1).choice(bins.size, 5000, p=bins.expected / bins.expected.sum())
        of_grid = bins.codes(drawn, random_source(3))
        made.append((written(age, of_grid[of_grid < age.levels]) % 100 == 0).mean())
    # With classes by every digit, and by a factor from counts that are not below 0, .67 of them were whole. Some bins
    # are narrower than a year, and hold no whole number.
    assert real > 0.97
    assert np.mean(made) > 0.8


def test_counts_are_put_right_by_what_the_bins_hold() -> None:
    """Noise is taken off alike from classes above and below 0, so none of it is read as rows."""
    masses = np.full((4, 9), 0.25 / 8)
    masses[:, 0] = 0.0
    true = np.array([0.0, 930.0, *[10.0] * 7])
    noise = np.array([0.0, 10.0, 40.0, -40.0, 40.0, -40.0, 40.0, -40.0, 40.0])
    counted = RoundCounts(
        Bins.of_codes([0]), np.array([0, *[1] * 8]), np.eye(9, dtype=bool)[1:], true + noise + 20.0, 30.0
    )
    factors = class_factors(counted, masses, rows=1000)
    tilted = masses * factors
    tilted *= (masses.sum(axis=1) / tilted.sum(axis=1))[:, None]
    assert 1000 * tilted.sum(axis=0)[1] == pytest.approx(930 + 10 - 50 / 8, rel=1e-3)


def test_bins_keep_their_rows() -> None:
    bins, counted, noise = learned(INCOME, heaped(INCOME, 1000, 0.62))
    rounder = with_round_values(bins, counted, ROWS, noise)
    np.testing.assert_allclose(rounder.expected, bins.expected, atol=1e-12)
    np.testing.assert_array_equal(rounder.table, bins.table)
    drawn = np.arange(20_000) % bins.size
    of_code = np.repeat(bins.bin_of_place, bins.grid.width)
    assert (of_code[rounder.codes(drawn, random_source(0))] == drawn).all()


def test_without_heaps_nothing_is_changed() -> None:
    random = np.random.default_rng(5)
    codes = np.clip(random.gamma(3.0, 20_000.0, ROWS), 0, 300_000).astype(int)
    bins, counted, noise = learned(INCOME, codes)
    assert with_round_values(bins, counted, ROWS, noise) is bins


def test_noise_in_a_class_of_large_numbers_moves_no_rows_there() -> None:
    """The last bin reaches seven times as far as the rows, and a class of numbers as large seems to hold some."""
    column = NumberColumn("cost", 0, 99_999, 1)
    codes = np.random.default_rng(3).gamma(2.0, 1000.0, ROWS).astype(int)
    bins, counted, noise = learned(column, codes)
    largest = np.flatnonzero(counted.magnitudes == counted.magnitudes.max())
    counts = counted.counts.copy()
    counts[largest[0]] += 300.0
    counts[largest[1:]] -= 300.0 / (len(largest) - 1)
    rounder = with_round_values(bins, dataclasses.replace(counted, counts=counts), ROWS, noise)
    far = bins.grid.first[: bins.grid.levels] >= 10_000
    before, after = (float(one.proportions[: one.grid.levels][far].sum()) for one in (bins, rounder))
    assert before * ROWS < 20.0
    assert after * ROWS < 20.0


def test_zero_both_ends_and_other_codes_keep_what_they_had() -> None:
    codes = heaped(INCOME, 1000, 0.62)
    codes[:3000], codes[3000:4000], codes[4000:5000] = 0, INCOME.levels - 1, INCOME.levels
    bins, counted, noise = learned(INCOME, codes)
    rounder = with_round_values(bins, counted, ROWS, noise)
    kept = [0, bins.grid.levels - 1, *range(bins.grid.levels, bins.grid.size)]
    assert rounder is not bins
    np.testing.assert_allclose(rounder.proportions[kept], bins.proportions[kept])


def test_factors_bring_clear_classes_to_what_was_counted() -> None:
    random = np.random.default_rng(2)
    masses = random.random((6, 5))
    masses[:, 0] = 0.0
    masses /= masses.sum()
    wanted = masses.sum(axis=0) * 10_000
    wanted[1] += 600
    wanted[2] -= 600
    counted = RoundCounts(Bins.of_codes([0]), np.array([0, 1, 1, 1, 1]), np.eye(5, dtype=bool)[1:], wanted, 5.0)
    factors = class_factors(counted, masses, rows=10_000)
    tilted = masses * factors
    tilted *= (masses.sum(axis=1) / tilted.sum(axis=1))[:, None]
    np.testing.assert_allclose(tilted.sum(axis=0)[1:3] * 10_000, wanted[1:3], rtol=1e-4)
    assert factors[3] == factors[4]
    assert factors[1] > factors[3] > factors[2]


def test_a_class_without_any_place_in_the_bins_does_no_harm() -> None:
    masses = np.array([[0.0, 0.5, 0.0], [0.0, 0.5, 0.0]])
    counted = RoundCounts(
        Bins.of_codes([0]),
        np.array([0, 1, 1]),
        np.eye(3, dtype=bool)[1:],
        np.array([0.0, -50.0, 900.0]),
        10.0,
    )
    factors = class_factors(counted, masses, rows=1000)
    assert np.isfinite(factors).all()
    assert (factors > 0).all()


@pytest.mark.parametrize("fine", [True, False])
@pytest.mark.parametrize("column", [INCOME, PRESSURE], ids=lambda one: one.name)
def test_saved_and_rebuilt_they_draw_the_same_bytes(column: NumberColumn, fine: bool) -> None:
    bins, counted, noise = learned(column, heaped(column, 10, 0.5), plan=RoundPlan(share=0.03, fine=fine))
    rounder = with_round_values(bins, counted, ROWS, noise)
    again = ColumnBins.from_state(column, rounder.state())
    drawn = np.arange(5000) % bins.size
    for seed in (0, 1):
        one, other = rounder.codes(drawn, random_source(seed)), again.codes(drawn, random_source(seed))
        np.testing.assert_array_equal(one, other)
    assert set(bins.state()) == {"bin_of_place", "proportions", "table", "noise_std"}


def test_half_a_million_codes_inside_bins_are_as_likely_as_their_factors() -> None:
    """Against the distribution worked out code by code."""
    column = NumberColumn("x", 0, 9_999, 1)
    bins, counted, noise = learned(column, heaped(column, 100, 0.5))
    rounder = with_round_values(bins, counted, ROWS, noise)
    drawn = np.arange(500_000) % bins.size
    made = np.bincount(rounder.codes(drawn, random_source(0)), minlength=column.levels) / len(drawn)
    assert rounder.chances is not None
    each = rounder.chances.between(0, rounder.chances.classes.size)
    place = np.repeat(np.arange(rounder.grid.size), rounder.grid.width)
    in_place = np.bincount(place, weights=each)
    mass = np.bincount(rounder.bin_of_place, weights=rounder.proportions)
    wanted = each / in_place[place] * rounder.proportions[place] / mass[rounder.bin_of_place[place]] / bins.size
    empty = (mass <= 0)[rounder.bin_of_place[place]]
    assert 0.5 * np.abs(made - np.where(empty, made, wanted)).sum() < 0.02


# Tails


def tails(codes: np.ndarray, *, epsilon: float, key: int = 0) -> tuple[ColumnBins, ColumnBins]:
    """The bins of incomes on a wide range, as they were cut and with the tails that they are given."""
    column = NumberColumn("income", 0, 1_000_000, 1)
    opened = session(schema_of(column), {"income": codes}, epsilon=epsilon, noise_key=key)
    one_ways = measure_one_way_marginals(opened, (column,), label=None, share=0.9, source="test")
    bins = coarsen(one_ways, Coarseness())[0]
    return bins, with_tails(bins, one_ways.columns[0])


def quantile(bins: ColumnBins, at: float) -> float:
    drawn = np.repeat(np.arange(bins.size), np.rint(20_000 * bins.expected / bins.expected.sum()).astype(int))
    return float(np.quantile(bins.codes(drawn, random_source(0)), at))


def incomes(rows: int) -> np.ndarray:
    return np.exp(10.6 + 0.7 * np.random.default_rng(4).normal(size=rows)).astype(int)


def test_a_tail_does_not_reach_to_the_end_of_a_wide_range() -> None:
    codes = incomes(1000)
    real, even, ours = float(np.quantile(codes, 0.999)), [], []
    for key in range(8):
        before, after = tails(codes, epsilon=0.15, key=key)
        even.append(abs(quantile(before, 0.999) - real))
        ours.append(abs(quantile(after, 0.999) - real))
        np.testing.assert_allclose(after.expected, before.expected, atol=1e-12)
        assert (after.proportions >= 0).all()
    assert max(np.mean(even), np.mean(ours)) < 0.4 * real


def test_what_is_clearly_far_out_stays_there() -> None:
    codes = incomes(20_000)
    codes[:300] = np.random.default_rng(0).integers(890_000, 910_000, 300)
    before, after = tails(codes, epsilon=2.0)
    for bins in (before, after):
        assert bins.proportions[bins.grid.first > 850_000].sum() > 0.01


def test_three_bins_that_are_no_spikes_are_needed_to_tell_a_tail() -> None:
    spikes = np.repeat([10, 500_000], 2000)
    before, after = tails(spikes, epsilon=5.0)
    np.testing.assert_array_equal(after.proportions, before.proportions)
