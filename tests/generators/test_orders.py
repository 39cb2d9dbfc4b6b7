"""Columns that are declared to be in order: what is asked of their difference, and rows that lie as far apart."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from simulated import session, task

from synth import generators
from synth.bundle.recorded_session import RecordedSession
from synth.generators.adaptive.bins import CoarseningOptions, ColumnBins, coarsen
from synth.generators.adaptive.differences import Differences, orders_of
from synth.generators.adaptive.dp_hp_adaptive import DpHpAdaptive
from synth.generators.adaptive.orders import (
    CountedDifferences,
    Order,
    OrderedPair,
    pairs_from_state,
    place_in_order,
    state_of_pairs,
)
from synth.generators.adaptive.survey import Survey
from synth.generators.one_way_marginals import OneWayOptions, measure_one_way_marginals
from synth.models.marginals import NoisyMarginal
from synth.progress import NullProgress
from synth.schema import CategoryColumn, ModelledColumn, NumberColumn, Schema
from synth.schema.rule_lines import read_rules

SHORT = Schema(
    (
        NumberColumn("came", 0, 12, 1, special=(40.0,), missing=True),
        NumberColumn("left", 2, 17, 0.5, missing=True),
        CategoryColumn("kind", ("a", "b")),
    ),
    row_count="public",
)

STAYS = Schema(
    (
        NumberColumn("came", 0, 399, 1),
        NumberColumn("left", 0, 419, 1, missing=True),
        CategoryColumn("kind", ("a", "b", "c")),
    ),
    row_count="public",
)
RULES = ("left >= came",)
QUESTION = "differences"


def stays(n_rows: int = 6000) -> dict[str, np.ndarray]:
    """Stays of a few days in a year; one of twenty is not over."""
    random = np.random.default_rng(5)
    came, kind = random.integers(0, 390, n_rows), random.integers(0, 3, n_rows)
    left = came + np.minimum(random.geometric(1 / (2.0 + 3.0 * kind)) - 1, 29)
    return {"came": came, "left": np.where(random.random(n_rows) < 0.05, 420, left), "kind": kind}


def order_of(schema: Schema, *lines: str) -> list[Order]:
    return orders_of(read_rules(lines, schema).rules, schema.modelled)


def model_of(opened: object, **options: object) -> DpHpAdaptive:
    asked = replace(task(STAYS, None), constraints=RULES)
    return generators.make("dp-hp-adaptive", asked, options).fit(opened, NullProgress())  # type: ignore[arg-type, return-value]


@pytest.mark.parametrize("line", ["left >= came", "came <= left", "left > came", "came < left"])
def test_a_row_is_counted_where_its_difference_lies(line: str) -> None:
    """Every pair of codes, one by one: of two numbers with other steps, special values and missing ones."""
    (order,) = order_of(SHORT, line)
    assert (order.earlier, order.later) == (0, 1)
    assert order.strict == ("=" not in line)
    question = order.question(SHORT.modelled)
    came, left = SHORT.modelled[:2]
    pairs = np.array(list(itertools.product(range(came.size), range(left.size))))
    cells = question.cells({"came": pairs[:, 0], "left": pairs[:, 1]}.__getitem__, len(pairs))
    values = came.comparable_values()[pairs[:, 0]], left.comparable_values()[pairs[:, 1]]
    apart = (values[1] - values[0]) / 0.5
    firsts, lasts = order.bands
    counts = order.kept(np.bincount(cells, minlength=question.dimension).astype(float))
    assert len(counts) == len(firsts)
    truly = [int(((apart >= first) & (apart <= last)).sum()) for first, last in zip(firsts, lasts, strict=True)]
    assert counts.tolist() == truly
    assert counts.sum() == (apart > 0 if order.strict else apart >= 0).sum()
    # What breaks the order, and what has no difference, is counted elsewhere.
    with np.errstate(invalid="ignore"):
        assert question.dimension > len(counts)
    assert np.bincount(cells).sum() == len(pairs)


def test_a_difference_is_whole_however_long_the_grids_are() -> None:
    columns = (NumberColumn("a", 0, 1_000_000, 1), NumberColumn("b", -5, 1_000_000, 1, missing=True))
    (order,) = order_of(Schema(columns), "b >= a")
    random = np.random.default_rng(1)
    codes = random.integers(0, columns[0].size, 4000)
    other = np.minimum(codes + 5 + random.integers(-9, 9, 4000) ** 5, columns[1].size - 2).clip(0)
    cells = order.question(columns).cells({"a": codes, "b": other}.__getitem__, 4000)
    apart = other - 5 - codes
    counts = order.kept(np.bincount(cells, minlength=order.question(columns).dimension).astype(float))
    assert counts.tolist() == [((apart >= low) & (apart <= high)).sum() for low, high in zip(*order.bands, strict=True)]
    # Longer still, several steps are one.
    longer = (NumberColumn("a", 0, 3_000_000, 1), NumberColumn("b", 0, 3_000_000, 1))
    (coarse,) = order_of(Schema(longer), "b >= a")
    assert 2**19 < coarse.reach <= 2**20


def test_which_rules_are_orders() -> None:
    schema = Schema((*(NumberColumn(name, 0, 50, 1) for name in "abcdef"), CategoryColumn("kind", ("x", "y"))))

    def of(*lines: str) -> list[tuple[int, int]]:
        return [(one.earlier, one.later) for one in order_of(schema, *lines)]

    assert of("b >= a", "c = a + b", "a >= 3", "if kind = x then d >= a", "d = a", "b >= a") == [(0, 1)]
    # A chain is told from its beginning; a value is drawn once; three at most.
    assert of("c >= b", "b >= a") == [(0, 1), (1, 2)]
    assert of("c >= a", "c >= b") == [(0, 2)]
    assert of("b >= a", "c >= a", "d >= a", "e >= a") == [(0, 1), (0, 2), (0, 3)]
    assert of("a >= b", "b >= a") == [(1, 0)]
    assert of() == []


def test_what_noise_hides_is_empty() -> None:
    (order,) = order_of(STAYS, *RULES)
    bands = len(order.bands[0])
    truly = np.where(np.arange(bands) < 10, 500.0, 0.0)
    noise = 20.0 * np.random.default_rng(2).normal(size=bands)
    found = CountedDifferences(order, truly + noise, 20.0).proportions
    assert found.sum() == pytest.approx(1.0)
    assert found.min() >= 0
    assert found[10:].sum() < 0.05
    np.testing.assert_allclose(found[:10], 0.1, atol=0.02)
    for nothing in (np.zeros(bands), -np.ones(bands)):
        even = CountedDifferences(order, nothing, 20.0).proportions
        assert even.sum() == pytest.approx(1.0)
        assert (even > 0).all()


def bins_of(codes: dict[str, np.ndarray], bins: int) -> tuple[ColumnBins, ...]:
    opened = session(STAYS, codes, epsilon=500.0)
    counted = measure_one_way_marginals(
        opened, STAYS.modelled, label=None, share=0.5, source="test", options=OneWayOptions()
    )
    return coarsen(counted, CoarseningOptions(bins=bins))


def known(codes: dict[str, np.ndarray], columns: Sequence[ModelledColumn]) -> CountedDifferences:
    (order,) = order_of(STAYS, *RULES)
    question = order.question(columns)
    cells = question.cells(codes.__getitem__, len(codes["came"]))
    return CountedDifferences(order, order.kept(np.bincount(cells, minlength=question.dimension).astype(float)), 1.0)


def tables_of(codes: dict[str, np.ndarray], bins: tuple[ColumnBins, ...], *, cells: int) -> list[NoisyMarginal]:
    survey = Survey(session(STAYS, codes), STAYS.modelled, None, "test")
    differences = Differences(survey, read_rules(RULES, STAYS).rules, cells=cells)
    differences.counted = [known(codes, STAYS.modelled)]
    return differences.tables(bins, 20_000.0)


def binned(codes: dict[str, np.ndarray], bins: Sequence[ColumnBins]) -> np.ndarray:
    of_code = [np.arange(one.size) if one.bins is None else one.bins for one in bins]
    return np.stack([own[codes[name]] for own, name in zip(of_code, STAYS.names, strict=True)], axis=1).astype(np.int64)


def apart(came: np.ndarray, left: np.ndarray) -> np.ndarray:
    """Shares of lengths of stay, -1 in front."""
    over = left < 420
    return np.bincount(np.clip(left[over] - came[over], -1, 60) + 1, minlength=62) / over.sum()


def distance(one: np.ndarray, other: np.ndarray) -> float:
    """Kolmogorov-Smirnov."""
    return float(np.abs(np.cumsum(one) - np.cumsum(other)).max())


def test_the_table_of_two_columns_follows_from_their_difference() -> None:
    codes = stays(20_000)
    bins = bins_of(codes, 12)
    table, bands = tables_of(codes, bins, cells=10_000)
    real = binned(codes, bins)
    counts = np.zeros(table.table.shape)
    np.add.at(counts, (real[:, 0], real[:, 1]), 1.0)
    product = 20_000 * np.outer(bins[0].expected, bins[1].expected)
    assert np.abs(table.table - counts).sum() < 0.1 * np.abs(product - counts).sum()
    assert table.table.sum() == pytest.approx(20_000, rel=1e-6)
    assert bands.cells is not None
    np.testing.assert_allclose(bands.table.sum(), table.table.sum())
    # A table that would be too large is none.
    assert tables_of(codes, bins, cells=10) == []


@pytest.mark.parametrize("settled", [False, True])
def test_rows_lie_as_far_apart_as_was_counted(settled: bool) -> None:
    codes = stays(20_000)
    bins = bins_of(codes, 12)
    real = binned(codes, bins)
    table = np.zeros((bins[0].size, bins[1].size))
    np.add.at(table, (real[:, 0], real[:, 1]), 1.0 / len(real))
    pair, _ = OrderedPair.fitted(known(codes, STAYS.modelled), bins, table, 20_000.0)
    random = np.random.default_rng(4)
    drawn = np.stack([one.codes(real[:, d], random) for d, one in enumerate(bins)], axis=1)
    rows = drawn.copy()
    if settled:
        own = rows[:, :2].copy()
        pair.placed(real[:, :2], own, random, settled=True)
        rows[:, :2] = own
        np.testing.assert_array_equal(rows[:, 0], drawn[:, 0])
    else:
        place_in_order([pair], real, rows, random)
        again = pairs_from_state(state_of_pairs([pair]), STAYS.modelled, bins)
        other = drawn.copy()
        place_in_order(again, real, other, np.random.default_rng(9))
        third = drawn.copy()
        place_in_order([pair], real, third, np.random.default_rng(9))
        np.testing.assert_array_equal(other, third)
    # Every value stays in its bin; what is missing, and other columns, are left alone.
    np.testing.assert_array_equal(binned(dict(zip(STAYS.names, rows.T, strict=True)), bins), real)
    np.testing.assert_array_equal(rows[:, 2], drawn[:, 2])
    np.testing.assert_array_equal(rows[:, 1] == 420, drawn[:, 1] == 420)
    truly, before, after = (apart(*one) for one in ((codes["came"], codes["left"]), drawn[:, :2].T, rows[:, :2].T))
    assert distance(truly, before) > 0.25
    # Values that are settled may leave nothing to choose.
    assert distance(truly, after) < (0.15 if settled else 0.02)
    if not settled:
        assert after[0] < 0.002
        moved = np.bincount(rows[:, 0], minlength=400) - np.bincount(drawn[:, 0], minlength=400)
        assert np.abs(moved).sum() < 0.02 * len(rows)


def test_from_rows_to_rows() -> None:
    codes = stays()
    told, plain = (session(STAYS, codes, epsilon=3.0) for _ in range(2))
    made, before = model_of(told), model_of(plain, logic="repaired")
    truly = apart(codes["came"], codes["left"])
    lengths = [apart(*one.sample(6000, 1)[:, :2].T) for one in (made, before)]
    assert distance(truly, lengths[0]) < 0.08 < 0.2 < distance(truly, lengths[1])
    queries = [receipt.query for receipt in told.receipts]
    assert queries.count(QUESTION) == 1
    assert QUESTION not in [receipt.query for receipt in plain.receipts]
    # All of the budget is spent, and the question takes its part of it.
    units = {receipt.query: receipt.units for receipt in told.receipts}
    assert 0.004 < units[QUESTION] / sum(receipt.units for receipt in told.receipts) < 0.031
    assert told.remaining_share < 1e-3
    state = made.state()
    again = DpHpAdaptive.from_state(replace(task(STAYS, None), constraints=RULES), made._options, state)
    np.testing.assert_array_equal(again.sample(500, 2), made.sample(500, 2))


def test_other_rows_and_the_same_answers_make_the_same_model() -> None:
    opened = session(STAYS, stays(), epsilon=3.0)
    made = model_of(opened)
    recorded = RecordedSession(STAYS, opened.budget, rows=opened.rows, answers=opened.answers)
    np.testing.assert_array_equal(model_of(recorded).sample(300, 3), made.sample(300, 3))


def test_without_an_order_nothing_is_asked() -> None:
    opened = session(STAYS, stays(2000), epsilon=3.0)
    asked = replace(task(STAYS, None), constraints=("came >= 0",))
    generators.make("dp-hp-adaptive", asked, {}).fit(opened, NullProgress())
    assert QUESTION not in [receipt.query for receipt in opened.receipts]
