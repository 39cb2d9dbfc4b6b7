r"""Losses of linear predictions whose gradients are bounded for every row, whatever the parameters.

A row's gradient is its slope, the loss's derivative in the prediction, times its features. Slopes are cut to
[-C, C] and features are no longer than 1, so no row's gradient is longer than C. All of it is worked out column by
column: a row's gradient is the same to the last bit beside any other rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from synth.errors import InputError
from synth.privacy.more.row_maps import logistic, weighted_sums

__all__ = ["HUBER", "LOGISTIC", "LOSSES", "SQUARED", "Loss", "averaged_descent", "row_gradients"]

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Loss:
    """A loss of a prediction and a label, by what a descent needs of it.

    Attributes
    ----------
    name : str
    value : callable
        Of predictions and labels: the loss of every row.
    slope : callable
        Of predictions and labels: its derivative in the prediction.
    curvature : float
        Largest second derivative in the prediction: a full-batch step of at most 1 / ``curvature`` is safe for features
        no longer than 1.
    """

    name: str
    value: Callable[[Vector, Vector], Vector]
    slope: Callable[[Vector, Vector], Vector]
    curvature: float


SQUARED = Loss("squared", lambda p, y: (p - y) ** 2 / 2, lambda p, y: p - y, 1.0)
"""Half the squared error; its mean is half the mean squared error."""

LOGISTIC = Loss("logistic", lambda p, y: np.logaddexp(0.0, p) - y * p, lambda p, y: logistic(p) - y, 0.25)
"""Minus the log likelihood of a label in {0, 1}; its slope is at most 1 by itself."""

HUBER_WIDTH = 0.1
"""Errors of labels in [-1/2, 1/2] that Huber's loss takes as large."""

HUBER = Loss(
    "huber",
    lambda p, y: np.where(
        np.abs(p - y) <= HUBER_WIDTH, (p - y) ** 2 / 2, HUBER_WIDTH * (np.abs(p - y) - HUBER_WIDTH / 2)
    ),
    lambda p, y: np.clip(p - y, -HUBER_WIDTH, HUBER_WIDTH),
    1.0,
)
"""Half the squared error near the label, absolute beyond; its slope is at most ``HUBER_WIDTH`` by itself."""

LOSSES = {loss.name: loss for loss in (SQUARED, LOGISTIC, HUBER)}


def row_gradients(features: Matrix, labels: Vector, coefficients: Vector, *, loss: Loss, clip: float) -> Matrix:
    """Return the clipped gradient of every row.

    Parameters
    ----------
    features : array of shape (n, p)
        Rows no longer than 1.
    labels : array of shape (n,)
    coefficients : array of shape (p,)
    loss : Loss
    clip : float, positive
        C: slopes are cut to [-C, C]. A slope that is no number counts as 0.

    Returns
    -------
    array of shape (n, p), rows no longer than C
    """
    if not (math.isfinite(clip) and clip > 0):
        raise InputError(f"clip must be positive and finite, got {clip}.")
    slopes = loss.slope(weighted_sums(features, coefficients), labels)
    return np.asarray(np.clip(np.nan_to_num(slopes, nan=0.0), -clip, clip)[:, None] * features)


def averaged_descent(
    ask: Callable[[Vector], Vector], *, features: int, rate: float, steps: int
) -> tuple[Vector, list[Vector]]:
    """Descend along mean gradients from 0, and average the later half of the iterates.

    Parameters
    ----------
    ask : callable
        The mean gradient at some coefficients, exact or noisy, over a public number of rows.
    features : int
        p.
    rate : float
        eta.
    steps : int
        T, at least 1.

    Returns
    -------
    (array of shape (p,), list of arrays)
        The average of the last ceil(T / 2) iterates, and what was asked at in each step.
    """
    if steps < 1:
        raise InputError(f"steps must be at least 1, got {steps}.")
    now, total, asked = np.zeros(features), np.zeros(features), []
    for step in range(steps):
        asked.append(now)
        now = now - rate * ask(now)
        if step >= steps // 2:
            total += now
    return total / (steps - steps // 2), asked
