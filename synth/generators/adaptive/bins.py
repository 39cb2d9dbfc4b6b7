"""A column as a joint model sees it: a few bins, what was counted in them, and how codes are drawn inside them.

Bins have roughly equal noisy mass and are chosen from the one-way marginals alone (``coarsen``). The rules, all in
rows, where "clear" is a multiple of the noise of one count:

- a column of at most 8 codes keeps them all;
- a number or date gets at most ``bins`` bins over its grid. A place that holds as much as a bin should is a bin of its
  own (a spike); what lies between spikes is cut into bins of equal noisy mass, no smaller than clear. What is left
  between two spikes and is less than half a bin joins the smaller neighbour;
- special values and missing have bins of their own where they are clear. The others share one bin if together they
  are clear, and else join the fullest bin of the column, where the few rows they stand for change least;
- a category whose count is not clear goes into one shared bin for rare ones, if at least ``rare`` codes do; beyond
  ``most_categories`` the smallest follow. The label's codes are never put together.

How many bins columns may get at most follows from their declaration alone (``declared_bins``), so that it tells nothing
of the rows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Annotated, Any, Self

import numpy as np
from numpy.typing import NDArray

from synth.generators.coarse_grid import CoarseGrid
from synth.generators.one_way_marginals import OneWayMarginal, OneWayMarginals
from synth.generators.options import Between, Options
from synth.generators.round_values import CodeChances, RoundCounts, class_factors, single_values
from synth.models.marginals import NoisyMarginal
from synth.schema import ModelledColumn

__all__ = ["CoarseningOptions", "ColumnBins", "bins_that_fit", "coarsen", "declared_bins"]

Vector = NDArray[np.float64]

Whole = NDArray[np.int64]

_LEAST_KEY_BITS = 6
"""Random bits that must fit into a 16-bit sorting key beside the bin; with fewer, values are shuffled instead."""

_SMALL = 8
"""Columns of at most this many codes are never coarsened."""

_PAIR_CELLS = 2**24
"""Most cells of all pairs of columns together; wide tables get coarser bins."""


_FAINT = 1e-9
"""Part of the rows below which a bin is empty."""

_CLEAR_PLACE = 10.0
"""Rows, in units of the noise of a count that got a column's whole part, from which on a place is clear by itself: that
is three standard deviations where a tenth of the part goes to single places."""

_FEWEST_BROAD = 3
"""Bins of several places from which on the first and last one can be told from what is beside them."""

_TAIL = 3.0
"""Shape of the tails: between those of incomes and exponential ones."""

_CLEAR_TAIL = 1.0
"""Standard deviations from which on there is clearly more far out."""


@dataclass(frozen=True, slots=True, eq=False)
class ColumnBins:
    """The bins of one column.

    Attributes
    ----------
    grid : CoarseGrid
        The finest cells in which the column was counted.
    bin_of_place : array of shape (places,), int32
        Bin of every place; every bin holds at least one.
    proportions : array of shape (places,), float64
        Estimated part of the rows in every place; codes inside a bin follow it.
    table : array of shape (bins,), float64
        Counts with noise, in rows, of any sign.
    noise_std : array of shape (bins,), float64
        Standard deviation of the noise of each count, in rows; positive.
    chances : CodeChances, optional
        How likely a code is beside the others of its place; absent, all are as likely.
    drawn_as : array of shape (bins,), int32, optional
        Bin whose codes the rows of each bin get, where a column has few values and some bins none of them.
    """

    grid: CoarseGrid
    bin_of_place: NDArray[np.int32]
    proportions: Vector
    table: Vector
    noise_std: Vector
    chances: CodeChances | None = None
    drawn_as: NDArray[np.int32] | None = None
    _order: Whole = field(init=False, repr=False)
    _inside: Vector = field(init=False, repr=False)
    _ends: Whole = field(init=False, repr=False)

    def __post_init__(self) -> None:
        order = np.argsort(self.bin_of_place, kind="stable")
        ends = np.cumsum(np.bincount(self.bin_of_place, minlength=self.size))
        object.__setattr__(self, "_order", order)
        object.__setattr__(self, "_ends", ends)
        object.__setattr__(self, "_inside", self._shares_inside(order))

    @classmethod
    def of(cls, one_way: OneWayMarginal, bin_of_place: NDArray[np.int32]) -> Self:
        """Sum a column's counts by bin, and work out the noise of every sum."""
        size = int(bin_of_place.max()) + 1
        variances = one_way.variances_of(bin_of_place.astype(np.int64), size)
        # Where the number of rows is public, all rows together are known exactly: no noise, but a model needs some.
        least = 1e-3 * one_way.cell_std
        return cls(
            grid=one_way.grid,
            bin_of_place=bin_of_place,
            proportions=one_way.proportions,
            table=_summed(bin_of_place, one_way.counts, size),
            noise_std=np.maximum(np.sqrt(variances), least),
        )

    @property
    def size(self) -> int:
        """Number of bins."""
        return len(self.table)

    @property
    def expected(self) -> Vector:
        """Estimated part of the rows in every bin, shape (bins,): not negative, sum 1, nearer the truth than ``table``.

        The table is unbiased and says how noisy it is; this is shrunk, where noise is large by much.
        """
        return _summed(self.bin_of_place, self.proportions, self.size)

    @property
    def is_identity(self) -> bool:
        """Whether every code is the bin of the same number."""
        grid = self.grid
        return (
            self.size == grid.size == int(grid.width.sum())
            and bool((self.bin_of_place == np.arange(grid.size)).all())
        )  # fmt: skip

    @property
    def bins(self) -> NDArray[np.int32] | None:
        """Bin of every code, shape (column size,), or None where the code is the bin; made when asked for."""
        if self.is_identity:
            return None
        bins = np.repeat(self.bin_of_place, self.grid.width)
        bins.setflags(write=False)  # questions share bins that nobody can change
        return bins

    def measured(self, position: int) -> NoisyMarginal:
        """Return the expected counts as a joint model takes them, with the root mean square of the noise of ``table``.

        Expected rather than noisy counts, as they halve the error of the model's columns; the noise they are given is
        therefore rather too large than too small.
        """
        rows = max(float(self.table.sum()), 1.0)
        return NoisyMarginal((position,), self.expected * rows, float(np.sqrt(np.mean(self.noise_std**2))))

    def with_tails(self, one_way: OneWayMarginal) -> Self:
        """Return bins of the same mass, the first and last of which do not reach farther than what is beside them says.

        Mass that noise leaves undecided is spread evenly, which makes a tail as long as a wide declared range. So from
        its inner edge on an outermost bin holds at least as much as a Lomax distribution of shape 3, whose density
        begins with what that of the two bins beside it comes to at the edge: not so light that it cuts off the tails of
        incomes. Where the counts say clearly that there is more far out, the bin is left as it is.

        Parameters
        ----------
        one_way : OneWayMarginal
            The counts that the bins were made of.
        """
        levels, masses = self.grid.levels, self.expected
        of_place = self.bin_of_place[:levels]
        starts = np.flatnonzero(np.diff(of_place, prepend=-1))
        ends = np.append(starts[1:], levels)
        # Single places are spikes, which say nothing of a density.
        broad = np.flatnonzero((ends - starts > 1) & (masses[of_place[starts]] > _FAINT))
        if len(broad) < _FEWEST_BROAD:
            return self
        proportions = self.proportions.copy()
        first = self.grid.first[starts[broad]].astype(np.float64)
        last = (self.grid.first + self.grid.width)[ends[broad] - 1].astype(np.float64)
        held = masses[of_place[starts[broad]]]
        for outer, beside, before, edges in ((-1, -2, -3, first), (0, 1, 2, last)):
            fall = math.log1p((held[beside] + held[before]) / held[outer]) / abs(edges[before] - edges[outer])
            width = last[beside] - first[beside]
            at_edge = held[beside] / width * math.exp(-fall * width / 2)
            places = np.arange(starts[broad[outer]], ends[broad[outer]])
            places = places if outer else places[::-1]
            reach = np.cumsum(self.grid.width[places])
            inner = 1.0 - (1.0 + at_edge / held[outer] * reach / _TAIL) ** -_TAIL
            proportions[places] = self._held_in(one_way, places, inner / inner[-1])
        return replace(self, proportions=proportions)

    def _held_in(self, one_way: OneWayMarginal, places: Whole, least: Vector) -> Vector:
        """Return the mass of places from the inside out, at least this part of it up to each; or as it is."""
        now = self.proportions[places]
        whole = float(now.sum())
        if whole <= 0:
            return now
        parts = np.cumsum(now) / whole
        farther = least - parts
        if not (farther > 0).any():
            return now
        # Is there clearly more beyond the place where both differ most?
        beyond = places[int(np.argmax(farther)) + 1 :]
        groups = np.zeros(self.grid.size, dtype=np.int64)
        groups[beyond] = 1
        counted = float(one_way.counts[beyond].sum())
        wanted = whole * (1.0 - float(least[np.argmax(farther)])) * max(float(self.table.sum()), 1.0)
        if counted - wanted > _CLEAR_TAIL * math.sqrt(float(one_way.variances_of(groups, 2)[1])):
            return now
        least = np.maximum(parts, least)
        # Half of it lies near, as it was counted: heaps there are not spread.
        half = int(np.searchsorted(least, 0.5))
        if parts[half] > 0:
            least[:half] = parts[:half] * (least[half] / parts[half])
        return np.diff(least, prepend=0.0) * whole

    def with_round_values(self, counted: RoundCounts, rows: float, cell_std: float) -> Self:
        """Return bins of the same mass in which codes are as round as they were counted.

        Places of one code that are clear by themselves stay as they are.

        Parameters
        ----------
        counted : RoundCounts
            Of the same column.
        rows : float
            Number of rows, as far as it is known.
        cell_std : float
            As of the column's one-way marginal, in rows.
        """
        if not counted.counts.any():
            # A plan's answers tell nothing.
            return self
        levels, classes = self.grid.levels, counted.classes
        first, width, bins = self.grid.first[:levels], self.grid.width[:levels], self.bin_of_place[:levels]
        proportions = self.proportions.copy()
        single, chances = single_values(counted, first, width, proportions[:levels] * rows)
        each = CodeChances(classes, np.ones(len(counted.counts)), single, chances, counted.fine).of_codes
        each *= np.repeat(proportions[:levels] / np.add.reduceat(each, first), width)
        kinds = len(counted.counts)
        clear = (width == 1) & (proportions[:levels] * rows > _CLEAR_PLACE * cell_std)
        of_code = np.where(np.repeat(clear, width), 0, classes)
        known = np.bincount(classes, weights=np.where(of_code == 0, each, 0.0), minlength=kinds) * rows
        cells = np.repeat(bins.astype(np.int64) * kinds, width) + of_code
        held = np.bincount(cells, weights=each, minlength=self.size * kinds).astype(np.float64)
        masses = held.reshape(self.size, kinds)
        factors = class_factors(replace(counted, counts=counted.counts - known), masses, rows=rows)
        if (factors == 1.0).all() and not len(single):
            return self
        # What is in no class keeps its mass, and so does the rest of every bin.
        before, after = masses[:, 1:].sum(axis=1), masses[:, 1:] @ factors[1:]
        by_bin = np.divide(before, after, out=np.ones_like(before), where=after > 0)
        each *= np.where(of_code == 0, 1.0, factors[classes] * np.repeat(by_bin[bins], width))
        proportions[:levels] = np.add.reduceat(each, first)
        return replace(
            self, proportions=proportions, chances=CodeChances(classes, factors, single, chances, counted.fine)
        )

    def masses_of_codes(self) -> Vector:
        """Return the part of the rows at every code of the grid, shape (levels,); a bin without rows is even."""
        levels = self.grid.levels
        first, width, bins = self.grid.first[:levels], self.grid.width[:levels], self.bin_of_place[:levels]
        each = np.ones(int(width.sum())) if self.chances is None else self.chances.of_codes
        places = np.where(self.expected[bins] > 0, self.proportions[:levels], _FAINT * width)
        return np.asarray(each * np.repeat(places / np.add.reduceat(each, first), width))

    def codes(self, bins: NDArray[np.integer], random: np.random.Generator) -> Whole:
        """Draw a code inside every bin.

        Parameters
        ----------
        bins : array of shape (n_rows,), whole numbers below ``size``
        random : Generator

        Returns
        -------
        array of shape (n_rows,), int64
            In each bin, the number of codes from each place is the floor or ceiling of its expectation; which row of
            the bin gets which of them is random, so codes inside a bin are unrelated to anything else.
        """
        if self.is_identity:
            return bins.astype(np.int64)
        sorted_codes = self._sorted_codes(np.bincount(bins, minlength=self.size), random)
        codes = np.empty(len(bins), dtype=np.int64)
        free_bits = 16 - max(self.size - 1, 1).bit_length()
        if free_bits < _LEAST_KEY_BITS:
            for start, end in _segments(np.bincount(bins, minlength=self.size)):
                random.shuffle(sorted_codes[start:end])
            codes[np.argsort(bins, kind="stable")] = sorted_codes
            return codes
        # Keys of 16 bits are sorted in linear time. Rows with the same key come in their own order and get neighbouring
        # values, less than 2^-6 of the bin apart, or 2^-11 with 32 bins: too near to carry anything.
        keys = random.integers(0, 2**16, len(bins), dtype=np.uint16)
        keys >>= np.uint16(16 - free_bits)
        keys |= bins.astype(np.uint16) << np.uint16(free_bits)
        codes[np.argsort(keys, kind="stable")] = sorted_codes
        return codes

    def grouped(self, most: int, clear: float) -> NDArray[np.int32]:
        """Return a group for every bin, for tables that cannot bear as many cells.

        Parameters
        ----------
        most : int
            Most groups: of about equal mass where bins are in order, and of the fullest bins and the rest elsewhere.
            Special values and missing stay by themselves.
        clear : float
            Rows that a group of ordered bins should hold.
        """
        if self.size <= most:
            return np.arange(self.size, dtype=np.int32)
        masses = self.expected * max(float(self.table.sum()), 1.0)
        if not self.grid.levels:
            return _category_bins(masses, 0.0, CoarseningOptions(most_categories=max(most, 2)))
        ordered = int(self.bin_of_place[self.grid.levels - 1]) + 1
        groups = _grid_bins(masses[:ordered], clear, CoarseningOptions(bins=most))
        others = int(groups[-1]) + 1 + np.arange(self.size - ordered)
        return np.concatenate([groups, others]).astype(np.int32)

    def state(self) -> dict[str, NDArray[Any]]:
        """Return everything beyond the schema and the options that drawing needs."""
        chances = {} if self.chances is None else self.chances.state()
        if self.drawn_as is not None:
            chances["drawn_as"] = self.drawn_as.copy()
        return {
            "bin_of_place": self.bin_of_place.copy(),
            "proportions": self.proportions.copy(),
            "table": self.table.copy(),
            "noise_std": self.noise_std.copy(),
            **chances,
        }

    @classmethod
    def from_state(
        cls, grid: CoarseGrid, state: Mapping[str, NDArray[Any]], column: ModelledColumn | None = None
    ) -> Self:
        """Rebuild bins that draw the same bytes; ``grid`` as ``one_way_marginals.fine_grid`` makes them.

        The column is needed where some of its codes are likelier than others of their place.
        """
        chances = None
        if column is not None and "factors" in state:
            chances = CodeChances.from_state(column, state)
        return cls(
            grid=grid,
            bin_of_place=state["bin_of_place"].astype(np.int32),
            proportions=state["proportions"].astype(np.float64),
            table=state["table"].astype(np.float64),
            noise_std=state["noise_std"].astype(np.float64),
            chances=chances,
            drawn_as=state["drawn_as"].astype(np.int32) if "drawn_as" in state else None,
        )

    def _shares_inside(self, order: Whole) -> Vector:
        """Return, for places in order of their bins, the part of the bin up to and including each."""
        bins = self.bin_of_place[order]
        mass = np.bincount(self.bin_of_place, weights=self.proportions, minlength=self.size)
        width = np.bincount(self.bin_of_place, weights=self.grid.width, minlength=self.size)
        # A bin in which nothing is estimated to be is filled evenly.
        empty = (mass <= 0)[bins]
        share = np.where(empty, self.grid.width[order] / width[bins], self.proportions[order])
        share = np.where(empty, share, share / np.where(mass > 0, mass, 1.0)[bins])
        summed = np.cumsum(share)
        starts = np.concatenate([[0.0], summed])[np.concatenate([[0], self._ends[:-1]])]
        return np.asarray(np.clip(summed - starts[bins], 0.0, 1.0))

    def _sorted_codes(self, rows: Whole, random: np.random.Generator) -> Whole:
        """Return codes in order of bin and place: ``rows[b]`` of bin b, spread systematically."""
        order, bins = self._order, self.bin_of_place[self._order]
        upper = np.floor(self._inside * rows[bins] + random.random(self.size)[bins]).astype(np.int64)
        upper = np.minimum(upper, rows[bins])
        upper[self._ends - 1] = rows
        counts = np.diff(upper, prepend=0)
        firsts = np.concatenate([[0], self._ends[:-1]])
        counts[firsts] = upper[firsts]
        first, width = self.grid.first[order], self.grid.width[order]
        codes = np.repeat(first, counts)
        if (width > 1).any():
            codes += _spread_inside(
                counts, width, random, None if self.chances is None else (first, self.chances.of_codes)
            )
        return codes


