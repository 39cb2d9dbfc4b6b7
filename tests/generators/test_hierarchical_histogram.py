"""Nested counts against dense algebra, sums over every possibility, and numerical integrals."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from choosing import each_pair

from synth.generators import hierarchical_histogram
from synth.generators.hierarchical_histogram import (
    UNITS,
    HierarchicalHistogram,
    bottom_depth,
    nearest_masses,
    node_starts,
    sparse_histogram,
    split_evenly,
)


def cells(places: int, depth: int) -> np.ndarray:
    """Matrix that sums places to the nodes of a depth that hold a place."""
    starts = node_starts(places, depth)
    rows = [
        (np.arange(places) >= start) & (np.arange(places) < end)
        for start, end in itertools.pairwise(starts)
        if end > start
    ]
    return np.array(rows, dtype=float)


def noisy(truth: np.ndarray, levels: dict[int, float], seed: int) -> dict[int, tuple[np.ndarray, np.ndarray]]:
    random = np.random.default_rng(seed)
    answers = {}
    for depth, variance in levels.items():
        exact = cells(len(truth), depth) @ truth
        answers[depth] = (
            exact + np.sqrt(variance) * random.normal(size=len(exact)),
            np.full(len(exact), variance),
        )
    return answers


@pytest.mark.parametrize("places", [1, 2, 3, 11, 16, 45])
def test_every_place_has_a_leaf_of_its_own(places: int) -> None:
    counts = np.diff(node_starts(places, bottom_depth(places)))
    assert counts.sum() == places
    assert set(counts.tolist()) <= {0, 1}


@pytest.mark.parametrize(("places", "depths"), [(2, (1,)), (11, (4, 2)), (16, (4, 3, 0)), (45, (6, 4, 1))])
def test_estimate_is_generalised_least_squares(places: int, depths: tuple[int, ...]) -> None:
    random = np.random.default_rng(places)
    truth = random.integers(0, 50, places).astype(float)
    variances = dict(zip(depths, (9.0, 4.0, 1.0), strict=False))
    answers = noisy(truth, variances, seed=1)
    total = truth.sum() + 3.0
    # Second algorithm: all equations in one dense system, the total with next to no noise.
    design = np.concatenate([cells(places, depth) / np.sqrt(variances[depth]) for depth in depths])
    seen = np.concatenate([answers[depth][0] / np.sqrt(variances[depth]) for depth in depths])
    sure = 1e4
    design, seen = np.vstack([design, np.full(places, sure)]), np.append(seen, total * sure)
    expected = np.linalg.lstsq(design, seen, rcond=None)[0]
    nested = HierarchicalHistogram.combine(places, answers)
    estimate = nested.estimate(total)
    np.testing.assert_allclose(estimate, expected, atol=1e-4)
    assert estimate.sum() == pytest.approx(total)

    covariance = np.linalg.inv(design.T @ design)
    groups = np.eye(3)[random.integers(0, 3, places)]
    weights = np.hstack([groups, random.normal(size=(places, 1))])
    slope, variance = nested.spread_of(weights)
    np.testing.assert_allclose(variance, np.diag(weights.T @ covariance @ weights), rtol=1e-4, atol=1e-6)
    assert slope[:3].sum() == pytest.approx(1.0)


def test_answers_that_agree_are_left_alone() -> None:
    truth = np.arange(37.0)
    answers = {depth: (cells(37, depth) @ truth, np.full(len(cells(37, depth)), 5.0)) for depth in (6, 3)}
    nested = HierarchicalHistogram.combine(37, answers)
    assert nested.total[0] == pytest.approx(truth.sum())
    np.testing.assert_allclose(nested.estimate(truth.sum()), truth, atol=1e-9)


@pytest.mark.parametrize("total", [0.0, 3.0, 500.0, 1e6])
def test_possible_counts_keep_the_total(total: float) -> None:
    truth = np.random.default_rng(0).dirichlet(np.full(300, 0.1)) * total
    nested = HierarchicalHistogram.combine(300, noisy(truth, {9: 30.0, 5: 10.0}, seed=2))
    made = nested.possible(total, np.arange(1, 301))
    assert (made >= 0).all()
    assert made.sum() == pytest.approx(total)


@pytest.mark.parametrize("rows", [5_000, 100_000])
def test_noise_leaves_an_even_column_even(rows: int) -> None:
    truth = np.full(1024, rows / 1024)
    nested = HierarchicalHistogram.combine(1024, noisy(truth, {10: 1000.0, 5: 140.0}, seed=3))
    made = nested.possible(rows, np.ones(1024, dtype=np.int64))
    clipped = nearest_masses(nested.estimate(rows), np.ones(1024), rows)
    assert np.abs(made - truth).sum() < 0.15 * np.abs(clipped - truth).sum()
    assert made.max() < truth[0] + 4 * np.sqrt(1000.0)


@pytest.mark.parametrize("rows", [5_000, 100_000])
@pytest.mark.parametrize("place", [0, 517, 1023])
def test_spikes_survive(rows: int, place: int) -> None:
    truth = np.full(1024, 0.4 * rows / 1024)
    truth[place] += 0.6 * rows
    nested = HierarchicalHistogram.combine(1024, noisy(truth, {10: 1000.0, 5: 140.0}, seed=4))
    made = nested.possible(rows, np.ones(1024, dtype=np.int64))
    assert made[place] == pytest.approx(truth[place], abs=5 * np.sqrt(1000.0))


def test_clear_counts_are_kept() -> None:
    truth = np.random.default_rng(5).integers(1, 1000, 128).astype(float)
    nested = HierarchicalHistogram.combine(128, noisy(truth, {7: 1e-4, 5: 1e-4}, seed=6))
    np.testing.assert_allclose(nested.possible(truth.sum(), np.ones(128, dtype=np.int64)), truth, atol=0.2)


@pytest.mark.parametrize("left", [-300.0, -5.0, 0.0, 3.0, 50.0, 97.0, 100.0, 160.0])
@pytest.mark.parametrize("std", [0.5, 10.0, 400.0])
def test_an_even_prior_is_integrated_exactly(left: float, std: float) -> None:
    mass = 100.0
    grid = (np.arange(400_000) + 0.5) * mass / 400_000
    exponent = -(((left - grid) / std) ** 2) / 2
    weights = np.exp(exponent - exponent.max())
    mean, log_density = hierarchical_histogram._flat_posterior(np.array([mass]), np.array([left]), np.array([std]))
    assert mean[0] == pytest.approx((weights * grid).sum() / weights.sum(), abs=1e-2)
    expected = np.log(weights.mean()) + exponent.max() - np.log(std * np.sqrt(2 * np.pi))
    assert log_density[0] == pytest.approx(expected, abs=1e-2, rel=1e-3)


def test_divisions_without_information_are_even() -> None:
    mass, std = np.full(5, 10.0), np.full(5, 1e6)
    divided = split_evenly(mass, np.array([-1e5, 0.0, 5.0, 10.0, 1e5]), std, np.full(5, 0.5))
    np.testing.assert_allclose(divided, 5.0, atol=0.5)


def test_sparse_histograms_are_the_sum_over_all_divisions() -> None:
    counts, variances = np.array([6.0, -4.0, 1.0, 3.0]), np.array([9.0, 4.0, 9.0, 16.0])
    widths, total = np.array([1.0, 3.0, 2.0, 2.0]), 8.0
    unit = total / UNITS
    likelihood = np.exp(-((counts[:, None] - unit * np.arange(UNITS + 1)) ** 2) / (2 * variances[:, None]))
    sums, weight = np.zeros(4), 0.0
    for shape in hierarchical_histogram._SHAPES:
        # near = 1: of the root's halves the left is nearer, of its leaves the right, of the other half's the left.
        root = hierarchical_histogram._prior(shape, 0.5, True)[UNITS]
        left, right = hierarchical_histogram._prior(shape, 0.25, False), hierarchical_histogram._prior(shape, 0.5, True)
        for units in range(UNITS + 1):
            first, rest = np.arange(units + 1), np.arange(UNITS - units + 1)
            on_left = left[units, first] * likelihood[0, first] * likelihood[1, units - first]
            on_right = right[UNITS - units, rest] * likelihood[2, rest] * likelihood[3, UNITS - units - rest]
            both = shape.likely * root[units] * on_left.sum() * on_right.sum()
            weight += both
            parts = (on_left @ first / on_left.sum(), on_right @ rest / on_right.sum())
            sums += both * np.array([parts[0], units - parts[0], parts[1], UNITS - units - parts[1]])
    made = sparse_histogram(counts, variances, widths, total=total, near=1)
    np.testing.assert_allclose(made, unit * sums / weight, rtol=1e-6)
    assert made.sum() == pytest.approx(total)


@pytest.mark.parametrize(
    ("counts", "total"),
    [
        ([0.0, 0.0], 891.0),  # a number of rows is declared, and nothing was counted
        ([40.0, -3.0], 891.0),
        ([5e5, 2e5], 3.0),  # far more was counted than is declared
        ([4e3, 4e3, -5.0, 4e3], 12.0),
    ],
)
def test_a_declared_total_far_from_the_counts_is_divided_all_the_same(counts: list[float], total: float) -> None:
    # Second algorithm: every division, in logarithms, which do not underflow.
    noisy, variances, unit = np.array(counts), 4.0 + np.arange(len(counts)), total / UNITS
    steps = np.arange(UNITS + 1)
    log_likelihood = -((noisy[:, None] - unit * steps) ** 2) / (2 * variances[:, None])
    means, log_evidence = [], []
    for shape in hierarchical_histogram._SHAPES:

        def log_prior(even: float, near_left: bool, units: int, shape: object = shape) -> np.ndarray:
            return np.log(hierarchical_histogram._prior(shape, even, near_left)[units, : units + 1])  # type: ignore[arg-type]

        if len(noisy) == 2:
            logs = log_prior(0.5, True, UNITS) + log_likelihood[0] + log_likelihood[1, ::-1]
            masses = np.stack([steps, UNITS - steps])
            mean = masses @ np.exp(logs - np.logaddexp.reduce(logs))
        else:
            logs, mean = np.zeros(UNITS + 1), np.zeros((4, UNITS + 1))
            for units in steps:
                logs[units] = log_prior(0.5, True, UNITS)[units]
                for first, held, near_left in ((0, units, True), (2, UNITS - units, True)):
                    part = log_prior(0.5, near_left, held) + log_likelihood[first, : held + 1]
                    part += log_likelihood[first + 1, held::-1]
                    evidence = np.logaddexp.reduce(part)
                    logs[units] += evidence
                    mean[first, units] = np.arange(held + 1) @ np.exp(part - evidence)
                    mean[first + 1, units] = held - mean[first, units]
            mean = mean @ np.exp(logs - np.logaddexp.reduce(logs))
        means.append(unit * mean)
        log_evidence.append(np.log(shape.likely) + np.logaddexp.reduce(logs))
    weights = np.exp(np.array(log_evidence) - np.logaddexp.reduce(log_evidence))
    made = sparse_histogram(noisy, variances, np.ones(len(noisy)), total=total, near=0)
    np.testing.assert_allclose(made, weights @ np.array(means), rtol=1e-6, atol=1e-9 * total)


@pytest.mark.parametrize(
    ("places", "counted", "declared", "std"),
    each_pair([2, 3, 17, 64], [0, 40, 10**6], [1.0, 891.0, 10.0**9], [0.02, 1.0, 300.0]),
)
def test_whatever_is_declared_the_masses_add_up(places: int, counted: int, declared: float, std: float) -> None:
    random = np.random.default_rng(places)
    exact = np.bincount(np.minimum(random.geometric(0.2, counted) - 1, places - 1), minlength=places)
    answers = {bottom_depth(places): (exact + std * random.normal(size=places), np.full(places, std**2))}
    tree = HierarchicalHistogram.combine(places, answers)
    with np.errstate(divide="raise", invalid="raise", over="raise"):
        made = tree.possible(declared, np.ones(places, dtype=np.int64), near=0)
    assert (made >= 0).all()
    assert made.sum() == pytest.approx(declared)


@pytest.mark.thorough
def test_a_broad_column_is_smoothed_and_a_peak_is_kept() -> None:
    random = np.random.default_rng(3)
    noise = 35 * random.normal(size=(20, 32))
    broad = 1560 * np.exp(-(((np.arange(32) - 14) / 9) ** 2) / 2)
    broad *= 1560 / broad.sum()
    peaked = np.zeros(32)
    peaked[[0, 16, 17]] = 160, 1000, 400

    def error(truth: np.ndarray) -> float:
        made = [
            sparse_histogram(truth + one, np.full(32, 35.0**2), np.full(32, 3.0), total=1560.0, near=16)
            for one in noise
        ]
        return float(np.abs(np.array(made) - truth).sum(axis=1).mean() / 2 / 1560)

    # Projected noisy counts are off by .22 and by .10.
    assert error(broad) < 0.15
    assert error(peaked) < 0.05


def test_cells_without_codes_hold_nothing() -> None:
    made = sparse_histogram(np.zeros(4), np.array([1.0, 0.0, 1.0, 1.0]), np.array([1.0, 0, 1, 1]), total=2.0, near=0)
    assert made[1] == 0
    assert made.sum() == pytest.approx(2.0)


def test_nearest_masses_solve_the_constrained_problem() -> None:
    counts, variances = np.array([5.0, -3.0, 2.0, 0.5]), np.array([1.0, 4.0, 0.5, 2.0])
    masses = nearest_masses(counts, variances, 6.0)
    assert masses.sum() == pytest.approx(6.0)
    assert (masses >= 0).all()
    # Karush-Kuhn-Tucker: one multiplier for all that are positive, and no reason to raise the others.
    pulls = (counts - masses) / variances
    multiplier = pulls[masses > 0]
    np.testing.assert_allclose(multiplier, multiplier[0])
    assert (pulls[masses == 0] <= multiplier[0] + 1e-12).all()
