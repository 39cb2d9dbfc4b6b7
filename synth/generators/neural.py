r"""Shared by dp-merf and dp-hp: a network that generates rows, its training on a released embedding, and sampling.

A row is generated from a class, shared latent noise and, for each long grid, noise of its own. Given the noise, the
columns are independent, so a feature of the row has an exact expectation: categories enter as probabilities, numbers as
values (``OutputHeads``). The squared distance between the released embedding and that of a batch of B rows is estimated
without bias (``ClassBatch``),

.. math:: \Bigl\|\hat\mu - \tfrac1B \textstyle\sum_i f_i\Bigr\|^2 \;\to\;
          \frac{1}{B(B-1)} \sum_{i \ne j} \langle f_i, f_j\rangle - \frac2B \sum_i \langle \hat\mu, f_i\rangle +
          \|\hat\mu\|^2,

because the biased form adds a B-th of the rows' variance, which rewards a generator for making all rows alike.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from synth.errors import ConfigError, InputError
from synth.generators.coarse_grid import LABEL_BINS, CoarseGrid, coarse_grid
from synth.generators.protocol import Generator, GeneratorTask, State
from synth.generators.sampling import check_rows, random_source, rounded_counts
from synth.privacy.feature_maps import FeatureMap, OneHot
from synth.privacy.more.products import Product
from synth.progress import Progress
from synth.schema import ModelledColumn, Schema
from synth.system.machine import resolved_device, single_thread

__all__ = [
    "ClassBatch",
    "Draw",
    "NeuralGenerator",
    "OutputHead",
    "OutputHeads",
    "RowNetwork",
]

LATENT = 16
"""Dimension of the latent noise that the columns of a row share."""

HIDDEN = 128
"""Width of the two hidden layers."""

SAMPLE_BATCH = 8192

SOFTMAX_LEVELS = 32
"""Longest grid that is drawn from exact probabilities; a longer one is drawn from a value, which is smooth.

