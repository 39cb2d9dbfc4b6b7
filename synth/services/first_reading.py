"""The reading of a table before anything is charged: whether it can be read as declared, and what would be lost.

It is no part of a run: nothing of it reaches one. What it counts is exact, so for the owner only; what it proposes
comes from a public list of ways in which numbers and dates are written, each tried on the lost cells at the top of the
table. It names a way of writing, never a cell. It reads in a process with limits, which is this module run as a
program.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import product
from json import dumps
from typing import Any, BinaryIO, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from synth.errors import ConfigError
from synth.reading.files import Batch, Batches
from synth.reading.process import encode_rows, main
from synth.reading.reader import ask, ask_parts, counts_of, parts_of, request_of
from synth.reading.request import HASH_BYTES, Request
from synth.reports.losses import (
    TOLD,
    Losses,
    counts_of_linked,
    counts_of_people,
    looked_at,
    losses_of,
    with_linked,
)
from synth.schema import (
    CategoryColumn,
    DateColumn,
    ModelledColumn,
    NumberColumn,
    PrivacyUnit,
    Schema,
    TableFormat,
    TimeColumn,
    code_dtype,
    modelled_columns,
)
from synth.schema.columns.base import LinkedCounts, PeopleCounts
from synth.schema.encoding import encode_cells
from synth.schema.schema import LEFT_ONLY, MERGE, RIGHT_ONLY
from synth.system.conversation import write_frame
from synth.system.settings import ReaderLimits

__all__ = ["answer_with_losses", "read_once"]

LOOKED_AT = 1_000
"""Rows at the top of a table on which other ways of writing are tried."""

MOST_ADVISED = 20
"""Columns for which other ways are tried, those that lose most: each takes up to half a second."""

MOST_WAYS = 3
"""Ways that are named where several read as many cells."""

_IN_PLACE = " in place of what the column declares itself"

_MARKS = (
    {"decimal": ","},
    {"thousands": ","},
    {"decimal": ",", "thousands": "."},
    {"thousands": " "},
    {"decimal": ",", "thousands": " "},
    {"thousands": "'"},
)
_UNITS = ("%", "€", "$", "£", "¥", "kg", "g", "cm", "mm", "m", "km", "h", "min")
_DATES = (
    "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%m-%d-%Y", "%Y/%m/%d", "%Y.%m.%d", "%Y%m%d", "%d.%m.%y",
    "%d/%m/%y", "%m/%d/%y", "%d %b %Y", "%d-%b-%Y", "%b %d, %Y", "%d %B %Y", "%B %d, %Y",
)  # fmt: skip
_HOURS = ("%H:%M", "%H:%M:%S", "%I:%M %p", "%I:%M:%S %p")
_TIMES = ("%I:%M %p", "%I:%M:%S %p", "%H.%M", "%H%M", "%Hh%M")
_ABSENT = ("NA", "N/A", "n/a", "NaN", "nan", "NULL", "null", "None", "none", "?", "-", "--", ".", "*", "#N/A")


def read_once(
    stream: BinaryIO | Callable[[], BinaryIO],
    form: TableFormat,
    schema: Schema,
    *,
    rules: Sequence[str] = (),
    undeclared: Literal["refuse", "drop"] = "refuse",
    limits: ReaderLimits | None = None,
    processes: int = 1,
) -> Losses:
    """Read a table to its end as a run will, and say what would be lost.

    What passes here is not refused later: it is the same reading of the same bytes, in less time and memory.

    Parameters
    ----------
    stream : binary file, or a callable that opens one
        The bytes of the table.
    form : TableFormat
        How cells are written.
    schema : Schema
        What is declared.
    rules : sequence of str
        The declared rules, of which those about people are looked at.
    undeclared : {"refuse", "drop"}
        What to do with a column that is not declared.
    limits : ReaderLimits, optional
        What is refused, and how much of the machine may be used.
    processes : int
        How many processes may read parts of a Parquet file that can be opened again, each; of people whose rows are
        kept together all rows are read by one.

    Raises
    ------
    TableError
        As :func:`synth.reading.reader.read_codes` would.
    """
    request = request_of(form, schema, undeclared=undeclared, limits=limits)
    if schema.people == "whole":
        request = replace(request, together=schema.unit, rules=tuple(rules), tables=schema.tables)
    end = _end_of(stream, request, processes)
    together = None if end["together"] is None else PeopleCounts(**end["together"])
    counts = replace(counts_of(end, without_id=int(end["without_id"])), together=together)
    if end["linked"] is not None:
        first, second = end["linked"].pop("keyless")
        counts = with_linked(counts, LinkedCounts(keyless=(first, second), **end["linked"]), schema)
    return losses_of(counts, schema, end["advice"])


def _end_of(stream: BinaryIO | Callable[[], BinaryIO], request: Request, processes: int) -> dict[str, Any]:
    parser = ("synth.services.first_reading",)
    if not callable(stream):
        return ask(stream, request, None, parser=parser)
    with stream() as opened:
        parts = parts_of(opened, request.format, processes if request.together is None else 1)
        if parts == 1:
            return ask(opened, request, None, parser=parser)
    return ask_parts(stream, request, [None] * parts, parser=parser)


# In the parsing process -----------------------------------------------------------------------------------------------


def answer_with_losses(request: Request, batches: Batches, answers: BinaryIO) -> None:
    """Encode every row, pass none on, and send what was counted and what would read most of the lost cells."""
    columns = modelled_columns(request.columns)
    top: list[pa.Array] = []
    people = None if request.together is None else _People(request, request.together)
    without_id = 0

    def remembered(places: Any) -> Iterator[Batch]:
        for batch in batches.read(places):
            if not top:
                top.extend(cells.slice(0, LOOKED_AT) for cells in batch.columns)
            yield batch

    def count_ids(rows: bytes, *parts: Any) -> None:
        nonlocal without_id
        if request.id_column is not None:
            hashes = np.frombuffer(parts[-1], np.uint8).reshape(int.from_bytes(rows, "little"), HASH_BYTES)
            nobodys = (hashes == 0).all(axis=1)
            without_id += int(nobodys.sum())
            if people is not None:
                people.add(hashes, parts, ~nobodys)

    end = encode_rows(request, replace(batches, read=remembered), count_ids)
    together = None if people is None else asdict(people.counts())
    linked = None if people is None or request.tables is None else asdict(people.linked())
    advice = dict(_advice(columns, top, request.format))
    end |= {"without_id": without_id, "together": together, "linked": linked, "advice": advice}
    write_frame(answers, b"Z", dumps(end).encode())


class _People:
    """Collects, batch by batch, the few codes that say whether people whose rows are kept together are as declared."""

    def __init__(self, request: Request, unit: PrivacyUnit) -> None:
        self._schema = Schema(request.columns, unit=unit, people="whole", tables=request.tables)
        self._rules, self._linked = request.rules, request.tables is not None
        wanted = {*looked_at(self._schema, request.rules), *((MERGE.name,) if self._linked else ())}
        places = enumerate(self._schema.modelled)
        self._columns = {column.name: (place, column) for place, column in places if column.name in wanted}
        self._ids: list[NDArray[np.uint64]] = []
        self._codes: dict[str, list[NDArray[Any]]] = {name: [] for name in self._columns}
        self._keyless = np.zeros(len(MERGE.values), dtype=np.int64)

    def add(self, hashes: NDArray[np.uint8], parts: Sequence[Any], somebodys: NDArray[np.bool_]) -> None:
        """Keep a batch: the first half of the hash of each id is enough to tell people apart."""
        self._ids.append(np.ascontiguousarray(hashes[somebodys, :8]).view(np.uint64).reshape(-1))
        for name, (place, column) in self._columns.items():
            codes = np.frombuffer(parts[place], code_dtype(column.size))
            self._codes[name].append(codes[somebodys])
            if self._linked and name == MERGE.name:
                self._keyless += np.bincount(codes[~somebodys], minlength=len(self._keyless))

    def counts(self) -> PeopleCounts:
        """Count."""
        columns = {name: np.concatenate(codes) for name, codes in self._codes.items()}
        merge = columns[MERGE.name] if self._linked else None
        return counts_of_people(np.concatenate(self._ids), columns, self._schema, self._rules, merge=merge)

    def linked(self) -> LinkedCounts:
        """Count how two tables fit together."""
        keyless = (int(self._keyless[LEFT_ONLY]), int(self._keyless[RIGHT_ONLY]))
        return counts_of_linked(np.concatenate(self._ids), np.concatenate(self._codes[MERGE.name]), keyless=keyless)


def _advice(columns: Sequence[ModelledColumn], top: Sequence[pa.Array], form: TableFormat) -> Iterator[tuple[str, str]]:
    """Yield what would read most of the lost cells of a column, by its name, for the columns that lose most."""
    cells_of = {column.name: cells.drop_null() for column, cells in zip(columns, top, strict=False)}
    lost = {column.name: _lost(column, cells_of[column.name], form) for column in columns if column.name in cells_of}
    worst = sorted((name for name in lost if lost[name] > TOLD * len(cells_of[name])), key=lambda name: -lost[name])
    for column in (column for column in columns if column.name in worst[:MOST_ADVISED]):
        words = _advice_on(column, cells_of[column.name], lost[column.name], form)
        if words is not None:
            yield column.name, words


@dataclass(frozen=True, slots=True)
class _Way:
    """Another way in which the cells of a column may be written: what it declares, and the words that declare it."""

    said: frozenset[tuple[str, Any]]
    words: str
    column: ModelledColumn
    form: TableFormat


def _advice_on(column: ModelledColumn, cells: pa.Array, lost: int, form: TableFormat) -> str | None:
    """Return what reads most of the lost cells; where several ways read as many, all of them are named."""
    best, found = lost // 2, list[_Way]()
    for way in _ways(column, form):
        left = _lost(way.column, cells, way.form)
        if left > best or (left == best and any(one.said <= way.said for one in found)):
            continue
        found = [*(found if left == best else []), way]
        best = left
    return " or ".join(way.words for way in found[:MOST_WAYS]) or None


def _lost(column: ModelledColumn, cells: pa.Array, form: TableFormat) -> int:
    counts = encode_cells(column, cells, **form.of_cells).counts
    return counts.malformed + counts.outside


def _ways(column: ModelledColumn, form: TableFormat) -> Iterator[_Way]:
    """Yield what may be declared instead, the simplest first."""
    if column.missing_code is not None:
        for text in _ABSENT:
            missing = (*form.missing, text)
            words = f"--format {_typed('missing', ','.join(missing))}"
            yield _Way(frozenset({("missing", text)}), words, column, replace(form, missing=missing))
    if isinstance(column, NumberColumn):
        own = "" if not column.notation else _IN_PLACE
        plain = replace(column, decimal=None, thousands=None, units=())
        yield from _of_formats(_notations(), plain, form, own)
    elif isinstance(column, DateColumn | TimeColumn):
        own = "" if column.pattern is None else _IN_PLACE
        patterns = _DATES if isinstance(column, DateColumn) else _TIMES
        with_hours = (f"{day} {hour}" for day, hour in product(_DATES, _HOURS))
        said = ({"dates": (pattern,)} for pattern in (*patterns, *with_hours))
        yield from _of_formats(said, replace(column, pattern=None), form, own)
    elif isinstance(column, CategoryColumn):
        words = "other capitals: list these spellings under 'aliases'"
        yield _Way(frozenset({("aliases", "")}), words, _in_any_capitals(column), form)


def _notations() -> Iterator[dict[str, Any]]:
    yield from _MARKS
    for unit in _UNITS:
        yield {"units": (unit,)}
    for mark, unit in product(_MARKS, _UNITS):
        yield {**mark, "units": (unit,)}


def _of_formats(many: Iterable[dict[str, Any]], column: ModelledColumn, form: TableFormat, own: str) -> Iterator[_Way]:
    for said in many:
        try:
            other = replace(form, **said)
        except ConfigError:  # the same sign for decimals and thousands
            continue
        typed = (_typed(key, value[0] if isinstance(value, tuple) else value) for key, value in said.items())
        words = " ".join(f"--format {one}" for one in typed)
        yield _Way(frozenset(said.items()), f"{words}{own}", column, other)


def _typed(key: str, value: str) -> str:
    """Return a key and its value as they are typed in a shell."""
    plain = all(sign.isalnum() or sign in ",.%:/-" for sign in value)
    return f"{key}={value}" if plain else f"'{key}={value}'"


def _in_any_capitals(column: CategoryColumn) -> CategoryColumn:
    known = {*column.values, *(spelling for spelling, _ in column.aliases)}
    more: dict[str, str] = {}
    for value in column.values:
        for spelling in (value.lower(), value.upper(), value.capitalize(), value.title()):
            if spelling not in known:
                more.setdefault(spelling, value)
    return replace(column, aliases=(*column.aliases, *more.items()))


if __name__ == "__main__":
    raise SystemExit(main(answer_with_losses))
