"""Total variation between tables over many sets of columns, fast and exact on integer codes.

The rows of all tables stand one after another. A set of columns turns each row into one key; small sets of keys are
counted in an array with one bin per declared cell, huge ones after a hash table has numbered the cells that occur. Both
are exact: cells that no table has add nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from synth.errors import InputError
from synth.reports.subsets import Subsets

__all__ = ["CodeTable", "StackedTables", "total_variation"]

CodeTable = Sequence[NDArray[Any]]
"""One 1-D array of integer codes per column."""

_CELLS_PER_ROW = 1
"""An array with at most this many cells for each row is counted into; above, a hash table touches less memory."""

_LARGEST_KEY = 2**62


def total_variation(left: NDArray[Any], right: NDArray[Any]) -> float:
    """Return half the L1 distance between the relative frequencies of two tables of counts.

    Parameters
    ----------
    left, right : arrays of the same shape, not negative, with a positive sum
    """
    return float(0.5 * np.abs(left / left.sum() - right / right.sum()).sum())


class StackedTables:
    """Several tables of the same columns, ready to be compared with the first of them.

    Parameters
    ----------
    tables : sequence of CodeTable
        The reference first; tables may have different numbers of rows, at least one each.
    sizes : sequence of int
        Number of codes of each column.

    Raises
    ------
    InputError
        If a table has no row, or another number of columns.
    """

    def __init__(self, tables: Sequence[CodeTable], sizes: Sequence[int]) -> None:
        if any(len(table) != len(sizes) for table in tables):
            raise InputError("Tables can be compared only over the same columns.")
        rows = [len(table[0]) for table in tables]
        if min(rows) == 0:
            raise InputError("A table without rows has no frequencies to compare.")
        self._sizes = tuple(int(size) for size in sizes)
        self._rows = np.array(rows)
        self._columns = [np.concatenate([table[place] for table in tables]) for place in range(len(sizes))]
        self._table_of_row = np.repeat(np.arange(len(tables)), rows)
        self._share = 1.0 / self._rows
        self._prefix: tuple[int, ...] = ()
        self._prefix_key: tuple[NDArray[np.int64], int] | None = None

    def distances(self, subsets: Subsets, *, on_step: Callable[[int, int], None] | None = None) -> NDArray[np.float64]:
        """Return the total variation of every further table from the first, for every subset.

        Parameters
        ----------
        subsets : Subsets
            Neighbouring subsets that share their first columns are fastest.
        on_step : callable, optional
            Told (done, total) now and then; may raise to stop.

        Returns
        -------
        array of shape (n_subsets, n_tables - 1), values in [0, 1]
        """
        total = len(subsets.chosen)
        found = np.empty((total, len(self._rows) - 1))
        for place, subset in enumerate(subsets.chosen):
            found[place] = self._distances(subset)
            if on_step is not None and (place % 16 == 0 or place + 1 == total):
                on_step(place + 1, total)
        return found

    def _distances(self, subset: tuple[int, ...]) -> NDArray[np.float64]:
        key, cells = self._key_of_prefix(subset[:-1])
        key, cells = self._extended(key, cells, subset[-1])
        if cells > _CELLS_PER_ROW * len(key):
            key, cells = self._occurring(key, cells)
        counts = np.bincount(key, minlength=cells * len(self._rows))
        return _from_first(counts.reshape(len(self._rows), cells) * self._share[:, None])

    def _key_of_prefix(self, prefix: tuple[int, ...]) -> tuple[NDArray[np.int64], int]:
        if self._prefix_key is None or prefix != self._prefix:
            # A row's table comes first in its key, so that one count serves all tables.
            key, cells = self._table_of_row, 1
            for column in prefix:
                key, cells = self._extended(key, cells, column)
            self._prefix, self._prefix_key = prefix, (key, cells)
        return self._prefix_key

    def _extended(self, key: NDArray[np.int64], cells: int, column: int) -> tuple[NDArray[np.int64], int]:
        size = self._sizes[column]
        if cells * size * len(self._rows) > _LARGEST_KEY:
            # So that the next key still fits into 64 bits.
            key, cells = self._occurring(key, cells)
        longer = key * size
        longer += self._columns[column]
        return longer, cells * size

    def _occurring(self, key: NDArray[np.int64], cells: int) -> tuple[NDArray[np.int64], int]:
        """Return keys over those cells alone that occur in a table: the others add nothing to a distance."""
        numbers, occurring = pd.factorize(key - cells * self._table_of_row)
        return numbers + len(occurring) * self._table_of_row, len(occurring)


def _from_first(shares: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(0.5 * np.abs(shares[1:] - shares[0]).sum(axis=1))
