"""One way to reach the database: SQLite in a private file, or PostgreSQL.

A database may become unavailable during a run. The opener of the store says how long to wait for it: a charged run
waits, a screen does not. A transaction that did not happen is repeated, and one that did never is: if a connection
breaks during a commit, the database is asked whether it has the transaction.
"""

from __future__ import annotations

import functools
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar
from uuid import uuid4

from sqlalchemy import URL, Connection, Engine, Executable, Select, create_engine, event, make_url, text
from sqlalchemy.exc import ArgumentError, DatabaseError, InterfaceError, OperationalError

from synth.errors import CommitInDoubtError, ConfigError, DatabaseAwayError, DiskFullError
from synth.system.disk import disk_full, has_no_room, is_full

__all__ = ["PATIENCE_SECONDS", "Transactions", "make_engine", "patient", "remembered"]

BUSY_SECONDS = 10.0

TURN_SECONDS = 60.0
"""How long a thread waits for its turn to write before it leaves the choice to SQLite."""

READING, MOVING = "hermitage_reading", "hermitage_moving"
"""Options of a connection: its transaction changes nothing; it may make tables anew."""

PATIENCE_SECONDS = 3600.0
"""How long a charged run waits, each time, for a database that does not answer."""

ANSWER_SECONDS = 15.0
"""How long PostgreSQL may take for one answer before it counts as unavailable."""

MOST_REMEMBERED = 2000
"""Answers that are remembered while nobody commits."""

CONNECT_SECONDS = 5
RETRY_SECONDS = 1.0
SETTLE_SECONDS = 5.0
"""How long even a screen waits to learn whether a transaction was committed."""

AWAY = (
    "The database does not answer. Runs in progress wait for it and then continue by themselves. Check that its server "
    "is running and that DATABASE_URL names it, then try again."
)
IN_DOUBT = (
    "The connection to the database was lost during a write, so it is not known whether the write succeeded. When the "
    "database answers again, look at the ledger before you repeat anything."
)

_P = ParamSpec("_P")
_R = TypeVar("_R")


def make_engine(address: str) -> Engine:
    """Return an engine for ``DATABASE_URL``.

    Parameters
    ----------
    address : str
        ``sqlite:///path/to/file`` or ``postgresql://user:password@host/database``.

    Raises
    ------
    ConfigError
        If the address names no file, or an unsupported database.
    """
    try:
        url = make_url(address.replace("postgres://", "postgresql://", 1))
    except ArgumentError:
        raise ConfigError("DATABASE_URL is not a database address. Write postgresql://user@host/database.") from None
    backend = url.get_backend_name()
    if backend == "sqlite":
        return _sqlite_engine(url)
    if backend == "postgresql":
        return _postgresql_engine(url)
    raise ConfigError(f"DATABASE_URL names a {backend} database. Use sqlite or postgresql.")


def _sqlite_engine(url: URL) -> Engine:
    if not url.database or url.database == ":memory:":
        raise ConfigError("DATABASE_URL names no file. The ledger must outlive the program: write sqlite:///PATH.")
    _create_private_file(Path(url.database))
    # No limit: threads that wait for their turn to write must not keep others from reading, least of all the one that
    # has the turn and looks something up.
    engine = create_engine(url, connect_args={"timeout": BUSY_SECONDS}, hide_parameters=True, max_overflow=-1)
    event.listen(engine, "connect", _prepare_sqlite_connection)
    _Turns().listen(engine)
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
        if is_full(error):
            raise disk_full(path.parent) from None
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
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_FULL or time.monotonic() > deadline:
                raise
            time.sleep(0.02)
        else:
            return


