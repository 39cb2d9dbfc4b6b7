r"""Smoothing of noisy rows by kernel affine hull machines (Kumar 2024, Definitions 13 and 14), in public steps.

Everything here is a function of noisy rows alone, so it is post-processing: it costs no privacy.

The smoother :math:`T_{n,M}` starts at :math:`\hat Y_0 = Y^+` and repeats

.. math:: \hat Y_{m+1} = K_m (K_m + \lambda_m I)^{-1} \hat Y_m

with principal coordinates, kernel and lambda found anew from :math:`\hat Y_m` in every step. By its own definition it
returns :math:`\hat Y_{M-1}`, one step before the last that eq. 80-82 compute: :math:`T_{n,1}` changes nothing.
Fabricated rows are images of the smoothed ones, :math:`\tilde Y = A_{\hat Y_{M-1}}(\hat Y_{M-1})`.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from synth.errors import InputError
from synth.models.affine_hull import AffineHull, checked_rows

__all__ = ["Fabrication", "fabricate", "fabrication", "in_blocks"]


@dataclass(frozen=True, slots=True, eq=False)
class Fabrication:
    """Fabricated rows, and what can be said of how they came about.

    Attributes
    ----------
    rows : Tensor of shape (N, p)
        Row i is an image of the i-th noisy row: shuffle before release if order says who is who.
    regularisers : tuple of float
        Lambda of every machine that was built, M of them.
    n_effective : int
        Dimension of the last machine.
    guarded : int
        Rows whose weights nearly cancelled, so that the smoothed row stands for its own image.
    """

    rows: Tensor
    regularisers: tuple[float, ...]
    n_effective: int
    guarded: int


def fabricate(noisy: Tensor, *, n: int, steps: int = 2) -> Tensor:
    """Return fabricated rows, shape (N, p), from noisy rows of the same shape (Definition 14, repaired).

    Parameters
    ----------
    noisy : Tensor of shape (N, p)
        At most 20,000; cut more into blocks first (:func:`in_blocks`).
    n : int
        Subspace dimension, at least 1; reduced to what the rows allow.
    steps : int
        M, at least 1: a public number, the machines that are built one after another.

    Raises
    ------
    InputError
        If a number is out of range or rows are not finite.

    Notes
    -----
    Differs from the paper, where M is the first number of steps whose error falls below the error of a machine built
    from the *original* rows. That makes M a function of private rows, visible in the output, and an attack on it works
    (``benchmarks/published_fabrication.py``). Here M is public; 2 is what the paper's rule chose in most blocks.
    """
    return fabrication(noisy, n=n, steps=steps).rows


def fabrication(noisy: Tensor, *, n: int, steps: int = 2) -> Fabrication:
    """Return what :func:`fabricate` returns, with the machines' report."""
    smoothed, regularisers, excess = _smoothed(noisy, n=n, times=steps)
    hull = AffineHull.fit(smoothed, n, start=excess)
    found = hull.row_images()
    return Fabrication(
        found.images,
        (*regularisers, hull.report.regulariser),
        hull.report.n_effective,
        int(found.guarded.sum()),
    )


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
        Ascending row numbers; every row is in one block, and sizes differ by at most one.

    Notes
    -----
    Differs from the paper, which clusters the original rows by k-means (eq. 98): which rows share a block would then be
    a function of private rows.
    """
    if n_rows < 0 or block < 1:
        raise InputError(f"n_rows must not be negative and block at least 1, got {n_rows} and {block}.")
    if n_rows == 0:
        return []
    order = torch.randperm(n_rows, generator=generator)
    return [part.sort().values for part in torch.tensor_split(order, -(-n_rows // block))]


def _smoothed(noisy: Tensor, *, n: int, times: int) -> tuple[Tensor, list[float], float | None]:
    if times < 1:
        raise InputError(f"The number of steps must be at least 1, got {times}.")
    rows = checked_rows(noisy)
    regularisers: list[float] = []
    excess: float | None = None
    for _ in range(times - 1):
        # Rows change little from step to step, so the last fixed point is a good start for the next.
        hull = AffineHull.fit(rows, n, start=excess)
        rows, excess = hull.smoothed_rows(), hull.report.excess
        regularisers.append(hull.report.regulariser)
    return rows, regularisers, excess