def _spread_inside(
    counts: Whole, width: Whole, random: np.random.Generator, chances: tuple[Whole, Vector] | None = None
) -> Whole:
    """Return steps from the first code of each place: as many as ``counts``, evenly spaced from a random start.

    ``chances`` are the first code of each place and how likely every code of the grid is; steps are then evenly spaced
    in what these add up to.
    """
    kept = np.flatnonzero(counts)
    counts, width = counts[kept], width[kept]
    offsets = random.random(len(kept)) - (np.cumsum(counts) - counts)
    inside = np.arange(int(counts.sum()), dtype=np.float64)
    inside += np.repeat(offsets, counts)
    if chances is None:
        inside *= np.repeat(width / counts, counts)
        steps = inside.astype(np.int64)
        return np.minimum(steps, np.repeat(width - 1, counts), out=steps)
    first, codes = chances[0][kept], chances[1]
    added = np.concatenate([[0.0], np.cumsum(codes)])
    # Codes beside the grid are as likely as each other.
    ordered = first < len(codes)
    low = np.where(ordered, added[np.minimum(first, len(codes))], first)
    high = np.where(ordered, added[np.minimum(first + width, len(codes))], first + width)
    inside *= np.repeat((high - low) / counts, counts)
    inside += np.repeat(low, counts)
    on_grid = np.repeat(ordered, counts)
    steps = np.floor(inside).astype(np.int64)
    steps[on_grid] = np.searchsorted(added, inside[on_grid], side="right") - 1
    steps -= np.repeat(first, counts)
    return np.clip(steps, 0, np.repeat(width - 1, counts))


