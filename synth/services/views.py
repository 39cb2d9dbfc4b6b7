"""What services hand to a page or to the command line: frozen, and free of rows."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from synth.reports.forecast import Forecast
from synth.schema import Neighbours
from synth.services.cell_worth import RowWorth

__all__ = ["AccountView", "BudgetPart", "DraftColumn", "LedgerRow", "Plan", "ReceivedTable", "RunState", "RunView"]

RunState = Literal["queued", "running", "reported", "released", "failed", "cancelled"]


@dataclass(frozen=True, slots=True)
class DraftColumn:
    """A column of an uploaded table before it is described: its name, and a kind guessed from names and types alone."""

    name: str
    kind: str


@dataclass(frozen=True, slots=True)
class ReceivedTable:
    """A table in the encrypted store; ``n_rows`` is for the owner's eyes only and None once the rows are deleted."""

    table_id: str
    account: str
    name: str
    size_bytes: int
    columns: tuple[DraftColumn, ...]
    n_rows: int | None
    warning: str | None = None


@dataclass(frozen=True, slots=True)
class AccountView:
    """A group of people and what has been spent on them.

    ``epsilon_spent`` composes every charge exactly, at the cap's delta or else the largest delta asked for;
    ``epsilon_simple_sum`` adds the epsilons. Where single cells are protected both are for one cell, and ``row_worth``
    is epsilon and delta of all charges, simply added, for replacing a whole row by one with the same label.
    A ``frozen`` account takes no run until its ledger is accepted.
    """

    name: str
    neighbours: Neighbours | None
    unit_sentence: str | None
    epsilon_cap: float | None
    delta_cap: float | None
    epsilon_spent: float
    epsilon_simple_sum: float
    releases: int
    notes: tuple[str, ...] = ()
    row_worth: RowWorth | None = None
    frozen: bool = False


@dataclass(frozen=True, slots=True)
class LedgerRow:
    """One row of the ledger as people read it; ``row_worth`` as in :class:`AccountView`, for this charge alone."""

    sequence: int
    time: datetime
    account: str
    run_id: str
    purpose: str
    epsilon: float
    delta: float
    state: str
    certificate_id: str | None
    row_worth: RowWorth | None = None


@dataclass(frozen=True, slots=True)
class BudgetPart:
    """One line of "where the budget goes": its share of mu^2, and the epsilon it would cost alone."""

    name: str
    question: str
    share: float
    epsilon_alone: float


@dataclass(frozen=True, slots=True)
class Plan:
    """What a run would cost and what it would give, from declared facts alone.

    ``refusal`` says in one sentence why the run would be refused, or is None.
    """

    parts: tuple[BudgetPart, ...]
    forecast: Forecast
    epsilon_spent_before: float
    epsilon_after: float
    simple_sum_after: float
    epsilon_cap: float | None
    refusal: str | None
    warnings: tuple[str, ...] = field(default=())


@dataclass(frozen=True, slots=True)
class RunView:
    """Where a run stands; ``row_worth`` as in :class:`AccountView`, for this run alone.

    ``spent`` says whether its budget stays spent whatever happens; a reservation that is not spent yet can be freed.
    ``went_on`` says that a worker of it stopped and another went on, or will go on, from its kept answers;
    ``full_disk`` says which disk has no room while a worker has the run.
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
