"""Rows that break a rule exchange cells: columns keep their codes, and no rule is broken more often."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray
from rule_making import cells_of, made_rule, made_schema
from test_constraints import drawn, usable

from synth.schema import CategoryColumn, NumberColumn, Schema, YesNoColumn, constraints, shares
from synth.schema.constraints import repair
from synth.schema.rule_lines import RuleSet, read_rules
from synth.schema.shares import exchanged, with_learnt_tables

SCHEMA = Schema(
    (
        NumberColumn("age", 0, 99, 1),
        NumberColumn("income", 0, 1000, 10, missing=True),
        CategoryColumn("job", ("none", "office", "care")),
        CategoryColumn("region", ("north", "south")),
        YesNoColumn("pregnant"),
    )
)
LINES = (
    "if age < 15 then job = none and income is missing",
    "income is missing exactly when job = none",
    "if age > 60 then pregnant = no",
)


def noisy_rows(n_rows: int, seed: int) -> NDArray[np.int64]:
    """Draw rows that keep the rules but for a tenth of them, whose age, job and income come from other rows."""
    random = np.random.default_rng(seed)
    age = random.integers(0, 100, n_rows)
    job = np.where((age < 15) | (random.random(n_rows) < 0.3), 0, random.integers(1, 3, n_rows))
    income = np.where(job == 0, 101, np.minimum(age + random.integers(0, 10, n_rows), 100))
    region = (random.random(n_rows) < 0.2 + 0.6 * (job == 2)).astype(int)
    pregnant = ((age <= 60) & (random.random(n_rows) < 0.1)).astype(int)
    rows = np.column_stack([age, income, job, region, pregnant]).astype(np.int64)
    for column in (0, 1, 2, 4):
        some = np.flatnonzero(random.random(n_rows) < 0.1)
        rows[some, column] = rows[random.permutation(some), column]
    return rows


def broken(rows: NDArray[np.int64], rules: RuleSet, schema: Schema) -> list[int]:
    table = {name: rows[:, place] for place, name in enumerate(schema.names)}
    return [int(rule.broken(table).sum()) for rule in rules.rules]


def as_counted(rows: NDArray[np.int64]) -> list[list[int]]:
    return np.sort(rows, axis=0).T.tolist()


def test_columns_keep_their_codes_and_nearly_all_rows_are_mended() -> None:
    rules = read_rules(LINES, SCHEMA)
    rows = noisy_rows(5_000, 3)
    found = exchanged(rows, rules.rules, SCHEMA, seed=1)
    assert as_counted(found) == as_counted(rows)
    assert min(broken(rows, rules, SCHEMA)) > 20
    assert sum(broken(found, rules, SCHEMA)) <= 0.01 * sum(broken(rows, rules, SCHEMA))
    np.testing.assert_array_equal(found, exchanged(rows, rules.rules, SCHEMA, seed=1))


def test_moving_alone_makes_more_empty_cells_than_were_drawn_and_exchanging_does_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rules = read_rules(LINES, SCHEMA)
    rows = noisy_rows(5_000, 4)
    kept = repair(rows, rules, SCHEMA, seed=1).codes
    monkeypatch.setattr(constraints, "exchanged", lambda codes, *_, **__: codes.copy())
    moved = repair(rows, rules, SCHEMA, seed=1).codes
    empty = [int((each[:, 1] == 101).sum()) for each in (rows, moved, kept)]
    assert abs(empty[2] - empty[0]) <= 0.1 * abs(empty[1] - empty[0])
    assert broken(kept, rules, SCHEMA) == [0] * len(rules.rules)


def test_what_goes_together_stays_together() -> None:
    """Partners are alike in what a column goes with: with any at all, part of it would be lost."""
    rules = read_rules(["if age < 25 then job != office"], SCHEMA)
    random = np.random.default_rng(50)
    rows = noisy_rows(4_000, 5)
    rows[:, 2] = random.integers(0, 3, 4_000)
    rows[:, 3] = rows[:, 2] == 2
    alike = exchanged(rows, rules.rules, SCHEMA, seed=1)
    assert (alike[:, 2] != rows[:, 2]).sum() > 300
    assert (alike[:, 3] == (alike[:, 2] == 2)).mean() > 0.99


@pytest.mark.four_cases
@pytest.mark.parametrize("seed", range(40))
def test_no_rule_is_broken_more_often_and_every_rule_is_kept_in_the_end(seed: int) -> None:
    random = np.random.default_rng(seed)
    schema = made_schema(random)
    made = usable([made_rule(random, schema) for _ in range(1 + seed % 9)], schema)
    rules = read_rules([one.text for one in made], schema)
    rows = drawn(schema, 100, seed)
    found = exchanged(rows, rules.rules, schema, seed=seed)
    assert as_counted(found) == as_counted(rows)
    assert sum(broken(found, _single(rules), schema)) <= sum(broken(rows, _single(rules), schema))
    kept = repair(rows, rules, schema, seed=seed).codes
    assert all(one.kept(row) for row in cells_of(schema, kept) for one in made)


def test_a_partner_that_is_not_looked_at_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A planted fault: where nobody asks what becomes of the other row, the trouble changes hands and stays."""

    def any_partner(_own: object, _rules: object, rows: Sequence[int], *_more: object) -> NDArray[np.bool_]:
        return np.ones(len(rows), bool)

    rules = read_rules(["if age < 15 then income is missing"], SCHEMA)
    rows = noisy_rows(3_000, 6)
    sound = exchanged(rows, rules.rules, SCHEMA, seed=1)
    with monkeypatch.context() as planted:
        planted.setattr(shares._Exchange, "_unharmed", any_partner)
        planted.setattr(shares, "_TURNS", 1)
        faulty = exchanged(rows, rules.rules, SCHEMA, seed=1)
    before = broken(rows, rules, SCHEMA)[0]
    assert broken(sound, rules, SCHEMA)[0] == 0
    assert broken(faulty, rules, SCHEMA)[0] > 0.02 * before


