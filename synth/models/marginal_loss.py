"""The distance of a mixture's exact marginals from noisy tables, in a few large operations with ordered sums."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from synth.models.marginals import NoisyMarginal, pooled

__all__ = ["BinLayout", "MarginalLoss", "mean_over"]

Part = Callable[[Tensor, Tensor], Tensor]
"""The chi-square of some tables, given weights and probabilities."""

Moved = Callable[[NDArray[Any]], Tensor]
"""Turns an array into a tensor of the loss's type, on its device."""


class BinLayout:
    """The positions of every column's bins in one tensor of all bins, with columns of equal size adjacent.

    Parameters
    ----------
    sizes : tuple of int
        Bins of each column.

    Attributes
    ----------
    original_order : array of shape (sum of sizes,), int64
        Row of every bin, with bins listed column by column.
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
        """Return the rows of a column's bins."""
        first = int(self._first_row[column])
        return slice(first, first + self.sizes[column])

    def log_probabilities(self, logits: Tensor) -> Tensor:
        """Return the log-softmax of every column's bins in every component; both of shape (..., sum of sizes, K)."""
        parts = torch.split(logits, [count * size for count, size in self._blocks], dim=-2)
        return torch.cat(
            [
                part.view(*part.shape[:-2], count, size, -1).log_softmax(dim=-2).flatten(-3, -2)
                for part, (count, size) in zip(parts, self._blocks, strict=True)
            ],
            dim=-2,
        )


