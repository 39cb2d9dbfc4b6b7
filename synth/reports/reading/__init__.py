"""How the table was read: what happened to lines and cells that are not as declared. Exact, for the owner only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from synth.progress import Progress
from synth.reports.evidence import OwnerOnlyEvidence
from synth.reports.figures import Table
from synth.reports.losses import became, losses_of
from synth.reports.panels import Cards, ExactWarning, Panel
from synth.reports.report import OWNER_ONLY, OwnerRows, Report, Screen, Section, Shown
from synth.schema import Schema, people_asked
from synth.schema.columns.base import ReadingCounts
from synth.schema.schema import MERGE

__all__ = ["REPORT", "owner_reading"]


def owner_reading(reading: ReadingCounts | None, schema: Schema) -> tuple[OwnerOnlyEvidence, ...]:
    """Say how many lines and cells were not as declared, and what happened to them.

    Parameters
    ----------
    reading : ReadingCounts, optional
        As counted by the reader; without it nothing is reported.
    schema : Schema
        What was declared.

    Returns
    -------
    tuple of OwnerOnlyEvidence
        ``reading.cells``: the number of cells that could not be read or were out of range, with a line per column.
    """
    if reading is None:
        return ()
    rows = []
    for column in (one for one in schema.modelled if reading.linked is None or one.name != MERGE.name):
        counts = reading.cells[column.name]
        rows.append((column.name, counts.missing, counts.malformed, counts.outside, became(column)))
    total = sum(counts.malformed + counts.outside for counts in reading.cells.values())
    lines = [
        f"{reading.rows:,} rows of both tables were read, those of one key beside each other."
        if reading.linked is not None
        else f"{reading.rows:,} rows were read. Blank lines, which are no rows in a table of several columns: "
        f"{reading.blank_lines:,}. Unreadable lines, all of whose cells count as unreadable: "
        f"{reading.unreadable_lines:,}."
    ]
    if schema.unit.id_column is not None and reading.linked is None:
        lines.append(f"Rows without '{schema.unit.id_column}', which are not used: {reading.without_id:,}.")
    lines += losses_of(reading, schema).lines
    table = Table(
        f"{total:,} cells of {reading.rows:,} rows are not as declared",
        ("column", "missing", "unreadable", "outside the declared values", "unreadable cells became"),
        tuple(rows),
        "They were replaced as declared, and the release learned from the replacements."
        if total
        else "Good: every cell was used as it was.",
    )
    return (
        OwnerOnlyEvidence(
            id="reading.cells",
            title="Cells not as declared",
            value=total,
            unit="cells",
            sentence=" ".join(lines),
            figures=(table,),
        ),
    )


# The report ---------------------------------------------------------------------------------------------------------


def _owner(rows: OwnerRows, options: Mapping[str, Any], progress: Progress) -> Sequence[OwnerOnlyEvidence]:
    people = people_asked(rows.config.schema)
    return owner_reading(rows.reading, rows.config.schema if people is None else people.schema)


def _panels(shown: Shown) -> list[Panel]:
    return [ExactWarning(), Cards(shown.exact_of("reading"), key="owner-reading")]


REPORT = Report(
    id="reading",
    title="How the table was read",
    sections={"reading": Section("Reading")},
    owner=_owner,
    screens=(Screen(OWNER_ONLY, _panels, exact=True),),
)
