"""Describing a table in a real browser: pasting, reloading in the middle, a second tab, a restart, a codebook."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pytest
from serving import Server, started_server
from sheets import xlsx, xlsx_row
from walking import Walker, answer_about_people

pytestmark = [pytest.mark.browser, pytest.mark.thorough]

TABLE = "division_name,age,miles,chol,notes\n" + "".join(
    f"{('north', 'south')[number % 2]},{20 + number % 50},{number % 9 / 4:.2f},{180 + number},made up {number}\n"
    for number in range(60)
)
BLOCK = (
    ("division_name", "category", "", "", "", "north, south"),
    ("age", "number", "0", "120", "1", ""),
    ("miles", "number", "0", "3", "0.01", ""),
    ("chol", "number", "100", "400", "1", ""),
)
"""As it stands in somebody's spreadsheet."""

PLACES = {"state": 0, "name": 1, "role": 2, "low": 3, "high": 4, "step": 5, "categories": 6}
WIDTHS = (112, 92, 96, 76, 80, 64, 92, 70, 68, 97)
"""Of the columns of the table, as the page asks for them; together they are stretched to the page."""

SCREENS = (
    ("1 Upload", "Upload a table"),
    ("2 Describe", "Describe the table"),
    ("3 Budget", "Choose a privacy budget"),
    ("Rehearse (optional)", "Rehearse"),
    ("4 Generate", "Generate rows"),
    ("Private models", "Private models"),
)


def cell(walker: Walker, line: int, column: str) -> Any:
    """Return a cell of the table of columns, as a screen reader finds it."""
    return walker.page.locator(f'[id="glide-cell-{PLACES[column]}-{line}"]')


def select_cell(walker: Walker, line: int, column: str) -> None:
    """Click into a cell where it stands: the table is painted, and its cells for screen readers take no mouse.

    A table that is painted anew passes a click over, and one that has not yet taken it a paste, without a word: so it
    is clicked until the cell is selected.
    """
    canvas = walker.page.get_by_test_id("stDataFrame").first.locator("canvas").first
    place = PLACES[column]
    selected = walker.page.locator(f'[id="glide-cell-{place}-{line}"]:focus')
    for _ in range(20):
        canvas.scroll_into_view_if_needed()
        box = canvas.bounding_box()
        assert box is not None
        middle = (sum(WIDTHS[:place]) + WIDTHS[place] / 2) * box["width"] / sum(WIDTHS)
        walker.page.mouse.click(box["x"] + middle, box["y"] + 34 * (line + 1) + 17)
        walker.settle(debounced=True)
        if selected.count():
            return
        walker.page.keyboard.press("Escape")  # a second click on a cell would open it
    raise AssertionError(f"the cell {line}, {column} could not be selected")


def paste(walker: Walker, line: int, column: str, block: tuple[tuple[str, ...], ...]) -> None:
    text = "\n".join("\t".join(cells) for cells in block)
    walker.page.evaluate("text => navigator.clipboard.writeText(text)", text)
    select_cell(walker, line, column)
    walker.page.keyboard.press("Control+V")
    walker.settle(debounced=True)


def paste_until(walker: Walker, line: int, column: str, block: tuple[tuple[str, ...], ...], *, seen: Any) -> None:
    """Paste until a locator is there: a table that is painted anew in between may pass a paste over."""
    from playwright.sync_api import TimeoutError as NotThere

    for _ in range(5):
        paste(walker, line, column, block)
        with contextlib.suppress(NotThere):
            seen.wait_for(state="attached", timeout=5000)
            return
    raise AssertionError(f"what was pasted at {line}, {column} is not there")


