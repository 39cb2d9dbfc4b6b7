"""k-means clustering with a seed of the caller's, for cutting many rows into blocks of similar rows."""

from __future__ import annotations

import torch
from torch import Tensor

from synth.errors import InputError

__all__ = ["k_means"]


def k_means(rows: Tensor, clusters: int, *, generator: torch.Generator, iterations: int = 50) -> Tensor:
    """Assign rows to clusters.

    Starts at rows drawn with probability proportional to the squared distance from those drawn before, then moves
    every centre to the mean of its rows until no row changes its cluster.

    Parameters
    ----------
    rows : Tensor of shape (N, p), floating point, finite
    clusters : int
        Between 1 and N. Some may end empty if rows are repeated.
    generator : torch.Generator
        On the CPU.
    iterations : int
        Most moves of the centres.

    Returns
    -------
    int64 Tensor of shape (N,), entries in 0, ..., clusters - 1

    Raises
    ------
    InputError
        If there are fewer rows than clusters or no cluster is asked for.
    """
    if not 1 <= clusters <= rows.shape[0]:
        raise InputError(f"{rows.shape[0]} rows cannot be cut into {clusters} clusters.")
    if clusters == 1:
        return torch.zeros(rows.shape[0], dtype=torch.int64, device=rows.device)
    centres = _spread(rows, clusters, generator)
    assigned = _nearest(rows, centres)
    for _ in range(iterations):
        counts = torch.bincount(assigned, minlength=clusters)
        sums = torch.zeros_like(centres).index_add_(0, assigned, rows)
        # A centre that lost its rows stays where it was.
        centres = torch.where((counts > 0)[:, None], sums / counts.clamp(min=1)[:, None].to(rows.dtype), centres)
        again = _nearest(rows, centres)
        if torch.equal(again, assigned):
            break
        assigned = again
    return assigned


def _spread(rows: Tensor, clusters: int, generator: torch.Generator) -> Tensor:
    chosen = [int(torch.randint(rows.shape[0], (1,), generator=generator))]
    nearest = (rows - rows[chosen[0]]).square().sum(dim=1)
    while len(chosen) < clusters:
        chances = nearest.double().cpu()
        if float(chances.sum()) <= 0:
            chances = torch.ones_like(chances)
        # Not torch.multinomial, which takes at most 2^24 choices.
        place = torch.rand(1, dtype=torch.float64, generator=generator) * chances.sum()
        chosen.append(min(int(torch.searchsorted(chances.cumsum(dim=0), place, right=True)), rows.shape[0] - 1))
        nearest = torch.minimum(nearest, (rows - rows[chosen[-1]]).square().sum(dim=1))
    return rows[chosen].clone()


def _nearest(rows: Tensor, centres: Tensor) -> Tensor:
    # The square of the row itself is the same for every centre.
    return (centres.square().sum(dim=1) - 2 * rows @ centres.T).argmin(dim=1)
