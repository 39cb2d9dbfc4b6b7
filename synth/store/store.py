"""The store of one installation."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from types import TracebackType
from typing import Self

from sqlalchemy import Connection

from synth.store.accounts import Accounts
from synth.store.charges import Charges
from synth.store.decisions import Decisions
from synth.store.engine import PATIENCE_SECONDS, Transactions, make_engine
from synth.store.events import Events
from synth.store.migrations import prepare, since
from synth.store.queue import RunQueue
from synth.store.releases import Releases
from synth.store.runs import Runs
from synth.store.tables import Tables
from synth.system.settings import Settings

__all__ = ["Store"]


class Store:
    """Accounts and decisions about them, tables, runs, charges, releases and events, in SQLite or PostgreSQL.

    The store keeps ciphertext and keyed hashes; it has no key and never decrypts.

    Parameters
    ----------
    settings : Settings
        ``home`` is made if need be, readable by its owner only; the database is prepared if it is empty or older.
    patience : float
        Seconds for which a database that does not answer is waited for, at every use of it.

    Raises
    ------
    ConfigError
        If the database cannot be reached or was written by a newer version.
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
        self.runs = Runs(self.transactions)
        self.queue = RunQueue(self.transactions)
        self.charges = Charges(self.transactions)
        self.decisions = Decisions()
        self.releases = Releases(self.transactions)
        self.events = Events(self.transactions)

    def _prepare(self) -> None:
        self.transactions.prepare_commits()
        prepare(self.transactions)

    def be_patient(self, seconds: float = PATIENCE_SECONDS) -> None:
        """From now on wait for a database that does not answer: a run was charged, or is about to be."""
        self.transactions.patience = seconds

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """Open a transaction over several of the parts."""
        with self.transactions.writing() as connection:
            yield connection

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Open a transaction that sees one consistent state of all parts."""
        with self.transactions.reading() as connection:
            yield connection

    def newer_layout_since(self) -> datetime | None:
        """Return when a database of an older version of the program was brought to this layout, or None."""
        with self.reading() as connection:
            return since(connection)

    def close(self) -> None:
        """Close every connection."""
        self.transactions.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
