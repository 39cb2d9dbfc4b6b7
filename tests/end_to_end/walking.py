"""Walking through the screens as a person does: by labels, headings and buttons."""

from __future__ import annotations

import csv
import io
import random
import re
from collections import Counter
from pathlib import Path
from typing import Any

from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg

__all__ = [
    "CODEBOOK",
    "Walker",
    "answer_about_people",
    "seal",
    "small_table",
    "walk_to_bundle",
    "walk_to_fitted",
    "walk_to_generate",
    "walk_to_model",
]

CODEBOOK = """
account: {account}
unit: {{protects: person, rows_per_unit: 1}}
row_count: public
number_of_units: 600
people_at_most: 10000
budget: {{epsilon: 2.0}}
holdout: 0.2
generator: {{name: independent, options: {{}}}}
rows: 500
label: smoker
columns:
  person: {{type: identifier}}
  age: {{type: number, low: 0, high: 120, step: 1, fallback: 40}}
  income: {{type: number, low: 0, high: 100000, step: 1000, special: [0], missing: true}}
  region: {{type: category, values: [north, south, east, west], other: true}}
  visited: {{type: date, low: 2020-01-01, high: 2025-12-31, step: month, fallback: 2023-01-01}}
  smoker: {{type: yes_no, yes: "yes", no: "no", fallback: "no"}}
  remark: {{type: drop}}
"""

COLUMNS = ("person", "age", "income", "region", "visited", "smoker", "remark")


def small_table(folder: Path, name: str, *, rows: int = 600, first: dict[str, str] | None = None) -> Path:
    """Write a made-up table that fits the codebook; ``first`` replaces cells of the first row."""
    draw = random.Random(7)
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, COLUMNS)
    writer.writeheader()
    for number in range(rows):
        row = {
            "person": f"p{number:05d}",
            "age": str(draw.randint(18, 90)),
            "income": "" if draw.random() < 0.1 else str(1000 * draw.randint(0, 90)),
            "region": draw.choice(("north", "south", "east", "west")),
            "visited": f"202{draw.randint(0, 5)}-0{draw.randint(1, 9)}-15",
            "smoker": draw.choice(("yes", "no")),
            "remark": f"made up {number}",
        }
        writer.writerow({**row, **(first or {})} if number == 0 else row)
    path = folder / name
    path.write_text(buffer.getvalue(), encoding="utf-8")
    return path


COUNTING = """
for (const kind of ["pointerdown", "keydown"]) addEventListener(kind, () => window.counted(kind), true)
"""


_LISTEN = """
() => {
  window.__progress = [];
  const look = () => document.querySelectorAll('[data-testid="stProgress"]').forEach(bar => {
    const words = bar.innerText.trim();
    if (words && window.__progress.at(-1) !== words) window.__progress.push(words);
  });
  new MutationObserver(look).observe(document.body, {childList: true, subtree: true, characterData: true});
}
"""
"""Notes every sentence of the bar of a run, which may stand for a second only."""


_PAINTED = """
() => new Promise(done => {
  requestAnimationFrame(() => requestAnimationFrame(done));
  setTimeout(done, 100);  // a tab in the background is painted later
})
"""

DEBOUNCE_MS = 250
"""Streamlit tells the server of a slider or of a table that is typed into at most this much later."""


_TO_RUN_AGAIN = ForwardMsg.ScriptFinishedStatus.Value("FINISHED_EARLY_FOR_RERUN")


class Runs:
    """Whether a page has asked for a run of its script whose end it has not heard: its web socket, listened to."""

    def __init__(self) -> None:
        self.awaited = self._begun = False

    def sent(self, frame: bytes) -> None:
        message = BackMsg.FromString(frame)
        if message.WhichOneof("type") == "rerun_script" and not message.rerun_script.is_auto_rerun:
            self.awaited, self._begun = True, False

    def received(self, frame: bytes) -> None:
        message = ForwardMsg.FromString(frame)
        match message.WhichOneof("type"):
            case "new_session":
                self._begun = True
            case "script_finished" if self._begun and message.script_finished != _TO_RUN_AGAIN:
                self.awaited = False


