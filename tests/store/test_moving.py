"""Moves from one layout of the database to the next: what they make, and that one that fails has changed nothing."""

from __future__ import annotations

import re
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any

import new_layout
import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from planted_layouts import LATER, plant, use
from sqlalchemy import Column, Connection, MetaData, String, Table, create_engine, inspect, make_url, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.schema import CreateIndex, CreateTable

from synth.errors import ConfigError, DiskFullError, LedgerError
from synth.ledger.backup import back_up, restore
from synth.ledger.ledger import Ledger
from synth.privacy.accounting import PrivacyBudget
from synth.schema import Neighbours
from synth.services.installation import Installation
from synth.store import Account, Store, WorkKind, WorkState, moving
from synth.store.layout import LAYOUT, LAYOUT_TABLE, METADATA, Moment, Named
from synth.system.settings import Settings
from synth.vault.keys import load_keys
from synth.version import is_before

CHARGE = PrivacyBudget(1.0, 1e-6, Neighbours.REPLACE)


def layouts() -> list[str]:
    """The layouts that Alembic finds, the oldest first."""
    with create_engine("sqlite://").connect() as connection:
        folder = ScriptDirectory.from_config(moving.alembic_config(connection))
    return [one.revision for one in folder.walk_revisions()][::-1]


def test_the_layout_of_the_program_is_the_newest_and_each_follows_the_one_before() -> None:
    found = layouts()
    assert found[0] == "0.9.0"
    assert found[-1] == LAYOUT
    assert all(is_before(one, other) for one, other in pairwise(found))
    names = {path.name for path in (moving.FOLDER / "versions").glob("v*.py")}
    assert names == {f"v{one.replace('.', '_')}.py" for one in found}


def differences(connection: Connection, declared: MetaData = METADATA) -> list[Any]:
    """What Alembic would change in a database to make it what is declared."""
    options = {
        "version_table": LAYOUT_TABLE.name,
        "compare_server_default": True,
        "include_name": lambda name, kind, _: kind != "table" or name != "hermitage_commits",  # makes itself
    }
    return compare_metadata(MigrationContext.configure(connection, opts=options), declared)


def described(connection: Connection) -> dict[str, list[str]]:
    """Every declared table of a database as the statements that would make it again."""
    found = MetaData()
    found.reflect(connection, only=list(METADATA.tables))
    return {
        name: [
            *sorted(re.split(r",? *\n\t?", str(CreateTable(table).compile(connection)))),
            *sorted(str(CreateIndex(index).compile(connection)) for index in table.indexes),
        ]
        for name, table in found.tables.items()
    }


def test_a_new_database_has_what_the_program_declares(store: Store) -> None:
    with store.reading() as connection:
        assert differences(connection) == []
        moved = described(connection)
        is_sqlite = connection.dialect.name == "sqlite"
    with store.transactions._engine.connect() as connection, connection.begin() as begun:
        if is_sqlite:
            connection.exec_driver_sql("PRAGMA defer_foreign_keys = ON")
        METADATA.drop_all(connection)
        METADATA.create_all(connection)
        assert described(connection) == moved
        begun.rollback()


