"""A mixture of products: K kinds of row, within each of which columns are independent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["LEAST_PROBABILITY", "Mixture", "mean_of"]

LEAST_PROBABILITY = 1e-12
"""Proportions are at least this before their logarithm is taken."""

_ROUNDING = 1e-3
"""How far the proportions of a saved mixture may be from a sum of 1."""


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

    def tables(self, subsets: Sequence[tuple[int, ...]]) -> dict[tuple[int, ...], NDArray[np.float64]]:
        """Return the proportions of several sets of columns."""
        return {subset: self.marginal(subset) for subset in subsets}

    def sample(self, n_rows: int, random: np.random.Generator) -> NDArray[np.int64]:
        """Return rows of bins, shape (n_rows, number of columns), in random order.

        The rows of a component, and of each bin within it, are the floor or the ceiling of their expected number.
        """
        per_component = _rounded(self.weights[None, :], np.array([n_rows]), random)[0]
        smallest = np.min_scalar_type(max(self.sizes, default=1))
        drawn = np.empty((len(self.sizes), n_rows), dtype=smallest)
        for position, size in enumerate(self.sizes):
            bins = np.arange(size, dtype=smallest)
            counts = _levelled(_rounded(self.column(position), per_component, random), self.column(position), random)
            drawn[position] = np.repeat(np.tile(bins, self.weights.size), counts.ravel())
        # Each column of a component is shuffled separately: columns are independent there.
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
        """Return the mixture of a state; it samples the same bytes from the same random source.

        Raises
        ------
        ValueError
            If the arrays have other shapes, or are no proportions: drawing from those need not end.
        """
        # The last bits of sums depend on the memory layout.
        made = cls(sizes, state["weights"], np.ascontiguousarray(state["probabilities"]))
        for parts in (made.weights[None, :], *map(made.column, range(len(sizes)))):
            if not (parts.min(initial=0.0) >= 0.0 and np.allclose(parts.sum(axis=1), 1.0, rtol=0.0, atol=_ROUNDING)):
                raise ValueError("Weights and the bins of a column in a component must be proportions that sum to 1.")
        return made


def mean_of(mixtures: Sequence[Mixture]) -> Mixture:
    """Return the mean of mixtures over the same bins: all their components, with equal shares of their weights.

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

    The offsets of the rows are evenly spread and randomly assigned, so that the rounding of rows nearly cancels.
    """
    upper = np.cumsum(probabilities, axis=1) * totals[:, None]
    offsets = (random.permutation(len(totals)) + random.random(len(totals))) / len(totals)
    edges = np.floor(upper + offsets[:, None]).astype(np.int64)
    edges[:, -1] = totals
    return np.diff(np.minimum(edges, totals[:, None]), prepend=0, axis=1)


def _levelled(
    counts: NDArray[np.int64], probabilities: NDArray[np.float64], random: np.random.Generator
) -> NDArray[np.int64]:
    """Return rounded counts whose columns add up to nearly their expectation, by moving single rows between two bins.

    A row moves only if its component rounded one bin up and the other down, so counts remain floors and ceilings.
    """
    excess = counts - counts.sum(axis=1, keepdims=True) * probabilities
    total = excess.sum(axis=0)
    while total.max() - total.min() > 1.0:
        high, low = int(total.argmax()), int(total.argmin())
        chances = np.maximum(excess[:, high], 0.0) * np.maximum(-excess[:, low], 0.0)
        wanted = max(1, int(min(total[high], -total[low])))
        # The earliest of exponential times at these rates are a draw without replacement, in proportion.
        times, possible = random.exponential(size=chances.size), np.flatnonzero(chances > LEAST_PROBABILITY)
        chosen = possible[np.argsort(times[possible] / chances[possible])][:wanted]
        for place, change in ((high, -1), (low, 1)):
            counts[chosen, place] += change
            excess[chosen, place] += change
            total[place] += change * chosen.size
        if chosen.size < wanted:
            # No component is left to take a row from: the bin does not change.
            total[high] = 0.0
    return counts
