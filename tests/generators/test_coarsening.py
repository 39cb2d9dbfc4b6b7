"""Bins of a joint model: equal mass, spikes and rare codes by the rules, and codes drawn inside bins."""

from __future__ import annotations

import math

import numpy as np
import pytest
from simulated import dependent_codes, schema, session
from timing import require_within

from synth.generators.adaptive.bins import ColumnBins
from synth.generators.adaptive.coarsening import Coarseness, coarsen
from synth.generators.coarse_grid import CoarseGrid
from synth.generators.one_way_marginals import OneWayMarginals, measure_one_way_marginals
from synth.generators.sampling import random_source
from synth.schema import CategoryColumn, ModelledColumn, NumberColumn, Schema

LONG = NumberColumn("long", 0, 99_999, 1)
RANDOM = np.random.default_rng(0)
SMOOTH = np.clip(RANDOM.gamma(3.0, 8_000.0, 20_000), 0, 99_999).astype(int)
COUNTRIES = CategoryColumn("country", tuple(f"country {number}" for number in range(40)))
FEW_COMMON = RANDOM.choice(40, 20_000, p=np.array([0.6, 0.2, 0.1, *([0.1 / 37] * 37)]))


def learned(
    column: ModelledColumn, codes: np.ndarray, *, epsilon: float = 1.0, label: str | None = None
) -> OneWayMarginals:
    opened = session(Schema((column,)), {column.name: codes}, epsilon=epsilon)
    return measure_one_way_marginals(
        opened, (column,), label=label, share=1.0, source="test"
    )  # fmt: skip


def binned(column: ModelledColumn, codes: np.ndarray, *, epsilon: float = 1.0, label=None, **options) -> ColumnBins:
    return coarsen(learned(column, codes, epsilon=epsilon, label=label), Coarseness(**options))[0]


def bin_of_code(bins: ColumnBins) -> np.ndarray:
    return np.arange(bins.size) if bins.bins is None else bins.bins.plain()


def made_by_hand(bin_of_place: list[int], proportions: list[float], width: list[int] | None = None) -> ColumnBins:
    widths = np.array(width or [1] * len(proportions))
    places = CoarseGrid(levels=len(widths), atoms=0, first=np.cumsum(widths) - widths, width=widths)
    size = max(bin_of_place) + 1
    return ColumnBins(
        places, np.array(bin_of_place, dtype=np.int32), np.array(proportions), np.zeros(size), np.ones(size)
    )


def test_a_smooth_column_gets_bins_of_about_the_same_mass() -> None:
    bins = binned(LONG, SMOOTH)
    assert bins.size == 32
    mass = np.bincount(bin_of_code(bins)[SMOOTH], minlength=bins.size)
    assert mass.max() < 3 * mass.min()
    assert mass.max() < 2 * len(SMOOTH) / 32
    assert (np.diff(bin_of_code(bins)) >= 0).all()


@pytest.mark.parametrize("epsilon", [0.02, 0.1, 1.0])
@pytest.mark.parametrize("most", [1, 7, 32])
def test_bins_are_as_many_as_the_noise_allows(epsilon: float, most: int) -> None:
    one_ways = learned(LONG, SMOOTH, epsilon=epsilon)
    bins = coarsen(one_ways, Coarseness(bins=most))[0]
    clear = one_ways.columns[0].cell_std
    assert 1 <= bins.size <= min(most, max(math.ceil(len(SMOOTH) / clear), 1))
    assert bins.size == 1 or bins.expected.min() * len(SMOOTH) > 0.4 * clear


def test_fewer_bins_for_more_noise() -> None:
    sizes = [binned(LONG, SMOOTH, epsilon=epsilon).size for epsilon in (0.0001, 0.001, 1.0)]
    assert sizes[0] < sizes[1] < sizes[2]


@pytest.mark.parametrize("spike", [0, 30_000, 99_999])
def test_a_spike_has_a_bin_of_its_own(spike: int) -> None:
    codes = SMOOTH.copy()
    codes[::3] = spike
    bins = binned(LONG, codes)
    mine = bin_of_code(bins)[spike]
    held = np.flatnonzero(bin_of_code(bins) == mine)
    # One place, which is one code at zero and at the ends.
    assert len(np.unique(np.repeat(np.arange(bins.grid.size), bins.grid.width)[held])) == 1
    assert bins.expected[mine] == pytest.approx(1 / 3, abs=0.05)


