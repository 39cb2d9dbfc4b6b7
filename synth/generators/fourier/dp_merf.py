"""DP-MERF: one noisy mean embedding of random Fourier features trains a neural network (Harder 2021)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from synth.errors import InputError
from synth.generators.coarse_grid import stairs
from synth.generators.fourier import CARD
from synth.generators.neural import NeuralGenerator, Released
from synth.generators.protocol import Card
from synth.generators.row_network import ChoiceBlock, ClassBatch, Draw, OutputHead, OutputHeads, product
from synth.generators.stacked import column_weights
from synth.models.simplex import project_to_simplex
from synth.privacy.answers import AnswerSource
from synth.privacy.bins import Bins
from synth.privacy.feature_maps import Constant, FeatureMap, OneHot, Stack
from synth.privacy.more.fourier import STEPS_PER_TURN, Fourier, Positions, angle_steps
from synth.progress import Progress
from synth.system.costs import Work

__all__ = ["DpMerf", "FourierDistance", "gaussian_frequencies"]

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

    @property
    def steps(self) -> int:
        """Training steps."""
        return int(self._options.steps)

    @property
    def held(self) -> int:
        """About how many numbers a fit holds, besides the network's own."""
        features = self._features()
        return 3 * int(self._options.batch_size) * (0 if features is None else features.dimension)

    def ask(self, session: AnswerSource, progress: Progress) -> Released | None:
        """Release one mean embedding."""
        features = self._features()
        release = session.noisy_sum(
            self._by_class(features), share=session.remaining_share, query="mean embedding", source=self._source
        )
        total = max(session.rows.value, 1.0)
        answer = np.asarray(release.value, dtype=np.float64).reshape(-1, self.classes) / total
        self.probabilities = self._class_probabilities(answer, features)
        return None if features is None else (answer.T,)

    def distance(self, released: Released, batch: ClassBatch) -> FourierDistance:
        """Return the distance of batches from the released embedding."""
        features = self._features()
        if features is None:
            raise InputError("There is nothing to learn: the table has no column other than the label.")
        return FourierDistance(self._layout, features, released[0], batch, scale=_POSITIONS)

    def work(self, rows: int) -> Work:
        """Return what training computes: a wave has a product over columns, and is read or written some 12 times."""
        numbers = sum(head.column.levels > 0 for head in self._layout.heads)
        mixed = sum(head.column.levels > 0 and head.grid.atoms > 0 for head in self._layout.heads)
        network = self._work_of_network(steps=self._options.steps, operations=26.0 + 30.0 * mixed)
        waves = float(self._options.batch_size * self._options.features) if numbers else 0.0
        return replace(
            network,
            single=network.single + waves * (3 * numbers + 6 * self.classes),
            bytes=network.bytes + 11.5 * 4 * waves,
        )

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


_KEPT = 64
"""Most columns with choices whose waves are kept for the slopes; those of more are computed twice."""

_OF_ONE_PRODUCT = 32
"""Most plain values whose own waves are one matrix product, nearly all of whose entries are 0."""


