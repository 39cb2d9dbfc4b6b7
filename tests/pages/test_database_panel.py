"""A table of a database in place of a file, on the screen of uploads."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import psycopg
import pytest
from database_here import asks_for_password
from driving import CODEBOOK, TABLE, errors, go, new_people, open_app, texts, uploader, wait_for_run
from streamlit.testing.v1 import AppTest

from pages.ui.session import application
from synth.schema.source import origin_sentences


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    found = tmp_path / "databases"
    found.mkdir()
    with sqlite3.connect(found / "survey.sqlite") as connection:
        connection.execute("CREATE TABLE survey (age INTEGER, region TEXT, smoker TEXT)")
        rows = [line.split(",") for line in TABLE.splitlines()[1:]]
        connection.executemany("INSERT INTO survey VALUES (?, ?, ?)", rows)
        connection.execute("CREATE VIEW people AS SELECT * FROM survey")
    connection.close()
    monkeypatch.setenv("HERMITAGE_DATABASES", f"db.example.org, {found}")
    return found


def at_the_panel(folder: Path, **said: str) -> AppTest:
    app = go(open_app(), "upload")
    new_people(app, "survey")
    app.text_input(key="database-url").set_value(f"sqlite:///{folder}/survey.sqlite").run()
    return filled(app, **said)


def filled(app: AppTest, **said: str) -> AppTest:
    for name, text in said.items():
        app.text_input(key=f"database-{name}").set_value(text)
    return app.run()


def read(app: AppTest) -> AppTest:
    return app.button(key="database-read").click().run()


def test_nothing_is_offered_unless_the_operator_lists_databases(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HERMITAGE_DATABASES", raising=False)
    app = go(open_app(), "upload")
    new_people(app, "survey")
    assert "database" not in texts(app)
    assert not [one for one in app.text_input if one.key == "database-url"]


@pytest.mark.thorough
def test_what_is_refused_is_said_there_and_nothing_typed_is_lost(folder: Path) -> None:
    app = at_the_panel(folder, table="nothing", where="age >= 18 AND town = 'x'", password="CANARY")
    assert f"This server may read from db.example.org, {folder}." in texts(app)
    assert "no table 'nothing'" in errors(read(app))[0]
    assert "'town' at character 15 is not a column" in errors(read(filled(app, table="survey")))[0]
    assert "character 8, a constant is missing" in errors(read(filled(app, where="age >= (SELECT 1)")))[0]
    assert "is a view or an external table" in errors(read(filled(app, table="people", where="")))[0]
    assert "a password does not belong" in errors(read(filled(app, url="postgresql://me:CANARY@db.example.org/x")))[0]
    assert "HERMITAGE_DATABASES" in errors(read(filled(app, url="postgresql://me@127.0.0.1/x")))[0]
    assert "HERMITAGE_DATABASES" in errors(read(filled(app, url=f"sqlite:///{folder.parent}/home/hermitage.sqlite")))[0]
    assert app.text_input(key="database-table").value == "people"
    assert app.text_input(key="database-password").value == "CANARY"
    assert "CANARY" not in texts(app)
    assert not application().intake.tables()
    assert not application().account_names()


@pytest.mark.thorough
@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_the_password_of_a_database_is_asked_for_beside_its_address(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("CREATE TABLE visits (age int)")
        connection.execute("INSERT INTO visits VALUES (34)")
    with asks_for_password(database_url, "CANARY secret") as url:
        host = url.rpartition("=")[2]
        monkeypatch.setenv("HERMITAGE_DATABASES", f"{host}:5432")
        app = go(open_app(), "upload")
        new_people(app, "survey")
        read(filled(app, url=url, table="visits"))
        assert errors(app) == ["The database asks for a password. Type it beside the address."]
        assert errors(read(filled(app, password="CANARY wrong"))) == [
            "The database does not accept this user name and password."
        ]
        assert app.text_input(key="database-table").value == "visits"
        assert "Stored, encrypted." in texts(read(filled(app, password="CANARY secret")))
    assert "CANARY" not in str(app.session_state["draft"])
    assert "database-password" not in app.session_state


@pytest.mark.usefixtures("without_trial")
@pytest.mark.usefixtures("worker_here")
def test_rows_of_a_database_go_the_way_of_a_file_to_a_certificate(folder: Path) -> None:
    app = at_the_panel(folder, table="survey", where="age >= 18", columns="age, region, smoker", password="CANARY")
    assert origin_sentences("selection")[0] in texts(app)
    words = texts(read(app))
    assert "Stored, encrypted." in words
    assert "Rows 200" in words
    assert "database-password" not in app.session_state
    uploader(app, "codebook").upload("codebook.yaml", CODEBOOK.encode(), "application/yaml")
    app.run()
    go(app, "describe")
    app.button(key="continue-budget").click().run()
    go(app, "budget")
    go(app, "generate")
    app.button(key="spend").click().run()
    app.button(key="confirm-spend").click().run()
    assert wait_for_run(app) == "reported"
    certificate = application().certificate(app.session_state["draft"]["run_id"])
    assert origin_sentences("selection")[0] in certificate["assumptions"]


@pytest.mark.thorough
def test_a_query_says_what_is_assumed_before_it_is_read(folder: Path) -> None:
    app = at_the_panel(folder)
    app.radio(key="database-what").set_value("My own query (SQL)").run()
    app.text_area(key="database-sql").set_value("SELECT * FROM people WHERE age > (SELECT min(age) FROM survey)").run()
    assert f"Assumed: {origin_sentences('query')[0]}" in texts(app)
    assert "Stored, encrypted." in texts(read(app))
    held = app.session_state["draft"]["format"]
    assert (held["origin"], held["kind"]) == ("query", "parquet")
    # A codebook that knows nothing of databases does not take the assumption away.
    uploader(app, "codebook").upload("codebook.yaml", CODEBOOK.encode(), "application/yaml")
    app.run()
    held = app.session_state["draft"]["format"]
    assert (held["origin"], held["kind"]) == ("query", "parquet")


@pytest.mark.thorough
@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_a_connection_that_has_a_name_is_chosen_and_asks_for_no_password(
    database_url: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("CREATE TABLE visits (age int)")
        connection.execute("INSERT INTO visits VALUES (34)")
        connection.execute("CREATE VIEW adults AS SELECT * FROM visits WHERE age > 17")
    monkeypatch.setenv("HERMITAGE_DATABASES", f"claims={database_url}, old=sqlite:///{folder}/survey.sqlite, {folder}")
    app = go(open_app(), "upload")
    new_people(app, "survey")
    assert app.selectbox(key="database-connection").options == ["claims", "old", "another, by its address"]
    assert not [one for one in app.text_input if one.key in ("database-url", "database-password")]
    assert app.radio(key="database-what").options == ["A table, or some of its rows", "A view"]
    assert database_url not in texts(app)
    assert app.button(key="database-read").disabled
    assert "name it as a 'view'" in errors(read(filled(app, table="adults")))[0]
    app.radio(key="database-what").set_value("A view").run()
    assert origin_sentences("view")[0] in texts(app)
    assert "Stored, encrypted." in texts(read(app))
    assert [one for one in app.warning if "may also change this table" in one.value]
    assert app.session_state["draft"]["format"]["origin"] == "view"
    assert app.session_state["draft"]["database"] == {
        "database-connection": "claims",
        "database-what": "A view",
        "database-table": "adults",
    }


@pytest.mark.thorough
def test_whoever_goes_from_a_query_to_a_named_connection_is_asked_what_that_can_give(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HERMITAGE_DATABASES", f"old=sqlite:///{folder}/survey.sqlite, {folder}")
    app = go(open_app(), "upload")
    new_people(app, "survey")
    app.selectbox(key="database-connection").set_value("another, by its address").run()
    app.radio(key="database-what").set_value("My own query (SQL)").run()
    app.selectbox(key="database-connection").set_value("old").run()
    assert app.radio(key="database-what").value == "A table, or some of its rows"
    assert "Stored, encrypted." in texts(read(filled(app, table="survey")))


@pytest.mark.thorough
def test_a_connection_that_is_there_no_more_is_not_chosen(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HERMITAGE_DATABASES", f"new=sqlite:///{folder}/survey.sqlite")
    app = open_app()
    app.session_state["draft"]["database"] = {"database-connection": "old", "database-table": "survey"}
    new_people(go(app, "upload"), "survey")
    assert app.selectbox(key="database-connection").value == "new"
    assert app.text_input(key="database-table").value == "survey"
    assert "Stored, encrypted." in texts(read(app))
