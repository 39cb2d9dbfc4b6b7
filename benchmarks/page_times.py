"""How long the screens let a person wait, in a real browser: first paint, change of page, and moves of epsilon.

    python benchmarks/page_times.py [--pages start,budget,...] [--moves 50] [--upload 50] [--run]
                                    [--checkout DIRECTORY] [--json FILE]

A server of its own is started on the loopback address and a new home for each pass, and Chromium looks at the
demonstration table. Nothing leaves the machine. ``--checkout`` serves another checkout, so that before and after are
measured by one script on one machine.

First paint: a new server that answers its health check, a new browser profile, and the seconds from asking for the
address until the screen's heading can be seen. Change of page: the seconds from a click on a name in the sidebar until
its heading can be seen and until the run of the script has ended.

A move of epsilon is a key on the slider (arrows in a random walk with a fixed seed), or, where there is no slider,
nothing. Its two times run from the key until the headline numbers have changed, and until the last change of a picture
of the page within the ten seconds that are watched; both are read by the browser before each frame, and so are what a
person sees. A move after which nothing changed is counted and has no time.

``--upload 50``: a made-up CSV of so many megabytes through the real page, from the moment the file is given until the
screen says that the table is stored. ``--run``: 15 made-up columns and 10,000 rows with the generator and the options
that the screen proposes, from the click that spends until the report's heading can be seen. Neither is part of the
other times: with one of them nothing else is measured, unless ``--pages`` or ``--moves`` is given too.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import streamlit

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "end_to_end")]

import serving  # noqa: E402
from conftest import browser  # noqa: E402
from walking import Walker, walk_to_generate  # noqa: E402

RUN_COLUMNS, RUN_ROWS = 15, 10_000

HEADINGS = {
    "start": ("Start", "Turn a private table into rows you can share."),
    "upload": ("1 Upload", "Upload a table"),
    "describe": ("2 Describe", "Describe the table"),
    "budget": ("3 Budget", "Choose a privacy budget"),
    "rehearse": ("Rehearse (optional)", "Rehearse"),
    "generate": ("4 Generate", "Generate rows"),
    "models": ("Private models", "Private models"),
    "compare": ("Compare", "Compare runs"),
    "ledger": ("Ledger", "Ledger"),
    "admin": ("Admin", "Admin"),
}
"""Screens that need no run: the name in the sidebar and the heading."""

WATCHED_SECONDS, QUIET_SECONDS = 10.0, 1.0

WATCH = """
([watched, quiet]) => {
  const roots = () => {
    const found = [document];
    for (const element of document.querySelectorAll('*')) if (element.shadowRoot) found.push(element.shadowRoot);
    return found;
  };
  const all = selector => roots().flatMap(root => [...root.querySelectorAll(selector)]);
  const words = () => all('[data-headline], [data-testid="stMarkdownContainer"] p')
    .filter(element => element.hasAttribute('data-headline') || element.textContent.startsWith('Odds.'))
    .map(element => element.textContent).join('|');
  const pictures = () => all('svg[data-picture], .js-plotly-plot svg.main-svg')
    .map(element => element.innerHTML).join('|');
  const begun = {words: words(), pictures: pictures()};
  window.__moved = new Promise(done => {
    let start = null, shown = null, drawn = null, last = begun.pictures, changed = 0;
    document.addEventListener('keydown', event => { start = performance.now(); }, {capture: true, once: true});
    const look = () => {
      const now = performance.now();
      if (start !== null) {
        if (shown === null && words() !== begun.words) shown = now - start;
        const seen = pictures();
        if (seen !== last) { last = seen; drawn = now - start; changed = now; }
        if (now - start > 1000 * watched || (shown !== null && drawn !== null && now - changed > 1000 * quiet)) {
          done({shown, drawn});
          return;
        }
      }
      requestAnimationFrame(look);
    };
    requestAnimationFrame(look);
  });
}
"""


def first_paint(engine: Any, name: str) -> float:
    """Return the seconds from asking a new server for a page until its heading can be seen."""
    with _served() as running:
        walker = Walker(engine, running.address)
        begun = time.perf_counter()
        walker.page.goto(f"{running.address}/{'' if name == 'start' else name}")
        walker.page.get_by_role("heading", level=1).first.wait_for()
        taken = time.perf_counter() - begun
        walker.close()
    return taken


def changes(walker: Walker, names: Sequence[str], rounds: int) -> dict[str, list[tuple[float, float]]]:
    """Return for each page the seconds from a click in the sidebar until it can be seen, and until it has settled."""
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in names}
    for _ in range(rounds):
        for name in names:
            label, heading = HEADINGS[name]
            walker.visit("Admin" if name == "ledger" else "Ledger", "Admin" if name == "ledger" else "Ledger")
            link = walker.page.get_by_test_id("stSidebarNav").get_by_text(label, exact=True)
            begun = time.perf_counter()
            link.click()
            walker.page.get_by_role("heading", name=heading).first.wait_for()
            seen = time.perf_counter() - begun
            walker.page.wait_for_selector('[data-testid="stApp"][data-test-script-state="notRunning"]')
            found[name].append((seen, time.perf_counter() - begun))
    return found


def moves(walker: Walker, number: int, seed: int) -> list[dict[str, float | None]]:
    """Return the milliseconds until the numbers have changed and until the pictures stand, for each key."""
    draw = random.Random(seed)  # noqa: S311 - where a slider goes
    walker.visit(*HEADINGS["budget"])
    page, found = walker.page, []
    slider = page.get_by_role("slider").first
    slider.wait_for()
    place, places = 0, _places(slider)
    for _ in range(number):
        place, key = _step(draw, place, places)
        slider.focus()
        page.evaluate(WATCH, [WATCHED_SECONDS, QUIET_SECONDS])
        page.keyboard.press(key)
        found.append(page.evaluate("() => window.__moved"))
        walker.settle()
    return found


def _places(slider: Any) -> int:
    """Return how many keys to the right the slider takes, at least, from where it stands."""
    largest, smallest = (float(slider.get_attribute(name) or 0) for name in ("aria-valuemax", "aria-valuemin"))
    if largest <= smallest:  # a slider of the browser itself
        largest, smallest = (float(slider.get_attribute(name) or 0) for name in ("max", "min"))
    return 2 if largest - smallest <= 10 else 20


def _step(draw: random.Random, place: int, places: int) -> tuple[int, str]:
    """Go left or right, and never further than so many places from the beginning: every key moves."""
    right = place <= -places or (place < places and draw.random() < 0.5)
    return (place + 1, "ArrowRight") if right else (place - 1, "ArrowLeft")


def upload_seconds(engine: Any, megabytes: int) -> float:
    """Return the seconds from giving a file of made-up lines to the page until it says that the table is stored."""
    with _served() as running, tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "made-up.csv"
        draw = random.Random(0)  # noqa: S311 - made-up lines
        with table.open("w", encoding="utf-8") as lines:
            lines.write(",".join(f"column_{place}" for place in range(15)) + "\n")
            while lines.tell() < megabytes * 10**6:
                lines.writelines(_line(draw) for _ in range(1000))
        walker = Walker(engine, running.address)
        walker.open("upload")
        walker.new_people("made up")
        begun = time.perf_counter()
        walker.upload(0, table)
        walker.page.get_by_text("Stored, encrypted.").wait_for()
        taken = time.perf_counter() - begun
        walker.close()
    return taken


def run_seconds(engine: Any) -> float:
    """Return the seconds from the click that spends a budget until the heading of the report can be seen."""
    with _served() as running, tempfile.TemporaryDirectory() as folder:
        draw = random.Random(0)  # noqa: S311 - made-up lines
        table, codebook = Path(folder) / "made-up.csv", Path(folder) / "made-up.yaml"
        names = [f"column_{place}" for place in range(RUN_COLUMNS)]
        table.write_text(",".join(names) + "\n" + "".join(_line(draw) for _ in range(RUN_ROWS)), encoding="utf-8")
        kinds = ("{type: number, low: 0, high: 99, step: 1, missing: true}", "{type: category, values: [a, b, c, d]}")
        codebook.write_text(
            "account: made up\nunit: {protects: person, rows_per_unit: 1}\nrow_count: private\n"
            f"people_at_most: 100000\nbudget: {{epsilon: 1.0}}\nholdout: 0.2\nrows: {RUN_ROWS}\nlabel: column_1\n"
            "columns:\n"
            + "".join(
                f"  {name}: {kinds[place % 2][:-1]}{', other: true' if place % 2 else ''}}}\n"
                for place, name in enumerate(names)
            ),
            encoding="utf-8",
        )
        walker = Walker(engine, running.address)
        walk_to_generate(walker, table, codebook, "made up")
        walker.press("Spend 1.00 and generate")
        begun = time.perf_counter()
        walker.page.get_by_role("dialog").get_by_role("button", name="Spend 1.00 and generate").click()
        walker.page.get_by_role("button", name="Continue to 5 Report").click()
        walker.page.get_by_role("heading", name="Read the report").first.wait_for()
        taken = time.perf_counter() - begun
        walker.close()
    return taken


def _line(draw: random.Random) -> str:
    return ",".join(str(draw.randrange(100)) if place % 2 == 0 else draw.choice("abcd") for place in range(15)) + "\n"


@contextlib.contextmanager
def _served() -> Any:
    with tempfile.TemporaryDirectory() as folder, serving.started_server(Path(folder)) as running:
        yield running


def quantiles(values: Sequence[float]) -> tuple[float, float]:
    """Return the median and the 95th percentile (the smallest value that 95 % of all do not exceed)."""
    ordered = sorted(values)
    return statistics.median(ordered), ordered[max(0, -(-95 * len(ordered) // 100) - 1)]


def main() -> None:
    """Serve, look and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pages", help="names, with commas; empty for none; by default all of them")
    parser.add_argument("--moves", type=int, help="by default 50")
    parser.add_argument("--upload", type=int, metavar="MB", help="time an upload of so many megabytes")
    parser.add_argument("--run", action="store_true", help="time a run of 15 columns")
    parser.add_argument("--rounds", type=int, default=5, help="changes to each page; the first is the cold one")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--checkout", type=Path, default=ROOT)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    timed = arguments.upload is None and not arguments.run
    if not timed:
        timed = arguments.pages is not None or arguments.moves is not None
    chosen = ",".join(HEADINGS) if arguments.pages is None else arguments.pages
    names = [name for name in chosen.split(",") if name]
    serving.ROOT = arguments.checkout.resolve()
    os.environ["PYTHONPATH"] = str(serving.ROOT)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    figures: dict[str, Any] = {"machine": platform.machine(), "python": platform.python_version()}
    figures["streamlit"], figures["load"] = streamlit.__version__, os.getloadavg()
    with contextlib.contextmanager(browser.__wrapped__)() as engine:
        print(f"load {figures['load'][0]:.1f}, {os.cpu_count()} cores")
        if arguments.upload is not None:
            figures["upload"] = upload_seconds(engine, arguments.upload)
        if arguments.run:
            figures["run"] = run_seconds(engine)
        if timed:
            figures |= page_figures(engine, names, arguments)
    _print(figures)
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(figures, indent=1), encoding="utf-8")


