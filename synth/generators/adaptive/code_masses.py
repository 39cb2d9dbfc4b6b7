"""How likely the codes of a column are, added up in their order: for columns of any length.

Codes of a short grid are added up one by one. Where a grid has millions of codes, only its places are, and a code's
part of its place follows from the chances of the codes before it, so memory and time follow what is looked up.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from synth.generators.code_chances import MOST_SINGLE, CodeChances

__all__ = ["SummedMasses", "summed_masses"]

Vector = NDArray[np.float64]

Whole = NDArray[np.int64]


class SummedMasses(Protocol):
    """The masses of all codes of a grid, added up in their order."""

    def before(self, codes: Whole) -> Vector:
        """Return the mass of all codes before each one; the number of codes is allowed too."""
        ...

    def between(self, first: Whole, end: Whole) -> Vector:
        """Return the mass of the codes from ``first`` to ``end`` - 1; never negative if ``first`` <= ``end``."""
        ...

    def code_at(self, sums: Vector) -> Whole:
        """Return the code within which the sum reaches each value; from the whole sum on any code of the last place."""
        ...


def summed_masses(first: Whole, width: Whole, places: Vector, chances: CodeChances | None) -> SummedMasses:
    """Add up the masses of codes.

    Parameters
    ----------
    first, width : arrays of shape (places,), int64
        First code of each place and how many codes it has; places follow each other.
    places : array of shape (places,)
        Mass of each place, not negative.
    chances : CodeChances, optional
        Relative probabilities of codes inside their place; all are equally likely if absent.
    """
    codes = int(width.sum())
    if codes > MOST_SINGLE:
        return _ByPlace.of(first, width, places, chances)
    each = np.ones(codes) if chances is None else chances.between(0, codes)
    masses = each * np.repeat(places / np.add.reduceat(each, first), width)
    return _ByCode(np.concatenate([[0.0], np.cumsum(masses)]))


@dataclass(frozen=True, slots=True, eq=False)
class _ByCode:
    """``added`` is the mass before every code, and the whole."""

    added: Vector

    def before(self, codes: Whole) -> Vector:
        return self.added[codes]

    def between(self, first: Whole, end: Whole) -> Vector:
        return np.asarray(self.added[end] - self.added[first])

    def code_at(self, sums: Vector) -> Whole:
        return np.searchsorted(self.added, sums, side="right") - 1


@dataclass(frozen=True, slots=True, eq=False)
class _ByPlace:
    """Places: the ``first`` code of each and the one after all, the mass ``added`` before these codes, the chances.

    ``low`` are the sums of the chances of all codes before ``first``.
    """

    first: Whole
    added: Vector
    low: Vector
    chances: CodeChances | None

    @classmethod
    def of(cls, first: Whole, width: Whole, places: Vector, chances: CodeChances | None) -> _ByPlace:
        ends = np.append(first, first[-1] + width[-1])
        low = ends.astype(np.float64) if chances is None else chances.before(ends)
        return cls(ends, np.concatenate([[0.0], np.cumsum(places)]), low, chances)

    def before(self, codes: Whole) -> Vector:
        place = np.searchsorted(self.first[1:-1], codes, side="right")
        own = codes if self.chances is None else self.chances.before(codes)
        inside = (own - self.low[place]) / (self.low[place + 1] - self.low[place])
        # Rounding must not lead beyond the next place, so that no range has a negative mass.
        mass = self.added[place + 1] - self.added[place]
        return np.asarray(np.minimum(self.added[place] + inside * mass, self.added[place + 1]))

    def between(self, first: Whole, end: Whole) -> Vector:
        return np.asarray(self.before(end) - self.before(first))

    def code_at(self, sums: Vector) -> Whole:
        place = np.searchsorted(self.added[1:-1], sums, side="right")
        mass = self.added[place + 1] - self.added[place]
        inside = np.divide(sums - self.added[place], mass, out=np.zeros_like(sums), where=mass > 0)
        reached = self.low[place] + inside * (self.low[place + 1] - self.low[place])
        found = np.floor(reached).astype(np.int64) if self.chances is None else self.chances.code_at(reached)
        return np.clip(found, self.first[place], self.first[place + 1] - 1)
