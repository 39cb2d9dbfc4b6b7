"""Rules about columns of millions of values: repaired and checked by the rows at hand, as short ones are."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Mapping

import numpy as np
import pytest

from synth.privacy.bins import Bins
from synth.schema import CategoryColumn, NumberColumn, Schema, constraints, contradictions, rule_lines
from synth.schema.coded_conditions import holds
from synth.schema.conditions import condition
from synth.schema.constraints import repair, unkept
from synth.schema.contradictions import problems_of_rules
from synth.schema.rule_lines import read_rules
from synth.schema.rules import Determined, codes_in, possible_cells
from synth.schema.shares import with_learnt_tables

TOP = 2**23 - 2
SCHEMA = Schema(
    (
        NumberColumn("a", 0, TOP, 1, missing=True),
        NumberColumn("b", 0, TOP, 1, missing=True),
        CategoryColumn("kind", tuple("pqr")),
    )
)


def drawn(seed: int) -> np.ndarray:
    random = np.random.default_rng(seed)
    return np.stack([random.integers(0, column.size, 500) for column in SCHEMA.modelled], axis=1)


@pytest.mark.four_cases
@pytest.mark.parametrize(
    "lines",
    [
        ("if a > 1000000 then b > 900000", "if kind = p then b >= a"),
        ("if kind = p then a is missing",),
        ("a determines kind",),
        ("a determines kind", "if a > 1000 then kind in (p, q)"),
        ("a determines kind (5 = p, 7 = q)",),
        ("kind determines a", "a is not missing"),
        ("a determines b",),
        ("b = a + a",),
        ("a is a multiple of 2",),
        ("if a is a multiple of 3 then b >= a", "b is a multiple of 7"),
    ],
)
def test_rules_about_long_columns_take_the_memory_of_the_rows(lines: tuple[str, ...]) -> None:
    rows = drawn(1)
    tracemalloc.start()
    try:
        assert problems_of_rules(lines, SCHEMA) == ("",) * len(lines)
        rules = read_rules(lines, SCHEMA)
        mended = repair(rows, with_learnt_tables(rules, SCHEMA, rows), SCHEMA, drawn=rows)
        assert list(unkept(rules, SCHEMA, mended.codes)) == []
        assert tracemalloc.get_traced_memory()[1] < 2 * TOP
    finally:
        tracemalloc.stop()


SHORT = Schema(
    (
        NumberColumn("a", 0, 500, 1, missing=True),
        NumberColumn("b", -3, 900, 0.5, special=(2000.0,), missing=True),
        NumberColumn("c", 0, 40, 1),
        CategoryColumn("kind", tuple("pqr"), missing=True),
    )
)


@pytest.mark.four_cases
@pytest.mark.parametrize(
    "lines",
    [
        ("a is a multiple of 5", "b >= a", "c = 3"),
        ("if a is a multiple of 3 then b is a multiple of 2",),
        ("if a is a multiple of 4 then kind = p", "kind = q"),
        ("a is a multiple of 1",),
        ("b is a multiple of 400",),
        ("b is a multiple of 0.3", "a is a multiple of 6", "b = a + c"),
        ("a is a multiple of 501",),
        ("a is a multiple of 7 in 30 % of rows",),
        ("if a is a multiple of 3 then a is a multiple of 9",),
        ("kind = q", "if kind = q then a is a multiple of 2", "a is a multiple of 3"),
        ("a is a multiple of 7", "a is a multiple of 11", "a >= 1"),
        ("a is missing exactly when c is a multiple of 2",),
    ],
)
def test_very_many_multiples_mean_what_listed_ones_mean(
    lines: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    random = np.random.default_rng(3)
    rows = np.stack([random.integers(0, column.size, 1500) for column in SHORT.modelled], axis=1)
    bins = {column.name: Bins.of_codes(np.arange(column.size) // 3) for column in SHORT.modelled[:2]}
    found = []
    for limit in (2**16, 2):
        monkeypatch.setattr(rule_lines, "_MOST_SINGLE", limit)
        contradictions._problems.cache_clear()
        rules = read_rules(lines, SHORT)
        mended = repair(rows, rules, SHORT, drawn=rows)
        alone = [rule for rule in rules.rules if set(rule.columns) <= set(bins)]
        found.append(
            (problems_of_rules(lines, SHORT), mended, list(unkept(rules, SHORT, rows)), possible_cells(alone, bins))
        )
    contradictions._problems.cache_clear()
    (problems, listed, broken, cells), (others, compact, also, same) = found
    assert (problems, broken, listed.broken) == (others, also, compact.broken)
    np.testing.assert_array_equal(listed.codes, compact.codes)
    np.testing.assert_array_equal(cells, same)


def whole(pairs: Mapping[int, int], other: int, size: int) -> np.ndarray:
    found = np.full(size, other)
    for code, value in pairs.items():
        found[code] = value
    return found


@pytest.mark.parametrize("other", [-1, 2])
@pytest.mark.parametrize("pairs", [{}, {3: 1}, {0: 4, 9: 0, 5: -1}])
def test_what_a_column_determines_is_that_of_a_whole_table(pairs: dict[int, int], other: int) -> None:
    found = Determined.of(pairs, other)
    np.testing.assert_array_equal(found[np.arange(10)], whole(pairs, other, 10))
    assert found.is_empty == bool((whole(pairs, other, 10) < 0).all())


@pytest.mark.parametrize("times", [[1, 3, 0, 2], [5], [0, 0, 1, 7, 1]])
def test_single_codes_are_drawn_as_by_cumulated_chances_of_all(times: list[int]) -> None:
    held = np.flatnonzero(times)
    runs = constraints._Runs(held, np.cumsum(np.array(times)[held]), single=True)
    chances = np.cumsum(times) / sum(times)
    drawn = np.unique(np.concatenate([around(chances), np.random.default_rng(1).random(500)]))
    np.testing.assert_array_equal(runs.at(drawn), np.searchsorted(chances, drawn, side="right"))


@pytest.mark.parametrize("spans", [[[0, 7]], [[3, 4], [6, 9], [20, 31]], [[5, 6]], [[2, 1_000_003]]])
def test_runs_of_codes_are_drawn_as_by_cumulated_chances_of_all(spans: list[list[int]]) -> None:
    of = np.array(spans)
    runs = constraints._Runs(of[:, 0], np.cumsum(of[:, 1] - of[:, 0]), single=False)
    allowed = np.zeros(of.max())
    allowed[codes_in(of)] = 1.0
    chances = np.cumsum(allowed) / allowed.sum()
    drawn = np.unique(np.concatenate([around(chances), np.random.default_rng(1).random(500)]))
    np.testing.assert_array_equal(runs.at(drawn), np.searchsorted(chances, drawn, side="right"))


def around(chances: np.ndarray) -> np.ndarray:
    """Chances, and what lies nearest to them in floating point, from 0 to below 1."""
    found = np.concatenate([[0.0], np.nextafter(chances, 0), chances, np.nextafter(chances, 1)])
    return found[(found >= 0) & (found < 1)]


CONDITIONS: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "a > 1000000": lambda a, b: a > 1_000_000,
    "a = 5": lambda a, b: a == 5,
    "a IN (1, 2, 3)": lambda a, b: np.isin(a, [1, 2, 3]),
    "a BETWEEN 5 AND 2000000": lambda a, b: (a >= 5) & (a <= 2_000_000),
    "a < b": lambda a, b: a < b,
}


@pytest.mark.parametrize("text", CONDITIONS)
def test_conditions_on_coded_rows_look_at_their_values_alone(text: str) -> None:
    rows = drawn(2)
    rows[:5, 0], rows[:3, 1] = [1, 2, 5, 7, TOP + 1], [9, 1, TOP + 1]
    columns = {column.name: column for column in SCHEMA.modelled}
    tracemalloc.start()
    try:
        yes, no = holds(condition(text), columns, dict(zip(SCHEMA.names, rows.T, strict=True)))
        assert tracemalloc.get_traced_memory()[1] < 2 * TOP
    finally:
        tracemalloc.stop()
    known = (rows[:, 0] <= TOP) & ((rows[:, 1] <= TOP) | ("b" not in text))
    np.testing.assert_array_equal(yes, known & CONDITIONS[text](rows[:, 0], rows[:, 1]))
    np.testing.assert_array_equal(no, known & ~yes)
