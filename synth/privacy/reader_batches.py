"""A file as batches of the columns that are wanted, one kind of file behind another.

The messages of pyarrow quote cells. None is ever shown, kept or logged: each failure becomes a sentence of ours.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from io import BytesIO, RawIOBase
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

from synth.config import TableFormat
from synth.errors import TableError
from synth.privacy.reader_bytes import CHUNK, Counted, size_text, too_large, too_many_columns
from synth.privacy.reader_columns import check_width, shown
from synth.privacy.reader_pipes import ReaderLimits
from synth.privacy.reader_text import Preamble, TextFeed

__all__ = ["Batches", "open_batches", "too_many_rows"]

BLOCK = 4 * 2**20
"""Bytes of text parsed at a time; also the longest row."""

BATCH_ROWS = 65_536
_DAMAGED = "The Parquet file is damaged or cut short. Save it again and send the whole file."
_UNSUPPORTED = (pa.ArrowNotImplementedError, NotImplementedError)
_BROKEN = (pa.ArrowException, OSError, ValueError, KeyError, IndexError, TypeError, OverflowError, UnicodeError)


@dataclass(frozen=True, slots=True)
class Batches:
    """An opened file: its column names, the types a Parquet file declares, and a way to read chosen columns.

    ``read(places)`` yields lists of pyarrow arrays, one for each place in that order, all of the same length.
    """

    names: tuple[str, ...]
    types: tuple[pa.DataType, ...] | None
    read: Callable[[Sequence[int]], Iterator[list[pa.Array]]]


def open_batches(source: Counted, form: TableFormat, limits: ReaderLimits, *, ranges: RawIOBase | None) -> Batches:
    """Open a file of any kind.

    Parameters
    ----------
    source : Counted
        The bytes of the file in order, decompressed.
    form : TableFormat
        How cells are written.
    limits : ReaderLimits
        What is refused.
    ranges : binary file, optional
        The same file with random access, where it is not compressed; Parquet is then read without holding all of it.

    Raises
    ------
    TableError
        If the file is not a table, in one sentence.
    """
    is_parquet = source.peek(4) == b"PAR1"
    if form.kind == "parquet" and not is_parquet:
        raise TableError("This is not a Parquet file. Check the file, or the kind in the format.")
    if form.kind in {"csv", "tsv"} and is_parquet:
        raise TableError(f"This is a Parquet file, and the format says {form.kind}. Set the kind to auto.")
    if is_parquet:
        return _open_parquet(ranges or _in_memory(source), limits)
    return _open_text(source, form, limits)


def _open_text(source: Counted, form: TableFormat, limits: ReaderLimits) -> Batches:
    feed = TextFeed(source, form, limits)
    top = feed.preamble(form, expected=None if form.names is None else len(form.names))
    if top.names is None:
        check_width(top.fields, form)
    names = top.names or form.names or ()

    def read(places: Sequence[int]) -> Iterator[list[pa.Array]]:
        yield from _Rows(feed, top, names, limits).batches(places)

    return Batches(names=names, types=None, read=read)


class _Rows:
    """The rows of a delimited text, every cell a text."""

    def __init__(self, feed: TextFeed, top: Preamble, names: Sequence[str], limits: ReaderLimits) -> None:
        self._feed = feed
        self._top = top
        self._names = names
        self._limits = limits
        self._rows = 0
        self._ragged: tuple[int | None, int] | None = None

    def batches(self, places: Sequence[int]) -> Iterator[list[pa.Array]]:
        """Yield the columns at ``places`` batch by batch."""
        try:
            # An empty text is no error here: the top of the file was read already.
            if not self._feed.peek():
                return
            reader = self._open(places)
            for batch in reader:
                if self._ragged is not None:
                    raise self._ragged_error()
                self._check_cells(batch, [self._names[place] for place in places])
                self._rows += batch.num_rows
                yield list(batch.columns)
            if self._ragged is not None:
                raise self._ragged_error()
        except MemoryError:
            raise
        except _BROKEN:
            raise self._own_error() from None

    def _open(self, places: Sequence[int]) -> Any:
        columns = [str(place) for place in range(len(self._names))]
        wanted = [str(place) for place in places]
        return pyarrow.csv.open_csv(
            self._feed,
            read_options=pyarrow.csv.ReadOptions(use_threads=False, block_size=BLOCK, column_names=columns),
            parse_options=pyarrow.csv.ParseOptions(
                delimiter=self._top.separator,
                newlines_in_values=True,
                # With one column an empty line is a row with an empty cell; dropping it would depend on a value.
                ignore_empty_lines=len(self._names) > 1,
                invalid_row_handler=self._note_ragged,
            ),
            convert_options=pyarrow.csv.ConvertOptions(
                check_utf8=False,  # the feed has checked it
                column_types=dict.fromkeys(wanted, pa.string()),
                include_columns=wanted,
                strings_can_be_null=False,
            ),
        )

    def _note_ragged(self, row: Any) -> str:
        if self._ragged is None:
            self._ragged = (row.number, row.actual_columns)
        return "skip"

    def _ragged_error(self) -> TableError:
        number, fields = self._ragged or (None, 0)
        where = "A row" if number is None else f"Row {number + self._top.lines:,}"
        against = "'names' lists" if self._top.names is None else "the header has"
        return TableError(
            f"{where} has {fields:,} fields; {against} {len(self._names):,}. Check its separators and quotation marks."
        )

    def _own_error(self) -> Exception:
        if self._feed.failure is not None:
            return self._feed.failure
        if self._ragged is not None:
            return self._ragged_error()
        return TableError(
            f"The table cannot be read after row {self._rows + self._top.lines:,}: a row is longer than "
            f"{size_text(BLOCK)}, or a quotation mark is never closed."
        )

    def _check_cells(self, batch: pa.RecordBatch, names: Sequence[str]) -> None:
        for name, cells in zip(names, batch.columns, strict=True):
            _check_lengths(name, cells, self._limits)


def _check_lengths(name: str, cells: pa.Array, limits: ReaderLimits) -> None:
    longest = pc.max(pc.binary_length(cells)).as_py()
    if longest is not None and longest > limits.cell_bytes:
        raise TableError(
            f"A cell of '{shown(name)}' is longer than {size_text(limits.cell_bytes)}. Leave the column out with type: "
            "drop, or shorten its texts."
        )


def _in_memory(source: Counted) -> BytesIO:
    whole = BytesIO()
    while data := source.read(CHUNK):
        whole.write(data)
    whole.seek(0)
    return whole


def _open_parquet(file: RawIOBase | BytesIO, limits: ReaderLimits) -> Batches:
    try:
        data = (
            pa.BufferReader(pa.py_buffer(file.getbuffer())) if isinstance(file, BytesIO) else pa.PythonFile(file, "r")
        )
        opened = pyarrow.parquet.ParquetFile(data, buffer_size=CHUNK, pre_buffer=False)
        metadata, fields = opened.metadata, list(opened.schema_arrow)
    except MemoryError:
        raise
    except _BROKEN:
        raise TableError(_DAMAGED) from None
    if metadata.num_columns > limits.columns or len(fields) > limits.columns:
        raise too_many_columns(max(metadata.num_columns, len(fields)), limits)
    if metadata.num_rows > limits.rows:
        raise too_many_rows(limits)
    names = tuple(field.name for field in fields)
    types = tuple(field.type for field in fields)

    def read(places: Sequence[int]) -> Iterator[list[pa.Array]]:
        for place in places:
            _check_type(names[place], types[place])
        yield from _parquet_batches(
            data, [names[place] for place in places], types=[types[place] for place in places], limits=limits
        )

    return Batches(names=names, types=types, read=read)


def _parquet_batches(
    data: pa.NativeFile, names: Sequence[str], *, types: Sequence[pa.DataType], limits: ReaderLimits
) -> Iterator[list[pa.Array]]:
    texts = [name for name, kind in zip(names, types, strict=True) if pa.types.is_string(kind)]
    decoded = 0
    try:
        data.seek(0)
        # Texts stay dictionaries: a text repeated in a million rows is held once.
        opened = pyarrow.parquet.ParquetFile(data, buffer_size=CHUNK, pre_buffer=False, read_dictionary=texts)
        for batch in opened.iter_batches(BATCH_ROWS, columns=list(names), use_threads=False):
            decoded += batch.nbytes
            if decoded > limits.text_bytes:
                raise too_large("The table inside the Parquet file", limits.text_bytes)
            columns = [batch.column(name) for name in names]
            for name, cells in zip(names, columns, strict=True):
                values = cells.dictionary if pa.types.is_dictionary(cells.type) else cells
                if pa.types.is_string(values.type) or pa.types.is_binary(values.type):
                    _check_lengths(name, values, limits)
            yield columns
    except MemoryError:
        raise
    except _UNSUPPORTED:
        raise TableError("The Parquet file uses a feature not read here. Save it with default options.") from None
    except _BROKEN:
        raise TableError(_DAMAGED) from None


def too_many_rows(limits: ReaderLimits) -> TableError:
    """Return the refusal of a table with too many rows."""
    return TableError(f"The table has more than {limits.rows:,} rows, the most this machine reads. Split the table.")


def _check_type(name: str, kind: pa.DataType) -> None:
    types = pa.types
    inner = kind.value_type if types.is_dictionary(kind) else kind
    if types.is_nested(inner):
        raise TableError(f"Parquet with nested columns is not supported. Flatten '{shown(name)}' first.")
    known = (
        types.is_integer,
        types.is_floating,
        types.is_decimal,
        types.is_boolean,
        types.is_date,
        types.is_timestamp,
        types.is_string,
        types.is_large_string,
        types.is_binary,
        types.is_large_binary,
        types.is_fixed_size_binary,
        types.is_null,
    )
    if not any(check(inner) for check in known):
        raise TableError(f"'{shown(name)}' is stored as a type that is not read here. Save it as text first.")
