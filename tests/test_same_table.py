"""The same table under two accounts: the owner is told the same sentence, from Python, the command line and a page.

A certificate never says it: whether two tables are equal is a function of every row of both, which no noise hides.
"""

from __future__ import annotations

import io
import linecache
import warnings
import zipfile
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import synth
from synth.application import Application
from synth.cli import main
from synth.ledger.notes import SEEN_ELSEWHERE
from synth.schema import load_schema
from synth.store import now

CONFIG = """
table: people.csv
account: {account}
unit: {{protects: person, rows_per_unit: 1}}
row_count: private
people_at_most: 1000
budget: {{epsilon: 20.0, delta: 1.0e-5}}
holdout: 0
generator: {{name: independent}}
rows: 20
columns:
  age: {age}
  town: {{type: category, values: [north, south], other: true}}
"""
NUMBER, FIND = "{type: number, low: 0, high: 100, step: 1, missing: true}", "{type: find}"
LINES = [f"{30 + place % 3},{('north', 'south')[place % 2]}" for place in range(400)]
TOLD = "The same table was taken in under the account"


def csv(lines: list[str], header: str = "age,town", end: str = "\n") -> bytes:
    return end.join([header, *lines, ""]).encode()


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HERMITAGE_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("DATABASE_URL", raising=False)
    monkeypatch.chdir(tmp_path)
    Path("people.csv").write_bytes(csv(LINES))
    return tmp_path


@pytest.fixture
def application() -> Iterator[Application]:
    with Application.from_environment() as opened:
        yield opened


def config(account: str, age: str = NUMBER) -> Path:
    path = Path(f"{account}.yaml")
    path.write_text(CONFIG.format(account=account, age=age))
    return path


def ran(account: str, out: str, **more: Any) -> synth.RunResult:
    return synth.run(synth.load_config(config(account)), out, **more)


def frame() -> pd.DataFrame:
    cells = [line.split(",") for line in LINES]
    return pd.DataFrame({"age": [int(age) for age, _ in cells], "town": [town for _, town in cells]})


def release(account: str, age: str = NUMBER) -> synth.Release:
    how: dict[str, Any] = {"epsilon": 20.0, "people_at_most": 1000, "generator": "independent", "rows": 20}
    return synth.Release(frame(), load_schema(config("schema", age)), account=account, holdout=0, **how)


