"""Two tables that belong together, joined in a separate process and passed on as the bytes of one Parquet file.

The contract: **a row of the joined table follows from rows of one key and from what is declared, and from nothing
else.** It is a row of the second table beside the first row of the first table with its key; or a row of the first
table alone, if the second has no row of its key, or if it is not the first with its key. A row without a key stands
alone. :data:`synth.schema.schema.MERGE` says which it is. Keys are compared as ids are: two rows get the same key here
if and only if they get the same unit where the joined table is read.

Cells are not changed. Each gets the code that it would get in its own file: a text stays that text, and a typed cell
keeps its type. The first table is held in memory, the second is read batch by batch; nothing is written to a disk.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from json import dumps
from typing import BinaryIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from synth.errors import TableError
from synth.names import composed, shown
from synth.reading.files import Batches, open_batches
from synth.reading.more.frames import GROUP_BYTES, GROUP_ROWS, Frames
from synth.reading.process import ids_in, work_confined
from synth.reading.request import START_BYTES, Request, kind_of_start
from synth.schema.encoding import is_bytes, is_text, texts_of
from synth.schema.header import check_names
from synth.schema.schema import BOTH, LEFT_ONLY, MERGE, RIGHT_ONLY
from synth.schema.stored import refuse
from synth.system.conversation import AskedRanges, write_frame
from synth.system.settings import size_text, too_large

__all__ = ["answer_with_joined", "main"]

_TEXTS = pa.dictionary(pa.int32(), pa.string())
"""How texts are written: one that is repeated in many rows is stored once in each group."""

_HELD_TEXTS = pa.dictionary(pa.int32(), pa.large_string())
"""How texts of the first table are held: all different ones of a column may be longer than 2 GB."""

_SECONDS = {b"ARROW:extension:name": b"pandas.period", b"ARROW:extension:metadata": b'{"freq": "s"}'}
"""What says that whole numbers are moments in seconds, which Parquet has no type for."""

_FURTHEST_DAY = 366 * 10**4
"""Days from 1970 that are beyond every calendar."""


def main() -> int:
    """Read one request about two files from standard input, and answer on standard output."""
    return work_confined(answer_with_joined)


def answer_with_joined(request: Request, questions: BinaryIO, answers: BinaryIO) -> None:
    """Send the file of the joined table in pieces, and at the end how many rows it has.

    Raises
    ------
    TableError
        If one of the files cannot be read, has no key, or has a column that the other has too.
    """
    tables, size = request.tables, request.size
    if tables is None or size is None:
        raise ValueError
    ranges = (
        AskedRanges(questions, answers, request.second_at),
        AskedRanges(questions, answers, size - request.second_at, start=request.second_at),
    )
    sizes = (request.second_at, size - request.second_at)
    first, second = map(_opened, (tables.first, tables.second), ranges, sizes, (request, request))
    first, second = _renamed(first, second, request)
    first, second = (_chosen(one, tables.key, request) for one in (first, second))
    _check_together(first, second, request)
    key = _key_type(first, second)
    fields = (pa.field(tables.key, key), *first.fields, *second.fields, pa.field(MERGE.name, _TEXTS))
    written = _Written(pa.schema(fields), Frames(answers, request.limits), request)
    with written.writer:
        for columns in _joined(_held(first, second, key, request), second, key, request):
            written.add(columns)
        written.end()
    write_frame(answers, b"Z", dumps({"rows": written.rows}).encode())


# The two files --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Side:
    """One of the two tables.

    ``names`` are those of all of its columns. ``key`` is the place of the key among them, ``places`` are those of the
    other columns that are joined, and ``fields`` say how these are written.
    """

    table: str
    batches: Batches
    names: tuple[str, ...]
    key: int = -1
    places: tuple[int, ...] = ()
    fields: tuple[pa.Field, ...] = ()

    def type_of(self, place: int) -> pa.DataType | None:
        """Return the type that a typed file declares for a column, None for texts."""
        return None if self.batches.types is None else self.batches.types[place]

    def read(self) -> Iterator[list[pa.Array]]:
        """Yield batches of the columns to join, and of the key as the last."""
        with _naming(self.table):
            for batch in self.batches.read([*self.places, self.key]):
                yield [*map(_as_written, batch.columns[:-1], self.fields), batch.columns[-1]]


@contextmanager
def _naming(table: str) -> Iterator[None]:
    """Say of which table a refusal speaks."""
    try:
        yield
    except TableError as refusal:
        raise TableError(f"'{table}': {refusal}", **refusal.mended) from None


def _opened(table: str, ranges: AskedRanges, size: int, request: Request) -> _Side:
    with _naming(table):
        if size > request.limits.input_bytes:
            raise too_large("The file", request.limits.input_bytes)
        typed = kind_of_start(ranges.read(START_BYTES)) != "text"
        ranges.seek(0)
        form = replace(request.format, rename=())
        batches = open_batches(ranges, form, request.limits, ranges=ranges if typed else None)
    return _Side(table, batches, batches.names)


def _renamed(first: _Side, second: _Side, request: Request) -> tuple[_Side, _Side]:
    """Give columns of both tables their other names; each name that is listed has to be that of a column of one."""
    rename, there = dict(request.format.rename), {*first.names, *second.names}
    unknown = next((name for name, other in rename.items() if name not in there and other not in there), None)
    if unknown is not None:
        raise TableError(f"'rename' lists '{shown(unknown)}', but neither table has such a column. Take it out.")
    new = (replace(one, names=tuple(rename.get(name, name) for name in one.names)) for one in (first, second))
    return next(new), next(new)


def _chosen(side: _Side, key: str, request: Request) -> _Side:
    """Return a table with the columns to join: all that are declared, or that nobody said to drop."""
    # The key first: a line that has this name in it holds names, which may then be quoted.
    place = next((place for place, name in enumerate(side.names) if composed(name) == composed(key)), None)
    if place is None:
        raise TableError(
            f"'{side.table}' has no column '{shown(key)}', which is the key of both tables. Check its name; the first "
            "line of each file must hold the names."
        )
    with _naming(side.table):
        check_names(side.names, declared=side.names)
        places = tuple(at for at, name in enumerate(side.names) if at != place and _is_wanted(name, request))
        fields = tuple(_field(side.names[at], side.type_of(at)) for at in places)
    return replace(side, key=place, places=places, fields=fields)


def _is_wanted(name: str, request: Request) -> bool:
    if not request.columns:
        return True
    declared = [
        column
        for column in request.columns
        if composed(name) in {composed(column.name), composed(column.printed_name), composed(column.cells_in)}
    ]
    return any(column.is_printed for column in declared) if declared else not request.drop_undeclared


def _check_together(first: _Side, second: _Side, request: Request) -> None:
    """Refuse two tables that share a column beside the key, or have more columns than are read."""
    of_first = {composed(field.name) for field in first.fields}
    for field in second.fields:
        if composed(field.name) in of_first:
            raise TableError(
                f"Both '{first.table}' and '{second.table}' have a column '{shown(field.name)}'. Rename it in one of "
                "the files: only the key has the same name in both."
            )
    for side in (first, second):
        if any(composed(field.name) == MERGE.name for field in side.fields):
            raise TableError(
                f"'{side.table}' has a column '{MERGE.name}', which is the name of the one that says where a row comes "
                "from. Rename it in the file."
            )
    count = len(first.fields) + len(second.fields) + 2
    if count > request.limits.columns:
        raise request.limits.too_many_columns(count)


# Cells as they are written --------------------------------------------------------------------------------------------


def _field(name: str, kind: pa.DataType | None) -> pa.Field:
    """Return how cells of a type are written, so that they are read again as cells of that type."""
    types = pa.types
    if kind is not None and types.is_dictionary(kind):
        kind = kind.value_type
    if kind is None or is_text(kind) or types.is_null(kind):
        return pa.field(name, _TEXTS)
    if types.is_date64(kind):
        return pa.field(name, pa.date32())
    if types.is_timestamp(kind) and kind.unit == "s":
        if kind.tz is not None:
            refuse(name, "times in seconds with a time zone. Save them in milliseconds")
        return pa.field(name, pa.int64(), metadata=_SECONDS)
    return pa.field(name, kind)


def _as_written(cells: pa.Array, field: pa.Field) -> pa.Array:
    """Return cells of a batch as :func:`_field` says; a cell follows from that cell alone."""
    if field.type == _TEXTS:
        return _texts(cells, _TEXTS)
    if pa.types.is_dictionary(cells.type):
        cells = cells.dictionary_decode()
    if pa.types.is_date64(cells.type):
        days = np.clip(_whole(cells) // 86_400_000, -_FURTHEST_DAY, _FURTHEST_DAY).astype(np.int32)
        return pa.array(days, pa.int32(), mask=_nulls(cells)).view(pa.date32())
    return cells.view(field.type) if field.metadata else cells


def _texts(cells: pa.Array, kind: pa.DictionaryType) -> pa.Array:
    """Return texts as a dictionary of a type, without those that no cell has."""
    if pa.types.is_null(cells.type):
        cells = cells.cast(pa.string())
    if not pa.types.is_dictionary(cells.type):
        cells = cells.dictionary_encode()
    if len(cells.dictionary) > len(cells):
        used = cells.indices.dictionary_encode()
        cells = pa.DictionaryArray.from_arrays(used.indices, cells.dictionary.take(used.dictionary))
    return pa.DictionaryArray.from_arrays(cells.indices.cast(kind.index_type), cells.dictionary.cast(kind.value_type))


def _whole(cells: pa.Array) -> npt.NDArray[np.int64]:
    whole: npt.NDArray[np.int64] = cells.view(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    return whole


def _nulls(cells: pa.Array) -> npt.NDArray[np.bool_]:
    nulls: npt.NDArray[np.bool_] = cells.is_null().to_numpy(zero_copy_only=False)
    return nulls


# The key --------------------------------------------------------------------------------------------------------------


def _key_type(first: _Side, second: _Side) -> pa.DataType:
    """Return the one type in which keys of both tables are written: texts, or bytes where one of them has bytes."""
    one, other = (_kind_of_key(side) for side in (first, second))
    if pa.types.is_fixed_size_binary(one) or pa.types.is_fixed_size_binary(other):
        if one != other:
            raise TableError(
                f"The key of '{first.table}' and that of '{second.table}' are stored in different ways: bytes of one "
                "length are never the same as a text. Save both as text."
            )
        return one
    return pa.binary() if is_bytes(one) or is_bytes(other) else _TEXTS


def _kind_of_key(side: _Side) -> pa.DataType:
    kind = side.type_of(side.key)
    return _TEXTS if kind is None else kind.value_type if pa.types.is_dictionary(kind) else kind


def _key_as_written(cells: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return the cells of a key in the type of both: the same ids, however they are stored."""
    if pa.types.is_dictionary(cells.type) and not (kind == _TEXTS and is_text(cells.type.value_type)):
        cells = cells.dictionary_decode()
    if kind == _TEXTS:
        return _texts(cells if pa.types.is_dictionary(cells.type) else texts_of(cells), _TEXTS)
    return cells if cells.type == kind else (cells if is_bytes(cells.type) else texts_of(cells)).cast(kind)


