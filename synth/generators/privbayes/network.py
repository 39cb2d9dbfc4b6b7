"""Which sets of columns a column may depend on: as many, and as finely cut, as noise leaves useful."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from synth.generators.adaptive.bins import ColumnBins
from synth.generators.adaptive.coarsening import grouped
from synth.privacy.bins import Bins
from synth.privacy.feature_maps import OneHot
from synth.schema import ModelledColumn

__all__ = ["Families", "Family"]

_PARTS = (16, 8, 4, 2)
"""Maximum number of parts of a parent, finest first, if all of its bins are too many."""

_OWN_PARTS = (0, 16, 8)
"""Maximum number of parts of a column itself, 0 for all of its bins: the coarser, the more parents fit."""

_MOST_CANDIDATES, _FEWEST_CANDIDATES = 20_000, 100
"""Most families that are compared in all rounds together, and in a round in any case; a public draw of more."""


@dataclass(frozen=True, slots=True)
class Family:
    """A column and the columns that it depends on, in parts.

    Attributes
    ----------
    child : int
    parents : tuple of int
    parts : int
        Maximum number of parts of each parent; 0 for all of its bins.
    own_parts : int
        Maximum number of parts of the child; 0 for all of its bins.
    """

    child: int
    parents: tuple[int, ...]
    parts: int
    own_parts: int = 0


class Families:
    """Families of columns whose table has few enough cells.

    Parameters
    ----------
    columns : tuple of ModelledColumn
    bins : sequence of ColumnBins
    cells : float
        Most cells of a table.
    most_parents : int
    seed : int
        Public; draws the families to compare if there are very many.
    """

    def __init__(
        self,
        columns: tuple[ModelledColumn, ...],
        bins: Sequence[ColumnBins],
        *,
        cells: float,
        most_parents: int,
        seed: int,
    ) -> None:
        self._columns, self._bins, self._cells, self._most_parents = columns, bins, cells, most_parents
        self._random = np.random.Generator(np.random.PCG64(seed))
        self._at_once = max(_MOST_CANDIDATES // len(columns), _FEWEST_CANDIDATES)
        # Made once: a column may have millions of codes, and equal binnings are counted once.
        self._of_code = [one.bins for one in bins]
        self._groups: dict[tuple[int, int], tuple[NDArray[np.int32], Bins | None]] = {}
        self._asked: dict[Family, OneHot] = {}

    def groups(self, column: int, parts: int) -> NDArray[np.int32]:
        """Return the part of every bin of a column, shape (bins,); 0 parts are all bins."""
        return self._grouped(column, parts)[0]

    def one_hot(self, family: Family) -> OneHot:
        """Return the question that counts a family: the child's parts, then those of each parent."""
        if family not in self._asked:
            members = (family.child, *family.parents)
            cut = (self._grouped(parent, family.parts)[1] for parent in family.parents)
            self._asked[family] = OneHot(
                columns=tuple(self._columns[d].name for d in members),
                bins=(self._grouped(family.child, family.own_parts)[1], *cut),
                sizes=tuple(self._columns[d].size for d in members),
            )
        return self._asked[family]

    def offered(self, children: Sequence[int], known: Sequence[int]) -> list[Family]:
        """Return the families of columns that are not in the network yet, with parents that are.

        Each set of parents is cut as finely as the table allows. A set is left out if another parent fits beside it:
        that can only raise the score.
        """
        found: list[Family] = []
        # If any other parent fits beside some, so does one of these.
        small = sorted(known, key=lambda d: self._bins[d].size)[: self._most_parents + 1]
        for n_parents in range(1, min(self._most_parents, len(known)) + 1):
            for child, parents in self._sets(children, known, n_parents):
                for own_parts in (parts for parts in _OWN_PARTS if parts < self._bins[child].size):
                    family = self._finest(child, parents, own_parts)
                    if family is not None and not self._has_room(family, small):
                        found.append(family)
        return self._drawn(found)

    def _sets(
        self, children: Sequence[int], known: Sequence[int], n_parents: int
    ) -> Iterator[tuple[int, tuple[int, ...]]]:
        """Yield every child with every set of so many parents, or a public draw of as many as can be compared."""
        ordered, most = sorted(known), 2 * self._at_once
        if len(children) * math.comb(len(ordered), n_parents) <= most:
            yield from itertools.product(children, itertools.combinations(ordered, n_parents))
            return
        drawn: dict[tuple[int, tuple[int, ...]], None] = {}
        for _ in range(most):
            child = children[int(self._random.integers(len(children)))]
            chosen = self._random.choice(len(ordered), n_parents, replace=False)
            drawn[child, tuple(ordered[place] for place in np.sort(chosen))] = None
        yield from drawn

    def _drawn(self, families: list[Family]) -> list[Family]:
        if len(families) <= self._at_once:
            return families
        chosen = self._random.choice(len(families), self._at_once, replace=False)
        return [families[place] for place in np.sort(chosen)]

    def _finest(self, child: int, parents: tuple[int, ...], own_parts: int) -> Family | None:
        """Return the family whose parents are cut as finely as fits, or None if even halves are too many cells."""
        for parts in (0, *_PARTS):
            if self._size(child, parents, parts, own_parts) <= self._cells:
                return Family(child, parents, parts, own_parts)
        return None

    def _has_room(self, family: Family, small: Sequence[int]) -> bool:
        """Whether one of some columns fits beside whole parents as a further one, whole as well."""
        if family.parts or len(family.parents) == self._most_parents:
            return False
        whole = self._size(family.child, family.parents, 0, family.own_parts)
        return any(whole * self._bins[d].size <= self._cells for d in small if d not in family.parents)

    def _size(self, child: int, parents: tuple[int, ...], parts: int, own_parts: int) -> int:
        sizes = (int(self.groups(parent, parts).max()) + 1 for parent in parents)
        return (int(self.groups(child, own_parts).max()) + 1) * math.prod(sizes)

    def _grouped(self, column: int, parts: int) -> tuple[NDArray[np.int32], Bins | None]:
        if (column, parts) not in self._groups:
            one = self._bins[column]
            if not parts or one.size <= parts:
                self._groups[column, parts] = np.arange(one.size, dtype=np.int32), self._of_code[column]
            else:
                group = grouped(one, parts, 0.0)
                self._groups[column, parts] = group, one.grouped(group)
        return self._groups[column, parts]
