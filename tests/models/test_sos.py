"""Kernel sum-of-squares densities: reference values, fits that are optima, samples that follow exact masses."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from models_reference import TOLERANCE, furthest, reference, slope
from published_density import fit_rows, log_likelihood, triple_integrals

from synth.errors import InputError
from synth.models import sos_density
from synth.models.sos_density import (
    FourierEmbedding,
    SumOfSquares,
    fourier_features,
    gaussian_gram,
    interval_products,
    product_integrals,
    sample_box,
    sample_clipped,
)
from synth.models.sos_estimation import (
    fit_embedding,
    fit_smoothest,
    herd,
    project_to_spectrahedron,
    sobol_pool,
)

GIVEN = reference("sos")
POINTS, WIDTH = np.array(GIVEN["Z"]), GIVEN["s"]
OMEGA, AIM, B = np.array(GIVEN["Omega"]), np.array(GIVEN["mu"]), np.array(GIVEN["B"])
DENSITY = SumOfSquares(POINTS, B, WIDTH)
EMBEDDING = FourierEmbedding(POINTS, OMEGA, bandwidth=WIDTH)
BOX = {"lower": np.array([-0.4, -0.3]), "upper": np.array([1.3, 1.4])}


def pair(i: int, j: int) -> np.ndarray:
    """The symmetric matrix whose inner product with another is that one's entry."""
    matrix = np.zeros((4, 4))
    matrix[i, j] += 0.5
    matrix[j, i] += 0.5
    return matrix


def test_reference_values_of_the_integrals():
    assert furthest(product_integrals(POINTS, bandwidth=WIDTH), GIVEN["W"]) < TOLERANCE
    assert furthest(triple_integrals(POINTS, bandwidth=WIDTH), GIVEN["U3"]) < TOLERANCE
    features = np.stack([[EMBEDDING.of(pair(i, j)) for j in range(4)] for i in range(4)])
    assert furthest(np.moveaxis(features, 2, 0), GIVEN["T"]) < TOLERANCE
    everywhere = interval_products(POINTS[:, 0], -math.inf, math.inf, bandwidth=WIDTH)
    everywhere = everywhere * interval_products(POINTS[:, 1], -math.inf, math.inf, bandwidth=WIDTH)
    assert furthest(everywhere, GIVEN["W"]) < TOLERANCE


def test_reference_values_of_the_density():
    assert furthest(DENSITY.density(np.array(GIVEN["density_points"])), GIVEN["density"]) < TOLERANCE
    box = GIVEN["box_mass"]
    found = DENSITY.box_mass(np.array(box["lo"]), np.array(box["hi"]))
    assert found == pytest.approx(box["mass"], abs=TOLERANCE)
    assert DENSITY.box_mass(np.full(2, -9.0), np.full(2, 9.0)) == pytest.approx(1.0, abs=1e-12)


def test_rounding_makes_no_density_negative():
    # Of rank 1, the density is the square of a function; where that changes its sign, q^T B q may round below 0.
    factor = np.array([0.7, -1.3, 0.9, 0.4])
    random = np.random.default_rng(0)
    low, high = random.random((2, 4000, 2))

    def height(x: np.ndarray) -> np.ndarray:
        return gaussian_gram(x, POINTS, bandwidth=WIDTH) @ factor

    crossing = height(low) * height(high) < 0
    low, high = low[crossing], high[crossing]
    for _ in range(60):
        middle = (low + high) / 2
        below = (height(middle) * height(low) > 0)[:, None]
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    kernels = gaussian_gram(low, POINTS, bandwidth=WIDTH)
    assert np.einsum("ni,ni->n", kernels @ np.outer(factor, factor), kernels).min() < 0
    assert SumOfSquares(POINTS, np.outer(factor, factor), WIDTH).density(low).min() == 0


def test_the_log_likelihood_has_a_floor():
    x, box = np.array(GIVEN["density_points"]), {"lower": np.zeros(2), "upper": np.array([2.0, 1.0])}
    wanted = np.mean(np.log(0.99 * np.array(GIVEN["density"]) + 0.01 / 2.0))
    assert log_likelihood(DENSITY, x, **box) == pytest.approx(wanted, abs=1e-12)
    far = np.array([[1e3, 1e3]])
    assert log_likelihood(DENSITY, far, **box, floor=0.1) == pytest.approx(math.log(0.1 / 2.0), abs=1e-12)


