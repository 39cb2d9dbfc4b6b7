r"""Deep and wide kernel affine hull machines (Kumar 2024, Definitions 3 to 6).

A **conditionally deep** machine passes a point through machines of the same rows with fewer and fewer principal
coordinates, :math:`x_0 = y`, :math:`x_l = A_{n-l+1}(x_{l-1})`, and answers with the :math:`x_l` nearest to y. A
**wide** machine is made of deep ones, one for each block of the rows, and answers with the image nearest to y.

The default depth is 1. A deeper layer starts from an image and moves on, mostly away from the point: on handwritten
digits the first layer is the nearest for every point, so deeper layers cost their time and change nothing. Layers
beyond the first are built when they are first used.

Many machines may be built at once, from blocks of different sizes padded to one batch. Padding has 1 on the diagonal of
the kernel matrix, 0 elsewhere and zeros for a row, so its equations stand apart from the block's own and the machine is
the same as without it. On the CPU one block after another is as fast and takes less memory; on a CUDA device a batch
keeps the device busy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Self, get_args

import torch
from torch import Tensor

from synth.errors import InputError
from synth.models.affine_hull import AffineHull, HullReport, checked_rows
from synth.models.fabrication import batch_size, in_blocks, padded

__all__ = ["DeepHull", "Partition", "WideHull", "fit_hulls", "fit_wide_hulls", "k_means", "partition_rows"]

Partition = Literal["k-means", "random"]


@dataclass(slots=True, eq=False)
class DeepHull:
    """A conditionally deep machine (Definition 3).

    Attributes
    ----------
    layers : list of AffineHull
        Those built so far, at least the first; each has one principal coordinate less than the one before.
    depth : int
        L: how many layers there are; at most the number of principal coordinates of the first.
    """

    layers: list[AffineHull]
    depth: int

    @classmethod
    def of(cls, first: AffineHull, *, depth: int = 1) -> Self:
        """Build a deep machine on a first layer; the depth is reduced to what its rank allows.

        Raises
        ------
        InputError
            If ``depth`` is below 1.
        """
        if depth < 1:
            raise InputError(f"The depth of an affine hull must be at least 1, got {depth}.")
        return cls([first], max(1, min(depth, first.report.n_effective)))

    @property
    def n_columns(self) -> int:
        """Number of columns, p."""
        return self.layers[0].report.n_columns

    def layer(self, number: int) -> AffineHull:
        """Return layer ``number``, counted from 0; built now if it was not used before."""
        while len(self.layers) <= number:
            last = self.layers[-1]
            self.layers.append(last.narrowed(last.report.n_effective - 1))
        return self.layers[number]

    def image(self, points: Tensor) -> Tensor:
        """Return the images of points of shape (m, p) (eq. 50)."""
        return self.image_and_distance(points)[0]

    def distance(self, points: Tensor) -> Tensor:
        """Return the distances of points from their images, shape (m,) (Definition 4)."""
        if self.depth == 1:
            return self.layers[0].distance(points)
        return self.image_and_distance(points)[1]

    def image_and_distance(self, points: Tensor) -> tuple[Tensor, Tensor]:
        """Return images and distances; of layers at the same distance the first counts."""
        own = points.to(self.layers[0].rows)
        reached = nearest = self.layers[0].image(own)
        distances: Tensor = torch.linalg.vector_norm(own - reached, dim=1)
        for number in range(1, self.depth):
            reached = self.layer(number).image(reached)
            further: Tensor = torch.linalg.vector_norm(own - reached, dim=1)
            nearest = torch.where((further < distances)[:, None], reached, nearest)
            distances = torch.minimum(distances, further)
        return nearest, distances


@dataclass(frozen=True, slots=True, eq=False)
class WideHull:
    """A wide machine (Definition 5): one deep machine for each block of rows.

    Attributes
    ----------
    parts : tuple of DeepHull
        At least one.
    """

    parts: tuple[DeepHull, ...]

    def __post_init__(self) -> None:
        if not self.parts:
            raise InputError("A wide affine hull needs at least one part.")
        if len({part.n_columns for part in self.parts}) > 1:
            raise InputError("The parts of a wide affine hull must have the same columns.")

    @classmethod
    def fit(
        cls,
        rows: Tensor,
        n: int = 20,
        *,
        depth: int = 1,
        block: int = 1000,
        partition: Partition = "k-means",
        seed: int = 0,
        together: int | None = None,
        device: torch.device | str | None = None,
    ) -> WideHull:
        """Cut rows into blocks and build a deep machine from each; arguments as :func:`fit_wide_hulls`."""
        (hull,) = fit_wide_hulls(
            [rows],
            n=n,
            depth=depth,
            block=block,
            partition=partition,
            seed=seed,
            together=together,
            device=device,
        )
        return hull

    @property
    def n_columns(self) -> int:
        """Number of columns, p."""
        return self.parts[0].n_columns

    @property
    def reports(self) -> tuple[HullReport, ...]:
        """The report of every part's first layer."""
        return tuple(part.layers[0].report for part in self.parts)

    def image(self, points: Tensor) -> Tensor:
        """Return the images of points of shape (m, p) by the nearest part (eq. 55)."""
        images, least = self.parts[0].image_and_distance(points)
        for part in self.parts[1:]:
            found, distances = part.image_and_distance(points)
            images = torch.where((distances < least)[:, None], found, images)
            least = torch.minimum(distances, least)
        return images

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
    depth: int = 1,
    block: int = 1000,
    partition: Partition = "k-means",
    seed: int = 0,
    together: int | None = None,
    device: torch.device | str | None = None,
) -> list[WideHull]:
    """Build a wide machine from each of several groups of rows, such as the classes of a label.

    Parameters
    ----------
    groups : sequence of Tensors of shape (rows of the group, p)
        Each with at least one row.
    n : int
        Subspace dimension of the first layer.
    depth : int
        Layers L of every part.
    block : int
        About how many rows a part has: a group of N rows is cut into ``ceil(N / block)`` parts.
    partition : {"k-means", "random"}
    seed : int
        Of the partition; public. Every group is cut with the same seed, whatever the other groups are.
    together : int, optional
        How many blocks, of any group, are fitted at a time; see :func:`synth.models.wide_hull.fit_hulls`.
    device : torch.device or str, optional

    Raises
    ------
    InputError
        If an argument is out of range or rows cannot be used.
    """
    cuts = [partition_rows(rows, block=block, partition=partition, seed=seed) for rows in groups]
    pieces = [rows[numbers.to(rows.device)] for rows, cut in zip(groups, cuts, strict=True) for numbers in cut]
    hulls = iter(fit_hulls(pieces, n=n, together=together, device=device))
    return [WideHull(tuple(DeepHull.of(next(hulls), depth=depth) for _ in cut)) for cut in cuts]


