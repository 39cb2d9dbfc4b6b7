"""Times of day at a step of an hour, a quarter of an hour or a minute; alone, or beside the dates of another column."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Any, ClassVar

import numpy as np
import numpy.typing as npt

from synth.errors import SchemaError
from synth.schema.columns.base import Cells, Coded, Fate, FormField, ModelledColumn, Scale
from synth.schema.documents import Read, Text, as_text, read
from synth.schema.written import Notation, Patterns, as_pattern, has_hours

__all__ = ["TimeColumn", "TimeStep"]

_DAY = 24 * 60


def _as_time(value: object) -> datetime.time:
    """Read a time of day; YAML takes 18:30 for a number of minutes."""
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


def _minute_of(time: datetime.time) -> int:
    return 60 * time.hour + time.minute


Time = Annotated[datetime.time, Read(_as_time)]


class TimeStep(StrEnum):
    """The resolution at which times of day are kept."""

    HOUR = "hour"
    QUARTER = "quarter"
    MINUTE = "minute"


_MINUTES = {TimeStep.HOUR: 60, TimeStep.QUARTER: 15, TimeStep.MINUTE: 1}


@dataclass(frozen=True, slots=True)
class TimeColumn(ModelledColumn):
    """A time of day between low and high, kept as the beginning of an hour, a quarter of an hour or a minute.

    ``pattern`` is how cells are written, in the notation of ``strptime``, or several such; None reads 14:35 and
    14:35:10, also behind a date. ``of`` names the column of the file whose cells hold it, where it stands behind dates.

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
    is_ordered: ClassVar[bool] = True

    low: Time = datetime.time(0, 0)
    high: Time = datetime.time(23, 59)
    step: TimeStep = TimeStep.MINUTE
    pattern: Patterns | None = field(default=None, kw_only=True)
    of: Text | None = field(default=None, kw_only=True)
    fallback: Time | None = field(default=None, kw_only=True)  # type: ignore[assignment]

    def _check(self) -> None:
        if self.high <= self.low:
            raise SchemaError(
                f"'{self.name}': high must be later than low, got {self.low:%H:%M} and {self.high:%H:%M}."
            )
        if self.fallback is not None and not self.low <= self.fallback <= self.high:
            raise SchemaError(f"'{self.name}': fallback must lie between {self.low:%H:%M} and {self.high:%H:%M}.")
        if self.of == self.name:
            raise SchemaError(f"'{self.name}': 'of' names another column, whose cells hold the time. Leave it out.")

    def to_mapping(self) -> dict[str, object]:
        """Write the column as its fields are read; keys at their defaults are left out."""
        body: dict[str, object] = {"low": f"{self.low:%H:%M}", "high": f"{self.high:%H:%M}", "step": str(self.step)}
        if self.pattern is not None:
            body["pattern"] = self.pattern if isinstance(self.pattern, str) else list(self.pattern)
        if self.of is not None:
            body["of"] = self.of
        body = self._with_common(body)
        return body if self.fallback is None else {**body, "fallback": f"{self.fallback:%H:%M}"}

    @property
    def cells_in(self) -> str:
        """The column of the file that holds its cells, where none has its own name."""
        return self.of or self.name

    @property
    def levels(self) -> int:
        """Number of hours, quarters or minutes from low to high, both included."""
        return self._place_of(self.high) + 1

    def _code_of_fallback(self) -> int:
        return self._place_of(self.fallback or self.low)

    def _place_of(self, time: datetime.time) -> int:
        return (_minute_of(time) - _minute_of(self.low)) // _MINUTES[self.step]

    @property
    def scale(self) -> Scale:
        """Hours, quarters or minutes after ``low``."""
        return Scale(0.0, float(self.levels - 1), unit=f"{self.step}s")

    def encode(self, cells: Cells) -> Coded:
        """Take a time for the hour, quarter or minute that it is in."""
        for pattern in self.patterns:
            read(f"'{self.name}': pattern", as_pattern, pattern)
        minutes, unreadable, absent = cells.minutes(pattern=self.pattern)
        first, last = _minute_of(self.low), _minute_of(self.high)
        codes = (np.clip(minutes, first, last) - first) // _MINUTES[self.step]
        fates = np.where((minutes < first) | (minutes > last), Fate.OUTSIDE, Fate.KEPT).astype(np.int8)
        codes[unreadable], fates[unreadable] = self.unreadable_code, Fate.MALFORMED
        codes[absent], fates[absent] = self.unreadable_code, Fate.MISSING
        return codes, fates

    def _texts(self, codes: Sequence[int], missing: str) -> list[str]:
        return [f"{self.time(code):%H:%M}" if code < self.levels else missing for code in codes]

    def cells(self, codes: npt.NDArray[np.int64]) -> list[Any]:
        """Return the text of every code."""
        return [text or None for text in self.texts(codes)]

    def time(self, code: int) -> datetime.time:
        """Return the beginning of a place of the grid."""
        return _time_at(_minute_of(self.low) + code * _MINUTES[self.step])

    def _codes_near(self, text: str) -> list[int]:
        try:
            place = self._place_of(datetime.time.fromisoformat(text))
        except ValueError:
            return []
        return [place] if 0 <= place < self.levels else []

    def invented(self, notation: Notation, dates: tuple[str, ...]) -> list[str]:
        """Return a time in the middle in every way that is declared."""
        middle = datetime.datetime.combine(datetime.date(2021, 4, 3), self.time(self.levels // 2))
        return [middle.strftime(pattern) for pattern in self.patterns or (dates if self.of else ())]

    def declared_texts(
        self, codes: Sequence[int] | npt.NDArray[Any], notation: Notation, dates: tuple[str, ...]
    ) -> list[str]:
        """Return times by the first declared pattern."""
        if not self.patterns:
            return self.texts(codes)
        return ["" if code >= self.levels else self.time(code).strftime(self.patterns[0]) for code in map(int, codes)]

    def declared_texts_beside(
        self, codes: npt.NDArray[np.int64], dates: Sequence[datetime.date | None], patterns: tuple[str, ...]
    ) -> list[str]:
        """Return times behind their dates; where the time is missing, the date alone."""
        pattern = next(filter(has_hours, patterns), "%Y-%m-%d %H:%M")
        return [
            ""
            if day is None
            else datetime.datetime.combine(day, self.time(code)).strftime(pattern)
            if code < self.levels
            else day.isoformat()
            for code, day in zip(codes.tolist(), dates, strict=True)
        ]

    @property
    def patterns(self) -> tuple[str, ...]:
        """Every way in which cells are declared to be written, in the order in which they are tried."""
        return (self.pattern,) if isinstance(self.pattern, str) else self.pattern or ()

    def grid(self) -> npt.NDArray[np.float64]:
        """Return the minute of the day at every place."""
        return np.asarray(_minute_of(self.low) + _MINUTES[self.step] * np.arange(self.levels, dtype=np.float64))

    def comparable(self, text: str) -> float:
        """Read a time of day as its minute."""
        return float(_minute_of(read("a constant", _as_time, text)))
