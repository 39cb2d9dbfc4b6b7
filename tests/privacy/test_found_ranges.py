"""Ranges that are found: where cells certainly are, what noise may hide beyond them, and that it errs outward."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from synth.privacy.more import found_ranges
from synth.privacy.more.found_ranges import Counted, likely_dates, likely_numbers, located
from synth.schema.columns.find import DATE_BLOCKS, DATE_EDGES, NUMBER_BLOCKS, NUMBER_EDGES, FindColumn

EDGES, BLOCKS = np.array(NUMBER_EDGES[1:-1]), np.array(NUMBER_BLOCKS)
MONTHS, YEARS = np.arange(len(DATE_EDGES), dtype=float), np.array(DATE_BLOCKS)
ROWS = 2000


def counted(values: NDArray[np.float64], noise: float, seed: int = 0, edges: NDArray[np.float64] = EDGES) -> Counted:
    """Counts of values with noise of one standard deviation, the same for every seed."""
    blocks = BLOCKS if edges is EDGES else YEARS
    places = np.searchsorted(edges, values, side="right") - 1
    fine = np.bincount(places, minlength=len(edges) - 1).astype(float)
    coarse = np.add.reduceat(fine, blocks[:-1])
    random = np.random.default_rng([seed, 1])
    fine, coarse = (each + random.normal(0, noise, len(each)) for each in (fine, coarse))
    return Counted.of(edges, blocks, (fine, noise), (coarse, noise))


def ends_of(counts: Counted, columns: int = 8) -> tuple[int, int] | None:
    return located(counts, (1, 2, 4) if counts.blocks is BLOCKS else (1, 3), columns=columns)


def numbers(values: NDArray[np.float64], noise: float, *, whole: bool, seed: int = 0) -> tuple[float, float] | None:
    counts = counted(values, noise, seed)
    ends = ends_of(counts)
    return None if ends is None else likely_numbers(counts, ends, cells=len(values), whole=whole)


# What the blocks are --------------------------------------------------------------------------------------------------


def test_blocks_hold_three_parts_of_each_power_of_ten_and_zero_by_itself() -> None:
    ends = EDGES[BLOCKS]
    assert (np.diff(BLOCKS) > 0).all()
    assert (BLOCKS[0], BLOCKS[-1]) == (0, len(EDGES) - 1)
    np.testing.assert_array_equal(ends[(ends >= 1) & (ends < 100)], [1, 1.8, 4, 10, 18, 40])
    np.testing.assert_array_equal(-ends[::-1][:40], ends[:40], err_msg="the same below zero")
    assert {0.0, float(np.nextafter(0, 1))} <= set(ends.tolist())
    assert [DATE_EDGES[place].month for place in DATE_BLOCKS] == [1] * 400 + [12]


@pytest.mark.parametrize("what", ["number", "date"])
def test_every_code_of_a_bin_is_in_the_block_of_that_bin(what: str) -> None:
    column = FindColumn("x")
    bins, blocks = getattr(column, f"{what}_bins")(), getattr(column, f"{what}_blocks")()
    edges = NUMBER_BLOCKS if what == "number" else DATE_BLOCKS
    inside = (bins > 0) & (bins <= edges[-1])
    np.testing.assert_array_equal(blocks[inside], np.searchsorted(edges, bins[inside] - 1, side="right"))
    assert set(blocks[bins == 0]) == {0}
    assert set(blocks[bins == edges[-1] + 1]) == {len(edges)}, "beyond the last edge"
    assert set(blocks[bins == edges[-1] + 2]) == {len(edges) + 1}, "of another kind"


# Where cells certainly are --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("sigmas", "found"), [(3.20, None), (3.22, (5, 6))])
def test_cells_are_where_noise_alone_would_put_none_in_one_of_a_hundred_findings(
    sigmas: float, found: tuple[int, int] | None
) -> None:
    """Of 8 bins in one block there are 15 windows: noise passes 3.2088 standard deviations in .01 / 15 of them."""
    fine = np.zeros(8)
    fine[5] = 10 * sigmas
    counts = Counted.of(np.arange(9.0), np.array([0, 8]), (fine, 10.0), (np.zeros(1), 1e9))
    assert located(counts, (1, 2, 4), columns=1) == found
    assert located(counts, (1, 2, 4), columns=2) is None


def test_cells_that_are_spread_out_are_found_in_wider_windows_and_by_their_blocks() -> None:
    fine = np.zeros(16)
    fine[8:] = 15.0
    silent = Counted.of(np.arange(17.0), np.array([0, 8, 16]), (fine, 10.0), (np.zeros(2), 1e9))
    assert located(silent, (1, 2, 4), columns=1) == (8, 16), "120 of a noise of 28"
    fine[8:] = 9.0
    told = Counted.of(np.arange(17.0), np.array([0, 8, 16]), (fine, 10.0), (np.array([0.0, 72.0]), 10.0))
    assert located(told, (1, 2, 4), columns=1) == (8, 16), "the block says it with less noise"


def test_what_is_left_of_a_block_beside_a_clear_bin_is_looked_at_too() -> None:
    fine = np.zeros(8)
    fine[2] = 100.0
    one = Counted.of(np.arange(9.0), np.array([0, 8]), (fine, 10.0), (np.array([100.0]), 10.0))
    assert located(one, (1, 2, 4), columns=1) == (2, 3)
    more = Counted.of(np.arange(9.0), np.array([0, 8]), (fine, 10.0), (np.array([200.0]), 10.0))
    assert located(more, (1, 2, 4), columns=1) == (0, 8)


def test_noise_alone_is_located_nowhere_in_a_wide_table() -> None:
    nothing = np.empty(0)
    assert [ends_of(counted(nothing, 30.0, seed), columns=300) for seed in range(300)] == [None] * 300


# What noise may hide --------------------------------------------------------------------------------------------------

Drawn = Callable[[np.random.Generator], NDArray[np.float64]]

SHAPES: dict[str, tuple[Drawn, bool]] = {
    "whole numbers in even parts": (lambda r: r.integers(18, 65, ROWS).astype(float), True),
    "normal": (lambda r: r.normal(100, 15, ROWS), False),
    "on both sides of zero": (lambda r: r.normal(0, 1, ROWS), False),
    "below zero": (lambda r: -r.gamma(4, 5, ROWS), False),
    "log-normal": (lambda r: r.lognormal(9, 1, ROWS), False),
    "exponential": (lambda r: r.exponential(300, ROWS), False),
    "Pareto": (lambda r: 1000 * (r.pareto(1.5, ROWS) + 1), False),
    "a spike": (lambda r: np.where(r.random(ROWS) < 0.5, 40, np.clip(np.rint(r.normal(42, 14, ROWS)), 1, 99)), True),
    "two clusters": (lambda r: np.where(r.random(ROWS) < 0.5, r.normal(20, 3, ROWS), r.normal(200, 20, ROWS)), False),
    "small whole numbers": (lambda r: r.poisson(2, ROWS).astype(float), True),
    "nearly all zero": (lambda r: (r.random(ROWS) < 0.08).astype(float), True),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_at_most_a_twentieth_is_outside_whatever_the_noise(shape: str) -> None:
    draw, whole = SHAPES[shape]
    outside, widths = [], []
    for noise in (5.0, 20.0, 50.0):
        for seed in range(4):
            values = draw(np.random.default_rng([seed, 2]))
            found = numbers(values, noise, whole=whole, seed=seed)
            assert found is not None
            outside.append(np.mean((values < found[0]) | (values > found[1])))
            if noise == 5.0:
                widths.append((found[1] - found[0]) / np.ptp(np.quantile(values, [0.005, 0.995])))
    assert sum(part > 0.05 for part in outside) <= 1, outside
    assert np.mean(outside) < 0.02
    # Where noise is small the range is about that of the cells; to two bins, where there are few values.
    assert max(widths) < (5 if shape in ("Pareto", "log-normal") else 2.5), widths


def test_a_range_reaches_over_zero_only_with_evidence() -> None:
    random = np.random.default_rng(3)
    for seed in range(6):
        one_sided = numbers(random.exponential(300, ROWS), 40.0, whole=False, seed=seed)
        assert one_sided is not None
        assert one_sided[0] >= 0
        zeros = numbers(np.zeros(ROWS), 60.0, whole=True, seed=seed)
        assert zeros is not None
        assert zeros[0] >= 0
        both = numbers(random.normal(1, 2, ROWS), 20.0, whole=False, seed=seed)
        assert both is not None
        assert both[0] <= -2, "three in ten are below zero, spread over many bins"


def test_a_mirrored_column_has_the_mirrored_range() -> None:
    values = np.random.default_rng(4).lognormal(3, 1, ROWS)
    counts = counted(values, 20.0)
    ends = ends_of(counts)
    assert ends is not None
    low, high = likely_numbers(counts, ends, cells=ROWS, whole=False)
    turned = counts.mirrored()
    last = len(EDGES) - 1
    assert likely_numbers(turned, (last - ends[1], last - ends[0]), cells=ROWS, whole=False) == (-high, -low)


def test_more_noise_gives_a_wider_range_and_never_a_narrower_one_than_what_stands_out() -> None:
    values = np.random.default_rng(5).integers(18, 65, ROWS).astype(float)
    widths = []
    for noise in (1.0, 10.0, 60.0):
        counts = counted(values, noise)
        ends = ends_of(counts)
        assert ends is not None
        low, high = likely_numbers(counts, ends, cells=ROWS, whole=True)
        assert low <= EDGES[ends[0]]
        assert EDGES[ends[1]] <= high
        widths.append(high - low)
    assert widths == sorted(widths)
    assert widths[0] < widths[-1]


@pytest.mark.parametrize("noise", [5.0, 30.0])
def test_dates_are_as_numbers_of_months(noise: float) -> None:
    random = np.random.default_rng(6)
    draws = (random.integers(2412, 2532, ROWS), random.normal(1900, 100, ROWS), 2600 - random.exponential(30, ROWS))
    for seed, values in enumerate(draws):
        values = np.floor(values)
        counts = counted(values, noise, seed, MONTHS)
        ends = ends_of(counts)
        assert ends is not None
        low, high = likely_dates(counts, ends, cells=ROWS)
        assert np.mean((values < low) | (values >= high)) <= 0.05
        assert high - low <= 3 * np.ptp(np.quantile(values, [0.005, 0.995])) + 12


def test_the_average_over_how_many_cells_have_a_shape_is_the_integral() -> None:
    """By trapezoids over a million steps, for shapes that fit, do not fit, and fit more cells than there are."""
    products, squares, cells = np.array([0.3, -0.4, 3.0, 0.0]), np.array([0.01, 0.02, 0.01, 1e-6]), 100.0
    logs, parts = found_ranges._integrated(products, squares, cells)
    grid = np.linspace(0, cells, 1_000_001)
    for place in range(len(products)):
        values = np.exp(grid * products[place] - grid**2 * squares[place] / 2)
        assert logs[place] == pytest.approx(np.log(np.trapezoid(values, grid) / cells), rel=1e-6, abs=1e-6)
        mean = np.trapezoid(values * grid, grid) / np.trapezoid(values, grid)
        assert parts[place] == pytest.approx(mean / cells, rel=1e-5)


@pytest.mark.parametrize("made_up", ["far below zero", "as many as no table has", "nearly no noise", "no cells"])
def test_an_answer_that_somebody_made_up_has_a_range_too(made_up: str) -> None:
    """Whoever checks a bundle applies the rule to what it holds, before anything says that it is possible."""
    random, noise = np.random.default_rng(7), 30.0
    fine, coarse = (random.choice([0.0, 9e12], len(each) - 1) for each in (EDGES, BLOCKS))
    if made_up == "far below zero":
        fine, coarse = -fine, -coarse
        coarse[80] = 9e12
    elif made_up == "nearly no noise":
        fine, coarse, noise = fine * 1e-15, coarse * 1e-15, 1e-7
    counts = Counted.of(EDGES, BLOCKS, (fine, noise), (coarse, noise))
    ends = ends_of(counts)
    assert ends is not None
    for whole in (True, False):
        low, high = likely_numbers(counts, ends, cells=0.0 if made_up == "no cells" else 100.0, whole=whole)
        assert EDGES[0] <= low < high <= EDGES[-1]
