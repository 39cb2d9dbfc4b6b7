"""What fails for declared reasons fails before the charge, in one sentence; what passes ends in a bundle."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import pytest

from synth import verify
from synth.bundle.replay import replay
from synth.config import RunConfig
from synth.schema import CategoryColumn, NumberColumn, Schema, YesNoColumn
from synth.services.local import run_locally

SIGNS = ("=lab", "@handle", "+change", "-delta")
CONFIG = RunConfig(
    schema=Schema((NumberColumn("age", 0, 99, 1, missing=True),), number_of_units=40),
    account="town",
    epsilon=1.0,
    delta=1e-6,
    people_at_most=10_000,
    rows=20,
    generator="independent",
    holdout=0.0,
)


@pytest.fixture(autouse=True)
def installation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HERMITAGE_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("DATABASE_URL", raising=False)


def written(path: Path, config: RunConfig, rows: int = 40) -> Path:
    """Write a table with the declared columns, cells taken from what is declared in turn."""
    values = {
        column.name: column.labels if not isinstance(column, NumberColumn) else ("3", "57", "")
        for column in config.schema.modelled
    }
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(values)
        writer.writerows([texts[row % len(texts)] for texts in values.values()] for row in range(rows))
    return path


def test_names_and_values_that_a_spreadsheet_would_run_end_in_a_bundle(tmp_path: Path) -> None:
    columns = (
        *(CategoryColumn(name, tuple(f"{sign}s" for sign in SIGNS), missing=True) for name in SIGNS),
        YesNoColumn("'quoted', \"twice\"", yes="+", no="-", fallback="-"),
    )
    config = replace(CONFIG, schema=Schema(columns, number_of_units=40))
    result = run_locally(config, tmp_path / "out", table=written(tmp_path / "people.csv", config))
    verdict = verify(result.bundle)
    assert verdict.ok, verdict.json["failures"]
    assert replay(result.bundle, tmp_path / "again").as_certified
