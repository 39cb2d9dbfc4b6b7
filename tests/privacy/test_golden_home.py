"""A home of layout 2 opens: its chains are taken over under the installation's key, and a further run is charged."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from golden_homes import laid_out
from sqlalchemy import text

from synth.bundle.verify import verify
from synth.errors import JobError, LedgerError, PrivacyError
from synth.jobs import LocalEngine, local
from synth.ledger.ledger import Ledger
from synth.ledger.notes import CHOSEN_AFTER_LOOKING
from synth.privacy.accounting import PrivacyBudget
from synth.progress import NullProgress
from synth.schema import Neighbours, parse_config
from synth.services import run_folder
from synth.services.reports import build_owner_report
from synth.store import Account, ChargeState, DecisionKind, Store, TableState, WorkState
from synth.system.settings import Settings
from synth.vault.keys import load_keys
from synth.vault.vault import Vault

GOLDEN = Path(__file__).parents[1] / "golden" / "home-2"

HEADS = {"survey": 8, "visits": 6, "mixed": 6, "cells": 3, "undescribed": 0}


@pytest.fixture
def settings(tmp_path: Path, database_url: str) -> Settings:
    """The golden home on each database."""
    return laid_out(GOLDEN, tmp_path / "home", database_url)


@pytest.fixture
def before(settings: Settings) -> Iterator[dict[str, list[str]]]:
    """The digests of every account's rows as the older version left them."""
    from sqlalchemy import create_engine

    engine = create_engine(settings.database_url.replace("postgresql://", "postgresql+psycopg://"))
    query = (
        "SELECT accounts.name, charges.digest FROM charges JOIN accounts ON accounts.id = charges.account_id "
        "ORDER BY charges.account_id, charges.position"
    )
    found: dict[str, list[str]] = {}
    with engine.connect() as connection:
        for name, digest in connection.execute(text(query)):
            found.setdefault(name, []).append(digest)
    engine.dispose()
    return found


def named(store: Store, name: str) -> Account:
    account = store.accounts.named(name)
    assert account is not None
    return account


def test_every_chain_is_whole_and_its_rows_are_as_they_were(settings: Settings, before: dict[str, list[str]]) -> None:
    with Store(settings) as store:
        ledger = Ledger(store)
        ledger.heads()
        ledger.check_marks()
        for name, count in HEADS.items():
            account = named(store, name)
            found = ledger.chain(account.id)
            assert [charge.digest for charge in found.charges] == before.get(name, [])
            assert found.head.count == count
            assert (found.decisions[0].kind is DecisionKind.TAKEN_OVER) == (count > 0)
            ledger.check_whole(account.id)
        assert store.newer_layout_since() is not None


def test_units_follow_from_the_runs_that_were_charged(settings: Settings) -> None:
    with Store(settings) as store:
        Ledger(store)
        assert {name: named(store, name).sentence for name in HEADS} == {
            "survey": "Protects one person contributing one row",
            "visits": "Protects one patient: all rows of one pid",
            "mixed": "Its runs protect different units, so the total holds for none of them; it takes no further run",
            "cells": "Protects ONE CELL; class labels, class sizes and the number of rows are not protected",
            "undescribed": None,
        }
        cap = {name: (named(store, name).epsilon_cap, named(store, name).delta_cap) for name in HEADS}
        assert cap["survey"] == (4.0, 1e-6)
        assert cap["undescribed"] == (2.0, 1e-6)


def reserve_again(store: Store, ledger: Ledger, account: Account, **changes: object) -> str:
    """Charge the account for one of its own runs once more."""
    config = json.loads(store.runs.of_account(account.id)[0].config) | changes
    run = store.runs.add(account_id=account.id, config=json.dumps(config), owner="owner")
    delta = 1e-5 if account.neighbours is Neighbours.CELL else 1e-6
    budget = PrivacyBudget(0.5, delta, account.neighbours)  # type: ignore[arg-type]
    ledger.spend(ledger.reserve(account.id, run.id, budget, purpose="a further run"))
    return run.id


