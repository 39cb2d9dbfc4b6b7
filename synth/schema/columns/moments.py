"""Points of the calendar and of the clock on a grid: dates at a step of a day, a month or a year, and times of day.

A time of day has cells of its own, or is in the cells of a column of dates.
"""

from __future__ import annotations

import datetime
import itertools
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Any, ClassVar

import numpy as np
import numpy.typing as npt

from synth.errors import SchemaError
from synth.schema.columns.base import (
    Cells,
    CellType,
    Coded,
    Fate,
    FormField,
    ModelledColumn,
    Scale,
    TypedCell,
    plain_value,
)
from synth.schema.documents import Date, Needed, Read, Text, as_date, as_text, read
from synth.schema.written import Notation, Patterns, as_pattern, has_hours, moment_written

__all__ = ["DateColumn", "DateStep", "TimeColumn", "TimeStep"]


@dataclass(frozen=True, slots=True)
class _MomentColumn(ModelledColumn):
    """A moment between low and high, kept at a step.

    ``pattern`` is how cells are written, in the notation of ``strptime``, or several such; None reads ISO 8601.
    """

    is_ordered: ClassVar[bool] = True

    low: Any
    high: Any
    step: Any
    pattern: Patterns | None = field(default=None, kw_only=True)

    def _check(self) -> None:
        low, high = map(plain_value, (self.low, self.high))
        if self.high <= self.low:
            raise SchemaError(f"'{self.name}': high must be later than low, got {low} and {high}.")
        if self.fallback is not None and not self.low <= self.fallback <= self.high:
            raise SchemaError(f"'{self.name}': fallback must lie between {low} and {high}.")

    @abstractmethod
    def _place_of(self, moment: Any) -> int:
        """Return how many steps a moment is after ``low``."""

    @abstractmethod
    def _at(self, place: int) -> Any:
        """Return the moment at a level of the grid."""

    @property
    def levels(self) -> int:
        """Number of steps from low to high, both included."""
        return self._place_of(self.high) + 1

    def _code_of_fallback(self) -> int:
        return self._place_of(self.fallback or self.low)

    @property
    def scale(self) -> Scale:
        """Steps after ``low``."""
        return Scale(0.0, float(self.levels - 1), unit=f"{self.step}s")

    @property
    def patterns(self) -> tuple[str, ...]:
        """Every declared pattern, in the order in which they are tried."""
        return (self.pattern,) if isinstance(self.pattern, str) else self.pattern or ()

    @abstractmethod
    def _counted(self, cells: Cells) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
        """Return the day or minute of every cell, which cells are none, and which are missing."""

    @abstractmethod
    def _count_of(self, moment: Any) -> int:
        """Return the day or minute of a moment."""

    @abstractmethod
    def _places(self, counted: npt.NDArray[np.int64], first: int) -> npt.NDArray[np.int64]:
        """Return the levels of days or minutes within the bounds; ``first`` is the lower bound."""

    def encode(self, cells: Cells) -> Coded:
        """Move moments outside the bounds to the nearest bound, and take each as the step that it falls in."""
        for pattern in self.patterns:
            read(f"'{self.name}': pattern", as_pattern, pattern)
        counted, unreadable, absent = self._counted(cells)
        first, last = self._count_of(self.low), self._count_of(self.high)
        codes = self._places(np.clip(counted, first, last), first)
        fates = np.where((counted < first) | (counted > last), Fate.OUTSIDE, Fate.KEPT).astype(np.int8)
        codes[unreadable], fates[unreadable] = self.unreadable_code, Fate.MALFORMED
        codes[absent], fates[absent] = self.unreadable_code, Fate.MISSING
        return codes, fates

    def _texts(self, codes: Sequence[int], missing: str) -> list[str]:
        return [str(plain_value(self._at(code))) if code < self.levels else missing for code in codes]

    def _codes_near(self, text: str) -> list[int]:
        try:
            place = self._place_of(type(self.low).fromisoformat(text))
        except ValueError:
            return []
        return [place] if 0 <= place < self.levels else []


# Dates ---------------------------------------------------------------------------------------------------------------

_EPOCH = datetime.date(1970, 1, 1).toordinal()
_NEEDS_BOUNDS = " needs an earliest and a latest date, for example 2020-01-01 and 2025-12-31."


class DateStep(StrEnum):
    """The resolution at which dates are kept."""

    DAY = "day"
    MONTH = "month"
    YEAR = "year"


_SHORTEST_ISO = {DateStep.DAY: 10, DateStep.MONTH: 7, DateStep.YEAR: 4}


