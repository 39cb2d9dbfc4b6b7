"""Recorded answers, asked for again: another model can be fitted to the measurements of a run at no further cost.

Anything computed from noisy answers is free. For a generator other than the one that asked, a table of counts is
derived from a measured one of the same or more columns: cells are added up, and if a measured cell overlaps several
wanted ones, its count is divided among them by how many of its codes are in each.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from synth.bundle.archive import LAST_DIGITS, documents_agree
from synth.errors import PrivacyError
from synth.privacy.accounting import SLACK_ALLOWANCE, PrivacyBudget
from synth.privacy.answers import KINDS, AnswerSource, AnswerT, NoisyAnswer, NoisySum, RowCount, of_kind
from synth.privacy.bins import Bins, pieces
from synth.privacy.costs import between_neighbours
from synth.privacy.feature_maps import FeatureMap, OneHot, Stack
from synth.privacy.more.gradients import NoisyGradient
from synth.privacy.more.perturbed_rows import PerturbedRows, RowsQuestion
from synth.privacy.more.training_steps import NoisySteps
from synth.privacy.questions import Allowance, Answer, Question, plan_of
from synth.privacy.receipt import SUMS, Part, Receipt
from synth.privacy.selection import Selection
from synth.reports.measured import MeasuredTable, measured_tables
from synth.schema import Schema

__all__ = ["AllAskedError", "DerivedSession", "RecordedSession", "Repeated", "derived_table"]


class AllAskedError(PrivacyError):
    """Every recorded answer was given again, so what a generator would learn from them need not be computed."""


@dataclass(slots=True)
class Repeated:
    """What was asked of the parts of a recorded session, in order, and which receipts it would have had.

    Attributes
    ----------
    receipts : list of Receipt
        As the real session would have written them: each follows from the question, its share and the budget.
    differences : list of str
        One sentence for each recorded receipt that is not the one planned.
    left : set of str
        Names of the recorded questions that were not asked again.
    """

    receipts: list[Receipt] = field(default_factory=list)
    differences: list[str] = field(default_factory=list)
    left: set[str] = field(default_factory=set)


class RecordedSession(AnswerSource):
    """Repeats the answers of an earlier session, by the name of the question; has no access to rows.

    It divides its budget to the last unit as :class:`synth.privacy.session.PrivateSession` does, and plans every
    question again, so that the recorded receipts can be compared with those that the questions should have.

    Parameters
    ----------
    schema : Schema
    budget : PrivacyBudget
        Of the earlier session.
    rows : RowCount
        The number of rows, as the earlier session stated it.
    answers : iterable of Answer
        Of the earlier session.
    ends : set of str
        Names of questions; the last of them to be asked raises :class:`AllAskedError` instead of being answered.
    """

    __slots__ = ("_answers", "_ends", "_part", "_root_units", "_spent_units", "_units", "budget", "repeated", "rows",
                 "schema")  # fmt: skip

    _shared: ClassVar[tuple[str, ...]] = (
        "schema", "budget", "rows", "_answers", "_root_units", "_ends", "repeated",
    )  # fmt: skip
    """What a part of a session has in common with the whole."""

    schema: Schema
    budget: PrivacyBudget
    rows: RowCount

    def __init__(
        self,
        schema: Schema,
        budget: PrivacyBudget,
        *,
        rows: RowCount,
        answers: Iterable[Answer] = (),
        ends: Set[str] = frozenset(),
    ) -> None:
        self.schema, self.budget, self.rows = schema, budget, rows
        self._answers = {answer.query: answer for answer in answers}
        self._units = self._root_units = budget.units
        self._spent_units = 0
        self._ends = ends
        self._part: Part = "train"
        self.repeated = Repeated(left=set(self._answers))

    @property
    def remaining_share(self) -> float:
        """Part of this session's budget that is left, from 0 to 1."""
        return max(self._units - self._spent_units, 0) / self._units

    def ask(self, question: Question[Any, AnswerT], *, share: float, query: str, source: str) -> AnswerT:
        """Return the recorded answer, and note the receipt that the question should have.

        Raises
        ------
        PrivacyError
            If the question was never asked, or was a different one.
        AllAskedError
            If it was the last one, and the session was told to end there.
        """
        answer = self._answers.get(query)
        if answer is None or type(answer) is not KINDS[type(question)]:
            raise PrivacyError(f"'{query}' was never asked; a recorded run can only repeat its answers.")
        found = _as_recorded(question, answer).again(answer)
        if not _is_same(question, answer):
            self.repeated.differences.append(f"The question '{query}' differs in last digits from the one asked here.")
        self._compare(question, answer, units=self._take(share), query=query, source=source)
        # The chosen candidate must be the one that is offered under its index, to the last bit.
        if isinstance(found, Selection) and not found.candidate.is_same(cast(Selection, answer).candidate):
            self.repeated.differences.append(f"'{query}' chose a candidate that the generator does not offer here.")
        self.repeated.left.discard(query)
        if self._ends and not self.repeated.left & self._ends:
            raise AllAskedError("Every recorded answer was given.")
        return found

    def sub_session(self, share: float) -> RecordedSession:
        """Return the same recorded answers, with a share of the budget."""
        return self._aside(share, self._part)

    def holdout_session(self, *, share: float) -> RecordedSession:
        """Return the same for questions about the units that were held out."""
        return self._aside(share, "holdout")

    def _aside(self, share: float, part: Part) -> RecordedSession:
        view = object.__new__(type(self))
        for name in self._shared:
            setattr(view, name, getattr(self, name))
        view._part, view._spent_units, view._units = part, 0, self._take(share)
        return view

    def _take(self, share: float) -> int:
        """Take a share as the real session does, so that the same decisions follow from what is left."""
        units = math.floor(self._units * Fraction(min(share, 1.0))) if share > 0 else 0
        # Another generator may divide its budget in another way than the recorded one was divided.
        units = max(min(units, self._units - self._spent_units), 1)
        self._spent_units += units
        return units

    def _compare(self, question: Question[Any, Any], answer: Answer, *, units: int, query: str, source: str) -> None:
        """Plan the question and compare its receipts with the recorded ones."""
        slack = SLACK_ALLOWANCE * units / self._root_units
        between = partial(between_neighbours, schema=self.schema)
        added = math.fsum(receipt.additive_delta for receipt in self.repeated.receipts)
        allowed = Allowance(self.schema, self.budget, units, slack, between, added)
        planned = tuple(
            Receipt.of(
                cost,
                self.schema,
                query=query,
                source=source,
                sequence=len(self.repeated.receipts) + place,
                part=self._part,
            )
            for place, cost in enumerate(plan_of(question, allowed).costs)
        )
        self.repeated.receipts.extend(planned)
        if planned != answer.receipts:
            what = _different(planned, answer.receipts)
            self.repeated.differences.append(
                f"The receipt of '{query}' has another {what} than the generator's question and its share of the "
                "budget give."
            )


