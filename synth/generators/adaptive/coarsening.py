"""Choose the bins of a column: roughly equal noisy mass, from the one-way marginals alone.

The rules, where a bin is "clear" if it has at least as many rows as the noise of one count:

- a column of at most 8 codes keeps them all;
- a number or date gets at most ``bins`` bins over its grid. A place with as many rows as a bin should have is a bin of
  its own (a spike); the places between spikes are divided into clear bins of equal noisy mass. A remainder between two
  spikes of less than half a bin joins the smaller neighbour;
- special values and missing have bins of their own;
- a category gets at most ``categories`` bins; its smallest codes share one. A label may have 1,024
  bins: up to so many classes are never merged.

The maximum number of bins follows from the declaration alone (``declared_bins``), so it reveals nothing about the rows.
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
"""Maximum number of bins of a category other than the label."""

_MOST_CLASSES = 1024
"""Maximum number of bins of a label, the last of which its rarest classes share: tables by class of a longer list would
take gigabytes, and show only noise."""

_SMALL = 8
"""Columns with at most this many codes are never coarsened."""

_PAIR_CELLS = 2**24
"""Maximum number of cells of all pairs of columns together; wide tables get coarser bins."""

_CLEAR = 1.0
"""Minimum rows in a bin of a number or date, in units of the noise of one count."""

_RARE = 3
"""Fewest rare codes that are worth a shared bin."""


@dataclass(frozen=True, slots=True)
class Coarseness:
    """Maximum number of bins over the grid of a number or date, and of a category other than the label."""

    bins: int = 32
    categories: int = MOST_CATEGORIES


def coarsen(one_ways: OneWayMarginals, coarseness: Coarseness) -> tuple[ColumnBins, ...]:
    """Choose the bins of every column from its one-way table; post-processing."""
    made: dict[tuple[int, bool], ColumnBins] = {}
    chosen = []
    for d, one_way in enumerate(one_ways.columns):
        # In a plan, columns share their counts, and so their bins.
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
        return _category_bins(masses, _MOST_CLASSES if is_label else coarseness.categories)
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
    """Divide ordered places into bins of at least ``clear`` rows; return the bin of every place, ascending."""
    clear = max(clear, 1e-9 * float(masses.sum()), 1e-12)
    if len(masses) <= most:
        return _numbered(_cut(masses, masses >= clear, clear), len(masses))
    spikes = np.zeros(len(masses), dtype=bool)
    while True:
        # Every spike takes a bin and its mass from the rest, which may create more spikes.
        left = max(most - int(spikes.sum()), 1)
        target = max(clear, float(masses[~spikes].sum()) / left)
        found = spikes | (masses >= target)
        if found.sum() == spikes.sum() or found.sum() >= most:
            break
        spikes = found
    starts = _cut(masses, spikes, target)
    while len(starts) > most:
        # Remainders between spikes were rounded up too often.
        target *= 1.1
        starts = _cut(masses, spikes & (masses >= target), target)
    return _numbered(starts, len(masses))


def _cut(masses: Vector, spikes: NDArray[np.bool_], target: float) -> list[int]:
    """Make every spike a bin, divide what lies between into bins of about ``target``; return where bins start."""
    starts: list[int] = []
    held: list[float] = []
    rests: list[int] = []  # bins that are too small to stand alone
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
    """Add every remainder to the smaller of its neighbours."""
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
    """Return the maximum number of bins of each column if numbers and dates have at most ``bins``."""
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
        Maximum number of bins of every column.
    bins : int
    """
    while bins > 2:
        sizes = [min(size, bins) for size in most]
        if (sum(sizes) ** 2 - sum(size**2 for size in sizes)) // 2 <= _PAIR_CELLS:
            break
        bins -= 1
    return bins


def grouped(one: ColumnBins, most: int, clear: float) -> NDArray[np.int32]:
    """Return a group for every bin of a column, for tables that need fewer cells.

    Parameters
    ----------
    one : ColumnBins
    most : int
        Maximum number of groups: of about equal mass if bins are ordered, otherwise the fullest bins and the rest.
        Special values and missing keep their own bins.
    clear : float
        Minimum rows in a group of ordered bins.
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
