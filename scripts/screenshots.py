"""Retake the pictures in docs/screenshots: a real server, a real browser, the demonstration table.

Usage: .venv/bin/python scripts/screenshots.py [--into docs/screenshots] [--only demo,rehearse,kahm,models,institution]
                                               [--generator NAME] [--adult FILE]

With ``--adult adult.data.gz``, the reports of a run on the Adult table: examples/adult.yaml (epsilon 1, the default
generator) with a fifth of the rows held out and a twentieth of the budget for predictions that may be published; and
a run of the control for comparison. Keep them in a folder of their own.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import os
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "end_to_end")]
sys.path.append(str(ROOT / "tests"))

from conftest import browser  # noqa: E402
from institution_walk import People, walk_of_an_institution  # noqa: E402
from serving import started_server  # noqa: E402
from signing_in import institution, provider  # noqa: E402
from walking import (  # noqa: E402
    CODEBOOK,
    Walker,
    seal,
    small_table,
    walk_to_fitted,
    walk_to_generate,
    walk_to_model,
)

from synth.demonstration import NETWORK, demonstration_bytes  # noqa: E402

PARTS = ("demo", "rehearse", "kahm", "models", "institution")
"""The demonstration from Start to a release; a rehearsed grid; the modes of KAHM; a private model; four users."""


def take_picture(walker: Walker, path: Path) -> None:
    """Save the whole page as one picture, however long it is."""
    walker.settle()
    walker.page.wait_for_timeout(800)  # charts finish drawing after the script has ended
    main = walker.page.locator('[data-testid="stMain"]')
    height = main.evaluate("main => Math.max(...[...main.children].map(child => child.scrollHeight))")
    walker.page.set_viewport_size({"width": 1280, "height": max(900, min(int(height) + 120, 6000))})
    walker.page.wait_for_timeout(600)
    walker.page.screenshot(path=str(path))
    walker.page.set_viewport_size({"width": 1280, "height": 900})


class Photographer(Walker):
    """Walks through the screens like a user and keeps a picture of each."""

    def __init__(self, browser: Any, address: str, into: Path) -> None:
        super().__init__(browser, address, width=1280, height=900)
        self.into = into

    def picture(self, name: str) -> None:
        """Save the whole page as one picture, however long it is."""
        take_picture(self, self.into / f"{name}.png")

    def unfold(self, title: str) -> None:
        """Open or close the fold with this title."""
        self.page.get_by_test_id("stExpander").get_by_text(title).click()
        self.settle()


def modes_of_kahm(photographer: Photographer, folder: Path) -> None:
    """Take pictures of KAHM's modes that release noisy rows, with a table of one row per person."""
    page, codebook = photographer.page, folder / "codebook.yaml"
    codebook.write_text(CODEBOOK.format(account="one row each"), encoding="utf-8")
    table = small_table(folder, "one-row-each.csv")
    walk_to_generate(photographer, table, codebook, "one row each")
    photographer.unfold("more, for special tables")
    page.locator(".st-key-choose-kahm button").click()
    photographer.see("What to protect")
    photographer.unfold("more, for special tables")  # and close it again: the other cards do not belong in this picture
    for mode, name in (("Record level, row noise", "kahm-rows"), ("Cell level", "kahm")):
        photographer.choose(mode)
        photographer.picture(name)


def walk(photographer: Photographer, generator: str | None) -> None:
    """From Start to a sealed release."""
    page = photographer.page
    photographer.open()
    photographer.picture("start")
    photographer.press("Open the demo table")
    photographer.see("Upload a table")
    photographer.picture("upload")
    for name, label, heading in (
        ("describe", "2 Describe", "Describe the table"),
        ("budget", "3 Budget", "Choose a privacy budget"),
        ("generate", "4 Generate", "Generate rows"),
    ):
        photographer.press(f"Continue to {label}")
        photographer.see(heading)
        if name == "generate" and generator is not None:
            photographer.unfold("more, for special tables")
            page.locator(f".st-key-choose-{generator} button").click()
        if name == "budget":
            page.get_by_label("About how many patients?").fill("9,000")
            photographer.settle()
        photographer.picture(name)
    spend(photographer)
    photographer.picture("run")
    reports(photographer)
    seal(photographer)
    photographer.picture("release")
    photographer.visit("Ledger", "Ledger")
    photographer.picture("ledger")
    photographer.visit("Admin", "Admin")
    photographer.picture("admin")


def rehearse(photographer: Photographer, folder: Path) -> None:
    """Show the form for simulated rows, and rehearse a small grid on another year of the demonstration."""
    page, other = photographer.page, folder / "another-year.csv"
    to_generate(photographer)
    year = replace(NETWORK, patients=12_000, visits=20_000)  # the network has three
    other.write_bytes(demonstration_bytes(year, seed=7).read())
    photographer.visit("Rehearse (optional)", "Rehearse")
    for button in ("Several budgets and generators", "Simulated rows"):
        page.get_by_role("radio", name=button).click()
        photographer.settle()
    page.get_by_role("spinbutton", name="Seeds").fill("1")
    page.get_by_role("spinbutton", name="Seeds").press("Enter")
    photographer.settle()
    photographer.picture("rehearse-form")
    page.get_by_role("radio", name="A public table").click()
    photographer.settle()
    photographer.choose("This table is public")
    photographer.upload(0, other)
    photographer.see("Result of the latest rehearsal", timeout=900_000)
    page.get_by_role("button", name="Stop the rehearsal").wait_for(state="detached", timeout=900_000)
    photographer.picture("rehearse")


