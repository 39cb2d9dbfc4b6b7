"""A database that goes away: a run waits and goes on, a screen is told at once, and nothing happens twice."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from sqlalchemy import event

from synth.errors import DatabaseAwayError, LedgerError
from synth.ledger.ledger import Ledger
from synth.privacy.accounting import PrivacyBudget
from synth.schema import Neighbours
from synth.store import PATIENCE_SECONDS, Account, EventKind, Run, Store, WorkState, engine
from synth.system.settings import Settings

BUDGET = PrivacyBudget(1.0, 1e-6, Neighbours.REPLACE)

on_postgresql = pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)


@pytest.fixture
def patient_store(settings: Settings, account: Account) -> Iterator[Store]:
    del account  # made by the other store
    with Store(settings, patience=60.0) as opened:
        opened.transactions._sleep = lambda seconds: None
        yield opened


class Breaking:
    """Breaks one connection of a store: before a statement, before a commit, or after one that nobody hears of."""

    def __init__(self, store: Store, url: str) -> None:
        self._engine = store.transactions._engine
        self._url = url
        self._left: int | None = None
        self._at_commit: str | None = None
        self.statements = 0
        self.broken = 0
        event.listen(self._engine, "before_cursor_execute", self._statement)
        self._commit = self._engine.dialect.do_commit
        self._engine.dialect.do_commit = self._do_commit  # type: ignore[method-assign]

    def before_statement(self, number: int) -> None:
        self._left = number

    def at_commit(self, when: str) -> None:
        self._at_commit = when

    def _statement(self, connection: Any, *rest: object) -> None:
        self.statements += 1
        if self._left is not None:
            self._left -= 1
            if self._left == 0:
                self._left = None
                self._terminate(connection.connection.dbapi_connection)

    def _do_commit(self, connection: Any) -> None:
        when, self._at_commit = self._at_commit, None
        if when == "before":
            self._terminate(connection.dbapi_connection)
        self._commit(connection)
        if when == "after":
            self.broken += 1
            connection.dbapi_connection.close()
            raise psycopg.OperationalError("server closed the connection unexpectedly")

    def _terminate(self, connection: Any) -> None:
        self.broken += 1
        number = connection.info.backend_pid
        with psycopg.connect(self._url, autocommit=True) as other:
            other.execute("SELECT pg_terminate_backend(%s, 10000)", (number,))


def planned(store: Store, account: Account) -> Run:
    return store.runs.add(account_id=account.id, config="{}", owner="owner")


def reserved(store: Store, account: Account) -> Run:
    run = planned(store, account)
    Ledger(store).reserve(account.id, run.id, BUDGET, purpose="run")
    return run


def spent(store: Store, account: Account) -> Run:
    run = reserved(store, account)
    ledger = Ledger(store)
    ledger.spend(ledger.charges_of(run.id)[0])
    return run


Work = Callable[[Store, Run], object]

CHANGES: dict[str, tuple[Callable[[Store, Account], Run], Work, list[str]]] = {
    "reserve": (
        planned,
        lambda store, run: Ledger(store).reserve(run.account_id, run.id, BUDGET, purpose="run"),
        ["reserved"],
    ),
    "spend": (
        reserved,
        lambda store, run: Ledger(store).spend(Ledger(store).charges_of(run.id)[0]),
        ["reserved", "spent"],
    ),
    "settle": (spent, lambda store, run: Ledger(store).settle(run.id), ["reserved", "spent", "failed-spent"]),
    "release": (
        spent,
        lambda store, run: Ledger(store).release(Ledger(store).charges_of(run.id)[0], "certificate"),
        ["reserved", "spent", "released"],
    ),
    "put": (reserved, lambda store, run: store.work.put(run.id, gpus=0, cpus=0), ["reserved"]),
    "claim": (
        reserved,
        lambda store, run: store.work.claim(run.id, host="here", pid=1, pid_created=1.0),
        ["reserved"],
    ),
    "event": (reserved, lambda store, run: store.events.add(EventKind.INCIDENT, run_id=run.id), ["reserved"]),
}


@pytest.mark.thorough
@on_postgresql
@pytest.mark.parametrize("change", CHANGES)
def test_what_is_broken_off_anywhere_happens_once(
    patient_store: Store, account: Account, database_url: str, change: str
) -> None:
    prepare, work, expected = CHANGES[change]
    breaking = Breaking(patient_store, database_url)
    work(patient_store, prepare(patient_store, account))  # the first of an account also says whom it protects
    run = prepare(patient_store, account)
    before = breaking.statements
    work(patient_store, run)
    number_of_statements = breaking.statements - before
    breaks = [*range(1, number_of_statements + 1), "before", "after"]
    for where in breaks:
        run = prepare(patient_store, account)
        broken = breaking.broken
        if isinstance(where, int):
            breaking.before_statement(where)
        else:
            breaking.at_commit(where)
        work(patient_store, run)
        assert breaking.broken == broken + 1, where
        assert [charge.state for charge in patient_store.charges.of_run(run.id)] == expected, where
    assert len(patient_store.events.of_kind(EventKind.INCIDENT)) == (len(breaks) + 2 if change == "event" else 0)
    Ledger(patient_store).heads()
    if change == "put":
        places = [run.place for run in patient_store.work.waiting()]
        assert places == list(range(1, len(breaks) + 3))
    if change == "claim":
        assert {run.state for run in patient_store.runs.all()} == {WorkState.RUNNING}


@on_postgresql
def test_whether_a_commit_happened_is_asked_and_not_guessed(store: Store, account: Account, database_url: str) -> None:
    """Without any patience: a commit whose answer is lost is no error where it happened, and one where it did not."""
    breaking = Breaking(store, database_url)
    run = reserved(store, account)
    ledger = Ledger(store)
    (charge,) = ledger.charges_of(run.id)
    breaking.at_commit("before")
    with pytest.raises(DatabaseAwayError, match="The database does not answer"):
        ledger.spend(charge)
    assert [row.state for row in store.charges.of_run(run.id)] == ["reserved"]
    breaking.at_commit("after")
    assert ledger.spend(charge).state == "spent"
    with pytest.raises(LedgerError, match="is spent"):
        ledger.spend(charge)


def test_waiting_ends_after_an_hour_and_not_before_ten_minutes(settings: Settings) -> None:
    assert PATIENCE_SECONDS >= 600
    with Store(settings, patience=PATIENCE_SECONDS) as store:
        seconds = [0.0]
        transactions = store.transactions
        transactions._clock = lambda: seconds[0]
        transactions._sleep = lambda length: seconds.__setitem__(0, seconds[0] + length)
        tries = []

        def away() -> None:
            tries.append(seconds[0])
            raise DatabaseAwayError(engine.AWAY)

        def nested() -> None:
            transactions.until_answered(away)

        with pytest.raises(DatabaseAwayError):
            transactions.until_answered(nested)
        assert tries[-1] == PATIENCE_SECONDS  # once, and not again for every method that calls another

        def answers_late() -> str:
            if seconds[0] < PATIENCE_SECONDS + 600:
                raise DatabaseAwayError(engine.AWAY)
            return "here"

        assert transactions.until_answered(answers_late) == "here"


def test_a_screen_is_told_at_once_and_goes_on_afterwards(own_server: Any, tmp_path: Any) -> None:
    with Store(Settings(home=tmp_path / "home", database_url=own_server.url)) as store:
        own_server.stop()
        store.transactions._sleep = lambda seconds: pytest.fail("it waited")
        with pytest.raises(DatabaseAwayError, match="Runs in progress wait for it and then continue by themselves"):
            store.accounts.all()
        own_server.start()
        assert store.accounts.all() == ()


@pytest.mark.thorough
def test_a_server_that_hangs_is_one_that_is_away(
    own_server: Any, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "ANSWER_SECONDS", 1.0)
    with Store(Settings(home=tmp_path / "home", database_url=own_server.url)) as store:
        assert store.accounts.all() == ()
        stopped = own_server.processes
        for process in stopped:
            process.send_signal(signal.SIGSTOP)
        try:
            with pytest.raises(DatabaseAwayError, match="does not answer"):
                store.accounts.all()
        finally:
            for process in stopped:
                process.send_signal(signal.SIGCONT)
        assert store.accounts.all() == ()
