"""Runs whose worker stops: they go on from the answers they had, ask nothing twice, and are charged once."""

from __future__ import annotations

import io
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from choosing import few
from stopping_worker import COMMAND

from synth.application import Application
from synth.bundle.archive import open_archive
from synth.bundle.measurements import measurements_from_bytes
from synth.bundle.replay import replay
from synth.bundle.verify import verify
from synth.cli import main
from synth.cli.local import run_locally
from synth.errors import ConfigError, JobError, LedgerError, TableError
from synth.generators import GENERATORS
from synth.jobs import LocalEngine, local
from synth.jobs.engine import MOST_ATTEMPTS, put_back
from synth.jobs.local import LocalWorkers
from synth.jobs.processes import birth_of
from synth.ledger.backup import back_up, restore
from synth.ledger.notes import WENT_ON, WENT_ON_ELSEWHERE
from synth.privacy.answers import of_kind
from synth.privacy.more.perturbed_rows import PerturbedRows
from synth.privacy.more.training_steps import NoisySteps
from synth.privacy.selection import Selection
from synth.progress import NullProgress, StoredProgress
from synth.reports import holdout
from synth.schema import RunConfig, config_to_yaml, parse_config
from synth.schema.documents import read_mapping
from synth.services import runs
from synth.services.runs import carry_out
from synth.services.views import run_view
from synth.store import ChargeState, Run, WorkState
from synth.store.work import WORK
from synth.system.machine import is_lack_of_means, this_host
from synth.system.settings import Settings
from synth.vault.kept_answers import AnswerFile, answers_path

CONFIG = """
account: town
unit: {protects: person, rows_per_unit: 1}
row_count: private
people_at_most: 1000
budget: {epsilon: 4.0, delta: 1.0e-5}
holdout: 0.2
generator: {name: independent}
rows: 150
label: ill
evaluation_share: 0.1
columns:
  age: {type: number, low: 0, high: 100, step: 1, fallback: 40}
  town: {type: category, values: [north, south, east], fallback: north}
  ill: {type: yes_no, fallback: "no"}
"""
ROWS = [(i % 90, ("north", "south", "east")[i % 3], "yes" if i % 90 > 60 else "no") for i in range(400)]
TABLE = "age,town,ill\n" + "".join(f"{age},{town},{ill}\n" for age, town, ill in ROWS)

FAST: dict[str, dict[str, Any]] = {
    "dp-merf": {"features": 60, "steps": 25, "batch_size": 64},
    "dp-hp": {"order": 20, "epochs": 3, "steps_per_epoch": 8, "batch_size": 64},
    "dp-hp-adaptive": {"cells": 20_000},
    "kahm": {"n": 5, "block": 200},
    "kernel-sos": {"features": 60, "support": 20, "steps": 10},
    "gs-wgan": {"parts": 5, "turns": 6, "batch_size": 8, "critic_steps": 2},
}


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    home = tmp_path / "home"
    return Settings(home=home, database_url=f"sqlite:///{home / 'hermitage.sqlite'}", heartbeat_seconds=0.2)


@pytest.fixture
def application(settings: Settings) -> Iterator[Application]:
    with Application(settings) as opened:
        opened.engine = LocalEngine(opened.store, command=COMMAND, gpus=())
        yield opened


@pytest.fixture
def config() -> RunConfig:
    return parse_config(read_mapping(CONFIG))


def table_in(application: Application) -> str:
    return application.intake.receive(io.BytesIO(TABLE.encode()), account="town", name="people.csv").table_id


# --- real workers, really killed --------------------------------------------------------------------------------------


def stops(application: Application, *entries: dict[str, Any]) -> None:
    (application.settings.home / "stops.json").write_text(json.dumps(entries))


def until(condition: Callable[[], object], seconds: float = 600.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.2)  # looking costs processor time that the worker, which stands back, waits for


