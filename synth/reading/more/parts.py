"""The XML files in the zip of a workbook, unpacked and parsed as a stream, and what cells of both kinds share.

Expat reads the XML; documents that define entities, which could grow, are refused. Only what a handler keeps of a file
is kept.
"""

from __future__ import annotations

import datetime
import io
import math
import re
import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from io import RawIOBase
from typing import IO, cast
from xml.parsers import expat

from synth.errors import TableError
from synth.limits import NUMBER_CHARACTERS
from synth.system.settings import ReaderLimits, too_large

__all__ = [
    "MOST_PLACES", "TRUTH", "Cell", "CellText", "Handler", "Parts", "Sheet", "SheetCells", "day_text", "in_our_words",
    "local_name", "locked", "number_text", "packed", "without_midnight",
]  # fmt: skip

CHUNK = 2**18
"""Bytes unpacked and parsed at a time, which changes no result."""

Cell = str | None
"""The text of a cell; None where it contains an error, or nothing that can be read."""

_MOST_ELEMENTS = 10**6
"""Most elements of a part that lists sheets or formats of cells."""

MOST_PLACES = 2**14
"""Columns of a sheet."""

_BROKEN = (zipfile.BadZipFile, zlib.error, EOFError, OSError, struct.error, expat.ExpatError, ValueError, KeyError)


@contextmanager
def in_our_words() -> Iterator[None]:
    """Say what is wrong with a workbook, without the messages of its parsers, which may quote a cell."""
    try:
        yield
    except NotImplementedError:
        raise TableError("The workbook is compressed in an unsupported way. Save it again, or as CSV.") from None
    except _BROKEN:
        raise TableError("The workbook is damaged or cut short. Save it again and send the whole file.") from None


@dataclass(frozen=True, slots=True)
class Sheet:
    """Where a sheet is in the zip, and whether spreadsheets hide it."""

    part: str
    hidden: bool = False


class Handler:
    """Receives the elements of a part; their names come after the names of their namespaces."""

    def start(self, name: str, said: dict[str, str]) -> None:
        """Begin an element with its attributes."""

    def end(self, name: str) -> None:
        """End an element."""

    def text(self, text: str) -> None:
        """Take a piece of text."""


class Parts:
    """The files inside the zip, unpacked as they are read; each at most ``limit`` bytes."""

    def __init__(self, file: RawIOBase | io.BytesIO, limit: int) -> None:
        self._zip = zipfile.ZipFile(cast(IO[bytes], file))  # which only reads it
        self._names = {name.lstrip("/"): name for name in self._zip.namelist()}
        self._limit = limit

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def parse(self, name: str, handler: Handler) -> Iterator[None]:
        """Parse one of them, a block at a time; after each block the caller takes what the handler has found."""
        parser = expat.ParserCreate(namespace_separator=" ")
        parser.buffer_text = True
        parser.StartDoctypeDeclHandler = _refuse_document_type
        parser.StartElementHandler, parser.EndElementHandler = handler.start, handler.end
        parser.CharacterDataHandler = handler.text
        for block in self._blocks(name):
            parser.Parse(block, False)
            yield
        parser.Parse(b"", True)
        yield

    def _blocks(self, name: str) -> Iterator[bytes]:
        entry = self._zip.getinfo(self._names[name])
        if entry.flag_bits & 1:
            raise locked()
        # While it is unpacked, no more comes out than the size in the directory of the zip.
        if entry.file_size > self._limit:
            raise too_large("The table inside the workbook", self._limit)
        with self._zip.open(entry) as part:
            while block := part.read(CHUNK):
                yield block

    def elements(self, name: str) -> list[tuple[str, dict[str, str]]]:
        """Return the elements of a small part, without their namespaces; none if the part does not exist."""
        listed = _Elements()
        if name in self:
            for _ in self.parse(name, listed):
                if len(listed.found) > _MOST_ELEMENTS:
                    raise TableError("The workbook lists too many sheets or formats. Save the table as CSV.")
        return listed.found


