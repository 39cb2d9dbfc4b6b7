"""Encoding is total, a function of one cell, and undone by decoding."""

from __future__ import annotations

import datetime
import random
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from synth.errors import SchemaError
from synth.schema import (
    CategoryColumn,
    DateColumn,
    DateStep,
    ModelledColumn,
    NumberColumn,
    YesNoColumn,
    code_dtype,
    parse_column,
)
from synth.schema.columns.base import CellCounts
from synth.schema.encoding import arrow_type, decode_column, encode_cells, encode_column

DAY = datetime.date

AGE = NumberColumn("age", 0, 120, 1, missing=True)
GAIN = NumberColumn("gain", 10, 99_999, 1, special=(0, -1), missing=True)
WEIGHT = NumberColumn("weight", 20, 250, 0.5)
REGION = CategoryColumn("region", ("north", "south", "=east"), other=True, missing=True, aliases=(("N", "north"),))
CLOSED = CategoryColumn("closed", ("low", "high"))
SMOKER = YesNoColumn("smoker", missing=True)
VISITED = DateColumn("visited", DAY(2020, 1, 15), DAY(2025, 12, 31), missing=True)
MONTH = DateColumn("month", DAY(2020, 1, 15), DAY(2025, 12, 31), DateStep.MONTH)
YEAR = DateColumn("year", DAY(1999, 6, 1), DAY(2025, 12, 31), DateStep.YEAR, missing=True)
COLUMNS: tuple[ModelledColumn, ...] = (AGE, GAIN, WEIGHT, REGION, CLOSED, SMOKER, VISITED, MONTH, YEAR)

by_name = pytest.mark.parametrize("column", COLUMNS, ids=lambda column: column.name)


@st.composite
def number_columns(draw: st.DrawFn) -> NumberColumn:
    decimals = draw(st.integers(0, 6))
    low = draw(st.integers(-(10**6), 10**6))
    step = draw(st.integers(1, 1000))
    places = draw(st.integers(1, 2000))
    scale = Decimal(10) ** -decimals
    special = draw(st.lists(st.integers(-(10**7), -(10**6) - 1), unique=True, max_size=3))
    return NumberColumn(
        "number",
        low=float(low * scale),
        high=float((low + places * step) * scale),
        step=float(step * scale),
        special=tuple(float(value * scale) for value in special),
        missing=draw(st.booleans()),
    )


@st.composite
def category_columns(draw: st.DrawFn) -> CategoryColumn:
    text = st.text(st.characters(blacklist_categories=("Cs",)), min_size=1, max_size=8)
    plain = text.filter(lambda value: value == value.strip() and not value.startswith("'"))
    values = draw(st.lists(plain, min_size=1, max_size=12, unique=True))
    return CategoryColumn("category", tuple(values), other=draw(st.booleans()), missing=draw(st.booleans()))


@st.composite
def date_columns(draw: st.DrawFn) -> DateColumn:
    days = st.dates(DAY(1, 1, 1), DAY(9999, 12, 31))
    low, high = sorted(draw(st.lists(days, min_size=2, max_size=2, unique=True)))
    step = DateStep.DAY if (high - low).days < 5000 else draw(st.sampled_from([DateStep.MONTH, DateStep.YEAR]))
    return DateColumn("date", low, high, step, missing=draw(st.booleans()))


modelled_columns = st.one_of(
    number_columns(),
    category_columns(),
    date_columns(),
    st.builds(YesNoColumn, st.just("yes_no"), missing=st.booleans()),
)


@given(column=modelled_columns, data=st.data())
def test_typed_cells_come_back_as_their_codes(column: ModelledColumn, data: st.DataObject) -> None:
    codes = data.draw(st.lists(st.integers(0, column.size - 1), max_size=20))
    cells = decode_column(column, np.array(codes, dtype=np.int64))
    assert cells.type == arrow_type(column)
    assert encode_column(column, cells).tolist() == codes


@given(column=modelled_columns, data=st.data())
def test_printed_cells_come_back_as_their_codes(column: ModelledColumn, data: st.DataObject) -> None:
    codes = data.draw(st.lists(st.integers(0, column.size - 1), max_size=20))
    assert encode_column(column, pa.array(column.texts(codes), pa.string())).tolist() == codes


any_text = st.one_of(
    st.text(st.characters(blacklist_categories=("Cs",)), max_size=12),
    st.floats().map(str),
    st.integers().map(str),
    st.dates().map(str),
    st.datetimes().map(str),
    st.sampled_from(["", " ", "NA", "yes", "north", "N", " =east", "1e999", "-1e999", "nan", "inf", "0x1", "1_0", "٣"]),
)


