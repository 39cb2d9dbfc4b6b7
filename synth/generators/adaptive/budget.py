"""Divide the budget of the default generator by declared facts, the number of rows and a first look at columns."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from synth.generators.adaptive.bins import ColumnBins
from synth.generators.adaptive.coarsening import MOST_CATEGORIES, Coarseness
from synth.generators.one_way_marginals import OneWayMarginals
from synth.privacy.answers import AnswerSource
from synth.privacy.costs import Bound, between_neighbours

__all__ = [
    "BINS",
    "CHOOSING",
    "WIDE",
    "AdaptiveBudget",
    "allocate_budget",
    "coarseness_for",
    "columns_error",
    "columns_gain",
    "share_for_columns",
]

BINS = 1.2
"""Bins of a column relative to the root of the rows in units of their noise; at 1.2, a cell of a two-column table with
even bins holds about 0.7 times the noise of a count."""

CHOOSING = 0.15
"""Share of every round that is spent on choosing which columns to count together."""

_ROUNDS_PER_COLUMN = 3.0

_FEWEST_ROUNDS, _FEWEST_ROUNDS_PER_COLUMN = 4.0, 0.25
"""Rounds, and rounds per column, below which chosen tables cost single columns more than they gain elsewhere. On nine
tables of 300 to 1,200 rows, a few coarse rounds made sets of three columns more accurate by .01 to .07 with about four
rounds or more, and not with fewer; without a label, 25 columns at .28 rounds each lost .013 in pairs."""

_FEWEST_OF_FINE = 0.75
"""Rounds per column below which only coarse tables are worth asking."""

_RELATED = 0.1
"""Share of the rows for which two even columns say something about each other: what tables of several could find."""

_COARSE = 32
"""Cells of a number or date in which its error is measured."""

_TABLE_NOISE = 0.02
"""Noise of a count of several columns, as a share of the rows, above which a table shows next to nothing."""

_LABEL_WITHOUT_ROUNDS = 0.4
"""Share of the budget for the columns by class if no table is chosen."""

_FEW_BINS = 4
"""Bins by class whose noise must stay below the number of rows for the label to be worth a question."""

WIDE = 32
"""Columns from which a label's tables count together: each may be faint if all of them distinguish the classes."""

_CLEAR_CLASSES = 6.0
"""Target for a cell of a few bins by class in a wide table, in units of its noise."""

_FAINTEST = 2.0
"""Maximum noise of a cell of a few bins by class, relative to the cell, in a wide table; 1 in other tables."""

_MOST_FOR_LABEL = 0.6
"""Maximum share of the budget for the columns by class in a wide table."""


@dataclass(frozen=True, slots=True)
class AdaptiveBudget:
    """Shares of the session's budget, in mu^2; they add up to all of it.

    Attributes
    ----------
    columns : float
        For every column on its own.
    by_label : float
        For every column by class of the label; 0 without one.
    rounds : float
        For tables that are chosen.
    n_rounds : float
        Number of rounds at the first round's share; 0 if noise would drown every table.
    few : bool
        Whether these are so few that only coarse tables are worth asking.
    """

    columns: float
    by_label: float
    rounds: float
    n_rounds: float
    few: bool = False

    @property
    def table(self) -> float:
        """Budget of a typical two-column table in a round; 0 if there are no rounds."""
        return self.rounds / self.n_rounds if self.n_rounds else 0.0


def allocate_budget(
    session: AnswerSource,
    whole: float,
    sizes: Sequence[int],
    *,
    for_columns: float,
    label_share: float,
    label_size: int,
    most_rounds: float | None = None,
) -> AdaptiveBudget:
    """Divide a session's budget.

    Parameters
    ----------
    session : AnswerSource
    whole : float
        Share of the session's budget to divide.
    sizes : sequence of int
        Maximum number of bins of every column, by its declaration.
    for_columns : float
        Share of it for single columns; all that the label leaves if noise would drown the other tables.
    label_share : float
        Share for the columns by class of the label; larger if nothing else is left to ask, and 0 if noise would drown
        even a few bins by class.
    label_size : int
        Classes of the label; 1 without one.
    most_rounds : float, optional
        Maximum number of rounds; three per column by default.
    """
    columns = sum(size > 1 for size in sizes)
    if columns < 2:
        return AdaptiveBudget(whole, 0.0, 0.0, 0.0)
    one_hot = between_neighbours(Bound(norm=1.0, diameter=math.sqrt(2.0)), session.schema)
    # Squared noise, in rows, that the whole budget would leave in one table.
    variance = one_hot**2 / (session.budget.mu_squared * whole)
    rows = session.rows.value
    wide = columns >= WIDE
    # Rows in a cell of a few bins by class.
    cell = max(rows, 1.0) / (_FEW_BINS * label_size)
    faintest = (_FAINTEST * cell if wide else cell) ** 2
    if wide and label_share > 0 and columns * variance / _MOST_FOR_LABEL <= faintest:
        # A share at which the noise of the tables by class is small relative to their cells.
        label_share = max(label_share, min(columns * variance * (_CLEAR_CLASSES / cell) ** 2, _MOST_FOR_LABEL))
    for_label = min(label_share, 1.0 - for_columns) if label_size > 1 else 0.0
    left = 1.0 - for_columns - for_label
    most_rounds = _ROUNDS_PER_COLUMN * columns if most_rounds is None else most_rounds
    n_rounds = min(most_rounds, left * (_TABLE_NOISE * rows) ** 2 / variance)
    if n_rounds >= max(_FEWEST_ROUNDS, _FEWEST_ROUNDS_PER_COLUMN * columns):
        few = n_rounds < _FEWEST_OF_FINE * columns
        return AdaptiveBudget(whole * for_columns, whole * for_label, whole * left, n_rounds, few)
    for_label = min(max(_LABEL_WITHOUT_ROUNDS, label_share if wide else 0.0), 1.0 - for_columns) if for_label else 0.0
    if for_label and columns * variance / for_label > faintest:
        for_label = 0.0
    return AdaptiveBudget(whole * (1.0 - for_label), whole * for_label, 0.0, 0.0)


