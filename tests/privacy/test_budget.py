"""A budget states what it allows, and refuses what it cannot."""

from __future__ import annotations

import dataclasses
import math

import pytest

from synth.errors import PrivacyError
from synth.privacy.accounting import COORDINATE_ALLOWANCE, SLACK_ALLOWANCE, PrivacyBudget, epsilon_of
from synth.schema import Neighbours


def test_a_budget_knows_its_worth_in_mu_squared() -> None:
    budget = PrivacyBudget(1.0, 1e-5, Neighbours.REPLACE)
    assert budget.mu_squared == pytest.approx(3.7306316348159467**-2, rel=1e-4)
    spent = epsilon_of(budget.mu_squared, 1e-5, slack=SLACK_ALLOWANCE, coordinates=COORDINATE_ALLOWANCE)
    assert 0.9999 < spent <= 1.0


def test_a_budget_does_not_depend_on_the_relation() -> None:
    worth = {PrivacyBudget(0.5, 1e-6, neighbours).mu_squared for neighbours in Neighbours}
    assert len(worth) == 1


@pytest.mark.parametrize("epsilon", [-1.0, 0.0, math.inf, math.nan])
def test_an_impossible_epsilon_is_named(epsilon: float) -> None:
    with pytest.raises(PrivacyError, match=f"^epsilon must be positive and finite, got {epsilon}.$"):
        PrivacyBudget(epsilon, 1e-5, Neighbours.REPLACE)


@pytest.mark.parametrize("delta", [-0.1, 1.0, math.nan])
def test_an_impossible_delta_is_named(delta: float) -> None:
    with pytest.raises(PrivacyError, match=f"^delta must lie strictly between 0 and 1, got {delta}.$"):
        PrivacyBudget(1.0, delta, Neighbours.REPLACE)


def test_the_relation_is_a_type_and_not_a_text() -> None:
    with pytest.raises(PrivacyError, match=r"Neighbours\.ADD_REMOVE, Neighbours.REPLACE or Neighbours.CELL"):
        PrivacyBudget(1.0, 1e-5, "replace_one")


def test_a_budget_cannot_be_changed() -> None:
    budget = PrivacyBudget(1.0, 1e-5, Neighbours.REPLACE)
    with pytest.raises(dataclasses.FrozenInstanceError):
        budget.epsilon = 10.0
