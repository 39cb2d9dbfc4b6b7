"""Tables of codes, and how far apart they are: total variation over sets of one to four columns, fast and exact.

The rows of all tables are concatenated. A set of columns turns each row into one key. If the declared cells are few,
keys are counted in an array with one bin per cell; if they are many, a hash table first numbers the cells that occur.
Both are exact: cells that no table has add nothing. Nothing here knows where a table comes from.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from synth.errors import InputError
from synth.generators.coarse_grid import coarse_grid
from synth.privacy.bins import PAGE, Bins, pieces
from synth.progress import OnStep, unwatched
from synth.reports.figures import MAXIMUM_HEAT_MAP_SIDE, Cell, HeatMap
from synth.schema import ModelledColumn, Schema

__all__ = [
    "ALPHAS",
    "FEWEST_ROWS",
    "PUBLIC_BINS",
    "AlphaWay",
    "CodeTable",
    "ColumnSets",
    "MarginalComparison",
    "StackedTables",
    "UnitRows",
    "bin_labels",
    "choose_subsets",
    "coarse_bins",
    "coarse_size",
    "compare_marginals",
    "sets_of",
]

CodeTable = Sequence[NDArray[Any]]
"""One 1-D array of integer codes per column."""

FEWEST_ROWS = 30
"""Groups with fewer rows are listed but not judged."""

PUBLIC_BINS = 32
"""Bins for the declared range of a number or date where one bin per code would be mostly noise."""

_CELLS_PER_ROW = 1
"""Up to this many cells per row are counted in an array; above, a hash table touches less memory."""

_LARGEST_KEY = 2**62


@dataclass(frozen=True, slots=True, eq=False)
class UnitRows:
    """Rows, and the unit that each belongs to.

    ``codes`` holds one array of shape (n_rows,) per modelled column, ``units`` has shape (n_rows,).
    """

    codes: CodeTable
    units: NDArray[np.int64]

    @property
    def numbers(self) -> NDArray[np.int64]:
        """Every unit once, in ascending order."""
        return np.unique(self.units)

    def of(self, units: NDArray[np.int64]) -> UnitRows:
        """Return the rows of some units."""
        kept = np.isin(self.units, units)
        return UnitRows([codes[kept] for codes in self.codes], self.units[kept])

    def highest(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the largest score of each unit."""
        units, place = np.unique(self.units, return_inverse=True)
        found = np.full(len(units), -np.inf)
        np.maximum.at(found, place, scores)
        return found


def coarse_bins(column: ModelledColumn) -> Bins:
    """Return the public bin of every code: at most 32 equal parts of a declared range; other codes have their own."""
    places = coarse_grid(column, grid=PUBLIC_BINS, atoms=max(column.size, 1))
    bins = places.bins
    return Bins.of_codes(np.arange(column.size)) if bins is None else bins


def coarse_size(column: ModelledColumn) -> int:
    """Return how many bins :func:`coarse_bins` gives a column."""
    return min(column.levels, PUBLIC_BINS) + column.size - column.levels


