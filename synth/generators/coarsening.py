"""Which codes a joint model tells apart: bins of roughly equal noisy mass, chosen from the one-way tables alone.

The rules, all in rows, where "clear" is a multiple of the noise of one count:

- a column of at most 8 codes keeps them all;
- a number or date gets at most ``bins`` bins over its grid. A place that holds as much as a bin should is a bin of its
  own (a spike); what lies between spikes is cut into bins of equal noisy mass, no smaller than clear. What is left
  between two spikes and is less than half a bin joins the smaller neighbour;
- special values and missing have bins of their own where they are clear. The others share one bin if together they are
  clear, and else join the fullest bin of the column, where the few rows they stand for change least;
- a category whose count is not clear goes into one shared bin for rare ones, if at least ``rare`` codes do; beyond
  ``most_categories`` the smallest follow. The label's codes are never put together.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from synth.generators.column_bins import ColumnBins
from synth.generators.one_ways import OneWay, OneWays
from synth.generators.options import check_between

__all__ = ["CoarseningOptions", "coarsen"]

Vector = NDArray[np.float64]
Whole = NDArray[np.int64]

_SMALL = 8
"""Columns of at most this many codes are never coarsened."""


@dataclass(frozen=True, slots=True)
class CoarseningOptions:
    """How coarse bins are."""

    bins: int = 32
    """Most bins over the grid of a number or date."""

    clear: float = 1.0
    """Rows that a bin of a number or date should hold, as a multiple of the noise of one count."""

    clear_code: float = 0.0
    """Rows that a category or special value needs for a bin of its own, as a multiple of the noise of one count."""

    rare: int = 3
    """Fewest codes that are worth a shared bin for rare ones."""

    most_categories: int = 256
    """Most bins of a category other than the label."""

    def __post_init__(self) -> None:
        check_between("bins", self.bins, 1, 1024)
        check_between("clear", self.clear, 0.0, 1e6)
        check_between("clear_code", self.clear_code, 0.0, 1e6)
        check_between("rare", self.rare, 2, 10_000)
        check_between("most_categories", self.most_categories, 2, 10_000)


def coarsen(one_ways: OneWays, options: CoarseningOptions) -> tuple[ColumnBins, ...]:
    """Choose the bins of every column from its one-way table; post-processing."""
    return tuple(
        ColumnBins.of(one_way, _bins_of(one_way, one_ways.rows, options, is_label=d == one_ways.label))
        for d, one_way in enumerate(one_ways.columns)
    )


def _bins_of(one_way: OneWay, rows: float, options: CoarseningOptions, *, is_label: bool) -> NDArray[np.int32]:
    places = one_way.places
    masses = one_way.proportions * rows
    if places.size <= _SMALL and int(places.width.max()) == 1:
        return np.arange(places.size, dtype=np.int32)
    if not places.levels:
        if is_label:
            return np.arange(places.size, dtype=np.int32)
        return _category_bins(masses, one_way.cell_std, options)
    grid = _grid_bins(masses[: places.levels], one_way.cell_std, options)
    return _with_atoms(grid, masses, places.levels, one_way.cell_std * options.clear_code)


def _category_bins(masses: Vector, cell_std: float, options: CoarseningOptions) -> NDArray[np.int32]:
    rare = masses < options.clear_code * cell_std
    if len(masses) - int(rare.sum()) >= options.most_categories:
        rare[np.argsort(-masses, kind="stable")[options.most_categories - 1 :]] = True
    if int(rare.sum()) < options.rare:
        rare[:] = False
    bins = np.cumsum(~rare) - 1
    bins[rare] = int((~rare).sum())
    return bins.astype(np.int32)


def _with_atoms(grid: Whole, masses: Vector, levels: int, clear: float) -> NDArray[np.int32]:
    """Give bins to the unordered codes of a number or date."""
    bins = np.concatenate([grid, np.zeros(len(masses) - levels, dtype=np.int64)])
    following = int(grid[-1]) + 1
    faint = []
    for place in range(levels, len(masses)):
        if masses[place] >= clear:
            bins[place] = following
            following += 1
        else:
            faint.append(place)
    if faint and masses[faint].sum() >= clear:
        bins[faint] = following
    elif faint:
        kept = np.setdiff1d(np.arange(len(masses)), faint)
        bins[faint] = np.argmax(np.bincount(bins[kept], weights=masses[kept]))
    return bins.astype(np.int32)


def _grid_bins(masses: Vector, cell_std: float, options: CoarseningOptions) -> Whole:
    """Cut ordered places into bins; returns the bin of every place, ascending."""
    clear = max(options.clear * cell_std, 1e-9 * float(masses.sum()), 1e-12)
    if len(masses) <= options.bins:
        return _numbered(_cut(masses, masses >= clear, clear), len(masses))
    spikes = np.zeros(len(masses), dtype=bool)
    while True:
        # Every spike takes a bin and its mass away from the rest, which may make more spikes.
        left = max(options.bins - int(spikes.sum()), 1)
        target = max(clear, float(masses[~spikes].sum()) / left)
        found = spikes | (masses >= target)
        if found.sum() == spikes.sum() or found.sum() >= options.bins:
            break
        spikes = found
    starts = _cut(masses, spikes, target)
    while len(starts) > options.bins:
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
