"""Accounting agrees with 60-digit arithmetic, with independent formulas and with itself backwards; never below."""

from __future__ import annotations

import ast
import itertools
import json
import math
from fractions import Fraction
from pathlib import Path

import mpmath
import numpy as np
import pytest
from choosing import each_once
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize, special

from synth.errors import PrivacyError
from synth.privacy import accounting
from synth.privacy.accounting import (
    COORDINATE_ALLOWANCE,
    SLACK_ALLOWANCE,
    _oracle_error,
    epsilon_of,
    epsilon_of_receipts,
    log_delta,
    mu_of_budget,
)
from synth.privacy.costs import (
    MU_UNIT,
    discretisation_slack,
    exponential_of_mu,
    mu_of_exponential,
    mu_of_gaussian,
    mu_of_pure,
    mu_squared_of,
    total_up,
    units_of,
)
from synth.privacy.receipt import Receipt, units_of_receipt
from synth.reports.risk_bounds import (
    advantage_ceiling,
    auc_ceiling,
    gaussian_advantage,
    gaussian_auc,
    gaussian_true_positive,
    posterior,
    true_positive_ceiling,
)
from synth.schema import Neighbours

SYNTH = Path(__file__).parents[2] / "synth"
REFERENCES = json.loads((Path(__file__).parents[1] / "references" / "accounting.json").read_text())
EPSILONS = (1e-3, 0.01, 0.3, 1.0, 4.0, 12.0, 50.0)
DELTAS = (1e-12, 1e-9, 1e-6, 1e-5, 1e-2, 0.1)
ALLOWANCES = {"slack": SLACK_ALLOWANCE, "coordinates": COORDINATE_ALLOWANCE}


def gaussian_delta_mp(mu: float, epsilon: float) -> mpmath.mpf:
    """The exact curve in as many digits as the caller works with."""
    wide, level = mpmath.mpf(mu), mpmath.mpf(epsilon)
    upper = mpmath.ncdf(wide / 2 - level / wide)
    return upper - mpmath.exp(level) * mpmath.ncdf(-wide / 2 - level / wide)


@pytest.mark.parametrize(
    ("delta", "mu_squared", "coordinates", "slack"),
    [(1e-5, 100.0, 10**6, 1e-3), (1e-9, 10.0, 10**9, 1e-6), (1e-9, 100.0, 1, 1e-3), (1e-13, 10.0, 100, 1e-6)],
)
def test_tails_that_are_cut_off_take_a_millionth_of_delta_at_most(
    delta: float, mu_squared: float, coordinates: int, slack: float
) -> None:
    """In 60 digits: 4 D Phi(-t) exp(epsilon + c_t) for the place t that the stated epsilon belongs to."""
    stated = epsilon_of(mu_squared, delta, slack=slack, coordinates=coordinates)

    def tail_and_epsilon(place: float) -> tuple[mpmath.mpf, mpmath.mpf]:
        cost = mpmath.mpf(slack) * (mpmath.mpf(place) / 12) ** 2
        left = delta * (1 - mpmath.mpf("1e-6")) * mpmath.exp(-cost)
        gaussian = mpmath.findroot(
            lambda epsilon: gaussian_delta_mp(math.sqrt(mu_squared), epsilon) / left - 1,
            (stated - 1, stated + 1),
            solver="anderson",
        )
        return 4 * coordinates * mpmath.ncdf(-place) * mpmath.exp(gaussian + cost) / delta, gaussian + 2 * cost

    taken = {place: tail_and_epsilon(place) for place in (12, 16, 20, 24, 28, 32, 36)}
    allowed = [float(epsilon) for tail, epsilon in taken.values() if tail <= 1e-6]
    assert stated == pytest.approx(allowed[0], rel=1e-9)
    assert any(tail > 1e-6 for tail, _ in taken.values()), "the case has to tell"


