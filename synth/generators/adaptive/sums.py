r"""Sums of numbers: one question that makes the mean of a skewed number count, and what it says about rows inside bins.

Counts in cells say how many rows there are, and little about where in the last cells they lie, which decides a mean.
So every long number is added up as well, once its counts are known. A value is clipped to an interval [l, h] that
follows from the released counts, and its distance from a released origin a is added up, divided by the largest distance
s: each row adds a number from -1 to 1, so noise of standard deviation z in the answer is noise of s z in the sum.

Where to clip: let T(h) be what the rows above h exceed it by, all together. It is known from released counts alone, to
about half of its size. So with m the median the end minimises

.. math:: (h - m)^2 z^2 + T(h)^2 / 4,

and l alike. The origin minimises s(a)^2 z^2 + (a - \bar x)^2 r^2, where r is the noise in the number of rows on the
grid: from the middle of the interval each row adds half as much as from an end, but the number of rows then counts.

What it says: of all distributions that keep the rows of every bin, and have this clipped mean, the one nearest to the
counted one has its places weighted by exp(t x) with x the clipped value. The mean that is aimed at is the average of
that of the answer and that of the counts, by inverse variance.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from synth.generators.adaptive.bins import ColumnBins
from synth.generators.one_way_marginals import OneWayMarginal, OneWayMarginals
from synth.generators.stacked import answers_of_parts, column_weights
from synth.privacy.answers import AnswerSource
from synth.privacy.costs import Bound, between_neighbours
from synth.privacy.feature_maps import Stack
from synth.privacy.more.lookups import Lookup
from synth.schema import ModelledColumn

__all__ = ["QUERY", "ClippedSum", "measure_sums", "share_for_sums", "summed_numbers", "with_mean"]

Vector = NDArray[np.float64]

QUERY = "sums of numbers"

_LONG = 64
"""Longest grid that is counted place by place, so that counts tell the mean."""

_NOISE = 1 / 2000
"""Target noise of a sum, as a share of the rows."""

_LEAST_SHARE, _MOST = 0.002, 0.03
"""Minimum and maximum share of the budget: all other questions get at most 1.6 % more noise."""

_MOST_NUMBERS = 64
"""Most numbers that are added up: with more, each sum is noisier than what the counts say."""

_DROWNED = 1 / 12
"""Noise of a sum, as a share of the rows, above which it says less than the counts."""

_UNKNOWN = 0.5
"""Standard deviation of what rows exceed a clipping point by, relative to that, if only their number is known."""

_ORIGINS = 65

_STEEPEST = 16.0
"""Largest slope of a tilt: from one end to the other weights differ by a factor of 8e13."""

_HALVINGS = 48

_SHRUNK = 1 / 3
"""Squared error of a mean by the model's counts, relative to that by unbiased ones: the model's are shrunk. Median of
eight families of numbers that are not those of the figures (``benchmarks/skewed.py --half developing``)."""


@dataclass(frozen=True, slots=True, eq=False)
class ClippedSum:
    """The noisy sum of one number's values, in steps of its grid.

    Attributes
    ----------
    low, high : float
        What values are clipped to, in codes.
    origin, scale : float
        A row adds (clipped code - origin) / scale.
    value : float
        The noisy sum.
    noise_std : float
        Its noise.
    """

    low: float
    high: float
    origin: float
    scale: float
    value: float
    noise_std: float


def summed_numbers(columns: Sequence[ModelledColumn]) -> tuple[ModelledColumn, ...]:
    """Return the numbers that are added up; follows from the declaration."""
    return tuple(column for column in columns if column.is_summable and column.levels > _LONG)


def share_for_sums(session: AnswerSource, columns: Sequence[ModelledColumn]) -> float:
    """Return the share of the budget for the question, by declared facts and a public or released n; 0 without it.

    Parameters
    ----------
    session : AnswerSource
    columns : sequence of ModelledColumn
        Of :func:`summed_numbers`.
    """
    if not 1 <= len(columns) <= _MOST_NUMBERS:
        return 0.0
    rows = max(session.rows.value, 1.0)
    least = len(columns) * (_unit_noise(session) / rows) ** 2
    return 0.0 if least > _MOST * _DROWNED**2 else min(max(least / _NOISE**2, _LEAST_SHARE), _MOST)


def measure_sums(session: AnswerSource, one_ways: OneWayMarginals, source: str) -> dict[str, ClippedSum]:
    """Add up every long number, in one question with all that the session has left.

    Parameters
    ----------
    session : AnswerSource
    one_ways : OneWayMarginals
        The released counts, which decide where values are clipped.
    source : str
        Who asks, for the receipt.

    Returns
    -------
    dict of ClippedSum
        By name of the column.
    """
    columns = summed_numbers([one.column for one in one_ways.columns])
    of_column = {one.column.name: one for one in one_ways.columns}
    share, weights = session.remaining_share, column_weights(columns)
    unit = _unit_noise(session) / math.sqrt(share)
    asked = [
        _clipped(of_column[column.name], one_ways.rows, unit / weight)
        for column, weight in zip(columns, weights, strict=True)
    ]
    parts = [
        Lookup(column.name, _steps(of_column[column.name], one)[:, None], of_column[column.name].grid.bins)
        for column, one in zip(columns, asked, strict=True)
    ]
    question = Stack(tuple(parts), weights)
    answer = session.noisy_sum(question, share=share, query=QUERY, source=source)
    return {
        column.name: replace(one, value=float(value[0]), noise_std=noise_std)
        for column, one, (value, noise_std) in zip(columns, asked, answers_of_parts(answer, question), strict=True)
    }


def _unit_noise(session: AnswerSource) -> float:
    """Return the noise of a sum of numbers from -1 to 1 that gets a session's whole budget."""
    return between_neighbours(Bound(norm=1.0, diameter=2.0), session.schema) / math.sqrt(session.budget.mu_squared)


