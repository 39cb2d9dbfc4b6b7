"""Private-PGM: a Markov random field fitted to noisy tables by mirror descent (McKenna 2019, arXiv 1901.09136).

The field's parameters are one table per maximal measured set. Every iteration works the marginals of the junction
tree's cliques out exactly: messages go up in log space, and each clique keeps the conditional distribution of its own
columns given its separator, so that the way down only multiplies probabilities. That takes one exponential per cell.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from junction_tree import Columns, JunctionTree, junction_tree
from numpy.typing import NDArray

Table = NDArray[np.float64]

SAFE_RANGE = 600.0
"""Differences of log values below this leave every exponential a normal number, whatever it is summed with."""


@dataclass(frozen=True)
class Measurement:
    """Noisy counts of the cells of a few columns (ascending), and the standard deviation of a count's noise.

    One for all cells, or one for each.
    """

    columns: Columns
    table: Table
    noise_std: float | Table


def _axes_without(clique: Columns, kept: Columns) -> tuple[int, ...]:
    return tuple(axis for axis, column in enumerate(clique) if column not in kept)


class _Layout:
    """Where every measured set lives in the tree; worked out anew when a set is added."""

    def __init__(self, sizes: tuple[int, ...], sets: list[Columns]) -> None:
        self.sizes = sizes
        self.tree: JunctionTree = junction_tree(sizes, sets)
        members = {columns: frozenset(columns) for columns in sets}
        self.maximal = [r for r in sets if not any(members[r] < members[other] for other in sets)]
        by_size = sorted(self.maximal, key=lambda r: math.prod(sizes[c] for c in r))
        self.container = {r: next(m for m in by_size if members[r] <= members[m]) for r in sets}
        cliques = self.tree.cliques
        smallest = sorted(range(len(cliques)), key=lambda k: math.prod(sizes[c] for c in cliques[k]))
        self.home = {m: next(k for k in smallest if set(m) <= set(cliques[k])) for m in self.maximal}
        self.living = [[m for m in self.maximal if self.home[m] == k] for k in range(len(cliques))]
        self.shapes = [tuple(sizes[c] for c in clique) for clique in cliques]
        self.neighbours: list[list[int]] = [[] for _ in cliques]
        for k, parent in enumerate(self.tree.parents[1:], start=1):
            self.neighbours[k].append(parent)
            self.neighbours[parent].append(k)
        self.buffers = [np.zeros(shape) for shape in self.shapes]

        self._behind: dict[tuple[int, int], frozenset[int]] = {}

    def separator(self, k: int, other: int) -> Columns:
        """Return what two neighbouring cliques share."""
        return self.tree.separators[k if self.tree.parents[k] == other else other]

    def behind(self, k: int, towards: int) -> frozenset[int]:
        """Return the columns of the part of the tree that hangs on clique k, seen from its neighbour ``towards``."""
        if (k, towards) not in self._behind:
            parts = [self.behind(other, k) for other in self.neighbours[k] if other != towards]
            self._behind[k, towards] = frozenset(self.tree.cliques[k]).union(*parts)
        return self._behind[k, towards]

    def shape_in(self, columns: Columns, within: Columns) -> tuple[int, ...]:
        """Return the shape that spreads a table of ``columns`` over the axes of ``within``."""
        return tuple(self.sizes[c] if c in columns else 1 for c in within)


class GraphicalModel:
    """The field of maximum entropy among those nearest to all measurements, as far as mirror descent has come.

    Parameters
    ----------
    sizes : tuple of int
        Number of codes of every column.
    total : float, optional
        Number of rows, where it is public; otherwise it is estimated from the measurements.

    Attributes
    ----------
    parameters : dict
        One table of logarithms per maximal measured set; the joint distribution is proportional to the exponential of
        their sum.
    """

    def __init__(self, sizes: tuple[int, ...], total: float | None = None) -> None:
        self.sizes = sizes
        self.total = total or 1.0
        self._total_is_public = total is not None
        self._merged: dict[Columns, tuple[Table, Table]] = {}
        self.parameters: dict[Columns, Table] = {}
        self._layout: _Layout | None = None
        self._totals = [0.0, 0.0]
        self._step: float | None = None
        self._projected: dict[tuple[int, Columns], Table] = {}

    @property
    def measured(self) -> list[Columns]:
        """Every set measured so far, once."""
        return list(self._merged)

    @property
    def cliques(self) -> tuple[Columns, ...]:
        """The cliques of the junction tree."""
        return self._laid_out().tree.cliques

    def add(self, measurement: Measurement) -> None:
        """Take a measurement in; those of one set are averaged by precision, which leaves the squared loss the same."""
        columns, precision = measurement.columns, np.asarray(measurement.noise_std) ** -2.0
        if columns in self._merged:
            before, table = self._merged[columns]
            weight = precision / (precision + before)
            self._merged[columns] = (before + precision, table + weight * (measurement.table - table))
        else:
            self._merged[columns] = (precision, measurement.table)
            self._layout = None
        if not self._total_is_public:
            precision_of_sum = 1.0 / float(np.broadcast_to(1.0 / precision, measurement.table.shape).sum())
            self._totals[0] += precision_of_sum * float(measurement.table.sum())
            self._totals[1] += precision_of_sum
            self.total = max(1.0, self._totals[0] / self._totals[1])

    def fit(self, iterations: int) -> None:
        """Run mirror descent with a line search from the parameters of the fit before.

        A step that is accepted at once is doubled for the next iteration; one that is refused is halved, 24 times at
        most: beyond that the loss no longer changes in floating point.
        """
        layout = self._laid_out()
        self._projected = {}
        marginals = self._propagate(self.parameters)
        loss, slopes = self._loss(marginals)
        # The loss is smooth with the sum of precisions, the largest of each table, in the distance of total variation:
        # this step is always safe.
        safest = 1.0 / (self.total * sum(float(precision.max()) for precision, _ in self._merged.values()))
        step, grow = self._step or 2.0 * safest, True
        for _ in range(iterations):
            directions = self._on_maximal(slopes)
            step *= 2.0 if grow else 1.0
            first_step = step
            for _ in range(25):
                trial = {m: self.parameters[m] - step * directions[m] for m in layout.maximal}
                reached = self._propagate(trial)
                new_loss, new_slopes = self._loss(reached)
                promised = sum(float(np.vdot(slopes[r], marginals[r] - reached[r])) for r in self._merged) * self.total
                if loss - new_loss >= 0.5 * promised:
                    break
                step *= 0.5
            grow = step == first_step
            self.parameters, marginals, loss, slopes = trial, reached, new_loss, new_slopes
        self._step = step

    def marginal(self, columns: Columns) -> Table:
        """Return the proportions of a few columns, ascending; any set, inside a clique or not."""
        cliques = self._laid_out().tree.cliques
        inside = [k for k, clique in enumerate(cliques) if set(columns) <= set(clique)]
        if inside:
            return self._projection(min(inside, key=lambda k: self._layout.buffers[k].size), columns)
        root = max(range(len(cliques)), key=lambda k: len(set(cliques[k]) & set(columns)))
        labels, table = self._collect(root, -1, frozenset(columns))
        return table.transpose([labels.index(column) for column in columns])

    def sample(self, n_rows: int, random: np.random.Generator) -> NDArray[np.int64]:
        """Draw rows column by column along the tree, counts within a group rounded to a whole number either side.

        Rows of a group get their values in random order: in any fixed order, columns that are independent given the
        group would come out sorted together.
        """
        rows = np.zeros((n_rows, len(self.sizes)), dtype=np.int64)
        tree = self._laid_out().tree
        for k, clique in enumerate(tree.cliques):
            given = tree.separators[k]
            for column in clique:
                if column in given:
                    continue
                labels = tuple(sorted((*given, column)))
                table = np.moveaxis(self._projection(k, labels), labels.index(column), -1)
                sizes = [self.sizes[c] for c in given]
                group = np.ravel_multi_index([rows[:, c] for c in given], sizes) if given else np.zeros(n_rows, int)
                rows[:, column] = _drawn(table.reshape(-1, self.sizes[column]), group, random)
                given = tuple(sorted((*given, column)))
        return rows

    def _laid_out(self) -> _Layout:
        if self._layout is None:
            layout = _Layout(self.sizes, list(self._merged))
            grown = {m: np.zeros([self.sizes[c] for c in m]) for m in layout.maximal}
            for columns, table in self.parameters.items():
                holder = layout.container[columns]
                grown[holder] += table.reshape(layout.shape_in(columns, holder))
            self._layout, self.parameters = layout, grown
        return self._layout

    def _on_maximal(self, slopes: dict[Columns, Table]) -> dict[Columns, Table]:
        layout = self._laid_out()
        gathered = {m: slopes[m].copy() for m in layout.maximal}
        for r, slope in slopes.items():
            holder = layout.container[r]
            if r != holder:
                gathered[holder] += slope.reshape(layout.shape_in(r, holder))
        return gathered

    def _loss(self, marginals: dict[Columns, Table]) -> tuple[float, dict[Columns, Table]]:
        loss, slopes = 0.0, {}
        for r, (precision, table) in self._merged.items():
            missed = self.total * marginals[r] - table
            slopes[r] = precision * missed
            loss += 0.5 * float(np.vdot(missed, slopes[r]))
        return loss, slopes

    def _propagate(self, parameters: dict[Columns, Table]) -> dict[Columns, Table]:
        """Leave the marginals of all cliques in the buffers; return those of the measured sets."""
        layout = self._laid_out()
        tree, buffers = layout.tree, layout.buffers
        for k, clique in enumerate(tree.cliques):
            first, *others = layout.living[k] or [None]
            np.copyto(buffers[k], 0.0 if first is None else parameters[first].reshape(layout.shape_in(first, clique)))
            for m in others:
                buffers[k] += parameters[m].reshape(layout.shape_in(m, clique))
        for k in range(len(buffers) - 1, -1, -1):
            clique, separator = tree.cliques[k], tree.separators[k]
            gone = _axes_without(clique, separator)
            top = buffers[k].max()
            if top - buffers[k].min() > SAFE_RANGE:
                top = buffers[k].max(axis=gone, keepdims=True)
            buffers[k] -= top
            np.exp(buffers[k], out=buffers[k])
            sums = buffers[k].sum(axis=gone, keepdims=True)
            buffers[k] /= sums
            if k:
                parent = tree.parents[k]
                message = np.log(sums) + top
                buffers[parent] += message.reshape(layout.shape_in(separator, tree.cliques[parent]))
        for k in range(1, len(buffers)):
            parent, separator = tree.parents[k], tree.separators[k]
            shared = buffers[parent].sum(axis=_axes_without(tree.cliques[parent], separator))
            buffers[k] *= shared.reshape(layout.shape_in(separator, tree.cliques[k]))
        found: dict[Columns, Table] = {}
        for m in layout.maximal:
            k = layout.home[m]
            found[m] = buffers[k].sum(axis=_axes_without(tree.cliques[k], m))
        for r, m in layout.container.items():
            if r not in found:
                found[r] = found[m].sum(axis=_axes_without(m, r))
        return found

    def _projection(self, k: int, columns: Columns) -> Table:
        if (k, columns) not in self._projected:
            layout = self._laid_out()
            gone = _axes_without(layout.tree.cliques[k], columns)
            self._projected[k, columns] = layout.buffers[k].sum(axis=gone)
        return self._projected[k, columns]

    def _collect(self, k: int, towards: int, wanted: frozenset[int]) -> tuple[Columns, Table]:
        """Return what the subtree behind clique k says: wanted columns given the separator, or jointly at the root."""
        layout = self._laid_out()
        clique = set(layout.tree.cliques[k])
        separator = set() if towards < 0 else set(layout.separator(k, towards))
        below = []
        for other in layout.neighbours[k]:
            if other != towards:
                reached = (layout.behind(other, k) & wanted) - clique
                if reached:
                    below.append((other, reached))
        here = separator | (wanted & clique)
        labels = tuple(sorted(here.union(*(layout.separator(k, other) for other, _ in below))))
        table = self._projection(k, labels)
        if separator:
            kept = tuple(sorted(separator))
            shape = [self.sizes[c] if c in separator else 1 for c in labels]
            table = table / np.maximum(self._projection(k, kept).reshape(shape), 1e-300)
        for position, (other, reached) in enumerate(below):
            other_labels, factor = self._collect(other, k, frozenset(reached))
            later = set().union(*(layout.separator(k, each) for each, _ in below[position + 1 :]))
            out = tuple(sorted(here | later | (set(labels) | set(other_labels)) & wanted))
            names = {column: place for place, column in enumerate(sorted(set(labels) | set(other_labels)))}
            table = np.einsum(
                table, [names[c] for c in labels], factor, [names[c] for c in other_labels], [names[c] for c in out]
            )
            labels = out
        return labels, table


def _drawn(table: Table, group: NDArray[np.int64], random: np.random.Generator) -> NDArray[np.int64]:
    """Draw one value for every row from its group's line of ``table`` (groups, values), by systematic rounding."""
    weights = np.maximum(table, 0.0)
    masses = weights.sum(axis=1, keepdims=True)
    weights = np.where(masses > 0, weights, 1.0)
    limits = np.cumsum(weights, axis=1) / weights.sum(axis=1, keepdims=True)
    limits[:, -1] = 1.0
    order = np.lexsort((random.random(len(group)), group))
    counts = np.bincount(group, minlength=len(table))
    starts = np.cumsum(counts) - counts
    sorted_group = group[order]
    ranks = np.arange(len(group)) - starts[sorted_group]
    places = (ranks + random.random(len(table))[sorted_group]) / counts[sorted_group]
    flat = (limits + np.arange(len(table))[:, None]).ravel()
    found = np.searchsorted(flat, sorted_group + places, side="right") - sorted_group * table.shape[1]
    values = np.empty_like(group)
    values[order] = np.clip(found, 0, table.shape[1] - 1)
    return values