@pytest.mark.parametrize(
    "planted",
    [
        "DROP INDEX ix_work_state",
        "ALTER TABLE work DROP COLUMN gpu",
        "ALTER TABLE events ADD COLUMN cell VARCHAR(36)",
        "ALTER TABLE charges RENAME COLUMN who TO whom",
        "DROP TABLE begun",
    ],
)
def test_a_table_that_is_not_as_declared_is_found(store: Store, planted: str) -> None:
    with store.writing() as connection:
        for statement in ("DROP INDEX IF EXISTS none", planted):
            connection.execute(text(statement))
        assert differences(connection)


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_a_drafted_layout_leads_to_what_is_declared(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    layouts = shutil.copytree(moving.FOLDER, tmp_path / "layouts")
    monkeypatch.setattr(moving, "FOLDER", layouts)
    declared = MetaData()
    for table in METADATA.tables.values():
        table.to_metadata(declared)
    declared.tables["runs"].append_column(Column("noted", Moment, index=True))
    Table("users", declared, Column("name", String(120), primary_key=True), Column("state", Named(WorkState, 10)))
    monkeypatch.setattr(new_layout, "METADATA", declared)
    new_layout.draft(LATER, "Users, and when a run was noted")
    drafted = (layouts / "versions" / "v99_0_0.py").read_text()
    assert f'revision = "{LATER}"\ndown_revision = "{LAYOUT}"\n' in drafted
    assert "synth" not in drafted  # a class of ours may change, and a released layout may not
    use(layouts, monkeypatch)
    with Store(settings) as store, store.reading() as connection:
        assert differences(connection, declared) == []
        assert differences(connection)


# What a move does -----------------------------------------------------------------------------------------------------


@pytest.fixture
def filled(settings: Settings) -> Settings:
    """An installation of this layout with an account that was charged."""
    with Store(settings) as store:
        account = store.accounts.open("city survey")
        store.accounts.open("undescribed")
        run = store.runs.add(account_id=account.id, config="{}", owner="owner")
        ledger = Ledger(store, load_keys(settings.home))
        ledger.reserve(account.id, run.id, CHARGE, purpose="run")
        store.work.move(run.id, WorkState.CANCELLED)
        ledger.settle(run.id)
    return settings


@pytest.fixture
def later(filled: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The later version of the program, before it has opened the installation."""
    copy = plant(tmp_path, LAYOUT)
    use(copy, monkeypatch)
    return copy


def whole(settings: Settings) -> str:
    """Everything that is in a database, as the statements that would fill another one."""
    url = make_url(settings.database_url)
    if url.get_backend_name() == "sqlite":
        with closing(sqlite3.connect(str(url.database))) as database:
            return "\n".join(database.iterdump())
    # It waits for what a killed client has not ended yet.
    command = ["pg_dump", "--no-owner", f"--dbname={settings.database_url}"]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return re.sub(r"^\\(un)?restrict .*$", "", said, flags=re.M)  # a word that is drawn each time


def layout_of(settings: Settings) -> str:
    with create_engine(settings.database_url.replace("postgresql:", "postgresql+psycopg:")).connect() as connection:
        return str(connection.execute(text("SELECT version_num FROM hermitage_layout")).scalar_one())


def rows_of(settings: Settings, columns: str, table: str) -> list[Any]:
    with create_engine(settings.database_url.replace("postgresql:", "postgresql+psycopg:")).connect() as connection:
        return list(connection.execute(text(f"SELECT {columns} FROM {table} ORDER BY 1")))  # noqa: S608


def test_a_move_keeps_every_row_and_what_the_database_refuses(later: Path, filled: Settings) -> None:
    charges = rows_of(filled, "digest, previous, state", "charges")
    assert len(charges) == 2
    accounts = rows_of(filled, "id, name, created", "accounts")
    Store(filled).close()
    assert layout_of(filled) == LATER
    assert rows_of(filled, "digest, previous, state", "charges") == charges
    assert {tuple(row) for row in rows_of(filled, "remark", "charges")} == {("kept run",)}
    assert rows_of(filled, "id, name, created", "accounts") == accounts
    assert [tuple(row) for row in rows_of(filled, "name, grade", "accounts")] == [
        ("city survey", 1),
        ("undescribed", 1),
    ]
    with Store(filled) as store:
        (account,) = [one for one in accounts if one.name == "city survey"]
        Ledger(store, load_keys(filled.home)).check_whole(account.id)
        for statement in (
            "UPDATE charges SET remark = 'x'",
            "DELETE FROM charges",
            "UPDATE accounts SET name = 'other people'",
            "DELETE FROM accounts",
            "INSERT INTO runs (id, account_id, config) VALUES ('1', 'nobody', '')",
        ):
            with pytest.raises(DBAPIError), store.writing() as connection:
                connection.execute(text(statement))
        assert described_length(store) == 200
    assert (later / "versions" / "moves").read_text() == "moved\n"


def described_length(store: Store) -> int | None:
    """How long the name of an account may be."""
    with store.reading() as connection:
        (name,) = [one for one in inspect(connection).get_columns("accounts") if one["name"] == "name"]
    return name["type"].length  # type: ignore[attr-defined]


def test_an_empty_database_is_moved_through_all_layouts(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(plant(tmp_path, LAYOUT), monkeypatch)
    Store(settings).close()
    assert layout_of(settings) == LATER
    with create_engine(settings.database_url.replace("postgresql:", "postgresql+psycopg:")).connect() as connection:
        assert "grade" in {column["name"] for column in inspect(connection).get_columns("accounts")}


FAILING = {
    "a fault of the revision": ("raise KeyError('canary')", "keeps its layout 0.9.0: the move to layout 99.0.0 failed"),
    "no such column": ("op.execute('UPDATE accounts SET nothing = 1')", "keeps its layout 0.9.0"),
    "a row that is refused": ("op.execute('UPDATE accounts SET grade = 0')", "keeps its layout 0.9.0"),
    "a table that is there": ("op.create_table('charges', sa.Column('id', sa.Integer))", "keeps its layout 0.9.0"),
}
"""What a revision does after its statements, and what is said."""


@pytest.mark.parametrize("name", FAILING)
def test_a_move_that_fails_half_way_has_changed_nothing(
    filled: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    then, said = FAILING[name]
    before = whole(filled)
    with monkeypatch.context() as patch:
        use(plant(tmp_path, LAYOUT, then), patch)
        for _ in range(2):
            with pytest.raises(ConfigError, match=re.escape(said)) as caught:
                Store(filled)
            assert "canary" not in str(caught.value)
            assert "nothing was changed" in str(caught.value)
    assert (tmp_path / "layouts" / "versions" / "moves").read_text() == "moved\n" * 2
    assert whole(filled) == before
    with Store(filled) as store:  # the version that it had goes on
        store.accounts.open("another")


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_a_foreign_key_that_a_move_breaks_undoes_it(
    filled: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite enforces none while tables are made anew, so all are checked at the end."""
    before = whole(filled)
    use(plant(tmp_path, LAYOUT, """op.execute("DELETE FROM accounts WHERE name = 'city survey'")"""), monkeypatch)
    with pytest.raises(ConfigError, match="a row would refer to one that is not there"):
        Store(filled)
    assert whole(filled) == before


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_a_disk_that_fills_up_during_a_move_undoes_it(
    filled: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = whole(filled)
    pages = (
        "pages = op.get_bind().exec_driver_sql('PRAGMA page_count').scalar_one()\n"
        "op.get_bind().exec_driver_sql(f'PRAGMA max_page_count = {pages + 2}')\n"
        "op.execute('CREATE TABLE big AS SELECT randomblob(1000000) AS filling')"
    )
    use(plant(tmp_path, LAYOUT, pages), monkeypatch)
    with pytest.raises(DiskFullError, match="is full"):
        Store(filled)
    assert whole(filled) == before


OPEN = (
    "import sys, pathlib, pytest\n"
    "import planted_layouts\n"
    "from synth.system.settings import Settings\n"
    "from synth.store import Store\n"
    "planted_layouts.use(pathlib.Path(sys.argv[3]), pytest.MonkeyPatch())\n"
    "Store(Settings(home=pathlib.Path(sys.argv[1]), database_url=sys.argv[2])).close()\n"
    "print('opened')\n"
)


def opening(settings: Settings, layouts: Path) -> subprocess.Popen[str]:
    """A process of the later version that opens an installation."""
    command = [sys.executable, "-c", OPEN, str(settings.home), settings.database_url, str(layouts)]
    path = [str(Path(__file__).parents[1]), *filter(None, sys.path)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={"PYTHONPATH": ":".join(path)})


def test_a_move_that_is_killed_half_way_has_changed_nothing(
    filled: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = whole(filled)
    copy = plant(tmp_path, LAYOUT, "os.kill(os.getpid(), signal.SIGKILL)")
    killed = opening(filled, copy)
    assert killed.communicate()[0] == ""
    assert killed.returncode == -9
    assert (copy / "versions" / "moves").read_text() == "moved\n"
    assert whole(filled) == before
    (tmp_path / "again").mkdir()
    use(plant(tmp_path / "again", LAYOUT), monkeypatch)
    Store(filled).close()
    assert layout_of(filled) == LATER


def test_processes_that_start_together_move_once(later: Path, filled: Settings) -> None:
    started = [opening(filled, later) for _ in range(3)]
    assert [process.communicate()[0] for process in started] == ["opened\n"] * 3
    assert (later / "versions" / "moves").read_text() == "moved\n"
    assert layout_of(filled) == LATER


def test_nothing_is_moved_under_work_in_progress(
    filled: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Store(filled) as store:
        work = store.work.begin(WorkKind.REHEARSAL, "subject", asked="{}", owner="owner", host="here")
        before = whole(filled)
        with monkeypatch.context() as patch:
            use(plant(tmp_path, LAYOUT), patch)
            with pytest.raises(ConfigError, match=r"^Work is in progress .* has layout 0\.9\.0; .* move it to 99"):
                Store(filled)
            assert whole(filled) == before
            store.work.move(work.id, WorkState.FAILED)
            Store(filled).close()
    assert layout_of(filled) == LATER


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_who_opens_an_up_to_date_database_loads_no_alembic(filled: Settings) -> None:
    program = (
        "import sys, pathlib\n"
        "from synth.services.installation import Installation\n"
        "from synth.system.settings import Settings\n"
        "with Installation.open(Settings(home=pathlib.Path(sys.argv[1]), database_url=sys.argv[2])) as opened:\n"
        "    print(len(opened.store.accounts.all()), {'alembic', 'mako'} & set(sys.modules))\n"
    )
    command = [sys.executable, "-c", program, str(filled.home), filled.database_url]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "2 set()\n"


# Databases of other versions, and backups -----------------------------------------------------------------------------


def test_a_database_of_a_later_version_is_refused_and_left_as_it_is(later: Path, filled: Settings) -> None:
    Store(filled).close()
    moved = whole(filled)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("synth.store.store.LAYOUT", LAYOUT)
        for use_it in (lambda: Store(filled), lambda: back_up(filled, filled.home / "saved")):
            with pytest.raises(ConfigError, match=r"layout 99\.0\.0; .* Use the later version that wrote it"):
                use_it()
    assert whole(filled) == moved


@pytest.mark.parametrize("number", [7, 8])
def test_a_database_of_a_version_before_0_9_0_is_refused_and_left_as_it_is(settings: Settings, number: int) -> None:
    with Store(settings) as store, store.writing() as connection:
        connection.execute(text("DROP TABLE hermitage_layout"))
        connection.execute(text("CREATE TABLE store_version (number INTEGER PRIMARY KEY)"))
        connection.execute(text("INSERT INTO store_version VALUES (:number)"), {"number": number})
    before = whole(settings)
    with pytest.raises(ConfigError, match=r"by a version before 0\.9\.0; .* Use the version that wrote it"):
        Store(settings)
    assert whole(settings) == before


def test_a_backup_of_an_earlier_layout_moves_when_it_is_restored(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Installation.open(settings) as installation:
        account: Account = installation.store.accounts.open("city survey")
        run = installation.store.runs.add(account_id=account.id, config="{}", owner="owner")
        installation.ledger.reserve(account.id, run.id, CHARGE, purpose="run")
    use(plant(tmp_path, LAYOUT), monkeypatch)
    before = whole(settings)
    back_up(settings, tmp_path / "saved")
    assert whole(settings) == before  # it can still be opened by the version that it had
    new = emptied(settings, tmp_path)
    assert restore(new, tmp_path / "saved").accounts == ("city survey",)
    assert layout_of(new) == LATER
    with Installation.open(new) as installation, pytest.raises(LedgerError):
        installation.ledger.reserve(account.id, run.id, CHARGE, purpose="again")  # frozen


def emptied(settings: Settings, folder: Path) -> Settings:
    """An empty home and an empty database of the same kind."""
    url = make_url(settings.database_url)
    if url.get_backend_name() == "sqlite":
        return Settings(home=folder / "new", database_url=f"sqlite:///{folder / 'new' / 'hermitage.sqlite'}")
    with create_engine(url.set(drivername="postgresql+psycopg")).begin() as connection:
        connection.execute(text("DROP SCHEMA public CASCADE"))
        connection.execute(text("CREATE SCHEMA public"))
    return Settings(home=folder / "new", database_url=settings.database_url)
