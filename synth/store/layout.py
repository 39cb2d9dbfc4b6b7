"""What all tables of the database have in common, and what it refuses by itself; it never has a private cell.

Each table is declared next to its records. The chain of the ledger detects an alteration afterwards; the triggers here
prevent accidents: changing or deleting entries, events and releases, or rewriting an account.
"""

from __future__ import annotations

import json
from dataclasses import fields
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import BigInteger, Column, Connection, Dialect, Integer, MetaData, String, Table, Text, text
from sqlalchemy.types import TypeDecorator

__all__ = [
    "DIGEST",
    "EARLY_LAYOUT_TABLE",
    "IDENTITY",
    "LAYOUT",
    "LAYOUT_TABLE",
    "METADATA",
    "Json",
    "Moment",
    "Named",
    "create_triggers",
    "drop_triggers",
    "now",
    "row_values",
]


def now() -> datetime:
    """Return the current time in UTC in whole seconds: a finer time would reveal how long the rows took."""
    return datetime.now(UTC).replace(microsecond=0)


# Columns --------------------------------------------------------------------------------------------------------------


class Moment(TypeDecorator[datetime]):
    """A time stored as whole seconds since 1970, the same integer on every database."""

    impl = BigInteger
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> int | None:
        """Turn a time into seconds."""
        return None if value is None else int(value.timestamp())

    def process_result_value(self, value: int | None, dialect: Dialect) -> datetime | None:
        """Turn seconds into a time in UTC."""
        return None if value is None else datetime.fromtimestamp(value, UTC)


class Named(TypeDecorator[StrEnum]):
    """A member of an enumeration, stored as text, since drivers treat enumerations differently."""

    impl = String
    cache_ok = True

    def __init__(self, kind: type[StrEnum], length: int) -> None:
        super().__init__(length)
        self.kind, self.length = kind, length

    def process_bind_param(self, value: StrEnum | None, dialect: Dialect) -> str | None:
        """Turn a member into its text."""
        return None if value is None else str(value)

    def process_result_value(self, value: str | None, dialect: Dialect) -> StrEnum | None:
        """Turn a text into its member."""
        return None if value is None else self.kind(value)


class Json(TypeDecorator[Any]):
    """JSON values stored as text; a list comes back as a tuple.

    Parameters
    ----------
    sort_keys : bool
        Whether keys are stored in alphabetical order.
    """

    impl = Text
    cache_ok = True

    def __init__(self, *, sort_keys: bool = True) -> None:
        super().__init__()
        self.sort_keys = sort_keys

    def process_bind_param(self, value: Any, dialect: Dialect) -> str:
        """Turn values into text."""
        return json.dumps(value, sort_keys=self.sort_keys)

    def process_result_value(self, value: str | None, dialect: Dialect) -> Any:
        """Turn text into values."""
        found = json.loads(str(value))
        return tuple(found) if isinstance(found, list) else found


IDENTITY = String(36)
DIGEST = String(64)

METADATA = MetaData()

LAYOUT = "0.9.0"
"""The layout of this program's tables: the version that last changed them, the newest of ``layouts/versions/``."""

LAYOUT_TABLE = Table("hermitage_layout", MetaData(), Column("version_num", String(32), primary_key=True))
"""Where Alembic notes the layout that a database has. Its usual name could be that of another program's table."""

EARLY_LAYOUT_TABLE = Table("store_version", MetaData(), Column("number", Integer, primary_key=True))
"""Where versions before 0.9.0 did."""


def row_values(record: Any) -> dict[str, Any]:
    """Return the fields of a record by name, as the columns of its table."""
    return {field.name: getattr(record, field.name) for field in fields(record)}


# What the database itself refuses -------------------------------------------------------------------------------------


APPEND_ONLY = ("charges", "decisions", "events", "releases", "rulings")

IN_ORDER = {"charges": "position", "decisions": "number"}
"""Tables whose rows are numbered from 1 for each account, without gaps."""

FIXED_COLUMNS = ("id", "name", "created")
DECIDED_ONCE_COLUMNS = ("neighbours", "protects", "id_column", "rows_per_unit")


