"""What services return to a page or to the command line: immutable, and without rows."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache, partial
from typing import Any, Literal

from synth.errors import SynthError
from synth.estimators import promised_epsilon
from synth.ledger.charging import latest_rows
from synth.ledger.ledger import Ledger, Spent
from synth.ledger.rulings import Policy
from synth.names import numbered
from synth.reading.more.statistical import Described
from synth.reports.expected import Forecast
from synth.reports.forecast import forecast
from synth.schema import Neighbours, parse_config
from synth.services.installation import Installation
from synth.store import (
    Account,
    Charge,
    ChargeState,
    Decision,
    DecisionKind,
    Event,
    EventKind,
    Ruling,
    RulingKind,
    Run,
    Store,
    WorkState,
    now,
)
from synth.system.disk import fullest, has_no_room

__all__ = [
    "DECIDED_EVENTS",
    "AccountView",
    "BudgetPart",
    "DecisionView",
    "DraftColumn",
    "KeptTable",
    "LedgerRow",
    "Plan",
    "ReceivedTable",
    "RowWorth",
    "RunState",
    "RunView",
    "account_view",
    "added_worth",
    "cell_words",
    "decision_view",
    "event_view",
    "has_spent",
    "ledger_row",
    "row_epsilon_of_config",
    "row_worth_words",
    "run_view",
    "worth_of_charge",
    "worth_of_charges",
]

RunState = Literal["queued", "running", "unchecked", "reported", "released", "failed", "cancelled"]

RowWorth = tuple[float | None, float]
"""Epsilon and delta for replacing a whole row by one with the same label; None if that is no longer known."""

_SHOWN: dict[WorkState, RunState] = {
    WorkState.PLANNED: "queued",
    WorkState.QUEUED: "queued",
    WorkState.RUNNING: "running",
    WorkState.MEASURED: "running",
    WorkState.UNCHECKED: "unchecked",
    WorkState.REPORTED: "reported",
    WorkState.RELEASED: "released",
    WorkState.FAILED: "failed",
    WorkState.CANCELLED: "cancelled",
}


@dataclass(frozen=True, slots=True)
class DraftColumn:
    """A column of an uploaded table before it is described: its name, and a type guessed from names and types only.

    ``described`` is what a file of SPSS, Stata or SAS says about it.
    """

    name: str
    kind: str
    described: Described | None = None


@dataclass(frozen=True, slots=True)
class ReceivedTable:
    """A table in the encrypted store; ``n_rows`` is for the owner only, and None once the rows are deleted.

    ``renamed`` contains new names of columns, by position from 1. ``warning`` is about its lines, and ``same_table``
    about the same table under other accounts; both depend on rows and are for the owner only. ``caution`` is about the
    database that it was read from, and is told once, when it is received.
    """

    table_id: str
    account: str
    name: str
    size_bytes: int
    columns: tuple[DraftColumn, ...]
    n_rows: int | None
    warning: str | None = None
    same_table: str | None = None
    caution: str | None = None
    renamed: Mapping[int, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class KeptTable:
    """What an administrator sees of a table in the encrypted store: whose it is, its size, and when it is deleted."""

    table_id: str
    account: str
    owner: str
    size_bytes: int
    created: datetime
    keep_until: datetime | None


@dataclass(frozen=True, slots=True)
class BudgetPart:
    """One line of "where the budget goes": its share of mu^2, and the epsilon it would cost alone."""

    name: str
    question: str
    share: float
    epsilon_alone: float


@dataclass(frozen=True, slots=True)
class Plan:
    """What a run would cost and give, from declared facts only.

    ``refusal`` says why the run would be refused, or is None; ``approval`` says what a second person still has to
    approve, or what the policy does not allow, and ``can_ask`` whether that can be asked for now.
    """

    parts: tuple[BudgetPart, ...]
    forecast: Forecast
    epsilon_spent_before: float
    epsilon_after: float
    simple_sum_after: float
    epsilon_cap: float | None
    refusal: str | None
    approval: str | None = None
    can_ask: bool = False


@dataclass(frozen=True, slots=True)
class AccountView:
    """A group of people and what has been spent on them.

    ``epsilon_spent`` composes all charges exactly, at ``delta_spent``: the delta of the cap or else the largest of a
    charge. So a charge with a larger delta may lower it. ``epsilon_simple_sum`` adds the epsilons. If single cells are
    protected, both are for one cell, and ``row_worth`` is the plain sum of epsilon and delta of all charges for
    replacing a whole row by one with the same label.
    A ``frozen`` account cannot be charged until its ledger is accepted.
    """

    name: str
    neighbours: Neighbours | None
    unit_sentence: str | None
    epsilon_cap: float | None
    delta_cap: float | None
    epsilon_spent: float
    delta_spent: float
    epsilon_simple_sum: float
    releases: int
    notes: tuple[str, ...] = ()
    row_worth: RowWorth | None = None
    frozen: bool = False

    @property
    def at_delta(self) -> str:
        """The delta of the total, in words; empty where it is 0 or nothing was spent."""
        return f" at delta {self.delta_spent:g}" if self.delta_spent and self.epsilon_spent else ""

    @property
    def lines(self) -> tuple[str, ...]:
        """What was spent, as lines of text."""
        cap = "no cap" if self.epsilon_cap is None else f"cap {self.epsilon_cap:g} at delta {self.delta_cap:g}"
        spent = (
            f"{self.name}: epsilon {self.epsilon_spent:.4g}{self.at_delta} spent ({cap}), simple sum "
            f"{self.epsilon_simple_sum:.4g}, {numbered(self.releases, 'release')}. "
            f"{self.unit_sentence or 'Its people are not described yet'}."
        )
        if self.row_worth is None:
            return (spent,)
        worth = f"epsilon {self.epsilon_simple_sum:.4g}{row_worth_words(self.row_worth)}"
        return (spent, f"The plain sum of all charges: {worth}, at delta {self.row_worth[1]:g}.")


def account_view(account: Account, rows: Sequence[Charge], ledger: Ledger, store: Store) -> AccountView:
    """Return an account with what was spent on it, as the rows of its ledger say."""
    charges = latest_rows(rows)
    spent = Spent.of(account, charges)
    return AccountView(
        name=account.name,
        neighbours=account.neighbours,
        unit_sentence=account.sentence,
        epsilon_cap=account.epsilon_cap,
        delta_cap=account.delta_cap,
        epsilon_spent=spent.epsilon,
        delta_spent=spent.delta,
        epsilon_simple_sum=spent.simple_epsilon,
        releases=spent.releases,
        notes=ledger.notes(account.id),
        row_worth=worth_of_charges(charges, store),
        frozen=account.frozen,
    )


@dataclass(frozen=True, slots=True)
class LedgerRow:
    """One row of the ledger; ``row_worth`` as in :class:`AccountView`, for this charge only."""

    sequence: int
    time: datetime
    account: str
    run_id: str
    purpose: str
    epsilon: float
    delta: float
    state: str
    certificate_id: str | None
    who: str
    row_worth: RowWorth | None = None

    @property
    def line(self) -> str:
        """The row as a line of text."""
        by = f"  by {self.who}" if self.who else ""
        cost = f"epsilon {self.epsilon:g}{row_worth_words(self.row_worth)}  delta {self.delta:g}  {self.state}"
        return (
            f"{self.time:%Y-%m-%d %H:%M}  {self.account}  #{self.sequence}  {cost}  run {self.run_id}  {self.purpose}"
            f"{by}"
        )


@dataclass(frozen=True, slots=True)
class DecisionView:
    """One decision about an account, or about the whole installation where ``account`` is empty."""

    time: datetime
    account: str
    who: str
    what: str

    @property
    def line(self) -> str:
        """The decision as a line of text."""
        return f"{self.time:%Y-%m-%d %H:%M}  {self.account or 'installation'}  {self.who or 'the program'}: {self.what}"


def decision_view(decision: Decision | Ruling, account: str) -> DecisionView:
    """Return a decision in words."""
    return DecisionView(decision.time, account, decision.who, _WORDS[decision.kind](decision.body))


def event_view(event: Event, account: str) -> DecisionView:
    """Return an event that somebody decided on, in words."""
    return DecisionView(event.time, account, event.who, DECIDED_EVENTS[event.kind](event))


DECIDED_EVENTS: Mapping[EventKind, Callable[[Event], str]] = {
    EventKind.TABLE_DELETED: lambda event: f"deleted the rows of the table {(event.table_id or '')[:8]}",
    EventKind.STOP_CLEARED: lambda event: f"cleared incident {event.detail['incident']}: {event.detail['because']}",
}
"""Events that somebody decided on, in words: what changes no account and so is no entry of its chain."""


def _limit(body: Mapping[str, Any]) -> str:
    return "no limit" if body["epsilon"] is None else f"limit epsilon {body['epsilon']:g} at delta {body['delta']:g}"


def _verdict(word: str, body: Mapping[str, Any]) -> str:
    return f"{word} request {body['request']} of {body['asked_by']}, epsilon {body['epsilon']:g}: {body['because']}"


_WORDS: Mapping[DecisionKind | RulingKind, Callable[[Mapping[str, Any]], str]] = {
    DecisionKind.UNIT: lambda body: f"protects one {body['protects']}",
    DecisionKind.CELLS: lambda body: "the cells that all runs protect",
    DecisionKind.CAP: _limit,
    DecisionKind.FROZEN: lambda body: "frozen",
    DecisionKind.THAWED: lambda body: "accepted as complete",
    DecisionKind.OWNER: lambda body: f"handed over to {body['owner']}",
    DecisionKind.ASKED: lambda body: f"asked for request {body['request']}, epsilon {body['epsilon']:g}",
    DecisionKind.APPROVED: partial(_verdict, "approved"),
    DecisionKind.REFUSED: partial(_verdict, "refused"),
    DecisionKind.USED: lambda body: f"used the approval of request {body['request']} for the run {body['run']}",
    RulingKind.USER: lambda body: f"{body['name']}: {', '.join(body['roles']) or 'no role'}",
    RulingKind.POLICY: lambda body: f"policy: {'; '.join(Policy(**body).lines)}",
}


def ledger_row(charge: Charge, account: str, store: Store) -> LedgerRow:
    """Return a row of the ledger under its account's name."""
    return LedgerRow(
        sequence=charge.position,
        time=charge.time,
        account=account,
        run_id=charge.run_id,
        purpose=charge.purpose,
        epsilon=charge.epsilon,
        delta=charge.delta,
        state=charge.state.value,
        certificate_id=charge.certificate_id,
        who=charge.who,
        row_worth=worth_of_charge(charge, store),
    )


