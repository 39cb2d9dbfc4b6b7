"""A descent by hand: along what is asked, averaged over its later half."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from synth.errors import PrivacyError
from synth.estimators.random_features.fitting import RowFeatures, averaged_descent, by_descent, target_of_classes
from synth.privacy.more.gradients import GradientQuestion
from synth.privacy.more.linear_predictions import LARGEST_PREDICTION, largest_prediction
from synth.privacy.more.lookups import Lookup


@pytest.mark.parametrize("steps", [1, 4, 5])
def test_descent_by_hand(steps):
    target, asked = np.array([1.0, -2.0]), []

    def ask(coefficients: np.ndarray) -> np.ndarray:
        asked.append(coefficients)
        return coefficients - target

    found = averaged_descent(ask, features=2, rate=0.3, steps=steps)
    now, path = np.zeros(2), []
    for _ in range(steps):
        path.append(now)
        now = now - 0.3 * (now - target)
    path.append(now)
    np.testing.assert_allclose(asked, path[:-1])
    np.testing.assert_allclose(found, np.mean(path[steps // 2 + 1 :], axis=0))


@pytest.mark.parametrize("classes", [2, 3])
def test_noise_that_leads_out_of_reach_ends_no_descent(classes: int) -> None:
    """Every gradient can be asked for, however large the noise in the one before it was."""
    features = RowFeatures((Lookup("age", np.linspace(-1, 1, 12)[:, None]),))
    loss, target = target_of_classes("class", classes)
    asked: list[GradientQuestion] = []

    class Session:
        remaining_share = 1.0

        def noisy_gradient(self, question: GradientQuestion, **_: object) -> SimpleNamespace:
            asked.append(question)
            noise = np.random.default_rng(len(asked)).normal(size=question.dimension)
            return SimpleNamespace(gradient=1e9 * noise, noise_std=1e9)

    fit = by_descent(Session(), features, target, loss=loss, steps=6, n_rows=1.0, source="test")  # type: ignore[arg-type]
    assert len(asked) == 6
    assert np.isfinite(fit.coefficients).all()
    reached = [largest_prediction(features.map, one.parameters.reshape(target.dimension, -1).T) for one in asked]
    assert 0.9 * LARGEST_PREDICTION < max(reached) <= LARGEST_PREDICTION
    with pytest.raises(PrivacyError, match="Predictions could reach"):
        GradientQuestion(features.map, target, loss, 2 * asked[np.argmax(reached)].parameters, 1.0)
