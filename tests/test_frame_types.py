"""Every type of a column of a DataFrame or a Parquet file: what becomes of its cells, and which come back."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from frame_kinds import (
    ARROW,
    BIG,
    DATE,
    HONEST,
    MISSING,
    NASTY,
    ODD,
    PANDAS,
    PYTHON,
    REFUSED,
    TIME,
    Kind,
    number,
    words,
)
from reading_here import read_here

from synth.cli import frame_cells
from synth.cli.frame_types import types_as_given
from synth.cli.frames import FORMAT, frame_as_table
from synth.errors import TableError
from synth.reading.reader import counts_of, request_of
from synth.schema import Schema, TableFormat, parse_column
from synth.schema.encoding import decode_column
from synth.schema.stored import UNREADABLE, plain, plain_type

ALSO = {"other": number()}
"""A second column, so that no line is blank."""


def schema_of(declared: dict[str, Any]) -> Schema:
    columns = {"x": declared, **ALSO}
    return Schema(tuple(parse_column(name, body) for name, body in columns.items()), row_count="private")


def framed(cells: pd.Series) -> pd.DataFrame:
    return pd.DataFrame({"x": cells, "other": range(len(cells))})


def read(data: bytes, form: TableFormat, schema: Schema) -> list[str]:
    """Return the texts of the codes of a column; an odd cell that is missing is told from a missing one."""
    column = schema["x"]
    codes: list[int] = []

    def add(body: bytes) -> None:
        rows = int.from_bytes(body[:8], "little")
        codes.extend(np.frombuffer(body, np.min_scalar_type(column.size - 1), rows, 8).tolist())

    end = read_here(io.BytesIO(data), request_of(form, schema, undeclared="refuse", limits=None), add)
    counts = counts_of(end).cells["x"]
    texts = column.texts(codes)
    odd = counts.malformed + (counts.outside if column.other_code is None and not column.is_ordered else 0)
    assert texts.count(MISSING) == counts.missing + odd or column.other_code is not None
    return texts


def told(texts: Sequence[str]) -> list[str]:
    return [MISSING if text == ODD else text for text in texts]


def read_frame(kind: Kind) -> list[str]:
    schema = schema_of(kind.declared)
    return read(frame_as_table(framed(kind.series), schema).getvalue(), FORMAT, schema)


@pytest.mark.parametrize("kinds", [ARROW, PANDAS, PYTHON], ids=["arrow", "pandas", "python"])
def test_cells_of_every_type_become_what_the_table_says(kinds: dict[str, Kind]) -> None:
    assert {name: read_frame(kind) for name, kind in kinds.items()} == {
        name: told(kind.texts) for name, kind in kinds.items()
    }


@pytest.mark.parametrize("kinds", [ARROW, PANDAS, PYTHON], ids=["arrow", "pandas", "python"])
def test_a_cell_without_a_text_is_not_as_declared_and_a_missing_one_is_missing(kinds: dict[str, Kind]) -> None:
    for name, kind in kinds.items():
        lines = frame_as_table(framed(kind.series), schema_of(kind.declared)).getvalue().decode().splitlines()[1:]
        missing = [line.startswith((",", '"",')) for line in lines]
        assert missing == [text == MISSING for text in kind.texts], name


def as_parquet(cells: pd.Series) -> bytes:
    target = io.BytesIO()
    stored = cells.array.__arrow_array__()
    pq.write_table(pa.table({"x": stored, "other": pa.array(range(len(cells)))}), target)
    return target.getvalue()


NOT_IN_PARQUET = {"runs"}
"""Types that pyarrow does not write."""


@pytest.mark.parametrize("name", [name for name in ARROW if name not in NOT_IN_PARQUET])
def test_a_parquet_file_of_the_same_types_has_the_same_codes(name: str) -> None:
    kind = ARROW[name]
    assert read(as_parquet(kind.series), TableFormat(), schema_of(kind.declared)) == told(kind.texts)


def test_texts_that_a_file_keeps_once_stay_so() -> None:
    words_once = pa.array(["a", "b", "a"]).dictionary_encode()
    assert plain(words_once, pa.field("x", words_once.type)) is words_once
    waits = pa.array([60, 120, 60], pa.duration("s")).dictionary_encode()
    assert plain(waits, pa.field("x", waits.type)).type == plain_type(pa.field("x", waits.type)) == pa.duration("s")


def test_periods_and_intervals_in_a_parquet_file_of_pandas_are_read_as_in_the_frame() -> None:
    for name in ("periods as dates", "quarters as dates", "weeks as dates", "hours as times", "intervals of floats"):
        kind = PANDAS[name]
        data = io.BytesIO()
        framed(kind.series).to_parquet(data)
        assert read(data.getvalue(), TableFormat(), schema_of(kind.declared)) == told(kind.texts), name


WEEKS = [f"W-{day}" for day in ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")]
MONTHS = ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"]


@pytest.mark.filterwarnings("ignore::FutureWarning")  # of periods of business days
@pytest.mark.parametrize(
    "frequency", [*WEEKS, *(f"{name}-{month}" for name in "QY" for month in MONTHS), "M", "D", "B", "2D", "3W-TUE", "h"]
)
def test_periods_of_a_file_begin_when_those_of_a_frame_do(frequency: str) -> None:
    periods = [pd.Period(ordinal=place, freq=frequency) for place in (-203, -4, 0, 1, 2, 3, 4, 5, 9, 211)]
    cells = pd.array([*periods, pd.NaT], dtype=pd.PeriodDtype(frequency)).__arrow_array__()
    starts = plain(cells, pa.field("x", cells.type)).to_pylist()
    assert starts.pop() is None
    assert list(map(pd.Timestamp, starts)) == [period.start_time for period in periods]


@pytest.mark.parametrize("name", ["arrow.uuid", "arrow.bool8", "pandas.period", "pandas.interval", "none.known"])
@pytest.mark.parametrize("said", [b"", b"{", b"[1]", b'{"freq": 5}', b'{"freq": "W-JAN"}', b'{"closed": []}'])
def test_what_a_file_says_wrongly_of_a_type_is_ignored_or_a_refusal_in_a_sentence(name: str, said: bytes) -> None:
    metadata = {b"ARROW:extension:name": name.encode(), b"ARROW:extension:metadata": said}
    for cells in (pa.array([3, None]), pa.array(["3", None]), pa.array([b"3", None]), pa.array([{"a": 3}, None])):
        data = io.BytesIO()
        pq.write_table(
            pa.table([cells, [0, 1]], pa.schema([pa.field("x", cells.type, metadata=metadata), ("other", pa.int64())])),
            data,
        )
        try:
            texts = read(data.getvalue(), TableFormat(), schema_of(number()))
        except TableError as refusal:
            # pyarrow refuses what contradicts a type that it knows itself.
            assert re.match("'x' holds|The Parquet file is damaged", str(refusal))  # noqa: PT017 - a right outcome
        else:
            assert texts in (["3", MISSING], [MISSING, MISSING])


@pytest.mark.parametrize("name", REFUSED)
def test_a_type_that_cannot_be_read_is_refused_by_the_name_of_its_column_whatever_its_cells_are(name: str) -> None:
    cells, declared, words_of_refusal = REFUSED[name]
    for some in (cells, cells.iloc[:0], cells.iloc[[0] * 3]):
        with pytest.raises(TableError, match="'x'") as caught:
            frame_as_table(framed(some), schema_of(declared))
        assert words_of_refusal in str(caught.value)


@pytest.mark.parametrize("name", [name for name, one in REFUSED.items() if isinstance(one[0].dtype, pd.ArrowDtype)])
def test_a_parquet_file_is_refused_in_the_same_words(name: str) -> None:
    cells, declared, _ = REFUSED[name]
    with pytest.raises(TableError) as of_frame:
        frame_as_table(framed(cells), schema_of(declared))
    try:
        data = as_parquet(cells)
    except (pa.ArrowException, NotImplementedError):
        assert name in ("calendar intervals", "dictionary of lists", "a zone of nowhere")
        return
    with pytest.raises(TableError) as of_file:
        read(data, TableFormat(), schema_of(declared))
    assert str(of_file.value) == str(of_frame.value)


# Neighbours -----------------------------------------------------------------------------------------------------------


def lines(cells: Sequence[Any], schema: Schema, dtype: Any = None) -> list[bytes] | None:
    """Return the lines of cells whose type pandas guesses; None if it is refused by the column's name."""
    with warnings.catch_warnings(action="ignore"):
        try:
            guessed = pd.DataFrame({"x": list(cells)}, dtype=dtype)
        except OverflowError:  # pandas makes no column of numbers of a whole number that no float is near
            guessed = pd.DataFrame({"x": list(cells)}, dtype=object)
    frame = framed(guessed["x"])
    try:
        return [line.rpartition(b",")[0] for line in frame_as_table(frame, schema).getvalue().split(b"\n")[1:-1]]
    except TableError as refusal:
        assert "'x'" in str(refusal)  # noqa: PT017 - a refusal by name is one of two right outcomes
        return None


