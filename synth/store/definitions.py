"""The database tables of one installation; none has a place for a cell of a private table."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Double,
    ForeignKey,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    false,
    true,
)

from synth.store.moments import Moment

__all__ = ["ACCOUNTS", "CHARGES", "DECISIONS", "EVENTS", "METADATA", "RELEASES", "RUNS", "TABLES", "VERSION"]

IDENTITY = String(36)
DIGEST = String(64)

METADATA = MetaData()

VERSION = Table(
    "store_version",
    METADATA,
    Column("number", Integer, primary_key=True, autoincrement=False),
    # When an older database was brought to this layout; nothing in a database that was made with it.
    Column("since", Moment),
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
    Column("disagreeing", Boolean, nullable=False, server_default=false()),
    Column("epsilon_cap", Double),
    Column("delta_cap", Double),
    Column("frozen", Boolean, nullable=False),
    # False in an account of an older layout until its chain is taken over under the installation's key.
    Column("keyed", Boolean, nullable=False, server_default=true()),
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

RUNS = Table(
    "runs",
    METADATA,
    Column("id", IDENTITY, primary_key=True),
    Column("account_id", IDENTITY, ForeignKey("accounts.id"), nullable=False, index=True),
    Column("table_id", IDENTITY, ForeignKey("tables.id")),
    Column("test_table_id", IDENTITY, ForeignKey("tables.id")),
    Column("owner", String(120), nullable=False),
    Column("config", Text, nullable=False),
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
    Column("attempts", Integer, nullable=False, server_default="0"),
    Column("heartbeat", Moment),
    Column("gpu", Text),
    Column("device", Text),
    Column("created", Moment, nullable=False),
    Column("started", Moment),
    Column("finished", Moment),
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
    Column("pure_units", BigInteger, nullable=False, server_default="0"),
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
