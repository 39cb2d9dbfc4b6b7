"""Distances of all pairs of rows, and exact nearest neighbours, in blocks, for a graphics card.

A tree of boxes (:mod:`synth.reports.membership.distances`) skips most pairs, in many small steps that a card would wait
for. A card compares all pairs instead: a block of them takes one product for all categories and four operations for
each number, whatever its size. Distances are the same whole numbers as the tree's, in 32 bits, so the nearest is as far
to the last bit; which of several equally near rows it is, neither says.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from synth.progress import OnStep, unwatched
from synth.reports.membership.axes import Axis, Placed, Places

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["between_in_blocks", "bytes_of_pair", "nearest_in_blocks"]

_SIDE = 4096
"""Rows of either side of a block: three tables of 64 MB."""

_WIDEST = 4096
"""Categories of all columns that are compared in one product; columns with more are compared cell by cell."""


def nearest_in_blocks(
    axes: Sequence[Axis],
    queries: Placed,
    rows: Placed,
    *,
    device: str,
    on_step: OnStep = unwatched,
) -> Places:
    """Return the distance of every query from its nearest row.

    Parameters
    ----------
    axes : sequence of Axis
    queries, rows : Placed
        At least one row.
    device : {"cpu", "cuda"}
    on_step : callable
        Called with (done, total) after the operations of a block were launched; may raise to stop.

    Returns
    -------
    array of shape (n_queries,), int32
    """
    import torch

    n_queries = len(queries[0])
    best = torch.full((n_queries,), np.iinfo(np.int32).max, dtype=torch.int32, device=device)
    for mine, theirs, sums in _blocks(axes, queries, rows, device):
        torch.minimum(best[mine], sums.amin(dim=1), out=best[mine])
        if theirs.stop == len(rows[0]):
            on_step(mine.stop, n_queries)
    return best.cpu().numpy()


def between_in_blocks(axes: Sequence[Axis], left: Placed, right: Placed, *, device: str) -> Places:
    """Return the distance of every row from every other, array of shape (rows of left, rows of right), int32."""
    found = np.empty((len(left[0]), len(right[0])), dtype=np.int32)
    for mine, theirs, sums in _blocks(axes, left, right, device):
        found[mine, theirs] = sums.cpu().numpy()
    return found


def _blocks(axes: Sequence[Axis], queries: Placed, rows: Placed, device: str) -> Iterator[tuple[slice, slice, Tensor]]:
    """Yield blocks of the distances of all pairs: which queries, which rows, and the distances, on the device."""
    import torch

    counted, direct = _sorted(axes)
    unit = axes[0].unit if axes else 1
    numbers, columns = _on(direct, queries, device), _on(direct, rows, device)
    # The unit is a power of two, so products of it with counts of columns are exact in float32.
    ones, units = _one_hot(axes, counted, queries, 1, device), _one_hot(axes, counted, rows, -unit, device)
    n_queries, n_rows = len(queries[0]), len(rows[0])
    for start in range(0, n_queries, _SIDE):
        mine = slice(start, min(start + _SIDE, n_queries))
        for begin in range(0, n_rows, _SIDE):
            theirs = slice(begin, min(begin + _SIDE, n_rows))
            sums = (ones[mine] @ units[theirs].T).int().add_(len(counted) * unit)
            apart = torch.empty_like(sums)
            for place, axis in enumerate(direct):
                left, right = numbers[place, mine, None], columns[place, theirs]
                if axes[axis].levels:
                    torch.sub(left, right, out=apart).abs_()
                    if axes[axis].size > axes[axis].levels:
                        apart.clamp_(max=unit)
                    sums.add_(apart)
                else:
                    sums.add_(left.ne(right), alpha=unit)
            yield mine, theirs, sums


def bytes_of_pair(axes: Sequence[Axis]) -> int:
    """Return how many bytes are read and written for each pair of rows: they bound the time on a card from below."""
    _, direct = _sorted(axes)
    taken = 4 + 8 + 4  # the product, its whole numbers, the least
    for place in direct:
        # A difference, its absolute value, the lesser of it and the unit, the sum; or a comparison and the sum.
        mixed = axes[place].size > axes[place].levels
        taken += (4 + 8 + 8 * mixed + 12) if axes[place].levels else (1 + 9)
    return taken


def _sorted(axes: Sequence[Axis]) -> tuple[list[int], list[int]]:
    """Return the axes that are compared in the product, and those that are compared cell by cell."""
    counted, width = [], 0
    for place, axis in enumerate(axes):
        if not axis.levels and width + axis.size <= _WIDEST:
            counted.append(place)
            width += axis.size
    return counted, [place for place in range(len(axes)) if place not in counted]


def _on(places: Sequence[int], table: Placed, device: str) -> Tensor:
    import torch

    chosen = np.stack([table[place] for place in places]) if places else np.zeros((0, len(table[0])), dtype=np.int32)
    return torch.from_numpy(chosen).to(device)


def _one_hot(axes: Sequence[Axis], places: Sequence[int], table: Placed, value: int, device: str) -> Tensor:
    """Return ``value`` where a row has a category and 0 elsewhere, shape (rows, categories of all columns), float32."""
    import torch

    n_rows, width = len(table[0]), sum(axes[place].size for place in places)
    made = torch.zeros(n_rows, width, device=device)
    if places:
        starts = np.cumsum([0, *(axes[place].size for place in places[:-1])])
        held = np.stack([table[place] for place in places], axis=1) + starts
        made.scatter_(1, torch.from_numpy(held.astype(np.int64)).to(device), float(value))
    return made
