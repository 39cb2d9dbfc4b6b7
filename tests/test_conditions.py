"""Conditions on one row: what can be written, and that nothing else can."""

from __future__ import annotations

import contextlib
import itertools
import sqlite3
from contextlib import suppress
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy.dialects import sqlite
from timing import require_within

from synth.errors import ConfigError
from synth.schema.conditions import (
    MOST_CHARACTERS,
    Among,
    Between,
    Compared,
    Like,
    Name,
    Not,
    Null,
    condition,
    expression_of,
    names_in,
)
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
        "a = 1;",
        "a = 1; b = 2",
        "a = 1 -- x\n and b = 2",
        "a = 1 /* x",
        "a = {# x #} 1",
        "{{ a }} = 1",
        "a = 'x' 'y'",
        "a = 1 _000",
        "a = 1 x",
        "a = +1",
        "a = - - 1",
        "a = -'1'",
        "a = N'x'",
        "a = X'1f'",
        "a = $$x$$",
        "a = 'x' escape '!'",
        "town like 'a%' escape '!'",
        "town ilike 'a%'",
        "town like any ('a', 'b')",
        "town regexp 'a'",
        "town ~ 'a'",
        "age between symmetric 1 and 2",
        "age between a and b",
        "age in (1, b)",
        "age in a",
        "age in unnest(b)",
        "age global in (1)",
        "(age, town) = (1, 'a')",
        "(age) = 1",
        "18 <= age",
        "age = any (b)",
        "age is distinct from b",
        "age is true",
        "age <=> 1",
        "age = null",
        "age = b + 1",
        "age || town = 'a'",
        "age % 2 = 0",
        "age & 1 = 1",
        "age[1] = 1",
        "age.years = 1",
        "town collate nocase = 'a'",
        "day at time zone 'utc' = '2020-01-01'",
        "day > current_date",
        "day > now()",
        "day = date '2020-01-01'",
        "random() > 0",
        "age = @one",
        "age = ?",
        "age = b = c",
        "age > 1 and (select 1)",
        "age > (values (1))",
        "age = 1 xor town = 'a'",
        "if(age = 1, true, false)",
        "with x as (select 1) select 1",
        "age > 1 group by age having count(*) > 1",
        "age > 1 for update",
        "sum(age) over () > 1",
        "lag(age) > 1",
        "age > 1 as b",
        "age > 1 b",
        "*",
        '"" = 1',
        "-- age",
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


ROWS = list(itertools.product([None, 0, 1, 2, -1.5], [None, 1, 2], ["x", "xy", None]))
NEGATED = st.sampled_from(["", "not "])
PREDICATES = st.one_of(
    st.builds("{} {} {}".format, st.sampled_from("ab"), st.sampled_from(["=", "<>", "!=", "<", "<=", ">", ">="]),
              st.sampled_from(["1", "2", "-1.5", "a", "b"])),
    st.builds("{} {}in (1, -1.5)".format, st.sampled_from("ab"), NEGATED),
    st.builds("{} {}between -2 and 1".format, st.sampled_from("ab"), NEGATED),
    st.builds("c {}like {}".format, NEGATED, st.sampled_from(["'x%'", "'_'", "'X'"])),
    st.builds("{} is {}null".format, st.sampled_from("abc"), NEGATED),
)  # fmt: skip
WHOLE = st.recursive(
    PREDICATES,
    lambda inner: st.one_of(
        inner.map("not {}".format),
        inner.map("({})".format),
        st.builds("{} {} {}".format, inner, st.sampled_from(["and", "or"]), inner),
    ),
    max_leaves=6,
)


@given(WHOLE)
def test_a_condition_means_what_sqlite_reads_in_the_same_text(text: str) -> None:
    with contextlib.closing(sqlite3.connect(":memory:")) as base:
        base.execute("create table t (a, b, c)")
        base.executemany("insert into t values (?, ?, ?)", ROWS)
        asked = expression_of(condition(text)).compile(dialect=sqlite.dialect(paramstyle="named"))
        bound = {name: float(one) if isinstance(one, Decimal) else one for name, one in asked.params.items()}
        ours = base.execute(f"select rowid from t where {asked}", bound).fetchall()  # noqa: S608
        assert ours == base.execute(f"select rowid from t where {text}").fetchall()  # noqa: S608


def test_a_node_that_says_more_than_is_read_is_refused() -> None:
    # sqlglot keeps some of what is said in a mark of a node: left unread, the rows would be others.
    assert condition("a not like 'x'") == Not(Like(Name("a", 1), "x"))
    assert condition("a not between 1 and 2") == Not(Between(Name("a", 1), 1, 2))
    assert condition("a not in (1)") == Not(Among(Name("a", 1), (1,)))
    assert condition("a is not null") == Not(Null(Name("a", 1)))
    with pytest.raises(ConfigError, match="at character 1, a comparison"):
        condition("a between symmetric 2 and 1")


def test_words_that_sql_has_a_use_for_are_columns_where_they_can_be() -> None:
    for name in ("date", "user", "year", "order", "group", "left", "index", "values", "key", '"select"', "größe"):
        assert condition(f"{name} = 1") == Compared(Name(name.strip('"'), 1), "=", 1)


def test_what_is_refused_is_said_with_its_place() -> None:
    for text, said in [
        ("age > 1 limit 5", "character 9 is not understood"),
        ("age > 1 and\ntown = 'a' -- all", "character 24 is not understood"),
        ("age > 1 and\ntown = 'a' 7", "character 24 is not understood"),
        ("age > 1; drop", "character 8 is not understood"),
        ("age > 1 and upper(town) = 'A'", "character 13, the name of a column is missing"),
        ("age in (1, b)", "character 12, a constant is missing"),
        ("town like b", "character 11, a"),
        ("town = 'a", "a quotation mark or a comment is left open"),
    ]:
        with pytest.raises(ConfigError, match=said):
            condition(text)


@given(st.text(alphabet="ab1 '\"().,<>=-+%;:ANDORNTILKEBWSUL", max_size=60))
def test_any_text_is_a_condition_or_one_sentence(text: str) -> None:
    with suppress(ConfigError):
        found = condition(text)
        assert list(names_in(found))
        assert "SELECT" not in str(expression_of(found)).upper()


@pytest.mark.four_cases
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
    assert "must not contain 'password'" in refusal(url="postgresql://me@host/clinic?password=secret")
    assert "must not contain 'service'" in refusal(url="postgresql://me@host/clinic?service=x")
    assert "For other databases" in refusal(url="mysql://me@host/clinic")
    assert "driver" in refusal(url="postgresql+asyncpg://me@host/clinic")
    assert "not understood" in refusal(url="clinic")
    for url in ("sqlite://", "sqlite:///:memory:"):
        assert "sqlite:////data/clinic.sqlite" in refusal(url=url)


def test_a_source_is_a_table_or_a_query() -> None:
    assert "either" in refusal(table=None)
    assert "either" in refusal(sql="select 1")
    assert "'where' belongs to a table" in refusal(table=None, sql="select 1", where="a = 1")
    assert "twice" in refusal(columns=("a", "a"))
    assert "character 5, a constant is missing" in refusal(where="a = (select 1)")


def test_a_source_is_written_as_it_is_read() -> None:
    source = DatabaseSource(url="sqlite:////a.sqlite", table="visits", columns=("a", "b"), where="a = 1")
    assert DatabaseSource.from_mapping(source.to_mapping()) == source
    assert source.origin == "selection"
    assert DatabaseSource(url="sqlite:////a.sqlite", sql="select 1").to_mapping() == {
        "url": "sqlite:////a.sqlite",
        "sql": "select 1",
    }
