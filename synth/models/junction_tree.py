"""Which tables a Markov random field keeps: a junction tree over the sets of columns that were measured."""

from __future__ import annotations

import heapq
import itertools
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

__all__ = ["JunctionTree", "Subset", "cliques_with"]

Subset = tuple[int, ...]
"""Positions of some columns, ascending."""


@dataclass(frozen=True, slots=False, eq=False)
class JunctionTree:
    """Cliques of columns in a tree, such that the cliques that hold a column hang together.

    Attributes
    ----------
    sizes : tuple of int
        Bins of each column.
    cliques : tuple of Subset
        None of them within another; together they hold every column.
    """

    sizes: tuple[int, ...]
    cliques: tuple[Subset, ...]

    @classmethod
    def of(cls, sizes: tuple[int, ...], subsets: Iterable[Subset]) -> JunctionTree:
        """Return a tree in which every one of the subsets lies within some clique."""
        return cls(sizes, tuple(cliques_with(sizes, subsets)))

    @cached_property
    def cells(self) -> int:
        """Number of cells of all cliques' tables together."""
        return sum(map(self.cells_of, self.cliques))

    def cells_of(self, columns: Subset) -> int:
        """Return the number of cells of a table over some columns."""
        return math.prod(self.sizes[column] for column in columns)

    @cached_property
    def parents(self) -> tuple[int, ...]:
        """Parent of every clique, -1 for the first: a spanning tree of the largest separators (Prim's algorithm)."""
        holders: list[list[int]] = [[] for _ in self.sizes]
        for one, clique in enumerate(self.cliques):
            for column in clique:
                holders[column].append(one)
        parents = [-1] + [0] * (len(self.cliques) - 1)
        shared = dict.fromkeys(range(1, len(self.cliques)), 0)
        # Cliques that share nothing with the tree are at home with the first one, and wait behind all others.
        waiting = [(0, one) for one in shared]
        nearest = 0
        while shared:
            overlaps = Counter(one for column in self.cliques[nearest] for one in holders[column])
            for one, overlap in overlaps.items():
                if one in shared and overlap > shared[one]:
                    shared[one], parents[one] = overlap, nearest
                    heapq.heappush(waiting, (-overlap, one))
            while nearest not in shared:
                _, nearest = heapq.heappop(waiting)
            del shared[nearest]
        return tuple(parents)

    @cached_property
    def order(self) -> tuple[int, ...]:
        """Cliques in an order in which parents come before their children."""
        order, waiting = [], [0]
        while waiting:
            clique = waiting.pop()
            order.append(clique)
            waiting.extend(reversed(self.children[clique]))
        return tuple(order)

    @cached_property
    def children(self) -> tuple[tuple[int, ...], ...]:
        """Children of every clique."""
        children: list[list[int]] = [[] for _ in self.cliques]
        for clique, parent in enumerate(self.parents):
            if parent >= 0:
                children[parent].append(clique)
        return tuple(map(tuple, children))

    @cached_property
    def separators(self) -> tuple[Subset, ...]:
        """Columns that every clique shares with its parent; none for the first."""
        return tuple(
            tuple(column for column in clique if parent >= 0 and column in self.cliques[parent])
            for clique, parent in zip(self.cliques, self.parents, strict=True)
        )

    @cached_property
    def growths(self) -> dict[Subset, int]:
        """Bound, for every pair of columns, the cells that a tree gains in which they share a clique.

        One of the columns goes along the path to the other, or, where there is none, both get a clique of their own.
        """
        added = [self._reached_by(column) for column in range(len(self.sizes))]
        growths: dict[Subset, int] = {}
        for first, second in itertools.combinations(range(len(self.sizes)), 2):
            # Either both are reached or neither: a tree hangs together both ways.
            along, back = added[first].get(second), added[second].get(first)
            apart = self.sizes[first] * self.sizes[second]
            growths[first, second] = apart if along is None or back is None else min(along, back)
        return growths

    def _reached_by(self, moved: int) -> dict[int, int]:
        """Return the cells that are added when a column goes along with those it hangs together with, up to each."""
        cells = [self.cells_of(clique) for clique in self.cliques]
        reached = {clique: 0 for clique, columns in enumerate(self.cliques) if moved in columns}
        waiting = list(reached)
        added: dict[int, int] = {}
        for clique in waiting:
            for column in self.cliques[clique]:
                added.setdefault(column, reached[clique])
            above = [self.parents[clique]] if self.separators[clique] else []
            for near in (*above, *(child for child in self.children[clique] if self.separators[child])):
                if near not in reached:
                    reached[near] = reached[clique] + cells[near] * (self.sizes[moved] - 1)
                    waiting.append(near)
        return added

    @cached_property
    def _holding(self) -> list[list[tuple[frozenset[int], int]]]:
        """Cliques that hold a column, smallest first, by column."""
        holding: list[list[tuple[frozenset[int], int]]] = [[] for _ in self.sizes]
        for one in sorted(range(len(self.cliques)), key=lambda one: (self.cells_of(self.cliques[one]), one)):
            for column in self.cliques[one]:
                holding[column].append((frozenset(self.cliques[one]), one))
        return holding

    def home(self, columns: Subset) -> int | None:
        """Return the smallest clique that holds all the columns, at least one, or None."""
        for clique, one in self._holding[columns[0]]:
            if clique.issuperset(columns):
                return one
        return None


def cliques_with(sizes: Sequence[int], subsets: Iterable[Subset]) -> list[Subset]:
    """Return the cliques of a triangulated graph in which the columns of each subset are joined.

    Columns are eliminated greedily, next the one whose table with its neighbours has the fewest cells. Sets of columns
    are whole numbers here, bit d for column d, as this is asked for every candidate of a round.
    """
    neighbours = [0] * len(sizes)
    for subset in subsets:
        joined = sum(1 << column for column in subset)
        for column in subset:
            neighbours[column] |= joined & ~(1 << column)
    logs = [math.log(size) for size in sizes]

    def cost(column: int) -> float:
        return logs[column] + sum(logs[other] for other in _members(neighbours[column]))

    costs = {column: cost(column) for column in range(len(sizes))}
    # Entries that no longer are a column's cost are passed over.
    waiting = [(most, column) for column, most in costs.items()]
    heapq.heapify(waiting)
    found: list[int] = []
    while costs:
        known, column = heapq.heappop(waiting)
        if costs.get(column) != known:
            continue
        del costs[column]
        around = neighbours[column]
        found.append(around | 1 << column)
        for other in _members(around):
            neighbours[other] = (neighbours[other] | around) & ~(1 << other) & ~(1 << column)
        for other in _members(around):
            costs[other] = cost(other)
            heapq.heappush(waiting, (costs[other], other))
    cliques: list[Subset] = []
    holders: list[list[int]] = [[] for _ in sizes]
    # A clique within another one was eliminated after it, as the columns of the other were still there.
    for clique in found:
        members = _members(clique)
        if not any(clique & other == clique for other in holders[members[0]]):
            cliques.append(tuple(members))
            for column in members:
                holders[column].append(clique)
    return cliques


def _members(columns: int) -> list[int]:
    members = []
    while columns:
        lowest = columns & -columns
        members.append(lowest.bit_length() - 1)
        columns ^= lowest
    return members
