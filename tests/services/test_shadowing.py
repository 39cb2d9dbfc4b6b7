"""Shadow models after a run: for the owner, uncharged, put into the report, followed and stopped like predictors."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from test_owner_report import CONFIG, written

from synth.application import Application
from synth.cli.local import owner_report_again, run_locally
from synth.errors import InputError, JobError
from synth.jobs import processes
from synth.reports.registry import renewal_called
from synth.services import reports
from synth.services.reports import renewal_minutes, renewal_subject
from synth.store import Work, WorkKind, WorkState
from synth.system.settings import Settings
from synth.worker import main

SHADOWS = renewal_called("shadow-models")


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Settings, str]:
    monkeypatch.setenv("HERMITAGE_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("DATABASE_URL", raising=False)
    table = written(tmp_path / "people.csv", 400, seed=1)
    config = replace(CONFIG, label=None, generator="independent", epsilon=1.0)
    result = run_locally(config, tmp_path / "out", table=table, keep_table=True)
    return Settings.from_environment(), result.run_id


def reported(settings: Settings, run_id: str) -> dict[str, dict[str, Any]]:
    body = json.loads((settings.home / "runs" / run_id / "owner" / "report.json").read_text())
    return {entry["id"]: entry for entry in body["evidence"]}


def attack(settings: Settings, run_id: str, runs: int) -> Work:
    """Ask for shadow models, train them in this process, and return where that stands."""
    with Application(settings) as application:
        subject = renewal_subject(run_id, SHADOWS)
        work = application.store.work.begin(
            WorkKind.REPORT, subject, asked=json.dumps(str(runs)), owner="owner", host="here"
        )
        main([work.id], settings=settings)
        return application.store.work[work.id]


def ledger(settings: Settings) -> list[Any]:
    with Application(settings) as application:
        return application.ledger_rows()


@pytest.mark.thorough
def test_they_enter_the_owner_report_and_are_charged_nothing(run: tuple[Settings, str]) -> None:
    settings, run_id = run
    before, charged = reported(settings, run_id), ledger(settings)
    assert renewal_minutes(settings, run_id, SHADOWS) == 1
    assert attack(settings, run_id, 16).state is WorkState.REPORTED
    after = reported(settings, run_id)
    new = {name for name in after if name not in before}
    assert new == {f"attacks.shadow.{name}" for name in ("area", "caught", "people", "reached")}
    assert {after[name]["kind"] for name in new} == {"owner_only"}
    assert all("Read directly from the private rows" in after[name]["sentence"] for name in new)
    assert {name: after[name] for name in before} == before
    assert ledger(settings) == charged
    assert "shadow" not in (settings.home / "runs" / run_id / "report.json").read_text()


@pytest.mark.thorough
def test_a_generator_that_copies_its_rows_is_caught_in_a_real_run(
    run: tuple[Settings, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    settings, run_id = run
    right: Callable[..., Any] = reports._remade

    def copied(config: Any, several: Any) -> Any:
        made = right(config, several)
        return [replace(one, rows=rows.codes) for one, rows in zip(made, several, strict=True)]

    monkeypatch.setattr(reports, "_remade", copied)
    assert attack(settings, run_id, 32).state is WorkState.REPORTED
    found = reported(settings, run_id)
    assert found["attacks.shadow.area"]["value"] > 0.8
    assert "Nothing was stopped" in found["attacks.shadow.warning"]["sentence"]
    with Application(settings) as application:
        assert application.bundle(run_id)


@pytest.mark.thorough
def test_the_command_line_says_how_long_and_keeps_what_was_found(
    run: tuple[Settings, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said: list[str] = []
    settings, _ = run
    path = owner_report_again(tmp_path / "out", say=said.append, shadow_models=16)
    assert "Attacking with 16 shadow models, less than a minute ..." in said
    assert "attacks.shadow.area" in path.read_text()
    with Application(settings) as application:
        assert "looked at exact numbers of its private rows" in " ".join(application.account("town").notes)
    # A report that is built again keeps what took long.
    assert "attacks.shadow.area" in owner_report_again(tmp_path / "out", say=said.append).read_text()
    with pytest.raises(InputError, match="at least 16 runs, got 3"):
        owner_report_again(tmp_path / "out", say=said.append, shadow_models=3)


@pytest.mark.thorough
def test_a_process_of_its_own_is_followed_and_stopped(run: tuple[Settings, str]) -> None:
    settings, run_id = run
    with Application(settings) as application:
        application.renew(run_id, SHADOWS.name, "100000")
        with pytest.raises(JobError, match="already"):
            application.renew(run_id, SHADOWS.name)
        work = application.renewal(run_id, SHADOWS.name)
        assert work is not None
        while not application.store.work[work.id].claimed:
            assert application.engine.state(work.id) is WorkState.RUNNING
            time.sleep(0.1)
        application.cancel_renewal(run_id, SHADOWS.name)
        assert application.store.work[work.id].state is WorkState.CANCELLED
        assert not processes.is_alive(int(work.pid or 0), float(work.pid_created or 0))
    assert not [name for name in reported(settings, run_id) if "shadow" in name]


@pytest.mark.thorough
def test_rows_that_are_gone_are_not_attacked(run: tuple[Settings, str]) -> None:
    settings, run_id = run
    with Application(settings) as application:
        application.intake.delete_table(str(application.store.runs[run_id].table_id))
        with pytest.raises(JobError, match="nothing can be attacked"):
            application.renew(run_id, "shadow-models")
