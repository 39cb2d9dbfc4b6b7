"""Rows written as the private table is: read again by its reader they are the same codes, for every type of column."""

from __future__ import annotations

import datetime
import io
from pathlib import Path

import numpy as np
import pytest
from golden_bundles import GOLDEN, golden

import synth
from synth.bundle.as_declared import write_as_declared
from synth.cli.commands import main
from synth.errors import TableError
from synth.reading.reader import read_codes
from synth.schema import (
    CategoryColumn,
    Column,
    DateColumn,
    DateStep,
    DropColumn,
    IdentifierColumn,
    NumberColumn,
    Schema,
    TableFormat,
    TimeColumn,
    TimeStep,
    YesNoColumn,
)
from synth.schema.columns import COLUMN_TYPES

BUNDLE = golden("dp-hp-adaptive")
FIRST, LAST = datetime.date(1999, 12, 30), datetime.date(2001, 2, 3)

COLUMNS: dict[str, tuple[Column, ...]] = {
    "number": (
        NumberColumn("income", -2000, 3_000_000, 500, special=(-9.0, 99.0), missing=True),
        NumberColumn("dose", -1, 1, 0.25, missing=True),
        NumberColumn("weight", 0, 100, 0.5, decimal=",", thousands=None, units=("kg",), missing=True),
        NumberColumn("certain", 0, 9, 1, fallback=0),
    ),
    "category": (
        CategoryColumn("town", ("NA", "x;y", 'say "no"', "Zürich", "1", "0.5"), missing=True, other=True),
        CategoryColumn("sum", ("=1+1", "-", "b"), fallback="b"),
    ),
    "yes_no": (YesNoColumn("smoker", yes="1", no="2", missing=True), YesNoColumn("urban", fallback="no")),
    "date": (
        DateColumn("born", FIRST, LAST, DateStep.DAY, pattern="%d.%m.%Y", missing=True),
        DateColumn("seen", FIRST, LAST, DateStep.DAY, missing=True),
        DateColumn("month", FIRST, LAST, DateStep.MONTH, pattern=("%b %Y", "%Y-%m"), missing=True),
        DateColumn("old", datetime.date(1950, 1, 1), LAST, DateStep.YEAR, pattern="%d/%m/%y", fallback=FIRST),
    ),
    "time": (
        TimeColumn("wakes", step=TimeStep.QUARTER, pattern="%I:%M %p", missing=True),
        TimeColumn("sleeps", datetime.time(18), datetime.time(23, 59), TimeStep.HOUR, missing=True),
        TimeColumn("seen at", step=TimeStep.MINUTE, of="seen", missing=True),
    ),
    "identifier": (IdentifierColumn("id"),),
    "drop": (DropColumn("note"),),
}
SCHEMA = Schema(tuple(column for own in COLUMNS.values() for column in own))
NAMES = SCHEMA.printed

FORMATS = {
    "as everybody writes": TableFormat(),
    "german": TableFormat(
        separator=";", encoding="latin-1", decimal=",", thousands=".", missing=("", "k. A."), dates=("%d.%m.%Y",)
    ),
    "american": TableFormat(thousands=",", units=("$",), missing=("NA", ""), dates=("%m/%d/%Y", "%m/%d/%Y %H:%M")),
    "forms with times first": TableFormat(dates=("%d.%m.%Y %H:%M", "%d.%m.%Y"), missing=("", "NA")),
    "tabs": TableFormat(kind="tsv", missing=("-9", "unknown"), encoding="utf-16"),
    "no header": TableFormat(
        header=False, separator=",", names=("note", *(column.name for column in reversed(NAMES))), missing=("NA", "")
    ),
    "several lines of names": TableFormat(header_rows=3, names_from=2, skip_rows=2, missing=("", ".")),
    "tabs, names in the second line": TableFormat(separator="\t", header_rows=2, names_from=2, missing=("NA", "")),
    "joined names": TableFormat(header_rows=2, strip=False),
    "names of rows": TableFormat(row_names="id", separator=" ", missing=("NA", "")),
    "fixed positions": TableFormat(
        fields=tuple((column.name, 30 * place + 2, 30 * place + 25) for place, column in enumerate(NAMES)),
        missing=("", "NA"),
        strip=True,
        dates=("%d.%m.%Y",),
    ),
    "other names": TableFormat(rename=(("Einkommen, netto", "income"), ("Ort", "town"))),
}


