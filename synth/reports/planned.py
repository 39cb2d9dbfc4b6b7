"""What a run will ask, without asking: the questions of a generator and the noise each will carry.

:class:`PlannedSession` answers every question with zeros and the receipt that the real session would write. Questions
follow from the schema, the options and the budget alone, so the noise is known before a row is read.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from synth.errors import BudgetExceededError, PrivacyError
from synth.privacy.accounting import SLACK_ALLOWANCE
from synth.privacy.answers import RowCount
from synth.privacy.budget import PrivacyBudget
from synth.privacy.calibration import plan_gaussian
from synth.privacy.features import FeatureMap, Lookup
from synth.privacy.more.row_plans import LABEL_SHARE, RowNoise, RowsPlan, RowsQuestion, plan_rows
from synth.privacy.more.row_release import PerturbedRows
from synth.privacy.receipt import NoisyAnswer, Receipt
from synth.privacy.selection import Candidate, Selection
from synth.privacy.session import between_neighbours
from synth.privacy.terms import terms_of
from synth.privacy.validation import require_whole_rows
from synth.schema import Neighbours, Schema

__all__ = ["AllPlannedError", "PlannedSession", "UnplannedError"]

_DUST = 1e-9
"""Part of a budget that rounding leaves; no question is asked with less."""


class UnplannedError(PrivacyError):
    """What is asked next depends on the rows, so it cannot be planned without them."""


class AllPlannedError(PrivacyError):
    """Nothing is left to ask with, so what a generator would learn from the last answer need not be worked out."""


class PlannedSession:
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

    def __init__(self, schema: Schema, budget: PrivacyBudget, *, rows: float) -> None:
        self.schema, self.budget = schema, budget
        self.rows = RowCount(rows, 0.0, public=True)
        self.releases: list[NoisyAnswer] = []
        self.row_plans: list[tuple[RowsQuestion, RowsPlan]] = []
        self._units = self._root_units = budget.units
        self._spent_units = 0
        self._ends = False

    @property
    def neighbours(self) -> Neighbours:
        """The change of the table that is hidden."""
        return self.budget.neighbours

    @property
    def remaining_share(self) -> float:
        """Part of this session's budget that is left."""
        return (self._units - self._spent_units) / self._units

    def sub_session(self, share: float, *, ends: bool = False) -> PlannedSession:
        """Set a share aside; its questions are gathered with the others.

        With ``ends`` the question that uses it up raises :class:`AllPlannedError` after it has been planned.
        """
        view = object.__new__(PlannedSession)
        view.schema, view.budget, view.rows, view.releases = self.schema, self.budget, self.rows, self.releases
        view.row_plans = self.row_plans
        view._root_units, view._spent_units = self._root_units, 0
        view._units = self._charged(share)
        view._ends = ends
        return view

    def noisy_sum(self, feature_map: FeatureMap, *, share: float, query: str, source: str) -> NoisyAnswer:
        """Plan a question and answer zeros."""
        require_whole_rows(self.schema)
        units = self._charged(share)
        plan = plan_gaussian(
            terms_of(feature_map),
            lambda row: between_neighbours(row, self.schema),
            units=units,
            slack=SLACK_ALLOWANCE * units / self._root_units,
        )
        unit = self.schema.unit
        receipt = Receipt(
            sequence=len(self.releases),
            query=query,
            mechanism="discrete_gaussian",
            source=source,
            neighbours=self.neighbours,
            protects=unit.protects,
            rows_per_unit=unit.rows_per_unit,
            sensitivity=plan.sensitivity,
            noise_scale=plan.noise_std,
            dimension=feature_map.dimension,
            grid=plan.grid,
            mu_squared_units=plan.units,
            slack=plan.slack,
            private=False,
        )
        release = NoisyAnswer(receipt, np.zeros(feature_map.shape), feature_map)
        self.releases.append(release)
        if self._ends and self.remaining_share < _DUST:
            raise AllPlannedError("Every question is planned.")
        return release

    def noisy_max(self, candidates: Sequence[Candidate], *, share: float, query: str, source: str) -> Selection:
        """Refuse: which table is chosen, and so what is asked next, depends on the rows."""
        raise UnplannedError(f"What follows '{query}' depends on the rows and cannot be planned without them.")

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
        """Plan the noise of every row, keep the plan, and refuse: what is made of noisy rows is not known before."""
        question = RowsQuestion(tuple(tables), label, label_share, noise)
        units = self._charged(share)
        plan = plan_rows(question, self.schema, units=units, slack=SLACK_ALLOWANCE * units / self._root_units)
        self.row_plans.append((question, plan))
        raise UnplannedError(f"What is made of '{query}' depends on the rows and cannot be planned without them.")

    def _charged(self, share: float) -> int:
        units = math.floor(self._units * Fraction(share))
        if not 0 < units <= self._units - self._spent_units:
            raise BudgetExceededError(f"A share of {share:.6g} is not left; {self.remaining_share:.6g} is.")
        self._spent_units += units
        return units
