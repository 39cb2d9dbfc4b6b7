"""What was not kept: unrelated columns drown at the stated level, related ones do not; every kind of answer is read."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from test_published import SCHEMA as TWO
from test_published import X, Y, release

from synth.privacy.answers import NoisyAnswer
from synth.privacy.feature_maps import Constant, FeatureMap, OneHot, Stack
from synth.privacy.more.lookups import Lookup
from synth.privacy.more.products import Product
from synth.privacy.more.row_moments import RowMoments
from synth.reports.document import published_evidence
from synth.reports.drawing import draw
from synth.reports.evidence import SafeEvidence, evidence_from_dict, evidence_to_dict
from synth.reports.figures import HeatMap, Table
from synth.reports.first_screen import first_screen
from synth.reports.relations import Relations, State, published_relations, relations_of
from synth.reports.relations.excess import LEVEL, excess_of
from synth.schema import CategoryColumn, RunConfig, Schema

NAMES = ("a", "b", "c", "d")
SCHEMA = Schema(tuple(CategoryColumn(name, ("0", "1")) for name in NAMES))
CONFIG = RunConfig(
    schema=SCHEMA,
    account="town",
    epsilon=1.0,
    delta=1e-6,
    people_at_most=10_000,
    rows=50,
    generator="independent",
    label="c",
    holdout=0.0,
)
RELATED = np.array([[400.0, 100.0], [100.0, 400.0]])
UNRELATED = np.array([[250.0, 250.0], [250.0, 250.0]])
ROWS = 1000.0


def hot(*names: str) -> OneHot:
    return OneHot(names, (None,) * len(names), (2,) * len(names))


def answer(question: FeatureMap, value: object, *, noise: float = 5.0, query: str = "q") -> NoisyAnswer:
    flat = np.asarray(value, dtype=np.float64).reshape(-1)
    assert flat.size == question.dimension
    return release(question, flat.tolist(), noise=noise, query=query)


def known(*answers: NoisyAnswer) -> Relations:
    return relations_of(answers, [one.receipt for one in answers], NAMES, rows=ROWS)


def state(found: Relations, pair: str) -> State:
    left, right = (NAMES.index(name) for name in pair)
    return State(found.states[left, right])


# The level ----------------------------------------------------------------------------------------------------------


def called_clear(shape: tuple[int, int], *, noise: float, stated: float, tables: int = 300) -> float:
    """Return how many tables of unrelated columns, drawn by a seed, say more than their noise."""
    random = np.random.default_rng(7)
    clear = 0
    for _ in range(tables):
        shares = np.outer(random.dirichlet(np.ones(shape[0])), random.dirichlet(np.ones(shape[1])))
        counts = random.multinomial(5000, shares.reshape(-1)).reshape(shape)
        found = excess_of(counts + noise * random.normal(size=shape), stated)
        clear += found is not None and found.clear
    return clear / tables


@pytest.mark.thorough
@pytest.mark.parametrize("shape", [(2, 2), (3, 4), (8, 8), (2, 32)])
@pytest.mark.parametrize("noise", [1.0, 15.0])
def test_unrelated_columns_are_called_clear_at_the_stated_level(shape: tuple[int, int], noise: float) -> None:
    # Three standard deviations of a share of 300.
    assert called_clear(shape, noise=noise, stated=noise) <= LEVEL + 3 * math.sqrt(LEVEL * (1 - LEVEL) / 300)


def test_noise_that_is_understated_is_found_out_by_it() -> None:
    """A planted fault: the level does not hold by itself."""
    assert called_clear((8, 8), noise=15.0, stated=7.5) > 0.5


def test_a_strong_relation_is_clear_and_noise_drowns_a_weak_one() -> None:
    strong, weak = excess_of(RELATED, 5.0), excess_of(UNRELATED + 6.0 * np.array([[1, -1], [-1, 1]]), 20.0)
    assert strong is not None
    assert weak is not None
    assert strong.clear
    assert strong.seen == pytest.approx(0.3)
    assert not weak.clear
    assert weak.seen < weak.by_chance
    assert excess_of(np.ones((1, 5)), 1.0) is None


def test_a_slow_trend_is_seen_through_many_cells() -> None:
    """Noise of every cell is as large as what the trend puts there: only groups of bins show it."""
    places = np.linspace(-1, 1, 32)
    table = 4.0 + 3.5 * np.outer(places, places)
    found = excess_of(table + 6.0 * np.random.default_rng(3).normal(size=(32, 32)), 6.0)
    assert found is not None
    assert found.clear
    assert found.shape == (4, 4)


def test_a_table_whose_total_noise_hides_says_nothing() -> None:
    found = excess_of(RELATED / 100, 20.0)
    assert found is not None
    assert (found.p_value, found.clear) == (1.0, False)


# Every kind of answer -----------------------------------------------------------------------------------------------


def test_tables_of_a_stack_are_read_one_by_one() -> None:
    stack = Stack((hot("a", "b"), hot("a", "c")), (0.6, 0.8))
    found = known(answer(stack, np.concatenate([0.6 * RELATED.ravel(), 0.8 * UNRELATED.ravel()])))
    assert [state(found, pair) for pair in ("ab", "ac", "bc")] == [State.ALONE, State.DROWNED, State.UNMEASURED]
    assert found.counted[0, 1].noise_std == pytest.approx(5 / 0.6, rel=1e-6)


def test_pairs_of_a_wider_table_carry_the_noise_of_all_its_cells() -> None:
    cube = np.stack([RELATED, RELATED], axis=-1) / 2
    found = known(answer(hot("b", "a", "d"), cube, noise=3.0))
    assert state(found, "ab") == State.TOGETHER
    assert [state(found, pair) for pair in ("ad", "bd")] == [State.DROWNED] * 2
    assert found.counted[0, 1].noise_std == pytest.approx(3 * math.sqrt(2))
    # Counted by itself as well, with more noise, it is a pair of its own.
    both = known(answer(hot("b", "a", "d"), cube, noise=3.0), answer(hot("a", "b"), RELATED, query="own"))
    assert state(both, "ab") == State.ALONE


def test_tables_by_class_are_products_with_a_stack() -> None:
    by_class = Product((hot("c"), Stack((hot("a"), Constant()), (0.6, 0.8))))
    value = np.concatenate([0.6 * RELATED, 0.8 * RELATED.sum(axis=1, keepdims=True)], axis=1)
    found = known(answer(by_class, value))
    assert state(found, "ac") == State.ALONE
    assert found.how_many(State.UNMEASURED) == 5


def test_features_of_several_columns_cannot_be_read_pair_by_pair() -> None:
    features = Product((Lookup("a", np.eye(2)), Lookup("b", np.eye(2))))
    found = known(answer(features, RELATED), answer(Lookup("c", np.eye(2)), [500, 500], query="c"))
    assert state(found, "ab") == State.FEATURES
    assert found.how_many(State.UNMEASURED) == 5
    # A table that noise drowns does not say that features of the same columns drowned.
    both = known(answer(features, RELATED), answer(hot("a", "b"), UNRELATED, query="ab"))
    assert state(both, "ab") == State.FEATURES
    assert both.how_many(State.DROWNED) == 0


def test_rows_let_out_one_by_one_are_not_read() -> None:
    receipt = replace(answer(hot("a"), [1, 2]).receipt, mechanism="gaussian_rows")
    assert relations_of((), (receipt,), NAMES, rows=ROWS).how_many(State.FEATURES) == 6


def test_what_held_out_rows_said_is_passed_over() -> None:
    one = answer(hot("a", "b"), RELATED)
    found = known(replace(one, receipt=replace(one.receipt, part="holdout")))
    assert found.how_many(State.UNMEASURED) == 6


def test_a_first_look_names_what_nobody_counted() -> None:
    signs = tuple(Lookup(name, np.array([[-1.0], [1.0]])) for name in "abd")
    question = RowMoments(signs, 2.0, (0.0, 0.0, 1.0), np.zeros((1, 3)))
    products = np.array([1000.0, 600.0, 20.0, 1000.0, 15.0, 1000.0])  # aa, ab, ad, bb, bd, dd
    found = known(answer(question, products * question.factors / 4.0))
    assert found.seen == ((0, 1),)
    assert found.how_many(State.UNMEASURED) == 6
    assert "a and b" in published(found)["measured"].sentence
    counted = known(answer(question, products * question.factors / 4.0), answer(hot("a", "b"), RELATED, query="ab"))
    assert counted.seen == ()


# What is said of it -------------------------------------------------------------------------------------------------


def published(found: Relations) -> dict[str, SafeEvidence]:
    return {entry.id.partition(".")[2]: entry for entry in published_relations(found, CONFIG)}


def test_the_title_counts_and_the_label_comes_first() -> None:
    found = published(known(answer(hot("a", "b"), RELATED), answer(hot("a", "c"), UNRELATED, query="q2")))
    assert {name: entry.value for name, entry in found.items()} == {"measured": 2, "of": 6, "clear": 1, "unknown": 5}
    square, counted = found["measured"].figures
    assert isinstance(square, HeatMap)
    assert isinstance(counted, Table)
    assert square.title == "2 of 6 pairs were measured, 1 of them clear of noise"
    assert square.subtitle == "Treat the other 5 as unknown."
    assert square.names == ("c", "a", "b", "d")
    assert square.values[0] == (None, 2.0, None, None)
    assert [row[:2] for row in counted.rows] == [("a + c", "drowned"), ("a + b", "measured alone")]
    assert found["unknown"].sentence.startswith(
        "c and b: not measured; treat as unknown; c and a: measured, but noise hides it; treat as unknown."
    )
    (by_column,) = found["unknown"].figures
    assert isinstance(by_column, Table)
    assert by_column.rows[:2] == (("c", "\N{EN DASH}", "a", "b, d"), ("a", "b", "c", "d"))


def test_where_nothing_can_be_told_apart_one_sentence_says_so() -> None:
    everything = known(answer(Product(tuple(Lookup(name, np.eye(2)) for name in NAMES)), np.ones(16)))
    (entry,) = published_relations(everything, CONFIG)
    assert (entry.id, entry.figures) == ("relations.features", ())


def test_many_columns_are_grouped_and_cut() -> None:
    names = tuple(f"n{place}" for place in range(300))
    schema = Schema(tuple(CategoryColumn(name, ("0", "1")) for name in names))
    found = published_relations(relations_of((), (), names, rows=ROWS), replace(CONFIG, schema=schema, label=None))
    square, table = (figure for entry in found for figure in entry.figures)
    assert isinstance(square, HeatMap)
    assert isinstance(table, Table)
    assert len(square.names) == 24
    assert table.rows[0][-1] == "n1, n2, n3, n4, n5, n6, n7, n8 and 291 more"


def test_a_map_of_words_is_drawn_once_for_each_pair_with_its_words_and_read_back() -> None:
    entry = published(known(answer(hot("a", "b"), RELATED)))["measured"]
    assert evidence_from_dict(evidence_to_dict(entry)) == entry
    drawn = draw(entry.figures[0])
    assert all(f">{words}<" in drawn for words in ("measured alone", "among others", "drowned", "not measured"))
    assert "<td>a + b</td>" in drawn or "<td>b + a</td>" in drawn


def test_it_is_in_every_report() -> None:
    schema = replace(CONFIG, schema=TWO, label=None)
    codes = np.zeros((3, 2), dtype=np.int64)
    answers = [release(X, [10, 20], noise=1.0), release(Y, [10, 10, 10], noise=1.0, query="y", sequence=1)]
    now = published_evidence(codes, answers, schema)
    assert "relations.unknown" in {entry.id for entry in now}
    assert (
        "elations within 1 of 1 pairs of columns (not measured, or hidden by noise)" in first_screen(now, schema).unfit
    )
