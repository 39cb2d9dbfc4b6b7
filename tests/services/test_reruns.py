"""What privacy costs groups over runs with fresh noise: for the owner, uncharged, put into the report."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from test_owner_report import CONFIG, written

from synth.application import Application
from synth.cli.local import owner_report_again, run_locally
from synth.errors import InputError
from synth.reports.prediction import downstream
from synth.services import reports
from synth.system.settings import Settings


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Settings, str]:
    monkeypatch.setenv("HERMITAGE_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("DATABASE_URL", raising=False)
    monkeypatch.setitem(downstream._CLASSIFIERS, "quick", ("gaussian_nb",))  # type: ignore[arg-type]
    config = replace(CONFIG, groups=("town",))
    result = run_locally(config, tmp_path / "out", table=written(tmp_path / "people.csv", 400, seed=1), keep_table=True)
    return Settings.from_environment(), result.run_id


def reported(path: Path) -> dict[str, dict[str, Any]]:
    return {entry["id"]: entry for entry in json.loads(path.read_text())["evidence"]}


def test_they_enter_the_owner_report_and_are_charged_nothing(run: tuple[Settings, str], tmp_path: Path) -> None:
    settings, run_id = run
    folder = settings.home / "runs" / run_id
    before = reported(folder / "owner" / "report.json")
    with Application(settings) as application:
        charged = application.ledger_rows()
    said: list[str] = []
    after = reported(owner_report_again(tmp_path / "out", say=said.append, reruns=3))
    assert "Running 3 times more, and predicting from every run ..." in said
    assert after.keys() - before.keys() == {"excess.town"}
    found = after["excess.town"]
    assert found["kind"] == "owner_only"
    for words in ("run 3 times more", "the hold-out", "Read directly from the private rows", "here gaps are real"):
        assert words in found["sentence"]
    bars, table = found["figures"]
    assert [series["name"] for series in bars["series"]] == ["synthetic rows", "real rows"]
    names, rows = zip(*(row[:2] for row in table["rows"]), strict=True)
    assert names == ("all rows", "Ayr", "Bath")
    assert rows[0] == rows[1] + rows[2] == 100
    with Application(settings) as application:
        assert application.ledger_rows() == charged
    assert "excess" not in (folder / "report.json").read_text()
    # A report that is built again keeps what took long.
    assert reported(owner_report_again(tmp_path / "out", say=said.append))["excess.town"] == found
    with pytest.raises(InputError, match="at least 2 runs, got 1"):
        owner_report_again(tmp_path / "out", say=said.append, reruns=1)


def test_noise_is_fresh_in_every_run(
    run: tuple[Settings, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[bytes] = []
    right = reports._remade

    def watched(config: Any, rows: Any) -> Any:
        remade = right(replace(config, epsilon=0.5), rows)
        made.append(b"".join(codes.tobytes() for codes in remade.rows))
        assert len(rows.units) == 300
        return remade

    monkeypatch.setattr(reports, "_remade", watched)
    owner_report_again(tmp_path / "out", say=lambda line: None, reruns=4)
    assert len(set(made)) == 4
