"""The one form of a Parquet file: its bytes are fixed, and libraries read the cells that were written."""

from __future__ import annotations

import datetime
import hashlib
import io
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pa_parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from synth.bundle.parquet import Field, ParquetFile

KINDS: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "truth": (pa.bool_(), st.booleans()),
    "whole": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "real": (pa.float64(), st.floats(allow_nan=False).filter(lambda value: str(value) != "-0.0")),
    "text": (pa.string(), st.text(st.characters(blacklist_categories=("Cs",)), max_size=20)),
    "day": (pa.date32(), st.dates()),
}


def written(groups: list[list[pa.Array]], fields: list[Field]) -> bytes:
    target = io.BytesIO()
    file = ParquetFile(target, fields)
    for cells in groups:
        file.write(cells)
    file.close()
    return target.getvalue()


@pytest.mark.parametrize("drawn", [40, pytest.param(200, marks=pytest.mark.thorough)])
def test_what_is_read_is_what_was_written(drawn: int) -> None:
    settings(max_examples=drawn, deadline=None)(given(data=st.data())(assert_read_as_written))()


def assert_read_as_written(data: st.DataObject) -> None:
    lengths = data.draw(st.lists(st.integers(1, 30), max_size=3))
    fields = [Field(name, kind, distinct=data.draw(st.booleans())) for name, (kind, _) in KINDS.items()]
    groups = [
        [
            pa.array(data.draw(st.lists(st.none() | cells, min_size=length, max_size=length)), type=kind)
            for kind, cells in KINDS.values()
        ]
        for length in lengths
    ]
    file = pa_parquet.ParquetFile(io.BytesIO(written(groups, fields)))
    assert file.num_row_groups == len(groups)
    names = list(KINDS)
    for number, cells in enumerate(groups):
        assert file.read_row_group(number).equals(pa.table(cells, names=names))
    assert file.schema_arrow.equals(pa.schema([(name, kind) for name, (kind, _) in KINDS.items()]))
    assert not file.metadata.metadata
    assert file.metadata.created_by == "hermitage version 1"


@pytest.mark.parametrize("distinct", [1, 2, 3, 255, 256, 257, 70_000])
def test_numbers_of_distinct_cells_have_as_many_bits_as_they_need(distinct: int) -> None:
    cells = pa.array([*range(distinct, 0, -1), None, 1])
    data = written([[cells]], [Field("a", pa.int64())])
    assert pa_parquet.read_table(io.BytesIO(data)).column("a").combine_chunks().equals(cells)
    bits = max((distinct - 1).bit_length(), 1)
    assert len(data) < 8 * distinct + (bits + 1) * (distinct + 16) / 8 + 300


def test_a_slice_is_written_as_its_cells_alone() -> None:
    fields = [Field("a", pa.string()), Field("b", pa.string(), distinct=True)]
    whole = pa.array(["left out", "x", None, "", "yy", "left out"])
    alone = pa.array(["x", None, "", "yy"])
    assert written([[whole[1:5]] * 2], fields) == written([[alone] * 2], fields)


def test_pandas_reads_it() -> None:
    day = datetime.date(2024, 2, 29)
    cells = [pa.array([True, None]), pa.array([3, None]), pa.array([0.1, None]), pa.array(["ü", None])]
    cells.append(pa.array([day, None]))
    data = written([cells], [Field(name, kind) for name, (kind, _) in KINDS.items()])
    read = pd.read_parquet(io.BytesIO(data))
    assert read.iloc[0].tolist() == [True, 3.0, 0.1, "ü", day]
    assert read.iloc[1].isna().all()


def test_its_bytes_are_fixed() -> None:
    """Whatever the versions of numpy and pyarrow; a change of these bytes is a new form."""
    cells = [
        pa.array([True, None, False, True]),
        pa.array([7, -1, 7, None]),
        pa.array([0.5, 0.25, None, 0.5]),
        pa.array(["b", "ü", "a", "b"]),
        pa.array([0, None, 18_000, 0], type=pa.int32()).cast(pa.date32()),
    ]
    fields = [Field(name, kind) for name, (kind, _) in KINDS.items()]
    fields.append(Field("id", pa.string(), distinct=True))
    data = written([[*cells, cells[3]], [*cells, cells[3]]], fields)
    assert hashlib.sha256(data).hexdigest() == "04d704c27fb7f46e32d81e0e0e236cc826175c60c50687a918252a422ef10e3e"
