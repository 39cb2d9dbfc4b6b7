r"""Critics: networks that score rows, and what a row adds to the gradient of their loss, in whole numbers.

A critic is a network of fully connected layers with a leaky rectifier between them. A row's numbers are looked up in
public tables; from there on every number of a layer is a whole multiple of a power of 2 and every sum of products stays
below 2^53, which float64 holds in any order. So what a row adds follows from that row and the public parameters, to the
last bit, whatever the other rows of the batch are, how they are arranged, and which device adds up.

The gradient in the weights of a layer is the product of two vectors, the slopes of the layer's outputs and its inputs.
Its length is the product of theirs, so all of a row's gradient can be shortened before it is ever written out, and the
shortened gradients of a batch are added up by one product of matrices (Goodfellow 2015).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from synth.errors import PrivacyError
from synth.privacy.more.gradients import logistic_of
from synth.privacy.more.row_moments import MARGIN

if TYPE_CHECKING:
    from torch import Tensor

__all__ = [
    "CRITIC_LOSSES",
    "Critic",
    "CriticLoss",
    "Layers",
    "RowTerms",
    "rounded_lengths",
    "row_terms",
    "sum_of_terms",
    "whole_weights",
]

CriticLoss = Literal["logistic", "wasserstein"]
CRITIC_LOSSES: tuple[CriticLoss, ...] = get_args(CriticLoss)
"""Of a private row with score s: minus the logarithm of the logistic function of s (Goodfellow 2014); -s (Arjovsky
2017)."""

NUMBER_BITS = 16
"""Weights and a layer's numbers are whole multiples of 2^-16."""

SLOPE_BITS = 24
"""Slopes are whole multiples of 2^-24."""

LARGEST_WEIGHT = 8.0
LARGEST_NUMBER = 16.0
LARGEST_SLOPE = 4.0
"""What is larger is cut off: weights before they are used, numbers and slopes on the way."""

LEAK = 0.25
"""Slope of the rectifier below 0; a power of 2."""

WIDEST = 128
"""Most outputs of a hidden layer: with this many, no sum of products exceeds 2^53."""

MOST_INPUTS = 2**14
MOST_LAYERS = 4

KEPT_SLOPE_BITS, KEPT_NUMBER_BITS = 14, 10
"""Of a shortened slope and of a number it is multiplied by: products are whole multiples of 2^-24 of the clip norm."""

LENGTH_BITS = 20
"""Lengths of several rows of a unit are rounded up to multiples of 2^-20 before they are added up."""


@dataclass(frozen=True, slots=True)
class Critic:
    """The shape of a critic.

    Parameters
    ----------
    inputs : int
        Numbers of a row.
    hidden : tuple of int
        Outputs of the hidden layers, from 1 to 128 each; one to four of them.

    Raises
    ------
    PrivacyError
        If a size is out of range.
    """

    inputs: int
    hidden: tuple[int, ...]

    def __post_init__(self) -> None:
        if not 1 <= self.inputs <= MOST_INPUTS:
            raise PrivacyError(
                f"A critic reads at least 1 and at most {MOST_INPUTS:,} numbers of a row, got {self.inputs:,}."
            )
        if not 1 <= len(self.hidden) <= MOST_LAYERS or not all(1 <= width <= WIDEST for width in self.hidden):
            raise PrivacyError(f"A critic has 1 to {MOST_LAYERS} hidden layers of 1 to {WIDEST} numbers each.")

    @property
    def shapes(self) -> tuple[tuple[int, int], ...]:
        """Outputs and inputs of every layer; the last has one output, the score."""
        widths = (self.inputs, *self.hidden, 1)
        return tuple((out, into) for into, out in pairwise(widths))

    @property
    def size(self) -> int:
        """Number of weights: layer by layer a matrix, row by row, then a constant for each output."""
        return sum(out * (into + 1) for out, into in self.shapes)

    def layers(self, weights: Tensor) -> Layers:
        """Return the matrices and constants of all layers, shapes (outputs, inputs) and (outputs, 1), as views."""
        found, start = [], 0
        for out, into in self.shapes:
            end = start + out * into
            found.append((weights[start:end].view(out, into), weights[end : end + out].view(out, 1)))
            start = end + out
        return found


Layers = Sequence[tuple["Tensor", "Tensor"]]


