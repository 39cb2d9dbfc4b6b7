"""Accounts: the groups of people the ledger protects."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import uuid4

from sqlalchemy import Connection, RowMapping, insert, select, update
from sqlalchemy.exc import IntegrityError

from synth.errors import InputError, PrivacyError
from synth.schema import Neighbours, PrivacyUnit
from synth.store.definitions import ACCOUNTS
from synth.store.engine import Transactions
from synth.store.moments import now
from synth.store.names import display_name

__all__ = ["Account", "Accounts", "check_same_promise"]

ONE_CELL = "Protects ONE CELL; class labels, class sizes and the number of rows are not protected"


@dataclass(frozen=True, slots=True)
class Account:
    """A group of people, the relation that hides one of them, and how much may be spent on them.

    ``neighbours``, ``protects`` and ``unit`` are None until the first table is described: a table is taken in before
    anybody says whom it protects. ``epsilon_cap`` and ``delta_cap`` are both None until a cap is set. A frozen account
    refuses new charges.
    """

    id: str
    name: str
    neighbours: Neighbours | None
    protects: str | None
    unit: str | None
    epsilon_cap: float | None
    delta_cap: float | None
    frozen: bool
    created: datetime


class Accounts:
    """The rows of ``accounts``."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    def open(self, name: str) -> Account:
        """Return the account of this name, created without a promise and without a cap if there is none."""
        name = display_name(name, what="The account")
        found = self.named(name)
        if found is None:
            found = self._insert(name, None, None)
        return found if found is not None else self[self._identity(name)]

    def ensure(self, name: str, neighbours: Neighbours, unit: PrivacyUnit) -> tuple[Account, bool]:
        """Return the account of this name with its promise fixed, created without a cap if there is none.

        The flag says whether the promise is new: the account did not exist, or nobody had described a table of it yet.

        Raises
        ------
        PrivacyError
            If the account exists with another neighbouring relation or protects another kind of unit: one total
            cannot speak of both.
        """
        name = display_name(name, what="The account")
        found = self.named(name)
        if found is None:
            created = self._insert(name, neighbours, unit)
            if created is not None:
                return created, True
            found = self[self._identity(name)]
        with self._transactions.writing() as connection:
            found = self.lock(connection, found.id)
            undecided = found.neighbours is None
            if undecided:
                connection.execute(
                    update(ACCOUNTS).where(ACCOUNTS.c.id == found.id).values(**_promise(neighbours, unit))
                )
                found = self.read(connection, found.id)
        check_same_promise(found, neighbours, unit)
        return found, undecided

    def _insert(self, name: str, neighbours: Neighbours | None, unit: PrivacyUnit | None) -> Account | None:
        values = {
            "id": str(uuid4()),
            "name": name,
            **_promise(neighbours, unit),
            "epsilon_cap": None,
            "delta_cap": None,
            "frozen": False,
            "created": now(),
        }
        try:
            with self._transactions.writing() as connection:
                connection.execute(insert(ACCOUNTS).values(**values))
        except IntegrityError:  # another process made it a moment ago
            return None
        return _account(values)

    def _identity(self, name: str) -> str:
        with self._transactions.reading() as connection:
            return str(connection.execute(select(ACCOUNTS.c.id).where(ACCOUNTS.c.name == name)).scalar_one())

    def named(self, name: str) -> Account | None:
        """Return the account of this name, or None."""
        with self._transactions.reading() as connection:
            query = select(ACCOUNTS).where(ACCOUNTS.c.name == display_name(name, what="The account"))
            row = connection.execute(query).mappings().one_or_none()
        return None if row is None else _account(row)

    def __getitem__(self, account_id: str) -> Account:
        with self._transactions.reading() as connection:
            return self.read(connection, account_id)

    def all(self) -> tuple[Account, ...]:
        """Return every account, by name."""
        with self._transactions.reading() as connection:
            rows = connection.execute(select(ACCOUNTS).order_by(ACCOUNTS.c.name)).mappings()
            return tuple(_account(row) for row in rows)

    def set_cap(self, account_id: str, *, epsilon: float | None, delta: float | None) -> Account:
        """Set or lift the cap. A cap below what is already spent only refuses what comes next.

        Parameters
        ----------
        account_id : str
        epsilon, delta : float or None
            Both positive, or both None for no cap; ``delta`` below 1.
        """
        if (epsilon is None) != (delta is None):
            raise InputError("A cap needs both numbers. Give --epsilon-cap and --delta-cap.")
        if epsilon is not None and not (math.isfinite(epsilon) and epsilon > 0):
            raise InputError(f"The epsilon cap must be positive and finite, got {epsilon:g}.")
        if delta is not None and not 0 < delta < 1:
            raise InputError(f"The delta cap must be between 0 and 1, got {delta:g}.")
        return self._change(account_id, epsilon_cap=epsilon, delta_cap=delta)

    def freeze(self, account_id: str) -> Account:
        """Refuse every new charge on the account until :meth:`thaw`."""
        return self._change(account_id, frozen=True)

    def thaw(self, account_id: str) -> Account:
        """Allow charges again."""
        return self._change(account_id, frozen=False)

    def lock(self, connection: Connection, account_id: str) -> Account:
        """Return the account and keep every other writer of it out until the transaction ends."""
        return self.read(connection, account_id, lock=True)

    def read(self, connection: Connection, account_id: str, *, lock: bool = False) -> Account:
        """Return the account inside the caller's transaction."""
        query = select(ACCOUNTS).where(ACCOUNTS.c.id == account_id)
        row = connection.execute(query.with_for_update() if lock else query).mappings().one_or_none()
        if row is None:
            raise InputError("There is no such account. Choose one from the ledger, or name a new one.")
        return _account(row)

    def sealed_split_key(self, connection: Connection, account_id: str) -> bytes | None:
        """Return the account's encrypted split key, or None before it is made."""
        key: bytes | None = connection.execute(
            select(ACCOUNTS.c.split_key).where(ACCOUNTS.c.id == account_id)
        ).scalar_one()
        return key

    def set_sealed_split_key(self, connection: Connection, account_id: str, sealed: bytes) -> None:
        """Keep the account's encrypted split key; the caller has locked the account and seen that there is none."""
        connection.execute(update(ACCOUNTS).where(ACCOUNTS.c.id == account_id).values(split_key=sealed))

    def _change(self, account_id: str, **values: Any) -> Account:
        with self._transactions.writing() as connection:
            self.lock(connection, account_id)
            connection.execute(update(ACCOUNTS).where(ACCOUNTS.c.id == account_id).values(**values))
            return self.read(connection, account_id)


