"""Junction trees of sets of columns, chosen from sizes alone."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

Columns = tuple[int, ...]


def _members(mask: int) -> list[int]:
    found = []
    while mask:
        low = mask & -mask
        found.append(low.bit_length() - 1)
        mask ^= low
    return found


def _interaction_graph(n_columns: int, sets: Iterable[Columns]) -> list[int]:
    """Return, for every column, the columns it shares a set with, itself included, as bits."""
    neighbours = [1 << column for column in range(n_columns)]
    for columns in sets:
        mask = sum(1 << column for column in columns)
        for column in columns:
            neighbours[column] |= mask
    return neighbours


def _eliminate(log_sizes: Sequence[float], neighbours: Sequence[int], columns: int) -> list[int]:
    """Eliminate columns, always the one whose clique is smallest; return the maximal cliques as bits."""
    graph = {column: neighbours[column] & columns for column in _members(columns)}
    cost = {column: sum(log_sizes[other] for other in _members(graph[column])) for column in graph}
    cliques: list[int] = []
    while graph:
        column = min(graph, key=lambda each: (cost[each], each))
        clique = graph.pop(column)
        if not any(clique & ~other == 0 for other in cliques):
            cliques.append(clique)
        rest = clique & ~(1 << column)
        for other in _members(rest):
            graph[other] = (graph[other] | rest) & ~(1 << column)
            cost[other] = sum(log_sizes[each] for each in _members(graph[other]))
    return cliques


def maximal_cliques(sizes: Sequence[int], sets: Iterable[Columns]) -> list[Columns]:
    """Return the maximal cliques of a triangulation in which every one of ``sets`` lies inside a clique."""
    everything = (1 << len(sizes)) - 1
    neighbours = _interaction_graph(len(sizes), sets)
    return [tuple(_members(clique)) for clique in _eliminate([math.log(s) for s in sizes], neighbours, everything)]


class ModelSize:
    """How large the junction tree would be with one more measured set."""

    def __init__(self, sizes: Sequence[int], sets: Sequence[Columns]) -> None:
        self._log_sizes = [math.log(size) for size in sizes]
        self._neighbours = _interaction_graph(len(sizes), sets)
        self._component: dict[int, int] = {}
        for column in range(len(sizes)):
            if column not in self._component:
                reached, before = 1 << column, 0
                while reached != before:
                    before = reached
                    for member in _members(reached):
                        reached |= self._neighbours[member]
                for member in _members(reached):
                    self._component[member] = reached
        self._parts = set(self._component.values())
        cliques = {part: _eliminate(self._log_sizes, self._neighbours, part) for part in self._parts}
        self._bytes = {part: self._bytes_of(found) for part, found in cliques.items()}
        self._cliques = [clique for found in cliques.values() for clique in found]

    def _bytes_of(self, cliques: Iterable[int]) -> float:
        return sum(8.0 * math.exp(sum(self._log_sizes[c] for c in _members(clique))) for clique in cliques)

    def is_free(self, columns: Columns) -> bool:
        """Whether the set lies inside a clique already, so that measuring it changes no structure."""
        mask = sum(1 << column for column in columns)
        return any(mask & ~clique == 0 for clique in self._cliques)

    def megabytes_with(self, columns: Columns) -> float:
        """Return the size, in units of 2^20 bytes, of the tree that also holds ``columns`` in a clique."""
        mask = sum(1 << column for column in columns)
        touched = {self._component[column] for column in columns}
        neighbours = list(self._neighbours)
        for column in columns:
            neighbours[column] |= mask
        joined = sum(touched)  # components are disjoint, so the sum of their bits is their union
        untouched = sum(self._bytes[part] for part in self._parts if part not in touched)
        return (untouched + self._bytes_of(_eliminate(self._log_sizes, neighbours, joined))) / 2**20


@dataclass(frozen=True)
class JunctionTree:
    """Cliques in an order in which parents come before children.

    ``parents[k]`` is the position of clique k's parent, -1 for the first one; ``separators[k]`` are the columns that
    the two share, none where the tree merely joins two components.
    """

    cliques: tuple[Columns, ...]
    parents: tuple[int, ...]
    separators: tuple[Columns, ...]


def junction_tree(sizes: Sequence[int], sets: Iterable[Columns]) -> JunctionTree:
    """Join the maximal cliques by a spanning tree of largest separators (Prim)."""
    cliques = maximal_cliques(sizes, sets)
    # Rooted at the largest clique: the root needs no conditional table.
    cliques.sort(key=lambda clique: -math.prod(sizes[column] for column in clique))
    order, parents = [0], [-1]
    link = {k: 0 for k in range(1, len(cliques))}
    while link:
        shared = {k: len(set(cliques[k]) & set(cliques[p])) for k, p in link.items()}
        k = max(link, key=lambda each: (shared[each], -each))
        parents.append(order.index(link.pop(k)))
        order.append(k)
        for other, p in link.items():
            if len(set(cliques[other]) & set(cliques[k])) > len(set(cliques[other]) & set(cliques[p])):
                link[other] = k
    ordered = tuple(cliques[k] for k in order)
    separators = tuple(() if p < 0 else tuple(sorted(set(ordered[k]) & set(ordered[p]))) for k, p in enumerate(parents))
    return JunctionTree(ordered, tuple(parents), separators)
