"""What a charge is, and the conditions for it: the part of the ledger without a database.

A charge is *reserved*, *spent* and *released*, each in a row of its own. Its account must not be frozen, its budget
must have the account's neighbouring relation and unit, and its run must be the one for which it was reserved.

Where single cells are protected, the epsilons of one account add up only if all runs protect the same cells: the label
of one run is public for good, so a later run cannot protect it again; and a number that is protected up to a part of
its declared range is protected up to the smallest such part of all runs.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from typing import Any, Self
from uuid import uuid4

from synth.errors import ApprovalRequiredError, LedgerError, PrivacyError
from synth.ledger.chain import SUCCESSORS, Chain
from synth.ledger.notes import asked_digest
from synth.ledger.spending import AMOUNTS, Cost
from synth.privacy.accounting import PrivacyBudget
from synth.schema import Neighbours
from synth.store import (
    Account,
    Charge,
    ChargeState,
    Decision,
    DecisionKind,
    check_same_promise,
    display_name,
    now,
    promise_of_config,
)

__all__ = [
    "OTHER_THAN_RESERVED",
    "Approval",
    "HiddenCells",
    "answers_of_requests",
    "approval_for",
    "approvals_used",
    "cells_charged",
    "cells_kept",
    "charge_in",
    "latest_rows",
    "next_row",
    "requests_in",
    "require_approval",
    "require_as_reserved",
    "require_open",
    "require_same_cells",
    "require_same_neighbours",
    "reservation",
    "use_of",
]

OTHER_THAN_RESERVED = (
    "The configuration of this run is not the one for which its budget was reserved: it was altered while the run was "
    "waiting. Start a new run."
)


def latest_rows(charges: Sequence[Charge]) -> tuple[Charge, ...]:
    """Return the latest row of each charge, oldest charge first."""
    return tuple({charge.charge_id: charge for charge in charges}.values())


def charge_in(account: Account, charges: Sequence[Charge], charge_id: str) -> Charge:
    """Return the latest row of one charge."""
    for charge in reversed(charges):
        if charge.charge_id == charge_id:
            return charge
    raise LedgerError(f"The ledger of account '{account.name}' does not have this charge. Start a new run.")


def next_row(found: Chain, charge: Charge, state: ChargeState) -> Charge:
    """Return the latest row of a charge with a new state, before it is added to the chain.

    Raises
    ------
    LedgerError
        If the new state cannot follow the current one.
    """
    latest = charge_in(found.account, found.charges, charge.charge_id)
    if state not in SUCCESSORS[latest.state]:
        raise LedgerError(f"This charge is {latest.state} and cannot become {state}. Start a new run.")
    return replace(latest, state=state)


def require_open(chain: Chain) -> None:
    """Refuse a frozen account."""
    if chain.frozen:
        raise LedgerError(
            f"The account '{chain.account.name}' is frozen, because its ledger may lack some releases. Enter the "
            "missing certificates and accept the ledger: on the Admin page, or with synth account --enter and --accept."
        )


def require_same_neighbours(account: Account, budget: PrivacyBudget) -> None:
    """Refuse a budget with a different neighbouring relation, which cannot be added up."""
    if account.neighbours is None:
        raise PrivacyError(
            f"It is not declared yet who the account '{account.name}' protects. Describe its table first."
        )
    if budget.neighbours is not account.neighbours:
        raise PrivacyError(
            f"The account '{account.name}' uses the neighbouring relation {account.neighbours.value}; this budget uses "
            f"{budget.neighbours.value}. The two cannot be added up: use another account."
        )


def require_as_reserved(found: Chain, charge: Charge, config: str) -> None:
    """Refuse to run what the charge was not reserved for: the configuration of a waiting run could be edited.

    Raises
    ------
    LedgerError
        If the configuration has a different account, budget or unit, protects other cells, or is not the one that was
        approved.
    """
    mapping: Mapping[str, Any] = json.loads(config)
    neighbours, unit = promise_of_config(config)
    budget = {"epsilon": charge.epsilon, "delta": charge.delta}
    account = display_name(str(mapping.get("account", "")), what="The account")
    same = account == found.account.name and dict(mapping.get("budget", {})) == budget
    uses = (one.body for one in found.decisions if one.kind is DecisionKind.USED)
    same &= all(use["config"] == asked_digest(config) for use in uses if use["run"] == charge.run_id)
    try:
        check_same_promise(found.account, neighbours, unit)
        if charge.neighbours is Neighbours.CELL:
            reserved = [cells for run, cells in cells_kept(found).items() if run == charge.run_id]
            require_same_cells(found.account, HiddenCells.of_config(config), reserved)
    except PrivacyError:
        same = False
    if not same or neighbours is not charge.neighbours:
        raise LedgerError(OTHER_THAN_RESERVED)


def reservation(account: Account, run_id: str, budget: PrivacyBudget, cost: Cost, *, purpose: str, who: str) -> Charge:
    """Return the first row of a charge, not yet added to the chain."""
    return Charge(
        account_id=account.id,
        position=0,
        charge_id=str(uuid4()),
        run_id=run_id,
        state=ChargeState.RESERVED,
        purpose=purpose,
        who=who,
        neighbours=budget.neighbours,
        epsilon=float(budget.epsilon),
        delta=float(budget.delta),
        **{name: getattr(cost, name) for name in AMOUNTS},
        accountant="pure epsilon" if cost.pure_units else f"mu^2, autodp {version('autodp')}",
        certificate_id=None,
        time=now(),
        previous="",
        digest="",
    )


# Single cells ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class HiddenCells:
    """What a run protects, by its configuration.

    Attributes
    ----------
    label : str, optional
        The public column.
    change : float
        Largest change of a number or date that is protected, as a part of its declared range.
    ranges : tuple of (str, str, str)
        Name and declared ends of each number and date, if ``change`` is below 1; otherwise empty, as any change is
        protected then.
    """

    label: str | None
    change: float
    ranges: tuple[tuple[str, str, str], ...] = ()

    @classmethod
    def of_config(cls, config: str) -> Self:
        """Read them from a run's configuration, as JSON."""
        mapping: Mapping[str, Any] = json.loads(config)
        change = float(mapping.get("cell_change", 1.0))
        columns: Mapping[str, Any] = mapping.get("columns", {}) if change < 1 else {}
        return cls(
            label=mapping.get("label"),
            change=change,
            ranges=tuple(
                (name, str(column["low"]), str(column["high"]))
                for name, column in sorted(columns.items())
                if isinstance(column, dict) and "low" in column and "high" in column
            ),
        )

    @classmethod
    def of_body(cls, body: Mapping[str, Any]) -> Self:
        """Read them back from a decision."""
        ranges = tuple((str(name), str(low), str(high)) for name, low, high in body["ranges"])
        return cls(label=body["label"], change=float(body["change"]), ranges=ranges)

    def to_body(self, run_id: str) -> dict[str, Any]:
        """Return them with their run, as the body of a decision."""
        ranges = [list(one) for one in self.ranges]
        return {"run": run_id, "label": self.label, "change": self.change, "ranges": ranges}

    def agrees(self, other: HiddenCells) -> bool:
        """Whether both protect the same cells; columns that only one of them has do not count."""
        own, theirs = ({name: ends for name, *ends in one.ranges} for one in (self, other))
        return (self.label, self.change) == (other.label, other.change) and all(
            own[name] == theirs[name] for name in own.keys() & theirs.keys()
        )


