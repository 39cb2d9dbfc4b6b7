"""A Markov random field over binned columns: what noisy tables say, and nothing beyond it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from synth.models.answers import Measured, pooled
from synth.models.descent import dot, minimum
from synth.models.field_curvature import Curvature
from synth.models.field_sampling import sample_tree
from synth.models.field_tables import far_tables, joint_table, table_within
from synth.models.junction_tree import JunctionTree, Subset
from synth.models.propagation import Calibrated, Propagation, sums_within
from synth.models.shrinkage import Spreads, part_kept

__all__ = ["Field", "FieldPrior", "fit_field"]

Vector = NDArray[np.float64]

_TOLERANCE = 1e-2
"""Fits end where a step promises to bring the objective, in nats of all rows together, down by half of this."""


@dataclass(frozen=True, slots=True)
class FieldPrior:
    """How far counts may be from what was believed before they were measured.

    Attributes
    ----------
    spreads : Spreads
        For tables of several columns.
    loose : float
        Columns by themselves are hardly pulled: a factor of e is worth this part of their noise.
    """

    spreads: Spreads = field(default_factory=Spreads)
    loose: float = 0.5


@dataclass(frozen=True, slots=True, eq=False)
class Field:
    r"""A joint distribution that factors over the cliques of a junction tree.

    .. math:: p(x) = \prod_c b_c(x_c) / \prod_s b_s(x_s)

    with the beliefs b_c of cliques c and their sums b_s over separators s (Koller and Friedman 2009, section 10.2).

    Attributes
    ----------
    tree : JunctionTree
    beliefs : tuple of arrays, float64
        Joint proportions of every clique, axes in order of columns; neighbours agree on what they share.
    weights : mapping of columns to arrays
        Logarithmic factors of the tables it was fitted to; a later fit starts from them.
    """

    tree: JunctionTree
    beliefs: tuple[NDArray[np.float64], ...]
    weights: Mapping[Subset, NDArray[np.float64]] = field(default_factory=dict, repr=False)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Bins of each column."""
        return self.tree.sizes

    def marginal(self, columns: Subset) -> NDArray[np.float64]:
        """Return the proportions of a few columns, shape (bins of each), sum 1; columns ascend.

        They may stand anywhere; more than two are best within one clique.
        """
        home = self.tree.home(columns)
        if home is None:
            return self.tables([columns])[columns]
        return table_within(self.beliefs[home], self.tree.cliques[home], columns)

    def tables(self, subsets: Sequence[Subset]) -> dict[Subset, NDArray[np.float64]]:
        """Return the proportions of many pairs of columns, and of more columns within a clique, at once.

        More columns in no clique are worked out one subset after the other: for tables of a few columns.
        """
        near: dict[int, list[Subset]] = {}
        far: list[Subset] = []
        tables: dict[Subset, NDArray[np.float64]] = {}
        for subset in subsets:
            home = self.tree.home(subset)
            if home is not None:
                near.setdefault(home, []).append(subset)
            elif len(subset) == 2:
                far.append(subset)
            else:
                tables[subset] = joint_table(self.tree, self.beliefs, subset)
        for home, inside in near.items():
            tables.update(sums_within(self.beliefs[home], self.tree.cliques[home], inside))
        if far:
            apart = far_tables(self.tree, self.beliefs)
            tables.update({pair: apart[pair] for pair in far})
        return tables

    def sample(self, n_rows: int, random: np.random.Generator) -> NDArray[np.int64]:
        """Return rows of bins, shape (n_rows, number of columns), in random order."""
        return sample_tree(self.tree, self.beliefs, n_rows, random)

    def state(self) -> dict[str, NDArray[np.float64]]:
        """Return the beliefs by the columns of their clique."""
        names = (".".join(map(str, clique)) for clique in self.tree.cliques)
        return {f"clique.{name}": belief for name, belief in zip(names, self.beliefs, strict=True)}

    @classmethod
    def from_state(cls, sizes: tuple[int, ...], state: Mapping[str, NDArray[np.float64]]) -> Field:
        """Return the field of a state; it samples the same bytes from the same random source."""
        # A file may hold its tensors in any order; cliques are sorted wherever a field is made.
        cliques = {tuple(map(int, name.split(".")[1:])): np.ascontiguousarray(one) for name, one in state.items()}
        ordered = tuple(sorted(cliques))
        return cls(JunctionTree(sizes, ordered), tuple(cliques[clique] for clique in ordered))


