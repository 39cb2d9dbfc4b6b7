"""Cells of any file type to the codes of a declared column, and codes back to typed cells.

Encoding is total: any cell of any type gets a code, so a run can never fail because of a value; nothing is ever fitted
to rows. The code of a cell is a function of that cell and of the declared column, whatever the other cells are, so it
is calculated once for every distinct cell of a batch and copied to its rows. The column says what a number, a day or a
word means (:meth:`synth.schema.ModelledColumn.encode`); this module says how they are read from a file.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from synth.limits import NUMBER_CHARACTERS
from synth.names import composed
from synth.schema.columns.base import CellCounts, Coded, Column, Fate, ModelledColumn, code_dtype
from synth.schema.columns.number import DurationUnit, NumberColumn
from synth.schema.written import PLAIN, Notation, TableFormat, has_hours, moment_written

__all__ = [
    "CellEncoder",
    "EncodedCells",
    "FileCells",
    "arrow_type",
    "composed_texts",
    "days_of_dates",
    "days_of_texts",
    "decode_column",
    "durations_as_numbers",
    "encode_cells",
    "encode_column",
    "invented_cells",
    "invented_cells_of",
    "is_bytes",
    "is_date",
    "is_number",
    "is_text",
    "minutes_of_texts",
    "numbers_of",
    "numbers_of_texts",
    "plain_numbers",
    "texts_of",
    "values_of_cells",
]

NUMBER = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,6})?$"
INFINITY = r"(?i)^[+-]?inf(inity)?$"
_OF_NUMBERS = "0123456789.+-"
ISO_DAY = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}([T ][0-9]{2}:[0-9]{2}(:[0-9]{2}([.,][0-9]+)?)?\s*(Z|[+-][0-9]{2}:?[0-9]{2})?)?$"
WHOLE = r"^[+-]?[0-9]{1,40}(\.0*)?$"
_LAST_FLOAT = float(np.nextafter(2.0**63, 0))  # of those below 2^63
NO_DAY = np.iinfo(np.int64).min
NO_TIME = -1
"""Mark a cell that is not a date, or not a time."""

EPOCH = datetime.date(1970, 1, 1).toordinal()
FIRST_DAY, LAST_DAY = datetime.date.min.toordinal() - EPOCH, datetime.date.max.toordinal() - EPOCH
_DAYS_PER_UNIT = {"s": 86_400, "ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000}


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class EncodedCells:
    """One column of codes and what became of its cells (owner only)."""

    codes: npt.NDArray[np.unsignedinteger[Any]]
    counts: CellCounts


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
        Whether white space around a text is ignored.

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
    Numbers and dates move to the nearest value of the grid, infinite ones to the nearest bound; undeclared categories
    become "other" if declared, else missing if declared, else the fallback. If none of these is declared, in which case
    no run starts, the code is 0: encoding is total.
    """
    return encode_cells(column, cells, missing=missing, strip=strip).codes


def encode_cells(
    column: ModelledColumn,
    cells: pa.Array | pa.ChunkedArray,
    *,
    missing: tuple[str, ...] = ("",),
    strip: bool = True,
    notation: Notation = PLAIN,
    dates: tuple[str, ...] = (),
) -> EncodedCells:
    """Turn cells into codes as :func:`encode_column` does, and count those that did not fit their declaration.

    ``notation`` and ``dates`` say how numbers and dates are written where the column has no notation of its own.
    """
    (encoded,) = CellEncoder(column, missing=missing, strip=strip, notation=notation, dates=dates).encode([cells])
    return encoded


