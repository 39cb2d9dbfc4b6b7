"""The store as a whole: layout, versions, privacy of its files, and what its databases refuse."""

from __future__ import annotations

import inspect
import sqlite3
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from types import FrameType
from typing import Any

import psycopg
import pytest
from sqlalchemy import event, select, text
from sqlalchemy.exc import DBAPIError

import synth.store.engine
from synth.errors import ConfigError
from synth.ledger.ledger import Ledger
from synth.privacy.accounting import PrivacyBudget
from synth.schema import Neighbours, PrivacyUnit
from synth.store import Account, EventKind, Store
from synth.store.engine import Transactions
from synth.store.layout import LAYOUT, METADATA
from synth.system.settings import Settings

CHARGE = PrivacyBudget(1.0, 1e-6, Neighbours.REPLACE)


@pytest.fixture
def filled(store: Store, account: Account) -> Store:
    """A store with a row in every append-only table."""
    run = store.runs.add(account_id=account.id, config="{}", owner="owner")
    Ledger(store).reserve(account.id, run.id, CHARGE, purpose="run")
    store.events.add(EventKind.OWNER_VIEW, account_id=account.id)
    store.releases.add(
        run_id=run.id,
        account_id=account.id,
        certificate_id="certificate",
        certificate_digest="0" * 64,
        attestations={"may share": "owner"},
        who="owner",
    )
    return store


def test_opening_twice_keeps_what_is_there(settings: Settings, filled: Store) -> None:
    with Store(settings) as again:
        assert [account.name for account in again.accounts.all()] == ["city survey"]
        with again.reading() as connection:
            found = connection.execute(text("SELECT version_num FROM hermitage_layout")).scalars().all()
    assert found == [LAYOUT]


