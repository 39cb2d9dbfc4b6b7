r"""Exact sampling of kernel sum-of-squares densities, coordinate by coordinate.

Marginals and conditionals of such a density are of the same kind: with q the product of the kernels of the coordinates
drawn so far, the next one lies in an interval with probability proportional to q^T (M o I) q, where M is B times the
integrals of all later coordinates and I the integrals over the interval (``o`` multiplies entry by entry). A uniform
number is followed down a tree of halved intervals (Marteau 2022, for boxes); the integrals of an interval are shared by
all rows in it. Within the last interval the density is taken as linear between its exact values at the ends.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from synth.errors import InputError
from synth.models.sos_density import SumOfSquares, gaussian_gram, interval_products

__all__ = ["sample_box", "sample_clipped"]

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]

ROWS_AT_A_TIME = 8192


def sample_clipped(
    density: SumOfSquares, n_rows: int, random: np.random.Generator, *, padding: float = 0.5, levels: int = 8
) -> Matrix:
    """Draw rows in the unit box: from the box padded on every side, and clipped.

    A density that was fitted to a mean embedding has part of its mass outside of the box wherever rows pile up at a
    bound. Conditioned on the box it would lose that part; clipped, it returns it to the bound.

    Parameters
    ----------
    density : SumOfSquares
    n_rows : int
    random : Generator
        Of public randomness.
    padding : float
        How far the box is widened on either side.
    levels : int
        As in :func:`sample_box`.

    Returns
    -------
    array of shape (n_rows, d), in [0, 1]
    """
    d = density.points.shape[1]
    drawn = sample_box(
        density,
        random.random((n_rows, d)),
        lower=np.full(d, -padding),
        upper=np.full(d, 1 + padding),
        levels=levels,
    )
    return np.clip(drawn, 0.0, 1.0)


def sample_box(density: SumOfSquares, uniforms: Matrix, *, lower: Vector, upper: Vector, levels: int = 8) -> Matrix:
    """Turn uniform numbers into rows of the density, conditioned on a box.

    Parameters
    ----------
    density : SumOfSquares
    uniforms : array of shape (n, d), in [0, 1)
        One number for each coordinate: the larger it is, the larger the coordinate given those before it.
    lower, upper : arrays of shape (d,), finite
    levels : int
        The box is halved so many times in each coordinate.

    Returns
    -------
    array of shape (n, d)
    """
    if not (np.isfinite(lower).all() and np.isfinite(upper).all() and (lower < upper).all()):
        raise InputError("The box needs finite bounds, lower ones below upper ones.")
    if levels < 1:
        raise InputError(f"levels must be at least 1, got {levels}.")
    d = density.points.shape[1]
    later = [density.coefficients]
    for place in range(d - 1, 0, -1):
        bounds = float(lower[place]), float(upper[place])
        later.append(later[-1] * interval_products(density.points[:, place], *bounds, bandwidth=density.bandwidth))
    blocks = []
    with threadpool_limits(1):
        for start in range(0, len(uniforms), ROWS_AT_A_TIME):
            some = uniforms[start : start + ROWS_AT_A_TIME]
            drawn, kernels = np.empty(some.shape), np.ones((len(some), len(density.points)))
            for place in range(d):
                line = _Line(density, place, later[d - 1 - place])
                drawn[:, place] = line.draw(some[:, place], kernels, float(lower[place]), float(upper[place]), levels)
                kernels *= line.kernels(drawn[:, place])
                # Only proportions count, and products of many kernels would become too small for a number.
                kernels /= np.maximum(kernels.max(axis=1, keepdims=True), 1e-300)
            blocks.append(drawn)
    return np.concatenate(blocks) if blocks else np.empty(uniforms.shape)


class _Line:
    """One coordinate of a density, given the coordinates before it."""

    def __init__(self, density: SumOfSquares, place: int, matrix: Matrix) -> None:
        self._places = density.points[:, place]
        self._bandwidth = density.bandwidth
        self._matrix = matrix

    def kernels(self, x: Vector) -> Matrix:
        """Return the kernels of this coordinate with every support point, shape (n, m)."""
        return gaussian_gram(x[:, None], self._places[:, None], bandwidth=self._bandwidth)

    def draw(self, uniforms: Vector, q: Matrix, lower: float, upper: float, levels: int) -> Vector:
        """Draw the coordinate of every row, by inverting its distribution function."""
        cells, mass = np.zeros(len(q), dtype=np.int64), self._mass(q, lower, upper)
        left = uniforms * mass
        for level in range(levels):
            width = (upper - lower) / 2**level
            order = np.argsort(cells, kind="stable")
            taken, first = np.unique(cells[order], return_index=True)
            for cell, rows in zip(taken.tolist(), np.split(order, first[1:]), strict=True):
                start = lower + cell * width
                half = self._mass(q[rows], start, start + width / 2)
                right = left[rows] >= half
                cells[rows] = 2 * cell + right
                left[rows] = np.where(right, left[rows] - half, left[rows])
                mass[rows] = np.where(right, mass[rows] - half, half)
        width = (upper - lower) / 2**levels
        start = lower + cells * width
        heights = self._height(q, start), self._height(q, start + width)
        return np.asarray(start + width * _linear(left / np.maximum(mass, 1e-300), *heights))

    def _mass(self, q: Matrix, lower: float, upper: float) -> Vector:
        return _form(q, self._matrix * interval_products(self._places, lower, upper, bandwidth=self._bandwidth))

    def _height(self, q: Matrix, x: Vector) -> Vector:
        return _form(q * self.kernels(x), self._matrix)


def _form(q: Matrix, matrix: Matrix) -> Vector:
    """Return q^T A q of every row; at least 0, which rounding may have taken off."""
    return np.asarray(np.maximum(np.einsum("ni,ni->n", q @ matrix, q), 0.0))


def _linear(parts: Vector, first: Vector, last: Vector) -> Vector:
    """Return where a density that is linear from ``first`` to ``last`` over [0, 1] has so much of its mass below."""
    parts = np.clip(parts, 0.0, 1.0)
    flat = first + last <= 0
    first, last = np.where(flat, 1.0, first), np.where(flat, 1.0, last)
    # The root of first t + (last - first) t^2 / 2 = parts (first + last) / 2, in the form that divides by no 0.
    wanted = parts * (first + last)
    return np.asarray(np.clip(wanted / (first + np.sqrt(first**2 + (last - first) * wanted)), 0.0, 1.0))