class FourierDistance:
    r"""The squared distance of a batch's expected Fourier features and counts from those that were released.

    Given a row's latent noise its columns are independent, so the expected wave of several is a product over columns,
    :math:`\mathbb E\, e^{i \omega^\top x} = \prod_d \mathbb E\, e^{i \omega_d x_d}`.

    Parameters
    ----------
    layout : OutputHeads
    features : Stack
        Of the question: at most one Fourier map of several columns, those of single columns, counts, and a constant,
        about which a batch cannot be wrong.
    target : array of shape (..., classes, number of features)
        Released means.
    batch : ClassBatch
    scale : int
        A value of 1 is at this position of the Fourier maps.

    Notes
    -----
    Features are, in this order: cosines, then sines, of plain values; block by block the waves and counts of single
    columns of numbers with choices; the product of all numbers' waves, if one of them has choices; and the
    probabilities of categories.
    """

    def __init__(
        self,
        layout: OutputHeads,
        features: Stack,
        target: NDArray[np.float64],
        batch: ClassBatch,
        *,
        scale: int,
    ) -> None:
        asked = _Asked(layout, features, scale=scale)
        self._layout, self._batch, self._asked = layout, batch, asked
        several, classes = batch.weights.shape[:-2], len(batch.one_hot)

        def moved(array: NDArray[np.float64]) -> Tensor:
            return torch.from_numpy(np.ascontiguousarray(array)).to(batch.weights)

        self._angles = [
            (places, values, moved(matrix), moved(start[:, None])) for places, values, matrix, start in asked.sines()
        ]
        self._start = None if asked.start is None else moved(asked.start)
        self._keeps = sum(len(layout.blocks[place].heads) for place in asked.tables) <= _KEPT
        self._numbers = {
            place: _NumbersWithChoices(
                layout.blocks[place],
                *arrays,
                alone=asked.alone,
                together=asked.pairs,
                moved=moved,
                kept=batch.of_norm if self._keeps else None,
            )
            for place, arrays in asked.tables.items()
        }
        weights, squares, plain = asked.weights, asked.weights**2, asked.plain
        aims = target[..., asked.order] * (weights > 0)
        self._weights, self._target = moved(weights), moved(aims)

        self._only_plain = len(weights) == 2 * plain
        if self._only_plain:
            # The waves of a plain value have norm 1 whatever it is, and take their weights on the way back to it.
            back = [matrix.T * squares[places] for places, _, matrix in asked.angles]
            aims = -2.0 * aims / weights
        else:
            back = [matrix.T for _, _, matrix in asked.angles]
            aims = -2.0 * aims * weights
        self._back = [moved(matrix) for matrix in back]
        self._embedding = batch.weights.new_zeros((*several, 2 * classes, len(weights)))
        self._embedding[..., classes:, :] = moved(aims)
        self._squares = moved(squares)
        self._norm_slopes = moved(squares[2 * plain :, None]) * batch.of_norm[..., None, :]
        self._features = batch.weights.new_zeros((*several, len(weights), batch.size))
        self._slopes = torch.zeros_like(self._features)
        self._angle = batch.weights.new_zeros((*several, plain, batch.size))

    def slopes(self, draw: Draw, step: Tensor, slopes: Draw) -> None:
        """Write the slopes of the distance in all numbers of a draw."""
        batch, found, slope, plain = self._batch, self._features, self._slopes, self._asked.plain
        waves, factors = self._write_features(draw)

        embedding = self._embedding[..., : len(batch.one_hot), :]
        product(batch.weights, found.mT, out=embedding)
        if not self._only_plain:
            embedding.mul_(self._squares)
        product(self._embedding.mT, batch.of_slopes, out=slope)

        if plain:
            torch.mul(slope[..., plain : 2 * plain, :], found[..., :plain, :], out=self._angle)
            self._angle.addcmul_(slope[..., :plain, :], found[..., plain : 2 * plain, :], value=-1.0)
        if len(self._angles) == 1:
            product(self._back[0], self._angle, out=slopes.values[..., : self._layout.plain, :])
        else:
            slopes.values.zero_()
            for (places, values, _), back in zip(self._asked.angles, self._back, strict=True):
                slopes.values[..., values, :] += back @ self._angle[..., places, :]
        if not self._only_plain:
            slope[..., 2 * plain :, :].addcmul_(found[..., 2 * plain :, :], self._norm_slopes, value=-1.0)
            for place, rows in self._asked.categories.items():
                slopes.choices[place].copy_(slope[..., rows, :].view_as(slopes.choices[place]))
            self._write_slopes_of_choices(draw, waves, factors, slopes)

    def value(self, draw: Draw, step: Tensor) -> Tensor:
        """Return the distance of the draw whose slopes were taken last."""
        return self._batch.squared_distance(
            (self._batch.weights @ self._features.mT) * self._weights,
            (self._features * self._weights[:, None]).square().sum(dim=-2),
            self._target,
        )

    def _write_features(self, draw: Draw) -> tuple[list[list[Tensor | None]], list[_Waves]]:
        """Write the features, without weights; return products of waves before columns, and the blocks' waves.

        Of every block, the product before each of its columns, or before the first where few are kept; at the end, the
        product of all.
        """
        asked, found, plain = self._asked, self._features, self._asked.plain
        for places, values, matrix, quarter in self._angles:
            product(matrix, draw.values[..., values, :], out=found[..., places, :], plus=quarter)
        if plain:
            found[..., : 2 * plain, :].sin_()
        for place, rows in asked.categories.items():
            found[..., rows, :] = draw.choices[place].flatten(-3, -2)
        together: Tensor | None = None
        if self._start is not None:
            angle = self._start @ draw.values[..., : self._layout.plain, :]
            together = torch.complex(torch.cos(angle), torch.sin(angle))
        before: list[list[Tensor | None]] = []
        factors = []
        for place, numbers in self._numbers.items():
            waves = numbers.waves(draw, draw.choices[place])
            rows = asked.own[place]
            numbers.write_own(waves, torch.unflatten(found[..., rows, :], -2, (len(numbers.block.heads), -1)))
            products = [together]
            if asked.pairs:
                for factor, into in zip(waves.together.unbind(-3), waves.products.unbind(-3), strict=True):
                    together = factor if together is None else torch.mul(together, factor, out=into)
                    products.append(together)
            before.append(products if self._keeps else products[:1])
            if self._keeps:
                factors.append(waves)
        if together is not None:
            both = torch.unflatten(found[..., asked.together, :], -2, (2, -1))
            both.copy_(torch.view_as_real(together).movedim(-1, -3))
        return [*before, [together]], factors

    def _write_slopes_of_choices(
        self, draw: Draw, before: list[list[Tensor | None]], kept: list[_Waves], slopes: Draw
    ) -> None:
        slope, asked = self._slopes, self._asked
        conjugate: Tensor | None = None
        if asked.pairs:
            cosines, sines = torch.unflatten(slope[..., asked.together, :], -2, (2, -1)).unbind(-3)
            conjugate = torch.complex(cosines, -sines)
        for number, (place, numbers) in reversed(list(enumerate(self._numbers.items()))):
            waves = kept[number] if kept else numbers.waves(draw, draw.choices[place])
            own = torch.unflatten(slope[..., asked.own[place], :], -2, (len(numbers.block.heads), -1))
            if conjugate is not None:
                factors, products = waves.together.unbind(-3), before[number][: len(numbers.block.heads)]
                for factor in factors[len(products) - 1 : -1]:
                    last = products[-1]
                    products.append(factor if last is None else last * factor)
                for column, (factor, earlier) in reversed(list(enumerate(zip(factors, products, strict=True)))):
                    numbers.write_conjugate(waves, column, conjugate if earlier is None else conjugate * earlier)
                    conjugate = conjugate * factor
            numbers.backward(waves, own, draw.choices[place], slopes, place)
        if self._start is not None and conjugate is not None and before[0][0] is not None:
            of_angle = -(conjugate * before[0][0]).imag
            slopes.values[..., : self._layout.plain, :] += self._start.mT @ of_angle


