"""Runs that release a model, as a user meets them: commands, ledger, try-out, going on, predictions and refusals."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pandas as pd
import pytest
from toy_models import CARDS

import synth
from synth.application import Application
from synth.bundle import predicting
from synth.bundle import verify as verifying
from synth.bundle.checks import check
from synth.bundle.verify import Verdict, verdict_of
from synth.cli import main
from synth.errors import ConfigError, InputError, JobError, TableError, VerificationError
from synth.estimators import MODELS, describe
from synth.generators.options import option_fields
from synth.progress import NullProgress
from synth.schema import load_config
from synth.schema.config import config_of_text
from synth.services.entering import enter_bundles
from synth.services.trying_out import try_out

Synth = Callable[..., subprocess.CompletedProcess[str]]

TEXT = """
table: people.csv
account: town
unit: {protects: person, rows_per_unit: 1}
row_count: private
people_at_most: 10000
budget: {epsilon: 4.0, delta: 1.0e-5}
model: toy-line
label: income
columns:
  name: {type: identifier}
  age: {type: number, low: 0, high: 100, step: 1, fallback: 40}
  town: {type: category, values: [north, south], other: true}
  income: {type: number, low: 0, high: 1000, step: 1, fallback: 0}
"""
FILES = {"model.json", "bundle.zip", "certificate.json", "report.json", "owner"}


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(MODELS, "toy-line", CARDS[0])

    # A process of its own knows no toys: the same check in this one.
    def checked_here(bundle: str | Path | BinaryIO, public_key: Path | None = None, **limits: float) -> Verdict:
        key = None if public_key is None else Path(public_key).read_bytes()
        held = Path(bundle) if isinstance(bundle, str | Path) else bundle
        return verdict_of(check(held, expected_key=key), key_given=key is not None)

    monkeypatch.setattr(predicting, "verify", checked_here)
    monkeypatch.setattr(verifying, "verify", checked_here)


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Synth:
    monkeypatch.setenv("HERMITAGE_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("DATABASE_URL", raising=False)
    monkeypatch.chdir(tmp_path)
    rows = [f"CANARY{i},{i % 90},{'north' if i % 3 else 'CANARY-town'},{10 * (i % 90)}" for i in range(600)]
    (tmp_path / "people.csv").write_text("name,age,town,income\n" + "\n".join(rows) + "\n")
    (tmp_path / "town.yaml").write_text(TEXT)

    def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
        code = main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return subprocess.CompletedProcess(arguments, code, captured.out, captured.err)

    return run


@pytest.mark.thorough
def test_from_a_file_to_predictions_by_a_verified_bundle(command: Synth, tmp_path: Path) -> None:
    assert "toy-line: Toy line." in command("model").stdout
    assert "100.0%" not in command("forecast", "town.yaml").stderr
    done = command("model", "fit", "town.yaml", "--out", "release")
    assert done.returncode == 0, done.stderr
    assert "Wrote the model 'toy-line'" in done.stdout
    release = tmp_path / "release"
    assert {path.name for path in release.iterdir()} == FILES
    assert {path.name for path in (release / "owner").iterdir()} == {"timings.json", "run.json", "report.json"}
    certificate = json.loads((release / "certificate.json").read_text())
    assert certificate["model"] == "toy-line"
    assert certificate["epsilon"] <= 4.0
    assert "Steps of 2 were chosen without looking at the rows." in certificate["assumptions"]
    assert "private model by toy-line" in command("ledger").stdout

    checked = command("verify", "release")
    assert checked.returncode == 0, checked.stdout
    again = command("replay", "release/bundle.zip", "--out", "again")
    assert again.returncode == 0, again.stdout
    assert (tmp_path / "again" / "model.json").read_bytes() == (release / "model.json").read_bytes()
    for path in [*release.rglob("*"), *(tmp_path / "home" / "runs").rglob("*")]:
        assert not path.is_file() or b"CANARY" not in path.read_bytes(), path

    (tmp_path / "new.csv").write_text("town,age,else\nnorth,10,x\nsouth,80,y\nwest,,z\n")
    foretold = command("model", "predict", "release", "new.csv", "--out", "foretold.csv")
    assert foretold.returncode == 0, foretold.stderr
    values = pd.read_csv("foretold.csv", float_precision="round_trip")["income"].to_numpy()
    assert len(values) == 3
    assert ((values >= 0) & (values <= 1000)).all()
    assert values[1] > values[0]
    assert np.array_equal(synth.predict("release", "new.csv").values, values)

    refused = command("report", "release")
    assert (refused.returncode, "was deleted" in refused.stderr) == (JobError.exit_code, True)


@pytest.mark.thorough
def test_what_cannot_be_predicted_is_refused_in_a_sentence(command: Synth, tmp_path: Path) -> None:
    assert command("run", "town.yaml", "--out", "release").returncode == 0
    (tmp_path / "short.csv").write_text("town\nnorth\n")
    with pytest.raises(TableError, match=r"'short.csv' has no column 'age'"):
        synth.predict("release", "short.csv")
    (tmp_path / "empty.csv").write_bytes(b"")
    with pytest.raises(TableError, match=r"'empty.csv' cannot be read as a table. Save it"):
        synth.predict("release", "empty.csv")
    model = tmp_path / "release" / "model.json"
    right = synth.predict("release", "people.csv").values
    model.write_bytes(model.read_bytes().replace(b"intercept", b"intercepT"))
    assert np.array_equal(synth.predict("release", "people.csv").values, right), "only the sealed model is used"
    assert "model.json next to the bundle differs from the one inside it" in command("verify", "release").stdout
    sealed = tmp_path / "release" / "bundle.zip"
    sealed.write_bytes(sealed.read_bytes().replace(b"intercept", b"intercepT"))
    with pytest.raises(VerificationError, match=r"model\.json is damaged inside the zip"):
        synth.predict("release", "people.csv")
    table = TEXT.replace("model: toy-line", "generator: {name: independent}\nrows: 50")
    (tmp_path / "table.yaml").write_text(table)
    assert command("run", "table.yaml", "--out", "rows", "--no-owner-report").returncode == 0
    with pytest.raises(ConfigError, match="contains a table, not a model"):
        synth.predict("rows", "people.csv")
    refused = command("compare", "rows", "release")
    assert (refused.returncode, "made a model, not a table" in refused.stderr) == (InputError.exit_code, True)
    refused = command("replay", "rows/bundle.zip", "--generator", "toy-line", "--out", "other")
    assert "is a model" in refused.stderr


@pytest.mark.parametrize("option", [("--rows", "50"), ("--generator", "independent")])
def test_options_of_rows_are_refused_before_anything_is_charged(command: Synth, option: tuple[str, str]) -> None:
    refused = command("run", "town.yaml", "--out", "release", *option)
    assert (refused.returncode, "makes no rows" in refused.stderr) == (InputError.exit_code, True)
    assert "Nothing spent yet." in command("ledger").stdout


def test_it_is_tried_out_on_one_row_and_on_none(command: Synth) -> None:
    with Application.from_environment() as application:
        try_out(load_config("town.yaml"), application.settings, NullProgress())
        assert application.ledger_rows() == []


@pytest.mark.thorough
@pytest.mark.parametrize("ids", [False, True], ids=["replace one", "add or remove, with ids"])
@pytest.mark.parametrize("name", sorted(MODELS))
def test_every_model_ends_in_a_bundle_on_one_row_and_on_none(name: str, ids: bool, command: Synth) -> None:
    text = TEXT.replace("toy-line", name)
    if "classifier" in name:
        text = text.replace("label: income", "label: town")
    if ids:
        text = text.replace("rows_per_unit: 1", "rows_per_unit: 3, id_column: name")
    else:
        text = text.replace("row_count: private", "row_count: public\nnumber_of_units: 500")
    assert all(field.help for field in option_fields(describe(name).options))
    with Application.from_environment() as application:
        try_out(config_of_text(text), application.settings, NullProgress())


@pytest.mark.thorough
def test_its_release_is_entered_again(command: Synth, tmp_path: Path) -> None:
    assert command("run", "town.yaml", "--out", "release").returncode == 0
    with Application.from_environment() as application:
        (run,) = application.runs()
        folder = application.folder(run.run_id)
        (folder / "model.json").unlink()
        (entered,) = enter_bundles(application.installation, [tmp_path / "release" / "bundle.zip"], who="owner")
        assert entered.was_there
        assert (folder / "model.json").read_bytes() == (tmp_path / "release" / "model.json").read_bytes()


def test_a_model_is_rehearsed_on_simulated_rows(command: Synth) -> None:
    found = command("rehearse", "town.yaml", "--simulate")
    assert found.returncode == 0, found.stderr
    assert "Intercept: " in found.stdout
    assert "Nothing spent yet." in command("ledger").stdout
    refused = command("rehearse", "town.yaml", "--simulate", "--grid")
    assert (refused.returncode, "compares tables" in refused.stderr) == (InputError.exit_code, True)
