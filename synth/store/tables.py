"""Private tables as the store knows them: identity, size, deadline and keyed fingerprint, but no rows.

A table has a draft: what its owner has typed about it so far. It is deleted with the rows. A draft that is begun before
its table is uploaded has an id of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from enum import StrEnum
from typing import Any, ClassVar, Self

from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    Connection,
    ForeignKey,
    Select,
    String,
    Table,
    Text,
    delete,
    insert,
    select,
    true,
    update,
)
from sqlalchemy.exc import IntegrityError

from synth.errors import TableError
from synth.store.accounts import ACCOUNTS, SINGLE_USER
from synth.store.engine import Transactions, patient, remembered
from synth.store.layout import DIGEST, IDENTITY, METADATA, Json, Moment, Named, now, row_values

__all__ = ["BegunDrafts", "Drafts", "SavedDraft", "StoredTable", "TableKind", "TableState", "Tables"]


class TableKind(StrEnum):
    """What a private table is for."""

    TABLE = "table"
    TEST = "test"


class TableState(StrEnum):
    """Whether the encrypted rows still exist."""

    STORED = "stored"
    DELETED = "deleted"


@dataclass(frozen=True, slots=True)
class StoredTable:
    """One private table. ``size`` is in bytes before encryption; ``fingerprint`` is a keyed hash, useless to outsiders.

    ``keep_until`` is when its rows are deleted; None keeps them until the owner deletes them. ``form`` is the format of
    the file, as JSON, once it is known. ``schema`` is always empty; existing databases have the column.
    """

    id: str
    account_id: str
    name: str
    kind: TableKind
    size: int
    state: TableState
    fingerprint: str
    keep_until: datetime | None
    schema: str | None
    created: datetime
    deleted: datetime | None
    form: str | None = None


TABLES = Table(
    "tables",
    METADATA,
    Column("id", IDENTITY, primary_key=True),
    Column("account_id", IDENTITY, ForeignKey("accounts.id"), nullable=False, index=True),
    Column("name", String(120), nullable=False),
    Column("kind", Named(TableKind, 10), nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("state", Named(TableState, 10), nullable=False),
    Column("fingerprint", DIGEST, nullable=False, index=True),
    Column("keep_until", Moment),
    Column("form", Text),
    Column("schema", Text),
    Column("created", Moment, nullable=False),
    Column("deleted", Moment),
)


class Tables:
    """The rows of ``tables``."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    def add(self, connection: Connection, table: StoredTable) -> None:
        """Record a table whose encrypted rows are complete on disk, inside the caller's transaction."""
        connection.execute(insert(TABLES).values(**row_values(table)))

    @remembered
    def __getitem__(self, table_id: str) -> StoredTable:
        found = self._transactions.read(select(TABLES).where(TABLES.c.id == table_id), StoredTable)
        if not found:
            raise TableError("There is no such table. Upload it again.")
        return found[0]

    @remembered
    def of_account(self, account_id: str) -> tuple[StoredTable, ...]:
        """Return the account's tables, oldest first."""
        query = select(TABLES).where(TABLES.c.account_id == account_id).order_by(TABLES.c.created, TABLES.c.id)
        return self._transactions.read(query, StoredTable)

    def with_fingerprint(self, fingerprint: str, *, connection: Connection | None = None) -> tuple[StoredTable, ...]:
        """Return all tables with this keyed hash, deleted ones too; in the caller's transaction, if any."""
        query = select(TABLES).where(TABLES.c.fingerprint == fingerprint).order_by(TABLES.c.created, TABLES.c.id)
        if connection is None:
            return self._transactions.read(query, StoredTable)
        return tuple(StoredTable(**row) for row in connection.execute(query).mappings())

    @remembered
    def stored(self) -> tuple[StoredTable, ...]:
        """Return all tables whose encrypted rows should exist, oldest first."""
        query = select(TABLES).where(TABLES.c.state == TableState.STORED).order_by(TABLES.c.created, TABLES.c.id)
        return self._transactions.read(query, StoredTable)

    def expired(self, at: datetime) -> tuple[StoredTable, ...]:
        """Return the stored tables whose deadline has passed."""
        query = select(TABLES).where(TABLES.c.state == TableState.STORED, TABLES.c.keep_until <= at)
        return self._transactions.read(query, StoredTable)

    def keep_until(self, table_id: str, deadline: datetime | None) -> None:
        """Change the deadline of a table; None keeps it until the owner deletes it."""
        self._transactions.write(update(TABLES).where(TABLES.c.id == table_id).values(keep_until=deadline))

    def write_form(self, table_id: str, form: str) -> None:
        """Store the format of a table's file, as JSON."""
        self._transactions.write(update(TABLES).where(TABLES.c.id == table_id).values(form=form))

    @patient
    def mark_deleted(self, table_id: str) -> None:
        """Record that the encrypted rows and the draft are gone; the fingerprint stays, to recognise the same table."""
        with self._transactions.writing() as connection:
            connection.execute(
                update(TABLES)
                .where(TABLES.c.id == table_id, TABLES.c.state == TableState.STORED)
                .values(state=TableState.DELETED, deleted=now())
            )
            connection.execute(delete(DRAFTS).where(DRAFTS.c.table_id == table_id))


@dataclass(frozen=True, slots=True)
class SavedDraft:
    """What was typed about a table, as plain values: declared facts, no cells.

    ``table_id`` is the id of the table, or of the draft itself if there is no table yet. ``number`` counts how often it
    was saved; ``saved`` is when it last was.
    """

    table_id: str
    number: int
    body: Mapping[str, Any]
    saved: datetime


