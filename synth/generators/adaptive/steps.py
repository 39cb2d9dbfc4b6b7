"""Two columns on one scale: how many steps each of their codes lies above the least value of both.

A declared range may have millions of codes, so steps are calculated for the codes that are asked about. The question
about private rows looks them up in public tables, which repeat: a code's steps are those of the first code of its page,
and those from there, and most pages have the same ones inside.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from synth.privacy.bins import MOST_RUNS, PAGE, Bins
from synth.privacy.more.lookups import Lookup
from synth.schema import ModelledColumn

__all__ = ["LOW", "Steps", "common_steps"]

Whole = NDArray[np.int64]

_REACH = 2**20
"""Maximum number of steps between the first and the last value of two columns; otherwise several count as one."""

LOW = 2**14
"""Steps of the lower part of an entry, so that all entries are exact; the higher part counts these."""

_AT_ONCE = 2**17
"""Number of codes whose values are calculated at a time."""


@dataclass(frozen=True, slots=True, eq=False)
class Steps:
    """The steps of the codes of one column.

    Attributes
    ----------
    column : ModelledColumn
    least : float
        Value from which steps are counted.
    step : float
        Difference of values that is one step.
    first_at : array of shape (reach + 2,), int64
        First level at or above every number of steps; the last entry is the number of levels.
    reach : int
        Maximum number of steps of the column.
    """

    column: ModelledColumn
    least: float
    step: float
    first_at: Whole
    reach: int

    @classmethod
    def counted(cls, column: ModelledColumn, least: float, step: float) -> Steps:
        """Count the levels of a column by their steps."""
        reach = int(_steps(column, _ends(column), least, step).max())
        held = np.zeros(reach + 2, dtype=np.int64)
        for first, end in _blocks(column.levels):
            held[1:] += np.bincount(_steps(column, np.arange(first, end), least, step), minlength=reach + 1)
        return cls(column, least, step, np.cumsum(held), reach)

    def of(self, codes: Whole) -> Whole:
        """Return the steps of some codes, -1 where they have no value."""
        return _steps(self.column, codes, self.least, self.step)

    def first_from(self, steps: Whole) -> Whole:
        """Return the first level at or above each number of steps, which may be out of range."""
        return np.asarray(self.first_at[np.clip(steps, 0, self.reach + 1)])

    def lookups(self, beyond: int) -> tuple[Lookup, ...]:
        """Return maps that add up to the steps of every code, and to ``beyond`` where it has no value.

        Each has two features, divided by 2^15: the lower part of its steps and, in multiples of ``LOW``, the higher.
        """
        name, size = self.column.name, self.column.size
        if size <= MOST_RUNS:
            return (_lookup(name, [self._from(0, size, beyond, 0)]),)
        firsts = np.arange(0, size, PAGE)
        starts = np.maximum(self.of(firsts), 0)
        pages = Bins.of_runs(np.arange(len(firsts)), np.diff(firsts, append=size))
        inside = (
            self._from(first, min(first + PAGE, size), beyond, start)
            for first, start in zip(firsts.tolist(), starts.tolist(), strict=True)
        )
        return Lookup(name, _entries(starts), pages), _lookup(name, inside)

    def _from(self, first: int, end: int, beyond: int, start: int) -> Whole:
        """Return by how much the steps of codes exceed ``start``, and ``beyond`` where a code has no value."""
        found = self.of(np.arange(first, end))
        return np.where(found < 0, beyond, found) - start


def common_steps(one: ModelledColumn, other: ModelledColumn) -> tuple[Steps, Steps]:
    """Count the steps of two columns from the least value of both.

    A step is the smallest difference of two neighbouring values of either, times a power of two if there would be more
    than 2^20.
    """
    ends = [column.comparable_at(_ends(column)) for column in (one, other)]
    known = np.concatenate([values[np.isfinite(values)] for values in ends])
    least, most = float(known.min()), float(known.max())
    step = min(_least_difference(column) for column in (one, other))
    while (most - least) / step > _REACH:
        step *= 2.0
    return Steps.counted(one, least, step), Steps.counted(other, least, step)


def _ends(column: ModelledColumn) -> Whole:
    """Return the first and the last level, and the codes that are no level."""
    return np.concatenate([[0, column.levels - 1], np.arange(column.levels, column.size)])


def _blocks(levels: int) -> Iterator[tuple[int, int]]:
    return ((first, min(first + _AT_ONCE, levels)) for first in range(0, levels, _AT_ONCE))


def _least_difference(column: ModelledColumn) -> float:
    """Return the smallest difference of two neighbouring values of a column that has at least two."""
    blocks = (np.arange(max(first - 1, 0), end) for first, end in _blocks(column.levels))
    return min(float(np.diff(column.comparable_at(codes)).min()) for codes in blocks)


def _steps(column: ModelledColumn, codes: Whole, least: float, step: float) -> Whole:
    values = column.comparable_at(codes)
    found = np.floor((np.nan_to_num(values) - least) / step + 1e-9)
    return np.where(np.isfinite(values), found, -1).astype(np.int64)


def _entries(steps: Whole) -> NDArray[np.float64]:
    """Return the lower and the higher part of steps, which may be negative, as features; shape (steps, 2)."""
    return np.stack([steps % LOW, steps // LOW], axis=1) / 2.0**15


def _lookup(name: str, pages: Iterable[Whole]) -> Lookup:
    """Return the map of codes whose steps come in pages, of which most are equal."""
    places, order = dict[bytes, int](), list[int]()
    for page in pages:
        order.append(places.setdefault(page.tobytes(), len(places)))
    different = [np.frombuffer(page, dtype=np.int64) for page in places]
    steps = np.unique(np.concatenate([np.unique(page) for page in different]))
    binned = [np.searchsorted(steps, page) for page in different]
    return Lookup(name, _entries(steps), Bins.of_blocks(binned[place] for place in order))