@pytest.mark.four_cases
@by_name
@given(cells=st.lists(st.none() | any_text, max_size=15))
def test_every_text_gets_a_code_of_its_own_whatever_stands_beside_it(
    column: ModelledColumn, cells: list[str | None]
) -> None:
    together = encode_column(column, pa.array(cells, pa.string()), missing=("", "NA"))
    assert together.dtype == code_dtype(column.size)
    assert (together < column.size).all()
    alone = [encode_column(column, pa.array([cell], pa.string()), missing=("", "NA"))[0] for cell in cells]
    assert together.tolist() == alone


@pytest.mark.four_cases
@by_name
@given(cells=st.lists(st.none() | st.floats(), max_size=15))
def test_every_number_gets_a_code(column: ModelledColumn, cells: list[float | None]) -> None:
    codes = encode_column(column, pa.array(cells, pa.float64()))
    assert (codes < column.size).all()
    for cell, code in zip(cells, codes, strict=True):
        assert encode_column(column, pa.array([cell], pa.float64()))[0] == code


@given(column=number_columns(), value=st.floats(allow_nan=False))
def test_numbers_go_to_the_nearest_place(column: NumberColumn, value: float) -> None:
    code = int(encode_column(column, pa.array([value]))[0])
    if value in column.special:
        assert code == column.levels + column.special.index(value)
        return
    low, step = Fraction(repr(column.low)), Fraction(repr(column.step))
    inside = min(
        max(Fraction(value) if np.isfinite(value) else Fraction(10**30 * int(np.sign(value))), low),
        low + step * (column.levels - 1),
    )
    nearest = abs(low + code * step - inside)
    assert nearest <= step / 2 * (1 + Fraction(1, 10**6))


NOTHING = CellCounts()


@pytest.mark.parametrize(
    ("column", "cell", "printed", "counts"),
    [
        (AGE, "47", "47", NOTHING),
        (AGE, " 47 ", "47", NOTHING),
        (AGE, "+4.7e1", "47", NOTHING),
        (AGE, "300", "120", CellCounts(outside=1)),
        (AGE, "-inf", "0", CellCounts(outside=1)),
        (AGE, "Infinity", "120", CellCounts(outside=1)),
        (AGE, "1e999", "120", CellCounts(outside=1)),
        (AGE, "", "", CellCounts(missing=1)),
        (AGE, None, "", CellCounts(missing=1)),
        (AGE, "nan", "", CellCounts(malformed=1)),
        (AGE, "4 7", "", CellCounts(malformed=1)),
        (AGE, "1,000", "", CellCounts(malformed=1)),
        (GAIN, "0", "0", NOTHING),
        (GAIN, "-1.0", "-1", NOTHING),
        (GAIN, "5", "10", CellCounts(outside=1)),
        (WEIGHT, "70.26", "70.5", NOTHING),
        (WEIGHT, "", "20.0", CellCounts(missing=1)),
        (WEIGHT, "heavy", "20.0", CellCounts(malformed=1)),
        (REGION, "N", "north", NOTHING),
        (REGION, "=east", "=east", NOTHING),
        (REGION, "'=east", "=east", NOTHING),
        (REGION, "west", "other", CellCounts(outside=1)),
        (REGION, "NA", "", CellCounts(missing=1)),
        (CLOSED, "middle", "low", CellCounts(outside=1)),
        (CLOSED, "", "low", CellCounts(missing=1)),
        (SMOKER, "yes", "yes", NOTHING),
        (SMOKER, "maybe", "", CellCounts(outside=1)),
        (VISITED, "2021-03-04", "2021-03-04", NOTHING),
        (VISITED, "2021-03-04T23:59:59Z", "2021-03-04", NOTHING),
        (VISITED, "20210304", "2021-03-04", NOTHING),
        (VISITED, "2021-03-04 junk", "", CellCounts(malformed=1)),
        (VISITED, "2021-02-30", "", CellCounts(malformed=1)),
        (VISITED, "04/03/2021", "", CellCounts(malformed=1)),
        (VISITED, "1066-10-14", "2020-01-15", CellCounts(outside=1)),
        (MONTH, "2021-03-30", "2021-03-01", NOTHING),
        (MONTH, "2021-03", "2021-03-01", NOTHING),
        (MONTH, "2020-01-20", "2020-01-15", NOTHING),
        (YEAR, "2001", "2001-01-01", NOTHING),
        (YEAR, "", "", CellCounts(missing=1)),
    ],
)
def test_one_text_at_a_time(column: ModelledColumn, cell: str | None, printed: str, counts: CellCounts) -> None:
    encoded = encode_cells(column, pa.array([cell], pa.string()), missing=("", "NA"))
    assert column.texts(encoded.codes) == [printed]
    assert encoded.counts == counts


