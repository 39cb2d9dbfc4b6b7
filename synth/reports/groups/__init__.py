"""Groups: how small one can be before noise hides it, and how far the tables of each are from the private rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from synth.progress import OnStep, Progress, unwatched
from synth.reports.code_tables import FEWEST_ROWS, ColumnSets, bin_labels, choose_subsets, coarse_bins, sets_of
from synth.reports.controls import Anchored
from synth.reports.evidence import OwnerOnlyEvidence, SafeEvidence
from synth.reports.figures import Bars, Cell, Series, Table
from synth.reports.groups.published import group_accuracy, smallest_groups
from synth.reports.panels import Cards, ExactWarning, Folded, Heading, Panel, Words
from synth.reports.report import (
    GROUPS,
    OwnerRows,
    PaidAnswers,
    Report,
    Screen,
    Section,
    Shown,
    groups_declared,
)
from synth.reports.wording import in_hundred, listed

__all__ = ["REPORT", "GroupDistances", "group_distances", "owner_group_marginals"]

_MOST_SETS = {1: 200, 2: 60}
_MOST_GROUPS = 40
_MOST_GONE = 5
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
        one as large as the private table and one as large as the synthetic: the error of a fresh sample of the same
        people. It is larger for small groups.
    error : array of shape (1 + n_groups,)
        Half the width of the 95 % range of the synthetic rows' distance, over resamples of the private rows.
    apart_error : array of shape (n_groups,)
        The same for its difference from the distance over all rows.
    subsets : ColumnSets
        The sets of columns that they are means over.
    """

    distances: NDArray[np.float64]
    error: NDArray[np.float64]
    apart_error: NDArray[np.float64]
    subsets: ColumnSets


def owner_group_marginals(
    tables: Anchored,
    groups: Sequence[str],
    *,
    on_step: OnStep = unwatched,
) -> tuple[OwnerOnlyEvidence, ...]:
    """Compare marginals within each declared group, beside the control and chance.

    Parameters
    ----------
    tables : Anchored
        Private and synthetic rows, with the control and the floor.
    groups : sequence of str
        The columns that define groups: by value, or for numbers and dates by at most 32 public parts of their range.
    on_step : callable, optional
        Called with (done, total); may raise to stop.

    Returns
    -------
    tuple of OwnerOnlyEvidence
        ``groups.marginals.<column>`` for each column of ``groups`` beside which there is another column.
    """
    if len(tables.schema.names) < 2:
        return ()
    found: list[OwnerOnlyEvidence] = []
    of = len(_MOST_SETS) * len(groups)
    for name in groups:
        by_alpha: dict[int, GroupDistances] = {}
        for alpha, limit in _MOST_SETS.items():
            by_alpha[alpha] = group_distances(tables, name, alpha=alpha, limit=limit)
            on_step(len(_MOST_SETS) * len(found) + len(by_alpha), of)
        found.append(_evidence(tables, name, by_alpha))
    return tuple(found)


