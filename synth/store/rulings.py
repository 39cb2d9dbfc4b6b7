"""Decisions about the whole installation: who has which role, and what the policy is. Appended and read, never changed.

What they mean, and whether the chain of their digests is whole, is decided by :mod:`synth.ledger.rulings`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import BigInteger, Column, Connection, Integer, String, Table, insert, select, text

from synth.store.engine import Transactions, remembered
from synth.store.layout import DIGEST, METADATA, Json, Moment, Named, row_values

__all__ = ["Ruling", "RulingKind", "Rulings"]


class RulingKind(StrEnum):
    """What was decided."""

    USER = "user"
    POLICY = "policy"


@dataclass(frozen=True, slots=True)
class Ruling:
    """One decision about the installation.

    ``id`` counts from 1; ``body`` is what was decided, as JSON values. ``digest`` is keyed; ``previous`` is that of the
    entry before it.
    """

    id: int
    kind: RulingKind
    body: Mapping[str, Any]
    who: str
    time: datetime
    previous: str
    digest: str


RULINGS = Table(
    "rulings",
    METADATA,
    Column("id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=False),
    Column("kind", Named(RulingKind, 12), nullable=False),
    Column("body", Json, nullable=False),
    Column("who", String(120), nullable=False),
    Column("time", Moment, nullable=False),
    Column("previous", DIGEST, nullable=False),
    Column("digest", DIGEST, nullable=False),
)

RULINGS_LOCK = 0x52554C45
"""Key of the PostgreSQL advisory lock for appending one at a time; SQLite has only one writer."""


class Rulings:
    """The rows of ``rulings``."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    @remembered
    def all(self) -> tuple[Ruling, ...]:
        """Return all of them, oldest first."""
        return self._transactions.read(select(RULINGS).order_by(RULINGS.c.id), Ruling)

    def all_locked(self, connection: Connection) -> tuple[Ruling, ...]:
        """Return all of them inside the caller's transaction, to which another writer gives way."""
        if connection.dialect.name == "postgresql":
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": RULINGS_LOCK})
        rows = connection.execute(select(RULINGS).order_by(RULINGS.c.id)).mappings()
        return tuple(Ruling(**row) for row in rows)

    def append(self, connection: Connection, ruling: Ruling) -> None:
        """Write one inside the caller's transaction."""
        connection.execute(insert(RULINGS).values(**row_values(ruling)))
