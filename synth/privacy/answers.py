"""The closed set of questions and answers, one line each, and the words that questions are asked in.

A generator receives an :class:`AnswerSource` and no other object that knows about rows: a live session, one that
repeats old answers, or one that plans without rows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from synth.privacy.accounting import PrivacyBudget
from synth.privacy.column_maps import Lookup
from synth.privacy.feature_maps import FeatureMap
from synth.privacy.more.perturbed_rows import LABEL_SHARE, PerturbedRows, RowNoise, RowsQuestion
from synth.privacy.noisy_sums import NoisyAnswer, NoisySum
from synth.privacy.questions import Answer, Question
from synth.privacy.selection import Candidate, PrivateChoice, Selection
from synth.schema import Neighbours, Schema

__all__ = ["KINDS", "ROW_COUNT_QUERY", "AnswerSource", "AnswerT", "RowCount", "of_kind"]

KINDS: dict[type[Question[Any, Any]], type[Answer]] = {
    NoisySum: NoisyAnswer,
    PrivateChoice: Selection,
    RowsQuestion: PerturbedRows,
}
"""What may be asked, and what each question is answered by; a session answers exactly these classes."""

ROW_COUNT_QUERY = "number of rows"

AnswerT = TypeVar("AnswerT", bound=Answer)


def of_kind(answers: Iterable[Answer], kind: type[AnswerT]) -> tuple[AnswerT, ...]:
    """Return the answers of one kind, in order."""
    return tuple(one for one in answers if isinstance(one, kind))


@dataclass(frozen=True, slots=True)
class RowCount:
    """How many rows there are, as far as that may be known.

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
            Who asks.

        Raises
        ------
        BudgetExceededError
            If less than ``share`` is left. No row has been read then.
        PrivacyError
            If the question does not fit the schema or no grid carries the noise. Nothing is spent then.
        """

    @abstractmethod
    def sub_session(self, share: float) -> AnswerSource:
        """Set a share of the budget aside as a session of its own."""

    def noisy_sum(self, feature_map: FeatureMap, *, share: float, query: str, source: str) -> NoisyAnswer:
        """Add up a feature map over all rows, with discrete Gaussian noise; the rest as in :meth:`ask`."""
        return self.ask(NoisySum(feature_map), share=share, query=query, source=source)

    def noisy_max(self, candidates: Sequence[Candidate], *, share: float, query: str, source: str) -> Selection:
        """Choose, by the exponential mechanism, the candidate whose table describes the rows worst.

        Parameters
        ----------
        candidates : sequence of Candidate
            At least one; the score is weight * |histogram - table|_1 - penalty, with the largest weight scaled to 1.
        share, query, source
            As in :meth:`ask`.

        Returns
        -------
        Selection
            The chosen candidate, its index and the receipt; scores stay with the rows.
        """
        return self.ask(PrivateChoice(tuple(candidates)), share=share, query=query, source=source)

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
        """Let every row out by itself, its numbers and its label made noisy, in a drawn order.

        Parameters
        ----------
        tables : sequence of Lookup
            The columns of a row, side by side.
        label : str, optional
            A column that is let out as a class: by randomised response, or as it is where a cell is hidden and labels
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
