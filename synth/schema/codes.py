"""Codes of a declared column: how many, how they print, where they lie on the grid, and back to typed cells.

Everything here is a function of the declared column and of codes; no cell of a table is ever seen.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from synth.errors import SchemaError
from synth.schema import CategoryColumn, Column, DateColumn, DateStep, ModelledColumn, NumberColumn, YesNoColumn
from synth.schema.columns import guarded

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "Codes",
    "code_dtype",
    "code_values",
    "decode_column",
    "distinct_codes",
    "guarded",
    "positions",
    "printed_name",
    "smallest_codes",
    "spellings",
    "typed_as",
    "typed_values",
]

Codes = dict[str, npt.NDArray[np.unsignedinteger[Any]]]
"""A table in memory: one 1-D array of codes per modelled column, in the smallest unsigned type that fits."""

_TRUTH = {"true": ("True", "TRUE", "1"), "false": ("False", "FALSE", "0")}


def code_dtype(size: int) -> np.dtype[Any]:
    """Return the smallest unsigned type that holds the codes 0, ..., ``size`` - 1."""
    return np.dtype(np.min_scalar_type(max(size - 1, 0)))


def smallest_codes(column: ModelledColumn, codes: npt.ArrayLike) -> npt.NDArray[np.unsignedinteger[Any]]:
    """Return codes in the smallest unsigned type that fits, after checking that each is one of the column's.

    Parameters
    ----------
    column : ModelledColumn
        The declared column.
    codes : array of integers of shape (rows,), values in [0, column.size)

    Raises
    ------
    SchemaError
        If a code is not an integer or not one of the column's.
    """
    whole = np.asarray(codes)
    if whole.ndim != 1 or not np.issubdtype(whole.dtype, np.integer):
        raise SchemaError(f"'{column.name}': codes must be one column of whole numbers.")
    if whole.size and not (whole.min() >= 0 and whole.max() < column.size):
        raise SchemaError(f"'{column.name}' has the codes 0 to {column.size - 1}; a code lies outside.")
    return whole.astype(code_dtype(column.size), copy=False)


def printed_name(column: Column) -> str:
    """Return the name of a column in every table that is written, CSV and Parquet alike: :func:`guarded`."""
    return guarded(column.name)


def spellings(column: CategoryColumn | YesNoColumn, *, strip: bool, typed: bool) -> dict[str, int]:
    """Return every text that stands for a declared value, with its code.

    Declared values come first, then aliases, then the guarded form that :func:`guarded` prints and, with ``strip``,
    the value without white space around it. ``typed`` cells are numbers or truth values made texts: True has no
    spelling of its own, so it is "True", "1" or yes, whichever is declared, and 3 may be declared as "3.0".
    """
    labels = column.values if isinstance(column, CategoryColumn) else column.labels
    code_of = {label: code for code, label in enumerate(labels)}
    for spelling, value in column.aliases if isinstance(column, CategoryColumn) else ():
        code_of.setdefault(spelling, code_of[value])
    for label, code in list(code_of.items()):
        code_of.setdefault(guarded(label), code)
    if strip:
        import pyarrow as pa  # here and below, as codes alone do without it
        import pyarrow.compute as pc

        # By the same function as the cells, which has its own idea of white space.
        trimmed = pc.utf8_trim_whitespace(pa.array(list(code_of), pa.string())).to_pylist()
        for text, code in zip(trimmed, list(code_of.values()), strict=True):
            code_of.setdefault(text, code)
    if typed:
        _add_typed_spellings(column, code_of)
    return code_of


def positions(column: ModelledColumn) -> npt.NDArray[np.float64]:
    """Return where each code lies on the grid.

    Returns
    -------
    array of shape (column.size,)
        code / (levels - 1) in [0, 1] for grid codes, NaN for the unordered ones (categories, special values, missing).
    """
    places = np.full(column.size, np.nan)
    places[: column.levels] = np.arange(column.levels) / max(column.levels - 1, 1)
    return places


def code_values(
    column: ModelledColumn, codes: Sequence[int] | npt.NDArray[Any] | None = None, *, missing: str = ""
) -> list[str]:
    """Return the printed text of codes, before any guard against formulas.

    Parameters
    ----------
    column : ModelledColumn
        The declared column.
    codes : sequence of int, optional
        Codes to print; all of the column's in order if absent.
    missing : str
        Text of the missing code.

    Returns
    -------
    list of str
        Numbers with the decimals of ``low``, ``step`` and the special values; ISO dates; category texts; yes and no.
    """
    wanted = range(column.size) if codes is None else [int(code) for code in codes]
    if isinstance(column, NumberColumn):
        values, decimals = _scaled_values(column, wanted), column.decimals
        return [missing if value is None else _fixed_point(value, decimals) for value in values]
    if isinstance(column, DateColumn):
        return [missing if day is None else day.isoformat() for day in _dates(column, wanted)]
    labels = (*column.labels, missing)
    return [labels[code] for code in wanted]


def typed_as(column: ModelledColumn) -> pa.DataType:
    """Return the Parquet type of a column: int64 or float64, date32, bool, string."""
    import pyarrow as pa

    if isinstance(column, NumberColumn):
        return pa.int64() if _is_whole(column) else pa.float64()
    if isinstance(column, DateColumn):
        return pa.date32()
    return pa.bool_() if isinstance(column, YesNoColumn) else pa.string()


def decode_column(column: ModelledColumn, codes: npt.ArrayLike) -> pa.Array:
    """Turn codes into typed cells; the missing code becomes null.

    Parameters
    ----------
    column : ModelledColumn
        The declared column.
    codes : array of integers of shape (rows,), values in [0, column.size)

    Returns
    -------
    pyarrow.Array of length rows
        int64 where low, step and special values are whole, else float64; date32 (the first day of a month or year,
        never before ``low``); bool; string.

    Raises
    ------
    SchemaError
        If a code is not one of the column's.
    """
    import pyarrow as pa

    checked = smallest_codes(column, codes)
    distinct, place = distinct_codes(column, checked)
    return typed_values(column, distinct).take(pa.array(place[checked]))


def _add_typed_spellings(column: CategoryColumn | YesNoColumn, code_of: dict[str, int]) -> None:
    for text, others in _TRUTH.items():
        for other in others:
            if other in code_of:
                code_of.setdefault(text, code_of[other])
    for label, code in list(code_of.items()):
        if label.endswith(".0"):
            code_of.setdefault(label.removesuffix(".0"), code)
    if isinstance(column, YesNoColumn):
        for text, code in (("false", 0), ("true", 1), ("0", 0), ("1", 1)):
            code_of.setdefault(text, code)


def distinct_codes(
    column: ModelledColumn, codes: npt.NDArray[np.unsignedinteger[Any]]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Find the codes that occur.

    Returns
    -------
    distinct : array of shape (n_distinct,)
        The codes that occur, in order.
    place : array of shape (column.size,)
        Where each code stands among them; meaningless for codes that do not occur.
    """
    present = np.zeros(column.size, dtype=bool)
    present[codes] = True
    return np.flatnonzero(present), np.cumsum(present) - 1


