r"""A pool of rows drawn from a joint model, tilted to agree with counts of whole rows.

Rows are drawn from a base model with a public seed. Each table sorts them into cells by several columns at once, and
the factors of its cells give a row its weight:

.. math:: p_i \propto \exp\left(\sum_t \theta_t[c_t(i)]\right)

Cells may use any number of columns: only the number of cells grows, which no tree of columns could represent. The base
model, the seed and the factors are saved, but no row.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import InitVar, dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from synth.models.balanced_rows import Counted, balanced, cells_of_pair, pairs_to_balance
from synth.models.cells import CellsOfSet, PoolCells, SortedRows, cells_of_columns
from synth.models.centres import CellsOfCentres
from synth.models.junction_tree import ColumnSet
from synth.models.lbfgs import inner, minimise
from synth.models.marginals import JointModel, NoisyMarginal
from synth.models.moments import CountedMoments, TiltedMoments
from synth.models.shrinkage import ridge_of_counts

__all__ = [
    "POOL_ROWS",
    "CountedCells",
    "Pool",
    "TiltedPool",
    "effective_rows",
    "tempered",
    "tilted",
    "tilted_to_moments",
]

Vector = NDArray[np.float64]

Whole = NDArray[np.int64]

POOL_ROWS = 100_000
"""Rows of a pool."""

_REPEATED = 0.2
"""Rows drawn from a pool, as a part of its effective rows; beyond it more pools are drawn, so that few repeat."""

_POOLS = 8
"""Pools that are drawn for the sake of fewer repeated rows."""

_OTHERS = 2
"""Rows drawn for exchanges, as a multiple of those that are chosen."""

_LOOSELY = 0.5
"""Ridge of tables that the base already agrees with, in units of their noise: the tilt hardly changes them."""

_LEAST_MISSED = 0.01
"""Least variance assumed for the error of a pool's moments, in units of the noise variance."""

_LOOSE = 1e-3
"""Least ridge of a cell, in rows; it keeps the factor of an empty cell finite."""


_HALVINGS = 20
"""Bisection steps for the part of a tilt that is kept."""


@dataclass(frozen=True, slots=True, eq=False)
class CountedCells:
    """Noisy counts of the rows in some cells.

    Attributes
    ----------
    cells : PoolCells
    counts : array of shape (cells.size,), float64
        In rows, with noise; of any sign.
    noise_std : float
        Of one count, in rows; positive.
    believed : array of the same shape
        The model's counts before the answer, in rows.
    """

    cells: PoolCells
    counts: Vector
    noise_std: float
    believed: Vector

    held: bool = False

    @property
    def ridge(self) -> Vector:
        """How strongly each factor is pulled towards zero, as in :mod:`synth.models.mrf_estimation`."""
        if self.held:
            return np.full(self.cells.size, max(_LOOSELY * self.noise_std, _LOOSE))
        ridge = ridge_of_counts(self.counts, self.believed, self.noise_std)
        return np.asarray(np.maximum(ridge, max(0.1 * self.noise_std, _LOOSE)))


