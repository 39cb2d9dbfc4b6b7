"""A small table in every kind of file, and two ways to read it: by the parsing process, and as it does."""

from __future__ import annotations

import csv
import datetime
import io
from collections.abc import Mapping
from json import loads
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from synth.reading.process import serve
from synth.reading.reader import EncodedTable, read_codes
from synth.reading.request import Request, error_named
from synth.schema import (
    CategoryColumn,
    DateColumn,
    DropColumn,
    IdentifierColumn,
    NumberColumn,
    PrivacyUnit,
    Schema,
    TableFormat,
)
from synth.services.inspection import describe
from synth.system.conversation import read_frame
from synth.system.settings import ReaderLimits

CANARY = "Zanzibar-7391846"
"""Stands in cells of every kind; must stand nowhere else."""

SCHEMA = Schema(
    (
        IdentifierColumn("who"),
        NumberColumn("age", 0, 120, 1, missing=True),
        CategoryColumn("town", ("Ayr", "Bath, Avon", "São Paulo"), other=True, missing=True),
        DateColumn("seen", datetime.date(2020, 1, 1), datetime.date(2024, 12, 31), missing=True),
        DropColumn("notes"),
    ),
    PrivacyUnit("person", 2, "who"),
)
HEADER = ["who", "age", "town", "seen", "notes"]
ROWS = [
    [CANARY, "47", "Ayr", "2021-03-04", f"said {CANARY}"],
    ["b", "", "Bath, Avon", "", "two; lines"],
    [CANARY, "300", CANARY, CANARY, 'a "word"'],
    ["", CANARY, "São Paulo", "1066-10-14", ""],
]
AGES, TOWNS, DAYS = [47, 121, 120, 121], [0, 1, 3, 2], [428, 1827, 1827, 0]


def as_text(
    separator: str = ",",
    *,
    header: bool = True,
    end: str = "\n",
    quoting: int = csv.QUOTE_MINIMAL,
    backwards: bool = False,
) -> str:
    target = io.StringIO()
    writer = csv.writer(target, delimiter=separator, lineterminator=end, quoting=quoting)
    for row in [HEADER, *ROWS] if header else ROWS:
        writer.writerow(row[::-1] if backwards else row)
    return target.getvalue()


def as_parquet(table: pa.Table | None = None, **options: object) -> bytes:
    target = io.BytesIO()
    pq.write_table(
        pa.table(dict(zip(HEADER, zip(*ROWS, strict=True), strict=True))) if table is None else table, target, **options
    )
    return target.getvalue()


PLAIN = as_text().encode()


class Endless(io.RawIOBase):
    """A table without an end, of rows that compress to nothing."""

    def __init__(self, block: bytes, start: bytes = b"") -> None:
        super().__init__()
        self._start = start
        self._block = block

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        if self._start:
            data, self._start = self._start[:size], self._start[size:]
            return data
        return self._block[:size]


class Unseekable(io.BytesIO):
    """Bytes that come past once, as from a socket."""

    def seekable(self) -> bool:
        return False


def read(
    data: bytes | BinaryIO, form: TableFormat | None = None, schema: Schema = SCHEMA, **options: object
) -> EncodedTable:
    """Read through the parsing process."""
    stream = io.BytesIO(data) if isinstance(data, bytes) else data
    return read_codes(lambda: stream, form or TableFormat(), schema, **options)


def served(
    data: bytes | BinaryIO,
    form: TableFormat | None = None,
    schema: Schema | None = SCHEMA,
    *,
    limits: ReaderLimits | None = None,
    drop_undeclared: bool = False,
) -> dict[str, object]:
    """Read as the parsing process does, in this one: quicker, with the same frames and the same sentences."""
    answers = io.BytesIO()
    request = Request(
        format=form or TableFormat(),
        limits=limits or ReaderLimits(),
        columns=() if schema is None else schema.columns,
        id_column=None if schema is None else schema.unit.id_column,
        drop_undeclared=drop_undeclared,
    )
    request = Request.from_bytes(request.to_bytes())
    answer = None if schema is not None else describe
    serve(request, io.BytesIO(data) if isinstance(data, bytes) else data, answers, answer)
    answers.seek(0)
    bodies = []
    while True:
        kind, body = read_frame(answers)
        if kind == b"E":
            assert not answers.read()
            raise error_named(**{"name": loads(body)["type"], "text": loads(body)["text"]})
        if kind == b"Z":
            return {**loads(body), "bodies": bodies}
        bodies.append(body)


def codes_of(result: dict[str, object], widths: tuple[int, ...] = (1, 1, 2)) -> list[list[int]]:
    columns: list[list[int]] = [[] for _ in widths]
    for body in result["bodies"]:
        rows, place = int.from_bytes(body[:8], "little"), 8
        for column, width in zip(columns, widths, strict=True):
            column += np.frombuffer(body, f"u{width}", rows, place).tolist()
            place += rows * width
    return columns


NO_HEADER: Mapping[str, Any] = {"header": False, "names": tuple(HEADER), "separator": ","}
