"""What a session keeps in mind while it answers, and the sentences its receipts lean on."""

from __future__ import annotations

from dataclasses import dataclass, field

from synth.privacy.more.row_release import PerturbedRows
from synth.privacy.receipt import NoisyAnswer, Receipt
from synth.privacy.selection import Selection
from synth.schema import Neighbours, PrivacyUnit, Schema

__all__ = ["Record", "assumptions_of", "rows_assumptions"]


@dataclass(slots=True, eq=False)
class Record:
    """What a session and its parts have answered so far."""

    receipts: list[Receipt] = field(default_factory=list)
    releases: list[NoisyAnswer] = field(default_factory=list)
    selections: list[Selection] = field(default_factory=list)
    row_releases: list[PerturbedRows] = field(default_factory=list)
    queries: set[str] = field(default_factory=set)
    coordinates: int = 0
    counted: NoisyAnswer | None = None


def assumptions_of(schema: Schema) -> tuple[str, ...]:
    """Return what every receipt leans on: the declared cap on rows where no id column enforces it."""
    enforced = schema.unit.id_column is not None or schema.neighbours is Neighbours.CELL
    return () if enforced else (_declared_cap(schema.unit),)


def rows_assumptions(schema: Schema, label: str | None) -> tuple[str, ...]:
    """Return what noisy rows lean on: what is public by definition when every row is let out by itself."""
    if schema.neighbours is not Neighbours.CELL:
        return ("The number of rows is public: one noisy row is let out for every private row.",)
    said = ["The number of rows is public by definition."]
    if label is not None:
        said = [
            f"The labels in '{label}', the sizes of their classes and the number of rows are public by definition, and "
            "are let out as they are."
        ]
    if schema.cell_change < 1:
        said.append(
            f"A number or date changes by at most {schema.cell_change:g} of its declared range; a larger change costs "
            "more than the stated epsilon."
        )
    return tuple(said)


def _declared_cap(unit: PrivacyUnit) -> str:
    rows = "one row" if unit.rows_per_unit == 1 else f"{unit.rows_per_unit} rows"
    return f"No {unit.protects} has more than {rows}: declared by the owner, not enforced, as no id column is declared."
