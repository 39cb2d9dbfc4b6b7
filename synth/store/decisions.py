"""Decisions about an account: append-only rows between its charges. What they mean, the ledger decides."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import Connection, RowMapping, insert, select

from synth.store.definitions import DECISIONS
from synth.store.rows import row_values

__all__ = ["Decision", "DecisionKind", "Decisions"]


class DecisionKind(StrEnum):
    """What was decided."""

    TAKEN_OVER = "taken-over"
    UNIT = "unit"
    DISAGREEING = "disagreeing"
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
