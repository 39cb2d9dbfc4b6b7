"""From one row to one unit: how far whatever the promise hides can move an answer.

What one row moves is worked out from the question; a session plans its noise by these numbers, and whoever checks a
bundle works them out again from what the bundle holds.
"""

from __future__ import annotations

from dataclasses import dataclass

from synth.schema import Neighbours, Schema

__all__ = ["Bound", "between_neighbours"]


@dataclass(frozen=True, slots=True)
class Bound:
    """Largest norm of a row's features, and largest distance between the features of two rows."""

    norm: float
    diameter: float


def between_neighbours(row: Bound, schema: Schema) -> float:
    """Turn the bound of one row into that of one unit: the neighbouring factor, here and nowhere else.

    A replaced unit of several rows may come back with fewer; a missing row counts as the zero vector.
    """
    m, replace = schema.unit.rows_per_unit, schema.neighbours is not Neighbours.ADD_REMOVE
    return m * (max(row.diameter, row.norm if m > 1 else 0.0) if replace else row.norm)
