"""Pages opened out of order: a sentence and a link, never an exception."""

from __future__ import annotations

import ast
import shutil
from pathlib import Path

import pytest
from driving import described, errors, go, open_app, texts

from pages.ui.draft import config_of
from pages.ui.session import application
from synth.store import WorkState

PAGES = Path(__file__).resolve().parents[2] / "pages"
NO_TABLE = "No table is open. Upload one, or try the demo table."
NONE_OPEN = "No run is open. Upload a table, or try the demo table."
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
        ("report", NONE_OPEN),
        ("release", NONE_OPEN),
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


@pytest.mark.four_cases
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


@pytest.fixture
def after_a_run(finished_home: tuple[Path, str, str], home: Path) -> tuple[str, str]:
    """Return a table and its run with a report, in an installation that nobody has open."""
    folder, table_id, run_id = finished_home
    shutil.copytree(folder, home)
    return table_id, run_id


@pytest.mark.parametrize(("page", "title"), [("report", "Read the report"), ("release", "What only you can confirm")])
def test_a_table_that_is_opened_again_brings_its_latest_run(
    after_a_run: tuple[str, str], page: str, title: str
) -> None:
    table_id, run_id = after_a_run
    app = open_app()
    app.button(key="list-begun").click().run()
    app.button(key=f"go-on:{table_id}").click().run()
    go(app, page)
    assert app.session_state["draft"]["run_id"] == run_id
    assert not app.info
    assert title in texts(app)
    assert app.query_params["run"] == run_id
    go(app, "generate")
    assert "The report is ready." in texts(app)


def test_a_page_opened_by_its_address_offers_tables_and_runs(after_a_run: tuple[str, str]) -> None:
    table_id, run_id = after_a_run
    app = go(open_app(), "report")
    # Names are shown only where they are asked for.
    assert "survey.csv" not in texts(app)
    app.button(key="list-begun").click().run()
    shown = texts(app).replace("*", "")
    assert "survey.csv · survey · 3 columns · described" in shown
    assert f"Run {run_id[:8]} of survey.csv · survey · ε = 1.00 · report ready" in shown
    app.button(key=f"open-run:{run_id}").click().run()
    assert "Read the report" in texts(app)
    held = app.session_state["draft"]
    assert (held["table_id"], held["run_id"], held["described"]) == (table_id, run_id, True)


def test_a_run_that_failed_after_its_charge_is_not_said_not_to_exist() -> None:
    app = described()
    held, opened = app.session_state["draft"], application()
    run = opened.reserve(config_of(held), table_id=held["table_id"])
    opened.ledger.spend(opened.ledger.charges_of(run.id)[0])
    opened.ledger.settle(run.id)
    assert opened.store.work.move(run.id, WorkState.FAILED, message="The disk was full.")
    go(app, "report")
    assert "This run stopped before it had a report." in [str(info.value) for info in app.info]
    go(app, "generate")
    assert errors(app) == ["The disk was full."]
    assert "The 1.00 stays spent." in texts(app)
