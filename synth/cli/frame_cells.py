"""The text of a cell of a DataFrame: each by itself, by its own type and what is declared, whatever stands beside it.

How pandas stores a column depends on all of its rows: one missing cell turns whole numbers into floats and the bounds
of intervals too, one word turns all cells into objects, one other time zone makes objects of moments. So each cell is
written in the same way for all types that pandas may have given it: 1, 1.0 and True are "1", the intervals from 0 to 5
and from 0.0 to 5.0 are one. A type that is not in :func:`_ways` has no text.
"""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from synth.schema import Column, DateColumn, DurationUnit, FindColumn, ModelledColumn, NumberColumn, TimeColumn
from synth.schema.encoding import NO_DAY, days_of_dates
from synth.schema.stored import UNREADABLE, WHOLE_BELOW, needs_whole_numbers, plain, plain_type, refuse_type
from synth.schema.written import has_hours

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["CellWriter", "can_stand_in_a_line", "cells_of", "holds_durations", "refuse_dtype"]

_MISSING = ""
_LONGEST_WHOLE = 2**1024
"""Larger whole numbers are infinite as floats."""

_LONGEST_DECIMAL = 400
"""Decimals of more digits are written as floats."""


# Texts ----------------------------------------------------------------------------------------------------------------


class CellWriter:
    """Writes the cells of one declared column.

    Parameters
    ----------
    column : Column
        What is declared.
    times : Column, optional
        A column of times of day that are in these cells, beside their dates.

    Examples
    --------
    >>> from synth.schema import parse_column
    >>> write = CellWriter(parse_column("age", {"type": "number", "low": 0, "high": 120, "step": 1, "missing": True}))
    >>> [write(cell) for cell in (34, 34.0, None, float("nan"), [34])]
    ['34', '34', '', '', '\ufffd']
    """

    def __init__(self, column: Column, times: Column | None = None) -> None:
        self.column, self._times = column, times
        # A person whose id cannot be read is nobody: one text for all of them would make one person of many.
        self._unreadable = _MISSING if column.is_identifier else UNREADABLE
        self._of_moments = isinstance(column, DateColumn | TimeColumn)
        # Elsewhere whole numbers are written as the nearest float, so that a column of whole numbers, and the same one
        # as floats because a cell is missing, are the same lines.
        self._floats_are_doubtful = column.is_identifier or needs_whole_numbers(column)
        self._exact = self._floats_are_doubtful or isinstance(column, FindColumn)
        self._words = frozenset(column.declared_labels) if isinstance(column, ModelledColumn) else frozenset[str]()
        self._spelled = lru_cache(maxsize=4096)(column.text_of_typed)

    def __call__(self, cell: Any) -> str:
        """Return the text of a cell: empty where it is missing, :data:`UNREADABLE` where it has none."""
        way = _way_of(type(cell))  # type: ignore[arg-type]  # mypy doubts that a class can be hashed
        if way is None:
            return self._unreadable
        try:
            text = way(self, cell)
        except Exception:  # beyond a calendar, say: whatever a cell raises concerns that cell alone
            return self._unreadable
        return text if can_stand_in_a_line(text) else self._unreadable

    def missing(self, cell: object) -> str:
        """Return the text of None, NaN, NaT and NA."""
        return _MISSING

    def text(self, cell: str) -> str:
        """Return a text as it is."""
        return str.__str__(cell)

    def bytes(self, cell: bytes) -> str:
        """Return bytes as UTF-8. An id that is no text is written digit by digit, so that no two become one."""
        try:
            text = bytes(cell).decode()
        except UnicodeDecodeError:
            text = UNREADABLE
        if self.column.is_identifier and (text == UNREADABLE or not can_stand_in_a_line(text)):
            return f"0x{bytes(cell).hex()}"
        return text

    def whole(self, cell: Any) -> str:
        """Return a whole number or a truth value in digits, exactly where the column tells such numbers apart."""
        number = int(cell)
        if abs(number) >= _LONGEST_WHOLE:
            return self._unreadable if self._exact else self._spelled("inf" if number > 0 else "-inf")
        if abs(number) < WHOLE_BELOW or self._exact:
            return self._spelled(str(number))
        return self._spelled(repr(float(number)))

    def number(self, cell: Any) -> str:
        """Return the nearest float of 64 bits, a whole one without a decimal point."""
        try:
            number = float(cell)
        except OverflowError:
            number = float("-inf") if cell < 0 else float("inf")
        if number != number:
            return _MISSING
        if abs(number) < WHOLE_BELOW and number.is_integer():
            return self._spelled(str(int(number)))  # a whole zero has no sign
        if abs(number) >= WHOLE_BELOW and self._floats_are_doubtful:
            return self._unreadable
        return self._spelled(repr(number))

    def decimal(self, cell: Decimal) -> str:
        """Return a whole decimal as a whole number, and any other as a float unless it is declared with its zeros."""
        if cell.is_nan():
            return _MISSING
        if not cell.is_finite() or abs(cell.adjusted()) > _LONGEST_DECIMAL:
            return self.number(cell)
        number = self.whole(cell) if cell == cell.to_integral_value() else self.number(cell)
        written = self._spelled(f"{cell:f}")
        return written if written in self._words else number

    def moment(self, cell: datetime.date) -> str:
        """Return a day, or a day and a time, as its own time zone has it."""
        if isinstance(self.column, DateColumn):
            return (self.column.text_of_typed(cell) if self._times is None else self._with_time(cell)) or UNREADABLE
        if not isinstance(cell, datetime.datetime):
            return self._declared(cell.isoformat())
        day = [cell.date().isoformat()] if not (cell.hour or cell.minute or cell.second or cell.microsecond) else []
        return self._declared(cell.isoformat(), cell.isoformat(sep=" "), *day)

    def _with_time(self, cell: datetime.date) -> str:
        """Return the text of a cell with a day and a time of day, or only the day if it has no time."""
        column = self.column
        day = column.text_of_typed(cell)
        if not day or not isinstance(cell, datetime.datetime):
            return day
        patterns = column.patterns if isinstance(column, ModelledColumn) else ()
        timed = next(filter(has_hours, patterns), None)
        return f"{day}T{cell:%H:%M}" if timed is None else cell.strftime(timed)

    def time(self, cell: datetime.time) -> str:
        """Return a time of day."""
        return self._declared(cell.isoformat(), f"{cell:%H:%M}")

    def duration(self, cell: Any) -> str:
        """Return a duration as a number of the declared unit."""
        length = _nanoseconds(cell)
        if length is None:
            return _MISSING
        unit = self.column.duration if isinstance(self.column, NumberColumn) else None
        if unit is None:
            return self._unreadable
        whole, rest = divmod(length, unit.nanoseconds)
        return self.number(length / unit.nanoseconds) if rest else self.whole(whole)

    def period(self, cell: pd.Period) -> str:
        """Return the start of a period, and its own text in a column of words."""
        return self.moment(_start_of(cell)) if self._of_moments else self._declared(str(cell), str(_start_of(cell)))

    def interval(self, cell: pd.Interval) -> str:
        """Return an interval such as (0, 5], whether its bounds are stored as whole numbers or as floats."""
        opens, ends = ("[" if cell.closed_left else "("), ("]" if cell.closed_right else ")")
        spellings = ([spell(bound) for bound in (cell.left, cell.right)] for spell in (_short, _as_float, str))
        return self._declared(*(f"{opens}{left}, {right}{ends}" for left, right in spellings))

    def uuid(self, cell: uuid.UUID) -> str:
        """Return a UUID in its usual form."""
        return str(cell)

    def _declared(self, *spellings: str) -> str:
        """Return the declared word that one of the spellings means, else the first spelling."""
        words = (self._spelled(spelling) for spelling in spellings)
        return next((word for word in words if word in self._words), spellings[0])


