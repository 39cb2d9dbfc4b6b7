"""Rows that are sorted into the cells of several tables at once: sums and counts are those of every table alone."""

from __future__ import annotations

import numpy as np
import pytest

from synth.models.cells import SortedRows


@pytest.mark.parametrize("sizes", [(7,), (40_000, 3, 2**15), (5, 4096, 32, 32, 1, 300, 9), (2,) * 20], ids=str)
def test_sums_and_counts_are_those_of_every_table_alone(sizes: tuple[int, ...]) -> None:
    random = np.random.default_rng(4)
    n_rows = 2_000
    # Small types, as those of a pool's cells: no product of several may overflow.
    indices = [random.integers(size, size=n_rows).astype(np.min_scalar_type(-size)) for size in sizes]
    rows = SortedRows(indices, sizes, n_rows)
    factors = [random.normal(size=size) for size in sizes]
    alone = sum(factor[index] for factor, index in zip(factors, indices, strict=True))
    np.testing.assert_allclose(rows.sums(factors), alone, rtol=0, atol=1e-12)
    weights = random.random(n_rows)
    for found, index, size in zip(rows.counts(weights), indices, sizes, strict=True):
        np.testing.assert_allclose(found, np.bincount(index, weights, size), rtol=0, atol=1e-10)


def test_rows_of_no_table_have_the_factor_nothing() -> None:
    rows = SortedRows([], [], 3)
    assert rows.sums([]).tolist() == [0.0, 0.0, 0.0]
    assert rows.counts(np.ones(3)) == []
