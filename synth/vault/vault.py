"""The encrypted table store: private tables on disk, as ciphertext only.

``vault/<id>.table`` has the encrypted chunks of a table; ``vault/<id>.header``, sealed by the master key, has its key
and a head of the account's ledger. No table of an account is opened while a header or the account's mark
(:mod:`synth.ledger.heads`) is ahead of the ledger.
"""

from __future__ import annotations

import hashlib
import hmac
import io
import math
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import BinaryIO, Protocol, cast
from uuid import UUID, uuid4

from sqlalchemy import Connection

from synth.errors import CommitInDoubtError, DatabaseAwayError, LedgerError, TableError
from synth.store import EventKind, LedgerHead, Store, StoredTable, TableKind, TableState, display_name, now, patient
from synth.system.disk import disk_full, is_full, locked, private_file, sync_directory
from synth.vault.keys import Keys
from synth.vault.sealing import DecryptedStream, SealedFiles, encrypt_stream, new_key, seal, unseal

__all__ = ["AccountTables", "Fingerprint", "Header", "HeaderFiles", "TableLedger", "Vault"]

DRAFT_AGE = timedelta(days=1)
"""Unfinished headers and marks, left by a process that died while writing, are deleted after this long."""

_TABLE_FILES = (".table", ".header")

ANOTHER_ACCOUNT = (
    "This table was taken in under another account than the records say, which were altered outside the program. It "
    "stays closed. Restore the records from a backup."
)

TIME_UP = "The retention time of this table has passed, so it was deleted. Upload it again."


class TableLedger(Protocol):
    """What the vault needs from the ledger: the head of an account's chain, and whether the chain is complete."""

    def verified_head(self, connection: Connection, account_id: str) -> LedgerHead:
        """Return the account's head inside the caller's transaction, after checking its chain."""
        ...

    def mark_in(self, connection: Connection, account_id: str) -> LedgerHead:
        """Write that head into the account's mark as well; the caller has locked the account."""
        ...

    def mark(self, account_id: str) -> LedgerHead:
        """Do the same in a separate transaction."""
        ...

    def check_all(self, seen: Mapping[str, Iterable[LedgerHead]]) -> tuple[LedgerError, ...]:
        """Return what is wrong with ledgers that lack entries which a mark or a header records; freeze the accounts."""
        ...

    def thaw(self, account_id: str, *, who: str) -> None:
        """Allow charges again."""
        ...