DRAFTS = Table(
    "drafts",
    METADATA,
    Column("table_id", IDENTITY, ForeignKey("tables.id"), primary_key=True),
    # How often it was saved: a reader with an earlier number has not seen the current draft.
    Column("number", BigInteger, nullable=False),
    Column("body", Json(sort_keys=False), nullable=False),
    Column("saved", Moment, nullable=False),
)

BEGUN = Table(
    "begun",
    METADATA,
    # Of the draft itself, which has no table yet.
    Column("table_id", IDENTITY, primary_key=True),
    Column("number", BigInteger, nullable=False),
    Column("body", Json(sort_keys=False), nullable=False),
    Column("saved", Moment, nullable=False),
    # Who typed it: it has no account yet, whose owner would say.
    Column("owner", String(120), nullable=False),
)


class Drafts:
    """The rows of ``drafts``: drafts of tables whose rows still exist.

    Parameters
    ----------
    transactions : Transactions
    owner : str, optional
        The user whose drafts these are; by default those of all users.
    """

    _rows: ClassVar[Table] = DRAFTS

    def __init__(self, transactions: Transactions, owner: str | None = None) -> None:
        self._transactions, self._owner = transactions, owner

    def of(self, owner: str | None) -> Self:
        """Return the drafts of one user, or of all: no other is found, changed or listed by what is returned."""
        return type(self)(self._transactions, owner)

    def find(self, table_id: str) -> SavedDraft | None:
        """Return the draft of a table, or None."""
        return next(iter(self._transactions.read(self._select(self._rows.c.table_id == table_id), SavedDraft)), None)

    def latest(self, most: int) -> tuple[SavedDraft, ...]:
        """Return the drafts that were saved most recently, the latest first."""
        query = self._select().order_by(self._rows.c.saved.desc(), self._rows.c.table_id).limit(most)
        return self._transactions.read(query, SavedDraft)

    def _select(self, *conditions: ColumnElement[bool]) -> Select[Any]:
        shown = (self._rows.c[field.name] for field in fields(SavedDraft))
        return select(*shown).where(*conditions, self._is_own())

    def _is_own(self) -> ColumnElement[bool]:
        if self._owner is None:
            return true()
        own = select(TABLES.c.id).join(ACCOUNTS).where(ACCOUNTS.c.owner == self._owner)
        return self._rows.c.table_id.in_(own)

    @patient
    def number(self, table_id: str) -> int:
        """Return how often the draft of a table was saved; 0 if there is none."""
        query = select(self._rows.c.number).where(self._rows.c.table_id == table_id, self._is_own())
        with self._transactions.reading() as connection:
            return connection.execute(query).scalar_one_or_none() or 0

    @patient
    def save(self, table_id: str, body: Mapping[str, Any], *, seen: int) -> SavedDraft | None:
        """Save a draft.

        Parameters
        ----------
        table_id : str
        body : mapping
            Plain values.
        seen : int
            The number of the draft that ``body`` was made from; 0 for none.

        Returns
        -------
        SavedDraft or None
            None if another draft was saved since, or the table was deleted; nothing is saved then.
        """
        saved = SavedDraft(table_id, seen + 1, body, now())
        values = row_values(saved)
        try:
            with self._transactions.writing() as connection:
                if not self._belongs(connection, table_id):
                    return None
                if seen == 0:
                    connection.execute(insert(self._rows).values(**values, **self._belonging()))
                    return saved
                as_seen = (self._rows.c.table_id == table_id) & (self._rows.c.number == seen) & self._is_own()
                changed = connection.execute(update(self._rows).where(as_seen).values(**values))
        except IntegrityError:  # another process saved the first draft
            return None
        return saved if changed.rowcount == 1 else None

    def _belongs(self, connection: Connection, table_id: str) -> bool:
        """Whether its table still exists; it cannot be deleted until the transaction ends."""
        query = select(TABLES.c.state, TABLES.c.account_id).where(TABLES.c.id == table_id).with_for_update()
        state, account_id = connection.execute(query).one_or_none() or (None, None)
        owner = select(ACCOUNTS.c.owner).where(ACCOUNTS.c.id == account_id)
        is_own = self._owner is None or connection.execute(owner).scalar_one_or_none() == self._owner
        return bool(state == TableState.STORED) and is_own

    def _belonging(self) -> dict[str, str]:
        """Return what a new row says of its owner; of a draft with a table, the account of the table does."""
        return {}


class BegunDrafts(Drafts):
    """The rows of ``begun``: drafts without a table, each with its own id."""

    _rows: ClassVar[Table] = BEGUN

    def forget(self, draft_id: str) -> None:
        """Delete a draft, because its table was uploaded or it is not wanted."""
        self._transactions.write(delete(BEGUN).where(BEGUN.c.table_id == draft_id, self._is_own()))

    def forget_before(self, moment: datetime) -> None:
        """Delete the drafts that have not been saved since then."""
        self._transactions.write(delete(BEGUN).where(BEGUN.c.saved < moment))

    def _belongs(self, connection: Connection, table_id: str) -> bool:
        return True

    def _is_own(self) -> ColumnElement[bool]:
        return true() if self._owner is None else BEGUN.c.owner == self._owner

    def _belonging(self) -> dict[str, str]:
        return {"owner": self._owner or SINGLE_USER}
