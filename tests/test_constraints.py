"""Rows are repaired until every one keeps every rule; what a line means is worked out by hand in ``rule_making``."""

from __future__ import annotations

import numpy as np
import pytest
from rule_making import Made, cells_of, made_rule, made_schema

from synth.schema import CategoryColumn, NumberColumn, Schema, YesNoColumn, constraints
from synth.schema.constraints import repair, unkept
from synth.schema.contradictions import problems_of_rules
from synth.schema.rule_lines import read_rules
from synth.schema.shares import with_learnt_tables

SCHEMA = Schema(
    (
        NumberColumn("age", 0, 100, 1, missing=True),
        NumberColumn("income", 0, 1000, 10, missing=True),
        CategoryColumn("type", ("child", "adult", "retired")),
        CategoryColumn("marital", ("single", "married", "widowed", "unknown"), missing=True),
        YesNoColumn("works"),
    )
)


def drawn(schema: Schema, rows: int, seed: int) -> np.ndarray:
    random = np.random.default_rng(seed)
    return np.column_stack([random.integers(0, size, rows) for size in schema.sizes]).astype(np.int64)


def usable(made: list[Made], schema: Schema) -> list[Made]:
    """Return the lines that can be kept together."""
    while any(problems := problems_of_rules([one.text for one in made], schema)):
        made = [one for one, problem in zip(made, problems, strict=True) if not problem]
    return made


@pytest.fixture
def moving_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """No row finds a partner to exchange cells with, which test_shares.py is about: cells are moved row by row."""
    monkeypatch.setattr(constraints, "exchanged", lambda codes, *_, **__: codes.copy())


@pytest.mark.four_cases
@pytest.mark.usefixtures("moving_alone")
@pytest.mark.parametrize("seed", range(60))
def test_every_row_keeps_every_rule_after_repair(seed: int) -> None:
    random = np.random.default_rng(seed)
    schema = made_schema(random)
    made = usable([made_rule(random, schema) for _ in range(1 + seed % 9)], schema)
    rules = read_rules([one.text for one in made], schema)
    codes = drawn(schema, 100, seed)
    table = {name: codes[:, place] for place, name in enumerate(schema.names)}
    for line, one in enumerate(made):
        broken = [rule.broken(table) for rule in rules.rules if rule.line == line]
        assert np.any(broken, axis=0).tolist() == [not one.kept(row) for row in cells_of(schema, codes)], one.text
    found = repair(codes, rules, schema, seed=seed)
    assert all(one.kept(row) for row in cells_of(schema, found.codes) for one in made)
    assert not list(unkept(rules, schema, found.codes))
    # A row that broke nothing is as it was drawn, and what becomes of a row depends on no other row.
    kept = np.array([all(one.kept(row) for one in made) for row in cells_of(schema, codes)])
    np.testing.assert_array_equal(found.codes[kept], codes[kept])
    assert found.changed == (~kept).sum()
    np.testing.assert_array_equal(repair(codes[:37], rules, schema, seed=seed).codes, found.codes[:37])


@pytest.mark.usefixtures("moving_alone")
def test_a_category_is_drawn_as_the_model_draws_it_among_rows_that_keep_the_rule() -> None:
    rules = read_rules(["if type = child then marital in (single, unknown)"], SCHEMA)
    model = drawn(SCHEMA, 4_000, 1)
    model[model[:, 2] == 0, 3] = np.where(np.arange((model[:, 2] == 0).sum()) % 10 == 0, 3, 0)
    codes = drawn(SCHEMA, 6_000, 2)
    after = repair(codes, rules, SCHEMA, seed=5, drawn=model).codes
    moved = (codes[:, 2] == 0) & np.isin(codes[:, 3], [1, 2])
    assert np.isin(after[moved, 3], [0, 3]).all()
    assert (after[moved, 3] == 3).mean() == pytest.approx(0.1, abs=0.03)
    np.testing.assert_array_equal(after[~moved], codes[~moved])


def test_a_cell_moves_no_farther_than_it_has_to() -> None:
    rules = read_rules(["if works = no then income <= 200", "age is a multiple of 5"], SCHEMA)
    codes = np.array([[13, 50, 1, 0, 0], [13, 50, 1, 0, 1], [100, 3, 1, 0, 0], [99, 101, 1, 0, 0]])
    after = repair(codes, rules, SCHEMA).codes
    assert after.tolist() == [[15, 20, 1, 0, 0], [15, 50, 1, 0, 1], [100, 3, 1, 0, 0], [100, 101, 1, 0, 0]]


def test_what_is_not_applicable_is_empty_there_and_nowhere_else() -> None:
    rules = read_rules(["income is missing exactly when works = no"], SCHEMA)
    codes = drawn(SCHEMA, 500, 3)
    after = repair(codes, rules, SCHEMA, drawn=drawn(SCHEMA, 1_000, 4)).codes
    np.testing.assert_array_equal(after[:, 1] == SCHEMA.modelled[1].missing_code, after[:, 4] == 0)
    np.testing.assert_array_equal(after[:, [0, 2, 3, 4]], codes[:, [0, 2, 3, 4]])


def test_a_table_that_nobody_declared_is_what_the_model_draws_most_often() -> None:
    model = drawn(SCHEMA, 3_000, 6)
    model[:, 3] = np.where(np.arange(3_000) % 3 == 0, model[:, 3], (model[:, 2] + 1) % 3)
    lines = ["type determines marital", "if type = child then marital = unknown"]
    rules = with_learnt_tables(read_rules(lines, SCHEMA), SCHEMA, model)
    after = repair(drawn(SCHEMA, 400, 7), rules, SCHEMA, drawn=model).codes
    told = after[after[:, 3] != 4]
    # A child is what the other rule says, everybody else what the model says.
    np.testing.assert_array_equal(told[:, 3], np.array([3, 2, 0])[told[:, 2]])
    assert not list(unkept(read_rules(lines, SCHEMA), SCHEMA, after))
    after[np.flatnonzero(after[:, 2] == 1)[:2], 3] = [0, 1]
    (problem,) = unkept(read_rules(lines[:1], SCHEMA), SCHEMA, after)
    assert problem == "'marital' has two values where 'type' has one"


def test_heaped_values_are_a_share_of_the_rows() -> None:
    rules = read_rules(["income is a multiple of 100 in 60 % of rows"], SCHEMA)
    model, codes = drawn(SCHEMA, 10_000, 8), drawn(SCHEMA, 10_000, 9)
    found = repair(codes, rules, SCHEMA, seed=1, drawn=model)
    on_heap = (found.codes[:, 1] % 10 == 0) & (found.codes[:, 1] < 101)
    assert on_heap.mean() == pytest.approx(0.6, abs=0.02)
    assert (np.abs(found.codes[:, 1] - codes[:, 1]) <= 5).all()
    assert (found.changed, found.broken) == (0, (int((found.codes != codes).any(axis=1).sum()),))


def test_the_first_row_that_breaks_a_rule_is_named() -> None:
    rules = read_rules(["age >= 18", "if works = no then income is missing"], SCHEMA)
    codes = repair(drawn(SCHEMA, 50, 10), rules, SCHEMA).codes
    assert not list(unkept(rules, SCHEMA, codes))
    codes[17, 0] = 3
    assert list(unkept(rules, SCHEMA, codes)) == ["row 18 breaks 'age >= 18'"]
