"""Junction trees: the marginals that a Markov random field keeps, and belief propagation between them.

A tree is built over the sets of columns that were measured. Belief propagation (Koller and Friedman 2009, algorithm
10.2) is planned once for a tree and then run for many factors.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from synth.models.marginals import summed

if TYPE_CHECKING:
    from torch import Tensor

__all__ = [
    "BeliefPropagation",
    "CalibratedTree",
    "ColumnSet",
    "JunctionTree",
    "marginals_within",
    "triangulated_cliques",
]

ColumnSet = tuple[int, ...]
"""Positions of some columns, ascending."""

Sizes = Sequence[int] | Mapping[int, int]

Array = TypeVar("Array", NDArray[np.float64], "Tensor")

# Values are at least this fraction of the largest, so that they can be divided by.
_NOTHING = 1e-300


@dataclass(frozen=True, slots=False, eq=False)
class JunctionTree:
    """Cliques of columns in a tree, such that the cliques that contain a column are connected.

    Attributes
    ----------
    sizes : tuple of int
        Bins of each column.
    cliques : tuple of ColumnSet
        None of them is within another; together they contain every column.
    """

    sizes: tuple[int, ...]
    cliques: tuple[ColumnSet, ...]

    @classmethod
    def of(cls, sizes: tuple[int, ...], subsets: Iterable[ColumnSet]) -> JunctionTree:
        """Return a tree in which each of the subsets is within some clique."""
        return cls(sizes, tuple(triangulated_cliques(sizes, subsets)))

    @cached_property
    def cells(self) -> int:
        """Number of cells of all cliques' tables together."""
        return sum(map(self.cells_of, self.cliques))

    def cells_of(self, columns: ColumnSet) -> int:
        """Return the number of cells of a table over some columns."""
        return math.prod(self.sizes[column] for column in columns)

    @cached_property
    def parents(self) -> tuple[int, ...]:
        """Parent of every clique, -1 for the first: a spanning tree with the largest separators (Prim's algorithm)."""
        holders: list[list[int]] = [[] for _ in self.sizes]
        for one, clique in enumerate(self.cliques):
            for column in clique:
                holders[column].append(one)
        parents = [-1] + [0] * (len(self.cliques) - 1)
        shared = dict.fromkeys(range(1, len(self.cliques)), 0)
        # Cliques that share nothing with the tree have the first one as parent, and come last.
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
        """Cliques in an order with parents before their children."""
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
    def separators(self) -> tuple[ColumnSet, ...]:
        """Columns that every clique shares with its parent; none for the first."""
        return tuple(
            tuple(column for column in clique if parent >= 0 and column in self.cliques[parent])
            for clique, parent in zip(self.cliques, self.parents, strict=True)
        )

    @cached_property
    def growths(self) -> dict[ColumnSet, int]:
        """For every pair of columns, a bound on the cells that are added if they have to share a clique.

        One of the columns is added along the path to the other. If there is no path, both get a clique of their own.
        """
        added = [self._reached_by(column) for column in range(len(self.sizes))]
        growths: dict[ColumnSet, int] = {}
        for first, second in itertools.combinations(range(len(self.sizes)), 2):
            # Either both are reached or neither: paths go both ways.
            along, back = added[first].get(second), added[second].get(first)
            apart = self.sizes[first] * self.sizes[second]
            growths[first, second] = apart if along is None or back is None else min(along, back)
        return growths

    def _reached_by(self, moved: int) -> dict[int, int]:
        """Return the cells that are added if a column is added along the paths to the columns it is connected with."""
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
        """Cliques that contain a column, smallest first, by column."""
        holding: list[list[tuple[frozenset[int], int]]] = [[] for _ in self.sizes]
        for one in sorted(range(len(self.cliques)), key=lambda one: (self.cells_of(self.cliques[one]), one)):
            for column in self.cliques[one]:
                holding[column].append((frozenset(self.cliques[one]), one))
        return holding

    def home(self, columns: ColumnSet) -> int | None:
        """Return the smallest clique that contains all of the columns (at least one), or None."""
        for clique, one in self._holding[columns[0]]:
            if clique.issuperset(columns):
                return one
        return None


