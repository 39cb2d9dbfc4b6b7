"""Work of every kind is started, followed and stopped by one engine, with real processes, on each database."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from synth import worker
from synth.errors import JobError
from synth.jobs import LocalEngine, processes
from synth.ledger.ledger import Ledger
from synth.privacy.accounting import PrivacyBudget
from synth.schema import Neighbours
from synth.store import Account, Store, Work, WorkKind, WorkState
from synth.store.work import SOURCES
from synth.system.settings import Settings

COMMAND = (sys.executable, str(Path(__file__).with_name("stand_in_worker.py")))
BUDGET = PrivacyBudget(1.0, 1e-6, Neighbours.REPLACE)
OTHER_KINDS = [kind for kind in WorkKind if kind is not WorkKind.RUN]
SUBJECT = "what is worked on"

every_kind = pytest.mark.parametrize("kind", WorkKind)
every_other_kind = pytest.mark.parametrize("kind", OTHER_KINDS)
on_sqlite = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)


@pytest.fixture
def engine(store: Store) -> Iterator[LocalEngine]:
    yield LocalEngine(store, command=COMMAND, gpus=())
    for work in store.work.active():
        if work.pid and work.pid_created:
            processes.kill(work.pid, work.pid_created)


def start(engine: LocalEngine, store: Store, account: Account, kind: WorkKind, do: str) -> str:
    """Start work that does something, and return its handle."""
    asked = json.dumps({"do": do})
    if kind is not WorkKind.RUN:
        return engine.begin(kind, SUBJECT, asked=asked, owner="owner")
    run = store.runs.add(account_id=account.id, config=asked, owner="owner")
    Ledger(store).reserve(account.id, run.id, BUDGET, purpose="run")
    return engine.submit(run.id)


def wait(condition: Callable[[], object]) -> None:
    end = time.monotonic() + 300
    while not condition():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.05)


def has_ended(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


def until_working(store: Store, handle: str) -> tuple[Work, int]:
    wait(lambda: store.work[handle].phase == "Working")
    work = store.work[handle]
    assert work.pid is not None
    return work, work.pid


@every_kind
def test_work_is_followed_to_its_end(engine: LocalEngine, store: Store, account: Account, kind: WorkKind) -> None:
    handle = start(engine, store, account, kind, "finish")
    wait(lambda: engine.state(handle) is WorkState.REPORTED)
    work = engine.standing(kind, handle if kind is WorkKind.RUN else SUBJECT)
    assert work == store.work[handle]
    assert (work.kind, work.phase, work.message, work.owner) == (kind, "Working", "", "owner")
    assert work.pid not in {None, os.getpid()}
    assert work.finished is not None


@every_kind
def test_work_whose_process_died_has_failed(
    engine: LocalEngine, store: Store, account: Account, settings: Settings, kind: WorkKind
) -> None:
    handle = start(engine, store, account, kind, "work")
    _, pid = until_working(store, handle)
    os.kill(pid, signal.SIGKILL)
    # Whoever looks finds it, not only who started it.
    with Store(settings) as own:
        other = LocalEngine(own, command=COMMAND, gpus=())
        wait(lambda: other.state(handle) is WorkState.FAILED)
    assert store.work[handle].message.startswith("The worker died without a message")
    assert not store.work.note_progress(handle, phase="Working", step=4, steps=10, losses=[])
    if kind is not WorkKind.RUN:
        again = start(engine, store, account, kind, "finish")
        wait(lambda: engine.state(again) is WorkState.REPORTED)


@every_kind
def test_work_that_was_stopped_stays_stopped(
    engine: LocalEngine, store: Store, account: Account, settings: Settings, kind: WorkKind
) -> None:
    handle = start(engine, store, account, kind, "work")
    _, pid = until_working(store, handle)
    engine.cancel(handle)
    wait(lambda: engine.state(handle) is WorkState.CANCELLED)
    wait(lambda: has_ended(pid))
    stopped = store.work[handle]
    assert f"The {kind} was cancelled." in stopped.message
    for state in SOURCES:
        assert not store.work.move(handle, state)
    assert worker.main([handle], settings=settings, command=COMMAND) == JobError.exit_code
    assert engine.cancel(handle) is WorkState.CANCELLED
    assert store.work[handle] == stopped


@every_other_kind
def test_work_that_is_stopped_before_its_process_says_anything_is_never_done(
    store: Store, settings: Settings, kind: WorkKind
) -> None:
    engine = LocalEngine(store, command=("true",), gpus=())
    work = store.work.begin(kind, SUBJECT, asked=json.dumps({"do": "finish"}), owner="owner", host=engine._host)
    engine.stop(kind, SUBJECT)
    assert store.work[work.id].state is WorkState.CANCELLED
    assert worker.main([work.id], settings=settings, command=COMMAND) == JobError.exit_code


@pytest.mark.thorough
@on_sqlite
@every_kind
@pytest.mark.parametrize(
    ("do", "words"), [("refuse", "Row 18 has 11 fields"), ("break down", "inside the program (incident")]
)
def test_what_went_wrong_is_said_without_a_foreign_word(
    engine: LocalEngine, store: Store, account: Account, kind: WorkKind, do: str, words: str
) -> None:
    handle = start(engine, store, account, kind, do)
    wait(lambda: engine.state(handle) is WorkState.FAILED)
    assert words in store.work[handle].message
    assert "canary" not in store.work[handle].message


ASK = """
import pathlib, sys
from synth.errors import JobError
from synth.jobs import LocalEngine
from synth.store import Store, WorkKind
from synth.system.settings import Settings
home, url, kind, subject, asked, *command = sys.argv[1:]
with Store(Settings(home=pathlib.Path(home), database_url=url)) as store:
    engine = LocalEngine(store, command=command, gpus=())
    print("ready", flush=True)
    sys.stdin.readline()
    try:
        print(engine.begin(WorkKind(kind), subject, asked=asked, owner="owner"))
    except JobError:
        print("busy")
