"""Recorded answers, asked for again: another model can be fitted to the measurements of a run at no further cost.

Anything computed from noisy answers is free. For a generator other than the one that asked, a table of counts is
derived from a measured one of the same or more columns: cells are added up, and if a measured cell overlaps several
wanted ones, its count is divided among them by how many of its codes are in each.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from synth.bundle.archive import LAST_DIGITS, documents_agree
from synth.errors import PrivacyError
from synth.privacy.accounting import PrivacyBudget
from synth.privacy.answers import KINDS, AnswerSource, AnswerT, NoisyAnswer, NoisySum, RowCount, of_kind
from synth.privacy.feature_maps import FeatureMap, OneHot, Stack
from synth.privacy.questions import Answer, Question
from synth.privacy.selection import Selection
from synth.reports.measured import MeasuredTable, measured_tables
from synth.schema import Schema

__all__ = ["DerivedSession", "RecordedSession", "derived_table"]


class RecordedSession(AnswerSource):
    """Repeats the answers of an earlier session, by the name of the question; has no access to rows.

    Parameters
    ----------
    schema : Schema
    budget : PrivacyBudget
        Of the earlier session.
    rows : RowCount
        The number of rows, as the earlier session stated it.
    answers : iterable of Answer
        Of the earlier session.
    asked, of_whole
        For a part of a session: the record of the whole session, and the share of the whole that the part has.
    """

    __slots__ = ("_answers", "_of_whole", "asked", "budget", "remaining_share", "rows", "schema")

    schema: Schema
    budget: PrivacyBudget
    rows: RowCount
    remaining_share: float

    def __init__(
        self,
        schema: Schema,
        budget: PrivacyBudget,
        *,
        rows: RowCount,
        answers: Iterable[Answer] = (),
        asked: dict[str, float] | None = None,
        of_whole: float = 1.0,
    ) -> None:
        self.schema, self.budget, self.rows = schema, budget, rows
        self.remaining_share = 1.0
        self.asked: dict[str, float] = {} if asked is None else asked
        """Share of the whole budget that each question was asked with, in all parts, by its name."""
        self._of_whole = of_whole
        self._answers = {answer.query: answer for answer in answers}

    def ask(self, question: Question[Any, AnswerT], *, share: float, query: str, source: str) -> AnswerT:
        """Return the recorded answer; ``share`` is subtracted from what remains, ``source`` is ignored.

        Raises
        ------
        PrivacyError
            If the question was never asked, or was a different one.
        """
        answer = self._answers.get(query)
        if answer is None or type(answer) is not KINDS[type(question)]:
            raise PrivacyError(f"'{query}' was never asked; a recorded run can only repeat its answers.")
        found = _as_recorded(question, answer).again(answer)
        self._take(share, query)
        return found

    def sub_session(self, share: float) -> RecordedSession:
        """Return the same recorded answers, for a part with its whole share left."""
        self._take(share)
        answers = self._answers.values()
        return type(self)(
            self.schema, self.budget, rows=self.rows, answers=answers, asked=self.asked, of_whole=self._of_whole * share
        )

    def _take(self, share: float, query: str | None = None) -> None:
        """Account for what was asked as the earlier session did, so that the same decisions follow from it."""
        self.remaining_share = max(self.remaining_share - share, 0.0)
        if query is not None:
            self.asked[query] = self._of_whole * share


def _as_recorded(question: Question[Any, AnswerT], answer: Answer) -> Question[Any, AnswerT]:
    """Return the recorded question if this one differs only in last digits, which depend on the processor."""
    if isinstance(question, NoisySum) and isinstance(answer, NoisyAnswer):
        (own, arrays), (said, others) = question.feature_map.describe(), answer.feature_map.describe()
        alike = documents_agree(own, said) and arrays.keys() == others.keys()
        if alike and all(_agree(array, others[name]) for name, array in arrays.items()):
            return cast("Question[Any, AnswerT]", NoisySum(answer.feature_map))
    return question


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
    schema, budget, rows, answers, part
        As in :class:`RecordedSession`.
    """

    __slots__ = ("_sums", "_tables")

    def __init__(
        self, schema: Schema, budget: PrivacyBudget, *, rows: RowCount, answers: Iterable[Answer] = (), **part: Any
    ) -> None:
        known = tuple(answer for answer in answers if not isinstance(answer, Selection))
        super().__init__(schema, budget, rows=rows, answers=known, **part)
        self._sums = of_kind(known, NoisyAnswer)
        self._tables = measured_tables(self._sums)

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
        recorded = next(one for one in self._sums if one.receipt.mechanism == "discrete_gaussian")
        receipt = replace(
            recorded.receipt, query=query, noise_scale=max(noise), dimension=sum(value.size for value in values)
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
        target = np.arange(size) if bins is None else bins
        shares = _shares(table.bins[table.columns.index(name)], target)
        exact = exact and bool((shares.max(axis=0) == 1.0).all())
        counts = np.moveaxis(np.tensordot(shares, counts, axes=(1, axis)), 0, axis)
        variances = np.moveaxis(np.tensordot(shares**2, variances, axes=(1, axis)), 0, axis)
    return exact, table.counts.size, counts, math.sqrt(float(variances.max()))


def _shares(measured: NDArray[np.int32], wanted: NDArray[np.integer[Any]]) -> NDArray[np.float64]:
    """Return the fraction of each measured bin's codes in each wanted bin, shape (n_wanted, n_measured)."""
    together = np.zeros((int(wanted.max()) + 1, int(measured.max()) + 1))
    np.add.at(together, (wanted, measured), 1.0)
    return np.asarray(together / np.maximum(together.sum(axis=0), 1.0))
