r"""What somebody who looks for one person reads off released rows: a few numbers for each row of that person.

For a row x of p columns and n released rows:

- ``nearest``: minus Gower's distance of the nearest released row;
- ``near``: :math:`\log \sum_i e^{-2 p\, d(x, y_i)}`, released rows near x, each column that has nothing in common
  dividing the weight of a row by e squared;
- ``cells``, ``rarest cell``: the sum and the least of :math:`\log\frac{c_j + 1/2}{n + 1}` over columns, c_j of the
  released rows having x's cell in column j, numbers and dates in at most 32 public bins;
- ``pairs``, ``rarest pair``: the same over pairs of columns, at most 200 of them drawn by a public seed.

A copy shows in the first, a small cluster in the second, counts let out with too little noise in the others.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import Self

import numpy as np
from numpy.typing import NDArray

from synth.reports.attack_scene import seeded_rows
from synth.reports.control import coarse_bins
from synth.reports.counting import CodeTable
from synth.reports.membership import UnitRows
from synth.reports.mixed_distance import GowerSpace
from synth.schema import Schema

__all__ = ["FEATURES", "TargetReader"]

FEATURES = ("nearest", "near", "cells", "rarest cell", "pairs", "rarest pair")

_MOST_PAIRS = 200
_MOST_DISTANCES = 2**25
"""Distances computed for one release: of very many rows a sample is compared."""

_DISAGREEING = 2.0


@dataclass(frozen=True, slots=True, eq=False)
class TargetReader:
    """Reads the features of some units off releases.

    Attributes
    ----------
    targets : UnitRows
        All rows of the units, codes in ``schema.names`` order.
    schema : Schema
    bins : tuple of arrays
        The public bin of every code, column by column.
    pairs : tuple of (int, int)
        Places of the columns that are counted together.
    seed : int
    """

    targets: UnitRows
    schema: Schema
    bins: tuple[NDArray[np.int32], ...]
    pairs: tuple[tuple[int, int], ...]
    seed: int

    @classmethod
    def of(cls, targets: UnitRows, schema: Schema, *, seed: int) -> Self:
        """Choose the pairs of columns by a public seed.

        Parameters
        ----------
        targets : UnitRows
            At least one row.
        schema : Schema
        seed : int
        """
        pairs = list(combinations(range(len(schema.modelled)), 2))
        if len(pairs) > _MOST_PAIRS:
            kept = np.random.default_rng([seed, 30]).choice(len(pairs), size=_MOST_PAIRS, replace=False)
            pairs = [pairs[place] for place in np.sort(kept).tolist()]
        return cls(targets, schema, tuple(map(coarse_bins, schema.modelled)), tuple(pairs), seed)

    def read(self, released: CodeTable) -> NDArray[np.float64]:
        """Return the features of every unit in one release; of several rows of a unit the largest counts.

        Parameters
        ----------
        released : CodeTable
            Synthetic rows, at least one.

        Returns
        -------
        array of shape (n_units, len(FEATURES)), units in the order of ``targets.numbers``
        """
        sample = seeded_rows(released, _MOST_DISTANCES // len(self.targets.units), seed=self.seed)
        apart = GowerSpace.of(self.schema).between(self.targets.codes, sample)
        weights = np.exp(-_DISAGREEING * len(self.schema.modelled) * apart)
        cells, pairs = self._counted(released)
        columns = (-apart.min(axis=1), np.log(weights.sum(axis=1) + 1e-12), *cells, *pairs)
        return np.column_stack([self.targets.highest(values) for values in columns])

    def _counted(self, released: CodeTable) -> tuple[tuple[NDArray[np.float64], ...], tuple[NDArray[np.float64], ...]]:
        """Return the sum and the least of the log shares of single cells, and of pairs of cells."""
        theirs = [bins[codes] for bins, codes in zip(self.bins, released, strict=True)]
        mine = [bins[codes] for bins, codes in zip(self.bins, self.targets.codes, strict=True)]
        n_rows = len(theirs[0])
        # One table at a time is counted, of the cells that a target has.
        single = [_log_shares(one, other, n_rows) for one, other in zip(mine, theirs, strict=True)]
        sizes = [int(bins.max()) + 1 for bins in self.bins]
        paired = [
            _log_shares(
                mine[left].astype(np.int64) * sizes[right] + mine[right],
                theirs[left].astype(np.int64) * sizes[right] + theirs[right],
                n_rows,
            )
            for left, right in self.pairs
        ]
        return _sum_and_least(single), _sum_and_least(paired or single)


def _log_shares(mine: NDArray[np.integer], theirs: NDArray[np.integer], n_rows: int) -> NDArray[np.float64]:
    wanted, place = np.unique(mine, return_inverse=True)
    found = np.minimum(np.searchsorted(wanted, theirs), len(wanted) - 1)
    counts = np.bincount(found[wanted[found] == theirs], minlength=len(wanted))
    return np.asarray(np.log((counts[place] + 0.5) / (n_rows + 1)))


def _sum_and_least(shares: list[NDArray[np.float64]]) -> tuple[NDArray[np.float64], ...]:
    together = np.stack(shares)
    return together.sum(axis=0), together.min(axis=0)