With a probability for each of 128 parts of longer grids, both neural generators were worse on Adult: they fitted noise.
"""

MOST_PLACES = 1024
"""Longer grids and category lists are grouped into this many public places of equal width."""

_UPLOADED = 2**23
"""Amount of latent noise uploaded at a time, in numbers: 32 MB."""

_SAMPLED = 2**27
"""Outputs of a layer that a card holds at a time, in numbers: 1 GB, or one batch."""

_MOST_CLASSES = 1000
"""Maximum number of classes: a training batch has at least two rows of each."""


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

    def positions(self, *, ordered: int) -> NDArray[np.float64]:
        """Return where the first ``ordered`` places lie in [0, 1]; a place lies at the mean of its codes."""
        centre = self.grid.first[:ordered] + 0.5 * (self.grid.width[:ordered] - 1)
        last = float(self.grid.first[ordered - 1] + self.grid.width[ordered - 1] - 1)
        return centre / last if last else np.full(ordered, 0.5)


@dataclass(frozen=True, slots=True, eq=False)
class Draw:
    """A batch of rows before codes are drawn.

    ``choices[d]`` holds the probabilities of column d, shape (batch, choices); ``values`` holds one column for each
    continuous head, shape (batch, n_continuous), in [0, 1]. Given its latent noise, a row's columns are independent,
    so these numbers give the expected feature of a row exactly.
    """

    choices: list[Tensor]
    values: Tensor


class OutputHeads:
    """The outputs of each column in the last layer: centres and spreads of values first, then probabilities."""

    def __init__(self, schema: Schema, label: str | None) -> None:
        modelled = [column for column in schema.modelled if column.name != label]
        self.heads = tuple(
            OutputHead(column, coarse_grid(column, grid=MOST_PLACES, atoms=MOST_PLACES)) for column in modelled
        )
        self.continuous = tuple(d for d, head in enumerate(self.heads) if head.is_continuous)
        self._chosen = [head.choices if head.choices > 1 else 0 for head in self.heads]

    @property
    def outputs(self) -> int:
        """Width of the last layer."""
        return 2 * len(self.continuous) + sum(self._chosen)

    def draw(self, outputs: Tensor, noise: Tensor) -> Draw:
        """Turn the last layer into probabilities and values.

        Parameters
        ----------
        outputs : Tensor of shape (batch, outputs)
        noise : Tensor of shape (batch, n_continuous)
            Standard normal; each continuous column has its own, in addition to the shared latent noise.
        """
        n = len(self.continuous)
        spread = torch.nn.functional.softplus(outputs[:, n : 2 * n])
        values = torch.sigmoid(outputs[:, :n] + spread * noise)
        logits = torch.split(outputs[:, 2 * n :], [size for size in self._chosen if size], dim=1)
        following = iter(logits)
        ones = outputs.new_ones((len(outputs), 1))
        choices = [torch.softmax(next(following), dim=1) if size else ones for size in self._chosen]
        return Draw(choices=choices, values=values)

    def picked(self, draw: Draw, uniforms: Tensor) -> Tensor:
        """Draw a choice for every head, on the device of the batch.

        Parameters
        ----------
        draw : Draw
            In float64.
        uniforms : Tensor of shape (batch, n_heads)
            In [0, 1).

        Returns
        -------
        int64 Tensor of shape (batch, n_heads + n_continuous)
            The choice of every head, then the place on the grid of every continuous head.
        """
        parts = []
        for d, probabilities in enumerate(draw.choices):
            cumulative = torch.cumsum(probabilities, dim=1)
            choice = (uniforms[:, d, None] * cumulative[:, -1:] >= cumulative).sum(dim=1)
            parts.append(choice.clamp(max=probabilities.shape[1] - 1))
        for place, d in enumerate(self.continuous):
            parts.append((draw.values[:, place] * (self.heads[d].column.levels - 1)).round().long())
        return torch.stack(parts, dim=1) if parts else uniforms.long()

    def codes(self, picked: NDArray[np.int64], uniforms: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return the codes of drawn choices, shape (batch, n_heads); ``uniforms`` of that shape pick inside places."""
        codes = np.empty((len(picked), len(self.heads)), dtype=np.int64)
        on_grid = dict(zip(self.continuous, picked.T[len(self.heads) :], strict=True))
        for d, head in enumerate(self.heads):
            choice = picked[:, d]
            if head.is_continuous:
                atoms = (
                    head.grid.codes(head.grid.levels + np.maximum(choice - 1, 0), uniforms[:, d])
                    if head.grid.atoms
                    else 0
                )
                codes[:, d] = np.where(choice == 0, on_grid[d], atoms)
            else:
                codes[:, d] = head.grid.codes(choice, uniforms[:, d])
        return codes


class RowNetwork(nn.Module):
    """Map latent noise and a class to the outputs of every column's head.

    The class also reaches the outputs directly, so one-way tables by class do not need the hidden layers.
    """

    def __init__(self, *, classes: int, outputs: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(LATENT + classes, HIDDEN),
            nn.SiLU(),
            nn.Linear(HIDDEN, HIDDEN),
            nn.SiLU(),
            nn.Linear(HIDDEN, outputs),
        )
        self.direct = nn.Linear(classes, outputs, bias=False)

    def forward(self, latent: Tensor, one_hot: Tensor) -> Tensor:
        """Return the outputs, shape (batch, outputs), from latent (batch, LATENT) and one_hot (batch, classes)."""
        outputs: Tensor = self.body(torch.cat([latent, one_hot], dim=1)) + self.direct(one_hot)
        return outputs


class ClassBatch:
    """A batch with a fixed number of rows in each class, and the mean embedding that it estimates.

    Every class gets at least two rows. Half of the batch follows the class probabilities and half is divided evenly,
    so that rare classes are learned too. Weights restore the class probabilities.

    Parameters
    ----------
    probabilities : array of shape (classes,), not negative, sum 1
    batch_size : int
    device : torch.device
    """

    def __init__(self, probabilities: NDArray[np.float64], *, batch_size: int, device: torch.device) -> None:
        classes = len(probabilities)
        shares = 0.5 * probabilities + 0.5 / classes
        rows = np.maximum(2, np.rint(batch_size * shares)).astype(np.int64)
        membership = torch.from_numpy(np.repeat(np.eye(classes), rows, axis=0)).to(device, torch.float32)
        weights = torch.from_numpy(probabilities / rows).to(device, torch.float32)
        self.size = int(rows.sum())
        self.rows = tuple(rows.tolist())
        self.one_hot = membership
        self.weights = (membership * weights).T.contiguous()
        self._squares = self.weights.square()
        self._correction = torch.from_numpy(rows / (rows - 1)).to(device, torch.float32)

    def embedding(self, features: Tensor) -> Tensor:
        """Return the batch's embedding by class, shape (classes, width), from features (size, width)."""
        return self.weights @ features

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
        own = norms @ self._squares.T
        squared = self._correction * (embedding.square().sum(dim=-1) - own)
        return (squared - 2 * (embedding * target).sum(dim=-1) + target.square().sum(dim=-1)).sum(dim=-1)


