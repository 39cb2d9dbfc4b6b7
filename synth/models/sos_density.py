r"""Kernel sum-of-squares densities (Muzellec 2021) with a Gaussian kernel: integrals, the density, exact sampling.

.. math:: p(x) = \sum_{ij} B_{ij} k(x, z_i) k(x, z_j), \quad k(x, z) = \exp(-|x - z|^2 / (2 s^2))

where B is positive semidefinite with tr(W B) = 1, z are support points and s is the bandwidth. The density is never
negative, and its integrals over boxes are sums of error functions. (The kernel in the paper's code is
exp(-|x - z|^2 / sigma^2): its sigma^2 is 2 s^2.)

Marginals and conditionals of such a density are of the same kind, so rows are drawn coordinate by coordinate. Let q be
the product of the kernels of the coordinates drawn so far. The next one is below x with probability proportional to
q^T (M o I) q, where M is B times the integrals of all later coordinates and I the integrals up to x (``o`` multiplies
entry by entry). A uniform number is located in a tree of halved intervals (Marteau 2022, for boxes); the integrals up
to the middle of an interval are shared by all rows in it. Within the last interval the density is interpolated linearly
between its exact values at the ends.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import erf
from threadpoolctl import threadpool_limits

from synth.errors import InputError

__all__ = [
    "FourierEmbedding",
    "SumOfSquares",
    "fourier_features",
    "gaussian_gram",
    "interval_products",
    "product_integrals",
    "sample_box",
    "sample_clipped",
]

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]

BLOCK = 4096
"""Points evaluated at a time."""

ROWS_AT_A_TIME = 32_768
"""Rows drawn at a time."""

LEVELS = 8
"""How often a box is halved in each coordinate to locate a row."""


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


def fourier_features(x: Matrix, frequencies: Matrix) -> Matrix:
    r"""Return cosines, then sines, of <w, x>, divided by the root of the number of frequencies: norm 1.

    Parameters
    ----------
    x : array of shape (n, d)
    frequencies : array of shape (p / 2, d)

    Returns
    -------
    array of shape (n, p)
    """
    angles = x @ frequencies.T
    return np.asarray(np.concatenate([np.cos(angles), np.sin(angles)], axis=1) / math.sqrt(len(frequencies)))


class FourierEmbedding:
    r"""The mean Fourier features of a density, as a linear function of its coefficients B.

    .. math:: T(B)_f = \sum_{ij} B_{ij} W_{ij} e^{-s^2 |\omega_f|^2 / 4}
        \{\cos, \sin\}(\langle \omega_f, (z_i + z_j) / 2 \rangle) / \sqrt{F / 2}

    As cosines and sines of sums of angles are sums of products, this needs products of an (F / 2) x m with an m x m
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


def sample_clipped(density: SumOfSquares, n_rows: int, random: np.random.Generator, *, padding: float = 0.5) -> Matrix:
    """Draw rows in the unit box: from the box padded on every side, and clipped.

    A density that was fitted to a mean embedding has part of its mass outside the box wherever rows pile up at a bound.
    Conditioning on the box would lose that part; clipping returns it to the bound.

    Parameters
    ----------
    density : SumOfSquares
    n_rows : int
    random : Generator
        Seeded publicly.
    padding : float
        How far the box is widened on either side.

    Returns
    -------
    array of shape (n_rows, d), in [0, 1]
    """
    d = density.points.shape[1]
    drawn = sample_box(density, random.random((n_rows, d)), lower=np.full(d, -padding), upper=np.full(d, 1 + padding))
    return np.clip(drawn, 0.0, 1.0)


