"""Tables of a field: sums of a clique's belief, and pairs of columns that stand in no common clique."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from synth.models.junction_tree import JunctionTree, Subset
from synth.models.sums import summed

__all__ = ["far_tables", "joint_table", "table_within"]

Table = NDArray[np.float64]


def table_within(belief: Table, clique: Subset, columns: Subset) -> Table:
    """Sum a clique's table down to some of its columns; both ascend, and so do the axes of the answer."""
    return summed(belief, [axis for axis, column in enumerate(clique) if column not in columns])


@dataclass(frozen=True, slots=True, eq=False)
class _Message:
    """What a clique learns over one edge: every outside column's values together with the separator.

    ``table`` has one row for each value of each outside column, then the separator's axes.
    """

    outside: tuple[int, ...]
    separator: Subset
    table: Table


def far_tables(tree: JunctionTree, beliefs: Sequence[Table]) -> dict[Subset, Table]:
    """Return the joint proportions of every pair of columns that lies in no clique.

    Messages run up and down the tree like those of belief propagation, but carry all columns of their side at once, so
    that every edge costs one matrix product instead of one for each pair.
    """
    passing = _Passing(tree, beliefs)
    tables: dict[Subset, Table] = {}
    for column in range(len(tree.sizes)):
        home = next(clique for clique in tree.order if column in tree.cliques[clique])
        for message in passing.arriving(home):
            table = passing.carried(message, home, (column,))
            start = 0
            for other in message.outside:
                end = start + tree.sizes[other]
                if other < column:
                    tables[other, column] = table[start:end]
                start = end
    return tables


def joint_table(tree: JunctionTree, beliefs: Sequence[Table], columns: Subset) -> Table:
    """Return the joint proportions of any few columns: the product of the cliques given their separators, summed out.

    It is worked out anew for every subset, so it is for trees of a few columns.
    """
    operands: list[object] = []
    for clique, belief in enumerate(beliefs):
        given = belief
        if tree.parents[clique] >= 0:
            axes = tuple(d for d, column in enumerate(tree.cliques[clique]) if column not in tree.separators[clique])
            known = belief.sum(axis=axes, keepdims=True)
            given = np.divide(belief, known, out=np.zeros_like(belief), where=known > 0)
        operands += [given, list(tree.cliques[clique])]
    return np.asarray(np.einsum(*operands, list(columns), optimize="greedy"))  # type: ignore[call-overload]


class _Passing:
    """All messages of a calibrated tree."""

    def __init__(self, tree: JunctionTree, beliefs: Sequence[Table]) -> None:
        self.tree, self.beliefs = tree, beliefs
        self.up: dict[int, _Message] = {}
        self.down: dict[int, _Message] = {}
        for clique in reversed(tree.order):
            if tree.parents[clique] >= 0:
                children = [self.up[child] for child in tree.children[clique]]
                self.up[clique] = self._sent(clique, children, tree.separators[clique])
        for clique in tree.order:
            for child in tree.children[clique]:
                others = [one for one in self.arriving(clique) if one is not self.up[child]]
                self.down[child] = self._sent(clique, others, tree.separators[child])

    def arriving(self, clique: int) -> list[_Message]:
        """Return the messages over all edges of a clique."""
        above = [self.down[clique]] if self.tree.parents[clique] >= 0 else []
        return above + [self.up[child] for child in self.tree.children[clique]]

    def carried(self, message: _Message, clique: int, columns: Subset) -> Table:
        """Turn a message into the joint proportions of the outside values and some columns of the clique."""
        separator = message.separator
        if set(columns) <= set(separator):
            return summed(message.table, [1 + axis for axis, one in enumerate(separator) if one not in columns])
        inside = self.tree.cliques[clique]
        both = tuple(column for column in inside if column in separator or column in columns)
        joint = table_within(self.beliefs[clique], inside, both)
        known = table_within(joint, both, separator)
        shape = [self.tree.sizes[column] if column in separator else 1 for column in both]
        given = joint * np.divide(1.0, known, out=np.zeros_like(known), where=known > 0).reshape(shape)
        return self._product(message, both, given, columns)

    def _product(self, message: _Message, both: Subset, given: Table, columns: Subset) -> Table:
        """Multiply a message by what some columns are given its separator, and sum out what is not asked for."""
        sizes = self.tree.sizes
        kept = [column for column in message.separator if column in columns]
        lost = [column for column in message.separator if column not in columns]
        new = [column for column in columns if column not in message.separator]
        axis = {column: 1 + place for place, column in enumerate(message.separator)}
        left = message.table.transpose([*(axis[column] for column in kept), 0, *(axis[column] for column in lost)])
        right = given.transpose([both.index(column) for column in (*kept, *lost, *new)])
        n_kept, n_lost, n_new = (math.prod(sizes[column] for column in each) for each in (kept, lost, new))
        product = left.reshape(n_kept, -1, n_lost) @ right.reshape(n_kept, n_lost, n_new)
        shaped = product.reshape([*(sizes[column] for column in kept), -1, *(sizes[column] for column in new)])
        order = [*kept, None, *new]
        return shaped.transpose([order.index(column) for column in (None, *columns)])

    def _sent(self, clique: int, messages: list[_Message], separator: Subset) -> _Message:
        inside = self.tree.cliques[clique]
        own = tuple(column for column in inside if column not in separator)
        shape = [self.tree.sizes[column] for column in separator]
        parts = []
        for column in own:
            both = tuple(sorted((column, *separator)))
            table = table_within(self.beliefs[clique], inside, both)
            parts.append(np.moveaxis(table, both.index(column), 0).reshape([self.tree.sizes[column], *shape]))
        parts.extend(self.carried(message, clique, separator) for message in messages)
        outside = own + tuple(column for message in messages for column in message.outside)
        return _Message(outside, separator, np.concatenate(parts) if parts else np.zeros([0, *shape]))
