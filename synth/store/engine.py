"""One way to reach the database: SQLite in a private file, or PostgreSQL."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError, DatabaseError, InterfaceError, OperationalError

from synth.errors import ConfigError

__all__ = ["Transactions", "make_engine"]

BUSY_SECONDS = 10.0
READING = "hermitage_reading"


def make_engine(address: str) -> Engine:
    """Return an engine for ``DATABASE_URL``.

    Parameters
    ----------
    address : str
        ``sqlite:///path/to/file`` or ``postgresql://user:password@host/database``.

    Raises
    ------
    ConfigError
        If the address names no file, or another kind of database.
    """
    try:
        url = make_url(address.replace("postgres://", "postgresql://", 1))
    except ArgumentError:
        raise ConfigError("DATABASE_URL is not a database address. Write postgresql://user@host/database.") from None
    backend = url.get_backend_name()
    if backend == "sqlite":
        return _sqlite_engine(url)
    if backend == "postgresql":
        return create_engine(url.set(drivername="postgresql+psycopg"), pool_pre_ping=True, hide_parameters=True)
    raise ConfigError(f"DATABASE_URL names a {backend} database. Use sqlite or postgresql.")


def _sqlite_engine(url: URL) -> Engine:
    if not url.database or url.database == ":memory:":
        raise ConfigError("DATABASE_URL names no file. The ledger must outlive the program: write sqlite:///PATH.")
    _create_private_file(Path(url.database))
    engine = create_engine(url, connect_args={"timeout": BUSY_SECONDS}, hide_parameters=True)
    event.listen(engine, "connect", _prepare_sqlite_connection)
    event.listen(engine, "begin", _begin_sqlite_transaction)
    return engine


def _create_private_file(path: Path) -> None:
    # SQLite gives its -wal and -shm files the mode of the database. An existing file is never opened here: closing it
    # would drop the locks of every other connection of this process, and let another process corrupt the database.
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not path.exists():
            draft = path.with_name(f"{path.name}.{uuid4().hex}")
            os.close(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
            with suppress(FileExistsError):
                os.link(draft, path)
            draft.unlink()
        path.chmod(0o600)
    except OSError as error:
        raise ConfigError(
            f"The database file cannot be written ({error.strerror}). Check HERMITAGE_HOME and DATABASE_URL."
        ) from None


def _prepare_sqlite_connection(connection: sqlite3.Connection, _record: Any) -> None:
    connection.isolation_level = None  # transactions begin in _begin_sqlite_transaction, not by the driver's guess
    cursor = connection.cursor()
    cursor.execute(f"PRAGMA busy_timeout = {int(BUSY_SECONDS * 1000)}")
    _use_write_ahead_log(cursor)
    # FULL: in WAL mode NORMAL may lose the last commits in a power cut, and a lost charge un-spends budget.
    for pragma in ("synchronous = FULL", "foreign_keys = ON", "recursive_triggers = ON"):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def _use_write_ahead_log(cursor: sqlite3.Cursor) -> None:
    # Switching a new file to WAL ignores the busy timeout, so processes that start together wait here.
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            cursor.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)
        else:
            return


def _begin_sqlite_transaction(connection: Connection) -> None:
    reading = connection.get_execution_options().get(READING, False)
    connection.exec_driver_sql("BEGIN" if reading else "BEGIN IMMEDIATE")


class Transactions:
    """Reading and writing transactions over one engine, with database failures told in our words.

    A writing transaction on SQLite takes the write lock at its start, so whatever it reads stays true until it ends.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """Open a transaction that commits at the end, or rolls back on any error."""
        with _plain_words(), self._engine.begin() as connection:
            yield connection

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Open a transaction that sees one consistent state and changes nothing."""
        options: dict[str, Any] = {READING: True}
        if self._engine.dialect.name == "postgresql":
            options = {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}
        with _plain_words(), self._engine.connect().execution_options(**options) as connection, connection.begin():
            yield connection

    def close(self) -> None:
        """Close every pooled connection."""
        self._engine.dispose()


@contextmanager
def _plain_words() -> Iterator[None]:
    try:
        yield
    except (OperationalError, InterfaceError):
        # The driver's text may quote the address with its password.
        raise ConfigError(
            "The database cannot be reached, or stayed busy for 10 seconds. "
            "Check DATABASE_URL and that its server runs, then try again."
        ) from None
    except DatabaseError as error:
        if type(error) is not DatabaseError:
            raise
        raise ConfigError("The database file is damaged or is no database. Restore it from a backup.") from None
