"""Sums of skewed numbers, from the bytes of a file to the sealed bundle, and bugs planted on the way."""

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
from pairs_and_sets_faults import rows_behind, told_by_rows
from reading_here import read_here

from synth.generators.adaptive import dp_hp_adaptive, sums
from synth.generators.adaptive.bins import ColumnBins
from synth.privacy import answers, feature_maps
from synth.privacy.costs import Bound
from synth.privacy.more.lookups import Lookup
from synth.privacy.session import PrivateSession
from synth.reading import reader
from synth.schema import CategoryColumn, NumberColumn

ADDED, REPLACED, SEVERAL = "add or remove", "replace one", "add or remove several rows"
FAR, ENDS, CODES = "a cost far beyond the others", "beyond all bounds", "a special value and none"


def of_costs(random: np.random.Generator, rows: int) -> list[list[str]]:
    """Costs that are often zero and sometimes large, and gains of both signs."""
    cost = np.where(random.random(rows) < 0.5, 0.0, np.rint(np.exp(6.0 + random.normal(size=rows))))
    gain = np.rint(50.0 * random.standard_t(3, rows))
    kind = np.where(cost + random.normal(0, 200, rows) > 300, "high", "low")
    numbers = np.clip(cost, 0, 100_000).astype(int), np.clip(gain, -5000, 5000).astype(int)
    return [list(map(str, one)) for one in zip(*numbers, kind, strict=True)]


COSTS = Together(
    "skewed numbers",
    (
        NumberColumn("cost", 0, 100_000, 1, special=(-1.0,), missing=True),
        NumberColumn("gain", -5000, 5000, 1, fallback=0),
        CategoryColumn("kind", ("low", "high"), other=True),
    ),
    (("bins", 6), ("cells", 1000)),
    of_costs,
    ("0", "0", "low"),
    {
        FAR: (b"99000,-4900,high",),
        ENDS: (b"1e400,-1e400,unheard",),
        CODES: (b"-1,,low",),
        "a broken line": (b'\xff,"',),
    },
    ("one-way tables", sums.QUERY),
)

QUICK = [(ADDED, FAR), (REPLACED, FAR)]
"""In short, before every world and neighbour with ``-m audit``."""

EVERY = [
    pytest.param(*case, marks=pytest.mark.thorough if case in QUICK else pytest.mark.audit, id=", ".join(case))
    for case in itertools.product(WORLDS, COSTS.brought)
]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return start_home(tmp_path_factory.mktemp("sums") / "home")


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(reader, "ask", read_here)
    with small_fits():
        yield


@pytest.mark.parametrize(("world", "brought"), EVERY)
def test_a_neighbour_moves_nothing_but_exact_answers(world: str, brought: str, home: Path, tmp_path: Path) -> None:
    run = follow(COSTS, world, brought, home, more=(world, brought) not in QUICK)
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


def is_sum(blocks: Any) -> bool:
    return all(isinstance(block.map, Lookup) and block.map.dimension == 1 for block in blocks)


def bounds_changed(patch: pytest.MonkeyPatch, change: Callable[[Bound], Bound]) -> None:
    right = feature_maps.bound_of

    def bound_of(blocks: Any, *, half_bits: int) -> Bound:
        found = right(blocks, half_bits=half_bits)
        return change(found) if is_sum(blocks) else found

    for module in (feature_maps, answers):
        patch.setattr(module, "bound_of", bound_of)


@fault("a sum moves half as far as it does", ADDED, REPLACED)
def _(patch: pytest.MonkeyPatch) -> None:
    bounds_changed(patch, lambda found: Bound(found.norm / 2, found.diameter / 2))


@fault("a row that is replaced moves sums as one that is added", REPLACED)
def _(patch: pytest.MonkeyPatch) -> None:
    bounds_changed(patch, lambda found: Bound(found.norm, found.norm))


@fault("several sums are bounded as one", ADDED)
def _(patch: pytest.MonkeyPatch) -> None:
    bounds_changed(patch, lambda found: Bound(found.norm / math.sqrt(2), found.diameter / math.sqrt(2)))


