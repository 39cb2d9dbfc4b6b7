"""The parsing process: untrusted bytes in, codes out, with little memory, little time and nothing to say about cells.

It opens no file, writes no file, and prints nothing; whatever goes wrong inside leaves as one sentence of ours or as
a dead process.
"""

from __future__ import annotations

import hashlib
import io
import os
import resource
import sys
from dataclasses import astuple
from json import dumps
from typing import BinaryIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from synth.errors import InputError, TableError
from synth.reading.batches import Batches, open_batches
from synth.reading.file_bytes import open_bytes, size_text, too_large
from synth.reading.guess import describe_columns
from synth.reading.header import check_names, places_of
from synth.reading.pipes import HASH_BYTES, Request, read_exactly, read_request, write_frame
from synth.schema import modelled_columns
from synth.schema.encoding import CellCounts, encode_cells, texts_of

__all__ = ["main", "serve"]

NO_HEADER = (
    "The first line looks like a row, not like column names, so nothing of it is shown. If the table has no header, "
    "say so where you say how the file is written, with its separator and the list of names. If the line does hold the "
    "names, say the same and that one line is passed over (in a configuration: 'header: false', 'separator', 'names', "
    "'skip_rows')."
)


def main() -> int:
    """Read one request and its file from standard input, and answer on standard output."""
    answers = os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 1)
    os.dup2(nothing, 2)
    questions = sys.stdin.buffer
    request = read_request(questions)
    _limit_resources(request)
    serve(request, questions, answers)
    return 0


def serve(request: Request, questions: BinaryIO, answers: BinaryIO) -> None:
    """Answer one request with frames: batches and an end, or one sentence without a cell."""
    try:
        _answer(request, questions, answers)
    except InputError as error:
        _refuse(answers, type(error).__name__, str(error))
    except MemoryError:
        memory = size_text(request.limits.memory_bytes)
        _refuse(
            answers,
            "TableError",
            f"Reading the table needs more memory than the {memory} allowed. Save it as CSV, or as Parquet with "
            "smaller row groups.",
        )
    except Exception:  # its text may quote a cell
        _refuse(answers, "TableError", "The table could not be read. Save it as plain CSV and try again.")


def _limit_resources(request: Request) -> None:
    limits = request.limits
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_FSIZE, 0)
    _limit(resource.RLIMIT_CPU, limits.cpu_seconds)
    if sys.platform != "darwin":  # which knows this limit and refuses to set it
        _limit(resource.RLIMIT_AS, limits.memory_bytes)


def _limit(kind: int, most: int) -> None:
    _, hard = resource.getrlimit(kind)
    lowered = most if hard == resource.RLIM_INFINITY else min(most, hard)
    # The hard limit of processor time kills; a second above the soft one, so that its signal comes first.
    above = 1 if kind == resource.RLIMIT_CPU and lowered != hard else 0
    resource.setrlimit(kind, (lowered, lowered + above))


def _refuse(answers: BinaryIO, kind: str, sentence: str) -> None:
    write_frame(answers, b"E", dumps({"type": kind, "text": sentence}).encode())


def _answer(request: Request, questions: BinaryIO, answers: BinaryIO) -> None:
    asked = None if request.size is None else _AskedRanges(questions, answers, request.size)
    if asked is not None and asked.size() > request.limits.input_bytes:
        raise too_large("The file", request.limits.input_bytes)
    bytes_in = questions if asked is None else asked
    form = request.format
    first_is_row = not form.header and form.kind != "parquet"
    source = open_bytes(bytes_in, request.limits, first_is_row=first_is_row)
    batches = open_batches(source, request.format, request.limits, ranges=asked)
    if request.columns is None:
        _describe(request, batches, answers)
    else:
        _encode(request, batches, answers)


class _AskedRanges(io.RawIOBase):
    """A file of which the asker sends the ranges that are wanted, so that it is never held whole."""

    def __init__(self, questions: BinaryIO, answers: BinaryIO, size: int) -> None:
        super().__init__()
        self._questions = questions
        self._answers = answers
        self._size = size
        self._place = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._place, io.SEEK_END: self._size}[whence]
        self._place = start + offset
        return self._place

    def tell(self) -> int:
        return self._place

    def size(self) -> int:
        return self._size

    def read(self, size: int = -1) -> bytes:
        left = max(0, self._size - self._place)
        wanted = left if size < 0 else min(size, left)
        if wanted == 0:
            return b""
        write_frame(self._answers, b"R", self._place.to_bytes(8, "little"), wanted.to_bytes(8, "little"))
        data = read_exactly(self._questions, wanted)
        self._place += wanted
        return data