class Pool:
    """Rows of a base model, and the share of their weight in cells.

    Parameters
    ----------
    base : JointModel
    seed : sequence of int
        Public.
    rows : int, optional
        ``POOL_ROWS`` by default.
    """

    def __init__(self, base: JointModel, seed: Sequence[int], rows: int | None = None) -> None:
        rows = POOL_ROWS if rows is None else rows
        drawn = base.sample(rows, np.random.Generator(np.random.PCG64(list(seed))))
        kinds = [np.min_scalar_type(max(size - 1, 1)) for size in base.sizes]
        self.columns = [np.ascontiguousarray(drawn[:, d], dtype=kind) for d, kind in enumerate(kinds)]
        self.sizes = base.sizes
        self.n_rows = rows
        self._once: dict[int, tuple[object, NDArray[Any]]] = {}

    def once(self, asker: object, worked_out: Callable[[], NDArray[Any]]) -> NDArray[Any]:
        """Return a result computed from the rows, shape (n_rows,), once for each asker; askers must not change."""
        known, found = self._once.get(id(asker), (None, None))
        if known is not asker or found is None:
            found = worked_out()
            self._once[id(asker)] = asker, found
        return found

    def forget(self, *, but: Sequence[object]) -> None:
        """Forget the results for all askers but these."""
        self._once = {id(one): self._once[id(one)] for one in but if id(one) in self._once}

    def parts(self, column: int, parts: NDArray[np.int32]) -> NDArray[Any]:
        """Return the part of every row, given that of every bin of a column; looked up once for all cells."""
        kind = np.uint8 if int(parts.max()) < 2**8 else np.int16
        return self.once(parts, lambda: parts.astype(kind)[self.columns[column]])

    def counts(self, cells: PoolCells, weights: Vector) -> Vector:
        """Return the share of the total weight in every cell, shape (cells.size,)."""
        return np.bincount(cells.index(self), weights, cells.size).astype(np.float64, copy=False)

    def rows(self, places: Whole) -> Whole:
        """Return some of the rows, shape (number of places, number of columns)."""
        found = np.empty((len(places), len(self.columns)), dtype=np.int64)
        for d, column in enumerate(self.columns):
            found[:, d] = column[places]
        return found


def _weights_of(logs: Vector) -> tuple[Vector, float]:
    """Return weights of rows from their logarithms, normalised to sum 1, and the logarithm of their mean before that.

    The array of logarithms is overwritten.
    """
    top = float(logs.max())
    logs -= top
    weights = np.exp(logs, out=logs)
    total = float(weights.sum())
    weights /= total
    return weights, top + math.log(total / len(weights))


def _sorted_into(pool: Pool, cells: Sequence[PoolCells]) -> SortedRows:
    return SortedRows([one.index(pool) for one in cells], [one.size for one in cells], pool.n_rows)


def tilted(
    pool: Pool,
    counted: Sequence[CountedCells],
    total: float,
    *,
    start: Sequence[Vector] = (),
    steps: int,
    checked: Callable[[], None] = lambda: None,
) -> tuple[list[Vector], Vector]:
    r"""Fit the factors of cells to their noisy counts.

    .. math:: N \log \frac{1}{M} \sum_i \exp\left(\sum_t \theta_t[c_t(i)]\right) - \sum_t \theta_t \cdot y_t
        + \tfrac 1 2 \sum_t r_t \cdot \theta_t^2

    is minimised over theta by L-BFGS: the convex objective of a Markov random field
    (:func:`synth.models.mrf_estimation.fit_markov_random_field`) with M rows of the base as its measure.

    Parameters
    ----------
    pool : Pool
    counted : sequence of CountedCells
    total : float
        Rows of the table, N; positive.
    start : sequence of arrays
        Factors of the first tables, from an earlier fit.
    steps : int
        Maximum number of steps.
    checked : callable
        Called regularly, so that a fit can be cancelled.

    Returns
    -------
    factors : list of arrays of shape (cells,)
        By table.
    weights : array of shape (rows of the pool,), sum 1
    """
    rows = _sorted_into(pool, [one.cells for one in counted])
    ends = np.cumsum([one.cells.size for one in counted]).tolist()
    places = [slice(end - one.cells.size, end) for one, end in zip(counted, ends, strict=True)]
    counts, ridge = np.concatenate([one.counts for one in counted]), np.concatenate([one.ridge for one in counted])
    curvature = np.maximum(counts, np.concatenate([one.believed for one in counted])) + 1.0 + ridge

    def value(theta: Vector) -> tuple[float, Vector]:
        checked()
        weights, level = _weights_of(rows.sums([theta[place] for place in places]))
        pull = ridge * theta
        gradient = np.concatenate(rows.counts(weights))
        gradient *= total
        gradient -= counts
        gradient += pull
        height = total * level - inner(theta, counts) + 0.5 * inner(theta, pull)
        return height, gradient

    first = np.zeros(ends[-1])
    for place, factor in zip(places, start, strict=False):
        first[place] = factor
    theta = minimise(value, lambda gradient: gradient / curvature, first, steps=steps)
    factors = [theta[place] for place in places]
    return factors, _weights_of(rows.sums(factors))[0]


