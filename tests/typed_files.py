"""Files of other programs as tests need them: SPSS, Stata and SAS, as pyreadstat writes them, .xls and .xlsb."""

from __future__ import annotations

import datetime
import gzip
import io
import struct
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pyreadstat
import xlwt

STATISTICAL = {"sav": "sav", "packed sav": "sav", "zsav": "sav", "dta": "dta", "xpt": "xpt", "xpt 8": "xpt"}
"""Kinds of files that pyreadstat writes, and the word for each in a format."""

_ARGUMENTS: Mapping[str, dict[str, Any]] = {
    "zsav": {"compress": True},
    "packed sav": {"row_compress": True},
    "xpt": {"file_format_version": 5},
    "xpt 8": {"file_format_version": 8},
}
_WRITERS = {"sav": "write_sav", "dta": "write_dta", "xpt": "write_xport"}


def statistical(kind: str, table: pd.DataFrame, **said: Any) -> bytes:
    """Return a table as a file of one of :data:`STATISTICAL`, with what pyreadstat lets it say of its columns."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table"
        getattr(pyreadstat, _WRITERS[STATISTICAL[kind]])(table, str(path), **_ARGUMENTS.get(kind, {}), **said)
        return path.read_bytes()


def sas7bdat() -> bytes:
    """Return the one file of SAS itself: twenty rows of dates in many formats."""
    path = Path(__file__).parent / "bytes" / "files" / "dates.sas7bdat.gz"
    return gzip.decompress(path.read_bytes())


_STYLES = {
    datetime.datetime: xlwt.easyxf(num_format_str="yyyy-mm-dd hh:mm"),
    datetime.date: xlwt.easyxf(num_format_str="yyyy-mm-dd"),
    datetime.time: xlwt.easyxf(num_format_str="hh:mm"),
}


def xls(rows: Sequence[Sequence[Any]], *, hidden: Sequence[Sequence[Any]] = ()) -> bytes:
    """Return an .xls file of one sheet, and perhaps a hidden one; None is an empty cell."""
    book = xlwt.Workbook()
    for name, cells_of in (("People", rows), ("Codes", hidden)):
        if cells_of:
            sheet = book.add_sheet(name)
            sheet.visibility = int(name == "Codes")
            for row, cells in enumerate(cells_of):
                for place, cell in enumerate(cells):
                    if cell is not None:
                        sheet.write(row, place, cell, *([_STYLES[type(cell)]] if type(cell) in _STYLES else []))
    made = io.BytesIO()
    book.save(made)
    return made.getvalue()


# .xlsb, which no library writes: records of a kind, a length and bytes ----------------------------------------------

_RELATED = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_PACKAGE = "http://schemas.openxmlformats.org/package/2006/"


def record(kind: int, data: bytes = b"") -> bytes:
    """Return one record of a part of an .xlsb file."""
    head = bytes([kind]) if kind < 128 else bytes([kind & 0x7F | 0x80, kind >> 7])
    length, rest = b"", len(data)
    while True:
        rest, low = rest >> 7, rest & 0x7F
        length += bytes([low | (0x80 if rest else 0)])
        if not rest:
            return head + length + data


def _wide(text: str) -> bytes:
    data = text.encode("utf-16-le", "surrogatepass")
    return struct.pack("<I", len(data) // 2) + data


def _cell(place: int, cell: Any) -> bytes:
    if isinstance(cell, bool):
        kind, data = 4, bytes([cell])
    elif isinstance(cell, int | float):
        kind, data = 5, struct.pack("<d", cell)
    elif isinstance(cell, bytes):  # an error
        kind, data = 3, cell
    else:
        kind, data = 6, _wide(cell)
    return record(kind, struct.pack("<II", place, 0) + data)


def xlsb_row(number: int, cells: Mapping[int, Any]) -> bytes:
    """Return the records of a row, its number counted from 0, by the places of its cells."""
    head = record(0, struct.pack("<IIHBBBI", number, 0, 300, 0, 0, 0, 0))
    return head + b"".join(_cell(place, cell) for place, cell in cells.items() if cell is not None)


def xlsb(rows: Sequence[Sequence[Any]], *, more: bytes = b"") -> bytes:
    """Return an .xlsb file of one sheet; ``more`` are records behind its rows."""
    held = b"".join(xlsb_row(number, dict(enumerate(cells))) for number, cells in enumerate(rows))
    size = struct.pack("<IIII", 0, len(rows) - 1, 0, max(map(len, rows)) - 1)
    sheet = record(129) + record(148, size) + record(145) + held + more + record(146) + record(130)
    listed = record(156, struct.pack("<II", 0, 1) + _wide("rId1") + _wide("People"))
    relation = (
        '<Relationships xmlns="{}relationships"><Relationship Id="rId1" Type="{}/{}" Target="{}"/></Relationships>'
    )
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as parts:
        parts.writestr(
            "[Content_Types].xml",
            f'<Types xmlns="{_PACKAGE}content-types"><Default Extension="bin" ContentType="application/vnd.ms-excel.'
            'sheet.binary.macroEnabled.main"/></Types>',
        )
        parts.writestr("_rels/.rels", relation.format(_PACKAGE, _RELATED, "officeDocument", "xl/workbook.bin"))
        parts.writestr(
            "xl/_rels/workbook.bin.rels", relation.format(_PACKAGE, _RELATED, "worksheet", "worksheets/sheet1.bin")
        )
        parts.writestr("xl/workbook.bin", record(131) + record(143) + listed + record(144) + record(132))
        parts.writestr("xl/worksheets/sheet1.bin", sheet)
    return made.getvalue()