def every_code(schema: Schema) -> np.ndarray:
    """Rows in which every code of a short column occurs, and of a long one the ends and some between."""
    rows = 700
    columns = []
    for column in schema.modelled:
        codes = np.arange(rows) % column.size
        if column.size > rows:
            codes = np.linspace(0, column.size - 1, rows).astype(int)
            codes[-4:] = np.arange(column.size - 4, column.size)
        columns.append(codes)
    return np.stack(columns, axis=1)


CODES = every_code(SCHEMA)
# In a cell without a date there is no time either.
DAY, TIME = (next(one for one in SCHEMA.modelled if one.name == name) for name in ("seen", "seen at"))
CODES[CODES[:, SCHEMA.names.index("seen")] == DAY.missing_code, SCHEMA.names.index("seen at")] = TIME.size - 1


def written(form: TableFormat, schema: Schema = SCHEMA, codes: np.ndarray = CODES) -> bytes:
    target = io.BytesIO()
    write_as_declared(codes, schema, form, target, seed=3)
    return target.getvalue()


def test_every_type_of_column_is_written() -> None:
    assert set(COLUMNS) == set(COLUMN_TYPES)


@pytest.mark.four_cases
@pytest.mark.parametrize("name", FORMATS)
def test_whoever_reads_the_private_table_reads_these_rows(name: str) -> None:
    form = FORMATS[name]
    declared = (
        SCHEMA
        if form.names is not None and "note" in form.names
        else Schema(tuple(one for one in SCHEMA.columns if one.name != "note"))
    )
    read = read_codes(lambda: io.BytesIO(written(form)), form, declared)
    for place, column in enumerate(SCHEMA.modelled):
        expected = CODES[:, place]
        assert column.texts(read._codes[column.name]) == column.texts(expected), column.name


def test_a_value_that_does_not_fit_its_positions_is_refused() -> None:
    schema, codes = Schema(COLUMNS["yes_no"]), np.array([[0, 1], [1, 0], [2, 1]])
    form = TableFormat(fields=(("urban", 4, 6), ("smoker", 2, 2)))
    assert written(form, schema, codes) == b" 2 yes\n 1 no \n   yes\n"
    for fields in ((("urban", 4, 5), ("smoker", 2, 2)), (("urban", 2, 6), ("smoker", 2, 2))):
        with pytest.raises(TableError, match=r"A value does not fit into positions . to . of a line"):
            written(TableFormat(fields=fields), schema, codes)


def test_names_of_rows_that_are_left_out_are_their_numbers() -> None:
    schema = Schema((DropColumn("row_name"), *COLUMNS["yes_no"]))
    form, codes = TableFormat(row_names="row_name"), np.array([[0, 1], [1, 0], [2, 1]])
    data = written(form, schema, codes)
    assert data.splitlines() == [b"smoker,urban", b"1,2,yes", b"2,1,no", b"3,,yes"]
    read = read_codes(lambda: io.BytesIO(data), form, schema)
    assert [read._codes[name].tolist() for name in ("smoker", "urban")] == codes.T.tolist()


@pytest.mark.parametrize(
    ("name", "column", "codes", "cells"),
    [
        ("german", "income", (0, 4, 5000, -3, -1), ["-2.000", "0", "2.498.000", "-9", "k. A."]),
        ("german", "dose", (0, 5, -1), ["-1,00", "0,25", "k. A."]),
        ("german", "born", (0, 3, -1), ["30.12.1999", "02.01.2000", "k. A."]),
        ("german", "seen", (0, -1), ["30.12.1999", "k. A."]),
        ("american", "income", (5000, -1), ["2,498,000 $", "NA"]),
        ("american", "weight", (3, -1), ["1,5 kg", "NA"]),
        ("american", "seen", (0, 3), ["12/30/1999", "01/02/2000"]),
        # What a column itself calls a value is no sign for a missing cell.
        ("american", "town", (0, -1), ["NA", ""]),
        ("american", "month", (2, -1), ["Feb 2000", "NA"]),
        ("american", "wakes", (0, 59, -1), ["12:00 AM", "02:45 PM", "NA"]),
        ("american", "sleeps", (0, 5, -1), ["18:00", "23:00", "NA"]),
        # Two digits of a year that Python takes for another century: as ISO writes it.
        ("american", "old", (0, 51), ["1950-01-01", "01/01/01"]),
        # Of dates alone no hour is said.
        ("forms with times first", "seen", (0, 3, -1), ["30.12.1999", "02.01.2000", "NA"]),
        ("tabs", "income", (-3, -1), ["-9", "unknown"]),
        ("tabs", "smoker", (0, 1, -1), ["2", "1", "-9"]),
        ("as everybody writes", "born", (0, -1), ["30.12.1999", ""]),
        ("as everybody writes", "sum", (0, 1, 2), ["'=1+1", "'-", "b"]),
    ],
)
def test_cells_as_they_came(name: str, column: str, codes: tuple[int, ...], cells: list[str]) -> None:
    form = FORMATS[name]
    found = next(one for one in SCHEMA.modelled if one.name == column)
    schema = Schema((found, CategoryColumn("z", ("z", "y"), fallback="z")))
    asked = np.array([[code % found.size, 0] for code in codes])
    lines = written(form, schema, asked).decode(form.encoding).splitlines()
    separator = {"german": ";", "tabs": "\t"}.get(name, ",")
    assert [line.rsplit(separator, 1)[0].strip('"') for line in lines[1:]] == cells


