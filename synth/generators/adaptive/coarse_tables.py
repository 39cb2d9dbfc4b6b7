"""Coarser versions of tables of several columns: bins put together where a table has more cells than rows can tell of.

How coarse follows from what a model of earlier answers expects in the cells and from the number of rows as far as it is
known, never from the counts themselves.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from synth.generators.adaptive.bins import ColumnBins
from synth.generators.adaptive.survey import Survey
from synth.models.junction_tree import ColumnSet
from synth.models.marginals import coarse
from synth.privacy.feature_maps import OneHot

__all__ = ["CoarseTables", "TableOffered"]

_PARTS = (16, 8, 4)
"""Most parts of a column in a coarse table, finest first; the label keeps its classes."""


@dataclass(frozen=True, slots=True, eq=False)
class TableOffered:
    """A table that may be counted next.

    Attributes
    ----------
    columns : tuple of int
    one_hot : OneHot
        What would be counted.
    believed : array of the shape of ``one_hot``, float64
        What a model of earlier answers says of these counts, in rows.
    cells : array of shape (bins of each column), whole numbers, optional
        Of a coarse table: the count that each combination of bins belongs to.
    """

    columns: ColumnSet
    one_hot: OneHot
    believed: NDArray[np.float64]
    cells: NDArray[np.intp] | None = None


class CoarseTables:
    """Makes coarse tables of a table's columns; each is made once, as it is weighed in many rounds.

    Parameters
    ----------
    survey : Survey
    bins : sequence of ColumnBins
    """

    def __init__(self, survey: Survey, bins: Sequence[ColumnBins]) -> None:
        self._survey, self._bins = survey, bins
        self._groups: dict[tuple[int, int], tuple[NDArray[np.int32], NDArray[np.int32]]] = {}
        self._made: dict[tuple[ColumnSet, int], tuple[NDArray[np.intp], OneHot] | None] = {}

    def of(self, columns: ColumnSet, believed: NDArray[np.float64]) -> Iterator[TableOffered]:
        """Return a table of bins in fewer and fewer parts.

        Parameters
        ----------
        columns : tuple of int
        believed : array of shape (bins of each column), float64
            In rows.
        """
        for parts in _PARTS:
            made = self._at(columns, parts)
            if made is not None:
                cells, one_hot = made
                yield TableOffered(columns, one_hot, coarse(believed, cells, one_hot.shape), cells)

    def _at(self, columns: ColumnSet, parts: int) -> tuple[NDArray[np.intp], OneHot] | None:
        """Return the cells of a table in so many parts, and its question; None where that makes nothing coarser."""
        if (columns, parts) not in self._made:
            groups = [self._grouped(column, parts) for column in columns]
            sizes = [int(group.max()) + 1 for group, _ in groups]
            made = None
            if any(size < self._bins[column].size for column, size in zip(columns, sizes, strict=True)):
                cells = np.zeros((), dtype=np.intp)
                for (group, _), size in zip(groups, sizes, strict=True):
                    cells = cells[..., None] * size + group
                made = cells, self._survey.one_hot(columns, {c: g for c, (_, g) in zip(columns, groups, strict=True)})
            self._made[columns, parts] = made
        return self._made[columns, parts]

    def _grouped(self, column: int, parts: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Return the part of every bin of a column, and of every code."""
        if (column, parts) not in self._groups:
            one = self._bins[column]
            group = one.grouped(one.size if column == self._survey.label else parts, 0.0)
            codes = group if one.bins is None else np.ascontiguousarray(group[one.bins])
            codes.setflags(write=False)  # questions share what nobody can change
            self._groups[column, parts] = group, codes
        return self._groups[column, parts]
