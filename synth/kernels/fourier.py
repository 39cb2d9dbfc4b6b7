r"""Random Fourier features of the Gaussian kernel (Rahimi 2007; Vinaroz 2022, eq. 4; Harder 2021).

By Bochner's theorem :math:`k(x, y) = \mathbb{E}_\omega \cos(\omega^\top (x-y))` with
:math:`\omega \sim \mathcal N(0, I / l^2)`. With pairs of cosine and sine the feature vector has norm exactly 1
whatever the frequencies are. Two vectors can point in opposite directions, so the distance between them can reach 2,
not :math:`\sqrt 2` as for Hermite features.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from synth.errors import InputError

__all__ = ["fourier_features", "gaussian_frequencies"]


def gaussian_frequencies(
    n_frequencies: int, dimensions: int, *, length_scale: float, seed: int | Sequence[int]
) -> Tensor:
    r"""Draw the frequencies of a Gaussian kernel from a public seed.

    Parameters
    ----------
    n_frequencies : int
        Number of cosine and sine pairs, A/2 in the paper; at least 1.
    dimensions : int
        Number of columns, at least 1.
    length_scale : float
        Length scale l of :math:`\exp(-|x-y|^2 / (2 l^2))`, positive.
    seed : int or sequence of int
        Public; the frequencies hold nothing of the rows.

    Returns
    -------
    Tensor of shape (n_frequencies, dimensions), float64
        Radians per unit of the data.

    Raises
    ------
    InputError
        If a count is below 1 or ``length_scale`` is not positive and finite.
    """
    if n_frequencies < 1 or dimensions < 1:
        raise InputError(f"n_frequencies and dimensions must be at least 1, got {n_frequencies} and {dimensions}.")
    if not (math.isfinite(length_scale) and length_scale > 0):
        raise InputError(f"length_scale must be positive and finite, got {length_scale}.")
    # numpy takes several numbers as one seed, so that neighbouring seeds and streams have nothing in common.
    normal = np.random.default_rng(seed).standard_normal((n_frequencies, dimensions))
    return torch.from_numpy(normal / length_scale)


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
