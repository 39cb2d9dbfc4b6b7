"""Append-only records: charges and decisions of the ledger, sealed releases, and events.

The ledger decides what charges and decisions mean, and which may follow which.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, TypedDict, TypeVar, Unpack
from uuid import uuid4

from sqlalchemy import BigInteger, Column, Connection, Double, ForeignKey, Integer, String, Table, Text, insert, select

from synth.schema import Neighbours
from synth.store.accounts import ACCOUNTS_AT_ONCE
from synth.store.engine import Transactions, patient, remembered
from synth.store.layout import DIGEST, IDENTITY, METADATA, Json, Moment, Named, now, row_values

__all__ = [
    "Charge",
    "ChargeState",
    "Charges",
    "Decision",
    "DecisionKind",
    "Decisions",
    "Event",
    "EventKind",
    "Events",
    "LedgerHead",
    "Releases",
    "SealedRelease",
]

_E = TypeVar("_E")


# Charges --------------------------------------------------------------------------------------------------------------


class ChargeState(StrEnum):
    """State of a charge; every change is a new row."""

    RESERVED = "reserved"
    SPENT = "spent"
    RELEASED = "released"
    FAILED_SPENT = "failed-spent"
    FREED = "freed"


@dataclass(frozen=True, slots=True)
class Charge:
    """One row of the ledger: the whole cost of one run and the state it has reached.

    ``position`` counts the account's rows from 1. ``mu_squared_units`` are multiples of 2^-40 of mu^2, and
    ``pure_units``, which only noise on single cells costs, of pure epsilon; ``slack_units`` and
    ``additive_delta_units`` are multiples of 2^-60; all are rounded up. ``coordinates`` is the number of noisy
    coordinates that the discretisation allowance covers. ``epsilon`` and ``delta`` are what was asked for. ``digest``
    is a keyed hash of this row and ``previous``, which is that of the entry before it.
    """

    account_id: str
    position: int
    charge_id: str
    run_id: str
    state: ChargeState
    purpose: str
    who: str
    neighbours: Neighbours
    epsilon: float
    delta: float
    mu_squared_units: int
    slack_units: int
    coordinates: int
    additive_delta_units: int
    accountant: str
    certificate_id: str | None
    time: datetime
    previous: str
    digest: str
    pure_units: int = 0


CHARGES = Table(
    "charges",
    METADATA,
    Column("account_id", IDENTITY, ForeignKey("accounts.id"), primary_key=True),
    Column("position", BigInteger, primary_key=True, autoincrement=False),
    Column("charge_id", IDENTITY, nullable=False, index=True),
    Column("run_id", IDENTITY, nullable=False, index=True),
    Column("state", Named(ChargeState, 12), nullable=False),
    Column("purpose", Text, nullable=False),
    Column("who", String(120), nullable=False),
    Column("neighbours", Named(Neighbours, 20), nullable=False),
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


class Charges:
    """The rows of ``charges``: appended and read, never changed."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    def append(self, connection: Connection, charge: Charge) -> None:
        """Write one row inside the caller's transaction, which holds the account's lock."""
        connection.execute(insert(CHARGES).values(**row_values(charge)))

    def of_accounts(self, connection: Connection, account_ids: Sequence[str]) -> dict[str, tuple[Charge, ...]]:
        """Return the rows of every account in order."""
        return _of_accounts(connection, CHARGES, account_ids, Charge, CHARGES.c.position)

    @remembered
    def of_run(self, run_id: str) -> tuple[Charge, ...]:
        """Return the rows of one run in order."""
        query = select(CHARGES).where(CHARGES.c.run_id == run_id).order_by(CHARGES.c.position)
        return self._transactions.read(query, Charge)


# Decisions about an account, and the head of its ledger ---------------------------------------------------------------


class DecisionKind(StrEnum):
    """What was decided."""

    UNIT = "unit"
    CELLS = "cells"
    CAP = "cap"
    FROZEN = "frozen"
    THAWED = "thawed"
    OWNER = "owner"
    ASKED = "asked"
    APPROVED = "approved"
    REFUSED = "refused"
    USED = "used"


@dataclass(frozen=True, slots=True)
class Decision:
    """One decision about an account.

    ``number`` counts the account's decisions from 1; ``charges`` is the number of charge rows before it. ``body`` is
    what was decided, as JSON values. ``digest`` is keyed; ``previous`` is that of the entry before it.
    """

    account_id: str
    number: int
    charges: int
    kind: DecisionKind
    body: Mapping[str, Any]
    who: str
    time: datetime
    previous: str
    digest: str


@dataclass(frozen=True, slots=True)
class LedgerHead:
    """Head of an account's ledger: numbers of charge rows and decisions, and the digest of the last entry."""

    account_id: str
    count: int
    digest: str
    decisions: int


DECISIONS = Table(
    "decisions",
    METADATA,
    Column("account_id", IDENTITY, ForeignKey("accounts.id"), primary_key=True),
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("charges", BigInteger, nullable=False),
    Column("kind", Named(DecisionKind, 12), nullable=False),
    Column("body", Json, nullable=False),
    Column("who", String(120), nullable=False),
    Column("time", Moment, nullable=False),
    Column("previous", DIGEST, nullable=False),
    Column("digest", DIGEST, nullable=False),
)


