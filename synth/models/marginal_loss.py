"""The distance of a mixture's exact marginals from noisy tables and its slope, in a few large operations, ordered sums.

Slopes are written by hand: differentiating by machine takes three times as many operations, most of them small, and it
is their number that a graphics card is slow at.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from synth.models.marginals import NoisyMarginal, pooled

__all__ = ["BinLayout", "MarginalLoss", "Slopes", "mean_over"]

Moved = Callable[[NDArray[Any]], Tensor]
"""Turns an array into a tensor of the loss's type, on its device."""

_MOST_PADDED = 2**11
"""Most rows of a layout whose columns are padded to one size: they are one operation then, not one for every size."""


class BinLayout:
    """The positions of every column's bins in one tensor of all bins, with columns of equal size adjacent.

    Parameters
    ----------
    sizes : tuple of int
        Bins of each column.
    padded : bool
        Whether all columns take as many rows as the largest, where that makes few rows. Rows that are no bin have
        logits of ``NO_BIN``.

    Attributes
    ----------
    n_rows : int
        Rows of the tensor: bins, and what pads them.
    original_order : array of shape (sum of sizes,), int64
        Row of every bin, with bins listed column by column.
    blocks : tuple of (slice, int, int)
        Adjacent columns that take equally many rows: their rows, how many columns they are, and rows of each.
    """

    NO_BIN = -1e4
    """Its exponential is 0, and 0 times its logarithm is 0, also in float32."""

    def __init__(self, sizes: tuple[int, ...], *, padded: bool = False) -> None:
        self.sizes = sizes
        largest = max(sizes, default=0)
        room = [largest] * len(sizes) if padded and len(sizes) * largest <= _MOST_PADDED else list(sizes)
        by_size = sorted(range(len(sizes)), key=lambda column: (sizes[column], column))
        ends = np.cumsum([0, *(room[column] for column in by_size)], dtype=np.int64)
        self.n_rows = int(ends[-1])
        self._first_row = np.zeros(len(sizes), dtype=np.int64)
        self._first_row[by_size] = ends[:-1]
        self.original_order = np.concatenate(
            [np.zeros(0, np.int64)] + [self._first_row[column] + np.arange(size) for column, size in enumerate(sizes)]
        )
        distinct, counts = np.unique(np.array(room, dtype=np.int64), return_counts=True)
        starts = np.cumsum([0, *(distinct * counts)]).tolist()
        self.blocks = tuple(
            (slice(start, start + count * size), count, size)
            for start, count, size in zip(starts[:-1], counts.tolist(), distinct.tolist(), strict=True)
        )

    def rows(self, column: int) -> slice:
        """Return the rows of a column's bins."""
        first = int(self._first_row[column])
        return slice(first, first + self.sizes[column])

    def log_probabilities(self, logits: Tensor) -> Tensor:
        """Return the log-softmax of every column's bins in every component; both of shape (..., n_rows, K)."""
        parts = [_by_column(logits, block).log_softmax(dim=-2).flatten(-3, -2) for block in self.blocks]
        return parts[0] if len(parts) == 1 else torch.cat(parts, dim=-2) if parts else logits

    def slope_of_logits(self, slope: Tensor, probabilities: Tensor) -> Tensor:
        """Turn a slope by logarithms of proportions into one by logits, in place; both of shape (..., n_rows, K)."""
        for block in self.blocks:
            part = _by_column(slope, block)
            part.addcmul_(_by_column(probabilities, block), part.sum(dim=-2, keepdim=True), value=-1.0)
        return slope


def _by_column(bins: Tensor, block: tuple[slice, int, int]) -> Tensor:
    """View the bins of a block's columns, shape (..., columns, bins, K)."""
    rows, count, size = block
    return bins[..., rows, :].view(*bins.shape[:-2], count, size, bins.shape[-1])


@dataclass(frozen=True, slots=True, eq=False)
class Slopes:
    r"""The slope of a chi-square, apart by kind of table: of one column, of two, of more.

    That of the proportion of bin s in component k is :math:`w_k (u_s + 4 h_{sk}) + g_{sk}`, and that of the weight w_k
    is :math:`\sum_s p_{sk} (u_s + 2 h_{sk}) + v_k`: a pair of columns is seen from both of them.

    Attributes
    ----------
    ones : Tensor of shape (..., n_rows), optional
        u.
    pairs : Tensor of shape (..., n_rows, K), optional
        h.
    more : (Tensor of shape (..., K), Tensor of shape (..., n_rows, K)), optional
        v and g.
    """

    ones: Tensor | None = None
    pairs: Tensor | None = None
    more: tuple[Tensor, Tensor] | None = None

    def of_rows(self, rows: Tensor) -> Slopes:
        """Return the slopes by bins, given those by their groups and every bin's row among these."""
        more = self.more
        return Slopes(
            None if self.ones is None else self.ones.index_select(-1, rows),
            None if self.pairs is None else self.pairs.index_select(-2, rows),
            None if more is None else (more[0], more[1].index_select(-2, rows)),
        )


