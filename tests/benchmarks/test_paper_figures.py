"""Figures of three papers: rows come from the models, and each column of a table is what its heading says."""

from __future__ import annotations

import math
from dataclasses import replace

import em_errors
import numpy as np
import pytest
import random_feature_figures
import sos_moons
import who_pays
from em_by_hand import log_likelihood

from synth.privacy.more.em_models import MissingCovariates

SMALL = {name: em_errors.Setting(name, n=4000, d=3, steps=6, epsilon=4.0) for name in em_errors.KINDS}


@pytest.mark.parametrize("name", SMALL)
def test_rows_are_drawn_from_the_model(name):
    rows, beta, start, noise = em_errors.problem(SMALL[name])
    assert np.linalg.norm(beta) == pytest.approx(1.0)
    assert np.linalg.norm(start - beta) == pytest.approx(em_errors.DISTANCE)
    assert noise == pytest.approx(1 / em_errors.SIGNAL_TO_NOISE)
    exact = em_errors.KINDS[name](noise, as_printed=False)
    # At the truth the likelihood is higher than around it, and its gradient is nothing but sampling error.
    here = log_likelihood(exact, rows, beta)
    assert all(
        log_likelihood(exact, rows, beta + move) < here for move in 0.2 * np.concatenate([np.eye(3), -np.eye(3)])
    )
    assert np.abs(exact.gradients(rows, beta).mean(axis=0)).max() < 6 / math.sqrt(4000)


@pytest.mark.parametrize("name", SMALL)
def test_every_algorithm_starts_alike_and_em_ends_near_the_truth(name):
    found = em_errors.errors(SMALL[name])
    assert set(found) == set(em_errors.ALGORITHMS) - (set() if name == "GMM" else {"Algorithm 3, exact"})
    for path in found.values():
        assert len(path) == 7
        assert path[0] == pytest.approx(em_errors.DISTANCE)
    assert found[em_errors.EXACT_EM][-1] < 0.1
    # The same draws, scaled: less noise is less error.
    assert found["Algorithm 2, exact"][-1] < found["Algorithm 2, paper"][-1]


def test_less_epsilon_is_more_error_and_a_seed_repeats():
    setting = SMALL["GMM"]
    tight = em_errors.errors(replace(setting, epsilon=0.2))
    assert tight["Algorithm 1"][-1] > em_errors.errors(setting)["Algorithm 1"][-1]
    assert tight == em_errors.errors(replace(setting, epsilon=0.2))
    assert tight != em_errors.errors(replace(setting, epsilon=0.2, seed=1))


def test_a_tenth_of_covariates_is_missing():
    rows, *_ = em_errors.problem(em_errors.Setting("RMC", n=20_000, d=4))
    assert float((rows[:, 4:8] == 0).mean()) == pytest.approx(em_errors.MISSING, abs=0.01)
    assert isinstance(em_errors.KINDS["RMC"](1.0), MissingCovariates)


def linear(rows: int, random: np.random.Generator) -> random_feature_figures.Split:
    x = random.random((rows, 2))
    y = x @ np.array([0.5, 0.3])
    half = rows // 2
    return x[:half], y[:half], x[half:], y[half:]


def test_columns_of_the_regression_table():
    random = np.random.default_rng(0)
    found = random_feature_figures.measured_errors(
        linear(200, random), 600, np.random.default_rng(1), epsilon=1.0, spread=2.0, pinv=True
    )
    assert found["pinv"] < 1e-4 < found["mean"]
    assert found["pinv"] < found["plain"]
    # Noise in the code's scale, and larger by N / 2 |y|^2 in the variance as printed.
    ratio = (found["printed"] - found["plain"]) / (found["code"] - found["plain"])
    length = float(np.linalg.norm(linear(200, np.random.default_rng(0))[1]))
    assert ratio == pytest.approx(300 * length**2, rel=0.5)
    assert found["gamma"] > 20 * found["code"]
    assert found["SGD 1/m, noise"] > found["SGD 1/4m, noise"] > found["SGD 1/16m"]


@pytest.mark.parametrize("name", ["f1", "f2"])
def test_labels_of_test_functions_have_length_1_with_those_of_the_test_rows(name):
    x, y, test_x, test_y = random_feature_figures.synthetic_split(name, 30, 20, np.random.default_rng(0))
    assert (x.shape, test_x.shape) == ((30, 5), (20, 5))
    assert float(y @ y + test_y @ test_y) == pytest.approx(1.0)


def test_moons_are_fitted_better_than_by_a_kernel_density_estimate_of_the_same_width():
    fit = sos_moons.fitted(0, sigma_squared=0.3, penalty=1e-3, support=25)
    assert fit.density.points.shape == (25, 2)
    assert fit.density.box_mass(np.full(2, -9.0), np.full(2, 9.0)) == pytest.approx(1.0, abs=1e-6)
    assert sos_moons.score(fit.density, 0) > sos_moons.kernel_score(0.3, 0) + 0.2


@pytest.mark.thorough
def test_gaps_are_what_many_draws_tend_to_and_a_hundred_do_not_show():
    random = np.random.default_rng(0)
    features, first = random.standard_normal((60, 5)), np.arange(60) < 20
    features[first] *= 1.5
    exact = who_pays.gaps(features, first, 0.3)
    drawn = who_pays.drawn_gaps(features, random.standard_normal(60), first, 0.3, random, 200_000)
    assert drawn == pytest.approx(exact, rel=0.05)
    # Groups weigh by their size: what one has more, the other has less.
    assert 20 * exact[0] == pytest.approx(40 * exact[1])


def test_columns_are_scaled_within_each_group():
    x, first = np.array([[1.0, 5.0], [3.0, 5.0], [10.0, 0.0], [30.0, 1.0]]), np.array([True, True, False, False])
    found = who_pays.scaled_by_group(x, first)
    assert found.tolist() == [[0.0, 0.0, 1.0], [1.0, 0.0, 1.0], [0.0, 0.0, 1.0], [1.0, 1.0, 1.0]]
