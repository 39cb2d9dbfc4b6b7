"""Rows drawn from a model so that their counts, of columns and of pairs of columns, are close to the expected ones.

Rows that are drawn one by one miss a count of their model by about its root. A balanced sample misses it by little
(Deville and Tillé 2004, "Efficient balanced sampling: the cube method"). The cube method wants fewer counts than rows;
here rows are exchanged for others of the same model as long as that brings all counts closer.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from synth.models.junction_tree import ColumnSet
from synth.models.marginals import JointModel

__all__ = ["Counted", "balanced", "balanced_rows", "cells_of_pair", "pairs_to_balance"]

Vector = NDArray[np.float64]

Whole = NDArray[np.int64]

Counted = tuple[NDArray[Any], int]
"""The cell of every row in a table, and the number of cells."""

_EXCHANGES = 100
"""Rounds of exchanging rows."""

_EXCHANGED = 0.3
"""Share of the rows that is considered in the first round."""

_MOST_WORK, _OF_A_PAIR = 5_000_000, 5_000
"""Most work at which pairs are balanced, a second or two: rows and cells of all pairs, and so many rows more for each.
With more rows a count is hardly missed, and with more cells hardly any has a row."""


def pairs_to_balance(sizes: Sequence[int], n_rows: int) -> list[ColumnSet]:
    """Return all pairs of columns that vary, or none if balancing them takes too long.

    Parameters
    ----------
    sizes : sequence of int
        Bins of each column.
    n_rows : int
        Rows to draw.
    """
    varied = [d for d, size in enumerate(sizes) if size > 1]
    bins = [sizes[d] for d in varied]
    many = len(varied) * (len(varied) - 1) // 2
    cells = (sum(bins) ** 2 - sum(size**2 for size in bins)) // 2
    return list(itertools.combinations(varied, 2)) if many * (n_rows + _OF_A_PAIR) + cells <= _MOST_WORK else []


def cells_of_pair(columns: Sequence[NDArray[np.integer]], sizes: Sequence[int], pair: ColumnSet) -> Counted:
    """Return the cell of every row in the table of two columns."""
    first, second = pair
    cells = columns[first].astype(np.int32)
    cells *= np.int32(sizes[second])
    cells += columns[second]
    return cells, sizes[first] * sizes[second]


def balanced_rows(model: JointModel, n_rows: int, random: np.random.Generator) -> Whole:
    """Return rows of a model whose counts in all pairs of columns are close to the model's, if that is not too much.

    Parameters
    ----------
    model : JointModel
    n_rows : int
    random : Generator

    Returns
    -------
    array of shape (n_rows, number of columns), int64
        Bins, in random order.
    """
    rows = model.sample(n_rows, random)
    pairs = pairs_to_balance(model.sizes, n_rows)
    if not pairs:
        return rows
    candidates = np.concatenate([rows, model.sample(n_rows, random)])
    columns = [np.ascontiguousarray(column, dtype=np.int32) for column in candidates.T]
    tables = [cells_of_pair(columns, model.sizes, pair) for pair in pairs]
    proportions = model.tables(pairs)
    expected = [n_rows * proportions[pair].reshape(-1) for pair in pairs]
    places = np.arange(n_rows), np.arange(n_rows, 2 * n_rows)
    return np.asarray(candidates[balanced(*places, tables, expected, random)])


def balanced(
    chosen: Whole, others: Whole, tables: Sequence[Counted], expected: Sequence[Vector], random: np.random.Generator
) -> Whole:
    """Exchange chosen rows for others, as long as that brings the counts of the chosen ones closer to the expected.

    A share of the chosen rows at a time, those whose cells are too full are exchanged for rows whose cells are too
    empty.

    Parameters
    ----------
    chosen, others : arrays of whole numbers
        Places of rows; a row may be there more than once.
    tables : sequence of (cell of every row, number of cells)
    expected : sequence of arrays of shape (cells,), float64
        What the chosen rows should count in each table.
    random : Generator

    Returns
    -------
    array of the shape of ``chosen``
    """
    chosen, others = chosen.copy(), others.copy()
    scales = [1.0 / (one + 1.0) for one in expected]

    def held(places: Whole) -> list[Whole]:
        return [np.bincount(index[places], minlength=size) for index, size in tables]

    def strays(counts: Sequence[Whole]) -> tuple[list[Vector], float]:
        gaps = [one - other for one, other in zip(counts, expected, strict=True)]
        return gaps, math.fsum(float((gap * gap * scale).sum()) for gap, scale in zip(gaps, scales, strict=True))

    counts = held(chosen)
    gaps, height = strays(counts)
    part = _EXCHANGED
    for _ in range(_EXCHANGES):
        asked = min(max(1, int(part * len(chosen))), len(chosen), len(others))
        mine = random.choice(len(chosen), asked, replace=False)
        other = random.choice(len(others), asked, replace=False)
        gain, cost = np.zeros(asked), np.zeros(asked)
        for (index, _size), gap, scale in zip(tables, gaps, scales, strict=True):
            gain += ((2 * gap - 1) * scale)[index[chosen[mine]]]
            cost += ((2 * gap + 1) * scale)[index[others[other]]]
        leaving, coming = np.argsort(-gain, kind="stable"), np.argsort(cost, kind="stable")
        n = int((gain[leaving] > cost[coming]).sum())
        while n:
            left, new = mine[leaving[:n]], other[coming[:n]]
            gone, come = held(chosen[left]), held(others[new])
            tried = [one - away + here for one, away, here in zip(counts, gone, come, strict=True)]
            found, reached = strays(tried)
            if reached < height:
                chosen[left], others[new] = others[new], chosen[left]
                counts, gaps, height = tried, found, reached
                break
            # Exchanges that are good one by one overshoot together.
            n, part = n // 2, max(0.7 * part, 20 / len(chosen))
        else:
            part *= 0.5
    return chosen
