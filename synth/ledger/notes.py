"""What a certificate has to say about the choice of its run and about its people, beside what was measured."""

from __future__ import annotations

import json
from collections.abc import Collection

from synth.store import EventKind, Store

__all__ = ["CHOSEN_AFTER_LOOKING", "LOOKED_AT", "SEEN_ELSEWHERE", "WENT_ON", "WENT_ON_ELSEWHERE", "notes_of"]

CHOSEN_AFTER_LOOKING = "chosen after looking at private rows; the choice itself is not covered by epsilon"
LOOKED_AT = (
    "exact numbers of its private rows were looked at; the certificate of a later run with another configuration will "
    "say that it was chosen after looking"
)
WENT_ON = (
    "the run stopped before its end and went on from the answers that it had kept; no question was asked again once it "
    "was answered"
)
WENT_ON_ELSEWHERE = (
    f"{WENT_ON}; it began on a graphics card (cuda) and was fitted on the processor (cpu), from the same answers"
)
SEEN_ELSEWHERE = "the same table was also taken in under another account; the two totals concern the same people"


def notes_of(store: Store, account_id: str, *, certified: Collection[str], of_one: bool) -> tuple[str, ...]:
    """Return the sentences that some runs of an account carry.

    A run was chosen after looking when its published configuration differs from that of a run of the account whose
    exact numbers somebody had seen before it was planned. The same configuration again is no choice.

    Parameters
    ----------
    store : Store
    account_id : str
    certified : collection of str
        Ids of the runs.
    of_one : bool
        Whether they are for a certificate; otherwise for the account, of which a look is said even where no run
        followed it.
    """
    runs = store.runs.of_account(account_id)
    configs = {run.id: json.loads(run.config) for run in runs}
    looks = store.events.of_account(account_id, EventKind.OWNER_VIEW)
    chosen = any(
        # A time in whole seconds cannot say which came first within one: it counts as a look before.
        look.time <= run.created and look.run_id != run.id and configs.get(look.run_id or "") != configs[run.id]
        for look in looks
        for run in runs
        if run.id in certified
    )
    notes = [CHOSEN_AFTER_LOOKING] if chosen else []
    if looks and not chosen and not of_one:
        notes.append(LOOKED_AT)
    if not of_one and store.events.of_account(account_id, EventKind.SAME_TABLE):
        # For the owner alone: whether two tables are equal depends on every row of both.
        notes.append(SEEN_ELSEWHERE)
    return tuple(notes)