def _noise_in_rows(one: OneWayMarginal) -> float:
    """Return the noise in the number of rows on the grid."""
    if not one.grid.atoms:
        return math.sqrt(one.rows_variance)
    outside = (np.arange(one.grid.size) >= one.grid.levels).astype(np.int64)
    return math.sqrt(float(one.variances_of(outside, 2)[0]))


def _middles(one: OneWayMarginal) -> Vector:
    """Return the code in the middle of every ordered place."""
    levels = one.grid.levels
    return np.asarray(one.grid.first[:levels] + (one.grid.width[:levels] - 1) / 2)


def _clipped(one: OneWayMarginal, rows: float, noise: float) -> ClippedSum:
    """Return where a number is clipped and what it is counted from; nothing is asked."""
    codes, levels = _middles(one), one.grid.levels
    counts = rows * one.proportions[:levels]
    below = np.cumsum(counts)
    median = min(int(np.searchsorted(below, below[-1] / 2)), levels - 1)
    held = np.flatnonzero(counts > 0)
    if not held.size:
        held = np.array([median])  # no row is believed to be on the grid
    upwards = np.arange(min(median + 1, levels - 1), max(int(held[-1]), min(median + 1, levels - 1)) + 1)
    downwards = np.arange(min(int(held[0]), median), median + 1)
    above, beneath = (np.maximum(side - codes[median], 0.0) for side in (codes, 2 * codes[median] - codes))
    beyond = [
        np.cumsum((np.cumsum(counts[::-1])[::-1])[1:][::-1] * np.diff(codes)[::-1])[::-1],
        np.cumsum(below[:-1] * np.diff(codes)),
    ]
    exceeding, missing = np.append(beyond[0], 0.0), np.append(0.0, beyond[1])
    high = upwards[np.argmin((above * noise)[upwards] ** 2 + (_UNKNOWN * exceeding[upwards]) ** 2)]
    low = downwards[np.argmin((beneath * noise)[downwards] ** 2 + (_UNKNOWN * missing[downwards]) ** 2)]
    ends = float(codes[low]), float(codes[high])
    mean = float(counts @ np.clip(codes, *ends)) / max(float(below[-1]), 1e-300)
    in_rows = _noise_in_rows(one) ** 2
    origins = np.linspace(*ends, _ORIGINS)
    scales = np.maximum(ends[1] - origins, origins - ends[0])
    best = int(np.argmin((scales * noise) ** 2 + (origins - mean) ** 2 * in_rows))
    return ClippedSum(*ends, float(origins[best]), max(float(scales[best]), 0.5), 0.0, 0.0)


def _steps(one: OneWayMarginal, asked: ClippedSum) -> Vector:
    """Return what a row in each place adds; nothing for a row outside the grid."""
    inside = (np.clip(_middles(one), asked.low, asked.high) - asked.origin) / asked.scale
    return np.append(np.clip(inside, -1.0, 1.0), np.zeros(one.grid.atoms))


def with_mean(bins: ColumnBins, one: OneWayMarginal, summed: ClippedSum, masses: Vector, rows: float) -> ColumnBins:
    """Return bins of the same mass whose places agree with a noisy sum.

    Parameters
    ----------
    bins : ColumnBins
    one : OneWayMarginal
        The counts of the column.
    summed : ClippedSum
        Of the same column.
    masses : array of shape (bins,)
        Share of the rows in every bin, by the finished model.
    rows : float
        Known or estimated number of rows.
    """
    if bins.drawn_as is not None:
        return bins  # its only values are known
    levels = bins.grid.levels
    of_place = bins.bin_of_place[:levels]
    held = np.bincount(of_place, bins.proportions[:levels], bins.size)
    shares = np.divide(bins.proportions[:levels], held[of_place], out=np.zeros(levels), where=held[of_place] > 0)
    mass = np.where(held > 0, masses, 0.0)[of_place]
    on_grid = float((mass * shares).sum())
    if on_grid * rows < 1.0:
        return bins
    mass /= on_grid
    inside = (np.clip(_middles(one), summed.low, summed.high) - summed.origin) / summed.scale

    def tilted(steepness: float) -> Vector:
        weights = shares * np.exp(steepness * (inside - np.sign(steepness)))
        whole = np.bincount(of_place, weights, bins.size)
        return np.asarray(np.divide(weights, whole[of_place], out=shares.copy(), where=whole[of_place] > 0))

    counted = float(mass * shares @ inside)
    wanted = _wanted(one, summed, inside, counted, n=on_grid * rows, rows=rows)
    low, high = -_STEEPEST, _STEEPEST
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if float(mass * tilted(middle) @ inside) < wanted else (low, middle)
    proportions = bins.proportions.copy()
    proportions[:levels] = tilted((low + high) / 2) * held[of_place]
    return replace(bins, proportions=proportions)


def _wanted(one: OneWayMarginal, summed: ClippedSum, inside: Vector, counted: float, *, n: float, rows: float) -> float:
    """Return the mean of what rows on the grid add: of the answer and the counts, averaged by inverse variance."""
    away = np.append(inside - counted, np.zeros(one.grid.atoms))[:, None]
    of_counts = _SHRUNK * float(one.variances_of_sums(away)[0]) / n**2
    answered = summed.value / n
    of_answer = (summed.noise_std / n) ** 2 + (answered * _noise_in_rows(one) / rows) ** 2
    return (counted * of_answer + answered * of_counts) / max(of_answer + of_counts, 1e-300)
