"""Seeded drawing of codes: float64, one CPU thread, the same bytes for the same seed."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from synth.errors import InputError

__all__ = ["check_rows", "project_to_simplex", "random_source", "rounded_counts"]


def random_source(seed: int) -> np.random.Generator:
    """Return the source of public randomness of one sample."""
    return np.random.Generator(np.random.PCG64(seed))


def check_rows(n_rows: int) -> None:
    """Refuse to draw fewer than one row."""
    if n_rows < 1:
        raise InputError(f"The number of rows to make must be at least 1, got {n_rows}.")


def rounded_counts(probabilities: NDArray[np.float64], total: int, random: np.random.Generator) -> NDArray[np.int64]:
    """Round expected counts to whole ones that add up to ``total`` exactly (systematic rounding).

    Parameters
    ----------
    probabilities : array of shape (k,), not negative, sum 1
    total : int
        Number of rows to place.
    random : Generator
        Draws one offset; every count is then the floor or the ceiling of its expectation, and right on average.

    Returns
    -------
    array of shape (k,), int64, sum ``total``

    Examples
    --------
    >>> rounded_counts(np.array([0.5, 0.25, 0.25]), 10, random_source(0)).tolist()
    [5, 3, 2]
    """
    upper = np.cumsum(probabilities) * total
    edges = np.floor(upper + random.random()).astype(np.int64)
    edges[-1] = total
    return np.diff(np.minimum(edges, total), prepend=0)


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
    # A value below every excess cannot happen for the largest one except by rounding, hence the maximum with 1.
    threshold = np.take_along_axis(excess, np.maximum(kept, 1)[..., None] - 1, axis=-1)
    projected = np.maximum(values - threshold, 0.0)
    return np.asarray(projected / projected.sum(axis=-1, keepdims=True), dtype=np.float64)
