"""DP-MERF: one noisy mean embedding of random Fourier features trains a neural network (Harder 2021)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from synth.generators.coarse_grid import stairs
from synth.generators.fourier import CARD
from synth.generators.neural import ClassBatch, Draw, NeuralGenerator, OutputHead, OutputHeads
from synth.generators.protocol import Card
from synth.generators.stacked import column_weights
from synth.models.simplex import project_to_simplex
from synth.privacy.answers import AnswerSource
from synth.privacy.bins import Bins
from synth.privacy.feature_maps import Constant, FeatureMap, OneHot, Stack
from synth.privacy.more.fourier import STEPS_PER_TURN, Fourier, Positions, angle_steps
from synth.progress import Progress

__all__ = ["DpMerf", "ExpectedFourier", "gaussian_frequencies"]

_POSITIONS = 255
"""A declared range is mapped to the integers 0 ... 255, so that the private pass computes angles exactly."""

LEAST_ALONE = 16
"""Fewest frequencies of each single number; more frequencies carry no more noise."""

COUNT_SHARE = 0.1
"""Part of the squared norm for counting the classes, if no category counts them."""


class DpMerf(NeuralGenerator):
    r"""Differentially private mean embeddings with random features (Harder 2021), corrected.

    One question: Fourier features of the numbers (Vinaroz 2022, eq. 4) and one-hot categories, each half of the squared
    norm, times the one-hot label (eq. 14). The network is trained to have the same embedding (eq. 3). Where a number
    has special values or missing cells these are counted like a category, and lie outside its range for the Fourier
    features.

    Notes
    -----
    Differs from the published code:

    - categories are one-hot with weight :math:`1/\sqrt{\text{number of categories}}`; the code feeds raw codes to a
      linear kernel, whose norm passes the bound that its noise is made for as soon as a code is above 1;
    - ranges, categories and length scale are declared; the code reads them from private rows;
    - class counts come from the same release (its one-hot part, or a constant feature if there are no categories).

    Differs from the paper:

    - half of the frequencies see one number only, and the width of the joint ones grows with the square root of the
      number of columns. The joint Gaussian kernel of ten numbers is nearly zero away from the rows, so a network that
      starts elsewhere gets no gradient (such a fit stalled on a forest-cover table);
    - the network has exact probabilities for categories and no batch statistics, and the distance is estimated without
      bias.
    """

    card: ClassVar[Card] = CARD

    def fit(self, session: AnswerSource, progress: Progress) -> Self:
        """Release one mean embedding and train the network on it."""
        _ = self.device  # refuses a missing device before anything is spent
        progress.phase("Measuring")
        features = self._features()
        release = session.noisy_sum(
            self._by_class(features), share=session.remaining_share, query="mean embedding", source=self._source
        )
        total = max(session.rows.value, 1.0)
        answer = np.asarray(release.value, dtype=np.float64).reshape(-1, self.classes) / total
        self._probabilities = self._class_probabilities(answer, features)
        if features is not None:
            self._fit_embedding(answer, features, progress)
        return self

    def _features(self) -> Stack | None:
        numbers = [head for head in self._layout.heads if head.column.levels]
        counted = [head for head in self._layout.heads if head.grid.atoms]
        parts: list[FeatureMap] = [_counts(head) for head in counted]
        weights = list(column_weights(tuple(head.column for head in counted)))
        if numbers:
            if not counted and self._label_places is not None:
                parts, weights = [Constant()], [1.0]
            share = (0.5 if counted else COUNT_SHARE) if parts else 0.0
            fourier, fourier_weights = self._fourier(numbers)
            parts = [*fourier, *parts]
            weights = [
                *(math.sqrt(1.0 - share) * weight for weight in fourier_weights),
                *(math.sqrt(share) * weight for weight in weights),
            ]
        return Stack(parts=tuple(parts), weights=tuple(weights)) if parts else None

    def _fourier(self, numbers: list[OutputHead]) -> tuple[list[FeatureMap], list[float]]:
        """Return features of all numbers together, then of each one, with weights whose squares add up to 1."""
        pairs = max(self._options.features // 2, 1)
        if len(numbers) == 1:
            return [self._waves(numbers, pairs, stream=0)], [1.0]
        alone = max(pairs // (2 * len(numbers)), LEAST_ALONE)
        importance = column_weights(tuple(head.column for head in numbers))
        parts: list[FeatureMap] = [self._waves(numbers, max(pairs // 2, 1), stream=0)]
        parts += [self._waves([head], alone, stream=d) for d, head in enumerate(numbers, start=1)]
        return parts, [math.sqrt(0.5), *(math.sqrt(0.5) * weight for weight in importance)]

    def _waves(self, numbers: list[OutputHead], pairs: int, *, stream: int) -> Fourier:
        length_scale = self._options.length_scale
        frequencies = gaussian_frequencies(
            pairs, len(numbers), length_scale=length_scale * math.sqrt(len(numbers)), seed=[self._task.seed, stream]
        ).numpy()
        return Fourier(
            columns=tuple(head.column.name for head in numbers),
            positions=tuple(_code_positions(head, length_scale) for head in numbers),
            frequencies=angle_steps(frequencies / _POSITIONS),
        )

    def _class_probabilities(self, answer: NDArray[np.float64], features: Stack | None) -> NDArray[np.float64]:
        """Average the class counts implied by every table of counts, weighted by inverse variance."""
        if self._label_places is None:
            return np.ones(1)
        if features is None:
            return project_to_simplex(answer[0])
        start, views, precisions = 0, [], []
        for part, weight in zip(features.parts, features.weights, strict=True):
            rows = answer[start : start + part.dimension]
            start += part.dimension
            if not isinstance(part, Fourier):
                views.append(rows.sum(axis=0) / weight)
                precisions.append(weight**2 / part.dimension)
        return project_to_simplex(np.average(np.stack(views), axis=0, weights=precisions))

    def _fit_embedding(self, answer: NDArray[np.float64], features: Stack, progress: Progress) -> None:
        device = torch.device(self.device)
        target = torch.from_numpy(answer.T.copy()).to(device, torch.float32)
        blocks = [self._expected(part, device) for part in features.parts]

        def loss_of(batch: ClassBatch, draw: Draw, step: int) -> Tensor:
            weighted = [weight * block(draw) for weight, block in zip(features.weights, blocks, strict=True)]
            rows = torch.cat(weighted, dim=1)
            return batch.squared_distance(batch.embedding(rows), rows.square().sum(dim=1), target)

        self._train(loss_of, steps=self._options.steps, progress=progress)

    def _expected(self, part: FeatureMap, device: torch.device) -> Callable[[Draw], Tensor]:
        if isinstance(part, Fourier):
            return ExpectedFourier(self._layout, part, scale=_POSITIONS, device=device)
        if isinstance(part, OneHot):
            return _ExpectedCounts(self._layout.heads, part.columns[0])
        return lambda draw: draw.values.new_ones((len(draw.values), 1))


def _counts(head: OutputHead) -> OneHot:
    """Count the levels of a category, or for a number the whole grid and every atom."""
    column, bins = head.column, head.grid.bins
    if column.levels:
        widths = np.append(column.levels, head.grid.width[head.grid.levels :])
        bins = Bins.of_runs(np.arange(1 + head.grid.atoms), widths)
    return OneHot(columns=(column.name,), bins=(bins,), sizes=(column.size,))


def _code_positions(head: OutputHead, length_scale: float) -> Positions:
    """Return the position of every code for the Fourier features, as an integer.

    Atoms lie three length scales apart below the range, so that a kernel separates them from numbers and each other.
    """
    grid = head.grid
    levels = head.column.levels
    places, widths = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    if levels:
        places, widths = stairs(lambda code: np.rint(_POSITIONS * (code / max(levels - 1, 1))).astype(int), levels)
    atoms = np.rint(_POSITIONS * (-3.0 * length_scale * (1.0 + np.arange(grid.atoms)))).astype(np.int64)
    return Positions.of_runs(np.append(places, atoms), np.append(widths, grid.width[grid.levels :]))


def gaussian_frequencies(
    n_frequencies: int, dimensions: int, *, length_scale: float, seed: int | Sequence[int]
) -> Tensor:
    r"""Draw the frequencies of a Gaussian kernel from a public seed.

    Parameters
    ----------
    n_frequencies : int
        Number of cosine and sine pairs, A/2 in the paper; at least 1.
    dimensions : int
        Number of columns, at least 1.
    length_scale : float
        Length scale l of :math:`\exp(-|x-y|^2 / (2 l^2))`, positive.
    seed : int or sequence of int
        Public; the frequencies do not depend on the rows.

    Returns
    -------
    Tensor of shape (n_frequencies, dimensions), float64
        Radians per unit of the data.
    """
    # numpy takes several numbers as one seed, so that neighbouring seeds and streams are unrelated.
    normal = np.random.default_rng(seed).standard_normal((n_frequencies, dimensions))
    return torch.from_numpy(normal / length_scale)


_Mixed = tuple[int, int, int | None, Tensor, Tensor]
"""A column with choices: its places among columns, heads and values, and the cosines and sines of its choices."""

_TOGETHER = 32
"""Columns whose products are kept for the gradient."""


class ExpectedFourier:
    r"""Expected Fourier features of several columns.

    Given a row's latent noise its columns are independent, so the expected wave is a product over columns,
    :math:`\mathbb E\, e^{i \omega^\top x} = \prod_d \mathbb E\, e^{i \omega_d x_d}`: probabilities times the waves of
    the levels, or the wave of a value.

    Parameters
    ----------
    layout : OutputHeads
    feature_map : Fourier
        As in the question; a value of 1 is at position ``scale``.
    scale : int
    device : torch.device
    """

    def __init__(self, layout: OutputHeads, feature_map: Fourier, *, scale: int, device: torch.device) -> None:
        radians = feature_map.frequencies * (2 * math.pi / STEPS_PER_TURN)
        head_of = {head.column.name: d for d, head in enumerate(layout.heads)}
        value_of = {d: k for k, d in enumerate(layout.continuous)}
        columns = [head_of[name] for name in feature_map.columns]
        self._scale = feature_map.scale
        self._radians = torch.tensor(scale * radians, dtype=torch.float32, device=device)
        plain = [j for j, d in enumerate(columns) if layout.heads[d].choices == 1 and d in value_of]
        self._of_plain = self._radians[:, plain].T
        self._plain_values = torch.tensor([value_of[columns[j]] for j in plain], dtype=torch.int64, device=device)
        self._mixed: list[_Mixed] = []
        for j, d in enumerate(columns):
            head = layout.heads[d]
            if j in plain:
                continue
            first = head.grid.first[head.grid.levels if head.is_continuous else 0 :]
            angles = feature_map.positions[j][first][:, None] * radians[:, j]
            cosines = torch.tensor(np.cos(angles), dtype=torch.float32, device=device)
            sines = torch.tensor(np.sin(angles), dtype=torch.float32, device=device)
            self._mixed.append((j, d, value_of.get(d), cosines, sines))

    def __call__(self, draw: Draw) -> Tensor:
        """Return the expected features, shape (batch, dimension of the map): all cosines, then all sines."""
        angles = draw.values[:, self._plain_values] @ self._of_plain
        real, imaginary = torch.cos(angles), torch.sin(angles)
        blocks = [self._mixed[start : start + _TOGETHER] for start in range(0, len(self._mixed), _TOGETHER)]
        for block in blocks:
            if len(blocks) == 1:
                real, imaginary = self._times(block, draw, real, imaginary)
            else:
                # The gradient needs the product before every factor: those inside a block are computed again for it.
                real, imaginary = checkpoint(
                    self._times, block, draw, real, imaginary, use_reentrant=False, preserve_rng_state=False
                )
        return self._scale * torch.cat([real, imaginary], dim=1)

    def _times(self, block: Sequence[_Mixed], draw: Draw, real: Tensor, imaginary: Tensor) -> tuple[Tensor, Tensor]:
        """Return a product of waves times the expected waves of some columns."""
        for j, d, value, cosines, sines in block:
            choices = draw.choices[d]
            if value is None:
                cosine, sine = choices @ cosines, choices @ sines
            else:
                own = draw.values[:, value, None] * self._radians[:, j]
                cosine = choices[:, :1] * torch.cos(own) + choices[:, 1:] @ cosines
                sine = choices[:, :1] * torch.sin(own) + choices[:, 1:] @ sines
            real, imaginary = real * cosine - imaginary * sine, real * sine + imaginary * cosine
        return real, imaginary


class _ExpectedCounts:
    """Probabilities in the order of a released table of counts."""

    def __init__(self, heads: Sequence[OutputHead], column: str) -> None:
        self._d = next(d for d, head in enumerate(heads) if head.column.name == column)
        # A short grid is counted as a whole, like the grid of a continuous head.
        self._merged = 0 if heads[self._d].is_continuous else heads[self._d].grid.levels

    def __call__(self, draw: Draw) -> Tensor:
        choices = draw.choices[self._d]
        if not self._merged:
            return choices
        return torch.cat([choices[:, : self._merged].sum(dim=1, keepdim=True), choices[:, self._merged :]], dim=1)
