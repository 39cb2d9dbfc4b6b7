"""Whole people: from the rows of a file to one row for each unit, that follows from its own rows alone."""

from __future__ import annotations

import datetime
from collections import Counter, defaultdict
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from people_by_hand import Row, row_of_unit
from people_faults import PEOPLE_FAULTS
from people_worlds import CHECKS, COLUMNS, KEY, WORLDS, PeopleWorld, folded_rows, rows_of
from reading_here import read_all_here
from scipy import stats

from synth.privacy.people import units_in_order
from synth.privacy.table import PrivateTable
from synth.schema import (
    CategoryColumn,
    DateColumn,
    IdentifierColumn,
    LinkedTables,
    ModelledColumn,
    NumberColumn,
    People,
    PrivacyUnit,
    Schema,
    YesNoColumn,
    people_of,
)
from synth.schema.people import PLACES
from synth.schema.rule_lines import read_rules


@pytest.fixture(autouse=True)
def _read_here(monkeypatch: pytest.MonkeyPatch) -> None:
    read_all_here(monkeypatch)


def hash_of(unit: int) -> bytes:
    """Return a hash as ids have them: its order is not that of units, and the halves of some are equal."""
    return ((unit % 3) * 2**61 + 5).to_bytes(8, "little") + (unit * 0x9E3779B97F4A7C15 % 2**64).to_bytes(8, "little")


def arranged(rows: list[tuple[int, Row]], schema: Schema) -> tuple[dict[str, np.ndarray], np.ndarray]:
    columns = {
        column.name: column.smallest_codes(np.array([row[column.name] for _, row in rows], dtype=np.int64))
        for column in schema.modelled
    }
    hashes = b"".join(hash_of(unit) for unit, _ in rows)
    return columns, np.frombuffer(hashes, dtype=np.uint8).reshape(-1, 16).copy()


def folded_here(rows: list[tuple[int, Row]], people: People, key: bytes = KEY) -> list[tuple[int, ...]]:
    return folded_rows(*arranged(rows, people.schema), people, key)


def by_hand(rows: list[tuple[int, Row]], people: People) -> list[tuple[int, ...]]:
    """Every unit for itself, in the order of their hashes."""
    own: dict[bytes, list[Row]] = defaultdict(list)
    for unit, row in rows:
        own[hash_of(unit)].append(row)

    def halves(unit: bytes) -> tuple[int, int]:
        return int.from_bytes(unit[:8], "little"), int.from_bytes(unit[8:], "little")

    return [row_of_unit(own[unit], unit, people, account_key=KEY) for unit in sorted(own, key=halves)]


# Drawn declarations

# Some have as many codes as a type holds, to which a column of the next row adds one.
ANY_COLUMN: tuple[ModelledColumn, ...] = (
    CategoryColumn("sex", ("f", "m"), missing=True),
    NumberColumn("born", 1900, 2155, 1),
    NumberColumn("cost", 0, 30, 10, special=(-1.0, 999.0), missing=True),
    NumberColumn("dose", 0, 4, 1, special=(9.0,)),
    DateColumn("seen", datetime.date(2020, 1, 1), datetime.date(2020, 1, 4), missing=True),
    YesNoColumn("well", missing=True),
    CategoryColumn("town", tuple(f"town {place}" for place in range(255)), other=True),
)


ORDER_WITH_SPECIAL_VALUES = Schema(
    (IdentifierColumn("who"), NumberColumn("dose", 0, 4, 1, special=(9.0,))),
    unit=PrivacyUnit("person", 2, "who", (), "dose"),
    row_count="private",
    people="whole",
)


