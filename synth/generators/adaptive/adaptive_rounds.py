"""Rounds of private choices: which columns to count together next, and with how much of the budget."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from synth.generators.column_bins import ColumnBins
from synth.generators.joint_models import Fitter
from synth.models.answers import Measured
from synth.models.junction_tree import Subset
from synth.privacy.selection import Candidate
from synth.privacy.session import AnswerSource
from synth.schema import ModelledColumn, Weight

__all__ = ["RoundPlan", "Rounds"]

_IMPORTANCE = {Weight.LOW: 0.5, Weight.NORMAL: 1.0, Weight.HIGH: 2.0}

_TRIPLE_WEIGHT = 0.5
"""What a wrong row in a table of three columns counts beside one of two: three pairs share what it tells."""

_SHARPER = 0.5

_ROOT = math.sqrt(2.0 / math.pi)


@dataclass(frozen=True, slots=True)
class RoundPlan:
    """How the budget of the rounds is spent.

    Attributes
    ----------
    share : float
        Part of the session's budget for all rounds.
    rounds : float
        Rounds that the first round's part would last; a round's part grows when tables tell too little.
    choosing : float
        Part of a round that goes into its choice.
    cells : int
        Most cells of the joint model.
    most_candidates : int
        Most pairs of a round; a public draw where there are more.
    """

    share: float
    rounds: float
    choosing: float
    cells: int
    most_candidates: int


class Rounds:
    """Chooses, counts and fits until the budget is spent.

    Parameters
    ----------
    session : AnswerSource
    columns : tuple of ModelledColumn
    bins : tuple of ColumnBins
    label : int, optional
        Position of the column whose pairs are always candidates, as far as the model can ever hold them.
    fitter : Fitter
    plan : RoundPlan
    unit_noise : float
        Noise of a count that is asked for the whole budget, in rows.
    total : float
        Number of rows, as far as it is known.
    columns_gain : callable
        Told a part of the session's budget, returns by how much less all pairs together would be off if columns by
        themselves were counted again with it, as a part of the rows.
    source : str
    seed : int
    """

    def __init__(
        self,
        session: AnswerSource,
        columns: tuple[ModelledColumn, ...],
        bins: tuple[ColumnBins, ...],
        *,
        label: int | None,
        fitter: Fitter,
        plan: RoundPlan,
        unit_noise: float,
        total: float,
        columns_gain: Callable[[float], float],
        source: str,
        seed: int,
    ) -> None:
        self._session, self._columns, self._fitter, self._plan = session, columns, fitter, plan
        self._label, self._unit_noise, self._total, self._source = label, unit_noise, total, source
        self._columns_gain = columns_gain
        # Looked up once: a column may have millions of codes.
        self._bins = [one.bins for one in bins]
        useful = [d for d, one in enumerate(bins) if one.size > 1]
        self._pairs = list(itertools.combinations(useful, 2))
        self._random = np.random.Generator(np.random.PCG64(seed))
        self._asked = 0

    def run(self, measured: list[Measured], refitted: Callable[[float], None]) -> None:
        """Ask until the plan's share is spent or is better spent on columns, adding every answer to ``measured``.

        Parameters
        ----------
        measured : list of Measured
            Answers so far; the fitter has been fitted to them.
        refitted : callable
            Told the part of the plan that is spent, whenever the model was fitted again.
        """
        left = self._plan.share
        part = left / self._plan.rounds
        while self._pairs and left > 0:
            spent = 1.0 - left / self._plan.share
            limit = int(self._plan.cells * max(0.2, spent))
            subsets = self._candidates(limit)
            believed = {columns: self._total * table for columns, table in self._fitter.tables(subsets).items()}
            chosen: list[Measured] = []
            while left > 0 and believed and len(chosen) < self._fitter.together:
                answer, spent = self._ask(believed, part, left)
                left -= spent
                chosen.append(answer)
                del believed[answer.columns]
            measured.extend(chosen)
            self._fitter.refit(measured, last=False)
            refitted(1.0 - left / self._plan.share)
            if self._told_little(chosen):
                before = believed | {one.columns: one.believed for one in chosen if one.believed is not None}
                if self._moved(before) * left / part < self._columns_gain(left):
                    return
                part *= 2

    def _candidates(self, limit: int) -> list[Subset]:
        """Return what may be counted next, from declared facts and earlier answers."""
        pairs = self._pairs
        if len(pairs) > self._plan.most_candidates:
            drawn = self._random.choice(len(pairs), self._plan.most_candidates, replace=False)
            pairs = [pairs[one] for one in np.sort(drawn)]
        subsets = dict.fromkeys(self._fitter.candidates(pairs, limit))
        if self._label is not None:
            labelled = [pair for pair in self._pairs if self._label in pair]
            subsets.update(dict.fromkeys(self._fitter.candidates(labelled, self._plan.cells)))
        # The model may hold no pair at all any more; some question has to be asked.
        return list(subsets) or [self._pairs[0]]

    def _ask(self, believed: dict[Subset, NDArray[np.float64]], part: float, left: float) -> tuple[Measured, float]:
        """Choose one subset and count it; returns the answer and the part of the budget that it took."""
        choosing = self._plan.choosing * min(part, left)
        noise = self._unit_noise / math.sqrt(part - self._plan.choosing * part)
        weights = [self._weight(columns) for columns in believed]
        errors = _expected_errors(list(believed.values()), noise)
        sharper = _sharper(errors)
        candidates = [
            Candidate(
                columns=tuple(self._columns[d].name for d in columns),
                table=table,
                weight=weight,
                penalty=weight * error / math.sqrt(times),
                bins=tuple(self._bins[d] for d in columns),
            )
            for (columns, table), weight, error, times in zip(believed.items(), weights, errors, sharper, strict=True)
        ]
        self._asked += 1
        selection = self._session.noisy_max(
            candidates, share=choosing, query=f"choice {self._asked}", source=self._source
        )
        columns, candidate = list(believed)[selection.index], candidates[selection.index]
        counting = (1.0 - self._plan.choosing) * part * float(sharper[selection.index])
        # A rest too small for a round of its own goes into this one.
        last = left - choosing - counting < part
        release = self._session.noisy_sum(
            candidate.one_hot,
            # Shares are rounded down; the last question takes what that left.
            share=self._session.remaining_share if last else counting,
            query=f"table {self._asked}: {' x '.join(candidate.columns)}",
            source=self._source,
        )
        answer = Measured(columns, np.asarray(release.value, dtype=np.float64), release.noise_std, believed[columns])
        return answer, left if last else choosing + counting

    def _weight(self, columns: Subset) -> float:
        """Return what a wrong row counts: the geometric mean of the columns' declared importance."""
        weight = math.prod(_IMPORTANCE[self._columns[d].weight] for d in columns) ** (1 / len(columns))
        return weight * (_TRIPLE_WEIGHT if len(columns) > 2 else 1.0)

    def _moved(self, before: dict[Subset, NDArray[np.float64]]) -> float:
        """Return how far the last answers moved all pairs together, as a part of the rows."""
        pairs = [columns for columns in before if len(columns) == 2]
        now = self._fitter.tables(pairs)
        return sum(float(np.abs(now[pair] - before[pair] / self._total).sum()) for pair in pairs) / 2

    def _told_little(self, chosen: Sequence[Measured]) -> bool:
        """Whether the model moved by less than the noise would move it: then fewer, sharper questions are better."""
        tables = self._fitter.tables([one.columns for one in chosen])
        moved = allowed = 0.0
        for one in chosen:
            if one.believed is not None:
                moved += float(np.abs(self._total * tables[one.columns] - one.believed).sum())
                allowed += float(_expected_errors([one.believed], one.noise_std)[0])
        return moved <= allowed


def _sharper(errors: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return how much more than its even part each table should get, from its expected error at the same noise.

    The error of a table grows with its cells and falls with the root of what is spent on it, so the sum over tables is
    least where each gets its cells to the power of 2/3; the power is smaller here, as large tables are also the
    sparsest, and bounded, as one table must not take it all.
    """
    logs = np.log(np.maximum(errors, 1e-12))
    return np.asarray(np.clip(np.exp(_SHARPER * (logs - logs.mean())), 0.4, 3.0))


def _expected_errors(believed: Sequence[NDArray[np.float64]], noise: float) -> NDArray[np.float64]:
    """Return about how many rows each table is off by after it was counted with noise and fitted.

    A fit leans towards what was believed, so that a small count ends no further off than about its own size.
    """
    variance = np.concatenate([table.reshape(-1) for table in believed]) ** 2
    starts = np.cumsum([0, *(table.size for table in believed[:-1])])
    return np.asarray(_ROOT * noise * np.add.reduceat(np.sqrt(variance / (variance + noise**2)), starts))
