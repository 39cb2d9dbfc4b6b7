"""Cells of any column type as texts, numbers or days: the part of encoding that knows file types, not schemas.

Each function maps one cell by itself, so a result never depends on the other cells of a table.
"""

from __future__ import annotations

import datetime
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from synth.limits import NUMBER_CHARACTERS

__all__ = ["days_of_dates", "days_of_texts", "is_date", "is_number", "numbers_of", "numbers_of_texts", "texts_of"]

NUMBER = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,6})?$"
INFINITY = r"(?i)^[+-]?inf(inity)?$"
ISO_DAY = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}([T ][0-9]{2}:[0-9]{2}(:[0-9]{2}([.,][0-9]+)?)?\s*(Z|[+-][0-9]{2}:?[0-9]{2})?)?$"
NO_DAY = np.iinfo(np.int64).min
"""Marks a cell that is not a date."""

EPOCH = datetime.date(1970, 1, 1).toordinal()
_DAYS_PER_UNIT = {"s": 86_400, "ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000}


def is_number(kind: pa.DataType) -> bool:
    """Whether cells of this type are numbers or truth values."""
    types = pa.types
    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind) or types.is_boolean(kind))


def is_date(kind: pa.DataType) -> bool:
    """Whether cells of this type are dates or times of a calendar."""
    return bool(pa.types.is_date(kind) or pa.types.is_timestamp(kind))


def texts_of(cells: pa.Array) -> pa.Array:
    """Return cells as a string array.

    3 and 3.0 become "3", truth values "true" and "false", dates their ISO form, NaN null.
    Bytes that are not UTF-8 become replacement characters; null stays null.
    """
    kind = cells.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return cells
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind):
        decoded = [None if cell is None else cell.decode("utf-8", "replace") for cell in cells.to_pylist()]
        return pa.array(decoded, pa.string())
    if pa.types.is_float16(kind):
        cells = cells.cast(pa.float32())
    texts = cells.cast(pa.string())
    if pa.types.is_floating(kind):
        whole = pc.and_(pc.equal(pc.floor(cells), cells), pc.less(pc.abs(cells), 2.0**53))
        # Adding zero makes -0.0 print as 0.
        whole_texts = pc.if_else(whole, pc.add(cells.cast(pa.float64()), 0.0), None).cast(pa.int64()).cast(pa.string())
        return pc.if_else(pc.is_nan(cells), None, pc.coalesce(whole_texts, texts))
    return texts


def numbers_of(cells: pa.Array) -> npt.NDArray[np.float64]:
    """Return typed numbers as float64; null becomes NaN.

    A 32-bit number is read as the shortest decimal that it prints as: 0.1 stored in 32 bits is 0.1, not 0.10000000149.
    """
    if pa.types.is_float16(cells.type):
        cells = cells.cast(pa.float32())
    if pa.types.is_float32(cells.type):
        cells = cells.cast(pa.string())
    elif pa.types.is_boolean(cells.type):
        cells = cells.cast(pa.uint8())
    return _with_nan(cells.cast(pa.float64(), safe=False))


def numbers_of_texts(texts: pa.Array) -> npt.NDArray[np.float64]:
    """Return the numbers that texts such as "5", "-0.5" or "1e-6" write; NaN for any other text, and for null.

    A text of more than :data:`synth.limits.NUMBER_CHARACTERS` characters is no number.
    """
    texts = _short(texts)
    written = pc.or_(pc.match_substring_regex(texts, NUMBER), pc.match_substring_regex(texts, INFINITY))
    return _with_nan(pc.if_else(written, texts, None).cast(pa.float64()))


