"""The session: the only way from private rows to anything else.

A session owns a table and a budget. Every question is planned from public data alone (map, schema, share), charged, and
only then answered from the rows: summed exactly, with noise. No charge is ever refunded. A generator receives a
session, or a ``RecordedSession`` that repeats old answers, and no other object with access to rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, NoReturn

from synth.errors import BudgetExceededError, PrivacyError
from synth.privacy.accounting import COORDINATE_ALLOWANCE, SLACK_ALLOWANCE, PrivacyBudget
from synth.privacy.answers import KINDS, ROW_COUNT_QUERY, AnswerSource, AnswerT, NoisyAnswer, RowCount, of_kind
from synth.privacy.costs import Bound, between_neighbours
from synth.privacy.counting import CountMemory, PrivateRows
from synth.privacy.feature_maps import Constant
from synth.privacy.noise import NoiseSource, SystemNoise
from synth.privacy.questions import Allowance, Answer, Asked, KeptAnswers, Numbers, Question, plan_of
from synth.privacy.receipt import Receipt
from synth.privacy.table import PrivateTable
from synth.schema import Schema
from synth.system.machine import resolved_device

__all__ = ["PrivateSession"]


@dataclass(slots=True, eq=False)
class _Record:
    """What a session and its parts have answered so far."""

    receipts: list[Receipt] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)
    queries: set[str] = field(default_factory=set)
    coordinates: int = 0
    additive_deltas: list[float] = field(default_factory=list)
    counted: NoisyAnswer | None = None


class PrivateSession(AnswerSource):
    """Answers questions about private rows with noise and a receipt.

    Parameters
    ----------
    table : PrivateTable
        The rows; they cannot be taken out of a session.
    budget : PrivacyBudget
        All that may be spent, under the relation that the schema's row-count rule asks for.
    noise : NoiseSource, optional
        For tests; any but the default makes receipts that say they are not private.
    device : str
        "auto", "cpu" or "cuda": where large sums are calculated; changes no answer.
    kept : KeptAnswers, optional
        Where every answer is written before it is passed on. Answers that are kept already are repeated, in order and
        to the same questions only, at their old price; rows are read only once all of these were repeated.

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
                f"The budget hides '{budget.neighbours.value}', but the schema's row_count requires "
                f"'{table.schema.neighbours.value}'; use the same for both."
            )
        self._table, self._budget = table, budget
        self._noise: NoiseSource = SystemNoise() if noise is None else noise
        self._device, self._kept = resolved_device(device), kept
        self._record, self._memory = _Record(), CountMemory()
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
    def receipts(self) -> tuple[Receipt, ...]:
        """Receipts of every answered question, in order, those of all parts included."""
        return tuple(self._record.receipts)

    @property
    def answers(self) -> tuple[Answer, ...]:
        """Every answer, in order, those of all parts included."""
        return tuple(self._record.answers)

    @property
    def sums(self) -> tuple[NoisyAnswer, ...]:
        """The noisy sums among the answers."""
        return of_kind(self._record.answers, NoisyAnswer)

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
            raise PrivacyError("The number of rows is private and has not been measured yet; call count_rows first.")
        return RowCount(max(float(counted.value[0]), 1.0), counted.noise_std, public=False)

    def sub_session(self, share: float) -> PrivateSession:
        """Set a share of the budget aside as a separate session, with the same rows and the same list of receipts."""
        return self._aside(share, self._table, self._memory)

    def holdout_session(self, table: PrivateTable, *, share: float) -> PrivateSession:
        """Set a share of the budget aside for questions about the units that were held out of this session's rows.

        Its costs are added to the others: a unit may change sides when it is replaced, and without ids its rows may be
        on both (``docs/proofs/split.md``). No generator receives such a session.

        Parameters
        ----------
        table : PrivateTable
            The hold-out of the same split as the rows of this session.
        share : float
            As in :meth:`sub_session`.

        Raises
        ------
        PrivacyError
            If the table is not a hold-out, or is declared differently. Nothing is spent then.
        """
        if (self._table.part, table.part) != ("train", "holdout") or self.schema != table.schema:
            raise PrivacyError(
                "Held-out rows must be the hold-out of the same table as the session's rows; open both together."
            )
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
        """Measure the number of rows, where it is private; ``rows`` returns it from then on."""
        self._record.counted = self.noisy_sum(Constant(), share=share, query=ROW_COUNT_QUERY, source=source)
        return self._record.counted

    def ask(self, question: Question[Any, AnswerT], *, share: float, query: str, source: str) -> AnswerT:
        """Plan a question, charge it, and only then answer it from the rows; as in :meth:`AnswerSource.ask`."""
        if type(question) not in KINDS:
            raise PrivacyError("A session answers only the questions of its closed set, and no subclass of them.")
        question.check(self.schema)
        units = self._affordable(share)
        slack = SLACK_ALLOWANCE * units / self._root_units
        added = math.fsum(self._record.additive_deltas)
        plan = plan_of(question, Allowance(self.schema, self._budget, units, slack, self._between_neighbours, added))
        if question.tells_row_count:
            question.check_size(plan, self._table._rows)
        self._open(query, units, coordinates=plan.coordinates)
        self._record.additive_deltas.extend(cost.additive_delta for cost in plan.costs)
        receipts = tuple(
            Receipt.of(
                cost,
                self.schema,
                query=query,
                source=source,
                sequence=len(self._record.receipts) + place,
                private=self._noise.private,
                part=self._table.part,
            )
            for place, cost in enumerate(plan.costs)
        )
        answer = question.answer(receipts, self._answered(question, plan, receipts))
        self._record.answers.append(answer)
        return answer

    def _between_neighbours(self, row: Bound) -> float:
        """Turn the bound of one row into that of one unit."""
        return between_neighbours(row, self.schema)

    def _affordable(self, share: float) -> int:
        """Return ``share`` of the budget in units of its currency, or refuse."""
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
        """Charge a question before its rows are read; this cannot be undone."""
        if query in self._record.queries:
            raise PrivacyError(f"A question called '{query}' was asked before; give every question its own name.")
        if self._record.coordinates + coordinates > COORDINATE_ALLOWANCE:
            raise PrivacyError(f"A run may ask for at most {COORDINATE_ALLOWANCE:,} noisy numbers altogether.")
        self._record.queries.add(query)
        self._record.coordinates += coordinates
        self._spent_units += units

    def _rows(self) -> PrivateRows:
        table = self._table
        return PrivateRows(
            lambda name: table._column(name),
            table._rows,
            self._memory,
            table._units,
            table._texts,
            table._keyed,
            table._counters(),
        )

    def _answered(self, question: Question[Any, Any], plan: Any, receipts: tuple[Receipt, ...]) -> Numbers:
        """Answer a planned and charged question: by the next kept answer, else from the rows.

        An answer from the rows is kept before it is passed on, so that it is never drawn again.
        """
        asked = None if self._kept is None else Asked(receipts, question.digest())
        numbers = None if self._kept is None or asked is None else self._kept.repeated(asked)
        if numbers is None:
            numbers = question.draw(plan, self._rows(), self._noise, device=self._device)
            if self._kept is not None and asked is not None:
                self._kept.keep(asked, numbers)
        self._record.receipts.extend(receipts)
        return numbers

    def __repr__(self) -> str:
        return f"PrivateSession({self.budget}, remaining_share={self.remaining_share:.4g})"

    def __reduce__(self) -> NoReturn:
        raise PrivacyError("A session cannot be copied, pickled or sent to another process.")
