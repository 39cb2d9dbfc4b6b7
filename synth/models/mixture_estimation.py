"""Fitting a mixture of products to noisy marginals: the distance of its exact ones from them, its slope, and Adam."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from synth.models.marginal_loss import BinLayout, MarginalLoss, Slopes, mean_over
from synth.models.marginals import NoisyMarginal, pooled
from synth.models.mixture import LEAST_PROBABILITY, Mixture
from synth.models.repeated_steps import RepeatedSteps
from synth.system.machine import single_thread

__all__ = ["GroupedMarginals", "fit_mixtures"]

_LEARNING_RATE = 0.2
"""Learning rate of logits; it falls to 0 over the second half of the steps."""

_TOLD_EVERY = 20
"""Steps between two chi-squares that are told, each of which waits for a card."""

_STEPS_TOGETHER = 5
"""Steps that a card records as one graph: more take longer to record, and are hardly quicker to replay."""

_SPREAD = 0.3
"""Standard deviation of the initial components' logits around those of the columns."""


@dataclass(frozen=True, slots=True, eq=False)
class GroupedMarginals:
    """Noisy tables whose cells are groups of bins: many tables at once need fewer cells than single columns.

    Attributes
    ----------
    groups : tuple of arrays of shape (bins,), whole numbers
        Group of every bin, for each column; every group has at least one bin.
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
        """Return the row of the group of every bin, both in the order of their layouts; shape (rows of the bins,)."""
        rows = np.zeros(bins.n_rows, dtype=np.int64)
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
    r"""Fit mixtures of products to noisy tables, each from its own initial components, side by side in one tensor.

    .. math:: \sum_t \|(N p_t - y_t) / \sigma_t\|^2 + \frac{c}{\bar\sigma} N D

    is minimised by Adam for each, where p_t are the mixture's exact marginals, y_t and sigma_t the tables and their
    noise, N ``total``, c ``price``, sigma-bar the typical noise of a table of several columns and D about how many nats
    the mixture is from independent columns. Tables alone do not determine what was not measured, and a mixture of many
    components fills it with a fit to the noise; the second term keeps columns as independent as the answers allow.
    If the error of a count is its noise, moving a row changes the first term by 2 / sigma, hence the price of a nat.

    Parameters
    ----------
    sizes : tuple of int
        Bins of each column, at least 1.
    measured : sequence of NoisyMarginal
        Answers to one question are pooled.
    total : float
        Rows in the table; positive.
    components : int
        Of each mixture; ignored if ``starts`` are given.
    steps : int
    seeds : sequence of int
        Of the initial components of each mixture; ignored if ``starts`` are given.
    device : str
        Torch device; float32 everywhere, on one thread of a CPU.
    starts : sequence of Mixture, optional
        Earlier fits to continue from, all with the same number of components.
    price : float
        Price of one nat of dependence for a row, in units of 1 / noise; 0 for no price.
    overlap : float
        Share of the estimated information of rows about their component that is subtracted from the dependence, in
        [0, 1]; 0 takes a third of the time.
    grouped : GroupedMarginals, optional
        Tables of groups of bins, to which the mixtures are also fitted.
    report : callable, optional
        Called every 20 steps, and after the last, with the step and every mixture's chi-square per cell after it
        (about 1 if only noise is left).

    Returns
    -------
    list of Mixture
    """
    measured = pooled(measured)
    where = torch.device(device)
    layout = BinLayout(sizes, padded=where.type == "cuda")
    if starts is None:
        first = [_logits(layout, measured, components, seed) for seed in seeds]
    else:
        first = [_logits_of(layout, one) for one in starts]
    with single_thread(), torch.no_grad():
        # A single mixture is a matrix: its products are rounded differently from those of a stack of one.
        stacked = np.stack(first) if len(first) > 1 else first[0]
        logits, of_weights = (
            torch.tensor(part, dtype=torch.float32, device=where)
            for part in (stacked[..., :-1, :], stacked[..., -1, :])
        )
        objective = _Objective(
            layout, measured, total, grouped=grouped, price=price, overlap=overlap, device=where, dtype=torch.float32
        )
        adam = _Adam([logits, of_weights], _rates(steps))
        repeated = RepeatedSteps(
            lambda place: adam.step(objective.slope(logits, of_weights), place),
            device=where,
            together=_STEPS_TOGETHER,
            refill=adam.refill,
            changed=adam.changed,
        )
        for step in range(0, steps, _TOLD_EVERY):
            several = min(_TOLD_EVERY, steps - step)
            repeated.run(step, several)
            if report is not None:
                report(step + several - 1, tuple(objective.chi_squares(logits, of_weights).reshape(-1).tolist()))
        final = torch.cat([logits, of_weights.unsqueeze(-2)], dim=-2).cpu().double()
    return [_mixture_of(layout, one) for one in (final if final.ndim == 3 else final[None])]


def _rates(steps: int) -> list[float]:
    """Return the learning rate of every step."""
    # A few steps of increasing length, since the first ones know neither slope nor curvature.
    return [_LEARNING_RATE * min(1.0, (step + 1) / 20, 2.0 * (1.0 - step / steps)) for step in range(steps)]


def _mixture_of(layout: BinLayout, logits: Tensor) -> Mixture:
    """Return the mixture of some logits; normalising again removes the rounding of float32 sums."""
    weights = logits[-1].softmax(dim=0)
    probabilities = layout.log_probabilities(logits[:-1]).exp()
    return Mixture(layout.sizes, weights.numpy(), np.ascontiguousarray(probabilities.numpy()[layout.original_order].T))


class _Adam:
    """Adam on a few tensors (Kingma and Ba 2015, algorithm 1), with a learning rate for each step.

    The optimiser in torch loads its compiler first, which takes longer than most fits; this is the operation that it
    calls.

    Attributes
    ----------
    changed : list of Tensor
        What a step changes.
    """

    _FIRST, _SECOND, _LEAST = 0.95, 0.99, 1e-8

    def __init__(self, values: Sequence[Tensor], rates: Sequence[float]) -> None:
        self._values = list(values)
        self._mean, self._square = ([torch.zeros_like(one) for one in values] for _ in range(2))
        self.changed = [*self._values, *self._mean, *self._square]
        # The rates of all steps, and their numbers from 1; and of those that run together.
        like = values[0]
        self._all = torch.tensor([rates, range(1, len(rates) + 1)], dtype=torch.float32, device=like.device)
        self._now = torch.zeros(2, _STEPS_TOGETHER, dtype=torch.float32, device=like.device)

    def refill(self, first: int, count: int) -> None:
        """Take the rates of the next steps."""
        self._now[:, :count].copy_(self._all[:, first : first + count])

    def step(self, slopes: Sequence[Tensor], place: int) -> None:
        """Take a step down the slopes, in place."""
        rate, number = self._now[0, place], self._now[1, place]
        torch._fused_adam_(
            self._values,
            list(slopes),
            self._mean,
            self._square,
            [],
            [number] * len(self._values),
            lr=rate,
            beta1=self._FIRST,
            beta2=self._SECOND,
            weight_decay=0.0,
            eps=self._LEAST,
            amsgrad=False,
            maximize=False,
        )


class _Groups:
    """Adds bins up to their groups, given the row of the group of every bin."""

    def __init__(self, rows: Tensor, dtype: torch.dtype) -> None:
        self.rows, self._n_groups = rows, int(rows.max()) + 1
        # On a card index_add adds in the order in which threads arrive; on a processor a product takes ten times as
        # long.
        self._matrix = torch.nn.functional.one_hot(rows).T.to(dtype) if rows.device.type == "cuda" else None

    def summed(self, probabilities: Tensor) -> Tensor:
        """Return the proportions of groups, shape (..., groups, K)."""
        if self._matrix is not None:
            return self._matrix @ probabilities
        *several, _, components = probabilities.shape
        sums = probabilities.new_zeros((*several, self._n_groups, components))
        return sums.index_add(-2, self.rows, probabilities)


class _Objective:
    r"""What is minimised, in units of a cell's chi-square, for each of several mixtures.

    .. math:: \frac{1}{n} \Big( \chi^2 + c \big( \textstyle\sum_j I(z; x_j) - o\, \hat I(z; x) \big) \Big)

    where n is the number of cells, c the price of a nat, z the component and o the share ``overlap``. The mixture is
    :math:`\sum_j I(z; x_j) - I(z; x)` nats from independent columns. The first term is exact; the second has no closed
    form. Replacing rows by the pairwise distances of components gives an estimate that is never too small (Jensen's
    inequality) and exact for components that are equal or disjoint. Subtracting all of it would reward components that
    overlap, so only the share ``overlap`` is subtracted.
    """

    def __init__(
        self,
        layout: BinLayout,
        measured: Sequence[NoisyMarginal],
        total: float,
        *,
        grouped: GroupedMarginals | None,
        price: float,
        overlap: float,
        device: torch.device,
        dtype: torch.dtype,
    ) -> None:
        self._layout, self._overlap = layout, overlap
        of_groups = () if grouped is None else pooled(grouped.measured)
        per_cell = 1.0 / max(sum(one.table.size for one in (*measured, *of_groups)), 1)
        of = partial(MarginalLoss, total=total, device=device, dtype=dtype, factor=per_cell)
        self._losses: list[tuple[MarginalLoss, _Groups | None]] = [(of(layout, measured), None)]
        if grouped is not None:
            coarse = BinLayout(grouped.sizes)
            groups = _Groups(torch.tensor(grouped.rows(layout, coarse), device=device), dtype)
            self._losses.append((of(coarse, of_groups), groups))
        told = [*measured, *(() if grouped is None else grouped.measured)]
        self._nat = per_cell * price * total * _inverse_noise(told)

    def chi_squares(self, logits: Tensor, of_weights: Tensor) -> Tensor:
        """Return every mixture's chi-square per cell, shape (...)."""
        weights = of_weights.softmax(dim=-1)
        probabilities = self._layout.log_probabilities(logits).exp_()
        found = weights.new_zeros(weights.shape[:-1])
        for loss, groups in self._losses:
            found = found + loss(weights, probabilities if groups is None else groups.summed(probabilities))
        return found

    def slope(self, logits: Tensor, of_weights: Tensor) -> tuple[Tensor, Tensor]:
        """Return the slope by the logits and by those of the weights.

        Parameters
        ----------
        logits : Tensor of shape (..., n_rows, K)
        of_weights : Tensor of shape (..., K)
        """
        weights = of_weights.softmax(dim=-1)
        log_probabilities = self._layout.log_probabilities(logits)
        probabilities = log_probabilities.exp()
        mean = mean_over(probabilities, weights)
        # Constants that are the same for all bins of a column, or for all weights, change no slope by a logit.
        log_mean = mean.clamp_min(LEAST_PROBABILITY).log_()
        parts = [self._slopes_of(one, weights, probabilities, mean) for one in self._losses]
        told = [one.ones for one in parts if one.ones is not None]
        ones = sum(told[1:], told[0].add_(log_mean, alpha=-self._nat)) if told else log_mean.mul_(-self._nat)
        # In units of a weight: every bin's slope, and half of that of pairs less.
        single = torch.add(ones.unsqueeze(-1), log_probabilities, alpha=self._nat * (1.0 - self._overlap))
        both = single
        for one in parts:
            if one.pairs is not None:
                both = torch.add(both, one.pairs, alpha=2.0) if both is single else both.add_(one.pairs, alpha=2.0)
        slope = probabilities * both
        by_weight = slope.sum(dim=-2)
        if both is not single:
            slope.mul_(2.0).addcmul_(probabilities, single, value=-1.0)
        slope.mul_(weights.unsqueeze(-2))
        for one in parts:
            if one.more is not None:
                by_weight.add_(one.more[0])
                slope.addcmul_(probabilities, one.more[1])
        if self._overlap and self._nat:
            self._add_nearness(slope, by_weight, weights, probabilities, log_probabilities)
        by_logit = self._layout.slope_of_logits(slope, probabilities)
        return by_logit, torch._softmax_backward_data(by_weight, weights, -1, weights.dtype)  # noqa: SLF001

    @staticmethod
    def _slopes_of(
        one: tuple[MarginalLoss, _Groups | None], weights: Tensor, probabilities: Tensor, mean: Tensor
    ) -> Slopes:
        loss, groups = one
        if groups is None:
            return loss.slopes(weights, probabilities, mean)
        return loss.slopes(weights, groups.summed(probabilities)).of_rows(groups.rows)

    def _add_nearness(
        self, slope: Tensor, by_weight: Tensor, weights: Tensor, probabilities: Tensor, log_probabilities: Tensor
    ) -> None:
        """Add the slope of minus what rows tell about their component, but for what the logarithms alone add."""
        log_weights = weights.clamp_min(LEAST_PROBABILITY).log_()
        # Minus the distance of component k from l, plus the log-weight of l, but for a number of k's own.
        nearness = (probabilities.mT @ log_probabilities).add_(log_weights.unsqueeze(-2))
        shares = nearness.log_softmax(dim=-1)
        price = self._nat * self._overlap
        by_weight.add_(nearness[..., 0] - shares[..., 0], alpha=price)
        shares.exp_().mul_(weights.unsqueeze(-1) * price)
        slope.addcmul_(probabilities, log_probabilities @ shares.mT).add_(probabilities @ shares)
        # Weight l is in the log-weights of all.
        by_weight.addcdiv_(shares.sum(dim=-2), weights.clamp_min(LEAST_PROBABILITY))


