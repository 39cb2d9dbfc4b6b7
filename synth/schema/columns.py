"""The kinds of column an owner can declare, and how many codes each has.

A column that a model sees has ``size`` codes: first ``levels`` ordered places on a declared grid (numbers, dates), then
``atoms`` unordered codes (categories, special values, "other", "missing").
"""

from __future__ import annotations

import datetime
import math
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from fractions import Fraction
from functools import lru_cache

from synth.errors import SchemaError
from synth.names import name_problem

__all__ = [
    "CategoryColumn",
    "Column",
    "DateColumn",
    "DateStep",
    "DropColumn",
    "IdentifierColumn",
    "ModelledColumn",
    "NumberColumn",
    "Weight",
    "YesNoColumn",
    "guarded",
]

FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")

MAXIMUM_LEVELS = 2**24
"""Places on one declared grid; more would make a table of codes larger than the rows."""

MAXIMUM_CATEGORIES = 10_000


def guarded(text: str) -> str:
    """Return ``text``, with a leading apostrophe where a spreadsheet would take it for a formula.

    It is how names of columns and texts of cells are written in every table that is made, CSV and Parquet alike, so no
    two of them may be equal after it.
    """
    return f"'{text}" if text.startswith(FORMULA_STARTS) else text


class Weight(StrEnum):
    """How much a column's accuracy matters to the owner; public."""

    LOW = "low"
    NORMAL = "normal"
    HIGH = "high"


class DateStep(StrEnum):
    """The resolution at which dates are kept."""

    DAY = "day"
    MONTH = "month"
    YEAR = "year"


@dataclass(frozen=True, slots=True)
class NumberColumn:
    """A number on the grid low, low + step, ..., high; cells outside move to the nearest end.

    ``special`` values are spikes or codes (0, -1, 999) that keep a code of their own beside the grid. ``fallback`` is
    what an empty or unreadable cell becomes where missing is not declared.
    """

    name: str
    low: float
    high: float
    step: float
    special: tuple[float, ...] = ()
    missing: bool = False
    weight: Weight = Weight.NORMAL
    fallback: float | None = None

    def __post_init__(self) -> None:
        _require_name(self.name)
        if not (math.isfinite(self.low) and math.isfinite(self.high) and math.isfinite(self.step)):
            raise SchemaError(f"'{self.name}': low, high and step must be finite numbers.")
        if self.high <= self.low:
            raise SchemaError(
                f"'{self.name}': high must be larger than low, got low {self.low:g} and high {self.high:g}."
            )
        if math.isinf(self.high - self.low):
            raise SchemaError(f"'{self.name}': low and high are too far apart for a number. Choose narrower bounds.")
        if self.step <= 0:
            raise SchemaError(f"'{self.name}': step must be positive, got {self.step:g}.")
        # Places less than two floats apart could not be told from each other in a file that holds floats.
        if self.step < 2 * math.ulp(max(abs(self.low), abs(self.high))):
            raise SchemaError(f"'{self.name}': step {self.step:g} is too small for numbers of this size.")
        if self.levels > MAXIMUM_LEVELS:
            raise SchemaError(
                f"'{self.name}' has {self.levels:,} places between low and high; at most {MAXIMUM_LEVELS:,} are "
                "possible. Choose a larger step."
            )
        if len(set(self.special)) != len(self.special) or not all(map(math.isfinite, self.special)):
            raise SchemaError(f"'{self.name}': special values must be finite and different from each other.")
        beside = next(filter(self._is_beside_a_place, self.special), None)
        if beside is not None:
            raise SchemaError(
                f"'{self.name}': the special value {beside:g} and a place of the grid are one number in a file that "
                "holds floats. Choose a step that meets it, or leave it out."
            )
        if self.fallback is not None and not (self.low <= self.fallback <= self.high or self.fallback in self.special):
            raise SchemaError(f"'{self.name}': fallback must lie between low and high, or be a special value.")

    def _is_beside_a_place(self, value: float) -> bool:
        """Whether a place of the grid is written otherwise than this number, and reads back as the same float."""
        low, step, written = (Fraction(repr(float(number))) for number in (self.low, self.step, value))
        near = round(min(max((value - self.low) / self.step, 0), self.levels - 1))
        places = [low + place * step for place in range(max(near - 1, 0), min(near + 2, self.levels))]
        return any(float(place) == value and place != written for place in places)

    @property
    def levels(self) -> int:
        """Number of places on the grid."""
        return math.floor((self.high - self.low) / self.step + 1e-9) + 1

    @property
    def size(self) -> int:
        """Number of codes: grid, then special values, then missing."""
        return self.levels + len(self.special) + self.missing

    @property
    def missing_code(self) -> int | None:
        """Code of a missing cell, or None where missing is not declared."""
        return self.size - 1 if self.missing else None

    @property
    def fallback_code(self) -> int | None:
        """Code of an empty or unreadable cell: missing, else the declared fallback; None where neither is declared."""
        if self.missing_code is not None or self.fallback is None:
            return self.missing_code
        if self.fallback in self.special:
            return self.levels + self.special.index(self.fallback)
        return min(round((self.fallback - self.low) / self.step), self.levels - 1)

    @property
    def decimals(self) -> int:
        """Decimals to print: as many as low, step and the special values have."""
        return _most_decimals((self.low, self.step, *self.special))


