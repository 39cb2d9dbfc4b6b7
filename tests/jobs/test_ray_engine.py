"""The engine of a Ray cluster, with a real Ray and a real PostgreSQL: what the local engine promises holds here too."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from ray_cluster import RayCluster
from stand_in_worker import CANARY, COMMAND

from synth.errors import ClusterAwayError
from synth.jobs import engine as shared
from synth.jobs import engine_of, processes
from synth.jobs.ray_jobs import RayClient, RayEngine
from synth.ledger.ledger import Ledger
from synth.privacy.accounting import PrivacyBudget
from synth.schema import Neighbours
from synth.store import Account, ChargeState, Run, Store, WorkKind, WorkState
from synth.system.settings import Settings
from synth.vault.keys import load_keys

pytestmark = [pytest.mark.thorough, pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)]

BUDGET = PrivacyBudget(1.0, 1e-6, Neighbours.REPLACE)
PASSWORD = "canary-5512-password"
PATIENCE_SECONDS = 300.0


def with_password(url: str) -> str:
    """Put a password into an address; the server of the tests asks for none."""
    return url.replace("postgres@", f"postgres:{PASSWORD}@")


@pytest.fixture(scope="module")
def cluster(postgres_server: Path) -> Iterator[RayCluster]:
    url = with_password(f"postgresql://postgres@/postgres?host={postgres_server}")
    cluster = RayCluster({"DATABASE_URL": url})
    yield cluster
    cluster.close()


@pytest.fixture
def settings(cluster: RayCluster, tmp_path: Path, database_url: str, monkeypatch: pytest.MonkeyPatch) -> Settings:
    for name, value in cluster.client_environment.items():
        monkeypatch.setenv(name, value)
    home = tmp_path / "home"
    load_keys(home)
    return Settings(
        home=home, database_url=with_password(database_url), heartbeat_seconds=0.2, threads=1, ray=cluster.address
    )


@pytest.fixture
def engine(store: Store, cluster: RayCluster) -> Iterator[RayEngine]:
    yield RayEngine(store, command=COMMAND)
    for work in (*store.work.active(), *store.work.waiting()):
        store.work.move(work.id, WorkState.CANCELLED)
    cluster.end_jobs()


def plan(store: Store, account: Account, do: str, *, spend: bool = True) -> Run:
    """Plan a run with a reservation, as the service does."""
    run = store.runs.add(account_id=account.id, config=json.dumps({"do": do, "spend": spend}), owner="owner")
    Ledger(store).reserve(account.id, run.id, BUDGET, purpose="run")
    return run


def wait(condition: Callable[[], object]) -> None:
    end = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.1)


def until(engine: RayEngine, work_id: str, state: WorkState) -> None:
    """Wait until work is in a state; it may not end in another."""
    found = engine._store.work
    wait(lambda: engine.state(work_id) is state or found[work_id].is_finished)
    assert found[work_id].state is state, found[work_id].message


def charge_state(store: Store, run: Run) -> ChargeState:
    return Ledger(store).charges_of(run.id)[0].state


def executed(store: Store) -> list[str]:
    path = store.settings.home / "executed"
    return path.read_text(encoding="utf-8").split() if path.exists() else []


def until_working(store: Store, run: Run) -> Run:
    wait(lambda: store.runs[run.id].phase == "Working")
    return store.runs[run.id]


def pid_of(run: Run) -> int:
    assert run.pid is not None
    return run.pid


# --- the way it should go -----------------------------------------------------------------------------------------


def test_a_run_is_a_job_of_the_cluster_and_other_work_is_not(
    engine: RayEngine, store: Store, account: Account, cluster: RayCluster
) -> None:
    run = plan(store, account, "finish")
    assert engine.submit(run.id) == run.id
    until(engine, run.id, WorkState.REPORTED)
    assert (store.runs[run.id].attempts, charge_state(store, run)) == (1, ChargeState.SPENT)
    (job,) = cluster.jobs_of(run.id)
    assert job["submission_id"] == f"hermitage-{run.id}-1"
    handle = engine.begin(WorkKind.REPORT, "a part", asked=json.dumps({"do": "finish"}), owner="owner")
    until(engine, handle, WorkState.REPORTED)
    wait(lambda: not processes.is_alive(store.work[handle].pid or 0, store.work[handle].pid_created or 0.0))
    assert not cluster.jobs_of(handle)
    assert executed(store) == [run.id, handle]


def test_ray_learns_the_id_of_a_run_and_nothing_private(
    engine: RayEngine, store: Store, account: Account, cluster: RayCluster
) -> None:
    """Its table of jobs has no address of the database, its logs nothing that a worker or a library prints."""
    run = plan(store, account, "speak")
    engine.submit(run.id, gpus=1)
    until(engine, run.id, WorkState.REPORTED)
    wait(lambda: cluster.jobs_of(run.id)[0]["status"] == "SUCCEEDED")
    (job,) = cluster.jobs_of(run.id)
    assert job["metadata"] is None
    assert set(job["runtime_env"]) == {"env_vars"}
    assert set(job["runtime_env"]["env_vars"]) == {
        "HERMITAGE_HOME",
        "HERMITAGE_RAY",
        "HERMITAGE_JOB_SLOTS",
        "HERMITAGE_THREADS",
        *shared.THREAD_VARIABLES,
    }
    said = cluster.ask("GET", f"/api/jobs/{job['submission_id']}/logs")["logs"]
    assert said.splitlines()[1:] == [f"Running entrypoint for job {job['submission_id']}: {job['entrypoint']}"]
    for word in (CANARY, PASSWORD):
        searched = subprocess.run(["grep", "-rlaF", word, str(cluster.directory)], capture_output=True, text=True)
        assert (searched.returncode, searched.stdout) == (1, "")
    assert job["entrypoint"].startswith("exec ")
    assert job["entrypoint"].endswith(f" {run.id} </dev/null >/dev/null 2>&1")
    # The worker itself does know the database, from the environment of its machine.
    seen = json.loads((store.settings.home / f"environment-{run.id}").read_text(encoding="utf-8"))
    assert PASSWORD in seen["DATABASE_URL"]
    assert (seen["CUDA_VISIBLE_DEVICES"], seen["OMP_NUM_THREADS"]) == ("0", "1")


def test_the_one_card_is_for_one_run_at_a_time_and_runs_without_do_not_wait(
    engine: RayEngine, store: Store, account: Account, settings: Settings
) -> None:
    first, second, without = (
        plan(store, account, "work until told"),
        plan(store, account, "finish"),
        plan(store, account, "finish"),
    )
    engine.submit(first.id, gpus=1)
    until_working(store, first)
    engine.submit(second.id, gpus=1)
    engine.submit(without.id)
    until(engine, without.id, WorkState.REPORTED)
    seen = json.loads((settings.home / f"environment-{without.id}").read_text(encoding="utf-8"))
    assert seen["CUDA_VISIBLE_DEVICES"] == ""
    assert engine.state(second.id) is WorkState.QUEUED
    assert store.runs[first.id].state is WorkState.RUNNING
    (settings.home / "end").touch()
    until(engine, second.id, WorkState.REPORTED)
    assert store.runs[first.id].state is WorkState.REPORTED
    assert executed(store) == [first.id, without.id, second.id]
    assert [store.runs[run.id].attempts for run in (first, second, without)] == [1, 1, 1]


def test_a_run_takes_as_many_processors_as_its_threads(engine: RayEngine, store: Store, account: Account) -> None:
    """Of four processors a run of three leaves too few for another run of two."""
    assert engine.capacity() == shared.Capacity(gpus=1, threads=1)
    wide = RayEngine(store, command=COMMAND)
    wide._workers._settings = replace(store.settings, threads=0)
    assert wide.capacity() == shared.Capacity(gpus=1, threads=4)
    first, second, third = (plan(store, account, do) for do in ("work until told", "finish", "finish"))
    engine.submit(first.id, cpus=3)
    until_working(store, first)
    engine.submit(second.id, cpus=2)
    engine.submit(third.id)
    until(engine, third.id, WorkState.REPORTED)
    assert engine.state(second.id) is WorkState.QUEUED
    (store.settings.home / "end").touch()
    until(engine, second.id, WorkState.REPORTED)


# --- crashes ------------------------------------------------------------------------------------------------------


def test_a_killed_worker_is_noticed_and_stays_spent_and_is_not_run_again(
    engine: RayEngine, store: Store, account: Account, cluster: RayCluster
) -> None:
    run = plan(store, account, "work")
    engine.submit(run.id)
    os.kill(pid_of(until_working(store, run)), signal.SIGKILL)
    until(engine, run.id, WorkState.FAILED)
    assert charge_state(store, run) is ChargeState.FAILED_SPENT
    assert "The worker died without a message" in store.runs[run.id].message
    assert "stays spent" in store.runs[run.id].message
    engine.recover()
    assert executed(store) == [run.id]
    assert len(cluster.jobs_of(run.id)) == 1


def test_a_worker_that_dies_before_it_spends_frees_its_reservation(
    engine: RayEngine, store: Store, account: Account
) -> None:
    run = plan(store, account, "die", spend=False)
    engine.submit(run.id)
    until(engine, run.id, WorkState.FAILED)
    assert charge_state(store, run) is ChargeState.FREED


@pytest.mark.parametrize("do", ["die once", "lack memory once"])
def test_a_run_goes_on_from_its_kept_answers_in_another_job(
    engine: RayEngine, store: Store, account: Account, cluster: RayCluster, do: str
) -> None:
    run = plan(store, account, do)
    engine.submit(run.id, gpus=1)
    wait(lambda: engine.state(run.id) in {WorkState.REPORTED, WorkState.FAILED})
    assert store.runs[run.id].state is WorkState.REPORTED, store.runs[run.id].message
    assert executed(store) == [run.id] * 2
    assert charge_state(store, run) is ChargeState.SPENT
    asked = {job["submission_id"]: job["runtime_env"]["env_vars"] for job in cluster.jobs_of(run.id)}
    assert {*asked} == {f"hermitage-{run.id}-{attempt}" for attempt in (1, 2)}
    # As on one machine: who was killed may try the card again, whose memory did not suffice may not.
    assert ("CUDA_VISIBLE_DEVICES" in asked[f"hermitage-{run.id}-2"]) is (do == "lack memory once")


def test_a_run_is_given_three_workers_at_most(engine: RayEngine, store: Store, account: Account) -> None:
    run = plan(store, account, "die always")
    engine.submit(run.id)
    until(engine, run.id, WorkState.FAILED)
    assert executed(store) == [run.id] * 3
    assert charge_state(store, run) is ChargeState.FAILED_SPENT
    assert "The worker died 3 times" in store.runs[run.id].message


APP = """
import pathlib, sys
from synth.jobs.ray_jobs import RayEngine
from synth.store import Store
from synth.system.settings import Settings
home, url, ray, run_id, other, *command = sys.argv[1:]
with Store(Settings(home=pathlib.Path(home), database_url=url, ray=ray, threads=1)) as store:
    RayEngine(store, command=command).submit(run_id)
    store.work.put(other, gpus=0, cpus=0)  # and it ends before it tells Ray
