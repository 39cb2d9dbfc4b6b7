"""A pool tilted to counts: the factors that answers ask for, and rows that stray little from them."""

from __future__ import annotations

import numpy as np
import pytest

from synth.models import pool as pools
from synth.models.junction_tree import JunctionTree
from synth.models.markov_random_field import MarkovRandomField
from synth.models.pool import CellsOfSet, CountedCells, Pool, TiltedPool, cells_of_columns, drawn_evenly, tilted

SIZES = (4, 3, 2, 2)


def even() -> MarkovRandomField:
    tree = JunctionTree.of(SIZES, ())
    return MarkovRandomField(tree, tuple(np.full(SIZES[clique[0]], 1 / SIZES[clique[0]]) for clique in tree.cliques))


def counted(pool: Pool, cells: CellsOfSet, counts: np.ndarray, noise_std: float, *, held: bool = False) -> CountedCells:
    believed = counts.sum() * pool.counts(cells, np.full(pool.n_rows, 1 / pool.n_rows))
    return CountedCells(cells, counts, noise_std, believed, held=held)


def test_a_tilt_agrees_with_exact_counts_of_several_columns():
    pool = Pool(even(), (0, 0), rows=20_000)
    cells = cells_of_columns((1, 2, 3), SIZES)
    counts = np.array([500.0, 100, 0, 400, 50, 250, 300, 0, 150, 150, 50, 50]) * 5
    _, weights = tilted(pool, [counted(pool, cells, counts, 1e-3, held=True)], counts.sum(), steps=200)
    np.testing.assert_allclose(pool.counts(cells, weights) * counts.sum(), counts, atol=counts.sum() / 300)
    # A column that nothing was counted of stays as the base has it.
    alone = cells_of_columns((0,), SIZES)
    np.testing.assert_allclose(pool.counts(alone, weights), 0.25, atol=0.02)


def test_an_answer_that_is_noise_moves_nothing_and_one_that_stands_out_does():
    pool = Pool(even(), (0, 0), rows=20_000)
    cells = CellsOfSet((0, 1), (np.array([0, 0, 1, 1], np.int32), np.array([0, 1, 1], np.int32)))
    random, believed = np.random.default_rng(1), np.array([1000.0, 2000, 1000, 2000])
    for moved, least, most in ((0.0, 0.0, 0.02), (400.0, 0.2, 0.3)):
        counts = believed + random.normal(0, 50, 4) + moved * np.array([1, -1, -1, 1])
        _, weights = tilted(pool, [counted(pool, cells, counts, 50.0)], 6000.0, steps=100)
        away = np.abs(pool.counts(cells, weights) - believed / 6000).sum()
        assert least <= away <= most


def test_rows_are_drawn_nearly_as_often_as_is_expected_and_only_where_there_is_weight():
    random = np.random.default_rng(0)
    columns = [random.integers(0, 16, 20_000) for _ in range(6)]
    weights = random.gamma(0.5, size=20_000)
    weights[::7] = 0.0
    places = drawn_evenly(weights, [(one, 16) for one in columns], 2000, np.random.default_rng(2))
    assert (weights[places] > 0).all()
    for one in columns:
        expected = np.bincount(one, weights, 16) * 2000 / weights.sum()
        # Independent draws stray by about the root of 125.
        assert np.sqrt(np.mean((np.bincount(one[places], minlength=16) - expected) ** 2)) < 4


def test_more_rows_than_a_pool_has_come_from_several(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(pools, "POOL_ROWS", 500)
    cells = cells_of_columns((0, 1), SIZES)
    factors = np.zeros(12)
    factors[:6] = 1.0
    model = TiltedPool(even(), 2**62 + 5, (cells,), (factors,))
    rows = model.sample(1700, np.random.default_rng(0))
    assert rows.shape == (1700, 4)
    likely = np.e / (np.e + 1)
    assert abs(np.mean(rows[:, 0] < 2) - likely) < 0.02
    again = TiltedPool.from_state(even(), {name: one.copy() for name, one in model.state().items()}, seed=2**62 + 5)
    assert model.state()["pool.seed"].tolist() == [2**30, 5]
    assert (again.sample(1700, np.random.default_rng(0)) == rows).all()
    assert model.marginal((0,)).sum() == pytest.approx(1.0)


def test_a_state_that_is_of_no_pool_is_refused():
    cells, seed = cells_of_columns((0, 1), SIZES), 7
    state = TiltedPool(even(), seed, (cells,), (np.zeros(12),)).state()
    TiltedPool.from_state(even(), state, seed=seed)
    forged = {
        "columns": np.array([1.0, 0.0]),
        "parts.0": np.array([0.0, 1, -1, 3]),
        "parts.1": np.array([0.0, 1]),
        "factors": np.zeros(11),
    }
    for name, value in (*forged.items(), ("columns", np.array([0.0, 9])), ("factors", np.full(12, np.inf))):
        with pytest.raises((ValueError, LookupError)):
            TiltedPool.from_state(even(), state | {f"pool.0.{name}": value}, seed=seed)
