"""Checks of the peer, in its own environment: ``python benchmarks/peers/aim/test_aim.py``."""

from __future__ import annotations

import itertools
import math

import numpy as np
from aim import MEASURING, Settings, candidates_of, counts_of, fit, zcdp_of
from graphical_model import SAFE_RANGE, GraphicalModel, Measurement
from junction_tree import ModelSize, junction_tree, maximal_cliques
from numpy.typing import NDArray

SIZES = (3, 2, 4, 2, 3)
SETS = [(0,), (1,), (2,), (3,), (4,), (0, 1), (1, 2), (2, 3), (0, 3)]


def joint_of(model: GraphicalModel, sizes: tuple[int, ...]) -> NDArray[np.float64]:
    """Return the whole joint distribution, by multiplying the model's factors out."""
    log_joint = np.zeros(sizes)
    for columns, table in model.parameters.items():
        log_joint = log_joint + table.reshape([size if c in columns else 1 for c, size in enumerate(sizes)])
    joint = np.exp(log_joint - log_joint.max())
    return joint / joint.sum()


def noisy_model(scale: float) -> GraphicalModel:
    random = np.random.default_rng(0)
    model = GraphicalModel(SIZES)
    for columns in SETS:
        model.add(Measurement(columns, 100 * random.random([SIZES[c] for c in columns]), 1.0 + len(columns)))
    model.fit(30)
    for columns, table in model.parameters.items():
        model.parameters[columns] = table + scale * random.normal(size=table.shape)
    model.fit(0)
    return model


def check_marginals(model: GraphicalModel) -> None:
    joint = joint_of(model, SIZES)
    for k in (1, 2, 3, 4):
        for columns in itertools.combinations(range(len(SIZES)), k):
            exact = joint.sum(axis=tuple(c for c in range(len(SIZES)) if c not in columns))
            assert np.abs(model.marginal(columns) - exact).max() < 1e-9, columns


def test_every_marginal_is_that_of_the_joint() -> None:
    check_marginals(noisy_model(1.0))


def test_marginals_surviveparameters_that_exponentials_do_not() -> None:
    model = noisy_model(3000.0)
    assert max(np.ptp(table) for table in model.parameters.values()) > SAFE_RANGE
    check_marginals(model)


def test_the_fit_reaches_consistent_answers() -> None:
    random = np.random.default_rng(1)
    rows = np.stack([random.integers(size, size=500) for size in SIZES], axis=1)
    rows[:, 1] = rows[:, 0] % 2
    model = GraphicalModel(SIZES, total=500.0)
    for columns in SETS:
        model.add(Measurement(columns, counts_of(rows, SIZES, columns), 1.0))
    model.fit(2000)
    for columns in SETS:
        assert np.abs(500 * model.marginal(columns) - counts_of(rows, SIZES, columns)).sum() < 1.0, columns


def test_repeated_measurements_are_averaged_by_precision() -> None:
    model = GraphicalModel((2,))
    model.add(Measurement((0,), np.array([10.0, 30.0]), 1.0))
    model.add(Measurement((0,), np.array([20.0, 20.0]), 2.0))
    model.fit(500)
    assert abs(model.total - 40.0) < 1e-9
    assert np.abs(model.total * model.marginal((0,)) - [12.0, 28.0]).max() < 1e-3


def test_rows_do_not_order_columns_that_are_independent_given_a_third() -> None:
    """The known fault of some samplers: b and c, independent of each other given a, come out sorted together."""
    sizes, n_rows = (2, 5, 5), 20_000
    random = np.random.default_rng(2)
    model = GraphicalModel(sizes, total=float(n_rows))
    for columns in [(0, 1), (0, 2)]:
        model.add(Measurement(columns, n_rows * random.dirichlet(np.ones(10)).reshape(2, 5), 1.0))
    model.fit(500)
    rows = model.sample(n_rows, random)
    for columns, least in [((0, 1), 1e-3), ((0, 2), 1e-3), ((1, 2), 0.03)]:
        distance = 0.5 * np.abs(counts_of(rows, sizes, columns) / n_rows - model.marginal(columns)).sum()
        assert distance < least, (columns, distance)