"""


def test_runs_are_found_again_after_the_app_restarts(
    engine: RayEngine, store: Store, account: Account, settings: Settings
) -> None:
    """Another process submits and is gone; this one finds one run working, and submits the other for it."""
    run, other = plan(store, account, "work"), plan(store, account, "finish")
    arguments = [str(settings.home), settings.database_url, settings.ray, run.id, other.id, *COMMAND]
    subprocess.run([sys.executable, "-c", APP, *arguments], check=True, timeout=PATIENCE_SECONDS)
    pid = pid_of(until_working(store, run))
    assert not executed(store)[1:]
    engine.recover()
    until(engine, other.id, WorkState.REPORTED)
    assert engine.state(run.id) is WorkState.RUNNING
    assert charge_state(store, run) is ChargeState.SPENT
    os.kill(pid, signal.SIGKILL)
    until(engine, run.id, WorkState.FAILED)
    assert executed(store) == [run.id, other.id]


def test_two_servers_submit_no_run_twice(
    engine: RayEngine, store: Store, account: Account, cluster: RayCluster
) -> None:
    run = plan(store, account, "finish")
    store.work.put(run.id, gpus=0, cpus=0)
    second = RayEngine(store, command=COMMAND)
    waiting = store.work[run.id]
    for one in (engine, second):
        one._workers._client.job = lambda name: None  # both look before either has submitted
        one._workers._post(f"hermitage-{run.id}-1", waiting) if one is engine else None
    del engine._workers._client.job, second._workers._client.job
    second._workers.submit(waiting)
    until(second, run.id, WorkState.REPORTED)
    assert executed(store) == [run.id]
    assert len(cluster.jobs_of(run.id)) == 1


# --- cancelling ---------------------------------------------------------------------------------------------------


def test_cancelling_frees_what_waits_and_stops_what_runs(
    engine: RayEngine, store: Store, account: Account, cluster: RayCluster
) -> None:
    running, waiting = plan(store, account, "work"), plan(store, account, "work")
    engine.submit(running.id, gpus=1)
    until_working(store, running)
    engine.submit(waiting.id, gpus=1)
    assert cluster.jobs_of(waiting.id)[0]["status"] == "PENDING"
    assert engine.cancel(waiting.id) is WorkState.CANCELLED
    assert charge_state(store, waiting) is ChargeState.FREED
    engine.cancel(running.id)
    until(engine, running.id, WorkState.CANCELLED)
    assert charge_state(store, running) is ChargeState.FAILED_SPENT
    assert "stays spent" in store.runs[running.id].message
    # The card is free again, and whoever waited for it is never worked on.
    wait(lambda: cluster.jobs_of(waiting.id)[0]["status"] not in {"PENDING", "RUNNING"})
    following = plan(store, account, "finish")
    engine.submit(following.id, gpus=1)
    until(engine, following.id, WorkState.REPORTED)
    assert executed(store) == [running.id, following.id]


def test_a_worker_that_does_not_listen_is_killed(
    engine: RayEngine, store: Store, account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = plan(store, account, "hear nothing")
    engine.submit(run.id)
    pid = pid_of(until_working(store, run))
    assert engine.cancel(run.id) is WorkState.RUNNING
    monkeypatch.setattr(shared, "CANCEL_SECONDS", -1.0)
    until(engine, run.id, WorkState.CANCELLED)
    assert not psutil.pid_exists(pid)
    assert charge_state(store, run) is ChargeState.FAILED_SPENT


# --- a cluster that is not as it should be ------------------------------------------------------------------------


def test_a_machine_that_does_not_see_the_home_takes_no_run_and_makes_no_home(
    engine: RayEngine, store: Store, account: Account, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere"
    engine._workers._settings = replace(store.settings, home=elsewhere)
    run = plan(store, account, "finish")
    engine.submit(run.id)
    until(engine, run.id, WorkState.FAILED)
    assert "it could not take the run. Check that DATABASE_URL there" in store.runs[run.id].message
    assert "had not been spent, so it was freed" in store.runs[run.id].message
    assert charge_state(store, run) is ChargeState.FREED
    assert not elsewhere.exists()
    assert not executed(store)


def test_whoever_has_no_token_is_told_so(engine: RayEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    for value in ("another-token", None):
        monkeypatch.delenv("RAY_AUTH_TOKEN_PATH", raising=False)
        monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", "/nowhere")
        if value is not None:
            monkeypatch.setenv("RAY_AUTH_TOKEN", value)
        else:
            monkeypatch.delenv("RAY_AUTH_TOKEN")
        client = RayClient(engine._settings.ray)
        with pytest.raises(
            ClusterAwayError, match=r"does not accept the token of this process\. .* RAY_AUTH_TOKEN_PATH"
        ):
            client.machines()


def test_a_job_that_waited_too_long_for_ray_is_submitted_again(
    store: Store, account: Account, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ray gives up a job that waits for a quarter of an hour; here, for some seconds."""
    impatient = RayCluster({"DATABASE_URL": with_password(database_url), "RAY_JOB_START_TIMEOUT_SECONDS": "20"})
    try:
        monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", str(impatient.token))
        monkeypatch.setattr(store, "settings", replace(store.settings, ray=impatient.address))
        engine = RayEngine(store, command=COMMAND)
        first, second = plan(store, account, "work until told"), plan(store, account, "finish")
        engine.submit(first.id, gpus=1)
        wait(lambda: engine.state(first.id) and store.runs[first.id].phase == "Working")
        engine.submit(second.id, gpus=1)
        name = f"hermitage-{second.id}-1"
        wait(lambda: (impatient.job(name) or {})["error_type"] == "JOB_SUPERVISOR_ACTOR_START_TIMEOUT")
        (store.settings.home / "end").touch()
        until(engine, second.id, WorkState.REPORTED)
        assert executed(store) == [first.id, second.id]
        assert store.runs[second.id].attempts == 1
    finally:
        impatient.close()


