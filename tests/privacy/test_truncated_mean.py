"""The softly truncated mean: reference values, its bound, and the attack that the printed formula falls to."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from models_reference import TOLERANCE, beside_others, furthest, reference
from published_em import clipped_noise_std, truncated_mean
from scipy.integrate import quad

from synth.errors import InputError
from synth.privacy.more.truncated_mean import (
    LARGEST_TRUNCATED,
    correction,
    expected_truncation,
    gaussian_mu,
    smoothed_truncation,
)

CATONI = reference("catoni")
PRECISION = CATONI["psi_beta"]


def soft_truncation(x: np.ndarray) -> np.ndarray:
    """phi (eq. 9): a cubic up to the square root of 2, flat beyond."""
    inside = np.clip(x, -math.sqrt(2), math.sqrt(2))
    return inside - inside**3 / 6


def test_reference_values():
    assert CATONI["phi_bound"] == pytest.approx(LARGEST_TRUNCATED, abs=TOLERANCE)
    assert furthest(soft_truncation(np.array(CATONI["phi_x"])), CATONI["phi"]) < TOLERANCE
    a, b = np.array(CATONI["Chat_ab"]).T
    assert furthest(correction(a, b), CATONI["Chat"]) < TOLERANCE
    assert furthest(expected_truncation(a, b), CATONI["Ephi"]) < TOLERANCE
    assert furthest(smoothed_truncation(np.array(CATONI["psi_x"]), precision=PRECISION), CATONI["psi"]) < TOLERANCE


def test_reference_values_of_the_mean_with_outliers():
    case = CATONI["robust_mean"]
    found = truncated_mean(np.array(case["data"]), scale=case["s"], precision=case["beta"])
    assert furthest(found, case["expected"]) < TOLERANCE


@pytest.mark.parametrize("x", [0.02, 1.3, 2.999, 3.001, 4.5, 17.0, 250.0])
@pytest.mark.parametrize("precision", [0.7, PRECISION, 9.0])
def test_the_expectation_is_the_integral(x, precision):
    spread = x / math.sqrt(precision)
    edges = [min(max((edge - x) / spread, -38.0), 38.0) for edge in (-math.sqrt(2), math.sqrt(2))]

    def weighed(z: float) -> float:
        return float(soft_truncation(np.array([x + spread * z]))[0]) * math.exp(-z * z / 2) / math.sqrt(2 * math.pi)

    pieces = [quad(weighed, *ends, epsabs=1e-13)[0] for ends in zip([-38.0, *edges], [*edges, 38.0], strict=True)]
    assert float(smoothed_truncation(np.array([x]), precision=precision)[0]) == pytest.approx(sum(pieces), abs=1e-11)


def as_printed(x: float) -> float:
    """What eq. 12 gives for x in units of the scale, with b = |x| / sqrt(beta), in float64."""
    return float(expected_truncation(np.array([x]), np.array([x / math.sqrt(PRECISION)]))[0])


def test_reference_values_of_the_printed_formula_where_it_is_wrong():
    for x, wrong in CATONI["raw_eq12_at_large_x_WRONG"].items():
        assert as_printed(float(x)) == wrong
        assert abs(wrong - CATONI["psi"][-1]) > 0.8


def test_an_outlier_moves_the_printed_mean_at_will_and_ours_by_the_sensitivity():
    """The attack: one replaced row moves the exact mean by 1e7 times the sensitivity that its noise is made for."""
    others, n, scale = np.full(999, 0.25), 1000, 1.0
    sensitivity = 2 * LARGEST_TRUNCATED * scale / n
    printed = [scale * sum(as_printed(x) for x in (*others.tolist(), last)) / n for last in (1e-3, 1e8)]
    assert abs(printed[1] - printed[0]) > 1e7 * sensitivity
    ours = [
        truncated_mean(np.append(others, last)[:, None], scale=scale, precision=PRECISION)[0]
        for last in (0.0, 1e8, -1e8, np.inf, -np.inf, np.nan, 1e308, 5e-324)
    ]
    assert np.ptp(ours) <= sensitivity
    # Sharp: the farthest two rows use up the greater part of it.
    assert np.ptp(ours) > 0.8 * sensitivity


@given(st.lists(st.floats(allow_nan=True, allow_infinity=True), min_size=1, max_size=20), st.floats(0.05, 50.0))
def test_no_number_leaves_the_bound(values, precision):
    found = smoothed_truncation(np.array(values), precision=precision)
    assert np.isfinite(found).all()
    assert (np.abs(found) <= LARGEST_TRUNCATED).all()
    mirrored = smoothed_truncation(-np.array(values), precision=precision)
    assert (mirrored == -found).all()


def test_rounding_does_not_leave_the_bound_either():
    # Here a thousand values round to more than the bound before they are cut.
    x = np.linspace(0.5, 6.0, 5001)
    assert (expected_truncation(x, x / 20) > LARGEST_TRUNCATED).sum() > 100
    assert smoothed_truncation(x, precision=400.0).max() == LARGEST_TRUNCATED


def test_it_grows_and_reaches_its_limit():
    x = np.concatenate([np.linspace(0.0, 2.0, 50), np.linspace(2.5, 3.5, 101), np.logspace(1, 15, 60)])
    found = smoothed_truncation(x, precision=PRECISION)
    # With much multiplied noise it is not monotone everywhere, but near the seam at 3 neighbouring values agree.
    assert np.abs(np.diff(found[50:151])).max() < 2e-3
    limit = float(smoothed_truncation(np.array([np.inf]), precision=PRECISION)[0])
    assert found[-1] == pytest.approx(limit, abs=1e-12)
    from_normal = LARGEST_TRUNCATED * math.erf(math.sqrt(PRECISION / 2))
    assert limit == pytest.approx(from_normal, abs=1e-14)


def test_a_row_has_the_same_bits_beside_any_others():
    rows = np.random.default_rng(0).standard_cauchy((40, 3)) * 3
    alone = smoothed_truncation(rows, precision=PRECISION)
    for table, which in beside_others(rows, np.random.default_rng(1)):
        assert (smoothed_truncation(table, precision=PRECISION)[: len(which)] == alone[which]).all()


@pytest.mark.parametrize("scale", [0.0, -1.0, math.inf, math.nan])
def test_scales_and_precisions_out_of_range_are_refused(scale):
    with pytest.raises(InputError, match="scale"):
        truncated_mean(np.zeros((2, 1)), scale=scale, precision=1.0)
    with pytest.raises(InputError, match="precision"):
        smoothed_truncation(np.zeros(2), precision=scale)


def test_clipped_noise_is_for_at_least_one_row_and_one_step() -> None:
    right = {"clip_norm": 0.5, "n": 1, "steps": 1, "epsilon": 1.0, "delta": 1e-5}
    assert clipped_noise_std(**right) == pytest.approx(2 * 0.5 / gaussian_mu(1.0, 1e-5))
    for wrong in ({"clip_norm": 0.0}, {"clip_norm": -0.5}, {"clip_norm": math.nan}, {"n": 0}, {"steps": 0}):
        with pytest.raises(InputError, match="clip_norm must be positive"):
            clipped_noise_std(**right | wrong)
