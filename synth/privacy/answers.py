"""What may be asked, and how it is answered: the closed sets of maps and questions, and the noisy sum of a map.

A generator receives an :class:`AnswerSource` and no other object with access to rows: a live session, one that repeats
old answers, or one that plans without rows.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeGuard, TypeVar

import numpy as np
from numpy.typing import NDArray

from synth.errors import PrivacyError
from synth.privacy.accounting import PrivacyBudget
from synth.privacy.costs import SMALLEST_SENSITIVITY, GaussianPlan, LaplacePlan, between_neighbours
from synth.privacy.counting import PrivateRows
from synth.privacy.feature_maps import (
    Block,
    Constant,
    FeatureMap,
    OneHot,
    Stack,
    bound_of,
    exact_sum,
    frozen,
    l1_bound_of,
)
from synth.privacy.more.critic_turns import CriticTurns
from synth.privacy.more.dependence import Dependence
from synth.privacy.more.em_steps import EMStepQuestion
from synth.privacy.more.forests import Forest
from synth.privacy.more.found_values import FoundValues, ValuesQuestion
from synth.privacy.more.fourier import Fourier
from synth.privacy.more.gradients import GradientQuestion, NoisyGradient, UnitQuestion
from synth.privacy.more.linear_guesses import LinearGuess
from synth.privacy.more.lookups import Lookup
from synth.privacy.more.losses import Losses
from synth.privacy.more.perturbed_rows import LABEL_SHARE, PerturbedRows, RowNoise, RowsQuestion
from synth.privacy.more.products import Product
from synth.privacy.more.responsibilities import Responsibilities
from synth.privacy.more.row_moments import RowMoments
from synth.privacy.more.sampled_gradients import SampledGradients
from synth.privacy.more.training_steps import NoisySteps, StepsQuestion
from synth.privacy.noise import NoiseSource
from synth.privacy.questions import Allowance, Answer, Digest, Numbers, OneReceipt, Question
from synth.privacy.receipt import SUMS, PlannedCost, Receipt
from synth.privacy.selection import Candidate, PrivateChoice, Selection
from synth.schema import Neighbours, Schema

__all__ = [
    "FEATURE_MAPS",
    "FINE",
    "KINDS",
    "LAPLACE_AS_NORMAL",
    "ROW_COUNT_QUERY",
    "STEPS_QUESTIONS",
    "AnswerSource",
    "AnswerT",
    "NoisyAnswer",
    "NoisySum",
    "RowCount",
    "SumPlan",
    "check_fits",
    "is_known",
    "of_kind",
    "sensitivity_of_sum",
]

FEATURE_MAPS: tuple[type[FeatureMap], ...] = (
    Lookup,
    OneHot,
    Forest,
    Fourier,
    Constant,
    RowMoments,
    Responsibilities,
    Losses,
    LinearGuess,
    Stack,
    Product,
)
"""What may be summed over private rows: only maps of exactly these classes."""

LAPLACE_AS_NORMAL = math.log(20) / 1.959963984540054
"""Standard deviation of the normal law with the 95 % range of a Laplace law of scale 1, which ends at log 20."""

FINE, COARSE = (12, 14, 16, 18), (18, 16, 14, 12)
"""Bits of each side of a product, in order of preference; the grid has twice as many bits."""


def is_known(feature_map: object) -> TypeGuard[FeatureMap]:
    """Whether this is a map of the closed set: of exactly one of its classes, because a subclass could do anything."""
    return type(feature_map) in FEATURE_MAPS


def check_fits(feature_map: FeatureMap, schema: Schema) -> None:
    """Refuse a map of no known class, or one made for another table, before anything is spent or read.

    Raises
    ------
    PrivacyError, SchemaError
        As :meth:`FeatureMap.check_codes`; or if the map is not of the closed set.
    """
    if not is_known(feature_map):
        *names, last = (one.__name__ for one in FEATURE_MAPS)
        raise PrivacyError(f"A question must be a feature map: {', '.join(names)} or {last}.")
    feature_map.check_codes(schema)
    for one in feature_map.inner:
        check_fits(one, schema)


@dataclass(frozen=True, slots=True, eq=False)
class SumPlan:
    """Noise of a sum, and its map written out."""

    blocks: tuple[Block, ...]
    noise: GaussianPlan | LaplacePlan

    @property
    def dimension(self) -> int:
        """Numbers of the answer."""
        return sum(block.places.size for block in self.blocks)

    @property
    def coordinates(self) -> int:
        """Those with Gaussian noise."""
        return self.dimension if isinstance(self.noise, GaussianPlan) else 0

    @property
    def costs(self) -> tuple[PlannedCost, ...]:
        """The one cost."""
        if isinstance(self.noise, LaplacePlan):
            return (PlannedCost.of_laplace_sum(self.noise, self.dimension),)
        return (PlannedCost.of_sum(self.noise, self.dimension),)


@dataclass(frozen=True, slots=True, eq=False)
class NoisyAnswer(OneReceipt):
    """One noisy sum and its receipt; safe to keep, print and publish."""

    receipt: Receipt
    value: NDArray[np.float64]
    """Noisy answer, in units of the answer, in the shape of the question; read-only."""
    feature_map: FeatureMap
    """The public question: a feature map of the closed set."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "value", frozen(np.array(self.value, dtype=np.float64)))

    @property
    def noise_std(self) -> float:
        """Standard deviation of the noise on every coordinate, in units of the answer.

        Of Laplace noise, that of the normal law with the same 95 % range, 1.08 times its own: intervals are calculated
        as if noise were normal.

        Raises
        ------
        PrivacyError
            If the receipt is of an answer without noise on coordinates.
        """
        if self.receipt.mechanism not in SUMS:
            raise PrivacyError(f"'{self.receipt.query}' is a selection; it has no standard deviation of noise.")
        return self.receipt.noise_scale * (LAPLACE_AS_NORMAL if self.receipt.mechanism == "laplace_sum" else 1.0)