def died(application: Application, run_id: str) -> Run:
    """Wait, without tending the queue, until the first worker of a run is gone."""
    store = application.store

    def gone() -> bool:
        run = store.runs[run_id]
        return run.claimed and run.pid is not None and not local.processes.is_alive(run.pid, run.pid_created or 0.0)

    until(gone)
    return store.runs[run_id]


def kept_by(application: Application, run_id: str) -> list[tuple[list[str], tuple[np.ndarray, ...]]]:
    """Read, with the key, what a worker kept: the names of the questions, and the whole numbers."""
    key = application.keys.answers_key(run_id)
    with AnswerFile(answers_path(application.settings.home, run_id), key=key, run_id=run_id) as file:
        file.go_on()
        bodies = [file._body(number, place) for number, place in enumerate(file._places, start=1)]
    return [([receipt["query"] for receipt in body["receipts"]], numbers) for body, numbers in bodies]


def require_one_run(
    application: Application, run_id: str, kept: list[tuple[list[str], tuple[np.ndarray, ...]]], folder: Path
) -> dict[str, Any]:
    """Check that a run ended as one: one charge, answers as they were kept, a bundle that verifies and replays."""
    run = application.run(run_id)
    assert (run.state, run.message, run.went_on) == ("reported", None, True)
    (charge,) = application.ledger.charges_of(run_id)
    states = [row.state for row in application.ledger.rows(charge.account_id)]
    assert states == [ChargeState.RESERVED, ChargeState.SPENT]
    application.ledger.heads()
    assert not answers_path(application.settings.home, run_id).exists()
    bundle = application.folder(run_id) / "bundle.zip"
    verdict = verify(bundle)
    assert verdict.ok, verdict.lines
    assert replay(bundle, folder / "replayed").as_certified
    with open_archive(bundle) as archive:
        found = measurements_from_bytes(archive.read("measurements.npz"))
    sums = {one.receipt.query: one.value.reshape(-1) / one.receipt.grid for one in found.sums}
    sums |= {one.receipt.query: np.array([one.index]) for one in of_kind(found.answers, Selection)}
    sums |= {one.receipts[0].query: one.numbers.reshape(-1) for one in of_kind(found.answers, PerturbedRows)}
    sums |= {one.receipt.query: one.whole.reshape(-1) for one in of_kind(found.answers, NoisySteps)}
    for (query, *_), numbers in kept:
        assert (sums[query] == numbers[0].reshape(-1)).all(), query
    certificate = application.certificate(run_id)
    assert len(certificate["receipts"]) == sum(len(one.receipts) for one in found.answers)
    assert {one["query"] for one in certificate["receipts"]} >= set(sums)
    return certificate


KILLS = {
    "while the first answer is written": ({"how": "kill", "in": 1}, 0),
    "after an answer": ({"how": "kill", "after": 3}, 3),
    "while it fits": ({"how": "kill", "phase": "Fitting"}, 6),
    "while it seals": ({"how": "kill", "phase": "Sealing", "report": True}, 6),
}


@pytest.mark.thorough
@pytest.mark.parametrize("when", KILLS)
def test_a_killed_worker_is_followed_by_one_that_goes_on(
    application: Application, config: RunConfig, tmp_path: Path, when: str
) -> None:
    entry, answers = KILLS[when]
    stops(application, entry)
    config = replace(config, generator="dp-hp", options=FAST["dp-hp"])
    run_id = application.start(config, table_id=table_in(application))
    died(application, run_id)
    kept = kept_by(application, run_id)
    assert len(kept) == answers
    until(lambda: application.run(run_id).state not in ("queued", "running"))
    certificate = require_one_run(application, run_id, kept, tmp_path)
    assert WENT_ON in certificate["assumptions"]
    timings = json.loads((application.folder(run_id) / "owner" / "timings.json").read_text())
    assert timings["attempts"] == application.store.runs[run_id].attempts == 2


