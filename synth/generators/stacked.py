"""Stacked questions: share the norm among columns, and take the answer apart into its tables."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from synth.privacy.answers import NoisyAnswer
from synth.privacy.feature_maps import Stack
from synth.schema import ModelledColumn, Weight

__all__ = ["IMPORTANCE", "answers_of_parts", "column_weights"]

IMPORTANCE = {Weight.LOW: 0.5, Weight.NORMAL: 1.0, Weight.HIGH: 2.0}
"""Relative share of a stacked question's squared norm, and weight of a wrong row in a table that may be asked for, by
the declared importance of a column. A label to predict, and a column whose groups are compared, count as of high
importance."""


def column_weights(columns: tuple[ModelledColumn, ...]) -> tuple[float, ...]:
    """Return the weights of a stacked question over columns: their squares sum to 1 and follow declared importance."""
    importance = [IMPORTANCE[column.weight] for column in columns]
    whole = math.fsum(importance)
    return tuple(math.sqrt(value / whole) for value in importance)


def answers_of_parts(answer: NoisyAnswer, question: Stack) -> list[tuple[NDArray[np.float64], float]]:
    """Return the counts of each table of a stacked question, in rows, and the noise of one count of it."""
    pieces = np.split(
        np.asarray(answer.value, dtype=np.float64).reshape(-1),
        np.cumsum([part.dimension for part in question.parts])[:-1],
    )
    return [(piece / weight, answer.noise_std / weight) for piece, weight in zip(pieces, question.weights, strict=True)]