@pytest.mark.parametrize("name", ["survey", "visits", "cells"])
def test_a_further_run_is_charged_under_the_key(settings: Settings, name: str) -> None:
    with Store(settings) as store:
        ledger, account = Ledger(store), named(store, name)
        spent = ledger.spent(account.id).epsilon
        reserve_again(store, ledger, account)
        assert ledger.spent(account.id).epsilon > spent
        own = ledger.chain(account.id)
        ledger.check_whole(account.id)
    with Store(settings) as again:
        assert Ledger(again).chain(account.id).links == own.links


def test_runs_that_disagree_stop_their_account(settings: Settings) -> None:
    with Store(settings) as store:
        ledger, account = Ledger(store), named(store, "mixed")
        with pytest.raises(PrivacyError, match=r"protect different units.* Name a new account"):
            reserve_again(store, ledger, account)
        assert len(ledger.rows(account.id)) == HEADS["mixed"]


def test_the_limit_still_holds_and_the_freed_reservation_does_not_count(settings: Settings) -> None:
    with Store(settings) as store:
        ledger, account = Ledger(store), named(store, "survey")
        states = [charge.state for charge in ledger.current(account.id)]
        assert states == [ChargeState.RELEASED, ChargeState.FREED, ChargeState.FAILED_SPENT]
        assert ledger.spent(account.id).charges == 2


def test_a_look_of_before_still_counts(settings: Settings) -> None:
    with Store(settings) as store:
        ledger, account = Ledger(store), named(store, "survey")
        assert CHOSEN_AFTER_LOOKING in ledger.notes(account.id, run_id=reserve_again(store, ledger, account, seed="7"))
        assert CHOSEN_AFTER_LOOKING not in ledger.notes(account.id, run_id=reserve_again(store, ledger, account))


def test_the_kept_table_opens_and_the_certificates_point_into_the_chain(settings: Settings) -> None:
    with Store(settings) as store:
        keys = load_keys(settings.home)
        ledger = Ledger(store)
        vault = Vault(store, keys, ledger)
        stored = [
            table
            for account in store.accounts.all()
            for table in store.tables.of_account(account.id)
            if table.state is TableState.STORED
        ]
        with vault.open(stored[0].id) as stream:
            assert stream.read(20) == b"pid,vid,age,region\np"
        digests = {name: [row.digest for row in ledger.rows(named(store, name).id)] for name in HEADS}
        certificates = sorted(settings.home.glob("runs/*/certificate.json"))
        assert len(certificates) == 6
        for path in certificates:
            body = json.loads(path.read_bytes())
            assert digests[body["account"]][body["ledger"]["charges"] - 1] == body["ledger"]["head"]


def test_its_bundles_verify() -> None:
    for path in sorted(GOLDEN.glob("runs/*/bundle.zip")):
        verdict = verify(path, public_key=GOLDEN / "keys" / "public-key.pem")
        assert verdict.ok, verdict.lines


def test_an_older_chain_that_was_altered_is_not_taken_over(settings: Settings) -> None:
    from sqlalchemy import create_engine

    engine = create_engine(settings.database_url.replace("postgresql://", "postgresql+psycopg://"))
    drop = (
        "DROP TRIGGER charges_no_update"
        if engine.dialect.name == "sqlite"
        else "DROP TRIGGER charges_append_only ON charges"
    )
    with engine.begin() as connection:
        connection.execute(text(drop))
        connection.execute(text("UPDATE charges SET mu_squared_units = 1 WHERE position = 1"))
    engine.dispose()
    with Store(settings) as store:
        ledger = Ledger(store)
        for name in ("survey", "visits"):
            with pytest.raises(LedgerError, match="altered"):
                ledger.chain(named(store, name).id)


