"""How far a mixture of products is from noisy tables: its exact marginals in a few large operations."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from synth.models.answers import Measured

__all__ = ["Layout", "TableLoss", "pooled"]


def pooled(measured: Sequence[Measured]) -> list[Measured]:
    """Return one table for every set of columns: the mean of its answers weighted by inverse variance."""
    answers: dict[tuple[int, ...], list[Measured]] = {}
    for one in measured:
        answers.setdefault(one.columns, []).append(one)
    result = []
    for columns, tables in answers.items():
        precision = sum(one.noise_std**-2 for one in tables)
        mean = np.sum([one.table * one.noise_std**-2 for one in tables], axis=0) / precision
        result.append(Measured(columns, mean, precision**-0.5) if len(tables) > 1 else tables[0])
    return result


class Layout:
    """Where the bins of every column lie in one tensor of all of them, columns of equal size side by side.

    Parameters
    ----------
    sizes : tuple of int
        Bins of each column.

    Attributes
    ----------
    first_row : array of shape (d,), int64
        Row of the first bin of each column.
    original_order : array of shape (sum of sizes,), int64
        Row of every bin when bins are listed column by column.
    """

    def __init__(self, sizes: tuple[int, ...]) -> None:
        self.sizes = sizes
        by_size = sorted(range(len(sizes)), key=lambda column: (sizes[column], column))
        self.first_row = np.zeros(len(sizes), dtype=np.int64)
        self.first_row[by_size] = np.cumsum([0, *(sizes[column] for column in by_size)], dtype=np.int64)[:-1]
        self.original_order = np.concatenate(
            [self.first_row[column] + np.arange(size) for column, size in enumerate(sizes)]
        )
        distinct, counts = np.unique(np.array(sizes), return_counts=True)
        self._blocks = [(int(count), int(size)) for count, size in zip(counts, distinct, strict=True)]

    def log_probabilities(self, logits: Tensor) -> Tensor:
        """Return the log-softmax of every column's bins in every component; both of shape (sum of sizes, K)."""
        parts = torch.split(logits, [count * size for count, size in self._blocks])
        return torch.cat(
            [
                part.view(count, size, -1).log_softmax(dim=1).view(count * size, -1)
                for part, (count, size) in zip(parts, self._blocks, strict=True)
            ]
        )


class TableLoss:
    """Chi-square between the marginals of a mixture and noisy tables.

    Tables of one and two columns may be read off one product of all bins with all bins (a row of ones gives the one-way
    tables); where that would compute far more cells than were measured, and for tables of more columns, tables of about
    equal shape are computed in one batch.

    Parameters
    ----------
    layout : Layout
    measured : sequence of Measured
    total : float
        Rows that proportions are multiplied by.
    device : torch.device
    dtype : torch.dtype
    dense : bool, optional
        Whether tables of one and two columns are read off the product of everything; by default the cheaper way.

    Attributes
    ----------
    n_cells : int
        Measured cells: what the chi-square of the true table would be on average.
    """

    def __init__(
        self,
        layout: Layout,
        measured: Sequence[Measured],
        total: float,
        *,
        device: torch.device,
        dtype: torch.dtype,
        dense: bool | None = None,
    ) -> None:
        measured = pooled(measured)
        self.n_cells = sum(one.table.size for one in measured)
        small = [one for one in measured if len(one.columns) <= 2]
        shapes = [_batch_shape(layout, one) for one in small]
        if dense is None:
            # A batch gathers its factors and scatters their gradients, which costs as much as three products.
            everything = (sum(layout.sizes) + 1) ** 2
            dense = everything <= (16 if device.type == "cuda" else 4) * sum(int(np.prod(shape)) for shape in shapes)
        self._gram = _Gram(layout, small, total, device, dtype) if dense and small else None
        batches: dict[tuple[int, ...], list[Measured]] = {}
        for one in measured:
            if not dense or len(one.columns) > 2:
                batches.setdefault(_batch_shape(layout, one), []).append(one)
        self._batches = [_Batch(layout, tables, shape, total, device, dtype) for shape, tables in batches.items()]

    def __call__(self, weights: Tensor, probabilities: Tensor) -> Tensor:
        """Return the chi-square.

        Parameters
        ----------
        weights : Tensor of shape (K,), sum 1
        probabilities : Tensor of shape (sum of sizes, K), in the order of the layout

        Returns
        -------
        Tensor of shape ()
        """
        chi_square = weights.new_zeros(())
        if self._gram is not None:
            chi_square = chi_square + self._gram(weights, probabilities)
        for batch in self._batches:
            chi_square = chi_square + batch(weights, probabilities)
        return chi_square


