"""EM from sums of responsibilities: reference values, the bound of a row, and fits of what was drawn."""

from __future__ import annotations

import math

import numpy as np
import pytest
from models_reference import TOLERANCE, beside_others, furthest, reference

from synth.errors import InputError
from synth.models.mixture import (
    MixtureState,
    MixtureStatistics,
    fit_mixture_em,
    maximise,
    responsibilities,
    statistic_norm,
    sum_statistics,
)

GIVEN = reference("dp_mixture")
NUMBERS, CODES = np.array(GIVEN["X"]), np.array(GIVEN["cat"])[:, None]
STATE = MixtureState(np.array(GIVEN["w"]), np.array(GIVEN["mean"]), np.array(GIVEN["var"]), (np.array(GIVEN["P"]),))


def latent(weights, *tables) -> MixtureState:
    none = np.zeros((len(weights), 0))
    return MixtureState(np.array(weights), none, none, tuple(np.array(table) for table in tables))


def test_reference_values():
    assert furthest(responsibilities(NUMBERS, CODES, STATE), GIVEN["resp"]) < TOLERANCE
    found = sum_statistics(NUMBERS, CODES, STATE)
    assert furthest(found.sizes, GIVEN["N"]) < TOLERANCE
    assert furthest(found.numbers, GIVEN["S"]) < TOLERANCE
    assert furthest(found.squares, GIVEN["Q_centered_half"]) < TOLERANCE
    assert furthest(found.counts[0], GIVEN["counts"]) < TOLERANCE


@pytest.mark.parametrize(
    ("name", "numbers", "categories"),
    [("a1_b2_g1_d2_c1", 2, 1), ("a1_b2_g1_d5_c4", 5, 4), ("lca_9_columns", 0, 9)],
)
def test_reference_values_of_the_sensitivity(name, numbers, categories):
    assert statistic_norm(numbers=numbers, categories=categories) == pytest.approx(GIVEN["sens"][name], abs=TOLERANCE)


def row_of(statistics: MixtureStatistics) -> np.ndarray:
    """What one row adds, as one vector, weighted as ``statistic_norm`` has it."""
    return np.concatenate(
        [statistics.sizes, statistics.numbers.ravel(), 2 * statistics.squares.ravel()]
        + [counts.ravel() for counts in statistics.counts]
    )


def test_no_row_adds_more_than_the_bound_however_many_components():
    random = np.random.default_rng(0)
    longest = 0.0
    for _ in range(300):
        components = int(random.integers(1, 6))
        state = MixtureState(
            random.dirichlet(np.ones(components)),
            random.uniform(-1, 1, (components, 3)),
            random.uniform(0.01, 1, (components, 3)),
            (random.dirichlet(np.ones(4), components), random.dirichlet(np.ones(2), components)),
        )
        corner = np.where(random.random((1, 3)) < 0.7, np.sign(random.uniform(-1, 1, (1, 3))), 0.3)
        codes = np.array([[random.integers(4), random.integers(2)]])
        longest = max(longest, float(np.linalg.norm(row_of(sum_statistics(corner, codes, state)))))
    bound = statistic_norm(numbers=3, categories=2)
    assert longest <= bound * (1 + 1e-12)
    assert longest > 0.999 * bound


def test_replaced_rows_of_latent_classes_differ_by_sqrt_2_times_as_much():
    state = latent([0.5, 0.5], [[1.0, 0.0], [0.0, 1.0]], [[1.0, 0.0], [0.0, 1.0]])
    rows = [row_of(sum_statistics(np.zeros((1, 0)), np.array([[code, code]]), state)) for code in (0, 1)]
    apart = np.linalg.norm(rows[0] - rows[1])
    assert apart == pytest.approx(math.sqrt(2) * statistic_norm(numbers=0, categories=2))


def test_a_row_has_the_same_bits_beside_any_others():
    random = np.random.default_rng(0)
    table = np.concatenate([random.uniform(-1, 1, (40, 2)), random.integers(0, 3, (40, 1))], axis=1)

    def of_rows(rows: np.ndarray) -> np.ndarray:
        return responsibilities(rows[:, :2], np.abs(rows[:, 2:]).astype(np.int64) % 3, STATE)

    alone = of_rows(table)
    for others, which in beside_others(table, np.random.default_rng(1)):
        assert (of_rows(others)[: len(which)] == alone[which]).all()