class MarginalLoss:
    """Chi-square between the exact marginals of a mixture and noisy tables.

    Tables of two columns are parts of one product of all bins with all bins, or, if that would compute many more cells
    than were measured, of one product for each column with the bins of its partners. Tables of more columns are
    computed in batches of similar shape.

    The mean chi-square of the true table is the number of measured cells.

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
    factor : float
        What the chi-square is multiplied by.
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
        factor: float = 1.0,
    ) -> None:
        measured = pooled(measured)
        pairs = [one for one in measured if len(one.columns) == 2]
        if dense is None:
            # On a CPU the product of all bins takes two operations per cell, and those by column four per measured
            # cell; on CUDA it is one launch for all columns, if it fits into memory.
            everything = layout.n_rows**2
            cells = sum(one.table.size for one in pairs)
            dense = everything <= (2**27 if device.type == "cuda" else max(4 * cells, 2**16))
        moved = partial(torch.tensor, dtype=dtype, device=device)
        root = math.sqrt(factor)
        ones = [one for one in measured if len(one.columns) == 1]
        self._ones = _single_columns(layout, ones, total, root, moved) if ones else None
        self._sides = (_all_pairs if dense else _partners)(layout, pairs, total, root, moved) if pairs else []
        batches: dict[tuple[int, ...], list[NoisyMarginal]] = {}
        for one in measured:
            if len(one.columns) > 2:
                # Powers of two, so that there are few batches with many tables.
                shape = tuple(1 << (size - 1).bit_length() for size in one.table.shape)
                batches.setdefault(shape, []).append(one)
        self._batches = [_Batch.of(layout, tables, shape, total, root, moved) for shape, tables in batches.items()]
        self._gathered = _Gathered(self._batches, layout.n_rows, device, dtype) if batches else None

    def __call__(self, weights: Tensor, probabilities: Tensor) -> Tensor:
        """Return the chi-square.

        Parameters
        ----------
        weights : Tensor of shape (..., K), sum 1
        probabilities : Tensor of shape (..., n_rows, K), in the order of the layout

        Returns
        -------
        Tensor of shape (...)
        """
        chi_square = weights.new_zeros(weights.shape[:-1])
        if self._ones is not None:
            pull = self._ones.pull(mean_over(probabilities, weights))
            chi_square = chi_square + self._ones.squares(pull).sum(dim=-1)
        weighted = probabilities * weights.unsqueeze(-2)
        for side in self._sides:
            cells, _ = side.cells(weighted, probabilities)
            chi_square = chi_square + side.answers.squares(side.answers.pull(cells)).sum(dim=(-2, -1))
        if self._gathered is not None:
            for batch, axes in zip(self._batches, self._gathered(probabilities), strict=True):
                pull = batch.answers.pull(batch.cells(weights, axes)[0])
                chi_square = chi_square + batch.answers.squares(pull).sum(dim=(-3, -2, -1))
        return chi_square

    def slopes(self, weights: Tensor, probabilities: Tensor, mean: Tensor | None = None) -> Slopes:
        """Return the slopes of the chi-square; ``mean`` is that of the proportions, where it is known."""
        ones = pairs = more = None
        if self._ones is not None:
            ones = self._ones.pull(mean_over(probabilities, weights) if mean is None else mean).mul_(2.0)
        if self._sides:
            weighted = probabilities * weights.unsqueeze(-2)
            parts = [side.pull(weighted, probabilities) for side in self._sides]
            if self._sides[0].partners is None:
                (pairs,) = parts
            else:
                pairs = torch.zeros_like(probabilities)
                for side, part in zip(self._sides, parts, strict=True):
                    pairs[..., side.rows, :] = part
        if self._gathered is not None:
            each = [
                batch.slopes(weights, axes)
                for batch, axes in zip(self._batches, self._gathered(probabilities), strict=True)
            ]
            of_weights = sum((one for one, _ in each[1:]), each[0][0])
            more = (of_weights, self._gathered.added([axis for _, axes in each for axis in axes]))
        return Slopes(ones, pairs, more)


@dataclass(frozen=True, slots=True, eq=False)
class _Answers:
    """Noisy counts y of cells with noise sigma, for proportions m of N rows.

    Attributes
    ----------
    scale : Tensor
        (N / sigma)^2; 0 for a cell that was not measured.
    offset : Tensor
        - N y / sigma^2.
    """

    scale: Tensor
    offset: Tensor

    @classmethod
    def of(cls, factor: NDArray[np.float64], target: NDArray[np.float64], moved: Moved) -> Self:
        """Make them of N / sigma and y / sigma."""
        return cls(moved(factor * factor), moved(-factor * target))

    def pull(self, proportions: Tensor) -> Tensor:
        """Return half of the slope of ((N m - y) / sigma)^2 by m, in the memory of the proportions."""
        return torch.addcmul(self.offset, proportions, self.scale, out=proportions)

    def squares(self, pull: Tensor) -> Tensor:
        """Return ((N m - y) / sigma)^2."""
        return pull.square().div_(self.scale.clamp_min(torch.finfo(pull.dtype).tiny))


def _single_columns(
    layout: BinLayout, measured: Sequence[NoisyMarginal], total: float, root: float, moved: Moved
) -> _Answers:
    """Compare tables of one column: one product of the bins with the weights."""
    target = np.zeros(layout.n_rows)
    scale = np.zeros_like(target)
    for one in measured:
        place = layout.rows(one.columns[0])
        target[place] = root * one.table / one.noise_std
        scale[place] = root * total / one.noise_std
    return _Answers.of(scale, target, moved)


@dataclass(frozen=True, slots=True, eq=False)
class _Side:
    """Tables of two columns as they are seen from some columns.

    Attributes
    ----------
    rows : slice
        Of these columns' bins.
    partners : Tensor of whole numbers, optional
        Rows of the bins of the other columns; None: all.
    answers : _Answers
        Of half of the chi-square, shape (rows, partners).
    """

    rows: slice
    partners: Tensor | None
    answers: _Answers

    def cells(self, weighted: Tensor, probabilities: Tensor) -> tuple[Tensor, Tensor]:
        """Return the proportions of its cells, and those of the partners' bins in every component."""
        partners = probabilities if self.partners is None else probabilities.index_select(-2, self.partners)
        return weighted[..., self.rows, :] @ partners.mT, partners

    def pull(self, weighted: Tensor, probabilities: Tensor) -> Tensor:
        """Return a quarter of the slope by the proportions of its bins, for a weight of 1."""
        cells, partners = self.cells(weighted, probabilities)
        return self.answers.pull(cells) @ partners


