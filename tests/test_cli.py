"""The command line as a user meets it: a fresh home, real files, every command and every exit code."""

from __future__ import annotations

import gzip
import io
import json
import os
import re
import sqlite3
import subprocess
import sys
import zipfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pandas as pd
import pytest
import yaml
from choosing import few

from synth.application import Application
from synth.cli import main, received
from synth.cli.local import _kept
from synth.dictionaries import read_dictionary
from synth.services import runs
from synth.store import EventKind

Synth = Callable[..., subprocess.CompletedProcess[str]]

CONFIG = """
table: people.csv
account: town
unit: {protects: person, rows_per_unit: 1}
row_count: public
number_of_units: 200
people_at_most: 1000
budget: {epsilon: 2.0, delta: 1.0e-5}
holdout: 0
generator: {name: independent}
rows: 300
rules: ["left >= joined"]
columns:
  name: {type: identifier}
  age: {type: number, low: 0, high: 100, step: 1, fallback: 40}
  town: {type: category, values: [north, south], other: true, labels: {north: Uplands}}
  joined: {type: date, low: 2020-01-01, high: 2020-12-31, step: day, fallback: 2020-07-01}
  left: {type: date, low: 2020-01-01, high: 2020-12-31, step: day, missing: true}
  note: {type: drop}
"""
FILES = {"synthetic.csv", "synthetic.parquet", "bundle.zip", "certificate.json", "report.json", "owner"}


