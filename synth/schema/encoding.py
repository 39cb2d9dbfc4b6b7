"""Cells to codes, from the schema alone; nothing is ever fitted to rows.

Encoding is total: any cell of any type gets a code, so a run can never fail because of a value. It is done once for
every distinct cell of a batch and copied to its rows; the code of a cell is a function of that cell and of the
declared column, whatever the other cells are.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from synth.schema import CategoryColumn, DateColumn, DateStep, ModelledColumn, NumberColumn, YesNoColumn
from synth.schema.cells import (
    EPOCH,
    NO_DAY,
    days_of_dates,
    days_of_texts,
    is_date,
    is_number,
    numbers_of,
    numbers_of_texts,
    texts_of,
)
from synth.schema.codes import (
    Codes,
    code_dtype,
    code_values,
    decode_column,
    positions,
    smallest_codes,
    spellings,
    typed_as,
)
from synth.schema.schema_file import check_pattern

__all__ = [
    "CellCounts",
    "Codes",
    "EncodedCells",
    "Fate",
    "code_dtype",
    "code_values",
    "decode_column",
    "encode_cells",
    "encode_column",
    "positions",
    "smallest_codes",
    "typed_as",
]

_SHORTEST_ISO = {DateStep.DAY: 10, DateStep.MONTH: 7, DateStep.YEAR: 4}


class Fate(IntEnum):
    """What encoding did to a cell."""

    KEPT = 0
    MISSING = 1
    MALFORMED = 2
    OUTSIDE = 3


@dataclass(frozen=True, slots=True)
class CellCounts:
    """How many cells of a column did not arrive as declared; exact, so for the owner only.

    ``missing`` cells were empty; ``malformed`` ones could not be read as the declared type; ``outside`` ones were
    beyond a bound and moved to it, or were undeclared categories.
    """

    missing: int = 0
    malformed: int = 0
    outside: int = 0

    def __add__(self, other: CellCounts) -> CellCounts:
        return CellCounts(self.missing + other.missing, self.malformed + other.malformed, self.outside + other.outside)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class EncodedCells:
    """One column of codes and what became of its cells (owner only)."""

    codes: npt.NDArray[np.unsignedinteger[Any]]
    counts: CellCounts


_Coded = tuple[npt.NDArray[np.int64], npt.NDArray[np.int8]]


def encode_column(
    column: ModelledColumn,
    cells: pa.Array | pa.ChunkedArray,
    *,
    missing: tuple[str, ...] = ("",),
    strip: bool = True,
) -> npt.NDArray[np.unsignedinteger[Any]]:
    """Turn cells into codes.

    Parameters
    ----------
    column : ModelledColumn
        The declared column.
    cells : pyarrow array of length rows
        Texts, or typed cells (whole numbers, decimals, floats, truth values, dates, times, dictionaries of these).
    missing : tuple of str
        Texts that mean "missing", unless the column itself declares them as a value.
    strip : bool
        Whether white space around a text is passed over.

    Returns
    -------
    array of shape (rows,), smallest unsigned type, values in [0, column.size)

    Raises
    ------
    SchemaError
        If the declared ``pattern`` of a date cannot be used; never because of a cell.

    Notes
    -----
    Empty and malformed cells get the missing code if declared, else "other" (categories), else the declared fallback.
    Numbers and dates move to the nearest place of the grid, infinite ones to the nearest bound; undeclared categories
    become "other" if declared, else missing if declared, else the fallback. Where none of these is declared, which no
    run is started with, the code is 0: encoding is total.
    """
    return encode_cells(column, cells, missing=missing, strip=strip).codes


def encode_cells(
    column: ModelledColumn,
    cells: pa.Array | pa.ChunkedArray,
    *,
    missing: tuple[str, ...] = ("",),
    strip: bool = True,
) -> EncodedCells:
    """Turn cells into codes as :func:`encode_column` does, and count those that did not arrive as declared."""
    distinct, index = _distinct_cells(cells)
    codes, fates = _encode_distinct(column, distinct, missing=missing, strip=strip)
    counts = np.bincount(fates if index is None else fates[index], minlength=len(Fate))
    small = codes.astype(code_dtype(column.size))
    return EncodedCells(
        small if index is None else small[index],
        CellCounts(*(int(counts[fate]) for fate in (Fate.MISSING, Fate.MALFORMED, Fate.OUTSIDE))),
    )


def _distinct_cells(cells: pa.Array | pa.ChunkedArray) -> tuple[pa.Array, npt.NDArray[np.int64] | None]:
    """Return the distinct cells, null last, and each row's place among them; None where cells are kept one by one."""
    array = cells.combine_chunks() if isinstance(cells, pa.ChunkedArray) else cells
    if isinstance(array, pa.ChunkedArray):  # more text than one chunk can hold
        array = pa.concat_arrays([chunk.cast(pa.large_string()) for chunk in array.chunks])
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if is_number(array.type) or is_date(array.type):
        return array, None
    if pa.types.is_null(array.type):
        array = array.cast(pa.string())
    if not pa.types.is_dictionary(array.type):
        if not (pa.types.is_string(array.type) or pa.types.is_large_string(array.type)):
            array = texts_of(array)
        array = array.dictionary_encode()
    values = array.dictionary
    distinct = pa.concat_arrays([values, pa.nulls(1, values.type)])
    index = pc.fill_null(array.indices.cast(pa.int64()), len(values))
    return distinct, index.to_numpy(zero_copy_only=False)


