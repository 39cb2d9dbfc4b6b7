"""Sheets of .xlsx files: where they are in the zip, and what their cells say."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Sequence
from functools import cache

from synth.errors import TableError
from synth.reading.more.parts import (
    MOST_PLACES,
    TRUTH,
    Cell,
    CellText,
    Handler,
    Parts,
    Sheet,
    SheetCells,
    day_text,
    local_name,
    number_text,
    packed,
    without_midnight,
)
from synth.system.settings import ReaderLimits

__all__ = ["XlsxCells", "beside", "write_xlsx", "xlsx_sheets"]


def xlsx_sheets(parts: Parts) -> dict[str, Sheet]:
    """Return the sheets of an .xlsx file by their names, without charts and macros."""
    book = _book(parts)
    targets = {identity: target for identity, kind, target in _relations(parts, book) if kind == "worksheet"}
    return {
        said["name"]: Sheet(targets[said["id"]], hidden=said.get("state", "visible") != "visible")
        for name, said in parts.elements(book)
        if name == "sheet" and targets.get(said.get("id", "")) in parts
    }


def _book(parts: Parts) -> str:
    """Return the part that lists the sheets."""
    book = next((target for _, kind, target in _relations(parts, "") if kind == "officeDocument"), "")
    if book.endswith(".bin"):
        raise TableError("This is a binary workbook (.xlsb). Save it as .xlsx, .ods or CSV.")
    if not any(name == "sheets" for name, _ in parts.elements(book)):
        raise TableError(
            "This is a zip file without a workbook in it. Send the table itself: .xlsx, .ods, CSV or Parquet."
        )
    return book


def _relations(parts: Parts, part: str) -> list[tuple[str, str, str]]:
    """Return the relations of a part: an id, the last word of the kind, and the target."""
    folder, name = posixpath.split(part)
    return [
        (
            said.get("Id", ""),
            said.get("Type", "").rpartition("/")[2],
            posixpath.normpath(posixpath.join("/", folder, said.get("Target", ""))).lstrip("/"),
        )
        for element, said in parts.elements(posixpath.join(folder, "_rels", f"{name}.rels"))
        if element == "Relationship"
    ]


_ESCAPED = re.compile(r"_x([0-9A-Fa-f]{4})_")
_NO_PART_OF_A_FORMAT = re.compile(r'"[^"]*"|\\.|_.|\*.|\[(?![hms]+\])[^\]]*\]', re.IGNORECASE)
_BUILT_IN_DATES = {*range(14, 23), *range(27, 37), 45, 47, *range(50, 59)}


def beside(parts: Parts, limits: ReaderLimits) -> tuple[list[Cell], set[str], bool]:
    """Return what cells refer to: the shared texts, the styles that are dates, and the day that days count from."""
    book = _book(parts)
    related = {kind: target for _, kind, target in _relations(parts, book)}
    strings = _Strings(limits)
    if related.get("sharedStrings") in parts:
        for _ in parts.parse(related["sharedStrings"], strings):
            pass
    since_1904 = any(
        name == "workbookPr" and said.get("date1904") in {"1", "true"} for name, said in parts.elements(book)
    )
    return strings.found, _date_styles(parts.elements(related.get("styles", ""))), since_1904


def _date_styles(elements: Iterable[tuple[str, dict[str, str]]]) -> set[str]:
    formats: dict[str, str] = {}
    dates: set[str] = set()
    styles, of_cells = 0, False
    for name, said in elements:
        if name == "numFmt":
            formats[said.get("numFmtId", "")] = said.get("formatCode", "")
        elif name == "xf" and of_cells:
            number = said.get("numFmtId", "0")
            if _writes_dates(formats[number]) if number in formats else number in map(str, _BUILT_IN_DATES):
                dates.add(str(styles))
            styles += 1
        elif name in {"cellXfs", "cellStyles", "dxfs"}:
            of_cells = name == "cellXfs"
    return dates


def _writes_dates(code: str) -> bool:
    """Whether a format writes numbers as dates or times of day; elapsed hours are a number of days."""
    plain = _NO_PART_OF_A_FORMAT.sub("", code).partition(";")[0].lower()
    return "[" not in plain and any(letter in plain for letter in "ymdhs")


def _unescaped(text: str) -> Cell:
    """Return a text with the characters that .xlsx writes as numbers; None where one is invalid."""
    if "_x" not in text:
        return text
    plain = _ESCAPED.sub(lambda found: chr(int(found[1], 16)), text)
    return None if any("\ud800" <= character <= "\udfff" for character in plain) else plain


class _Strings(Handler):
    """The texts that a workbook stores once for all cells."""

    def __init__(self, limits: ReaderLimits) -> None:
        self.found: list[Cell] = []
        self._text = CellText(limits.cell_bytes)
        self._within = self._spoken = False

    def start(self, name: str, said: dict[str, str]) -> None:
        local = local_name(name)
        self._within = local == "t"
        if local == "si":
            self._text.clear()
        elif local == "rPh":  # its pronunciation, which is not part of the text
            self._spoken = True

    def end(self, name: str) -> None:
        local = local_name(name)
        self._within = False
        if local == "si":
            self.found.append(_unescaped(str(self._text)))
        elif local == "rPh":
            self._spoken = False

    def text(self, text: str) -> None:
        if self._within and not self._spoken:
            self._text.add(text)


class XlsxCells(SheetCells):
    """The rows of one sheet of an .xlsx file."""

    def __init__(self, limits: ReaderLimits, strings: list[Cell], dates: set[str], since_1904: bool) -> None:
        super().__init__(limits)
        self._strings, self._dates, self._since_1904 = strings, dates, since_1904
        self._place = -1
        self._kind = self._style = ""
        self._within = self._spoken = False

    def start(self, name: str, said: dict[str, str]) -> None:
        """Begin an element."""
        local = local_name(name)
        if local == "c":
            place = _place_of(said.get("r", ""))
            self._place = self._place + 1 if place is None else place
            self._kind, self._style = said.get("t", "n"), said.get("s", "")
            self._text.clear()
        elif local == "row":
            told = said.get("r", "")
            # Row numbers only say where the table begins; one that goes back is ignored.
            number = int(told) if told.isdecimal() and len(told) < 10 else 0
            self._number = max(number, self._number + 1)
            self._row, self._place = {}, -1
        elif local == "rPh":
            self._spoken = True
        self._within = local in {"v", "t"}

    def end(self, name: str) -> None:
        """End an element."""
        local = local_name(name)
        self._within = False
        if local == "c":
            cell = self._cell(str(self._text))
            if cell != "" and self._place < MOST_PLACES:
                self._row[self._place] = cell
        elif local == "row":
            if self._row:
                self._done.append((self._number, self._row, 1))
            self._row = {}
        elif local == "rPh":
            self._spoken = False

    def text(self, text: str) -> None:
        """Take a piece of text."""
        if self._within and not self._spoken:
            self._text.add(text)

    def _cell(self, text: str) -> Cell:
        """Return the text of a cell by its own kind and style; None for an error."""
        kind = self._kind
        if kind == "s":
            place = int(text) if text.isdecimal() and len(text) < 10 else len(self._strings)
            return self._strings[place] if place < len(self._strings) else None if text else ""
        if kind in {"inlineStr", "str"}:
            return _unescaped(text)
        if not text.strip():
            return None if kind == "e" else ""
        if kind == "n":
            return day_text(text, since_1904=self._since_1904) if self._style in self._dates else number_text(text)
        return TRUTH.get(text) if kind == "b" else without_midnight(text) if kind == "d" else None


@cache
def _letters(letters: str) -> int | None:
    if not (letters.isascii() and letters.isalpha() and len(letters) <= 3):
        return None
    place = 0
    for letter in letters.upper():
        place = 26 * place + ord(letter) - 64
    return place - 1


def _place_of(reference: str) -> int | None:
    """Return the column that a reference such as B7 names, from 0; the row says its number itself."""
    letters = reference.rstrip("0123456789")
    return _letters(letters) if len(letters) <= 3 else None


_PACKAGE = "http://schemas.openxmlformats.org/package/2006/"
_SHEETS = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_RELATED = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"


def _xlsx_parts(rows: Iterable[Sequence[str]], sheet: str) -> dict[str, str]:
    from xml.sax.saxutils import escape, quoteattr  # here, as it loads what opens addresses

    cells = "".join(
        "<row>"
        + "".join(f'<c t="inlineStr"><is><t xml:space="preserve">{escape(cell)}</t></is></c>' for cell in row)
        + "</row>"
        for row in rows
    )
    return {
        "[Content_Types].xml": f'<Types xmlns="{_PACKAGE}content-types"><Default Extension="xml" '
        'ContentType="application/xml"/></Types>',
        "_rels/.rels": _relation("officeDocument", "xl/workbook.xml"),
        "xl/_rels/workbook.xml.rels": _relation("worksheet", "sheet1.xml"),
        "xl/workbook.xml": f'<workbook xmlns="{_SHEETS}" xmlns:r="{_RELATED}"><sheets><sheet name={quoteattr(sheet)} '
        'sheetId="1" r:id="rId1"/></sheets></workbook>',
        "xl/sheet1.xml": f'<worksheet xmlns="{_SHEETS}"><sheetData>{cells}</sheetData></worksheet>',
    }


def _relation(kind: str, target: str) -> str:
    return (
        f'<Relationships xmlns="{_PACKAGE}relationships"><Relationship Id="rId1" Type="{_RELATED}/{kind}" '
        f'Target="{target}"/></Relationships>'
    )


def write_xlsx(rows: Iterable[Sequence[str]], sheet: str = "Table") -> bytes:
    """Return a workbook of one sheet whose cells are all texts."""
    return packed(_xlsx_parts(rows, sheet))
