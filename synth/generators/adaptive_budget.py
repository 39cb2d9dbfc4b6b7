"""How the adaptive generator divides its budget: by declared facts, the number of rows and the noise to expect."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from synth.privacy.bounds import Bound
from synth.privacy.session import AnswerSource, between_neighbours

__all__ = ["AdaptiveBudget", "divided"]

_ROUNDS_PER_COLUMN = 3.0

_FEWEST_ROUNDS_PER_COLUMN = 0.75
"""Rounds below which chosen tables do more harm to the columns than good to the rest."""

_COLUMN_NOISE = 0.1
"""Noise of all counts of a typical column together, as a part of the rows, from which on columns get a larger share."""

_LARGEST_SHARE = 0.5
"""Most of the budget that columns by themselves get where there is any left for tables of several."""

_TABLE_NOISE = 0.02
"""Noise of a count of several columns, as a part of the rows, from which on a table tells next to nothing."""

_LABEL_WITHOUT_ROUNDS = 0.4
"""Part of the budget for the columns by class where no table is chosen."""

_FEW_BINS = 4
"""Bins by class whose noise must stay below the number of rows for the label to be worth a question."""


@dataclass(frozen=True, slots=True)
class AdaptiveBudget:
    """Parts of the session's budget, in mu^2; they add up to all of it.

    Attributes
    ----------
    columns : float
        For every column by itself.
    by_label : float
        For every column by class of the label; 0 without one.
    rounds : float
        For tables that are chosen.
    n_rounds : float
        Rounds that the first round's part would last; 0 where noise would drown every table.
    """

    columns: float
    by_label: float
    rounds: float
    n_rounds: float

    @property
    def table(self) -> float:
        """Budget of a typical table of two columns by chosen rounds; 0 where there are none."""
        return self.rounds / self.n_rounds if self.n_rounds else 0.0


def divided(
    session: AnswerSource, sizes: Sequence[int], *, least_for_columns: float, label_share: float, label_size: int
) -> AdaptiveBudget:
    """Divide what is left of a session's budget.

    Parameters
    ----------
    session : AnswerSource
    sizes : sequence of int
        Most bins of every column, by its declaration.
    least_for_columns : float
        Least part for the columns by themselves; they get up to half where their noise is large for the rows there are.
    label_share : float
        Part for the columns by class of the label; more where nothing else is left to ask, and none where noise would
        drown even a few bins by class.
    label_size : int
        Classes of the label; 1 without one.
    """
    whole = session.remaining_share
    columns = sum(size > 1 for size in sizes)
    if columns < 2:
        return AdaptiveBudget(whole, 0.0, 0.0, 0.0)
    one_hot = between_neighbours(Bound(norm=1.0, diameter=math.sqrt(2.0)), session.schema)
    # Squared rows of noise that all of the budget would leave in one table.
    variance = one_hot**2 / (session.budget.mu_squared * whole)
    rows = session.rows.value
    squared_cells = sum(size**2 for size in sizes) / len(sizes)
    needed = columns * variance * squared_cells / (_COLUMN_NOISE * rows) ** 2
    for_columns = max(least_for_columns, min(needed, _LARGEST_SHARE))
    for_label = min(label_share, 1.0 - for_columns) if label_size > 1 else 0.0
    left = 1.0 - for_columns - for_label
    n_rounds = min(_ROUNDS_PER_COLUMN * columns, left * (_TABLE_NOISE * rows) ** 2 / variance)
    if n_rounds >= _FEWEST_ROUNDS_PER_COLUMN * columns:
        return AdaptiveBudget(whole * for_columns, whole * for_label, whole * left, n_rounds)
    for_label = min(_LABEL_WITHOUT_ROUNDS, 1.0 - least_for_columns) if for_label else 0.0
    if for_label and _FEW_BINS * label_size * math.sqrt(columns * variance / for_label) > rows:
        for_label = 0.0
    return AdaptiveBudget(whole * (1.0 - for_label), whole * for_label, 0.0, 0.0)
