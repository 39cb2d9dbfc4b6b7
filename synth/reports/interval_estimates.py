"""Numbers of the population from noisy counts, each with a 95 % interval; the private rows are a sample of it.

Two known errors lie between a count and the population: noise with a stated standard deviation, and the sampling of the
rows. Both are normal to a good approximation and independent, so their variances add up.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from synth.privacy.answers import RowCount
from synth.privacy.bins import Bins, pieces
from synth.reports.measured import BAR, ComparedTable
from synth.schema import ModelledColumn, Schema, people_asked

__all__ = [
    "SummedTable",
    "bin_values",
    "known_values",
    "mean_interval",
    "mean_with_variance",
    "quantile_places",
    "quotable",
    "share_interval",
    "summed_tables",
    "values_of_pieces",
]

Vector = NDArray[np.float64]

_CLEAR_SIZE = 3.0
"""Smallest size, in units of its noise, for which a mean is computed: a ratio to less has no error."""


def quotable(schema: Schema) -> tuple[ModelledColumn, ...]:
    """Return the columns whose numbers are worth quoting: of a table of people the declared ones, and two more.

    The two are how many rows somebody has and what lies between two of them. What the next row says, and usual values,
    are about a row that was drawn.
    """
    people = people_asked(schema)
    beside = frozenset() if people is None else people.made - {people.count, people.gap}
    return tuple(column for column in schema.modelled if column.name not in beside)


def share_interval(count: float, noise_std: float, rows: RowCount, *, rows_per_unit: int) -> tuple[float, float]:
    r"""Return the ends of the interval of a share of all rows, from 0 to 1.

    Parameters
    ----------
    count : float
        Noisy count, in rows.
    noise_std : float
        Standard deviation of its noise, in rows.
    rows : RowCount
        Number of all rows, n.
    rows_per_unit : int
        Rows of one unit, k, which are assumed to be alike.

    Notes
    -----
    All shares p that the count c does not contradict (Wilson 1927, with noise of standard deviation s on the count and
    r on the number of rows), with q = c / n clipped to [0, 1] and z = 1.96:

    .. math:: (q - p)^2 \le z^2 \left(\frac{k\,p(1-p)}{n} + \frac{s^2 + q^2 r^2}{n^2}\right)

    Apart from r the number of rows is taken as known.
    """
    n = max(rows.value, 1.0)
    share = min(max(count / n, 0.0), 1.0)
    noise = (noise_std**2 + (share * rows.noise_std) ** 2) / n**2
    drawn = BAR**2 * rows_per_unit / n
    middle = (2 * share + drawn) / 2
    far = math.sqrt(max(middle**2 - (1 + drawn) * (share**2 - BAR**2 * noise), 0.0))
    return max((middle - far) / (1 + drawn), 0.0), min((middle + far) / (1 + drawn), 1.0)


def mean_with_variance(counts: Vector, noise_std: Vector, values: Vector, *, rows_per_unit: int) -> tuple[float, float]:
    r"""Return a mean and its variance; infinity and NaN if noise hides how many rows there are.

    Parameters
    ----------
    counts, noise_std : arrays of shape (bins,)
        Noisy counts and the standard deviation of their noise, in rows.
    values : array of shape (bins,)
        The value of every bin.
    rows_per_unit : int
        Rows of one unit, k, which are assumed to be alike.

    Notes
    -----
    With n the sum of the counts C and m = sum v C / n, the variance is to first order
    sum (v - m)^2 s^2 / n^2 for the noise and k sum C (v - m)^2 / n^2 for the sampling of the rows.
    """
    n = float(counts.sum())
    if n <= _CLEAR_SIZE * math.sqrt(float((noise_std**2).sum())):
        return math.inf, math.nan
    mean = float((values * counts).sum()) / n
    away = (values - mean) ** 2
    spread = max(float((counts * away).sum()) / n, 0.0)
    return mean, float((away * noise_std**2).sum()) / n**2 + rows_per_unit * spread / n


def mean_interval(
    counts: Vector, noise_std: Vector, values: Vector, widths: Vector, *, rows_per_unit: int
) -> tuple[float, float]:
    r"""Return the ends of the interval of a mean, within the values; NaN if noise hides how many rows there are.

    Parameters
    ----------
    counts, noise_std : arrays of shape (bins,)
        Noisy counts and the standard deviation of their noise s, in rows.
    values, widths : arrays of shape (bins,)
        Mean value of every bin, and the width of the bin, within which the position of its rows was not measured.
    rows_per_unit : int
        Rows of one unit, k, which are assumed to be alike.

    Notes
    -----
    All means m that the counts C of the values v do not contradict (Fieller 1954), with z = 1.96 and w the widths:

    .. math:: \left(\sum (v - m) C\right)^2 \le
        z^2 \left(\sum (v - m)^2 s^2 + k \sum (v - m)^2 C + \sum C^2 w^2 / 12\right)

    A ratio has no interval if its denominator may be 0: then the inequality holds without bounds.
    """
    middle = float((values * np.maximum(counts, 0.0)).sum() / max(float(np.maximum(counts, 0.0).sum()), 1e-300))
    away = values - middle  # of a range far from zero squares would lose their digits
    squares = noise_std**2 + rows_per_unit * np.maximum(counts, 0.0)
    n, total = float(counts.sum()), float((away * counts).sum())
    inside = float((np.maximum(counts, 0.0) ** 2 * widths**2).sum()) / 12
    a = n**2 - BAR**2 * float(squares.sum())
    b = n * total - BAR**2 * float((away * squares).sum())
    c = total**2 - BAR**2 * (float((away**2 * squares).sum()) + inside)
    if n <= 0 or a <= 0:
        return math.nan, math.nan
    far = math.sqrt(max(b**2 - a * c, 0.0))
    least, most = float((values - widths / 2).min()), float((values + widths / 2).max())
    return max(middle + (b - far) / a, least), min(middle + (b + far) / a, most)


def quantile_places(
    counts: Vector, noise_std: Vector, parts: Sequence[float], *, rows_per_unit: int
) -> list[tuple[int, int] | None]:
    r"""Return the first and last bin that may hold each quantile; None if noise hides how many rows there are.

    Parameters
    ----------
    counts, noise_std : arrays of shape (bins,)
        Noisy counts in the order of the values, and the standard deviation of their noise, in rows.
    parts : sequence of float
        Levels of the quantiles, between 0 and 1.
    rows_per_unit : int
        Rows of one unit, k, which are assumed to be alike.

    Notes
    -----
    From the first to the last bin that is not contradicted (Woodruff 1952, with noise): for a bin that holds the
    quantile, the share F of rows up to its end is at least q, and the share before it at most q. Where F is q, its
    variance is k q (1 - q) / n for sampling and, with n the sum of the counts,
    ((1 - q)^2 sum s^2 up to the bin + q^2 sum s^2 after it) / n^2 for the noise.
    """
    n = float(counts.sum())
    of_noise = np.concatenate([[0.0], np.cumsum(noise_std**2)])
    if n <= _CLEAR_SIZE * math.sqrt(of_noise[-1]):
        return [None] * len(parts)
    below = np.concatenate([[0.0], np.cumsum(counts)]) / n
    found: list[tuple[int, int] | None] = []
    for part in parts:
        noise = ((1 - part) ** 2 * of_noise + part**2 * (of_noise[-1] - of_noise)) / n**2
        far = BAR * np.sqrt(rows_per_unit * part * (1 - part) / n + noise)
        may = (below[1:] + far[1:] >= part) & (below[:-1] - far[:-1] <= part)
        # No row lies before the first bin and none after the last, whatever the noise.
        may[0] |= below[1] + far[1] >= part
        may[-1] |= below[-2] - far[-2] <= part
        places = np.flatnonzero(may)
        found.append((int(places[0]), int(places[-1])) if len(places) else None)
    return found


# Measured tables, summed to fewer columns ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class SummedTable:
    """Noisy counts of one or two columns, shape (bins, ...), with their noise, and the bin of every code by column."""

    counts: Vector
    noise: Vector
    bins: tuple[Bins, ...]

    @classmethod
    def of(cls, one: ComparedTable, *columns: str) -> Self:
        """Sum a table over all columns except the given ones, and put these in the given order."""
        axes = [one.columns.index(name) for name in columns]
        away = tuple(axis for axis in range(len(one.columns)) if axis not in axes)
        order = np.argsort(np.argsort(axes))
        counts, variance = one.measured.sum(axis=away), (one.noise_std**2).sum(axis=away)
        bins = tuple(one.bins[axis] for axis in axes)
        return cls(counts.transpose(order), np.sqrt(variance).transpose(order), bins)


def summed_tables(compared: Sequence[ComparedTable], *columns: str) -> list[SummedTable]:
    """Return every measured table that contains some columns, summed over the others, the least noisy first."""
    found = [SummedTable.of(one, *columns) for one in compared if set(columns) <= set(one.columns)]
    return sorted(found, key=lambda one: float((one.noise**2).sum()))


def known_values(column: ModelledColumn, codes: NDArray[np.int64]) -> Vector:
    """Return the value of codes, 0 and 1 for no and yes, in their shape; NaN where a code has none."""
    return np.where(codes < 2, codes, math.nan) if column.kind == "yes_no" else column.comparable_at(codes)


def values_of_pieces(column: ModelledColumn, *bins: Bins) -> Iterator[tuple[Vector, Vector, Vector, tuple[Any, ...]]]:
    """Yield the lowest and highest value and the number of codes of pieces of a column in one bin of each binning.

    Yields
    ------
    low, high, codes : arrays of shape (pieces,)
        Values as :func:`known_values` returns them, even between the two on a grid.
    own : tuple of arrays of shape (pieces,), int32
        The bin of each piece in each binning.
    """
    for first, last, own in pieces(0, column.levels, *bins):
        yield known_values(column, first), known_values(column, last), (last - first + 1).astype(np.float64), own
    beside = np.arange(column.levels, column.size)
    values = known_values(column, beside)
    yield values, values, np.ones(len(values)), tuple(one[beside] for one in bins)


def bin_values(column: ModelledColumn, single: ComparedTable, bins: Bins) -> Vector:
    """Return the value of every bin, shape (bins,); NaN for a bin without values, such as that of missing cells.

    It is the mean over the bin according to the counts of the column by itself, within whose bins codes are assumed to
    be equally likely.
    """
    counted = np.maximum(single.measured.reshape(-1), 0.0) + 1e-9
    (alone,) = single.bins
    each = counted / np.maximum(alone.widths, 1)
    total, sums = np.zeros(bins.count), np.zeros(bins.count)
    for low, high, codes, (of_single, own) in values_of_pieces(column, alone, bins):
        weights = np.where(np.isfinite(low), each[of_single] * codes, 0.0)
        total += np.bincount(own, weights, bins.count)
        sums += np.bincount(own, weights * np.nan_to_num((low + high) / 2), bins.count)
    return np.where(total > 0, sums / np.maximum(total, 1e-300), math.nan)
