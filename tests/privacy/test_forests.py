"""A forest is data: it says a row's bin in whole numbers, and refuses what is no forest."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from questions import random_forest, small_codes, small_schema, walked
from recorded_noise import RecordedNoise

from synth.bundle.answers import from_description
from synth.errors import PrivacyError
from synth.privacy.accounting import PrivacyBudget
from synth.privacy.feature_maps import OneHot
from synth.privacy.more import forests
from synth.privacy.more.forests import Forest
from synth.privacy.more.products import Product
from synth.privacy.session import PrivateSession
from synth.privacy.table import PrivateTable


@pytest.mark.parametrize("classes", [1, 2, 4])
@pytest.mark.parametrize("depth", [0, 1, 5])
def test_the_bin_of_a_row_is_what_walking_the_trees_gives(classes: int, depth: int) -> None:
    forest = random_forest(7, trees=5, depth=depth, classes=classes)
    codes = small_codes(200, seed=3)
    expected = [walked(forest, {name: int(column[row]) for name, column in codes.items()}) for row in range(200)]
    cells = forest.cells(codes.__getitem__, 200)
    np.testing.assert_array_equal(cells, expected)
    assert len(set(expected)) >= min(2, 1 + depth)  # several bins are used, so agreement says something
    np.testing.assert_array_equal(np.flatnonzero(forest.evaluate(codes)) % forest.dimension, expected)


def test_blocks_and_neighbours_change_no_bin(monkeypatch: pytest.MonkeyPatch) -> None:
    forest, codes = random_forest(8, depth=4), small_codes(500)
    whole = forest.cells(codes.__getitem__, 500)
    order = np.random.default_rng(1).permutation(500)
    shuffled = {name: column[order] for name, column in codes.items()}
    np.testing.assert_array_equal(forest.cells(shuffled.__getitem__, 500), whole[order])
    monkeypatch.setattr(forests, "ROWS_AT_A_TIME", 7)
    np.testing.assert_array_equal(forest.cells(codes.__getitem__, 500), whole)
    assert forest.cells(lambda name: codes[name][:0], 0).size == 0


def test_a_forest_without_columns_puts_every_row_into_one_bin() -> None:
    forest = Forest((), (), np.array([[0, 0, 0, 0]]), np.array([[3, 5]]), np.array([0]), np.zeros((2, 0), int))
    assert forest.shape == (2, 1)
    assert forest.cells(lambda name: np.zeros(0), 4).tolist() == [1] * 4


def test_two_forests_never_share_what_was_counted() -> None:
    """A session remembers counts by column: the bins of a forest are a column of its own."""
    schema, codes = small_schema(), small_codes(300)
    session = PrivateSession(
        PrivateTable.from_codes(schema, codes),
        PrivacyBudget(1.0, 1e-5, schema.neighbours),
        noise=RecordedNoise(None),
    )
    label = OneHot(("outcome",), (None,), (2,))
    for place, forest in enumerate((random_forest(1), random_forest(2), random_forest(1))):
        question = Product((forest, label))
        found = session.noisy_sum(question, share=0.2, query=f"q{place}", source="test").value
        np.testing.assert_array_equal(found.reshape(-1), question.evaluate(codes).sum(axis=0))


def test_descriptions_give_the_same_forest_back() -> None:
    forest = random_forest(9)
    description, arrays = forest.describe()
    again = from_description(description, arrays)
    assert isinstance(again, Forest)
    assert again.key == forest.key
    assert again.is_same(forest)
    assert not dataclasses.replace(forest, edges=forest.edges + 1).is_same(forest)


LEAF = np.array([[0, 0, 0, 0]])
WRONG = {
    "circle": {"nodes": np.array([[0, 1, 1, 0], [0, 1, 1, 1]]), "values": np.zeros((2, 2), int)},
    "child before parent": {
        "nodes": np.array([[0, 0, 0, 0], [0, 1, 0, 2], [0, 0, 2, 2]]),
        "values": np.zeros((3, 2), int),
    },
    "child outside": {"nodes": np.array([[0, 1, 1, 9], [0, 1, 1, 1]]), "values": np.zeros((2, 2), int)},
    "unknown column": {
        "nodes": np.array([[5, 1, 1, 2], [0, 0, 1, 1], [0, 0, 2, 2]]),
        "values": np.zeros((3, 2), int),
    },
    "leaf with an unknown column": {"nodes": np.array([[4, 0, 0, 0]])},
    "negative column": {"nodes": np.array([[-1, 0, 0, 0]])},
    "root outside": {"roots": np.array([1])},
    "no trees": {"roots": np.zeros(0, int)},
    "huge value": {"values": np.array([[2**20 + 1, 0]])},
    "edges that fall": {"edges": np.array([[3, 1], [0, 0]])},
    "too many bins": {"edges": np.zeros((2, 64), int)},
    "edges of another number of classes": {"edges": np.zeros((3, 1), int)},
    "fractions": {"values": np.array([[0.5, 0.0]])},
    "column named twice": {"columns": ("age", "age"), "places": (np.arange(12), np.arange(12))},
    "place missing": {"places": ()},
    "nodes as a list": {"nodes": np.zeros(4, int)},
}


@pytest.mark.parametrize("wrong", WRONG)
def test_what_is_no_forest_is_refused(wrong: str) -> None:
    right = {
        **{"columns": ("age",), "places": (np.arange(12),), "nodes": LEAF, "values": np.array([[1, 0]])},
        **{"roots": np.array([0]), "edges": np.zeros((2, 1), int)},
    }
    assert Forest(**right).dimension == 4
    with pytest.raises(PrivacyError):
        Forest(**{**right, **WRONG[wrong]})


def test_a_tree_may_not_be_endlessly_deep() -> None:
    depth = 65
    chain = np.zeros((2 * depth + 1, 4), int)
    chain[:, 2] = chain[:, 3] = np.arange(2 * depth + 1)
    for step in range(depth):
        node = 2 * step
        chain[node] = (0, 0, node + 1, node + 2)
    values = np.zeros((2 * depth + 1, 2), int)
    with pytest.raises(PrivacyError, match="64 steps"):
        Forest(("age",), (np.arange(12),), chain, values, np.array([0]), np.zeros((2, 1), int))


def test_a_forest_made_for_another_table_is_refused() -> None:
    schema = small_schema()
    table = PrivateTable.from_codes(schema, small_codes(50))
    session = PrivateSession(table, PrivacyBudget(1.0, 1e-5, schema.neighbours))
    forest = random_forest()
    short = dataclasses.replace(forest, places=(np.arange(11), *forest.places[1:]))
    with pytest.raises(PrivacyError, match="11 codes of 'age'"):
        session.noisy_sum(short, share=0.5, query="q", source="test")
    assert session.remaining_share == 1.0


def test_edges_cut_public_rows_into_equal_parts_and_stay_within_their_type() -> None:
    guesses = np.array([0] * 10 + [1] * 4, dtype=np.uint8)
    confidences = np.array([*range(10), *[2**40] * 4])
    edges = forests.even_edges(guesses, confidences, n_classes=3, bins=5)
    assert edges.tolist() == [[2, 4, 6, 8], [2**31 - 1] * 4, [0] * 4]
    bins = (confidences[:10, None] > edges[0] - 1).sum(axis=1)
    assert np.bincount(bins).tolist() == [2] * 5
    one = forests.even_edges(guesses[:1], confidences[:1] + 7, n_classes=1, bins=2)
    assert one.tolist() == [[7]]