def test_a_learnt_table_keeps_the_shares_of_a_column_that_the_model_knows_nothing_of() -> None:
    schema = Schema((CategoryColumn("zone", tuple("abcdefgh")), CategoryColumn("town", tuple("wxyz"))))
    random = np.random.default_rng(7)
    zones = random.choice(8, 20_000, p=[0.3, 0.2, 0.12, 0.1, 0.1, 0.08, 0.06, 0.04])
    towns = random.choice(4, 20_000, p=[0.4, 0.3, 0.2, 0.1])
    rows = np.column_stack([zones, towns]).astype(np.int64)
    rules = read_rules(["zone determines town"], schema)

    learnt = with_learnt_tables(rules, schema, rows)
    found = np.bincount(repair(rows, learnt, schema).codes[:, 1], minlength=4) / len(rows)
    assert np.abs(found - [0.4, 0.3, 0.2, 0.1]).max() < 0.05


def test_a_learnt_table_believes_a_model_that_knows_it() -> None:
    schema = Schema((CategoryColumn("zone", tuple("abcdefgh")), CategoryColumn("town", tuple("wxyz"))))
    random = np.random.default_rng(8)
    zones = random.integers(0, 8, 5_000)
    towns = np.where(random.random(5_000) < 0.8, zones % 4, random.integers(0, 4, 5_000))
    rules = read_rules(["zone determines town"], schema)
    learnt = with_learnt_tables(rules, schema, np.column_stack([zones, towns]).astype(np.int64))
    assert learnt.learnt[0].wanted[np.arange(8)].tolist() == [0, 1, 2, 3, 0, 1, 2, 3]


def _single(rules: RuleSet) -> RuleSet:
    about = [rule for rule in rules.rules if len(rule.columns) > 1 and shares._is_about_single_cells(rule)]
    return RuleSet(rules.lines, tuple(about))
