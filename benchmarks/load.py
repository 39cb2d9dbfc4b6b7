"""Many people at one server: how long a page takes, whether anything is lost, and whether memory comes back.

    python benchmarks/load.py [--sessions 100] [--jobs 20] [--think 10] [--arrive 120] [--minutes 8] [--browser]
        [--only frozen] [--wait 0] [--json FILE]
    python benchmarks/load.py --think 1 --arrive 10 --only frozen           # a stress that no institution sees

A server of its own is started on the loopback address and a new home, once as it is and once with ``gc.freeze`` taken
out of it, which is what the server was before it froze what it had warmed up. Both do the same in one run, so that a
busy machine slows both. Visitors speak Streamlit's protocol over web sockets, without a browser, and spend a twentieth
of what the server does. Nothing leaves the machine; sessions, jobs and minutes are bounded.

What is warm: before the clock starts, one visitor goes the whole way of ``WAY``, a run and its report included.

What a visitor does is the list ``WAY``: each line is one action. Visitors come one after the other within ``--arrive``
seconds. The first ``--jobs`` of them spend their budget and start a run, so that the runs queue; they follow it, which
asks the server every second as a browser does, and read the report. The others go round ``ROUND`` until the last run
has ended. Between two actions a visitor thinks for ``--think`` seconds on average, drawn from an exponential law with a
fixed seed: 10 by default. Each screen here asks something to be read and decided, and TPC-W, a benchmark of shops whose
pages ask less, uses the same law with 7. A hundred people who all come within ``--arrive`` seconds, two minutes by
default, are a course that begins; nobody comes later, so all are there until the last run has ended.

One process answers all sessions, one at a time where Python computes. With N visitors who think for Z seconds and
pages of D seconds of the processor, an answer takes at least N D - Z, whatever else is done: with 100, 10 and .03 there
is room, with a second of thought there is none, and pages queue. So D, which is printed, tells more than the times.

The time of a page: from sending an action until the server says that the script has ended and no other run follows.
Lost: an action without an answer within a minute, an answer that shows another screen than the action leads to or an
incident, a closed connection, a run that does not end with a report. Memory: resident bytes of the server process.
"""

from __future__ import annotations

import argparse
import asyncio
import datetime
import http.client
import json
import math
import os
import platform
import random
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import streamlit
from playwright.async_api import Error, async_playwright

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "end_to_end"))

from visiting import ANSWER_SECONDS, RUN, WAY, Action, LostError, actions, visitor_of  # noqa: E402
from walking import CODEBOOK, small_table  # noqa: E402

MOST_SESSIONS, MOST_MINUTES = 100, 20
KEPT_SECONDS = 150
"""Streamlit keeps a closed session for two minutes, so that a browser can come back to it."""
ROWS = 600

ROUND = """
visit   2 Describe                              Describe the table
visit   3 Budget                                Choose a privacy budget
visit   Ledger                                  Ledger
visit   Compare                                 Compare runs
visit   Start                                   Turn a private table into rows you can share.
visit   1 Upload                                Upload a table
visit   4 Generate                              Generate rows
visit   Admin                                   Admin
"""

UNFROZEN = (
    "import gc, runpy, sys; gc.freeze = lambda: None; sys.argv = sys.argv[1:]; "
    "runpy.run_module('streamlit', run_name='__main__', alter_sys=True)"
)


@dataclass
class Counted:
    """What a phase measured; times in seconds."""

    pages: list[tuple[str, float]] = field(default_factory=list)
    ticks: list[float] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    seen: list[float] = field(default_factory=list)
    runs: int = 0
    deadline: float = math.inf


