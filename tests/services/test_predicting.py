"""Predicting again after a run: in another process, followed and stopped through a file, with the old numbers kept."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest
from test_owner_report import CONFIG, predictions, written

from synth.application import Application
from synth.cli.local import run_locally
from synth.errors import JobError
from synth.jobs import processes
from synth.reports.prediction import downstream
from synth.reports.prediction.problem import DownstreamOptions
from synth.reports.registry import renewal_called
from synth.services.background import WorkView
from synth.services.reports import renewal_work
from synth.system.settings import Settings
from synth.worker import main


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Settings, str]:
    monkeypatch.setenv("HERMITAGE_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("DATABASE_URL", raising=False)
    table = written(tmp_path / "people.csv", 400, seed=1)
    # One quick classifier is enough for the run itself.
    monkeypatch.setitem(downstream._CLASSIFIERS, "quick", ("gaussian_nb",))  # type: ignore[arg-type]
    few = DownstreamOptions(predictors="all", repeats=1, maximum_rows=60)
    monkeypatch.setattr(DownstreamOptions, "thorough", classmethod(lambda cls, **asked: few))
    result = run_locally(CONFIG, tmp_path / "out", table=table, keep_table=True)
    return Settings.from_environment(), result.run_id


def predicting(settings: Settings, run_id: str) -> WorkView | None:
    return renewal_work(settings, run_id, renewal_called("predictions")).standing()


def noted(settings: Settings, run_id: str) -> dict[str, Any]:
    body = json.loads((settings.home / "runs" / run_id / "owner" / "predicting.json").read_text())
    assert isinstance(body, dict)
    return body


def test_new_numbers_take_the_place_of_the_old_and_of_no_others(run: tuple[Settings, str]) -> None:
    settings, run_id = run
    folder = settings.home / "runs" / run_id
    before = json.loads((folder / "owner" / "report.json").read_text())
    assert predicting(settings, run_id) is None
    assert main([run_id, "--predictions", "all"], settings=settings) == 0
    after = json.loads((folder / "owner" / "report.json").read_text())
    assert predicting(settings, run_id) == WorkView("ended")
    assert len(predictions(folder)["downstream.classifiers"]["figures"][0]["categories"]) == 13
    others = [[e for e in body["evidence"] if not e["id"].startswith("downstream")] for body in (before, after)]
    assert others[0] == others[1]
    assert before["marginals"] == after["marginals"]
    assert oct((folder / "owner" / "predicting.json").stat().st_mode)[-3:] == "600"
    assert not list((folder / "owner").glob("*.json.*"))


def test_rows_that_are_gone_end_it_with_a_sentence(run: tuple[Settings, str]) -> None:
    settings, run_id = run
    with Application(settings) as application:
        application.vault.delete(str(application.store.runs[run_id].table_id), who="owner")
        with pytest.raises(JobError, match="were deleted"):
            application.renew(run_id, "predictions")
    assert main([run_id, "--predictions", "all"], settings=settings) != 0
    view = predicting(settings, run_id)
    assert view is not None
    assert view.state == "failed"
    assert "were deleted" in view.message


def test_a_fault_is_an_incident_without_its_text(run: tuple[Settings, str], monkeypatch: pytest.MonkeyPatch) -> None:
    settings, run_id = run

    def fail(*arguments: object, **named: object) -> None:
        raise KeyError("CANARY in a cell")

    monkeypatch.setattr("synth.services.reports.renew", fail)
    assert main([run_id, "--predictions", "all"], settings=settings) == 70
    view = predicting(settings, run_id)
    assert view is not None
    assert "incident" in view.message
    assert "CANARY" not in view.message


def test_a_process_of_its_own_is_followed_and_stopped(run: tuple[Settings, str]) -> None:
    settings, run_id = run
    work = renewal_work(settings, run_id, renewal_called("predictions"))
    work.start(settings)
    with pytest.raises(JobError, match="already"):
        work.start(settings)
    for _ in range(4000):
        if "pid" in noted(settings, run_id):
            break
        time.sleep(0.1)
    found = noted(settings, run_id)
    assert predicting(settings, run_id).state == "running"  # type: ignore[union-attr]
    work.cancel()
    assert not processes.is_alive(found["pid"], found["born"])
    assert predicting(settings, run_id).state == "cancelled"  # type: ignore[union-attr]
    work.cancel()


@pytest.mark.parametrize(
    "body",
    [
        {"pid": 2**22 + 1, "born": 1.0},
        {"pid": os.getpid(), "born": 1.0},
        {"since": 0.0, "boot": processes.boot()},
        {"since": time.monotonic(), "boot": processes.boot() ^ 1},
    ],
    ids=["no such process", "another process", "never began", "was begun before the machine started again"],
)
def test_a_process_that_died_has_failed(run: tuple[Settings, str], body: dict[str, Any]) -> None:
    settings, run_id = run
    note = settings.home / "runs" / run_id / "owner" / "predicting.json"
    note.write_text(json.dumps({"state": "running", **body}))
    assert predicting(settings, run_id).state == "failed"  # type: ignore[union-attr]
    note.write_text("{half")
    assert predicting(settings, run_id) is None
