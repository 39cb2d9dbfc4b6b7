r"""A Gaussian for every class, in the few directions that matter, and the separation of signal from noise in moments.

The functions take noisy numbers and the public standard deviation of their noise, but no rows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Self

import numpy as np
from numpy.typing import NDArray

__all__ = ["ClassGaussians", "leading_directions", "shrunk_covariances", "shrunk_spread"]

Vector = NDArray[np.float64]

_NARROWEST = 1e-12
"""Least variance in any direction, relative to the largest."""


@dataclass(frozen=True, slots=True, eq=False)
class ClassGaussians:
    """Classes with separate means, covariances in a common subspace, and residuals outside it.

    Attributes
    ----------
    weights : array of shape (k,)
        Share of the rows in every class; not negative, sum 1.
    means : array of shape (k, p)
    directions : array of shape (p, n)
        Orthonormal columns.
    factors : array of shape (k, n, n)
        Factor of every class's covariance in the subspace.
    residual_std : array of shape (p,)
        Standard deviation of the residual in every coordinate.
    """

    weights: Vector
    means: Vector
    directions: Vector
    factors: Vector
    residual_std: Vector

    def draw(self, classes: NDArray[np.int64], random: np.random.Generator) -> Vector:
        """Draw one vector for each class number.

        Parameters
        ----------
        classes : array of shape (n_rows,)
        random : Generator

        Returns
        -------
        array of shape (n_rows, p), float64
        """
        rows = random.standard_normal((len(classes), len(self.residual_std))) * self.residual_std
        rows -= (rows @ self.directions) @ self.directions.T
        inside = random.standard_normal((len(classes), self.directions.shape[1]))
        for place, factor in enumerate(self.factors):
            chosen = classes == place
            inside[chosen] = inside[chosen] @ factor.T
        rows += inside @ self.directions.T
        rows += self.means[classes]
        return np.asarray(rows)

    def state(self) -> dict[str, Vector]:
        """Return everything that drawing needs."""
        return {one.name: np.ascontiguousarray(getattr(self, one.name)) for one in fields(self)}

    @classmethod
    def from_state(cls, state: Mapping[str, Vector]) -> Self:
        """Rebuild what :meth:`state` returned."""
        return cls(**{one.name: state[one.name].astype(np.float64) for one in fields(cls)})


def leading_directions(matrix: Vector, noise_std: float, *, most: int) -> tuple[Vector, Vector]:
    r"""Return the eigenvectors whose eigenvalues stand above the noise.

    The eigenvalues of a symmetric p x p matrix of independent noise of standard deviation s off the diagonal end at
    :math:`e = 2 s \sqrt p`; a true variance t > e/2 appears at :math:`t + (e/2)^2 / t` (Peche 2006), which is inverted.

    Parameters
    ----------
    matrix : array of shape (p, p), symmetric
    noise_std : float
        Standard deviation of the noise of entries off the diagonal.
    most : int
        Most directions; there is at least one.

    Returns
    -------
    directions : array of shape (p, n)
        Orthonormal columns, the widest direction first.
    variances : array of shape (n,)
        Estimated true variance along each, not negative.
    """
    values, vectors = np.linalg.eigh(matrix)
    values, vectors = values[::-1], vectors[:, ::-1]
    edge = 2 * noise_std * math.sqrt(len(matrix))
    n = min(max(int((values > edge).sum()), 1), most, len(matrix))
    found = values[:n]
    variances = (found + np.sqrt(np.maximum(found**2 - edge**2, 0.0))) / 2
    return np.ascontiguousarray(vectors[:, :n]), np.maximum(variances, 0.0)


def shrunk_spread(sums: Vector, noise_std: float) -> Vector:
    r"""Shrink noisy differences of classes to the expected spread of the classes.

    .. math:: f^2 = \max(0, 1 - k p s^2 / |D|^2)

    makes the expected squared length of f D equal to that of the true differences. A smaller factor (Stein 1961 has f^2
    in place of f) would be more accurate entry by entry, but moves classes towards each other.

    Parameters
    ----------
    sums : array of shape (k, p)
        Noisy sums of the classes about a common centre.
    noise_std : float
        Standard deviation s of the noise of an entry.
    """
    energy = float((sums**2).sum())
    return sums * math.sqrt(max(0.0, 1.0 - sums.size * noise_std**2 / energy)) if energy > 0 else sums


def shrunk_covariances(noisy: Vector, noise_std: Vector, common: Vector, floor: float) -> Vector:
    """Shrink noisy covariance matrices towards a common one by what noise explains, and make them positive definite.

    Parameters
    ----------
    noisy : array of shape (k, n, n)
    noise_std : array of shape (k,)
        Standard deviation of the noise of entries off the diagonal.
    common : array of shape (n, n)
    floor : float
        Least variance in any direction, positive; more if the widest direction has more than 10^12 times as much.

    Returns
    -------
    array of shape (k, n, n)
        Lower triangular factors: covariance c is ``factor @ factor.T``.
    """
    factors = np.empty_like(noisy)
    n = noisy.shape[1]
    for place, matrix in enumerate(noisy):
        difference = matrix - common
        explained = n * (n + 1) * noise_std[place] ** 2
        kept = max(0.0, 1.0 - explained / max(float((difference**2).sum()), 1e-300))
        values, vectors = np.linalg.eigh(common + kept * difference)
        # Next to a much wider direction floating point cannot tell a narrow one from zero, or from a negative one.
        possible = (vectors * np.maximum(values, max(floor, _NARROWEST * values[-1]))) @ vectors.T
        factors[place] = np.linalg.cholesky((possible + possible.T) / 2)
    return factors
