"""Heads of the ledger as lines of text: kept elsewhere, they tell when a whole installation was set back."""

from __future__ import annotations

from dataclasses import dataclass

from synth.errors import InputError, LedgerError
from synth.ledger.ledger import Ledger
from synth.store import LedgerHead, Store

__all__ = ["HeadsChecked", "check_heads", "heads_text"]

_FIRST_LINE = "hermitage heads 1: account, charges, decisions, digest, name"


@dataclass(frozen=True, slots=True)
class HeadsChecked:
    """What came of comparing: one line for every account that was noted, and whether all of them are whole."""

    ok: bool
    lines: tuple[str, ...]


def heads_text(store: Store, ledger: Ledger) -> str:
    """Return how far every account's ledger has come, one line each; it holds no number that was spent and no key."""
    lines = [_FIRST_LINE]
    for account in store.accounts.all():
        head = ledger.head(account.id)
        lines.append(f"{account.id} {head.count} {head.decisions} {head.digest} {account.name}")
    return "\n".join(lines) + "\n"


def check_heads(text: str, store: Store, ledger: Ledger) -> HeadsChecked:
    """Compare what was noted with the ledger as it is: every noted entry must still be in it.

    Raises
    ------
    InputError
        If the text is not what :func:`heads_text` wrote.
    """
    known = {account.id: account for account in store.accounts.all()}
    lines, ok = [], True
    for head, name in _parsed(text):
        account = known.get(head.account_id)
        if account is None:
            lines.append(f"MISSING: the account '{name}' is not in this installation.")
            ok = False
            continue
        try:
            chain = ledger.chain(account.id)
        except LedgerError as error:
            lines.append(f"ALTERED: {error}")
            ok = False
            continue
        if chain.holds(head):
            more = len(chain.links) - 1 - chain.links.index(head)
            lines.append(f"whole: '{account.name}' holds what was noted, and {more} entries more.")
        else:
            lines.append(
                f"BEHIND: '{account.name}' had come further than it is now, or went another way: {head.count} rows of "
                f"charges were noted, it has {chain.head.count}."
            )
            ok = False
    return HeadsChecked(ok, tuple(lines))


def _parsed(text: str) -> list[tuple[LedgerHead, str]]:
    lines = text.splitlines()
    if not lines or lines[0] != _FIRST_LINE:
        raise InputError("This file does not hold the heads of a ledger. Name one that synth account --heads wrote.")
    found = []
    for number, line in enumerate(lines[1:], start=2):
        parts = line.split(" ", 4)
        if len(parts) != 5 or not (parts[1].isdecimal() and parts[2].isdecimal()):
            raise InputError(
                f"Line {number} of the heads cannot be read. Take the file as synth account --heads wrote it."
            )
        found.append((LedgerHead(parts[0], int(parts[1]), parts[3], int(parts[2])), parts[4]))
    return found
