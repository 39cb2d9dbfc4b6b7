"""Ceilings from receipts, and the test against them: silent where the proof is just kept, loud where it is broken."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from attacked import people_schema, promised
from scipy.stats import binom

from synth.privacy.accounting import mu_of_budget
from synth.reports.expected import promise_of
from synth.reports.membership.evidence import figures_of, numbers_of
from synth.reports.membership.inference import estimate_area, judged
from synth.reports.risk_bounds import (
    ProvenCeiling,
    _at_least,
    advantage_against_noise,
    auc_ceiling,
    gaussian_advantage,
    gaussian_auc,
    gaussian_true_positive,
    printed_ceiling,
)
from synth.reports.wording import number_text
from synth.schema import Neighbours, RowCountRule

RULES: tuple[RowCountRule, ...] = ("public", "private")


def worst_scores(mu: float, n: int, *, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Scores of an attacker who does as well against mu-GDP as can be done, on each of many units."""
    random = np.random.default_rng(seed)
    return random.normal(mu, 1.0, size=n), random.normal(0.0, 1.0, size=n)


def test_the_lower_of_two_proofs_counts_and_is_rounded_up_once() -> None:
    ceiling = promised(people_schema())
    mu = mu_of_budget(ceiling.epsilon, ceiling.delta)
    for found, exact in (
        (ceiling.area, gaussian_auc(mu)),
        (ceiling.caught(0.01), gaussian_true_positive(mu, 0.01)),
        (advantage_against_noise(1.0, 1e-5), gaussian_advantage(mu)),
    ):
        assert exact < found < exact + 0.00105
        assert found == round(found, 3)
    # A delta near 1 leaves the Gaussian curve nothing to add: the promise itself is the lower one.
    assert replace(ceiling, delta=0.5).area == printed_ceiling(auc_ceiling(1.0, 0.5))


@pytest.mark.parametrize("bound", [0.0, 0.02, 0.0271828, 0.5, 0.575, 0.5750001, 0.99951, 1.0])
def test_a_printed_ceiling_is_never_below_what_is_proven(bound: float) -> None:
    assert bound - 1e-11 <= printed_ceiling(bound) <= min(1.0, bound + 0.001)
    assert printed_ceiling(printed_ceiling(bound)) == printed_ceiling(bound)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_every_place_that_speaks_of_the_ceiling_of_a_promise_says_the_same_number(epsilon: float) -> None:
    schema = people_schema()
    some, more = (replace(promised(schema, mu_squared=size), epsilon=epsilon) for size in (0.01, 0.069))
    # Shadow models and rehearsals have receipts of their own, which add up to a little more or less.
    assert (some.area, some.caught(0.01)) == (more.area, more.caught(0.01))
    forecast = promise_of(epsilon, some.delta)
    assert forecast.noise_caught == some.caught(0.01)
    result = judged(_Attack(), np.arange(400.0), np.arange(400.0) - 100, some, level=1e-9, seed=0)
    shown = [number_text(some.area), number_text(some.caught(0.01))]
    words = " ".join(sentence for _, _, _, _, sentence in numbers_of(result, some))
    pictures = figures_of([result], some, "real")
    for ceiling, bars, table in zip(shown, pictures[::2], pictures[1::2], strict=True):
        (line,) = [series for series in bars.series if series.meaning == "ceiling"]
        assert {number_text(value) for value in line.values} == {ceiling}
        assert number_text(table.rows[0][table.header.index("ceiling")]) == ceiling
    assert f"{shown[0]} (95 % interval" in words or f"at most {shown[0]}." in words


class _Attack:
    name, title, knows, caveat = "closest", "Closest record", "Nothing.", ""


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
        assert not ceiling.is_exceeded(*worst_scores(0.07**0.5, 3000, seed=seed), level=0.05, seed=seed)


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
    assert estimate_area(members, others).value > 0.8
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
