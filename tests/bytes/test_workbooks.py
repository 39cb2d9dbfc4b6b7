"""Workbooks, .xlsx and .ods: what each cell becomes, what is refused in which words, and how little is held."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable

import pytest
from sheets import STRINGS, ods, ods_row, xlsx, xlsx_row, zipped

from synth.errors import TableError
from synth.reading.more.workbooks import Workbook, sheet_rows
from synth.schema import TableFormat
from synth.services.inspection import inspect_header
from synth.system.settings import ReaderLimits

HEAD = xlsx_row(["a", "b"], ' r="1"')
CANARY = "Zanzibar-7391846"


def cell(xml: str) -> str | None:
    """Return what one cell of an .xlsx file becomes."""
    (row,) = list(sheet_rows(io.BytesIO(xlsx(f'<row>{xml}<c r="B1"><v>1</v></c></row>'))))
    return row[0]


@pytest.mark.parametrize(("reference", "place"), [("A1", 0), ("Z9", 25), ("AA1", 26), ("BC70", 54), ("XFD1", 16_383)])
def test_a_reference_names_its_column(reference: str, place: int) -> None:
    (row,) = list(sheet_rows(io.BytesIO(xlsx(f'<row><c r="{reference}"><v>7</v></c></row>'))))
    assert [number for number, text in enumerate(row) if text == "7"] == [place]


@pytest.mark.parametrize(
    ("xml", "text"),
    [
        ("<c><v>47</v></c>", "47"),
        ("<c><v>0.10000000000000001</v></c>", "0.1"),
        ("<c><v>1E-3</v></c>", "0.0010"),
        ("<c><v>1.234</v></c>", "1.2340"),  # so that a point between thousands cannot be read into it
        ("<c><v>-0</v></c>", "0"),
        ("<c><v>12345678901234567890</v></c>", "12345678901234567890"),
        ("<c><v>1e400</v></c>", None),
        ("<c><v>47 kg</v></c>", None),
        ('<c t="s"><v>1</v></c>', STRINGS[1]),
        ('<c t="s"><v>6</v></c>', None),
        ('<c t="b"><v>1</v></c>', "TRUE"),
        ('<c t="e"><v>#N/A</v></c>', None),
        ('<c t="str"><f>1+1</f><v>two</v></c>', "two"),
        ("<c><f>1+1</f><v>2</v></c>", "2"),
        ('<c s="1"><v>44259</v></c>', "2021-03-04"),
        ('<c s="2"><v>44259.5</v></c>', "2021-03-04T12:00:00"),
        ('<c s="4"><v>0.25</v></c>', "06:00:00"),
        ('<c s="1"><v>1</v></c>', "1900-01-01"),
        ('<c s="1"><v>60</v></c>', None),  # the 29 February 1900 that Excel counts
        ('<c s="1"><v>61</v></c>', "1900-03-01"),
        ('<c s="3"><v>1.5</v></c>', "1.5"),  # "days" in quotes are no part of a date
        ('<c s="5"><v>0.45</v></c>', "0.45"),
        ('<c s="6"><v>1.5</v></c>', "1.5"),  # hours that passed are a number of days
        ('<c t="inlineStr"><is><r><t>Ay</t></r><r><t>r</t></r><rPh><t>spoken</t></rPh></is></c>', "Ayr"),
        ('<c t="inlineStr"><is><t>a_x000A_b</t></is></c>', "a\nb"),
        ('<c s="1"/>', ""),
    ],
)
def test_a_cell_of_xlsx_becomes_a_text_by_a_fixed_rule(xml: str, text: str | None) -> None:
    assert cell(xml) == text


@pytest.mark.parametrize(
    ("xml", "text"),
    [
        ('<t:table-cell o:value-type="float" o:value="1.5"><p:p>1,50 €</p:p></t:table-cell>', "1.5"),
        ('<t:table-cell o:value-type="percentage" o:value="0.45"/>', "0.45"),
        ('<t:table-cell o:value-type="date" o:date-value="2021-03-04T00:00:00"/>', "2021-03-04"),
        ('<t:table-cell o:value-type="time" o:time-value="PT06H00M00S"/>', "06:00:00"),
        ('<t:table-cell o:value-type="boolean" o:boolean-value="false"/>', "FALSE"),
        ('<t:table-cell calcext:value-type="error" o:value-type="string"><p:p>#N/A</p:p></t:table-cell>', None),
        (
            "<t:table-cell><o:annotation><p:p>note</p:p></o:annotation><p:p>a<p:s p:c='2'/>b</p:p></t:table-cell>",
            "a  b",
        ),
        ("<t:table-cell><p:p>a</p:p><p:p>b</p:p></t:table-cell>", "a\nb"),
        ("<t:covered-table-cell/>", ""),
    ],
)
def test_a_cell_of_ods_becomes_a_text_by_a_fixed_rule(xml: str, text: str | None) -> None:
    (row,) = list(sheet_rows(io.BytesIO(ods(f"<t:table-row>{xml}<t:table-cell o:string-value='1'/></t:table-row>"))))
    assert row[0] == text


def names_and_rows(data: bytes, form: TableFormat | None = None) -> tuple[tuple[str, ...], list[list[str | None]]]:
    book = Workbook(io.BytesIO(data), form or TableFormat(), ReaderLimits())
    rows = [list(row) for columns, _ in book.batches(range(len(book.names))) for row in zip(*columns, strict=True)]
    return book.names, [[one.as_py() for one in row] for row in rows]


def test_rows_without_a_value_are_none_wherever_they_stand() -> None:
    rows = HEAD + '<row r="3"><c s="1"/></row>' + xlsx_row(["1", ""]) + '<row r="99"/>' + xlsx_row(["", "2"])
    beside = '<row><c r="G9"><v>7</v></c></row>'
    assert names_and_rows(xlsx(rows + beside)) == (("a", "b"), [["1", ""], ["", "2"]])
    repeated = '<t:table-row t:number-rows-repeated="1048570"><t:table-cell/></t:table-row>'
    twice = ods_row(["1", "2"]).replace("<t:table-row", '<t:table-row t:number-rows-repeated="2"')
    assert names_and_rows(ods(ods_row(["a", "b"]) + repeated + twice + repeated))[1] == [["1", "2"], ["1", "2"]]


def test_names_stand_where_it_is_declared() -> None:
    top = xlsx_row(["A survey"], ' r="2"') + xlsx_row(["", "income", ""], ' r="4"') + xlsx_row(["id", "2019", "2020"])
    form = TableFormat(skip_rows=2, header_rows=2)
    assert names_and_rows(xlsx(top + xlsx_row(["1", "2", "3"])), form) == (
        ("id", "income_2019", "income_2020"),
        [["1", "2", "3"]],
    )
    made = xlsx_row(["# made by hand"]) + HEAD + xlsx_row(["# 1", "2"])
    assert names_and_rows(xlsx(made), TableFormat(comment="#")) == (("a", "b"), [["# 1", "2"]])
    named = TableFormat(header=False, kind="xlsx", names=("x", "y"))
    assert names_and_rows(xlsx(xlsx_row(["1", "2"])), named) == (("x", "y"), [["1", "2"]])


@pytest.mark.parametrize(
    "cell",
    [
        '<c t="zz"><v>1</v></c>',
        '<c t="n"><v>xx</v></c>',
        '<c t="b"><v>7</v></c>',
        '<c t="s"><v>99</v></c>',
        '<c t="s"><v>-1</v></c>',
        '<c t="s"><v>x</v></c>',
        '<c t="e"><v>#WEIRD</v></c>',
        '<c t="e"><v>#DIV/0!</v></c>',
        '<c s="1"><v>-5</v></c>',
        '<c s="1"><v>99999999</v></c>',
        '<c t="inlineStr"><is><t>_xD800_</t></is></c>',
    ],
)
def test_no_cell_decides_what_is_read_of_other_rows(cell: str) -> None:
    # In a library that was tried each of these ends the reading of the sheet, takes a row away or is another's text.
    data = xlsx(f"{HEAD}{xlsx_row(['1', '2'])}<row>{cell}</row>{xlsx_row(['3', '4'])}")
    assert names_and_rows(data)[1] == [["1", "2"], [None, ""], ["3", "4"]]


@pytest.mark.parametrize("row", ['<row r="1048576"><c r="XFD1048576"><v>9</v></c></row>', '<row><c r="!!"/></row>'])
def test_a_value_far_from_the_table_is_none_of_it(row: str) -> None:
    assert names_and_rows(xlsx(HEAD + xlsx_row(["1", "2"]) + row))[1] == [["1", "2"]]


def test_days_count_from_1904_where_the_workbook_says_so() -> None:
    data = xlsx(f'{HEAD}<row><c s="1"><v>42797</v></c></row>', date1904=True)
    assert names_and_rows(data)[1] == [["2021-03-04", ""]]


def test_merged_cells_have_their_value_in_the_first() -> None:
    data = xlsx(
        HEAD + xlsx_row(["1", "x"]) + xlsx_row(["2", ""]), behind='<mergeCells><mergeCell ref="B2:B3"/></mergeCells>'
    )
    assert names_and_rows(data)[1] == [["1", "x"], ["2", ""]]


def test_a_sheet_is_named_where_there_are_several() -> None:
    data = xlsx(HEAD + xlsx_row(["1", "2"]), sheets={"Notes": "visible", "Codes": "hidden"})
    with pytest.raises(TableError, match=r"^The workbook has 2 sheets: 'People' and 'Notes'\. Say which one") as caught:
        inspect_header(io.BytesIO(data))
    assert (caught.value.key, caught.value.choices) == ("sheet", ("People", "Notes"))
    with pytest.raises(TableError, match="There is no sheet 'Peeple'"):
        names_and_rows(data, TableFormat(sheet="Peeple"))
    assert inspect_header(io.BytesIO(data), TableFormat(sheet="People")).names == ("a", "b")
    assert list(sheet_rows(io.BytesIO(data), "Codes")) == [["1"]]
    assert names_and_rows(xlsx(HEAD + xlsx_row(["1", "2"]), sheets={"Codes": "hidden"}))[0] == ("a", "b")


DTD = b'<!DOCTYPE x [<!ENTITY a "aaaa">]>'


def broken(change: Callable[[bytes], bytes]) -> bytes:
    return change(xlsx(HEAD + xlsx_row([CANARY, "2"])))


def without_end(data: bytes) -> bytes:
    parts = {one: zipfile.ZipFile(io.BytesIO(data)).read(one) for one in zipfile.ZipFile(io.BytesIO(data)).namelist()}
    return zipped(parts | {"xl/sheet1.xml": parts["xl/sheet1.xml"][:-20]})


def with_entities(data: bytes) -> bytes:
    parts = {one: zipfile.ZipFile(io.BytesIO(data)).read(one) for one in zipfile.ZipFile(io.BytesIO(data)).namelist()}
    return zipped(parts | {"xl/sheet1.xml": DTD + parts["xl/sheet1.xml"]})


def locked(data: bytes) -> bytes:
    found = data.index(b"PK\x01\x02")
    while found >= 0:
        data = data[: found + 8] + b"\x01" + data[found + 9 :]
        found = data.find(b"PK\x01\x02", found + 1)
    return data


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (broken(lambda data: data[: len(data) // 2]), "The workbook is damaged or cut short."),
        (broken(without_end), "The workbook is damaged or cut short."),
        (broken(with_entities), "The workbook contains a document type, which no spreadsheet writes."),
        (broken(locked), "The workbook is protected by a password."),
        (zipped({"table.csv": b"a,b\n1,2\n"}), "This is a zip file without a workbook in it."),
        (zipped({"content.xml": b"<a/>"}), "The workbook has no sheet with cells."),
        (xlsx(""), "The sheet is empty."),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600), "The workbook is damaged or cut short."),
    ],
    ids=["cut", "no end", "entities", "password", "zip", "no sheet", "empty", "old"],
)
def test_what_cannot_be_read_is_refused_in_one_sentence_without_a_cell(data: bytes, sentence: str) -> None:
    with pytest.raises(TableError) as caught:
        inspect_header(io.BytesIO(data))
    assert str(caught.value).startswith(sentence)
    assert CANARY not in str(caught.value)


def test_a_zip_bomb_and_a_huge_sheet_end_at_the_limits() -> None:
    data = xlsx(HEAD + "<row/>" * 300_000 + xlsx_row(["1", "2"]))
    with pytest.raises(TableError, match="The table inside the workbook is larger than 1 MB"):
        inspect_header(io.BytesIO(data), limits=ReaderLimits(text_bytes=2**20))
    many = ods_row(["1", "2"]).replace("<t:table-row", '<t:table-row t:number-rows-repeated="999999999"')
    with pytest.raises(TableError, match="more than 5,000 rows"):
        inspect_header(io.BytesIO(ods(ods_row(["a", "b"]) + many)), limits=ReaderLimits(rows=5_000))
    # A thousand rows may stand above a table of sixteen.
    limits = ReaderLimits(rows=16)
    assert len(list(sheet_rows(io.BytesIO(xlsx(xlsx_row(["1"]) * 1_016)), limits=limits))) == 1_016
    with pytest.raises(TableError, match="more than 16 rows"):
        list(sheet_rows(io.BytesIO(xlsx(xlsx_row(["1"]) * 1_017)), limits=limits))
    texts = xlsx(HEAD + xlsx_row(["x" * 2_000_000, "2"]))
    assert inspect_header(io.BytesIO(texts)).n_rows == 1
