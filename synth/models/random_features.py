r"""Features for regression whose length is at most 1, and solvers of linear systems in them; no rows are kept.

Linear and Fourier features are no longer than 1 for any row of the unit box, which is what a bound on one row's
influence rests on. Cosine features are those of the random-feature paper (Liao 2024, section 2.2), whose rows have a
length that grows with their number. Solvers: the minimum-norm interpolant by pseudo-inverse and by Kaczmarz's method,
and ridge regression from second moments, exact or noisy.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from synth.errors import InputError

__all__ = [
    "cosine_features",
    "fourier_features",
    "kaczmarz",
    "least_norm",
    "linear_features",
    "ridge_of_moments",
]

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]


def linear_features(x: Matrix) -> Matrix:
    r"""Return (x - 1/2, 1/2) / sqrt((d + 1) / 4) of every row of the unit box: norm at most 1; shape (n, d + 1)."""
    columns = np.concatenate([np.clip(x, 0.0, 1.0) - 0.5, np.full((len(x), 1), 0.5)], axis=1)
    return np.asarray(columns / math.sqrt((x.shape[1] + 1) / 4))


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


def cosine_features(x: Matrix, frequencies: Matrix, phases: Vector) -> Matrix:
    r"""Return cos(<w, x> + b), unscaled, as in section 2.2 of the paper; frequencies of shape (N, d)."""
    return np.asarray(np.cos(x @ frequencies.T + phases))


def least_norm(features: Matrix, labels: Vector) -> Vector:
    r"""Return the shortest of the coefficients that fit best (Liao 2024, eq. 3), by the pseudo-inverse."""
    return np.asarray(np.linalg.pinv(features) @ labels)


def kaczmarz(features: Matrix, labels: Vector, random: np.random.Generator, *, steps: int) -> Vector:
    r"""Return coefficients after some steps of the randomised Kaczmarz method from 0 (Strohmer 2009).

    .. math:: c \leftarrow c + \frac{y_i - \langle a_i, c \rangle}{|a_i|^2} a_i

    with i uniform. It tends to the minimum-norm interpolant where there is one; the paper takes one step for each row.
    """
    found, lengths = np.zeros(features.shape[1]), (features**2).sum(axis=1)
    for row in random.integers(0, len(features), size=steps).tolist():
        found += (labels[row] - features[row] @ found) / lengths[row] * features[row]
    return found


def ridge_of_moments(moments: Matrix, products: Vector, *, penalty: float) -> Vector:
    r"""Return (S + lambda I)^-1 v of second moments that may be noisy: S's negative eigenvalues count as 0.

    Parameters
    ----------
    moments : array of shape (p, p)
        S: the sum of a a^T, symmetric.
    products : array of shape (p,)
        v: the sum of y a.
    penalty : float, positive
        lambda; public.
    """
    if not (math.isfinite(penalty) and penalty > 0):
        raise InputError(f"penalty must be positive and finite, got {penalty}.")
    values, vectors = np.linalg.eigh(moments)
    return np.asarray(vectors @ ((vectors.T @ products) / (np.maximum(values, 0.0) + penalty)))
