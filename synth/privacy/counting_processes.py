"""Local processes that count a part of the rows each: sums of whole numbers, which add up to the same sums exactly.

What a part adds to a table of counts is as private as the rows. It is sent through a pipe to the session's own process,
added up there before any noise is drawn, once, and never kept, written or shown: no engine of jobs, file or database
sees it. The codes lie in memory that has no name and that only these processes can open; they write no file, and end
with the session's table.

Which rows belong to a part is their place alone. So nothing may be counted here that concerns several rows: which rows
of a person count, and on which side of the split, was decided before, of all rows together.

This module is also the program of such a process.
"""

from __future__ import annotations

import json
import mmap
import os
import sys
import threading
import weakref
from itertools import pairwise
from typing import TYPE_CHECKING, Any, BinaryIO, NoReturn

import numpy as np
from numpy.typing import NDArray

from synth.errors import JobError, PrivacyError
from synth.privacy.counting import MANY_ROWS, Wanted, count_pieces
from synth.system.confined import Confined, answers_alone, confine
from synth.system.conversation import read_frame, write_frame

if TYPE_CHECKING:
    from synth.schema import Codes

__all__ = ["CountingProcesses", "can_share", "main", "parts_of_rows"]

_MEMORY_BYTES = 2**31
_SECONDS = 24 * 24 * 3600
"""How long a process may live: the longest that a system waits for an answer."""

_LOST = "A process that counts rows has ended. The run cannot go on; start it again."
_WRONG = "The parts of a count are not the whole table. The run cannot go on; start it again."


# The session's process ------------------------------------------------------------------------------------------------


def can_share() -> bool:
    """Whether this system has memory without a name that processes can share (Linux has)."""
    return hasattr(os, "memfd_create")


