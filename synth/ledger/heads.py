"""Heads of the accounts' ledgers, kept outside the database.

Restoring an old copy of the database would undo spending; a head that is ahead of the ledger reveals that. Marks are
heads in the vault, sealed by the master key. A mark outlives the account's tables, and exists from the moment before
the account's first charge is spent. Heads as lines of text, kept elsewhere, reveal that a whole installation was set
back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from synth.errors import InputError, LedgerError, TableError
from synth.store import Account, LedgerHead
from synth.vault.sealing import SealedFiles

__all__ = ["HeadsChecked", "Marks", "check_heads", "heads_text", "no_mark"]


_FIRST_LINE = "hermitage heads 1: account, charges, decisions, digest, name"


class Marks:
    """``<account>.mark`` in the vault's directory.

    Parameters
    ----------
    directory : Path
    master : bytes of length 32
    """

    def __init__(self, directory: Path, master: bytes) -> None:
        self._directory = directory
        self._files = SealedFiles(directory, master, "mark")

    def accounts(self) -> tuple[str, ...]:
        """Return the ids of the accounts that have a mark."""
        return self._files.identities()

    def of(self, account_id: str) -> LedgerHead | None:
        """Return the head of the account's ledger when it was last marked, or None.

        Raises
        ------
        LedgerError
            If the mark was altered.
        """
        path = self._files.path(account_id)
        if not path.exists():
            return None
        try:
            return LedgerHead(**self._files.read(account_id))
        except TableError:
            raise LedgerError(
                f"The file {path.name} in the vault was altered, so it is unknown whether the ledger is complete. "
                "Restore the file from a backup, or accept the ledger of this account as it is, on the Admin page."
            ) from None

    def set(self, head: LedgerHead) -> None:
        """Write the account's mark atomically; the caller has locked the account and committed the head."""
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._files.write(head.account_id, asdict(head))


def no_mark(account: Account) -> str:
    """Return the message about an account whose mark was deleted."""
    return (
        f"The mark of account '{account.name}' is missing from the vault, so it is unknown whether its ledger is "
        "complete. Restore the file from a backup, or accept the ledger of this account as it is, on the Admin page."
    )


# Lines of text --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class HeadsChecked:
    """Result of a comparison: one line for each noted account, and whether all of their ledgers are complete."""

    ok: bool
    lines: tuple[str, ...]


def heads_text(heads: Iterable[tuple[LedgerHead, str]]) -> str:
    """Return the head of each chain, one line each; it contains no amounts spent and no keys.

    Parameters
    ----------
    heads : iterable of (LedgerHead, str)
        Each chain's head, and the name of its account.
    """
    lines = [f"{head.account_id} {head.count} {head.decisions} {head.digest} {name}" for head, name in heads]
    return "\n".join([_FIRST_LINE, *lines]) + "\n"


def check_heads(text: str, names: Mapping[str, str], links_of: Callable[[str], Sequence[LedgerHead]]) -> HeadsChecked:
    """Compare noted heads with the chains as they are: every noted entry must still be in its own.

    Parameters
    ----------
    text : str
        What :func:`heads_text` wrote.
    names : mapping of str to str
        The name of every chain, by its id.
    links_of : callable
        Returns all heads that a checked chain ever had, oldest first, by its id.

    Raises
    ------
    InputError
        If the text is not what :func:`heads_text` wrote.
    """
    lines, ok = [], True
    for head, noted in _parsed(text):
        name = names.get(head.account_id)
        if name is None:
            lines.append(f"MISSING: the account '{noted}' is not in this installation.")
            ok = False
            continue
        try:
            links = links_of(head.account_id)
        except LedgerError as error:
            lines.append(f"ALTERED: {error}")
            ok = False
            continue
        if head in links:
            more = len(links) - 1 - links.index(head)
            lines.append(f"complete: '{name}' has everything that was noted, and {more} more entries.")
        else:
            lines.append(
                f"BEHIND: '{name}' lacks entries that were noted, or has others: {_entries(head)} were noted, and it "
                f"has {_entries(links[-1]) if links else 0}."
            )
            ok = False
    return HeadsChecked(ok, tuple(lines))


def _entries(head: LedgerHead) -> int:
    return head.count + head.decisions


def _parsed(text: str) -> list[tuple[LedgerHead, str]]:
    lines = text.splitlines()
    if not lines or lines[0] != _FIRST_LINE:
        raise InputError("This file does not contain the heads of a ledger. Give one that synth account --heads wrote.")
    found = []
    for number, line in enumerate(lines[1:], start=2):
        parts = line.split(" ", 4)
        if len(parts) != 5 or not (parts[1].isdecimal() and parts[2].isdecimal()):
            raise InputError(
                f"Line {number} of the heads cannot be read. Use the file as synth account --heads wrote it."
            )
        found.append((LedgerHead(parts[0], int(parts[1]), parts[3], int(parts[2])), parts[4]))
    return found
