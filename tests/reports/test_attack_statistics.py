"""Areas, shares and intervals of attack scores: by definition, by simulation, and at their edges."""

from __future__ import annotations

import numpy as np
import pytest

from synth.reports.membership.inference import (
    caught_at,
    estimate_area,
    estimate_caught,
    null_ranges,
)


def scores(n: int, shift: float, *, seed: int, ties: bool = False) -> np.ndarray:
    drawn = np.random.default_rng(seed).normal(shift, 1.0, size=n)
    return np.rint(drawn) if ties else drawn


@pytest.mark.parametrize("ties", [False, True])
def test_the_area_is_the_share_of_pairs_in_order(ties: bool) -> None:
    members, others = scores(80, 0.4, seed=1, ties=ties), scores(60, 0.0, seed=2, ties=ties)
    pairs = np.sign(members[:, None] - others)
    estimate = estimate_area(members, others)
    assert estimate.value == pytest.approx(float((pairs + 1).mean() / 2))
    # The variance of DeLong 1988, equation (3), as it is written: over all pairs.
    wins = (pairs + 1) / 2
    variance = wins.mean(axis=1).var(ddof=1) / 80 + wins.mean(axis=0).var(ddof=1) / 60
    # A narrow interval is as wide in the area as in its logit.
    assert estimate.high - estimate.low == pytest.approx(2 * 1.959964 * variance**0.5, rel=0.02)


@pytest.mark.thorough
@pytest.mark.parametrize("shift", [0.0, 0.5, 1.5])
def test_the_interval_of_the_area_holds_the_truth_nineteen_times_in_twenty(shift: float) -> None:
    from scipy.stats import norm

    truth = norm.cdf(shift / 2**0.5)
    held = 0
    for seed in range(400):
        estimate = estimate_area(scores(60, shift, seed=2 * seed), scores(60, 0.0, seed=2 * seed + 1))
        held += estimate.low <= truth <= estimate.high
    assert 362 <= held <= 396  # 380 of 400; outside these in one of a million


def test_perfect_scores_of_a_few_are_not_certain() -> None:
    estimate = estimate_area(np.arange(50) + 100.0, np.arange(50.0))
    assert (estimate.value, estimate.high) == (1.0, 1.0)
    assert estimate.low == pytest.approx(1 - 3 / 50, abs=0.002)
    none = estimate_caught(np.zeros(50), np.ones(50), 0.01, seed=0)
    assert (none.value, none.low) == (0.0, 0.0)
    assert none.high == pytest.approx(0.071, abs=0.001)  # Clopper-Pearson for none of 50
    every = estimate_caught(np.ones(50), np.zeros(50), 0.01, seed=0)
    assert (every.value, every.high) == (1.0, 1.0)
    assert every.low == pytest.approx(0.929, abs=0.001)


def test_false_alarms_never_exceed_what_is_allowed() -> None:
    for n, allowed in ((50, 0), (99, 0), (100, 1), (1000, 10)):
        others = scores(n, 0.0, seed=n, ties=n == 100)
        members = np.concatenate([others, others])
        share = caught_at(members, others, 0.01)
        assert share * n <= allowed
        if n in (99, 1000):
            assert share == pytest.approx(allowed / n)


@pytest.mark.thorough
def test_the_interval_of_the_share_holds_the_truth() -> None:
    from scipy.stats import norm

    truth = norm.sf(norm.isf(0.01) - 1.0)
    held = 0
    for seed in range(30):
        estimate = estimate_caught(
            scores(1000, 1.0, seed=2 * seed), scores(1000, 0.0, seed=2 * seed + 1), 0.01, seed=seed
        )
        held += estimate.low <= truth <= estimate.high
    assert held >= 22


def test_the_null_is_what_guessing_makes() -> None:
    members, others = scores(800, 3.0, seed=5), scores(800, 0.0, seed=6)
    (low, high), caught = null_ranges(members, others, 0.01, seed=0)
    # However good the scores: the standard deviation of the area when nobody can tell is that of ranks.
    deviation = ((800 + 800 + 1) / (12 * 800 * 800)) ** 0.5
    assert low == pytest.approx(0.5 - 1.96 * deviation, abs=0.004)
    assert high == pytest.approx(0.5 + 1.96 * deviation, abs=0.004)
    # At most 8 of 800 are false alarms, give or take what the threshold and the draw do.
    assert 0.0 < caught[0] < 0.01 < caught[1] < 0.025
    assert null_ranges(members, others, 0.01, seed=0) == ((low, high), caught)
    before = members.copy()
    null_ranges(members, others, 0.01, seed=1)
    np.testing.assert_array_equal(members, before)
