"""How far two tables are apart in the distribution of one column, and in the association of two columns.

Only codes on the grid have a place on the scale. Special values and missing cells are left out, so that every distance
is between rows that have a value; how many have none is compared separately.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from synth.progress import OnStep, unwatched
from synth.reports.code_tables import CodeTable
from synth.reports.wording import number_text
from synth.schema import ModelledColumn, Schema

__all__ = [
    "PERCENTS",
    "Associations",
    "ScaleDistance",
    "apart_codes",
    "compare_scales",
    "moved_text",
    "on_scale",
    "ordered_places",
    "quantiles",
    "scale_distance",
    "scale_unit",
    "scale_values",
]

PERCENTS = tuple(range(1, 100))
"""Levels of the quantiles that are drawn, in percent of the rows that have a value."""

_LEVELS_PER_ROW = 4
"""A grid with at most this many places for each row is counted into an array; on finer ones values are sorted."""


@dataclass(frozen=True, slots=True)
class ScaleDistance:
    """How far two distributions are apart on one declared scale.

    Attributes
    ----------
    ks : float
        Kolmogorov-Smirnov distance: the largest difference between shares of rows up to a value, in [0, 1].
    wasserstein : float
        How far a row has to be moved on average, as a fraction of the declared range, in [0, 1].
    """

    ks: float
    wasserstein: float


def on_scale(column: ModelledColumn, codes: NDArray[Any]) -> NDArray[Any]:
    """Return the codes that have a place on the declared grid: no special value, not missing."""
    return codes[codes < column.levels]


def compare_scales(column: ModelledColumn, left: NDArray[Any], right: NDArray[Any]) -> ScaleDistance | None:
    """Compare the distributions of a number or date in two tables.

    Parameters
    ----------
    column : ModelledColumn
        A number or a date.
    left, right : arrays of integers of shape (rows,)
        Codes of the column; the tables may have different numbers of rows.

    Returns
    -------
    ScaleDistance, or None if one of the tables has no value on the scale
    """
    left, right = on_scale(column, left), on_scale(column, right)
    if not len(left) or not len(right):
        return None
    if column.levels <= _LEVELS_PER_ROW * (len(left) + len(right)):
        places = np.arange(column.levels, dtype=np.float64)
        counts = [np.bincount(codes, minlength=column.levels) for codes in (left, right)]
    else:
        occurring, inverse = np.unique(np.concatenate([left, right]), return_inverse=True)
        places = occurring.astype(np.float64)
        counts = [np.bincount(part, minlength=len(places)) for part in (inverse[: len(left)], inverse[len(left) :])]
    return scale_distance(places / max(column.levels - 1, 1), *counts)


def scale_distance(places: NDArray[np.float64], left: NDArray[Any], right: NDArray[Any]) -> ScaleDistance:
    r"""Compare two tables of counts over the same ordered places.

    .. math:: KS = \max_k |F_k - G_k|, \quad W = \sum_k |F_k - G_k| (x_{k+1} - x_k)

    where F and G are the cumulative shares of ``left`` and ``right``, and x are the ``places``.

    Parameters
    ----------
    places : array of shape (n,), increasing, in [0, 1]
        Where each count lies on the scale.
    left, right : arrays of shape (n,)
        Counts with a positive sum; noisy ones may be negative.
    """
    apart = np.abs(np.cumsum(left) / left.sum() - np.cumsum(right) / right.sum())
    # The last difference is zero apart from rounding: all shares add up to one.
    apart[-1] = 0.0
    return ScaleDistance(float(apart.max()), float((apart[:-1] * np.diff(places)).sum()))


def quantiles(column: ModelledColumn, codes: NDArray[Any]) -> NDArray[np.int64] | None:
    """Return the codes at or below which 1, 2, ..., 99 % of the rows with a value lie.

    Returns
    -------
    array of shape (99,), or None if no row has a value
    """
    known = np.sort(on_scale(column, codes))
    if not len(known):
        return None
    ranks = [-(-percent * len(known) // 100) - 1 for percent in PERCENTS]
    return np.asarray(known[ranks], dtype=np.int64)


def scale_unit(column: ModelledColumn) -> tuple[float, str]:
    """Return the length of a declared scale and its unit: days, months or years, or none for a number."""
    scale = column.scale
    return scale.step * (column.levels - 1), scale.unit


def moved_text(column: ModelledColumn, wasserstein: float) -> str:
    """Write how far rows have to be moved, in declared units; ``wasserstein`` is a fraction of the declared range."""
    length, unit = scale_unit(column)
    return f"{number_text(wasserstein * length)} {unit}".strip()


def scale_values(column: ModelledColumn, codes: NDArray[np.int64]) -> tuple[float, ...]:
    """Return codes in declared units: numbers as they are, dates as days, months or years after the lowest."""
    scale = column.scale
    return tuple(np.round(scale.low + scale.step * codes, scale.decimals).tolist())


def apart_codes(column: ModelledColumn) -> tuple[tuple[int, str], ...]:
    """Return the codes that are not ordinary values, with their names: special values of a number, and missing."""
    codes = list(range(column.levels, column.size)) if column.levels else []
    if not codes and column.missing_code is not None:
        codes = [column.missing_code]
    return tuple(zip(codes, column.shown_texts(codes), strict=True))


def ordered_places(columns: Sequence[ModelledColumn]) -> tuple[int, ...]:
    """Return which columns have a scale: numbers and dates."""
    return tuple(place for place, column in enumerate(columns) if column.levels)


# Associations -------------------------------------------------------------------------------------------------------


_CELLS_PER_ROW = 4


class Associations:
    """How strongly columns of one table of codes are associated: one number for every pair, whatever their kinds.

    - Two numbers or dates: Pearson's correlation of their places on the grid, in [-1, 1], over rows where both have
      one.
    - A number or date and a category: the correlation ratio, in [0, 1]: the root of the part of the number's variance
      that lies between categories, over rows where the number has a place.
    - Two categories: Cramer's V, in [0, 1].

    Missing and "other" are categories like any other. The last two grow with chance where rows are few and categories
    many, so both are corrected for it (Kelley 1935; Bergsma 2013), and tables of different sizes can be compared. A
    constant column is associated with nothing: 0.

    Parameters
    ----------
    table : CodeTable
        Codes in ``schema.names`` order, at least one row.
    schema : Schema
        Says which columns have a scale.
    """

    def __init__(self, table: CodeTable, schema: Schema) -> None:
        self._levels = [column.levels for column in schema.modelled]
        self._values = list(table)
        self._known = [
            np.asarray(codes < levels) if levels and bool((codes >= levels).any()) else None
            for codes, levels in zip(table, self._levels, strict=True)
        ]
        self._classes: dict[int, tuple[NDArray[np.int64], int]] = {}
        self._scores: dict[int, NDArray[np.float64]] = {}

    def of(self, pairs: Sequence[tuple[int, int]], *, on_step: OnStep = unwatched) -> list[float]:
        """Return the association of every pair of column places.

        Parameters
        ----------
        pairs : sequence of two different places each
        on_step : callable, optional
            Called with (done, total) now and then; may raise to stop.
        """
        found = []
        for place, (left, right) in enumerate(pairs):
            found.append(self._pair(left, right))
            if place % 64 == 0 or place + 1 == len(pairs):
                on_step(place + 1, len(pairs))
        return found

    def _pair(self, left: int, right: int) -> float:
        if self._levels[left] and self._levels[right]:
            return self._correlation(left, right)
        if self._levels[left]:
            return self._ratio(left, right)
        if self._levels[right]:
            return self._ratio(right, left)
        return self._cramer(left, right)

    def _correlation(self, left: int, right: int) -> float:
        masks = [mask for mask in (self._known[left], self._known[right]) if mask is not None]
        if not masks:
            return float(self._standardised(left) @ self._standardised(right))
        both = np.logical_and.reduce(masks)
        return float(_unit(self._values[left][both]) @ _unit(self._values[right][both]))

    def _standardised(self, place: int) -> NDArray[np.float64]:
        if place not in self._scores:
            self._scores[place] = _unit(self._values[place])
        return self._scores[place]

    def _ratio(self, number: int, category: int) -> float:
        classes, n_classes = self._classes_of(category)
        values, known = self._values[number].astype(np.float64), self._known[number]
        if known is not None:
            values, classes = values[known], classes[known]
        n = len(values)
        if not n:
            return 0.0
        centred = values - values.mean()
        total = float(centred @ centred)
        counts = np.bincount(classes, minlength=n_classes)
        sums = np.bincount(classes, weights=centred, minlength=n_classes)
        occurring = counts > 0
        k = int(occurring.sum())
        if total <= 0 or n <= k:
            return 0.0
        between = float((sums[occurring] ** 2 / counts[occurring]).sum()) / total
        # Kelley 1935: compares unbiased estimates of the variances instead of the sums of squares.
        return math.sqrt(min(max(1 - (1 - between) * (n - 1) / (n - k), 0.0), 1.0))

    def _cramer(self, left: int, right: int) -> float:
        (rows, n_rows), (columns, n_columns) = self._classes_of(left), self._classes_of(right)
        n = len(rows)
        if min(n_rows, n_columns) < 2 or n < 2:
            return 0.0
        key = rows * n_columns + columns
        if n_rows * n_columns <= _CELLS_PER_ROW * n:
            counts = np.bincount(key, minlength=n_rows * n_columns)
            cells = np.flatnonzero(counts)
            counts = counts[cells]
        else:
            cells, counts = np.unique(key, return_counts=True)
        of_row, of_column = np.bincount(rows, minlength=n_rows), np.bincount(columns, minlength=n_columns)
        expected = of_row[cells // n_columns] * of_column[cells % n_columns].astype(np.float64)
        phi = float((counts.astype(np.float64) ** 2 / expected).sum()) - 1
        # Bergsma 2013: the average effect of chance is subtracted, and the sizes shrink accordingly.
        phi = max(0.0, phi - (n_rows - 1) * (n_columns - 1) / (n - 1))
        sides = [size - (size - 1) ** 2 / (n - 1) for size in (n_rows, n_columns)]
        return math.sqrt(min(phi / (min(sides) - 1), 1.0)) if min(sides) > 1 else 0.0

    def _classes_of(self, place: int) -> tuple[NDArray[np.int64], int]:
        """Return codes renumbered by the values that occur, so that long lists of categories cost no more."""
        if place not in self._classes:
            occurring, classes = np.unique(self._values[place], return_inverse=True)
            self._classes[place] = (classes.astype(np.int64), len(occurring))
        return self._classes[place]


def _unit(codes: NDArray[np.int64]) -> NDArray[np.float64]:
    """Centre values and give them length 1; constant ones become zeros."""
    if not len(codes):
        return np.zeros(0)
    centred = codes - codes.mean()
    length = math.sqrt(float(centred @ centred))
    # A constant column leaves only rounding errors.
    return centred / length if length > 1e-9 * max(1.0, float(np.abs(codes).max())) else np.zeros(len(codes))
