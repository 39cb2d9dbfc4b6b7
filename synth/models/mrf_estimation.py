"""Fitting a Markov random field to noisy marginals: of greatest entropy among the fields that agree with them.

The objective is minimised over logarithmic factors (``fit_markov_random_field``). How much a count is trusted is
learned from its table as a whole (``shrinkage``). The curvature of the objective, and so the length of a step, is
roughly known beforehand (``Curvature``); the rest is L-BFGS (``lbfgs``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from synth.models.junction_tree import BeliefPropagation, CalibratedTree, ColumnSet, JunctionTree
from synth.models.lbfgs import inner, minimise
from synth.models.marginals import NoisyMarginal, coarse, pooled
from synth.models.markov_random_field import MarkovRandomField
from synth.models.shrinkage import PRIOR, SpreadPrior, ridge_of_counts

__all__ = ["Curvature", "fit_markov_random_field"]

Vector = NDArray[np.float64]


def fit_markov_random_field(
    sizes: tuple[int, ...],
    measured: Sequence[NoisyMarginal],
    total: float,
    *,
    prior: SpreadPrior = PRIOR,
    start: MarkovRandomField | None = None,
    steps: int = 150,
    device: str = "cpu",
    report: Callable[[int, float], None] | None = None,
) -> MarkovRandomField:
    r"""Fit the field of greatest entropy that agrees with noisy tables.

    .. math:: N \log Z(\theta) - \sum_t \theta_t \cdot y_t + \sum_t \tfrac{1}{2} r_t \cdot (\theta_t - c_t)^2

    is minimised over the logarithmic factors theta_t of the tables t by L-BFGS, where y_t are the noisy counts, N is
    ``total``, Z the normaliser and c_t the logarithm of a column's own proportions, and 0 for tables of more columns.
    It is convex, and at its minimum the field's counts are y_t - r_t (theta_t - c_t).

    Notes
    -----
    This is the dual of least squares with an entropy (McKenna 2019 minimises least squares alone, and stops
    early). The ridge r_t decides how much a count is trusted (``shrinkage.ridge_of_counts``).

    Parameters
    ----------
    sizes : tuple of int
        Bins of each column.
    measured : sequence of NoisyMarginal
        Answers to one question are pooled. Tables of several columns should give the belief; without it the belief is
        the product of their columns.
    total : float
        Rows in the table; positive.
    prior : SpreadPrior
    start : MarkovRandomField, optional
        An earlier fit to continue from.
    steps : int
    device : str
        Torch device; torch is only imported if it is not a CPU; float64 everywhere.
    report : callable, optional
        Called regularly with the number of evaluations and the objective.
    """
    tables = pooled(measured)
    tree = JunctionTree(sizes, tuple(sorted(JunctionTree.of(sizes, [one.columns for one in tables]).cliques)))
    by_size = _BySize(sizes)
    dual = _Dual(
        by_size.tree(tree),
        [by_size.measured(one) for one in tables],
        total,
        prior,
        device,
    )
    known = {} if start is None else start.weights
    first = dual.started([None if one.key not in known else by_size.factor(one, known[one.key]) for one in tables])
    theta = dual.minimise(first, steps, report)
    beliefs = dual.calibrated(theta).beliefs
    return MarkovRandomField(
        tree,
        tuple(by_size.restored(clique, belief) for clique, belief in zip(tree.cliques, beliefs, strict=True)),
        {one.key: by_size.restored_factor(one, part) for one, part in zip(tables, dual.parts(theta), strict=True)},
    )


class _BySize:
    """Columns renumbered in ascending order of size, in which sums are fastest."""

    def __init__(self, sizes: tuple[int, ...]) -> None:
        order = sorted(range(len(sizes)), key=lambda column: (sizes[column], column))
        self._rank = {column: rank for rank, column in enumerate(order)}
        self._sizes = tuple(sizes[column] for column in order)

    def tree(self, tree: JunctionTree) -> JunctionTree:
        return JunctionTree(self._sizes, tuple(map(self.columns, tree.cliques)))

    def columns(self, columns: ColumnSet) -> ColumnSet:
        return tuple(sorted(self._rank[column] for column in columns))

    def table(self, columns: ColumnSet, table: NDArray[np.float64]) -> NDArray[np.float64]:
        return table.transpose(self._axes(columns))

    def measured(self, one: NoisyMarginal) -> NoisyMarginal:
        columns = self.columns(one.columns)
        if one.cells is not None:
            return replace(one, columns=columns, cells=one.cells.transpose(self._axes(one.columns)))
        believed = None if one.believed is None else self.table(one.columns, one.believed)
        table = self.table(one.columns, one.table)
        return replace(one, columns=columns, table=table, believed=believed)

    def factor(self, one: NoisyMarginal, factor: NDArray[np.float64]) -> NDArray[np.float64]:
        return factor if one.cells is not None else self.table(one.columns, factor)

    def restored_factor(self, one: NoisyMarginal, factor: Any) -> NDArray[np.float64]:
        return _on_cpu(factor) if one.cells is not None else self.restored(one.columns, factor)

    def restored(self, columns: ColumnSet, table: Any) -> NDArray[np.float64]:
        return np.ascontiguousarray(_on_cpu(table).transpose(np.argsort(self._axes(columns))))

    def _axes(self, columns: ColumnSet) -> list[int]:
        return sorted(range(len(columns)), key=lambda axis: self._rank[columns[axis]])


class _Dual:
    """The objective of ``fit_markov_random_field``, all factors in one vector."""

    def __init__(
        self, tree: JunctionTree, tables: list[NoisyMarginal], total: float, prior: SpreadPrior, device: str
    ) -> None:
        self.total, self.device = total, device
        self.columns = [one.columns for one in tables]
        self.shapes = [one.table.shape for one in tables]
        self.coarse = [None if one.cells is None else _Coarse(one.cells, one.table.shape) for one in tables]
        ends = np.cumsum([one.table.size for one in tables]).tolist()
        self.slices = [slice(end - one.table.size, end) for one, end in zip(tables, ends, strict=True)]
        self.propagation = BeliefPropagation(tree, self.columns)
        single = _single_columns(tree.sizes, tables)
        believed = [_believed(one, single, total) for one in tables]
        ridges = [_ridge(one, expected, prior) for one, expected in zip(tables, believed, strict=True)]
        self.counts = self._vector([one.table for one in tables])
        self.ridge = self._vector(ridges)
        # With little noise the curvature is the larger of belief and answer.
        held = [np.maximum(one.table, expected) + 1.0 for one, expected in zip(tables, believed, strict=True)]
        # A coarse table shares no sums of cells with others.
        shared = [None if one.cells is not None else one.columns for one in tables]
        self.curvature = Curvature(shared, held, ridges)
        alone: dict[ColumnSet, NDArray[np.float64]] = {
            one.columns: np.log(single[one.columns[0]]) for one in tables if len(one.columns) == 1
        }
        self._card = None if device == "cpu" else _OnCard(self, sum(one.table.size for one in tables))
        self.centre = self._vector([alone.get(one.columns, np.zeros(one.table.shape)) for one in tables])

    def started(self, known: Sequence[NDArray[np.float64] | None]) -> Vector:
        """Return the initial factors: those that are known, else independent columns."""
        if all(one is None for one in known):
            return self.centre
        return self._vector(
            [np.zeros(shape) if one is None else one for one, shape in zip(known, self.shapes, strict=True)]
        )

    def minimise(self, theta: Vector, steps: int, report: Callable[[int, float], None] | None) -> Vector:
        """Return the factors after some steps of L-BFGS."""
        evaluations = 0

        def value(reached: Vector) -> tuple[float, Vector]:
            nonlocal evaluations
            height, gradient = self.value(reached)
            evaluations += 1
            if report is not None and evaluations % 20 == 1:
                report(evaluations, height)
            return height, gradient

        return minimise(value, self.curvature.step, theta, steps=steps)

    def value(self, theta: Vector) -> tuple[float, Vector]:
        """Return the objective and its gradient: the field's counts less the answers, and the pull of the ridge."""
        gradient, log_normaliser = self._sums(theta) if self._card is None else self._card(theta)
        away = theta - self.centre
        pull = self.ridge * away
        gradient *= self.total
        gradient -= self.counts
        gradient += pull
        value = self.total * log_normaliser - inner(theta, self.counts) + 0.5 * inner(away, pull)
        return value, gradient

    def _sums(self, theta: Vector) -> tuple[Vector, float]:
        parts, log_normaliser = self.proportions(theta)
        return self._vector(parts), float(log_normaliser)

    def proportions(self, theta: Any) -> tuple[list[Any], Any]:
        """Return the proportions of every table's cells, and the logarithm of the normaliser."""
        found = self.calibrated(theta)
        parts = [one if some is None else some.sums(one) for one, some in zip(found.tables, self.coarse, strict=True)]
        return parts, found.log_normaliser

    def calibrated(self, theta: Any) -> CalibratedTree[Any]:
        """Return the proportions of cliques and tables under the factors, which may lie on a card already."""
        parts = self.parts(theta)
        return self.propagation(
            [one if some is None else some.spread(one) for one, some in zip(parts, self.coarse, strict=True)]
        )

    def parts(self, theta: Any) -> list[Any]:
        """Return the factors of each table: arrays on a CPU, where small operations are fastest so, else tensors."""
        vector = theta if self.device == "cpu" or not isinstance(theta, np.ndarray) else _on_device(theta, self.device)
        return [vector[place].reshape(shape) for place, shape in zip(self.slices, self.shapes, strict=True)]

    @staticmethod
    def _vector(parts: Sequence[Any]) -> Vector:
        return np.concatenate([part.reshape(-1) for part in parts])


