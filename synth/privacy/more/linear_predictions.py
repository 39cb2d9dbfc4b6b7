"""Predictions of linear models, in whole numbers: features that are looked up, times parameters on a grid.

Features are made of maps whose numbers are in public tables of whole numbers. Predictions are sums of whole products
below 2^52, which float64 holds in any order, so a row's follow from its own codes and the parameters, to the last bit.
Gradients, losses and guesses of linear classifiers are calculated from them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import NDArray

from synth.errors import PrivacyError
from synth.privacy.counting import Axis, ColumnOf, PrivateRows, joint_index
from synth.privacy.feature_maps import Block, Constant, FeatureMap, OneHot, Stack, binned
from synth.privacy.more.fourier import Fourier, waves_of_rows, whole_waves
from synth.privacy.more.lookups import LEAF_BITS, Lookup

if TYPE_CHECKING:
    from torch import Tensor

__all__ = [
    "FEATURE_BITS",
    "LARGEST_PREDICTION",
    "PARAMETER_BITS",
    "FeatureBlock",
    "largest_features",
    "largest_prediction",
    "maps_in",
    "on_grid",
    "predictions_of_rows",
    "require_looked_up",
]

FEATURES: tuple[type[FeatureMap], ...] = (Constant, Lookup, OneHot, Fourier, Stack)
"""What features may be made of: maps whose numbers are looked up in public tables of whole numbers."""

PARAMETER_BITS = 20
"""Parameters are whole multiples of 2^-20, so that anyone who calculates them again gets the same ones."""

FEATURE_BITS = 16
"""Features and slopes are whole multiples of 2^-16."""

_FEATURES_AT_A_TIME = 2**10

LARGEST_PREDICTION = 2.0**14
"""No prediction is larger, for any row; otherwise the parameters are refused."""


def maps_in(features: FeatureMap) -> Iterator[FeatureMap]:
    """Yield a map and every map inside it."""
    yield features
    for one in features.inner:
        yield from maps_in(one)


def require_looked_up(features: FeatureMap) -> None:
    """Refuse features of other classes than those whose whole numbers are looked up."""
    if not all(type(one) in FEATURES for one in maps_in(features)):
        *names, last = (one.__name__ for one in FEATURES)
        raise PrivacyError(f"The features of a gradient must be made of {', '.join(names)} or {last}.")


@dataclass(frozen=True, slots=True, eq=False)
class FeatureBlock:
    """A block of the features: its map, and the table in which its whole numbers are looked up.

    The table holds steps of 2^-16, none above 1: a feature vector for each bin of a lookup, cosine and sine for each
    step of an angle, and one number for a constant or a cell.
    """

    block: Block
    table: NDArray[np.float64]

    @classmethod
    def of(cls, block: Block) -> Self:
        """Truncate the numbers of a block to whole steps."""
        weight, one = block.weight * 2.0**FEATURE_BITS, block.map
        if isinstance(one, Lookup):
            return cls(block, np.trunc(one.whole * (weight / 2.0**LEAF_BITS)))
        if isinstance(one, Fourier):
            return cls(block, whole_waves(block.weight * one.scale, FEATURE_BITS))
        return cls(block, np.array([[math.floor(weight)]], dtype=np.float64))

    def of_rows(self, column: ColumnOf, n_rows: int, device: str) -> Tensor:
        """Return the features of rows in whole steps, shape (block's features, n_rows), float64."""
        import torch  # here and below, so that checking questions needs no torch

        one = self.block.map
        if isinstance(one, Fourier):
            return waves_of_rows(one, self.table, column, device)
        if isinstance(one, Lookup):
            return torch.from_numpy(self.table[binned(column(one.column), one.bins)].T).to(device)
        found = np.zeros((self.block.places.size, n_rows))
        axes: tuple[Axis, ...] = one.axes if isinstance(one, OneHot) else ()
        cells = joint_index(PrivateRows(column, n_rows), axes)
        found[cells, np.arange(n_rows)] = self.table[0, 0]
        return torch.from_numpy(found).to(device)


def largest_features(features: FeatureMap) -> NDArray[np.float64]:
    """Return the largest that every feature can be, in steps; shape (features.dimension,)."""
    found = np.zeros(features.dimension)
    for block in features.blocks():
        places = block.places
        if isinstance(block.map, Lookup):
            # Truncation keeps the order of sizes, and this one may be as long as a declared range.
            largest = np.trunc(block.map.largest * (block.weight * 2.0**FEATURE_BITS / 2.0**LEAF_BITS))
        else:
            largest = np.abs(FeatureBlock.of(block).table).max(axis=0)
        found[places] = np.repeat(largest, places.size // largest.size)
    return found


def on_grid(parameters: NDArray[np.float64]) -> NDArray[np.float64]:
    """Round parameters to multiples of 2^-20; numbers too large for that become infinite, and are then refused."""
    with np.errstate(over="ignore"):
        return np.asarray(np.rint(parameters * 2.0**PARAMETER_BITS) / 2.0**PARAMETER_BITS + 0.0)


def largest_prediction(features: FeatureMap, parameters: NDArray[np.float64]) -> float:
    """Return a bound on the predictions of a linear model, or of several models, for any row.

    Parameters
    ----------
    features : FeatureMap
        As those of a gradient.
    parameters : array of shape (features.dimension,), or (features.dimension, n_models)

    Raises
    ------
    PrivacyError
        If the features are of another class.
    """
    require_looked_up(features)
    return float((largest_features(features) @ np.abs(parameters)).max() / 2.0**FEATURE_BITS)


def predictions_of_rows(
    features: FeatureMap, parameters: NDArray[np.float64], column: ColumnOf, n_rows: int
) -> NDArray[np.float64]:
    """Return the predictions of a linear model, in whole steps of 2^-36.

    Parameters
    ----------
    features : FeatureMap
        As those of a gradient.
    parameters : array of shape (features.dimension,), or (features.dimension, n_models)
        Multiples of 2^-20 with which no prediction exceeds 2^14.
    column : callable
        Returns the codes of rows by column.
    n_rows : int

    Returns
    -------
    array of shape (n_rows,), or (n_rows, n_models), float64
        Sums of whole products below 2^50: the same in any order, whatever the other rows.
    """
    whole, found = parameters * 2.0**PARAMETER_BITS, np.zeros((n_rows, *parameters.shape[1:]))
    parts = [FeatureBlock.of(block) for block in features.blocks()]
    # One product of many features takes less time than many narrow ones; wide parts stay separate to save memory.
    sizes = np.array([part.block.places.size for part in parts])
    few = sizes <= _FEATURES_AT_A_TIME
    groups = np.where(few, np.cumsum(sizes * few) // _FEATURES_AT_A_TIME, -1 - np.arange(len(parts)))
    for group in np.unique(groups):
        some = [part for part, own in zip(parts, groups, strict=True) if own == group]
        rows = [part.of_rows(column, n_rows, "cpu").numpy() for part in some]
        side_by_side = np.concatenate(rows) if len(rows) > 1 else rows[0]
        found += side_by_side.T @ whole[np.concatenate([part.block.places for part in some])]
    return found
