"""Features that are no longer than 1, and solvers against reference values and each other."""

from __future__ import annotations

import numpy as np
import pytest
from models_reference import TOLERANCE, furthest, reference
from published_regression import cosine_features, kaczmarz, least_norm

from synth.estimators.random_features.fitting import ridge_of_moments
from synth.models.sos_density import fourier_features

GIVEN, CERTIFIED = reference("dprfm"), reference("certified_regression")
X, Y, OMEGA, PHASES = (np.array(GIVEN[name]) for name in ("X", "y", "Omega", "b"))
OMEGA = OMEGA.T
FEATURES = cosine_features(X, OMEGA, PHASES)


def test_reference_values_of_interpolation():
    assert furthest(FEATURES, GIVEN["A_cos"]) < TOLERANCE
    found = least_norm(FEATURES, Y)
    assert furthest(found, GIVEN["coef_unscaled"]) < TOLERANCE
    assert furthest(cosine_features(np.array(GIVEN["X_test"]), OMEGA, PHASES) @ found, GIVEN["pred_test"]) < TOLERANCE
    np.testing.assert_allclose(FEATURES @ found, Y, atol=TOLERANCE)


def test_kaczmarz_tends_to_the_shortest_interpolant():
    found = kaczmarz(FEATURES, Y, np.random.default_rng(0), steps=20_000)
    assert furthest(found, GIVEN["coef_unscaled"]) < TOLERANCE
    # After a few steps it is still elsewhere.
    assert furthest(kaczmarz(FEATURES, Y, np.random.default_rng(0), steps=5), GIVEN["coef_unscaled"]) > 1e-3


def test_a_step_of_kaczmarz_solves_its_row():
    found = kaczmarz(FEATURES, Y, np.random.default_rng(0), steps=1)
    row = int(np.random.default_rng(0).integers(0, 5, size=1)[0])
    assert FEATURES[row] @ found == pytest.approx(Y[row])
    np.testing.assert_allclose(found, Y[row] * FEATURES[row] / (FEATURES[row] @ FEATURES[row]))


def test_reference_values_of_unit_features_and_ridge():
    features = fourier_features(X, OMEGA[:6])
    assert furthest(features, CERTIFIED["features_unit"]) < TOLERANCE
    assert furthest((features**2).sum(axis=1), CERTIFIED["row_norm2"]) < TOLERANCE
    found = ridge_of_moments(features.T @ features, features.T @ Y, penalty=CERTIFIED["ridge"]["lam"])
    assert furthest(found, CERTIFIED["ridge"]["coef"]) < TOLERANCE


def test_reference_values_of_the_moments_sensitivities():
    random, wanted = np.random.default_rng(0), CERTIFIED["sens"]
    rows = fourier_features(random.random((400, 2)) * 20, random.standard_normal((30, 2)))
    moments = np.einsum("ni,nj->nij", rows, rows).reshape(len(rows), -1)
    assert np.linalg.norm(moments, axis=1).max() == pytest.approx(wanted["AtA_addremove"], abs=TOLERANCE)
    apart = np.linalg.norm(moments[:200] - moments[200:], axis=1)
    assert apart.max() <= wanted["AtA_replace"]
    assert apart.max() > 0.99 * wanted["AtA_replace"]
    # Products with labels of at most B = 1, of either sign.
    products = np.where(random.random((400, 1)) < 0.5, -rows, rows)
    assert np.linalg.norm(products, axis=1).max() == pytest.approx(wanted["Aty_addremove_B"], abs=TOLERANCE)
    assert np.linalg.norm(rows[0] - -rows[0]) == pytest.approx(wanted["Aty_replace_B"], abs=TOLERANCE)


def test_negative_eigenvalues_of_noisy_moments_count_as_nothing():
    moments, products = np.diag([4.0, -9.0]), np.array([8.0, 3.0])
    np.testing.assert_allclose(ridge_of_moments(moments, products, penalty=2.0), [8 / 6, 3 / 2])
