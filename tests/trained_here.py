"""Trainings on samples: what learns from the steps, samples that a test chooses, and what a step should add."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction

import numpy as np
from critics_by_hand import unit_by_hand
from numpy.typing import NDArray

from synth.privacy.more.sampled_gradients import SampledGradients

__all__ = ["ChosenSamples", "Walk", "step_by_hand"]


class Walk:
    """Weights that begin somewhere and follow the noisy steps; everything it was told is written down.

    Parameters
    ----------
    weights : array
        Where the first step is taken.
    rate : float
        How far it follows.
    stops : int, optional
        Before which step it raises.
    """

    def __init__(self, weights: NDArray[np.float64], *, rate: float = 0.02, stops: int | None = None) -> None:
        self._weights, self._rate, self._stops = weights.copy(), rate, stops
        self.points: list[NDArray[np.float64]] = []
        self.told: list[NDArray[np.float64]] = []

    @property
    def taken(self) -> int:
        return len(self.told)

    def at(self) -> NDArray[np.float64]:
        self.points.append(self._weights.copy())
        return self._weights

    def move(self, step: NDArray[np.float64]) -> None:
        if self.taken == self._stops:
            raise KeyboardInterrupt
        self.told.append(step.copy())
        self._weights = self._weights - self._rate * step


class ChosenSamples:
    """Samples that a test chooses, and no noise: NOT PRIVATE.

    Parameters
    ----------
    chosen : callable
        Takes the number of a step and of things; returns which are drawn, in order.
    """

    private = False

    def __init__(self, chosen: Callable[[int, int], Sequence[int]]) -> None:
        self._chosen = chosen
        self.asked: list[tuple[int, int]] = []

    def sample(self, size: int, *, rate: int) -> NDArray[np.int64]:
        self.asked.append((size, rate))
        return np.array(self._chosen(len(self.asked) - 1, size), dtype=np.int64)

    def gaussian(self, variance: int, size: int) -> NDArray[np.int64]:
        return np.zeros(size, dtype=np.int64)


def step_by_hand(
    question: SampledGradients,
    weights: Sequence[float],
    units: Sequence[Sequence[Mapping[str, int]]],
    *,
    several: bool,
) -> list[int]:
    """What the units of a sample add at these weights, each a list of rows, in steps of 2^-24 of the clip norm."""
    total = [0] * question.dimension
    for rows in units:
        read = [
            [
                math.trunc(Fraction(entry) * 2**16)
                for one in question.tables
                for entry in one.table[row[one.column] if one.bins is None else int(one.bins[row[one.column]])].tolist()
            ]
            for row in rows
        ]
        own = unit_by_hand(question.critic, weights, read, question.loss, clip=question.clip, several=several)
        total = [entry + more for entry, more in zip(total, own, strict=True)]
    return total
