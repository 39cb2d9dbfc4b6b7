"""Old and binary workbooks (.xls, .xlsb), which python-calamine reads.

No reader of ours takes them apart, so less is promised than of .xlsx and .ods (:mod:`synth.reading.more.workbooks`):
what a row becomes follows from that row as the program that wrote the file put it there, but a damaged file, or a value
far to the right of the table or below it, which needs the memory of all cells before it, ends the reading of the whole
table, and not one cell. A run reads a table to its end before anything is charged, so such a file is refused without
cost. An error in a cell is an empty cell, because that is all that python-calamine says.
"""

from __future__ import annotations

import datetime
import io
import zipfile
from collections.abc import Iterator
from io import RawIOBase
from typing import Any, cast

from synth.errors import TableError
from synth.reading.more.parts import MOST_PLACES, Cell, Sheet, locked, number_text, without_midnight
from synth.system.packages import missing_package
from synth.system.settings import ReaderLimits, too_large

__all__ = ["CalamineBook", "is_binary"]

_SHARE_OF_MEMORY = 8
"""The file, its texts and its cells are in memory at the same time, so the file may have this part of the memory."""

_ENCRYPTED = "EncryptedPackage".encode("utf-16-le")
"""A part of the container in which Excel puts a new workbook with a password."""


def is_binary(file: RawIOBase | io.BytesIO) -> bool:
    """Whether the zip of a workbook holds a binary one (.xlsb)."""
    try:
        names = zipfile.ZipFile(cast(Any, file)).namelist()
    except (zipfile.BadZipFile, OSError, ValueError):
        return False  # the reader of other workbooks says so
    return "xl/workbook.bin" in names and "xl/workbook.xml" not in names


class CalamineBook:
    """A workbook that python-calamine has opened.

    Parameters
    ----------
    file : binary file
        With random access.
    limits : ReaderLimits

    Attributes
    ----------
    sheets : dict of str to Sheet
        Those with cells, by their names.

    Raises
    ------
    TableError
        If it cannot be opened, in one sentence.
    MissingPackageError
        If python-calamine is not installed.
    """

    def __init__(self, file: RawIOBase | io.BytesIO, limits: ReaderLimits) -> None:
        try:
            import python_calamine  # an extra
        except ModuleNotFoundError as error:
            raise missing_package(error) or error from None
        most = min(limits.input_bytes, limits.memory_bytes // _SHARE_OF_MEMORY)
        if file.seek(0, io.SEEK_END) > most:
            raise too_large("The workbook", most)
        file.seek(0)
        data = file.read() or b""
        if _ENCRYPTED in data[: 2**20] or _ENCRYPTED in data[-(2**20) :]:
            raise locked()
        if data.startswith(b"PK") and _unpacked(data) > limits.text_bytes:
            raise too_large("The table inside the workbook", limits.text_bytes)
        self._book = _in_our_words(lambda: python_calamine.CalamineWorkbook.from_filelike(io.BytesIO(data)))
        visible = python_calamine.SheetVisibleEnum.Visible
        cells = python_calamine.SheetTypeEnum.WorkSheet
        self.sheets = {
            one.name: Sheet(one.name, hidden=one.visible != visible)
            for one in self._book.sheets_metadata
            if one.typ == cells
        }

    def rows(self, name: str) -> Iterator[tuple[int, dict[int, Cell]]]:
        """Yield the rows of a sheet that have a value: their numbers, and their cells that are not empty."""
        sheet = _in_our_words(lambda: self._book.get_sheet_by_name(name))
        rows = sheet.iter_rows()
        for number, cells in enumerate(iter(lambda: _in_our_words(lambda: next(rows, None)), None), start=1):
            found = {place: _text(cell) for place, cell in enumerate(cells[:MOST_PLACES]) if cell != ""}
            if found:
                yield number, found


def _unpacked(data: bytes) -> int:
    return sum(entry.file_size for entry in zipfile.ZipFile(io.BytesIO(data)).infolist())


def _in_our_words(asked: Any) -> Any:
    """Ask python-calamine, whose messages may quote a cell."""
    try:
        return asked()
    except MemoryError:
        raise
    except BaseException as error:
        if type(error).__name__ == "PasswordError":
            raise locked() from None
        # What Rust calls a panic is no Exception.
        if not isinstance(error, Exception) and type(error).__module__ != "pyo3_runtime":
            raise
        raise TableError("The workbook is damaged or cut short. Save it again as .xlsx, or as CSV.") from None


def _text(cell: Any) -> Cell:
    """Return the text of a cell as of other workbooks."""
    if isinstance(cell, bool):
        return "TRUE" if cell else "FALSE"
    if isinstance(cell, datetime.timedelta):
        return number_text(repr(cell / datetime.timedelta(days=1)))
    if isinstance(cell, int | float):
        return number_text(repr(cell))
    return without_midnight(cell.isoformat()) if isinstance(cell, datetime.date | datetime.time) else cast(str, cell)
