"""Where most of a table would be lost a run waits for its owner's word, whoever starts it; nothing is published."""

from __future__ import annotations

import io
import json
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import synth
from synth.application import Application
from synth.cli.commands import main
from synth.errors import NotAsDeclaredError, NotAsDeclaredWarning
from synth.ledger.notes import CHOSEN_AFTER_LOOKING
from synth.schema import CategoryColumn, DropColumn, NumberColumn, RunConfig, Schema, TableFormat, config_to_mapping
from synth.services.intake import Reading
from synth.store import EventKind

SCHEMA = Schema(
    (NumberColumn("age", 0, 120, 1, missing=True), CategoryColumn("town", ("Ayr", "Bath"), missing=True)),
    row_count="private",
)
CONFIG = RunConfig(
    schema=SCHEMA, account="town", epsilon=1.0, delta=1e-6, people_at_most=1_000, rows=9, generator="independent"
)
ROWS = "".join(f"{20 + one % 60},{('Ayr', 'Bath')[one % 2]}\n" for one in range(100))
LOST = ("age,town\n" + ROWS.replace(",", ",5,")).encode()
"""A table of R with row names: every line has one cell more than there are names."""
TOLD = ("age,town\n" + ROWS.replace("Ayr", "Oban", 10)).encode()


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HERMITAGE_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("DATABASE_URL", raising=False)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "config.yaml"
    body: dict[str, Any] = {**config_to_mapping(CONFIG), "table": "people.csv"}
    path.write_text(json.dumps(body))
    return path


def spent() -> float:
    with Application.from_environment() as application:
        return application.account("town").epsilon_spent


def looks() -> int:
    with Application.from_environment() as application:
        return len(application.store.events.of_kind(EventKind.OWNER_VIEW))


def assumptions(bundle: Path) -> list[str]:
    with zipfile.ZipFile(bundle) as archive:
        found: list[str] = json.loads(archive.read("certificate.json"))["assumptions"]
        return found


@pytest.mark.usefixtures("without_trial")
def test_the_command_line_waits_spends_nothing_and_names_the_option_that_goes_on(
    config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "people.csv").write_bytes(LOST)
    run = ["run", str(config), "--no-owner-report", "--out"]
    assert main([*run, str(tmp_path / "waits")]) == 2
    said = capsys.readouterr().err
    assert "100 % of the lines cannot be split into the declared columns" in said
    assert "or go on as declared: --as-declared" in said
    assert not (tmp_path / "waits").exists()
    assert (spent(), looks()) == (0, 1)
    # What is not looked at waits for nobody, and is recorded nowhere.
    assert main([*run, str(tmp_path / "unseen"), "--no-look"]) == 0
    assert "cannot be split" not in capsys.readouterr().err
    assert looks() == 1
    assert main([*run, str(tmp_path / "goes on"), "--as-declared"]) == 0
    said = capsys.readouterr().err
    assert said.count("100 % of the lines cannot be split into the declared columns") == 2, "before and after"
    assert spent() > 1
    # The same configuration that was looked at is no choice; what was said of rows is in no published file.
    for name in ("unseen", "goes on"):
        assert CHOSEN_AFTER_LOOKING not in assumptions(tmp_path / name / "bundle.zip")
        with zipfile.ZipFile(tmp_path / name / "bundle.zip") as archive:
            assert not any(b"cannot be split" in archive.read(member) for member in archive.namelist())
    assert synth.verify(tmp_path / "goes on" / "bundle.zip").ok


