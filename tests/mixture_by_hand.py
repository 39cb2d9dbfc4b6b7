"""Mixtures of products from their definitions: the exact E-step, and what is minimised if one is fitted to tables."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from synth.generators.mixture.dp_mixture import LEAST_PROBABILITY, MixtureState
from synth.models.marginals import NoisyMarginal
from synth.models.mixture_estimation import GroupedMarginals


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


def objective(
    weights: Tensor,
    bins: Sequence[Tensor],
    measured: Sequence[NoisyMarginal],
    grouped: GroupedMarginals | None,
    total: float,
    overlap: float,
) -> tuple[Tensor, Tensor]:
    """The chi-square of mixtures, and about how many nats they are from independent columns.

    Weights have the shape (..., K), the bins of a column (..., bins, K).
    """
    found = _chi_square(weights, bins, measured, total)
    if grouped is not None:
        coarse = [
            torch.stack(
                [one[..., torch.from_numpy(group == place), :].sum(dim=-2) for place in range(group.max() + 1)], -2
            )
            for one, group in zip(bins, grouped.groups, strict=True)
        ]
        found = found + _chi_square(weights, coarse, grouped.measured, total)
    return found, dependence(weights, bins, overlap)


def _chi_square(weights: Tensor, bins: Sequence[Tensor], measured: Sequence[NoisyMarginal], total: float) -> Tensor:
    found = torch.zeros_like(weights[..., 0])
    for one in measured:
        axes = "abcd"[: len(one.columns)]
        product = f"...k,{','.join(f'...{axis}k' for axis in axes)}->...{axes}"
        cells = torch.einsum(product, weights, *(bins[column] for column in one.columns))
        off = (total * cells - torch.from_numpy(one.table)) / one.noise_std
        found = found + off.square().flatten(-len(axes)).sum(dim=-1)
    return found


def dependence(weights: Tensor, bins: Sequence[Tensor], overlap: float) -> Tensor:
    """About how many nats a mixture is from independent columns: from the distances of its components, by pairs."""
    logs = [one.clamp_min(1e-300).log() for one in bins]
    within = sum((one * log).sum(dim=-2) for one, log in zip(bins, logs, strict=True))
    means = [(one * weights.unsqueeze(-2)).sum(dim=-1) for one in bins]
    of_columns = (within * weights).sum(dim=-1) - sum((one * one.clamp_min(1e-300).log()).sum(dim=-1) for one in means)
    # Minus the distance of component k from l, plus the log-weight of l.
    nearness = sum(one.mT @ log for one, log in zip(bins, logs, strict=True))
    nearness = nearness - within.unsqueeze(-1) + weights.log().unsqueeze(-2)
    return of_columns + overlap * (weights * nearness.logsumexp(dim=-1)).sum(dim=-1)
