"""The language of rules: what is read, what is refused and with which sentence."""

from __future__ import annotations

import datetime
from pathlib import Path

import numpy as np
import pytest

from synth.errors import ConfigError
from synth.schema import CategoryColumn, DateColumn, NumberColumn, Schema, YesNoColumn
from synth.schema.rule_lines import read_rules, with_tables
from synth.schema.rules import quoted

SCHEMA = Schema(
    (
        NumberColumn("age", 0, 120, 1, special=(999.0,), missing=True),
        NumberColumn("net and gross", 0, 10, 0.5),
        DateColumn("day", datetime.date(2020, 1, 1), datetime.date(2020, 12, 31)),
        CategoryColumn("zone", ("1", "2", "a, b", "if"), missing=True),
        CategoryColumn("borough", ("EWR", "Queens"), other=True),
        YesNoColumn("works"),
    )
)


def broken(line: str, **cells: int) -> bool:
    """Say whether a row of these codes, 0 elsewhere, breaks a line."""
    rows = {column.name: np.array([cells.get(column.name.split()[0], 0)]) for column in SCHEMA.modelled}
    return any(rule.broken(rows)[0] for rule in read_rules([line], SCHEMA).rules)


@pytest.mark.parametrize(
    ("line", "keeps", "breaks"),
    [
        ("if age < 15 then zone is missing", {"age": 15}, {"age": 14}),
        ("IF age < 15 AND works = yes THEN zone IS EMPTY", {"age": 3}, {"age": 3, "works": 1}),
        ("if day >= 2020-02-01 then works = yes", {"day": 30}, {"day": 31}),
        ('zone in (1, "a, b")', {"zone": 2}, {"zone": 1}),
        ('zone = "if"', {"zone": 3}, {"zone": 2}),
        ('"net and gross" is a multiple of 2', {"net": 4}, {"net": 5}),
        ("net and gross >= 2.5", {"net": 5}, {"net": 4}),
        ('if "net and gross" > 2 then age >= "net and gross"', {"net": 6, "age": 3}, {"net": 6, "age": 2}),
        ('zone determines borough (1 = EWR, "a, b" = other)', {"zone": 2, "borough": 2}, {"borough": 1}),
        ("age in (0, 18, 999)", {"age": 121}, {"age": 120}),
        ("age != 0", {"age": 1}, {"age": 0}),
        ("age is not missing", {"age": 1}, {"age": 122}),
        ("zone is missing exactly when works = no", {"zone": 4}, {"zone": 0}),
        ("zone is missing exactly when works = no", {"works": 1}, {"works": 1, "zone": 4}),
    ],
)
def test_a_line_says_what_it_says(line: str, keeps: dict[str, int], breaks: dict[str, int]) -> None:
    assert not broken(line, **keeps)
    assert broken(line, **breaks)


def test_an_empty_cell_meets_no_condition_and_breaks_no_conclusion() -> None:
    assert not broken("if age < 15 then works = yes", age=122)
    assert not broken("if works = no then age > 100", age=122)
    assert not broken("zone in (1, 2)", zone=4)


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("if age < 15 then income is missing", "names 'income', which is not a declared column"),
        ("if agee < 15 then works = yes", "Did you mean 'age'?"),
        ("if age < 15 works = yes", "names 'if age'"),
        ("if works < yes then age > 3", "which has no order"),
        ("works is missing", "is about empty cells, but 'works' has none. Tick Empty, or declare 'missing: true'"),
        ("zone = 7", "'7' is not a declared value of 'zone'. It has: 1, 2, a, b, if."),
        ("age in (17.5)", "'17.5' is not one of the values of 'age'"),
        ("zone in 1, 2", "needs its values in parentheses"),
        ("zone in ()", "lists no value"),
        ("zone determines zone", "same column on both sides"),
        ("zone determines borough (1, 2)", "needs pairs of values"),
        ("zone determines borough by zones.csv", "names a file"),
        ("zone in (1) exactly when age > 3", "uses 'exactly when' for something other"),
        ("zone is a multiple of 3", "has no order"),
        ("day is a multiple of 3", "needs a number"),
        ("age is a multiple of 0", "above 0"),
        ("age is a multiple of x", "'x' is not a number"),
        ("zone in (1) in 5 % of rows", "about rounded numbers or dates"),
        ("age is missing in 5 % of rows", "names values that 'age' cannot have"),
    ],
)
def test_what_cannot_be_read_is_refused_with_how_to_mend_it(line: str, sentence: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        read_rules([line], SCHEMA)
    assert sentence in str(refusal.value)


def test_a_rule_about_more_values_than_rules_are_kept_for_is_refused() -> None:
    schema = Schema((NumberColumn("paid", 0, 10_000_000, 0.01), NumberColumn("age", 0, 99, 1)))
    for line in (
        "paid >= age",
        "if age < 15 then paid = 0",
        "paid is a multiple of 5",
    ):
        with pytest.raises(
            ConfigError, match=r"is about 'paid', which has 1,000,000,001 values; rules are kept for at"
        ):
            read_rules([line], schema)


def test_a_heap_of_values_outside_the_bounds_is_refused() -> None:
    with pytest.raises(ConfigError, match="names values that 'dose' cannot have: check its lowest, highest and step"):
        read_rules(["dose is a multiple of 1 in 2 % of rows"], Schema((NumberColumn("dose", 0.1, 0.9, 0.1),)))


def test_names_and_values_are_quoted_where_the_language_could_take_them_apart() -> None:
    assert [quoted(text) for text in ("age", "a b", "net and gross", "a, b", 'he"said', "")] == [
        "age", "a b", '"net and gross"', '"a, b"', '"he""said"', '""',
    ]  # fmt: skip


def test_a_table_of_values_in_a_file_is_written_out(tmp_path: Path) -> None:
    (tmp_path / "zones.csv").write_text('borough,zone\nEWR,1\nQueens,2\nQueens,"a, b"\nEWR,1\n')
    lines = with_tables(["zone determines borough by zones.csv", "age >= 18"], tmp_path)
    assert lines == ('zone determines borough (1 = EWR, 2 = Queens, "a, b" = Queens)', "age >= 18")
    assert len(read_rules(lines, SCHEMA).rules) == 2
    (tmp_path / "zones.csv").write_text("borough,zone\n" + "".join(f"EWR,{place}\n" for place in range(2_000)))
    many = with_tables(["zone determines borough by zones.csv"], tmp_path)
    assert len(many) > 4
    assert all(len(line) <= 4_096 for line in many)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (None, "cannot be read"),
        ("a,b\n1,2\n", "is not a table with the columns 'zone' and 'borough'"),
        ("zone,borough\n1\n", "is not a table with the columns"),
        ("zone,borough\n1,EWR\n1,Queens\n", "has two values of 'borough' for one of 'zone'"),
    ],
)
def test_a_file_that_is_no_table_of_values_is_refused(tmp_path: Path, text: str | None, sentence: str) -> None:
    if text is not None:
        (tmp_path / "zones.csv").write_text(text)
    with pytest.raises(ConfigError) as refusal:
        with_tables(["zone determines borough by zones.csv"], tmp_path)
    assert sentence in str(refusal.value)