def moved_lines(name: str) -> tuple[list[str], list[str]]:
    """Return the cells of one row more, or in place of another, that change a line of others, and those refused."""
    cells, declared = HONEST[name]
    schema = schema_of(declared)
    alone = lines(cells, schema)
    assert alone is not None
    moved, refused = [], []
    for new in NASTY:
        added, replaced = lines([*cells, new], schema), lines([new, *cells[1:]], schema)
        if added is None or replaced is None:
            refused.append(repr(new))
        if added is not None and added[:-1] != alone:
            moved.append(repr(new))
        if replaced is not None and replaced[1:] != alone[1:]:
            moved.append(repr(new))
        # The new row's own line is the same in both, so it is one line whatever stands beside it.
        if added is not None and replaced is not None and added[-1] != replaced[0]:
            moved.append(repr(new))
    return moved, refused


@pytest.mark.four_cases
@pytest.mark.parametrize("name", HONEST)
def test_no_cell_of_one_row_changes_the_line_of_another_whatever_type_pandas_guesses(name: str) -> None:
    moved, refused = moved_lines(name)
    assert not moved
    # A refusal is by the column's name, for a type that can be given to it: complex numbers, and floats for long ids.
    assert name == "whole numbers beyond floats" or set(refused) <= {"1j"}


