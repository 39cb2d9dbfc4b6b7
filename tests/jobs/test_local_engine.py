"""The local engine with real processes: nothing is lost, nothing runs twice, and what was spent stays spent."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import psutil
import pytest

from synth import worker
from synth.errors import DatabaseAwayError
from synth.jobs import LocalEngine, processes
from synth.jobs import engine as shared
from synth.ledger.ledger import Ledger
from synth.privacy.accounting import PrivacyBudget
from synth.progress import OWNER_PHASE
from synth.schema import Neighbours, PrivacyUnit
from synth.store import Account, ChargeState, EventKind, Run, Store, WorkState, now
from synth.system.machine import cores, this_host
from synth.system.settings import Settings
from synth.vault.kept_answers import answers_path

SCRIPT = Path(__file__).with_name("stand_in_worker.py")
COMMAND = (sys.executable, str(SCRIPT))
CANARY = "canary-5512-cell"
BUDGET = PrivacyBudget(1.0, 1e-6, Neighbours.REPLACE)
PATIENCE_SECONDS = 300.0

on_sqlite = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)


@pytest.fixture
def engine(store: Store) -> Iterator[LocalEngine]:
    yield LocalEngine(store, command=COMMAND, gpus=())
    for run in store.work.active():
        if run.pid and run.pid_created and run.pid != os.getpid():
            processes.kill(run.pid, run.pid_created)


def plan(store: Store, account: Account, do: str, *, spend: bool = True, owner: str = "owner") -> Run:
    """Plan a run with a reservation, as the service does."""
    config = json.dumps({"do": do, "spend": spend})
    run = store.runs.add(account_id=account.id, config=config, owner=owner)
    Ledger(store).reserve(account.id, run.id, BUDGET, purpose="run")
    return run


def wait(condition: Callable[[], object]) -> None:
    end = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.05)


def charge_state(store: Store, run: Run) -> ChargeState:
    return Ledger(store).charges_of(run.id)[0].state


def executed(store: Store) -> list[str]:
    path = store.settings.home / "executed"
    return path.read_text(encoding="utf-8").split() if path.exists() else []


def until_working(store: Store, run: Run) -> Run:
    wait(lambda: store.runs[run.id].phase == "Working")
    return store.runs[run.id]


# --- the way it should go -----------------------------------------------------------------------------------------


def test_a_run_is_worked_on_in_a_process_of_its_own(engine: LocalEngine, store: Store, account: Account) -> None:
    run = plan(store, account, "finish")
    assert engine.submit(run.id) == run.id
    wait(lambda: engine.state(run.id) is WorkState.REPORTED)
    seen = store.runs[run.id]
    assert seen.pid not in {None, os.getpid()}
    assert (seen.phase, seen.step, seen.steps, seen.host) == ("Working", 0, 0, this_host())
    assert charge_state(store, run) is ChargeState.SPENT
    assert executed(store) == [run.id]


@on_sqlite
def test_the_queue_goes_on_without_anybody_watching(engine: LocalEngine, store: Store, account: Account) -> None:
    """One slot, three runs: the end of one worker starts the next."""
    first, *others = (plan(store, account, do, owner=do) for do in ("work", "finish", "finish"))
    for run in (first, *others):
        engine.submit(run.id)
    until_working(store, first)
    assert len(store.work.waiting()) == len(others)
    engine.cancel(first.id)
    wait(lambda: all(store.runs[run.id].state is WorkState.REPORTED for run in others))
    assert executed(store)[-2:] == [run.id for run in others]


@on_sqlite
def test_slots_gpus_and_threads_are_shared_out(store: Store, account: Account, settings: Settings) -> None:
    with Store(replace(settings, job_slots=2)) as wide:
        engine = LocalEngine(wide, command=COMMAND, gpus=("4", "7"))
        runs = [plan(store, account, "work", spend=False, owner=f"owner {index}") for index in range(3)]
        for run in runs:
            engine.submit(run.id, gpus=1)
        first, second = (until_working(store, run) for run in runs[:2])
        assert (first.gpu, second.gpu) == ("4", "7")
        assert engine.state(runs[2].id) is WorkState.QUEUED
        assert (len(wide.work.active()), len(wide.work.waiting())) == (2, 1)
        seen = json.loads((settings.home / f"environment-{second.id}").read_text(encoding="utf-8"))
        assert seen["CUDA_VISIBLE_DEVICES"] == "7"
        assert seen["OMP_NUM_THREADS"] == str(max(1, cores() // 2))

        engine.cancel(first.id)
        third = until_working(store, runs[2])  # started by the end of the first worker
        assert third.gpu == "4"
        for run in runs[1:]:
            engine.cancel(run.id)
        wait(lambda: not wide.work.active())


def test_two_slots_are_two_runs_of_one_owner_at_once(store: Store, account: Account, settings: Settings) -> None:
    """Two real workers share the cores, a third waits; the end of one worker, by itself, starts it."""
    with Store(replace(settings, job_slots=2)) as wide:
        engine = LocalEngine(wide, command=COMMAND, gpus=())
        ending = settings.home / "end"
        first = plan(store, account, "work until told", spend=False)
        second, third = (plan(store, account, "work", spend=False) for _ in range(2))
        for run in (first, second, third):
            engine.submit(run.id)
        workers = {until_working(store, run).pid for run in (first, second)}
        assert len(workers) == 2
        assert all(psutil.Process(pid).is_running() for pid in workers)
        assert engine.state(third.id) is WorkState.QUEUED
        seen = json.loads((settings.home / f"environment-{first.id}").read_text(encoding="utf-8"))
        assert (seen["HERMITAGE_JOB_SLOTS"], seen["OMP_NUM_THREADS"]) == ("2", str(max(1, cores() // 2)))
        ending.touch()
        until_working(store, third)
        assert store.runs[first.id].state is WorkState.REPORTED
        assert store.runs[second.id].state is WorkState.RUNNING
        for run in (second, third):
            engine.cancel(run.id)
        wait(lambda: not wide.work.active())


# --- crashes ------------------------------------------------------------------------------------------------------


def test_a_killed_worker_is_noticed_and_stays_spent_and_is_not_run_again(
    engine: LocalEngine, store: Store, account: Account
) -> None:
    run = plan(store, account, "work")
    following = plan(store, account, "finish")
    engine.submit(run.id)
    engine.submit(following.id)
    pid = until_working(store, run).pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    wait(lambda: engine.state(run.id) is WorkState.FAILED)
    assert charge_state(store, run) is ChargeState.FAILED_SPENT
    assert "stays spent" in store.runs[run.id].message
    wait(lambda: engine.state(following.id) is WorkState.REPORTED)
    assert executed(store) == [run.id, following.id]


@on_sqlite
def test_a_worker_that_dies_before_it_spends_frees_its_reservation(
    engine: LocalEngine, store: Store, account: Account
) -> None:
    run = plan(store, account, "die", spend=False)
    engine.submit(run.id)
    wait(lambda: engine.state(run.id) is WorkState.FAILED)
    assert charge_state(store, run) is ChargeState.FREED
    assert "had not been spent, so it was freed" in store.runs[run.id].message


@on_sqlite
def test_a_worker_that_cannot_start_fails_the_run(store: Store, account: Account, tmp_path: Path) -> None:
    engine = LocalEngine(store, command=(str(tmp_path / "no program"),), gpus=())
    run = plan(store, account, "finish")
    engine.submit(run.id)
    assert engine.state(run.id) is WorkState.FAILED
    assert charge_state(store, run) is ChargeState.FREED


class Clock:
    """Monotonic seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.seconds = 5.0

    def __call__(self) -> float:
        return self.seconds


