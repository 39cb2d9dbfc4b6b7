"""A delimited text as rows of cells. The contract: the codes of line i follow from line i and what is declared.

LF ends a line; one CR before it belongs to it; no other character ends a line. In UTF-16 aligned units are cut.
A line that is ill-quoted, ragged, too long or not in the declared encoding is one row in which every cell is malformed.
In a table of several columns a blank line is no row: one of nothing but spaces, and tabs where these separate no cells.
That follows from the line alone. No line can affect another one, or stop the reading.

Under ``newlines`` a quotation mark may keep a row open over line ends, so there a row is what is between two line ends
outside quotation marks; the owner then declares that every quotation mark is closed, and the certificate repeats it.
"""

from __future__ import annotations

import codecs
import itertools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from synth.errors import TableError
from synth.schema import TableFormat
from synth.schema.header import joined_names, separator_named
from synth.system.conversation import Readable
from synth.system.settings import ReaderLimits, size_text

__all__ = [
    "LONGEST_LINE",
    "REASONS",
    "Blocks",
    "Peekable",
    "TextTable",
    "cells_of_line",
    "past_lines",
    "separator_of",
]

LONGEST_LINE = 4 * 2**20
"""Bytes of the longest line whose cells are read; a longer one is a row of malformed cells."""

REASONS = ("fewer", "one more", "more", "quotation", "encoding", "length")
"""Why a line cannot be split into cells: fewer cells than names, one or several more, a quotation mark out of place, a
byte that is not in the encoding, too many bytes."""

CHUNK = 4 * 2**20
"""Bytes read and parsed at a time, which changes no result."""

_COLUMNS_PER_CHUNK, _MOST_CHUNKS = 256, 8
"""More chunks are parsed together where there are many columns: of each there are then as many cells at a time."""

_SEPARATORS = (",", "\t", ";", "|")
_MARKS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_MARK = codecs.BOM_UTF8
_LF, _CR, _QUOTE = 10, 13, 34
_LONG_ROWS, _SAMPLE = 512, 2**16
"""Bytes of a row from which rows are counted one by one: the places of their characters would take eight times their
memory."""

_Mask = npt.NDArray[np.bool_]
_Places = npt.NDArray[np.int64]


class Peekable(Readable, Protocol):
    """Bytes that can be read, and peeked into."""

    def peek(self, size: int) -> bytes:
        """Return the next ``size`` bytes (fewer at the end) and leave them to be read."""
        ...