@dataclass(frozen=True, slots=True, eq=False)
class NoisySum(Question[SumPlan, NoisyAnswer]):
    """A feature map that is added up over all rows."""

    answers_pure: ClassVar[bool] = True

    feature_map: FeatureMap

    def check(self, schema: Schema) -> None:
        """Refuse a map that is not of the closed set, or was made for another table; and any where a cell is hidden."""
        schema.require_whole_rows()
        check_fits(self.feature_map, schema)

    def plan(self, allowed: Allowance) -> SumPlan:
        """Find the least Gaussian noise, or where delta is 0 the least Laplace noise."""
        blocks = self.feature_map.blocks()
        if allowed.budget.is_pure:

            def moved(half_bits: int) -> float:
                return allowed.between_neighbours(l1_bound_of(blocks, half_bits=half_bits))

            return SumPlan(blocks, allowed.least_laplace(FINE, moved))

        def sensitivity(half_bits: int) -> float:
            return allowed.between_neighbours(bound_of(blocks, half_bits=half_bits))

        grids = FINE if all(block.map.is_exact for block in blocks) else COARSE
        return SumPlan(blocks, allowed.least_noise(grids, sensitivity, self.feature_map.dimension))

    def digest(self) -> str:
        """Return the digest of the map."""
        found = Digest("map")
        found.add_map(self.feature_map)
        return found.hexdigest()

    def draw(self, plan: SumPlan, rows: PrivateRows, noise: NoiseSource, *, device: str) -> Numbers:
        """Add up exactly, and add noise."""
        sums = exact_sum(plan.blocks, rows, half_bits=plan.noise.half_bits, device=device)
        if isinstance(plan.noise, LaplacePlan):
            return (sums + noise.laplace(plan.noise.scale, sums.size),)
        return (sums + noise.gaussian(plan.noise.variance, sums.size),)

    def answer(self, receipts: tuple[Receipt, ...], numbers: Numbers) -> NoisyAnswer:
        """Return the sum in units of the answer."""
        (receipt,), (noisy,) = receipts, numbers
        return NoisyAnswer(
            receipt, noisy.astype(np.float64).reshape(self.feature_map.shape) * receipt.grid, self.feature_map
        )

    def again(self, answer: Answer) -> NoisyAnswer:
        """Return an old sum of the same map."""
        if not isinstance(answer, NoisyAnswer) or not self.feature_map.is_same(answer.feature_map):
            raise PrivacyError(
                f"'{answer.query}' was asked with another feature map; use the options of the recorded run."
            )
        return answer

    def foreseen(self, receipts: tuple[Receipt, ...], plan: SumPlan) -> NoisyAnswer:
        """Return zeros."""
        return self.answer(receipts, (np.zeros(plan.dimension, dtype=np.int64),))


def sensitivity_of_sum(feature_map: FeatureMap, schema: Schema, *, half_bits: int, l1: bool = False) -> float:
    """Return the L2 sensitivity of a sum, in units of the answer; or that in L1, of counts alone.

    Parameters
    ----------
    feature_map : FeatureMap
        The question; it fits the schema.
    schema : Schema
        Defines which change is hidden, and how many rows a unit has.
    half_bits : int
        The sum is taken on a grid of step 2^-(2 half_bits).

    Raises
    ------
    PrivacyError
        If the map is not one whose bound is known.
    """
    row = l1_bound_of(feature_map.blocks(), half_bits=half_bits) if l1 else feature_map.bound(half_bits=half_bits)
    return max(between_neighbours(row, schema), SMALLEST_SENSITIVITY)


STEPS_QUESTIONS: tuple[type[StepsQuestion], ...] = (SampledGradients, CriticTurns)
"""What may be asked at every step of a training."""

KINDS: dict[type[Question[Any, Any]], type[Answer]] = {
    NoisySum: NoisyAnswer,
    PrivateChoice: Selection,
    RowsQuestion: PerturbedRows,
    GradientQuestion: NoisyGradient,
    EMStepQuestion: NoisyGradient,
    ValuesQuestion: FoundValues,
    **dict.fromkeys(STEPS_QUESTIONS, NoisySteps),
}
"""What may be asked, and the class of its answer; a session answers exactly these classes."""

