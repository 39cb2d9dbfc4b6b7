"""Conditions on one row: what can be written, and that nothing else can."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy.dialects import sqlite
from timing import require_within

from synth.errors import ConfigError
from synth.schema.conditions import MOST_CHARACTERS, condition, expression_of, names_in
from synth.schema.source import DatabaseSource


def written(text: str) -> str:
    compiled = expression_of(condition(text)).compile(dialect=sqlite.dialect(paramstyle="qmark"))
    return " ".join(str(compiled).split()) + " " + repr(tuple(compiled.params.values()))


@pytest.mark.parametrize(
    ("text", "becomes"),
    [
        ("age >= 18", "age >= ? (18,)"),
        ("age > -1.5e2 and not town = 'O''Brien'", "age > ? AND town != ? (Decimal('-1.5E+2'), \"O'Brien\")"),
        ("a = 1 or b = 2 and c <> 3", "a = ? OR b = ? AND c != ? (1, 2, 3)"),
        ("(a = 1 or b = 2) and c = TRUE", "(a = ? OR b = ?) AND c = ? (1, 2, True)"),
        ("town IN ('A', 'B') or town not in ('C')", "town = ? OR town = ? OR town != ? ('A', 'B', 'C')"),
        ("day between '2020-01-01' and '2020-12-31'", "day BETWEEN ? AND ? ('2020-01-01', '2020-12-31')"),
        ("not (a between 1 and 2 and b like 'x%')", "NOT (a BETWEEN ? AND ? AND b LIKE ?) (1, 2, 'x%')"),
        ('"odd ""name" is not null and b is null', '"odd ""name" IS NOT NULL AND b IS NULL ()'),
        ("left_at > arrived_at", "left_at > arrived_at ()"),
    ],
)
def test_a_condition_becomes_an_expression_of_columns_and_bound_constants(text: str, becomes: str) -> None:
    assert written(text) == becomes


@pytest.mark.parametrize(
    "text",
    [
        "age > (select avg(age) from visits)",
        "exists (select 1 from visits)",
        "person in (select person from visits)",
        "age > all (select age from visits)",
        "upper(town) = 'A'",
        '"upper"(town) = 1',
        "age > 1 limit 5",
        "age > 1 order by age",
        "age > 1; drop table visits",
        "age > 1 -- all",
        "age > 1 /* all */",
        "age + 1 > 2",
        "1 = 1",
        "true",
        "age",
        "rank() over (order by age) < 5",
        "case when age > 1 then true end",
        "visits.age > 1",
        "age > 1 union select 1",
        "town like upper('a')",
        "town like 'a\\'",
        "age > :one",
        "age > %s",
        "age > $1",
        "age::text = '1'",
        "age > 1 and",
        "(age > 1",
        "age > 1)",
        "age in ()",
        "age between 1",
        "town = 'a",
        'town = "a""',
        "town = E'a'",
        "age > 1e9999",
        "age > 0x10",
        "town = 'a\0'",
        "",
        "not " * 60 + "a = 1",
        "(" * 60 + "a = 1" + ")" * 60,
        "a = 1 or " * 2_000 + "a = 1",
    ],
)
def test_whatever_could_depend_on_another_row_cannot_be_written(text: str) -> None:
    with pytest.raises(ConfigError, match="where: ") as refused:
        condition(text)
    assert "\n" not in str(refused.value)


@given(st.text(alphabet="ab1 '\"().,<>=-+%;:ANDORNTILKEBWSUL", max_size=60))
def test_any_text_is_a_condition_or_one_sentence(text: str) -> None:
    with suppress(ConfigError):
        found = condition(text)
        assert list(names_in(found))
        assert "SELECT" not in str(expression_of(found)).upper()


@pytest.mark.parametrize("piece", ["'", '"', "1", "1.", "a", "(", "a = '", "NOT ", "a = 1 OR ", "' '", "1e1"])
def test_a_condition_of_any_form_is_read_or_refused_at_once(piece: str) -> None:
    def read() -> None:
        for end in ("", "!", "x"):
            with suppress(ConfigError):
                condition((piece * MOST_CHARACTERS)[: MOST_CHARACTERS - 1] + end)

    require_within(2, read)


def refusal(**said: object) -> str:
    with pytest.raises(ConfigError) as refused:
        DatabaseSource(**{"url": "postgresql://me@host/clinic", "table": "visits", **said})  # type: ignore[arg-type]
    return str(refused.value)


def test_a_source_keeps_no_password_and_nothing_that_a_driver_would_read_from_it() -> None:
    for url in ("postgresql://me:secret@host/clinic", "postgres://me:@host/clinic", "postgresql+psycopg://a:b@/c"):
        said = refusal(url=url)
        assert "password" in said
        assert "secret" not in said
    assert "'password' may not stand" in refusal(url="postgresql://me@host/clinic?password=secret")
    assert "'service' may not stand" in refusal(url="postgresql://me@host/clinic?service=x")
    assert "Other databases" in refusal(url="mysql://me@host/clinic")
    assert "driver" in refusal(url="postgresql+asyncpg://me@host/clinic")
    assert "not understood" in refusal(url="clinic")
    for url in ("sqlite://", "sqlite:///:memory:"):
        assert "sqlite:////data/clinic.sqlite" in refusal(url=url)


def test_a_source_is_a_table_or_a_query() -> None:
    assert "either" in refusal(table=None)
    assert "either" in refusal(sql="select 1")
    assert "'where' belongs to a table" in refusal(table=None, sql="select 1", where="a = 1")
    assert "twice" in refusal(columns=("a", "a"))
    assert "character 5" in refusal(where="a = (select 1)")


def test_a_source_is_written_as_it_is_read() -> None:
    source = DatabaseSource(url="sqlite:////a.sqlite", table="visits", columns=("a", "b"), where="a = 1")
    assert DatabaseSource.from_mapping(source.to_mapping()) == source
    assert source.origin == "selection"
    assert DatabaseSource(url="sqlite:////a.sqlite", sql="select 1").to_mapping() == {
        "url": "sqlite:////a.sqlite",
        "sql": "select 1",
    }
