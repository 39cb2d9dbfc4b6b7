"""How finely a release was measured: between which values of a number rows were counted, and what lies in between.

Rows are drawn evenly within the finest part of a range that was counted. That is right for a number that changes
smoothly. It is wrong where many rows have one value, such as an income of 0: in the release they are spread over the
part. So rows of a part that is denser than its neighbours may lie anywhere in it: all of them where it is twice as
dense.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from synth.reports.measured import EVALUATION_QUERY, MeasuredTable
from synth.schema import ModelledColumn
from synth.schema.conditions import Among, Between, Compared, Condition, Joined, Name, Not

__all__ = ["Resolution", "unplaced_rows"]

Vector = NDArray[np.float64]
Flags = NDArray[np.bool_]
Codes = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Resolution:
    """The finest parts of the range of a number that were counted; special values and missing cells are in none.

    Attributes
    ----------
    column : ModelledColumn
    starts : array of shape (parts,)
        First code of each part, ascending.
    crowded : array of shape (parts,)
        Share of the rows of each part, from 0 to 1, that may lie anywhere in it; 0 for a single value.
    summed : bool
        Whether a noisy sum tells the mean, wherever rows lie.
    """

    column: ModelledColumn
    starts: Codes
    crowded: Vector
    summed: bool = False

    @classmethod
    def of(
        cls, column: ModelledColumn, tables: Iterable[MeasuredTable], codes: Codes, *, summed: bool = False
    ) -> Self | None:
        """Return the parts that tables of counts divide a range into; None if there is no range, or no such table.

        Parameters
        ----------
        column : ModelledColumn
        tables : iterable of MeasuredTable
            The table of a charged evaluation does not count, because no generator reads it.
        codes : array of shape (rows,)
            Those of released rows.
        summed : bool
        """
        edges = [
            own.edges
            for table in tables
            if table.query != EVALUATION_QUERY
            for name, own in zip(table.columns, table.bins, strict=True)
            if name == column.name
        ]
        if not column.levels or not edges:
            return None
        starts = np.unique(np.concatenate([[0], *edges]))
        starts = starts[starts < column.levels]
        widths = np.diff(starts, append=column.levels)
        ordered = codes[codes < column.levels]
        counts = np.bincount(np.searchsorted(starts, ordered, side="right") - 1, minlength=len(starts))
        return cls(column, starts, _crowded(counts, widths), summed)

    @property
    def _last(self) -> Codes:
        return np.append(self.starts[1:], self.column.levels) - 1

    def _part(self, codes: Codes) -> tuple[Codes, Flags]:
        """Return the part of each code, and which codes are in one."""
        inside = codes < self.column.levels
        return np.where(inside, np.searchsorted(self.starts, codes, side="right") - 1, 0), inside

    def unplaced(self, leaf: Condition, codes: Codes) -> Vector:
        """Return which share of each row may lie on either side of a comparison with constants."""
        found = [(sign, self.column.comparable(str(constant))) for sign, constant in _comparisons(leaf)]
        return self.unplaced_at(found, codes)

    def unplaced_at(self, compared: Iterable[tuple[str, float]], codes: Codes) -> Vector:
        """Return the same for signs and the values they compare with."""
        first, last = self.column.comparable_at(self.starts), self.column.comparable_at(self._last)
        cut = np.zeros(len(first), bool)
        for sign, at in compared:
            above = first < at if sign in ("<", ">=") else first <= at
            cut |= above & (at < last if sign in ("<=", ">") else at <= last)
        return np.where(cut[self._part(codes)[0]], self.free(codes), 0.0)

    def free(self, codes: Codes) -> Vector:
        """Return which share of each row may lie anywhere in its part."""
        parts, inside = self._part(codes)
        return np.where(inside, self.crowded[parts], 0.0)

    def moved(self, codes: Codes) -> tuple[float, float]:
        """Return how much lower and higher the sum of some rows' values may be, in units of the column; both >= 0."""
        if self.summed:
            return 0.0, 0.0
        parts, inside = self._part(codes)
        own, parts = self.column.comparable_at(codes[inside]), parts[inside]
        first, last = self.column.comparable_at(self.starts), self.column.comparable_at(self._last)
        free = self.crowded[parts]
        return float((free * (own - first[parts])).sum()), float((free * (last[parts] - own)).sum())

    def widened(self, values: Vector, codes: Codes, levels: tuple[float, float]) -> tuple[float, float]:
        """Return the quantiles of some rows at two levels, further apart by what may lie elsewhere in their parts.

        Parameters
        ----------
        values, codes : array of shape (rows,)
        levels : tuple of two floats
            From 0 to 1.
        """
        low = float(np.quantile(values, levels[0], method="inverted_cdf"))
        high = float(np.quantile(values, levels[1], method="higher"))
        free, first, _ = self._around(low, values, codes)
        if free:
            at_first = (values < first).mean() + free >= levels[0]
            low = first if at_first else float(np.quantile(values, levels[0] - free, method="inverted_cdf"))
        free, _, last = self._around(high, values, codes)
        if free:
            at_last = (values <= last).mean() - free <= levels[1]
            high = last if at_last else float(np.quantile(values, levels[1] + free, method="higher"))
        return low, high

    def _around(self, end: float, values: Vector, codes: Codes) -> tuple[float, float, float]:
        """Return which share of some rows may lie anywhere in the part of one of their values, and the part's ends."""
        parts, inside = self._part(codes)
        own = int(np.flatnonzero(values == end)[0])
        if not inside[own]:
            return 0.0, end, end
        part = parts[own]
        ends = self.column.comparable_at(np.array([self.starts[part], self._last[part]]))
        share = np.count_nonzero(inside & (parts == part)) / len(codes)
        return float(self.crowded[part]) * share, float(ends[0]), float(ends[1])


