"""From a file of another program to a draft, and to a bundle that verifies: once for each family of readers."""

from __future__ import annotations

import csv
import datetime
import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml
from typed_files import statistical, xls

import synth
from synth.cli.commands import main
from synth.schema import config_of_text, schema_from_document

RANDOM = np.random.default_rng(5)
PEOPLE = pd.DataFrame({
    "sex": RANDOM.choice([1.0, 2.0, 9.0], 300),
    "smokes": RANDOM.choice([0.0, 1.0], 300),
    "income": RANDOM.integers(0, 5_000, 300).astype(float),
    "town": RANDOM.choice(["Ayr", "Leith", "São Paulo"], 300),
    "born": [datetime.date(1950 + place % 50, 1 + place % 12, 3) for place in range(300)],
    "rose": [datetime.time(5 + place % 4, place % 60) for place in range(300)],
})  # fmt: skip
LABELS = {"sex": {1: "male", 2: "female", 9: "refused"}, "smokes": {0: "no", 1: "yes"}}
SAV = {
    "column_labels": {"sex": "Sex at birth", "income": "Income, net"},
    "variable_value_labels": LABELS,
    "missing_ranges": {"sex": [9]},
}
NET = "Income, net: <after> tax\N{RIGHT-TO-LEFT OVERRIDE}"
DECLARED = {
    "sex": {"type": "category", "values": ["male", "female"], "missing": True},
    "smokes": {"type": "yes_no", "yes": "yes", "no": "no", "missing": True},
    "income": {"type": "number", "low": 0, "high": 5000, "step": 100, "missing": True, "description": NET},
    "town": {"type": "category", "values": ["Ayr", "Leith"], "other": True},
    "born": {"type": "date", "low": "1950-01-01", "high": "1999-12-31", "step": "year", "missing": True},
    "rose": {"type": "time", "step": "quarter", "missing": True},
}


def in_words() -> list[list[Any]]:
    """Return the rows as a person would type them."""
    return [
        [LABELS["sex"][row.sex] if row.sex != 9 else None, LABELS["smokes"][row.smokes], *row[3:]]
        for row in PEOPLE.itertuples()
    ]


def fixed() -> bytes:
    lines = (
        f"{sex or '':6}{smokes:3}{income:7.1f}{town:9}{born}{rose:%H:%M}"
        for sex, smokes, income, town, born, rose in in_words()
    )
    return "".join(f"{line}\r\n" for line in lines).encode("cp1252")


FIELDS = {"sex": "1-6", "smokes": "7-9", "income": "10-16", "town": "17-25", "born": "26-35", "rose": "36-40"}
FILES: dict[str, tuple[bytes, dict[str, Any]]] = {
    "people.sav": (statistical("sav", PEOPLE, **SAV), {}),
    "people.xls": (xls([list(PEOPLE.columns), *in_words()]), {}),
    "people.txt": (fixed(), {"fields": FIELDS, "encoding": "cp1252"}),
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HERMITAGE_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    for name, (data, _) in FILES.items():
        (tmp_path / name).write_bytes(data)
    return tmp_path


@pytest.mark.parametrize(
    "name", ["people.sav", *(pytest.param(name, marks=pytest.mark.thorough) for name in FILES if name != "people.sav")]
)
def test_from_a_file_to_a_bundle_that_verifies(name: str, folder: Path) -> None:
    said = {
        "table": name,
        "account": "people",
        "unit": {"protects": "person", "rows_per_unit": 1, "id_column": None},
        "row_count": "public",
        "number_of_units": 300,
        "budget": {"epsilon": 2.0},
        "rows": 50,
        "generator": {"name": "independent"},
        "format": FILES[name][1],
        "columns": DECLARED,
    }
    (folder / "c.yaml").write_text(yaml.safe_dump(said), encoding="utf-8")
    assert main(["run", "c.yaml", "--out", "out", "--no-owner-report"]) == 0
    assert synth.verify(folder / "out" / "bundle.zip").ok
    with (folder / "out" / "synthetic.csv").open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert list(rows[0]) == sorted(DECLARED), "named as they are"
    assert {row["sex"] for row in rows} == {"male", "female", ""}
    assert {row["town"] for row in rows} == {"Ayr", "Leith", "other"}
    with zipfile.ZipFile(folder / "out" / "bundle.zip") as sealed:
        readme, page, config, schema = (
            sealed.read(file).decode() for file in ("README.txt", "report.html", "config.yaml", "schema.json")
        )
    assert config_of_text(config).schema.meanings == {"income": NET}
    assert schema_from_document(json.loads(schema)).meanings == {"income": NET}
    assert "The columns\n-----------\nincome: Income, net: <after> tax⟨U+202E⟩\n" in readme
    assert page.count("<p><b>income</b>: Income, net: &lt;after&gt; tax⟨U+202E⟩</p>") == 1


def test_the_draft_has_what_the_file_says(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema", "people.sav"]) == 0
    drafted = capsys.readouterr().out
    assert "  sex: {type: category, values: [male, female], description: Sex at birth, missing: true}\n" in drafted
    assert "  smokes: {type: yes_no, yes: 'yes', no: 'no', missing: true}\n" in drafted
    assert "  income: {type: number, low: , high: , step: , description: 'Income, net'}" in drafted
    assert "  rose: {type: time, step: quarter, missing: true}\n" in drafted
    assert "  sex: 'declared from a data dictionary: the file itself'\n" in drafted
    assert "  income: 'declared" not in drafted, "nothing is said of its bounds"
    assert main(["schema", "people.sav", "--format", "labels=smokes"]) == 0
    drafted = capsys.readouterr().out
    assert 'format: {"labels": ["smokes"]}\n' in drafted
    assert "  sex: {type: category, values: ['1', '2'], labels: {'1': male, '2': female}, " in drafted


def test_the_draft_after_a_look_has_labels_where_they_list_all_values(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rare = PEOPLE.assign(sex=[1.0] * 299 + [2.0], smokes=[0.0, 1.0, 7.0] * 100)
    (folder / "rare.sav").write_bytes(statistical("sav", rare, **SAV))
    assert main(["schema", "rare.sav", "--look", "--account", "people"]) == 0
    drafted = yaml.safe_load(capsys.readouterr().out)
    assert drafted["columns"]["sex"]["values"] == ["male", "female"], "although one row holds the second"
    assert drafted["domain_source"]["sex"].endswith("the file itself")
    assert set(drafted["columns"]["smokes"]["values"]) == {"7", "no", "yes"}
    assert not drafted["domain_source"]["smokes"].endswith("the file itself")
    assert drafted["columns"]["income"]["description"] == "Income, net"
    assert drafted["columns"]["income"]["type"] == "number", "which the rows show, and not the file"
    looked = synth.look("rare.sav", account="people")
    assert {one.name: one.body.get("description") for one in looked.columns if "description" in one.body} == {
        "sex": "Sex at birth",
        "income": "Income, net",
    }


def test_a_text_with_fixed_positions_from_the_command_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    places = ",".join(f"{name}:{ends}" for name, ends in FIELDS.items())
    assert main(["schema", "people.txt", "--format", f"fields={places}", "--format", "encoding=cp1252"]) == 0
    drafted = yaml.safe_load(capsys.readouterr().out)
    assert list(drafted["columns"]) == list(FIELDS)
    assert drafted["format"]["fields"] == FIELDS