def told(action: Callable[[], object]) -> list[warnings.WarningMessage]:
    """Return every warning about a same table, also those that Python's filters would show once."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        action()
    return [one for one in caught if issubclass(one.category, synth.SameTableWarning)]


# From Python ----------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("without_trial")
def test_a_second_account_is_warned_about_the_first_at_the_line_of_the_caller_and_the_first_about_the_second() -> None:
    assert told(lambda: ran("town", "a")) == []
    (about_first,) = told(lambda: ran("village", "b"))
    (about_second,) = told(lambda: ran("town", "c"))
    assert str(about_first.message).startswith(f"{TOLD} town. If it is about the same people, use that account")
    assert str(about_second.message).startswith(f"{TOLD} village.")
    for one in (about_first, about_second):
        assert one.filename == __file__
        assert "synth.run(" in linecache.getline(one.filename, one.lineno)
    (about_both,) = told(lambda: ran("hamlet", "d"))
    assert "under the accounts town, village." in str(about_both.message)
    # The account's own page and command say it of the totals, from then on; no bundle does.
    with Application.from_environment() as application:
        assert all(SEEN_ELSEWHERE in application.account(name).notes for name in ("town", "village", "hamlet"))
    for folder in "abcd":
        with zipfile.ZipFile(f"{folder}/bundle.zip") as bundle:
            every = b"".join(bundle.read(name) for name in bundle.namelist())
        assert b"another account" not in every
        assert b"taken in under" not in every


@pytest.mark.thorough
def test_a_dataframe_and_the_file_of_it_are_one_table_in_either_order() -> None:
    release("clinic").fit()
    (one,) = told(lambda: release("ward").fit("made"))
    assert (one.filename, TOLD in str(one.message)) == (__file__, True)
    frame().to_csv("people.csv", index=False)
    assert len(told(lambda: ran("town", "a"))) == 1
    frame().astype({"age": float}).to_csv("people.csv", index=False)
    assert told(lambda: ran("village", "b")) == [], "a file that writes 1 as 1.0 is another table"


@pytest.mark.thorough
def test_a_finding_and_its_run_warn_once_and_their_own_account_not_at_all() -> None:
    synth.find(config("town", FIND), "found.yaml", epsilon=1.0)
    assert told(lambda: synth.run(synth.load_config("found.yaml"), "a")) == []
    (of_find,) = told(lambda: synth.find(config("village", FIND), "other.yaml", epsilon=1.0))
    assert "synth.find(" in linecache.getline(of_find.filename, of_find.lineno)
    assert len(told(release("clinic", FIND).fit)) == 1


@pytest.mark.usefixtures("without_trial")
def test_a_warning_that_is_made_an_error_stops_before_anything_is_charged(application: Application) -> None:
    ran("town", "a")
    with warnings.catch_warnings():
        warnings.simplefilter("error", synth.SameTableWarning)
        with pytest.raises(synth.SameTableWarning, match=TOLD):
            ran("village", "b")
        with pytest.raises(synth.SameTableWarning, match=TOLD):
            release("clinic").fit()
    assert {row.account for row in application.ledger_rows()} == {"town"}
    assert application.intake.tables() == []


OTHERS = {
    "another order": csv(LINES[::-1]),
    "one row fewer": csv(LINES[:-1]),
    "quotation marks": csv([f'{line.split(",")[0]},"{line.split(",")[1]}"' for line in LINES]),
}


@pytest.mark.parametrize("data", OTHERS.values(), ids=OTHERS)
def test_other_bytes_are_another_table(application: Application, data: bytes) -> None:
    application.intake.receive(io.BytesIO(csv(LINES)), account="town", name="people.csv")
    assert application.intake.receive(io.BytesIO(data), account="village", name="people.csv").same_table is None


# The page's service ---------------------------------------------------------------------------------------------------


def test_a_page_is_told_of_both_tables_and_after_the_other_is_gone(application: Application) -> None:
    def received(account: str, data: bytes = csv(LINES), **more: Any) -> Any:
        return application.intake.receive(io.BytesIO(data), account=account, name="people.csv", **more)

    first = received("town")
    assert first.same_table is None
    second = received("village", csv(LINES, end="\r\n"))
    assert str(second.same_table).startswith(f"{TOLD} town.")
    assert second.warning is None
    # The first one, too, when its page is opened again; the same account is no other account.
    assert str(application.intake.table(first.table_id).same_table).startswith(f"{TOLD} village.")
    assert str(received("town").same_table).startswith(f"{TOLD} village.")
    application.intake.delete_table(first.table_id)
    assert str(application.intake.table(second.table_id).same_table).startswith(f"{TOLD} town.")
    application.vault.expire(at=now() + timedelta(days=3650))
    assert application.intake.tables() == []
    assert "accounts town, village." in str(received("hamlet").same_table)


def test_test_rows_are_nobodys_release(application: Application) -> None:
    application.intake.receive(io.BytesIO(csv(LINES)), account="town", name="people.csv", kind="test")
    second = application.intake.receive(io.BytesIO(csv(LINES)), account="village", name="people.csv")
    assert second.same_table is None
    third = application.intake.receive(io.BytesIO(csv(LINES)), account="hamlet", name="people.csv", kind="test")
    assert third.same_table is None
    assert [application.account(name).notes for name in ("town", "village", "hamlet")] == [(), (), ()]


# The command line -----------------------------------------------------------------------------------------------------


@pytest.mark.thorough
@pytest.mark.usefixtures("without_trial")
def test_the_command_line_says_it_once_and_as_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    def said(*arguments: object) -> str:
        assert main([str(one) for one in arguments]) == 0
        return capsys.readouterr().err

    assert TOLD not in said("run", config("town"), "--out", "a", "--no-owner-report")
    commands = {
        "run": ("run", config("village"), "--out", "b", "--no-owner-report"),
        "find": ("find", config("hamlet", FIND), "--epsilon", "1", "--out", "found.yaml"),
        "find and run": ("run", config("clinic", FIND), "--find", "1", "--out", "c", "--no-owner-report"),
    }
    for name, command in commands.items():
        with warnings.catch_warnings():
            warnings.simplefilter("error", synth.SameTableWarning)
            line = said(*command)
        assert line.count(TOLD) == 1, name
        assert "SameTableWarning" not in line


def test_an_account_is_not_opened_by_a_name_that_was_mistyped(
    capsys: pytest.CaptureFixture[str], application: Application
) -> None:
    def code(*arguments: str) -> tuple[int, str]:
        return main(["account", *arguments]), capsys.readouterr().err

    assert code("city-survey", "--open") == (0, "")
    asked = "To open one with this name, add --open.\n"
    refused = f"synth: There is no account 'city-surveys'. Did you mean 'city-survey'? {asked}"
    assert code("city-surveys") == (2, refused)
    assert code("city-surveys", "--epsilon-cap", "1", "--delta-cap", "1e-6") == (2, refused)
    assert code("zzz")[1] == f"synth: There is no account 'zzz'. {asked}"
    assert [one.name for one in application.store.accounts.all()] == ["city-survey"]
    assert code("towns", "--open", "--epsilon-cap", "1", "--delta-cap", "1e-6") == (0, "")
    assert application.account("towns").epsilon_cap == 1.0
    assert code("--heads", "--open")[0] == 2
