"""What the owner declares public about a table: columns, bounds, categories, dates and the privacy unit.

Nothing here is ever read from rows. A column that a model sees has ``size`` codes: first ``levels`` ordered places on a
declared grid (numbers, dates), then ``atoms`` unordered codes (categories, special values, "other", "missing").
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from typing import Literal

from synth.errors import SchemaError

__all__ = [
    "CategoryColumn",
    "Column",
    "DateColumn",
    "DateStep",
    "DropColumn",
    "IdentifierColumn",
    "ModelledColumn",
    "Neighbours",
    "NumberColumn",
    "PrivacyUnit",
    "RowCountRule",
    "Schema",
    "Weight",
    "YesNoColumn",
]

MAXIMUM_LEVELS = 2**24
"""Places on one declared grid; more would make a table of codes larger than the rows."""

MAXIMUM_CATEGORIES = 10_000


class Neighbours(StrEnum):
    """Which change of the table the promise hides; one per account, never mixed."""

    ADD_REMOVE = "add_remove"
    REPLACE = "replace_one"


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


RowCountRule = Literal["public", "private"]


@dataclass(frozen=True, slots=True)
class NumberColumn:
    """A number on the grid low, low + step, ..., high; cells outside move to the nearest end.

    ``special`` values are spikes or codes (0, -1, 999) that keep a code of their own beside the grid.
    """

    name: str
    low: float
    high: float
    step: float
    special: tuple[float, ...] = ()
    missing: bool = False
    weight: Weight = Weight.NORMAL

    def __post_init__(self) -> None:
        if not (math.isfinite(self.low) and math.isfinite(self.high) and math.isfinite(self.step)):
            raise SchemaError(f"'{self.name}': low, high and step must be finite numbers.")
        if self.high <= self.low:
            raise SchemaError(
                f"'{self.name}': high must be larger than low, got low {self.low:g} and high {self.high:g}."
            )
        if self.step <= 0:
            raise SchemaError(f"'{self.name}': step must be positive, got {self.step:g}.")
        if self.levels > MAXIMUM_LEVELS:
            raise SchemaError(
                f"'{self.name}' has {self.levels:,} places between low and high; at most {MAXIMUM_LEVELS:,} are "
                "possible. Choose a larger step."
            )
        if len(set(self.special)) != len(self.special) or not all(map(math.isfinite, self.special)):
            raise SchemaError(f"'{self.name}': special values must be finite and different from each other.")

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
    def decimals(self) -> int:
        """Decimals to print: as many as low, step and the special values have."""
        return max(_decimals(value) for value in (self.low, self.step, *self.special))


@dataclass(frozen=True, slots=True)
class CategoryColumn:
    """One of a declared list of values; undeclared cells become "other" where that is declared.

    ``aliases`` are other spellings of a declared value, as pairs (spelling, value).
    """

    name: str
    values: tuple[str, ...]
    other: bool = False
    missing: bool = False
    weight: Weight = Weight.NORMAL
    aliases: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
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
        for spelling, value in self.aliases:
            if value not in self.values or spelling in self.values:
                raise SchemaError(
                    f"'{self.name}': an alias must be an undeclared spelling of a declared value; check 'aliases'."
                )

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
    def other_label(self) -> str:
        """Text printed for an undeclared value; never equal to a declared one."""
        label = "other"
        while label in self.values:
            label += "*"
        return label

    @property
    def labels(self) -> tuple[str, ...]:
        """Text of every code but missing, in code order."""
        return (*self.values, self.other_label) if self.other else self.values


@dataclass(frozen=True, slots=True)
class YesNoColumn:
    """A truth value; code 0 is no, code 1 is yes."""

    name: str
    yes: str = "yes"
    no: str = "no"
    missing: bool = False
    weight: Weight = Weight.NORMAL

    def __post_init__(self) -> None:
        if self.yes == self.no or not self.yes or not self.no:
            raise SchemaError(f"'{self.name}': 'yes' and 'no' must be two different, non-empty texts.")

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
    def labels(self) -> tuple[str, ...]:
        """Text of every code but missing, in code order."""
        return (self.no, self.yes)


@dataclass(frozen=True, slots=True)
class DateColumn:
    """A calendar date between low and high, kept at a step of a day, a month or a year.

    ``pattern`` is how cells are written, in the notation of ``strptime``; None reads ISO dates.
    """

    name: str
    low: datetime.date
    high: datetime.date
    step: DateStep = DateStep.DAY
    missing: bool = False
    weight: Weight = Weight.NORMAL
    pattern: str | None = None

    def __post_init__(self) -> None:
        if self.high <= self.low:
            raise SchemaError(f"'{self.name}': high must be later than low, got {self.low} and {self.high}.")

    @property
    def levels(self) -> int:
        """Number of days, months or years from low to high, both included."""
        if self.step is DateStep.DAY:
            return (self.high - self.low).days + 1
        years = self.high.year - self.low.year
        return years + 1 if self.step is DateStep.YEAR else 12 * years + self.high.month - self.low.month + 1

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


@dataclass(frozen=True, slots=True)
class DropColumn:
    """A column that is read past and never kept."""

    name: str


ModelledColumn = NumberColumn | CategoryColumn | YesNoColumn | DateColumn
Column = ModelledColumn | IdentifierColumn | DropColumn


@dataclass(frozen=True, slots=True)
class PrivacyUnit:
    """Whom the promise protects, and how many rows one of them can have.

    With ``id_column`` the cap is enforced; without it the promise is only as true as the declared number.
    """

    protects: str = "person"
    rows_per_unit: int = 1
    id_column: str | None = None

    def __post_init__(self) -> None:
        if self.rows_per_unit < 1:
            raise SchemaError(f"unit: rows_per_unit must be at least 1, got {self.rows_per_unit}.")
        if not self.protects.strip():
            raise SchemaError("unit: 'protects' must name whom you protect, for example person.")

    @property
    def sentence(self) -> str:
        """The promise's subject in words, shown on every page."""
        rows = "one row" if self.rows_per_unit == 1 else f"up to {self.rows_per_unit} rows"
        return f"Protects one {self.protects} contributing {rows}"


