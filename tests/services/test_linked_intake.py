"""Two tables of the same people from two paths or two DataFrames: taken in, told about, released, never left behind."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml

import synth
from synth.application import Application
from synth.cli import main
from synth.cli.frames import frame_of_table
from synth.cli.linked import frames_of_joined
from synth.cli.local import run_locally
from synth.errors import InputError, NotAsDeclaredError
from synth.progress import NullProgress
from synth.rehearsal.simulation import SIMULATED_FORMAT, SimulatedColumn, Simulation, simulated_table
from synth.reports.losses import Losses
from synth.reports.owner_view import OwnerView
from synth.reports.reading import owner_reading
from synth.schema import RunConfig, TableFormat, parse_config
from synth.schema.schema import MERGE
from synth.services.first_reading import read_once
from synth.services.linked import as_joined, joined_rows
from synth.services.trying_out import try_out
from synth.system.settings import ReaderLimits, Settings

CANARY = "CANARY-91c2"
YAML = """\
tables: {patients: patients.csv, visits: visits.csv, key: patient}
account: clinic
unit: {protects: patient, rows_per_unit: 3, ordered_by: visited}
row_count: private
people_at_most: 1000
budget: {epsilon: 8.0}
holdout: 0
people: 40
generator: {name: independent}
columns:
  patient: {type: identifier}
  sex: {type: category, values: [f, m], fallback: f}
  born: {type: number, low: 1930, high: 2020, step: 1, fallback: 1930}
  visited: {type: number, low: 0, high: 100, step: 1, fallback: 0}
  ward: {type: category, values: [a, b], missing: true}
