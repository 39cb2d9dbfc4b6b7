"""What benchmarks measure with: distances checked against the definition, and codings that lose nothing they keep."""

from __future__ import annotations

import sys
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

from metrics import DENSE_CELLS, subsets, total_variations
from shapes import shape_distances
from tables import AIM_BINS, Table

from synth.schema import CategoryColumn, NumberColumn, Schema

SMALL, LARGE = (3, 2, 5, 4, 2), (300, 40, 700, 2, 90)


def rows_of(sizes: tuple[int, ...], n_rows: int, seed: int) -> np.ndarray:
    random = np.random.default_rng(seed)
    return np.stack([(random.random(n_rows) ** 2 * size).astype(int) for size in sizes], axis=1)


@pytest.mark.parametrize("alpha", [1, 2, 3, 4])
@pytest.mark.parametrize("sizes", [SMALL, LARGE], ids=["small", "large"])
def test_total_variation_is_half_the_sum_of_differences(sizes: tuple[int, ...], alpha: int) -> None:
    real, synthetic = rows_of(sizes, 500, 0), rows_of(sizes, 300, 1)
    if sizes == LARGE and alpha > 2:
        assert np.prod(np.sort(sizes)[-alpha:].astype(float)) > DENSE_CELLS
    expected = []
    for columns in combinations(range(len(sizes)), alpha):
        cells: dict[tuple[int, ...], float] = {}
        for rows, sign in ((real, 1), (synthetic, -1)):
            for cell in map(tuple, rows[:, columns].tolist()):
                cells[cell] = cells.get(cell, 0.0) + sign / len(rows)
        expected.append(sum(map(abs, cells.values())) / 2)
    assert total_variations(real, synthetic, sizes, alpha) == pytest.approx(expected, abs=1e-12)


def test_tables_without_a_common_cell_are_one_apart() -> None:
    zeros, ones = np.zeros((5, 3), int), np.ones((9, 3), int)
    assert total_variations(zeros, ones, (2, 2, 2), 2) == pytest.approx([1.0, 1.0, 1.0])


def test_a_choice_of_sets_is_fixed_and_without_repeats() -> None:
    chosen = subsets(60, 3, 500)
    assert chosen == subsets(60, 3, 500)
    assert len(set(chosen)) == 500
    assert all(list(columns) == sorted(set(columns)) for columns in chosen)
    assert len({column for columns in chosen for column in columns}) == 60
    assert len(subsets(15, 4, None)) == 1365
    assert subsets(6, 2, 15) == list(combinations(range(6), 2))


@pytest.fixture
def mixed() -> Table:
    number = NumberColumn("n", 0, 100, 0.5, special=(-1.0,), missing=True)
    schema = Schema((number, CategoryColumn("c", ("a", "b")), NumberColumn("k", 0, 9, 1)))
    return Table("mixed", schema, None, np.stack([np.arange(203), np.arange(203) % 2, np.arange(203) % 10], axis=1))


def test_bins_are_as_many_as_said_and_codes_drawn_inside_go_back(mixed: Table) -> None:
    bins = mixed.binned(mixed.codes)
    assert mixed.sizes == (AIM_BINS + 2, 2, 10)
    assert tuple(len(np.unique(column)) for column in bins.T) == mixed.sizes
    assert np.ptp(np.bincount(bins[:201, 0])) == 1
    for seed in range(20):
        codes = mixed.unbinned(bins, seed)
        assert (mixed.binned(codes) == bins).all()
        assert (codes[201:, 0] == [201, 202]).all()


def test_every_code_of_a_bin_is_drawn(mixed: Table) -> None:
    bins = np.repeat(mixed.binned(mixed.codes), 200, axis=0)
    assert set(mixed.unbinned(bins, 0)[:, 0].tolist()) == set(range(203))


def test_numbers_are_compared_as_numbers(mixed: Table) -> None:
    up = mixed.codes.copy()
    up[:, 0] = np.minimum(up[:, 0] + 20, 200)  # Ten units up; the special value and the missing cell become numbers.
    same = shape_distances(mixed, mixed.codes, mixed.codes)
    assert same["ks"] == same["wasserstein"] == same["correlation"] == 0.0
    moved = shape_distances(mixed, mixed.codes[:160], up[:160])
    ks, wasserstein = moved["columns"]["n"]
    assert ks == pytest.approx(20 / 160)
    assert wasserstein == pytest.approx(10.0)
    assert moved["wasserstein"] == pytest.approx(10.0 / 100 / 2)
    assert moved["correlation"] == pytest.approx(0.0, abs=1e-12)
