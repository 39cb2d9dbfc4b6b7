"""What a generator may ask, and what it may know about the number of rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from synth.privacy.budget import PrivacyBudget
from synth.privacy.features import FeatureMap, Lookup
from synth.privacy.more.row_plans import LABEL_SHARE, RowNoise
from synth.privacy.more.row_release import PerturbedRows
from synth.privacy.receipt import NoisyAnswer
from synth.privacy.selection import Candidate, Selection
from synth.schema import Neighbours, Schema

__all__ = ["ROW_COUNT_QUERY", "AnswerSource", "RowCount"]

ROW_COUNT_QUERY = "number of rows"


@dataclass(frozen=True, slots=True)
class RowCount:
    """How many rows there are, as far as that may be known.

    ``noise_std`` is the standard deviation of the noise in it, in rows: 0 where the number is public.
    """

    value: float
    noise_std: float
    public: bool


class AnswerSource(Protocol):
    """Answers a generator's questions: a live session, or a recorded one."""

    @property
    def schema(self) -> Schema:
        """The declared table."""
        ...

    @property
    def budget(self) -> PrivacyBudget:
        """The whole budget of the run."""
        ...

    @property
    def neighbours(self) -> Neighbours:
        """The change of the table that is hidden."""
        ...

    @property
    def rows(self) -> RowCount:
        """Public or measured number of rows."""
        ...

    @property
    def remaining_share(self) -> float:
        """Part of this session's budget that is left, from 0 to 1."""
        ...

    def noisy_sum(self, feature_map: FeatureMap, *, share: float, query: str, source: str) -> NoisyAnswer:
        """Add up a map over all rows, with noise."""
        ...

    def noisy_max(self, candidates: Sequence[Candidate], *, share: float, query: str, source: str) -> Selection:
        """Choose the candidate that describes the rows worst, with noise."""
        ...

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
        """Let every row out by itself, with noise of its own."""
        ...

    def sub_session(self, share: float) -> AnswerSource:
        """Set a share of the budget aside as a session of its own."""
        ...