def test_processes_that_start_together_prepare_one_database(settings: Settings) -> None:
    script = (
        "import sys, pathlib\n"
        "from synth.system.settings import Settings\n"
        "from synth.store import Store\n"
        "with Store(Settings(home=pathlib.Path(sys.argv[1]), database_url=sys.argv[2])) as store:\n"
        "    print(len(store.accounts.all()))\n"
    )
    arguments = [sys.executable, "-c", script, str(settings.home), settings.database_url]
    processes = [subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    assert [process.communicate()[0] for process in processes] == ["0\n"] * 4


def test_sqlite_files_are_private(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with Store(Settings(home=home, database_url=f"sqlite:///{home / 'h.sqlite'}")) as store:
        store.accounts.open("someone")
        assert stat.S_IMODE(home.stat().st_mode) == 0o700
        assert {path.name: stat.S_IMODE(path.stat().st_mode) for path in home.iterdir()} == {
            "h.sqlite": 0o600,
            "h.sqlite-wal": 0o600,
            "h.sqlite-shm": 0o600,
        }


def test_sqlite_writes_are_durable_and_wait_for_each_other(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path, database_url=f"sqlite:///{tmp_path / 'h.sqlite'}")
    with Store(settings) as store, store.reading() as connection:
        pragmas = {
            name: connection.execute(text(f"PRAGMA {name}")).scalar_one()
            for name in ("journal_mode", "synchronous", "busy_timeout", "foreign_keys")
        }
    assert pragmas == {"journal_mode": "wal", "synchronous": 2, "busy_timeout": 10_000, "foreign_keys": 1}


def test_a_second_store_in_one_process_keeps_the_locks_of_the_first(tmp_path: Path) -> None:
    """Closing any descriptor of a file drops all of a process's locks on it; other processes then corrupt the file."""
    path = tmp_path / "h.sqlite"
    settings = Settings(home=tmp_path, database_url=f"sqlite:///{path}")
    shared_range = "0x40000002, 510"  # where SQLite keeps readers' locks (https://sqlite.org/lockingv3.html)
    script = (
        "import fcntl, sys\n"
        "with open(sys.argv[1], 'r+b') as file:\n"
        "    try:\n"
        f"        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, *reversed(({shared_range})))\n"
        "    except BlockingIOError:\n"
        "        print('locked')\n"
    )
    with Store(settings) as first:
        first.accounts.all()
        Store(settings).close()
        answer = subprocess.run([sys.executable, "-c", script, str(path)], capture_output=True, text=True, check=True)
        assert answer.stdout == "locked\n"


def test_a_file_that_is_no_database_is_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "h.sqlite"
    path.write_bytes(b"canary, this is a table and no database\n" * 100)
    with pytest.raises(ConfigError, match="is damaged or is not a database"):
        Store(Settings(home=tmp_path, database_url=f"sqlite:///{path}"))


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("sqlite://", "names no file"),
        ("sqlite:///:memory:", "names no file"),
        ("mysql://root@host/base", "mysql"),
        ("nonsense", "not a database address"),
        ("postgresql://nobody:canary-password@127.0.0.1:1/none", "The database does not answer"),
    ],
)
def test_a_wrong_address_is_one_sentence_without_the_password(tmp_path: Path, address: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        Store(Settings(home=tmp_path, database_url=address))
    assert "canary-password" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_a_database_without_an_encoding_gives_texts_back(own_server: Any, tmp_path: Path) -> None:
    """PostgreSQL makes such a database where its machine has no language; it would give bytes back instead."""
    with psycopg.connect(own_server.url, autocommit=True) as connection:
        connection.execute("CREATE DATABASE bare ENCODING 'SQL_ASCII' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'")
    settings = Settings(home=tmp_path / "home", database_url=own_server.url.replace("/postgres?", "/bare?"))
    with Store(settings) as store:
        store.accounts.ensure("Zürich, łódź", Neighbours.REPLACE, PrivacyUnit())
    with Store(settings) as store:
        assert [account.name for account in store.accounts.all()] == ["Zürich, łódź"]


@pytest.mark.four_cases
@pytest.mark.parametrize("table", ["charges", "decisions", "events", "releases"])
@pytest.mark.parametrize("statement", ["UPDATE {} SET who = 'x'", "DELETE FROM {}"])
def test_append_only_tables_refuse_update_and_delete(filled: Store, table: str, statement: str) -> None:
    with pytest.raises(DBAPIError, match="append-only"), filled.writing() as connection:
        connection.execute(text(statement.format(table)))
    with filled.reading() as connection:
        assert connection.execute(select(METADATA.tables[table].c.who)).scalars().all() != ["x"]


@pytest.mark.four_cases
@pytest.mark.parametrize("table", ["charges", "decisions", "events", "releases"])
def test_append_only_tables_refuse_replacement(filled: Store, table: str) -> None:
    """SQLite fires no delete trigger for a replaced row in a connection that does not ask for it."""
    columns = ", ".join(column.name for column in METADATA.tables[table].columns)
    replacement = columns.replace("who", "'x'")
    with filled.reading() as connection:
        is_sqlite = connection.dialect.name == "sqlite"
    if is_sqlite:
        recursive = "PRAGMA recursive_triggers = OFF"
        statement = f"INSERT OR REPLACE INTO {table} ({columns}) SELECT {replacement} FROM {table}"  # noqa: S608
    else:
        recursive = "SELECT 1"
        statement = f"TRUNCATE {table} CASCADE"
    with filled.transactions._engine.connect() as connection:
        connection.exec_driver_sql(recursive)
        with pytest.raises(DBAPIError, match="append-only"):
            connection.exec_driver_sql(statement)


@pytest.mark.four_cases
@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE accounts SET neighbours = 'add_remove'",
        "UPDATE accounts SET name = 'other people'",
        "UPDATE accounts SET protects = NULL",
        "DELETE FROM accounts",
    ],
)
def test_an_account_is_fixed_once_it_is_described(filled: Store, statement: str) -> None:
    with pytest.raises(DBAPIError), filled.writing() as connection:
        connection.execute(text(statement))


def test_no_column_could_hold_a_secret_or_a_row() -> None:
    """The database has no place for keys; the one binary column holds a sealed split key."""
    binary = [
        (table.name, column.name)
        for table in METADATA.tables.values()
        for column in table.columns
        if "BLOB" in str(column.type) or "BINARY" in str(column.type).upper()
    ]
    assert binary == [("accounts", "split_key")]


