"""The class that a linear classifier guesses: coefficients as public data, evaluated in whole numbers.

A class's score is the product of its coefficients with a row's features. Where one row of coefficients is given there
are two classes: the score is that of the second, and the first's is 0. The guess is the class with the largest score
(the first of several), its confidence how far that score lies above the second.

Features are looked up in public tables of whole numbers and scores are sums of whole products below 2^51, which float64
holds in any order; confidences are cut to whole steps of 2^-16. So a row's guess follows from its own codes and the
question, to the last bit, whatever the other rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from synth.errors import PrivacyError
from synth.privacy.counting import ColumnOf
from synth.privacy.feature_maps import Arrays, FeatureMap, Inner, check_dimension, columns_of, frozen, kept
from synth.privacy.more.forests import ROWS_AT_A_TIME, Guess, checked_edges
from synth.privacy.more.linear_predictions import (
    FEATURE_BITS,
    LARGEST_PREDICTION,
    PARAMETER_BITS,
    largest_prediction,
    on_grid,
    predictions_of_rows,
)
from synth.privacy.questions import name_of

__all__ = ["CONFIDENCE_STEPS", "LinearGuess"]

MAXIMUM_CLASSES = 2**8
"""As many as one byte can distinguish, in which guesses are kept."""

CONFIDENCE_STEPS = 2**FEATURE_BITS
"""Whole steps of confidence in a score of 1."""


@dataclass(frozen=True, slots=True, eq=False)
class LinearGuess(Guess):
    """The class that a linear classifier guesses and the bin of its confidence.

    Parameters
    ----------
    features : FeatureMap
        As those of a gradient: a constant, lookups, one-hots and Fourier features, or a stack of these.
    parameters : array of shape (n_classes, features.dimension), or (1, features.dimension) of two classes
        Rounded to multiples of 2^-20.
    edges : array of shape (n_classes, n_bins - 1), int32
        By guessed class, edges of the confidence in steps of 2^-16, none falling.

    Raises
    ------
    PrivacyError
        If the parts do not fit each other, or scores could be so large that they would be rounded.
    """

    kind: ClassVar[str] = "linear-guess"

    features: FeatureMap
    parameters: NDArray[np.float64]
    edges: NDArray[np.int32]
    key: str = field(init=False, repr=False)

    def __post_init__(self) -> None:
        parameters = _checked_parameters(self.parameters, self.features)
        edges = checked_edges(self.edges, max(len(parameters), 2))
        object.__setattr__(self, "parameters", frozen(parameters))
        object.__setattr__(self, "edges", edges)
        object.__setattr__(self, "key", name_of(self))
        check_dimension(self.dimension)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the features."""
        return columns_of(self.inner)

    @property
    def inner(self) -> tuple[FeatureMap, ...]:
        """The features."""
        return (self.features,)

    def guesses(self, column: ColumnOf, n_rows: int) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        """Return the class with the largest score of every row, and how far that lies above the second."""
        columns = {name: column(name) for name in self.columns}
        guesses, confidences = np.empty(n_rows, dtype=np.uint8), np.empty(n_rows, dtype=np.int64)
        for start in range(0, n_rows, ROWS_AT_A_TIME):
            part = slice(start, min(start + ROWS_AT_A_TIME, n_rows))
            codes = {name: values[part] for name, values in columns.items()}
            scores = self._scores(codes, part.stop - part.start)
            guessed = guesses[part] = scores.argmax(axis=1)
            rows = np.arange(len(scores))
            first = scores[rows, guessed]
            scores[rows, guessed] = -np.inf  # the largest of the others is the second
            # A difference of whole numbers below 2^51, divided by a power of two.
            confidences[part] = (first - scores.max(axis=1)) // 2.0**PARAMETER_BITS
        return guesses, confidences

    def _scores(self, codes: Mapping[str, NDArray[Any]], n_rows: int) -> NDArray[np.float64]:
        """Return the score of every class in whole steps of 2^-36; shape (n_rows, n_classes)."""
        scores = predictions_of_rows(self.features, self.parameters.T, codes.__getitem__, n_rows)
        return scores if len(self.parameters) > 1 else np.column_stack([np.zeros(n_rows), scores])

    def to_json(self, name: str, arrays: Arrays) -> dict[str, Any]:
        """Return features, parameters and edges."""
        return {
            "kind": self.kind,
            "features": self.features.to_json(f"{name}.features", arrays),
            "parameters": kept(arrays, f"{name}.parameters", self.parameters),
            "edges": kept(arrays, f"{name}.edges", self.edges),
        }

    @classmethod
    def from_json(cls, said: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], inner: Inner) -> Self:
        """Make the guess of features, parameters and edges."""
        return cls(inner(said["features"]), arrays[said["parameters"]], arrays[said["edges"]])


def _checked_parameters(parameters: ArrayLike, features: FeatureMap) -> NDArray[np.float64]:
    """Return coefficients on their grid, a row for each score.

    Raises
    ------
    PrivacyError
        If they do not fit the features, or could make scores that would be rounded.
    """
    given = np.array(parameters, dtype=np.float64)
    right = given.ndim == 2 and 1 <= len(given) <= MAXIMUM_CLASSES and given.shape[1] == features.dimension
    if not right or not np.isfinite(given).all():
        raise PrivacyError(
            f"A guess needs {features.dimension:,} finite parameters, one for each feature, for each of at most "
            f"{MAXIMUM_CLASSES} classes."
        )
    whole = on_grid(given)
    reach = largest_prediction(features, whole.T)
    if not reach <= LARGEST_PREDICTION:
        raise PrivacyError(f"Scores could reach {reach:.3g}; at most {LARGEST_PREDICTION:g} is possible.")
    return whole
