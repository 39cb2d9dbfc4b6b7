"""A private table is the declared rows, capped and split, and shows nothing of them."""

from __future__ import annotations

import copy
import io
import json
import pickle
import traceback
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from recorded_noise import RecordedNoise

from synth.errors import PrivacyError, SchemaError, TableError
from synth.privacy.accounting import PrivacyBudget
from synth.privacy.session import PrivateSession
from synth.privacy.table import PrivateTable
from synth.schema import (
    CategoryColumn,
    DropColumn,
    IdentifierColumn,
    NumberColumn,
    PrivacyUnit,
    RowCountRule,
    Schema,
    TableFormat,
)

KEY = b"an account's secret, 32 bytes of"
AGE, TOWN = NumberColumn("age", 0, 120, 1), CategoryColumn("town", ("Ayr", "Bath"))


def schema(
    rows_per_unit: int = 1, *, ids: bool = False, row_count: RowCountRule = "public", number: int | None = None
) -> Schema:
    unit = PrivacyUnit("person", rows_per_unit, "who" if ids else None)
    columns = (IdentifierColumn("who"), AGE, DropColumn("notes"), TOWN)
    return Schema(columns, unit, row_count, number_of_units=number)


def written(ids: list[object], ages: list[int]) -> bytes:
    rows = [f"{unit},{age},x,{'Ayr' if age % 2 else 'Bath'}\n" for unit, age in zip(ids, ages, strict=True)]
    return ("who,age,notes,town\n" + "".join(rows)).encode()


class Files:
    """A source of tables by id."""

    def __init__(self, **tables: bytes) -> None:
        self._tables = tables
        self.opened: list[str] = []

    def open(self, table_id: str) -> io.BytesIO:
        self.opened.append(table_id)
        return io.BytesIO(self._tables[table_id])


def test_opened_by_id() -> None:
    files = Files(one=written(["a", "b"], [30, 41]))
    table = PrivateTable.open(files, "one", schema(number=2), TableFormat(), account_key=KEY)[0]
    assert files.opened == ["one"]
    assert {name: table._column(name).tolist() for name in ("town", "age")} == {
        "town": [1, 0],
        "age": [30, 41],
    }
    assert table._rows == 2
    assert table.schema.names == ("age", "town")


def test_opened_from_a_callable() -> None:
    table = PrivateTable.open(
        lambda: io.BytesIO(written(["a"], [7])), "", schema(number=1), TableFormat(), account_key=KEY
    )[0]
    assert table._column("age").tolist() == [7]


def test_both_sides_together_are_the_capped_table() -> None:
    ids, ages = [place % 40 for place in range(120)], list(range(120))
    for row_count in ("public", "private"):
        declared = schema(2, ids=True, row_count=row_count, number=40 if row_count == "public" else None)
        parts = {
            part: PrivateTable.open(
                Files(t=written(ids, ages)), "t", declared, TableFormat(), account_key=KEY, holdout=0.25, parts=(part,)
            )[0]
            ._column("age")
            .tolist()
            for part in ("train", "holdout")
        }
        assert len(parts["train"]) + len(parts["holdout"]) == 80
        assert not set(parts["train"]) & set(parts["holdout"])
        assert not {age % 40 for age in parts["train"]} & {age % 40 for age in parts["holdout"]}
        if row_count == "public":
            assert len(parts["holdout"]) == 20


def test_the_same_rows_for_a_later_run_and_in_memory() -> None:
    ids, ages = [f"p{place % 30}" for place in range(90)], list(range(90))
    declared = schema(2, ids=True, row_count="private")
    opened = [
        PrivateTable.open(Files(t=written(ids, ages)), "t", declared, TableFormat(), account_key=KEY, holdout=0.3)[0]
        ._column("age")
        .tolist()
        for _ in range(2)
    ]
    codes = {"age": ages, "town": [(age + 1) % 2 for age in ages]}
    made = PrivateTable.from_codes(declared, codes, unit_ids=ids, account_key=KEY, holdout=0.3)
    assert opened[0] == opened[1] == made._column("age").tolist()
    other = PrivateTable.from_codes(declared, codes, unit_ids=ids, account_key=b"another", holdout=0.3)
    assert other._column("age").tolist() != opened[0]


