r"""Fourier features, whose sums are whole numbers: the same for every order of rows, beside any others, on any device.

Cosines and sines are looked up, never computed from a row: an angle is a whole number of 1/4096 turn, and a public
table holds the cosine and the sine of each of the 4096 steps, rounded to whole multiples of 2^-12. Only whole-number
arithmetic is done with a row. Its angles are sums of products below 2^24, which a float64 matrix product gives
exactly in any order of additions; whole turns are taken off by a mask of bits; what is looked up is added in int64. So
a row contributes the same whole numbers in any block, at any place, and no setting of the process for reduced precision
(TF32, bfloat16, autocast) touches it, as none applies to float64.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from synth.errors import PrivacyError
from synth.privacy.bins import Bins
from synth.privacy.costs import Bound
from synth.privacy.counting import ColumnOf, PrivateRows, rows_by_cell
from synth.privacy.feature_maps import (
    WEIGHT_BITS,
    Arrays,
    Cells,
    ColumnMap,
    Inner,
    Matrix,
    Sums,
    SyntheticCodes,
    check_dimension,
    kept,
    kept_whole_numbers,
    whole_numbers,
)
from synth.system.machine import core_cache_bytes

if TYPE_CHECKING:
    from torch import Tensor

__all__ = [
    "STEPS_PER_TURN",
    "VALUE_BITS",
    "Fourier",
    "Positions",
    "add_rows",
    "angle_steps",
    "angles_at_a_time",
    "longest_pair",
    "step_values",
    "waves_of_rows",
    "whole_waves",
]

STEPS_PER_TURN = 4096
"""A Fourier angle is a whole number of these steps, so it is computed without rounding and in any order."""

MAXIMUM_ANGLE = 2**24

VALUE_BITS = 12
"""Cosines and sines are whole multiples of 2^-12."""

# Chebyshev interpolants, in u = t^2 with |t| <= 1/2, of 4096 cos(2 pi t) and 4096 sin(2 pi t) / t; highest power first.
# Their error is below 0.2 of the step that is rounded to. Written out, so that every machine uses the same.
COSINE = (186759.359375, -337420.4375, 264886.03125, -80817.53125, 4095.828857421875)
SINE = (137362.25, -306803.03125, 333605.75, -169315.453125, 25735.826171875)

BLOCK_FREQUENCIES = 1024
ANGLES_ON_CARD = 2**24
"""Angles worked on at a time on a card."""

SINE_BITS = 32
"""A cosine and a sine are added up as one int64: the sine in so many low bits, the cosine above."""

HELD_ROWS = 2**18
"""Rows added up in this form: their sines stay below 2^30 in absolute value, their shifted cosines below 2^62."""

ROWS_AT_A_TIME = 2**14
"""Rows whose positions are held as float64 at a time."""


@dataclass(frozen=True, slots=True, eq=False)
class Positions:
    """The place of every code of a column, a whole number.

    Attributes
    ----------
    bins : Bins
        The codes with each place.
    values : array of shape (bins,), int32
        The places, ascending.

    Raises
    ------
    PrivacyError
        If places are not whole numbers below 2^31, are not ascending, or belong to no code.
    """

    bins: Bins
    values: NDArray[np.int32]

    def __post_init__(self) -> None:
        values = kept_whole_numbers("positions", self.values)
        if values.ndim != 1 or (np.diff(values.astype(np.int64)) <= 0).any() or len(self.bins.used) != len(values):
            raise PrivacyError("The positions of a Fourier map must be ascending, each with a code.")
        if self.bins.count != len(values):
            raise PrivacyError("A Fourier map needs the place of every code, by column.")
        object.__setattr__(self, "values", values)

    @classmethod
    def of_codes(cls, places: ArrayLike) -> Self:
        """Return the positions that list the place of every code, shape (codes,)."""
        each = whole_numbers("positions", places)
        if each.ndim != 1 or not each.size:
            raise PrivacyError("A Fourier map needs the place of every code, by column.")
        values, bins = np.unique(each, return_inverse=True)
        return cls(Bins.of_codes(bins), values)

    @classmethod
    def of_runs(cls, places: ArrayLike, widths: ArrayLike) -> Self:
        """Return the positions of runs of codes; both arrays have the same shape."""
        values, bins = np.unique(whole_numbers("positions", places), return_inverse=True)
        return cls(Bins.of_runs(bins, widths), values)

    def __getitem__(self, codes: NDArray[np.integer[Any]] | int, /) -> NDArray[np.int32]:
        """Return the place of each code."""
        return np.asarray(self.values[self.bins[codes]])


@dataclass(frozen=True, slots=True, eq=False)
class Fourier(ColumnMap):
    r"""Cosines, then sines, of whole-number angles; norm 1 (Rahimi 2007; Vinaroz 2022, eq. 4).

    .. math:: \phi(x) = F^{-1/2} [\cos(2 \pi W p(x) / 4096), \sin(2 \pi W p(x) / 4096)]

    where p is ``positions`` (the place of each column's code), W is ``frequencies`` and F is the number of its rows.

    Parameters
    ----------
    columns : tuple of str
        Different modelled columns.
    positions : tuple of Positions
        Place of every code, by column; about 8 bits, for example 0 ... 255. An array of shape (column size,) is taken
        as the places that it lists.
    frequencies : array of shape (n_frequencies, n_columns), int32
        Steps of 1/4096 turn per unit of position (``angle_steps`` makes them from radians).

    Notes
    -----
    The session adds cosines and sines that are rounded to about 2^-12; ``evaluate`` is exact to float64. The
    sensitivity is that of the rounded ones. They are in a public table; a row's angles are whole numbers, so what it
    adds follows from its codes in integers alone.
    """

    kind: ClassVar[str] = "fourier"
    is_exact: ClassVar[bool] = False
    alone: ClassVar[str] = "A Fourier map can be multiplied by tables of counts only; use one per product."

    columns: tuple[str, ...] = field()
    positions: tuple[Positions, ...]
    frequencies: NDArray[np.int32]

    def __post_init__(self) -> None:
        columns = tuple(self.columns)
        positions = tuple(one if isinstance(one, Positions) else Positions.of_codes(one) for one in self.positions)
        frequencies = kept_whole_numbers("frequencies", self.frequencies)
        if not columns or len(set(columns)) != len(columns):
            raise PrivacyError("A Fourier map needs at least one column, each named once.")
        if frequencies.ndim != 2 or frequencies.shape[0] < 1 or frequencies.shape[1] != len(columns):
            raise PrivacyError("A Fourier map needs frequencies with one row per frequency and one column per column.")
        if len(positions) != len(columns):
            raise PrivacyError("A Fourier map needs the place of every code, by column.")
        largest = np.array([int(np.abs(one.values.astype(np.int64)).max()) for one in positions])
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
    def code_sizes(self) -> tuple[tuple[str, int], ...]:
        """Its columns, with the number of codes of each."""
        return tuple((column, places.bins.size) for column, places in zip(self.columns, self.positions, strict=True))

    @property
    def scale(self) -> float:
        """1 / sqrt(n_frequencies), rounded down to a multiple of 2^-24."""
        return math.floor(2.0**WEIGHT_BITS / math.sqrt(len(self.frequencies))) * 2.0**-WEIGHT_BITS

    def weighted_bound(self, weight: float, half_bits: int) -> Bound:
        """Return the length of the rounded features, and twice that: two rows may lie opposite one another."""
        norm = weight * (self.scale * math.sqrt(len(self.frequencies)) * longest_pair())
        return Bound(norm, 2 * norm)

    def sums_by_cell(self, weight: float, rows: PrivateRows, cells: Cells, *, half_bits: int, device: str) -> Sums:
        """Add rounded cosines and sines up by cell."""
        import torch  # here and below, so that checking questions needs no torch

        sums = np.zeros((math.prod(axis.size for axis in cells), self.dimension), dtype=np.int64)
        for cell, places in rows_by_cell(rows, cells):
            codes = [rows.column(name)[places] for name in self.columns]
            for start in range(0, len(codes[0]), ROWS_AT_A_TIME):
                some = slice(start, start + ROWS_AT_A_TIME)
                block = [own[column[some]] for own, column in zip(self.positions, codes, strict=True)]
                positions = torch.from_numpy(np.stack(block, axis=1).astype(np.float64)).to(device)
                sums[cell] += add_rows(positions, self.frequencies).reshape(-1)
        return sums * math.floor(weight * self.scale * 2.0 ** (2 * half_bits - VALUE_BITS))

    def evaluate(self, codes: SyntheticCodes) -> Matrix:
        """Return the features of synthetic rows, shape (n_rows, dimension)."""
        places = [one[codes[column]] for column, one in zip(self.columns, self.positions, strict=True)]
        steps = np.stack(places, axis=1).astype(np.int64) @ self.frequencies.T.astype(np.int64)
        angles = (2 * np.pi / STEPS_PER_TURN) * (steps % STEPS_PER_TURN)
        return np.concatenate([np.cos(angles), np.sin(angles)], axis=1) * self.scale

    def to_json(self, name: str, arrays: Arrays) -> dict[str, Any]:
        """Return columns, positions and frequencies."""
        return {
            "kind": self.kind,
            "columns": list(self.columns),
            "positions": [
                {
                    "bins": one.bins.to_json(f"{name}.positions.{place}.bins", arrays),
                    "values": kept(arrays, f"{name}.positions.{place}.values", one.values),
                }
                for place, one in enumerate(self.positions)
            ],
            "frequencies": kept(arrays, f"{name}.frequencies", self.frequencies),
        }

    @classmethod
    def from_json(cls, said: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], inner: Inner) -> Self:
        """Make the map of columns, positions and frequencies."""
        positions = tuple(
            Positions(Bins.from_json(one["bins"], arrays), arrays[one["values"]]) for one in said["positions"]
        )
        return cls(tuple(said["columns"]), positions, arrays[said["frequencies"]])


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


def angles_at_a_time(device: str) -> int:
    """Return how many angles are worked on at a time: few enough for a core's own cache, and no bit depends on it.

    An angle takes 20 bytes on its way; from 2^14 on the time goes into arithmetic.
    """
    if device != "cpu":
        return ANGLES_ON_CARD
    return min(max(2**14, 1 << (core_cache_bytes() // 16).bit_length() - 1), 2**18)


def add_rows(positions: Tensor, frequencies: NDArray[np.int32], *, block_rows: int | None = None) -> NDArray[np.int64]:
    """Add up the rounded cosines and sines of rows.

    Parameters
    ----------
    positions : Tensor of shape (n_rows, n_columns), float64
        Whole numbers, on the device that is to do the work.
    frequencies : array of shape (n_frequencies, n_columns), int32
        Steps of 1/4096 turn per unit of position; every angle stays below 2^24 steps.
    block_rows : int, optional
        Rows worked on at a time; the result does not depend on it.

    Returns
    -------
    array of shape (2, n_frequencies), int64
        Sums of cosines and of sines, in multiples of 2^-12.
    """
    import torch

    device = positions.device
    if block_rows is None:
        block_rows = max(1, angles_at_a_time(device.type) // min(len(frequencies), BLOCK_FREQUENCIES))
    cosines, sines = step_values()
    values = torch.from_numpy((cosines << SINE_BITS) + sines).to(device)
    sums = np.zeros((2, len(frequencies)), dtype=np.int64)
    for start in range(0, len(frequencies), BLOCK_FREQUENCIES):
        some = slice(start, start + BLOCK_FREQUENCIES)
        steps = torch.from_numpy(frequencies[some].T.astype(np.float64)).to(device)
        for rows in torch.split(positions, HELD_ROWS):
            sums[:, some] += _apart(_add_block(rows, steps, values, block_rows))
    return sums


def _add_block(positions: Tensor, steps: Tensor, values: Tensor, block_rows: int) -> NDArray[np.int64]:
    """Return the sums over at most ``HELD_ROWS`` rows of what the table holds for their angles."""
    import torch

    width, device = steps.shape[1], positions.device
    block_rows = min(block_rows, len(positions)) or 1
    angles = torch.empty(block_rows, width, dtype=torch.float64, device=device)
    whole = torch.empty(block_rows * width, dtype=torch.int32, device=device)
    found = torch.empty(block_rows * width, dtype=torch.int64, device=device)
    sums = torch.zeros(width, dtype=torch.int64, device=device)
    for rows in torch.split(positions, block_rows):
        size = len(rows) * width
        torch.mm(rows, steps, out=angles[: len(rows)])
        # Of a negative number of steps too the mask leaves the step within a turn.
        whole[:size].copy_(angles.view(-1)[:size]).bitwise_and_(STEPS_PER_TURN - 1)
        torch.index_select(values, 0, whole[:size], out=found[:size])
        sums += found[:size].view(len(rows), width).sum(dim=0)
    return np.asarray(sums.cpu().numpy())


def _apart(sums: NDArray[np.int64]) -> NDArray[np.int64]:
    """Separate the sums of cosines and of sines again; shape (2, n)."""
    half = 1 << (SINE_BITS - 1)
    sines = ((sums + half) & (2 * half - 1)) - half
    return np.stack([(sums - sines) >> SINE_BITS, sines])


def whole_waves(scale: float, bits: int) -> NDArray[np.float64]:
    """Return cosine and sine of every step of an angle, times ``scale``, in whole steps of 2^-bits; shape (4096, 2)."""
    return np.asarray(np.trunc(np.stack(step_values(), axis=1) * (scale * 2.0**bits / 2.0**VALUE_BITS)))


def waves_of_rows(fourier: Fourier, values: NDArray[np.float64], column: ColumnOf, device: str) -> Tensor:
    """Look up the waves of rows.

    Parameters
    ----------
    fourier : Fourier
    values : array of shape (4096, 2)
        Cosine and sine of every step: :func:`whole_waves`.
    column : callable
        Returns the codes of rows by column.
    device : str
        "cpu" or "cuda"; changes no bit.

    Returns
    -------
    Tensor of shape (dimension, n_rows), float64
        All cosines, then all sines.
    """
    import torch

    places = [table[column(name)] for name, table in zip(fourier.columns, fourier.positions, strict=True)]
    positions = torch.from_numpy(np.stack(places).astype(np.float64)).to(device)
    frequencies = torch.from_numpy(fourier.frequencies.astype(np.float64)).to(device)
    # Whole numbers below 2^24; of a negative number of steps too the mask leaves the step within a turn.
    angles = torch.mm(frequencies, positions).to(torch.int32).bitwise_and_(STEPS_PER_TURN - 1)
    waves = torch.from_numpy(np.ascontiguousarray(values.T)).to(device)
    return torch.cat([torch.index_select(wave, 0, angles.view(-1)).view(angles.shape) for wave in waves])


@functools.cache
def step_values() -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the rounded cosine and sine of every angle, each of shape (4096,), in multiples of 2^-12.

    Public numbers. They are polynomials evaluated in float32, one IEEE operation at a time, so every machine has the
    same; an angle of more than half a turn is taken as the negative one it equals.
    """
    turns = np.arange(STEPS_PER_TURN, dtype=np.float32) / np.float32(STEPS_PER_TURN)
    turns -= np.rint(turns)
    squares = turns * turns
    cosines, sines = _polynomial(COSINE, squares), _polynomial(SINE, squares) * turns
    return np.rint(cosines).astype(np.int64), np.rint(sines).astype(np.int64)


@functools.cache
def longest_pair() -> float:
    """Return the largest norm of a rounded cosine and sine of one angle; a little more than 1."""
    cosines, sines = step_values()
    return math.sqrt(float((cosines**2 + sines**2).max())) * 2.0**-VALUE_BITS


def _polynomial(coefficients: tuple[float, ...], squares: NDArray[np.float32]) -> NDArray[np.float32]:
    """Evaluate by Horner's rule."""
    found = squares * np.float32(coefficients[0])
    for coefficient in coefficients[1:-1]:
        found = (found + np.float32(coefficient)) * squares
    return np.asarray(found + np.float32(coefficients[-1]))
