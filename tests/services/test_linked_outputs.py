"""Two tables in, two tables out: what a run leaves of them in its folder, at the command line and in Python."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import synth
from synth.application import Application
from synth.bundle.verify import verify
from synth.cli import main
from synth.cli.local import check_again_locally, run_locally
from synth.errors import InputError, JobError, UncheckedError
from synth.schema import load_config
from synth.services import own_check, run_folder
from synth.services.entering import enter_bundles
from synth.services.intake import Reading
from synth.store import WorkState
from synth.system.settings import Settings

TEXT = """
tables: {patients: Personen.csv, visits: Besuche.csv, key: patient}
format: {separator: ";", encoding: latin-1, missing: ["", k. A.]}
account: clinic
unit: {protects: patient, rows_per_unit: 3, same_in_all_rows: [sex, born], ordered_by: day}
row_count: private
people_at_most: 1000
budget: {epsilon: 5.0, delta: 1e-6}
generator: {name: independent}
people: 60
columns:
  patient: {type: identifier}
  sex: {type: category, values: [f, m], fallback: f}
  born: {type: number, low: 1930, high: 2020, step: 10, missing: true}
  day: {type: number, low: 0, high: 99, step: 1, fallback: 0}
  ward: {type: category, values: [Süd, Nord], missing: true}
"""
FILES = {"patients.csv", "patients.parquet", "visits.csv", "visits.parquet"}
BESIDE = {"bundle.zip", "certificate.json", "report.json", "synthetic.csv", "synthetic.parquet", *FILES}


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A configuration beside two files in the format of a German spreadsheet; every fourth patient has no visit."""
    monkeypatch.setenv("HERMITAGE_HOME", str(tmp_path / "home"))
    rng = np.random.default_rng(2)
    people = [f"p{number};{'fm'[number % 2]};{1930 + 10 * (number % 9)}" for number in range(200)]
    visits = [
        f"p{number};{day};{('Süd', 'Nord', 'k. A.')[rng.integers(3)]}"
        for number in range(200)
        for day in rng.integers(0, 100, number % 4)
    ]
    for name, head, rows in (("Personen", "patient;sex;born", people), ("Besuche", "patient;day;ward", visits)):
        (tmp_path / f"{name}.csv").write_text("\n".join([head, *rows, ""]), encoding="latin-1")
    (tmp_path / "config.yaml").write_text(TEXT, encoding="utf-8")
    return tmp_path / "config.yaml"


def files_in(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir() if path.is_file()}


@pytest.mark.usefixtures("without_trial")
def test_two_files_in_and_two_files_out(config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = run_locally(load_config(config), tmp_path / "out", owner_report=False, reading=Reading())
    assert files_in(result.folder) == BESIDE
    assert "its two tables to patients.csv and visits.csv beside it" in result.lines[0]

    patients, visits = result.tables["patients"], result.tables["visits"]
    assert list(result.tables) == ["patients", "visits"]
    assert (list(patients), list(visits)) == (["patient", "sex", "born"], ["patient", "day", "ward"])
    joined = patients.merge(visits, how="outer", indicator=True)
    assert len(patients) == 60 == patients["patient"].nunique()
    assert len(joined) == len(result.table)
    counts = joined["_merge"].value_counts()
    assert counts["right_only"] == 0
    assert counts["left_only"] == (result.table["_merge"] == "left_only").sum() > 0
    assert str(patients["born"].dtype) == "Int64"

    assert main(["rows", str(result.bundle), "--out", str(tmp_path / "rows")]) == 0
    assert files_in(tmp_path / "rows") == {"patients.csv", "visits.csv"}
    written = (tmp_path / "rows" / "visits.csv").read_bytes()
    assert written == synth.rows_as_declared(result.bundle, table="visits")
    read = pd.read_csv(tmp_path / "rows" / "visits.csv", sep=";", encoding="latin-1", keep_default_na=False)
    wards = visits["ward"].astype(object).where(visits["ward"].notna(), "k. A.")
    assert list(read["ward"]) == list(wards)
    assert "S\xfcd".encode("latin-1") in written
    assert main(["rows", str(result.bundle), "--out", str(tmp_path / "rows")]) == InputError.exit_code
    assert main(["parties", str(result.bundle), "--out", str(tmp_path / "machines")]) == InputError.exit_code
    capsys.readouterr()

    with Application.from_environment() as application:
        for name in FILES:
            assert application.linked_file(result.run_id, name) == (result.folder / name).read_bytes()
        assert application.rows_as_declared(result.run_id, "visits") == written
        with pytest.raises(JobError, match="made no such table"):
            application.linked_file(result.run_id, "certificate.json")
        # A folder that lost them gets them back from the bundle.
        folder = application.folder(result.run_id)
        for name in FILES:
            (folder / name).unlink()
        (entered,) = enter_bundles(application.installation, [result.bundle], who="owner")
        assert entered.was_there
        assert files_in(folder) == BESIDE


@pytest.mark.thorough
@pytest.mark.usefixtures("without_trial")
def test_a_check_that_is_completed_later_releases_both_tables(config: Path, tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(own_check, "verify", lambda path, key, **how: verify(path, key, memory_bytes=2**20))
        with pytest.raises(UncheckedError) as refusal:
            run_locally(load_config(config), tmp_path / "out", owner_report=False, reading=Reading())
    run_id = refusal.value.run_id
    folder = run_folder.of(Settings.from_environment(), run_id)
    assert files_in(folder) == set(), "nothing to publish lies there before it is checked"
    result = check_again_locally(run_id, tmp_path / "again")
    assert files_in(result.folder) == BESIDE == files_in(folder)
    assert set(result.tables) == {"patients", "visits"}
    with Application.from_environment() as application:
        assert application.store.runs[run_id].state is WorkState.RELEASED


def test_one_table_has_no_two(tmp_path: Path) -> None:
    result = synth.RunResult(tmp_path, "", 1.0, 0.0, "", ())
    with pytest.raises(InputError, match="There are no two tables"):
        _ = result.tables
