"""What one charge is and what it has to meet: the pure half of the ledger."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.metadata import version
from typing import Any
from uuid import uuid4

from synth.errors import LedgerError, PrivacyError
from synth.ledger.chain import SUCCESSORS, Chain
from synth.ledger.spending import Cost
from synth.privacy.accounting import PrivacyBudget
from synth.privacy.more.cell_accounts import Cells, cells_kept, require_same_cells
from synth.schema import Neighbours
from synth.store import Account, Charge, ChargeState, check_same_promise, display_name, now, promise_of_config

__all__ = [
    "OTHER_THAN_RESERVED",
    "charge_in",
    "latest_rows",
    "next_row",
    "require_as_reserved",
    "require_open",
    "require_same_neighbours",
    "reservation",
]

OTHER_THAN_RESERVED = (
    "The configuration of this run is not the one that its budget was reserved for: it was altered while the run "
    "waited. Start a new run."
)


def latest_rows(charges: Sequence[Charge]) -> tuple[Charge, ...]:
    """Return the latest row of each charge, oldest charge first."""
    return tuple({charge.charge_id: charge for charge in charges}.values())


def charge_in(account: Account, charges: Sequence[Charge], charge_id: str) -> Charge:
    """Return the latest row of one charge."""
    for charge in reversed(charges):
        if charge.charge_id == charge_id:
            return charge
    raise LedgerError(f"The ledger of account '{account.name}' has no such charge. Start a new run.")


def next_row(found: Chain, charge: Charge, state: ChargeState) -> Charge:
    """Return the latest row of a charge in another state, before it is placed in the chain.

    Raises
    ------
    LedgerError
        If no step leads from its state to that one.
    """
    latest = charge_in(found.account, found.charges, charge.charge_id)
    if state not in SUCCESSORS[latest.state]:
        raise LedgerError(f"This charge is {latest.state} and cannot become {state}. Start a new run.")
    return replace(latest, state=state)


def require_open(chain: Chain) -> None:
    """Refuse a frozen account."""
    if chain.frozen:
        raise LedgerError(
            f"The account '{chain.account.name}' is frozen, because its ledger may be older than what was released. "
            "Enter the certificates that are missing and accept the ledger: on the page Admin, or with synth account "
            "--enter and --accept."
        )


def require_same_neighbours(account: Account, budget: PrivacyBudget) -> None:
    """Refuse a budget of another neighbouring relation: the two cannot be added."""
    if account.neighbours is None:
        raise PrivacyError(f"Nobody has said yet whom the account '{account.name}' protects. Describe its table first.")
    if budget.neighbours is not account.neighbours:
        raise PrivacyError(
            f"The account '{account.name}' counts in {account.neighbours.value} neighbours; this budget is in "
            f"{budget.neighbours.value}. The two cannot be added: use another account."
        )


def require_as_reserved(found: Chain, charge: Charge, config: str) -> None:
    """Refuse to carry out what the charge was not reserved for: a configuration that waits could be edited meanwhile.

    Raises
    ------
    LedgerError
        If the configuration names another account or budget, protects another unit, or hides other cells.
    """
    mapping: Mapping[str, Any] = json.loads(config)
    neighbours, unit = promise_of_config(config)
    budget = {"epsilon": charge.epsilon, "delta": charge.delta}
    account = display_name(str(mapping.get("account", "")), what="The account")
    same = account == found.account.name and dict(mapping.get("budget", {})) == budget
    try:
        check_same_promise(found.account, neighbours, unit)
        if charge.neighbours is Neighbours.CELL:
            reserved = [cells for run, cells in cells_kept(found).items() if run == charge.run_id]
            require_same_cells(found.account, Cells.of_config(config), reserved)
    except PrivacyError:
        same = False
    if not same or neighbours is not charge.neighbours:
        raise LedgerError(OTHER_THAN_RESERVED)


def reservation(account: Account, run_id: str, budget: PrivacyBudget, cost: Cost, *, purpose: str, who: str) -> Charge:
    """Return the first row of a charge, not yet placed in the chain."""
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
        mu_squared_units=cost.mu_squared_units,
        slack_units=cost.slack_units,
        coordinates=cost.coordinates,
        additive_delta_units=cost.additive_delta_units,
        pure_units=cost.pure_units,
        accountant=f"mu^2, autodp {version('autodp')}",
        certificate_id=None,
        time=now(),
        previous="",
        digest="",
    )
