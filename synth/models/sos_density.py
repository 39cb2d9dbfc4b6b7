r"""Kernel sum-of-squares densities (Muzellec 2021) with a Gaussian kernel: integrals in closed form, and the density.

.. math:: p(x) = \sum_{ij} B_{ij} k(x, z_i) k(x, z_j), \quad k(x, z) = \exp(-|x - z|^2 / (2 s^2))

where B is positive semidefinite with tr(W B) = 1, z are support points and s is the bandwidth. The density is never
negative, and its integrals over boxes are sums of error functions. (The paper's code writes the kernel
exp(-|x - z|^2 / sigma^2): its sigma^2 is 2 s^2.)
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import erf

from synth.errors import InputError

__all__ = [
    "FourierEmbedding",
    "SumOfSquares",
    "gaussian_gram",
    "interval_products",
    "product_integrals",
    "triple_integrals",
]

Matrix = NDArray[np.float64]

BLOCK = 4096
"""Points evaluated at a time."""


def gaussian_gram(left: Matrix, right: Matrix, *, bandwidth: float) -> Matrix:
    """Return k(x, z) for every x of ``left``, shape (n, d), and z of ``right``, shape (m, d); shape (n, m)."""
    squared = np.zeros((len(left), len(right)))
    for place in range(left.shape[1]):
        squared += (left[:, None, place] - right[None, :, place]) ** 2
    return np.asarray(np.exp(squared / (-2 * bandwidth**2)))


def product_integrals(points: Matrix, *, bandwidth: float) -> Matrix:
    r"""Return W, the integrals of k(x, z_i) k(x, z_j) over all x (Lemma 4).

    .. math:: W_{ij} = (\pi s^2)^{d/2} \exp(-|z_i - z_j|^2 / (4 s^2))
    """
    volume = (math.pi * bandwidth**2) ** (points.shape[1] / 2)
    return np.asarray(volume * gaussian_gram(points, points, bandwidth=math.sqrt(2) * bandwidth))


def triple_integrals(points: Matrix, *, bandwidth: float) -> NDArray[np.float64]:
    r"""Return U, the integrals of k(x, z_i) k(x, z_j) k(x, z_l), shape (m, m, m) (Lemma 4).

    .. math:: U_{ijl} = (2 \pi s^2 / 3)^{d/2} \exp(-(|z_i - z_j|^2 + |z_j - z_l|^2 + |z_i - z_l|^2) / (6 s^2))
    """
    volume = (2 * math.pi * bandwidth**2 / 3) ** (points.shape[1] / 2)
    gram = gaussian_gram(points, points, bandwidth=math.sqrt(3) * bandwidth)
    return np.asarray(volume * gram[:, :, None] * gram[:, None, :] * gram[None, :, :])


class FourierEmbedding:
    r"""What a density's mean Fourier features are, as a linear function of its coefficients B.

    .. math:: T(B)_f = \sum_{ij} B_{ij} W_{ij} e^{-s^2 |\omega_f|^2 / 4}
        \{\cos, \sin\}(\langle \omega_f, (z_i + z_j) / 2 \rangle) / \sqrt{F / 2}

    As cosines and sines of sums of angles are sums of products, this takes products of an (F / 2) x m with an m x m
    matrix, and no array of F m^2 numbers.

    Parameters
    ----------
    points : array of shape (m, d)
    frequencies : array of shape (F / 2, d)
    bandwidth : float
    """

    def __init__(self, points: Matrix, frequencies: Matrix, *, bandwidth: float) -> None:
        halves = frequencies @ points.T / 2
        self._cosines, self._sines = np.cos(halves), np.sin(halves)
        self._products = product_integrals(points, bandwidth=bandwidth)
        self._damping = np.exp(-(bandwidth**2) / 4 * (frequencies**2).sum(axis=1)) / math.sqrt(len(frequencies))

    def of(self, coefficients: Matrix) -> NDArray[np.float64]:
        """Return the mean features, cosines, then sines; shape (F,)."""
        matrix = self._products * coefficients
        along, across = self._cosines @ matrix, self._sines @ matrix
        cosines = np.einsum("fi,fi->f", along, self._cosines) - np.einsum("fi,fi->f", across, self._sines)
        sines = np.einsum("fi,fi->f", along, self._sines) + np.einsum("fi,fi->f", across, self._cosines)
        return np.concatenate([self._damping * cosines, self._damping * sines])

    def adjoint(self, weights: NDArray[np.float64]) -> Matrix:
        """Return the symmetric matrix whose inner product with B is that of ``weights`` with the features of B."""
        cosines, sines = np.split(weights * np.concatenate([self._damping, self._damping]), 2)
        left = cosines[:, None] * self._cosines + sines[:, None] * self._sines
        right = sines[:, None] * self._cosines - cosines[:, None] * self._sines
        return np.asarray(self._products * (self._cosines.T @ left + self._sines.T @ right))


def interval_products(places: NDArray[np.float64], lower: float, upper: float, *, bandwidth: float) -> Matrix:
    r"""Return the integrals of k(x, z_i) k(x, z_j) over an interval of one coordinate, shape (m, m).

    Parameters
    ----------
    places : array of shape (m,)
        That coordinate of the support points.
    lower, upper : float
        May be infinite.
    bandwidth : float
    """
    middles = (places[:, None] + places[None, :]) / 2
    apart = np.exp(-((places[:, None] - places[None, :]) ** 2) / (4 * bandwidth**2))
    covered = erf((upper - middles) / bandwidth) - erf((lower - middles) / bandwidth)
    return np.asarray(math.sqrt(math.pi) * bandwidth / 2 * apart * covered)


@dataclass(frozen=True, slots=True, eq=False)
class SumOfSquares:
    """A kernel sum-of-squares density.

    Attributes
    ----------
    points : array of shape (m, d)
        Support points z.
    coefficients : array of shape (m, m)
        B: symmetric, positive semidefinite, tr(W B) = 1.
    bandwidth : float, positive
        s.
    """

    points: Matrix
    coefficients: Matrix
    bandwidth: float

    def __post_init__(self) -> None:
        if self.points.ndim != 2 or self.coefficients.shape != (len(self.points), len(self.points)):
            raise InputError("coefficients need one row and one column for each support point.")
        if not (math.isfinite(self.bandwidth) and self.bandwidth > 0):
            raise InputError(f"bandwidth must be positive and finite, got {self.bandwidth}.")

    def density(self, x: Matrix) -> NDArray[np.float64]:
        """Return the density at points of shape (n, d); never negative."""
        found = np.empty(len(x))
        for start in range(0, len(x), BLOCK):
            kernels = gaussian_gram(x[start : start + BLOCK], self.points, bandwidth=self.bandwidth)
            found[start : start + BLOCK] = np.einsum("ni,ni->n", kernels @ self.coefficients, kernels)
        return np.maximum(found, 0.0)

    def box_mass(self, lower: NDArray[np.float64], upper: NDArray[np.float64]) -> float:
        """Return the probability of a box."""
        product = self.coefficients.copy()
        for place in range(self.points.shape[1]):
            product *= interval_products(
                self.points[:, place], float(lower[place]), float(upper[place]), bandwidth=self.bandwidth
            )
        return float(product.sum())

    def log_likelihood(
        self, x: Matrix, *, lower: NDArray[np.float64], upper: NDArray[np.float64], floor: float = 0.01
    ) -> float:
        """Return the mean log density of points in a box, with a part ``floor`` of the uniform density mixed in.

        The floor keeps one far point from deciding; the density is taken as it is, not scaled to its mass in the box.
        """
        volume = float(np.prod(upper - lower))
        return float(np.mean(np.log((1 - floor) * self.density(x) + floor / volume)))
