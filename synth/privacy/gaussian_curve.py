r"""The curve of the Gaussian mechanism in closed form: what a budget is turned into noise by.

Every epsilon that is *stated* comes from autodp (``accounting``). What a budget allows is worked out here, by another
formula, and each must stand up to the other: a mistake in either shows as a budget that is overspent or left over. A
release can so begin before autodp is loaded, which takes longer than many a fit.
"""

from __future__ import annotations

import math

from scipy.special import erfcx, log_ndtr

__all__ = ["log_delta"]

_NEXT_TO_ONE = 1 - 2.0**-53
"""Largest ratio that is told from 1: where both terms are equal but for rounding, delta is rounded up, not to 0."""


def log_delta(mu: float, epsilon: float) -> float:
    r"""Return the logarithm of the delta of a mu-GDP Gaussian at ``epsilon`` (Balle 2018, theorem 8).

    .. math:: \delta = \Phi(a) - e^\varepsilon \Phi(b), \quad a, b = -\varepsilon / \mu \pm \mu / 2

    Parameters
    ----------
    mu : float
        Positive.
    epsilon : float
        At least 0.

    Returns
    -------
    float, at most 0

    Notes
    -----
    As :math:`e^{-a^2/2} = e^{\varepsilon - b^2/2}`, the ratio of the two terms is that of two scaled complementary
    error functions: nothing large cancels, however far the tails are.
    """
    upper, lower = -epsilon / mu + mu / 2, -epsilon / mu - mu / 2
    if upper > 0:
        # The first term is at least one half: the plain form loses nothing, and the scaled one would overflow.
        log_ratio = epsilon + float(log_ndtr(lower)) - float(log_ndtr(upper))
        return float(log_ndtr(upper)) + math.log1p(-min(math.exp(log_ratio), _NEXT_TO_ONE))
    ratio = float(erfcx(-lower / math.sqrt(2.0)) / erfcx(-upper / math.sqrt(2.0)))
    return float(log_ndtr(upper)) + math.log1p(-min(ratio, _NEXT_TO_ONE))