"""


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HERMITAGE_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("DATABASE_URL", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "home"


def patients(n: int = 120) -> pd.DataFrame:
    ids = [f"{CANARY}-{k}" for k in range(n)]
    return pd.DataFrame(
        {"patient": ids, "sex": ["fm"[k % 2] for k in range(n)], "born": [1930 + k % 90 for k in range(n)]}
    )


def visits(n: int = 120) -> pd.DataFrame:
    whose = [k for k in range(n) for _ in range(k % 3)]
    ids = [f"{CANARY}-{k}" for k in whose]
    return pd.DataFrame({"patient": ids, "visited": [k % 100 for k in whose], "ward": ["ab"[k % 2] for k in whose]})


def written(first: pd.DataFrame, second: pd.DataFrame, text: str = YAML) -> Path:
    first.to_csv("patients.csv", index=False)
    second.to_csv("visits.csv", index=False)
    Path("linked.yaml").write_text(text)
    return Path("linked.yaml")


# What is told ---------------------------------------------------------------------------------------------------------


def told(first: str, second: str, **more: Any) -> tuple[Losses, str]:
    """Return what an owner is told before a charge, and in the report afterwards."""
    written(patients(2), visits(2))
    config = synth.load_config("linked.yaml")
    files = (io.BytesIO(first.encode()), io.BytesIO(second.encode()))
    tables = config.schema.tables
    assert tables is not None
    with joined_rows(files, tables, config.format, directory=Path.cwd() / "in", limits=ReaderLimits()) as stream:
        data = stream.read()
    joined = as_joined(config)
    losses = read_once(io.BytesIO(data), joined.format, joined.schema)
    view = OwnerView.open(lambda: io.BytesIO(data), "table", joined.schema, joined.format, account_key=bytes(32))
    (entry,) = owner_reading(view.reading, joined.schema)
    return losses, entry.sentence


FIRST = "patient,sex,born\n" + "".join(f"p{k},f,1950\n" for k in range(50))
SECOND = "patient,visited,ward\n" + "".join(f"p{k % 40},{k},a\n" for k in range(80))


@pytest.mark.four_cases
@pytest.mark.parametrize(
    ("more_first", "more_second", "lines"),
    [
        ("", "", []),
        ("", "q1,5,a\n" * 2 + "q2,5,b\n", [
            "3 rows of 'visits' belong to a patient that 'patients' does not have: they are used, and the columns of "
            "'patients' are empty there. If 'patients' should have all of them, check how 'patient' is written in both "
            "files."
        ]),
        ("p1,m,1960\np1,m,1960\np45,f,1950\n", "", [
            "2 patients are in 'patients' more than once: one row of each counts."
        ]),
        (" p1 ,m,1960\n", "", ["1 patient is in 'patients' more than once: one row of each counts."]),
        (",m,1960\nthis line is no row\n", ",5,a\n", [
            "2 rows of 'patients' and 1 row of 'visits' have no 'patient', or cannot be split into cells: they are "
            "nobody's, and not used."
        ]),
        ("", "p1,7,a\np1,8,a\n", [
            "1 % of the rows are not used: 2 % of the patients have more than 3, of which the first in order are kept. "
            "If more of them matter, raise rows_per_unit."
        ]),
        ("".join(f"r{k},,\n" for k in range(10)), "", [
            "'sex': 10 % of the cells are empty, which is not declared.",
            "'born': 10 % of the cells are empty, which is not declared.",
        ]),
    ],
)  # fmt: skip
def test_an_owner_is_told_in_what_two_tables_do_not_fit(more_first: str, more_second: str, lines: list[str]) -> None:
    losses, afterwards = told(FIRST + more_first, SECOND + more_second)
    assert list(losses.lines) == lines
    assert not losses.mostly
    assert all(line in afterwards for line in lines)
    if not lines:
        assert "rows of both tables were read" in afterwards
        assert "nobody's" not in afterwards


def test_a_key_that_is_written_in_two_ways_makes_a_run_wait() -> None:
    losses, _ = told(FIRST, SECOND.replace("p", "P-").replace("P-atient", "patient"))
    assert losses.mostly
    assert losses.lines[0].startswith("80 rows of 'visits' belong to a patient that 'patients' does not have")


def test_nobody_needs_to_have_a_row_in_the_second_table() -> None:
    losses, _ = told(FIRST, "patient,visited,ward\n")
    assert losses == Losses()


# From two files or DataFrames to a release ----------------------------------------------------------------------------


def assert_fits(tables: dict[str, pd.DataFrame], joined: pd.DataFrame) -> None:
    """Two synthetic tables: everybody is in the first once, and every visit has its patient."""
    first, second = tables["patients"], tables["visits"]
    assert list(first) == ["patient", "sex", "born"]
    assert list(second) == ["patient", "visited", "ward"]
    assert first["patient"].is_unique
    assert set(second["patient"]) <= set(first["patient"])
    merged = first.merge(second, how="outer", on="patient", indicator=True)
    assert merged["_merge"].value_counts()["right_only"] == 0
    assert len(merged) == len(joined)
    assert (merged["_merge"] == "left_only").sum() == (joined["_merge"] == "left_only").sum() > 0


@pytest.mark.usefixtures("without_trial")
def test_two_files_are_charged_and_released(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = written(patients(), visits())
    assert main(["run", str(config), "--out", "release", "--no-owner-report"]) == 0
    assert synth.verify("release/bundle.zip").ok
    joined = frame_of_table(tmp_path / "release" / "synthetic.parquet")
    files = {name: tmp_path / "release" / f"{name}.parquet" for name in ("patients", "visits")}
    assert_fits({name: frame_of_table(path) for name, path in files.items()}, joined)
    assert joined["patient"].nunique() == 40
    with Application.from_environment() as application:
        assert application.intake.tables() == []
    said = capsys.readouterr()
    left = b"".join(path.read_bytes() for path in (tmp_path / "home").rglob("*") if path.is_file())
    left += b"".join(path.read_bytes() for path in (tmp_path / "release").rglob("*") if path.is_file())
    assert CANARY not in said.out + said.err
    assert CANARY.encode() not in left
    assert b"patients.csv: " not in (tmp_path / "release" / "certificate.json").read_bytes()


@pytest.mark.usefixtures("without_trial")
def test_a_draft_is_made_of_the_names_in_both_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    written(patients(4), visits(4))
    assert main(["schema", "patients.csv", "visits.csv"]) == 0
    draft = capsys.readouterr().out
    document = yaml.safe_load(draft)
    assert document["tables"] == {"patients": "patients.csv", "visits": "visits.csv", "key": "patient"}
    assert (document["unit"]["id_column"], document["unit"]["ordered_by"]) == ("patient", "visited")
    assert list(document["columns"]) == ["patient", "sex", "born", "visited", "ward"]
    assert document["columns"]["patient"] == {"type": "identifier"}
    assert "people" in document
    assert "rows" not in document
    assert CANARY not in draft


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["patients.csv", "patients.csv"], "with --key. Both have: patient, sex, born."),
        (["patients.csv", "patients.csv", "--key", "patient"], "Both tables have 'sex', 'born' beside the key."),
        (["patients.csv", "visits.csv", "--key", "ward"], "with --key. Both have: patient."),
        (["patients.csv", "visits.csv", "--look", "--account", "clinic"], "leave out --from and --look"),
    ],
)
def test_what_two_files_cannot_be_drafted_from_is_said(
    more: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    written(patients(4), visits(4))
    assert main(["schema", *more]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.usefixtures("without_trial")
def test_a_run_takes_two_dataframes_or_two_other_paths(tmp_path: Path) -> None:
    written(patients(), visits())
    config = synth.load_config("linked.yaml")
    result = run_locally(config, "one", tables={"visits": visits(), "patients": patients()}, owner_report=False)
    assert_fits(result.tables, result.table)
    for name, table in frames_of_joined(result.table_file, config.schema).items():
        pd.testing.assert_frame_equal(table, result.tables[name], check_dtype=False)
    of_paths = {"patients": tmp_path / "patients.csv", "visits": tmp_path / "elsewhere.csv"}
    with pytest.raises(InputError, match="There is no table 'elsewhere"):
        synth.run(config, "two", tables=of_paths)
    with pytest.raises(InputError, match="Give both tables by their names"):
        synth.run(config, "three", tables={"patients": patients()})
    with pytest.raises(InputError, match="Give two paths or two DataFrames"):
        synth.run(config, "three", tables={"patients": patients(), "visits": "visits.csv"})
    with pytest.raises(InputError, match="another table is named as well"):
        synth.run(config, "three", table="patients.csv")


@pytest.mark.usefixtures("without_trial")
def test_a_release_takes_two_dataframes_and_gives_two() -> None:
    said = parse_config_document()
    schema = {key: said[key] for key in ("tables", "unit", "row_count", "columns")}
    how: dict[str, Any] = {"epsilon": 8.0, "people_at_most": 1000, "people": 40, "generator": "independent"}
    given = {"patients": patients().astype({"born": "int16"}), "visits": visits()}
    release = synth.Release(given, schema, account="clinic", holdout=0, **how).fit()
    assert_fits(release.tables_, release.table_)
    assert release.tables_["patients"]["born"].dtype == np.dtype("int16")
    assert synth.verify(release.bundle_).ok
    more = release.sample(10)
    assert isinstance(more, dict)
    assert len(more["patients"]) == 10
    with pytest.raises(InputError, match="The schema is about two tables"):
        synth.Release(patients(), schema, account="clinic", **how)
    one = {key: schema[key] for key in ("row_count", "columns")} | {"unit": {"protects": "patient", "rows_per_unit": 1}}
    with pytest.raises(InputError, match="how they belong together"):
        synth.Release(given, one, account="clinic", **{**how, "people": None})


def parse_config_document() -> dict[str, Any]:
    import yaml

    said: dict[str, Any] = yaml.safe_load(YAML)
    return {**said, "tables": {"patients": None, "visits": None, "key": "patient"}}


def test_most_visits_of_nobody_stop_a_run_before_its_charge(tmp_path: Path) -> None:
    written(patients(), visits().assign(patient=[f"other-{k}" for k in range(len(visits()))]))
    config = synth.load_config("linked.yaml")
    with pytest.raises(NotAsDeclaredError, match="120 rows of 'visits' belong to a patient"):
        synth.run(config, "release")
    with Application.from_environment() as application:
        assert application.account("clinic").epsilon_spent == 0


# Before any row -------------------------------------------------------------------------------------------------------


def test_a_preview_counts_patients_without_a_visit_as_empty_there() -> None:
    path = written(patients(), visits(), YAML.replace("epsilon: 8.0", "epsilon: 900.0"))
    counts = synth.preview(synth.load_config(path), ["sex", "visited"], epsilon=500.0)
    found = {(one.column_1, one.value_1): one.count for one in counts.itertuples()}
    missing = next(count for (column, value), count in found.items() if (column, value) == ("visited", "missing"))
    # Of the 120 patients 40 have no visit, 40 one and 40 two; none has an empty cell, and the first bin begins with 0.
    assert missing == pytest.approx(40, abs=3)
    assert sum(count for (column, _), count in found.items() if column == "sex") == pytest.approx(160, abs=5)


def test_what_belongs_to_a_patient_follows_from_the_names_in_the_files() -> None:
    written(patients(2), visits(2))
    config = synth.load_config("linked.yaml")
    assert config.schema.unit.same_in_all_rows == ("sex", "born")
    assert config.schema.unit.id_column == "patient"
    renamed = YAML + "format: {rename: {gender: sex}}\n"
    written(patients(2).rename(columns={"sex": "gender"}), visits(2), renamed)
    assert synth.load_config("linked.yaml").schema.unit.same_in_all_rows == ("sex", "born")
    blank = YAML.replace("patients.csv", "").replace("visits.csv", "")
    written(patients(2), visits(2), blank)
    assert synth.load_config("linked.yaml", {"patients": patients(2), "visits": visits(2)}).table_files is None
    with pytest.raises(InputError, match="tables: no file is named for 'patients'"):
        synth.load_config("linked.yaml")
    with pytest.raises(InputError, match="about two tables"):
        synth.load_config("linked.yaml", "patients.csv")


def config_of(**more: Any) -> RunConfig:
    said = parse_config_document()
    said["unit"] |= {"same_in_all_rows": ["sex", "born"]}
    return parse_config({**said, **more})


@pytest.mark.thorough
@pytest.mark.parametrize("missing", [("",), pytest.param(("NA",), marks=pytest.mark.thorough)])
def test_a_run_of_two_tables_is_tried_out(tmp_path: Path, missing: tuple[str, ...]) -> None:
    config = as_joined(config_of(format={"missing": list(missing)}))
    assert config.format.kind == "parquet"
    try_out(config, Settings(home=tmp_path / "home", database_url=""), NullProgress())


def test_simulated_rows_are_those_of_people_with_and_without_visits() -> None:
    schema = config_of().schema
    columns = {"ward": SimulatedColumn(shares=(1, 0))}
    data = simulated_table(Simulation(rows=400, columns=columns, seed=3), schema)
    found = pd.read_csv(io.BytesIO(data), dtype=str, keep_default_na=False)
    alone = found["_merge"] == "left_only"
    assert set(found["_merge"]) == {"both", "left_only"}
    assert (found.loc[alone, ["visited", "ward"]] == "").all(axis=None)
    assert found.loc[alone, "patient"].is_unique
    assert not set(found.loc[alone, "patient"]) & set(found.loc[~alone, "patient"])
    assert len(found[["patient", "sex", "born"]].drop_duplicates()) == found["patient"].nunique()
    visits_of = found[~alone].groupby("patient").size()
    assert set(visits_of) == {1, 2, 3}
    assert read_once(io.BytesIO(data), SIMULATED_FORMAT, schema).lines == ()
    with pytest.raises(InputError, match="'_merge' is not a modelled column"):
        simulated_table(Simulation(columns={MERGE.name: SimulatedColumn()}), schema)


def test_one_file_of_both_has_to_say_where_its_rows_come_from() -> None:
    config = config_of()
    with pytest.raises(InputError, match="Give both files under 'tables:', or one that pandas"):
        read_once(io.BytesIO(b"patient,sex,born,visited,ward\np1,f,1950,1,a\n"), TableFormat(), config.schema)