def columns_error(bins: Sequence[ColumnBins]) -> float:
    """Return the approximate total error of all single columns, as a share of the rows."""
    error = 0.0
    for one in bins:
        noise = one.noise_std / max(float(one.table.sum()), 1.0)
        error += float((noise * one.expected / np.hypot(one.expected, noise)).sum())
    return error * 0.5 * math.sqrt(2 / math.pi)


def columns_gain(bins: Sequence[ColumnBins], spent: float) -> Callable[[float], float]:
    """Return what an additional share for columns would gain in all pairs, given the share already spent."""
    error = (len(bins) - 1) * columns_error(bins)
    return lambda more: error * (1.0 - math.sqrt(spent / (spent + more)))


def share_for_columns(one_ways: OneWayMarginals, spent: float) -> float:
    r"""Return which share of a budget should go to single columns, from a first answer about them.

    If columns had a total error of A in all pairs for the whole budget, and tables of several an error of T, a share f
    for columns leaves an error of

    .. math:: A / \sqrt f + T / \sqrt{1 - f}

    which is smallest for f / (1 - f) = (A / T)^(2/3). A follows from the noise in the first answer about columns; T is
    a fixed part of what two columns could say about each other, which is little if most rows agree.

    Parameters
    ----------
    one_ways : OneWayMarginals
        The answers so far.
    spent : float
        Share of the budget that they took.

    Returns
    -------
    float, above 0 and at most 1
    """
    errors, varied = [], []
    for one in one_ways.columns:
        grid = one.grid
        coarse = min(grid.levels, _COARSE)
        cells = np.arange(grid.size) - grid.levels + coarse
        cells[: grid.levels] = np.arange(grid.levels) * coarse // max(grid.levels, 1)
        part = np.bincount(cells, weights=one.proportions)
        noise = one.cell_std / one_ways.rows
        errors.append(0.5 * math.sqrt(2 / math.pi) * noise * float((part / np.hypot(part, noise)).sum()))
        varied.append(1.0 - float((part**2).sum()))
    n = len(errors)
    columns = (n - 1) * math.fsum(errors) * math.sqrt(spent)
    # In each pair, the column that varies less; in ascending order, each is the lesser of all pairs with later ones.
    tables = _RELATED * float(np.sort(varied) @ np.arange(n - 1, -1, -1))
    if tables <= 0:
        return 1.0
    ratio = (columns / tables) ** (2 / 3)
    return float(ratio / (1.0 + ratio))


def coarseness_for(
    budget: AdaptiveBudget, one_ways: OneWayMarginals, *, classes: int, most_bins: int, many: bool
) -> Coarseness:
    """Return how coarse bins must be for a two-column table to show more than noise.

    Parameters
    ----------
    budget : AdaptiveBudget
    one_ways : OneWayMarginals
        The answers so far.
    classes : int
        Classes of the label; 1 without one.
    most_bins : int
        Maximum number of bins of a number or date.
    many : bool
        Whether there are so many columns that a tree is counted.
    """
    columns = len(one_ways.columns)
    table = max(budget.table * (1.0 - CHOOSING), budget.by_label / columns)
    if table <= 0:
        return Coarseness(bins=most_bins)
    rows, least = one_ways.rows / (one_ways.unit_noise / math.sqrt(table)), 4.0
    bins = BINS * math.sqrt(rows)
    if columns >= WIDE and not budget.n_rounds:
        # Only tables by class are counted: noise in their cells limits the bins.
        bins, least = BINS**2 * rows / classes, 2.0
    elif many:
        bins, least = BINS * math.sqrt(rows / classes), float(min(4, most_bins))
    bins = round(min(max(bins, least), float(most_bins)))
    return Coarseness(bins, min((1 if many else 8) * bins, MOST_CATEGORIES))
