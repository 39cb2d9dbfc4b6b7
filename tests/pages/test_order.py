"""Pages opened out of order: a sentence and a link, never an exception."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from driving import described, go, open_app, texts

PAGES = Path(__file__).resolve().parents[2] / "pages"
NO_TABLE = "There is no table yet. Upload one, or try the demo table."
NO_RUN = "There is no run of this table yet. Choose a generator and start one."


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("page", "sentence"),
    [
        ("describe", NO_TABLE),
        ("budget", NO_TABLE),
        ("rehearse", NO_TABLE),
        ("generate", NO_TABLE),
        ("models", NO_TABLE),
        ("report", NO_RUN),
        ("release", NO_RUN),
        ("ledger", "Nothing has been spent yet. This page will list who is protected and what each release cost."),
    ],
)
def test_a_page_opened_first_says_what_is_missing(page: str, sentence: str) -> None:
    app = go(open_app(), page)
    assert sentence in [str(info.value) for info in app.info]
    assert not app.exception
    assert not app.error
    assert "Pages load nothing from other servers; no usage statistics." in texts(app)


@pytest.mark.thorough
@pytest.mark.parametrize("page", ["report", "release"])
def test_after_the_description_a_run_is_missing(page: str) -> None:
    app = go(described(), page)
    assert NO_RUN in [str(info.value) for info in app.info]


@pytest.mark.thorough
@pytest.mark.parametrize(
    "page", ["start", "upload", "describe", "budget", "rehearse", "generate", "models", "report", "release", "ledger"]
)
def test_an_unknown_identifier_in_the_address_is_forgotten(page: str) -> None:
    app = open_app()
    app.query_params["table"] = "00000000-0000-0000-0000-000000000000"
    app.query_params["run"] = "../../etc/passwd"
    go(app, page)
    assert not app.exception
    assert not app.error
    assert app.session_state["draft"]["table_id"] is None
    assert app.session_state["draft"]["run_id"] is None


@pytest.mark.parametrize("page", ["describe", "report", "ledger"])
def test_a_cold_server_shows_a_page_inside_the_application(page: str) -> None:
    """Streamlit runs files of ``pages`` without app.py until it has seen ``st.navigation`` once."""
    words = texts(go(open_app(), page))
    assert "Pages load nothing from other servers; no usage statistics." in words
    assert "● safe to publish" in words


@pytest.mark.parametrize(
    "page",
    [
        "start",
        "upload",
        "describe",
        "budget",
        "rehearse",
        "generate",
        "report",
        "release",
        "compare",
        "ledger",
        "admin",
    ],
)
def test_every_page_says_that_whoever_reaches_it_sees_all_of_it(page: str) -> None:
    assert "one installation has one owner, and anyone who reaches it sees everything" in texts(go(open_app(), page))


def test_every_page_goes_through_the_application() -> None:
    for path in PAGES.glob("*.py"):
        if path.name != "__init__.py":
            last = ast.parse(path.read_text(encoding="utf-8")).body[-1]
            assert isinstance(last, ast.If), path.name
            assert ast.unparse(last.test) == "__name__ == '__main__'", path.name
            # Drawn only when Streamlit runs the file: tests and the server's start import it for its pieces.
            assert [ast.unparse(line) for line in last.body] == ["through_the_application()", "screen()"], path.name
