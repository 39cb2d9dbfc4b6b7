"""What the owner declares public about a table: columns, bounds, categories, dates and the privacy unit.

Nothing here is ever read from rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from synth.columns import (
    CategoryColumn,
    Column,
    DateColumn,
    DateStep,
    DropColumn,
    IdentifierColumn,
    ModelledColumn,
    NumberColumn,
    Weight,
    YesNoColumn,
)
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


class Neighbours(StrEnum):
    """Which change of the table the promise hides; one per account, never mixed."""

    ADD_REMOVE = "add_remove"
    REPLACE = "replace_one"


RowCountRule = Literal["public", "private"]


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