@pytest.mark.parametrize(
    ("column", "cells", "printed"),
    [
        (AGE, pa.array([3, None], pa.int8()), ["3", ""]),
        (AGE, pa.array([3, 2**64 - 1], pa.uint64()), ["3", "120"]),
        (AGE, pa.array([3.4, float("nan"), float("inf")], pa.float32()), ["3", "", "120"]),
        (AGE, pa.array(np.array([3.4], np.float16)), ["3"]),
        (AGE, pa.array([Decimal("3.60")]), ["4"]),
        (AGE, pa.array([True, False]), ["1", "0"]),
        (AGE, pa.array([None, None], pa.null()), ["", ""]),
        (AGE, pa.array([DAY(2020, 1, 1)]), [""]),
        (AGE, pa.array([b"3", b"\xff"]), ["3", ""]),
        (AGE, pa.array(["3", "x", None, "3"]).dictionary_encode(), ["3", "", "", "3"]),
        (AGE, pa.array([3, None, 4]).dictionary_encode(), ["3", "", "4"]),
        (AGE, pa.array(["3"], pa.large_string()), ["3"]),
        (NumberColumn("f", 0, 1, 0.1, special=(0.15,)), pa.array([0.15], pa.float32()), ["0.15"]),
        (REGION, pa.array(["north", None], pa.large_string()), ["north", ""]),
        (REGION, pa.array([float("nan"), 1.0]), ["", "other"]),
        (CategoryColumn("c", ("1", "2.0", "x")), pa.array([1.0, 2.0, 1.5]), ["1", "2.0", "1"]),
        (CategoryColumn("c", ("True", "False")), pa.array([False, True]), ["False", "True"]),
        (SMOKER, pa.array([True, False, None]), ["yes", "no", ""]),
        (SMOKER, pa.array([1, 0, 2]), ["yes", "no", ""]),
        (VISITED, pa.array([DAY(2021, 3, 4), DAY(1, 1, 1), None]), ["2021-03-04", "2020-01-15", ""]),
        (VISITED, pa.array([1614816000000], pa.date64()), ["2021-03-04"]),
        (VISITED, pa.array([1614902399999999999], pa.timestamp("ns")), ["2021-03-04"]),
        (VISITED, pa.array([1614898800], pa.timestamp("s", tz="Europe/Berlin")), ["2021-03-05"]),
        (VISITED, pa.array([1614898800], pa.timestamp("s", tz="Nowhere/City")), ["2021-03-04"]),
        (VISITED, pa.array([20210304]), ["2021-03-04"]),
        (VISITED, pa.array([-1], pa.timestamp("us")), ["2020-01-15"]),
        (YEAR, pa.array([2001]), ["2001-01-01"]),
    ],
)
def test_typed_cells(column: ModelledColumn, cells: pa.Array, printed: list[str]) -> None:
    assert column.texts(encode_column(column, cells)) == printed


def test_a_declared_pattern_is_read_before_iso() -> None:
    column = DateColumn("date", DAY(2020, 1, 1), DAY(2025, 12, 31), missing=True, pattern="%d/%m/%y")
    codes = encode_column(column, pa.array(["04/03/21", "2021-03-05", "2021-03-06 10:00", "03-04-21"]))
    assert column.texts(codes) == ["2021-03-04", "2021-03-05", "2021-03-06", ""]


def test_a_pattern_that_cannot_be_used_is_refused_whatever_the_cells() -> None:
    column = DateColumn("date", DAY(2020, 1, 1), DAY(2025, 12, 31), pattern="%Q")
    with pytest.raises(SchemaError, match="'date': pattern must be like %d/%m/%Y, got %Q"):
        encode_column(column, pa.array([], pa.string()))


def test_a_declared_value_is_no_missing_text() -> None:
    column = CategoryColumn("origin", ("NA", "Mexican"), missing=True)
    assert encode_column(column, pa.array(["NA", "?"]), missing=("NA", "?")).tolist() == [0, 2]
    number = NumberColumn("score", 0, 10, 1, special=(-1,), missing=True)
    assert encode_column(number, pa.array(["-1", "-9"]), missing=("-1", "-9")).tolist() == [11, 12]
    assert encode_column(number, pa.array([-1.0, -9.0]), missing=("-1", "-9")).tolist() == [11, 12]


