r"""Smoothing of noisy rows by kernel affine hull machines in public steps (Kumar 2024, Definitions 13 and 14).

Everything here is a function of noisy rows alone, so it is post-processing: it costs no privacy.

The smoother :math:`T_{n,M}` starts at :math:`\hat Y_0 = Y^+` and repeats

.. math:: \hat Y_{m+1} = K_m (K_m + \lambda_m I)^{-1} \hat Y_m

with principal coordinates, kernel and lambda found anew from :math:`\hat Y_m` in every step. By its own definition it
returns :math:`\hat Y_{M-1}`, one step before the last that eq. 80-82 compute: :math:`T_{n,1}` changes nothing.
Fabricated rows are images of the smoothed ones, :math:`\tilde Y = A_{\hat Y_{M-1}}(\hat Y_{M-1})`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from synth.errors import InputError
from synth.models.affine_hull import HullBatch, checked_blocks
from synth.models.ridge_search import sketch_signs

__all__ = ["Fabrication", "batch_size", "fabrications", "in_blocks", "padded"]

_TOGETHER_ON_A_CARD = 16
"""Blocks of a batch on a card: for blocks of a thousand rows, matrices of 128 MB in float64, which keep it busy."""


@dataclass(frozen=True, slots=True, eq=False)
class Fabrication:
    """Fabricated rows, and the report of how they were made.

    Attributes
    ----------
    rows : Tensor of shape (N, p)
        Row i is the image of the i-th noisy row: shuffle before release if the order identifies people.
    regularisers : tuple of float
        Lambda of each of the M machines.
    n_effective : int
        Dimension of the last machine.
    guarded : int
        Rows whose weights nearly cancelled, so that the smoothed row is used as its own image.
    """

    rows: Tensor
    regularisers: tuple[float, ...]
    n_effective: int
    guarded: int


def fabrications(blocks: Iterable[Tensor], *, n: int, steps: int = 2) -> Iterator[Fabrication]:
    """Yield what is fabricated from each of several blocks of noisy rows, independently (Definition 14, repaired).

    Parameters
    ----------
    blocks : iterable of Tensors of shape (rows of the block, p)
        At most 20,000 rows each (:func:`in_blocks`), on one device, where everything is computed; consumed in batches
        of :func:`batch_size`.
    n : int
        Subspace dimension, at least 1; reduced to what the rows allow.
    steps : int
        M, at least 1: a public number of machines, built one after another.

    Raises
    ------
    InputError
        If a number is out of range, or rows are not finite.

    Notes
    -----
    Differs from the paper, where M is the first number of steps whose error falls below the error of a machine built
    from the *original* rows. That makes M a function of private rows, visible in the output, and an attack on it works
    (``benchmarks/published_fabrication.py``). Here M is public; 2 is what the paper's rule chose in most blocks.
    """
    if steps < 1:
        raise InputError(f"The number of steps must be at least 1, got {steps}.")
    waiting, signs = iter(blocks), None
    for first in waiting:
        batch = checked_blocks([first, *itertools.islice(waiting, batch_size(first.device) - 1)])
        if signs is None:
            signs = sketch_signs(first.shape[1]).to(first.device)
        yield from _fabricated(batch, n=n, steps=steps, signs=signs)


def batch_size(device: torch.device) -> int:
    """Return how many blocks are padded to one batch: one on a CPU, where that is as fast and takes less memory."""
    return _TOGETHER_ON_A_CARD if device.type != "cpu" else 1


def padded(blocks: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """Return blocks of rows as one batch, shape (blocks, N, p), and which of its rows are not padding.

    Parameters
    ----------
    blocks : sequence of Tensors of shape (rows of the block, p)
    """
    if len({block.dtype for block in blocks}) > 1:
        blocks = [block.double() for block in blocks]
    if len(blocks) == 1:
        (block,) = blocks
        return block[None], torch.ones(1, block.shape[0], dtype=torch.bool, device=block.device)
    batch = torch.nn.utils.rnn.pad_sequence(list(blocks), batch_first=True)
    place = torch.arange(batch.shape[1], device=batch.device)
    # From numbers on the host: no tensor of sizes has to be uploaded.
    return batch, torch.stack([place < block.shape[0] for block in blocks])


def in_blocks(n_rows: int, *, block: int = 1000, generator: torch.Generator) -> list[Tensor]:
    """Cut row numbers into random blocks of about equal size.

    Parameters
    ----------
    n_rows : int
        Not negative; a public number.
    block : int
        Largest size of a block, at least 1; there are ``ceil(n_rows / block)`` blocks.
    generator : torch.Generator
        On the CPU, with a public seed.

    Returns
    -------
    list of int64 Tensors
        Ascending row numbers; every row is in exactly one block, and sizes differ by at most one.

    Notes
    -----
    Differs from the paper, which clusters the original rows by k-means (eq. 98): which rows share a block would then
    depend on private rows.
    """
    if n_rows < 0 or block < 1:
        raise InputError(f"n_rows must not be negative and block at least 1, got {n_rows} and {block}.")
    if n_rows == 0:
        return []
    order = torch.randperm(n_rows, generator=generator)
    return [part.sort().values for part in torch.tensor_split(order, -(-n_rows // block))]


def _fabricated(blocks: list[Tensor], *, n: int, steps: int, signs: Tensor) -> list[Fabrication]:
    """Fabricate the rows of a batch of blocks; the reports take one download."""
    rows, real, found, excess = _smoothed(blocks, n=n, times=steps, signs=signs)
    batch = HullBatch.fit(rows, real, n=n, start=excess, signs=signs)
    images, guarded = batch.row_images()
    found_numbers = torch.stack([*found, batch.ridge.value, batch.whitening.dimensions, guarded.double()])
    return [
        Fabrication(images[place, : len(block)], tuple(regularisers), int(n_effective), int(replaced))
        for place, (block, (*regularisers, n_effective, replaced)) in enumerate(
            zip(blocks, found_numbers.T.tolist(), strict=True)
        )
    ]


def _smoothed(
    blocks: list[Tensor], *, n: int, times: int, signs: Tensor | None = None
) -> tuple[Tensor, Tensor, list[Tensor], Tensor | None]:
    """Return smoothed rows as a padded batch, which rows are not padding, every lambda, and the last fixed point."""
    rows, real = padded(blocks)
    regularisers: list[Tensor] = []
    excess: Tensor | None = None
    for _ in range(times - 1):
        # Rows change little from step to step, so the last fixed point is a good start for the next one.
        batch = HullBatch.fit(rows, real, n=n, start=excess, signs=signs)
        rows, excess = batch.smoothed_rows(), batch.ridge.excess
        regularisers.append(batch.ridge.value)
    return rows, real, regularisers, excess
