"""One user asks, a second approves, and an auditor sees the ledger and no row: four people and four browsers."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from canaries import CANARIES, heard
from institution_walk import People, Walk, walk_of_an_institution
from signing_in import APPROVER, OWNER, ROLES, Institution, command, institution, provider, signed_in
from walking import CODEBOOK, Walker, small_table, walk_to_generate

pytestmark = [pytest.mark.browser, pytest.mark.thorough]

ONLY_OWNERS = ("upload", "describe", "budget", "rehearse", "generate", "models", "report", "release", "compare")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Institution]:
    with institution(tmp_path_factory.mktemp("institution")) as started, provider(started.provider, started.log):
        yield started


@pytest.fixture(scope="module")
def walk(place: Institution, browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Walk]:
    people = People(browser, place)
    yield walk_of_an_institution(people, tmp_path_factory.mktemp("walk"), first=CANARIES)
    people.close()


def test_the_release_was_approved_by_the_second_person(place: Institution, walk: Walk) -> None:
    assert f"asked by {OWNER}  used by {APPROVER}: {walk.reason}" in command(place.server, "approvals")
    assert f"{walk.account}  #3  epsilon 2  " in command(place.server, "ledger")
    assert walk.bundle.stat().st_size > 10_000
    assert "All checks passed." in command(place.server, "verify", str(walk.bundle))


def test_the_auditor_sees_the_ledger_the_decision_and_no_row(place: Institution, walk: Walk) -> None:
    auditor = walk.people.auditor
    auditor.visit("Ledger", "Ledger")
    shown = auditor.page.get_by_test_id("stTable")
    assert shown.count() >= 3
    entries = b"\n".join(auditor.received)
    assert walk.account.encode() in entries
    assert walk.reason.encode() in entries
    assert APPROVER.encode() in entries
    for button, held in {
        "Export CSV": (walk.account, "released", OWNER),
        "Export JSON": (walk.account, "released", OWNER),
        "Export decisions as CSV": (walk.account, walk.reason, APPROVER),
    }.items():
        with auditor.page.expect_download() as download:
            auditor.press(button)
        written = Path(download.value.path()).read_text(encoding="utf-8")
        assert all(words in written for words in held), button
    bar = auditor.page.get_by_test_id("stSidebarNav").inner_text().split("\n")
    assert {"Start", "Ledger"} <= set(bar)
    assert not {"1 Upload", "4 Generate", "5 Report", "6 Release", "Admin"} & set(bar)


def test_an_address_of_the_owner_shows_the_others_nothing(place: Institution, walk: Walk) -> None:
    """Neither the auditor, nor the administrator, nor another owner reaches table or run by their addresses."""
    people = walk.people
    for walker in (people.auditor, people.admin, people.approver):
        before = len(walker.received)
        for path in ONLY_OWNERS:
            walker.open(f"{path}?{walk.query}")
            assert "table=" not in walker.page.url, path
            assert "run=" not in walker.page.url, path
        received = b"\n".join(walker.received[before:])
        assert walk.table.name.encode() not in received
        # Not the account's name, which an auditor sees, and which a download may tell again.
        assert not re.search(rb"smoker(?!s)", received), "the name of a column"


def test_the_name_of_who_has_signed_in_is_not_asked_for(walk: Walk) -> None:
    admin = walk.people.admin
    admin.open("admin")
    admin.page.get_by_role("button", name="Enter the release").wait_for()
    assert not admin.page.get_by_role("textbox", name="Your name").count()


def test_no_cell_of_the_table_was_sent_to_anybody(walk: Walk) -> None:
    for walker in walk.people:
        assert heard(walker.received) == []
        assert walker.refused == []


def test_an_approver_does_not_decide_about_their_own_request(walk: Walk, tmp_path: Path) -> None:
    approver, codebook = walk.people.approver, tmp_path / "codebook.yaml"
    codebook.write_text(CODEBOOK.format(account="of the approver"), encoding="utf-8")
    walk_to_generate(approver, small_table(tmp_path, "own.csv"), codebook, "of the approver")
    approver.press("Ask for approval")
    approver.page.get_by_text("is not decided yet: start the run once it is approved").wait_for()
    approver.visit("Approvals", "Approvals")
    approver.page.get_by_text("You asked for this yourself, so somebody else has to decide it.").wait_for()
    assert not approver.page.get_by_role("button", name="Approve", exact=True).count()


def test_a_role_that_is_taken_away_while_a_run_waits_stops_it_before_the_charge(
    place: Institution, walk: Walk, browser: Any, tmp_path: Path
) -> None:
    people = walk.people
    command(place.server, "policy", "--approval-epsilon", "0")
    _start(people.approver, tmp_path, "first in the queue")
    worker = _worker_at_work(place)
    worker.suspend()  # for as long as the other one has to wait
    try:
        _start(people.owner, tmp_path, "second in the queue")
        people.owner.page.get_by_text("waiting").first.wait_for()
        command(place.server, "user", OWNER, "--roles", "")
    finally:
        worker.resume()
    people.approver.page.get_by_role("button", name="Continue to 5 Report").wait_for()
    for _ in range(1200):  # the role comes back only after its absence was seen
        entries = command(place.server, "ledger").splitlines()
        if any("second in the queue" in entry and "  freed  " in entry for entry in entries):
            break
        time.sleep(0.5)
    else:
        raise AssertionError("the second run was not stopped")
    command(place.server, "user", OWNER, "--roles", ROLES[OWNER])
    again = signed_in(browser, place, OWNER)
    again.press("Continue where you left off")
    again.see("The latest tables and runs")
    again.page.get_by_text("second in the queue").first.wait_for()
    again.page.get_by_role("button", name="Open", exact=True).first.click()
    again.page.get_by_text("has not the role of owner any more, so it was not started").wait_for()
    assert "epsilon 0 spent" in command(place.server, "account", "second in the queue")
    again.close()


def _start(walker: Walker, folder: Path, account: str) -> None:
    codebook = folder / f"{account}.yaml"
    codebook.write_text(CODEBOOK.format(account=account), encoding="utf-8")
    walk_to_generate(walker, small_table(folder, f"{account}.csv"), codebook, account)
    walker.press("Spend 2.00 and generate")
    walker.page.get_by_role("dialog").get_by_role("button", name="Spend 2.00 and generate").click()
    walker.page.get_by_role("dialog").wait_for(state="detached")


def _worker_at_work(place: Institution) -> psutil.Process:
    home = str(place.server.home)
    for _ in range(1200):
        for process in psutil.process_iter():
            try:
                if "synth.worker" in process.cmdline() and process.environ().get("HERMITAGE_HOME") == home:
                    return process
            except (psutil.NoSuchProcess, psutil.AccessDenied):
                continue
        time.sleep(0.05)
    raise AssertionError("no worker has started")
