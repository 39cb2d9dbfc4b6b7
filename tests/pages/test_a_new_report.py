"""A report is one folder and one line: with that line it is in every document, on a tab and on the command line."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest
from driving import errors, go, open_app, texts

from synth.cli import main
from synth.cli.local import run_locally
from synth.reports import registry
from synth.schema import NumberColumn, RunConfig, Schema, YesNoColumn

CONFIG = RunConfig(
    schema=Schema((NumberColumn("age", 0, 9, 1, fallback=5), YesNoColumn("ill", fallback="no")), number_of_units=60),
    account="town",
    epsilon=5.0,
    delta=1e-6,
    people_at_most=1000,
    rows=50,
    generator="independent",
    holdout=0.0,
)


@pytest.fixture
def folder(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(registry, "REPORTS", [*registry.REPORTS, "toy_report"])
    table = tmp_path / "people.csv"
    table.write_text("age,ill\n" + "0,yes\n3,no\n" * 30)
    run_locally(CONFIG, tmp_path / "out", table=table, keep_table=True)
    return tmp_path / "out"


def numbers(path: Path) -> dict[str, dict[str, Any]]:
    return {entry["id"]: entry for entry in json.loads(path.read_text())["evidence"]}


@pytest.mark.thorough
def test_one_line_puts_a_report_into_every_document(folder: Path) -> None:
    assert numbers(folder / "report.json")["toys.first"]["kind"] == "safe"
    assert numbers(folder / "owner" / "report.json")["toys.exact"]["value"] == 30
    with zipfile.ZipFile(folder / "bundle.zip") as bundle:
        page = bundle.read("report.html").decode()
    assert "<h2>All the toys</h2>" in page
    assert "Toys for the owner" not in page


@pytest.mark.thorough
def test_what_it_can_be_asked_is_asked_on_the_command_line(folder: Path) -> None:
    assert main(["report", str(folder), "--toys-twice"]) == 0
    assert numbers(folder / "owner" / "report.json")["toys.exact"]["value"] == 60


@pytest.mark.thorough
def test_it_is_drawn_on_its_tab(folder: Path) -> None:
    run = json.loads((folder / "owner" / "run.json").read_text())
    app = open_app()
    app.query_params["table"], app.query_params["run"] = run["table_id"], run["run_id"]
    app = go(app.run(), "report")
    assert "Toys in public" not in texts(app)
    app.session_state["report-tab"] = "○ Toys"
    app.run()
    assert not errors(app)
    assert "Toys in public" in texts(app)
    assert "Toys for the owner" in texts(app)
