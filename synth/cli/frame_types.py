"""Synthetic rows as a DataFrame whose columns have the types that the given one had.

A type is public, as the name of a column is. But pandas guesses types from cells where nobody names one: a cell that is
missing makes floats of whole numbers, a word makes objects of them. So int64, uint64, float64, bool, object and str
say nothing here: such a column has the type that its declaration gives. Nor do the categories of a column: these are
the declared ones. Every other type comes back, if it can hold all that is declared; that follows from the type and
the declaration, and from no row.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from synth.cli.frame_cells import holds_durations
from synth.schema import CategoryColumn, DurationUnit, ModelledColumn, NumberColumn
from synth.schema.encoding import decode_column
from synth.schema.stored import needs_whole_numbers

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["as_declared", "types_as_given"]

_GUESSED = frozenset({"int64", "uint64", "float64", "bool", "object", "str"})
"""What pandas makes of cells of Python, so that one row may decide which."""


def types_as_given(table: pa.Table, declared: Iterable[ModelledColumn], given: Mapping[str, Any]) -> pd.DataFrame:
    """Return a synthetic table as a DataFrame with the types of the one that was given.

    Parameters
    ----------
    table : pyarrow.Table
        The synthetic rows; its columns have the printed names.
    declared : iterable of ModelledColumn
        Its columns; one that is not among them has the type of its cells.
    given : mapping of str to dtype
        The types of the given DataFrame, by the names of its columns.
    """
    import pandas as pd

    columns = {column.printed_name: column for column in declared}
    # Joined side by side at once: a table may have thousands of columns.
    return pd.DataFrame(
        {name: _typed(table.column(name), columns.get(name), given) for name in table.column_names},
        index=pd.RangeIndex(table.num_rows),
    )


def _typed(cells: pa.ChunkedArray, column: ModelledColumn | None, given: Mapping[str, Any]) -> pd.Series[Any]:
    usual = as_declared(cells, missing=column is None or column.missing)
    dtype = None if column is None else given.get(column.name)
    if column is None or dtype is None or _is_guessed(dtype) or not _holds(dtype, column):
        return usual
    converted: pd.Series[Any] = _converted(usual, dtype, column)
    return converted


def _is_guessed(dtype: Any) -> bool:
    return str(dtype) in _GUESSED or (isinstance(dtype, np.dtype) and dtype.kind in "SU")


def as_declared(cells: pa.ChunkedArray, *, missing: bool = True) -> pd.Series[Any]:
    """Return synthetic cells with the type that follows from what is declared.

    Where cells may be missing, whole numbers and truth values have the types of pandas that know missing ones. Dates
    are datetime64.
    """
    import pandas as pd

    nullable = {pa.int64(): pd.Int64Dtype(), pa.bool_(): pd.BooleanDtype()}
    usual = {pa.int64(): np.dtype("int64"), pa.bool_(): np.dtype("bool")}
    found: Any = cells.to_pandas(date_as_object=False, types_mapper=nullable.get)
    typed: pd.Series[Any] = found if missing or cells.type not in usual else found.astype(usual[cells.type])
    return typed


def _holds(dtype: Any, column: ModelledColumn) -> bool:
    """Return whether a type can hold whatever the column may print: tried on what is declared, never on rows."""
    last = max(column.levels - 1, 0)
    codes = sorted({0, last, *range(column.levels, column.size)})
    try:
        if isinstance(column, NumberColumn) and not _holds_numbers(dtype, column):
            return False
        _converted(as_declared(pa.chunked_array([decode_column(column, codes)])), dtype, column)
    except Exception:  # pandas and pyarrow have many ways to say that they cannot
        return False
    return True


def _holds_numbers(dtype: Any, column: NumberColumn) -> bool:
    """Return whether no declared number would be cut off or beyond a type; casts of numpy would say nothing."""
    import pandas as pd

    numbers = (column.low, column.high, *column.special)
    if isinstance(dtype, pd.ArrowDtype):
        kind = dtype.pyarrow_dtype
        if pa.types.is_decimal(kind):
            return bool(
                kind.scale >= column.decimals and max(map(abs, numbers)) < 10.0 ** (kind.precision - kind.scale)
            )
        dtype = np.dtype(kind.to_pandas_dtype())
    kind_of_numpy = np.dtype(getattr(dtype, "numpy_dtype", getattr(dtype, "subtype", dtype)))
    if kind_of_numpy.kind == "m":
        return column.duration is not None and _holds_durations(kind_of_numpy, column, column.duration)
    if kind_of_numpy.kind == "f":
        return max(map(abs, numbers)) <= float(np.finfo(kind_of_numpy).max) and not needs_whole_numbers(column)
    if kind_of_numpy.kind not in "iu" or column.cell_type != "int64":
        return False
    ends = np.iinfo(kind_of_numpy)
    return ends.min <= min(numbers) and max(numbers) <= ends.max


def _holds_durations(dtype: np.dtype[Any], column: NumberColumn, unit: DurationUnit) -> bool:
    """Return whether every declared duration is a whole number of the steps in which a type counts."""
    steps = Fraction(unit.nanoseconds, _NANOSECONDS[np.datetime_data(dtype)[0]])
    numbers = (Fraction(repr(float(number))) for number in (column.low, column.step, *column.special))
    return all((number * steps).denominator == 1 for number in numbers)


_NANOSECONDS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}


def _converted(cells: Any, dtype: Any, column: ModelledColumn) -> Any:
    """Return cells of a declared type with a given type.

    Raises
    ------
    Exception
        Of any kind, if it cannot hold them.
    """
    import pandas as pd

    if isinstance(column, NumberColumn) and column.duration is not None and holds_durations(dtype):
        return _durations(cells, column.duration.nanoseconds).astype(dtype)
    if isinstance(dtype, pd.CategoricalDtype):
        if not isinstance(column, CategoryColumn):
            return cells
        words = [text for text in column.printed_cells(np.arange(column.size)) if text is not None]
        return cells.astype(pd.CategoricalDtype(words, ordered=column.ordered))
    if isinstance(dtype, pd.DatetimeTZDtype):
        return _midnights(cells, dtype)
    if isinstance(dtype, pd.PeriodDtype):
        return cells.dt.to_period(dtype.freq)
    if isinstance(dtype, pd.ArrowDtype):
        return _as_arrow(cells, dtype)
    if isinstance(dtype, pd.SparseDtype):
        return cells.astype(dtype.subtype).astype(dtype)
    if isinstance(dtype, np.dtype) and dtype.kind in "iu" and column.missing:
        dtype = pd.Series([], dtype=dtype).convert_dtypes().dtype  # the type of as many bits that knows missing cells
    return cells.astype(dtype)


def _midnights(cells: Any, dtype: pd.DatetimeTZDtype) -> Any:
    """Return days as the moments at which they begin: at midnight, or just after it where clocks jump over it."""
    days = cells.astype(f"datetime64[{dtype.unit}]")
    first = np.ones(len(days), dtype=bool)
    return days.dt.tz_localize(dtype.tz, ambiguous=first, nonexistent="shift_forward")


def _durations(cells: Any, nanoseconds: int) -> Any:
    import pandas as pd

    whole = [None if pd.isna(cell) else round(cell * nanoseconds) for cell in cells]
    return pd.Series(pd.arrays.ArrowExtensionArray(pa.array(whole, pa.int64()).cast(pa.duration("ns")))).astype(
        "timedelta64[ns]"
    )


def _as_arrow(cells: Any, dtype: pd.ArrowDtype) -> Any:
    import pandas as pd

    kind, types = dtype.pyarrow_dtype, pa.types
    if types.is_timestamp(kind) and kind.tz is not None:
        return _midnights(cells, pd.DatetimeTZDtype(kind.unit, kind.tz)).astype(dtype)
    stored = pa.array(cells, from_pandas=True)
    if types.is_time(kind):
        written = (None if text is None else datetime.time.fromisoformat(text) for text in stored.to_pylist())
        stored = pa.array(list(written), pa.time64("us"))
    elif types.is_decimal(kind):
        stored = stored.cast(pa.decimal256(76, kind.scale))
    elif types.is_dictionary(kind):
        stored = stored.cast(kind.value_type).dictionary_encode()
    elif types.is_run_end_encoded(kind):
        return pd.Series(pc.run_end_encode(stored.cast(kind.value_type), run_end_type=kind.run_end_type), dtype=dtype)
    return pd.Series(pd.arrays.ArrowExtensionArray(stored.cast(kind)))