def days_of_dates(cells: pa.Array) -> npt.NDArray[np.int64]:
    """Return the days since 1970-01-01 of typed dates and times (at their own time zone); null becomes ``NO_DAY``."""
    kind = cells.type
    if pa.types.is_timestamp(kind):
        if kind.tz is not None:
            cells = _local(cells)
        days = _whole(cells.cast(pa.timestamp(kind.unit)).view(pa.int64())) // _DAYS_PER_UNIT[kind.unit]
    elif pa.types.is_date64(kind):
        days = _whole(cells.view(pa.int64())) // _DAYS_PER_UNIT["ms"]
    else:
        days = _whole(cells.view(pa.int32()))
    return np.where(_missing(cells), NO_DAY, days)


def days_of_texts(texts: pa.Array, *, pattern: str | None, shortest: int) -> npt.NDArray[np.int64]:
    """Return the days since 1970-01-01 of written dates.

    Parameters
    ----------
    texts : pyarrow string array
        Dates as ``pattern`` or ISO 8601 writes them; a time of day after an ISO date is passed over.
    pattern : str, optional
        How dates are written, in the notation of ``strptime``; tried before ISO.
    shortest : int
        Characters of the shortest ISO form that is understood: 10 for days, 7 for months, 4 for years.

    Returns
    -------
    array of shape (rows,)
        ``NO_DAY`` for any other text, and for null.
    """
    texts = _short(texts)
    iso = pc.match_substring_regex(texts, ISO_DAY)
    # Times of day make nearly every text different; the dates before them are few.
    short = pc.if_else(iso, pc.utf8_slice_codeunits(texts, 0, 10), texts) if pattern is None else texts
    cells = short.dictionary_encode()
    with_time = pc.match_substring_regex(cells.dictionary, ISO_DAY).to_pylist()
    days = [
        _day(text, pattern, shortest, iso=is_iso)
        for text, is_iso in zip(cells.dictionary.to_pylist(), with_time, strict=True)
    ]
    days.append(NO_DAY)
    index = pc.fill_null(cells.indices, len(days) - 1)
    of_rows: npt.NDArray[np.int64] = np.array(days, dtype=np.int64)[index.to_numpy(zero_copy_only=False)]
    return of_rows


def _day(text: str, pattern: str | None, shortest: int, *, iso: bool) -> int:
    if pattern is not None:
        try:
            return datetime.datetime.strptime(text, pattern).date().toordinal() - EPOCH
        except (ValueError, OverflowError):
            pass  # perhaps written in ISO form
    digits = text.replace("-", "")
    if not (digits.isascii() and digits.isdigit()):
        text = text[:10] if iso else ""
    elif len(text) == 4 and shortest <= 4:
        text = f"{text}-01-01"
    elif len(text) == 7 and text[4] == "-" and shortest <= 7:
        text = f"{text}-01"
    try:
        return datetime.date.fromisoformat(text).toordinal() - EPOCH
    except ValueError:
        return NO_DAY


def _short(texts: pa.Array) -> pa.Array:
    """Return texts without those that are too long for a number or a date: null instead."""
    lengths = pc.binary_length(texts)
    longest = pc.max(lengths).as_py() if len(texts) else None
    if longest is None or longest <= NUMBER_CHARACTERS:
        return texts
    return pc.if_else(pc.less_equal(lengths, NUMBER_CHARACTERS), texts, None)


def _local(cells: pa.Array) -> pa.Array:
    try:
        return pc.local_timestamp(cells)
    except pa.ArrowInvalid:  # a time zone this machine does not know: the name is metadata of the file, not a cell
        return cells


def _with_nan(numbers: pa.Array) -> npt.NDArray[np.float64]:
    values: npt.NDArray[np.float64] = pc.fill_null(numbers, float("nan")).to_numpy(zero_copy_only=False)
    return values


def _whole(cells: pa.Array) -> npt.NDArray[np.int64]:
    values: npt.NDArray[Any] = pc.fill_null(cells, 0).to_numpy(zero_copy_only=False)
    return values.astype(np.int64)


def _missing(cells: pa.Array) -> npt.NDArray[np.bool_]:
    mask: npt.NDArray[np.bool_] = cells.is_null().to_numpy(zero_copy_only=False)
    return mask
