"""Cells that binned rows are sorted into: by a few columns, each divided into few parts, and by several tables."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from synth.models.junction_tree import ColumnSet

__all__ = ["CellsOfSet", "PoolCells", "PooledRows", "SortedRows", "cells_of_columns", "columns_of_state"]

Vector = NDArray[np.float64]

Cells = NDArray[np.signedinteger[Any]]

_MOST_TOGETHER = 2**14
"""Most cells of several tables that are looked up together, so that their factors stay in the cache."""


class PooledRows(Protocol):
    """Binned rows, by column, with a cache of what is computed from them."""

    columns: list[NDArray[Any]]
    n_rows: int

    def once(self, asker: object, worked_out: Callable[[], NDArray[Any]]) -> NDArray[Any]:
        """Return a result computed from the rows, once for each asker."""

    def parts(self, column: int, parts: NDArray[np.int32]) -> NDArray[Any]:
        """Return the part of every row, given that of every bin of a column."""


class PoolCells(Protocol):
    """Cells into which the rows of a pool are sorted."""

    @property
    def columns(self) -> ColumnSet:
        """Positions of the columns that determine a row's cell."""

    @property
    def size(self) -> int:
        """Number of cells."""

    def index(self, pool: PooledRows) -> Cells:
        """Return the cell of every row of a pool, shape (n_rows,)."""

    def state(self) -> dict[str, NDArray[Any]]:
        """Return the state from which the cells can be restored."""


@dataclass(frozen=True, slots=True, eq=False)
class CellsOfSet:
    """Cells by a few columns, each divided into few parts.

    Attributes
    ----------
    columns : tuple of int
        Positions of the columns, ascending.
    parts : tuple of arrays of shape (bins of the column,), int32
        Part of every bin, by column.
    shape : tuple of int
        Parts of each column.
    """

    columns: ColumnSet
    parts: tuple[NDArray[np.int32], ...]
    shape: tuple[int, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", tuple(int(one.max()) + 1 for one in self.parts))

    @property
    def size(self) -> int:
        """Number of cells."""
        return math.prod(self.shape)

    def index(self, pool: PooledRows) -> Cells:
        """Return the cell of every row of a pool, last column fastest; shape (n_rows,)."""
        # Small types take a third of the time.
        index: Cells = np.zeros(pool.n_rows, dtype=np.int16 if self.size < 2**15 else np.int32)
        for column, parts, size in zip(self.columns, self.parts, self.shape, strict=True):
            index *= size
            index += pool.parts(column, parts)
        return index

    def state(self) -> dict[str, NDArray[Any]]:
        """Return columns and parts."""
        parts = {f"parts.{column}": one.copy() for column, one in zip(self.columns, self.parts, strict=True)}
        return {"columns": np.array(self.columns, dtype=np.int64), **parts}

    @classmethod
    def from_state(cls, state: Mapping[str, NDArray[Any]], sizes: Sequence[int]) -> Self:
        """Return the cells of a state, by columns of these sizes.

        Raises
        ------
        LookupError, ValueError
            If they are not cells of such columns.
        """
        columns = columns_of_state(state)
        parts = tuple(state[f"parts.{column}"].astype(np.int32) for column in columns)
        if any(one.shape != (sizes[column],) or one.min() < 0 for column, one in zip(columns, parts, strict=True)):
            raise ValueError("The cells of a pool need a part for every bin.")
        return cls(columns, parts)


def columns_of_state(state: Mapping[str, NDArray[Any]]) -> ColumnSet:
    """Return the columns of a state of cells, or refuse invalid ones."""
    columns = tuple(state["columns"].astype(np.int64).tolist())
    if not columns or list(columns) != sorted(set(columns)) or columns[0] < 0:
        raise ValueError("The cells of a pool need different columns, in ascending order.")
    return columns


def cells_of_columns(columns: ColumnSet, sizes: Sequence[int]) -> CellsOfSet:
    """Return the cells of some columns, with a part for every bin."""
    return CellsOfSet(columns, tuple(np.arange(sizes[column], dtype=np.int32) for column in columns))


class SortedRows:
    """Rows sorted into the cells of several tables, for many passes.

    Tables with few cells are combined: a row's cells in two or three tables are one cell of their product.

    Parameters
    ----------
    indices : sequence of arrays of shape (n_rows,)
        Cell of every row, by table.
    sizes : sequence of int
        Cells of each table.
    n_rows : int
    """

    def __init__(self, indices: Sequence[Cells], sizes: Sequence[int], n_rows: int) -> None:
        self._n_rows = n_rows
        self._tables: list[list[int]] = []
        together: list[int] = []
        for table in sorted(range(len(sizes)), key=lambda table: -sizes[table]):
            room = (n for n, one in enumerate(together) if one * sizes[table] <= _MOST_TOGETHER)
            place = next(room, len(together))
            if place == len(together):
                self._tables.append([])
                together.append(1)
            self._tables[place].append(table)
            together[place] *= sizes[table]
        self._shapes = [tuple(sizes[table] for table in tables) for tables in self._tables]
        self._cells = []
        for tables in self._tables:
            cells = indices[tables[0]].astype(np.intp)
            for table in tables[1:]:
                cells *= sizes[table]
                cells += indices[table]
            self._cells.append(cells)

    def sums(self, factors: Sequence[Vector]) -> Vector:
        """Return for every row the sum of its cells' factors, shape (n_rows,).

        Parameters
        ----------
        factors : sequence of arrays of shape (cells,)
            By table.
        """
        found, looked_up = np.zeros(self._n_rows), np.empty(self._n_rows)
        for tables, cells in zip(self._tables, self._cells, strict=True):
            joint = factors[tables[0]]
            for table in tables[1:]:
                joint = np.add.outer(joint, factors[table])
            # No cell is out of range, and checking for it takes longer.
            found += np.take(joint.reshape(-1), cells, out=looked_up, mode="clip")
        return found

    def counts(self, weights: Vector) -> list[Vector]:
        """Return the sum of the weights of the rows in every cell, by table."""
        found: dict[int, Vector] = {}
        for tables, cells, shape in zip(self._tables, self._cells, self._shapes, strict=True):
            joint = np.bincount(cells, weights, math.prod(shape)).reshape(shape)
            for axis, table in enumerate(tables):
                found[table] = joint.sum(axis=tuple(other for other in range(len(shape)) if other != axis))
        return [found[table] for table in range(len(found))]
