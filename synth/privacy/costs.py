r"""From how far one row moves an answer to what its noise costs: bounds, mu, whole units of mu^2, slack, least noise.

How far one row moves an answer is calculated from the question. A session plans its noise by these numbers, and anyone
who checks a bundle calculates them again from its contents. Every number here is rounded up. The proofs are in
``docs/proofs``: ``sensitivity.md``, ``exponential-mechanism.md``, ``discretisation-slack.md`` and ``noisy-rows.md``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

from scipy.special import erfinv, expit, log_ndtr, ndtri

from synth.errors import PrivacyError
from synth.schema import Neighbours, Schema

__all__ = [
    "MU_UNIT",
    "Bound",
    "GaussianPlan",
    "LaplacePlan",
    "between_neighbours",
    "discretisation_slack",
    "exponential_of_mu",
    "gaussian_of_multiplier",
    "gaussian_on_grid",
    "laplace_on_grid",
    "mu_of_exponential",
    "mu_of_gaussian",
    "mu_of_pure",
    "mu_squared_of",
    "pure_of_mu",
    "total_up",
    "units_of",
]

MU_UNIT = 2.0**-40
"""Costs are whole multiples of this much mu^2, or of this much pure epsilon, rounded up."""

_MARGIN = 1e-9
"""Relative margin of searches, always on the safe side."""

_ROUNDING = 2.0**-46
"""Relative margin over the last bits of a few float64 operations."""

SMALLEST_SENSITIVITY = 2.0**-6
"""A map that hardly distinguishes two rows still gets noise that a grid can carry."""

NOISE_MARGIN = 1 + 1e-9


@dataclass(frozen=True, slots=True)
class Bound:
    """Largest norm of a row's features, and largest distance between the features of two rows."""

    norm: float
    diameter: float


def between_neighbours(row: Bound, schema: Schema, *, rows: int | None = None) -> float:
    """Turn the bound of one row into that of one unit: the neighbouring factor, here and nowhere else.

    A replaced unit of several rows may come back with fewer; a missing row counts as the zero vector. ``rows`` is 1
    where a unit's rows are bounded together, and else what the schema declares.
    """
    m, replace = rows or schema.unit.rows_per_unit, schema.neighbours is not Neighbours.ADD_REMOVE
    return m * (max(row.diameter, row.norm if m > 1 else 0.0) if replace else row.norm)


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
    # the same two cases as in mu_of_exponential
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


@dataclass(frozen=True, slots=True)
class GaussianPlan:
    """Noise of one question: all of it public, calculated before a row is read."""

    half_bits: int
    sensitivity: float
    variance: int
    slack: float

    @property
    def grid(self) -> float:
        """Grid step, in units of the answer."""
        return 2.0 ** (-2 * self.half_bits)

    @property
    def noise_std(self) -> float:
        """Standard deviation of the noise, in units of the answer, rounded down."""
        return math.nextafter(math.sqrt(self.variance) * self.grid, 0.0)

    @property
    def units(self) -> int:
        """Cost in units of mu^2."""
        return units_of(mu_of_gaussian(sensitivity=self.sensitivity, noise_std=self.noise_std) ** 2)


def gaussian_on_grid(half_bits: int, sensitivity: float, *, dimension: int, units: int) -> GaussianPlan:
    """Return the least noise that keeps one release within ``units`` of mu^2 on one grid.

    Parameters
    ----------
    half_bits : int
        The grid step is 2^-(2 half_bits), in units of the answer.
    sensitivity : float
        In units of the answer.
    dimension : int
        Noisy coordinates that can differ between neighbours.
    units : int
        Cost allowed, in units of 2^-40 of mu^2.
    """
    sensitivity = max(sensitivity, SMALLEST_SENSITIVITY)
    variance = _variance(sensitivity * 2.0 ** (2 * half_bits), units)
    return GaussianPlan(half_bits, sensitivity, variance, discretisation_slack(dimension=dimension, variance=variance))


@dataclass(frozen=True, slots=True)
class LaplacePlan:
    """Laplace noise of one question: all of it public, calculated before a row is read.

    Attributes
    ----------
    half_bits : int
        The grid step is 2^-(2 half_bits), in units of the answer.
    sensitivity : float
        Largest L1 change between neighbours, in units of the answer.
    scale : int
        Of the noise, in grid steps.
    """

    half_bits: int
    sensitivity: float
    scale: int

    @property
    def grid(self) -> float:
        """Grid step, in units of the answer."""
        return 2.0 ** (-2 * self.half_bits)

    @property
    def noise_scale(self) -> float:
        """Scale of the noise, in units of the answer; exact, as a grid step is a power of 2."""
        return self.scale * self.grid


def laplace_on_grid(half_bits: int, sensitivity: float, *, units: int) -> LaplacePlan:
    """Return the least Laplace noise that keeps one release within ``units`` of pure epsilon on one grid.

    Parameters
    ----------
    half_bits : int
        The grid step is 2^-(2 half_bits), in units of the answer.
    sensitivity : float
        L1, in units of the answer.
    units : int
        Cost allowed, in units of 2^-40 of epsilon.
    """
    sensitivity = max(sensitivity, SMALLEST_SENSITIVITY)
    steps = Fraction(sensitivity) * 2 ** (2 * half_bits)
    return LaplacePlan(half_bits, sensitivity, math.ceil(steps / (units * Fraction(MU_UNIT))))


def gaussian_of_multiplier(
    half_bits: int, sensitivity: float, *, dimension: int, noise_multiplier: float
) -> GaussianPlan:
    """Return the least noise on one grid whose standard deviation is at least ``noise_multiplier * sensitivity``.

    Parameters
    ----------
    half_bits, sensitivity, dimension
        As in :func:`gaussian_on_grid`.
    noise_multiplier : float
        Standard deviation of the noise over the sensitivity.
    """
    sensitivity = max(sensitivity, SMALLEST_SENSITIVITY)
    variance = math.ceil((noise_multiplier * sensitivity * 2.0 ** (2 * half_bits)) ** 2 * NOISE_MARGIN)
    return GaussianPlan(half_bits, sensitivity, variance, discretisation_slack(dimension=dimension, variance=variance))


def _variance(sensitivity: float, units: int) -> int:
    """Return the least variance, up to a relative 1e-9, in squared grid steps for a sensitivity in grid steps."""
    # The margin covers every rounding on the way back from this variance to a cost: the cost never exceeds ``units``.
    return math.ceil(sensitivity**2 / mu_squared_of(units) * NOISE_MARGIN)


def _require_positive(name: str, value: float) -> None:
    if not (math.isfinite(value) and value > 0):
        raise PrivacyError(f"{name} must be positive and finite, got {value}.")