def balle_wang_sigma(epsilon: float, delta: float) -> float:
    """Noise multiplier by algorithm 1 of Balle 2018: another parametrisation, written from the paper."""

    def b_plus(v: float) -> float:
        return special.ndtr(math.sqrt(epsilon * v)) - math.exp(epsilon) * special.ndtr(-math.sqrt(epsilon * (v + 2)))

    def b_minus(u: float) -> float:
        return special.ndtr(-math.sqrt(epsilon * u)) - math.exp(epsilon) * special.ndtr(-math.sqrt(epsilon * (u + 2)))

    if delta >= b_plus(0.0):
        v = optimize.brentq(lambda v: b_plus(v) - delta, 0, 1e6, xtol=1e-14, rtol=1e-14)
        alpha = math.sqrt(1 + v / 2) - math.sqrt(v / 2)
    else:
        u = optimize.brentq(lambda u: math.log(b_minus(u)) - math.log(delta), 0, 600 / epsilon, xtol=1e-14, rtol=1e-14)
        alpha = math.sqrt(1 + u / 2) + math.sqrt(u / 2)
    return alpha / math.sqrt(2 * epsilon)


def receipt(**changes: object) -> Receipt:
    fields: dict[str, object] = {
        "sequence": 0,
        "query": "one-way table of age",
        "mechanism": "discrete_gaussian",
        "source": "independent",
        "neighbours": Neighbours.REPLACE,
        "protects": "person",
        "rows_per_unit": 1,
        "sensitivity": math.sqrt(2),
        "noise_scale": 10.0,
        "dimension": 100,
        "grid": 2.0**-20,
        "mu_squared_units": units_of(0.02 * (1 + 1e-12)),
        "slack": 1e-9,
    }
    return Receipt(**{**fields, **changes})


# ---------------------------------------------------------------------------------------------- the Gaussian curve


@pytest.mark.parametrize("row", [row for row in REFERENCES["gaussian_curve"] if float(row["delta"]) > 1e-14])
def test_epsilon_agrees_with_sixty_digits_and_is_never_below(row: dict[str, float]) -> None:
    delta = float(row["delta"])
    found = epsilon_of(row["mu"] ** 2, delta)
    assert row["epsilon"] - 1e-15 <= found <= row["epsilon"] * (1 + 1e-10) + 1e-10


@pytest.mark.parametrize("row", REFERENCES["gaussian_curve"])
def test_the_curve_that_sets_noise_agrees_with_sixty_digits(row: dict[str, float]) -> None:
    mu, found = row["mu"], log_delta(row["mu"], row["epsilon"])
    with mpmath.workdps(60):
        delta = gaussian_delta_mp(mu, row["epsilon"])
        true = float(mpmath.log(delta))
    assert float(delta) == pytest.approx(float(row["delta"]), rel=1e-14)
    assert abs(found - true) <= _oracle_error(mu)


@given(st.floats(-6, 2), st.floats(0, 60))
def test_the_curve_that_sets_noise_holds_far_into_the_tails(log_mu: float, tail: float) -> None:
    mu = 10**log_mu
    with mpmath.workdps(60):
        true = float(mpmath.log(gaussian_delta_mp(mu, tail * mu)))
    assert abs(log_delta(mu, tail * mu) - true) <= _oracle_error(mu) + 1e-15 * abs(true)


def test_the_curve_that_sets_noise_never_rounds_delta_to_nothing() -> None:
    for mu, epsilon in ((1e-12, 0.0), (1e-9, 1e-9), (1e-18, 0.0), (1e-12, 1e-13)):
        with mpmath.workdps(60):
            true = float(mpmath.log(gaussian_delta_mp(mu, epsilon)))
        assert log_delta(mu, epsilon) + 2 * _oracle_error(mu) >= true


@pytest.mark.parametrize("row", REFERENCES["gaussian_noise"])
def test_one_release_agrees_with_the_reference_values(row: dict[str, float]) -> None:
    assert epsilon_of(row["noise_multiplier"] ** -2, row["delta"]) == pytest.approx(row["epsilon"], rel=1e-9)
    assert mu_of_budget(row["epsilon"], row["delta"]) == pytest.approx(1 / row["noise_multiplier"], rel=1e-3)


@pytest.mark.parametrize("row", REFERENCES["gaussian_releases"])
def test_many_releases_add_up_exactly(row: dict[str, float]) -> None:
    total = row["releases"] * row["noise_multiplier"] ** -2
    assert epsilon_of(total, row["delta"]) == pytest.approx(row["epsilon"], rel=1e-9)


