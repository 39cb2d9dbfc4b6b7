"""The walk of an institution: administrator, owner, approver and auditor, each in a browser of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from signing_in import ADMIN, APPROVER, AUDITOR, OWNER, Institution, signed_in
from walking import CODEBOOK, Walker, seal, small_table, walk_to_generate

__all__ = ["People", "Walk", "walk_of_an_institution"]

Look = Callable[[Walker, str], None]
"""What is done where a screen is worth a look, with a name for it."""

REASON = "The board agreed on 12 March."
ABOVE = "above 1, a second person has to approve it"


class People:
    """The four, signed in."""

    def __init__(self, browser: Any, place: Institution) -> None:
        self.owner, self.approver, self.auditor, self.admin = (
            signed_in(browser, place, name) for name in (OWNER, APPROVER, AUDITOR, ADMIN)
        )

    def __iter__(self) -> Iterator[Walker]:
        return iter((self.owner, self.approver, self.auditor, self.admin))

    def close(self) -> None:
        for walker in self:
            walker.close()


@dataclass(frozen=True)
class Walk:
    """What the walk left.

    Attributes
    ----------
    people : People
    account, reason : str
    table, bundle : Path
        What was uploaded and downloaded.
    query : str
        Of the address of the owner's table and run.
    """

    people: People
    account: str
    reason: str
    table: Path
    bundle: Path
    query: str


def _nothing(walker: Walker, name: str) -> None:
    del walker, name


def walk_of_an_institution(people: People, folder: Path, *, first: dict[str, str], look: Look = _nothing) -> Walk:
    """Set the policy, ask, approve, start and release; the auditor's browser is open all the while."""
    set_policy(people.admin, look)
    account = "a survey of smokers"
    table, codebook = small_table(folder, "quiet-heron-7731.csv", first=first), folder / "codebook.yaml"
    codebook.write_text(CODEBOOK.format(account=account), encoding="utf-8")

    owner, page = people.owner, people.owner.page
    walk_to_generate(owner, table, codebook, account)
    page.get_by_text(ABOVE).wait_for()
    assert page.get_by_role("button", name="Spend 2.00 and generate").is_disabled()
    owner.press("Ask for approval")
    page.get_by_text("is not decided yet: start the run once it is approved").wait_for()
    owner.settle()
    assert page.get_by_role("button", name="Spend 2.00 and generate").is_disabled()
    look(owner, "asked")

    decide(people.approver, look)
    owner.visit("Approvals", "Approvals")
    page.get_by_role("heading", name="Decided").wait_for()
    assert not page.get_by_role("button", name="Approve", exact=True).count()
    owner.visit("4 Generate", "Generate rows")
    owner.press("Spend 2.00 and generate")
    page.get_by_role("dialog").get_by_role("button", name="Spend 2.00 and generate").click()
    page.get_by_role("button", name="Continue to 5 Report").wait_for()
    owner.press("Continue to 5 Report")
    owner.see("Read the report")
    query = str(page.url).partition("?")[2]
    assert "table=" in query
    assert "run=" in query
    seal(owner)
    with page.expect_download() as download:
        page.get_by_role("button", name="Download the bundle (zip)").click()
    bundle = folder / "bundle.zip"
    download.value.save_as(bundle)

    people.auditor.visit("Ledger", "Ledger")
    look(people.auditor, "auditor")
    return Walk(people, account, REASON, table, bundle, query)


def set_policy(admin: Walker, look: Look) -> None:
    """Ask for a second person above epsilon 1."""
    admin.visit("Admin", "Admin")
    box = admin.page.get_by_role("spinbutton", name="Above this ε, a second person has to approve")
    box.fill("1")
    box.press("Tab")
    admin.settle()
    admin.press("Set the policy")
    admin.settle()
    admin.open("admin")
    assert box.input_value() == "1"
    look(admin, "policy")


def decide(approver: Walker, look: Look) -> None:
    """Approve what waits, with a reason; without one it is refused."""
    page = approver.page
    approver.visit("Approvals", "Approvals")
    page.get_by_text(OWNER).first.wait_for()
    look(approver, "approvals")
    approver.press("Approve")
    page.get_by_text("Give a reason: it is kept with the decision.").wait_for()
    approver.fill("Reason, kept with the decision", REASON)
    approver.press("Approve")
    page.get_by_role("heading", name="Decided").wait_for()
    approver.settle()
    assert not page.get_by_role("button", name="Approve", exact=True).count()
    look(approver, "decided")
