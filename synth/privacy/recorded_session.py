"""Old answers, asked again: another model can be fitted to the measurements of a run at no further cost."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from synth.errors import PrivacyError
from synth.privacy.answers import RowCount
from synth.privacy.budget import PrivacyBudget
from synth.privacy.descriptions import same_map
from synth.privacy.features import FeatureMap, Lookup
from synth.privacy.more.row_plans import LABEL_SHARE, RowNoise, RowsQuestion
from synth.privacy.more.row_release import PerturbedRows
from synth.privacy.receipt import NoisyAnswer
from synth.privacy.selection import Candidate, Selection
from synth.schema import Neighbours, Schema

__all__ = ["RecordedSession"]


class RecordedSession:
    """Repeats the answers of an earlier session, by the name of the question; knows no rows.

    Parameters
    ----------
    schema : Schema
    budget : PrivacyBudget
        What the earlier session was given.
    rows : RowCount
        What the earlier session said about the number of rows.
    releases, selections, row_releases : iterable
        Its answers.
    """

    def __init__(
        self,
        schema: Schema,
        budget: PrivacyBudget,
        *,
        rows: RowCount,
        releases: Iterable[NoisyAnswer] = (),
        selections: Iterable[Selection] = (),
        row_releases: Iterable[PerturbedRows] = (),
    ) -> None:
        self.schema, self.budget, self.rows = schema, budget, rows
        self.remaining_share = 1.0
        self.asked: dict[str, float] = {}
        """Part of this session's budget that each question was asked with, in all parts, by its name."""
        self._of_whole = 1.0
        self._releases = {release.receipt.query: release for release in releases}
        self._selections = {selection.receipt.query: selection for selection in selections}
        self._row_releases = {release.receipt.query: release for release in row_releases}

    @property
    def neighbours(self) -> Neighbours:
        """The change of the table that was hidden."""
        return self.budget.neighbours

    def noisy_sum(self, feature_map: FeatureMap, *, share: float, query: str, source: str) -> NoisyAnswer:
        """Return the recorded answer; ``share`` is taken off what remains, ``source`` is not used.

        Raises
        ------
        PrivacyError
            If the question was never asked, or was asked with another map.
        """
        release = self._releases.get(query)
        if release is None:
            raise PrivacyError(f"'{query}' was never asked; a recorded run can answer only what it was asked.")
        if not same_map(release.feature_map, feature_map):
            raise PrivacyError(f"'{query}' was asked with another feature map; use the options of the recorded run.")
        self._take(share, query)
        return release

    def noisy_max(self, candidates: Sequence[Candidate], *, share: float, query: str, source: str) -> Selection:
        """Return the recorded choice; ``share`` is taken off what remains, ``source`` is not used.

        Raises
        ------
        PrivacyError
            If the question was never asked, or with other candidates.
        """
        selection = self._selections.get(query)
        if selection is None:
            raise PrivacyError(f"'{query}' was never asked; a recorded run can answer only what it was asked.")
        if len(candidates) != selection.receipt.dimension:
            raise PrivacyError(f"'{query}' was asked with other candidates; use the options of the recorded run.")
        self._take(share, query)
        return Selection(selection.receipt, selection.index, candidates[selection.index])

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
        """Return the recorded rows; ``label_share`` and ``source`` are not used.

        Raises
        ------
        PrivacyError
            If the question was never asked, or of other columns, another label or another noise.
        """
        release = self._row_releases.get(query)
        if release is None:
            raise PrivacyError(f"'{query}' was never asked; a recorded run can answer only what it was asked.")
        if not release.question.same_as(RowsQuestion(tuple(tables), label, noise=noise)):
            raise PrivacyError(f"'{query}' was asked of other columns; use the options of the recorded run.")
        self.asked[query] = self._of_whole * share
        return release

    def sub_session(self, share: float) -> RecordedSession:
        """Return the same recorded answers, for a part that has all of its own share left."""
        self._take(share)
        view = object.__new__(RecordedSession)
        view.schema, view.budget, view.rows, view.remaining_share = self.schema, self.budget, self.rows, 1.0
        view._releases, view._selections = self._releases, self._selections
        view._row_releases = self._row_releases
        view.asked, view._of_whole = self.asked, self._of_whole * share
        return view

    def _take(self, share: float, query: str | None = None) -> None:
        """Keep count of what was asked as the earlier session did, so that what follows from it is decided alike."""
        self.remaining_share = max(self.remaining_share - share, 0.0)
        if query is not None:
            self.asked[query] = self._of_whole * share
