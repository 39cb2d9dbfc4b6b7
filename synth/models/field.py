"""A Markov random field over binned columns: what noisy tables say, and nothing beyond it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from synth.models.answers import Measured, pooled
from synth.models.field_sampling import sample_tree
from synth.models.field_tables import far_tables, table_within
from synth.models.junction_tree import JunctionTree, Subset
from synth.models.propagation import calibrated
from synth.models.threads import single_thread

__all__ = ["Field", "FieldPrior", "fit_field"]

# Steps that the optimiser remembers.
_MEMORY = 10


@dataclass(frozen=True, slots=True)
class FieldPrior:
    """How far counts may be from what was believed before they were measured.

    Attributes
    ----------
    spread : float
        A count of m believed rows is expected to be off by about ``spread`` times m.
    clear : float
        A count that is off by more than this many standard deviations of its noise is taken at its word.
    loose : float
        Columns by themselves are hardly pulled: a factor of e is worth this part of their noise.
    """

    spread: float = 1.0
    clear: float = 3.0
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

        Two columns may stand anywhere; more have to lie within one clique.
        """
        home = self.tree.home(columns)
        if home is None:
            if len(columns) != 2:
                raise ValueError(f"Columns {columns} do not lie within one clique.")
            return self.pair_tables([columns])[columns]
        return table_within(self.beliefs[home], self.tree.cliques[home], columns)

    def pair_tables(self, pairs: Sequence[Subset]) -> dict[Subset, NDArray[np.float64]]:
        """Return the proportions of many pairs of columns at once."""
        near = {pair: self.tree.home(pair) for pair in pairs}
        tables = {
            pair: table_within(self.beliefs[home], self.tree.cliques[home], pair)
            for pair, home in near.items()
            if home is not None
        }
        if len(tables) < len(near):
            far = far_tables(self.tree, self.beliefs)
            tables.update({pair: far[pair] for pair, home in near.items() if home is None})
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
    m (1 + theta), so that a ridge of s^2 m / v gives the count its posterior mean where its noise has the variance s^2
    and the truth is m up to a variance of v. The variance v is taken as (spread m)^2, or as what is plainly there,
    (y - m)^2 - (clear s)^2, if that is more.

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
        What torch calls it; float64 everywhere, on one thread of a CPU.
    report : callable, optional
        Told the number of evaluations and the objective now and then.
    """
    tables = pooled(measured)
    tree = JunctionTree(sizes, tuple(sorted(JunctionTree.of(sizes, [one.columns for one in tables]).cliques)))
    with single_thread():
        dual = _Dual(tree, tables, total, FieldPrior() if prior is None else prior, torch.device(device))
        theta = dual.minimise(dual.started(start), steps, report)
        beliefs, _ = dual.calibrated(theta)
    weights = {
        one.columns: part.reshape(one.table.shape).cpu().numpy()
        for one, part in zip(tables, torch.split(theta, dual.lengths), strict=True)
    }
    return Field(tree, tuple(belief.cpu().numpy() for belief in beliefs), weights)


class _Dual:
    """The objective of ``fit_field``, all factors in one vector."""

    def __init__(
        self, tree: JunctionTree, tables: list[Measured], total: float, prior: FieldPrior, device: torch.device
    ) -> None:
        self.tree, self.total, self.device = tree, total, device
        self.columns = [one.columns for one in tables]
        self.lengths = [one.table.size for one in tables]
        homes = [tree.home(columns) for columns in self.columns]
        self.homes = [home for home in homes if home is not None]
        single = _single_columns(tree.sizes, tables)
        believed = [_believed(one, single, total) for one in tables]
        ridges = [_ridge(one, expected, prior) for one, expected in zip(tables, believed, strict=True)]
        self.counts = self._vector([one.table for one in tables])
        self.ridge = self._vector(ridges)
        # Where noise is small, curvature is the larger of what is believed and what was answered.
        curvature = [
            np.maximum(one.table, expected) + ridge + 1.0
            for one, expected, ridge in zip(tables, believed, ridges, strict=True)
        ]
        self.scale = self._vector(curvature).rsqrt()
        alone: dict[Subset, NDArray[np.float64]] = {
            one.columns: np.log(single[one.columns[0]]) for one in tables if len(one.columns) == 1
        }
        self.centre = self._vector([alone.get(one.columns, np.zeros(one.table.shape)) for one in tables])

    def started(self, start: Field | None) -> Tensor:
        """Return the first factors: those of an earlier field, else independent columns."""
        if start is None:
            return self.centre
        shapes = [tuple(self.tree.sizes[column] for column in columns) for columns in self.columns]
        return self._vector(
            [start.weights.get(columns, np.zeros(shape)) for columns, shape in zip(self.columns, shapes, strict=True)]
        )

    def minimise(self, theta: Tensor, steps: int, report: Callable[[int, float], None] | None) -> Tensor:
        """Return the factors after some steps of L-BFGS."""
        scaled = theta / self.scale
        optimiser = torch.optim.LBFGS(
            [scaled],
            max_iter=steps,
            history_size=_MEMORY,
            line_search_fn="strong_wolfe",
            tolerance_grad=1e-3,
            tolerance_change=1e-7,
        )
        evaluations = 0

        def closure() -> float:
            nonlocal evaluations
            value, gradient = self.value(scaled * self.scale)
            scaled.grad = gradient * self.scale
            evaluations += 1
            if report is not None and evaluations % 20 == 1:
                report(evaluations, value)
            return value

        optimiser.step(closure)  # type: ignore[no-untyped-call]
        return scaled.detach() * self.scale

    def value(self, theta: Tensor) -> tuple[float, Tensor]:
        """Return the objective and its gradient: the field's counts less the answers, and the pull of the ridge."""
        beliefs, log_normaliser = self.calibrated(theta)
        found = [
            table_within(beliefs[home], self.tree.cliques[home], columns).reshape(-1)
            for home, columns in zip(self.homes, self.columns, strict=True)
        ]
        away = theta - self.centre
        pull = self.ridge * away
        gradient = self.total * torch.cat(found) - self.counts + pull
        value = self.total * log_normaliser - (theta @ self.counts - 0.5 * (away @ pull))
        return float(value), gradient

    def calibrated(self, theta: Tensor) -> tuple[list[Tensor], Tensor]:
        """Return the cliques' beliefs and the logarithm of the normaliser."""
        potentials = [
            torch.zeros([self.tree.sizes[column] for column in clique], dtype=torch.float64, device=self.device)
            for clique in self.tree.cliques
        ]
        for home, columns, part in zip(self.homes, self.columns, torch.split(theta, self.lengths), strict=True):
            clique = self.tree.cliques[home]
            potentials[home] += part.reshape([self.tree.sizes[column] if column in columns else 1 for column in clique])
        return calibrated(self.tree, potentials)

    def _vector(self, parts: Sequence[NDArray[np.float64]]) -> Tensor:
        whole = np.concatenate([np.asarray(part, dtype=np.float64).reshape(-1) for part in parts])
        return torch.from_numpy(whole).to(self.device)


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
    expected = np.maximum(believed, 0.5)
    plain = (one.table - believed) ** 2 - prior.clear**2 * variance
    ridge = variance * expected / np.maximum((prior.spread * expected) ** 2, plain)
    # A tenth of the noise moves no count by more than its noise, and keeps the problem well conditioned.
    return np.maximum(ridge, 0.1 * math.sqrt(variance))