def typed_values(column: ModelledColumn, codes: npt.NDArray[np.int64]) -> pa.Array:
    """Return one typed cell for each code given, as :func:`decode_column` does, one at a time."""
    import pyarrow as pa

    kind = typed_as(column)
    if isinstance(column, DateColumn):
        return pa.array(_dates(column, codes), type=kind)
    if isinstance(column, YesNoColumn):
        return pa.array([None if code == 2 else bool(code) for code in codes.tolist()], type=kind)
    texts = [text or None for text in code_values(column, codes)]
    if isinstance(column, NumberColumn):
        convert = int if kind == pa.int64() else float
        return pa.array([None if text is None else convert(text) for text in texts], type=kind)
    return pa.array(texts, type=kind)


def _is_whole(column: NumberColumn) -> bool:
    largest = max(abs(value) for value in (column.low, column.high, *column.special))
    return column.decimals == 0 and largest < 2**63


def _scaled_values(column: NumberColumn, codes: Sequence[int] | range) -> list[int | None]:
    # Exact multiples of 10^-decimals: low + code * step in floating point would print 0.30000000000000004.
    decimals, levels = column.decimals, column.levels
    low, step = _scaled(column.low, decimals), _scaled(column.step, decimals)
    special = column.special
    # Of many special values only those that are asked for.
    return [
        low + code * step
        if code < levels
        else _scaled(special[code - levels], decimals)
        if code - levels < len(special)
        else None
        for code in codes
    ]


def _scaled(value: float, decimals: int) -> int:
    sign, digits, exponent = Decimal(repr(float(value))).as_tuple()
    if not isinstance(exponent, int):
        raise SchemaError("A number of the schema is not finite.")
    shift = exponent + decimals
    whole = int("".join(map(str, digits)))
    scaled: int = whole * 10**shift if shift >= 0 else whole // 10**-shift
    return -scaled if sign else scaled


def _fixed_point(value: int, decimals: int) -> str:
    if decimals == 0:
        return str(value)
    digits = str(abs(value)).zfill(decimals + 1)
    return f"{'-' if value < 0 else ''}{digits[:-decimals]}.{digits[-decimals:]}"


def _dates(column: DateColumn, codes: Sequence[int] | range | npt.NDArray[Any]) -> list[datetime.date | None]:
    return [None if code >= column.levels else _date(column, int(code)) for code in codes]


def _date(column: DateColumn, code: int) -> datetime.date:
    low = column.low
    if column.step is DateStep.DAY:
        return low + datetime.timedelta(days=code)
    if column.step is DateStep.YEAR:
        first = datetime.date(low.year + code, 1, 1)
    else:
        months = 12 * low.year + low.month - 1 + code
        first = datetime.date(months // 12, months % 12 + 1, 1)
    # The first place starts at the declared lowest date, so that no printed date lies outside the declared range.
    return max(first, low)
