"""Private tables read into codes by a separate process: bytes go in over a pipe, codes come out.

The contract of this package: **the codes of line i follow from line i and from what is declared, and from nothing
else.** :mod:`synth.reading.text` says what a line is, :mod:`synth.schema.encoding` what a cell becomes.

The program itself never parses a table. A file that is broken, hostile or too large ends a process with little memory
and little time, and leaves one sentence that quotes no cell. No byte of the table is written to a disk.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from functools import partial
from json import loads
from typing import Any, BinaryIO, Literal, Self

import numpy as np
import numpy.typing as npt

from synth.errors import InputError, TableError
from synth.reading.request import HASH_BYTES, NO_ROWS, START_BYTES, Request, error_named, kind_of_start
from synth.schema import TYPED_KINDS, Codes, ModelledColumn, Schema, TableFormat, code_dtype
from synth.schema.columns.base import CellCounts, ReadingCounts
from synth.system.confined import Confined
from synth.system.conversation import Conversation
from synth.system.machine import cores
from synth.system.settings import ReaderLimits

__all__ = ["EncodedTable", "ask", "ask_parts", "counts_of", "parts_of", "read_codes", "request_of", "with_id"]

PART_BYTES = 2**24
"""A process more is started for so many bytes of a Parquet file; it takes half a second to start one."""

_PARSER = "synth.reading.process"

_AT_ONCE = threading.BoundedSemaphore(max(4, 2 * cores()))
"""Parsing processes of this process at a time; the others wait: each takes a second of a core to start."""

_NO_KEY = bytes(16)
_BROKEN_ANSWER = (EOFError, ValueError, KeyError, TypeError, BrokenPipeError)


# What comes out -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class EncodedTable:
    """The rows of a private table as codes; opaque, only for ``synth.privacy`` and the owner's door.

    Nothing in it is public, so no type checker accepts it as an array, and no linter allows its attributes to be used
    elsewhere. ``_unit_hashes`` has shape (n_rows, 16), the keyed hash of each row's id (zeros: no id), or is None
    without an id column. ``_reading`` tells the owner what became of lines and cells; it is None for codes that did not
    come from a file.
    """

    _codes: Codes
    _unit_hashes: npt.NDArray[np.uint8] | None
    _n_rows: int
    _reading: ReadingCounts | None = None


def with_id(unit_hashes: npt.NDArray[np.uint8]) -> npt.NDArray[np.bool_]:
    """Return which rows have an id; the hash of a missing id is all zeros."""
    has: npt.NDArray[np.bool_] = (unit_hashes != 0).any(axis=1)
    return has


def read_codes(
    open_stream: Callable[[], BinaryIO],
    form: TableFormat,
    schema: Schema,
    *,
    undeclared: Literal["refuse", "drop"] = "refuse",
    limits: ReaderLimits | None = None,
    key: bytes = _NO_KEY,
    processes: int = 1,
) -> EncodedTable:
    """Read a table into codes.

    Several processes read a part of the rows of a Parquet file each, and the parts are put together in their order: so
    the codes are the same, whatever the number of processes. What concerns several rows, such as those of one person,
    is decided later and elsewhere, of all rows together.

    Parameters
    ----------
    open_stream : callable
        Opens the file; the stream is closed here. If it can seek, Parquet is read by ranges and never held whole.
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
    processes : int
        How many processes may read; ``open_stream`` is called once for each.

    Raises
    ------
    TableError
        If the file cannot be read as the declared table, in one sentence that quotes no cell.
    """
    request = request_of(form, schema, undeclared=undeclared, limits=limits, key=key)
    collect = partial(_Collected, schema.modelled, with_hashes=schema.unit.id_column is not None)
    with open_stream() as stream:
        parts = parts_of(stream, form, processes)
        if parts == 1:
            collected = collect()
            return collected.table(ask(stream, request, collected.add))
    several = [collect() for _ in range(parts)]
    end = ask_parts(open_stream, request, [one.add for one in several])
    return _Collected.joined(several).table(end)


def parts_of(stream: BinaryIO, form: TableFormat, processes: int) -> int:
    """Return how many of several processes read a part of a table each; only Parquet is read in parts.

    Parameters
    ----------
    stream : binary file
        From its beginning, where it stays.
    form : TableFormat
    processes : int
        How many there may be.
    """
    if processes < 2 or not (form.header or form.kind in TYPED_KINDS) or not stream.seekable() or stream.tell() != 0:
        return 1
    is_parquet = kind_of_start(stream.read(START_BYTES)) == "parquet"
    size = stream.seek(0, os.SEEK_END)
    stream.seek(0)
    return max(1, min(processes, size // PART_BYTES)) if is_parquet else 1


def ask_parts(
    open_stream: Callable[[], BinaryIO],
    request: Request,
    on_batch: Sequence[Callable[[bytes], None] | None],
    *,
    parser: Sequence[str] = (_PARSER,),
) -> dict[str, Any]:
    """Run several parsing processes side by side, each over a part of the rows of one Parquet file.

    Parameters
    ----------
    open_stream : callable
        Opens the file, once for each process.
    request : Request
    on_batch : sequence of callable, or of None
        For each part, what is called with the body of each of its batches.
    parser : sequence of str
        As in :func:`ask`.

    Returns
    -------
    dict
        The last frames of all processes: numbers added up, the rest of the first.

    Raises
    ------
    TableError
        As :func:`ask`; or if the parts are not the whole table.
    """
    failures: list[BaseException] = []

    def watched(add: Callable[[bytes], None], body: bytes) -> None:
        if failures:  # this part is of no use any more
            raise TableError(_NOT_WHOLE)
        add(body)

    def read(number: int, stream: BinaryIO) -> dict[str, Any]:
        add, asked = on_batch[number], replace(request, part=(number, len(on_batch)))
        try:
            with stream:
                return ask(stream, asked, None if add is None else partial(watched, add), parser=parser)
        except BaseException as error:
            failures.append(error)
            raise

    # Opened one after the other: to open a table is a transaction.
    streams = [open_stream() for _ in on_batch]
    with ThreadPoolExecutor(len(streams)) as pool:
        try:
            futures = [pool.submit(read, number, stream) for number, stream in enumerate(streams)]
            wait(futures)
        except BaseException as error:
            failures.append(error)
            raise
    if failures:
        raise failures[0]
    return _added_up([future.result() for future in futures])


_NOT_WHOLE = "The table could not be read to its end. Try again."


def _added_up(ends: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    rows = sum(int(end["rows"]) for end in ends)
    # Every process says which part it read, of how many rows: one that is lost, or read twice, is noticed.
    parts = [tuple(end["part"]) for end in ends]
    if {end["of"] for end in ends} != {rows} or parts != [(part, len(ends)) for part in range(len(ends))]:
        raise TableError(_NOT_WHOLE)
    if rows == 0:
        raise TableError(NO_ROWS)
    names = ends[0]["counts"]
    counts = {name: [sum(some) for some in zip(*(end["counts"][name] for end in ends), strict=True)] for name in names}
    added = {name: sum(end[name] for end in ends) for name in ("without_id",) if name in ends[0]}
    return {**ends[0], "rows": rows, "counts": counts, **added}


def request_of(
    form: TableFormat, schema: Schema, *, undeclared: str, limits: ReaderLimits | None, key: bytes = _NO_KEY
) -> Request:
    """Return what a parsing process is asked in order to read a table as declared."""
    return Request(
        format=form,
        limits=limits or ReaderLimits(),
        columns=schema.columns,
        id_column=schema.unit.id_column,
        drop_undeclared=undeclared == "drop",
        key=key,
    )


def counts_of(end: Mapping[str, Any], *, without_id: int = 0) -> ReadingCounts:
    """Return what became of lines and cells, from the last frame of a parsing process."""
    blank, unreadable = end["lines"]
    cells = {name: CellCounts(*values) for name, values in end["counts"].items()}
    return ReadingCounts(int(end["rows"]), int(blank), unreadable, without_id, cells)


class _Collected:
    """Collects batches of codes into whole columns.

    Each column grows in one buffer that becomes the array: joining pieces at the end would need twice the memory.
    """

    def __init__(self, columns: tuple[ModelledColumn, ...], *, with_hashes: bool) -> None:
        self._columns = columns
        self._buffers = [bytearray() for _ in columns]
        self._hashes = bytearray() if with_hashes else None
        self.rows = 0

    def add(self, body: bytes) -> None:
        rows, place = int.from_bytes(body[:8], "little"), 8
        self.rows += rows
        for column, buffer in zip(self._columns, self._buffers, strict=True):
            codes = np.frombuffer(body, code_dtype(column.size), rows, place)
            if codes.size and int(codes.max()) >= column.size:
                raise ValueError
            buffer += codes.data
            place += codes.nbytes
        if self._hashes is not None:
            self._hashes += np.frombuffer(body, np.uint8, rows * HASH_BYTES, place).data

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """Return all parts in their order, which are empty afterwards, so that no more is held than before."""
        first, *others = parts
        for other in others:
            first.rows += other.rows
            for buffer, more in zip(first.every_buffer(), other.every_buffer(), strict=True):
                buffer += more
                more.clear()
        return first

    def every_buffer(self) -> list[bytearray]:
        """Return the buffers of all columns, and that of the hashes."""
        return self._buffers if self._hashes is None else [*self._buffers, self._hashes]

    def table(self, end: dict[str, Any]) -> EncodedTable:
        if self.rows != end["rows"] or self.rows == 0:
            raise TableError(_NOT_WHOLE)
        codes: Codes = {
            column.name: np.frombuffer(buffer, code_dtype(column.size))
            for column, buffer in zip(self._columns, self._buffers, strict=True)
        }
        hashes, without_id = None, 0
        if self._hashes is not None:
            hashes = np.frombuffer(self._hashes, np.uint8).reshape(-1, HASH_BYTES)
            without_id = int((~with_id(hashes)).sum())
        return EncodedTable(codes, hashes, self.rows, counts_of(end, without_id=without_id))


# Asking the process that parses ---------------------------------------------------------------------------------------


def ask(
    stream: BinaryIO,
    request: Request,
    on_batch: Callable[[bytes], None] | None,
    *,
    parser: Sequence[str] = (_PARSER,),
    beat: Callable[[], None] | None = None,
) -> dict[str, Any]:
    """Run a parsing process over a stream.

    Parameters
    ----------
    stream : binary file
        The bytes of the table. One that can seek serves a Parquet file by ranges.
    request : Request
        What to do with them. Where it has a size, ranges of the stream are served, whatever it holds.
    on_batch : callable, optional
        Called with the body of each batch, by default of codes.
    parser : sequence of str
        The module that parses, and its arguments.
    beat : callable, optional
        As in :class:`synth.system.confined.Confined`.

    Returns
    -------
    dict
        The last frame of the process.

    Raises
    ------
    TableError
        If the file cannot be read, takes too long or needs too much memory; in one sentence that quotes no cell.
    """
    limits, form = request.limits, request.format
    size = request.size
    if size is None and (form.header or form.kind in TYPED_KINDS):
        size = _size_of_typed(stream)
    with (
        _AT_ONCE,
        Confined(*parser, seconds=limits.wall_seconds, beat=beat) as process,
        Conversation(process, stream, size=size) as conversation,
    ):
        try:
            return _answer(conversation, replace(request, size=size), on_batch)
        except TimeoutError:
            raise TableError(
                f"Reading the table took longer than {limits.wall_seconds:,.0f} seconds and was stopped. Split the "
                "table, or save it as Parquet."
            ) from None
        except _BROKEN_ANSWER:
            raise _death(process, limits) from None


def _answer(conversation: Conversation, request: Request, on_batch: Callable[[bytes], None] | None) -> dict[str, Any]:
    conversation.ask(request.to_bytes())
    while True:
        kind, body = conversation.hear()
        if kind == b"B" and on_batch is not None:
            on_batch(body)
        elif kind == b"E":
            refusal = loads(body)
            raise error_named(refusal.pop("type"), refusal.pop("text"), **refusal)
        elif kind == b"Z":
            end: dict[str, Any] = loads(body)
            return end
        else:
            raise ValueError


def _size_of_typed(stream: BinaryIO) -> int | None:
    """Return the length of a file that can be read by ranges, else None; the stream stays at its start."""
    if not stream.seekable() or stream.tell() != 0:
        return None
    size = stream.seek(0, os.SEEK_END) if kind_of_start(stream.read(START_BYTES)) != "text" else None
    stream.seek(0)
    return size


def _death(process: Confined, limits: ReaderLimits) -> InputError:
    if process.used_up_its_time():
        return TableError(
            f"Reading the table took more than {limits.cpu_seconds:,} seconds of processor time and was stopped. Split "
            "the table, or save it as Parquet."
        )
    return TableError(
        "The table could not be read: the file is damaged, or needs more memory than is allowed. Save it as plain CSV "
        "and try again."
    )