class CellEncoder:
    """Encodes the cells of columns with one declaration, some rows at a time.

    A column takes as long for few cells as for thousands, so those of several are encoded together. What a text became
    is kept for the next cells, which mostly have the same ones. A code follows from its cell and the declaration, so
    neither changes any.

    Parameters
    ----------
    column : ModelledColumn
        What is declared of each of the columns.
    kept : int
        How many texts are kept at most.
    **written
        How cells are written, as for :func:`encode_cells`.
    """

    def __init__(self, column: ModelledColumn, *, kept: int = 0, **written: Any) -> None:
        self._column, self._most, self._written = column, kept, written
        self._dtype = code_dtype(column.size)
        self._places: dict[str | None, int] = {}
        self._codes, self._fates = _NO_CODES

    def encode(self, columns: Sequence[pa.Array | pa.ChunkedArray]) -> list[EncodedCells]:
        """Return the codes of some cells of each column, and what became of them."""
        found: list[EncodedCells] = []
        held: list[_Distinct] = []
        room = _TOGETHER
        for cells in columns:
            distinct = self._distinct(cells)
            room -= len(distinct.cells)
            if held and (room < 0 or distinct.cells.type != held[0].cells.type):
                found += self._together(held)
                held, room = [], _TOGETHER - len(distinct.cells)
            held.append(distinct)
        return found + self._together(held) if held else found

    def _distinct(self, cells: pa.Array | pa.ChunkedArray) -> _Distinct:
        column = self._column
        if isinstance(column, NumberColumn) and column.duration is not None and pa.types.is_duration(cells.type):
            cells = durations_as_numbers(cells, column.duration)
        return _Distinct(*_distinct_cells(cells))

    def _together(self, held: Sequence[_Distinct]) -> list[EncodedCells]:
        """Encode the distinct cells of some columns at once, which have one type."""
        if len(held) == 1:
            ((cells, places),) = held
            codes, fates = self._coded(cells) if places is None else self._of_texts(cells)
        else:
            cells = pa.concat_arrays([one.cells for one in held])
            if held[0].places is None:
                codes, fates = self._coded(cells)
            else:  # of several columns, mostly the same texts
                same = cells.dictionary_encode(null_encoding="encode")
                codes, fates = (each[same.indices.to_numpy()] for each in self._of_texts(same.dictionary))
        small = codes.astype(self._dtype)
        if not fates.any():  # every cell is as declared
            return [EncodedCells(own, CellCounts()) for own in _each(small, held)]
        own_fates = _each(fates, held)
        return [EncodedCells(own, _counted(next(own_fates))) for own in _each(small, held)]

    def _of_texts(self, texts: pa.Array) -> Coded:
        """Return the codes of texts that are all different."""
        keep = is_text(texts.type) and 0 < len(texts) <= self._most
        return self._kept(texts.to_pylist()) if keep else self._coded(texts)

    def _coded(self, distinct: pa.Array) -> Coded:
        return self._column.encode(FileCells(distinct, **self._written))

    def _kept(self, texts: list[str | None]) -> Coded:
        new = [text for text in texts if text not in self._places]
        if len(self._places) + len(new) > self._most:
            self._places, (self._codes, self._fates), new = {}, _NO_CODES, texts
        if new:
            codes, fates = self._coded(pa.array(new, pa.string()))
            self._places |= zip(new, range(len(self._codes), len(self._codes) + len(new)), strict=True)
            self._codes, self._fates = np.append(self._codes, codes), np.append(self._fates, fates)
        places = [self._places[text] for text in texts]
        return self._codes[places], self._fates[places]


_TOGETHER = 2**17
"""Distinct cells that are encoded at once, of several columns."""


class _Distinct(NamedTuple):
    """The distinct cells of some rows, and each row's place among them; None if each is a row's own."""

    cells: pa.Array
    places: npt.NDArray[np.integer[Any]] | None


def _each(values: npt.NDArray[Any], held: Sequence[_Distinct]) -> Iterator[npt.NDArray[Any]]:
    """Yield the values of each column's rows, given those of all distinct cells, one column after the other."""
    start = 0
    for one in held:
        own = values[start : start + len(one.cells)]
        start += len(one.cells)
        yield own if one.places is None else own[one.places]


def _counted(fates: npt.NDArray[np.int8]) -> CellCounts:
    if not fates.any():
        return CellCounts()
    counts = np.bincount(fates, minlength=len(Fate))
    return CellCounts(*(int(counts[fate]) for fate in (Fate.MISSING, Fate.MALFORMED, Fate.OUTSIDE)))


_NO_CODES: Coded = (np.empty(0, np.int64), np.empty(0, np.int8))


