"""Projection of noisy proportions onto the simplex."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["project_to_simplex"]


def project_to_simplex(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the probability vector nearest to noisy proportions (Duchi 2008, figure 1).

    Parameters
    ----------
    values : array of shape (..., k)
        Noisy proportions, of any sign and sum; finite.

    Returns
    -------
    array of shape (..., k), not negative, sums 1 along the last axis

    Examples
    --------
    >>> project_to_simplex(np.array([0.75, 0.5, -0.25])).tolist()
    [0.625, 0.375, 0.0]
    """
    descending = -np.sort(-values, axis=-1)
    excess = (np.cumsum(descending, axis=-1) - 1.0) / np.arange(1, values.shape[-1] + 1)
    kept = np.count_nonzero(descending > excess, axis=-1)
    # The largest value is above its excess except for rounding, hence the maximum with 1.
    threshold = np.take_along_axis(excess, np.maximum(kept, 1)[..., None] - 1, axis=-1)
    projected = np.maximum(values - threshold, 0.0)
    return np.asarray(projected / projected.sum(axis=-1, keepdims=True), dtype=np.float64)