def fit_field(
    sizes: tuple[int, ...],
    measured: Sequence[Measured],
    total: float,
    *,
    prior: FieldPrior | None = None,
    start: Field | None = None,
    steps: int = 150,
    device: str = "cpu",
    report: Callable[[int, float], None] | None = None,
) -> Field:
    r"""Fit the field of greatest entropy that noisy tables allow.

    .. math:: N \log Z(\theta) - \sum_t \theta_t \cdot y_t + \sum_t \tfrac{1}{2} r_t \cdot (\theta_t - c_t)^2

    is minimised over the logarithmic factors theta_t of the tables t by L-BFGS, where y_t are the noisy counts, N is
    ``total``, Z the normaliser and c_t the logarithm of a column's own proportions, and 0 for tables of more columns.
    It is convex, and at its minimum the field's counts are y_t - r_t (theta_t - c_t).

    Notes
    -----
    This is the dual of least squares with an entropy (McKenna 2019 minimises least squares alone, and stops
    early). The ridge r_t decides how far a count is trusted. Near what was believed before, m rows, a field's count is
    m (1 + theta), so that a ridge of m (1 - k) / k leaves the part k of the distance between answer and belief: the
    part that a posterior mean would keep (``shrinkage.part_kept``).

    Parameters
    ----------
    sizes : tuple of int
        Bins of each column.
    measured : sequence of Measured
        Answers to one question are pooled. Tables of several columns should say what was believed; where they do not,
        it is the product of their columns.
    total : float
        Rows in the table; positive.
    prior : FieldPrior, optional
    start : Field, optional
        An earlier fit to go on from.
    steps : int
    device : str
        What torch calls it, which is started only where it is not a CPU; float64 everywhere.
    report : callable, optional
        Told the number of evaluations and the objective now and then.
    """
    tables = pooled(measured)
    tree = JunctionTree(sizes, tuple(sorted(JunctionTree.of(sizes, [one.columns for one in tables]).cliques)))
    by_size = _BySize(sizes)
    dual = _Dual(
        by_size.tree(tree),
        [by_size.measured(one) for one in tables],
        total,
        FieldPrior() if prior is None else prior,
        device,
    )
    known = {} if start is None else start.weights
    first = dual.started({by_size.columns(one): by_size.table(one, weights) for one, weights in known.items()})
    theta = dual.minimise(first, steps, report)
    beliefs = dual.calibrated(theta).beliefs
    return Field(
        tree,
        tuple(by_size.restored(clique, belief) for clique, belief in zip(tree.cliques, beliefs, strict=True)),
        {one.columns: by_size.restored(one.columns, part) for one, part in zip(tables, dual.parts(theta), strict=True)},
    )


class _BySize:
    """Columns renumbered so that they ascend in size: sums are fastest that way."""

    def __init__(self, sizes: tuple[int, ...]) -> None:
        order = sorted(range(len(sizes)), key=lambda column: (sizes[column], column))
        self._rank = {column: rank for rank, column in enumerate(order)}
        self._sizes = tuple(sizes[column] for column in order)

    def tree(self, tree: JunctionTree) -> JunctionTree:
        return JunctionTree(self._sizes, tuple(map(self.columns, tree.cliques)))

    def columns(self, columns: Subset) -> Subset:
        return tuple(sorted(self._rank[column] for column in columns))

    def table(self, columns: Subset, table: NDArray[np.float64]) -> NDArray[np.float64]:
        return table.transpose(self._axes(columns))

    def measured(self, one: Measured) -> Measured:
        believed = None if one.believed is None else self.table(one.columns, one.believed)
        return Measured(self.columns(one.columns), self.table(one.columns, one.table), one.noise_std, believed)

    def restored(self, columns: Subset, table: Any) -> NDArray[np.float64]:
        return np.ascontiguousarray(_on_cpu(table).transpose(np.argsort(self._axes(columns))))

    def _axes(self, columns: Subset) -> list[int]:
        return sorted(range(len(columns)), key=lambda axis: self._rank[columns[axis]])


