"""A Markov random field over binned columns: its marginals, within and across cliques, and rows drawn from it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from synth.models.junction_tree import ColumnSet, JunctionTree, marginals_within
from synth.models.marginals import summed

__all__ = ["MarkovRandomField", "marginal_across_cliques", "marginal_within", "pairs_across_cliques", "sample_tree"]

Table = NDArray[np.float64]

Whole = NDArray[np.int64]

_GOLDEN = (5.0**0.5 - 1.0) / 2.0


@dataclass(frozen=True, slots=True, eq=False)
class MarkovRandomField:
    r"""A joint distribution that factors over the cliques of a junction tree.

    .. math:: p(x) = \prod_c b_c(x_c) / \prod_s b_s(x_s)

    with the beliefs b_c of cliques c and their sums b_s over separators s (Koller and Friedman 2009, section 10.2).

    Attributes
    ----------
    tree : JunctionTree
    beliefs : tuple of arrays, float64
        Joint proportions of every clique, axes in order of columns; neighbours agree on their shared columns.
    weights : mapping of questions to arrays
        Logarithmic factors of the tables that it was fitted to, by ``key``; a later fit starts from them.
    """

    tree: JunctionTree
    beliefs: tuple[NDArray[np.float64], ...]
    weights: Mapping[tuple[int | bytes, ...], NDArray[np.float64]] = field(default_factory=dict, repr=False)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Bins of each column."""
        return self.tree.sizes

    def marginal(self, columns: ColumnSet) -> NDArray[np.float64]:
        """Return the proportions of a few columns, shape (bins of each), sum 1; columns ascend.

        Any columns; for more than two it is fastest if they are within one clique.
        """
        home = self.tree.home(columns)
        if home is None:
            return self.tables([columns])[columns]
        return marginal_within(self.beliefs[home], self.tree.cliques[home], columns)

    def tables(self, subsets: Sequence[ColumnSet]) -> dict[ColumnSet, NDArray[np.float64]]:
        """Return the proportions of many pairs of columns, and of more columns within a clique, at once.

        Larger subsets that are not within a clique are computed one by one, for tables of a few columns.
        """
        near: dict[int, list[ColumnSet]] = {}
        far: list[ColumnSet] = []
        tables: dict[ColumnSet, NDArray[np.float64]] = {}
        for subset in subsets:
            home = self.tree.home(subset)
            if home is not None:
                near.setdefault(home, []).append(subset)
            elif len(subset) == 2:
                far.append(subset)
            else:
                tables[subset] = marginal_across_cliques(self.tree, self.beliefs, subset)
        for home, inside in near.items():
            tables.update(marginals_within(self.beliefs[home], self.tree.cliques[home], inside))
        if far:
            apart = pairs_across_cliques(self.tree, self.beliefs)
            tables.update({pair: apart[pair] for pair in far})
        return tables

    def sample(self, n_rows: int, random: np.random.Generator) -> NDArray[np.int64]:
        """Return rows of bins, shape (n_rows, number of columns), in random order."""
        return sample_tree(self.tree, self.beliefs, n_rows, random)

    def state(self) -> dict[str, NDArray[np.float64]]:
        """Return the beliefs by the columns of their cliques."""
        names = (".".join(map(str, clique)) for clique in self.tree.cliques)
        return {f"clique.{name}": belief for name, belief in zip(names, self.beliefs, strict=True)}

    @classmethod
    def from_state(cls, sizes: tuple[int, ...], state: Mapping[str, NDArray[np.float64]]) -> MarkovRandomField:
        """Return the field of a state; it samples the same bytes from the same random source."""
        # A file may contain its tensors in any order; cliques are always sorted.
        cliques = {tuple(map(int, name.split(".")[1:])): np.ascontiguousarray(one) for name, one in state.items()}
        ordered = tuple(sorted(cliques))
        return cls(JunctionTree(sizes, ordered), tuple(cliques[clique] for clique in ordered))


def marginal_within(belief: Table, clique: ColumnSet, columns: ColumnSet) -> Table:
    """Sum a clique's table down to some of its columns; both ascend, and so do the axes of the result."""
    return summed(belief, [axis for axis, column in enumerate(clique) if column not in columns])


