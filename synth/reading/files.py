"""A file of any kind as batches of columns: its bytes are recognised, unpacked and counted, then read in batches.

Messages of pyarrow quote cells, so none is ever shown, kept or logged: each failure becomes a sentence of ours.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from io import BytesIO, RawIOBase
from itertools import zip_longest
from typing import BinaryIO, cast

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet

from synth.errors import TableError
from synth.names import shown
from synth.reading.more.arrow import ArrowFile
from synth.reading.more.fixed import FixedTable
from synth.reading.more.several import files_in, pieces_of_part
from synth.reading.more.statistical import Described, StatisticalFile
from synth.reading.more.workbooks import Workbook
from synth.reading.request import START_BYTES, kind_of_start
from synth.reading.text import TextTable
from synth.schema import STATISTICAL_KINDS, TYPED_KINDS, TableFormat
from synth.schema.encoding import is_bytes, is_text
from synth.schema.header import KNOWN_BY, public_names, refuse_another_kind, refuse_other_files
from synth.schema.stored import plain, plain_type, refuse_type
from synth.system.conversation import Readable
from synth.system.settings import ReaderLimits, too_large

__all__ = ["Batch", "Batches", "Counted", "holds_text", "open_batches", "open_bytes"]

CHUNK = 2**20
"""Bytes read at a time."""

BATCH_ROWS = 65_536
"""Most rows of a file of Parquet or Arrow at a time."""

BATCH_CELLS = 3 * 2**22
"""Most cells of such a file at a time."""

GATHERED_ROWS, GATHERED_PIECES = 2**14, 4
"""Pieces of a text or a workbook are gathered up to so many rows, or pieces, and then encoded together.

