"""A look from the command line and from Python: what it drafts runs once the questions about people are answered."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pandas as pd
import pytest

import synth
from synth.application import Application
from synth.cli.commands import main
from synth.errors import InputError
from synth.schema import READ_FROM_ROWS, config_of_text, config_to_yaml, parse_column
from synth.store import EventKind

ANSWERS = {
    "  protects: ": "  protects: patient",
    "  rows_per_unit: ": "  rows_per_unit: 1",
    "row_count: ": "row_count: private",
    "people_at_most: ": "people_at_most: 1000",
}
WARDS = ("Süd", "Nord", "Nord")
GERMAN = "Größe;Tag;Station;Notiz\n" + "".join(
    f"{150 + place % 40},{place % 10};{place % 28 + 1:02}.03.2024;{WARDS[place % 3]};Notiz {place} {place}\n"
    for place in range(90)
)


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HERMITAGE_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("DATABASE_URL", raising=False)
    path = tmp_path / "klinik.csv"
    path.write_bytes(GERMAN.encode("cp1252"))
    return path


def answered(draft: str) -> str:
    lines = [
        next((answer for question, answer in ANSWERS.items() if line.startswith(question)), line)
        for line in draft.splitlines()
    ]
    return "\n".join(lines)


def looks() -> list[str]:
    with Application.from_environment() as application:
        return [str(event.detail["what"]) for event in application.store.events.of_kind(EventKind.OWNER_VIEW)]


def test_a_draft_after_a_look_leaves_only_the_people_open(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema", str(table), "--look", "--account", "klinik"]) == 0
    said = capsys.readouterr()
    open_lines = [line for line in said.out.splitlines() if "# ANSWER" in line]
    assert [line.split(":")[0].strip() for line in open_lines] == [
        "protects", "rows_per_unit", "row_count", "number_of_units", "people_at_most"
    ]  # fmt: skip
    with pytest.raises(InputError):
        config_of_text(said.out)
    config = config_of_text(answered(said.out))
    assert (config.format.encoding, config.format.decimal, config.format.dates) == ("cp1252", ",", ("%d.%m.%Y",))
    assert config.read_columns == ("Größe", "Tag", "Station")
    assert "Notiz would be left out: 90 different texts in 90 cells" in said.err
    assert looks() == ["format and columns"]


def test_what_was_read_stays_marked_when_it_is_edited_and_sealed(
    table: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["schema", str(table), "--look", "--account", "klinik"]) == 0
    text = answered(capsys.readouterr().out).replace("low: 150", "low: 100")
    sealed = config_to_yaml(config_of_text(text).sealed())
    assert "low: 100" in sealed
    assert sealed.count(READ_FROM_ROWS) == 3
    assert "cells read as" not in sealed, "what a look says is for the owner alone"


def test_two_ways_of_reading_are_asked_in_the_draft(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "births.csv"
    path.write_text("born,n\n" + "".join(f"0{place % 9 + 1}.04.2020,{place % 7}\n" for place in range(60)))
    assert main(["schema", str(path), "--look", "--account", "births"]) == 0
    draft = answered(capsys.readouterr().out)
    assert "# ANSWER: keep one of these lines" in draft
    assert "dates in format is one of ['%d.%m.%Y'] or ['%m.%d.%Y']" in draft
    with pytest.raises(InputError, match="'born'"):
        config_of_text(draft)
    lines = draft.splitlines()
    kept = [
        line.replace("  # born", "  born") if "'%d.%m.%Y'" in line and "  # born" in line else line for line in lines
    ]
    config = config_of_text("\n".join(line for line in kept if line != "  born: {type: }"))
    assert config.schema.modelled_column("born").patterns == ("%d.%m.%Y",)


def test_a_refusal_names_the_option_that_helps(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema", str(table)]) == 2
    assert "--format encoding=cp1252" in capsys.readouterr().err
    assert main(["schema", str(table), "--format", "encoding=cp1252"]) == 0
    assert looks() == []


def test_python_looks_at_files_and_data_frames(table: Path) -> None:
    of_file = synth.look(table, account="klinik")
    assert isinstance(of_file, synth.Recognised)
    frame = pd.read_csv(table, sep=";", encoding="cp1252", dtype=str)
    of_frame = synth.look(frame, account="klinik")
    assert [one.body["type"] for one in of_file.columns] == [one.body["type"] for one in of_frame.columns]
    assert of_frame.columns[0].body["decimal"] == ","
    typed = synth.look(pd.DataFrame({"x": [1.5, 2.25, 3.125] * 20, "b": [True, False, None] * 20}), account="klinik")
    assert [one.body["type"] for one in typed.columns] == ["number", "yes_no"]
    assert looks() == ["format and columns"] * 3
    with pytest.raises(InputError, match="must be a pandas DataFrame"):
        synth.look([1, 2], account="klinik")


def test_a_look_at_durations_declares_their_unit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HERMITAGE_HOME", str(tmp_path / "home"))
    frame = pd.DataFrame({"wait": pd.to_timedelta([90, 120, None] * 30, unit="s"), "x": [1.5, 2.25, 3.125] * 30})
    columns = synth.draft_schema(frame, look_for="klinik")["columns"]
    assert columns["wait"]["duration"] == "seconds"
    assert columns["wait"]["low"] <= 90 < 120 <= columns["wait"]["high"]
    assert "duration" not in columns["x"]
    frame.to_parquet(tmp_path / "waits.parquet")
    of_file = synth.look(tmp_path / "waits.parquet", account="klinik").columns
    assert {one.name: one.body.get("duration") for one in of_file} == {"wait": "seconds", "x": None}


def test_a_drafted_schema_of_a_data_frame_is_a_release_once_people_are_described(table: Path) -> None:
    frame = pd.read_csv(table, sep=";", encoding="cp1252", dtype=str).assign(dose=["-", *["2"] * 89])
    drafted = synth.draft_schema(frame, look_for="klinik")
    assert drafted["format"] == {"missing": ["", "-"]}
    assert set(drafted["domain_source"]) == {"Größe", "Tag", "Station", "dose"}
    for name, body in drafted["columns"].items():
        parse_column(name, body)
    drafted |= {"unit": {"protects": "patient", "rows_per_unit": 1}, "row_count": "private"}
    release = synth.Release(frame, drafted, people_at_most=1000, account="klinik")
    assert release._config.format.missing == ("", "-")
    assert release._config.read_columns == ("Größe", "Tag", "Station", "dose")
    with pytest.raises(InputError, match="The format of a DataFrame has no 'decimal'"):
        synth.Release(frame, {**drafted, "format": {"decimal": ","}}, people_at_most=1000)


def test_columns_are_read_only_where_they_say_so(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema", str(table), "--look", "--account", "klinik"]) == 0
    config = config_of_text(answered(capsys.readouterr().out))
    declared = dataclasses.replace(config, domain_source={**config.domain_source, "Tag": "a law"})
    assert declared.read_columns == ("Größe", "Station")
