"""The public half of adversarial training: synthetic rows, the critic's and the row network's steps."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from synth.generators.row_network import (
    STEPS_TOGETHER,
    ChoiceBlock,
    ClassBatch,
    Draw,
    OutputHead,
    OutputHeads,
    RowNetwork,
    Training,
)
from synth.privacy.feature_maps import OneHot
from synth.privacy.more.critics import LARGEST_WEIGHT, LEAK, Critic, CriticLoss
from synth.privacy.more.lookups import Lookup
from synth.progress import Progress

__all__ = ["AdversarialTraining", "CriticRows", "ReadRows"]

_DECAYS = 0.5, 0.9
"""Of the critic's Adam, as usual for critics (Gulrajani 2017)."""

_AVERAGED = 10
"""The row network's weights are averaged over about this part of all steps, as networks of such trainings swing."""

_SHARED = math.sqrt(0.5)
"""Factor of a number and of its atoms, so that together they are a vector of length at most 1."""


@dataclass(frozen=True, slots=True, eq=False)
class CriticRows:
    """What a critic reads: of a private row by tables, of a synthetic one before its codes are drawn.

    A number is its position from -1 to 1. Atoms and categories are one-hot, for a synthetic row their probabilities.

    Attributes
    ----------
    tables : tuple of Lookup
        Of the columns in their order; of the label last, where the critic knows it.
    width : int
        Numbers of a row, those of the label included.
    values : array of shape (n_continuous,)
        Where the critic reads every value of a draw.
    choices : tuple of (places, coordinates)
        For each block the probabilities that exist, and where the critic reads them.
    """

    layout: OutputHeads
    tables: tuple[Lookup, ...]
    width: int
    classes: int
    values: NDArray[np.int64]
    choices: tuple[tuple[NDArray[np.int64], NDArray[np.int64]], ...]

    @classmethod
    def of(cls, layout: OutputHeads, label: OneHot | None) -> Self:
        """Lay out the columns of a row network, and the label."""
        tables = [_table(head) for head in layout.heads]
        starts = np.cumsum([0, *(table.dimension for table in tables)])
        choices = []
        for block in layout.blocks:
            some = [
                (k * len(block.heads) + column, starts[d] + layout.heads[d].is_continuous + k)
                for k in range(block.size)
                for column, d in enumerate(block.heads)
                if k < layout.heads[d].choices
            ]
            places, coordinates = np.array(some, dtype=np.int64).T
            choices.append((places, coordinates))
        classes = 0
        if label is not None:
            classes = label.shape[0]
            tables.append(Lookup(label.columns[0], np.eye(classes), label.bins[0]))
        values = starts[list(layout.continuous)].astype(np.int64)
        return cls(layout, tuple(tables), int(starts[-1]) + classes, classes, values, tuple(choices))


class ReadRows:
    """The rows of a draw as a critic reads them, and the way back of slopes; on the device of the batch."""

    def __init__(self, rows: CriticRows, batch: ClassBatch) -> None:
        layout, device = rows.layout, batch.weights.device
        self._layout, self._rows = layout, rows
        self._values = torch.from_numpy(rows.values).to(device)
        self._choices = [
            (torch.from_numpy(places).to(device), torch.from_numpy(coordinates).to(device))
            for places, coordinates in rows.choices
        ]
        self._factors = [_SHARED if block.kind == "value" else 1.0 for block in layout.blocks]
        self._read = batch.weights.new_zeros((rows.width, batch.size))
        if rows.classes:
            self._read[-rows.classes :] = batch.one_hot

    def of_draw(self, draw: Draw) -> Tensor:
        """Return what the critic reads, shape (width, rows); the next call writes to the same tensor."""
        centred = draw.values.mul(2.0).sub_(1.0)
        for block, choices, (places, coordinates), factor in self._blocks(draw):
            if block.kind == "value":
                centred[block.values].mul_(choices[0]).mul_(_SHARED)
            self._read[coordinates] = choices.flatten(0, 1)[places] * factor
        self._read[self._values] = centred
        return self._read

    def back(self, of_read: Tensor, draw: Draw, slopes: Draw) -> None:
        """Write the slopes in the numbers of a draw, given those in what the critic read."""
        slopes.values.copy_(of_read[self._values]).mul_(2.0)
        for (block, choices, (places, coordinates), factor), slope in zip(
            self._blocks(draw), slopes.choices, strict=True
        ):
            slope.zero_()
            slope.flatten(0, 1)[places] = of_read[coordinates] * factor
            if block.kind == "value":
                of_values = slopes.values[block.values].mul_(_SHARED)
                slope[0].addcmul_(of_values, draw.values[block.values] - 0.5)
                of_values.mul_(choices[0])

    def _blocks(self, draw: Draw) -> Iterator[tuple[ChoiceBlock, Tensor, tuple[Tensor, Tensor], float]]:
        return zip(self._layout.blocks, draw.choices, self._choices, self._factors, strict=True)


