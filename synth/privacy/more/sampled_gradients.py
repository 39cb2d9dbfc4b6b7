r"""DP-SGD: gradients of a critic on Poisson samples of units, each shortened by itself, at every step of a training.

At every step each unit is drawn by itself with a public probability q. The gradients of a drawn unit's rows are
shortened so that their sum is at most C long, and added up over the units drawn (Abadi 2016, algorithm 1):

.. math:: \sum_{u \in S_t} g_u / \max(1, \ell_u / C) + \text{noise}, \qquad \ell_u = \sum_{i \in u} \|g_i\| \ge \|g_u\|

Units are drawn with random bits of the noise's own key; neither how many were drawn nor which is ever shown. What is
learned divides by q times a public or released number of units.

One unit more or less moves a step by at most C, and only if it was drawn, so all steps together cost less than the
noise alone says (``docs/proofs/sampled-runs.md``). That is proven for one unit more or less alone. It does not hold
where a unit has several rows that nothing holds together, each of which would be drawn by itself.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from synth.errors import PrivacyError
from synth.privacy.accounting import units_left_beside
from synth.privacy.costs import gaussian_of_multiplier, mu_squared_of
from synth.privacy.counting import PrivateRows
from synth.privacy.feature_maps import Arrays, Inner, binned
from synth.privacy.more.critics import (
    CRITIC_LOSSES,
    NUMBER_BITS,
    Critic,
    CriticLoss,
    rounded_lengths,
    row_terms,
    sum_of_terms,
    whole_weights,
)
from synth.privacy.more.gradients import GRIDS, LARGEST_CLIP, SMALLEST_CLIP, UNIT_BITS, units_in_order
from synth.privacy.more.lookups import LEAF_BITS, Lookup
from synth.privacy.more.sampled_runs import (
    SAMPLING_DELTA_PART,
    noise_multiplier_of,
)
from synth.privacy.more.training_steps import PublicTraining, Step, StepsPlan, StepsQuestion
from synth.privacy.noise import MAXIMUM_SCALE, SAMPLING_BITS, NoiseSource
from synth.privacy.questions import Allowance
from synth.privacy.receipt import Mechanism, PlannedCost, Receipt
from synth.schema import Neighbours, Schema

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["SampledGradients", "whole_rate"]

LEAST_RATE = 2 ** (SAMPLING_BITS - 30)
MOST_STEPS = 100_000
MOST_ROWS = 2**16
"""Most rows of a unit: their lengths add up far below 2^53 steps."""

BLOCK_ROWS = 2**14
"""Drawn rows worked on at a time; changes nothing else."""


@dataclass(frozen=True, slots=True, eq=False)
class SampledGradients(StepsQuestion):
    """The gradient of a critic's loss on private rows, at every step on a new Poisson sample of units.

    Parameters
    ----------
    tables : tuple of Lookup
        Columns, each once, whose vectors side by side are what the critic reads of a row.
    hidden : tuple of int
        Widths of the critic's hidden layers.
    loss : {"logistic", "wasserstein"}
    clip : float
        C, the length to which longer gradients of a unit are shortened; from 2^-20 to 2^20.
    rate : int
        Probability q with which a unit is drawn at a step, in steps of 2^-32; at least 2^-30.
    steps : int
        From 1 to 100,000.
    training : PublicTraining, optional
        Learns from the steps. Its points are the critic's weights, layer by layer (:attr:`Critic.shapes`), rounded to
        multiples of 2^-16; an answer is a sum of gradients in units of ``clip``.

    Raises
    ------
    PrivacyError
        If the parts do not fit each other, or a number is out of bounds.
    """

    kind: ClassVar[str] = "sampled gradients"
    mechanism: ClassVar[Mechanism] = "sampled_gaussian"

    tables: tuple[Lookup, ...]
    hidden: tuple[int, ...]
    loss: CriticLoss
    clip: float
    rate: int
    steps: int
    training: PublicTraining | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        tables = tuple(self.tables)
        is_lookups = len(tables) > 0 and all(type(one) is Lookup for one in tables)
        if not is_lookups or len({one.column for one in tables}) < len(tables):
            raise PrivacyError("What a critic reads are lookups of at least one column, each column once.")
        if self.loss not in CRITIC_LOSSES:
            raise PrivacyError(f"The loss of a critic must be one of {', '.join(CRITIC_LOSSES)}, got '{self.loss}'.")
        if not SMALLEST_CLIP <= self.clip <= LARGEST_CLIP:
            raise PrivacyError(f"The clip norm of a gradient must lie between 2^-20 and 2^20, got {self.clip}.")
        if not LEAST_RATE <= self.rate <= 2**SAMPLING_BITS:
            raise PrivacyError("A unit must be drawn with a probability of at least 2^-30 and at most 1.")
        if not 1 <= self.steps <= MOST_STEPS:
            raise PrivacyError(f"A training on samples has from 1 to {MOST_STEPS:,} steps, got {self.steps:,}.")
        object.__setattr__(self, "tables", tables)
        object.__setattr__(self, "hidden", tuple(int(width) for width in self.hidden))
        object.__setattr__(self, "clip", float(self.clip))
        _ = self.critic  # refuses sizes

    @property
    def critic(self) -> Critic:
        """The critic's shape."""
        return Critic(sum(one.dimension for one in self.tables), self.hidden)

    @property
    def dimension(self) -> int:
        """Weights of the critic."""
        return self.critic.size

    @property
    def probability(self) -> float:
        """Probability q with which a unit is drawn."""
        return self.rate / 2.0**SAMPLING_BITS

    def check(self, schema: Schema) -> None:
        """Refuse what sampling does not protect: another unit in place of one, and rows that nothing holds together."""
        schema.require_whole_rows()
        if schema.neighbours is not Neighbours.ADD_REMOVE:
            raise PrivacyError(
                "A training on random samples is private if the number of rows is private as well; declare "
                "'row_count: private', or choose another generator."
            )
        unit = schema.unit
        if unit.rows_per_unit > 1 and unit.id_column is None:
            raise PrivacyError(
                f"A training on random samples needs an id column where one {unit.protects} may have several rows, so "
                "that they are drawn together; declare 'id:', or choose another generator."
            )
        if unit.rows_per_unit > MOST_ROWS:
            raise PrivacyError(f"A gradient can be asked of units of at most {MOST_ROWS:,} rows.")
        for one in self.tables:
            one.check_codes(schema)

    def sensitivity(self, schema: Schema) -> float:
        """Return the most that one unit adds to a step in which it is drawn, in units of ``clip``."""
        return 1.0

    def plan(self, allowed: Allowance) -> StepsPlan:
        """Find the least noise: a part of delta is set aside, and what is left pays for all steps.

        Each further training of a run has to pay more for its part of delta, as less of it is left.
        """
        delta, before = allowed.budget.delta * SAMPLING_DELTA_PART, allowed.additive_delta
        left = [units_left_beside(allowed.budget, added) for added in (before, before + delta)]
        units = allowed.units - (left[0] - left[1])
        if units < 1:
            raise PrivacyError("The share of a training on samples is too small; give it more of the budget.")
        multiplier = noise_multiplier_of(
            self.probability, self.steps, mu_squared=mu_squared_of(units), additive_delta=delta
        )
        coordinates = self.steps * self.dimension
        for half_bits in GRIDS:
            noise = gaussian_of_multiplier(half_bits, 1.0, dimension=coordinates, noise_multiplier=multiplier)
            if noise.slack <= allowed.slack and math.isqrt(noise.variance) + 1 <= MAXIMUM_SCALE:
                break
        else:
            raise PrivacyError(
                f"No grid carries the noise of {self.steps:,} steps with {self.dimension:,} numbers each; take fewer "
                "steps or a smaller critic."
            )
        cost = PlannedCost.of_sampled_run(
            noise, coordinates, sampling_rate=self.probability, steps=self.steps, additive_delta=delta
        )
        return StepsPlan(noise, cost)

    def of_rows(self, plan: StepsPlan, rows: PrivateRows, noise: NoiseSource, *, device: str) -> Step:
        """Return what draws units and adds up their shortened gradients."""
        import torch

        several = rows.units is not None  # as declared, so that what a unit adds depends on its own rows alone
        order, ends = units_in_order(rows, by_unit=several)
        reads = _Rows.of(self.tables, rows, device)
        shift = 2 * plan.gaussian.half_bits - UNIT_BITS

        def step(number: int, at: NDArray[np.float64]) -> NDArray[np.int64]:
            whole = torch.from_numpy(whole_weights(self.critic, at)).to(device)
            drawn = noise.sample(len(ends), rate=self.rate)
            total = np.zeros(self.dimension, dtype=np.int64)
            for places, starts in _blocks(drawn, order, ends):
                terms = row_terms(self.critic, whole, reads(places), self.loss)
                lengths = terms.lengths()
                if several:
                    of_units = rounded_lengths(lengths, starts)
                    lengths = np.repeat(of_units, np.diff(starts, append=len(places)))
                total += sum_of_terms(terms, lengths, clip=self.clip)
            return total << shift

        return step

    def problems(self, receipt: Receipt) -> Iterator[str]:
        """Yield where the receipt is of another sample or number of steps."""
        if (receipt.sampling_rate, receipt.steps) != (self.probability, self.steps):
            yield f"The receipt of '{receipt.query}' is for another sampling rate or number of steps than its question."

    def to_json(self, name: str, arrays: Arrays) -> tuple[dict[str, Any], Arrays]:
        """Return tables, shape, loss, clip norm, rate and steps."""
        tables = [one.to_json(f"{name}.{place}", arrays) for place, one in enumerate(self.tables)]
        said = {"hidden": list(self.hidden), "loss": self.loss, "clip": self.clip, "rate": self.rate}
        return {"tables": tables, **said, "steps": self.steps}, arrays

    @classmethod
    def from_json(cls, said: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], inner: Inner) -> Self:
        """Make the question of its parts."""
        tables = tuple(inner(one) for one in said["tables"])
        hidden, loss, clip, rate, steps = (said[name] for name in ("hidden", "loss", "clip", "rate", "steps"))
        return cls(tables, tuple(hidden), loss, float(clip), int(rate), int(steps))  # type: ignore[arg-type]


