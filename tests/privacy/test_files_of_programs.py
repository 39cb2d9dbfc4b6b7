"""Files of SPSS, Stata, SAS, .xls and .xlsb: what their cells are read as, and what is refused in one sentence."""

from __future__ import annotations

import datetime
import io
import struct
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyreadstat
import pytest
from typed_files import STATISTICAL, record, sas7bdat, statistical, xls, xlsb, xlsb_row

from synth.errors import MissingPackageError, TableError
from synth.reading.files import open_batches
from synth.reading.more.statistical import Described, moments, moments_of
from synth.schema import TableFormat
from synth.schema.encoding import texts_of
from synth.services.inspection import Header, inspect_header
from synth.system.settings import ReaderLimits

CANARY = "cell-of-a-person"
DAY = datetime.date(2021, 3, 4)
MOMENT = datetime.datetime(2021, 3, 4, 5, 6, 7)


def cells(data: bytes, form: TableFormat | None = None, limits: ReaderLimits | None = None) -> dict[str, list[Any]]:
    """Return the texts of every column, None for a missing or malformed cell."""
    opened = opened_here(data, form, limits)
    found: dict[str, list[Any]] = {name: [] for name in opened.names}
    for batch in opened.read(range(len(opened.names))):
        for name, column in zip(opened.names, batch.columns, strict=True):
            plain = column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
            found[name] += texts_of(plain).to_pylist()
    return found


def opened_here(data: bytes, form: TableFormat | None = None, limits: ReaderLimits | None = None) -> Any:
    return open_batches(io.BytesIO(data), form or TableFormat(), limits or ReaderLimits(), ranges=io.BytesIO(data))


def malformed(data: bytes, form: TableFormat | None = None) -> dict[str, int]:
    opened = opened_here(data, form)
    (batch,) = opened.read(range(len(opened.names)))
    return dict(zip(opened.names, batch.malformed, strict=True))


PEOPLE = pd.DataFrame({
    "sex": [1.0, 2.0, 9.0, np.nan, 3.0],
    "income": [0.1, 1250.0, -3.5, np.nan, 2.0**52],
    "town": ["Ayr", "São Paulo", "", "Bath, Avon", "x" * 300],
    "born": [DAY, None, DAY, DAY, DAY],
    "seen": [MOMENT] * 4 + [None],
    "rose": [datetime.time(5, 6, 7)] * 4 + [None],
})  # fmt: skip
READ = {
    "sex": ["male", "female", "refused", None, "3"],
    "income": ["0.1", "1250", "-3.5", None, "4503599627370496"],
    "town": ["Ayr", "São Paulo", "", "Bath, Avon", "x" * 300],
    "born": ["2021-03-04", None, "2021-03-04", "2021-03-04", "2021-03-04"],
    "seen": ["2021-03-04 05:06:07.000"] * 4 + [None],
    "rose": ["05:06:07"] * 4 + [None],
}
LABELS = {"sex": {1: "male", 2: "female", 9: "refused"}}


def people(kind: str, **said: Any) -> tuple[bytes, dict[str, list[Any]]]:
    """Return a file of people as a program writes it, and what it is read as."""
    dropped = ["rose"] if kind == "dta" else []
    table, read = PEOPLE.drop(columns=dropped), {key: list(v) for key, v in READ.items() if key not in dropped}
    if kind.startswith("xpt"):
        table = table.assign(town=table.town.str[:200])
        read |= {"sex": ["1", "2", "9", None, "3"], "town": [text[:200] for text in READ["town"]]}
        return statistical(kind, table, **said), read
    return statistical(kind, table, variable_value_labels=LABELS, **said), read


@pytest.mark.parametrize("kind", STATISTICAL)
def test_cells_are_read_as_labels_numbers_texts_and_dates(kind: str) -> None:
    data, read = people(kind)
    assert cells(data) == read
    assert set(malformed(data).values()) == {0}