@dataclass(frozen=True, slots=True)
class DateColumn(_MomentColumn):
    """A calendar date between low and high, kept at a step of a day, a month or a year."""

    kind: ClassVar[str] = "date"
    role: ClassVar[str] = "date"
    blank: ClassVar[str] = "{type: date, low: , high: , step: day}"
    form: ClassVar[tuple[FormField, ...]] = (
        FormField("low", ("low",), needed=_NEEDS_BOUNDS),
        FormField("high", ("high",), needed=_NEEDS_BOUNDS),
        FormField("step", ("step",), default="day"),
        FormField("fallback", ("fallback",)),
    )
    unasked: ClassVar[tuple[str, ...]] = ("pattern",)

    low: Annotated[Date, Needed("Write the earliest date, for example low: 2020-01-01.")]
    high: Annotated[Date, Needed("Write the latest date, for example high: 2025-12-31.")]
    step: DateStep = DateStep.DAY
    fallback: Date | None = field(default=None, kw_only=True)

    def _place_of(self, moment: datetime.date) -> int:
        if self.step is DateStep.DAY:
            return (moment - self.low).days
        years = moment.year - self.low.year
        return years if self.step is DateStep.YEAR else 12 * years + moment.month - self.low.month

    def _at(self, place: int) -> datetime.date:
        if self.step is DateStep.DAY:
            return self.low + datetime.timedelta(days=place)
        if self.step is DateStep.YEAR:
            first = datetime.date(self.low.year + place, 1, 1)
        else:
            months = 12 * self.low.year + self.low.month - 1 + place
            first = datetime.date(months // 12, months % 12 + 1, 1)
        # The first level starts at the declared lowest date, so that no printed date is outside the declared range.
        return max(first, self.low)

    @property
    def cell_type(self) -> CellType:
        """A date."""
        return "date32"

    def _counted(self, cells: Cells) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
        return cells.days(patterns=self.patterns, shortest=_SHORTEST_ISO[self.step])

    def _count_of(self, moment: datetime.date) -> int:
        return moment.toordinal() - _EPOCH

    def _places(self, counted: npt.NDArray[np.int64], first: int) -> npt.NDArray[np.int64]:
        if self.step is DateStep.DAY:
            return counted - first
        unit = "datetime64[M]" if self.step is DateStep.MONTH else "datetime64[Y]"
        return _in_units(counted, unit) - _in_units(np.array(first), unit)

    def declared_texts(
        self, codes: Sequence[int] | npt.NDArray[Any], notation: Notation, dates: tuple[str, ...]
    ) -> list[str]:
        """Return dates by the first declared pattern without a time of day, or else by the first."""
        patterns = self.patterns or dates
        if not patterns:
            return self.texts(codes)
        pattern = next(itertools.filterfalse(has_hours, patterns), patterns[0])
        return ["" if day is None else day.strftime(pattern) for day in self.cells(np.asarray(codes, np.int64))]

    def cells(self, codes: npt.NDArray[np.int64]) -> list[Any]:
        """Return the date of every code."""
        return [self._at(code) if code < self.levels else None for code in codes.tolist()]

    def invented(self, notation: Notation, dates: tuple[str, ...]) -> list[str]:
        """Return a day in the middle, too late in its month to be taken for a month, in every declared pattern."""
        day = max(self._at(self.levels // 2).replace(day=25), self.low)
        return [min(day, self.high).strftime(pattern) for pattern in self.patterns or dates]

    def text_of_typed(self, cell: TypedCell) -> str:
        """Return a day as it is read back: in ISO form, unless a declared pattern reads that as another day."""
        if isinstance(cell, str):
            return cell
        try:
            day = datetime.date(cell.year, cell.month, cell.day)
        except ValueError:  # a year that no date of Python has
            return ""
        iso = day.isoformat()
        if self._day_written(iso) in (None, day):
            return iso
        texts = (day.strftime(pattern) for pattern in self.patterns)
        return next((text for text in texts if self._day_written(text) == day), "")

    def _day_written(self, text: str) -> datetime.date | None:
        moments = (moment_written(text, pattern) for pattern in self.patterns)
        return next((moment.date() for moment in moments if moment is not None), None)

    def grid_at(self, levels: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        """Return the days at some levels, counted from 1 January of year 1."""
        first = self.low.toordinal()
        if self.step is DateStep.DAY:
            return (first + levels).astype(np.float64)
        months = levels * (12 if self.step is DateStep.YEAR else 1)
        start = np.datetime64(self.low, "Y" if self.step is DateStep.YEAR else "M").astype("datetime64[M]")
        days = (start + months).astype("datetime64[D]").astype(np.int64) + _EPOCH
        return np.asarray(np.maximum(days, first), dtype=np.float64)

    def comparable(self, text: str) -> float:
        """Read an ISO date as a day, counted as in :meth:`grid_at`."""
        return float(read("a constant", as_date, text).toordinal())


def _in_units(days: npt.NDArray[np.int64], unit: str) -> npt.NDArray[np.int64]:
    whole: npt.NDArray[np.int64] = days.astype("datetime64[D]").astype(unit).astype(np.int64)
    return whole


# Times of day --------------------------------------------------------------------------------------------------------


def _as_time(value: object) -> datetime.time:
    """Read a time of day; YAML reads 18:30 as a number of minutes."""
    try:
        if isinstance(value, datetime.time):
            return value
        if isinstance(value, int) and not isinstance(value, bool):
            return _time_at(value)
        text = as_text(value)
        return datetime.time.fromisoformat(f"0{text}" if text[1:2] == ":" else text).replace(second=0, microsecond=0)
    except ValueError:
        raise ValueError("must be a time of day such as 08:30.") from None


def _time_at(minute: int) -> datetime.time:
    return datetime.time(*divmod(minute, 60))


Time = Annotated[datetime.time, Read(_as_time)]


class TimeStep(StrEnum):
    """The resolution at which times of day are kept."""

    HOUR = "hour"
    QUARTER = "quarter"
    MINUTE = "minute"


_MINUTES = {TimeStep.HOUR: 60, TimeStep.QUARTER: 15, TimeStep.MINUTE: 1}


@dataclass(frozen=True, slots=True)
class TimeColumn(_MomentColumn):
    """A time of day between low and high, kept as the beginning of an hour, a quarter of an hour or a minute.

    Without a pattern, cells are read as 14:35 and 14:35:10, also after a date. ``of`` names the column of the file
    whose cells contain it, if it is in the cells of dates.

    Examples
    --------
    Hours of a day, of which the last begins at 23:00:

    >>> TimeColumn("came", step=TimeStep.HOUR).texts([0, 8, 23])
    ['00:00', '08:00', '23:00']
    """

    kind: ClassVar[str] = "time"
    role: ClassVar[str] = "time of day"
    blank: ClassVar[str] = "{type: time, step: }"
    form: ClassVar[tuple[FormField, ...]] = (
        FormField("low", ("low",), default="00:00"),
        FormField("high", ("high",), default="23:59"),
        FormField("step", ("step",), default="minute"),
        FormField("fallback", ("fallback",)),
    )
    unasked: ClassVar[tuple[str, ...]] = ("pattern", "of")

    low: Time = datetime.time(0, 0)
    high: Time = datetime.time(23, 59)
    step: TimeStep = TimeStep.MINUTE
    of: Text | None = field(default=None, kw_only=True)
    fallback: Time | None = field(default=None, kw_only=True)

    def _check(self) -> None:
        super(TimeColumn, self)._check()  # with its name, as slots make the class anew
        if self.of == self.name:
            raise SchemaError(f"'{self.name}': 'of' must name another column, whose cells contain the time.")

    @property
    def cells_in(self) -> str:
        """The column of the file that contains its cells, where none has its name."""
        return self.of or self.name

    def _place_of(self, moment: datetime.time) -> int:
        return (self._count_of(moment) - self._count_of(self.low)) // _MINUTES[self.step]

    def _at(self, place: int) -> datetime.time:
        return _time_at(self._count_of(self.low) + place * _MINUTES[self.step])

    def _counted(self, cells: Cells) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
        return cells.minutes(patterns=self.patterns)

    def _count_of(self, moment: datetime.time) -> int:
        return 60 * moment.hour + moment.minute

    def _places(self, counted: npt.NDArray[np.int64], first: int) -> npt.NDArray[np.int64]:
        return (counted - first) // _MINUTES[self.step]

    def cells(self, codes: npt.NDArray[np.int64]) -> list[Any]:
        """Return the text of every code."""
        return [text or None for text in self.texts(codes)]

    def invented(self, notation: Notation, dates: tuple[str, ...]) -> list[str]:
        """Return a time in the middle, in every declared pattern."""
        middle = datetime.datetime.combine(datetime.date(2021, 4, 3), self._at(self.levels // 2))
        return [middle.strftime(pattern) for pattern in self.patterns or (dates if self.of else ())]

    def declared_texts(
        self, codes: Sequence[int] | npt.NDArray[Any], notation: Notation, dates: tuple[str, ...]
    ) -> list[str]:
        """Return times by the first declared pattern."""
        if not self.patterns:
            return self.texts(codes)
        return ["" if code >= self.levels else self._at(code).strftime(self.patterns[0]) for code in map(int, codes)]

    def declared_texts_beside(
        self, codes: npt.NDArray[np.int64], dates: Sequence[datetime.date | None], patterns: tuple[str, ...]
    ) -> list[str]:
        """Return dates with their times; where the time is missing, the date alone."""
        pattern = next(filter(has_hours, patterns), "%Y-%m-%d %H:%M")
        return [
            ""
            if day is None
            else datetime.datetime.combine(day, self._at(code)).strftime(pattern)
            if code < self.levels
            else day.isoformat()
            for code, day in zip(codes.tolist(), dates, strict=True)
        ]

    def grid_at(self, levels: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        """Return the minutes of the day at some levels."""
        return np.asarray(self._count_of(self.low) + _MINUTES[self.step] * levels.astype(np.float64))

    def comparable(self, text: str) -> float:
        """Read a time of day as its minute."""
        return float(self._count_of(read("a constant", _as_time, text)))