class _Turns:
    """A queue of the threads of this process that write to a SQLite database.

    SQLite lets waiting writers sleep and retry, in no order: with thirty threads, one may find the lock taken for ten
    seconds. Here they queue, and SQLite has to choose between processes only.

    A turn is about fairness; SQLite's own lock separates the writers. So a turn that is never given back, because its
    thread was interrupted, costs the next in the queue only a wait.
    """

    def __init__(self) -> None:
        self._line: dict[int, threading.Lock] = {}
        """By connection, in order; the first one writes, and the others wait until their own lock is released.

        No lock guards this dictionary: a connection may be dropped at any moment, even by garbage collection. Every
        step is a single dictionary operation.
        """

    def listen(self, engine: Engine) -> None:
        event.listen(engine, "begin", self._begin)
        # A connection is returned or dropped after its transaction has ended.
        for end in ("checkin", "close", "close_detached", "invalidate", "soft_invalidate"):
            event.listen(engine, end, self._end)

    def _begin(self, connection: Connection) -> None:
        if connection.get_execution_options().get(READING, False):
            connection.exec_driver_sql("BEGIN")
            return
        own = connection.connection.dbapi_connection
        try:
            self._stand_in_line(id(own))
            if connection.get_execution_options().get(MOVING, False):  # inside a transaction it would have no effect
                connection.exec_driver_sql("PRAGMA foreign_keys = OFF")
            connection.exec_driver_sql("BEGIN IMMEDIATE")
        except BaseException:  # an interrupt too
            self._end(own)
            raise

    def _stand_in_line(self, own: int) -> None:
        turn = threading.Lock()
        turn.acquire()
        self._line.pop(own, None)
        self._line[own] = turn
        self._call_the_first()
        if not turn.acquire(timeout=TURN_SECONDS):
            line = list(self._line)
            for one in line[: line.index(own)] if own in line else ():
                self._line.pop(one, None)

    def _end(self, connection: Any, *_: Any) -> None:
        self._line.pop(id(connection), None)
        self._call_the_first()

    def _call_the_first(self) -> None:
        for turn in list(self._line.values())[:1]:
            with suppress(RuntimeError):  # it was called before
                turn.release()


def _postgresql_engine(url: URL) -> Engine:
    import psycopg  # imported late: few installations need it

    class Answering(psycopg.Connection[Any]):
        """A connection that treats a server that does not answer as unavailable."""

        def wait(self, gen: Any, interval: float = 0.1, timeout: float | None = None) -> Any:
            try:
                return super().wait(gen, interval=interval, timeout=ANSWER_SECONDS if timeout is None else timeout)
            except psycopg.OperationalError:
                if self.pgconn.transaction_status == psycopg.pq.TransactionStatus.ACTIVE:
                    self.pgconn.finish()  # a late answer could be mistaken for that of another query
                raise

    engine = create_engine(
        url.set(drivername="postgresql+psycopg"),
        pool_pre_ping=True,
        hide_parameters=True,
        # A database made in the C locale has no encoding of its own; without one, texts would come back as bytes.
        connect_args={"connect_timeout": CONNECT_SECONDS, "client_encoding": "utf8"},
    )
    event.listen(engine, "do_connect", lambda dialect, record, given, named: Answering.connect(*given, **named))
    return engine


