"""A run from a file that pays for predictions: its hold-out is that of any run, and its report outlives the rows."""

from __future__ import annotations

import json
import shutil
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from synth.bundle.measurements import measurements_from_bytes
from synth.bundle.replay import replay
from synth.bundle.verify import verify
from synth.cli.local import run_locally
from synth.privacy import table as table_module
from synth.privacy.table import PrivateTable
from synth.reports.holdout import holdout_tables
from synth.schema import CategoryColumn, NumberColumn, RunConfig, Schema, YesNoColumn

CONFIG = RunConfig(
    schema=Schema(
        (
            NumberColumn("age", 0, 99, 1, fallback=40),
            CategoryColumn("town", ("Ayr", "Bath"), fallback="Ayr"),
            YesNoColumn("ill", fallback="no"),
        ),
        number_of_units=800,
    ),
    account="town",
    epsilon=50.0,
    delta=1e-6,
    people_at_most=10_000,
    rows=400,
    generator="independent-by-class",
    label="ill",
    holdout=0.25,
    prediction_share=0.3,
)


@pytest.fixture
def people(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HERMITAGE_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("DATABASE_URL", raising=False)
    ages = np.random.default_rng(1).integers(0, 100, 800)
    lines = [f"{age},{'Ayr' if age % 3 else 'Bath'},{'yes' if age > 60 else 'no'}\n" for age in ages]
    path = tmp_path / "people.csv"
    path.write_text("age,town,ill\n" + "".join(lines))
    return path


@pytest.mark.thorough
def test_a_run_pays_for_predictions_and_its_report_outlives_the_store(
    people: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[PrivateTable] = []
    right = PrivateTable._of.__func__  # type: ignore[attr-defined]

    def kept(cls: type[PrivateTable], *arguments: object, **named: object) -> PrivateTable:
        opened.append(right(cls, *arguments, **named))
        return opened[-1]

    monkeypatch.setattr(table_module.PrivateTable, "_of", classmethod(kept))
    phases: list[str] = []
    result = run_locally(CONFIG, tmp_path / "out", table=people, owner_report=False, say=phases.append)
    assert "Predicting from synthetic rows ..." in phases
    train, held_out = opened
    # The same split as without the share: exactly a quarter, and the same rows.
    assert (train.part, train._rows, held_out.part, held_out._rows) == ("train", 600, "holdout", 200)
    shutil.rmtree(tmp_path / "home")
    people.unlink()
    assert verify(result.bundle).ok
    again = replay(result.bundle, tmp_path / "again")
    assert again.identical
    assert again.report_identical
    evidence = {one["id"]: one for one in json.loads((tmp_path / "again" / "report.json").read_text())["evidence"]}
    accuracy = evidence["predictions.accuracy"]
    assert accuracy["kind"] == "charged"
    assert accuracy["value"] > 0.9  # ages tell who is ill, and synthetic rows by class keep that
    assert abs(evidence["predictions.rows"]["value"] - 200) < 30


def test_the_hold_out_is_the_same_with_and_without_the_share(people: Path, tmp_path: Path) -> None:
    """Rows that were held out before are not learned from now: the key and the part decide, not what is asked."""
    from synth.application import Application
    from synth.services.runs import _open

    with Application.from_environment() as application, people.open("rb") as stream:
        table_id = application.intake.receive(stream, account="town", name="people.csv").table_id
        run = application.reserve(CONFIG, table_id=table_id)
        (plain,) = _open(application, run, replace(CONFIG, prediction_share=0.0))
        train, held_out = _open(application, run, CONFIG)
    np.testing.assert_array_equal(plain._column("age"), train._column("age"))
    assert train._rows + held_out._rows == 800


@pytest.mark.thorough
def test_the_answer_counts_every_held_out_row(people: Path, tmp_path: Path) -> None:
    result = run_locally(
        replace(CONFIG, epsilon=100.0, prediction_share=0.9, groups=("town",)),
        tmp_path / "out",
        table=people,
        owner_report=False,
    )
    with zipfile.ZipFile(result.bundle) as archive:
        releases = measurements_from_bytes(archive.read("measurements.npz")).sums
    tables = holdout_tables(releases)
    assert tables is not None
    assert abs(tables.counts.sum() - 200) < 6 * tables.noise_std * np.sqrt(tables.counts.size)
    (name, by_town, noise_std) = tables.groups[0]
    assert name == "town"
    assert abs(by_town.sum() - 200) < 6 * noise_std * np.sqrt(by_town.size)
