"""A column that is not described yet: its codes say only what kind a cell is and how large.

Finding columns privately counts these codes with noise. The list of codes is public and the same for every column:
integers and decimals by size, dates by month, any other text, and a missing cell. The code of a cell is a function of
that cell and of how cells are declared to be written.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from synth.schema.columns.base import Cells, Coded, Fate, ModelledColumn
from synth.schema.written import Pattern

__all__ = [
    "DATE_BLOCKS",
    "DATE_EDGES",
    "MOST_DECIMALS",
    "NUMBER_BLOCKS",
    "NUMBER_EDGES",
    "CellKind",
    "FindColumn",
    "decimals_of",
]

MOST_DECIMALS = 6
"""Numbers with this many decimals or more are of one kind."""

_FIRST_YEAR, _LAST_YEAR = 1800, 2199

_MANTISSAS = (
    "1", "1.1", "1.2", "1.3", "1.4", "1.5", "1.6", "1.7", "1.8", "1.9", "2", "2.2", "2.5", "2.8", "3", "3.5", "4",
    "4.5", "5", "5.5", "6", "7", "8", "9",
)  # fmt: skip
_SIZES = np.array([0.0, *(float(f"{mantissa}e{e}") for e in range(-6, 15) for mantissa in _MANTISSAS), 1e15])
"""Where bins of sizes begin; the last one holds everything larger, including infinity."""

NUMBER_EDGES: tuple[float, ...] = (
    -np.inf, *(-_SIZES[:0:-1]).tolist(), 0.0, float(np.nextafter(0.0, 1.0)), *_SIZES[1:].tolist(), np.inf
)  # fmt: skip
"""Edges of the bins of a number, lowest first. A bin holds its lower edge if it is positive or zero, and its upper edge
if that is negative; zero has a bin of its own, and so has every whole number from -19 to 19 among whole numbers."""

_SIDE = len(_SIZES) - 2
"""Bins of a side of zero that have two edges, without the one next to zero."""

NUMBER_BLOCKS: tuple[int, ...] = (
    *range(0, _SIDE + 1, 8), _SIDE + 1, _SIDE + 2, *range(_SIDE + 3, 2 * _SIDE + 4, 8)
)  # fmt: skip
"""Places of the edges of blocks among the finite :data:`NUMBER_EDGES`: three blocks for every power of ten, from 1, 1.8
and 4, and zero by itself."""

DATE_EDGES: tuple[datetime.date, ...] = tuple(
    datetime.date(year, month, 1) for year in range(_FIRST_YEAR, _LAST_YEAR + 1) for month in range(1, 13)
)
"""First days of the bins of a date; the bin before the first one and the last bin hold everything outside."""

DATE_BLOCKS: tuple[int, ...] = (*range(0, len(DATE_EDGES) - 1, 12), len(DATE_EDGES) - 1)
"""Places of the edges of years among :data:`DATE_EDGES`; the last one lacks December."""

_NUMBER_BINS, _DATE_BINS = len(NUMBER_EDGES) - 1, len(DATE_EDGES) + 1
_FIRST_DATE = _NUMBER_BINS * (MOST_DECIMALS + 1)
_TEXT = _FIRST_DATE + _DATE_BINS
_EPOCH = datetime.date(1970, 1, 1).toordinal()
_MONTHS = np.array([day.toordinal() - _EPOCH for day in DATE_EDGES])


class CellKind(IntEnum):
    """What a cell is; numbers are distinguished by their decimals: ``NUMBER`` and up to six more."""

    NUMBER = 0
    DATE = MOST_DECIMALS + 1
    TEXT = MOST_DECIMALS + 2
    MISSING = MOST_DECIMALS + 3


@dataclass(frozen=True, slots=True)
class FindColumn(ModelledColumn):
    """A column whose kind, range and values must be found privately before the table can be modelled.

    ``pattern`` is how its cells are written if they are dates, in the notation of ``strptime``; None reads ISO dates.

    Examples
    --------
    >>> FindColumn("age").size
    11894
    """

    kind: ClassVar[str] = "find"
    role: ClassVar[str] = "find privately"
    blank: ClassVar[str] = "{type: find}"

    pattern: Pattern | None = field(default=None, kw_only=True)

    @property
    def size(self) -> int:
        """Number of codes: numbers by decimals and size, dates by month, text, missing."""
        return _TEXT + 2

    @property
    def missing_code(self) -> int:
        """Code of a missing cell; it needs no declaration."""
        return _TEXT + 1

    def _code_of_fallback(self) -> int:
        return self.missing_code

    def encode(self, cells: Cells) -> Coded:
        """Return what kind every cell is, and how large: a number if it reads as one, else a date, else a text."""
        values, absent = cells.numbers()
        days, no_day, missing = cells.days(patterns=() if self.pattern is None else (self.pattern,), shortest=10)
        codes = np.where(no_day, _TEXT, _FIRST_DATE + np.searchsorted(_MONTHS, days, side="right"))
        number = ~np.isnan(values)
        codes[number] = decimals_of(values[number]) * _NUMBER_BINS + _bins(values[number])
        codes[absent | missing] = self.missing_code
        return codes, np.where(absent | missing, Fate.MISSING, Fate.KEPT).astype(np.int8)

    def kinds(self) -> npt.NDArray[np.int32]:
        """Return the kind of every code: decimals of numbers from 0 on, then those of :class:`CellKind`."""
        return np.repeat(
            np.arange(CellKind.MISSING + 1, dtype=np.int32), [*[_NUMBER_BINS] * (MOST_DECIMALS + 1), _DATE_BINS, 1, 1]
        )

    def number_bins(self) -> npt.NDArray[np.int32]:
        """Return the bin of every code among :data:`NUMBER_EDGES`, and one more for what is not a number."""
        bins = np.full(self.size, _NUMBER_BINS, dtype=np.int32)
        bins[:_FIRST_DATE] = np.tile(np.arange(_NUMBER_BINS), MOST_DECIMALS + 1)
        return bins

    def date_bins(self) -> npt.NDArray[np.int32]:
        """Return the bin of every code among :data:`DATE_EDGES`, and one more for what is not a date."""
        bins = np.full(self.size, _DATE_BINS, dtype=np.int32)
        bins[_FIRST_DATE:_TEXT] = np.arange(_DATE_BINS)
        return bins

    def number_blocks(self) -> npt.NDArray[np.int32]:
        """Return the block of every code's bin: :data:`NUMBER_BLOCKS`, with what is beyond, and what is no number."""
        return _in_blocks(self.number_bins(), NUMBER_BLOCKS)

    def date_blocks(self) -> npt.NDArray[np.int32]:
        """Return the year of every code's bin: :data:`DATE_BLOCKS`, with what is beyond, and what is no date."""
        return _in_blocks(self.date_bins(), DATE_BLOCKS)

    def _texts(self, codes: Sequence[int], missing: str) -> list[str]:
        kinds = self.kinds()
        return [missing if code == self.missing_code else f"kind {kinds[code]} bin {code}" for code in codes]

    def cells(self, codes: npt.NDArray[np.int64]) -> list[Any]:
        """Return the text of every code; no table with such a column is ever made."""
        return [text or None for text in self.texts(codes)]

    def _codes_near(self, text: str) -> list[int]:
        return []


