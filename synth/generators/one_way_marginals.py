"""One-way marginals of all columns in one question: what a model knows about each column on its own.

A category is counted code by code. A number or date is counted at several resolutions, so that both its shape (coarse
cells with little noise each) and its spikes (fine places) survive; zero and both ends, where spikes are most likely,
have a cell of their own at each resolution. The finest cells are public, narrow where rows are likely, and follow from
the schema alone (``fine_grid``). Everything after the one answer is post-processing.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from synth.generators.coarse_grid import CoarseGrid, coarse_grid
from synth.generators.hierarchical_histogram import HierarchicalHistogram, bottom_depth, nearest_masses, node_starts
from synth.generators.stacked import answers_of_parts, column_weights
from synth.privacy.answers import AnswerSource
from synth.privacy.bins import Bins
from synth.privacy.feature_maps import OneHot, Stack
from synth.schema import ModelledColumn

__all__ = [
    "OneWayMarginal",
    "OneWayMarginals",
    "fine_grid",
    "measure_one_way_marginals",
    "place_near_zero",
]

Vector = NDArray[np.float64]

Matrix = NDArray[np.float64]

_ONE_LEVEL = 64
"""Longest grid that is counted once, place by place."""

_CLEAR = 3.0
"""Standard deviations above which a place where a spike was likely is treated as one."""

_SOMEWHERE = 2.0
"""Standard deviations from which the clearest interval beside a spike holds rows, if it is clear that some do."""

_THINNER = 4.0
"""How many times as far as the known range a tail may reach without being seen: of a Pareto tail of shape 2, a
sixteenth of the last cell's rows lies beyond."""

_LONG = 32
"""Number of codes from which a column counts as long."""

_MOST_PLACES = 2048
"""Maximum number of places of a number or date."""

_COARSE_PART = 0.7
"""Share of a number's squared norm for its 32 widest cells; the remainder of all shares goes to single places."""

_MIDDLE_PART = 0.2
"""Share of a number's squared norm for the cells in between, if there are any."""


@dataclass(frozen=True, slots=True, eq=False)
class OneWayMarginal:
    """What was learned about one column.

    Attributes
    ----------
    column : ModelledColumn
    grid : CoarseGrid
        The cells of every array below: ordered places of the grid, then unordered ones.
    counts : array of shape (places,)
        Noisy counts, in rows, of any sign; they are consistent with each other and with the total. Far out, where noise
        explains all that was counted, they are 0 (``_far_out``); elsewhere they are unbiased.
    proportions : array of shape (places,)
        Estimates from these counts: not negative, sum 1, without structure that noise explains.
    cell_std : float
        Noise of one count if the column's whole share of the question had gone into it, in rows.
    rows_variance : float
        Variance of the noise in the number of rows.
    """

    column: ModelledColumn
    grid: CoarseGrid
    counts: Vector
    proportions: Vector
    cell_std: float
    rows_variance: float
    _cells: _ColumnCounts
    _uncut: tuple[Vector, _ColumnCounts]

    @property
    def everywhere(self) -> OneWayMarginal:
        """The same with counts that are unbiased far out too."""
        counts, cells = self._uncut
        return replace(self, counts=counts, _cells=cells)

    def variances_of(self, groups: NDArray[np.int64], size: int) -> Vector:
        """Return the variance of the summed ``counts`` of each group of places.

        Parameters
        ----------
        groups : array of shape (places,)
            Group of every place, from 0 to ``size`` - 1.

        Returns
        -------
        array of shape (size,), in squared rows
        """
        cells = self._cells
        of_alone = cells.variances[len(cells.variances) - len(cells.alone) :]
        # Added up by group: a weight for every place and group would be 80 GB for 100,000 classes of a label.
        own: Vector = np.bincount(groups[cells.alone], of_alone, size).astype(np.float64)
        on_grid = np.equal.outer(groups[: self.grid.levels], np.arange(size)).astype(np.float64)
        return self._given_total(own, own, on_grid)

    def variances_of_sums(self, weights: Matrix) -> Vector:
        """Return the variance of weighted sums of the ``counts``.

        Parameters
        ----------
        weights : array of shape (places, sums)
            Weight of every place in each sum.

        Returns
        -------
        array of shape (sums,), in squared rows
        """
        cells = self._cells
        own, of_alone = weights[cells.alone], cells.variances[len(cells.variances) - len(cells.alone) :]
        return self._given_total(own.T @ of_alone, np.square(own).T @ of_alone, weights[: self.grid.levels])

    def _given_total(self, slope: Vector, variance: Vector, on_grid: Matrix) -> Vector:
        """Return variances given the total, from those of the places that stand alone and the weights of the others."""
        cells = self._cells
        if cells.nested is not None:
            share, inside = cells.nested.spread_of(on_grid)
            variance = variance + inside + share**2 * cells.variances[0]
            slope = slope + share * cells.variances[0]
        # The total constrains all counts together, and so reduces their noise.
        return np.asarray(np.maximum(variance - slope**2 / (cells.variances.sum() + self.rows_variance), 0.0))


