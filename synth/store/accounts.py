"""Accounts: the groups of people that the ledger protects."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import uuid4

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Connection,
    Double,
    LargeBinary,
    String,
    Table,
    Text,
    select,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite

from synth.errors import InputError, NotAllowedError, PrivacyError
from synth.names import one_form
from synth.schema import Neighbours, PrivacyUnit
from synth.store.engine import Transactions, patient, remembered
from synth.store.layout import IDENTITY, METADATA, Moment, Named, now

__all__ = [
    "SINGLE_USER",
    "Account",
    "Accounts",
    "check_same_promise",
    "display_name",
    "promise_of_config",
    "unit_values",
]

ONE_CELL = "Protects ONE CELL; class labels, class sizes and the number of rows are not protected"


SINGLE_USER = "owner"
"""The name of the only user of an installation without a login, in every record."""

ACCOUNTS_AT_ONCE = 500
"""Most accounts that one statement names: databases limit how much a statement may name."""

MAXIMUM_NAME_LENGTH = 120
"""Most characters of a typed name of an account, a table or a person."""


@dataclass(frozen=True, slots=True)
class Account:
    """A group of people, the neighbouring relation that hides one of them, and how much may be spent on them.

    ``neighbours`` and ``protects`` are None until the first table is described, because a table is uploaded before its
    privacy unit is declared. All charges protect the same unit: either ``id_column``, and then all rows with one of its
    ids together, or ``rows_per_unit``; both are None until the first run. ``epsilon_cap`` and ``delta_cap`` are both
    None until a cap is set. A frozen account refuses new charges. The tables and runs are those of its ``owner``.
    """

    id: str
    name: str
    neighbours: Neighbours | None
    protects: str | None
    id_column: str | None
    rows_per_unit: int | None
    epsilon_cap: float | None
    delta_cap: float | None
    frozen: bool
    created: datetime
    owner: str = SINGLE_USER

    @property
    def has_unit(self) -> bool:
        """Whether the unit that all charges protect is fixed."""
        return self.id_column is not None or self.rows_per_unit is not None

    @property
    def sentence(self) -> str | None:
        """What the total protects, in words; None until that is declared."""
        if self.protects is None:
            return None
        if self.neighbours is Neighbours.CELL:
            return ONE_CELL
        if self.id_column is not None:
            return f"Protects one {self.protects}: all rows of one {self.id_column}"
        if self.rows_per_unit is None:
            return f"Protects one {self.protects}"
        return PrivacyUnit(self.protects, self.rows_per_unit).sentence


ACCOUNTS = Table(
    "accounts",
    METADATA,
    Column("id", IDENTITY, primary_key=True),
    Column("name", String(120), nullable=False, unique=True),
    Column("neighbours", Named(Neighbours, 20)),
    Column("protects", Text),
    Column("id_column", Text),
    Column("rows_per_unit", BigInteger),
    Column("epsilon_cap", Double),
    Column("delta_cap", Double),
    Column("frozen", Boolean, nullable=False),
    Column("split_key", LargeBinary),
    Column("created", Moment, nullable=False),
    Column("owner", String(120), nullable=False),
)

_SHOWN = [column for column in ACCOUNTS.columns if column.name != "split_key"]


class Accounts:
    """The rows of ``accounts``."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    @patient
    def open(self, name: str, owner: str | None = None) -> Account:
        """Return the account of this name, created without a promise and without a cap if there is none.

        ``owner`` is as in :meth:`open_in`.
        """
        found = self.named(name)
        if found is not None:
            return _owned(found, owner)
        with self._transactions.writing() as connection:
            return self.open_in(connection, name, owner)

    def open_in(self, connection: Connection, name: str, owner: str | None = None) -> Account:
        """Return the account of this name, created if there is none, inside the caller's transaction.

        Parameters
        ----------
        connection : Connection
        name : str
        owner : str, optional
            The user who asks, to whom a new account belongs; by default nobody in particular.

        Raises
        ------
        NotAllowedError
            If it belongs to another user.
        """
        name = display_name(name, what="The account")
        dialect = sqlite if connection.dialect.name == "sqlite" else postgresql
        made = dialect.insert(ACCOUNTS).values(
            id=str(uuid4()), name=name, frozen=False, created=now(), owner=owner or SINGLE_USER
        )
        connection.execute(made.on_conflict_do_nothing(index_elements=[ACCOUNTS.c.name]))
        account_id = connection.execute(select(ACCOUNTS.c.id).where(ACCOUNTS.c.name == name)).scalar_one()
        return _owned(self.lock(connection, account_id), owner)

    @patient
    def ensure(
        self, name: str, neighbours: Neighbours, unit: PrivacyUnit, owner: str | None = None
    ) -> tuple[Account, bool]:
        """Return the account of this name with its promise fixed, created without a cap if there is none.

        The flag says whether the promise is new: the account did not exist, or none of its tables had been described.
        ``owner`` is as in :meth:`open_in`.

        Raises
        ------
        PrivacyError
            If the account exists with a different neighbouring relation or unit: one total cannot cover both.
        """
        with self._transactions.writing() as connection:
            found = self.open_in(connection, name, owner)
            check_same_promise(found, neighbours, unit)
            return self.settle_promise(connection, found, neighbours, unit), found.neighbours is None

    def settle_promise(
        self, connection: Connection, account: Account, neighbours: Neighbours, unit: PrivacyUnit
    ) -> Account:
        """Fix what is still open in an account's promise; the caller has locked it and found no contradiction."""
        promise = {"neighbours": neighbours, "protects": unit.protects, **unit_values(unit)}
        values = {name: value for name, value in promise.items() if getattr(account, name) is None}
        if account.has_unit or not any(value is not None for value in values.values()):
            return account
        return self.note(connection, account.id, **values)

    @remembered
    def named(self, name: str) -> Account | None:
        """Return the account with this name, or None."""
        query = select(*_SHOWN).where(ACCOUNTS.c.name == display_name(name, what="The account"))
        return next(iter(self._transactions.read(query, Account)), None)

    @remembered
    @patient
    def __getitem__(self, account_id: str) -> Account:
        with self._transactions.reading() as connection:
            return self.read(connection, account_id)

    @remembered
    def all(self) -> tuple[Account, ...]:
        """Return all accounts, sorted by name."""
        return self._transactions.read(select(*_SHOWN).order_by(ACCOUNTS.c.name), Account)

    def note(self, connection: Connection, account_id: str, **values: Any) -> Account:
        """Change what may change in an account (cap, freeze, owner) as the ledger has decided, under its lock."""
        connection.execute(update(ACCOUNTS).where(ACCOUNTS.c.id == account_id).values(**values))
        return self.read(connection, account_id)

    def lock(self, connection: Connection, account_id: str) -> Account:
        """Return the account and lock it against other writers until the transaction ends."""
        return self.read(connection, account_id, lock=True)

    def read(self, connection: Connection, account_id: str, *, lock: bool = False) -> Account:
        """Return the account inside the caller's transaction."""
        query = select(*_SHOWN).where(ACCOUNTS.c.id == account_id)
        row = connection.execute(query.with_for_update() if lock else query).mappings().one_or_none()
        if row is None:
            raise InputError("There is no such account. Choose one from the ledger, or give a new name.")
        return Account(**row)

    def several(self, connection: Connection, account_ids: Sequence[str]) -> list[Account]:
        """Return accounts that exist, inside the caller's transaction."""
        found: list[Account] = []
        for start in range(0, len(account_ids), ACCOUNTS_AT_ONCE):
            chosen = ACCOUNTS.c.id.in_(account_ids[start : start + ACCOUNTS_AT_ONCE])
            found += (Account(**row) for row in connection.execute(select(*_SHOWN).where(chosen)).mappings())
        return found

    def sealed_split_key(self, connection: Connection, account_id: str) -> bytes | None:
        """Return the account's encrypted split key, or None before it is made."""
        key: bytes | None = connection.execute(
            select(ACCOUNTS.c.split_key).where(ACCOUNTS.c.id == account_id)
        ).scalar_one()
        return key

    def set_sealed_split_key(self, connection: Connection, account_id: str, sealed: bytes) -> None:
        """Store the account's encrypted split key; the caller has locked the account and found none."""
        connection.execute(update(ACCOUNTS).where(ACCOUNTS.c.id == account_id).values(split_key=sealed))