@dataclass(frozen=True, slots=True)
class CategoryColumn:
    """One of a declared list of values; undeclared cells become "other" where that is declared.

    ``aliases`` are other spellings of a declared value, as pairs (spelling, value). ``fallback`` is the declared value
    that an empty, unreadable or undeclared cell becomes where neither missing nor "other" is declared.
    """

    name: str
    values: tuple[str, ...]
    other: bool = False
    missing: bool = False
    weight: Weight = Weight.NORMAL
    aliases: tuple[tuple[str, str], ...] = ()
    fallback: str | None = None

    def __post_init__(self) -> None:
        _require_name(self.name)
        if not self.values:
            raise SchemaError(f"'{self.name}' needs its categories. List them under 'values'.")
        if len(set(self.values)) != len(self.values):
            raise SchemaError(f"'{self.name}': a category is listed twice. List each value once.")
        if len(self.values) > MAXIMUM_CATEGORIES:
            raise SchemaError(
                f"'{self.name}' has {len(self.values):,} categories; at most {MAXIMUM_CATEGORIES:,} are possible. "
                "Group them, or leave the column out."
            )
        if any(value == "" for value in self.values):
            raise SchemaError(f"'{self.name}': an empty text cannot be a category. Declare 'missing: true' instead.")
        if len(set(map(guarded, self.values))) != len(self.values):
            raise SchemaError(f"'{self.name}': two categories differ only by a leading apostrophe. Rename one.")
        declared = set(self.values)
        for spelling, value in self.aliases:
            if value not in declared or spelling in declared:
                raise SchemaError(
                    f"'{self.name}': an alias must be an undeclared spelling of a declared value; check 'aliases'."
                )
        if self.fallback is not None and self.fallback not in self.values:
            raise SchemaError(f"'{self.name}': fallback must be one of the declared categories.")

    @property
    def levels(self) -> int:
        """Categories have no order: always 0."""
        return 0

    @property
    def size(self) -> int:
        """Number of codes: values, then other, then missing."""
        return len(self.values) + self.other + self.missing

    @property
    def missing_code(self) -> int | None:
        """Code of a missing cell, or None where missing is not declared."""
        return self.size - 1 if self.missing else None

    @property
    def other_code(self) -> int | None:
        """Code of an undeclared value, or None where "other" is not declared."""
        return len(self.values) if self.other else None

    @property
    def fallback_code(self) -> int | None:
        """Code of an empty or unreadable cell: missing, else other, else the declared fallback; None without any."""
        if self.missing_code is not None or self.other_code is not None:
            return self.missing_code if self.missing_code is not None else self.other_code
        return None if self.fallback is None else self.values.index(self.fallback)

    @property
    def other_label(self) -> str:
        """Text printed for an undeclared value; never equal to a declared one."""
        label = "other"
        taken = {*self.values, *(spelling for spelling, _ in self.aliases)}
        while label in taken:
            label += "*"
        return label

    @property
    def labels(self) -> tuple[str, ...]:
        """Text of every code but missing, in code order."""
        return (*self.values, self.other_label) if self.other else self.values


