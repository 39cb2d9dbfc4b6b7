"""How far synthetic rows are from private rows inside each declared group: exact, for the owner's eyes only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from synth.reports.anchors import Anchored
from synth.reports.charts import Bars, Cell, Series, Table
from synth.reports.control import coarse_bins
from synth.reports.disparity import FEWEST_ROWS
from synth.reports.evidence import OWNER_ONLY_SENTENCE, OwnerOnlyEvidence
from synth.reports.labels import bin_labels
from synth.reports.subsets import Subsets, choose_subsets
from synth.schema import Schema

__all__ = ["GroupDistances", "group_distances", "owner_group_marginals"]

_WAYS = {1: "single columns", 2: "pairs of columns"}
_MOST_SETS = {1: 200, 2: 60}
_MOST_GROUPS = 40
_REPLICATES = 20
_RANGE = 2.093024
"""Half the width of a range that covers 95 %, in standard deviations estimated from 20 replicates (Student's t)."""

_ANCHORS = ("synthetic rows", "independent control", "two bootstraps")


@dataclass(frozen=True, slots=True, eq=False)
class GroupDistances:
    """Mean distances from the private rows inside every group.

    Attributes
    ----------
    distances : array of shape (3, 1 + n_groups)
        Of the synthetic rows, the control and chance; all rows first. NaN where the private table has no row of a
        group, 1 where only the other table has none. Chance is the distance between two bootstraps of the private rows,
        one as large as the private table and one as large as the synthetic: what another draw of the same people would
        be off. It is larger for small groups.
    error : array of shape (1 + n_groups,)
        Half the width of the 95 % range of the synthetic rows' distance, for another draw of the private rows.
    apart_error : array of shape (n_groups,)
        The same for the difference from the distance over all rows.
    subsets : Subsets
        The sets of columns they are means over.
    """

    distances: NDArray[np.float64]
    error: NDArray[np.float64]
    apart_error: NDArray[np.float64]
    subsets: Subsets


def owner_group_marginals(
    tables: Anchored,
    groups: Sequence[str],
    *,
    on_step: Callable[[int, int], None] | None = None,
) -> tuple[OwnerOnlyEvidence, ...]:
    """Compare marginals inside each declared group, beside the control and chance.

    Parameters
    ----------
    tables : Anchored
        Private and synthetic rows, with the control and the floor.
    groups : sequence of str
        The columns that tell groups apart: by value, numbers and dates by at most 32 public parts of their range.
    on_step : callable, optional
        Told (done, total); may raise to stop.

    Returns
    -------
    tuple of OwnerOnlyEvidence
        ``groups.marginals.<column>`` for each column of ``groups`` beside which there is another column.
    """
    schema, seed = tables.schema, tables.seed
    if len(schema.names) < 2:
        return ()
    found = []
    works = [(name, alpha) for name in groups for alpha in _WAYS]
    by_alpha: dict[int, GroupDistances] = {}
    for done, (name, alpha) in enumerate(works, start=1):
        by_alpha[alpha] = group_distances(tables, schema, name, alpha=alpha, limit=_MOST_SETS[alpha], seed=seed)
        if alpha == max(_WAYS):
            found.append(_evidence(tables, schema, name, by_alpha))
            by_alpha = {}
        if on_step is not None:
            on_step(done, len(works))
    return tuple(found)


def group_distances(
    tables: Anchored, schema: Schema, group: str, *, alpha: int, limit: int, seed: int = 0
) -> GroupDistances:
    """Average the total variation over sets of the other columns, inside every group and over all rows.

    Parameters
    ----------
    tables, schema
        As in :func:`owner_group_marginals`.
    group : str
        The column that tells groups apart.
    alpha : int
        Columns of a set. Numbers and dates are put into at most 32 public bins.
    limit : int
        Most sets; a seeded sample is taken where there are more.
    seed : int
        Public.
    """
    columns = schema.modelled
    others = [place for place, name in enumerate(schema.names) if name != group]
    subsets = choose_subsets(len(others), alpha, limit=limit, seed=seed)
    binned = [coarse_bins(column) for column in columns]
    sizes = [int(bins.max()) + 1 for bins in binned]
    stacked = [
        np.concatenate([bins[table[place]] for table in tables.tables]).astype(np.int64)
        for place, bins in enumerate(binned)
    ]
    home = schema.names.index(group)
    rows = [len(table[0]) for table in tables.tables]
    table_of_row = np.repeat(np.arange(4), rows)
    draws = _replicates(rows[0], seed)
    # Of the synthetic rows, the control and chance; what replicates give is added up for the last.
    means = np.zeros((3, 1 + sizes[home]))
    redrawn = np.zeros((_REPLICATES, 1 + sizes[home]))
    for subset in subsets.chosen:
        places = [others[place] for place in subset]
        cells = _Cells.of(stacked[home], sizes[home], [stacked[at] for at in places], [sizes[at] for at in places])
        counts = cells.counts(table_of_row, 4)
        means[:2] += [cells.variation(counts[0], other) for other in counts[1:3]]
        for replicate, weights in enumerate(draws):
            again = np.bincount(cells.of_row[: rows[0]], weights=weights, minlength=cells.size)
            redrawn[replicate] += cells.variation(again, counts[1])
            means[2] += cells.variation(again, counts[3]) / _REPLICATES
    count = max(len(subsets.chosen), 1)
    distances, redrawn = means / count, redrawn / count
    there = np.bincount(stacked[home][: rows[0]], minlength=sizes[home]) > 0
    distances[:, 1:][:, ~there] = np.nan
    return GroupDistances(
        distances=distances,
        error=_RANGE * redrawn.std(axis=0, ddof=1),
        apart_error=_RANGE * (redrawn[:, 1:] - redrawn[:, :1]).std(axis=0, ddof=1),
        subsets=subsets,
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Cells:
    """The cells of a set of columns inside every group, those that occur where there are many.

    ``of_row`` is the cell of every row, ``group`` and ``cell`` what a cell is a cell of; ``size`` is how many exist.
    """

    of_row: NDArray[np.int64]
    group: NDArray[np.int64]
    cell: NDArray[np.int64]
    n_groups: int

    @classmethod
    def of(
        cls, groups: NDArray[np.int64], n_groups: int, columns: Sequence[NDArray[np.int64]], sizes: Sequence[int]
    ) -> Self:
        key, cells = np.zeros_like(groups), 1
        for column, size in zip(columns, sizes, strict=True):
            key, cells = key * size + column, cells * size
        key += groups * cells
        if n_groups * cells <= len(key):
            every = np.arange(n_groups * cells)
            return cls(key, every // cells, every % cells, n_groups)
        numbers, occurring = pd.factorize(key)
        _, cell = np.unique(occurring % cells, return_inverse=True)
        return cls(numbers.astype(np.int64), occurring // cells, cell, n_groups)

    @property
    def size(self) -> int:
        return len(self.group)

    def counts(self, table_of_row: NDArray[np.int64], n_tables: int) -> NDArray[np.int64]:
        """Count every table, shape (n_tables, size)."""
        counted = np.bincount(table_of_row * self.size + self.of_row, minlength=n_tables * self.size)
        return counted.reshape(n_tables, self.size)

    def variation(self, reference: NDArray[Any], other: NDArray[Any]) -> NDArray[np.float64]:
        """Return the total variation over all rows and inside every group; 1 where one of the two has no row."""
        left, right = (np.bincount(self.group, counts, self.n_groups) for counts in (reference, other))
        apart = np.abs(reference / np.maximum(left, 1)[self.group] - other / np.maximum(right, 1)[self.group])
        inside = np.where((left > 0) & (right > 0), 0.5 * np.bincount(self.group, apart, self.n_groups), 1.0)
        overall = 0.5 * np.abs(np.bincount(self.cell, reference / left.sum() - other / right.sum())).sum()
        return np.concatenate([[overall], inside])


def _replicates(n_rows: int, seed: int) -> list[NDArray[np.float64]]:
    random = np.random.default_rng([seed, 23])
    return [
        np.bincount(random.integers(n_rows, size=n_rows), minlength=n_rows).astype(np.float64)
        for _ in range(_REPLICATES)
    ]


def _evidence(tables: Anchored, schema: Schema, name: str, by_alpha: dict[int, GroupDistances]) -> OwnerOnlyEvidence:
    column, place = schema.modelled_column(name), schema.names.index(name)
    bins = coarse_bins(column)
    labels = bin_labels(column, bins)
    counts = np.array([np.bincount(bins[table[place]], minlength=len(labels)) for table in tables.tables[:2]])
    # With one more column there are no pairs.
    ways = {alpha: found for alpha, found in by_alpha.items() if found.subsets.chosen}
    # Inside a group one column is a relation of two already, and chance drowns pairs in small groups.
    single = ways[1]
    largest = np.argsort(-counts[0], kind="stable")[:_MOST_GROUPS]
    shown = [int(one) for one in np.sort(largest) if counts[0, one] > 0]
    judged = np.flatnonzero(counts[0] >= FEWEST_ROWS)
    excess = single.distances[0] - single.distances[2]
    worst = int(judged[np.argmax(excess[1:][judged])]) if len(judged) and (counts[0] > 0).sum() > 1 else None
    return OwnerOnlyEvidence(
        id=f"groups.marginals.{name}",
        title=f"Largest error by {name}, beyond that of all rows",
        value=None if worst is None else float(excess[1 + worst] - excess[0]),
        error=None if worst is None else float(single.apart_error[worst]),
        unit="total variation",
        sentence=_sentence(name, labels, counts, single.subsets, worst),
        figures=(_bars(name, labels, shown, single), _table(name, labels, shown, counts, ways)),
    )


def _sentence(name: str, labels: Sequence[str], counts: NDArray[np.int64], subsets: Subsets, worst: int | None) -> str:
    gone = [labels[place] for place in np.flatnonzero((counts[0] > 0) & (counts[1] == 0)).tolist()]
    sentence = (
        f"Mean distance over {_WAYS[1]} inside each group of '{name}', less the distance of two bootstraps of "
        "the private rows, which chance makes larger for small groups. "
    )
    sentence += (
        f"No two groups with {FEWEST_ROWS} rows or more: nothing can be compared. "
        if worst is None
        else f"The largest is that of {labels[worst]}; the number is how far it lies above that of all rows. "
    )
    if gone:
        sentence += f"{len(gone)} groups have no synthetic row ({', '.join(gone[:5])}); their distance is 1. "
    return (
        f"{sentence}The range covers another draw of the private rows, one by one, not another release. "
        f"{subsets.sentence} {OWNER_ONLY_SENTENCE}"
    )


def _bars(name: str, labels: Sequence[str], shown: Sequence[int], found: GroupDistances) -> Bars:
    def values(which: int) -> tuple[float, ...]:
        return tuple(float(found.distances[which, 1 + place]) for place in shown)

    errors = tuple(float(found.error[1 + place]) for place in shown)
    return Bars(
        f"Mean distance over {_WAYS[found.subsets.alpha]}, by {name}",
        "total variation",
        tuple(labels[place] for place in shown),
        (
            Series(_ANCHORS[0], "synthetic", values(0), errors),
            Series(_ANCHORS[1], "control", values(1)),
            Series(_ANCHORS[2], "floor", values(2)),
        ),
    )


def _table(
    name: str,
    labels: Sequence[str],
    shown: Sequence[int],
    counts: NDArray[np.int64],
    ways: dict[int, GroupDistances],
) -> Table:
    shares = counts / counts.sum(axis=1, keepdims=True)
    rows: list[tuple[Cell, ...]] = [("all rows", int(counts[0].sum()), 1.0, 1.0, *_distances(ways, 0))]
    rows += [
        (labels[place], int(counts[0, place]), *map(float, shares[:, place]), *_distances(ways, 1 + place))
        for place in shown
    ]
    header = [name, "private rows", "share, private", "share, synthetic"]
    for alpha in ways:
        header += [f"{_WAYS[alpha]}: {which}" for which in ("synthetic", "±", "control", "two bootstraps")]
    return Table(f"Distances inside the groups of {name}", tuple(header), tuple(rows))


def _distances(ways: dict[int, GroupDistances], place: int) -> list[Cell]:
    cells: list[Cell] = []
    for found in ways.values():
        made, control, floor = (float(value) for value in found.distances[:, place])
        cells += [made, float(found.error[place]), control, floor]
    return cells
