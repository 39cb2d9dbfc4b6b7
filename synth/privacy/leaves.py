r"""The feature maps of one or a few columns: lookups, one-hots, Fourier features, the constant.

What a map says of itself is exactly what is summed: tables are clipped to norm 1 and truncated towards zero to a grid
when the map is made, so a sum over made rows and the noisy sum over private rows speak of the same numbers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from synth.errors import PrivacyError

__all__ = [
    "LEAF_BITS",
    "STEPS_PER_TURN",
    "WEIGHT_BITS",
    "Constant",
    "Fourier",
    "Lookup",
    "Matrix",
    "OneHot",
    "SyntheticCodes",
    "angle_steps",
    "check_dimension",
    "whole_numbers",
]

LEAF_BITS = 20
"""Entries of a table are multiples of 2^-20."""

WEIGHT_BITS = 24
"""Weights of a stack and the scale of a Fourier map are multiples of 2^-24."""

STEPS_PER_TURN = 4096
"""A Fourier angle is a whole number of these steps, so it is computed without rounding and in any order."""

MAXIMUM_DIMENSION = 2**28
MAXIMUM_ANGLE = 2**24

Matrix = NDArray[np.float64]
SyntheticCodes = Mapping[str, NDArray[Any]]
"""Codes of made rows, one 1-D array of integers per column."""


@dataclass(frozen=True, slots=True, eq=False)
class Lookup:
    """One column's code looked up in a table.

    Parameters
    ----------
    column : str
        Name of a modelled column.
    table : array of shape (n_bins, width), float64
        Feature vector of every bin. A row longer than 1 is shortened to norm 1; entries are truncated towards zero to
        multiples of 2^-20.
    bins : array of shape (column size,), int32, optional
        Bin of every code; absent, the code is the bin.

    Raises
    ------
    PrivacyError
        If the table holds a number that is not finite, or a bin has no row in it.

    Notes
    -----
    What a row adds is an entry of this table, in whole steps: a function of that row's code alone.
    """

    column: str
    table: NDArray[np.float64]
    bins: NDArray[np.int32] | None = None

    def __post_init__(self) -> None:
        table = np.array(self.table, dtype=np.float64, ndmin=2)
        if table.ndim != 2 or 0 in table.shape:
            raise PrivacyError(f"The table of '{self.column}' must have bins as rows and features as columns.")
        if not np.isfinite(table).all():
            raise PrivacyError(f"The table of '{self.column}' holds a number that is not finite; use finite numbers.")
        object.__setattr__(self, "table", _frozen(_clipped_to_grid(table)))
        if self.bins is not None:
            object.__setattr__(self, "bins", _checked_bins(self.column, self.bins, len(table)))

    @property
    def dimension(self) -> int:
        """Number of features."""
        return int(self.table.shape[1])

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the answer."""
        return (self.dimension,)

    def evaluate(self, codes: SyntheticCodes) -> Matrix:
        """Return the features of made rows, shape (n_rows, dimension)."""
        return np.asarray(self.table[_binned(codes[self.column], self.bins)])


