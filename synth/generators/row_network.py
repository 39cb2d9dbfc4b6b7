r"""A network that draws rows, and its training on released mean embeddings in few large operations.

A row is drawn from a class, shared latent noise and, for each long grid, noise of its own. Given the noise, the columns
are independent, so a feature of the row has an exact expectation: categories enter as probabilities, numbers as values.
The squared distance between the released embedding and that of a batch of B rows is estimated without bias,

.. math:: \Bigl\|\hat\mu - \tfrac1B \textstyle\sum_i f_i\Bigr\|^2 \;\to\;
          \frac{1}{B(B-1)} \sum_{i \ne j} \langle f_i, f_j\rangle - \frac2B \sum_i \langle \hat\mu, f_i\rangle +
          \|\hat\mu\|^2,

because the biased form adds a B-th of the rows' variance, which rewards a network for making all rows alike.

On a graphics card an operation takes microseconds to start, whatever it does. So slopes are written out instead of
recorded, columns of similar size share one operation, and the rows of a batch are the last dimension of every tensor,
which keeps what belongs to a column adjacent. All tensors may have one more dimension in front: several fits, which
differ in their answers alone, train side by side.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from synth.generators.coarse_grid import CoarseGrid, coarse_grid
from synth.models.repeated_steps import RepeatedSteps
from synth.schema import ModelledColumn, Schema

__all__ = [
    "ChoiceBlock",
    "ClassBatch",
    "Distance",
    "Draw",
    "OutputHead",
    "OutputHeads",
    "RowNetwork",
    "Training",
    "product",
    "train",
]

LATENT = 16
"""Dimension of the latent noise that the columns of a row share."""

HIDDEN = 128
"""Width of the two hidden layers."""

SOFTMAX_LEVELS = 32
"""Longest grid that is drawn from exact probabilities; a longer one is drawn from a value, which is smooth.

