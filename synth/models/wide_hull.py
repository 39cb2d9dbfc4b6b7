r"""Wide kernel affine hull machines (Kumar 2024, Definitions 5 and 6): one machine for each block of rows.

The distance of a point is its distance from the nearest of its images. The paper also passes images through deeper
machines (Definitions 3 and 4). On handwritten digits no deeper layer was the nearest for any point, so there are none
here; ``benchmarks/published_layers.py`` has them.

Many machines may be built at once, from blocks of different sizes padded to one batch. Padding has 1 on the diagonal of
the kernel matrix, 0 elsewhere and zeros for a row, so its equations are separate from the block's own and the machine
is the same as without it. On the CPU one block after another is as fast and takes less memory; on a CUDA device a batch
keeps the device busy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor

from synth.errors import InputError
from synth.models.affine_hull import AffineHull, HullBatch, checked_rows
from synth.models.fabrication import batch_size, in_blocks, padded

__all__ = ["Partition", "WideHull", "fit_hulls", "fit_wide_hulls", "k_means", "partition_rows"]

Partition = Literal["k-means", "random"]

_MOVES = 50
"""Maximum number of moves of the centres of k-means."""


@dataclass(frozen=True, slots=True, eq=False)
class WideHull:
    """A wide machine (Definition 5): one machine for each block of rows.

    Attributes
    ----------
    parts : tuple of AffineHull
        At least one.
    """

    parts: tuple[AffineHull, ...]

    def __post_init__(self) -> None:
        if not self.parts:
            raise InputError("A wide affine hull needs at least one part.")
        if len({part.report.n_columns for part in self.parts}) > 1:
            raise InputError("The parts of a wide affine hull must have the same columns.")

    @property
    def n_columns(self) -> int:
        """Number of columns, p."""
        return self.parts[0].report.n_columns

    def distance(self, points: Tensor) -> Tensor:
        """Return the distances of points from their images, shape (m,) (Definition 6)."""
        least = self.parts[0].distance(points)
        for part in self.parts[1:]:
            least = torch.minimum(least, part.distance(points))
        return least


def fit_wide_hulls(
    groups: Sequence[Tensor],
    *,
    n: int = 20,
    block: int = 1000,
    partition: Partition = "k-means",
    seed: int = 0,
    device: torch.device | str | None = None,
) -> list[WideHull]:
    """Build a wide machine from each of several groups of rows, such as the classes of a label.

    Parameters
    ----------
    groups : sequence of Tensors of shape (rows of the group, p)
        Each with at least one row.
    n : int
        Subspace dimension.
    block : int
        Approximate rows of a part: a group of N rows is cut into ``ceil(N / block)`` parts.
    partition : {"k-means", "random"}
    seed : int
        Seed of the partition; public. Every group is cut with the same seed, independently of the other groups.
    device : torch.device or str, optional

    Raises
    ------
    InputError
        If an argument is out of range or rows cannot be used.
    """
    cuts = [partition_rows(rows, block=block, partition=partition, seed=seed) for rows in groups]
    pieces = [rows[numbers.to(rows.device)] for rows, cut in zip(groups, cuts, strict=True) for numbers in cut]
    hulls = iter(fit_hulls(pieces, n=n, device=device))
    return [WideHull(tuple(next(hulls) for _ in cut)) for cut in cuts]


def partition_rows(rows: Tensor, *, block: int, partition: Partition, seed: int) -> list[Tensor]:
    """Return the row numbers of every block, ascending.

    Notes
    -----
    Differs from the paper: clusters larger than two blocks, such as of identical rows, are cut at random.
    The number of blocks is the ceiling of eq. 59 as printed; the sentence before it says "nearest integer".
    """
    if block < 1:
        raise InputError(f"A block must have at least 1 row, got {block}.")
    if partition not in get_args(Partition):
        raise InputError(f"partition must be 'k-means' or 'random', got '{partition}'.")
    if rows.ndim != 2 or rows.shape[0] == 0:
        raise InputError(f"An affine hull needs at least one row and one column, got shape {tuple(rows.shape)}.")
    generator = torch.Generator().manual_seed(seed)
    if partition == "random":
        return in_blocks(rows.shape[0], block=block, generator=generator)
    floating = rows if rows.is_floating_point() else rows.double()
    assigned = k_means(floating, -(-rows.shape[0] // block), generator=generator).cpu()
    result: list[Tensor] = []
    for cluster in range(int(assigned.max()) + 1):
        numbers = torch.nonzero(assigned == cluster).flatten()
        if 0 < len(numbers) <= 2 * block:
            result.append(numbers)
        elif len(numbers):
            result += [numbers[part] for part in in_blocks(len(numbers), block=block, generator=generator)]
    return result


def fit_hulls(blocks: Sequence[Tensor], *, n: int, device: torch.device | str | None = None) -> list[AffineHull]:
    """Build one machine from every block; several blocks of like size are padded to one batch (:func:`batch_size`).

    Parameters
    ----------
    blocks : sequence of Tensors of shape (rows of the block, p)
        All with the same number of columns.
    n : int
        Subspace dimension.
    device : torch.device or str, optional
        Device of the computation; by default that of the blocks.

    Returns
    -------
    list of AffineHull
        In the order of ``blocks``.

    Raises
    ------
    InputError
        If blocks have different columns, or no machine can be built from one of them.
    """
    checked = [checked_rows(block if device is None else block.to(device)) for block in blocks]
    if len({block.shape[1] for block in checked}) > 1:
        raise InputError("Blocks that are fitted together must have the same columns.")
    together = batch_size(checked[0].device) if checked else 1
    fitted: dict[int, AffineHull] = {}
    for dtype in (torch.float32, torch.float64):
        alike = sorted((len(block), place) for place, block in enumerate(checked) if block.dtype == dtype)
        for first in range(0, len(alike), together):
            batch = [place for _, place in alike[first : first + together]]
            hulls = HullBatch.fit(*padded([checked[place] for place in batch]), n=n).hulls()
            fitted.update(zip(batch, hulls, strict=True))
    return [fitted[block] for block in range(len(checked))]


def k_means(rows: Tensor, clusters: int, *, generator: torch.Generator) -> Tensor:
    """Assign rows to clusters.

    The first centres are rows drawn with probability proportional to the squared distance from those drawn before. Then
    every centre moves to the mean of its rows, until no row changes its cluster.

    Parameters
    ----------
    rows : Tensor of shape (N, p), floating point, finite
    clusters : int
        Between 1 and N. Some may be empty at the end if rows are repeated.
    generator : torch.Generator
        On the CPU.

    Returns
    -------
    int64 Tensor of shape (N,), entries in 0, ..., clusters - 1

    Raises
    ------
    InputError
        If there are fewer rows than clusters, or ``clusters`` is below 1.
    """
    if not 1 <= clusters <= rows.shape[0]:
        raise InputError(f"{rows.shape[0]} rows cannot be cut into {clusters} clusters.")
    if clusters == 1:
        return torch.zeros(rows.shape[0], dtype=torch.int64, device=rows.device)
    centres = _spread(rows, clusters, generator)
    assigned = _nearest(rows, centres)
    for _ in range(_MOVES):
        counts = torch.bincount(assigned, minlength=clusters)
        sums = torch.zeros_like(centres).index_add_(0, assigned, rows)
        # A centre without rows does not move.
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
