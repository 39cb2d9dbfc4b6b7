r"""Losses: how wrong a predictor is about a row, a number l from 0 to 1, and its complement 1 - l.

The predictor is public data: a number for each feature, such as the released coefficients of a linear model, or a
number for each bin of a forest. Its prediction is clipped to the range of the target, and

.. math:: l = \Big(\frac{\mathrm{prediction} - \mathrm{target}}{\mathrm{range}}\Big)^2,

rounded to a multiple of 2^-14. What a row adds is (l, 1 - l), of length at most 1, and two rows lie at most sqrt 2
apart: as much as a row of a table of counts may add. It is such a table, with a row divided between two cells. Both
sums together are the number of rows, and the mean loss is the first sum as a part of it.

All arithmetic is whole: features and targets are looked up in public tables of whole numbers, predictions are sums of
whole products below 2^51, which float64 holds in any order, and squares are divided in int64. So a loss follows from
one row and the question, to the last bit.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from synth.errors import PrivacyError
from synth.privacy.costs import Bound
from synth.privacy.counting import ColumnOf, Computed, PrivateRows
from synth.privacy.feature_maps import (
    Arrays,
    Cells,
    ColumnMap,
    FeatureMap,
    Inner,
    Matrix,
    Sums,
    SyntheticCodes,
    binned,
    columns_of,
    frozen,
    kept,
)
from synth.privacy.more.forests import Forest
from synth.privacy.more.linear_predictions import (
    FEATURE_BITS,
    LARGEST_PREDICTION,
    PARAMETER_BITS,
    largest_prediction,
    on_grid,
    predictions_of_rows,
)
from synth.privacy.more.lookups import LEAF_BITS, Lookup
from synth.privacy.questions import name_of

__all__ = ["LOSS_BITS", "Losses", "within_reach"]

LOSS_BITS = 14
"""Losses are multiples of 2^-14."""

ROWS_AT_A_TIME = 2**14


def within_reach(features: FeatureMap, parameters: NDArray[np.float64]) -> NDArray[np.float64]:
    """Scale parameters so that no prediction exceeds 2^14, and a question can be made of any fit.

    Only coefficients that are mostly noise are scaled down, all together: predictions that large are cut off at the
    bounds anyway, and the class of the largest score stays the same.

    Parameters
    ----------
    features : FeatureMap
        As those of a gradient.
    parameters : array of shape (n, features.dimension)
    """
    reach = largest_prediction(features, parameters.T)
    return parameters * min(1.0, 0.99 * LARGEST_PREDICTION / max(reach, 1.0))


@dataclass(frozen=True, slots=True, eq=False)
class Losses(ColumnMap):
    """The loss of a row and its complement: two numbers whose sum is 1.

    Parameters
    ----------
    features : FeatureMap
        A forest; or a constant, lookups, one-hots and Fourier features, or a stack of these.
    parameters : array of shape (features.dimension,)
        The prediction is their product with the features; rounded to multiples of 2^-20.
    target : Lookup
        The number, between -1 and 1, that is to be predicted for every code of a column. Its range is that of the
        table.

    Raises
    ------
    PrivacyError
        If the parts do not fit each other, or all targets are the same number.
    """

    kind: ClassVar[str] = "losses"
    alone: ClassVar[str] = "Losses can be multiplied by tables of counts only; use one per product."

    features: FeatureMap
    parameters: NDArray[np.float64]
    target: Lookup
    key: str = field(init=False, repr=False)
    levels: Lookup = field(init=False, repr=False)
    """Loss and complement of every level, looked up by a calculated column."""

    def __post_init__(self) -> None:
        given = np.array(self.parameters, dtype=np.float64)
        if given.shape != (self.features.dimension,) or not np.isfinite(given).all():
            raise PrivacyError(f"A loss needs {self.features.dimension:,} finite parameters, one for each feature.")
        parameters = on_grid(given)
        forest = type(self.features) is Forest
        reach = float(np.abs(parameters).max()) if forest else largest_prediction(self.features, parameters)
        if not reach <= LARGEST_PREDICTION:
            raise PrivacyError(f"Predictions could reach {reach:.3g}; at most {LARGEST_PREDICTION:g} is possible.")
        if type(self.target) is not Lookup or self.target.dimension != 1:
            raise PrivacyError("The target of a loss must be a lookup of one number per code.")
        if self.target.table.min() == self.target.table.max():
            raise PrivacyError("The target of a loss must have two different numbers at least.")
        object.__setattr__(self, "parameters", frozen(parameters))
        object.__setattr__(self, "key", name_of(self))
        level = np.arange(2**LOSS_BITS + 1) / 2**LOSS_BITS
        object.__setattr__(self, "levels", Lookup(self.key, np.stack([level, 1 - level], axis=1)))

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of features and target."""
        return columns_of(self.inner)

    @property
    def inner(self) -> tuple[FeatureMap, ...]:
        """Features and target."""
        return self.features, self.target

    @property
    def dimension(self) -> int:
        """Two features."""
        return 2

    @property
    def computed(self) -> tuple[Computed, ...]:
        """The loss as a column."""
        return (self,)

    def weighted_bound(self, weight: float, half_bits: int) -> Bound:
        """Return the weight, and sqrt 2 times it for two rows, plus what truncation of weighted entries adds."""
        truncated = 2 * 2.0 ** (-2 * half_bits) * math.sqrt(2) if weight != 1.0 else 0.0
        return Bound(weight, math.sqrt(2) * weight + truncated)

    def sums_by_cell(self, weight: float, rows: PrivateRows, cells: Cells, *, half_bits: int, device: str) -> Sums:
        """Multiply counts of losses by whole-number losses and complements."""
        return self.levels.sums_by_cell(weight, rows, cells, half_bits=half_bits, device=device)

    def cells(self, column: ColumnOf, n_rows: int) -> NDArray[np.uint16]:
        """Return the loss of every row in whole steps of 2^-14.

        Parameters
        ----------
        column : callable
            Returns a column's codes by name, shape (n_rows,).
        n_rows : int

        Returns
        -------
        array of shape (n_rows,), uint16
        """
        columns = {name: column(name) for name in self.columns}
        wanted = self.target.whole[:, 0] * 2.0 ** (FEATURE_BITS + PARAMETER_BITS - LEAF_BITS)
        low, high = float(wanted.min()), float(wanted.max())
        # In steps of 2^-16, of which there are at most 2^17 in a range.
        widest = math.ceil((high - low) / 2**PARAMETER_BITS) ** 2
        found = np.empty(n_rows, dtype=np.uint16)
        for start in range(0, n_rows, ROWS_AT_A_TIME):
            piece = slice(start, min(start + ROWS_AT_A_TIME, n_rows))
            codes = {name: values[piece] for name, values in columns.items()}
            predictions = np.clip(self._predictions(codes, piece.stop - piece.start), low, high)
            truth = wanted[binned(codes[self.target.column], self.target.bins)]
            errors = (np.abs(predictions - truth) // 2.0**PARAMETER_BITS).astype(np.int64)
            # To the nearest step; whole numbers below 2^50.
            found[piece] = ((errors**2 << (LOSS_BITS + 1)) + widest) // (2 * widest)
        return found

    def _predictions(self, codes: Mapping[str, NDArray[Any]], n_rows: int) -> NDArray[np.float64]:
        """Return predictions in whole steps of 2^-36."""
        if isinstance(self.features, Forest):
            steps = self.parameters * 2.0 ** (FEATURE_BITS + PARAMETER_BITS)
            return np.asarray(steps[self.features.cells(codes.__getitem__, n_rows)])
        return predictions_of_rows(self.features, self.parameters, codes.__getitem__, n_rows)

    def evaluate(self, codes: SyntheticCodes) -> Matrix:
        """Return loss and rest of each synthetic row, shape (n_rows, 2)."""
        return np.asarray(self.levels.table[self.cells(codes.__getitem__, len(codes[self.target.column]))])

    def to_json(self, name: str, arrays: Arrays) -> dict[str, Any]:
        """Return features, parameters and target."""
        return {
            "kind": self.kind,
            "features": self.features.to_json(f"{name}.features", arrays),
            "parameters": kept(arrays, f"{name}.parameters", self.parameters),
            "target": self.target.to_json(f"{name}.target", arrays),
        }

    @classmethod
    def from_json(cls, said: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], inner: Inner) -> Self:
        """Make the losses of features, parameters and target."""
        target = inner(said["target"])
        if not isinstance(target, Lookup):
            raise PrivacyError("The target of a loss must be a lookup of one number per code.")
        return cls(inner(said["features"]), arrays[said["parameters"]], target)
