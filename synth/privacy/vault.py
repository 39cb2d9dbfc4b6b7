"""The encrypted table store: private tables on disk, as ciphertext only.

``vault/<id>.table`` holds the encrypted chunks, ``vault/<id>.header`` the table's own key, sealed by the master key
together with the account's row count and chain head. A restored backup of the database would un-spend privacy loss; a
header that is ahead of the ledger shows that, and no table of the account is opened.
"""

from __future__ import annotations

import hashlib
import hmac
import io
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import BinaryIO, cast
from uuid import UUID, uuid4

from synth.errors import LedgerError, TableError
from synth.keys import KEY_BYTES, Keys
from synth.privacy.chain import LedgerHead
from synth.privacy.ledger import Ledger
from synth.privacy.sealing import DecryptedStream, encrypt_stream, seal, unseal
from synth.store import EventKind, Store, StoredTable, TableKind, TableState, display_name, now

__all__ = ["Vault"]

ORPHAN_AGE = timedelta(days=1)
"""Files of an upload that never finished are swept after this long; without a header their key is gone already."""


BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class _Header:
    table_id: str
    account_id: str
    key: str
    size: int
    count: int
    digest: str

    @property
    def head(self) -> LedgerHead:
        return LedgerHead(account_id=self.account_id, count=self.count, digest=self.digest)


