"""Advisories: which releases of an earlier version they name, and that they say nothing of this version's own."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from synth.application import Application
from synth.cli import main
from synth.ledger.advisories import DISAGREEING, PRINTED_COUNT, SWALLOWED, WITHOUT_AN_ID, advisories
from synth.store import Store
from synth.system.settings import Settings

GOLDEN = Path(__file__).parents[1] / "golden" / "home-2"


@pytest.fixture
def application(tmp_path: Path) -> Iterator[Application]:
    home = tmp_path / "home"
    shutil.copytree(GOLDEN, home)
    with Application(Settings(home=home, database_url=f"sqlite:///{home / 'hermitage.sqlite'}")) as opened:
        yield opened


def test_every_release_of_before_is_named_with_what_may_have_touched_it(application: Application) -> None:
    found: dict[str, list[str]] = {}
    for one in advisories(application.store):
        found.setdefault(f"{one.account} {one.certificate_id}", []).append(one.sentence)
    by_account = {name.split()[0]: sentences for name, sentences in found.items()}
    assert by_account == {
        "survey": [SWALLOWED],
        "visits": [SWALLOWED, WITHOUT_AN_ID, PRINTED_COUNT],
        "mixed": [SWALLOWED, WITHOUT_AN_ID, DISAGREEING],
        "cells": [SWALLOWED],
    }
    assert len(found) == 6


def test_a_parquet_table_swallows_no_line(application: Application, monkeypatch: pytest.MonkeyPatch) -> None:
    with application.store.writing() as connection:
        connection.exec_driver_sql("UPDATE tables SET name = 'people.parquet'")
    assert SWALLOWED not in {one.sentence for one in advisories(application.store)}


def test_a_release_of_this_version_is_not_named(application: Application) -> None:
    account = application.store.accounts.named("survey")
    assert account is not None
    since = application.store.newer_layout_since()
    assert since is not None
    before = advisories(application.store)
    run = application.store.runs.of_account(account.id)[0]
    later = since.replace(year=since.year + 1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("synth.store.entries.now", lambda: later)
        application.store.releases.add(
            run_id=run.id,
            account_id=account.id,
            certificate_id="later",
            certificate_digest="0" * 64,
            attestations={},
            who="owner",
        )
    assert advisories(application.store) == before


def test_a_new_installation_has_no_advisory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    home = tmp_path / "new"
    with Store(Settings(home=home, database_url=f"sqlite:///{home / 'hermitage.sqlite'}")) as store:
        assert advisories(store) == []
    monkeypatch.setenv("HERMITAGE_HOME", str(home))
    monkeypatch.delenv("DATABASE_URL", raising=False)
    assert main(["advisory"]) == 0
    assert capsys.readouterr().out == "No release of this installation was made by an earlier version.\n"
