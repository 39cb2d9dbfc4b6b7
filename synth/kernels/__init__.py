"""Kernels and their finite feature maps, in pure torch."""

from __future__ import annotations

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

__all__ = [
    "fourier_features",
    "gaussian_frequencies",
    "gaussian_kernel",
    "hermite_features",
    "mehler_kernel",
    "product_gaussian_kernel",
    "product_hermite_features",
    "rho_of_length_scale",
    "sum_gaussian_kernel",
    "sum_hermite_features",
]
