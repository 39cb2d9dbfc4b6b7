"""One-way tables of all columns in one question: what a joint model knows of each column by itself.

A category is counted code by code. A number or date is counted at several resolutions, so that both its shape (coarse
cells, little noise each) and its spikes (fine places) survive. Everything after the one release is post-processing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from synth.generators.nested_counts import NestedCounts, bottom_depth, nearest_masses, node_starts
from synth.generators.options import check_between
from synth.generators.places import Places, column_weights, places_of
from synth.privacy.features import OneHot, Stack
from synth.privacy.session import AnswerSource
from synth.schema import ModelledColumn, NumberColumn

__all__ = ["OneWay", "OneWayOptions", "OneWays", "fine_places", "measure_one_ways"]

Vector = NDArray[np.float64]

_ONE_LEVEL = 64
"""Grids of at most this many places are counted once, place by place."""


@dataclass(frozen=True, slots=True)
class OneWayOptions:
    """How finely columns are counted."""

    grid: int = 2048
    """Most places of a number or date, of equal width."""

    categories: int = 4096
    """Most places of a category; longer lists share places between neighbouring codes."""

    coarse_part: float = 0.7
    """Part of a number's squared norm for its 32 widest cells; what the three parts leave goes to single places."""

    middle_part: float = 0.2
    """Part of a number's squared norm for the cells in between, where there are any."""

    def __post_init__(self) -> None:
        check_between("grid", self.grid, 16, 2**16)
        check_between("categories", self.categories, 1, 2**16)
        check_between("coarse_part", self.coarse_part, 0.01, 0.9)
        check_between("middle_part", self.middle_part, 0.01, 0.9)


@dataclass(frozen=True, slots=True, eq=False)
class OneWay:
    """What was learned of one column.

    Attributes
    ----------
    column : ModelledColumn
    places : Places
        The cells of every array below: ordered places of the grid, then unordered ones.
    counts : array of shape (places,)
        Unbiased counts with noise, in rows, of any sign; they agree with each other and with the total.
    proportions : array of shape (places,)
        The same made possible: not negative, sum 1, without structure that noise explains.
    cell_std : float
        Noise of one count if the column's whole part of the question had gone into it, in rows.
    """

    column: ModelledColumn
    places: Places
    counts: Vector
    proportions: Vector
    cell_std: float
    _nested: NestedCounts | None
    _variances: Vector
    _slack: float

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
        levels = self.places.levels
        variance = np.zeros(size)
        np.add.at(variance, groups[levels:], self._variances[self._nested is not None :])
        slope = variance.copy()
        if self._nested is not None:
            share, own = self._nested.spread_of(groups[:levels], size)
            variance += own + share**2 * self._variances[0]
            slope += share * self._variances[0]
        # The total ties all counts together, and so takes some of their noise away.
        return np.asarray(np.maximum(variance - slope**2 / (self._variances.sum() + self._slack), 0.0))


@dataclass(frozen=True, slots=True, eq=False)
class OneWays:
    """One-way tables of all modelled columns, from one release."""

    columns: tuple[OneWay, ...]
    label: int | None
    rows: float
    """Number of rows, as far as it is known; at least 1."""


def measure_one_ways(
    session: AnswerSource,
    columns: tuple[ModelledColumn, ...],
    *,
    label: str | None,
    share: float,
    source: str,
    options: OneWayOptions,
) -> OneWays:
    """Count every column by itself, all in one question.

    Parameters
    ----------
    session : AnswerSource
    columns : tuple of ModelledColumn
    label : str, optional
        Name of the column that is never coarsened.
    share : float
        Part of the session's budget to spend, in mu^2.
    source : str
        Who asks.
    options : OneWayOptions
    """
    layouts = [_layout(column, options) for column in columns]
    question = _question(columns, layouts)
    release = session.noisy_sum(question, share=share, query="one-way tables", source=source)
    pieces = np.split(
        np.asarray(release.value, dtype=np.float64).reshape(-1),
        np.cumsum([part.dimension for part in question.parts])[:-1],
    )
    rows = session.rows
    total = max(rows.value, 1.0)
    answers = iter(zip(pieces, question.weights, strict=True))
    learned = []
    for layout in layouts:
        tables = []
        for _ in layout.depths:
            piece, weight = next(answers)
            tables.append((piece / weight, (release.noise_std / weight) ** 2))
        learned.append(_learn(layout, tables, total, rows.noise_std**2))
    names = [column.name for column in columns]
    return OneWays(tuple(learned), None if label is None else names.index(label), total)


