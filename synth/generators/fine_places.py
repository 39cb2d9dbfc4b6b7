"""The finest cells in which a column is counted: public, narrow where rows are likely, decided by the schema alone."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from synth.generators.options import check_between
from synth.generators.places import Places, places_of
from synth.schema import ModelledColumn

__all__ = ["OneWayOptions", "fine_places", "place_near_zero"]


@dataclass(frozen=True, slots=True)
class OneWayOptions:
    """How finely columns are counted."""

    grid: int = 2048
    """Most places of a number or date."""

    categories: int = 4096
    """Most places of a category; longer lists share places between neighbouring codes."""

    coarse_part: float = 0.7
    """Part of a number's squared norm for its 32 widest cells; what the three parts leave goes to single places."""

    middle_part: float = 0.2
    """Part of a number's squared norm for the cells in between, where there are any."""

    def __post_init__(self) -> None:
        check_between("grid", self.grid, 16, 2**16)
        check_between("categories", self.categories, 1, 2**16)
        check_between("coarse_part", self.coarse_part, 0.01, 0.9)
        check_between("middle_part", self.middle_part, 0.01, 0.99 - self.coarse_part)


def fine_places(column: ModelledColumn, options: OneWayOptions) -> Places:
    """Return the cells in which a column is counted; decided by the schema and the options alone.

    A grid of more codes than ``options.grid`` has places of two kinds put together: half of equal width, and half that
    widen in proportion to their distance from zero (from the end nearest to zero, where zero is not on the grid), since
    many columns have most of their rows there. Zero and both ends, to which cells from outside move, stand alone.
    """
    equal = places_of(column, grid=options.grid, atoms=options.categories)
    if column.levels <= options.grid:
        return equal
    starts = _grid_starts(column.levels, options.grid, column.code_near_zero)
    first = np.concatenate([starts, equal.first[equal.levels :]])
    return Places(
        levels=len(starts),
        atoms=equal.atoms,
        first=first,
        width=np.diff(np.append(first, column.size)).astype(np.int64),
    )


def place_near_zero(column: ModelledColumn, places: Places) -> int:
    """Return the ordered place of zero, or nearest to it."""
    return int(np.searchsorted(places.first[: places.levels], column.code_near_zero, side="right")) - 1


def _grid_starts(codes: int, most: int, anchor: int) -> NDArray[np.int64]:
    even = (np.arange(most // 2, dtype=np.int64) * codes) // (most // 2)
    above, below = math.log(codes - anchor), math.log(anchor + 1)
    left = max(most - most // 2 - 4, 0)
    widening = [
        np.expm1(np.linspace(0.0, length, int(left * length / (above + below)))).astype(np.int64)
        for length in (above, below)
    ]
    starts = np.concatenate([[0, 1, anchor, codes - 1], even, anchor + 1 + widening[0], anchor - widening[1]])
    return np.unique(np.clip(starts, 0, codes - 1))
