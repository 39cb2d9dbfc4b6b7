import math

import numpy as np
import pytest
import torch
from kahm_reference import furthest, tensor, vectors

from synth.reports.membership.score import DifferenceEstimator, length_scales_of

CASE = vectors()["lsdd"]
FIRST, SECOND = tensor(CASE["x1"])[:, None], tensor(CASE["x2"])[:, None]
BOTH = torch.cat([FIRST, SECOND])
AS_GIVEN = torch.arange(len(BOTH))[None]


@pytest.mark.parametrize("want", CASE["fixed"], ids=lambda want: f"{want['sigma']:g}-{want['lam']:g}")
def test_reference_values_without_cross_validation(want):
    estimator = DifferenceEstimator(BOTH, BOTH, length_scales=[want["sigma"]], regularisers=[want["lam"]])
    (found,) = estimator.estimate(AS_GIVEN, len(FIRST))
    assert found.squared == pytest.approx(want["L2sq"], abs=1e-8)
    gram = estimator.inner_products(want["sigma"])
    theta, h = tensor(want["theta"]), tensor(want["h"])
    assert furthest(gram @ theta + want["lam"] * theta, h) < 1e-8
    assert float(theta @ gram @ theta) == pytest.approx(want["thHth"], abs=1e-8)


@pytest.mark.parametrize("row", range(len(CASE["cv"]["table"])))
def test_cross_validation_chooses_the_least_of_the_reference_table(row):
    """Against every other pair of the table, one at a time: the lesser loss wins."""
    table = CASE["cv"]["table"]
    sigma, lam, loss = table[row]
    for other_sigma, other_lam, other_loss in table[row + 1 :]:
        regularisers = [lam, other_lam] if lam != other_lam else [lam]
        scales = [sigma, other_sigma] if sigma != other_sigma else [sigma]
        allowed = [entry for entry in table if entry[0] in scales and entry[1] in regularisers]
        estimator = DifferenceEstimator(BOTH, BOTH, length_scales=scales, regularisers=regularisers)
        (found,) = estimator.estimate(AS_GIVEN, len(FIRST))
        best = min(allowed, key=lambda entry: entry[2])
        assert (found.length_scale, found.regulariser) == tuple(best[:2])
        assert best[2] <= min(loss, other_loss)


def test_the_choice_over_the_whole_reference_table():
    scales = sorted({entry[0] for entry in CASE["cv"]["table"]})
    regularisers = sorted({entry[1] for entry in CASE["cv"]["table"]})
    (found,) = DifferenceEstimator(BOTH, BOTH, length_scales=scales, regularisers=regularisers).estimate(
        AS_GIVEN, len(FIRST)
    )
    assert [found.length_scale, found.regulariser] == CASE["cv"]["best"][:2]


def normal(n_points, *, mean=0.0, seed=0, columns=1):
    generator = torch.Generator().manual_seed(seed)
    return mean + torch.randn(n_points, columns, dtype=torch.float64, generator=generator)


def difference(first, second, *, seed=0):
    generator = torch.Generator().manual_seed(seed)
    estimator = DifferenceEstimator.of(torch.cat([first, second]), generator=generator)
    return estimator.estimate(torch.arange(len(first) + len(second))[None], len(first))[0]


def test_identical_samples_differ_by_nothing():
    points = normal(200)
    assert difference(points, points).squared == pytest.approx(0, abs=1e-14)


@pytest.mark.thorough
@pytest.mark.parametrize(("n_first", "n_second"), [(2000, 2000), (3000, 1000), (1000, 3000)])
def test_two_normal_laws(n_first, n_second):
    """The integral of the squared difference of N(0, 1) and N(m, 1) is (1 - exp(-m^2 / 4)) / sqrt(pi)."""
    found = difference(normal(n_first), normal(n_second, mean=1.0, seed=1))
    assert found.squared == pytest.approx((1 - math.exp(-0.25)) / math.sqrt(math.pi), rel=0.15)


@pytest.mark.parametrize(("n_first", "n_second"), [(40, 7), (7, 40), (2, 50), (3, 2)])
def test_samples_of_different_sizes(n_first, n_second):
    # With folds cut by the first sample's size, as in the published code, some of these have empty folds and give nan.
    assert math.isfinite(difference(normal(n_first), normal(n_second, seed=1)).squared)


def test_two_dimensions():
    found = difference(normal(1500, columns=2), normal(1500, mean=1.0, seed=1, columns=2))
    # |m|^2 = 2, and the square of a normal density integrates to 1 / (4 pi).
    assert found.squared == pytest.approx(2 * (1 - math.exp(-0.5)) / (4 * math.pi), rel=0.2)


def test_several_splits_at_once_are_those_one_by_one():
    points = torch.cat([normal(60), normal(45, mean=0.5, seed=1)])
    orders = torch.stack([torch.randperm(105, generator=torch.Generator().manual_seed(seed)) for seed in range(23)])
    estimator = DifferenceEstimator(points, points[::3], length_scales=length_scales_of(points))
    together = estimator.estimate(orders, 60)
    for order, found in zip(orders, together, strict=True):
        (alone,) = estimator.estimate(order[None], 60)
        assert alone.squared == pytest.approx(found.squared, abs=1e-12)
        assert alone.length_scale == found.length_scale


def test_scaling_the_points_scales_the_estimate():
    first, second = normal(300), normal(300, mean=0.7, seed=1)
    assert difference(10 * first, 10 * second).squared * 10 == pytest.approx(difference(first, second).squared, rel=0.1)


def test_length_scales_follow_the_distances():
    points = tensor([[0.0], [0.0], [1.0], [3.0]])
    scales = length_scales_of(points)
    # Distances of different points are 1, 1, 2, 3, 3.
    assert scales[0] == pytest.approx(2.0 * 10**-1.5)
    assert scales[-1] / scales[0] == pytest.approx(100)
    assert length_scales_of(tensor([[2.0], [2.0]]))[0] == pytest.approx(10**-1.5)


def mean_features(points, chosen, sigma):
    return np.exp(-((points[chosen] - BOTH.numpy().T) ** 2) / (2 * sigma**2)).mean(axis=0)


@pytest.mark.parametrize("entry", CASE["cv"]["table"], ids=lambda entry: f"{entry[0]:g}-{entry[1]:g}")
def test_reference_losses_of_cross_validation(entry):
    """The table itself, by the formula: a second way to the losses that the choice is made by."""
    sigma, lam, loss = entry
    gram = DifferenceEstimator(BOTH, BOTH, length_scales=[sigma]).inner_products(sigma).numpy()
    losses = []
    for fold in range(5):
        first, second = np.arange(len(FIRST)) % 5 == fold, np.arange(len(SECOND)) % 5 == fold
        trained = mean_features(FIRST.numpy(), ~first, sigma) - mean_features(SECOND.numpy(), ~second, sigma)
        tested = mean_features(FIRST.numpy(), first, sigma) - mean_features(SECOND.numpy(), second, sigma)
        theta = np.linalg.solve(gram + lam * np.eye(len(gram)), trained)
        losses.append(theta @ gram @ theta - 2 * theta @ tested)
    assert np.mean(losses) == pytest.approx(loss, abs=1e-8)
