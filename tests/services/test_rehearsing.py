"""A rehearsal on public rows costs nothing, stops what copies, and stops nothing because of private rows."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from copying import SCHEMA, config, idle_workers, plant, write_people

from synth.application import Application
from synth.cli import main
from synth.cli.local import run_locally
from synth.errors import AttackError, InputError, JobError, RunCancelledError, TableError
from synth.progress import NullProgress
from synth.rehearsal import rehearsals as rehearsing
from synth.rehearsal.rehearsals import Rehearsal
from synth.reports.evidence import SafeEvidence
from synth.reports.membership import evidence as attacks
from synth.reports.membership.attacks import ATTACKS
from synth.schema import config_to_mapping, config_to_yaml, parse_config
from synth.services import runs
from synth.services.stops import configuration_digest
from synth.store import WorkState, now
from synth.store.work import WORK
from synth.system.settings import Settings
from synth.worker import main as work


@pytest.fixture
def stand_in(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    if "honest" not in request.node.name:
        # One test looks at all numbers and tries every attack; here the quickest will do.
        monkeypatch.setattr(rehearsing, "exact_numbers", lambda *arguments: ())
        monkeypatch.setattr(attacks, "public_attacks", partial(attacks.public_attacks, attacks=ATTACKS[:1]))
    monkeypatch.setenv("HERMITAGE_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("DATABASE_URL", raising=False)
    plant(monkeypatch)
    return write_people(tmp_path, rows=1000, seed=1)


@pytest.fixture
def private(tmp_path: Path) -> Path:
    return write_people(tmp_path, rows=1000, seed=2)


def rehearse(name: str, stand_in: Path, **rest: Any) -> Rehearsal:
    with Application.from_environment() as application:
        return application.rehearsals.rehearse(config(name, **rest), lambda: stand_in.open("rb"), NullProgress())


@pytest.mark.thorough
def test_an_honest_rehearsal_is_safe_free_and_stops_nothing(stand_in: Path) -> None:
    # A configuration that pays for predictions can be rehearsed too; the noisy ones are left out.
    found = rehearse("independent", stand_in, label="ill", prediction_share=0.1)
    assert found.incident is None
    assert {type(entry) for entry in found.evidence} == {SafeEvidence}
    ids = {entry.id for entry in found.evidence}
    assert {"marginals.2.mean", "attacks.closest.area", "attacks.density.caught", "downstream.synthetic.roc_auc"} <= ids
    for entry in found.evidence:
        assert "private rows;" not in entry.sentence
        assert "real rows" not in entry.sentence
    assert any(
        "Stand-in data. Results for your table may be better or worse" in entry.sentence for entry in found.evidence
    )
    with Application.from_environment() as application:
        assert application.accounts() == []
        assert application.ledger_rows() == []
        assert application.runs() == []
        report = application.rehearsals.report(config("independent"))
        assert report is not None
        assert len(report["evidence"]) == len(found.evidence)
        assert application.rehearsals.report(config("independent", epsilon=2.0)) is None
        folder = application.settings.home / "rehearsals" / configuration_digest(config("independent"))
    assert [path.name for path in folder.iterdir()] == ["report.json"]
    assert oct((folder / "report.json").stat().st_mode)[-3:] == "600"


def test_a_run_that_will_pay_for_predictions_can_be_rehearsed(stand_in: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[set[str]] = []
    right = rehearsing.fit_and_sample

    def seen(*arguments: Any, **named: Any) -> Any:
        measured = right(*arguments, **named)
        asked.append({receipt.part for receipt in measured.receipts})
        return measured

    monkeypatch.setattr(rehearsing, "fit_and_sample", seen)
    paying = config("independent", label=SCHEMA.names[-1], prediction_share=0.2)
    with Application.from_environment() as application:
        found = application.rehearsals.rehearse(paying, lambda: stand_in.open("rb"), NullProgress())
    assert found.incident is None
    assert asked == [{"train"}], "a rehearsal predicts exactly or not at all"


@pytest.mark.thorough
def test_a_generator_that_copies_is_stopped_before_anything_is_charged(
    stand_in: Path, private: Path, tmp_path: Path
) -> None:
    found = rehearse("copying", stand_in)
    assert found.incident is not None
    assert found.sentence.startswith("Stop. An attack did better than the proof allows (Closest record")
    area = {entry.id: entry.value for entry in found.evidence}["attacks.closest.area"]
    assert isinstance(area, float)
    assert area > 0.8
    with pytest.raises(AttackError, match=found.incident) as stopped:
        run_locally(config("copying"), tmp_path / "out", table=private)
    assert "synth incidents --clear" in str(stopped.value)
    with Application.from_environment() as application:
        assert application.ledger_rows() == []
        assert application.runs() == []
        assert application.plan(config("copying")).refusal == str(stopped.value)
        # Another configuration goes on, and so does this one once somebody has cleared the incident.
        assert application.plan(config("independent")).refusal is None
        assert application.plan(config("copying", epsilon=0.5)).refusal is None
        application.stops.clear(found.incident, who="owner", because="the planted bug was removed")
        assert application.plan(config("copying")).refusal is None
        (stop,) = application.stops.all()
        assert (stop.cleared_by, stop.because) == ("owner", "the planted bug was removed")
    assert run_locally(config("copying"), tmp_path / "out", table=private, owner_report=False).bundle.exists()


@pytest.mark.thorough
def test_a_finished_run_is_neither_sealed_nor_downloaded(stand_in: Path, private: Path, tmp_path: Path) -> None:
    result = run_locally(config("copying"), tmp_path / "out", table=private)
    with Application.from_environment() as application:
        # On its private rows the copy is a warning with an incident, and stops nothing.
        body = json.loads((tmp_path / "out" / "owner" / "report.json").read_text())
        warning = next(entry for entry in body["evidence"] if entry["id"] == "attacks.warning")
        assert len(warning["value"]) == 8
        assert "Nothing was stopped" in warning["sentence"]
        assert application.stops.all() == ()
        assert application.bundle(result.run_id)
        # Its configuration, as it was stored, is that of the rehearsal.
        incident = rehearse("copying", stand_in).incident
        assert incident is not None
        with pytest.raises(AttackError, match=incident):
            application.bundle(result.run_id)
        with pytest.raises(AttackError, match=incident):
            application.release(result.run_id, attestations=("a",), attested_by="someone")


def test_a_run_that_waited_is_not_charged(stand_in: Path, private: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Application.from_environment() as application:
        with private.open("rb") as stream:
            table = application.intake.receive(stream, account="town", name="private.csv")
        run = application.reserve(config("copying"), table_id=table.table_id)
        incident = rehearse("copying", stand_in).incident
        with pytest.raises(AttackError, match=str(incident)):
            runs.carry_out(application.installation, run.id, NullProgress())
        application.ledger.settle(run.id)
        application.store.work.move(run.id, WorkState.CANCELLED, message="")
        assert application.account("town").epsilon_spent == 0


def test_what_makes_a_configuration_the_same(stand_in: Path) -> None:
    one = config("independent")
    same = [
        replace(one, account="other", rows=5, seed=3, holdout=0.0, label="ill"),
        parse_config(json.loads(json.dumps(config_to_mapping(one)))),
        replace(one, schema=replace(one.schema, number_of_units=77)),
    ]
    other = [
        replace(one, epsilon=0.5),
        replace(one, delta=1e-6),
        replace(one, generator="dp-merf"),
        replace(one, schema=replace(one.schema, row_count="private", number_of_units=None)),
    ]
    digest = configuration_digest(one)
    assert {configuration_digest(each) for each in same} == {digest}
    assert digest not in {configuration_digest(each) for each in other}
    tuned = replace(config("dp-merf"), options={"features": 60})
    assert configuration_digest(tuned) != configuration_digest(config("dp-merf"))


def test_a_private_table_is_nobodys_stand_in(stand_in: Path, private: Path) -> None:
    with Application.from_environment() as application:
        with private.open("rb") as stream:
            application.intake.receive(stream, account="town", name="private.csv")
        with pytest.raises(TableError, match="a private table of the account 'town'"):
            application.rehearsals.rehearse(config("independent"), lambda: private.open("rb"), NullProgress())
        with private.open("rb") as stream, pytest.raises(TableError, match="cannot be a stand-in"):
            application.rehearsals.start(config("independent"), stream)
        assert application.rehearsals.standing(config("independent")) is None
        assert not list((application.settings.home / "rehearsals").rglob("stand-in*"))


def test_in_the_background_the_stand_in_is_kept_no_longer_than_needed(stand_in: Path) -> None:
    asked = config("independent")
    with idle_workers(), Application.from_environment() as application:
        with stand_in.open("rb") as stream:
            application.rehearsals.start(asked, stream)
        with stand_in.open("rb") as stream, pytest.raises(JobError, match="already in progress"):
            application.rehearsals.start(asked, stream)
        folder = application.settings.home / "rehearsals" / configuration_digest(asked)
        (kept,) = folder.glob("stand-in*")
        assert oct(kept.stat().st_mode)[-3:] == "600"
        line = stand_in.read_bytes().splitlines()[1]
        found = [path for path in application.settings.home.rglob("*") if path.is_file() and line in path.read_bytes()]
        assert found == [], "whatever somebody uploads lies on the disk as ciphertext"
        going_on = application.rehearsals.standing(asked)
        assert going_on is not None
        assert work([going_on.id], settings=Settings.from_environment()) == 0
        view = application.rehearsals.standing(asked)
        assert view is not None
        assert view.state is WorkState.REPORTED
        assert application.rehearsals.report(asked) is not None
        assert not list(folder.glob("stand-in*"))
        with stand_in.open("rb") as stream:
            application.rehearsals.start(asked, stream)
        application.rehearsals.cancel(asked)
        assert not list(folder.glob("stand-in*"))


def test_what_a_killed_rehearsal_left_is_deleted_after_an_hour(stand_in: Path) -> None:
    asked = config("independent")
    with idle_workers(), Application.from_environment() as application:
        with stand_in.open("rb") as stream:
            application.rehearsals.start(asked, stream)
        (kept,) = (application.settings.home / "rehearsals").glob("*/stand-in*")
        application.rehearsals.purge(at=now() + timedelta(hours=2))
        assert kept.exists(), "it is going on"
        application.store.work._change(WORK.c.subject == configuration_digest(asked), pid=2**22 + 1, pid_created=1.0)
        application.rehearsals.purge(at=now() + timedelta(minutes=30))
        assert kept.exists()
        application.rehearsals.purge(at=now() + timedelta(hours=2))
        assert not kept.exists()
        dead = application.rehearsals.standing(asked)
        assert dead is not None
        assert (dead.state, dead.message.endswith("Start it again.")) == (WorkState.FAILED, True)


@pytest.mark.thorough
def test_the_command_line_rehearses_lists_and_clears(
    stand_in: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written = tmp_path / "config.yaml"
    written.write_text(config_to_yaml(config("copying")))
    report = tmp_path / "rehearsal.json"
    assert main(["rehearse", str(written), "--stand-in", str(stand_in), "--out", str(report)]) == 2
    said = capsys.readouterr().out
    assert "Closest record: 1 ROC AUC. This attack did better than the proof allows" in said
    assert "This is a bug, so do not release. Incident" in said
    incident = json.loads(report.read_text())["incident"]
    assert main(["rehearse", str(written), "--stand-in", str(stand_in), "--out", str(report)]) == 2
    assert "exists" in capsys.readouterr().err
    assert main(["incidents"]) == 0
    assert f"{incident}  copying  Closest record" in capsys.readouterr().out
    assert main(["incidents", "--clear", incident]) == 2
    assert "--because" in capsys.readouterr().err
    assert main(["incidents", "--clear", "00000000", "--because", "x"]) == 2
    capsys.readouterr()
    assert main(["incidents", "--clear", incident, "--because", "mended"]) == 0
    assert main(["incidents"]) == 0
    assert "cleared by owner: mended" in capsys.readouterr().out
    honest = ["rehearse", str(written), "--generator", "independent", "--stand-in", str(stand_in)]
    assert main(honest) == 0
    assert "Stand-in data." in capsys.readouterr().out


def test_a_rehearsal_that_ends_early_leaves_no_stop(stand_in: Path) -> None:
    class Stopping(NullProgress):
        def phase(self, name: str) -> None:
            if name == "Attacking":
                raise RunCancelledError("The run was cancelled.")

    with Application.from_environment() as application:
        with pytest.raises(RunCancelledError):
            application.rehearsals.rehearse(config("copying"), lambda: stand_in.open("rb"), Stopping())
        assert application.stops.all() == ()
        with pytest.raises(InputError, match="no generator called"):
            configuration_digest(config("nothing"))