@pytest.mark.parametrize("kind", ["sav", "dta"])
def test_codes_are_read_where_labels_are_not_wanted(kind: str) -> None:
    codes = ["1", "2", "9", None, "3"]
    data = people(kind)[0]
    assert cells(data, TableFormat(labels=False))["sex"] == codes
    assert cells(data, TableFormat(labels=("sex",)))["sex"] == READ["sex"]
    assert cells(data, TableFormat(labels=("income",)))["sex"] == codes
    with pytest.raises(TableError, match="'labels' lists 'age', but no column"):
        cells(data, TableFormat(labels=("age",)))


def test_codes_that_mean_missing_are_missing_and_have_no_label() -> None:
    data = people(
        "sav", missing_ranges={"sex": [{"lo": 8, "hi": 9}], "town": ["Ayr"]}, column_labels={"sex": "Sex at birth"}
    )[0]
    assert cells(data)["sex"] == ["male", "female", None, None, "3"]
    assert cells(data)["town"][:2] == [None, "São Paulo"]
    assert set(malformed(data).values()) == {0}
    assert opened_here(data).described[0] == Described(
        "Sex at birth", "number", (("male", "male"), ("female", "female"))
    )
    assert opened_here(data, TableFormat(labels=False)).described[0].values == (("1", "male"), ("2", "female"))
    tagged = pd.DataFrame({"a": [1.0, "a", "z"]})
    stata = statistical(
        "dta", tagged, missing_user_values={"a": ["a", "z"]}, variable_value_labels={"a": {1: "one", "a": "refused"}}
    )
    assert cells(stata) == {"a": ["one", None, None]}
    assert opened_here(stata).described[0].values == (("one", "one"),)


def test_labels_of_texts_and_blank_labels() -> None:
    table = pd.DataFrame({"town": ["a", "b", "c"], "n": [1.0, 2.0, 3.0]})
    said = {"town": {"a": "Ayr", "b": " "}, "n": {1: "", 2: "two"}}
    assert cells(statistical("sav", table, variable_value_labels=said)) == {
        "town": ["Ayr", "b", "c"],
        "n": ["1", "two", "3"],
    }


def test_sas_itself_writes_dates_in_many_formats() -> None:
    read = cells(sas7bdat())
    assert {name: column[0] for name, column in read.items()} == {
        "patno": "1001", "dtc1": "2022-01-01", "dtc2": "1970-11-14", "dtc3": "1999-12-31", "dtc4": "2023-07-01",
        "tm1": "11:20:10", "dt1": "2020-12-09 14:05:00.000", "dt2": "2001-02-13 23:23:00.000", "yr": "2023-01-01",
    }  # fmt: skip


COUNTED = [
    ("sav", "DATE11", 13834195200.0, "2021-03-04"),
    ("sav", "ADATE10", 86400.0, "1582-10-15"),
    ("sav", "MOYR8", 13834195200.0, "2021-03-04"),
    ("sav", "DATETIME20", 13834213567.0, "2021-03-04 05:06:07.000"),
    ("sav", "TIME8", 86399.0, "23:59:59"),
    ("sav", "TIME8", 86400.0, None),
    ("sav", "DTIME10", 86400.0, "86400"),
    ("sav", "F8.2", 1.5, "1.5"),
    ("sav", "DATE11", 1e300, None),
    ("sav", "DATE11", -1e12, None),
    ("dta", "%td", 22343.0, "2021-03-04"),
    ("dta", "%d", -1.0, "1959-12-31"),
    ("dta", "%-tdD_m_Y", 0.0, "1960-01-01"),
    ("dta", "%tdCCYY-NN-DD", 0.0, "1960-01-01"),
    ("dta", "%tc", 1930453567000.0, "2021-03-04 05:06:07.000"),
    ("dta", "%tC", 1930453594000.0, "2021-03-04 05:06:07.000"),
    ("dta", "%tC", 394329600000.0, "1972-06-30 00:00:00.000"),
    ("dta", "%tcHH:MM:SS", 18367000.0, "05:06:07"),
    ("dta", "%tcDDmonCCYY_HH:MM", 18367000.0, "1960-01-01 05:06:07.000"),
    ("dta", "%tw", 52.0 * 61 + 9, "2021-03-05"),
    ("dta", "%tm", 12.0 * 61 + 2, "2021-03-01"),
    ("dta", "%tq", -1.0, "1959-10-01"),
    ("dta", "%th", 1.0, "1960-07-01"),
    ("dta", "%ty", 2021.0, "2021"),
    ("dta", "%tbcalendar", 7.0, "7"),
    ("dta", "%tm", 1e9, None),
    ("dta", "%9.0g", 2.0, "2"),
    ("xpt", "DATE9", 22343.0, "2021-03-04"),
    ("xpt", "E8601DA10", 22343.7, "2021-03-04"),
    ("xpt", "YYMMDDN8", -138061.0, "1582-01-01"),
    ("xpt", "DATETIME20.3", 1930453567.25, "2021-03-04 05:06:07.250"),
    ("xpt", "TOD8", 18367.0, "05:06:07"),
    ("xpt", "BEST12", 5.0, "5"),
    ("xpt", "DOLLAR8.2", 5.0, "5"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "written", "number", "text"), COUNTED)
