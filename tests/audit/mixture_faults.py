"""Planted bugs in steps of EM: what responsibilities add up to, at which mixture, their bound, what it costs."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest
from faults import fault

from synth.privacy.costs import Bound
from synth.privacy.more import products, responsibilities
from synth.privacy.more.responsibilities import Responsibilities, ShareOfTable
from synth.privacy.session import PrivateSession

__all__ = ["MIXTURE_FAULTS"]

MIXTURE_FAULTS = (
    "responsibilities add up to 1.1",
    "responsibilities of the step before",
    "responsibilities at a mixture from data",
    "blocks of responsibilities averaged",
    "a bound by component",
    "components bounded like one number",
    "signed statistics bounded like counts",
    "every class asked of every row",
    "rows of a unit forgotten in steps",
    "a step of EM uncharged",
)


@fault("responsibilities add up to 1.1")
def _(patch: pytest.MonkeyPatch) -> None:
    right = responsibilities._shares
    patch.setattr(responsibilities, "_shares", lambda scores: right(scores) * 11 // 10)


@fault("responsibilities of the step before")
def _(patch: pytest.MonkeyPatch) -> None:
    right, before = Responsibilities.cells, []

    def cells(self: Responsibilities, column: Any, n_rows: int) -> np.ndarray:
        before.append(self)
        last = before[-2] if len(before) > 1 and before[-2].dimension == self.dimension else self
        return right(last, column, n_rows)

    patch.setattr(Responsibilities, "cells", cells)


@fault("responsibilities at a mixture from data")
def _(patch: pytest.MonkeyPatch) -> None:
    right = Responsibilities.cells

    def cells(self: Responsibilities, column: Any, n_rows: int) -> np.ndarray:
        # The M-step that would have been taken without noise.
        sizes = right(self, column, n_rows).sum(axis=1)
        weights = np.rint(4096 * np.log2(np.maximum(sizes, 1.0) / max(sizes.sum(), 1.0))).astype(int)
        own = dataclasses.replace(self, weights=np.tile(weights, (len(self.weights), 1)))
        return right(own, column, n_rows)

    patch.setattr(Responsibilities, "cells", cells)


@fault("blocks of responsibilities averaged")
def _(patch: pytest.MonkeyPatch) -> None:
    right = responsibilities._shares

    def shares(scores: np.ndarray) -> np.ndarray:
        found = right(scores)
        return np.rint((9 * found + found.mean(axis=0)) / 10).astype(np.int64)

    patch.setattr(responsibilities, "_shares", shares)


@fault("a bound by component")
def _(patch: pytest.MonkeyPatch) -> None:
    right = Responsibilities.weighted_bound

    def bound(self: Responsibilities, weight: float, half_bits: int) -> Bound:
        return right(self, weight / math.sqrt(self.dimension), half_bits)

    patch.setattr(Responsibilities, "weighted_bound", bound)


@fault("components bounded like one number")
def _(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Responsibilities, "weighted_bound", lambda self, weight, half_bits: Bound(weight, weight))
    patch.setattr(products.Joint, "weighted_bound", lambda self, *given: self.value.weighted_bound(*given))


@fault("signed statistics bounded like counts")
def _(patch: pytest.MonkeyPatch) -> None:
    def bound(self: ShareOfTable, weight: float, half_bits: int) -> Bound:
        norm = weight * self.table.row_bound().norm
        return Bound(norm, math.sqrt(2) * norm)

    patch.setattr(ShareOfTable, "weighted_bound", bound)


@fault("every class asked of every row")
def _(patch: pytest.MonkeyPatch) -> None:
    right = responsibilities.shares_by_cell

    def by_cell(shares: Responsibilities, rows: Any, cells: Any, *, device: str) -> np.ndarray:
        found = right(shares, rows, cells, device=device)
        if shares.by is None:
            return found
        by_class = found.reshape(shares.by.dimension, -1)
        return np.broadcast_to(by_class.sum(axis=0), by_class.shape).reshape(found.shape)

    patch.setattr(responsibilities, "shares_by_cell", by_cell)


@fault("rows of a unit forgotten in steps")
def _(patch: pytest.MonkeyPatch) -> None:
    def between(self: PrivateSession, row: Bound) -> float:
        return row.diameter if self.schema.rows_are_public else row.norm

    patch.setattr(PrivateSession, "_between_neighbours", between)


@fault("a step of EM uncharged")
def _(patch: pytest.MonkeyPatch) -> None:
    right = PrivateSession._open

    def _open(self: PrivateSession, query: str, units: int, **named: Any) -> None:
        right(self, query, units, **named)
        self._spent_units -= units if query == "step 2" else 0

    patch.setattr(PrivateSession, "_open", _open)
