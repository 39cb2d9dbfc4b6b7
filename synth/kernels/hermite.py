r"""Hermite features of the Gaussian kernel (Vinaroz 2022, sections 3.1-3.2 and appendix E).

Mehler's formula writes the Gaussian kernel on the line as a sum over orders,

.. math:: \exp\Bigl(-\frac{\rho}{1-\rho^2}(x-y)^2\Bigr) = \sum_{c \ge 0} \phi_c(x)\,\phi_c(y),

with features whose size falls like :math:`\rho^{c/2}`. Cutting the sum after order C is a projection of the full
feature vector, which has norm 1. So every vector made here has norm at most 1, and two of them are at most
:math:`\sqrt 2` apart: :math:`|\phi(x)-\phi(y)|^2 \le 2-2k(x,y) \le 2`. Both bounds survive the sum and the product over
columns.

Everything is differentiable in ``x`` and runs in the precision and on the device of ``x``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from synth.errors import InputError

__all__ = [
    "gaussian_kernel",
    "hermite_features",
    "mehler_kernel",
    "product_gaussian_kernel",
    "product_hermite_features",
    "rho_of_length_scale",
    "sum_gaussian_kernel",
    "sum_hermite_features",
]


def rho_of_length_scale(length_scale: float) -> float:
    r"""Return the Mehler constant of a length scale (Vinaroz 2022, footnote 4).

    Solves :math:`\frac{1}{2 l^2} = \frac{\rho}{1-\rho^2}` for :math:`\rho \in (0, 1)`, where l is ``length_scale``.

    Parameters
    ----------
    length_scale : float
        Positive, in the units of the data.

    Raises
    ------
    InputError
        If ``length_scale`` is not positive and finite.

    Notes
    -----
    Differs from the published code, which evaluates :math:`-l^2 + \sqrt{l^4 + 1}`: that cancels to exactly 0 once
    :math:`l^2 \ge 10^8`, and every feature above order 0 vanishes. Here the same root is written without a difference,
    :math:`1 / (l^2 + \sqrt{l^4 + 1})`.
    """
    if not (math.isfinite(length_scale) and length_scale > 0):
        raise InputError(f"length_scale must be positive and finite, got {length_scale}.")
    squared = length_scale * length_scale
    return 1.0 / (squared + math.hypot(squared, 1.0))


def hermite_features(x: Tensor, *, order: int, rho: float) -> Tensor:
    r"""Evaluate the weighted Hermite features of numbers (Vinaroz 2022, eq. 6 and appendix E).

    .. math::
        \phi_0(x) &= (1-\rho^2)^{1/4} e^{-\rho x^2 / (1+\rho)}, \qquad \phi_1(x) = \sqrt{2\rho}\, x\, \phi_0(x), \\
        \phi_{c+1}(x) &= \sqrt{\tfrac{2\rho}{c+1}}\, x\, \phi_c(x) - \rho \sqrt{\tfrac{c}{c+1}}\, \phi_{c-1}(x).

    Parameters
    ----------
    x : Tensor of shape (...), floating point
        Numbers, in the units of the length scale that ``rho`` came from.
    order : int
        Highest order C, at least 0.
    rho : float
        Mehler constant in (0, 1), see :func:`rho_of_length_scale`.

    Returns
    -------
    Tensor of shape (..., order + 1)
        Each vector has L2 norm at most 1.

    Raises
    ------
    InputError
        If ``order`` is negative, ``rho`` is outside (0, 1), or ``x`` is not floating point.

    Notes
    -----
    The unweighted polynomials, which overflow, are never formed: against 80-digit arithmetic the recursion in float64
    is right to 4e-15 up to order 200 and ``|x|`` 20. Where ``|x|`` is much larger than the length scale the mass sits
    near order :math:`x^2/l^2`, so cutting earlier loses it: centre the numbers first.
    """
    _check_order(order)
    if not 0.0 < rho < 1.0:
        raise InputError(f"rho must lie strictly between 0 and 1, got {rho}.")
    if not x.is_floating_point():
        raise InputError("Hermite features need floating-point numbers; convert the codes first.")
    current = (1.0 - rho * rho) ** 0.25 * torch.exp(-(rho / (1.0 + rho)) * x * x)
    features = [current]
    previous = torch.zeros_like(current)
    for c in range(order):
        following = math.sqrt(2.0 * rho / (c + 1)) * x * current - rho * math.sqrt(c / (c + 1)) * previous
        features.append(following)
        previous, current = current, following
    return torch.stack(features, dim=-1)


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


def _columns(x: Tensor, per_column: Sequence[float]) -> int:
    if x.ndim == 0 or x.shape[-1] != len(per_column) or not per_column:
        raise InputError(
            f"One constant is needed for each column: got {len(per_column)} for numbers of shape {tuple(x.shape)}."
        )
    return len(per_column)


def _check_order(order: int) -> None:
    if order < 0:
        raise InputError(f"order must be at least 0, got {order}.")
