"""Encode rows of codes as vectors of real numbers, and decode them: for methods that need geometry, by schema alone.

A number or date is one coordinate in [0, 1], its position on the declared grid. Special values and missing cells have
an indicator coordinate each and are placed at the middle of the range, a public value that says nothing about the
others. A category has one coordinate for each code. Nothing is fitted to rows.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from synth.errors import InputError
from synth.generators.coarse_grid import coarse_grid
from synth.privacy.more.lookups import Lookup
from synth.schema import ModelledColumn, Schema

__all__ = ["INDICATOR", "MIDDLE", "ColumnEncoding", "RowEncoding"]

MIDDLE = 0.5
"""Coordinate of a cell that is not on the grid."""

INDICATOR = math.sqrt(1.0 - MIDDLE**2)
"""Indicator of a special value or a missing cell: it gives the cell's vector length 1, as for a category."""

_PLACES = 4096
"""Maximum number of different coordinates of a number; finer grids are read at the middle of equal parts."""


@dataclass(frozen=True, slots=True, eq=False)
class ColumnEncoding:
    """One column's coordinates: ``start`` ... ``start + width - 1``.

    The first is the position on the grid, if the column has one (``levels`` > 0); the others are indicators.
    """

    column: ModelledColumn
    start: int

    @property
    def width(self) -> int:
        """Number of coordinates."""
        return (1 if self.column.levels else 0) + self.column.size - self.column.levels

    @property
    def coordinates(self) -> slice:
        """The slice of a row that holds the column's coordinates."""
        return slice(self.start, self.start + self.width)

    @property
    def table(self) -> Lookup:
        """The vector of every code, as a feature map for a private session; neighbouring codes may share a vector."""
        column = self.column
        atoms = column.size - column.levels
        grid = coarse_grid(column, grid=_PLACES, atoms=max(atoms, 1))
        rows = np.zeros((grid.size, self.width))
        if column.levels:
            middles = grid.first[: grid.levels] + (grid.width[: grid.levels] - 1) / 2
            rows[: grid.levels, 0] = middles / max(column.levels - 1, 1)
            rows[grid.levels :, 0] = MIDDLE
            rows[grid.levels :, 1:] = INDICATOR * np.eye(atoms)
        else:
            rows[:] = np.eye(atoms)
        return Lookup(column.name, rows, grid.bins)

    def decode(self, coordinates: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return the code with the nearest vector.

        Parameters
        ----------
        coordinates : array of shape (n_rows, width)
            Any numbers; values outside the range move to its nearest end. Of equally near codes, the first wins.

        Returns
        -------
        array of shape (n_rows,), int64, below the column's size
        """
        levels = self.column.levels
        if not levels:
            return np.asarray(np.argmax(coordinates, axis=1), dtype=np.int64)
        value = coordinates[:, 0]
        nearest = np.rint(np.clip(value, 0.0, 1.0) * max(levels - 1, 1))
        codes = np.minimum(nearest, levels - 1).astype(np.int64)
        if self.width > 1:
            atom = np.argmax(coordinates[:, 1:], axis=1)
            height = np.take_along_axis(coordinates[:, 1:], atom[:, None], axis=1)[:, 0]
            # Squared distances, less what all codes have in common.
            off_grid = (value - np.clip(value, 0.0, 1.0)) ** 2
            to_atom = (value - MIDDLE) ** 2 + INDICATOR**2 - 2 * INDICATOR * height
            codes = np.where(to_atom < off_grid, levels + atom, codes)
        return np.asarray(codes, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class RowEncoding:
    """The encodings of several columns side by side.

    Attributes
    ----------
    columns : tuple of ColumnEncoding
        In the order of the names given.
    """

    columns: tuple[ColumnEncoding, ...]

    @classmethod
    def of(cls, schema: Schema, names: Sequence[str]) -> Self:
        """Lay out the named columns.

        Parameters
        ----------
        schema : Schema
        names : sequence of str
            Modelled columns, in the order of the coordinates.

        Raises
        ------
        SchemaError
            If a name is not a modelled column.
        """
        columns = []
        start = 0
        for name in names:
            column = ColumnEncoding(schema.modelled_column(name), start)
            columns.append(column)
            start += column.width
        return cls(tuple(columns))

    @functools.cached_property
    def tables(self) -> tuple[Lookup, ...]:
        """One for each column: row c of a table is the vector of code c (or of its bin)."""
        return tuple(column.table for column in self.columns)

    @property
    def width(self) -> int:
        """Number of coordinates of a row."""
        return sum(column.width for column in self.columns)

    def encode(self, codes: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the vectors of synthetic rows.

        Parameters
        ----------
        codes : array of shape (n_rows, n_columns), whole numbers

        Returns
        -------
        array of shape (n_rows, width), float64
        """
        names = [column.column.name for column in self.columns]
        by_name = {name: codes[:, place] for place, name in enumerate(names)}
        blocks = [table.evaluate(by_name) for table in self.tables]
        return np.concatenate([np.zeros((len(codes), 0)), *blocks], axis=1)

    def decode(self, rows: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return the nearest codes, column by column.

        Parameters
        ----------
        rows : array of shape (n_rows, width)
            Any finite numbers.

        Returns
        -------
        array of shape (n_rows, n_columns), int64
            Each below its column's size.

        Raises
        ------
        InputError
            If the rows have another width, or a number is not finite.
        """
        if rows.ndim != 2 or rows.shape[1] != self.width:
            raise InputError(f"Rows of {self.width} coordinates are needed, got an array of shape {rows.shape}.")
        if not np.isfinite(rows).all():
            raise InputError("A row to decode contains a number that is not finite.")
        codes = np.zeros((len(rows), len(self.columns)), dtype=np.int64)
        for place, column in enumerate(self.columns):
            codes[:, place] = column.decode(rows[:, column.coordinates])
        return codes
