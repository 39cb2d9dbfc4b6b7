"""Columns that are declared to be in order: what is asked of their difference, and rows that lie as far apart."""

from __future__ import annotations

import datetime
import itertools
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from simulated import session, task

from synth import generators
from synth.bundle.recorded_session import RecordedSession
from synth.generators.adaptive.bins import ColumnBins
from synth.generators.adaptive.coarsening import Coarseness, coarsen
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
from synth.generators.one_way_marginals import measure_one_way_marginals
from synth.models.marginals import NoisyMarginal
from synth.progress import NullProgress
from synth.schema import CategoryColumn, DateColumn, DateStep, ModelledColumn, NumberColumn, Schema
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


def model_of(opened: object, rules: Sequence[str] = RULES) -> DpHpAdaptive:
    asked = replace(task(STAYS, None), constraints=tuple(rules))
    return generators.make("dp-hp-adaptive", asked, {}).fit(opened, NullProgress())  # type: ignore[arg-type, return-value]


@pytest.mark.parametrize("line", ["left >= came", "came <= left", "left > came", "came < left"])
def test_a_row_is_counted_where_its_difference_lies(line: str) -> None:
    """Every pair of codes, one by one: of two numbers with other steps, special values and missing ones."""
    (order,) = order_of(SHORT, line)
    assert (order.earlier, order.later) == (0, 1)
    assert order.strict == ("=" not in line)
    question = order.question()
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


@pytest.mark.thorough
def test_a_difference_is_whole_however_long_the_grids_are() -> None:
    columns = (NumberColumn("a", 0, 1_000_000, 1), NumberColumn("b", -5, 1_000_000, 1, missing=True))
    (order,) = order_of(Schema(columns), "b >= a")
    random = np.random.default_rng(1)
    codes = random.integers(0, columns[0].size, 4000)
    other = np.minimum(codes + 5 + random.integers(-9, 9, 4000) ** 5, columns[1].size - 2).clip(0)
    cells = order.question().cells({"a": codes, "b": other}.__getitem__, 4000)
    apart = other - 5 - codes
    counts = order.kept(np.bincount(cells, minlength=order.question().dimension).astype(float))
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
    counted = measure_one_way_marginals(opened, STAYS.modelled, label=None, share=0.5, source="test")
    return coarsen(counted, Coarseness(bins=bins))


def known(codes: dict[str, np.ndarray], columns: Sequence[ModelledColumn]) -> CountedDifferences:
    (order,) = order_of(STAYS, *RULES)
    question = order.question()
    cells = question.cells(codes.__getitem__, len(codes["came"]))
    return CountedDifferences(order, order.kept(np.bincount(cells, minlength=question.dimension).astype(float)), 1.0)


def tables_of(codes: dict[str, np.ndarray], bins: tuple[ColumnBins, ...], *, cells: int) -> list[NoisyMarginal]:
    survey = Survey(session(STAYS, codes), STAYS.modelled, None, "test")
    differences = Differences(survey, read_rules(RULES, STAYS).rules, cells=cells)
    differences.counted = [known(codes, STAYS.modelled)]
    return differences.tables(bins, 20_000.0)


def binned(codes: dict[str, np.ndarray], bins: Sequence[ColumnBins]) -> np.ndarray:
    of_code = [one.grouped(np.arange(one.size)).plain() for one in bins]
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


def test_where_noise_leaves_rows_only_where_the_order_excludes_them_it_says_nothing() -> None:
    codes = stays(2000)
    bins = bins_of(codes, 12)
    table = np.zeros((bins[0].size, bins[1].size))
    table[-1, 0] = 1.0  # everybody came last and left first
    pair, tables = OrderedPair.fitted(known(codes, STAYS.modelled), bins, table, 2000.0)
    assert tables == []
    assert np.isfinite(pair.factors).all()


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
        by_column = dict(enumerate(real.T))
        place_in_order([pair], by_column, rows, random)
        again = pairs_from_state(state_of_pairs([pair]), STAYS.modelled, bins)
        other = drawn.copy()
        place_in_order(again, by_column, other, np.random.default_rng(9))
        third = drawn.copy()
        place_in_order([pair], by_column, third, np.random.default_rng(9))
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


