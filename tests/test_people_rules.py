"""Rules about people: what they may name, what their table of people is told of them, and what contradicts itself."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from synth.errors import ConfigError
from synth.privacy.people import folded, made_up_hashes
from synth.schema import Schema, config_of_text, config_to_yaml, people_of, people_rules
from synth.schema.contradictions import check_rules, problems_of_rules
from synth.schema.people import PLACES
from synth.schema.rule_lines import read_rules

DECLARED = """
account: visits
unit: {protects: patient, id_column: patient, rows_per_unit: 4, same_in_all_rows: [sex], ordered_by: visited}
row_count: private
people_at_most: 1000
budget: {epsilon: 1}
people: 300
columns:
  patient: {type: identifier}
  sex: {type: category, values: [f, m], fallback: f}
  visited: {type: date, low: 2022-01-01, high: 2022-12-31, step: day, fallback: 2022-01-01}
  ward: {type: category, values: [general, surgery, heart], missing: true}
  cost: {type: number, low: 0, high: 900, step: 10, missing: true}
  left: {type: date, low: 2022-01-01, high: 2022-12-31, step: day, missing: true}
"""
CONFIG = config_of_text(DECLARED)
SCHEMA = CONFIG.schema
PEOPLE = people_of(SCHEMA)


def schema_of(old: str = "", new: str = "") -> Schema:
    assert old in DECLARED
    return config_of_text(DECLARED.replace(old, new, 1)).schema


# What a line says ----------------------------------------------------------------------------------------------------


def broken(line: str, count: int = 3, *, following: dict[str, int] | None = None, **cells: int) -> bool:
    """Say whether a row of these codes, 0 elsewhere, and the next one break a line."""
    codes = {name: np.array([cells.get(name, 0)]) for name in SCHEMA.names}
    codes |= {f"next.{name}": np.array([(following or {}).get(name, 0)]) for name in SCHEMA.names}
    codes["count"] = np.array([count - 1])
    return any(rule.broken(codes)[0] for rule in read_rules([line], SCHEMA).rules)


@pytest.mark.parametrize(
    ("line", "kept", "breaks"),
    [
        ("next.visited - visited <= 30", {"following": {"visited": 30}}, {"following": {"visited": 31}}),
        ("next.visited - visited = 7", {"visited": 3, "following": {"visited": 10}}, {"following": {"visited": 8}}),
        ("next.cost - cost >= 20", {"cost": 1, "following": {"cost": 3}}, {"cost": 1, "following": {"cost": 2}}),
        ("next.cost - cost <= cost", {"cost": 2, "following": {"cost": 4}}, {"cost": 2, "following": {"cost": 5}}),
        ("left - visited <= 30", {"visited": 5, "left": 35}, {"visited": 5, "left": 36}),
        ("next.visited >= left", {"left": 9, "following": {"visited": 9}}, {"left": 9, "following": {"visited": 8}}),
        ("count <= 2", {"count": 2}, {"count": 3}),
        ("if count = 1 then ward != heart", {"count": 2, "ward": 2}, {"count": 1, "ward": 2}),
        (
            "if next.ward = heart and sex = m then cost < 50",
            {"cost": 9},
            {"cost": 9, "sex": 1, "following": {"ward": 2}},
        ),
        ("next.cost is missing exactly when ward = heart", {}, {"following": {"cost": 91}}),
        ("cost is missing exactly when next.ward = heart", {"cost": 91, "following": {"ward": 2}}, {"cost": 91}),
        ("next.ward in (general, heart)", {"following": {"ward": 2}}, {"following": {"ward": 1}}),
        ("next.cost is a multiple of 50", {"following": {"cost": 5}}, {"following": {"cost": 4}}),
        ("ward determines next.ward (heart = surgery)", {"ward": 2, "following": {"ward": 1}}, {"ward": 2}),
        ("next.cost >= cost", {"following": {"cost": 0}}, {"cost": 1}),
    ],
)
def test_a_line_says_what_it_says(line: str, kept: dict[str, object], breaks: dict[str, object]) -> None:
    assert not broken(line, **kept)  # type: ignore[arg-type]
    assert broken(line, **breaks)  # type: ignore[arg-type]


def test_a_difference_is_in_days_also_of_months_in_minutes_of_times_and_in_the_numbers_own_unit() -> None:
    schema = config_of_text(
        "account: a\nunit: {protects: person, rows_per_unit: 1}\nrow_count: private\npeople_at_most: 100\n"
        "budget: {epsilon: 1}\nrows: 9\ncolumns:\n"
        "  first: {type: date, low: 2022-01-01, high: 2022-12-31, step: month, fallback: 2022-01-01}\n"
        "  last: {type: date, low: 2022-01-01, high: 2022-12-31, step: month, fallback: 2022-01-01}\n"
        "  began: {type: time, step: quarter, fallback: 00:00}\n"
        "  ended: {type: time, step: quarter, fallback: 00:00}\n"
        "  net-tax: {type: number, low: 0, high: 9, step: .5, fallback: 0}\n"
        "  tax: {type: number, low: 0, high: 9, step: .5, fallback: 0}\n"
    ).schema
    codes = dict(zip(schema.names, np.arange(10)[None, :] * np.ones((6, 1), dtype=np.int64), strict=True))
    for name in ("first", "began", "tax"):
        codes[name] = np.zeros(10, dtype=np.int64)

    def kept(line: str) -> int:
        (rule,) = read_rules([line], schema).rules
        return int((~rule.broken(codes)).sum())

    assert kept("last - first <= 31") == 2  # January and February
    assert kept("last - first <= 58") == 2
    assert kept("last - first <= 59") == 3
    assert kept("ended - began < 45") == 3
    assert kept("net-tax - tax <= 2") == 5
    assert kept("tax - net-tax >= -2") == 5


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("next.sex = f", "names 'next.sex', but 'sex' is the same in all rows of one patient. Write 'sex'."),
        (
            "gap <= 3",
            "names 'gap', which rules cannot be about. They may name your columns, 'count', the number of rows of a "
            "patient, and 'next.' before a column that may change from row to row.",
        ),
        ("place = only", "names 'place', which rules cannot be about."),
        ("usual.cost >= cost", "names 'usual.cost', which rules cannot be about."),
        ("next.patient = 3", "names 'next.patient', which is not a declared column with values."),
        ("next.count = 3", "names 'next.count', which is not a declared column with values. Did you mean 'next.cost'?"),
        ("counts <= 3", "names 'counts', which is not a declared column with values. Did you mean 'count'?"),
        ("ward determines next.ward", "has no pairs of values, and none are learnt between a row and the next."),
        ("count determines ward", "has no pairs of values"),
        (
            "next.cost is a multiple of 100 in 40 % of rows",
            "is about a share of the rows. Say it of a declared column.",
        ),
        ("if next.visited - visited <= 30 then cost > 5", "has a difference as its condition"),
        ("next.visited - visited != 3", "says what a difference is not"),
        ("next.ward - ward <= 3", "subtracts 'next.ward', which is not a number, a date or a time."),
        ("next.visited - cost <= 3", "compares numbers with dates"),
        ("next.visited - visited <= soon", "'soon' is not a number"),
        ("visited - visited <= 3", "has the same column on both sides"),
    ],
)
def test_what_cannot_be_said_is_refused_with_how_to_mend_it(line: str, sentence: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        check_rules([line], SCHEMA)
    assert f"rules: '{line}' {sentence}" in str(refusal.value)


KEPT_APART = (
    "but rows are not kept together here. Declare an id_column, a rows_per_unit above 1 and ordered_by, without "
    "'people: separate_rows', or leave the rule out."
)


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("next.cost >= cost", "'next.cost', the next row of the same"),
        ("count <= 4", "'count', the number of rows of a"),
    ],
)
def test_rows_that_are_not_kept_together_have_no_next_row(line: str, what: str) -> None:
    apart = schema_of("people: 300", "rows: 300\npeople: separate_rows")
    single = replace(apart, unit=replace(apart.unit, rows_per_unit=1, same_in_all_rows=(), ordered_by=None))
    for schema in (apart, single):
        assert problems_of_rules([line], schema) == (f"rules: '{line}' names {what} patient, {KEPT_APART}",)


def test_without_an_order_there_is_a_number_of_rows_and_no_next_one() -> None:
    schema = schema_of(", ordered_by: visited")
    assert problems_of_rules(["count <= 2", "next.cost > cost"], schema) == (
        "",
        "rules: 'next.cost > cost' names 'next.cost', but nothing says in what order the rows of one patient come. "
        "Declare ordered_by.",
    )


def test_columns_of_a_table_keep_their_names() -> None:
    schema = schema_of(
        "  left:", "  count: {type: number, low: 0, high: 9, step: 1, fallback: 0}\n"
        "  next.cost: {type: number, low: 0, high: 90, step: 10, fallback: 0}\n  left:",
    )  # fmt: skip
    people = people_of(schema)
    assert (people.count, people.next_names["cost"], people.next_names["count"]) == (
        "count_",
        "next.cost_",
        "next.count",
    )
    for line, columns in {
        "count <= 4": ("count",),
        "count_ <= 3": ("count_",),
        "next.cost <= 30": ("next.cost",),
        "next.cost_ >= next.cost": ("next.cost_", "next.cost"),
        "next.count >= count": ("next.count", "count"),
    }.items():
        assert [rule.columns for rule in check_rules([line], schema).rules] == [columns]


def test_a_configuration_with_such_rules_is_written_and_read_back() -> None:
    lines = ("next.visited - visited <= 30", "count <= 3", 'if ward = heart then next.ward in (heart, "general")')
    config = replace(CONFIG, constraints=lines)
    assert config_of_text(config_to_yaml(config)) == config
    assert config.asked.constraints[-3:] == lines


# What the table of people is told ------------------------------------------------------------------------------------


def table_of_people(rows: int, seed: int) -> tuple[NDArray[np.int64], dict[str, NDArray[np.int64]]]:
    """Return the table of people of rows with random codes, by column."""
    random = np.random.default_rng(seed)
    units = np.sort(random.integers(0, rows // 2, rows))
    codes = {column.name: random.integers(0, column.size, rows) for column in SCHEMA.modelled}
    codes["visited"] //= 6
    codes["sex"] = units % 2
    hashes, key = made_up_hashes(units, seed)
    small = {column.name: column.smallest_codes(codes[column.name]) for column in SCHEMA.modelled}
    made = folded(small, hashes, PEOPLE, account_key=key)
    return units, {name: made[name].astype(np.int64) for name in PEOPLE.asked.names}


TOLD = [
    "next.visited - visited <= 30", "visited - next.visited >= -12", "next.visited > visited", "next.visited = visited",
    "next.visited - visited = 7", "visited - next.visited < -3", "if sex = f then next.visited - visited >= 20",
    "if next.ward = heart then next.visited - visited < 9", "count <= 2", "if count >= 3 then ward = heart",
    "next.cost >= cost", "next.cost - cost <= 100", "next.ward in (heart)",
    "if ward = heart then next.ward = heart", "if next.cost < 200 and count > 2 then left is missing",
    "next.cost is missing exactly when ward = heart", "next.cost is missing exactly when next.ward = heart",
    "cost is missing exactly when next.ward = heart", "next.left is not missing", "next.cost is a multiple of 50",
    "if next.cost is missing then sex = m", "if next.left is not missing then next.left >= left",
    "ward determines next.ward (heart = surgery)", "next.ward determines ward (heart = surgery, general = general)",
    "next.cost not in (0, 10, 20)", "next.left >= visited",
]  # fmt: skip


@pytest.mark.parametrize("line", TOLD)
def test_a_row_of_the_table_of_people_keeps_a_rule_exactly_where_its_pair_does(line: str) -> None:
    for seed in (1, 2):
        _, table = table_of_people(3000, seed)
        asked = read_rules([line], PEOPLE.asked).rules
        declared = read_rules([line], SCHEMA).rules
        assert asked
        found = np.any([rule.broken(table) for rule in asked], axis=0)
        there = table["place"] != PLACES.index("only")
        of_pairs = any("next." in name for rule in declared for name in rule.columns)
        cells = table | {"next.visited": table["visited"] + np.where(there, table["gap"], 0)}
        # Where there is no next row, codes of the next row are beyond those of the declared columns.
        pair = {name: np.where(there, codes, 0) if name.startswith("next.") else codes for name, codes in cells.items()}
        by_pair = np.any([rule.broken(pair) for rule in declared], axis=0)
        assert np.array_equal(found, by_pair & there if of_pairs else by_pair)
        assert 0 < found.sum() < len(found)


FAULTS = {
    "a next row that there is none of counts as empty": ("_where_there_is_a_next_row", lambda rule, people: rule.when),
    "a difference is taken the wrong way round": ("MIRROR", {sign: sign for sign in (">=", ">", "<=", "<", "=")}),
    "a gap is not told": ("_gap", lambda then, people: None),
}


@pytest.mark.parametrize("name", FAULTS)
def test_planted_faults_in_what_is_told_are_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(people_rules, *FAULTS[name])
    noticed = []
    for line in TOLD:
        try:
            test_a_row_of_the_table_of_people_keeps_a_rule_exactly_where_its_pair_does(line)
        except AssertionError:
            noticed.append(line)
    assert noticed


@pytest.mark.parametrize(
    "line",
    ["next.visited >= 2022-03-01", "if next.visited > 2022-03-01 then ward = heart", "next.visited >= left",
     "next.visited - left <= 5"],
)  # fmt: skip
def test_what_the_table_of_people_has_no_column_for_is_left_to_the_making_of_people(line: str) -> None:
    assert read_rules([line], SCHEMA).rules
    assert read_rules([line], PEOPLE.asked).rules == ()


def test_gaps_of_months_are_not_days() -> None:
    people = people_of(schema_of("step: day, fallback: 2022-01-01", "step: month, fallback: 2022-01-01"))
    assert read_rules(["next.visited - visited <= 31"], people.asked).rules == ()


# What contradicts itself ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lines", "sentence"),
    [
        (["count <= 0"], "no row can keep 'count <= 0' within the declared columns."),
        (["count <= 9"], "'count <= 9' is always true"),
        (["next.visited < visited"], "'next.visited < visited' and 'ordered_by: visited' contradict each other"),
        (["next.visited - visited <= -1"], "'ordered_by: visited' contradict each other"),
        (
            ["next.visited > visited", "visited - next.visited >= -3", "next.visited - visited >= 5"],
            "contradict each other",
        ),
        (["cost >= 100", "cost is not missing", "next.cost < 100"], "'next.cost < 100' and 'cost >= 100' contradict"),
        (["next.cost > cost", "cost > next.cost"], "contradict each other"),
        (["next.cost - cost >= 20", "next.cost - cost <= 10"], "contradict each other"),
        (
            ["if ward = heart then next.ward = heart", "if next.ward = heart then ward != heart"],
            "no row can meet the condition of 'if ward = heart then next.ward = heart' and keep it while",
        ),
        (
            ["count >= 3", "next.visited - visited >= 200"],
            "no patient with up to 4 rows can keep 'count >= 3' and 'next.visited - visited >= 200' in all of them. "
            "Change or delete one of them, or check rows_per_unit and the bounds of the columns.",
        ),
        (
            ["if count < 3 then sex = f", "if sex = f then count > 2", "next.visited - visited >= 200"],
            "no row can meet the condition",
        ),
    ],
)
def test_rules_that_nobody_can_keep_are_refused_in_one_sentence(lines: list[str], sentence: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        check_rules(lines, SCHEMA)
    assert sentence in str(refusal.value)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    "lines",
    [
        ["next.visited - visited <= 30", "count <= 3"],
        ["count >= 2", "next.visited - visited >= 200"],
        ["count >= 4", "next.visited - visited >= 100", "next.cost - cost >= 300"],
        ["next.visited > visited", "if ward = heart then next.ward = heart", "next.cost - cost = 10"],
        # Of a row that has no next one.
        ["next.visited > visited", "if visited >= 2022-12-31 then ward = heart", "if cost >= 900 then sex = f"],
        ["if count = 1 then ward = heart", "if count > 1 then next.cost >= cost"],
    ],
)
def test_rules_that_somebody_can_keep_are_not(lines: list[str]) -> None:
    assert problems_of_rules(lines, SCHEMA) == ("",) * len(lines)


def test_many_rows_a_person_are_searched_through_in_a_moment() -> None:
    schema = schema_of("rows_per_unit: 4", "rows_per_unit: 1000")
    assert problems_of_rules(["next.visited >= visited", "next.cost >= cost", "count >= 40"], schema) == ("",) * 3
