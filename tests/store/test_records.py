"""Tables, events and releases: what is kept about them and in which order."""

from __future__ import annotations

from datetime import timedelta
from uuid import uuid4

from synth.store import Account, EventKind, Store, StoredTable, TableKind, TableState, now


def table(account: Account, **changes: object) -> StoredTable:
    values: dict[str, object] = {
        "id": str(uuid4()),
        "account_id": account.id,
        "name": "people.csv",
        "kind": TableKind.TABLE,
        "size": 2**40,
        "state": TableState.STORED,
        "fingerprint": "0" * 64,
        "keep_until": None,
        "schema": None,
        "created": now(),
        "deleted": None,
    }
    return StoredTable(**{**values, **changes})  # type: ignore[arg-type]


def record(store: Store, recorded: StoredTable) -> None:
    with store.writing() as connection:
        store.tables.add(connection, recorded)


def test_a_table_comes_back_as_it_was_recorded(store: Store, account: Account) -> None:
    recorded = table(account, keep_until=now() + timedelta(days=3))
    record(store, recorded)
    assert store.tables[recorded.id] == recorded
    assert store.tables.of_account(account.id) == store.tables.with_fingerprint("0" * 64) == (recorded,)


def test_only_stored_tables_past_their_deadline_expire(store: Store, account: Account) -> None:
    moment = now()
    due = table(account, keep_until=moment)
    gone = table(account, keep_until=moment, state=TableState.DELETED)
    later = table(account, keep_until=moment + timedelta(seconds=1))
    for recorded in (due, gone, later, table(account)):
        record(store, recorded)
    assert store.tables.expired(moment) == (due,)
    store.tables.keep_until(due.id, None)
    assert store.tables.expired(moment) == ()


def test_events_keep_their_order(store: Store, account: Account) -> None:
    kinds = [EventKind.OWNER_VIEW, EventKind.SAME_TABLE, EventKind.OWNER_VIEW, EventKind.CAP]
    written = [store.events.add(kind, account_id=account.id, who="owner", detail={"step": kind}) for kind in kinds]
    assert store.events.of_account(account.id) == tuple(written)
    assert store.events.of_account(account.id, EventKind.OWNER_VIEW) == (written[0], written[2])
    assert store.events.of_kind(EventKind.CAP) == (written[3],)


def test_a_release_comes_back_with_its_attestations(store: Store, account: Account) -> None:
    run = store.runs.add(account_id=account.id, config="{}", owner="owner")
    release = store.releases.add(
        run_id=run.id,
        account_id=account.id,
        certificate_id="certificate",
        certificate_digest="a" * 64,
        attestations={"I may share it": "owner", "one row per person": "owner"},
        who="owner",
    )
    assert store.releases.of_run(run.id) == (release,)
