"""The draft is saved with its table: it survives a reload and a restart, and two tabs lose nothing of each other."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest
from driving import TABLE, described, go, open_app, texts, upload_table
from sqlalchemy import text
from streamlit.testing.v1 import AppTest
from test_describe import answer, edit, with_columns

from pages.ui.draft import body_of, changed_answers, fill_from_body, merged, new_draft, take_table
from pages.ui.session import application


def reloaded(app: AppTest, page: str) -> AppTest:
    """Open the application as a browser does that reloads a page: nothing but the address is left of the session."""
    fresh = open_app()
    for name in ("table", "run"):
        if name in app.query_params:
            fresh.query_params[name] = app.query_params[name]
    return go(fresh.run(), page)


def cells(app: AppTest, name: str) -> dict[str, Any]:
    return next(row for row in app.session_state["draft"]["columns"] if row["name"] == name)


@pytest.mark.parametrize("page", ["upload", "describe", "budget", "rehearse", "generate", "models", "ledger"])
def test_a_reload_brings_back_everything_that_was_typed(page: str) -> None:
    app = described()
    app.session_state["draft"]["epsilon"] = 1.7
    go(app, "describe")
    edit(app, age={"high": "99"})
    again = reloaded(app, page)
    assert body_of(again.session_state["draft"]) == body_of(app.session_state["draft"])
    assert cells(again, "age")["high"] == "99"
    assert again.session_state["draft"]["epsilon"] == 1.7
    assert not again.exception


def test_a_restart_of_the_server_brings_it_back() -> None:
    app = answer(with_columns("age,region"))
    edit(app, age={"role": "number", "low": "0", "high": "99"})
    application().close()
    from pages.ui.session import _application

    _application.clear()
    again = reloaded(app, "describe")
    assert (cells(again, "age")["high"], again.session_state["draft"]["number_of_units"]) == ("99", 500)
    shown = again.data_editor[0].value
    assert shown.loc[shown["name"] == "age", "high"].item() == "99"
    assert "Saved " in texts(again)


def test_two_tabs_change_different_cells_and_both_stay() -> None:
    one = with_columns("age,region")
    other = reloaded(one, "describe")
    edit(one, age={"low": "1"})
    edit(other, region={"role": "category", "categories": "north, south"})
    # What was typed here stays, what was typed there is shown, and the page says so.
    assert cells(other, "region")["categories"] == "north, south"
    assert cells(other, "age")["low"] == "1"
    assert "One answer was changed in another tab meanwhile." in texts(other)
    one.run()
    assert cells(one, "region")["categories"] == "north, south"
    assert "changed in another tab" in texts(one)
    assert "changed in another tab" not in texts(one.run())


def test_of_one_cell_that_two_tabs_change_the_later_change_stays() -> None:
    one = with_columns("age")
    other = reloaded(one, "describe")
    edit(one, age={"low": "1", "high": "50"})
    edit(other, age={"low": "2"})
    assert (cells(other, "age")["low"], cells(other, "age")["high"]) == ("2", "50")
    one.run()
    assert cells(one, "age")["low"] == "2"


def test_nothing_is_written_where_nothing_was_changed() -> None:
    app = answer(with_columns("age"))
    number = application().drafts.number(app.session_state["draft"]["table_id"])
    for page in ("upload", "describe", "ledger"):
        go(app, page)
    assert application().drafts.number(app.session_state["draft"]["table_id"]) == number


def test_one_cell_of_a_hundred_columns_is_saved_within_the_rerun() -> None:
    app = with_columns(",".join(f"c{place}" for place in range(100)))
    table_id = app.session_state["draft"]["table_id"]
    number = application().drafts.number(table_id)
    edit(app, c7={"role": "number", "low": "3"})
    found = application().drafts.find(table_id)
    assert found is not None
    assert (found.number, found.body["columns"]["c7"]["low"]) == (number + 1, "3")


def test_a_deleted_table_takes_its_draft_along() -> None:
    app = answer(with_columns("age"))
    table_id = app.session_state["draft"]["table_id"]
    application().delete_table(table_id)
    assert application().drafts.find(table_id) is None
    app.run()
    assert application().drafts.find(table_id) is None
    # What was typed is not lost: the same columns of a new upload have it.
    assert app.session_state["draft"]["number_of_units"] == 500


def test_while_the_database_is_away_nothing_is_lost(home: Path) -> None:
    app = with_columns("age")
    with sqlite3.connect(home / "hermitage.sqlite") as connection:
        connection.execute("ALTER TABLE drafts RENAME TO away")
    edit(app, age={"low": "1"})
    assert "Not saved yet." in texts(app)
    assert cells(app, "age")["low"] == "1"
    with sqlite3.connect(home / "hermitage.sqlite") as connection:
        connection.execute("ALTER TABLE away RENAME TO drafts")
    app.run()
    assert "Not saved yet." not in texts(app.run())
    assert cells(reloaded(app, "describe"), "age")["low"] == "1"


def test_no_cell_of_the_table_is_in_what_is_saved(home: Path) -> None:
    app = go(upload_table(open_app(), TABLE.replace("north", "canary-cell").encode()), "describe")
    answer(app)
    with application().store.reading() as connection:
        (body,) = connection.execute(text("SELECT body FROM drafts")).scalars().all()
    assert "age" in body
    assert "canary-cell" not in body
    assert b"canary-cell" not in (home / "hermitage.sqlite").read_bytes()


def test_bodies_are_merged_answer_by_answer() -> None:
    before = {"a": 1, "b": 2, "columns": {"x": {"low": "", "high": ""}}, "source": {"x": "preset"}}
    theirs = {"a": 9, "b": 2, "columns": {"x": {"low": "1", "high": ""}}, "source": {"x": "preset", "y": "file"}}
    ours = {"a": 1, "b": 3, "columns": {"x": {"low": "", "high": "5"}}, "source": {}}
    whole = {"a": 9, "b": 3, "columns": {"x": {"low": "1", "high": "5"}}, "source": {"y": "file"}}
    assert merged(theirs, before, ours) == whole
    assert changed_answers(ours, whole) == 3


def test_a_draft_of_another_version_is_read_as_far_as_it_is_known() -> None:
    draft = new_draft()
    take_table(draft, "t", "survey", [("age", "number")])
    fill_from_body(draft, {"epsilon": 3.0, "gone": 1, "columns": {"age": {"low": "1", "later": True}, "b": {}}})
    assert (draft["epsilon"], draft["columns"][0]["low"], draft["columns"][0]["high"]) == (3.0, "1", "")
    assert "gone" not in draft
