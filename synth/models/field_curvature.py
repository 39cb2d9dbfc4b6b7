"""How steep the objective of a field is: what makes its fit take few steps."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from synth.models.junction_tree import Subset

__all__ = ["Curvature"]

Vector = NDArray[np.float64]


class Curvature:
    r"""The inverse of an approximate second derivative of ``fit_field``'s objective.

    .. math:: D^{-1} + \sum_s A_s' (h_s 1 1' + \mathrm{diag}(A_s r))^{-1} A_s

    with the counts and ridges D of single cells, and, for every set s of columns that several tables T hold, the sums
    A_s of those tables to s. Factors of several tables that depend on s alone do the same to the field, so that all of
    them together feel the counts h_s, and only the ridge tells them apart: directions along which no step that looks at
    single cells gets anywhere (an additive Schwarz method; Toselli 2005, chapter 2).

    Parameters
    ----------
    tables : sequence of Subset
        Columns of every table.
    counts : sequence of arrays
        About how many rows each cell holds; positive.
    ridges : sequence of arrays
        Positive.
    """

    def __init__(self, tables: Sequence[Subset], counts: Sequence[Vector], ridges: Sequence[Vector]) -> None:
        flat_counts, ridge = (np.concatenate([one.reshape(-1) for one in each]) for each in (counts, ridges))
        self._diagonal = 1.0 / (flat_counts + ridge)
        starts = np.cumsum([0, *(one.size for one in counts)])
        cells, rows, values = [np.zeros(0, np.intp)], [np.zeros(0, np.intp)], [np.zeros(0, np.intp)]
        n_rows = n_values = 0
        holders: dict[int, list[int]] = {}
        firsts: dict[Subset, int] = {}
        for number, columns in enumerate(tables):
            firsts.setdefault(columns, number)
            for column in columns:
                holders.setdefault(column, []).append(number)
        for shared, first in firsts.items():
            around = holders[shared[0]] if shared else range(len(tables))
            within = [number for number in around if set(shared) <= set(tables[number])]
            if len(within) < 2:
                continue
            size = counts[first].size
            for number in within:
                shape = counts[number].shape
                kept = [n if column in shared else 1 for column, n in zip(tables[number], shape, strict=True)]
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