def _logits(layout: BinLayout, measured: Sequence[NoisyMarginal], components: int, seed: int) -> NDArray[np.float64]:
    """Return logits of components scattered around the product of the columns, shape (n_rows + 1, K)."""
    logits = np.zeros((layout.n_rows + 1, components))
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
    bins = np.sort(layout.original_order)
    logits[bins] += _SPREAD * random.standard_normal((bins.size, components))
    logits[np.setdiff1d(np.arange(layout.n_rows), bins)] = layout.NO_BIN
    return logits


def _logits_of(layout: BinLayout, start: Mixture) -> NDArray[np.float64]:
    """Return the logits of a mixture, shape (n_rows + 1, K)."""
    logits = np.full((layout.n_rows + 1, start.weights.size), layout.NO_BIN)
    logits[layout.original_order] = np.log(np.maximum(start.probabilities, LEAST_PROBABILITY)).T
    logits[-1] = np.log(np.maximum(start.weights, LEAST_PROBABILITY))
    return logits


def _inverse_noise(measured: Sequence[NoisyMarginal]) -> float:
    """Return one over the noise of a cell, as a geometric mean over tables of several columns; 1 without any."""
    joint = [one for one in measured if len(one.columns) > 1]
    return math.exp(-float(np.mean([math.log(one.noise_std) for one in joint]))) if joint else 1.0