def test_reference_values_of_the_objective_and_its_gradient():
    residual = EMBEDDING.of(B) - AIM
    assert float(residual @ residual) == pytest.approx(GIVEN["objective"], abs=TOLERANCE)
    assert furthest(2 * EMBEDDING.adjoint(residual), GIVEN["gradient_B"]) < TOLERANCE


def test_the_adjoint_is_the_adjoint():
    random = np.random.default_rng(0)
    matrix, weights = random.standard_normal((4, 4)), random.standard_normal(6)
    matrix += matrix.T
    assert float(EMBEDDING.of(matrix) @ weights) == pytest.approx(float((EMBEDDING.adjoint(weights) * matrix).sum()))


def test_reference_values_of_the_projection():
    assert furthest(project_to_spectrahedron(np.array(GIVEN["proj_in"])), GIVEN["proj_out"]) < TOLERANCE


def test_reference_values_of_the_optimum():
    found = fit_embedding(POINTS, OMEGA, AIM, bandwidth=WIDTH, trace_penalty=0.0, ridge=0.0, steps=2000)
    wanted = GIVEN["optimum"]
    assert found.objective == pytest.approx(wanted["value"], abs=TOLERANCE)
    assert found.misfit == pytest.approx(wanted["value"], abs=TOLERANCE)
    assert furthest(found.density.coefficients, wanted["B"]) < TOLERANCE
    assert float((np.array(GIVEN["W"]) * found.density.coefficients).sum()) == pytest.approx(wanted["trWB"], abs=1e-12)
    assert np.linalg.eigvalsh(found.density.coefficients).min() > -1e-12


def published_objective(coefficients: np.ndarray, rows: np.ndarray, penalty: float) -> float:
    """Eq. 13 with its constant, written out."""
    gram = gaussian_gram(POINTS, POINTS, bandwidth=WIDTH)
    u = np.einsum("ijl,ij->l", triple_integrals(POINTS, bandwidth=WIDTH), coefficients)
    apart = u - gaussian_gram(rows, POINTS, bandwidth=WIDTH).mean(axis=0)
    return float(apart @ np.linalg.solve(gram, apart) + penalty * np.trace(coefficients @ gram))


def test_reference_values_of_the_published_objective():
    case = GIVEN["paper_objective_eq13"]
    rows = np.array(case["X"])
    assert furthest(gaussian_gram(POINTS, POINTS, bandwidth=WIDTH), case["Kmm"]) < TOLERANCE
    assert furthest(gaussian_gram(rows, POINTS, bandwidth=WIDTH).mean(axis=0), case["Kmn_mean"]) < TOLERANCE
    assert published_objective(B, rows, case["lam"]) == pytest.approx(case["value_with_constant"], abs=TOLERANCE)


def test_the_published_fit_is_the_optimum_of_the_published_objective():
    case = GIVEN["paper_objective_eq13"]
    rows = np.array(case["X"])
    found = fit_rows(rows, POINTS, bandwidth=WIDTH, trace_penalty=case["lam"], ridge=0.0, tolerance=0.0, steps=3000)
    best = found.density.coefficients
    assert published_objective(best, rows, case["lam"]) == pytest.approx(found.objective, abs=1e-12)
    # No way towards any other density of the family leads down: the gap of a convex problem.
    gradient = np.array(
        [slope(lambda b: published_objective(b.reshape(4, 4), rows, case["lam"]), best.ravel(), 1e-4)]
    ).reshape(4, 4)
    lower = np.linalg.cholesky(product_integrals(POINTS, bandwidth=WIDTH))
    inverse = np.linalg.inv(lower)
    gap = float((gradient * best).sum()) - np.linalg.eigvalsh(inverse @ (gradient + gradient.T) / 2 @ inverse.T)[0]
    assert 0 <= gap + 1e-9 < 1e-6
    stopped = fit_rows(rows, POINTS, bandwidth=WIDTH, trace_penalty=case["lam"])
    assert stopped.steps < 3000
    assert stopped.objective == pytest.approx(found.objective, abs=1e-6)


