"""Differences of one fit: which two columns are asked how far apart they lie, and what is made of the answer."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np

from synth.generators.adaptive.bins import ColumnBins
from synth.generators.adaptive.orders import CountedDifferences, Order, OrderedPair
from synth.generators.adaptive.survey import Survey
from synth.generators.stacked import answers_of_parts
from synth.models.marginals import JointModel, NoisyMarginal
from synth.privacy.costs import Bound, between_neighbours
from synth.privacy.feature_maps import Stack
from synth.schema import ModelledColumn
from synth.schema.rules import Comparison, Rule, values_of

__all__ = ["Differences", "orders_of"]

_NOISE = 1 / 1000
"""Noise of a band that is aimed at, as a part of the rows."""

_LEAST_SHARE, _MOST_SHARE = 0.005, 0.03
"""Least and most of the budget that one order is worth."""

_MOST_ORDERS = 3
"""Orders that are counted; of more, each would be told less than the first ones are worth."""

_APART = 0.05
"""How far differences of two dates are from those of unrelated ones, at least, where they are followed
(Kolmogorov-Smirnov)."""

_CLEAR = 2.0
"""Standard deviations of noise that differences of two dates are farther from those of unrelated ones than."""

_SURE = 4.0
"""Standard deviations of noise above which bands on one side of nothing hold something: there are many of them."""

_STRAY = 0.01
"""Part of the rows that one side may hold where two dates are taken to be in order."""

_KNOWN_ALREADY = 0.25
"""Noise of a table that has all answers about it already, in units of that of the differences."""


def orders_of(rules: Sequence[Rule], columns: Sequence[ModelledColumn]) -> list[Order]:
    """Return the orders of two columns that hold of every row, in the order of the rules.

    Parameters
    ----------
    rules : sequence of Rule
        Declared.
    columns : sequence of ModelledColumn
    """
    position = {column.name: place for place, column in enumerate(columns)}
    pairs: dict[tuple[int, int], bool] = {}
    for rule in rules:
        then = rule.then
        if rule.when or not isinstance(then, Comparison) or len(then.right) != 1 or then.relation == "=":
            continue
        pair = (position[then.right[0].name], position[then.left.name])
        if min(columns[one].levels for one in pair) >= 2:
            pairs.setdefault(pair if then.relation in (">=", ">") else pair[::-1], then.relation in (">", "<"))
    found: list[Order] = []
    settled: set[int] = set()
    while pairs and len(found) < _MOST_ORDERS:
        laters = {later for _, later in pairs}
        # Along a chain from its beginning: a value that is settled is not drawn again.
        earlier, later = next((pair for pair in pairs if pair[0] not in laters), next(iter(pairs)))
        strict = pairs.pop((earlier, later))
        if later not in settled:
            found.append(Order.between(columns, earlier, later, strict=strict))
            settled |= {earlier, later}
    return found


def _dates_without_order(
    rules: Sequence[Rule], columns: Sequence[ModelledColumn], orders: Sequence[Order]
) -> list[Order]:
    """Return pairs of dates with ranges that overlap and no rule that compares them, nearest in the schema first."""
    place = {column.name: d for d, column in enumerate(columns)}
    compared = [
        {place[name] for name in rule.columns} for rule in rules if isinstance(rule.then, Comparison) and not rule.when
    ]
    # A value that two orders settle is not drawn again.
    settled = {d for one in orders for d in (one.earlier, one.later)}
    dates = [d for d, column in enumerate(columns) if column.kind == "date" and column.levels >= 2]
    ends = {d: values_of(columns[d])[[0, columns[d].levels - 1]].tolist() for d in dates}
    near = sorted(combinations(range(len(dates)), 2), key=lambda pair: (pair[1] - pair[0], pair))
    found = [
        (first, second)
        for first, second in ((dates[one], dates[other]) for one, other in near)
        if max(ends[first][0], ends[second][0]) <= min(ends[first][1], ends[second][1])
        and not any({first, second} <= own for own in (settled, *compared))
    ]
    return [Order.between(columns, *pair, both=True) for pair in found[: max(_MOST_ORDERS - len(orders), 0)]]


class Differences:
    """The orders of one fit: what counting them is worth, what was counted, and what that says.

    Parameters
    ----------
    survey : Survey
    rules : sequence of Rule
        Declared, as far as a model may know of them.
    cells : int
        Most cells of a table that is worked out.

    Attributes
    ----------
    counted : list of CountedDifferences
        Of declared orders, once asked; of dates that go together, once tables or pairs are asked for.
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
        """Part of the budget that the question is worth, by declared facts and a public or released n; 0 for none."""
        return len(self._orders) * self._share_of_one if self._orders else 0.0

    @property
    def _share_of_one(self) -> float:
        session = self._survey.session
        wanted = (self._one_hot / (_NOISE * max(session.rows.value, 1.0))) ** 2 / session.budget.mu_squared
        return min(max(wanted, _LEAST_SHARE), _MOST_SHARE)

    @property
    def _one_hot(self) -> float:
        return between_neighbours(Bound(norm=1.0, diameter=math.sqrt(2.0)), self._survey.session.schema)

    def _can_tell(self, order: Order) -> bool:
        """Return whether noise of all bands, known before it is drawn, can be told from half of the rows."""
        session = self._survey.session
        noise = self._one_hot * math.sqrt(len(order.bands[0]) / (self._share_of_one * session.budget.mu_squared))
        return session.rows.value > 2.0 * _CLEAR * noise

    def ask(self) -> None:
        """Count rows by the differences of all orders, in one question for ``share``."""
        parts = tuple(order.question(self._survey.columns) for order in self._orders)
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
        """Take the dates that go together among those that were asked, clearest first; once, from answers alone."""
        told = [(apart, one) for one in self._open for apart in [_apart(one, bins)] if apart > 0]
        settled = {d for one in self.counted for d in (one.order.earlier, one.order.later)}
        for _, one in sorted(told, key=lambda pair: -pair[0]):
            # The later one's values are drawn again: which of the two is called so is free.
            way = one if one.order.later not in settled else one.turned()
            if way.order.later not in settled:
                self.counted.append(_in_order(way))
                settled |= {way.order.earlier, way.order.later}
        self._open = []

    def tables(self, bins: Sequence[ColumnBins], total: float, model: JointModel | None = None) -> list[NoisyMarginal]:
        """Return what differences say of tables of both columns; no question is asked.

        Parameters
        ----------
        bins : sequence of ColumnBins
            Of all columns.
        total : float
            Number of rows, as far as it is known.
        model : JointModel, optional
            What is known of tables of both; absent, only what is known of each column.
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
        """Return how rows lie apart inside the bins of a finished model."""
        self._settle(bins)
        return tuple(OrderedPair.fitted(one, bins, one.order.table_in(model), 1.0)[0] for one in self.counted)


def _apart(counted: CountedDifferences, bins: Sequence[ColumnBins]) -> float:
    """Return how far differences are from those of unrelated columns; 0 where noise, or what is left of it, hides it.

    The largest difference of the distributions (Kolmogorov-Smirnov), which noise of all bands together is held against.
    """
    rows, noise = float(counted.counts.sum()), counted.noise_std * math.sqrt(len(counted.counts))
    if rows <= _CLEAR * noise or counted.held(_SURE).sum() <= rows / 2:
        return 0.0
    expected = OrderedPair.unrelated(counted.order, bins).expected
    found = float(np.abs(np.cumsum(counted.counts / rows - expected)).max())
    return found if found > max(_APART, _CLEAR * noise / rows) else 0.0


def _in_order(counted: CountedDifferences) -> CountedDifferences:
    """Return the counts with nothing on a side of nothing that holds no more than noise explains, and few rows."""
    counts, held, below = counted.counts.copy(), counted.held(_SURE), counted.order.n_below
    for side in (slice(0, below), slice(below + 1, None)):
        if held[side].sum() <= _STRAY * held.sum():
            counts[side] = 0.0
    return replace(counted, counts=counts)
