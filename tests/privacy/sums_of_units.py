"""Sums over units of a few rows that are chosen again and again, beside what is worked out by hand for each unit."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from synth.privacy import costs
from synth.privacy.counting import PrivateRows
from synth.privacy.more.gradients import GradientPlan, UnitQuestion, sum_of_gradients

__all__ = ["FEW", "SumsOfUnits", "plan_of"]

FEW = 24
"""Different rows."""


def plan_of(question: UnitQuestion, *, by_unit: bool = False, rows_each: int = 1) -> GradientPlan:
    """A plan with some noise."""
    noise = costs.gaussian_on_grid(12, 1.0, dimension=question.dimension, units=2**40)
    return GradientPlan(noise, question.dimension, by_unit, rows_each)


@dataclass(frozen=True)
class SumsOfUnits:
    """Questions by kind, the rows that they are asked about, and what a unit adds: alone a row, or several by hand."""

    questions: Mapping[str, Any]
    rows: Mapping[str, np.ndarray]
    alone: Callable[[str], np.ndarray]
    by_hand: Callable[[Any, Sequence[dict[str, int]]], Any]

    def row_of(self, place: int) -> dict[str, int]:
        """One row's codes."""
        return {name: int(column[place]) for name, column in self.rows.items()}

    def summed(
        self,
        question: UnitQuestion,
        chosen: np.ndarray,
        units: np.ndarray | None = None,
        *,
        device: str = "cpu",
        rows_each: int = 1,
    ) -> np.ndarray:
        """The whole-number answer for the table of these rows, in this order, of these units."""
        rows = PrivateRows(lambda name: self.rows[name][chosen], len(chosen), units=units)
        plan = plan_of(question, by_unit=units is not None, rows_each=rows_each)
        return sum_of_gradients(question, plan, rows, device=device)

    def check_rows(self, kind: str, n_rows: int, *, seed: int = 0, device: str = "cpu") -> None:
        """Rows in a drawn order, some of them many times over: the sum is what each of them adds."""
        chosen = np.random.default_rng(seed).integers(0, FEW, n_rows)
        expected = np.bincount(chosen, minlength=FEW) @ self.alone(kind)
        np.testing.assert_array_equal(self.summed(self.questions[kind], chosen, device=device), expected)

    def check_units(self, kind: str, n_rows: int, *, seed: int = 0, device: str = "cpu") -> None:
        """Rows of drawn units, in a drawn order: the sum is what each unit's rows add together."""
        rng = np.random.default_rng(seed)
        chosen, units = rng.integers(0, FEW, n_rows), rng.integers(0, 1 + n_rows // 2, n_rows)
        rows_of: dict[int, list[dict[str, int]]] = defaultdict(list)
        for unit, place in zip(units.tolist(), chosen.tolist(), strict=True):
            rows_of[unit].append(self.row_of(place))
        expected = np.sum([self.by_hand(self.questions[kind], rows) for rows in rows_of.values()], axis=0)
        np.testing.assert_array_equal(self.summed(self.questions[kind], chosen, units, device=device), expected)