@dataclass(frozen=True, slots=True, eq=False)
class OneHot:
    """The cell of a contingency table a row falls into: 1 there, 0 elsewhere.

    Parameters
    ----------
    columns : tuple of str
        One to three different modelled columns.
    bins : tuple of (array of shape (column size,), int32, or None)
        Bin of every code, by column; None where the code is the bin.
    sizes : tuple of int, optional
        Number of codes of each column; needed where a column has no bins.

    Raises
    ------
    PrivacyError
        If a column is named twice, or its number of codes is not known.

    Notes
    -----
    A row adds 1 to the cell of its own codes; cells are found and counted in integers.
    """

    columns: tuple[str, ...]
    bins: tuple[NDArray[np.int32] | None, ...]
    sizes: tuple[int, ...] = ()
    shape: tuple[int, ...] = field(init=False, repr=False)
    """Number of bins of each column, which is also the shape of the answer."""

    def __post_init__(self) -> None:
        columns, bins = tuple(self.columns), tuple(self.bins)
        if not 1 <= len(columns) <= 3 or len(set(columns)) != len(columns):
            raise PrivacyError(f"A table of counts needs one to three different columns, got {', '.join(columns)}.")
        sizes = tuple(self.sizes) or tuple(0 if one is None else len(one) for one in bins)
        if not len(columns) == len(sizes) == len(bins):
            raise PrivacyError("A table of counts needs one entry of 'bins' and one of 'sizes' for each column.")
        checked: list[NDArray[np.int32] | None] = []
        for column, size, one in zip(columns, sizes, bins, strict=True):
            if size < 1 or (one is not None and len(one) != size):
                raise PrivacyError(
                    f"'{column}': name the bin of every code in 'bins', or the number of codes in 'sizes'."
                )
            checked.append(None if one is None else _checked_bins(column, one, size))
        object.__setattr__(self, "columns", columns)
        object.__setattr__(self, "sizes", tuple(int(size) for size in sizes))
        object.__setattr__(self, "bins", tuple(checked))
        # Told once: a declared range has up to millions of places, and a schema thousands of ranges.
        shape = (size if one is None else int(one.max()) + 1 for size, one in zip(self.sizes, checked, strict=True))
        object.__setattr__(self, "shape", tuple(shape))
        check_dimension(self.dimension)

    @property
    def dimension(self) -> int:
        """Number of cells."""
        return math.prod(self.shape)

    def evaluate(self, codes: SyntheticCodes) -> Matrix:
        """Return the indicator of each made row's cell, shape (n_rows, dimension); last column fastest."""
        cells = [_binned(codes[column], one) for column, one in zip(self.columns, self.bins, strict=True)]
        flat = np.ravel_multi_index(cells, self.shape)
        features = np.zeros((len(flat), self.dimension))
        features[np.arange(len(flat)), flat] = 1.0
        return features


@dataclass(frozen=True, slots=True, eq=False)
class Fourier:
    r"""Cosines, then sines, of whole-number angles; norm 1 (Rahimi 2007; Vinaroz 2022, eq. 4).

    .. math:: \phi(x) = F^{-1/2} [\cos(2 \pi W p(x) / 4096), \sin(2 \pi W p(x) / 4096)]

    where p is ``positions`` (the place of each column's code), W is ``frequencies`` and F is the number of its rows.

    Parameters
    ----------
    columns : tuple of str
        Different modelled columns.
    positions : tuple of arrays of shape (column size,), int32
        Place of every code, by column; about 8 bits, for example 0 ... 255.
    frequencies : array of shape (n_frequencies, n_columns), int32
        Steps of 1/4096 turn per unit of position (``angle_steps`` makes them from radians).

    Notes
    -----
    The session adds cosines and sines that are rounded to about 2^-12; ``evaluate`` is exact to float64. The
    sensitivity is that of the rounded ones. They stand in a public table; a row's angles are whole numbers, so what it
    adds follows from its codes in integers alone.
    """

    columns: tuple[str, ...]
    positions: tuple[NDArray[np.int32], ...]
    frequencies: NDArray[np.int32]

    def __post_init__(self) -> None:
        columns = tuple(self.columns)
        positions = tuple(_frozen(whole_numbers("positions", one)) for one in self.positions)
        frequencies = _frozen(whole_numbers("frequencies", self.frequencies))
        if not columns or len(set(columns)) != len(columns):
            raise PrivacyError("A Fourier map needs at least one column, each named once.")
        if frequencies.ndim != 2 or frequencies.shape[0] < 1 or frequencies.shape[1] != len(columns):
            raise PrivacyError("A Fourier map needs frequencies with one row per frequency and one column per column.")
        if len(positions) != len(columns) or any(one.ndim != 1 or one.size == 0 for one in positions):
            raise PrivacyError("A Fourier map needs the place of every code, by column.")
        largest = np.array([np.abs(one.astype(np.int64)).max() for one in positions])
        if int((np.abs(frequencies.astype(np.int64)) @ largest).max()) >= MAXIMUM_ANGLE:
            raise PrivacyError(
                "The angles of a Fourier map can reach 2^24 steps and would be rounded; use fewer positions per "
                "column, or frequencies within half a turn per position."
            )
        object.__setattr__(self, "columns", columns)
        object.__setattr__(self, "positions", positions)
        object.__setattr__(self, "frequencies", frequencies)
        check_dimension(self.dimension)

    @property
    def dimension(self) -> int:
        """Number of features: two per frequency."""
        return 2 * int(self.frequencies.shape[0])

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the answer."""
        return (self.dimension,)

    @property
    def scale(self) -> float:
        """1 / sqrt(n_frequencies), rounded down to a multiple of 2^-24."""
        return math.floor(2.0**WEIGHT_BITS / math.sqrt(len(self.frequencies))) * 2.0**-WEIGHT_BITS

    def evaluate(self, codes: SyntheticCodes) -> Matrix:
        """Return the features of made rows, shape (n_rows, dimension)."""
        places = [one[codes[column]] for column, one in zip(self.columns, self.positions, strict=True)]
        steps = np.stack(places, axis=1).astype(np.int64) @ self.frequencies.T.astype(np.int64)
        angles = (2 * np.pi / STEPS_PER_TURN) * (steps % STEPS_PER_TURN)
        return np.concatenate([np.cos(angles), np.sin(angles)], axis=1) * self.scale


@dataclass(frozen=True, slots=True, eq=False)
class Constant:
    """The number 1 for every row, whatever it holds: its sum is the number of rows."""

    @property
    def dimension(self) -> int:
        """One feature."""
        return 1

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the answer."""
        return (1,)

    def evaluate(self, codes: SyntheticCodes) -> Matrix:
        """Return a column of ones, shape (n_rows, 1)."""
        return np.ones((len(next(iter(codes.values()))), 1))


