"""Many kernel affine hull machines at once: blocks of different sizes padded to one batch.

Padding has 1 on the diagonal of the kernel matrix, 0 elsewhere and zeros for a row, so its equations stand apart from
the block's own and the machine is the same as without it. On the CPU one block after another is as fast and takes less
memory; on a CUDA device a batch keeps the device busy.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from synth.errors import InputError
from synth.kernels.affine_hull import AffineHull, checked_rows

__all__ = ["fit_hulls"]

_TOGETHER_ON_CUDA = 16


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
        together = _TOGETHER_ON_CUDA if checked and checked[0].device.type == "cuda" else 1
    if together < 1:
        raise InputError(f"At least 1 block must be fitted at a time, got {together}.")
    fitted: dict[int, AffineHull] = {}
    for dtype in (torch.float32, torch.float64):
        alike = sorted((len(block), place) for place, block in enumerate(checked) if block.dtype == dtype)
        for first in range(0, len(alike), together):
            batch = [place for _, place in alike[first : first + together]]
            padded, real = _padded([checked[place] for place in batch])
            fitted.update(zip(batch, AffineHull.fit_padded(padded, real, n=n), strict=True))
    return [fitted[block] for block in range(len(checked))]


def _padded(blocks: list[Tensor]) -> tuple[Tensor, Tensor]:
    if len(blocks) == 1:
        (block,) = blocks
        return block[None], torch.ones(1, block.shape[0], dtype=torch.bool, device=block.device)
    padded = torch.nn.utils.rnn.pad_sequence(blocks, batch_first=True)
    sizes = torch.tensor([block.shape[0] for block in blocks], device=padded.device)
    return padded, torch.arange(padded.shape[1], device=padded.device) < sizes[:, None]
