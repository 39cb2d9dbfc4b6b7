"""How much noise a share of the budget asks for: a grid, a whole-number variance, and what they cost."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from synth.errors import PrivacyError
from synth.privacy.bounds import Bound, bound_of
from synth.privacy.costs import discretisation_slack, mu_of_gaussian, mu_squared_of, units_of
from synth.privacy.samplers import MAXIMUM_SCALE
from synth.privacy.terms import Term

__all__ = ["GaussianPlan", "gaussian_on_grid", "plan_gaussian"]

FINE, COARSE = (12, 14, 16, 18), (18, 16, 14, 12)
"""Bits of each side of a product, in order of preference; the grid has twice as many bits."""

SMALLEST_SENSITIVITY = 2.0**-6
"""A map that hardly tells two rows apart still gets noise that a grid can carry."""

NOISE_MARGIN = 1 + 1e-9


@dataclass(frozen=True, slots=True)
class GaussianPlan:
    """Noise of one question: all of it public, worked out before a row is read."""

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


def plan_gaussian(
    terms: Sequence[Term], between_neighbours: Callable[[Bound], float], *, units: int, slack: float
) -> GaussianPlan:
    """Find the least noise that keeps a sum within ``units`` of mu^2 and its discretisation within ``slack``.

    Parameters
    ----------
    terms : sequence of Term
        The map, written out as blocks.
    between_neighbours : callable
        Turns the bound of one row into that of one unit under the session's relation.
    units : int
        Cost allowed, in units of 2^-40 of mu^2.
    slack : float
        Discretisation cost c allowed.

    Raises
    ------
    PrivacyError
        If no grid carries such noise: the share is far too small or far too large.
    """
    dimension = sum(term.places.size for term in terms)
    for half_bits in FINE if all(term.is_exact for term in terms) else COARSE:
        sensitivity = between_neighbours(bound_of(terms, half_bits=half_bits))
        plan = gaussian_on_grid(half_bits, sensitivity, dimension=dimension, units=units)
        if plan.slack <= slack and math.isqrt(plan.variance) + 1 <= MAXIMUM_SCALE:
            return plan
    raise PrivacyError(
        f"No grid carries the noise of a question with {dimension:,} numbers at this share of the budget; "
        "ask fewer numbers at a time, or choose epsilon between 0.001 and 100."
    )


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


def _variance(sensitivity: float, units: int) -> int:
    """Return the least variance, up to a relative 1e-9, in squared grid steps for a sensitivity in grid steps."""
    # The margin covers every rounding on the way back from this variance to a cost: the cost never exceeds ``units``.
    return math.ceil(sensitivity**2 / mu_squared_of(units) * NOISE_MARGIN)