@dataclass(frozen=True, slots=True)
class Schema:
    """The declared table: its columns in output order, the unit, and whether the number of units is public."""

    columns: tuple[Column, ...]
    unit: PrivacyUnit = PrivacyUnit()
    row_count: RowCountRule = "public"

    def __post_init__(self) -> None:
        names = [column.name for column in self.columns]
        for name in names:
            if not name.strip():
                raise SchemaError("A column has no name. Give every column a name.")
            if names.count(name) > 1:
                raise SchemaError(f"Two columns are called '{name}'. Give each column its own name.")
        if not self.modelled:
            raise SchemaError("No column is left to model. Declare at least one number, category, yes_no or date.")
        if self.unit.id_column is not None:
            if self.unit.id_column not in names:
                raise SchemaError(f"unit: id_column '{self.unit.id_column}' is not a declared column.")
            if not isinstance(self[self.unit.id_column], IdentifierColumn):
                raise SchemaError(f"unit: id_column '{self.unit.id_column}' must be declared 'type: identifier'.")

    def __getitem__(self, name: str) -> Column:
        for column in self.columns:
            if column.name == name:
                return column
        raise SchemaError(f"There is no column called '{name}'.")

    def __iter__(self) -> Iterator[Column]:
        return iter(self.columns)

    @property
    def modelled(self) -> tuple[ModelledColumn, ...]:
        """The columns that have codes, in order."""
        return tuple(
            column
            for column in self.columns
            if isinstance(column, NumberColumn | CategoryColumn | YesNoColumn | DateColumn)
        )

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the modelled columns, in order."""
        return tuple(column.name for column in self.modelled)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of codes of each modelled column, in order."""
        return tuple(column.size for column in self.modelled)

    @property
    def printed(self) -> tuple[Column, ...]:
        """The columns of the synthetic table, in order: all but the dropped ones."""
        return tuple(column for column in self.columns if not isinstance(column, DropColumn))

    def modelled_column(self, name: str) -> ModelledColumn:
        """Return one modelled column by name."""
        column = self[name]
        if isinstance(column, IdentifierColumn | DropColumn):
            raise SchemaError(f"'{name}' is not modelled: identifiers and dropped columns have no values to learn.")
        return column

    @property
    def neighbours(self) -> Neighbours:
        """Replace-one where the number of units is public, add/remove where it is private."""
        return Neighbours.REPLACE if self.row_count == "public" else Neighbours.ADD_REMOVE

    @property
    def rows_are_public(self) -> bool:
        """Whether the number of rows may be used as it is: only with one row per unit and a public number of units."""
        return self.row_count == "public" and self.unit.rows_per_unit == 1


def _decimals(value: float) -> int:
    exponent = Decimal(repr(float(value))).normalize().as_tuple().exponent
    return max(0, -exponent) if isinstance(exponent, int) else 0
