"""What readers are told of a run of whole people: columns in words, patients where patients are counted, sums that fit.

The table has columns called count, place and gap, so the names of those that are made end in an underscore and can be
found in any text.
"""

from __future__ import annotations

import html
import json
import random
import re
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations
from math import comb
from pathlib import Path
from typing import Any

import pytest

from synth.bundle.counted import counts_of_bundle
from synth.cli.local import run_locally
from synth.reports.forecast import forecast
from synth.schema import RunConfig, load_config, people_of
from synth.services.planning import forecast_lines

pytestmark = pytest.mark.thorough

DECLARED = """
table: visits.csv
account: visits
unit: {protects: household, rows_per_unit: 4, id_column: home, same_in_all_rows: [area], ordered_by: day}
row_count: private
people_at_most: 1000
budget: {epsilon: 20.0}
holdout: 0.4
label: moved
groups: [area]
prediction_share: 0.1
people: 300
seed: 3
columns:
  home: {type: identifier}
  area: {type: category, values: [north, south], fallback: north}
  day: {type: number, low: 0, high: 30, step: 1, fallback: 0}
  shop: {type: category, values: [baker, grocer, none], fallback: none}
  cost: {type: number, low: 0, high: 31, step: 1, missing: true}
  moved: {type: yes_no, yes: "y", no: "n", fallback: "n"}
  count: {type: drop}
  place: {type: drop}
  gap: {type: drop}
"""
MADE = re.compile(r"\b(?:count_|place_|gap_|next\.\w|usual\.\w)")
"""The names of columns that the declared table does not have."""

_ENTRY = re.compile(r"<(script|style)[^>]*>.*?</\1>|<[^>]+>", re.DOTALL)