@pytest.mark.thorough
def test_a_fit_to_an_embedding_is_an_optimum_and_a_penalty_costs_misfit():
    misfits = []
    for penalty in (0.0, 1e-2, 1.0):
        found = fit_embedding(POINTS, OMEGA, AIM, bandwidth=WIDTH, trace_penalty=penalty, ridge=0.0, steps=3000)
        gradient = 2 * EMBEDDING.adjoint(EMBEDDING.of(found.density.coefficients) - AIM)
        gradient += penalty * math.pi * WIDTH**2 * gaussian_gram(POINTS, POINTS, bandwidth=WIDTH)
        inverse = np.linalg.inv(np.linalg.cholesky(product_integrals(POINTS, bandwidth=WIDTH)))
        gap = (
            float((gradient * found.density.coefficients).sum()) - np.linalg.eigvalsh(inverse @ gradient @ inverse.T)[0]
        )
        assert -1e-9 < gap < 1e-8
        misfits.append(found.misfit)
    assert misfits[0] < misfits[1] < misfits[2]


def test_a_ridge_on_w_is_taken_back():
    found = fit_embedding(POINTS, OMEGA, AIM, bandwidth=WIDTH, ridge=0.05)
    assert found.density.box_mass(np.full(2, -9.0), np.full(2, 9.0)) == pytest.approx(1.0, abs=1e-12)


def test_draws_follow_exact_masses():
    n = 40_000
    drawn = sample_box(DENSITY, np.random.default_rng(1).random((n, 2)), **BOX)
    assert ((drawn >= BOX["lower"]) & (drawn <= BOX["upper"])).all()
    edges = [np.linspace(low, high, 9) for low, high in zip(BOX["lower"], BOX["upper"], strict=True)]
    counted = np.histogramdd(drawn, bins=edges)[0]
    expected = np.array(
        [
            [DENSITY.box_mass(np.array([a[0], b[0]]), np.array([a[1], b[1]])) for b in itertools.pairwise(edges[1])]
            for a in itertools.pairwise(edges[0])
        ]
    )
    expected *= n / DENSITY.box_mass(BOX["lower"], BOX["upper"])
    likely = expected > 5
    chi_square = float(((counted - expected)[likely] ** 2 / expected[likely]).sum())
    assert likely.sum() > 40
    assert chi_square < likely.sum() + 5 * math.sqrt(2 * likely.sum())
    # A density that is slightly another is told apart.
    other = expected * np.linspace(0.9, 1.1, 8)[:, None]
    assert float(((counted - other)[likely] ** 2 / other[likely]).sum()) > likely.sum() + 5 * math.sqrt(
        2 * likely.sum()
    )


def test_a_coordinate_is_the_inverse_of_its_distribution_function(monkeypatch):
    monkeypatch.setattr(sos_density, "LEVELS", 12)
    uniforms = np.array([[0.03, 0.5], [0.5, 0.9], [0.77, 0.001], [0.999, 0.4], [0.0, 0.0]])
    drawn = sample_box(DENSITY, uniforms, **BOX)
    whole = DENSITY.box_mass(BOX["lower"], BOX["upper"])
    for row, uniform in zip(drawn, uniforms, strict=True):
        below = DENSITY.box_mass(BOX["lower"], np.array([row[0], BOX["upper"][1]]))
        assert below / whole == pytest.approx(uniform[0], abs=1e-8)
        # Given the first coordinate: masses of a thin slab around it.
        slab = [np.array([row[0] - 1e-5, BOX["lower"][1]]), np.array([row[0] + 1e-5, BOX["upper"][1]])]
        part = DENSITY.box_mass(slab[0], np.array([row[0] + 1e-5, row[1]])) / DENSITY.box_mass(*slab)
        assert part == pytest.approx(uniform[1], abs=1e-5)


def test_rows_drawn_do_not_depend_on_the_block_and_a_seed_repeats():
    uniforms = np.random.default_rng(0).random((9000, 2))
    whole = sample_box(DENSITY, uniforms, **BOX)
    np.testing.assert_allclose(sample_box(DENSITY, uniforms[:10], **BOX), whole[:10], atol=1e-9)
    np.testing.assert_allclose(sample_box(DENSITY, uniforms[-10:], **BOX), whole[-10:], atol=1e-9)
    first, again, other = (sample_clipped(DENSITY, 50, np.random.default_rng(seed)) for seed in (1, 1, 2))
    assert (first == again).all()
    assert (first != other).any()


