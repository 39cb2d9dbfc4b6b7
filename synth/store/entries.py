"""What is only ever appended: charges and decisions of the ledger, sealed releases, and events.

What charges and decisions mean, and which may follow which, the ledger decides.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import uuid4

from sqlalchemy import Connection, RowMapping, Select, insert, select

from synth.schema import Neighbours
from synth.store.engine import Transactions, patient
from synth.store.layout import CHARGES, DECISIONS, EVENTS, RELEASES, now, row_values

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


# Charges --------------------------------------------------------------------------------------------------------------


class ChargeState(StrEnum):
    """Where a charge stands; every change is a new row."""

    RESERVED = "reserved"
    SPENT = "spent"
    RELEASED = "released"
    FAILED_SPENT = "failed-spent"
    FREED = "freed"


@dataclass(frozen=True, slots=True)
class Charge:
    """One row of the ledger: the whole cost of one run and the state it has reached.

    ``position`` counts the account's rows from 1. ``mu_squared_units`` are multiples of 2^-40 of mu^2 and
    ``pure_units`` of pure epsilon, in which only single cells are paid for; ``slack_units`` and
    ``additive_delta_units`` are multiples of 2^-60; all are rounded up. ``coordinates`` is the
    number of noisy coordinates the discretisation allowance covers. ``epsilon`` and ``delta`` are what was asked for.
    ``digest`` is the SHA-256 of this row and ``previous``, that of the row before it.
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


class Charges:
    """The rows of ``charges``: appended and read, never changed."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    def append(self, connection: Connection, charge: Charge) -> None:
        """Write one row inside the caller's transaction, which holds the account's lock."""
        connection.execute(insert(CHARGES).values(**row_values(charge)))

    def of_account(self, connection: Connection, account_id: str) -> tuple[Charge, ...]:
        """Return the account's rows in order."""
        query = select(CHARGES).where(CHARGES.c.account_id == account_id).order_by(CHARGES.c.position)
        return tuple(_charge(row) for row in connection.execute(query).mappings())

    @patient
    def of_run(self, run_id: str) -> tuple[Charge, ...]:
        """Return the rows of one run in order."""
        with self._transactions.reading() as connection:
            query = select(CHARGES).where(CHARGES.c.run_id == run_id).order_by(CHARGES.c.position)
            return tuple(_charge(row) for row in connection.execute(query).mappings())


def _charge(row: RowMapping) -> Charge:
    values = dict(row)
    values["state"] = ChargeState(values["state"])
    values["neighbours"] = Neighbours(values["neighbours"])
    return Charge(**values)


# Decisions about an account, and how far it has come ------------------------------------------------------------------


class DecisionKind(StrEnum):
    """What was decided."""

    UNIT = "unit"
    CELLS = "cells"
    CAP = "cap"
    FROZEN = "frozen"
    THAWED = "thawed"


@dataclass(frozen=True, slots=True)
class Decision:
    """One decision about an account.

    ``number`` counts the account's decisions from 1; ``charges`` is how many rows of charges came before it. ``body``
    holds what was decided, as JSON values. ``digest`` is keyed; ``previous`` is that of the entry before it.
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
    """How far an account's entries have come: rows of charges, decisions, and the digest of the last of both."""

    account_id: str
    count: int
    digest: str
    decisions: int


class Decisions:
    """The rows of ``decisions``: appended and read, never changed."""

    def append(self, connection: Connection, decision: Decision) -> None:
        """Write one row inside the caller's transaction, which holds the account's lock."""
        values = row_values(decision)
        values["body"] = json.dumps(dict(decision.body), sort_keys=True)
        connection.execute(insert(DECISIONS).values(**values))

    def of_account(self, connection: Connection, account_id: str) -> tuple[Decision, ...]:
        """Return the account's decisions in order."""
        query = select(DECISIONS).where(DECISIONS.c.account_id == account_id).order_by(DECISIONS.c.number)
        return tuple(_decision(row) for row in connection.execute(query).mappings())


def _decision(row: RowMapping) -> Decision:
    values = dict(row)
    values["kind"] = DecisionKind(values["kind"])
    values["body"] = json.loads(values["body"])
    return Decision(**values)


