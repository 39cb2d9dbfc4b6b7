"""Kernels, their finite feature maps and kernel affine hull machines, on torch tensors."""

from __future__ import annotations

from synth.kernels.affine_hull import AffineHull
from synth.kernels.fabrication import fabricate, in_blocks
from synth.kernels.fourier import fourier_features, gaussian_frequencies
from synth.kernels.hermite import (
    gaussian_kernel,
    hermite_features,
    mehler_kernel,
    product_gaussian_kernel,
    product_hermite_features,
    rho_of_length_scale,
    sum_gaussian_kernel,
    sum_hermite_features,
)
from synth.kernels.matching import matching_scores

__all__ = [
    "AffineHull",
    "fabricate",
    "fourier_features",
    "gaussian_frequencies",
    "gaussian_kernel",
    "hermite_features",
    "in_blocks",
    "matching_scores",
    "mehler_kernel",
    "product_gaussian_kernel",
    "product_hermite_features",
    "rho_of_length_scale",
    "sum_gaussian_kernel",
    "sum_hermite_features",
]
