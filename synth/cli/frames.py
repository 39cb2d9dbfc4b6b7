"""A DataFrame as the bytes of a table, and back. Line i depends only on row i and the schema.

How pandas stores a column depends on all of its rows: one missing cell turns whole numbers into floats, one word turns
all cells into objects. So nothing here depends on how a column is stored. Each cell is written by itself, by its own
exact type, and in the same way for all types that pandas may have given it: 1, 1.0 and True are "1". The index, the
categories of a column and anything else in a DataFrame beside its cells are ignored. The result is read as any file is.
"""

from __future__ import annotations

import csv
import datetime
import io
import uuid
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from synth.errors import InputError
from synth.schema import COLUMN_TYPES, Column, ModelledColumn, Schema, TableFormat
from synth.schema.guesses import kind_by_name, with_step
from synth.schema.written import has_hours

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["FORMAT", "OF_CELLS", "draft_schema", "frame_as_table", "frame_of_table", "names_of_frame"]

FORMAT = TableFormat(separator=",", kind="csv")
"""The format that :func:`frame_as_table` writes."""

OF_CELLS = ("missing", "strip")
"""Keys of a format that can be declared of a DataFrame.

Notations are those of columns: a number or date in a cell is written by that of its column.
"""

_ROWS_AT_ONCE = 10_000

_WHOLE_BELOW = 2.0**53
"""From here on, one float may represent several whole numbers."""

_UNREADABLE = ""
"""The text of a cell that has none; it gets the code of a missing cell."""


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
        If ``frame`` is not a DataFrame, or the name of a column is not a text; never because of a row.

    Notes
    -----
    Numbers are written as the nearest 64-bit float, because a missing cell elsewhere may have turned them into floats;
    whole numbers have no decimal point. From 2^53 on, whole numbers are distinct only as texts. A cell is unreadable if
    it is not a text, number, truth value, date, time or UUID, or if it contains a line break.

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
    # A column of dates may contain the times of another column, which has no cells of its own.
    beside = {column.cells_in: column for column in schema if column.name not in names}
    declared = {column.name: column for column in schema}
    writers = [_writer_of(declared.get(name), beside.get(name)) for name in names]
    target = io.BytesIO(_lines([names]))
    target.seek(0, io.SEEK_END)
    for first in range(0, len(table), _ROWS_AT_ONCE):
        part = table.iloc[first : first + _ROWS_AT_ONCE]
        cells = [_texts(part.iloc[:, place], write) for place, write in enumerate(writers)]
        target.write(_lines(zip(*cells, strict=True)))
    target.seek(0)
    return target


def _lines(rows: Iterable[Sequence[str]]) -> bytes:
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode()


def names_of_frame(frame: object) -> list[str]:
    """Return the names of the columns of a DataFrame, which are public.

    Raises
    ------
    InputError
        If ``frame`` is not a DataFrame, or a name is not a text; the message does not quote it.
    """
    names: list[str] = []
    for place, name in enumerate(_as_frame(frame).columns, start=1):
        if type(name) is not str or not _can_stand_in_a_line(name):
            raise InputError(
                f"The name of column {place} of the DataFrame must be a text without line breaks. Set the names, for "
                'example frame.columns = ["age", "town"].'
            )
        names.append(name)
    return names


def _as_frame(frame: object) -> pd.DataFrame:
    import pandas as pd  # here and below, because it loads slowly and most commands read files

    if not isinstance(frame, pd.DataFrame):
        raise InputError("The rows must be a pandas DataFrame. For a file, use synth.run with its path.")
    return frame


# Cells ----------------------------------------------------------------------------------------------------------------

Writer = Callable[[Any], str]

_TEXTS = frozenset({str, np.str_})
_NUMBERS = frozenset(
    {bool, np.bool_, int, float, Decimal, *(np.dtype(code).type for code in np.typecodes["AllInteger"] + "efdg")}
)


