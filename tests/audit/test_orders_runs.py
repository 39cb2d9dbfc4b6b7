"""How far apart columns in order lie, from the bytes of a file to the sealed bundle, and bugs planted on the way."""

from __future__ import annotations

import datetime
import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from audited_runs import WORLDS, start_home
from pairs_and_sets import LAWS, Together, first_broken, follow, small_fits
from pairs_and_sets_faults import rows_behind, told_by_rows, uncharged
from reading_here import read_here

from synth.generators.adaptive import differences, orders
from synth.generators.adaptive.differences import Differences
from synth.privacy import answers, feature_maps
from synth.privacy.costs import Bound
from synth.privacy.more.linear_guesses import LinearGuess
from synth.reading import reader
from synth.schema import CategoryColumn, DateColumn, DateStep, NumberColumn

ADDED, REPLACED, SEVERAL = "add or remove", "replace one", "add or remove several rows"
LONG, ENDS, OPEN = "a long stay", "against the order, and beyond all bounds", "a stay that is not over"


def of_stays(random: np.random.Generator, rows: int) -> list[list[str]]:
    """Stays of a few days, of which some are not over, and bills with a part that is paid."""
    came, kind = random.integers(0, 60, rows), random.integers(0, 2, rows)
    left = came + np.minimum(random.geometric(0.25 + 0.25 * kind, rows) - 1, 15)
    bill = random.integers(5, 40, rows)
    paid = bill - np.minimum(random.geometric(0.4, rows) - 1, bill)
    told = np.where(random.random(rows) < 0.1, "", left.astype(str))
    words = np.array(["short", "long"])[kind]
    return [list(one) for one in zip(*(list(map(str, own)) for own in (came, told, bill, paid, words)), strict=True)]


STAYS = Together(
    "columns in order",
    (
        NumberColumn("came", 0, 60, 1, special=(-1.0,), missing=True),
        NumberColumn("left", 0, 80, 1, missing=True),
        NumberColumn("bill", 0, 40, 1, fallback=10),
        NumberColumn("paid", 0, 40, 0.5, fallback=0),
        CategoryColumn("kind", ("short", "long"), other=True),
    ),
    (("bins", 6), ("cells", 2000)),
    of_stays,
    ("3", "4", "10", "10", "short"),
    {
        LONG: (b"2,60,33,0.5,long",),
        ENDS: (b"1e400,-1e400,3,39,unheard",),
        OPEN: (b"-1,,7,7,short",),
        "a broken line": (b'\xff,"',),
    },
    ("differences", "one-way tables"),
    ("left >= came", "paid <= bill"),
    sets=False,
)

FIRST = datetime.date(2024, 1, 1)


def of_dates(random: np.random.Generator, rows: int) -> list[list[str]]:
    """Stays between two dates of which nobody says which is later, months in which they were planned, and bills."""
    came, kind = random.integers(0, 300, rows), random.integers(0, 2, rows)
    left = came + np.minimum(random.geometric(0.25 + 0.25 * kind, rows) - 1, 15)
    planned = np.clip(came + random.integers(-20, 20, rows), 0, 330)
    bill = random.integers(5, 40, rows)
    paid = bill - np.minimum(random.geometric(0.4, rows) - 1, bill)
    days = [
        [(FIRST + datetime.timedelta(days=day)).isoformat() for day in one.tolist()] for one in (planned, came, left)
    ]
    days[2] = ["" if open else day for open, day in zip(random.random(rows) < 0.1, days[2], strict=True)]
    words = np.array(["short", "long"])[kind]
    return [list(one) for one in zip(*days, *(list(map(str, own)) for own in (bill, paid, words)), strict=True)]


