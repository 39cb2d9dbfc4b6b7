"""Planted bugs of noisy rows: each breaks the promise in one place, and each must be noticed by some layer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from faults import tables_opened
from recorded_noise import RecordedNoise

from synth.generators.kahm import kahm
from synth.ledger import ledger, spending
from synth.privacy import accounting, receipt
from synth.privacy.more import cells, perturbed_rows, row_sensitivity
from synth.privacy.more.perturbed_rows import RowsPlan
from synth.privacy.more.row_sensitivity import CellBound
from synth.privacy.noise import SystemNoise
from synth.privacy.session import PrivateSession
from synth.store import accounts

Plant = Callable[[pytest.MonkeyPatch], None]
ROW_FAULTS: dict[str, tuple[str, Plant]] = {}
"""By name: an asker in whose answers the bug shows, and how it is planted."""


def fault(name: str, asker: str) -> Callable[[Plant], Plant]:
    def keep(plant: Plant) -> Plant:
        ROW_FAULTS[name] = (asker, plant)
        return plant

    return keep


def changed(patch: pytest.MonkeyPatch, change: Callable[[CellBound], CellBound]) -> None:
    right = perturbed_rows.cell_bound
    patch.setattr(perturbed_rows, "cell_bound", lambda *a, **named: change(right(*a, **named)))


def of_noise(patch: pytest.MonkeyPatch, method: str, wrong: Callable[..., np.ndarray]) -> None:
    """Change what both the system's noise and the known noise of tests give."""
    for kind in (SystemNoise, RecordedNoise):
        right = getattr(kind, method)
        patch.setattr(kind, method, lambda self, *a, right=right, **named: wrong(right, self, *a, **named))


