r"""What one mechanism costs: its mu, in whole units of mu^2, and the slack of noise on a grid.

Every number here is rounded up. The proofs stand in ``docs/proofs``: ``exponential-mechanism.md``,
``discretisation-slack.md`` and ``noisy-rows.md``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from scipy.special import erfinv, expit, log_ndtr, ndtri

from synth.errors import PrivacyError

__all__ = [
    "MU_UNIT", "discretisation_slack", "exponential_of_mu", "mu_of_exponential", "mu_of_gaussian", "mu_of_pure",
    "mu_squared_of", "pure_of_mu", "total_up", "units_of",
]  # fmt: skip

MU_UNIT = 2.0**-40
"""Costs are whole multiples of this much mu^2, or of this much pure epsilon, rounded up."""

_MARGIN = 1e-9
"""Relative margin of searches, always on the safe side."""

_ROUNDING = 2.0**-46
"""Relative margin over the last bits of a few float64 operations."""


def units_of(mu_squared: float) -> int:
    """Return the cost ``mu_squared`` in whole units of 2^-40, rounded up."""
    if not (math.isfinite(mu_squared) and mu_squared >= 0):
        raise PrivacyError(f"mu squared must be finite and at least 0, got {mu_squared}.")
    return math.ceil(mu_squared / MU_UNIT)


def mu_squared_of(units: int) -> float:
    """Return whole units of 2^-40 as mu^2; never below the true value."""
    if units < 0:
        raise PrivacyError(f"A cost cannot be negative, got {units} units.")
    value = units * MU_UNIT
    return value if int(value / MU_UNIT) >= units else math.nextafter(value, math.inf)


def mu_of_gaussian(*, sensitivity: float, noise_std: float) -> float:
    """Return mu = sensitivity / noise_std of a Gaussian release, rounded up; both in units of the answer."""
    _require_positive("sensitivity", sensitivity)
    _require_positive("noise_std", noise_std)
    return sensitivity / noise_std * (1 + _ROUNDING)


def mu_of_exponential(parameter: float) -> float:
    r"""Return mu of the exponential mechanism, rounded up: 2 Phi^-1(1 / (1 + exp(-e/2))).

    Parameters
    ----------
    parameter : float
        e, where candidates have weight exp(e * score / (2 * sensitivity)); positive.

    Notes
    -----
    The loss lies in an interval of length e; see ``docs/proofs/exponential-mechanism.md``.
    """
    _require_positive("The parameter of a selection", parameter)
    # Phi^-1(1/2 + y/2) = sqrt(2) erfinv(y) keeps its digits near 1/2, the lower tail keeps them near 1
    half = math.sqrt(2) * erfinv(math.tanh(parameter / 4)) if parameter < 4 else -ndtri(expit(-parameter / 2))
    return 2 * float(half) * (1 + _ROUNDING)


def exponential_of_mu(mu: float) -> float:
    """Return the largest parameter e, less a relative 1e-9, whose ``mu_of_exponential`` is at most ``mu``."""
    _require_positive("mu", mu)
    # the same two ways round as in mu_of_exponential
    exact = 4 * math.atanh(math.erf(mu / math.sqrt(8))) if mu < 2 else 2 * float(log_ndtr(mu / 2) - log_ndtr(-mu / 2))
    return exact * (1 - _MARGIN)


def mu_of_pure(epsilon: float) -> float:
    """Return mu of a pure epsilon-DP mechanism: its loss lies in an interval of length 2 epsilon."""
    _require_positive("epsilon", epsilon)
    return mu_of_exponential(2 * epsilon)


def pure_of_mu(mu: float) -> float:
    """Return the largest pure epsilon, less a relative 1e-9, whose ``mu_of_pure`` is at most ``mu``."""
    return exponential_of_mu(mu) / 2


def discretisation_slack(*, dimension: int, variance: int) -> float:
    """Return c = 6 dimension / variance of one discrete Gaussian release, rounded up.

    Parameters
    ----------
    dimension : int
        Noisy coordinates.
    variance : int
        Of the noise, in squared grid units; at least 1.
    """
    if dimension < 1 or variance < 1:
        raise PrivacyError(f"A release needs a dimension and a variance of at least 1, got {dimension} and {variance}.")
    return math.nextafter(6 * dimension / variance, math.inf)


def total_up(values: Iterable[float]) -> float:
    """Add numbers of at least 0 and round the sum up; an empty or zero sum stays 0."""
    total = math.fsum(values)
    return math.nextafter(total, math.inf) if total > 0 else 0.0


def _require_positive(name: str, value: float) -> None:
    if not (math.isfinite(value) and value > 0):
        raise PrivacyError(f"{name} must be positive and finite, got {value}.")
