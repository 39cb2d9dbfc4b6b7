"""Fitting a mixture of products to noisy marginals, by comparing them with its exact ones in a few large operations."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from synth.models.marginals import NoisyMarginal, pooled
from synth.models.mixture import Mixture
from synth.system.machine import single_thread

__all__ = ["BinLayout", "GroupedMarginals", "MarginalLoss", "fit_mixtures"]

# Proportions below this one have no logarithm of use.
_LEAST = 1e-12

_LEARNING_RATE = 0.2
"""Of logits; it falls to nothing over the second half of the steps."""

_SPREAD = 0.3
"""Standard deviation of the first components' logits around the columns' own."""


@dataclass(frozen=True, slots=True, eq=False)
class GroupedMarginals:
    """Noisy tables whose cells are groups of bins: many tables at once bear fewer cells than columns by themselves.

    Attributes
    ----------
    groups : tuple of arrays of shape (bins,), whole numbers
        Group of every bin, for each column; every group holds at least one.
    measured : tuple of NoisyMarginal
        Tables of several columns, shape (groups of each).
    """

    groups: tuple[NDArray[np.int32], ...]
    measured: tuple[NoisyMarginal, ...]

    @property
    def sizes(self) -> tuple[int, ...]:
        """Groups of each column."""
        return tuple(int(group.max()) + 1 for group in self.groups)

    def rows(self, bins: BinLayout, groups: BinLayout) -> NDArray[np.int64]:
        """Return the row of the group of every bin, both in the order of their layouts; shape (sum of bins,)."""
        rows = np.empty(sum(bins.sizes), dtype=np.int64)
        for column, group in enumerate(self.groups):
            rows[bins.rows(column)] = groups.rows(column).start + group
        return rows


def fit_mixtures(
    sizes: tuple[int, ...],
    measured: Sequence[NoisyMarginal],
    total: float,
    *,
    components: int = 200,
    steps: int = 1000,
    seeds: Sequence[int] = (0,),
    device: str = "cpu",
    starts: Sequence[Mixture] | None = None,
    price: float = 2.0,
    overlap: float = 0.5,
    grouped: GroupedMarginals | None = None,
    report: Callable[[int, tuple[float, ...]], None] | None = None,
) -> list[Mixture]:
    r"""Fit mixtures of products to noisy tables, each from first components of its own, side by side in one tensor.

    .. math:: \sum_t \|(N p_t - y_t) / \sigma_t\|^2 + \frac{c}{\bar\sigma} N D

    is minimised by Adam for each, where p_t are the mixture's exact marginals, y_t and sigma_t the tables and their
    noise, N ``total``, c ``price``, sigma-bar the typical noise of a table of several columns and D about how many nats
    the mixture is from independent columns. Tables alone leave open what was not measured, and a mixture of many
    components fills it with whatever fits the noise; the second term keeps columns as independent as the answers allow.
    Where a count is off by its noise, moving a row changes the first term by 2 / sigma, hence the price of a nat.

    Parameters
    ----------
    sizes : tuple of int
        Bins of each column, at least 1.
    measured : sequence of NoisyMarginal
        Answers to one question are pooled.
    total : float
        Rows in the table; positive.
    components : int
        Of each mixture; ignored where ``starts`` are given.
    steps : int
    seeds : sequence of int
        Of the first components of each mixture; ignored where ``starts`` are given.
    device : str
        What torch calls it; float32 everywhere, on one thread of a CPU.
    starts : sequence of Mixture, optional
        Earlier fits to go on from, of as many components each.
    price : float
        What one nat of dependence costs a row, in units of 1 / noise; 0 for none.
    overlap : float
        Part of what rows tell of their component, by its estimate, that is taken off the dependence, in [0, 1]; 0 is a
        third of the time.
    grouped : GroupedMarginals, optional
        Tables of groups of bins, to which the mixtures are fitted as well.
    report : callable, optional
        Told the step and every mixture's chi-square per cell (about 1 where only noise is left) now and then.

    Returns
    -------
    list of Mixture
    """
    _check(sizes, measured, total, components, starts or ())
    measured = pooled(measured)
    layout = BinLayout(sizes)
    if starts is None:
        first = [_logits(layout, measured, components, seed) for seed in seeds]
    else:
        first = [_logits_of(layout, one) for one in starts]
    where = torch.device(device)
    with single_thread():
        # A single one is a matrix: products of matrices are not rounded as those of stacks of one.
        stacked = np.stack(first) if len(first) > 1 else first[0]
        logits = torch.tensor(stacked, dtype=torch.float32, device=where, requires_grad=True)
        losses = [_Loss(MarginalLoss(layout, measured, total, device=where, dtype=torch.float32))]
        if grouped is not None:
            of_groups = BinLayout(grouped.sizes)
            coarse = MarginalLoss(of_groups, grouped.measured, total, device=where, dtype=torch.float32)
            losses.append(_Loss(coarse, _Summed(torch.tensor(grouped.rows(layout, of_groups), device=where))))
        per_cell = 1.0 / max(sum(one.loss.n_cells for one in losses), 1)
        nat = price * total * _inverse_noise([*measured, *(() if grouped is None else grouped.measured)])
        adam = _Adam(logits)
        for step in range(steps):
            # A few steps of rising length, since the first ones know neither slope nor curvature.
            rise, fall = (step + 1) / 20, 2.0 * (1.0 - step / steps)
            weights = logits[..., -1, :].softmax(dim=-1)
            log_probabilities = layout.log_probabilities(logits[..., :-1, :])
            probabilities = log_probabilities.exp()
            chi_squares = torch.stack([one(weights, probabilities) for one in losses]).sum(dim=0)
            objectives = chi_squares + nat * _dependence(weights, probabilities, log_probabilities, overlap)
            # No mixture's objective depends on another's logits.
            (slope,) = torch.autograd.grad(per_cell * objectives.sum(), logits)
            adam.step(slope, _LEARNING_RATE * min(1.0, rise, fall))
            if report is not None and (step % 20 == 19 or step == steps - 1):
                report(step, tuple(per_cell * one for one in chi_squares.detach().reshape(-1).tolist()))
        final = logits.detach().cpu().double()
    return [_mixture_of(layout, one) for one in (final if final.ndim == 3 else final[None])]


def _mixture_of(layout: BinLayout, logits: Tensor) -> Mixture:
    """Return the mixture of some logits; rounding of float32 sums is taken out by normalising once more."""
    weights = logits[-1].softmax(dim=0)
    probabilities = layout.log_probabilities(logits[:-1]).exp()
    return Mixture(layout.sizes, weights.numpy(), np.ascontiguousarray(probabilities.numpy()[layout.original_order].T))


class _Adam:
    """Adam on one tensor (Kingma and Ba 2015, algorithm 1).

    The optimiser that comes with torch loads its compiler first, which takes longer than most fits.
    """

    _FIRST, _SECOND, _LEAST = 0.95, 0.99, 1e-8

    def __init__(self, values: Tensor) -> None:
        self._values, self._steps = values.detach(), 0
        self._mean, self._square = torch.zeros_like(self._values), torch.zeros_like(self._values)

    def step(self, slope: Tensor, rate: float) -> None:
        """Move the values down a slope, in place."""
        self._steps += 1
        self._mean.lerp_(slope, 1.0 - self._FIRST)
        self._square.mul_(self._SECOND).addcmul_(slope, slope, value=1.0 - self._SECOND)
        root = (self._square / (1.0 - self._SECOND**self._steps)).sqrt_().add_(self._LEAST)
        self._values.addcdiv_(self._mean, root, value=-rate / (1.0 - self._FIRST**self._steps))


@dataclass(frozen=True, slots=True, eq=False)
class _Loss:
    """What tables cost, of bins or of the groups that they are summed up to."""

    loss: MarginalLoss
    summed: _Summed | None = None

    def __call__(self, weights: Tensor, probabilities: Tensor) -> Tensor:
        return self.loss(weights, probabilities if self.summed is None else self.summed(probabilities))


class _Summed:
    """Adds bins up to their groups, given the row of the group of every bin."""

    def __init__(self, rows: Tensor) -> None:
        self._rows, self._n_groups = rows, int(rows.max()) + 1
        # On a card index_add adds in whatever order threads arrive; on a processor a product takes ten times as long.
        self._matrix = torch.nn.functional.one_hot(rows).T.float() if rows.is_cuda else None

    def __call__(self, probabilities: Tensor) -> Tensor:
        if self._matrix is not None:
            return self._matrix @ probabilities
        *several, _, components = probabilities.shape
        sums = probabilities.new_zeros((*several, self._n_groups, components))
        return sums.index_add(-2, self._rows, probabilities)


def _check(
    sizes: tuple[int, ...],
    measured: Sequence[NoisyMarginal],
    total: float,
    components: int,
    starts: Sequence[Mixture],
) -> None:
    """Refuse what cannot be fitted."""
    if not sizes or min(sizes) < 1:
        raise ValueError(f"Every column needs at least one bin, got {sizes}.")
    if not (math.isfinite(total) and total > 0):
        raise ValueError(f"total must be positive and finite, got {total}.")
    if components < 1:
        raise ValueError(f"components must be at least 1, got {components}.")
    for start in starts:
        if start.sizes != sizes:
            raise ValueError(f"A start has columns of {start.sizes} bins, not {sizes}.")
    for one in measured:
        if not one.columns or one.table.shape != tuple(sizes[column] for column in one.columns):
            raise ValueError(f"The table of columns {one.columns} has shape {one.table.shape}.")


def _logits(layout: BinLayout, measured: Sequence[NoisyMarginal], components: int, seed: int) -> NDArray[np.float64]:
    """Return logits of components scattered around the product of the columns, shape (sum of sizes + 1, K)."""
    logits = np.zeros((sum(layout.sizes) + 1, components))
    tables_of: dict[int, list[NoisyMarginal]] = {}
    for one in measured:
        for column in one.columns:
            tables_of.setdefault(column, []).append(one)
    for column, size in enumerate(layout.sizes):
        if tables := tables_of.get(column):
            # The answer with the least noise in the sum over all other columns.
            noise = [one.noise_std * math.sqrt(one.table.size / size) for one in tables]
            best = tables[int(np.argmin(noise))]
            others = tuple(axis for axis, other in enumerate(best.columns) if other != column)
            counts = np.maximum(best.table.sum(axis=others), 0.5 * min(noise))
            logits[layout.rows(column)] = np.log(counts / counts.sum())[:, None]
    random = np.random.Generator(np.random.PCG64(seed))
    logits[:-1] += _SPREAD * random.standard_normal((sum(layout.sizes), components))
    return logits


def _logits_of(layout: BinLayout, start: Mixture) -> NDArray[np.float64]:
    """Return the logits of a mixture, shape (sum of sizes + 1, K)."""
    logits = np.empty((sum(layout.sizes) + 1, start.weights.size))
    logits[layout.original_order] = np.log(np.maximum(start.probabilities, _LEAST)).T
    logits[-1] = np.log(np.maximum(start.weights, _LEAST))
    return logits


def _inverse_noise(measured: Sequence[NoisyMarginal]) -> float:
    """Return one over the noise of a cell, geometric mean over tables of several columns; 1 where there are none."""
    joint = [one for one in measured if len(one.columns) > 1]
    return math.exp(-float(np.mean([math.log(one.noise_std) for one in joint]))) if joint else 1.0


def _dependence(weights: Tensor, probabilities: Tensor, log_probabilities: Tensor, overlap: float) -> Tensor:
    r"""Return about how far a mixture is from independent columns, in nats.

    .. math:: KL(p \| \textstyle\prod_j p_j) = \sum_j I(z; x_j) - I(z; x)

    where z is the component. The first term is exact. The second has no closed form. Putting the distances of
    components two by two in the place of rows gives an estimate that is never too small (Jensen's inequality), exact
    for components that are equal or have no row in common; all of it would pay for components that overlap, so a part
    of it is taken: ``overlap``.
    """
    marginal = _mean(probabilities, weights)
    within = (probabilities * log_probabilities).sum(dim=-2)
    of_columns = (within * weights).sum(dim=-1) - (marginal * marginal.clamp_min(_LEAST).log()).sum(dim=-1)
    if not overlap:
        return of_columns
    # Minus the distance of component k from l, plus the log-weight of l.
    log_weights = weights.clamp_min(_LEAST).log()
    nearness = probabilities.mT @ log_probabilities - within.unsqueeze(-1) + log_weights.unsqueeze(-2)
    of_rows = -(weights * nearness.logsumexp(dim=-1)).sum(dim=-1)
    return of_columns - overlap * of_rows


class BinLayout:
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

    Tables of two columns are read off one product of all bins with all bins, or, where that would compute far more
    cells than were measured, off one product a column with the bins of its partners. Tables of more columns are
    computed in batches of about equal shape.

    Parameters
    ----------
    layout : Layout
    measured : sequence of NoisyMarginal
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
            # On a CPU a product of everything takes two per cell, one a column four per measured cell in smaller parts;
            # on CUDA it is one launch for all columns, as long as it fits into memory.
            everything = sum(layout.sizes) ** 2
            cells = sum(one.table.size for one in pairs)
            dense = everything <= (2**27 if device.type == "cuda" else max(4 * cells, 2**16))
        self._parts: list[Callable[[Tensor, Tensor], Tensor]] = []
        ones = [one for one in measured if len(one.columns) == 1]
        if ones:
            self._parts.append(_SingleColumns(layout, ones, total, device, dtype))
        if pairs:
            self._parts.append((_AllPairs if dense else _Partners)(layout, pairs, total, device, dtype))
        batches: dict[tuple[int, ...], list[NoisyMarginal]] = {}
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


class _SingleColumns:
    """Tables of one column: one product of the bins with the weights."""

    def __init__(
        self,
        layout: BinLayout,
        measured: Sequence[NoisyMarginal],
        total: float,
        device: torch.device,
        dtype: torch.dtype,
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
        return (self._scale * _mean(probabilities, weights) - self._target).square().sum(dim=-1)


class _AllPairs:
    """Tables of two columns, out of the product of all bins with all bins: every table is computed from both sides."""

    def __init__(
        self,
        layout: BinLayout,
        measured: Sequence[NoisyMarginal],
        total: float,
        device: torch.device,
        dtype: torch.dtype,
    ) -> None:
        target = np.zeros((sum(layout.sizes), sum(layout.sizes)))
        scale = np.zeros_like(target)
        for one in measured:
            # Each side is half of the chi-square.
            std = one.noise_std * 2**0.5
            first, second = map(layout.rows, one.columns)
            for place, table in (((first, second), one.table), ((second, first), one.table.T)):
                target[place] = table / std
                scale[place] = total / std
        everything = slice(0, sum(layout.sizes))
        self._sides: list[_Side] = [
            (
                everything,
                None,
                torch.tensor(scale, dtype=dtype, device=device),
                torch.tensor(target, dtype=dtype, device=device),
            )
        ]

    def __call__(self, weights: Tensor, probabilities: Tensor) -> Tensor:
        return _of_sides(weights, probabilities, self._sides)


class _Partners:
    """Tables of two columns, each column against the bins of all its partners: every table is computed from both sides.

    With both sides at hand the gradient of a column's bins is one more product, and nothing has to be scattered.
    """

    def __init__(
        self,
        layout: BinLayout,
        measured: Sequence[NoisyMarginal],
        total: float,
        device: torch.device,
        dtype: torch.dtype,
    ) -> None:
        sides: dict[int, list[tuple[int, NoisyMarginal]]] = {}
        for one in measured:
            sides.setdefault(one.columns[0], []).append((one.columns[1], one))
            sides.setdefault(one.columns[1], []).append((one.columns[0], one))
        self._sides: list[_Side] = []
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
        return _of_sides(weights, probabilities, self._sides)


_Side = tuple[slice, Tensor | None, Tensor, Tensor]
"""Rows of a column's bins, those of its partners (none: all), scale and target of their tables side by side."""


def _of_sides(weights: Tensor, probabilities: Tensor, sides: list[_Side]) -> Tensor:
    result: Tensor = _SidesFunction.apply(weights, probabilities, sides)  # type: ignore[no-untyped-call]
    return result


class _SidesFunction(torch.autograd.Function):
    """The chi-square of tables that are computed from both sides, with its gradient computed on the way."""

    @staticmethod
    def forward(ctx: Any, weights: Tensor, probabilities: Tensor, sides: list[_Side]) -> Tensor:
        """Return the chi-square, shape (...)."""
        weighted = probabilities * weights.unsqueeze(-2)
        chi_square = weights.new_zeros(weights.shape[:-1])
        slope = torch.zeros_like(probabilities)
        for place, rows, scale, target in sides:
            partners = probabilities if rows is None else probabilities.index_select(-2, rows)
            residual = (weighted[..., place, :] @ partners.mT).mul_(scale).sub_(target)
            chi_square += residual.square().sum(dim=(-2, -1))
            torch.matmul(residual.mul_(scale), partners, out=slope[..., place, :])
        # Twice from the square; twice again for bins, which stand on both sides.
        ctx.save_for_backward(2.0 * (slope * probabilities).sum(dim=-2), slope.mul_(4.0 * weights.unsqueeze(-2)))
        return chi_square

    @staticmethod
    def backward(ctx: Any, *outer: Tensor) -> tuple[Tensor, Tensor, None]:
        """Return the gradients of the weights and of the probabilities."""
        of_weights, of_probabilities = ctx.saved_tensors
        return outer[0].unsqueeze(-1) * of_weights, outer[0][..., None, None] * of_probabilities, None


class _Batch:
    """Tables of three or more columns and about equal shape: products of their bins, summed over components."""

    def __init__(
        self,
        layout: BinLayout,
        measured: Sequence[NoisyMarginal],
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
            left = (left.unsqueeze(-2) * _gathered(probabilities, rows).unsqueeze(-3)).flatten(-3, -2)
        right = _gathered(probabilities, self._rows[-1])
        model = (left * weights[..., None, None, :]) @ right.mT
        return (self._scale * model - self._target).square().sum(dim=(-3, -2, -1))


def _gathered(probabilities: Tensor, rows: Tensor) -> Tensor:
    """Return the rows of some bins, shape (..., *rows.shape, K), by the way whose gradient has one order of sums."""
    if probabilities.is_cuda:
        # The gradient of indexing sorts before it sums; that of index_select adds in whatever order threads arrive.
        return probabilities[..., rows, :]
    return probabilities.index_select(-2, rows.flatten()).view(*probabilities.shape[:-2], *rows.shape, -1)


def _mean(probabilities: Tensor, weights: Tensor) -> Tensor:
    """Return the mean of the components' proportions, shape (..., sum of sizes)."""
    if weights.ndim == 1:
        return probabilities @ weights
    return (probabilities @ weights.unsqueeze(-1)).squeeze(-1)
