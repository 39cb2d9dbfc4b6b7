"""The draft is saved with its table: it survives a reload and a restart, and two tabs lose nothing of each other."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest
from driving import CODEBOOK, TABLE, declare_people, described, go, new_people, open_app, texts, upload_table, uploader
from sqlalchemy import text
from streamlit.testing.v1 import AppTest
from test_describe import edit, with_columns

from pages.ui.draft import body_of, changed_answers, fill_from_body, merged, new_draft, take_table
from pages.ui.session import application


def reloaded(app: AppTest, page: str) -> AppTest:
    """Open the application as a browser does that reloads a page: nothing but the address is left of the session."""
    fresh = open_app()
    for name in ("table", "run", "begun"):
        if name in app.query_params:
            fresh.query_params[name] = app.query_params[name]
    return go(fresh.run(), page)


def cells(app: AppTest, name: str) -> dict[str, Any]:
    return next(row for row in app.session_state["draft"]["columns"] if row["name"] == name)


@pytest.mark.thorough
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


def begun() -> AppTest:
    app = go(open_app(), "upload")
    new_people(app, "survey")
    app.selectbox(key="field:format-separator").set_value(";").run()
    return app


def test_what_is_typed_before_a_table_has_come_survives_a_reload_and_goes_on_with_the_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HERMITAGE_DATABASES", str(tmp_path))
    app = begun()
    app.text_input(key="database-url").set_value("sqlite:////data/clinic.sqlite").run()
    app.text_input(key="database-table").set_value("visits").run()
    app.text_input(key="database-password").set_value("CANARY").run()
    uploader(app, "codebook").upload("codebook.yaml", CODEBOOK.encode(), "application/yaml")
    app.run()
    again = reloaded(app, "upload")
    assert body_of(again.session_state["draft"]) == body_of(app.session_state["draft"])
    assert again.session_state["draft"]["people"] == "No, new people"
    assert again.text_input(key="field:account").value == "survey"
    assert again.text_input(key="database-table").value == "visits"
    assert again.text_input(key="database-password").value == ""
    assert "Saved " in texts(again)
    with application().store.reading() as connection:
        (body,) = connection.execute(text("SELECT body FROM begun")).scalars().all()
    assert "CANARY" not in body
    uploader(again, "table").upload("survey.csv", TABLE.encode(), "text/csv")
    again.run()
    assert cells(again, "age")["high"] == "120"
    assert application().begun.latest(9) == ()
    assert "begun" not in again.run().query_params


def test_an_address_with_a_password_is_kept_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, home: Path
) -> None:
    monkeypatch.setenv("HERMITAGE_DATABASES", str(tmp_path))
    app = begun()
    app.text_input(key="database-url").set_value("postgresql://me:CANARY@db.example.org/x").run()
    assert app.session_state["draft"]["database"] == {}
    assert b"CANARY" not in (home / "hermitage.sqlite").read_bytes()


@pytest.mark.thorough
def test_start_lists_what_was_begun_and_goes_on_with_it() -> None:
    one = with_columns("age,region")
    edit(one, age={"role": "number", "low": "0", "high": "99"})
    other = begun()
    app = open_app()
    # Nothing of another tab is on the page before somebody asks for it.
    assert "survey.csv" not in texts(app)
    app.button(key="list-begun").click().run()
    shown = texts(app).replace("*", "")
    assert "survey.csv · survey · 2 columns" in shown
    assert "no table yet · survey" in shown
    begun_id, table_id = other.session_state["draft"]["begun_id"], one.session_state["draft"]["table_id"]
    app.button(key=f"go-on:{begun_id}").click().run()
    assert app.selectbox(key="field:format-separator").value == ";"
    go(app, "start").button(key="list-begun").click().run()
    app.button(key=f"go-on:{table_id}").click().run()
    assert cells(app, "age")["high"] == "99"
    assert app.query_params["table"] == table_id
    assert "begun" not in app.query_params


def test_what_nobody_goes_on_with_is_deleted_when_a_table_would_be(monkeypatch: pytest.MonkeyPatch) -> None:
    begun()
    application().purge()
    assert len(application().begun.latest(9)) == 1
    with application().store.writing() as connection:
        connection.execute(text("UPDATE begun SET saved = 1577836800"))
    application().purge()
    assert application().begun.latest(9) == ()


@pytest.mark.thorough
def test_rules_and_groups_of_two_tabs_are_merged_one_by_one() -> None:
    one = described()
    other = reloaded(one, "describe")
    for app, rule in ((one, "age >= 18"), (other, "smoker = no")):
        go(app, "describe")
        app.selectbox(key="rule-kind").set_value("Type the rule yourself").run()
        app.text_input(key="rule-typed:0").set_value(rule).run()
    one.button(key="rule-add").click().run()
    other.button(key="rule-add").click().run()
    assert other.session_state["draft"]["rules"] == ["age >= 18", "smoker = no"]
    assert "One answer was changed in another tab." in texts(other)
    other.button(key="rule-delete:0").click().run()
    assert one.run().session_state["draft"]["rules"] == ["smoker = no"]


@pytest.mark.thorough
def test_a_restart_of_the_server_brings_it_back() -> None:
    app = with_columns("age,region")
    edit(app, age={"role": "number", "low": "0", "high": "99"})
    application().close()
    from pages.ui.session import _application

    _application.clear()
    again = reloaded(app, "describe")
    assert (cells(again, "age")["high"], again.session_state["draft"]["number_of_units"]) == ("99", 500)
    shown = again.data_editor[0].value
    assert shown.loc[shown["name"] == "age", "high"].item() == "99"
    assert "Saved " in texts(again)


@pytest.mark.thorough
def test_two_tabs_change_different_cells_and_both_stay() -> None:
    one = with_columns("age,region")
    other = reloaded(one, "describe")
    edit(one, age={"low": "1"})
    edit(other, region={"role": "category", "categories": "north, south"})
    # What was typed here stays, what was typed there is shown, and the page says so.
    assert cells(other, "region")["categories"] == "north, south"
    assert cells(other, "age")["low"] == "1"
    assert "One answer was changed in another tab." in texts(other)
    one.run()
    assert cells(one, "region")["categories"] == "north, south"
    assert "changed in another tab" in texts(one)
    assert "changed in another tab" not in texts(one.run())


@pytest.mark.thorough
def test_of_one_cell_that_two_tabs_change_the_later_change_stays() -> None:
    one = with_columns("age")
    other = reloaded(one, "describe")
    edit(one, age={"low": "1", "high": "50"})
    edit(other, age={"low": "2"})
    assert (cells(other, "age")["low"], cells(other, "age")["high"]) == ("2", "50")
    one.run()
    assert cells(one, "age")["low"] == "2"


@pytest.mark.thorough
def test_nothing_is_written_where_nothing_was_changed() -> None:
    app = with_columns("age")
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


@pytest.mark.thorough
def test_a_deleted_table_takes_its_draft_along() -> None:
    app = with_columns("age")
    table_id = app.session_state["draft"]["table_id"]
    application().intake.delete_table(table_id)
    assert application().drafts.find(table_id) is None
    app.run()
    assert application().drafts.find(table_id) is None
    # What was typed is not lost: the same columns of a new upload have it.
    assert app.session_state["draft"]["number_of_units"] == 500


@pytest.mark.thorough
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


@pytest.mark.thorough
def test_no_cell_of_the_table_is_in_what_is_saved(home: Path) -> None:
    app = go(upload_table(open_app(), TABLE.replace("north", "canary-cell").encode()), "describe")
    declare_people(app)
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


def test_lists_are_merged_item_by_item() -> None:
    before, theirs, ours = {"rules": ["a", "b", "c"]}, {"rules": ["b", "c", "x"]}, {"rules": ["a", "b", "y"]}
    assert merged(theirs, before, ours) == {"rules": ["b", "x", "y"]}
    assert changed_answers(ours, {"rules": ["b", "x", "y"]}) == 2
    # What is no list of choices is one answer: of its items the order matters.
    assert merged({"options": [2]}, {"options": [1]}, {"options": [1, 3]}) == {"options": [1, 3]}


def test_a_draft_of_another_version_is_read_as_far_as_it_is_known() -> None:
    draft = new_draft()
    take_table(draft, "t", "survey", [("age", "number")])
    fill_from_body(draft, {"epsilon": 3.0, "gone": 1, "columns": {"age": {"low": "1", "later": True}, "b": {}}})
    assert (draft["epsilon"], draft["columns"][0]["low"], draft["columns"][0]["high"]) == (3.0, "1", "")
    assert "gone" not in draft