def triangulated_cliques(sizes: Sequence[int], subsets: Iterable[ColumnSet]) -> list[ColumnSet]:
    """Return the cliques of a triangulated graph in which the columns of each subset are joined.

    Columns are eliminated greedily: next is the one whose table with its neighbours has the fewest cells. Sets of
    columns are integers here, bit d for column d, as this is called for every candidate of a round.
    """
    neighbours = [0] * len(sizes)
    for subset in subsets:
        joined = sum(1 << column for column in subset)
        for column in subset:
            neighbours[column] |= joined & ~(1 << column)
    logs = [math.log(size) for size in sizes]

    def cost(column: int) -> float:
        return logs[column] + math.fsum(logs[other] for other in _members(neighbours[column]))

    costs = {column: cost(column) for column in range(len(sizes))}
    # Entries that are no longer a column's cost are skipped.
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
    cliques: list[ColumnSet] = []
    holders: list[list[int]] = [[] for _ in sizes]
    # A clique within another one was found after it, as the columns of the other were still there.
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


@dataclass(frozen=True, slots=True)
class CalibratedTree(Generic[Array]):
    """A calibrated tree: the result of belief propagation.

    Attributes
    ----------
    log_normaliser : float, or Tensor of no axes
        Logarithm of the sum of the product of all factors; a tensor if the factors are, so that nothing waits for it.
    beliefs : list of arrays
        Joint proportions of every clique.
    tables : list of arrays
        Proportions of every subset that has a factor.
    """

    log_normaliser: Any
    beliefs: list[Array]
    tables: list[Array]


class BeliefPropagation:
    """Transforms logarithmic factors over some subsets of columns into proportions of cliques and of those subsets.

    Sums of a clique share partial sums: a column that many of them omit is summed out once. Factors are added along the
    same plan backwards, so that few of them are ever spread over a whole clique. Columns should ascend in size, as
    contiguous memory is added then.

    Parameters
    ----------
    tree : JunctionTree
    subsets : sequence of ColumnSet
        Each within some clique.
    """

    def __init__(self, tree: JunctionTree, subsets: Sequence[ColumnSet]) -> None:
        self._tree = tree
        at_home: list[list[int]] = [[] for _ in tree.cliques]
        for number, one in enumerate(subsets):
            home = tree.home(one)
            if home is not None:
                at_home[home].append(number)
        self._nodes: list[list[_Node]] = []
        self._factors: list[list[tuple[int, int]]] = []
        """Subset and node of every factor of a clique."""
        self._edges: list[list[tuple[int, int]]] = []
        """Child and node of every edge of a clique to a child that it shares columns with."""
        for clique, columns in enumerate(tree.cliques):
            own = at_home[clique]
            below = [child for child in tree.children[clique] if tree.separators[child]]
            wanted = {*(subsets[number] for number in own), *(tree.separators[child] for child in below)}
            nodes = _planned(tree.sizes, columns, sorted(wanted))
            place = {node.columns: number for number, node in enumerate(nodes)}
            self._nodes.append(nodes)
            self._factors.append([(number, place[subsets[number]]) for number in own])
            self._edges.append([(child, place[tree.separators[child]]) for child in below])
        self._shapes = [tuple(tree.sizes[column] for column in clique) for clique in tree.cliques]
        # The edge to the parent, as a node of the child.
        self._up = [
            _node(tree.sizes, clique, 0, kept) for clique, kept in zip(tree.cliques, tree.separators, strict=True)
        ]
        self._n_subsets = len(subsets)

    def __call__(self, factors: Sequence[Array]) -> CalibratedTree[Array]:
        """Calibrate the tree.

        Parameters
        ----------
        factors : sequence of arrays
            Logarithmic factor of every subset, axes in order of columns.

        Notes
        -----
        A product is scaled by its largest cell before it is exponentiated, so that nothing overflows, and what
        underflows is negligible.
        """
        tree = self._tree
        log_normaliser: Any = 0.0
        beliefs: list[Array] = [factors[0]] * len(tree.cliques)
        messages: list[Array] = list(beliefs)
        logs: list[Array] = list(beliefs)
        for clique in reversed(tree.order):
            potential = self._gathered(clique, factors, logs)
            top = potential.max()
            beliefs[clique] = _exponential(potential - top)
            if tree.separators[clique]:
                messages[clique] = _summed(beliefs[clique], self._up[clique].away).clip(_NOTHING)
                logs[clique] = _logarithm(messages[clique]) + top
            else:
                whole = beliefs[clique].sum()
                log_normaliser = log_normaliser + top + _logarithm(whole)
                beliefs[clique] /= whole
        tables: list[Array] = [factors[0]] * self._n_subsets
        for clique in tree.order:
            sums = self._sums(clique, beliefs[clique])
            for number, node in self._factors[clique]:
                tables[number] = sums[node]
            for child, node in self._edges[clique]:
                beliefs[child] *= (sums[node] / messages[child]).reshape(self._up[child].spread)
        return CalibratedTree(log_normaliser, beliefs, tables)

    def _gathered(self, clique: int, factors: Sequence[Array], logs: Sequence[Array]) -> Array:
        """Add up the factors of a clique and the messages of its children, small tables first."""
        nodes = self._nodes[clique]
        parts: list[list[Array]] = [[] for _ in nodes]
        for number, node in self._factors[clique]:
            parts[node].append(factors[number])
        for child, node in self._edges[clique]:
            parts[node].append(logs[child])
        for number in range(len(nodes) - 1, 0, -1):
            parts[nodes[number].source].append(_added(parts[number]).reshape(nodes[number].spread))
        whole = parts[0]
        if not whole or np.broadcast_shapes(*(part.shape for part in whole)) != self._shapes[clique]:
            # Some column has no factor here.
            whole.append(_zeros(factors[0], self._shapes[clique]))
        return _added(whole)

    def _sums(self, clique: int, belief: Array) -> list[Array]:
        """Return the sums of a clique's table at all its nodes."""
        sums = [belief]
        for node in self._nodes[clique][1:]:
            sums.append(_summed(sums[node.source], node.away))
        return sums


