"""Noisy counts of nested intervals: put together by least squares, then made possible without inventing spikes.

The places of an ordered column are the leaves of a binary tree: the nodes of depth d are the intervals between
floor(j K / 2^d), so every depth divides the one above. Some depths were counted with noise, each cell of a depth with
the same; all of it is post-processing of those counts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr

from synth.generators.faint_counts import UNITS, divide_faint

__all__ = ["NestedCounts", "bottom_depth", "nearest_masses", "node_starts", "split_evenly"]

Vector = NDArray[np.float64]

_TOGETHER = 5
"""Depth whose nodes are divided together where counts are not clear."""

_UNIT_OF_NOISE = 4 / 3
"""Widest unit of mass, in standard deviations of the noise, that divides cells together without loss."""

_SMOOTH = (0.0, 0.03, 0.12)
"""Prior spreads of a node's left share around the even one; 0 is exactly even."""

_PRIOR = np.array([0.05, 0.05, 0.60, 0.15, 0.10, 0.05])
"""Prior probabilities: all mass right, all left, then the spreads of ``_SMOOTH``, then anything."""

_PRIOR_NODES = 8.0
"""How many nodes the prior is worth when a depth's own nodes say otherwise."""

_ROUNDS = 6


def bottom_depth(places: int) -> int:
    """Return the first depth at which every node holds at most one place."""
    return max(places - 1, 0).bit_length()


def node_starts(places: int, depth: int) -> NDArray[np.int64]:
    """Return the first place of every node of a depth, and the number of places at the end: shape (2^depth + 1,)."""
    return np.asarray((np.arange(2**depth + 1, dtype=np.int64) * places) >> depth)