@dataclass(frozen=True, slots=True, eq=False)
class OneWayMarginals:
    """One-way tables of all modelled columns, from one or several answers."""

    columns: tuple[OneWayMarginal, ...]
    label: int | None
    rows: float
    """Known or estimated number of rows; at least 1."""

    unit_noise: float
    """Noise of one count of a one-hot table that gets the session's whole budget, in rows."""

    asked: int
    """How many times they were asked for."""

    answers: tuple[tuple[tuple[Vector, float], ...], ...]
    """For every column, its noisy tables, finest first, with the variance of a count."""

    layouts: tuple[_Layout, ...]
    question: Stack
    """The question, which is the same when it is asked again."""


def measure_one_way_marginals(
    session: AnswerSource,
    columns: tuple[ModelledColumn, ...],
    *,
    label: str | None,
    share: float,
    source: str,
    earlier: OneWayMarginals | None = None,
) -> OneWayMarginals:
    """Count every column on its own, all in one question.

    Parameters
    ----------
    session : AnswerSource
    columns : tuple of ModelledColumn
    label : str, optional
        Name of the column that counts as long, and whose categories are never merged.
    share : float
        Share of the session's budget to spend, in mu^2.
    source : str
        Who asks, for the receipt.
    earlier : OneWayMarginals, optional
        Earlier answers to the same question; both are averaged, weighted by inverse variance.
    """
    if earlier is None:
        layouts = _layouts(columns)
        question = _question(columns, layouts, label)
    else:
        layouts, question = earlier.layouts, earlier.question
    query = "one-way tables" if earlier is None else f"one-way tables again ({earlier.asked})"
    release = session.noisy_sum(question, share=share, query=query, source=source)
    rows = session.rows
    total = max(rows.value, 1.0)
    by_depth = iter(answers_of_parts(release, question))
    learned, kept = [], []
    unanswered: dict[tuple[object, ...], OneWayMarginal] = {}
    for d, layout in enumerate(layouts):
        tables = []
        for depth in range(len(layout.depths)):
            counts, noise_std = next(by_depth)
            answer = (counts, noise_std**2)
            tables.append(answer if earlier is None else _averaged(answer, earlier.answers[d][depth]))
        kept.append(tuple(tables))
        # An answer of zeros, as in a plan, says the same about all columns with the same codes.
        answered = any(table.any() for table, _ in tables)
        alike = (id(layout), *(variance for _, variance in tables))
        one = None if answered else unanswered.get(alike)
        if one is None:
            one = _learn(columns[d], layout, tables, total, rows.noise_std**2, answered=answered)
        if not answered:
            unanswered[alike] = one
        learned.append(replace(one, column=columns[d]))
    names = [column.name for column in columns]
    # Laplace noise is inversely proportional to its share of the budget, and the L1 norms of the tables add up.
    unit_noise = release.noise_std * (
        share / math.fsum(question.weights) if session.budget.is_pure else math.sqrt(share)
    )
    asked = 1 if earlier is None else earlier.asked + 1
    label_position = None if label is None else names.index(label)
    return OneWayMarginals(tuple(learned), label_position, total, unit_noise, asked, tuple(kept), layouts, question)