class _OnCard:
    """Proportions of cells on a graphics card: one upload and one download each time, and what lies between recorded.

    Attributes are tensors that are written again, as what is recorded needs.
    """

    def __init__(self, dual: _Dual, n_cells: int) -> None:
        import torch

        from synth.models.repeated_steps import RepeatedSteps

        self._dual = dual
        self._theta = torch.zeros(n_cells, dtype=torch.float64, device=dual.device)
        self._found = torch.zeros(n_cells + 1, dtype=torch.float64, device=dual.device)
        self._steps = RepeatedSteps(self._evaluate, device=dual.device, together=1, changed=(self._found,))

    def __call__(self, theta: Vector) -> tuple[Vector, float]:
        """Return the proportions of all cells, and the logarithm of the normaliser."""
        import torch

        self._theta.copy_(torch.from_numpy(theta))
        self._steps.run(0, 1)
        found = _on_cpu(self._found)
        return found[:-1], float(found[-1])

    def _evaluate(self, place: int) -> None:
        import torch

        parts, log_normaliser = self._dual.proportions(self._theta)
        self._found.copy_(torch.cat([part.reshape(-1) for part in (*parts, log_normaliser)]))


class _Coarse:
    """Maps between the factors and proportions of a coarse table and those of bins."""

    def __init__(self, cells: NDArray[np.intp], shape: tuple[int, ...]) -> None:
        self._cells, self._shape = np.ascontiguousarray(cells), shape
        self._matrix: Any = None

    def spread(self, factor: Any) -> Any:
        """Return the factor of every combination of bins."""
        if isinstance(factor, np.ndarray):
            return factor.reshape(-1)[self._cells]
        return (factor.reshape(-1) @ self._on(factor)).reshape(self._cells.shape)

    def sums(self, bins: Any) -> Any:
        """Return the counts of a table of bins in the cells of the coarse table."""
        if isinstance(bins, np.ndarray):
            return coarse(bins, self._cells, self._shape)
        return self._on(bins) @ bins.reshape(-1)

    def _on(self, like: Any) -> Any:
        """Return the map from bins to counts as a matrix on a tensor's device: a product sums in a fixed order."""
        if self._matrix is None:
            matrix = np.zeros((math.prod(self._shape), self._cells.size))
            matrix[self._cells.reshape(-1), np.arange(self._cells.size)] = 1.0
            self._matrix = like.new_tensor(matrix)
        return self._matrix