def whole_rate(probability: float) -> int:
    """Return a probability in steps of 2^-32, at least 2^-30 and at most 1."""
    return int(min(max(round(min(probability, 1.0) * 2.0**SAMPLING_BITS), LEAST_RATE), 2**SAMPLING_BITS))


@dataclass(frozen=True, slots=True, eq=False)
class _Rows:
    """What a critic reads of rows: each column's bins, and the table where these are looked up."""

    tables: tuple[tuple[NDArray[np.float64], NDArray[Any]], ...]
    device: str

    @classmethod
    def of(cls, tables: tuple[Lookup, ...], rows: PrivateRows, device: str) -> Self:
        found = []
        for one in tables:
            steps = np.trunc(one.whole * 2.0 ** (NUMBER_BITS - LEAF_BITS))
            found.append((steps, np.asarray(binned(rows.column(one.column), one.bins))))
        return cls(tuple(found), device)

    def __call__(self, places: NDArray[np.int64]) -> Tensor:
        """Return the numbers of some rows in steps of 2^-16, shape (width, n_rows), float64."""
        import torch

        numbers = np.concatenate([table[bins[places]] for table, bins in self.tables], axis=1)
        return torch.from_numpy(numbers).to(self.device).T


def _blocks(
    drawn: NDArray[np.int64], order: NDArray[np.int64], ends: NDArray[np.int64]
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Yield the rows of the units drawn, some units at a time, and where each unit begins among them."""
    begins = ends[drawn - 1]
    begins[drawn == 0] = 0
    sizes = ends[drawn] - begins
    done = np.cumsum(sizes)
    first = 0
    while first < len(drawn):
        before = int(done[first - 1]) if first else 0
        last = max(first + 1, int(np.searchsorted(done, before + BLOCK_ROWS, side="right")))
        some = sizes[first:last]
        starts = np.cumsum(some) - some
        places = np.arange(int(some.sum())) - np.repeat(starts, some) + np.repeat(begins[first:last], some)
        yield order[places], starts
        first = last
