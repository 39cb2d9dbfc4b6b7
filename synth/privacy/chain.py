"""The hash chain of an account's charges: whoever alters, removes or inserts a row breaks every digest after it.

The first link holds the account's fixed facts, so that its neighbouring relation cannot be changed either. Cutting rows
off the end leaves a shorter chain that is whole; :class:`LedgerHead`, kept beside every encrypted table and printed in
every certificate, is what reveals that.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace

from synth.errors import LedgerError
from synth.store import Account, Charge, ChargeState

__all__ = ["SUCCESSORS", "LedgerHead", "head_of", "link", "verify"]

SUCCESSORS: dict[ChargeState | None, tuple[ChargeState, ...]] = {
    None: (ChargeState.RESERVED,),
    ChargeState.RESERVED: (ChargeState.SPENT, ChargeState.FREED),
    ChargeState.SPENT: (ChargeState.RELEASED, ChargeState.FAILED_SPENT),
    ChargeState.RELEASED: (),
    ChargeState.FAILED_SPENT: (),
    ChargeState.FREED: (),
}
"""Which state may follow which: only a reservation is ever freed."""

_CHANGING = ("position", "state", "who", "certificate_id", "time", "previous", "digest")


@dataclass(frozen=True, slots=True)
class LedgerHead:
    """How many rows an account's chain has, and the digest of the last one (of the account itself when it has none)."""

    account_id: str
    count: int
    digest: str


def head_of(account: Account, charges: Sequence[Charge]) -> LedgerHead:
    """Return the head of an account's chain, given all its rows in order."""
    digest = charges[-1].digest if charges else _first_link(account)
    return LedgerHead(account_id=account.id, count=len(charges), digest=digest)


def link(charge: Charge, head: LedgerHead) -> Charge:
    """Return the charge as the row after ``head``, with its position and digests filled in."""
    placed = replace(charge, position=head.count + 1, previous=head.digest, digest="")
    return replace(placed, digest=_digest(placed))


def verify(account: Account, charges: Sequence[Charge]) -> LedgerHead:
    """Return the head of an account's chain after checking every row.

    Raises
    ------
    LedgerError
        If a row was altered, removed, inserted or moved, or a charge took a step that does not exist.
    """
    head = LedgerHead(account_id=account.id, count=0, digest=_first_link(account))
    latest: dict[str, Charge] = {}
    for charge in charges:
        before = latest.get(charge.charge_id)
        is_next = charge.position == head.count + 1 and charge.previous == head.digest
        is_whole = charge.account_id == account.id and charge.digest == _digest(replace(charge, digest=""))
        is_step = charge.state in SUCCESSORS[before.state if before else None]
        if not (is_next and is_whole and is_step and (before is None or _same_cost(before, charge))):
            raise LedgerError(
                f"The ledger of account '{account.name}' was altered at row {head.count + 1}. Private runs on it are "
                "off until the ledger is restored from a backup."
            )
        latest[charge.charge_id] = charge
        head = LedgerHead(account_id=account.id, count=charge.position, digest=charge.digest)
    return head


def _same_cost(before: Charge, after: Charge) -> bool:
    return all(
        getattr(before, field.name) == getattr(after, field.name)
        for field in fields(Charge)
        if field.name not in _CHANGING
    )


def _first_link(account: Account) -> str:
    facts = {
        "id": account.id,
        "name": account.name,
        "neighbours": account.neighbours,
        "protects": account.protects,
        "created": int(account.created.timestamp()),
    }
    return hashlib.sha256(_canonical(facts)).hexdigest()


def _digest(charge: Charge) -> str:
    facts = {field.name: getattr(charge, field.name) for field in fields(Charge) if field.name != "digest"}
    if charge.pure_units == 0:  # rows older than this field stay as they were hashed
        del facts["pure_units"]
    facts["time"] = int(charge.time.timestamp())
    return hashlib.sha256(_canonical(facts)).hexdigest()


def _canonical(facts: Mapping[str, object]) -> bytes:
    # Floats are written by repr, which is exact; text is escaped, so no value can imitate another.
    return json.dumps(facts, ensure_ascii=True, allow_nan=False, sort_keys=True, separators=(",", ":")).encode()