@fault("half the scale of a cell", "cell")
def _(patch: pytest.MonkeyPatch) -> None:
    right = perturbed_rows._cells
    patch.setattr(
        perturbed_rows,
        "_cells",
        lambda *a, **named: tuple(cell._replace(scale=cell.scale // 2) for cell in right(*a, **named)),
    )


@fault("a row moves its cells no farther than one cell may move", "cell, part of a range")
def _(patch: pytest.MonkeyPatch) -> None:
    right = perturbed_rows._cells
    patch.setattr(perturbed_rows, "_cells", lambda bounds, of_rows, *a, **named: right(bounds, bounds, *a, **named))


@fault("half the Laplace noise, whatever the receipt says", "cell")
def _(patch: pytest.MonkeyPatch) -> None:
    of_noise(patch, "laplace", lambda right, self, scale, size: right(self, scale, size) // 2)


@fault("half the Gaussian noise of rows, whatever the receipt says", "rows")
def _(patch: pytest.MonkeyPatch) -> None:
    of_noise(patch, "gaussian", lambda right, self, variance, size: right(self, variance, size) // 2)


@fault("one noise for all numbers of a column", "cells by hand")
def _(patch: pytest.MonkeyPatch) -> None:
    of_noise(patch, "laplace", lambda right, self, scale, size: np.resize(right(self, scale, max(size // 40, 1)), size))


@fault("no noise on the last column", "rows with Laplace noise")
def _(patch: pytest.MonkeyPatch) -> None:
    right = perturbed_rows.draw_rows

    def draw(question: Any, plan: RowsPlan, *a: Any, **named: Any) -> Any:
        cells = (*plan.cells[:-1], plan.cells[-1]._replace(scale=1))
        object.__setattr__(plan, "cells", cells)
        return right(question, plan, *a, **named)

    patch.setattr(perturbed_rows, "draw_rows", draw)


@fault("a category counted as one number", "cell")
def _(patch: pytest.MonkeyPatch) -> None:
    changed(patch, lambda bound: CellBound(bound.largest, bound.largest, bound.squared))


@fault("the declared change ignored", "cell, part of a range")
def _(patch: pytest.MonkeyPatch) -> None:
    right = perturbed_rows.cell_bound
    patch.setattr(
        perturbed_rows, "cell_bound", lambda lookup, column, *, bits, change: right(lookup, column, bits=bits)
    )


@fault("the declared change taken of categories and missing cells too", "cell, part of a range")
def _(patch: pytest.MonkeyPatch) -> None:
    right = perturbed_rows.cell_bound

    def bound(lookup: Any, column: Any, *, bits: int, change: float) -> CellBound:
        found = right(lookup, column, bits=bits)
        return CellBound(*(max(1, int(change * getattr(found, name))) for name in ("l1", "largest", "squared")))

    patch.setattr(perturbed_rows, "cell_bound", bound)


@fault("a window of the declared change that is too short", "cell, part of a range")
def _(patch: pytest.MonkeyPatch) -> None:
    right = row_sensitivity._spans
    patch.setattr(row_sensitivity, "_spans", lambda values, ends: right(values, (ends + np.arange(len(ends))) // 2))


@fault("one column left out of a row's sensitivity", "rows")
def _(patch: pytest.MonkeyPatch) -> None:
    right = perturbed_rows.cell_bound

    def bound(lookup: Any, column: Any, **named: Any) -> CellBound:
        found = right(lookup, column, **named)
        return CellBound(found.l1, found.largest, 0) if column.name == "job" else found

    patch.setattr(perturbed_rows, "cell_bound", bound)


@fault("half a row's sensitivity", "rows by hand")
def _(patch: pytest.MonkeyPatch) -> None:
    changed(patch, lambda bound: CellBound(bound.l1, bound.largest, bound.squared // 4))


@fault("label not randomised", "rows")
def _(patch: pytest.MonkeyPatch) -> None:
    of_noise(patch, "respond", lambda right, self, values, **named: values.copy())


@fault("label let out without being asked for", "rows")
def _(patch: pytest.MonkeyPatch) -> None:
    right = perturbed_rows.draw_rows

    def draw(question: Any, plan: RowsPlan, *a: Any, **named: Any) -> Any:
        object.__setattr__(plan, "label_epsilon", None)
        return right(question, plan, *a, **named)

    patch.setattr(perturbed_rows, "draw_rows", draw)


@fault("label cost dropped", "rows")
def _(patch: pytest.MonkeyPatch) -> None:
    right = RowsPlan.cost_of_labels
    patch.setattr(RowsPlan, "cost_of_labels", lambda self, epsilon: replace(right(self, epsilon), mu_squared_units=1))


@fault("label kept twice as often as paid for", "rows")
def _(patch: pytest.MonkeyPatch) -> None:
    of_noise(
        patch,
        "respond",
        lambda right, self, values, *, classes, numerator, denominator: right(
            self, values, classes=classes, numerator=20 * numerator, denominator=denominator
        ),
    )


@fault("rows in their own order", "rows")
def _(patch: pytest.MonkeyPatch) -> None:
    of_noise(patch, "order", lambda right, self, size: np.arange(size))


@fault("rows in the order of the table but for a turn", "cell")
def _(patch: pytest.MonkeyPatch) -> None:
    of_noise(patch, "order", lambda right, self, size: np.roll(np.arange(size), 1))


@fault("pure cost dropped from receipts", "cell")
def _(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(accounting, "pure_epsilon_of", lambda units: 0.0)


@fault("pure cost dropped from the ledger", "accounts")
def _(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(spending, "pure_epsilon_of", lambda units: 0.0)


@fault("pure cost of a column left out", "cells by hand")
def _(patch: pytest.MonkeyPatch) -> None:
    for module in (receipt, perturbed_rows):
        right = module.pure_units_of_cells
        patch.setattr(module, "pure_units_of_cells", lambda cells, right=right: right(cells) // 2)


@fault("a cell's run let into a record's account", "accounts")
def _(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ledger, "require_same_neighbours", lambda account, budget: None)


@fault("runs that hide other cells let into one account", "accounts")
def _(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ledger, "require_same_cells", lambda account, cells, earlier: None)


@fault("a cell's account opened for records", "accounts")
def _(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(accounts, "check_same_promise", lambda account, neighbours, unit: None)


@fault("blocks from original rows", "cell")
def _(patch: pytest.MonkeyPatch) -> None:
    import torch

    right, opened = kahm.in_blocks, tables_opened(patch)

    def blocks(n_rows: int, **named: Any) -> list[torch.Tensor]:
        if n_rows < 2:
            return right(n_rows, **named)
        ages = opened[-1]._column("age").astype(np.int64)
        halves = (np.resize(ages, n_rows) + ages.sum() // 2) % 2 == 0
        halves[0], halves[-1] = False, True
        return [torch.from_numpy(np.flatnonzero(side)) for side in (~halves, halves)]

    patch.setattr(kahm, "in_blocks", blocks)


@fault("what cells are worth for a row taken of one cell", "cell")
def _(patch: pytest.MonkeyPatch) -> None:
    right = cells.changes_of_cells
    for module in (accounting, cells):
        patch.setattr(module, "changes_of_cells", lambda cells, *, numbers: right(cells[:1], numbers=numbers)[:1])


@fault("rows not charged", "rows")
def _(patch: pytest.MonkeyPatch) -> None:
    right = PrivateSession._open

    def _open(self: PrivateSession, query: str, units: int, **named: Any) -> None:
        right(self, query, units, **named)
        self._spent_units -= units

    patch.setattr(PrivateSession, "_open", _open)
