r"""EM and gradient EM, plain and as the DP EM paper prints them (Wang 2020, Algorithms 1-3). NOT private.

Research code on plain arrays, to reproduce figures: each algorithm is a loop around one mean over rows, with noise from
the caller. No sensitivity is promised of these sums in floating point. The product takes the same steps through a
session (``synth.estimators.expectation_maximization``).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from synth.errors import InputError
from synth.privacy.more.row_maps import squared_norms
from synth.privacy.more.truncated_mean import LARGEST_TRUNCATED, TruncationSetting, gaussian_mu, smoothed_truncation

__all__ = [
    "PublishedSetting",
    "clip_rows",
    "clipped_gradient_em",
    "clipped_noise_std",
    "em",
    "gradient_em",
    "truncated_em",
    "truncated_gradient_em",
    "truncated_mean",
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


def truncated_mean(values: NDArray[np.float64], *, scale: float, precision: float) -> NDArray[np.float64]:
    r"""Return the softly truncated mean of every column (eq. 11).

    .. math:: \hat x = \frac{s}{n} \sum_i E \phi\left(\frac{x_i (1 + Z / \sqrt\beta)}{s}\right)

    Parameters
    ----------
    values : array of shape (n, d)
    scale : float, positive
        s, in units of the values.
    precision : float, positive
        beta, as in :func:`smoothed_truncation`.

    Returns
    -------
    array of shape (d,)
        One replaced row moves each by at most 2 s ``LARGEST_TRUNCATED`` / n.
    """
    if not (math.isfinite(scale) and scale > 0):
        raise InputError(f"scale must be positive and finite, got {scale}.")
    with np.errstate(over="ignore"):  # what overflows is as good as infinite, and counts as the limit
        ratios = values / scale
    return np.asarray((scale * smoothed_truncation(ratios, precision=precision)).mean(axis=0))


@dataclass(frozen=True, slots=True)
class PublishedSetting(TruncationSetting):
    """The constants of Algorithms 2 and 3, with what their noise costs.

    All d T releases of a run are together one mu-GDP Gaussian, mu = sqrt(d T) sensitivity / noise. The paper converts
    by zero-concentrated differential privacy and spends a thousandth of its delta; the exact curve (Balle 2018) needs a
    quarter to a third less noise. These are formulas of continuous noise, for figures.
    """

    def sensitivity(self, *, replace_one: bool = True) -> float:
        """Return how far one row moves one coordinate of the mean; half as far where it is added or removed."""
        return (2 if replace_one else 1) * LARGEST_TRUNCATED * self.scale / self.n

    @property
    def published_noise_std(self) -> float:
        r"""Return the first form of sigma in eq. 16, :math:`\sigma^2 = 16 s^2 d T / (9 n^2 \tilde\varepsilon^2)`.

        The second form printed beside it, :math:`4 d T \tau / (9 n \beta^2 \tilde\varepsilon)`, does not follow from
        the s of line 1: its variance is larger by a factor of log(d / zeta).
        """
        return 4 * self.scale * math.sqrt(self.d * self.steps) / (3 * self.n * self.epsilon_tilde)

    def mu(self, noise_std: float, *, replace_one: bool = True) -> float:
        """Return the mu of a whole run with this noise."""
        return math.sqrt(self.d * self.steps) * self.sensitivity(replace_one=replace_one) / noise_std

    def exact_noise_std(self, *, replace_one: bool = True) -> float:
        """Return the least noise that keeps a whole run within the budget, by the exact curve."""
        releases = math.sqrt(self.d * self.steps)
        return releases * self.sensitivity(replace_one=replace_one) / gaussian_mu(self.epsilon, self.delta)


def clipped_noise_std(
    clip_norm: float, *, n: int, steps: int, epsilon: float, delta: float, replace_one: bool = True
) -> float:
    """Return the least noise of Algorithm 1 on every coordinate of the mean gradient; the paper leaves c open."""
    if not (math.isfinite(clip_norm) and clip_norm > 0 and n >= 1 and steps >= 1):
        raise InputError("clip_norm must be positive and finite, n and steps at least 1.")
    return float((2 if replace_one else 1) * clip_norm / n * math.sqrt(steps) / gaussian_mu(epsilon, delta))
