"""Neighbouring DataFrames, from their rows to whole numbers and to the sealed bundle, under both relations."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from audited_runs import WORLDS, World, rows_of_people, start_home, t5_whole_runs
from frame_faults import FAULTS, WAYS, planted
from test_bytes_to_answers import HELD_OUT, PEOPLE, ROWS, answers, assert_adds
from worlds import LABEL, Row, far_rows, ordinary_rows

from synth.cli.frames import frame_as_table
from synth.schema import Schema

NOBODY_ELSE_HAS = {"age": 1.5, "region": 7, "income": None, "job": True, "visited": "never", "smoker": 2, LABEL: pd.NaT}
"""Cells of types that move whole columns from one type to another."""


SEEN_IN_LINES = {"moments are looked up", "whole numbers told apart beyond 2^53"}
"""Bugs in cells that these rows do not have: tests/test_frames.py sees them."""


def typed(row: Row) -> dict[str, object]:
    """A row as somebody holds it in Python; where people are many, one is a long number that a float holds too."""
    return {name: cell for name, cell in row.items() if name != "height"} | {
        "person": 2**52 + 2 * int(str(row["person"]).rpartition(" ")[2]),
        "age": int(str(row["age"])),
        "income": int(float(str(row["income"]))),
        "visited": pd.Timestamp(str(row["visited"])),
        "smoker": {"yes": True, "no": False}.get(str(row["smoker"])),
    }


def odd(row: Row) -> dict[str, object]:
    return typed({**row, "person": "999"}) | NOBODY_ELSE_HAS


def of(world: object, rows: Sequence[dict[str, object]], way: str = "inferred") -> list[np.ndarray]:
    schema: Schema = world.schema
    return answers(world, frame_as_table(WAYS[way](rows), schema).getvalue())


def check_added(world: object, way: str) -> None:
    others = [typed(row) for row in ordinary_rows(15 if world.ids else 40, world.rows_per_unit)]
    # One row more is nobody's where people have ids, and makes floats of them.
    new = [odd(row) for row in far_rows(2 if world.ids else 1)]
    new += [{**new[0], "person": None}] if world.ids else []
    own = of(world, new)
    assert any(one.any() for one in own) or world is HELD_OUT
    before = of(world, others)
    assert_adds(before, of(world, [*others, *new], way), own)
    assert_adds(before, of(world, [*new, *others]), own)


def check_replaced(world: object) -> None:
    others = [typed(row) for row in ordinary_rows(40, 1)]
    new = odd(far_rows(1)[0])
    gone, own = of(world, [others[3]]), of(world, [new])
    after = of(world, [*others[:3], new, *others[4:]])
    assert_adds(of(world, others), after, [one - lost for one, lost in zip(own, gone, strict=True)])


@pytest.mark.audit
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("world", [ROWS, PEOPLE, HELD_OUT], ids=["rows", "people", "some held out"])
def test_one_more_row_adds_the_same_whatever_it_makes_of_the_columns(world: object, way: str) -> None:
    check_added(world, way)


@pytest.mark.audit
def test_one_row_for_another_adds_their_difference() -> None:
    check_replaced(ROWS)


@pytest.mark.audit
@pytest.mark.parametrize("fault", [fault for fault in FAULTS if fault not in SEEN_IN_LINES])
def test_a_planted_bug_shows_in_exact_answers(fault: str) -> None:
    caught = 0
    with planted(fault):
        for check in (
            lambda: check_added(PEOPLE, "joined"),
            lambda: check_added(PEOPLE, "categorical"),
            lambda: check_replaced(ROWS),
        ):
            try:
                check()
            except AssertionError:
                caught += 1
    assert caught


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return start_home(tmp_path_factory.mktemp("frames") / "home")


def frame_rows(world: World, units: int) -> list[dict[str, object]]:
    return [
        {
            "who": int(row["who"][1:]),
            "age": int(row["age"]),
            "town": row["town"],
            "seen": datetime.date.fromisoformat(row["seen"]),
            "well": row["well"] == "yes",
        }
        for row in rows_of_people(world, units)
    ]


@pytest.mark.audit
@pytest.mark.parametrize("name", WORLDS)
def test_no_row_of_a_dataframe_changes_a_public_byte(name: str, home: Path) -> None:
    world, units = WORLDS[name], 60
    config, rows = world.config(units, "independent"), frame_rows(world, units)
    new = {
        "who": 10**6,
        "age": None,
        "town": 3.5,
        "seen": pd.Timestamp("2020-03-01T23:00", tz="Asia/Tokyo"),
        "well": "?",
    }
    gone = rows[3]["who"] if world.row_count == "public" else None
    kept = (
        [row for row in rows if row["who"] != gone]
        if world.ids
        else [row for row in rows if row is not rows[3] or gone is None]
    )
    first = frame_as_table(WAYS["inferred"](rows), config.schema).getvalue()
    others = {way: frame_as_table(WAYS[way]([*kept, new]), config.schema).getvalue() for way in WAYS}
    assert len(set(others.values())) == 1
    t5_whole_runs(config, first, {"inferred": others["inferred"]}, home, verify=True)