def _averaged(one: tuple[Vector, float], other: tuple[Vector, float]) -> tuple[Vector, float]:
    """Average two answers to one question, weighted by inverse variance."""
    precision = 1.0 / one[1] + 1.0 / other[1]
    return (one[0] / one[1] + other[0] / other[1]) / precision, 1.0 / precision


def fine_grid(column: ModelledColumn) -> CoarseGrid:
    """Return the cells in which a column is counted; they follow from the schema alone.

    A grid of more than 2,048 codes combines places of two kinds: half have equal width, and half widen in proportion to
    their distance from zero (from the end nearest to zero, if zero is not on the grid), since many columns have most of
    their rows there. Zero and both ends, to which cells from outside the grid move, stand alone.
    """
    equal = coarse_grid(column, grid=_MOST_PLACES, atoms=column.size)
    if column.levels <= _MOST_PLACES:
        return equal
    starts = _grid_starts(column.levels, column.code_near_zero)
    first = np.concatenate([starts, equal.first[equal.levels :]])
    return CoarseGrid(
        levels=len(starts),
        atoms=equal.atoms,
        first=first,
        width=np.diff(np.append(first, column.size)).astype(np.int64),
    )


def place_near_zero(column: ModelledColumn, grid: CoarseGrid) -> int:
    """Return the ordered place of zero, or the one nearest to it."""
    return int(np.searchsorted(grid.first[: grid.levels], column.code_near_zero, side="right")) - 1


def _grid_starts(codes: int, anchor: int) -> NDArray[np.int64]:
    half = _MOST_PLACES // 2
    even = (np.arange(half, dtype=np.int64) * codes) // half
    above, below = math.log(codes - anchor), math.log(anchor + 1)
    left = _MOST_PLACES - half - 4
    widening = [
        np.expm1(np.linspace(0.0, length, int(left * length / (above + below)))).astype(np.int64)
        for length in (above, below)
    ]
    starts = np.concatenate([[0, 1, anchor, codes - 1], even, anchor + 1 + widening[0], anchor - widening[1]])
    return np.unique(np.clip(starts, 0, codes - 1))