def _all_pairs(
    layout: BinLayout, measured: Sequence[NoisyMarginal], total: float, root: float, moved: Moved
) -> list[_Side]:
    """Compare tables of two columns with the product of all bins with all bins: every table from both sides."""
    target = np.zeros((layout.n_rows, layout.n_rows))
    scale = np.zeros_like(target)
    for one in measured:
        # Each side is half of the chi-square.
        std = one.noise_std * 2**0.5 / root
        first, second = map(layout.rows, one.columns)
        for place, table in (((first, second), one.table), ((second, first), one.table.T)):
            target[place] = table / std
            scale[place] = total / std
    return [_Side(slice(0, layout.n_rows), None, _Answers.of(scale, target, moved))]


def _partners(
    layout: BinLayout, measured: Sequence[NoisyMarginal], total: float, root: float, moved: Moved
) -> list[_Side]:
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
        stds = [one.noise_std * 2**0.5 / root for _, one in partners]
        target = np.concatenate([table / std for table, std in zip(facing, stds, strict=True)], axis=1)
        scale = np.concatenate([np.full(t.shape, total / std) for t, std in zip(facing, stds, strict=True)], axis=1)
        answers = _Answers.of(scale, target, moved)
        sides.append(_Side(layout.rows(column), torch.tensor(rows, device=answers.scale.device), answers))
    return sides


