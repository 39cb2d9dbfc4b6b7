r"""Sums of Fourier features as whole numbers: the same for every order of rows, beside any rows, on every device.

Cosines and sines are looked up, never computed from a row: an angle is a whole number of 1/4096 turn, and a public
table holds the cosine and the sine of each of the 4096 steps, rounded to whole multiples of 2^-12. What is done with a
row is whole-number arithmetic alone. Its angles are sums of products below 2^24, which a float64 matrix product gives
exactly in any order of additions; whole turns are taken off by a mask of bits; what is looked up is added in int64. So
a row contributes the same whole numbers in any block, at any place, and no setting of the process for reduced precision
(TF32, bfloat16, autocast) touches it, as none applies to float64.
"""

from __future__ import annotations

import functools
import math

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

BLOCK_FREQUENCIES = 1024
BLOCK_VALUES = {"cpu": 2**18, "cuda": 2**24}
"""Angles worked on at a time: few enough for a core's caches, enough that the time goes into arithmetic."""

SINE_BITS = 32
"""A cosine and a sine are added up as one int64: the sine in so many low bits, the cosine above."""

HELD_ROWS = 2**18
"""Rows added up so: their sines stay below 2^30 in absolute value, their cosines below 2^62 where they stand."""


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
    device = positions.device
    if block_rows is None:
        block_rows = max(1, BLOCK_VALUES[device.type] // min(len(frequencies), BLOCK_FREQUENCIES))
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
    """Take sums of cosines and of sines apart again; shape (2, n)."""
    half = 1 << (SINE_BITS - 1)
    sines = ((sums + half) & (2 * half - 1)) - half
    return np.stack([(sums - sines) >> SINE_BITS, sines])


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
