"""How rows of codes are presented to a predictor: one fixed preprocessing, from the schema alone.

A number or date is one coordinate in [0, 1], its position between the declared bounds, with an indicator for every
special value and for missing. A category has one indicator for each value, a column of two values a single one. Lists
that are too long for that are cut into blocks of neighbouring values, with the position in the list as well. Nothing is
fitted to rows, so rows of every origin are prepared alike.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from synth.reports.code_tables import CodeTable
from synth.schema import ModelledColumn, Schema, people_asked

__all__ = ["Features", "Target", "predicting"]

_WIDEST = 1024
"""Most coordinates of a row, unless there are more columns: thirteen predictors can be trained on these in minutes."""

_BLOCKS = (128, 64, 32, 16, 8, 4)
_MIDDLE = 0.5


@dataclass(frozen=True, slots=True)
class Features:
    """The coordinates of a row without its label.

    Attributes
    ----------
    columns : tuple of ModelledColumn
        All columns but the label; of a table of people those of one row alone (:func:`predicting`).
    positions : tuple of int
        Index of each among the schema's columns.
    blocks : int
        Most indicators of one list of categories; a longer list is cut into this many blocks.
    """

    columns: tuple[ModelledColumn, ...]
    positions: tuple[int, ...]
    blocks: int

    @classmethod
    def of(cls, schema: Schema, label: str) -> Self:
        """Lay out every column that may predict ``label``."""
        kept = predicting(schema, label)
        columns = tuple(column for _, column in kept)
        for blocks in _BLOCKS:
            if sum(_width(column, blocks) for column in columns) <= _WIDEST:
                break
        return cls(columns, tuple(place for place, _ in kept), blocks)

    @property
    def width(self) -> int:
        """Number of coordinates."""
        return sum(_width(column, self.blocks) for column in self.columns)

    @property
    def shortened(self) -> tuple[str, ...]:
        """Names of the columns whose list of values was cut into blocks."""
        return tuple(column.name for column in self.columns if _is_long(column, self.blocks))

    def matrix(self, codes: CodeTable, rows: NDArray[np.int64] | None = None) -> NDArray[np.float32]:
        """Return the coordinates of some rows.

        Parameters
        ----------
        codes : CodeTable
            Codes of every modelled column of the schema, in its order.
        rows : array of shape (n_rows,), optional
            Which rows; all if absent.

        Returns
        -------
        array of shape (n_rows, width), float32, values in [0, 1]
        """
        blocks = [
            _coordinates(column, codes[place] if rows is None else codes[place][rows], self.blocks)
            for column, place in zip(self.columns, self.positions, strict=True)
        ]
        n_rows = len(codes[0]) if rows is None else len(rows)
        return np.concatenate([np.zeros((n_rows, 0), dtype=np.float32), *blocks], axis=1)


def predicting(schema: Schema, label: str) -> list[tuple[int, ModelledColumn]]:
    """Return the columns from which a label may be predicted, with their places among the schema's columns.

    Of a table of people they are the columns of the declared table: what a row says and what belongs to the person. The
    next row, usual values and the number of rows come after the row, or from it.
    """
    people = people_asked(schema)
    left_out = {label} if people is None else {label, *people.made}
    return [(place, column) for place, column in enumerate(schema.modelled) if column.name not in left_out]


def _is_long(column: ModelledColumn, blocks: int) -> bool:
    return not column.levels and column.size > max(blocks, 2)


def _atoms(column: ModelledColumn) -> int:
    """Return how many indicators follow a column: special values and missing, or "other" of a list."""
    if column.levels:
        return column.size - column.levels
    return (column.other_code is not None) + (column.missing_code is not None)


def _width(column: ModelledColumn, blocks: int) -> int:
    if column.levels:
        return 1 + _atoms(column)
    if _is_long(column, blocks):
        return 1 + blocks + _atoms(column)
    return column.size if column.size > 2 else 1


def _coordinates(column: ModelledColumn, codes: NDArray[Any], blocks: int) -> NDArray[np.float32]:
    whole = codes.astype(np.int64)
    if column.levels:
        return _with_indicators(_place(column, whole), whole - column.levels, _atoms(column))
    if _is_long(column, blocks):
        listed = column.size - _atoms(column)
        place = np.where(whole < listed, whole / max(listed - 1, 1), _MIDDLE)
        block = np.where(whole < listed, whole * blocks // listed, whole - listed + blocks)
        return _with_indicators(place, block, blocks + _atoms(column))
    if column.size <= 2:
        return whole[:, None].astype(np.float32)
    return _indicators(whole, column.size)


def _place(column: ModelledColumn, codes: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the position of every row between the declared bounds; a special value is placed by its number."""
    atoms = [_MIDDLE] * _atoms(column)
    scale = column.scale
    for place, value in enumerate(column.special):
        atoms[place] = min(max((value - scale.low) / (scale.high - scale.low), 0.0), 1.0)
    on_grid = np.minimum(codes, column.levels - 1) / max(column.levels - 1, 1)
    beside = np.array([*atoms, _MIDDLE])[np.clip(codes - column.levels, 0, len(atoms))]
    return np.where(codes < column.levels, on_grid, beside)