@pytest.fixture
def synth(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Synth:
    monkeypatch.setenv("HERMITAGE_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("DATABASE_URL", raising=False)
    monkeypatch.chdir(tmp_path)

    def command(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
        code = main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return subprocess.CompletedProcess(arguments, code, captured.out, captured.err)

    return command


class Typed(io.StringIO):
    """Somebody who types at a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def config(tmp_path: Path) -> Path:
    rows = [f"P{i},{i % 90},{'north' if i % 3 else 'CANARY-town'},2020-0{1 + i % 9}-15,,secret" for i in range(200)]
    (tmp_path / "people.csv").write_text("name,age,town,joined,left,note\n" + "\n".join(rows) + "\n")
    path = tmp_path / "town.yaml"
    path.write_text(CONFIG)
    return path


def spent(synth: Synth) -> str:
    told = synth("account", "town")
    if told.returncode == 2 and "There is no account 'town'" in told.stderr:
        return "0"
    return told.stdout.split("epsilon ")[1].split(" ")[0]


def test_a_run_writes_its_files_verifies_and_replays(
    synth: Synth, config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(received, "TOLD_BYTES", 1)
    done = synth("run", config, "--out", "release")
    assert done.returncode == 0, done.stderr
    told = re.findall(r"100 % of the table is (\w+)", done.stdout + done.stderr)
    assert told[-1] == "encrypted"
    release = tmp_path / "release"
    assert {path.name for path in release.iterdir()} == FILES
    assert oct((release / "owner").stat().st_mode)[-3:] == "700"
    assert {path.name for path in (release / "owner").iterdir()} == {"report.json", "timings.json", "run.json"}
    certificate = json.loads((release / "certificate.json").read_text())
    assert certificate["epsilon"] <= 2.0
    assert certificate["rows"] == 300

    table = pd.read_csv(release / "synthetic.csv", dtype=str, keep_default_na=False)
    assert list(table) == ["name", "age", "town", "joined", "left"]
    assert len(table) == 300
    assert set(table["town"]) <= {"north", "south", "other"}
    kept = table[table["left"] != ""]
    assert (kept["left"] >= kept["joined"]).all()

    # Labels go with the release and are what its report shows; the table holds the words of the file.
    with zipfile.ZipFile(release / "bundle.zip") as bundle:
        report, page = (bundle.read(name).decode() for name in ("report.json", "report.html"))
    assert all("Uplands" in shown for shown in (report, page))
    taken = {one.name: one.body for one in read_dictionary("b.zip", (release / "bundle.zip").read_bytes()).columns}
    assert taken["town"]["labels"] == {"north": "Uplands"}

    checked = synth("verify", "release/bundle.zip")
    assert checked.returncode == 0, checked.stdout
    machine = json.loads(synth("verify", "release/bundle.zip", "--json").stdout)
    assert machine["ok"] is True

    again = synth("replay", "release/bundle.zip", "--out", "again")
    assert again.returncode == 0, again.stderr
    assert (tmp_path / "again" / "synthetic.csv").read_bytes() == (release / "synthetic.csv").read_bytes()
    assert spent(synth) == "2"
    assert "released" in synth("ledger").stdout


@pytest.mark.usefixtures("without_trial")
def test_a_changed_bundle_is_found_out(synth: Synth, config: Path, tmp_path: Path) -> None:
    import zipfile

    assert synth("run", config, "--out", "release", "--no-owner-report").returncode == 0
    folder = tmp_path / "unpacked"
    with zipfile.ZipFile(tmp_path / "release" / "bundle.zip") as archive:
        archive.extractall(folder)
    assert synth("verify", folder).returncode == 0
    certificate = folder / "certificate.json"
    certificate.write_text(certificate.read_text().replace('"rows": 300', '"rows": 301'))
    changed = synth("verify", folder)
    assert changed.returncode == 1
    assert "Traceback" not in changed.stdout + changed.stderr


@pytest.mark.usefixtures("without_trial")
def test_the_cap_is_kept_and_what_is_refused_costs_nothing(synth: Synth, config: Path, tmp_path: Path) -> None:
    assert synth("account", "town", "--open", "--epsilon-cap", "1", "--delta-cap", "1e-5").returncode == 0
    refused = synth("run", config, "--out", "release")
    assert refused.returncode == 3
    assert "Traceback" not in refused.stderr
    assert not (tmp_path / "release").exists()
    assert spent(synth) == "0"
    assert synth("run", config, "--out", "release", "--epsilon", "1", "--no-owner-report").returncode == 0


@pytest.mark.four_cases
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("age: {", "aged: {"), "no column 'aged'"),
        (("  note: {type: drop}\n", ""), "'note' that is not declared"),
        (("people.csv", "nowhere.csv"), "There is no table 'nowhere.csv'"),
        (("independent", "magic"), "There is no generator called 'magic'"),
        (("independent", "independent-by-class"), "'independent-by-class' needs a label of at least two values"),
        (("left >= joined", "left >= town"), "has no order"),
        (("epsilon: 2.0", "epsilon: -2.0"), "epsilon must be positive"),
        (("epsilon: 2.0", "epsilon: 1000"), "too large to account for, and would promise nothing. Choose epsilon of"),
        (("delta: 1.0e-5", "delta: 1.0e-300"), "delta 1e-300 is too small for noise on a grid. Choose delta of"),
        (("delta: 1.0e-5", "delta: 1.0e-320"), "e-321 is too small for noise on a grid. Choose delta of"),
        (("number_of_units: 200\npeople_at_most: 1000\n", ""), "people_at_most is missing. Write a public upper bound"),
        (("number_of_units: 200\n", ""), "The number of persons is declared public but not given"),
        (("number_of_units: 200\n", "number_of_units: 2000\n"), "people_at_most must be at least number_of_units"),
        (("protects: person, ", ""), "unit: protects is missing. Say who you are protecting"),
        (("rows: 300", "rows: many"), "rows must be a number"),
    ],
)
def test_bad_input_is_one_sentence_and_costs_nothing(
    synth: Synth, config: Path, tmp_path: Path, change: tuple[str, str], message: str
) -> None:
    config.write_text(CONFIG.replace(*change))
    refused = synth("run", config, "--out", "release")
    assert refused.returncode == 2
    last = refused.stderr.strip().splitlines()[-1]
    assert message in last
    assert "CANARY" not in refused.stdout + refused.stderr
    assert "Traceback" not in refused.stderr
    assert not (tmp_path / "release").exists()
    assert spent(synth) == "0"


@pytest.mark.parametrize(
    "content",
    [
        b"CANARY,1,CANARY,2,3,CANARY\n" * 2,
        b"\xff\xfe\x00CANARY",
        b"",
        b"PAR1CANARY",
        gzip.compress(b"x")[:-4],
    ],
    ids=["no header", "not text", "empty", "broken parquet", "broken gzip"],
)
def test_a_broken_table_is_one_sentence_without_a_cell(
    synth: Synth, config: Path, tmp_path: Path, content: bytes
) -> None:
    (tmp_path / "people.csv").write_bytes(content)
    refused = synth("run", config, "--out", "release")
    assert refused.returncode == 2, refused.stderr
    assert "CANARY" not in refused.stdout + refused.stderr
    assert "Traceback" not in refused.stderr
    assert spent(synth) == "0"
    assert not list((tmp_path / "home" / "vault").glob("*.table"))


@pytest.mark.usefixtures("without_trial")
def test_lines_that_cannot_be_read_are_rows_and_the_owner_is_told(synth: Synth, config: Path, tmp_path: Path) -> None:
    with (tmp_path / "people.csv").open("ab") as table:
        table.write(b'CANARY,1\nCANARY,2,"north,2020-01-15,,x\n\n\xff,1,north,2020-01-15,,\n')
    done = synth("run", config, "--out", "release", "--no-owner-report")
    assert done.returncode == 0, done.stderr
    assert "CANARY" not in done.stdout + done.stderr
    (tmp_path / "people.csv").write_bytes(b"name,age,town,joined,left,note\nCANARY,1\n")
    done = synth("run", config, "--out", "again", "--no-owner-report")
    assert "No line of the file can be read as a row of 6 cells." in done.stderr
    assert "CANARY" not in done.stdout + done.stderr


@pytest.mark.usefixtures("without_trial")
def test_a_cell_is_said_to_be_one_and_what_it_is_worth_for_a_row(synth: Synth, config: Path) -> None:
    text = CONFIG.replace("{name: independent}", "{name: kahm, options: {mode: cell}}\nprotection: cell\nlabel: town")
    config.write_text(text)
    done = synth("run", config, "--out", "release", "--no-owner-report")
    assert done.returncode == 0, done.stderr
    of_row = json.loads(Path("release/certificate.json").read_text())["row_epsilon"]
    assert 4 < of_row <= 6.001
    assert f"epsilon 2 for one cell, {of_row:.6g} for a row with the same label, delta 1e-05" in done.stdout
    assert "epsilon 2 for one cell at delta 1e-05 spent in total." in done.stdout
    assert f"epsilon 2 for one cell, {of_row:.6g} for a row with the same label  delta 1e-05" in synth("ledger").stdout
    told = synth("account", json.loads(Path("release/certificate.json").read_text())["account"]).stdout
    assert f"epsilon 2 for one cell, {of_row:.6g} for a row with the same label, at delta 1e-05." in told
    # What hides whole rows never enters the account, and the paper's own procedure enters none.
    for changed, words in (
        (CONFIG, "protects one cell"),
        (text.replace("cell}}", "paper}}"), "not differentially private"),
    ):
        config.write_text(changed)
        refused = synth("run", config, "--out", "another")
        assert refused.returncode == 2
        assert words in refused.stderr
    assert spent(synth) == "2"


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="no folder in which nobody can write")
def test_where_nothing_can_be_written_nothing_is_charged(synth: Synth, config: Path, tmp_path: Path) -> None:
    (tmp_path / "open.yaml").write_text(
        CONFIG.replace("type: number, low: 0, high: 100, step: 1, fallback: 40", "type: find")
    )
    preview = ("preview", config, "--columns", "age", "--epsilon", "0.1", "--delta", "1e-7")
    for asked in (
        ("run", config, "--out", "/proc/self/release"),
        ("find", "open.yaml", "--epsilon", "0.1", "--out", "/proc/self/found.yaml"),
        (*preview, "--out", "/proc/self/counts.csv"),
        ("replay", "bundle.zip", "--out", "/proc/self/again"),
    ):
        refused = synth(*asked)
        assert refused.returncode == 2, (asked, refused.stderr)
        assert "Nothing can be written to the folder" in refused.stderr, asked
    assert spent(synth) == "0"


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        (("compare", "nowhere"), "There is no folder 'nowhere'. Check the path."),
        (("report", "nowhere"), "There is no folder 'nowhere'. Check the path."),
        (("report", "."), "is not a folder that synth run wrote"),
        (("account", "a" * 130), "The account has a name of 130 characters; at most 120 are allowed."),
    ],
)
def test_a_slip_at_the_keyboard_is_one_sentence(synth: Synth, config: Path, typed: tuple[str, ...], said: str) -> None:
    refused = synth(*typed)
    assert (refused.returncode, said in refused.stderr) == (2, True), refused.stderr
    assert spent(synth) == "0"


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        (("run", "town.yaml", "--rows", "0"), "argument --rows: must be at least 1"),
        (("app", "--port", "99999"), "a port is a number up to 65535"),
    ],
)
def test_a_number_out_of_range_is_refused_as_an_option(
    synth: Synth, config: Path, typed: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        synth(*typed)
    assert said in capsys.readouterr().err
    assert spent(synth) == "0"


def test_a_file_as_the_home_is_said(synth: Synth, config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for home in (config, config / "home"):
        monkeypatch.setenv("HERMITAGE_HOME", str(home))
        refused = synth("account", "town")
        assert (refused.returncode, refused.stderr) == (
            2,
            f"synth: HERMITAGE_HOME: '{home.name}' is not a folder. Name a folder.\n",
        )


@pytest.mark.thorough
@pytest.mark.usefixtures("without_trial")
def test_totals_say_at_which_delta_and_a_large_one_is_warned_of(synth: Synth, config: Path) -> None:
    small = synth("run", config, "--out", "small", "--no-owner-report")
    assert "epsilon 2 at delta 1e-05 spent in total." in small.stdout
    assert "with so large a delta" not in small.stdout + small.stderr
    large = synth("run", config, "--out", "large", "--no-owner-report", "--delta", "0.01", "--epsilon", "1")
    assert "Delta 0.01 is not below 1 / 200: with so large a delta" in large.stdout + large.stderr
    assert " at delta 0.01 spent in total." in large.stdout


@pytest.mark.usefixtures("without_trial")
def test_who_does_not_wait_for_the_owners_report_keeps_the_release(
    synth: Synth, config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(runs, "build_owner_report", stop)
    done = synth("run", config, "--out", "release")
    assert done.returncode == 0, done.stderr
    assert "There is no owner's report: it was stopped, or failed. The release is complete." in done.stdout
    assert synth("verify", "release").returncode == 0
    assert not (tmp_path / "release" / "owner" / "report.json").exists()


@pytest.mark.parametrize(
    ("place", "fate"),
    few(
        [("fit_and_sample", "stays spent"), ("_open", "stays spent"), ("_spend", "was freed")],
        kept=[("fit_and_sample", "stays spent")],
    ),
)
@pytest.mark.usefixtures("without_trial")
def test_who_presses_ctrl_c_is_told_whether_the_budget_was_spent(
    synth: Synth, config: Path, monkeypatch: pytest.MonkeyPatch, place: str, fate: str
) -> None:
    def stop(*arguments: object, **named: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(runs, place, stop)
    done = synth("run", config, "--out", "release")
    assert (done.returncode, "synth: The run was cancelled. Its budget had" in done.stderr) == (5, True)
    assert fate in done.stderr.splitlines()[-1]
    assert spent(synth) == ("2" if fate == "stays spent" else "0")


@pytest.mark.usefixtures("without_trial")
def test_a_folder_that_is_not_empty_is_left_alone(synth: Synth, config: Path, tmp_path: Path) -> None:
    (tmp_path / "release").mkdir()
    (tmp_path / "release" / "thesis.txt").write_text("years of work")
    refused = synth("run", config, "--out", "release")
    assert refused.returncode == 2
    assert "not empty" in refused.stderr
    assert synth("run", config, "--out", "release", "--force", "--no-owner-report").returncode == 0
    assert (tmp_path / "release" / "thesis.txt").read_text() == "years of work"


@pytest.mark.thorough
def test_a_kept_table_can_be_reported_on_again_and_a_deleted_one_cannot(
    synth: Synth, config: Path, tmp_path: Path
) -> None:
    assert synth("run", config, "--out", "kept", "--keep-table", "--no-owner-report").returncode == 0
    assert not (tmp_path / "kept" / "owner" / "report.json").exists()
    assert synth("report", "kept").returncode == 0
    assert (tmp_path / "kept" / "owner" / "report.json").exists()
    assert synth("report", "kept", "--classifiers", "all", "--hard-labels").returncode == 0
    assert synth("run", config, "--out", "gone", "--no-owner-report").returncode == 0
    again = json.loads((tmp_path / "gone" / "certificate.json").read_text())
    assert not any("chosen after looking" in note for note in again["assumptions"]), "the same configuration again"
    assert synth("run", config, "--out", "other", "--rows", "77", "--no-owner-report").returncode == 0
    refused = synth("report", "gone")
    assert refused.returncode != 0
    assert "--keep-table" in refused.stderr
    later = json.loads((tmp_path / "other" / "certificate.json").read_text())
    assert any("chosen after looking at private rows" in note for note in later["assumptions"])


@pytest.mark.thorough
def test_the_same_table_under_another_account_is_noted(synth: Synth, config: Path, tmp_path: Path) -> None:
    assert synth("run", config, "--out", "first", "--no-owner-report").returncode == 0
    second = synth("run", config, "--out", "second", "--account", "village", "--no-owner-report")
    assert second.returncode == 0
    assert "town" in second.stderr
    # The owner is told; the certificate is not, as the sentence depends on every row of both tables.
    noted = json.loads((tmp_path / "second" / "certificate.json").read_text())
    assert not any("another account" in note for note in noted["assumptions"])


def test_the_forecast_reads_no_rows_and_opens_no_account(synth: Synth, config: Path, tmp_path: Path) -> None:
    (tmp_path / "people.csv").unlink()
    shown = synth("forecast", config)
    assert shown.returncode == 0, shown.stderr
    assert "town" in shown.stdout
    assert synth("ledger").stdout.startswith("Nothing spent yet")


@pytest.mark.usefixtures("without_trial")
def test_several_files_are_one_table(synth: Synth, config: Path, tmp_path: Path) -> None:
    lines = (tmp_path / "people.csv").read_text().splitlines(keepends=True)
    (tmp_path / "part-1.csv").write_text("".join(lines[:101]))
    (tmp_path / "part-2.csv.gz").write_bytes(gzip.compress("".join([lines[0], *lines[101:]]).encode()))
    done = synth("run", config, "--table", "part-*", "--out", "release", "--no-owner-report")
    assert done.returncode == 0, done.stderr
    (tmp_path / "part-3.csv").write_text("other,header\n")
    refused = synth("run", config, "--table", "part-*", "--out", "other")
    assert refused.returncode == 2
    assert "different headers" in refused.stderr


def test_a_schema_is_drafted_without_values(synth: Synth, config: Path, tmp_path: Path) -> None:
    drafted = synth("schema", tmp_path / "people.csv")
    assert drafted.returncode == 0, drafted.stderr
    assert "  age: {type: number, low: , high: , step: 1}" in drafted.stdout
    blanks = [line.partition("#")[0].rstrip() for line in drafted.stdout.splitlines()]
    # Facts that only the owner knows stay blank, so that a draft cannot run before they are filled in.
    for blank in ("account:", "  protects:", "  rows_per_unit:", "row_count:", "people_at_most:", "rows:"):
        assert blank in blanks
    assert "  town: {type: }" in drafted.stdout, "nothing is guessed from cells"
    assert "CANARY" not in drafted.stdout
    assert "secret" not in drafted.stdout
    assert not (tmp_path / "home").exists(), "nothing was looked at, and no account was opened"


def test_a_look_at_the_rows_is_recorded_with_the_account(synth: Synth, config: Path, tmp_path: Path) -> None:
    refused = synth("schema", tmp_path / "people.csv", "--look")
    assert refused.returncode == 2
    assert "--account" in refused.stderr
    looked = synth("schema", tmp_path / "people.csv", "--look", "--account", "town")
    assert looked.returncode == 0, looked.stderr
    assert "  town: {type: category, values: [CANARY-town, north], " in looked.stdout, "values that many rows hold"
    assert "CANARY" not in looked.stderr
    with Application.from_environment() as application:
        (view,) = application.store.events.of_kind(EventKind.OWNER_VIEW)
        assert view.account_id == application.store.accounts.open("town").id
    (tmp_path / "bare.csv").write_text("CANARY,1\nb,2\n")
    bare = synth("schema", tmp_path / "bare.csv")
    assert bare.returncode == 2
    assert "looks like a row" in bare.stderr
    assert "CANARY" not in bare.stdout + bare.stderr


def test_the_demonstration_runs_as_it_says(synth: Synth, tmp_path: Path) -> None:
    written = synth("demo", "demo", "--small")
    assert written.returncode == 0
    assert "simulated" in written.stdout
    done = synth(
        "run", "demo/small-clinic.yaml", "--generator", "independent", "--rows", "500", "--out", "release",
        "--no-owner-report",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "independent" in synth("generators").stdout


@pytest.mark.usefixtures("without_trial")
def test_without_a_configuration_a_run_asks_what_it_needs(
    synth: Synth, config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = synth("run", "--out", "release")
    assert refused.returncode == 2
    assert "Name a configuration: synth run CONFIG.yaml" in refused.stderr
    config.unlink()
    name, note = ["identifier"], ["drop"]
    of_people = ["", "town", "", "none", "1", "perhaps", "n", "some", "1000", "-2", "2", "0", "50"]
    age = ["nummer", "number", "n", "0", "a hundred", "100", "none", "1", "", "", "200", "40"]
    town = ["", "y", "north, south", "y"]
    dates = ["date", "y", "2020-01-01", "2020-12-31", "month"]
    typed = [*of_people, *name, *age, "category", *town[1:], *dates, *dates, *note]
    asked = ["run", "--table", "people.csv", "--out", "release", "--generator", "independent", "--no-owner-report"]
    monkeypatch.setattr(sys, "stdin", Typed("\n".join(typed[:-4]) + "\n"))
    stopped = synth(*asked)
    assert (stopped.returncode, "Not every question was answered" in stopped.stderr) == (2, True)
    assert not (tmp_path / "people.yaml").exists()
    monkeypatch.setattr(sys, "stdin", Typed("\n".join(typed) + "\n"))
    done = synth(*asked)
    assert done.returncode == 0, done.stderr
    # Each is refused where it is typed, and asked again.
    for refusal in (
        "account must", "rows_per_unit must be a number", "Answer y or n.", "people_at_most must be a number",
        "epsilon must be positive", "rows must be between 1", "'age': type must be", "'age': high must be a number",
        "'age': step must be a number", "unreadable cell of 'age'", "'age': fallback must lie between low and high",
    ):  # fmt: skip
        assert done.stderr.count(refusal) == 1, refusal
    assert "CANARY" not in done.stderr
    written = (tmp_path / "people.yaml").read_text()
    assert "row_count: private" in written
    certificate = json.loads((tmp_path / "release" / "certificate.json").read_text())
    assert (certificate["rows"], certificate["account"]) == (50, "town")
    again = synth(*asked)
    assert "The file 'people.yaml' already exists. Run it with synth run" in again.stderr


OPEN = """
table: votes.csv
account: town
unit: {protects: person, rows_per_unit: 1}
row_count: private
people_at_most: 1000
budget: {epsilon: 8}
generator: {name: independent}
rows: 50
columns:
  age: {type: find}
  side: {type: find}
"""


def votes(folder: Path) -> None:
    lines = [f"{20 + i % 50},{'CANARY' if i == 3 else ('left', 'right')[i % 2]}" for i in range(600)]
    (folder / "votes.csv").write_text("age,side\n" + "\n".join(lines) + "\n")


def test_what_is_open_is_found_and_the_completed_configuration_runs(synth: Synth, tmp_path: Path) -> None:
    votes(tmp_path)
    (tmp_path / "open.yaml").write_text(OPEN)
    refused = synth("run", "open.yaml", "--out", "release")
    assert (refused.returncode, "find" in refused.stderr) == (2, True)
    found = synth("find", "open.yaml", "--epsilon", "4")
    assert found.returncode == 0, found.stderr
    assert "costs epsilon 4 at delta 1e-07, from the budget of 8; 4 remains for rows" in found.stderr
    assert "side: 2 values" in found.stderr
    assert "synth run open-found.yaml" in found.stdout
    written = (tmp_path / "open-found.yaml").read_text()
    assert "epsilon: 4.0" in written
    assert "rows: 50\n" in written
    done = synth("run", "open-found.yaml", "--out", "release", "--no-owner-report")
    assert done.returncode == 0, done.stderr
    verified = synth("verify", "release")
    assert verified.returncode == 0, verified.stdout
    assert "Within that epsilon: 4 at delta = 1e-07" in verified.stdout
    for again, words in (
        (["open-found.yaml"], "by a finding already"),
        (["open.yaml"], "'open-found.yaml' already exists"),
    ):
        said = synth("find", *again)
        assert (said.returncode, words in said.stderr) == (2, True), said.stderr
    everything = written + found.stdout + found.stderr + done.stdout + done.stderr + verified.stdout
    assert "CANARY" not in everything


@pytest.mark.usefixtures("without_trial")
def test_what_is_found_beside_columns_declared_at_once_runs(synth: Synth, tmp_path: Path) -> None:
    """Columns declared at once are one object, which YAML by default writes once, with an alias that it refuses."""
    lines = [f"{i % 3},{i % 2},{('left', 'right')[i % 2]}" for i in range(600)]
    (tmp_path / "votes.csv").write_text("q1,q2,side\n" + "\n".join(lines) + "\n")
    at_once = 'columns_like:\n  - {like: "q*", type: category, values: ["0", "1", "2"], missing: true}\ncolumns:\n'
    (tmp_path / "open.yaml").write_text(OPEN.replace("columns:\n  age: {type: find}\n", at_once))
    found = synth("find", "open.yaml", "--epsilon", "4")
    assert found.returncode == 0, found.stderr
    done = synth("run", "open-found.yaml", "--out", "release", "--no-owner-report")
    assert done.returncode == 0, done.stderr


@pytest.mark.usefixtures("without_trial")
def test_find_and_run_in_one_go(synth: Synth, tmp_path: Path) -> None:
    votes(tmp_path)
    (tmp_path / "open.yaml").write_text(OPEN)
    asked = ("run", "open.yaml", "--epsilon", "9", "--find", "4", "--no-owner-report", "--out", "release")
    (tmp_path / "release").write_text("in the way")
    assert synth(*asked).stderr == "synth: 'release' is a file. Name a folder after --out.\n"
    (tmp_path / "release").unlink()
    wrong = synth(*asked, "--generator", "magic")
    assert "There is no generator called 'magic'" in wrong.stderr
    assert not (tmp_path / "open-found.yaml").exists(), "nothing is found before the rest was checked"
    done = synth(*asked)
    assert done.returncode == 0, done.stderr
    assert "4 at delta 1e-07, from the budget of 9; 5 remains for rows" in done.stderr
    certificate = json.loads((tmp_path / "release" / "certificate.json").read_text())
    assert certificate["found"]["epsilon"] == 4.0
    assert 5 <= certificate["epsilon"] < 9
    again = synth(*asked[:-1], "again")
    assert "'open-found.yaml' already exists. It was found before: run that file" in again.stderr


@pytest.mark.usefixtures("without_trial")
def test_a_finding_that_found_nothing_is_kept_and_gone_on_with(synth: Synth, tmp_path: Path) -> None:
    """Declared are far more people than there are, so nobody can say beforehand that nothing will be found."""
    votes(tmp_path)
    lines = (tmp_path / "votes.csv").read_text().splitlines()
    (tmp_path / "votes.csv").write_text("\n".join(lines[:31]) + "\n")
    (tmp_path / "open.yaml").write_text(OPEN.replace("people_at_most: 1000", "people_at_most: 100000"))
    asked = ("--no-owner-report", "--out", "release")
    stopped = synth("run", "open.yaml", "--find", "0.5", *asked)
    assert stopped.returncode == 2
    assert "Nothing was found in any open column: at this epsilon, the table has too few rows" in stopped.stderr
    assert "The finding is paid for and is not charged again: correct" in stopped.stderr
    assert "No column is left to model" not in stopped.stderr
    path = tmp_path / "open-found.yaml"
    document = yaml.safe_load(path.read_text())
    assert {name: body["type"] for name, body in document["columns"].items()} == {"age": "drop", "side": "drop"}
    document["columns"]["side"] = {"type": "category", "values": ["left", "right"], "other": True}
    path.write_text(yaml.safe_dump(document, sort_keys=False))
    done = synth("run", "open-found.yaml", *asked)
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "release" / "certificate.json").read_text())["found"]["epsilon"] == 0.5
    assert synth("verify", "release").returncode == 0


@pytest.mark.usefixtures("without_trial")
def test_whoever_is_asked_may_have_a_column_found(
    synth: Synth, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    votes(tmp_path)
    typed = ["town", "person", "1", "n", "1000", "8", "50", "find", "find"]
    asked = ["run", "--table", "votes.csv", "--out", "release", "--generator", "independent", "--no-owner-report"]
    monkeypatch.setattr(sys, "stdin", Typed("\n".join([*typed, "n"]) + "\n"))
    stopped = synth(*asked)
    assert (stopped.returncode, "Nothing was spent" in stopped.stderr) == (2, True), stopped.stderr
    (tmp_path / "votes.yaml").unlink()
    monkeypatch.setattr(sys, "stdin", Typed("\n".join([*typed, "y"]) + "\n"))
    done = synth(*asked)
    assert done.returncode == 0, done.stderr
    assert "costs epsilon 0.8" in done.stderr
    assert json.loads((tmp_path / "release" / "certificate.json").read_text())["found"]["epsilon"] == 0.8


def test_the_program_starts_in_a_process_of_its_own(tmp_path: Path) -> None:
    environment = {**os.environ, "HERMITAGE_HOME": str(tmp_path / "home")}
    environment.pop("DATABASE_URL", None)
    command = [sys.executable, "-m", "synth", "account", "town", "--open", "--epsilon-cap", "-1", "--delta-cap", "1e-6"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 2
    assert done.stderr == "synth: The epsilon cap must be positive and finite, got -1.\n"
    assert done.stdout == ""


# A database in place of a file ----------------------------------------------------------------------------------------


@pytest.fixture
def clinic(config: Path, tmp_path: Path) -> str:
    """The same people in a database; a configuration that names it, and none of its rows."""
    rows = [line.split(",") for line in (tmp_path / "people.csv").read_text().splitlines()]
    with closing(sqlite3.connect(tmp_path / "clinic.sqlite")) as connection, connection:
        connection.execute("CREATE TABLE people (name TEXT, age INTEGER, town TEXT, joined DATE, left TEXT, note TEXT)")
        connection.executemany("INSERT INTO people VALUES (?, ?, ?, ?, ?, ?)", rows[1:])
    (tmp_path / "people.csv").unlink()
    url = f"sqlite:///{tmp_path / 'clinic.sqlite'}"
    config.write_text(CONFIG.replace("table: people.csv", f"source: {{url: '{url}', table: people}}"))
    return url


@pytest.mark.thorough
def test_a_table_of_a_database_is_drafted_run_and_verified(
    synth: Synth, config: Path, clinic: str, tmp_path: Path
) -> None:
    drafted = synth("schema", "people", "--from", clinic, "--where", "age < 50")
    assert drafted.returncode == 0, drafted.stderr
    assert f"source:\n  url: {clinic}\n  table: people\n  where: age < 50\naccount:" in drafted.stdout
    assert "  age: {type: number" in drafted.stdout
    made = synth("run", config, "--out", tmp_path / "out", "--where", "age < 95", "--no-owner-report")
    assert made.returncode == 0, made.stderr
    verified = synth("verify", tmp_path / "out" / "bundle.zip")
    assert verified.returncode == 0, verified.stdout
    assert "Assumed: The rows are those of a database's table for which a declared condition" in verified.stdout
    with zipfile.ZipFile(tmp_path / "out" / "bundle.zip") as bundle:
        held = bundle.read("config.yaml").decode()
    assert "origin: selection" in held
    assert "clinic" not in held
    assert "age < 95" not in held
    assert not list((tmp_path / "home" / "incoming").iterdir())


@pytest.mark.usefixtures("without_trial")
def test_a_query_says_in_every_bundle_what_is_assumed(synth: Synth, config: Path, clinic: str, tmp_path: Path) -> None:
    made = synth("run", config, "--out", tmp_path / "out", "--sql", "SELECT * FROM people", "--no-owner-report")
    assert made.returncode == 0, made.stderr
    sentence = "each row of the query's result depends on one unit"
    assert sentence in synth("verify", tmp_path / "out" / "bundle.zip").stdout
    assert sentence in (tmp_path / "out" / "certificate.json").read_text()


def test_of_a_database_nothing_secret_is_said(
    synth: Synth, config: Path, clinic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*arguments: str) -> str:
        ended = synth("run", config, "--out", tmp_path / "out", *arguments)
        assert ended.returncode == 2
        assert "CANARY" not in ended.stdout + ended.stderr
        assert ended.stderr.count("\n") == 1
        return ended.stderr

    assert "a password does not belong in the address" in refused(
        "--from", "postgresql://me:CANARY@host/x", "--table", "a"
    )
    assert "variable 'NOWHERE' is not set" in refused("--password-env", "NOWHERE")
    monkeypatch.setenv("SECRET", "CANARY")
    assert "cannot be reached" in refused(
        "--from", "postgresql://me@127.0.0.1:1/x", "--table", "a", "--password-env", "SECRET"
    )
    assert "no column 'nobody'" in refused("--only-columns", "name", "nobody")
    assert "at character 7" in refused("--where", "age > (SELECT 1)")
    assert "either" in refused("--from", clinic)
    assert "no table 'people.csv'" in refused("--table", "people.csv")
    config.write_text(config.read_text().replace("sqlite:///", "postgresql://me:CANARY@host/"))
    assert "a password does not belong in the address" in refused()
    assert not (tmp_path / "out").exists()
    assert spent(synth) == "0"


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ({"unknown": 1200, "of": 4005}, ["Treat 1,200 of 4,005 pairs of columns as unknown"]),
        ({"unknown": 0, "of": 91}, []),
        ({}, []),
    ],
    ids=["some", "none", "an older report"],
)
def test_pairs_to_treat_as_unknown_are_named_where_there_are_any(
    tmp_path: Path, told: dict[str, int], said: list[str]
) -> None:
    evidence = [{"id": f"relations.{name}", "value": value} for name, value in told.items()]
    (tmp_path / "report.json").write_text(json.dumps({"evidence": evidence}), encoding="utf-8")
    assert [line.partition(": they were")[0] for line in _kept(tmp_path)] == said