def _owned(account: Account, owner: str | None) -> Account:
    if owner is not None and account.owner != owner:
        raise NotAllowedError(
            f"The account '{account.name}' belongs to another owner. Use another name, or ask an administrator to "
            "hand it over to you."
        )
    return account


def display_name(text: str, *, what: str, cut: bool = False) -> str:
    """Return a typed name in its one form.

    It is for display only, and never used as a path.

    Parameters
    ----------
    text : str
        What was typed, or the name of an uploaded file.
    what : str
        What the name is for, used in the error: ``"The account"``.
    cut : bool
        Keep the first 120 characters of a longer name, such as that of a file; otherwise it is refused.

    Raises
    ------
    InputError
        If nothing printable is left, or it is too long.
    """
    name = one_form(text)
    if cut:
        name = name[:MAXIMUM_NAME_LENGTH].rstrip()
    if len(name) > MAXIMUM_NAME_LENGTH:
        raise InputError(f"{what} has a name of {len(name):,} characters; at most {MAXIMUM_NAME_LENGTH} are allowed.")
    if not name:
        raise InputError(f"{what} has no name. Give it a name with at least one letter or digit.")
    return name


def check_same_promise(account: Account, neighbours: Neighbours, unit: PrivacyUnit) -> None:
    """Refuse a promise that differs from the one that an account has, if it has one.

    Raises
    ------
    PrivacyError
        If the neighbouring relation or the unit differs.
    """
    if account.neighbours is None:
        return
    if account.neighbours is not neighbours:
        if Neighbours.CELL in (account.neighbours, neighbours):
            kind = "one cell" if account.neighbours is Neighbours.CELL else "whole rows"
            raise PrivacyError(
                f"The account '{account.name}' protects {kind}; this table asks for a different promise, and the two "
                "cannot be added up. Use another account."
            )
        public = "public" if account.neighbours is Neighbours.REPLACE else "private"
        raise PrivacyError(
            f"The account '{account.name}' was opened with a {public} number of rows, and this table was not. Declare "
            f"row_count: {public}, or use another account."
        )
    if account.protects != unit.protects:
        raise PrivacyError(
            f"The account '{account.name}' protects one {account.protects}; this table protects one {unit.protects}. "
            "Declare the same unit, or use another account."
        )
    if account.has_unit and unit_values(unit) != {
        "id_column": account.id_column,
        "rows_per_unit": account.rows_per_unit,
    }:
        raise PrivacyError(
            f"The account '{account.name}' protects {_unit_words(account)}; this run protects {_unit_words(unit)}. The "
            "two cannot be added up: declare the same unit, or use a new account."
        )


