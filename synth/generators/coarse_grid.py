"""Group a column's codes into equal-width cells, which are public and follow from the schema alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from synth.schema import ModelledColumn, Schema

__all__ = ["LABEL_BINS", "CoarseGrid", "GroupAxis", "coarse_grid", "numbers_and_groups"]

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
    def bins(self) -> NDArray[np.int32] | None:
        """Place of every code, or None where each code has a place of its own."""
        if bool((self.width == 1).all()):
            return None
        return np.repeat(np.arange(self.size, dtype=np.int32), self.width)

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


@dataclass(frozen=True, slots=True, eq=False)
class GroupAxis:
    """A column that divides rows into groups: by every code, or by a number's grid as one cell and its other codes.

    ``bins`` is an int32 array of shape (column size,), the cell of every code, or None where the code is the cell.
    """

    column: ModelledColumn
    bins: NDArray[np.int32] | None

    @property
    def size(self) -> int:
        """Number of cells."""
        return self.column.size if self.bins is None else self.column.size - self.column.levels + 1

    def is_off(self, cell: int) -> bool:
        """Whether a cell is a single code rather than a number's whole grid."""
        return self.bins is None or cell > 0

    def code(self, cell: int) -> int:
        """Return the code of a cell that is a single code."""
        return cell if self.bins is None else self.column.levels + cell - 1

    def words(self, cell: int) -> str:
        """Describe a cell in words."""
        if not self.is_off(cell):
            return f"{self.column.name} in its range"
        return f"{self.column.name} {self.column.texts([self.code(cell)], missing='missing')[0]}"


def numbers_and_groups(
    schema: Schema, label: str | None, most_groups: int
) -> tuple[tuple[ModelledColumn, ...], tuple[GroupAxis, ...]]:
    """Split the columns into those that a model treats as numbers and those that divide rows into groups.

    Parameters
    ----------
    schema : Schema
    label : str, optional
        It divides rows if it has at most ``most_groups`` codes, whether it is a number or not.
    most_groups : int
        Maximum number of groups.

    Returns
    -------
    tuple of ModelledColumn
        Numbers and dates with at least two values.
    tuple of GroupAxis
        All other columns, and the numbers that have codes outside their grid; groups are the products of their cells.
    """
    numbers, axes = [], []
    for column in schema.modelled:
        divides = column.name == label and column.size <= most_groups
        if column.levels < 2 or divides:
            axes.append(GroupAxis(column, None))
            continue
        numbers.append(column)
        if column.size > column.levels:
            bins = np.concatenate([np.zeros(column.levels), np.arange(1, column.size - column.levels + 1)])
            axes.append(GroupAxis(column, bins.astype(np.int32)))
    return tuple(numbers), tuple(axes)


def _equal_widths(codes: int, most: int) -> NDArray[np.int64]:
    places = min(codes, most)
    edges = (np.arange(places + 1, dtype=np.int64) * codes) // max(places, 1)
    return np.diff(edges)