def test_rows_that_no_component_expects_still_belong_somewhere():
    state = latent([0.5, 0.5], [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    found = responsibilities(np.zeros((1, 0)), np.array([[2]]), state)
    np.testing.assert_allclose(found, [[0.5, 0.5]])


def likelihood(codes: np.ndarray, state: MixtureState) -> float:
    rows = np.zeros(len(codes))
    for component, weight in enumerate(state.weights):
        one = np.full(len(codes), weight)
        for column, table in enumerate(state.proportions):
            one = one * table[component, codes[:, column]]
        rows += one
    return float(np.log(rows).mean())


def drawn(state: MixtureState, n: int, seed: int = 0) -> np.ndarray:
    random = np.random.default_rng(seed)
    component = random.choice(state.weights.size, n, p=state.weights)
    columns = [
        np.array([random.choice(table.shape[1], p=table[one]) for one in component]) for table in state.proportions
    ]
    return np.stack(columns, axis=1)


def test_em_of_exact_sums_climbs_and_finds_what_was_drawn():
    truth = latent([0.3, 0.7], [[0.9, 0.1], [0.1, 0.9]], [[0.8, 0.1, 0.1], [0.1, 0.2, 0.7]], [[0.85, 0.15], [0.2, 0.8]])
    codes = drawn(truth, 4000)
    numbers = np.zeros((len(codes), 0))
    start = latent([0.5, 0.5], [[0.6, 0.4], [0.4, 0.6]], [[0.4, 0.3, 0.3], [0.3, 0.3, 0.4]], [[0.5, 0.5], [0.5, 0.5]])
    path = [start]
    for _ in range(60):
        path.append(fit_mixture_em(lambda state: sum_statistics(numbers, codes, state), path[-1], steps=1))
    likelihoods = [likelihood(codes, state) for state in path]
    assert np.diff(likelihoods).min() > -1e-12
    np.testing.assert_allclose(path[-1].weights, truth.weights, atol=0.05)
    for found, wanted in zip(path[-1].proportions, truth.proportions, strict=True):
        np.testing.assert_allclose(found, wanted, atol=0.06)


def test_gaussian_components_are_found():
    random = np.random.default_rng(0)
    numbers = np.concatenate([random.normal(-0.5, 0.1, (600, 2)), random.normal(0.4, 0.2, (400, 2))]).clip(-1, 1)
    codes = np.zeros((1000, 0), dtype=np.int64)
    start = MixtureState(np.array([0.5, 0.5]), np.array([[-0.1, 0.0], [0.1, 0.0]]), np.full((2, 2), 0.25), ())
    found = fit_mixture_em(lambda state: sum_statistics(numbers, codes, state), start, steps=40)
    np.testing.assert_allclose(found.weights, [0.6, 0.4], atol=0.02)
    np.testing.assert_allclose(found.means, [[-0.5, -0.5], [0.4, 0.4]], atol=0.03)
    np.testing.assert_allclose(found.variances, [[0.01, 0.01], [0.04, 0.04]], rtol=0.2)


def test_noisy_statistics_become_a_proper_mixture():
    noisy = MixtureStatistics(
        np.array([50.0, -3.0, 4.0]),
        np.array([[80.0], [1.0], [-9.0]]),
        np.array([[-60.0], [0.0], [9.0]]),
        (np.array([[60.0, -20.0, 5.0], [1.0, 1.0, 1.0], [-4.0, -5.0, 9.0]]),),
    )
    found = maximise(noisy)
    assert found.weights.tolist() == [pytest.approx(50 / 54), 0.0, pytest.approx(4 / 54)]
    assert found.means.tolist() == [[1.0], [1.0], [-1.0]]
    assert found.variances.tolist() == [[4e-4], [4e-4], [1.0]]
    for table in found.proportions:
        assert (table >= 0).all()
        np.testing.assert_allclose(table.sum(axis=1), 1.0)
    assert maximise(noisy, least_size=10.0).weights.tolist() == [1.0, 0.0, 0.0]
    # Where noise leaves no component, the largest stays.
    nothing = MixtureStatistics(np.array([-5.0, -1.0]), np.zeros((2, 0)), np.zeros((2, 0)), (np.ones((2, 2)),))
    assert maximise(nothing).weights.tolist() == [0.0, 1.0]


def test_shapes_that_do_not_fit_are_refused():
    with pytest.raises(InputError, match="means"):
        MixtureState(np.ones(2) / 2, np.zeros((3, 1)), np.ones((3, 1)), ())
    with pytest.raises(InputError, match="proportions"):
        MixtureState(np.ones(2) / 2, np.zeros((2, 0)), np.zeros((2, 0)), (np.ones((3, 2)),))
    with pytest.raises(InputError, match="at least 0"):
        statistic_norm(numbers=-1, categories=0)
