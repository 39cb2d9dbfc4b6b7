"""Taking tables in: what is refused opens no account, names come from the header line, a look at rows is recorded."""

from __future__ import annotations

import io
import random
from pathlib import Path

import pytest

from synth.application import Application
from synth.cli import main
from synth.cli.files import draft_configuration
from synth.errors import ConfigError, TableError
from synth.schema import TableFormat
from synth.services.inspection import NO_HEADER
from synth.services.table_paths import open_table
from synth.store import EventKind

CANARY = "Zanzibar-7391846"


@pytest.fixture
def application(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Application:
    monkeypatch.setenv("HERMITAGE_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("DATABASE_URL", raising=False)
    return Application.from_environment()


def table(rows: int = 60, *, last: str = "4,no,2020-01-01,x,70.5") -> bytes:
    draw = random.Random(3)
    lines = ["years,smoker_at_home,last_visit,area,free"]
    lines += [
        f"{draw.randrange(90)},{draw.choice(['yes', 'no'])},2021-03-0{draw.randrange(1, 9)},{draw.choice('xyz')},{k}.5"
        for k in range(rows)
    ]
    return "\n".join([*lines, last, ""]).encode()


@pytest.mark.parametrize(
    ("data", "form"),
    [
        (f"39,{CANARY},77516\n50,{CANARY},83311\n".encode(), TableFormat()),
        (f"{CANARY},47\nsomebody,12\n".encode(), TableFormat()),
        (b"a,b\n", TableFormat()),
        (b"", TableFormat()),
        (f"a,{CANARY}\n".encode(), TableFormat(header=False, names=("a", "b"))),
    ],
    ids=["a row as header", "a row of texts and numbers as header", "no rows", "nothing", "no separator"],
)
def test_a_refused_file_opens_no_account_and_shows_no_cell(
    application: Application, data: bytes, form: TableFormat
) -> None:
    with pytest.raises((TableError, ConfigError)) as caught:
        application.intake.receive(io.BytesIO(data), account="survey", name="t.csv", table_format=form)
    assert CANARY not in str(caught.value)
    assert application.accounts() == []
    assert application.intake.tables() == []
    assert list((application.settings.home / "vault").iterdir()) == []


def test_the_first_line_may_be_declared_to_hold_names_after_all(application: Application) -> None:
    data = b"1990,1991\n5,6\n7,8\n"
    with pytest.raises(TableError) as caught:
        application.intake.receive(io.BytesIO(data), account="survey", name="t.csv")
    assert str(caught.value) == NO_HEADER
    form = TableFormat(header=False, names=("1990", "1991"), skip_rows=1, separator=",")
    received = application.intake.receive(io.BytesIO(data), account="survey", name="t.csv", table_format=form)
    assert (received.n_rows, [column.name for column in received.columns]) == (2, ["1990", "1991"])


@pytest.mark.parametrize("read", ["accounts", "tables"])
def test_a_table_that_is_taken_in_while_the_stored_ones_are_listed_stops_no_list(
    application: Application, monkeypatch: pytest.MonkeyPatch, read: str
) -> None:
    store = application.store
    where, name = {"accounts": (store.accounts, "all"), "tables": (store.tables, "stored")}[read]
    listed = getattr(where, name)

    def listed_before_another_came() -> object:
        found = listed()
        monkeypatch.undo()
        application.intake.receive(io.BytesIO(table()), account="new people", name="t.csv")
        return found

    monkeypatch.setattr(where, name, listed_before_another_came)
    assert {one.account for one in application.intake.kept()} <= {"new people"}
    assert [one.account for one in application.intake.kept()] == ["new people"]


def test_one_row_changes_no_drafted_kind(application: Application) -> None:
    odd = "somebody,perhaps,once,free text,80kg"
    received = [
        application.intake.receive(io.BytesIO(table(last=last)), account="survey", name="t.csv").columns
        for last in ("4,no,2020-01-01,x,70.5", odd)
    ]
    assert received[0] == received[1]
    assert [column.kind for column in received[0]] == ["number", "", "", "", ""]


def test_a_look_guesses_kinds_from_cells_and_is_recorded(application: Application) -> None:
    received = application.intake.receive(io.BytesIO(table()), account="survey", name="t.csv")
    account = application.store.accounts.named("survey")
    assert account is not None
    assert not application.store.events.of_account(account.id, EventKind.OWNER_VIEW)
    looked = application.intake.recognise_table(received.table_id)
    assert [column.body["type"] for column in looked.columns] == ["number", "yes_no", "date", "category", "number"]
    events = application.store.events.of_account(account.id, EventKind.OWNER_VIEW)
    assert [event.detail["what"] for event in events] == ["format and columns"]


def test_a_draft_looks_only_where_it_is_asked_to(
    application: Application, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(table())
    drafts = []
    for last in ("4,no,2020-01-01,x,70.5", "somebody,perhaps,once,free text,80kg"):
        path.write_bytes(table(last=last))
        drafts.append(draft_configuration(str(path)))
    assert drafts[0] == drafts[1]
    assert application.accounts() == []
    path.write_bytes(table())
    assert main(["schema", str(path), "--look"]) == 2
    assert "--account" in capsys.readouterr().err
    assert main(["schema", str(path), "--look", "--account", "survey"]) == 0
    assert "free: {type: number" in capsys.readouterr().out
    account = application.store.accounts.named("survey")
    assert account is not None
    assert len(application.store.events.of_account(account.id, EventKind.OWNER_VIEW)) == 1


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (table() + b"\n", None),
        (b"a\n1\n\n2\n", "1 blank line of the file counts as a row without a value, as it has only one column."),
        (b"a;b\n1,2\n3,4\n", "No line of the file can be read as a row of 2 cells"),
        (table(), None),
    ],
)
def test_the_owner_is_told_of_blank_lines_and_of_a_wrong_separator(
    application: Application, data: bytes, words: str | None
) -> None:
    warning = application.intake.receive(io.BytesIO(data), account="survey", name="t.csv").warning
    assert warning is None if words is None else words in str(warning)


def test_several_files_are_read_as_one_table_twice(application: Application, tmp_path: Path) -> None:
    for number in range(3):
        (tmp_path / f"part{number}.csv").write_bytes(table(rows=10 + number))
    with open_table(str(tmp_path / "part*.csv"), TableFormat()) as (name, stream):
        received = application.intake.receive(stream, account="survey", name=name)
    assert received.n_rows == 10 + 11 + 12 + 3
    for number in range(3):  # as Excel writes them
        (tmp_path / f"part{number}.csv").write_bytes(b"sep=,\r\n" + table(rows=10 + number))
    with open_table(str(tmp_path / "part*.csv"), TableFormat()) as (name, stream):
        assert application.intake.receive(stream, account="survey", name=name).n_rows == 10 + 11 + 12 + 3
    with pytest.raises(TableError, match="Several files cannot be read as one table"):
        open_table(str(tmp_path / "part*.csv"), TableFormat(skip_rows=1)).__enter__()