class _Elements(Handler):
    def __init__(self) -> None:
        self.found: list[tuple[str, dict[str, str]]] = []

    def start(self, name: str, said: dict[str, str]) -> None:
        self.found.append((local_name(name), {local_name(key): value for key, value in said.items()}))


@cache
def local_name(name: str) -> str:
    """Return the name of an element without its namespace, because programs use several for the same."""
    return name.rpartition(" ")[2]


def _refuse_document_type(*_: object) -> None:
    raise TableError("The workbook contains a document type, which no spreadsheet writes. Save it again, or as CSV.")


def locked() -> TableError:
    """Return the refusal of a workbook with a password."""
    return TableError("The workbook is protected by a password. Save it without one, or as CSV.")


_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,6})?")
_WHOLE = re.compile(r"-?[1-9][0-9]{0,39}|0")
_EXACT = 1e15
"""Below it whole numbers are written with their digits."""

_LIKE_THOUSANDS = re.compile(r"-?[0-9]{1,3}\.[0-9]{3}")
_DAY_ZERO = datetime.datetime(1899, 12, 30)  # a sheet knows no time zone
_LAST_DAY = 2_958_466
TRUTH = {"1": "TRUE", "true": "TRUE", "0": "FALSE", "false": "FALSE"}


def number_text(text: str) -> Cell:
    """Return the shortest decimal of a number, as Python writes it; None for other texts.

    A number such as 1.234, which could be read with a thousands separator, gets a zero at its end, so that no declared
    sign changes it.
    """
    text = text.strip()
    if _WHOLE.fullmatch(text):
        return text
    number = float(text) if len(text) <= NUMBER_CHARACTERS and _NUMBER.fullmatch(text) else math.inf
    if not math.isfinite(number):
        return None
    if number.is_integer() and abs(number) < _EXACT:
        return str(int(number))
    written = repr(number)
    return f"{written}0" if _LIKE_THOUSANDS.fullmatch(written) else written


def day_text(text: str, *, since_1904: bool) -> Cell:
    """Return the date and the time of day of a number of days; below one day only the time."""
    written = number_text(text)
    days = -1.0 if written is None else float(written) + 1462 * since_1904
    # Excel counts a 29 February 1900 as day 60, which no calendar has.
    if not 0 <= days < _LAST_DAY or 60 <= days < 61:
        return None
    moment = _DAY_ZERO + datetime.timedelta(days=int(days) + (days < 60), seconds=round(days % 1 * 86_400))
    return moment.time().isoformat() if days < 1 else without_midnight(moment.isoformat())


def without_midnight(moment: str) -> str:
    """Return only the day of a moment at midnight."""
    return moment.removesuffix("T00:00:00")


class CellText:
    """The text of one cell in pieces; pieces beyond the longest text that a cell may have are dropped."""

    def __init__(self, longest: int) -> None:
        self._longest = longest
        self._pieces: list[str] = []
        self._length = 0

    def clear(self) -> None:
        """Begin another cell."""
        self._pieces, self._length = [], 0

    def add(self, text: str) -> None:
        """Take a piece; a cell that is too long already grows no further."""
        if self._length <= self._longest:
            self._pieces.append(text)
            self._length += len(text)

    def __str__(self) -> str:
        return "".join(self._pieces)


class SheetCells(Handler):
    """The rows of a sheet that have ended, and the one that is being read."""

    def __init__(self, limits: ReaderLimits) -> None:
        self._text = CellText(limits.cell_bytes)
        self._done: list[tuple[int, dict[int, Cell], int]] = []
        self._row: dict[int, Cell] = {}
        self._number = 0

    def taken(self) -> list[tuple[int, dict[int, Cell], int]]:
        """Return the rows with a value that have ended: their numbers, their cells, and how often each is repeated."""
        done, self._done = self._done, []
        return done


def packed(parts: Mapping[str, str]) -> bytes:
    """Return a workbook of these parts."""
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as made:
        for name, text in parts.items():
            made.writestr(name, text)
    return target.getvalue()