@contextmanager
def served(folder: Path, *, frozen: bool) -> Iterator[tuple[int, psutil.Process]]:
    """Run a server on a home of its own, and wait until it answers."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    (folder / "tmp").mkdir(parents=True)
    environment = {key: value for key, value in os.environ.items() if key != "DATABASE_URL"}
    environment |= {"HERMITAGE_HOME": str(folder / "home"), "TMPDIR": str(folder / "tmp"), "PYTHONPATH": str(ROOT)}
    start = ["-m", "streamlit"] if frozen else ["-c", UNFROZEN, "streamlit"]
    with (folder / "server.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, *start, "run", "app.py", "--server.headless", "true", "--server.port", str(port)],
            cwd=ROOT,
            env=environment,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    try:
        for _ in range(240):
            if _health(port):
                break
            time.sleep(0.25)
        else:
            raise RuntimeError("the server did not answer within a minute")
        yield port, psutil.Process(process.pid)
    finally:
        workers = psutil.Process(process.pid).children(recursive=True) if process.poll() is None else []
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=30)
        for worker in workers:  # of runs that had not ended, which outlive the server
            with suppress(psutil.NoSuchProcess):
                worker.kill()


def _health(port: int) -> bool:
    asked = http.client.HTTPConnection("127.0.0.1", port, timeout=2)
    try:
        asked.request("GET", "/_stcore/health")
        return asked.getresponse().read() == b"ok"
    except OSError:
        return False
    finally:
        asked.close()


@contextmanager
def highest(measure: Callable[[], int]) -> Iterator[list[int]]:
    """Note the largest value of a measure, taken twice a second, while the block runs."""
    kept, ended = [measure()], threading.Event()

    def watch() -> None:
        while not ended.wait(0.5):
            kept[0] = max(kept[0], measure())

    watching = threading.Thread(target=watch, daemon=True)
    watching.start()
    try:
        yield kept
    finally:
        ended.set()
        watching.join()


def files(folder: Path, accounts: list[str]) -> None:
    folder.mkdir()
    for account in accounts:
        small_table(folder, f"{account}.csv", rows=ROWS)
    (folder / "codebook.yaml").write_text(CODEBOOK.format(account="people"), encoding="utf-8")


async def visit(
    port: int,
    account: str,
    folder: Path,
    counted: Counted,
    think: float,
    *,
    runs: bool,
    until: Callable[[], bool],
    after: float = 0.0,
) -> None:
    """Go one visitor's way; a lost action ends it, and is counted."""
    await asyncio.sleep(after)
    draw, action = random.Random(account), Action("connect", "", "")  # noqa: S311 - how long somebody thinks
    try:
        async with visitor_of(port) as visitor:
            visitor.ticks, visitor.deadline = counted.ticks, counted.deadline

            async def do(line: Action) -> None:
                nonlocal action
                action = line
                began, waited = time.monotonic(), len(counted.ticks)
                await visitor.perform(line, folder)
                counted.runs += line.verb == "follow"
                if len(counted.ticks) == waited and line.verb != "follow":
                    counted.pages.append((f"{line.verb} {line.heading}", time.monotonic() - began))
                await asyncio.sleep(draw.expovariate(1 / think) if think else 0)

            for line in actions(WAY, account) + (actions(RUN) if runs else []):
                await do(line)
            while not until():
                for line in actions(ROUND):
                    if until():
                        break
                    await do(line)
    except Exception as error:
        what = str(error) if isinstance(error, LostError) else type(error).__name__
        counted.lost.append(f"{account}: {action.verb} {action.words}: {what}")


async def crowd(port: int, folder: Path, counted: Counted, given: argparse.Namespace) -> None:
    """Let all visitors in at once, and wait for the last run."""
    accounts = [f"people-{number:02d}" for number in range(given.sessions)]
    await asyncio.to_thread(files, folder, accounts)
    counted.deadline = time.monotonic() + 60 * given.minutes
    with_runs = [name for name in accounts[: given.jobs]]

    def until() -> bool:
        finished = counted.runs + sum(any(lost.startswith(f"{name}:") for name in with_runs) for lost in counted.lost)
        return finished >= given.jobs or time.monotonic() > counted.deadline

    apart = given.arrive / given.sessions
    tasks = [
        visit(port, name, folder, counted, given.think, runs=name in with_runs, until=until, after=number * apart)
        for number, name in enumerate(accounts)
    ]
    if given.browser:
        tasks.append(witness(port, counted, until=until))
    async with asyncio.timeout(60 * given.minutes + 2 * ANSWER_SECONDS):
        await asyncio.gather(*tasks)


