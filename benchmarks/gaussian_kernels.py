"""The Gaussian kernel exactly, and the feature maps that approximate it: what tests and figures compare with.

No generator asks with these: of the sum kernel it takes each column's features by itself, of the product kernel the
session multiplies tables, and Fourier features are computed on whole numbers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from synth.errors import InputError
from synth.generators.hermite.dp_hp import hermite_features

__all__ = [
    "fourier_features",
    "gaussian_kernel",
    "mehler_kernel",
    "product_gaussian_kernel",
    "product_hermite_features",
    "sum_gaussian_kernel",
    "sum_hermite_features",
]


def gaussian_kernel(x: Tensor, y: Tensor, *, length_scale: float) -> Tensor:
    r"""Evaluate :math:`\exp(-(x-y)^2 / (2 l^2))` exactly, where l is ``length_scale``.

    Parameters
    ----------
    x, y : Tensor of shapes that broadcast together
    length_scale : float, positive

    Returns
    -------
    Tensor of the broadcast shape, values in [0, 1]
    """
    difference = (x - y) / length_scale
    return torch.exp(-0.5 * difference * difference)


def mehler_kernel(x: Tensor, y: Tensor, *, rho: float) -> Tensor:
    r"""Evaluate :math:`\exp(-\rho (x-y)^2 / (1-\rho^2))` exactly (Vinaroz 2022, eq. 5).

    Parameters
    ----------
    x, y : Tensor of shapes that broadcast together
    rho : float in (0, 1)

    Returns
    -------
    Tensor of the broadcast shape, values in [0, 1]
    """
    difference = x - y
    return torch.exp(-(rho / ((1.0 - rho) * (1.0 + rho))) * difference * difference)


def sum_gaussian_kernel(x: Tensor, y: Tensor, *, length_scale: Sequence[float]) -> Tensor:
    """Evaluate the mean over columns of one-dimensional Gaussian kernels (Vinaroz 2022, eq. 9).

    Parameters
    ----------
    x : Tensor of shape (n, D)
    y : Tensor of shape (m, D)
    length_scale : sequence of D positive floats

    Returns
    -------
    Tensor of shape (n, m), values in [0, 1]
    """
    return _column_kernels(x, y, length_scale).mean(dim=0)


def product_gaussian_kernel(x: Tensor, y: Tensor, *, length_scale: Sequence[float]) -> Tensor:
    """Evaluate the product over columns of one-dimensional Gaussian kernels (Vinaroz 2022, eq. 7).

    Parameters
    ----------
    x : Tensor of shape (n, D)
    y : Tensor of shape (m, D)
    length_scale : sequence of D positive floats

    Returns
    -------
    Tensor of shape (n, m), values in [0, 1]
    """
    return _column_kernels(x, y, length_scale).prod(dim=0)


def _column_kernels(x: Tensor, y: Tensor, length_scale: Sequence[float]) -> Tensor:
    _columns(x, length_scale)
    kernels = [
        gaussian_kernel(x[:, None, d], y[None, :, d], length_scale=length_scale[d]) for d in range(len(length_scale))
    ]
    return torch.stack(kernels)


def sum_hermite_features(x: Tensor, *, order: int, rho: Sequence[float]) -> Tensor:
    r"""Evaluate the features of the sum kernel over columns (Vinaroz 2022, eq. 10).

    Their inner product approximates :math:`\frac1D \sum_d k_d(x_d, y_d)`, which sees every column by itself.

    Parameters
    ----------
    x : Tensor of shape (..., D), floating point
    order : int
        Highest order C of every column.
    rho : sequence of D floats in (0, 1)
        One Mehler constant for each column.

    Returns
    -------
    Tensor of shape (..., D * (order + 1))
        Column by column, orders within a column; norm at most 1.

    Notes
    -----
    Lemma D.1 of the paper would use D times the exponent inside each kernel; eq. 9 and the published code do not, and
    eq. 9 is followed here.
    """
    scale = 1.0 / math.sqrt(_columns(x, rho))
    parts = [scale * hermite_features(x[..., d], order=order, rho=rho[d]) for d in range(len(rho))]
    return torch.cat(parts, dim=-1)


def product_hermite_features(x: Tensor, *, order: int, rho: Sequence[float]) -> Tensor:
    r"""Evaluate the features of the product kernel over columns (Vinaroz 2022, eq. 8).

    Their inner product approximates :math:`\prod_d k_d(x_d, y_d)`, which sees the columns jointly.

    Parameters
    ----------
    x : Tensor of shape (..., D), floating point
    order : int
        Highest order C of every column.
    rho : sequence of D floats in (0, 1)
        One Mehler constant for each column.

    Returns
    -------
    Tensor of shape (..., (order + 1) ** D)
        The first column's order changes slowest; norm at most 1.
    """
    _columns(x, rho)
    result = hermite_features(x[..., 0], order=order, rho=rho[0])
    for d in range(1, len(rho)):
        factor = hermite_features(x[..., d], order=order, rho=rho[d])
        result = (result.unsqueeze(-1) * factor.unsqueeze(-2)).flatten(start_dim=-2)
    return result


def _columns(x: Tensor, per_column: Sequence[float]) -> int:
    if x.ndim == 0 or x.shape[-1] != len(per_column) or not per_column:
        raise InputError(
            f"One constant is needed for each column: got {len(per_column)} for numbers of shape {tuple(x.shape)}."
        )
    return len(per_column)


def fourier_features(x: Tensor, frequencies: Tensor) -> Tensor:
    r"""Evaluate random Fourier features (Vinaroz 2022, eq. 4).

    .. math:: \phi(x) = \sqrt{2/A}\, [\cos \Omega x, \sin \Omega x]

    where A/2 is the number of rows of ``frequencies`` (:math:`\Omega`).

    Parameters
    ----------
    x : Tensor of shape (..., D), floating point
    frequencies : Tensor of shape (A/2, D), same dtype and device as ``x``

    Returns
    -------
    Tensor of shape (..., A)
        All cosines, then all sines; norm exactly 1 up to rounding.

    Raises
    ------
    InputError
        If the number of columns of ``x`` and ``frequencies`` differs.
    """
    if x.ndim == 0 or frequencies.ndim != 2 or x.shape[-1] != frequencies.shape[1]:
        raise InputError(
            f"Numbers of shape {tuple(x.shape)} do not fit frequencies of shape {tuple(frequencies.shape)}: "
            "the last sizes must be equal."
        )
    angles = x @ frequencies.T
    return torch.cat([torch.cos(angles), torch.sin(angles)], dim=-1) / math.sqrt(frequencies.shape[0])
