"""Planted bugs in the moments of whole rows: their clip, their offsets, their bounds."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from faults import fault, tables_opened

from synth.generators.kahm.record import RecordQuestions
from synth.privacy.costs import Bound
from synth.privacy.more import row_moments
from synth.privacy.more.row_moments import RowMoments

__all__ = ["ASKED_FAULTS", "MOMENT_FAULTS"]

MOMENT_FAULTS = (
    "rows not clipped",
    "rows clipped after they are added",
    "clip norm of rows from data",
    "rows centred by their own mean",
    "rows clipped before they are projected",
    "products of rows without the square root of 2",
    "signed rows bounded like counts",
    "products of rows counted twice",
    "rows added up in float32",
    "blocks of rows clipped",
    "blocks of rows averaged",
)


ASKED_FAULTS = ("class means from data", "clip norm from data")
"""In what a generator asks: only one that asks for moments of rows can show them."""


def not_clipped(vectors: Any, bits: int) -> Any:
    """Truncate columns to whole steps, however long they are."""
    return vectors.mul_(2.0**bits).trunc_()


@fault("rows not clipped")
def _(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(row_moments, "clipped_columns", not_clipped)


@fault("rows clipped after they are added")
def _(patch: pytest.MonkeyPatch) -> None:
    right = RowMoments.sums_by_cell

    def clipped(moments: Any, weight: float, rows: Any, cells: Any, *, half_bits: int, device: str) -> np.ndarray:
        found = right(moments, weight, rows, cells, half_bits=half_bits, device=device)
        length, most = np.linalg.norm(found.astype(np.float64)), rows.n_rows * 2.0 ** (2 * half_bits)
        return found if length <= most else np.trunc(found * (most / length)).astype(np.int64)

    patch.setattr(row_moments, "clipped_columns", not_clipped)
    patch.setattr(RowMoments, "sums_by_cell", clipped)


@fault("clip norm of rows from data")
def _(patch: pytest.MonkeyPatch) -> None:
    right = row_moments.clipped_columns
    patch.setattr(
        row_moments,
        "clipped_columns",
        lambda vectors, bits: right(vectors / vectors.square().sum(0).sqrt().max(), bits),
    )


@fault("rows centred by their own mean")
def _(patch: pytest.MonkeyPatch) -> None:
    right = row_moments.clipped_columns
    patch.setattr(
        row_moments, "clipped_columns", lambda vectors, bits: right(vectors - vectors.mean(dim=1, keepdim=True), bits)
    )


@fault("rows clipped before they are projected")
def _(patch: pytest.MonkeyPatch) -> None:
    right = row_moments.rows_of_vectors

    def rows_of_vectors(moments: Any, *chosen: Any, bits: int, **of_private_rows: Any) -> Any:
        if moments.projection is None or not of_private_rows:
            return right(moments, *chosen, bits=bits, **of_private_rows)
        whole = dataclasses.replace(moments, projection=None)
        return (torch.from_numpy(moments.projection.T.copy()) @ right(whole, *chosen, bits=bits)).trunc()

    patch.setattr(row_moments, "rows_of_vectors", rows_of_vectors)


@fault("products of rows without the square root of 2")
def _(patch: pytest.MonkeyPatch) -> None:
    right = row_moments.power_bound
    patch.setattr(row_moments, "power_bound", lambda weights: Bound(right(weights).norm, right(weights).norm))


@fault("signed rows bounded like counts")
def _(patch: pytest.MonkeyPatch) -> None:
    right = row_moments.power_bound

    def bound(weights: Any) -> Bound:
        found = right(weights)
        return Bound(found.norm, min(found.diameter, math.sqrt(2) * found.norm))

    patch.setattr(row_moments, "power_bound", bound)


@fault("products of rows counted twice")
def _(patch: pytest.MonkeyPatch) -> None:
    right = row_moments.RowMoments.factors_under
    patch.setattr(
        row_moments.RowMoments,
        "factors_under",
        lambda self, weight: np.where(right(self, weight) > weight * self.weights[2], 2.0, 1.0) * right(self, weight),
    )


@fault("rows added up in float32")
def _(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        torch.Tensor, "addmm_", lambda held, one, other: held.add_((one.float() @ other.float()).to(held.dtype))
    )


def _blocks(patch: pytest.MonkeyPatch, wrong: Callable[[torch.Tensor, int], torch.Tensor]) -> None:
    right = row_moments.rows_of_vectors

    def rows_of_vectors(*chosen: Any, bits: int, **of_private_rows: Any) -> torch.Tensor:
        found = right(*chosen, bits=bits, **of_private_rows)
        return wrong(found, bits).trunc_() if of_private_rows else found

    patch.setattr(row_moments, "rows_of_vectors", rows_of_vectors)


@fault("blocks of rows clipped")
def _(patch: pytest.MonkeyPatch) -> None:
    _blocks(patch, lambda rows, bits: rows * (2.0**bits / rows.sum(dim=1).norm().clamp(min=2.0**bits)))


@fault("blocks of rows averaged")
def _(patch: pytest.MonkeyPatch) -> None:
    _blocks(patch, lambda rows, bits: (rows / rows.shape[1]).trunc_() * rows.shape[1])


def _private_rows(questions: RecordQuestions, table: Any) -> np.ndarray:
    """The vectors of private rows, as a generator that cheats would read them."""
    codes = {one.column: table._column(one.column).astype(int) for one in questions._tables}
    return np.concatenate([one.evaluate(codes) for one in questions._tables], axis=1)


@fault("class means from data")
def _(patch: pytest.MonkeyPatch) -> None:
    right, opened = RecordQuestions._class_means, tables_opened(patch)

    def class_means(self: RecordQuestions, shares: Any, centre: np.ndarray, spread: float) -> Any:
        weights, means, left = right(self, shares, centre, spread)
        return weights, means + (_private_rows(self, opened[-1]).mean(axis=0) - centre), left

    patch.setattr(RecordQuestions, "_class_means", class_means)


@fault("clip norm from data")
def _(patch: pytest.MonkeyPatch) -> None:
    right, opened = RecordQuestions._class_means, tables_opened(patch)

    def class_means(self: RecordQuestions, shares: Any, centre: np.ndarray, spread: float) -> Any:
        weights, means, _ = right(self, shares, centre, spread)
        return weights, means, float(((_private_rows(self, opened[-1]) - centre) ** 2).sum(axis=1).max())

    patch.setattr(RecordQuestions, "_class_means", class_means)