def _segments(counts: Whole) -> list[tuple[int, int]]:
    ends = np.cumsum(counts)
    return list(zip((ends - counts).tolist(), ends.tolist(), strict=True))


def _summed(bins: NDArray[np.int32], values: Vector, size: int) -> Vector:
    return np.bincount(bins, weights=values, minlength=size).astype(np.float64)


@dataclass(frozen=True, slots=True)
class CoarseningOptions(Options):
    """How coarse bins are."""

    bins: Annotated[int, Between(1, 1024)] = 32
    """Most bins over the grid of a number or date."""

    clear: Annotated[float, Between(0.0, 1e6)] = 1.0
    """Rows that a bin of a number or date should hold, as a multiple of the noise of one count."""

    clear_code: Annotated[float, Between(0.0, 1e6)] = 0.0
    """Rows that a category or special value needs for a bin of its own, as a multiple of the noise of one count."""

    rare: Annotated[int, Between(2, 10_000)] = 3
    """Fewest codes that are worth a shared bin for rare ones."""

    most_categories: Annotated[int, Between(2, 10_000)] = 256
    """Most bins of a category other than the label."""


def coarsen(one_ways: OneWayMarginals, options: CoarseningOptions) -> tuple[ColumnBins, ...]:
    """Choose the bins of every column from its one-way table; post-processing."""
    made: dict[tuple[int, bool], ColumnBins] = {}
    chosen = []
    for d, one_way in enumerate(one_ways.columns):
        # Columns share their counts in a plan, and then their bins.
        alike = (id(one_way.counts), d == one_ways.label)
        if alike not in made:
            bins = _bins_of(one_way, one_ways.rows, options, is_label=d == one_ways.label)
            made[alike] = ColumnBins.of(one_way, bins)
        chosen.append(made[alike])
    return tuple(chosen)


