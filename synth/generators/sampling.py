"""Draw codes from a seed: in float64, on one CPU thread, the same bytes for the same seed."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from synth.errors import InputError

__all__ = ["check_rows", "random_source", "rounded_counts"]


def random_source(seed: int) -> np.random.Generator:
    """Return the source of public randomness for one sample."""
    return np.random.Generator(np.random.PCG64(seed))


def check_rows(n_rows: int) -> None:
    """Refuse to draw fewer than one row."""
    if n_rows < 1:
        raise InputError(f"The number of rows to generate must be at least 1, got {n_rows}.")


def rounded_counts(probabilities: NDArray[np.float64], total: int, random: np.random.Generator) -> NDArray[np.int64]:
    """Round expected counts to whole numbers that add up to ``total`` exactly (systematic rounding).

    Parameters
    ----------
    probabilities : array of shape (k,), not negative, sum 1
    total : int
        Number of rows to distribute.
    random : Generator
        Draws one offset; every count is then the floor or the ceiling of its expectation, and unbiased.

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