def _on_device(vector: Vector, device: str) -> Any:
    import torch  # here and below, as a fit on a CPU takes less time than importing torch

    return torch.from_numpy(vector).to(device)


def _on_cpu(table: Any) -> NDArray[np.float64]:
    return table if isinstance(table, np.ndarray) else np.asarray(table.cpu().numpy())


def _single_columns(sizes: tuple[int, ...], tables: Sequence[NoisyMarginal]) -> list[NDArray[np.float64]]:
    """Return positive proportions of every single column; uniform if it was not measured."""
    single = [np.full(size, 1.0 / size) for size in sizes]
    for one in tables:
        if len(one.columns) == 1:
            least = max(0.1 * one.noise_std, 1e-5 * float(np.abs(one.table).sum()), 1e-9)
            counts = np.maximum(one.table, least)
            single[one.columns[0]] = counts / counts.sum()
    return single


def _believed(one: NoisyMarginal, single: list[NDArray[np.float64]], total: float) -> NDArray[np.float64]:
    """Return the belief before an answer, in rows."""
    if one.believed is not None:
        return one.believed
    product = np.ones(())
    for column in one.columns:
        product = product[..., None] * single[column]
    return one.counted(total * product)


def _ridge(one: NoisyMarginal, believed: NDArray[np.float64], prior: SpreadPrior) -> NDArray[np.float64]:
    """Return how strongly each factor is pulled towards zero; see the notes of ``fit_markov_random_field``."""
    variance = one.noise_std**2
    if len(one.columns) == 1:
        return np.full(one.table.shape, max(prior.loose * math.sqrt(variance), 1e-6))
    ridge = ridge_of_counts(one.table, believed, one.noise_std, prior)
    # A tenth of the noise changes no count by more than its noise, and keeps the problem well conditioned.
    return np.maximum(ridge, 0.1 * math.sqrt(variance))


