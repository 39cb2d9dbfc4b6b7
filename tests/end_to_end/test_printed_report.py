"""The report of a bundle on paper and on a telephone: six pages say it all, and the tables stand in an appendix."""

from __future__ import annotations

import random
import re
import zipfile
from typing import Any

import pytest

from synth.cli.local import run_locally
from synth.schema import CategoryColumn, Column, NumberColumn, RunConfig, Schema, YesNoColumn

pytestmark = [pytest.mark.browser, pytest.mark.thorough]

COLUMNS: tuple[Column, ...] = (
    *(NumberColumn(f"laboratory_value_{place}", 0, 100, 1, fallback=0) for place in range(8)),
    *(CategoryColumn(f"ward_{place}", tuple("abcdefgh"), fallback="a") for place in range(4)),
    *(YesNoColumn(name, fallback="no") for name in ("smoker", "insured", "readmitted")),
)


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Seal a table of fifteen columns, and return its report as a page."""
    folder, draw = tmp_path_factory.mktemp("printed"), random.Random(3)
    schema = Schema(COLUMNS, number_of_units=600)
    lines = [",".join(column.name for column in COLUMNS)]
    for _ in range(600):
        cells = [draw.choice(column.texts(range(column.size))) for column in schema.modelled]
        lines.append(",".join(cells))
    (folder / "table.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    config = RunConfig(
        schema=schema,
        account="town",
        epsilon=4.0,
        delta=1e-6,
        people_at_most=1000,
        rows=300,
        generator="independent-by-class",
        label="readmitted",
        groups=("ward_0",),
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HERMITAGE_HOME", str(folder / "home"))
        run_locally(config, folder / "out", table=folder / "table.csv", owner_report=False)
    with zipfile.ZipFile(folder / "out" / "bundle.zip") as bundle:
        return bundle.read("report.html").decode()


def pages_of(pdf: bytes) -> int:
    return len(re.findall(rb"/Type\s*/Page\b(?!s)", pdf))


def test_six_pages_say_it_and_the_rest_is_an_appendix(browser: Any, page: str) -> None:
    opened = browser.new_page()
    opened.set_content(page)
    whole = opened.pdf(prefer_css_page_size=True)
    opened.evaluate(
        """() => {
            const start = document.querySelector("h2.appendix");
            while (start.nextSibling) start.nextSibling.remove();
            start.remove();
        }"""
    )
    said = opened.pdf(prefer_css_page_size=True)
    opened.close()
    assert 1 <= pages_of(said) <= 6
    assert pages_of(whole) > pages_of(said), "every table and picture follows"


@pytest.mark.parametrize("width", [390, 1280])
def test_nothing_runs_off_the_screen(browser: Any, page: str, width: int) -> None:
    opened = browser.new_page(viewport={"width": width, "height": 800})
    opened.set_content(page)
    assert opened.evaluate("document.documentElement.scrollWidth") <= width
    # What is wider scrolls by itself, and by keys: it has a name and takes the focus.
    opened.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true; })")
    wide = opened.evaluate(
        """() => [...document.querySelectorAll("main *")]
            .filter(one => one.scrollWidth > one.clientWidth + 1 && getComputedStyle(one).overflowX === "auto")
            .map(one => [one.tabIndex, one.getAttribute("role"), Boolean(one.getAttribute("aria-label"))])"""
    )
    assert wide or width > 390
    assert all(one == [0, "group", True] for one in wide), wide
    opened.close()


def test_nothing_runs_off_the_paper(browser: Any, page: str) -> None:
    """At the width that is printed on, between the margins, with the style of paper."""
    opened = browser.new_page(viewport={"width": 688, "height": 1000})
    opened.emulate_media(media="print")
    opened.set_content(page)
    assert opened.evaluate("document.documentElement.scrollWidth") <= 688
    # Pages break between sections: none is longer than what A4 holds between its margins, and none is torn.
    parts = opened.evaluate(
        "() => [...document.querySelectorAll('.part')].map(o => [o.scrollHeight, getComputedStyle(o).breakInside])"
    )
    assert len(parts) > 2
    assert all(height < 1000 and inside == "avoid" for height, inside in parts), parts
    opened.close()
