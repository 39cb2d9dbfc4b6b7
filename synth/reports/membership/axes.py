"""The axes of a space of rows: where the codes of a column lie, and how far apart two of them are."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Axis", "Placed", "Places"]

Places = NDArray[np.int32]
Placed = list[Places]
"""A table in space: one array of shape (n_rows,) per axis."""


@dataclass(frozen=True, slots=True)
class Axis:
    """One column in space.

    Attributes
    ----------
    levels : int
        Ordered codes, which come first; 0 for categories.
    size : int
        All codes.
    unit : int
        The distance of two codes that have nothing in common, and of the two ends of the grid.
    """

    levels: int
    size: int
    unit: int

    def place(self, codes: NDArray[np.integer]) -> Places:
        """Return the place of codes: on the grid in [0, unit], other states of such a column at least a unit apart.

        A category's place is its code.
        """
        if not self.levels:
            return codes.astype(np.int32)
        whole = codes.astype(np.int64)
        grid = (2 * whole * self.unit + self.levels - 1) // max(2 * (self.levels - 1), 1) if self.levels > 1 else 0
        return np.where(whole < self.levels, grid, 2 * self.unit * (whole - self.levels + 1)).astype(np.int32)

    def between(self, left: Places, right: Places) -> Places:
        """Return distances, element by element or broadcast."""
        if not self.levels:
            return np.not_equal(left, right) * np.int32(self.unit)
        apart = np.subtract(left, right)
        np.abs(apart, out=apart)
        if self.size > self.levels:
            np.minimum(apart, np.int32(self.unit), out=apart)
        return apart
