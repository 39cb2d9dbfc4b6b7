"""Hierarchical histograms: noisy counts of nested intervals, made consistent and then non-negative (Hay 2010).

The places of an ordered column are the leaves of a binary tree: the nodes of depth d are the intervals between
floor(j K / 2^d), so every depth divides the one above. Some depths were counted, with the same noise in every cell of a
depth; everything here is post-processing of those counts. They are combined by least squares, then made non-negative
without inventing spikes.

If counts are clear, each node can be divided on its own (``split_evenly``). If they are hardly larger than their noise,
it matters that no cell is negative and that most cells of most columns are nearly empty: a single peak shows how little
is left for all other cells. Then the mass is divided into units, and the posterior of a binary tree is summed exactly
(``sparse_histogram``).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr

__all__ = [
    "UNITS",
    "HierarchicalHistogram",
    "bottom_depth",
    "nearest_masses",
    "node_starts",
    "sparse_histogram",
    "split_evenly",
]

Vector = NDArray[np.float64]

Matrix = NDArray[np.float64]

_TOGETHER = 5
"""Depth whose nodes are divided together if counts are not clear."""

_UNIT_OF_NOISE = 4 / 3
"""Largest unit of mass, in standard deviations of the noise, that divides cells together without loss."""

_SMOOTH = (0.0, 0.03, 0.12)
"""Prior spreads of a node's left share around an even division; 0 is exactly even."""

_PRIOR = np.array([0.05, 0.05, 0.60, 0.15, 0.10, 0.05])
"""Prior probabilities: all mass right, all left, then the spreads of ``_SMOOTH``, then anything."""

_PRIOR_NODES = 8.0
"""Weight of the prior, in nodes, when a depth's own nodes say otherwise."""

_ROUNDS = 6

UNITS = 128
"""Number of units into which the mass is divided; a unit must not be much larger than the noise."""


def bottom_depth(n_leaves: int) -> int:
    """Return the first depth at which every node holds at most one place."""
    return max(n_leaves - 1, 0).bit_length()


def node_starts(n_leaves: int, depth: int) -> NDArray[np.int64]:
    """Return the first place of every node of a depth, and the number of places at the end: shape (2^depth + 1,)."""
    return np.asarray((np.arange(2**depth + 1, dtype=np.int64) * n_leaves) >> depth)


