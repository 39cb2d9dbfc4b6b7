"""What was read is read again after any commit, by whomever, and not before: no answer is ever an old one."""

from __future__ import annotations

import io
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing

import pytest
from asked import statements

from synth.application import Application
from synth.errors import LedgerError
from synth.ledger.ledger import Ledger
from synth.ledger.rulings import Role, Roles
from synth.privacy.accounting import PrivacyBudget
from synth.schema import Neighbours, PrivacyUnit
from synth.store import Account, Store
from synth.system.settings import Settings
from synth.vault.keys import load_keys
from synth.vault.vault import HeaderFiles

pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
"""PostgreSQL is asked every time."""

CHARGE = PrivacyBudget(1.0, 1e-6, Neighbours.REPLACE)


def outside(settings: Settings, statement: str) -> None:
    """Change the database from another process, as somebody does who can write to its file."""
    script = (
        "import sqlite3, sys\n"
        "database = sqlite3.connect(sys.argv[1])\n"
        "for name, in database.execute(\"SELECT name FROM sqlite_master WHERE type = 'trigger'\").fetchall():\n"
        "    database.execute(f'DROP TRIGGER {name}')\n"
        "database.execute(sys.argv[2])\n"
        "database.commit()\n"
    )
    path = settings.database_url.removeprefix("sqlite:///")
    subprocess.run([sys.executable, "-I", "-c", script, path, statement], check=True)


def test_nothing_is_asked_again_until_somebody_commits(settings: Settings, store: Store, account: Account) -> None:
    ledger = Ledger(store)
    run = store.runs.add(account_id=account.id, config="{}", owner="owner")

    def everything() -> list[object]:
        return [
            store.accounts.all(),
            store.accounts[account.id],
            store.accounts.named(account.name),
            store.runs[run.id],
            store.runs.of_account(account.id),
            store.work.waiting(),
            store.rulings.all(),
            ledger.chain(account.id),
            ledger.rows(account.id),
        ]

    first = everything()
    with statements() as asked:
        assert everything() == first
    assert asked == []
    outside(settings, "UPDATE accounts SET protects = 'visit'")
    assert store.accounts[account.id].protects == "visit"
    assert [one.protects for one in store.accounts.all()] == ["visit"]


def test_own_writes_are_seen_at_once(store: Store, account: Account) -> None:
    ledger = Ledger(store)
    for number in range(3):
        assert ledger.chain(account.id).head.count == number
        assert len(ledger.rows(account.id)) == number
        ledger.reserve(account.id, f"run {number}", CHARGE, purpose="run")


ALTERED: dict[str, Callable[[Ledger, Account], object]] = {
    "the next charge": lambda ledger, account: ledger.reserve(account.id, "another run", CHARGE, purpose="run"),
    "the chain": lambda ledger, account: ledger.chain(account.id),
    "the check of all": lambda ledger, account: ledger.check_whole(account.id),
    "the head": lambda ledger, account: ledger.head(account.id),
}


@pytest.mark.parametrize("used", ALTERED)
def test_an_entry_that_is_altered_after_it_was_checked_is_refused(
    settings: Settings, store: Store, account: Account, used: str
) -> None:
    ledger = Ledger(store)
    ledger.spend(ledger.reserve(account.id, "run", CHARGE, purpose="run"))
    for _ in range(2):
        ledger.chain(account.id)
        ledger.check_whole(account.id)
    outside(settings, "UPDATE charges SET mu_squared_units = 1 WHERE position = 1")
    with pytest.raises(LedgerError, match="altered at row 1"):
        ALTERED[used](ledger, account)


def test_a_role_that_somebody_writes_into_the_database_is_refused(settings: Settings, store: Store) -> None:
    roles = Roles(store, load_keys(settings.home))
    roles.give("ann", [Role.AUDITOR], who="owner")
    for _ in range(2):
        assert roles.all() == {"ann": frozenset({Role.AUDITOR})}
    outside(settings, """UPDATE rulings SET body = replace(body, 'auditor', 'admin')""")
    with pytest.raises(LedgerError, match="altered outside the program, at decision 1"):
        roles.all()


def test_a_role_that_another_process_takes_away_is_gone_at_once(settings: Settings, store: Store) -> None:
    keys = load_keys(settings.home)
    roles = Roles(store, keys)
    roles.give("ann", [Role.OWNER, Role.ADMIN], who="owner")
    assert Role.OWNER in roles.all()["ann"]
    with Store(settings) as other:
        Roles(other, keys).give("ann", [Role.ADMIN], who="owner")
    assert roles.all() == {"ann": frozenset({Role.ADMIN})}


def test_a_transaction_that_is_rolled_back_or_still_open_changes_no_answer(
    settings: Settings, store: Store, account: Account
) -> None:
    path = settings.database_url.removeprefix("sqlite:///")
    assert not store.accounts[account.id].frozen
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        other.execute("UPDATE accounts SET frozen = 1")
        assert not store.accounts[account.id].frozen
        other.execute("ROLLBACK")
        assert not store.accounts[account.id].frozen
        other.execute("UPDATE accounts SET frozen = 1")
        assert store.accounts[account.id].frozen


def test_the_ledger_of_many_accounts_is_read_together(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each header is opened once, and checking the chains asks as often for twenty accounts as for two."""
    opened: list[str] = []
    read = HeaderFiles.read
    monkeypatch.setattr(HeaderFiles, "read", lambda self, name: (opened.append(name), read(self, name))[1])

    def asked(*numbers: int) -> int:
        for number in numbers:
            account, _ = application.store.accounts.ensure(f"people {number}", Neighbours.REPLACE, PrivacyUnit())
            with application.vault.taking(io.BytesIO(b"a\n%d\n" % number), name="table.csv", account_id=account.id):
                pass
            application.ledger.reserve(account.id, f"run {number}", CHARGE, purpose="run")
        opened.clear()
        with statements() as found:
            assert len(application.ledger_rows()) == len(application.store.accounts.all())
        return len(found)

    with Application(settings) as application:
        assert asked(0, 1) == asked(*range(2, 7))
        assert len(opened) == len(set(opened)) == 7
