"""Calendar dates at a step of a day, a month or a year."""

from __future__ import annotations

import datetime
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Any, ClassVar

import numpy as np
import numpy.typing as npt

from synth.errors import SchemaError
from synth.schema.columns.base import Cells, CellType, Coded, Fate, FormField, ModelledColumn, Scale, TypedCell
from synth.schema.documents import Date, Needed, as_date, read
from synth.schema.written import Notation, Patterns, as_pattern, has_hours

__all__ = ["DateColumn", "DateStep"]

_EPOCH = datetime.date(1970, 1, 1).toordinal()
_NEEDS_BOUNDS = " needs an earliest and a latest date, for example 2020-01-01 and 2025-12-31."


class DateStep(StrEnum):
    """The resolution at which dates are kept."""

    DAY = "day"
    MONTH = "month"
    YEAR = "year"


_SHORTEST_ISO = {DateStep.DAY: 10, DateStep.MONTH: 7, DateStep.YEAR: 4}


@dataclass(frozen=True, slots=True)
class DateColumn(ModelledColumn):
    """A calendar date between low and high, kept at a step of a day, a month or a year.

    ``pattern`` is how cells are written, in the notation of ``strptime``, or several such; None reads ISO dates.
    """

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
    is_ordered: ClassVar[bool] = True

    low: Annotated[Date, Needed("Write the earliest date, for example low: 2020-01-01.")]
    high: Annotated[Date, Needed("Write the latest date, for example high: 2025-12-31.")]
    step: DateStep = DateStep.DAY
    pattern: Patterns | None = field(default=None, kw_only=True)
    fallback: Date | None = field(default=None, kw_only=True)

    def _check(self) -> None:
        if self.high <= self.low:
            raise SchemaError(f"'{self.name}': high must be later than low, got {self.low} and {self.high}.")
        if self.fallback is not None and not self.low <= self.fallback <= self.high:
            raise SchemaError(f"'{self.name}': fallback must lie between {self.low} and {self.high}.")

    def to_mapping(self) -> dict[str, object]:
        """Write the column as its fields are read; keys at their defaults are left out."""
        body: dict[str, object] = {
            "low": self.low.isoformat(),
            "high": self.high.isoformat(),
            "step": str(self.step),
        }
        if self.pattern is not None:
            body["pattern"] = self.pattern if isinstance(self.pattern, str) else list(self.pattern)
        return self._with_common(body)

    @property
    def levels(self) -> int:
        """Number of days, months or years from low to high, both included."""
        return self._place_of(self.high) + 1

    def _code_of_fallback(self) -> int:
        return self._place_of(self.fallback or self.low)

    def _place_of(self, day: datetime.date) -> int:
        """Return how many steps a day lies after ``low``."""
        if self.step is DateStep.DAY:
            return (day - self.low).days
        years = day.year - self.low.year
        return years if self.step is DateStep.YEAR else 12 * years + day.month - self.low.month

    @property
    def scale(self) -> Scale:
        """Days, months or years after ``low``."""
        return Scale(0.0, float(self.levels - 1), unit=f"{self.step}s")

    @property
    def cell_type(self) -> CellType:
        """A date."""
        return "date32"

    def encode(self, cells: Cells) -> Coded:
        """Move dates to the nearest place."""
        for pattern in self.patterns:
            read(f"'{self.name}': pattern", as_pattern, pattern)
        days, unreadable, absent = cells.days(pattern=self.pattern, shortest=_SHORTEST_ISO[self.step])
        first, last = (day.toordinal() - _EPOCH for day in (self.low, self.high))
        inside = np.clip(days, first, last)
        if self.step is DateStep.DAY:
            codes = inside - first
        else:
            unit = "datetime64[M]" if self.step is DateStep.MONTH else "datetime64[Y]"
            codes = _in_units(inside, unit) - _in_units(np.array(first), unit)
        fates = np.where((days < first) | (days > last), Fate.OUTSIDE, Fate.KEPT).astype(np.int8)
        codes[unreadable], fates[unreadable] = self.unreadable_code, Fate.MALFORMED
        codes[absent], fates[absent] = self.unreadable_code, Fate.MISSING
        return codes, fates

    def _texts(self, codes: Sequence[int], missing: str) -> list[str]:
        return [self._date(code).isoformat() if code < self.levels else missing for code in codes]

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
        return [self._date(code) if code < self.levels else None for code in codes.tolist()]

    def _date(self, place: int) -> datetime.date:
        if self.step is DateStep.DAY:
            return self.low + datetime.timedelta(days=place)
        if self.step is DateStep.YEAR:
            first = datetime.date(self.low.year + place, 1, 1)
        else:
            months = 12 * self.low.year + self.low.month - 1 + place
            first = datetime.date(months // 12, months % 12 + 1, 1)
        # The first place starts at the declared lowest date, so that no printed date lies outside the declared range.
        return max(first, self.low)

    def _codes_near(self, text: str) -> list[int]:
        try:
            place = self._place_of(datetime.date.fromisoformat(text))
        except ValueError:
            return []
        return [place] if 0 <= place < self.levels else []

    def invented(self, notation: Notation, dates: tuple[str, ...]) -> list[str]:
        """Return a day in the middle, too late in its month to be one, in every way that is declared."""
        day = max(self._date(self.levels // 2).replace(day=25), self.low)
        return [min(day, self.high).strftime(pattern) for pattern in self.patterns or dates]

    def text_of_cell(self, cell: Any) -> str:
        """Return a date as ISO writes it."""
        return cell.isoformat() if isinstance(cell, datetime.date) else str(cell)

    def text_of_typed(self, cell: TypedCell) -> str:
        """Return a day as it is read back: as ISO writes it, unless the declared pattern takes that for another day."""
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
        return next(filter(None, (_day_in(pattern, text) for pattern in self.patterns)), None)

    @property
    def patterns(self) -> tuple[str, ...]:
        """Every way in which cells are declared to be written, in the order in which they are tried."""
        return (self.pattern,) if isinstance(self.pattern, str) else self.pattern or ()

    def grid(self) -> npt.NDArray[np.float64]:
        """Return the day at every place, counted from the first of January of year 1."""
        first = self.low.toordinal()
        if self.step is DateStep.DAY:
            return np.arange(first, first + self.levels, dtype=np.float64)
        months = np.arange(self.levels) * (12 if self.step is DateStep.YEAR else 1)
        start = np.datetime64(self.low, "Y" if self.step is DateStep.YEAR else "M").astype("datetime64[M]")
        days = (start + months).astype("datetime64[D]").astype(np.int64) + _EPOCH
        return np.asarray(np.maximum(days, first), dtype=np.float64)

    def comparable(self, text: str) -> float:
        """Read an ISO date as a day, counted as in :meth:`grid`."""
        return float(read("a constant", as_date, text).toordinal())


def _day_in(pattern: str, text: str) -> datetime.date | None:
    try:
        return datetime.datetime.strptime(text, pattern).date()
    except ValueError:
        return None


def _in_units(days: npt.NDArray[np.int64], unit: str) -> npt.NDArray[np.int64]:
    whole: npt.NDArray[np.int64] = days.astype("datetime64[D]").astype(unit).astype(np.int64)
    return whole
