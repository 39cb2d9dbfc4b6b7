"""Tables of many columns: a tree of them is found and counted in two questions, whatever their number."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from safetensors.numpy import load, save
from simulated import check_domain, session, task

from synth import generators
from synth.bundle.recorded_session import RecordedSession
from synth.generators.adaptive.budget import WIDE, allocate_budget
from synth.generators.adaptive.dp_hp_adaptive import DpHpAdaptive
from synth.generators.adaptive.tree import MANY_COLUMNS, bins_of_tree, maximum_spanning_forest
from synth.privacy.session import PrivateSession
from synth.progress import NullProgress
from synth.schema import CategoryColumn, Column, NumberColumn, Schema, YesNoColumn

NAME = DpHpAdaptive.card.name
LABEL = "kind"


def declared(width: int, *, label: bool = True) -> Schema:
    columns: list[Column] = [
        NumberColumn(f"n{d}", 0, 15, 1) if d % 2 else YesNoColumn(f"n{d}") for d in range(width - label)
    ]
    return Schema((*columns, *([CategoryColumn(LABEL, ("a", "b", "c"))] if label else [])))


def chained(schema: Schema, n_rows: int, *, related: bool = True) -> dict[str, np.ndarray]:
    """Every column says much of the next one; those in the first half of the table say a little of the label."""
    random = np.random.default_rng(1)
    kind = random.integers(3, size=n_rows)
    codes, before = {}, random.random(n_rows)
    for d, column in enumerate(schema.modelled):
        if column.name == LABEL:
            codes[LABEL] = kind
            continue
        fresh = random.random(n_rows)
        before = np.where(related & (random.random(n_rows) < 0.8), before, fresh)
        told = np.where(random.random(n_rows) < 0.3, kind / 2, before) if related and d % 2 else before
        codes[column.name] = np.minimum((told * column.size).astype(int), column.size - 1)
    return codes


def fitted(opened: PrivateSession | RecordedSession, *, label: str | None = LABEL) -> DpHpAdaptive:
    return generators.make(NAME, task(opened.schema, label), {}).fit(opened, NullProgress())


def queries(opened: PrivateSession) -> list[str]:
    return [receipt.query for receipt in opened.receipts]


def test_the_strongest_tree_is_the_one_that_holds_most():
    random = np.random.default_rng(0)
    strengths = np.triu(random.random((6, 6)), 1)

    def held(edges):
        return sum(strengths[edge] for edge in edges)

    pairs = list(itertools.combinations(range(6), 2))
    spanning = []
    for edges in itertools.combinations(pairs, 5):
        joined = {0}
        for _ in range(6):
            joined |= {one for edge in edges if joined & set(edge) for one in edge}
        if len(joined) == 6:
            spanning.append(edges)
    best = max(spanning, key=held)
    assert maximum_spanning_forest(strengths, least=0.0) == sorted(best)
    least = sorted(strengths[edge] for edge in best)[1]
    assert maximum_spanning_forest(strengths, least=least) == sorted(edge for edge in best if strengths[edge] > least)


@pytest.mark.parametrize(
    ("columns", "classes", "cells", "bins"),
    [
        (785, 10, 200_000, 5),
        (785, 1, 200_000, 15),
        (618, 26, 200_000, 3),
        (785, 100, 200_000, 0),
        (30_000, 1, 10_000, 0),
    ],
    ids=["digits", "no label", "letters", "too many classes", "too many columns"],
)
def test_bins_are_as_many_as_a_tree_by_class_has_room_for(columns, classes, cells, bins):
    assert bins_of_tree(columns, classes, cells) == bins
    assert columns * classes * bins**2 <= cells


@pytest.mark.thorough
@pytest.mark.parametrize("width", [MANY_COLUMNS + 1, 2 * MANY_COLUMNS])
def test_the_number_of_questions_does_not_grow_with_the_columns(width):
    schema = declared(width)
    opened = session(schema, chained(schema, 4000), epsilon=20.0)
    fitted(opened)
    assert queries(opened) == ["one-way tables", "tables by label", "pairs of columns", "tables of a tree"]
    assert opened.remaining_share < 1e-9


@pytest.mark.thorough
def test_columns_that_go_together_are_found_and_come_out_related():
    schema = declared(MANY_COLUMNS + 2, label=False)
    codes = chained(schema, 6000)
    opened = session(schema, codes, epsilon=20.0)
    made = fitted(opened, label=None)
    assert queries(opened) == ["one-way tables", "pairs of columns", "tables of a tree"]
    edges = [part.columns for part in opened.sums[-1].feature_map.parts]
    places = {name: place for place, name in enumerate(schema.names)}
    near = [abs(places[first] - places[second]) <= 2 for first, second in edges]
    assert len(edges) > 0.9 * len(schema.names)
    assert np.mean(near) > 0.95
    rows = made.sample(6000, seed=1)
    real = np.stack([codes[name] for name in schema.names], axis=1)
    ours, theirs = (np.corrcoef(one, rowvar=False).diagonal(1) for one in (rows, real))
    assert theirs.mean() > 0.4
    assert np.abs(ours - theirs).mean() < 0.15


@pytest.mark.thorough
def test_columns_follow_the_label_in_a_table_of_many():
    schema = declared(MANY_COLUMNS + 2)
    codes = chained(schema, 4000)
    made = fitted(session(schema, codes, epsilon=10.0))
    rows = made.sample(4000, seed=1)
    real = np.stack([codes[name] for name in schema.names], axis=1)
    ours, theirs = (np.corrcoef(one, rowvar=False)[-1, 1:-1:2] for one in (rows, real))
    assert theirs.mean() > 0.15
    assert np.abs(ours - theirs).mean() < 0.06


@pytest.mark.thorough
def test_where_nothing_goes_together_the_rest_goes_to_the_label():
    schema = declared(MANY_COLUMNS + 2)
    opened = session(schema, chained(schema, 4000, related=False), epsilon=5.0)
    fitted(opened)
    assert queries(opened) == ["one-way tables", "tables by label", "pairs of columns", "tables by label again"]
    assert opened.remaining_share < 1e-9


@pytest.mark.thorough
def test_without_a_label_the_rest_goes_to_the_columns():
    schema = declared(MANY_COLUMNS + 2, label=False)
    opened = session(schema, chained(schema, 4000, related=False), epsilon=5.0)
    fitted(opened, label=None)
    assert queries(opened) == ["one-way tables", "pairs of columns", "one-way tables again (1)"]
    assert opened.remaining_share < 1e-9


@pytest.mark.thorough
@pytest.mark.parametrize("rows", [0, 1, 40])
def test_few_rows_of_many_columns_fit_and_sample(rows):
    schema = declared(MANY_COLUMNS + 2)
    made = fitted(session(schema, chained(schema, rows), epsilon=1.0))
    check_domain(made.sample(50, seed=0), schema, 50)


@pytest.mark.thorough
def test_a_tree_is_saved_and_fitted_again_from_its_answers():
    schema = declared(MANY_COLUMNS + 2)
    opened = session(schema, chained(schema, 3000), epsilon=20.0)
    made = fitted(opened)
    rows = made.sample(500, seed=3)
    check_domain(rows, schema, 500)
    state = load(save({name: np.ascontiguousarray(array) for name, array in made.state().items()}))
    again = generators.restore(NAME, task(schema, LABEL), {}, state)
    assert again.sample(500, seed=3).tobytes() == rows.tobytes()
    recorded = RecordedSession(schema, opened.budget, answers=opened.answers, rows=opened.rows)
    assert fitted(recorded).sample(500, seed=3).tobytes() == rows.tobytes()


# How much of the budget the label gets


def shares(width: int, n_rows: int, epsilon: float, *, label_share: float = 0.2):
    schema = Schema((*(YesNoColumn(f"n{d}") for d in range(width - 1)), CategoryColumn(LABEL, tuple("abcdefghij"))))
    codes = {column.name: np.zeros(n_rows, dtype=int) for column in schema.modelled}
    opened = session(schema, codes, epsilon=epsilon)
    return allocate_budget(opened, 1.0, schema.sizes, for_columns=0.2, label_share=label_share, label_size=10)


def test_a_wide_table_of_few_rows_spends_most_on_its_classes():
    assert shares(2 * WIDE, 1300, 1.0).by_label == pytest.approx(0.6)
    assert shares(2 * WIDE, 1300, 1.0).n_rounds == 0
    assert shares(WIDE - 1, 900, 1.0).by_label == 0.0
    assert 0.2 < shares(2 * WIDE, 2000, 10.0).by_label < 0.6
    assert shares(2 * WIDE, 100_000, 1.0).by_label == pytest.approx(0.2)
    assert shares(2 * WIDE, 300, 0.3).by_label == 0.0
    # Classes of which noise would leave nothing get nothing: isolet's 26 at epsilon 1 cost every pair of columns.
    assert shares(2 * WIDE, 900, 1.0).by_label == 0.0


@pytest.mark.parametrize("width", [WIDE - 1, 2 * WIDE])
def test_a_label_that_is_to_get_nothing_gets_nothing(width):
    assert shares(width, 1300, 1.0, label_share=0.0).by_label == 0.0