@pytest.mark.parametrize("row_count", ["public", "private"])
@pytest.mark.parametrize("holdout", [0.0, 0.3])
def test_rows_without_an_id_are_on_no_side(row_count: RowCountRule, holdout: float) -> None:
    number = 4 if row_count == "public" else None
    declared = schema(2, ids=True, row_count=row_count, number=number)

    def rows(ids: list[str | None]) -> dict[str, list[int]]:
        codes = {"age": [100 if unit is None else ord(unit) - ord("a") for unit in ids], "town": [0] * len(ids)}
        return {
            part: sorted(
                PrivateTable.from_codes(
                    declared,
                    codes,
                    unit_ids=ids,
                    account_key=KEY,
                    holdout=holdout,
                    part=part,  # type: ignore[arg-type]
                )
                ._column("age")
                .tolist()
            )
            for part in ("train", "holdout")
        }

    with_ids: list[str | None] = ["a", "b", "a", "c", "d"]
    assert rows([None, *with_ids, None, None]) == rows(with_ids)
    assert sorted(rows(with_ids)["train"] + rows(with_ids)["holdout"]) == [0, 0, 1, 2, 3]
    assert rows([None]) == {"train": [], "holdout": []}


def test_a_public_number_is_declared_and_never_counted() -> None:
    files = Files(one=written(list("abcdefgh"), list(range(8))), other=written(list("abc"), list(range(3))))
    for declared in (schema(), schema(ids=True), schema(2, ids=True)):
        with pytest.raises(PrivacyError, match="write it as 'number_of_units'"):
            PrivateTable.open(files, "one", declared, TableFormat(), account_key=KEY, holdout=0.2)
    assert files.opened == [], "it is refused before a row is read"
    for ids in (False, True):
        for name, holdout in (("one", 0.0), ("one", 0.4), ("other", 0.0), ("other", 0.4)):
            train, held = PrivateTable.open(
                files,
                name,
                schema(ids=ids, number=10),
                TableFormat(),
                account_key=KEY,
                holdout=holdout,
                parts=("train", "holdout"),
            )
            # What is printed follows from the number that was declared, whatever the table holds.
            assert (train._public_rows, held._public_rows) == ((6, 4) if holdout else (10, 0))
            assert train._rows + held._rows == (8 if name == "one" else 3)
            assert held._rows == (0 if not holdout else 4 if name == "one" else 3)
    budget = PrivacyBudget(1.0, 1e-6, schema().neighbours)
    declared = PrivateTable.open(files, "one", schema(number=10), TableFormat(), account_key=KEY)[0]
    assert PrivateSession(declared, budget, noise=RecordedNoise(None)).rows.value == 10
    several = PrivateTable.open(files, "one", schema(2, ids=True, number=10), TableFormat(), account_key=KEY)[0]
    assert several._public_rows is None, "rows of several per unit are no public number"


def test_a_stand_in_is_public_and_may_be_counted() -> None:
    files = Files(one=written(list("abcde"), list(range(5))))
    table = PrivateTable.open(files, "one", schema(), TableFormat(), account_key=KEY, public=True)[0]
    assert table._public_rows == 5
    for declared in (schema(row_count="private"), schema(2)):
        private = PrivateTable.open(files, "one", declared, TableFormat(), account_key=KEY)[0]
        assert private._public_rows is None


@pytest.mark.parametrize("row_count", ["public", "private"])
def test_without_ids_where_a_row_stands_is_no_matter(row_count: RowCountRule) -> None:
    ages = [place % 30 for place in range(100)]
    declared = schema(row_count=row_count, number=100 if row_count == "public" else None)
    first = train([(0, age) for age in ages], declared, 0.3)
    assert 0 < first.total() < 100
    for seed in range(10):
        order = np.random.default_rng(seed).permutation(100)
        assert train([(0, ages[place]) for place in order], declared, 0.3) == first


def test_a_private_number_of_rows_is_split_by_coins() -> None:
    # Several rows per unit without ids: the number of rows is not public, so no side has a fixed size.
    sizes = set()
    for key in range(25):
        for declared in (schema(3), schema(1, row_count="private")):
            table = PrivateTable.from_codes(
                declared, {"age": range(100), "town": [0] * 100}, account_key=bytes([key]), holdout=0.3
            )
            sizes.add(table._rows)
        exact = PrivateTable.from_codes(
            schema(1), {"age": range(100), "town": [0] * 100}, account_key=bytes([key]), holdout=0.3
        )
        assert exact._rows == 70
    assert len(sizes) > 5


def test_nothing_gives_rows_away() -> None:
    table = PrivateTable.from_codes(schema(), {"age": [47, 111], "town": [0, 1]})
    assert repr(table) == str(table) == f"{table}" == "<PrivateTable: rows are not shown>"
    for refused in (len, iter, list, bytes, json.dumps):
        with pytest.raises(TypeError):
            refused(table)
    with pytest.raises(TypeError):
        47 in table  # noqa: B015
    with pytest.raises(TypeError):
        table[0]  # type: ignore[index]
    with pytest.raises(TypeError):
        vars(table)
    for copied in (copy.copy, copy.deepcopy, pickle.dumps, lambda value: value.__getstate__()):
        with pytest.raises(PrivacyError, match="cannot be copied or pickled"):
            copied(table)
    assert table != PrivateTable.from_codes(schema(), {"age": [47, 111], "town": [0, 1]})
    with pytest.raises(PrivacyError, match=r"use PrivateTable\.open"):
        PrivateTable()