def create_triggers(connection: Connection) -> None:
    """Create the triggers of the database, inside the caller's transaction."""
    if connection.dialect.name == "sqlite":
        statements = [statement for table in APPEND_ONLY for statement in _sqlite_append_only(table)]
        statements += [*_sqlite_no_replace("accounts"), *_sqlite_account()]
    else:
        statements = [
            "CREATE FUNCTION hermitage_refuse() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN RAISE EXCEPTION '% is append-only', TG_TABLE_NAME; END $$",
            *(_postgresql_append_only(table) for table in APPEND_ONLY),
            _postgresql_account(),
            "CREATE TRIGGER accounts_stay BEFORE DELETE OR TRUNCATE ON accounts "
            "FOR EACH STATEMENT EXECUTE FUNCTION hermitage_refuse()",
        ]
    for statement in statements:
        connection.execute(text(statement))


def drop_triggers(connection: Connection) -> None:
    """Drop the triggers of the database, of whatever layout, inside the caller's transaction."""
    if connection.dialect.name == "sqlite":
        found = connection.execute(text("SELECT name FROM sqlite_master WHERE type = 'trigger'")).scalars().all()
        for name in found:
            connection.exec_driver_sql(f"DROP TRIGGER {connection.dialect.identifier_preparer.quote(name)}")
    else:
        connection.execute(text("DROP FUNCTION IF EXISTS hermitage_refuse() CASCADE"))


def _sqlite_append_only(table: str) -> list[str]:
    statements = [
        f"CREATE TRIGGER {table}_no_{change.lower()} BEFORE {change} ON {table} "
        f"BEGIN SELECT RAISE(ABORT, '{table} is append-only'); END"
        for change in ("UPDATE", "DELETE")
    ]
    # INSERT OR REPLACE deletes without a delete trigger, so a number that is taken or skipped is refused as well.
    if table not in IN_ORDER:
        return statements + _sqlite_no_replace(table)
    last = f"SELECT coalesce(max({IN_ORDER[table]}), 0) FROM {table} WHERE account_id = NEW.account_id"  # noqa: S608
    return [
        *statements,
        f"CREATE TRIGGER {table}_in_order BEFORE INSERT ON {table} WHEN NEW.{IN_ORDER[table]} <> ({last}) + 1 "
        f"BEGIN SELECT RAISE(ABORT, '{table} is append-only'); END",
    ]


def _sqlite_no_replace(table: str) -> list[str]:
    known = f"SELECT id FROM {table}"  # noqa: S608 - one of our own names
    return [
        f"CREATE TRIGGER {table}_no_replace BEFORE INSERT ON {table} WHEN NEW.id IN ({known}) "
        f"BEGIN SELECT RAISE(ABORT, '{table} is append-only'); END"
    ]


def _sqlite_account() -> list[str]:
    return [
        f"CREATE TRIGGER accounts_fixed BEFORE UPDATE ON accounts WHEN {_account_rewritten('IS NOT')} "
        "BEGIN SELECT RAISE(ABORT, 'an account is fixed'); END",
        "CREATE TRIGGER accounts_no_delete BEFORE DELETE ON accounts "
        "BEGIN SELECT RAISE(ABORT, 'an account stays'); END",
    ]


def _postgresql_append_only(table: str) -> str:
    return (
        f"CREATE TRIGGER {table}_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON {table} "
        "FOR EACH STATEMENT EXECUTE FUNCTION hermitage_refuse()"
    )


def _postgresql_account() -> str:
    return (
        "CREATE TRIGGER accounts_fixed BEFORE UPDATE ON accounts FOR EACH ROW "
        f"WHEN ({_account_rewritten('IS DISTINCT FROM')}) EXECUTE FUNCTION hermitage_refuse()"
    )


def _account_rewritten(differs: str) -> str:
    fixed = [f"NEW.{column} {differs} OLD.{column}" for column in FIXED_COLUMNS]
    decided = [f"(OLD.{column} IS NOT NULL AND NEW.{column} {differs} OLD.{column})" for column in DECIDED_ONCE_COLUMNS]
    return " OR ".join(fixed + decided)