class _Dual:
    """The objective of ``fit_field``, all factors in one vector."""

    def __init__(
        self, tree: JunctionTree, tables: list[Measured], total: float, prior: FieldPrior, device: str
    ) -> None:
        self.total, self.device = total, device
        self.columns = [one.columns for one in tables]
        self.shapes = [one.table.shape for one in tables]
        ends = np.cumsum([one.table.size for one in tables]).tolist()
        self.places = [slice(end - one.table.size, end) for one, end in zip(tables, ends, strict=True)]
        self.propagation = Propagation(tree, self.columns)
        single = _single_columns(tree.sizes, tables)
        believed = [_believed(one, single, total) for one in tables]
        ridges = [_ridge(one, expected, prior) for one, expected in zip(tables, believed, strict=True)]
        self.counts = self._vector([one.table for one in tables])
        self.ridge = self._vector(ridges)
        # Where noise is small, curvature is the larger of what is believed and what was answered.
        held = [np.maximum(one.table, expected) + 1.0 for one, expected in zip(tables, believed, strict=True)]
        self.curvature = Curvature(self.columns, held, ridges)
        alone: dict[Subset, NDArray[np.float64]] = {
            one.columns: np.log(single[one.columns[0]]) for one in tables if len(one.columns) == 1
        }
        self.centre = self._vector([alone.get(one.columns, np.zeros(one.table.shape)) for one in tables])

    def started(self, known: Mapping[Subset, NDArray[np.float64]]) -> Vector:
        """Return the first factors: those that are known, else independent columns."""
        if not known:
            return self.centre
        return self._vector(
            [known.get(columns, np.zeros(shape)) for columns, shape in zip(self.columns, self.shapes, strict=True)]
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

        return minimum(value, self.curvature.step, theta, steps=steps, tolerance=_TOLERANCE)

    def value(self, theta: Vector) -> tuple[float, Vector]:
        """Return the objective and its gradient: the field's counts less the answers, and the pull of the ridge."""
        found = self.calibrated(theta)
        away = theta - self.centre
        pull = self.ridge * away
        gradient = self._vector(found.tables)
        gradient *= self.total
        gradient -= self.counts
        gradient += pull
        value = self.total * found.log_normaliser - dot(theta, self.counts) + 0.5 * dot(away, pull)
        return value, gradient

    def calibrated(self, theta: Vector) -> Calibrated[Any]:
        """Return what the factors say of the cliques and the tables."""
        return self.propagation(self.parts(theta))

    def parts(self, theta: Vector) -> list[Any]:
        """Return the factors of each table: arrays on a CPU, whose small operations take least time, else tensors."""
        vector = theta if self.device == "cpu" else _on_device(theta, self.device)
        return [vector[place].reshape(shape) for place, shape in zip(self.places, self.shapes, strict=True)]

    def _vector(self, parts: Sequence[Any]) -> Vector:
        flat = [part.reshape(-1) for part in parts]
        return np.concatenate(flat) if isinstance(flat[0], np.ndarray) else _on_cpu(_joined(flat))


def _on_device(vector: Vector, device: str) -> Any:
    import torch  # here and below, as a fit on a CPU is over before torch has started

    return torch.from_numpy(vector).to(device)


def _joined(tensors: list[Any]) -> Any:
    import torch

    return torch.cat(tensors)


def _on_cpu(table: Any) -> NDArray[np.float64]:
    return table if isinstance(table, np.ndarray) else np.asarray(table.cpu().numpy())


def _single_columns(sizes: tuple[int, ...], tables: Sequence[Measured]) -> list[NDArray[np.float64]]:
    """Return positive proportions of every column by itself; even where it was not measured."""
    single = [np.full(size, 1.0 / size) for size in sizes]
    for one in tables:
        if len(one.columns) == 1:
            least = max(0.1 * one.noise_std, 1e-5 * float(np.abs(one.table).sum()), 1e-9)
            counts = np.maximum(one.table, least)
            single[one.columns[0]] = counts / counts.sum()
    return single


def _believed(one: Measured, single: list[NDArray[np.float64]], total: float) -> NDArray[np.float64]:
    """Return the counts that were believed before an answer, in rows."""
    if one.believed is not None:
        return one.believed
    product = np.ones(())
    for column in one.columns:
        product = product[..., None] * single[column]
    return total * product


def _ridge(one: Measured, believed: NDArray[np.float64], prior: FieldPrior) -> NDArray[np.float64]:
    """Return how strongly each factor is pulled to nothing; see the notes of ``fit_field``."""
    variance = one.noise_std**2
    if len(one.columns) == 1:
        return np.full(one.table.shape, max(prior.loose * math.sqrt(variance), 1e-6))
    kept = part_kept(one.table, believed, one.noise_std, prior.spreads)
    ridge = np.maximum(believed, 0.5) * (1.0 - kept) / kept
    # A tenth of the noise moves no count by more than its noise, and keeps the problem well conditioned.
    return np.maximum(ridge, 0.1 * math.sqrt(variance))