def test_what_was_typed_survives_reloads_another_tab_and_a_restart(browser: Any, tmp_path: Path) -> None:
    table = tmp_path / "clinic.csv"
    table.write_text(TABLE, encoding="utf-8")
    with started_server(tmp_path) as server:
        walker = Walker(browser, server.address, permissions=["clipboard-read", "clipboard-write"])
        page = walker.page
        walker.open("upload")
        walker.new_people("clinic")
        # Before a table has come a reload loses nothing either.
        page.reload()
        page.get_by_role("textbox", name="A name for these people").wait_for()
        assert page.get_by_role("textbox", name="A name for these people").input_value() == "clinic"
        walker.upload(0, table)
        page.get_by_text("Stored, encrypted.").wait_for()
        walker.press("Continue to 2 Describe")
        walker.see("Describe the table")

        walker.counted.clear()
        answer_about_people(walker)
        # Nothing is dropped or replaced by a guess alone, and parts of words say nothing.
        assert "notes would be dropped, because of the word 'notes'." in walker.text()
        assert "division_name would" not in walker.text()
        assert "chol would" not in walker.text()
        walker.press("Accept")
        walker.settle()

        # A block one column off is one sentence, and can be taken back.
        paste(walker, 0, "low", tuple(cells[1:] for cells in BLOCK))
        page.get_by_text("The pasted block seems to be one column too far right").wait_for()
        walker.press("Continue to 3 Budget")
        page.get_by_text("Before you continue, check the pasted block").wait_for()
        assert "must be a number" not in walker.text()
        walker.press("Undo the paste")
        walker.settle()
        assert cell(walker, 2, "low").inner_text() == ""
        paste_until(walker, 0, "name", BLOCK, seen=cell(walker, 2, "step").filter(has_text="0.01"))
        assert [cell(walker, 2, column).inner_text() for column in ("low", "high", "step")] == ["0", "3", "0.01"]
        walker.press("Tick 'Empty' in 4 columns")
        walker.settle()
        assert cell(walker, 2, "state").inner_text() == "● ready"
        assert sum(walker.counted.values()) <= 16, "five columns and the people, with one paste taken back"
        walker.press("Continue to 3 Budget")
        walker.see("Choose a privacy budget")

        for label, heading in SCREENS:
            walker.visit(label, heading)
            page.reload()
            walker.see(heading)
            assert "clinic.csv" in walker.text(), label
            assert "Protects one person contributing one row" in walker.text(), label

        walker.visit("2 Describe", "Describe the table")
        # What is known between columns is built in words, and survives as everything else does.
        page.get_by_text("Rules between columns (optional)").click()
        walker.settle()
        page.get_by_role("combobox", name="What do you know?").wait_for()
        for label, option in (
            ("What do you know?", "If one condition holds, another follows"),
            ("If", "chol"),
            ("then", "miles"),
        ):
            walker.pick(label, option)
        for place, number in enumerate(("300", "1")):
            box = page.get_by_role("textbox", name="value", exact=True).nth(place)
            box.fill(number)
            box.press("Enter")
            walker.settle()
        walker.press("Add this rule")
        page.get_by_text("• if chol ≥ 300 then miles ≥ 1").wait_for()

        # Two tabs: each keeps what it changed, and is told what came from the other.
        other = page.context.new_page()
        other.goto(page.url)
        first, walker.page = page, other
        walker.see("Describe the table")
        paste(walker, 2, "high", (("5",),))
        walker.page = first
        paste(walker, 1, "high", (("110",),))
        first.get_by_text("One answer was changed in another tab.").wait_for()
        assert [cell(walker, line, "high").inner_text() for line in (1, 2)] == ["110", "5"]
        address = page.url.partition("/describe")[2]
        walker.close()

    with started_server(tmp_path) as server:
        walker = Walker(browser, server.address)
        walker.open(f"describe{address}")
        assert [cell(walker, line, "high").inner_text() for line in (1, 2)] == ["110", "5"]
        assert "• if chol ≥ 300 then miles" in walker.text()
        assert "Protects one person contributing one row" in walker.text()
        walker.press("Continue to 3 Budget")
        walker.see("Choose a privacy budget")
        walker.close()


CODES = (
    ("variable", "type", "valid range", "step", "values", "missing codes", "may be empty"),
    ("person", "id", "", "", "", "", ""),
    ("age", "integer", "0-120", "", "", "999", ""),
    ("height cm", "float", "30-250", "0.5", "", "", "yes"),
    ("smokes", "int", "", "", "1=yes; 2=no; 9=missing", "", ""),
    ("answer", "ordinal", "", "", "N=never; S=sometimes; ?=not asked", "", "yes"),
)


def test_a_table_is_described_by_a_codebook_in_a_workbook_with_few_clicks(
    server: Server, browser: Any, tmp_path: Path
) -> None:
    header = ("person", "age", "height_cm", "smokes", "answer")
    people = [(f"p{number}", str(20 + number), "170.5", "129"[number % 3], "NS?"[number % 3]) for number in range(40)]
    (tmp_path / "survey.csv").write_text("".join(f"{','.join(line)}\n" for line in (header, *people)), encoding="utf-8")
    (tmp_path / "codebook.xlsx").write_bytes(xlsx("".join(map(xlsx_row, CODES))))
    walker = Walker(browser, server.address)
    page = walker.page
    walker.open("upload")
    walker.new_people("a survey with a codebook")
    walker.upload(0, tmp_path / "survey.csv")
    page.get_by_text("Stored, encrypted.").wait_for()
    walker.press("Continue to 2 Describe")
    walker.see("Describe the table")

    walker.counted.clear()
    answer_about_people(walker)
    page.get_by_text("Use a data dictionary").click()
    walker.settle()
    walker.upload(0, tmp_path / "codebook.xlsx")
    page.get_by_text("Understood 5 of your 5 columns.").wait_for()
    walker.press("Fill in 5 columns")
    page.get_by_text("Nothing is filled in yet.").wait_for(state="detached")
    walker.settle()
    states = [cell(walker, line, "state").inner_text() for line in range(5)]
    assert states == ["\u21bb replaced", *["\u25cf ready"] * 4]
    assert cell(walker, 4, "categories").inner_text() == "N, S, ?"
    walker.press("Continue to 3 Budget")
    walker.see("Choose a privacy budget")
    assert sum(walker.counted.values()) <= 7, "a codebook, its lines, three answers by a click and one by a key, and on"
    walker.close()