def effective_rows(weights: Vector) -> float:
    """Return the effective number of rows: one over the sum of squares of weights that sum to 1."""
    return 1.0 / inner(weights, weights)


def tempered(pool: Pool, cells: Sequence[PoolCells], factors: Sequence[Vector], *, least: float) -> list[Vector]:
    """Return the factors, all scaled down by one number so that enough rows of the pool carry its weight.

    Parameters
    ----------
    pool : Pool
    cells : sequence of PoolCells
    factors : sequence of arrays of shape (cells,)
        By table.
    least : float
        Least number of effective rows; at most those of the pool.
    """
    logs = _sorted_into(pool, cells).sums(factors)

    def carried(part: float) -> bool:
        return effective_rows(_weights_of(part * logs)[0]) >= least

    if carried(1.0):
        return list(factors)
    # Effective rows fall as the part grows, from all at 0.
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if carried(middle) else (low, middle)
    return [low * one for one in factors]


def tilted_to_moments(
    model: JointModel,
    columns: Sequence[NoisyMarginal],
    counted: CountedMoments,
    total: float,
    *,
    seed: int,
    steps: int,
    checked: Callable[[], None] = lambda: None,
) -> TiltedPool:
    r"""Tilt a model's pool so that its second moments agree with noisy ones and its single columns do not change.

    .. math:: N \log \sum_i p_i \exp\left(\sum_t \theta_t[c_t(i)] + \sum_{jl} \theta_{jl} a_{ij} a_{il}\right)
        - \theta \cdot y + \tfrac 1 2 \sum r \cdot \theta^2

    is minimised over theta by L-BFGS, as in :func:`tilted`; p are the weights that the pool's rows already have.

    Parameters
    ----------
    model : JointModel
        A pool that was tilted to counts keeps that tilt, if the moments allow it.
    columns : sequence of NoisyMarginal
        Every column on its own.
    counted : CountedMoments
    total : float
        Rows of the table, N; positive.
    seed : int
        Public; draws the pool, if the model is not a pool.
    steps : int
        Maximum number of steps.
    checked : callable
        Called regularly, so that a fit can be cancelled.

    Raises
    ------
    ValueError
        If the model has already been tilted to moments.
    """
    before = model if isinstance(model, TiltedPool) else TiltedPool(model, seed, (), ())
    if before.moments is not None:
        raise ValueError("A pool can be tilted to moments only once.")
    pool, weights = before.pool(0)
    logs = np.log(np.maximum(weights, np.finfo(np.float64).tiny))
    alone = [cells_of_columns(one.columns, pool.sizes) for one in columns]
    cells = _sorted_into(pool, alone)
    ends = np.cumsum([one.size for one in alone]).tolist()
    places = [slice(end - one.size, end) for one, end in zip(alone, ends, strict=True)]
    rows = counted.coordinates.rows(pool.columns)
    first, second = counted.coordinates.pairs
    answers = np.concatenate([*(one.table.reshape(-1) for one in columns), counted.sums])
    held = [np.full(one.table.size, max(_LOOSELY * one.noise_std, _LOOSE)) for one in columns]
    squares = rows * rows
    spread = np.maximum(((squares * weights) @ squares.T)[first, second], 1e-6)
    # The error of the pool is the difference of answers from it beyond their noise. A ridge of r leaves the share
    # r / (r + N spread) of a difference; the best one leaves the noise's share of the total variance.
    off = counted.sums - total * ((rows * weights) @ rows.T)[first, second]
    missed = max(float(np.mean((off / counted.noise_std) ** 2)) - 1.0, _LEAST_MISSED)
    ridge = np.concatenate([*held, total * spread / missed])
    curvature = np.concatenate([np.maximum(answers[: ends[-1]], 0.0) + 1.0, total * spread]) + ridge

    def logs_of(theta: Vector) -> Vector:
        products = np.zeros((len(rows), len(rows)))
        products[first, second] = theta[ends[-1] :]
        return np.asarray(logs + np.einsum("ji,ji->i", rows, products @ rows))

    def value(theta: Vector) -> tuple[float, Vector]:
        checked()
        found, level = _weights_of(logs_of(theta) + cells.sums([theta[place] for place in places]))
        gradient = np.concatenate([*cells.counts(found), ((rows * found) @ rows.T)[first, second]])
        pull = ridge * theta
        gradient = total * gradient - answers + pull
        height = total * level - inner(theta, answers) + 0.5 * inner(theta, pull)
        return height, gradient

    theta = minimise(value, lambda gradient: gradient / curvature, np.zeros(len(answers)), steps=steps)
    return TiltedPool(
        before.base,
        before.seed,
        (*before.cells, *alone),
        (*before.factors, *(theta[place] for place in places)),
        TiltedMoments(counted.coordinates, theta[ends[-1] :]),
    )