def test_counts_of_one_column_are_rounded_not_drawn() -> None:
    model = GraphicalModel((7,), total=1000.0)
    model.add(Measurement((0,), np.arange(1.0, 8.0) * 1000 / 28, 1.0))
    model.fit(2000)
    counts = counts_of(model.sample(1000, np.random.default_rng(3)), (7,), (0,))
    assert np.abs(counts - 1000 * model.marginal((0,))).max() < 1.0


def test_junction_trees_hold_every_set_and_run_through() -> None:
    random = np.random.default_rng(4)
    for _ in range(50):
        sizes = tuple(int(size) for size in random.integers(2, 9, size=10))
        sets = [(c,) for c in range(10)]
        sets += [tuple(sorted(random.choice(10, size=2, replace=False).tolist())) for _ in range(random.integers(14))]
        tree = junction_tree(sizes, sets)
        for columns in sets:
            assert any(set(columns) <= set(clique) for clique in tree.cliques)
        for k, parent in enumerate(tree.parents):
            assert parent < k
            # A column that this clique shares with any earlier one is shared with its parent.
            earlier = set().union(*tree.cliques[:k]) if k else set()
            assert set(tree.cliques[k]) & earlier == set(tree.separators[k])
        size = ModelSize(sizes, sets)
        for pair in itertools.combinations(range(10), 2):
            expected = sum(8 * math.prod(sizes[c] for c in clique) for clique in maximal_cliques(sizes, [*sets, pair]))
            assert abs(size.megabytes_with(pair) * 2**20 - expected) < 1e-6 * expected
            assert not size.is_free(pair) or any(set(pair) <= set(clique) for clique in tree.cliques)


def test_the_conversion_is_the_best_of_a_fine_grid() -> None:
    for epsilon in (0.1, 1.0, 5.0):
        rho = zcdp_of(epsilon, 1e-5)
        alphas = 1 + np.exp(np.linspace(-5, 12, 200_001))
        log_delta = (alphas - 1) * (alphas * rho - epsilon) - np.log(alphas - 1) + alphas * np.log1p(-1 / alphas)
        assert abs(log_delta.min() - math.log(1e-5)) < 1e-6
    assert abs(zcdp_of(1.0, 1e-5) - 0.0305566) < 1e-6


def test_all_of_the_budget_is_spent_and_no_more() -> None:
    random = np.random.default_rng(5)
    rows = np.stack([random.integers(size, size=400) for size in SIZES], axis=1)
    for replace_one in (False, True):
        settings = Settings(SIZES, 1.0, 1e-5, replace_one=replace_one, iterations=20, final_iterations=20)
        _, rounds = fit(rows, settings, np.random.default_rng(6))
        squared_sensitivity = 2.0 if replace_one else 1.0
        costs = [squared_sensitivity / (2 * each.sigma**2) + each.parameter**2 / 8 for each in rounds]
        assert abs(sum(costs) - zcdp_of(1.0, 1e-5)) < 1e-12
        measured, chosen = costs[-1] - rounds[-1].parameter ** 2 / 8, rounds[-1].parameter ** 2 / 8
        assert abs(measured / (measured + chosen) - MEASURING) < 1e-9


def test_candidates_weigh_as_many_columns_as_they_share() -> None:
    weights = candidates_of(Settings((2, 2, 2), 1.0, 1e-5))
    assert weights == {(0,): 2.0, (1,): 2.0, (2,): 2.0, (0, 1): 4.0, (0, 2): 4.0, (1, 2): 4.0}


if __name__ == "__main__":
    checks = [value for name, value in sorted(globals().items()) if name.startswith("test_")]
    for check in checks:
        check()
        print(f"passed: {check.__name__}")