With a probability for each of 128 parts of longer grids, both neural generators were worse on Adult: they fitted noise.
"""

MOST_PLACES = 1024
"""Longer grids and category lists are grouped into this many public places of equal width."""

STEPS_TOGETHER = 20
"""Steps between two losses that the owner is shown, for which noise is drawn at once."""

_FIRST_SPREAD = 0.7
"""About how far a value is spread at first, before the logistic function."""

_BLOCK = 64
"""Outputs that cost about as much as one more operation: columns share a block if fewer are added to fill it up."""

_MOST_NUMBERS = 32
"""Most columns of numbers in a block."""

_SOFTMAX_BACKWARD = torch.ops.aten._softmax_backward_data  # noqa: SLF001 - torch has no other name for it

_IMPOSSIBLE = -1e9
"""Logit of a choice that a column does not have."""


# The outputs ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class OutputHead:
    """How one column is drawn.

    A column of unordered codes, or with a short grid, has a probability for each of its ``places``. Any other column
    has a value in [0, 1] and, where it has atoms (special values, missing), a probability for "on the grid" and for
    each atom.
    """

    column: ModelledColumn
    grid: CoarseGrid

    @property
    def is_continuous(self) -> bool:
        """Whether the grid is drawn from a value."""
        return self.grid.levels > SOFTMAX_LEVELS

    @property
    def choices(self) -> int:
        """Number of probabilities: one for every place, or one for the whole grid and one for every atom."""
        return 1 + self.grid.atoms if self.is_continuous else self.grid.size

    @property
    def kind(self) -> Literal["value", "grid", "category"]:
        """What its probabilities are of: a value or atoms, the places of a short grid, or a category."""
        return "value" if self.is_continuous else "grid" if self.column.levels else "category"

    def positions(self, *, ordered: int) -> NDArray[np.float64]:
        """Return where the first ``ordered`` places lie in [0, 1]; a place lies at the mean of its codes."""
        centre = self.grid.first[:ordered] + 0.5 * (self.grid.width[:ordered] - 1)
        last = float(self.grid.first[ordered - 1] + self.grid.width[ordered - 1] - 1)
        return centre / last if last else np.full(ordered, 0.5)


@dataclass(frozen=True, slots=True)
class ChoiceBlock:
    """Columns of one kind whose probabilities are one tensor of shape (places, columns, rows).

    Attributes
    ----------
    heads : tuple of int
        Places of the columns among all heads, with more choices the later.
    size : int
        Choices of the last; the others have impossible ones behind their own.
    kind : str
        Of every head.
    first : int
        First output; place k of column j is output first + k * columns + j.
    values : slice
        Values of the columns, if their kind is "value"; else empty.
    """

    heads: tuple[int, ...]
    size: int
    kind: Literal["value", "grid", "category"]
    first: int
    values: slice

    @property
    def outputs(self) -> slice:
        """Outputs of the last layer that are its logits."""
        return slice(self.first, self.first + self.size * len(self.heads))


@dataclass(frozen=True, slots=True, eq=False)
class Draw:
    """A batch of rows before codes are drawn, or the slopes of a loss in these numbers.

    ``values`` holds the values of the continuous heads, shape (..., n_continuous, rows), in [0, 1]; ``choices[b]`` the
    probabilities of a block, shape (..., places, columns, rows). Given its latent noise, a row's columns are
    independent, so these numbers give the expected feature of a row exactly.
    """

    values: Tensor
    choices: tuple[Tensor, ...]


class OutputHeads:
    """The outputs of each column in the last layer: centres, then spreads of values, then logits block by block.

    Attributes
    ----------
    heads : tuple of OutputHead
    continuous : tuple of int
        The head of every value: first those without atoms, by the length of their grids.
    plain : int
        Number of values whose heads have no atoms.
    blocks : tuple of ChoiceBlock
        Of all heads with at least two choices.
    """

    def __init__(self, schema: Schema, label: str | None) -> None:
        modelled = [column for column in schema.modelled if column.name != label]
        self.heads = tuple(
            OutputHead(column, coarse_grid(column, grid=MOST_PLACES, atoms=MOST_PLACES)) for column in modelled
        )
        plain = [d for d, head in enumerate(self.heads) if head.is_continuous and head.choices == 1]
        plain.sort(key=lambda d: self.heads[d].grid.levels)
        kinds: list[tuple[Literal["value", "grid", "category"], int]] = [
            ("value", _MOST_NUMBERS),
            ("grid", _MOST_NUMBERS),
            ("category", len(self.heads)),
        ]
        parts = [
            (kind, part)
            for kind, most in kinds
            for part in self._parted(
                [d for d, head in enumerate(self.heads) if head.kind == kind and head.choices > 1], most
            )
        ]
        self.plain = len(plain)
        self.continuous = (*plain, *(d for kind, part in parts if kind == "value" for d in part))
        first, value = 2 * len(self.continuous), self.plain
        blocks = []
        for kind, part in parts:
            size, values = self.heads[part[-1]].choices, len(part) if kind == "value" else 0
            blocks.append(ChoiceBlock(tuple(part), size, kind, first, slice(value, value + values)))
            first, value = first + size * len(part), value + values
        self.blocks = tuple(blocks)
        self.outputs = first

    def _parted(self, heads: list[int], most: int) -> list[list[int]]:
        """Divide heads into blocks with little padding and few blocks, by dynamic programming over their sizes."""
        heads = sorted(heads, key=lambda d: (self.heads[d].choices, d))
        sizes, counts = np.unique(np.array([self.heads[d].choices for d in heads], dtype=np.int64), return_counts=True)
        ends = np.concatenate([[0], np.cumsum(counts)])
        costs, cuts = np.zeros(len(ends)), np.zeros(len(ends), dtype=np.int64)
        for end, size in enumerate(sizes, start=1):
            options = costs[:end] + _BLOCK + size * (ends[end] - ends[:end])
            cuts[end] = int(options.argmin())
            costs[end] = options[cuts[end]]
        parts: list[list[int]] = []
        end = len(sizes)
        while end:
            start = int(cuts[end])
            part = heads[int(ends[start]) : int(ends[end])]
            parts = [part[place : place + most] for place in range(0, len(part), most)] + parts
            end = start
        return parts

    def impossible(self) -> NDArray[np.int64]:
        """Return the outputs that are logits of choices which their columns do not have."""
        places = [
            block.first + place * len(block.heads) + column
            for block in self.blocks
            for column, d in enumerate(block.heads)
            for place in range(self.heads[d].choices, block.size)
        ]
        return np.array(places, dtype=np.int64)

    def new_draw(self, outputs: Tensor) -> Draw:
        """Return room for a draw, or for slopes, like some outputs, (..., outputs, rows)."""
        *several, _, rows = outputs.shape
        return Draw(
            outputs.new_zeros((*several, len(self.continuous), rows)),
            tuple(outputs.new_zeros((*several, block.size, len(block.heads), rows)) for block in self.blocks),
        )

    def draw(self, outputs: Tensor, noise: Tensor, draw: Draw) -> None:
        """Turn the last layer into values and probabilities.

        Parameters
        ----------
        outputs : Tensor of shape (..., outputs, rows)
        noise : Tensor of shape (n_continuous, rows)
            Standard normal; each value has its own, in addition to the shared latent noise. Its factor may be negative,
            which does not change how values are spread.
        draw : Draw
            Takes what is drawn.
        """
        n = len(self.continuous)
        if n:
            torch.addcmul(outputs[..., :n, :], outputs[..., n : 2 * n, :], noise, out=draw.values)
            draw.values.sigmoid_()
        for block, choices in zip(self.blocks, draw.choices, strict=True):
            torch.softmax(_logits(outputs, block), dim=-3, out=choices)

    def backward(self, slopes: Draw, draw: Draw, noise: Tensor, outputs: Tensor) -> None:
        """Write the slopes of a loss in the outputs, given those in what was drawn."""
        n = len(self.continuous)
        if n:
            centres = outputs[..., :n, :]
            torch.ops.aten.sigmoid_backward.grad_input(slopes.values, draw.values, grad_input=centres)
            torch.mul(centres, noise, out=outputs[..., n : 2 * n, :])
        for block, slope, choices in zip(self.blocks, slopes.choices, draw.choices, strict=True):
            there = _logits(outputs, block)
            if there.is_contiguous():
                _SOFTMAX_BACKWARD.out(slope, choices, -3, choices.dtype, grad_input=there)
            else:  # torch writes to the wrong places of a tensor with gaps
                there.copy_(_SOFTMAX_BACKWARD(slope, choices, -3, choices.dtype))

    def picked(self, draw: Draw, uniforms: Tensor) -> Tensor:
        """Draw a choice for every head, on the device of the batch.

        Parameters
        ----------
        draw : Draw
            In float64, without further dimensions.
        uniforms : Tensor of shape (n_heads, rows)
            In [0, 1).

        Returns
        -------
        int64 Tensor of shape (n_heads + n_continuous, rows)
            The choice of every head, then the place on the grid of every value.
        """
        picked = torch.zeros((len(self.heads) + len(self.continuous), uniforms.shape[1]), dtype=torch.int64)
        picked = picked.to(uniforms.device)
        for block, probabilities in zip(self.blocks, draw.choices, strict=True):
            heads = torch.tensor(block.heads).to(uniforms.device)
            cumulative = torch.cumsum(probabilities, dim=0)
            choice = (uniforms[heads] * cumulative[-1:] >= cumulative).sum(dim=0)
            last = torch.tensor([self.heads[d].choices - 1 for d in block.heads]).to(uniforms.device)
            picked[heads] = torch.minimum(choice, last[:, None])
        if self.continuous:
            highest = torch.tensor([float(self.heads[d].column.levels - 1) for d in self.continuous])
            picked[len(self.heads) :] = (draw.values * highest.to(draw.values)[:, None]).round().long()
        return picked

    def codes(self, picked: NDArray[np.int64], uniforms: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return the codes of drawn choices, (rows, n_heads); ``uniforms``, (n_heads, rows), pick inside places."""
        codes = np.empty((picked.shape[1], len(self.heads)), dtype=np.int64)
        on_grid = dict(zip(self.continuous, picked[len(self.heads) :], strict=True))
        for d, head in enumerate(self.heads):
            choice = picked[d]
            if head.is_continuous:
                atoms = (
                    head.grid.codes(head.grid.levels + np.maximum(choice - 1, 0), uniforms[d]) if head.grid.atoms else 0
                )
                codes[:, d] = np.where(choice == 0, on_grid[d], atoms)
            else:
                codes[:, d] = head.grid.codes(choice, uniforms[d])
        return codes


