"""Planted bugs in clipped gradients: their clip, whose rows are clipped together, where one is taken, what it costs.

And in steps of EM: what a row adds, where it is taken, and how it is bounded.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch
from faults import fault
from moment_faults import not_clipped

from synth.privacy.costs import Bound
from synth.privacy.more import em_models, em_steps, gradients
from synth.privacy.more.em_steps import EMStepQuestion
from synth.privacy.more.gradients import GradientQuestion
from synth.privacy.more.truncated_mean import LARGEST_TRUNCATED, expected_truncation
from synth.privacy.session import PrivateSession

__all__ = ["GRADIENT_FAULTS"]

GRADIENT_FAULTS = (
    "gradients not clipped",
    "gradients clipped to twice the norm",
    "gradients clipped after units are added up",
    "rows clipped instead of units",
    "whose rows are whose forgotten",
    "a gradient at wrong parameters",
    "a gradient at parameters from data",
    "gradients without the replace factor",
    "a step uncharged",
    "a step refunded",
    "blocks of gradients averaged",
    "responsibilities not normalised",
    "a step of EM at the parameters before",
    "rows of EM bounded instead of units",
    "a truncated mean as printed",
    "a wrong scale of the truncated mean",
    "the bound of one coordinate for all",
)


@fault("gradients not clipped")
def _(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(gradients, "clipped_columns", not_clipped)


@fault("gradients clipped to twice the norm")
def _(patch: pytest.MonkeyPatch) -> None:
    right = gradients.clipped_columns
    patch.setattr(gradients, "clipped_columns", lambda vectors, bits: right(vectors.div_(2), bits).mul_(2))


@fault("gradients clipped after units are added up")
def _(patch: pytest.MonkeyPatch) -> None:
    right = gradients.sum_of_gradients

    def clipped(question: Any, plan: Any, rows: Any, *, device: str) -> np.ndarray:
        found = right(question, plan, rows, device=device)
        length, most = np.linalg.norm(found.astype(np.float64)), max(rows.n_rows, 1) * 2.0**24
        return found if length <= most else np.trunc(found * (most / length)).astype(np.int64)

    patch.setattr(gradients, "clipped_columns", not_clipped)
    patch.setattr(gradients, "sum_of_gradients", clipped)


@fault("rows clipped instead of units")
def _(patch: pytest.MonkeyPatch) -> None:
    right, clip = gradients._row_gradients, gradients.clipped_columns

    def clipped(question: GradientQuestion, *given: Any) -> torch.Tensor:
        whole = clip(right(question, *given).div_(question.clip * 2.0**32), gradients.UNIT_BITS)
        return whole.mul_(question.clip * 2.0**8).round_()

    patch.setattr(gradients, "_row_gradients", clipped)
    patch.setattr(gradients, "clipped_columns", not_clipped)


@fault("whose rows are whose forgotten")
def _(patch: pytest.MonkeyPatch) -> None:
    right = GradientQuestion.plan
    patch.setattr(
        GradientQuestion,
        "plan",
        lambda self, allowed: dataclasses.replace(right(self, allowed), by_unit=False, rows_each=1),
    )


@fault("a gradient at wrong parameters")
def _(patch: pytest.MonkeyPatch) -> None:
    right = gradients._row_gradients
    patch.setattr(
        gradients,
        "_row_gradients",
        lambda question, *given: right(
            dataclasses.replace(question, parameters=np.roll(question.parameters, 1)), *given
        ),
    )


@fault("a gradient at parameters from data")
def _(patch: pytest.MonkeyPatch) -> None:
    right = gradients._row_gradients

    def row_gradients(question: GradientQuestion, parts: Any, codes: Any, device: str) -> torch.Tensor:
        # The step that would have been taken without noise.
        own = right(question, parts, codes, device).mean(dim=1).numpy() / 2.0**32
        return right(dataclasses.replace(question, parameters=question.parameters - own), parts, codes, device)

    patch.setattr(gradients, "_row_gradients", row_gradients)


@fault("gradients without the replace factor")
def _(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(gradients, "between_neighbours", lambda unit, schema, rows: unit.norm)


@fault("a step uncharged")
def _(patch: pytest.MonkeyPatch) -> None:
    right = PrivateSession._open

    def _open(self: PrivateSession, query: str, units: int, **named: Any) -> None:
        right(self, query, units, **named)
        self._spent_units -= units if query.endswith("step 1") else 0

    patch.setattr(PrivateSession, "_open", _open)


@fault("a step refunded")
def _(patch: pytest.MonkeyPatch) -> None:
    right = PrivateSession.noisy_gradient

    def noisy_gradient(self: PrivateSession, question: GradientQuestion, **asked: Any) -> Any:
        before = self._spent_units
        answer = right(self, question, **asked)
        self._spent_units = (before + self._spent_units) // 2
        return answer

    patch.setattr(PrivateSession, "noisy_gradient", noisy_gradient)


@fault("blocks of gradients averaged")
def _(patch: pytest.MonkeyPatch) -> None:
    right = gradients._row_gradients

    def row_gradients(*given: Any) -> torch.Tensor:
        found = right(*given)
        return found.div_(found.shape[1]).round_().mul_(found.shape[1])

    patch.setattr(gradients, "_row_gradients", row_gradients)


@fault("responsibilities not normalised")
def _(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(em_models, "_signs", lambda products, model: 1.1 * np.sign(products))


@fault("a step of EM at the parameters before")
def _(patch: pytest.MonkeyPatch) -> None:
    right = em_steps._row_vectors
    patch.setattr(
        em_steps,
        "_row_vectors",
        lambda question, rows: right(dataclasses.replace(question, parameters=np.roll(question.parameters, 1)), rows),
    )


@fault("rows of EM bounded instead of units")
def _(patch: pytest.MonkeyPatch) -> None:
    adds, right = EMStepQuestion.adds, EMStepQuestion.bounded

    def bounded_rows(self: EMStepQuestion, device: str) -> Any:
        of_rows = adds(self, device)
        return lambda codes: right(self, of_rows(codes)).mul_(self.clip * 2.0**8)

    patch.setattr(EMStepQuestion, "adds", bounded_rows)
    patch.setattr(EMStepQuestion, "bounded", lambda self, sums: sums.div_(self.clip * 2.0**8).round_())


@fault("a truncated mean as printed")
def _(patch: pytest.MonkeyPatch) -> None:
    def bounded(question: EMStepQuestion, sums: torch.Tensor) -> torch.Tensor:
        size = sums.numpy() / (question.clip * 2.0**32) * LARGEST_TRUNCATED * 1e6  # as far out as a scale may have it
        noise = np.maximum(np.abs(size), 1e-6) / np.sqrt(question.precision)
        return torch.from_numpy(np.trunc(expected_truncation(size, noise) / LARGEST_TRUNCATED * 2.0**24))

    patch.setattr(em_steps, "_bounded_numbers", bounded)


@fault("a wrong scale of the truncated mean")
def _(patch: pytest.MonkeyPatch) -> None:
    right = em_steps._bounded_numbers
    patch.setattr(em_steps, "_bounded_numbers", lambda question, sums: right(question, sums.mul_(0.5)).mul_(2.0))


@fault("the bound of one coordinate for all")
def _(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(EMStepQuestion, "unit_bound", Bound(1.0, 2.0))