def whole_weights(critic: Critic, weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return weights in whole steps of 2^-16, those that are too large cut off.

    Raises
    ------
    PrivacyError
        If there are too few or too many, or one is not a number.
    """
    given = np.asarray(weights, dtype=np.float64)
    if given.shape != (critic.size,) or np.isnan(given).any():
        raise PrivacyError(f"This critic has {critic.size:,} weights, all of them numbers.")
    return np.asarray(np.rint(np.clip(given, -LARGEST_WEIGHT, LARGEST_WEIGHT) * 2.0**NUMBER_BITS) + 0.0)


@dataclass(frozen=True, slots=True, eq=False)
class RowTerms:
    """The gradient of every row, layer by layer, as pairs of vectors.

    Attributes
    ----------
    numbers : tuple of Tensor of shape (inputs, n_rows), float64
        What each layer reads, in steps of 2^-16.
    slopes : tuple of Tensor of shape (outputs, n_rows), float64
        Slopes of the loss in each layer's outputs, in steps of 2^-24.
    """

    numbers: tuple[Tensor, ...]
    slopes: tuple[Tensor, ...]

    def lengths(self) -> NDArray[np.float64]:
        """Return the length of every row's gradient, shape (n_rows,); a row's from that row alone, to the last bit."""
        squares = self.slopes[0].new_zeros(self.slopes[0].shape[1])
        for numbers, slopes in zip(self.numbers, self.slopes, strict=True):
            of_numbers = _squares(numbers.mul(2.0**-NUMBER_BITS))
            squares += _squares(slopes.mul(2.0**-SLOPE_BITS)) * (of_numbers + 1.0)
        # By numpy, whose roots are rounded as IEEE arithmetic says on every machine.
        return np.asarray(np.sqrt(squares.cpu().numpy()))


def row_terms(critic: Critic, whole: Tensor, rows: Tensor, loss: CriticLoss) -> RowTerms:
    """Return the gradient of the loss of every private row in the weights.

    Parameters
    ----------
    critic : Critic
    whole : Tensor of shape (critic.size,), float64
        Weights in steps of 2^-16, at most 8.
    rows : Tensor of shape (critic.inputs, n_rows), float64
        Numbers of the rows in steps of 2^-16, at most 1.
    loss : {"logistic", "wasserstein"}
    """
    import torch

    layers = critic.layers(whole)
    numbers, leaks = [rows], []
    for place, (matrix, constant) in enumerate(layers):
        # Whole products of 2^19 and 2^20, 2^14 and 2^16, or fewer: their sums stay below 2^50.
        sums = torch.addmm(constant * 2.0**NUMBER_BITS, matrix, numbers[-1])
        sums = sums.mul_(2.0**-NUMBER_BITS).trunc_()
        if place == len(layers) - 1:
            scores = sums
            break
        leak = torch.where(sums > 0, 1.0, LEAK)
        sums = sums.mul_(leak).trunc_()
        largest = LARGEST_NUMBER * 2.0**NUMBER_BITS
        leaks.append(leak.mul_(sums.abs() <= largest))
        numbers.append(sums.clamp_(-largest, largest))
    slope = _slopes(scores, loss)
    slopes = [slope]
    largest = LARGEST_SLOPE * 2.0**SLOPE_BITS
    for (matrix, _), leak in zip(reversed(layers[1:]), reversed(leaks), strict=True):
        # Whole products of 2^19 and 2^26 of at most 128 outputs: their sums are at most 2^52.
        slope = (matrix.T @ slope).mul_(2.0**-NUMBER_BITS).trunc_()
        slope = slope.mul_(leak).trunc_().clamp_(-largest, largest)
        slopes.append(slope)
    return RowTerms(tuple(numbers), tuple(reversed(slopes)))


def sum_of_terms(terms: RowTerms, lengths: NDArray[np.float64], *, clip: float) -> NDArray[np.int64]:
    """Shorten the gradients of rows and add them up, exactly.

    Parameters
    ----------
    terms : RowTerms
    lengths : array of shape (n_rows,)
        Of the gradient of every row's unit; what is longer than ``clip`` is shortened to it.
    clip : float

    Returns
    -------
    array of shape (critic.size,), int64
        The sum in steps of 2^-24 of the clip norm.
    """
    import torch

    factors = torch.from_numpy(MARGIN / np.maximum(lengths, clip)).to(terms.slopes[0].device)
    found = []
    for numbers, slopes in zip(terms.numbers, terms.slopes, strict=True):
        # Truncated, so no vector gets longer. Products are at most 2^28, so 2^25 rows can be added up.
        kept = slopes.mul(2.0 ** (KEPT_SLOPE_BITS - SLOPE_BITS)).mul_(factors).trunc_()
        read = numbers.mul(2.0 ** (KEPT_NUMBER_BITS - NUMBER_BITS)).trunc_()
        found += [(kept @ read.T).flatten(), kept.sum(dim=1).mul_(2.0**KEPT_NUMBER_BITS)]
    return torch.cat(found).cpu().numpy().astype(np.int64)


def rounded_lengths(lengths: NDArray[np.float64], starts: NDArray[np.int64]) -> NDArray[np.float64]:
    """Add up the lengths of adjacent rows of each unit; never less than their exact sum, the same in any order.

    Parameters
    ----------
    lengths : array of shape (n_rows,)
    starts : array of shape (n_units,)
        First row of each unit.

    Returns
    -------
    array of shape (n_units,)
    """
    whole = np.ceil(lengths * (2.0**LENGTH_BITS / MARGIN)).astype(np.int64)
    return np.asarray(np.add.reduceat(whole, starts) * 2.0**-LENGTH_BITS)


def _slopes(scores: Tensor, loss: CriticLoss) -> Tensor:
    """Return the slope of the loss in the score, in steps of 2^-24; scores in steps of 2^-16, shape (1, n_rows)."""
    if loss == "wasserstein":
        return scores.new_full(scores.shape, -(2.0**SLOPE_BITS))
    shift = 2.0 ** (SLOPE_BITS - NUMBER_BITS)
    return logistic_of(scores, bits=NUMBER_BITS).sub_(2.0**NUMBER_BITS).mul_(shift)


def _squares(columns: Tensor) -> Tensor:
    """Return the squared length of every column, in one order of additions whatever the number of columns."""
    squares = columns.square()
    while len(squares) > 1:
        half = math.ceil(len(squares) / 2)
        left = squares[:half].clone()
        left[: len(squares) - half] += squares[half:]
        squares = left
    return squares[0]