def parts_of_rows(rows: int, parts: int) -> tuple[tuple[int, int], ...]:
    """Return the first row of each part, and the first behind its last: parts follow each other, about as long.

    Examples
    --------
    >>> parts_of_rows(10, 3)
    ((0, 3), (3, 6), (6, 10))
    """
    edges = [rows * part // parts for part in range(parts + 1)]
    return tuple(pairwise(edges))


class CountingProcesses:
    """The codes of one table in shared memory, and the processes that count a part of its rows each.

    Parameters
    ----------
    columns : Codes
        The codes of every column; each is replaced by one in shared memory, so that no more is held than before.
    processes : int
        How many, at least two. They are started when something is counted for the first time.
    """

    __slots__ = ("__weakref__", "_columns", "_descriptors", "_finalizer", "_lock", "_parts", "_rows", "_started")

    def __init__(self, columns: Codes, processes: int) -> None:
        self._lock = threading.Lock()
        self._descriptors: list[int] = []
        self._columns: list[tuple[str, str]] = []
        self._rows = len(next(iter(columns.values())))
        self._parts = parts_of_rows(self._rows, processes)
        self._started: list[Confined] = []
        self._finalizer = weakref.finalize(self, _end, self._started, self._descriptors)
        for name in list(columns):
            codes = columns.pop(name)
            columns[name] = self._shared(name, codes)

    def _shared(self, name: str, codes: NDArray[Any]) -> NDArray[Any]:
        descriptor = os.memfd_create("codes", os.MFD_CLOEXEC)
        self._descriptors.append(descriptor)
        os.ftruncate(descriptor, max(1, codes.nbytes))
        held = np.frombuffer(mmap.mmap(descriptor, max(1, codes.nbytes)), codes.dtype, len(codes))
        held[:] = codes
        held.flags.writeable = False
        self._columns.append((name, codes.dtype.str))
        return held

    def counts(self, wanted: Wanted) -> list[NDArray[np.int32]] | None:
        """Return tables of counts of all rows, or None where they are about a column that is not shared.

        Raises
        ------
        JobError
            If a process has ended, or the parts are not the whole.
        """
        if not {name for name, _ in self._columns}.issuperset(wanted.columns):
            return None
        # One question at a time: the answers of a process have an order.
        with self._lock:
            try:
                if not self._started:
                    self._start()
                for process in self._started:
                    _ask(process.questions, wanted)
                parts = [_answer(process, wanted) for process in self._started]
            except (EOFError, OSError, TimeoutError, ValueError):
                raise JobError(_LOST) from None
        totals = [np.zeros(cells, dtype=np.int32) for cells in wanted.cells]
        counted = 0
        for (first, end), part in parts:
            # A part that is lost, or counted twice, does not pass.
            if first != counted:
                raise JobError(_WRONG)
            counted = end
            for total, more in zip(totals, part, strict=True):
                total += more
        if counted != self._rows or any(int(total.sum(dtype=np.int64)) != self._rows for total in totals):
            raise JobError(_WRONG)
        return totals

    def _start(self) -> None:
        held = zip(self._columns, self._descriptors, strict=True)
        columns = [[name, descriptor, dtype] for (name, dtype), descriptor in held]
        for rows in self._parts:
            process = Confined(__name__, seconds=_SECONDS, shared=self._descriptors)
            self._started.append(process)
            told = {"columns": columns, "rows": rows, "many": self._rows > MANY_ROWS}
            write_frame(process.questions, b"Q", json.dumps(told).encode())

    def close(self) -> None:
        """End the processes, and forget the shared memory; the codes stay as long as somebody holds them."""
        self._finalizer()

    def __repr__(self) -> str:
        return "<CountingProcesses: counts are not shown>"

    def __reduce__(self) -> NoReturn:
        raise PrivacyError("Processes that count private rows cannot be copied, pickled or sent to another process.")


def _end(started: list[Confined], descriptors: list[int]) -> None:
    for process in started:
        process.__exit__(None, None, None)
    started.clear()
    for descriptor in descriptors:
        os.close(descriptor)
    descriptors.clear()


def _ask(questions: BinaryIO, wanted: Wanted) -> None:
    head = {
        "columns": wanted.columns,
        "sizes": wanted.sizes,
        "lookups": [None if one is None else [one.dtype.str, len(one)] for one in wanted.lookups],
        "tables": wanted.tables,
    }
    told = json.dumps(head).encode()
    tables = [np.ascontiguousarray(one).data.cast("B") for one in wanted.lookups if one is not None]
    write_frame(questions, b"T", len(told).to_bytes(8, "little"), told, *tables)


def _answer(process: Confined, wanted: Wanted) -> tuple[tuple[int, int], list[NDArray[np.int32]]]:
    """Return which rows a process counted, and its counts."""
    kind, body = read_frame(process)
    cells = wanted.cells
    if kind != b"B" or len(body) != 16 + 4 * sum(cells):
        raise ValueError
    counted = int.from_bytes(body[:8], "little"), int.from_bytes(body[8:16], "little")
    return counted, np.split(np.frombuffer(body, np.int32, offset=16), np.cumsum(cells)[:-1])


# A process that counts ------------------------------------------------------------------------------------------------


def main() -> int:
    """Read which rows to count, then one question after the other, and answer with counts, until the pipe is closed."""
    answers, questions = answers_alone(), sys.stdin.buffer
    told = json.loads(read_frame(questions)[1])
    columns = {name: _mapped(descriptor, dtype) for name, descriptor, dtype in told["columns"]}
    first, end = told["rows"]
    many: bool = told["many"]
    confine(memory_bytes=_MEMORY_BYTES, cpu_seconds=_SECONDS)
    while True:
        try:
            _, body = read_frame(questions)
        except EOFError:
            return 0
        totals = count_pieces(columns, _wanted(body), (first, end), many=many)
        counted = (place.to_bytes(8, "little") for place in (first, end))
        write_frame(answers, b"B", *counted, *(total.data.cast("B") for total in totals))


def _mapped(descriptor: int, dtype: str) -> NDArray[Any]:
    size = os.fstat(descriptor).st_size
    return np.frombuffer(mmap.mmap(descriptor, size, prot=mmap.PROT_READ), np.dtype(dtype))


def _wanted(body: bytes) -> Wanted:
    length = int.from_bytes(body[:8], "little")
    head, place = json.loads(body[8 : 8 + length]), 8 + length
    lookups: list[NDArray[Any] | None] = []
    for told in head["lookups"]:
        lookups.append(None if told is None else np.frombuffer(body, np.dtype(told[0]), told[1], place))
        place += 0 if told is None else lookups[-1].nbytes  # type: ignore[union-attr]
    tables = tuple(map(tuple, head["tables"]))
    return Wanted(tuple(head["columns"]), tuple(head["sizes"]), tuple(lookups), tables)


if __name__ == "__main__":
    raise SystemExit(main())
