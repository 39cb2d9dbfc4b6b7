"""A mixture of products: K kinds of row, within each of which columns are independent."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from synth.models.answers import Measured, pooled
from synth.models.mixture_loss import Layout, TableLoss
from synth.system.threads import single_thread

__all__ = ["Mixture", "fit_mixture"]

# Proportions below this one have no logarithm of use.
_LEAST = 1e-12


@dataclass(frozen=True, slots=True, eq=False)
class Mixture:
    r"""A joint distribution of binned columns in which K components are products of their columns.

    .. math:: p(x) = \sum_k w_k \prod_j P_{kj}(x_j)

    where w is ``weights`` and P_kj the bins of column j in row k of ``probabilities``.

    Attributes
    ----------
    sizes : tuple of int
        Bins of each column.
    weights : array of shape (K,), float64
        Proportion of each component; not negative, sum 1.
    probabilities : array of shape (K, sum of sizes), float64
        Proportions of every column's bins in every component, column by column.
    """

    sizes: tuple[int, ...]
    weights: NDArray[np.float64]
    probabilities: NDArray[np.float64]

    def __post_init__(self) -> None:
        if self.weights.ndim != 1 or self.probabilities.shape != (self.weights.size, sum(self.sizes)):
            raise ValueError(
                f"probabilities must have one row a component and one column a bin, {self.weights.size} x "
                f"{sum(self.sizes)}, got {self.probabilities.shape}."
            )

    def column(self, position: int) -> NDArray[np.float64]:
        """Return the proportions of one column's bins in every component, shape (K, bins)."""
        first = sum(self.sizes[:position])
        return self.probabilities[:, first : first + self.sizes[position]]

    def marginal(self, columns: tuple[int, ...]) -> NDArray[np.float64]:
        """Return the proportions of a few columns, shape (bins of each), sum 1; columns ascend."""
        product = self.weights[:, None]
        for position in columns[:-1]:
            product = (product[:, :, None] * self.column(position)[:, None, :]).reshape(self.weights.size, -1)
        last = self.column(columns[-1]) if columns else np.ones((self.weights.size, 1))
        return np.asarray((product.T @ last).reshape([self.sizes[position] for position in columns]))

    def sample(self, n_rows: int, random: np.random.Generator) -> NDArray[np.int64]:
        """Return rows of bins, shape (n_rows, number of columns), in random order.

        Rows of a component, and rows of each bin within it, number the floor or the ceiling of what is expected.
        """
        per_component = _rounded(self.weights[None, :], np.array([n_rows]), random)[0]
        smallest = np.min_scalar_type(max(self.sizes, default=1))
        drawn = np.empty((len(self.sizes), n_rows), dtype=smallest)
        for position, size in enumerate(self.sizes):
            bins = np.arange(size, dtype=smallest)
            counts = _levelled(_rounded(self.column(position), per_component, random), self.column(position), random)
            drawn[position] = np.repeat(np.tile(bins, self.weights.size), counts.ravel())
        # Each column of a component is put in an order of its own: columns are independent there.
        first = 0
        for count in per_component:
            random.permuted(drawn[:, first : first + count], axis=1, out=drawn[:, first : first + count])
            first += count
        return np.ascontiguousarray(drawn[:, random.permutation(n_rows)].T, dtype=np.int64)

    def state(self) -> dict[str, NDArray[np.float64]]:
        """Return everything that ``sample`` needs."""
        return {"weights": self.weights, "probabilities": self.probabilities}

    @classmethod
    def from_state(cls, sizes: tuple[int, ...], state: dict[str, NDArray[np.float64]]) -> Mixture:
        """Return the mixture of a state; it samples the same bytes from the same random source."""
        # Sums depend on the order of memory in their last bits.
        return cls(sizes, state["weights"], np.ascontiguousarray(state["probabilities"]))


