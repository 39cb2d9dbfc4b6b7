"""Gower's distance by hand, and nearest neighbours against every pair: exact on any table."""

from __future__ import annotations

import datetime

import numpy as np
import pytest
import torch
from pretended_card import pretended_card

from synth.errors import InputError
from synth.reports.membership import distances, pairs_in_blocks
from synth.reports.membership.distances import GowerSpace, RowTree, distances_between, distinct_rows
from synth.reports.membership.pairs_in_blocks import bytes_of_pair, nearest_in_blocks
from synth.schema import CategoryColumn, DateColumn, DateStep, NumberColumn, Schema, YesNoColumn

MIXED = Schema(
    (
        NumberColumn("age", 0, 100, 1, missing=True),
        NumberColumn("gain", 0, 99_999, 1, special=(0, -1)),
        DateColumn("seen", datetime.date(2020, 1, 1), datetime.date(2021, 12, 1), DateStep.MONTH),
        CategoryColumn("town", tuple("abcdefgh"), other=True, missing=True),
        YesNoColumn("smoker"),
        CategoryColumn("place", tuple(f"p{place}" for place in range(400))),
    )
)
ONE_NUMBER = Schema((NumberColumn("age", 0, 100, 1),))
ONE_CATEGORY = Schema((CategoryColumn("town", ("a", "b")),))
MANY = Schema(tuple(CategoryColumn(f"c{place}", ("a", "b", "c")) for place in range(300)))


def drawn(schema: Schema, rows: int, *, seed: int, together: float = 0.6) -> list[np.ndarray]:
    random = np.random.default_rng(seed)
    cause = random.random(rows)
    mixed = [np.where(random.random(rows) < together, cause, random.random(rows)) for _ in schema.modelled]
    return [
        np.minimum((size * place).astype(np.int64), size - 1) for size, place in zip(schema.sizes, mixed, strict=True)
    ]


def by_hand(schema: Schema, left: list[np.ndarray], right: list[np.ndarray]) -> np.ndarray:
    """Gower's distance as the paper writes it, one pair after the other."""
    total = np.zeros((len(left[0]), len(right[0])))
    for column, mine, theirs in zip(schema.modelled, left, right, strict=True):
        for i, a in enumerate(mine.tolist()):
            for j, b in enumerate(theirs.tolist()):
                on_grid = a < column.levels and b < column.levels
                total[i, j] += abs(a - b) / (column.levels - 1) if on_grid else float(a != b)
    return total / len(left)


@pytest.mark.parametrize("schema", [MIXED, ONE_NUMBER, ONE_CATEGORY], ids=["mixed", "number", "category"])
def test_distances_are_those_of_the_definition(schema: Schema) -> None:
    left, right = drawn(schema, 60, seed=1), drawn(schema, 40, seed=2)
    space = GowerSpace.of(schema)
    np.testing.assert_allclose(space.between(left, right), by_hand(schema, left, right), atol=1e-6)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("schema", "sizes"),
    [(MIXED, (700, 1500)), (ONE_NUMBER, (700, 1500)), (ONE_CATEGORY, (700, 1500)), (MANY, (140, 300))],
    ids=["mixed", "number", "category", "many"],
)
@pytest.mark.parametrize("together", [0.0, 0.9])
def test_nearest_agrees_with_every_pair(schema: Schema, sizes: tuple[int, int], together: float) -> None:
    queries, rows = (drawn(schema, size, seed=seed, together=together) for seed, size in enumerate(sizes, start=1))
    space = GowerSpace.of(schema)
    every = space.between(queries, rows).min(axis=1)
    np.testing.assert_array_equal(space.nearest(queries, rows), every)
    tree = RowTree.of(space.axes, distinct_rows(space.place(rows))[0], rows_of_a_box=2)
    np.testing.assert_array_equal(tree.nearest(space.place(queries)) / (float(space.unit) * len(space.axes)), every)


def test_a_copy_has_distance_zero_whatever_the_order() -> None:
    rows = drawn(MIXED, 900, seed=3)
    order = np.random.default_rng(4).permutation(900)
    space = GowerSpace.of(MIXED)
    assert not space.nearest(rows, [column[order] for column in rows]).any()
    twice = [np.concatenate([column, column]) for column in rows]
    assert not space.nearest(twice, rows).any()


def test_a_table_of_one_row_or_of_equal_rows_has_neighbours() -> None:
    space = GowerSpace.of(MIXED)
    queries = drawn(MIXED, 50, seed=5)
    alike = [np.repeat(column[:1], 1000) for column in queries]
    np.testing.assert_array_equal(
        space.nearest(queries, alike), space.between(queries, [column[:1] for column in alike])[:, 0]
    )
    assert len(space.nearest([column[:0] for column in queries], alike)) == 0
    with pytest.raises(InputError, match="no rows to compare with"):
        space.nearest(queries, [column[:0] for column in queries])
    with pytest.raises(InputError, match="Rows of 6 columns are needed, got 1"):
        space.nearest(queries[:1], alike[:1])


def test_wide_tables_and_many_special_values_stay_within_their_numbers() -> None:
    special = NumberColumn("code", 0, 10, 1, special=tuple(range(-1000, 0)))
    columns = tuple(NumberColumn(f"n{place}", 0, 1000, 1) for place in range(200))
    schema = Schema((special, *columns))
    space = GowerSpace.of(schema)
    assert space.unit < 2**24
    low, high = [np.zeros(1, dtype=np.int64)] * 201, [np.array([size - 1]) for size in schema.sizes]
    assert space.between(low, high)[0, 0] == pytest.approx(1.0)
    assert space.between(high, high)[0, 0] == 0.0