Of many columns a piece has few rows, and a column takes as long for few cells as for thousands.
"""

_UNSUPPORTED = (pa.ArrowNotImplementedError, NotImplementedError)
_BROKEN = (pa.ArrowException, OSError, ValueError, KeyError, IndexError, TypeError, OverflowError, UnicodeError)


class Counted:
    """A source that fails when it has given more than ``limit`` bytes, and that can be peeked into."""

    def __init__(self, source: Readable, limit: int, what: str) -> None:
        self._source = source
        self._left = limit
        self._too_large = too_large(what, limit)
        self._ahead = b""

    def read(self, size: int) -> bytes:
        """Return at most ``size`` bytes; none at the end."""
        if self._ahead:
            data, self._ahead = self._ahead[:size], self._ahead[size:]
            return data
        data = self._source.read(size)
        self._left -= len(data)
        if self._left < 0:
            raise self._too_large
        return data

    def peek(self, size: int) -> bytes:
        """Return the next ``size`` bytes (fewer at the end) and leave them to be read."""
        while len(self._ahead) < size:
            held, self._ahead = self._ahead, b""
            more = self.read(CHUNK)
            self._ahead = held + more
            if not more:
                break
        return self._ahead[:size]


class _Gunzip:
    """The bytes inside a gzip file of any number of members."""

    def __init__(self, source: Readable) -> None:
        self._inside = gzip.GzipFile(fileobj=cast(BinaryIO, source), mode="rb")  # which only reads it

    def read(self, size: int) -> bytes:
        try:
            return self._inside.read(size)
        except (gzip.BadGzipFile, EOFError, zlib.error):
            raise TableError(
                "The gzip file is damaged or cut short. Compress the table again and send the whole file."
            ) from None


def open_bytes(source: Readable, limits: ReaderLimits, *, first_is_row: bool) -> Counted:
    """Return the bytes of a file, decompressed where it is gzip.

    Where the file may begin with a row, only gzip is recognised by its first bytes: others may belong to a cell.
    """
    raw = _not_empty(Counted(source, limits.input_bytes, "The file"))
    if raw.peek(2) == b"\x1f\x8b":
        raw = _not_empty(Counted(_Gunzip(raw), limits.text_bytes, "The table inside the gzip file"))
    if not first_is_row:
        refuse_other_files(raw.peek(KNOWN_BY))
    return raw


def _not_empty(source: Counted) -> Counted:
    if not source.peek(1):
        raise TableError("The file is empty. Send a table with a header and rows.")
    return source


# Batches of columns ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Batch:
    """Some rows: a pyarrow array for each requested column, and how many of its nulls are malformed cells."""

    columns: list[pa.Array]
    malformed: list[int]


@dataclass(frozen=True, slots=True)
class Batches:
    """An opened file: its column names, the types that a typed file declares, and a way to read chosen columns.

    ``read(places)`` yields batches with a column for each place in that order. ``text`` is the table if it is a
    delimited text, and counts its lines. ``given`` are the names as they are in the file, which may be blank or
    repeated. ``described`` is what a file of SPSS, Stata or SAS says about its columns. ``rows`` is how many rows a
    file of Parquet says it has, in all its parts.
    """

    names: tuple[str, ...]
    types: tuple[pa.DataType, ...] | None
    read: Callable[[Sequence[int]], Iterator[Batch]]
    text: TextTable | FixedTable | None = None
    given: tuple[str, ...] = ()
    described: tuple[Described, ...] = ()
    rows: int | None = None

    @property
    def odd_lines(self) -> tuple[int, dict[str, int]]:
        """How many lines were blank, and how many unreadable, by the reason; a Parquet file has none."""
        if self.text is None:
            return 0, {}
        return self.text.blank, {reason: count for reason, count in self.text.unreadable.items() if count}


def open_batches(
    source: Readable,
    form: TableFormat,
    limits: ReaderLimits,
    *,
    ranges: RawIOBase | None,
    part: tuple[int, int] = (0, 1),
) -> Batches:
    """Open a file of any kind.

    Parameters
    ----------
    source : Readable
        The bytes of the file in order.
    form : TableFormat
        How cells are written.
    limits : ReaderLimits
        What is refused.
    ranges : binary file, optional
        The same file with random access, if it is not compressed; Parquet is then read without holding all of it.
    part : (int, int)
        Of the rows of a Parquet file only this part, from 0, of so many; other kinds are read whole.

    Raises
    ------
    TableError
        If the file is empty, of an unsupported kind, or not a table, in one sentence.
    """
    # In a text without a header the first bytes may belong to a row, and say nothing about the kind.
    first_is_row = not form.header and form.kind not in TYPED_KINDS
    content = open_bytes(source, limits, first_is_row=first_is_row)
    found = "text" if first_is_row else kind_of_start(content.peek(START_BYTES))
    refuse_another_kind(found, form.kind)
    typed = _TYPED.get(found)
    of_text = _open_fixed if form.fields else _open_text
    if part != (0, 1):
        if found != "parquet":
            raise ValueError
        typed = partial(_open_parquet, part=part)
    opened = of_text(content, form, limits) if typed is None else typed(ranges or _in_memory(content), form, limits)
    named = public_names(opened.names, dict(form.rename)) if form.header and opened.types is None else opened.names
    return replace(opened, names=named, given=opened.names, read=lambda places: _counted(opened.read(places), limits))


def _counted(batches: Iterator[Batch], limits: ReaderLimits) -> Iterator[Batch]:
    """Pass batches on until there are too many rows, so that every reader applies the same limit."""
    rows = 0
    for batch in batches:
        rows += len(batch.columns[0])
        if rows > limits.rows:
            raise limits.too_many_rows()
        yield batch
        del batch  # so that it need not be held while the next is read


def _open_text(source: Counted, form: TableFormat, limits: ReaderLimits) -> Batches:
    table = TextTable(source, form, limits)

    def pieces(places: Sequence[int]) -> Iterator[_Piece]:
        for columns, malformed in table.batches(places):
            lines = int(malformed.sum())
            yield columns, [lines] * len(columns)

    return Batches(names=table.names, types=None, read=lambda places: _gathered(pieces(places), limits), text=table)


_Piece = tuple[list[pa.Array], list[int]]
"""Some rows: an array for each column, and how many of its nulls are malformed cells."""


def _gathered(pieces: Iterator[_Piece], limits: ReaderLimits) -> Iterator[Batch]:
    """Join pieces until they have enough rows; how they were cut changes no cell."""
    held: list[_Piece] = []
    for piece in pieces:
        held.append(piece)
        if len(held) == GATHERED_PIECES or sum(len(columns[0]) for columns, _ in held) >= GATHERED_ROWS:
            yield _joined(held, limits)
            held = []
    if held:
        yield _joined(held, limits)


def _joined(pieces: Sequence[_Piece], limits: ReaderLimits) -> Batch:
    malformed = list(map(sum, zip(*(counts for _, counts in pieces), strict=True)))
    whole = []
    for place in range(len(malformed)):
        whole.append(pa.concat_arrays([columns[place] for columns, _ in pieces]))
        for columns, _ in pieces:
            columns[place] = None  # which is not needed a second time, and may be large
    return _checked(whole, malformed, limits)


def _open_fixed(source: Counted, form: TableFormat, limits: ReaderLimits) -> Batches:
    table = FixedTable(source, form)

    def read(places: Sequence[int]) -> Iterator[Batch]:
        for columns, malformed in table.batches(places):
            yield _checked(columns, [malformed] * len(columns), limits)

    return Batches(names=table.names, types=None, read=read, text=table)


def _checked(columns: Sequence[pa.Array], malformed: Sequence[int], limits: ReaderLimits) -> Batch:
    """Return a batch in which a cell that is too long, or not UTF-8 text, is null and counted as malformed."""
    checked = [_without_odd_cells(cells, limits) for cells in columns]
    return Batch(
        [cells for cells, _ in checked], [more + odd for more, (_, odd) in zip(malformed, checked, strict=True)]
    )


def _without_odd_cells(cells: pa.Array, limits: ReaderLimits) -> tuple[pa.Array, int]:
    if pa.types.is_dictionary(cells.type):
        values, _ = _without_odd_cells(cells.dictionary, limits)
        if values is cells.dictionary:
            return cells, 0
        decoded = values.take(cells.indices)
        return decoded, decoded.null_count - cells.null_count
    if not is_text(cells.type) and not is_bytes(cells.type):
        return cells, 0
    if cells.nbytes <= limits.cell_bytes and (is_bytes(cells.type) or _is_utf8(cells)):
        return cells, 0  # none can be too long
    odd = pc.greater(pc.binary_length(cells), limits.cell_bytes)
    if is_text(cells.type) and not _is_utf8(cells):
        readable = [cell is None or holds_text(cell) for cell in cells.cast(_bytes_like(cells.type)).to_pylist()]
        odd = pc.or_(odd, pa.array([not good for good in readable]))
    count = pc.sum(odd).as_py() or 0
    return (pc.if_else(pc.fill_null(odd, False), pa.scalar(None, cells.type), cells), count) if count else (cells, 0)


def _is_utf8(cells: pa.Array) -> bool:
    try:
        cells.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _bytes_like(kind: pa.DataType) -> pa.DataType:
    return pa.large_binary() if pa.types.is_large_string(kind) else pa.binary()


def holds_text(cell: bytes) -> bool:
    """Whether bytes are text in UTF-8."""
    try:
        cell.decode()
    except UnicodeError:
        return False
    return True


def _in_memory(source: Counted) -> BytesIO:
    whole = BytesIO()
    whole.writelines(iter(partial(source.read, CHUNK), b""))
    whole.seek(0)
    return whole


@contextmanager
def _in_our_words(kind: str = "Parquet") -> Iterator[None]:
    """Say what is wrong with a file of Arrow or Parquet, without the message of pyarrow, which may quote a cell."""
    try:
        yield
    except MemoryError:
        raise
    except _UNSUPPORTED:
        raise TableError(f"The {kind} file uses an unsupported feature. Save it with default options.") from None
    except _BROKEN:
        raise TableError(f"The {kind} file is damaged or cut short. Save it again and send the whole file.") from None


def _open_workbook(file: RawIOBase | BytesIO, form: TableFormat, limits: ReaderLimits) -> Batches:
    book = Workbook(file, form, limits)
    return Batches(book.names, None, lambda places: _gathered(book.batches(places), limits))


@dataclass(frozen=True, slots=True)
class _Parquet:
    """One Parquet file: what it is called, its columns, and the number of rows of each of its groups."""

    name: str
    data: pa.NativeFile
    fields: tuple[pa.Field, ...]
    rows: tuple[int, ...]

    @property
    def types(self) -> tuple[pa.DataType, ...]:
        """The types of its columns as they are read."""
        return tuple(map(plain_type, self.fields))

    def differs_from(self, first: _Parquet) -> TableError | None:
        """Return the refusal of a file with other columns than the first one, None where they are the same."""
        for place, (one, other) in enumerate(zip_longest(self.fields, first.fields), start=1):
            if one is None or other is None:
                more, less = (self, first) if other is None else (first, self)
                extra = shown((one or other).name)
                return TableError(
                    f"The files have different columns: '{more.name}' has the column '{extra}', and '{less.name}' has "
                    "not. Give all files the same columns in the same order."
                )
            if one.name != other.name:
                return TableError(
                    f"The files have different columns: column {place} of '{self.name}' is '{shown(one.name)}', and "
                    f"that of '{first.name}' is '{shown(other.name)}'. Give all files the same columns in the same "
                    "order."
                )
            if plain_type(one) != plain_type(other):
                return TableError(
                    f"The files have different columns: '{shown(one.name)}' is of type {one.type} in '{self.name}', "
                    f"and of type {other.type} in '{first.name}'. Store it alike in all files."
                )
        return None


def _open_parquet(
    file: RawIOBase | BytesIO, form: TableFormat, limits: ReaderLimits, *, part: tuple[int, int] = (0, 1)
) -> Batches:
    with _in_our_words():
        files = [_parquet_file(name, one, limits) for name, one in files_in(file)]
    refusals = (one.differs_from(files[0]) for one in files[1:])
    refusal = next(filter(None, refusals), None)
    if refusal is not None:
        raise refusal
    rows = sum(sum(one.rows) for one in files)
    if rows > limits.rows:
        raise limits.too_many_rows()
    names, types = tuple(field.name for field in files[0].fields), files[0].types
    pieces = tuple(pieces_of_part([one.rows for one in files], part))

    def read(places: Sequence[int]) -> Iterator[Batch]:
        for place in places:
            refuse_type(names[place], types[place])
        held = _Held(limits)
        for piece in pieces:
            yield from _parquet_batches(files[piece.file], piece.groups, places, held)

    return Batches(names=names, types=types, read=read, rows=rows)


def _parquet_file(name: str, file: RawIOBase, limits: ReaderLimits) -> _Parquet:
    data = pa.PythonFile(file, "r")
    opened = pyarrow.parquet.ParquetFile(data, buffer_size=CHUNK, pre_buffer=False)
    metadata, fields = opened.metadata, tuple(opened.schema_arrow)
    if metadata.num_columns > limits.columns or len(fields) > limits.columns:
        raise limits.too_many_columns(max(metadata.num_columns, len(fields)))
    if metadata.num_rows > limits.rows:
        raise limits.too_many_rows()
    groups = tuple(metadata.row_group(place).num_rows for place in range(metadata.num_row_groups))
    return _Parquet(name, data, fields, groups)


class _Held:
    """Counts the bytes that were decoded from Parquet."""

    def __init__(self, limits: ReaderLimits) -> None:
        self.limits, self._bytes = limits, 0

    def add(self, size: int) -> None:
        self._bytes += size
        if self._bytes > self.limits.text_bytes:
            raise too_large("The table inside the Parquet file", self.limits.text_bytes)


def _parquet_batches(file: _Parquet, groups: Sequence[int], places: Sequence[int], held: _Held) -> Iterator[Batch]:
    fields = [file.fields[place] for place in places]
    names = [field.name for field in fields]
    texts = [field.name for field in fields if pa.types.is_string(field.type)]
    with _in_our_words():
        file.data.seek(0)
        # Texts stay dictionaries, so that a text repeated in a million rows is stored once.
        opened = pyarrow.parquet.ParquetFile(file.data, buffer_size=CHUNK, pre_buffer=False, read_dictionary=texts)
        rows = max(1, min(BATCH_ROWS, BATCH_CELLS // len(names)))
        for batch in opened.iter_batches(rows, row_groups=list(groups), columns=names, use_threads=False):
            held.add(batch.nbytes)
            columns = [plain(batch.column(field.name), field) for field in fields]
            del batch
            yield _checked(columns, [0] * len(names), held.limits)
            del columns


def _open_arrow(file: RawIOBase | BytesIO, form: TableFormat, limits: ReaderLimits) -> Batches:
    with _in_our_words("Arrow"):
        table = ArrowFile(file, limits)
        names, types = tuple(field.name for field in table.fields), tuple(map(plain_type, table.fields))

    def read(places: Sequence[int]) -> Iterator[Batch]:
        for place in places:
            refuse_type(names[place], types[place])
        rows = max(1, min(BATCH_ROWS, BATCH_CELLS // len(places)))
        with _in_our_words("Arrow"):
            for columns in table.batches(places, rows):
                cells = [plain(some, table.fields[place]) for some, place in zip(columns, places, strict=True)]
                yield _checked(cells, [0] * len(places), limits)

    return Batches(names=names, types=types, read=read)


def _open_statistical(kind: str, file: RawIOBase | BytesIO, form: TableFormat, limits: ReaderLimits) -> Batches:
    table = StatisticalFile(file, kind, form, limits)
    return Batches(
        table.names,
        table.types,
        lambda places: (_checked(*some, limits) for some in table.batches(places)),
        described=tuple(table.described),
    )


_TYPED: dict[str, Callable[[RawIOBase | BytesIO, TableFormat, ReaderLimits], Batches]] = {
    "parquet": _open_parquet,
    "arrow": _open_arrow,
    "workbook": _open_workbook,
    "xls": _open_workbook,
    **{kind: partial(_open_statistical, kind) for kind in STATISTICAL_KINDS},
}
