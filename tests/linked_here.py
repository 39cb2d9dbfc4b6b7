"""Two tables joined in the process of a test, where bugs can be planted, and read into codes; and the same by hand."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from json import loads
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, BinaryIO

import numpy as np
import pytest
from reading_here import read_here

from synth.reading import files, reader, text
from synth.reading.more import linked
from synth.reading.process import work
from synth.reading.reader import EncodedTable, read_codes
from synth.reading.request import Request, error_named
from synth.schema import Column, LinkedTables, PrivacyUnit, Schema, TableFormat
from synth.schema.schema import BOTH, LEFT_ONLY, MERGE, RIGHT_ONLY
from synth.services import linked as service
from synth.services.linked import form_of_joined, joined_rows
from synth.system.conversation import read_frame
from synth.system.settings import ReaderLimits

__all__ = ["KEY", "TABLES", "Row", "by_hand", "here", "in_small_pieces", "joined", "rows_joined"]

TABLES = LinkedTables("patients", "visits", "patient")
KEY = b"the key of an account in a test!"

Row = tuple[tuple[int, ...], bytes]
"""The codes of a joined row, in the order of the schema, and the hash of its id; zeros where it has none."""


class _Ranges(io.BytesIO):
    """A range of the bytes of both files."""

    def __init__(self, questions: io.BytesIO, answers: BinaryIO, size: int, *, start: int = 0) -> None:
        super().__init__(questions.getvalue()[start : start + size])


def _ask_here(
    stream: BinaryIO, request: Request, on_batch: Callable[[bytes], object], *, parser: Sequence[str]
) -> dict[str, Any]:
    """Stand in for :func:`synth.reading.reader.ask`: the same bytes in, the same frames out."""
    assert tuple(parser) == ("synth.reading.more.linked",)
    whole = b"".join(iter(lambda: stream.read(1000), b""))
    answers = io.BytesIO()
    work(Request.from_bytes(request.to_bytes()), io.BytesIO(whole), answers, linked.answer_with_joined)
    answers.seek(0)
    while True:
        kind, body = read_frame(answers)
        if kind == b"E":
            refusal = loads(body)
            raise error_named(refusal["type"], refusal["text"])
        if kind == b"Z":
            end: dict[str, Any] = loads(body)
            return end
        on_batch(body)


@contextmanager
def here() -> Iterator[pytest.MonkeyPatch]:
    """Join and read in this process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(service, "ask", _ask_here)
        patch.setattr(linked, "AskedRanges", _Ranges)
        patch.setattr(reader, "ask", read_here)
        yield patch


def in_small_pieces(patch: pytest.MonkeyPatch, *, rows: int) -> None:
    """Read and write a few rows at a time, so that a small table has many batches."""
    patch.setattr(text, "CHUNK", 16 * rows)
    patch.setattr(files, "GATHERED_ROWS", rows)
    patch.setattr(files, "GATHERED_PIECES", 2)
    patch.setattr(files, "BATCH_ROWS", rows)
    patch.setattr(linked, "GROUP_ROWS", 2 * rows)


def joined(
    first: bytes,
    second: bytes,
    form: TableFormat | None = None,
    *,
    tables: LinkedTables = TABLES,
    limits: ReaderLimits | None = None,
    declared: Sequence[Column] = (),
    drop_undeclared: bool = False,
) -> bytes:
    """Return the bytes of the joined table."""
    with (
        TemporaryDirectory() as folder,
        joined_rows(
            (io.BytesIO(first), io.BytesIO(second)),
            tables,
            form or TableFormat(),
            directory=Path(folder),
            limits=limits or ReaderLimits(),
            declared=declared,
            drop_undeclared=drop_undeclared,
        ) as stream,
    ):
        return stream.read()


def rows_joined(first: bytes, second: bytes, schema: Schema, form: TableFormat | None = None) -> list[Row]:
    """Return the rows of two files as the program reads them."""
    form = form or TableFormat()
    data = joined(first, second, form, declared=schema.columns)
    return _rows(_codes(data, schema, form_of_joined(form)), schema)


def _codes(data: bytes, schema: Schema, form: TableFormat) -> EncodedTable:
    return read_codes(lambda: io.BytesIO(data), form, schema, key=KEY)


def _rows(table: EncodedTable, schema: Schema) -> list[Row]:
    assert table._unit_hashes is not None
    codes = np.column_stack([table._codes[name].astype(np.int64) for name in schema.names])
    return [(tuple(row), bytes(one)) for row, one in zip(codes.tolist(), table._unit_hashes, strict=True)]


# By hand --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Alone:
    """One of the files, read for itself: the codes of each column, and the hash of each row's id."""

    codes: dict[str, list[int]]
    ids: list[bytes]


def by_hand(first: bytes, second: bytes, schema: Schema, form: TableFormat | None = None) -> list[Row]:
    """Return the rows that two files have to give, from what each gives for itself."""
    form = form or TableFormat()
    own = [one for one in schema.modelled if one.name in schema.unit.same_in_all_rows]
    by_row = [one for one in schema.modelled if one not in (*own, MERGE)]
    patients, visits = (_alone(data, columns, schema, form) for data, columns in ((first, own), (second, by_row)))
    nobody = bytes(16)
    where: dict[bytes, int] = {}
    further = []
    for row, one in enumerate(patients.ids):
        if one == nobody or where.setdefault(one, row) != row:
            further.append(row)

    def row_of(patient: int | None, visit: int | None, one: bytes, merge: int) -> Row:
        codes = {
            **{c.name: patients.codes[c.name][patient] if patient is not None else c.unreadable_code for c in own},
            **{c.name: visits.codes[c.name][visit] if visit is not None else c.unreadable_code for c in by_row},
            MERGE.name: merge,
        }
        return tuple(codes[name] for name in schema.names), one

    found = [
        row_of(where[one], visit, one, BOTH) if one in where else row_of(None, visit, one, RIGHT_ONLY)
        for visit, one in enumerate(visits.ids)
    ]
    alone = sorted([*further, *(row for one, row in where.items() if one not in set(visits.ids))])
    return [*found, *(row_of(row, None, patients.ids[row], LEFT_ONLY) for row in alone)]


def _alone(data: bytes, columns: Sequence[Column], schema: Schema, form: TableFormat) -> _Alone:
    id_column = schema[schema.unit.id_column or ""]
    unit = PrivacyUnit(schema.unit.protects, schema.unit.rows_per_unit, id_column.name)
    own = replace(schema, columns=(id_column, *columns), unit=unit, people="separate_rows", tables=None)
    try:
        table = _codes(data, own, form)
    except Exception as refusal:
        assert "no rows" in str(refusal)  # noqa: PT017
        return _Alone({column.name: [] for column in columns}, [])
    assert table._unit_hashes is not None
    return _Alone({name: codes.tolist() for name, codes in table._codes.items()}, list(map(bytes, table._unit_hashes)))