@pytest.mark.parametrize(("epsilon", "delta"), list(itertools.product((0.01, 0.3, 1.0, 4.0, 12.0), DELTAS)))
def test_an_independent_formula_agrees(epsilon: float, delta: float) -> None:
    mu = 1 / balle_wang_sigma(epsilon, delta)
    assert epsilon_of(mu**2, delta) == pytest.approx(epsilon, rel=1e-7)


@pytest.mark.parametrize(("epsilon", "delta"), list(itertools.product(EPSILONS, (1e-10, 1e-6, 1e-2))))
def test_dp_accounting_agrees(epsilon: float, delta: float) -> None:
    oracle = pytest.importorskip(
        "dp_accounting.gaussian_mechanism", reason="dp-accounting is an optional oracle: pip install dp-accounting"
    )
    noise = oracle.get_sigma_gaussian(epsilon, delta)
    assert epsilon_of(noise**-2, delta) == pytest.approx(epsilon, rel=1e-5)


def test_nothing_spent_promises_everything() -> None:
    assert epsilon_of(0.0, 1e-9) == 0.0


@pytest.mark.parametrize("mu_squared", [1e-11, 1e-4, 1.0, 50.0, 1e6, 1e12])
def test_epsilon_falls_where_delta_or_noise_grows(mu_squared: float) -> None:
    for slack, coordinates in ((0.0, 0), (1e-6, 10**4)):
        options = {"slack": slack, "coordinates": coordinates}
        by_delta = [epsilon_of(mu_squared, delta, **options) for delta in DELTAS]
        assert all(left >= right for left, right in itertools.pairwise(by_delta))
        assert epsilon_of(1.01 * mu_squared, 1e-6, **options) >= epsilon_of(mu_squared, 1e-6, **options)


# -------------------------------------------------------------------------------------------------- budgets to mu


@pytest.mark.parametrize(("epsilon", "delta"), list(itertools.product(EPSILONS, DELTAS)))
def test_a_budget_is_used_up_and_never_exceeded(epsilon: float, delta: float) -> None:
    mu = mu_of_budget(epsilon, delta)
    stated = epsilon_of(mu**2, delta, **ALLOWANCES)
    assert epsilon * (1 - 1e-4) <= stated <= epsilon
    assert epsilon_of(mu**2, delta) <= epsilon
    with mpmath.workdps(60):
        assert gaussian_delta_mp(mu, epsilon) <= delta


@settings(max_examples=40, deadline=None)
@given(st.floats(1e-3, 50), st.floats(-12, -1))
def test_any_budget_is_used_up_and_never_exceeded(epsilon: float, exponent: float) -> None:
    delta = 10**exponent
    mu = mu_of_budget(epsilon, delta)
    assert epsilon * (1 - 1e-4) <= epsilon_of(mu**2, delta, **ALLOWANCES) <= epsilon


def test_larger_budgets_allow_larger_mu() -> None:
    assert all(mu_of_budget(a, 1e-6) < mu_of_budget(b, 1e-6) for a, b in itertools.pairwise(EPSILONS))
    assert all(mu_of_budget(1.0, a) < mu_of_budget(1.0, b) for a, b in itertools.pairwise(DELTAS))


def test_a_spent_budget_in_whole_units_keeps_its_epsilon() -> None:
    mu_squared = mu_of_budget(1.0, 1e-5) ** 2
    shares = [units_of(mu_squared * share) for share in (0.1, 0.2, 0.3, 0.4)]
    assert epsilon_of(mu_squared_of(sum(shares)), 1e-5, **ALLOWANCES) <= 1.0


@pytest.mark.parametrize("epsilon", [0.0, -1.0, math.inf, math.nan])
def test_an_impossible_epsilon_is_named(epsilon: float) -> None:
    with pytest.raises(PrivacyError, match=f"epsilon must be positive and finite, got {epsilon}"):
        mu_of_budget(epsilon, 1e-6)


@pytest.mark.parametrize("delta", [0.0, 1.0, -0.1, 2.0, math.nan])
def test_an_impossible_delta_is_named(delta: float) -> None:
    for call in (lambda: mu_of_budget(1.0, delta), lambda: epsilon_of(1.0, delta)):
        with pytest.raises(PrivacyError, match=f"delta must lie strictly between 0 and 1, got {delta}"):
            call()


