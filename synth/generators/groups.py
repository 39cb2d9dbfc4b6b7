"""Divide rows into groups, for models of numbers: by the codes of all other columns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from synth.privacy.bins import Bins
from synth.schema import ModelledColumn, Schema

__all__ = ["GroupAxis", "numbers_and_groups"]


@dataclass(frozen=True, slots=True, eq=False)
class GroupAxis:
    """A column that divides rows into groups: by every code, or by a number's grid as one cell and its other codes.

    ``bins`` are the cell of every code, or None where the code is the cell.
    """

    column: ModelledColumn
    bins: Bins | None

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
            widths = np.append(column.levels, np.ones(column.size - column.levels, dtype=np.int64))
            axes.append(GroupAxis(column, Bins.of_runs(np.arange(len(widths)), widths)))
    return tuple(numbers), tuple(axes)