@dataclass(frozen=True, slots=True)
class RunView:
    """The state of a run; ``row_worth`` as in :class:`AccountView`, for this run only.

    ``spent`` says whether its budget stays spent whatever happens; a reservation that is not spent yet can be freed.
    ``went_on`` says that a worker stopped and another continued, or will continue, from the kept answers; ``full_disk``
    names the disk without space while a worker has the run. ``columns`` is the number of modelled columns. ``stated``
    is the most that the certificate states: ``epsilon``, and what a finding cost before it. ``table_id`` is None where
    the run was entered from its certificate.
    """

    run_id: str
    account: str
    table_name: str
    generator: str
    epsilon: float
    delta: float
    rows: int
    state: RunState
    phase: str
    step: int
    of: int
    message: str | None
    incident: str | None
    device: str | None
    losses: tuple[float, ...]
    created: datetime
    elapsed_seconds: int
    row_worth: RowWorth | None = None
    spent: bool = False
    went_on: bool = False
    full_disk: str | None = None
    stated: float = 0.0
    columns: int = 0
    table_id: str | None = None


def run_view(installation: Installation, run: Run) -> RunView:
    """Return the state of a run, with whole seconds."""
    store, home, config = installation.store, installation.settings.home, _declared(run.config)
    begun, ended = run.started, run.finished or now()
    return RunView(
        run_id=run.id,
        account=store.accounts[run.account_id].name,
        table_name="" if run.table_id is None else store.tables[run.table_id].name,
        generator=config.generator,
        epsilon=config.epsilon,
        delta=config.delta,
        rows=config.rows,
        state=_SHOWN[run.state],
        phase=run.phase,
        step=run.step,
        of=run.steps,
        message=run.message or None,
        incident=run.incident_id,
        device=run.device,
        losses=run.losses,
        created=run.created,
        elapsed_seconds=0 if begun is None else max(0, int((ended - begun).total_seconds())),
        row_worth=(row_epsilon_of_config(run.config), config.delta) if not config.allows_sums else None,
        spent=has_spent(installation.ledger, run.id),
        # A run that was put back into the queue has not continued yet, but will.
        went_on=run.went_on or (run.attempts == 1 and run.state is WorkState.QUEUED),
        full_disk=fullest(home) if run.is_active and has_no_room(home) else None,
        stated=config.stated,
        columns=config.columns,
        table_id=run.table_id,
    )


