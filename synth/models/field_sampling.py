"""Rows of a field, drawn column by column with as little chance as whole rows allow."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from synth.models.field_tables import table_within
from synth.models.junction_tree import JunctionTree, Subset

__all__ = ["sample_tree"]

Whole = NDArray[np.int64]

_GOLDEN = (5.0**0.5 - 1.0) / 2.0


def sample_tree(
    tree: JunctionTree, beliefs: Sequence[NDArray[np.float64]], n_rows: int, random: np.random.Generator
) -> Whole:
    """Draw rows from the root of the tree outwards, each column given those of its clique that are there already.

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
        Rows in random order. Among the rows that agree in the given columns, every value occurs the floor or the
        ceiling of its expected number of times.

    Notes
    -----
    Which of those rows gets which value is left open by the model and is spread evenly, not at random: rows are kept in
    an order that brings similar ones together, and values go round them by steps of the golden section of their
    number. Every run of similar rows then gets every value about as often as it should, so that tables that were never
    measured stray less than they would by chance, while rows that follow one another are never in step with the values.
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
            table = table_within(beliefs[clique], columns, tuple(sorted((*given, column))))
            chances = np.moveaxis(table, sum(one < column for one in given), -1).reshape(-1, tree.sizes[column])
            # Inside a group the newest column counts most for what is similar; of one that is given there is one value.
            newest = tuple(one for one in known[-1:] if one not in given)
            present, counts, keys = _groups(drawn, given, newest, tree.sizes, n_rows)
            order = order[_stable_order(keys[order])] if known else order
            drawn[column][order] = _dealt(chances[present], counts, random).astype(drawn[column].dtype, copy=False)
            known.append(column)
    # Whole columns are written, and read, one after another.
    rows = np.empty((len(drawn), n_rows), dtype=np.int64)
    shuffled = random.permutation(n_rows)
    for position, column_drawn in enumerate(drawn):
        rows[position] = column_drawn[shuffled]
    return rows.T


def _groups(
    drawn: list[NDArray[np.unsignedinteger]], given: Subset, newest: Subset, sizes: tuple[int, ...], n_rows: int
) -> tuple[Whole, Whole, NDArray[np.unsignedinteger]]:
    """Return what rows agree in.

    Returns
    -------
    array of shape (groups,)
        Cell of every combination of given columns that occurs.
    array of shape (groups,)
        Rows of each.
    array of shape (n_rows,)
        A number for every row that ascends with its group and, inside that, with the newest column if there is one.
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
    """Return the stable order of whole numbers, in linear time: those of 16 bits are sorted by their digits."""
    if keys.dtype.itemsize <= 2:
        return np.argsort(keys, kind="stable")
    order = np.argsort(keys.astype(np.uint16), kind="stable")
    for bits in range(16, 8 * keys.dtype.itemsize, 16):
        order = order[np.argsort((keys[order] >> keys.dtype.type(bits)).astype(np.uint16), kind="stable")]
    return order


def _dealt(chances: NDArray[np.float64], counts: Whole, random: np.random.Generator) -> Whole:
    """Return values for rows sorted by group: each group's in proportion, dealt round by steps of the golden section.

    Parameters
    ----------
    chances : array of shape (groups, values)
        Proportions, up to a factor for each group.
    counts : array of shape (groups,)
        Rows in each group, all at least 1.
    random : Generator
    """
    n_groups, n_values = chances.shape
    upper = np.cumsum(chances, axis=1)
    nothing = upper[:, -1:] <= 0
    even = np.arange(1, n_values + 1) / n_values
    upper = np.where(nothing, even, upper / np.where(nothing, 1.0, upper[:, -1:])) * counts[:, None]
    edges = np.floor(upper + random.random((n_groups, 1))).astype(np.int64)
    edges[:, -1] = counts
    repeats = np.diff(np.minimum(edges, counts[:, None]), prepend=0, axis=1)
    values = np.arange(n_values, dtype=np.min_scalar_type(n_values - 1))
    sorted_values = np.repeat(np.tile(values, n_groups), repeats.reshape(-1))
    starts = np.cumsum(counts) - counts
    steps = _coprime_steps(counts)
    shifts = (random.random(n_groups) * counts).astype(np.int64)
    # Row r of a group of m takes its place (shift + r * step) mod m among the group's sorted values.
    rank = np.arange(len(sorted_values)) - np.repeat(starts, counts)
    places = (np.repeat(shifts, counts) + rank * np.repeat(steps, counts)) % np.repeat(counts, counts)
    return np.asarray(sorted_values[np.repeat(starts, counts) + places])


def _coprime_steps(counts: Whole) -> Whole:
    """Return for every number the whole number without common divisor that is nearest to its golden section."""
    wanted = np.maximum(np.rint(counts * _GOLDEN).astype(np.int64), 1)
    steps: Whole = wanted.copy()
    away = 0
    while True:
        bad = np.gcd(steps, counts) != 1
        if not bad.any():
            return steps
        away = -away if away > 0 else 1 - away
        steps[bad] = np.maximum(wanted[bad] + away, 1)