class Vault:
    """Encrypts private tables, opens them in memory, and deletes them.

    Parameters
    ----------
    store : Store
        Has what is known about each table, but not its rows.
    keys : Keys
        The installation's secrets.
    ledger : TableLedger
        Whose heads are in the headers: :class:`synth.ledger.ledger.Ledger`.
    """

    def __init__(self, store: Store, keys: Keys, ledger: TableLedger) -> None:
        self._store = store
        self._transactions = store.transactions
        self._keys = keys
        self._ledger = ledger
        self._directory = store.settings.home / "vault"
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._headers = HeaderFiles(self._directory, keys.master)

    @contextmanager
    def taking(
        self,
        stream: BinaryIO,
        *,
        name: str,
        account_id: str | None = None,
        account_name: str | None = None,
        user: str | None = None,
        kind: TableKind = TableKind.TABLE,
        form: str | None = None,
        retention: timedelta | None = None,
        limit: int | None = None,
    ) -> Iterator[StoredTable]:
        """Encrypt a table while reading it; it exists once the block has ended.

        If anything fails, here or in the block, none of its files stays, and the database has no record of it, or of an
        account that would have been opened for it.

        Parameters
        ----------
        stream : binary stream
            Read to its end in pieces of 64 KiB.
        name : str
            For display only; never a path.
        account_id, account_name : str
            Its account, by either; a new name opens an account.
        user : str, optional
            To whom the account has to belong, or will if it is new.
        kind : TableKind
        form : str, optional
            Format of its file, as JSON.
        retention : timedelta, optional
            After which :meth:`purge` deletes it; None keeps it until :meth:`delete`.
        limit : int, optional
            Largest size in bytes; by default the installation's.

        Raises
        ------
        TableError
            If it is larger than the limit, or cannot be read to its end or written.
        DiskFullError
            If the disk is full.
        """
        if account_id is not None:
            self._store.accounts[account_id]
        elif account_name is not None:
            display_name(account_name, what="The account")
        else:
            raise ValueError("A table belongs to an account: give its id or its name.")
        table_id, key = str(uuid4()), new_key()
        fingerprint = Fingerprint(self._keys)
        most = self._store.settings.maximum_table_bytes if limit is None else limit

        def observe(chunk: bytes) -> None:
            fingerprint.update(chunk)
            if fingerprint.seen > most:
                raise TableError(
                    f"The table is larger than the {most / 2**20:,.0f} MiB that this installation accepts. "
                    "Ask your administrator, or leave out columns."
                )

        # From its first byte until it is recorded, a table's files must not count as strays.
        with locked(self._directory, alone=False):
            try:
                with private_file(self._path(table_id)) as target:
                    size = encrypt_stream(stream, target, key=key, table_id=table_id, observe=observe)
                with self._store.writing() as connection:
                    accounts = self._store.accounts
                    if account_id is not None:
                        owner = accounts.lock(connection, account_id)
                    else:
                        owner = accounts.open_in(connection, str(account_name), user)
                    head = self._ledger.verified_head(connection, owner.id)
                    self._headers.write(
                        Header(table_id, owner.id, key.hex(), size, head.count, head.digest, head.decisions)
                    )
                    table = StoredTable(
                        id=table_id,
                        account_id=owner.id,
                        name=display_name(name, what="The table", cut=True),
                        kind=TableKind(kind),
                        size=size,
                        state=TableState.STORED,
                        fingerprint=fingerprint.hexdigest(),
                        keep_until=None if retention is None else now() + retention,
                        schema=None,
                        created=now(),
                        deleted=None,
                        form=form,
                    )
                    self._store.tables.add(connection, table)
                    twins = {twin.account_id for twin in self.twins(table, connection=connection)}
                    for noted in {owner.id, *twins} if twins else ():
                        self._store.events.enter(connection, EventKind.SAME_TABLE, account_id=noted, table_id=table_id)
                    yield table
            except BaseException as error:
                full = disk_full(self._store.settings.home) if is_full(error) else None  # as it is now
                if not self._may_be_recorded(table_id, error):
                    self._erase(table_id)
                if full is not None:
                    raise full from None
                if isinstance(error, OSError):
                    # The system's message for the error number: a library's message may quote a cell.
                    reason = os.strerror(error.errno) if error.errno else "it could not be read to its end"
                    raise TableError(
                        f"The table could not be stored ({reason}). Check the disk, then try again."
                    ) from None
                raise

    def of_account(self, account_id: str) -> AccountTables:
        """Return the tables of one account, whatever the records say of others."""
        return AccountTables(self, account_id)

    def open(self, table_id: str, *, of: str | None = None) -> BinaryIO:
        """Return the decrypted bytes of a table as a seekable stream, in memory only.

        Parameters
        ----------
        table_id : str
        of : str, optional
            The id of the account that it has to be of.

        Raises
        ------
        TableError
            If the table was deleted, its retention time has passed, it was altered or cut short, or it is of another
            account, or of another than its record says.
        LedgerError
            If the ledger is behind a header of the account, or its chain is broken.
        """
        table = self._store.tables[table_id]
        if table.state is not TableState.STORED:
            raise TableError("This table was deleted. Upload it again.")
        if table_id in self.expire():
            raise TableError(TIME_UP)
        if of not in (None, table.account_id):
            raise TableError(ANOTHER_ACCOUNT)
        self.check_ledger(table.account_id)
        header = self._stamp(table)
        raw = DecryptedStream(self._path(table_id), key=bytes.fromhex(header.key), table_id=table_id, size=header.size)
        return cast(BinaryIO, io.BufferedReader(raw, buffer_size=2**17))

    def check_ledger(self, account_id: str) -> None:
        """Refuse to continue if the ledger lacks entries that a header or the mark records; freeze the account.

        Raises
        ------
        LedgerError
            If the ledger is behind or altered.
        """
        for error in self.check_ledgers([account_id]):
            raise error

    def check_ledgers(self, account_ids: Iterable[str]) -> tuple[LedgerError, ...]:
        """Return what :meth:`check_ledger` would refuse of several accounts; every header is opened once."""
        heads: dict[str, list[LedgerHead]] = {}
        for header in self._headers.all():
            heads.setdefault(header.account_id, []).append(header.head)
        return self._ledger.check_all({account_id: heads.get(account_id, ()) for account_id in account_ids})

    @patient
    def accept_ledger(self, account_id: str, *, who: str) -> None:
        """Accept the ledger as complete and thaw the account.

        For an administrator, after a restored ledger was completed from the certificates issued since
        (:meth:`synth.ledger.ledger.Ledger.enter_certificate`). Who did it is recorded.

        Raises
        ------
        LedgerError
            If the chain itself is broken.
        """
        self._ledger.thaw(account_id, who=who)
        head = self._ledger.mark(account_id)
        with self._store.writing() as connection:
            self._store.accounts.lock(connection, account_id)
            for header in self._headers.all():
                if header.account_id == account_id:
                    self._headers.write(header.at(head))

    @patient
    def delete(self, table_id: str, *, who: str = "") -> None:
        """Delete a table's rows now. Its key goes first, so that remains on the disk cannot be read."""
        # A table that is being deleted must not count as a stray.
        with locked(self._directory, alone=False):
            self._delete(table_id, who=who)

    def _delete(self, table_id: str, *, who: str) -> None:
        table = self._store.tables[table_id]
        with self._store.writing() as connection:
            # Under the lock, so that a process that is opening the table does not write its header again.
            self._store.accounts.lock(connection, table.account_id)
            self._erase(table_id)
        if table.state is TableState.STORED:
            self._store.tables.mark_deleted(table_id)
            self._store.events.add(EventKind.TABLE_DELETED, account_id=table.account_id, table_id=table_id, who=who)

    def expire(self, *, at: datetime | None = None) -> tuple[str, ...]:
        """Delete tables whose retention time has passed and that no unfinished run needs; return their ids."""
        overdue = self._store.tables.expired(at or now())
        expired = [table.id for table in overdue if not self._store.runs.needing_table(table.id)]
        for table_id in expired:
            self.delete(table_id, who="retention")
        return tuple(expired)

    def purge(self, *, at: datetime | None = None) -> tuple[str, ...]:
        """Delete tables whose retention time has passed, and encrypted tables without a record.

        The latter are noted for the Admin page. They are left alone while any process is taking in a table, since a
        table that is not recorded yet looks like one that lost its record.

        Returns
        -------
        tuple of str
            Ids of the tables whose retention time had passed.
        """
        moment = at or now()
        expired = self.expire(at=moment)
        with locked(self._directory, alone=True) as is_alone:
            if is_alone:
                self._remove_strays()
        self._sweep_drafts(moment)
        return expired

    def twins(self, table: StoredTable, *, connection: Connection | None = None) -> tuple[StoredTable, ...]:
        """Return the tables with the same content under other accounts, deleted ones too.

        Test tables are not among them, and have none: nothing is spent on their rows.
        """
        if table.kind is not TableKind.TABLE:
            return ()
        same = self._store.tables.with_fingerprint(table.fingerprint, connection=connection)
        return tuple(other for other in same if other.kind is TableKind.TABLE and other.account_id != table.account_id)

    @patient
    def split_key(self, account_id: str) -> bytes:
        """Return the account's secret (32 bytes), which decides which units are held out and which of their rows count.

        It is random, created once per account, and stored under the master key.
        """
        context = b"hermitage split key 1" + UUID(account_id).bytes
        accounts = self._store.accounts
        with self._store.writing() as connection:
            accounts.lock(connection, account_id)
            sealed = accounts.sealed_split_key(connection, account_id)
            if sealed is None:
                sealed = seal(self._keys.master, new_key(), context=context)
                accounts.set_sealed_split_key(connection, account_id, sealed)
        return unseal(self._keys.master, bytes(sealed), context=context)

    @patient
    def _stamp(self, table: StoredTable) -> Header:
        """Write the ledger's current head into the table's header and the account's mark; return the header."""
        with self._store.writing() as connection:
            # The account's lock keeps a slower process from writing an older head over a newer one.
            self._store.accounts.lock(connection, table.account_id)
            header = self._headers.read(table.id)
            if header.account_id != table.account_id:
                raise TableError(ANOTHER_ACCOUNT)
            header = header.at(self._ledger.mark_in(connection, table.account_id))
            self._headers.write(header)
        return header

    def _path(self, table_id: str) -> Path:
        return self._directory / f"{UUID(table_id)}.table"

    def _may_be_recorded(self, table_id: str, error: BaseException) -> bool:
        """Whether the database has a table, or may have: its files then stay, and are deleted later if it has not."""
        if isinstance(error, CommitInDoubtError):
            return True
        try:
            self._store.tables[table_id]
        except DatabaseAwayError:
            # Lost before the commit, it has rolled back; lost later, it is asked again before files are deleted.
            return not isinstance(error, DatabaseAwayError)
        except TableError:
            return False
        return True

    def _erase(self, table_id: str) -> None:
        for path in (self._headers.path(table_id), self._path(table_id)):
            path.unlink(missing_ok=True)
        sync_directory(self._directory)

    def _remove_strays(self) -> None:
        # List files first: a table that is recorded afterwards was complete before.
        found = {path.stem for path in self._directory.iterdir() if path.suffix in _TABLE_FILES}
        listed = {table.id: table for table in self._store.tables.stored()}
        for stem in sorted(found - listed.keys()):
            for suffix in _TABLE_FILES:
                (self._directory / f"{stem}{suffix}").unlink(missing_ok=True)
            self._note_stray(stem, "files without a record")
        for table in listed.values():
            if not all((self._directory / f"{table.id}{suffix}").exists() for suffix in _TABLE_FILES):
                self._delete(table.id, who="strays")
                self._note_stray(table.id, "a record without its files", account_id=table.account_id)
        sync_directory(self._directory)

    def _note_stray(self, stem: str, what: str, *, account_id: str | None = None) -> None:
        self._store.events.add(
            EventKind.STRAY_REMOVED, account_id=account_id, who="strays", detail={"table": stem, "what": what}
        )

    def _sweep_drafts(self, moment: datetime) -> None:
        for path in self._directory.iterdir():
            is_draft = path.suffix not in {*_TABLE_FILES, ".mark"}
            if is_draft and moment.timestamp() - _modified(path) > DRAFT_AGE.total_seconds():
                path.unlink(missing_ok=True)


