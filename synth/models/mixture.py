"""A mixture of products: K kinds of row, within each of which columns are independent; and EM whose sums are asked for.

A row adds its responsibilities r times one vector t: a 1, what stands for its numbers, and an indicator of each of its
categories. As responsibilities sum to 1, the whole of r x t is no longer than t: the sensitivity does not grow with the
number of components.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from synth.errors import InputError
from synth.models.simplex import project_to_simplex
from synth.privacy.more.row_maps import exponential

__all__ = [
    "LEAST_PROBABILITY",
    "Mixture",
    "MixtureState",
    "MixtureStatistics",
    "fit_mixture_em",
    "maximise",
    "mean_of",
    "responsibilities",
    "statistic_norm",
    "sum_statistics",
]

LEAST_PROBABILITY = 1e-12
"""Proportions below this one have no logarithm of use."""


@dataclass(frozen=True, slots=True, eq=False)
class Mixture:
    r"""A joint distribution of binned columns in which K components are products of their columns.

    .. math:: p(x) = \sum_k w_k \prod_j P_{kj}(x_j)

    where w is ``weights`` and P_kj the bins of column j in row k of ``probabilities``.

    Attributes
    ----------
    sizes : tuple of int
        Bins of each column.
    weights : array of shape (K,), float64
        Proportion of each component; not negative, sum 1.
    probabilities : array of shape (K, sum of sizes), float64
        Proportions of every column's bins in every component, column by column.
    """

    sizes: tuple[int, ...]
    weights: NDArray[np.float64]
    probabilities: NDArray[np.float64]

    def __post_init__(self) -> None:
        if self.weights.ndim != 1 or self.probabilities.shape != (self.weights.size, sum(self.sizes)):
            raise ValueError(
                f"probabilities must have one row a component and one column a bin, {self.weights.size} x "
                f"{sum(self.sizes)}, got {self.probabilities.shape}."
            )

    def column(self, position: int) -> NDArray[np.float64]:
        """Return the proportions of one column's bins in every component, shape (K, bins)."""
        first = sum(self.sizes[:position])
        return self.probabilities[:, first : first + self.sizes[position]]

    def marginal(self, columns: tuple[int, ...]) -> NDArray[np.float64]:
        """Return the proportions of a few columns, shape (bins of each), sum 1; columns ascend."""
        product = self.weights[:, None]
        for position in columns[:-1]:
            product = (product[:, :, None] * self.column(position)[:, None, :]).reshape(self.weights.size, -1)
        last = self.column(columns[-1]) if columns else np.ones((self.weights.size, 1))
        return np.asarray((product.T @ last).reshape([self.sizes[position] for position in columns]))

    def sample(self, n_rows: int, random: np.random.Generator) -> NDArray[np.int64]:
        """Return rows of bins, shape (n_rows, number of columns), in random order.

        Rows of a component, and rows of each bin within it, number the floor or the ceiling of what is expected.
        """
        per_component = _rounded(self.weights[None, :], np.array([n_rows]), random)[0]
        smallest = np.min_scalar_type(max(self.sizes, default=1))
        drawn = np.empty((len(self.sizes), n_rows), dtype=smallest)
        for position, size in enumerate(self.sizes):
            bins = np.arange(size, dtype=smallest)
            counts = _levelled(_rounded(self.column(position), per_component, random), self.column(position), random)
            drawn[position] = np.repeat(np.tile(bins, self.weights.size), counts.ravel())
        # Each column of a component is put in an order of its own: columns are independent there.
        first = 0
        for count in per_component:
            random.permuted(drawn[:, first : first + count], axis=1, out=drawn[:, first : first + count])
            first += count
        return np.ascontiguousarray(drawn[:, random.permutation(n_rows)].T, dtype=np.int64)

    def state(self) -> dict[str, NDArray[np.float64]]:
        """Return everything that ``sample`` needs."""
        return {"weights": self.weights, "probabilities": self.probabilities}

    @classmethod
    def from_state(cls, sizes: tuple[int, ...], state: dict[str, NDArray[np.float64]]) -> Mixture:
        """Return the mixture of a state; it samples the same bytes from the same random source."""
        # Sums depend on the order of memory in their last bits.
        return cls(sizes, state["weights"], np.ascontiguousarray(state["probabilities"]))


def mean_of(mixtures: Sequence[Mixture]) -> Mixture:
    """Return the mean of mixtures over the same bins: all their components, at equal parts of their weights.

    Parameters
    ----------
    mixtures : sequence of Mixture
        At least one.
    """
    weights = np.concatenate([one.weights for one in mixtures]) / len(mixtures)
    return Mixture(mixtures[0].sizes, weights, np.concatenate([one.probabilities for one in mixtures]))


def _rounded(
    probabilities: NDArray[np.float64], totals: NDArray[np.int64], random: np.random.Generator
) -> NDArray[np.int64]:
    """Round expected counts to whole ones that add up to the total of each row (systematic rounding).

    Offsets of the rows are spread evenly and dealt at random, so that what rows lose and gain about cancels.
    """
    upper = np.cumsum(probabilities, axis=1) * totals[:, None]
    offsets = (random.permutation(len(totals)) + random.random(len(totals))) / len(totals)
    edges = np.floor(upper + offsets[:, None]).astype(np.int64)
    edges[:, -1] = totals
    return np.diff(np.minimum(edges, totals[:, None]), prepend=0, axis=1)


def _levelled(
    counts: NDArray[np.int64], probabilities: NDArray[np.float64], random: np.random.Generator
) -> NDArray[np.int64]:
    """Return rounded counts whose columns add up to about what is expected, by moving single rows between two bins.

    A row moves only where its component had rounded the one bin up and the other down: counts stay floors and ceilings.
    """
    excess = counts - counts.sum(axis=1, keepdims=True) * probabilities
    total = excess.sum(axis=0)
    while total.max() - total.min() > 1.0:
        high, low = int(total.argmax()), int(total.argmin())
        chances = np.maximum(excess[:, high], 0.0) * np.maximum(-excess[:, low], 0.0)
        wanted = max(1, int(min(total[high], -total[low])))
        # The earliest of exponential times at these rates are a draw without replacement, in proportion.
        order = np.argsort(random.exponential(size=chances.size) / np.maximum(chances, LEAST_PROBABILITY))
        chosen = order[: min(wanted, np.count_nonzero(chances > LEAST_PROBABILITY))]
        for place, change in ((high, -1), (low, 1)):
            counts[chosen, place] += change
            excess[chosen, place] += change
            total[place] += change * chosen.size
        if chosen.size < wanted:
            # No component is left that could give: the bin stays as it is.
            total[high] = 0.0
    return counts


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
    [``least_variance``, 1]; a component whose size is at most ``least_size`` is given up: its weight is 0, unless all
    would be.

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
    sizes = np.maximum(statistics.sizes, 1.0)[:, None]
    means = np.clip(statistics.numbers / sizes, -1.0, 1.0)
    variances = np.clip(statistics.squares / sizes + 0.5 - means**2, least_variance, 1.0)
    proportions = tuple(project_to_simplex(counts / sizes) for counts in statistics.counts)
    weights = np.where(kept, np.maximum(statistics.sizes, 0.0), 0.0)
    weights = weights / weights.sum() if weights.sum() > 0 else kept / kept.sum()
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