def _logits(outputs: Tensor, block: ChoiceBlock) -> Tensor:
    logits: Tensor = torch.unflatten(outputs[..., block.outputs, :], -2, (block.size, len(block.heads)))
    return logits


# The network ---------------------------------------------------------------------------------------------------------


class RowNetwork:
    """Maps latent noise and a class to the outputs of every column's head; two hidden layers.

    The class, one-hot, reaches every layer: it is what other networks call a bias, and one-way tables by class do not
    need the hidden layers.

    Attributes
    ----------
    weights : Tensor of shape (..., number of weights)
        All of them in one tensor, so that a step of the optimiser is one operation.
    first, second, third : Tensor
        Views of the layers, (..., width, inputs + classes).
    """

    def __init__(self, weights: Tensor, *, classes: int, outputs: int) -> None:
        self.weights = weights
        shapes = self._shapes(classes=classes, outputs=outputs)
        parts = torch.split(weights, [math.prod(shape) for shape in shapes], dim=-1)
        self.first, self.second, self.third = (
            torch.unflatten(part, -1, shape) for part, shape in zip(parts, shapes, strict=True)
        )

    @staticmethod
    def _shapes(*, classes: int, outputs: int) -> list[tuple[int, int]]:
        return [(HIDDEN, LATENT + classes), (HIDDEN, HIDDEN + classes), (outputs, HIDDEN + classes)]

    @classmethod
    def size(cls, *, classes: int, outputs: int) -> int:
        """Return the number of weights."""
        return sum(width * inputs for width, inputs in cls._shapes(classes=classes, outputs=outputs))

    @classmethod
    def drawn(cls, layout: OutputHeads, *, classes: int, seed: int) -> RowNetwork:
        """Draw the initial weights, evenly within one over the root of a layer's inputs, from a public seed."""
        source = torch.Generator().manual_seed(seed)
        parts = []
        for width, inputs in ((HIDDEN, LATENT), (HIDDEN, HIDDEN), (layout.outputs, HIDDEN)):
            drawn = torch.rand((width, inputs + classes), generator=source)
            parts.append((2.0 * drawn - 1.0) / math.sqrt(inputs))
        n = len(layout.continuous)
        parts[2][n : 2 * n, HIDDEN:] += _FIRST_SPREAD
        parts[2][torch.from_numpy(layout.impossible()), HIDDEN:] = _IMPOSSIBLE
        return cls(torch.cat([part.flatten() for part in parts]), classes=classes, outputs=layout.outputs)

    def outputs(self, latent: Tensor, one_hot: Tensor) -> Tensor:
        """Return the outputs, (outputs, rows), from latent (LATENT, rows) and one_hot (classes, rows)."""
        inputs = latent
        for layer in (self.first, self.second):
            inputs = torch.nn.functional.silu(layer @ torch.cat([inputs, one_hot]))
        return self.third @ torch.cat([inputs, one_hot])


