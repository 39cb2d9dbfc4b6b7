"""The store of one installation."""

from __future__ import annotations

from contextlib import AbstractContextManager
from types import TracebackType
from typing import Self

from sqlalchemy import Connection, String, column, func, inspect, select, table, text

from synth.errors import ConfigError
from synth.names import shown
from synth.store.accounts import Accounts
from synth.store.engine import PATIENCE_SECONDS, Transactions, make_engine
from synth.store.entries import Charges, Decisions, Events, Releases
from synth.store.layout import EARLY_LAYOUT_TABLE, LAYOUT, LAYOUT_TABLE
from synth.store.rulings import Rulings
from synth.store.runs import Runs
from synth.store.tables import BegunDrafts, Drafts, Tables
from synth.store.work import ACTIVE_STATES, WorkTable
from synth.system.settings import Settings
from synth.version import OLDEST_READ, __version__, is_before

__all__ = ["Store", "prepare", "require_layout"]


class Store:
    """Accounts, tables, runs, charges, decisions, releases and events, in SQLite or PostgreSQL.

    The store keeps ciphertext and keyed hashes; it has no key and never decrypts.

    Parameters
    ----------
    settings : Settings
        ``home`` is created if it does not exist, readable by its owner only; an empty database is prepared, and one of
        an earlier layout is moved to this program's.
    patience : float
        Seconds to wait, each time, for a database that does not answer.

    Raises
    ------
    ConfigError
        If the database cannot be reached, has a layout that this program does not know, or cannot be moved.
    """

    def __init__(self, settings: Settings, *, patience: float = 0.0) -> None:
        self.settings = settings
        try:
            settings.home.mkdir(mode=0o700, parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError):
            raise ConfigError(f"HERMITAGE_HOME: '{settings.home.name}' is not a folder. Name a folder.") from None
        self.transactions = Transactions(make_engine(settings.database_url), patience=patience)
        try:
            self.transactions.until_answered(lambda: prepare(self.transactions))
        except BaseException:
            self.transactions.close()
            raise
        self.accounts = Accounts(self.transactions)
        self.tables = Tables(self.transactions)
        self.drafts = Drafts(self.transactions)
        self.begun = BegunDrafts(self.transactions)
        self.runs = Runs(self.transactions)
        self.work = WorkTable(self.transactions)
        self.charges = Charges(self.transactions)
        self.decisions = Decisions()
        self.releases = Releases(self.transactions)
        self.events = Events(self.transactions)
        self.rulings = Rulings(self.transactions)

    def be_patient(self, seconds: float = PATIENCE_SECONDS) -> None:
        """From now on wait for a database that does not answer, because a run was charged or is about to be."""
        self.transactions.patience = seconds

    def writing(self) -> AbstractContextManager[Connection]:
        """Open a transaction over several parts of the store."""
        return self.transactions.writing()

    def reading(self) -> AbstractContextManager[Connection]:
        """Open a transaction that sees one consistent state of all parts."""
        return self.transactions.reading()

    def close(self) -> None:
        """Close every connection."""
        self.transactions.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


# The layout of the database -------------------------------------------------------------------------------------------


PREPARATION_LOCK = 0x4845524D
"""Key of the PostgreSQL advisory lock for preparing the database, one process at a time."""


def require_layout(settings: Settings) -> None:
    """Refuse a database whose layout this program does not know; nothing is written.

    Raises
    ------
    ConfigError
        Saying which version to use.
    """
    transactions = Transactions(make_engine(settings.database_url))
    try:
        with transactions.reading() as connection:
            _layout_of(connection)
    finally:
        transactions.close()


def _layout_of(connection: Connection) -> str | None:
    """Return the layout that the database has, None if it is empty; refuse one that is no layout of this program."""
    tables = inspect(connection)
    if not tables.has_table(LAYOUT_TABLE.name):
        if tables.has_table(EARLY_LAYOUT_TABLE.name):
            raise ConfigError(
                f"The database was written by a version before {OLDEST_READ}; this program, version {__version__}, "
                "cannot read it. Use the version that wrote it, or set HERMITAGE_HOME to an empty folder."
            )
        return None
    found = connection.execute(select(LAYOUT_TABLE.c.version_num)).scalar_one()
    if found != LAYOUT and not is_before(found, LAYOUT):
        raise ConfigError(
            f"The database has layout {shown(found)}; this program, version {__version__}, only knows layouts up to "
            f"{LAYOUT}. Use the later version that wrote it."
        )
    return str(found)


def prepare(transactions: Transactions) -> None:
    """Move an empty database, or one of an earlier layout, to the layout of this program; one process at a time.

    Raises
    ------
    ConfigError
        If the database is of no layout that this program knows, if work is in progress, or if the move fails. The
        database then stays as it was.
    """
    with transactions.reading() as connection:
        if _layout_of(connection) == LAYOUT:
            return
    transactions.prepare_commits()
    with transactions.moving() as connection:
        if connection.dialect.name == "postgresql":
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": PREPARATION_LOCK})
        found = _layout_of(connection)
        if found == LAYOUT:  # another process was first
            return
        if found is not None:
            _require_idle(connection, found)
        from synth.store.moving import move  # Alembic takes longer to load than a command that changes nothing

        move(connection, found)


def _require_idle(connection: Connection, found: str) -> None:
    """Refuse while a process of an earlier version may write to the tables that it knows."""
    # Of a table of an earlier layout only what every layout has is asked.
    state = column("state", String)
    at_work = select(func.count()).select_from(table("work")).where(state.in_([str(one) for one in ACTIVE_STATES]))
    if connection.execute(at_work).scalar_one():
        raise ConfigError(
            f"Work is in progress in this installation, and its database has layout {found}; this program, version "
            f"{__version__}, would move it to {LAYOUT}. Stop the work, or wait until it has ended, with the version "
            "that began it, then try again."
        )