# Releases -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SealedRelease:
    """One sealed bundle: its certificate and what the owner attested, by name."""

    id: str
    run_id: str
    account_id: str
    certificate_id: str
    certificate_digest: str
    attestations: Mapping[str, str]
    who: str
    sealed: datetime


class Releases:
    """The rows of ``releases``."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    @patient
    def add(
        self,
        *,
        run_id: str,
        account_id: str,
        certificate_id: str,
        certificate_digest: str,
        attestations: Mapping[str, str],
        who: str,
    ) -> SealedRelease:
        """Record a sealed bundle; ``certificate_digest`` is the SHA-256 of its certificate."""
        release = SealedRelease(
            id=str(uuid4()),
            run_id=run_id,
            account_id=account_id,
            certificate_id=certificate_id,
            certificate_digest=certificate_digest,
            attestations=dict(attestations),
            who=who,
            sealed=now(),
        )
        values = row_values(release)
        values["attestations"] = json.dumps(dict(attestations), sort_keys=True)
        with self._transactions.writing() as connection:
            connection.execute(insert(RELEASES).values(**values))
        return release

    @patient
    def of_account(self, account_id: str) -> tuple[SealedRelease, ...]:
        """Return the account's releases, oldest first."""
        query = select(RELEASES).where(RELEASES.c.account_id == account_id).order_by(RELEASES.c.sealed)
        with self._transactions.reading() as connection:
            return tuple(_release(row) for row in connection.execute(query).mappings())

    @patient
    def of_run(self, run_id: str) -> tuple[SealedRelease, ...]:
        """Return the releases of one run, oldest first."""
        query = select(RELEASES).where(RELEASES.c.run_id == run_id).order_by(RELEASES.c.sealed)
        with self._transactions.reading() as connection:
            return tuple(_release(row) for row in connection.execute(query).mappings())


def _release(row: RowMapping) -> SealedRelease:
    values = dict(row)
    values["attestations"] = json.loads(values["attestations"])
    return SealedRelease(**values)


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


class Events:
    """The rows of ``events``."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    @patient
    def add(
        self,
        kind: EventKind,
        *,
        account_id: str | None = None,
        run_id: str | None = None,
        table_id: str | None = None,
        who: str = "",
        detail: Mapping[str, str] | None = None,
    ) -> Event:
        """Append one event."""
        of: dict[str, Any] = {
            "account_id": account_id,
            "run_id": run_id,
            "table_id": table_id,
            "who": who,
            "detail": detail,
        }
        with self._transactions.writing() as connection:
            return self.enter(connection, kind, **of)

    def enter(
        self,
        connection: Connection,
        kind: EventKind,
        *,
        account_id: str | None = None,
        run_id: str | None = None,
        table_id: str | None = None,
        who: str = "",
        detail: Mapping[str, str] | None = None,
    ) -> Event:
        """Append one event inside the caller's transaction."""
        values: dict[str, Any] = {
            "kind": kind.value,
            "account_id": account_id,
            "run_id": run_id,
            "table_id": table_id,
            "who": who,
            "detail": json.dumps(dict(detail or {}), sort_keys=True),
            "time": now(),
        }
        number = connection.execute(insert(EVENTS).values(**values).returning(EVENTS.c.id)).scalar_one()
        return _event({"id": number, **values})

    def of_account(self, account_id: str, kind: EventKind | None = None) -> tuple[Event, ...]:
        """Return the account's events, oldest first."""
        query = select(EVENTS).where(EVENTS.c.account_id == account_id).order_by(EVENTS.c.id)
        return self._all(query if kind is None else query.where(EVENTS.c.kind == kind.value))

    def of_kind(self, kind: EventKind) -> tuple[Event, ...]:
        """Return every event of one kind, oldest first."""
        return self._all(select(EVENTS).where(EVENTS.c.kind == kind.value).order_by(EVENTS.c.id))

    @patient
    def _all(self, query: Select[Any]) -> tuple[Event, ...]:
        with self._transactions.reading() as connection:
            return tuple(_event(row) for row in connection.execute(query).mappings())


def _event(row: RowMapping | dict[str, Any]) -> Event:
    values = dict(row)
    values["kind"] = EventKind(values["kind"])
    values["detail"] = json.loads(values["detail"])
    return Event(**values)