def can_stand_in_a_line(text: str) -> bool:
    """Return whether a text is one, and has no line break."""
    if any(character in text for character in "\n\r\0"):
        return False
    try:
        text.encode()
    except UnicodeEncodeError:  # half a surrogate pair
        return False
    return True


Way = Callable[[CellWriter, Any], str]

_WHOLE_TYPES = (bool, np.bool_, int, np.integer)
_FLOAT_TYPES = (float, np.floating)


@cache
def _ways() -> Mapping[type, Way]:
    """Return how a cell is written, by its type."""
    import pandas as pd

    writer = CellWriter
    ways: dict[type, Way] = {type(None): writer.missing, type(pd.NaT): writer.missing, type(pd.NA): writer.missing}
    ways |= dict.fromkeys(_WHOLE_TYPES, writer.whole) | dict.fromkeys(_FLOAT_TYPES, writer.number)
    ways |= {str: writer.text, bytes: writer.bytes, bytearray: writer.bytes, Decimal: writer.decimal}
    ways |= {datetime.date: writer.moment, datetime.time: writer.time, np.datetime64: _moment_of_numpy}
    ways |= {datetime.timedelta: writer.duration, np.timedelta64: writer.duration}
    return ways | {pd.Period: writer.period, pd.Interval: writer.interval, uuid.UUID: writer.uuid}


