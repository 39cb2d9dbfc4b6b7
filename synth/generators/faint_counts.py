"""Dividing a known mass among few cells whose counts are hardly clearer than their noise: Bayes on a grid, exactly.

Where counts are clear, each division of a node can be settled by itself (``nested_counts``). Where they are not, it
matters that no cell is below zero and that most cells of most columns are nearly empty: a peak in one cell says how
little is left for all others. Here the mass is cut into units and the posterior of a binary tree is summed exactly.
"""

from __future__ import annotations

import functools

import numpy as np
from numpy.typing import NDArray

__all__ = ["UNITS", "divide_faint"]

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

UNITS = 128
"""Units into which the mass is cut; a unit must not be much wider than the noise."""

_ALL_NEAR, _ALL_FAR, _FLAT = 0.45, 0.25, 0.14
"""Prior probabilities: the whole mass in the half nearer to zero, in the other half, divided anyhow."""

_SPREADS = {0.03: 0.08, 0.12: 0.08}
"""Prior probabilities of a division that is even by width, by how far the shares spread around it."""

_STEPS = np.arange(UNITS + 1)
_REST = _STEPS[:, None] - _STEPS[None, :]
_POSSIBLE = _REST >= 0


def divide_faint(counts: Vector, variances: Vector, widths: Vector, *, total: float, near: int) -> Vector:
    """Return the posterior means of the masses of the leaves of a complete binary tree.

    The prior says of every node where its mass lies: all in one half, spread evenly by width, or anyhow. All in the
    half nearer to zero is likelier, as declared ranges are wider than most columns are.

    Parameters
    ----------
    counts, variances, widths : arrays of shape (2^depth,)
        Noisy count of each leaf, in rows, its variance, and how many codes it covers; a leaf of width 0 holds nothing.
    total : float
        Mass to divide, in rows, positive.
    near : int
        The leaf nearest to zero.

    Returns
    -------
    array of shape (2^depth,), not negative, sum ``total``
    """
    masses = (_STEPS * (total / UNITS)).astype(np.float64)
    divisions: list[Matrix] = []
    evidence, covered = _leaf_evidence(counts, variances, widths, masses), widths
    while len(evidence) > 1:
        size = len(counts) // len(evidence)
        middles = size * np.arange(1, len(evidence), 2)
        left, right = evidence[::2], evidence[1::2]
        covered_left, covered = covered[::2], covered.reshape(-1, 2).sum(axis=1)
        even = np.round(covered_left / np.maximum(covered, 1.0), 2)
        prior = np.stack([_prior(float(part), bool(near < middle)) for part, middle in zip(even, middles, strict=True)])
        joint = prior * left[:, None, :] * right[:, np.maximum(_REST, 0)]
        sums = joint.sum(axis=2)
        divisions.append(joint / np.maximum(sums, 1e-300)[:, :, None])
        evidence = sums / sums.max(axis=1, keepdims=True)
    beliefs = np.zeros((1, UNITS + 1))
    beliefs[0, -1] = 1.0
    for division in reversed(divisions):
        both = beliefs[:, :, None] * division
        lefts = both.sum(axis=1)
        rights = np.stack([np.bincount(_REST[_POSSIBLE], weights=one[_POSSIBLE], minlength=UNITS + 1) for one in both])
        beliefs = np.stack([lefts, rights], axis=1).reshape(-1, UNITS + 1)
    means = beliefs @ masses
    return np.asarray(means * (total / means.sum()))


def _leaf_evidence(counts: Vector, variances: Vector, widths: Vector, masses: Vector) -> Matrix:
    """Return the likelihood of every mass of every leaf, scaled to a maximum of 1."""
    empty = widths <= 0
    log_likelihood = -((counts[:, None] - masses) ** 2) / (2 * np.where(empty, 1.0, variances))[:, None]
    log_likelihood -= log_likelihood.max(axis=1, keepdims=True)
    likelihood = np.exp(log_likelihood)
    likelihood[empty] = masses == 0
    return np.asarray(likelihood)


@functools.lru_cache(maxsize=64)
def _prior(even: float, near_left: bool) -> Matrix:
    """Return the prior of the units on the left (columns) given those of the node (rows)."""
    node, left = _STEPS[:, None].astype(np.float64), _STEPS[None, :].astype(np.float64)
    weights = np.where(_POSSIBLE, _FLAT / (node + 1), 0.0)
    weights[_STEPS, _STEPS] += _ALL_NEAR if near_left else _ALL_FAR
    weights[:, 0] += _ALL_FAR if near_left else _ALL_NEAR
    for spread, probability in _SPREADS.items():
        around = np.where(_POSSIBLE, np.exp(-(((left - even * node) / np.maximum(spread * node, 0.5)) ** 2) / 2), 0.0)
        weights += probability * around / around.sum(axis=1, keepdims=True)
    weights.flags.writeable = False
    return weights