def group_distances(tables: Anchored, group: str, *, alpha: int, limit: int) -> GroupDistances:
    """Average the total variation over sets of the other columns, within every group and over all rows.

    Parameters
    ----------
    tables : Anchored
        As in :func:`owner_group_marginals`.
    group : str
        The column that defines the groups.
    alpha : int
        Columns of a set. Numbers and dates are put into at most 32 public bins.
    limit : int
        Most sets; a seeded sample is taken if there are more.
    """
    schema, seed = tables.schema, tables.seed
    others = [place for place, name in enumerate(schema.names) if name != group]
    subsets = choose_subsets(len(others), alpha, limit=limit, seed=seed)
    binned = [coarse_bins(column) for column in schema.modelled]
    sizes = [bins.count for bins in binned]
    stacked = [
        np.concatenate([bins[table[place]] for table in tables.tables]).astype(np.int64)
        for place, bins in enumerate(binned)
    ]
    home = schema.names.index(group)
    rows = [len(table[0]) for table in tables.tables]
    table_of_row = np.repeat(np.arange(4), rows)
    draws = _replicates(rows[0], seed)
    # Of the synthetic rows, the control and chance; the last is added up over replicates.
    means = np.zeros((3, 1 + sizes[home]))
    redrawn = np.zeros((_REPLICATES, 1 + sizes[home]))
    for subset in subsets.chosen:
        places = [others[place] for place in subset]
        cells = _GroupedCells.of(
            stacked[home], sizes[home], [stacked[at] for at in places], [sizes[at] for at in places]
        )
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
class _GroupedCells:
    """The cells of a set of columns within every group; only those that occur, if there are many.

    ``of_row`` is the cell of every row; ``group`` and ``cell`` are the group and the set's own cell of each.
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
        encoded = pa.array(key).dictionary_encode()  # hashed, which is faster than sorting
        occurring = encoded.dictionary.to_numpy()
        _, cell = np.unique(occurring % cells, return_inverse=True)
        return cls(encoded.indices.to_numpy().astype(np.int64), occurring // cells, cell, n_groups)

    @property
    def size(self) -> int:
        return len(self.group)

    def counts(self, table_of_row: NDArray[np.int64], n_tables: int) -> NDArray[np.int64]:
        """Count every table, shape (n_tables, size)."""
        counted = np.bincount(table_of_row * self.size + self.of_row, minlength=n_tables * self.size)
        return counted.reshape(n_tables, self.size)

    def variation(self, reference: NDArray[Any], other: NDArray[Any]) -> NDArray[np.float64]:
        """Return the total variation over all rows and within every group; 1 where one of the two has no row."""
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


def _evidence(tables: Anchored, name: str, by_alpha: dict[int, GroupDistances]) -> OwnerOnlyEvidence:
    column, place = tables.schema.modelled_column(name), tables.schema.names.index(name)
    bins = coarse_bins(column)
    labels = bin_labels(column, bins)
    counts = np.array([np.bincount(bins[table[place]], minlength=len(labels)) for table in tables.tables[:2]])
    # With only one other column there are no pairs.
    ways = {alpha: found for alpha, found in by_alpha.items() if found.subsets.chosen}
    # Within a group one column already is a relation of two, and chance hides pairs in small groups.
    single, of = ways[1], tables.schema.unit.counted
    largest = np.argsort(-counts[0], kind="stable")[:_MOST_GROUPS]
    shown = [int(one) for one in np.sort(largest) if counts[0, one] > 0]
    judged = np.flatnonzero(counts[0] >= FEWEST_ROWS)
    excess = single.distances[0] - single.distances[2]
    worst = int(judged[np.argmax(excess[1:][judged])]) if len(judged) and (counts[0] > 0).sum() > 1 else None
    return OwnerOnlyEvidence(
        id=f"groups.marginals.{name}",
        title=f"Largest error of a group of {name}, above that of all {of}",
        value=None if worst is None else float(excess[1 + worst] - excess[0]),
        error=None if worst is None else float(single.apart_error[worst]),
        unit="total variation",
        sentence=_sentence(name, labels, counts, single.subsets, worst, of),
        figures=(_bars(name, labels, shown, single, worst, of), _table(name, labels, shown, counts, ways, of)),
    )


def _sentence(
    name: str, labels: Sequence[str], counts: NDArray[np.int64], subsets: ColumnSets, worst: int | None, of: str
) -> str:
    gone = [labels[place] for place in np.flatnonzero((counts[0] > 0) & (counts[1] == 0)).tolist()]
    sentence = (
        f"Mean distance over {sets_of(1)} within each group of '{name}', minus the distance between two bootstraps "
        f"of the private {of}, which by chance is larger for small groups. "
    )
    sentence += (
        f"Fewer than two groups have at least {FEWEST_ROWS} {of}, so nothing can be compared. "
        if worst is None
        else f"It is largest for {labels[worst]}; the number says how far it is above that of all {of}. "
    )
    if gone:
        sentence += f"Groups without synthetic rows, at distance 1: {listed(gone, _MOST_GONE)}. "
    return (
        f"{sentence}The range covers another random sample of the private {of}, not another release. {subsets.sentence}"
    )


def _bars(
    name: str, labels: Sequence[str], shown: Sequence[int], found: GroupDistances, worst: int | None, of: str
) -> Bars:
    def values(which: int) -> tuple[float, ...]:
        return tuple(float(found.distances[which, 1 + place]) for place in shown)

    errors = tuple(float(found.error[1 + place]) for place in shown)
    title, judged = f"No two groups of {name} are large enough to compare", ""
    if worst is not None:
        ours, _, floor = (found.distances[which] for which in range(3))
        title = (
            f"{labels[worst]} fares worst of {name}: {in_hundred(float(ours[1 + worst]), of)} out of place per column"
        )
        excess = float(ours[1 + worst] - floor[1 + worst] - ours[0] + floor[0])
        judged = _beyond_chance(int(excess > found.apart_error[worst]))
    return Bars(
        title,
        "total variation",
        tuple(labels[place] for place in shown),
        (
            Series(_ANCHORS[0], "synthetic", values(0), errors),
            Series(_ANCHORS[1], "control", values(1)),
            Series(_ANCHORS[2], "floor", values(2)),
        ),
        subtitle=judged,
    )


def _beyond_chance(clear: int) -> str:
    return "Not good: more than chance explains." if clear else "Good: chance alone may explain it."


def _table(
    name: str,
    labels: Sequence[str],
    shown: Sequence[int],
    counts: NDArray[np.int64],
    ways: dict[int, GroupDistances],
    of: str,
) -> Table:
    shares = counts / counts.sum(axis=1, keepdims=True)
    rows: list[tuple[Cell, ...]] = [(f"all {of}", int(counts[0].sum()), 1.0, 1.0, *_distances(ways, 0))]
    rows += [
        (labels[place], int(counts[0, place]), *map(float, shares[:, place]), *_distances(ways, 1 + place))
        for place in shown
    ]
    header = [name, f"private {of}", "share, private", "share, synthetic"]
    for alpha in ways:
        header += [f"{sets_of(alpha)}: {which}" for which in ("synthetic", "±", "control", "two bootstraps")]
    return Table(f"{len(shown):,} groups of {name} beside all {of}", tuple(header), tuple(rows))


def _distances(ways: dict[int, GroupDistances], place: int) -> list[Cell]:
    cells: list[Cell] = []
    for found in ways.values():
        made, control, floor = (float(value) for value in found.distances[:, place])
        cells += [made, float(found.error[place]), control, floor]
    return cells


# The report ---------------------------------------------------------------------------------------------------------


_SECTION = "groups"


def _public(answers: PaidAnswers) -> Sequence[SafeEvidence]:
    schema, groups = answers.config.schema, answers.config.groups
    return (*group_accuracy(answers.fine, schema, groups), *smallest_groups(answers.fine, schema, groups))


def _owner(rows: OwnerRows, options: Mapping[str, Any], progress: Progress) -> Sequence[OwnerOnlyEvidence]:
    if not rows.config.groups:
        return ()
    progress.phase("Comparing groups")
    return owner_group_marginals(rows.tables, rows.config.groups, on_step=progress.step)


def _public_panels(shown: Shown) -> list[Panel]:
    if not shown.config.groups:
        return [
            Words(
                "No groups are declared. Before a run, name the columns whose groups you want to compare, on 2 "
                "Describe or under 'groups:' in a codebook."
            )
        ]
    published = shown.public_of(_SECTION)
    if published:
        return [Heading("What the noise allows"), Cards(published, key="published-groups")]
    nothing = "No declared groups were counted in this run, so nothing can be said about their sizes in public."
    return [Heading("What the noise allows"), Words(nothing)]


def _exact_panels(shown: Shown) -> list[Panel]:
    found = shown.exact_of(_SECTION)
    nothing = Words("Not part of this report. Tables by group need a second column.")
    return [ExactWarning(), Folded("Tables by group", [Cards(found, key="owner-groups-tables") if found else nothing])]


REPORT = Report(
    id="groups",
    title="Groups",
    sections={_SECTION: Section("Groups")},
    public=_public,
    owner=_owner,
    screens=(
        Screen(GROUPS, _public_panels),
        Screen(GROUPS, _exact_panels, exact=True, wanted=groups_declared),
    ),
)