class Transactions:
    """Reading and writing transactions over one engine, with database failures reported in our words.

    A writing transaction on SQLite takes the write lock at its start, so whatever it reads stays true until it ends.

    Parameters
    ----------
    engine : Engine
    patience : float
        Seconds to wait for a database that does not answer; 0 for a screen.
    clock, sleep : callable
        Monotonic seconds and waiting; a test passes its own.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        patience: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._engine = engine
        self.patience = patience
        self._clock, self._sleep = clock, sleep
        self._commits = _Commits(engine) if engine.dialect.name == "postgresql" else None
        self._memory = _Memory(str(engine.url.database)) if engine.dialect.name == "sqlite" else None

    def until_answered(self, work: Callable[[], _R]) -> _R:
        """Repeat work that leaves nothing behind when it fails, while the database is unavailable and patience lasts.

        A database whose disk is full counts as unavailable: it could not even record that the run failed.

        Raises
        ------
        DatabaseAwayError, DiskFullError
            If it is still unavailable then.
        """
        begun = self._clock()
        while True:
            try:
                return work()
            except (DatabaseAwayError, DiskFullError) as error:
                if error.final or self._clock() - begun >= self.patience:
                    error.final = True
                    raise
            self._sleep(RETRY_SECONDS)

    def prepare_commits(self) -> None:
        """Create the table in which PostgreSQL records the committed transactions, if there is none."""
        if self._commits is not None:
            with self._plain_words():
                self._commits.prepare()

    @contextmanager
    def writing(self, *, wait: bool = True, options: dict[str, Any] | None = None) -> Iterator[Connection]:
        """Open a transaction that commits at the end, or rolls back on any error.

        Parameters
        ----------
        wait : bool
            Whether to wait at the beginning for a database that is unavailable.
        options : dict, optional
            Of the connection, for this transaction.
        """
        with self._begun(options, wait=wait) as connection:
            yield connection
            number = None if self._commits is None else self._commits.note(connection)
            try:
                connection.commit()
            except (OperationalError, InterfaceError) as error:
                if number is None or not self._was_committed(number):
                    raise error from None

    @contextmanager
    def moving(self) -> Iterator[Connection]:
        """Open a writing transaction that may make tables anew: SQLite enforces foreign keys only at its end.

        Raises
        ------
        ConfigError
            If a foreign key is violated then; nothing is committed.
        """
        with self.writing(options={MOVING: True}) as connection:
            connection.detach()  # nobody gets a connection without foreign keys after this
            yield connection
            is_sqlite = connection.dialect.name == "sqlite"
            if is_sqlite and connection.exec_driver_sql("PRAGMA foreign_key_check").first() is not None:
                raise ConfigError("The database could not be changed: a row would refer to one that is not there.")

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Open a transaction that sees one consistent state and changes nothing."""
        options: dict[str, Any] = {READING: True}
        if self._engine.dialect.name == "postgresql":
            options = {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}
        with self._begun(options) as connection:
            yield connection

    def read_since_commit(self) -> dict[Any, Any] | None:
        """Return what was read since the last commit of any process, for :func:`remembered`; None if unknown."""
        return None if self._memory is None else self._memory.since_commit()

    def read(self, query: Select[Any], made: Callable[..., _R]) -> tuple[_R, ...]:
        """Return what is made of each row that a query finds, in a separate transaction; wait as patience says."""

        def found() -> tuple[_R, ...]:
            with self.reading() as connection:
                return tuple(made(**row) for row in connection.execute(query).mappings())

        return self.until_answered(found)

    def write(self, statement: Executable) -> int:
        """Run one statement in a transaction of its own, and return how many rows it changed; wait as patience says."""

        def done() -> int:
            with self.writing() as connection:
                return connection.execute(statement).rowcount

        return self.until_answered(done)

    @contextmanager
    def _begun(self, options: dict[str, Any] | None = None, *, wait: bool = True) -> Iterator[Connection]:
        def begin() -> Connection:
            with self._plain_words():
                connection = self._engine.connect()
            try:
                with self._plain_words():
                    connection = connection.execution_options(**(options or {}))
                    connection.begin()
            except BaseException:
                connection.close()
                raise
            return connection

        # Closing it rolls back what was not committed.
        with self.until_answered(begin) if wait else begin() as connection, self._plain_words():
            yield connection

    def _was_committed(self, number: tuple[str, int]) -> bool:
        """Ask the database, as soon as it answers, whether it has a transaction."""
        commits = self._commits
        if commits is None:
            raise ValueError("Only with PostgreSQL can it be unknown whether a transaction was committed.")
        begun = self._clock()
        while True:
            try:
                return commits.has(number)
            except (OperationalError, InterfaceError):
                if self._clock() - begun >= max(self.patience, SETTLE_SECONDS):
                    raise CommitInDoubtError(IN_DOUBT) from None
            self._sleep(RETRY_SECONDS)

    @contextmanager
    def _plain_words(self) -> Iterator[None]:
        try:
            yield
        except (OperationalError, InterfaceError) as error:
            # The driver's text may quote the address with its password.
            raise self._in_own_words(error) from None
        except DatabaseError as error:
            if type(error) is not DatabaseError:
                raise
            raise ConfigError("The database file is damaged or is not a database. Restore it from a backup.") from None

    def _in_own_words(self, error: OperationalError | InterfaceError) -> ConfigError | DiskFullError:
        if self._engine.dialect.name == "postgresql":
            if getattr(error.orig, "sqlstate", None) == DISK_FULL:
                return DiskFullError("The disk of the database server is full. Free some space there, then try again.")
            return DatabaseAwayError(AWAY)
        code = getattr(error.orig, "sqlite_errorcode", 0) & 0xFF
        folder = Path(str(self._engine.url.database)).parent
        # Without room for its log or its index, SQLite says that it cannot open or read a file.
        without_room = code in (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN) and has_no_room(folder)
        if code == sqlite3.SQLITE_FULL or without_room:
            return disk_full(folder)
        if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            return DatabaseAwayError("The database stayed busy for 10 seconds. Try again in a moment.")
        return DatabaseAwayError(
            "The database file cannot be read or written. Check HERMITAGE_HOME, DATABASE_URL and the disk, then try "
            "again."
        )

    def close(self) -> None:
        """Close every pooled connection."""
        if self._memory is not None:
            self._memory.close()
        self._engine.dispose()


class _Memory:
    """What was read from a SQLite database since its last commit.

    SQLite tells a connection in three microseconds whether another one, of any process, has committed since it last
    asked. By the same test it drops the pages that a connection holds, so whatever is remembered here is what the
    database would answer again.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._idle: list[_Watcher] = []
        """Connections that nobody is asking; a list's own steps need no lock."""

    def since_commit(self) -> dict[Any, Any] | None:
        """Return what was read since the last commit; None where the database does not say."""
        try:
            watcher = self._idle.pop()
        except IndexError:
            watcher = None
        try:
            watcher = watcher or _Watcher(self._path)
            found = watcher.since_commit()
        except sqlite3.Error:  # whoever reads meets it too, and says what it means
            if watcher is not None:
                watcher.connection.close()
            return None
        self._idle.append(watcher)
        return found

    def close(self) -> None:
        """Close the connections that nobody is asking."""
        while self._idle:
            self._idle.pop().connection.close()


