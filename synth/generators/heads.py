"""The last layer of a neural generator: exact probabilities for atoms and short grids, values for long grids."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from synth.generators.places import Places, places_of
from synth.schema import ModelledColumn, Schema

__all__ = ["Draw", "Head", "HeadLayout"]

SOFTMAX_LEVELS = 32
"""A grid of at most so many places is drawn from exact probabilities; a longer one from a value, which is smooth.

With a probability for each of 128 parts of longer grids both neural generators lost on Adult: they follow the noise.
"""

MOST_PLACES = 1024
"""Longer grids and category lists are grouped into so many public, equal-width places."""


@dataclass(frozen=True, slots=True, eq=False)
class Head:
    """How one column is drawn.

    A column of unordered codes, or with a short grid, has a probability for each of its ``places``. Any other column
    has a value in [0, 1] and, where it has atoms (special values, missing), a probability for "on the grid" and for
    each atom.
    """

    column: ModelledColumn
    places: Places

    @property
    def is_continuous(self) -> bool:
        """Whether the grid is drawn from a value."""
        return self.places.levels > SOFTMAX_LEVELS

    @property
    def choices(self) -> int:
        """Number of probabilities: every place, or the grid as a whole and every atom."""
        return 1 + self.places.atoms if self.is_continuous else self.places.size

    def positions(self, *, ordered: int) -> NDArray[np.float64]:
        """Return where the first ``ordered`` places lie in [0, 1]; a place lies at the mean of its codes."""
        centre = self.places.first[:ordered] + 0.5 * (self.places.width[:ordered] - 1)
        last = float(self.places.first[ordered - 1] + self.places.width[ordered - 1] - 1)
        return centre / last if last else np.full(ordered, 0.5)


@dataclass(frozen=True, slots=True, eq=False)
class Draw:
    """A batch of rows before codes are picked.

    ``choices[d]`` holds the probabilities of column d, shape (batch, choices); ``values`` holds one column for each
    continuous head, shape (batch, n_continuous), in [0, 1]. Given its latent noise a row's columns are independent, so
    the expected feature of a row is made of these numbers exactly.
    """

    choices: list[Tensor]
    values: Tensor


class HeadLayout:
    """Where each column's outputs lie in the last layer: centres and spreads of values first, then probabilities."""

    def __init__(self, schema: Schema, label: str | None) -> None:
        modelled = [column for column in schema.modelled if column.name != label]
        self.heads = tuple(Head(column, places_of(column, grid=MOST_PLACES, atoms=MOST_PLACES)) for column in modelled)
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
            Standard normal; each continuous column has its own, besides the shared latent noise.
        """
        n = len(self.continuous)
        spread = torch.nn.functional.softplus(outputs[:, n : 2 * n])
        values = torch.sigmoid(outputs[:, :n] + spread * noise)
        logits = torch.split(outputs[:, 2 * n :], [size for size in self._chosen if size], dim=1)
        following = iter(logits)
        ones = outputs.new_ones((len(outputs), 1))
        choices = [torch.softmax(next(following), dim=1) if size else ones for size in self._chosen]
        return Draw(choices=choices, values=values)

    def codes(self, draw: Draw, random: np.random.Generator) -> NDArray[np.int64]:
        """Pick codes from a drawn batch, shape (batch, n_heads), int64."""
        n_rows = len(draw.values)
        codes = np.empty((n_rows, len(self.heads)), dtype=np.int64)
        values = dict(zip(self.continuous, draw.values.T.numpy(), strict=True))
        for d, head in enumerate(self.heads):
            uniforms = random.random((2, n_rows))
            picked = _inverse(draw.choices[d].numpy(), uniforms[0])
            if head.is_continuous:
                on_grid = np.rint(values[d] * (head.column.levels - 1)).astype(np.int64)
                atoms = (
                    head.places.codes(head.places.levels + np.maximum(picked - 1, 0), uniforms[1])
                    if head.places.atoms
                    else 0
                )
                codes[:, d] = np.where(picked == 0, on_grid, atoms)
            else:
                codes[:, d] = head.places.codes(picked, uniforms[1])
        return codes


def _inverse(probabilities: NDArray[np.float64], uniforms: NDArray[np.float64]) -> NDArray[np.int64]:
    cumulative = np.cumsum(probabilities, axis=1)
    picked = (uniforms[:, None] * cumulative[:, -1:] >= cumulative).sum(axis=1)
    return np.asarray(np.minimum(picked, probabilities.shape[1] - 1), dtype=np.int64)
