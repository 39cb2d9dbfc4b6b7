"""The store of one installation."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from types import MappingProxyType, TracebackType
from typing import Self

from sqlalchemy import Connection, func, insert, inspect, select, text, update

from synth.errors import ConfigError
from synth.store.accounts import Accounts, promise_of_config, unit_values
from synth.store.engine import PATIENCE_SECONDS, Transactions, make_engine
from synth.store.entries import Charges, ChargeState, Decisions, Events, Releases
from synth.store.layout import (
    ACCOUNTS,
    BEGUN,
    CHARGES,
    DECISIONS,
    DRAFTS,
    METADATA,
    RELEASES,
    RUNS,
    VERSION,
    WORK,
    add_decisions,
    create_triggers,
    now,
)
from synth.store.runs import Runs
from synth.store.tables import BegunDrafts, Drafts, Tables
from synth.store.work import WorkTable
from synth.system.settings import Settings

__all__ = ["CURRENT_VERSION", "MIGRATIONS", "Store", "prepare", "since"]


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
        self.drafts = Drafts(self.transactions)
        self.begun = BegunDrafts(self.transactions)
        self.runs = Runs(self.transactions)
        self.work = WorkTable(self.transactions)
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


# The version of the database layout, and the steps from each version to the next --------------------------------------


CURRENT_VERSION = 7


def _count_pure_epsilon(connection: Connection) -> None:
    # A column with a default changes no row, so neither the triggers nor the hash chain are touched.
    connection.execute(text("ALTER TABLE charges ADD COLUMN pure_units BIGINT DEFAULT 0 NOT NULL"))


def _say_whom_accounts_protect(connection: Connection) -> None:
    """Add decisions, and the unit of every account, worked out from the runs that were charged to it.

    The hash chain of an account stays as it is; the ledger takes it over under its key when it is first opened.
    """
    on_accounts = "" if connection.dialect.name == "sqlite" else " ON accounts"
    for statement in (
        f"DROP TRIGGER accounts_fixed{on_accounts}",
        "ALTER TABLE accounts DROP COLUMN unit",
        "ALTER TABLE accounts ADD COLUMN id_column TEXT",
        "ALTER TABLE accounts ADD COLUMN rows_per_unit BIGINT",
        "ALTER TABLE accounts ADD COLUMN disagreeing BOOLEAN DEFAULT FALSE NOT NULL",
        "ALTER TABLE accounts ADD COLUMN keyed BOOLEAN DEFAULT TRUE NOT NULL",
        "UPDATE accounts SET keyed = FALSE",
        "ALTER TABLE store_version ADD COLUMN since BIGINT",
    ):
        connection.execute(text(statement))
    # Never before the last release that is there, whatever the clock of this machine says.
    sealed = connection.execute(select(func.max(RELEASES.c.sealed))).scalar_one()
    connection.execute(update(VERSION).values(since=max(now(), sealed or now())))
    DECISIONS.create(connection)
    for account_id, units in _charged_units(connection).items():
        values = {"disagreeing": True} if len(units) > 1 else units.pop()
        connection.execute(update(ACCOUNTS).where(ACCOUNTS.c.id == account_id).values(**dict(values)))
    add_decisions(connection)


def _charged_units(connection: Connection) -> dict[str, set[tuple[tuple[str, str | int | None], ...]]]:
    """Return the units, as columns of an account, of the runs whose charge stands; a run that is unknown has none."""
    query = (
        select(CHARGES.c.charge_id, CHARGES.c.account_id, CHARGES.c.state, RUNS.c.config)
        .join(RUNS, RUNS.c.id == CHARGES.c.run_id)
        .order_by(CHARGES.c.account_id, CHARGES.c.position)
    )
    latest = {
        charge_id: (account_id, state, config) for charge_id, account_id, state, config in connection.execute(query)
    }
    found = defaultdict(set)
    for account_id, state, config in latest.values():
        if state != ChargeState.FREED.value:
            found[account_id].add(tuple(unit_values(promise_of_config(config)[1]).items()))
    return dict(found)


def _count_attempts(connection: Connection) -> None:
    # What an older version has begun it has begun once, and kept no answers of.
    connection.execute(text("ALTER TABLE runs ADD COLUMN attempts INTEGER DEFAULT 0 NOT NULL"))
    connection.execute(text("UPDATE runs SET attempts = 1 WHERE claimed"))


def _keep_all_work_in_one_table(connection: Connection) -> None:
    """Move what a run has come to into the table of work; other work stood in files, which are left where they are."""
    WORK.create(connection)
    own = {column.name for column in RUNS.columns}
    moved = [column.name for column in WORK.columns if column.name not in {"kind", "subject", "asked"}]
    names = ", ".join(moved)
    connection.execute(
        text(f"INSERT INTO work (kind, subject, {names}) SELECT 'run', id, {names} FROM runs")  # noqa: S608
    )
    connection.execute(text("DROP INDEX ix_runs_state"))
    for name in moved:
        if name not in own:
            connection.execute(text(f"ALTER TABLE runs DROP COLUMN {name}"))


def _keep_drafts(connection: Connection) -> None:
    """Add a place for what was typed about a table; an older version kept it in the memory of the server."""
    DRAFTS.create(connection)


def _keep_what_is_begun(connection: Connection) -> None:
    """Add a place for what is typed before a table has come; an older version kept it in the memory of the server."""
    BEGUN.create(connection)


MIGRATIONS: Mapping[int, Callable[[Connection], None]] = MappingProxyType(
    {
        1: _count_pure_epsilon,
        2: _say_whom_accounts_protect,
        3: _count_attempts,
        4: _keep_all_work_in_one_table,
        5: _keep_drafts,
        6: _keep_what_is_begun,
    }
)
"""From version n to n + 1; there is no way back, because the ledger only grows."""

PREPARATION_LOCK = 0x4845524D
"""Key of the PostgreSQL advisory lock under which processes that start together prepare one at a time."""


def prepare(transactions: Transactions) -> None:
    """Create the layout in an empty database, or bring an older one up to date.

    Raises
    ------
    ConfigError
        If the database was written by a newer version of the program.
    """
    with transactions.writing() as connection:
        if connection.dialect.name == "postgresql":
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": PREPARATION_LOCK})
        if not inspect(connection).has_table(VERSION.name):
            METADATA.create_all(connection)
            create_triggers(connection)
            connection.execute(insert(VERSION).values(number=CURRENT_VERSION))
            return
        found = connection.execute(select(VERSION.c.number)).scalar_one()
        if found > CURRENT_VERSION:
            raise ConfigError(
                f"The database has layout {found}; this program knows layouts up to {CURRENT_VERSION}. "
                "Install the newer version of the program."
            )
        for number in range(found, CURRENT_VERSION):
            MIGRATIONS[number](connection)
        if found < CURRENT_VERSION:
            connection.execute(update(VERSION).values(number=CURRENT_VERSION))


def since(connection: Connection) -> datetime | None:
    """Return when an older database was brought to the present layout; None where it was made with it."""
    moment: datetime | None = connection.execute(select(VERSION.c.since)).scalar_one()
    return moment