@dataclass(frozen=True, eq=False)
class _Layout:
    """The layout of the counts of one column, or of several with the same codes.

    ``depths`` are the counted depths of its tree with their shares of the squared norm, finest first. ``alone`` are the
    places with a cell of their own at every depth: those where spikes are most likely, then the unordered ones.
    """

    grid: CoarseGrid
    depths: tuple[tuple[int, float], ...]
    alone: NDArray[np.int64]

    @functools.cached_property
    def bins(self) -> tuple[Bins | None, ...]:
        """For every depth, the cell of each code: a node without the places that stand alone, or such a place."""
        found = [self.grid.bins]
        for cells, present in self.cells.values():
            rank = np.empty(int(cells.max()) + 1, dtype=np.int32)
            rank[present] = np.arange(len(present))
            found.append(Bins.of_runs(rank[cells], self.grid.width))
        return tuple(found)

    @functools.cached_property
    def cells(self) -> dict[int, tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """By depth above the finest, the cell of every place, and the cells in order of their first place.

        Cells are the nodes of the depth, then the places that stand alone; a node may have no place left.
        """
        found = {}
        for depth, _ in self.depths[1:]:
            cells = np.empty(self.grid.size, dtype=np.int64)
            cells[: self.grid.levels] = self.nodes(depth)
            cells[self.alone] = 2**depth + np.arange(len(self.alone))
            present, first = np.unique(cells, return_index=True)
            found[depth] = (cells, present[np.argsort(first)])
        return found

    def nodes(self, depth: int) -> NDArray[np.int64]:
        """Return the node of every ordered place at a depth above the finest."""
        return np.repeat(np.arange(2**depth), np.diff(node_starts(self.grid.levels, depth)))


def _layouts(columns: tuple[ModelledColumn, ...]) -> tuple[_Layout, ...]:
    """Return the layout of every column; columns with the same codes share one."""
    made: dict[tuple[int, ...], _Layout] = {}
    found = []
    for column in columns:
        codes = (column.size, column.levels, column.code_near_zero)
        if codes not in made:
            made[codes] = _layout(column)
        found.append(made[codes])
    return tuple(found)


def _layout(column: ModelledColumn) -> _Layout:
    grid = fine_grid(column)
    bottom = bottom_depth(grid.levels)
    coarse = bottom_depth(_ONE_LEVEL) - 1
    unordered = np.arange(grid.levels, grid.size)
    if grid.levels <= _ONE_LEVEL:
        return _Layout(grid, ((bottom, 1.0),), unordered)
    depths = [(coarse, _COARSE_PART)]
    if bottom - coarse >= 4:
        depths.insert(0, ((bottom + coarse + 1) // 2, _MIDDLE_PART))
    finest = (bottom, 1.0 - math.fsum(part for _, part in depths))
    likely = np.unique([0, place_near_zero(column, grid), grid.levels - 1])
    return _Layout(grid, (finest, *depths), np.concatenate([likely, unordered]))


def _question(columns: tuple[ModelledColumn, ...], layouts: tuple[_Layout, ...], label: str | None) -> Stack:
    parts, weights = [], []
    for column, layout, weight in zip(columns, layouts, _weights(columns, label), strict=True):
        for bins, (_, part) in zip(layout.bins, layout.depths, strict=True):
            parts.append(OneHot(columns=(column.name,), bins=(bins,), sizes=(column.size,)))
            weights.append(weight * math.sqrt(part))
    return Stack(parts=tuple(parts), weights=tuple(weights))


def _weights(columns: tuple[ModelledColumn, ...], label: str | None) -> list[float]:
    """Divide the squared norm by declared importance and by length, so that long columns are not drowned by short ones.

    The summed error of a table grows with its cells, so a larger share for long columns reduces the sum over columns;
    the cube root leaves the short ones nearly as they were. The label counts as a long column.
    """
    lengths = [_LONG if column.name == label else min(column.size, _LONG) for column in columns]
    parts = [weight**2 * length ** (1 / 3) for weight, length in zip(column_weights(columns), lengths, strict=True)]
    whole = math.fsum(parts)
    return [math.sqrt(part / whole) for part in parts]


@dataclass(frozen=True, slots=True, eq=False)
class _ColumnCounts:
    """The counts of one column: a tree of ordered places, and the places ``alone``.

    ``values`` and ``variances`` are those of the whole tree, if there is one, and of each place alone.
    """

    nested: HierarchicalHistogram | None
    alone: NDArray[np.int64]
    values: Vector
    variances: Vector


def _cells(
    layout: _Layout, tables: list[tuple[Vector, float]], *, faint: NDArray[np.int64], empty: NDArray[np.bool_]
) -> _ColumnCounts:
    """Combine the tables of a column; ``faint`` places go back into the tree, and ``empty`` ones are known to be so."""
    levels = layout.grid.levels
    kept = ~np.isin(layout.alone, faint) & ~np.append(empty, False)[np.minimum(layout.alone, levels)]
    alone = layout.alone[kept]
    estimate, precision = np.zeros(len(alone)), 0.0
    answers = {}
    for (depth, _), (table, variance) in zip(layout.depths, tables, strict=True):
        if depth == bottom_depth(levels):
            own, nodes = table[layout.alone], table[:levels].copy()
            variances = np.full(levels, variance)
            nodes[alone[alone < levels]] = variances[alone[alone < levels]] = 0.0
            nodes[empty] = variances[empty] = 0.0
        else:
            _, present = layout.cells[depth]
            cells, spread = np.zeros((2, 2**depth + len(layout.alone)))
            cells[present], spread[present] = table, variance
            nodes, own, variances = cells[: 2**depth], cells[2**depth :], spread[: 2**depth]
            back = ~kept & ~np.append(empty, True)[np.minimum(layout.alone, levels)]
            np.add.at(nodes, layout.nodes(depth)[layout.alone[back]], own[back])
            np.add.at(variances, layout.nodes(depth)[layout.alone[back]], variance)
        answers[depth] = (nodes, variances)
        estimate += own[kept] / variance
        precision += 1.0 / variance
    values, noise = estimate / precision, np.full(len(alone), 1.0 / precision)
    if not levels:
        return _ColumnCounts(None, alone, values, noise)
    nested = HierarchicalHistogram.combine(levels, answers)
    root, root_variance = nested.total
    return _ColumnCounts(nested, alone, np.append(root, values), np.append(root_variance, noise))


def _counts(grid: CoarseGrid, cells: _ColumnCounts, rows: float, rows_variance: float) -> Vector:
    """Return the least squares counts of all places, given the number of rows."""
    own = _tied(cells, rows, rows_variance)
    counts = np.zeros(grid.size)
    if cells.nested is not None:
        counts[: grid.levels] = cells.nested.estimate(float(own[0]))
    counts[cells.alone] = own[len(own) - len(cells.alone) :]
    return counts


def _far_out(layout: _Layout, cells: _ColumnCounts, rows: float, rows_variance: float) -> NDArray[np.bool_]:
    r"""Return which ordered places lie so far out that noise explains all that was counted there, shape (levels,).

    A declared range is often a thousand times as wide as the column, and noise in a single cell far out would outweigh
    all rows in a mean. From the clearest cell outwards, the known range grows to the first cell of the coarse depth
    that begins an interval, up to a cell i, with a count of at least z standard deviations of its noise, where

    .. math:: z^2 = 3^2 + \log(d_i / d)

    with d_i the distance of cell i from the clearest one, and d that of the end of the known range: noise farther out
    does more damage, and rows are less likely there. As tails thin out, rows may lie up to four times as far; narrower
    declared ranges stay as they are. Places that are clear on their own are kept, by the same rule.
    """
    levels, first = layout.grid.levels, layout.grid.first
    empty = np.zeros(levels, dtype=np.bool_)
    if cells.nested is None or len(layout.depths) == 1:
        return empty
    depth = layout.depths[-1][0]
    values, variances = cells.nested.values[depth], cells.nested.variances[depth]
    clear = values / np.sqrt(np.maximum(variances, 1e-300))
    start = int(np.argmax(clear))
    ordered = cells.alone < levels
    alone = cells.alone[ordered]
    own, noise = (one[len(one) - len(ordered) :][ordered] for one in (cells.values, np.sqrt(cells.variances)))
    is_spike = len(alone) > 0 and float((own / noise).max()) > max(float(clear[start]), _CLEAR)
    if is_spike:
        start = int(layout.nodes(depth)[alone[np.argmax(own / noise)]])
    elif clear[start] < _CLEAR:
        return empty
    starts = node_starts(levels, depth)
    edges = np.append(first[:levels], first[levels - 1] + layout.grid.width[levels - 1])[starts]
    centre = (edges[start] + edges[start + 1]) / 2
    upwards, downwards = slice(start, None), slice(start, None, -1)
    first_needs = None
    if is_spike and clear[start] < _CLEAR:
        own_variances = cells.variances
        of_rest = own_variances[0] * (1.0 - own_variances[0] / (own_variances.sum() + rows_variance))
        beside = float(_tied(cells, rows, rows_variance)[0]) >= _CLEAR * math.sqrt(of_rest)
        first_needs = _SOMEWHERE if beside else _CLEAR
    last = start + 1 + _reach(values[upwards], variances[upwards], edges[start:] - centre, first_needs)
    lowest = start - _reach(values[downwards], variances[downwards], centre - edges[start + 1 :: -1], first_needs)
    above = np.searchsorted(edges, centre + _THINNER * (edges[last] - centre))
    below = np.searchsorted(edges, centre - _THINNER * (centre - edges[lowest]), side="right") - 1
    empty[starts[min(int(above), len(values))] :] = True
    empty[: starts[max(int(below), 0)]] = True
    reach = np.where(first[alone] > centre, edges[last] - centre, centre - edges[lowest])
    farther = np.maximum(np.abs(first[alone] - centre) / reach, 1.0)
    empty[alone[own >= np.sqrt(_CLEAR**2 + np.log(farther)) * noise]] = False
    return empty


def _reach(values: Vector, variances: Vector, edges: Vector, first_needs: float | None) -> int:
    """Return the last cell that holds rows; cell 0 does, and ``edges`` are distances from it, shape (cells + 1,).

    Where cell 0 holds a spike alone, ``first_needs`` are the standard deviations of a first interval beside it.
    """
    counted, noise = (np.append(0.0, np.cumsum(one)) for one in (values, variances))
    of_pairs = np.maximum(noise[None, 1:] - noise[:-1, None], 1e-300)
    # By first and last cell; a last cell before the first has no noise to divide by.
    squares = np.triu(np.maximum(counted[None, 1:] - counted[:-1, None], 0.0)) ** 2 / of_pairs
    at = 0
    if first_needs is not None and len(values) > 1:
        # Beside a spike the scale is that of the clearest interval.
        excess = squares[1:, 1:] - np.log(np.maximum(edges[1:-1] / max(float(edges[1]), 1e-300), 1.0))
        if float(excess.max()) >= first_needs**2:
            at = 1 + int(np.argmax(excess.max(axis=0)))
    while True:
        farther = np.maximum(edges[at + 1 : -1] / max(float(edges[at + 1]), 1e-300), 1.0)
        seen = squares[at + 1 :, at + 1 :] >= _CLEAR**2 + np.log(farther)
        found = np.flatnonzero(seen.any(axis=1))
        if not len(found):
            return at
        at += 1 + int(found[0])


def _tied(cells: _ColumnCounts, rows: float, rows_variance: float) -> Vector:
    """Return the least squares counts of a column, given the number of rows."""
    missing = rows - float(cells.values.sum())
    return np.asarray(cells.values + cells.variances * missing / (cells.variances.sum() + rows_variance))


def _learn(
    column: ModelledColumn,
    layout: _Layout,
    tables: list[tuple[Vector, float]],
    rows: float,
    rows_variance: float,
    *,
    answered: bool,
) -> OneWayMarginal:
    """Combine the tables of a column; ``answered`` is whether they hold anything but zeros."""
    grid = layout.grid
    none, nowhere = np.array([], dtype=np.int64), np.zeros(grid.levels, dtype=np.bool_)
    cells = _cells(layout, tables, faint=none, empty=nowhere)
    counts = _counts(grid, cells, rows, rows_variance)
    uncut = counts, cells
    empty = _far_out(layout, cells, rows, rows_variance) if answered else nowhere
    if empty.any():
        cells = _cells(layout, tables, faint=none, empty=empty)
        counts = _counts(grid, cells, rows, rows_variance)

    # A place where a spike was likely, but is not clear, is treated like any other.
    cell_std = math.sqrt(1.0 / math.fsum(1.0 / variance for _, variance in tables))
    if not answered:
        # Every code is equally likely, so nothing needs to be computed.
        even = grid.width / grid.width.sum()
        return OneWayMarginal(column, grid, counts, even, cell_std, rows_variance, cells, uncut)
    ordered = cells.alone[cells.alone < grid.levels]
    possible = _cells(layout, tables, faint=ordered[counts[ordered] < _CLEAR * cell_std], empty=empty)
    masses = nearest_masses(_tied(possible, rows, rows_variance), possible.variances, rows)
    made = np.zeros(grid.size)
    if possible.nested is not None:
        widths = grid.width[: grid.levels].copy()
        widths[possible.alone[possible.alone < grid.levels]] = 0
        widths[empty] = 0
        made[: grid.levels] = possible.nested.possible(float(masses[0]), widths, place_near_zero(column, grid))
    made[possible.alone] = masses[len(masses) - len(possible.alone) :]
    return OneWayMarginal(column, grid, counts, made / made.sum(), cell_std, rows_variance, cells, uncut)
