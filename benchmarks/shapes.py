"""Distances of numbers as numbers: their distribution on the declared grid, and how columns go together."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from tables import Table

from synth.schema import NumberColumn


def values_of(column: NumberColumn, codes: NDArray[np.integer]) -> NDArray[np.float64]:
    """Return the numbers that codes stand for; missing is not a number."""
    # Not by a table of all values: ten million of them are declared soon.
    others = np.array([*column.special, np.nan])
    beyond = np.maximum(codes - column.levels, 0)
    return np.where(
        codes < column.levels, column.low + column.step * codes, others[np.minimum(beyond, len(others) - 1)]
    )


def shape_distances(table: Table, real: NDArray[np.integer], synthetic: NDArray[np.integer]) -> dict[str, object]:
    """Compare the number columns of a table; empty where it has none.

    Returns
    -------
    dict
        ``ks``: mean Kolmogorov-Smirnov distance; ``wasserstein``: mean Wasserstein-1 distance as a part of the declared
        range; ``correlation``: mean absolute difference of Pearson correlations over pairs of numbers that vary in the
        real rows; ``columns``: the first two by column, Wasserstein in declared units. Missing cells are left out.
    """
    numbers = [(d, c) for d, c in enumerate(table.schema.modelled) if isinstance(c, NumberColumn)]
    if not numbers or table.every_code:
        return {}
    columns: dict[str, list[float]] = {}
    values: list[tuple[NDArray[np.float64], NDArray[np.float64]]] = []
    parts = []
    for d, column in numbers:
        pair = (values_of(column, real[:, d]), values_of(column, synthetic[:, d]))
        values.append(pair)
        kept = [np.sort(each[~np.isnan(each)]) for each in pair]
        if not all(map(len, kept)):
            continue
        places = np.unique(np.concatenate(kept))
        gap = np.abs(np.subtract(*(np.searchsorted(each, places, side="right") / len(each) for each in kept)))
        wasserstein = float((gap[:-1] * np.diff(places)).sum())
        columns[column.name] = [float(gap.max()), wasserstein]
        parts.append(wasserstein / (column.high - column.low))
    found: dict[str, object] = {"columns": columns}
    if columns:
        found |= {"ks": float(np.mean([ks for ks, _ in columns.values()])), "wasserstein": float(np.mean(parts))}
    before, after = (_correlations([pair[k] for pair in values]) for k in (0, 1))
    known = np.isfinite(before)
    if known.any():
        # A synthetic column that does not vary goes together with nothing.
        found["correlation"] = float(np.abs(before[known] - np.nan_to_num(after[known])).mean())
    return found


def _correlations(columns: list[NDArray[np.float64]]) -> NDArray[np.float64]:
    """Return the correlation of every pair, over the rows where both are present."""
    found = []
    for place, first in enumerate(columns):
        for second in columns[:place]:
            both = ~(np.isnan(first) | np.isnan(second))
            x, y = first[both], second[both]
            vary = len(x) > 1 and np.ptp(x) > 0 and np.ptp(y) > 0
            found.append(float(np.corrcoef(x, y)[0, 1]) if vary else np.nan)
    return np.array(found)
