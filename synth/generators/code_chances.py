"""How likely the codes inside a place of a long number are: a factor for each public class of codes.

A grid may have millions of codes, and their classes are few pages of digits that repeat. So sums over codes are added
up page by page, and the code at which a sum is reached is looked for first among pages and then inside one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from synth.errors import InputError
from synth.privacy.bins import PAGE, Bins

__all__ = ["MOST_SINGLE", "CodeChances", "codes_of_classes"]

Vector = NDArray[np.float64]

Whole = NDArray[np.int64]

MOST_SINGLE = 2**16
"""Longest grid in which single codes may be more likely than their class; as long a grid is summed code by code."""


class _Summed(Protocol):
    """The chances of all codes of a grid, added up in their order."""

    def before(self, codes: Whole) -> Vector:
        """Return the sum over all codes before each one; the number of codes is allowed too."""
        ...

    def code_at(self, sums: Vector) -> Whole:
        """Return the code within which the sum reaches each value."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class CodeChances:
    """Relative probabilities of the codes inside a place: a factor for each class.

    Attributes
    ----------
    classes : Bins
        Class of every code of the declared grid.
    factors : array of shape (classes,)
        Positive.
    single, chances : arrays of shape (values,)
        Codes that are more likely than their class, and by which factor.
    fine : bool
        Whether classes distinguish magnitudes.

    Raises
    ------
    InputError
        If a grid of more than 65,536 codes has single ones.
    """

    classes: Bins
    factors: Vector
    single: Whole
    chances: Vector
    fine: bool
    _summed: _Summed = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if self.classes.size > MOST_SINGLE and len(self.single):
            raise InputError("Single codes of a long grid cannot be more likely than their class.")
        object.__setattr__(self, "_summed", self._sums())

    def _sums(self) -> _Summed:
        if self.classes.size <= MOST_SINGLE:
            return _SummedCodes(np.concatenate([[0.0], np.cumsum(self.between(0, self.classes.size))]))
        if self.classes.order is None:
            return _SummedRuns.of(self.classes, self.factors)
        return _SummedPages.of(self.classes, self.classes.order, self.factors)

    def between(self, start: int, end: int) -> Vector:
        """Return the factors of the codes from ``start`` to ``end`` - 1."""
        found = self.factors[self.classes.between(start, end)]
        inside = (self.single >= start) & (self.single < end)
        found[self.single[inside] - start] *= self.chances[inside]
        return found

    def before(self, codes: Whole) -> Vector:
        """Return the sum of the factors of all codes before each one; the number of codes is allowed too."""
        return self._summed.before(codes)

    def code_at(self, sums: Vector) -> Whole:
        """Return the code within which the sum of all factors in order reaches each value."""
        return self._summed.code_at(sums)

    def state(self) -> dict[str, NDArray[Any]]:
        """Return everything that drawing needs beyond the schema."""
        # The classes follow from the column and from whether they distinguish magnitudes.
        apart = np.array([int(self.fine)])
        return {
            "factors": self.factors.copy(),
            "fine": apart,
            "single": self.single.copy(),
            "chances": self.chances.copy(),
        }

    @classmethod
    def of_state(cls, classes: Bins, state: Mapping[str, NDArray[Any]]) -> CodeChances:
        """Rebuild the chances of a column's codes, given the classes that its state speaks of."""
        return cls(
            classes,
            state["factors"].astype(np.float64),
            state["single"].astype(np.int64),
            state["chances"].astype(np.float64),
            bool(state["fine"].reshape(-1)[0]),
        )


@dataclass(frozen=True, slots=True, eq=False)
class _SummedCodes:
    """``added`` is the sum before every code, and the whole."""

    added: Vector

    def before(self, codes: Whole) -> Vector:
        return self.added[codes]

    def code_at(self, sums: Vector) -> Whole:
        return np.searchsorted(self.added, sums, side="right") - 1


@dataclass(frozen=True, slots=True, eq=False)
class _SummedRuns:
    """Runs of codes of one class: ``first`` code, ``factor`` of each of its codes, and the sum ``added`` before it."""

    first: Whole
    factor: Vector
    added: Vector

    @classmethod
    def of(cls, classes: Bins, factors: Vector) -> _SummedRuns:
        first, own = classes.table[0].astype(np.int64), factors[classes.table[1]]
        whole = own * np.diff(first, append=classes.size)
        return cls(first, own, np.concatenate([[0.0], np.cumsum(whole)[:-1]]))

    def before(self, codes: Whole) -> Vector:
        run = np.searchsorted(self.first, codes, side="right") - 1
        return np.asarray(self.added[run] + self.factor[run] * (codes - self.first[run]))

    def code_at(self, sums: Vector) -> Whole:
        run = np.searchsorted(self.added, sums, side="right") - 1
        return np.asarray(self.first[run] + np.floor((sums - self.added[run]) / self.factor[run]).astype(np.int64))


@dataclass(frozen=True, slots=True, eq=False)
class _SummedPages:
    """Pages: which one comes where, the sum ``added`` before each, and the sums ``inside`` it before each code."""

    order: NDArray[np.int32]
    added: Vector
    inside: Vector

    @classmethod
    def of(cls, classes: Bins, order: NDArray[np.int32], factors: Vector) -> _SummedPages:
        inside = np.zeros((len(classes.table), PAGE + 1))
        np.cumsum(factors[classes.table], axis=1, out=inside[:, 1:])
        return cls(order, np.concatenate([[0.0], np.cumsum(inside[order, -1])]), inside)

    def before(self, codes: Whole) -> Vector:
        place, code = np.divmod(codes, PAGE)
        page = self.order[np.minimum(place, len(self.order) - 1)]
        return np.asarray(self.added[place] + np.where(code > 0, self.inside[page, code], 0.0))

    def code_at(self, sums: Vector) -> Whole:
        place = np.clip(np.searchsorted(self.added, sums, side="right") - 1, 0, len(self.order) - 1)
        rest, page = sums - self.added[place], self.order[place]
        found = np.empty(len(sums), dtype=np.int64)
        for one in np.unique(page).tolist():
            mine = page == one
            found[mine] = np.searchsorted(self.inside[one], rest[mine], side="right") - 1
        return np.asarray(place * PAGE + np.minimum(found, PAGE - 1))


def codes_of_classes(classes: Bins, edges: Whole) -> Vector:
    """Return how many codes of each class lie from each edge to the next; shape (edges - 1, classes).

    Parameters
    ----------
    classes : Bins
        Class of every code.
    edges : array of shape (edges,), int64
        Ascending, from 0 to the number of codes.
    """
    ranges, kinds = len(edges) - 1, classes.count
    if classes.order is None:
        first = np.unique(np.concatenate([classes.table[0], edges[:-1]]))
        of_range = np.searchsorted(edges, first, side="right") - 1
        width = np.diff(first, append=classes.size)
        held = np.bincount(of_range * kinds + classes[first], weights=width, minlength=ranges * kinds)
        return held.reshape(ranges, kinds).astype(np.float64)
    pages = np.stack([np.bincount(page, minlength=kinds) for page in classes.table]).astype(np.float64)
    place, inside = np.divmod(edges, PAGE)
    times = [np.searchsorted(np.flatnonzero(classes.order == page), place) for page in range(len(pages))]
    before = np.stack(times, axis=1).astype(np.float64) @ pages
    for edge in np.flatnonzero(inside).tolist():
        begun = classes.table[classes.order[place[edge]], : inside[edge]]
        before[edge] += np.bincount(begun, minlength=kinds)
    return np.diff(before, axis=0)
