"""The store of one installation."""

from __future__ import annotations

from contextlib import AbstractContextManager
from types import TracebackType
from typing import Self

from sqlalchemy import Connection, insert, inspect, select, text

from synth.errors import ConfigError
from synth.store.accounts import Accounts
from synth.store.engine import PATIENCE_SECONDS, Transactions, make_engine
from synth.store.entries import Charges, Decisions, Events, Releases
from synth.store.layout import METADATA, VERSION, create_triggers
from synth.store.rulings import Rulings
from synth.store.runs import Runs
from synth.store.tables import BegunDrafts, Drafts, Tables
from synth.store.work import WorkTable
from synth.system.settings import Settings
from synth.version import OLDEST_READ, __version__

__all__ = ["CURRENT_VERSION", "Store", "prepare", "require_layout"]


class Store:
    """Accounts, tables, runs, charges, decisions, releases and events, in SQLite or PostgreSQL.

    The store keeps ciphertext and keyed hashes; it has no key and never decrypts.

    Parameters
    ----------
    settings : Settings
        ``home`` is created if it does not exist, readable by its owner only; an empty database is prepared.
    patience : float
        Seconds to wait, each time, for a database that does not answer.

    Raises
    ------
    ConfigError
        If the database cannot be reached, or a version with a different layout wrote it.
    """

    def __init__(self, settings: Settings, *, patience: float = 0.0) -> None:
        self.settings = settings
        settings.home.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.transactions = Transactions(make_engine(settings.database_url), patience=patience)
        try:
            self.transactions.until_answered(self._prepare)
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

    def _prepare(self) -> None:
        require_layout(self.transactions)
        self.transactions.prepare_commits()
        prepare(self.transactions)

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


# The version of the database layout -----------------------------------------------------------------------------------


CURRENT_VERSION = 8
"""Versions before 0.9.0 wrote layouts up to 7."""

PREPARATION_LOCK = 0x4845524D
"""Key of the PostgreSQL advisory lock for preparing the database, one process at a time."""


def require_layout(transactions: Transactions) -> None:
    """Refuse a database with the layout of another version of the program; nothing is written.

    Raises
    ------
    ConfigError
        Saying which version to use.
    """
    with transactions.reading() as connection:
        if not inspect(connection).has_table(VERSION.name):
            return
        found = connection.execute(select(VERSION.c.number)).scalar_one()
    if found > CURRENT_VERSION:
        raise ConfigError(
            f"The database has layout {found}; this program, version {__version__}, only knows layouts up to "
            f"{CURRENT_VERSION}. Use the later version that wrote it."
        )
    if found < CURRENT_VERSION:
        raise ConfigError(
            f"The database was written by a version before {OLDEST_READ}; this program, version {__version__}, cannot "
            "read it. Use the version that wrote it, or set HERMITAGE_HOME to an empty folder."
        )


def prepare(transactions: Transactions) -> None:
    """Create the layout in an empty database."""
    with transactions.writing() as connection:
        if connection.dialect.name == "postgresql":
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": PREPARATION_LOCK})
        if not inspect(connection).has_table(VERSION.name):
            METADATA.create_all(connection)
            create_triggers(connection)
            connection.execute(insert(VERSION).values(number=CURRENT_VERSION))