def test_unordered_codes_of_numbers_have_bins_of_their_own() -> None:
    column = NumberColumn("gain", 0, 99_999, 1, special=(-1.0, -2.0, -3.0), missing=True)
    codes = SMOOTH.copy()
    codes[:4000] = column.levels
    codes[4000:4006] = column.levels + 1  # faint, as the two that follow
    of_code = bin_of_code(binned(column, codes))
    assert np.diff(of_code[column.levels - 1 :]).tolist() == [1, 1, 1, 1]


def test_rare_categories_share_a_bin_but_never_those_of_the_label() -> None:
    one_ways = learned(COUNTRIES, FEW_COMMON, epsilon=0.1)
    bins = coarsen(one_ways, Coarseness(categories=8))[0]
    of_code = bin_of_code(bins)
    assert of_code[:3].tolist() == [0, 1, 2]
    assert np.count_nonzero(of_code == bins.size - 1) == 33
    assert binned(COUNTRIES, FEW_COMMON, epsilon=0.1, label="country", categories=8).bins is None


@pytest.mark.parametrize("classes", [1024, 1100])
def test_a_label_keeps_1024_bins(classes: int) -> None:
    column = CategoryColumn("code", tuple(map(str, range(classes))))
    codes = np.repeat(np.arange(classes), np.where(np.arange(classes) < 1023, 40, 1))
    bins = bin_of_code(binned(column, codes, epsilon=100.0, label="code"))
    assert len(set(bins.tolist())) == 1024
    assert len(set(bins[:1023].tolist())) == 1023
    assert len(set(bins[1023:].tolist())) == 1


def test_two_rare_categories_are_not_worth_a_bin() -> None:
    column = CategoryColumn("ten", tuple("abcdefghij"))
    codes = RANDOM.integers(8, size=20_000)
    assert binned(column, codes, categories=9).bins is None
    assert binned(column, codes, categories=8).size == 8


def test_long_category_lists_are_cut() -> None:
    bins = binned(COUNTRIES, np.arange(20_000) % 40, epsilon=10.0, categories=12)
    assert bins.size == 12
    assert np.bincount(bin_of_code(bins)).tolist() == [1] * 11 + [29]


@pytest.mark.parametrize("epsilon", [0.001, 1.0])
def test_small_columns_stay_as_they_are(epsilon: float) -> None:
    names = ("region", "smoker", "outcome")
    declared = schema(*names)
    codes = {name: dependent_codes(100)[name] for name in names}
    one_ways = measure_one_way_marginals(
        session(declared, codes, epsilon=epsilon),
        declared.modelled,
        label=None,
        share=1.0,
        source="test",
    )
    for column, bins in zip(declared.modelled, coarsen(one_ways, Coarseness()), strict=True):
        assert bins.bins is None
        assert bins.is_identity
        codes_drawn = bins.codes(np.arange(column.size), random_source(0))
        np.testing.assert_array_equal(codes_drawn, np.arange(column.size))


def test_the_table_is_the_sum_of_the_counts() -> None:
    one_ways = learned(LONG, SMOOTH)
    bins = coarsen(one_ways, Coarseness())[0]
    starts = np.flatnonzero(np.diff(bins.bin_of_place, prepend=-1))
    np.testing.assert_allclose(bins.table, np.add.reduceat(one_ways.columns[0].counts, starts))
    exact = np.bincount(bin_of_code(bins)[SMOOTH], minlength=bins.size)
    assert np.abs((bins.table - exact) / bins.noise_std).max() < 5
    given = bins.measured(3)
    assert given.columns == (3,)
    assert given.table.sum() == pytest.approx(len(SMOOTH))
    np.testing.assert_allclose(given.table, bins.expected * len(SMOOTH))
    assert bins.noise_std.min() <= given.noise_std <= bins.noise_std.max()


def test_expected_counts_are_nearer_than_noisy_ones() -> None:
    bins = binned(LONG, SMOOTH, epsilon=0.1)
    exact = np.bincount(bin_of_code(bins)[SMOOTH], minlength=bins.size)
    assert np.abs(bins.expected * len(SMOOTH) - exact).sum() < np.abs(bins.table - exact).sum()


@pytest.mark.parametrize("n_rows", [1, 7, 1000, 50_000])
def test_codes_follow_the_fine_table_to_within_one(n_rows: int) -> None:
    bins = binned(LONG, SMOOTH)
    random = random_source(1)
    given = random.integers(bins.size, size=n_rows)
    codes = bins.codes(given, random)
    assert codes.dtype == np.int64
    np.testing.assert_array_equal(bin_of_code(bins)[codes], given)
    places = np.searchsorted(bins.grid.first, codes, side="right") - 1
    counts = np.bincount(places, minlength=bins.grid.size)
    inside = bins.proportions / bins.expected[bins.bin_of_place]
    expected = inside * np.bincount(given, minlength=bins.size)[bins.bin_of_place]
    assert np.abs(counts - expected).max() < 1 + 1e-6


