"""Receipts of a run of sampled steps go through a certificate and its checks like all others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from bundle_making import COLUMNS, config_of

from synth.bundle.certificate import Certificate, certificate_from_bytes, certificate_to_bytes, certify
from synth.bundle.checks import _budget_problems, _receipt_problems
from synth.errors import PrivacyError
from synth.privacy.accounting import PrivacyBudget, units_left_beside
from synth.privacy.costs import gaussian_of_multiplier, gaussian_on_grid, mu_squared_of
from synth.privacy.more.sampled_runs import SAMPLING_DELTA_PART, noise_multiplier_of
from synth.privacy.receipt import PlannedCost, Receipt

CONFIG = config_of(COLUMNS[:3], row_count="private", domain_source={})
RATE, STEPS, WIDTH = 0.02, 200, 30
ADDED = CONFIG.delta * SAMPLING_DELTA_PART


def receipts() -> tuple[Receipt, Receipt]:
    """A count and a training that spend a whole budget."""
    budget = PrivacyBudget(CONFIG.epsilon, CONFIG.delta, CONFIG.schema.neighbours)
    units = units_left_beside(budget, ADDED)
    counted = PlannedCost.of_sum(gaussian_on_grid(12, 1.0, dimension=1, units=units // 10), 1)
    allowed = mu_squared_of(units - units // 10)
    multiplier = noise_multiplier_of(RATE, STEPS, mu_squared=allowed, additive_delta=ADDED)
    noise = gaussian_of_multiplier(18, 1.0, dimension=WIDTH, noise_multiplier=multiplier)
    trained = PlannedCost.of_sampled_run(noise, WIDTH * STEPS, sampling_rate=RATE, steps=STEPS, additive_delta=ADDED)
    count, training = (
        Receipt.of(cost, CONFIG.schema, query=query, source="dp-gan", sequence=sequence)
        for sequence, (query, cost) in enumerate([("rows", counted), ("training", trained)])
    )
    return count, training


def certified(paid: Sequence[Receipt]) -> Certificate:
    return certify(
        paid,
        delta=CONFIG.delta,
        neighbours=CONFIG.schema.neighbours,
        unit=CONFIG.schema.unit,
        account=CONFIG.account,
        generator="dp-gan",
        options={},
        rows=10,
        seed=1,
    )


def test_a_run_that_spends_its_budget_is_certified_and_checked() -> None:
    certificate = certified(receipts())
    assert 0.995 * CONFIG.epsilon < certificate.epsilon <= CONFIG.epsilon
    again = certificate_from_bytes(certificate_to_bytes(certificate))
    assert again == certificate
    assert list(_receipt_problems(again)) == []
    assert list(_budget_problems(CONFIG, again)) == []


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"additive_delta": ADDED * 1.5}, "does not follow from its sensitivity and noise"),
        ({"sampling_rate": RATE / 2}, "does not follow from its sensitivity and noise"),
        ({"steps": STEPS // 2}, "does not follow from its sensitivity and noise"),
        ({"slack": 0.0}, "leaves out a part of the cost of noise on a grid"),
        ({"rows_per_unit": 2}, "protects a different unit"),
    ],
)
def test_a_lie_about_a_training_fails_the_check(changes: dict[str, float], problem: str) -> None:
    count, training = receipts()
    forged = replace(certified((count, training)), receipts=(count, replace(training, **changes)))  # type: ignore[arg-type]
    found: list[str] = []
    try:
        found.extend(_receipt_problems(forged))
    except PrivacyError as refusal:  # composing refuses a receipt that states too little
        found.append(str(refusal))
    assert any(problem in one or "states a" in one for one in found), found


def test_the_part_of_delta_of_a_training_counts_as_spent() -> None:
    count, training = receipts()
    certificate = certified((count, training))
    without = replace(certificate, receipts=(count,))
    assert any("a receipt is missing" in one for one in _budget_problems(CONFIG, without))
    too_small = replace(training, mu_squared_units=training.mu_squared_units * 98 // 100)
    found = list(_budget_problems(CONFIG, replace(certificate, receipts=(count, too_small))))
    assert any("states less than its question cost" in one for one in found)