def check_same_promise(account: Account, neighbours: Neighbours, unit: PrivacyUnit) -> None:
    """Refuse to speak of an account in another promise than the one it was opened with, once it has one.

    Raises
    ------
    PrivacyError
        If the neighbouring relation or the protected unit is another.
    """
    if account.neighbours is None:
        return
    if account.neighbours is not neighbours:
        if Neighbours.CELL in (account.neighbours, neighbours):
            kind = "one cell" if account.neighbours is Neighbours.CELL else "whole rows"
            raise PrivacyError(
                f"The account '{account.name}' protects {kind}; this table asks for another promise, and the two "
                "cannot be added. Use another account."
            )
        public = "public" if account.neighbours is Neighbours.REPLACE else "private"
        raise PrivacyError(
            f"The account '{account.name}' was opened with a {public} number of rows; this table says otherwise. "
            f"Declare row_count: {public}, or use another account."
        )
    if account.protects != unit.protects:
        raise PrivacyError(
            f"The account '{account.name}' protects one {account.protects}; this table protects one {unit.protects}. "
            "Declare the same unit, or use another account."
        )


def _promise(neighbours: Neighbours | None, unit: PrivacyUnit | None) -> dict[str, str | None]:
    return {
        "neighbours": None if neighbours is None else neighbours.value,
        "protects": None if unit is None else unit.protects,
        "unit": ONE_CELL if neighbours is Neighbours.CELL else None if unit is None else unit.sentence,
    }


def _account(row: RowMapping | dict[str, Any]) -> Account:
    return Account(
        id=row["id"],
        name=row["name"],
        neighbours=None if row["neighbours"] is None else Neighbours(row["neighbours"]),
        protects=row["protects"],
        unit=row["unit"],
        epsilon_cap=row["epsilon_cap"],
        delta_cap=row["delta_cap"],
        frozen=bool(row["frozen"]),
        created=row["created"],
    )