def _modified(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:  # a draft that became what it was a draft of
        return math.inf


# Headers and fingerprints ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AccountTables:
    """The tables of one account: a record could be made to name another's, whose people would not be charged."""

    vault: Vault
    account_id: str

    def open(self, table_id: str) -> BinaryIO:
        """Open one as :meth:`Vault.open` does, and refuse one of another account."""
        return self.vault.open(table_id, of=self.account_id)


@dataclass(frozen=True, slots=True, repr=False)
class Header:
    """The table's own key (hexadecimal), its plaintext size in bytes, and the head of the account's chain."""

    table_id: str
    account_id: str
    key: str
    size: int
    count: int
    digest: str
    decisions: int

    @property
    def head(self) -> LedgerHead:
        """How far the account's ledger had come."""
        return LedgerHead(self.account_id, self.count, self.digest, self.decisions)

    def at(self, head: LedgerHead) -> Header:
        """Return the header with another head."""
        return replace(self, count=head.count, digest=head.digest, decisions=head.decisions)

    def __repr__(self) -> str:
        return f"Header({self.table_id})"


class HeaderFiles:
    """``<table>.header`` in the vault's directory.

    Parameters
    ----------
    directory : Path
    master : bytes of length 32
    """

    def __init__(self, directory: Path, master: bytes) -> None:
        self._files = SealedFiles(directory, master, "header")

    def path(self, table_id: str) -> Path:
        """Return the path of a table's header."""
        return self._files.path(table_id)

    def read(self, table_id: str) -> Header:
        """Return a table's header.

        Raises
        ------
        TableError
            If it is missing, was altered, or belongs to another table.
        """
        try:
            return Header(**self._files.read(table_id))
        except OSError:
            raise TableError("The encrypted table is missing from disk. Upload it again.") from None

    def write(self, header: Header) -> None:
        """Write a table's header atomically."""
        self._files.write(header.table_id, asdict(header))

    def all(self) -> list[Header]:
        """Return the headers of all tables; a damaged one closes only its own table."""
        headers = []
        for table_id in self._files.identities():
            with suppress(TableError):
                headers.append(self.read(table_id))
        return headers


BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class Fingerprint:
    """A keyed hash of a table's bytes that ignores line endings, a byte-order mark and blank lines at the end.

    It is keyed, because a plain hash would allow anyone who has seen it to confirm a guess of the table.

    Parameters
    ----------
    keys : Keys
        The same table has a different fingerprint in another installation.
    """

    def __init__(self, keys: Keys) -> None:
        self._hash = hmac.new(keys.hmac(b"", purpose="table fingerprint"), digestmod=hashlib.sha256)
        self._held_back = b""
        self.seen = 0
        """Bytes so far."""

    def update(self, chunk: bytes) -> None:
        """Add the next bytes; their division into chunks does not matter after the first three bytes."""
        start = chunk if self.seen else chunk.removeprefix(BYTE_ORDER_MARK)
        self.seen += len(chunk)
        content = self._held_back + start.replace(b"\r", b"")
        body = content.rstrip(b"\n")
        self._held_back = content[len(body) :]
        self._hash.update(body)

    def hexdigest(self) -> str:
        """Return the fingerprint as 64 hexadecimal digits."""
        return self._hash.hexdigest()
