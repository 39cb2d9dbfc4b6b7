"""Noisy marginals, to which a joint model is fitted, and the interface of such a model: marginals and rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

__all__ = ["JointModel", "NoisyMarginal", "coarse", "misfit", "pooled", "summed"]

_FEW_CELLS = 2048
"""With more cells than this, sums are faster by einsum, whose calls take longer."""


@dataclass(frozen=True, slots=True, eq=False)
class NoisyMarginal:
    """A noisy table of counts over some columns.

    Attributes
    ----------
    columns : tuple of int
        Positions of the columns, ascending.
    table : array of shape (bins of each column), float64
        Counts with noise, in rows; of any sign. A coarse table has any shape.
    noise_std : float
        Standard deviation of the noise of one count, in rows; positive.
    believed : array of the table's shape, optional
        Counts of a model of all earlier answers, in rows; a fit may lean towards them.
    cells : array of shape (bins of each column), whole numbers, optional
        For a coarse table: the flat index of the count that a row with these bins belongs to.
    """

    columns: tuple[int, ...]
    table: NDArray[np.float64]
    noise_std: float
    believed: NDArray[np.float64] | None = None
    cells: NDArray[np.intp] | None = None

    def __post_init__(self) -> None:
        bins = self.table if self.cells is None else self.cells
        if list(self.columns) != sorted(set(self.columns)) or bins.ndim != len(self.columns):
            raise ValueError(f"columns must ascend and match the table's axes, got {self.columns}.")
        if not (math.isfinite(self.noise_std) and self.noise_std > 0):
            raise ValueError(f"noise_std must be positive and finite, got {self.noise_std}.")
        if self.believed is not None and self.believed.shape != self.table.shape:
            raise ValueError(f"The believed counts of columns {self.columns} have another shape than the table.")

    @property
    def key(self) -> tuple[int | bytes, ...]:
        """Key of the question: answers with the same key are answers to the same question."""
        return self.columns if self.cells is None else (*self.columns, self.cells.tobytes())

    def counted(self, bins: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the counts of a table of bins in the cells of this table, shape of ``table``."""
        return bins if self.cells is None else coarse(bins, self.cells, self.table.shape)


def pooled(measured: Sequence[NoisyMarginal]) -> list[NoisyMarginal]:
    """Return one table for every question: the mean of its answers weighted by inverse variance.

    The belief before the first answer is kept, as it does not depend on any of them.
    """
    answers: dict[tuple[int | bytes, ...], list[NoisyMarginal]] = {}
    for one in measured:
        answers.setdefault(one.key, []).append(one)
    result = []
    for tables in answers.values():
        precision = math.fsum(one.noise_std**-2 for one in tables)
        mean = np.sum([one.table * one.noise_std**-2 for one in tables], axis=0) / precision
        pool = replace(tables[0], table=mean, noise_std=precision**-0.5)
        result.append(pool if len(tables) > 1 else tables[0])
    return result


class JointModel(Protocol):
    """A joint distribution of binned columns, fitted to noisy tables alone."""

    @property
    def sizes(self) -> tuple[int, ...]:
        """Bins of each column."""

    def marginal(self, columns: tuple[int, ...]) -> NDArray[np.float64]:
        """Return the proportions of a few columns, shape (bins of each), sum 1; columns ascend."""

    def tables(self, subsets: Sequence[tuple[int, ...]]) -> dict[tuple[int, ...], NDArray[np.float64]]:
        """Return the proportions of several sets of columns."""

    def sample(self, n_rows: int, random: np.random.Generator) -> NDArray[np.int64]:
        """Return rows of bins, shape (n_rows, number of columns); counts follow the model by controlled rounding."""

    def state(self) -> dict[str, NDArray[np.float64]]:
        """Return everything that ``sample`` needs."""


def misfit(model: JointModel, measured: Sequence[NoisyMarginal], total: float) -> float:
    """Return the root mean square of a model's distance from answers, in units of their noise; best about 1.

    Parameters
    ----------
    model : JointModel
    measured : sequence of NoisyMarginal
    total : float
        Number of rows by which proportions are multiplied.
    """
    squares = cells = 0.0
    for one in measured:
        squares += float((((total * one.counted(model.marginal(one.columns)) - one.table) / one.noise_std) ** 2).sum())
        cells += one.table.size
    return math.sqrt(squares / max(cells, 1.0))


def coarse(bins: NDArray[np.float64], cells: NDArray[np.intp], shape: tuple[int, ...]) -> NDArray[np.float64]:
    """Return the counts of a coarse table from a table of bins, given the count that each combination belongs to."""
    counts = np.bincount(cells.reshape(-1), weights=bins.reshape(-1), minlength=math.prod(shape))
    return counts.reshape(shape).astype(np.float64, copy=False)


def summed(table: NDArray[np.float64], away: Sequence[int]) -> NDArray[np.float64]:
    """Sum over the axes ``away`` of a table; the others keep their order. Without any the table itself is returned."""
    if not away:
        return table
    if table.size <= _FEW_CELLS:
        return np.asarray(np.add.reduce(table, tuple(away)))
    axes = list(range(table.ndim))
    # Sums along the last axis of a large table take einsum a fifth of the time.
    return np.asarray(np.einsum(table, axes, [axis for axis in axes if axis not in away]))  # type: ignore[arg-type]