DATES = Together(
    "dates that nobody put in order",
    (
        DateColumn("planned", FIRST, datetime.date(2024, 12, 31), DateStep.MONTH, missing=True),
        DateColumn("came", FIRST, datetime.date(2024, 12, 31), fallback=FIRST),
        DateColumn("left", datetime.date(2023, 12, 1), datetime.date(2025, 1, 31), missing=True),
        *STAYS.columns[2:],
    ),
    STAYS.options,
    of_dates,
    ("2024-02-01", "2024-02-03", "2024-02-04", "10", "10", "short"),
    {
        LONG: (b"2024-01-05,2024-01-07,2024-12-01,33,0.5,long",),
        ENDS: (b"2024-12-31,2031-12-31,1800-01-01,3,39,unheard",),
        OPEN: (b",,,7,7,short",),
        "a broken line": (b'\xff,"',),
    },
    ("differences of dates", "one-way tables"),
    ("paid <= bill",),
    sets=False,
)

TABLES = (STAYS, DATES)

QUICK = [(STAYS, ADDED, LONG), (STAYS, REPLACED, ENDS), (DATES, ADDED, ENDS)]
"""In short, before every world and neighbour with ``-m audit``; and which of them the default command runs."""
WHEN = [(), pytest.mark.thorough, pytest.mark.thorough]

EVERY = [
    pytest.param(
        *case, marks=WHEN[QUICK.index(case)] if case in QUICK else pytest.mark.audit, id=", ".join(map(str, case))
    )
    for case in itertools.product(TABLES, WORLDS, STAYS.brought)
]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return start_home(tmp_path_factory.mktemp("orders") / "home")


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(reader, "ask", read_here)
    with small_fits():
        yield


@pytest.mark.thorough
@pytest.mark.parametrize(("table", "world", "brought"), EVERY)
def test_a_neighbour_moves_nothing_but_exact_answers(
    table: Together, world: str, brought: str, home: Path, tmp_path: Path
) -> None:
    run = follow(table, world, brought, home, more=(table, world, brought) not in QUICK)
    for law in LAWS:
        law(run, tmp_path)


# Planted bugs

Plant = Callable[[pytest.MonkeyPatch], None]
FAULTS: dict[str, tuple[Plant, Together, tuple[str, ...], str]] = {}


def fault(name: str, *worlds: str, brought: str = LONG, table: Together = STAYS) -> Callable[[Plant], Plant]:
    def keep(plant: Plant) -> Plant:
        FAULTS[name] = plant, table, worlds, brought
        return plant

    return keep


def bounded(patch: pytest.MonkeyPatch, change: Callable[[Bound], Bound]) -> None:
    """Change the bound of questions about differences."""
    right = feature_maps.bound_of

    def bound_of(blocks: Any, *, half_bits: int) -> Bound:
        found = right(blocks, half_bits=half_bits)
        return change(found) if all(isinstance(block.map, LinearGuess) for block in blocks) else found

    for module in (feature_maps, answers):
        patch.setattr(module, "bound_of", bound_of)


@fault("two orders are bounded as one", ADDED)
def _(patch: pytest.MonkeyPatch) -> None:
    bounded(patch, lambda found: Bound(found.norm / math.sqrt(2), found.diameter / math.sqrt(2)))


@fault("a row that is replaced moves differences as one that is added", REPLACED)
def _(patch: pytest.MonkeyPatch) -> None:
    bounded(patch, lambda found: Bound(found.norm, found.norm))


def cells_changed(patch: pytest.MonkeyPatch, change: Callable[[LinearGuess, np.ndarray], np.ndarray]) -> None:
    right = LinearGuess.cells

    def cells(self: LinearGuess, column: Any, n_rows: int) -> np.ndarray:
        return change(self, right(self, column, n_rows))

    patch.setattr(LinearGuess, "cells", cells)


@fault("a row is counted where the row before it lies", ADDED)
def _(patch: pytest.MonkeyPatch) -> None:
    cells_changed(patch, lambda self, found: np.where(np.arange(len(found)) % 3 == 0, np.roll(found, 1), found))


