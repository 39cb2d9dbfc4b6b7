"""A worker whose work is told by what was asked for; everything around the work is the real worker."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path

from synth.errors import TableError
from synth.ledger.ledger import Ledger
from synth.progress import Progress
from synth.store import PATIENCE_SECONDS, ChargeState, Store, WorkState
from synth.system.settings import Settings
from synth.vault.kept_answers import AnswerFile, answers_path
from synth.worker import main

COMMAND = (sys.executable, str(Path(__file__).resolve()))
CANARY = "canary-5512-cell"
LIMIT_SECONDS = 400.0


def execute(run_id: str, *, settings: Settings, progress: Progress) -> None:
    with Store(settings, patience=PATIENCE_SECONDS) as store:
        plan = json.loads(store.work[run_id].asked or store.runs[run_id].config)
        note(settings.home / "executed", run_id)
        note(settings.home / f"environment-{run_id}", json.dumps(dict(os.environ)))
        if plan.get("spend"):
            ledger = Ledger(store)
            for charge in ledger.charges_of(run_id):
                if charge.state is ChargeState.RESERVED:
                    ledger.spend(charge)
        progress.phase("Working")
        WORK[plan["do"]](store, run_id, progress)


def finish(store: Store, run_id: str, progress: Progress) -> None:
    progress.step(1, 1)
    store.work.advance(run_id, WorkState.MEASURED)
    store.work.advance(run_id, WorkState.REPORTED)


def work(store: Store, run_id: str, progress: Progress) -> None:
    end = time.monotonic() + LIMIT_SECONDS
    while time.monotonic() < end:
        progress.step(3, 10)
        time.sleep(0.02)


def until_told(store: Store, progress: Progress) -> None:
    end = time.monotonic() + LIMIT_SECONDS
    while time.monotonic() < end and not (store.settings.home / "end").exists():
        progress.step(3, 10)
        time.sleep(0.02)
    note(store.settings.home / "told", "told")


def work_until_told(store: Store, run_id: str, progress: Progress) -> None:
    until_told(store, progress)
    finish(store, run_id, progress)


def spend_when_told(store: Store, run_id: str, progress: Progress) -> None:
    until_told(store, progress)
    ledger = Ledger(store)
    for charge in ledger.charges_of(run_id):
        ledger.spend(charge)
    finish(store, run_id, progress)


def refuse_when_told(store: Store, run_id: str, progress: Progress) -> None:
    until_told(store, progress)
    refuse(store, run_id, progress)


def hear_nothing(store: Store, run_id: str, progress: Progress) -> None:
    time.sleep(LIMIT_SECONDS)


def refuse(store: Store, run_id: str, progress: Progress) -> None:
    raise TableError("Row 18 has 11 fields; the header has 12.")


def break_down(store: Store, run_id: str, progress: Progress) -> None:
    float(CANARY)


def speak(store: Store, run_id: str, progress: Progress) -> None:
    for stream in (sys.stdout, sys.stderr):
        stream.write(CANARY + "\n")
        stream.flush()
    finish(store, run_id, progress)


def die(store: Store, run_id: str, progress: Progress) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def keep_an_answer(store: Store, run_id: str) -> None:
    path = answers_path(store.settings.home, run_id)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not store.work[run_id].went_on:
        with AnswerFile(path, key=bytes(32), run_id=run_id) as file:
            file.begin({})


def die_always(store: Store, run_id: str, progress: Progress) -> None:
    keep_an_answer(store, run_id)
    die(store, run_id, progress)


def die_once(store: Store, run_id: str, progress: Progress) -> None:
    keep_an_answer(store, run_id)
    if not store.work[run_id].went_on:
        die(store, run_id, progress)
    finish(store, run_id, progress)


def die_when_told(store: Store, run_id: str, progress: Progress) -> None:
    keep_an_answer(store, run_id)
    if not store.work[run_id].went_on:
        while not (store.settings.home / "end").exists():
            time.sleep(0.02)
        die(store, run_id, progress)
    finish(store, run_id, progress)


def lack_memory_once(store: Store, run_id: str, progress: Progress) -> None:
    keep_an_answer(store, run_id)
    if not store.work[run_id].went_on:
        raise MemoryError(CANARY)
    finish(store, run_id, progress)


def stop_halfway(store: Store, run_id: str, progress: Progress) -> None:
    return


WORK = {
    "finish": finish,
    "work": work,
    "work until told": work_until_told,
    "spend when told": spend_when_told,
    "refuse when told": refuse_when_told,
    "hear nothing": hear_nothing,
    "refuse": refuse,
    "break down": break_down,
    "speak": speak,
    "die": die,
    "die always": die_always,
    "die when told": die_when_told,
    "die once": die_once,
    "lack memory once": lack_memory_once,
    "stop halfway": stop_halfway,
}


def note(path: Path, line: str) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(line + "\n")


if __name__ == "__main__":
    settings = replace(Settings.from_environment(), heartbeat_seconds=0.2)
    sys.exit(main(execute=execute, settings=settings, command=COMMAND))
