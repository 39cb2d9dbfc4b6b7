"""How far one unit can move an answer: worked out from the question and the declared table, never believed.

A session plans its noise by these numbers; whoever checks a bundle works them out again from what the bundle holds.
"""

from __future__ import annotations

from synth.privacy.bounds import Bound, bound_of
from synth.privacy.calibration import SMALLEST_SENSITIVITY
from synth.privacy.features import FeatureMap
from synth.privacy.terms import terms_of
from synth.schema import Neighbours, Schema

__all__ = ["ONE_SCORE", "between_neighbours", "sensitivity_of_choice", "sensitivity_of_sum"]

ONE_SCORE = Bound(norm=1.0, diameter=2.0)
"""One row changes one count of a candidate by 1, replacing it changes two; the largest weight is scaled to 1."""


def between_neighbours(row: Bound, schema: Schema) -> float:
    """Turn the bound of one row into that of one unit: the neighbouring factor, here and nowhere else.

    A replaced unit of several rows may come back with fewer; a missing row counts as the zero vector.
    """
    m, replace = schema.unit.rows_per_unit, schema.neighbours is not Neighbours.ADD_REMOVE
    return m * (max(row.diameter, row.norm if m > 1 else 0.0) if replace else row.norm)


def sensitivity_of_sum(feature_map: FeatureMap, schema: Schema, *, half_bits: int) -> float:
    """Return the L2 sensitivity of a sum, in units of the answer.

    Parameters
    ----------
    feature_map : FeatureMap
        The question; it fits the schema.
    schema : Schema
        Says which change is hidden, and how many rows a unit has.
    half_bits : int
        The sum is taken on a grid of step 2^-(2 half_bits).

    Raises
    ------
    PrivacyError
        If the map is not one whose bound is known.
    """
    row = bound_of(terms_of(feature_map), half_bits=half_bits)
    return max(between_neighbours(row, schema), SMALLEST_SENSITIVITY)


def sensitivity_of_choice(schema: Schema) -> float:
    """Return how far one unit moves the score of any candidate of a private choice, in rows of weight 1.

    It does not depend on the candidates: their weights are divided by the largest before they are scored.
    """
    return between_neighbours(ONE_SCORE, schema)
