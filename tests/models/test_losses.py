"""Losses whose gradients are bounded: slopes are derivatives, no gradient is longer than its clip, descent by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from models_reference import beside_others

from synth.errors import InputError
from synth.models.losses import HUBER, HUBER_WIDTH, LOGISTIC, LOSSES, SQUARED, averaged_descent, row_gradients
from synth.models.random_features import fourier_features, linear_features

RANDOM = np.random.default_rng(0)
PREDICTIONS, LABELS = RANDOM.uniform(-2, 2, 60), RANDOM.choice([0.0, 1.0], 60)
FEATURES = fourier_features(RANDOM.random((60, 2)), 3 * RANDOM.standard_normal((4, 2)))


@pytest.mark.parametrize("loss", LOSSES.values(), ids=list(LOSSES))
def test_slopes_are_derivatives_and_curvatures_bound_them(loss):
    step = 1e-6
    above, below = (loss.value(PREDICTIONS + move, LABELS) for move in (step, -step))
    np.testing.assert_allclose(loss.slope(PREDICTIONS, LABELS), (above - below) / (2 * step), atol=1e-6)
    wide = np.linspace(-4, 4, 4001)
    bends = np.diff(loss.slope(wide, np.zeros(4001))) / np.diff(wide)
    assert bends.max() <= loss.curvature * (1 + 1e-9)
    assert bends.max() > 0.99 * loss.curvature
    assert (loss.value(PREDICTIONS, LABELS) >= 0).all()


def test_slopes_are_bounded_by_themselves_where_it_is_said():
    far = np.array([-1e9, -5.0, 5.0, 1e9])
    assert np.abs(LOGISTIC.slope(far, np.array([0.0, 1.0, 0.0, 1.0]))).max() <= 1.0
    assert np.abs(HUBER.slope(far, np.zeros(4))).max() == HUBER_WIDTH
    assert np.abs(SQUARED.slope(far, np.zeros(4))).max() == 1e9


@pytest.mark.parametrize("loss", LOSSES.values(), ids=list(LOSSES))
@pytest.mark.parametrize("clip", [1e-3, 0.25, 3.0])
def test_no_row_has_a_gradient_longer_than_the_clip(loss, clip):
    for scale in (0.1, 1.0, 1e6, 1e200):
        found = row_gradients(FEATURES, LABELS, scale * np.ones(8), loss=loss, clip=clip)
        assert np.linalg.norm(found, axis=1).max() <= clip * (1 + 1e-14)
    assert np.linalg.norm(row_gradients(FEATURES, LABELS, 1e6 * np.ones(8), loss=SQUARED, clip=clip), axis=1).max() > (
        0.99 * clip
    )


def test_gradients_are_those_of_the_mean_loss_where_nothing_is_clipped():
    coefficients = RANDOM.standard_normal(8)
    for loss in LOSSES.values():
        found = row_gradients(FEATURES, LABELS, coefficients, loss=loss, clip=1e6).mean(axis=0)
        for place, move in enumerate(1e-6 * np.eye(8)):
            above, below = (loss.value(FEATURES @ (coefficients + sign * move), LABELS).mean() for sign in (1, -1))
            assert found[place] == pytest.approx((above - below) / 2e-6, abs=1e-8)


def test_a_row_has_the_same_bits_beside_any_others():
    table = np.concatenate([RANDOM.random((40, 3)), RANDOM.choice([0.0, 1.0], (40, 1))], axis=1)

    def of_rows(rows: np.ndarray) -> np.ndarray:
        features = linear_features(rows[:, :3])
        return np.concatenate(
            [row_gradients(features, rows[:, 3], np.array([3.0, -1.0, 0.7, 0.2]), loss=loss, clip=0.3)
             for loss in LOSSES.values()],
            axis=1,
        )  # fmt: skip

    alone = of_rows(table)
    for others, which in beside_others(table, np.random.default_rng(1)):
        assert (of_rows(others)[: len(which)] == alone[which]).all()


def test_predictions_that_are_no_numbers_add_nothing():
    found = row_gradients(
        np.array([[1.0, 0.0], [0.0, 1.0]]), np.zeros(2), np.array([np.nan, 1.0]), loss=SQUARED, clip=1.0
    )
    assert np.isfinite(found).all()
    with pytest.raises(InputError, match="clip"):
        row_gradients(FEATURES, LABELS, np.zeros(8), loss=SQUARED, clip=math.inf)


@pytest.mark.parametrize("steps", [1, 4, 5])
def test_descent_by_hand(steps):
    target = np.array([1.0, -2.0])
    found, asked = averaged_descent(lambda c: c - target, features=2, rate=0.3, steps=steps)
    now, path = np.zeros(2), []
    for _ in range(steps):
        path.append(now)
        now = now - 0.3 * (now - target)
    path.append(now)
    np.testing.assert_allclose(asked, path[:-1])
    np.testing.assert_allclose(found, np.mean(path[steps // 2 + 1 :], axis=0))
    with pytest.raises(InputError, match="steps"):
        averaged_descent(lambda c: c, features=2, rate=1.0, steps=0)