@pytest.mark.thorough
def test_from_rows_to_rows() -> None:
    codes = stays()
    told, plain = (session(STAYS, codes, epsilon=3.0) for _ in range(2))
    made, before = model_of(told), model_of(plain, ())
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


@pytest.mark.thorough
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


# Dates without a declared order

FIRST, LAST = datetime.date(2024, 1, 1), datetime.date(2024, 12, 31)
DATES = Schema(
    (
        DateColumn("came", FIRST, LAST),
        DateColumn("left", datetime.date(2023, 12, 1), datetime.date(2025, 2, 28), missing=True),
        CategoryColumn("kind", ("a", "b", "c")),
    ),
    row_count="public",
)
OF_DATES = "differences of dates"
BEFORE = 31
"""Days that the range of the second date begins before that of the first."""


def dated(apart_by: np.ndarray, seed: int = 5) -> dict[str, np.ndarray]:
    """Dates of a year and others that lie some days behind them; one of twenty is not known."""
    random = np.random.default_rng(seed)
    n_rows = len(apart_by)
    came = random.integers(0, 366, n_rows)
    left = np.clip(came + apart_by + BEFORE, 0, DATES.modelled[1].levels - 1)
    left = np.where(random.random(n_rows) < 0.05, DATES.modelled[1].levels, left)
    return {"came": came, "left": left, "kind": random.integers(0, 3, n_rows)}


def lengths(n_rows: int = 6000) -> np.ndarray:
    return np.minimum(np.random.default_rng(6).geometric(0.2, n_rows) - 1, 29)


def both_ways(n_rows: int = 6000) -> np.ndarray:
    return np.rint(np.random.default_rng(7).normal(3.0, 6.0, n_rows)).astype(int).clip(-31, 31)


def unrelated(n_rows: int = 6000) -> dict[str, np.ndarray]:
    codes, random = dated(lengths(n_rows)), np.random.default_rng(8)
    return codes | {"left": random.permutation(codes["left"])}


def dates_apart(rows: np.ndarray) -> np.ndarray:
    told = rows[:, 1] < DATES.modelled[1].levels
    return np.bincount(np.clip(rows[told, 1] - BEFORE - rows[told, 0], -400, 430) + 400, minlength=831) / told.sum()


def fitted_to_dates(opened: object, declared: Schema = DATES) -> DpHpAdaptive:
    made = generators.make("dp-hp-adaptive", task(declared, None), {})
    return made.fit(opened, NullProgress())  # type: ignore[arg-type, return-value]


