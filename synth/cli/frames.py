"""A DataFrame as the bytes of a table, and back. Line i depends only on row i and the schema.

Each cell is written by itself (:mod:`synth.cli.frame_cells`). The index, the categories of a column and anything else
in a DataFrame beside its cells are ignored. A column whose type cannot be read as declared is refused by its name, and
by its type alone. The result is read as any file is.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import pyarrow.parquet as pq
import yaml

from synth.cli.frame_cells import CellWriter, can_stand_in_a_line, cells_of, holds_durations, refuse_dtype
from synth.cli.frame_types import types_as_given
from synth.errors import InputError
from synth.names import shown
from synth.schema import COLUMN_TYPES, Column, Schema, TableFormat
from synth.schema.guesses import kind_by_name, with_step

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "FORMAT",
    "OF_CELLS",
    "check_types",
    "draft_schema",
    "durations_of_frame",
    "frame_as_table",
    "frame_of_table",
    "names_of_frame",
]

FORMAT = TableFormat(separator=",", kind="csv")
"""The format that :func:`frame_as_table` writes."""

OF_CELLS = ("missing", "strip")
"""Keys of a format that can be declared of a DataFrame.

Notations are those of columns: a number or date in a cell is written by that of its column.
"""

_ROWS_AT_ONCE = 10_000


def frame_as_table(frame: object, schema: Schema) -> io.BytesIO:
    r"""Return the rows of a DataFrame as CSV in UTF-8, in memory only.

    Parameters
    ----------
    frame : pandas.DataFrame
        The rows; the index is ignored.
    schema : Schema
        The declared columns. Cells of other columns, and of columns that are dropped, are not read.

    Raises
    ------
    InputError
        If ``frame`` is not a DataFrame, or the name of a column is not a text, or the type of a column cannot be read
        as it is declared; never because of a row.

    Examples
    --------
    >>> import pandas as pd
    >>> from synth.schema import parse_column
    >>> ages = Schema((parse_column("age", {"type": "number", "low": 0, "high": 120, "step": 1, "missing": True}),))
    >>> frame_as_table(pd.DataFrame({"age": [34, 71]}), ages).getvalue()
    b'age\n34\n71\n'
    >>> frame_as_table(pd.DataFrame({"age": [34, 71, None]}), ages).getvalue()
    b'age\n34\n71\n""\n'
    """
    names, table = names_of_frame(frame), _as_frame(frame)
    writers = _writers_of(names, schema)
    check_types(table, schema)
    target = io.BytesIO(_lines([names]))
    target.seek(0, io.SEEK_END)
    for first in range(0, len(table), _ROWS_AT_ONCE):
        part = table.iloc[first : first + _ROWS_AT_ONCE]
        cells = [_texts(part.iloc[:, place], write) for place, write in enumerate(writers)]
        target.write(_lines(zip(*cells, strict=True)))
    target.seek(0)
    return target


def check_types(frame: object, schema: Schema) -> None:
    """Refuse a DataFrame with a column whose type cannot be read as it is declared.

    Raises
    ------
    InputError
        In one sentence that names the column. No cell is read to say so.
    """
    names, table = names_of_frame(frame), _as_frame(frame)
    for place, writer in enumerate(_writers_of(names, schema)):
        if writer is not None:
            refuse_dtype(table.iloc[:, place], writer.column)


def _writers_of(names: Sequence[str], schema: Schema) -> list[CellWriter | None]:
    """Return what writes the cells of each column of a DataFrame; None for one that is not read."""
    # A column of dates may contain the times of another column, which has no cells of its own.
    beside = {column.cells_in: column for column in schema if column.name not in names}
    declared = {column.name: column for column in schema}
    return [_writer_of(declared.get(name), beside.get(name)) for name in names]


def _writer_of(column: Column | None, times: Column | None) -> CellWriter | None:
    if column is None or not column.is_printed:
        column, times = times, None
    return None if column is None else CellWriter(column, times)


def _texts(cells: pd.Series[Any], write: CellWriter | None) -> list[str]:
    return [""] * len(cells) if write is None else list(map(write, cells_of(cells)))


def _lines(rows: Iterable[Sequence[str]]) -> bytes:
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode()


def names_of_frame(frame: object) -> list[str]:
    """Return the names of the columns of a DataFrame, which are public.

    Raises
    ------
    InputError
        If ``frame`` is not a DataFrame, or a name is not a text, which the message does not quote, or given twice.
    """
    seen: dict[str, None] = {}
    for place, name in enumerate(_as_frame(frame).columns, start=1):
        if type(name) is not str or not can_stand_in_a_line(name):
            raise InputError(
                f"The name of column {place} of the DataFrame must be a text without line breaks. Set the names, for "
                'example frame.columns = ["age", "town"].'
            )
        if name in seen:
            raise InputError(f"Two columns of the DataFrame are called '{shown(name)}'. Give each its own name.")
        seen[name] = None
    return list(seen)


def durations_of_frame(frame: object) -> list[str]:
    """Return the names of the columns of a DataFrame whose type is one of durations."""
    return [
        name
        for name, dtype in zip(names_of_frame(frame), _as_frame(frame).dtypes, strict=True)
        if holds_durations(dtype)
    ]


def _as_frame(frame: object) -> pd.DataFrame:
    import pandas as pd  # here and below, because it loads slowly and most commands read files

    if not isinstance(frame, pd.DataFrame):
        raise InputError("The rows must be a pandas DataFrame. For a file, use synth.run with its path.")
    return frame


# Back, and drafts of a schema -----------------------------------------------------------------------------------------


def frame_of_table(
    path: Path | BinaryIO, schema: Schema | None = None, given: Mapping[str, Any] | None = None
) -> pd.DataFrame:
    """Read a synthetic table from its Parquet file.

    Parameters
    ----------
    path : path or binary file
    schema : Schema, optional
        What is declared; needed with ``given``.
    given : mapping of str to dtype, optional
        The types that the private DataFrame had, by the names of its columns: :mod:`synth.cli.frame_types` says which
        come back. Otherwise types follow from what is declared, not from the rows: whole numbers and truth values have
        pandas' nullable types, dates are datetime64.
    """
    table = pq.read_table(path)
    return types_as_given(table, () if schema is None else schema.modelled, given or {})


def draft_schema(frame: object) -> dict[str, Any]:
    """Draft the schema of a DataFrame, to be completed; types of columns are guessed from their names only.

    Parameters
    ----------
    frame : pandas.DataFrame

    Returns
    -------
    dict
        What :class:`synth.Release` takes once every None is replaced; of the unit, ``id_column``, ``same_in_all_rows``
        and ``ordered_by`` are for people with several rows. Neither cells nor types of columns are read.

    Examples
    --------
    >>> import pandas as pd
    >>> draft_schema(pd.DataFrame({"age": [34, 71]}))["columns"]
    {'age': {'type': 'number', 'low': None, 'high': None, 'step': 1}}
    """
    columns: dict[str, Any] = {}
    for name in names_of_frame(frame):
        kind = kind_by_name(name)
        columns[name] = {"type": None} if kind is None else yaml.safe_load(with_step(COLUMN_TYPES[kind].blank, name))
    return {
        "unit": {
            "protects": None,
            "rows_per_unit": None,
            "id_column": None,
            "same_in_all_rows": [],
            "ordered_by": None,
        },
        "row_count": None,
        "number_of_units": None,
        "columns": columns,
    }