def test_an_older_database_that_is_behind_its_marks_is_noticed(settings: Settings) -> None:
    """What layout 2 noticed is still noticed after the chain was taken over."""
    from sqlalchemy import create_engine

    engine = create_engine(settings.database_url.replace("postgresql://", "postgresql+psycopg://"))
    drop = (
        "DROP TRIGGER charges_no_delete"
        if engine.dialect.name == "sqlite"
        else "DROP TRIGGER charges_append_only ON charges"
    )
    with engine.begin() as connection:
        connection.execute(text(drop))
        statement = (
            "DELETE FROM charges WHERE position > 3 AND account_id = (SELECT id FROM accounts WHERE name = :name)"
        )
        connection.execute(text(statement), {"name": "visits"})
    engine.dispose()
    with Store(settings) as store:
        ledger = Ledger(store)
        account = named(store, "visits")
        with pytest.raises(LedgerError, match="older than what was already spent"):
            ledger.check_whole(account.id)
        assert ledger.chain(account.id).frozen


def test_processes_that_start_together_take_it_over_once(settings: Settings) -> None:
    script = (
        "import sys, pathlib\n"
        "from synth.system.settings import Settings\n"
        "from synth.ledger.ledger import Ledger\n"
        "from synth.store import Store\n"
        "with Store(Settings(home=pathlib.Path(sys.argv[1]), database_url=sys.argv[2])) as store:\n"
        "    ledger = Ledger(store)\n"
        "    ledger.heads()\n"
        "    print(sum(len(ledger.chain(account.id).decisions) for account in store.accounts.all()))\n"
    )
    arguments = [sys.executable, "-c", script, str(settings.home), settings.database_url]
    processes = [subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    assert [process.communicate()[0] for process in processes] == ["10\n"] * 4


def test_an_owners_report_of_before_is_not_made_again_with_other_rows_held_out(settings: Settings) -> None:
    # Since 0.2.0 what a row holds decides its side: rows that the run learned from would be called held out.
    with Store(settings) as store:
        vault = Vault(store, load_keys(settings.home), Ledger(store))
        run = next(run for run in store.runs.all() if run.table_id and run.state is WorkState.RELEASED)
        config = replace(parse_config(json.loads(run.config)), holdout=0.2)
        with pytest.raises(JobError, match=r"made by version 0\.1\.0, which held other rows out"):
            build_owner_report(config, run, run_folder.of(settings, run.id), vault=vault, progress=NullProgress())


# Layout 3 -------------------------------------------------------------------------------------------------------------

LATER = Path(__file__).parents[1] / "golden" / "home-3"


@pytest.fixture
def settings_of_layout_3(tmp_path: Path, database_url: str) -> Settings:
    """The golden home of layout 3 on each database."""
    return laid_out(LATER, tmp_path / "home", database_url)


def test_a_home_of_layout_3_opens_and_its_chain_is_as_it_was(settings_of_layout_3: Settings) -> None:
    with Store(settings_of_layout_3) as store:
        ledger, account = Ledger(store), named(store, "town")
        ledger.heads()
        ledger.check_marks()
        ledger.check_whole(account.id)
        assert ledger.chain(account.id).head.count == 10
        assert (account.epsilon_cap, account.delta_cap) == (6.0, 1e-5)
        assert {run.owner: (run.state, run.attempts) for run in store.runs.all()} == {
            "waiting": (WorkState.QUEUED, 0),
            "at work": (WorkState.RUNNING, 1),
            "measured": (WorkState.MEASURED, 1),
            "failed": (WorkState.FAILED, 1),
            "cancelled": (WorkState.CANCELLED, 0),
        }
        taken = store.work.take(host="here", slots=1, gpus=())
        assert taken is not None
        assert (taken.owner, taken.attempts) == ("waiting", 1)


def test_what_an_older_version_began_never_goes_on(
    settings_of_layout_3: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It kept no answers: its questions would be asked again."""
    monkeypatch.setattr(local, "this_host", lambda: "a machine of before")
    with Store(settings_of_layout_3) as store:
        for run in store.work.active():
            assert not local.put_back(store, run, same_device=True)
        engine = LocalEngine(store, command=("/no/program",), gpus=())
        engine.tend()
        ledger = Ledger(store)
        for run in store.runs.all():
            if run.owner in ("at work", "measured"):
                assert run.state is WorkState.FAILED
                assert "stays spent" in run.message
                assert ledger.charges_of(run.id)[0].state is ChargeState.FAILED_SPENT
