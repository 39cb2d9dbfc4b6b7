"""Synthetic tables are written as declared, the same bytes every time, and read back."""

from __future__ import annotations

import csv
import datetime
import gzip
import io
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from timing import require_within

from synth.bundle.sheets import IDENTIFIER_PATTERN, fresh_ids
from synth.bundle.table_files import read_table, write_csv, write_parquet, write_table
from synth.errors import SchemaError, TableError
from synth.schema import (
    CategoryColumn,
    Column,
    DateColumn,
    DateStep,
    DropColumn,
    IdentifierColumn,
    NumberColumn,
    Schema,
    YesNoColumn,
)

DAY = datetime.date

SCHEMA = Schema(
    (
        IdentifierColumn("patient"),
        NumberColumn("age", 0, 120, 1, missing=True),
        DropColumn("notes"),
        NumberColumn("weight", 20, 250, 0.5, special=(-1,)),
        CategoryColumn("=region", ("north", "=1+1", 'a "b"', "c,d", "-", "e\nf"), other=True, missing=True),
        YesNoColumn("smoker", yes="+", no="no", missing=True),
        DateColumn("visited", DAY(2020, 1, 15), DAY(2025, 12, 31), DateStep.MONTH, missing=True),
    )
)


def some_rows(n_rows: int, schema: Schema = SCHEMA) -> np.ndarray:
    generator = np.random.default_rng(7)
    return np.column_stack([generator.integers(0, size, n_rows) for size in schema.sizes])


def as_csv(rows: object, schema: Schema = SCHEMA, seed: int = 0) -> bytes:
    target = io.BytesIO()
    write_csv(rows, schema, target, seed)
    return target.getvalue()


def as_parquet(rows: object, schema: Schema = SCHEMA, seed: int = 0) -> bytes:
    target = io.BytesIO()
    write_parquet(rows, schema, target, seed)
    return target.getvalue()


def test_cells_look_as_declared() -> None:
    rows = np.array([[47, 101, 1, 1, 0], [121, 461, 7, 2, 72], [0, 0, 6, 0, 14], [5, 1, 2, 0, 1]])
    records = list(csv.reader(io.StringIO(as_csv(rows).decode())))
    assert records[0] == ["patient", "age", "weight", "'=region", "smoker", "visited"]
    assert [record[1:] for record in records[1:]] == [
        ["47", "70.5", "'=1+1", "'+", "2020-01-15"],
        ["", "-1.0", "", "", ""],
        ["0", "20.0", "other", "no", "2021-03-01"],
        ["5", "20.5", 'a "b"', "no", "2020-02-01"],
    ]
    assert all(re.fullmatch(IDENTIFIER_PATTERN, record[0]) for record in records[1:])


def test_parquet_has_nullable_types() -> None:
    table = pa.parquet.read_table(io.BytesIO(as_parquet(some_rows(100))))
    assert {field.name: str(field.type) for field in table.schema} == {
        "patient": "string",
        "age": "int64",
        "weight": "double",
        "'=region": "string",
        "smoker": "bool",
        "visited": "date32[day]",
    }


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (NumberColumn("x", 0, 10, 1), "int64"),
        (NumberColumn("x", 0.5, 10, 1), "double"),
        (NumberColumn("x", 0, 10, 1, special=(0.5,)), "double"),
        (NumberColumn("x", 0, 1e300, 1e295), "double"),
    ],
)
def test_numbers_are_whole_only_where_all_values_are(column: NumberColumn, expected: str) -> None:
    schema = Schema((column,))
    table = pa.parquet.read_table(io.BytesIO(as_parquet([[0], [column.size - 1]], schema)))
    assert str(table.schema.field("x").type) == expected


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz", "t.tsv", "t.parquet"])
def test_tables_come_back(tmp_path: Path, name: str) -> None:
    rows = some_rows(3_000)
    path = tmp_path / name
    body = as_parquet(rows) if name.endswith("parquet") else as_csv(rows)
    if name.endswith("tsv"):
        frame = pd.read_csv(io.BytesIO(body), dtype=str, keep_default_na=False)
        body = frame.to_csv(index=False, sep="\t").encode()
    path.write_bytes(gzip.compress(body) if name.endswith("gz") else body)
    np.testing.assert_array_equal(read_table(path, SCHEMA), rows)


label = st.text(st.characters(blacklist_categories=("Cs",), blacklist_characters="\0"), min_size=1, max_size=6)


@given(values=st.lists(label, min_size=1, max_size=8, unique=True), name=label, data=st.data())
def test_any_category_survives_both_files(
    tmp_path_factory: pytest.TempPathFactory, values: list[str], name: str, data: st.DataObject
) -> None:
    printed = {value if not value.startswith(tuple("=+-@\t\r")) else f"'{value}" for value in values}
    if not name.strip() or len(printed) < len(values):
        return
    column = CategoryColumn(name, tuple(values), missing=True)
    schema = Schema((column, YesNoColumn(name + "?")) if data.draw(st.booleans()) else (column,))
    sizes = st.tuples(*(st.integers(0, size - 1) for size in schema.sizes))
    rows = np.array(data.draw(st.lists(sizes, min_size=1, max_size=6)))
    folder = tmp_path_factory.getbasetemp()
    write_table(rows, schema, folder / "any.csv", folder / "any.parquet", 0)
    np.testing.assert_array_equal(read_table(folder / "any.csv", schema), rows)
    np.testing.assert_array_equal(read_table(folder / "any.parquet", schema), rows)