def fit_mixture(
    sizes: tuple[int, ...],
    measured: Sequence[Measured],
    total: float,
    *,
    components: int = 200,
    steps: int = 1000,
    learning_rate: float = 0.2,
    seed: int = 0,
    device: str = "cpu",
    start: Mixture | None = None,
    spread: float = 0.3,
    price: float = 2.0,
    report: Callable[[int, float], None] | None = None,
) -> Mixture:
    r"""Fit a mixture of products to noisy tables.

    .. math:: \sum_t \|(N p_t - y_t) / \sigma_t\|^2 + \frac{c}{\bar\sigma} N D

    is minimised by Adam, where p_t are the mixture's exact marginals, y_t and sigma_t the tables and their noise, N
    ``total``, c ``price``, sigma-bar the typical noise of a table of several columns and D about how many nats the
    mixture is from independent columns. Tables alone leave open what was not measured, and a mixture of many components
    fills it with whatever fits the noise; the second term keeps columns as independent as the answers allow. Where a
    count is off by its noise, moving a row changes the first term by 2 / sigma, hence the price of a nat.

    Parameters
    ----------
    sizes : tuple of int
        Bins of each column, at least 1.
    measured : sequence of Measured
        Answers to one question are pooled.
    total : float
        Rows in the table; positive.
    components : int
        Ignored where ``start`` is given.
    steps : int
    learning_rate : float
        Of logits; it falls to nothing over the second half of the steps.
    seed : int
        Of the first components.
    device : str
        What torch calls it; float32 everywhere, on one thread of a CPU.
    start : Mixture, optional
        An earlier fit to go on from.
    spread : float
        Standard deviation of the first components' logits around the columns' own.
    price : float
        What one nat of dependence costs a row, in units of 1 / noise; 0 for none.
    report : callable, optional
        Told the step and the chi-square per cell (about 1 where only noise is left) now and then.

    Returns
    -------
    Mixture
    """
    _check(sizes, measured, total, components, start)
    measured = pooled(measured)
    layout = Layout(sizes)
    first = _logits(layout, measured, components, spread, seed) if start is None else _logits_of(layout, start)
    where = torch.device(device)
    with single_thread():
        logits = torch.tensor(first, dtype=torch.float32, device=where, requires_grad=True)
        loss = TableLoss(layout, measured, total, device=where, dtype=torch.float32)
        per_cell = 1.0 / max(loss.n_cells, 1)
        nat = price * total * _inverse_noise(measured)
        optimiser = torch.optim.Adam([logits], lr=learning_rate, betas=(0.95, 0.99), fused=True)
        for step in range(steps):
            # A few steps of rising length, since the first ones know neither slope nor curvature.
            rise, fall = (step + 1) / 20, 2.0 * (1.0 - step / steps)
            optimiser.param_groups[0]["lr"] = learning_rate * min(1.0, rise, fall)
            optimiser.zero_grad()
            weights = logits[-1].softmax(dim=0)
            log_probabilities = layout.log_probabilities(logits[:-1])
            probabilities = log_probabilities.exp()
            chi_square = loss(weights, probabilities)
            objective = chi_square + nat * _dependence(weights, probabilities, log_probabilities)
            (per_cell * objective).backward()  # type: ignore[no-untyped-call]
            optimiser.step()
            if report is not None and (step % 20 == 19 or step == steps - 1):
                report(step, per_cell * float(chi_square.detach()))
        # Rounding of float32 sums is taken out by normalising once more.
        final = logits.detach().cpu().double()
        weights = final[-1].softmax(dim=0)
        probabilities = layout.log_probabilities(final[:-1]).exp()
    return Mixture(sizes, weights.numpy(), np.ascontiguousarray(probabilities.numpy()[layout.original_order].T))


def _check(
    sizes: tuple[int, ...], measured: Sequence[Measured], total: float, components: int, start: Mixture | None
) -> None:
    """Refuse what cannot be fitted."""
    if not sizes or min(sizes) < 1:
        raise ValueError(f"Every column needs at least one bin, got {sizes}.")
    if not (math.isfinite(total) and total > 0):
        raise ValueError(f"total must be positive and finite, got {total}.")
    if components < 1:
        raise ValueError(f"components must be at least 1, got {components}.")
    if start is not None and start.sizes != sizes:
        raise ValueError(f"start has columns of {start.sizes} bins, not {sizes}.")
    for one in measured:
        if not one.columns or one.table.shape != tuple(sizes[column] for column in one.columns):
            raise ValueError(f"The table of columns {one.columns} has shape {one.table.shape}.")