class Curvature:
    r"""The inverse of an approximate second derivative of ``fit_markov_random_field``'s objective.

    .. math:: D^{-1} + \sum_s A_s' (h_s 1 1' + \mathrm{diag}(A_s r))^{-1} A_s

    with the counts and ridges D of single cells, and, for every set s of columns that several tables T contain, the
    sums A_s of those tables to s. Factors of several tables that depend on s alone have the same effect on the field:
    together they see the counts h_s, and only the ridge distinguishes them. Steps based on single cells make no
    progress in these directions (an additive Schwarz method; Toselli 2005, chapter 2).

    Parameters
    ----------
    tables : sequence of (Subset or None)
        Columns of every table; None for a coarse one, whose cells are treated one by one.
    counts : sequence of arrays
        Approximate number of rows in each cell; positive.
    ridges : sequence of arrays
        Positive.
    """

    def __init__(self, tables: Sequence[ColumnSet | None], counts: Sequence[Vector], ridges: Sequence[Vector]) -> None:
        flat_counts, ridge = (np.concatenate([one.reshape(-1) for one in each]) for each in (counts, ridges))
        self._diagonal = 1.0 / (flat_counts + ridge)
        starts = np.cumsum([0, *(one.size for one in counts)])
        cells, rows, values = [np.zeros(0, np.intp)], [np.zeros(0, np.intp)], [np.zeros(0, np.intp)]
        n_rows = n_values = 0
        holders: dict[int, list[int]] = {}
        firsts: dict[ColumnSet, int] = {}
        fine = {number: columns for number, columns in enumerate(tables) if columns is not None}
        for number, columns in fine.items():
            firsts.setdefault(columns, number)
            for column in columns:
                holders.setdefault(column, []).append(number)
        for shared, first in firsts.items():
            around = holders[shared[0]] if shared else fine
            within = [number for number in around if set(shared) <= set(fine[number])]
            if len(within) < 2:
                continue
            size = counts[first].size
            for number in within:
                shape = counts[number].shape
                kept = [n if column in shared else 1 for column, n in zip(fine[number], shape, strict=True)]
                cells.append(np.arange(starts[number], starts[number + 1]))
                rows.append(n_rows + np.broadcast_to(np.arange(size).reshape(kept), shape).reshape(-1))
                values.append(n_values + np.arange(size))
                n_rows += size
            n_values += size
        # One entry for every cell and every set of columns of its table; rows are sums of a table, values those of all.
        self._cell, self._row, self._value = np.concatenate(cells), np.concatenate(rows), np.concatenate(values)
        self._n_cells, self._n_rows, self._n_values = len(ridge), n_rows, n_values
        self._loose = 1.0 / self._summed(ridge)
        tables_of_value = self._joined(np.ones(n_rows))
        held = self._joined(self._summed(flat_counts)) / tables_of_value
        self._tied = held / (1.0 + held * self._joined(self._loose))

    def step(self, gradient: Vector) -> Vector:
        """Return the gradient divided by the curvature."""
        result = self._diagonal * gradient
        if self._n_rows:
            part = self._summed(gradient) * self._loose
            part -= (self._tied * self._joined(part))[self._value] * self._loose
            result += np.bincount(self._cell, weights=part[self._row], minlength=self._n_cells)
        return np.asarray(result)

    def _summed(self, cells: Vector) -> Vector:
        return np.bincount(self._row, weights=cells[self._cell], minlength=self._n_rows).astype(np.float64, copy=False)

    def _joined(self, rows: Vector) -> Vector:
        return np.bincount(self._value, weights=rows, minlength=self._n_values).astype(np.float64, copy=False)