@dataclass(frozen=True, slots=True, eq=False)
class _Waves:
    """The expected waves of a block of numbers with choices.

    Attributes
    ----------
    found : Tensor of shape (..., columns, 2 * waves + counts, rows)
        Cosines, then sines, first those of single columns; then counts.
    together : Tensor of shape (..., columns, waves of all numbers, rows)
        The others, complex.
    on_grid : tuple of Tensor of shape (..., columns, waves, rows)
        Cosines and sines of values; empty where there are none.
    products : Tensor of the shape of ``together``
        Room for the products of all numbers' waves up to each column.
    slopes : Tensor of the shape of ``found``
        Room for the slopes in it.
    """

    found: Tensor
    together: Tensor
    on_grid: tuple[Tensor, ...]
    products: Tensor
    slopes: Tensor


class _NumbersWithChoices:
    """Expected waves and counts of a block of numbers that have choices.

    A wave is a sum over choices: probabilities times the waves of their places, or where the choice is "on the grid"
    the wave of the value.

    Parameters
    ----------
    block : ChoiceBlock
    table : array of shape (columns, choices, 2 * waves + counts)
        Features of the choices' places; waves are 0 for "on the grid".
    radians : array of shape (columns, waves)
        Of a value of 1; used if the block has values.
    alone, together : int
        Waves of each column alone, and of all numbers.
    moved : callable
        Returns an array as a tensor on the device.
    kept : Tensor of shape (..., rows), optional
        If given, the waves of every draw take the place of those before, in tensors like it. The system takes as long
        to give and clear so much memory in each step as the step computes.
    """

    def __init__(
        self,
        block: ChoiceBlock,
        table: NDArray[np.float64],
        radians: NDArray[np.float64],
        *,
        alone: int,
        together: int,
        moved: Callable[[NDArray[np.float64]], Tensor],
        kept: Tensor | None,
    ) -> None:
        self.block, self._alone, self._together = block, alone, together
        self._features, self._radians = moved(table.swapaxes(1, 2)), moved(radians[:, :, None])
        self._minus_radians = -self._radians.mT
        # On the way back sines have the other sign, as in the conjugate.
        waves = alone + together
        self._back = moved(
            np.concatenate([table[..., :waves], -table[..., waves : 2 * waves], table[..., 2 * waves :]], axis=2)
        )
        self._room = None if kept is None else self._new_room(kept)

    def _new_room(self, like: Tensor) -> _Waves:
        def room(*shape: int, dtype: torch.dtype = like.dtype) -> Tensor:
            return like.new_empty((*like.shape[:-1], len(self.block.heads), *shape, like.shape[-1]), dtype=dtype)

        features, waves = self._features.shape[1], self._alone + self._together
        return _Waves(
            room(features),
            room(self._together, dtype=like.dtype.to_complex()),
            (room(waves), room(waves)) if self.block.kind == "value" else (),
            room(self._together, dtype=like.dtype.to_complex()),
            room(features),
        )

    def waves(self, draw: Draw, choices: Tensor) -> _Waves:
        """Return the expected waves of a draw."""
        alone, waves = self._alone, self._alone + self._together
        room = self._new_room(choices[..., 0, 0, :]) if self._room is None else self._room
        found = room.found
        product(self._features, choices.transpose(-3, -2), out=found)
        if self.block.kind == "value":
            cosines, sines = room.on_grid
            torch.mul(self._radians, draw.values[..., self.block.values, None, :], out=cosines)
            torch.sin(cosines, out=sines)
            cosines.cos_()
            for half, wave in enumerate(room.on_grid):
                found[..., half * waves : (half + 1) * waves, :].addcmul_(wave, choices[..., 0, :, None, :])
        torch.complex(found[..., alone:waves, :], found[..., waves + alone : 2 * waves, :], out=room.together)
        return room

    def write_own(self, waves: _Waves, features: Tensor) -> None:
        """Write the features of single columns, (..., columns, 2 * alone + counts, rows)."""
        for there, here in self._pieces():
            features[..., there, :] = waves.found[..., here, :]

    def write_conjugate(self, waves: _Waves, column: int, conjugate: Tensor) -> None:
        """Write the conjugate slopes in a column's factor, (..., waves of all numbers, rows), complex."""
        halves = torch.unflatten(waves.slopes[..., column, : 2 * (self._alone + self._together), :], -2, (2, -1))
        halves[..., self._alone :, :] = torch.view_as_real(conjugate).movedim(-1, -3)

    def backward(self, waves: _Waves, own: Tensor, choices: Tensor, slopes: Draw, place: int) -> None:
        """Write the slopes in a draw.

        Parameters
        ----------
        waves : _Waves
            With the slopes in the factors of the product, if there is one.
        own : Tensor of shape (..., columns, 2 * alone + counts, rows)
            Slopes in the features of single columns.
        choices : Tensor
        slopes : Draw
        place : int
            Of the block.
        """
        alone, count, of_waves = self._alone, self._alone + self._together, waves.slopes
        for there, here in self._pieces():
            of_waves[..., here, :] = own[..., there, :]
        of_waves[..., count : count + alone, :].neg_()
        product(self._back, of_waves, out=slopes.choices[place].transpose(-3, -2))
        if waves.on_grid:
            cosines, sines = waves.on_grid
            of_cosines, minus = of_waves[..., :count, :], of_waves[..., count : 2 * count, :]
            part = torch.mul(of_cosines, cosines, out=waves.found[..., :count, :]).addcmul_(minus, sines, value=-1.0)
            slopes.choices[place][..., 0, :, :] += part.sum(dim=-2)
            torch.mul(minus, cosines, out=part).addcmul_(of_cosines, sines)
            of_values = (self._minus_radians @ part)[..., 0, :]
            torch.mul(of_values, choices[..., 0, :, :], out=slopes.values[..., self.block.values, :])

    def _pieces(self) -> list[tuple[slice, slice]]:
        """Return which of a column's own features are which of its waves and counts."""
        alone, waves = self._alone, self._alone + self._together
        if not self._together:
            return [(slice(None), slice(None))]
        return [
            (slice(alone), slice(alone)),
            (slice(alone, 2 * alone), slice(waves, waves + alone)),
            (slice(2 * alone, None), slice(2 * waves, None)),
        ]


