r"""Sums of Fourier features as whole numbers: the same for every order of rows, on every device.

Angles are whole numbers of 1/4096 turn below 2^24, so a float32 matrix product gives them exactly in any order.
Cosine and sine are polynomials evaluated with single multiplications and additions, which IEEE arithmetic defines to
the last bit, and are then rounded to whole multiples of 2^-12. Up to 4096 of those add up exactly in float32; blocks
are added in float64.
"""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from synth.privacy.leaves import STEPS_PER_TURN

__all__ = ["VALUE_BITS", "add_rows", "longest_pair", "step_values"]

VALUE_BITS = 12
"""Cosines and sines are whole multiples of 2^-12."""

# Chebyshev interpolants, in u = t^2 with |t| <= 1/2, of 4096 cos(2 pi t) and 4096 sin(2 pi t) / t; highest power first.
# They err by less than 0.2 where 1 is the step that is rounded to. Written out, so that every machine uses the same.
COSINE = (186759.359375, -337420.4375, 264886.03125, -80817.53125, 4095.828857421875)
SINE = (137362.25, -306803.03125, 333605.75, -169315.453125, 25735.826171875)

BLOCK_FREQUENCIES = 5120
BLOCK_VALUES = {"cpu": 2**19, "cuda": 2**25}
"""Angles worked on at a time: few enough for a core's caches, enough that the time goes into arithmetic."""

EXACT_ROWS = 4096
"""Rows whose values float32 adds up exactly: 2^12 rows of at most 2^12 steps."""


def add_rows(positions: Tensor, frequencies: NDArray[np.int32], *, block_rows: int | None = None) -> NDArray[np.int64]:
    """Add up the rounded cosines and sines of rows.

    Parameters
    ----------
    positions : Tensor of shape (n_rows, n_columns), float32
        Whole numbers, on the device that is to do the work.
    frequencies : array of shape (n_frequencies, n_columns), int32
        Steps of 1/4096 turn per unit of position; every angle stays below 2^24 steps.
    block_rows : int, optional
        Rows worked on at a time, at most 4096; the result does not depend on it.

    Returns
    -------
    array of shape (2, n_frequencies), int64
        Sums of cosines and of sines, in multiples of 2^-12.
    """
    if block_rows is None:
        values = BLOCK_VALUES[positions.device.type] // min(len(frequencies), BLOCK_FREQUENCIES)
        block_rows = min(EXACT_ROWS, 1 << (values.bit_length() - 1))
    # Turns instead of steps: scaling by 2^-12 changes no digit.
    turns = torch.from_numpy(frequencies.T.astype(np.float32)).to(positions.device) / STEPS_PER_TURN
    with _full_precision():
        parts = [
            _add_block(positions, part.contiguous(), block_rows)
            for part in torch.split(turns, BLOCK_FREQUENCIES, dim=1)
        ]
    return np.concatenate(parts, axis=1)


def _add_block(positions: Tensor, turns: Tensor, block_rows: int) -> NDArray[np.int64]:
    device = positions.device
    ones = torch.ones(1, block_rows, device=device)
    work = torch.empty(3, block_rows, turns.shape[1], device=device)
    sums = np.zeros((2, turns.shape[1]), dtype=np.int64)
    for some in torch.split(positions, EXACT_ROWS):
        held = torch.zeros(2, 1, turns.shape[1], device=device)
        cosines, sines = held
        for rows in torch.split(some, block_rows):
            angles, squares, values = work[:, : len(rows)]
            torch.mm(rows, turns, out=angles)
            _to_half_turns(angles, values)
            torch.mul(angles, angles, out=squares)
            cosines.addmm_(ones[:, : len(rows)], _polynomial(COSINE, squares, values).round_())
            sines.addmm_(ones[:, : len(rows)], _polynomial(SINE, squares, values).mul_(angles).round_())
        sums += held[:, 0].cpu().numpy().astype(np.int64)
    return sums


@contextlib.contextmanager
def _full_precision() -> Iterator[None]:
    """Keep matrix products in float32: reduced precision, allowed anywhere in the process, would round the angles."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        with torch.autocast("cuda", enabled=False), torch.autocast("cpu", enabled=False):
            yield
    finally:
        torch.set_float32_matmul_precision(before)


@functools.cache
def step_values() -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the rounded cosine and sine of every angle, each of shape (4096,), in multiples of 2^-12."""
    steps = torch.arange(STEPS_PER_TURN, dtype=torch.float32) / STEPS_PER_TURN
    squares, values = torch.empty_like(steps), torch.empty_like(steps)
    _to_half_turns(steps, values)
    torch.mul(steps, steps, out=squares)
    cosines = _polynomial(COSINE, squares, values).round().numpy().astype(np.int64)
    sines = _polynomial(SINE, squares, values).mul_(steps).round().numpy().astype(np.int64)
    return cosines, sines


@functools.cache
def longest_pair() -> float:
    """Return the largest norm of a rounded cosine and sine of one angle; a little more than 1."""
    cosines, sines = step_values()
    return math.sqrt(float((cosines**2 + sines**2).max())) * 2.0**-VALUE_BITS


def _to_half_turns(turns: Tensor, scratch: Tensor) -> None:
    """Take off whole turns, leaving -1/2 ... 1/2; exact."""
    torch.round(turns, out=scratch)
    turns.sub_(scratch)


def _polynomial(coefficients: tuple[float, ...], squares: Tensor, out: Tensor) -> Tensor:
    """Evaluate by Horner's rule, one IEEE operation at a time, so that no device can fuse or reorder them."""
    torch.mul(squares, coefficients[0], out=out)
    for coefficient in coefficients[1:-1]:
        out.add_(coefficient).mul_(squares)
    return out.add_(coefficients[-1])