def values_of_cells(
    cells: pa.Array | pa.ChunkedArray, *, missing: tuple[str, ...] = ("",), strip: bool = True
) -> tuple[list[str | None], npt.NDArray[np.int64]]:
    """Return the texts of cells, None for a missing one, and each row's place among them; texts may repeat."""
    distinct, index = _distinct_cells(cells)
    texts = FileCells(distinct, missing=missing, strip=strip).values()
    return texts, np.arange(len(texts)) if index is None else index


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
    checked = column.smallest_codes(codes)
    distinct = column.distinct_codes(checked)
    return pa.array(column.cells(distinct), type=arrow_type(column)).take(pa.array(np.searchsorted(distinct, checked)))


def arrow_type(column: Column) -> pa.DataType:
    """Return the Parquet type of a column: int64 or float64, date32, bool, string."""
    return pa.type_for_alias(column.cell_type)


class FileCells:
    """Cells of one column of a file, which a declared column reads as numbers, days, minutes or words.

    Parameters
    ----------
    cells : pyarrow array
        Texts, or typed cells.
    missing : tuple of str
        Texts that mean "missing".
    strip : bool
        Whether white space around a text is ignored.
    notation : Notation
        How numbers are written where a column has no notation of its own.
    dates : tuple of str
        How dates are written, in the notation of ``strptime``.
    """

    def __init__(
        self,
        cells: pa.Array,
        *,
        missing: tuple[str, ...] = ("",),
        strip: bool = True,
        notation: Notation = PLAIN,
        dates: tuple[str, ...] = (),
    ) -> None:
        self._cells = cells
        self._notation, self._dates = notation, dates
        self._missing_texts = missing
        self._strip = strip

    def numbers(self, notation: Notation = PLAIN) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_]]:
        """Return the number of every cell, NaN where it is not one, and which cells are missing.

        ``notation`` is the column's own.
        """
        if not is_number(self._cells.type):
            texts = self._texts()
            return numbers_of_texts(plain_numbers(texts, notation.over(self._notation))), self._is_missing(texts)
        values = numbers_of(self._cells)
        absent = np.isnan(values)
        for number in _numbers_among(self._missing_texts):
            absent |= values == number
        return values, absent

    def wholes(
        self, notation: Notation = PLAIN
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
        """Return the whole number of every cell, which cells are no numbers, and which are missing.

        A whole number is exact up to 2^63, and one beyond is the nearest of 64 bits; any other number is rounded, as a
        float. ``notation`` is the column's own.
        """
        numbers, absent = self.numbers(notation)
        kind = self._cells.type
        nearest = np.where(np.isnan(numbers), 0.0, np.clip(np.rint(numbers), -(2.0**63), _LAST_FLOAT)).astype(np.int64)
        nearest[numbers > _LAST_FLOAT] = np.iinfo(np.int64).max
        if pa.types.is_floating(kind):
            return nearest, np.isnan(numbers), absent
        if is_number(kind):
            texts = texts_of(self._cells)
            absent = self._is_missing(texts)
        else:
            texts = plain_numbers(self._texts(), notation.over(self._notation))
        is_whole = pc.fill_null(pc.match_substring_regex(texts, WHOLE), False).to_numpy(zero_copy_only=False)
        exact = [int(text.partition(".")[0]) for text in texts.filter(pa.array(is_whole)).to_pylist()]
        nearest[is_whole] = [min(max(number, -(2**63)), 2**63 - 1) for number in exact]
        return nearest, np.isnan(numbers), absent

    def days(
        self, *, patterns: tuple[str, ...], shortest: int
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
        """Return the day of every cell since 1970-01-01, which cells are not dates, and which are missing.

        ``patterns`` and ``shortest`` are those of :func:`days_of_texts`.
        """
        if is_date(self._cells.type):
            days, absent = days_of_dates(self._cells), _missing(self._cells)
        else:
            texts = self._texts()
            days = days_of_texts(texts, patterns=patterns or self._dates, shortest=shortest)
            absent = self._is_missing(texts)
        return days, days == NO_DAY, absent

    def minutes(
        self, *, patterns: tuple[str, ...]
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
        """Return the minute of the day of every cell, which cells are not times, and which are missing.

        ``patterns`` are those of :func:`minutes_of_texts`.
        """
        kind = self._cells.type
        if is_date(kind):
            local = _local(self._cells) if pa.types.is_timestamp(kind) and kind.tz is not None else self._cells
            texts, absent = local.cast(pa.string()), _missing(self._cells)
        else:
            texts = self._texts()
            absent = self._is_missing(texts)
        minutes = minutes_of_texts(texts, patterns=patterns or self._dates)
        return minutes, minutes == NO_TIME, absent

    def labels(self, column: ModelledColumn) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
        """Return the code of the word that every cell spells, -1 for none, and which cells are missing."""
        texts = self._texts()
        typed = is_number(self._cells.type)
        known, code_of = _spellings(column, strip=self._strip, typed=typed, missing=self._missing_texts)
        found = pc.fill_null(pc.index_in(texts, value_set=known.cast(texts.type)), -1).to_numpy(zero_copy_only=False)
        return np.where(found >= 0, code_of[found], -1), self._is_missing(texts)

    def values(self) -> list[str | None]:
        """Return the text of every cell, None where it is missing."""
        texts = self._texts()
        present: list[str | None] = pc.if_else(pa.array(self._is_missing(texts)), None, texts).to_pylist()
        return present

    def _texts(self) -> pa.Array:
        texts = composed_texts(texts_of(self._cells))
        return pc.utf8_trim_whitespace(texts) if self._strip else texts

    def _is_missing(self, texts: pa.Array) -> npt.NDArray[np.bool_]:
        token = pc.is_in(texts, value_set=_tokens(self._missing_texts, texts.type))
        absent: npt.NDArray[np.bool_] = pc.or_(token, texts.is_null()).to_numpy(zero_copy_only=False)
        return absent


# What is declared once for a table is read once, and not for every column and batch.


@lru_cache(maxsize=64)
def _tokens(missing: tuple[str, ...], kind: pa.DataType) -> pa.Array:
    return composed_texts(pa.array(missing, kind))


@lru_cache(maxsize=64)
def _numbers_among(missing: tuple[str, ...]) -> tuple[float, ...]:
    numbers = numbers_of_texts(pa.array(missing, pa.string()))
    return tuple(numbers[~np.isnan(numbers)].tolist())


@lru_cache(maxsize=1024)
def _spellings(
    column: ModelledColumn, *, strip: bool, typed: bool, missing: tuple[str, ...]
) -> tuple[pa.Array, npt.NDArray[np.int64]]:
    code_of = column.spellings(trim=_trimmed if strip else None, typed=typed, missing=missing)
    return composed_texts(pa.array(list(code_of), pa.string())), np.array(list(code_of.values()), dtype=np.int64)


def _trimmed(texts: list[str]) -> list[str]:
    # By the same function as the cells, because functions differ in what they call white space.
    trimmed: list[str] = pc.utf8_trim_whitespace(pa.array(texts, pa.string())).to_pylist()
    return trimmed


def _distinct_cells(cells: pa.Array | pa.ChunkedArray) -> tuple[pa.Array, npt.NDArray[np.int64] | None]:
    """Return the distinct cells, and each row's place among them; None if all cells are kept.

    Null comes last where there is any.
    """
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
        array = texts_of(array).dictionary_encode()
    values = array.dictionary
    if not array.null_count:
        return values, array.indices.to_numpy(zero_copy_only=False)
    distinct = pa.concat_arrays([values, pa.nulls(1, values.type)])
    index = pc.fill_null(array.indices.cast(pa.int64()), len(values))
    return distinct, index.to_numpy(zero_copy_only=False)


def is_number(kind: pa.DataType) -> bool:
    """Whether cells of this type are numbers or truth values."""
    types = pa.types
    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind) or types.is_boolean(kind))


def is_text(kind: pa.DataType) -> bool:
    """Whether cells of this type are texts."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def is_bytes(kind: pa.DataType) -> bool:
    """Whether cells of this type are bytes, which may or may not be text."""
    types = pa.types
    return bool(types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind))


def is_date(kind: pa.DataType) -> bool:
    """Whether cells of this type are dates or times of a calendar."""
    return bool(pa.types.is_date(kind) or pa.types.is_timestamp(kind))


def texts_of(cells: pa.Array) -> pa.Array:
    """Return cells as a string array.

    3 and 3.0 become "3", truth values "true" and "false", dates their ISO form, durations seconds, NaN null.
    Bytes that are not UTF-8 become replacement characters; null stays null.
    """
    kind = cells.type
    if is_text(kind):
        return cells
    if is_bytes(kind):
        decoded = [None if cell is None else cell.decode("utf-8", "replace") for cell in cells.to_pylist()]
        return pa.array(decoded, pa.string())
    if pa.types.is_duration(kind):
        return texts_of(durations_as_numbers(cells, DurationUnit.SECONDS))
    if pa.types.is_float16(kind):
        cells = cells.cast(pa.float32())
    texts = cells.cast(pa.string())
    if pa.types.is_floating(kind):
        whole = pc.and_(pc.equal(pc.floor(cells), cells), pc.less(pc.abs(cells), 2.0**53))
        # Adding zero makes -0.0 print as 0.
        whole_texts = pc.if_else(whole, pc.add(cells.cast(pa.float64()), 0.0), None).cast(pa.int64()).cast(pa.string())
        return pc.if_else(pc.is_nan(cells), None, pc.coalesce(whole_texts, texts))
    return texts


def composed_texts(texts: pa.Array) -> pa.Array:
    """Return texts with their letters composed (NFC), in which they are compared with what is declared."""
    if pc.all(pc.string_is_ascii(texts)).as_py() is not False:
        return texts
    return pc.utf8_normalize(texts, form="NFC")


def numbers_of(cells: pa.Array) -> npt.NDArray[np.float64]:
    """Return typed numbers as float64; null becomes NaN.

    A 32-bit number is read as its shortest decimal: 0.1 stored in 32 bits is 0.1, not 0.10000000149.
    """
    if pa.types.is_float16(cells.type):
        cells = cells.cast(pa.float32())
    if pa.types.is_float32(cells.type):
        cells = cells.cast(pa.string())
    elif pa.types.is_boolean(cells.type):
        cells = cells.cast(pa.uint8())
    return _with_nan(cells.cast(pa.float64(), safe=False))


def durations_as_numbers(cells: pa.Array, unit: DurationUnit) -> pa.Array:
    """Return durations as numbers of a unit.

    Examples
    --------
    >>> durations_as_numbers(pa.array([90, None], pa.duration("s")), DurationUnit.MINUTES).to_pylist()
    [1.5, None]
    """
    own = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}[cells.type.unit]
    whole = _whole(cells.view(pa.int64()))
    if own > unit.nanoseconds:
        numbers = whole.astype(np.float64) * (own // unit.nanoseconds)
    else:
        many, rest = np.divmod(whole, unit.nanoseconds // own)
        numbers = many + rest / (unit.nanoseconds // own)
    return pc.if_else(cells.is_null(), None, pa.array(numbers))


def numbers_of_texts(texts: pa.Array) -> npt.NDArray[np.float64]:
    """Return the numbers that texts such as "5", "-0.5" or "1e-6" write; NaN for any other text, and for null.

    A text of more than :data:`synth.limits.NUMBER_CHARACTERS` characters is not a number.
    """
    texts = _short(texts)
    if not pc.max(pc.binary_length(pc.ascii_trim(texts, characters=_OF_NUMBERS))).as_py():
        # Of these characters a conversion takes just what the pattern takes, in a quarter of the time.
        with suppress(pa.ArrowInvalid):
            return _with_nan(pc.if_else(pc.greater(pc.binary_length(texts), 0), texts, None).cast(pa.float64()))
    written = pc.or_(pc.match_substring_regex(texts, NUMBER), pc.match_substring_regex(texts, INFINITY))
    return _with_nan(pc.if_else(written, texts, None).cast(pa.float64()))


def plain_numbers(texts: pa.Array, notation: Notation) -> pa.Array:
    """Return texts with each number in a notation rewritten as programs write it, and other texts unchanged.

    The result for a text follows from that text alone. Thousands come in groups of three, and a unit is at one of the
    ends.

    Examples
    --------
    >>> texts = pa.array(["1.234,5 kg", "80kg", "-0,5", "1.5", "12.34,5"])
    >>> plain_numbers(texts, Notation(",", ".", ("kg",))).to_pylist()
    ['1234.5', '80', '-0.5', '1.5', '12.34,5']
    """
    if not notation:
        return texts
    # Patterns of RE2, which takes time in proportion to the text whatever the pattern; signs and units are quoted.
    space, unit = "[\\s\u00a0\u202f\u2009]*", _any_of(notation.units)
    before, behind = (f"(?:{unit}{space})?", f"(?:{space}{unit})?") if notation.units else ("", "")
    point, between = _any_of(notation.point), _any_of(notation.between)
    grouped = f"[0-9]{{1,3}}(?:{between}[0-9]{{3}})+|" if notation.between else ""
    number = f"^{before}(?P<sign>[+-]?){before}(?P<whole>{grouped}[0-9]*)(?:{point}(?P<rest>[0-9]*))?{behind}$"
    found = pc.extract_regex(_short(texts), number)
    sign, whole, rest = (pc.struct_field(found, name) for name in ("sign", "whole", "rest"))
    if notation.between:
        whole = pc.replace_substring_regex(whole, between, "")
    behind = pc.if_else(pc.equal(rest, ""), "", pc.binary_join_element_wise("", rest, "."))
    plain = pc.binary_join_element_wise(whole, behind, "")
    is_number = pc.fill_null(pc.greater(pc.binary_length(plain), 0), False)
    return pc.if_else(is_number, pc.binary_join_element_wise(sign, plain, ""), texts)


def invented_cells(form: TableFormat) -> list[tuple[str, str]]:
    """Return invented cells written as a format declares, each with what it is read as.

    Examples
    --------
    >>> invented_cells(TableFormat(decimal=",", thousands=".", units=("kg",), dates=("%d/%m/%Y",)))
    [('1.234,5 kg', '1234.5'), ('03/04/2021', '2021-04-03')]
    """
    numbers = [form.notation.in_full("1234.5")] if form.notation else []
    dates = [datetime.date(2021, 4, 3).strftime(pattern) for pattern in form.dates]
    days = days_of_texts(pa.array(dates, pa.string()), patterns=form.dates, shortest=10).tolist()
    read = plain_numbers(pa.array(numbers, pa.string()), form.notation).to_pylist()
    found = [datetime.date.fromordinal(day + EPOCH).isoformat() for day in days]
    return list(zip(numbers + dates, read + found, strict=True))


def invented_cells_of(column: ModelledColumn, form: TableFormat) -> list[tuple[str, str]]:
    """Return invented cells written as a column is declared, each with what it is read as.

    They follow from the declaration alone. There are none for a column whose cells are written as programs write them.

    Examples
    --------
    >>> from synth.schema import parse_column
    >>> said = {"type": "number", "low": 0, "high": 2000, "step": 0.5, "units": ["€"], "missing": True}
    >>> invented_cells_of(parse_column("pay", said), TableFormat(decimal=",", thousands="."))
    [('1.000,0 €', '1000.0'), ('2.000,0 €', '2000.0')]
    """
    cells = column.invented(form.notation, form.dates)
    if not cells:
        return []
    codes, _ = column.encode(FileCells(pa.array(cells, pa.string()), **form.of_cells))
    return list(zip(cells, column.understood(codes.tolist()), strict=True))


def _any_of(texts: Sequence[str]) -> str:
    return f"(?:{'|'.join(f'{chr(92)}Q{composed(text)}{chr(92)}E' for text in texts)})"


def days_of_dates(cells: pa.Array) -> npt.NDArray[np.int64]:
    """Return the days since 1970-01-01 of typed dates and times (at their own time zone).

    Null, and a day before year 1 or after year 9999, becomes ``NO_DAY``.
    """
    kind = cells.type
    if pa.types.is_timestamp(kind):
        if kind.tz is not None:
            cells = _local(cells)
        days = _whole(cells.cast(pa.timestamp(kind.unit)).view(pa.int64())) // _DAYS_PER_UNIT[kind.unit]
    elif pa.types.is_date64(kind):
        days = _whole(cells.view(pa.int64())) // _DAYS_PER_UNIT["ms"]
    else:
        days = _whole(cells.view(pa.int32()))
    held = (days >= FIRST_DAY) & (days <= LAST_DAY)  # by the calendar that texts are read with
    return np.where(_missing(cells) | ~held, NO_DAY, days)


def days_of_texts(texts: pa.Array, *, patterns: tuple[str, ...], shortest: int) -> npt.NDArray[np.int64]:
    """Return the days since 1970-01-01 of written dates.

    Parameters
    ----------
    texts : pyarrow string array
        Dates as ``patterns`` or ISO 8601 writes them; a time of day after an ISO date is ignored.
    patterns : tuple of str
        How dates are written, in the notation of ``strptime``: the first that fits, tried before ISO.
    shortest : int
        Characters of the shortest ISO form that is understood: 10 for days, 7 for months, 4 for years.

    Returns
    -------
    array of shape (rows,)
        ``NO_DAY`` for any other text, and for null.
    """
    texts = _short(texts)
    iso = pc.match_substring_regex(texts, ISO_DAY)
    # Times of day make nearly every text different, while there are few dates.
    short = texts if patterns else pc.if_else(iso, pc.utf8_slice_codeunits(texts, 0, 10), texts)
    cells = short.dictionary_encode()
    with_time = pc.match_substring_regex(cells.dictionary, ISO_DAY).to_pylist()
    days = [
        _day(text, patterns, shortest, iso=is_iso)
        for text, is_iso in zip(cells.dictionary.to_pylist(), with_time, strict=True)
    ]
    return _of_rows(days, cells, NO_DAY)


def _day(text: str, patterns: Sequence[str], shortest: int, *, iso: bool) -> int:
    for pattern in patterns:
        moment = moment_written(text, pattern)
        if moment is not None:
            return moment.toordinal() - EPOCH
    # In ISO form, which is read whatever the pattern.
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


def minutes_of_texts(texts: pa.Array, *, patterns: tuple[str, ...]) -> npt.NDArray[np.int64]:
    """Return the minutes of the day of written times, alone or after a date.

    Parameters
    ----------
    texts : pyarrow string array
        Times as ``patterns`` or ISO 8601 writes them (14:35, 14:35:10, 2024-03-01T14:35); seconds are ignored.
    patterns : tuple of str
        How they are written, in the notation of ``strptime``: the first that fits, tried before ISO.

    Returns
    -------
    array of shape (rows,)
        From 0 to 1439; ``NO_TIME`` for any other text, such as a date without a time, and for null.
    """
    with_hours = list(filter(has_hours, patterns))
    cells = _short(texts).dictionary_encode()
    return _of_rows([_minute(text, with_hours) for text in cells.dictionary.to_pylist()], cells, NO_TIME)


def _of_rows(of_texts: list[int], cells: pa.DictionaryArray, otherwise: int) -> npt.NDArray[np.int64]:
    """Return for every cell the number of its text, and ``otherwise`` for null."""
    index = pc.fill_null(cells.indices, len(of_texts)).to_numpy(zero_copy_only=False)
    found: npt.NDArray[np.int64] = np.array([*of_texts, otherwise], dtype=np.int64)[index]
    return found


def _minute(text: str, patterns: Sequence[str]) -> int:
    for pattern in patterns:
        found = moment_written(text, pattern)
        if found is not None:
            return 60 * found.hour + found.minute
    if ":" not in text:
        return NO_TIME
    try:
        if text[4:5] == "-":
            moment: datetime.datetime | datetime.time = datetime.datetime.fromisoformat(text)
        else:
            moment = datetime.time.fromisoformat(f"0{text}" if text[1:2] == ":" else text)
    except ValueError:
        return NO_TIME
    return 60 * moment.hour + moment.minute


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
    except pa.ArrowInvalid:  # a time zone unknown to this machine: the name is metadata of the file, not a cell
        return cells.cast(pa.timestamp(cells.type.unit))


def _with_nan(numbers: pa.Array) -> npt.NDArray[np.float64]:
    values: npt.NDArray[np.float64] = pc.fill_null(numbers, float("nan")).to_numpy(zero_copy_only=False)
    return values


def _whole(cells: pa.Array) -> npt.NDArray[np.int64]:
    values: npt.NDArray[Any] = pc.fill_null(cells, 0).to_numpy(zero_copy_only=False)
    return values.astype(np.int64)


def _missing(cells: pa.Array) -> npt.NDArray[np.bool_]:
    mask: npt.NDArray[np.bool_] = cells.is_null().to_numpy(zero_copy_only=False)
    return mask
