"""How far a mixture of products is from noisy tables: its exact marginals in a few large operations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from synth.models.answers import Measured, pooled

__all__ = ["Layout", "TableLoss"]


class Layout:
    """Where the bins of every column lie in one tensor of all of them, columns of equal size side by side.

    Parameters
    ----------
    sizes : tuple of int
        Bins of each column.

    Attributes
    ----------
    original_order : array of shape (sum of sizes,), int64
        Row of every bin when bins are listed column by column.
    """

    def __init__(self, sizes: tuple[int, ...]) -> None:
        self.sizes = sizes
        by_size = sorted(range(len(sizes)), key=lambda column: (sizes[column], column))
        self._first_row = np.zeros(len(sizes), dtype=np.int64)
        self._first_row[by_size] = np.cumsum([0, *(sizes[column] for column in by_size)], dtype=np.int64)[:-1]
        self.original_order = np.concatenate(
            [self._first_row[column] + np.arange(size) for column, size in enumerate(sizes)]
        )
        distinct, counts = np.unique(np.array(sizes), return_counts=True)
        self._blocks = [(int(count), int(size)) for count, size in zip(counts, distinct, strict=True)]

    def rows(self, column: int) -> slice:
        """Return where the bins of a column lie."""
        first = int(self._first_row[column])
        return slice(first, first + self.sizes[column])

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
    """Chi-square between the exact marginals of a mixture and noisy tables.

    Tables of two columns are read off one product of all bins with all bins, or, where that would compute far more
    cells than were measured, off one product a column with the bins of its partners. Tables of more columns are
    computed in batches of about equal shape.

    Parameters
    ----------
    layout : Layout
    measured : sequence of Measured
        Answers to one question are pooled.
    total : float
        Rows that proportions are multiplied by.
    device : torch.device
    dtype : torch.dtype
    dense : bool, optional
        Whether pairs are read off the product of everything; by default what is faster.

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
        pairs = [one for one in measured if len(one.columns) == 2]
        if dense is None:
            # On a CPU a product of everything takes two per cell, one a column four per measured cell in smaller parts;
            # on CUDA it is one launch for all columns, as long as it fits into memory.
            everything = sum(layout.sizes) ** 2
            cells = sum(one.table.size for one in pairs)
            dense = everything <= (2**27 if device.type == "cuda" else max(4 * cells, 2**16))
        self._parts: list[Callable[[Tensor, Tensor], Tensor]] = []
        ones = [one for one in measured if len(one.columns) == 1]
        if ones:
            self._parts.append(_OneWays(layout, ones, total, device, dtype))
        if pairs:
            self._parts.append((_Everything if dense else _Partners)(layout, pairs, total, device, dtype))
        batches: dict[tuple[int, ...], list[Measured]] = {}
        for one in measured:
            if len(one.columns) > 2:
                # Powers of two, so that few batches hold many tables.
                shape = tuple(1 << (size - 1).bit_length() for size in one.table.shape)
                batches.setdefault(shape, []).append(one)
        for shape, tables in batches.items():
            self._parts.append(_Batch(layout, tables, shape, total, device, dtype))

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
        for part in self._parts:
            chi_square = chi_square + part(weights, probabilities)
        return chi_square


class _OneWays:
    """Tables of one column: one product of the bins with the weights."""

    def __init__(
        self, layout: Layout, measured: Sequence[Measured], total: float, device: torch.device, dtype: torch.dtype
    ) -> None:
        target = np.zeros(sum(layout.sizes))
        scale = np.zeros_like(target)
        for one in measured:
            place = layout.rows(one.columns[0])
            target[place] = one.table / one.noise_std
            scale[place] = total / one.noise_std
        self._target = torch.tensor(target, dtype=dtype, device=device)
        self._scale = torch.tensor(scale, dtype=dtype, device=device)

    def __call__(self, weights: Tensor, probabilities: Tensor) -> Tensor:
        return (self._scale * (probabilities @ weights) - self._target).square().sum()


class _Everything:
    """Tables of two columns, out of the product of all bins with all bins."""

    def __init__(
        self, layout: Layout, measured: Sequence[Measured], total: float, device: torch.device, dtype: torch.dtype
    ) -> None:
        target = np.zeros((sum(layout.sizes), sum(layout.sizes)))
        scale = np.zeros_like(target)
        for one in measured:
            place = (layout.rows(one.columns[0]), layout.rows(one.columns[1]))
            target[place] = one.table / one.noise_std
            scale[place] = total / one.noise_std
        self._target = torch.tensor(target, dtype=dtype, device=device)
        self._scale = torch.tensor(scale, dtype=dtype, device=device)

    def __call__(self, weights: Tensor, probabilities: Tensor) -> Tensor:
        model = (probabilities * weights) @ probabilities.T
        return (self._scale * model - self._target).square().sum()


