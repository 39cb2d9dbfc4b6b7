"""Fitting a mixture of products to noisy marginals: the distance of its exact ones from them, and Adam."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from synth.models.marginal_loss import BinLayout, MarginalLoss, mean_over
from synth.models.marginals import NoisyMarginal, pooled
from synth.models.mixture import LEAST_PROBABILITY, Mixture
from synth.system.machine import single_thread

__all__ = ["GroupedMarginals", "fit_mixtures"]

_LEARNING_RATE = 0.2
"""Learning rate of logits; it falls to 0 over the second half of the steps."""

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
        Called regularly with the step and every mixture's chi-square per cell (about 1 if only noise is left).

    Returns
    -------
    list of Mixture
    """
    measured = pooled(measured)
    layout = BinLayout(sizes)
    if starts is None:
        first = [_logits(layout, measured, components, seed) for seed in seeds]
    else:
        first = [_logits_of(layout, one) for one in starts]
    where = torch.device(device)
    with single_thread():
        # A single mixture is a matrix: its products are rounded differently from those of a stack of one.
        stacked = np.stack(first) if len(first) > 1 else first[0]
        logits = torch.tensor(stacked, dtype=torch.float32, device=where, requires_grad=True)
        loss = MarginalLoss(layout, measured, total, device=where, dtype=torch.float32)
        losses: list[tuple[MarginalLoss, Callable[[Tensor], Tensor]]] = [(loss, lambda probabilities: probabilities)]
        if grouped is not None:
            of_groups = BinLayout(grouped.sizes)
            coarse = MarginalLoss(of_groups, grouped.measured, total, device=where, dtype=torch.float32)
            losses.append((coarse, _Summed(torch.tensor(grouped.rows(layout, of_groups), device=where))))
        per_cell = 1.0 / max(sum(one.n_cells for one, _ in losses), 1)
        nat = price * total * _inverse_noise([*measured, *(() if grouped is None else grouped.measured)])
        adam = _Adam(logits)
        for step in range(steps):
            # A few steps of increasing length, since the first ones know neither slope nor curvature.
            rise, fall = (step + 1) / 20, 2.0 * (1.0 - step / steps)
            weights = logits[..., -1, :].softmax(dim=-1)
            log_probabilities = layout.log_probabilities(logits[..., :-1, :])
            probabilities = log_probabilities.exp()
            chi_squares = torch.stack([one(weights, summed(probabilities)) for one, summed in losses]).sum(dim=0)
            objectives = chi_squares + nat * _dependence(weights, probabilities, log_probabilities, overlap)
            # No objective depends on the logits of another mixture.
            (slope,) = torch.autograd.grad(per_cell * objectives.sum(), logits)
            adam.step(slope, _LEARNING_RATE * min(1.0, rise, fall))
            if report is not None and (step % 20 == 19 or step == steps - 1):
                report(step, tuple(per_cell * one for one in chi_squares.detach().reshape(-1).tolist()))
        final = logits.detach().cpu().double()
    return [_mixture_of(layout, one) for one in (final if final.ndim == 3 else final[None])]


def _mixture_of(layout: BinLayout, logits: Tensor) -> Mixture:
    """Return the mixture of some logits; normalising again removes the rounding of float32 sums."""
    weights = logits[-1].softmax(dim=0)
    probabilities = layout.log_probabilities(logits[:-1]).exp()
    return Mixture(layout.sizes, weights.numpy(), np.ascontiguousarray(probabilities.numpy()[layout.original_order].T))


class _Adam:
    """Adam on one tensor (Kingma and Ba 2015, algorithm 1).

    The optimiser in torch loads its compiler first, which takes longer than most fits.
    """

    _FIRST, _SECOND, _LEAST = 0.95, 0.99, 1e-8

    def __init__(self, values: Tensor) -> None:
        self._values, self._steps = values.detach(), 0
        self._mean, self._square = torch.zeros_like(self._values), torch.zeros_like(self._values)

    def step(self, slope: Tensor, rate: float) -> None:
        """Take a step down a slope, in place."""
        self._steps += 1
        self._mean.lerp_(slope, 1.0 - self._FIRST)
        self._square.mul_(self._SECOND).addcmul_(slope, slope, value=1.0 - self._SECOND)
        root = (self._square / (1.0 - self._SECOND**self._steps)).sqrt_().add_(self._LEAST)
        self._values.addcdiv_(self._mean, root, value=-rate / (1.0 - self._FIRST**self._steps))


class _Summed:
    """Adds bins up to their groups, given the row of the group of every bin."""

    def __init__(self, rows: Tensor) -> None:
        self._rows, self._n_groups = rows, int(rows.max()) + 1
        # On a card index_add adds in the order in which threads arrive; on a processor a product takes ten times as
        # long.
        self._matrix = torch.nn.functional.one_hot(rows).T.float() if rows.is_cuda else None

    def __call__(self, probabilities: Tensor) -> Tensor:
        if self._matrix is not None:
            return self._matrix @ probabilities
        *several, _, components = probabilities.shape
        sums = probabilities.new_zeros((*several, self._n_groups, components))
        return sums.index_add(-2, self._rows, probabilities)


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
    logits[layout.original_order] = np.log(np.maximum(start.probabilities, LEAST_PROBABILITY)).T
    logits[-1] = np.log(np.maximum(start.weights, LEAST_PROBABILITY))
    return logits


def _inverse_noise(measured: Sequence[NoisyMarginal]) -> float:
    """Return one over the noise of a cell, as a geometric mean over tables of several columns; 1 without any."""
    joint = [one for one in measured if len(one.columns) > 1]
    return math.exp(-float(np.mean([math.log(one.noise_std) for one in joint]))) if joint else 1.0


def _dependence(weights: Tensor, probabilities: Tensor, log_probabilities: Tensor, overlap: float) -> Tensor:
    r"""Return approximately how far a mixture is from independent columns, in nats.

    .. math:: KL(p \| \textstyle\prod_j p_j) = \sum_j I(z; x_j) - I(z; x)

    where z is the component. The first term is exact; the second has no closed form. Replacing rows by the pairwise
    distances of components gives an estimate that is never too small (Jensen's inequality) and exact for components
    that are equal or disjoint. Subtracting all of it would reward components that overlap, so only the share
    ``overlap`` is subtracted.
    """
    marginal = mean_over(probabilities, weights)
    within = (probabilities * log_probabilities).sum(dim=-2)
    of_columns = (within * weights).sum(dim=-1) - (marginal * marginal.clamp_min(LEAST_PROBABILITY).log()).sum(dim=-1)
    if not overlap:
        return of_columns
    # Minus the distance of component k from l, plus the log-weight of l.
    log_weights = weights.clamp_min(LEAST_PROBABILITY).log()
    nearness = probabilities.mT @ log_probabilities - within.unsqueeze(-1) + log_weights.unsqueeze(-2)
    of_rows = -(weights * nearness.logsumexp(dim=-1)).sum(dim=-1)
    return of_columns - overlap * of_rows