def unplaced_rows(
    found: Condition | None, resolutions: Mapping[str, Resolution], column_of: Mapping[str, Codes]
) -> Vector | float:
    """Return which share of each row may lie on either side of what a condition compares with constants.

    Comparisons of two columns do not count: a rule may hold for all rows, wherever in their parts they lie.

    Parameters
    ----------
    found : Condition, optional
    resolutions : mapping of str to Resolution
    column_of : mapping of str to array of shape (rows,)
    """
    shares = [
        resolutions[leaf.left.column].unplaced(leaf, column_of[leaf.left.column])
        for leaf in _leaves(found)
        if leaf.left.column in resolutions
    ]
    return np.max(shares, axis=0) if shares else 0.0


def _leaves(found: Condition | None) -> Iterator[Compared | Among | Between]:
    if isinstance(found, Joined):
        for part in found.parts:
            yield from _leaves(part)
    elif isinstance(found, Not):
        yield from _leaves(found.inner)
    elif isinstance(found, Among | Between) or (isinstance(found, Compared) and not isinstance(found.right, Name)):
        yield found


def _comparisons(leaf: Condition) -> Iterator[tuple[str, object]]:
    if isinstance(leaf, Compared):
        yield leaf.sign, leaf.right
    elif isinstance(leaf, Among):
        yield from (("=", one) for one in leaf.constants)
    elif isinstance(leaf, Between):
        yield from ((">=", leaf.low), ("<=", leaf.high))


def _crowded(counts: Codes, widths: Codes) -> Vector:
    """Return which share of the rows of each part may lie anywhere in it: twice what its neighbours do not explain.

    Of a part that is as dense as the denser of its neighbours it is none, of one that is twice as dense all. How many
    rows lie evenly beside those of a single value is not known either. Single values say nothing of a density: the next
    wider part counts as the neighbour.
    """
    wide = np.flatnonzero(widths > 1)
    density = counts[wide] / widths[wide]
    beside = np.pad(density, 1)
    expected = np.maximum(beside[:-2], beside[2:])
    found = np.zeros(len(counts))
    excess = np.divide(density - expected, density, out=np.zeros(len(wide)), where=density > 0)
    found[wide] = np.clip(2.0 * excess, 0.0, 1.0)
    return found
