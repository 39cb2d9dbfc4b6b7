r"""What no attacker can exceed, in the words of odds, advantage and true-positive rate.

Any (epsilon, delta) promise bounds how well anybody tells a member from a non-member (Kairouz 2017);
a release that is known to be mu-GDP is bounded more tightly (Dong 2022, equation 6).
"""

from __future__ import annotations

import math

from scipy.special import expit, logit, ndtr, ndtri

from synth.errors import PrivacyError

__all__ = [
    "advantage_ceiling",
    "auc_ceiling",
    "gaussian_advantage",
    "gaussian_auc",
    "gaussian_true_positive",
    "laplace_advantage",
    "laplace_true_positive",
    "posterior",
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

    It also bounds many people's scores thrown together: the ceiling is concave, so their mean lies under it too.

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
    """Return the largest belief after the release of somebody who believed ``prior`` before (pure epsilon).

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