def test_a_budget_below_the_allowance_is_refused() -> None:
    with pytest.raises(PrivacyError, match="epsilon 1e-05 with delta 1e-09 is too small for noise on a grid"):
        mu_of_budget(1e-5, 1e-9)


@pytest.mark.parametrize(("epsilon", "delta"), [(1000.0, 1e-6), (630.0, 1e-5), (1e9, 1e-5), (600.0, 1e-30)])
def test_a_budget_too_large_to_account_for_is_not_called_small_and_the_named_one_works(
    epsilon: float, delta: float
) -> None:
    with pytest.raises(PrivacyError, match=r"is too large to account for.*Choose epsilon of at most \d+\.$") as refusal:
        mu_of_budget(epsilon, delta)
    named = float(str(refusal.value).rstrip(".").rsplit(" ", 1)[1])
    assert mu_of_budget(named, delta) > 0
    with pytest.raises(PrivacyError, match="too large"):
        mu_of_budget(named + 1, delta)


@pytest.mark.parametrize("epsilon", [0.001, 1.0, 1000.0])
def test_a_delta_too_small_for_any_epsilon_is_named_and_the_named_one_works(epsilon: float) -> None:
    with pytest.raises(PrivacyError, match="delta 1e-280 is too small for noise on a grid"):
        mu_of_budget(epsilon, 1e-280)
    assert mu_of_budget(0.001, 1e-100) > 0


# -------------------------------------------------------------------------------------------- noise on a grid


def gaussian_probabilities(variance: int, reach: int) -> tuple[list[mpmath.mpf], list[mpmath.mpf]]:
    """Probabilities of the discrete Gaussian and of the rounded continuous one on 0 .. reach."""
    std = mpmath.sqrt(variance)
    weights = [mpmath.exp(-(mpmath.mpf(k) ** 2) / (2 * variance)) for k in range(int(40 * std) + 40)]
    total = 2 * mpmath.fsum(weights) - 1
    rounded = [mpmath.ncdf((k + 0.5) / std) - mpmath.ncdf((k - 0.5) / std) for k in range(reach + 1)]
    return [weight / total for weight in weights[: reach + 1]], rounded


@pytest.mark.parametrize(("tail", "variance"), each_once([12, 20], [1, 2, 9, 150, 1000]))
def test_the_two_laws_differ_by_no_more_than_the_proof_says(variance: int, tail: int) -> None:
    with mpmath.workdps(400):
        std = math.sqrt(variance)
        discrete, rounded = gaussian_probabilities(variance, math.floor(tail * std + 0.5))
        logarithms = [mpmath.log(q / p) for p, q in zip(discrete, rounded, strict=True)]
        assert min(logarithms) >= -mpmath.mpf(1) / (24 * variance)
        assert max(logarithms) <= (tail + 1 / (2 * mpmath.sqrt(variance))) ** 2 / (24 * variance)
        # hence one factor for each table is covered by twice c_t
        slack = discretisation_slack(dimension=1, variance=variance) * (tail / 12) ** 2
        assert max(logarithms) - min(logarithms) <= 2 * slack


def test_slack_is_the_stated_formula_rounded_up() -> None:
    found = discretisation_slack(dimension=10**6, variance=2**40)
    assert 2 * found == pytest.approx(1.1e-5, rel=0.01)
    with mpmath.workdps(60):
        for dimension, variance in ((1, 3), (7, 2**90 - 1), (10**9, 10**20 + 1)):
            true = 6 * mpmath.mpf(dimension) / variance
            found = discretisation_slack(dimension=dimension, variance=variance)
            assert true <= mpmath.mpf(found) <= true * (1 + mpmath.mpf(2) ** -50)


@pytest.mark.parametrize(("epsilon", "slack", "coordinates"), [(0.5, 1e-6, 1000), (3.0, 1e-3, 10**6), (10.0, 0.0, 1)])
def test_slack_enters_as_the_formula_says(epsilon: float, slack: float, coordinates: int) -> None:
    mu_squared = mu_of_budget(epsilon, 1e-6) ** 2
    with mpmath.workdps(60):
        own = mpmath.exp(slack) * gaussian_delta_mp(math.sqrt(mu_squared), epsilon)
        true = own + 4 * coordinates * mpmath.ncdf(-12) * mpmath.exp(epsilon + slack)
    stated = epsilon_of(mu_squared, float(true), slack=slack, coordinates=coordinates)
    assert epsilon + 2 * slack <= stated <= (epsilon + 2 * slack) * (1 + 1e-5)


