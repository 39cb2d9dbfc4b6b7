"""Balanced rows: nearer to the model in all pairs of columns than rows that are drawn, and made of its rows alone."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from synth.models import balanced_rows as balancing
from synth.models.balanced_rows import balanced, balanced_rows, pairs_to_balance
from synth.models.junction_tree import JunctionTree
from synth.models.marginals import JointModel
from synth.models.markov_random_field import MarkovRandomField
from synth.models.mixture import Mixture

SIZES = (4, 5, 3, 6)


def chain() -> MarkovRandomField:
    """Return a field of three pairs; the other three pairs of columns share no clique."""
    random = np.random.default_rng(0)
    beliefs = [random.dirichlet(np.ones(4))[:, None] * random.dirichlet(np.ones(5), 4)]
    for size, more in itertools.pairwise(SIZES[1:]):
        beliefs.append(beliefs[-1].sum(axis=0)[:, None] * random.dirichlet(np.ones(more), size))
    return MarkovRandomField(JunctionTree(SIZES, ((0, 1), (1, 2), (2, 3))), tuple(beliefs))


def mixture() -> Mixture:
    random = np.random.default_rng(1)
    parts = [random.dirichlet(np.ones(size), 3) for size in SIZES]
    return Mixture(SIZES, random.dirichlet(np.ones(3)), np.concatenate(parts, axis=1))


def missed(model: JointModel, rows: np.ndarray) -> float:
    """Return the sum over all pairs of columns of half the absolute differences from the model, in rows."""
    total = 0.0
    for a, b in itertools.combinations(range(4), 2):
        found = np.bincount(rows[:, a] * SIZES[b] + rows[:, b], minlength=SIZES[a] * SIZES[b])
        total += np.abs(found - len(rows) * model.marginal((a, b)).reshape(-1)).sum() / 2
    return float(total)


@pytest.mark.parametrize("model", [chain(), mixture()], ids=["field", "mixture"])
def test_rows_are_nearer_to_the_model_in_all_pairs_of_columns(model: JointModel) -> None:
    drawn = missed(model, model.sample(2_000, np.random.default_rng(2)))
    near = missed(model, balanced_rows(model, 2_000, np.random.default_rng(2)))
    assert near < 0.8 * drawn


def test_rows_that_are_not_exchanged_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(balancing, "_EXCHANGES", 0)
    drawn = missed(chain(), chain().sample(2_000, np.random.default_rng(2)))
    assert missed(chain(), balanced_rows(chain(), 2_000, np.random.default_rng(2))) >= 0.8 * drawn


def test_the_same_seed_gives_the_same_rows_and_every_number_of_rows_is_given() -> None:
    for n_rows in (0, 1, 2, 5, 19, 777):
        first, second = (balanced_rows(mixture(), n_rows, np.random.default_rng(3)) for _ in range(2))
        assert first.shape == (n_rows, 4)
        assert (first == second).all()


def test_rows_are_exchanged_and_none_is_made_up_or_used_twice() -> None:
    random = np.random.default_rng(4)
    cells = random.integers(0, 16, 3_000)
    places = random.permutation(3_000)
    chosen, others = places[:1_000], places[1_000:]
    expected = np.full(16, 1_000 / 16)
    kept = balanced(chosen, others, [(cells, 16)], [expected], random)
    assert len(np.unique(kept)) == 1_000
    assert set(kept) <= set(places)

    def stray(rows: np.ndarray) -> float:
        return float(np.abs(np.bincount(cells[rows], minlength=16) - expected).max())

    assert stray(kept) <= 2 < stray(chosen)


def test_rows_are_drawn_nearly_as_often_as_is_expected() -> None:
    random = np.random.default_rng(0)
    columns = [random.integers(0, 16, 20_000) for _ in range(6)]
    tables = [(one, 16) for one in columns]
    expected = [np.bincount(one, minlength=16) / 10 for one in columns]
    kept = balanced(np.arange(2_000), np.arange(2_000, 20_000), tables, expected, random)
    for one, aim in zip(columns, expected, strict=True):
        # Independent draws stray by about the root of 125.
        assert np.sqrt(np.mean((np.bincount(one[kept], minlength=16) - aim) ** 2)) < 4


def test_pairs_are_balanced_if_they_are_few_and_both_columns_vary() -> None:
    assert pairs_to_balance((3, 1, 4, 2), 100) == [(0, 2), (0, 3), (2, 3)]
    assert len(pairs_to_balance((32,) * 15, 35_000)) == 105
    assert pairs_to_balance((32,) * 15, 50_000) == []  # so many rows that counts are hardly missed
    assert pairs_to_balance((5_000,) * 3, 100) == []  # so many cells that hardly any has a row
    assert len(pairs_to_balance((2,) * 40, 300)) == 780
    assert pairs_to_balance((2,) * 60, 300) == []  # so many pairs that it would take long
    assert pairs_to_balance((7,), 100) == []
