"""The cost of a run together with the finding that filled its configuration: stated as one release."""

from __future__ import annotations

from synth.privacy.accounting import COORDINATE_ALLOWANCE, SLACK_ALLOWANCE, epsilon_of, mu_of_budget
from synth.privacy.costs import mu_squared_of, total_up
from synth.privacy.receipt import GAUSSIAN, Receipt
from synth.schema import FoundReference, RunConfig

__all__ = ["epsilon_together", "reference_of"]


def epsilon_together(config: RunConfig) -> float:
    """Return the largest epsilon that a certificate of this configuration states: budget and finding together.

    Both are added exactly at the delta of the configuration, which is less than the sum of the two epsilons, except for
    a tiny finding at a large delta (1e-3), whose allowances can make it a little more.
    """
    found = config.found
    if found is None:
        return config.epsilon
    return epsilon_of(
        mu_of_budget(config.epsilon, config.delta) ** 2 + mu_squared_of(found.mu_squared_units),
        config.delta,
        slack=SLACK_ALLOWANCE + found.slack,
        coordinates=COORDINATE_ALLOWANCE + found.coordinates,
        additive_delta=found.additive_delta,
    )


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