def test_codes_inside_a_place_are_spread() -> None:
    bins = made_by_hand([0, 0, 1], [0.2, 0.3, 0.5], [10, 20, 1000])
    codes = bins.codes(np.repeat([0, 1], [500, 2500]), random_source(2))
    counts = np.bincount(codes, minlength=1030)
    np.testing.assert_allclose(counts[:10], 20, atol=1)
    np.testing.assert_allclose(counts[10:30], 15, atol=1)
    np.testing.assert_allclose(counts[30:], 2.5, atol=1)


@pytest.mark.parametrize("most_bins", [2, 1500], ids=["sorted by key", "shuffled"])
def test_codes_inside_a_bin_are_unrelated_to_anything_else(most_bins: int) -> None:
    """Rows come sorted by something; which code a row gets must not depend on its place or on another column."""
    bins = made_by_hand([*range(most_bins - 1), *([most_bins - 1] * 64)], [1.0] * (most_bins + 63))
    given = np.full(40_000, most_bins - 1)
    random = random_source(3)
    one, other = (bins.codes(given, random) - most_bins for _ in range(2))
    rows = np.arange(len(given))
    bound = 5 / math.sqrt(len(given))
    for left, right in ((one, rows), (other, rows), (one, other), (one[:-1], one[1:])):
        assert abs(np.corrcoef(left, right)[0, 1]) < bound
    assert abs(np.corrcoef(one % 2, rows % 2)[0, 1]) < bound


def test_an_empty_bin_is_filled_evenly() -> None:
    bins = made_by_hand([0, 1, 1], [1.0, 0.0, 0.0], [1, 1, 3])
    codes = bins.codes(np.ones(400, dtype=np.int64), random_source(0))
    np.testing.assert_allclose(np.bincount(codes, minlength=5), [0, 100, 100, 100, 100], atol=1)


@pytest.mark.parametrize("column", [LONG, COUNTRIES], ids=["number", "category"])
def test_saved_bins_draw_the_same_bytes(column: ModelledColumn) -> None:
    bins = binned(column, SMOOTH if column is LONG else FEW_COMMON, epsilon=0.3)
    restored = ColumnBins.from_state(column, bins.state())
    given = random_source(5).integers(bins.size, size=3000)
    first, second = bins.codes(given, random_source(6)), restored.codes(given, random_source(6))
    assert first.tobytes() == second.tobytes()
    assert restored.size == bins.size
    np.testing.assert_array_equal(restored.noise_std, bins.noise_std)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("column", "codes"),
    [
        (CategoryColumn("one", ("only",)), np.zeros(5, dtype=int)),
        (CategoryColumn("many", tuple(map(str, range(9000)))), np.arange(40)),
        (LONG, np.array([77])),
        (LONG, np.full(500, 1234)),
        (NumberColumn("score", 0, 500, 0.5, missing=True), np.full(50, 1001)),
        (NumberColumn("single", 0, 1, 5, missing=True), np.zeros(3, dtype=int)),
        (NumberColumn("huge", 0, 2**24 - 1, 1), np.array([5, 2**24 - 1])),
    ],
    ids=["one code", "many categories", "one row", "constant", "all missing", "one level", "huge"],
)
@pytest.mark.parametrize("epsilon", [0.001, 1.0, 100.0])
def test_nothing_to_learn(column: ModelledColumn, codes: np.ndarray, epsilon: float) -> None:
    bins = binned(column, codes, epsilon=epsilon)
    assert (np.bincount(bins.bin_of_place, minlength=bins.size) > 0).all()
    assert (bins.noise_std > 0).all()
    assert bins.measured(0).table.shape == (bins.size,)
    drawn = bins.codes(np.arange(100) % bins.size, random_source(0))
    assert drawn.min() >= 0
    assert drawn.max() < column.size


def test_no_row_at_all_is_drawn() -> None:
    assert binned(LONG, SMOOTH).codes(np.array([], dtype=np.int64), random_source(0)).shape == (0,)


def test_drawing_is_fast() -> None:
    bins = binned(LONG, SMOOTH)
    given = random_source(0).integers(bins.size, size=1_000_000)
    # Measured 0.03 s.
    require_within(0.3, lambda: bins.codes(given, random_source(1)))