def _encode(request: Request, batches: Batches, answers: BinaryIO) -> None:
    columns = modelled_columns(request.columns or ())
    place_of = places_of(batches.names, request)
    wanted = [column.name for column in columns]
    if request.id_column is not None:
        wanted.append(request.id_column)
    counts = dict.fromkeys((column.name for column in columns), CellCounts())
    rows = 0
    form = request.format
    for batch in batches.read([place_of[name] for name in wanted]):
        here = len(batch.columns[0])
        rows += here
        parts = []
        for column, cells, malformed in zip(columns, batch.columns, batch.malformed, strict=False):
            encoded = encode_cells(column, cells, missing=form.missing, strip=form.strip)
            # A malformed cell arrives as null, and has the code of a missing one.
            counts[column.name] += encoded.counts + CellCounts(missing=-malformed, malformed=malformed)
            parts.append(encoded.codes.data.cast("B"))
        if request.id_column is not None:
            parts.append(_unit_hashes(batch.columns[-1], request).data.cast("B"))
        write_frame(answers, b"B", here.to_bytes(8, "little"), *parts)
    if rows == 0:
        raise TableError("The table has a header but no rows. Send the whole table.")
    body = {
        "rows": rows,
        "counts": {name: astuple(count) for name, count in counts.items()},
        "lines": _line_counts(batches),
    }
    write_frame(answers, b"Z", dumps(body).encode())


def _line_counts(batches: Batches) -> tuple[int, int]:
    """Return how many lines were blank, and how many unreadable; a Parquet file has none."""
    return (0, 0) if batches.text is None else (batches.text.blank, batches.text.unreadable)


def _unit_hashes(cells: pa.Array, request: Request) -> npt.NDArray[np.uint8]:
    """Return the keyed hash of each id, an array of shape (rows, HASH_BYTES); zeros where the id is missing."""
    array = cells if pa.types.is_dictionary(cells.type) else _as_written(cells).dictionary_encode()
    nothing = bytes(HASH_BYTES)
    hashes = [
        nothing
        if one is None
        else hashlib.blake2b(one, digest_size=HASH_BYTES, key=request.key, person=b"unit").digest()
        for one in _ids_of(array.dictionary, request)
    ]
    table = np.frombuffer(b"".join([*hashes, nothing]), dtype=np.uint8).reshape(-1, HASH_BYTES)
    index = pc.fill_null(array.indices.cast(pa.int64()), len(hashes)).to_numpy(zero_copy_only=False)
    chosen: npt.NDArray[np.uint8] = table[index]
    return chosen


def _is_bytes(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind))


def _as_written(cells: pa.Array) -> pa.Array:
    return cells if _is_bytes(cells.type) else texts_of(cells)


def _ids_of(cells: pa.Array, request: Request) -> list[bytes | None]:
    """Return the bytes that stand for each id, None where it is missing.

    Ids stored as bytes that are no text, as keys of a fixed length are, stand for themselves: made texts first, all
    bytes that are no UTF-8 would become the same character, and units one another's.
    """
    if pa.types.is_fixed_size_binary(cells.type):
        raw: list[bytes | None] = cells.to_pylist()
        return raw
    written = cells.to_pylist() if _is_bytes(cells.type) else [None] * len(cells)
    texts = texts_of(cells)
    if request.format.strip:
        texts = pc.utf8_trim_whitespace(texts)
    return [
        None
        if text is None or text in request.format.missing
        else text.encode()
        if one is None or _is_text(one)
        else one
        for text, one in zip(texts.to_pylist(), written, strict=True)
    ]


def _is_text(one: bytes) -> bool:
    try:
        one.decode()
    except UnicodeError:
        return False
    return True


def _describe(request: Request, batches: Batches, answers: BinaryIO) -> None:
    check_names(batches.names)
    seen = describe_columns(batches, request)
    if seen.first_is_row:
        raise TableError(NO_HEADER)
    body = {"names": batches.names, "kinds": seen.kinds, "rows": seen.rows, "lines": _line_counts(batches)}
    write_frame(answers, b"Z", dumps(body).encode())
