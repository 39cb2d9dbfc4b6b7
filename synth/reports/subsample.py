"""How large a random sub-sample of the private rows is worth as much as the synthetic rows: the plainest number.

A random sub-sample is off by chance, the more the smaller it is. The mean distance over sets of columns of a few seeded
sub-samples of growing size is a scale, and every other table has its place on it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from synth.reports.control import coarse_bins
from synth.reports.counting import CodeTable, StackedTables
from synth.reports.subsets import Subsets, choose_subsets
from synth.schema import Schema

__all__ = ["SubsampleScale", "place_of", "subsample_scale"]

_SHARES = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3)
_DRAWS = 3


@dataclass(frozen=True, slots=True, eq=False)
class SubsampleScale:
    """Where tables stand on the scale of random sub-samples.

    Attributes
    ----------
    subsets : Subsets
        The sets of columns the distances are means over.
    sizes : tuple of int
        Rows of the sub-samples, growing.
    distances : tuple of float
        Mean distance of sub-samples of these sizes from all rows.
    places : tuple of float or None
        For every table, the percentage of rows in a sub-sample that is as near; None where it is farther than the
        smallest.
    """

    subsets: Subsets
    n_rows: int
    sizes: tuple[int, ...]
    distances: tuple[float, ...]
    means: tuple[float, ...]
    places: tuple[float | None, ...]


def subsample_scale(
    real: CodeTable,
    others: Sequence[CodeTable],
    schema: Schema,
    *,
    alpha: int = 2,
    limit: int = 300,
    seed: int = 0,
) -> SubsampleScale | None:
    """Place tables on the scale of random sub-samples of the first.

    Numbers and dates are in at most 32 public bins, so that values of their own are not mistaken for distance.

    Parameters
    ----------
    real : CodeTable
        Codes in ``schema.names`` order.
    others : sequence of CodeTable
        Tables to place.
    schema : Schema
        The declared columns.
    alpha : int
        Columns in a set.
    limit : int
        Most sets; a seeded sample is taken where there are more.
    seed : int
        Public; draws sets and sub-samples.

    Returns
    -------
    SubsampleScale, or None where there is no set of so many columns or only one row
    """
    n = len(real[0])
    subsets = choose_subsets(len(real), alpha, limit=limit, seed=seed)
    if not subsets.chosen or n < 2:
        return None
    bins = [coarse_bins(column) for column in schema.modelled]
    sizes = tuple(sorted({max(1, round(share * n)) for share in _SHARES}))
    random = np.random.default_rng([seed, 4])
    drawn = [np.sort(random.choice(n, size=size, replace=False)) for size in sizes for _ in range(_DRAWS)]
    merged = [[one[codes] for one, codes in zip(bins, table, strict=True)] for table in (real, *others)]
    samples = [[codes[rows] for codes in merged[0]] for rows in drawn]
    means = StackedTables([*merged, *samples], [int(one.max()) + 1 for one in bins]).distances(subsets).mean(axis=0)
    of_sizes = means[len(others) :].reshape(len(sizes), _DRAWS).mean(axis=1)
    found = tuple(means[: len(others)].tolist())
    places = tuple(place_of(distance, n, sizes, of_sizes) for distance in found)
    return SubsampleScale(subsets, n, sizes, tuple(of_sizes.tolist()), found, places)


def place_of(distance: float, n_rows: int, sizes: Sequence[int], distances: NDArray[np.float64]) -> float | None:
    r"""Return the percentage of rows whose random sub-sample is at a distance.

    The distance of m of n rows grows in proportion to the root of 1/m - 1/n (the standard error of a sample drawn
    without putting back), so distances are interpolated linearly between those roots, from nothing at m = n.

    Parameters
    ----------
    distance : float
        Not negative.
    n_rows : int
        Rows in all.
    sizes : sequence of int
        Rows of the sub-samples, growing, all smaller than or equal to ``n_rows``.
    distances : array of shape (n_sizes,)
        Their mean distances.

    Returns
    -------
    float in (0, 100], or None where the distance is larger than all of them
    """
    roots = np.sqrt(1 / np.array(sizes[::-1], dtype=float) - 1 / n_rows)
    # Chance may turn neighbours around; a larger sub-sample is never taken to be farther.
    known = np.maximum.accumulate(distances[::-1])
    if distance > known[-1]:
        return None
    root = float(np.interp(distance, np.concatenate([[0.0], known]), np.concatenate([[0.0], roots])))
    return 100 / (n_rows * (root**2 + 1 / n_rows))
