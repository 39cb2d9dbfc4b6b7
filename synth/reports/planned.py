"""What a run will ask, without asking: the questions of a generator and the noise each will carry.

:class:`PlannedSession` answers every question with zeros and the receipt that the real session would write. Questions
follow from the schema, the options and the budget alone, so the noise is known before a row is read.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import partial
from typing import Any

from synth.errors import BudgetExceededError, PrivacyError
from synth.privacy.accounting import SLACK_ALLOWANCE, PrivacyBudget
from synth.privacy.answers import AnswerSource, AnswerT, RowCount, of_kind
from synth.privacy.noisy_sums import NoisyAnswer
from synth.privacy.questions import Allowance, Question
from synth.privacy.receipt import Receipt
from synth.privacy.sensitivity import between_neighbours
from synth.privacy.session import stated_of
from synth.schema import Schema

__all__ = ["AllPlannedError", "PlannedSession", "UnplannedError"]

_DUST = 1e-9
"""Part of a budget that rounding leaves; no question is asked with less."""


class UnplannedError(PrivacyError):
    """What is asked next depends on the rows, so it cannot be planned without them."""


class AllPlannedError(PrivacyError):
    """Nothing is left to ask with, so what a generator would learn from the last answer need not be worked out."""


class PlannedSession(AnswerSource):
    """A session without rows: it plans noise as the real one does and answers zeros.

    Parameters
    ----------
    schema : Schema
        The declared table.
    budget : PrivacyBudget
        All that may be spent.
    rows : float
        Declared number of rows.
    """

    __slots__ = ("_ends", "_root_units", "_spent_units", "_units", "budget", "rows", "schema", "sums", "unforeseen")

    schema: Schema
    budget: PrivacyBudget
    rows: RowCount

    def __init__(self, schema: Schema, budget: PrivacyBudget, *, rows: float) -> None:
        self.schema, self.budget = schema, budget
        self.rows = RowCount(rows, 0.0, public=True)
        self.sums: list[NoisyAnswer] = []
        self.unforeseen: list[tuple[Question[Any, Any], Any]] = []
        """Questions whose noise is planned, but not what follows from their answers; with their plans."""
        self._units = self._root_units = budget.units
        self._spent_units = 0
        self._ends = False

    @property
    def remaining_share(self) -> float:
        """Part of this session's budget that is left."""
        return (self._units - self._spent_units) / self._units

    def sub_session(self, share: float, *, ends: bool = False) -> PlannedSession:
        """Set a share aside; its questions are gathered with the others.

        With ``ends`` the question that uses it up raises :class:`AllPlannedError` after it has been planned.
        """
        view = object.__new__(PlannedSession)
        view.schema, view.budget, view.rows, view.sums = self.schema, self.budget, self.rows, self.sums
        view.unforeseen = self.unforeseen
        view._root_units, view._spent_units = self._root_units, 0
        view._units = self._charged(share)
        view._ends = ends
        return view

    def ask(self, question: Question[Any, AnswerT], *, share: float, query: str, source: str) -> AnswerT:
        """Plan a question and answer zeros.

        Raises
        ------
        UnplannedError
            If what is asked next depends on the answer, and so on the rows. The noise of this question is kept.
        AllPlannedError
            If it was the last.
        """
        question.check(self.schema)
        units = self._charged(share)
        slack = SLACK_ALLOWANCE * units / self._root_units
        plan = question.plan(Allowance(self.schema, units, slack, partial(between_neighbours, schema=self.schema)))
        if question.unforeseen:
            self.unforeseen.append((question, plan))
            which = question.unforeseen.format(query=query)
            raise UnplannedError(f"{which} depends on the rows and cannot be planned without them.")
        stated = stated_of(self.schema)
        receipts = tuple(
            Receipt.of(cost, query=query, source=source, sequence=len(self.sums) + place, private=False, **stated)
            for place, cost in enumerate(plan.costs)
        )
        answer = question.foreseen(receipts, plan)
        self.sums += of_kind([answer], NoisyAnswer)
        if self._ends and self.remaining_share < _DUST:
            raise AllPlannedError("Every question is planned.")
        return answer

    def _charged(self, share: float) -> int:
        units = math.floor(self._units * Fraction(share))
        if not 0 < units <= self._units - self._spent_units:
            raise BudgetExceededError(f"A share of {share:.6g} is not left; {self.remaining_share:.6g} is.")
        self._spent_units += units
        return units
