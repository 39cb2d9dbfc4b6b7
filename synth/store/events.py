"""Events worth remembering: looks at owner-only numbers, warnings, incidents. They hold no data."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import Connection, RowMapping, Select, insert, select

from synth.store.definitions import EVENTS
from synth.store.engine import Transactions, patient
from synth.store.moments import now

__all__ = ["Event", "EventKind", "Events"]


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
