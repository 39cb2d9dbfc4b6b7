"""How round numbers are, from the bytes of a file to the sealed bundle, and bugs planted on the way."""

from __future__ import annotations

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

from synth.generators.adaptive import dp_hp_adaptive
from synth.generators.adaptive.bins import ColumnBins
from synth.privacy import answers, feature_maps
from synth.privacy.costs import Bound
from synth.reading import reader
from synth.schema import CategoryColumn, NumberColumn

ADDED, REPLACED, SEVERAL = "add or remove", "replace one", "add or remove several rows"
ROUND, ENDS, CODES = "a round value among odd ones", "far beyond all bounds", "a special value and none"

INCOME = NumberColumn("income", 0, 100_000, 1, special=(-1.0,), missing=True)


def of_incomes(random: np.random.Generator, rows: int) -> list[list[str]]:
    """Incomes of which most are whole thousands, and pressures that end in 0."""
    income = np.exp(10.0 + 0.5 * random.normal(size=rows))
    income = np.where(random.random(rows) < 0.6, np.rint(income / 1000) * 1000, income)
    pressure = np.rint(random.normal(13, 2, rows)) * 10
    kind = np.where(income + random.normal(0, 8000, rows) > 24_000, "high", "low")
    numbers = np.clip(income, 0, 100_000).astype(int), np.clip(pressure, 60, 260).astype(int)
    return [list(map(str, one)) for one in zip(*numbers, kind, strict=True)]


INCOMES = Together(
    "numbers with heaps",
    (INCOME, NumberColumn("pressure", 60, 260, 1, fallback=120), CategoryColumn("kind", ("low", "high"), other=True)),
    (("bins", 6), ("cells", 1000)),
    of_incomes,
    ("20000", "120", "low"),
    {
        ROUND: (b"50000,133,high",),
        ENDS: (b"1e400,-1e400,unheard",),
        CODES: (b"-1,,low",),
        "a broken line": (b'\xff,"',),
    },
    ("round values", "one-way tables"),
)

QUICK = [(ADDED, ROUND), (REPLACED, ROUND)]
"""In short, before every world and neighbour with ``-m audit``; and which the default command runs."""
WHEN: list[list[pytest.MarkDecorator]] = [[], [pytest.mark.thorough]]

EVERY = [
    pytest.param(*case, marks=WHEN[QUICK.index(case)] if case in QUICK else [pytest.mark.audit], id=", ".join(case))
    for case in itertools.product(WORLDS, INCOMES.brought)
]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return start_home(tmp_path_factory.mktemp("round values") / "home")


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(reader, "ask", read_here)
    with small_fits():
        yield


@pytest.mark.parametrize(("world", "brought"), EVERY)
def test_a_neighbour_moves_nothing_but_exact_answers(world: str, brought: str, home: Path, tmp_path: Path) -> None:
    run = follow(INCOMES, world, brought, home, more=(world, brought) not in QUICK)
    for law in LAWS:
        law(run, tmp_path)


# Planted bugs

Plant = Callable[[pytest.MonkeyPatch], None]
FAULTS: dict[str, tuple[Plant, tuple[str, ...]]] = {}


def fault(name: str, *worlds: str) -> Callable[[Plant], Plant]:
    def keep(plant: Plant) -> Plant:
        FAULTS[name] = plant, worlds
        return plant

    return keep


def classes_changed(patch: pytest.MonkeyPatch, change: Callable[[Any, np.ndarray], np.ndarray]) -> None:
    """Change the rows of one column before its classes are counted; counts by place are left alone."""
    right = feature_maps.joint_counts

    def joint_counts(rows: Any, axes: Any) -> np.ndarray:
        counts = right(rows, axes)
        (axis, *others) = axes
        if others or axis.column != "income" or axis.bins is None or axis.bins[1] == axis.bins[2]:
            return counts
        return change(rows, counts)

    patch.setattr(feature_maps, "joint_counts", joint_counts)


@fault("two columns are bounded as one", ADDED)
def _(patch: pytest.MonkeyPatch) -> None:
    right = feature_maps.bound_of

    def bound_of(blocks: Any, *, half_bits: int) -> Bound:
        found = right(blocks, half_bits=half_bits)
        return Bound(found.norm / math.sqrt(2), found.diameter / math.sqrt(2)) if len(blocks) == 2 else found

    for module in (feature_maps, answers):
        patch.setattr(module, "bound_of", bound_of)


