"""A predictor trained on synthetic rows becomes whole numbers that say the same."""

from __future__ import annotations

import numpy as np
import pytest

from synth.privacy.more.forests import Forest
from synth.reports import tree_predictors
from synth.reports.features import Target
from synth.reports.tree_predictors import constant_forest, synthetic_forest
from synth.schema import CategoryColumn, NumberColumn, Schema, YesNoColumn

SCHEMA = Schema(
    (
        NumberColumn("age", 0, 99, 1, special=(-1.0,), missing=True),
        CategoryColumn("town", tuple("ABCDEFGH"), other=True, missing=True),
        YesNoColumn("smoker"),
        CategoryColumn("kind", ("red", "green", "blue"), missing=True),
        YesNoColumn("ill", missing=True),
    )
)


def rows(n: int, seed: int = 0, schema: Schema = SCHEMA) -> list[np.ndarray]:
    """Rows whose labels depend on an age and on a set of towns that no order of the list cuts out."""
    rng = np.random.default_rng(seed)
    codes = {column.name: rng.integers(0, column.size, n) for column in schema.modelled}
    sick = 2.0 * (codes["age"] > 60) + 2.0 * np.isin(codes["town"], (0, 3, 5)) + rng.normal(0, 0.7, n)
    codes["ill"] = np.where(rng.random(n) < 0.05, 2, (sick > 1.5).astype(int))
    codes["kind"] = np.where(rng.random(n) < 0.05, 3, np.clip(np.round(sick / 1.5).astype(int), 0, 2))
    return [codes[name] for name in schema.names]


def guessed(label: str, trained: list[np.ndarray], tested: list[np.ndarray], bins: int = 4) -> tuple[np.ndarray, ...]:
    forest = synthetic_forest(trained, SCHEMA, label, bins=bins, seed=3)
    cells = forest.cells(dict(zip(SCHEMA.names, tested, strict=True)).__getitem__, len(tested[0])).astype(int)
    return cells // bins, cells % bins, tested[SCHEMA.names.index(label)]


@pytest.mark.thorough
@pytest.mark.parametrize(("label", "classes", "reached"), [("ill", 2, 0.85), ("kind", 3, 0.6)])
def test_held_out_rows_are_predicted(label: str, classes: int, reached: float) -> None:
    guess, bins, truth = guessed(label, rows(3000), rows(3000, seed=1))
    known = truth < classes
    right = guess == truth
    often = np.bincount(truth[known]).max() / known.sum()
    assert right[known].mean() >= max(reached, often + 0.1)
    # The more confident, the more often right; synthetic rows fall into the bins about equally.
    assert right[known & (bins == 3)].mean() > right[known & (bins == 0)].mean() + 0.15
    assert np.bincount(bins, minlength=4).min() > 0.15 * len(bins)


def test_the_label_is_not_looked_at() -> None:
    trained, tested = rows(1000), rows(500, seed=1)
    forest = synthetic_forest(trained, SCHEMA, "ill", bins=3, seed=0)
    assert "ill" not in forest.columns
    other = [np.zeros_like(codes) if name == "ill" else codes for name, codes in zip(SCHEMA.names, tested, strict=True)]
    cells = [forest.cells(dict(zip(SCHEMA.names, table, strict=True)).__getitem__, 500) for table in (tested, other)]
    np.testing.assert_array_equal(*cells)


@pytest.mark.thorough
def test_whole_numbers_say_what_the_library_said() -> None:
    """Scores are log odds in steps of 2^-12: the same trees grown again give the same guesses."""
    from sklearn.ensemble import GradientBoostingClassifier

    trained = rows(2000)
    forest = synthetic_forest(trained, SCHEMA, "ill", bins=2, seed=5)
    by_name = dict(zip(SCHEMA.names, trained, strict=True))
    guess, confidence = forest.guesses(by_name.__getitem__, 2000)
    # The library sees the codes of a grid; a forest cuts it at its thresholds.
    on_grid = {column.name for column in SCHEMA.modelled if column.levels}
    each = zip(forest.columns, forest.places, strict=True)
    places = np.stack([by_name[name] if name in on_grid else one[by_name[name]] for name, one in each], axis=1)
    target = Target.of(SCHEMA, "ill")
    order = np.random.default_rng([5, len(target.usable(trained)), 31]).permutation(target.usable(trained))
    model = GradientBoostingClassifier(
        n_estimators=len(forest.roots) - 1,
        max_leaf_nodes=16,
        max_depth=6,
        min_samples_leaf=10,
        subsample=0.5,
        max_features=4,
        random_state=5,
    ).fit(places[order].astype(np.float32), by_name["ill"][order])
    odds = model.decision_function(places.astype(np.float32))
    signed = np.where(guess == 1, confidence, -confidence) / 4096
    np.testing.assert_allclose(signed, odds, atol=0.05)  # 120 leaves, each rounded by 2^-13 at most
    assert ((odds > 0) == (guess == 1)).mean() > 0.999