def test_mass_beyond_the_box_goes_to_its_bounds():
    edge = SumOfSquares(np.array([[0.0]]), np.array([[1 / (math.sqrt(math.pi) * 0.1)]]), 0.1)
    drawn = sample_clipped(edge, 4000, np.random.default_rng(0))
    assert (drawn >= 0).all()
    assert float((drawn == 0).mean()) == pytest.approx(0.5, abs=0.04)


def test_herding_is_the_greedy_rule():
    pool = sobol_pool(2, bits=6)
    frequencies = np.random.default_rng(0).standard_normal((20, 2)) * 4
    features = fourier_features(pool, frequencies)
    aim = fourier_features(np.random.default_rng(1).beta(2, 6, (500, 2)), frequencies).mean(axis=0)
    chosen: list[int] = []
    for _ in range(10):
        scores = [
            -np.inf if place in chosen else row @ aim - sum(features[one] @ row for one in chosen) / (len(chosen) + 1)
            for place, row in enumerate(features)
        ]
        chosen.append(int(np.argmax(scores)))
    assert herd(features, aim, points=10).tolist() == chosen


def test_herded_points_have_the_embedding_that_was_asked_for():
    pool = sobol_pool(2, bits=10)
    frequencies = np.random.default_rng(0).standard_normal((40, 2)) * 4
    features = fourier_features(pool, frequencies)
    aim = fourier_features(np.random.default_rng(1).beta(2, 6, (2000, 2)), frequencies).mean(axis=0)
    chosen = herd(features, aim, points=60)
    assert len(set(chosen.tolist())) == 60
    herded = np.linalg.norm(features[chosen].mean(axis=0) - aim)
    assert herded < 0.2 * np.linalg.norm(features[:60].mean(axis=0) - aim)


def test_a_pool_is_public_and_fills_the_box():
    pool = sobol_pool(3, bits=8)
    assert pool.shape == (256, 3)
    assert (pool == sobol_pool(3, bits=8)).all()
    assert (pool != sobol_pool(3, bits=8, seed=1)).any()
    # Each half of each coordinate holds half the points: a Sobol net.
    assert ((pool < 0.5).sum(axis=0) == 128).all()


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("noise_std", "taken"),
    [(0.3, 0.3), (1e-3, 0.1), (0.0, 0.05)],
    ids=["noise explains everything", "noise explains two of three", "noise explains none"],
)
def test_the_discrepancy_principle_takes_the_smoothest_that_noise_explains(noise_std, taken):
    # What is narrower than its kernel no density of that kernel can show.
    random = np.random.default_rng(3)
    frequencies = random.standard_normal((40, 1)) / 0.1
    points = np.linspace(0, 1, 21)[:, None]
    true = SumOfSquares(np.array([[0.3], [0.72]]), np.diag([0.6, 0.4]) / (math.sqrt(math.pi) * 0.08), 0.08)
    embedding = FourierEmbedding(true.points, frequencies, bandwidth=0.08).of(true.coefficients)
    embedding = embedding + noise_std * random.standard_normal(80)
    found = fit_smoothest(points, frequencies, embedding, noise_std=noise_std, bandwidths=(0.3, 0.1, 0.05))
    assert found.density.bandwidth == taken
    assert found.steps == 200
    each = [fit_embedding(points, frequencies, embedding, bandwidth=one).misfit for one in (0.3, 0.1, 0.05)]
    explained = [one <= 1.1 * 80 * noise_std**2 for one in each]
    assert explained == {0.3: [True, True, True], 0.1: [False, True, True], 0.05: [False] * 3}[taken]
    if not any(explained):
        assert found.misfit == min(each)


def test_arguments_out_of_range_are_refused():
    with pytest.raises(InputError, match="coefficients"):
        SumOfSquares(POINTS, B[:3], WIDTH)
    with pytest.raises(InputError, match="bandwidth"):
        SumOfSquares(POINTS, B, 0.0)
