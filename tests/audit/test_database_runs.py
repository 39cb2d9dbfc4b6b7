"""Neighbouring tables of a database, from their rows to whole numbers and to the sealed bundle, both relations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from audited_runs import WORLDS, rows_of_people, start_home, t5_whole_runs
from database_faults import FAULTS, WHERE, file_of, moved_about, planted
from test_bytes_to_answers import HELD_OUT, ODD, PEOPLE, ROWS, answers, assert_adds
from worlds import LABEL, Row, far_rows, neighbours_of, ordinary_rows

from synth.schema import TableFormat
from synth.schema.source import DatabaseSource
from synth.services.databases import form_of_rows

NEW = "person 12 too"
"""Who stands between others in every order."""

ODDER = {**ODD, "income": b"\x00blob", "job": "O'Brien\n\"; --", LABEL: 1.5}


def check_added(world: object, folder: Path, *, where: str | None = None) -> None:
    """One unit more adds the same, wherever its rows lie; and how rows lie says nothing."""

    def of(rows: list[Row], **how: object) -> list[np.ndarray]:
        return answers(world, file_of(folder, world.schema, rows, where=where, **how))

    others = ordinary_rows(15 if world.ids else 40, world.rows_per_unit)
    before = of(others)
    assert_adds(before, of(others, laid_out=moved_about), [np.zeros_like(one) for one in before])
    new = [{**row, "person": NEW} for row in (*far_rows(2), *ordinary_rows(3, 1, seed=7))]
    # The cells of some are nothing that was declared, of which the condition does not hold.
    odd = new[0] if where else {**new[0], **ODDER, "person": NEW}
    for brought in ([odd], new) if world.ids else ([odd], [others[2]]):
        own = of(brought)
        assert any(one.any() for one in own) or world is HELD_OUT
        assert_adds(before, of([*others, *brought]), own)
        mixed = [*brought[1:], *others[:9], *brought[:1], *others[9:]]
        assert_adds(before, of(mixed, laid_out=moved_about), own)


def check_replaced(folder: Path, *, where: str | None = None) -> None:
    def of(rows: list[Row]) -> list[np.ndarray]:
        return answers(ROWS, file_of(folder, ROWS.schema, rows, where=where))

    others, new = ordinary_rows(40, 1), far_rows(1)[0] | {"person": NEW}
    gone, own = of([others[3]]), of([new])
    after = of([*others[:3], *others[4:], new])
    assert_adds(of(others), after, [one - lost for one, lost in zip(own, gone, strict=True)])


CHECKS: dict[str, Callable[[Path], None]] = {
    "rows": lambda folder: check_added(ROWS, folder),
    "rows for which a condition holds": lambda folder: check_added(ROWS, folder, where=WHERE),
    "people": lambda folder: check_added(PEOPLE, folder),
    "some held out": lambda folder: check_added(HELD_OUT, folder, where=WHERE),
    "one for another": check_replaced,
    "one for another where a condition holds": lambda folder: check_replaced(folder, where=WHERE),
}


@pytest.mark.audit
@pytest.mark.parametrize("check", CHECKS)
def test_one_unit_adds_the_same_wherever_its_rows_lie(check: str, tmp_path: Path) -> None:
    CHECKS[check](tmp_path)


@pytest.mark.audit
def test_rows_for_which_the_condition_does_not_hold_change_nothing(tmp_path: Path) -> None:
    others, out = ordinary_rows(40, 1), [{**far_rows(1)[0], "person": "out", "age": age} for age in (-1, 1001, "80kg")]
    first, second = (file_of(tmp_path, ROWS.schema, rows, where=WHERE) for rows in (others, [*out, *others]))
    assert first == second


@pytest.mark.audit
@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_bug_shows_in_exact_answers(fault: str, tmp_path: Path) -> None:
    with planted(fault):
        for check in ("rows for which a condition holds", "people"):
            try:
                CHECKS[check](tmp_path)
            except AssertionError:
                return
    pytest.fail(f"'{fault}' is not noticed")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return start_home(tmp_path_factory.mktemp("databases") / "home")


@pytest.mark.audit
@pytest.mark.parametrize("sql", [None, "SELECT * FROM people"], ids=["table", "query"])
@pytest.mark.parametrize("name", WORLDS)
def test_no_row_of_a_database_changes_a_public_byte(name: str, sql: str | None, home: Path, tmp_path: Path) -> None:
    world, units = WORLDS[name], 60
    rows = rows_of_people(world, units)
    new = {"age": 10**6, "town": b"\xff", "seen": "31.1.2020", "well": "?"}
    changed = neighbours_of(world, rows, [new], person="new", id_column="who")
    source = DatabaseSource(url="sqlite:////data/people.sqlite", **({"sql": sql} if sql else {"table": "people"}))
    config = replace(world.config(units, "independent"), format=form_of_rows(source, TableFormat()))
    first = file_of(tmp_path, config.schema, rows, sql=sql)
    second = file_of(tmp_path, config.schema, changed, sql=sql, laid_out=moved_about)
    before, _ = t5_whole_runs(config, first, {"neighbour": second}, home, verify=True)
    assumed = before["shown after the release"]["certificate"]["assumptions"]
    assert any("result of a query" in sentence for sentence in assumed) == bool(sql)
