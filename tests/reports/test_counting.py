"""Total variation over sets of columns, by hand and against counting with dictionaries."""

from __future__ import annotations

import itertools
import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from timing import require_within

from synth.errors import InputError, RunCancelledError
from synth.reports.code_tables import ColumnSets, StackedTables, choose_subsets


def brute(left: list[np.ndarray], right: list[np.ndarray], subset: tuple[int, ...]) -> float:
    counts = [Counter(zip(*(table[place].tolist() for place in subset), strict=True)) for table in (left, right)]
    rows = [len(table[0]) for table in (left, right)]
    cells = set(counts[0]) | set(counts[1])
    return 0.5 * sum(abs(counts[0][cell] / rows[0] - counts[1][cell] / rows[1]) for cell in cells)


def test_two_tables_by_hand() -> None:
    # 3/4 and 1/4 against 1/4 and 3/4: half of 1/2 + 1/2.
    left, right = [np.array([0, 0, 0, 1])], [np.array([0, 1, 1, 1])]
    found = StackedTables([left, right], [2]).distances(choose_subsets(1, 1, limit=9, seed=0))
    assert found.tolist() == [[0.5]]


def test_a_pair_by_hand_with_different_numbers_of_rows() -> None:
    # Columns agree one by one; the joint cells do not meet at all.
    left = [np.array([0, 0, 1, 1]), np.array([0, 0, 1, 1])]
    right = [np.array([0, 1]), np.array([1, 0])]
    stacked = StackedTables([left, right], [2, 2])
    assert stacked.distances(choose_subsets(2, 1, limit=9, seed=0)).tolist() == [[0.0], [0.0]]
    assert stacked.distances(choose_subsets(2, 2, limit=9, seed=0)).tolist() == [[1.0]]


@pytest.mark.thorough
@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 10_000), st.lists(st.integers(1, 9), min_size=4, max_size=5), st.integers(1, 60), st.integers(1, 60)
)
def test_against_brute_force(seed: int, sizes: list[int], rows: int, others: int) -> None:
    random = np.random.default_rng(seed)
    tables = [[random.integers(size, size=n) for size in sizes] for n in (rows, others, rows)]
    # Huge declared sizes force the sorted path; the distances may not change.
    for declared in (sizes, [size * 40_000 for size in sizes], [size * 2**20 for size in sizes]):
        stacked = StackedTables(tables, declared)
        for alpha in (1, 2, 3, 4):
            subsets = choose_subsets(len(sizes), alpha, limit=100, seed=0)
            found = stacked.distances(subsets)
            for subset, distances in zip(subsets.chosen, found, strict=True):
                expected = [brute(tables[0], table, subset) for table in tables[1:]]
                assert distances.tolist() == pytest.approx(expected, abs=1e-12)


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 12), st.integers(1, 5), st.integers(1, 200), st.integers(0, 99))
def test_samples_of_subsets(n_columns: int, alpha: int, limit: int, seed: int) -> None:
    subsets = choose_subsets(n_columns, alpha, limit=limit, seed=seed)
    every = list(itertools.combinations(range(n_columns), alpha))
    assert subsets.of == math.comb(n_columns, alpha)
    assert len(subsets.chosen) == min(limit, len(every))
    assert len(set(subsets.chosen)) == len(subsets.chosen)
    assert set(subsets.chosen) <= set(every)
    assert subsets == choose_subsets(n_columns, alpha, limit=limit, seed=seed)


def test_subsets_are_drawn_evenly_from_wide_tables() -> None:
    subsets = choose_subsets(200, 4, limit=1000, seed=3)
    assert subsets.of == math.comb(200, 4)
    columns = np.array(subsets.chosen)
    assert (np.diff(columns, axis=1) > 0).all()
    # Every column is in a subset with chance 4/200: the mean place is 99.5 with a standard error below 1.
    assert abs(columns.mean() - 99.5) < 5
    assert "1,000 of 64,684,950" in subsets.sentence


def test_what_cannot_be_compared_is_refused() -> None:
    with pytest.raises(InputError, match="without rows"):
        StackedTables([[np.array([0])], [np.array([], dtype=int)]], [1])
    with pytest.raises(InputError, match="same columns"):
        StackedTables([[np.array([0])], [np.array([0]), np.array([0])]], [1])


def test_steps_are_told_and_may_stop_the_count() -> None:
    random = np.random.default_rng(0)
    tables = [[random.integers(3, size=50) for _ in range(8)] for _ in range(2)]
    told: list[tuple[int, int]] = []
    StackedTables(tables, [3] * 8).distances(
        choose_subsets(8, 3, limit=99, seed=0), on_step=lambda *at: told.append(at)
    )
    assert told[-1] == (56, 56)
    assert told == sorted(told)

    def stop(_: int, __: int) -> None:
        raise RunCancelledError("The run was cancelled.")

    with pytest.raises(RunCancelledError):
        StackedTables(tables, [3] * 8).distances(ColumnSets(1, ((0,),), 8), on_step=stop)


@pytest.mark.slow
def test_all_triples_of_fifteen_columns_take_seconds() -> None:
    random = np.random.default_rng(0)
    sizes = [74, 9, 16_470, 16, 16, 7, 15, 6, 5, 2, 123, 99, 100, 42, 2]
    tables = [
        [np.minimum((random.random(50_000) ** 3 * size).astype(int), size - 1).astype(np.uint16) for size in sizes]
        for _ in range(4)
    ]
    stacked = StackedTables(tables, sizes)
    require_within(10, lambda: stacked.distances(choose_subsets(15, 3, limit=1000, seed=0)))