def partition_rows(rows: Tensor, *, block: int, partition: Partition, seed: int) -> list[Tensor]:
    """Return row numbers of every block, ascending.

    Notes
    -----
    Differs from the paper: clusters of more than two blocks' size, as of rows that are all alike, are cut at random.
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


def fit_hulls(
    blocks: Sequence[Tensor], *, n: int, together: int | None = None, device: torch.device | str | None = None
) -> list[AffineHull]:
    """Build one machine from every block.

    Parameters
    ----------
    blocks : sequence of Tensors of shape (rows of the block, p)
        Of one number of columns.
    n : int
        Subspace dimension.
    together : int, optional
        How many blocks are padded to one batch, those of like size: 1 on the CPU and 16 on CUDA if not given.
    device : torch.device or str, optional
        Where to compute; where the blocks are if not given.

    Returns
    -------
    list of AffineHull
        In the order of ``blocks``.

    Raises
    ------
    InputError
        If blocks differ in columns, or one of them cannot be a machine.
    """
    checked = [checked_rows(block if device is None else block.to(device)) for block in blocks]
    if len({block.shape[1] for block in checked}) > 1:
        raise InputError("Blocks that are fitted together must have the same columns.")
    if together is None:
        together = batch_size(checked[0].device) if checked else 1
    if together < 1:
        raise InputError(f"At least 1 block must be fitted at a time, got {together}.")
    fitted: dict[int, AffineHull] = {}
    for dtype in (torch.float32, torch.float64):
        alike = sorted((len(block), place) for place, block in enumerate(checked) if block.dtype == dtype)
        for first in range(0, len(alike), together):
            batch = [place for _, place in alike[first : first + together]]
            fitted.update(
                zip(batch, AffineHull.fit_padded(*padded([checked[place] for place in batch]), n=n), strict=True)
            )
    return [fitted[block] for block in range(len(checked))]


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