def _in_blocks(bins: npt.NDArray[np.int32], blocks: Sequence[int]) -> npt.NDArray[np.int32]:
    """Return the block of each bin; beside those between edges, one is below, one above, and one of another kind."""
    inside = np.repeat(np.arange(1, len(blocks)), np.diff(blocks))
    return np.array([0, *inside, len(blocks), len(blocks) + 1], dtype=np.int32)[bins]


def decimals_of(values: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """Return how many decimals the shortest text of each number has, at most :data:`MOST_DECIMALS`.

    A product below 2^52 is rounded to the whole number it stands for, and the division by a power of ten is correctly
    rounded: it gives the number back exactly where a decimal of so many places is read as it.
    """
    decimals = np.full(values.shape, MOST_DECIMALS, dtype=np.int64)
    for places in range(MOST_DECIMALS - 1, -1, -1):
        scale = 10.0**places
        with np.errstate(over="ignore"):
            decimals[(np.abs(values) >= 2.0**52) | (np.rint(values * scale) / scale == values)] = places
    return decimals


def _bins(values: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """Return the bin of each number among :data:`NUMBER_EDGES`."""
    # 0 for zero itself, 1 for numbers between zero and the smallest edge, and so on to those beyond the last.
    size = np.where(values == 0, 0, np.searchsorted(_SIZES, np.abs(values), side="right"))
    return (_NUMBER_BINS // 2 + np.where(values < 0, -size, size)).astype(np.int64)