@dataclass(frozen=True, slots=True, eq=False)
class HierarchicalHistogram:
    """The combined evidence of noisy counts at several depths, for every node of the tree.

    Attributes
    ----------
    n_leaves : int
        Number of leaves that hold a place.
    values, variances : tuple of arrays, one per depth from the root, shape (2^depth,)
        Best estimate of a node's count from its own subtree, and its variance, in rows; both 0 for a node without a
        place.
    """

    n_leaves: int
    values: tuple[Vector, ...]
    variances: tuple[Vector, ...]

    @classmethod
    def combine(cls, n_leaves: int, answers: Mapping[int, tuple[Vector, Vector]]) -> HierarchicalHistogram:
        """Average each node's own count with the sum of its children, from the leaves up, by inverse variance.

        Parameters
        ----------
        n_leaves : int
        answers : mapping of depth to (noisy counts of its nodes that hold a place, their variances)
            The bottom depth must be among them. A place of variance 0 is empty.
        """
        bottom = bottom_depth(n_leaves)
        values, variances = _spread(n_leaves, bottom, *answers[bottom])
        levels = [(values, variances)]
        for depth in range(bottom - 1, -1, -1):
            values, variances = values.reshape(-1, 2).sum(axis=1), variances.reshape(-1, 2).sum(axis=1)
            if depth in answers:
                own, variance = _spread(n_leaves, depth, *answers[depth])
                both = variances + variance
                weight = np.divide(variances, both, out=np.zeros_like(variances), where=variances > 0)
                values, variances = values + weight * (own - values), variances * (1.0 - weight)
            levels.append((values, variances))
        levels.reverse()
        return cls(n_leaves, tuple(value for value, _ in levels), tuple(variance for _, variance in levels))

    @property
    def leaves(self) -> NDArray[np.int64]:
        """The leaf of every place."""
        return np.flatnonzero(np.diff(node_starts(self.n_leaves, len(self.values) - 1)))

    @property
    def total(self) -> tuple[float, float]:
        """Estimate of all places together, and its variance."""
        return float(self.values[0][0]), float(self.variances[0][0])

    def estimate(self, total: float) -> Vector:
        """Return the least squares counts of the places that add up to ``total``; of any sign, shape (n_leaves,)."""
        counts = np.array([total])
        for depth in range(1, len(self.values)):
            counts = _interleave(*self._split(depth, counts)[:2])
        return counts[self.leaves]

    def spread_of(self, weights: Matrix) -> tuple[Vector, Vector]:
        """Return how weighted sums of the estimates vary, with the total and independently of it.

        Parameters
        ----------
        weights : array of shape (n_leaves, sums)
            Weight of every place in each sum.

        Returns
        -------
        slope, variance : arrays of shape (sums,)
            A sum's estimate is ``slope`` times the total plus an independent error of that ``variance``.
        """
        slope = np.zeros((len(self.variances[-1]), weights.shape[1]))
        slope[self.leaves] = weights
        variance = np.zeros_like(slope)
        for depth in range(len(self.values) - 1, 0, -1):
            share, error = self._shares(depth)
            left, right = slope[::2], slope[1::2]
            variance = variance[::2] + variance[1::2] + error[:, None] * (left - right) ** 2
            slope = share[:, None] * left + (1.0 - share)[:, None] * right
        return slope[0], variance[0]

    def possible(self, total: float, widths: NDArray[np.int64], near: int = 0) -> Vector:
        """Return counts of the places that add up to ``total``, none negative.

        From the root down, the share of a node's mass that goes left is its posterior mean under a mixture prior:
        nothing, everything, evenly by width, nearly evenly, anything. How often each occurs is learned from the nodes
        of the depth. So a difference that noise explains leaves a node flat, and what noise cannot explain stays. If
        even the widest cells are not clear, they are divided together.

        Parameters
        ----------
        total : float
            Mass to divide, in rows, not negative.
        widths : array of shape (n_leaves,)
            Number of codes in each place, 0 if it is empty.
        near : int
            The place nearest to zero.
        """
        leaf_widths = np.zeros(len(self.variances[-1]))
        leaf_widths[self.leaves] = widths
        top, counts = self._divided_at_the_top(total, leaf_widths, near)
        for depth in range(top + 1, len(self.values)):
            by_node = leaf_widths.reshape(2**depth, -1).sum(axis=1)
            even = by_node[::2] / np.maximum(by_node[::2] + by_node[1::2], 1.0)
            left, _, error = self._split(depth, counts)
            divisible = np.flatnonzero((error > 0) & (counts > 0))
            posterior = counts * even
            posterior[divisible] = split_evenly(
                counts[divisible], left[divisible], np.sqrt(error[divisible]), even[divisible]
            )
            counts = _interleave(posterior, counts - posterior)
        return counts[self.leaves]

    def _divided_at_the_top(self, total: float, leaf_widths: Vector, near: int) -> tuple[int, Vector]:
        """Return a depth and its masses: the root, or a few nodes divided together if counts are not clear."""
        top = min(_TOGETHER, len(self.values) - 1)
        noise = math.sqrt(float(self.variances[top].max()))
        if total <= 0 or total > _UNIT_OF_NOISE * UNITS * noise:
            return 0, np.array([total])
        leaf = int(self.leaves[near]) >> (len(self.values) - 1 - top)
        widths = leaf_widths.reshape(2**top, -1).sum(axis=1)
        return top, sparse_histogram(self.values[top], self.variances[top], widths, total=total, near=leaf)

    def _shares(self, depth: int) -> tuple[Vector, Vector]:
        """Return, for the parents of a depth, the share of a correction that goes left, and the error of the split."""
        left, right = self.variances[depth][::2], self.variances[depth][1::2]
        both = left + right
        share = np.divide(left, both, out=np.zeros_like(both), where=both > 0)
        return share, share * right

    def _split(self, depth: int, parents: Vector) -> tuple[Vector, Vector, Vector]:
        share, error = self._shares(depth)
        left, right = self.values[depth][::2], self.values[depth][1::2]
        corrected = left + share * (parents - left - right)
        return corrected, parents - corrected, error