@fault("who breaks the order is counted where most are", ADDED, brought=ENDS)
def _(patch: pytest.MonkeyPatch) -> None:
    def to_the_most(self: LinearGuess, found: np.ndarray) -> np.ndarray:
        most = np.bincount(found, minlength=self.dimension).argmax()
        return np.where(found == 1, np.uint16(most), found)

    cells_changed(patch, to_the_most)


@fault("the longest stay of the table is the last band", ADDED)
def _(patch: pytest.MonkeyPatch) -> None:
    right = Differences.ask

    def ask(self: Differences) -> None:
        rows = rows_behind(self._survey.session)
        if rows is not None:
            longest = int(max(rows._column("left").max(), 5))
            self._orders = [replace(one, reach=min(one.reach, longest + 1)) for one in self._orders]
        right(self)

    patch.setattr(Differences, "ask", ask)


@fault("the private number of rows decides the share", ADDED)
def _(patch: pytest.MonkeyPatch) -> None:
    right = Differences.share.fget
    assert right is not None

    def share(self: Differences) -> float:
        rows, found = rows_behind(self._survey.session), right(self)
        return found if rows is None else found * (1.0 + rows._rows / 10_000)

    patch.setattr(Differences, "share", property(share))


def without_noise(patch: pytest.MonkeyPatch, answers_kept: str) -> None:
    """Give exact counts to what a live session answered, by the name of the list that keeps it."""
    right = Differences.ask

    def ask(self: Differences) -> None:
        right(self)
        rows = rows_behind(self._survey.session)
        if rows is None:
            return
        exact = []
        for one in getattr(self, answers_kept):
            question = one.order.question(self._survey.columns)
            counts = np.bincount(question.cells(rows._column, rows._rows), minlength=question.dimension)
            exact.append(replace(one, counts=one.order.kept(counts.astype(np.float64))))
        setattr(self, answers_kept, exact)

    patch.setattr(Differences, "ask", ask)


@fault("differences without noise", ADDED, REPLACED)
def _(patch: pytest.MonkeyPatch) -> None:
    without_noise(patch, "counted")


@fault("the saved factors hold a row", ADDED)
def _(patch: pytest.MonkeyPatch) -> None:
    right = Differences.pairs

    def pairs(self: Differences, bins: Any, model: Any) -> Any:
        found, rows = right(self, bins, model), rows_behind(self._survey.session)
        if rows is None or not found:
            return found
        told = 1e-12 * (told_by_rows(self._survey.session) % 1000)
        return replace(found[0], factors=found[0].factors + told), *found[1:]

    patch.setattr(Differences, "pairs", pairs)


@fault("values are drawn with a seed of its own kind", ADDED)
def _(patch: pytest.MonkeyPatch) -> None:
    right = orders.place_in_order

    def place(pairs: Any, bins: Any, codes: Any, random: Any) -> None:
        right(pairs, bins, codes, np.random.default_rng())

    patch.setattr("synth.generators.adaptive.dp_hp_adaptive.place_in_order", place)


@fault("differences are not charged", ADDED)
def _(patch: pytest.MonkeyPatch) -> None:
    uncharged(patch, "differences")


@fault("which order is asked first follows from rows", ADDED)
def _(patch: pytest.MonkeyPatch) -> None:
    right = Differences.ask

    def ask(self: Differences) -> None:
        rows = rows_behind(self._survey.session)
        if rows is not None and rows._rows % 2:
            self._orders = self._orders[::-1]
        right(self)

    patch.setattr(Differences, "ask", ask)


# Of dates that nobody put in order


@fault("differences of dates are bounded as one", ADDED, table=DATES)
def _(patch: pytest.MonkeyPatch) -> None:
    bounded(patch, lambda found: Bound(found.norm / math.sqrt(3), found.diameter / math.sqrt(3)))