def test_large_epsilon_takes_a_farther_cut_instead_of_failing() -> None:
    mu_squared = mu_of_budget(50.0, 1e-12) ** 2
    assert math.isfinite(epsilon_of(mu_squared, 1e-12, **ALLOWANCES))


def test_cuts_hold_the_tails_of_every_coordinate() -> None:
    cuts = list(accounting._cuts(1e-5, 10**6))
    with mpmath.workdps(60):
        for tail, (cost, log_tail) in zip(range(12, 40, 4), cuts, strict=True):
            assert cost == pytest.approx(1e-5 * tail**2 / 144)
            assert log_tail == pytest.approx(float(mpmath.log(4 * 10**6 * mpmath.ncdf(-tail))), rel=1e-12)
    assert list(accounting._cuts(0.0, 0)) == [(0.0, -math.inf)]


def test_a_slack_without_its_coordinates_is_read_with_the_allowance() -> None:
    assert list(accounting._cuts(1e-5, 0)) == list(accounting._cuts(1e-5, COORDINATE_ALLOWANCE))
    full = epsilon_of(1.0, 1e-6, slack=1e-5, coordinates=COORDINATE_ALLOWANCE)
    assert epsilon_of(1.0, 1e-6, slack=1e-5) == pytest.approx(full, rel=1e-6)


def test_additive_deltas_are_added() -> None:
    plain = epsilon_of(0.25, 1e-6)
    assert epsilon_of(0.25, 2e-6, additive_delta=1e-6) == pytest.approx(plain, rel=1e-9)
    assert epsilon_of(0.25, 1e-6, additive_delta=1e-6) == math.inf


def test_what_cannot_be_promised_is_infinite() -> None:
    assert epsilon_of(1.0, 1e-300, coordinates=10**9, slack=1e-6) == math.inf


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("mu squared", {"mu_squared": -1.0}),
        ("mu squared", {"mu_squared": math.nan}),
        ("slack", {"slack": -1e-9}),
        ("coordinates", {"coordinates": -1}),
        ("additive delta", {"additive_delta": math.inf}),
    ],
)
def test_impossible_sums_are_named(name: str, options: dict[str, float]) -> None:
    with pytest.raises(PrivacyError, match=f"{name} must be finite and at least 0"):
        epsilon_of(**{"mu_squared": 1.0, "delta": 1e-6, **options})


# --------------------------------------------------------------------------------------- what one mechanism costs


@pytest.mark.parametrize("parameter", [1e-9, 1e-4, 0.3, 1.0, 3.999, 4.0, 4.001, 20.0, 200.0, 1200.0])
def test_selection_costs_what_the_formula_says_and_never_less(parameter: float) -> None:
    found = mu_of_exponential(parameter)
    with mpmath.workdps(700):
        lower = 1 / (1 + mpmath.exp(mpmath.mpf(parameter) / 2))
        true = -2 * mpmath.findroot(lambda z: mpmath.log(mpmath.ncdf(z)) - mpmath.log(lower), -found / 2)
        assert true <= found
        assert found == pytest.approx(float(true), rel=1e-12)


@pytest.mark.parametrize("parameter", [0.05, 0.7, 2.0, 6.0])
def test_selection_is_no_easier_to_see_through_than_its_gaussian(parameter: float) -> None:
    """Every two-outcome mechanism with losses t and t - e lies under the Gaussian curve; the middle one touches it."""
    mu = mu_of_exponential(parameter)
    gaps = []
    for upper in np.linspace(0.001, 0.999, 999) * parameter:
        rare = (1 - math.exp(upper - parameter)) / (math.exp(upper) - math.exp(upper - parameter))
        gaps.append(special.ndtri(min(1.0, math.exp(upper) * rare)) - special.ndtri(rare))
    assert max(gaps) <= mu * (1 + 1e-9)
    assert gaps[499] == pytest.approx(mu, rel=1e-9)