def _latent_noise(shape: tuple[int, int], steps: int, seed: int, device: torch.device) -> Iterator[Tensor]:
    """Draw the noise of every step on the processor, the same for every device, and upload many steps at once."""
    source = torch.Generator().manual_seed(seed)
    together = 1 if device.type == "cpu" else max(1, _UPLOADED // math.prod(shape))
    for start in range(0, steps, together):
        drawn = [torch.randn(shape, generator=source) for _ in range(min(together, steps - start))]
        yield from drawn if device.type == "cpu" else torch.stack(drawn).to(device)


def _randomness(
    layout: OutputHeads, n_rows: int, random: np.random.Generator
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Draw latent noise, shape (rows, numbers), and uniforms, shape (2, rows, heads), batch by batch."""
    noise = np.empty((n_rows, LATENT + len(layout.continuous)))
    uniforms = np.empty((2, n_rows, len(layout.heads)))
    for start in range(0, n_rows, SAMPLE_BATCH):
        rows = slice(start, min(start + SAMPLE_BATCH, n_rows))
        noise[rows] = random.standard_normal(noise[rows].shape)
        for d in range(len(layout.heads)):
            uniforms[:, rows, d] = random.random((2, rows.stop - rows.start))
    return noise, uniforms


class NeuralGenerator(Generator):
    """Base class of generators that train a row network on released mean embeddings.

    A subclass asks its questions in ``fit`` and calls ``_train`` with a loss computed from the answers.
    """

    def __init__(self, task: GeneratorTask, options: Any) -> None:
        self._task = task
        self._options = options
        self._layout = OutputHeads(task.schema, task.label)
        self._label_places: CoarseGrid | None = None
        if task.label is not None:
            label = task.schema.modelled_column(task.label)
            self._label_places = coarse_grid(label, grid=LABEL_BINS, atoms=label.size)
        if self.classes > _MOST_CLASSES:
            raise ConfigError(
                f"The label '{task.label}' has {self.classes:,} classes; {self.card.name} learns at most "
                f"{_MOST_CLASSES:,}. Group them, or run without a label."
            )
        self._probabilities: NDArray[np.float64] | None = None
        self._network: RowNetwork | None = None

    @property
    def _source(self) -> str:
        return f"generator {self.card.name}"

    @property
    def device(self) -> str:
        """The device that trains the network and draws from it, "cpu" or "cuda"."""
        return resolved_device(self._task.device)

    @property
    def classes(self) -> int:
        """Number of classes of the label; 1 without a label."""
        return 1 if self._label_places is None else self._label_places.size

    def sample(self, n_rows: int, seed: int) -> NDArray[np.int64]:
        """Draw rows in float64, on one CPU thread or on a card.

        Every class gets its expected number of rows to within one. Random numbers are drawn on the processor, in the
        same order for every device; a card receives many batches at a time.
        """
        check_rows(n_rows)
        if self._probabilities is None:
            raise InputError("This generator has not been fitted yet.")
        layout, device = self._layout, self.device
        random = random_source(seed)
        counts = rounded_counts(self._probabilities, n_rows, random)
        classes = random.permutation(np.repeat(np.arange(len(counts)), counts))
        double = None if self._network is None else copy.deepcopy(self._network).to(device).double()
        widest = max(layout.outputs, HIDDEN)
        together = SAMPLE_BATCH * (1 if device == "cpu" else max(1, _SAMPLED // (SAMPLE_BATCH * widest)))
        parts = []
        with single_thread(), torch.no_grad():
            for start in range(0, n_rows, together):
                here = classes[start : start + together]
                noise, uniforms = _randomness(layout, len(here), random)
                latent = torch.from_numpy(noise).to(device)
                one_hot = torch.nn.functional.one_hot(torch.from_numpy(here).to(device), len(counts)).double()
                outputs = latent[:, :0] if double is None else double(latent[:, :LATENT], one_hot)
                draw = layout.draw(outputs, latent[:, LATENT:])
                picked = layout.picked(draw, torch.from_numpy(uniforms[0]).to(device))
                parts.append(layout.codes(picked.cpu().numpy(), uniforms[1]))
        codes = np.concatenate(parts)
        if self._label_places is not None and self._task.label is not None:
            uniforms = random_source(seed + 1).random(n_rows)
            position = self._task.schema.names.index(self._task.label)
            codes = np.insert(codes, position, self._label_places.codes(classes, uniforms), axis=1)
        return codes

    def state(self) -> State:
        """Return the class proportions and the network's weights."""
        if self._probabilities is None:
            raise InputError("This generator has not been fitted yet.")
        weights = {} if self._network is None else self._network.state_dict()
        arrays = {f"network.{name}": tensor.detach().cpu().numpy().copy() for name, tensor in weights.items()}
        return {"probabilities": self._probabilities.copy(), **arrays}

    @classmethod
    def from_state(cls, task: GeneratorTask, options: Any, state: State) -> Self:
        """Rebuild a fitted generator; it draws the same bytes as before."""
        generator = cls(task, options)
        generator._probabilities = state["probabilities"].astype(np.float64)
        network = generator._new_network()
        if network is not None:
            prefix = "network."
            network.load_state_dict(
                {
                    name.removeprefix(prefix): torch.from_numpy(array)
                    for name, array in state.items()
                    if name != "probabilities"
                }
            )
        generator._network = network
        return generator

    def _by_class(self, features: FeatureMap | None) -> FeatureMap:
        """Multiply features by the one-hot label, if there is one (Vinaroz 2022, eq. 14)."""
        if self._label_places is None or self._task.label is None:
            if features is None:
                raise InputError("There is nothing to learn: the table has no column other than the label.")
            return features
        label = OneHot(
            columns=(self._task.label,),
            bins=(self._label_places.bins,),
            sizes=(self._task.schema.modelled_column(self._task.label).size,),
        )
        return label if features is None else Product(factors=(features, label))

    def _new_network(self) -> RowNetwork | None:
        if not self._layout.outputs:
            return None
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self._task.seed)
            return RowNetwork(classes=self.classes, outputs=self._layout.outputs)

    def _train(
        self,
        loss_of: Callable[[ClassBatch, Draw, int], Tensor],
        *,
        steps: int,
        progress: Progress,
    ) -> None:
        """Fit the network to released embeddings by Adam with a cosine schedule.

        Parameters
        ----------
        loss_of : callable
            Returns the loss of a drawn batch at a step; depends on releases only.
        steps : int
        progress : Progress
            Receives steps and losses; may stop the training.
        """
        network, device = self._new_network(), torch.device(self.device)
        if network is None or self._probabilities is None:
            return
        progress.phase("Fitting")
        layout, rate = self._layout, self._options.learning_rate
        with single_thread():
            network.to(device)
            batch = ClassBatch(self._probabilities, batch_size=self._options.batch_size, device=device)
            optimiser = torch.optim.Adam(network.parameters(), lr=rate, betas=(0.9, 0.99))
            shape = (batch.size, LATENT + len(layout.continuous))
            for step, noise in enumerate(_latent_noise(shape, steps, self._task.seed, device)):
                for group in optimiser.param_groups:
                    group["lr"] = rate * 0.5 * (1.0 + math.cos(math.pi * step / steps))
                outputs = network(noise[:, :LATENT], batch.one_hot)
                loss = loss_of(batch, layout.draw(outputs, noise[:, LATENT:]), step)
                optimiser.zero_grad(set_to_none=True)
                # Distances are far below 1; the factor keeps Adam's epsilon negligible.
                torch.autograd.backward(1e4 * loss)
                optimiser.step()
                if step % 20 == 0 or step == steps - 1:
                    progress.check_cancelled()
                    progress.step(step + 1, steps)
                    progress.loss(float(loss.detach()))
        self._network = network.cpu()