def promise_of_config(config: str) -> tuple[Neighbours, PrivacyUnit]:
    """Return the neighbouring relation and the unit that a configuration, as JSON, declares, or their defaults."""
    mapping: Mapping[str, Any] = json.loads(config)
    declared: Mapping[str, Any] = mapping.get("unit") or {}
    unit = PrivacyUnit(
        protects=str(declared.get("protects", "person")),
        rows_per_unit=int(declared.get("rows_per_unit", 1)),
        id_column=None if declared.get("id_column") is None else str(declared["id_column"]),
    )
    if mapping.get("protection") == "cell":
        return Neighbours.CELL, unit
    return (Neighbours.ADD_REMOVE if mapping.get("row_count") == "private" else Neighbours.REPLACE), unit


def unit_values(unit: PrivacyUnit) -> dict[str, str | int | None]:
    """Return the columns of an account that a unit fixes; with an id column the row cap may vary, so it is left out."""
    return {"id_column": unit.id_column, "rows_per_unit": unit.rows_per_unit if unit.id_column is None else None}


def _unit_words(one: Account | PrivacyUnit) -> str:
    if one.id_column is not None:
        return f"all rows of one {one.id_column}"
    rows = "one row" if one.rows_per_unit == 1 else f"up to {one.rows_per_unit} rows"
    return f"one {one.protects} with {rows}"
