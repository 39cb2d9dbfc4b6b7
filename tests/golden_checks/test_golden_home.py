"""The installation that is kept opens, its chains and seals hold, and a further run is charged."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from golden_homes import copy_of_golden_home

from synth.bundle.verify import verify
from synth.errors import LedgerError
from synth.ledger.ledger import Ledger
from synth.ledger.notes import CHOSEN_AFTER_LOOKING
from synth.privacy.accounting import PrivacyBudget
from synth.store import Account, ChargeState, Store, WorkKind, WorkState
from synth.system.settings import Settings
from synth.vault.keys import load_keys
from synth.vault.vault import Vault


@pytest.fixture
def home(tmp_path: Path) -> Settings:
    copy_of_golden_home(tmp_path / "home")
    return Settings(home=tmp_path / "home", database_url=f"sqlite:///{tmp_path / 'home' / 'hermitage.sqlite'}")


def named(store: Store, name: str) -> Account:
    account = store.accounts.named(name)
    assert account is not None
    return account


def test_its_chains_are_whole_and_say_what_was_spent(home: Settings) -> None:
    with Store(home) as store:
        ledger = Ledger(store)
        ledger.heads()
        ledger.check_marks()
        assert {account.name: ledger.chain(account.id).head.count for account in store.accounts.all()} == {
            "survey": 14,
            "visits": 3,
            "cells": 3,
            "undescribed": 0,
            "frozen": 0,
        }
        for account in store.accounts.all():
            if account.name != "frozen":
                ledger.check_whole(account.id)
        survey = named(store, "survey")
        assert (survey.epsilon_cap, survey.delta_cap) == (6.0, 1e-5)
        assert [charge.state for charge in ledger.current(survey.id)] == [
            ChargeState.RELEASED,
            ChargeState.RESERVED,
            ChargeState.RESERVED,
            ChargeState.SPENT,
            ChargeState.SPENT,
            ChargeState.FAILED_SPENT,
            ChargeState.FREED,
        ]
        assert f"{ledger.spent(survey.id, delta=1e-6).epsilon:.6g}" == "2.65363"
        assert {name: named(store, name).sentence for name in ("survey", "visits", "cells", "undescribed")} == {
            "survey": "Protects one person contributing one row",
            "visits": "Protects one patient: all rows of one pid",
            "cells": "Protects ONE CELL; class labels, class sizes and the number of rows are not protected",
            "undescribed": None,
        }


def test_its_work_is_where_it_was(home: Settings) -> None:
    with Store(home) as store:
        runs = store.runs.of_account(named(store, "survey").id)
        assert sorted((run.state, run.attempts) for run in runs) == sorted(
            [
                (WorkState.RELEASED, 1),
                (WorkState.PLANNED, 0),
                (WorkState.QUEUED, 0),
                (WorkState.RUNNING, 1),
                (WorkState.MEASURED, 1),
                (WorkState.FAILED, 1),
                (WorkState.CANCELLED, 0),
            ]
        )
        released = next(run.id for run in runs if run.state is WorkState.RELEASED)
        kept = {
            (WorkKind.REPORT, f"{released} predictions"): (WorkState.REPORTED, ""),
            (WorkKind.REPORT, f"{released} shadow-models"): (WorkState.CANCELLED, ""),
            (WorkKind.REHEARSAL, "0" * 64): (WorkState.RUNNING, ""),
            (WorkKind.GRID, "1" * 64): (WorkState.FAILED, "The worker stopped without a word."),
        }
        for about, expected in kept.items():
            work = store.work.about(*about)
            assert work is not None
            assert (work.state, work.message) == expected
        taken = store.work.take(host="here", slots=1, gpus=())
        assert taken is not None
        assert taken.attempts == 1


def test_what_was_typed_is_where_it_was(home: Settings) -> None:
    with Store(home) as store:
        (table,) = store.tables.stored()
        found = store.drafts.find(table.id)
        assert found is not None
        assert (found.number, found.body["protects"]) == (2, "person")
        assert found.body["columns"]["age"]["high"] == "100"
        assert [one.body["account"] for one in store.begun.latest(9)] == ["begun"]


@pytest.mark.parametrize("name", ["survey", "visits", "cells"])
def test_a_further_run_is_charged_and_a_look_still_counts(home: Settings, name: str) -> None:
    with Store(home) as store:
        ledger, account = Ledger(store), named(store, name)
        spent = ledger.spent(account.id).epsilon
        before = store.runs.of_account(account.id)[0]
        run = store.runs.add(account_id=account.id, config=before.config, owner="owner", table_id=before.table_id)
        budget = PrivacyBudget(0.5, 1e-5 if name == "cells" else 1e-6, account.neighbours)  # type: ignore[arg-type]
        ledger.spend(ledger.reserve(account.id, run.id, budget, purpose="a further run"))
        assert ledger.spent(account.id).epsilon > spent
        ledger.check_whole(account.id)
        assert (CHOSEN_AFTER_LOOKING in ledger.notes(account.id, run_id=run.id)) == (name == "survey")


def test_a_frozen_account_takes_no_run(home: Settings) -> None:
    with Store(home) as store:
        ledger, account = Ledger(store), named(store, "frozen")
        run = store.runs.add(account_id=account.id, config=store.runs.all()[0].config, owner="owner")
        budget = PrivacyBudget(0.5, 1e-6, account.neighbours)  # type: ignore[arg-type]
        with pytest.raises(LedgerError, match="frozen"):
            ledger.reserve(account.id, run.id, budget, purpose="a further run")


def test_its_table_opens_and_its_certificates_point_into_the_chains(home: Settings) -> None:
    with Store(home) as store:
        ledger = Ledger(store)
        (table,) = store.tables.stored()
        with Vault(store, load_keys(home.home), ledger).open(table.id) as stream:
            assert stream.read(15) == b"pid,age,region\n"
        digests = {account.name: [row.digest for row in ledger.rows(account.id)] for account in store.accounts.all()}
        certificates = [json.loads(path.read_bytes()) for path in home.home.glob("runs/*/certificate.json")]
        assert sorted(body["account"] for body in certificates) == ["cells", "survey", "visits"]
        for body in certificates:
            assert digests[body["account"]][body["ledger"]["charges"] - 1] == body["ledger"]["head"]


def test_its_bundle_verifies(home: Settings) -> None:
    (path,) = home.home.glob("runs/*/bundle.zip")
    verdict = verify(path, public_key=home.home / "keys" / "public-key.pem")
    assert verdict.ok, verdict.lines
