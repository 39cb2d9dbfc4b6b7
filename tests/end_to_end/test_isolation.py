"""Two live sessions: what one of them works on never reaches the other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from serving import Server
from walking import CODEBOOK, Walker, small_table

pytestmark = pytest.mark.browser

PAGES = {
    "1 Upload": "Upload a table",
    "2 Describe": "Describe the table",
    "3 Budget": "Choose a privacy budget",
    "4 Generate": "Generate rows",
    "5 Report": "Read the report",
    "6 Release": "Release",
    "Ledger": "Ledger",
    "Start": "Turn a private table into rows you can share.",
}


def test_another_session_never_receives_the_name_of_a_table(server: Server, browser: Any, tmp_path: Path) -> None:
    table = small_table(tmp_path, "quiet-heron-7731.csv")
    table.write_text(table.read_text(encoding="utf-8").replace("income", "quietincome", 1), encoding="utf-8")
    codebook = tmp_path / "codebook.yaml"
    codebook.write_text(CODEBOOK.format(account="isolation").replace("income", "quietincome"), encoding="utf-8")

    first, second = Walker(browser, server.address), Walker(browser, server.address)
    first.open("upload")
    second.open()
    first.choose("No, new people")
    first.fill("A name for these people", "isolation")
    first.upload(1, codebook)
    first.page.get_by_text("The description has been filled in from the file.").wait_for()
    first.upload(0, table)
    first.page.get_by_text("Stored, encrypted.").wait_for()
    assert any(b"quiet-heron-7731" in frame for frame in first.received), "the test has to be able to see the name"

    for label, heading in PAGES.items():
        second.visit(label, heading)
    heard = b"\n".join(second.received)
    assert b"Ledger" in heard
    assert b"quiet-heron-7731" not in heard
    assert b"quietincome" not in heard
    first.close()
    second.close()
