"""Sums of feature maps over all rows, with discrete Gaussian noise: how much, and what comes of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from synth.errors import PrivacyError
from synth.privacy.costs import discretisation_slack, mu_of_gaussian, mu_squared_of, units_of
from synth.privacy.counting import Rows
from synth.privacy.feature_maps import Block, FeatureMap, blocks_of, bound_of, exact_sum
from synth.privacy.known_maps import add_map, check_fits, same_map
from synth.privacy.noise import MAXIMUM_SCALE, NoiseSource
from synth.privacy.questions import (
    Allowance,
    Answer,
    Digest,
    Numbers,
    Question,
    require_whole_rows,
)
from synth.privacy.receipt import PlannedCost, Receipt
from synth.privacy.sensitivity import Bound, between_neighbours
from synth.schema import Schema

__all__ = [
    "FINE",
    "GaussianPlan",
    "NoisyAnswer",
    "NoisySum",
    "SumPlan",
    "gaussian_on_grid",
    "plan_gaussian",
    "sensitivity_of_sum",
]

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
        """PlannedCost in units of mu^2."""
        return units_of(mu_of_gaussian(sensitivity=self.sensitivity, noise_std=self.noise_std) ** 2)


def plan_gaussian(
    blocks: Sequence[Block], unit_bound: Callable[[Bound], float], *, units: int, slack: float
) -> GaussianPlan:
    """Find the least noise that keeps a sum within ``units`` of mu^2 and its discretisation within ``slack``.

    Parameters
    ----------
    blocks : sequence of Block
        The map, written out.
    unit_bound : callable
        Turns the bound of one row into that of one unit under the session's relation.
    units : int
        PlannedCost allowed, in units of 2^-40 of mu^2.
    slack : float
        Discretisation cost c allowed.

    Raises
    ------
    PrivacyError
        If no grid carries such noise: the share is far too small or far too large.
    """
    dimension = sum(block.places.size for block in blocks)
    for half_bits in FINE if all(block.map.is_exact for block in blocks) else COARSE:
        sensitivity = unit_bound(bound_of(blocks, half_bits=half_bits))
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
        PlannedCost allowed, in units of 2^-40 of mu^2.
    """
    sensitivity = max(sensitivity, SMALLEST_SENSITIVITY)
    variance = _variance(sensitivity * 2.0 ** (2 * half_bits), units)
    return GaussianPlan(half_bits, sensitivity, variance, discretisation_slack(dimension=dimension, variance=variance))


def _variance(sensitivity: float, units: int) -> int:
    """Return the least variance, up to a relative 1e-9, in squared grid steps for a sensitivity in grid steps."""
    # The margin covers every rounding on the way back from this variance to a cost: the cost never exceeds ``units``.
    return math.ceil(sensitivity**2 / mu_squared_of(units) * NOISE_MARGIN)


def sensitivity_of_sum(feature_map: FeatureMap, schema: Schema, *, half_bits: int) -> float:
    """Return the L2 sensitivity of a sum, in units of the answer.

    Parameters
    ----------
    feature_map : FeatureMap
        The question; it fits the schema.
    schema : Schema
        Says which change is hidden, and how many rows a unit has.
    half_bits : int
        The sum is taken on a grid of step 2^-(2 half_bits).

    Raises
    ------
    PrivacyError
        If the map is not one whose bound is known.
    """
    row = feature_map.bound(half_bits=half_bits)
    return max(between_neighbours(row, schema), SMALLEST_SENSITIVITY)


@dataclass(frozen=True, slots=True, eq=False)
class SumPlan:
    """Noise of a sum, and its map written out."""

    blocks: tuple[Block, ...]
    gaussian: GaussianPlan

    @property
    def coordinates(self) -> int:
        """Numbers of the answer."""
        return sum(block.places.size for block in self.blocks)

    @property
    def costs(self) -> tuple[PlannedCost, ...]:
        """The one cost."""
        noise = self.gaussian
        cost = PlannedCost(
            mechanism="discrete_gaussian",
            sensitivity=noise.sensitivity,
            noise_scale=noise.noise_std,
            dimension=self.coordinates,
            grid=noise.grid,
            mu_squared_units=noise.units,
            slack=noise.slack,
        )
        return (cost,)


@dataclass(frozen=True, slots=True, eq=False)
class NoisyAnswer(Answer):
    """One noisy sum and its receipt; safe to keep, print and publish."""

    receipt: Receipt
    value: NDArray[np.float64]
    """Noisy answer, in units of the answer, in the shape of the question; read-only."""
    feature_map: FeatureMap
    """The public question: a feature map of the closed set."""

    def __post_init__(self) -> None:
        value = np.array(self.value, dtype=np.float64)
        value.setflags(write=False)
        object.__setattr__(self, "value", value)

    @property
    def receipts(self) -> tuple[Receipt, ...]:
        """The one receipt."""
        return (self.receipt,)

    @property
    def noise_std(self) -> float:
        """Standard deviation of the noise on every coordinate, in units of the answer.

        Raises
        ------
        PrivacyError
            If the receipt is of an answer that has no noise on coordinates.
        """
        if self.receipt.mechanism != "discrete_gaussian":
            raise PrivacyError(f"'{self.receipt.query}' is a selection; it has no standard deviation of noise.")
        return self.receipt.noise_scale


@dataclass(frozen=True, slots=True, eq=False)
class NoisySum(Question[SumPlan, NoisyAnswer]):
    """A feature map that is added up over all rows."""

    feature_map: FeatureMap

    def check(self, schema: Schema) -> None:
        """Refuse a map that is not of the closed set, or was made for another table; and any where a cell is hidden."""
        require_whole_rows(schema)
        check_fits(self.feature_map, schema)

    def plan(self, allowed: Allowance) -> SumPlan:
        """Find the least Gaussian noise."""
        blocks = blocks_of(self.feature_map)
        noise = plan_gaussian(blocks, allowed.between_neighbours, units=allowed.units, slack=allowed.slack)
        return SumPlan(blocks, noise)

    def digest(self) -> str:
        """Return the digest of the map."""
        found = Digest("map")
        add_map(found, self.feature_map)
        return found.hexdigest()

    def draw(self, plan: SumPlan, rows: Rows, noise: NoiseSource, *, device: str) -> Numbers:
        """Add up exactly, and add noise."""
        sums = exact_sum(plan.blocks, rows, half_bits=plan.gaussian.half_bits, device=device)
        return (sums + noise.gaussian(plan.gaussian.variance, sums.size),)

    def answer(self, receipts: tuple[Receipt, ...], numbers: Numbers) -> NoisyAnswer:
        """Return the sum in units of the answer."""
        (receipt,), (noisy,) = receipts, numbers
        return NoisyAnswer(
            receipt, noisy.astype(np.float64).reshape(self.feature_map.shape) * receipt.grid, self.feature_map
        )

    def again(self, answer: Answer) -> NoisyAnswer:
        """Return an old sum of the same map."""
        if not isinstance(answer, NoisyAnswer) or not same_map(answer.feature_map, self.feature_map):
            raise PrivacyError(
                f"'{answer.query}' was asked with another feature map; use the options of the recorded run."
            )
        return answer

    def foreseen(self, receipts: tuple[Receipt, ...], plan: SumPlan) -> NoisyAnswer:
        """Return zeros."""
        return self.answer(receipts, (np.zeros(plan.coordinates, dtype=np.int64),))