def _interleave(left: Vector, right: Vector) -> Vector:
    return np.column_stack([left, right]).reshape(-1)


def _spread(n_leaves: int, depth: int, counts: Vector, variance: Vector) -> tuple[Vector, Vector]:
    """Place counts on all nodes of a depth, including those without a place."""
    kept = np.diff(node_starts(n_leaves, depth)) > 0
    values, variances = np.zeros(2**depth), np.zeros(2**depth)
    values[kept], variances[kept] = counts, variance
    return values, variances


def nearest_masses(counts: Vector, variances: Vector, total: float) -> Vector:
    """Return the masses of sum ``total``, none negative, nearest to counts in units of their variances."""
    if total <= 0:
        return np.zeros_like(counts)
    masses = np.maximum(counts - _excess(counts, variances, total) * variances, 0.0)
    return np.asarray(masses * (total / masses.sum()))


def _excess(counts: Vector, variances: Vector, total: float) -> float:
    """Return the t for which the masses max(counts - t * variances, 0) have the sum ``total``, which is positive."""
    # Sort by the t at which each count reaches zero.
    order = np.argsort(-counts / variances)
    excess = (np.cumsum(counts[order]) - total) / np.cumsum(variances[order])
    kept = max(int(np.count_nonzero(counts[order] / variances[order] > excess)), 1)
    return float(excess[kept - 1])


def split_evenly(mass: Vector, left: Vector, std: Vector, even: Vector) -> Vector:
    """Return the posterior mean of the mass on the left of each node.

    Parameters
    ----------
    mass, left, std, even : arrays of shape (nodes,)
        Mass of the node, noisy mass on its left, standard deviation of that noise, and the share that an even density
        puts there; all masses in rows, ``mass`` and ``std`` positive.

    Returns
    -------
    array of shape (nodes,), from 0 to ``mass``
    """
    means, log_likelihoods = [np.zeros_like(mass), mass], [_log_normal(left, std), _log_normal(left - mass, std)]
    middle = mass * even
    for spread in _SMOOTH:
        variance = (spread * mass) ** 2
        means.append(np.clip(middle + (left - middle) * variance / (variance + std**2), 0.0, mass))
        log_likelihoods.append(_log_normal(left - middle, np.sqrt(variance + std**2)))
    flat_mean, flat_log_likelihood = _flat_posterior(mass, left, std)
    means.append(flat_mean)
    log_likelihoods.append(flat_log_likelihood)
    log_likelihood = np.stack(log_likelihoods)
    log_likelihood -= log_likelihood.max(axis=0)
    likelihood = np.exp(log_likelihood)
    prior = _PRIOR
    for _ in range(_ROUNDS):
        posterior = prior[:, None] * likelihood
        posterior /= posterior.sum(axis=0)
        prior = (_PRIOR_NODES * _PRIOR + posterior.sum(axis=1)) / (_PRIOR_NODES + len(mass))
    return np.asarray(np.clip((posterior * np.stack(means)).sum(axis=0), 0.0, mass))


