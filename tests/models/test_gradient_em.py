"""Algorithms 1-3: one step as recorded, loops written out by hand, and what the noise costs."""

from __future__ import annotations

import math

import numpy as np
import pytest
from models_reference import TOLERANCE, beside_others, furthest, reference
from published_em import (
    PublishedSetting,
    clip_rows,
    clipped_gradient_em,
    clipped_noise_std,
    em,
    gradient_em,
    truncated_em,
    truncated_gradient_em,
    truncated_mean,
)

from synth.errors import InputError
from synth.privacy.accounting import log_delta
from synth.privacy.more.em_models import GaussianPair
from synth.privacy.more.truncated_mean import gaussian_mu

CASES = reference("em_parameters")["cases"]
GIVEN = reference("em_gradients")
BETA, ROWS = np.array(GIVEN["beta"]), np.array(GIVEN["Y"])
MODEL = GaussianPair(math.sqrt(GIVEN["sigma2"]))
NOISE = np.random.default_rng(4).standard_normal((3, 4)) / 10


def setting(case, **changes) -> PublishedSetting:
    names = {"n": "n", "d": "d", "epsilon": "eps", "delta": "delta", "tau": "tau", "zeta": "zeta", "steps": "T"}
    return PublishedSetting(**{name: case[key] for name, key in names.items()} | changes)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"n={case['n']}")
def test_reference_values_of_the_constants_and_both_accountings(case):
    found = setting(case)
    noise = found.published_noise_std
    wanted = {
        "eps_tilde": found.epsilon_tilde,
        "s": found.scale,
        "beta": found.precision,
        "sigma_eq16": noise,
        "rho_total": found.mu(noise) ** 2 / 2,
        "gdp_mu": found.mu(noise),
        "exact_delta_of_paper_sigma": math.exp(log_delta(found.mu(noise), case["eps"])),
        "sigma_analytic": found.exact_noise_std(),
        "sens_replace_one_coord": found.sensitivity(),
        "sens_addremove_fixed_n_coord": found.sensitivity(replace_one=False),
        "noise_saving": 1 - found.exact_noise_std() / noise,
    }
    for name, value in wanted.items():
        # Some are as small as 3e-8: both ways of being near.
        assert value == pytest.approx(case[name], rel=1e-9, abs=0), name
        assert value == pytest.approx(case[name], rel=0, abs=TOLERANCE), name
    rho, digits = wanted["rho_total"], math.log(1 / case["delta"])
    assert rho + 2 * math.sqrt(rho * digits) == pytest.approx(case["eps_back"], abs=1e-10)


@pytest.mark.parametrize(("name", "wanted"), reference("certified_regression")["ana_sigma"].items())
def test_reference_values_of_the_exact_curve(name, wanted):
    epsilon, delta = map(float, name.split("_"))
    assert 1 / gaussian_mu(epsilon, delta) == pytest.approx(wanted, abs=TOLERANCE)


def test_the_second_variance_of_equation_16_is_another_one():
    case = CASES[0]
    found = setting(case)
    second = 4 * case["d"] * case["T"] * case["tau"] / (9 * case["n"] * found.precision**2 * found.epsilon_tilde)
    assert second / found.published_noise_std**2 == pytest.approx(math.log(case["d"] / case["zeta"]), rel=1e-12)


def test_costs_follow_rows_added_rows_replaced_and_steps():
    case = CASES[1]
    found = setting(case)
    assert found.exact_noise_std() == pytest.approx(2 * found.exact_noise_std(replace_one=False))
    assert setting(case, steps=20).exact_noise_std() == pytest.approx(2 * found.exact_noise_std())
    # With the least noise exactly delta is spent.
    spent = found.mu(found.exact_noise_std(replace_one=False), replace_one=False)
    assert log_delta(spent, case["eps"]) == pytest.approx(math.log(case["delta"]), abs=1e-9)
    clipped = clipped_noise_std(1.5, n=100, steps=9, epsilon=1.0, delta=1e-5)
    assert clipped * gaussian_mu(1.0, 1e-5) == pytest.approx(2 * 1.5 / 100 * 3)
    assert clipped_noise_std(1.5, n=100, steps=9, epsilon=1.0, delta=1e-5, replace_one=False) == clipped / 2