def _bins_of(one_way: OneWayMarginal, rows: float, options: CoarseningOptions, *, is_label: bool) -> NDArray[np.int32]:
    grid = one_way.grid
    masses = one_way.proportions * rows
    if grid.size <= _SMALL and int(grid.width.max()) == 1:
        return np.arange(grid.size, dtype=np.int32)
    if not grid.levels:
        if is_label:
            return np.arange(grid.size, dtype=np.int32)
        return _category_bins(masses, one_way.cell_std, options)
    ordered = _grid_bins(masses[: grid.levels], one_way.cell_std, options)
    return _with_atoms(ordered, masses, grid.levels, one_way.cell_std * options.clear_code)


def _category_bins(masses: Vector, cell_std: float, options: CoarseningOptions) -> NDArray[np.int32]:
    rare = masses < options.clear_code * cell_std
    if len(masses) - int(rare.sum()) >= options.most_categories:
        rare[np.argsort(-masses, kind="stable")[options.most_categories - 1 :]] = True
    if int(rare.sum()) < options.rare:
        rare[:] = False
    bins = np.cumsum(~rare) - 1
    bins[rare] = int((~rare).sum())
    return bins.astype(np.int32)


def _with_atoms(ordered: Whole, masses: Vector, levels: int, clear: float) -> NDArray[np.int32]:
    """Give bins to the unordered codes of a number or date."""
    bins = np.concatenate([ordered, np.zeros(len(masses) - levels, dtype=np.int64)])
    following = int(ordered[-1]) + 1
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


def declared_bins(columns: Sequence[ModelledColumn], bins: int) -> list[int]:
    """Return the most bins that each column can get where numbers and dates have at most ``bins``."""
    most = CoarseningOptions().most_categories
    return [
        min(column.levels, bins) + min(column.size - column.levels, most) if column.levels else min(column.size, most)
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
