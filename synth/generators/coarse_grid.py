"""Group a column's codes into equal-width cells, which are public and follow from the schema alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from synth.privacy.bins import Bins
from synth.schema import ModelledColumn

__all__ = ["LABEL_BINS", "CoarseGrid", "coarse_grid", "stairs"]

LABEL_BINS = 10
"""Number of classes of a label that is a number or date: equal parts of its declared range."""


@dataclass(frozen=True, slots=True, eq=False)
class CoarseGrid:
    """A column's codes grouped into places: first ``levels`` ordered ones of the grid, then ``atoms`` unordered ones.

    ``first`` and ``width`` are int64 arrays of shape (size,): place p holds the codes first[p] ... first[p] + width[p]
    - 1.
    """

    levels: int
    atoms: int
    first: NDArray[np.int64]
    width: NDArray[np.int64]

    @property
    def size(self) -> int:
        """Number of places."""
        return self.levels + self.atoms

    @property
    def bins(self) -> Bins | None:
        """Place of every code, or None where each code has a place of its own."""
        if bool((self.width == 1).all()):
            return None
        return Bins.of_runs(np.arange(self.size), self.width)

    def codes(self, places: NDArray[np.int64], uniforms: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return a code inside each place, picked evenly by ``uniforms`` in [0, 1)."""
        width = self.width[places]
        inside = np.minimum((uniforms * width).astype(np.int64), width - 1)
        return np.asarray(self.first[places] + inside, dtype=np.int64)


def coarse_grid(column: ModelledColumn, *, grid: int, atoms: int) -> CoarseGrid:
    """Group a column's codes into at most ``grid`` ordered and ``atoms`` unordered places of nearly equal width.

    Parameters
    ----------
    column : ModelledColumn
    grid, atoms : int
        Maximum number of places for the ordered and for the unordered codes, at least 1.
    """
    grid_widths = _equal_widths(column.levels, grid)
    atom_widths = _equal_widths(column.size - column.levels, atoms)
    width = np.concatenate([grid_widths, atom_widths])
    first = np.concatenate([[0], np.cumsum(width)[:-1]]).astype(np.int64)
    return CoarseGrid(levels=len(grid_widths), atoms=len(atom_widths), first=first, width=width)


def stairs(
    rises: Callable[[NDArray[np.int64]], NDArray[np.integer[Any]]], codes: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the values of a whole-number function of codes that never falls, and how many codes have each.

    Parameters
    ----------
    rises : callable
        Returns the values of an array of codes.
    codes : int
        At least 1; only as many are looked at as there are values, times the digits of this number.
    """
    lowest, highest = (int(one) for one in rises(np.array([0, codes - 1])))
    values = np.arange(lowest, highest + 1)
    low, high = np.zeros(len(values), dtype=np.int64), np.full(len(values), codes, dtype=np.int64)
    while (low < high).any():
        middle = (low + high) // 2
        reached = rises(np.minimum(middle, codes - 1)) >= values
        low, high = np.where(reached | (low >= high), low, middle + 1), np.where(reached, middle, high)
    widths = np.diff(low, append=codes)
    return values[widths > 0], widths[widths > 0]


def _equal_widths(codes: int, most: int) -> NDArray[np.int64]:
    places = min(codes, most)
    edges = (np.arange(places + 1, dtype=np.int64) * codes) // max(places, 1)
    return np.diff(edges)