@dataclass(frozen=True, slots=True, eq=False)
class TiltedPool:
    """Rows of a base model, drawn in proportion to their weights.

    Attributes
    ----------
    base : JointModel
    seed : int
        Draws the pools.
    cells : tuple of PoolCells
    factors : tuple of arrays of shape (cells,)
        Logarithms of the weights of rows, by cell.
    moments : TiltedMoments, optional
        The part of the logarithms that depends on products of a row's coordinates.
    first : Pool, optional
        The first pool, if it has already been drawn; it forgets what is not needed to weight its rows.
    """

    base: JointModel
    seed: int
    cells: tuple[PoolCells, ...]
    factors: tuple[Vector, ...]
    moments: TiltedMoments | None = None
    first: InitVar[Pool | None] = None
    _pools: dict[int, tuple[Pool, Vector]] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self, first: Pool | None) -> None:
        if first is not None:
            first.forget(but=self.cells)
            self._pools[0] = first, self._weights(first)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Bins of each column."""
        return self.base.sizes

    def marginal(self, columns: ColumnSet) -> Vector:
        """Return the proportions of a few columns in the first pool, shape (bins of each), sum 1; columns ascend."""
        pool, weights = self.pool(0)
        cells = cells_of_columns(columns, self.base.sizes)
        return pool.counts(cells, weights).reshape(cells.shape)

    def tables(self, subsets: Sequence[ColumnSet]) -> dict[ColumnSet, Vector]:
        """Return the proportions of several sets of columns in the first pool."""
        return {subset: self.marginal(subset) for subset in subsets}

    def sample(self, n_rows: int, random: np.random.Generator) -> Whole:
        """Return rows of bins, shape (n_rows, number of columns), in random order.

        Rows are drawn systematically: each occurs the floor or the ceiling of its expected number of times. A tilt puts
        the weight on a part of the rows, which would occur again and again, so they come from several pools. The tilt
        was fitted to the first one, so the weights of the others are raked to its tables (Deville and Särndal 1992,
        "Calibration estimators in survey sampling"); otherwise their rare rows of large weight shift every column. A
        tilt to moments keeps to as few pools as hold the rows: raking keeps tables, not moments.
        """
        first, weights = self.pool(0)
        fresh = min(math.ceil(n_rows / (_REPEATED * effective_rows(weights))), _POOLS) if self.moments is None else 1
        pools = max(fresh, -(-n_rows // POOL_ROWS), 1)
        pairs = pairs_to_balance(self.sizes, n_rows)
        means = [np.bincount(index, weights, size).astype(np.float64) for index, size in self._counted(first)]
        found = []
        for one in range(pools):
            pool, weights = self.pool(one)
            tables = list(self._counted(pool))
            if one:
                weights = _raked(weights, tables, means)
            tables += [cells_of_pair(pool.columns, pool.sizes, pair) for pair in pairs]
            wanted = (one + 1) * n_rows // pools - one * n_rows // pools
            ends = np.cumsum(weights)
            chosen, others = (_systematic(ends, many, random) for many in (wanted, _OTHERS * wanted))
            expected = [np.bincount(index, weights, size) * (wanted / ends[-1]) for index, size in tables]
            found.append(pool.rows(balanced(chosen, others, tables, expected, random)))
        rows = np.concatenate(found) if pools > 1 else found[0]
        random.shuffle(rows)
        return rows

    def state(self) -> dict[str, Vector]:
        """Return the base, the seed, and the cells and factors of every table."""
        state: dict[str, Vector] = {f"base.{name}": one for name, one in self.base.state().items()}
        # Two halves of 32 bits, which float64 represents exactly.
        state["pool.seed"] = np.array([self.seed >> 32, self.seed & 0xFFFFFFFF], dtype=np.float64)
        for place, (cells, factors) in enumerate(zip(self.cells, self.factors, strict=True)):
            state[f"pool.{place}.factors"] = factors
            state.update({f"pool.{place}.{name}": one.astype(np.float64) for name, one in cells.state().items()})
        return state if self.moments is None else state | self.moments.state()

    @classmethod
    def from_state(cls, base: JointModel, state: Mapping[str, Vector], *, seed: int) -> Self:
        """Return the tilted pool of a base and the rest of the state; it samples the same bytes.

        The seed is that of the run, which the certificate states. A different seed in a file is ignored, and shows when
        a recomputed state is compared with it.

        Raises
        ------
        LookupError, ValueError
            If it is not the state of a tilted pool.
        """
        tables: dict[int, dict[str, Vector]] = {}
        for name, one in state.items():
            if name.startswith("pool.") and name != "pool.seed":
                _, place, rest = name.split(".", 2)
                tables.setdefault(int(place), {})[rest] = one
        ordered = [tables[place] for place in sorted(tables)]
        kinds = (CellsOfCentres if "centres" in one else CellsOfSet for one in ordered)
        cells = tuple(kind.from_state(one, base.sizes) for kind, one in zip(kinds, ordered, strict=True))
        factors = tuple(one["factors"] for one in ordered)
        if any(one.shape != (own.size,) or not np.isfinite(one).all() for own, one in zip(cells, factors, strict=True)):
            raise ValueError("The cells of a pool need one finite factor each.")
        return cls(base, seed, cells, factors, TiltedMoments.from_state(state, base.sizes))

    def _counted(self, pool: Pool) -> Iterator[Counted]:
        """Yield the tables that the tilt was fitted to, and every column on its own."""
        yield from ((column, size) for column, size in zip(pool.columns, pool.sizes, strict=True) if size > 1)
        yield from ((one.index(pool), one.size) for one in self.cells if len(one.columns) > 1)

    def pool(self, number: int) -> tuple[Pool, Vector]:
        """Return a pool and its weights; the first pool is kept, as most tables need no other."""
        if number in self._pools:
            return self._pools[number]
        pool = Pool(self.base, (self.seed, number))
        weights = self._weights(pool)
        if number == 0:
            self._pools[0] = pool, weights
        return pool, weights

    def _weights(self, pool: Pool) -> Vector:
        logs = np.zeros(pool.n_rows) if self.moments is None else self.moments.logs(pool.columns)
        # One table after another, so that the same rows are drawn to the last byte.
        for one, factors in zip(self.cells, self.factors, strict=True):
            logs += factors[one.index(pool)]
        return _weights_of(logs)[0]


def _raked(weights: Vector, tables: Sequence[tuple[NDArray[Any], int]], wanted: Sequence[Vector]) -> Vector:
    """Return weights, sum 1, whose sums in the cells of the first table are as wanted, and in the others nearly so.

    The tables are taken from the last, which have most cells, to the first: single columns end exact. A cell without
    rows cannot be mended; if no weight is left, the weights are as they were.
    """
    raked = weights
    for (index, size), aim in zip(reversed(tables), reversed(wanted), strict=True):
        held = np.bincount(index, raked, size)
        raked = raked * np.divide(aim, held, out=np.zeros(size), where=held > 0)[index]
    total = float(raked.sum())
    return np.asarray(raked / total) if total > 0 else weights


def _systematic(ends: Vector, n_rows: int, random: np.random.Generator) -> Whole:
    """Return indices of rows, each the floor or the ceiling of its expected number of times."""
    offsets = (random.random() + np.arange(n_rows)) * (ends[-1] / max(n_rows, 1))
    return np.asarray(np.minimum(np.searchsorted(ends, offsets), len(ends) - 1))