class AdversarialTraining:
    """A critic and a row network that learn from noisy gradients of private rows, step by step.

    Parameters
    ----------
    layout : OutputHeads
    rows : CriticRows
    batch : ClassBatch
        Of synthetic rows.
    loss : {"logistic", "wasserstein"}
    hidden : tuple of int
        Widths of the critic's hidden layers.
    steps : int
    rows_of_a_step : float
        Expected number of private rows, from the sampling rate and a public or released number of rows.
    clip : float
        Unit of the noisy gradients.
    rates : (float, float)
        Learning rates of the critic and the row network at first; they fall to 0.
    limit : float
        Largest weight of the critic.
    seed : int
        Public.
    progress : Progress
        Receives steps, and may stop the training.

    Attributes
    ----------
    taken : int
        Steps it has learned from.
    diverged : bool
        Whether a number of a network was not finite at some step; both then keep the last weights that were.
    """

    def __init__(
        self,
        layout: OutputHeads,
        rows: CriticRows,
        batch: ClassBatch,
        *,
        loss: CriticLoss,
        hidden: tuple[int, ...],
        steps: int,
        rows_of_a_step: float,
        clip: float,
        rates: tuple[float, float],
        limit: float,
        seed: int,
        progress: Progress,
    ) -> None:
        device = batch.weights.device
        self._critic = Critic(rows.width, hidden)
        self._rows, self._loss, self._progress = ReadRows(rows, batch), loss, progress
        self._shares = batch.weights.sum(dim=0)
        self._steps, self._per_row = steps, clip / rows_of_a_step
        self._rate, self._limit = rates[0], min(limit, LARGEST_WEIGHT)
        drawn = RowNetwork.drawn(layout, classes=len(batch.one_hot), seed=seed)
        self._network = RowNetwork(drawn.weights.to(device), classes=len(batch.one_hot), outputs=layout.outputs)
        self._training = Training(layout, self._network, batch, steps=steps, rate=rates[1], seed=seed)
        source = torch.Generator().manual_seed(seed)
        parts = []
        for out, into in self._critic.shapes:
            parts += [(2.0 * torch.rand(out * into, generator=source) - 1.0) / math.sqrt(into), torch.zeros(out)]
        self._weights = torch.cat(parts).clamp_(-self._limit, self._limit).to(device)
        self._mean, self._square = torch.zeros_like(self._weights), torch.zeros_like(self._weights)
        self._average = self._network.weights.clone()
        self.taken, self.diverged = 0, False

    @property
    def weights(self) -> Tensor:
        """Weights of the row network, averaged over about the last tenth of the steps."""
        return self._average

    def at(self) -> NDArray[np.float64]:
        """Return the critic's weights."""
        return np.asarray(self._weights.double().cpu().numpy())

    def move(self, step: NDArray[np.float64]) -> None:
        """Move the critic by a noisy sum of private gradients and those of synthetic rows, then the row network."""
        self._progress.check_cancelled()
        place = self.taken % STEPS_TOGETHER
        if place == 0:
            self._training.prepare(self.taken, min(STEPS_TOGETHER, self._steps - self.taken))
        draw = self._training.draw(place)
        read = self._rows.of_draw(draw)
        private = torch.from_numpy(step * self._per_row).to(self._weights)
        kept = self._weights.clone(), self._network.weights.clone()
        self._move_critic(private + self._of_synthetic(read))
        read = read.detach().requires_grad_()
        scores = self._scores(self._weights, read)
        loss = torch.nn.functional.softplus(-scores) if self._loss == "logistic" else -scores
        (slopes,) = torch.autograd.grad((self._shares * loss).sum(), read)
        self._rows.back(slopes, draw, self._training.slopes)
        self._training.learn(place)
        if not all(bool(one.isfinite().all()) for one in (self._weights, self._network.weights)):
            self.diverged = True
            self._weights.copy_(kept[0])
            self._network.weights.copy_(kept[1])
        self._average.lerp_(self._network.weights, max(1.0 / (self.taken + 1), _AVERAGED / self._steps))
        self.taken += 1
        self._progress.step(self.taken, self._steps)

    def _of_synthetic(self, read: Tensor) -> Tensor:
        """Return the gradient of the critic's loss on synthetic rows."""
        weights = self._weights.detach().requires_grad_()
        scores = self._scores(weights, read)
        loss = torch.nn.functional.softplus(scores) if self._loss == "logistic" else scores
        (found,) = torch.autograd.grad((self._shares * loss).sum(), weights)
        return found

    def _scores(self, weights: Tensor, read: Tensor) -> Tensor:
        layers = self._critic.layers(weights)
        for matrix, constant in layers[:-1]:
            read = torch.nn.functional.leaky_relu(matrix @ read + constant, LEAK)
        matrix, constant = layers[-1]
        return (matrix @ read + constant)[0]

    def _move_critic(self, gradient: Tensor) -> None:
        """Take a step of Adam (Kingma and Ba 2015), its rate falling to 0, and cut large weights off."""
        first, second = _DECAYS
        self._mean.lerp_(gradient, 1.0 - first)
        self._square.lerp_(gradient.square(), 1.0 - second)
        count = self.taken + 1
        mean, square = self._mean / (1.0 - first**count), self._square / (1.0 - second**count)
        rate = self._rate * 0.5 * (1.0 + math.cos(math.pi * self.taken / self._steps))
        self._weights.sub_(rate * mean / (square.sqrt() + 1e-12)).clamp_(-self._limit, self._limit)


def _table(head: OutputHead) -> Lookup:
    """Return the vector of every code of a column."""
    grid = head.grid
    if not head.is_continuous:
        return Lookup(head.column.name, np.eye(grid.size), grid.bins)
    positions = 2.0 * head.positions(ordered=grid.levels) - 1.0
    if not grid.atoms:
        return Lookup(head.column.name, positions[:, None], grid.bins)
    rows = np.zeros((grid.size, 2 + grid.atoms))
    rows[: grid.levels, 0] = positions
    rows[: grid.levels, 1] = 1.0
    rows[grid.levels :, 2:] = np.eye(grid.atoms)
    return Lookup(head.column.name, _SHARED * rows, grid.bins)