def marginals_within(
    table: NDArray[np.float64], clique: ColumnSet, wanted: Sequence[ColumnSet]
) -> dict[ColumnSet, NDArray[np.float64]]:
    """Sum a clique's table down to many subsets of its columns, with shared partial sums."""
    sizes = dict(zip(clique, table.shape, strict=True))
    sums = [table]
    nodes = _planned(sizes, clique, wanted)
    for node in nodes[1:]:
        sums.append(_summed(sums[node.source], node.away))
    found = {node.columns: one for node, one in zip(nodes, sums, strict=True)}
    return {subset: found[subset] for subset in wanted}


@dataclass(frozen=True, slots=True)
class _Node:
    """A sum of a clique's table.

    Attributes
    ----------
    columns : ColumnSet
    source : int
        Index of the node that it is summed from; -1 for the clique's whole table, which is node 0.
    away : tuple of int
        Axes of the source that are summed out.
    spread : tuple of int
        Shape with which it broadcasts to the source.
    """

    columns: ColumnSet
    source: int
    away: tuple[int, ...]
    spread: tuple[int, ...]


def _planned(sizes: Sizes, clique: ColumnSet, wanted: Sequence[ColumnSet]) -> list[_Node]:
    """Return the sums that lead from a clique to all wanted subsets, sources first."""
    nodes = [_Node(clique, -1, (), ())]
    waiting = [(0, [one for one in wanted if one != clique])]
    while waiting:
        source, below = waiting.pop()
        inside = nodes[source].columns
        while below:
            # The column that most of them omit is summed out first, so that few sums run over the whole source.
            without = max(inside, key=lambda one: (sum(one not in subset for subset in below), sizes[one]))
            group = [subset for subset in below if without not in subset]
            below = [subset for subset in below if without in subset]
            node = _node(sizes, inside, source, tuple(sorted(set().union(*group))))
            waiting.append((len(nodes), [subset for subset in group if subset != node.columns]))
            nodes.append(node)
    return nodes


def _node(sizes: Sizes, inside: ColumnSet, source: int, kept: ColumnSet) -> _Node:
    away = tuple(axis for axis, column in enumerate(inside) if column not in kept)
    return _Node(kept, source, away, tuple(sizes[column] if column in kept else 1 for column in inside))


def _added(parts: Sequence[Array]) -> Array:
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total


def _zeros(like: Array, shape: tuple[int, ...]) -> Array:
    if isinstance(like, np.ndarray):
        return np.zeros(shape)
    return like.new_zeros(shape)


def _summed(table: Array, away: tuple[int, ...]) -> Array:
    if isinstance(table, np.ndarray):
        return summed(table, away)
    return table.sum(away) if away else table


def _exponential(values: Array) -> Array:
    return np.exp(values, out=values) if isinstance(values, np.ndarray) else values.exp_()


def _logarithm(values: Array) -> Array:
    return np.log(values) if isinstance(values, np.ndarray | float) else values.log()
