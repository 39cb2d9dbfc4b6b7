"""What happens to an error nobody foresaw: a number on the screen, a kind and a place in the log, never its text."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from driving import TABLE, go, open_app, texts, upload_table
from streamlit.testing.v1 import AppTest

CANARY = "NHS-999-123"


def failing() -> None:
    import logging

    import streamlit as st

    from pages.ui.guards import guard, quiet_logs

    quiet_logs()
    with guard():
        float("NHS-999-123")

    @st.fragment
    @guard()
    def part() -> None:
        int("NHS-999-123")

    part()
    try:
        float("NHS-999-123")
    except ValueError as error:
        logging.getLogger("somebody.else").exception("broke: %s", error)
        logging.getLogger("somebody.else").warning("broke: %s", error)


def test_only_a_number_is_shown_and_only_a_place_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        app = AppTest.from_function(failing, default_timeout=300).run()
    assert len(app.error) == 2
    for error in app.error:
        assert "incident" in str(error.value)
        assert CANARY not in str(error.value)
    assert not app.exception
    assert CANARY not in caplog.text
    assert "ValueError" in caplog.text


def known() -> None:
    from pages.ui.guards import guard
    from synth.errors import SchemaError

    with guard():
        raise SchemaError("'[age](x)' needs a lowest and a highest value.")


def test_our_own_errors_are_shown_in_their_words() -> None:
    app = AppTest.from_function(known, default_timeout=300).run()
    (error,) = app.error
    assert str(error.value).replace("\\", "") == "'[age](x)' needs a lowest and a highest value."
    # A name cannot become a link: the brackets are shown letter for letter.
    assert "\\[age\\]" in str(error.value)


def test_fragments_and_dialogs_have_a_guard_of_their_own() -> None:
    import ast
    from pathlib import Path

    root = Path(__file__).resolve().parents[2]
    seen = 0
    for path in [root / "app.py", *(root / "pages").rglob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef):
                names = [ast.unparse(decorator) for decorator in node.decorator_list]
                if any("fragment" in name or "dialog" in name for name in names):
                    seen += 1
                    assert names[-1] == "guard()", f"{path.name}: {node.name}"
    assert seen


@pytest.mark.thorough
def test_while_the_database_is_away_pages_say_so_once_and_lose_nothing(
    own_server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", own_server.url)
    app = upload_table(open_app(), TABLE.encode())
    table = app.session_state["draft"]["table_id"]
    assert table is not None
    own_server.stop()
    for page in ("upload", "describe", "generate", "ledger", "admin"):
        app = go(app, page)
        (error,) = app.error
        assert "The database does not answer. Runs in progress wait for it" in str(error.value)
        assert not app.exception
        assert "nothing spent yet" not in texts(app)
    assert app.session_state["draft"]["table_id"] == table
    own_server.start()
    app = go(app, "upload")
    assert not app.error
    assert app.session_state["draft"]["table_id"] == table
