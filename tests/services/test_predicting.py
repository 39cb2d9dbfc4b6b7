"""Predicting again after a run: in another process, followed and stopped, with the old numbers kept."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from test_owner_report import CONFIG, predictions, written

from synth.application import Application
from synth.cli.local import run_locally
from synth.errors import JobError
from synth.reports.prediction import downstream
from synth.reports.prediction.problem import Choice, DownstreamOptions
from synth.store import Store, Work, WorkKind, WorkState
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
    right = DownstreamOptions.chosen

    def chosen(choice: Choice, **asked: Any) -> DownstreamOptions:
        return few if choice == "all" else right(choice, **asked)

    monkeypatch.setattr(DownstreamOptions, "chosen", chosen)
    result = run_locally(CONFIG, tmp_path / "out", table=table, keep_table=True)
    return Settings.from_environment(), result.run_id


def predicting(settings: Settings, run_id: str) -> Work | None:
    with Application(settings) as application:
        return application.renewal(run_id, "predictions")


def predict(settings: Settings, run_id: str) -> int:
    """Ask for it and do it in this process."""
    with Store(settings) as store:
        work = store.work.begin(
            WorkKind.REPORT, f"{run_id} predictions", asked=json.dumps("all"), owner="owner", host="here"
        )
    return main([work.id], settings=settings)


@pytest.mark.thorough
def test_new_numbers_take_the_place_of_the_old_and_of_no_others(run: tuple[Settings, str]) -> None:
    settings, run_id = run
    folder = settings.home / "runs" / run_id
    before = json.loads((folder / "owner" / "report.json").read_text())
    assert predicting(settings, run_id) is None
    assert predict(settings, run_id) == 0
    after = json.loads((folder / "owner" / "report.json").read_text())
    work = predicting(settings, run_id)
    assert work is not None
    assert work.state is WorkState.REPORTED
    # How many are trained on what follows from exact rows, and is not told.
    assert (work.phase, work.message) == ("Reporting to the owner", "")
    assert work.steps in {0, 100}  # a phase may be over before its first step is told
    assert len(predictions(folder)["downstream.classifiers"]["figures"][0]["categories"]) == 13
    others = [[e for e in body["evidence"] if not e["id"].startswith("downstream")] for body in (before, after)]
    assert others[0] == others[1]
    assert before["marginals"] == after["marginals"]
    assert not list((folder / "owner").glob("*.json.*"))


@pytest.mark.thorough
def test_rows_that_are_gone_end_it_with_a_sentence(run: tuple[Settings, str]) -> None:
    settings, run_id = run
    with Application(settings) as application:
        application.vault.delete(str(application.store.runs[run_id].table_id), who="owner")
        with pytest.raises(JobError, match="were deleted"):
            application.renew(run_id, "predictions")
    assert predict(settings, run_id) != 0
    view = predicting(settings, run_id)
    assert view is not None
    assert view.state == "failed"
    assert "were deleted" in view.message


@pytest.mark.thorough
def test_a_fault_is_an_incident_without_its_text(run: tuple[Settings, str], monkeypatch: pytest.MonkeyPatch) -> None:
    settings, run_id = run

    def fail(*arguments: object, **named: object) -> None:
        raise KeyError("CANARY in a cell")

    monkeypatch.setattr("synth.services.reports.renew", fail)
    assert predict(settings, run_id) == 70
    view = predicting(settings, run_id)
    assert view is not None
    assert "incident" in view.message
    assert "CANARY" not in view.message
