"""E-steps of the three models: reference values, the likelihood they climb, and what is wrong with the printed ones."""

from __future__ import annotations

import math

import numpy as np
import pytest
from em_by_hand import log_likelihood, maximised
from models_reference import TOLERANCE, beside_others, furthest, reference, slope

from synth.errors import InputError
from synth.privacy.more.em_models import GaussianPair, MissingCovariates, RegressionPair

GIVEN = reference("em_gradients")
BETA, NOISE = np.array(GIVEN["beta"]), math.sqrt(GIVEN["sigma2"])
X, Y = np.array(GIVEN["X"]), np.array(GIVEN["y"])[:, None]
ROWS = {
    GaussianPair: np.array(GIVEN["Y"]),
    RegressionPair: np.concatenate([X, Y], axis=1),
    MissingCovariates: np.concatenate([X, np.array(GIVEN["Z"]), Y], axis=1),
}
WANTED = {GaussianPair: "grad_gmm", RegressionPair: "grad_mrm", MissingCovariates: "grad_rmc"}
KINDS = list(ROWS)


def many(kind, n: int, beta: np.ndarray, noise: float, seed: int = 0, missing: float = 0.2) -> np.ndarray:
    """Rows of a model, drawn from it."""
    random = np.random.default_rng(seed)
    hidden, v = random.choice([-1.0, 1.0], n), noise * random.standard_normal((n, beta.size))
    if kind is GaussianPair:
        return hidden[:, None] * beta + v
    x = random.standard_normal((n, beta.size))
    if kind is RegressionPair:
        return np.column_stack([x, hidden * (x @ beta) + v[:, 0]])
    return np.column_stack([x, random.random(x.shape) >= missing, x @ beta + v[:, 0]])


@pytest.mark.parametrize("kind", KINDS)
def test_reference_values(kind):
    assert furthest(kind(NOISE).gradients(ROWS[kind], BETA), GIVEN[WANTED[kind]]) < TOLERANCE


def test_reference_values_of_the_statistic():
    assert furthest(GaussianPair(NOISE).statistics(ROWS[GaussianPair], BETA), GIVEN["f_gmm"]) < TOLERANCE


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_are_those_of_the_likelihood_and_printed_ones_are_not(kind):
    rows = ROWS[kind]
    wanted = NOISE**2 * slope(lambda beta: log_likelihood(kind(NOISE), rows, beta), BETA)
    assert furthest(kind(NOISE, as_printed=False).gradients(rows, BETA).mean(axis=0), wanted) < 1e-8
    assert furthest(kind(NOISE).gradients(rows, BETA).mean(axis=0), wanted) > 0.01


@pytest.mark.parametrize("kind", KINDS)
def test_no_step_of_em_lowers_the_likelihood_and_it_ends_near_the_truth(kind):
    truth = np.array([0.6, -0.8, 0.3])
    rows, model = many(kind, 4000, truth, 0.7), kind(0.7, as_printed=False)
    beta, likelihoods = np.array([1.0, 0.4, -0.5]), []
    for _ in range(200):
        likelihoods.append(log_likelihood(model, rows, beta))
        beta = maximised(model, rows, beta)
    assert np.diff(likelihoods).min() > -1e-12
    assert likelihoods[-1] > likelihoods[0] + 0.01
    assert min(np.linalg.norm(beta - truth), np.linalg.norm(beta + truth)) < 0.1
    # A fixed point: no gradient is left.
    assert np.abs(model.gradients(rows, beta).mean(axis=0)).max() < 1e-4


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("as_printed", [True, False], ids=["printed", "exact"])
def test_a_maximum_has_no_gradient_left_at_its_e_step(kind, as_printed):
    # Where EM stands still, gradient EM does: both use one E-step.
    rows, model = many(kind, 500, np.array([0.9, -0.4]), 0.5), kind(0.5, as_printed=as_printed)
    beta = np.array([0.8, -0.5])
    for _ in range(300):
        beta = maximised(model, rows, beta)
    assert np.abs(model.gradients(rows, beta).mean(axis=0)).max() < 1e-8


@pytest.mark.parametrize("kind", [GaussianPair, RegressionPair])
def test_printed_weights_pull_the_estimate_towards_nothing(kind):
    truth = np.array([0.6, -0.8])
    rows = many(kind, 40_000, truth, 0.75)
    ends = []
    for as_printed in (True, False):
        beta = truth
        for _ in range(100):
            beta = maximised(kind(0.75, as_printed=as_printed), rows, beta)
        ends.append(float(np.linalg.norm(beta)))
    assert ends[0] < 0.95
    assert ends[1] == pytest.approx(1.0, abs=0.02)


@pytest.mark.parametrize("as_printed", [True, False], ids=["printed", "exact"])
def test_what_stands_where_nothing_is_seen_does_not_matter(as_printed):
    rows = ROWS[MissingCovariates].copy()
    model, d = MissingCovariates(NOISE, as_printed=as_printed), BETA.size
    other = rows.copy()
    other[:, :d] = np.where(rows[:, d : 2 * d] == 0, np.nan, rows[:, :d])
    assert (model.gradients(other, BETA) == model.gradients(rows, BETA)).all()
    assert (maximised(model, other, BETA) == maximised(model, rows, BETA)).all()


def test_all_seen_is_least_squares():
    rows = many(MissingCovariates, 200, np.array([0.9, -0.4]), 0.5, missing=0.0)
    for as_printed in (True, False):
        model = MissingCovariates(0.5, as_printed=as_printed)
        least = np.linalg.lstsq(rows[:, :2], rows[:, -1], rcond=None)[0]
        np.testing.assert_allclose(maximised(model, rows, np.array([5.0, -3.0])), least, rtol=1e-10)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("as_printed", [True, False], ids=["printed", "exact"])
def test_a_row_has_the_same_bits_beside_any_others(kind, as_printed):
    rows, beta = many(kind, 40, np.array([0.9, -0.4, 0.2]), 0.5), np.array([0.7, -0.1, 0.3])
    model = kind(0.5, as_printed=as_printed)
    alone = model.gradients(rows, beta)
    for table, which in beside_others(rows, np.random.default_rng(1)):
        # Strangers of missing covariates are scaled, masks too: what is seen stays seen.
        assert (model.gradients(table, beta)[: len(which)] == alone[which]).all()


def test_tables_of_another_width_and_noise_out_of_range_are_refused():
    with pytest.raises(InputError, match="9 columns"):
        MissingCovariates(0.5).gradients(np.zeros((2, 5)), BETA)
    for kind in KINDS:
        for noise in (0.0, -1.0, math.nan, math.inf):
            with pytest.raises(InputError, match="noise_std"):
                kind(noise)
