"""How much a noisy count is trusted, learned from its table as a whole (empirical Bayes)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["PRIOR", "SpreadPrior", "ridge_of_counts", "shrinkage_factors"]

_ROUNDS = 12
"""Steps of expectation and maximisation; later ones change no count by a tenth of its noise."""


@dataclass(frozen=True, slots=True)
class SpreadPrior:
    """Prior of the distance between the counts of a table and what was believed before they were measured.

    Attributes
    ----------
    sizes : tuple of float
        The error of a belief of m rows is about one of these times m; positive.
    likely : tuple of float
        Prior probability of each; positive, sum 1.
    worth : float
        Number of cells that the prior probabilities are worth against a table's own cells.
    loose : float
        Single columns are hardly pulled: a factor of e is worth this share of their noise.
    """

    sizes: tuple[float, ...] = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6)
    likely: tuple[float, ...] = (0.05, 0.08, 0.12, 0.18, 0.25, 0.18, 0.08, 0.03, 0.02, 0.01)
    worth: float = 30.0
    loose: float = 0.5


PRIOR = SpreadPrior()


def shrinkage_factors(
    table: NDArray[np.float64], believed: NDArray[np.float64], noise_std: float, spreads: SpreadPrior = PRIOR
) -> NDArray[np.float64]:
    r"""Return the share of each count's distance from belief that its posterior mean keeps.

    .. math:: \sum_k q_k(y) \frac{v_k}{v_k + s^2}, \quad
        q_k(y) \propto w_k \, \mathcal N(y - m;\, 0,\, v_k + s^2), \quad v_k = (c_k m)^2

    where y is a count of ``table``, m the ``believed`` count, s is ``noise_std`` and c_k are ``spreads.sizes``.
    The weights w_k belong to the table as a whole and are learned from its cells by expectation and maximisation
    (empirical Bayes, as in Stephens 2017): a table without news is left at what was believed, all cells of a table with
    news are trusted, and single cells that stand out are trusted in either.

    Parameters
    ----------
    table, believed : arrays of one shape
        In rows; ``believed`` is not negative, and less than half a row counts as half a row.
    noise_std : float
        In rows; positive.
    spreads : SpreadPrior

    Returns
    -------
    array of the table's shape, above 0, at most 1
    """
    off = (table - believed).reshape(-1)
    size = np.multiply.outer(np.array(spreads.sizes), np.maximum(believed, 0.5).reshape(-1))
    spread = size**2
    both = spread + noise_std**2
    log_likelihood = -(off**2) / (2 * both) - 0.5 * np.log(both)
    likelihood = np.exp(log_likelihood - log_likelihood.max(axis=0))
    first = spreads.worth * np.array(spreads.likely)
    weights = np.array(spreads.likely)
    for _ in range(_ROUNDS):
        posterior = weights[:, None] * likelihood
        posterior /= posterior.sum(axis=0)
        weights = (first + posterior.sum(axis=1)) / (spreads.worth + off.size)
    return np.asarray(np.clip((posterior * spread / both).sum(axis=0), 1e-12, 1.0).reshape(table.shape))


def ridge_of_counts(
    table: NDArray[np.float64], believed: NDArray[np.float64], noise_std: float, spreads: SpreadPrior = PRIOR
) -> NDArray[np.float64]:
    """Return the ridge on a table's logarithmic factors that keeps as much of each count as its posterior mean does.

    Near a belief of m rows a model's count is m (1 + theta), so that a ridge of m (1 - k) / k keeps the share k of the
    distance between answer and belief.
    """
    kept = shrinkage_factors(table, believed, noise_std, spreads)
    return np.asarray(np.maximum(believed, 0.5) * (1.0 - kept) / kept)
