"""What one installation's database holds, and what it refuses by itself; it has no place for a cell of a private table.

The chain of the ledger finds an alteration afterwards; the triggers here stop the accident beforehand: changing or
deleting entries, events and releases, or re-writing an account.
"""

from __future__ import annotations

from datetime import UTC, datetime
from enum import Enum
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Connection,
    Dialect,
    Double,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    text,
)
from sqlalchemy.types import TypeDecorator

__all__ = [
    "ACCOUNTS",
    "APPEND_ONLY",
    "BEGUN",
    "CHARGES",
    "DECISIONS",
    "DRAFTS",
    "EVENTS",
    "METADATA",
    "RELEASES",
    "RUNS",
    "TABLES",
    "VERSION",
    "WORK",
    "Moment",
    "create_triggers",
    "now",
    "row_values",
]


def now() -> datetime:
    """Return the present moment in UTC, cut to whole seconds: a finer time would betray how long rows took."""
    return datetime.now(UTC).replace(microsecond=0)


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


def row_values(record: Any) -> dict[str, Any]:
    """Return the fields of a slotted record by name, enumerations as their text (drivers differ on enumerations)."""
    values = {name: getattr(record, name) for name in type(record).__slots__}
    return {name: value.value if isinstance(value, Enum) else value for name, value in values.items()}


# Tables ---------------------------------------------------------------------------------------------------------------

IDENTITY = String(36)
DIGEST = String(64)

METADATA = MetaData()

VERSION = Table(
    "store_version",
    METADATA,
    Column("number", Integer, primary_key=True, autoincrement=False),
)

ACCOUNTS = Table(
    "accounts",
    METADATA,
    Column("id", IDENTITY, primary_key=True),
    Column("name", String(120), nullable=False, unique=True),
    Column("neighbours", String(20)),
    Column("protects", Text),
    Column("id_column", Text),
    Column("rows_per_unit", BigInteger),
    Column("epsilon_cap", Double),
    Column("delta_cap", Double),
    Column("frozen", Boolean, nullable=False),
    Column("split_key", LargeBinary),
    Column("created", Moment, nullable=False),
)

