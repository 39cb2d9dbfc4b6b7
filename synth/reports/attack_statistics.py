"""How well scores tell members from non-members: numbers with 95 % intervals, and what chance alone makes of them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv, expit, logit
from scipy.stats import rankdata

__all__ = ["Estimate", "area_under_curve", "caught_at", "estimate_area", "estimate_caught", "null_ranges"]

Scores = NDArray[np.float64]

_NORMAL_95 = 1.959963984540054
_RULE_OF_THREE = 1.5
"""With n of n right, 1 - 3 / n still lies in a 95 % range: no interval is narrower than that makes it."""

_DRAWS = 1000


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number and the ends of its 95 % interval."""

    value: float
    low: float
    high: float


def area_under_curve(members: Scores, non_members: Scores) -> float:
    """Return the chance that a member's score is above a non-member's, ties counting half: the ROC AUC.

    Parameters
    ----------
    members, non_members : arrays of shape (n,) and (m,), at least one each
        Larger is more like a member.
    """
    ranks = rankdata(np.concatenate([members, non_members]))
    return _area_of_ranks(ranks[: len(members)], len(non_members))


def estimate_area(members: Scores, non_members: Scores) -> Estimate:
    """Return the ROC AUC with the interval of DeLong 1988, in the fast form of Sun 2014.

    Parameters
    ----------
    members, non_members : arrays of shape (n,) and (m,), at least two each

    Notes
    -----
    Differs from the paper: the interval is symmetric in the logit of the area, which holds better away from 1/2; and
    where perfect scores of a few people leave no spread, it is as wide as none wrong of so many allows.
    """
    n, m = len(members), len(non_members)
    together = rankdata(np.concatenate([members, non_members]))
    above = (together[:n] - rankdata(members)) / m
    below = 1 - (together[n:] - rankdata(non_members)) / n
    value = float(above.mean())
    error = math.sqrt(above.var(ddof=1) / n + below.var(ddof=1) / m)
    least = _RULE_OF_THREE / min(n, m)
    if error < least or not 0 < value < 1:
        reach = _NORMAL_95 * max(error, least)
        return Estimate(value, max(0.0, value - reach), min(1.0, value + reach))
    centre, reach = float(logit(value)), _NORMAL_95 * error / (value * (1 - value))
    return Estimate(value, float(expit(centre - reach)), float(expit(centre + reach)))


def caught_at(members: Scores, non_members: Scores, false_positive: float) -> float:
    """Return the share of members above the lowest threshold that at most a share of non-members is above.

    Parameters
    ----------
    members, non_members : arrays of shape (n,) and (m,), at least one each
    false_positive : float
        Largest share of false alarms, in [0, 1).
    """
    place = len(non_members) - 1 - math.floor(false_positive * len(non_members))
    return float((members > np.partition(non_members, place)[place]).mean())


def estimate_caught(members: Scores, non_members: Scores, false_positive: float, *, seed: int) -> Estimate:
    """Return :func:`caught_at` with a 95 % interval.

    The interval is the bootstrap's of members and non-members, widened to the exact one of a share (Clopper-Pearson)
    where few are caught and the bootstrap sees no spread.
    """
    random = np.random.default_rng([seed, 1])
    n, m = len(members), len(non_members)
    value = caught_at(members, non_members, false_positive)
    drawn = [
        caught_at(members[random.integers(n, size=n)], non_members[random.integers(m, size=m)], false_positive)
        for _ in range(_DRAWS)
    ]
    low, high = np.quantile(drawn, [0.025, 0.975]).tolist()
    caught = round(value * n)
    exact_low = float(betaincinv(caught, n - caught + 1, 0.025)) if caught else 0.0
    exact_high = float(betaincinv(caught + 1, n - caught, 0.975)) if caught < n else 1.0
    return Estimate(value, min(low, exact_low), max(high, exact_high))


def null_ranges(
    members: Scores, non_members: Scores, false_positive: float, *, seed: int
) -> tuple[tuple[float, float], tuple[float, float]]:
    """Return where 95 % of the area and of the share caught lie when who is a member is drawn anew: guessing.

    Parameters
    ----------
    members, non_members : arrays of shape (n,) and (m,)
    false_positive : float
        Largest share of false alarms, in [0, 1).
    seed : int
        Public.

    Returns
    -------
    (low, high) of :func:`area_under_curve` and (low, high) of :func:`caught_at`
    """
    random = np.random.default_rng([seed, 2])
    n, m = len(members), len(non_members)
    # Both depend on ranks alone, which stay what they are.
    ranks = rankdata(np.concatenate([members, non_members]))
    drawn = np.empty((_DRAWS, 2))
    for row in drawn:
        random.shuffle(ranks)
        row[:] = _area_of_ranks(ranks[:n], m), caught_at(ranks[:n], ranks[n:], false_positive)
    low, high = np.quantile(drawn, [0.025, 0.975], axis=0).tolist()
    return (low[0], high[0]), (low[1], high[1])


def _area_of_ranks(members: Scores, n_others: int) -> float:
    n = len(members)
    return float((members.sum() - n * (n + 1) / 2) / (n * n_others))