class _Partners:
    """Tables of two columns, each column against the bins of all its partners: every table is computed from both sides.

    With both sides at hand the gradient of a column's bins is one more product, and nothing has to be scattered.
    """

    def __init__(
        self, layout: Layout, measured: Sequence[Measured], total: float, device: torch.device, dtype: torch.dtype
    ) -> None:
        sides: dict[int, list[tuple[int, Measured]]] = {}
        for one in measured:
            sides.setdefault(one.columns[0], []).append((one.columns[1], one))
            sides.setdefault(one.columns[1], []).append((one.columns[0], one))
        self._sides: list[tuple[slice, Tensor, Tensor, Tensor]] = []
        for column, partners in sides.items():
            rows = np.concatenate([np.r_[layout.rows(partner)] for partner, _ in partners])
            facing = [one.table if one.columns[0] == column else one.table.T for _, one in partners]
            # Each side is half of the chi-square.
            stds = [one.noise_std * 2**0.5 for _, one in partners]
            target = np.concatenate([table / std for table, std in zip(facing, stds, strict=True)], axis=1)
            scale = np.concatenate([np.full(t.shape, total / std) for t, std in zip(facing, stds, strict=True)], axis=1)
            self._sides.append(
                (
                    layout.rows(column),
                    torch.tensor(rows, device=device),
                    torch.tensor(scale, dtype=dtype, device=device),
                    torch.tensor(target, dtype=dtype, device=device),
                )
            )

    def __call__(self, weights: Tensor, probabilities: Tensor) -> Tensor:
        result: Tensor = _PartnersFunction.apply(weights, probabilities, self._sides)  # type: ignore[no-untyped-call]
        return result


class _PartnersFunction(torch.autograd.Function):
    """The chi-square of ``_Partners``, with its gradient computed on the way."""

    @staticmethod
    def forward(
        ctx: Any, weights: Tensor, probabilities: Tensor, sides: list[tuple[slice, Tensor, Tensor, Tensor]]
    ) -> Tensor:
        """Return the chi-square, shape ()."""
        weighted = probabilities * weights
        chi_square = weights.new_zeros(())
        slope = torch.zeros_like(probabilities)
        for place, rows, scale, target in sides:
            partners = probabilities.index_select(0, rows)
            residual = (weighted[place] @ partners.T).mul_(scale).sub_(target)
            chi_square += residual.square().sum()
            torch.mm(residual.mul_(scale), partners, out=slope[place])
        # Twice from the square; twice again for bins, which stand on both sides.
        ctx.save_for_backward(2.0 * (slope * probabilities).sum(dim=0), slope.mul_(4.0 * weights))
        return chi_square

    @staticmethod
    def backward(ctx: Any, *outer: Tensor) -> tuple[Tensor, Tensor, None]:
        """Return the gradients of the weights and of the probabilities."""
        of_weights, of_probabilities = ctx.saved_tensors
        return outer[0] * of_weights, outer[0] * of_probabilities, None


class _Batch:
    """Tables of three or more columns and about equal shape: products of their bins, summed over components."""

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
                rows[axis][index, :size] = np.r_[layout.rows(column)]
        flat = (len(measured), -1, shape[-1])
        self._target = torch.tensor(target.reshape(flat), dtype=dtype, device=device)
        self._scale = torch.tensor(scale.reshape(flat), dtype=dtype, device=device)
        self._rows = [torch.tensor(axis, device=device) for axis in rows]

    def __call__(self, weights: Tensor, probabilities: Tensor) -> Tensor:
        left = _gathered(probabilities, self._rows[0])
        for rows in self._rows[1:-1]:
            left = (left.unsqueeze(2) * _gathered(probabilities, rows).unsqueeze(1)).flatten(1, 2)
        right = _gathered(probabilities, self._rows[-1])
        model = (left * weights) @ right.transpose(1, 2)
        return (self._scale * model - self._target).square().sum()


def _gathered(probabilities: Tensor, rows: Tensor) -> Tensor:
    """Return the rows of some bins, shape (*rows.shape, K), by the way whose gradient has one order of sums."""
    if probabilities.is_cuda:
        # The gradient of indexing sorts before it sums; that of index_select adds in whatever order threads arrive.
        return probabilities[rows]
    return probabilities.index_select(0, rows.flatten()).view(*rows.shape, -1)
