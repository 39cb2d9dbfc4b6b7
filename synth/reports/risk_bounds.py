r"""What no attacker can exceed: odds, advantage and true-positive rates, and the ceiling of one release.

Any (epsilon, delta) promise bounds how well an attacker tells a member from a non-member (Kairouz 2017); a release that
is known to be mu-GDP is bounded more tightly (Dong 2022, equation 6).

The ceiling of a release follows from the promised (epsilon, delta) alone: any method that keeps it is bounded, and
Gaussian noise that keeps it is bounded more tightly, by the curve of the largest mu that fits; the lower one counts. So
the run, its shadow models, its rehearsal and the forecast before it have one ceiling. Averages over units obey it too,
because the curves are concave. It is rounded up once, here, and printed, drawn and tabulated unchanged.

**The test.** Before a run each unit that is attacked was assigned to members or non-members at random, so a release is
one experiment with many coins. Let an attacker guess r of m coins from the release. If the release is
(epsilon, delta)-private in every coin, then (Steinke 2023, section 5)

.. math:: P(\text{at least } v \text{ right}) \le P(B \ge v) + 2 m \delta,
   \quad B \sim \mathrm{Binomial}\bigl(r, e^\varepsilon / (1 + e^\varepsilon)\bigr)

whatever the attack. delta is chosen so small that the last term takes a twentieth of the level, and epsilon is what the
receipts add up to at that delta.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc, expit, logit, ndtr, ndtri

from synth.errors import PrivacyError
from synth.privacy.accounting import SLACK_ALLOWANCE, epsilon_of_receipts, mu_of_budget
from synth.privacy.receipt import Receipt
from synth.schema import Neighbours

__all__ = [
    "GUESSED_SHARES",
    "ProvenCeiling",
    "advantage_against_noise",
    "advantage_ceiling",
    "auc_ceiling",
    "caught_against_noise",
    "gaussian_advantage",
    "gaussian_auc",
    "gaussian_true_positive",
    "laplace_advantage",
    "laplace_true_positive",
    "posterior",
    "printed_ceiling",
    "true_positive_ceiling",
]


def advantage_ceiling(epsilon: float, delta: float) -> float:
    r"""Return the largest (true-positive rate - false-positive rate): (e^eps - 1 + 2 delta) / (e^eps + 1).

    Parameters
    ----------
    epsilon : float
        At least 0; infinity promises nothing.
    delta : float
        From 0 to 1.

    Returns
    -------
    float in [0, 1]
    """
    _require_promise(epsilon, delta)
    return min(1.0, math.tanh(epsilon / 2) + 2 * delta * float(expit(-epsilon)))


def true_positive_ceiling(epsilon: float, delta: float, false_positive: float) -> float:
    r"""Return the largest true-positive rate at one false-positive rate f.

    .. math:: \min(e^\varepsilon f + \delta,\; 1 - e^{-\varepsilon} (1 - \delta - f),\; 1)

    Parameters
    ----------
    epsilon : float
        At least 0; infinity promises nothing.
    delta : float
        From 0 to 1.
    false_positive : float
        f, from 0 to 1.

    Returns
    -------
    float in [0, 1]
    """
    _require_promise(epsilon, delta)
    _require_probability("The false-positive rate", false_positive)
    risen = math.exp(min(epsilon, 700.0)) * false_positive + delta
    return min(risen, 1 - math.exp(-epsilon) * (1 - delta - false_positive), 1.0)


def auc_ceiling(epsilon: float, delta: float) -> float:
    r"""Return the largest area under the curve of true over false positives: that of :func:`true_positive_ceiling`.

    .. math:: 1 - \frac{(1 - \delta)^2}{1 + e^\varepsilon}

    It also bounds the pooled scores of many people: the ceiling is concave, so their mean is below it too.

    Parameters
    ----------
    epsilon : float
        At least 0; infinity promises nothing.
    delta : float
        From 0 to 1.

    Returns
    -------
    float in [1/2, 1]
    """
    _require_promise(epsilon, delta)
    return 1 - (1 - delta) ** 2 * float(expit(-epsilon))


def gaussian_advantage(mu: float) -> float:
    """Return the largest (true-positive rate - false-positive rate) against mu-GDP: 2 Phi(mu/2) - 1."""
    _require_mu(mu)
    return math.erf(mu / math.sqrt(8))


def gaussian_auc(mu: float) -> float:
    """Return the largest area under the curve of true over false positives against mu-GDP: Phi(mu / sqrt(2))."""
    _require_mu(mu)
    return float(ndtr(mu / math.sqrt(2)))


def gaussian_true_positive(mu: float, false_positive: float) -> float:
    """Return the largest true-positive rate against mu-GDP at one false-positive rate f: Phi(Phi^-1(f) + mu)."""
    _require_mu(mu)
    _require_probability("The false-positive rate", false_positive)
    return float(ndtr(ndtri(false_positive) + mu))


def laplace_advantage(epsilon: float) -> float:
    """Return the largest advantage against Laplace noise that hides a change at ``epsilon``: 1 - exp(-epsilon / 2)."""
    _require_promise(epsilon, 0.0)
    return -math.expm1(-epsilon / 2)


def laplace_true_positive(epsilon: float, false_positive: float) -> float:
    r"""Return the largest true-positive rate against Laplace noise at one false-positive rate f.

    It is e^epsilon f up to one half, then 1 - e^-epsilon / (4 f), and from f = 1/2 on 1 - e^-epsilon (1 - f).
    """
    _require_promise(epsilon, 0.0)
    _require_probability("The false-positive rate", false_positive)
    if false_positive >= 0.5:
        return 1 - math.exp(-epsilon) * (1 - false_positive)
    risen = math.exp(min(epsilon, 700.0)) * false_positive
    return risen if risen <= 0.5 else 1 - math.exp(-epsilon) / (4 * false_positive)


def posterior(prior: float, epsilon: float) -> float:
    """Return the largest belief after the release, for a belief of ``prior`` before it (pure epsilon).

    Parameters
    ----------
    prior : float
        From 0 to 1.
    epsilon : float
        At least 0; infinity promises nothing.

    Returns
    -------
    float: prior e^eps / (prior e^eps + 1 - prior)
    """
    _require_probability("The prior", prior)
    _require_promise(epsilon, 0.0)
    return prior if prior in (0.0, 1.0) else float(expit(logit(prior) + epsilon))


def _require_promise(epsilon: float, delta: float) -> None:
    if not epsilon >= 0:
        raise PrivacyError(f"epsilon must be at least 0, got {epsilon}.")
    _require_probability("delta", delta)


def _require_mu(mu: float) -> None:
    if not mu >= 0:
        raise PrivacyError(f"mu must be at least 0, got {mu}.")


def _require_probability(name: str, value: float) -> None:
    if not 0 <= value <= 1:
        raise PrivacyError(f"{name} must lie between 0 and 1, got {value}.")


# The ceiling of one release -------------------------------------------------------------------------------------------


GUESSED_SHARES = (0.05, 0.25, 1.0)
"""Shares of the coins that the test guesses, those with the highest scores first; each gets a third of the level."""

_FOR_DELTA = 20
_GROWN = math.exp(SLACK_ALLOWANCE)
"""The grid of the noise moves every probability by at most this factor, in members and in non-members."""

_SPLIT_RELATIONS = frozenset({Neighbours.ADD_REMOVE, Neighbours.REPLACE})


@dataclass(frozen=True, slots=True)
class ProvenCeiling:
    """The ceilings of one release.

    Attributes
    ----------
    epsilon, delta : float
        As configured; its certificate states no more.
    receipts : tuple of Receipt
        All of its receipts; the test of whether it was exceeded rests on them.
    """

    epsilon: float
    delta: float
    receipts: tuple[Receipt, ...]

    @property
    def is_about_units(self) -> bool:
        """Whether every receipt hides a whole unit; other promises say nothing about membership of one."""
        return bool(self.receipts) and all(receipt.neighbours in _SPLIT_RELATIONS for receipt in self.receipts)

    @property
    def area(self) -> float:
        """Largest ROC AUC of any attack; 1 where nothing is proven about units."""
        if not self.is_about_units:
            return 1.0
        if self.delta == 0:
            return printed_ceiling(auc_ceiling(self.epsilon, 0.0))
        of_noise = _GROWN**2 * gaussian_auc(mu_of_budget(self.epsilon, self.delta)) + self.delta
        return printed_ceiling(min(auc_ceiling(self.epsilon, self.delta), of_noise))

    def caught(self, false_positive: float) -> float:
        """Return the largest true-positive rate at a false-positive rate; 1 where nothing is proven about units."""
        return caught_against_noise(self.epsilon, self.delta, false_positive) if self.is_about_units else 1.0

    def is_exceeded(
        self,
        members: NDArray[np.float64],
        non_members: NDArray[np.float64],
        *,
        level: float,
        seed: int,
        own_coins: bool = False,
    ) -> bool:
        """Say whether an attack did better than the proof allows, wrongly with a chance of at most ``level``.

        Where one unit is swapped for another (replace-one), a member and a non-member drawn by lot are one coin: which
        of the two was trained on. Where units come and go (add/remove), every unit is a coin.

        Parameters
        ----------
        members, non_members : arrays of shape (n,) and (m,)
            A score for every unit; larger is more like a member.
        level : float
            Chance of a false alarm, in (0, 1).
        seed : int
            Public; pairs units and breaks ties.
        own_coins : bool
            Whether every score has its own coin under replace-one too, as where each comes from another run.
        """
        if not (self.is_about_units and len(members) and len(non_members)):
            return False
        random = np.random.default_rng([seed, 3])
        paired = self.receipts[0].neighbours is Neighbours.REPLACE and not own_coins
        guess = _pair_guesses if paired else _unit_guesses
        tests = guess(members, non_members, random)
        part, coins = level / len(tests), len(tests[-1])
        delta = part / (2 * _FOR_DELTA * coins)
        chance = float(expit(epsilon_of_receipts(self.receipts, delta)))
        return any(_at_least(int(right.sum()), len(right), chance) + 2 * coins * delta < part for right in tests)


def caught_against_noise(epsilon: float, delta: float, false_positive: float) -> float:
    """Return the largest true-positive rate at a false-positive rate against Gaussian noise that keeps a promise.

    With a delta of 0 there is no such noise, and the ceiling is that of any pure epsilon.

    Parameters
    ----------
    epsilon, delta : float
        What is promised for one unit.
    false_positive : float
        From 0 to 1.

    Returns
    -------
    float in [0, 1], rounded up as it is printed
    """
    if delta == 0:
        return printed_ceiling(true_positive_ceiling(epsilon, delta, false_positive))
    mu = mu_of_budget(epsilon, delta)
    of_noise = _GROWN * gaussian_true_positive(mu, min(1.0, _GROWN * false_positive)) + delta
    return printed_ceiling(min(true_positive_ceiling(epsilon, delta, false_positive), of_noise))


def advantage_against_noise(epsilon: float, delta: float) -> float:
    """Return the largest true less false-positive rate against such noise, rounded up as it is printed."""
    if delta == 0:
        return printed_ceiling(advantage_ceiling(epsilon, delta))
    of_noise = gaussian_advantage(mu_of_budget(epsilon, delta)) + 2 * (_GROWN - 1) + delta
    return printed_ceiling(min(advantage_ceiling(epsilon, delta), of_noise))


def printed_ceiling(bound: float) -> float:
    """Round a bound up to a thousandth: what is printed is never below what is proven."""
    return min(1.0, math.ceil(1000 * bound - 1e-9) / 1000)


def _pair_guesses(
    members: NDArray[np.float64], non_members: NDArray[np.float64], random: np.random.Generator
) -> list[NDArray[np.bool_]]:
    """Say of pairs whether the higher score is the member's; the pairs with the highest scores first, ties by lot."""
    n = min(len(members), len(non_members))
    mine, theirs = random.permutation(members)[:n], random.permutation(non_members)[:n]
    right = np.where(mine == theirs, random.random(n) < 0.5, mine > theirs)
    # An order that does not know which of the two is the member.
    ordered = right[np.lexsort((random.random(n), -np.abs(mine - theirs), -np.maximum(mine, theirs)))]
    return [ordered[:guessed] for guessed in _numbers(n)]


def _unit_guesses(
    members: NDArray[np.float64], non_members: NDArray[np.float64], random: np.random.Generator
) -> list[NDArray[np.bool_]]:
    """Call the units with the highest scores members, ties by lot; of all units the higher half."""
    scores = np.concatenate([members, non_members])
    is_member = np.arange(len(scores)) < len(members)
    ordered = is_member[np.lexsort((random.random(len(scores)), -scores))]
    half = (len(scores) + 1) // 2
    *some, every = _numbers(len(scores))
    whole = np.concatenate([ordered[:half], ~ordered[half:]])
    return [*(ordered[:guessed] for guessed in some), whole[:every]]


def _at_least(right: int, guessed: int, chance: float) -> float:
    """Return the chance of at least so many successes of independent trials."""
    return float(betainc(right, guessed - right + 1, chance)) if right else 1.0


def _numbers(of: int) -> list[int]:
    return [max(1, round(share * of)) for share in GUESSED_SHARES]
