"""One question about many tables: how the norm is shared among columns, and what each table was answered."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from synth.privacy.answers import NoisyAnswer
from synth.privacy.feature_maps import Stack
from synth.schema import ModelledColumn, Weight

__all__ = ["answers_of_parts", "column_weights"]

_IMPORTANCE = {Weight.LOW: 0.5, Weight.NORMAL: 1.0, Weight.HIGH: 2.0}
"""Relative part of a shared question's squared norm that a column gets."""


def column_weights(columns: tuple[ModelledColumn, ...]) -> tuple[float, ...]:
    """Weights of a stacked question over columns: squares sum to 1 and follow the owner's declared importance."""
    importance = [_IMPORTANCE[column.weight] for column in columns]
    whole = sum(importance)
    return tuple(math.sqrt(value / whole) for value in importance)


def answers_of_parts(answer: NoisyAnswer, question: Stack) -> list[tuple[NDArray[np.float64], float]]:
    """Return the counts of every table of a stacked question, in rows, and the noise of one count of each."""
    pieces = np.split(
        np.asarray(answer.value, dtype=np.float64).reshape(-1),
        np.cumsum([part.dimension for part in question.parts])[:-1],
    )
    return [(piece / weight, answer.noise_std / weight) for piece, weight in zip(pieces, question.weights, strict=True)]
