r"""Kernel herding (Chen 2010): points whose features have about a given mean, chosen from a public pool.

.. math:: z_{t+1} = \arg\max_z \langle \mu, \phi(z) \rangle
    - \frac{1}{t + 1} \sum_{i \le t} \langle \phi(z_i), \phi(z) \rangle

The pool is public and mu may be noisy, so the points say nothing beyond mu.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.stats import qmc
from threadpoolctl import threadpool_limits

from synth.errors import InputError

__all__ = ["herd", "sobol_pool"]

Matrix = NDArray[np.float64]


def sobol_pool(columns: int, *, bits: int = 14, seed: int = 0) -> Matrix:
    """Return 2^bits scrambled Sobol points of the unit box, the same for the same seed; shape (2^bits, columns)."""
    if columns < 1 or not 1 <= bits <= 20:
        raise InputError(f"A pool needs at least one column and 1 to 20 bits, got {columns} and {bits}.")
    return np.asarray(qmc.Sobol(columns, scramble=True, seed=seed).random_base2(bits), dtype=np.float64)


def herd(features: Matrix, embedding: NDArray[np.float64], *, points: int) -> NDArray[np.int64]:
    """Return which points of the pool are chosen, in order; a point may be chosen once only.

    Parameters
    ----------
    features : array of shape (N, F)
        phi of every point of the pool.
    embedding : array of shape (F,)
        mu, exact or noisy.
    points : int
        At most N.
    """
    if not 1 <= points <= len(features):
        raise InputError(f"points must be between 1 and the size of the pool, {len(features)}; got {points}.")
    chosen = np.empty(points, dtype=np.int64)
    with threadpool_limits(1):
        aim, near = features @ embedding, np.zeros(len(features))
        for place in range(points):
            scores = aim - near / (place + 1)
            # A support point that is there twice would make W singular.
            scores[chosen[:place]] = -np.inf
            chosen[place] = int(np.argmax(scores))
            near += features @ features[chosen[place]]
    return chosen