def written(path: Path) -> None:
    draw = random.Random(4)
    lines = []
    for home in range(700):
        area, day, cost = "ns"[home % 2], 0, draw.randrange(20)
        for _ in range(1 + draw.randrange(4)):
            day += draw.randrange(8)
            shop = ("baker", "grocer", "none")[min(cost // 8, 2)]
            lines.append(f"{home},{'north' if area == 'n' else 'south'},{day},{shop},{cost},{'yn'[cost < 9]},1,2,3")
            cost = min(max(cost + draw.randrange(-4, 5), 0), 31)
    path.write_text("home,area,day,shop,cost,moved,count,place,gap\n" + "\n".join(lines) + "\n")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[RunConfig, Path, tuple[str, ...]]:
    """A configuration, what its run published, and the lines that were printed."""
    folder = tmp_path_factory.mktemp("words")
    written(folder / "visits.csv")
    (folder / "run.yaml").write_text(DECLARED)
    config = load_config(folder / "run.yaml")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HERMITAGE_HOME", str(folder / "home"))
        patch.delenv("DATABASE_URL", raising=False)
        patch.setattr("synth.services.runs.try_out", lambda *given, **named: None)
        done = run_locally(config, folder / "out")
    return config, folder / "out", done.lines


def texts(document: Any, *, of: str = "") -> Iterator[str]:
    """Yield every text of a report, without the keys by which programs find numbers."""
    if isinstance(document, dict):
        for key, value in document.items():
            yield from texts(value, of=key)
    elif isinstance(document, list):
        for value in document:
            yield from texts(value, of=of)
    elif isinstance(document, str) and of not in ("id", "kind"):
        yield document


def member(folder: Path, name: str) -> str:
    with zipfile.ZipFile(folder / "bundle.zip") as archive:
        return archive.read(name).decode()


def numbers(folder: Path) -> dict[str, Any]:
    return {one["id"]: one for one in json.loads(member(folder, "report.json"))["evidence"]}


def test_no_text_of_a_run_calls_a_column_by_a_name_that_the_table_does_not_have(
    run: tuple[RunConfig, Path, tuple[str, ...]],
) -> None:
    config, folder, lines = run
    made = people_of(config.schema).made
    assert {"count_", "place_", "gap_", "next.cost", "usual.cost"} <= made, "the test would find nothing"
    public, owner = (
        json.loads(member(folder, "report.json")),
        json.loads((folder / "owner" / "report.json").read_text()),
    )
    page = html.unescape(_ENTRY.sub(" ", member(folder, "report.html")))
    counted = counts_of_bundle(folder / "bundle.zip")
    planned = forecast_lines(config)
    told = {
        "report.json": list(texts(public)),
        "owner/report.json": list(texts(owner["evidence"])),
        "report.html": [page],
        "printed": [*lines, *planned],
        "counts": [text for table in counted.tables for text in (table.title, table.error_words)],
    }
    for where, said in told.items():
        assert len(" ".join(said)) > 300, where
        assert [text for text in said if MADE.search(text)] == [], where
    every = " ".join(told["report.json"] + told["counts"] + planned)
    for title in people_of(config.schema).titles.values():
        assert title in every, title


def test_what_counts_households_says_households(run: tuple[RunConfig, Path, tuple[str, ...]]) -> None:
    config, folder, _ = run
    said = numbers(folder)
    counts = ("accuracy.trust", "groups.smallest.area", "predictions.rows")
    assert {said[name]["unit"] for name in counts} == {"households"}
    assert said["fidelity.ks"]["unit"] == "share of households"
    assert said["predictions.rows"]["title"] == "Test households"
    bars = [one for entry in said.values() for one in entry.get("figures", []) if one["figure"] == "bars"]
    assert {one["unit"] for one in bars} == {"households", "total variation"}
    # What is said of rows, beside a number: the most of one household, and on the first screen those that were made.
    beside = re.compile(r"[0-9][0-9.,]* (?:in 100 )?rows\b")
    rows = said["overview.rows_made"]["value"]
    found = {match for text in texts(list(said.values())) for match in beside.findall(text)}
    assert found == {"4 rows"}
    page = member(folder, "report.html")
    assert f"300 synthetic households with {rows:,} rows, those of each household kept together" in page
    assert set(beside.findall(html.unescape(_ENTRY.sub(" ", page)))) == {f"{rows:,} rows", "4 rows"}
    (count,) = [table for table in counts_of_bundle(folder / "bundle.zip").tables if not table.columns]
    assert count.title == "number of households"
    part = next(one for one in forecast(config).parts if one.name == "row count")
    assert part.question == "How many households are there?"
    readme = member(folder, "README.txt")
    assert "So counts are of households, and so is the\nanswer to 'number of rows' in certificate.json." in readme
    for name, words in (
        ("count_", "rows of a household"),
        ("gap_", "from day to the next"),
        ("next.x", "x in the next"),
    ):
        assert re.search(rf"^  {re.escape(name)} +{words}", readme, re.MULTILINE), name


def test_pairs_are_those_within_a_row_and_those_of_a_row_and_the_next(
    run: tuple[RunConfig, Path, tuple[str, ...]],
) -> None:
    config, folder, lines = run
    people, said = people_of(config.schema), {name: one["value"] for name, one in numbers(folder).items()}
    within, across = comb(len(config.schema.names), 2), len(people.following) ** 2
    assert (said["relations.of"], said["marginals.2.of"], said["relations.next_of"]) == (within, within, across)
    found = counts_of_bundle(folder / "bundle.zip").tables
    counted = {frozenset(pair) for table in found for pair in combinations(table.columns, 2)}
    pairs = {pair for pair in counted if pair <= set(config.schema.names)}
    after = {
        pair for pair in counted if len(pair & set(people.following)) == len(pair & set(people.following.values())) == 1
    }
    assert said["relations.measured"] == len(pairs) > 0
    assert 0 < across - said["relations.next_unknown"] <= len(after)
    unknown = (
        f"{said['relations.unknown']} of {within} pairs of columns and {said['relations.next_unknown']} of {across}"
    )
    words = f"{unknown} pairs of a column and one of the next row"
    assert f"Treat {words} as unknown" in " ".join(lines)
    assert f"elations within {words}" in member(folder, "report.html")


def test_separate_rows_are_called_rows(run: tuple[RunConfig, Path, tuple[str, ...]]) -> None:
    config, _, _ = run
    separate = replace(config, schema=replace(config.schema, people="separate_rows"), by_people=False, rows=300)
    part = next(one for one in forecast(separate).parts if one.name == "row count")
    assert part.question == "How many rows are there?"
    assert "households" not in " ".join(forecast_lines(separate))
