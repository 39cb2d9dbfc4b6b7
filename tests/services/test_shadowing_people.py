"""Shadow models and paid predictions where people keep all of their rows: both are about people, each with all rows."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_shadowing import attack, reported

from synth.cli.local import run_locally
from synth.reports.code_tables import UnitRows
from synth.schema import CategoryColumn, IdentifierColumn, NumberColumn, PrivacyUnit, RunConfig, Schema, YesNoColumn
from synth.services import reports
from synth.system.settings import Settings

PEOPLE = 400
CONFIG = RunConfig(
    Schema(
        (
            IdentifierColumn("patient"),
            CategoryColumn("sex", ("f", "m"), fallback="f"),
            NumberColumn("day", 0, 40, 1, fallback=0),
            NumberColumn("cost", 0, 400, 1, fallback=0),
            YesNoColumn("ill", fallback="no"),
        ),
        unit=PrivacyUnit("patient", 6, "patient", ("sex",), "day"),
        row_count="private",
        people="whole",
    ),
    account="visits",
    people_at_most=1_000,
    epsilon=50.0,
    delta=1e-6,
    generator="independent-by-class",
    rows=PEOPLE,
    by_people=True,
    label="ill",
    holdout=0.25,
    prediction_share=0.2,
    seed=2,
)


PRIVATE = replace(CONFIG, epsilon=1.0, generator="independent", label=None, prediction_share=0.0)
"""With a proof that an attack can exceed."""


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> tuple[Settings, str]:
    """A run of a configuration, and where it is kept."""
    monkeypatch.setenv("HERMITAGE_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("DATABASE_URL", raising=False)
    monkeypatch.setattr("synth.services.runs.try_out", lambda *given, **named: None)
    draw, lines = random.Random(8), []
    for patient in range(PEOPLE):
        own = draw.randrange(300)
        for day in sorted(draw.sample(range(41), 3 + patient % 4)):
            cost = own + draw.randrange(100)
            lines.append(f"{patient},{'fm'[patient % 2]},{day},{cost},{'yes' if cost > 200 else 'no'}\n")
    table = tmp_path / "visits.csv"
    table.write_text("patient,sex,day,cost,ill\n" + "".join(lines))
    result = run_locally(request.param, tmp_path / "out", table=table, keep_table=True)
    return Settings.from_environment(), str(result.run_id)


@pytest.mark.thorough
@pytest.mark.parametrize("run", [CONFIG], indirect=True, ids=["paid"])
def test_people_are_attacked_and_predicted_for_with_all_of_their_rows(
    run: tuple[Settings, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    settings, run_id = run
    before = reported(settings, run_id)
    # A person is on one side with all rows: as many as people are counted there, not as many as rows.
    public = json.loads((settings.home / "runs" / run_id / "report.json").read_text())["evidence"]
    (paid,), tested = [one for one in public if one["id"] == "predictions.rows"], before["downstream.rows"]
    assert 0.15 * PEOPLE < tested["value"] < 0.35 * PEOPLE
    assert "one row of each patient" in tested["sentence"]
    assert (paid["title"], paid["unit"]) == ("Test patients", "patients")
    assert abs(paid["value"] - tested["value"]) < 3 * paid["error"] < 0.1 * PEOPLE
    tables: list[UnitRows] = []
    right = reports._remade

    def seen(config: Any, several: list[UnitRows]) -> Any:
        tables.extend(several)
        return right(config, several)

    monkeypatch.setattr(reports, "_remade", seen)
    attack(settings, run_id, 16)
    after = reported(settings, run_id)
    assert {name for name in after if name not in before} == {
        f"attacks.shadow.{name}" for name in ("area", "caught", "people", "reached")
    }
    for table in tables:
        assert len(np.unique(table.units)) == len(table.units), "everyone is one row, with the next and what is theirs"
    assert len({len(table.units) for table in tables}) > 1, "people come and go"


@pytest.mark.thorough
@pytest.mark.parametrize("run", [PRIVATE], indirect=True, ids=["private"])
def test_a_generator_that_copies_people_is_caught(run: tuple[Settings, str], monkeypatch: pytest.MonkeyPatch) -> None:
    settings, run_id = run
    right = reports._remade

    def copied(config: Any, several: list[UnitRows]) -> Any:
        made = right(config, several)
        return [replace(one, rows=rows.codes) for one, rows in zip(made, several, strict=True)]

    monkeypatch.setattr(reports, "_remade", copied)
    attack(settings, run_id, 32)
    found = reported(settings, run_id)
    assert found["attacks.shadow.area"]["value"] > 0.8
    assert "Nothing was stopped" in found["attacks.shadow.warning"]["sentence"]
