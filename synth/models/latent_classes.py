r"""EM of a mixture whose sufficient statistics are noisy sums: latent classes, and Gaussian components for numbers.

A row adds its responsibilities r times one vector t: a 1, what stands for its numbers, and an indicator of each of its
categories. As responsibilities sum to 1, the whole of r x t is no longer than t: the sensitivity does not grow with the
number of components. What a row adds is worked out component by component and column by column, so that it is the same
to the last bit beside any other rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from synth.errors import InputError
from synth.models.simplex import project_to_simplex
from synth.privacy.more.row_maps import exponential

__all__ = [
    "MixtureState",
    "MixtureStatistics",
    "fit_mixture_em",
    "maximise",
    "responsibilities",
    "statistic_norm",
    "sum_statistics",
]

LEAST_PROBABILITY = 1e-12
"""Logarithms are taken of no less."""


@dataclass(frozen=True, slots=True, eq=False)
class MixtureState:
    """A mixture whose components are products of their columns: Gaussians for numbers, tables for categories.

    Attributes
    ----------
    weights : array of shape (K,)
    means, variances : arrays of shape (K, d)
        Of numbers within [-1, 1]; d may be 0, which leaves latent classes.
    proportions : tuple of arrays of shape (K, categories)
        One for each column of categories.
    """

    weights: NDArray[np.float64]
    means: NDArray[np.float64]
    variances: NDArray[np.float64]
    proportions: tuple[NDArray[np.float64], ...]

    def __post_init__(self) -> None:
        components = self.weights.size
        if self.means.shape != self.variances.shape or self.means.shape[0] != components:
            raise InputError("means and variances need one row a component and one column a number.")
        if any(one.ndim != 2 or one.shape[0] != components for one in self.proportions):
            raise InputError("proportions need one row a component.")


@dataclass(frozen=True, slots=True, eq=False)
class MixtureStatistics:
    """Sums over rows of responsibilities times t, exact or noisy.

    Attributes
    ----------
    sizes : array of shape (K,)
    numbers : array of shape (K, d)
        Sums of x.
    squares : array of shape (K, d)
        Sums of x^2 - 1/2, so that they lie around 0.
    counts : tuple of arrays of shape (K, categories)
    """

    sizes: NDArray[np.float64]
    numbers: NDArray[np.float64]
    squares: NDArray[np.float64]
    counts: tuple[NDArray[np.float64], ...]


def responsibilities(
    numbers: NDArray[np.float64], codes: NDArray[np.int64], state: MixtureState
) -> NDArray[np.float64]:
    """Return the probability of every component given each row.

    Parameters
    ----------
    numbers : array of shape (n, d), in [-1, 1]
    codes : array of shape (n, columns)
        Categories, one column each.
    state : MixtureState

    Returns
    -------
    array of shape (n, K), rows of which sum to 1
    """
    weights = np.log(np.maximum(state.weights, LEAST_PROBABILITY))
    scores = np.empty((len(state.weights), len(codes)))
    for place in range(len(state.weights)):
        constant = weights[place] - float(np.log(state.variances[place]).sum()) / 2
        scores[place] = constant
        for column in range(numbers.shape[1]):
            apart = numbers[:, column] - state.means[place, column]
            scores[place] -= apart * apart * (0.5 / state.variances[place, column])
        for column, table in enumerate(state.proportions):
            scores[place] += np.log(np.maximum(table[place], LEAST_PROBABILITY))[codes[:, column]]
    likely = exponential(scores - scores.max(axis=0))
    total = np.zeros(len(codes))
    for one in likely:
        total += one
    return np.asarray((likely / total).T)


def sum_statistics(numbers: NDArray[np.float64], codes: NDArray[np.int64], state: MixtureState) -> MixtureStatistics:
    """Return the exact statistics of an E-step; arguments as in :func:`responsibilities`."""
    found = responsibilities(numbers, codes, state)
    counts = tuple(
        np.stack([np.bincount(codes[:, column], one, table.shape[1]).astype(np.float64) for one in found.T])
        for column, table in enumerate(state.proportions)
    )
    return MixtureStatistics(found.sum(axis=0), found.T @ numbers, found.T @ (numbers**2 - 0.5), counts)


def statistic_norm(
    *, numbers: int, categories: int, of_number: float = 1.0, of_square: float = 2.0, of_category: float = 1.0
) -> float:
    r"""Return the greatest length of what one row adds, however many components there are.

    .. math:: \Delta = \sqrt{1 + d (a^2 + b^2 / 4) + g^2 c}

    where d is ``numbers``, c is ``categories``, and a, b, g are what sums of x, of x^2 - 1/2 and of indicators are
    multiplied by before noise: ``of_number``, ``of_square`` and ``of_category``.

    Notes
    -----
    It is the L2 sensitivity where a row is added or removed. Where it is replaced, sqrt(2) times as much for categories
    alone, all of whose entries are at least 0; twice as much with numbers.
    """
    if min(numbers, categories) < 0:
        raise InputError("numbers and categories must be at least 0.")
    return math.sqrt(1 + numbers * (of_number**2 + of_square**2 / 4) + of_category**2 * categories)


def maximise(statistics: MixtureStatistics, *, least_size: float = 0.0, least_variance: float = 4e-4) -> MixtureState:
    """Return the mixture that noisy statistics say, made proper.

    Sizes and counts are projected on what proportions can be; means are cut to [-1, 1] and variances to
    [``least_variance``, 1]; a component whose size is at most ``least_size`` is dropped, unless all would be.

    Parameters
    ----------
    statistics : MixtureStatistics
    least_size : float
        Such as the noise of a size.
    least_variance : float, positive
    """
    kept = statistics.sizes > max(least_size, 0.0)
    if not kept.any():
        kept = statistics.sizes == statistics.sizes.max()
    sizes = np.maximum(statistics.sizes[kept], 1.0)[:, None]
    means = np.clip(statistics.numbers[kept] / sizes, -1.0, 1.0)
    variances = np.clip(statistics.squares[kept] / sizes + 0.5 - means**2, least_variance, 1.0)
    proportions = tuple(project_to_simplex(counts[kept] / sizes) for counts in statistics.counts)
    weights = np.maximum(statistics.sizes[kept], 0.0)
    weights = weights / weights.sum() if weights.sum() > 0 else np.full(weights.size, 1.0 / weights.size)
    return MixtureState(weights, means, variances, proportions)


def fit_mixture_em(
    ask: Callable[[MixtureState], MixtureStatistics],
    start: MixtureState,
    *,
    steps: int,
    least_size: float = 0.0,
    least_variance: float = 4e-4,
) -> MixtureState:
    """Return the mixture after some steps of EM on statistics that are asked for.

    Parameters
    ----------
    ask : callable
        The statistics at a state: exact sums, or a private question's answer.
    start : MixtureState
    steps : int
    least_size, least_variance : float
        As in :func:`maximise`.
    """
    state = start
    for _ in range(steps):
        state = maximise(ask(state), least_size=least_size, least_variance=least_variance)
    return state
