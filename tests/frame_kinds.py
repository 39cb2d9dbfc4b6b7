"""Cells of every type of pandas, Arrow and Python, and what becomes of them."""

from __future__ import annotations

import datetime as dt
import decimal
import enum
import fractions
import uuid
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

MISSING, ODD = "", "?"
"""A missing cell, and one that is not as declared."""

BIG = 9007199254740993
"""The first whole number that no float of 64 bits is."""

DAY, MINUTES, D = dt.date(2024, 1, 31), "2024-01-31T14:30", decimal.Decimal


def number(low: float = 0, high: float = 10, step: float = 1, **more: Any) -> dict[str, Any]:
    return {"type": "number", "low": low, "high": high, "step": step, "missing": True, **more}


def words(*values: str, **more: Any) -> dict[str, Any]:
    return {"type": "category", "values": list(values), "missing": True, **more}


DATE = {"type": "date", "low": "2020-01-01", "high": "2024-12-31", "missing": True}
TIME = {"type": "time", "missing": True}
YES_NO = {"type": "yes_no", "missing": True}
WAIT = number(duration="minutes")
BIG_WORDS = words(*(str(BIG + place) for place in range(3)))


class Level(enum.IntEnum):
    LOW = 1


class Town(enum.StrEnum):
    BERN = "Bern"


@dataclass(frozen=True)
class Kind:
    """Cells of a type, what is declared of them, and the texts of their codes."""

    cells: Any
    declared: dict[str, Any]
    texts: list[str]

    @property
    def series(self) -> pd.Series:
        return self.cells if isinstance(self.cells, pd.Series) else pd.Series(self.cells, dtype=object)


def arrow(values: list[Any], kind: pa.DataType) -> pd.Series:
    return pd.Series(pd.arrays.ArrowExtensionArray(pa.array(values, kind)))


def extension(values: list[Any], kind: pa.ExtensionType) -> pd.Series:
    stored = pa.array(values, kind.storage_type)
    return pd.Series(pd.arrays.ArrowExtensionArray(pa.ExtensionArray.from_storage(kind, stored)))


def of(dtype: Any, *cells: Any) -> pd.Series:
    return pd.Series(list(cells), dtype=dtype)


def zoned(*cells: str | None, zone: str = "Europe/Berlin", unit: str = "ns") -> pd.Series:
    return pd.to_datetime(pd.Series(cells)).dt.tz_localize(zone).dt.as_unit(unit)


