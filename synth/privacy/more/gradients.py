r"""Clipped gradients: what a unit's rows add to the gradient of a loss, clipped as one vector and added up over units.

.. math:: g_u = \mathrm{clip}\Big(\frac{1}{C} \sum_{i \in u} \ell'(\langle \theta, \phi(x_i) \rangle, y_i) \,
    \phi(x_i)\Big), \qquad \sum_u g_u + \text{noise}

where the loss l is one of a closed set, phi are the features of declared columns, y is a declared target, theta are
public parameters (they may follow from earlier answers) and C is the clip norm. Of several classes there is a theta for
each, and the slopes of all of them times the features are one vector. A unit moves the sum by at most C, or
2 C where it is replaced, whatever its number of rows, the loss, the features and the parameters: the clip comes after
the unit's rows are added up. Answers are in units of C. Where a unit may have several rows and there are no ids, every
row is clipped to its part of C.

What a unit adds is a vector of whole numbers that follows from its own rows and the question, to the last bit. Up to
the clip everything is whole: features are looked up in public tables of whole numbers, predictions are sums of whole
products below 2^52, which float64 holds in any order, slopes are truncated or looked up, and products of slopes and
features are added up in int64. The clip is that of the moments of rows (``docs/proofs/gradients.md``).
"""

from __future__ import annotations

import functools
import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from synth.errors import PrivacyError
from synth.privacy.costs import Bound, GaussianPlan, between_neighbours
from synth.privacy.counting import PrivateRows
from synth.privacy.feature_maps import FeatureMap, binned, frozen
from synth.privacy.more.linear_predictions import (
    FEATURE_BITS,
    LARGEST_PREDICTION,
    PARAMETER_BITS,
    FeatureBlock,
    largest_features,
    maps_in,
    on_grid,
    require_looked_up,
)
from synth.privacy.more.lookups import LEAF_BITS, Lookup
from synth.privacy.more.row_moments import clipped_columns
from synth.privacy.noise import NoiseSource
from synth.privacy.questions import Allowance, Answer, Digest, Numbers, OneReceipt, Question
from synth.privacy.receipt import PlannedCost, Receipt
from synth.schema import Schema

if TYPE_CHECKING:
    from torch import Tensor

__all__ = [
    "CLIPPED_UNIT",
    "GRIDS",
    "LOSSES",
    "GradientPlan",
    "GradientQuestion",
    "Loss",
    "NoisyGradient",
    "UnitQuestion",
    "clipped_units",
    "logistic_of",
    "sum_of_gradients",
    "units_in_order",
]

Loss = Literal["squared", "logistic", "huber", "softmax"]
LOSSES: tuple[Loss, ...] = get_args(Loss)
"""Half the squared error; minus the log likelihood of a target in [0, 1]; Huber's loss, half the square near 0; minus
the log likelihood of one of several classes, whose probabilities are exponentials divided by their sum."""

CLIPPED_UNIT = Bound(norm=1.0, diameter=2.0)
"""What one unit adds, in units of the clip norm."""

MOST_ROWS = 2**16
"""Rows of one unit: with slopes of at most 2^30 + 2^16 steps and features of at most 2^16 no sum leaves int64."""

SMALLEST_CLIP, LARGEST_CLIP = 2.0**-20, 2.0**20

UNIT_BITS = 24
"""A clipped gradient is whole multiples of 2^-24."""

GRIDS = (12, 14, 16, 18)
"""Halves of the bits of the grid of an answer, in order of preference."""

HUBER_STEPS = math.floor(0.1 * 2**FEATURE_BITS)
"""Where Huber's loss turns from square to straight: an error of about 0.1 of what a target may be."""

LOGISTIC_BITS, LOGISTIC_END = 10, 16
"""The logistic function is looked up at multiples of 2^-10 from -16 to 16, beyond which it is 0 or 1 to 2^-23."""

EXPONENTIAL_BITS = 20
"""The exponential is looked up from -16 to 0 at the same multiples, in whole steps of 2^-20: 0 below -14.6."""

BLOCK_ENTRIES = 2**21
"""Features worked on at a time; changes nothing else."""