# The join -------------------------------------------------------------------------------------------------------------


def _held(first: _Side, second: _Side, key: pa.DataType, request: Request) -> _Held:
    try:
        return _Held(first, key, request)
    except MemoryError:
        raise TableError(
            f"'{first.table}' is held in memory while '{second.table}' is read, and needs more than the "
            f"{size_text(request.limits.memory_bytes)} allowed. Leave out columns that you do not need (type: drop)."
        ) from None


class _Held:
    """The first table, held in memory as columns, and which of its ``rows`` stands beside which key."""

    def __init__(self, side: _Side, key: pa.DataType, request: Request) -> None:
        self._types = [*(field.type for field in side.fields), key]
        chunks: list[list[pa.Array]] = [[] for _ in self._types]
        self._row_of: dict[bytes, int] = {}
        self.rows = 0
        for *columns, keys in side.read():
            self._number(*ids_in(keys, request))
            for held, cells in zip(chunks, (*columns, _key_as_written(keys, key)), strict=True):
                held.append(_texts(cells, _HELD_TEXTS) if pa.types.is_dictionary(cells.type) else cells)
            self.rows += len(keys)
        self._columns: list[pa.Array] = []
        for kind in self._types:
            of_column = pa.chunked_array(chunks.pop(0), _HELD_TEXTS if kind == _TEXTS else kind)
            self._columns.append(of_column.unify_dictionaries().combine_chunks())
            del of_column  # so that the pieces need not be held while the next column is joined

    def _number(self, ids: Sequence[bytes | None], places: npt.NDArray[np.int64]) -> None:
        """Note the first row of each key among those that come next."""
        known = [*ids, None]
        for row, place in enumerate(places.tolist(), start=self.rows):
            one = known[place]
            if one is not None:
                self._row_of.setdefault(one, row)

    def rows_beside(self, ids: Sequence[bytes | None], places: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return the row that stands beside each row of the other table, -1 where there is none."""
        row_of = self._row_of.get
        found = np.array([*(-1 if one is None else row_of(one, -1) for one in ids), -1], dtype=np.int64)
        return found[places]

    def taken(self, rows: npt.NDArray[np.int64]) -> list[pa.Array]:
        """Return the columns of some rows, and their key as the last; null where a row is -1."""
        places = pa.array(rows, mask=rows < 0)
        taken = (cells.take(places) for cells in self._columns)
        return [_texts(some, _TEXTS) if kind == _TEXTS else some for kind, some in zip(self._types, taken, strict=True)]


def _joined(held: _Held, second: _Side, key: pa.DataType, request: Request) -> Iterator[list[pa.Array]]:
    """Yield the columns of the joined table, some rows at a time."""
    # A row without a key, and each that is not the first with its key, stands beside none.
    has_row = np.zeros(held.rows, dtype=bool)
    for *columns, keys in second.read():
        beside = held.rows_beside(*ids_in(keys, request))
        has_row[beside[beside >= 0]] = True
        *of_first, _ = held.taken(beside)
        merge = np.where(beside >= 0, BOTH, RIGHT_ONLY)
        yield [_key_as_written(keys, key), *of_first, *columns, _merge(merge)]
    left = np.flatnonzero(~has_row)
    for start in range(0, len(left), GROUP_ROWS):
        rows = left[start : start + GROUP_ROWS]
        *of_first, keys = held.taken(rows)
        nothing = [pa.nulls(len(rows), field.type) for field in second.fields]
        yield [keys, *of_first, *nothing, _merge(np.full(len(rows), LEFT_ONLY))]


def _merge(codes: npt.NDArray[np.int64]) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(codes, pa.int32()), pa.array(MERGE.values, pa.string()))


class _Written:
    """The joined table as a Parquet file: rows are gathered into groups, whatever the batches in which they come."""

    def __init__(self, schema: pa.Schema, target: Frames, request: Request) -> None:
        self._schema, self._limits = schema, request.limits
        self._gathered: list[pa.RecordBatch] = []
        self._size = self._count = 0
        self.rows = 0
        self.writer = pq.ParquetWriter(target, schema)

    def add(self, columns: list[pa.Array]) -> None:
        """Add some rows."""
        batch = pa.record_batch(columns, schema=self._schema)
        self._gathered.append(batch)
        self._count += batch.num_rows
        self._size += batch.nbytes
        self.rows += batch.num_rows
        if self.rows > self._limits.rows:
            raise self._limits.too_many_rows()
        if self._count >= GROUP_ROWS or self._size >= GROUP_BYTES:
            self.end()

    def end(self) -> None:
        """Write the rows that were gathered."""
        if self._count:
            group = pa.Table.from_batches(self._gathered, self._schema).unify_dictionaries()
            self.writer.write_table(group.combine_chunks(), row_group_size=self._count)
        self._gathered, self._size, self._count = [], 0, 0


if __name__ == "__main__":
    raise SystemExit(main())
