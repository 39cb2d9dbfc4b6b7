"""A sheet of a workbook as rows of cells. The contract for .xlsx and .ods: what a row becomes follows from that row.

A row is a row of the sheet that has a value in a column of the table; a row without any value is skipped, wherever it
is. A cell becomes a text by a rule that depends on that cell and its own format: a number its shortest decimal, a date
ISO 8601, a truth value TRUE or FALSE, an error a malformed cell. A formula is the value that was stored with it. Merged
cells have their value in the first of them and nothing in the others. Cells to the right of the last name are not part
of the table.

The parts of the file are unpacked and parsed as a stream, so no sheet is ever held whole; only the texts that Excel
stores once for all cells are. Expat reads the XML; documents that define entities, which could grow, are refused.

No library reads these two kinds. python-calamine 0.9.1 was tried. It is six times as fast: 1,048,576 rows of 20 numbers
in 15 seconds instead of 95, but in 1,450 MB instead of 180. And there one cell affects everybody's rows. An invalid
number, truth value, error or index of a shared text ends the reading of all rows. A value far to the right or below
(XFD1048576) needs the memory of all cells before it, which ends the process. A row with only errors is no row, and an
invalid index reads the first of all texts. tests/bytes/test_workbooks.py has these cells. It reads .xls and .xlsb,
which nothing of ours could (:mod:`synth.reading.more.calamine`).
"""

from __future__ import annotations

import io
import itertools
from collections.abc import Iterator, Mapping, Sequence
from io import RawIOBase
from typing import Literal

import pyarrow as pa

from synth.errors import TableError
from synth.names import listed, shown
from synth.reading.more.calamine import CalamineBook, is_binary
from synth.reading.more.ods import OdsCells, ods_sheets
from synth.reading.more.parts import Cell, Parts, Sheet, SheetCells, in_our_words
from synth.reading.more.xlsx import XlsxCells, beside, xlsx_sheets
from synth.schema import TableFormat
from synth.schema.header import joined_names
from synth.system.settings import ReaderLimits

__all__ = ["WORKBOOK_ENDINGS", "Workbook", "kind_of_workbook", "sheet_rows", "top_of_sheet"]

WORKBOOK_ENDINGS = (".xlsx", ".xlsm", ".ods", ".xls", ".xlsb")
"""Endings of the names of files that are read here."""

BATCH_CELLS = 2**20
"""Cells passed on at a time, which changes no result."""

Row = tuple[int, dict[int, Cell]]
"""The number of a row in its sheet, from 1, and its cells that are not empty, by their columns, from 0."""

_MOST_LISTED = 20


