"""What a file of a synthetic table holds: which columns and rows, and the cells of each, piece by piece.

A release has one table, and where two tables belong together (:class:`synth.schema.LinkedTables`) also each of these:

- the first has a row for each person: the key, and what is the same in all rows of a person;
- the second has a row for each row of the table that has one there: the key, and the other columns.

So each key of the second is one of the first, in which nobody is missing. In the table itself, where both are joined,
people without a row in the second have one row, whose cells of the second are empty.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from synth.errors import TableError
from synth.schema import Column, ModelledColumn, Schema
from synth.schema.schema import LEFT_ONLY, MERGE

__all__ = [
    "IDENTIFIER_PATTERN",
    "Sheet",
    "columns_of",
    "fresh_ids",
    "is_of_rows",
    "table_of_file",
]

PIECE = 65_536
"""Rows written at a time; also the row groups of the Parquet file. Fewer where there are more columns than 64."""

IDENTIFIER_PATTERN = r"syn-[0-9a-f]{12}"
"""Regular expression of the new ids that replace identifiers."""

_ID_MASK = np.uint64(2**48 - 1)
_HEX_DIGITS = np.frombuffer(b"0123456789abcdef", dtype=np.uint8)
_WIDE = 64

Printer = Callable[[int, int], pa.Array]
"""Returns the cells from a first row to a last one (excluded)."""


class Sheet:
    """What one file holds of a synthetic table.

    Parameters
    ----------
    codes : array or tensor of integers of shape (n_rows, n_modelled)
        The whole table, columns in ``schema.names`` order.
    schema : Schema
        What is declared.
    units : array of shape (n_rows,), optional
        Where rows belong to people who are kept whole, the number of each row's person, from 0, never decreasing.
    table : str, optional
        One of the two tables that belong together, by its name; without it the sheet is the table itself.

    Attributes
    ----------
    columns : tuple of Column
        The columns of the file, in order.

    Raises
    ------
    TableError
        If the codes do not have one column for every modelled one.
    """

    def __init__(
        self,
        codes: npt.ArrayLike,
        schema: Schema,
        *,
        units: npt.NDArray[np.int64] | None = None,
        table: str | None = None,
    ) -> None:
        self._codes, self._schema, self._units = _as_rows(codes, schema), schema, units
        self._place_of = {name: place for place, name in enumerate(schema.names)}
        self._chosen: npt.NDArray[np.int64] | None = None
        self._alone: npt.NDArray[np.bool_] | None = None
        self.columns = columns_of(schema, table)
        self._first = schema.tables is not None and table == schema.tables.first
        if schema.tables is not None:
            alone = self._codes[:, self._place_of[MERGE.name]] == LEFT_ONLY
            if table is None:
                self._alone = alone
            elif units is None:
                raise TableError("Two tables can only be made of people whose rows are known. Give their numbers.")
            else:
                self._chosen = np.flatnonzero(np.diff(units, prepend=-1) if self._first else ~alone)

    def __len__(self) -> int:
        return len(self._codes if self._chosen is None else self._chosen)

    def codes(self, column: ModelledColumn) -> npt.NDArray[np.unsignedinteger[Any]]:
        """Return the codes of one column, in the smallest type that fits.

        Raises
        ------
        SchemaError
            If a code is not one of its column's.
        """
        codes = column.smallest_codes(self._codes[:, self._place_of[column.name]])
        return codes if self._chosen is None else codes[self._chosen]

    def pieces(self) -> Iterator[tuple[int, int]]:
        """Yield the first row of each piece that is written at once, and the row after its last."""
        step = max(PIECE * _WIDE // max(len(self.columns), _WIDE), 1)
        return ((first, min(first + step, len(self))) for first in range(0, len(self), step))

    def is_distinct(self, column: Column) -> bool:
        """Whether all cells of a column are new ids that differ."""
        several = self._units is not None and column.name == self._schema.unit.id_column and not self._first
        return column.is_identifier and not several

    def printers(self, seed: int, values: Callable[[ModelledColumn, npt.NDArray[np.int64]], pa.Array]) -> list[Printer]:
        """Return the printer of each column.

        Parameters
        ----------
        seed : int
            The public seed; fresh ids are made from it. Rows of one person have one id in the column that names them;
            every other id is of one row of the whole table.
        values : callable
            Returns the cells of codes, which are computed once for each that occurs.
        """
        return [
            self._coded(column, values) if isinstance(column, ModelledColumn) else self._fresh(column.name, seed)
            for column in self.columns
        ]

    def _coded(
        self, column: ModelledColumn, values: Callable[[ModelledColumn, npt.NDArray[np.int64]], pa.Array]
    ) -> Printer:
        codes = self.codes(column)
        found = column.distinct_codes(codes)
        cells = values(column, found)
        alone = self._alone if is_of_rows(column, self._schema) else None

        def printed(first: int, last: int) -> pa.Array:
            empty = None if alone is None else alone[first:last]
            return cells.take(pa.array(np.searchsorted(found, codes[first:last]), mask=empty))

        return printed

    def _fresh(self, name: str, seed: int) -> Printer:
        units, chosen, alone = self._units, self._chosen, self._alone
        if units is not None and name == self._schema.unit.id_column:
            people = units if chosen is None else units[chosen]
            return lambda first, last: fresh_ids(name, people[first:last], seed)

        def printed(first: int, last: int) -> pa.Array:
            numbers = np.arange(first, last) if chosen is None else chosen[first:last]
            ids = fresh_ids(name, numbers, seed)
            return ids if alone is None else pc.if_else(pa.array(alone[first:last]), None, ids)

        return printed


def _as_rows(codes: npt.ArrayLike, schema: Schema) -> npt.NDArray[np.int64]:
    """Return codes as an array; refuse them unless they have one column for each modelled column."""
    rows: npt.NDArray[Any] = np.asarray(codes)
    if rows.ndim != 2 or rows.shape[1] != len(schema.names):
        raise TableError(
            f"A synthetic table needs {len(schema.names)} columns of codes, one for every modelled column."
        )
    return rows


# Two tables that belong together -------------------------------------------------------------------------------------


def columns_of(schema: Schema, table: str | None = None) -> tuple[Column, ...]:
    """Return the columns of a file in declared order: of the whole table, or of one of two by its name."""
    if schema.tables is None or table is None:
        return schema.printed
    first = table == schema.tables.first
    return tuple(
        column
        for column in schema.printed
        if column.name == schema.tables.key or (column.name != MERGE.name and is_of_rows(column, schema) != first)
    )


def is_of_rows(column: Column, schema: Schema) -> bool:
    """Whether a column of the table that was joined from two has cells of the second."""
    own = (schema.unit.id_column, MERGE.name, *schema.unit.same_in_all_rows)
    return schema.tables is not None and column.name not in own


def table_of_file(name: str, schema: Schema) -> str | None:
    """Return which of two tables a file holds, by its name; None for the file of the whole table."""
    stem = name.rpartition(".")[0]
    return stem if schema.tables is not None and stem in (schema.tables.first, schema.tables.second) else None


# New ids --------------------------------------------------------------------------------------------------------------


def fresh_ids(name: str, rows: npt.NDArray[np.int64], seed: int) -> pa.Array:
    """Return new ids for an identifier column.

    Parameters
    ----------
    name : str
        Name of the column; two columns get different ids.
    rows : array of int, values in [0, 2^48)
        Numbers of the rows.
    seed : int
        The public seed.

    Returns
    -------
    pyarrow string array
        One id for each row, all different: 12 hexadecimal digits of a seeded permutation of the 48-bit numbers.
    """
    digest = hashlib.blake2b(f"{seed}:{name}".encode(), digest_size=24, person=b"fresh ids").digest()
    shift, first, second = (np.uint64(number) for number in np.frombuffer(digest, dtype="<u8"))
    numbers = (rows.astype(np.uint64) * (first | np.uint64(1)) + shift) & _ID_MASK
    numbers ^= numbers >> np.uint64(24)
    numbers = (numbers * (second | np.uint64(1))) & _ID_MASK
    numbers ^= numbers >> np.uint64(24)
    texts = np.empty((len(rows), 16), dtype=np.uint8)
    texts[:, :4] = np.frombuffer(b"syn-", dtype=np.uint8)
    for place in range(12):
        texts[:, 4 + place] = _HEX_DIGITS[(numbers >> np.uint64(44 - 4 * place)) & np.uint64(15)]
    offsets = np.arange(0, 16 * len(rows) + 1, 16, dtype=np.int32)
    return pa.StringArray.from_buffers(len(rows), pa.py_buffer(offsets), pa.py_buffer(texts))