class Walker:
    """One browser session; keeps every text that the server sent to it, and what the content policy refused.

    ``counted`` counts clicks and keys as the pages see them.
    """

    def __init__(self, browser: Any, address: str, *, width: int = 1280, height: int = 900, **more: Any) -> None:
        self.address = address
        self.context = browser.new_context(viewport={"width": width, "height": height}, accept_downloads=True, **more)
        self.counted: Counter[str] = Counter()
        self.context.expose_function("counted", lambda kind: self.counted.update([kind]))
        self.context.add_init_script(COUNTING)
        self.context.set_default_timeout(600_000)
        self.received: list[bytes] = []
        self.refused: list[str] = []
        self._runs: dict[Any, Runs] = {}
        self.context.on("page", self._watch)
        self.page = self.context.new_page()

    def open(self, path: str = "") -> None:
        self.page.goto(f"{self.address}/{path}")
        self.page.get_by_role("heading", level=1).first.wait_for()
        self.settle()

    def visit(self, label: str, heading: str) -> None:
        self.page.get_by_test_id("stSidebarNav").get_by_text(label, exact=True).click()
        self.see(heading)

    def see(self, heading: str, *, timeout: float | None = None) -> None:
        self.page.get_by_role("heading", name=heading).first.wait_for(timeout=timeout)
        self.settle()

    def press(self, name: str) -> None:
        self.page.get_by_role("button", name=name, exact=True).first.click()

    def choose(self, label: str) -> None:
        self.page.locator("label").filter(has_text=label).first.click()
        self.settle()

    def pill(self, words: str) -> None:
        """Choose one of the answers that stand side by side."""
        self.page.get_by_test_id("stButtonGroup").get_by_text(words, exact=True).first.click()
        self.settle()

    def fill(self, label: str, text: str) -> None:
        box = self.page.get_by_role("textbox", name=label).first
        box.fill(text)
        box.press("Enter")
        self.settle()

    def new_people(self, name: str) -> None:
        """Name the people of a table; where others are in the ledger, say first that these are new."""
        box = self.page.get_by_role("textbox", name="A name for these people")
        asked = self.page.locator("label").filter(has_text="No, new people")
        box.or_(asked).first.wait_for()
        if not box.count():
            self.choose("No, new people")
        self.fill("A name for these people", name)

    def pick(self, label: str, option: str) -> None:
        """Open a list and pick from it; a list that the page closed again, as any change of its size does, anew."""
        box = self.page.get_by_role("combobox", name=label)
        entry = self.page.get_by_role("option", name=option, exact=True)
        for _ in range(10):
            if entry.is_visible():
                break
            box.click()
            self.page.wait_for_timeout(500)
        entry.click()
        self.settle()

    def upload(self, number: int, path: Path) -> None:
        self.settle()
        self.page.get_by_test_id("stFileUploaderDropzoneInput").nth(number).set_input_files(str(path))

    def text(self) -> str:
        return str(self.page.inner_text("body"))

    def settle(self, *, debounced: bool = False) -> None:
        """Wait until every run that the page asked for has ended and is painted.

        ``debounced`` after a slider or a table was changed, of which the page tells the server a moment later.
        """
        if debounced:
            self.page.wait_for_timeout(DEBOUNCE_MS)
        for _ in range(2):  # a run may make the page ask for another one
            self.page.evaluate(_PAINTED)
            while self._runs[self.page].awaited:
                self.page.wait_for_timeout(10)  # the web socket is heard meanwhile
            self.page.wait_for_selector('[data-testid="stApp"][data-test-script-state="notRunning"]')

    def close(self) -> None:
        self.context.close()

    def _note(self, message: Any) -> None:
        if "Content Security Policy" in message.text:
            self.refused.append(message.text)

    def _watch(self, page: Any) -> None:
        self._runs[page] = Runs()
        page.on("websocket", lambda socket: self._listen(page, socket))
        page.on("console", self._note)
        page.on("response", self._read)

    def _listen(self, page: Any, socket: Any) -> None:
        runs = self._runs[page] = Runs()
        socket.on("framesent", lambda frame: runs.sent(_bytes(frame)))
        socket.on("framereceived", lambda frame: (self.received.append(_bytes(frame)), runs.received(_bytes(frame))))

    def _read(self, response: Any) -> None:
        kind = response.headers.get("content-type", "")
        if "javascript" in kind or "font" in kind or "css" in kind:
            return
        try:
            self.received.append(response.body())
        except Exception:
            return


