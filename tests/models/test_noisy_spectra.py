"""Shrinkage by known noise: signal comes through, noise alone does not."""

from __future__ import annotations

import numpy as np
import pytest

from synth.models.class_gaussians import ClassGaussians, leading_directions, shrunk_covariances, shrunk_spread


def symmetric_noise(size: int, std: float, seed: int = 0) -> np.ndarray:
    noise = np.random.default_rng(seed).normal(size=(size, size)) * std
    return np.triu(noise, 1) + np.triu(noise, 1).T + np.diag(np.diag(noise)) * np.sqrt(2)


def test_directions_above_the_noise_are_found_with_their_variances() -> None:
    basis = np.linalg.qr(np.random.default_rng(1).normal(size=(200, 3)))[0]
    true = np.array([10.0, 6.0, 4.0])
    directions, variances = leading_directions((basis * true) @ basis.T + symmetric_noise(200, 0.1), 0.1, most=20)
    np.testing.assert_allclose(variances[:3], true, rtol=0.06)
    assert directions.shape[1] <= 5
    overlap = np.abs(np.diag(directions[:, :3].T @ basis))
    assert (overlap > 0.85).all()


def test_noise_alone_has_hardly_a_direction() -> None:
    directions, _ = leading_directions(symmetric_noise(150, 0.3), 0.3, most=20)
    assert directions.shape[1] <= 2
    assert leading_directions(-np.eye(5), 0.0, most=3)[1].tolist() == [0.0]


def test_the_spread_of_classes_is_kept_and_noise_is_taken_out() -> None:
    random = np.random.default_rng(2)
    true = random.normal(size=(10, 300))
    shrunk = shrunk_spread(true + 3 * random.normal(size=true.shape), 3.0)
    assert np.linalg.norm(shrunk) == pytest.approx(np.linalg.norm(true), rel=0.15)
    noise = shrunk_spread(random.normal(size=(10, 300)), 1.0)
    assert np.linalg.norm(noise) < 0.35 * np.sqrt(3000)
    assert not shrunk_spread(np.zeros((2, 3)), 1.0).any()


def test_covariances_are_possible_and_near_the_common_one_where_noise_is_large() -> None:
    common = np.diag([3.0, 2.0, 1.0, 0.5])
    true = np.diag([6.0, 1.0, 1.0, 0.5])
    noisy = np.stack([true + symmetric_noise(4, 0.01), common + symmetric_noise(4, 5.0, seed=3)])
    factors = shrunk_covariances(noisy, np.array([0.01, 5.0]), common, 0.1)
    made = factors @ factors.transpose(0, 2, 1)
    np.testing.assert_allclose(made[0], true, atol=0.06)
    assert np.linalg.eigvalsh(made[1]).min() >= 0.1 - 1e-9
    np.testing.assert_array_equal(factors, np.tril(factors))
    alone = shrunk_covariances(0.5 * common[None] + common[None] * 0.5, np.array([9.0]), common, 0.1)
    np.testing.assert_allclose(alone[0] @ alone[0].T, common, atol=1e-12)


@pytest.mark.parametrize("wide", [1e3, 1e9, 1e18])
@pytest.mark.parametrize("seed", range(5))
def test_covariances_are_possible_however_wide_noise_makes_one_of_them(wide: float, seed: int) -> None:
    noisy = wide * symmetric_noise(12, 1.0, seed=seed)[None]
    factor = shrunk_covariances(noisy, np.array([1e-9]), np.eye(12), 5e-10)[0]
    assert np.isfinite(factor).all()
    assert (np.diag(factor) > 0).all()


def test_drawn_vectors_have_the_means_and_covariances_of_their_class() -> None:
    directions = np.linalg.qr(np.random.default_rng(4).normal(size=(6, 2)))[0]
    factors = np.stack([np.diag([2.0, 1.0]), np.array([[1.0, 0.0], [0.5, 0.2]])])
    means = np.stack([np.zeros(6), np.arange(6.0)])
    model = ClassGaussians(np.array([0.5, 0.5]), means, directions, factors, np.full(6, 0.3))
    drawn = model.draw(np.repeat([0, 1], 40_000), np.random.default_rng(0))
    outside = 0.09 * (np.eye(6) - directions @ directions.T)
    for place in range(2):
        own = drawn[place * 40_000 : (place + 1) * 40_000]
        np.testing.assert_allclose(own.mean(axis=0), means[place], atol=0.05)
        wanted = directions @ factors[place] @ factors[place].T @ directions.T + outside
        np.testing.assert_allclose(np.cov(own.T), wanted, atol=0.08)
    again = ClassGaussians.from_state(model.state())
    draws = [one.draw(np.array([0, 1]), np.random.default_rng(1)) for one in (model, again)]
    np.testing.assert_array_equal(*draws)
