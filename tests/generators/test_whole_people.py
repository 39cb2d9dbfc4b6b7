"""People with several rows, made of rows of the table of people: structure by construction, whatever is drawn."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from synth.estimators import DrawnRows, rows_as_asked
from synth.generators import whole_people
from synth.generators.whole_people import broken_structure, unfolded
from synth.privacy.people import folded, made_up_hashes
from synth.schema import LinkedTables, RunConfig, load_config, people_of
from synth.schema.kept_by_people import RulesOfPeople
from synth.schema.people import PLACES, People
from synth.schema.rule_lines import read_rules
from synth.schema.schema import LEFT_ONLY

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


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> RunConfig:
    path = tmp_path_factory.mktemp("people") / "visits.yaml"
    path.write_text(DECLARED)
    return load_config(path)


@pytest.fixture(scope="module")
def people(config: RunConfig) -> People:
    return people_of(config.schema)


@pytest.fixture(scope="module")
def linked(config: RunConfig) -> People:
    """The same where patients stand in a table of their own, and some have no visit."""
    return people_of(replace(config.schema, tables=LinkedTables("patients", "visits", "patient")))


def drawn_at_random(people: People, rows: int, seed: int) -> NDArray[np.int64]:
    """Return rows that no model would draw: every code with the same chance, whatever the others are."""
    random = np.random.default_rng(seed)
    return np.column_stack([random.integers(0, size, rows) for size in people.asked.sizes])


def people_with_chains(people: People, units: int, seed: int) -> tuple[dict[str, NDArray[np.int64]], NDArray[np.int64]]:
    """Return rows of people whose ward never changes, who come every 30 days, and who cost about the same each time."""
    random = np.random.default_rng(seed)
    count = random.integers(1, people.most + 1, units)
    unit = np.repeat(np.arange(units), count)
    place = np.arange(len(unit)) - np.repeat(np.cumsum(count) - count, count)
    start, ward, cost = random.integers(0, 200, units), random.integers(0, 3, units), random.integers(5, 85, units)
    visited = start[unit] + 30 * place
    columns = {
        "sex": random.integers(0, 2, units)[unit],
        "visited": visited,
        "left": visited + 2,
        "ward": ward[unit],
        "cost": cost[unit] + random.integers(-3, 4, len(unit)),
    }
    return columns, unit


def table_of(people: People, columns: dict[str, NDArray[np.int64]], unit: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the table of people of some rows."""
    hashes, key = made_up_hashes(unit, 7)
    small = {one.name: one.smallest_codes(columns[one.name]) for one in people.schema.modelled}
    made = folded(small, hashes, people, account_key=key)
    return np.column_stack([made[name].astype(np.int64) for name in people.asked.names])


@settings(deadline=None)
@given(seed=st.integers(0, 2**31), pool=st.integers(0, 300))
def test_structure_is_kept_whatever_is_drawn(people: People, seed: int, pool: int) -> None:
    drawn = drawn_at_random(people, 60, seed)
    made = unfolded(drawn, drawn_at_random(people, pool, seed + 1), people, rows=None, seed=seed)
    count = drawn[:, people.asked.names.index("count")] + 1
    assert np.array_equal(np.bincount(made.units), count)
    assert ((made.codes >= 0) & (made.codes < np.array(people.schema.sizes))).all()
    at = {name: place for place, name in enumerate(people.schema.names)}
    same = np.diff(made.units) == 0
    assert (np.diff(made.codes[:, at["sex"]])[same] == 0).all()
    # A date that is missing has the last code, so missing ones come last.
    assert (np.diff(made.codes[:, at["visited"]])[same] >= 0).all()
    assert np.array_equal(made.codes[np.flatnonzero(np.r_[True, ~same]), at["sex"]], drawn[:, 0])