def _different(planned: Sequence[Receipt], recorded: Sequence[Receipt]) -> str:
    """Name the first field in which receipts differ."""
    for one, other in zip(planned, recorded, strict=False):
        ours, theirs = one.to_dict(), other.to_dict()
        for name in (*ours, *theirs):
            if ours.get(name) != theirs.get(name):
                return name.replace("_", " ")
    return "number of receipts"


def _as_recorded(question: Question[Any, AnswerT], answer: Answer) -> Question[Any, AnswerT]:
    """Return the recorded question if this one differs only in last digits, which depend on the processor."""
    if isinstance(question, NoisySum) and isinstance(answer, NoisyAnswer):
        (own, arrays), (said, others) = question.feature_map.describe(), answer.feature_map.describe()
        alike = documents_agree(own, said) and arrays.keys() == others.keys()
        if alike and all(_agree(array, others[name]) for name, array in arrays.items()):
            return cast("Question[Any, AnswerT]", NoisySum(answer.feature_map))
    return question


def _is_same(question: Question[Any, Any], answer: Answer) -> bool:
    """Whether a question is the recorded one to the last bit; a choice records only the chosen candidate."""
    if isinstance(answer, NoisyAnswer):
        return question.digest() == NoisySum(answer.feature_map).digest()
    if isinstance(answer, PerturbedRows) and isinstance(question, RowsQuestion):
        # The share of the label is not recorded: its receipt says what it cost.
        return question.digest() == replace(answer.question, label_share=question.label_share).digest()
    if isinstance(answer, NoisyGradient | NoisySteps):
        return question.digest() == answer.question.digest()
    return True


def _agree(one: NDArray[Any], other: NDArray[Any]) -> bool:
    """Whether arrays are equal, floats up to the last digits of the largest."""
    if one.shape != other.shape or not (np.issubdtype(one.dtype, np.floating) and one.dtype == other.dtype):
        return np.array_equal(one, other)
    return bool((np.abs(one - other) <= LAST_DIGITS * np.abs(one).max(initial=0.0)).all())


