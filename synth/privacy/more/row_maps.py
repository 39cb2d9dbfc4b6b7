r"""Arithmetic whose result for a row is the same to the last bit, whatever the other rows.

A matrix product may add a row's terms in another order when the matrix has one row more, and a vectorised exponential
may round the last rows of a block by other code. A gradient that is truncated to whole steps could then move for every
row when one row is added. Here a row's number is made of additions, multiplications and divisions alone, each rounded
as IEEE 754 says, in an order that follows from the columns: the same in any block, at any place, on any machine.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

__all__ = ["exponential", "logistic", "squared_norms", "weighted_sums"]

LARGEST_EXPONENT = 700.0
"""Exponents are cut at plus and minus this: 1e304 and 1e-304, which are as good as infinity and 0."""

_LOG_2_HIGH, _LOG_2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
"""The logarithm of 2 in two parts; the first has 32 bits, so that whole multiples of it up to 2^20 are exact."""

_INVERSE_FACTORIALS = tuple(1.0 / math.factorial(k) for k in range(13, -1, -1))
"""Taylor's polynomial: on numbers up to log(2) / 2 it errs by less than 1e-17 of the value."""


def weighted_sums(rows: NDArray[np.float64], weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the inner product of every row with the weights, column by column.

    Parameters
    ----------
    rows : array of shape (n, d)
    weights : array of shape (d,) or (n, d)
        One number for each column, or for each entry.

    Returns
    -------
    array of shape (n,)
    """
    total = np.zeros(rows.shape[0])
    for place in range(rows.shape[1]):
        total += rows[:, place] * weights[..., place]
    return total


def squared_norms(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the squared length of every row, column by column; shape (n,)."""
    return weighted_sums(rows, rows)


def exponential(x: NDArray[np.float64]) -> NDArray[np.float64]:
    r"""Return e to every number, to about one unit of the last place.

    .. math:: e^x = 2^k e^{x - k \log 2}, \quad k = \mathrm{round}(x / \log 2)

    Parameters
    ----------
    x : array of any shape
        Numbers; those beyond plus and minus 700 count as 700 and -700, and NaN stays NaN.

    Returns
    -------
    array of the same shape, positive
    """
    x = np.clip(np.asarray(x, dtype=np.float64), -LARGEST_EXPONENT, LARGEST_EXPONENT)
    powers = np.rint(np.nan_to_num(x) * (1.0 / math.log(2.0)))
    rest = (x - powers * _LOG_2_HIGH) - powers * _LOG_2_LOW
    found = np.full_like(rest, _INVERSE_FACTORIALS[0])
    for coefficient in _INVERSE_FACTORIALS[1:]:
        found = found * rest + coefficient
    return np.asarray(np.ldexp(found, powers.astype(np.int32)))


def logistic(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return 1 / (1 + e^-x) of every number, without overflow; in [0, 1]."""
    tail = exponential(-np.abs(x))
    return np.asarray(np.where(x < 0, tail, 1.0) / (1.0 + tail))