def _flat_posterior(mass: Vector, left: Vector, std: Vector) -> tuple[Vector, Vector]:
    """Return the posterior mean and log marginal density if every division of the mass is equally likely."""
    # By symmetry, take the side with the larger tail probabilities, so that logarithms stay exact.
    mirrored = left > mass / 2
    near = np.where(mirrored, mass - left, left)
    low, high = -near / std, (mass - near) / std
    # log(Phi(high) - Phi(low)) through the upper tails: both arguments negated, high >= |low|.
    log_low, log_high = log_ndtr(-low), log_ndtr(-high)
    inside = np.maximum(-np.expm1(np.minimum(log_high - log_low, 0.0)), 1e-300)
    log_probability = log_low + np.log(inside)
    slope = np.exp(-(low**2) / 2 - log_probability) - np.exp(-(high**2) / 2 - log_probability)
    mean = np.clip(near + std * slope / np.sqrt(2 * np.pi), 0.0, mass)
    return np.where(mirrored, mass - mean, mean), log_probability - np.log(mass)


def _log_normal(difference: Vector, std: Vector) -> Vector:
    return np.asarray(-((difference / std) ** 2) / 2 - np.log(std * np.sqrt(2 * np.pi)))


@dataclass(frozen=True, slots=True)
class _Shape:
    """Prior for every division of a column's tree.

    Attributes
    ----------
    likely : float
        Prior probability of the shape.
    all_near, all_far, flat : float
        Prior probabilities: the whole mass in the half nearer to zero, in the other half, divided arbitrarily.
    spreads : tuple of (float, float)
        How far a left share may be from an even division by width, and the prior probability of that: the rest of 1.
    """

    likely: float
    all_near: float
    all_far: float
    flat: float
    spreads: tuple[tuple[float, float], ...]


_SHAPES = (
    # Most columns: narrower than their declared range, with peaks.
    _Shape(likely=0.97, all_near=0.45, all_far=0.25, flat=0.14, spreads=((0.03, 0.08), (0.12, 0.08))),
    # Broad and smooth columns: so many cells give evidence of it that they are recognised all the same.
    _Shape(likely=0.03, all_near=0.06, all_far=0.04, flat=0.20, spreads=((0.03, 0.20), (0.12, 0.50))),
)
"""The counts of a column decide between them."""

_STEPS = np.arange(UNITS + 1)

_REST = _STEPS[:, None] - _STEPS[None, :]

_POSSIBLE = _REST >= 0


def sparse_histogram(counts: Vector, variances: Vector, widths: Vector, *, total: float, near: int) -> Vector:
    """Return the posterior means of the masses of the leaves of a complete binary tree.

    For every node, the prior allows all mass in one half, an even division by width, or an arbitrary one. All mass in
    the half nearer to zero is more likely, as declared ranges are wider than most columns. Columns have one of two
    shapes, peaked or smooth; the means under both are weighted by their evidence in the counts.

    Parameters
    ----------
    counts, variances, widths : arrays of shape (2^depth,)
        Noisy count of each leaf, in rows, its variance, and how many codes it covers; a leaf of width 0 is empty.
    total : float
        Mass to divide, in rows, positive.
    near : int
        The leaf nearest to zero.

    Returns
    -------
    array of shape (2^depth,), not negative, sum ``total``
    """
    masses = (_STEPS * (total / UNITS)).astype(np.float64)
    # All divisions have the same sum, so t * variances may be subtracted from the counts: every likelihood changes by
    # the same factor. With the t of the nearest masses, every leaf is most likely near its own mass, and no relevant
    # likelihood underflows, however far a declared total is from the counts.
    holding = widths > 0
    nearest = counts.copy()
    nearest[holding] -= _excess(counts[holding], variances[holding], total) * variances[holding]
    leaves = _leaf_evidence(nearest, variances, widths, masses)
    found = [_divided(leaves, widths, near, shape) for shape in _SHAPES]
    log_evidence = np.array([math.log(shape.likely) + one for shape, (_, one) in zip(_SHAPES, found, strict=True)])
    weights = np.exp(log_evidence - log_evidence.max())
    means = np.tensordot(weights, np.stack([one for one, _ in found]), axes=1) @ masses
    return np.asarray(means * (total / means.sum()))


def _divided(leaves: Matrix, widths: Vector, near: int, shape: _Shape) -> tuple[Matrix, float]:
    """Return the posterior of every leaf's units under one shape, and the log evidence of the shape."""
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
