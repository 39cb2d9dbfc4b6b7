"""Planted bugs in what a sum-of-squares density is made of: its embedding, its groups, its support, its pictures."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from faults import fault, tables_opened

from synth.generators.sums_of_squares import kernel_sos
from synth.generators.sums_of_squares.kernel_sos import KernelSos
from synth.privacy.more import fourier, products
from synth.privacy.more.products import Joint
from synth.privacy.table import PrivateTable

__all__ = ["DENSITY_FAULTS"]

DENSITY_FAULTS = (
    "embedding of an unclipped position",
    "a row in every group",
    "support from private rows",
    "groups counted at full precision",
    "bandwidth by the private number of rows",
)
"""In what the generator asks, and in what it makes of the answer: only one that fits a density can show them."""


def exact_labels(table: PrivateTable) -> np.ndarray:
    return np.bincount(table._column("outcome"), minlength=2).astype(np.float64)


@fault("embedding of an unclipped position")
def _(patch: pytest.MonkeyPatch) -> None:
    right = fourier.add_rows

    def unclipped(positions: Any, frequencies: Any, **named: Any) -> np.ndarray:
        # The row's place itself is added to its waves, as a linear term would be.
        return right(positions, frequencies, **named) + int(positions.sum()) * (1 << fourier.VALUE_BITS) // 64

    patch.setattr(fourier, "add_rows", unclipped)


@fault("a row in every group")
def _(patch: pytest.MonkeyPatch) -> None:
    right = Joint.sums_by_cell

    def everywhere(joint: Any, *arguments: Any, **named: Any) -> np.ndarray:
        found = right(joint, *arguments, **named)
        groups = int(np.prod([one.dimension for one in joint.cells])) if joint.cells else 1
        if groups == 1 or not any(isinstance(one, fourier.Fourier) for one in joint.maps):
            return found
        by_group = found.reshape(len(found), groups, -1)
        return np.broadcast_to(by_group.sum(axis=1, keepdims=True), by_group.shape).reshape(found.shape).copy()

    patch.setattr(products.Joint, "sums_by_cell", everywhere)


@fault("support from private rows")
def _(patch: pytest.MonkeyPatch) -> None:
    opened, right = tables_opened(patch), kernel_sos.herd

    def herded(features: np.ndarray, embedding: np.ndarray, *, points: int) -> np.ndarray:
        chosen = right(features, embedding, points=points)
        chosen[0] = int(opened[-1]._column("age").sum()) % len(features)
        return chosen

    patch.setattr(kernel_sos, "herd", herded)


@fault("groups counted at full precision")
def _(patch: pytest.MonkeyPatch) -> None:
    opened, right = tables_opened(patch), KernelSos._counted

    def counted(generator: Any, answer: Any, rows: Any) -> Any:
        counts, sums, noise_std = right(generator, answer, rows)
        return np.tile(exact_labels(opened[-1]), len(counts) // 2 or 1)[: len(counts)], sums, noise_std

    patch.setattr(KernelSos, "_counted", counted)


@fault("bandwidth by the private number of rows")
def _(patch: pytest.MonkeyPatch) -> None:
    opened, right = tables_opened(patch), kernel_sos.fit_smoothest

    def fitted(*arguments: Any, noise_std: float, **named: Any) -> Any:
        exact = float(exact_labels(opened[-1])[1])
        found = right(*arguments, noise_std=noise_std, **named)
        # The bandwidth that this number would choose is seen in the density, here by its scale.
        object.__setattr__(found.density, "bandwidth", found.density.bandwidth * (1 + exact * 1e-6))
        return found

    patch.setattr(kernel_sos, "fit_smoothest", fitted)
