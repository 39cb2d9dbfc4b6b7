r"""Critics: networks inside the boundary that learn, without noise, to tell private rows from public ones.

A critic f is trained as in an improved Wasserstein GAN (Gulrajani 2017): it raises the mean of f on rows and lowers it
on fake rows, and is kept near to a slope of 1 by a penalty at points in between,

.. math:: \frac1b \sum_i f(\tilde x_i) - \frac1b \sum_i f(x_i) +
          \frac{\lambda}{b} \sum_i \bigl(\lVert \nabla f(\hat x_i) \rVert - 1\bigr)^2 .

What it holds is as private as the rows it has learned from, and has no noise. It stays inside the question that made
it, which lets nothing of it out but clipped gradients with noise (``docs/proofs/critic-turns.md``).

f is piecewise linear, so its gradient is a product of matrices and switches, and the slopes of everything above are
written out. Arithmetic is float32 on one thread of the processor: a critic's numbers follow from its own rows, the fake
rows and public settings.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NoReturn

import numpy as np
from numpy.typing import NDArray

from synth.errors import PrivacyError

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["HIDDEN", "PrivateCritic", "divided"]

HIDDEN = 64
"""Width of the two hidden layers."""

LEAK = 0.2
"""Slope of a hidden unit below 0."""

PENALTY = 10.0
"""Weight of the penalty, lambda; that of Gulrajani 2017."""

DECAYS = 0.5, 0.9
"""Of Adam, as in Gulrajani 2017 but for a first decay of 0.5."""

LEAST = 1e-8
"""Added to the root of Adam's second moment, and to lengths that are divided by."""


class PrivateCritic:
    """One critic.

    Parameters
    ----------
    width : int
        Numbers of a row.
    rate : float
        Learning rate of Adam.
    seed : int
        Public; draws the first weights.
    """

    __slots__ = ("_mean", "_rate", "_shapes", "_square", "_taken", "_weights")

    def __init__(self, width: int, *, rate: float, seed: int) -> None:
        import torch  # here and below, so that checking questions needs no torch

        source = torch.Generator().manual_seed(seed)
        self._shapes = ((HIDDEN, width), (HIDDEN,), (HIDDEN, HIDDEN), (HIDDEN,), (HIDDEN,))
        inputs = (width, width, HIDDEN, HIDDEN, HIDDEN)
        self._weights = torch.cat(
            [
                (2.0 * torch.rand(math.prod(shape), generator=source) - 1.0) / math.sqrt(count)
                for shape, count in zip(self._shapes, inputs, strict=True)
            ]
        )
        self._mean, self._square = torch.zeros_like(self._weights), torch.zeros_like(self._weights)
        self._rate, self._taken = rate, 0

    def learn(self, real: Tensor, fake: Tensor, between: Tensor) -> None:
        """Take one step of Adam.

        Parameters
        ----------
        real, fake : Tensor of shape (b, width)
        between : Tensor of shape (b, 1)
            In [0, 1]: where between each real and each fake row the slope is penalised.
        """
        import torch

        count = len(real)
        slopes = torch.zeros_like(self._weights)
        first, of_first, second, of_second, last = self._layers(slopes)
        w_first, _, w_second, _, w_last = self._layers(self._weights)

        # The mean on fake rows less that on real ones.
        rows = torch.cat([real, fake])
        below, above = self._switches(rows)
        hidden = below[0] * below[1], above[0] * above[1]
        sides = rows.new_full((2 * count,), 1.0 / count)
        sides[:count] *= -1.0
        last += hidden[1].T @ sides
        back = torch.outer(sides, w_last) * above[0]
        second += back.T @ hidden[0]
        of_second += back.sum(dim=0)
        back = (back @ w_second) * below[0]
        first += back.T @ rows
        of_first += back.sum(dim=0)

        # The penalty. The switches do not move with the weights, and biases play no part in a gradient.
        below, above = self._switches(fake + between * (real - fake))
        from_above = w_last * above[0]
        from_below = (from_above @ w_second) * below[0]
        found = from_below @ w_first
        lengths = found.square().sum(dim=1, keepdim=True).sqrt()
        pull = found * ((lengths - 1.0) / (lengths + LEAST)) * (2.0 * PENALTY / count)
        first += from_below.T @ pull
        ahead = (pull @ w_first.T) * below[0]
        second += from_above.T @ ahead
        last += ((ahead @ w_second.T) * above[0]).sum(dim=0)
        self._step(slopes)

    def gradients(self, rows: Tensor) -> Tensor:
        """Return the gradient of f at each row, shape (rows, width); of any length."""
        w_first, _, w_second, _, w_last = self._layers(self._weights)
        below, above = self._switches(rows)
        return (((w_last * above[0]) @ w_second) * below[0]) @ w_first

    def scores(self, rows: Tensor) -> Tensor:
        """Return f of each row, shape (rows,)."""
        _, above = self._switches(rows)
        return (above[0] * above[1]) @ self._layers(self._weights)[4]

    def _switches(self, rows: Tensor) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
        """Return the slopes and the inputs of the hidden units of both layers, each of shape (rows, HIDDEN)."""
        import torch

        w_first, b_first, w_second, b_second, _ = self._layers(self._weights)
        inputs = torch.addmm(b_first, rows, w_first.T)
        below = _slopes(inputs), inputs
        inputs = torch.addmm(b_second, below[0] * below[1], w_second.T)
        return below, (_slopes(inputs), inputs)

    def _layers(self, weights: Tensor) -> list[Tensor]:
        """Return weights and biases of the layers as views: first, its biases, second, its biases, last."""
        import torch

        sizes = [math.prod(shape) for shape in self._shapes]
        return [part.view(shape) for part, shape in zip(torch.split(weights, sizes), self._shapes, strict=True)]

    def _step(self, slopes: Tensor) -> None:
        """Move by Adam (Kingma and Ba 2015)."""
        self._taken += 1
        first, second = DECAYS
        self._mean.mul_(first).add_(slopes, alpha=1.0 - first)
        self._square.mul_(second).addcmul_(slopes, slopes, value=1.0 - second)
        size = (self._square / (1.0 - second**self._taken)).sqrt_().add_(LEAST)
        self._weights.addcdiv_(self._mean, size, value=-self._rate / (1.0 - first**self._taken))

    def __repr__(self) -> str:
        return "<PrivateCritic: what it has learned is not shown>"

    def __reduce__(self) -> NoReturn:
        raise PrivacyError("A critic cannot be copied, pickled or sent to another process.")


def _slopes(inputs: Tensor) -> Tensor:
    """Return the slopes of hidden units: 1 above 0, else a leak."""
    import torch

    return torch.where(inputs > 0, 1.0, LEAK)


def divided(keyed: NDArray[np.uint64], parts: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Divide rows into parts by their secret numbers.

    Parameters
    ----------
    keyed : array of shape (n_rows, 2), uint64
        As those of :class:`synth.privacy.counting.PrivateRows`.
    parts : int
        At most 2^20.

    Returns
    -------
    order : array of shape (n_rows,), int64
        Indices of the rows, part by part. The order inside a part, too, follows from the numbers of its own rows; rows
        with one number, those of one unit, stay in the order of the table.
    ends : array of shape (parts,), int64
        Where each part ends among them.
    """
    order = np.lexsort((keyed[:, 1], keyed[:, 0]))
    # Even parts of all numbers, by the high half of a product, exact in whole numbers.
    part = ((keyed[order, 0] >> np.uint64(32)) * np.uint64(parts)) >> np.uint64(32)
    return order, np.searchsorted(part, np.arange(parts, dtype=np.uint64), side="right").astype(np.int64)
