"""Differences of columns: which pairs are asked how far apart their values are, and how the answer is used."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np

from synth.generators.adaptive.bins import ColumnBins
from synth.generators.adaptive.orders import CountedDifferences, Order, OrderedPair
from synth.generators.adaptive.survey import CLEAR, Survey
from synth.generators.round_values import MOST_ASIDE
from synth.generators.stacked import answers_of_parts
from synth.models.marginals import JointModel, NoisyMarginal
from synth.privacy.costs import Bound, between_neighbours
from synth.privacy.feature_maps import Stack
from synth.schema import ModelledColumn
from synth.schema.rules import Comparison, Rule, values_of

__all__ = ["Differences", "orders_of"]

_NOISE = 1 / 1000
"""Target noise of a band, as a share of the rows."""

_LEAST_SHARE = 0.005
"""Minimum share of the budget for one order."""

_MOST_ORDERS = 3
"""Maximum number of orders that are counted: with more, the answer about each would be too noisy."""

_APART = 0.05
"""Minimum distance (Kolmogorov-Smirnov) between the differences of two dates and those of unrelated dates, for the
model to use them; and more than the noise explains."""

_SURE = 4.0
"""Standard deviations of noise above which bands on one side of zero are not empty: there are many bands."""

_STRAY = 0.01
"""Maximum share of the rows on one side of zero for two dates to count as ordered."""

_KNOWN_ALREADY = 0.25
"""Noise of a table about which all answers are known already, in units of the noise of the differences."""


def orders_of(rules: Sequence[Rule], columns: Sequence[ModelledColumn]) -> list[Order]:
    """Return the orders of two columns that hold for every row, in the order of the rules.

    Parameters
    ----------
    rules : sequence of Rule
        Declared rules.
    columns : sequence of ModelledColumn
    """
    position = {column.name: place for place, column in enumerate(columns)}
    pairs: dict[tuple[int, int], bool] = {}
    for rule in rules:
        then = rule.then
        order = then.order if isinstance(then, Comparison) and then.relation != "=" else None
        if rule.when or order is None:
            continue
        pair = (position[order[1]], position[order[0]])
        if min(columns[one].levels for one in pair) >= 2:
            pairs.setdefault(pair, order[2])
    found: list[Order] = []
    settled: set[int] = set()
    while pairs and len(found) < _MOST_ORDERS:
        laters = {later for _, later in pairs}
        # Follow a chain from its beginning: a value that is settled is not drawn again.
        earlier, later = next((pair for pair in pairs if pair[0] not in laters), next(iter(pairs)))
        strict = pairs.pop((earlier, later))
        if later not in settled:
            found.append(Order.between(columns, earlier, later, strict=strict))
            settled |= {earlier, later}
    return found


def _dates_without_order(
    rules: Sequence[Rule], columns: Sequence[ModelledColumn], orders: Sequence[Order]
) -> list[Order]:
    """Return pairs of dates whose ranges overlap and that no rule compares, nearest in the schema first."""
    place = {column.name: d for d, column in enumerate(columns)}
    # A rule that only bounds a difference leaves open how it is distributed.
    compared = [
        {place[name] for name in rule.columns}
        for rule in rules
        if isinstance(rule.then, Comparison) and not rule.when and (rule.then.order or len(rule.then.right) > 1)
    ]
    # A value that two orders settle is not drawn again.
    settled = {d for one in orders for d in (one.earlier, one.later)}
    dates = [d for d, column in enumerate(columns) if column.kind == "date" and column.levels >= 2]
    ends = {d: values_of(columns[d])[np.array([0, columns[d].levels - 1])].tolist() for d in dates}
    near = sorted(combinations(range(len(dates)), 2), key=lambda pair: (pair[1] - pair[0], pair))
    found = [
        (first, second)
        for first, second in ((dates[one], dates[other]) for one, other in near)
        if max(ends[first][0], ends[second][0]) <= min(ends[first][1], ends[second][1])
        and not any({first, second} <= own for own in (settled, *compared))
    ]
    return [Order.between(columns, *pair, both=True) for pair in found[: max(_MOST_ORDERS - len(orders), 0)]]


class Differences:
    """The orders of one fit: the budget for counting them, the counts, and the tables that follow from them.

    Parameters
    ----------
    survey : Survey
    rules : sequence of Rule
        Declared rules.
    cells : int
        Maximum number of cells of a table that is computed.

    Attributes
    ----------
    counted : list of CountedDifferences
        For declared orders, once they are asked; for related dates, once tables or pairs are requested.
    """

    def __init__(self, survey: Survey, rules: Sequence[Rule], *, cells: int) -> None:
        self._survey, self._cells = survey, cells
        self._orders = orders_of(rules, survey.columns)
        undeclared = _dates_without_order(rules, survey.columns, self._orders)
        self._orders += [one for one in undeclared if self._can_tell(one)]
        self.counted: list[CountedDifferences] = []
        self._open: list[CountedDifferences] = []

    @property
    def share(self) -> float:
        """Share of the budget for the question, by declared facts and a public or released n; 0 without orders."""
        return len(self._orders) * self._share_of_one if self._orders else 0.0

    @property
    def _share_of_one(self) -> float:
        session = self._survey.session
        wanted = (self._one_hot / (_NOISE * max(session.rows.value, 1.0))) ** 2 / session.budget.mu_squared
        return min(max(wanted, _LEAST_SHARE), MOST_ASIDE)

    @property
    def _one_hot(self) -> float:
        return between_neighbours(Bound(norm=1.0, diameter=math.sqrt(2.0)), self._survey.session.schema)

    def _can_tell(self, order: Order) -> bool:
        """Return whether half of the rows would exceed the noise of all bands, which is known before it is drawn."""
        session = self._survey.session
        noise = self._one_hot * math.sqrt(len(order.bands[0]) / (self._share_of_one * session.budget.mu_squared))
        return session.rows.value > 2.0 * CLEAR * noise

    def ask(self) -> None:
        """Count rows by the differences of all orders, in one question with the budget ``share``."""
        parts = tuple(order.question() for order in self._orders)
        question = Stack(parts, (math.sqrt(1.0 / len(parts)),) * len(parts))
        query = "differences of dates" if any(one.both for one in self._orders) else "differences"
        answer = self._survey.session.noisy_sum(question, share=self.share, query=query, source=self._survey.source)
        found = [
            CountedDifferences(order, order.kept(counts), noise_std)
            for order, (counts, noise_std) in zip(self._orders, answers_of_parts(answer, question), strict=True)
        ]
        self.counted = [one for one in found if not one.order.both]
        self._open = [one for one in found if one.order.both]

    def _settle(self, bins: Sequence[ColumnBins]) -> None:
        """Select the related dates among those that were asked, clearest first; once, from answers alone."""
        told = [(apart, one) for one in self._open for apart in [_apart(one, bins)] if apart > 0]
        settled = {d for one in self.counted for d in (one.order.earlier, one.order.later)}
        for _, one in sorted(told, key=lambda pair: -pair[0]):
            # The later column's values are drawn again, and either of the two can be the later one.
            way = one if one.order.later not in settled else one.turned()
            if way.order.later not in settled:
                self.counted.append(_in_order(way))
                settled |= {way.order.earlier, way.order.later}
        self._open = []

    def tables(self, bins: Sequence[ColumnBins], total: float, model: JointModel | None = None) -> list[NoisyMarginal]:
        """Return the tables of both columns that follow from the differences; no question is asked.

        Parameters
        ----------
        bins : sequence of ColumnBins
            Of all columns.
        total : float
            Known or estimated number of rows.
        model : JointModel, optional
            Known joint distribution; without it, only the single columns are known.
        """
        self._settle(bins)
        known = 1.0 if model is None else _KNOWN_ALREADY
        return [
            replace(table, noise_std=known * table.noise_std)
            for one in self.counted
            if bins[one.order.earlier].size * bins[one.order.later].size <= self._cells
            for table in OrderedPair.fitted(one, bins, one.order.table_in(model), total)[1]
        ]

    def pairs(self, bins: Sequence[ColumnBins], model: JointModel) -> tuple[OrderedPair, ...]:
        """Return how far apart the values of rows are inside the bins of a finished model."""
        self._settle(bins)
        return tuple(OrderedPair.fitted(one, bins, one.order.table_in(model), 1.0)[0] for one in self.counted)


def _apart(counted: CountedDifferences, bins: Sequence[ColumnBins]) -> float:
    """Return the distance of differences from those of unrelated columns; 0 if noise hides it.

    It is the largest difference of the distributions (Kolmogorov-Smirnov), compared with the noise of all bands
    together.
    """
    rows, noise = float(counted.counts.sum()), counted.noise_std * math.sqrt(len(counted.counts))
    if rows <= CLEAR * noise or counted.held(_SURE).sum() <= rows / 2:
        return 0.0
    expected = OrderedPair.unrelated(counted.order, bins).expected
    found = float(np.abs(np.cumsum(counted.counts / rows - expected)).max())
    return found if found > max(_APART, CLEAR * noise / rows) else 0.0


def _in_order(counted: CountedDifferences) -> CountedDifferences:
    """Return the counts with a side of zero emptied if it holds few rows, or no more than noise explains."""
    counts, held, below = counted.counts.copy(), counted.held(_SURE), counted.order.n_below
    for side in (slice(0, below), slice(below + 1, None)):
        if held[side].sum() <= _STRAY * held.sum():
            counts[side] = 0.0
    return replace(counted, counts=counts)