def page_figures(engine: Any, names: Sequence[str], arguments: argparse.Namespace) -> dict[str, Any]:
    """Return first paint, changes of page and moves of epsilon."""
    figures: dict[str, Any] = {}
    if names:
        figures["first_paint"] = {name: first_paint(engine, name) for name in names}
    with _served() as running:
        walker = Walker(engine, running.address)
        walker.open()
        walker.press("Open the demo table")
        walker.see("Upload a table")
        walker.press("Continue to 2 Describe")
        walker.see("Describe the table")
        begun = time.perf_counter()
        walker.press("Continue to 3 Budget")
        walker.page.get_by_role("heading", name=HEADINGS["budget"][1]).first.wait_for()
        seen = time.perf_counter() - begun
        walker.page.get_by_role("slider").first.wait_for()
        walker.page.wait_for_selector('[data-testid="stApp"][data-test-script-state="notRunning"]')
        figures["budget_first"] = seen, time.perf_counter() - begun
        figures["changes"] = changes(walker, names, arguments.rounds)
        figures["moves"] = moves(walker, 50 if arguments.moves is None else arguments.moves, arguments.seed)
        walker.close()
    return figures


def _print(figures: dict[str, Any]) -> None:
    for what in ("upload", "run"):
        if what in figures:
            print(f"{what:6} {figures[what]:6.1f} s")
    if "changes" not in figures:
        return
    for name, seconds in figures.get("first_paint", {}).items():
        print(f"first paint  {name:10} {seconds:6.2f} s")
    seen, settled = figures["budget_first"]
    print(f"budget, first time: heading {seen:.2f} s, settled {settled:.2f} s")
    for name, taken in figures["changes"].items():
        (seen50, seen95), (all50, all95) = (quantiles([times[place] for times in taken]) for place in (0, 1))
        print(
            f"change to    {name:10} heading p50 {seen50:5.2f} p95 {seen95:5.2f} s, settled {all50:5.2f} {all95:5.2f}"
        )
    for what in ("shown", "drawn"):
        times = [move[what] for move in figures["moves"] if move[what] is not None]
        if times:
            middle, high = quantiles(times)
            still = len(figures["moves"]) - len(times)
            print(f"move, {what:6} p50 {middle:6.0f} ms  p95 {high:6.0f} ms  ({len(times)} moves, {still} without)")


if __name__ == "__main__":
    main()