class Vault:
    """Takes private tables in, opens them in memory, and deletes them.

    Parameters
    ----------
    store : Store
        Keeps what is known about each table; never its rows.
    keys : Keys
        The installation's secrets.
    """

    def __init__(self, store: Store, keys: Keys) -> None:
        self._store = store
        self._keys = keys
        self._ledger = Ledger(store)
        self._directory = store.settings.home / "vault"
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)

    def put(
        self,
        stream: BinaryIO,
        *,
        account: str,
        name: str,
        kind: TableKind = TableKind.TABLE,
        retention: timedelta | None = None,
        limit: int | None = None,
    ) -> str:
        """Encrypt a table while reading it, and return its id.

        Parameters
        ----------
        stream : binary stream
            Read to its end in pieces of 64 KiB.
        account : str
            Id of the account it belongs to.
        name : str
            For display only; never a path.
        kind : TableKind
        retention : timedelta, optional
            After which :meth:`purge` deletes it; None keeps it until :meth:`delete`.
        limit : int, optional
            Largest size in bytes; by default the installation's.

        Raises
        ------
        TableError
            If it is larger than the limit, or the disk is full.
        """
        owner = self._store.accounts[account]
        table_id, key = str(uuid4()), os.urandom(KEY_BYTES)
        fingerprint = _Fingerprint(self._keys)
        most = self._store.settings.maximum_table_bytes if limit is None else limit

        def observe(chunk: bytes) -> None:
            fingerprint.update(chunk)
            if fingerprint.seen > most:
                raise TableError(
                    f"The table is larger than the {most / 2**20:,.0f} MiB this installation accepts. "
                    "Ask your administrator, or leave out columns."
                )

        try:
            with _private_file(self._path(table_id, "table")) as target:
                size = encrypt_stream(stream, target, key=key, table_id=table_id, observe=observe)
                target.flush()
                os.fsync(target.fileno())
            head = self._ledger.head(owner.id)
            self._write_header(_Header(table_id, owner.id, key.hex(), size=size, count=head.count, digest=head.digest))
            table = StoredTable(
                id=table_id,
                account_id=owner.id,
                name=display_name(name, what="The table"),
                kind=TableKind(kind),
                size=size,
                state=TableState.STORED,
                fingerprint=fingerprint.hexdigest(),
                keep_until=None if retention is None else now() + retention,
                schema=None,
                created=now(),
                deleted=None,
            )
            self._store.tables.add(table)
        except OSError as error:
            self._erase(table_id)
            raise TableError(
                f"The table could not be stored ({error.strerror}). Check the disk, then try again."
            ) from None
        except BaseException:
            self._erase(table_id)
            raise
        self._warn_of_twins(table)
        return table_id

    def open(self, table_id: str) -> BinaryIO:
        """Return the decrypted bytes of a table as a seekable stream; they exist in memory only.

        Raises
        ------
        TableError
            If the table was deleted, altered, cut short, or its parts were exchanged.
        LedgerError
            If the ledger is older than a header of the account, or its chain is broken.
        """
        table = self._store.tables[table_id]
        if table.state is not TableState.STORED:
            raise TableError("This table was deleted. Upload it again.")
        self.check_ledger(table.account_id)
        header = self._advance(table)
        raw = DecryptedStream(
            self._path(table_id, "table"), key=bytes.fromhex(header.key), table_id=table_id, size=header.size
        )
        return cast(BinaryIO, io.BufferedReader(raw, buffer_size=2**17))

    def check_ledger(self, account_id: str) -> None:
        """Refuse to go on where the ledger has lost rows that a table's header has seen; freezes the account.

        Raises
        ------
        LedgerError
            If the ledger is behind or altered.
        """
        # Headers first: rows that another process appends meanwhile must not look like rows that are missing.
        headers = [header for header in self._headers() if header.account_id == account_id and header.count]
        self._ledger.verify_chain(account_id)
        digests = {charge.position: charge.digest for charge in self._ledger.rows(account_id)}
        for header in headers:
            if digests.get(header.count) != header.digest:
                self._store.accounts.freeze(account_id)
                self._store.events.add(EventKind.FROZEN, account_id=account_id, table_id=header.table_id)
                name = self._store.accounts[account_id].name
                raise LedgerError(
                    f"The ledger of account '{name}' is older than what was already spent, or was altered. Its tables "
                    "stay closed. Restore the latest ledger, or enter the later certificates."
                )

    def delete(self, table_id: str, *, who: str = "") -> None:
        """Delete a table's rows now. Its key goes first, so that what a disk may still hold cannot be read."""
        table = self._store.tables[table_id]
        self._erase(table_id)
        if table.state is TableState.STORED:
            self._store.tables.mark_deleted(table_id)
            self._store.events.add(EventKind.TABLE_DELETED, account_id=table.account_id, table_id=table_id, who=who)

    def purge(self, *, at: datetime | None = None) -> tuple[str, ...]:
        """Delete the tables whose deadline has passed and that no unfinished run needs; return their ids."""
        moment = at or now()
        expired = [t.id for t in self._store.tables.expired(moment) if not self._store.runs.needing_table(t.id)]
        for table_id in expired:
            self.delete(table_id, who="retention")
        self._sweep_orphans(moment)
        return tuple(expired)

    def twins(self, table_id: str) -> tuple[StoredTable, ...]:
        """Return the tables with the same content that were taken in under other accounts."""
        table = self._store.tables[table_id]
        same = self._store.tables.with_fingerprint(table.fingerprint)
        return tuple(other for other in same if other.account_id != table.account_id)

    def split_key(self, account_id: str) -> bytes:
        """Return the account's secret (32 bytes) that decides which unit is held out and which rows of a unit are kept.

        It comes from the operating system, is made once per account and kept under the master key.
        """
        context = b"hermitage split key 1" + UUID(account_id).bytes
        accounts = self._store.accounts
        with self._store.writing() as connection:
            accounts.lock(connection, account_id)
            sealed = accounts.sealed_split_key(connection, account_id)
            if sealed is None:
                sealed = seal(self._keys.master, os.urandom(KEY_BYTES), context=context)
                accounts.set_sealed_split_key(connection, account_id, sealed)
        return unseal(self._keys.master, bytes(sealed), context=context)

    def _warn_of_twins(self, table: StoredTable) -> None:
        twins = self.twins(table.id)
        for account_id in {table.account_id, *(twin.account_id for twin in twins)} if twins else ():
            self._store.events.add(EventKind.SAME_TABLE, account_id=account_id, table_id=table.id)

    def _advance(self, table: StoredTable) -> _Header:
        with self._store.writing() as connection:
            self._store.accounts.lock(connection, table.account_id)
            head = self._ledger.verified_head(connection, table.account_id)
            header = replace(self._read_header(table.id), count=head.count, digest=head.digest)
            self._write_header(header)
        return header

    def _headers(self) -> Iterator[_Header]:
        for path in sorted(self._directory.glob("*.header")):
            # A header that is gone by now or damaged closes its own table, not every other one.
            with suppress(TableError):
                yield self._read_header(path.stem)

    def _read_header(self, table_id: str) -> _Header:
        try:
            sealed = self._path(table_id, "header").read_bytes()
        except OSError:
            raise TableError("The encrypted table is missing from disk. Upload it again.") from None
        return _Header(**json.loads(unseal(self._keys.master, sealed, context=_header_context(table_id))))

    def _write_header(self, header: _Header) -> None:
        sealed = seal(self._keys.master, json.dumps(asdict(header)).encode(), context=_header_context(header.table_id))
        path = self._path(header.table_id, "header")
        draft = path.with_suffix(f".{os.urandom(8).hex()}")
        with _private_file(draft) as file:
            file.write(sealed)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
        _sync_directory(self._directory)

    def _path(self, table_id: str, suffix: str) -> Path:
        return self._directory / f"{UUID(table_id)}.{suffix}"

    def _erase(self, table_id: str) -> None:
        for suffix in ("header", "table"):
            self._path(table_id, suffix).unlink(missing_ok=True)
        _sync_directory(self._directory)

    def _sweep_orphans(self, moment: datetime) -> None:
        for path in self._directory.iterdir():
            is_old = moment.timestamp() - path.stat().st_mtime > ORPHAN_AGE.total_seconds()
            has_header = path.suffix == ".header" or path.with_suffix(".header").exists()
            if is_old and not has_header:
                path.unlink(missing_ok=True)


class _Fingerprint:
    """A keyed hash of a table's bytes, blind to line endings, a byte-order mark and blank lines at the end.

    Keyed, because a bare hash would let anybody who has seen the hash confirm a guess of the table.
    """

    def __init__(self, keys: Keys) -> None:
        self._hash = hmac.new(keys.hmac(b"", purpose="table fingerprint"), digestmod=hashlib.sha256)
        self._held_back = b""
        self.seen = 0

    def update(self, chunk: bytes) -> None:
        start = chunk if self.seen else chunk.removeprefix(BYTE_ORDER_MARK)
        self.seen += len(chunk)
        content = self._held_back + start.replace(b"\r", b"")
        body = content.rstrip(b"\n")
        self._held_back = content[len(body) :]
        self._hash.update(body)

    def hexdigest(self) -> str:
        return self._hash.hexdigest()


def _header_context(table_id: str) -> bytes:
    return b"hermitage header 1" + UUID(table_id).bytes


@contextmanager
def _private_file(path: Path) -> Iterator[BinaryIO]:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        yield file


def _sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
