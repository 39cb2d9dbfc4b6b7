r"""The kernel sum-of-squares density of rows as published (Muzellec 2021). NOT private: support points may be rows.

Research code to reproduce figures. What is private is fitted to a noisy embedding on public support points
(``synth.models.sos_estimation``).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from synth.models.sos_density import SumOfSquares, gaussian_gram
from synth.models.sos_estimation import SumOfSquaresFit, fit_quadratic

__all__ = ["fit_rows", "log_likelihood", "triple_integrals"]

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]


def triple_integrals(points: Matrix, *, bandwidth: float) -> NDArray[np.float64]:
    r"""Return U, the integrals of k(x, z_i) k(x, z_j) k(x, z_l), shape (m, m, m) (Lemma 4).

    .. math:: U_{ijl} = (2 \pi s^2 / 3)^{d/2} \exp(-(|z_i - z_j|^2 + |z_j - z_l|^2 + |z_i - z_l|^2) / (6 s^2))
    """
    volume = (2 * math.pi * bandwidth**2 / 3) ** (points.shape[1] / 2)
    gram = gaussian_gram(points, points, bandwidth=math.sqrt(3) * bandwidth)
    return np.asarray(volume * gram[:, :, None] * gram[:, None, :] * gram[None, :, :])


def fit_rows(
    rows: Matrix,
    points: Matrix,
    *,
    bandwidth: float,
    trace_penalty: float = 1e-3,
    steps: int = 20_000,
    ridge: float = 1e-8,
    tolerance: float = 1e-11,
) -> SumOfSquaresFit:
    r"""Fit the density of rows as published (eq. 13 in the form of eq. 14). NOT private.

    .. math:: \min_B u(B)^T K^{-1} u(B) - 2 c^T u(B) + \lambda\, tr(B K) + const, \quad u(B)_l = \langle U_l, B \rangle

    where c is K^-1 times the mean over rows of their kernels with the support points. With K = L L^T it is the squared
    distance of L^-1 u(B) from L^-1 times that mean; the constant is its square, which makes the quadratic part the
    squared distance of mean embeddings within the span of the support points.

    Parameters
    ----------
    rows : array of shape (n, d)
        Every one of them shapes the density.
    points : array of shape (m, d)
        Support points; rows, in the paper.
    bandwidth, trace_penalty, steps, ridge, tolerance
        As in :func:`synth.models.sos_estimation.fit_embedding`; ``ridge`` is added to K too. The
        paper stops at a change of 1e-11.
    """
    gram = gaussian_gram(points, points, bandwidth=bandwidth)
    lower = np.linalg.cholesky(gram + ridge * np.eye(len(points)))
    triple = _TripleProducts(solve_triangular(lower, _flat(triple_integrals(points, bandwidth=bandwidth)), lower=True))
    mean = solve_triangular(lower, gaussian_gram(rows, points, bandwidth=bandwidth).mean(axis=0), lower=True)
    return fit_quadratic(points, bandwidth, triple, mean, trace_penalty, steps=steps, ridge=ridge, tolerance=tolerance)


class _TripleProducts:
    """L^-1 u(B), of the paper's objective."""

    def __init__(self, factors: Matrix) -> None:
        self._factors = factors

    def of(self, coefficients: Matrix) -> Vector:
        return self._factors @ coefficients.ravel()

    def adjoint(self, weights: Vector) -> Matrix:
        side = math.isqrt(self._factors.shape[1])
        return (self._factors.T @ weights).reshape(side, side)


def _flat(triple: NDArray[np.float64]) -> Matrix:
    """Return one row for each l, holding the integrals of all pairs."""
    return np.asarray(triple.reshape(len(triple), -1))


def log_likelihood(density: SumOfSquares, x: Matrix, *, lower: Vector, upper: Vector, floor: float = 0.01) -> float:
    """Return the mean log density of points in a box, with a part ``floor`` of the uniform density mixed in.

    The floor keeps one far point from deciding; the density is taken as it is, not scaled to its mass in the box.
    """
    volume = float(np.prod(upper - lower))
    return float(np.mean(np.log((1 - floor) * density.density(x) + floor / volume)))
