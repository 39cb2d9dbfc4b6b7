"""Previews from the command line and from Python: what is said first, the counts, the charge, and refusals."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

import synth
from synth.application import Application
from synth.cli import main

CONFIG = """
table: people.csv
account: town
unit: {protects: person, rows_per_unit: 1}
row_count: private
people_at_most: 2000
budget: {epsilon: 2.0, delta: 1.0e-5}
generator: {name: independent}
rows: 100
columns:
  age: {type: number, low: 0, high: 99, step: 1, missing: true}
  town: {type: category, values: [north, south], labels: {north: Uplands}, other: true}
  left: {type: find}
"""


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HERMITAGE_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("DATABASE_URL", raising=False)
    monkeypatch.chdir(tmp_path)
    rows = [f"{number % 100},{('north', 'south')[number % 2]},{number}" for number in range(900)]
    (tmp_path / "people.csv").write_text("\n".join(["age,town,left", *rows, ""]))
    path = tmp_path / "town.yaml"
    path.write_text(CONFIG)
    return path


def charged() -> list[float]:
    with Application.from_environment() as application:
        account = application.store.accounts.named("town")
        return [] if account is None else [one.epsilon for one in application.ledger.current(account.id)]


def test_the_command_says_the_error_first_and_both_faces_give_the_same_counts(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = config.with_name("preview.csv")
    assert main(["preview", str(config), "--columns", "town, age", "--epsilon", "0.2", "--out", str(out)]) == 0
    told = capsys.readouterr().err
    assert told.startswith("Previewing 2 columns costs epsilon 0.2 at delta 5e-07, in addition to the budget")
    assert "age: counts within ±" in told
    assert "if 51 bins shared 2,000 rows equally." in told
    assert "It may be published: the charge covers it." in told
    read = pd.read_csv(out)
    assert list(read["part"].unique()) == ["previewed"]
    assert list(read[read["column_1"] == "town"]["value_1"]) == ["Uplands", "south", "other"]
    assert len(read) == 51 + 3
    again = synth.preview(synth.load_config(config), ["age", "town"], epsilon=0.2)
    pd.testing.assert_frame_equal(again, read, check_dtype=False)
    assert main(["preview", str(config), "--columns", "town,age", "--epsilon", "0.2"]) == 0
    shown = capsys.readouterr()
    assert "the same counts are shown again, at no cost, of the table as it was then." in shown.err
    assert shown.out.count("\n") == 1 + 51 + 3
    assert charged() == [0.2]
    assert main(["preview", str(config), "--columns", "town,age", "--epsilon", "0.2", "--anew"]) == 0
    assert charged() == [0.2, 0.2]
    assert not [path for path in (config.parent / "home" / "vault").rglob("*.table")], "the table is not kept"


def test_what_is_refused_is_refused_in_a_sentence_and_costs_nothing(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    existing = config.with_name("there.csv")
    existing.write_text("")
    for more, words in (
        (["--columns", "left"], "'left' has no declared values to count."),
        (["--columns", "height"], "There is no column 'height'."),
        (["--columns", "age", "--epsilon", "3"], "Choose an epsilon between 0 and 2"),
        (["--columns", "age", "--epsilon", "0.002"], "the preview would show nothing of 'age'"),
        (["--columns", "age", "--out", str(existing)], "'there.csv' already exists."),
    ):
        assert main(["preview", str(config), *more]) == 2
        assert words in capsys.readouterr().err
    assert charged() == []
