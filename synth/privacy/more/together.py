"""The cost of a run together with what was paid for before it, a finding and previews: stated as one release."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace

from synth.errors import PrivacyError
from synth.privacy.accounting import (
    COORDINATE_ALLOWANCE,
    SLACK_ALLOWANCE,
    PrivacyBudget,
    epsilon_of,
    mu_beside,
)
from synth.privacy.costs import mu_squared_of, total_up
from synth.privacy.receipt import GAUSSIAN, Receipt
from synth.schema import FoundReference, Neighbours, PreviewSpent, RunConfig

__all__ = ["budgets_of", "epsilon_left", "epsilon_together", "reference_of"]

_HALVINGS = 16


def epsilon_together(config: RunConfig, *, additive_delta: float = 0.0, at: float | None = None) -> float:
    """Return the largest epsilon that a certificate of this configuration states: budget, finding and previews.

    All are added exactly at the delta of the configuration, which is less than the sum of the epsilons, except for a
    tiny finding or preview at a large delta (1e-3), whose allowances can make it a little more. ``additive_delta`` is
    what the run's own answers add to delta, as a training on samples does. ``at`` is another delta at which to state
    what the same noise is worth; infinity where no epsilon is true there.
    """
    found, neighbours = config.found, config.schema.neighbours
    at = config.delta if at is None or neighbours is Neighbours.CELL else at  # a promise about one cell has no delta
    if found is None and not config.previews and at == config.delta:
        return config.epsilon
    own = mu_beside(config.epsilon, config.delta, additive_delta) ** 2
    previews = budgets_of(config.previews, neighbours)
    return epsilon_of(
        own
        + sum(one.mu_squared for one in previews)
        + (0.0 if found is None else mu_squared_of(found.mu_squared_units)),
        at,
        slack=SLACK_ALLOWANCE * (1 + len(previews)) + (0.0 if found is None else found.slack),
        coordinates=COORDINATE_ALLOWANCE * (1 + len(previews)) + (0 if found is None else found.coordinates),
        additive_delta=additive_delta + (0.0 if found is None else found.additive_delta),
    )


def epsilon_left(config: RunConfig, more: PrivacyBudget, *, additive_delta: float = 0.0) -> float:
    """Return the epsilon at which a run still states at most the configuration's, if more is spent before it.

    Rounded down to a hundredth of the configuration's epsilon, or less where that would be 0; 0 if nothing is left.
    """
    spent = PreviewSpent("0" * 16, more.epsilon, more.delta)
    beside = replace(config, previews=(*config.previews, spent))
    low, high = 0.0, config.epsilon
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if _fits(beside, middle, config.epsilon, additive_delta) else (low, middle)
    step = 10.0 ** (math.floor(math.log10(config.epsilon)) - 2)
    return max(round(math.floor(low / step) * step, 12), 0.0)


def _fits(config: RunConfig, epsilon: float, whole: float, additive_delta: float) -> bool:
    try:
        return epsilon_together(replace(config, epsilon=epsilon), additive_delta=additive_delta) <= whole
    except PrivacyError:  # too small for noise on a grid
        return False


def budgets_of(previews: Iterable[PreviewSpent], neighbours: Neighbours) -> tuple[PrivacyBudget, ...]:
    """Return what previews may have spent: each its whole budget, as the ledger counts it."""
    return tuple(PrivacyBudget(one.epsilon, one.delta, neighbours) for one in previews)


def reference_of(digest: str, epsilon: float, delta: float, receipts: tuple[Receipt, ...]) -> FoundReference:
    """Return the reference to a finding in a configuration: what was asked for, and the sums over its receipts."""
    return FoundReference(
        digest=digest,
        epsilon=epsilon,
        delta=delta,
        mu_squared_units=sum(receipt.mu_squared_units for receipt in receipts),
        slack=total_up(receipt.slack for receipt in receipts),
        coordinates=sum(receipt.dimension for receipt in receipts if receipt.mechanism in GAUSSIAN),
        additive_delta=total_up(receipt.additive_delta for receipt in receipts),
    )
