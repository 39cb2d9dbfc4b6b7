"""Ceilings from receipts, and the test against them: silent where the proof is just kept, loud where it is broken."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from attacked import people_schema, promised
from scipy.stats import binom

from synth.privacy.ceilings import auc_ceiling, gaussian_auc, gaussian_true_positive
from synth.reports.attack_statistics import area_under_curve
from synth.reports.proven_ceiling import ProvenCeiling, _at_least
from synth.schema import Neighbours, RowCountRule

RULES: tuple[RowCountRule, ...] = ("public", "private")


def worst_scores(mu: float, n: int, *, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Scores of an attacker who does as well against mu-GDP as can be done, on each of many units."""
    random = np.random.default_rng(seed)
    return random.normal(mu, 1.0, size=n), random.normal(0.0, 1.0, size=n)


def test_the_lower_of_two_proofs_counts() -> None:
    ceiling = promised(people_schema())
    assert ceiling.mu == pytest.approx(0.07**0.5)
    assert ceiling.area == pytest.approx(gaussian_auc(ceiling.mu), rel=1e-9)
    assert ceiling.caught(0.01) == pytest.approx(gaussian_true_positive(ceiling.mu, 0.01), rel=1e-9)
    strict = replace(ceiling, epsilon=0.01)
    assert strict.area == auc_ceiling(0.01, ceiling.delta)
    assert strict.caught(0.01) < ceiling.caught(0.01)


def test_slack_and_additive_deltas_raise_the_ceiling() -> None:
    ceiling = promised(people_schema())
    (receipt,) = ceiling.receipts
    slack = replace(ceiling, receipts=(replace(receipt, slack=0.001),))
    additive = replace(ceiling, receipts=(replace(receipt, additive_delta=0.001),))
    assert ceiling.area < slack.area < 1.01 * ceiling.area
    assert additive.area == pytest.approx(ceiling.area + 0.001)
    assert additive.caught(0.01) == pytest.approx(ceiling.caught(0.01) + 0.001)


def test_without_receipts_nothing_is_proven_and_nothing_is_exceeded() -> None:
    nothing = ProvenCeiling(1.0, 1e-5, ())
    assert (nothing.is_about_units, nothing.area, nothing.caught(0.01)) == (False, 1.0, 1.0)
    assert not nothing.is_exceeded(np.ones(500), np.zeros(500), level=1e-4, seed=0)
    (receipt,) = promised(people_schema()).receipts
    object.__setattr__(receipt, "neighbours", Neighbours.CELL)
    cells = ProvenCeiling(1.0, 0.0, (receipt,))
    assert (cells.is_about_units, cells.area) == (False, 1.0)


@pytest.mark.parametrize("rule", RULES)
def test_the_best_attack_on_an_honest_release_is_not_accused(rule: RowCountRule) -> None:
    ceiling = promised(people_schema(row_count=rule))
    for seed in range(20):
        assert not ceiling.is_exceeded(*worst_scores(ceiling.mu, 3000, seed=seed), level=0.05, seed=seed)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("n", [60, 3000])
def test_copies_are_accused(rule: RowCountRule, n: int) -> None:
    ceiling = promised(people_schema(row_count=rule))
    members, others = np.zeros(n), -np.random.default_rng(1).random(n)
    assert ceiling.is_exceeded(members, others, level=5e-5, seed=0)
    # A tenth of the members copied is enough where there are many.
    few = np.where(np.arange(n) < n // 10, 0.0, -np.random.default_rng(2).random(n))
    assert ceiling.is_exceeded(few, others, level=5e-5, seed=0) == (n == 3000)


def test_a_loose_promise_allows_what_a_strict_one_does_not() -> None:
    schema = people_schema()
    members, others = worst_scores(1.5, 3000, seed=3)
    assert area_under_curve(members, others) > 0.8
    assert promised(schema).is_exceeded(members, others, level=1e-4, seed=0)
    assert not promised(schema, mu_squared=2.25).is_exceeded(members, others, level=1e-4, seed=0)


@pytest.mark.parametrize("rule", RULES)
def test_equal_scores_are_guesses_by_lot(rule: RowCountRule) -> None:
    ceiling = promised(people_schema(row_count=rule))
    assert not ceiling.is_exceeded(np.zeros(2000), np.zeros(2000), level=0.05, seed=0)
    assert not ceiling.is_exceeded(np.zeros(0), np.zeros(0), level=0.05, seed=0)


def test_the_tail_of_a_binomial_is_exact() -> None:
    for right, guessed in itertools.product((0, 1, 7, 10), (10, 40)):
        if right <= guessed:
            assert _at_least(right, guessed, 0.73) == pytest.approx(binom.sf(right - 1, guessed, 0.73), rel=1e-9)
