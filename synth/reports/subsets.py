"""Which subsets of columns a report looks at: all of them, or a seeded sample when there are many."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np

__all__ = ["Subsets", "choose_subsets"]


@dataclass(frozen=True, slots=True)
class Subsets:
    """Subsets of one size, as column places in ascending order; ``of`` is how many there are in all."""

    alpha: int
    chosen: tuple[tuple[int, ...], ...]
    of: int

    @property
    def sentence(self) -> str:
        """How many of how many, in words."""
        if len(self.chosen) == self.of:
            return f"All {self.of:,} sets of {self.alpha} columns." if self.alpha > 1 else f"All {self.of:,} columns."
        return f"A seeded sample of {len(self.chosen):,} of {self.of:,} sets of {self.alpha} columns."


def choose_subsets(n_columns: int, alpha: int, *, limit: int, seed: int) -> Subsets:
    """Return every subset of ``alpha`` columns, or ``limit`` of them drawn without replacement.

    Parameters
    ----------
    n_columns, alpha : int
        Columns to choose from, and how many go into one subset; there is no subset when alpha is larger.
    limit : int
        Most subsets.
    seed : int
        Draws the sample; public.
    """
    total = math.comb(n_columns, alpha)
    if total <= limit:
        return Subsets(alpha, tuple(itertools.combinations(range(n_columns), alpha)), total)
    ranks = np.random.default_rng([seed, alpha]).choice(total, size=limit, replace=False)
    return Subsets(alpha, tuple(sorted(_unrank(int(rank), n_columns, alpha) for rank in ranks)), total)


def _unrank(rank: int, n_columns: int, alpha: int) -> tuple[int, ...]:
    """Return the subset with this place in the lexicographic order of all subsets."""
    subset: list[int] = []
    column = 0
    for left in range(alpha, 0, -1):
        while rank >= (behind := math.comb(n_columns - column - 1, left - 1)):
            rank -= behind
            column += 1
        subset.append(column)
        column += 1
    return tuple(subset)
