r"""Fitting kernel sum-of-squares densities (Muzellec 2021) to a mean embedding that may be noisy.

A quadratic of B plus lambda tr(B K) is minimised over positive semidefinite B with tr(W B) = 1. With W = R^T R and
C = R B R^T the constraint is that C is positive semidefinite with trace 1, and the nearest such matrix has the
eigenvalues of C projected onto the simplex (Algorithm 1). FISTA (Beck 2009) with restarts then finds the optimum; the
quadratic is stored by its factors, never as its m^2 x m^2 Hessian.

``fit_embedding`` fits Fourier features of which only a noisy mean is known. Its support points are chosen from a public
pool by kernel herding (Chen 2010) on that mean, so they reveal nothing beyond it:

.. math:: z_{t+1} = \arg\max_z \langle \mu, \phi(z) \rangle
    - \frac{1}{t + 1} \sum_{i \le t} \langle \phi(z_i), \phi(z) \rangle
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular
from threadpoolctl import threadpool_limits

from synth.models.simplex import project_to_simplex
from synth.models.sos_density import (
    FourierEmbedding,
    SumOfSquares,
    gaussian_gram,
    product_integrals,
)

__all__ = [
    "SumOfSquaresFit",
    "fit_embedding",
    "fit_quadratic",
    "fit_smoothest",
    "herd",
    "project_to_spectrahedron",
    "sobol_pool",
]

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]

POWER_STEPS, POWER_MARGIN = 12, 1.05
"""Power iterations for the largest curvature, and a safety factor: the step of FISTA is one over the product."""

DISCREPANCY = 1.1
"""How much larger than the noise the misfit of a fit may be."""

RELATIVE_RIDGE = 1e-5
"""Default ridge added to W, in units of its diagonal: its condition number is 1e8 or more."""


@dataclass(frozen=True, slots=True, eq=False)
class SumOfSquaresFit:
    """A fitted density, and the report of the fit.

    Attributes
    ----------
    density : SumOfSquares
    objective : float
        The objective at the fit.
    misfit : float
        Its quadratic part: the squared distance of embeddings.
    steps : int
        Iterations of FISTA.
    """

    density: SumOfSquares
    objective: float
    misfit: float
    steps: int


def project_to_spectrahedron(matrix: Matrix) -> Matrix:
    """Return the positive semidefinite matrix of trace 1 nearest to a symmetric one (Algorithm 1)."""
    values, vectors = np.linalg.eigh(matrix)
    return np.asarray((vectors * project_to_simplex(values)) @ vectors.T)


def fit_embedding(
    points: Matrix,
    frequencies: Matrix,
    embedding: Vector,
    *,
    bandwidth: float,
    trace_penalty: float = 1e-4,
    steps: int = 200,
    ridge: float = RELATIVE_RIDGE,
) -> SumOfSquaresFit:
    r"""Fit a density whose Fourier features have a given mean.

    .. math:: \min_B \|T(B) - \mu\|^2 + \lambda\, (\pi s^2)^{d/2}\, tr(B K)

    Parameters
    ----------
    points : array of shape (m, d)
        Support points; public, or chosen by the embedding alone.
    frequencies : array of shape (F / 2, d)
    embedding : array of shape (F,)
        mu: the mean of cosines, then sines, divided by sqrt(F / 2); exact or noisy.
    bandwidth : float
        s.
    trace_penalty : float
        lambda.
    steps : int
        Most iterations.
    ridge : float
        Added to the diagonal of W in units of it; B is scaled to tr(W B) = 1 afterwards (Remark 1).
    """
    features = FourierEmbedding(points, frequencies, bandwidth=bandwidth)
    # In units of the diagonal of W, with which the trace of B scales.
    price = trace_penalty * (math.pi * bandwidth**2) ** (points.shape[1] / 2)
    return fit_quadratic(points, bandwidth, features, embedding, price, steps=steps, ridge=ridge)


def fit_smoothest(
    points: Matrix,
    frequencies: Matrix,
    embedding: Vector,
    *,
    noise_std: float,
    bandwidths: Sequence[float],
    steps: int = 200,
) -> SumOfSquaresFit:
    r"""Fit at the largest bandwidth whose misfit the noise explains: Morozov's discrepancy principle.

    That is the largest s with a squared distance of at most 1.1 F sigma^2, where sigma is the noise of one of F
    features. If there is none, the rows have more structure than these points can show, and the least misfit decides.

    Parameters
    ----------
    points, frequencies, embedding
        As in :func:`fit_embedding`.
    noise_std : float
        Of every feature of the embedding.
    bandwidths : sequence of float
        Tried from large to small.
    steps : int
        Most iterations of the fit that is returned; a bandwidth that is far off is ruled out after a quarter of them.
    """
    explained, tried = DISCREPANCY * embedding.size * noise_std**2, []

    def fit(bandwidth: float, most: int) -> SumOfSquaresFit:
        return fit_embedding(points, frequencies, embedding, bandwidth=bandwidth, steps=most)

    for bandwidth in sorted(bandwidths, reverse=True):
        found = fit(bandwidth, max(steps // 4, 1))
        if found.misfit <= 4 * explained:
            found = fit(bandwidth, steps)
            if found.misfit <= explained:
                return found
        tried.append(found)
    best = min(tried, key=lambda one: one.misfit)
    return best if best.steps == steps else fit(best.density.bandwidth, steps)


class _Embedding(Protocol):
    """A linear function of B, and its adjoint."""

    def of(self, coefficients: Matrix) -> Vector: ...

    def adjoint(self, weights: Vector) -> Matrix: ...


@dataclass(frozen=True, slots=True, eq=False)
class _Quadratic:
    """The squared distance of an embedding from ``aim``, plus lambda tr(B K), as a function of C."""

    embedding: _Embedding
    aim: Vector
    penalty: Matrix
    """lambda K, in terms of C."""
    inverse: Matrix
    """L^-1, where W = L L^T: B is L^-T C L^-1."""

    def coefficients(self, c: Matrix) -> Matrix:
        """Return B, symmetric to the last bit."""
        found = self.inverse.T @ c @ self.inverse
        return np.asarray((found + found.T) / 2)

    def residual(self, c: Matrix) -> Vector:
        return self.embedding.of(self.coefficients(c)) - self.aim

    def adjoint(self, residual: Vector) -> Matrix:
        """Return the matrix whose inner product with C is that of ``residual`` with the embedding of C."""
        return np.asarray(self.inverse @ self.embedding.adjoint(residual) @ self.inverse.T)

    def value(self, c: Matrix) -> float:
        return float(np.sum(self.residual(c) ** 2) + np.sum(self.penalty * c))

    def gradient(self, c: Matrix) -> Matrix:
        return 2 * self.adjoint(self.residual(c)) + self.penalty

    def curvature(self) -> float:
        """Return the largest eigenvalue of the Hessian, by power iteration."""
        found = self.penalty / (math.sqrt(float(np.sum(self.penalty**2))) or 1.0) + np.eye(len(self.inverse))
        for _ in range(POWER_STEPS):
            found = found / math.sqrt(float(np.sum(found**2)))
            found = self.adjoint(self.residual(found) + self.aim)
        return 2 * math.sqrt(float(np.sum(found**2)))


def fit_quadratic(
    points: Matrix,
    bandwidth: float,
    embedding: _Embedding,
    aim: Vector,
    price: float,
    *,
    steps: int,
    ridge: float,
    tolerance: float = 0.0,
) -> SumOfSquaresFit:
    """Minimise the squared distance of the embedding of B from ``aim``, plus ``price`` tr(B K).

    With a ``tolerance`` the fit stops where the objective changed by less in one iteration.
    """
    count = len(points)
    products = product_integrals(points, bandwidth=bandwidth)
    gram = gaussian_gram(points, points, bandwidth=bandwidth)
    # One thread, so that sums have one order.
    with threadpool_limits(1):
        lower = np.linalg.cholesky(products + ridge * products[0, 0] * np.eye(count))
        inverse = solve_triangular(lower, np.eye(count), lower=True)
        quadratic = _Quadratic(embedding, aim, price * (inverse @ gram @ inverse.T), inverse)
        found, taken = _fista(quadratic, np.eye(count) / count, steps=steps, tolerance=tolerance)
        objective, misfit = quadratic.value(found), float(np.sum(quadratic.residual(found) ** 2))
        matrix = quadratic.coefficients(found)
    # To undo the ridge on W, B is scaled to mass 1 (Remark 1).
    matrix /= float((products * matrix).sum())
    return SumOfSquaresFit(SumOfSquares(points, matrix, bandwidth), objective, misfit, taken)


def _fista(quadratic: _Quadratic, start: Matrix, *, steps: int, tolerance: float) -> tuple[Matrix, int]:
    """Return the C that minimises the quadratic over the spectrahedron, and the iterations taken."""
    rate = 1.0 / (POWER_MARGIN * quadratic.curvature())
    now = ahead = start
    momentum, value = 1.0, quadratic.value(now)
    for taken in range(1, steps + 1):
        after = project_to_spectrahedron(ahead - rate * quadratic.gradient(ahead))
        if float(np.sum((ahead - after) * (after - now))) > 0:
            # The momentum leads uphill, against the gradient mapping: restart it from the current point.
            momentum, ahead = 1.0, now
            continue
        grown = (1 + math.sqrt(1 + 4 * momentum**2)) / 2
        ahead = after + (momentum - 1) / grown * (after - now)
        now, momentum = after, grown
        if tolerance > 0:
            last, value = value, quadratic.value(now)
            if abs(last - value) < tolerance:
                return now, taken
    return now, steps


def sobol_pool(columns: int, *, bits: int = 14, seed: int = 0) -> Matrix:
    """Return 2^bits scrambled Sobol points of the unit box, the same for the same seed; shape (2^bits, columns)."""
    from scipy.stats import qmc  # imported late: it is slow to import, and only needed here

    return np.asarray(qmc.Sobol(columns, scramble=True, seed=seed).random_base2(bits), dtype=np.float64)


def herd(features: Matrix, embedding: NDArray[np.float64], *, points: int) -> NDArray[np.int64]:
    """Return which points of the pool are chosen, in order; each point may be chosen only once.

    Parameters
    ----------
    features : array of shape (N, F)
        phi of every point of the pool.
    embedding : array of shape (F,)
        mu, exact or noisy.
    points : int
        At most N.
    """
    chosen = np.empty(points, dtype=np.int64)
    with threadpool_limits(1):
        aim, near = features @ embedding, np.zeros(len(features))
        for place in range(points):
            scores = aim - near / (place + 1)
            # A repeated support point would make W singular.
            scores[chosen[:place]] = -np.inf
            chosen[place] = int(np.argmax(scores))
            near += features @ features[chosen[place]]
    return chosen