async def witness(port: int, counted: Counted, *, until: Callable[[], bool]) -> None:
    """Go round with one real browser, and time what its reader sees: from the click until the screen stands still."""
    async with async_playwright() as engine:
        found = shutil.which("chromium") or engine.chromium.executable_path
        browser = await engine.chromium.launch(executable_path=found, args=["--no-sandbox", "--disable-gpu"])
        page = await browser.new_page()
        page.set_default_timeout(1000 * ANSWER_SECONDS)
        shown = [line for line in actions(ROUND) if line.words in {"Ledger", "Compare", "Start", "1 Upload", "Admin"}]
        try:
            await page.goto(f"http://127.0.0.1:{port}")
            await page.get_by_role("heading", level=1).first.wait_for()
            while not until():
                for line in shown:
                    began = time.monotonic()
                    await page.get_by_test_id("stSidebarNav").get_by_text(line.words, exact=True).click()
                    await page.get_by_role("heading", name=line.heading, exact=True, level=1).first.wait_for()
                    await page.locator('[data-testid="stApp"][data-test-script-state="notRunning"]').wait_for()
                    counted.seen.append(time.monotonic() - began)
                    await asyncio.sleep(1)
        except Error as error:
            counted.lost.append(f"browser: {type(error).__name__}")
        finally:
            await browser.close()