SEVEN = uuid.UUID(int=7)
AS_TEXT = (pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string()))
AS_BYTES = (pa.binary(), pa.large_binary(), pa.binary_view(), pa.binary(2))
AS_WHOLE = (pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64())
AS_FLOAT = (pa.float16(), pa.float32(), pa.float64())
AS_DECIMAL = (pa.decimal32(5, 2), pa.decimal64(9, 2), pa.decimal128(20, 2), pa.decimal256(60, 2))
AS_TIMESTAMP = tuple(pa.timestamp(unit) for unit in ("s", "ms", "us", "ns"))
AS_DURATION = tuple(pa.duration(unit) for unit in ("s", "ms", "us", "ns"))
AS_TIME = (pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns"))

ARROW: dict[str, Kind] = {
    **{f"{kind}": Kind(arrow(["a", "z", None], kind), words("a"), ["a", ODD, MISSING]) for kind in AS_TEXT},
    **{
        f"{kind}": Kind(arrow([b"ab", b"\xff\xff", None], kind), words("ab"), ["ab", ODD, MISSING]) for kind in AS_BYTES
    },
    **{f"{kind}": Kind(arrow([3, 99, None], kind), number(), ["3", "10", MISSING]) for kind in AS_WHOLE},
    **{
        f"{kind}": Kind(arrow([2.5, np.inf, None], kind), number(step=0.5), ["2.5", "10.0", MISSING])
        for kind in AS_FLOAT
    },
    **{
        f"{kind}": Kind(arrow([D("2.50"), D(99), None], kind), number(step=0.5), ["2.5", "10.0", MISSING])
        for kind in AS_DECIMAL
    },
    **{f"{kind}": Kind(arrow([DAY, None], kind), DATE, ["2024-01-31", MISSING]) for kind in (pa.date32(), pa.date64())},
    **{
        f"{kind}": Kind(arrow([pd.Timestamp(MINUTES), None], kind), DATE, ["2024-01-31", MISSING])
        for kind in AS_TIMESTAMP
    },
    **{
        f"{kind} as a time": Kind(arrow([pd.Timestamp(MINUTES), None], kind), TIME, ["14:30", MISSING])
        for kind in AS_TIMESTAMP
    },
    **{
        f"{kind}": Kind(arrow([dt.timedelta(minutes=3), dt.timedelta(1), None], kind), WAIT, ["3", "10", MISSING])
        for kind in AS_DURATION
    },
    **{f"{kind}": Kind(arrow([dt.time(14, 30), None], kind), TIME, ["14:30", MISSING]) for kind in AS_TIME},
    "moments of a zone": Kind(
        arrow([pd.Timestamp("2024-01-30T23:30", tz="UTC"), None], pa.timestamp("us", "Europe/Berlin")),
        DATE,
        ["2024-01-31", MISSING],
    ),
    "truth values": Kind(arrow([True, False, None], pa.bool_()), YES_NO, ["yes", "no", MISSING]),
    "truth values as numbers": Kind(arrow([True, False, None], pa.bool_()), number(), ["1", "0", MISSING]),
    "nothing": Kind(arrow([None, None], pa.null()), number(), [MISSING, MISSING]),
    "runs": Kind(
        pd.Series(
            pa.RunEndEncodedArray.from_arrays(pa.array([1, 3], pa.int32()), pa.array(["a", None])),
            dtype=pd.ArrowDtype(pa.run_end_encoded(pa.int32(), pa.string())),
        ),
        words("a"),
        ["a", MISSING, MISSING],
    ),
    "uuid": Kind(extension([SEVEN.bytes, None], pa.uuid()), words(str(SEVEN)), [str(SEVEN), MISSING]),
    "truth values of a byte": Kind(extension([1, 0, None], pa.bool8()), YES_NO, ["yes", "no", MISSING]),
    "texts in JSON": Kind(extension(["7", None], pa.json_()), number(), ["7", MISSING]),
    "whole numbers beyond floats": Kind(
        arrow([BIG, BIG + 1, None], pa.int64()), BIG_WORDS, [str(BIG), str(BIG + 1), MISSING]
    ),
    "a moment beyond the calendar": Kind(
        pd.Series(pd.arrays.ArrowExtensionArray(pa.array([2**62, 0, 1706700000000], pa.timestamp("ms")))),
        DATE,
        [ODD, "2020-01-01", "2024-01-31"],
    ),
}
"""Types of Arrow: the same in a DataFrame and in a Parquet file."""

PANDAS: dict[str, Kind] = {
    **{
        kind: Kind(of(kind, 3, 99), number(), ["3", "10"])
        for kind in ("int8", "uint64", "float32", "float64", "float16")
    },
    **{
        kind: Kind(of(kind, 3, 99, None), number(), ["3", "10", MISSING])
        for kind in ("Int8", "UInt64", "Float32", "Float64")
    },
    "longdouble": Kind(of(np.longdouble, 2.5), number(step=0.5), ["2.5"]),
    "bool": Kind(of(bool, True, False), YES_NO, ["yes", "no"]),
    "boolean": Kind(of("boolean", True, False, None), YES_NO, ["yes", "no", MISSING]),
    "string": Kind(of("string", "a", "z", None), words("a"), ["a", ODD, MISSING]),
    "string of pyarrow": Kind(of("string[pyarrow]", "a", "z", None), words("a"), ["a", ODD, MISSING]),
    "bytes of numpy": Kind(pd.Series(np.array([b"a", b"z"])), words("a"), ["a", ODD]),
    "sparse": Kind(of("Sparse[int64]", 0, 3), number(), ["0", "3"]),
    "sparse floats": Kind(of("Sparse[float64]", np.nan, 3.0), number(), [MISSING, "3"]),
    "days": Kind(pd.Series(pd.to_datetime(["2024-01-31", None])), DATE, ["2024-01-31", MISSING]),
    "days as words": Kind(
        pd.Series(pd.to_datetime(["2024-01-31", None])), words("2024-01-31"), ["2024-01-31", MISSING]
    ),
    "a second beyond the calendar": Kind(
        pd.Series(np.array([2**62, -(2**62), 1706700000], "datetime64[s]")), DATE, [ODD, ODD, "2024-01-31"]
    ),
    "moments of a zone": Kind(zoned("2024-01-31T00:10", None), DATE, ["2024-01-31", MISSING]),
    "times of a zone": Kind(zoned("2024-01-31T00:10", None, unit="s"), TIME, ["00:10", MISSING]),
    "durations": Kind(pd.Series(pd.to_timedelta(["3min", "30s", None])), WAIT, ["3", "0", MISSING]),
    "durations of seconds": Kind(pd.Series(np.array([180, 2**62], "timedelta64[s]")), WAIT, ["3", "10"]),
    "periods as dates": Kind(of("period[M]", "2024-01", None), DATE, ["2024-01-01", MISSING]),
    "quarters as dates": Kind(of("period[Q-DEC]", "2024Q2", None), DATE, ["2024-04-01", MISSING]),
    "weeks as dates": Kind(of("period[W-SUN]", "2024-01-31", None), DATE, ["2024-01-29", MISSING]),
    "hours as times": Kind(of("period[h]", "2024-01-31 14:00", None), TIME, ["14:00", MISSING]),
    "periods as words": Kind(of("period[M]", "2024-01", None), words("2024-01"), ["2024-01", MISSING]),
    "intervals": Kind(
        pd.Series(pd.cut([1, 7], [0, 5, 10]).astype(object)), words("(0, 5]", "(5, 10]"), ["(0, 5]", "(5, 10]"]
    ),
    "intervals of floats": Kind(
        pd.Series(pd.arrays.IntervalArray.from_tuples([(0, 5), None])), words("(0, 5]"), ["(0, 5]", MISSING]
    ),
    "intervals as pandas writes them": Kind(
        pd.Series(pd.arrays.IntervalArray.from_tuples([(0, 5), (0.5, 5)])),
        words("(0.0, 5.0]", "(0.5, 5.0]"),
        ["(0.0, 5.0]", "(0.5, 5.0]"],
    ),
    "categories": Kind(of("category", "a", "z", None), words("a"), ["a", ODD, MISSING]),
    "categories of numbers": Kind(of("category", 3, 99, None), number(), ["3", "10", MISSING]),
    "categories of intervals": Kind(pd.Series(pd.cut([1, np.nan], [0, 5])), words("(0, 5]"), ["(0, 5]", MISSING]),
    "categories of days": Kind(
        pd.Series(pd.to_datetime(["2024-01-31", None])).astype("category"), DATE, ["2024-01-31", MISSING]
    ),
    "categories of durations": Kind(
        pd.Series(pd.to_timedelta([3, None], unit="min")).astype("category"), WAIT, ["3", MISSING]
    ),
    "whole numbers beyond floats": Kind(of("int64", BIG, BIG + 1), BIG_WORDS, [str(BIG), str(BIG + 1)]),
    "nullable ones beyond floats": Kind(of("Int64", BIG, None), BIG_WORDS, [str(BIG), MISSING]),
    "unsigned ones beyond floats": Kind(of("uint64", 2**64 - 1), words(str(2**64 - 1)), [str(2**64 - 1)]),
}
"""Types of pandas."""

PYTHON: dict[str, Kind] = {
    "numbers": Kind(
        [3, 3.0, np.int8(3), np.float32(3), True, np.True_, D("3.00"), fractions.Fraction(3), Level.LOW, "3", 3 + 0j],
        number(),
        ["3", "3", "3", "3", "1", "1", "3", ODD, "1", "3", ODD],
    ),
    "what is missing": Kind(
        [None, np.nan, pd.NA, pd.NaT, np.datetime64("NaT"), np.timedelta64("NaT"), D("NaN"), D("sNaN"), ""],
        number(),
        [MISSING] * 9,
    ),
    "numbers without end": Kind(
        [10**5000, -(10**5000), D("Infinity"), D("1e9999"), -np.inf], number(), ["10", "0", "10", "10", "0"]
    ),
    "numbers beyond floats": Kind(
        [BIG, float(BIG), D(BIG), str(BIG), 2**70], BIG_WORDS, [str(BIG), ODD, str(BIG), str(BIG), ODD]
    ),
    "decimals as words": Kind([D("1.10"), D("1.1"), 1.1, "1.10"], words("1.10", "x"), ["1.10", ODD, ODD, "1.10"]),
    "days": Kind(
        [
            DAY,
            pd.Timestamp(DAY),
            dt.datetime(2024, 1, 31, 9),
            np.datetime64(DAY),
            np.datetime64("2024-01"),
            np.datetime64("20000-01-01"),
            dt.date(1, 1, 1),
        ],
        DATE,
        ["2024-01-31"] * 4 + ["2024-01-01", ODD, "2020-01-01"],
    ),
    "moments of two zones": Kind(
        [
            pd.Timestamp("2024-01-31T23:30", tz="America/New_York"),
            pd.Timestamp("2024-01-31T00:30", tz="Asia/Tokyo"),
            dt.datetime(2024, 1, 31, tzinfo=dt.UTC),
        ],
        DATE,
        ["2024-01-31"] * 3,
    ),
    "times": Kind(
        [dt.time(14, 30), dt.time(14, 30, tzinfo=dt.UTC), pd.Timestamp(MINUTES), "14:30", DAY],
        TIME,
        ["14:30"] * 4 + [ODD],
    ),
    "durations": Kind(
        [
            dt.timedelta(minutes=3),
            pd.Timedelta("3min"),
            np.timedelta64(3, "m"),
            np.timedelta64(1, "Y"),
            3,
            "3",
            dt.timedelta.max,
        ],
        WAIT,
        ["3", "3", "3", ODD, "3", "3", "10"],
    ),
    "durations in no unit": Kind([dt.timedelta(minutes=3), 3], number(), [ODD, "3"]),
    "texts": Kind(
        ["a", np.str_("a"), Town.BERN, b"a", bytearray(b"a"), np.bytes_(b"a"), " a "],
        words("a", "Bern"),
        ["a", "a", "Bern", "a", "a", "a", "a"],
    ),
    "texts that are none": Kind(["a\nb", "\ud800", b"\xff", "a\0"], words("a"), [ODD] * 4),
    "periods": Kind(
        [pd.Period("2024-01"), pd.Period("2024"), pd.Period("2024-01-31"), pd.NaT],
        DATE,
        ["2024-01-01", "2024-01-01", "2024-01-31", MISSING],
    ),
    "a period beyond the calendar": Kind(
        [pd.Period(ordinal=2**40, freq="M"), pd.Period("1500-01")], DATE, [ODD, "2020-01-01"]
    ),
    "intervals": Kind(
        [pd.Interval(0, 5), pd.Interval(0.0, 5.0), pd.Interval(0, 5, closed="left")],
        words("(0, 5]", "[0, 5)"),
        ["(0, 5]", "(0, 5]", "[0, 5)"],
    ),
    "uuids": Kind([SEVEN, str(SEVEN)], words(str(SEVEN)), [str(SEVEN)] * 2),
    "truth values": Kind([True, np.False_, 1, 0.0, "Yes", None], YES_NO, ["yes", "no", "yes", "no", "yes", MISSING]),
    "nested cells": Kind(
        [[1], (1,), {"a": 1}, {1}, np.array([1]), pd.Series([1]), object(), len], words("1", other=True), ["other"] * 8
    ),
    "nested cells among numbers": Kind([3, [3], (), {}], number(), ["3", ODD, ODD, ODD]),
    "classes": Kind([int, Level, type(None)], number(), [ODD] * 3),
}
"""Cells of Python, each of its own type, in a column of objects."""

REFUSED: dict[str, tuple[pd.Series, dict[str, Any], str]] = {
    **{
        f"{kind}": (arrow(cells, kind), words("a"), "lists, records or maps")
        for cells, kind in (
            ([[1]], pa.list_(pa.int8())),
            ([[1]], pa.large_list(pa.int8())),
            ([[1]], pa.list_(pa.int8(), 1)),
            ([{"a": 1}], pa.struct({"a": pa.int8()})),
            ([[("a", 1)]], pa.map_(pa.string(), pa.int8())),
        )
    },
    "dictionary of lists": (
        pd.Series(pd.arrays.ArrowExtensionArray(pa.DictionaryArray.from_arrays(pa.array([0]), pa.array([[1]])))),
        words("a"),
        "lists, records or maps",
    ),
    "complex": (of("complex128", 1j), number(), "lists, records or maps"),
    "complex categories": (of("category", 1j), number(), "lists, records or maps"),
    "calendar intervals": (
        arrow([pa.MonthDayNano([1, 2, 3])], pa.month_day_nano_interval()),
        number(),
        "not supported",
    ),
    "a zone of nowhere": (
        pd.Series(pd.arrays.ArrowExtensionArray(pa.array([0], pa.timestamp("s", "Nowhere/City")))),
        DATE,
        "time zone",
    ),
    "durations in no unit": (pd.Series(pd.to_timedelta([1])), number(), "duration: minutes"),
    "durations as words": (pd.Series(pd.to_timedelta([1])), words("a"), "duration: minutes"),
    "durations of arrow in no unit": (arrow([dt.timedelta(1)], pa.duration("s")), number(), "duration: minutes"),
    "categories of durations in no unit": (
        pd.Series(pd.to_timedelta([1])).astype("category"),
        number(),
        "duration: minutes",
    ),
    **{
        f"floats where they are too few: {kind}": (of(kind, 1.0), BIG_WORDS, "do not tell apart")
        for kind in ("float64", "float32", "Float64", "Sparse[float64]", pd.ArrowDtype(pa.float32()))
    },
    "categories of floats where they are too few": (of("category", 1.5), BIG_WORDS, "do not tell apart"),
}
"""What is refused by the column's name, and by its type alone."""

NASTY: list[Any] = [
    None, np.nan, pd.NA, pd.NaT, np.datetime64("NaT"), D("NaN"), "", "x", "3", " ", "a\n1", "\ud800", b"\xff", b"a",
    7, np.uint8(1), 2**53 + 1, 2**63, 2**64, -(2**63) - 1, 10**400, Level.LOW, True, np.False_,
    1.5, 1e300, np.inf, -0.0, np.float32(0.1), np.float16(0.1), np.longdouble(0.1), 1j, D("1.10"), D(2**62 + 1),
    DAY, dt.date(9999, 12, 31), dt.datetime(1, 1, 1), dt.datetime(2024, 1, 31, 1, tzinfo=dt.UTC), dt.time(1),
    pd.Timestamp(MINUTES), pd.Timestamp(MINUTES, tz="America/New_York"),
    np.datetime64("20000-01-01"), np.datetime64(2**62, "s"),
    dt.timedelta(1), pd.Timedelta(1), np.timedelta64(2**62, "s"), pd.Period("2024-01"), pd.Period("2024Q1"),
    pd.Interval(0, 1), pd.Interval(0.5, 1.0), pd.Interval(0, 1, closed="both"), SEVEN, Town.BERN,
    [1], (), {}, {1}, np.array([1.5]), object(),
]  # fmt: skip
"""Cells of one row that move a whole column from one type to another, or that no type holds."""

HONEST: dict[str, tuple[list[Any], dict[str, Any]]] = {
    "whole numbers": ([1, 2, 3], number()),
    "whole numbers with a mark": ([1, 2, 3], number(decimal=",")),
    "whole numbers as words": ([1, 2, 3], words("1", "2.0", "x")),
    "whole numbers beyond floats": ([BIG, BIG + 1, BIG + 2], BIG_WORDS),
    "whole numbers beyond floats in a wide range": ([BIG, BIG + 1, BIG + 2], number(0, 2.0**60, 2.0**40)),
    "floats": ([0.5, 1.5, 2.0], number(step=0.5)),
    "floats of 32 bits": ([np.float32(0.1), np.float32(0.2)], number(step=0.1)),
    "decimals": ([D("0.10"), D(2), D("2.50")], number(step=0.5)),
    "decimals as words": ([D("0.10"), D(2), D("2.50")], words("0.10", "2", "2.5")),
    "truth values": ([True, False, True], YES_NO),
    "truth values as words": ([True, False], words("1", "no")),
    "texts": (["a", "b", "a"], words("a", "b", other=True)),
    "numbers in texts": (["001", "2", "3.0"], words("001", "2", "3.0")),
    "bytes": ([b"a", b"b"], words("a")),
    "days": ([DAY, dt.date(2024, 2, 1)], DATE),
    "days as words": ([DAY, dt.date(2024, 2, 1)], words("2024-01-31")),
    "moments": ([pd.Timestamp(MINUTES), pd.Timestamp("2024-02-01")], DATE),
    "moments as times": ([pd.Timestamp(MINUTES), pd.Timestamp("2024-02-01")], TIME),
    "moments as words": ([pd.Timestamp(MINUTES), pd.Timestamp("2024-02-01")], words("2024-02-01")),
    "moments of Python": ([dt.datetime(2024, 1, 31, 3), dt.datetime(2024, 2, 1)], DATE),
    "moments of a zone": ([pd.Timestamp("2024-01-31T00:10", tz="Europe/Berlin")] * 2, DATE),
    "moments of two zones": (
        [pd.Timestamp("2024-01-31T00:10", tz=zone) for zone in ("Europe/Berlin", "Asia/Tokyo")],
        DATE,
    ),
    "times": ([dt.time(1, 30), dt.time(2)], TIME),
    "durations": ([dt.timedelta(minutes=1), dt.timedelta(seconds=90)], WAIT),
    "durations of pandas": ([pd.Timedelta("1min"), pd.Timedelta("7ns")], WAIT),
    "periods": ([pd.Period("2024-01"), pd.Period("2024-02")], DATE),
    "periods as words": ([pd.Period("2024-01"), pd.Period("2024-02")], words("2024-01")),
    "intervals": ([pd.Interval(0, 5), pd.Interval(5, 10)], words("(0, 5]", "(5, 10]")),
    "intervals of days": (
        [pd.Interval(pd.Timestamp("2024-01-01"), pd.Timestamp("2024-01-02"))] * 2,
        words("a", other=True),
    ),
    "uuids": ([SEVEN, uuid.UUID(int=8)], words(str(SEVEN), other=True)),
    "ids": ([1, 2, 3], {"type": "identifier"}),
    "ids of bytes": ([b"\xff\x00", b"\xff\x01"], {"type": "identifier"}),
    "ids in texts": (["p1", "p2"], {"type": "identifier"}),
    "all kinds of cells": ([1, "a", 2.5, None, DAY, [1], b"a"], words("1", "a", "2.5", "2024-01-31", other=True)),
}
"""Cells of others, as somebody has them in Python before pandas guesses a type, and what is declared of them."""