class MarginalLoss:
    """Chi-square between the exact marginals of a mixture and noisy tables.

    Tables of two columns are parts of one product of all bins with all bins, or, if that would compute many more cells
    than were measured, of one product for each column with the bins of its partners. Tables of more columns are
    computed in batches of similar shape.

    Parameters
    ----------
    layout : BinLayout
    measured : sequence of NoisyMarginal
        Answers to one question are pooled.
    total : float
        Rows that proportions are multiplied by.
    device : torch.device
    dtype : torch.dtype
    dense : bool, optional
        Whether pairs come from the product of all bins; by default the faster way is chosen.

    Attributes
    ----------
    n_cells : int
        Number of measured cells: the mean chi-square of the true table.
    """

    def __init__(
        self,
        layout: BinLayout,
        measured: Sequence[NoisyMarginal],
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
            # On a CPU the product of all bins takes two operations per cell, and those by column four per measured
            # cell; on CUDA it is one launch for all columns, if it fits into memory.
            everything = sum(layout.sizes) ** 2
            cells = sum(one.table.size for one in pairs)
            dense = everything <= (2**27 if device.type == "cuda" else max(4 * cells, 2**16))
        moved = partial(torch.tensor, dtype=dtype, device=device)
        self._parts: list[Part] = []
        ones = [one for one in measured if len(one.columns) == 1]
        if ones:
            self._parts.append(_single_columns(layout, ones, total, moved))
        if pairs:
            sides = (_all_pairs if dense else _partners)(layout, pairs, total, moved)
            self._parts.append(partial(_SidesFunction.apply, sides))
        batches: dict[tuple[int, ...], list[NoisyMarginal]] = {}
        for one in measured:
            if len(one.columns) > 2:
                # Powers of two, so that there are few batches with many tables.
                shape = tuple(1 << (size - 1).bit_length() for size in one.table.shape)
                batches.setdefault(shape, []).append(one)
        for shape, tables in batches.items():
            self._parts.append(_batch(layout, tables, shape, total, moved))

    def __call__(self, weights: Tensor, probabilities: Tensor) -> Tensor:
        """Return the chi-square.

        Parameters
        ----------
        weights : Tensor of shape (..., K), sum 1
        probabilities : Tensor of shape (..., sum of sizes, K), in the order of the layout

        Returns
        -------
        Tensor of shape (...)
        """
        chi_square = weights.new_zeros(weights.shape[:-1])
        for part in self._parts:
            chi_square = chi_square + part(weights, probabilities)
        return chi_square


def _single_columns(layout: BinLayout, measured: Sequence[NoisyMarginal], total: float, moved: Moved) -> Part:
    """Compare tables of one column: one product of the bins with the weights."""
    target = np.zeros(sum(layout.sizes))
    scale = np.zeros_like(target)
    for one in measured:
        place = layout.rows(one.columns[0])
        target[place] = one.table / one.noise_std
        scale[place] = total / one.noise_std
    aim, factor = moved(target), moved(scale)
    return lambda weights, probabilities: (factor * mean_over(probabilities, weights) - aim).square().sum(dim=-1)


_Side = tuple[slice, Tensor | None, Tensor, Tensor]
"""Rows of a column's bins, those of its partners (None: all), and scale and target of their tables, concatenated."""


def _all_pairs(layout: BinLayout, measured: Sequence[NoisyMarginal], total: float, moved: Moved) -> list[_Side]:
    """Compare tables of two columns with the product of all bins with all bins: every table from both sides."""
    target = np.zeros((sum(layout.sizes), sum(layout.sizes)))
    scale = np.zeros_like(target)
    for one in measured:
        # Each side is half of the chi-square.
        std = one.noise_std * 2**0.5
        first, second = map(layout.rows, one.columns)
        for place, table in (((first, second), one.table), ((second, first), one.table.T)):
            target[place] = table / std
            scale[place] = total / std
    return [(slice(0, sum(layout.sizes)), None, moved(scale), moved(target))]


def _partners(layout: BinLayout, measured: Sequence[NoisyMarginal], total: float, moved: Moved) -> list[_Side]:
    """Compare tables of two columns, each column against the bins of all its partners: every table from both sides.

    With both sides available the gradient of a column's bins is one more product, without scattering.
    """
    partners_of: dict[int, list[tuple[int, NoisyMarginal]]] = {}
    for one in measured:
        partners_of.setdefault(one.columns[0], []).append((one.columns[1], one))
        partners_of.setdefault(one.columns[1], []).append((one.columns[0], one))
    sides: list[_Side] = []
    for column, partners in partners_of.items():
        rows = np.concatenate([np.r_[layout.rows(partner)] for partner, _ in partners])
        facing = [one.table if one.columns[0] == column else one.table.T for _, one in partners]
        # Each side is half of the chi-square.
        stds = [one.noise_std * 2**0.5 for _, one in partners]
        target = np.concatenate([table / std for table, std in zip(facing, stds, strict=True)], axis=1)
        scale = np.concatenate([np.full(t.shape, total / std) for t, std in zip(facing, stds, strict=True)], axis=1)
        factor = moved(scale)
        sides.append((layout.rows(column), torch.tensor(rows, device=factor.device), factor, moved(target)))
    return sides


class _SidesFunction(torch.autograd.Function):
    """The chi-square of tables that are computed from both sides, together with its gradient."""

    @staticmethod
    def forward(ctx: Any, sides: list[_Side], weights: Tensor, probabilities: Tensor) -> Tensor:
        """Return the chi-square, shape (...)."""
        weighted = probabilities * weights.unsqueeze(-2)
        chi_square = weights.new_zeros(weights.shape[:-1])
        slope = torch.zeros_like(probabilities)
        for place, rows, scale, target in sides:
            partners = probabilities if rows is None else probabilities.index_select(-2, rows)
            residual = (weighted[..., place, :] @ partners.mT).mul_(scale).sub_(target)
            chi_square += residual.square().sum(dim=(-2, -1))
            torch.matmul(residual.mul_(scale), partners, out=slope[..., place, :])
        # A factor 2 from the square, and another 2 for bins, which are on both sides.
        ctx.save_for_backward(2.0 * (slope * probabilities).sum(dim=-2), slope.mul_(4.0 * weights.unsqueeze(-2)))
        return chi_square

    @staticmethod
    def backward(ctx: Any, *outer: Tensor) -> tuple[None, Tensor, Tensor]:
        """Return the gradients of the weights and of the probabilities."""
        of_weights, of_probabilities = ctx.saved_tensors
        return None, outer[0].unsqueeze(-1) * of_weights, outer[0][..., None, None] * of_probabilities


def _batch(
    layout: BinLayout, measured: Sequence[NoisyMarginal], shape: tuple[int, ...], total: float, moved: Moved
) -> Part:
    """Compare tables of three or more columns and about equal shape: products of their bins, summed over components."""
    target = np.zeros((len(measured), *shape))
    scale = np.zeros_like(target)
    # Bins that a table does not have get arbitrary rows: the weight of their cells is 0.
    places = [np.zeros((len(measured), size), dtype=np.int64) for size in shape]
    for index, one in enumerate(measured):
        cells: tuple[int | slice, ...] = (index, *(slice(size) for size in one.table.shape))
        target[cells] = one.table / one.noise_std
        scale[cells] = total / one.noise_std
        for axis, column in enumerate(one.columns):
            places[axis][index, : layout.sizes[column]] = np.r_[layout.rows(column)]
    flat = (len(measured), -1, shape[-1])
    aim, factor = moved(target.reshape(flat)), moved(scale.reshape(flat))
    first, *others, last = (torch.tensor(axis, device=aim.device) for axis in places)

    def chi_square(weights: Tensor, probabilities: Tensor) -> Tensor:
        left = _gathered(probabilities, first)
        for rows in others:
            left = (left.unsqueeze(-2) * _gathered(probabilities, rows).unsqueeze(-3)).flatten(-3, -2)
        model = (left * weights[..., None, None, :]) @ _gathered(probabilities, last).mT
        return (factor * model - aim).square().sum(dim=(-3, -2, -1))

    return chi_square


def _gathered(probabilities: Tensor, rows: Tensor) -> Tensor:
    """Return the rows of some bins, shape (..., *rows.shape, K), so that the gradient sums in a fixed order."""
    if probabilities.is_cuda:
        # The gradient of indexing sorts before it sums; that of index_select adds in the order in which threads arrive.
        return probabilities[..., rows, :]
    return probabilities.index_select(-2, rows.flatten()).view(*probabilities.shape[:-2], *rows.shape, -1)


def mean_over(probabilities: Tensor, weights: Tensor) -> Tensor:
    """Return the mean of the components' proportions, shape (..., sum of sizes)."""
    if weights.ndim == 1:
        return probabilities @ weights
    return (probabilities @ weights.unsqueeze(-1)).squeeze(-1)