@pytest.mark.parametrize("written", ["Z\u00fcrich", "Zu\u0308rich"])
def test_declared_words_and_cells_are_compared_with_their_letters_composed(written: str) -> None:
    said = {
        "type": "category",
        "values": [written, "B\u00e2le"],
        "fallback": written,
        "aliases": {f"{written}!": written},
    }
    column = parse_column("town", said)
    cells = pa.array(["Z\u00fcrich", "Zu\u0308rich", "Zu\u0308rich!", "Ba\u0302le", "?"])
    assert encode_column(column, cells).tolist() == [0, 0, 0, 1, 0]
    assert column.texts([0]) == ["Z\u00fcrich"]
    truth = YesNoColumn("ok", yes="s\u00ed", no="no", missing=True)
    assert encode_column(truth, pa.array(["si\u0301", "s\u00ed", "si"])).tolist() == [1, 1, 2]


def test_a_word_declared_in_both_forms_is_listed_twice() -> None:
    with pytest.raises(SchemaError, match="'c': the category 'Z\u00fcrich' is listed twice"):
        CategoryColumn("c", ("Z\u00fcrich", "Zu\u0308rich"))


@pytest.mark.parametrize(
    "said",
    [
        {"low": 2**53 - 1, "high": 2**53 + 9, "step": 1},
        {"low": -(2**63 - 1), "high": 2**63 - 1, "step": 2**40 + 1},
        {"low": -5, "high": "9007199254740993", "step": 2**33, "special": [2**62 + 1, -7], "fallback": 2**62 + 1},
    ],
)
def test_long_whole_numbers_are_exact(said: dict[str, object]) -> None:
    column = parse_column("case", {"type": "number", "missing": True, **said})
    assert parse_column("case", column.to_mapping()) == column
    low, high, step = (int(said[key]) for key in ("low", "high", "step"))
    random_ = random.Random(3)
    cells = [low, high, *(random_.randint(low, high) for _ in range(300))]
    wanted = [min(round(Fraction(cell - low, step)), column.levels - 1) for cell in cells]
    assert encode_column(column, pa.array(cells)).tolist() == wanted
    assert encode_column(column, pa.array(list(map(str, cells)))).tolist() == wanted
    assert column.cells(np.array(wanted)) == [low + place * step for place in wanted]
    assert [column.code_of_text(text) for text in column.texts(wanted)] == wanted


def test_a_thousand_million_cents_are_as_many_codes() -> None:
    column = NumberColumn("paid", 0, 10_000_000, 0.01, missing=True)
    codes = np.random.default_rng(1).integers(0, 10**9 + 1, 20_000)
    assert column.size == 10**9 + 2
    assert (encode_column(column, pa.array(column.texts(codes))) == codes).all()
    assert (encode_column(column, pa.array(column.cells(codes))) == codes).all()
    assert decode_column(column, codes[:9]).to_pylist() == [round(code / 100, 2) for code in codes[:9].tolist()]


def test_units_patterns_and_missing_texts_are_composed() -> None:
    ohm = NumberColumn("r", 0, 9, 1, units=("\u2126",), missing=True)
    assert encode_column(ohm, pa.array(["5 \u2126", "5 \u03a9", "?"])).tolist() == [5, 5, 10]
    days = DateColumn("d", DAY(2020, 1, 1), DAY(2020, 12, 31), pattern="%d f\u0065\u0301vrier %Y", missing=True)
    assert encode_column(days, pa.array(["03 f\u00e9vrier 2020", "03 fe\u0301vrier 2020"])).tolist() == [2, 2]
    assert encode_column(AGE, pa.array(["7", "gel\u00f6scht"]), missing=("gelo\u0308scht",)).tolist() == [
        7,
        AGE.unreadable_code,
    ]


def test_white_space_counts_where_it_is_not_stripped() -> None:
    column = CategoryColumn("c", ("a", " a"), other=True)
    assert encode_column(column, pa.array(["a", " a", "a "]), strip=False).tolist() == [0, 1, 2]


def test_chunks_are_one_column() -> None:
    chunks = pa.chunked_array([["1", "2"], ["300"], []], pa.string())
    assert encode_column(AGE, chunks).tolist() == [1, 2, 120]


def test_numbers_print_with_their_own_decimals() -> None:
    column = NumberColumn("x", -0.3, 0.3, 0.1)
    assert column.texts() == ["-0.3", "-0.2", "-0.1", "0.0", "0.1", "0.2", "0.3"]
    assert decode_column(column, np.arange(7)).to_pylist() == [-0.3, -0.2, -0.1, 0.0, 0.1, 0.2, 0.3]
    assert AGE.texts([5, 121], missing="missing") == ["5", "missing"]