@pytest.mark.thorough
def test_a_choosing_generator_goes_on_after_a_real_kill(
    application: Application, config: RunConfig, tmp_path: Path
) -> None:
    stops(application, {"how": "kill", "after": 6})
    adaptive = replace(config, generator="dp-hp-adaptive", options=FAST["dp-hp-adaptive"])
    run_id = application.start(adaptive, table_id=table_in(application))
    died(application, run_id)
    kept = kept_by(application, run_id)
    assert len(kept) == 6
    until(lambda: application.run(run_id).state not in ("queued", "running"))
    require_one_run(application, run_id, kept, tmp_path)


@pytest.mark.thorough
def test_a_worker_that_runs_out_of_memory_puts_its_run_back(
    application: Application, config: RunConfig, tmp_path: Path
) -> None:
    """The second worker begins by itself; it is out of memory too, on the graphics card that it never had."""
    stops(application, {"how": "memory", "phase": "Sampling"}, {"how": "cuda", "phase": "Sealing"})
    run_id = application.start(config, table_id=table_in(application))
    until(lambda: application.store.runs[run_id].is_finished)  # nobody tends the queue but the workers themselves
    require_one_run(application, run_id, [], tmp_path)
    assert application.store.runs[run_id].attempts == 3


@pytest.mark.thorough
def test_after_three_workers_it_is_over(application: Application, config: RunConfig) -> None:
    stops(application, *[{"how": "kill", "phase": "Sampling"}] * 9)
    run_id = application.start(config, table_id=table_in(application))
    until(lambda: application.run(run_id).state not in ("queued", "running"))
    run = application.store.runs[run_id]
    assert (run.state, run.attempts) == (WorkState.FAILED, MOST_ATTEMPTS)
    assert run.message.startswith("The worker died 3 times without a message")
    assert "stays spent" in run.message
    (charge,) = application.ledger.charges_of(run_id)
    assert charge.state is ChargeState.FAILED_SPENT
    assert not answers_path(application.settings.home, run_id).exists()


# --- every generator, in this process -------------------------------------------------------------------------------


class Killed(BaseException):
    """Stands for the end of a process."""


def stopped_after(answers: int, error: type[BaseException] | BaseException = Killed) -> Callable[..., None]:
    """Return a ``keep`` that lets nobody hear of anything once so many answers are kept."""
    right = AnswerFile.keep

    def keep(self: AnswerFile, *arguments: Any) -> None:
        if len(self._places) == answers:
            raise error
        right(self, *arguments)

    return keep


def begun(application: Application, config: RunConfig) -> str:
    """Reserve a run and put it in the queue as the engine would, without starting a process."""
    run = application.reserve(config, table_id=table_in(application))
    application.store.work.put(run.id, gpus=0, cpus=0)
    claim(application, run.id)
    return run.id


def claim(application: Application, run_id: str) -> None:
    taken = application.store.work.take(host=this_host(), slots=9, gpus=())
    assert taken is not None
    assert taken.id == run_id
    application.store.work.claim(run_id, host=this_host(), pid=os.getpid(), pid_created=birth_of(os.getpid()))


def stop_and_go_on(
    application: Application, config: RunConfig, answers: int, patch: pytest.MonkeyPatch
) -> tuple[str, list[tuple[list[str], tuple[np.ndarray, ...]]]]:
    run_id = begun(application, config)
    with patch.context() as planted:
        planted.setattr(AnswerFile, "keep", stopped_after(answers))
        with pytest.raises(Killed):
            carry_out(application.installation, run_id, NullProgress(), owner_report=False)
    kept = kept_by(application, run_id)
    assert len(kept) == answers
    assert put_back(application.store, application.store.runs[run_id], same_device=False)
    assert run_view(application.installation, application.store.runs[run_id]).went_on  # which tends no queue
    claim(application, run_id)
    return run_id, kept


