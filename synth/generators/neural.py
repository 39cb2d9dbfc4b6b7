r"""The network that dp-merf and dp-hp share, and its training on a released mean embedding.

A row is made from a class, shared latent noise and, for each long grid, noise of its own. Given the noise the columns
are independent, so a feature of the row has an exact expectation: categories enter as probabilities, numbers as
values. The squared distance between the released embedding and that of a batch of B rows is estimated without bias,

.. math:: \Bigl\|\hat\mu - \tfrac1B \textstyle\sum_i f_i\Bigr\|^2 \;\to\;
          \frac{1}{B(B-1)} \sum_{i \ne j} \langle f_i, f_j\rangle - \frac2B \sum_i \langle \hat\mu, f_i\rangle +
          \|\hat\mu\|^2,

because the biased form adds a B-th of the rows' variance and so pays a generator for making all rows alike.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from synth.generators.heads import Draw, HeadLayout
from synth.generators.sampling import random_source, rounded_counts
from synth.progress import Progress
from synth.system.threads import single_thread

__all__ = ["ClassBatch", "RowNetwork", "TrainingPlan", "sample_rows", "train"]

LATENT = 16
"""Numbers of shared latent noise for a row."""

HIDDEN = 128
"""Width of the two hidden layers."""

SAMPLE_BATCH = 8192


class RowNetwork(nn.Module):
    """From latent noise and class to the outputs of every column's head.

    The class also reaches the outputs directly, so one-way tables by class need nothing of the hidden layers.
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


@dataclass(frozen=True, slots=True)
class TrainingPlan:
    """How long and how fast to train; public."""

    steps: int
    learning_rate: float
    seed: int
    device: torch.device


class ClassBatch:
    """A batch with a fixed number of rows of each class, and the mean embedding it estimates.

    Every class gets at least two rows; beyond that half of the batch follows the class probabilities and half is even,
    so that rare classes are learned too. Rows are weighted back to the class probabilities.

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
        self.one_hot = membership
        self.weights = (membership * weights).T.contiguous()
        self._squares = self.weights.square()
        self._correction = torch.from_numpy(rows / (rows - 1)).to(device, torch.float32)

    def embedding(self, features: Tensor) -> Tensor:
        """Return the batch's embedding by class, shape (classes, width), from features (size, width)."""
        return self.weights @ features

    def squared_distance(self, embedding: Tensor, norms: Tensor, target: Tensor) -> Tensor:
        """Estimate the squared distance to a target without bias.

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


def train(
    network: RowNetwork,
    layout: HeadLayout,
    batch: ClassBatch,
    loss_of: Callable[[Draw, int], Tensor],
    *,
    plan: TrainingPlan,
    progress: Progress,
) -> None:
    """Fit a network to released embeddings by Adam with a cosine schedule.

    Parameters
    ----------
    network : RowNetwork
        Trained in place, on ``plan.device``.
    layout : HeadLayout
    batch : ClassBatch
    loss_of : callable
        Loss of a drawn batch at a step; reads releases only.
    plan : TrainingPlan
    progress : Progress
        Told of steps and losses; asked whether to stop.
    """
    # Latent noise is drawn on the CPU so that every device sees the same batches.
    source = torch.Generator().manual_seed(plan.seed)
    optimiser = torch.optim.Adam(network.parameters(), lr=plan.learning_rate, betas=(0.9, 0.99))
    for step in range(plan.steps):
        for group in optimiser.param_groups:
            group["lr"] = plan.learning_rate * 0.5 * (1.0 + math.cos(math.pi * step / plan.steps))
        noise = torch.randn(batch.size, LATENT + len(layout.continuous), generator=source).to(plan.device)
        outputs = network(noise[:, :LATENT], batch.one_hot)
        loss = loss_of(layout.draw(outputs, noise[:, LATENT:]), step)
        optimiser.zero_grad(set_to_none=True)
        # Distances are far below 1; the factor keeps Adam's epsilon out of the way.
        torch.autograd.backward(1e4 * loss)
        optimiser.step()
        if step % 20 == 0 or step == plan.steps - 1:
            progress.check_cancelled()
            progress.step(step + 1, plan.steps)
            progress.loss(float(loss.detach()))


def sample_rows(
    network: RowNetwork | None,
    layout: HeadLayout,
    probabilities: NDArray[np.float64],
    *,
    n_rows: int,
    seed: int,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Draw classes and codes in float64 on one CPU thread.

    Parameters
    ----------
    network : RowNetwork or None
        None where no column leaves a choice.
    layout : HeadLayout
    probabilities : array of shape (classes,)
    n_rows, seed : int

    Returns
    -------
    classes : array of shape (n_rows,), int64
    codes : array of shape (n_rows, n_heads), int64
    """
    random = random_source(seed)
    counts = rounded_counts(probabilities, n_rows, random)
    classes = random.permutation(np.repeat(np.arange(len(counts)), counts))
    double = None if network is None else copy.deepcopy(network).cpu().double()
    parts = []
    with single_thread(), torch.no_grad():
        for start in range(0, n_rows, SAMPLE_BATCH):
            here = classes[start : start + SAMPLE_BATCH]
            noise = torch.from_numpy(random.standard_normal((len(here), LATENT + len(layout.continuous))))
            one_hot = torch.nn.functional.one_hot(torch.from_numpy(here), len(counts)).double()
            outputs = noise[:, :0] if double is None else double(noise[:, :LATENT], one_hot)
            parts.append(layout.codes(layout.draw(outputs, noise[:, LATENT:]), random))
    return classes, np.concatenate(parts)
