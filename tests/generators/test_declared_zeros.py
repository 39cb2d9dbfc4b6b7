"""What declared rules rule out is known to the model: no question, no noise, and hardly a row to be mended."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from simulated import session, task

from synth import generators
from synth.bundle.recorded_session import RecordedSession
from synth.generators.adaptive.dp_hp_adaptive import DpHpAdaptive
from synth.privacy.bins import Bins
from synth.progress import NullProgress
from synth.schema import CategoryColumn, NumberColumn, Schema, YesNoColumn
from synth.schema.rule_lines import read_rules
from synth.schema.rules import possible_cells

JOBS = ("none", "nurse", "clerk")
WARDS = tuple(f"w{number}" for number in range(6))
SCHEMA = Schema(
    (
        NumberColumn("came", 0, 29, 1),
        NumberColumn("left", 0, 29, 1),
        NumberColumn("age", 0, 99, 1, missing=True),
        CategoryColumn("job", JOBS),
        NumberColumn("pay", 0, 40, 1, special=(99.0,), missing=True),
        NumberColumn("other", 0, 40, 1),
        NumberColumn("sum", 0, 80, 2),
        CategoryColumn("ward", WARDS),
        CategoryColumn("clinic", ("c0", "c1")),
        YesNoColumn("smoker"),
    ),
    row_count="public",
)
RULES = (
    "left >= came",
    "if age < 15 then job = none and pay is missing",
    "sum = pay + other",
    "ward determines clinic (w0 = c0, w1 = c0, w2 = c0, w3 = c1, w4 = c1, w5 = c1)",
    "if job = none then smoker = no",
)


def kept_rows(n_rows: int = 1500) -> dict[str, np.ndarray]:
    """Rows that keep every rule."""
    random = np.random.default_rng(3)
    came, age = random.integers(20, size=n_rows), random.integers(80, size=n_rows)
    job = np.where(age < 15, 0, random.integers(3, size=n_rows))
    pay, other = np.where(age < 15, 42, random.integers(41, size=n_rows)), random.integers(41, size=n_rows)
    ward = random.integers(6, size=n_rows)
    return {
        "came": came,
        "left": came + random.integers(10, size=n_rows),
        "age": age,
        "job": job,
        "pay": pay,
        "other": other,
        "sum": np.where(pay == 42, 7, (pay + other + 1) // 2),
        "ward": ward,
        "clinic": ward // 3,
        "smoker": np.where(job == 0, 0, random.integers(2, size=n_rows)),
    }


CODES = kept_rows()


def broken(rows: np.ndarray) -> np.ndarray:
    table = dict(zip(SCHEMA.names, rows.T, strict=True))
    return np.array([rule.broken(table).sum() for rule in read_rules(RULES, SCHEMA).rules])


def model_of(opened: object, rules: tuple[str, ...] = RULES) -> DpHpAdaptive:
    asked = replace(task(SCHEMA, None), constraints=rules)
    return generators.make("dp-hp-adaptive", asked, {"model": "field"}).fit(opened, NullProgress())  # type: ignore[arg-type, return-value]


@pytest.fixture(scope="module")
def opened() -> dict[str, object]:
    found: dict[str, object] = {}
    for name, rules in (("told", RULES), ("untold", ())):
        asked = session(SCHEMA, CODES, epsilon=2.0)
        found[name] = (asked, model_of(asked, rules))
    return found


@pytest.mark.parametrize("line", RULES)
@pytest.mark.parametrize("coarse", [1, 3, 7])
def test_a_cell_is_possible_where_a_row_can_be(line, coarse):
    """Beside all combinations of codes, one by one."""
    rules = read_rules([line], SCHEMA).rules
    for rule in rules:
        columns = [column for column in SCHEMA.modelled if column.name in rule.columns]
        bins = {column.name: Bins.of_codes(np.arange(column.size) // coarse) for column in columns}
        found = possible_cells([rule], bins)
        every = np.array(list(itertools.product(*(range(column.size) for column in columns)))).T
        rows = dict(zip(bins, every, strict=True))
        truly = np.zeros(found.shape, bool)
        kept = ~rule.broken(rows)
        truly[tuple(bins[name][own[kept]] for name, own in rows.items())] = True
        assert (found | ~truly).all(), "no cell that a row can be in is ruled out"
        assert not truly.all() or coarse > 1
        if "=" not in line or "if" in line or ">=" in line:
            assert (found == truly).all()
        else:
            assert (found != truly).mean() < 0.05, "sums alone may be looked at less closely"


def impossible(made: DpHpAdaptive) -> list[int]:
    """Return how many of 5,000 rows lie, by rule, in bins of which no combination of values keeps it."""
    rows = made.sample(5000, 1)
    of_code = {name: one.grouped(np.arange(one.size)) for name, one in zip(SCHEMA.names, made._bins, strict=True)}
    cells = {name: own[rows[:, d]] for d, (name, own) in enumerate(of_code.items())}
    return [
        int(
            (
                ~possible_cells([rule], {one: of_code[one] for one in rule.columns})[
                    tuple(cells[one] for one in rule.columns)
                ]
            ).sum()
        )
        for rule in read_rules(RULES, SCHEMA).rules
    ]


@pytest.mark.thorough
def test_hardly_a_row_is_where_none_can_be(opened):
    with_zeros, without = (impossible(opened[name][1]) for name in ("told", "untold"))
    assert max(with_zeros) <= 10
    assert sum(without) > 1000


@pytest.mark.thorough
def test_no_question_is_another_one_for_it():
    """The model is, and with it which tables are chosen; what is asked before it is the same, but for an order's."""
    asked = []
    for rules in (RULES[1:], ()):
        opened = session(SCHEMA, CODES, epsilon=2.0)
        model_of(opened, rules)
        asked.append([receipt for answer in opened.answers for receipt in answer.receipts])
    first, second = ([one for one in own if one.query == "one-way tables"] for own in asked)
    assert first
    assert first == second
    spent = [sum(receipt.units for receipt in own) for own in asked]
    assert abs(spent[0] - spent[1]) < 1e-6 * spent[0]


@pytest.mark.thorough
def test_other_rows_and_the_same_answers_make_the_same_model(opened):
    source, made = opened["told"]
    again = model_of(RecordedSession(SCHEMA, source.budget, rows=source.rows, answers=source.answers))
    np.testing.assert_array_equal(again.sample(300, 5), made.sample(300, 5))


@pytest.mark.thorough
def test_rows_that_break_the_rules_change_nothing_of_what_is_known():
    """A private row in a cell that is ruled out is counted where it is asked for, and drawn nowhere."""
    codes = {name: own.copy() for name, own in CODES.items()}
    codes["clinic"][:200] = 1 - codes["clinic"][:200]
    drawn = model_of(session(SCHEMA, codes, epsilon=2.0)).sample(5000, 1)
    line = [rule.text.startswith("ward") for rule in read_rules(RULES, SCHEMA).rules]
    assert broken(drawn)[line].sum() <= 5
