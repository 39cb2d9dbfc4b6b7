"""Cells are in the domain when they are the print of a code, letter for letter."""

from __future__ import annotations

import datetime
import io

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pa_parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from synth.bundle import sheets
from synth.bundle.table_files import check_csv, is_written_as, write_csv, write_parquet
from synth.errors import SchemaError, VerificationError
from synth.schema import (
    CategoryColumn,
    DateColumn,
    DateStep,
    IdentifierColumn,
    ModelledColumn,
    NumberColumn,
    Schema,
    YesNoColumn,
    guarded,
)
from synth.schema.encoding import arrow_type

COLUMNS: list[ModelledColumn] = [
    NumberColumn("whole", -5, 20, 1, missing=True),
    NumberColumn("tenths", 0.1, 3.7, 0.3, special=(-1.0, 0.4, 99.5)),
    NumberColumn("large", 0, 10_000_000, 1),
    # Steps that a program worked out: their places have more digits than a float holds.
    NumberColumn("long", 0.045, 0.467, 0.00042200000000000007, special=(1 / 3,)),
    NumberColumn("tiny", -1e-7, 1e-7, 3.3e-11, missing=True),
    CategoryColumn("category", ("a", "=1+1", "with, comma", 'with "quote"'), other=True, missing=True),
    YesNoColumn("truth", yes="-yes", no="no"),
    DateColumn("day", datetime.date(2020, 2, 27), datetime.date(2021, 3, 2), missing=True),
    DateColumn("month", datetime.date(2019, 11, 20), datetime.date(2021, 2, 3), step=DateStep.MONTH),
    DateColumn("year", datetime.date(1999, 7, 1), datetime.date(2024, 1, 1), step=DateStep.YEAR),
]
SCHEMA = Schema((IdentifierColumn("id"), *COLUMNS))


@pytest.mark.parametrize("column", COLUMNS, ids=lambda column: column.name)
def test_every_code_prints_into_the_domain(column: ModelledColumn) -> None:
    codes = np.unique(np.linspace(0, column.size - 1, 300).astype(int))
    for code, text in zip(codes, column.texts(codes), strict=True):
        shown = text if isinstance(column, NumberColumn | DateColumn) else guarded(text)
        again = column.code_of_text(shown)
        # A grid value that is also a special one prints as the special one does.
        assert again == code or column.texts([again]) == [text]


OUTSIDE = {
    "whole": ["-6", "21", "3.0", "+3", "03", " 3", "3 ", "1e1", "nan", "inf", "x", "0x3", "3,0", "--3", "٣", "³"],
    "tenths": ["0.2", "0.10", "0.1000", ".1", "0,1", "4.0", "99.50", "-1"],
    "large": ["", "10000001", "-1"],
    "long": ["0.0454", "0.5", ""],
    "tiny": ["0.0", "1e-7", "0.0000002"],
    "category": ["=1+1", "A", "other ", "b", "'a"],
    "truth": ["-yes", "", "yes", "No"],
    "day": ["2020-02-26", "2021-03-03", "2020-2-28", "20200228", "2021-02-29", "2020-02-28T00:00", "28.02.2020"],
    "month": ["2019-11-01", "2020-01-02", "2021-03-01", ""],
    "year": ["1999-01-01", "2000-01-02", "2025-01-01", "2000"],
}


@pytest.mark.parametrize(("name", "text"), [(name, text) for name, texts in OUTSIDE.items() for text in texts])
def test_anything_else_lies_outside(name: str, text: str) -> None:
    assert SCHEMA.modelled_column(name).code_of_text(text) == -1


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(COLUMNS), st.text(max_size=12))
def test_random_texts_never_raise(column: ModelledColumn, text: str) -> None:
    code = column.code_of_text(text)
    assert code == -1 or guarded(column.texts([code])[0]) == text or column.texts([code])[0] == text


def written(rows: int = 200) -> tuple[np.ndarray, bytes, bytes]:
    random = np.random.default_rng(0)
    codes = np.column_stack([random.integers(column.size, size=rows) for column in COLUMNS])
    csv, parquet = io.BytesIO(), io.BytesIO()
    write_csv(codes, SCHEMA, csv, 1)
    write_parquet(codes, SCHEMA, parquet, 1)
    return codes, csv.getvalue(), parquet.getvalue()


