"""A pool tilted to counts: the factors that answers ask for, and rows that stray little from them."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from synth.models import pool as pools
from synth.models.cells import CellsOfSet, cells_of_columns
from synth.models.junction_tree import JunctionTree
from synth.models.marginals import NoisyMarginal
from synth.models.markov_random_field import MarkovRandomField
from synth.models.mixture import Mixture
from synth.models.moments import Coordinates, CountedMoments
from synth.models.pool import (
    CountedCells,
    Pool,
    TiltedPool,
    effective_rows,
    tempered,
    tilted,
    tilted_to_moments,
)

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


def test_rows_come_only_from_where_there_is_weight():
    cells = cells_of_columns((0, 1), SIZES)
    factors = np.zeros(12)
    factors[:3] = -800.0  # the first bin of the first column
    rows = TiltedPool(even(), 5, (cells,), (factors,)).sample(3_000, np.random.default_rng(0))
    assert (rows[:, 0] > 0).all()


@pytest.mark.parametrize("n_rows", [0, 1, 5, 19])
def test_few_rows_can_be_drawn(n_rows: int):
    cells = cells_of_columns((0, 1), SIZES)
    model = TiltedPool(even(), 5, (cells,), (np.random.default_rng(1).normal(size=12),))
    assert model.sample(n_rows, np.random.default_rng(0)).shape == (n_rows, 4)


def test_pairs_of_columns_are_nearer_to_the_pool_than_rows_drawn_without_regard_to_them(
    monkeypatch: pytest.MonkeyPatch,
):
    cells = cells_of_columns((0, 1), SIZES)
    model = TiltedPool(even(), 5, (cells,), (np.random.default_rng(1).normal(size=12),))

    def missed() -> float:
        rows = model.sample(400, np.random.default_rng(0))
        pairs = list(itertools.combinations(range(4), 2))
        found = [
            np.bincount(rows[:, a] * SIZES[b] + rows[:, b], minlength=SIZES[a] * SIZES[b])
            - 400 * model.marginal((a, b)).reshape(-1)
            for a, b in pairs
        ]
        return float(sum(np.abs(one).sum() for one in found))

    near = missed()
    monkeypatch.setattr(pools, "pairs_to_balance", lambda *_: [])
    assert near < 0.8 * missed()


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


def test_pools_to_which_a_tilt_was_not_fitted_have_the_same_columns_and_tables(monkeypatch: pytest.MonkeyPatch):
    """Each pool strays by the root of 1 / 500, .02 in this column; drawn rows stray by a rounding each."""
    monkeypatch.setattr(pools, "POOL_ROWS", 500)
    cells = cells_of_columns((0, 1), SIZES)
    model = TiltedPool(even(), 5, (cells,), (np.random.default_rng(1).normal(size=12),))
    rows = model.sample(8000, np.random.default_rng(0))
    for column in range(4):
        held = np.bincount(rows[:, column], minlength=SIZES[column]) / 8000
        assert held == pytest.approx(model.marginal((column,)), abs=0.002)
    together = np.bincount(rows[:, 0] * SIZES[1] + rows[:, 1], minlength=12) / 8000
    assert together == pytest.approx(model.marginal((0, 1)).reshape(-1), abs=0.006)


def test_few_rows_are_repeated_where_a_tilt_puts_the_weight_on_few(monkeypatch: pytest.MonkeyPatch):
    sizes = (30,) * 8
    base = Mixture(sizes, np.ones(1), np.full((1, sum(sizes)), 1 / 30))
    monkeypatch.setattr(pools, "POOL_ROWS", 2000)
    cells = cells_of_columns((0, 1), sizes)
    model = TiltedPool(base, 5, (cells,), (np.random.default_rng(1).normal(0, 1.5, cells.size),))

    def different() -> int:
        return len(np.unique(model.sample(1000, np.random.default_rng(0)), axis=0))

    many = different()
    monkeypatch.setattr(pools, "_POOLS", 1)
    assert many > 750 > 600 > different()


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


def test_a_tilt_that_few_rows_would_carry_is_made_weaker_until_enough_do() -> None:
    pool = Pool(even(), (0, 0), rows=20_000)
    cells = cells_of_columns((0, 1, 2), SIZES)
    factors = np.random.default_rng(3).normal(0, 3, cells.size)

    def carried(part: float) -> float:
        logs = part * factors[cells.index(pool)]
        weights = np.exp(logs - logs.max())
        return effective_rows(weights / weights.sum())

    assert carried(1.0) < 4000
    (weaker,) = tempered(pool, [cells], [factors], least=4000)
    part = float(weaker @ factors / (factors @ factors))
    np.testing.assert_allclose(weaker, part * factors)
    assert 4000 <= carried(part) < 4010
    assert tempered(pool, [cells], [factors], least=100)[0] is factors


def line(sizes: tuple[int, ...] = SIZES) -> Coordinates:
    """Return every bin's place on a line, and the three bins of the second column as two indicators."""
    tables = [np.linspace(-0.5, 0.5, size)[:, None] for size in sizes]
    tables[1] = np.eye(3)[:, 1:] - 1 / 3
    return Coordinates(tuple(range(len(sizes))), tuple(tables))


