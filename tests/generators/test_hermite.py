import math
from collections import defaultdict

import mpmath
import numpy as np
import pytest
import torch
from gaussian_kernels import (
    gaussian_kernel,
    mehler_kernel,
    product_gaussian_kernel,
    product_hermite_features,
    sum_gaussian_kernel,
    sum_hermite_features,
)
from hermite_reference import TOLERANCE, double, largest_difference, vectors
from hypothesis import given, settings
from hypothesis import strategies as st

from synth.errors import InputError
from synth.generators.hermite.dp_hp import hermite_features, rho_of_length_scale

KERNEL = vectors()["kernel"]
LENGTH_SCALES = [math.sqrt(squared) for squared in KERNEL["sigma2"]]
RHOS = [rho_of_length_scale(length_scale) for length_scale in LENGTH_SCALES]


def test_single_features_equal_80_digit_arithmetic():
    by_rho = defaultdict(list)
    for row in vectors()["phi"]:
        by_rho[row["rho"]].append(row)
    compared = 0
    for rho, rows in by_rho.items():
        features = hermite_features(double([row["x"] for row in rows]), order=200, rho=rho)
        got = features[torch.arange(len(rows)), torch.tensor([row["c"] for row in rows])]
        assert largest_difference(got, [row["phi"] for row in rows]) < TOLERANCE
        compared += len(rows)
    assert compared == 600


@pytest.mark.parametrize("row", vectors()["rho"], ids=lambda row: f"{row['sigma2']:g}")
def test_rho_of_a_length_scale(row):
    got = rho_of_length_scale(math.sqrt(row["sigma2"]))
    assert got == pytest.approx(row["rho_mp"], rel=TOLERANCE)


@pytest.mark.parametrize("length_scale", [1e-3, 0.1, 3.0, 1e4, 1e8])
def test_rho_never_cancels(length_scale):
    with mpmath.workdps(60):
        squared = mpmath.mpf(length_scale) ** 2
        exact = float(mpmath.sqrt(squared**2 + 1) - squared)
    assert rho_of_length_scale(length_scale) == pytest.approx(exact, rel=1e-14)


def test_recursion_equals_the_polynomials_by_numpy():
    x, rho = np.linspace(-2, 2, 9), 0.4
    features = hermite_features(torch.from_numpy(x), order=6, rho=rho).numpy()
    for c in range(7):
        polynomial = np.polynomial.hermite.hermval(x, np.eye(7)[c])
        n_c = 2.0**c * math.factorial(c) * math.sqrt((1 - rho) / (1 + rho))
        direct = np.sqrt((1 - rho) * rho**c / n_c) * polynomial * np.exp(-rho / (1 + rho) * x**2)
        np.testing.assert_allclose(features[:, c], direct, atol=1e-13)


def test_exact_kernels():
    x, y = double(KERNEL["X"]), double(KERNEL["Y"])
    product = product_gaussian_kernel(x, y, length_scale=LENGTH_SCALES)
    assert largest_difference(product, KERNEL["exact_product"]) < TOLERANCE
    assert largest_difference(sum_gaussian_kernel(x, y, length_scale=LENGTH_SCALES), KERNEL["exact_sum"]) < TOLERANCE


@pytest.mark.parametrize("order", sorted(map(int, KERNEL["sum_feature_kernel"])))
def test_kernel_of_sum_features(order):
    x, y = double(KERNEL["X"]), double(KERNEL["Y"])
    got = sum_hermite_features(x, order=order, rho=RHOS) @ sum_hermite_features(y, order=order, rho=RHOS).T
    assert largest_difference(got, KERNEL["sum_feature_kernel"][str(order)]) < TOLERANCE


@pytest.mark.parametrize("order", sorted(map(int, KERNEL["prod_feature_kernel"])))
def test_kernel_of_product_features(order):
    x, y = double(KERNEL["X"]), double(KERNEL["Y"])
    got = product_hermite_features(x, order=order, rho=RHOS) @ product_hermite_features(y, order=order, rho=RHOS).T
    assert largest_difference(got, KERNEL["prod_feature_kernel"][str(order)]) < TOLERANCE


def test_order_of_product_and_sum_features():
    x = double(KERNEL["X"])[:1]
    assert (
        largest_difference(product_hermite_features(x, order=2, rho=RHOS)[0], KERNEL["first_row_prod_C2"]) < TOLERANCE
    )
    assert largest_difference(sum_hermite_features(x, order=2, rho=RHOS)[0], KERNEL["first_row_sum_C2"]) < TOLERANCE


@pytest.mark.parametrize("kind", ["sum", "prod"])
def test_truncation_error_against_the_exact_kernel(kind):
    x, y = double(KERNEL["X"]), double(KERNEL["Y"])
    features = {"sum": sum_hermite_features, "prod": product_hermite_features}[kind]
    exact = {"sum": sum_gaussian_kernel, "prod": product_gaussian_kernel}[kind](x, y, length_scale=LENGTH_SCALES)
    for order, want in KERNEL[f"max_abs_err_{kind}"].items():
        got = features(x, order=int(order), rho=RHOS) @ features(y, order=int(order), rho=RHOS).T
        assert float((got - exact).abs().max()) == pytest.approx(want, abs=TOLERANCE)


def test_largest_norms():
    x = double(KERNEL["X"])
    sums = sum_hermite_features(x, order=60, rho=RHOS).square().sum(dim=1)
    products = product_hermite_features(x, order=20, rho=RHOS).square().sum(dim=1)
    assert float(sums.max()) == pytest.approx(KERNEL["max_norm_sq"]["sum"], abs=TOLERANCE)
    assert float(products.max()) == pytest.approx(KERNEL["max_norm_sq"]["prod"], abs=TOLERANCE)


