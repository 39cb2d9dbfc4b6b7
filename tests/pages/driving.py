"""Driving the application without a browser: open it, read its words, and walk to a finished run."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from streamlit.testing.v1 import AppTest

from pages.ui.evidence import BADGES
from synth.store import EventKind

__all__ = [
    "BEFORE_A_CHARGE",
    "CODEBOOK",
    "LABELLED",
    "TABLE",
    "badges",
    "declare_people",
    "described",
    "errors",
    "go",
    "looked_at",
    "new_people",
    "open_app",
    "started",
    "texts",
    "upload_table",
    "uploader",
    "wait_for_run",
]

ROOT = Path(__file__).resolve().parents[2]

TABLE = "age,region,smoker\n" + "".join(
    f"{18 + number % 60},{('north', 'south')[number % 2]},{('yes', 'no')[number % 3 == 0]}\n" for number in range(200)
)
CODEBOOK = """
account: survey
unit: {protects: person, rows_per_unit: 1}
row_count: public
number_of_units: 200
people_at_most: 10000
budget: {epsilon: 1.0}
generator: {name: independent, options: {}}
rows: 100
columns:
  age: {type: number, low: 0, high: 120, step: 1, fallback: 40}
  region: {type: category, values: [north, south], fallback: north}
  smoker: {type: yes_no, yes: "yes", no: "no", fallback: "no"}
"""


LABELLED = CODEBOOK.replace("rows: 100", "rows: 100\nlabel: smoker\ngroups: [region]")
"""With a label, so that the report has predictions."""


def open_app() -> AppTest:
    """Open the application on its first page."""
    return AppTest.from_file(str(ROOT / "app.py"), default_timeout=300).run()


def go(app: AppTest, page: str) -> AppTest:
    """Open another page."""
    return app.switch_page(f"pages/{page}.py").run()


def texts(app: AppTest) -> str:
    """Return every word of the page, without the marks that protect names from markdown."""
    parts = [*app.markdown, *app.caption, *app.title, *app.header, *app.info, *app.warning, *app.error, *app.success]
    words = [str(part.value) for part in parts] + [f"{metric.label} {metric.value}" for metric in app.metric]
    words += [fold.label for fold in app.expander]
    return "\n".join(words).replace("\\", "")


def badges(app: AppTest) -> set[str]:
    """Return the kinds of numbers whose badges stand on the page, beside the legend in its header."""
    lines = [str(part.value) for part in (*app.markdown, *app.warning)]
    alone = [line for line in lines if line.count("-badge[") == 1]
    return {kind for kind, (words, _, _) in BADGES.items() for line in alone if words in line}


def errors(app: AppTest) -> list[str]:
    """Return the error texts of the page."""
    return [str(error.value).replace("\\", "") for error in app.error]


def upload_table(app: AppTest, content: bytes, name: str = "survey.csv", mime: str = "text/csv") -> AppTest:
    """Say whose table it is and upload it."""
    new_people(go(app, "upload"), "survey")
    uploader(app, "table").upload(name, content, mime)
    return app.run()


def new_people(app: AppTest, name: str) -> AppTest:
    """Name the people of a table; where others are in the ledger, say first that these are new."""
    if any(radio.key == "field:people" for radio in app.radio):
        app.radio(key="field:people").set_value("No, new people").run()
    return app.text_input(key="field:account").set_value(name).run()


def declare_people(app: AppTest) -> AppTest:
    """Answer the questions about the people on 2 Describe: 500 of them, one row each."""
    app.radio(key="field:protects-choice").set_value("person").run()
    app.pills(key="field:rows-choice").set_value("1").run()
    app.radio(key="field:row_count").set_value("public").run()
    return app.number_input(key="field:number_of_units").set_value(500).run()


def edit(app: AppTest, **rows: dict[str, Any]) -> AppTest:
    """Edit cells of the table of columns, by the name of the column."""
    names = [row["name"] for row in app.session_state["draft"]["columns"]]
    key = f"columns:{app.session_state['editor-round']}" if "editor-round" in app.session_state else "columns:0"
    edits = {names.index(name): cells for name, cells in rows.items()}
    app.session_state[key] = {"edited_rows": edits, "added_rows": [], "deleted_rows": []}
    return app.run()


def uploader(app: AppTest, name: str) -> Any:
    """Return the uploader of one kind of file, whatever round it is in."""
    return next(widget for widget in app.file_uploader if f"upload:{name}:" in str(widget.proto.id))


def described(codebook: str = CODEBOOK) -> AppTest:
    """Return an application with a small table that is fully described."""
    app = upload_table(open_app(), TABLE.encode())
    uploader(app, "codebook").upload("codebook.yaml", codebook.encode(), "application/yaml")
    app.run()
    go(app, "describe")
    app.button(key="continue-budget").click().run()
    return go(app, "budget")


def started(codebook: str = CODEBOOK) -> AppTest:
    """Return an application whose run has been started."""
    app = go(described(codebook), "generate")
    app.button(key="spend").click().run()
    app.button(key="confirm-spend").click().run()
    return app


def wait_for_run(app: AppTest, *states: str) -> str:
    """Wait until the run of this session reaches one of the states."""
    from pages.ui.session import application

    for _ in range(4000):
        state = application().run(app.session_state["draft"]["run_id"]).state
        if state in (states or ("reported", "failed", "cancelled")):
            return str(state)
        time.sleep(0.1)
    raise AssertionError("the run did not end in time")


BEFORE_A_CHARGE = "what is not as declared"
"""What every run from a page looks at."""


def looked_at() -> set[str]:
    """Return what was looked at of private rows."""
    from pages.ui.session import application

    return {event.detail["what"] for event in application().store.events.of_kind(EventKind.OWNER_VIEW)}
