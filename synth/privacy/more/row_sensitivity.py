r"""How far one cell, or one whole row, moves the numbers of a row: computed from whole-number tables, never assumed.

A row's numbers are the tables of its columns side by side (``Lookup``), on a grid of step 2^-bits. Three whole numbers
describe a column: the largest L1 change of its numbers when its cell changes, the largest change of one of them, and
the largest squared L2 change. Changing a category moves two numbers of a one-hot by 1, so its L1 change is 2: noise is
scaled to one cell of the *table*, not to one number of its encoding.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from synth.privacy.bins import Bins, pieces
from synth.privacy.more.lookups import LEAF_BITS, Lookup
from synth.schema import ModelledColumn

__all__ = ["CellBound", "cell_bound", "whole_table"]

PAIRS = 2**27
"""Up to this many numbers every pair of table rows is compared; above, ranges bound the change."""

BLOCK = 256

Whole = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class CellBound:
    """Largest change of a column's numbers when its cell changes, in grid steps: L1, of one number, squared L2."""

    l1: int
    largest: int
    squared: int


def whole_table(lookup: Lookup, bits: int) -> Whole:
    """Return a column's table in steps of 2^-bits, truncated towards zero; shape (n_bins, width).

    Raises
    ------
    PrivacyError
        If the table is off its grid, which happens only when a map was altered after it was made.
    """
    return np.trunc(lookup.whole * 2.0 ** (bits - LEAF_BITS)).astype(np.int64)


def cell_bound(lookup: Lookup, column: ModelledColumn, *, bits: int, change: float = 1.0) -> CellBound:
    """Bound the change of one cell's numbers.

    Parameters
    ----------
    lookup : Lookup
        The column's table.
    column : ModelledColumn
        Defines which codes are on the declared grid.
    bits : int
        The grid of the numbers has step 2^-bits.
    change : float
        Largest change of a number or date that counts, as a part of its declared range; 1 is any change. To, from and
        between special values, missing cells and categories every change counts.

    Returns
    -------
    CellBound
        Exact where pairs of table rows are few enough to be compared or at most one number of each is not 0; else never
        too small.
    """
    whole = whole_table(lookup, bits)
    if change >= 1 or column.levels == 0:
        used = whole if lookup.bins is None else whole[lookup.bins.used]
        return _between(used, used)
    bins = Bins.of_codes(np.arange(len(whole))) if lookup.bins is None else lookup.bins
    on_grid = list(pieces(0, column.levels, bins))
    first, last = (np.concatenate([piece[end] for piece in on_grid]) for end in (0, 1))
    runs, atoms = (
        whole[np.concatenate([own for *_, (own,) in on_grid])],
        whole[bins[np.arange(column.levels, bins.size)]],
    )
    # A declared change of less than one step still hides the next level of the grid.
    reach = max(1, math.floor(change * (column.levels - 1)))
    # Of the levels of a run the last one reaches farthest.
    ends = np.searchsorted(first, last + reach, side="right") - 1
    spans = np.stack([_spans(runs[:, place], ends) for place in range(runs.shape[1])], axis=1)
    near = CellBound(int(spans.sum(axis=1).max()), int(spans.max()), int((spans * spans).sum(axis=1).max()))
    if len(atoms) == 0:
        return near
    far = _between(atoms, np.unique(whole[bins.used], axis=0))
    return CellBound(*(max(getattr(near, name), getattr(far, name)) for name in ("l1", "largest", "squared")))


def _spans(values: Whole, ends: Whole) -> Whole:
    """Return, for every place, the largest value less the smallest one from it to the place where it ends."""
    places = np.arange(len(values))
    lengths, found = ends - places + 1, np.zeros(len(values), dtype=np.int64)
    highest, lowest, width = values, values, 1
    while width <= lengths.max():
        # Two windows of this width cover it, and may overlap.
        here = (lengths >= width) & (lengths < 2 * width)
        both = np.stack([places[here], ends[here] - width + 1])
        found[here] = highest[both].max(axis=0) - lowest[both].min(axis=0)
        highest, lowest = np.maximum(highest, _later(highest, width)), np.minimum(lowest, _later(lowest, width))
        width *= 2
    return found


def _later(values: Whole, step: int) -> Whole:
    """Return the values ``step`` places later; past the end, the last one."""
    return np.concatenate([values[step:], np.full(min(step, len(values)), values[-1])])


def _between(some: Whole, others: Whole) -> CellBound:
    """Bound the change from a row of ``some`` to a row of ``others``."""
    ranges = np.maximum(some.max(axis=0), others.max(axis=0)) - np.minimum(some.min(axis=0), others.min(axis=0))
    if some.shape[1] == 1:
        width = int(ranges[0])
        return CellBound(width, width, width * width)
    some, others = _extremes(some), _extremes(others)
    if len(some) * len(others) * some.shape[1] <= PAIRS:
        return _of_pairs(some, others)
    if all(int(np.count_nonzero(rows, axis=1).max()) <= 1 for rows in (some, others)):
        return _of_single_numbers(np.concatenate([some, others]), ranges)
    total = int(ranges.sum())
    squares = (ranges.astype(object) ** 2).sum()
    return CellBound(total, int(ranges.max()), int(squares))


def _extremes(rows: Whole) -> Whole:
    """Leave out rows that lie between two others: a change is convex, so it is largest between rows at the ends.

    Of rows that are equal but for their first number, such as the levels of a grid, the first and the last are kept.
    """
    _, groups = np.unique(rows[:, 1:], axis=0, return_inverse=True)
    order = np.lexsort((rows[:, 0], groups))
    ordered = groups[order]
    begins = np.concatenate([[True], ordered[1:] != ordered[:-1]])
    ends = np.concatenate([begins[1:], [True]])
    return np.asarray(rows[order[begins | ends]])


def _of_pairs(some: Whole, others: Whole) -> CellBound:
    l1, largest, squared = 0, 0, 0
    for start in range(0, len(some), BLOCK):
        block = some[start : start + BLOCK]
        sums = np.zeros((len(block), len(others)), dtype=np.int64)
        squares = np.zeros_like(sums)
        for place in range(some.shape[1]):
            gaps = np.abs(block[:, place, None] - others[None, :, place])
            sums += gaps
            squares += gaps * gaps
            largest = max(largest, int(gaps.max()))
        l1, squared = max(l1, int(sums.max())), max(squared, int(squares.max()))
    return CellBound(l1, largest, squared)


def _of_single_numbers(rows: Whole, ranges: Whole) -> CellBound:
    """Bound tables such as one-hots: a change leaves one number and enters another, or moves one along its range."""
    heights = np.sort(np.abs(rows).max(axis=0))
    one, other, span = int(heights[-1]), int(heights[-2]), int(ranges.max())
    return CellBound(max(one + other, span), max(one, span), max(one * one + other * other, span * span))
