"""Which random sub-sample is as accurate: distances from the private rows on the scale of random samples of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from synth.progress import OnStep, unwatched
from synth.reports.code_tables import CodeTable, ColumnSets, StackedTables, choose_subsets, coarse_bins, sets_of
from synth.reports.controls import Anchored
from synth.reports.evidence import OwnerOnlyEvidence
from synth.reports.figures import Cell, Table
from synth.schema import Schema

__all__ = ["SubsampleScale", "owner_subsample", "percentage_of", "subsample_scale"]

_SHARES = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3)
_DRAWS = 3


@dataclass(frozen=True, slots=True, eq=False)
class SubsampleScale:
    """Where tables are on the scale of random sub-samples.

    Attributes
    ----------
    subsets : ColumnSets
        The sets of columns that the distances are means over.
    sizes : tuple of int
        Rows of the sub-samples, ascending.
    distances : tuple of float
        Mean distance of sub-samples of these sizes from all rows.
    percentages : tuple of float or None
        For every table, the percentage of rows in a sub-sample that is as close; None if even the smallest is closer.
    """

    subsets: ColumnSets
    n_rows: int
    sizes: tuple[int, ...]
    distances: tuple[float, ...]
    means: tuple[float, ...]
    percentages: tuple[float | None, ...]


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

    Numbers and dates are in at most 32 public bins, so that rare values are not mistaken for distance.

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
    SubsampleScale, or None if there is no set of so many columns or only one row
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
    means = StackedTables([*merged, *samples], [one.count for one in bins]).distances(subsets).mean(axis=0)
    of_sizes = means[len(others) :].reshape(len(sizes), _DRAWS).mean(axis=1)
    found = tuple(means[: len(others)].tolist())
    percentages = tuple(percentage_of(distance, n, sizes, of_sizes) for distance in found)
    return SubsampleScale(subsets, n, sizes, tuple(of_sizes.tolist()), found, percentages)


def percentage_of(distance: float, n_rows: int, sizes: Sequence[int], distances: NDArray[np.float64]) -> float | None:
    r"""Return the percentage of rows whose random sub-sample is at a distance.

    The distance of m of n rows is proportional to the root of 1/m - 1/n (the standard error of a sample drawn without
    replacement), so distances are interpolated linearly between these roots, from 0 at m = n.

    Parameters
    ----------
    distance : float
        Not negative.
    n_rows : int
        Rows in all.
    sizes : sequence of int
        Rows of the sub-samples, ascending, at most ``n_rows``.
    distances : array of shape (n_sizes,)
        Their mean distances.

    Returns
    -------
    float in (0, 100], or None if the distance is larger than all of them
    """
    roots = np.sqrt(1 / np.array(sizes[::-1], dtype=float) - 1 / n_rows)
    # Chance may swap neighbours; a larger sub-sample is never taken to be further away.
    known = np.maximum.accumulate(distances[::-1])
    if distance > known[-1]:
        return None
    root = float(np.interp(distance, np.concatenate([[0.0], known]), np.concatenate([[0.0], roots])))
    return 100 / (n_rows * (root**2 + 1 / n_rows))


_ALPHAS = (1, 2, 3)
_TABLES = ("synthetic rows", "independent control", "bootstrap")


def owner_subsample(
    tables: Anchored,
    *,
    limit: int = 300,
    on_step: OnStep = unwatched,
) -> tuple[OwnerOnlyEvidence, ...]:
    """Say which random sub-sample of the private rows is as close to them as the synthetic rows are.

    Parameters
    ----------
    tables : Anchored
        Private and synthetic rows, with the control and the floor.
    limit : int
        Most sets of columns of each size; a seeded sample is taken where there are more.
    on_step : callable, optional
        Called with (done, total); may raise to stop.

    Returns
    -------
    tuple of OwnerOnlyEvidence
        ``fidelity.subsample.<1, 2 or 3>`` for as many columns as there are, and ``fidelity.subsample.distances``;
        nothing where there is one row.
    """
    scales: dict[int, SubsampleScale] = {}
    others = (tables.synthetic, tables.control, tables.floor)
    for done, alpha in enumerate(_ALPHAS, start=1):
        scale = subsample_scale(tables.real, others, tables.schema, alpha=alpha, limit=limit, seed=tables.seed)
        if scale is not None:
            scales[alpha] = scale
        on_step(done, len(_ALPHAS))
    of = tables.schema.unit.counted
    found = [_evidence(alpha, scale, of) for alpha, scale in scales.items()]
    return (*found, _distances(scales, of)) if found else ()


def _evidence(alpha: int, scale: SubsampleScale, of: str) -> OwnerOnlyEvidence:
    place, control, floor = scale.percentages
    smallest = 100 * scale.sizes[0] / scale.n_rows
    sentence = (
        f"As close to the private {of} as a random sub-sample of this size ({_words(place, smallest)}). "
        f"Independent control: {_words(control, smallest)}; bootstrap of all {of}: {_words(floor, smallest)}. "
        f"{scale.subsets.sentence}"
    )
    return OwnerOnlyEvidence(
        id=f"fidelity.subsample.{alpha}",
        title=f"Accuracy as a sub-sample: {sets_of(alpha)}",
        value=smallest if place is None else place,
        unit=f"% of the private {of}",
        sentence=sentence,
    )


def _distances(scales: Mapping[int, SubsampleScale], of: str) -> OwnerOnlyEvidence:
    first = next(iter(scales.values()))
    rows: list[tuple[Cell, ...]] = [
        (f"{100 * size / first.n_rows:.3g} % ({size:,} {of})", *(scale.distances[place] for scale in scales.values()))
        for place, size in enumerate(first.sizes)
    ]
    rows += [(name, *(scale.means[place] for scale in scales.values())) for place, name in enumerate(_TABLES)]
    title = f"The smaller a random sub-sample, the further it is from the private {of}"
    told = "Good if the synthetic rows are no further away than a large sub-sample."
    table = Table(title, ("table", *(sets_of(alpha) for alpha in scales)), tuple(rows), told)
    return OwnerOnlyEvidence(
        id="fidelity.subsample.distances",
        title="Distances of random sub-samples",
        value=None,
        unit="total variation",
        sentence="Numbers and dates in at most 32 public bins; three seeded sub-samples of each size.",
        figures=(table,),
    )


def _words(place: float | None, smallest: float) -> str:
    return f"less than {smallest:.2g} %" if place is None else f"{place:.2g} %"