class _Watcher:
    """One connection that only asks whether others have committed, and what was read since they have."""

    def __init__(self, path: str) -> None:
        self.connection = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
        self._version = -1
        self._read: dict[Any, Any] = {}

    def since_commit(self) -> dict[Any, Any]:
        """Return what was read since the last commit; what is read after it was returned may be added.

        Should somebody commit before it is added, it is not found again.
        """
        ((version,),) = self.connection.execute("PRAGMA data_version").fetchall()
        if version != self._version or len(self._read) >= MOST_REMEMBERED:
            self._version, self._read = version, {}
        return self._read


DISK_FULL = "53100"
"""PostgreSQL's error code for a full disk."""


class _Commits:
    """Which transactions of this program PostgreSQL has committed: one row for each connection, with its last one.

    The server's own transaction numbers cannot tell: after a crash it may reuse the number of a transaction that was
    lost. Rows older than a day are deleted.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def prepare(self) -> None:
        with self._engine.begin() as connection:
            found = connection.execute(text("SELECT to_regclass('hermitage_commits')")).scalar_one()
            if found is None:
                # Several processes may start together; the second waits for the first.
                connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": COMMITS_LOCK})
                connection.execute(
                    text(
                        "CREATE TABLE IF NOT EXISTS hermitage_commits "
                        "(client TEXT PRIMARY KEY, number BIGINT NOT NULL, noted TIMESTAMPTZ NOT NULL)"
                    )
                )
            connection.execute(text("DELETE FROM hermitage_commits WHERE noted < now() - interval '1 day'"))

    def note(self, connection: Connection) -> tuple[str, int]:
        """Record the number of the transaction as its last statement."""
        of_connection = connection.info.setdefault(COMMITS, {"client": uuid4().hex, "number": 0})
        of_connection["number"] += 1
        client, number = of_connection["client"], of_connection["number"]
        connection.execute(
            text(
                "INSERT INTO hermitage_commits VALUES (:client, :number, now()) "
                "ON CONFLICT (client) DO UPDATE SET number = excluded.number, noted = excluded.noted"
            ),
            {"client": client, "number": number},
        )
        return client, number

    def has(self, number: tuple[str, int]) -> bool:
        """Whether a transaction was committed; waits for one that is still running, because it holds its row."""
        client, wanted = number
        with self._engine.begin() as connection:
            last = connection.execute(
                text(
                    "INSERT INTO hermitage_commits VALUES (:client, 0, now()) "
                    "ON CONFLICT (client) DO UPDATE SET noted = excluded.noted RETURNING number"
                ),
                {"client": client},
            ).scalar_one()
        return int(last) >= wanted


COMMITS = "hermitage_commits"
COMMITS_LOCK = 0x434F4D4D
"""Key of the PostgreSQL advisory lock for creating the table of commits."""


class _Transacting(Protocol):
    @property
    def _transactions(self) -> Transactions: ...


_Owner = TypeVar("_Owner", bound=_Transacting)


def patient(method: Callable[Concatenate[_Owner, _P], _R]) -> Callable[Concatenate[_Owner, _P], _R]:
    """Repeat a method while the database does not answer, as long as the patience of its transactions lasts.

    For a method that is one transaction. It may then call other patient methods, and write files that a repetition
    would write in the same way: a transaction that was not committed has left nothing else behind.
    """

    @functools.wraps(method)
    def waiting(self: _Owner, /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        return self._transactions.until_answered(lambda: method(self, *args, **kwargs))

    return waiting


def remembered(method: Callable[Concatenate[_Owner, _P], _R]) -> Callable[Concatenate[_Owner, _P], _R]:
    """Return what a method returned before, for as long as nobody has committed anything to the database since.

    For a method that does nothing but read the database, in a transaction of its own, and whose arguments and result
    nobody changes. On PostgreSQL, which cannot tell so cheaply, the method is called every time.
    """

    @functools.wraps(method)
    def remembering(self: _Owner, /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        read = self._transactions.read_since_commit()
        if read is None:
            return method(self, *args, **kwargs)
        asked = (self, method, args, *kwargs.items())
        try:
            found: _R = read[asked]
        except KeyError:
            found = read[asked] = method(self, *args, **kwargs)
        return found

    return remembering
