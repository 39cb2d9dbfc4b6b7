"""Arithmetic of rows: right to the last digits, and the same bits beside any other rows."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from models_reference import beside_others

from synth.privacy.more.row_maps import exponential, logistic, squared_norms, weighted_sums

RANDOM = np.random.default_rng(3)
ROWS = RANDOM.standard_normal((37, 5)) * 10.0 ** RANDOM.integers(-3, 3, (37, 5))


@pytest.mark.parametrize("x", [-699.9, -40.5, -1.0, -0.3465, -1e-9, 0.0, 1e-300, 0.34657359, 0.5, 1.0, 88.7, 699.9])
def test_the_exponential_is_right_to_two_units_of_the_last_place(x):
    with mpmath.workdps(40):
        exact = mpmath.exp(mpmath.mpf(x))
        assert abs(mpmath.mpf(float(exponential(np.array([x]))[0])) / exact - 1) < 2 * 2.0**-52


def test_exponents_out_of_reach_are_cut_and_what_is_no_number_stays_none():
    found = exponential(np.array([-1e308, -np.inf, 1e308, np.inf, np.nan]))
    assert found[0] == found[1] == exponential(np.array([-700.0]))[0] > 0
    assert found[2] == found[3] == exponential(np.array([700.0]))[0] < np.inf
    assert np.isnan(found[4])


def test_the_logistic_function_is_symmetric_and_bounded():
    x = np.linspace(-60, 60, 1001)
    np.testing.assert_allclose(logistic(x), 1 / (1 + np.exp(-x)), rtol=1e-15)
    np.testing.assert_allclose(logistic(x) + logistic(-x), 1.0, rtol=1e-15)
    assert logistic(np.array([1e9, -1e9])).tolist() == [1.0, pytest.approx(0.0, abs=1e-300)]


def test_inner_products_are_those_of_rows():
    weights = RANDOM.standard_normal(5)
    np.testing.assert_allclose(weighted_sums(ROWS, weights), ROWS @ weights, rtol=1e-12)
    np.testing.assert_allclose(weighted_sums(ROWS, ROWS[::-1]), (ROWS * ROWS[::-1]).sum(axis=1), rtol=1e-9)
    np.testing.assert_allclose(squared_norms(ROWS), (ROWS**2).sum(axis=1), rtol=1e-12)


@pytest.mark.parametrize(
    "of_rows",
    [
        lambda rows: weighted_sums(rows, np.array([0.3, -1.7, 1e-3, 2.0, -0.1])),
        squared_norms,
        lambda rows: exponential(rows[:, 1]),
        lambda rows: logistic(rows[:, 2]),
    ],
    ids=["inner product", "norm", "exponential", "logistic"],
)
def test_a_row_has_the_same_bits_beside_any_others(of_rows):
    alone = of_rows(ROWS)
    for table, which in beside_others(ROWS, np.random.default_rng(5)):
        assert (of_rows(table)[: len(which)] == alone[which]).all()