ROW_COUNT_QUERY = "number of rows"

AnswerT = TypeVar("AnswerT", bound=Answer)


def of_kind(answers: Iterable[Answer], kind: type[AnswerT]) -> tuple[AnswerT, ...]:
    """Return the answers of one kind, in order."""
    return tuple(one for one in answers if isinstance(one, kind))


@dataclass(frozen=True, slots=True)
class RowCount:
    """The number of rows, where it may be known.

    ``noise_std`` is the standard deviation of the noise in it, in rows: 0 where the number is public.
    """

    value: float
    noise_std: float
    public: bool


class AnswerSource(ABC):
    """Answers a generator's questions: a live session, a recorded or a planned one."""

    __slots__ = ()

    @property
    @abstractmethod
    def schema(self) -> Schema:
        """The declared table."""

    @property
    @abstractmethod
    def budget(self) -> PrivacyBudget:
        """The whole budget of the run."""

    @property
    def neighbours(self) -> Neighbours:
        """The change of the table that is hidden."""
        return self.budget.neighbours

    @property
    @abstractmethod
    def rows(self) -> RowCount:
        """Public or measured number of rows."""

    @property
    @abstractmethod
    def remaining_share(self) -> float:
        """Part of this session's budget that is left, from 0 to 1."""

    @abstractmethod
    def ask(self, question: Question[Any, AnswerT], *, share: float, query: str, source: str) -> AnswerT:
        """Answer a question.

        Parameters
        ----------
        question : Question
        share : float
            Part of this session's whole budget to spend, in mu^2, or in pure epsilon where a cell is hidden; above 0,
            at most ``remaining_share``.
        query : str
            Name of the question, different from every earlier one.
        source : str
            The component that asks.

        Raises
        ------
        BudgetExceededError
            If less than ``share`` is left. No row has been read then.
        PrivacyError
            If the question does not fit the schema or no grid can carry the noise. Nothing is spent then.
        """

    @abstractmethod
    def sub_session(self, share: float) -> AnswerSource:
        """Set a share of the budget aside as a separate session."""

    def noisy_sum(self, feature_map: FeatureMap, *, share: float, query: str, source: str) -> NoisyAnswer:
        """Add up a feature map over all rows, with discrete Gaussian noise; the rest as in :meth:`ask`."""
        return self.ask(NoisySum(feature_map), share=share, query=query, source=source)

    def noisy_max(
        self, candidates: Sequence[Candidate] | Sequence[Dependence], *, share: float, query: str, source: str
    ) -> Selection:
        """Choose, by the exponential mechanism, the candidate with the highest score.

        Parameters
        ----------
        candidates : sequence of Candidate or of Dependence
            At least one, all of one kind. A table describes the rows as badly as its score says: weight * |histogram -
            table|_1 - penalty, with the largest weight scaled to 1. A column depends on its possible parents as much as
            its score says: the rows that would have to move for it to be independent of them.
        share, query, source
            As in :meth:`ask`.

        Returns
        -------
        Selection
            The chosen candidate, its index and the receipt; scores stay with the rows.
        """
        return self.ask(PrivateChoice(tuple(candidates)), share=share, query=query, source=source)

    def noisy_gradient(self, question: UnitQuestion, *, share: float, query: str, source: str) -> NoisyGradient:
        """Add up gradients, or the terms of a step of EM, bounded for each unit, with noise; the rest as in `ask`."""
        return self.ask(question, share=share, query=query, source=source)

    def noisy_steps(self, question: StepsQuestion, *, share: float, query: str, source: str) -> NoisySteps:
        """Answer a question at every step of a training, with noise; the rest as in :meth:`ask`.

        The training has learned from all steps when this returns, unless the answer repeats an old one; see
        :meth:`NoisySteps.train`.
        """
        return self.ask(question, share=share, query=query, source=source)

    def perturb_rows(
        self,
        tables: Sequence[Lookup],
        *,
        label: str | None = None,
        label_share: float = LABEL_SHARE,
        noise: RowNoise = "gaussian",
        share: float,
        query: str,
        source: str,
    ) -> PerturbedRows:
        """Release every row by itself, its numbers and its label with noise, in a random order.

        Parameters
        ----------
        tables : sequence of Lookup
            The columns of a row, side by side.
        label : str, optional
            A column that is released as a class: by randomised response, or unchanged where a cell is hidden and labels
            are public by definition.
        label_share : float
            Part of the question's share that protects the label, where it is randomised.
        noise : {"gaussian", "laplace"}
            One cell is hidden by Laplace noise alone.
        share, query, source
            As in :meth:`ask`.
        """
        question = RowsQuestion(tuple(tables), label, label_share, noise)
        return self.ask(question, share=share, query=query, source=source)