def spend(photographer: Photographer) -> None:
    """Press the button that spends the budget, and wait for the report."""
    page = photographer.page
    button = page.get_by_role("button", name="and generate").first.inner_text()
    photographer.press(button)
    page.get_by_role("dialog").get_by_role("button", name=button).click()
    page.get_by_role("button", name="Continue to 5 Report").wait_for(timeout=600_000)


def reports(photographer: Photographer) -> None:
    """Open every tab of the report."""
    photographer.press("Continue to 5 Report")
    photographer.see("Read the report")
    photographer.picture("report")
    for name, tab in (
        ("pairs", "Columns and pairs"),
        ("not-kept", "What was not kept"),
        ("accuracy", "Accuracy you can expect"),
        ("estimates", "Estimates"),
        ("prediction", "Prediction"),
        ("groups", "Groups"),
        ("attacks", "Attacks"),
        ("owner-only", "Owner only"),
    ):
        photographer.page.get_by_role("tab", name=tab).click()
        if name == "estimates":
            estimate(photographer)
        photographer.picture(name)


def estimate(photographer: Photographer) -> None:
    """Enter the first example, and wait for its answer."""
    box = photographer.page.get_by_role("textbox", name="What to estimate")
    box.fill(str(box.get_attribute("placeholder")))
    box.press("Enter")
    photographer.page.get_by_role("button", name="Download all estimates").wait_for(timeout=900_000)


def to_generate(photographer: Photographer) -> None:
    """Open the demonstration table and continue to the choice of a generator."""
    photographer.open()
    photographer.press("Open the demo table")
    photographer.see("Upload a table")
    for label, heading in (
        ("2 Describe", "Describe the table"),
        ("3 Budget", "Choose a privacy budget"),
        ("4 Generate", "Generate rows"),
    ):
        photographer.press(f"Continue to {label}")
        photographer.see(heading)


def private_model(photographer: Photographer) -> None:
    """Fit a regression to the demonstration table; take pictures of the form, the report and the release."""
    to_generate(photographer)
    walk_to_model(photographer, model="private-regression", target="cost")
    photographer.picture("models")
    walk_to_fitted(photographer)
    photographer.picture("models-report")
    seal(photographer)
    photographer.picture("models-release")


def walk_adult(photographer: Photographer, rows: Path, folder: Path) -> None:
    """Release the Adult table with every report, then run the control, and compare them."""
    table, codebook = folder / "adult.csv", folder / "adult.yaml"
    table.write_bytes(gzip.decompress(rows.read_bytes()))
    described = (ROOT / "examples" / "adult.yaml").read_text(encoding="utf-8")
    codebook.write_text(described.replace("holdout: 0\n", "holdout: 0.2\nprediction_share: 0.05\n"), encoding="utf-8")
    walk_to_generate(photographer, table, codebook, "adult-1994")
    spend(photographer)
    photographer.picture("run")
    reports(photographer)
    seal(photographer)
    photographer.picture("release")
    photographer.visit("4 Generate", "Generate rows")
    photographer.press("Prepare another run")
    photographer.unfold("more, for special tables")
    photographer.page.locator(".st-key-choose-independent button").click()
    photographer.settle()
    spend(photographer)
    photographer.visit("Compare", "Compare runs")
    photographer.picture("compare")


def four_users(engine: Any, folder: Path, into: Path) -> None:
    """One asks for an approval, a second gives it, and an auditor looks at the ledger."""
    pictures = {"approvals": "approvals", "auditor": "ledger-of-an-auditor"}

    def look(walker: Walker, name: str) -> None:
        if name in pictures:
            take_picture(walker, into / f"{pictures[name]}.png")

    with institution(folder) as place, provider(place.provider, place.log):
        people = People(engine, place)
        walk_of_an_institution(people, folder, first={}, look=look)
        people.close()


def main() -> None:
    """Serve, walk and keep the pictures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--into", type=Path, default=ROOT / "docs" / "screenshots")
    parser.add_argument("--only", default=",".join(PARTS), metavar="PARTS", help="some of them, by commas")
    parser.add_argument("--generator", help="of the demonstration's run; by default the one that is proposed")
    parser.add_argument("--adult", type=Path, metavar="FILE", help="adult.data.gz")
    arguments = parser.parse_args()
    parts = () if arguments.adult is not None else tuple(arguments.only.split(","))
    if not set(parts) <= set(PARTS):
        parser.error(f"--only takes {', '.join(PARTS)}")
    arguments.into.mkdir(parents=True, exist_ok=True)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    # The browser fixture of the tests, outside a test.
    browse = contextlib.contextmanager(browser.__wrapped__)
    with (
        tempfile.TemporaryDirectory() as temporary,
        started_server(folder := Path(temporary), variables={"HERMITAGE_DATABASES": str(folder)}) as running,
        browse() as engine,
    ):
        photographer = Photographer(engine, running.address, arguments.into)
        if arguments.adult is not None:
            walk_adult(photographer, arguments.adult, folder)
        if "demo" in parts:
            walk(photographer, arguments.generator)
        if "rehearse" in parts:
            rehearse(photographer, folder)
        if "kahm" in parts:
            modes_of_kahm(photographer, folder)
        if "models" in parts:
            private_model(photographer)
        if "institution" in parts:
            (apart := folder / "institution").mkdir()
            four_users(engine, apart, arguments.into)
        photographer.close()


if __name__ == "__main__":
    main()
