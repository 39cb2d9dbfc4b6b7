"""The owner's report of a run: predictions on the hold-out or the test table, and what a bad test table costs."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from synth.application import Application
from synth.cli.local import owner_report_again, run_locally
from synth.errors import JobError
from synth.reports.prediction import downstream
from synth.reports.prediction.problem import DownstreamOptions
from synth.schema import CategoryColumn, NumberColumn, RunConfig, Schema, YesNoColumn
from synth.services import reports
from synth.services.reports import free_threads
from synth.services.runs import _seconds_by_part

CONFIG = RunConfig(
    schema=Schema(
        (
            NumberColumn("age", 0, 99, 1, fallback=40),
            CategoryColumn("town", ("Ayr", "Bath"), fallback="Ayr"),
            YesNoColumn("ill", fallback="no"),
        ),
        number_of_units=400,
    ),
    account="town",
    epsilon=50.0,
    delta=1e-6,
    people_at_most=10_000,
    rows=400,
    generator="independent-by-class",
    label="ill",
    holdout=0.25,
)


def written(path: Path, rows: int, seed: int) -> Path:
    random = np.random.default_rng(seed)
    ages = random.integers(0, 100, rows)
    lines = [f"{age},{'Ayr' if age % 3 else 'Bath'},{'yes' if age > 60 else 'no'}\n" for age in ages]
    path.write_text("age,town,ill\n" + "".join(lines))
    return path


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HERMITAGE_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("DATABASE_URL", raising=False)
    return written(tmp_path / "people.csv", 400, seed=1)


def predictions(folder: Path) -> dict[str, dict[str, Any]]:
    body = json.loads((folder / "owner" / "report.json").read_text())
    return {entry["id"]: entry for entry in body["evidence"] if entry["id"].startswith("downstream.")}


@pytest.mark.thorough
def test_a_run_predicts_its_label_on_the_hold_out(table: Path, tmp_path: Path) -> None:
    phases: list[str] = []
    run_locally(CONFIG, tmp_path / "out", table=table, say=phases.append)
    found = predictions(tmp_path / "out")
    assert {entry["kind"] for entry in found.values()} == {"owner_only"}
    assert found["downstream.synthetic.roc_auc"]["value"] > 0.9
    assert found["downstream.control.roc_auc"]["value"] < 0.9
    assert "hold-out" in found["downstream.rows"]["sentence"]
    assert found["downstream.rows"]["value"] == 100
    assert "owner only: Predicting with 3 classifiers on 3 tables, a few seconds ..." in phases
    seconds = json.loads((tmp_path / "out" / "owner" / "timings.json").read_text())["seconds"]
    assert seconds["report"] > seconds["fit"]
    said = [phase.removeprefix("owner only: ") for phase in phases]
    spoken = [phase.removesuffix(" ...").lower().replace(" ", "_") for phase in said if phase.endswith(" ...")]
    after = spoken[spoken.index("checking_the_bundle") + 1 :]
    assert len(after) >= 6
    parts = _seconds_by_part(dict.fromkeys(after, 1.0))
    assert parts["report"] == parts["total"] == len(after), "a phase after sealing is counted as something else"
    published = (tmp_path / "out" / "report.json").read_text()
    assert "downstream" not in published


@pytest.mark.thorough
def test_a_test_table_comes_before_the_hold_out(table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(downstream._CLASSIFIERS, "quick", ("gaussian_nb",))  # type: ignore[arg-type]
    test = written(tmp_path / "test.csv", 150, seed=2)
    run_locally(replace(CONFIG, test_table=str(test)), tmp_path / "out", table=table)
    found = predictions(tmp_path / "out")
    assert found["downstream.rows"]["value"] == 150
    assert "the test table" in found["downstream.rows"]["sentence"]


@pytest.mark.thorough
def test_a_test_table_that_was_deleted_leaves_the_hold_out(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(downstream._CLASSIFIERS, "quick", ("gaussian_nb",))  # type: ignore[arg-type]
    test = written(tmp_path / "test.csv", 150, seed=2)
    config = replace(CONFIG, test_table=str(test))
    run_locally(config, tmp_path / "out", table=table, keep_table=True, owner_report=False)
    with Application.from_environment() as application:
        body = json.loads((tmp_path / "out" / "owner" / "run.json").read_text())
        application.intake.delete_table(body["test_table_id"])
    owner_report_again(tmp_path / "out", say=lambda line: None)
    found = predictions(tmp_path / "out")
    assert "The test table could not be used: This table was deleted." in found["downstream.rows"]["sentence"]
    assert found["downstream.rows"]["value"] == 100


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("change", "words"),
    [({"label": None}, "No label is declared"), ({"holdout": 0.0}, "no real rows to test on")],
    ids=["no label", "no hold-out"],
)
def test_why_nothing_is_predicted(table: Path, tmp_path: Path, change: dict[str, Any], words: str) -> None:
    run_locally(replace(CONFIG, generator="independent", **change), tmp_path / "out", table=table)
    (entry,) = predictions(tmp_path / "out").values()
    assert words in entry["sentence"]


@pytest.mark.thorough
def test_a_fault_of_the_predictions_is_an_incident_and_not_the_end_of_a_paid_run(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: object, **named: object) -> None:
        raise KeyError("CANARY in a cell")

    monkeypatch.setattr("synth.reports.prediction.evidence.owner_downstream", fail)
    run_locally(CONFIG, tmp_path / "out", table=table)
    (entry,) = predictions(tmp_path / "out").values()
    assert "incident" in entry["sentence"]
    assert "CANARY" not in entry["sentence"]


@pytest.mark.thorough
def test_a_fault_of_the_scores_costs_no_report(table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: object, **named: object) -> None:
        raise KeyError("CANARY in a cell")

    monkeypatch.setattr("synth.reports.scores.owner_scores", fail)
    run_locally(replace(CONFIG, label=None, generator="independent"), tmp_path / "out", table=table)
    written_report = (tmp_path / "out" / "owner" / "report.json").read_text()
    found = {entry["id"]: entry for entry in json.loads(written_report)["evidence"]}
    assert "incident" in found["scores.none"]["sentence"]
    assert "CANARY" not in written_report
    assert {"fidelity.ks", "fidelity.subsample.2", "fidelity.associations"} <= set(found)
    assert not any(name in (tmp_path / "out" / "report.json").read_text() for name in ("scores.", "subsample.2"))


@pytest.mark.thorough
def test_the_report_again_with_every_classifier(table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_locally(CONFIG, tmp_path / "out", table=table, keep_table=True, owner_report=False)
    few = DownstreamOptions(predictors="all", repeats=1, maximum_rows=60, hard_labels=True)
    monkeypatch.setattr(DownstreamOptions, "chosen", classmethod(lambda cls, choice, **asked: few))
    owner_report_again(tmp_path / "out", say=lambda line: None, classifiers="all", hard_labels=True)
    found = predictions(tmp_path / "out")
    assert len(found["downstream.classifiers"]["figures"][0]["categories"]) == 13
    assert "From predicted classes instead of scores" in found["downstream.synthetic.roc_auc"]["sentence"]


def test_the_choices_of_an_owner(monkeypatch: pytest.MonkeyPatch) -> None:
    quick, every = DownstreamOptions.chosen("quick", threads=3), DownstreamOptions.chosen("all", hard_labels=True)
    assert (quick.predictors, quick.threads, quick.hard_labels) == ("quick", 3, False)
    assert (every.predictors, every.repeats, every.hard_labels) == ("all", 3, True)
    monkeypatch.setattr(reports, "cores", lambda: 8)
    monkeypatch.setattr(reports.os, "getloadavg", lambda: (4.2, 0.0, 0.0))
    assert free_threads() == 5
    monkeypatch.setattr(reports.os, "getloadavg", lambda: (40.0, 0.0, 0.0))
    assert free_threads() == 1


@pytest.mark.thorough
def test_a_run_that_was_deleted_has_no_report_again(table: Path, tmp_path: Path) -> None:
    run_locally(CONFIG, tmp_path / "out", table=table, owner_report=False)
    with pytest.raises(JobError, match="--keep-table"):
        owner_report_again(tmp_path / "out", say=lambda line: None)
