"""Which bins a column gets: roughly equal noisy mass, chosen from the one-way marginals alone.

The rules, all in rows, where "clear" is a multiple of the noise of one count:

- a column of at most 8 codes keeps them all;
- a number or date gets at most ``bins`` bins over its grid. A place that holds as much as a bin should is a bin of its
  own (a spike); what lies between spikes is cut into bins of equal noisy mass, no smaller than clear. What is left
  between two spikes and is less than half a bin joins the smaller neighbour;
- special values and missing have bins of their own;
- beyond ``categories`` bins of a category the smallest codes share one. The label's codes are never put together.

How many bins columns may get at most follows from their declaration alone (``declared_bins``), so that it tells nothing
of the rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from synth.generators.adaptive.bins import ColumnBins
from synth.generators.one_way_marginals import OneWayMarginal, OneWayMarginals
from synth.schema import ModelledColumn

__all__ = ["MOST_CATEGORIES", "Coarseness", "bins_that_fit", "coarsen", "declared_bins", "grouped"]

Vector = NDArray[np.float64]

Whole = NDArray[np.int64]

MOST_CATEGORIES = 256
"""Most bins of a category other than the label."""

_SMALL = 8
"""Columns of at most this many codes are never coarsened."""

_PAIR_CELLS = 2**24
"""Most cells of all pairs of columns together; wide tables get coarser bins."""

_CLEAR = 1.0
"""Rows that a bin of a number or date should hold, in units of the noise of one count."""

_RARE = 3
"""Fewest codes that are worth a shared bin for rare ones."""


@dataclass(frozen=True, slots=True)
class Coarseness:
    """How coarse bins are: most bins over the grid of a number or date, and of a category other than the label."""

    bins: int = 32
    categories: int = MOST_CATEGORIES


def coarsen(one_ways: OneWayMarginals, coarseness: Coarseness) -> tuple[ColumnBins, ...]:
    """Choose the bins of every column from its one-way table; post-processing."""
    made: dict[tuple[int, bool], ColumnBins] = {}
    chosen = []
    for d, one_way in enumerate(one_ways.columns):
        # Columns share their counts in a plan, and then their bins.
        alike = (id(one_way.counts), d == one_ways.label)
        if alike not in made:
            bins = _bins_of(one_way, one_ways.rows, coarseness, is_label=d == one_ways.label)
            made[alike] = ColumnBins.of(one_way, bins)
        chosen.append(made[alike])
    return tuple(chosen)


def _bins_of(one_way: OneWayMarginal, rows: float, coarseness: Coarseness, *, is_label: bool) -> NDArray[np.int32]:
    grid = one_way.grid
    masses = one_way.proportions * rows
    if grid.size <= _SMALL and int(grid.width.max()) == 1:
        return np.arange(grid.size, dtype=np.int32)
    if not grid.levels:
        if is_label:
            return np.arange(grid.size, dtype=np.int32)
        return _category_bins(masses, coarseness.categories)
    ordered = _grid_bins(masses[: grid.levels], _CLEAR * one_way.cell_std, coarseness.bins)
    others = int(ordered[-1]) + 1 + np.arange(grid.atoms)
    return np.concatenate([ordered, others]).astype(np.int32)


def _category_bins(masses: Vector, most: int) -> NDArray[np.int32]:
    rare = np.zeros(len(masses), dtype=bool)
    if len(masses) >= most:
        rare[np.argsort(-masses, kind="stable")[most - 1 :]] = True
    if int(rare.sum()) < _RARE:
        rare[:] = False
    bins = np.cumsum(~rare) - 1
    bins[rare] = int((~rare).sum())
    return bins.astype(np.int32)


def _grid_bins(masses: Vector, clear: float, most: int) -> Whole:
    """Cut ordered places into bins of at least ``clear`` rows; returns the bin of every place, ascending."""
    clear = max(clear, 1e-9 * float(masses.sum()), 1e-12)
    if len(masses) <= most:
        return _numbered(_cut(masses, masses >= clear, clear), len(masses))
    spikes = np.zeros(len(masses), dtype=bool)
    while True:
        # Every spike takes a bin and its mass away from the rest, which may make more spikes.
        left = max(most - int(spikes.sum()), 1)
        target = max(clear, float(masses[~spikes].sum()) / left)
        found = spikes | (masses >= target)
        if found.sum() == spikes.sum() or found.sum() >= most:
            break
        spikes = found
    starts = _cut(masses, spikes, target)
    while len(starts) > most:
        # Rests between spikes were rounded up too often.
        target *= 1.1
        starts = _cut(masses, spikes & (masses >= target), target)
    return _numbered(starts, len(masses))


def _cut(masses: Vector, spikes: NDArray[np.bool_], target: float) -> list[int]:
    """Make a bin of every spike, and bins of about ``target`` of what lies between; returns where bins start."""
    starts: list[int] = []
    held: list[float] = []
    rests: list[int] = []  # bins too small to stand alone
    edges = [0, *(np.flatnonzero(spikes[1:] | spikes[:-1]) + 1).tolist(), len(masses)]
    for start, end in pairwise(edges):
        mass = float(masses[start:end].sum())
        if spikes[start]:
            starts.append(start)
            held.append(mass)
            continue
        parts = min(int(mass / target + 0.5), end - start)
        if parts == 0:
            rests.append(len(starts))
        middles = np.cumsum(masses[start:end]) - masses[start:end] / 2
        part = np.minimum((middles * (max(parts, 1) / max(mass, 1e-300))).astype(np.int64), max(parts, 1) - 1)
        firsts = start + np.flatnonzero(np.diff(part, prepend=-1) > 0)
        starts.extend(firsts.tolist())
        held.extend(np.add.reduceat(masses[start:end], firsts - start).tolist())
    return _joined(starts, held, rests)


def _joined(starts: list[int], held: list[float], rests: list[int]) -> list[int]:
    """Give every rest to the smaller of its neighbours."""
    removed = set()
    for rest in rests:
        before = held[rest - 1] if rest > 0 else math.inf
        after = held[rest + 1] if rest + 1 < len(starts) else math.inf
        if before <= after and rest > 0:
            removed.add(rest)
        elif rest + 1 < len(starts):
            removed.add(rest + 1)
    return [start for position, start in enumerate(starts) if position not in removed]


def _numbered(starts: list[int], size: int) -> Whole:
    opens = np.zeros(size, dtype=np.int64)
    opens[starts] = 1
    return np.cumsum(opens) - 1


def declared_bins(columns: Sequence[ModelledColumn], bins: int) -> list[int]:
    """Return the most bins that each column can get where numbers and dates have at most ``bins``."""
    return [
        min(column.levels, bins) + min(column.size - column.levels, MOST_CATEGORIES)
        if column.levels
        else min(column.size, MOST_CATEGORIES)
        for column in columns
    ]


def bins_that_fit(most: Sequence[int], bins: int) -> int:
    """Return the number of bins, at most ``bins``, at which all pairs of columns together stay below the limit.

    Parameters
    ----------
    most : sequence of int
        Most bins of every column.
    bins : int
    """
    while bins > 2:
        sizes = [min(size, bins) for size in most]
        if (sum(sizes) ** 2 - sum(size**2 for size in sizes)) // 2 <= _PAIR_CELLS:
            break
        bins -= 1
    return bins


def grouped(one: ColumnBins, most: int, clear: float) -> NDArray[np.int32]:
    """Return a group for every bin of a column, for tables that cannot bear as many cells.

    Parameters
    ----------
    one : ColumnBins
    most : int
        Most groups: of about equal mass where bins are in order, and of the fullest bins and the rest elsewhere.
        Special values and missing stay by themselves.
    clear : float
        Rows that a group of ordered bins should hold.
    """
    if one.size <= most:
        return np.arange(one.size, dtype=np.int32)
    masses = one.expected * max(float(one.table.sum()), 1.0)
    if not one.grid.levels:
        return _category_bins(masses, max(most, 2))
    ordered = int(one.bin_of_place[one.grid.levels - 1]) + 1
    groups = _grid_bins(masses[:ordered], clear, most)
    others = int(groups[-1]) + 1 + np.arange(one.size - ordered)
    return np.concatenate([groups, others]).astype(np.int32)