@fault("a row that is replaced moves classes as one that is added", REPLACED)
def _(patch: pytest.MonkeyPatch) -> None:
    right = feature_maps.bound_of

    def bound_of(blocks: Any, *, half_bits: int) -> Bound:
        found = right(blocks, half_bits=half_bits)
        return Bound(found.norm, found.norm) if len(blocks) == 2 else found

    for module in (feature_maps, answers):
        patch.setattr(module, "bound_of", bound_of)


@fault("a round value weighs as much as its zeros", ADDED, REPLACED)
def _(patch: pytest.MonkeyPatch) -> None:
    classes_changed(
        patch, lambda rows, counts: counts * np.maximum(np.arange(counts.size) % 7, 1).reshape(counts.shape)
    )


@fault("classes are counted of the rows that came before", ADDED)
def _(patch: pytest.MonkeyPatch) -> None:
    def of_others(rows: Any, counts: np.ndarray) -> np.ndarray:
        codes = np.asarray(rows.column("income"), dtype=np.int64)
        # Every row counts once more where the row before it has the same last digit.
        again = int((codes[1:] % 10 == codes[:-1] % 10).sum())
        return counts + (np.arange(counts.size) == 1).reshape(counts.shape) * again

    classes_changed(patch, of_others)


@fault("rows decide the classes", ADDED)
def _(patch: pytest.MonkeyPatch) -> None:
    right = dp_hp_adaptive.measure_round_values

    def measure(session: Any, columns: Any, **asked: Any) -> Any:
        return right(session, columns[::-1] if told_by_rows(session) % 2 else columns, **asked)

    patch.setattr(dp_hp_adaptive, "measure_round_values", measure)


@fault("the private number of rows decides the share", ADDED)
def _(patch: pytest.MonkeyPatch) -> None:
    right = dp_hp_adaptive.plan_round_values

    def plan(session: Any, columns: Any) -> Any:
        rows, found = rows_behind(session), right(session, columns)
        return found if rows is None else replace(found, share=found.share * (1.0 + rows._rows / 1000))

    patch.setattr(dp_hp_adaptive, "plan_round_values", plan)


@fault("classes without noise", ADDED, REPLACED)
def _(patch: pytest.MonkeyPatch) -> None:
    right = dp_hp_adaptive.measure_round_values

    def measure(session: Any, columns: Any, **asked: Any) -> Any:
        found, rows = right(session, columns, **asked), rows_behind(session)
        if rows is None:
            return found
        exact = {}
        for name, one in found.items():
            codes = rows._column(name)
            classes = one.classes[codes[codes < len(one.classes)]]
            counts = np.bincount(classes, minlength=len(one.counts)).astype(np.float64)
            exact[name] = replace(one, counts=counts)
        return exact

    patch.setattr(dp_hp_adaptive, "measure_round_values", measure)


@fault("the saved bins hold a row", ADDED)
def _(patch: pytest.MonkeyPatch) -> None:
    right = dp_hp_adaptive._Fit.bins_as_written

    def bins_as_written(self: Any, model: Any) -> tuple[ColumnBins, ...]:
        bins, rows = right(self, model), rows_behind(self._session)
        if rows is None:
            return bins
        first = bins[0].proportions + 1e-9 * (told_by_rows(self._session) % 1000)
        return replace(bins[0], proportions=first), *bins[1:]

    patch.setattr(dp_hp_adaptive._Fit, "bins_as_written", bins_as_written)


@fault("round values are not charged", ADDED)
def _(patch: pytest.MonkeyPatch) -> None:
    uncharged(patch, "round values")


@pytest.mark.audit
@pytest.mark.parametrize("planted", FAULTS)
def test_a_planted_bug_from_bytes_to_bundle_is_noticed(
    planted: str,
    home: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    record_property: Callable[..., None],
) -> None:
    plant, worlds = FAULTS[planted]
    plant(monkeypatch)
    noticed = first_broken([(INCOMES, world, ROUND) for world in worlds], home, tmp_path)
    record_property("law", noticed)
    assert noticed is not None, f"nobody notices: {planted}"