TABLES = Table(
    "tables",
    METADATA,
    Column("id", IDENTITY, primary_key=True),
    Column("account_id", IDENTITY, ForeignKey("accounts.id"), nullable=False, index=True),
    Column("name", String(120), nullable=False),
    Column("kind", String(10), nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("state", String(10), nullable=False),
    Column("fingerprint", DIGEST, nullable=False, index=True),
    Column("keep_until", Moment),
    Column("form", Text),
    Column("schema", Text),
    Column("created", Moment, nullable=False),
    Column("deleted", Moment),
)

DRAFTS = Table(
    "drafts",
    METADATA,
    Column("table_id", IDENTITY, ForeignKey("tables.id"), primary_key=True),
    # How often it was saved: whoever saw an earlier number has not seen what it says now.
    Column("number", BigInteger, nullable=False),
    Column("body", Text, nullable=False),
    Column("saved", Moment, nullable=False),
)

BEGUN = Table(
    "begun",
    METADATA,
    # Of the draft itself: what is typed before a table has come belongs to none.
    Column("table_id", IDENTITY, primary_key=True),
    Column("number", BigInteger, nullable=False),
    Column("body", Text, nullable=False),
    Column("saved", Moment, nullable=False),
)

WORK = Table(
    "work",
    METADATA,
    # That of the run, where it is one; else a new one each time that the work is started.
    Column("id", IDENTITY, primary_key=True),
    Column("kind", String(10), nullable=False),
    Column("subject", String(120), nullable=False),
    Column("asked", Text),
    Column("owner", String(120), nullable=False),
    Column("state", String(10), nullable=False, index=True),
    Column("phase", Text, nullable=False),
    Column("step", BigInteger, nullable=False),
    Column("steps", BigInteger, nullable=False),
    Column("losses", Text, nullable=False),
    Column("message", Text, nullable=False),
    Column("incident_id", String(16)),
    Column("cancel_requested", Moment),
    Column("gpus", Integer, nullable=False),
    Column("cpus", Integer, nullable=False),
    Column("place", BigInteger),
    Column("host", Text),
    Column("pid", BigInteger),
    Column("pid_created", Double),
    Column("claimed", Boolean, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("heartbeat", Moment),
    Column("gpu", Text),
    Column("created", Moment, nullable=False),
    Column("started", Moment),
    Column("finished", Moment),
    # Of several processes that start the same work at once, one does.
    Index("ix_work_subject", "kind", "subject", unique=True),
)

RUNS = Table(
    "runs",
    METADATA,
    Column("id", IDENTITY, primary_key=True),
    Column("account_id", IDENTITY, ForeignKey("accounts.id"), nullable=False, index=True),
    Column("table_id", IDENTITY, ForeignKey("tables.id")),
    Column("test_table_id", IDENTITY, ForeignKey("tables.id")),
    Column("config", Text, nullable=False),
    Column("device", Text),
)

CHARGES = Table(
    "charges",
    METADATA,
    Column("account_id", IDENTITY, ForeignKey("accounts.id"), primary_key=True),
    Column("position", BigInteger, primary_key=True, autoincrement=False),
    Column("charge_id", IDENTITY, nullable=False, index=True),
    Column("run_id", IDENTITY, nullable=False, index=True),
    Column("state", String(12), nullable=False),
    Column("purpose", Text, nullable=False),
    Column("who", String(120), nullable=False),
    Column("neighbours", String(20), nullable=False),
    Column("epsilon", Double, nullable=False),
    Column("delta", Double, nullable=False),
    Column("mu_squared_units", BigInteger, nullable=False),
    Column("slack_units", BigInteger, nullable=False),
    Column("coordinates", BigInteger, nullable=False),
    Column("additive_delta_units", BigInteger, nullable=False),
    Column("pure_units", BigInteger, nullable=False),
    Column("accountant", Text, nullable=False),
    Column("certificate_id", Text),
    Column("time", Moment, nullable=False),
    Column("previous", DIGEST, nullable=False),
    Column("digest", DIGEST, nullable=False),
)

DECISIONS = Table(
    "decisions",
    METADATA,
    Column("account_id", IDENTITY, ForeignKey("accounts.id"), primary_key=True),
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("charges", BigInteger, nullable=False),
    Column("kind", String(12), nullable=False),
    Column("body", Text, nullable=False),
    Column("who", String(120), nullable=False),
    Column("time", Moment, nullable=False),
    Column("previous", DIGEST, nullable=False),
    Column("digest", DIGEST, nullable=False),
)

RELEASES = Table(
    "releases",
    METADATA,
    Column("id", IDENTITY, primary_key=True),
    Column("run_id", IDENTITY, ForeignKey("runs.id"), nullable=False, index=True),
    Column("account_id", IDENTITY, ForeignKey("accounts.id"), nullable=False, index=True),
    Column("certificate_id", Text, nullable=False),
    Column("certificate_digest", DIGEST, nullable=False),
    Column("attestations", Text, nullable=False),
    Column("who", String(120), nullable=False),
    Column("sealed", Moment, nullable=False),
)

EVENTS = Table(
    "events",
    METADATA,
    Column("id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True),
    Column("kind", String(20), nullable=False, index=True),
    Column("account_id", IDENTITY, index=True),
    Column("run_id", IDENTITY),
    Column("table_id", IDENTITY),
    Column("who", String(120), nullable=False),
    Column("detail", Text, nullable=False),
    Column("time", Moment, nullable=False),
)


# What the database itself refuses -------------------------------------------------------------------------------------


APPEND_ONLY = ("charges", "decisions", "events", "releases")

IN_ORDER = {"charges": "position", "decisions": "number"}
"""Tables whose rows are numbered from 1 for every account, without a gap."""

FIXED_COLUMNS = ("id", "name", "created")
DECIDED_ONCE_COLUMNS = ("neighbours", "protects", "id_column", "rows_per_unit")


def create_triggers(connection: Connection) -> None:
    """Install the triggers of the connection's database, inside the caller's transaction."""
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


def _sqlite_append_only(table: str) -> list[str]:
    statements = [
        f"CREATE TRIGGER {table}_no_{change.lower()} BEFORE {change} ON {table} "
        f"BEGIN SELECT RAISE(ABORT, '{table} is append-only'); END"
        for change in ("UPDATE", "DELETE")
    ]
    # INSERT OR REPLACE deletes without firing a delete trigger, so an occupied or skipped place is refused as well.
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