@dataclass(frozen=True, slots=True)
class _Declared:
    """What views of a run say of its configuration; ``stated``, ``columns`` as in :class:`RunView`."""

    generator: str
    epsilon: float
    delta: float
    rows: int
    allows_sums: bool
    stated: float
    columns: int


@lru_cache(maxsize=1024)
def _declared(config: str) -> _Declared:
    """Read the configuration of a run, as JSON, which never changes; a page may list many runs."""
    parsed = parse_config(json.loads(config))
    return _Declared(
        generator=parsed.generator,
        epsilon=parsed.epsilon,
        delta=parsed.delta,
        rows=parsed.rows,
        allows_sums=parsed.schema.allows_sums,
        stated=promised_epsilon(parsed),
        columns=len(parsed.schema.modelled),
    )


def has_spent(ledger: Ledger, run_id: str) -> bool:
    """Whether the budget of a run stays spent whatever happens."""
    return any(charge.state not in (ChargeState.RESERVED, ChargeState.FREED) for charge in ledger.charges_of(run_id))


# What an epsilon of one cell means for a whole row, shown wherever such an epsilon is ---------------------------------


@lru_cache(maxsize=1024)
def row_epsilon_of_config(config: str) -> float | None:
    """Return the epsilon of a whole row that the noise on cells of a run corresponds to, at the delta of the run.

    Parameters
    ----------
    config : str
        The run's configuration as JSON, as the store keeps it.

    Returns
    -------
    float, for replacing a row by one with the same label; None if no single cell is protected, or if this version
    cannot plan the run any more
    """
    try:
        parsed = parse_config(json.loads(config))
        return forecast(parsed).row_epsilon if not parsed.schema.allows_sums else None
    except SynthError:
        return None


