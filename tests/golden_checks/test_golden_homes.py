"""Homes of layouts 4, 5 and 6 open, their chains and seals hold, and a further run is charged, on each database."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from golden_homes import laid_out

from synth.bundle.verify import verify
from synth.errors import LedgerError
from synth.ledger.ledger import Ledger
from synth.ledger.notes import CHOSEN_AFTER_LOOKING
from synth.privacy.accounting import PrivacyBudget
from synth.store import Account, ChargeState, Store, TableState, WorkKind, WorkState
from synth.system.settings import Settings
from synth.vault.keys import load_keys
from synth.vault.vault import Vault

GOLDEN = Path(__file__).parents[1] / "golden"
HOMES = [GOLDEN / f"home-{layout}" for layout in (4, 5, 6, 7)]


@pytest.fixture(params=HOMES, ids=lambda path: path.name)
def golden(request: pytest.FixtureRequest) -> Path:
    """Each golden home."""
    assert isinstance(request.param, Path)
    return request.param


@pytest.fixture
def home(golden: Path, tmp_path: Path, database_url: str) -> Settings:
    """The golden home on each database."""
    return laid_out(golden, tmp_path / "home", database_url)


def named(store: Store, name: str) -> Account:
    account = store.accounts.named(name)
    assert account is not None
    return account


def test_its_chains_are_whole_and_say_what_was_spent(home: Settings) -> None:
    with Store(home) as store:
        ledger = Ledger(store)
        ledger.heads()
        ledger.check_marks()
        assert store.newer_layout_since() is None
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


def test_its_runs_are_where_they_were(home: Settings) -> None:
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
        taken = store.work.take(host="here", slots=1, gpus=())
        assert taken is not None
        assert taken.attempts == 1


def test_its_other_work_is_where_it_was(home: Settings, golden: Path) -> None:
    """Layout 4 kept it in files, which are not read any more."""
    with Store(home) as store:
        released = [run.id for run in store.runs.all() if run.state is WorkState.RELEASED]
        reports = [
            work.state
            for run_id in released
            for name in ("predictions", "shadow-models")
            if (work := store.work.about(WorkKind.REPORT, f"{run_id} {name}")) is not None
        ]
        rehearsal = store.work.about(WorkKind.REHEARSAL, "0" * 64)
        grid = store.work.about(WorkKind.GRID, "1" * 64)
        if golden.name == "home-4":
            assert (reports, rehearsal, grid) == ([], None, None)
            return
        assert reports == [WorkState.REPORTED, WorkState.CANCELLED]
        assert rehearsal is not None
        assert (rehearsal.state, rehearsal.attempts, rehearsal.pid) == (WorkState.RUNNING, 1, 1)
        assert grid is not None
        assert (grid.state, grid.message) == (WorkState.FAILED, "The worker stopped without a word.")


def test_what_was_typed_is_where_it_was(home: Settings, golden: Path) -> None:
    """Older versions kept it in the memory of the server: there is a place for it, and it is empty."""
    with Store(home) as store:
        (table,) = store.tables.stored()
        found = store.drafts.find(table.id)
        if golden.name not in {"home-6", "home-7"}:
            assert found is None
        else:
            assert found is not None
            assert (found.number, found.body["protects"]) == (2, "person")
            assert found.body["columns"]["age"]["high"] == "100"
        begun = [one.body["account"] for one in store.begun.latest(9)]
        assert begun == (["begun"] if golden.name == "home-7" else [])
        again = store.drafts.save(table.id, {"epsilon": 2.0}, seen=0 if found is None else found.number)
        assert again is not None
        assert store.drafts.save(table.id, {"epsilon": 3.0}, seen=0) is None
        assert store.drafts.find(table.id) == again
        store.tables.mark_deleted(table.id)
        assert store.drafts.find(table.id) is None
        assert store.drafts.save(table.id, {}, seen=0) is None


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
        looked = CHOSEN_AFTER_LOOKING in ledger.notes(account.id, run_id=run.id)
        assert looked == (name == "survey")
        own = ledger.chain(account.id)
    with Store(home) as again:
        assert Ledger(again).chain(account.id).links == own.links


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
        vault = Vault(store, load_keys(home.home), ledger)
        (table,) = (
            table
            for account in store.accounts.all()
            for table in store.tables.of_account(account.id)
            if table.state is TableState.STORED
        )
        with vault.open(table.id) as stream:
            assert stream.read(20) == b"pid,age,region\np60,3"
        if home.database_url.startswith("postgresql"):
            return  # whose certificates are not kept
        digests = {account.name: [row.digest for row in ledger.rows(account.id)] for account in store.accounts.all()}
        certificates = sorted(home.home.glob("runs/*/certificate.json"))
        assert len(certificates) == 3
        for path in certificates:
            body = json.loads(path.read_bytes())
            assert digests[body["account"]][body["ledger"]["charges"] - 1] == body["ledger"]["head"]


def test_one_of_its_bundles_verifies(golden: Path) -> None:
    path = min(golden.glob("runs/*/bundle.zip"))
    verdict = verify(path, public_key=golden / "keys" / "public-key.pem")
    assert verdict.ok, verdict.lines
