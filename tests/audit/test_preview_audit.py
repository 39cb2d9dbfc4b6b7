"""From the bytes of a file over a preview's charge to its noisy histograms, in two neighbouring worlds."""

from __future__ import annotations

import io
import math
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from choosing import few
from recorded_noise import RecordedNoise

from synth.application import Application
from synth.jobs.processes import birth_of
from synth.ledger.ledger import Ledger
from synth.ledger.spending import Cost
from synth.privacy import session
from synth.privacy.answers import NoisySum
from synth.privacy.bins import Bins
from synth.privacy.costs import Bound, between_neighbours
from synth.privacy.feature_maps import OneHot, Stack
from synth.privacy.table import PrivateTable
from synth.progress import NullProgress
from synth.schema import Neighbours, RunConfig, Schema, parse_config
from synth.services import previewing
from synth.services.previewing import Preview
from synth.store import Charge, ChargeState
from synth.system.machine import this_host
from synth.system.settings import Settings

EPSILON, UNITS = 0.5, 200


@dataclass(frozen=True)
class World:
    """What a preview promises: a relation, and how many rows a unit has."""

    row_count: str
    rows_per_unit: int

    @property
    def config(self) -> RunConfig:
        public = self.row_count == "public"
        return parse_config(
            {
                "account": "village",
                "unit": {"protects": "person", "rows_per_unit": self.rows_per_unit, "id_column": "who"},
                "row_count": self.row_count,
                "people_at_most": 5000,
                "budget": {"epsilon": 4.0, "delta": 1e-5},
                "generator": {"name": "independent"},
                "rows": 100,
                "columns": {
                    "who": {"type": "identifier"},
                    "age": {"type": "number", "low": 0, "high": 999, "step": 1, "missing": True},
                    "town": {"type": "category", "values": ["A", "B", "C"], "other": True},
                    "note": {"type": "drop"},
                },
            }
            | ({"number_of_units": UNITS} if public else {})
        )

    def table(self, *, neighbour: bool) -> bytes:
        """The rows of all units; in the neighbour one unit is gone, or all its rows are other ones."""
        lines = ["who,age,town,note"]
        for unit in range(UNITS):
            changed = neighbour and unit == 7
            if changed and self.row_count == "private":
                continue
            cells = "999,C" if changed else f"{unit * 3},{'AB'[unit % 2]}"
            lines += [f"u{unit},{cells},secret {unit}"] * self.rows_per_unit
        return "\n".join([*lines, ""]).encode()


WORLDS = {
    f"{row_count}, {rows} a unit": World(row_count, rows) for row_count in ("private", "public") for rows in (1, 3)
}


class Known(RecordedNoise):
    """Known noise that a receipt calls private, so that a preview can be made with it; it keeps what it drew."""

    private: ClassVar[bool] = True

    def __init__(self) -> None:
        super().__init__(1)
        self.drawn: list[np.ndarray] = []

    def gaussian(self, variance: int, size: int) -> np.ndarray:
        self.drawn.append(super().gaussian(variance, size))
        return self.drawn[-1]


@dataclass(frozen=True)
class Made:
    """All that one preview did."""

    preview: Preview
    drawn: np.ndarray
    variance: int
    charges: list[Charge]
    when_read: list[ChargeState]

    @property
    def steps(self) -> np.ndarray:
        """The exact sums, in grid steps."""
        return np.rint(self.preview.answer.value / self.preview.answer.receipt.grid).astype(np.int64) - self.drawn


def made(world: World, home: Path, patch: pytest.MonkeyPatch, *, neighbour: bool) -> Made:
    sources: list[Known] = []
    when_read: list[ChargeState] = []

    def known() -> Known:
        sources.append(Known())
        return sources[-1]

    with Application(Settings(home=home, database_url=f"sqlite:///{home / 'hermitage.sqlite'}")) as opened:
        table = opened.intake.receive(io.BytesIO(world.table(neighbour=neighbour)), account="village", name="v.csv")
        work_id = opened.previews.reserve(world.config, ["age", "town"], table_id=table.table_id, epsilon=EPSILON)
        pid = os.getpid()
        opened.store.work.claim(work_id, host=this_host(), pid=pid, pid_created=birth_of(pid))
        right = PrivateTable.open

        def noted(*given: Any, **named: Any) -> Any:
            when_read.extend(charge.state for charge in opened.ledger.charges_of(work_id))
            return right(*given, **named)

        with patch.context() as watched:
            watched.setattr(session, "SystemNoise", known)
            watched.setattr(PrivateTable, "open", noted)
            preview = previewing.carry_out(opened.installation, work_id, NullProgress())
        account = opened.store.accounts.named("village")
        assert account is not None
        charges = list(opened.ledger.current(account.id))
    drawn = [noise for source in sources for noise in source.drawn]
    variances = [call.parameter for source in sources for call in source.calls]
    assert len(drawn) == len(variances) == 1, "one question is asked, once"
    assert isinstance(variances[0], int)
    return Made(preview, drawn[0], variances[0], charges, when_read)