@pytest.mark.parametrize("mu", [1e-9, 1e-4, 0.1, 1.0, 5.0, 20.0, 60.0])
def test_the_parameter_of_a_selection_inverts_its_cost_on_the_safe_side(mu: float) -> None:
    parameter = exponential_of_mu(mu)
    assert mu * (1 - 1e-8) <= mu_of_exponential(parameter) <= mu


def test_pure_mechanisms_cost_twice_the_range() -> None:
    assert mu_of_pure(0.7) == mu_of_exponential(1.4)
    assert mu_of_pure(1.0) == pytest.approx(2 * special.ndtri(1 / (1 + math.exp(-1))), rel=1e-12)
    # a pure promise of epsilon is never stated as less than it is at delta 0
    assert epsilon_of(mu_of_pure(1.0) ** 2, 1e-9) > 1.0


@pytest.mark.parametrize("value", [0.0, -1.0, math.inf, math.nan])
def test_costs_need_positive_numbers(value: float) -> None:
    for call in (
        lambda: mu_of_exponential(value),
        lambda: exponential_of_mu(value),
        lambda: mu_of_pure(value),
        lambda: mu_of_gaussian(sensitivity=value, noise_std=1.0),
        lambda: mu_of_gaussian(sensitivity=1.0, noise_std=value),
    ):
        with pytest.raises(PrivacyError, match="must be positive and finite"):
            call()


@given(st.floats(0, 1e6))
def test_units_round_up_by_less_than_one(mu_squared: float) -> None:
    units = units_of(mu_squared)
    assert mu_squared <= mu_squared_of(units)
    assert units == 0 or (units - 1) * Fraction(MU_UNIT) < Fraction(mu_squared)


@pytest.mark.parametrize("units", [0, 1, 2**53 + 1, 2**60 + 1, 2**80 + 1])
def test_units_are_never_read_as_less(units: int) -> None:
    with mpmath.workdps(60):
        assert mpmath.mpf(mu_squared_of(units)) >= mpmath.mpf(units) * mpmath.mpf(2) ** -40


def test_units_need_possible_numbers() -> None:
    with pytest.raises(PrivacyError, match="mu squared must be finite"):
        units_of(math.nan)
    with pytest.raises(PrivacyError, match="cannot be negative"):
        mu_squared_of(-1)
    with pytest.raises(PrivacyError, match="dimension and a variance of at least 1"):
        discretisation_slack(dimension=0, variance=1)


def test_totals_round_up() -> None:
    values = [0.1] * 10
    with mpmath.workdps(60):
        assert mpmath.fsum(mpmath.mpf(value) for value in values) <= total_up(values)
    assert total_up([]) == 0.0


# -------------------------------------------------------------------------------------------------------- receipts


def test_receipts_add_up_to_what_their_noise_is_worth() -> None:
    paid = [receipt(sequence=0), receipt(sequence=1)]
    assert epsilon_of_receipts(paid, 1e-5) == pytest.approx(epsilon_of(0.04, 1e-5), rel=1e-6)
    selection = receipt(
        mechanism="exponential", noise_scale=1.0, mu_squared_units=units_of(mu_of_exponential(1.0) ** 2), slack=0.0
    )
    total = 0.02 + mu_of_exponential(1.0) ** 2
    assert epsilon_of_receipts([paid[0], selection], 1e-5) == pytest.approx(epsilon_of(total, 1e-5), rel=1e-6)
    assert epsilon_of_receipts([], 1e-5) == 0.0


def test_slack_and_additive_delta_of_receipts_count() -> None:
    base = epsilon_of_receipts([receipt()], 1e-5)
    assert epsilon_of_receipts([receipt(slack=1e-3)], 1e-5) == pytest.approx(base + 2e-3, rel=1e-3)
    assert epsilon_of_receipts([receipt(additive_delta=5e-6)], 1e-5) > base


def test_deltas_of_receipts_add_up_by_hand() -> None:
    # Squares of these mu add up to 1, and a Gaussian of mu 1 has delta 0.126936737506644 at epsilon 1.
    asked = {2 / 3: 0.01, 2 / 3 + 1e-15: 0.02, 1 / 3: 0.04}
    paid = [
        receipt(sensitivity=mu, noise_scale=1.0, mu_squared_units=units_of(mu**2 * (1 + 1e-12)), additive_delta=added)
        for mu, added in asked.items()
    ]
    for order in itertools.permutations(paid):
        assert epsilon_of_receipts(order, 0.126936737506644 + 0.07) == pytest.approx(1.0, rel=1e-5)
    assert epsilon_of_receipts(paid, 0.069) == math.inf