class _Asked:
    """What was asked, in the order of a distance's features.

    Attributes
    ----------
    order, weights : array of shape (features,)
        Place of every feature in the answer, and its weight; 0 for one that is there to fill up a block.
    plain : int
        Waves of plain values.
    angles : list of (slice of these, slice of values, array of radians of shape (waves, values))
    start : array of shape (waves, plain values), optional
        Radians of the plain values in the waves of all numbers, if others have choices.
    tables : dict of int to (array, array)
        Of every block of numbers: features of choices' places, and radians of a value.
    alone, pairs : int
        Waves of a column alone, and of all numbers where one of them has choices.
    own, categories : dict of int to slice
        Features of every block.
    together : slice
        Features of all numbers.
    """

    def __init__(self, layout: OutputHeads, features: Stack, *, scale: int) -> None:
        self._layout, self._scale = layout, scale
        starts = np.cumsum([0, *(part.dimension for part in features.parts)]).tolist()
        head_of = {head.column.name: d for d, head in enumerate(layout.heads)}
        self._waves: dict[tuple[int, ...], tuple[Fourier, float, int]] = {}
        self._counts: dict[int, tuple[float, int]] = {}
        for part, weight, start in zip(features.parts, features.weights, starts, strict=False):
            if isinstance(part, Fourier):
                columns = tuple(head_of[name] for name in part.columns)
                self._waves[columns] = part, weight * part.scale, start
            elif isinstance(part, OneHot):
                self._counts[head_of[part.columns[0]]] = weight, start
        self._values = {d: place for place, d in enumerate(layout.continuous[: layout.plain])}
        self._order: list[NDArray[np.int64]] = []
        self._each: list[NDArray[np.float64]] = []
        single = [part for columns, (part, _, _) in self._waves.items() if len(columns) == 1]
        joint = max(self._waves, key=len, default=())
        # A number with one choice has the wave 1.
        chosen = {d for block in layout.blocks for d in block.heads}
        is_mixed = len(joint) > 1 and bool(chosen & set(joint))

        self.alone = len(single[0].frequencies) if single else 0
        self.pairs = len(self._waves[joint][0].frequencies) if is_mixed else 0
        plain = [
            columns
            for columns in self._waves
            if any(d in self._values for d in columns) and not (is_mixed and columns == joint)
        ]
        plain.sort(key=lambda columns: (len(columns) == 1, self._values.get(columns[0], 0)))
        self.plain, self.angles = self._angles_of(plain)
        self.start = self._matrix(joint) if is_mixed and any(d in self._values for d in joint) else None

        self.tables: dict[int, tuple[NDArray[np.float64], NDArray[np.float64]]] = {}
        self.own: dict[int, slice] = {}
        for place, block in enumerate(layout.blocks):
            if block.kind != "category":
                self.tables[place], self.own[place] = self._of_numbers(block, joint)
        self.together = slice(0, 0)
        if is_mixed:
            _, weight, start = self._waves[joint]
            self.together = self._add(start + np.arange(2 * self.pairs), np.full(2 * self.pairs, weight))
        self.categories = {
            place: self._of_categories(block) for place, block in enumerate(layout.blocks) if block.kind == "category"
        }
        self.order = np.concatenate([np.zeros(0, dtype=np.int64), *self._order])
        self.weights = np.concatenate([np.zeros(0), *self._each])

    def _add(self, places: NDArray[np.int64], weights: NDArray[np.float64]) -> slice:
        first = sum(map(len, self._order))
        self._order.append(places)
        self._each.append(weights)
        return slice(first, first + len(places))

    def _radians(self, columns: tuple[int, ...], d: int) -> NDArray[np.float64]:
        frequencies = self._waves[columns][0].frequencies[:, columns.index(d)]
        return np.asarray(frequencies * (2 * math.pi / STEPS_PER_TURN))

    def _matrix(self, columns: tuple[int, ...]) -> NDArray[np.float64]:
        """Return the radians of plain values in the waves of some columns, shape (waves, plain values)."""
        made = np.zeros((len(self._waves[columns][0].frequencies), len(self._values)))
        for d in columns:
            if d in self._values:
                made[:, self._values[d]] = self._scale * self._radians(columns, d)
        return made

    def _angles_of(self, plain: list[tuple[int, ...]]) -> tuple[int, list[tuple[slice, slice, NDArray[np.float64]]]]:
        """Add cosines and sines of plain values; return how many waves, and the matrix products that make their angles.

        One product makes all of them or, where there are many values, those of a few at a time.
        """
        rows = [self._matrix(columns) for columns in plain]
        ends = np.cumsum([0, *map(len, rows)]).tolist()
        for half in range(2):
            for columns in plain:
                part, weight, start = self._waves[columns]
                pairs = len(part.frequencies)
                self._add(start + half * pairs + np.arange(pairs), np.full(pairs, weight))
        if len(self._values) <= _OF_ONE_PRODUCT:
            every = slice(0, len(self._values))
            return ends[-1], [(slice(0, ends[-1]), every, np.concatenate(rows))] if rows else []
        joint = sum(len(columns) > 1 for columns in plain)
        cuts = [0, *range(joint, len(plain), _OF_ONE_PRODUCT), len(plain)]
        products = []
        for first, last in pairwise(cuts):
            if first == last:
                continue
            values = [self._values[d] for columns in plain[first:last] for d in columns if d in self._values]
            where = slice(min(values), max(values) + 1)
            products.append((slice(ends[first], ends[last]), where, np.concatenate(rows[first:last])[:, where]))
        return ends[-1], products

    def _of_numbers(
        self, block: ChoiceBlock, joint: tuple[int, ...]
    ) -> tuple[tuple[NDArray[np.float64], NDArray[np.float64]], slice]:
        """Return the table of a block of numbers and the radians of its values, and add its own features."""
        every = [self._layout.heads[d] for d in block.heads]
        alone, count = self.alone, self.alone + self.pairs
        most = max((1 + head.grid.atoms for head in every if head.grid.atoms), default=0)
        table = np.zeros((len(every), block.size, 2 * count + most))
        turning = np.zeros((len(every), count))
        order = np.zeros((len(every), 2 * alone + most), dtype=np.int64)
        weights = np.zeros(order.shape)
        for column, (d, head) in enumerate(zip(block.heads, every, strict=True)):
            codes = head.grid.first[head.grid.levels if head.is_continuous else 0 :]
            choices = slice(head.choices - len(codes), head.choices)
            for columns, first, last in (((d,), 0, alone), (joint, alone, count)):
                if first == last:
                    continue
                part, weight, start = self._waves[columns]
                radians = self._radians(columns, d)
                turning[column, first:last] = self._scale * radians
                angles = part.positions[columns.index(d)][codes][:, None] * radians
                table[column, choices, first:last] = np.cos(angles)
                table[column, choices, count + first : count + last] = np.sin(angles)
                if not first:
                    order[column, : 2 * alone] = start + np.arange(2 * alone)
                    weights[column, : 2 * alone] = weight
            if head.grid.atoms:
                atoms, (weight, start) = head.grid.atoms, self._counts[d]
                table[column, : head.choices - atoms, 2 * count] = 1.0
                table[column, head.choices - atoms : head.choices, 2 * count + 1 : 2 * count + 1 + atoms] = np.eye(
                    atoms
                )
                order[column, 2 * alone : 2 * alone + 1 + atoms] = start + np.arange(1 + atoms)
                weights[column, 2 * alone : 2 * alone + 1 + atoms] = weight
        return (table, turning), self._add(order.ravel(), weights.ravel())

    def _of_categories(self, block: ChoiceBlock) -> slice:
        """Add the probabilities of a block of categories."""
        order = np.zeros((block.size, len(block.heads)), dtype=np.int64)
        weights = np.zeros(order.shape)
        for column, d in enumerate(block.heads):
            size, (weight, start) = self._layout.heads[d].choices, self._counts[d]
            order[:size, column] = start + np.arange(size)
            weights[:size, column] = weight
        return self._add(order.ravel(), weights.ravel())

    def sines(self) -> list[tuple[slice, slice, NDArray[np.float64], NDArray[np.float64]]]:
        """Return the products that make the angles of all plain features, and what is added to them.

        A cosine is the sine of a quarter turn more, so that one operation takes both.
        """
        halves = [
            (slice(first + places.start, first + places.stop), values, matrix, np.full(len(matrix), start))
            for places, values, matrix in self.angles
            for first, start in ((0, math.pi / 2), (self.plain, 0.0))
        ]
        if len(halves) != 2:
            return halves
        (_, values, matrix, first), (_, _, _, second) = halves
        return [(slice(0, 2 * self.plain), values, np.concatenate([matrix, matrix]), np.concatenate([first, second]))]