@pytest.mark.usefixtures("without_trial")
def test_what_is_changed_after_the_look_was_chosen_after_it(config: Path, tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_bytes(LOST)
    run = ["run", str(config), "--no-owner-report", "--out"]
    assert main([*run, str(tmp_path / "waits")]) == 2
    mended = ["--format", "header=false", "--format", "skip_rows=1", "--format", "separator=,"]
    assert main([*run, str(tmp_path / "mended"), *mended, "--format", "names=age,gone,town"]) == 2, "it is undeclared"
    body = json.loads(config.read_text())
    body["columns"]["gone"] = {"type": "drop"}
    config.write_text(json.dumps(body))
    assert main([*run, str(tmp_path / "mended"), *mended, "--format", "names=age,gone,town"]) == 0
    assert CHOSEN_AFTER_LOOKING in assumptions(tmp_path / "mended" / "bundle.zip")


@pytest.mark.usefixtures("without_trial")
def test_python_warns_raises_and_goes_on(tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_bytes(TOLD)
    with pytest.warns(
        NotAsDeclaredWarning, match="'town': 10 % of the cells are none of the declared values"
    ) as caught:
        result = synth.run(CONFIG, tmp_path / "told", table=tmp_path / "people.csv")
    assert [warning.filename for warning in caught] == [__file__]
    assert result.losses == (str(caught[0].message),)
    report = json.loads((tmp_path / "told" / "owner" / "report.json").read_text())
    (entry,) = (one for one in report["evidence"] if one["id"] == "reading.cells")
    assert "'town': 10 % of the cells are none of the declared values." in entry["sentence"]
    (tmp_path / "people.csv").write_bytes(LOST)
    before = spent()
    with pytest.raises(synth.NotAsDeclaredError) as lost:
        synth.run(CONFIG, tmp_path / "lost", table=tmp_path / "people.csv")
    assert isinstance(lost.value, synth.SynthError)
    assert len(lost.value.lines) == 1
    assert spent() == before
    with pytest.warns(NotAsDeclaredWarning):
        synth.run(CONFIG, tmp_path / "goes on", table=tmp_path / "people.csv", as_declared=True)
    assert spent() > before


@pytest.mark.usefixtures("without_trial")
def test_a_data_frame_waits_too() -> None:
    frame = pd.DataFrame({"age": ["30 years"] * 40, "town": ["Ayr"] * 40})
    release = synth.Release(frame, SCHEMA, account="frames", people_at_most=1_000, generator="independent", rows=9)
    with pytest.raises(NotAsDeclaredError, match="'age': 100 % of the cells cannot be read as a number"):
        release.fit()
    assert len(release.fit(look=False).table_) == 9
    assert looks() == 1


@pytest.mark.usefixtures("without_trial")
def test_a_finding_waits_and_its_run_is_not_chosen_after_its_look(tmp_path: Path) -> None:
    people = tmp_path / "people.csv"
    body = {**config_to_mapping(replace(CONFIG, epsilon=9.0)), "table": "people.csv"}
    body["columns"] = {"age": {"type": "find"}, "town": {"type": "find"}}
    (tmp_path / "open.yaml").write_text(json.dumps(body))
    people.write_bytes(LOST)
    with pytest.raises(NotAsDeclaredError):
        synth.find(tmp_path / "open.yaml", tmp_path / "found.yaml", epsilon=4.0)
    assert (spent(), (tmp_path / "found.yaml").exists()) == (0, False)
    people.write_bytes(("age,town\n" + ROWS * 20).encode())
    found = synth.find(tmp_path / "open.yaml", tmp_path / "found.yaml", epsilon=4.0)
    result = synth.run(found, tmp_path / "out")
    assert looks() >= 3, "of the finding that waited, of the one that did not, and of the run"
    assert CHOSEN_AFTER_LOOKING not in assumptions(result.bundle)


def test_what_is_told_depends_on_no_charge_and_charges_nothing() -> None:
    told: list[str] = []
    config = replace(CONFIG, schema=replace(SCHEMA, columns=(*SCHEMA.columns, DropColumn("more"))))
    with Application.from_environment() as application:
        data = LOST.replace(b"age,town", b"age,town,more")
        table = application.intake.receive(
            io.BytesIO(data), account="town", name="t.csv", declared=config.schema.columns
        )
        test = application.intake.receive(
            io.BytesIO(b"age,town,more\n5,Oban,1\n"), account="town", name="test.csv", kind="test"
        )
        reading = Reading(tell=told.append)
        with pytest.raises(NotAsDeclaredError, match="'town': 100 %"):
            application.reserve(config, table_id=table.table_id, reading=reading)
        assert application.ledger_rows() == []
        assert application.store.runs.all() == ()
        assert told == [], "the error says it"
        run = application.reserve(
            config,
            table_id=table.table_id,
            test_table_id=test.table_id,
            reading=replace(reading, as_declared=True),
        )
        assert [line.split(":")[0] for line in told] == ["'town'", "Test table"]
        assert application.store.runs[run.id].config == json.dumps(config_to_mapping(config.published()))


@pytest.mark.usefixtures("without_trial")
@pytest.mark.parametrize("names", [("x", "b"), ("2019", "2020")])
def test_a_first_line_of_the_declared_names_is_a_header_on_the_command_line(
    names: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = names
    columns = {
        first: {"type": "number", "low": 0, "high": 90, "step": 1, "missing": True},
        second: {"type": "category", "values": ["a", "b", "7"], "missing": True},
    }
    body = {**config_to_mapping(CONFIG), "table": "people.csv", "columns": columns}
    (tmp_path / "config.yaml").write_text(json.dumps(body))
    table = tmp_path / "people.csv"
    table.write_text(f"{first},{second}\n\n" + f"1,a\n\n{2},{'b' if second == 'b' else 7}\n" * 20)
    assert main(["schema", str(table)]) == 2
    assert "synth schema TABLE --header drafts them" in capsys.readouterr().err
    assert main(["schema", str(table), "--header"]) == 0
    assert f'"{first}"' in capsys.readouterr().out or second == "b"
    assert main(["run", str(tmp_path / "config.yaml"), "--out", str(tmp_path / "out"), "--no-owner-report"]) == 0
    assert "as declared" not in capsys.readouterr().err


def test_a_format_is_replaced_key_by_key() -> None:
    from synth.cli.files import format_over

    form = format_over(TableFormat(missing=("", "NA")), ["decimal=,", "dates=%d.%m.%Y"])
    assert (form.missing, form.decimal, form.dates) == (("", "NA"), ",", ("%d.%m.%Y",))