@pytest.mark.usefixtures("without_trial")
@pytest.mark.parametrize("name", few([*GENERATORS, "kahm of one cell"], kept=("dp-hp-adaptive", "kahm of one cell")))
def test_every_generator_goes_on_from_the_middle(
    application: Application, config: RunConfig, name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    config = replace(config, generator=name, options=FAST.get(name, {}), device="cpu", holdout=0.2)
    answers = {"dp-hp-adaptive": 6, "dp-hp": 4, "kahm": 3}.get(name, 1)
    if name == "kahm of one cell":
        schema = replace(config.schema, row_count="public", protection="cell", number_of_units=400)
        options = {"mode": "cell", "n": 3}
        changes: dict[str, Any] = {"generator": "kahm", "holdout": 0.0, "evaluation_share": 0.0}
        config = replace(config, schema=schema, options=options, **changes)
        answers = 0
    run_id, kept = stop_and_go_on(application, config, answers, monkeypatch)
    carry_out(application.installation, run_id, NullProgress(), owner_report=False)
    require_one_run(application, run_id, kept, tmp_path)


@pytest.mark.thorough
def test_paid_predictions_are_not_paid_twice(
    application: Application, config: RunConfig, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The last question of all is asked of the hold-out; the run stops when everything is answered."""
    run_id = begun(application, replace(config, prediction_share=0.2, device="cpu"))
    with monkeypatch.context() as planted:
        planted.setattr(AnswerFile, "require_all_repeated", killed)
        with pytest.raises(Killed):
            carry_out(application.installation, run_id, NullProgress(), owner_report=False)
    kept = kept_by(application, run_id)
    assert put_back(application.store, application.store.runs[run_id], same_device=False)
    claim(application, run_id)
    carry_out(application.installation, run_id, NullProgress(), owner_report=False)
    certificate = require_one_run(application, run_id, kept, tmp_path)
    assert certificate["receipts"][-1]["part"] == "holdout"
    assert len(kept) == len(certificate["receipts"])


def killed(self: AnswerFile) -> None:
    raise Killed


@pytest.mark.thorough
def test_predictors_that_memory_failed_are_trained_again(
    home: Path, config: RunConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plainest guess is for faults of a library; where memory ran out, the run goes on and trains the real one."""
    trained: list[bool] = []
    right = holdout.synthetic_forest

    def short_of_memory(columns: Any, *arguments: Any, **named: Any) -> Any:
        if len(columns[0]) == config.rows and not trained:  # and not where the run is tried out
            trained.append(True)
            raise MemoryError
        return right(columns, *arguments, **named)

    monkeypatch.setattr(holdout, "synthetic_forest", short_of_memory)
    monkeypatch.setattr(holdout, "constant_forest", None)
    config = replace(config, prediction_share=0.2)
    made = run_locally(config, home / "out", table=home / "people.csv", owner_report=False)
    assert trained
    assert WENT_ON in json.loads((made.folder / "certificate.json").read_bytes())["assumptions"]


@pytest.mark.usefixtures("without_trial")
def test_a_table_that_went_while_its_run_waited_costs_nothing(application: Application, config: RunConfig) -> None:
    run_id = begun(application, config)
    application.vault.delete(str(application.store.runs[run_id].table_id))
    with pytest.raises(TableError, match="was deleted"):
        carry_out(application.installation, run_id, NullProgress())
    assert application.ledger.charges_of(run_id)[0].state is ChargeState.RESERVED


@pytest.mark.thorough
@pytest.mark.parametrize("error", [ValueError("could not convert 17"), MemoryError()], ids=["a fault", "memory"])
def test_what_fails_on_exact_rows_after_the_seal_ends_no_run(
    application: Application, config: RunConfig, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """That a run failed, or went on, is seen by whoever reads its certificate; the owner's report reads rows."""

    def fails(*arguments: Any, **named: Any) -> None:
        raise error

    monkeypatch.setattr(runs, "build_owner_report", fails)
    run_id = begun(application, config)
    carry_out(application.installation, run_id, NullProgress())
    assert application.store.runs[run_id].state is WorkState.REPORTED
    assert application.owner_report(run_id) is None
    assert verify(application.folder(run_id) / "bundle.zip").ok


@pytest.mark.thorough
@pytest.mark.parametrize(("kills", "left"), [(1, "cuda"), (2, "cpu")])
def test_a_kill_leaves_the_card_once_more_and_then_no_more(
    application: Application,
    config: RunConfig,
    kills: int,
    left: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """There is no card here: what names the device is planted, and sums and fits are those of the processor."""
    monkeypatch.setattr(runs, "resolved_device", lambda device: "cuda" if device == "auto" else device)
    monkeypatch.setattr(application.engine._workers, "due", lambda: iter(()))
    run_id = begun(application, config)
    application.store.work._change(WORK.c.id == run_id, gpus=1)
    with monkeypatch.context() as planted:
        planted.setattr(AnswerFile, "keep", stopped_after(1))
        for _ in range(kills):
            with pytest.raises(Killed):
                carry_out(application.installation, run_id, NullProgress(), owner_report=False)
            application.store.work._change(WORK.c.id == run_id, pid=1, pid_created=1.0)  # a process that is gone
            assert application.engine.state(run_id) is WorkState.QUEUED
            claim(application, run_id)
    carry_out(application.installation, run_id, NullProgress(), owner_report=False)
    certificate = require_one_run(application, run_id, [], tmp_path)
    assert application.store.runs[run_id].device == left
    assert (WENT_ON_ELSEWHERE in certificate["assumptions"]) is (left == "cpu")
    with open_archive(application.folder(run_id) / "bundle.zip") as archive:
        assert (b"device: cpu" in archive.read("config.yaml")) is (left == "cpu")


# --- what stops for good ----------------------------------------------------------------------------------------------


@pytest.mark.thorough
def test_another_configuration_or_a_frozen_account_does_not_go_on(
    application: Application, config: RunConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sqlalchemy import text

    run_id, _ = stop_and_go_on(application, config, 1, monkeypatch)
    stored = application.store.runs[run_id]
    body = json.loads(stored.config)
    with application.store.writing() as connection:
        changed = json.dumps(body | {"seed": body.get("seed", 0) + 1})
        connection.execute(text("UPDATE runs SET config = :config"), {"config": changed})
    with pytest.raises(LedgerError, match="altered while the run was waiting"):
        carry_out(application.installation, run_id, NullProgress())
    with application.store.writing() as connection:
        connection.execute(text("UPDATE runs SET config = :config"), {"config": stored.config})
    application.ledger.freeze(stored.account_id, because="test")
    with pytest.raises(LedgerError, match="frozen"):
        carry_out(application.installation, run_id, NullProgress())


@pytest.mark.thorough
def test_a_run_whose_answers_are_gone_or_altered_does_not_go_on(
    application: Application, config: RunConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id, _ = stop_and_go_on(application, config, 1, monkeypatch)
    path = answers_path(application.settings.home, run_id)
    data = path.read_bytes()
    for wrong, words in ((data[:500] + bytes(1) + data[501:], "altered or damaged"), (b"", "are missing")):
        path.write_bytes(wrong)
        with pytest.raises(JobError, match=words):
            carry_out(application.installation, run_id, NullProgress())
    assert application.ledger.charges_of(run_id)[0].state is ChargeState.SPENT


@pytest.mark.usefixtures("without_trial")
def test_a_first_worker_never_goes_on_from_a_charge_that_is_spent(application: Application, config: RunConfig) -> None:
    run_id = begun(application, config)
    application.ledger.spend(application.ledger.charges_of(run_id)[0])
    with pytest.raises(JobError, match="Nothing is reserved"):
        carry_out(application.installation, run_id, NullProgress())


@pytest.mark.usefixtures("without_trial")
def test_a_worker_whose_run_was_ended_while_it_waited_touches_nothing(
    application: Application, config: RunConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id, _ = stop_and_go_on(application, config, 1, monkeypatch)
    right = runs.AnswerFile

    def late(*arguments: Any, **named: Any) -> AnswerFile:
        application.store.work.move(run_id, WorkState.FAILED, message="Ended elsewhere.")
        return right(*arguments, **named)

    monkeypatch.setattr(runs, "AnswerFile", late)
    with pytest.raises(JobError, match="no longer belongs to this worker"):
        carry_out(application.installation, run_id, NullProgress())


# --- the queue ------------------------------------------------------------------------------------------------------


def test_only_a_spent_run_of_this_machine_with_its_answers_is_put_back(
    application: Application, config: RunConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = begun(application, config)
    store = application.store
    assert not put_back(store, store.runs[run_id], same_device=False), "nothing was spent"
    application.ledger.spend(application.ledger.charges_of(run_id)[0])
    assert not put_back(store, store.runs[run_id], same_device=False), "nothing was kept"
    path = answers_path(application.settings.home, run_id)
    path.parent.mkdir(parents=True, exist_ok=True)
    with AnswerFile(path, key=application.keys.answers_key(run_id), run_id=run_id) as file:
        file.begin({})
    here = LocalWorkers(store, gpus=())
    assert here.sees_the_end(store.runs[run_id])
    monkeypatch.setattr(local, "this_host", lambda: "elsewhere")
    elsewhere = LocalWorkers(store, gpus=())
    assert not elsewhere.sees_the_end(store.runs[run_id]), "nobody there can know that the worker is gone"
    monkeypatch.undo()
    store.work.request_cancel(run_id)
    assert not put_back(store, store.runs[run_id], same_device=False), "somebody wants it to stop"


@pytest.mark.thorough
def test_a_run_of_another_machine_ends_when_its_lease_does_and_goes_on_nowhere(
    application: Application, config: RunConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id, _ = stop_and_go_on(application, config, 1, monkeypatch)
    seconds = iter(range(1000))
    monkeypatch.setattr(local, "this_host", lambda: "elsewhere")
    elsewhere = LocalEngine(application.store, command=COMMAND, gpus=(), clock=lambda: float(next(seconds)))
    for _ in range(100):
        elsewhere.tend()
    run = run_view(application.installation, application.store.runs[run_id])
    assert run.state == "failed"
    assert "stays spent" in str(run.message)
    assert application.ledger.charges_of(run_id)[0].state is ChargeState.FAILED_SPENT


@pytest.mark.usefixtures("without_trial")
def test_a_run_that_waits_to_go_on_can_be_cancelled_and_stays_spent(
    application: Application, config: RunConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = begun(application, config)
    with monkeypatch.context() as planted:
        planted.setattr(AnswerFile, "keep", stopped_after(1))
        with pytest.raises(Killed):
            carry_out(application.installation, run_id, NullProgress())
    assert put_back(application.store, application.store.runs[run_id], same_device=False)
    monkeypatch.setattr(application.engine._workers, "_slots", 0)
    application.cancel(run_id)
    run = application.store.runs[run_id]
    assert run.state is WorkState.CANCELLED
    assert run.message == "The run was cancelled. Its budget had already been spent, so it stays spent."
    assert application.ledger.charges_of(run_id)[0].state is ChargeState.FAILED_SPENT
    assert not answers_path(application.settings.home, run_id).exists()


@pytest.mark.usefixtures("without_trial")
def test_a_run_that_is_cancelled_during_the_owners_report_keeps_its_release(
    application: Application, config: RunConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id, report = begun(application, config), runs.build_owner_report

    def cancelled(*arguments: Any) -> None:
        application.store.work.request_cancel(run_id)
        report(*arguments)

    monkeypatch.setattr(runs, "build_owner_report", cancelled)
    carry_out(application.installation, run_id, StoredProgress(application.store.work, run_id, interval=0.0))
    assert application.store.runs[run_id].state is WorkState.REPORTED
    assert application.ledger.charges_of(run_id)[0].state is ChargeState.SPENT
    folder = application.installation.folder(run_id)
    assert verify(folder / "bundle.zip").ok
    assert not (folder / "owner" / "report.json").exists()


@pytest.mark.thorough
def test_a_restored_run_never_goes_on(
    application: Application, config: RunConfig, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    run_id, _ = stop_and_go_on(application, config, 1, monkeypatch)
    back_up(application.settings, tmp_path / "saved", with_tables=True)
    home = tmp_path / "restored"
    elsewhere = Settings(home=home, database_url=f"sqlite:///{home / 'hermitage.sqlite'}")
    restore(elsewhere, tmp_path / "saved")
    with Application(elsewhere) as restored:
        assert not answers_path(home, run_id).exists()
        assert restored.run(run_id).state == "failed"
        assert restored.ledger.charges_of(run_id)[0].state is ChargeState.FAILED_SPENT
        assert restored.account("town").epsilon_spent > 3.9


@pytest.mark.thorough
def test_a_copy_of_the_whole_home_asks_nothing_again(
    application: Application, config: RunConfig, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Else the run and its copy would each have an answer of its own to every question that is left, for one charge."""
    run_id, _ = stop_and_go_on(application, config, 1, monkeypatch)
    home = tmp_path / "copied"
    shutil.copytree(application.settings.home, home)
    with Application(Settings(home=home, database_url=f"sqlite:///{home / 'hermitage.sqlite'}")) as copied:
        with pytest.raises(JobError, match="are a copy"):
            carry_out(copied.installation, run_id, NullProgress(), owner_report=False)
        assert copied.ledger.charges_of(run_id)[0].state is ChargeState.SPENT
    carry_out(application.installation, run_id, NullProgress(), owner_report=False)
    assert application.store.runs[run_id].state is WorkState.REPORTED


@pytest.mark.usefixtures("without_trial")
def test_answers_of_runs_that_ended_are_swept_at_the_start(
    application: Application, config: RunConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id, _ = stop_and_go_on(application, config, 1, monkeypatch)
    path = answers_path(application.settings.home, run_id)
    application.engine.recover()
    assert path.exists(), "it is at work"
    application.store.work.move(run_id, WorkState.FAILED)
    application.engine.recover()
    assert not path.exists()


# --- in one process: synth run and synth.run ------------------------------------------------------------------------


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HERMITAGE_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("DATABASE_URL", raising=False)
    (tmp_path / "people.csv").write_text(TABLE)
    return tmp_path


def card_that_fails(patch: pytest.MonkeyPatch, error: BaseException, times: int) -> list[int]:
    """Let a run find a graphics card, and fail when its table was sampled."""
    left = [times]
    right, fit = runs.resolved_device, runs.fit_and_sample
    patch.setattr(runs, "resolved_device", lambda device: "cuda" if device == "auto" else right(device))

    def fails(*arguments: Any, **named: Any) -> Any:
        made = fit(*arguments, **named)
        if left[0]:
            left[0] -= 1
            raise error
        return made

    patch.setattr(runs, "fit_and_sample", fails)
    return left


@pytest.mark.thorough
@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB."),
        RuntimeError("CUDA error: the launch timed out and was terminated"),
    ],
)
def test_a_run_of_this_process_goes_on_once_on_the_processor(
    home: Path, config: RunConfig, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    card_that_fails(monkeypatch, error, times=1)
    said: list[str] = []
    made = run_locally(config, home / "out", table=home / "people.csv", say=said.append, owner_report=False)
    assert any("continues on the CPU, from the answers that it kept" in line for line in said)
    certificate = json.loads((made.folder / "certificate.json").read_bytes())
    assert WENT_ON_ELSEWHERE in certificate["assumptions"]
    verdict = verify(made.bundle)
    assert verdict.ok, verdict.lines
    assert any(
        "began on a graphics card (cuda) and was fitted on the processor (cpu)" in line for line in verdict.lines
    )
    with open_archive(made.bundle) as archive:
        assert b"device: cpu" in archive.read("config.yaml"), "the device that replays it"
    assert replay(made.bundle, home / "again").as_certified
    refitted = replay(made.bundle, home / "refitted", refit=True)
    assert refitted.identical, "fitted again from the same answers, on the device that the bundle names"
    with Application.from_environment() as application:
        assert [row.state for row in application.ledger_rows("town")] == ["reserved", "spent", "released"]
        assert not list(application.settings.home.glob("runs/*/answers.kept"))


@pytest.mark.thorough
def test_a_run_of_this_process_does_not_go_on_twice(
    home: Path, config: RunConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = card_that_fails(monkeypatch, MemoryError(), times=5)
    with pytest.raises(MemoryError):
        run_locally(config, home / "out", table=home / "people.csv")
    assert left == [3]
    with Application.from_environment() as application:
        assert [row.state for row in application.ledger_rows("town")] == ["reserved", "spent", "failed-spent"]
        assert not list(application.settings.home.glob("runs/*/answers.kept"))


@pytest.mark.thorough
def test_other_errors_end_a_run_as_they_did(home: Path, config: RunConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    left = card_that_fails(monkeypatch, RuntimeError("a fault of ours"), times=5)
    with pytest.raises(RuntimeError):
        run_locally(config, home / "out", table=home / "people.csv")
    assert left == [4]


class LikeTorchError(RuntimeError):
    """What a library of another name raises is no error of a device."""


LikeTorchError.__name__ = "OutOfMemoryError"


@pytest.mark.parametrize(
    ("error", "is_one"),
    [
        (MemoryError(), True),
        (np._core._exceptions._ArrayMemoryError((10**9,), np.dtype(float)), True),
        (torch.cuda.OutOfMemoryError("CUDA out of memory."), True),
        (RuntimeError("cuDNN error: CUDNN_STATUS_EXECUTION_FAILED"), True),
        (RuntimeError("[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: can't allocate memory"), True),
        (RuntimeError("shapes do not fit"), False),
        (ValueError("CUDA error"), False),
        (LikeTorchError("CUDA error"), False),
        (JobError("CUDA error"), False),
        (KeyboardInterrupt(), False),
    ],
)
def test_what_counts_as_lack_of_memory_or_of_a_device(error: BaseException, is_one: bool) -> None:
    assert is_lack_of_means(error) is is_one


# --- a device that is not there -------------------------------------------------------------------------------------


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a graphics card")
def test_a_device_that_is_not_there_is_refused_before_anything_is_reserved(
    home: Path, config: RunConfig, application: Application, capsys: pytest.CaptureFixture[str]
) -> None:
    asks_for_card = replace(config, device="cuda")
    # From Python and from the command line.
    with pytest.raises(ConfigError, match="no CUDA device was found"):
        run_locally(asks_for_card, home / "out", table=home / "people.csv")
    (home / "run.yaml").write_text(config_to_yaml(config))
    arguments = ["run", str(home / "run.yaml"), "--table", str(home / "people.csv"), "--out", str(home / "out")]
    assert main([*arguments, "--device", "cuda"]) == 2
    assert "no CUDA device was found" in capsys.readouterr().err
    # From the page, which starts what it reserved.
    table_id = table_in(application)
    with pytest.raises(ConfigError, match="no CUDA device was found"):
        application.start(asks_for_card, table_id=table_id)
    assert application.ledger_rows() == []
    assert application.runs() == []


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a graphics card")
def test_a_card_that_is_lost_between_reserving_and_spending_costs_nothing(
    application: Application, config: RunConfig
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("synth.application.require_device", lambda device: None)
        run_id = begun(application, replace(config, device="cuda"))
    with pytest.raises(ConfigError, match="no CUDA device was found"):
        carry_out(application.installation, run_id, NullProgress())
    assert application.ledger.charges_of(run_id)[0].state is ChargeState.RESERVED
