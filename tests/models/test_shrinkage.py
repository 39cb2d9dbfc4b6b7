"""How far counts are trusted: posterior means by another way, and tables that say something or nothing."""

from __future__ import annotations

import numpy as np
import pytest

from synth.models.shrinkage import SpreadPrior, shrinkage_factors


def test_one_spread_is_the_normal_posterior_mean() -> None:
    believed = np.array([[0.0, 10.0], [40.0, 200.0]])
    kept = shrinkage_factors(believed + 5.0, believed, 8.0, SpreadPrior((0.3,), (1.0,)))
    variance = (0.3 * np.maximum(believed, 0.5)) ** 2
    np.testing.assert_allclose(kept, variance / (variance + 64.0))


def test_a_prior_that_learns_nothing_is_integrated_exactly() -> None:
    # Second algorithm: the posterior mean by a sum over a fine grid of true counts.
    spreads = SpreadPrior((0.2, 2.0), (0.7, 0.3), worth=1e12)
    believed, noise = 50.0, 20.0
    truth = np.linspace(-1500, 1600, 400_001)
    prior = sum(
        part * np.exp(-(((truth - believed) / (size * believed)) ** 2) / 2) / size
        for size, part in zip(spreads.sizes, spreads.likely, strict=True)
    )
    for count in (-10.0, 70.0, 180.0):
        weight = prior * np.exp(-(((count - truth) / noise) ** 2) / 2)
        mean = (weight @ truth) / weight.sum()
        kept = shrinkage_factors(np.array([count]), np.array([believed]), noise, spreads)[0]
        assert kept == pytest.approx((mean - believed) / (count - believed), rel=1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_a_table_of_noise_is_left_at_belief_and_one_that_tells_is_not(seed: int) -> None:
    random = np.random.default_rng(seed)
    believed = random.gamma(2.0, 50.0, (20, 20))
    noise = 30.0 * random.normal(size=believed.shape)
    far = believed * np.exp(random.normal(size=believed.shape))
    kept, errors = [], []
    for true in (believed, far):
        one = shrinkage_factors(true + noise, believed, 30.0, SpreadPrior())
        kept.append(one.mean())
        errors.append(np.abs(believed + one * (true + noise - believed) - true).sum() / np.abs(noise).sum())
    assert kept[0] < 0.25
    assert kept[1] > 0.55
    assert errors[0] < 0.3  # hardly any of the noise is left
    assert errors[1] < 0.95  # less than the noise, and less than half of what belief alone is off by
    assert errors[1] * np.abs(noise).sum() < np.abs(far - believed).sum() / 2


def test_a_cell_that_stands_out_is_taken_at_its_word() -> None:
    believed = np.full(100, 50.0)
    table = believed + 10.0 * np.random.default_rng(0).normal(size=100)
    table[3] = 900.0
    kept = shrinkage_factors(table, believed, 10.0, SpreadPrior())
    assert kept[3] > 0.95
    assert np.delete(kept, 3).mean() < 0.4
