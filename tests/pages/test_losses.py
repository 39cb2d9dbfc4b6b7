"""4 Generate and the finding panel wait for the owner's word where most of a table would be lost."""

from __future__ import annotations

import pytest
from driving import CODEBOOK, TABLE, badges, go, open_app, texts, upload_table, uploader
from streamlit.testing.v1 import AppTest

from synth.store import EventKind


def opened(table: str, codebook: str = CODEBOOK) -> AppTest:
    """Return an application with a small table that is described, whatever its rows hold."""
    app = upload_table(open_app(), table.encode())
    uploader(app, "codebook").upload("codebook.yaml", codebook.encode(), "application/yaml")
    app.run()
    return go(app, "describe")


def ready(table: str) -> AppTest:
    app = opened(table)
    app.button(key="continue-budget").click().run()
    app = go(app, "generate")
    app.button(key="spend").click().run()
    return app


def keys(app: AppTest) -> set[str]:
    return {str(button.key) for button in app.button}


@pytest.mark.thorough
def test_a_run_waits_for_a_button_and_says_again_what_is_lost() -> None:
    from pages.ui.session import application

    app = ready(TABLE.replace("north", "Uplands").replace("south", "Uplands"))
    app.button(key="confirm-spend").click().run()
    words = texts(app)
    assert "Most would be lost of the table as it is declared. Nothing was spent." in words
    assert "'region': 100 % of the cells are none of the declared values." in words
    assert "owner_only" in badges(app)
    assert app.session_state["draft"]["run_id"] is None
    assert application().ledger_rows() == []
    assert not app.exception
    app.button(key="as-declared").click().run()
    run_id = app.session_state["draft"]["run_id"]
    assert run_id is not None
    assert "as-declared" not in keys(app)
    assert "Not everything in the table is as declared." in texts(app)
    assert "'region': 100 % of the cells are none of the declared values." in texts(app)
    application().cancel(run_id)


@pytest.mark.thorough
def test_an_owner_who_wants_no_look_is_told_nothing_and_none_is_recorded() -> None:
    from pages.ui.session import application

    app = ready(TABLE.replace("north", "Uplands").replace("south", "Uplands"))
    app.checkbox(key="look-before-run").uncheck().run()
    app.button(key="confirm-spend").click().run()
    run_id = app.session_state["draft"]["run_id"]
    assert run_id is not None
    assert "'region'" not in texts(app)
    store = application().store
    events = [store.events.of_account(one.id, EventKind.OWNER_VIEW) for one in store.accounts.all()]
    assert events == [()]
    application().cancel(run_id)


def test_a_run_of_a_table_as_declared_starts_at_once() -> None:
    from pages.ui.session import application

    app = ready(TABLE)
    app.button(key="confirm-spend").click().run()
    run_id = app.session_state["draft"]["run_id"]
    assert run_id is not None
    assert "as declared" not in texts(app)
    application().cancel(run_id)


def test_another_configuration_is_asked_about_anew() -> None:
    app = ready(TABLE.replace("north", "Uplands").replace("south", "Uplands"))
    app.button(key="confirm-spend").click().run()
    assert "as-declared" in keys(app)
    app.session_state["draft"]["rows"] = 101
    app.button(key="confirm-not").click().run()
    app.button(key="spend").click().run()
    assert "as-declared" not in keys(app)


def test_a_finding_waits_too() -> None:
    from pages.ui.session import application

    open_columns = CODEBOOK.replace("{type: category, values: [north, south], fallback: north}", "{type: find}")
    open_columns = open_columns.replace("epsilon: 1.0", "epsilon: 9.0")  # enough for a finding among 200 rows
    app = opened(TABLE.replace(",", ",x,").replace("age,x,region,x,smoker", "age,region,smoker"), open_columns)
    app.button(key="find-privately").click().run()
    assert "100 % of the lines cannot be split into the declared columns" in texts(app)
    assert application().ledger_rows() == []
    app.button(key="as-declared").click().run()
    assert [row.state for row in application().ledger_rows()] != []
    assert "as-declared" not in keys(app)
    application().findings.cancel(app.session_state["draft"]["table_id"])
