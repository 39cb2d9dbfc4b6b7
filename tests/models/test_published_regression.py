"""Private random features as published: reference values, and what shows that the claim does not hold."""

from __future__ import annotations

import math

import numpy as np
import pytest
from models_reference import TOLERANCE, reference
from published_regression import (
    claimed_noise_std,
    claimed_sensitivity,
    code_features,
    cosine_features,
    gamma_noise,
    gaussian_noise,
    least_norm,
    prediction_noise_variance,
    sgd,
    sgd_noise_std,
)

GIVEN = reference("dprfm")


@pytest.mark.parametrize("case", GIVEN["sigma_alg1"], ids=lambda case: f"{case['N']}-{case['eps']}")
def test_reference_values_of_the_noise(case):
    assert claimed_sensitivity(case["N"], eta=case["eta"]) == pytest.approx(case["Delta"], abs=TOLERANCE)
    found = claimed_noise_std(case["N"], epsilon=case["eps"], delta=case["delta"], eta=case["eta"])
    assert found == pytest.approx(case["sigma"], abs=TOLERANCE)


@pytest.mark.parametrize("case", GIVEN["pred_noise_var_alg1_unscaled_complex_features"], ids=lambda case: case["eps"])
def test_noise_of_a_prediction_does_not_fall_with_the_number_of_features(case):
    given = {"epsilon": case["eps"], "delta": case["delta"], "eta": case["eta"]}
    assert prediction_noise_variance(**given) == pytest.approx(case["var"], rel=1e-12)
    # A complex feature has modulus 1, so N of them times the variance of a coefficient is the noise of a prediction.
    for features in (100, 10_000):
        assert features * claimed_noise_std(features, **given) ** 2 == pytest.approx(case["var"], rel=1e-12)


def test_scaled_features_have_other_coefficients_and_the_same_predictions():
    x, frequencies, phases = np.array(GIVEN["X"]), np.array(GIVEN["Omega"]).T, np.array(GIVEN["b"])
    scaled = least_norm(code_features(x, frequencies, phases), np.array(GIVEN["y"]))
    np.testing.assert_allclose(scaled, GIVEN["coef_scaled_sqrt2overN"], atol=TOLERANCE)
    # Longer by sqrt(N / 2), with noise as for the shorter ones.
    np.testing.assert_allclose(scaled, math.sqrt(12 / 2) * np.array(GIVEN["coef_unscaled"]), atol=TOLERANCE)


def test_one_changed_label_moves_the_solution_by_any_number_of_claimed_sensitivities():
    """The attack on Lemma 6: two rows that almost agree, of which one label changes within its range."""
    random = np.random.default_rng(0)
    frequencies, phases = 5 * random.standard_normal((400, 2)), random.uniform(-math.pi, math.pi, 400)
    moved = []
    for apart in (1e-2, 1e-4, 1e-6):
        x = random.random((20, 2))
        x[1] = x[0] + apart
        features = cosine_features(x, frequencies, phases)
        labels = random.random(20) / 10
        other = labels.copy()
        other[1] += 0.1
        assert max(np.linalg.norm(labels), np.linalg.norm(other)) < 1
        change = np.linalg.norm(least_norm(features, labels) - least_norm(features, other))
        moved.append(change / claimed_sensitivity(400))
    assert moved[1] > 50 * moved[0] > 0
    assert moved[2] > 1000


def test_noises_have_their_laws():
    random, n = np.random.default_rng(0), 400
    gaussian = np.stack([gaussian_noise(n, random, epsilon=0.5, delta=1e-5) for _ in range(200)])
    assert gaussian.std() == pytest.approx(claimed_noise_std(n, epsilon=0.5, delta=1e-5), rel=0.02)
    lengths = [np.linalg.norm(gamma_noise(n, random, epsilon=0.5)) for _ in range(400)]
    assert np.mean(lengths) == pytest.approx(n * claimed_sensitivity(n) / 0.5, rel=0.02)
    assert np.std(lengths) == pytest.approx(math.sqrt(n) * claimed_sensitivity(n) / 0.5, rel=0.2)


def test_descent_by_hand():
    features, labels = np.array([[1.0, 0.0], [0.6, 0.8]]), np.array([1.0, -1.0])
    found, random = np.zeros(2), np.random.default_rng(3)
    for row in random.integers(0, 2, size=5):
        found = found - 0.25 * (found @ features[row] - labels[row]) * features[row]
    np.testing.assert_allclose(sgd(features, labels, np.random.default_rng(3), steps=5, rate=0.25), found)


def test_noise_of_descent():
    m, rate = 1000, 1 / 1000
    x = 3 * math.log(2 * m / 1e-5)
    wanted = 4 * math.e * rate**2 * 4 * (1 + x) * (2 + x)
    found = sgd_noise_std(m, steps=m, rate=rate, epsilon=0.5, delta=1e-5)
    assert found == pytest.approx(math.sqrt(2 * math.log(2.5e5)) * wanted / 0.5)
    # With many steps to a row the larger of the two terms is the root.
    assert sgd_noise_std(10, steps=10_000, rate=rate, epsilon=0.5, delta=1e-5) == pytest.approx(
        math.sqrt(2 * math.log(2.5e5)) / 0.5 * 4 * math.e * rate**2 * (1 + math.sqrt(10)) ** 2 * 1000
        * (1 + math.sqrt(0.003 * math.log(2e6))) * (1 + 1000 * (1 + math.sqrt(0.003 * math.log(2e6))))
    )  # fmt: skip
