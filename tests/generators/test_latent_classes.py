"""EM from sums of responsibilities: reference values, and fits of what was drawn."""

from __future__ import annotations

import numpy as np
import pytest
from mixture_by_hand import exact_sums, responsibilities
from models_reference import TOLERANCE, furthest, reference

from synth.generators.mixture.dp_mixture import MixtureState, maximise

GIVEN = reference("dp_mixture")
NUMBERS, CODES = np.array(GIVEN["X"]), np.array(GIVEN["cat"])[:, None]
STATE = MixtureState(np.array(GIVEN["w"]), np.array(GIVEN["mean"]), np.array(GIVEN["var"]), (np.array(GIVEN["P"]),))


def latent(weights, *tables) -> MixtureState:
    none = np.zeros((len(weights), 0))
    return MixtureState(np.array(weights), none, none, tuple(np.array(table) for table in tables))


def test_reference_values():
    assert furthest(responsibilities(NUMBERS, CODES, STATE), GIVEN["resp"]) < TOLERANCE
    sizes, numbers, squares, counts = exact_sums(NUMBERS, CODES, STATE)
    assert furthest(sizes, GIVEN["N"]) < TOLERANCE
    assert furthest(numbers, GIVEN["S"]) < TOLERANCE
    assert furthest(squares, GIVEN["Q_centered_half"]) < TOLERANCE
    assert furthest(counts[0], GIVEN["counts"]) < TOLERANCE


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
        path.append(maximise(*exact_sums(numbers, codes, path[-1])))
    likelihoods = [likelihood(codes, state) for state in path]
    assert np.diff(likelihoods).min() > -1e-12
    np.testing.assert_allclose(path[-1].weights, truth.weights, atol=0.05)
    for found, wanted in zip(path[-1].proportions, truth.proportions, strict=True):
        np.testing.assert_allclose(found, wanted, atol=0.06)


def test_gaussian_components_are_found():
    random = np.random.default_rng(0)
    numbers = np.concatenate([random.normal(-0.5, 0.1, (600, 2)), random.normal(0.4, 0.2, (400, 2))]).clip(-1, 1)
    codes = np.zeros((1000, 0), dtype=np.int64)
    found = MixtureState(np.array([0.5, 0.5]), np.array([[-0.1, 0.0], [0.1, 0.0]]), np.full((2, 2), 0.25), ())
    for _ in range(40):
        found = maximise(*exact_sums(numbers, codes, found))
    np.testing.assert_allclose(found.weights, [0.6, 0.4], atol=0.02)
    np.testing.assert_allclose(found.means, [[-0.5, -0.5], [0.4, 0.4]], atol=0.03)
    np.testing.assert_allclose(found.variances, [[0.01, 0.01], [0.04, 0.04]], rtol=0.2)


def test_noisy_statistics_become_a_proper_mixture():
    noisy = (
        np.array([50.0, -3.0, 4.0]),
        np.array([[80.0], [1.0], [-9.0]]),
        np.array([[-60.0], [0.0], [9.0]]),
        (np.array([[60.0, -20.0, 5.0], [1.0, 1.0, 1.0], [-4.0, -5.0, 9.0]]),),
    )
    found = maximise(*noisy)
    assert found.weights.tolist() == [pytest.approx(50 / 54), 0.0, pytest.approx(4 / 54)]
    assert found.means.tolist() == [[1.0], [1.0], [-1.0]]
    assert found.variances.tolist() == [[4e-4], [4e-4], [1.0]]
    for table in found.proportions:
        assert (table >= 0).all()
        np.testing.assert_allclose(table.sum(axis=1), 1.0)
    assert maximise(*noisy, least_size=10.0).weights.tolist() == [1.0, 0.0, 0.0]
    # Where noise leaves no component, the largest stays.
    nothing = np.array([-5.0, -1.0]), np.zeros((2, 0)), np.zeros((2, 0)), (np.ones((2, 2)),)
    assert maximise(*nothing).weights.tolist() == [0.0, 1.0]
