"""A look at the rows of a file or a DataFrame, from Python: recorded first, then proposed."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from synth.schema import DurationUnit, FindColumn, NumberColumn, Schema, TableFormat, format_to_mapping

if TYPE_CHECKING:
    from synth.services.recognition import Recognised

__all__ = ["look_at", "schema_after_look"]


def look_at(table: object, account: str, form: TableFormat | None = None) -> Recognised:
    """Propose how a table is written and what its columns are, by a look at its rows that is recorded first.

    Parameters
    ----------
    table : path or pandas.DataFrame
        Paths may have a pattern, for several files that are one table. Of a DataFrame, the index is ignored.
    account : str
        The people the rows are about; a new name opens an account.
    form : TableFormat, optional
        What is known of the format of a file.

    Raises
    ------
    InputError
        If it is neither, or cannot be read.
    """
    from synth.application import Application
    from synth.cli.frames import FORMAT
    from synth.services.table_paths import open_table

    with Application.for_local_user() as application:
        if not isinstance(table, str | Path):
            return application.intake.recognise(_table_of_frame(table), FORMAT, look_for=account, alone=True)
        known = form or TableFormat()
        with open_table(table, known) as (_, stream):
            return application.intake.recognise(stream, known, look_for=account)


def _table_of_frame(frame: object) -> BinaryIO:
    from synth.cli.frames import durations_of_frame, frame_as_table, names_of_frame

    # Columns that are not described: each cell is written by its own type alone.
    durations = durations_of_frame(frame)
    columns = (_SECONDS(name) if name in durations else FindColumn(name) for name in names_of_frame(frame))
    return frame_as_table(frame, Schema(tuple(columns)))


_SECONDS = partial(NumberColumn, low=0, high=1, duration=DurationUnit.SECONDS)
"""A column of durations whose bounds are not known: these play no part in how its cells are written."""


def schema_after_look(found: Recognised, frame: object) -> dict[str, Any]:
    """Return what a look at a DataFrame proposes, as :func:`synth.cli.frames.draft_schema` returns a schema.

    The body of a column that only the owner can settle is ``{"type": None}``.
    """
    from synth.cli.frames import OF_CELLS, durations_of_frame

    usual = format_to_mapping(TableFormat())
    said = {key: value for key, value in format_to_mapping(found.form).items() if key in OF_CELLS}
    written = {key: value for key, value in said.items() if usual.get(key) != value}
    columns = {column.name: dict(column.body) or {"type": None} for column in found.columns}
    for name in durations_of_frame(frame):
        columns[name] |= {"duration": str(DurationUnit.SECONDS)} if columns[name]["type"] == NumberColumn.kind else {}
    return {
        "columns": columns,
        "domain_source": found.domain_source,
        **({"format": written} if written else {}),
    }