class StackedTables:
    """Several tables of the same columns, ready to be compared with the first of them.

    Parameters
    ----------
    tables : sequence of CodeTable
        The reference first; tables may have different numbers of rows, at least one each.
    sizes : sequence of int
        Number of codes of each column.

    Raises
    ------
    InputError
        If a table has no row, or another number of columns.
    """

    def __init__(self, tables: Sequence[CodeTable], sizes: Sequence[int]) -> None:
        if any(len(table) != len(sizes) for table in tables):
            raise InputError("Tables can be compared only over the same columns.")
        rows = [len(table[0]) for table in tables]
        if min(rows) == 0:
            raise InputError("A table without rows has no frequencies to compare.")
        self._sizes = tuple(int(size) for size in sizes)
        self._rows = np.array(rows)
        self._columns = [np.concatenate([table[place] for table in tables]) for place in range(len(sizes))]
        self._table_of_row = np.repeat(np.arange(len(tables)), rows)
        self._share = 1.0 / self._rows
        self._prefix: tuple[int, ...] = ()
        self._prefix_key: tuple[NDArray[np.int64], int] | None = None

    def distances(self, subsets: ColumnSets, *, on_step: OnStep = unwatched) -> NDArray[np.float64]:
        """Return the total variation of every further table from the first, for every subset.

        Parameters
        ----------
        subsets : ColumnSets
            Consecutive subsets that share their first columns are fastest.
        on_step : callable, optional
            Called with (done, total) now and then; may raise to stop.

        Returns
        -------
        array of shape (n_subsets, n_tables - 1), values in [0, 1]
        """
        total = len(subsets.chosen)
        found = np.empty((total, len(self._rows) - 1))
        for place, subset in enumerate(subsets.chosen):
            found[place] = self._distances(subset)
            if place % 16 == 0 or place + 1 == total:
                on_step(place + 1, total)
        return found

    def _distances(self, subset: tuple[int, ...]) -> NDArray[np.float64]:
        key, cells = self._key_of_prefix(subset[:-1])
        key, cells = self._extended(key, cells, subset[-1])
        if cells > _CELLS_PER_ROW * len(key):
            key, cells = self._occurring(key, cells)
        counts = np.bincount(key, minlength=cells * len(self._rows))
        return _from_first(counts.reshape(len(self._rows), cells) * self._share[:, None])

    def _key_of_prefix(self, prefix: tuple[int, ...]) -> tuple[NDArray[np.int64], int]:
        if self._prefix_key is None or prefix != self._prefix:
            # A row's table comes first in its key, so that one count serves all tables.
            key, cells = self._table_of_row, 1
            for column in prefix:
                key, cells = self._extended(key, cells, column)
            self._prefix, self._prefix_key = prefix, (key, cells)
        return self._prefix_key

    def _extended(self, key: NDArray[np.int64], cells: int, column: int) -> tuple[NDArray[np.int64], int]:
        size = self._sizes[column]
        if cells * size * len(self._rows) > _LARGEST_KEY:
            # So that the next key still fits into 64 bits.
            key, cells = self._occurring(key, cells)
        longer = key * size
        longer += self._columns[column]
        return longer, cells * size

    def _occurring(self, key: NDArray[np.int64], cells: int) -> tuple[NDArray[np.int64], int]:
        """Return keys over only those cells that occur in a table; the others add nothing to a distance."""
        # Hashed, which is faster than sorting; pyarrow is loaded already.
        encoded = pa.array(key - cells * self._table_of_row).dictionary_encode()
        numbers = encoded.indices.to_numpy().astype(np.int64)
        return numbers + len(encoded.dictionary) * self._table_of_row, len(encoded.dictionary)


