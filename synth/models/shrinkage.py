"""How much a noisy count is trusted, learned from its table as a whole (empirical Bayes), and along an order."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

__all__ = ["PRIOR", "SpreadPrior", "ridge_of_counts", "shrinkage_factors", "smoothed_along_order"]

Vector = NDArray[np.float64]

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
    table: NDArray[np.float64], believed: NDArray[np.float64], noise_std: float | Vector, spreads: SpreadPrior = PRIOR
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
    noise_std : float or array of the table's shape
        In rows; positive.
    spreads : SpreadPrior

    Returns
    -------
    array of the table's shape, above 0, at most 1
    """
    return _learned(table, believed, noise_std, spreads)[0]


def _learned(
    table: Vector, believed: Vector, noise_std: float | Vector, spreads: SpreadPrior
) -> tuple[Vector, SpreadPrior]:
    """Return the shares that are kept, and the prior for other cells after what was learned from these."""
    variance = np.broadcast_to(noise_std, table.shape).reshape(-1) ** 2
    off = (table - believed).reshape(-1)
    size = np.multiply.outer(np.array(spreads.sizes), np.maximum(believed, 0.5).reshape(-1))
    spread = size**2
    both = spread + variance
    log_likelihood = -(off**2) / (2 * both) - 0.5 * np.log(both)
    likelihood = np.exp(log_likelihood - log_likelihood.max(axis=0))
    first = spreads.worth * np.array(spreads.likely)
    weights = np.array(spreads.likely)
    for _ in range(_ROUNDS):
        posterior = weights[:, None] * likelihood
        posterior /= posterior.sum(axis=0)
        weights = (first + posterior.sum(axis=1)) / (spreads.worth + off.size)
    kept = np.clip((posterior * spread / both).sum(axis=0), 1e-12, 1.0)
    return kept.reshape(table.shape), replace(spreads, likely=tuple(weights.tolist()), worth=spreads.worth + off.size)


def ridge_of_counts(
    table: NDArray[np.float64], believed: NDArray[np.float64], noise_std: float, spreads: SpreadPrior = PRIOR
) -> NDArray[np.float64]:
    """Return the ridge on a table's logarithmic factors that keeps as much of each count as its posterior mean does.

    Near a belief of m rows a model's count is m (1 + theta), so that a ridge of m (1 - k) / k keeps the share k of the
    distance between answer and belief.
    """
    kept = shrinkage_factors(table, believed, noise_std, spreads)
    return np.asarray(np.maximum(believed, 0.5) * (1.0 - kept) / kept)


def smoothed_along_order(table: Vector, believed: Vector, noise_std: float, *, ordered: int) -> Vector:
    r"""Return the posterior means of counts of bins by class, where classes vary little between neighbouring bins.

    Ordered bins are divided into two parts of about equal rows, these again, and so on down to single bins. Given the
    rows T of a class in a range of :math:`k_1 + k_2` bins, the least variance has for its first part

    .. math:: \hat y_1 = \frac{k_2 y_1 + k_1 (T - y_2)}{k_1 + k_2}, \quad
        \operatorname{std} \hat y_1 = s \sqrt{\frac{k_1 k_2}{k_1 + k_2}}

    where y are sums of counts and s is the noise of one; it is believed to have its part of the rows of all classes.
    How far from that is trusted is learned from all ranges so far (``shrinkage_factors``). It is an unbalanced Haar
    transform (Girardi 1997) whose coefficients are shrunk: many faint bins of one class count together, and noise in
    bins of a column that does not tell classes apart is left out.

    Parameters
    ----------
    table : array of shape (bins, classes)
        Noisy counts, in rows, of any sign.
    believed : array of shape (bins, classes)
        Counts before they were measured, in rows; not negative.
    noise_std : float
        Of one count, in rows; positive.
    ordered : int
        Number of bins, the first ones, that have an order; the other ones are shrunk one by one.

    Returns
    -------
    array of shape (bins, classes): in rows, not negative
    """
    classes = table.shape[1]
    rows = believed.sum(axis=1)
    counted = np.maximum(_posterior(table.sum(axis=1), rows, noise_std * math.sqrt(classes)), 0.0)
    believed = believed * (counted / np.maximum(rows, 1e-9))[:, None] + 1e-6
    smooth = np.empty_like(table)
    smooth[ordered:] = _posterior(table[ordered:], believed[ordered:], noise_std)
    if not ordered:
        return np.maximum(smooth, 0.0)
    before, belief_before = (
        np.concatenate([np.zeros((1, classes)), np.cumsum(one[:ordered], axis=0)]) for one in (table, believed)
    )
    whole = _posterior(before[-1], belief_before[-1], noise_std * math.sqrt(ordered))
    spreads = PRIOR
    ranges = [(0, ordered, np.maximum(whole, 0.0))]
    while ranges:
        for first, end, held in ranges:
            if end == first + 1:
                smooth[first] = held
        ranges = [one for one in ranges if one[1] > one[0] + 1]
        if ranges:
            ranges, spreads = _divided(ranges, before, belief_before, noise_std, spreads)
    return np.maximum(smooth, 0.0)


def _divided(
    ranges: list[tuple[int, int, Vector]], before: Vector, belief_before: Vector, noise_std: float, spreads: SpreadPrior
) -> tuple[list[tuple[int, int, Vector]], SpreadPrior]:
    """Divide every range (first bin, end, rows by class) in two, given sums of counts and beliefs before each bin."""
    cuts, first_is_smaller = list[int](), list[bool]()
    found, believed, noise = list[Vector](), list[Vector](), list[float]()
    for first, end, held in ranges:
        belief = belief_before[first : end + 1] - belief_before[first]
        rows = belief.sum(axis=1)
        cut = first + 1 + int(np.argmin(np.abs(rows[1:-1] - rows[-1] / 2)))
        parts = [(first, cut, belief[cut - first]), (cut, end, belief[-1] - belief[cut - first])]
        # Look at the part with fewer rows, as beliefs err by a share of a count.
        first_is_smaller.append(bool(parts[0][2].sum() <= parts[1][2].sum()))
        (low, high, part), (low_of_other, high_of_other, _) = parts if first_is_smaller[-1] else parts[::-1]
        own, other = before[high] - before[low], before[high_of_other] - before[low_of_other]
        n_own, n_other = high - low, high_of_other - low_of_other
        cuts.append(cut)
        found.append((n_other * own + n_own * (held - other)) / (n_own + n_other))
        believed.append(held * part / belief[-1])
        noise.append(noise_std * math.sqrt(n_own * n_other / (n_own + n_other)))
    table, expected = np.stack(found), np.stack(believed)
    kept, spreads = _learned(table, expected, np.broadcast_to(np.array(noise)[:, None], table.shape), spreads)
    counted = expected + kept * (table - expected)
    halves = list[tuple[int, int, Vector]]()
    for (first, end, held), cut, one, smaller in zip(ranges, cuts, counted, first_is_smaller, strict=True):
        of_smaller = np.clip(one, 0.0, held)
        left, right = (of_smaller, held - of_smaller) if smaller else (held - of_smaller, of_smaller)
        halves += [(first, cut, left), (cut, end, right)]
    return halves, spreads


def _posterior(table: Vector, believed: Vector, noise_std: float) -> Vector:
    """Return the posterior mean of every count."""
    return believed + shrinkage_factors(table, believed, noise_std) * (table - believed) if table.size else table
