"""Bytes of an uploaded file as plain UTF-8 text: decoded and checked as it streams past."""

from __future__ import annotations

import codecs
import csv
from collections.abc import Callable

from synth.config import TableFormat
from synth.errors import ConfigError, TableError
from synth.privacy.reader_bytes import CHUNK, Counted, size_text, too_many_columns
from synth.privacy.reader_pipes import ReaderLimits

__all__ = ["Preamble", "TextFeed"]

MAXIMUM_LINE = 4 * 2**20
"""Bytes of the longest first line; longer than any header of the allowed number of columns."""

_SEPARATORS = (",", "\t", ";", "|")
_ENCODINGS = {"utf-8", "utf-8-sig", "ascii", "iso8859-1", "iso8859-15", "cp1252", "utf-16", "utf-16-le", "utf-16-be"}
_BYTE_ORDER_MARKS = {codecs.BOM_UTF8: "utf-8", codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}


class Preamble:
    """What was learnt from the top of a text: the separator, the names (None without a header), and lines passed."""

    def __init__(self, *, separator: str, fields: int, names: tuple[str, ...] | None, lines: int) -> None:
        self.separator = separator
        self.fields = fields
        self.names = names
        self.lines = lines


class TextFeed:
    """UTF-8 text of a delimited file after its preamble, read like a binary file.

    ``failure`` keeps the error that stopped the stream, for when another library swallowed it.
    """

    closed = False

    def __init__(self, source: Counted, form: TableFormat, limits: ReaderLimits) -> None:
        self._source = source
        self._limits = limits
        self._buffer = b""
        self._end = False
        self.failure: Exception | None = None
        self._decode = self._decoder(form.encoding)

    def readable(self) -> bool:
        """Say that bytes can be read."""
        return True

    def seekable(self) -> bool:
        """Say that there is no way back."""
        return False

    def close(self) -> None:
        """Leave the source to its owner."""

    def read(self, size: int = CHUNK) -> bytes:
        """Return ``size`` bytes of UTF-8 text, fewer only at the end: a short block would shorten the longest row."""
        try:
            while len(self._buffer) < size and not self._end:
                self._fill()
        except Exception as error:
            self.failure = error
            raise
        data, self._buffer = self._buffer[:size], self._buffer[size:]
        return data

    def peek(self) -> bytes:
        """Return some of what is next and leave it to be read; none at the end."""
        data = self.read()
        self._buffer = data + self._buffer
        return data

    def preamble(self, form: TableFormat, *, expected: int | None) -> Preamble:
        """Read past comments, skipped lines, blank lines and the header.

        Parameters
        ----------
        form : TableFormat
            How the file is written.
        expected : int, optional
            Number of columns to expect, which decides between separators where there is no header.
        """
        lines = 0
        comment = form.comment.encode() if form.comment else None
        while comment and self._line().startswith(comment):
            lines += self._drop()
        for _ in range(form.skip_rows):
            lines += self._drop()
        while (line := self._line()) and not line.strip():
            lines += self._drop()
        record = self._record()
        if not record:
            raise TableError("The file is empty. Send a table with a header and rows.")
        text = record.decode().rstrip("\r\n")
        if "\0" in text:
            raise TableError(_NOT_TEXT)
        separator = _separator(form, text, expected)
        fields = _fields(text, separator)
        if len(fields) > self._limits.columns:
            raise too_many_columns(len(fields), self._limits)
        if not form.header:
            return Preamble(separator=separator, fields=len(fields), names=None, lines=lines)
        lines += self._drop(len(record))
        return Preamble(separator=separator, fields=len(fields), names=tuple(map(str.strip, fields)), lines=lines)

    def _decoder(self, encoding: str) -> Callable[[bytes, bool], bytes]:
        try:
            name = codecs.lookup(encoding).name
        except LookupError:
            name = ""
        if name not in _ENCODINGS:
            raise ConfigError(f"format: the encoding '{encoding}' is not known here. Use utf-8, latin-1 or utf-16.")
        for mark, marked in _BYTE_ORDER_MARKS.items():
            if self._source.peek(len(mark)) == mark and name.startswith(("utf", "ascii")):
                self._source.read(len(mark))
                name = marked
        if name == "utf-16":
            name = "utf-16-le"
        decoder = codecs.getincrementaldecoder(name)("strict")
        plain = name in {"utf-8", "utf-8-sig", "ascii"}

        def decode(data: bytes, final: bool) -> bytes:
            text = decoder.decode(data, final)
            # UTF-8 is only checked: what was read passes on as it is.
            return data if plain else text.encode()

        self._name = "UTF-8" if plain else name.upper()
        return decode

    def _fill(self) -> None:
        data = self._source.read(CHUNK)
        self._end = not data
        try:
            self._buffer += self._decode(data, self._end)
        except UnicodeError:
            raise TableError(_NOT_TEXT if self._name == "UTF-8" else _not_in(self._name)) from None

    def _line(self, start: int = 0) -> bytes:
        """Return the line that begins at ``start`` of what is still to be read, with its end."""
        searched = start
        while True:
            ends = [place for mark in (b"\n", b"\r") if (place := self._buffer.find(mark, searched)) >= 0]
            end = min(ends, default=-1)
            if end >= 0 and (self._buffer[end : end + 1] == b"\n" or end + 1 < len(self._buffer) or self._end):
                both = self._buffer[end : end + 2] == b"\r\n"
                return self._buffer[start : end + 1 + both]
            if self._end:
                return self._buffer[start:]
            if len(self._buffer) - start > MAXIMUM_LINE:
                raise TableError(
                    f"The first line is longer than {size_text(MAXIMUM_LINE)}. Check that this is a table with one row "
                    "on each line."
                )
            searched = max(start, len(self._buffer) - 1)
            self._fill()

    def _record(self) -> bytes:
        """Return the first row, which goes on over line ends inside quotation marks."""
        length = 0
        while True:
            line = self._line(length)
            length += len(line)
            if not line or self._buffer[:length].count(b'"') % 2 == 0 or length > MAXIMUM_LINE:
                return self._buffer[:length]

    def _drop(self, length: int | None = None) -> int:
        """Pass over the first line, or ``length`` bytes; return the number of lines passed."""
        size = len(self._line()) if length is None else length
        self._buffer = self._buffer[size:]
        return 1 if size else 0


_NOT_TEXT = "This does not look like UTF-8 text. Save it as UTF-8 CSV, or name its encoding in the format."


def _not_in(name: str) -> str:
    return f"This does not look like {name} text. Save it as UTF-8 CSV, or name its encoding in the format."


def _separator(form: TableFormat, record: str, expected: int | None) -> str:
    if form.separator != "auto":
        return form.separator
    if form.kind == "tsv":
        return "\t"
    fields = {separator: _n_fields(record, separator) for separator in _SEPARATORS}
    if expected is not None and expected > 1:
        for separator, count in fields.items():
            if count == expected:
                return separator
    return max(fields, key=lambda separator: fields[separator])


def _n_fields(record: str, separator: str) -> int:
    try:
        return len(_fields(record, separator))
    except TableError:
        return 0


def _fields(record: str, separator: str) -> list[str]:
    csv.field_size_limit(MAXIMUM_LINE * 2)
    try:
        return next(csv.reader([record], delimiter=separator), [""])
    except csv.Error:
        raise TableError("The first row cannot be read. Check its quotation marks.") from None