def test_a_run_survives_its_machine(engine: RayEngine, store: Store, account: Account, cluster: RayCluster) -> None:
    """The machine with the run leaves the cluster without a word; the next one that is large enough continues it."""
    machine = cluster.add_machine(cpus=8)
    run = plan(store, account, "die when told")
    engine.submit(run.id, cpus=6)
    pid = pid_of(until_working(store, run))
    cluster.crash(machine)
    wait(lambda: not psutil.pid_exists(pid))
    until(engine, run.id, WorkState.QUEUED)
    assert charge_state(store, run) is ChargeState.SPENT
    machine = cluster.add_machine(cpus=8)
    until(engine, run.id, WorkState.REPORTED)
    assert executed(store) == [run.id] * 2
    cluster.crash(machine)


def test_a_run_survives_the_head(store: Store, account: Account, cluster: RayCluster, settings: Settings) -> None:
    """The head dies with a run and a queue: its worker dies too, the queue waits, and a new head continues both."""
    engine = RayEngine(store, command=COMMAND)
    run, waiting = plan(store, account, "die when told"), plan(store, account, "finish")
    engine.submit(run.id, gpus=1)
    pid = pid_of(until_working(store, run))
    engine.submit(waiting.id, gpus=1)
    cluster.crash()
    began = time.monotonic()
    engine.tend()
    assert time.monotonic() - began < 60  # a screen would have had its answer
    late = plan(store, account, "finish")
    with pytest.raises(ClusterAwayError, match=r"does not answer\. Runs in the queue wait for it"):
        engine.capacity()
    wait(lambda: not psutil.pid_exists(pid))
    until(engine, run.id, WorkState.QUEUED)
    assert store.runs[waiting.id].state is WorkState.QUEUED
    assert charge_state(store, run) is ChargeState.SPENT
    cluster.start()
    wait(lambda: engine.state(waiting.id) is WorkState.REPORTED and engine.state(run.id) is WorkState.REPORTED)
    assert sorted(executed(store)) == sorted([run.id, run.id, waiting.id])
    assert store.runs[run.id].attempts == 2
    engine.submit(late.id)
    until(engine, late.id, WorkState.REPORTED)
    cluster.end_jobs()


def test_the_settings_choose_the_engine(store: Store) -> None:
    assert isinstance(engine_of(store), RayEngine)
