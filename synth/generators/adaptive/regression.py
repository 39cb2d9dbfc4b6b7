"""Rows for regressions: ask for the second moments of all columns in one question.

A linear regression depends on sums over the rows of products of two columns' values, a logistic one on products of its
classes with the other columns. They are asked for directly, because tables of counts would show them only through
coarse bins. A number has one coordinate; a category has one for each class that noise does not hide, except its
largest. All are in units of their standard deviation, so that noise is the same fraction of the sampling error of every
product.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from synth.generators.adaptive.bins import ColumnBins
from synth.generators.adaptive.survey import Survey
from synth.generators.coarse_grid import CoarseGrid
from synth.models.moments import Coordinates, CountedMoments
from synth.privacy.answers import AnswerSource
from synth.privacy.more.lookups import Lookup
from synth.privacy.more.row_moments import RowMoments
from synth.schema import ModelledColumn
from synth.schema.columns.base import Weight

__all__ = ["measured_moments"]

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

_LEAST_CLASS = 0.02
"""Minimum share of the rows for a class to have a coordinate of its own; others count as the largest class."""

_FARTHEST = 4.0
"""Maximum distance of a number from the mean, in standard deviations: no row's product may outweigh the others."""

_MOST_COORDINATES = 64
"""Maximum number of coordinates, in order of importance; each adds to the length of every row."""

_CODES_AT_ONCE = 2**17
"""Codes of a column whose values are calculated at a time."""

_ROOM = 1.2
"""Length at which rows are shortened, in units of the expected one."""


@dataclass(frozen=True, slots=True, eq=False)
class _Column:
    """Coordinates of one column: ``places`` of shape (places, width), ``bins`` of shape (bins, width), centred."""

    position: int
    places: Matrix
    bins: Matrix


def measured_moments(
    session: AnswerSource,
    survey: Survey,
    bins: Sequence[ColumnBins],
    *,
    named: Sequence[str] = (),
    share: float,
    noise: float,
) -> CountedMoments | None:
    """Ask for the products of the coordinates of named columns, or of all except those of low importance.

    Parameters
    ----------
    session : AnswerSource
    survey : Survey
    bins : sequence of ColumnBins
        What is known about every single column.
    named : sequence of str
        Columns to ask about, whatever their importance; all if empty.
    share : float
        Share of the session's budget to spend, in mu^2.
    noise : float
        Noise of a count of the single columns, in rows.

    Returns
    -------
    CountedMoments, optional
        None, and nothing is asked, if fewer than two columns are known to vary.
    """
    columns = _chosen(survey.columns, bins, noise, survey.label, named)
    if len(columns) < 2:
        return None
    clip = _ROOM * math.sqrt(sum(one.places.shape[1] for one in columns))
    # A lookup's rows have length at most 1: divide all by the longest, and the clipping length with them.
    longest = max(float(np.linalg.norm(one.places, axis=1).max()) for one in columns)
    question = RowMoments(
        tuple(
            Lookup(survey.columns[one.position].name, one.places / longest, bins[one.position].grid.bins)
            for one in columns
        ),
        clip / longest,
        (0.0, 0.0, 1.0),
    )
    release = session.noisy_sum(question, share=share, query="moments of all columns", source=survey.source)
    coordinates = Coordinates(
        tuple(one.position for one in columns), tuple(np.ascontiguousarray(one.bins / clip) for one in columns)
    )
    n = coordinates.length
    sums = np.zeros((n, n))
    sums[np.triu_indices(n)] = np.asarray(release.value, dtype=np.float64) / question.factors
    pairs = coordinates.pairs
    return CountedMoments(coordinates, sums[pairs], release.noise_std / float(question.factors[1]))


def _chosen(
    columns: Sequence[ModelledColumn],
    bins: Sequence[ColumnBins],
    noise: float,
    label: int | None,
    named: Sequence[str],
) -> list[_Column]:
    """Return the coordinates of the columns to ask about, in their order; important columns take precedence."""
    order = [d for d, one in enumerate(columns) if (one.name in named if named else one.weight is not Weight.LOW)]
    order.sort(key=lambda d: (d != label, columns[d].weight is not Weight.HIGH))
    found, left = [], _MOST_COORDINATES
    for d in order:
        one = _coordinates(d, columns[d], bins[d], noise)
        if one is not None and one.places.shape[1] <= left:
            found.append(one)
            left -= one.places.shape[1]
    return sorted(found, key=lambda one: one.position)


def _coordinates(position: int, column: ModelledColumn, known: ColumnBins, noise: float) -> _Column | None:
    shares = known.proportions
    if known.grid.levels:
        values = _values(column, known)
        mean = float((shares * values).sum())
        std = math.sqrt(float((shares * (values - mean) ** 2).sum()))
        if std == 0:
            return None
        places = np.clip((values - mean) / std, -_FARTHEST, _FARTHEST)[:, None]
    else:
        rows = max(float(known.table.sum()), 1.0)
        classes = [
            place
            for place in np.argsort(-shares, kind="stable")[1:]
            if shares[place] >= max(_LEAST_CLASS, 3.0 * noise / rows)
        ]
        if not classes:
            return None
        share = shares[classes]
        places = (np.eye(len(shares))[:, classes] - share) / np.sqrt(share * (1.0 - share))
    # A bin has the mean of its places: codes inside it are drawn independently of other columns.
    sums = np.zeros((known.size, places.shape[1]))
    np.add.at(sums, known.bin_of_place, places * shares[:, None])
    held = known.expected
    plain = np.zeros_like(sums)
    np.add.at(plain, known.bin_of_place, places)
    count = np.bincount(known.bin_of_place, minlength=known.size)[:, None]
    means = np.where(held[:, None] > 0, sums / np.maximum(held, 1e-300)[:, None], plain / count)
    return _Column(position, places, means)


def _values(column: ModelledColumn, known: ColumnBins) -> Vector:
    """Return the mean value of every place, or the column's mean for values outside the grid and missing cells."""
    grid, places = known.grid, _means(column, known.grid)
    lowest, highest = column.comparable_at(np.array([0, column.levels - 1]))
    ordered, shares = places[: grid.levels], known.proportions[: grid.levels]
    mean = float((shares * ordered).sum() / max(float(shares.sum()), 1e-300))
    within = (places >= lowest) & (places <= highest)
    return np.where(within, places, mean)


def _means(column: ModelledColumn, grid: CoarseGrid) -> Vector:
    """Return the mean value of every place; NaN where one of its codes has none."""
    ends, sums = grid.first + grid.width, []
    for places in _parts_of(grid.width):
        codes = np.arange(grid.first[places[0]], ends[places[-1]])
        sums.append(np.add.reduceat(column.comparable_at(codes), grid.first[places] - codes[0]))
    return np.asarray(np.concatenate(sums) / grid.width)


def _parts_of(width: NDArray[np.int64]) -> list[NDArray[np.intp]]:
    """Return all places in parts that have few codes together, or one place each."""
    part = (np.cumsum(width) - 1) // _CODES_AT_ONCE
    return np.split(np.arange(len(width)), np.flatnonzero(np.diff(part)) + 1)