def test_no_cell_or_header_begins_a_formula() -> None:
    body = as_csv(some_rows(500)).decode()
    for record in csv.reader(io.StringIO(body)):
        for place, cell in enumerate(record):
            is_number = place in {1, 2} and cell not in {"age", "weight"}
            assert is_number or not cell.startswith(("=", "+", "-", "@", "\t", "\r"))


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r"])
def test_every_start_of_a_formula_is_guarded(start: str) -> None:
    schema = Schema((CategoryColumn(f"{start}name", (f"{start}cell", "plain")),))
    records = list(csv.reader(io.StringIO(as_csv([[0], [1]], schema).decode(), newline="")))
    assert records == [[f"'{start}name"], [f"'{start}cell"], ["plain"]]
    table = pa.parquet.read_table(io.BytesIO(as_parquet([[0], [1]], schema)))
    assert table.to_pydict() == {f"'{start}name": [f"'{start}cell", "plain"]}


def test_parquet_says_nothing_of_the_program_that_wrote_it() -> None:
    assert pa.parquet.read_metadata(io.BytesIO(as_parquet(some_rows(10)))).metadata is None


def test_the_same_bytes_every_time_and_for_every_kind_of_rows(tmp_path: Path) -> None:
    rows = some_rows(70_000)
    write_table(rows, SCHEMA, tmp_path / "a.csv", tmp_path / "a.parquet", 5)
    write_table(torch.from_numpy(rows), SCHEMA, tmp_path / "b.csv", tmp_path / "b.parquet", 5)
    assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "b.csv").read_bytes()
    assert (tmp_path / "a.parquet").read_bytes() == (tmp_path / "b.parquet").read_bytes()
    assert as_csv(rows, seed=6) != (tmp_path / "a.csv").read_bytes()


def test_a_row_is_written_the_same_wherever_a_piece_ends() -> None:
    rows = some_rows(65_537)
    body = as_csv(rows)
    assert body.startswith(as_csv(rows[:999]))
    assert body.startswith(as_csv(rows[:-1]))


def test_fresh_ids_are_different_and_depend_on_seed_and_column_alone() -> None:
    rows = np.arange(200_000)
    ids = fresh_ids("patient", rows, 1).to_pylist()
    assert len(set(ids)) == len(ids)
    assert all(re.fullmatch(IDENTIFIER_PATTERN, text) for text in ids[:100])
    assert fresh_ids("patient", rows[7:9], 1).to_pylist() == ids[7:9]
    assert fresh_ids("patient", rows[:5], 2).to_pylist() != ids[:5]
    assert fresh_ids("doctor", rows[:5], 1).to_pylist() != ids[:5]


def test_one_column_of_missing_cells_keeps_its_rows(tmp_path: Path) -> None:
    schema = Schema((NumberColumn("x", 0, 3, 1, missing=True),))
    rows = np.array([[4], [0], [4]])
    (tmp_path / "x.csv").write_bytes(as_csv(rows, schema))
    np.testing.assert_array_equal(read_table(tmp_path / "x.csv", schema), rows)


def test_a_special_value_on_the_grid_reads_back_as_itself(tmp_path: Path) -> None:
    schema = Schema((NumberColumn("x", 0, 3, 1, special=(2,)),))
    (tmp_path / "x.csv").write_bytes(as_csv([[2], [4]], schema))
    assert read_table(tmp_path / "x.csv", schema).tolist() == [[4], [4]]


def test_no_rows_is_a_table_too() -> None:
    empty = np.empty((0, 5), dtype=np.int64)
    assert as_csv(empty) == b"patient,age,weight,'=region,smoker,visited\n"
    assert pa.parquet.read_table(io.BytesIO(as_parquet(empty))).num_rows == 0


@pytest.mark.parametrize("rows", [np.zeros((3, 4), int), np.zeros(5, int)])
def test_rows_of_another_shape_are_refused(rows: np.ndarray) -> None:
    with pytest.raises(TableError, match="needs 5 columns of codes"):
        as_csv(rows)


@pytest.mark.parametrize("code", [-1, 122])
def test_codes_that_are_none_are_refused(code: int) -> None:
    rows = some_rows(3)
    rows[1, 0] = code
    with pytest.raises(SchemaError, match="'age' has the codes 0 to 121"):
        as_csv(rows)
    with pytest.raises(SchemaError, match="'age' has the codes 0 to 121"):
        as_parquet(rows)


def test_files_that_are_no_synthetic_table_are_refused(tmp_path: Path) -> None:
    (tmp_path / "x.parquet").write_bytes(b"no")
    (tmp_path / "x.csv").write_bytes(b"")
    (tmp_path / "y.csv").write_bytes(b"age,weight\n1,2\n")
    for name in ("x.parquet", "x.csv", "absent.csv"):
        with pytest.raises(TableError, match="cannot be read as a synthetic table"):
            read_table(tmp_path / name, SCHEMA)
    with pytest.raises(TableError, match="has no column"):
        read_table(tmp_path / "y.csv", SCHEMA)


@pytest.mark.slow
def test_a_million_cells_a_second(tmp_path: Path) -> None:
    columns: list[Column] = [NumberColumn(f"n{place}", 0, 100, 1) for place in range(10)]
    schema = Schema((*columns, *(CategoryColumn(f"c{place}", ("a", "b")) for place in range(5))))
    rows = some_rows(200_000, schema)
    require_within(
        2 * rows.size / 1e6, lambda: write_table(rows, schema, tmp_path / "t.csv", tmp_path / "t.parquet", 0)
    )