def test_numbers_are_dates_by_the_declared_format(kind: str, written: str, number: float, text: str | None) -> None:
    counts = moments_of(kind, written)
    if not counts:
        assert texts_of(pa.array([number])).to_pylist() == [text]
        return
    read, odd = moments(np.array([number, np.nan]), counts, kind)
    assert texts_of(read).to_pylist() == [text, None]
    assert odd == (text is None)


@pytest.mark.parametrize("kind", ["sav", "dta", "xpt"])
def test_bytes_in_another_encoding_spoil_only_their_own_cells(kind: str) -> None:
    table = pd.DataFrame({"town": ["Z@@rich", "Ayr", "M@@lheim"]})
    data = statistical(kind, table).replace(b"@@", b"\xfc ")
    assert (cells(data)["town"], malformed(data)["town"]) == ([None, "Ayr", None], 2)
    assert cells(data, TableFormat(encoding="cp1252"))["town"] == ["Zü rich", "Ayr", "Mü lheim"]


def test_a_file_is_read_in_the_encoding_that_it_names() -> None:
    table = pd.DataFrame({"town": ["Zuerich", "Ayr"]})
    plain = statistical("sav", table).replace(b"ue", b"\xfc ")
    assert cells(plain.replace(b"UTF-8", b"cp866", 1))["town"] == ["Z№ rich", "Ayr"]
    with pytest.raises(TableError, match="not supported") as refused:
        cells(plain.replace(b"UTF-8", b"UTF-7", 1))
    assert refused.value.key == "encoding"
    named = statistical("sav", table, column_labels={"town": "Stuetz"}).replace(b"Stue", b"St\xfc ")
    with pytest.raises(TableError, match="name or a label in the file is not in the encoding that it says") as refused:
        cells(named)
    assert refused.value.key == "encoding"
    assert opened_here(named, TableFormat(encoding="cp1252")).described[0].label == "Stü tz"


SHEET = [
    ["a", "b", "c", "d"],
    [1.5, "São", True, 0.45],
    [None, "x", DAY, MOMENT],
    [1.234, None, datetime.time(5, 6), 7.0],
]
SHEET_READ = {
    "a": ["1.5", "", "1.2340"],
    "b": ["São", "x", ""],
    "c": ["TRUE", "2021-03-04", "05:06:00"],
    "d": ["0.45", "2021-03-04T05:06:07", "7"],
}


