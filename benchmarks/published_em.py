r"""EM and gradient EM, plain and as the DP EM paper prints them (Wang 2020, Algorithms 1-3). NOT private.

Research code on plain arrays, to reproduce figures: each algorithm is a loop around one mean over rows, with noise from
the caller. No sensitivity is promised of these sums in floating point. The product takes the same steps through a
session (``synth.estimators.expectation_maximization``).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from synth.errors import InputError
from synth.privacy.more.row_maps import squared_norms
from synth.privacy.more.truncated_mean import truncated_mean

__all__ = [
    "clip_rows",
    "clipped_gradient_em",
    "em",
    "gradient_em",
    "truncated_em",
    "truncated_gradient_em",
]

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

RowMap = Callable[[Vector], Matrix]
"""What every row adds at the given parameters, shape (n, d)."""


def em(maximised: Callable[[Vector], Vector], start: Vector, *, steps: int) -> Matrix:
    """Return the path of EM, shape (steps + 1, d), its first row the start.

    Parameters
    ----------
    maximised : callable
        E-step and M-step: the next parameters.
    start : array of shape (d,)
    steps : int
    """
    path = [np.asarray(start, dtype=np.float64)]
    for _ in range(steps):
        path.append(np.asarray(maximised(path[-1]), dtype=np.float64))
    return np.stack(path)


def gradient_em(mean_gradient: Callable[[Vector], Vector], start: Vector, *, rate: float, steps: int) -> Matrix:
    """Return the path of gradient EM: each step adds ``rate`` times the mean gradient of q.

    Parameters
    ----------
    mean_gradient : callable
        Of the current parameters, shape (d,).
    start : array of shape (d,)
    rate : float
        eta.
    steps : int
        T.

    Returns
    -------
    array of shape (steps + 1, d)
    """
    return em(lambda beta: beta + rate * mean_gradient(beta), start, steps=steps)


def clip_rows(rows: Matrix, clip_norm: float) -> Matrix:
    """Return rows whose length is at most ``clip_norm``, each by itself (Algorithm 1, step 3).

    Numbers that are none, and rows that are too long for a length, count as 0 and as the longest number that has one.
    """
    if not (math.isfinite(clip_norm) and clip_norm > 0):
        raise InputError(f"clip_norm must be positive and finite, got {clip_norm}.")
    rows = np.clip(np.nan_to_num(rows, nan=0.0), -1e100, 1e100)
    return rows / np.maximum(1.0, np.sqrt(squared_norms(rows)) / clip_norm)[:, None]


def clipped_gradient_em(gradients: RowMap, start: Vector, *, clip_norm: float, rate: float, noise: Matrix) -> Matrix:
    """Return the path of Algorithm 1: gradients are clipped one by one, averaged, and get noise.

    Parameters
    ----------
    gradients : callable
        Of every row.
    start : array of shape (d,)
    clip_norm : float
        C.
    rate : float
    noise : array of shape (steps, d)
        Added to the mean gradient of each step, in its units.
    """
    draws = iter(noise)
    return gradient_em(
        lambda beta: clip_rows(gradients(beta), clip_norm).mean(axis=0) + next(draws),
        start,
        rate=rate,
        steps=len(noise),
    )


def truncated_gradient_em(
    gradients: RowMap, start: Vector, *, scale: float, precision: float, rate: float, noise: Matrix
) -> Matrix:
    """Return the path of Algorithm 2: every coordinate's softly truncated mean, with noise.

    Parameters
    ----------
    gradients : callable
        Of every row.
    start : array of shape (d,)
    scale, precision : float
        s and beta of line 1; see :class:`synth.privacy.more.truncated_mean.TruncationSetting`.
    rate : float
    noise : array of shape (steps, d)
    """
    draws = iter(noise)
    return gradient_em(
        lambda beta: truncated_mean(gradients(beta), scale=scale, precision=precision) + next(draws),
        start,
        rate=rate,
        steps=len(noise),
    )


def truncated_em(statistics: RowMap, start: Vector, *, scale: float, precision: float, noise: Matrix) -> Matrix:
    """Return the path of Algorithm 3: the softly truncated mean of statistics, with noise, is the next beta.

    Only for models whose M-step is a mean over rows (Assumption 2): of the three, the pair of Gaussians.

    Parameters
    ----------
    statistics : callable
        f of every row.
    start : array of shape (d,)
    scale, precision : float
        As in :func:`truncated_gradient_em`.
    noise : array of shape (steps, d)
    """
    draws = iter(noise)
    return em(
        lambda beta: truncated_mean(statistics(beta), scale=scale, precision=precision) + next(draws),
        start,
        steps=len(noise),
    )