def _batch_shape(layout: Layout, one: Measured) -> tuple[int, ...]:
    """Return the shape that a table is padded to: powers of two, so that few batches hold many tables."""
    return tuple(1 << (layout.sizes[column] - 1).bit_length() for column in one.columns)


class _Gram:
    """Tables of one and two columns, out of the product of all bins with all bins."""

    def __init__(
        self, layout: Layout, measured: Sequence[Measured], total: float, device: torch.device, dtype: torch.dtype
    ) -> None:
        n_rows = sum(layout.sizes)
        target = np.zeros((n_rows + 1, n_rows + 1))
        scale = np.zeros_like(target)
        for one in measured:
            spans = [slice(int(layout.first_row[j]), int(layout.first_row[j]) + layout.sizes[j]) for j in one.columns]
            place = (spans[0], spans[1] if len(spans) == 2 else slice(n_rows, n_rows + 1))
            target[place] = one.table.reshape(target[place].shape) / one.noise_std
            scale[place] = total / one.noise_std
        self._target = torch.tensor(target, dtype=dtype, device=device)
        self._scale = torch.tensor(scale, dtype=dtype, device=device)
        self._one = torch.ones(1, 1, dtype=dtype, device=device)

    def __call__(self, weights: Tensor, probabilities: Tensor) -> Tensor:
        rows = torch.cat([probabilities, self._one.expand(1, probabilities.shape[1])])
        residual = torch.addcmul(-self._target, self._scale, (rows * weights) @ rows.T)
        return residual.square().sum()


class _Batch:
    """Tables of about equal shape, each the product of its columns' bins summed over components."""

    def __init__(
        self,
        layout: Layout,
        measured: Sequence[Measured],
        shape: tuple[int, ...],
        total: float,
        device: torch.device,
        dtype: torch.dtype,
    ) -> None:
        target = np.zeros((len(measured), *shape))
        scale = np.zeros_like(target)
        # Rows of bins that a table does not have are any rows: their cells weigh nothing.
        rows = [np.zeros((len(measured), size), dtype=np.int64) for size in shape]
        for index, one in enumerate(measured):
            cells: tuple[int | slice, ...] = (index, *(slice(size) for size in one.table.shape))
            target[cells] = one.table / one.noise_std
            scale[cells] = total / one.noise_std
            for axis, column in enumerate(one.columns):
                size = layout.sizes[column]
                rows[axis][index, :size] = layout.first_row[column] + np.arange(size)
        flat = (len(measured), -1, shape[-1]) if len(shape) > 1 else target.shape
        self._target = torch.tensor(target.reshape(flat), dtype=dtype, device=device)
        self._scale = torch.tensor(scale.reshape(flat), dtype=dtype, device=device)
        self._rows = [torch.tensor(axis, device=device) for axis in rows]

    def __call__(self, weights: Tensor, probabilities: Tensor) -> Tensor:
        left = _gathered(probabilities, self._rows[0])
        if len(self._rows) == 1:
            return torch.addcmul(-self._target, self._scale, left @ weights).square().sum()
        for rows in self._rows[1:-1]:
            left = (left.unsqueeze(2) * _gathered(probabilities, rows).unsqueeze(1)).flatten(1, 2)
        right = _gathered(probabilities, self._rows[-1])
        model = (left * weights) @ right.transpose(1, 2)
        return torch.addcmul(-self._target, self._scale, model).square().sum()


def _gathered(probabilities: Tensor, rows: Tensor) -> Tensor:
    """Return the rows of some bins, shape (*rows.shape, K), by the way whose gradient has one order of sums."""
    if probabilities.is_cuda:
        # The gradient of indexing sorts before it sums; that of index_select adds in whatever order threads arrive.
        return probabilities[rows]
    return probabilities.index_select(0, rows.flatten()).view(*rows.shape, -1)
