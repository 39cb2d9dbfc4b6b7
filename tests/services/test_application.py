"""The application as a page uses it: a real worker process, from a received table to a verified bundle."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text
from town import CONFIG, TABLE

from synth.application import Application
from synth.cli.local import run_locally
from synth.demonstration import CLINIC, demonstration_config
from synth.errors import BudgetExceededError, ConfigError, InputError, JobError, LedgerError, TableError
from synth.progress import NullProgress
from synth.rehearsal.grid import Grid
from synth.schema import RunConfig, TableFormat, parse_config
from synth.schema.documents import read_mapping
from synth.services.planning import forecast_lines
from synth.services.runs import carry_out
from synth.services.views import ReceivedTable, RunView
from synth.store import ChargeState, EventKind, WorkState, now
from synth.system.settings import Settings


@pytest.fixture
def application(tmp_path: Path) -> Iterator[Application]:
    home = tmp_path / "home"
    with Application(Settings(home=home, database_url=f"sqlite:///{home / 'hermitage.sqlite'}")) as opened:
        yield opened


@pytest.fixture
def config() -> RunConfig:
    return parse_config(read_mapping(CONFIG))


@pytest.fixture
def table(application: Application) -> ReceivedTable:
    return application.intake.receive(io.BytesIO(TABLE), account="town", name="../../people.csv")


def test_a_table_whose_time_is_up_is_on_no_list_and_in_no_run(
    application: Application, config: RunConfig, table: ReceivedTable
) -> None:
    """Every way to a table deletes it when its time is up; no start and no timer has to come first."""
    vault = application.settings.home / "vault"

    def shown(table_id: str, *, on_list: bool) -> bool:
        if on_list:
            return table_id in {one.table_id for one in application.intake.tables()}
        return bool(application.intake.table(table_id).columns)

    for on_list in (True, False):
        kept = application.intake.receive(io.BytesIO(TABLE), account="town", name="people.csv").table_id
        assert shown(kept, on_list=on_list)
        application.store.tables.keep_until(kept, now() - timedelta(seconds=1))
        assert not shown(kept, on_list=on_list)
        assert not list(vault.glob(f"{kept}.*"))
    application.store.tables.keep_until(table.table_id, now() - timedelta(seconds=1))
    with pytest.raises(TableError, match="This table was deleted"):
        application.start(config, table_id=table.table_id)
    assert application.runs() == []
    assert list(vault.glob("*.table")) == []


VERIFYING = """
import io, os, sys
from pathlib import Path
from synth.application import Application
from synth.system.settings import Settings
from synth.system.settings import Settings
from synth.application import Application

home = Path(sys.argv[1])
with Application(Settings(home=home, database_url=f"sqlite:///{home / 'hermitage.sqlite'}")) as application:
    written = []
    writes = os.O_CREAT | os.O_WRONLY | os.O_RDWR

    def note(event, arguments):
        if event == "open" and isinstance(arguments[0], str) and arguments[2] & writes:
            written.append(arguments[0])

    sys.addaudithook(note)
    verdict = application.verify(io.BytesIO(bytes.fromhex(sys.argv[2])))
    assert not verdict.ok
    assert any("The bundle ends too early" in line for line in verdict.lines), verdict.lines
    assert set(written) <= {os.devnull}, written
