r"""How far rows of mixed columns are apart: Gower's distance (Gower 1971), and exact nearest neighbours by it.

.. math:: d(x, y) = \frac{1}{p} \sum_{j=1}^{p} d_j(x_j, y_j)

where d_j of a number or date is |difference| / declared range, d_j of categories is 0 if they agree and 1 if not, and a
missing cell or special value is a state of its own: 0 from itself and 1 from everything else. Only the schema decides.

Notes
-----
Differs from the paper: the range is the declared one, not the observed one; a missing cell is compared, not left out.
Distances are sums of whole numbers, so they are the same on every device and in every order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from synth.errors import InputError
from synth.reports.counting import CodeTable
from synth.reports.row_tree import Axis, Placed, RowTree, distances_between, distinct_rows
from synth.schema import Schema

__all__ = ["GowerSpace"]

_FINEST = 2**24
_LARGEST_SUM = 2**31 - 1
_DEVICE_CELLS = 2**26
"""Pairs of rows at a time on a device: 256 MB."""


@dataclass(frozen=True, slots=True)
class GowerSpace:
    """Where the codes of a schema's columns lie.

    Attributes
    ----------
    axes : tuple of Axis
        One for each modelled column.
    unit : int
        What a distance of 1 in one column is: the whole number that declared ranges are divided into. 2^24, less for
        very many columns or special values; no number moves by more than half of 1 / ``unit`` of its range.
    """

    axes: tuple[Axis, ...]
    unit: int

    @classmethod
    def of(cls, schema: Schema) -> Self:
        """Lay out the modelled columns of a schema."""
        columns = schema.modelled
        # The largest value of a mixed column, and the largest sum over columns, must fit 32 bits.
        widest = max((2 * (column.size - column.levels + 1) for column in columns if column.levels), default=1)
        unit = _FINEST
        while unit * max(widest, len(columns)) > _LARGEST_SUM:
            unit //= 2
        return cls(tuple(Axis(column.levels, column.size, unit) for column in columns), unit)

    def place(self, table: CodeTable) -> Placed:
        """Return the place of every code.

        Parameters
        ----------
        table : CodeTable
            Codes in ``schema.names`` order, one array of shape (n_rows,) per column.

        Returns
        -------
        list of arrays of shape (n_rows,)
            Multiples of 1 / ``unit`` for columns with a grid; codes for others.
        """
        if len(table) != len(self.axes):
            raise InputError(f"Rows of {len(self.axes)} columns are needed, got {len(table)}.")
        return [axis.place(codes) for axis, codes in zip(self.axes, table, strict=True)]

    def between(self, left: CodeTable, right: CodeTable) -> NDArray[np.float64]:
        """Return the distance of every row of one table from every row of another.

        Returns
        -------
        array of shape (rows of ``left``, rows of ``right``), in [0, 1]
        """
        return self._shares(distances_between(self.axes, self.place(left), self.place(right)))

    def nearest(
        self,
        queries: CodeTable,
        rows: CodeTable,
        *,
        device: str = "cpu",
        on_step: Callable[[int, int], None] | None = None,
    ) -> NDArray[np.float64]:
        """Return how far the nearest of ``rows`` is from every query; exact.

        Parameters
        ----------
        queries, rows : CodeTable
            Codes in ``schema.names`` order; at least one row among ``rows``.
        device : {"cpu", "cuda"}
            On the processor rows are sorted into boxes and boxes that are too far are not opened; on a card every pair
            is computed. The answers are the same.
        on_step : callable, optional
            Told (done, total); may raise to stop.

        Returns
        -------
        array of shape (n_queries,), in [0, 1]

        Raises
        ------
        InputError
            If there are no rows to be near to.
        """
        if not len(rows[0]):
            raise InputError("There are no rows to be near to.")
        wanted, inverse = distinct_rows(self.place(queries))
        there, _ = distinct_rows(self.place(rows))
        if not len(inverse):
            return np.zeros(0)
        if device == "cpu":
            found = RowTree.of(self.axes, there).nearest(wanted, on_step=on_step)
        else:
            found = _nearest_on(device, self.axes, wanted, there, on_step)
        return self._shares(found)[inverse]

    def _shares(self, distances: NDArray[np.int32]) -> NDArray[np.float64]:
        return distances / (float(self.unit) * len(self.axes))


def _nearest_on(
    device: str,
    axes: Sequence[Axis],
    queries: Placed,
    rows: Placed,
    on_step: Callable[[int, int], None] | None,
) -> NDArray[np.int32]:
    """Compare every query with every row, block by block."""
    import torch  # here, as who has no card needs none

    there = [torch.from_numpy(places).to(device) for places in rows]
    n_queries, size = len(queries[0]), max(1, _DEVICE_CELLS // len(rows[0]))
    found: list[NDArray[Any]] = []
    for start in range(0, n_queries, size):
        sums = torch.zeros((min(size, n_queries - start), len(rows[0])), dtype=torch.int32, device=device)
        for axis, places, others in zip(axes, queries, there, strict=True):
            mine = torch.from_numpy(places[start : start + size]).to(device)
            if axis.levels:
                sums += (mine[:, None] - others).abs_().clamp_(max=axis.unit)
            else:
                sums += (mine[:, None] != others).to(torch.int32) * axis.unit
        found.append(sums.min(dim=1).values.cpu().numpy())
        if on_step is not None:
            on_step(min(start + size, n_queries), n_queries)
    return np.concatenate(found)