def test_known_noise_promises_nothing() -> None:
    assert epsilon_of_receipts([receipt(), receipt(private=False)], 1e-5) == math.inf
    with pytest.raises(PrivacyError, match="strictly between"):
        epsilon_of_receipts([receipt(private=False)], 1.0)


def test_two_relations_cannot_be_added() -> None:
    with pytest.raises(PrivacyError, match="two neighbouring relations"):
        epsilon_of_receipts([receipt(), receipt(neighbours=Neighbours.ADD_REMOVE)], 1e-5)


def test_a_receipt_that_states_too_little_is_refused() -> None:
    honest = units_of_receipt(receipt())
    epsilon_of_receipts([receipt(mu_squared_units=honest)], 1e-5)
    with pytest.raises(PrivacyError, match=r"Receipt 0 \('one-way table of age'\) states a cost"):
        epsilon_of_receipts([receipt(mu_squared_units=honest - 1)], 1e-5)
    with pytest.raises(PrivacyError, match="discretisation cost"):
        epsilon_of_receipts([receipt(grid=2.0**-10)], 1e-5)


# -------------------------------------------------------------------------------------------------------- ceilings


@pytest.mark.parametrize("row", REFERENCES["panel"])
def test_the_panel_that_explains_epsilon(row: dict[str, float]) -> None:
    epsilon, mu = row["epsilon"], mu_of_budget(row["epsilon"], 1e-6)
    percents = {
        "posterior_of_half_percent": posterior(0.5, epsilon),
        "posterior_of_hundredth_percent": posterior(0.01, epsilon),
        "advantage_percent": advantage_ceiling(epsilon, 1e-6),
        "true_positive_percent": true_positive_ceiling(epsilon, 1e-6, 0.01),
        "gaussian_advantage_percent": gaussian_advantage(mu),
        "gaussian_true_positive_percent": gaussian_true_positive(mu, 0.01),
    }
    for name, value in percents.items():
        assert 100 * value == pytest.approx(row[name], abs=0.051), name
    assert 1 / mu == pytest.approx(row["noise_multiplier"], rel=0.005)


@given(st.floats(0, 60), st.floats(0, 1), st.floats(0, 1))
def test_ceilings_follow_their_formulas(epsilon: float, delta: float, rate: float) -> None:
    growth = math.exp(epsilon)
    advantage = min(1.0, (growth - 1 + 2 * delta) / (growth + 1))
    assert advantage_ceiling(epsilon, delta) == pytest.approx(advantage, rel=1e-9, abs=1e-12)
    expected = min(growth * rate + delta, 1 - (1 - delta - rate) / growth, 1.0)
    assert true_positive_ceiling(epsilon, delta, rate) == pytest.approx(expected, rel=1e-9, abs=1e-12)
    belief = rate * growth / (rate * growth + 1 - rate)
    assert posterior(rate, epsilon) == pytest.approx(belief, rel=1e-9, abs=1e-12)


def test_the_advantage_is_the_best_point_of_the_curve() -> None:
    rates = np.linspace(0, 1, 20001)
    for epsilon, delta in ((0.1, 1e-3), (1.0, 1e-6), (3.0, 0.01)):
        best = max(true_positive_ceiling(epsilon, delta, rate) - rate for rate in rates.tolist())
        assert best == pytest.approx(advantage_ceiling(epsilon, delta), abs=1e-4)
    for mu in (0.1, 1.0, 4.0):
        best = max(gaussian_true_positive(mu, rate) - rate for rate in rates.tolist())
        assert best == pytest.approx(gaussian_advantage(mu), abs=1e-4)


def test_a_gaussian_never_exceeds_the_ceiling_of_its_promise() -> None:
    for mu, delta, rate in itertools.product((0.1, 1.0, 5.0), (1e-9, 1e-3), (1e-4, 0.01, 0.5)):
        epsilon = epsilon_of(mu**2, delta)
        assert gaussian_true_positive(mu, rate) <= true_positive_ceiling(epsilon, delta, rate) + 1e-9