def _encode_distinct(column: ModelledColumn, cells: pa.Array, *, missing: tuple[str, ...], strip: bool) -> _Coded:
    if isinstance(column, NumberColumn):
        return _encode_numbers(column, cells, missing=missing, strip=strip)
    if isinstance(column, DateColumn):
        return _encode_dates(column, cells, missing=missing, strip=strip)
    return _encode_labels(column, cells, missing=missing, strip=strip)


def _encode_numbers(column: NumberColumn, cells: pa.Array, *, missing: tuple[str, ...], strip: bool) -> _Coded:
    if is_number(cells.type):
        values = numbers_of(cells)
        tokens = numbers_of_texts(pa.array(missing, pa.string()))
        absent = np.isnan(values) | np.isin(values, tokens[~np.isnan(tokens)])
    else:
        texts = _stripped(texts_of(cells), strip)
        values = numbers_of_texts(texts)
        absent = _is_missing(texts, missing)
    codes, fates = _places(column, values)
    codes[absent], fates[absent] = _fallback(column), Fate.MISSING
    for place, special in enumerate(column.special):
        # A value that the column declares is that value, whatever the table-wide missing texts say.
        same = values == special
        codes[same], fates[same] = column.levels + place, Fate.KEPT
    return codes, fates


def _places(column: NumberColumn, values: npt.NDArray[np.float64]) -> _Coded:
    malformed = np.isnan(values)
    inside = np.clip(np.where(malformed, column.low, values), column.low, column.high)
    codes = np.minimum(np.rint((inside - column.low) / column.step).astype(np.int64), column.levels - 1)
    codes[malformed] = _fallback(column)
    fates = np.where((values < column.low) | (values > column.high), Fate.OUTSIDE, Fate.KEPT).astype(np.int8)
    fates[malformed] = Fate.MALFORMED
    return codes, fates


def _encode_dates(column: DateColumn, cells: pa.Array, *, missing: tuple[str, ...], strip: bool) -> _Coded:
    if column.pattern is not None:
        check_pattern(column.name, column.pattern)
    if is_date(cells.type):
        days = days_of_dates(cells)
        absent = _nulls(cells)
    else:
        texts = _stripped(texts_of(cells), strip)
        days = days_of_texts(texts, pattern=column.pattern, shortest=_SHORTEST_ISO[column.step])
        absent = _is_missing(texts, missing)
    first, last = (day.toordinal() - EPOCH for day in (column.low, column.high))
    inside = np.clip(days, first, last)
    if column.step is DateStep.DAY:
        codes = inside - first
    else:
        unit = "datetime64[M]" if column.step is DateStep.MONTH else "datetime64[Y]"
        codes = _in_units(inside, unit) - _in_units(np.array(first), unit)
    fates = np.where((days < first) | (days > last), Fate.OUTSIDE, Fate.KEPT).astype(np.int8)
    malformed = days == NO_DAY
    codes[malformed], fates[malformed] = _fallback(column), Fate.MALFORMED
    codes[absent], fates[absent] = _fallback(column), Fate.MISSING
    return codes, fates


def _in_units(days: npt.NDArray[np.int64], unit: str) -> npt.NDArray[np.int64]:
    whole: npt.NDArray[np.int64] = days.astype("datetime64[D]").astype(unit).astype(np.int64)
    return whole


def _encode_labels(
    column: CategoryColumn | YesNoColumn, cells: pa.Array, *, missing: tuple[str, ...], strip: bool
) -> _Coded:
    texts = _stripped(texts_of(cells), strip)
    known, code_of = _lookup(column, strip=strip, typed=is_number(cells.type))
    found = pc.fill_null(pc.index_in(texts, value_set=known.cast(texts.type)), -1).to_numpy(zero_copy_only=False)
    undeclared = column.other_code if isinstance(column, CategoryColumn) else None
    codes = np.where(found >= 0, code_of[found], _fallback(column) if undeclared is None else undeclared)
    fates = np.where(found >= 0, Fate.KEPT, Fate.OUTSIDE).astype(np.int8)
    absent = _is_missing(texts, missing) & (found < 0)
    codes[absent], fates[absent] = _fallback(column), Fate.MISSING
    return codes, fates


@lru_cache(maxsize=1024)
def _lookup(
    column: CategoryColumn | YesNoColumn, *, strip: bool, typed: bool
) -> tuple[pa.Array, npt.NDArray[np.int64]]:
    code_of = spellings(column, strip=strip, typed=typed)
    return pa.array(list(code_of), pa.string()), np.array(list(code_of.values()), dtype=np.int64)


def _fallback(column: ModelledColumn) -> int:
    """Code of an empty or malformed cell."""
    return column.fallback_code or 0


def _stripped(texts: pa.Array, strip: bool) -> pa.Array:
    return pc.utf8_trim_whitespace(texts) if strip else texts


def _is_missing(texts: pa.Array, missing: tuple[str, ...]) -> npt.NDArray[np.bool_]:
    token = pc.is_in(texts, value_set=pa.array(missing, texts.type))
    absent: npt.NDArray[np.bool_] = pc.or_(token, texts.is_null()).to_numpy(zero_copy_only=False)
    return absent


def _nulls(cells: pa.Array) -> npt.NDArray[np.bool_]:
    mask: npt.NDArray[np.bool_] = cells.is_null().to_numpy(zero_copy_only=False)
    return mask
