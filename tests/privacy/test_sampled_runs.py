"""Runs of sampled steps cost what exact arithmetic and other accountants say, in both directions; never less."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from synth.errors import PrivacyError
from synth.ledger.spending import Cost
from synth.privacy.accounting import (
    COORDINATE_ALLOWANCE,
    SLACK_ALLOWANCE,
    PrivacyBudget,
    epsilon_of,
    epsilon_of_receipts,
    log_delta,
    mu_beside,
    units_left_beside,
)
from synth.privacy.costs import MU_UNIT, gaussian_of_multiplier, gaussian_on_grid, mu_squared_of
from synth.privacy.more import sampled_runs
from synth.privacy.more.sampled_runs import (
    SAMPLING_DELTA_PART,
    LossTooLargeError,
    SampledRun,
    epsilon_of_sampled_run,
    mu_of_sampled_run,
    noise_multiplier_of,
)
from synth.privacy.receipt import PlannedCost, Receipt, misstated, require_honest, slack_of_receipt, units_of_receipt
from synth.schema import Neighbours

REFERENCES = json.loads((Path(__file__).parents[1] / "references" / "sampled_runs.json").read_text(encoding="utf-8"))
RUNS, SINGLE = REFERENCES["runs"], REFERENCES["single"]
ALLOWANCES = {"slack": SLACK_ALLOWANCE, "coordinates": COORDINATE_ALLOWANCE}
Reals = NDArray[np.float64]

STEP = 2.0**-13
"""How far two neighbouring mus of 14 binary digits are apart, at most, as a part of them."""


def run_of(entry: dict[str, Any]) -> SampledRun:
    return SampledRun(entry["rate"], entry["steps"], entry["noise_multiplier"])


@pytest.fixture
def fresh() -> Iterator[None]:
    """Nothing that was calculated with a planted bug is remembered, and nothing from before it."""
    cached = (mu_of_sampled_run, epsilon_of_sampled_run, noise_multiplier_of, sampled_runs._curve)
    for one in cached:
        one.cache_clear()
    yield
    for one in cached:
        one.cache_clear()


# The exact curves of one and of two steps, written without the accountant


def delta_of_one(run: SampledRun, epsilons: Reals, *, removed: bool) -> Reals:
    """Return delta of a single step from normal distribution functions, at any epsilon; as in the references."""
    rate, z = run.rate, run.noise_multiplier
    signed = epsilons if removed else -epsilons
    with np.errstate(divide="ignore", invalid="ignore"):
        place = z**2 * np.log((np.exp(signed) - 1 + rate) / rate) + 0.5
    reached = signed > np.log1p(-rate)
    place = np.where(reached, place, -np.inf)
    if removed:
        none, one = ndtr(-place / z), ndtr((1 - place) / z)
        return np.where(reached, (1 - rate) * none + rate * one - np.exp(epsilons) * none, -np.expm1(epsilons))
    none, one = ndtr(place / z), ndtr((place - 1) / z)
    return none - np.exp(epsilons) * ((1 - rate) * none + rate * one)


def delta_of_two(run: SampledRun, epsilons: Reals, *, removed: bool) -> Reals:
    """Return delta of two steps: that of one, given the loss of the other, integrated by the trapezoidal rule."""
    rate, z = run.rate, run.noise_multiplier
    places = np.linspace(-9 * z, 1 + 9 * z, 6001)
    none, one = (np.exp(-(((places - centre) / z) ** 2) / 2) / math.sqrt(2 * math.pi) / z for centre in (0, 1))
    losses = np.log1p(rate * np.expm1((places - 0.5) / z**2))
    density, losses = ((1 - rate) * none + rate * one, losses) if removed else (none, -losses)
    weights = density * (places[1] - places[0])
    return np.array([float(weights @ delta_of_one(run, one - losses, removed=removed)) for one in epsilons])


def covered(mu: float, additive_delta: float, epsilons: Reals) -> Reals:
    """Return additive_delta + (1 - additive_delta) delta_mu, from the curve that budgets are calculated with."""
    of_mu = []
    for epsilon in epsilons:
        positive = math.exp(log_delta(mu, abs(epsilon)))
        of_mu.append(positive if epsilon >= 0 else -math.expm1(epsilon) + math.exp(epsilon) * positive)
    return additive_delta + (1 - additive_delta) * np.array(of_mu)


EXACT = {1: delta_of_one, 2: delta_of_two}


def not_covered(run: SampledRun, mu: float, additive_delta: float) -> bool:
    """Whether a run tells more than a mu and an additive delta cover, at some epsilon in some direction."""
    epsilons = np.concatenate([-np.geomspace(5, 1e-3, 20), np.linspace(0, 12 * mu + mu**2, 1200 // run.steps**3)])
    return any(
        bool(np.any(EXACT[run.steps](run, epsilons, removed=removed) > covered(mu, additive_delta, epsilons) + 1e-11))
        for removed in (True, False)
    )


FEW_STEPS = [
    (0.01, 1.0, 1e-7),
    (0.2, 0.5, 1e-5),
    (0.5, 3.0, 1e-6),
    (0.9, 1.0, 1e-8),
    (0.001, 0.4, 1e-6),
    (0.05, 8.0, 1e-6),
]


@pytest.mark.parametrize("entry", SINGLE, ids=lambda one: f"{one['rate']}-{one['epsilon']}")
def test_the_exact_curve_of_the_tests_is_that_of_40_digits(entry: dict[str, Any]) -> None:
    found = delta_of_one(
        SampledRun(entry["rate"], 1, entry["noise_multiplier"]), np.array([entry["epsilon"]]), removed=entry["removed"]
    )
    assert found[0] == pytest.approx(float(entry["delta"]), rel=1e-9, abs=1e-15)


@pytest.mark.parametrize("steps", [1, pytest.param(2, marks=pytest.mark.thorough)])
@pytest.mark.parametrize(("rate", "multiplier", "additive_delta"), FEW_STEPS)
def test_mu_covers_the_exact_curve_and_hardly_less_does(
    rate: float, multiplier: float, additive_delta: float, steps: int
) -> None:
    run = SampledRun(rate, steps, multiplier)
    mu = mu_of_sampled_run(run, additive_delta=additive_delta)
    assert not not_covered(run, mu, additive_delta)
    assert not_covered(run, mu * (1 - 0.004), additive_delta)


@pytest.mark.parametrize(("rate", "multiplier", "delta"), FEW_STEPS)
def test_epsilon_is_never_below_the_exact_one(rate: float, multiplier: float, delta: float) -> None:
    for steps in (1, 2):
        run = SampledRun(rate, steps, multiplier)
        epsilon = epsilon_of_sampled_run(run, delta)
        ends = np.array([epsilon, epsilon * 0.999])
        of_run = np.maximum(*(EXACT[steps](run, ends, removed=removed) for removed in (True, False)))
        assert of_run[0] <= delta * (1 + 1e-7)
        assert of_run[1] > delta


# Beside other accountants


def assert_as_others_say(entry: dict[str, Any], ours: float) -> None:
    assert ours >= entry["optimistic"], "below what dp_accounting rounds down"
    assert ours == pytest.approx(entry["pessimistic"], rel=1e-3), "not what dp_accounting says"
    if entry["opacus"] is not None:
        # Opacus states its estimate plus the error of 0.001 that was asked for.
        assert ours == pytest.approx(entry["opacus"] - 1e-3, rel=0.01, abs=1e-3), "not what Opacus says"


def each(entries: list[dict[str, Any]], quick: int) -> Any:
    """One in so many entries in the default command, the others besides."""
    marks = ((), pytest.mark.thorough)
    return pytest.mark.parametrize(
        "entry",
        [pytest.param(one, marks=marks[place % quick > 0]) for place, one in enumerate(entries)],
        ids=lambda one: f"{one['rate']}-{one['noise_multiplier']}-{one['steps']}",
    )


@each(RUNS, 2)
def test_epsilon_is_that_of_other_accountants(entry: dict[str, Any]) -> None:
    assert_as_others_say(entry, epsilon_of_sampled_run(run_of(entry), entry["delta"]))


@each(RUNS, 6)
def test_epsilon_by_way_of_mu_is_never_less_and_soon_the_same(entry: dict[str, Any]) -> None:
    run, delta = run_of(entry), entry["delta"]
    ways = []
    for part in (1 / 64, 1 / 4):
        mu = mu_of_sampled_run(run, additive_delta=part * delta)
        ways.append(epsilon_of(mu**2, delta, additive_delta=part * delta))
    assert min(ways) >= epsilon_of_sampled_run(run, delta) * (1 - 1e-3)
    if run.steps >= 100:
        assert min(ways) <= entry["pessimistic"] * 1.15


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(16))
def test_random_runs_agree_with_dp_accounting(seed: int) -> None:
    accountant = pytest.importorskip(
        "dp_accounting.pld.privacy_loss_distribution", reason="dp_accounting is not installed (requirements-dev.txt)"
    )
    drawn = np.random.default_rng([2026, seed])
    rate, steps = 10 ** drawn.uniform(-3.5, 0), int(10 ** drawn.uniform(0, 4))
    multiplier = max(0.6, rate * math.sqrt(steps)) * 10 ** drawn.uniform(0, 0.7)
    run, delta = SampledRun(rate, steps, multiplier), 10 ** drawn.uniform(-9, -3)
    ours = epsilon_of_sampled_run(run, delta)
    of_step = accountant.from_gaussian_mechanism(
        multiplier,
        sampling_prob=rate,
        value_discretization_interval=max(1e-5, min(1e-3, sampled_runs._typical_mu(run) / math.sqrt(steps) / 8)),
    )
    theirs = of_step.self_compose(steps).get_epsilon_for_delta(delta)
    assert ours == pytest.approx(theirs, rel=0.01, abs=1e-6)


# A run of everybody


@pytest.mark.parametrize(("steps", "multiplier"), [(1, 1.0), (100, 20.0), (3000, 50.0)])
def test_a_run_of_everybody_is_a_gaussian(steps: int, multiplier: float) -> None:
    mu = math.sqrt(steps) / multiplier
    whole = SampledRun(1.0, steps, multiplier)
    assert mu <= mu_of_sampled_run(whole, additive_delta=1e-7) <= mu * (1 + STEP)
    assert epsilon_of_sampled_run(whole, 1e-6) == pytest.approx(epsilon_of(mu**2, 1e-6), rel=1e-3)
    # By the way of all other rates, with a rate that is as good as 1.
    nearly = mu_of_sampled_run(SampledRun(1 - 1e-12, steps, multiplier), additive_delta=1e-12)
    assert nearly == pytest.approx(mu, rel=3e-4)


# Order


def test_more_steps_more_units_and_less_noise_cost_more() -> None:
    middle = SampledRun(0.1, 30, 1.0)
    mu = mu_of_sampled_run(middle, additive_delta=1e-7)
    for more in (replace(middle, rate=0.102), replace(middle, steps=31), replace(middle, noise_multiplier=0.98)):
        assert mu_of_sampled_run(more, additive_delta=1e-7) > mu
        assert epsilon_of_sampled_run(more, 1e-6) > epsilon_of_sampled_run(middle, 1e-6)
    assert mu_of_sampled_run(middle, additive_delta=1e-9) > mu


@pytest.mark.thorough
def test_cost_follows_order_everywhere() -> None:
    axes = ((0.001, 0.01, 0.1, 0.5, 1.0), (1, 3, 30, 1000), (2.0, 4.0, 15.0))
    found = {}
    for rate, steps, multiplier in itertools.product(*axes):
        found[rate, steps, multiplier] = mu_of_sampled_run(SampledRun(rate, steps, multiplier), additive_delta=1e-8)
    for (rate, steps, multiplier), mu in found.items():
        for (other_rate, other_steps, other), least in found.items():
            if other_rate <= rate and other_steps <= steps and other >= multiplier:
                assert least <= mu * (1 + 2 * STEP)


def test_mu_has_few_digits() -> None:
    for additive_delta in (1e-6, 1e-9):
        mu = mu_of_sampled_run(SampledRun(0.02, 500, 1.0), additive_delta=additive_delta)
        assert math.frexp(mu)[0] * 2**14 % 1 == 0


# The noise of a run


@pytest.mark.parametrize(
    ("rate", "steps", "mu"), [(0.01, 100, 0.3), (0.2, 300, 2.0), (0.001, 10, 3.0), (1.0, 100, 0.5), (0.5, 5, 0.01)]
)
def test_noise_is_enough_and_hardly_less_is(rate: float, steps: int, mu: float) -> None:
    multiplier = noise_multiplier_of(rate, steps, mu_squared=mu**2, additive_delta=1e-8)
    assert mu_of_sampled_run(SampledRun(rate, steps, multiplier), additive_delta=1e-8) <= mu
    less = SampledRun(rate, steps, multiplier * (1 - 2.0**-9))
    assert mu_of_sampled_run(less, additive_delta=1e-8) > mu


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(12))
def test_noise_of_random_runs_is_enough(seed: int) -> None:
    drawn = np.random.default_rng([7, seed])
    rate, steps = 10 ** drawn.uniform(-4, 0), int(10 ** drawn.uniform(0, 4.3))
    mu, additive_delta = 10 ** drawn.uniform(-1.5, 0.7), 10 ** drawn.uniform(-12, -5)
    multiplier = noise_multiplier_of(rate, steps, mu_squared=mu**2, additive_delta=additive_delta)
    assert mu_of_sampled_run(SampledRun(rate, steps, multiplier), additive_delta=additive_delta) <= mu
    less = SampledRun(rate, steps, max(multiplier * (1 - 2.0**-9), 2.0**-4))
    assert less.noise_multiplier == 2.0**-4 or mu_of_sampled_run(less, additive_delta=additive_delta) > mu


# Errors of float64


def test_the_error_of_a_convolution_is_below_its_bound() -> None:
    drawn = np.random.default_rng(3)
    for points, steps in ((256, 2), (1024, 9), (4096, 60)):
        law = np.zeros(points)
        law[: points // steps] = drawn.random(points // steps)
        law /= law.sum()
        spectrum = np.fft.rfft(law)
        power = sampled_runs._power(spectrum, steps)
        exact = law
        for _ in range(steps - 1):  # sums of products of positive numbers: every relative error stays tiny
            exact = np.convolve(exact, law)[:points]
        error = np.abs(np.fft.irfft(power, points) - exact).max()
        bound = sampled_runs._power_error(law, spectrum, power, steps)
        assert 0 < error < bound < 1e-8 * exact.max()


def test_masses_between_places_are_within_their_errors() -> None:
    mpmath = pytest.importorskip("mpmath")
    places = np.array(
        [-math.inf, -21.0, -20.9, -8.0, -7.9999, -1.0, -0.999999, 0.0, 1e-5, 0.3, 5.0, 5.00001, 19.0, 20.0]
    )
    with mpmath.workdps(250):  # differences of numbers next to 1
        exact = [
            mpmath.ncdf(mpmath.mpf(float(right))) - (mpmath.ncdf(mpmath.mpf(float(left))) if left > -math.inf else 0)
            for left, right in itertools.pairwise(places)
        ]
        for signed, wanted in ((places, exact), (-places, exact)):
            masses, errors = sampled_runs._between(signed)
            for mass, error, one in zip(masses, errors, wanted, strict=True):
                assert abs(mpmath.mpf(float(mass)) - one) <= mpmath.mpf(float(error))
                assert error <= 1e-9 * one or one < 1e-5


def test_the_curve_of_a_gaussian_is_that_of_budgets() -> None:
    for mu in (1e-3, 0.1, 1.0, 5.0):
        epsilons = np.concatenate([[-0.1, -1e-4], np.linspace(0, 8 * mu, 30)])
        curve, _ = sampled_runs._gaussian_curve(mu, epsilons)
        exact = covered(mu, 0.0, epsilons)
        assert (curve <= exact * (1 + 1e-12)).all()
        np.testing.assert_allclose(curve, exact, rtol=1e-9)


# What a budget holds beside an additive delta


@pytest.mark.parametrize("neighbours", [Neighbours.ADD_REMOVE, Neighbours.REPLACE])
@pytest.mark.parametrize("part", [0.0, 1e-9, SAMPLING_DELTA_PART, 0.25, 0.9, 0.998])
def test_a_budget_holds_what_is_left_beside_an_additive_delta(part: float, neighbours: Neighbours) -> None:
    for epsilon, delta in (
        (0.01, 1e-3),
        (0.5, 1e-6),
        (1.0, 1e-15),
        (3.0, 1e-5),
        (12.0, 1e-9),
        (60.0, 1e-6),
        (1.0, 0.3),
    ):
        budget = PrivacyBudget(epsilon, delta, neighbours)
        units = units_left_beside(budget, part * delta)
        stated = epsilon_of(mu_squared_of(units), delta, additive_delta=part * delta, **ALLOWANCES)
        assert epsilon * (1 - 1e-4 if part < 0.5 else 0.9) - 3e-4 <= stated <= epsilon
        assert units <= budget.units
        assert part or units == budget.units


def test_nothing_is_left_beside_a_delta_that_takes_all() -> None:
    budget = PrivacyBudget(1.0, 1e-6, Neighbours.ADD_REMOVE)
    with pytest.raises(PrivacyError, match="leaves nothing of delta"):
        units_left_beside(budget, 1e-6)
    with pytest.raises(PrivacyError, match="finite and at least 0"):
        units_left_beside(budget, math.nan)
    with pytest.raises(PrivacyError, match="spent as pure epsilon"):
        units_left_beside(PrivacyBudget(1.0, 1e-6, Neighbours.CELL), 1e-8)


def test_an_account_adds_up_sampled_runs() -> None:
    costs = [Cost.of_budget(1.0, 1e-6, Neighbours.ADD_REMOVE, additive_delta=1e-6 * SAMPLING_DELTA_PART)] * 3
    assert costs[0].epsilon(1e-6) == pytest.approx(1.0, rel=1e-4)
    assert costs[0].mu_squared_units * MU_UNIT == pytest.approx(mu_beside(1.0, 1e-6, 2**-6 * 1e-6) ** 2, abs=MU_UNIT)
    total = costs[0] + costs[1] + costs[2]
    assert total.additive_delta_units == 3 * costs[0].additive_delta_units
    plain = Cost.of_budget(1.0, 1e-6, Neighbours.ADD_REMOVE)
    assert (plain + plain + plain).epsilon(1e-6) < total.epsilon(1e-6) < 3.0


@pytest.mark.thorough
def test_the_part_of_delta_is_good_for_the_run_and_for_all_else() -> None:
    """What ``benchmarks/sampled_runs.py parts`` shows, in a few of its cases."""
    for rate, steps, epsilon in ((0.01, 1000, 1.0), (0.1, 1000, 3.0), (0.001, 1000, 1.0)):
        budget = PrivacyBudget(epsilon, 1e-6, Neighbours.ADD_REMOVE)
        noise = {}
        for part in (2.0**-10, SAMPLING_DELTA_PART, 2.0**-4, 0.25, 0.5):
            allowed = mu_squared_of(units_left_beside(budget, part * 1e-6))
            noise[part] = noise_multiplier_of(rate, steps, mu_squared=allowed, additive_delta=part * 1e-6)
        assert noise[SAMPLING_DELTA_PART] <= min(noise.values()) * (1.02 if rate >= 0.01 else 1.09)
        others = math.sqrt(budget.units / units_left_beside(budget, SAMPLING_DELTA_PART * 1e-6))
        assert others < 1.002


# What is refused


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"rate": 0.0}, "sampling rate must be above 0"),
        ({"rate": 1.5}, "sampling rate must be above 0"),
        ({"rate": math.nan}, "sampling rate must be above 0"),
        ({"steps": 0}, "1 to 1,000,000 steps, got 0"),
        ({"steps": 10**7}, "1 to 1,000,000 steps"),
        ({"noise_multiplier": 0.0}, "between 0.0625 and 16384, got 0.0"),
        ({"noise_multiplier": math.inf}, "between 0.0625 and 16384"),
    ],
)
def test_an_impossible_run_is_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(PrivacyError, match=words):
        SampledRun(**{"rate": 0.1, "steps": 10, "noise_multiplier": 1.0, **changes})


def test_what_promises_nothing_is_refused() -> None:
    costly = SampledRun(0.9, 1000, 0.5)
    for asked in (
        lambda: mu_of_sampled_run(costly, additive_delta=1e-8),
        lambda: epsilon_of_sampled_run(costly, 1e-6),
    ):
        with pytest.raises(LossTooLargeError, match="larger noise multiplier, a lower sampling rate or fewer steps"):
            asked()
    with pytest.raises(PrivacyError, match=r"between 1e-100 and 0\.5"):
        mu_of_sampled_run(costly, additive_delta=0.0)
    with pytest.raises(PrivacyError, match="No noise multiplier up to 16384 keeps 10,000 steps"):
        noise_multiplier_of(1.0, 10_000, mu_squared=1e-9, additive_delta=1e-8)
    with pytest.raises(PrivacyError, match="mu squared must be positive"):
        noise_multiplier_of(0.1, 10, mu_squared=0.0, additive_delta=1e-8)


# Planted bugs


def in_direction(run: SampledRun, *, removed: bool, epsilon: float) -> float:
    """Return the delta of one direction alone."""
    window = sampled_runs._window(run, 1e-12)
    width = window.points * window.step
    step = sampled_runs._step(run, window.step, tail=1e-12 / run.steps, lowest=-width, removed=removed)
    deltas = sampled_runs._deltas(step, run.steps, window, window.tilts[not removed], 1)
    return float(np.interp(epsilon, (np.arange(deltas.size) - 1) * window.step, deltas))


def assert_sound() -> None:
    """The checks above, in a few runs."""
    run = SampledRun(0.2, 1, 0.7)
    for removed in (True, False):
        exact = float(delta_of_one(run, np.array([0.05]), removed=removed)[0])
        found = in_direction(run, removed=removed, epsilon=0.05)
        assert exact <= found <= exact * (1 + 1e-4), "one direction is not that of its law"
    for entry in RUNS[1:20:6]:
        assert_as_others_say(entry, epsilon_of_sampled_run(run_of(entry), entry["delta"]))
    for steps in (1, 2):
        assert not not_covered(
            replace(run, steps=steps), mu_of_sampled_run(replace(run, steps=steps), additive_delta=1e-6), 1e-6
        )
    whole = SampledRun(1.0, 50, 10.0)
    assert epsilon_of_sampled_run(whole, 1e-5) == pytest.approx(epsilon_of(0.5, 1e-5), rel=1e-3)


Plant = Callable[[pytest.MonkeyPatch], None]


def of_step(change: Callable[..., Any]) -> Plant:
    right = sampled_runs._step
    return lambda patch: patch.setattr(sampled_runs, "_step", lambda *given, **named: change(right, *given, **named))


def of_deltas(change: Callable[..., Any]) -> Plant:
    right = sampled_runs._deltas
    return lambda patch: patch.setattr(sampled_runs, "_deltas", lambda *given: change(right, *given))


def without_chords(right: Any, *given: Any, **named: Any) -> Any:
    step = right(*given, **named)
    return step._replace(first=step.first - 1)


def of_cover(patch: pytest.MonkeyPatch) -> None:
    right = sampled_runs._is_covered
    patch.setattr(sampled_runs, "_is_covered", lambda *given, every: right(*given[:4], 20 * given[4], every=every))


def without_slope(patch: pytest.MonkeyPatch) -> None:
    right = sampled_runs._gaussian_curve
    patch.setattr(sampled_runs, "_gaussian_curve", lambda mu, epsilons: (right(mu * 1.001, epsilons)[0], 0 * epsilons))


BUGS: dict[str, Plant] = {
    "only an added unit": of_step(lambda right, *given, **named: right(*given, **{**named, "removed": False})),
    "only a removed unit": of_step(lambda right, *given, **named: right(*given, **{**named, "removed": True})),
    "losses rounded down": of_step(without_chords),
    "half of the rate": of_step(
        lambda right, run, *given, **named: right(replace(run, rate=run.rate / 2), *given, **named)
    ),
    "twice the noise": of_step(
        lambda right, run, *given, **named: right(
            replace(run, noise_multiplier=2 * run.noise_multiplier), *given, **named
        )
    ),
    "a step is forgotten": of_deltas(
        lambda right, step, steps, *given: right(step, max(steps - 1, 1) if steps < 100 else steps - 20, *given)
    ),
    "mass is lost": of_deltas(lambda right, step, *given: right(step._replace(masses=0.999 * step.masses), *given)),
    "more than the additive delta is added": of_cover,
    "the curve of a larger mu": without_slope,
}


def test_nothing_is_noticed_where_no_bug_is_planted(fresh: None) -> None:
    assert_sound()


@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_of_the_accountant_is_noticed(bug: str, monkeypatch: pytest.MonkeyPatch, fresh: None) -> None:
    BUGS[bug](monkeypatch)
    with pytest.raises(AssertionError):
        assert_sound()


def test_both_directions_count(monkeypatch: pytest.MonkeyPatch, fresh: None) -> None:
    """No run is known where an added unit is the more visible one; were there one, mu would follow it."""
    run = SampledRun(0.9, 20, 5.0)
    mu, right = mu_of_sampled_run(run, additive_delta=1e-7), sampled_runs._step
    for louder in (True, False):

        def one_is_louder(run: SampledRun, *given: Any, removed: bool, louder: bool = louder, **named: Any) -> Any:
            more = replace(run, rate=1.1 * run.rate) if removed is louder else run
            return right(more, *given, removed=removed, **named)

        monkeypatch.setattr(sampled_runs, "_step", one_is_louder)
        mu_of_sampled_run.cache_clear()
        sampled_runs._curve.cache_clear()
        assert mu_of_sampled_run(run, additive_delta=1e-7) > 1.02 * mu


# Receipts


def planned(**changes: Any) -> PlannedCost:
    rate, steps, additive_delta = 0.02, 500, 1e-6 * SAMPLING_DELTA_PART
    multiplier = noise_multiplier_of(rate, steps, mu_squared=0.25, additive_delta=additive_delta)
    noise = gaussian_of_multiplier(16, 0.5, dimension=40, noise_multiplier=multiplier)
    asked = {"sampling_rate": rate, "steps": steps, "additive_delta": additive_delta, **changes}
    return PlannedCost.of_sampled_run(noise, 40 * steps, **asked)


def receipt(**changes: Any) -> Receipt:
    cost = planned()
    fields: dict[str, Any] = {name: getattr(cost, name) for name in PlannedCost.__slots__ if name != "named"}
    fields |= {"sequence": 0, "query": "training", "source": "dp-gan", "neighbours": Neighbours.ADD_REMOVE}
    return Receipt(**{**fields, "protects": "patient", "rows_per_unit": 1, **changes})


def test_a_planned_run_costs_what_was_allowed() -> None:
    cost = planned()
    assert 0.249 <= mu_squared_of(cost.mu_squared_units) <= 0.25
    assert cost.noise_scale / cost.sensitivity == pytest.approx(
        noise_multiplier_of(0.02, 500, mu_squared=0.25, additive_delta=1e-6 * SAMPLING_DELTA_PART), rel=1e-6
    )
    assert cost.slack == pytest.approx(6 * 20_000 * (cost.grid / cost.noise_scale) ** 2, rel=1e-9)


def test_noise_of_a_multiplier_is_at_least_that() -> None:
    for sensitivity, multiplier in ((0.5, 0.7), (3.0, 1.0), (1e-9, 2.0)):
        noise = gaussian_of_multiplier(12, sensitivity, dimension=3, noise_multiplier=multiplier)
        assert multiplier <= noise.noise_std / noise.sensitivity <= multiplier * (1 + 1e-4)
        assert noise.sensitivity >= sensitivity
    again = gaussian_on_grid(12, 0.5, dimension=3, units=noise.units)
    assert again.slack > 0


def test_a_receipt_of_a_run_survives_json_and_others_do_not_mention_sampling() -> None:
    paid = receipt()
    assert Receipt.from_dict(json.loads(json.dumps(paid.to_dict()))) == paid
    assert (paid.to_dict()["sampling_rate"], paid.to_dict()["steps"]) == (0.02, 500)
    plain = receipt(mechanism="discrete_gaussian", sampling_rate=0.0, steps=0)
    assert not {"sampling_rate", "steps"} & set(plain.to_dict())
    assert Receipt.from_dict(plain.to_dict()) == plain


def test_an_honest_receipt_adds_up_with_others() -> None:
    paid = receipt()
    require_honest(paid)
    assert not list(misstated(paid))
    assert units_of_receipt(paid) == paid.mu_squared_units
    assert slack_of_receipt(paid) == pytest.approx(paid.slack, rel=1e-12)
    other = receipt(sequence=1, query="count", mechanism="discrete_gaussian", sampling_rate=0.0, steps=0)
    other = replace(other, additive_delta=0.0, mu_squared_units=units_of_receipt(replace(other, additive_delta=0.0)))
    together = epsilon_of_receipts([paid, other], 1e-6)
    by_hand = epsilon_of(
        mu_squared_of(paid.mu_squared_units + other.mu_squared_units),
        1e-6,
        slack=math.nextafter(paid.slack + other.slack, math.inf),
        coordinates=paid.dimension + other.dimension,
        additive_delta=math.nextafter(paid.additive_delta, math.inf),
    )
    assert together == by_hand
    # Whoever forgets the additive delta states less.
    assert together > epsilon_of_receipts(
        [
            replace(other, mu_squared_units=other.mu_squared_units),
        ],
        1e-6,
    )
    run = SampledRun(0.02, 500, paid.noise_scale / paid.sensitivity)
    assert epsilon_of_receipts([paid], 1e-6) >= epsilon_of_sampled_run(run, 1e-6)


LIES: dict[str, dict[str, Any]] = {
    "a lower rate was meant": {"sampling_rate": 0.022},
    "fewer steps were meant": {"steps": 625},
    "less noise": {"noise_scale": 0.95},
    "a larger bound": {"sensitivity": 1.05},
    "more was added to delta": {"additive_delta": 0.5},
}


@pytest.mark.parametrize("lie", LIES)
def test_a_lie_about_a_run_is_noticed(lie: str) -> None:
    paid = receipt()
    changed = {
        name: getattr(paid, name) * factor if name in ("noise_scale", "sensitivity", "additive_delta") else factor
        for name, factor in LIES[lie].items()
    }
    forged = replace(paid, **changed)
    with pytest.raises(PrivacyError, match="states a cost of"):
        require_honest(forged)
    assert any("does not follow from its sensitivity and noise" in one for one in misstated(forged))


def test_the_last_digits_of_another_processor_are_no_lie_and_more_is() -> None:
    paid = receipt()
    for factor, honest in ((1 - 2.0**-12, True), (1 + 2.0**-12, True), (1 - 2.0**-9, False)):
        other = replace(paid, mu_squared_units=int(paid.mu_squared_units * factor))
        assert (not list(misstated(other))) is honest
        if honest:
            require_honest(other)
        else:
            with pytest.raises(PrivacyError, match="states a cost of"):
                require_honest(other)
    assert list(misstated(replace(paid, mu_squared_units=int(paid.mu_squared_units * 1.01))))
    assert list(misstated(replace(paid, slack=paid.slack * 0.9)))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"neighbours": Neighbours.REPLACE}, "protect added and removed units, not 'replace"),
        ({"neighbours": Neighbours.CELL}, "protect added and removed units"),
        ({"sampling_rate": 0.0}, "sampling rate must be above 0"),
        ({"sampling_rate": 1.01}, "sampling rate must be above 0"),
        ({"steps": 0}, "a run must have|A run must have"),
        ({"steps": 3}, "dimension must be a multiple of the number of steps"),
        ({"additive_delta": 0.0}, "between 1e-100 and 0.5"),
        ({"noise_scale": 1e-3}, "noise multiplier must lie between"),
        ({"mechanism": "discrete_gaussian"}, "sampling_rate must be 0 where no units are drawn"),
        ({"mechanism": "discrete_gaussian", "sampling_rate": 0.0}, "steps must be 0 where no units are drawn"),
    ],
)
def test_a_receipt_of_no_possible_run_is_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(PrivacyError, match=words):
        receipt(**changes)


def test_the_reach_of_a_cut_leaves_out_what_it_says() -> None:
    assert ndtr(-sampled_runs._reach(1e-12)) == pytest.approx(1e-12, rel=1e-9)
    assert sampled_runs._reach(0.5) == pytest.approx(float(-ndtri(0.5)))
