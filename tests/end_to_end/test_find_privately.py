"""Twenty columns that nobody described, found privately at one click, to a sealed release that verifies."""

from __future__ import annotations

import csv
import os
import random
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
from canaries import heard, sung
from serving import Server
from walking import Walker, seal

from synth.bundle.fields import Check
from synth.bundle.verify import verify

pytestmark = [pytest.mark.browser, pytest.mark.thorough]

MOST_CLICKS = 12
N_ROWS, N_COLUMNS = 9_000, 20
CANARIES = ("canary-7Q-own", "canary-of-three")

_COUNT = """
for (const kind of ["pointerdown", "keydown"]) {
  addEventListener(kind, (event) => {
    if (event.isTrusted) sessionStorage[kind] = Number(sessionStorage[kind] || 0) + 1;
  }, true);
}
"""


def wide_table(folder: Path) -> Path:
    """Write a survey of numbers, dates, words and free text, with words that few or one have."""
    draw = random.Random(20)
    makers = (
        lambda i: str(draw.randint(18, 90)),
        lambda i: draw.choices(("never", "sometimes", "often"), (5, 3, 2))[0],
        lambda i: f"20{draw.randint(10, 19)}-0{draw.randint(1, 9)}-1{draw.randint(0, 9)}",
        lambda i: f"{draw.gauss(50, 12):.1f}",
        lambda i: CANARIES[0] if i == 5 else CANARIES[1] if i < 3 else draw.choice(("N", "S")),
    )
    path = folder / "survey.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([f"q{number + 1:02d}" for number in range(N_COLUMNS - 1)] + ["said"])
        for i in range(N_ROWS):
            cells = [makers[number % len(makers)](i) for number in range(N_COLUMNS - 1)]
            writer.writerow([*cells, f"says {i} canary-text"])
    return path


def counted(walker: Walker) -> tuple[int, int]:
    """Clicks and keys so far, as the browser heard them from a person."""
    found = walker.page.evaluate("[sessionStorage.pointerdown, sessionStorage.keydown].map((n) => Number(n || 0))")
    return found[0], found[1]


def shoot(walker: Walker, name: str) -> None:
    """Keep a picture where somebody asked for pictures."""
    if folder := os.environ.get("HERMITAGE_PICTURES"):
        walker.page.screenshot(path=str(Path(folder) / f"{name}.png"), full_page=True)


def type_into(walker: Walker, label: str, text: str) -> None:
    """Click into a field and type, as a person does."""
    box = walker.page.get_by_role("spinbutton", name=label).first
    box.click()
    box.press_sequentially(text)
    box.press("Enter")
    walker.settle()


def test_twenty_columns_from_nothing_to_a_release(server: Server, browser: Any, tmp_path: Path) -> None:
    walker = Walker(browser, server.address)
    page = walker.page
    page.add_init_script(_COUNT)
    walker.open("upload")
    walker.new_people("twenty")
    walker.upload(0, wide_table(tmp_path))
    page.get_by_text("Stored, encrypted.").wait_for()
    walker.press("Continue to 2 Describe")
    walker.see("Describe the table")

    before = counted(walker)
    walker.choose("person")
    walker.pill("1")
    walker.choose("No: it is measured with part of the budget")
    type_into(walker, "How many are there at most", "50000")
    shoot(walker, "offer")
    said = walker.text()
    assert "Spends ε = 0.10" in said
    assert "0.90 remains for rows" in said
    assert "Values in fewer than about" in said
    button = page.locator(".st-key-find-privately button")
    button.click()
    button.wait_for(state="detached")
    # A reload in the middle finds the work, or its end, again.
    page.reload()
    page.get_by_text("Found privately at ε = 0.10.").wait_for()
    walker.settle()
    shoot(walker, "found")
    walker.press("Continue to 3 Budget")
    walker.see("Choose a privacy budget")
    clicks, keys = (after - earlier for after, earlier in zip(counted(walker), before, strict=True))
    sys.stdout.write(f"described {N_COLUMNS} columns with {clicks} clicks and {keys} keys\n")
    assert clicks <= MOST_CLICKS
    shoot(walker, "budget")
    assert "In addition, ε = 0.10 was spent" in walker.text()
    page.get_by_role("button", name="Look (owner only, recorded)").click()
    page.get_by_text("Owner only: read from the private rows, and the look is recorded.").wait_for()
    assert page.get_by_label("About how many rows?").input_value() == f"{N_ROWS:,}"
    walker.settle()

    walker.press("Continue to 4 Generate")
    walker.see("Generate rows")
    walker.press("Spend 0.90 and generate")
    page.get_by_role("dialog").get_by_role("button", name="Spend 0.90 and generate").click()
    page.get_by_role("button", name="Continue to 5 Report").wait_for()
    walker.press("Continue to 5 Report")
    walker.see("Read the report")
    shoot(walker, "report")
    seal(walker)
    shoot(walker, "sealed")
    bundle = tmp_path / "bundle.zip"
    with page.expect_download() as download:
        page.get_by_role("button", name="Download the bundle (zip)").click()
    download.value.save_as(bundle)
    with page.expect_download() as download:
        page.get_by_role("button", name="Download the rows in your table's format").click()
    assert download.value.path().read_bytes() == zipfile.ZipFile(bundle).read("synthetic.csv")
    verdict = verify(bundle)
    assert verdict.ok, verdict.json["failures"]
    assert Check.FINDING in verdict.json["checked"]
    assert 0.9 < verdict.json["epsilon"] < 1.0
    walker.visit("Ledger", "Ledger")
    assert "found privately" in walker.text()
    shoot(walker, "ledger")

    # What did not pass is nowhere: not on disk, not in the log or the database, not in a response.
    songs = [text.encode() for text in (*CANARIES, "canary-text")]
    assert sung(server, bundle, songs) == []
    assert heard(walker.received, songs) == []
    walker.close()
