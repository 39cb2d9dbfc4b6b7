"""A DataFrame as lines: a row's line is the same whatever rows stand beside it, and however pandas stores them."""

from __future__ import annotations

import datetime
import io
from typing import Any

import numpy as np
import pandas as pd
import pytest
from frame_faults import DAY, FAULTS, NASTY, WAYS, honest, inferred, lines_of, planted

import synth
from synth.cli.frames import FORMAT, draft_schema, frame_as_table
from synth.errors import InputError
from synth.privacy.table import PrivateTable
from synth.schema import Schema, parse_column, parse_schema

COLUMNS: dict[str, Any] = {
    "person": {"type": "identifier"},
    "age": {"type": "number", "low": 0, "high": 100, "step": 1, "missing": True},
    "income": {"type": "number", "low": 0, "high": 9000, "step": 0.5, "missing": True},
    "job": {"type": "category", "values": ["1", "2.0", "3"], "other": True},
    "visited": {"type": "date", "low": "2021-01-01", "high": "2021-12-31", "missing": True},
    "smoker": {"type": "yes_no", "missing": True},
    "code": {"type": "category", "values": ["x"], "other": True},
    "note": {"type": "drop"},
}
SCHEMA = Schema(tuple(parse_column(name, declared) for name, declared in COLUMNS.items()), row_count="private")
ROWS = [honest(place) for place in range(7)]
LINES = [
    b"1,20,0,1,2021-03-04,yes,9007199254740992.0,",
    b"2,21,250,2.0,2021-03-05,no,9007199254740992.0,",
]


def moved_lines(nasty: str, way: str) -> int:
    """Count rows whose line is another one with somebody new behind them, or before them, or in place of the last."""
    alone, new = lines_of(inferred(ROWS), SCHEMA), NASTY[nasty]
    added = lines_of(WAYS[way]([*ROWS, new]), SCHEMA)
    replaced = lines_of(WAYS[way]([*ROWS[:-1], new]), SCHEMA)
    before = lines_of(inferred([new, *ROWS]), SCHEMA)
    if not len(added) == len(before) == len(alone) + 1 == len(replaced) + 1:
        return len(alone)
    pairs = [*zip(alone, added), *zip(alone, before[1:]), *zip(alone[:-1], replaced)]  # noqa: B905
    # The line of somebody new is one line, the same in both worlds.
    return sum(one != other for one, other in pairs) + (added[-1] != before[0])


def test_a_line_says_what_its_row_does() -> None:
    assert lines_of(inferred(ROWS), SCHEMA)[:2] == LINES
    assert lines_of(inferred([NASTY["nothing"]]), SCHEMA) == [b",,,,,,,"]


@pytest.mark.parametrize("way", WAYS)
def test_no_row_moves_the_line_of_another(way: str) -> None:
    assert not {nasty: moved for nasty in NASTY if (moved := moved_lines(nasty, way))}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_bug_that_lets_a_row_into_the_lines_of_others_is_seen(fault: str) -> None:
    new_york = {**honest(3), "visited": pd.Timestamp("2021-03-07T20:00", tz="America/New_York")}
    berlin = {**honest(4), "visited": new_york["visited"].tz_convert("Europe/Berlin")}
    assert lines_of(inferred([berlin]), SCHEMA)[0] == lines_of(inferred([new_york, berlin]), SCHEMA)[1]
    with planted(fault):
        assert lines_of(inferred([berlin]), SCHEMA)[0] != lines_of(inferred([new_york, berlin]), SCHEMA)[1] or any(
            moved_lines(nasty, way) for nasty in NASTY if nasty != "half a character" for way in WAYS
        )


def codes(frame: pd.DataFrame, schema: Schema) -> dict[str, list[int]]:
    rows = frame_as_table(frame, schema).getvalue()
    (table,) = PrivateTable.open(lambda: io.BytesIO(rows), "t", schema, FORMAT, account_key=b"k" * 32)
    return {name: table._column(name).tolist() for name in schema.names}


def test_cells_are_read_as_they_are_meant() -> None:
    frame = pd.DataFrame(
        {
            "age": [34, None, "35", True, "80kg", -5, float("inf")],
            "job": [1, 1.0, "1", 2, "2.0", False, " 3 "],
            "visited": [DAY, pd.Timestamp(DAY), "2021-03-04", None, np.datetime64(DAY), "04.03.2021", DAY],
            "smoker": [True, False, "yes", "no", 1, 0, None],
        },
        dtype=object,
    )
    schema = Schema(tuple(parse_column(name, COLUMNS[name]) for name in frame), row_count="private")
    day = (DAY - datetime.date(2021, 1, 1)).days
    assert codes(frame, schema) == {
        "age": [34, 101, 35, 1, 101, 0, 100],
        "job": [0, 0, 0, 1, 1, 3, 2],
        "visited": [day, day, day, 365, day, 365, day],
        "smoker": [1, 0, 1, 0, 1, 0, 2],
    }


def test_a_declared_pattern_takes_no_date_for_another() -> None:
    for pattern in ("%Y-%d-%m", "%d/%m/%Y", "%d %b %y"):
        declared = {"type": "date", "low": "2021-01-01", "high": "2021-12-31", "pattern": pattern, "missing": True}
        schema = Schema((parse_column("visited", declared),), row_count="private")
        frame = pd.DataFrame({"visited": [DAY, DAY.strftime(pattern)]}, dtype=object)
        assert codes(frame, schema)["visited"] == [62, 62]


@pytest.mark.parametrize("given", [None, [{"age": 3}], pd.Series([3]), "CANARY"])
def test_what_is_no_dataframe_is_refused_in_a_sentence(given: Any) -> None:
    for take in (draft_schema, lambda frame: frame_as_table(frame, SCHEMA), lambda frame: synth.Release(frame, SCHEMA)):
        with pytest.raises(InputError, match="must be a pandas DataFrame") as caught:
            take(given)
        assert "CANARY" not in str(caught.value)


@pytest.mark.parametrize("name", [3, ("CANARY", "b"), "CANARY\n", None, float("nan")])
def test_names_are_texts_and_are_not_quoted_where_they_are_none(name: Any) -> None:
    frame = pd.DataFrame([[1, 2]], columns=pd.Index(["age", name], dtype=object))
    with pytest.raises(InputError, match="column 2 of the DataFrame must be a text") as caught:
        frame_as_table(frame, SCHEMA)
    assert "CANARY" not in str(caught.value)


def test_a_name_is_given_once() -> None:
    twice = pd.DataFrame([[1, 2]], columns=["age", "age"])
    for take in (draft_schema, lambda frame: frame_as_table(frame, SCHEMA)):
        with pytest.raises(InputError, match="Two columns of the DataFrame are called 'age'"):
            take(twice)
    of_levels = pd.DataFrame([[1, 2]], columns=pd.MultiIndex.from_tuples([("age", "first"), ("age", "last")]))
    with pytest.raises(InputError, match="column 1 of the DataFrame must be a text"):
        draft_schema(of_levels)


def test_a_draft_follows_from_names_alone_and_becomes_a_schema() -> None:
    frame = inferred(ROWS)
    draft = synth.draft_schema(frame)
    assert draft == synth.draft_schema(inferred([NASTY["texts"]]))
    assert draft["columns"]["age"]["type"] == "number"
    with pytest.raises(InputError, match=r"."):
        parse_schema(draft)
    draft["columns"] = COLUMNS
    draft["unit"] |= {"protects": "patient", "rows_per_unit": 1}
    draft["row_count"] = "private"
    assert parse_schema(draft).names == SCHEMA.names