@dataclass(frozen=True, slots=True, eq=False)
class NestedCounts:
    """What noisy counts of several depths say together, for every node of the tree.

    Attributes
    ----------
    places : int
        Number of leaves that hold a place.
    values, variances : tuple of arrays, one per depth from the root, shape (2^depth,)
        Best estimate of a node's count from its own subtree, and its variance, in rows; 0 and 0 for a node that holds
        nothing.
    """

    places: int
    values: tuple[Vector, ...]
    variances: tuple[Vector, ...]

    @classmethod
    def combine(cls, places: int, answers: Mapping[int, tuple[Vector, Vector]]) -> NestedCounts:
        """Average a node's own count with the sum of its children, from the leaves up, by inverse variance.

        Parameters
        ----------
        places : int
        answers : mapping of depth to (noisy counts of its nodes that hold a place, their variances)
            The bottom depth must be among them. A place of variance 0 holds nothing.
        """
        bottom = bottom_depth(places)
        values, variances = _spread(places, bottom, *answers[bottom])
        levels = [(values, variances)]
        for depth in range(bottom - 1, -1, -1):
            values, variances = values.reshape(-1, 2).sum(axis=1), variances.reshape(-1, 2).sum(axis=1)
            if depth in answers:
                own, variance = _spread(places, depth, *answers[depth])
                both = variances + variance
                weight = np.divide(variances, both, out=np.zeros_like(variances), where=variances > 0)
                values, variances = values + weight * (own - values), variances * (1.0 - weight)
            levels.append((values, variances))
        levels.reverse()
        return cls(places, tuple(value for value, _ in levels), tuple(variance for _, variance in levels))

    @property
    def leaves(self) -> NDArray[np.int64]:
        """The leaf of every place."""
        return np.flatnonzero(np.diff(node_starts(self.places, len(self.values) - 1)))

    @property
    def total(self) -> tuple[float, float]:
        """Estimate of all places together, and its variance."""
        return float(self.values[0][0]), float(self.variances[0][0])

    def estimate(self, total: float) -> Vector:
        """Return the least squares counts of the places that add up to ``total``; of any sign, shape (places,)."""
        counts = np.array([total])
        for depth in range(1, len(self.values)):
            counts = _interleave(*self._split(depth, counts)[:2])
        return counts[self.leaves]

    def spread_of(self, groups: NDArray[np.int64], size: int) -> tuple[Vector, Vector]:
        """Return how the estimates of groups of places vary: with the total, and by themselves.

        Parameters
        ----------
        groups : array of shape (places,)
            Group of every place, from 0 to ``size`` - 1.

        Returns
        -------
        slope, variance : arrays of shape (size,)
            A group's estimate is ``slope`` times the total plus an independent error of that ``variance``.
        """
        slope = np.zeros((len(self.variances[-1]), size))
        slope[self.leaves, groups] = 1.0
        variance = np.zeros_like(slope)
        for depth in range(len(self.values) - 1, 0, -1):
            share, error = self._shares(depth)
            left, right = slope[::2], slope[1::2]
            variance = variance[::2] + variance[1::2] + error[:, None] * (left - right) ** 2
            slope = share[:, None] * left + (1.0 - share)[:, None] * right
        return slope[0], variance[0]

    def possible(self, total: float, widths: NDArray[np.int64], near: int = 0) -> Vector:
        """Return counts of the places that add up to ``total``, none negative.

        From the root down, the share of a node's mass that goes left is the mean of its posterior under a prior that
        mixes: nothing, everything, evenly by width, nearly evenly, anything. How often each happens is learned from the
        nodes of the depth. So a difference that noise explains leaves a node flat, and what noise cannot explain stays.
        Where even the widest cells are not clear, they are divided together.

        Parameters
        ----------
        total : float
            Mass to divide, in rows, not negative.
        widths : array of shape (places,)
            Number of codes in each place, 0 where it holds nothing.
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
        """Return a depth and its masses: the root, or a few nodes divided together where counts are not clear."""
        top = min(_TOGETHER, len(self.values) - 1)
        noise = math.sqrt(float(self.variances[top].max()))
        if total <= 0 or total > _UNIT_OF_NOISE * UNITS * noise:
            return 0, np.array([total])
        leaf = int(self.leaves[near]) >> (len(self.values) - 1 - top)
        widths = leaf_widths.reshape(2**top, -1).sum(axis=1)
        return top, divide_faint(self.values[top], self.variances[top], widths, total=total, near=leaf)

    def _shares(self, depth: int) -> tuple[Vector, Vector]:
        """Return, for the parents of a depth, the part of a correction that goes left, and the error of the split."""
        left, right = self.variances[depth][::2], self.variances[depth][1::2]
        both = left + right
        share = np.divide(left, both, out=np.zeros_like(both), where=both > 0)
        return share, share * right

    def _split(self, depth: int, parents: Vector) -> tuple[Vector, Vector, Vector]:
        share, error = self._shares(depth)
        left, right = self.values[depth][::2], self.values[depth][1::2]
        corrected = left + share * (parents - left - right)
        return corrected, parents - corrected, error


def nearest_masses(counts: Vector, variances: Vector, total: float) -> Vector:
    """Return the masses of sum ``total``, none negative, nearest to counts in units of their variances."""
    # The solution is max(counts - t * variances, 0): sort by where each count reaches zero.
    order = np.argsort(-counts / variances)
    excess = (np.cumsum(counts[order]) - total) / np.cumsum(variances[order])
    kept = max(int(np.count_nonzero(counts[order] / variances[order] > excess)), 1)
    masses = np.maximum(counts - excess[kept - 1] * variances, 0.0)
    return np.asarray(masses * (total / masses.sum())) if total > 0 else np.zeros_like(counts)


def split_evenly(mass: Vector, left: Vector, std: Vector, even: Vector) -> Vector:
    """Return the posterior mean of the mass on the left of each node.

    Parameters
    ----------
    mass, left, std, even : arrays of shape (nodes,)
        Mass of the node, noisy mass on its left, standard deviation of that noise, and the part that even density puts
        there; all masses in rows, ``mass`` and ``std`` positive.

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
    """Return mean and log marginal density where every division of the mass is equally likely."""
    # By symmetry, look at the side on which the tail probabilities are the larger, so that logarithms stay exact.
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


def _interleave(left: Vector, right: Vector) -> Vector:
    return np.stack([left, right], axis=1).reshape(-1)


def _spread(places: int, depth: int, counts: Vector, variance: Vector) -> tuple[Vector, Vector]:
    """Lay out counts over all nodes of a depth, those without a place included."""
    kept = np.diff(node_starts(places, depth)) > 0
    values, variances = np.zeros(2**depth), np.zeros(2**depth)
    values[kept], variances[kept] = counts, variance
    return values, variances