"""


@pytest.mark.thorough
@pytest.mark.parametrize(  # all are begun by the same statement
    "kind", [kind if kind.is_charged else pytest.param(kind, marks=pytest.mark.audit) for kind in OTHER_KINDS]
)
def test_of_several_processes_that_ask_at_once_one_is_heard(
    engine: LocalEngine, store: Store, settings: Settings, kind: WorkKind
) -> None:
    # What ended before is no hindrance, and is put aside by whoever is heard.
    before = store.work.begin(kind, SUBJECT, asked="{}", owner="owner", host="here")
    store.work.move(before.id, WorkState.FAILED)
    arguments = [str(settings.home), settings.database_url, kind.value, SUBJECT, json.dumps({"do": "work"}), *COMMAND]
    asking = [
        subprocess.Popen([sys.executable, "-c", ASK, *arguments], stdin=-1, stdout=-1, text=True) for _ in range(4)
    ]
    for process in asking:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in asking:
        assert process.stdin is not None
        process.stdin.write("now\n")
        process.stdin.flush()
    said = [process.communicate()[0].strip() for process in asking]
    (heard,) = [line for line in said if line != "busy"]
    until_working(store, heard)
    assert len((settings.home / "executed").read_text(encoding="utf-8").split()) == 1
    with pytest.raises(JobError, match="already in progress"):
        engine.begin(kind, SUBJECT, asked="{}", owner="owner")
    assert engine.begin(kind, "another subject", asked=json.dumps({"do": "finish"}), owner="owner") != heard


@on_sqlite
def test_other_work_takes_no_slot_and_no_run_waits_for_it(engine: LocalEngine, store: Store, account: Account) -> None:
    others = [start(engine, store, account, kind, "work") for kind in OTHER_KINDS]
    assert store.settings.job_slots == 1
    run = start(engine, store, account, WorkKind.RUN, "work")
    for handle in (*others, run):
        until_working(store, handle)
    start(engine, store, account, WorkKind.RUN, "finish")
    assert len(store.work.waiting()) == 1