def _logits(
    layout: Layout, measured: Sequence[Measured], components: int, spread: float, seed: int
) -> NDArray[np.float64]:
    """Return logits of components scattered around the product of the columns, shape (sum of sizes + 1, K)."""
    logits = np.zeros((sum(layout.sizes) + 1, components))
    for column, size in enumerate(layout.sizes):
        tables = [one for one in measured if column in one.columns]
        if tables:
            # The answer with the least noise in the sum over all other columns.
            noise = [one.noise_std * math.sqrt(one.table.size / size) for one in tables]
            best = tables[int(np.argmin(noise))]
            others = tuple(axis for axis, other in enumerate(best.columns) if other != column)
            counts = np.maximum(best.table.sum(axis=others), 0.5 * min(noise))
            logits[layout.rows(column)] = np.log(counts / counts.sum())[:, None]
    random = np.random.Generator(np.random.PCG64(seed))
    logits[:-1] += spread * random.standard_normal((sum(layout.sizes), components))
    return logits


def _logits_of(layout: Layout, start: Mixture) -> NDArray[np.float64]:
    """Return the logits of a mixture, shape (sum of sizes + 1, K)."""
    logits = np.empty((sum(layout.sizes) + 1, start.weights.size))
    logits[layout.original_order] = np.log(np.maximum(start.probabilities, _LEAST)).T
    logits[-1] = np.log(np.maximum(start.weights, _LEAST))
    return logits


def _inverse_noise(measured: Sequence[Measured]) -> float:
    """Return one over the noise of a cell, geometric mean over tables of several columns; 1 where there are none."""
    joint = [one for one in measured if len(one.columns) > 1]
    return math.exp(-float(np.mean([math.log(one.noise_std) for one in joint]))) if joint else 1.0


def _dependence(weights: Tensor, probabilities: Tensor, log_probabilities: Tensor) -> Tensor:
    r"""Return about how far a mixture is from independent columns, in nats.

    .. math:: KL(p \| \textstyle\prod_j p_j) = \sum_j I(z; x_j) - I(z; x)

    where z is the component. The first term is exact. The second has no closed form. Putting the distances of
    components two by two in the place of rows gives an estimate that is never too small (Jensen's inequality), exact
    for components that are equal or have no row in common; all of it would pay for components that overlap, so half of
    it is taken.
    """
    marginal = probabilities @ weights
    within = (probabilities * log_probabilities).sum(dim=0)
    of_columns = within @ weights - (marginal * marginal.clamp_min(_LEAST).log()).sum()
    # Minus the distance of component k from l, plus the log-weight of l.
    nearness = probabilities.T @ log_probabilities - within[:, None] + weights.clamp_min(_LEAST).log()
    of_rows = -(weights @ nearness.logsumexp(dim=1))
    return of_columns - 0.5 * of_rows


def _rounded(
    probabilities: NDArray[np.float64], totals: NDArray[np.int64], random: np.random.Generator
) -> NDArray[np.int64]:
    """Round expected counts to whole ones that add up to the total of each row (systematic rounding).

    Offsets of the rows are spread evenly and dealt at random, so that what rows lose and gain about cancels.
    """
    upper = np.cumsum(probabilities, axis=1) * totals[:, None]
    offsets = (random.permutation(len(totals)) + random.random(len(totals))) / len(totals)
    edges = np.floor(upper + offsets[:, None]).astype(np.int64)
    edges[:, -1] = totals
    return np.diff(np.minimum(edges, totals[:, None]), prepend=0, axis=1)


def _levelled(
    counts: NDArray[np.int64], probabilities: NDArray[np.float64], random: np.random.Generator
) -> NDArray[np.int64]:
    """Return rounded counts whose columns add up to about what is expected, by moving single rows between two bins.

    A row moves only where its component had rounded the one bin up and the other down: counts stay floors and ceilings.
    """
    excess = counts - counts.sum(axis=1, keepdims=True) * probabilities
    total = excess.sum(axis=0)
    while total.max() - total.min() > 1.0:
        high, low = int(total.argmax()), int(total.argmin())
        chances = np.maximum(excess[:, high], 0.0) * np.maximum(-excess[:, low], 0.0)
        wanted = max(1, int(min(total[high], -total[low])))
        # The earliest of exponential times at these rates are a draw without replacement, in proportion.
        order = np.argsort(random.exponential(size=chances.size) / np.maximum(chances, _LEAST))
        chosen = order[: min(wanted, np.count_nonzero(chances > _LEAST))]
        for place, change in ((high, -1), (low, 1)):
            counts[chosen, place] += change
            excess[chosen, place] += change
            total[place] += change * chosen.size
        if chosen.size < wanted:
            # No component is left that could give: the bin stays as it is.
            total[high] = 0.0
    return counts