def test_reference_values_of_a_step_without_noise():
    case = reference("em_step_noiseless")
    found = PublishedSetting(len(ROWS), 4, case["eps"], case["delta"], case["tau"], case["zeta"], 1)
    assert found.scale == pytest.approx(case["s"], abs=TOLERANCE)
    assert found.precision == pytest.approx(case["beta_par"], abs=TOLERANCE)
    path = truncated_gradient_em(
        lambda beta: MODEL.gradients(ROWS, beta),
        BETA,
        scale=found.scale,
        precision=found.precision,
        rate=case["eta"],
        noise=np.zeros((1, 4)),
    )
    assert furthest(path[1] - path[0], case["g"]) < TOLERANCE
    assert furthest(path[1], case["beta_next"]) < TOLERANCE


def test_algorithm_1_by_hand():
    path = clipped_gradient_em(lambda beta: MODEL.gradients(ROWS, beta), BETA, clip_norm=0.7, rate=0.5, noise=NOISE)
    beta = BETA
    for step, noise in enumerate(NOISE, start=1):
        total = np.zeros(4)
        for gradient in MODEL.gradients(ROWS, beta):
            total += gradient / max(1.0, np.linalg.norm(gradient) / 0.7)
        beta = beta + 0.5 * (total / len(ROWS) + noise)
        np.testing.assert_allclose(path[step], beta, rtol=1e-12)


def test_algorithms_2_and_3_by_hand():
    constants = {"scale": 0.4, "precision": 1.9}
    second = truncated_gradient_em(lambda beta: MODEL.gradients(ROWS, beta), BETA, **constants, rate=0.5, noise=NOISE)
    third = truncated_em(lambda beta: MODEL.statistics(ROWS, beta), BETA, **constants, noise=NOISE)
    one = other = BETA
    for step, noise in enumerate(NOISE, start=1):
        one = one + 0.5 * (truncated_mean(MODEL.gradients(ROWS, one), **constants) + noise)
        other = truncated_mean(MODEL.statistics(ROWS, other), **constants) + noise
        np.testing.assert_allclose(second[step], one, rtol=1e-12)
        np.testing.assert_allclose(third[step], other, rtol=1e-12)
    assert second.shape == third.shape == (4, 4)


def test_without_noise_and_truncation_all_are_em():
    wide = {"scale": 1e6, "precision": 1e9}
    gradients, statistics = (lambda beta: MODEL.gradients(ROWS, beta)), (lambda beta: MODEL.statistics(ROWS, beta))
    quiet = np.zeros((5, 4))
    plain = em(lambda beta: statistics(beta).mean(axis=0), BETA, steps=5)
    # With rate 1 a gradient step of this model is a step of EM.
    ascended = gradient_em(lambda beta: gradients(beta).mean(axis=0), BETA, rate=1.0, steps=5)
    for path in (
        ascended,
        clipped_gradient_em(gradients, BETA, clip_norm=1e6, rate=1.0, noise=quiet),
        truncated_gradient_em(gradients, BETA, **wide, rate=1.0, noise=quiet),
        truncated_em(statistics, BETA, **wide, noise=quiet),
    ):
        np.testing.assert_allclose(path, plain, atol=1e-8)


def test_clipped_rows_are_short_point_the_same_way_and_keep_their_bits():
    random = np.random.default_rng(0)
    rows = random.standard_normal((50, 4)) * 10.0 ** random.integers(-3, 4, (50, 1))
    clipped = clip_rows(rows, 0.9)
    lengths = np.linalg.norm(clipped, axis=1)
    assert lengths.max() == pytest.approx(0.9)
    assert lengths.max() <= 0.9 * (1 + 1e-15)
    short = np.linalg.norm(rows, axis=1) < 0.9
    assert 0 < short.sum() < 50
    assert (clipped[short] == rows[short]).all()
    np.testing.assert_allclose(clipped / lengths[:, None], rows / np.linalg.norm(rows, axis=1)[:, None], atol=1e-12)
    for table, which in beside_others(rows, np.random.default_rng(1)):
        assert (clip_rows(table, 0.9)[: len(which)] == clipped[which]).all()


@pytest.mark.parametrize("last", [np.inf, -np.inf, np.nan, 1e300])
def test_clipping_bounds_what_no_length_can_be_taken_of(last):
    assert np.linalg.norm(clip_rows(np.array([[0.1, last]]), 2.0)) <= 2.0


def test_arguments_out_of_range_are_refused():
    for changes in ({"n": 0}, {"eps": 0.0}, {"delta": 1.0}, {"tau": 0.0}, {"zeta": 1.0}, {"T": 0}):
        with pytest.raises(InputError):
            setting(CASES[0] | changes)
    with pytest.raises(InputError, match="clip_norm"):
        clip_rows(ROWS, 0.0)
    with pytest.raises(InputError, match="clip_norm"):
        clipped_noise_std(math.inf, n=1, steps=1, epsilon=1.0, delta=0.1)