def answer_about_people(walker: Walker) -> None:
    """Say that a person is protected, has one row, and is one of at most 5,000; then the columns are there."""
    walker.choose("person")
    walker.pill("1")
    walker.choose("No: it is measured")
    box = walker.page.get_by_role("spinbutton", name="How many are there at most")
    box.fill("5000")
    box.press("Enter")
    walker.settle()


def walk_to_generate(walker: Walker, table: Path, codebook: Path, account: str) -> None:
    """Walk from Start to the choice of a generator."""
    page = walker.page
    walker.open()
    walker.press("Start with your own table")
    walker.see("Upload a table")
    walker.new_people(account)
    walker.upload(1, codebook)
    page.get_by_text("The description has been filled in from the file.").wait_for()
    walker.upload(0, table)
    page.get_by_text("Stored, encrypted.").wait_for()
    walker.press("Continue to 2 Describe")
    walker.see("Describe the table")
    walker.press("Continue to 3 Budget")
    walker.see("Choose a privacy budget")
    walker.press("Continue to 4 Generate")
    walker.see("Generate rows")


def walk_to_bundle(walker: Walker, table: Path, codebook: Path, account: str, target: Path) -> Path:
    """Walk from Start to a downloaded bundle."""
    page = walker.page
    walk_to_generate(walker, table, codebook, account)
    walker.press("Spend 2.00 and generate")
    page.evaluate(_LISTEN)
    page.get_by_role("dialog").get_by_role("button", name="Spend 2.00 and generate").click()
    page.get_by_role("button", name="Continue to 5 Report").wait_for()
    told = page.evaluate("() => window.__progress")
    assert any(re.search(r"Step \d of 6: .* (about|at least about) \d+ (s|min) left", words) for words in told), told
    walker.press("Continue to 5 Report")
    walker.see("Read the report")
    first = walker.text()
    for words in (
        "Good for",
        "Not for",
        "(proven)",
        "Most important columns",
        "Pairs of columns",
        "Ten synthetic rows",
    ):
        assert words.lower() in first.lower(), words
    for tab in ("Columns and pairs", "Accuracy you can expect", "Owner only"):
        page.get_by_role("tab", name=tab).click()
        walker.settle()
    page.get_by_text("These numbers were read directly from the private rows.").first.wait_for()
    seal(walker)
    button = page.get_by_role("button", name="Download the bundle (zip)")
    button.wait_for()
    with page.expect_download() as download:
        button.click()
    download.value.save_as(target)
    return target


def walk_to_model(walker: Walker, *, model: str = "regression-with-missing-inputs", target: str = "income") -> None:
    """Walk from the choice of a generator to a model with its target."""
    page = walker.page
    walker.visit("Private models", "Private models")
    page.locator(f".st-key-choose-{model} button").click()
    walker.settle()
    walker.pick("Target: the column to predict", target)
    page.get_by_role("button", name="and fit").wait_for()
    walker.settle()


def walk_to_fitted(walker: Walker) -> None:
    """Spend what stands on the button, and walk to the report of the model."""
    page = walker.page
    button = page.get_by_role("button", name="and fit").first.inner_text()
    walker.press(button)
    page.get_by_role("dialog").get_by_role("button", name=button).click()
    page.get_by_role("button", name="Continue to 5 Report").wait_for()
    walker.press("Continue to 5 Report")
    walker.see("Read the report")


def seal(walker: Walker) -> None:
    """Walk from the report to a sealed release."""
    walker.press("Continue to 6 Release")
    walker.see("Release")
    for position in range(3):
        walker.page.get_by_role("checkbox").nth(position).check(force=True)
        walker.settle()
    walker.fill("Your name, kept in the records with these statements", "A. Owner")
    walker.press("Seal release")
    walker.page.get_by_role("button", name="Download the bundle (zip)").wait_for()


def _bytes(frame: Any) -> bytes:
    return frame if isinstance(frame, bytes) else str(frame).encode()