def test_a_long_search_says_where_it_is_and_can_be_stopped() -> None:
    steps: list[tuple[int, int]] = []
    space = GowerSpace.of(MIXED)
    space.nearest(drawn(MIXED, 100, seed=6), drawn(MIXED, 100, seed=7), on_step=lambda *step: steps.append(step))
    assert steps[-1][0] == steps[-1][1] > 0


# On a card, all pairs are compared in blocks


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut small tables into several blocks on either side, the last ones shorter."""
    monkeypatch.setattr(pairs_in_blocks, "_SIDE", 128)


@pytest.mark.four_cases
@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("schema", [MIXED, ONE_NUMBER, ONE_CATEGORY, MANY], ids=["mixed", "number", "category", "many"])
@pytest.mark.parametrize("widest", [4096, 3], ids=["product", "cell by cell"])
def test_blocks_find_the_distances_of_the_tree_to_the_last_bit(
    schema: Schema, widest: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pairs_in_blocks, "_WIDEST", widest)
    queries, rows = drawn(schema, 200, seed=1, together=0.5), drawn(schema, 300, seed=2, together=0.5)
    space = GowerSpace.of(schema)
    there = [column[:150] for column in rows]  # so that many queries are equally far from several rows
    doubled = [np.concatenate([column, column]) for column in there]
    for compared in (rows, doubled):
        np.testing.assert_array_equal(
            nearest_in_blocks(space.axes, space.place(queries), space.place(compared), device="cpu"),
            distances_between(space.axes, space.place(queries), space.place(compared)).min(axis=1),
        )
    with pretended_card(monkeypatch) as traffic:
        found = space.nearest(queries, rows, device="cuda")
    np.testing.assert_array_equal(found, space.nearest(queries, rows))
    assert traffic.waits == 0
    assert traffic.downloads == 1
    assert traffic.uploads <= 4


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("schema", [MIXED, ONE_NUMBER, ONE_CATEGORY, MANY], ids=["mixed", "number", "category", "many"])
def test_a_card_finds_all_distances_to_the_last_bit(schema: Schema, monkeypatch: pytest.MonkeyPatch) -> None:
    left, right = drawn(schema, 200, seed=1), drawn(schema, 300, seed=2)
    space = GowerSpace.of(schema)
    with pretended_card(monkeypatch) as traffic:
        space.between(left, right, device="cuda")
        assert traffic.operations == 0  # so few are found sooner where they are
        monkeypatch.setattr(distances, "_WORTH_A_CARD", 200 * 300)
        found = space.between(left, right, device="cuda")
        assert traffic.downloads == 6  # one for each block
        assert traffic.uploads <= 4
    np.testing.assert_array_equal(found, space.between(left, right))


@pytest.mark.usefixtures("small_blocks")
def test_a_wide_table_stays_within_the_whole_numbers_of_a_card() -> None:
    special = NumberColumn("code", 0, 10, 1, special=tuple(range(-1000, 0)))
    columns = tuple(CategoryColumn(f"c{place}", ("a", "b")) for place in range(200))
    space = GowerSpace.of(Schema((special, *columns)))
    low, high = [np.zeros(1, dtype=np.int64)] * 201, [np.array([size - 1]) for size in space_sizes(space)]
    for left, right in ((low, high), (high, low), (high, high)):
        found = nearest_in_blocks(space.axes, space.place(left), space.place(right), device="cpu")
        np.testing.assert_array_equal(found, distances_between(space.axes, space.place(left), space.place(right))[0])


def space_sizes(space: GowerSpace) -> list[int]:
    return [axis.size for axis in space.axes]


def test_a_card_that_fails_half_way_is_done_without(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*given: object, **named: object) -> object:
        raise torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 64.00 MiB.")

    queries, rows = drawn(MIXED, 50, seed=1), drawn(MIXED, 70, seed=2)
    space = GowerSpace.of(MIXED)
    with monkeypatch.context() as patch:
        patch.setattr(distances, "nearest_in_blocks", full)
        np.testing.assert_array_equal(space.nearest(queries, rows, device="cuda"), space.nearest(queries, rows))
        patch.setattr(distances, "nearest_in_blocks", lambda *given, **named: [][0])
        with pytest.raises(IndexError):
            space.nearest(queries, rows, device="cuda")
        patch.setattr(distances, "_WORTH_A_CARD", 1)
        patch.setattr(distances, "between_in_blocks", full)
        np.testing.assert_array_equal(space.between(queries, rows, device="cuda"), space.between(queries, rows))


@pytest.mark.usefixtures("small_blocks")
def test_a_search_in_blocks_says_where_it_is_and_can_be_stopped() -> None:
    space, steps = GowerSpace.of(MIXED), []
    placed = space.place(drawn(MIXED, 300, seed=6))
    nearest_in_blocks(space.axes, placed, placed, device="cpu", on_step=lambda *step: steps.append(step))
    assert steps == [(128, 300), (256, 300), (300, 300)]

    def stop(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        nearest_in_blocks(space.axes, placed, placed, device="cpu", on_step=stop)


def test_the_bytes_of_a_pair_count_every_operation() -> None:
    space = GowerSpace.of(Schema((NumberColumn("n", 0, 9, 1), CategoryColumn("c", ("a", "b")))))
    assert bytes_of_pair(space.axes) == 16 + 24  # a product, and a number without other states
