"""Numbers and dates as distributions: how far apart two columns lie on the declared scale, and what is missing.

Only codes on the grid have a place on the scale. Special values and missing cells are left out of it, so that every
distance is between rows that have a value; how many have none is compared by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from synth.reports.drawing import number_text
from synth.schema import ModelledColumn

__all__ = [
    "PERCENTS",
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
    """How far two distributions lie apart on one declared scale.

    Attributes
    ----------
    ks : float
        Kolmogorov-Smirnov distance: the largest difference between shares of rows up to a value, in [0, 1].
    wasserstein : float
        How far a row has to be moved on average, as a part of the declared range, in [0, 1].
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
    ScaleDistance, or None where one of the tables has no value on the scale
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
    # The last difference is zero but for rounding: all shares add up to one.
    apart[-1] = 0.0
    return ScaleDistance(float(apart.max()), float((apart[:-1] * np.diff(places)).sum()))


def quantiles(column: ModelledColumn, codes: NDArray[Any]) -> NDArray[np.int64] | None:
    """Return the codes below or at which 1, 2, ..., 99 % of the rows with a value lie.

    Returns
    -------
    array of shape (99,), or None where no row has a value
    """
    known = np.sort(on_scale(column, codes))
    if not len(known):
        return None
    ranks = [-(-percent * len(known) // 100) - 1 for percent in PERCENTS]
    return np.asarray(known[ranks], dtype=np.int64)


def scale_unit(column: ModelledColumn) -> tuple[float, str]:
    """Return the length of a declared scale and its unit: days, months or years, nothing for a number."""
    scale = column.scale
    return scale.step * (column.levels - 1), scale.unit


def moved_text(column: ModelledColumn, wasserstein: float) -> str:
    """Write how far rows have to be moved in declared units; ``wasserstein`` is a part of the declared range."""
    length, unit = scale_unit(column)
    return f"{number_text(wasserstein * length)} {unit}".strip()


def scale_values(column: ModelledColumn, codes: NDArray[np.int64]) -> tuple[float, ...]:
    """Return codes in declared units: numbers as they are, dates as days, months or years after the lowest."""
    scale = column.scale
    return tuple(np.round(scale.low + scale.step * codes, scale.decimals).tolist())


def apart_codes(column: ModelledColumn) -> tuple[tuple[int, str], ...]:
    """Return the codes beside a column's values, with their names: special values of a number, and missing."""
    codes = list(range(column.levels, column.size)) if column.levels else []
    if not codes and column.missing_code is not None:
        codes = [column.missing_code]
    return tuple(zip(codes, column.texts(codes, missing="missing"), strict=True))


def ordered_places(columns: Sequence[ModelledColumn]) -> tuple[int, ...]:
    """Return which columns have a scale: numbers and dates."""
    return tuple(place for place, column in enumerate(columns) if column.levels)
