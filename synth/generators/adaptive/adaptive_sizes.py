"""How many bins columns may get, by their declaration alone, so that it tells nothing of the rows."""

from __future__ import annotations

from collections.abc import Sequence

from synth.generators.coarsening import CoarseningOptions
from synth.schema import ModelledColumn

__all__ = ["bins_that_fit", "declared_bins"]

_PAIR_CELLS = 2**24
"""Most cells of all pairs of columns together; wide tables get coarser bins."""


def declared_bins(columns: Sequence[ModelledColumn], bins: int) -> list[int]:
    """Return the most bins that each column can get where numbers and dates have at most ``bins``."""
    most = CoarseningOptions().most_categories
    return [
        min(column.levels, bins) + min(column.size - column.levels, most) if column.levels else min(column.size, most)
        for column in columns
    ]


def bins_that_fit(most: Sequence[int], bins: int) -> int:
    """Return the number of bins, at most ``bins``, at which all pairs of columns together stay below the limit.

    Parameters
    ----------
    most : sequence of int
        Most bins of every column.
    bins : int
    """
    while bins > 2:
        sizes = [min(size, bins) for size in most]
        if (sum(sizes) ** 2 - sum(size**2 for size in sizes)) // 2 <= _PAIR_CELLS:
            break
        bins -= 1
    return bins