@pytest.mark.parametrize(("epsilon", "delta"), [(0.0, 0.0), (0.5, 1e-5), (1.0, 0.01), (4.0, 1e-6), (1.0, 1.0)])
def test_the_area_under_a_ceiling_is_its_integral(epsilon: float, delta: float) -> None:
    rates = (np.arange(100_000) + 0.5) / 100_000
    area = np.mean([true_positive_ceiling(epsilon, delta, rate) for rate in rates.tolist()])
    assert auc_ceiling(epsilon, delta) == pytest.approx(area, abs=1e-6)
    assert auc_ceiling(math.inf, delta) == gaussian_auc(math.inf) == 1.0
    gaussian = np.mean([gaussian_true_positive(epsilon, rate) for rate in rates.tolist()])
    assert gaussian_auc(epsilon) == pytest.approx(gaussian, abs=1e-5)


def test_no_promise_has_no_ceiling_and_a_perfect_one_leaves_guessing() -> None:
    assert advantage_ceiling(math.inf, 0.0) == 1.0
    assert true_positive_ceiling(math.inf, 0.0, 0.5) == 1.0
    assert posterior(0.3, math.inf) == 1.0
    assert posterior(0.0, 5.0) == 0.0
    assert posterior(1.0, 0.0) == 1.0
    assert advantage_ceiling(0.0, 0.0) == gaussian_advantage(0.0) == 0.0
    assert gaussian_true_positive(0.0, 0.2) == pytest.approx(0.2)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: advantage_ceiling(-0.1, 0.0), "epsilon must be at least 0"),
        (lambda: advantage_ceiling(math.nan, 0.0), "epsilon must be at least 0"),
        (lambda: advantage_ceiling(1.0, 1.5), "delta must lie between 0 and 1"),
        (lambda: true_positive_ceiling(1.0, 0.0, -0.1), "false-positive rate must lie between 0 and 1"),
        (lambda: gaussian_advantage(-1.0), "mu must be at least 0"),
        (lambda: gaussian_true_positive(1.0, 1.1), "false-positive rate must lie between 0 and 1"),
        (lambda: posterior(math.nan, 1.0), "prior must lie between 0 and 1"),
    ],
)
def test_impossible_attackers_are_named(call: object, words: str) -> None:
    with pytest.raises(PrivacyError, match=words):
        call()


# ------------------------------------------------------------------------------------------------- the doors to autodp

ALLOWED = {"rdp_acct", "dp_bank", "get_eps_ana_gaussian"}
FORBIDDEN = (
    "ana_gaussian_mech",
    "ana_gaussian_calibrator",
    "get_approxDP",
    "ComposeAFA",
    "eps_delta_calibrator",
    "gaussian_mech",
    "AmplificationBySampling_pld",
)


def test_only_accounting_opens_autodp_and_only_through_allowed_calls() -> None:
    for path in SYNTH.rglob("*.py"):
        text = path.read_text()
        if "autodp" not in text:
            continue
        tree = ast.parse(text)
        imports = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
        from_autodp = [
            node
            for node in imports
            if (isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "autodp")
            or any(alias.name.split(".")[0] == "autodp" for alias in node.names)
        ]
        if path.name != "accounting.py":
            assert not from_autodp, path
            continue
        names = [alias.name for node in from_autodp for alias in node.names]
        assert names == ["rdp_acct", "dp_bank"]
        used = {
            node.attr
            for node in ast.walk(tree)
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in ALLOWED
        }
        assert used == {"get_eps_ana_gaussian"}


def test_forbidden_calls_appear_nowhere_but_in_the_comment_that_forbids_them() -> None:
    for path in SYNTH.rglob("*.py"):
        text = path.read_text()
        if not any(name in text for name in FORBIDDEN):
            continue
        tree = ast.parse(text)
        words = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        words |= {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
        words |= {alias.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names}
        assert words.isdisjoint(FORBIDDEN), path
    text = " ".join((ast.get_docstring(ast.parse(Path(accounting.__file__).read_text())) or "").split())
    assert all(name in text for name in FORBIDDEN)
