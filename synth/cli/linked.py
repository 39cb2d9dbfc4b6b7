"""Two tables that belong together, as Python gives and gets them: by what they are called."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from synth.bundle.sheets import columns_of
from synth.cli.frames import FORMAT, frame_as_table
from synth.cli.received import Rows
from synth.errors import InputError
from synth.schema import RunConfig, Schema, guarded
from synth.schema.schema import LEFT_ONLY, MERGE, LinkedTables
from synth.system.paths import path_of

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["both_of", "frames_as_tables", "frames_of_joined", "with_tables"]


def both_of(tables: LinkedTables | None, given: Mapping[Any, Any]) -> tuple[Any, Any]:
    """Return what is given under the names of two tables, in their order.

    Raises
    ------
    InputError
        If it is not given under just these names.
    """
    if tables is None:
        raise InputError(
            "Two tables are given, and the configuration does not say how they belong together. Write for example "
            "tables: {patients: patients.csv, visits: visits.csv, key: patient}."
        )
    if not isinstance(given, Mapping) or set(given) != {tables.first, tables.second}:
        raise InputError(f"Give both tables by their names: {{'{tables.first}': ..., '{tables.second}': ...}}.")
    return given[tables.first], given[tables.second]


def with_tables(config: RunConfig, given: Mapping[str, Any]) -> tuple[RunConfig, Rows | None]:
    """Return a configuration that reads the two given tables, and their rows where they are DataFrames.

    Parameters
    ----------
    config : RunConfig
    given : mapping of str to path or pandas.DataFrame
        Two paths or two DataFrames, by the names under ``tables``.

    Raises
    ------
    InputError
        If they are not the two that are declared, or of different kinds.
    """
    both = both_of(config.schema.tables, given)
    alone = replace(config, table=None, source=None, table_files=None)
    of_paths = [isinstance(one, str | Path) for one in both]
    if all(of_paths):
        first, second = (str(path_of(one, "a table")) for one in both)
        return replace(alone, table_files=(first, second)), None
    if any(of_paths):
        raise InputError("One table is a path and the other is not. Give two paths or two DataFrames.")
    form = replace(FORMAT, missing=config.format.missing, strip=config.format.strip)
    return replace(alone, format=form), frames_as_tables(both, config.schema)


def frames_as_tables(frames: tuple[Any, Any], schema: Schema) -> tuple[BinaryIO, BinaryIO]:
    """Return the rows of two DataFrames as :func:`synth.cli.frames.frame_as_table` does."""
    first, second = frames
    return frame_as_table(first, schema), frame_as_table(second, schema)


def frames_of_joined(
    path: Path | BinaryIO, schema: Schema, given: Mapping[str, Any] | None = None
) -> dict[str, pd.DataFrame]:
    """Read two synthetic tables from the Parquet file of both joined.

    Parameters
    ----------
    path : path or binary file
    schema : Schema
        What is declared of both.
    given : mapping of str to dtype, optional
        As in :func:`synth.cli.frames.frame_of_table`.

    Returns
    -------
    dict of str to DataFrame
        Under the names of the tables: the people, one row each, and the rows that they have in the second. The keys
        fit, and each person is among the people.
    """
    import numpy as np
    import pyarrow.parquet as pq

    from synth.cli.frame_types import types_as_given

    tables = schema.tables
    if tables is None:
        raise ValueError
    joined = pq.read_table(path)
    keys = joined.column(guarded(tables.key)).combine_chunks().dictionary_encode().indices.to_numpy()
    people = np.unique(keys, return_index=True)[1]
    has_row = joined.column(MERGE.name).to_numpy() != MERGE.values[LEFT_ONLY]
    parts = {tables.first: np.sort(people), tables.second: np.flatnonzero(has_row)}
    columns = {table: [column.printed_name for column in columns_of(schema, table)] for table in parts}
    return {
        table: types_as_given(joined.select(columns[table]).take(rows), schema.modelled, given or {})
        for table, rows in parts.items()
    }