def _from_first(shares: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(0.5 * np.abs(shares[1:] - shares[0]).sum(axis=1))


# Sets of columns ----------------------------------------------------------------------------------------------------


_SETS = {1: "single columns", 2: "pairs of columns", 3: "sets of three columns", 4: "sets of four columns"}


def sets_of(alpha: int) -> str:
    """Name the sets of ``alpha`` columns."""
    return _SETS.get(alpha, f"sets of {alpha} columns")


@dataclass(frozen=True, slots=True)
class ColumnSets:
    """Sets of ``alpha`` columns, by their positions in ascending order; ``of`` is the number of all such sets."""

    alpha: int
    chosen: tuple[tuple[int, ...], ...]
    of: int

    @property
    def sentence(self) -> str:
        """How many of all sets these are, in words."""
        if len(self.chosen) == self.of:
            return f"All {self.of:,} {sets_of(self.alpha)}."
        return f"A seeded sample of {len(self.chosen):,} of {self.of:,} {sets_of(self.alpha)}."


def choose_subsets(n_columns: int, alpha: int, *, limit: int, seed: int) -> ColumnSets:
    """Return every subset of ``alpha`` columns, or ``limit`` of them drawn without replacement.

    Parameters
    ----------
    n_columns, alpha : int
        Columns to choose from, and columns in one subset; there is no subset if alpha is larger.
    limit : int
        Largest number of subsets.
    seed : int
        Seed of the sample; public.
    """
    total = math.comb(n_columns, alpha)
    if total <= limit:
        return ColumnSets(alpha, tuple(itertools.combinations(range(n_columns), alpha)), total)
    ranks = np.random.default_rng([seed, alpha]).choice(total, size=limit, replace=False)
    return ColumnSets(alpha, tuple(sorted(_unrank(int(rank), n_columns, alpha) for rank in ranks)), total)


def _unrank(rank: int, n_columns: int, alpha: int) -> tuple[int, ...]:
    """Return the subset at a rank in the lexicographic order of all subsets."""
    subset: list[int] = []
    column = 0
    for left in range(alpha, 0, -1):
        while rank >= (behind := math.comb(n_columns - column - 1, left - 1)):
            rank -= behind
            column += 1
        subset.append(column)
        column += 1
    return tuple(subset)


# Words --------------------------------------------------------------------------------------------------------------


_NAMED = 3
"""Of a bin of values far apart, so many are named one by one."""


def bin_labels(column: ModelledColumn, bins: Bins) -> tuple[str, ...]:
    """Name every bin by its values: the ends of a range, all of few, or the first two and the last of many far apart.

    Examples
    --------
    >>> from synth.schema import NumberColumn
    >>> bin_labels(NumberColumn("age", 0, 99, 1), Bins.of_codes(np.arange(100) % 10))[:2]
    ('0, 10 ... 90 (10 values)', '1, 11 ... 91 (10 values)')
    """
    firsts, lasts = _ends(bins)
    seconds = _seconds(bins, firsts)
    labels = []
    for *ends, codes in zip(firsts.tolist(), seconds.tolist(), lasts.tolist(), bins.widths.tolist(), strict=True):
        first, _, last = ends
        if not codes:
            labels.append("nothing")
        elif last - first == codes - 1:
            labels.append(" to ".join(column.shown_texts(sorted({first, last}))))
        else:
            # Zero on the grid and zero as a value of its own are the same in words.
            *few, end = dict.fromkeys(column.shown_texts(sorted({*ends})))
            together = ", ".join(few)
            labels.append(f"{together}, {end}" if codes <= _NAMED else f"{together} ... {end} ({codes:,} values)")
    return tuple(labels)


def _seconds(bins: Bins, firsts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the second code of every bin, shape (count,), or the column's size where there is none."""
    found = np.full(bins.count, bins.size)

    def consider(own: NDArray[np.integer[Any]], codes: NDArray[np.int64]) -> None:
        fits = (codes > firsts[own]) & (codes < bins.size)
        np.minimum.at(found, own[fits], codes[fits])

    if bins.order is None:
        for first, last, (own,) in pieces(0, bins.size, bins):
            consider(own, first)
            consider(own, np.minimum(first + 1, last))
        return found
    # The second code is in the page of the first, or else the first one of the next page that has any: where that page
    # comes for the first or, if it is the same page, for the second time.
    places = np.argsort(bins.order, kind="stable")
    begins, times = np.unique(bins.order[places], return_index=True, return_counts=True)[1:]
    for page, begin, many in zip(bins.table, begins.tolist(), times.tolist(), strict=True):
        inside = np.argsort(page, kind="stable")
        starts = np.flatnonzero(np.diff(page[inside], prepend=-1))
        for at in places[begin : begin + min(many, 2)].tolist():
            consider(page[inside[starts]], at * PAGE + inside[starts])
        twice = starts[np.diff(starts, append=PAGE) > 1] + 1
        consider(page[inside[twice]], int(places[begin]) * PAGE + inside[twice])
    return found


def _ends(bins: Bins) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the first and the last code of every bin, each of shape (count,), in time that follows its own form."""
    firsts, lasts = np.full(bins.count, bins.size), np.full(bins.count, -1)
    if bins.order is None:
        for first, last, (own,) in pieces(0, bins.size, bins):
            np.minimum.at(firsts, own, first)
            np.maximum.at(lasts, own, last)
        return firsts, lasts
    _, begins = np.unique(bins.order, return_index=True)
    _, from_end = np.unique(bins.order[::-1], return_index=True)
    for page, first, back in zip(bins.table, begins.tolist(), from_end.tolist(), strict=True):
        own, inside = np.unique(page, return_index=True)
        _, away = np.unique(page[::-1], return_index=True)
        np.minimum.at(firsts, own, first * PAGE + inside)
        np.maximum.at(lasts, own, (len(bins.order) - back) * PAGE - 1 - away)
    # What the last page lacks repeats its last bin.
    return firsts, np.minimum(lasts, bins.size - 1)


# Distances over sets of columns -------------------------------------------------------------------------------------


ALPHAS = (1, 2, 3, 4)
_WORST = 10


@dataclass(frozen=True, slots=True, eq=False)
class AlphaWay:
    """Distances over sets of ``alpha`` columns.

    ``distances`` has shape (n_subsets, n_tables), values in [0, 1]: one column for each compared table.
    """

    subsets: ColumnSets
    distances: NDArray[np.float64]
    names: tuple[str, ...]

    @property
    def means(self) -> tuple[float | None, ...]:
        """Mean distance of every compared table; None if there is no set of so many columns."""
        if not len(self.distances):
            return (None,) * int(self.distances.shape[1])
        return tuple(self.distances.mean(axis=0).tolist())

    @property
    def worst(self) -> list[tuple[Cell, ...]]:
        """The ten sets with the largest distance of the first table, with the distances of the others."""
        order = np.argsort(-self.distances[:, 0], kind="stable")[:_WORST]
        chosen = [[self.names[place] for place in self.subsets.chosen[row]] for row in order]
        return [(" + ".join(names), *self.distances[row].tolist()) for names, row in zip(chosen, order, strict=True)]


@dataclass(frozen=True, slots=True, eq=False)
class MarginalComparison:
    """Distances for alpha from 1 to 4."""

    by_alpha: dict[int, AlphaWay]
    _tables: StackedTables

    def pairs(self, title: str, subtitle: str) -> HeatMap:
        """Draw all pairs; for a wide table those of the forty columns that differ most by themselves."""
        singles, pairs = self.by_alpha[1], self.by_alpha[2]
        found = dict(zip(singles.subsets.chosen, singles.distances[:, 0], strict=True))
        ranked = sorted(found, key=lambda subset: (-found[subset], subset))
        shown = sorted(place for (place,) in ranked[:MAXIMUM_HEAT_MAP_SIDE])
        found.update(zip(pairs.subsets.chosen, pairs.distances[:, 0], strict=True))
        wanted = [(left, right) for left in shown for right in shown if left < right]
        lacking = tuple(pair for pair in wanted if pair not in found)
        extra = self._tables.distances(ColumnSets(2, lacking, len(lacking)))
        found.update(zip(lacking, extra[:, 0], strict=True))
        values = tuple(
            tuple(float(found[(left,) if left == right else (min(left, right), max(left, right))]) for right in shown)
            for left in shown
        )
        return HeatMap(title, "total variation", tuple(singles.names[place] for place in shown), values, subtitle)


def compare_marginals(
    tables: Sequence[CodeTable],
    schema: Schema,
    *,
    coarse: bool = False,
    alphas: Sequence[int] = ALPHAS,
    limit: int = 1000,
    seed: int = 0,
    on_step: OnStep = unwatched,
) -> MarginalComparison:
    """Compare tables with the first of them over sets of one to four columns.

    Parameters
    ----------
    tables : sequence of CodeTable
        The reference, then the tables to compare; columns in ``schema.names`` order.
    schema : Schema
        Sizes of the columns.
    coarse : bool
        Put numbers and dates into at most 32 public bins instead of one bin per code, which is mostly sampling noise if
        nearly every row has its own value.
    alphas : sequence of int
        Numbers of columns in a set.
    limit : int
        Most sets of columns for each alpha; if there are more, a seeded sample is taken.
    seed : int
        Seed of that sample; public.
    on_step : callable, optional
        Called with (done, total) over all alphas; may raise to stop.
    """
    sizes = list(schema.sizes)
    if coarse:
        bins = [coarse_bins(column) for column in schema.modelled]
        tables = [[one[codes] for one, codes in zip(bins, table, strict=True)] for table in tables]
        sizes = [one.count for one in bins]
    stacked = StackedTables(tables, sizes)
    chosen = {alpha: choose_subsets(len(sizes), alpha, limit=limit, seed=seed) for alpha in alphas}
    before, total = 0, sum(len(subsets.chosen) for subsets in chosen.values())
    by_alpha = {}
    for alpha, subsets in chosen.items():
        distances = stacked.distances(subsets, on_step=_later(on_step, before, total))
        by_alpha[alpha] = AlphaWay(subsets, distances, schema.names)
        before += len(subsets.chosen)
    return MarginalComparison(by_alpha, stacked)


def _later(on_step: OnStep, before: int, total: int) -> OnStep:
    """Return a callback that counts steps on from those before them."""
    return lambda done, _: on_step(before + done, total)
