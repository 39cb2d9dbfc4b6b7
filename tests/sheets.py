"""Workbooks as tests need them: any XML of rows in a zip as spreadsheets write it, .xlsx and .ods."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterable, Mapping
from xml.sax.saxutils import escape, quoteattr

from synth.reading.more.ods import _IS_ERROR, _WRITTEN, _ods_parts
from synth.reading.more.parts import packed
from synth.reading.more.xlsx import _xlsx_parts

STRINGS = ("Ayr", "Bath, Avon", "São Paulo", "Leith", "p1", "p2")
"""The texts that an .xlsx file of :func:`xlsx` keeps once for all cells."""

_MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_TYPE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_STYLES = (
    f'<styleSheet xmlns="{_MAIN}"><numFmts count="2"><numFmt numFmtId="170" formatCode="dd/mm/yyyy\\ hh:mm"/>'
    '<numFmt numFmtId="171" formatCode="0.0&quot; days&quot;"/></numFmts><cellXfs>'
    + "".join(f'<xf numFmtId="{number}"/>' for number in (0, 14, 170, 171, 21, 9, 46))
    + "</cellXfs></styleSheet>"
)
"""Styles by their places: general, a day, a moment, a number with letters behind it, a time, percent, hours passed."""


def xlsx(
    rows: str,
    *,
    behind: str = "",
    sheets: Mapping[str, str] | None = None,
    date1904: bool = False,
    strings: Iterable[str] = STRINGS,
    rows_of: Mapping[str, str] | None = None,
) -> bytes:
    """Return an .xlsx file: ``rows`` is what stands between the tags of ``sheetData``, ``behind`` what comes after.

    ``sheets`` are more sheets, by their names, each with its state, and ``rows_of`` what stands in them. ``strings``
    are kept once for all cells.
    """
    parts = _xlsx_parts([], "People")
    parts["xl/sheet1.xml"] = f'<worksheet xmlns="{_MAIN}"><sheetData>{rows}</sheetData>{behind}</worksheet>'
    parts["xl/styles.xml"] = _STYLES
    kept_once = "".join(f"<si><t>{escape(text)}</t></si>" for text in strings)
    parts["xl/sharedStrings.xml"] = f'<sst xmlns="{_MAIN}">{kept_once}</sst>'
    relations = [("rId1", "worksheet", "sheet1.xml"), ("rId2", "styles", "/xl/styles.xml")]
    relations += [("rId3", "sharedStrings", "sharedStrings.xml")]
    listed = '<sheet name="People" sheetId="1" r:id="rId1"/>'
    for number, (name, state) in enumerate((sheets or {}).items(), start=2):
        inside = (rows_of or {}).get(name, "<row><c><v>1</v></c></row>")
        parts[f"xl/sheet{number}.xml"] = f'<worksheet xmlns="{_MAIN}"><sheetData>{inside}</sheetData></worksheet>'
        relations.append((f"rId{number + 10}", "worksheet", f"sheet{number}.xml"))
        listed += f'<sheet name={quoteattr(name)} sheetId="{number}" r:id="rId{number + 10}" state="{state}"/>'
    parts["xl/_rels/workbook.xml.rels"] = (
        '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">'
        + "".join(f'<Relationship Id="{key}" Type="{_TYPE}/{kind}" Target="{to}"/>' for key, kind, to in relations)
        + "</Relationships>"
    )
    parts["xl/workbook.xml"] = (
        f'<workbook xmlns="{_MAIN}" xmlns:r="{_TYPE}"><workbookPr date1904="{int(date1904)}"/><sheets>{listed}</sheets>'
        "</workbook>"
    )
    return packed(parts)


def ods(rows: str) -> bytes:
    """Return an .ods file: ``rows`` is what stands between the tags of its only table."""
    parts = _ods_parts([], "People")
    start, end = parts["content.xml"].split("</t:table>")
    spaces = f'xmlns:p="{_WRITTEN.strip()}" xmlns:calcext="{_IS_ERROR.partition(" ")[0]}"'
    beginning = start.replace("<o:document-content ", f"<o:document-content {spaces} ", 1)
    parts["content.xml"] = f"{beginning}{rows}</t:table>{end}"
    return packed(parts)


def ods_text(cell: str) -> str:
    """Return a cell of one paragraph."""
    return (
        f'<t:table-cell o:value-type="string"><p:p>{escape(cell)}</p:p></t:table-cell>' if cell else "<t:table-cell/>"
    )


def xlsx_row(cells: Iterable[str], row: str = "") -> str:
    """Return a row of texts as cells that hold their own text."""
    held = "".join(
        f'<c t="inlineStr"><is><t xml:space="preserve">{escape(cell)}</t></is></c>' if cell else "<c/>"
        for cell in cells
    )
    return f"<row{row}>{held}</row>"


def ods_row(cells: Iterable[str]) -> str:
    """Return a row of texts as cells of one paragraph."""
    return f"<t:table-row>{''.join(map(ods_text, cells))}</t:table-row>"


def zipped(parts: Mapping[str, bytes], *, method: int = zipfile.ZIP_DEFLATED) -> bytes:
    """Return any zip."""
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", method) as made:
        for name, data in parts.items():
            made.writestr(name, data)
    return target.getvalue()