def angle_steps(frequencies: ArrayLike) -> NDArray[np.int32]:
    """Round frequencies in radians per unit of position to whole steps of 1/4096 turn, within half a turn.

    Parameters
    ----------
    frequencies : array of shape (n_frequencies, n_columns), float64
        Radians by which the angle grows from one position to the next.

    Returns
    -------
    array of the same shape, int32, values in [-2048, 2047]
        Positions are whole numbers, so whole turns per position change nothing and are taken off.
    """
    steps = np.rint(np.asarray(frequencies, dtype=np.float64) * (STEPS_PER_TURN / (2 * np.pi)))
    half = STEPS_PER_TURN // 2
    return ((steps + half) % STEPS_PER_TURN - half).astype(np.int32)


def _clipped_to_grid(table: Matrix) -> Matrix:
    largest = np.maximum(np.abs(table).max(axis=1, keepdims=True), 1.0)
    scaled = table / largest  # so that no square overflows
    norms = np.maximum(np.linalg.norm(scaled, axis=1, keepdims=True), 1 / largest)
    whole = np.trunc(scaled / norms * 2.0**LEAF_BITS)
    # A squared norm above 1 would be above it by 2^-40, and float64 errs by 2^-52: no row ends up too long.
    return np.asarray(whole / 2**LEAF_BITS + 0.0)


def _checked_bins(column: str, bins: NDArray[Any], rows: int) -> NDArray[np.int32]:
    checked = whole_numbers("bins", bins)
    if checked.ndim != 1 or checked.size == 0 or int(checked.min()) < 0 or int(checked.max()) >= rows:
        raise PrivacyError(f"The bins of '{column}' must be whole numbers from 0 to {rows - 1}, one per code.")
    return _frozen(checked)


def whole_numbers(what: str, values: ArrayLike) -> NDArray[np.int32]:
    """Return a copy as int32, or refuse what is not whole or not below 2^31."""
    whole = np.array(values)
    if not np.issubdtype(whole.dtype, np.integer) or (whole.size and np.abs(whole.astype(np.int64)).max() >= 2**31):
        raise PrivacyError(f"The {what} of a feature map must be whole numbers below 2^31.")
    return whole.astype(np.int32)


def _frozen(array: NDArray[Any]) -> NDArray[Any]:
    array.flags.writeable = False
    return array


def _binned(codes: NDArray[Any], bins: NDArray[np.int32] | None) -> NDArray[Any]:
    return codes if bins is None else bins[codes]


def check_dimension(dimension: int) -> None:
    """Refuse an answer of more than 2^28 numbers."""
    if dimension > MAXIMUM_DIMENSION:
        raise PrivacyError(
            f"A question may have at most {MAXIMUM_DIMENSION:,} numbers in its answer, got {dimension:,}."
        )