@settings(deadline=None)
@given(seed=st.integers(0, 2**31), pool=st.integers(0, 300))
def test_structure_of_two_tables_is_kept_whatever_is_drawn(linked: People, seed: int, pool: int) -> None:
    drawn = drawn_at_random(linked, 60, seed)
    made = unfolded(drawn, drawn_at_random(linked, pool, seed + 1), linked, rows=None, seed=seed)
    count = drawn[:, linked.asked.names.index("count")]
    assert np.array_equal(np.bincount(made.units), np.maximum(count, 1))
    assert ((made.codes >= 0) & (made.codes < np.array(linked.schema.sizes))).all()
    first = made.codes[np.flatnonzero(np.diff(made.units, prepend=-1))]
    at = {name: place for place, name in enumerate(linked.schema.names)}
    assert np.array_equal(first[:, at["_merge"]] == LEFT_ONLY, count == 0)
    assert list(broken_structure(made.codes, made.units, linked)) == []


def test_people_without_a_row_fold_back_and_what_is_broken_about_them_is_found(
    config: RunConfig, people: People, linked: People
) -> None:
    columns, unit = people_with_chains(people, 300, 9)
    alone = unit % 4 == 0
    columns |= {"_merge": np.where(alone, LEFT_ONLY, 0)}
    table = table_of(linked, columns, unit)
    count = linked.asked.names.index("count")
    assert (table[:, count] == 0).sum() == 75
    made = unfolded(table, table, linked, rows=None, seed=2)
    asked = replace(config, schema=linked.schema)
    again = rows_as_asked(DrawnRows(made.codes, units=made.units), asked)
    assert np.array_equal(np.sort(again[:, count]), np.sort(table[:, count]))
    at = {name: place for place, name in enumerate(linked.schema.names)}
    first, several = (int(np.flatnonzero(made.codes[:, at["_merge"]] == kind)[0]) for kind in (LEFT_ONLY, 0))
    for place, name, code, said in (
        (first, "ward", 1, "one patient without a row has a cell of one"),
        (several, "_merge", 2, "one row belongs to no patient"),
        (
            int(np.flatnonzero(np.diff(made.units) == 0)[0]),
            "_merge",
            LEFT_ONLY,
            "one patient both has rows and has none",
        ),
    ):
        codes = made.codes.copy()
        codes[place, at[name]] = code
        assert said in list(broken_structure(codes, made.units, linked))


def test_rules_about_a_row_say_nothing_of_people_without_one(config: RunConfig, linked: People) -> None:
    lines = (
        "ward = heart",
        "visited is not missing",
        "sex = f",
        "if visited is missing then sex = f",
        "left >= visited",
    )
    rules = read_rules(lines, linked.schema)
    codes = {"sex": [1, 1], "visited": [365, 365], "left": [0, 0], "ward": [0, 0], "cost": [0, 0], "_merge": [1, 0]}
    rows = {name: np.array(values) for name, values in codes.items()}
    broken = {rules.lines[rule.line]: rule.broken(rows).tolist() for rule in rules.rules}
    assert broken == {
        "ward = heart": [False, True],
        "visited is not missing": [False, True],
        "sex = f": [True, True],
        "if visited is missing then sex = f": [False, True],
        "left >= visited": [False, False],
    }
    asked = read_rules((*lines, "cost is a multiple of 100 in 40 % of rows"), linked.asked)
    # Who has no row has the code behind the declared ones in every column about rows.
    empty = {name: linked.asked.size_of(name) - 1 for name in (*linked.by_row, *linked.made)}
    rows = {name: np.array([empty.get(name, 1), 0]) for name in linked.asked.names} | {"count": np.array([0, 1])}
    broken = {asked.lines[rule.line]: rule.broken(rows).tolist() for rule in asked.rules}
    assert broken == {
        "ward = heart": [False, True],
        "visited is not missing": [False, False],
        "sex = f": [True, False],
        "if visited is missing then sex = f": [False, False],
        "left >= visited": [False, False],
    }
    assert asked.heaps[0].where.kept(rows).tolist() == [False, True]


def test_the_rows_that_were_drawn_are_among_those_made(people: People) -> None:
    table = table_of(people, *people_with_chains(people, 400, 1))
    made = unfolded(table, table, people, rows=None, seed=3)
    names = people.schema.names
    held = {(unit, *row) for unit, row in zip(made.units.tolist(), made.codes.tolist(), strict=True)}
    first = [people.asked.names.index(name) for name in names]
    assert all((unit, *row) in held for unit, row in enumerate(table[:, first].tolist()))