@cache
def _way_of(kind: type) -> Way | None:
    """Return how a cell of this type is written: as the nearest type above it that has a way; None where none has."""
    # numpy calls a duration a whole number, and its own texts and bytes are those of Python.
    return next((way for base in kind.__mro__ if (way := _ways().get(base)) is not None), None)


def _moment_of_numpy(writer: CellWriter, cell: np.datetime64) -> str:
    import pandas as pd

    return _MISSING if np.isnat(cell) else writer(pd.Timestamp(cell))


def _nanoseconds(cell: Any) -> int | None:
    """Return the length of a duration, None where it is missing."""
    import pandas as pd

    if isinstance(cell, pd.Timedelta):
        cell = cell.asm8
    if not isinstance(cell, np.timedelta64):
        return 1000 * int(cell // datetime.timedelta(microseconds=1))
    if np.isnat(cell):
        return None
    unit, many = np.datetime_data(cell.dtype)
    return int(cell.astype(np.int64)) * many * _NANOSECONDS[unit]


_NANOSECONDS = {"ns": 1, "us": 10**3, "ms": 10**6} | {
    letter: unit.nanoseconds
    for letter, unit in (
        ("s", DurationUnit.SECONDS), ("m", DurationUnit.MINUTES), ("h", DurationUnit.HOURS), ("D", DurationUnit.DAYS),
        ("W", DurationUnit.WEEKS),
    )
}  # fmt: skip


def _start_of(cell: pd.Period) -> datetime.date:
    if cell.freqstr.partition("-")[0] in ("Y", "A", "Q", "M", "W", "B", "D"):
        first = cell.asfreq("D", how="start")
        return datetime.date(first.year, first.month, first.day)
    first = cell.asfreq("s", how="start")
    return datetime.datetime(first.year, first.month, first.day, first.hour, first.minute, first.second)


def _short(bound: Any) -> str:
    return str(int(bound)) if isinstance(bound, float | np.floating) and float(bound).is_integer() else str(bound)


def _as_float(bound: Any) -> str:
    return str(float(bound)) if isinstance(bound, int | np.integer) else str(bound)


# Cells of a column ----------------------------------------------------------------------------------------------------

_ODD = ()
"""Stands for a cell beyond a calendar or an encoding; a tuple has no text."""


def cells_of(cells: pd.Series[Any]) -> Sequence[Any]:
    """Return the cells of a column, each with its own type.

    pandas and pyarrow turn a whole column into objects of Python at once, and fail for all cells because of one. Here a
    cell that no object can hold, such as a moment beyond every calendar, is an empty tuple, and the others stay.
    """
    import pandas as pd

    kind = cells.dtype
    if isinstance(kind, pd.CategoricalDtype):
        values = [*cells_of(pd.Series(cells.cat.categories)), None]
        return [values[code] for code in cells.cat.codes.to_numpy()]
    if isinstance(kind, pd.ArrowDtype):
        return [cell for chunk in _chunks(cells) for cell in _cells_of_arrow(chunk)]
    if isinstance(kind, pd.DatetimeTZDtype):
        return _moments(cells, cells.dt.tz_convert("UTC").dt.tz_localize(None).to_numpy(), margin=1)
    if isinstance(kind, np.dtype) and kind.kind == "M":
        return _moments(cells, cells.to_numpy(), margin=0)
    if isinstance(kind, np.dtype) and kind.kind == "m":
        return list(cells.to_numpy())
    return list(cells.tolist())


def _moments(cells: pd.Series[Any], moments: npt.NDArray[np.datetime64], *, margin: int) -> list[Any]:
    """Return moments as timestamps; ``margin`` is in days, as a time zone may lead from one calendar day to another."""
    if np.datetime_data(moments.dtype)[0] == "ns":  # which ends before the calendar does
        return list(cells.tolist())
    first, last = np.datetime64("0001-01-01") + margin, np.datetime64("9999-12-31") - margin
    beyond = (moments < first) | (moments >= last + 1)
    inside = cells.mask(beyond).tolist() if beyond.any() else cells.tolist()
    return [_ODD if odd else cell for cell, odd in zip(inside, beyond.tolist(), strict=True)]


def _chunks(cells: pd.Series[Any]) -> list[pa.Array]:
    whole = cells.array.__arrow_array__()
    return list(whole.chunks) if isinstance(whole, pa.ChunkedArray) else [whole]


def _cells_of_arrow(stored: pa.Array) -> Sequence[Any]:
    import pandas as pd

    cells = plain(stored, pa.field("", stored.type))
    if pa.types.is_dictionary(cells.type):
        cells = cells.dictionary.take(cells.indices)
    kind, types = cells.type, pa.types
    if types.is_string(kind) or types.is_large_string(kind):
        raw = cells.cast(pa.large_binary() if types.is_large_string(kind) else pa.binary()).to_pylist()
        return [None if one is None else _decoded(one) for one in raw]
    if types.is_date(kind):
        days = days_of_dates(cells)
        found = np.where(days == NO_DAY, np.datetime64("NaT"), days.astype("datetime64[D]")).tolist()
        return [day if day is None or isinstance(day, datetime.date) else _ODD for day in found]
    if types.is_timestamp(kind):
        moments = pd.Series(_as_numpy(cells, "datetime64"))
        return cells_of(moments if kind.tz is None else moments.dt.tz_localize("UTC").dt.tz_convert(kind.tz))
    if types.is_duration(kind):
        return list(_as_numpy(cells, "timedelta64"))
    return list(cells.to_pylist())


def _decoded(cell: bytes) -> str | tuple[()]:
    try:
        return cell.decode()
    except UnicodeDecodeError:
        return _ODD


def _as_numpy(cells: pa.Array, kind: str) -> npt.NDArray[Any]:
    places = cells.cast(pa.timestamp(cells.type.unit)) if kind == "datetime64" else cells
    whole = pc.fill_null(places.view(pa.int64()), np.iinfo(np.int64).min).to_numpy(zero_copy_only=False)  # which is NaT
    return np.asarray(whole).astype(np.int64).view(f"{kind}[{cells.type.unit}]")


# Types of columns -----------------------------------------------------------------------------------------------------


def refuse_dtype(cells: pd.Series[Any], column: Column) -> None:
    """Refuse a column of a DataFrame whose type cannot be read as it is declared; no cell is read to say so.

    Raises
    ------
    TableError
        In one sentence that names the column.
    """
    kind = _arrow_type(cells.dtype)
    if kind is not None:
        refuse_type(column.name, kind, column)


def holds_durations(dtype: object) -> bool:
    """Return whether a type of pandas is one of durations."""
    kind = _arrow_type(dtype)
    return kind is not None and bool(pa.types.is_duration(kind))


def _arrow_type(dtype: object) -> pa.DataType | None:
    """Return the type of Arrow that cells of a type of pandas have; None where each cell has its own."""
    import pandas as pd

    if isinstance(dtype, pd.CategoricalDtype):
        return _arrow_type(dtype.categories.dtype)
    if isinstance(dtype, pd.ArrowDtype):
        return plain_type(pa.field("", dtype.pyarrow_dtype))
    base = getattr(dtype, "subtype", dtype) if isinstance(dtype, pd.SparseDtype) else dtype
    base = getattr(base, "numpy_dtype", base)
    if not isinstance(base, np.dtype) or base.kind not in "cfm":
        return None
    return {"c": _COMPLEX, "f": pa.float64(), "m": pa.duration("ns")}[base.kind]


_COMPLEX = pa.struct({"real": pa.float64(), "imaginary": pa.float64()})
