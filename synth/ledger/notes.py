"""Sentences in certificates about how a run was chosen or continued, besides what was measured."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping
from typing import Any

from synth.store import EventKind, Run, Store

__all__ = [
    "BESIDE_THE_CHOICE",
    "CHOSEN_AFTER_LOOKING",
    "LOOKED_AT",
    "NOTES",
    "SEEN_ELSEWHERE",
    "WENT_ON",
    "WENT_ON_ELSEWHERE",
    "asked_digest",
    "notes_of",
    "same_table",
]

CHOSEN_AFTER_LOOKING = "chosen after looking at private rows; the choice itself is not covered by epsilon"
LOOKED_AT = (
    "someone looked at exact numbers of its private rows; the certificate of a later run with a different "
    "configuration will say that it was chosen after looking"
)
WENT_ON = (
    "the run was interrupted and continued from its kept answers; no question was asked again after it had been "
    "answered"
)
WENT_ON_ELSEWHERE = (
    f"{WENT_ON}; it began on a graphics card (cuda) and was fitted on the processor (cpu) to the same answers"
)
NOTES = (CHOSEN_AFTER_LOOKING, WENT_ON, WENT_ON_ELSEWHERE)
"""All that a certificate may say about a run besides what was measured, in the order in which it says it."""

CERTIFICATE = 16
"""Characters of the digest of a finding by which the ledger names it."""

BESIDE_THE_CHOICE = ("table", "previews")
"""Keys of what was asked that are no choice of its owner: which copy of the table, and what was spent before."""

# For the owner only, and in no certificate: whether two tables are equal depends on every row of both.
SEEN_ELSEWHERE = "the same table was also uploaded under another account; both totals concern the same people"


def same_table(accounts: Collection[str]) -> str:
    """Return what the owner is told about a table that was taken in under other accounts of theirs too."""
    which = f"the account {min(accounts)}" if len(accounts) == 1 else f"the accounts {', '.join(sorted(accounts))}"
    return (
        f"The same table was taken in under {which}. If it is about the same people, use that account: otherwise "
        "neither total includes the other. Only you are told this, because it depends on every row of both."
    )


def asked_digest(asked: str) -> str:
    """Return a digest of what a run, a finding or a preview was asked, as JSON, whatever is no choice of its owner."""
    body = _chosen(asked)
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()


def _chosen(asked: str) -> dict[str, Any]:
    return {key: said for key, said in json.loads(asked).items() if key not in BESIDE_THE_CHOICE}


def notes_of(
    store: Store, account_id: str, *, certified: Collection[str], of_one: bool, findings: Mapping[str, str]
) -> tuple[str, ...]:
    """Return the sentences about some runs of an account.

    A run was chosen after looking if its published configuration differs from that of a run of the account whose exact
    numbers someone had seen before it was planned. Repeating the same configuration is not a choice; nor is running the
    one whose reading was told about before its charge, or what a finding completed that was read so.

    Parameters
    ----------
    store : Store
    account_id : str
    certified : collection of str
        Ids of the runs.
    of_one : bool
        Whether they are for a certificate; otherwise for the account, for which a look is mentioned even if no run
        followed it.
    findings : mapping of str to str
        What each finding of the account was asked, as JSON, by the first characters of its digest.
    """
    events = store.events.of_account(account_id)
    looks = [event for event in events if event.kind is EventKind.OWNER_VIEW]
    runs = store.runs.of_account(account_id) if looks else ()
    configs = {run.id: _chosen(run.config) for run in runs}
    chosen = any(
        # Whole seconds cannot tell which came first within one second: it counts as a look before.
        look.time <= run.created
        and look.run_id != run.id
        and configs.get(look.run_id or "") != configs[run.id]
        and look.detail.get("config", "") not in _planned(run, configs[run.id], findings)
        for look in looks
        for run in runs
        if run.id in certified
    )
    notes = [CHOSEN_AFTER_LOOKING] if chosen else []
    if looks and not chosen and not of_one:
        notes.append(LOOKED_AT)
    if not of_one and any(event.kind is EventKind.SAME_TABLE for event in events):
        notes.append(SEEN_ELSEWHERE)
    return tuple(notes)


def _planned(run: Run, config: Mapping[str, Any], findings: Mapping[str, str]) -> set[str]:
    """Return the digests of a run's configuration, and of the finding that completed it."""
    asked = [run.config]
    found = config.get("found")
    if found is not None and found["digest"][:CERTIFICATE] in findings:
        asked.append(findings[found["digest"][:CERTIFICATE]])
    return set(map(asked_digest, asked))
