"""Charges: the append-only rows of the ledger. What they mean and which may follow which, the ledger decides."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from sqlalchemy import Connection, RowMapping, insert, select

from synth.schema import Neighbours
from synth.store.definitions import CHARGES
from synth.store.engine import Transactions, patient
from synth.store.rows import row_values

__all__ = ["Charge", "ChargeState", "Charges"]


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