@fault("a date that is replaced moves differences as one that is added", REPLACED, brought=ENDS, table=DATES)
def _(patch: pytest.MonkeyPatch) -> None:
    bounded(patch, lambda found: Bound(found.norm, found.norm))


@fault("a row is counted on both sides of nothing in turn", ADDED, table=DATES)
def _(patch: pytest.MonkeyPatch) -> None:
    def turned(self: LinearGuess, found: np.ndarray) -> np.ndarray:
        half = self.dimension // 2
        return np.where(np.arange(len(found)) % 2 == len(found) % 2, (found + half) % self.dimension, found)

    cells_changed(patch, turned)


@fault("who is farthest apart in the table decides the bands", ADDED, table=DATES)
def _(patch: pytest.MonkeyPatch) -> None:
    right = Differences.ask

    def ask(self: Differences) -> None:
        rows = rows_behind(self._survey.session)
        if rows is not None:
            longest = int(np.abs(rows._column("left").astype(int) - rows._column("came").astype(int)).max())
            self._orders = [replace(one, reach=min(one.reach, longest)) if one.both else one for one in self._orders]
        right(self)

    patch.setattr(Differences, "ask", ask)


@fault("whether dates can be told follows from the rows", ADDED, table=DATES)
def _(patch: pytest.MonkeyPatch) -> None:
    right = Differences._can_tell

    def can_tell(self: Differences, order: Any) -> bool:
        rows = rows_behind(self._survey.session)
        return right(self, order) and (rows is None or rows._rows % 2 == 0)

    patch.setattr(Differences, "_can_tell", can_tell)


@fault("differences of dates without noise", ADDED, REPLACED, table=DATES)
def _(patch: pytest.MonkeyPatch) -> None:
    without_noise(patch, "_open")


def settled(patch: pytest.MonkeyPatch, change: Callable[[Differences, Any], None]) -> None:
    """Change what is made of answers about dates, where there are rows."""
    right = Differences._settle

    def settle(self: Differences, bins: Any) -> None:
        rows = rows_behind(self._survey.session)
        if rows is not None and self._open:
            change(self, rows)
        right(self, bins)

    patch.setattr(Differences, "_settle", settle)


@fault("which dates go together follows from the rows", ADDED, table=DATES)
def _(patch: pytest.MonkeyPatch) -> None:
    def drop(self: Differences, rows: Any) -> None:
        self._open = self._open[rows._rows % 2 :]

    settled(patch, drop)


@fault("which dates are drawn first follows from the rows", ADDED, table=DATES)
def _(patch: pytest.MonkeyPatch) -> None:
    def turn(self: Differences, rows: Any) -> None:
        if rows._rows % 2:
            self._open = [one.turned() for one in self._open]

    settled(patch, turn)


@fault("a side that nobody is on in truth is empty", ADDED, REPLACED, brought=ENDS, table=DATES)
def _(patch: pytest.MonkeyPatch) -> None:
    right = differences._in_order
    below: list[int] = []

    def count(self: Differences, rows: Any) -> None:
        came, left = (rows._column(name).astype(int) for name in ("came", "left"))
        below[:] = [int((left - 31 < came).sum())]

    def in_order(counted: Any) -> Any:
        found = right(counted)
        told, below[:] = list(below), []
        return found if not told else replace(found, counts=found.counts * (1.0 + 1e-9 * told[0]))

    settled(patch, count)
    patch.setattr(differences, "_in_order", in_order)


@pytest.mark.audit
@pytest.mark.parametrize("planted", FAULTS)
def test_a_planted_bug_from_bytes_to_bundle_is_noticed(
    planted: str,
    home: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    record_property: Callable[..., None],
) -> None:
    plant, table, worlds, brought = FAULTS[planted]
    plant(monkeypatch)
    noticed = first_broken([(table, world, brought) for world in worlds], home, tmp_path)
    record_property("law", noticed)
    assert noticed is not None, f"nobody notices: {planted}"
