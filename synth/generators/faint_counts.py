"""Dividing a known mass among few cells whose counts are hardly clearer than their noise: Bayes on a grid, exactly.

Where counts are clear, each division of a node can be settled by itself (``nested_counts``). Where they are not, it
matters that no cell is below zero and that most cells of most columns are nearly empty: a peak in one cell says how
little is left for all others. Here the mass is cut into units and the posterior of a binary tree is summed exactly.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["UNITS", "divide_faint"]

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

UNITS = 128
"""Units into which the mass is cut; a unit must not be much wider than the noise."""


@dataclass(frozen=True, slots=True)
class _Shape:
    """What is thought of a column before it is counted, for every division of its tree.

    Attributes
    ----------
    likely : float
        Prior probability of the shape.
    all_near, all_far, flat : float
        Prior probabilities: the whole mass in the half nearer to zero, in the other half, divided anyhow.
    spreads : tuple of (float, float)
        How far a left share may be from the even one by width, and the prior probability of that; what is left of 1.
    """

    likely: float
    all_near: float
    all_far: float
    flat: float
    spreads: tuple[tuple[float, float], ...]


_SHAPES = (
    # Most columns: declared wider than they are, with peaks.
    _Shape(likely=0.97, all_near=0.45, all_far=0.25, flat=0.14, spreads=((0.03, 0.08), (0.12, 0.08))),
    # Broad and smooth ones: so many cells bear witness to it that they are found all the same.
    _Shape(likely=0.03, all_near=0.06, all_far=0.04, flat=0.20, spreads=((0.03, 0.20), (0.12, 0.50))),
)
"""The counts of a column say which of them it has."""

_STEPS = np.arange(UNITS + 1)
_REST = _STEPS[:, None] - _STEPS[None, :]
_POSSIBLE = _REST >= 0


def divide_faint(counts: Vector, variances: Vector, widths: Vector, *, total: float, near: int) -> Vector:
    """Return the posterior means of the masses of the leaves of a complete binary tree.

    The prior says of every node where its mass lies: all in one half, spread evenly by width, or anyhow. All in the
    half nearer to zero is likelier, as declared ranges are wider than most columns are. Columns come in two shapes,
    with peaks or smooth; the means under both are weighted by what the counts say for each.

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
    leaves = _leaf_evidence(counts, variances, widths, masses)
    found = [_divided(leaves, widths, near, shape) for shape in _SHAPES]
    log_evidence = np.array([math.log(shape.likely) + one for shape, (_, one) in zip(_SHAPES, found, strict=True)])
    weights = np.exp(log_evidence - log_evidence.max())
    means = np.tensordot(weights, np.stack([one for one, _ in found]), axes=1) @ masses
    return np.asarray(means * (total / means.sum()))


def _divided(leaves: Matrix, widths: Vector, near: int, shape: _Shape) -> tuple[Matrix, float]:
    """Return the posterior of every leaf's units under one shape, and the logarithm of the shape's own evidence."""
    divisions: list[Matrix] = []
    evidence, covered, log_scale = leaves, widths, 0.0
    while len(evidence) > 1:
        size = len(leaves) // len(evidence)
        middles = size * np.arange(1, len(evidence), 2)
        left, right = evidence[::2], evidence[1::2]
        covered_left, covered = covered[::2], covered.reshape(-1, 2).sum(axis=1)
        even = np.round(covered_left / np.maximum(covered, 1.0), 2)
        prior = np.stack(
            [_prior(shape, float(part), bool(near < middle)) for part, middle in zip(even, middles, strict=True)]
        )
        joint = prior * left[:, None, :] * right[:, np.maximum(_REST, 0)]
        sums = joint.sum(axis=2)
        divisions.append(joint / np.maximum(sums, 1e-300)[:, :, None])
        highest = sums.max(axis=1, keepdims=True)
        evidence = sums / highest
        log_scale += float(np.log(highest).sum())
    beliefs = np.zeros((1, UNITS + 1))
    beliefs[0, -1] = 1.0
    for division in reversed(divisions):
        both = beliefs[:, :, None] * division
        lefts = both.sum(axis=1)
        rights = np.stack([np.bincount(_REST[_POSSIBLE], weights=one[_POSSIBLE], minlength=UNITS + 1) for one in both])
        beliefs = np.stack([lefts, rights], axis=1).reshape(-1, UNITS + 1)
    return beliefs, log_scale + math.log(max(float(evidence[0, -1]), 1e-300))


def _leaf_evidence(counts: Vector, variances: Vector, widths: Vector, masses: Vector) -> Matrix:
    """Return the likelihood of every mass of every leaf, scaled to a maximum of 1."""
    empty = widths <= 0
    log_likelihood = -((counts[:, None] - masses) ** 2) / (2 * np.where(empty, 1.0, variances))[:, None]
    log_likelihood -= log_likelihood.max(axis=1, keepdims=True)
    likelihood = np.exp(log_likelihood)
    likelihood[empty] = masses == 0
    return np.asarray(likelihood)


@functools.lru_cache(maxsize=64)
def _prior(shape: _Shape, even: float, near_left: bool) -> Matrix:
    """Return the prior of the units on the left (columns) given those of the node (rows)."""
    node, left = _STEPS[:, None].astype(np.float64), _STEPS[None, :].astype(np.float64)
    weights = np.where(_POSSIBLE, shape.flat / (node + 1), 0.0)
    weights[_STEPS, _STEPS] += shape.all_near if near_left else shape.all_far
    weights[:, 0] += shape.all_far if near_left else shape.all_near
    for spread, probability in shape.spreads:
        around = np.where(_POSSIBLE, np.exp(-(((left - even * node) / np.maximum(spread * node, 0.5)) ** 2) / 2), 0.0)
        weights += probability * around / around.sum(axis=1, keepdims=True)
    weights.flags.writeable = False
    return weights
