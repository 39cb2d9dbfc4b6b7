r"""Feature maps: what a sum over rows may add up, as public data from a closed set.

A feature map turns one row of codes into a vector of numbers. It is data (tables, whole-number frequencies), never a
function, so that it can hold nothing but what it shows, and so that the session can compute its bounds instead of
believing them. Maps of columns are in ``leaves``, those of whole rows in ``forests`` and ``row_moments``; here they
are stacked and multiplied.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from synth.errors import PrivacyError
from synth.privacy.leaves import (
    STEPS_PER_TURN,
    WEIGHT_BITS,
    Constant,
    Fourier,
    Lookup,
    Matrix,
    OneHot,
    SyntheticCodes,
    angle_steps,
    check_dimension,
)
from synth.privacy.more.forests import Forest
from synth.privacy.more.row_moments import RowMoments

__all__ = [
    "STEPS_PER_TURN",
    "Constant",
    "FeatureMap",
    "Forest",
    "Fourier",
    "Leaf",
    "Lookup",
    "OneHot",
    "Product",
    "RowMoments",
    "Stack",
    "angle_steps",
    "codes_by_name",
]


Leaf = Lookup | OneHot | Forest | Fourier | Constant | RowMoments


@dataclass(frozen=True, slots=True, eq=False)
class Stack:
    """Maps one after another, each times a weight; the squared weights add up to at most 1.

    Weights are truncated towards zero to multiples of 2^-24. What a row adds to one part does not depend on the others.
    """

    parts: tuple[FeatureMap, ...]
    weights: tuple[float, ...]

    def __post_init__(self) -> None:
        parts, weights = tuple(self.parts), tuple(float(weight) for weight in self.weights)
        if not parts or len(parts) != len(weights):
            raise PrivacyError("A stack needs at least one part and one weight per part.")
        if not all(math.isfinite(weight) and weight > 0 for weight in weights):
            raise PrivacyError("The weights of a stack must be positive and finite.")
        weights = tuple(math.floor(weight * 2**WEIGHT_BITS) / 2**WEIGHT_BITS for weight in weights)
        if sum(weight * weight for weight in weights) > 1 + 1e-12 or min(weights) == 0:
            raise PrivacyError(
                "The squared weights of a stack must add up to at most 1, and none may be below 2^-24; "
                f"they add up to {sum(weight * weight for weight in weights):.9g}."
            )
        object.__setattr__(self, "parts", parts)
        object.__setattr__(self, "weights", weights)
        check_dimension(self.dimension)

    @property
    def dimension(self) -> int:
        """Number of features of all parts together."""
        return sum(part.dimension for part in self.parts)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the answer."""
        return (self.dimension,)

    def evaluate(self, codes: SyntheticCodes) -> Matrix:
        """Return the features of made rows, shape (n_rows, dimension); parts in order."""
        blocks = [weight * part.evaluate(codes) for part, weight in zip(self.parts, self.weights, strict=True)]
        return np.concatenate(blocks, axis=1)


@dataclass(frozen=True, slots=True, eq=False)
class Product:
    """The outer product of maps, first factor slowest: every feature of one times every feature of the others.

    Several tables in it are multiplied row by row and number by number in IEEE float64, in the order of the factors,
    and rounded to whole steps before rows are added (``products``): a function of that row's codes alone.
    """

    factors: tuple[FeatureMap, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "factors", tuple(self.factors))
        if not self.factors:
            raise PrivacyError("A product needs at least one factor.")
        check_dimension(self.dimension)

    @property
    def dimension(self) -> int:
        """Product of the factors' numbers of features."""
        return math.prod(factor.dimension for factor in self.factors)

    @property
    def shape(self) -> tuple[int, ...]:
        """The factors' shapes one after another."""
        return tuple(size for factor in self.factors for size in factor.shape)

    def evaluate(self, codes: SyntheticCodes) -> Matrix:
        """Return the features of made rows, shape (n_rows, dimension)."""
        features = self.factors[0].evaluate(codes)
        for factor in self.factors[1:]:
            features = (features[:, :, None] * factor.evaluate(codes)[:, None, :]).reshape(len(features), -1)
        return features


FeatureMap = Leaf | Stack | Product


def codes_by_name(codes: NDArray[Any], names: Sequence[str]) -> dict[str, NDArray[Any]]:
    """Split made rows, shape (n_rows, n_modelled) in ``schema.names`` order, into one array per column."""
    return {name: codes[:, place] for place, name in enumerate(names)}