def unlike(csv: bytes, parquet: bytes, schema: Schema, *, rows: int) -> list[str]:
    """Read the codes of a CSV file, and name the files that are not what these are written as."""
    check = check_csv(io.BytesIO(csv), schema, rows=rows, keep=True)
    assert check.problems == []
    files = {"synthetic.csv": csv, "synthetic.parquet": parquet}
    return [name for name, data in files.items() if not is_written_as(name, io.BytesIO(data), check.codes, schema, 1)]


def test_both_files_of_a_table_follow_from_the_cells_of_one() -> None:
    codes, csv, parquet = written()
    assert unlike(csv, parquet, SCHEMA, rows=200) == []
    codes[7, 0] = (codes[7, 0] + 1) % COLUMNS[0].size
    other = io.BytesIO()
    write_parquet(codes, SCHEMA, other, 1)
    assert unlike(csv, other.getvalue(), SCHEMA, rows=200) == ["synthetic.parquet"]
    assert unlike(csv, parquet + b"x", SCHEMA, rows=200) == ["synthetic.parquet"]
    assert unlike(csv, parquet[:-1], SCHEMA, rows=200) == ["synthetic.parquet"]
    assert unlike(csv.replace(b"\n", b"\r\n"), parquet, SCHEMA, rows=200) == ["synthetic.csv"]


def test_rows_and_columns_have_to_match() -> None:
    _, csv, _ = written()
    assert "200 rows" in check_csv(io.BytesIO(csv), SCHEMA, rows=201).problems[0]
    with pytest.raises(VerificationError, match="more rows"):
        check_csv(io.BytesIO(csv), SCHEMA, rows=199)
    fewer = Schema((IdentifierColumn("id"), *COLUMNS[1:]))
    with pytest.raises(VerificationError, match="declared columns"):
        check_csv(io.BytesIO(csv), fewer, rows=200)


odd_text = st.text(
    st.one_of(st.characters(blacklist_categories=("Cs",)), st.sampled_from("=+-@\t\r\n\"', .;'\ufeff")),
    min_size=1,
    max_size=5,
)
any_number = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False), st.integers(-(10**6), 10**6).map(float), st.just(2.0**63)
)


@st.composite
def declared(draw: st.DrawFn) -> Schema:
    """A table of columns with any names, any categories, and numbers and dates up to the ends of what can be said."""
    names = iter(draw(st.lists(odd_text, min_size=6, max_size=6, unique=True)))
    has = draw(st.tuples(*[st.booleans()] * 5))
    low, places = draw(any_number), draw(st.integers(2, 200))
    step = draw(any_number.map(abs))
    days = sorted(draw(st.lists(st.dates(), min_size=2, max_size=2, unique=True)))
    yes, no = draw(st.tuples(odd_text, odd_text))
    return Schema(
        (
            IdentifierColumn(next(names)),
            CategoryColumn(
                next(names),
                tuple(draw(st.lists(odd_text, min_size=1, max_size=5, unique=True))),
                has[0],
                missing=has[1],
            ),
            YesNoColumn(next(names), yes, no, missing=has[2]),
            NumberColumn(
                next(names),
                low,
                low + places * step,
                step,
                tuple(draw(st.lists(any_number, max_size=2, unique=True))),
                missing=has[3],
            ),
            DateColumn(next(names), days[0], days[1], draw(st.sampled_from(DateStep)), missing=has[4]),
        )
    )


@pytest.mark.parametrize(
    ("low", "high", "step", "special", "words"),
    [
        (2.0**63, 2.0**63 + 4096, 1025, (), "too small for numbers of this size"),
        (1.0, 2.0**64, 2.0**63, (2.0**63,), "a file of floats cannot tell the special value"),
        (-1e308, 1e308, 1e307, (), "too far apart"),
        (2.7e-39, 2.0**64, 2.0**63, (2.0**63,), "a file of floats cannot tell the special value"),
    ],
)
def test_numbers_that_a_file_of_floats_cannot_tell_apart_are_refused(
    low: float, high: float, step: float, special: tuple[float, ...], words: str
) -> None:
    with pytest.raises(SchemaError, match=words):
        NumberColumn("x", low, high, step, special)


def test_numbers_with_more_digits_than_thirty_are_in_the_domain() -> None:
    column = NumberColumn("x", -8e307, 8e307, 1e307, special=(1e-300,))
    for code, text in enumerate(column.texts()):
        assert column.code_of_text(text) == code