@cache
def _moments() -> frozenset[type]:
    import pandas as pd

    return frozenset({datetime.date, datetime.datetime, pd.Timestamp})


def _texts(cells: pd.Series[Any], write: Writer | None) -> Sequence[str]:
    return [_UNREADABLE] * len(cells) if write is None else [write(cell) for cell in cells.tolist()]


def _writer_of(column: Column | None, times: Column | None) -> Writer | None:
    """Return what writes the cells of a column, with the times of ``times`` if given; None if they are not read."""
    if column is None or not column.is_printed:
        column, times = times, None
    if column is None:
        return None
    # Moments are not cached: two equal moments may fall on different days, each in its own time zone.
    moments = column.text_of_typed if times is None else partial(_with_time, column)
    return partial(_written, lru_cache(maxsize=4096)(column.text_of_typed), moments)


def _with_time(column: Column, cell: datetime.date) -> str:
    """Return the text of a cell with a day and a time of day, or only the day if it has no time."""
    if not isinstance(cell, datetime.datetime):
        return column.text_of_typed(cell)
    patterns = column.patterns if isinstance(column, ModelledColumn) else ()
    timed = next(filter(has_hours, patterns), None)
    return f"{column.text_of_typed(cell)}T{cell:%H:%M}" if timed is None else cell.strftime(timed)


def _written(spelled: Callable[[str], str], moments: Writer, cell: Any) -> str:
    """Return the text of a cell by its exact type, whatever the other cells are."""
    kind = type(cell)
    if kind in _TEXTS:
        return str(cell) if _can_stand_in_a_line(cell) else _UNREADABLE
    if kind in _NUMBERS:
        text = _number(cell)
        return spelled(text) if text else _UNREADABLE
    if kind is np.datetime64:
        cell = _timestamp(cell)
        kind = type(cell)
    if kind in _moments():
        return moments(cell)
    if kind is datetime.time:
        return str(cell.isoformat())
    return str(cell) if kind is uuid.UUID else _UNREADABLE


def _timestamp(cell: np.datetime64) -> object:
    import pandas as pd

    try:
        return pd.Timestamp(cell)
    except ValueError:  # outside the range of pandas
        return None


def _number(cell: Any) -> str:
    """Return the text of the nearest 64-bit float; empty for what is not a number."""
    try:
        number = float(cell)
    except OverflowError:
        return "-inf" if cell < 0 else "inf"
    except ValueError:  # a Decimal that is a signalling NaN
        return ""
    if number != number:
        return ""
    # A whole zero has no sign.
    return str(int(number)) if abs(number) < _WHOLE_BELOW and number.is_integer() else repr(number)


def _can_stand_in_a_line(text: str) -> bool:
    if any(character in text for character in "\n\r\0"):
        return False
    try:
        text.encode()
    except UnicodeEncodeError:  # half a surrogate pair
        return False
    return True


# Back, and drafts of a schema -----------------------------------------------------------------------------------------


def frame_of_table(path: Path | BinaryIO) -> pd.DataFrame:
    """Read a synthetic table from its Parquet file; its types follow from what is declared, not from the rows.

    Whole numbers and truth values have pandas' nullable types, dates are datetime64.
    """
    import pandas as pd

    nullable = {pa.int64(): pd.Int64Dtype(), pa.bool_(): pd.BooleanDtype()}
    frame: pd.DataFrame = pq.read_table(path).to_pandas(date_as_object=False, types_mapper=nullable.get)
    return frame


def draft_schema(frame: object) -> dict[str, Any]:
    """Draft the schema of a DataFrame, to be completed; types of columns are guessed from their names only.

    Parameters
    ----------
    frame : pandas.DataFrame

    Returns
    -------
    dict
        What :class:`synth.Release` takes once every None is replaced. Neither cells nor types of columns are read.

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
        "unit": {"protects": None, "rows_per_unit": None, "id_column": None},
        "row_count": None,
        "number_of_units": None,
        "columns": columns,
    }
