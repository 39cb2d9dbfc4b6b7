"""From a file of one's own to the first report in a real browser: clicks and typed characters, counted."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from serving import started_server
from walking import Walker

from synth.application import Application

pytestmark = pytest.mark.browser

MOST_CLICKS = 15
DATA = Path(os.environ.get("HERMITAGE_DATA", "nowhere"))


def german(folder: Path) -> Path:
    """Write a table as a German hospital's program does: Windows' letters, decimal commas, points, days first."""
    stations, codes = ("Chirurgie", "Innere", "Pädiatrie"), ("K35.8", "J18.9", "I21.0")
    lines = ["Fall;Aufnahme;Größe (cm);Kosten (€);Station;Raucher;Diagnose"]
    for place in range(600):
        day, month = 1 + place * 7 % 28, 1 + place % 12
        euros = 400 + place * 37 % 2600
        smokes = ("ja", "nein", "")[place % 3]
        lines.append(
            f"F{place // 2:04d};{day:02d}.{month:02d}.{2023 + place % 2};{160 + place % 30},{place % 10};"
            f"{euros // 1000}.{euros % 1000:03d},{place % 90 + 10};{stations[place % 3]};{smokes};{codes[place % 3]}"
            if euros >= 1000
            else f"F{place // 2:04d};{day:02d}.{month:02d}.{2023 + place % 2};{160 + place % 30},{place % 10};"
            f"{euros},{place % 90 + 10};{stations[place % 3]};{smokes};{codes[place % 3]}"
        )
    path = folder / "german.csv"
    path.write_bytes("\r\n".join([*lines, ""]).encode("cp1252"))
    return path


@dataclass(frozen=True)
class Case:
    """A file, and what its owner says of the people in it: at most how many rows one has, whose rows, how many."""

    table: Callable[[Path], Path]
    rows: str
    whose: str | None
    number: str
    is_public: bool
    written_otherwise: bool = False


CASES = {
    "german": Case(german, "2", "Fall", "400", is_public=False, written_otherwise=True),
    "titanic": Case(lambda _: DATA / "titanic" / "titanic.csv", "1", None, "891", is_public=True),
    "insurance": Case(lambda _: DATA / "insurance" / "insurance.csv", "1", None, "1500", is_public=False),
}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("german", marks=pytest.mark.thorough),
        *(
            pytest.param(
                name,
                marks=[
                    pytest.mark.thorough,
                    pytest.mark.skipif(not (DATA / name).exists(), reason="HERMITAGE_DATA has no such table"),
                ],
            )
            for name in ("titanic", "insurance")
        ),
    ],
)
def test_from_a_file_to_the_first_report_with_few_clicks(
    name: str, browser: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = CASES[name]
    with monkeypatch.context() as patch:
        # Other people are in the ledger, so whose table it is has to be said.
        patch.setenv("HERMITAGE_HOME", str(tmp_path / "home"))
        with Application.from_environment() as application:
            application.open_account("others")
    with started_server(tmp_path) as server:
        walker = Walker(browser, server.address)
        walker.open("upload")
        walker.counted.clear()
        walk(walker, case, name, tmp_path)
        clicks, keys = walker.counted["pointerdown"], walker.counted["keydown"]
        sys.stdout.write(f"{name}: {clicks} clicks, {keys} keys\n")
        assert clicks <= MOST_CLICKS
        assert keys == len(name) + len(case.number) + 2, "a name and a number, and the key that ends each"
        # Whoever comes back finds what is paid for.
        again = Walker(browser, server.address)
        again.open("report")
        again.press("Show the latest tables and runs")
        again.press("Continue")
        again.see("Describe the table")
        again.visit("5 Report", "Read the report")
        assert "Ten synthetic rows" in again.text()
        again.close()
        walker.close()


def walk(walker: Walker, case: Case, name: str, folder: Path) -> None:
    """Walk from an empty Upload page to the report."""
    page = walker.page
    with page.expect_file_chooser() as chooser:
        page.get_by_test_id("stFileUploader").first.get_by_role("button", name="Upload").last.click()
    chooser.value.set_files(str(case.table(folder)))
    page.get_by_text("is here, encrypted").wait_for()
    if case.written_otherwise:
        walker.press("Use this")
        walker.settle()
    type_into(walker, "textbox", "A name for these people", name)
    page.get_by_text("Stored, encrypted.").wait_for()
    walker.press("Continue to 2 Describe")
    walker.see("Describe the table")

    walker.choose("person")
    walker.pill(case.rows)
    if case.whose is not None:
        walker.pill(case.whose)
    walker.choose("Yes: it is published" if case.is_public else "No: it is measured")
    type_into(walker, "spinbutton", "How many are there", case.number)
    walker.press("Look at my rows and propose everything")
    page.get_by_text("Proposed from your rows").wait_for()
    walker.settle()
    page.get_by_role("button", name="and continue to 3 Budget").click()
    walker.see("Choose a privacy budget")
    assert "Taken from the rows" in walker.text()

    walker.press("Continue to 4 Generate")
    walker.see("Generate rows")
    walker.press("Spend 1.00 and generate")
    page.get_by_role("dialog").get_by_role("button", name="Spend 1.00 and generate").click()
    page.get_by_role("button", name="Continue to 5 Report").wait_for()
    walker.press("Continue to 5 Report")
    walker.see("Read the report")


def type_into(walker: Walker, role: Any, label: str, text: str) -> None:
    """Click into a field and type, as a person does."""
    box = walker.page.get_by_role(role, name=label).first
    box.click()
    box.press_sequentially(text)
    box.press("Enter")
    walker.settle()