def test_old_and_binary_workbooks_are_read_as_others_are() -> None:
    assert cells(xls(SHEET)) == SHEET_READ
    assert cells(xls(SHEET, hidden=[["code"]])) == SHEET_READ
    assert cells(xls([["Title"], [None], *SHEET]), TableFormat(skip_rows=2)) == SHEET_READ
    plain = [["a", "b"], [1.0, "x"], [None, None], [None, False], [b"\x2a", "y"]]
    # A row without a value is no row, and an error is an empty cell.
    assert cells(xlsb(plain)) == {"a": ["1", "", ""], "b": ["x", "FALSE", "y"]}
    assert cells(xlsb(plain, more=xlsb_row(6, {1: "z", 200: 5.0})))["b"] == ["x", "FALSE", "y", "z"]
    with pytest.raises(TableError, match=r"not an \.xlsx file"):
        cells(xlsb(plain), TableFormat(kind="xlsx"))
    with pytest.raises(TableError, match=r"This is an old Excel file \(\.xls\), but the format says xlsx"):
        cells(xls(SHEET), TableFormat(kind="xlsx"))
    with pytest.raises(TableError, match="There is no sheet 'Peeple'"):
        cells(xls(SHEET), TableFormat(sheet="Peeple"))


# What is refused ------------------------------------------------------------------------------------------------------

SAV = statistical("sav", pd.DataFrame({"a": [CANARY] * 50, "b": 1.0}))
DTA = statistical("dta", pd.DataFrame({"a": [CANARY] * 50, "b": 1.0}))
XPT = statistical("xpt", pd.DataFrame({"a": [CANARY] * 50, "b": 1.0}))
XLS = xls([["a", "b"], [CANARY, 2.0]])
XLSB = xlsb([["a", "b"], [CANARY, 2.0]])


def stata_that_claims(mark: bytes, number: bytes) -> bytes:
    place = DTA.index(mark) + len(mark)
    return DTA[:place] + number + DTA[place + len(number) :]


def with_sheet(data: bytes) -> bytes:
    """Return an .xlsb file with another sheet in it."""
    made = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(XLSB)) as before, zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as after:
        for name in before.namelist():
            after.writestr(name, data if name.endswith("sheet1.bin") else before.read(name))
    return made.getvalue()


