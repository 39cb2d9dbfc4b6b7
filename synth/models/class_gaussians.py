"""A Gaussian for every class in the few directions that matter, and noise of its own for every coordinate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Self

import numpy as np
from numpy.typing import NDArray

__all__ = ["ClassGaussians"]

Vector = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class ClassGaussians:
    """Classes with means of their own, covariances in a common subspace, and residuals outside it.

    Attributes
    ----------
    weights : array of shape (k,)
        Part of the rows in every class; not negative, sum 1.
    means : array of shape (k, p)
    directions : array of shape (p, n)
        Orthonormal columns.
    factors : array of shape (k, n, n)
        Factor of every class's covariance in the subspace.
    residual_std : array of shape (p,)
        Standard deviation of what is left in every coordinate.
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
