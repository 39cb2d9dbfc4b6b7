"""A workbook from the browser's disk to a described table: which sheet is asked where it stands, names are given."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from serving import Server
from sheets import xlsx, xlsx_row
from walking import Walker

pytestmark = [pytest.mark.browser, pytest.mark.thorough]


def test_a_workbook_of_two_sheets_is_uploaded_and_its_columns_are_listed(
    server: Server, browser: Any, tmp_path: Path
) -> None:
    table = tmp_path / "survey.xlsx"
    rows = xlsx_row(["age", "", "income", "income"]) + xlsx_row(["34", "Zanzibar-7391846", "1200", "7"]) * 40
    table.write_bytes(xlsx(rows, sheets={"Notes": "visible"}))
    walker = Walker(browser, server.address)
    walker.open("upload")
    walker.new_people("a workbook")
    walker.upload(0, table)
    walker.page.get_by_text("The workbook has 2 sheets: 'People' and 'Notes'.").wait_for()
    walker.fill("Units written next to numbers, separated by commas", "kg")
    walker.page.get_by_text("Invented cells: 1234.5 kg is read as 1234.5.").wait_for()
    walker.pick("Sheet of the workbook", "People")
    walker.press("Read it again")
    walker.page.get_by_text("Stored, encrypted.").wait_for()
    walker.fill("Column 2 of the file", "visits")
    walker.press("Use these names")
    walker.page.get_by_text("Columns, names only: age, visits, income, income_2").wait_for()
    walker.press("Continue to 2 Describe")
    walker.see("Describe the table")
    assert not [one for one in walker.received if b"Zanzibar-7391846" in one]
    assert not walker.refused
    walker.close()