@pytest.mark.thorough
def test_the_same_rows_and_seed_give_the_same_forest() -> None:
    keys = {synthetic_forest(rows(800), SCHEMA, "kind", bins=3, seed=seed).key for seed in (1, 1, 2)}
    assert len(keys) == 2


@pytest.mark.parametrize("left", [0, 1])
def test_rows_that_teach_nothing_give_the_most_frequent_class(left: int) -> None:
    table = rows(50)
    table[-1] = np.full(50, left)
    forest = synthetic_forest(table, SCHEMA, "ill", bins=3, seed=0)
    assert forest.columns == ()
    assert set((forest.cells(lambda name: table[0], 20) // 3).tolist()) == {left}
    assert forest.key == constant_forest(table, SCHEMA, "ill", bins=3).key


def test_a_class_that_no_synthetic_row_has_is_never_guessed() -> None:
    table = rows(600)
    table[3] = np.where(table[3] == 1, 0, table[3])
    forest = synthetic_forest(table, SCHEMA, "kind", bins=2, seed=0)
    tested = dict(zip(SCHEMA.names, rows(500, seed=2), strict=True))
    assert set((forest.cells(tested.__getitem__, 500) // 2).tolist()) == {0, 2}


def test_no_labels_at_all_are_no_reason_to_fail() -> None:
    table = rows(40)
    table[-1] = np.full(40, 2)  # missing everywhere
    assert constant_forest(table, SCHEMA, "ill", bins=2).dimension == 4
    assert synthetic_forest(table, SCHEMA, "ill", bins=2, seed=0).columns == ()


LONG = Schema((NumberColumn("income", 0, 2**24 - 200, 1, special=(-1.0,), missing=True), YesNoColumn("ill")))


def test_a_long_grid_is_cut_where_thresholds_lie() -> None:
    """The same rows end in the same leaves as with a place for every code, and the forest is small."""
    random = np.random.default_rng(4)
    income = random.integers(0, LONG.modelled[0].size, 3000)
    table = [income, ((income > 5_000_000) ^ (random.random(3000) < 0.1)).astype(np.int64)]
    forest = synthetic_forest(table, LONG, "ill", bins=3, seed=1)
    assert sum(array.nbytes for array in forest.describe()[1].values()) < 2**20
    # A row's place says between which thresholds its code lies; a tree that compares codes itself reads as well.
    edges = forest.places[0].edges
    assert len(edges) > 3
    near = np.concatenate([edges, edges[1:] - 1, income])
    np.testing.assert_array_equal(forest.places[0][near], np.searchsorted(edges, near, side="right") - 1)
    guess, _ = forest.guesses({"income": income}.__getitem__, 3000)
    assert (guess == table[1]).mean() > 0.85


def test_a_forest_of_codes_and_one_of_places_say_the_same() -> None:
    columns = [(0, NumberColumn("a", 0, 40, 1)), (1, CategoryColumn("b", tuple("pqrst")))]
    inner = {0: (0, 7, 1, 2), 1: (1, 2, 3, 4), 2: (0, 30, 5, 6), 7: (0, 7, 8, 9)}
    nodes = np.array([inner.get(own, (0, 0, own, own)) for own in range(10)], np.int32)
    values, roots = np.random.default_rng(2).integers(0, 50, (10, 2)).astype(np.int32), np.array([0, 7], np.int32)
    order = np.array([3, 0, 4, 1, 2], np.int32)
    cut = tree_predictors._cut([None, order], columns, (nodes, values, roots))
    whole = Forest(("a", "b"), (np.arange(41), order), nodes, values, roots, np.zeros((2, 0), np.int32))
    codes = {"a": np.repeat(np.arange(41), 5), "b": np.tile(np.arange(5), 41)}
    for one, other in zip(cut.guesses(codes.__getitem__, 205), whole.guesses(codes.__getitem__, 205), strict=True):
        np.testing.assert_array_equal(one, other)
    assert cut.places[0].count == 3
