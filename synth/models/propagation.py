"""Belief propagation on a junction tree (Koller and Friedman 2009, algorithm 10.2), planned once for many factors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from synth.models.junction_tree import JunctionTree, Subset
from synth.models.sums import summed

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["Calibrated", "Propagation", "sums_within"]

Sizes = Sequence[int] | Mapping[int, int]

Array = TypeVar("Array", NDArray[np.float64], "Tensor")

# What is less than this part of the largest is nothing, but may be divided by.
_NOTHING = 1e-300


@dataclass(frozen=True, slots=True)
class Calibrated(Generic[Array]):
    """What factors make of a tree.

    Attributes
    ----------
    log_normaliser : float
        Logarithm of the sum of the product of all factors.
    beliefs : list of arrays
        Joint proportions of every clique.
    tables : list of arrays
        Proportions of every subset that has a factor.
    """

    log_normaliser: float
    beliefs: list[Array]
    tables: list[Array]


@dataclass(frozen=True, slots=True)
class _Node:
    """A sum of a clique's table.

    Attributes
    ----------
    columns : Subset
    source : int
        Number of the node it is summed from; -1 for the clique's whole table, which is node 0.
    away : tuple of int
        Axes of the source that are summed away.
    spread : tuple of int
        Shape in which it is multiplied into the source.
    """

    columns: Subset
    source: int
    away: tuple[int, ...]
    spread: tuple[int, ...]


class Propagation:
    """Turns logarithmic factors over some subsets of columns into proportions of cliques and of those subsets.

    Sums of a clique share their way: what many of them do without is summed away once. Factors go the same ways
    backwards, so that few of them are ever spread over a whole clique. Columns should ascend in size: whole runs of
    memory are added then.

    Parameters
    ----------
    tree : JunctionTree
    subsets : sequence of Subset
        Each within some clique.
    """

    def __init__(self, tree: JunctionTree, subsets: Sequence[Subset]) -> None:
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
        """Child and node of every edge of a clique to one it shares columns with."""
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

    def __call__(self, factors: Sequence[Array]) -> Calibrated[Array]:
        """Calibrate the tree.

        Parameters
        ----------
        factors : sequence of arrays
            Logarithmic factor of every subset, axes in order of columns.

        Notes
        -----
        A product is scaled by its largest cell before it leaves logarithms, so that nothing overflows, and what
        underflows is nothing.
        """
        tree = self._tree
        log_normaliser = 0.0
        beliefs: list[Array] = [factors[0]] * len(tree.cliques)
        messages: list[Array] = list(beliefs)
        logs: list[Array] = list(beliefs)
        for clique in reversed(tree.order):
            potential = self._gathered(clique, factors, logs)
            top = float(potential.max())
            beliefs[clique] = _exponential(potential - top)
            if tree.separators[clique]:
                messages[clique] = _summed(beliefs[clique], self._up[clique].away).clip(_NOTHING)
                logs[clique] = _logarithm(messages[clique]) + top
            else:
                whole = beliefs[clique].sum()
                log_normaliser += top + float(_logarithm(whole))
                beliefs[clique] /= whole
        tables: list[Array] = [factors[0]] * self._n_subsets
        for clique in tree.order:
            sums = self._sums(clique, beliefs[clique])
            for number, node in self._factors[clique]:
                tables[number] = sums[node]
            for child, node in self._edges[clique]:
                beliefs[child] *= (sums[node] / messages[child]).reshape(self._up[child].spread)
        return Calibrated(log_normaliser, beliefs, tables)

    def _gathered(self, clique: int, factors: Sequence[Array], logs: Sequence[Array]) -> Array:
        """Add up the factors of a clique and what its children say, small tables first."""
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


def sums_within(
    table: NDArray[np.float64], clique: Subset, wanted: Sequence[Subset]
) -> dict[Subset, NDArray[np.float64]]:
    """Sum a clique's table down to many subsets of its columns; sums share their way."""
    sizes = dict(zip(clique, table.shape, strict=True))
    sums = [table]
    nodes = _planned(sizes, clique, wanted)
    for node in nodes[1:]:
        sums.append(_summed(sums[node.source], node.away))
    found = {node.columns: one for node, one in zip(nodes, sums, strict=True)}
    return {subset: found[subset] for subset in wanted}


def _planned(sizes: Sizes, clique: Subset, wanted: Sequence[Subset]) -> list[_Node]:
    """Return the sums that lead from a clique to all wanted subsets, sources first."""
    nodes = [_Node(clique, -1, (), ())]
    waiting = [(0, [one for one in wanted if one != clique])]
    while waiting:
        source, below = waiting.pop()
        inside = nodes[source].columns
        while below:
            # What most of them do without goes first, so that few sums run over the whole source.
            without = max(inside, key=lambda one: (sum(one not in subset for subset in below), sizes[one]))
            group = [subset for subset in below if without not in subset]
            below = [subset for subset in below if without in subset]
            node = _node(sizes, inside, source, tuple(sorted(set().union(*group))))
            waiting.append((len(nodes), [subset for subset in group if subset != node.columns]))
            nodes.append(node)
    return nodes


def _node(sizes: Sizes, inside: Subset, source: int, kept: Subset) -> _Node:
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