def by_hand(world: World, *, neighbour: bool) -> np.ndarray:
    """The counts that the file gives, in the order of the answer: fifty bins of ages, missing, then towns and other."""
    ages, towns = np.zeros(51), np.zeros(4)
    for line in world.table(neighbour=neighbour).decode().splitlines()[1:]:
        _, age, town, _ = line.split(",")
        ages[int(age) // 20] += 1
        towns["ABC".index(town)] += 1
    return np.concatenate([ages, towns]) / math.sqrt(2)


def problems(world: World, homes: Iterator[Path], patch: pytest.MonkeyPatch) -> Iterator[str]:
    """Yield what breaks the promise of a preview, in the words of the promise."""
    pair = [made(world, next(homes), patch, neighbour=neighbour) for neighbour in (False, True)]
    first, second = pair
    receipt = first.preview.answer.receipt
    if NoisySum(first.preview.answer.feature_map).digest() != NoisySum(second.preview.answer.feature_map).digest():
        yield "the question follows from rows"
        return
    if receipt != second.preview.answer.receipt:
        yield "the receipt follows from rows"
    moved = float(np.linalg.norm((first.steps - second.steps).astype(np.float64))) * receipt.grid
    if moved > receipt.sensitivity * (1 + 1e-9):
        yield "one unit moves the sums by more than the receipt states"
    for one, neighbour in zip(pair, (False, True), strict=True):
        if not np.allclose(one.steps * receipt.grid, by_hand(world, neighbour=neighbour), atol=1e-3):
            yield "the answer is not the counts and the noise that was drawn"
        spread = math.sqrt(one.variance) * receipt.grid
        if not math.isclose(spread, receipt.noise_scale, rel_tol=1e-6):
            yield "the noise is not that of the receipt"
        mu = receipt.sensitivity / receipt.noise_scale
        if mu**2 > receipt.mu_squared_units * 2.0**-40 * (1 + 1e-9):
            yield "the receipt costs less than its noise"
        if [(charge.epsilon, charge.state) for charge in one.charges] != [(EPSILON, ChargeState.RELEASED)]:
            yield "it is not charged once"
        charged = Cost.of_charges(one.charges)
        if (
            charged.mu_squared_units < receipt.mu_squared_units
            or not charged.epsilon(one.preview.delta) >= 0.99 * EPSILON
        ):
            yield "less is charged than was spent"
        if one.when_read != [ChargeState.SPENT]:
            yield "rows are read before the charge is final"


@pytest.fixture
def homes(tmp_path: Path) -> Iterator[Path]:
    return (tmp_path / f"home {number}" for number in range(100))


@pytest.mark.parametrize("world", few(WORLDS, kept=("private, 3 a unit", "public, 1 a unit")))
def test_a_preview_keeps_its_promise(world: str, homes: Iterator[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    assert list(problems(WORLDS[world], homes, monkeypatch)) == []


# Planted bugs -------------------------------------------------------------------------------------------------------

Plant = Callable[[pytest.MonkeyPatch], None]


def bins_of_rows(patch: pytest.MonkeyPatch) -> None:
    """Bins between the quantiles of the rows, which would show where these are."""
    rows: list[PrivateTable] = []
    right = PrivateTable.open

    def opened(*given: Any, **named: Any) -> Any:
        found = right(*given, **named)
        rows.extend(found)
        return found

    def question(schema: Schema) -> Stack:
        asked = previewing_question(schema)
        if not rows:
            return asked
        codes = rows[-1]._column("age")
        edges = np.unique(np.quantile(codes, [0.25, 0.5, 0.75]).astype(int))
        bins = Bins.of_codes(np.searchsorted(edges, np.arange(schema.modelled_column("age").size)))
        return Stack((OneHot(("age",), (bins,)), *asked.parts[1:]), asked.weights)

    patch.setattr(PrivateTable, "open", opened)
    patch.setattr(previewing, "preview_question", question)


previewing_question = previewing.preview_question


def no_noise(patch: pytest.MonkeyPatch) -> None:
    right = Known.gaussian

    def silent(self: Known, variance: int, size: int) -> np.ndarray:
        return np.zeros_like(right(self, variance, size))

    patch.setattr(Known, "gaussian", silent)


def half_the_noise(patch: pytest.MonkeyPatch) -> None:
    right = NoisySum.draw

    class Less:
        def __init__(self, noise: Any) -> None:
            self.noise = noise

        def gaussian(self, variance: int, size: int) -> np.ndarray:
            return np.asarray(self.noise.gaussian(variance // 4, size))

    patch.setattr(
        NoisySum, "draw", lambda self, plan, rows, noise, *, device: right(self, plan, rows, Less(noise), device=device)
    )


def charged_twice(patch: pytest.MonkeyPatch) -> None:
    right = Ledger.reserve

    def twice(self: Ledger, *given: Any, **named: Any) -> Charge:
        self.fail(right(self, *given, **named))
        right(self, given[0], "another", *given[2:], **named)
        return right(self, *given, **named)

    patch.setattr(Ledger, "reserve", twice)


def not_charged(patch: pytest.MonkeyPatch) -> None:
    right = Ledger.reserve
    patch.setattr(
        Ledger,
        "reserve",
        lambda self, *given, **named: right(self, *given, **named | {"cost_of": lambda *budget: Cost(charges=1)}),
    )


def charged_after_reading(patch: pytest.MonkeyPatch) -> None:
    spend, release = Ledger.spend, Ledger.release
    patch.setattr(Ledger, "spend", lambda self, charge, config=None: charge)
    patch.setattr(Ledger, "release", lambda self, charge, identity: release(self, spend(self, charge), identity))


def sensitivity_of_one_row(patch: pytest.MonkeyPatch) -> None:
    def of_one(row: Bound, schema: Schema) -> float:
        return between_neighbours(row, replace(schema, unit=replace(schema.unit, rows_per_unit=1)))

    patch.setattr(session, "between_neighbours", of_one)


def sensitivity_of_removal(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(session, "between_neighbours", lambda row, schema: row.norm * schema.unit.rows_per_unit)


def weights_of_one(patch: pytest.MonkeyPatch) -> None:
    """Every histogram with the noise of a single one, and the sensitivity too."""
    right = previewing.preview_question

    def question(schema: Schema) -> Stack:
        stack = right(schema)
        object.__setattr__(stack, "weights", (1.0,) * len(stack.parts))
        return stack

    patch.setattr(previewing, "preview_question", question)
    patch.setattr(session, "between_neighbours", lambda row, schema: float(schema.unit.rows_per_unit))


def cheap_receipts(patch: pytest.MonkeyPatch) -> None:
    right = NoisySum.plan

    def plan(self: NoisySum, allowance: Any) -> Any:
        return right(self, replace(allowance, units=4 * allowance.units))

    patch.setattr(NoisySum, "plan", plan)


FAULTS: dict[str, tuple[Plant, str]] = {
    "bins that depend on rows": (bins_of_rows, "public, 1 a unit"),
    "noise left out": (no_noise, "private, 1 a unit"),
    "half the noise": (half_the_noise, "private, 1 a unit"),
    "charged twice": (charged_twice, "private, 1 a unit"),
    "not charged": (not_charged, "private, 1 a unit"),
    "charged after reading": (charged_after_reading, "private, 1 a unit"),
    "a sensitivity without rows_per_unit": (sensitivity_of_one_row, "private, 3 a unit"),
    "the same where a unit is replaced": (sensitivity_of_one_row, "public, 3 a unit"),
    "the sensitivity of a removal where a unit is replaced": (sensitivity_of_removal, "public, 1 a unit"),
    "each histogram at the price of all": (weights_of_one, "private, 1 a unit"),
    "more spent than the budget": (cheap_receipts, "private, 1 a unit"),
}


REPEATED = ("noise left out", "charged twice", "the same where a unit is replaced")
"""Of faults that another stands for: half the noise, not charged once, and a sensitivity without rows_per_unit."""


@pytest.mark.four_cases
@pytest.mark.parametrize("fault", few(FAULTS, kept=[name for name in FAULTS if name not in REPEATED]))
def test_every_planted_bug_is_found(fault: str, homes: Iterator[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    plant, world = FAULTS[fault]
    plant(monkeypatch)
    assert list(problems(WORLDS[world], homes, monkeypatch)), fault


def test_neighbours_are_of_both_relations() -> None:
    relations = {world.config.schema.neighbours for world in WORLDS.values()}
    assert relations == {Neighbours.ADD_REMOVE, Neighbours.REPLACE}