def fitted_without(opened: object) -> DpHpAdaptive:
    """Fit to the dates and ask nothing of how far apart they are, as of pairs that noise would hide."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Differences, "_can_tell", lambda self, order: False)
        return fitted_to_dates(opened)


def asked_of(*columns: ModelledColumn, rules: Sequence[str] = (), n_rows: int = 20_000) -> list[tuple[str, ...]]:
    """The pairs that are asked, with a star if no order is declared."""
    declared = Schema(columns, row_count="public")
    codes = {column.name: np.zeros(n_rows, dtype=np.int64) for column in columns}
    survey = Survey(session(declared, codes), columns, None, "test")
    found = Differences(survey, read_rules(rules, declared).rules, cells=1000)._orders
    return [(columns[one.earlier].name, columns[one.later].name, *("*" * one.both)) for one in found]


def of_days(name: str, first: int = 2020, last: int = 2024, **more: object) -> DateColumn:
    return DateColumn(name, datetime.date(first, 1, 1), datetime.date(last, 12, 31), **more)  # type: ignore[arg-type]


@pytest.mark.thorough
@pytest.mark.parametrize("step", DateStep)
def test_a_row_is_counted_where_its_difference_lies_both_ways(step: DateStep) -> None:
    columns = (of_days("a", 2023, 2024, missing=True), of_days("b", 2022, 2025, step=step, missing=True))
    order = Order.between(columns, 0, 1, both=True)
    question = order.question()
    pairs = np.array(list(itertools.product(range(columns[0].size), range(columns[1].size))))
    cells = question.cells({"a": pairs[:, 0], "b": pairs[:, 1]}.__getitem__, len(pairs))
    counts = order.kept(np.bincount(cells, minlength=question.dimension).astype(float))
    apart = columns[1].comparable_values()[pairs[:, 1]] - columns[0].comparable_values()[pairs[:, 0]]
    firsts, lasts = order.bands
    assert (firsts[1:] == lasts[:-1] + 1).all()
    assert firsts[order.n_below] == lasts[order.n_below] == 0
    truly = [int(((apart >= first) & (apart <= last)).sum()) for first, last in zip(firsts, lasts, strict=True)]
    assert counts.tolist() == truly
    assert counts.sum() == np.isfinite(apart).sum()
    # Counted from the other column the same rows are on the other side.
    other = order.turned().question()
    cells = other.cells({"a": pairs[:, 0], "b": pairs[:, 1]}.__getitem__, len(pairs))
    turned = order.turned().kept(np.bincount(cells, minlength=other.dimension).astype(float))
    assert turned.tolist() == counts[::-1].tolist()


def test_which_dates_are_asked() -> None:
    a, b, c, d = (of_days(name) for name in "abcd")
    number, old = NumberColumn("n", 0, 9, 1), of_days("o", 1950, 2019)
    assert asked_of(a, number, b) == [("a", "b", "*")]
    # Ranges that do not overlap have an order that everybody knows.
    assert asked_of(a, old) == []
    assert asked_of(a, of_days("one", 2024, 2024, step=DateStep.YEAR)) == []
    # Declared orders first, the nearest in the schema then, and three at most.
    assert asked_of(a, b, c, d) == [("a", "b", "*"), ("b", "c", "*"), ("c", "d", "*")]
    assert asked_of(a, b, c) == [("a", "b", "*"), ("b", "c", "*"), ("a", "c", "*")]
    assert asked_of(a, b, c, rules=["c >= a"]) == [("a", "c"), ("a", "b", "*"), ("b", "c", "*")]
    # What rules compare is not asked again, nor what two of them settle.
    assert asked_of(a, b, rules=["b > a"]) == [("a", "b")]
    assert asked_of(a, b, c, rules=["b >= a", "c >= b"]) == [("a", "b"), ("b", "c")]
    assert asked_of(a, b, rules=["if a > 2022-01-01 then b >= a"]) == [("a", "b", "*")]
    # Nor what noise would hide.
    assert asked_of(a, b, n_rows=300) == []


@pytest.mark.thorough
@pytest.mark.parametrize("turned", [False, True])
def test_an_order_that_nobody_declared_is_found(turned: bool) -> None:
    codes = dated(-lengths() if turned else lengths())
    opened, plain = (session(DATES, codes, epsilon=3.0) for _ in range(2))
    made, before = fitted_to_dates(opened), fitted_without(plain)
    truly = dates_apart(np.stack(list(codes.values()), axis=1))
    rows = made.sample(6000, 1)
    found, binned_only = dates_apart(rows), dates_apart(before.sample(6000, 1))
    assert distance(truly, found) < 0.06 < 0.2 < distance(truly, binned_only)
    wrong = slice(401, None) if turned else slice(0, 400)
    assert found[wrong].sum() < 0.015 < 0.1 < binned_only[wrong].sum()
    (pair,) = made._pairs
    assert pair.order.both
    # Rows on the wrong side are none that were counted: what their bins leave no other place for.
    side = slice(pair.order.n_below + 1, None) if turned else slice(0, pair.order.n_below)
    assert pair.factors[side].max() < 1e-6
    assert [one.query for one in opened.receipts].count(OF_DATES) == 1
    assert OF_DATES not in [one.query for one in plain.receipts]
    assert opened.remaining_share < 1e-3
    again = DpHpAdaptive.from_state(task(DATES, None), made._options, made.state())
    np.testing.assert_array_equal(again.sample(500, 2), made.sample(500, 2))
    recorded = RecordedSession(DATES, opened.budget, rows=opened.rows, answers=opened.answers)
    other = fitted_to_dates(recorded)
    assert {name: one.tobytes() for name, one in other.state().items()} == {
        name: one.tobytes() for name, one in made.state().items()
    }


@pytest.mark.thorough
def test_dates_that_lie_on_both_sides_are_followed_on_both() -> None:
    codes = dated(both_ways())
    made, before = (fit(session(DATES, codes, epsilon=3.0)) for fit in (fitted_to_dates, fitted_without))
    truly = dates_apart(np.stack(list(codes.values()), axis=1))
    found, binned_only = (dates_apart(one.sample(6000, 1)) for one in (made, before))
    assert distance(truly, found) < 0.05 < 0.1 < distance(truly, binned_only)
    assert found[:400].sum() == pytest.approx(truly[:400].sum(), abs=0.05)


def test_unrelated_dates_are_left_as_they_are() -> None:
    codes = unrelated()
    opened = session(DATES, codes, epsilon=3.0)
    made, before = fitted_to_dates(opened), fitted_without(session(DATES, codes, epsilon=3.0))
    assert OF_DATES in [one.query for one in opened.receipts]
    assert made._pairs == ()
    assert not [name for name in made.state() if name.startswith("pair.")]
    truly = dates_apart(np.stack(list(codes.values()), axis=1))
    found, plain = (distance(truly, dates_apart(one.sample(6000, 1))) for one in (made, before))
    assert found < 0.03
    assert found < plain + 0.015


@pytest.mark.parametrize(("n_rows", "epsilon"), [(30, 1.0), (300, 1.0), (2000, 0.05)])
def test_of_few_rows_or_a_small_budget_nothing_is_asked_of_dates(n_rows: int, epsilon: float) -> None:
    """The same questions, answers and rows as without, and all of the budget is spent."""
    codes = dated(lengths(n_rows))
    opened, plain = (session(DATES, codes, epsilon=epsilon) for _ in range(2))
    made, before = fitted_to_dates(opened), fitted_without(plain)
    assert [one.query for one in opened.receipts] == [one.query for one in plain.receipts]
    np.testing.assert_array_equal(made.sample(200, 1), before.sample(200, 1))
    assert opened.remaining_share < 1e-3


def test_the_least_that_is_asked_spends_its_budget_exactly() -> None:
    codes = dated(lengths(1500))
    opened = session(DATES, codes, epsilon=1.0)
    made = fitted_to_dates(opened)
    units = {one.query: one.units for one in opened.receipts}
    assert units[OF_DATES] / opened.budget.units == pytest.approx(0.03, rel=1e-3)
    assert sum(one.units for one in opened.receipts) <= opened.budget.units
    assert opened.remaining_share < 1e-3
    assert made.sample(100, 1).shape == (100, 3)


def three_dates(n_rows: int = 6000) -> tuple[Schema, dict[str, np.ndarray]]:
    random = np.random.default_rng(9)
    names = ("born", "came", "left")
    declared = Schema(
        tuple(of_days(name, 2000 if name == "born" else 2020, 2024) for name in names), row_count="public"
    )
    came = random.integers(0, 1700, n_rows)
    codes = {"born": random.integers(0, 7000, n_rows), "came": came, "left": came + lengths(n_rows)}
    return declared, codes


@pytest.mark.thorough
def test_of_three_dates_those_are_followed_that_go_together() -> None:
    declared, codes = three_dates()
    made = fitted_to_dates(session(declared, codes, epsilon=3.0), declared)
    assert [(one.order.earlier, one.order.later) for one in made._pairs] == [(1, 2)]


@pytest.mark.thorough
def test_a_value_that_is_settled_is_not_drawn_again() -> None:
    """Of three dates that all go together each of two is drawn given one before it, whichever were asked first."""
    declared, codes = three_dates()
    codes["born"] = 20 * 365 + codes["came"] - 3 * lengths()
    codes["born"] = np.clip(codes["born"], 0, declared.modelled[0].levels - 1)
    made = fitted_to_dates(session(declared, codes, epsilon=3.0), declared)
    assert len(made._pairs) == 2
    settled: set[int] = set()
    for pair in made._pairs:
        assert pair.order.later not in settled
        settled |= {pair.order.earlier, pair.order.later}


def test_pairs_of_earlier_bundles_are_read_as_they_were() -> None:
    (order,) = order_of(STAYS, *RULES)
    bins = bins_of(stays(2000), 8)
    factors = np.ones(len(order.bands[0]))
    for kind, both, strict in ((0, False, False), (1, False, True), (2, True, False)):
        state = {"pair.0.order": np.array([0, 1, kind], dtype=np.int64), "pair.0.factors": factors}
        (pair,) = pairs_from_state(state, STAYS.modelled, bins)
        assert (pair.order.both, pair.order.strict) == (both, strict)
        again = state_of_pairs([pair])
        assert again["pair.0.order"].tolist() == [0, 1, kind]
        assert again["pair.0.order"].dtype == np.int64