DAMAGED = {
    "spss": "The SPSS file is damaged, cut short, or of a version that is not supported.",
    "stata": "The Stata file is damaged, cut short, or of a version that is not supported.",
    "sas": "The SAS file is damaged, cut short, or of a version that is not supported.",
    "transport": "The SAS transport file is damaged, cut short, or of a version that is not supported.",
    "workbook": "The workbook is damaged or cut short.",
}


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        *((SAV[:size], DAMAGED["spss"]) for size in (20, 100, 300, len(SAV) // 2, len(SAV) - 4)),
        *((DTA[:size], DAMAGED["stata"]) for size in (20, 100, 300, len(DTA) // 2)),
        *((XPT[:size], DAMAGED["transport"]) for size in (60, 240, 1203)),
        *((sas7bdat()[:size], DAMAGED["sas"]) for size in (100, 70_000, 131_071)),
        *((XLS[:size], DAMAGED["workbook"]) for size in (300, 600, 3_000)),
        (XLSB[: len(XLSB) // 2], DAMAGED["workbook"]),
        (with_sheet(b""), DAMAGED["workbook"]),
        (with_sheet(record(129) + record(145) + bytes([6, 0xFF, 0xFF, 0xFF, 0x7F])), DAMAGED["workbook"]),
        (stata_that_claims(b"<K>", b"\xff\xff"), DAMAGED["stata"]),
        (stata_that_claims(b"<N>", struct.pack("<Q", 10**7)), DAMAGED["stata"]),
        (stata_that_claims(b"<N>", struct.pack("<Q", 10**9)), "The table has more than 120,000,000 rows"),
        (b"$FL2@(#)" + bytes(400), DAMAGED["spss"]),
        (b"\x72\x02\x01\x00" + bytes(400), DAMAGED["stata"]),
        (XLS[:512] + "EncryptedPackage".encode("utf-16-le") + bytes(600), "The workbook is protected by a password."),
    ],
)
def test_what_is_damaged_is_refused_in_one_sentence_without_a_cell(data: bytes, sentence: str) -> None:
    with pytest.raises(TableError) as refused:
        cells(data)
    assert str(refused.value).startswith(sentence)
    assert CANARY not in str(refused.value)


def test_what_a_program_writes_beside_tables_is_refused_with_the_way_out() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.por"
        pyreadstat.write_por(pd.DataFrame({"A": [CANARY, "x"]}), str(path))
        portable = path.read_bytes()
    catalogue = bytes(12) + bytes.fromhex("c2ea8163b31411cfbd92080009c7318c") + CANARY.encode()
    for data, sentence in (
        (portable, r"portable file of SPSS \(\.por\), .* save it as \.sav\.$"),
        (catalogue, r"catalogue of SAS \(\.sas7bcat\), .* declare the labels"),
    ):
        with pytest.raises(TableError, match=sentence) as refused:
            cells(data)
        assert CANARY not in str(refused.value)


def test_limits_on_rows_columns_and_bytes() -> None:
    wide = statistical("sav", pd.DataFrame({f"v{k}": [1.0] for k in range(30)}))
    with pytest.raises(TableError, match="The table has 30 columns; at most 20 are read"):
        cells(wide, limits=ReaderLimits(columns=20))
    for data in (SAV, XPT):
        with pytest.raises(TableError, match="more than 40 rows"):
            cells(data, limits=ReaderLimits(rows=40))
        with pytest.raises(
            TableError, match=r"The table inside the (SPSS|SAS transport) file is larger than 100 bytes"
        ):
            cells(data, limits=ReaderLimits(text_bytes=100))
    with pytest.raises(TableError, match="The workbook is larger than 1 kB"):
        cells(XLS, limits=ReaderLimits(memory_bytes=2**13))
    with pytest.raises(TableError, match="The table inside the workbook is larger than 1 MB"):
        cells(with_sheet(bytes(2**21)), limits=ReaderLimits(text_bytes=2**20))


def cyclic() -> bytes:
    """Return an .xls file whose directory goes round in a circle, in its table of sectors."""
    table = 512 * (struct.unpack_from("<I", XLS, 0x4C)[0] + 1)
    first = struct.unpack_from("<I", XLS, 0x30)[0]
    place = table + 4 * first
    return XLS[:place] + struct.pack("<I", first) + XLS[place + 4 :]


@pytest.mark.parametrize(
    "data",
    [cyclic(), xlsb([["a", "b"], [CANARY, 2.0]], more=xlsb_row(1_048_575, {16_383: 1.0}))],
    ids=["cyclic", "far"],
)
def test_what_would_need_all_memory_ends_its_process_with_one_sentence(data: bytes) -> None:
    with pytest.raises(TableError, match="the file is damaged, or needs more memory than is allowed"):
        inspect_header(io.BytesIO(data), limits=ReaderLimits(memory_bytes=2**29))


def test_labels_beyond_the_most_categories_are_not_passed_on() -> None:
    said = {"a": {float(code): f"label {code}" for code in range(10_050)}}
    data = statistical("sav", pd.DataFrame({"a": [1.0, 9_999.0]}), variable_value_labels=said)
    assert cells(data)["a"] == ["label 1", "label 9999"]
    assert len(opened_here(data).described[0].values) == 10_001


@pytest.mark.parametrize(
    ("data", "package"), [(SAV, "pyreadstat"), (XLS, "python-calamine"), (XLSB, "python-calamine")]
)
def test_a_missing_extra_is_named(data: bytes, package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, package.replace("-", "_"), None)
    with pytest.raises(MissingPackageError, match=rf"This needs {package}, .* pip install '\.\[files\]'"):
        cells(data)


def test_the_process_with_limits_says_what_a_file_says() -> None:
    data = statistical("sav", PEOPLE, variable_value_labels=LABELS, column_labels={"income": "per month"})
    found = inspect_header(io.BytesIO(data))
    assert found == Header(
        names=tuple(PEOPLE.columns),
        kinds=("category", "number", None, "date", "date", None),
        n_rows=5,
        described=found.described,
    )
    assert [one.kind for one in found.described] == ["number", "number", "text", "date", "date", "time"]
    assert found.described[1].label == "per month"
