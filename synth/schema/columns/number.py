"""Numbers on a declared grid."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum
from fractions import Fraction
from functools import lru_cache
from typing import Annotated, Any, ClassVar

import numpy as np
import numpy.typing as npt

from synth.errors import SchemaError
from synth.schema.columns.base import Cells, CellType, Coded, Fate, FormField, ModelledColumn, Scale, TypedCell
from synth.schema.documents import Needed, Read, as_number, each, read
from synth.schema.written import Notation, Sign, Units

__all__ = ["DurationUnit", "NumberColumn"]

_CHOOSE = "Choose limits you would be happy to print, for example 0 and 500,000. Values outside are moved to the limit."
_STEPS = "1 for whole numbers, 0.1 or 0.01 for decimals. A value between two steps is moved to the nearest."
_NEEDS_STEP = f" needs its step: {_STEPS}"
_NEEDS_BOUNDS = f" needs a lowest and a highest value. {_CHOOSE}"

MAXIMUM_LEVELS = 10**9 + 1
"""Values on one declared grid: cents up to ten million. Codes have to fit into 31 bits."""

EXACT_FLOATS = 2.0**53
"""From here on there are whole numbers that no float holds."""

MOST_DIGITS = (309, 1074)
"""Digits of the longest finite float, before and after the point."""


class DurationUnit(StrEnum):
    """The unit in which a duration is a number."""

    WEEKS = "weeks"
    DAYS = "days"
    HOURS = "hours"
    MINUTES = "minutes"
    SECONDS = "seconds"
    MILLISECONDS = "milliseconds"

    @property
    def nanoseconds(self) -> int:
        """How long it is."""
        return _NANOSECONDS[self]


_NANOSECONDS = {
    DurationUnit.WEEKS: 604_800 * 10**9,
    DurationUnit.DAYS: 86_400 * 10**9,
    DurationUnit.HOURS: 3_600 * 10**9,
    DurationUnit.MINUTES: 60 * 10**9,
    DurationUnit.SECONDS: 10**9,
    DurationUnit.MILLISECONDS: 10**6,
}


def _as_exact(value: object) -> float:
    """Read a number; a whole one that a float may not hold stays a whole number."""
    number = as_number(value)
    if not EXACT_FLOATS <= abs(number) <= 2.0**63 or not number.is_integer():
        return number
    text = str(value).strip()
    whole = int(text) if text.lstrip("+-").isdigit() else int(number)
    return whole if abs(whole) < 2**63 else number


def _as_step(value: object) -> float:
    if value is None:
        raise ValueError(f"is not filled in. Write {_STEPS}")
    return _as_exact(value)


Exact = Annotated[float, Read(_as_exact)]
"""A number, or a whole number of any length below 2^63."""


@dataclass(frozen=True, slots=True)
class NumberColumn(ModelledColumn):
    """A number on the grid low, low + step, ..., high; cells outside move to the nearest end.

    ``special`` values are spikes or codes (0, -1, 999) that keep a code of their own outside the grid. ``decimal``,
    ``thousands`` and ``units`` say how cells are written where that differs from the table's format; synthetic cells
    are written as programs write numbers. ``duration`` is the unit in which cells that are stored as durations are
    numbers; other cells are numbers of that unit already.

    Examples
    --------
    Values 18 to 90, one code for 0 and one for a missing cell:

    >>> NumberColumn("age", 18, 90, 1, special=(0.0,), missing=True).size
    75
    """

    kind: ClassVar[str] = "number"
    role: ClassVar[str] = "number"
    blank: ClassVar[str] = "{type: number, low: , high: , step: }"
    form: ClassVar[tuple[FormField, ...]] = (
        FormField("low", ("low",), "number", needed=_NEEDS_BOUNDS),
        FormField("high", ("high",), "number", needed=_NEEDS_BOUNDS),
        FormField("step", ("step",), "number", needed=_NEEDS_STEP),
        FormField("special", ("special",), "numbers"),
        FormField("fallback", ("fallback",), "number"),
    )
    unasked: ClassVar[tuple[str, ...]] = ("decimal", "thousands", "units", "duration")
    is_ordered: ClassVar[bool] = True
    is_summable: ClassVar[bool] = True

    low: Annotated[Exact, Needed(_CHOOSE)]
    high: Annotated[Exact, Needed(_CHOOSE)]
    step: Annotated[float, Read(_as_step)] = 1.0
    special: Annotated[tuple[float, ...], Read(each(_as_exact, " of numbers, for example [0]"))] = ()
    decimal: Sign | None = field(default=None, kw_only=True)
    thousands: Sign | None = field(default=None, kw_only=True)
    units: Units = field(default=(), kw_only=True)
    duration: DurationUnit | None = field(default=None, kw_only=True)
    fallback: Exact | None = field(default=None, kw_only=True)

    def _check(self) -> None:
        if not (math.isfinite(self.low) and math.isfinite(self.high) and math.isfinite(self.step)):
            raise SchemaError(f"'{self.name}': low, high and step must be finite numbers.")
        if self.high <= self.low:
            raise SchemaError(
                f"'{self.name}': high must be larger than low, got low {self.low:g} and high {self.high:g}."
            )
        if math.isinf(self.high - self.low):
            raise SchemaError(f"'{self.name}': low and high are too far apart for a number. Choose narrower bounds.")
        if self.notation.problem is not None:
            raise SchemaError(f"'{self.name}': {self.notation.problem}")
        if self.step <= 0:
            raise SchemaError(f"'{self.name}': step must be positive, got {self.step:g}.")
        # A file of floats could not tell values apart that are less than two floats apart; whole numbers are no floats.
        if not self._is_long and self.step < 2 * math.ulp(max(abs(self.low), abs(self.high))):
            raise SchemaError(
                f"'{self.name}': step {self.step:g} is too small for numbers of this size. Choose a larger step."
            )
        if self.levels > MAXIMUM_LEVELS:
            raise SchemaError(
                f"'{self.name}' has {self.levels:,} values between low and high; at most {MAXIMUM_LEVELS:,} are "
                "allowed. Choose a larger step."
            )
        if len(set(self.special)) != len(self.special) or not all(map(math.isfinite, self.special)):
            raise SchemaError(f"'{self.name}': special values must be finite, and each listed once.")
        beside = next(filter(self._is_beside_a_place, self.special), None)
        if beside is not None:
            raise SchemaError(
                f"'{self.name}': a file of floats cannot tell the special value {beside:g} from a value of the grid. "
                "Choose a step that reaches it exactly, or leave it out."
            )
        if self.fallback is not None and not (self.low <= self.fallback <= self.high or self.fallback in self.special):
            raise SchemaError(f"'{self.name}': fallback must lie between low and high, or be a special value.")

    def _is_beside_a_place(self, value: float) -> bool:
        """Whether a value of the grid is written differently from this number but reads back as the same float."""
        low, step, written = (Fraction(repr(float(number))) for number in (self.low, self.step, value))
        if self._is_long:  # its files hold whole numbers, not floats
            return False
        near = round(min(max((value - self.low) / self.step, 0), self.levels - 1))
        places = [low + place * step for place in range(max(near - 1, 0), min(near + 2, self.levels))]
        return any(float(place) == value and place != written for place in places)

    @property
    def has_special_on_grid(self) -> bool:
        """Whether a special value is also a value of the grid; its cells are then read as the special value."""
        low, step = (Fraction(repr(float(number))) for number in (self.low, self.step))
        within = (Fraction(repr(float(one))) for one in self.special if self.low <= one <= self.high)
        return any((one - low) % step == 0 for one in within)

    @property
    def levels(self) -> int:
        """Number of values on the grid."""
        return _levels(self.low, self.high, self.step)

    def _code_of_fallback(self) -> int:
        value = self.low if self.fallback is None else self.fallback
        if value in self.special:
            return self.levels + self.special.index(value)
        away = int(value) - int(self.low) if self._is_long else value - self.low
        return min(round(away / self.step), self.levels - 1)

    @property
    def decimals(self) -> int:
        """Decimals to print: the most that low, step and the special values have."""
        return _most_decimals((self.low, self.step, *self.special))

    @property
    def notation(self) -> Notation:
        """How its cells are written, where that is declared for this column."""
        return Notation(self.decimal, self.thousands, self.units)

    def invented(self, notation: Notation, dates: tuple[str, ...]) -> list[str]:
        """Return the number in the middle and the highest one, written in full."""
        written = self.notation.over(notation)
        if not written or written.problem is not None:
            return []
        return list(map(written.in_full, self.texts([(self.levels - 1) // 2, self.levels - 1])))

    def text_of_typed(self, cell: TypedCell) -> str:
        """Return the text of a number with the declared sign before decimals."""
        return self.notation.written(ModelledColumn.text_of_typed(self, cell))

    @property
    def scale(self) -> Scale:
        """The values of the grid."""
        return Scale(float(self.low), float(self.high), float(self.step), self.decimals)

    @property
    def code_near_zero(self) -> int:
        """Code of zero, or of the end of the grid that is nearest to it."""
        return round(min(max(-self.low / self.step, 0.0), self.levels - 1.0))

    @property
    def cell_type(self) -> CellType:
        """Whole numbers where low, step and special values are whole and small enough."""
        return "int64" if self._is_whole else "double"

    @property
    def _is_whole(self) -> bool:
        largest = max(abs(value) for value in (self.low, self.high, *self.special))
        return self.decimals == 0 and largest < 2**63

    @property
    def _is_long(self) -> bool:
        """Whether its values are whole numbers of which floats do not hold all."""
        numbers = (self.low, self.high, self.step, *self.special)
        return EXACT_FLOATS <= max(map(abs, numbers)) < 2**63 and all(map(_is_whole, numbers))

    def encode(self, cells: Cells) -> Coded:
        """Move numbers to the nearest value of the grid, infinite ones to the nearest bound; keep special values."""
        values: npt.NDArray[Any]
        if self._is_long:
            values, unreadable, absent = cells.wholes(self.notation)
            codes, fates = self._places_of_wholes(values)
            codes[unreadable], fates[unreadable] = self.unreadable_code, Fate.MALFORMED
        else:
            values, absent = cells.numbers(self.notation)
            unreadable = np.isnan(values)
            codes, fates = self._places(values)
        codes[absent], fates[absent] = self.unreadable_code, Fate.MISSING
        for place, special in enumerate(self.special):
            # A declared special value is kept even if the format of the table lists it as missing.
            same = (values == (int(special) if self._is_long else special)) & ~unreadable
            codes[same], fates[same] = self.levels + place, Fate.KEPT
        return codes, fates

    def _places(self, values: npt.NDArray[np.float64]) -> Coded:
        malformed = np.isnan(values)
        inside = np.clip(np.where(malformed, self.low, values), self.low, self.high)
        codes = np.minimum(np.rint((inside - self.low) / self.step).astype(np.int64), self.levels - 1)
        codes[malformed] = self.unreadable_code
        fates = np.where((values < self.low) | (values > self.high), Fate.OUTSIDE, Fate.KEPT).astype(np.int8)
        fates[malformed] = Fate.MALFORMED
        return codes, fates

    def _places_of_wholes(self, values: npt.NDArray[np.int64]) -> Coded:
        low, high, step = int(self.low), int(self.high), np.uint64(int(self.step))
        # Differences of 64-bit numbers are below 2^64, where these wrap around.
        away = np.clip(values, low, high).astype(np.uint64) - np.uint64(low % 2**64)
        places, rest = np.divmod(away, step)
        upward = (rest > step - rest) | ((rest == step - rest) & (places % np.uint64(2) == 1))
        codes = np.minimum((places + upward).astype(np.int64), self.levels - 1)
        return codes, np.where((values < low) | (values > high), Fate.OUTSIDE, Fate.KEPT).astype(np.int8)

    def _texts(self, codes: Sequence[int], missing: str) -> list[str]:
        decimals = self.decimals
        return [missing if value is None else _fixed_point(value, decimals) for value in self._scaled_values(codes)]

    def declared_texts(
        self, codes: Sequence[int] | npt.NDArray[Any], notation: Notation, dates: tuple[str, ...]
    ) -> list[str]:
        """Return numbers with the declared signs before decimals and between thousands, and the first unit."""
        written = self.notation.over(notation)
        return [written.in_full(text) if text and written else text for text in self.texts(codes)]

    def cells(self, codes: npt.NDArray[np.int64]) -> list[Any]:
        """Return the number of every code: the float that its text is read as, so both files hold one number."""
        convert: type[int | float] = int if self._is_whole else float
        return [convert(text) if text else None for text in self.texts(codes)]

    def _scaled_values(self, codes: Sequence[int]) -> list[int | None]:
        # Exact multiples of 10^-decimals: low + code * step in floating point would print 0.30000000000000004.
        decimals, levels, special = self.decimals, self.levels, self.special
        low, step = _scaled(self.low, decimals), _scaled(self.step, decimals)
        return [
            low + code * step
            if code < levels
            else _scaled(special[code - levels], decimals)
            if code - levels < len(special)
            else None
            for code in codes
        ]

    def _codes_near(self, text: str) -> list[int]:
        if not _is_plain(text):
            return []
        value = Decimal(text)
        place = round((value - Decimal(repr(self.low))) / Decimal(repr(self.step)))
        special = [self.levels + index for index, known in enumerate(self.special) if Decimal(repr(known)) == value]
        return [*special, *([int(place)] if 0 <= place < self.levels else [])]

    def grid_at(self, levels: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        """Return the values of some levels of the grid."""
        return np.asarray(self.low + self.step * levels.astype(np.float64))

    def comparable(self, text: str) -> float:
        """Read a number."""
        return read("a constant", as_number, text)


def _is_plain(text: str) -> bool:
    """Whether a text is a number as columns print it: digits, and digits after a point."""
    whole, point, behind = text.removeprefix("-").partition(".")
    pieces = (whole, behind) if point else (whole,)
    return text.isascii() and all(
        piece.isdigit() and len(piece) <= most for piece, most in zip(pieces, MOST_DIGITS, strict=False)
    )


@lru_cache(maxsize=16_384)
def _levels(low: float, high: float, step: float) -> int:
    # By the decimals that are declared: floats are too coarse for a thousand million steps of .01.
    written = (Fraction(one if isinstance(one, int) else repr(float(one))) for one in (low, high, step))
    first, last, each_step = written
    return math.floor((last - first) / each_step + Fraction(1, 10**9)) + 1


def _is_whole(value: float) -> bool:
    return isinstance(value, int) or value.is_integer()


@lru_cache(maxsize=4096)
def _most_decimals(values: tuple[float, ...]) -> int:
    return max(map(_decimals, values))


def _decimals(value: float) -> int:
    exponent = Decimal(repr(float(value))).normalize().as_tuple().exponent
    return max(0, -exponent) if isinstance(exponent, int) else 0


def _scaled(value: float, decimals: int) -> int:
    if isinstance(value, int):
        return int(value * 10**decimals)
    return int(Decimal(repr(float(value))).scaleb(decimals))


def _fixed_point(value: int, decimals: int) -> str:
    if decimals == 0:
        return str(value)
    digits = str(abs(value)).zfill(decimals + 1)
    return f"{'-' if value < 0 else ''}{digits[:-decimals]}.{digits[-decimals:]}"
