"""As good as which random sub-sample, from the known noise: a number that may be published.

A random sub-sample of m of n rows is off by chance, by how much follows from the shares of the cells, and for those the
synthetic rows stand in. The m at which chance and privacy noise are alike says how accurate the measured counts are.

For the synthetic rows there is only a lower bound: their distance from the private rows is at most their distance from
the noisy counts and the range of the noise together, so noise counts against them in full. Rows that combine
all answers may well be far better; only the private rows could tell.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, xlog1py, xlogy

from synth.reports.compared import ComparedTable
from synth.reports.evidence import SafeEvidence

__all__ = ["expected_distance", "published_subsample"]

_STEPS = 60


def published_subsample(compared: Sequence[ComparedTable]) -> tuple[SafeEvidence, ...]:
    """Say which random sub-sample the measured pairs are as good as, and the synthetic rows at least.

    Parameters
    ----------
    compared : sequence of ComparedTable
        Measured tables beside synthetic rows. Pairs are used, or single columns where no pair was measured.

    Returns
    -------
    tuple of SafeEvidence
        ``overview.subsample``; nothing where nothing was measured or there is one row.
    """
    singles, pairs = ([one for one in compared if len(one.columns) == size] for size in (1, 2))
    used = pairs or singles
    if not used or used[0].rows.value < 2:
        return ()
    n = used[0].rows.value
    noise = math.fsum(min(one.expected_noise, 1.0) for one in used) / len(used)
    bound = math.fsum(min(one.distance + one.error, 1.0) for one in used) / len(used)
    shares = [(one.synthetic / one.synthetic.sum()).reshape(-1) for one in used]
    percent, least = (100 * _size_at(distance, shares, n) / n for distance in (noise, bound))
    sets = "pairs of columns" if pairs else "single columns"
    return (
        SafeEvidence(
            id="overview.subsample",
            title=f"Accuracy of measured {'pairs' if pairs else 'columns'}",
            value=percent,
            unit="% of rows",
            sentence=f"The {len(used):,} noisy tables of {sets} are about as accurate as a random sub-sample of "
            f"{percent:.2g} % of the private rows, by the known noise alone. The synthetic rows may be nearer, because "
            "they combine all answers, or farther, where the model misses something; certain is a sub-sample of "
            f"{least:.2g} % (95 %).",
        ),
    )


def expected_distance(shares: NDArray[np.float64], size: float, n_rows: float) -> float:
    r"""Return the mean total variation between a table and a random sub-sample of it.

    .. math:: \frac{1}{2} \sum_c E|\hat p_c - p_c|, \quad
        E|\hat p - p| = \frac{2 \nu}{m} \binom{m}{\nu} p^\nu (1 - p)^{m - \nu + 1}, \quad \nu = \lfloor m p \rfloor + 1

    where m is ``size``: the mean deviation of a binomial share (De Moivre; Diaconis 1991), times the root of
    1 - m / n for rows that are drawn without putting back.

    Parameters
    ----------
    shares : array of shape (n_cells,), not negative, adding up to 1
        Share of the rows in each cell of the table.
    size : float
        Rows of the sub-sample, m, at least 1.
    n_rows : float
        Rows of the table, n.
    """
    p = shares[(shares > 0) & (shares < 1)]
    whole = np.floor(size * p) + 1
    inside = whole <= size
    p, whole = p[inside], whole[inside]
    chance = (
        gammaln(size + 1)
        - gammaln(whole + 1)
        - gammaln(size - whole + 1)
        + xlogy(whole, p)
        + xlog1py(size - whole + 1, -p)
    )
    return float((whole / size * np.exp(chance)).sum()) * math.sqrt(max(1 - size / n_rows, 0.0))


def _size_at(distance: float, shares: Sequence[NDArray[np.float64]], n_rows: float) -> float:
    """Return the size of the sub-samples whose mean distance is this one, by halving on a logarithmic scale."""
    low, high = 0.0, math.log(n_rows)
    for _ in range(_STEPS):
        middle = (low + high) / 2
        size = math.exp(middle)
        mean = math.fsum(expected_distance(one, size, n_rows) for one in shares) / len(shares)
        low, high = (middle, high) if mean > distance else (low, middle)
    return math.exp(low)