@dataclass(frozen=True, slots=True)
class GradientPlan:
    """Noise of one gradient, and how its rows are clipped: all of it public.

    Attributes
    ----------
    gaussian : GaussianPlan
        In units of the clip norm.
    dimension : int
        Numbers of the gradient.
    by_unit : bool
        Whether ids show which rows belong to a unit, so that they are clipped together; else each row is by itself.
    rows_each : int
        Where rows are clipped one by one, how many a unit may have: each gets an equal part of the clip norm.
    """

    gaussian: GaussianPlan
    dimension: int
    by_unit: bool
    rows_each: int

    @property
    def coordinates(self) -> int:
        """Numbers of the gradient."""
        return self.dimension

    @property
    def costs(self) -> tuple[PlannedCost, ...]:
        """The one cost."""
        return (PlannedCost.of_sum(self.gaussian, self.dimension),)


@dataclass(frozen=True, slots=True, eq=False)
class NoisyGradient(OneReceipt):
    """One noisy sum of clipped gradients and its receipt; safe to keep, print and publish."""

    receipt: Receipt
    question: UnitQuestion
    """What was asked; public."""
    value: NDArray[np.float64]
    """Noisy sum over units, in units of the clip norm, shape (dimension,); read-only."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "value", frozen(np.array(self.value, dtype=np.float64)))

    @property
    def gradient(self) -> NDArray[np.float64]:
        """The noisy sum in units of the loss, shape (dimension,)."""
        return self.value * self.question.clip

    @property
    def noise_std(self) -> float:
        """Standard deviation of the noise on every number of ``gradient``."""
        return self.receipt.noise_scale * self.question.clip


class UnitQuestion(Question[GradientPlan, NoisyGradient]):
    """A sum over units: what a unit's rows add, at public parameters, is added up first and then bounded.

    A subclass defines what rows add and how a unit's sum is bounded; the bound alone determines the noise.
    """

    __slots__ = ()

    parameters: NDArray[np.float64]
    """Where rows are evaluated, in whole multiples of 2^-20; public."""
    clip: float
    """The unit of the answer."""

    @property
    @abstractmethod
    def dimension(self) -> int:
        """Numbers of the answer."""

    @property
    @abstractmethod
    def columns(self) -> tuple[str, ...]:
        """The columns that are read; the same one may appear more than once."""

    @property
    def unit_bound(self) -> Bound:
        """What one unit adds, in units of ``clip``."""
        return CLIPPED_UNIT

    @abstractmethod
    def adds(self, device: str) -> Callable[[dict[str, NDArray[Any]]], Tensor]:
        """Return a function from rows' codes to what each adds, in whole steps of 2^-32; shape (dimension, n), float64.

        What a row adds follows from that row alone, to the last bit, and is below 2^47 steps.
        """

    def bounded(self, sums: Tensor) -> Tensor:
        """Bound what each unit adds, given in steps of 2^-32, and return it in whole steps of 2^-24 of ``clip``."""
        return clipped_units(sums, self.clip)

    def check(self, schema: Schema) -> None:
        """Refuse units of too many rows, and any where a cell is hidden."""
        schema.require_whole_rows()
        if schema.unit.rows_per_unit > MOST_ROWS:
            raise PrivacyError(f"A gradient can be asked of units of at most {MOST_ROWS:,} rows.")

    def plan(self, allowed: Allowance) -> GradientPlan:
        """Find the least Gaussian noise; how many rows a unit has plays no part in it."""
        unit = allowed.schema.unit
        sensitivity = between_neighbours(self.unit_bound, allowed.schema, rows=1)
        noise = allowed.least_noise(GRIDS, lambda _: sensitivity, self.dimension)
        known = unit.id_column is not None
        return GradientPlan(
            noise,
            self.dimension,
            by_unit=known and unit.rows_per_unit > 1,
            rows_each=1 if known else unit.rows_per_unit,
        )

    def draw(self, plan: GradientPlan, rows: PrivateRows, noise: NoiseSource, *, device: str) -> Numbers:
        """Bound and add up exactly, and add noise."""
        exact = sum_of_gradients(self, plan, rows, device=device)
        return (exact + noise.gaussian(plan.gaussian.variance, exact.size),)

    def answer(self, receipts: tuple[Receipt, ...], numbers: Numbers) -> NoisyGradient:
        """Return the sum in units of the clip norm."""
        (receipt,), (noisy,) = receipts, numbers
        return NoisyGradient(receipt, self, noisy.astype(np.float64) * receipt.grid)

    def again(self, answer: Answer) -> NoisyGradient:
        """Return an old answer to the same question, at the same parameters."""
        if not isinstance(answer, NoisyGradient) or not self._same_as(answer.question):
            raise PrivacyError(
                f"'{answer.query}' was asked about another loss or other columns, or at other parameters; use the "
                "options of the recorded run."
            )
        return answer

    def foreseen(self, receipts: tuple[Receipt, ...], plan: GradientPlan) -> NoisyGradient:
        """Return zeros: what a gradient costs does not depend on where it is taken."""
        return self.answer(receipts, (np.zeros(plan.dimension, dtype=np.int64),))

    @abstractmethod
    def _same_as(self, other: UnitQuestion) -> bool:
        """Return whether another question is the same data."""


@dataclass(frozen=True, slots=True, eq=False)
class GradientQuestion(UnitQuestion):
    """The gradient of a loss at public parameters: each unit's clipped to one norm, and added up over units.

    Parameters
    ----------
    features : FeatureMap
        A constant, lookups, one-hots and Fourier features, or a stack of these.
    target : Lookup
        The number, between -1 and 1, that is to be predicted for every code of a column; from 0 to 1 for a logistic
        loss. For a softmax loss the probabilities of at least two classes.
    loss : {"squared", "logistic", "huber", "softmax"}
    parameters : array of shape (dimension,)
        Where the gradient is taken, class after class; rounded to multiples of 2^-20.
    clip : float
        C, the length to which longer gradients of a unit are shortened; from 2^-20 to 2^20.

    Raises
    ------
    PrivacyError
        If the parts do not fit each other, or a number is out of bounds.
    """

    features: FeatureMap
    target: Lookup
    loss: Loss
    parameters: NDArray[np.float64]
    clip: float

    def __post_init__(self) -> None:
        given = np.array(self.parameters, dtype=np.float64)
        require_looked_up(self.features)
        if self.loss not in LOSSES:
            raise PrivacyError(f"The loss of a gradient must be one of {', '.join(LOSSES)}, got '{self.loss}'.")
        self._require_target()
        if given.shape != (self.dimension,) or not np.isfinite(given).all():
            raise PrivacyError(f"A gradient needs {self.dimension:,} finite parameters, one for each feature.")
        parameters = on_grid(given)
        by_class = np.abs(parameters).reshape(self.target.dimension, -1)
        reach = float((by_class @ largest_features(self.features)).max()) / 2**FEATURE_BITS
        if not reach <= LARGEST_PREDICTION:
            raise PrivacyError(
                f"Predictions could reach {reach:.3g}; with such parameters they would be rounded. At most "
                f"{LARGEST_PREDICTION:g} is possible."
            )
        if not SMALLEST_CLIP <= self.clip <= LARGEST_CLIP:
            raise PrivacyError(f"The clip norm of a gradient must lie between 2^-20 and 2^20, got {self.clip}.")
        object.__setattr__(self, "parameters", frozen(parameters))
        object.__setattr__(self, "clip", float(self.clip))

    def _require_target(self) -> None:
        if type(self.target) is not Lookup:
            raise PrivacyError("The target of a gradient must be a lookup.")
        several = self.loss == "softmax"
        if (self.target.dimension > 1) != several:
            raise PrivacyError(
                "The target of a softmax loss must be a lookup of at least two numbers per code."
                if several
                else "The target of a gradient must be a lookup of one number per code."
            )
        if self.loss in ("logistic", "softmax") and float(self.target.table.min()) < 0:
            raise PrivacyError(f"The target of a {self.loss} loss must lie between 0 and 1.")

    @property
    def dimension(self) -> int:
        """Numbers of the gradient: one for each feature of each class."""
        return self.features.dimension * self.target.dimension

    def check(self, schema: Schema) -> None:
        """Also refuse maps that were made for another table."""
        UnitQuestion.check(self, schema)
        for one in (self.target, *maps_in(self.features)):
            one.check_codes(schema)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the features, and the target."""
        return (*self.features.columns, self.target.column)

    def adds(self, device: str) -> Callable[[dict[str, NDArray[Any]]], Tensor]:
        """Return a function from rows' codes to their gradients."""
        parts = [FeatureBlock.of(block) for block in self.features.blocks()]
        return lambda codes: _row_gradients(self, parts, codes, device)

    def digest(self) -> str:
        """Return the digest of loss, clip norm, maps and parameters."""
        found = Digest("gradient")
        found.add_words([self.loss, self.clip])
        found.add_map(self.features)
        found.add_map(self.target)
        found.add_array(self.parameters)
        return found.hexdigest()

    def _same_as(self, other: UnitQuestion) -> bool:
        return (
            isinstance(other, GradientQuestion)
            and (self.loss, self.clip) == (other.loss, other.clip)
            and np.array_equal(self.parameters, other.parameters)
            and self.features.is_same(other.features)
            and self.target.is_same(other.target)
        )