class TextTable:
    """A delimited text: its column names, and its rows as texts, a block of whole lines at a time.

    Parameters
    ----------
    source : Peekable
        The bytes of the text.
    form : TableFormat
        How it is written.
    limits : ReaderLimits
        What is refused.

    Attributes
    ----------
    names : tuple of str
        Column names, from the header line or declared.
    blank : int
        How many blank lines were read so far; no rows, except in a table of one column.
    separator : str
        The sign between cells.
    unreadable : dict of str to int
        How many of the rows read so far could not be split into cells, by the reason: a name of :data:`REASONS`.

    Raises
    ------
    ConfigError
        If the format leaves open what only rows could tell (:meth:`synth.schema.TableFormat.check`).
    TableError
        If the lines before the rows cannot be read, which hold names and are public. Never because of a row.
    """

    def __init__(self, source: Peekable, form: TableFormat, limits: ReaderLimits) -> None:
        form.check()
        self._limits = limits
        self._newlines = form.newlines
        encoding, separator, self.names = _read_top(source, form, limits)
        self.separator, self._separator = separator, separator.encode()
        chunk = CHUNK * min(max(1, len(self.names) // _COLUMNS_PER_CHUNK), _MOST_CHUNKS)
        self._blocks = Blocks(
            # Text after a closing quotation mark is ill-quoted, and leaves no quotation mark open.
            source,
            encoding,
            ill=b'""?\n' if self._separator != b"?" else b'""!\n',
            newlines=form.newlines,
            chunk=chunk,
        )
        self.blank = 0
        self.unreadable = dict.fromkeys(REASONS, 0)

    def batches(self, places: Sequence[int]) -> Iterator[tuple[list[pa.Array], _Mask]]:
        """Yield the columns at ``places`` as dictionaries of texts, and which rows are malformed, all null."""
        for block in self._blocks:
            rows = _rows_of(block, self._separator[0], width=len(self.names), newlines=self._newlines)
            self.blank += rows.blank
            for reason, count in rows.unreadable.items():
                self.unreadable[reason] += count
            self._count_undecoded()
            malformed = rows.malformed
            if not len(malformed):
                continue
            columns = self._columns(rows, places)
            del block, rows  # so that they need not be held while the next are read
            yield columns, malformed

    def _count_undecoded(self) -> None:
        """Name the reason of lines that reach the rows as ill-quoted ones: too long, or not in the encoding."""
        for reason, count in self._blocks.take_replaced().items():
            self.unreadable[reason] += count
            self.unreadable["quotation"] -= count

    def _columns(self, rows: _Rows, places: Sequence[int]) -> list[pa.Array]:
        # A row in front: at its start the parser would skip a byte-order mark, which may belong to a cell.
        text = self._separator * (len(self.names) - 1) + b"\n" + rows.text
        columns = list(map(str, range(len(self.names))))
        table = pyarrow.csv.read_csv(
            pa.BufferReader(text),
            read_options=pyarrow.csv.ReadOptions(use_threads=False, block_size=len(text) + 1, column_names=columns),
            parse_options=pyarrow.csv.ParseOptions(
                delimiter=self.separator, newlines_in_values=True, ignore_empty_lines=False
            ),
            convert_options=self._convert_options(places),
        )
        if table.num_rows != len(rows.malformed) + 1 or table.column(0).num_chunks != 1:
            raise ValueError  # the parser split the rows differently: better no table than a wrong one
        arrays = [column.chunk(0) for column in table.slice(1).columns]
        if not rows.malformed.any():
            return arrays
        readable = pa.array(~rows.malformed)
        nothing = pa.scalar(None, pa.int32())
        return [
            pa.DictionaryArray.from_arrays(pc.if_else(readable, cells.indices, nothing), cells.dictionary)
            for cells in arrays
        ]

    def _convert_options(self, places: Sequence[int]) -> pyarrow.csv.ConvertOptions:
        wanted = list(map(str, places))
        return pyarrow.csv.ConvertOptions(
            check_utf8=False,  # it was decoded here
            # A column of plain texts would reserve as much memory as the block is long.
            column_types=dict.fromkeys(wanted, pa.dictionary(pa.int32(), pa.string())),
            include_columns=wanted,
            strings_can_be_null=False,
        )


# The lines before the rows ----------------------------------------------------------------------------------------


def _read_top(source: Peekable, form: TableFormat, limits: ReaderLimits) -> tuple[str, str, tuple[str, ...]]:
    """Return the encoding, the separator and the names, which are public, and leave the rows in the source."""
    if not form.header:
        encoding = past_lines(source, form)
        return encoding, "\t" if form.separator == "auto" else form.separator, form.names or ()
    encoding = _codec_of_rows(form)
    if form.codec.startswith(("utf", "ascii")):
        encoding = next((known for mark, known in _MARKS if source.peek(len(mark)) == mark), encoding)
    named, header = _lines_of_names(source, form, encoding)
    if any("\0" in line for line in header):
        raise _not_in(encoding)
    if any("\r" in line for line in header):
        raise TableError(
            "The first line contains a carriage return without a line feed. Save the table with the line ends of "
            "Windows or Unix."
        )
    separator = separator_of(form, header[(form.names_from or 0) - 1], named)
    cells = [cells for line in header if (cells := cells_of_line(line, separator)) is not None]
    if len(cells) < len(header):
        raise TableError(
            "The first line cannot be read. Check its quotation marks; if cells contain line breaks, declare "
            "'newlines: true' in the format."
        )
    names = joined_names(cells, form.names_from)
    if form.row_names is not None:
        names = (form.row_names, *names)
    if len(names) > limits.columns:
        raise limits.too_many_columns(len(names))
    return encoding, separator, names


def _codec_of_rows(form: TableFormat) -> str:
    # Without a mark, of which a first row has none, utf-16 is little-endian unless big-endian is declared.
    return {"utf-16": "utf-16-le", "utf-8-sig": "utf-8"}.get(form.codec, form.codec)


def past_lines(source: Peekable, form: TableFormat) -> str:
    """Read past the lines before the rows of a text without names, and return its encoding."""
    encoding = _codec_of_rows(form)
    _skip_lines(source, form.skip_rows, encoding)
    return encoding


def _skip_lines(source: Peekable, count: int, encoding: str) -> None:
    """Skip some lines of a text without names, which must have rows after them."""
    for _ in range(count):
        if not source.peek(1):
            break
        _take_line(source, encoding)
    if not source.peek(1):
        raise TableError("The file is empty. Send a table with rows.")


def _lines_of_names(source: Peekable, form: TableFormat, encoding: str) -> tuple[str | None, list[str]]:
    """Read past comments, skipped lines and blank lines.

    Returns
    -------
    separator : str or None
        The one that a line above the names declares as Excel does: ``sep=;``.
    lines : list of str
        Those that hold the names.
    """
    line = _take_text(source, encoding)
    while form.comment and line is not None and line.startswith(form.comment):
        line = _take_text(source, encoding)
    for _ in range(form.skip_rows):
        if line is None:
            break
        line = _take_text(source, encoding)
    # Where a tab separates cells, a line of tabs is a line of empty cells.
    blanks = " " if form.separator == "\t" or form.kind == "tsv" else None
    while line is not None and not line.strip(blanks):
        line = _take_text(source, encoding)
    named = None if line is None else separator_named(line)
    if named is not None:
        line = _take_text(source, encoding)
    if line is None:
        raise TableError("The file is empty. Send a table with a header and rows.")
    header: list[str] = []
    while len(header) < form.header_rows:
        while form.newlines and line and line.count('"') % 2 and len(line) <= LONGEST_LINE:
            more = _take_text(source, encoding)
            if more is None:
                break
            line = f"{line}\n{more}"
        header.append(line or "")
        line = _take_text(source, encoding) if len(header) < form.header_rows else None
    return named, header


def _take_text(source: Peekable, encoding: str) -> str | None:
    """Return the next line without its end, decoded; None at the end of the file."""
    line = _take_line(source, encoding)
    if not line:
        return None
    try:
        return line.decode(encoding).removeprefix("\ufeff").removesuffix("\n").removesuffix("\r")
    except UnicodeError:
        raise _not_in(encoding) from None


def _take_line(source: Peekable, encoding: str) -> bytes:
    """Return the next line with its end; empty at the end of the file."""
    line = b""
    while True:
        seen = source.peek(len(line) + 2**16)
        ends = _line_ends(seen, encoding)
        if len(ends) or len(seen) == len(line):
            break
        line = seen
        if len(line) > LONGEST_LINE:
            raise TableError(
                f"The first line is longer than {size_text(LONGEST_LINE)}. Check that this is a table with one row on "
                "each line."
            )
    wanted = int(ends[0]) if len(ends) else len(seen)
    taken = b""
    while len(taken) < wanted:
        taken += source.read(wanted - len(taken))
    return taken


def _not_in(encoding: str) -> TableError:
    said = f"This does not look like {encoding.upper()} text. Save it as UTF-8 CSV, or name its encoding in the format."
    return TableError(said, key="encoding")


def separator_of(form: TableFormat, line: str, named: str | None = None) -> str:
    """Return the separator of a text: the declared one, else the one ``named`` above the names, else the likeliest.

    That is the one that gives the header line most names.
    """
    if form.separator != "auto":
        return form.separator
    if form.kind == "tsv":
        return "\t"
    if named is not None:
        return named
    cells = {separator: len(cells_of_line(line, separator) or ()) for separator in _SEPARATORS}
    # A single cell shows no separator: a line with misplaced quotation marks is one cell under every separator.
    return max(cells, key=lambda separator: cells[separator]) if max(cells.values()) > 1 else _SEPARATORS[0]


# Lines ------------------------------------------------------------------------------------------------------------


def _line_ends(data: bytes, encoding: str) -> _Places:
    """Return the position after each LF."""
    return _places_of(_LF, data, encoding) + (2 if encoding.startswith("utf-16") else 1)


def _places_of(character: int, data: bytes, encoding: str) -> _Places:
    """Return where a character begins; in UTF-16 only in aligned units."""
    if not encoding.startswith("utf-16"):
        return _places_of_byte(character, data)
    units = np.frombuffer(data[: len(data) // 2 * 2], "<u2" if encoding == "utf-16-le" else ">u2")
    return 2 * np.flatnonzero(units == character)


def _places_of_byte(character: int, data: bytes) -> _Places:
    """Return where a byte is, in order."""
    byte = bytes([character])
    if data.count(byte, 0, _SAMPLE) * _LONG_ROWS > _SAMPLE:
        return np.flatnonzero(np.frombuffer(data, np.uint8) == character)
    places: list[int] = []
    place = data.find(byte)
    while place >= 0:
        places.append(place)
        place = data.find(byte, place + 1)
    return np.array(places, dtype=np.int64)


class Blocks:
    """The text after its top as blocks of whole rows in UTF-8, each row ended by LF.

    A row that cannot be decoded or is too long becomes the line ``ill``, here and nowhere else.
    """

    def __init__(
        self, source: Peekable, encoding: str, *, ill: bytes, newlines: bool = False, chunk: int | None = None
    ) -> None:
        self._source = source
        self._chunk = chunk or CHUNK
        self._encoding = encoding
        self._newlines = newlines
        self._longest = LONGEST_LINE * (2 if encoding.startswith("utf-16") else 1)
        self._ill = ill
        self._rest = b""
        self._replaced: dict[str, int] = {}
        self._open = False
        """Whether the skipped part of a row that is too long left a quotation mark open."""
        self._too_long = False

    def __iter__(self) -> Iterator[bytes]:
        while data := self._source.read(self._chunk):
            block = self._whole_rows(self._rest + data)
            del data  # nothing of a block is held beside the next one
            if block:
                yield block
            del block
        if self._too_long:
            yield self._replaced_line("length")
        elif self._rest:
            yield self._decoded_row(self._rest).removesuffix(b"\n") + b"\n"

    def _whole_rows(self, data: bytes) -> bytes:
        """Return the rows that end in ``data``, decoded, and keep the rest."""
        block, ends = b"", self._row_ends(data)
        if self._too_long and len(ends):
            # The row that was too long ends here.
            block, data = self._replaced_line("length"), data[int(ends[0]) :]
            self._too_long = self._open = False
            ends = self._row_ends(data)
        end = int(ends[-1]) if len(ends) else 0
        block += self._decoded(data[:end], ends)
        self._rest = data[end:]
        if self._too_long or len(self._rest) > self._longest:
            self._pass_over()
        return block

    def _row_ends(self, data: bytes) -> _Places:
        """Return the position after each LF that ends a row: at the others a quotation mark is open."""
        ends = _line_ends(data, self._encoding)
        if not self._newlines:
            return ends
        before = np.searchsorted(_places_of(_QUOTE, data, self._encoding), ends)
        closed: _Places = ends[(before + self._open) % 2 == 0]
        return closed

    def _pass_over(self) -> None:
        """Drop the beginning of a row that is too long; an odd byte stays, so that units stay aligned."""
        kept = len(self._rest) % 2 if self._encoding.startswith("utf-16") else 0
        passed, self._rest = self._rest[: len(self._rest) - kept], self._rest[len(self._rest) - kept :]
        self._open ^= self._newlines and len(_places_of(_QUOTE, passed, self._encoding)) % 2 == 1
        self._too_long = True

    def _decoded(self, data: bytes, ends: _Places) -> bytes:
        """Return rows in UTF-8, each by itself if one is too long or has a byte that is not in the encoding."""
        lengths = np.diff(ends, prepend=0)
        if lengths.max(initial=0) <= self._longest:
            with suppress(UnicodeError):
                return _utf8(data, self._encoding)
        starts = ends - lengths
        return b"".join(
            self._decoded_row(data[start:end]) for start, end in zip(starts.tolist(), ends.tolist(), strict=True)
        )

    def _decoded_row(self, row: bytes) -> bytes:
        """Return a row in UTF-8, or an ill-quoted line where that is impossible; other rows have no influence."""
        if len(row) <= self._longest:
            with suppress(UnicodeError):
                return _utf8(row, self._encoding)
        return self._replaced_line("encoding" if len(row) <= self._longest else "length")

    def _replaced_line(self, reason: str) -> bytes:
        self._replaced[reason] = self._replaced.get(reason, 0) + 1
        return self._ill

    def take_replaced(self) -> dict[str, int]:
        """Return how many lines were replaced by an ill-quoted one, by the reason, and count anew."""
        taken, self._replaced = self._replaced, {}
        return taken


def _utf8(data: bytes, encoding: str) -> bytes:
    text = data.decode(encoding)
    return data if encoding in {"utf-8", "ascii"} else text.encode()


# Rows -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Rows:
    """Rows that a parser of quoted texts cannot misread; a malformed row is written as empty cells.

    ``blank`` lines were left out, except from a table of one column; ``unreadable`` counts malformed rows by reason.
    """

    text: bytes
    malformed: _Mask
    blank: int
    unreadable: Mapping[str, int]


def _rows_of(block: bytes, separator: int, *, width: int, newlines: bool) -> _Rows:
    """Rewrite the rows of a block so that they cannot be misread.

    Almost all need no change and are checked all at once; the others go through :func:`cells_of_line`. Whether and how
    a row is rewritten depends on that row alone.
    """
    data = np.frombuffer(block, np.uint8)
    ends = _places_of_byte(_LF, block)
    has_quotes = b'"' in block
    if has_quotes:
        quotes = data == _QUOTE
        # Whether the number of marks so far is odd; a byte that wraps around stays odd or even.
        odd_marks = (np.cumsum(quotes.view(np.uint8), dtype=np.uint8) & 1).view(np.bool_)
        if newlines:
            ends = ends[~odd_marks[ends]]
    if newlines and (not len(ends) or ends[-1] != len(data) - 1):
        ends = np.append(ends, len(data) - 1)  # the last row of the file leaves a quotation mark open
    starts = np.concatenate([[0], ends[:-1] + 1]).astype(np.int64)
    stops = ends - ((data[np.maximum(ends - 1, 0)] == _CR) & (ends > starts))

    separators = data == separator
    well_quoted = np.ones(len(ends), dtype=bool)
    if has_quotes:
        before = np.concatenate([[False], odd_marks[ends[:-1]]])
        inside = odd_marks ^ np.repeat(before, ends - starts + 1) if before.any() else odd_marks
        well_quoted = odd_marks[ends] == before
        well_quoted &= (
            _in_rows(_out_of_place(quotes, inside, separators | quotes, starts=starts, stops=stops), starts) == 0
        )
        # Inside quotation marks a separator is a character like any other.
        separators &= ~inside
    cells = _in_rows(separators, starts) + 1
    returns = _in_rows(data == _CR, starts) - (stops < ends) if b"\r" in block else np.zeros(len(ends), np.int64)
    marked = np.zeros(len(ends), dtype=bool)
    if _MARK in block:
        marked = np.array([block.startswith(_MARK, start) for start in starts.tolist()])

    plain = well_quoted & (returns == 0) & ~marked
    malformed = plain & (cells != width)
    blank = stops == starts
    text, unreadable = block, dict[str, int]()
    odd = np.flatnonzero(~plain | malformed).tolist()
    if odd:
        pieces, done = [], 0
        for row in odd:
            line = block[starts[row] : stops[row]]
            pieces.append(block[done : starts[row]])
            done = int(ends[row]) + 1
            blank[row] = _is_blank(line, separator)
            if blank[row] and width > 1:
                continue
            texts = None if malformed[row] else _cells_of_bytes(line, chr(separator))
            found = cells[row] if malformed[row] else None if texts is None else len(texts)
            malformed[row] = found != width
            if malformed[row]:
                reason = _reason(found, width)
                unreadable[reason] = unreadable.get(reason, 0) + 1
            pieces.append(_written([""] * width if texts is None or malformed[row] else texts, separator))
        text = b"".join([*pieces, block[done:]])
    return _Rows(text, malformed[~blank] if width > 1 else malformed, int(blank.sum()), unreadable)


def _in_rows(mask: _Mask, starts: _Places) -> _Places:
    """Return how many characters of a block a mask marks in each row, given where rows start."""
    ends = np.append(starts, len(mask))
    if len(mask) > _LONG_ROWS * len(starts):
        rows = itertools.pairwise(ends.tolist())
        return np.array([np.count_nonzero(mask[start:end]) for start, end in rows], dtype=np.int64)
    found: _Places = np.diff(np.searchsorted(np.flatnonzero(mask), ends))
    return found


def _is_blank(line: bytes, separator: int) -> bool:
    """Whether a line holds nothing but spaces, and tabs where these separate no cells."""
    return not line.removeprefix(_MARK).strip(b" \t".replace(bytes([separator]), b""))


def _reason(cells: int | None, width: int) -> str:
    """Return why a line of so many cells is no row; None are those of a line with a quotation mark out of place."""
    if cells is None:
        return "quotation"
    return "fewer" if cells < width else "one more" if cells == width + 1 else "more"


def _out_of_place(quotes: _Mask, inside: _Mask, beside: _Mask, *, starts: _Places, stops: _Places) -> _Mask:
    """Return which quotation marks are in a place where the quick check cannot confirm them.

    A mark that opens is at the start of a cell or after one that closes (a doubled one); a mark that closes is before a
    separator, the end, or one that opens. ``inside`` is true from a mark that opens up to the one that closes, without
    it; ``beside`` says where a separator or a quotation mark is.
    """
    behind, ahead = np.zeros_like(quotes), np.zeros_like(quotes)
    behind[1:], ahead[:-1] = beside[:-1], beside[1:]
    behind[starts] = True
    ahead[np.maximum(stops - 1, 0)] = True
    return quotes & ~np.where(inside, behind, ahead)


def _cells_of_bytes(line: bytes, separator: str) -> list[str] | None:
    # A byte-order mark at the start of a line is skipped in every line, as any line may be the first of a file.
    return cells_of_line(line.removeprefix(_MARK).decode(), separator)


def cells_of_line(line: str, separator: str) -> list[str] | None:
    """Return the cells of one row without its line end, or None where its quotation marks are out of place.

    A cell that begins with a quotation mark ends at the next single one, which only a separator or the end may follow;
    a doubled one inside is one character. In other cells quotation marks are ordinary characters.
    """
    if '"' not in line:
        return line.split(separator)
    cells: list[str] = []
    place = 0
    while True:
        if not line.startswith('"', place):
            end = line.find(separator, place)
            cells.append(line[place:] if end < 0 else line[place:end])
            if end < 0:
                return cells
            place = end + 1
            continue
        close = line.find('"', place + 1)
        while close >= 0 and line.startswith('"', close + 1):
            close = line.find('"', close + 2)
        if close < 0:
            return None
        cells.append(line[place + 1 : close].replace('""', '"'))
        if close + 1 == len(line):
            return cells
        if not line.startswith(separator, close + 1):
            return None
        place = close + 2


def _written(cells: Sequence[str], separator: int) -> bytes:
    quoted = (cell.replace('"', '""') for cell in cells)
    return chr(separator).join(f'"{cell}"' for cell in quoted).encode() + b"\n"
