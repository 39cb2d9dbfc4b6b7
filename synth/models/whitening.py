r"""Whitened principal coordinates of blocks of rows, and the kernel of them (Kumar 2024, eq. 35, 36 and 39).

The rows of P are eigenvectors of the sample covariance S, so :math:`\theta = P S P^\top` (eq. 36) is the diagonal
matrix of the leading eigenvalues and the kernel of eq. 35 needs no inverse: it is a Gaussian of the whitened
coordinates :math:`z = \theta^{-1/2} P (y - \bar y)`. Subtracting the mean changes no difference between two encodings.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg
import torch
from scipy.linalg import get_blas_funcs
from torch import Tensor

__all__ = ["Whitening", "encoded_kernel", "whiten"]

# Directions whose variance is below this part of the largest one are rounding, not data.
_LEAST_PART = 1e-10


@dataclass(frozen=True, slots=True, eq=False)
class Whitening:
    """Whitened principal coordinates of a batch of blocks of rows.

    Attributes
    ----------
    centre : Tensor of shape (blocks, p), float64
        Means of the rows.
    directions : Tensor of shape (blocks, p, n), float64
        ``(row - centre) @ directions`` has mean 0 and covariance I. Columns in which a block has no variance are 0.
    dimensions : Tensor of shape (blocks,), float64
        Number of columns of ``directions`` that are not 0, by block.
    gram : Tensor of shape (blocks, N, N), float64, optional
        Inner products of the rows, not centred, if they were needed anyway.
    """

    centre: Tensor
    directions: Tensor
    dimensions: Tensor
    gram: Tensor | None = None

    def encode(self, rows: Tensor) -> Tensor:
        """Return whitened coordinates, shape (blocks, N, n), of rows of shape (blocks, N, p)."""
        return (rows.double() - self.centre[:, None]) @ self.directions


def whiten(rows: Tensor, real: Tensor, *, n: int) -> Whitening:
    """Find the whitened principal coordinates of every block.

    Parameters
    ----------
    rows : Tensor of shape (blocks, N, p), floating point
        Padding contains zeros.
    real : Tensor of shape (blocks, N), bool
        Which rows are not padding; at least one in every block.
    n : int
        Number of coordinates, at least 1; a block gets at most its number of rows minus one, and at most the rank of
        its rows.

    Notes
    -----
    Always in float64: the eigenvalues of a covariance in float32 do not converge if columns are constant. If there are
    more columns than rows, the Gram matrix of the centred rows gives the same coordinates.
    """
    counts = real.sum(dim=1)
    exact = rows.double()
    centre = exact.sum(dim=1) / counts[:, None]
    # The mean of a constant column may differ from it by rounding, which must not be taken for variance.
    first = exact[:, :1]
    constant = ((exact == first) | ~real[..., None]).all(dim=1)
    centre = torch.where(constant, first[:, 0], centre)
    centred = exact - centre[:, None]
    del exact
    if _has_padding(real):
        centred = centred.masked_fill_(~real[..., None], 0.0)
    n = min(n, rows.shape[2], rows.shape[1])
    freedom = (counts - 1).clamp(min=1).double()
    if rows.shape[2] <= rows.shape[1]:
        values, vectors = _leading(_inner_products(centred, rows=False), n)
        gram = None
    else:
        gram = _inner_products(centred, rows=True)
        values, left = _leading(gram, n)
        # Now of the rows themselves; computed from the centred rows, as large means would swamp small variances.
        along = (centred @ centre[..., None]) * real[..., None]
        gram += along + along.mT + centre.square().sum(dim=1)[:, None, None]
        vectors = centred.mT @ left / values.clamp(min=torch.finfo(torch.float64).tiny).sqrt()[:, None]
    variances = values / freedom[:, None]
    place = torch.arange(n, device=rows.device)
    kept = (variances > _LEAST_PART * variances[:, :1]) & (variances > 0) & (place < (counts - 1)[:, None])
    scales = torch.where(kept, variances, 1.0).rsqrt()
    directions = torch.where(kept[:, None], vectors * scales[:, None], 0.0)
    return Whitening(centre, directions, kept.sum(dim=1).double(), gram)


def encoded_kernel(encoded: Tensor, dimensions: Tensor, real: Tensor) -> Tensor:
    """Return the kernel matrices of whitened coordinates (Kumar 2024, eq. 35 and 39).

    Parameters
    ----------
    encoded : Tensor of shape (blocks, N, n), float64
    dimensions : Tensor of shape (blocks,), float64
        Coordinates in use, n of eq. 35; if there are none, all entries are 1.
    real : Tensor of shape (blocks, N), bool
        Padding has 1 on the diagonal and 0 elsewhere.

    Returns
    -------
    Tensor of shape (blocks, N, N), float64, entries in [0, 1]
    """
    squares = encoded.square().sum(dim=2)
    distances = squares[:, :, None] + squares[:, None, :] - 2 * encoded @ encoded.mT
    kernel = torch.exp(-distances.clamp(min=0.0) / (2 * dimensions.clamp(min=1.0))[:, None, None])
    if _has_padding(real):
        kernel = kernel * (real[:, :, None] & real[:, None, :])
    kernel.diagonal(dim1=-2, dim2=-1).fill_(1.0)
    return kernel


def _has_padding(real: Tensor) -> bool:
    """Return whether padding must be masked; always on a card, where waiting for the answer takes longer."""
    return real.device.type != "cpu" or not bool(real.all())


def _inner_products(matrices: Tensor, *, rows: bool) -> Tensor:
    """Return the inner products of the rows, or of the columns, of every matrix."""
    if matrices.device.type != "cpu":
        return matrices @ matrices.mT if rows else matrices.mT @ matrices
    dsyrk = get_blas_funcs("syrk", dtype=np.float64)
    # BLAS computes one triangle in half the time; torch only offers the whole matrix.
    lower = np.stack([dsyrk(1.0, one.numpy().T, trans=rows, lower=True) for one in matrices])
    triangles = torch.from_numpy(lower)
    return triangles + triangles.tril(-1).mT


def _leading(symmetric: Tensor, n: int) -> tuple[Tensor, Tensor]:
    """Return the ``n`` largest eigenvalues, descending and not negative, and their eigenvectors, of every matrix."""
    size = symmetric.shape[-1]
    if symmetric.device.type == "cpu" and n < size // 2:
        # LAPACK finds a few eigenpairs in a third of the time that all take; torch only offers all.
        pairs = [scipy.linalg.eigh(one.numpy(), subset_by_index=[size - n, size - 1]) for one in symmetric]
        values = torch.from_numpy(np.stack([pair[0] for pair in pairs]))
        vectors = torch.from_numpy(np.stack([pair[1] for pair in pairs]))
    else:
        values, vectors = torch.linalg.eigh(symmetric)
    return values[:, -n:].flip(-1).clamp(min=0.0), vectors[:, :, -n:].flip(-1)