def sum_of_gradients(
    question: UnitQuestion, plan: GradientPlan, rows: PrivateRows, *, device: str = "cpu"
) -> NDArray[np.int64]:
    """Bound what each unit's rows add together, and add up over units.

    Parameters
    ----------
    question : UnitQuestion
    plan : GradientPlan
        Defines what is clipped together, and the grid.
    rows : PrivateRows
        The private rows.
    device : str
        "cpu" or "cuda"; changes the time, never the result.

    Returns
    -------
    array of shape (dimension,), int64
        The sum in grid steps.

    Raises
    ------
    PrivacyError
        If rows are to be clipped by unit and there are no ids.
    """
    order, ends = units_in_order(rows, by_unit=plan.by_unit)
    adds = question.adds(device)
    columns = {name: rows.column(name) for name in question.columns}
    block_rows = max(1, BLOCK_ENTRIES // plan.dimension)
    total = np.zeros(plan.dimension, dtype=np.int64)
    first = 0
    while first < len(ends):
        start = int(ends[first - 1]) if first else 0
        # As many units as fit, at least one.
        last = max(first + 1, int(np.searchsorted(ends, start + block_rows, side="right")))
        places = order[start : ends[last - 1]]
        added = adds({name: codes[places] for name, codes in columns.items()})
        if plan.by_unit:
            added = _added_by_unit(added, np.diff(ends[first:last], prepend=start))
        whole = question.bounded(added)
        if plan.rows_each > 1:
            whole = whole.div_(plan.rows_each).trunc_()  # towards zero, and exactly so: both are far below 2^26
        total += whole.sum(dim=1).cpu().numpy().astype(np.int64)
        first = last
    return total << (2 * plan.gaussian.half_bits - UNIT_BITS)


def clipped_units(sums: Tensor, clip: float) -> Tensor:
    """Shorten what is longer than ``clip``; from steps of 2^-32 to whole steps of 2^-24 of it, written to."""
    return clipped_columns(sums.mul_(1.0 / (clip * 2.0 ** (2 * FEATURE_BITS))), UNIT_BITS)


def units_in_order(rows: PrivateRows, *, by_unit: bool) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the indices of rows unit by unit, and where each unit ends among them."""
    if not by_unit or rows.n_rows < 2:
        return np.arange(rows.n_rows), np.arange(1, rows.n_rows + 1)
    if rows.units is None:
        raise PrivacyError("The rows of a unit are clipped together, and these rows do not say whose they are.")
    return np.argsort(rows.units, kind="stable"), np.cumsum(np.unique(rows.units, return_counts=True)[1])


def _row_gradients(
    question: GradientQuestion, parts: list[FeatureBlock], codes: dict[str, NDArray[Any]], device: str
) -> Tensor:
    """Return what every row adds before it is clipped, in whole steps of 2^-32; shape (dimension, n_rows), float64."""
    import torch

    target, classes = codes[question.target.column], question.target.dimension
    n_rows = len(target)
    features = torch.empty(question.features.dimension, n_rows, dtype=torch.float64, device=device)
    for part in parts:
        features[torch.from_numpy(part.block.places).to(device)] = part.of_rows(codes.__getitem__, n_rows, device)
    parameters = torch.from_numpy(question.parameters * 2.0**PARAMETER_BITS).to(device)
    # Whole products whose partial sums stay below 2^50 + 2^20, in whatever order they are added.
    predictions = torch.stack([torch.mv(features.T, own) for own in parameters.view(classes, -1)])
    wanted = question.target.whole * 2.0 ** (FEATURE_BITS + PARAMETER_BITS - LEAF_BITS)
    labels = torch.from_numpy(wanted[binned(target, question.target.bins)].T.copy()).to(device)
    slopes = _slopes(question.loss, predictions, labels)
    return features.mul_(slopes) if classes == 1 else (slopes[:, None] * features).view(-1, n_rows)


def _slopes(loss: Loss, predictions: Tensor, wanted: Tensor) -> Tensor:
    """Return the loss's derivative in the predictions, in whole steps of 2^-16.

    Predictions and what is wanted of them are given in steps of 2^-36, shape (classes, n_rows).
    """
    step = 2.0**PARAMETER_BITS
    end = LOGISTIC_END << LOGISTIC_BITS
    if loss == "logistic":
        return logistic_of(predictions, bits=FEATURE_BITS + PARAMETER_BITS).sub_(wanted.div(step).trunc_())
    if loss == "softmax":
        # Differences of whole numbers below 2^51; the sum holds the 2^20 of the largest.
        parts = _looked_up(_exponential_steps(), predictions - predictions.max(dim=0).values, -end, 0)
        shares = parts.mul(2.0**FEATURE_BITS).div_(parts.sum(dim=0)).trunc_()
        return shares.sub_(wanted.div(step).trunc_())
    slopes = predictions.sub(wanted).div_(step).trunc_()
    return slopes.clamp_(-HUBER_STEPS, HUBER_STEPS) if loss == "huber" else slopes


def logistic_of(values: Tensor, *, bits: int) -> Tensor:
    """Return the logistic function in whole steps of 2^-16, of values in steps of 2^-bits."""
    end = LOGISTIC_END << LOGISTIC_BITS
    return _looked_up(_logistic_steps(), values, -end, end, bits=bits)


def _looked_up(
    table: NDArray[np.float64], values: Tensor, first: int, last: int, *, bits: int = FEATURE_BITS + PARAMETER_BITS
) -> Tensor:
    """Look up a table at the nearest of the points 2^-10 first, ..., 2^-10 last; values in steps of 2^-bits."""
    import torch

    points = values.mul(2.0 ** (LOGISTIC_BITS - bits)).add_(0.5).floor_()
    places = points.clamp_(first, last).sub_(first).to(torch.int64)
    return torch.index_select(torch.from_numpy(table).to(places.device), 0, places.view(-1)).view(places.shape)


@functools.cache
def _logistic_steps() -> NDArray[np.float64]:
    """Return the logistic function from -16 to 16 at multiples of 2^-10, in whole steps of 2^-16. Public numbers."""
    end = LOGISTIC_END << LOGISTIC_BITS
    points = (place / 2**LOGISTIC_BITS for place in range(-end, end + 1))
    return np.array([float(round(2**FEATURE_BITS / (1 + math.exp(-point)))) for point in points])


@functools.cache
def _exponential_steps() -> NDArray[np.float64]:
    """Return the exponential from -16 to 0 at multiples of 2^-10, in whole steps of 2^-20. Public numbers."""
    end = LOGISTIC_END << LOGISTIC_BITS
    points = (place / 2**LOGISTIC_BITS for place in range(-end, 1))
    return np.array([float(round(2**EXPONENTIAL_BITS * math.exp(point))) for point in points])


def _added_by_unit(added: Tensor, sizes: NDArray[np.int64]) -> Tensor:
    """Add up the columns of each unit, whose rows are adjacent; exactly, in int64, then rounded to float64."""
    import torch

    units = torch.from_numpy(np.repeat(np.arange(len(sizes)), sizes)).to(added.device)
    sums = torch.zeros(len(added), len(sizes), dtype=torch.int64, device=added.device)
    return sums.index_add_(1, units, added.to(torch.int64)).to(torch.float64)
