"""Columns that are declared but have no values to learn: identifiers, and columns that are left out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from synth.schema.columns.base import Column

__all__ = ["DropColumn", "IdentifierColumn"]


@dataclass(frozen=True, slots=True)
class IdentifierColumn(Column):
    """A name or number of a person: replaced by fresh ids, never learned."""

    kind: ClassVar[str] = "identifier"
    role: ClassVar[str] = "identifier (replaced)"
    blank: ClassVar[str] = "{type: identifier}"
    is_identifier: ClassVar[bool] = True

    def examples(self, most: int) -> list[str]:
        """Return one id."""
        return ["unit-1"][:most]


@dataclass(frozen=True, slots=True)
class DropColumn(Column):
    """A column that is skipped and never kept."""

    kind: ClassVar[str] = "drop"
    role: ClassVar[str] = "leave out"
    blank: ClassVar[str] = "{type: drop}"
    is_printed: ClassVar[bool] = False
