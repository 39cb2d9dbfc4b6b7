"""Which releases made by an earlier version may have been touched by faults that were mended since."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from synth.schema import Neighbours
from synth.store import Run, Store, promise_of_config

__all__ = ["Advisory", "advisories", "advisory_lines"]

SWALLOWED = (
    "its table was read from a text file: a line with a stray quotation mark could swallow the lines after it, so that "
    "one row moved the answers further than the certificate says. If a cell may have held a quotation mark, treat "
    "the stated epsilon as not proven; make the release again, and withdraw this one where you can."
)
WITHOUT_AN_ID = (
    "its table has an id column: rows without an id shared one unit, and a person without an id could push another "
    "one's rows out. If ids may be missing in it, the stated epsilon holds for persons with an id only in part; make "
    "the release again. If its table was a Parquet file with ids stored as bytes, many ids may have counted as one: "
    "then the stated epsilon is not proven for any of them."
)
PRINTED_COUNT = (
    "its number of rows is public and its table has an id column: the printed number counted rows without an id as "
    "well, so that it may say how many there were. If ids may be missing in it, treat that number as public."
)
DISAGREEING = (
    "runs of its account protect different units: each certificate holds for its own run, but the total of the account "
    "holds for none. Add the epsilons of its runs for the people that both concern, and open a new account."
)


@dataclass(frozen=True, slots=True)
class Advisory:
    """One release and one sentence for its owner."""

    certificate_id: str
    account: str
    run_id: str
    sentence: str


def advisories(store: Store) -> list[Advisory]:
    """Return what owners of releases of an earlier version should know, oldest release first.

    Worked out from configurations, the way a file is written and the time of the release; nothing is read from rows, so
    it says what may have happened and not whether it did.
    """
    since = store.newer_layout_since()
    if since is None:
        return []
    found = []
    for account in store.accounts.all():
        for release in store.releases.of_account(account.id):
            if release.sealed > since:
                continue
            run = store.runs[release.run_id]
            sentences = [*_of_run(store, run), *([DISAGREEING] if account.disagreeing else [])]
            found += [
                (release.sealed, Advisory(release.certificate_id, account.name, run.id, sentence))
                for sentence in sentences
            ]
    return [advisory for _, advisory in sorted(found, key=lambda one: one[0])]


def advisory_lines(store: Store) -> list[str]:
    """Return the advisories as lines of text."""
    found = advisories(store)
    if not found:
        return ["No release of this installation was made by an earlier version."]
    lines = [
        f"Certificate {one.certificate_id}, account '{one.account}', run {one.run_id}: {one.sentence}" for one in found
    ]
    return [*lines, "What is said follows from the configurations alone: it may have happened; no row was read."]


def _of_run(store: Store, run: Run) -> list[str]:
    mapping: Mapping[str, Any] = json.loads(run.config)
    neighbours, unit = promise_of_config(run.config)
    sentences = []
    if _was_text(store, run, mapping):
        sentences.append(SWALLOWED)
    if unit.id_column is not None:
        sentences.append(WITHOUT_AN_ID)
        if neighbours is Neighbours.REPLACE:
            sentences.append(PRINTED_COUNT)
    return sentences


def _was_text(store: Store, run: Run, mapping: Mapping[str, Any]) -> bool:
    """Whether the table was a text file: by what is declared, else by its name; what neither tells counts as one."""
    declared = str((mapping.get("format") or {}).get("kind", "auto"))
    if declared != "auto":
        return declared != "parquet"
    name = "" if run.table_id is None else store.tables[run.table_id].name
    return not name.lower().endswith((".parquet", ".pq"))
