"""The version of the database layout, and the steps from each version to the next."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from datetime import datetime
from types import MappingProxyType

from sqlalchemy import Connection, func, insert, inspect, select, text, update

from synth.errors import ConfigError
from synth.store.accounts import promise_of_config, unit_values
from synth.store.charges import ChargeState
from synth.store.definitions import ACCOUNTS, CHARGES, DECISIONS, METADATA, RELEASES, RUNS, VERSION
from synth.store.engine import Transactions
from synth.store.moments import now
from synth.store.triggers import add_decisions, create_triggers

__all__ = ["CURRENT_VERSION", "MIGRATIONS", "prepare", "since"]

CURRENT_VERSION = 4


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
    connection.execute(update(RUNS).where(RUNS.c.claimed).values(attempts=1))


MIGRATIONS: Mapping[int, Callable[[Connection], None]] = MappingProxyType(
    {1: _count_pure_epsilon, 2: _say_whom_accounts_protect, 3: _count_attempts}
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
