"""Checks of MST, in the environment of AIM: ``python benchmarks/peers/aim/test_mst.py``."""

from __future__ import annotations

import itertools

import numpy as np
from aim import Settings, counts_of
from mst import Grouped, grouped_counts, spanning_tree, synthetic

RANDOM = np.random.default_rng


def test_rare_codes_share_a_place_and_are_drawn_evenly_from_it() -> None:
    counts = [np.array([900.0, 2.0, 500.0, -4.0]), np.array([700.0, 698.0])]
    grouped = Grouped(counts, 10.0)
    assert grouped.sizes == (3, 2)
    codes = np.array([[0, 1], [1, 0], [2, 1], [3, 0]] * 200)
    places = grouped.places(codes)
    assert places[:4].tolist() == [[0, 1], [2, 0], [1, 1], [2, 0]]
    again = grouped.codes(places, RANDOM(1))
    common = codes[:, 0] % 2 == 0
    assert (again[common] == codes[common]).all()
    assert (again[:, 1] == codes[:, 1]).all()
    assert abs((again[~common, 0] == 1).mean() - 0.5) < 0.1
    table, noises = grouped_counts(counts[0], grouped.frequent[0], grouped.rare[0])
    assert table.tolist() == [900.0, 500.0, -2.0]
    assert noises.tolist() == [1.0, 1.0, 2.0]


def test_a_tree_of_the_largest_scores_joins_all_columns() -> None:
    scores = {pair: float(pair[1] - pair[0] == 1) for pair in itertools.combinations(range(6), 2)}
    assert sorted(spanning_tree(scores, 6, 1e6, RANDOM(2))) == [(d, d + 1) for d in range(5)]
    assert len(spanning_tree(scores, 6, 0.0, RANDOM(3))) == 5


def test_a_chain_comes_back_with_the_pairs_that_were_not_measured() -> None:
    random = RANDOM(4)
    columns = [random.integers(0, 3, 20_000)]
    for _ in range(3):
        columns.append(np.where(random.random(20_000) < 0.8, columns[-1], random.integers(0, 3, 20_000)))
    codes = np.stack(columns, axis=1)
    rows = synthetic(codes, Settings((3,) * 4, 10.0, 1e-5), len(codes), RANDOM(5))
    for pair in itertools.combinations(range(4), 2):
        real, made = (counts_of(each, (3,) * 4, pair) / len(codes) for each in (codes, rows))
        assert 0.5 * np.abs(real - made).sum() < 0.01, pair


if __name__ == "__main__":
    checks = [value for name, value in sorted(globals().items()) if name.startswith("test_")]
    for check in checks:
        check()
        print(f"passed: {check.__name__}")