def test_figure_1_errors_of_hermite_features():
    figure = vectors()["fig1"]
    x, y = double(figure["x"]), double(figure["x_prime"])
    pooled = torch.cat([x, y])
    assert float(torch.pdist(pooled[:, None]).median()) == pytest.approx(figure["median_pairwise"], abs=1e-3)
    rho = rho_of_length_scale(math.sqrt(figure["sigma2"]))
    assert rho == pytest.approx(figure["rho"], abs=TOLERANCE)
    exact = mehler_kernel(x[:, None], y[None, :], rho=rho)
    for order, want in figure["hp_order_error"].items():
        got = hermite_features(x, order=int(order), rho=rho) @ hermite_features(y, order=int(order), rho=rho).T
        assert float((got - exact).abs().mean()) == pytest.approx(want, abs=TOLERANCE)
    for order, want in figure["hp_fro"].items():
        got = hermite_features(x, order=int(order), rho=rho) @ hermite_features(y, order=int(order), rho=rho).T
        assert float(torch.linalg.norm(got - exact)) == pytest.approx(want, abs=TOLERANCE)


def test_proposition_b1_squared_error_and_bound():
    proposition = vectors()["prop_b1"]
    rho = proposition["rho"]
    nodes, weights = np.polynomial.hermite_e.hermegauss(120)
    weights = torch.from_numpy(weights / math.sqrt(2 * math.pi))
    points = torch.from_numpy(nodes)
    exact = mehler_kernel(points[:, None], points[None, :], rho=rho)
    for row in proposition["rows"]:
        features = hermite_features(points, order=row["C"], rho=rho)
        error = features @ features.T - exact
        squared = float(weights @ error.square() @ weights)
        absolute = float(weights @ error.abs() @ weights)
        assert squared == pytest.approx(row["E_sq"], abs=TOLERANCE)
        assert squared == pytest.approx(0.5 * 9.0 ** -(row["C"] + 1), rel=1e-4, abs=1e-20)
        assert absolute == pytest.approx(row["E_abs"], abs=TOLERANCE)
        assert absolute <= row["bound_abs"] == pytest.approx(3.0 ** -row["C"] / (3 * math.sqrt(2)), abs=TOLERANCE)
    one_minus = float(weights @ (1 - exact.square()).square() @ weights)
    assert one_minus == pytest.approx(proposition["E_1_minus_k2_sq"], abs=TOLERANCE)


def test_labelled_mean_embeddings():
    want = vectors()["mean_embedding"]
    x, one_hot = double(want["X"]), torch.nn.functional.one_hot(torch.tensor(want["y"])).double()
    rhos = [rho_of_length_scale(math.sqrt(squared)) for squared in want["sigma2"]]
    sums = sum_hermite_features(x, order=want["order"], rho=rhos)
    products = product_hermite_features(x, order=want["order"], rho=rhos)
    assert largest_difference(sums.T @ one_hot / len(x), want["sum"]) < TOLERANCE
    assert largest_difference(products.T @ one_hot / len(x), want["prod"]) < TOLERANCE
    assert largest_difference(sums.mean(dim=0), want["sum_unlabelled"]) < TOLERANCE


@pytest.mark.parametrize("key", sorted(vectors()["sensitivity"]["grid_max"]))
def test_two_rows_are_at_most_root_two_apart(key):
    rho, order = key.split(",")
    features = hermite_features(torch.linspace(-6, 6, 481, dtype=torch.float64), order=int(order), rho=float(rho))
    furthest = float(torch.cdist(features, features, compute_mode="donot_use_mm_for_euclid_dist").max())
    assert furthest == pytest.approx(vectors()["sensitivity"]["grid_max"][key], abs=TOLERANCE)
    assert furthest <= vectors()["sensitivity"]["sqrt2"] + TOLERANCE


@settings(deadline=None)
@given(
    x=st.floats(-50, 50),
    y=st.floats(-50, 50),
    length_scale=st.floats(0.02, 100),
    order=st.integers(0, 120),
)
def test_norm_and_distance_bounds_hold_everywhere(x, y, length_scale, order):
    a, b = hermite_features(double([x, y]), order=order, rho=rho_of_length_scale(length_scale))
    assert float(a @ a) <= 1 + 1e-9
    distance = float((a - b).square().sum())
    assert distance <= 2 - 2 * float(mehler_kernel(double(x), double(y), rho=rho_of_length_scale(length_scale))) + 1e-9


def test_gaussian_and_mehler_kernels_are_one():
    x, y = double([0.3, -2.0]), double([1.1, 0.4])
    got = mehler_kernel(x, y, rho=rho_of_length_scale(0.7))
    torch.testing.assert_close(got, gaussian_kernel(x, y, length_scale=0.7), atol=1e-14, rtol=0)


def test_features_are_differentiable():
    x = double([0.3, -0.8]).requires_grad_()
    torch.autograd.gradcheck(lambda value: hermite_features(value, order=6, rho=0.6), (x,))


def test_float32_is_close_to_float64():
    x = torch.linspace(-1, 1, 101, dtype=torch.float64)
    rho = rho_of_length_scale(0.1)
    single = hermite_features(x.float(), order=100, rho=rho).double()
    assert float((single - hermite_features(x, order=100, rho=rho)).abs().max()) < 1e-5


def test_one_constant_per_column():
    with pytest.raises(InputError, match="One constant"):
        sum_hermite_features(torch.zeros(4, 3), order=2, rho=[0.5, 0.5])
