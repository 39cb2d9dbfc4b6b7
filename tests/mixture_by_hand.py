"""The exact E-step of a mixture of products, from rows: what private steps and noisy sums are compared with."""

from __future__ import annotations

import numpy as np

from synth.generators.mixture.dp_mixture import LEAST_PROBABILITY, MixtureState


def responsibilities(numbers: np.ndarray, codes: np.ndarray, state: MixtureState) -> np.ndarray:
    """The probability of every component given each row, shape (n, K)."""
    scores = np.log(np.maximum(state.weights, LEAST_PROBABILITY)) - np.log(state.variances).sum(axis=1) / 2
    apart = numbers[:, None, :] - state.means
    scores = scores - (apart**2 / (2 * state.variances)).sum(axis=2)
    for column, table in enumerate(state.proportions):
        scores = scores + np.log(np.maximum(table, LEAST_PROBABILITY)).T[codes[:, column]]
    likely = np.exp(scores - scores.max(axis=1, keepdims=True))
    return likely / likely.sum(axis=1, keepdims=True)


def exact_sums(
    numbers: np.ndarray, codes: np.ndarray, state: MixtureState
) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[np.ndarray]]:
    """What ``maximise`` takes, without noise."""
    found = responsibilities(numbers, codes, state)
    counts = [
        np.stack([np.bincount(codes[:, column], one, table.shape[1]) for one in found.T])
        for column, table in enumerate(state.proportions)
    ]
    return found.sum(axis=0), found.T @ numbers, found.T @ (numbers**2 - 0.5), counts
