"""Rules that no row can keep, and rules that say nothing, are told beforehand, beside the line."""

from __future__ import annotations

import datetime

import pytest

from synth.errors import ConfigError
from synth.schema import CategoryColumn, DateColumn, NumberColumn, Schema
from synth.schema.contradictions import check_rules, problems_of_rules

SCHEMA = Schema(
    (
        NumberColumn("age", 0, 120, 1, missing=True),
        NumberColumn("years", 0, 2**20, 1, missing=True),
        NumberColumn("late", 200, 300, 1, missing=True),
        DateColumn("start", datetime.date(2020, 1, 1), datetime.date(2020, 12, 31)),
        DateColumn("end", datetime.date(2020, 1, 1), datetime.date(2020, 12, 31)),
        CategoryColumn("zone", ("1", "2", "3")),
        CategoryColumn("borough", ("EWR", "Queens"), other=True),
        CategoryColumn("school", ("none", "some", "degree"), ordered=True),
    )
)


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        (["age >= 0"], "'age >= 0' is always true"),
        (["late > age"], "'late > age' is always true"),
        (["if age < 0 then school = none"], "is always true"),
        (["school >= none"], "is always true"),
        (["age > 130"], "no row can keep 'age > 130' within the declared columns"),
        (["age >= late"], "no row can keep 'age >= late'"),
        (["start > end", "end >= start"], "contradict each other"),
        (["age > years", "years >= late"], "'age > years' and 'years >= late' contradict each other"),
        (["years > age", "late > years", "age >= late"], "contradict each other"),
        (["zone = 1", "zone determines borough (1 = EWR)", "borough = Queens"], "contradict each other"),
        (["if age < 15 then school = none", "age >= 18"], "no row can meet the condition of 'if age < 15"),
        (["if zone = 1 then age > 70", "if zone = 1 then age < 60"], "so it would only forbid its own condition"),
        (["school >= some", "school < some"], "contradict each other"),
    ],
)
def test_what_cannot_be_kept_or_says_nothing_is_refused_with_what_to_do(lines: list[str], problem: str) -> None:
    told = [sentence for sentence in problems_of_rules(lines, SCHEMA) if sentence]
    assert len(told) in (1, 2)
    assert problem in told[0]
    assert any(word in told[0] for word in ("Delete", "delete", "Check"))
    with pytest.raises(ConfigError, match="rules: "):
        check_rules(lines, SCHEMA)


def test_rules_that_agree_are_taken() -> None:
    lines = [
        "end >= start",
        "start >= 2020-02-01",
        "if age < 15 then school in (none, some)",
        "if school = degree and zone != 3 then age >= 20",
        "zone determines borough (1 = EWR, 2 = Queens, 3 = other)",
        "years <= age",
        "years is missing exactly when school = none",
    ]
    assert problems_of_rules(lines, SCHEMA) == ("",) * len(lines)
    assert len(check_rules(lines, SCHEMA).rules) == 8


def test_a_line_that_cannot_be_read_leaves_the_others_as_they_are() -> None:
    problems = problems_of_rules(["age and such", "age >= 18", "shool = none"], SCHEMA)
    assert "is not a rule" in problems[0]
    assert problems[1] == ""
    assert problems[2].endswith("Did you mean 'school'?")