def columns_of(pool: Pool, total: float) -> list[NoisyMarginal]:
    share = total / pool.n_rows
    return [
        NoisyMarginal((d,), np.bincount(one, minlength=size) * share, 1e-3)
        for d, (one, size) in enumerate(zip(pool.columns, pool.sizes, strict=True))
    ]


def products(coordinates: Coordinates, pool: Pool, weights: np.ndarray) -> np.ndarray:
    rows = coordinates.rows(pool.columns)
    first, second = coordinates.pairs
    return np.array([float((weights * rows[i] * rows[j]).sum()) for i, j in zip(first, second, strict=True)])


def test_vectors_are_no_longer_than_one_and_products_are_of_different_columns() -> None:
    coordinates = line()
    long = Coordinates(coordinates.columns, tuple(3 * table for table in coordinates.tables))
    rows = long.rows(Pool(even(), (0, 0), rows=500).columns)
    assert rows.shape == (5, 500)
    lengths = np.sqrt((rows**2).sum(axis=0))
    assert lengths.max() <= 1 + 1e-12
    assert lengths.max() > 0.999
    first, second = coordinates.pairs
    assert len(first) == 9
    assert not any({i, j} == {1, 2} for i, j in zip(first.tolist(), second.tolist(), strict=True))


def test_a_tilt_to_moments_agrees_with_them_and_leaves_the_columns_as_they_are() -> None:
    total, seed = 5000.0, 11
    before = TiltedPool(even(), seed, (), ())
    pool, flat = before.pool(0)
    coordinates = line()
    sums = total * products(coordinates, pool, flat)
    wanted = sums.copy()
    wanted[[0, 5, 8]] += total * np.array([0.02, -0.01, 0.05])
    model = tilted_to_moments(
        even(), columns_of(pool, total), CountedMoments(coordinates, wanted, 1.0), total, seed=seed, steps=200
    )
    _, weights = model.pool(0)
    np.testing.assert_allclose(total * products(coordinates, pool, weights), wanted, atol=3.0)
    for one in columns_of(pool, total):
        np.testing.assert_allclose(total * model.marginal(one.columns), one.table, atol=3.0)
    # Saved and read again it draws the same rows.
    again = TiltedPool.from_state(even(), {name: one.copy() for name, one in model.state().items()}, seed=seed)
    drawn = model.sample(700, np.random.default_rng(5))
    assert (again.sample(700, np.random.default_rng(5)) == drawn).all()
    # Raking keeps no moments, so rows come from the pool to which these were fitted, even if they repeat.
    assert effective_rows(weights) * 0.2 < 40_000 < pools.POOL_ROWS
    model._pools[1] = model.pool(1)[0], np.zeros(pools.POOL_ROWS)  # from which nothing can be drawn
    assert len(model.sample(40_000, np.random.default_rng(5))) == 40_000
    with pytest.raises(ValueError, match="once"):
        tilted_to_moments(model, [], CountedMoments(coordinates, wanted, 1.0), total, seed=seed, steps=5)


def test_moments_that_are_noise_move_little() -> None:
    total, seed, noise = 5000.0, 11, 40.0
    pool, flat = TiltedPool(even(), seed, (), ()).pool(0)
    coordinates = line()
    sums = total * products(coordinates, pool, flat)
    answered = sums + np.random.default_rng(2).normal(0, noise, len(sums))
    model = tilted_to_moments(
        even(), columns_of(pool, total), CountedMoments(coordinates, answered, noise), total, seed=seed, steps=100
    )
    found = total * products(coordinates, pool, model.pool(0)[1])
    assert np.abs(found - sums).mean() < 0.5 * np.abs(answered - sums).mean()


@pytest.mark.parametrize(
    "damage",
    [
        {"moments.columns": np.array([1.0, 0.0])},
        {"moments.0": np.zeros((9, 1))},
        {"moments.0": np.full((4, 1), np.nan)},
        {"moments.factors": np.zeros(2)},
        {"moments.factors": np.full(9, np.inf)},
    ],
)
def test_a_state_that_is_of_no_moments_is_refused(damage: dict[str, np.ndarray]) -> None:
    pool, flat = TiltedPool(even(), 1, (), ()).pool(0)
    counted = CountedMoments(line(), 100 * products(line(), pool, flat), 1.0)
    state = tilted_to_moments(even(), columns_of(pool, 100.0), counted, 100.0, seed=1, steps=5).state()
    with pytest.raises((ValueError, LookupError)):
        TiltedPool.from_state(even(), state | damage, seed=1)