@st.composite
def declared(draw: st.DrawFn) -> People:
    columns = draw(st.lists(st.sampled_from(ANY_COLUMN), min_size=1, unique=True))
    orders = [column.name for column in columns if column.is_ordered]
    order = draw(st.sampled_from([None, *orders]))
    own = draw(st.lists(st.sampled_from([one.name for one in columns if one.name != order] or [""]), unique=True))
    most = draw(st.sampled_from((2, 3, 4, 6, 1_000)))
    unit = PrivacyUnit("person", most, "who", tuple(filter(None, own)), order)
    row_count = draw(st.sampled_from(("private", "public")))
    linked = draw(st.sampled_from((None, LinkedTables("patients", "visits", "who"))))
    return people_of(
        Schema((IdentifierColumn("who"), *columns), unit=unit, row_count=row_count, people="whole", tables=linked)
    )


@st.composite
def tables(draw: st.DrawFn) -> tuple[People, list[tuple[int, Row]]]:
    """Few different cells, so that rows tie, and all kinds of them."""
    people = draw(declared())
    row = st.fixed_dictionaries(
        {
            column.name: st.sampled_from(sorted({0, 1, column.levels - 1, column.size - 1, column.size // 2} - {-1}))
            for column in people.schema.modelled
        }
    )
    return people, draw(st.lists(st.tuples(st.integers(0, 5), row), max_size=30))


@given(drawn=tables())
def test_every_unit_becomes_what_its_own_rows_say(drawn: tuple[People, list[tuple[int, Row]]]) -> None:
    people, rows = drawn
    assert folded_here(rows, people) == by_hand(rows, people)


@given(drawn=tables(), data=st.data())
def test_the_order_of_the_file_says_nothing(drawn: tuple[People, list[tuple[int, Row]]], data: st.DataObject) -> None:
    people, rows = drawn
    assert folded_here(data.draw(st.permutations(rows)), people) == folded_here(rows, people)


@given(drawn=tables(), data=st.data())
def test_one_unit_more_is_one_row_more_and_another_unit_another_row(
    drawn: tuple[People, list[tuple[int, Row]]], data: st.DataObject
) -> None:
    people, rows = drawn
    new, gone = data.draw(st.sampled_from([unit for unit, _ in rows] or [0])), data.draw(st.integers(0, 5))
    brought = [(99, row) for unit, row in rows if unit == new]
    places = [data.draw(st.integers(0, len(rows))) for _ in brought]
    more = list(rows)
    for place, one in sorted(zip(places, brought, strict=True), key=lambda at: -at[0]):
        more.insert(place, one)
    before, after = Counter(folded_here(rows, people)), Counter(folded_here(more, people))
    assert not before - after
    assert list((after - before).elements()) == folded_here(brought, people)
    replaced = Counter(folded_here([(unit, row) for unit, row in more if unit != gone], people))
    assert (after - replaced).total() <= 1
    assert not replaced - after


@given(drawn=tables())
def test_codes_are_those_of_the_table_of_people(drawn: tuple[People, list[tuple[int, Row]]]) -> None:
    people, rows = drawn
    for row in folded_here(rows, people):
        assert all(code < people.asked.size_of(name) for name, code in zip(people.asked.names, row, strict=True))


@given(drawn=tables())
@example(drawn=(people_of(ORDER_WITH_SPECIAL_VALUES), [(0, {"dose": code}) for code in (0, 5)]))
def test_rules_that_are_told_to_a_model_hold_for_everybody(drawn: tuple[People, list[tuple[int, Row]]]) -> None:
    people, rows = drawn
    made = np.array(folded_here(rows, people), dtype=np.int64).reshape(-1, len(people.asked.names))
    rules = read_rules(people.structure, people.asked)
    codes = {name: made[:, people.asked.names.index(name)] for name in rules.columns}
    assert not [rules.lines[rule.line] for rule in rules.rules if rule.broken(codes).any()]


@given(people=declared())
def test_a_missing_next_row_has_the_last_code_and_all_other_codes_stay(people: People) -> None:
    for name, new in people.following.items():
        column, following = people.schema.modelled_column(name), people.asked.modelled_column(new)
        assert following.missing_code == people.absent_code(name) >= column.size - 1
        assert following.levels == column.levels
    added = people.schema.tables is not None
    for name, new in [*people.usual.items(), *((name, name) for name in people.by_row)]:
        column = people.schema.modelled_column(name)
        assert people.asked.size_of(new) == column.size + (added and not column.missing)


# One rule after another


def one_person(
    *rows: tuple[int, ...], most: int = 3, own: tuple[str, ...] = ("sex",), order: str | None = "seen", unit: int = 0
) -> dict[str, int]:
    """Return the row of somebody whose rows are (sex, seen, cost), by column: seen from 0 to 3, cost from 0 to 9."""
    people = people_of(three_columns(most, own, order))
    found = folded_here([(unit, dict(zip(("sex", "seen", "cost"), row, strict=True))) for row in rows], people)
    return dict(zip(people.asked.names, found[0], strict=True))


def three_columns(most: int, own: tuple[str, ...] = ("sex",), order: str | None = "seen") -> Schema:
    columns = (
        IdentifierColumn("who"),
        CategoryColumn("sex", ("f", "m")),
        NumberColumn("seen", 0, 3, 1, special=(99.0,), missing=True),
        NumberColumn("cost", 0, 9, 1, special=(99.0,), missing=True),
    )
    unit = PrivacyUnit("person", most, "who", own, order)
    return Schema(columns, unit=unit, row_count="private", people="whole")


def test_a_single_row_has_no_next_row() -> None:
    assert one_person((1, 2, 7)) == {
        "sex": 1,
        "seen": 2,
        "cost": 7,
        "count": 0,
        "place": PLACES.index("only"),
        "gap": 4,
        "usual.cost": 7,
        "next.cost": 11,
    }


def test_two_rows_are_in_their_order_with_what_lies_between() -> None:
    for rows in ([(0, 3, 8), (1, 1, 2)], [(1, 1, 2), (0, 3, 8)]):
        found = one_person(*rows)
        assert (found["seen"], found["gap"], found["cost"], found["next.cost"]) == (1, 2, 2, 8)
        assert (found["count"], found["place"]) == (1, PLACES.index("both"))
        # The value of the first, although the other one says something else.
        assert found["sex"] == 1


def test_of_more_rows_than_declared_the_first_are_kept() -> None:
    found = [one_person((0, 3, 9), (0, 2, 5), (0, 0, 1), (0, 1, 3), most=2, unit=unit) for unit in range(8)]
    assert {(one["count"], one["cost"], one["next.cost"], one["place"]) for one in found} == {(1, 1, 3, 1)}
    assert {one["usual.cost"] for one in found} == {1, 3}, "the lower or the upper of two, by a coin of the person"


@pytest.mark.parametrize("without", [4, 5])
def test_rows_without_a_place_in_the_order_come_last(without: int) -> None:
    found = one_person((1, without, 9), (0, 3, 5), most=2)
    assert (found["sex"], found["seen"], found["cost"], found["next.cost"]) == (0, 3, 5, 9)
    assert found["gap"] == 4, "what lies between is not known"


def test_special_values_and_missing_cells_are_no_usual_value() -> None:
    assert one_person((0, 0, 10), (0, 1, 6), (0, 2, 11))["usual.cost"] == 6
    found = one_person((0, 0, 10), (0, 1, 11))
    assert found["usual.cost"] == found["cost"] == 10, "where there is none, that of the row itself"


def test_identical_rows_are_as_many_as_they_are() -> None:
    found = one_person((1, 2, 7), (1, 2, 7), (1, 2, 7), most=6)
    assert (found["count"], found["cost"], found["next.cost"], found["gap"]) == (2, 7, 7, 0)


def test_a_thousand_rows_are_kept_where_they_are_declared() -> None:
    rows = [(0, place % 4, place % 10) for place in range(1_005)]
    found = one_person(*rows, most=1_000)
    assert found["count"] == 999
    assert found["place"] == PLACES.index("middle")


def test_every_pair_of_neighbouring_rows_is_as_likely_and_a_tie_falls_either_way() -> None:
    chosen = Counter(
        one_person(*((0, place, place) for place in range(4)), most=4, unit=unit)["seen"] for unit in range(900)
    )
    assert stats.chisquare([chosen[place] for place in range(3)]).pvalue > 1e-4
    first = Counter(one_person((0, 1, 2), (0, 1, 8), unit=unit)["cost"] for unit in range(400))
    assert stats.chisquare([first[2], first[8]]).pvalue > 1e-4
    without = Counter(one_person((0, 0, 2), (0, 3, 8), order=None, unit=unit)["cost"] for unit in range(400))
    assert stats.chisquare([without[2], without[8]]).pvalue > 1e-4


def test_kept_rows_are_in_their_order_unit_by_unit() -> None:
    people = people_of(three_columns(3))
    random = np.random.default_rng(1)
    rows = [
        (int(unit), {"sex": 0, "seen": int(seen), "cost": 0})
        for unit, seen in zip(random.integers(0, 40, 200), random.integers(0, 6, 200), strict=True)
    ]
    columns, hashes = arranged(rows, people.schema)
    kept, first, count = units_in_order(columns, hashes, people, account_key=KEY)
    assert count.tolist() == np.diff([*first, len(kept)]).tolist()
    assert count.max() == 3
    for begin, number in zip(first, count, strict=True):
        own = kept[begin : begin + number]
        assert len({rows[place][0] for place in own}) == 1
        assert (np.diff([min(rows[place][1]["seen"], 4) for place in own]) >= 0).all()


def test_nobody_is_no_row() -> None:
    for people in map(people_of, (three_columns(2), three_columns(2, own=(), order=None))):
        assert folded_here([], people) == []


def test_no_next_row_is_told_from_every_value_of_a_byte() -> None:
    town = CategoryColumn("town", tuple(f"town {place}" for place in range(256)))
    unit = PrivacyUnit("person", 2, "who")
    people = people_of(Schema((IdentifierColumn("who"), town), unit=unit, row_count="private", people="whole"))
    found = folded_here([(0, {"town": 255}), (0, {"town": 255}), (1, {"town": 0})], people)
    next_town = people.asked.names.index("next.town")
    assert sorted(row[next_town] for row in found) == [255, 256]


# From the bytes of a file


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("world", WORLDS)
def test_it_holds_from_the_bytes_of_a_file(world: str, check: str) -> None:
    CHECKS[check](WORLDS[world])


def test_both_sides_together_are_everybody() -> None:
    lines = [f"p{unit},f,1940,2020-0{1 + unit % 6}-01,0,Ayr,yes\n".encode() for unit in range(60) for _ in range(2)]
    for world in WORLDS.values():
        sides = [rows_of(side) for side in world.open(lines)]
        whole = [rows_of(side) for side in replace(world, holdout=0.0).open(lines)]
        assert Counter(sides[0]) + Counter(sides[1]) == Counter(whole[0])
        assert not whole[1]
        assert sides[0]
        assert sides[1]


def test_the_table_of_people_has_its_own_schema_and_bound() -> None:
    (table, _) = WORLDS["add or remove"].open([b"p1,f,1940,2020-01-01,0,Ayr,yes\n"])
    assert isinstance(table, PrivateTable)
    assert (table.schema.unit.rows_per_unit, table.schema.unit.rows_at_most) == (1, 3)
    assert [name for name in table.schema.names if name not in {column.name for column in COLUMNS}] == [
        *("count", "place", "gap", "usual.cost", "next.cost", "next.town", "next.well"),
    ]
    assert table._units is None


# Planted bugs


@pytest.mark.parametrize("planted", PEOPLE_FAULTS)
def test_a_planted_bug_is_noticed(planted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plant, check = PEOPLE_FAULTS[planted]
    plant(monkeypatch)
    assert any(fails(check, world) for world in WORLDS.values()), f"'{check}' does not notice: {planted}"


def fails(check: str, world: PeopleWorld) -> bool:
    try:
        CHECKS[check](world)
    except AssertionError:
        return True
    return False