def require_same_cells(account: Account, cells: HiddenCells, earlier: Iterable[HiddenCells]) -> None:
    """Refuse a run that does not protect the same cells as the account's earlier runs.

    Raises
    ------
    PrivacyError
        If an earlier run had another label, another ``cell_change``, or other ends of a range to which that applies.
    """
    if not all(cells.agrees(one) for one in earlier):
        raise PrivacyError(
            f"Earlier runs of the account '{account.name}' protect other cells: they have a different label, a "
            "different cell_change, or different ranges for it. Use the same, or another account."
        )


def cells_kept(found: Chain) -> dict[str, HiddenCells]:
    """Return what each run protects, by its id, from the chain."""
    return {one.body["run"]: HiddenCells.of_body(one.body) for one in found.decisions if one.kind is DecisionKind.CELLS}


def cells_charged(found: Chain) -> list[HiddenCells]:
    """Return what each run with a charge that was not freed protects, from the chain."""
    held = {charge.run_id for charge in latest_rows(found.charges) if charge.state is not ChargeState.FREED}
    return [cells for run, cells in cells_kept(found).items() if run in held]


# Approvals ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Approval:
    """What a charge needs a second person's yes for.

    Attributes
    ----------
    request : str
        The id of the request that was approved.
    epsilon : float
        The most that the certificate will state.
    """

    request: str
    epsilon: float


def requests_in(found: Chain) -> dict[str, Decision]:
    """Return what was asked to be approved, by the request's id, oldest first."""
    return {str(one.body["request"]): one for one in found.decisions if one.kind is DecisionKind.ASKED}


def answers_of_requests(found: Chain) -> dict[str, Decision]:
    """Return the approval or the refusal of each request of an account, by the request's id, oldest first."""
    verdicts = (DecisionKind.APPROVED, DecisionKind.REFUSED)
    return {str(one.body["request"]): one for one in found.decisions if one.kind in verdicts}


def approvals_used(found: Chain) -> dict[str, Decision]:
    """Return how approvals were used, by the request's id; a charge that was freed gives its approval back."""
    held = {charge.run_id for charge in latest_rows(found.charges) if charge.state is not ChargeState.FREED}
    used = (one for one in found.decisions if one.kind is DecisionKind.USED)
    return {str(one.body["request"]): one for one in used if one.body["run"] in held}


def approval_for(found: Chain, config: str) -> str | None:
    """Return the oldest request for a configuration, as JSON, that was approved and not used yet, or None."""
    used, digest = approvals_used(found), asked_digest(config)
    approved = (
        request
        for request, answer in answers_of_requests(found).items()
        if answer.kind is DecisionKind.APPROVED and answer.body["config"] == digest
    )
    return next((request for request in approved if request not in used), None)


def use_of(request: str, config: str, run_id: str) -> dict[str, Any]:
    """Return what is kept of the use of an approval, as the body of a decision."""
    return {"request": request, "config": asked_digest(config), "run": run_id}


def require_approval(found: Chain, approval: Approval, config: str) -> None:
    """Refuse a charge whose configuration, as JSON, nobody has approved, or whose approval was used.

    Raises
    ------
    ApprovalRequiredError
    """
    answer = answers_of_requests(found).get(approval.request)
    is_approved = (
        answer is not None
        and answer.kind is DecisionKind.APPROVED
        and answer.body["config"] == asked_digest(config)
        and approval.epsilon <= float(answer.body["epsilon"])
        and approval.request not in approvals_used(found)
    )
    if not is_approved:
        raise ApprovalRequiredError(
            "A second person has to approve this release, and nobody has, or the approval was used. Ask for it first."
        )
