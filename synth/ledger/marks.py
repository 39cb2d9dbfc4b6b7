"""Marks: how far the ledger of each account had come, kept beside the database and sealed by the master key.

A restored backup of the database would un-spend privacy loss; a mark that is ahead of the ledger shows that. A mark
outlives the account's tables, and exists from the moment before the account's first charge is spent.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from uuid import UUID

from synth.errors import LedgerError, TableError
from synth.store import Account, LedgerHead
from synth.system.private_files import replace_durably
from synth.vault.sealing import seal, unseal

__all__ = ["Marks", "no_mark"]


class Marks:
    """``<account>.mark`` in the vault's directory.

    Parameters
    ----------
    directory : Path
    master : bytes of length 32
    """

    def __init__(self, directory: Path, master: bytes) -> None:
        self._directory = directory
        self._master = master

    def accounts(self) -> tuple[str, ...]:
        """Return the ids of the accounts that have a mark."""
        return tuple(sorted(path.stem for path in self._directory.glob("*.mark")))

    def of(self, account_id: str) -> LedgerHead | None:
        """Return the head that the account's ledger had when it was last marked, if it ever was.

        Raises
        ------
        LedgerError
            If the mark was altered.
        """
        path = self._path(account_id)
        if not path.exists():
            return None
        try:
            payload = unseal(self._master, path.read_bytes(), context=_context(account_id))
        except TableError:
            raise LedgerError(
                f"The file {path.name} in the vault was altered, so nobody can tell whether the ledger is complete. "
                "Restore it from a backup, or accept the ledger of this account as it is on the page Admin."
            ) from None
        return LedgerHead(**json.loads(payload))

    def set(self, head: LedgerHead) -> None:
        """Write the account's mark in one step; the caller holds the account's lock and the head is committed."""
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        payload = json.dumps(asdict(head)).encode()
        replace_durably(self._path(head.account_id), seal(self._master, payload, context=_context(head.account_id)))

    def _path(self, account_id: str) -> Path:
        return self._directory / f"{UUID(account_id)}.mark"


def no_mark(account: Account) -> str:
    """Return the sentence about an account whose mark was deleted."""
    return (
        f"The mark of account '{account.name}' is gone from the vault, so nobody can tell whether its ledger is "
        "complete. Restore the file from a backup, or accept the ledger of this account as it is on the page Admin."
    )


def _context(account_id: str) -> bytes:
    return b"hermitage mark 1 " + UUID(account_id).bytes