class Workbook:
    """One sheet of a workbook: its column names, and its rows as texts, some at a time.

    Parameters
    ----------
    file : binary file
        The workbook, with random access.
    form : TableFormat
        Which sheet, and where its names are.
    limits : ReaderLimits
        What is refused.

    Attributes
    ----------
    names : tuple of str
        Column names, from the first rows or declared.

    Raises
    ------
    TableError
        If it is not a readable workbook, or it is open which sheet is meant; in one sentence that quotes no cell.
    """

    def __init__(self, file: RawIOBase | io.BytesIO, form: TableFormat, limits: ReaderLimits) -> None:
        self._rows = _rows_of_sheet(file, form.sheet, kind=form.kind, limits=limits)
        with in_our_words():
            self.names = self._read_top(form)
        if len(self.names) > limits.columns:
            raise limits.too_many_columns(len(self.names))

    def _read_top(self, form: TableFormat) -> tuple[str, ...]:
        """Skip the lines before the rows, all of which are public, and return the names of the columns."""
        rows = self._rows = itertools.dropwhile(lambda row: row[0] <= form.skip_rows, self._rows)
        if not form.header:
            return form.names or ()
        comment = form.comment or ""
        top = next((row for row in rows if not comment or not (row[1].get(0) or "").startswith(comment)), None)
        if top is None:
            raise TableError("The sheet is empty. Send a table with a header and rows.")
        header = dict([top])
        for row in rows:
            if row[0] >= top[0] + form.header_rows:
                self._rows = itertools.chain([row], rows)
                break
            header[row[0]] = row[1]
        width = 1 + max(place for cells in header.values() for place in cells)
        lines = [header.get(top[0] + k, {}) for k in range(form.header_rows)]
        return joined_names([[line.get(place) or "" for place in range(width)] for line in lines], form.names_from)

    def batches(self, places: Sequence[int]) -> Iterator[tuple[list[pa.Array], list[int]]]:
        """Yield the columns at ``places`` as texts, and how many cells of each are malformed; those are null."""
        width, most = len(self.names), max(1, BATCH_CELLS // max(1, len(places)))
        kept = (cells for _, cells in self._rows if any(place < width for place in cells))
        with in_our_words():
            while some := list(itertools.islice(kept, most)):
                columns = [[cells.get(place, "") for cells in some] for place in places]
                yield [pa.array(cells, pa.string()) for cells in columns], [cells.count(None) for cells in columns]


def sheet_rows(
    file: RawIOBase | io.BytesIO, sheet: str | None = None, limits: ReaderLimits | None = None
) -> Iterator[list[Cell]]:
    """Yield the rows of a sheet that have a value, as texts; None means an error, and empty cells are empty.

    It is for public documents, such as a codebook; a private table is read in a separate process.

    Raises
    ------
    TableError
        As :class:`Workbook` would.
    """
    with in_our_words():
        for _, cells in _rows_of_sheet(file, sheet, kind="auto", limits=limits or ReaderLimits()):
            yield [cells.get(place, "") for place in range(1 + max(cells))]


def top_of_sheet(
    file: RawIOBase | io.BytesIO, form: TableFormat, limits: ReaderLimits, *, most: int
) -> Iterator[list[Cell]]:
    """Yield the first ``most`` rows of a sheet as they lie there: one without a value is an empty list.

    Raises
    ------
    TableError
        As :class:`Workbook` would.
    """
    place = 1
    for number, cells in _rows_of_sheet(file, form.sheet, kind=form.kind, limits=limits):
        yield from ([] for _ in range(place, min(number, most + 1)))
        if number > most:
            return
        yield [cells.get(at, "") for at in range(1 + max(cells))]
        place = number + 1


def kind_of_workbook(file: RawIOBase | io.BytesIO, limits: ReaderLimits) -> Literal["ods", "xlsx", "xls", "xlsb"]:
    """Return which of the four kinds a workbook is.

    Raises
    ------
    TableError
        If it is none.
    """
    old = _old_kind(file)
    if old is not None:
        return old
    with in_our_words():
        return "ods" if _is_ods(Parts(file, limits.text_bytes)) else "xlsx"


def _old_kind(file: RawIOBase | io.BytesIO) -> Literal["xls", "xlsb"] | None:
    """Return the kind of a workbook that only python-calamine reads; None for the others."""
    file.seek(0)
    if file.read(2) != b"PK":
        return "xls"
    return "xlsb" if is_binary(file) else None


# Which sheet ----------------------------------------------------------------------------------------------------------


def _rows_of_sheet(
    file: RawIOBase | io.BytesIO, wanted: str | None, *, kind: str, limits: ReaderLimits
) -> Iterator[Row]:
    """Yield the rows of the wanted sheet that have a value, or of the only one that is not hidden."""
    old = _old_kind(file)
    if old is not None:
        if kind not in {"auto", old}:
            raise _another_kind(kind)
        book = CalamineBook(file, limits)
        with in_our_words():
            yield from _limited(book.rows(_chosen(wanted, book.sheets)), limits)
        return
    with in_our_words():
        parts = Parts(file, limits.text_bytes)
        is_ods = _is_ods(parts)
        sheets = ods_sheets(parts) if is_ods else xlsx_sheets(parts)
        if kind not in {"auto", "ods" if is_ods else "xlsx"}:
            raise _another_kind(kind)
        name = _chosen(wanted, sheets)
        cells: SheetCells = OdsCells(limits, name) if is_ods else XlsxCells(limits, *beside(parts, limits))
        rows = 0
        for _ in parts.parse(sheets[name].part, cells):
            for number, row, times in cells.taken():
                rows += times
                if rows > limits.rows + _MOST_HEADER_ROWS:
                    raise limits.too_many_rows()
                yield from ((number + k, row) for k in range(times))


def _is_ods(parts: Parts) -> bool:
    return "content.xml" in parts and "xl/workbook.xml" not in parts


def _another_kind(kind: str) -> TableError:
    return TableError(f"This workbook is not an .{kind} file. Check the file, or set kind to auto.")


def _limited(rows: Iterator[Row], limits: ReaderLimits) -> Iterator[Row]:
    for place, row in enumerate(rows):
        if place >= limits.rows + _MOST_HEADER_ROWS:
            raise limits.too_many_rows()
        yield row


_MOST_HEADER_ROWS = 1_000
"""Rows above the table that do not count as rows of it; the rows of the table itself are limited elsewhere."""


def _chosen(wanted: str | None, sheets: Mapping[str, Sheet]) -> str:
    """Return the name of the sheet that is meant."""
    offered = [name for name, sheet in sheets.items() if not sheet.hidden] or list(sheets)
    if not offered:
        raise TableError("The workbook has no sheet with cells. Save the table as a sheet, or as CSV.")
    if wanted is None and len(offered) == 1:
        return offered[0]
    if wanted is not None and wanted in sheets:
        return wanted
    sheets_there = listed([f"'{shown(name)}'" for name in offered], _MOST_LISTED)
    said = f"The workbook has {len(offered):,} sheets" if wanted is None else f"There is no sheet '{shown(wanted)}'"
    raise TableError(
        f"{said}: {sheets_there}. Say which one holds the table ('sheet' in the format).", key="sheet", choices=offered
    )