def rows_added_differently(
    patch: pytest.MonkeyPatch, step: Callable[[Any, np.ndarray, np.ndarray], np.ndarray]
) -> None:
    """Add up something else than the steps of the public table; the question stays as it was."""
    right = Lookup.sums_by_cell

    def sums_by_cell(self: Any, weight: float, rows: Any, cells: Any, *, half_bits: int, device: str) -> np.ndarray:
        if self.dimension != 1 or self.column != "cost" or cells:
            return right(self, weight, rows, cells, half_bits=half_bits, device=device)
        codes = np.asarray(rows.column(self.column), dtype=np.int64)
        steps = step(self, codes, self.table[self.bins[codes], 0])
        return np.array([[int(np.trunc(steps * weight * 2.0 ** (2 * half_bits)).astype(np.int64).sum())]])

    patch.setattr(Lookup, "sums_by_cell", sums_by_cell)


@fault("values are not clipped when they are added up", ADDED, REPLACED)
def _(patch: pytest.MonkeyPatch) -> None:
    def unclipped(question: Any, codes: np.ndarray, steps: np.ndarray) -> np.ndarray:
        table, size = question.table[:, 0], question.bins.size
        places = np.flatnonzero(table < table.max())
        slope = (table[places[-1]] - table[places[0]]) / max(int(question.bins.edges[places[-1]]), 1)
        return np.where(steps >= table.max(), steps + slope * (codes % size) * (codes < 100_001), steps)

    rows_added_differently(patch, unclipped)


@fault("values are clipped at the largest one among the rows", ADDED)
def _(patch: pytest.MonkeyPatch) -> None:
    def of_rows(question: Any, codes: np.ndarray, steps: np.ndarray) -> np.ndarray:
        return steps * (codes.max() / 100_000)

    rows_added_differently(patch, of_rows)


@fault("what a row adds is relative to the mean of all rows", ADDED)
def _(patch: pytest.MonkeyPatch) -> None:
    rows_added_differently(patch, lambda question, codes, steps: steps - steps.mean())


@fault("rows decide where values are clipped", ADDED)
def _(patch: pytest.MonkeyPatch) -> None:
    right = sums._clipped

    def measure(session: Any, one_ways: Any, source: str) -> Any:
        moved = told_by_rows(session) % 7
        with pytest.MonkeyPatch.context() as inside:
            inside.setattr(
                sums, "_clipped", lambda *arguments: replace(found := right(*arguments), high=found.high + moved)
            )
            return right_measure(session, one_ways, source)

    right_measure = dp_hp_adaptive.measure_sums
    patch.setattr(dp_hp_adaptive, "measure_sums", measure)


@fault("the private number of rows decides the share of sums", ADDED)
def _(patch: pytest.MonkeyPatch) -> None:
    right = dp_hp_adaptive.share_for_sums

    def share(session: Any, columns: Any) -> float:
        rows, found = rows_behind(session), right(session, columns)
        return found if rows is None else found * (1.0 - rows._rows / 10_000)

    patch.setattr(dp_hp_adaptive, "share_for_sums", share)


@fault("sums without noise", ADDED, REPLACED)
def _(patch: pytest.MonkeyPatch) -> None:
    right = dp_hp_adaptive.measure_sums

    def measure(session: Any, one_ways: Any, source: str) -> Any:
        found, rows = right(session, one_ways, source), rows_behind(session)
        if rows is None:
            return found
        codes = np.asarray(rows._column("cost"), dtype=np.float64)
        one = found["cost"]
        inside = np.clip(codes[codes <= 100_000], one.low, one.high)
        exact = float(((inside - one.origin) / one.scale).sum())
        return found | {"cost": replace(one, value=exact)}

    patch.setattr(dp_hp_adaptive, "measure_sums", measure)


@fault("bins that agree with a sum hold a row", ADDED)
def _(patch: pytest.MonkeyPatch) -> None:
    right = dp_hp_adaptive._Fit.bins_as_written

    def bins_as_written(self: Any, model: Any) -> tuple[ColumnBins, ...]:
        bins, rows = right(self, model), rows_behind(self._session)
        if rows is None:
            return bins
        first = bins[0].proportions + 1e-9 * (told_by_rows(self._session) % 1000)
        return replace(bins[0], proportions=first), *bins[1:]

    patch.setattr(dp_hp_adaptive._Fit, "bins_as_written", bins_as_written)


@fault("the share of sums is not taken from what the others get", ADDED)
def _(patch: pytest.MonkeyPatch) -> None:
    right = PrivateSession.sub_session

    def sub_session(self: PrivateSession, share: float) -> PrivateSession:
        before = self._spent_units
        view = right(self, share)
        self._spent_units = before
        return view

    patch.setattr(PrivateSession, "sub_session", sub_session)


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
    noticed = first_broken([(COSTS, world, FAR) for world in worlds], home, tmp_path)
    record_property("law", noticed)
    assert noticed is not None, f"nobody notices: {planted}"