@pytest.mark.parametrize("codes", [[-1], [122], [[0]], [0.5]])
def test_codes_that_are_none_are_refused(codes: list[object]) -> None:
    with pytest.raises(SchemaError, match="'age'"):
        AGE.smallest_codes(np.array(codes))


@pytest.mark.parametrize(("size", "dtype"), [(1, "uint8"), (256, "uint8"), (257, "uint16"), (65_537, "uint32")])
def test_codes_take_the_smallest_type(size: int, dtype: str) -> None:
    assert code_dtype(size) == np.dtype(dtype)


FALLBACKS: list[tuple[ModelledColumn, str]] = [
    (NumberColumn("number", 20, 250, 0.5, fallback=70.5), "70.5"),
    (NumberColumn("between places", 20, 250, 0.5, fallback=70.6), "70.5"),
    (NumberColumn("a step that does not end", 0, 1, 0.3, fallback=1), "0.9"),
    (NumberColumn("special", 10, 99, 1, special=(0, -1), fallback=-1), "-1"),
    (CategoryColumn("category", ("low", "high"), fallback="high"), "high"),
    (YesNoColumn("truth", fallback="yes"), "yes"),
    (YesNoColumn("words", yes="ja", no="nein", fallback="nein"), "nein"),
    (DateColumn("day", DAY(2020, 1, 15), DAY(2025, 12, 31), fallback=DAY(2022, 2, 3)), "2022-02-03"),
    (DateColumn("month", DAY(2020, 1, 15), DAY(2025, 12, 31), DateStep.MONTH, fallback=DAY(2022, 2, 3)), "2022-02-01"),
    (DateColumn("year", DAY(1999, 6, 1), DAY(2025, 12, 31), DateStep.YEAR, fallback=DAY(1999, 12, 31)), "1999-06-01"),
]
HOPELESS = ["", None, "?", "80kg", "70,5", "Leith", "nan", "2020-13-45", "1066/10/14"]


@pytest.mark.parametrize(("column", "printed"), FALLBACKS, ids=lambda value: getattr(value, "name", None))
def test_what_cannot_be_read_becomes_the_fallback(column: ModelledColumn, printed: str) -> None:
    codes = encode_column(column, pa.array(HOPELESS, pa.string()), missing=("", "?"))
    assert column.fallback_code is not None
    assert codes.tolist() == [column.fallback_code] * len(HOPELESS)
    assert column.texts()[column.fallback_code] == printed
    # It adds no code, and no cell that can be read becomes another.
    without = replace(column, fallback=None)
    assert (column.size, column.texts()) == (without.size, without.texts())
    honest = pa.array(column.texts(), pa.string())
    np.testing.assert_array_equal(encode_column(column, honest), encode_column(without, honest))
    assert without.fallback_code is None


@pytest.mark.parametrize(("column", "printed"), FALLBACKS, ids=lambda value: getattr(value, "name", None))
def test_missing_comes_before_the_fallback(column: ModelledColumn, printed: str) -> None:
    with_missing = replace(column, missing=True)
    codes = encode_column(with_missing, pa.array(HOPELESS, pa.string()), missing=("", "?"))
    assert set(codes.tolist()) == {with_missing.missing_code} == {with_missing.fallback_code}


def test_other_comes_before_the_fallback() -> None:
    column = CategoryColumn("category", ("low", "high"), other=True, fallback="low")
    assert encode_column(column, pa.array(["", "Leith", "low"]), missing=("",)).tolist() == [2, 2, 0]
    both = replace(column, missing=True)
    assert encode_column(both, pa.array(["", "Leith", "low"]), missing=("",)).tolist() == [3, 2, 0]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: NumberColumn("x", 0, 9, 1, fallback=10), "between low and high, or be a special value"),
        (lambda: NumberColumn("x", 0, 9, 1, special=(99,), fallback=98), "between low and high, or be a special value"),
        (lambda: NumberColumn("x", 0, 9, 1, fallback=float("nan")), "between low and high"),
        (lambda: CategoryColumn("x", ("a", "b"), fallback="c"), "one of the declared categories"),
        (lambda: CategoryColumn("x", ("a",), aliases=(("A", "a"),), fallback="A"), "one of the declared categories"),
        (lambda: YesNoColumn("x", fallback="maybe"), "fallback must be 'yes' or 'no'"),
        (lambda: DateColumn("x", DAY(2020, 1, 1), DAY(2021, 1, 1), fallback=DAY(2021, 1, 2)), "must lie between"),
    ],
)
def test_a_fallback_that_is_no_value_of_its_column_is_refused(make: Callable[[], ModelledColumn], message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        make()
