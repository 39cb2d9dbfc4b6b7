"""Rules about the number of rows and about a row and the next are kept by everybody who is made, whatever was drawn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from people_rules_by_hand import RULES, broken_by_hand, rows_of

from synth.generators import whole_people
from synth.generators.whole_people import MadePeople, broken_structure, unfolded
from synth.schema import Schema, config_of_text, people_of
from synth.schema.constraints import repair, unkept
from synth.schema.contradictions import problems_of_rules
from synth.schema.kept_by_people import RulesOfPeople
from synth.schema.people import People
from synth.schema.rule_lines import read_rules

DECLARED = """
account: visits
unit: {protects: patient, id_column: patient, rows_per_unit: 5, same_in_all_rows: [sex], ordered_by: visited}
row_count: private
people_at_most: 1000
budget: {epsilon: 1}
people: 300
columns:
  patient: {type: identifier}
  sex: {type: category, values: [f, m], fallback: f}
  visited: {type: date, low: 2022-01-01, high: 2022-12-31, step: day, missing: true}
  left: {type: date, low: 2022-01-01, high: 2022-12-31, step: day, fallback: 2022-01-01}
  ward: {type: category, values: [general, surgery, heart], fallback: general}
  cost: {type: number, low: 0, high: 900, step: 10, special: [-1], fallback: 0}