class DerivedSession(RecordedSession):
    """Repeats recorded answers, and answers with tables of counts that follow from them.

    Private choices are not repeated: they were made for another model.

    Parameters
    ----------
    schema, budget, rows, answers
        As in :class:`RecordedSession`.
    """

    __slots__ = ("_sums", "_tables")
    _shared: ClassVar[tuple[str, ...]] = (*RecordedSession._shared, "_sums", "_tables")  # noqa: SLF001 - of this class

    def __init__(
        self, schema: Schema, budget: PrivacyBudget, *, rows: RowCount, answers: Iterable[Answer] = ()
    ) -> None:
        known = tuple(answer for answer in answers if not isinstance(answer, Selection))
        super().__init__(schema, budget, rows=rows, answers=known)
        self._sums = of_kind(known, NoisyAnswer)
        self._tables = measured_tables(self._sums)

    def _compare(self, question: Question[Any, Any], answer: Answer, *, units: int, query: str, source: str) -> None:
        """Compare nothing: another generator divides the budget in its own way."""

    def ask(self, question: Question[Any, AnswerT], *, share: float, query: str, source: str) -> AnswerT:
        """Return the recorded answer, or one derived from recorded tables, whose receipt is not a certified one.

        Raises
        ------
        PrivacyError
            If it was never asked and cannot be derived.
        """
        try:
            return super().ask(question, share=share, query=query, source=source)
        except PrivacyError as refusal:
            derived = self._derived(question.feature_map, query) if isinstance(question, NoisySum) else None
            if derived is None:
                raise refusal from None
        self._take(share)
        return cast(AnswerT, derived)

    def _derived(self, question: FeatureMap, query: str) -> NoisyAnswer | None:
        parts = question.parts if isinstance(question, Stack) else (question,)
        weights = question.weights if isinstance(question, Stack) else (1.0,)
        values, noise = [], []
        for part, weight in zip(parts, weights, strict=True):
            found = derived_table(part, self._tables) if isinstance(part, OneHot) else None
            if found is None:
                return None
            counts, deviation = found
            values.append(weight * counts.reshape(-1))
            noise.append(weight * deviation)
        recorded = next(one for one in self._sums if one.receipt.mechanism in SUMS)
        receipt = replace(
            recorded.receipt,
            query=query,
            mechanism="discrete_gaussian",
            noise_scale=max(noise),
            dimension=sum(value.size for value in values),
        )
        return replace(recorded, receipt=receipt, feature_map=question, value=np.concatenate(values))


def derived_table(wanted: OneHot, tables: Sequence[MeasuredTable]) -> tuple[NDArray[np.float64], float] | None:
    """Derive a table of counts from measured ones.

    Parameters
    ----------
    wanted : OneHot
        The columns and their bins.
    tables : sequence of MeasuredTable

    Returns
    -------
    counts : array of shape (bins of each wanted column), in rows
    noise_std : float
        Largest standard deviation of the noise of a count, in rows.
        None if no table has all the columns. Tables whose cells lie within the wanted ones come first, the least noisy
        before the others; then the finest.
    """
    of_columns = [table for table in tables if set(wanted.columns) <= set(table.columns)]
    found = [_from(wanted, table) for table in of_columns]
    if not found:
        return None
    _, _, counts, noise = min(found, key=lambda one: (not one[0], one[3] if one[0] else -one[1]))
    return counts, noise


def _from(wanted: OneHot, table: MeasuredTable) -> tuple[bool, int, NDArray[np.float64], float]:
    """Return whether cells were only added up, how many cells were measured, the counts, and the largest noise."""
    others = tuple(axis for axis, name in enumerate(table.columns) if name not in wanted.columns)
    counts = table.counts.sum(axis=others)
    variances = np.full(counts.shape, table.noise_std**2 * math.prod(table.counts.shape[axis] for axis in others))
    left = [name for name in table.columns if name in wanted.columns]
    order = [left.index(name) for name in wanted.columns]
    counts, variances = counts.transpose(order), variances.transpose(order)
    exact = True
    for axis, (name, bins, size) in enumerate(zip(wanted.columns, wanted.bins, wanted.sizes, strict=True)):
        target = Bins.of_codes(np.arange(size)) if bins is None else bins
        shares = _shares(table.bins[table.columns.index(name)], target)
        exact = exact and bool((shares.max(axis=0) == 1.0).all())
        counts = np.moveaxis(np.tensordot(shares, counts, axes=(1, axis)), 0, axis)
        variances = np.moveaxis(np.tensordot(shares**2, variances, axes=(1, axis)), 0, axis)
    return exact, table.counts.size, counts, math.sqrt(float(variances.max()))


def _shares(measured: Bins, wanted: Bins) -> NDArray[np.float64]:
    """Return the fraction of each measured bin's codes in each wanted bin, shape (n_wanted, n_measured)."""
    together = np.zeros((wanted.count, measured.count))
    for first, last, own in pieces(0, measured.size, wanted, measured):
        np.add.at(together, own, last - first + 1.0)
    return np.asarray(together / np.maximum(together.sum(axis=0), 1.0))
