"""How far two tables of codes are apart: mean total variation over sets of columns, exact over the whole domain."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Codes = NDArray[np.integer]

SUBSETS_SEED = 20_261_120
"""Public: which sets are compared where there are too many to compare them all."""

DENSE_CELLS = 1 << 17
"""Tables of at most this many cells are counted in an array; larger ones by sorting the cells that occur."""


def subsets(n_columns: int, alpha: int, at_most: int | None) -> list[tuple[int, ...]]:
    """Return all sets of ``alpha`` columns in order, or ``at_most`` of them chosen by a fixed public seed."""
    if at_most is None or math.comb(n_columns, alpha) <= at_most:
        return list(itertools.combinations(range(n_columns), alpha))
    random = np.random.default_rng([SUBSETS_SEED, n_columns, alpha])
    chosen: set[tuple[int, ...]] = set()
    while len(chosen) < at_most:
        chosen.add(tuple(sorted(random.choice(n_columns, size=alpha, replace=False).tolist())))
    return sorted(chosen)


def total_variations(
    real: Codes, synthetic: Codes, sizes: Sequence[int], alpha: int, *, at_most: int | None = None
) -> NDArray[np.float64]:
    """Return the total variation of every set of ``alpha`` columns, one cell per combination of codes.

    Parameters
    ----------
    real, synthetic : arrays of shape (rows, columns)
        Codes below ``sizes``; the numbers of rows may differ.
    sizes : sequence of int
        Number of codes of every column.
    alpha : int
        Columns in a set.
    at_most : int, optional
        Compare no more sets than this.

    Returns
    -------
    array of shape (number of sets,)
        Half the sum of absolute differences of proportions.
    """
    wanted = subsets(len(sizes), alpha, at_most)
    rows = np.concatenate([np.asarray(real), np.asarray(synthetic)]).astype(np.int64).T.copy()
    weights = np.r_[np.full(len(real), 1.0 / len(real)), np.full(len(synthetic), -1.0 / len(synthetic))]
    found = np.empty(len(wanted))
    prefix: tuple[int, ...] = ()
    cells = np.zeros(len(weights), dtype=np.int64)
    for place, columns in enumerate(wanted):
        if columns[:-1] != prefix or place == 0:
            # Sets come in order, so all but the last column are numbered once for many sets.
            prefix = columns[:-1]
            cells = np.zeros(len(weights), dtype=np.int64)
            used = 1
            for column in prefix:
                cells, used = _with(cells, used, rows[column], sizes[column])
        numbered, used_now = _with(cells, used if prefix else 1, rows[columns[-1]], sizes[columns[-1]])
        found[place] = 0.5 * np.abs(np.bincount(numbered, weights, minlength=1)).sum() if used_now else 0.0
    return found


def _with(cells: NDArray[np.int64], used: int, column: NDArray[np.int64], size: int) -> tuple[NDArray[np.int64], int]:
    """Number the combinations of what is numbered already and one more column; close the gaps when there are many."""
    numbered = cells * size + column
    if used * size <= DENSE_CELLS:
        return numbered, used * size
    values, places = np.unique(numbered, return_inverse=True)
    return places, len(values)


def mean_total_variation(
    real: Codes, synthetic: Codes, sizes: Sequence[int], alpha: int, *, at_most: int | None = None
) -> float:
    """Return the mean over sets of :func:`total_variations`."""
    return float(total_variations(real, synthetic, sizes, alpha, at_most=at_most).mean())


def printed_total_variation(real: Codes, synthetic: Codes, alpha: int, *, at_most: int | None = None) -> float:
    """Return what the released code of the DP-HP paper calls its ``alpha``-way marginals (Vinaroz 2022, Table 1).

    It takes sets of one column more than it says, has one bin too few in every column, so that the two highest codes
    share one and a column of two codes is not seen at all, and bins each table between its own extremes.
    """
    low, high = np.min(real, axis=0), np.max(real, axis=0)
    bins = np.maximum(1, high - low)

    def binned(rows: Codes) -> NDArray[np.int64]:
        found = np.empty(rows.shape, dtype=np.int64)
        for d, column in enumerate(np.clip(rows, low, high).T):
            ends = (column.min(), column.max())
            least, most = ends if ends[0] < ends[1] else (ends[0] - 0.5, ends[1] + 0.5)
            edges = np.linspace(least, most, bins[d] + 1)
            # As numpy's histogramdd: the last bin contains its right edge.
            found[:, d] = np.searchsorted(edges, column, side="right") - 1 - (column == edges[-1])
        return found

    return mean_total_variation(binned(real), binned(synthetic), bins.tolist(), alpha + 1, at_most=at_most)