def measured(given: argparse.Namespace, *, frozen: bool) -> dict[str, Any]:
    """Serve, warm up, let the visitors in, and look at the memory before, at the peak and afterwards."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = Path(name)
        with served(folder / "server", frozen=frozen) as (port, server):
            warm = Counted()
            files(folder / "warm", ["warm"])
            asyncio.run(visit(port, "warm", folder / "warm", warm, 0, runs=True, until=_after_one_round(warm)))
            if warm.lost:
                raise RuntimeError(f"the warming visitor was lost: {warm.lost}")
            before, cpu, own = server.memory_info().rss, sum(server.cpu_times()[:2]), time.process_time()
            began, counted = time.monotonic(), Counted()
            with highest(lambda: server.memory_info().rss) as peak:
                asyncio.run(crowd(port, folder / "files", counted, given))
            seconds, own = time.monotonic() - began, time.process_time() - own
            cpu = sum(server.cpu_times()[:2]) - cpu
            after = _memory_afterwards(server, given.wait)
            failed = _incidents(folder / "server" / "server.log")
    times = sorted(seconds for _, seconds in counted.pages)
    if not times:
        raise RuntimeError(f"no page was drawn: {counted.lost[:3]}")
    cuts = statistics.quantiles(times, n=20, method="inclusive") if len(times) > 1 else times * 19
    slowest = {kind: max(seconds for name, seconds in counted.pages if name == kind) for kind, _ in counted.pages}
    return {
        "frozen": frozen,
        "pages": len(times),
        "p50": statistics.median(times),
        "p95": cuts[18],
        "max": times[-1],
        "ticks": len(counted.ticks),
        "browser": sorted(counted.seen),
        "runs": counted.runs,
        "lost": counted.lost,
        "incidents": failed,
        "seconds": seconds,
        "server_cpu_per_page": cpu / (len(times) + len(counted.ticks)),
        "visitors_cpu": own,
        "server_cpu": cpu,
        "memory_before": before,
        "memory_peak": peak[0],
        "memory_after": after,
        "slowest": dict(sorted(slowest.items(), key=lambda pair: -pair[1])[:5]),
    }


def _incidents(log: Path) -> list[str]:
    """Return the lines of the server's log that give an incident's kind of error and its place in the code."""
    return [line for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if "incident " in line]


def _after_one_round(counted: Counted) -> Callable[[], bool]:
    last = len(actions(WAY)) + len(actions(RUN)) - 1 + len(actions(ROUND))
    return lambda: len(counted.pages) >= last


def _memory_afterwards(server: psutil.Process, wait: int) -> int:
    """Look once a few seconds until Streamlit has let go of the closed sessions, and keep the least."""
    least = int(server.memory_info().rss)
    for _ in range(wait // 5):
        time.sleep(5)
        least = min(least, int(server.memory_info().rss))
    return least


def printed(found: dict[str, Any]) -> None:
    print(
        f"{'frozen' if found['frozen'] else 'not frozen'}: {found['pages']} pages, p50 {found['p50']:.2f} s, "
        f"p95 {found['p95']:.2f} s, max {found['max']:.2f} s; {found['runs']} runs ended with a report, "
        f"{len(found['lost'])} actions lost; {found['server_cpu_per_page']:.3f} CPU s of the server for a page or tick"
    )
    mega = {name: found[f"memory_{name}"] / 2**20 for name in ("before", "peak", "after")}
    print(
        f"  server: {mega['before']:.0f} MiB before, {mega['peak']:.0f} at the peak, {mega['after']:.0f} afterwards "
        f"({100 * (mega['after'] / mega['before'] - 1):+.0f} %); {found['seconds']:.0f} s in all, "
        f"{found['server_cpu']:.0f} CPU s of the server, {found['visitors_cpu']:.0f} of the visitors"
    )
    if seen := found["browser"]:
        print(f"  a browser: {len(seen)} pages, p50 {statistics.median(seen):.2f} s, max {seen[-1]:.2f} s")
    print("  slowest: " + ", ".join(f"{name} {seconds:.2f} s" for name, seconds in found["slowest"].items()))
    for line in found["lost"][:10]:
        print(f"  lost: {line}")
    for line in found["incidents"]:
        print(f"  {line}")
    sys.stdout.flush()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sessions", type=int, default=100)
    parser.add_argument("--jobs", type=int, default=20)
    parser.add_argument("--think", type=float, default=10.0, help="mean seconds between two actions of a visitor")
    parser.add_argument("--arrive", type=float, default=120.0, help="seconds within which the visitors come")
    parser.add_argument("--minutes", type=float, default=8.0, help="no action begins after so many minutes")
    parser.add_argument("--wait", type=int, default=KEPT_SECONDS, help="seconds to wait for the memory")
    parser.add_argument("--only", choices=["frozen", "unfrozen"], help="measure one of the two")
    parser.add_argument("--browser", action="store_true", help="one real browser goes round among the visitors")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    if not (0 <= given.jobs <= given.sessions <= MOST_SESSIONS and 0 < given.minutes <= MOST_MINUTES):
        parser.error(f"jobs at most as many as sessions, at most {MOST_SESSIONS} sessions and {MOST_MINUTES} minutes")
    wanted = [frozen for frozen, name in ((True, "frozen"), (False, "unfrozen")) if given.only in {None, name}]
    cores = len(os.sched_getaffinity(0))
    print(f"{given.sessions} sessions, {given.jobs} runs, {given.think:g} s of thought, {cores} cores", flush=True)
    found = []
    for frozen in wanted:
        found.append(measured(given, frozen=frozen))
        printed(found[-1])
    if len(found) == 2:
        ratios = {name: found[1][name] / found[0][name] for name in ("p50", "p95", "server_cpu_per_page")}
        print("not frozen / frozen: " + ", ".join(f"{name} {value:.1f}" for name, value in ratios.items()))
    if given.json is not None:
        given.json.parent.mkdir(parents=True, exist_ok=True)
        body = {
            "when": datetime.datetime.now(tz=datetime.UTC).isoformat(timespec="seconds"),
            "machine": {"processor": platform.processor() or platform.machine(), "cores": cores},
            "streamlit": streamlit.__version__,
            "given": {name: value for name, value in vars(given).items() if name != "json"},
            "found": found,
        }
        given.json.write_text(json.dumps(body, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