def marginal_across_cliques(tree: JunctionTree, beliefs: Sequence[Table], columns: ColumnSet) -> Table:
    """Return the joint proportions of any few columns: the product of the cliques given their separators, summed out.

    It is computed from scratch for every subset, so it is meant for trees of a few columns.
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


def pairs_across_cliques(tree: JunctionTree, beliefs: Sequence[Table]) -> dict[ColumnSet, Table]:
    """Return the joint proportions of every pair of columns that is not within a clique.

    Messages run up and down the tree like those of belief propagation, but carry all columns of their side at once, so
    that every edge costs one matrix product instead of one for each pair.
    """
    passing = _Passing(tree, beliefs)
    tables: dict[ColumnSet, Table] = {}
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


@dataclass(frozen=True, slots=True, eq=False)
class _Message:
    """A message to a clique over one edge: every outside column's values, jointly with the separator.

    ``table`` has one row for each value of each outside column, then the separator's axes.
    """

    outside: tuple[int, ...]
    separator: ColumnSet
    table: Table


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

    def carried(self, message: _Message, clique: int, columns: ColumnSet) -> Table:
        """Transform a message into the joint proportions of the outside values and some columns of the clique."""
        separator = message.separator
        if set(columns) <= set(separator):
            return summed(message.table, [1 + axis for axis, one in enumerate(separator) if one not in columns])
        inside = self.tree.cliques[clique]
        both = tuple(column for column in inside if column in separator or column in columns)
        joint = marginal_within(self.beliefs[clique], inside, both)
        known = marginal_within(joint, both, separator)
        shape = [self.tree.sizes[column] if column in separator else 1 for column in both]
        given = joint * np.divide(1.0, known, out=np.zeros_like(known), where=known > 0).reshape(shape)
        return self._product(message, both, given, columns)

    def _product(self, message: _Message, both: ColumnSet, given: Table, columns: ColumnSet) -> Table:
        """Multiply a message by the distribution of some columns given its separator, and sum out the others."""
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

    def _sent(self, clique: int, messages: list[_Message], separator: ColumnSet) -> _Message:
        inside = self.tree.cliques[clique]
        own = tuple(column for column in inside if column not in separator)
        shape = [self.tree.sizes[column] for column in separator]
        parts = []
        for column in own:
            both = tuple(sorted((column, *separator)))
            table = marginal_within(self.beliefs[clique], inside, both)
            parts.append(np.moveaxis(table, both.index(column), 0).reshape([self.tree.sizes[column], *shape]))
        parts.extend(self.carried(message, clique, separator) for message in messages)
        outside = own + tuple(column for message in messages for column in message.outside)
        return _Message(outside, separator, np.concatenate(parts) if parts else np.zeros([0, *shape]))


def sample_tree(
    tree: JunctionTree, beliefs: Sequence[NDArray[np.float64]], n_rows: int, random: np.random.Generator
) -> Whole:
    """Draw rows from the root of the tree outwards, each column given those of its clique that are already drawn.

    Parameters
    ----------
    tree : JunctionTree
    beliefs : sequence of arrays
        Joint proportions of every clique.
    n_rows : int
    random : Generator

    Returns
    -------
    array of shape (n_rows, number of columns), int64
        Rows in random order. Among the rows with the same values of the given columns, every value occurs about its
        expected number of times, and what some of these groups have rounded up, the next ones round down.

    Notes
    -----
    The model does not determine which of those rows gets which value; values are spread evenly, not at random. Rows are
    kept in an order with similar rows together, and values are dealt to them in steps of the golden section of their
    number. Every run of similar rows then gets every value about as often as expected, so that tables that were never
    measured have smaller errors than by chance, while consecutive rows are never in step with the values.
    """
    drawn = [np.zeros(n_rows, dtype=np.min_scalar_type(size - 1)) for size in tree.sizes]
    order = np.arange(n_rows)
    known: list[int] = []
    for clique in tree.order:
        columns = tree.cliques[clique]
        for column in columns:
            if column in known:
                continue
            given = tuple(one for one in columns if one in known)
            table = marginal_within(beliefs[clique], columns, tuple(sorted((*given, column))))
            chances = np.moveaxis(table, sum(one < column for one in given), -1).reshape(-1, tree.sizes[column])
            # Within a group the newest column matters most for similarity; a given column has a single value there.
            newest = tuple(one for one in known[-1:] if one not in given)
            present, counts, keys = _groups(drawn, given, newest, tree.sizes, n_rows)
            order = order[_stable_order(keys[order])] if known else order
            drawn[column][order] = _dealt(chances[present], counts, random).astype(drawn[column].dtype, copy=False)
            known.append(column)
    # Columns are written, and read, one after another; a wide table's bins are let go as they are written.
    rows = np.empty((len(drawn), n_rows), dtype=np.int64)
    shuffled = random.permutation(n_rows)
    for position in range(len(drawn)):
        rows[position] = drawn[position][shuffled]
        drawn[position] = drawn[position][:0].copy()
    return rows.T


def _groups(
    drawn: list[NDArray[np.unsignedinteger]], given: ColumnSet, newest: ColumnSet, sizes: tuple[int, ...], n_rows: int
) -> tuple[Whole, Whole, NDArray[np.unsignedinteger]]:
    """Group rows by their given columns.

    Returns
    -------
    array of shape (groups,)
        Cell of every combination of given columns that occurs.
    array of shape (groups,)
        Rows in each group.
    array of shape (n_rows,)
        A number for every row that ascends with its group and, within it, with the newest column if there is one.
    """
    cells = math.prod(sizes[column] for column in given)
    flat: NDArray[np.unsignedinteger] = np.zeros(n_rows, dtype=np.min_scalar_type(cells))
    for column in given:
        flat *= flat.dtype.type(sizes[column])
        flat += drawn[column]
    counts = np.bincount(flat, minlength=cells)
    present = np.flatnonzero(counts)
    step = math.prod(sizes[column] for column in newest)
    numbers = np.zeros(cells, dtype=np.min_scalar_type(len(present) * step - 1))
    numbers[present] = step * np.arange(len(present))
    keys = numbers[flat]
    for column in newest:
        keys += drawn[column]
    return present, counts[present], keys


def _stable_order(keys: NDArray[np.unsignedinteger]) -> Whole:
    """Return the stable order of integers, in linear time: integers of 16 bits are radix sorted."""
    if keys.dtype.itemsize <= 2:
        return np.argsort(keys, kind="stable")
    order = np.argsort(keys.astype(np.uint16), kind="stable")
    for bits in range(16, 8 * keys.dtype.itemsize, 16):
        order = order[np.argsort((keys[order] >> keys.dtype.type(bits)).astype(np.uint16), kind="stable")]
    return order


def _dealt(chances: NDArray[np.float64], counts: Whole, random: np.random.Generator) -> Whole:
    """Return values for rows sorted by group: in proportion in each group, dealt in steps of the golden section.

    Parameters
    ----------
    chances : array of shape (groups, values)
        Proportions, up to a factor for each group.
    counts : array of shape (groups,)
        Rows in each group, all at least 1.
    random : Generator
    """
    n_groups, n_values = chances.shape
    repeats = _apportioned(chances, counts, random)
    values = np.arange(n_values, dtype=np.min_scalar_type(n_values - 1))
    sorted_values = np.repeat(np.tile(values, n_groups), repeats.reshape(-1))
    starts = np.cumsum(counts) - counts
    steps = _coprime_steps(counts)
    shifts = (random.random(n_groups) * counts).astype(np.int64)
    # Row r of a group of m takes the value at (shift + r * step) mod m among the group's sorted values.
    rank = np.arange(len(sorted_values)) - np.repeat(starts, counts)
    places = (np.repeat(shifts, counts) + rank * np.repeat(steps, counts)) % np.repeat(counts, counts)
    return np.asarray(sorted_values[np.repeat(starts, counts) + places])


def _apportioned(chances: NDArray[np.float64], counts: Whole, random: np.random.Generator) -> Whole:
    """Return how many rows of each group get each value, shape (groups, values): about their expected numbers.

    Values are divided into two halves again and again. At each division, a group gives the floor or the ceiling of the
    expected number of its rows to either half, and so do all groups up to it together: what one group has rounded up,
    the next ones round down (systematic sampling).
    """
    n_groups, n_values = chances.shape
    levels = (n_values - 1).bit_length()
    known = np.where(chances.sum(axis=1, keepdims=True) > 0, chances, 1.0)
    masses = [np.pad(known, ((0, 0), (0, (1 << levels) - n_values)))]
    for _ in range(levels):
        masses.append(masses[-1][:, ::2] + masses[-1][:, 1::2])
    held = counts[:, None]
    for mass in masses[-2::-1]:
        left, right = mass[:, ::2], mass[:, 1::2]
        both = left + right
        share = np.divide(left, both, out=np.zeros(left.shape), where=both > 0)
        reached = np.floor(np.cumsum(held * share, axis=0) + random.random(share.shape[1]))
        first = np.clip(np.diff(reached, prepend=0.0, axis=0).astype(np.int64), 0, held)
        # Exactly: a rounded sum must not give a row to a half that cannot have one.
        first = np.where(left > 0, np.where(right > 0, first, held), 0)
        held = np.stack([first, held - first], axis=2).reshape(n_groups, -1)
    return np.asarray(held[:, :n_values])


def _coprime_steps(counts: Whole) -> Whole:
    """Return for every number the coprime integer that is nearest to its golden section."""
    wanted = np.maximum(np.rint(counts * _GOLDEN).astype(np.int64), 1)
    steps: Whole = wanted.copy()
    away = 0
    while True:
        bad = np.gcd(steps, counts) != 1
        if not bad.any():
            return steps
        away = -away if away > 0 else 1 - away
        steps[bad] = np.maximum(wanted[bad] + away, 1)