def as_pandas_writes(write: Any, cell: Any) -> str:
    return str(cell)


def as_the_column_is_stored(cells: pd.Series) -> Sequence[Any]:
    return frame_cells.cells_of(cells.dt.tz_convert("UTC") if isinstance(cells.dtype, pd.DatetimeTZDtype) else cells)


@pytest.mark.parametrize(
    ("planted", "name"),
    [
        ("intervals as they are stored", "intervals"),
        ("moments as they are stored", "moments of a zone"),
        ("floats stand for whole numbers", "whole numbers beyond floats"),
    ],
)
def test_a_bug_that_lets_a_guessed_type_into_the_lines_of_others_is_seen(
    planted: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if planted == "intervals as they are stored":
        monkeypatch.setitem(frame_cells._ways(), pd.Interval, as_pandas_writes)
    elif planted == "moments as they are stored":
        monkeypatch.setattr("synth.cli.frames.cells_of", as_the_column_is_stored)
    else:
        monkeypatch.setattr("synth.cli.frames.refuse_dtype", lambda cells, column: None)
    frame_cells._way_of.cache_clear()
    try:
        assert moved_lines(name)[0]
    finally:
        frame_cells._way_of.cache_clear()


def test_long_ids_that_were_made_floats_are_nobodys_and_never_one_persons() -> None:
    schema = schema_of({"type": "identifier"})
    assert lines([BIG, BIG + 1], schema) == [str(BIG).encode(), str(BIG + 1).encode()]
    assert lines([BIG, BIG + 1, None], schema) == [b""] * 3
    assert lines([BIG, BIG + 1, None], schema, object) == [str(BIG).encode(), str(BIG + 1).encode(), b""]
    assert lines([10**400, 10**401, 7], schema) == [b"", b"", b"7"]
    assert lines([b"\xff\n", b"\xfe", "a\nb"], schema) == [b"0xff0a", b"0xfe", b""]


@pytest.mark.four_cases
@pytest.mark.parametrize("name", ARROW)
def test_no_cell_of_one_row_changes_the_codes_of_another_in_a_column_of_a_type(name: str) -> None:
    kind = ARROW[name]
    schema, stored = schema_of(kind.declared), kind.series
    whole = read_frame(kind)
    for first in range(len(stored)):
        for behind in range(first + 1, len(stored) + 1):
            some = stored.iloc[first:behind].reset_index(drop=True)
            data = frame_as_table(framed(some), schema).getvalue()
            assert read(data, FORMAT, schema) == whole[first:behind]
            if name not in NOT_IN_PARQUET:
                assert read(as_parquet(some), TableFormat(), schema) == whole[first:behind]


# What comes back ------------------------------------------------------------------------------------------------------

YES_NO_ALWAYS = {"type": "yes_no"}
ALWAYS = {"missing": False}
BACK: list[tuple[Any, dict[str, Any], str]] = [
    # Types that pandas guesses from cells follow from what is declared.
    *[(kind, number(**ALWAYS), "int64") for kind in ("int64", "uint64", "float64", "object")],
    *[(kind, number(), "Int64") for kind in ("int64", "uint64", "float64", "object")],
    *[(kind, number(step=0.5), "float64") for kind in ("int64", "float64", "object")],
    ("bool", YES_NO_ALWAYS, "bool"),
    ("object", {**YES_NO_ALWAYS, "missing": True}, "boolean"),
    ("object", words("a"), "object"),
    ("object", DATE, "datetime64[ms]"),
    ("S1", words("a"), "object"),
    # Other types come back.
    *[(kind, number(**ALWAYS), kind) for kind in ("int8", "uint16", "int32", "Int8", "float16", "Float32")],
    *[(kind, number(), kind) for kind in ("Int8", "UInt64", "float32", "Float64", "float32[pyarrow]", "int8[pyarrow]")],
    *[
        (pd.ArrowDtype(kind), number(step=0.5), None)
        for kind in (pa.decimal128(5, 2), pa.decimal256(60, 1), pa.float16())
    ],
    ("boolean", YES_NO_ALWAYS, "boolean"),
    ("bool[pyarrow]", YES_NO_ALWAYS, "bool[pyarrow]"),
    ("string", words("a"), "string"),
    ("string[pyarrow]", words("a"), "string[pyarrow]"),
    *[
        (pd.ArrowDtype(kind), words("a", other=True), None)
        for kind in (
            pa.large_string(),
            pa.string_view(),
            pa.binary(),
            pa.dictionary(pa.int8(), pa.string()),
            pa.run_end_encoded(pa.int32(), pa.string()),
        )
    ],
    *[(kind, DATE, kind) for kind in ("datetime64[ns]", "datetime64[s]", "datetime64[us, Europe/Berlin]", "period[M]")],
    *[(pd.ArrowDtype(kind), DATE, None) for kind in (pa.date32(), pa.date64(), pa.timestamp("ns", "Asia/Tokyo"))],
    *[(pd.ArrowDtype(kind), TIME, None) for kind in (pa.time32("s"), pa.time64("ns"))],
    *[
        (kind, number(duration="minutes"), kind)
        for kind in ("timedelta64[ns]", "timedelta64[s]", "duration[ms][pyarrow]")
    ],
    ("Sparse[float64]", number(step=0.5), "Sparse[float64]"),
    ("Sparse[int64]", number(**ALWAYS), "Sparse[int64]"),
    # Types that cannot hold what is declared do not.
    ("int8", number(), "Int8"),
    ("int8", number(0, 1000, **ALWAYS), "int64"),
    ("uint8", number(-1, **ALWAYS), "int64"),
    ("int8", number(step=0.5), "float64"),
    ("float16", number(0, 99_999), "Int64"),
    ("int8[pyarrow]", number(0, 200), "Int64"),
    (pd.ArrowDtype(pa.decimal128(3, 2)), number(0, 99), "Int64"),
    ("Sparse[int64]", number(), "Int64"),
    ("timedelta64[s]", number(step=0.5, duration="milliseconds"), "float64"),
    ("datetime64[ns]", {**DATE, "low": "0001-01-01"}, "datetime64[ms]"),
    ("category", number(), "Int64"),
    (pd.IntervalDtype("int64", "right"), words("(0, 5]"), "object"),
]


@pytest.mark.four_cases
@pytest.mark.parametrize(("given", "declared", "back"), BACK, ids=str)
def test_a_type_comes_back_where_it_can_hold_what_is_declared(given: Any, declared: dict[str, Any], back: Any) -> None:
    column = parse_column("x", declared)
    dtype = np.dtype("S1") if given == "S1" else pd.api.types.pandas_dtype(given)
    codes = np.unique([*range(min(column.size, 99)), column.size - 2, column.size - 1])
    frame = types_as_given(pa.table({"x": decode_column(column, codes)}), [column], {"x": dtype})
    assert frame["x"].dtype == (dtype if back is None else back)
    # Nothing is lost on the way: written again, it is the same table. (A month has one day.)
    if not isinstance(dtype, pd.PeriodDtype):
        assert read_again(frame["x"], declared) == column.texts(codes)


def read_again(cells: pd.Series, declared: dict[str, Any]) -> list[str]:
    schema = schema_of(declared)
    return read(frame_as_table(framed(cells), schema).getvalue(), FORMAT, schema)


def test_categories_that_come_back_are_the_declared_ones_and_no_others() -> None:
    seen = pd.CategoricalDtype(["CANARY", "a"], ordered=True)
    column = parse_column("x", words("b", "a", other=True, ordered=True))
    frame = types_as_given(pa.table({"x": decode_column(column, [1, 3])}), [column], {"x": seen})
    assert frame["x"].dtype == pd.CategoricalDtype(["b", "a", "other"], ordered=True)
    assert frame["x"].tolist()[:1] == ["a"]


def test_no_row_decides_a_type_that_comes_back() -> None:
    column = parse_column("x", number())
    printed = pa.table({"x": decode_column(column, [1])})
    given = [pd.Series(cells).dtype for cells in ([1, 2], [1, None], [1, "x"], [1, 2.5], [1, 2**63])]
    assert len(set(map(str, given))) == 4
    assert len({str(types_as_given(printed, [column], {"x": dtype})["x"].dtype) for dtype in given}) == 1


# Documents ------------------------------------------------------------------------------------------------------------


def test_the_documents_name_the_text_of_an_unreadable_cell_and_every_unit_of_durations() -> None:
    text = (Path(__file__).parents[1] / "docs" / "python-and-command-line.md").read_text(encoding="utf-8")
    assert UNREADABLE in text
    for unit in ("weeks", "days", "hours", "minutes", "seconds", "milliseconds"):
        assert re.search(rf"`?{unit}`?", text)
