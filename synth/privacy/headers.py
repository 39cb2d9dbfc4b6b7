"""What lies beside the encrypted chunks, sealed by the master key: headers of tables and marks of accounts.

Both remember how far the account's ledger had come. A restored backup of the database would un-spend privacy loss; a
header or a mark that is ahead of the ledger shows that. A mark outlives the account's tables.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from uuid import UUID

from synth.errors import LedgerError, TableError
from synth.privacy.chain import LedgerHead
from synth.privacy.private_files import replace_durably
from synth.privacy.sealing import seal, unseal

__all__ = ["Header", "HeaderFiles"]


@dataclass(frozen=True, slots=True, repr=False)
class Header:
    """The table's own key (hexadecimal), its plaintext size in bytes, and the account's row count and chain head."""

    table_id: str
    account_id: str
    key: str
    size: int
    count: int
    digest: str

    def __repr__(self) -> str:
        return f"Header({self.table_id})"


class HeaderFiles:
    """``<table>.header`` and ``<account>.mark`` in the vault's directory.

    Parameters
    ----------
    directory : Path
    master : bytes of length 32
    """

    def __init__(self, directory: Path, master: bytes) -> None:
        self._directory = directory
        self._master = master

    def path(self, table_id: str) -> Path:
        """Return where a table's header lies; only a number can be a name."""
        return self._directory / f"{UUID(table_id)}.header"

    def read(self, table_id: str) -> Header:
        """Return a table's header.

        Raises
        ------
        TableError
            If it is missing, was altered, or belongs to another table.
        """
        try:
            sealed = self.path(table_id).read_bytes()
        except OSError:
            raise TableError("The encrypted table is missing from disk. Upload it again.") from None
        return Header(**json.loads(unseal(self._master, sealed, context=_context("header", table_id))))

    def write(self, header: Header) -> None:
        """Write a table's header in one step."""
        payload = json.dumps(asdict(header)).encode()
        context = _context("header", header.table_id)
        replace_durably(self.path(header.table_id), seal(self._master, payload, context=context))

    def of_account(self, account_id: str) -> list[Header]:
        """Return the headers of an account's tables; a damaged one closes its own table, not every other."""
        headers = []
        for path in sorted(self._directory.glob("*.header")):
            with suppress(TableError):
                headers.append(self.read(path.stem))
        return [header for header in headers if header.account_id == account_id]

    def mark(self, account_id: str) -> LedgerHead | None:
        """Return the head that the account's ledger had when one of its tables was last opened, if one ever was.

        Raises
        ------
        LedgerError
            If the mark was altered.
        """
        path = self._mark_path(account_id)
        if not path.exists():
            return None
        try:
            payload = unseal(self._master, path.read_bytes(), context=_context("mark", account_id))
        except TableError:
            raise LedgerError(
                f"The file {path.name} in the vault was altered, so nobody can tell whether the ledger is complete. "
                "Restore it from a backup, or have an administrator accept the ledger."
            ) from None
        return LedgerHead(**json.loads(payload))

    def set_mark(self, head: LedgerHead) -> None:
        """Write the account's mark in one step."""
        payload = json.dumps(asdict(head)).encode()
        context = _context("mark", head.account_id)
        replace_durably(self._mark_path(head.account_id), seal(self._master, payload, context=context))

    def _mark_path(self, account_id: str) -> Path:
        return self._directory / f"{UUID(account_id)}.mark"


def _context(kind: str, identity: str) -> bytes:
    return f"hermitage {kind} 1 ".encode() + UUID(identity).bytes