class Decisions:
    """The rows of ``decisions``: appended and read, never changed."""

    def append(self, connection: Connection, decision: Decision) -> None:
        """Write one row inside the caller's transaction, which holds the account's lock."""
        connection.execute(insert(DECISIONS).values(**row_values(decision)))

    def of_accounts(self, connection: Connection, account_ids: Sequence[str]) -> dict[str, tuple[Decision, ...]]:
        """Return the decisions about every account in order."""
        return _of_accounts(connection, DECISIONS, account_ids, Decision, DECISIONS.c.number)


def _of_accounts(
    connection: Connection,
    table: Table,
    account_ids: Sequence[str],
    made: Callable[..., _E],
    order: Column[Any],
) -> dict[str, tuple[_E, ...]]:
    found: dict[str, list[_E]] = {account_id: [] for account_id in account_ids}
    for start in range(0, len(account_ids), ACCOUNTS_AT_ONCE):
        chosen = table.c.account_id.in_(account_ids[start : start + ACCOUNTS_AT_ONCE])
        for row in connection.execute(select(table).where(chosen).order_by(order)).mappings():
            found[row["account_id"]].append(made(**row))
    return {account_id: tuple(entries) for account_id, entries in found.items()}


# Releases -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SealedRelease:
    """One sealed bundle: its certificate with its SHA-256, and what the owner attested, by name."""

    id: str
    run_id: str
    account_id: str
    certificate_id: str
    certificate_digest: str
    attestations: Mapping[str, str]
    who: str
    sealed: datetime


RELEASES = Table(
    "releases",
    METADATA,
    Column("id", IDENTITY, primary_key=True),
    Column("run_id", IDENTITY, ForeignKey("runs.id"), nullable=False, index=True),
    Column("account_id", IDENTITY, ForeignKey("accounts.id"), nullable=False, index=True),
    Column("certificate_id", Text, nullable=False),
    Column("certificate_digest", DIGEST, nullable=False),
    Column("attestations", Json, nullable=False),
    Column("who", String(120), nullable=False),
    Column("sealed", Moment, nullable=False),
)


class Releases:
    """The rows of ``releases``."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    def add(self, **facts: Any) -> SealedRelease:
        """Record a bundle that is sealed now, by the other fields of :class:`SealedRelease`."""
        release = SealedRelease(id=str(uuid4()), sealed=now(), **facts)
        self._transactions.write(insert(RELEASES).values(**row_values(release)))
        return release

    @remembered
    def of_run(self, run_id: str) -> tuple[SealedRelease, ...]:
        """Return the releases of one run, oldest first."""
        query = select(RELEASES).where(RELEASES.c.run_id == run_id).order_by(RELEASES.c.sealed)
        return self._transactions.read(query, SealedRelease)


# Events worth remembering ---------------------------------------------------------------------------------------------


class EventKind(StrEnum):
    """What happened."""

    OWNER_VIEW = "owner-view"
    SAME_TABLE = "same-table"
    INCIDENT = "incident"
    CAP = "cap"
    FROZEN = "frozen"
    THAWED = "thawed"
    TABLE_DELETED = "table-deleted"
    RELEASE_STOPPED = "release-stopped"
    STOP_CLEARED = "stop-cleared"
    STRAY_REMOVED = "stray-removed"


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened, numbered in order.

    ``detail`` holds names, settings and code locations, never a value from rows.
    """

    id: int
    kind: EventKind
    account_id: str | None
    run_id: str | None
    table_id: str | None
    who: str
    detail: Mapping[str, str]
    time: datetime


EVENTS = Table(
    "events",
    METADATA,
    Column("id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True),
    Column("kind", Named(EventKind, 20), nullable=False, index=True),
    Column("account_id", IDENTITY, index=True),
    Column("run_id", IDENTITY),
    Column("table_id", IDENTITY),
    Column("who", String(120), nullable=False),
    Column("detail", Json, nullable=False),
    Column("time", Moment, nullable=False),
)


class _About(TypedDict, total=False):
    """What an event is about."""

    account_id: str | None
    run_id: str | None
    table_id: str | None
    who: str
    detail: Mapping[str, str]


class Events:
    """The rows of ``events``."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    @patient
    def add(self, kind: EventKind, **about: Unpack[_About]) -> Event:
        """Append one event."""
        with self._transactions.writing() as connection:
            return self.enter(connection, kind, **about)

    def enter(self, connection: Connection, kind: EventKind, **about: Unpack[_About]) -> Event:
        """Append one event inside the caller's transaction."""
        nothing: dict[str, Any] = {"account_id": None, "run_id": None, "table_id": None, "who": "", "detail": {}}
        values = {**nothing, **about, "kind": kind, "time": now()}
        number = connection.execute(insert(EVENTS).values(**values).returning(EVENTS.c.id)).scalar_one()
        return Event(id=number, **values)

    @remembered
    def of_account(self, account_id: str, kind: EventKind | None = None) -> tuple[Event, ...]:
        """Return the account's events, oldest first."""
        query = select(EVENTS).where(EVENTS.c.account_id == account_id).order_by(EVENTS.c.id)
        return self._transactions.read(query if kind is None else query.where(EVENTS.c.kind == kind), Event)

    @remembered
    def of_kind(self, kind: EventKind) -> tuple[Event, ...]:
        """Return all events of one kind, oldest first."""
        return self._transactions.read(select(EVENTS).where(EVENTS.c.kind == kind).order_by(EVENTS.c.id), Event)