@pytest.mark.parametrize(
    ("form", "pattern", "cells"),
    [
        (TableFormat(), None, ["1999-12-30 00:00", "2000-01-02 13:00", "2000-01-02", ""]),
        (TableFormat(), "%d.%m.%y %H Uhr", ["30.12.99 00 Uhr", "02.01.00 13 Uhr", "2000-01-02", ""]),
        (
            TableFormat(dates=("%m/%d/%Y %I:%M %p",), missing=(".", "")),
            None,
            ["12/30/1999 12:00 AM", "01/02/2000 01:00 PM", "2000-01-02", "."],
        ),
    ],
)
def test_a_date_and_its_time_stand_in_one_cell(form: TableFormat, pattern: str | None, cells: list[str]) -> None:
    patterns = None if pattern is None else (pattern, "%d.%m.%y")
    schema = Schema(
        (
            DateColumn("picked up", FIRST, LAST, pattern=patterns, missing=True),
            TimeColumn("picked up at", step=TimeStep.HOUR, of="picked up", pattern=patterns, missing=True),
            NumberColumn("fare", 0, 9, 1, fallback=0),
        )
    )
    days = schema.modelled[0].size - 1
    codes = np.array([[0, 0, 1], [3, 13, 2], [3, 24, 3], [days, 24, 4]])
    lines = written(form, schema, codes).decode().splitlines()
    assert lines[0] == "picked up,fare"
    assert [line.rsplit(",", 1)[0] for line in lines[1:]] == cells
    read = read_codes(lambda: io.BytesIO(written(form, schema, codes)), form, schema)
    assert [read._codes[name].tolist() for name in schema.names] == codes.T.tolist()


def test_of_one_column_no_line_is_empty() -> None:
    column = NumberColumn("a", 0, 9, 1, missing=True)
    assert written(TableFormat(), Schema((column,)), np.array([[10], [3]])) == b'a\n""\n3\n'


def test_lines_above_the_table_and_names() -> None:
    lines = written(FORMATS["several lines of names"]).decode().split("\n")
    assert lines[:3] == ["", "", "," * (len(NAMES) - 2)]  # of a date and its time one
    assert lines[3].startswith("income,dose,weight")
    assert written(FORMATS["other names"]).startswith(b'"Einkommen, netto",dose,weight,certain,Ort,')


def test_a_value_that_the_encoding_has_not_is_one_sentence() -> None:
    schema = Schema((CategoryColumn("town", ("Łódź", "x"), fallback="x"),))
    with pytest.raises(TableError, match=r"cannot be written in 'latin-1'. Use synthetic.csv"):
        written(TableFormat(encoding="latin-1"), schema, np.array([[0]]))


def test_from_the_command_line_and_from_python(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "rows.csv"
    assert main(["rows", str(BUNDLE), "--out", str(out)]) == 0
    assert out.read_bytes() == synth.rows_as_declared(BUNDLE)
    synth.replay(BUNDLE, tmp_path / "again")
    # The golden table was written as everybody writes.
    assert out.read_bytes() == (tmp_path / "again" / "synthetic.csv").read_bytes()
    capsys.readouterr()
    assert main(["rows", str(BUNDLE), "--out", str(out)]) == 2
    assert "exists already. Name a new file." in capsys.readouterr().err
    model = golden(next(name for name in GOLDEN if "regression" in name))
    assert main(["rows", str(model), "--out", str(tmp_path / "none.csv")]) == 2
    assert "of a model, which has no rows" in capsys.readouterr().err
    assert not (tmp_path / "none.csv").exists()
