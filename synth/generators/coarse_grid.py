"""Group a column's codes into equal-width cells, which are public and follow from the schema alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from synth.privacy.bins import Bins
from synth.schema import ModelledColumn

__all__ = ["LABEL_BINS", "CoarseGrid", "coarse_grid"]

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


def _equal_widths(codes: int, most: int) -> NDArray[np.int64]:
    places = min(codes, most)
    edges = (np.arange(places + 1, dtype=np.int64) * codes) // max(places, 1)
    return np.diff(edges)
