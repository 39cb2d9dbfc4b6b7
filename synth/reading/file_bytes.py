"""Bytes of an uploaded file as they stream past: recognised, decompressed and counted."""

from __future__ import annotations

import zlib

from synth.errors import TableError
from synth.reading.pipes import Readable, ReaderLimits

__all__ = ["CHUNK", "Counted", "open_bytes", "size_text", "too_large", "too_many_columns"]

CHUNK = 2**20
"""Bytes read at a time."""

_OTHER_FILES = {
    b"PK\x03\x04": "a zip or Excel file",
    b"\xd0\xcf\x11\xe0": "an old Excel file",
    b"BZh": "a bzip2 file",
    b"\xfd7zXZ": "an xz file",
    b"\x28\xb5\x2f\xfd": "a zstd file",
    b"SQLite format 3": "a database",
    b"ARROW1": "an Arrow file",
    b"ORC": "an ORC file",
    b"%PDF": "a PDF",
}


class Counted:
    """A source that stops when it has given more than ``limit`` bytes, and can be looked into without reading."""

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
    """The bytes inside a gzip file of any number of members, decompressed a piece at a time."""

    def __init__(self, source: Readable) -> None:
        self._source = source
        self._inflate = zlib.decompressobj(wbits=31)
        self._started = False

    def read(self, size: int) -> bytes:
        try:
            while True:
                if self._inflate.eof:
                    rest = self._inflate.unused_data or self._source.read(CHUNK)
                    # Padding after the last member is allowed and common.
                    if not rest.strip(b"\0"):
                        return b""
                    self._inflate = zlib.decompressobj(wbits=31)
                    pending = rest
                else:
                    pending = self._inflate.unconsumed_tail or self._source.read(CHUNK)
                if not pending:
                    raise zlib.error
                data = self._inflate.decompress(pending, size)
                if data:
                    return data
        except zlib.error:
            raise TableError(
                "The gzip file is damaged or cut short. Compress the table again and send the whole file."
            ) from None


def open_bytes(source: Readable, limits: ReaderLimits, *, first_is_row: bool) -> Counted:
    """Return the bytes of a file, decompressed where it is gzip.

    Parameters
    ----------
    source : Readable
        The file.
    limits : ReaderLimits
        What is refused.
    first_is_row : bool
        Whether the file may begin with a row, of a text without a header: nothing but gzip is recognised by its first
        bytes then, as they may be a cell's.

    Raises
    ------
    TableError
        If the file is empty, or of a kind that is not read here.
    """
    raw = Counted(source, limits.input_bytes, "The file")
    start = raw.peek(16)
    if not start:
        raise TableError("The file is empty. Send a table with a header and rows.")
    if start.startswith(b"\x1f\x8b"):
        raw = Counted(_Gunzip(raw), limits.text_bytes, "The table inside the gzip file")
        start = raw.peek(16)
        if not start:
            raise TableError("The file is empty. Send a table with a header and rows.")
    for magic, name in _OTHER_FILES.items():
        if start.startswith(magic) and not first_is_row:
            raise TableError(f"This is {name}. Save the table as CSV, TSV (also .gz) or Parquet.")
    return raw


def too_many_columns(columns: int, limits: ReaderLimits) -> TableError:
    """Return the refusal of a table with too many columns."""
    return TableError(
        f"The table has {columns:,} columns; at most {limits.columns:,} are read. Leave out columns you do not need."
    )


def too_large(what: str, limit: int) -> TableError:
    """Return the refusal of a file or a table of more than ``limit`` bytes."""
    return TableError(
        f"{what} is larger than {size_text(limit)}, the most this machine reads. Split the table, or ask your "
        "administrator for a higher limit."
    )


def size_text(size: int) -> str:
    """Return a number of bytes as people write it."""
    for unit, name in ((2**30, "GB"), (2**20, "MB"), (2**10, "kB")):
        if size >= unit:
            return f"{size / unit:.3g} {name}"
    return f"{size} bytes"
