"""What one installation remembers: accounts, tables, runs, charges, releases and events, on SQLite or PostgreSQL."""

from __future__ import annotations

from synth.store.accounts import SINGLE_USER, Account, check_same_promise, display_name, promise_of_config
from synth.store.engine import PATIENCE_SECONDS, patient, remembered
from synth.store.entries import Charge, ChargeState, Decision, DecisionKind, Event, EventKind, LedgerHead, SealedRelease
from synth.store.layout import now
from synth.store.rulings import Ruling, RulingKind
from synth.store.runs import Run
from synth.store.store import Store
from synth.store.tables import Drafts, SavedDraft, StoredTable, TableKind, TableState
from synth.store.work import Work, WorkKind, WorkState

__all__ = [
    "PATIENCE_SECONDS",
    "SINGLE_USER",
    "Account",
    "Charge",
    "ChargeState",
    "Decision",
    "DecisionKind",
    "Drafts",
    "Event",
    "EventKind",
    "LedgerHead",
    "Ruling",
    "RulingKind",
    "Run",
    "SavedDraft",
    "SealedRelease",
    "Store",
    "StoredTable",
    "TableKind",
    "TableState",
    "Work",
    "WorkKind",
    "WorkState",
    "check_same_promise",
    "display_name",
    "now",
    "patient",
    "promise_of_config",
    "remembered",
]
