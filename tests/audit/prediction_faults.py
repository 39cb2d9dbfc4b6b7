"""Planted bugs of predictions on the hold-out: each breaks the promise, or what the numbers say, in one place."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from worlds import LABEL

from synth.privacy import counting, feature_maps
from synth.privacy.costs import Bound, between_neighbours
from synth.privacy.counting import CountMemory
from synth.privacy.feature_maps import Block, OneHot
from synth.privacy.more import forests
from synth.privacy.more.forests import Forest
from synth.privacy.more.losses import Losses
from synth.privacy.more.products import Product
from synth.privacy.session import PrivateSession
from synth.privacy.table import PrivateTable
from synth.reports import holdout

Plant = Callable[[pytest.MonkeyPatch], None]
PREDICTION_FAULTS: dict[str, Plant] = {}


def fault(name: str) -> Callable[[Plant], Plant]:
    def keep(plant: Plant) -> Plant:
        PREDICTION_FAULTS[name] = plant
        return plant

    return keep


def held_out_opened(patch: pytest.MonkeyPatch) -> list[PrivateTable]:
    """Give a planted bug the held-out rows behind every session, the last ones last."""
    opened: list[PrivateTable] = []
    right = PrivateSession.holdout_session

    def holdout_session(self: PrivateSession, table: PrivateTable, *, share: float) -> PrivateSession:
        opened.append(table)
        return right(self, table, share=share)

    patch.setattr(PrivateSession, "holdout_session", holdout_session)
    return opened


@fault("predictor that sees the label")
def _(patch: pytest.MonkeyPatch) -> None:
    def seeing(codes: Any, schema: Any, label: str, *, bins: int, seed: int) -> Forest:
        nodes = np.array([[0, 0, 1, 2], [0, 0, 1, 1], [0, 0, 2, 2]])
        values = np.array([[0, 0], [9, 0], [0, 9]])
        return Forest((label,), (np.arange(2),), nodes, values, np.array([0]), np.full((2, bins - 1), 5))

    def question(forest: Forest, config: Any) -> Product:
        return Product((forest, OneHot((LABEL,), (None,), (2,))))

    patch.setattr(holdout, "synthetic_forest", seeing)
    patch.setattr(holdout, "prediction_question", question)


@fault("bins fitted to held-out rows")
def _(patch: pytest.MonkeyPatch) -> None:
    right, opened = holdout.synthetic_forest, held_out_opened(patch)

    def fitted(codes: Any, schema: Any, label: str, *, bins: int, seed: int) -> Forest:
        forest, table = right(codes, schema, label, bins=bins, seed=seed), opened[-1]
        guess, confidence = forest.guesses(table._column, table._rows)
        edges = forest.edges.copy()
        for one in range(len(edges)):
            own = np.sort(confidence[guess == one])
            if len(own):
                edges[one] = own[(np.arange(1, bins) * len(own)) // bins]
        return Forest(forest.columns, forest.places, forest.nodes, forest.values, forest.roots, edges)

    patch.setattr(holdout, "synthetic_forest", fitted)


@fault("predictor trained on held-out rows")
def _(patch: pytest.MonkeyPatch) -> None:
    right, opened = holdout.synthetic_forest, held_out_opened(patch)

    def trained(codes: Any, schema: Any, label: str, **named: Any) -> Forest:
        private = [opened[-1]._column(name).astype(np.int64) for name in schema.names]
        both = [np.concatenate(pair) for pair in zip(codes, private, strict=True)]
        return right(both, schema, label, **named)

    patch.setattr(holdout, "synthetic_forest", trained)


@fault("hold-out answered by the training part")
def _(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        PrivateSession, "holdout_session", lambda self, table, *, share: self._aside(share, self._table, CountMemory())
    )


@fault("hold-out answered by the training part, whatever the receipt says")
def _(patch: pytest.MonkeyPatch) -> None:
    def holdout_session(self: PrivateSession, table: PrivateTable, *, share: float) -> PrivateSession:
        copied = object.__new__(PrivateTable)
        for slot in PrivateTable.__slots__:
            setattr(copied, slot, getattr(self._table, slot))
        copied.part = "holdout"
        return self._aside(share, copied, CountMemory())

    patch.setattr(PrivateSession, "holdout_session", holdout_session)


@fault("counts of the training part remembered for the hold-out")
def _(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        PrivateSession, "holdout_session", lambda self, table, *, share: self._aside(share, table, self._memory)
    )


@fault("cost of the hold-out not charged")
def _(patch: pytest.MonkeyPatch) -> None:
    right = PrivateSession.holdout_session

    def holdout_session(self: PrivateSession, table: PrivateTable, *, share: float) -> PrivateSession:
        before = self._spent_units
        view = right(self, table, share=share)
        self._spent_units = before
        return view

    patch.setattr(PrivateSession, "holdout_session", holdout_session)


@fault("hold-out paid for beside the training part")
def _(patch: pytest.MonkeyPatch) -> None:
    right = PrivateSession.holdout_session

    def holdout_session(self: PrivateSession, table: PrivateTable, *, share: float) -> PrivateSession:
        view = right(self, table, share=share)
        view._units = self._root_units  # as if parallel composition gave each part the whole budget
        return view

    patch.setattr(PrivateSession, "holdout_session", holdout_session)


@fault("rows of a unit forgotten in the hold-out")
def _(patch: pytest.MonkeyPatch) -> None:
    def bound(self: PrivateSession, row: Bound) -> float:
        whole = between_neighbours(row, self.schema)
        return whole / self.schema.unit.rows_per_unit if self._table.part == "holdout" else whole

    patch.setattr(PrivateSession, "_between_neighbours", bound)


@fault("bins of a forest bounded like one cell")
def _(patch: pytest.MonkeyPatch) -> None:
    right = Block.bound

    def bound(block: Block, half_bits: int) -> Bound:
        found = right(block, half_bits)
        forest = any(isinstance(one, Forest) for one in block.map.maps)
        return Bound(found.norm, found.diameter / math.sqrt(2)) if forest else found

    patch.setattr(Block, "bound", bound)


@fault("bins of a forest ranked among the rows beside")
def _(patch: pytest.MonkeyPatch) -> None:
    right = forests.Forest.cells

    def cells(self: Forest, column: Any, n_rows: int) -> np.ndarray:
        guess, confidence = self.guesses(column, n_rows)
        ranks = np.argsort(np.argsort(confidence, kind="stable"), kind="stable")
        bins = ranks * self.shape[1] // max(n_rows, 1)
        return (guess * self.shape[1] + bins).astype(right(self, column, n_rows).dtype)

    patch.setattr(forests.Forest, "cells", cells)


@fault("losses that are not clipped to 1")
def _(patch: pytest.MonkeyPatch) -> None:
    def cells(self: Losses, column: Any, n_rows: int) -> np.ndarray:
        columns = {name: column(name) for name in self.columns}
        truth = self.target.evaluate(columns)[:, 0]
        found = self._predictions(columns, n_rows) / 2.0**36
        # As if the declared range were a tenth of what it is: levels above the last are far outside.
        return np.rint((10 * (found - truth)) ** 2 * 2**14).astype(np.int64)

    def sums_by_cell(self: Losses, weight: float, rows: Any, cells: Any, *, half_bits: int, device: str) -> Any:
        levels = rows.column(self.key)
        reach = int(levels.max(initial=2**14)) + 1
        table = np.stack([np.arange(reach), 2**14 - np.arange(reach)], axis=1) * weight * 2.0 ** (2 * half_bits - 14)
        sums = np.zeros((math.prod(axis.size for axis in cells), 2))
        for cell, places in counting.rows_by_cell(rows, cells):
            sums[cell] = table[levels[places]].sum(axis=0)
        return np.trunc(sums).astype(np.int64)

    patch.setattr(Losses, "cells", cells)
    patch.setattr(Losses, "sums_by_cell", sums_by_cell)


@fault("losses and rows counted as if they were one number")
def _(patch: pytest.MonkeyPatch) -> None:
    # The loss and a one beside it, at the price of the loss and what is missing to 1.
    levels = np.arange(2**14 + 1) / 2**14

    def sums_by_cell(self: Losses, weight: float, rows: Any, cells: Any, *, half_bits: int, device: str) -> Any:
        table = (np.stack([levels, np.ones_like(levels)], axis=1) * weight * 2.0 ** (2 * half_bits)).astype(np.int64)
        counts = counting.joint_counts(rows, (*cells, self.levels.axis)).reshape(-1, len(table))
        return counts @ table

    patch.setattr(Losses, "sums_by_cell", sums_by_cell)


@fault("losses bounded like one number")
def _(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Losses, "weighted_bound", lambda self, weight, half_bits: Bound(weight / math.sqrt(2), weight))


@fault("predictions of a number centred on the rows beside")
def _(patch: pytest.MonkeyPatch) -> None:
    right = Losses._predictions

    def predictions(self: Losses, codes: Any, n_rows: int) -> np.ndarray:
        found = right(self, codes, n_rows)
        return found - found.mean() + 2.0**35

    patch.setattr(Losses, "_predictions", predictions)


@fault("predictor of a number trained on held-out rows")
def _(patch: pytest.MonkeyPatch) -> None:
    right, opened = holdout.synthetic_losses, held_out_opened(patch)

    def trained(codes: Any, schema: Any, label: str, **named: Any) -> Losses:
        private = [opened[-1]._column(name).astype(np.int64) for name in schema.names]
        both = [np.concatenate(pair) for pair in zip(codes, private, strict=True)]
        return right(both, schema, label, **named)

    patch.setattr(holdout, "synthetic_losses", trained)


@fault("half the noise on the hold-out")
def _(patch: pytest.MonkeyPatch) -> None:
    right = PrivateSession._aside

    class Halved:
        def __init__(self, source: Any) -> None:
            self.source, self.private = source, source.private

        def gaussian(self, variance: int, size: int) -> np.ndarray:
            return self.source.gaussian(variance, size) // 2

    def aside(self: PrivateSession, share: float, table: PrivateTable, memory: CountMemory) -> PrivateSession:
        view = right(self, share, table, memory)
        if table.part == "holdout":
            view._noise = Halved(view._noise)
        return view

    patch.setattr(PrivateSession, "_aside", aside)


@fault("last held-out row forgotten")
def _(patch: pytest.MonkeyPatch) -> None:
    right = feature_maps.with_computed

    def short(rows: Any, wanted: Any) -> Any:
        if not wanted:
            return rows
        cut = counting.PrivateRows(lambda name: rows.column(name)[:-1], max(rows.n_rows - 1, 0))
        return right(cut, wanted)

    patch.setattr(feature_maps, "with_computed", short)