"""
SCHEMA = config_of_text(DECLARED).schema
BY_MONTH = config_of_text(DECLARED.replace("step: day, missing: true", "step: month, fallback: 2022-01-01")).schema

Drawn = Callable[[int, int], NDArray[np.int64]]


def anything(people: People, rows: int, seed: int) -> NDArray[np.int64]:
    """Return rows of people that no model would draw: every code with the same chance, whatever the others are."""
    random = np.random.default_rng(seed)
    return np.column_stack([random.integers(0, size, rows) for size in people.asked.sizes])


def made(
    rules: Sequence[str], seed: int, *, schema: Schema = SCHEMA, pool: int = 300, rows: int | None = None
) -> MadePeople:
    """Return people made of rows that were drawn at random and repaired, as a run repairs them."""
    people = people_of(schema)
    asked = read_rules(rules, people.asked)
    drawn, others = (
        repair(codes, asked, people.asked, seed=seed).codes
        for codes in (anything(people, 100 if rows is None else rows, seed), anything(people, pool, seed + 1))
    )
    declared = RulesOfPeople(read_rules(rules, schema), people)
    return unfolded(drawn, others, people, rows=rows, seed=seed, rules=declared)


def require_kept(found: MadePeople, rules: Sequence[str], schema: Schema = SCHEMA) -> None:
    """Require that everybody keeps every rule, by hand, and that the structure is kept too."""
    assert broken_by_hand(rows_of(found.codes, found.units, schema), rules) == {}
    assert list(broken_structure(found.codes, found.units, people_of(schema))) == []
    assert ((found.codes >= 0) & (found.codes < np.array(schema.sizes))).all()
    assert list(unkept(read_rules(rules, schema), schema, found.codes, found.units)) == []


def declarations(seed: int, how_many: int) -> list[list[str]]:
    """Draw sets of rules that can be kept together."""
    random = np.random.default_rng(seed)
    found: list[list[str]] = []
    while len(found) < how_many:
        rules = [str(rule) for rule in random.choice(list(RULES), random.integers(1, 5), replace=False)]
        if not any(problems_of_rules(rules, SCHEMA)) and not any(problems_of_rules(rules, BY_MONTH)):
            found.append(rules)
    return found


@pytest.mark.parametrize("seed", [1, 2, pytest.param(range(3, 40), marks=pytest.mark.thorough)])
def test_everybody_keeps_drawn_rules(seed: int | range) -> None:
    for one in [seed] if isinstance(seed, int) else seed:
        for number, rules in enumerate(declarations(one, 5)):
            schema = BY_MONTH if number == 4 and "missing" not in " ".join(rules) else SCHEMA
            found = made(rules, 100 * one + number, schema=schema, pool=60 * number)
            require_kept(found, rules, schema)
            assert found.units[-1] == 99, "nobody is lost"


def test_people_for_whom_no_further_row_is_found_have_fewer_rows_and_others_make_up_the_number() -> None:
    rules = ["next.visited - visited >= 100", "next.left >= left"]
    found = made(rules, 5)
    assert 0 < found.shortened < 100
    assert found.replaced == 0
    asked = made(rules, 5, rows=400)
    require_kept(asked, rules)
    assert len(asked.codes) - np.count_nonzero(asked.units == asked.units[-1]) < 400 <= len(asked.codes)
    assert np.array_equal(np.unique(asked.units), np.arange(asked.units[-1] + 1))


def test_who_breaks_a_rule_about_the_number_of_rows_becomes_another_who_keeps_all() -> None:
    rules = ["next.visited - visited >= 100", "if count <= 2 then ward = general"]
    found = made(rules, 6)
    require_kept(found, rules)
    assert found.replaced > 0
    rows = [tuple(map(tuple, found.codes[found.units == unit])) for unit in range(100)]
    assert 100 - len(set(rows)) >= found.replaced // 2


def test_where_nobody_is_found_a_public_person_is() -> None:
    """No year has three days with half a year between them of which one is the hundredth."""
    people = people_of(SCHEMA)
    rules = ["count >= 3", "next.visited - visited >= 182", "next.visited is not missing", "visited is not missing"]
    drawn = anything(people, 40, 1)
    drawn[:, people.asked.names.index("visited")] = 100
    drawn[:, people.asked.names.index("count")] = 2
    drawn[:, people.asked.names.index("place")] = 2
    found = unfolded(
        drawn, drawn[:0], people, rows=None, seed=1, rules=RulesOfPeople(read_rules(rules, SCHEMA), people)
    )
    assert list(unkept(read_rules(rules, SCHEMA), SCHEMA, found.codes, found.units)) == []
    assert found.replaced == 40
    assert found.codes[:, SCHEMA.names.index("visited")].tolist() == [0, 182, 364] * 40


def test_a_repeated_row_that_breaks_a_rule_is_moved_on() -> None:
    """With an empty pool every further row is a repeated one."""
    found = made(["next.visited > visited"], 3, pool=0)
    require_kept(found, ["next.visited > visited"])
    days = found.codes[:, SCHEMA.names.index("visited")]
    pairs = (np.diff(found.units) == 0) & (days[1:] < 365) & (days[:-1] < 365)
    assert np.median(np.diff(days)[pairs]) == 1
    assert found.shortened < 5


def test_without_such_rules_nothing_is_drawn_differently() -> None:
    people = people_of(SCHEMA)
    drawn, pool = anything(people, 80, 1), anything(people, 300, 2)
    plain = unfolded(drawn, pool, people, rows=None, seed=1)
    always = RulesOfPeople(read_rules(["count <= 5", "cost >= -1"], SCHEMA), people)
    told = unfolded(drawn, pool, people, rows=None, seed=1, rules=always)
    assert np.array_equal(plain.codes, told.codes)
    assert np.array_equal(plain.units, told.units)


# Planted faults ------------------------------------------------------------------------------------------------------

_right = RulesOfPeople.kept


def _one_side(keeps: str) -> Callable[..., Any]:
    def kept(self: RulesOfPeople, rows: Any, before: Any, following: Any, count: Any) -> Any:
        sides = {"before": before, "following": following}
        sides[keeps] = None
        return _right(self, rows, sides["before"], sides["following"], count)

    return kept


def _ignored(patch: pytest.MonkeyPatch, side: str) -> None:
    patch.setattr(RulesOfPeople, "kept", _one_side(side))
    patch.setattr(RulesOfPeople, "kept_by_people", lambda self, codes, units: np.ones(units[-1] + 1, dtype=bool))


def _onwards(patch: pytest.MonkeyPatch) -> None:
    _ignored(patch, "before")


def _backwards(patch: pytest.MonkeyPatch) -> None:
    _ignored(patch, "following")


def _repeated(patch: pytest.MonkeyPatch) -> None:
    nobody = lambda self, rows, open_, drawn, *, onwards: np.zeros(len(rows), dtype=bool)  # noqa: E731
    patch.setattr(whole_people._Making, "_mend", nobody)
    patch.setattr(RulesOfPeople, "kept_by_people", lambda self, codes, units: np.ones(units[-1] + 1, dtype=bool))


def _number_of_rows(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(RulesOfPeople, "kept_by_people", lambda self, codes, units: np.ones(units[-1] + 1, dtype=bool))


def _order(patch: pytest.MonkeyPatch) -> None:
    everywhere = lambda self, new, rows, *, onwards: np.ones(len(rows), dtype=bool)  # noqa: E731
    patch.setattr(whole_people._Making, "_is_in_order", everywhere)
    patch.setattr("synth.schema.kept_by_people.in_order", lambda people: read_rules(["cost >= -1"], SCHEMA).rules[0])


FAULTS: dict[str, tuple[Callable[[pytest.MonkeyPatch], None], list[str], int]] = {
    "a rule is ignored behind a row": (_onwards, ["next.cost >= cost"], 300),
    "a rule is ignored before a row": (_backwards, ["next.cost >= cost"], 300),
    "a repeated row breaks a rule": (_repeated, ["next.visited > visited"], 0),
    "a rule about the number of rows is ignored where people have fewer": (
        _number_of_rows,
        ["next.visited - visited >= 100", "if count <= 2 then ward = general"],
        300,
    ),
    "a moved row is out of order": (_order, ["next.visited is missing exactly when ward = heart"], 300),
}


def _of_seeds(rules: list[str], pool: int) -> list[MadePeople]:
    return [made(rules, seed, pool=pool) for seed in range(3)]


@pytest.mark.parametrize("name", FAULTS)
def test_planted_faults_are_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plant, rules, pool = FAULTS[name]
    for one in _of_seeds(rules, pool):
        require_kept(one, rules)
    plant(monkeypatch)
    broken = [broken_by_hand(rows_of(one.codes, one.units, SCHEMA), rules) for one in _of_seeds(rules, pool)]
    disordered = [list(broken_structure(one.codes, one.units, people_of(SCHEMA))) for one in _of_seeds(rules, pool)]
    assert any(broken) or any(disordered), "the fault is noticed"