def test_chains_are_kept(people: People) -> None:
    table = table_of(people, *people_with_chains(people, 3000, 2))
    made = unfolded(table, table, people, rows=None, seed=4)
    at = {name: place for place, name in enumerate(people.schema.names)}
    same = np.diff(made.units) == 0
    steps = {name: np.diff(made.codes[:, at[name]])[same] for name in ("visited", "ward", "cost")}
    assert (steps["visited"] == 30).mean() > 0.99
    assert (steps["ward"] == 0).mean() > 0.99
    # Costs of one person differ by at most six; those of two people by about thirty.
    assert np.abs(steps["cost"]).mean() < 6
    # The day of leaving moves with the day of the visit.
    assert (made.codes[:, at["left"]] - made.codes[:, at["visited"]] == 2).mean() > 0.99


def share_between(values: NDArray[np.int64], units: NDArray[np.int64]) -> float:
    """Return how much of the variance of values lies between people with several rows."""
    size = np.bincount(units)
    means = np.bincount(units, weights=values) / np.maximum(size, 1)
    several = size[units] > 2
    return float(1 - np.var((values - means[units])[several]) / np.var(values[several]))


@pytest.fixture(scope="module")
def forgetful(people: People) -> NDArray[np.int64]:
    """A table of people of whose next costs four in ten have changed places: pairs tell less than first rows."""
    table = table_of(people, *people_with_chains(people, 3000, 2)).copy()
    place = people.asked.names.index("next.cost")
    random = np.random.default_rng(5)
    following = np.flatnonzero((table[:, place] < people.absent_code("cost")) & (random.random(len(table)) < 0.4))
    table[following, place] = random.permutation(table[following, place])
    return table


def test_numbers_of_later_rows_are_those_of_first_rows_where_these_tell_more(
    people: People, forgetful: NDArray[np.int64]
) -> None:
    made = unfolded(forgetful, forgetful, people, rows=None, seed=4)
    assert share_between(made.codes[:, people.schema.names.index("cost")], made.units) > 0.9


