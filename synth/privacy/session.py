"""The questions: the only way from private rows to anything else.

A session owns a table and a budget. Every question is planned from public data alone (map, schema, share), charged, and
only then read from the rows, summed exactly and noised. Nothing is ever given back. A generator receives a session, or
a ``RecordedSession`` that repeats old answers, and no other object that knows about rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from synth.errors import BudgetExceededError, PrivacyError
from synth.privacy.accounting import COORDINATE_ALLOWANCE, SLACK_ALLOWANCE
from synth.privacy.answers import ROW_COUNT_QUERY, AnswerSource, RowCount
from synth.privacy.bounds import Bound
from synth.privacy.budget import PrivacyBudget
from synth.privacy.calibration import plan_gaussian
from synth.privacy.costs import MU_UNIT, exponential_of_mu, mu_of_exponential, units_of
from synth.privacy.count_memory import CountMemory
from synth.privacy.counting import Rows
from synth.privacy.features import Constant, FeatureMap
from synth.privacy.kept_answers import Asked, KeptAnswers, Numbers, digest_of_choice, digest_of_map
from synth.privacy.more.row_questions import RowQuestions
from synth.privacy.more.row_release import PerturbedRows
from synth.privacy.noise import NoiseSource, SystemNoise
from synth.privacy.receipt import NoisyAnswer, Receipt
from synth.privacy.recorded_session import RecordedSession
from synth.privacy.selection import SCORE_STEP, Candidate, Selection, scores_of
from synth.privacy.sensitivities import ONE_SCORE, between_neighbours
from synth.privacy.session_record import Record, assumptions_of
from synth.privacy.sums import exact_sum
from synth.privacy.terms import terms_of
from synth.privacy.validation import check_fits, check_held_out, require_whole_rows
from synth.schema import Neighbours, Schema
from synth.system.devices import resolved_device

if TYPE_CHECKING:
    from synth.privacy.table import PrivateTable

__all__ = [
    "AnswerSource",
    "Candidate",
    "PerturbedRows",
    "PrivateSession",
    "RecordedSession",
    "RowCount",
    "Selection",
    "between_neighbours",
]

ROUNDED_DOWN = 1 - 2.0**-40


class PrivateSession(RowQuestions):
    """Answers questions about private rows with noise and a receipt.

    Parameters
    ----------
    table : PrivateTable
        The rows; nobody gets them back out of a session.
    budget : PrivacyBudget
        All that may be spent, under the relation that the schema's row-count rule asks for.
    noise : NoiseSource, optional
        For tests; any but the default makes receipts that say they are not private.
    device : str
        "auto", "cpu" or "cuda": where large sums are worked out; changes no answer.
    kept : KeptAnswers, optional
        Where every answer is written before it is handed on. Answers that are there already are repeated, in order and
        to the same questions alone, at the price they had; rows are asked only when all of them were.

    Raises
    ------
    PrivacyError
        If the budget's relation is not the schema's.
    ConfigError
        If there is no such device on this machine.
    """

    __slots__ = (
        "_budget",
        "_device",
        "_kept",
        "_memory",
        "_noise",
        "_record",
        "_root_units",
        "_spent_units",
        "_table",
        "_units",
    )

    def __init__(
        self,
        table: PrivateTable,
        budget: PrivacyBudget,
        *,
        noise: NoiseSource | None = None,
        device: str = "cpu",
        kept: KeptAnswers | None = None,
    ) -> None:
        if budget.neighbours is not table.schema.neighbours:
            raise PrivacyError(
                f"The budget hides '{budget.neighbours.value}', the schema's row_count asks for "
                f"'{table.schema.neighbours.value}'; use the same for both."
            )
        self._table, self._budget = table, budget
        self._noise: NoiseSource = SystemNoise() if noise is None else noise
        self._device, self._kept = resolved_device(device), kept
        self._record, self._memory = Record(), CountMemory()
        self._units, self._root_units, self._spent_units = budget.units, budget.units, 0

    @property
    def schema(self) -> Schema:
        """The declared table."""
        return self._table.schema

    @property
    def budget(self) -> PrivacyBudget:
        """The whole budget of the run."""
        return self._budget

    @property
    def neighbours(self) -> Neighbours:
        """The change of the table that is hidden."""
        return self._budget.neighbours

    @property
    def receipts(self) -> tuple[Receipt, ...]:
        """Receipts of every answered question, in order, those of all parts included."""
        return tuple(self._record.receipts)

    @property
    def releases(self) -> tuple[NoisyAnswer, ...]:
        """Every noisy sum, in order, those of all parts included."""
        return tuple(self._record.releases)

    @property
    def selections(self) -> tuple[Selection, ...]:
        """Every private selection, in order, those of all parts included."""
        return tuple(self._record.selections)

    @property
    def remaining_share(self) -> float:
        """Part of this session's budget that is left, from 0 to 1."""
        return (self._units - self._spent_units) / self._units

    @property
    def rows(self) -> RowCount:
        """Number of rows: as declared where it is public, else as ``count_rows`` measured it.

        Raises
        ------
        PrivacyError
            If the number is private and has not been measured.
        """
        if self.schema.rows_are_public:
            return RowCount(float(self._table._public_rows or 0), 0.0, public=True)
        counted = self._record.counted if self._table.part == "train" else None
        if counted is None:
            raise PrivacyError("The number of rows is private and has not been measured yet; ask count_rows first.")
        return RowCount(max(float(counted.value[0]), 1.0), counted.noise_std, public=False)

    def sub_session(self, share: float) -> PrivateSession:
        """Set a share of the budget aside as a session of its own, with the same rows and the same list of receipts."""
        return self._aside(share, self._table, self._memory)

    def held_out(self, table: PrivateTable, *, share: float) -> PrivateSession:
        """Set a share of the budget aside for questions about the units that were held out of this session's rows.

        Its costs are added to the others: a unit may change sides when it is replaced, and without ids its rows may lie
        on both (``docs/proofs/split.md``). No generator is handed such a session.

        Parameters
        ----------
        table : PrivateTable
            The hold-out of the same split as the rows of this session.
        share : float
            As in :meth:`sub_session`.

        Raises
        ------
        PrivacyError
            If the table is no hold-out, or is declared otherwise. Nothing is spent then.
        """
        check_held_out(self._table, table)
        return self._aside(share, table, CountMemory())

    def _aside(self, share: float, table: PrivateTable, memory: CountMemory) -> PrivateSession:
        view = object.__new__(PrivateSession)
        view._table, view._budget, view._noise, view._device = table, self._budget, self._noise, self._device
        view._record, view._memory, view._kept = self._record, memory, self._kept
        view._root_units, view._spent_units = self._root_units, 0
        view._units = self._affordable(share)
        self._spent_units += view._units
        return view

    def count_rows(self, *, share: float, source: str = "number of rows") -> NoisyAnswer:
        """Measure the number of rows, where it is private; answers ``rows`` from then on."""
        self._record.counted = self.noisy_sum(Constant(), share=share, query=ROW_COUNT_QUERY, source=source)
        return self._record.counted

    def noisy_sum(self, feature_map: FeatureMap, *, share: float, query: str, source: str) -> NoisyAnswer:
        """Add up a feature map over all rows and add discrete Gaussian noise.

        Parameters
        ----------
        feature_map : FeatureMap
            What to add up; a lookup, one-hot, Fourier map, constant, moments of rows, stack or product.
        share : float
            Part of this session's whole budget to spend, in mu^2; above 0, at most ``remaining_share``.
        query : str
            Name of the question, different from every earlier one.
        source : str
            Who asks.

        Returns
        -------
        NoisyAnswer
            The noisy sum in the shape of the map, with its receipt and the map.

        Raises
        ------
        BudgetExceededError
            If less than ``share`` is left. No row has been read then.
        PrivacyError
            If the map does not fit the schema or no grid carries the noise. Nothing is spent then.
        """
        require_whole_rows(self.schema)
        check_fits(feature_map, self.schema)
        terms = terms_of(feature_map)
        units = self._affordable(share)
        slack = SLACK_ALLOWANCE * units / self._root_units
        plan = plan_gaussian(terms, self._between_neighbours, units=units, slack=slack)
        self._open(query, units, coordinates=feature_map.dimension)
        receipt = self._planned(
            mechanism="discrete_gaussian",
            query=query,
            source=source,
            sensitivity=plan.sensitivity,
            noise_scale=plan.noise_std,
            dimension=feature_map.dimension,
            grid=plan.grid,
            mu_squared_units=plan.units,
            slack=plan.slack,
        )

        def ask() -> Numbers:
            sums = exact_sum(terms, self._rows(), half_bits=plan.half_bits, device=self._device)
            return (sums + self._noise.gaussian(plan.variance, sums.size),)

        (noisy,) = self._answered((receipt,), lambda: digest_of_map(feature_map), ask)
        release = NoisyAnswer(receipt, noisy.astype(np.float64).reshape(feature_map.shape) * plan.grid, feature_map)
        self._record.releases.append(release)
        return release

    def noisy_max(self, candidates: Sequence[Candidate], *, share: float, query: str, source: str) -> Selection:
        """Choose, by the exponential mechanism, the candidate whose table describes the rows worst.

        Parameters
        ----------
        candidates : sequence of Candidate
            At least one; the score is weight * |histogram - table|_1 - penalty, with the largest weight scaled to 1.
        share : float
            Part of this session's whole budget to spend, in mu^2; above 0, at most ``remaining_share``.
        query, source : str
            As in ``noisy_sum``.

        Returns
        -------
        Selection
            The chosen candidate, its index and the receipt; scores stay here.
        """
        require_whole_rows(self.schema)
        if not candidates:
            raise PrivacyError("A selection needs at least one candidate.")
        declared = dict(zip(self.schema.names, self.schema.sizes, strict=True))
        for candidate in candidates:
            if tuple(map(declared.get, candidate.columns)) != candidate.sizes:
                check_fits(candidate.one_hot, self.schema)  # says what does not fit
        units = self._affordable(share)
        parameter = exponential_of_mu(math.sqrt(units * MU_UNIT) * ROUNDED_DOWN)
        sensitivity = self._between_neighbours(ONE_SCORE)
        rate = Fraction(parameter) / (2 * Fraction(sensitivity)) * Fraction(SCORE_STEP)
        self._open(query, units)
        receipt = self._planned(
            mechanism="exponential",
            query=query,
            source=source,
            sensitivity=sensitivity,
            noise_scale=parameter,
            dimension=len(candidates),
            grid=SCORE_STEP,
            mu_squared_units=units_of(mu_of_exponential(parameter) ** 2),
        )

        def ask() -> Numbers:
            scores = scores_of(candidates, self._rows())
            chosen = self._noise.choose(scores, numerator=rate.numerator, denominator=rate.denominator)
            return (np.array([chosen], dtype=np.int64),)

        (chosen,) = self._answered((receipt,), lambda: digest_of_choice(candidates), ask)
        index = int(chosen[0])
        selection = Selection(receipt, index, candidates[index])
        self._record.selections.append(selection)
        return selection

    def _between_neighbours(self, row: Bound) -> float:
        """Turn the bound of one row into that of one unit."""
        return between_neighbours(row, self.schema)

    def _affordable(self, share: float) -> int:
        """Return ``share`` of the budget in units of mu^2, or refuse."""
        if not 0 < share <= 1:
            raise PrivacyError(f"share must be above 0 and at most 1, got {share}.")
        units = math.floor(self._units * Fraction(share))
        if units < 1:
            raise PrivacyError(f"A share of {share:.3g} is less than the smallest unit of privacy loss.")
        if units > self._units - self._spent_units:
            raise BudgetExceededError(
                f"The question asks for {share:.6g} of this session's budget; {self.remaining_share:.6g} is left."
            )
        return units

    def _open(self, query: str, units: int, *, coordinates: int = 0) -> None:
        """Charge a question before its rows are read; there is no way back."""
        if query in self._record.queries:
            raise PrivacyError(f"A question called '{query}' was asked before; give every question a name of its own.")
        if self._record.coordinates + coordinates > COORDINATE_ALLOWANCE:
            raise PrivacyError(f"A run may ask for at most {COORDINATE_ALLOWANCE:,} noisy numbers altogether.")
        self._record.queries.add(query)
        self._record.coordinates += coordinates
        self._spent_units += units

    def _rows(self) -> Rows:
        return Rows(lambda name: self._table._codes((name,))[name], self._table._rows, self._memory)

    def _answered(
        self, receipts: tuple[Receipt, ...], digest: Callable[[], str], ask: Callable[[], Numbers]
    ) -> Numbers:
        """Answer a planned and charged question: by the kept answer that is next, else from the rows.

        What comes from the rows is kept before anybody hears of it, so that it is never asked for again.
        """
        if self._kept is None:
            answer = ask()
        else:
            asked = Asked(receipts, digest())
            repeated = self._kept.repeated(asked)
            answer = ask() if repeated is None else repeated
            if repeated is None:
                self._kept.keep(asked, answer)
        self._record.receipts.extend(receipts)
        return answer

    def _planned(
        self, *, place: int = 0, slack: float = 0.0, assumptions: tuple[str, ...] = (), **values: Any
    ) -> Receipt:
        """Return the receipt of a question that will be answered; ``place`` counts those of one question from 0."""
        unit = self.schema.unit
        return Receipt(
            sequence=len(self._record.receipts) + place,
            neighbours=self.neighbours,
            protects=unit.protects,
            rows_per_unit=unit.rows_per_unit,
            slack=slack,
            private=self._noise.private,
            part=self._table.part,
            assumptions=(*assumptions_of(self.schema), *assumptions),
            **values,
        )

    def __repr__(self) -> str:
        return f"PrivateSession({self.budget}, remaining_share={self.remaining_share:.4g})"

    def __reduce__(self) -> NoReturn:
        raise PrivacyError("A session cannot be copied, pickled or sent to another process.")