def fine_places(column: ModelledColumn, options: OneWayOptions) -> Places:
    """Return the cells in which a column is counted; decided by the schema and the options alone.

    A grid of more codes than ``options.grid`` has places of two kinds put together: half of equal width, and half that
    widen in proportion to their distance from zero (from the end nearest to zero, where zero is not on the grid), since
    many columns have most of their rows there. Zero and both ends, to which cells from outside move, stand alone.
    """
    equal = places_of(column, grid=options.grid, atoms=options.categories)
    if column.levels <= options.grid:
        return equal
    starts = _grid_starts(column.levels, options.grid, _code_near_zero(column))
    first = np.concatenate([starts, equal.first[equal.levels :]])
    return Places(
        levels=len(starts),
        atoms=equal.atoms,
        first=first,
        width=np.diff(np.append(first, column.size)).astype(np.int64),
    )


def _code_near_zero(column: ModelledColumn) -> int:
    """Return the code of zero, of the end nearest to it, or of a date's first day."""
    if not isinstance(column, NumberColumn):
        return 0
    return round(min(max(-column.low / column.step, 0.0), column.levels - 1.0))


def _grid_starts(codes: int, most: int, anchor: int) -> NDArray[np.int64]:
    even = (np.arange(most // 2, dtype=np.int64) * codes) // (most // 2)
    above, below = math.log(codes - anchor), math.log(anchor + 1)
    left = max(most - most // 2 - 4, 0)
    widening = [
        np.expm1(np.linspace(0.0, length, int(left * length / (above + below)))).astype(np.int64)
        for length in (above, below)
    ]
    starts = np.concatenate([[0, 1, anchor, codes - 1], even, anchor + 1 + widening[0], anchor - widening[1]])
    return np.unique(np.clip(starts, 0, codes - 1))


@dataclass(frozen=True, slots=True, eq=False)
class _Layout:
    """Where one column's counts stand: depths of its tree with their parts of the squared norm, the finest first."""

    column: ModelledColumn
    places: Places
    depths: tuple[tuple[int, float], ...]

    def part(self, depth: int) -> OneHot:
        """Count the nodes of one depth, and beside them every unordered place."""
        places = self.places
        bins = places.bins
        if places.levels and depth < bottom_depth(places.levels):
            starts = node_starts(places.levels, depth)
            node = np.repeat(np.arange(2**depth), np.diff(starts))
            place = np.concatenate([node, 2**depth + np.arange(places.atoms)]).astype(np.int32)
            bins = np.repeat(place, places.width)
        return OneHot(columns=(self.column.name,), bins=(bins,), sizes=(self.column.size,))


def _layout(column: ModelledColumn, options: OneWayOptions) -> _Layout:
    places = fine_places(column, options)
    bottom = bottom_depth(places.levels)
    coarse = bottom_depth(_ONE_LEVEL) - 1
    if places.levels <= _ONE_LEVEL:
        return _Layout(column, places, ((bottom, 1.0),))
    depths = [(coarse, options.coarse_part)]
    if bottom - coarse >= 4:
        depths.insert(0, ((bottom + coarse + 1) // 2, options.middle_part))
    finest = (bottom, 1.0 - sum(part for _, part in depths))
    return _Layout(column, places, (finest, *depths))


def _question(columns: tuple[ModelledColumn, ...], layouts: list[_Layout]) -> Stack:
    parts, weights = [], []
    for layout, weight in zip(layouts, column_weights(columns), strict=True):
        for depth, part in layout.depths:
            parts.append(layout.part(depth))
            weights.append(weight * math.sqrt(part))
    return Stack(parts=tuple(parts), weights=tuple(weights))


def _learn(layout: _Layout, tables: list[tuple[Vector, float]], rows: float, rows_variance: float) -> OneWay:
    places = layout.places
    precision = sum(1.0 / variance for _, variance in tables)
    atoms = np.zeros(places.atoms)
    nested: NestedCounts | None = None
    if places.atoms:
        atoms = sum((table[-places.atoms :] / variance for table, variance in tables), atoms) / precision
    variances = np.full(places.atoms, 1.0 / precision)
    values = atoms
    if places.levels:
        nested = NestedCounts.combine(
            places.levels,
            {
                depth: (table[: len(table) - places.atoms], variance)
                for (depth, _), (table, variance) in zip(layout.depths, tables, strict=True)
            },
        )
        root, root_variance = nested.total
        values, variances = np.append(root, values), np.append(root_variance, variances)
    missing = rows - values.sum()
    counts = values + variances * missing / (variances.sum() + rows_variance)
    masses = nearest_masses(counts, variances, rows)
    if nested is not None:
        near = int(np.searchsorted(places.first[: places.levels], _code_near_zero(layout.column), side="right")) - 1
        counts = np.concatenate([nested.estimate(counts[0]), counts[1:]])
        masses = np.concatenate([nested.possible(masses[0], places.width[: places.levels], near), masses[1:]])
    return OneWay(
        column=layout.column,
        places=places,
        counts=counts,
        proportions=masses / masses.sum(),
        cell_std=1.0 / math.sqrt(precision),
        _nested=nested,
        _variances=variances,
        _slack=rows_variance,
    )