@dataclass(frozen=True, slots=True)
class YesNoColumn:
    """A truth value; code 0 is no, code 1 is yes.

    ``fallback``, one of the two words, is what any other cell becomes where missing is not declared.
    """

    name: str
    yes: str = "yes"
    no: str = "no"
    missing: bool = False
    weight: Weight = Weight.NORMAL
    fallback: str | None = None

    def __post_init__(self) -> None:
        _require_name(self.name)
        if self.yes == self.no or not self.yes or not self.no:
            raise SchemaError(f"'{self.name}': 'yes' and 'no' must be two different, non-empty texts.")
        if guarded(self.yes) == guarded(self.no):
            raise SchemaError(f"'{self.name}': 'yes' and 'no' differ only by a leading apostrophe. Rename one.")
        if self.fallback not in (None, self.yes, self.no):
            raise SchemaError(f"'{self.name}': fallback must be '{self.yes}' or '{self.no}'.")

    @property
    def levels(self) -> int:
        """Yes and no have no order: always 0."""
        return 0

    @property
    def size(self) -> int:
        """Number of codes: no, yes, then missing."""
        return 2 + self.missing

    @property
    def missing_code(self) -> int | None:
        """Code of a missing cell, or None where missing is not declared."""
        return 2 if self.missing else None

    @property
    def fallback_code(self) -> int | None:
        """Code of an empty or unreadable cell: missing, else the declared fallback; None where neither is declared."""
        if self.missing_code is not None or self.fallback is None:
            return self.missing_code
        return int(self.fallback == self.yes)

    @property
    def labels(self) -> tuple[str, ...]:
        """Text of every code but missing, in code order."""
        return (self.no, self.yes)


@dataclass(frozen=True, slots=True)
class DateColumn:
    """A calendar date between low and high, kept at a step of a day, a month or a year.

    ``pattern`` is how cells are written, in the notation of ``strptime``; None reads ISO dates. ``fallback`` is what an
    empty or unreadable cell becomes where missing is not declared.
    """

    name: str
    low: datetime.date
    high: datetime.date
    step: DateStep = DateStep.DAY
    missing: bool = False
    weight: Weight = Weight.NORMAL
    pattern: str | None = None
    fallback: datetime.date | None = None

    def __post_init__(self) -> None:
        _require_name(self.name)
        if self.high <= self.low:
            raise SchemaError(f"'{self.name}': high must be later than low, got {self.low} and {self.high}.")
        if self.fallback is not None and not self.low <= self.fallback <= self.high:
            raise SchemaError(f"'{self.name}': fallback must lie between {self.low} and {self.high}.")

    @property
    def levels(self) -> int:
        """Number of days, months or years from low to high, both included."""
        return self._steps_to(self.high) + 1

    @property
    def fallback_code(self) -> int | None:
        """Code of an empty or unreadable cell: missing, else the declared fallback; None where neither is declared."""
        if self.missing_code is not None or self.fallback is None:
            return self.missing_code
        return self._steps_to(self.fallback)

    def _steps_to(self, day: datetime.date) -> int:
        if self.step is DateStep.DAY:
            return (day - self.low).days
        years = day.year - self.low.year
        return years if self.step is DateStep.YEAR else 12 * years + day.month - self.low.month

    @property
    def size(self) -> int:
        """Number of codes: grid, then missing."""
        return self.levels + self.missing

    @property
    def missing_code(self) -> int | None:
        """Code of a missing cell, or None where missing is not declared."""
        return self.size - 1 if self.missing else None


@dataclass(frozen=True, slots=True)
class IdentifierColumn:
    """A name or number of a person: replaced by fresh ids, never learned."""

    name: str

    def __post_init__(self) -> None:
        _require_name(self.name)


@dataclass(frozen=True, slots=True)
class DropColumn:
    """A column that is read past and never kept."""

    name: str

    def __post_init__(self) -> None:
        _require_name(self.name)


ModelledColumn = NumberColumn | CategoryColumn | YesNoColumn | DateColumn
Column = ModelledColumn | IdentifierColumn | DropColumn


@lru_cache(maxsize=4096)
def _most_decimals(values: tuple[float, ...]) -> int:
    return max(map(_decimals, values))


def _require_name(name: str) -> None:
    problem = name_problem(name)
    if problem is not None:
        raise SchemaError(problem)


def _decimals(value: float) -> int:
    exponent = Decimal(repr(float(value))).normalize().as_tuple().exponent
    return max(0, -exponent) if isinstance(exponent, int) else 0
