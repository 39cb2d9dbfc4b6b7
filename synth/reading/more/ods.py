"""Sheets of .ods files, and what their cells say."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from synth.reading.more.parts import (
    MOST_PLACES,
    TRUTH,
    Cell,
    Handler,
    Parts,
    Sheet,
    SheetCells,
    locked,
    number_text,
    packed,
    without_midnight,
)
from synth.system.settings import ReaderLimits

__all__ = ["OdsCells", "ods_sheets", "write_ods"]


def ods_sheets(parts: Parts) -> dict[str, Sheet]:
    """Return the sheets of an .ods file by their names."""
    if any(name == "encryption-data" for name, _ in parts.elements("META-INF/manifest.xml")):
        raise locked()
    tables = _Tables()
    for _ in parts.parse("content.xml", tables):
        pass
    return {name: Sheet("content.xml") for name in tables.names}


_SPACE = "urn:oasis:names:tc:opendocument:xmlns:"
_TABLE, _OFFICE, _WRITTEN = f"{_SPACE}table:1.0 ", f"{_SPACE}office:1.0 ", f"{_SPACE}text:1.0 "
_IS_ERROR = "urn:org:documentfoundation:names:experimental:calc:xmlns:calcext:1.0 value-type"
_CELLS = {f"{_TABLE}table-cell", f"{_TABLE}covered-table-cell"}
_TIME = re.compile(r"PT([0-9]{1,2})H([0-9]{1,2})M([0-9]{1,2})([.,][0-9]*)?S")


class _Tables(Handler):
    """The names of the sheets of an .ods file."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self._depth = 0

    def start(self, name: str, said: dict[str, str]) -> None:
        if name == f"{_TABLE}table":
            self._depth += 1
            if self._depth == 1:
                self.names.append(said.get(f"{_TABLE}name", ""))

    def end(self, name: str) -> None:
        self._depth -= name == f"{_TABLE}table"


class OdsCells(SheetCells):
    """The rows of one sheet of an .ods file."""

    def __init__(self, limits: ReaderLimits, sheet: str) -> None:
        super().__init__(limits)
        self._sheet = sheet
        self._tables = 0
        self._wanted = False
        self._place = self._times = self._row_times = 0
        self._said: dict[str, str] | None = None
        self._depth = self._paragraphs = 0
        self._within = False

    def start(self, name: str, said: dict[str, str]) -> None:
        """Begin an element."""
        if self._said is not None:
            self._inside(name, said)
        elif name == f"{_TABLE}table":
            self._tables += 1
            self._wanted = self._tables == 1 and said.get(f"{_TABLE}name", "") == self._sheet
        elif not self._wanted:
            return
        elif name == f"{_TABLE}table-row":
            self._row, self._place = {}, 0
            self._row_times = _times(said, "number-rows-repeated")
        elif name in _CELLS:
            self._said, self._depth, self._paragraphs = said, 0, 0
            self._times = _times(said, "number-columns-repeated")
            self._text.clear()

    def _inside(self, name: str, said: dict[str, str]) -> None:
        """Begin an element inside a cell: its text is that of its own paragraphs, not of a note or a drawing."""
        self._depth += 1
        if self._depth == 1:
            self._within = name == f"{_WRITTEN}p"
            self._paragraphs += self._within
            if self._within and self._paragraphs > 1:
                self._text.add("\n")
        elif self._within and name == f"{_WRITTEN}s":
            count = said.get(f"{_WRITTEN}c", "1")
            self._text.add(" " * min(int(count), 1_000) if count.isdecimal() and len(count) < 10 else " ")
        elif self._within and name in {f"{_WRITTEN}tab", f"{_WRITTEN}line-break"}:
            self._text.add("\t" if name.endswith("tab") else "\n")

    def end(self, name: str) -> None:
        """End an element."""
        if self._said is not None and self._depth:
            self._depth -= 1
            self._within &= self._depth > 0
        elif self._said is not None:
            cell = self._cell(self._said, str(self._text))
            if cell != "":
                last = min(self._place + self._times, MOST_PLACES)
                self._row |= dict.fromkeys(range(self._place, last), cell)
            self._place += self._times
            self._said = None
        elif name == f"{_TABLE}table":
            self._tables -= 1
            self._wanted = False
        elif name == f"{_TABLE}table-row" and self._wanted:
            if self._row:
                self._done.append((self._number + 1, self._row, self._row_times))
            self._number += self._row_times

    def text(self, text: str) -> None:
        """Take a piece of text."""
        if self._within:
            self._text.add(text)

    @staticmethod
    def _cell(said: Mapping[str, str], text: str) -> Cell:
        """Return the text of a cell by its own kind; None for an error."""
        kind = said.get(f"{_OFFICE}value-type", "string")
        if said.get(_IS_ERROR) == "error":
            return None
        if kind in {"float", "percentage", "currency"}:
            return number_text(said.get(f"{_OFFICE}value", ""))
        if kind == "date":
            return without_midnight(said.get(f"{_OFFICE}date-value", "")) or None
        if kind == "time":
            time = _TIME.fullmatch(said.get(f"{_OFFICE}time-value", ""))
            return ":".join(part.zfill(2) for part in time.groups()[:3]) if time else None
        if kind == "boolean":
            return TRUTH.get(said.get(f"{_OFFICE}boolean-value", ""))
        return said.get(f"{_OFFICE}string-value", text)


def _times(said: Mapping[str, str], key: str) -> int:
    written = said.get(f"{_TABLE}{key}", "1")
    return max(1, int(written)) if written.isdecimal() and len(written) < 10 else 1


def _ods_parts(rows: Iterable[Sequence[str]], sheet: str) -> dict[str, str]:
    from xml.sax.saxutils import quoteattr  # here, as it loads what opens addresses

    cells = "".join(
        "<t:table-row>"
        + "".join(f"<t:table-cell o:string-value={quoteattr(cell)}/>" for cell in row)
        + "</t:table-row>"
        for row in rows
    )
    spaces = f'xmlns:o="{_OFFICE.strip()}" xmlns:t="{_TABLE.strip()}"'
    return {
        "mimetype": "application/vnd.oasis.opendocument.spreadsheet",
        "content.xml": f"<o:document-content {spaces}><o:body><o:spreadsheet><t:table t:name={quoteattr(sheet)}>{cells}"
        "</t:table></o:spreadsheet></o:body></o:document-content>",
    }


def write_ods(rows: Iterable[Sequence[str]], sheet: str = "Table") -> bytes:
    """Return a workbook of one sheet whose cells are all texts."""
    return packed(_ods_parts(rows, sheet))