def row_worth_words(worth: RowWorth | None) -> str:
    """Return the words to add to the epsilon of one cell in a line of text; none for any other epsilon."""
    if worth is None:
        return ""
    for_a_row = "unknown" if worth[0] is None else f"{worth[0]:.6g}"
    return f"{cell_words(worth)}, {for_a_row} for a row with the same label"


def cell_words(worth: RowWorth | None) -> str:
    """Return the words to add to the epsilon of one cell where its worth for a row is stated nearby."""
    return "" if worth is None else " for one cell"


def worth_of_charge(charge: Charge, store: Store) -> RowWorth | None:
    """Return the worth of a charge for a whole row; None if it is not about single cells."""
    if charge.neighbours is not Neighbours.CELL:
        return None
    # A charge that was entered from a certificate belongs to no run of this installation.
    run = store.runs.find(charge.run_id)
    return (None if run is None else row_epsilon_of_config(run.config)), charge.delta


def worth_of_charges(charges: Iterable[Charge], store: Store) -> RowWorth | None:
    """Return the summed worth of all charges that count for a whole row; None if none is about cells.

    Parameters
    ----------
    charges : iterable of Charge
        The latest row of each.
    store : Store
    """
    return added_worth(worth_of_charge(charge, store) for charge in charges if charge.state is not ChargeState.FREED)


def added_worth(worths: Iterable[RowWorth | None]) -> RowWorth | None:
    """Return the summed worth of several runs for a whole row; None if none is about single cells."""
    found = [worth for worth in worths if worth is not None]
    if not found:
        return None
    # Basic composition: epsilons and deltas add.
    epsilons = [epsilon for epsilon, _ in found if epsilon is not None]
    return (math.fsum(epsilons) if len(epsilons) == len(found) else None), math.fsum(delta for _, delta in found)