@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_whatever_can_be_declared_can_be_written_and_checked(data: st.DataObject) -> None:
    try:
        schema = data.draw(declared())
    except SchemaError:
        return  # refused in one sentence, before anything is charged
    random = np.random.default_rng(0)
    codes = np.column_stack([random.integers(size, size=30) for size in schema.sizes])
    codes[0], codes[1] = 0, np.array(schema.sizes) - 1
    csv, parquet = io.BytesIO(), io.BytesIO()
    write_csv(codes, schema, csv, 1)
    write_parquet(codes, schema, parquet, 1)
    assert unlike(csv.getvalue(), parquet.getvalue(), schema, rows=30) == []
    table = pa_parquet.read_table(io.BytesIO(parquet.getvalue()))
    assert table.column_names == [column.printed_name for column in schema.printed]
    for column, own in zip(schema.modelled, codes.T, strict=True):
        cells = table.column(column.printed_name)
        assert cells.type == arrow_type(column)
        assert cells.to_pylist() == pa.array(column.printed_cells(own), type=cells.type).to_pylist()


@pytest.mark.parametrize("name", ["\ufeff", "\ufeffwhole", '\ufeff,"'])
def test_a_first_name_that_begins_with_a_byte_order_mark_is_read_back(name: str) -> None:
    schema = Schema((NumberColumn(name, 0, 9, 1), NumberColumn("other", 0, 9, 1)))
    target = io.BytesIO()
    write_csv(np.zeros((3, 2), dtype=np.int64), schema, target, 1)
    assert check_csv(io.BytesIO(target.getvalue()), schema, rows=3).problems == []
    assert pd.read_csv(io.BytesIO(target.getvalue()), encoding="utf-8-sig").columns.tolist() == [name, "other"]


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r"])
def test_names_and_texts_that_are_written_alike_are_refused(start: str) -> None:
    guarded_twin = f"'{start}x"
    with pytest.raises(SchemaError, match="differ only by a leading apostrophe"):
        Schema((NumberColumn(f"{start}x", 0, 9, 1), NumberColumn(guarded_twin, 0, 9, 1)))
    with pytest.raises(SchemaError, match="differ only by a leading apostrophe"):
        CategoryColumn("x", (f"{start}x", guarded_twin))
    with pytest.raises(SchemaError, match="differ only by a leading apostrophe"):
        YesNoColumn("x", yes=f"{start}x", no=guarded_twin)


def test_wide_tables_are_written_fewer_rows_at_a_time_and_hold_the_same_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    codes = np.random.default_rng(1).integers(0, 2, (700, 300))

    def written(columns: int) -> tuple[bytes, bytes, Schema]:
        schema = Schema(tuple(YesNoColumn(f"c{number}", "y", "n") for number in range(columns)))
        csv, parquet = io.BytesIO(), io.BytesIO()
        write_csv(codes[:, :columns], schema, csv, 1)
        write_parquet(codes[:, :columns], schema, parquet, 1)
        return csv.getvalue(), parquet.getvalue(), schema

    at_once = written(300)
    monkeypatch.setattr(sheets, "PIECE", 512)
    assert pa_parquet.read_metadata(io.BytesIO(written(64)[1])).row_group(0).num_rows == 512
    csv, parquet, schema = written(300)
    groups = pa_parquet.read_metadata(io.BytesIO(parquet))
    assert [groups.row_group(place).num_rows for place in range(groups.num_row_groups)] == [109] * 6 + [46]
    assert csv == at_once[0]
    assert pa_parquet.read_table(io.BytesIO(parquet)).equals(pa_parquet.read_table(io.BytesIO(at_once[1])))
    assert unlike(csv, parquet, schema, rows=700) == []


def test_memory_of_codes_that_occur_follows_their_number() -> None:
    few, many = NumberColumn("few", 0, 200, 1), NumberColumn("many", 0, 10_000_000, 1)
    for column, codes in ((few, [200, 3, 3]), (many, [10_000_000, 7, 7]), (few, []), (many, [])):
        distinct = column.distinct_codes(column.smallest_codes(np.array(codes, dtype=np.int64)))
        assert (distinct.tolist(), distinct.dtype) == (sorted(set(codes)), np.int64)