"""


@pytest.mark.thorough
def test_a_strangers_bundle_is_checked_without_a_file(tmp_path: Path) -> None:
    command = [sys.executable, "-c", VERIFYING, str(tmp_path / "home"), b"PK\x03\x04 no bundle".hex()]
    checked = subprocess.run(command, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stderr


def finished(application: Application, run_id: str, seconds: float = 600.0) -> RunView:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        view = application.run(run_id)
        if view.state not in ("queued", "running"):
            return view
        time.sleep(0.2)
    raise AssertionError(f"still {view.state} in phase {view.phase}")


@pytest.mark.thorough
def test_a_run_goes_from_a_table_to_a_verified_bundle(
    application: Application, config: RunConfig, table: ReceivedTable
) -> None:
    assert "/" not in table.name
    assert [(column.name, column.kind) for column in table.columns] == [("age", "number"), ("town", "")]
    assert table.n_rows == 300
    assert application.ledger_rows() == []
    plan = application.plan(config)
    assert plan.refusal is None
    assert sum(part.share for part in plan.parts) == pytest.approx(1.0)

    run_id = application.start(config, table_id=table.table_id)
    view = finished(application, run_id)
    assert (view.state, view.message) == ("reported", None)
    with pytest.raises(JobError, match="not released yet"):
        application.bundle(run_id)
    assert {entry["kind"] for entry in application.report(run_id)["evidence"]} <= {"safe", "charged"}
    owner = application.owner_report(run_id)
    assert owner is not None
    assert "owner_only" in {entry["kind"] for entry in owner["evidence"]}
    with pytest.raises(JobError, match="Type your name"):
        application.release(run_id, attestations=("yes",), attested_by=" ")

    identity = application.release(run_id, attestations=("yes",), attested_by="A. Steward")
    assert application.release(run_id, attestations=("yes",), attested_by="A. Steward") == identity
    assert application.verify(io.BytesIO(application.bundle(run_id))).ok
    states = [row.state for row in application.ledger_rows("town")]
    assert states == ["reserved", "spent", "released"]
    assert application.account("town").notes


@pytest.mark.thorough
def test_two_slots_carry_two_runs_at_once(tmp_path: Path, config: RunConfig) -> None:
    home = tmp_path / "home"
    settings = Settings(home=home, database_url=f"sqlite:///{home / 'hermitage.sqlite'}", job_slots=2)
    with Application(settings) as application:
        table = application.intake.receive(io.BytesIO(TABLE), account="town", name="people.csv")
        runs = [application.start(config, table_id=table.table_id) for _ in range(3)]
        assert [application.store.runs[run_id].pid is not None for run_id in runs] == [True, True, False]
        assert [finished(application, run_id).state for run_id in runs] == ["reported"] * 3
        # With one slot a run begins when the one before has ended.
        first, second, _ = (application.store.runs[run_id] for run_id in runs)
        assert second.started is not None
        assert first.finished is not None
        assert second.started <= first.finished


@pytest.mark.thorough
def test_synth_run_waits_for_a_database_that_is_away_after_its_charge(
    own_server: Any, tmp_path: Path, config: RunConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PostgreSQL is stopped while the table is written, and started again by somebody else seconds later."""
    monkeypatch.setenv("HERMITAGE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("DATABASE_URL", own_server.url)
    rows = tmp_path / "people.csv"
    rows.write_bytes(TABLE)
    started: list[threading.Timer] = []

    def stop(line: str) -> None:
        if line.startswith("Writing"):
            own_server.stop()
            started.append(threading.Timer(4.0, own_server.start))
            started[0].start()

    result = run_locally(config, tmp_path / "out", table=rows, say=stop, owner_report=False)
    started[0].join()
    with Application.from_environment() as application:
        (run,) = application.store.runs.all()
        assert run.state is WorkState.RELEASED
        assert [charge.state.value for charge in application.ledger.rows(run.account_id)] == [
            "reserved",
            "spent",
            "released",
        ]
    assert result.bundle.exists()


def test_a_cap_refuses_before_anything_is_written(
    application: Application, config: RunConfig, table: ReceivedTable
) -> None:
    application.set_cap("town", 0.5, 1e-5)
    assert application.plan(config).refusal is not None
    with pytest.raises(BudgetExceededError):
        application.start(config, table_id=table.table_id)
    assert application.ledger_rows() == []


def test_a_generator_without_what_it_needs_starts_nowhere(
    application: Application, config: RunConfig, table: ReceivedTable, tmp_path: Path
) -> None:
    asked = replace(config, generator="independent-by-class")
    rows = tmp_path / "people.csv"
    rows.write_bytes(TABLE)
    attempts: list[Callable[[], object]] = [
        lambda: application.plan(asked),
        lambda: application.reserve(asked, table_id=table.table_id),
        lambda: application.start(asked, table_id=table.table_id),
        lambda: application.rehearsals.start(asked, io.BytesIO(TABLE)),
        lambda: application.rehearsals.rehearse(asked, lambda: io.BytesIO(TABLE), NullProgress()),
        lambda: application.rehearsals.start(config, io.BytesIO(TABLE), grid=Grid((1.0,), (asked.generator,), seeds=1)),
        lambda: forecast_lines(asked),
        lambda: run_locally(asked, tmp_path / "out", table=rows),
    ]
    for attempt in attempts:
        with pytest.raises(ConfigError, match="'independent-by-class' needs a label of at least two values"):
            attempt()
    assert application.ledger_rows() == []
    assert [known.table_id for known in application.intake.tables()] == [table.table_id]
    assert application.runs() == []
    assert not (tmp_path / "out").exists()
    # With a label the same run may start.
    assert application.plan(replace(asked, label="town")).refusal is None


def test_a_table_that_does_not_fit_is_refused_before_anything_is_charged(
    application: Application, config: RunConfig, table: ReceivedTable
) -> None:
    other = application.intake.receive(io.BytesIO(b"age,city\n1,x\n"), account="town", name="other.csv")
    with pytest.raises(TableError, match="no column 'town'"):
        application.start(config, table_id=other.table_id)
    elsewhere = application.intake.receive(io.BytesIO(TABLE), account="village", name="people.csv")
    assert "under the account town." in str(elsewhere.same_table)
    with pytest.raises(TableError, match="another account"):
        application.start(config, table_id=elsewhere.table_id)
    application.intake.delete_table(table.table_id)
    with pytest.raises(TableError, match="deleted"):
        application.start(config, table_id=table.table_id)
    assert application.ledger_rows() == []


def test_a_bad_table_leaves_nothing_behind(application: Application) -> None:
    for data in (b"", b"age,town\n", b"PK\x03\x04", b"PAR1x", b"3,4\n5,6\n"):
        with pytest.raises(TableError):
            application.intake.receive(io.BytesIO(data), account="town", name="bad.csv")
    with pytest.raises(ConfigError, match="needs its separator"):
        application.intake.receive(
            io.BytesIO(TABLE), account="town", name="bad.csv", table_format=TableFormat(header=False, names=("a", "b"))
        )
    assert application.intake.tables() == []
    assert application.accounts() == [], "a refused file opens no account"
    assert not list((application.settings.home / "vault").glob("*.table"))


def test_lines_without_values_are_pointed_out(application: Application) -> None:
    blank = application.intake.receive(io.BytesIO(TABLE + b"\n\n"), account="town", name="blank.csv")
    assert (blank.n_rows, blank.warning) == (300, None)
    two = application.intake.receive(io.BytesIO(b"age\n1\n\n\n"), account="town", name="two.csv")
    assert str(two.warning).startswith("2 blank lines of the file count as rows without a value, as it has only one")
    none = application.intake.receive(io.BytesIO(b"age,town\n1\n2;3\n"), account="town", name="other.csv")
    assert str(none.warning).startswith("No line of the file can be read as a row of 2 cells.")


def test_kinds_are_guessed_from_cells_only_where_the_owner_looks_which_is_recorded(
    application: Application, table: ReceivedTable
) -> None:
    def looks() -> list[tuple[str | None, str]]:
        events = application.store.events.of_kind(EventKind.OWNER_VIEW)
        return [(event.account_id, event.detail["what"]) for event in events]

    assert [column.kind for column in application.intake.table(table.table_id).columns] == ["number", ""]
    assert looks() == []
    looked = application.intake.recognise_table(table.table_id)
    assert [column.body["type"] for column in looked.columns] == ["number", "category"]
    assert looks() == [(application.store.accounts.open("town").id, "format and columns")]


def test_a_first_row_of_data_is_refused_and_never_shown(application: Application) -> None:
    with pytest.raises(TableError, match="looks like a row") as refused:
        application.intake.receive(io.BytesIO(b"3,CANARY\n5,CANARY\n"), account="town", name="bare.csv")
    assert "CANARY" not in str(refused.value)
    named = TableFormat(header=False, names=("age", "height"), separator=",")
    bare = application.intake.receive(io.BytesIO(b"3,4\n5,6\n"), account="town", name="b", table_format=named)
    assert bare.warning is None
    with Application(application.settings) as restarted:
        assert [column.name for column in restarted.intake.table(bare.table_id).columns] == ["age", "height"]


def test_another_promise_is_refused_before_anything_is_spent(
    application: Application, config: RunConfig, table: ReceivedTable
) -> None:
    run = application.reserve(config, table_id=table.table_id)
    application.cancel(run.id)
    private = replace(config, schema=replace(config.schema, row_count="private", number_of_units=None))
    refusal = application.plan(private).refusal
    assert refusal is not None
    assert "row_count: public" in refusal


@pytest.mark.thorough
@pytest.mark.parametrize(
    "edited",
    [
        {"budget": {"epsilon": 8.0, "delta": 1e-5}},
        {"budget": {"epsilon": 1.0, "delta": 1e-2}},
        {"row_count": "private", "number_of_units": None},
        {"unit": {"protects": "person", "rows_per_unit": 9, "id_column": None}},
        {"unit": {"protects": "town", "rows_per_unit": 1, "id_column": None}},
        {"account": "village"},
    ],
    ids=str,
)
def test_a_configuration_edited_while_its_run_waits_reads_no_row(
    application: Application, config: RunConfig, table: ReceivedTable, edited: dict[str, object]
) -> None:
    """What was reserved is spent, and nothing else: a waiting configuration stands in the database."""
    application.open_account("village")
    run = application.reserve(config, table_id=table.table_id)
    mapping = {**json.loads(run.config), **edited}
    changed = json.dumps({name: value for name, value in mapping.items() if value is not None})
    with application.store.writing() as connection:
        connection.execute(text("UPDATE runs SET config = :config"), {"config": changed})
    with pytest.raises(LedgerError, match="altered while the run was waiting"):
        carry_out(application.installation, run.id, NullProgress(), owner_report=False)
    (charge,) = application.ledger.charges_of(run.id)
    assert charge.state is ChargeState.RESERVED, "nothing is spent, so it can be freed"


@pytest.mark.usefixtures("without_trial")
def test_a_configuration_that_nobody_edited_is_carried_out(application: Application, config: RunConfig) -> None:
    """Names of accounts are kept in one normal form, and so they are compared."""
    odd = replace(config, account="  town\t hall ", delta=3e-7, epsilon=0.1 + 0.2)
    table_id = application.intake.receive(io.BytesIO(TABLE), account=odd.account, name="people.csv").table_id
    run = application.reserve(odd, table_id=table_id)
    application.store.work.claim(run.id, host="here", pid=1, pid_created=0.0)
    carry_out(application.installation, run.id, NullProgress(), owner_report=False)
    assert application.run(run.id).state == "reported"


@pytest.mark.thorough
def test_the_demonstration_is_ready_to_run(application: Application) -> None:
    table, config = application.demonstration()
    assert table.n_rows == 60_000
    plan = application.plan(config)
    assert plan.refusal is None
    assert plan.forecast.columns


def test_a_demonstration_too_small_for_its_budget_is_ready_to_run_too(application: Application) -> None:
    table, config = application.demonstration(CLINIC)
    assert table.n_rows == 2_000
    plan = application.plan(config)
    assert plan.refusal is None
    enough = application.plan(demonstration_config()).forecast
    assert all(10 * a.moved < b.moved for a, b in zip(enough.columns, plan.forecast.columns, strict=True))


def test_to_read_of_an_account_opens_none(settings: Settings) -> None:
    with Application(settings) as application:
        with pytest.raises(InputError, match="There is no account 'nobody'"):
            application.account("nobody")
        assert application.accounts() == []
        assert application.open_account(" some  body").name == "some body"
        assert application.account("some body") == application.open_account("some\u2003body")
        assert application.account_names() == ["some body"]