def watch(engine: LocalEngine, clock: Clock, run: Run, seconds: float, *, step: float = 0.2) -> WorkState:
    """Ask for the state of a run again and again while the clock goes on."""
    for _ in range(round(seconds / step)):
        clock.seconds += step
        state = engine.state(run.id)
    return state


@pytest.fixture(params=[-3600, 3600], ids=["an hour back", "an hour on"])
def stepped(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Set the clock, as this process sees it: the time of day, and from it the time at which the machine started."""
    step = timedelta(seconds=request.param)

    def set_clock() -> None:
        real_boot = psutil.boot_time()
        monkeypatch.setattr(psutil, "boot_time", lambda: real_boot + request.param)
        monkeypatch.setattr("psutil._pslinux.boot_time", lambda: real_boot + request.param, raising=False)
        for module in ("synth.store.layout", "synth.store.work", "synth.ledger.ledger"):
            monkeypatch.setattr(f"{module}.now", lambda: now() + step)

    return set_clock


def test_a_clock_that_is_set_makes_no_worker_look_dead(
    store: Store, account: Account, stepped: Callable[[], None]
) -> None:
    """A real worker, one of another machine, one that is being started and one that was asked to stop."""
    clock = Clock()
    engine = LocalEngine(store, command=COMMAND, gpus=(), clock=clock)
    real = plan(store, account, "work")
    engine.submit(real.id)
    pid = until_working(store, real).pid
    assert pid is not None
    starting, elsewhere, stopping = (plan(store, account, "work") for _ in range(3))
    store.work.put(starting.id, gpus=0, cpus=0)
    store.work.take(host=this_host(), slots=9, gpus=())
    store.work.claim(elsewhere.id, host="elsewhere", pid=1, pid_created=1.0)
    born = processes.birth_of(os.getpid())
    store.work.claim(stopping.id, host=this_host(), pid=os.getpid(), pid_created=born)
    store.work.request_cancel(stopping.id)
    runs = (real, starting, elsewhere, stopping)
    assert [engine.state(run.id) for run in runs] == [WorkState.RUNNING] * 4
    stepped()
    assert [engine.state(run.id) for run in runs] == [WorkState.RUNNING] * 4
    assert psutil.pid_exists(pid)
    # What is really dead is noticed all the same.
    os.kill(pid, signal.SIGKILL)
    wait(lambda: engine.state(real.id) is WorkState.FAILED)


@on_sqlite
def test_a_slot_taken_by_a_process_that_never_came_is_given_back(store: Store, account: Account) -> None:
    clock = Clock()
    engine = LocalEngine(store, command=COMMAND, gpus=(), clock=clock)
    run = plan(store, account, "finish")
    store.work.put(run.id, gpus=0, cpus=0)
    store.work.take(host=this_host(), slots=1, gpus=())
    assert watch(engine, clock, run, shared.START_SECONDS) is WorkState.RUNNING
    assert watch(engine, clock, run, 0.6) is WorkState.FAILED
    assert charge_state(store, run) is ChargeState.FREED


@on_sqlite
def test_another_process_with_the_same_number_is_not_the_worker(
    engine: LocalEngine, store: Store, account: Account
) -> None:
    mine, theirs, earlier = (plan(store, account, "work") for _ in range(3))
    born = processes.birth_of(os.getpid())
    store.work.claim(mine.id, host=this_host(), pid=os.getpid(), pid_created=born)
    store.work.claim(theirs.id, host=this_host(), pid=os.getpid(), pid_created=born - 1)
    other_boot = float(int(born) ^ (1 << processes.TICK_BITS))
    store.work.claim(earlier.id, host=this_host(), pid=os.getpid(), pid_created=other_boot)
    assert engine.state(mine.id) is WorkState.RUNNING
    assert engine.state(theirs.id) is WorkState.FAILED
    assert engine.state(earlier.id) is WorkState.FAILED


@on_sqlite
def test_a_worker_on_another_machine_is_judged_by_its_lease(store: Store, account: Account) -> None:
    clock = Clock()
    engine = LocalEngine(store, command=COMMAND, gpus=(), clock=clock)
    run = plan(store, account, "work")
    store.work.claim(run.id, host="elsewhere", pid=1, pid_created=1.0)
    charge = Ledger(store).charges_of(run.id)[0]
    lease = shared.LEASE_BEATS * store.settings.heartbeat_seconds
    assert watch(engine, clock, run, lease) is WorkState.RUNNING
    assert watch(engine, clock, run, 0.6) is WorkState.FAILED
    # Had it only been cut off, it could spend nothing now and would be told to stop at its next step.
    with pytest.raises(Exception, match="cannot become spent"):
        Ledger(store).spend(charge)
    assert not store.work.note_progress(run.id, phase="Measuring", step=0, steps=1, losses=[])


@on_sqlite
def test_time_that_nobody_watched_ends_no_lease(store: Store, account: Account) -> None:
    """The database was away for ten minutes: the worker could not renew its lease, and has a beat to do so."""
    clock = Clock()
    engine = LocalEngine(store, command=COMMAND, gpus=(), clock=clock)
    run = plan(store, account, "work")
    store.work.claim(run.id, host="elsewhere", pid=1, pid_created=1.0)
    assert engine.state(run.id) is WorkState.RUNNING
    clock.seconds += 600
    assert engine.state(run.id) is WorkState.RUNNING
    assert watch(engine, clock, run, 0.4) is WorkState.RUNNING


def test_a_run_is_found_again_after_the_app_restarts(
    engine: LocalEngine, store: Store, account: Account, settings: Settings
) -> None:
    """Another process submits and is gone; this one sees the run working, then sees it die."""
    run = plan(store, account, "work")
    app = (
        "import sys, pathlib\n"
        "from synth.system.settings import Settings\n"
        "from synth.jobs import LocalEngine\n"
        "from synth.store import Store\n"
        "home, url, run_id, *command = sys.argv[1:]\n"
        "with Store(Settings(home=pathlib.Path(home), database_url=url)) as store:\n"
        "    LocalEngine(store, command=command, gpus=()).submit(run_id)\n"
    )
    arguments = [str(settings.home), settings.database_url, run.id, *COMMAND]
    subprocess.run([sys.executable, "-c", app, *arguments], check=True, timeout=PATIENCE_SECONDS)
    engine.recover()
    pid = until_working(store, run).pid
    assert pid is not None
    assert engine.state(run.id) is WorkState.RUNNING
    assert psutil.Process(pid).ppid() != os.getpid()
    os.kill(pid, signal.SIGKILL)
    wait(lambda: engine.state(run.id) is WorkState.FAILED)
    assert charge_state(store, run) is ChargeState.FAILED_SPENT
    assert executed(store) == [run.id]


@on_sqlite
def test_the_heartbeat_goes_on_while_one_step_takes_long(engine: LocalEngine, store: Store, account: Account) -> None:
    run = plan(store, account, "hear nothing")
    engine.submit(run.id)
    first = until_working(store, run).heartbeat
    assert first is not None
    wait(lambda: (store.runs[run.id].heartbeat or first) - first >= timedelta(seconds=2))


# --- going on from kept answers -----------------------------------------------------------------------------------


@pytest.mark.parametrize("do", ["die once", "lack memory once"])
def test_a_run_with_kept_answers_is_given_another_worker_and_charged_once(
    engine: LocalEngine, store: Store, account: Account, do: str
) -> None:
    run = plan(store, account, do)
    following = plan(store, account, "finish")
    engine.submit(run.id, gpus=1)
    engine.submit(following.id)
    wait(lambda: engine.state(following.id) is WorkState.REPORTED)
    seen = store.runs[run.id]
    assert (seen.state, seen.attempts, seen.went_on, seen.message) == (WorkState.REPORTED, 2, True, "")
    assert (seen.gpus, seen.host) == (1 if do == "die once" else 0, this_host())
    assert executed(store) == [run.id, run.id, following.id], "it keeps its place in the queue"
    states = [row.state for row in Ledger(store).rows(account.id) if row.run_id == run.id]
    assert states == [ChargeState.RESERVED, ChargeState.SPENT]
    assert not store.runs[following.id].went_on


def test_a_run_is_given_three_workers_at_most(engine: LocalEngine, store: Store, account: Account) -> None:
    run = plan(store, account, "die always")
    engine.submit(run.id)
    wait(lambda: engine.state(run.id) is WorkState.FAILED)
    assert executed(store) == [run.id] * 3
    assert store.runs[run.id].message.startswith("The worker died 3 times without a message")
    assert charge_state(store, run) is ChargeState.FAILED_SPENT
    assert not answers_path(store.settings.home, run.id).exists()


def test_two_servers_that_find_the_same_worker_gone_give_its_run_one_other_and_end_nothing(
    store: Store, account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both have seen that the worker is gone; one puts the run back while the other is about to."""
    first, second = (LocalEngine(store, command=COMMAND, gpus=()) for _ in range(2))
    run = plan(store, account, "die when told")
    first.submit(run.id)
    pid, born = until_working(store, run).pid, store.runs[run.id].pid_created
    assert pid is not None
    assert born is not None
    put_back, late = shared.put_back, [second]

    def after_the_other(*args: Any, **named: Any) -> bool:
        if late:
            late.pop().tend()
        return put_back(*args, **named)

    monkeypatch.setattr(shared, "put_back", after_the_other)
    processes.kill(pid, born)
    first.tend()
    wait(lambda: second.state(run.id) in {WorkState.REPORTED, WorkState.FAILED})
    assert store.runs[run.id].state is WorkState.REPORTED, store.runs[run.id].message
    assert charge_state(store, run) is ChargeState.SPENT
    assert executed(store) == [run.id] * 2


def test_two_servers_start_no_run_twice_and_two_slots_hold_two_runs(
    store: Store, account: Account, settings: Settings
) -> None:
    """Two servers of one home tend the queue at once while runs end, die and go on."""
    wide = replace(settings, job_slots=2)
    runs = [plan(store, account, do) for do in ("die once", "finish", "die once", "finish")]
    most, failed = [0], []
    ended = threading.Event()

    def tend() -> None:
        try:
            with Store(wide) as own:
                engine = LocalEngine(own, command=COMMAND, gpus=())
                while not ended.is_set():
                    engine.tend()
                    most[0] = max(most[0], len(own.work.active()))
                    time.sleep(0.02)
        except BaseException as error:
            failed.append(error)

    for run in runs:
        store.work.put(run.id, gpus=0, cpus=0)
    servers = [threading.Thread(target=tend) for _ in range(2)]
    for server in servers:
        server.start()
    try:
        wait(lambda: failed or all(store.runs[run.id].is_finished for run in runs))
    finally:
        ended.set()
        for server in servers:
            server.join()
    assert not failed
    assert most[0] <= 2
    assert [store.runs[run.id].state for run in runs] == [WorkState.REPORTED] * 4
    assert sorted(executed(store)) == sorted([run.id for run in runs] + [runs[0].id, runs[2].id])
    assert [store.runs[run.id].attempts for run in runs] == [2, 1, 2, 1]


# --- cancelling ---------------------------------------------------------------------------------------------------


def test_cancelling_in_the_queue_is_free_and_while_running_is_not(
    engine: LocalEngine, store: Store, account: Account
) -> None:
    running, waiting = (plan(store, account, "work") for _ in range(2))
    engine.submit(running.id)
    engine.submit(waiting.id)
    assert engine.cancel(waiting.id) is WorkState.CANCELLED
    assert charge_state(store, waiting) is ChargeState.FREED
    assert "had not been spent, so it was freed" in store.runs[waiting.id].message

    until_working(store, running)
    engine.cancel(running.id)
    wait(lambda: engine.state(running.id) is WorkState.CANCELLED)
    assert charge_state(store, running) is ChargeState.FAILED_SPENT
    assert "stays spent" in store.runs[running.id].message
    assert engine.cancel(running.id) is WorkState.CANCELLED
    assert executed(store) == [running.id]


@on_sqlite
def test_a_worker_that_does_not_listen_is_killed(
    engine: LocalEngine, store: Store, account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = plan(store, account, "hear nothing")
    engine.submit(run.id)
    pid = until_working(store, run).pid
    assert pid is not None
    monkeypatch.setattr(shared, "CANCEL_SECONDS", -1.0)
    # What is sealed is kept: the owner's report may take as long as its step.
    store.work.note_progress(run.id, phase=OWNER_PHASE, step=0, steps=0, losses=())
    assert engine.cancel(run.id) is WorkState.RUNNING
    assert engine.state(run.id) is WorkState.RUNNING
    assert psutil.pid_exists(pid)
    store.work.note_progress(run.id, phase="Working", step=0, steps=0, losses=())
    assert engine.state(run.id) is WorkState.CANCELLED
    assert not psutil.pid_exists(pid)
    assert charge_state(store, run) is ChargeState.FAILED_SPENT


@on_sqlite
def test_a_finished_run_cannot_be_cancelled(engine: LocalEngine, store: Store, account: Account) -> None:
    run = plan(store, account, "finish")
    engine.submit(run.id)
    wait(lambda: engine.state(run.id) is WorkState.REPORTED)
    assert engine.cancel(run.id) is WorkState.REPORTED
    assert charge_state(store, run) is ChargeState.SPENT


# --- what a worker leaves behind ----------------------------------------------------------------------------------


@on_sqlite
def test_our_own_errors_are_shown(engine: LocalEngine, store: Store, account: Account) -> None:
    run = plan(store, account, "refuse")
    engine.submit(run.id)
    wait(lambda: engine.state(run.id) is WorkState.FAILED)
    assert store.runs[run.id].message.startswith(
        "Row 18 has 11 fields; the header has 12. Its budget had already been spent"
    )
    assert charge_state(store, run) is ChargeState.FAILED_SPENT


@on_sqlite
def test_foreign_errors_leave_an_incident_and_no_word(engine: LocalEngine, store: Store, account: Account) -> None:
    run = plan(store, account, "break down")
    engine.submit(run.id)
    wait(lambda: engine.state(run.id) is WorkState.FAILED)
    seen = store.runs[run.id]
    (event,) = store.events.of_kind(EventKind.INCIDENT)
    assert seen.incident_id is not None
    assert seen.incident_id in seen.message
    assert event.detail["incident"] == seen.incident_id
    assert event.detail["type"] == "ValueError"
    assert "in break_down" in event.detail["where"] or "in _work" in event.detail["where"]
    # In a process of its own: reading a database's file in this one would drop SQLite's locks on it.
    searched = subprocess.run(["grep", "-rlaF", CANARY, str(store.settings.home)], capture_output=True, text=True)
    assert (searched.returncode, searched.stdout) == (1, "")


@on_sqlite
def test_a_run_without_a_result_is_a_failure(engine: LocalEngine, store: Store, account: Account) -> None:
    run = plan(store, account, "stop halfway")
    engine.submit(run.id)
    wait(lambda: engine.state(run.id) is WorkState.FAILED)
    assert "without a result" in store.runs[run.id].message


@on_sqlite
def test_no_worker_takes_a_run_that_was_worked_on(
    engine: LocalEngine, store: Store, account: Account, settings: Settings
) -> None:
    run = plan(store, account, "finish")
    engine.submit(run.id)
    wait(lambda: engine.state(run.id) is WorkState.REPORTED)

    def never(run_id: str, *, settings: Settings, progress: object) -> None:
        pytest.fail("a run was executed twice")

    for job_id in (run.id, "no such run"):
        assert worker.main([job_id], execute=never, settings=settings, command=COMMAND) == 70
    assert executed(store) == [run.id]


# --- a database that goes away ------------------------------------------------------------------------------------


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("do", "state", "charge"),
    [
        ("spend when told", WorkState.REPORTED, ChargeState.SPENT),
        ("work until told", WorkState.REPORTED, ChargeState.SPENT),
        ("refuse when told", WorkState.FAILED, ChargeState.FAILED_SPENT),
    ],
)
def test_a_run_waits_for_a_database_that_is_away_and_goes_on(
    own_server: Any, tmp_path: Path, do: str, state: WorkState, charge: ChargeState
) -> None:
    """A real PostgreSQL is stopped in the middle of a real run, which has to spend, to end or to fail meanwhile."""
    settings = Settings(home=tmp_path / "home", database_url=own_server.url, heartbeat_seconds=0.2)
    with Store(settings) as store:
        account = store.accounts.ensure("city survey", Neighbours.REPLACE, PrivacyUnit())[0]
        engine = LocalEngine(store, command=COMMAND, gpus=())
        run = plan(store, account, do, spend=do != "spend when told")
        engine.submit(run.id)
        pid = until_working(store, run).pid
        assert pid is not None
        own_server.stop()
        (settings.home / "end").touch()
        wait((settings.home / "told").exists)
        time.sleep(3)  # the worker asks in vain meanwhile
        assert psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
        own_server.start()
        wait(lambda: engine.state(run.id) is state)
        assert charge_state(store, run) is charge
        assert len(store.charges.of_run(run.id)) == (3 if charge is ChargeState.FAILED_SPENT else 2)
        assert ("Row 18 has 11 fields" in store.runs[run.id].message) is (state is WorkState.FAILED)
        assert executed(store) == [run.id]


@pytest.mark.thorough
def test_a_worker_that_dies_while_the_database_is_away_is_followed_by_another(own_server: Any, tmp_path: Path) -> None:
    settings = Settings(home=tmp_path / "home", database_url=own_server.url)
    with Store(settings) as store:
        account = store.accounts.ensure("city survey", Neighbours.REPLACE, PrivacyUnit())[0]
        engine = LocalEngine(store, command=COMMAND, gpus=())
        run, following = plan(store, account, "die when told"), plan(store, account, "finish")
        engine.submit(run.id)
        engine.submit(following.id)
        worker = until_working(store, run)
        assert worker.pid is not None
        assert worker.pid_created is not None
        own_server.stop()
        processes.kill(worker.pid, worker.pid_created)
        with pytest.raises(DatabaseAwayError):
            engine.tend()
        own_server.start()
        wait(lambda: engine.state(following.id) is WorkState.REPORTED)
        assert store.runs[run.id].state is WorkState.REPORTED
        assert executed(store) == [run.id, run.id, following.id]
        assert charge_state(store, run) is ChargeState.SPENT