@pytest.fixture
def impatient(tmp_path: Path) -> Iterator[Store]:
    """A store on SQLite whose connections give up at once where they meet the lock of the file."""
    with Store(Settings(home=tmp_path / "home", database_url=f"sqlite:///{tmp_path / 'impatient.db'}")) as store:
        engine = store.transactions._engine
        event.listen(engine, "checkout", lambda held, *_: held.execute("PRAGMA busy_timeout = 0"))
        yield store


def test_threads_of_one_process_stand_in_line_to_write(impatient: Store) -> None:
    """None of them ever meets the lock of the file, which SQLite gives to whoever looks at the right moment."""
    failed: list[BaseException] = []
    with impatient.transactions.writing() as connection:
        connection.execute(text("CREATE TABLE scratch (number INTEGER)"))

    def write() -> None:
        try:
            for _ in range(20):
                with impatient.transactions.writing() as connection:
                    connection.execute(text("INSERT INTO scratch VALUES (1)"))
        except ConfigError as error:
            failed.append(error)

    threads = [threading.Thread(target=write) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    with impatient.transactions.reading() as connection:
        assert connection.execute(text("SELECT count(*) FROM scratch")).scalar_one() == 240


def test_who_writes_can_look_something_up_while_many_stand_in_line(impatient: Store) -> None:
    """A table is taken in so: it looks for the same one elsewhere, and others must not hold all connections."""
    pool, line = impatient.transactions._engine.pool, 30

    wrote: list[int] = []

    def write() -> None:
        with impatient.transactions.writing() as connection:
            wrote.append(connection.execute(text("SELECT 1")).scalar_one())

    threads = [threading.Thread(target=write) for _ in range(line)]
    with impatient.transactions.writing():
        for thread in threads:
            thread.start()
        # Until all stand in line, or those that found a connection do, if there were a limit to these.
        for _ in range(2000):
            if pool.checkedout() > line:  # type: ignore[attr-defined]
                break
            time.sleep(0.005)
        assert not impatient.accounts.all()
    for thread in threads:
        thread.join()
    assert len(wrote) == line


def test_a_writer_that_fails_gives_its_turn_back(impatient: Store, tmp_path: Path) -> None:
    def refused() -> None:
        with impatient.transactions.writing():
            raise ZeroDivisionError

    for _ in range(3):
        with pytest.raises(ZeroDivisionError):
            refused()
    with closing(sqlite3.connect(tmp_path / "impatient.db")) as other:
        other.execute("BEGIN IMMEDIATE")
        for _ in range(3):
            with pytest.raises(ConfigError, match="busy"):
                refused()
    with impatient.transactions.writing() as connection:
        connection.execute(text("CREATE TABLE scratch (number INTEGER)"))


def interrupted(work: Callable[[], None], place: int, *functions: Callable[..., Any]) -> bool:
    """Do some work, with an interrupt before the line of these functions that comes at this place; was there one?"""
    codes, seen = {function.__code__ for function in functions}, 0

    def trace(frame: FrameType, kind: str, _: Any) -> Any:
        nonlocal seen
        if frame.f_code not in codes:
            return None
        if kind == "line":
            seen += 1
            if seen == place:
                raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
    return False


def test_a_writer_that_is_interrupted_anywhere_keeps_nobody_from_writing(
    impatient: Store, monkeypatch: pytest.MonkeyPatch, one_transaction_at_a_time: Callable[..., Any]
) -> None:
    """By Ctrl-C, or when a worker is told to stop: it still has to write how the run ended."""
    monkeypatch.setattr(Transactions, "_begun", one_transaction_at_a_time)
    monkeypatch.setattr(synth.store.engine, "TURN_SECONDS", 0.2)
    functions = [found for found in vars(synth.store.engine._Turns).values() if inspect.isfunction(found)]
    functions += [Transactions.writing.__wrapped__, Transactions._begun.__wrapped__]  # type: ignore[attr-defined]

    def write() -> None:
        with impatient.transactions.writing() as connection:
            connection.execute(text("CREATE TABLE IF NOT EXISTS scratch (number INTEGER)"))

    places = 0
    while interrupted(write, places + 1, *functions):
        places += 1
        for _ in range(2):
            write()
    assert places > 10
