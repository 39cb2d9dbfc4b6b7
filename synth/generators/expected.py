"""Expected features of drawn rows: exact in the probabilities, differentiable in the values."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from synth.generators.heads import Draw, HeadLayout
from synth.privacy.features import STEPS_PER_TURN, Fourier

__all__ = ["ExpectedFourier", "ExpectedTables"]


class ExpectedTables:
    """Expected rows of one lookup table for every column.

    Between two places of a long grid the table is interpolated, so a value has a gradient and a value on a place has
    the very features that the private rows were summed with.

    Parameters
    ----------
    layout : HeadLayout
    tables : sequence of arrays of shape (places of column d, width of column d), float64
    device : torch.device
    """

    def __init__(self, layout: HeadLayout, tables: Sequence[NDArray[np.float64]], device: torch.device) -> None:
        self._heads = layout.heads
        self._value_of = {d: k for k, d in enumerate(layout.continuous)}
        self._tables = [torch.tensor(table, dtype=torch.float32, device=device) for table in tables]

    def __call__(self, draw: Draw) -> list[Tensor]:
        """Return the expected features of every column, each of shape (batch, width of column d)."""
        return [self.column(d, draw) for d in range(len(self._heads))]

    def column(self, d: int, draw: Draw) -> Tensor:
        """Return the expected features of one column, shape (batch, width of column d)."""
        choices, table = draw.choices[d], self._tables[d]
        if d not in self._value_of:
            return choices @ table
        levels = self._heads[d].places.levels
        place = draw.values[:, self._value_of[d]] * (levels - 1)
        below = place.detach().floor().clamp(0, levels - 2)
        low, high = table[below.long()], table[below.long() + 1]
        on_grid = torch.lerp(low, high, (place - below)[:, None])
        if choices.shape[1] == 1:
            return on_grid
        return choices[:, :1] * on_grid + choices[:, 1:] @ table[levels:]


class ExpectedFourier:
    r"""Expected Fourier features of several columns.

    Given a row's latent noise its columns are independent, so the expected wave is a product over columns,
    :math:`\mathbb E\, e^{i \omega^\top x} = \prod_d \mathbb E\, e^{i \omega_d x_d}`: probabilities times the waves of
    the places, or the wave of a value.

    Parameters
    ----------
    layout : HeadLayout
    feature_map : Fourier
        As the session was asked; position ``scale`` is where a value of 1 lies.
    scale : int
    device : torch.device
    """

    def __init__(self, layout: HeadLayout, feature_map: Fourier, *, scale: int, device: torch.device) -> None:
        radians = feature_map.frequencies * (2 * math.pi / STEPS_PER_TURN)
        head_of = {head.column.name: d for d, head in enumerate(layout.heads)}
        value_of = {d: k for k, d in enumerate(layout.continuous)}
        columns = [head_of[name] for name in feature_map.columns]
        self._scale = feature_map.scale
        self._radians = torch.tensor(scale * radians, dtype=torch.float32, device=device)
        self._plain = [j for j, d in enumerate(columns) if layout.heads[d].choices == 1]
        self._plain_values = [value_of[columns[j]] for j in self._plain]
        self._mixed: list[tuple[int, int, int | None, Tensor, Tensor]] = []
        for j, d in enumerate(columns):
            head = layout.heads[d]
            if head.choices == 1:
                continue
            first = head.places.first[head.places.levels if head.is_continuous else 0 :]
            angles = feature_map.positions[j][first][:, None] * radians[:, j]
            cosines = torch.tensor(np.cos(angles), dtype=torch.float32, device=device)
            sines = torch.tensor(np.sin(angles), dtype=torch.float32, device=device)
            self._mixed.append((j, d, value_of.get(d), cosines, sines))

    def __call__(self, draw: Draw) -> Tensor:
        """Return the expected features, shape (batch, dimension of the map): all cosines, then all sines."""
        angles = draw.values[:, self._plain_values] @ self._radians[:, self._plain].T
        real, imaginary = torch.cos(angles), torch.sin(angles)
        for j, d, value, cosines, sines in self._mixed:
            choices = draw.choices[d]
            if value is None:
                cosine, sine = choices @ cosines, choices @ sines
            else:
                own = draw.values[:, value, None] * self._radians[:, j]
                cosine = choices[:, :1] * torch.cos(own) + choices[:, 1:] @ cosines
                sine = choices[:, :1] * torch.sin(own) + choices[:, 1:] @ sines
            real, imaginary = real * cosine - imaginary * sine, real * sine + imaginary * cosine
        return self._scale * torch.cat([real, imaginary], dim=1)
