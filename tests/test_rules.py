"""Rules: what is read, what is refused, and that repaired rows keep them."""

from __future__ import annotations

import datetime

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from synth.errors import ConfigError
from synth.schema import CategoryColumn, DateColumn, DateStep, ModelledColumn, NumberColumn, Schema, rules
from synth.schema.constraints import repair
from synth.schema.rule_lines import read_rules
from synth.schema.rules import values_of

SCHEMA = Schema(
    (
        NumberColumn("a", 0, 10, 0.1),
        NumberColumn("b", 0, 5, 0.5, special=(-1.0,), missing=True),
        NumberColumn("total", 0, 20, 1),
        DateColumn("start", datetime.date(2020, 1, 15), datetime.date(2021, 12, 31), DateStep.MONTH),
        DateColumn("end", datetime.date(2020, 6, 1), datetime.date(2022, 1, 1)),
        CategoryColumn("kind", ("x", "y")),
    )
)
SIZES = SCHEMA.sizes


def rows() -> st.SearchStrategy[np.ndarray]:
    row = st.tuples(*(st.integers(0, size - 1) for size in SIZES))
    return st.lists(row, min_size=1, max_size=20).map(lambda drawn: np.array(drawn, dtype=np.int64))


def value(column: str, codes: np.ndarray) -> np.ndarray:
    """Values by the declared grid alone, as an independent oracle (dates as month or day text)."""
    declared = SCHEMA[column]
    code = codes[:, SCHEMA.names.index(column)]
    if isinstance(declared, NumberColumn):
        table = [declared.low + declared.step * k for k in range(declared.levels)] + list(declared.special)
        return np.array([table[c] if c < len(table) else np.nan for c in code])
    assert isinstance(declared, DateColumn)
    if declared.step is DateStep.DAY:
        return np.array([(declared.low + datetime.timedelta(days=int(c))).toordinal() for c in code])
    months = [declared.low.year * 12 + declared.low.month - 1 + int(c) for c in code]
    return np.array([max(datetime.date(m // 12, m % 12 + 1, 1), declared.low).toordinal() for m in months])


@given(rows())
def test_an_order_between_numbers_is_kept(codes: np.ndarray) -> None:
    after = repair(codes, read_rules(["a >= b"], SCHEMA), SCHEMA).codes
    a, b = value("a", after), value("b", after)
    assert (np.isnan(b) | (a >= b - 1e-9)).all()
    untouched = np.isnan(value("b", codes)) | (value("a", codes) >= value("b", codes) - 1e-9)
    np.testing.assert_array_equal(after[untouched], codes[untouched])


@given(rows())
def test_an_order_between_dates_is_kept_even_where_the_left_grid_ends(codes: np.ndarray) -> None:
    after = repair(codes, read_rules(["end > start"], SCHEMA), SCHEMA).codes
    assert (value("end", after) > value("start", after)).all()
    back = repair(codes, read_rules(["start > end"], SCHEMA), SCHEMA).codes
    assert (value("start", back) > value("end", back)).all()


@given(rows())
def test_a_sum_is_kept_to_the_nearest_place(codes: np.ndarray) -> None:
    after = repair(codes, read_rules(["total = a + b"], SCHEMA), SCHEMA).codes
    wanted = value("a", after) + value("b", after)
    gap = np.abs(value("total", after) - np.clip(wanted, 0, 20))
    assert (np.isnan(wanted) | (gap <= 0.5 + 1e-9)).all()


@given(rows())
def test_constants_are_kept(codes: np.ndarray) -> None:
    after = repair(codes, read_rules(["a < 3", "end <= 2021-01-01"], SCHEMA), SCHEMA).codes
    assert (value("a", after) < 3).all()
    assert (value("end", after) <= datetime.date(2021, 1, 1).toordinal()).all()


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ("a b", "is not a rule"),
        ("c >= a", "names 'c'"),
        ("kind >= a", "has no order"),
        ("a >= start", "numbers with dates"),
        ("a >= a", "same column on both sides"),
        ("a >= zebra", "neither a declared column nor a value"),
        ("end >= 2020", "neither a declared column nor a value"),
        ("end = start + end", "numbers with dates"),
    ],
)
def test_what_is_not_a_rule_is_refused(rule: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read_rules([rule], SCHEMA)


@pytest.mark.parametrize(
    "column",
    [
        NumberColumn("cost", -500, 99_999.5, 0.5, special=(-1.0, 7e6), missing=True),
        DateColumn("day", datetime.date(1700, 1, 1), datetime.date(2100, 1, 1), DateStep.DAY, missing=True),
    ],
    ids=lambda one: one.name,
)
def test_values_of_a_long_column_are_found_without_listing_them(column: ModelledColumn) -> None:
    assert column.size > rules._SHORT
    every, values = column.comparable_values(), values_of(column)
    random = np.random.default_rng(8)
    codes = np.concatenate([np.arange(column.levels - 3, column.size), random.integers(0, column.size, 200)])
    np.testing.assert_array_equal(values[codes], every[codes])
    targets = np.concatenate([every[codes], every[codes] + 0.25, [-np.inf, np.inf, np.nan]])
    for side in ("left", "right"):
        np.testing.assert_array_equal(
            values.place(targets, side), np.searchsorted(every[: column.n_values], targets, side=side)
        )
