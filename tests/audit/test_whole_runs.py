"""Layer T5: from the bytes of a file to the sealed bundle, in two neighbouring worlds with the same answers."""

from __future__ import annotations

import dataclasses
import itertools
from pathlib import Path
from typing import Any

import pytest
from askers import QUICK
from audited_runs import (
    CELL,
    CELLS,
    NASTY,
    ODD_TABLES,
    WORLDS,
    World,
    as_parquet,
    cell_neighbours,
    neighbours,
    start_home,
    t5_whole_runs,
)
from choosing import few

from synth.generators import GENERATORS

KAHM_ROWS, KAHM_CELL = "kahm, rows", "kahm, cell"
PAID_PREDICTIONS, CHOICES = "independent, predictions paid for", "dp-hp-adaptive, with choices"
PARENTS, PURE_PARENTS = "privbayes, with parents", "privbayes, with parents and a delta of 0"

FEW = {
    "replace one": ("far beyond all bounds", "a blank line beside somebody"),
    "add or remove": ("a line that cannot be read", "the last line, without its end"),
    "replace one of several rows": ("a row without an id", "a ragged line"),
    "add or remove several rows": ("more rows than may be kept", "a blank line beside somebody"),
}
"""What somebody new brings in the default run; everything in every world with ``-m audit``."""


def changes_of(name: str) -> tuple[str, dict[str, Any]]:
    """Return a generator and what its configuration says beside the usual."""
    generator = name.partition(",")[0]
    known = {field.name for field in dataclasses.fields(GENERATORS[generator].options)}
    options: dict[str, Any] = {option: value for option, value in QUICK.items() if option in known}
    if name in (KAHM_ROWS, KAHM_CELL):
        return generator, {"options": options | {"mode": name.rpartition(" ")[2], "n": 3, "block": 15}, "rows": 20}
    if name == PAID_PREDICTIONS:
        return generator, {"options": options, "prediction_share": 0.2, "evaluation_share": 0.1}
    if name == CHOICES:
        return generator, {"options": options | {"model": "mixture", "bins": 3}, "epsilon": 60.0}
    if name in (PARENTS, PURE_PARENTS):
        pure = {"delta": 0.0} if name == PURE_PARENTS else {}
        return generator, {"options": options | {"bins": 3, "usefulness": 0.1}, "epsilon": 60.0, **pure}
    return generator, {"options": options}


def asks_in(name: str, world: str) -> bool:
    """Whether a generator asks anything in a world: those that draw samples do not where one is replaced."""
    return WORLDS[world].row_count == "private" or not GENERATORS[name.partition(",")[0]].needs.sampling


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return start_home(tmp_path_factory.mktemp("whole runs") / "home")


def all_nasty(world: World, names: tuple[str, ...]) -> tuple[int, bytes, dict[str, bytes]]:
    found = {name: neighbours(world, name) for name in names}
    units, first, _ = found[names[0]]
    assert all(one[:2] == (units, first) for one in found.values())
    return units, first, {name: second for name, (_, _, second) in found.items()}


@pytest.mark.usefixtures("without_trial")
@pytest.mark.parametrize("world", few(WORLDS, kept=("add or remove several rows",)))
def test_a_nasty_neighbour_changes_no_public_byte(world: str, home: Path) -> None:
    units, first, others = all_nasty(WORLDS[world], FEW[world])
    t5_whole_runs(WORLDS[world].config(units, "independent"), first, others, home)


@pytest.mark.usefixtures("without_trial")
@pytest.mark.parametrize(
    "name",
    [
        # But for the one that the test before this one runs.
        *few((name for name in [*GENERATORS, KAHM_ROWS] if name != "independent"), kept=("dp-hp-adaptive", KAHM_ROWS)),
        pytest.param(CHOICES, marks=pytest.mark.audit),
        pytest.param(PARENTS, marks=pytest.mark.thorough),
        pytest.param(PURE_PARENTS, marks=pytest.mark.thorough),
    ],
)
def test_every_generator_makes_the_same_of_the_same_answers(name: str, home: Path) -> None:
    world = WORLDS["replace one" if asks_in(name, "replace one") else "add or remove"]
    units, first, others = all_nasty(world, ("far beyond all bounds",))
    generator, changes = changes_of(name)
    _, dictation = t5_whole_runs(world.config(units, generator, **changes), first, others, home)
    assert ("choice" in dictation.asked) == (name in (CHOICES, PARENTS, PURE_PARENTS))
    assert ("laplace sum" in dictation.asked) == (name == PURE_PARENTS)
    assert ("rows" in dictation.asked) == (name == KAHM_ROWS)
    assert ("sample" in dictation.asked) == GENERATORS[generator].needs.sampling


