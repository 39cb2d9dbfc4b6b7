"""Two tables in a real browser: from two files to the bundle of two synthetic tables, which anyone can check."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
from serving import Server
from walking import Walker, seal

import synth

pytestmark = [pytest.mark.browser, pytest.mark.thorough]


def two_files(folder: Path) -> tuple[Path, Path]:
    """Write 600 patients, a third of whom have no visit, and their visits."""
    draw = random.Random(5)
    patients, visits = ["patient;sex;born"], ["patient;visited;ward"]
    for who in range(600):
        patients.append(f"CANARY-{who:04};{draw.choice('fm')};{draw.randrange(1935, 2015)}")
        for visit in range(who % 3):
            visits.append(f"CANARY-{who:04};2024-{1 + 5 * visit:02}-{draw.randrange(10, 28)};{draw.choice('abc')}")
    paths = folder / "patients.csv", folder / "visits.csv"
    for path, lines in zip(paths, (patients, visits), strict=True):
        path.write_text("\n".join([*lines, ""]), encoding="utf-8")
    return paths


def test_two_files_become_two_synthetic_tables_in_a_browser(browser: Any, server: Server, tmp_path: Path) -> None:
    first, second = two_files(tmp_path)
    walker = Walker(browser, server.address)
    page = walker.page
    walker.open("upload")
    walker.new_people("two tables")
    walker.upload(0, first)
    page.get_by_text("Stored, encrypted.").wait_for()
    page.get_by_text("Do these people have rows in a second table?").click()
    walker.settle()
    walker.upload(0, second)
    page.get_by_text("visits.csv is here, encrypted.").wait_for()
    walker.press("Join both tables")
    page.get_by_text("Both are stored as one table, joined, encrypted.").wait_for()
    walker.press("Continue to 2 Describe")
    walker.see("Describe the table")

    walker.choose("other")
    walker.fill("Who?", "patient")
    walker.pill("2")
    walker.choose("No: it is measured")
    box = page.get_by_role("spinbutton", name="How many are there at most")
    box.fill("1000")
    box.press("Enter")
    walker.settle()
    walker.press("Take what the names suggest")
    page.get_by_text("are kept, the first in their order.").wait_for()
    walker.press("Look at my rows and propose everything")
    page.get_by_text("Proposed from your rows").wait_for()
    walker.settle()
    page.get_by_role("button", name="and continue to 3 Budget").click()
    walker.see("Choose a privacy budget")
    assert "release a private model" not in walker.text()
    # Whoever comes back finds both tables.
    page.reload()
    walker.see("Choose a privacy budget")
    walker.visit("Private models", "Private models")
    assert "A model looks at the rows of one table" in walker.text()
    walker.visit("4 Generate", "Generate rows")
    box = page.get_by_role("spinbutton", name="Patients to make")
    box.fill("400")
    box.press("Enter")
    walker.settle()
    walker.press("Spend 1.00 and generate")
    page.get_by_role("dialog").get_by_role("button", name="Spend 1.00 and generate").click()
    page.get_by_role("button", name="Continue to 5 Report").wait_for()
    walker.press("Continue to 5 Report")
    walker.see("Read the report")
    seal(walker)
    button = page.get_by_role("button", name="Download the bundle (zip)")
    button.wait_for()
    with page.expect_download() as download:
        button.click()
    bundle = tmp_path / "bundle.zip"
    download.value.save_as(bundle)
    assert not any(b"CANARY-" in answer for answer in walker.received), "a key of a patient reached the browser"
    walker.close()

    assert synth.verify(bundle).ok
    with ZipFile(bundle) as archive:
        patients, visits = (archive.read(f"{name}.csv").decode().splitlines() for name in ("patients", "visits"))
    assert (patients[0], visits[0]) == ("patient,sex,born", "patient,visited,ward")
    keys = [line.partition(",")[0] for line in patients[1:]]
    assert len(set(keys)) == len(keys) == 400
    assert {line.partition(",")[0] for line in visits[1:]} < set(keys), "some have no visit"
