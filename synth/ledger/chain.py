"""The chain of an account's entries: altering, removing or inserting one breaks every digest after it.

Entries are the account's charges and, between them, the decisions about it: its unit, its limit, whether it is frozen.
Every digest is an HMAC under a key of the installation, so an attacker who can write to the database, but does not have
the key, cannot produce a valid chain. Before the first charge the chain fixes the unit that all charges protect.

Cutting entries off the end leaves a shorter valid chain. The :class:`LedgerHead`, stored with every encrypted table and
printed in every certificate, reveals that.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from synth.errors import LedgerError
from synth.store import SINGLE_USER, Account, Charge, ChargeState, Decision, DecisionKind, LedgerHead, now

__all__ = ["SUCCESSORS", "Chain", "altered", "keyed", "unit_facts", "verify"]

SUCCESSORS: dict[ChargeState | None, tuple[ChargeState, ...]] = {
    None: (ChargeState.RESERVED,),
    ChargeState.RESERVED: (ChargeState.SPENT, ChargeState.FREED),
    ChargeState.SPENT: (ChargeState.RELEASED, ChargeState.FAILED_SPENT),
    ChargeState.RELEASED: (),
    ChargeState.FAILED_SPENT: (),
    ChargeState.FREED: (),
}
"""Which state may follow which; only a reservation can be freed."""

_CHANGING = ("position", "state", "who", "certificate_id", "time", "previous", "digest")


@dataclass(frozen=True, slots=True, repr=False)
class Chain:
    """An account's chain, with every entry checked.

    ``links`` are all heads that it ever had, in order; ``key`` links further entries.
    """

    account: Account
    charges: tuple[Charge, ...]
    decisions: tuple[Decision, ...]
    links: tuple[LedgerHead, ...]
    key: bytes

    @property
    def head(self) -> LedgerHead:
        """Its current head."""
        return self.links[-1]

    @property
    def frozen(self) -> bool:
        """Whether the account is frozen, by its last decision about freezing."""
        last = _last(self.decisions, DecisionKind.FROZEN, DecisionKind.THAWED)
        return self.account.frozen or (last is not None and last.kind is DecisionKind.FROZEN)

    @property
    def has_unit(self) -> bool:
        """Whether an entry fixes the unit that all charges protect."""
        return _last(self.decisions, DecisionKind.UNIT) is not None

    @property
    def was_spent(self) -> bool:
        """Whether rows may ever have been read for this account."""
        return any(charge.state is ChargeState.SPENT for charge in self.charges)

    def holds(self, seen: LedgerHead) -> bool:
        """Whether the chain once had this head."""
        return seen in self.links

    def with_charge(self, charge: Charge) -> Chain:
        """Return the chain with one more row of a charge, numbered and linked; it is the last of ``charges``."""
        placed = replace(charge, position=self.head.count + 1, previous=self.head.digest, digest="", time=now())
        linked = replace(placed, digest=keyed(self.key, _charge_facts(placed)))
        head = LedgerHead(self.account.id, linked.position, linked.digest, len(self.decisions))
        return replace(self, charges=(*self.charges, linked), links=(*self.links, head))

    def with_decision(self, kind: DecisionKind, body: Mapping[str, Any], *, who: str) -> Chain:
        """Return the chain with one more decision, numbered and linked; it is the last of ``decisions``."""
        decision = Decision(
            account_id=self.account.id,
            number=len(self.decisions) + 1,
            charges=self.head.count,
            kind=kind,
            body=dict(body),
            who=who,
            time=now(),
            previous=self.head.digest,
            digest="",
        )
        linked = replace(decision, digest=keyed(self.key, _decision_facts(decision)))
        head = LedgerHead(self.account.id, self.head.count, linked.digest, linked.number)
        return replace(self, decisions=(*self.decisions, linked), links=(*self.links, head))


def verify(account: Account, charges: Sequence[Charge], decisions: Sequence[Decision], key: bytes) -> Chain:
    """Return an account's chain after checking every entry, and the account against its decisions.

    Raises
    ------
    LedgerError
        If an entry was altered, removed, inserted or moved, a charge changed to a state that cannot follow, or the
        account's unit or limit is not the one that was decided.
    """
    walk = _Walk(account, key, _first_owner(account, decisions))
    waiting = list(decisions)
    for charge in (*charges, None):
        while waiting and waiting[0].charges == walk.head.count:
            walk.decide(waiting.pop(0))
        if charge is not None:
            walk.charge(charge)
    if waiting:
        raise altered(account, f"at row {waiting[0].charges + 1}")
    chain = Chain(account, tuple(charges), tuple(decisions), tuple(walk.links), key)
    _check_account(chain)
    return chain


class _Walk:
    """One pass over a chain."""

    def __init__(self, account: Account, key: bytes, first_owner: str) -> None:
        self._account, self._key = account, key
        self._latest: dict[str, Charge] = {}
        self._decisions = 0
        self._has_unit = False
        self.links = [LedgerHead(account.id, 0, keyed(key, _account_facts(account, first_owner)), 0)]

    @property
    def head(self) -> LedgerHead:
        return self.links[-1]

    def charge(self, charge: Charge) -> None:
        before = self._latest.get(charge.charge_id)
        is_next = charge.position == self.head.count + 1 and charge.previous == self.head.digest
        digest = keyed(self._key, _charge_facts(charge))
        is_whole = charge.account_id == self._account.id and charge.digest == digest
        is_step = charge.state in SUCCESSORS[before.state if before else None]
        is_for_the_unit = before is not None or self._has_unit
        is_same = before is None or _same_cost(before, charge)
        if not (is_next and is_whole and is_step and is_for_the_unit and is_same):
            raise altered(self._account, f"at row {self.head.count + 1}")
        self._latest[charge.charge_id] = charge
        self.links.append(LedgerHead(self._account.id, charge.position, charge.digest, self._decisions))

    def decide(self, decision: Decision) -> None:
        is_next = decision.number == self._decisions + 1 and decision.previous == self.head.digest
        digest = keyed(self._key, _decision_facts(decision))
        is_whole = decision.account_id == self._account.id and decision.digest == digest
        if not (is_next and is_whole):
            raise altered(self._account, f"at decision {self._decisions + 1}")
        self._decisions = decision.number
        self._has_unit |= decision.kind is DecisionKind.UNIT
        self.links.append(LedgerHead(self._account.id, decision.charges, decision.digest, decision.number))


def _check_account(chain: Chain) -> None:
    account = chain.account
    unit = _last(chain.decisions, DecisionKind.UNIT)
    if unit is not None and dict(unit.body) != unit_facts(account):
        raise altered(account, "in its protected unit")
    cap = _last(chain.decisions, DecisionKind.CAP)
    decided = {"epsilon": None, "delta": None} if cap is None else dict(cap.body)
    if decided != {"epsilon": account.epsilon_cap, "delta": account.delta_cap}:
        raise altered(account, "in its limit")
    handed = _last(chain.decisions, DecisionKind.OWNER)
    if handed is not None and handed.body["owner"] != account.owner:
        raise altered(account, "in its owner")


def unit_facts(account: Account) -> dict[str, Any]:
    """Return the unit that an account protects, as the body of a decision."""
    return {
        "neighbours": account.neighbours,
        "protects": account.protects,
        "id_column": account.id_column,
        "rows_per_unit": account.rows_per_unit,
    }


def altered(account: Account, where: str) -> LedgerError:
    """Return the error for a ledger that was altered."""
    return LedgerError(
        f"The ledger of account '{account.name}' was altered {where}. Private runs for this account are off until its "
        "ledger is restored from a backup."
    )


def _last(decisions: Sequence[Decision], *kinds: DecisionKind) -> Decision | None:
    return next((decision for decision in reversed(decisions) if decision.kind in kinds), None)


def _same_cost(before: Charge, after: Charge) -> bool:
    return all(
        getattr(before, field.name) == getattr(after, field.name)
        for field in fields(Charge)
        if field.name not in _CHANGING
    )


def _first_owner(account: Account, decisions: Sequence[Decision]) -> str:
    """Return who opened an account: the chain begins with that, or an owner could be exchanged before a hand-over."""
    handed = next((one for one in decisions if one.kind is DecisionKind.OWNER), None)
    return account.owner if handed is None else str(handed.body["before"])


def _account_facts(account: Account, first_owner: str) -> dict[str, Any]:
    facts: dict[str, Any] = {"id": account.id, "name": account.name, "created": int(account.created.timestamp())}
    return facts if first_owner == SINGLE_USER else {**facts, "owner": first_owner}


def _charge_facts(charge: Charge) -> dict[str, Any]:
    facts = {field.name: getattr(charge, field.name) for field in fields(Charge) if field.name != "digest"}
    facts["time"] = int(charge.time.timestamp())
    return facts


def _decision_facts(decision: Decision) -> dict[str, Any]:
    facts = {field.name: getattr(decision, field.name) for field in fields(Decision) if field.name != "digest"}
    # An entry of one kind cannot pass for one of the other: a charge has no such field.
    return {**facts, "body": dict(decision.body), "time": int(decision.time.timestamp())}


def keyed(key: bytes, facts: Mapping[str, object]) -> str:
    """Return the HMAC of facts, as hexadecimal text."""
    # Floats are written with repr, which is exact; text is escaped, so no value can imitate another.
    text = json.dumps(facts, ensure_ascii=True, allow_nan=False, sort_keys=True, separators=(",", ":"))
    return hmac.digest(key, text.encode(), hashlib.sha256).hex()
