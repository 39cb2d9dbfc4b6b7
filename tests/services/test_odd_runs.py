"""Odd tables from the file to the bundle and through every report: none stops, none ends in an incident.

The pictures of all these reports are looked at as well: few points, words for those who cannot see them, the numbers as
a table, and colours that colour-blind readers tell apart.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from synth import verify
from synth.cli.local import run_locally
from synth.reports.drawing import COLOURS, draw
from synth.reports.figures import MAXIMUM_POINTS, Bars, Figure, Table, figure_from_dict
from synth.schema import CategoryColumn, NumberColumn, RunConfig, Schema, YesNoColumn

CLASSES = tuple(f"c{place:02d}" for place in range(60))
COLUMNS = (
    NumberColumn("age", 0, 99, 1, missing=True),
    CategoryColumn("town", ("Ayr", "Bath", "Cork"), missing=True),
    YesNoColumn("ill", fallback="no"),
    CategoryColumn("ward", CLASSES, fallback="c00"),
)
CONFIG = RunConfig(
    schema=Schema(COLUMNS),
    account="town",
    epsilon=3.0,
    delta=1e-6,
    people_at_most=10_000,
    rows=300,
    label="ill",
    groups=("town", "age"),
    holdout=0.25,
)

Cells = dict[str, np.ndarray]


def unchanged(cells: Cells) -> None:
    """The table as it is."""


def one_class(cells: Cells) -> None:
    cells["ill"][:] = "no"


def all_missing_number(cells: Cells) -> None:
    cells["age"][:] = ""


def all_missing_group(cells: Cells) -> None:
    cells["town"][:] = ""


def alike(cells: Cells) -> None:
    for name in cells:
        cells[name][:] = cells[name][0]


pytestmark = pytest.mark.thorough

ODD: dict[str, tuple[int, Callable[[Cells], None], dict[str, Any]]] = {
    "200 rows": (200, unchanged, {}),
    "no label": (300, unchanged, {"label": None}),
    "one class": (300, one_class, {}),
    "all-missing number": (300, all_missing_number, {}),
    "all-missing group": (300, all_missing_group, {}),
    "all-missing label": (300, all_missing_group, {"label": "town", "groups": ("ill",)}),
    "60 classes": (900, unchanged, {"label": "ward"}),
    "rows all alike": (200, alike, {}),
}


def written(path: Path, rows: int, change: Callable[[Cells], None]) -> Path:
    random = np.random.default_rng(rows)
    age = random.integers(0, 100, rows)
    cells: Cells = {
        "age": age.astype("<U4"),
        "town": np.array(["Ayr", "Bath", "Cork"])[random.choice(3, rows, p=[0.7, 0.25, 0.05])],
        "ill": np.where(age > 60, "yes", "no"),
        "ward": np.array(CLASSES)[(age * 59 // 99).clip(0, 59)],
    }
    change(cells)
    lines = [",".join(cells), *(",".join(row) for row in zip(*cells.values(), strict=True))]
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture(scope="module", params=ODD)
def odd(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    rows, change, settings = ODD[request.param]
    folder = tmp_path_factory.mktemp("odd")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HERMITAGE_HOME", str(folder / "home"))
        patch.delenv("DATABASE_URL", raising=False)
        table = written(folder / "people.csv", rows, change)
        config = replace(CONFIG, schema=replace(CONFIG.schema, number_of_units=rows), **settings)
        run_locally(config, folder / "out", table=table)
    return request.param, folder / "out"


def entries(path: Path) -> dict[str, dict[str, Any]]:
    return {entry["id"]: entry for entry in json.loads(path.read_text())["evidence"]}


def test_every_report_is_there_and_none_ended_in_an_incident(odd: tuple[str, Path]) -> None:
    name, folder = odd
    published, owner = entries(folder / "report.json"), entries(folder / "owner" / "report.json")
    sections = {entry.partition(".")[0] for entry in published}
    assert sections >= {"overview", "columns", "marginals", "fidelity", "accuracy", "groups"}
    kinds = {entry.partition(".")[0] for entry in owner}
    assert kinds >= {"marginals", "fidelity", "groups", "downstream", "attacks"}
    assert any(entry.startswith("scores.") for entry in owner)
    assert "incident" not in (folder / "owner" / "report.json").read_text()
    assert {entry["kind"] for entry in owner.values()} == {"owner_only"}
    if name in {"no label", "all-missing label"}:
        assert "downstream.none" in owner
    else:
        assert "downstream.synthetic.accuracy" in owner
        assert "downstream.groups.town" in owner
    assert verify(folder).ok


def figures(folder: Path) -> list[Figure]:
    both = (entries(path) for path in (folder / "report.json", folder / "owner" / "report.json"))
    return [figure_from_dict(figure) for found in both for entry in found.values() for figure in entry["figures"]]


def test_every_picture_is_small_has_words_and_a_table_beside_it(odd: tuple[str, Path]) -> None:
    pictures = [figure for figure in figures(odd[1]) if not isinstance(figure, Table)]
    assert len(pictures) >= 4
    for figure in pictures:
        shown = draw(figure)
        assert figure.title
        assert 'role="img" aria-label="' in shown
        rows = shown.partition("<details><summary>Numbers</summary>")[2].count("<tr>")
        if isinstance(figure, Bars):
            assert 0 < len(figure.categories) <= MAXIMUM_POINTS
            assert rows == len(figure.categories) + 1
        else:
            names = len(figure.names)
            assert names <= 40
            # What words say of pairs stands in a line for each pair, numbers in a square.
            assert rows == 1 + (names * (names - 1) // 2 if figure.states else names)


SEEN_BY = {
    "everybody": np.eye(3),
    "protanopia": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "deuteranopia": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
    "tritanopia": np.array(
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]
    ),
}
"""What is seen of linear red, green and blue (Machado, Oliveira and Fernandes 2009, severity 1)."""


def lightness_and_colour(colour: str, seen: np.ndarray) -> np.ndarray:
    """Return CIE L*a*b* of a colour as somebody sees it."""
    values = np.array([int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)])
    linear = np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)
    linear = np.clip(seen @ linear, 0, 1)
    to_xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    ratios = (to_xyz @ linear) / np.array([0.95047, 1.0, 1.08883])
    curved = np.where(ratios > 0.008856, np.cbrt(ratios), 7.787 * ratios + 16 / 116)
    return np.array([116 * curved[1] - 16, 500 * (curved[0] - curved[1]), 200 * (curved[1] - curved[2])])


def test_colours_of_one_picture_are_told_apart_by_everybody(odd: tuple[str, Path]) -> None:
    pairs = set()
    for figure in figures(odd[1]):
        if isinstance(figure, Bars):
            drawn, dashed = draw(figure), {"floor": "2 3", "ceiling": "8 4"}
            for series in figure.series:
                marks = dashed.get(series.meaning)
                assert (f'stroke-dasharray="{marks}"' if marks else COLOURS[series.meaning]) in drawn
            meanings = [series.meaning for series in figure.series]
            pairs |= {frozenset(pair) for pair in itertools.combinations(meanings, 2)}
    assert all(len(pair) == 2 for pair in pairs), "two series of one picture have one meaning"
    assert pairs
    # Floor and ceiling are told apart by their dashes.
    for left, right in map(sorted, pairs - {frozenset({"floor", "ceiling"})}):
        for eyes, seen in SEEN_BY.items():
            first, second = (lightness_and_colour(COLOURS[one], seen) for one in (left, right))
            assert np.linalg.norm(first - second) > 20, f"{left} and {right} look alike: {eyes}"
