"""Workbooks, texts with a notation of their own and tables of a database: found, run and sealed, both relations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from audited_runs import WORLDS, Public, World, rows_of_people, start_home
from database_faults import FAULTS as DATABASE_FAULTS
from database_faults import WHERE, file_of, moved_about, planted
from found_runs import moved_by_finding, same_bytes
from found_worlds import WORLDS as OPEN_WORLDS
from found_worlds import LevelNoise, OpenWorld, exact_of, ordinary
from reading_faults import SHEET_FAULTS, plant_a_guessed_decimal_sign
from reading_here import read_all_here
from test_workbook_runs import KINDS
from worlds import Row, neighbours_of

from synth.privacy.more import finding as questions
from synth.privacy.more import found_columns
from synth.privacy.more.found_values import FoundValues
from synth.schema import TableFormat
from synth.schema.source import DatabaseSource
from synth.services import finding as findings
from synth.services.databases import form_of_rows

UNITS, EPSILON = 400, 30.0
SHEETS = ("xlsx", "ods")
WORDS = ("V45", "V57", "E888")
SOURCE = DatabaseSource(url="sqlite:////data/people.sqlite", table="people")
BROUGHT: dict[str, tuple[Row, ...]] = {
    **{name: kind.brought for name, kind in KINDS.items()},
    "database": ({"age": "V45", "town": b"\xff", "seen": "31.1.2020", "well": "?"},),
}
FORMS = {**{name: kind.form for name, kind in KINDS.items()}, "database": form_of_rows(SOURCE, TableFormat())}


def rows_of(world: World, *, coded: bool) -> list[Row]:
    """People of whom few have a day; their ages may be codes, most of them written like numbers and some words."""
    rows = [row if place % 20 == 19 else row | {"seen": ""} for place, row in enumerate(rows_of_people(world, UNITS))]
    return [row | {"age": WORDS[place % 3]} if coded and place % 8 == 0 else row for place, row in enumerate(rows)]


def check(name: str, world: World, home: Path, folder: Path, *, coded: bool = True, verify: bool = False) -> Public:
    """One unit changes no public byte, and moves no exact answer of the finding by more than its receipt states."""
    rows = rows_of(world, coded=coded)
    changed = neighbours_of(world, rows, BROUGHT[name], person="new", id_column="who")
    config = replace(world.config(UNITS, "independent", epsilon=EPSILON), format=FORMS[name])

    def file(rows: Sequence[Row]) -> bytes:
        laid_out = moved_about if rows is changed else None
        return file_of(folder, config.schema, rows, laid_out=laid_out) if name == "database" else KINDS[name].file(rows)

    before, *heard = same_bytes(config, file(rows), file(changed), home, verify=verify)
    assert any(moved_by_finding(before, *heard).values()), "what somebody brings is not read"
    return before


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return start_home(tmp_path_factory.mktemp("found-files") / "home")


@pytest.mark.audit
@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("kind", FORMS)
def test_no_row_of_a_file_changes_a_public_byte_of_what_was_found(
    kind: str, world: str, home: Path, tmp_path: Path
) -> None:
    before = check(kind, WORLDS[world], home, tmp_path, verify=True)
    assert "CategoryColumn(name='town'" in before["columns"]
    if kind != "database":  # whose ages are whole numbers by their declared type
        assert "CategoryColumn(name='age'" in before["columns"], "codes that are written like numbers"


def plant_a_look_at_which_may_be_codes(patch: pytest.MonkeyPatch) -> None:
    """Whether values of a column are asked for follows from an exact count of rows."""
    rows, right, opened = [0], found_columns._Kinds.may_be_codes.fget, findings.open_table
    assert right is not None

    def open_table(*given: object, **named: object) -> object:
        table = opened(*given, **named)
        rows[0] = table._rows
        return table

    patch.setattr(findings, "open_table", open_table)
    patch.setattr(found_columns._Kinds, "may_be_codes", property(lambda self: right(self) and rows[0] % 2 == 0))


def plant_a_look_at_whether_they_are_codes(patch: pytest.MonkeyPatch) -> None:
    """Whether the values found hold most cells is judged by how many texts there are."""
    texts: list[int] = []
    right = questions.count_texts
    judged = found_columns._number_or_codes

    def count_texts(*given: object) -> object:
        found = right(*given)
        texts.append(sum(map(len, found)))
        return found

    def number_or_codes(column: object, kinds: object, answer: object, values: FoundValues) -> object:
        of_rows = replace(kinds, texts=kinds.texts + 10**6 * (texts[-1] % 2))
        return judged(column, of_rows, answer, values)

    patch.setattr(questions, "count_texts", count_texts)
    patch.setattr(found_columns, "_number_or_codes", number_or_codes)


Plant = Callable[[pytest.MonkeyPatch], None]
FAULTS: dict[str, tuple[str, Plant]] = {
    **{f"{name}, {kind}": (kind, plant) for name, plant in SHEET_FAULTS.items() for kind in SHEETS},
    "a decimal sign is guessed, text": ("text", plant_a_guessed_decimal_sign),
    "rows tell which columns may be codes": ("xlsx", plant_a_look_at_which_may_be_codes),
    "texts tell which columns are codes": ("xlsx", plant_a_look_at_whether_they_are_codes),
}


@pytest.mark.audit
@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_bug_shows_in_a_finding_and_its_run(
    fault: str, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind, plant = FAULTS[fault]
    world = WORLDS["add or remove several rows" if fault.endswith(SHEETS) else "add or remove"]
    read_all_here(monkeypatch)
    plant(monkeypatch)
    with pytest.raises(AssertionError, match=r"moved by|depend|asked of the neighbour"):
        check(kind, world, home, tmp_path, coded="codes" in fault)


# Tables of a database, where every exact count is looked at -----------------------------------------------------------


def counted(world: OpenWorld, folder: Path, rows: Sequence[Row], **how: Any) -> Counter[tuple[str, object]]:
    """Count what a finding looks at in a table of a database that holds these rows."""
    data = file_of(folder, world.schema, rows, **how)
    return Counter(exact_of(world.session(data, LevelNoise(), form_of_rows(SOURCE, TableFormat(missing=("", "?"))))))


def check_counts(world: OpenWorld, folder: Path, where: str | None) -> None:
    """A unit more adds what it adds alone, wherever its rows lie in the table."""
    # Where there are ids, everybody has more rows than may be kept.
    others = ordinary(15, world.rows_per_unit + 2) if world.ids else ordinary(40)
    far = {"age": "999", "town": "Nowhere", "income": "2e7", "seen": "1805-01-01", "note": "says so", "person": "new"}
    new = [far, *({**line, "person": "new"} for line in ordinary(5, seed=9))][: 6 if world.ids else 1]
    odd = {**far, "income": b"\x00blob", "seen": "31.1.2020", "note": "O'Brien\n\"; --"}
    before = counted(world, folder, others, where=where)
    assert counted(world, folder, others, where=where, laid_out=moved_about) == before, "counts depend on the order"
    # Where there are none, the row of somebody new may be that of another.
    for brought in (new, [odd], [odd] if world.ids else others[2:3]):
        own = counted(world, folder, brought, where=where)
        mixed = [*brought[1:], *others[:9], *brought[:1], *others[9:]]
        after = counted(world, folder, mixed, where=where, laid_out=moved_about)
        assert after == before + own, "what a unit adds depends on others"


COUNTED = {"rows": ("add or remove", WHERE), "people": ("add or remove several rows", None)}


@pytest.mark.audit
@pytest.mark.parametrize("world", COUNTED)
def test_a_unit_of_a_database_adds_what_it_adds_alone(
    world: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read_all_here(monkeypatch)
    name, where = COUNTED[world]
    check_counts(OPEN_WORLDS[name], tmp_path, where)


@pytest.mark.audit
@pytest.mark.parametrize("fault", DATABASE_FAULTS)
def test_a_planted_bug_of_a_database_shows_in_exact_counts(
    fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read_all_here(monkeypatch)
    with planted(fault):
        for name, where in COUNTED.values():
            try:
                check_counts(OPEN_WORLDS[name], tmp_path, where)
            except AssertionError:
                return
    pytest.fail(f"'{fault}' is not noticed")
