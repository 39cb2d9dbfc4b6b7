"""Headers: what lies beside the encrypted chunks of a table, sealed by the master key.

Each remembers how far the account's ledger had come, as a mark does (:mod:`synth.ledger.marks`).
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from uuid import UUID

from synth.errors import TableError
from synth.store import LedgerHead
from synth.system.private_files import replace_durably
from synth.vault.sealing import seal, unseal

__all__ = ["Header", "HeaderFiles"]


@dataclass(frozen=True, slots=True, repr=False)
class Header:
    """The table's own key (hexadecimal), its plaintext size in bytes, and the head of the account's chain."""

    table_id: str
    account_id: str
    key: str
    size: int
    count: int
    digest: str
    decisions: int | None = None

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
        return Header(**json.loads(unseal(self._master, sealed, context=_context(table_id))))

    def write(self, header: Header) -> None:
        """Write a table's header in one step."""
        payload = json.dumps(asdict(header)).encode()
        context = _context(header.table_id)
        replace_durably(self.path(header.table_id), seal(self._master, payload, context=context))

    def of_account(self, account_id: str) -> list[Header]:
        """Return the headers of an account's tables; a damaged one closes its own table, not every other."""
        headers = []
        for path in sorted(self._directory.glob("*.header")):
            with suppress(TableError):
                headers.append(self.read(path.stem))
        return [header for header in headers if header.account_id == account_id]


def _context(table_id: str) -> bytes:
    return b"hermitage header 1 " + UUID(table_id).bytes