def product(left: Tensor, right: Tensor, out: Tensor, *, plus: Tensor | None = None, adds: bool = False) -> None:
    """Multiply matrices, (..., a, b) by (..., b, c), into ``out``; one without fits is the same for all of them.

    Parameters
    ----------
    left, right : Tensor
    out : Tensor of shape (..., a, c)
    plus : Tensor of shape (a, 1), optional
        Added to every column.
    adds : bool
        Whether the product is added to what is there.
    """
    if out.ndim > 3:
        (out.add_ if adds else out.copy_)(left @ right)
        return
    if out.ndim == 3:
        left, right = (one if one.ndim == 3 else one.expand(len(out), -1, -1) for one in (left, right))
    plus = out if adds else plus
    if plus is None:
        (torch.mm if out.ndim == 2 else torch.bmm)(left, right, out=out)
    else:
        (torch.addmm if out.ndim == 2 else torch.baddbmm)(plus, left, right, out=out)


class ClassBatch:
    """A batch with a fixed number of rows in each class, and the mean embedding that it estimates.

    Every class gets at least two rows. Half of the batch follows the class probabilities and half is divided evenly,
    so that rare classes are learned too. Weights restore the class probabilities.

    Parameters
    ----------
    probabilities : array of shape (..., classes), not negative, sum 1
        Where several fits have their own, each has its own number of rows in each class, and rows of weight 0 behind
        them up to the most of any fit.
    batch_size : int
    device : torch.device
    dtype : torch.dtype
        Of all that is computed with the batch.

    Attributes
    ----------
    size : int
        Rows.
    rows : tuple of int
        Rows of each class, which are adjacent.
    one_hot : Tensor of shape (classes, size)
    weights : Tensor of shape (..., classes, size)
    """

    def __init__(
        self,
        probabilities: NDArray[np.float64],
        *,
        batch_size: int,
        device: torch.device,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        classes = probabilities.shape[-1]
        shares = 0.5 * probabilities + 0.5 / classes
        rows = np.maximum(2, np.rint(batch_size * shares)).astype(np.int64)
        most = rows.reshape(-1, classes).max(axis=0)
        self.size, self.rows = int(most.sum()), tuple(most.tolist())
        member = np.repeat(np.eye(classes), most, axis=1)
        place = np.concatenate([np.arange(count) for count in most])
        counted = member * (place < rows[..., None])
        weights = counted * (probabilities / rows)[..., None]
        correction = (rows / (rows - 1))[..., None]

        def moved(array: NDArray[np.float64]) -> Tensor:
            return torch.from_numpy(np.ascontiguousarray(array)).to(device, dtype)

        self.one_hot, self.weights = moved(member), moved(weights)
        self.correction = moved(correction)
        # A row has weight in one class only.
        self.of_norm = moved((2.0 * correction * weights**2).sum(axis=-2))
        self.of_slopes = moved(np.concatenate([2.0 * correction * weights, weights], axis=-2))

    def squared_distance(self, embedding: Tensor, norms: Tensor, target: Tensor) -> Tensor:
        """Return an unbiased estimate of the squared distance to a target.

        Parameters
        ----------
        embedding, target : Tensor of shape (..., classes, width)
        norms : Tensor of shape (..., size)
            Squared norm of every row's features.

        Returns
        -------
        Tensor of shape (...)
        """
        missed = (self.correction * embedding).sub_(target, alpha=2.0)
        squared = torch.addcmul(target.square(), missed, embedding).sum(dim=(-2, -1))
        return squared.sub_((self.of_norm * norms).sum(dim=-1), alpha=0.5)


# Training ------------------------------------------------------------------------------------------------------------


class Distance(Protocol):
    """How far a batch's embedding is from the released one."""

    def slopes(self, draw: Draw, step: Tensor, slopes: Draw) -> None:
        """Write the slopes of the distance in all numbers of a draw; on a card, without waiting for it.

        Parameters
        ----------
        draw : Draw
        step : Tensor of shape (), int64
            On the device.
        slopes : Draw
            Takes them.
        """
        ...

    def value(self, draw: Draw, step: Tensor) -> Tensor:
        """Return the distance of the draw whose slopes were taken last, shape (...)."""
        ...


def train(
    layout: OutputHeads,
    network: RowNetwork,
    batch: ClassBatch,
    distance: Distance,
    *,
    steps: int,
    rate: float,
    seed: int,
    report: Callable[[int, Tensor], None],
) -> None:
    """Fit networks to released embeddings by Adam (Kingma and Ba 2015) with a cosine schedule, in place.

    Parameters
    ----------
    layout : OutputHeads
    network : RowNetwork
        Of one fit, or of several.
    batch : ClassBatch
    distance : Distance
        Depends on releases only.
    steps : int
    rate : float
        Learning rate of the first step; it falls to 0.
    seed : int
        Public; the noise of every step is drawn on the processor, the same for every device.
    report : callable
        Called with the step and the losses every few steps; may raise to stop.
    """
    training = Training(layout, network, batch, steps=steps, rate=rate, seed=seed)
    repeated = RepeatedSteps(
        partial(training.step, distance),
        device=network.weights.device,
        together=STEPS_TOGETHER,
        refill=training.prepare,
        changed=training.changed,
    )
    for first in range(0, steps, STEPS_TOGETHER):
        count = min(STEPS_TOGETHER, steps - first)
        repeated.run(first, count)
        report(first + count - 1, training.loss(distance, count - 1))


class Training:
    """The tensors of a training, all of them made before its first step.

    Attributes
    ----------
    slopes : Draw
        Takes the slopes of a loss in all numbers of the last draw.
    """

    _DECAYS = 0.9, 0.99
    _LEAST = 1e-12  # distances are far below 1

    def __init__(
        self,
        layout: OutputHeads,
        network: RowNetwork,
        batch: ClassBatch,
        *,
        steps: int,
        rate: float,
        seed: int,
    ) -> None:
        self._layout, self._network = layout, network
        self._source = torch.Generator().manual_seed(seed)
        weights = network.weights
        classes, rows, several = len(batch.one_hot), batch.size, weights.shape[:-1]
        self._slope = RowNetwork(torch.zeros_like(weights), classes=classes, outputs=layout.outputs)
        self._mean, self._square = torch.zeros_like(weights), torch.zeros_like(weights)
        self._inputs = weights.new_zeros((STEPS_TOGETHER, LATENT + classes, rows))
        self._inputs[:, LATENT:] = batch.one_hot
        self._noise = weights.new_zeros((STEPS_TOGETHER, len(layout.continuous), rows))
        self._hidden = [weights.new_zeros((*several, HIDDEN + classes, rows)) for _ in range(2)]
        for hidden in self._hidden:
            hidden[..., HIDDEN:, :] = batch.one_hot
        self._before = [weights.new_zeros((*several, HIDDEN, rows)) for _ in range(2)]
        self._back = weights.new_zeros((*several, HIDDEN, rows))
        self._outputs, self._of_outputs = (weights.new_zeros((*several, layout.outputs, rows)) for _ in range(2))
        self._draw, self.slopes = layout.new_draw(self._outputs), layout.new_draw(self._outputs)
        numbers = np.arange(steps)
        rates = rate * 0.5 * (1.0 + np.cos(np.pi * numbers / steps))
        self._every_rate_and_count = torch.from_numpy(np.stack([rates, numbers + 1.0])).to(weights)
        self._every_step = torch.from_numpy(numbers).to(weights.device)
        self._rates, self._counts = self._rates_and_counts = weights.new_zeros((2, STEPS_TOGETHER))
        self._steps = torch.zeros(STEPS_TOGETHER, dtype=torch.int64).to(weights.device)

    @property
    def changed(self) -> tuple[Tensor, ...]:
        """What a step takes over from the one before it."""
        return self._network.weights, self._mean, self._square

    def prepare(self, first: int, count: int) -> None:
        """Fill in what the next steps need: noise, learning rates and step numbers."""
        shape = (STEPS_TOGETHER, LATENT + self._noise.shape[1], self._inputs.shape[2])
        drawn = torch.randn(shape, generator=self._source).to(self._inputs)
        self._inputs[:, :LATENT] = drawn[:, :LATENT]
        self._noise.copy_(drawn[:, LATENT:])
        self._rates_and_counts[:, :count] = self._every_rate_and_count[:, first : first + count]
        self._steps[:count] = self._every_step[first : first + count]

    def step(self, distance: Distance, place: int) -> None:
        """Take one of the steps that were prepared."""
        draw = self.draw(place)
        distance.slopes(draw, self._steps[place], self.slopes)
        self.learn(place)

    def draw(self, place: int) -> Draw:
        """Draw the batch of a prepared step; the next one is drawn in its place."""
        network, layout = self._network, self._layout
        inputs, noise = self._inputs[place], self._noise[place]
        (first, second), (of_first, of_second) = self._hidden, self._before
        product(network.first, inputs, out=of_first)
        torch.ops.aten.silu.out(of_first, out=first[..., :HIDDEN, :])
        product(network.second, first, out=of_second)
        torch.ops.aten.silu.out(of_second, out=second[..., :HIDDEN, :])
        product(network.third, second, out=self._outputs)
        layout.draw(self._outputs, noise, self._draw)
        return self._draw

    def learn(self, place: int) -> None:
        """Move along the slopes of the batch that was drawn last."""
        network, slope, layout = self._network, self._slope, self._layout
        inputs, noise = self._inputs[place], self._noise[place]
        (first, second), (of_first, of_second) = self._hidden, self._before
        layout.backward(self.slopes, self._draw, noise, self._of_outputs)
        product(self._of_outputs, second.mT, out=slope.third)
        product(network.third[..., :HIDDEN].mT, self._of_outputs, out=self._back)
        torch.ops.aten.silu_backward.grad_input(self._back, of_second, grad_input=of_second)
        product(of_second, first.mT, out=slope.second)
        product(network.second[..., :HIDDEN].mT, of_second, out=self._back)
        torch.ops.aten.silu_backward.grad_input(self._back, of_first, grad_input=of_first)
        product(of_first, inputs.mT, out=slope.first)
        torch._fused_adam_(
            [network.weights],
            [slope.weights],
            [self._mean],
            [self._square],
            [],
            [self._counts[place]],
            lr=self._rates[place],
            beta1=self._DECAYS[0],
            beta2=self._DECAYS[1],
            weight_decay=0.0,
            eps=self._LEAST,
            amsgrad=False,
            maximize=False,
        )

    def loss(self, distance: Distance, place: int) -> Tensor:
        """Return the loss of the last draw, before its step."""
        return distance.value(self._draw, self._steps[place])