@dataclass(frozen=True, slots=True, eq=False)
class _Batch:
    """Tables of three or more columns and about equal shape: products of their bins, summed over components.

    Attributes
    ----------
    places : tuple of arrays of shape (tables, bins), int64
        Rows of the bins of every axis. Bins that a table does not have get arbitrary ones: their cells have no weight.
    answers : _Answers
        Shape (tables, cells of all columns but the last, bins of the last).
    """

    places: tuple[NDArray[np.int64], ...]
    answers: _Answers

    @classmethod
    def of(
        cls,
        layout: BinLayout,
        measured: Sequence[NoisyMarginal],
        shape: tuple[int, ...],
        total: float,
        root: float,
        moved: Moved,
    ) -> Self:
        """Make the batch of some tables, whose shapes are at most ``shape``."""
        target = np.zeros((len(measured), *shape))
        scale = np.zeros_like(target)
        places = tuple(np.zeros((len(measured), size), dtype=np.int64) for size in shape)
        for index, one in enumerate(measured):
            cells: tuple[int | slice, ...] = (index, *(slice(size) for size in one.table.shape))
            target[cells] = root * one.table / one.noise_std
            scale[cells] = root * total / one.noise_std
            for axis, column in enumerate(one.columns):
                places[axis][index, : layout.sizes[column]] = np.r_[layout.rows(column)]
        flat = (len(measured), -1, shape[-1])
        return cls(places, _Answers.of(scale.reshape(flat), target.reshape(flat), moved))

    def cells(self, weights: Tensor, axes: Sequence[Tensor]) -> tuple[Tensor, list[Tensor], Tensor]:
        """Return proportions of cells; products of the first axes, one more each time; the last of them weighted.

        Parameters
        ----------
        weights : Tensor of shape (..., K)
        axes : sequence of Tensor of shape (..., tables, bins, K)
        """
        products = [axes[0]]
        for axis in axes[1:-1]:
            products.append((products[-1].unsqueeze(-2) * axis.unsqueeze(-3)).flatten(-3, -2))
        weighted = products[-1] * weights[..., None, None, :]
        return weighted @ axes[-1].mT, products, weighted

    def slopes(self, weights: Tensor, axes: Sequence[Tensor]) -> tuple[Tensor, list[Tensor]]:
        """Return half of the slope by the weights, and of those by the proportions of every axis."""
        cells, products, weighted = self.cells(weights, axes)
        pull = self.answers.pull(cells)
        by_axis = [pull.mT @ weighted]
        slope = pull @ axes[-1]
        of_weights = (slope * products[-1]).sum(dim=(-3, -2))
        slope = slope.mul_(weights[..., None, None, :])
        for before, axis in zip(reversed(products[:-1]), reversed(axes[1:-1]), strict=True):
            slope = slope.reshape(*slope.shape[:-2], before.shape[-2], axis.shape[-2], -1)
            by_axis.append((slope * before.unsqueeze(-2)).sum(dim=-3))
            slope = (slope * axis.unsqueeze(-3)).sum(dim=-2)
        return of_weights.mul_(2.0), [slope, *reversed(by_axis)]


class _Gathered:
    """The rows of bins that batches take, all in one operation, and slopes by them added up in a fixed order."""

    def __init__(self, batches: Sequence[_Batch], n_rows: int, device: torch.device, dtype: torch.dtype) -> None:
        places = [axis for batch in batches for axis in batch.places]
        self._shapes = [axis.shape for axis in places]
        self._axes = [len(batch.places) for batch in batches]
        self._rows = torch.tensor(np.concatenate([axis.reshape(-1) for axis in places]), device=device)
        self._n_rows, self._matrix = n_rows, None
        if device.type == "cuda":
            # On a card index_add adds in the order in which threads arrive.
            self._matrix = torch.zeros(n_rows, len(self._rows), dtype=dtype, device=device)
            self._matrix[self._rows, torch.arange(len(self._rows), device=device)] = 2.0

    def __call__(self, probabilities: Tensor) -> list[list[Tensor]]:
        """Return the axes of every batch, each of shape (..., tables, bins, K)."""
        rows = probabilities.index_select(-2, self._rows)
        parts = torch.split(rows, [math.prod(shape) for shape in self._shapes], dim=-2)
        axes = iter(part.view(*rows.shape[:-2], *of, -1) for part, of in zip(parts, self._shapes, strict=True))
        return [[next(axes) for _ in range(several)] for several in self._axes]

    def added(self, slopes: Sequence[Tensor]) -> Tensor:
        """Add halved slopes by the axes, in order, up to slopes by all bins; shape (..., n_rows, K)."""
        flat = torch.cat([one.flatten(-3, -2) for one in slopes], dim=-2)
        if self._matrix is not None:
            return self._matrix @ flat
        *several, _, components = flat.shape
        return flat.new_zeros((*several, self._n_rows, components)).index_add_(-2, self._rows, flat, alpha=2.0)


def mean_over(probabilities: Tensor, weights: Tensor) -> Tensor:
    """Return the mean of the components' proportions, shape (..., sum of sizes)."""
    if weights.ndim == 1:
        return probabilities @ weights
    return (probabilities @ weights.unsqueeze(-1)).squeeze(-1)