def test_an_error_with_its_traceback_holds_no_cell() -> None:
    files = Files(t=written(["a"], [47]).replace(b"notes", b"town") + b"Zanzibar-7391846,1\n")
    with pytest.raises(TableError) as caught:
        PrivateTable.open(files, "t", schema(number=2), TableFormat(), account_key=KEY)[0]
    assert "Zanzibar" not in "".join(traceback.format_exception(caught.value))


def test_rows_are_read_only_and_apart_from_what_was_given() -> None:
    ages = np.array([1, 2], dtype=np.uint8)
    table = PrivateTable.from_codes(schema(), {"age": ages, "town": [0, 1]})
    ages[0] = 99
    column = table._column("age")
    assert column.tolist() == [1, 2]
    with pytest.raises(ValueError, match="read-only"):
        column[0] = 5


@pytest.mark.parametrize(
    ("codes", "unit_ids", "ids"),
    [
        ({"age": [1], "town": [0, 1]}, None, False),
        ({"age": [1], "town": [0], "more": [1]}, None, False),
        ({"age": [1], "town": [2]}, None, False),
        ({"age": [1], "town": [0]}, ["a"], False),
        ({"age": [1], "town": [0]}, None, True),
        ({"age": [1], "town": [0]}, ["a", "b"], True),
    ],
)
def test_codes_that_do_not_fit_are_refused(codes: dict[str, list[int]], unit_ids: list[str] | None, ids: bool) -> None:
    with pytest.raises(SchemaError):
        PrivateTable.from_codes(schema(2, ids=ids), codes, unit_ids=unit_ids)


@pytest.mark.parametrize("holdout", [-0.1, 1.0, float("nan")])
def test_a_share_outside_its_range_is_refused(holdout: float) -> None:
    with pytest.raises(PrivacyError, match="holdout must be at least 0 and below 1"):
        PrivateTable.from_codes(schema(), {"age": [1], "town": [0]}, holdout=holdout)


def test_columns_that_are_not_modelled_have_no_codes() -> None:
    table = PrivateTable.from_codes(schema(), {"age": [1], "town": [0]})
    with pytest.raises(SchemaError, match="not modelled"):
        table._column("who")


def test_the_source_is_closed(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(written(["a"], [7]))
    opened = []

    def source() -> io.BufferedReader:
        opened.append(path.open("rb"))
        return opened[0]

    PrivateTable.open(source, "t", schema(number=1), TableFormat(), account_key=KEY)[0]
    assert opened[0].closed


people = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 120)), min_size=1, max_size=30)


def train(people: list[tuple[int, int]], declared: Schema, holdout: float) -> Counter[int]:
    codes = {"age": [age for _, age in people], "town": [0] * len(people)}
    ids = [unit for unit, _ in people] if declared.unit.id_column else None
    table = PrivateTable.from_codes(declared, codes, unit_ids=ids, account_key=KEY, holdout=holdout)
    return Counter(table._column("age").tolist())


@given(people=people, added=st.lists(st.integers(0, 120), max_size=6), cap=st.integers(1, 3), data=st.data())
def test_adding_one_unit_adds_its_kept_rows_and_moves_no_other(
    people: list[tuple[int, int]], added: list[int], cap: int, data: st.DataObject
) -> None:
    declared = schema(cap, ids=True, row_count="private")
    more = list(people)
    for age in added:
        more.insert(data.draw(st.integers(0, len(more))), (99, age))
    before, after = train(people, declared, 0.4), train(more, declared, 0.4)
    assert not before - after
    assert (after - before).total() in {0, min(cap, len(added))}


@given(people=people, ages=st.lists(st.integers(0, 120), min_size=1, max_size=6), cap=st.integers(1, 3))
def test_replacing_one_unit_replaces_at_most_one_on_the_training_side(
    people: list[tuple[int, int]], ages: list[int], cap: int
) -> None:
    declared = schema(cap, ids=True)
    others = [person for person in people if person[0] != people[0][0]] + [(99, age) for age in ages]
    before, after = train(people, declared, 0.4), train(others, declared, 0.4)
    assert (before - after).total() <= cap
    assert (after - before).total() <= cap


@given(people=people, age=st.integers(0, 120), data=st.data())
def test_neighbours_without_ids_differ_in_one_row(people: list[tuple[int, int]], age: int, data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(people) - 1))
    replaced = [*people[:place], (0, age), *people[place + 1 :]]
    before, after = train(people, schema(), 0.4), train(replaced, schema(), 0.4)
    assert (before - after).total() == (after - before).total() <= 1
    private = schema(row_count="private")
    before, after = train(people, private, 0.4), train([*people, (0, age)], private, 0.4)
    assert not before - after
    assert (after - before).total() <= 1
