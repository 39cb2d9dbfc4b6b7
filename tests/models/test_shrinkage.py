"""How far counts are trusted: posterior means by another way, and tables that say something or nothing, and orders."""

from __future__ import annotations

import numpy as np
import pytest

from synth.models.shrinkage import SpreadPrior, _divided, shrinkage_factors, smoothed_along_order


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


def by_class(kind: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return counts by class of a spike and a tail of 30 faint bins, what is believed of the rows, and the shares."""
    share = {"tail of one class": np.r_[0.2, np.zeros(10), np.ones(20)], "unrelated": np.full(31, 0.4)}[kind]
    rows = np.r_[20_000.0, np.full(30, 90.0)]
    true = np.stack([rows * (1 - share), rows * share], axis=1)
    return true, rows, true.sum(axis=0) / true.sum()


@pytest.mark.parametrize("kind", ["tail of one class", "unrelated"])
def test_faint_bins_of_one_class_count_together_and_noise_in_unrelated_ones_is_left_out(kind: str) -> None:
    true, rows, shares = by_class(kind)
    random = np.random.default_rng(0)
    errors = np.zeros(3)
    for _ in range(10):
        table = true + 40.0 * random.normal(size=true.shape)
        believed = np.outer(rows, shares)
        alone = believed + shrinkage_factors(table, believed, 40.0) * (table - believed)
        smooth = smoothed_along_order(table, np.outer(rows, shares), 40.0, ordered=31)
        assert (smooth >= 0).all()
        errors += [np.abs(one - true)[1:].mean() for one in (table, alone, smooth)]
    assert errors[2] < 0.6 * errors[0]
    if kind == "tail of one class":
        assert errors[2] < 0.6 * errors[1]


def test_next_to_no_noise_changes_no_count() -> None:
    true, rows, shares = by_class("tail of one class")
    np.testing.assert_allclose(
        smoothed_along_order(true, np.outer(rows, shares), 1e-4, ordered=31),
        true,
        atol=1e-2,
    )


def test_bins_without_an_order_are_shrunk_one_by_one() -> None:
    true, rows, shares = by_class("tail of one class")
    table = true + 40.0 * np.random.default_rng(1).normal(size=true.shape)
    held = rows + shrinkage_factors(table.sum(axis=1), rows, 40.0 * np.sqrt(2)) * (table.sum(axis=1) - rows)
    believed = np.outer(np.maximum(held, 0.0), shares) + 1e-6
    alone = np.maximum(believed + shrinkage_factors(table, believed, 40.0) * (table - believed), 0.0)
    smooth = smoothed_along_order(table, np.outer(rows, shares), 40.0, ordered=0)
    np.testing.assert_allclose(smooth, alone)


def test_a_range_is_divided_by_the_least_squares_of_all_counts_given_its_rows() -> None:
    # Second algorithm: rows that are known differ from the sum of counts, and each count takes an equal part of that.
    table = 1e5 + 1e4 * np.random.default_rng(2).normal(size=(5, 2))
    before = np.concatenate([np.zeros((1, 2)), np.cumsum(table, axis=0)])
    held = table.sum(axis=0) + np.array([900.0, -400.0])
    belief = np.cumsum(np.vstack([np.zeros((1, 2)), np.full((5, 2), 1e5)]), axis=0)
    trusting = SpreadPrior((1e6,), (1.0,))
    halves, _ = _divided([(0, 5, held)], before, belief, 30.0, trusting)
    even = table + (held - table.sum(axis=0)) / 5
    assert {(first, end) for first, end, _ in halves} in ({(0, 2), (2, 5)}, {(0, 3), (3, 5)})
    for first, end, rows in halves:
        np.testing.assert_allclose(rows, even[first:end].sum(axis=0), rtol=1e-9)