def sample_box(density: SumOfSquares, uniforms: Matrix, *, lower: Vector, upper: Vector) -> Matrix:
    """Transform uniform numbers into rows of the density, conditioned on a box.

    Parameters
    ----------
    density : SumOfSquares
    uniforms : array of shape (n, d), in [0, 1)
        One number for each coordinate: the larger it is, the larger the coordinate given those before it.
    lower, upper : arrays of shape (d,), finite

    Returns
    -------
    array of shape (n, d)
    """
    d = density.points.shape[1]
    later = [density.coefficients]
    for place in range(d - 1, 0, -1):
        bounds = float(lower[place]), float(upper[place])
        later.append(later[-1] * interval_products(density.points[:, place], *bounds, bandwidth=density.bandwidth))
    blocks = []
    with threadpool_limits(1):
        for start in range(0, len(uniforms), ROWS_AT_A_TIME):
            some = uniforms[start : start + ROWS_AT_A_TIME]
            drawn, kernels = np.empty(some.shape), np.ones((1, len(density.points)))
            for place in range(d):
                line = _Line(density, place, later[d - 1 - place])
                drawn[:, place] = line.draw(some[:, place], kernels, float(lower[place]), float(upper[place]))
                kernels = kernels * line.kernels(drawn[:, place])
                # Only proportions matter, and products of many kernels would underflow.
                kernels /= np.maximum(kernels.max(axis=1, keepdims=True), 1e-300)
            blocks.append(drawn)
    return np.concatenate(blocks) if blocks else np.empty(uniforms.shape)


class _Line:
    """One coordinate of a density, given the coordinates before it."""

    def __init__(self, density: SumOfSquares, place: int, matrix: Matrix) -> None:
        self._places = density.points[:, place]
        self._bandwidth = density.bandwidth
        self._matrix = matrix
        apart = np.exp(-((self._places[:, None] - self._places[None, :]) ** 2) / (4 * self._bandwidth**2))
        self._weights = matrix * apart * (math.sqrt(math.pi) * self._bandwidth / 2)
        # Error functions are the most expensive part, and are symmetric in the two points.
        self._pairs = np.triu_indices(len(self._places))
        self._middles = (self._places[self._pairs[0]] + self._places[self._pairs[1]]) / 2

    def kernels(self, x: Vector) -> Matrix:
        """Return the kernels of this coordinate with every support point, shape (n, m)."""
        return gaussian_gram(x[:, None], self._places[:, None], bandwidth=self._bandwidth)

    def draw(self, uniforms: Vector, q: Matrix, lower: float, upper: float) -> Vector:
        """Draw the coordinate of every row, by inverting its distribution function.

        ``q`` has a single row if no coordinate has been drawn yet.
        """
        n = len(uniforms)
        below, above = (np.broadcast_to(self._up_to(q, x), n).copy() for x in (lower, upper))
        wanted = below + uniforms * (above - below)
        cells = np.zeros(n, dtype=np.int64)
        for level in range(LEVELS):
            width = (upper - lower) / 2**level
            order = np.argsort(cells, kind="stable")
            taken, first = np.unique(cells[order], return_index=True)
            for cell, rows in zip(taken.tolist(), np.split(order, first[1:]), strict=True):
                half = self._up_to(q if len(q) == 1 else q[rows], lower + (cell + 0.5) * width)
                right = wanted[rows] >= half
                cells[rows] = 2 * cell + right
                below[rows] = np.where(right, half, below[rows])
                above[rows] = np.where(right, above[rows], half)
        width = (upper - lower) / 2**LEVELS
        start = lower + cells * width
        heights = self._height(q, start), self._height(q, start + width)
        parts = (wanted - below) / np.maximum(above - below, 1e-300)
        return np.asarray(start + width * _linear(parts, *heights))

    def _up_to(self, q: Matrix, x: float) -> Vector:
        """Return the mass up to x, plus a constant."""
        covered = np.empty_like(self._weights)
        covered[self._pairs] = erf((x - self._middles) / self._bandwidth)
        covered.T[self._pairs] = covered[self._pairs]
        return _form(q, self._weights * covered)

    def _height(self, q: Matrix, x: Vector) -> Vector:
        return np.asarray(np.maximum(_form(q * self.kernels(x), self._matrix), 0.0))


def _form(q: Matrix, matrix: Matrix) -> Vector:
    """Return q^T A q of every row."""
    return np.asarray(np.einsum("ni,ni->n", q @ matrix, q))


def _linear(parts: Vector, first: Vector, last: Vector) -> Vector:
    """Return the quantiles of a density that is linear from ``first`` to ``last`` over [0, 1]."""
    parts = np.clip(parts, 0.0, 1.0)
    flat = first + last <= 0
    first, last = np.where(flat, 1.0, first), np.where(flat, 1.0, last)
    # The root of first t + (last - first) t^2 / 2 = parts (first + last) / 2, in the form that never divides by 0.
    wanted = parts * (first + last)
    return np.asarray(np.clip(wanted / (first + np.sqrt(first**2 + (last - first) * wanted)), 0.0, 1.0))
