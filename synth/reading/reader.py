"""Tables read in a process of their own: bytes go in over a pipe, codes come out.

The program itself never parses a table. A file that is broken, hostile or too large ends a process with little memory
and little time, and leaves one sentence without a cell in it. No byte of the table touches a disk.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, BinaryIO, Literal

import numpy as np

from synth.errors import TableError
from synth.privacy.encoded_table import EncodedTable
from synth.reading.asker import ask
from synth.reading.guess import ColumnKind, kind_by_name
from synth.reading.pipes import HASH_BYTES, ReaderLimits, Request
from synth.schema import Codes, ModelledColumn, Schema, TableFormat, code_dtype
from synth.schema.encoding import CellCounts

__all__ = ["Header", "ReaderLimits", "check_readable", "inspect_header", "read_codes"]

_NO_KEY = bytes(16)

MOST_LOOKS = max(4, 2 * (os.cpu_count() or 1))
"""Files that one process has looked at side by side; more would wait for the same cores, each with its own memory."""

_looks = threading.BoundedSemaphore(MOST_LOOKS)


@dataclass(frozen=True, slots=True)
class Header:
    """What a file says about its columns.

    ``kinds`` come from names and from the types of a Parquet file, and are None where neither tells; only a look at the
    cells, which the owner asks for, fills them all. ``n_rows`` and ``blank_lines`` are exact, so for the owner only;
    so is ``none_readable``, that no line of the text can be read as a row of this many cells.
    """

    names: tuple[str, ...]
    kinds: tuple[ColumnKind | None, ...]
    n_rows: int
    blank_lines: int = 0
    none_readable: bool = False


def read_codes(
    open_stream: Callable[[], BinaryIO],
    form: TableFormat,
    schema: Schema,
    *,
    undeclared: Literal["refuse", "drop"] = "refuse",
    limits: ReaderLimits | None = None,
    key: bytes = _NO_KEY,
) -> EncodedTable:
    """Read a table into codes.

    Parameters
    ----------
    open_stream : callable
        Opens the file; the stream is closed here. Where it can seek, Parquet is read by ranges and never held whole.
    form : TableFormat
        How cells are written.
    schema : Schema
        What is declared.
    undeclared : {"refuse", "drop"}
        What to do with a column that is not declared.
    limits : ReaderLimits, optional
        What is refused, and how much of the machine may be used.
    key : bytes
        Key of the hashes of unit ids, at most 64 bytes; kept with the account.

    Raises
    ------
    TableError
        If the file cannot be read as the declared table, in one sentence without a cell.
    """
    request = _request(form, schema, undeclared, limits=limits or ReaderLimits(), key=key)
    collected = _Collected(schema.modelled, with_hashes=schema.unit.id_column is not None)
    with open_stream() as stream:
        end = ask(stream, request, collected.add)
    return collected.table(end)


def check_readable(
    stream: BinaryIO,
    form: TableFormat,
    schema: Schema,
    *,
    undeclared: Literal["refuse", "drop"] = "refuse",
    limits: ReaderLimits | None = None,
) -> None:
    """Read a table to its end as :func:`read_codes` will, and keep nothing of it.

    What passes is not refused later: it is the same reading of the same bytes, with less time and memory.

    Raises
    ------
    TableError
        As :func:`read_codes` would.
    """
    ask(stream, _request(form, schema, undeclared, limits=limits or ReaderLimits(), key=_NO_KEY), lambda codes: None)


def _request(form: TableFormat, schema: Schema, undeclared: str, *, limits: ReaderLimits, key: bytes) -> Request:
    return Request(
        format=form,
        limits=limits,
        columns=schema.columns,
        id_column=schema.unit.id_column,
        drop_undeclared=undeclared == "drop",
        key=key,
    )


def inspect_header(
    stream: BinaryIO, form: TableFormat | None = None, *, limits: ReaderLimits | None = None, look: bool = False
) -> Header:
    """Read the names of a table's columns, and count its rows.

    Parameters
    ----------
    stream : binary file
        The bytes of the table.
    form : TableFormat, optional
        How it is written.
    limits : ReaderLimits, optional
        What is refused, and how much of the machine may be used.
    look : bool
        Guess kinds from cells as well; whoever asks for it records that the owner looked at private rows.

    Raises
    ------
    TableError
        If the file cannot be read to its end as a table, or its first line looks like a row.
    """
    request = Request(format=form or TableFormat(), limits=limits or ReaderLimits(), look=look)
    with _looks:
        end = ask(stream, request, None)
    names, rows = tuple(end["names"]), int(end["rows"])
    blank, unreadable = end["lines"]
    return Header(
        names=names,
        kinds=tuple(_kind(name, kind) for name, kind in zip(names, end["kinds"], strict=True)),
        n_rows=rows,
        blank_lines=blank,
        none_readable=rows > 0 and blank + unreadable == rows and len(names) > 1,
    )


def _kind(name: str, of_cells: ColumnKind | None) -> ColumnKind | None:
    """Return the guess from a name where it speaks of people or of free text, else that from type or cells."""
    by_name = kind_by_name(name)
    return by_name if by_name in {"identifier", "drop"} or of_cells is None else of_cells


class _Collected:
    """Batches of codes on their way to whole columns.

    Each column grows in one buffer that becomes the array: pieces put together at the end would need twice the memory.
    """

    def __init__(self, columns: tuple[ModelledColumn, ...], *, with_hashes: bool) -> None:
        self._columns = columns
        self._buffers = [bytearray() for _ in columns]
        self._hashes = bytearray() if with_hashes else None
        self._rows = 0

    def add(self, body: bytes) -> None:
        rows = int.from_bytes(body[:8], "little")
        self._rows += rows
        place, whole = 8, memoryview(body)
        for column, buffer in zip(self._columns, self._buffers, strict=True):
            kind = code_dtype(column.size)
            codes = np.frombuffer(body, dtype=kind, count=rows, offset=place)
            if codes.size and int(codes.max()) >= column.size:
                raise ValueError
            buffer += whole[place : place + rows * kind.itemsize]
            place += rows * kind.itemsize
        if self._hashes is not None:
            if len(whole) < place + rows * HASH_BYTES:
                raise ValueError
            self._hashes += whole[place : place + rows * HASH_BYTES]

    def table(self, end: dict[str, Any]) -> EncodedTable:
        if self._rows != end["rows"] or self._rows == 0:
            raise TableError("The table could not be read to its end. Try again.")
        codes: Codes = {
            column.name: np.frombuffer(buffer, dtype=code_dtype(column.size))
            for column, buffer in zip(self._columns, self._buffers, strict=True)
        }
        counts = {name: CellCounts(*values) for name, values in end["counts"].items()}
        hashes = None
        if self._hashes is not None:
            hashes = np.frombuffer(self._hashes, dtype=np.uint8).reshape(-1, HASH_BYTES)
        blank, unreadable = end["lines"]
        return EncodedTable(
            codes=codes,
            unit_hashes=hashes,
            n_rows=int(end["rows"]),
            counts=counts,
            blank_lines=int(blank),
            unreadable_lines=int(unreadable),
        )


if __name__ == "__main__":
    from synth.reading.process import main

    raise SystemExit(main())