def _with_indicators(place: NDArray[np.float64], which: NDArray[np.int64], count: int) -> NDArray[np.float32]:
    return np.concatenate([place[:, None].astype(np.float32), _indicators(which, count)], axis=1)


def _indicators(which: NDArray[np.int64], count: int) -> NDArray[np.float32]:
    """Return one column for each of ``count`` values; negative numbers are none of them."""
    return np.asarray(which[:, None] == np.arange(count), dtype=np.float32)


@dataclass(frozen=True, slots=True)
class Target:
    """The label as something to predict: classes, or a number in its own unit.

    Attributes
    ----------
    column : ModelledColumn
    place : int
        Its index among the schema's columns.
    """

    column: ModelledColumn
    place: int

    @classmethod
    def of(cls, schema: Schema, label: str) -> Self:
        """Take one modelled column as the label."""
        return cls(schema.modelled_column(label), schema.names.index(label))

    @property
    def kind(self) -> Literal["classes", "number"]:
        """Classes for categories, yes/no and numbers with two levels; a number for the rest."""
        return "classes" if self.column.levels <= 2 else "number"

    @property
    def n_classes(self) -> int:
        """Number of declared classes; missing is none of them."""
        return self.column.size - (self.column.missing_code is not None)

    @property
    def n_declared(self) -> int:
        """Number of declared classes, 0 where the label is a number."""
        return self.n_classes if self.kind == "classes" else 0

    @property
    def bounds(self) -> tuple[float, float]:
        """Declared lowest and highest number."""
        return self.column.scale.low, self.column.scale.high

    @property
    def unit(self) -> str:
        """The unit of measurement, where the label is a number."""
        return self.column.scale.unit or f"units of {self.column.name}"

    def usable(self, codes: CodeTable) -> NDArray[np.int64]:
        """Return the indices of the rows whose label is known.

        Of a numeric label, special values outside the declared bounds ("999: refused") are not known.
        """
        return np.flatnonzero(self.is_known(codes[self.place]))

    def is_known(self, codes: NDArray[np.integer[Any]]) -> NDArray[np.bool_]:
        """Return which codes of the label are known."""
        unknown = [] if self.column.missing_code is None else [self.column.missing_code]
        if self.kind == "number":
            low, high = self.bounds
            beside = enumerate(self.column.special, self.column.levels)
            unknown += [code for code, value in beside if not low <= value <= high]
        return ~np.isin(codes, unknown)

    def values(self, codes: CodeTable, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the label of some rows: the code of a class, or the number (of a date, steps since the lowest)."""
        chosen = codes[self.place][rows].astype(np.int64)
        if self.kind == "classes":
            return chosen.astype(np.float64)
        low, high = self.bounds
        on_grid = low + chosen * self.column.scale.step
        specials = self.column.special
        beside = np.array([*specials, low])[np.clip(chosen - self.column.levels, 0, len(specials))]
        return np.clip(np.where(chosen < self.column.levels, on_grid, beside), low, high)
