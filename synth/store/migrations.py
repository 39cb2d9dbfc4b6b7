"""The version of the database layout, and the steps from each version to the next."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from sqlalchemy import Connection, insert, inspect, select, text, update

from synth.errors import ConfigError
from synth.store.definitions import METADATA, VERSION
from synth.store.engine import Transactions
from synth.store.triggers import create_triggers

__all__ = ["CURRENT_VERSION", "MIGRATIONS", "prepare"]

CURRENT_VERSION = 2


def _count_pure_epsilon(connection: Connection) -> None:
    # A column with a default changes no row, so neither the triggers nor the hash chain are touched.
    connection.execute(text("ALTER TABLE charges ADD COLUMN pure_units BIGINT DEFAULT 0 NOT NULL"))


MIGRATIONS: Mapping[int, Callable[[Connection], None]] = MappingProxyType({1: _count_pure_epsilon})
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
