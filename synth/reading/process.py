"""The parsing process: untrusted bytes in, codes out, with little memory, little time and nothing to say about cells.

It opens no file, writes no file, and prints nothing; if anything goes wrong inside, it answers with one sentence of
ours, or dies.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Sequence
from dataclasses import astuple, replace
from functools import partial
from json import dumps
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from synth.errors import InputError, TableError
from synth.names import composed
from synth.reading.files import Batches, holds_text, open_batches
from synth.reading.request import HASH_BYTES, NO_ROWS, Request
from synth.schema import ModelledColumn, modelled_columns
from synth.schema.columns.base import CellCounts
from synth.schema.encoding import CellEncoder, composed_texts, is_bytes, texts_of
from synth.schema.header import places_of
from synth.schema.stored import refuse_type
from synth.system.confined import answers_alone, confine
from synth.system.conversation import AskedRanges, read_frame, write_frame
from synth.system.settings import size_text, too_large

__all__ = ["Answer", "Work", "answer_with_codes", "encode_rows", "ids_in", "main", "serve", "work", "work_confined"]

Answer = Callable[[Request, Batches, BinaryIO], None]
"""The answer about a file that was opened, including its last frame."""


Work = Callable[[Request, BinaryIO, BinaryIO], None]
"""The answer to a request about the bytes that follow it, including its last frame."""


def main(answer: Answer | None = None) -> int:
    """Read one request and its file from standard input, and answer on standard output, by default with codes."""
    return work_confined(partial(_answer_about_batches, answer or answer_with_codes))


def work_confined(asked: Work) -> int:
    """Confine this process, read one request from standard input, and work on it."""
    answers, questions = answers_alone(), sys.stdin.buffer
    request = Request.from_bytes(read_frame(questions)[1])
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    confine(memory_bytes=request.limits.memory_bytes, cpu_seconds=request.limits.cpu_seconds)
    work(request, questions, answers, asked)
    return 0


def serve(request: Request, questions: BinaryIO, answers: BinaryIO, answer: Answer | None = None) -> None:
    """Answer one request about the batches of a file."""
    work(request, questions, answers, partial(_answer_about_batches, answer or answer_with_codes))


def _answer_about_batches(answer: Answer, request: Request, questions: BinaryIO, answers: BinaryIO) -> None:
    answer(request, _opened(request, questions, answers), answers)


def work(request: Request, questions: BinaryIO, answers: BinaryIO, asked: Work) -> None:
    """Answer one request with frames: batches and an end, or one sentence that quotes no cell."""
    try:
        asked(request, questions, answers)
    except InputError as error:
        _refuse(answers, type(error).__name__, str(error), **error.mended)
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


def _refuse(answers: BinaryIO, kind: str, sentence: str, **mended: object) -> None:
    write_frame(answers, b"E", dumps({"type": kind, "text": sentence, **mended}).encode())


def _opened(request: Request, questions: BinaryIO, answers: BinaryIO) -> Batches:
    limits = request.limits
    if request.size is None:
        return open_batches(questions, request.format, limits, ranges=None)
    if request.size > limits.input_bytes:
        raise too_large("The file", limits.input_bytes)
    asked = AskedRanges(questions, answers, request.size)
    return open_batches(asked, request.format, limits, ranges=asked, part=request.part)


KEPT_TEXTS = 2**19
"""Texts whose codes are kept, of all columns together; that changes no code."""


# Cells to codes -------------------------------------------------------------------------------------------------------


def answer_with_codes(request: Request, batches: Batches, answers: BinaryIO) -> None:
    """Send the codes of every batch of rows, and at the end the numbers of rows, odd lines and odd cells."""
    end = encode_rows(request, batches, lambda *parts: write_frame(answers, b"B", *parts))
    write_frame(answers, b"Z", dumps(end).encode())


def encode_rows(request: Request, batches: Batches, pass_on: Callable[..., None]) -> dict[str, Any]:
    """Encode every batch of rows, and pass on the number of its rows, their codes and the hashes of their ids.

    Returns
    -------
    dict
        The numbers of rows, odd lines and odd cells, and which part of how many rows this is.

    Raises
    ------
    TableError
        If the file is not the declared table, or has no rows.
    """
    columns = modelled_columns(request.columns)
    place_of = places_of(batches.names, request.columns, drop_undeclared=request.drop_undeclared)
    wanted = [column.name for column in columns]
    if request.id_column is not None:
        wanted.append(request.id_column)
    if batches.types is not None:
        named = set(wanted)
        for declared in (one for one in request.columns if one.name in named):
            refuse_type(declared.name, batches.types[place_of[declared.name]], declared)
    counts = dict.fromkeys((column.name for column in columns), CellCounts())
    rows = 0
    like = _declared_alike(columns)
    kept = KEPT_TEXTS // max(1, len(like))
    encoders = [CellEncoder(columns[places[0]], kept=kept, **request.format.of_cells) for places in like]
    for batch in batches.read([place_of[name] for name in wanted]):
        here = len(batch.columns[0])
        rows += here
        parts = [memoryview(b"")] * len(columns)
        for places, encoder in zip(like, encoders, strict=True):
            for place, encoded in zip(places, encoder.encode([batch.columns[one] for one in places]), strict=True):
                # A malformed cell arrives as null, with the code of a missing one.
                malformed = batch.malformed[place]
                counts[columns[place].name] += encoded.counts + CellCounts(missing=-malformed, malformed=malformed)
                parts[place] = encoded.codes.data.cast("B")
        if request.id_column is not None:
            parts.append(_unit_hashes(batch.columns[-1], request).data.cast("B"))
        pass_on(here.to_bytes(8, "little"), *parts)
        del batch, encoded, parts  # so that they need not be held while the next is read
    if rows == 0 and request.part == (0, 1):
        raise TableError(NO_ROWS)
    return {
        "rows": rows,
        "counts": {name: astuple(count) for name, count in counts.items()},
        "lines": batches.odd_lines,
        "of": rows if batches.rows is None else batches.rows,
        "part": request.part,
    }


def _declared_alike(columns: Sequence[ModelledColumn]) -> list[list[int]]:
    """Return the places of columns whose cells become the same codes: those that are declared alike."""
    like: dict[ModelledColumn, list[int]] = {}
    for place, column in enumerate(columns):
        like.setdefault(replace(column, name="like", description=""), []).append(place)
    return list(like.values())


# Ids to hashes --------------------------------------------------------------------------------------------------------


def ids_in(cells: pa.Array, request: Request) -> tuple[list[bytes | None], npt.NDArray[np.int64]]:
    """Return the bytes of each distinct id, None where it is missing, and the place of each row's id among them.

    A row without an id has the place behind the last.
    """
    if pa.types.is_dictionary(cells.type) and len(cells.dictionary) > len(cells):
        # Parquet hands out the ids of a whole row group with every piece of it; each would be read again and again.
        cells = cells.dictionary_decode()
    if not pa.types.is_dictionary(cells.type):
        cells = (cells if is_bytes(cells.type) else texts_of(cells)).dictionary_encode()
    ids = _ids_of(cells.dictionary, request)
    places: npt.NDArray[np.int64] = pc.fill_null(cells.indices.cast(pa.int64()), len(ids)).to_numpy(
        zero_copy_only=False
    )
    return ids, places


def _unit_hashes(cells: pa.Array, request: Request) -> npt.NDArray[np.uint8]:
    """Return the keyed hash of each id, an array of shape (rows, HASH_BYTES); zeros where the id is missing."""
    ids, places = ids_in(cells, request)
    nothing = bytes(HASH_BYTES)
    hashes = [
        nothing
        if one is None
        else hashlib.blake2b(one, digest_size=HASH_BYTES, key=request.key, person=b"unit").digest()
        for one in ids
    ]
    table = np.frombuffer(b"".join([*hashes, nothing]), dtype=np.uint8).reshape(-1, HASH_BYTES)
    chosen: npt.NDArray[np.uint8] = table[places]
    return chosen


def _ids_of(cells: pa.Array, request: Request) -> list[bytes | None]:
    """Return the bytes that identify each id, None where it is missing.

    Ids stored as bytes that are not text, such as keys of a fixed length, are hashed as they are: as text, all bytes
    that are not UTF-8 would become the same character, and units would be merged.
    """
    if pa.types.is_fixed_size_binary(cells.type):
        raw: list[bytes | None] = cells.to_pylist()
        return raw
    written = cells.to_pylist() if is_bytes(cells.type) else [None] * len(cells)
    texts = composed_texts(texts_of(cells))
    if request.format.strip:
        texts = pc.utf8_trim_whitespace(texts)
    missing = set(map(composed, request.format.missing))
    return [
        None if text is None or text in missing else text.encode() if one is None or holds_text(one) else one
        for text, one in zip(texts.to_pylist(), written, strict=True)
    ]


if __name__ == "__main__":
    raise SystemExit(main())