def test_a_bug_in_where_numbers_come_from_is_found(
    people: People, forgetful: NDArray[np.int64], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(whole_people, "_told", lambda keys, targets: (tuple(keys), 0.0))
    made = unfolded(forgetful, forgetful, people, rows=None, seed=4)
    assert share_between(made.codes[:, people.schema.names.index("cost")], made.units) < 0.7


def test_numbers_that_rows_do_not_have_in_common_stay_apart(people: People, monkeypatch: pytest.MonkeyPatch) -> None:
    columns, unit = people_with_chains(people, 3000, 2)
    columns["cost"] = np.random.default_rng(6).integers(5, 85, len(unit))
    table = table_of(people, columns, unit)
    place = people.asked.names.index("next.cost")
    following = np.flatnonzero(table[:, place] < people.absent_code("cost"))
    table[following, place] = np.random.default_rng(5).permutation(table[following, place])

    def found() -> float:
        made = unfolded(table, table, people, rows=None, seed=4)
        return share_between(made.codes[:, people.schema.names.index("cost")], made.units)

    alike = found()
    # A usual value goes together with each row that it is the middle of.
    monkeypatch.setattr(whole_people._Pairs, "_is_own", staticmethod(lambda *_: True))
    assert alike < 0.32 < found()


def test_numbers_that_grow_from_row_to_row_still_do(people: People) -> None:
    columns, unit = people_with_chains(people, 3000, 2)
    place = np.arange(len(unit)) - np.flatnonzero(np.diff(unit, prepend=-1))[unit]
    columns["cost"] = np.minimum(columns["cost"] // 2 + 9 * place, 90)
    table = table_of(people, columns, unit)
    made = unfolded(table, table, people, rows=None, seed=4)
    steps = np.diff(made.codes[:, people.schema.names.index("cost")])[np.diff(made.units) == 0]
    assert (steps > 0).mean() > 0.9


def test_the_last_person_is_not_cut_to_meet_a_number_of_rows(people: People) -> None:
    table = table_of(people, *people_with_chains(people, 400, 1))
    made = unfolded(table, table, people, rows=100, seed=3)
    assert 100 <= len(made.codes) < 100 + people.most
    assert len(made.codes) - np.count_nonzero(made.units == made.units[-1]) < 100
    sizes = {tuple(row) for row in table[:, [0, people.asked.names.index("count")]].tolist()}
    first = np.flatnonzero(np.diff(made.units, prepend=-1))
    assert {(sex, count - 1) for sex, count in zip(made.codes[first, 0], np.bincount(made.units), strict=True)} <= sizes


def test_every_row_keeps_the_rules(people: People) -> None:
    at = {name: place for place, name in enumerate(people.schema.names)}
    rules = RulesOfPeople(read_rules(["if ward = surgery then cost < 200"], people.schema), people)

    def keeps(codes: NDArray[np.int64]) -> NDArray[np.bool_]:
        return np.asarray(codes[:, at["ward"]] != 1) | (codes[:, at["cost"]] < 20) | (codes[:, at["cost"]] == 91)

    drawn = drawn_at_random(people, 500, 5)
    places = [people.asked.names.index(name) for name in people.schema.names]
    drawn = drawn[keeps(drawn[:, places])]
    made = unfolded(drawn, drawn_at_random(people, 5000, 6), people, rows=None, seed=1, rules=rules)
    assert keeps(made.codes).all()
    assert not keeps(unfolded(drawn, drawn_at_random(people, 5000, 6), people, rows=None, seed=1).codes).all()


def test_places_are_those_of_the_pair(config: RunConfig, people: People) -> None:
    columns, unit = people_with_chains(people, 500, 8)
    table = table_of(people, columns, unit)
    at = {name: place for place, name in enumerate(people.asked.names)}
    count, place = table[:, at["count"]] + 1, table[:, at["place"]]
    start = np.array([columns["visited"][unit == one].min() for one in range(500)])
    hashes, key = made_up_hashes(unit, 7)
    del key
    # The table is in the order of the hashes of people.
    order = np.lexsort(tuple(hashes[np.flatnonzero(np.diff(unit, prepend=-1))].view(np.uint64)[:, ::-1].T))
    offset = (table[:, at["visited"]] - start[order]) // 30
    assert np.array_equal(place == PLACES.index("only"), count == 1)
    assert np.array_equal(place == PLACES.index("both"), count == 2)
    assert (offset[place == PLACES.index("first")] == 0).all()
    assert (offset == count - 2)[place == PLACES.index("last")].all()
    middle = place == PLACES.index("middle")
    assert ((offset > 0) & (offset < count - 2))[middle].all()


def test_made_rows_fold_back_to_as_many_people(config: RunConfig, people: People) -> None:
    table = table_of(people, *people_with_chains(people, 300, 9))
    made = unfolded(table, table, people, rows=None, seed=2)
    again = rows_as_asked(DrawnRows(made.codes, units=made.units), config)
    at = people.asked.names.index("count")
    assert np.array_equal(np.sort(again[:, at]), np.sort(table[:, at]))


def test_broken_structure_is_found(people: People) -> None:
    table = table_of(people, *people_with_chains(people, 300, 9))
    made = unfolded(table, table, people, rows=None, seed=2)
    at = {name: place for place, name in enumerate(people.schema.names)}
    assert list(broken_structure(made.codes, made.units, people)) == []
    several = int(np.flatnonzero(np.diff(made.units) == 0)[0])
    constants, order = made.codes.copy(), made.codes.copy()
    constants[several, at["sex"]] ^= 1
    order[several, at["visited"]] = order[several + 1, at["visited"]] + 1
    assert list(broken_structure(constants, made.units, people)) == ["'sex' is not the same in all rows of one patient"]
    assert list(broken_structure(order, made.units, people)) == [
        "the rows of one patient are not in the order of 'visited'"
    ]
    one = np.zeros_like(made.units)
    assert "one patient has more than 5 rows" in list(broken_structure(made.codes, one, people))