@pytest.mark.usefixtures("without_trial")
@pytest.mark.parametrize("cell", ["far beyond all bounds", pytest.param("all", marks=pytest.mark.audit)])
def test_one_cell_changes_no_public_byte(cell: str, home: Path) -> None:
    generator, changes = changes_of(KAHM_CELL)
    found = {name: cell_neighbours(name) for name in (CELLS if cell == "all" else (cell,))}
    others = {name: second for name, (_, _, second) in found.items()}
    units, first, _ = next(iter(found.values()))
    t5_whole_runs(CELL.config(units, generator, **changes), first, others, home, owner_report=cell == "all")


@pytest.mark.thorough
def test_the_owners_report_shows_on_no_screen_that_is_not_the_owners(home: Path) -> None:
    """Whether anybody is held out, and whether there is a class to predict, depends on single rows."""
    world = WORLDS["add or remove"]
    units, first, second = neighbours(world, "hardly anybody")
    config = world.config(units, "independent")
    t5_whole_runs(config, first, {"hardly anybody": second}, home, owner_report=True)


@pytest.mark.audit
@pytest.mark.parametrize(
    ("name", "world"),
    [one for one in itertools.product([*GENERATORS, PAID_PREDICTIONS, CHOICES, PURE_PARENTS], WORLDS) if asks_in(*one)],
)
def test_no_neighbour_changes_a_public_byte(name: str, world: str, home: Path) -> None:
    generator, changes = changes_of(name)
    units, first, others = all_nasty(WORLDS[world], tuple(NASTY))
    t5_whole_runs(WORLDS[world].config(units, generator, **changes), first, others, home)


@pytest.mark.audit
@pytest.mark.parametrize("epsilon", [0.1, 8.0])
@pytest.mark.parametrize(
    ("name", "world"),
    [
        one
        for one in itertools.product(["independent", "privbayes", "dp-gan", "dp-cgan", "gs-wgan"], WORLDS)
        if asks_in(*one)
    ],
)
def test_no_neighbour_changes_a_public_byte_at_other_budgets(name: str, world: str, epsilon: float, home: Path) -> None:
    generator, changes = changes_of(name)
    units, first, others = all_nasty(WORLDS[world], FEW[world])
    t5_whole_runs(WORLDS[world].config(units, generator, epsilon=epsilon, **changes), first, others, home)


@pytest.mark.audit
@pytest.mark.parametrize("world", WORLDS)
def test_no_row_of_a_parquet_file_changes_a_public_byte(world: str, home: Path) -> None:
    units, first, second = neighbours(WORLDS[world], "far beyond all bounds")
    config = WORLDS[world].config(units, "independent")
    t5_whole_runs(config, as_parquet(first), {"Parquet": as_parquet(second)}, home)


@pytest.mark.audit
@pytest.mark.parametrize("table", ODD_TABLES)
@pytest.mark.parametrize(
    ("name", "world"), [one for one in itertools.product([*GENERATORS, PAID_PREDICTIONS], WORLDS) if asks_in(*one)]
)
def test_no_neighbour_of_an_odd_table_changes_a_public_byte(name: str, world: str, table: str, home: Path) -> None:
    generator, changes = changes_of(name)
    units, first, second = neighbours(WORLDS[world], table)
    t5_whole_runs(WORLDS[world].config(units, generator, **changes), first, {table: second}, home)


@pytest.mark.audit
@pytest.mark.parametrize("table", [*NASTY, *ODD_TABLES])
@pytest.mark.parametrize("world", WORLDS)
def test_no_neighbour_shows_through_the_owners_report(world: str, table: str, home: Path) -> None:
    units, first, second = neighbours(WORLDS[world], table)
    config = WORLDS[world].config(units, "independent")
    t5_whole_runs(config, first, {table: second}, home, owner_report=True, verify=True)


@pytest.mark.audit
@pytest.mark.parametrize("table", [*NASTY, *ODD_TABLES])
def test_no_neighbour_shows_in_noisy_rows(table: str, home: Path) -> None:
    generator, changes = changes_of(KAHM_ROWS)
    units, first, second = neighbours(WORLDS["replace one"], table)
    config = WORLDS["replace one"].config(units, generator, **changes)
    t5_whole_runs(config, first, {table: second}, home, owner_report=True)
