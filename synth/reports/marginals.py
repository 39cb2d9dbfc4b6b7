"""Alpha-way marginals: how far the joint counts of one to four columns are from those of a reference table.

One bin per declared code, total variation (half the L1 distance of relative frequencies), mean over sets of columns,
the worst ten, and a heat map of pairs. This module compares tables of codes and does not know where they come from.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from synth.reports.charts import MAXIMUM_HEAT_MAP_SIDE, Cell, HeatMap, Table
from synth.reports.control import coarse_bins
from synth.reports.counting import CodeTable, StackedTables
from synth.reports.subsets import Subsets, choose_subsets
from synth.schema import Schema

__all__ = ["ALPHAS", "AlphaWay", "MarginalComparison", "compare_marginals"]

ALPHAS = (1, 2, 3, 4)
_WORST = 10


@dataclass(frozen=True, slots=True, eq=False)
class AlphaWay:
    """Distances over sets of ``alpha`` columns.

    ``distances`` has shape (n_subsets, n_tables), values in [0, 1]: one column for each compared table.
    """

    subsets: Subsets
    distances: NDArray[np.float64]
    names: tuple[str, ...]

    @property
    def means(self) -> tuple[float | None, ...]:
        """Mean distance of every compared table; None where there is no set of so many columns."""
        if not len(self.distances):
            return (None,) * int(self.distances.shape[1])
        return tuple(self.distances.mean(axis=0).tolist())

    def worst(self, headings: Sequence[str]) -> Table:
        """List the ten sets with the largest distance of the first table, beside the others' distances."""
        order = np.argsort(-self.distances[:, 0], kind="stable")[:_WORST]
        rows: list[tuple[Cell, ...]] = []
        for row in order:
            columns = " + ".join(self.names[place] for place in self.subsets.chosen[row])
            rows.append((columns, *self.distances[row].tolist()))
        sets = "columns" if self.subsets.alpha == 1 else f"sets of {self.subsets.alpha} columns"
        title = f"The {len(rows)} worst {sets}"
        return Table(title, ("columns", *headings), tuple(rows))


@dataclass(frozen=True, slots=True, eq=False)
class MarginalComparison:
    """Distances for alpha from 1 to 4, and the pairs as a square where there are any."""

    by_alpha: dict[int, AlphaWay]
    pairs: HeatMap | None


def compare_marginals(
    tables: Sequence[CodeTable],
    schema: Schema,
    *,
    coarse: bool = False,
    alphas: Sequence[int] = ALPHAS,
    limit: int = 1000,
    seed: int = 0,
    on_step: Callable[[int, int], None] | None = None,
) -> MarginalComparison:
    """Compare tables with the first of them over sets of one to four columns.

    Parameters
    ----------
    tables : sequence of CodeTable
        The reference, then the tables to compare; columns in ``schema.names`` order.
    schema : Schema
        Sizes of the columns.
    coarse : bool
        Put numbers and dates into at most 32 public bins instead of one bin per code, which is mostly sampling noise
        where nearly every row has a value of its own.
    alphas : sequence of int
        How many columns a set has; 1 and 2 are always wanted.
    limit : int
        Most sets of columns for each alpha; a seeded sample is taken where there are more.
    seed : int
        Draws that sample; public.
    on_step : callable, optional
        Told (done, total) over all alphas; may raise to stop.
    """
    sizes = list(schema.sizes)
    if coarse:
        bins = [coarse_bins(column) for column in schema.modelled]
        tables = [[one[codes] for one, codes in zip(bins, table, strict=True)] for table in tables]
        sizes = [int(one.max()) + 1 for one in bins]
    stacked = StackedTables(tables, sizes)
    chosen = {alpha: choose_subsets(len(sizes), alpha, limit=limit, seed=seed) for alpha in alphas}
    steps = _Steps(on_step, sum(len(subsets.chosen) for subsets in chosen.values()))
    by_alpha = {}
    for alpha, subsets in chosen.items():
        by_alpha[alpha] = AlphaWay(subsets, stacked.distances(subsets, on_step=steps.part()), schema.names)
    return MarginalComparison(by_alpha, _heat_map(stacked, by_alpha, schema.names))


class _Steps:
    """Adds up the steps of several passes for one progress callback."""

    def __init__(self, on_step: Callable[[int, int], None] | None, total: int) -> None:
        self._on_step, self._total, self._done = on_step, total, 0

    def part(self) -> Callable[[int, int], None]:
        before = self._done

        def step(done: int, _: int) -> None:
            self._done = before + done
            if self._on_step is not None:
                self._on_step(self._done, self._total)

        return step


def _heat_map(stacked: StackedTables, by_alpha: dict[int, AlphaWay], names: tuple[str, ...]) -> HeatMap | None:
    """Draw all pairs; of a wide table those of the forty columns that differ most by themselves."""
    if len(names) < 2:
        return None
    singles = by_alpha[1]
    found = dict(zip(singles.subsets.chosen, singles.distances[:, 0], strict=True))
    ranked = sorted(found, key=lambda subset: (-found[subset], subset))
    shown = sorted(place for (place,) in ranked[:MAXIMUM_HEAT_MAP_SIDE])
    found.update(zip(by_alpha[2].subsets.chosen, by_alpha[2].distances[:, 0], strict=True))
    wanted = [(left, right) for left in shown for right in shown if left < right]
    lacking = tuple(pair for pair in wanted if pair not in found)
    extra = stacked.distances(Subsets(2, lacking, len(lacking)))
    found.update(zip(lacking, extra[:, 0], strict=True))
    values = tuple(
        tuple(float(found[(left,) if left == right else (min(left, right), max(left, right))]) for right in shown)
        for left in shown
    )
    title = "Pairs of columns; the diagonal is each column by itself"
    return HeatMap(title, "total variation", tuple(names[place] for place in shown), values)
