"""KAHM at record level: moments of whole rows by class, a Gaussian for each class, and smoothing of what is drawn.

The questions, in order (``RecordQuestions``); everything between two of them is computed from answers alone:

1. one-way marginals of all columns (they also decide how a number is read, ``CalibratedColumn``);
2. in a table of many numbers, how long a row is on average, and the mean of all rows;
3. class sizes and class sums of rows about that mean;
4. products in pairs of rows about their class's mean, all classes together: the directions that stand above the noise;
5. the same by class, in those directions and those of the class means.

Each clip is the length that is expected from the answers so far, so little noise is needed; longer rows are shortened
to it.

Rows are drawn from the Gaussians and smoothed by kernel affine hull machines, class by class and block by block.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray

from synth.errors import ConfigError, InputError
from synth.generators.coarse_grid import LABEL_BINS, CoarseGrid, coarse_grid
from synth.generators.kahm import KahmOptions
from synth.generators.kahm.blocks import (
    MOST_CLASSES,
    FabricatedBlock,
    fabricated_blocks,
    facts_of_blocks,
    work_of_blocks,
)
from synth.generators.kahm.calibrated import CalibratedColumn
from synth.generators.one_way_marginals import OneWayMarginals, fine_grid, measure_one_way_marginals
from synth.generators.protocol import Fact, GeneratorTask, State, states_of_columns
from synth.generators.row_encoding import ColumnEncoding
from synth.generators.sampling import check_rows, random_source, rounded_counts
from synth.models.class_gaussians import ClassGaussians, leading_directions, shrunk_covariances, shrunk_spread
from synth.models.fabrication import in_blocks
from synth.privacy.answers import AnswerSource, NoisyAnswer
from synth.privacy.feature_maps import FeatureMap, OneHot
from synth.privacy.more.lookups import Lookup
from synth.privacy.more.products import Product
from synth.privacy.more.row_moments import RowMoments
from synth.progress import Progress
from synth.schema import ModelledColumn
from synth.system.costs import Work
from synth.system.machine import resolved_device, single_thread

__all__ = ["RecordMode", "RecordQuestions", "RowModel", "class_places", "is_classes"]

Vector = NDArray[np.float64]

MOST_COORDINATES = 2**12
"""Most coordinates of a row: several matrices of them and of the directions that are kept are in memory at once."""

MOST_CLASS_MEANS = 2**24
"""Most coordinates of the means of all classes together."""

_LEAST_DRAWN, _MOST_DRAWN = 1024, 8192
"""Rows that are drawn to learn how coordinates become categories and ranks: as many as the table has, within these."""

_MANY_NUMBERS = 32
"""With more numbers a table is treated as one signal."""

_MOST_DIRECTIONS = 60

_MOST_COORDINATES = 1536
"""Coordinates whose products are measured; if there are more, those that vary most by the one-way tables."""

_CLEAR_MEANS = 0.04
"""Target for the squared noise of the class means, in units of a row's expected squared length."""

_CLEAR_COLUMNS = 0.003
"""Target for the noise of a count in the one-way tables of a table with few numbers, as a fraction of the rows."""

_ROOM = 1.1
"""Clip of a sum of rows, in units of the root mean square length."""


@dataclass(frozen=True, slots=True, eq=False)
class RowModel:
    """The fitted model: how every column is read and drawn, and the Gaussians in the columns' coordinates."""

    columns: tuple[CalibratedColumn, ...]
    gaussians: ClassGaussians


class RecordMode:
    """Ask for moments of whole rows, keep a Gaussian for each class, draw rows and smooth them.

    Parameters
    ----------
    task : GeneratorTask
    options : KahmOptions
    """

    def __init__(self, task: GeneratorTask, options: KahmOptions) -> None:
        self._task, self._options = task, options
        self._columns = task.schema.modelled
        label = None if task.label is None else task.schema.names.index(task.label)
        self._label = label if label is not None and is_classes(self._columns[label]) else None
        self._require_room()
        self._model: RowModel | None = None
        self.blocks: tuple[FabricatedBlock, ...] = ()

    def _require_room(self) -> None:
        """Refuse more coordinates than fit into memory as matrices; this follows from the schema alone."""
        width = sum(ColumnEncoding(column, 0).width for d, column in enumerate(self._columns) if d != self._label)
        classes = 1 if self._label is None else self._columns[self._label].size
        if width > MOST_COORDINATES or width * classes > MOST_CLASS_MEANS:
            by_class = f" in each of {classes:,} classes" if classes > 1 else ""
            raise ConfigError(
                f"For the generator kahm these columns are {width:,} coordinates{by_class} (one for each number, and "
                f"one for each category). At most {MOST_COORDINATES:,} are allowed, and {MOST_CLASS_MEANS:,} in all "
                "classes together. Declare fewer categories, leave columns out, or choose another generator."
            )

    @property
    def device(self) -> str:
        """The device that computes the machines, "cpu" or "cuda"."""
        return resolved_device(self._task.device)

    def work(self, rows: int) -> Work:
        """Return what smoothing the draws computes that columns are calibrated with; rows are drawn later."""
        width = sum(ColumnEncoding(column, 0).width for d, column in enumerate(self._columns) if d != self._label)
        return work_of_blocks(min(max(rows, _LEAST_DRAWN), _MOST_DRAWN), width, self._options)

    def fit(self, session: AnswerSource, progress: Progress) -> Self:
        """Ask for the moments of rows, and learn from draws how vectors become codes."""
        _ = self.device  # refuses a missing one before anything is spent
        progress.phase("Measuring")
        with single_thread():
            asked = RecordQuestions(session, self._columns, label=self._label, source="generator kahm").ask()
        progress.phase("Fitting")
        progress.check_cancelled()
        self._model = self._calibrated(asked, round(session.rows.value))
        return self

    def sample(self, n_rows: int, seed: int) -> NDArray[np.int64]:
        """Draw classes by controlled rounding, vectors from their Gaussians, and smooth them block by block."""
        check_rows(n_rows)
        model = self._fitted()
        random = random_source(seed)
        weights = model.gaussians.weights
        classes = np.repeat(np.arange(len(weights)), rounded_counts(weights, n_rows, random))
        vectors, self.blocks = self._drawn(model.gaussians, classes, random, seed)
        codes = np.empty((n_rows, len(self._columns)), dtype=np.int64)
        others = [d for d in range(len(self._columns)) if d != self._label]
        for d, layout in zip(others, model.columns, strict=True):
            codes[:, d] = layout.decode(vectors, classes, random)
        if self._label is not None:
            codes[:, self._label] = class_places(self._columns[self._label]).codes(classes, random.random(n_rows))
        return codes[random.permutation(n_rows)]

    def facts(self) -> tuple[Fact, ...]:
        """Return what the mode promises, and what its machines did to the rows that were drawn last."""
        return facts_of_blocks(self._options, self.blocks)

    def state(self) -> State:
        """Return the classes' Gaussians and the columns' layout."""
        model = self._fitted()
        columns = {
            f"column.{place}.{name}": array
            for place, column in enumerate(model.columns)
            for name, array in column.state().items()
        }
        return {**columns, **{f"model.{name}": array for name, array in model.gaussians.state().items()}}

    @classmethod
    def from_state(cls, task: GeneratorTask, options: KahmOptions, state: State) -> Self:
        """Rebuild a fitted generator; sampling from it gives the same bytes as before."""
        generator = cls(task, options)
        columns: list[CalibratedColumn] = []
        start = 0
        others = [column for d, column in enumerate(generator._columns) if d != generator._label]
        for column, own in zip(others, states_of_columns(state, len(others)), strict=True):
            columns.append(CalibratedColumn.from_state(column, start, fine_grid(column), own))
            start += columns[-1].base.width
        model = {name.removeprefix("model."): one for name, one in state.items() if name.startswith("model.")}
        generator._model = RowModel(tuple(columns), ClassGaussians.from_state(model))
        return generator

    def _fitted(self) -> RowModel:
        if self._model is None:
            raise InputError("This generator has not been fitted yet.")
        return self._model

    def _calibrated(self, asked: RowModel, rows: int) -> RowModel:
        """Learn, from draws with a public seed, how coordinates become categories and ranks."""
        if not any(column.is_calibrated_by_draws for column in asked.columns):
            return asked
        gaussians = asked.gaussians
        k = len(gaussians.weights)
        drawn_rows = min(max(rows, _LEAST_DRAWN), _MOST_DRAWN)
        classes = np.repeat(np.arange(k), max(drawn_rows // k, 64))
        drawn, _ = self._drawn(gaussians, classes, random_source(self._task.seed), self._task.seed)
        columns = tuple(
            column.calibrated(drawn, classes, gaussians.weights, gaussians.means) for column in asked.columns
        )
        return RowModel(columns, gaussians)

    def _drawn(
        self, gaussians: ClassGaussians, classes: NDArray[np.int64], random: np.random.Generator, seed: int
    ) -> tuple[NDArray[np.float64], tuple[FabricatedBlock, ...]]:
        """Draw vectors and smooth them within their class, in random blocks; return them and the blocks' reports."""
        vectors = gaussians.draw(classes, random)
        if not self._options.steps or not vectors.shape[1]:
            return vectors, ()
        source = torch.Generator().manual_seed(seed)
        blocks = [
            (place, rows[block.numpy()])
            for place in range(len(gaussians.weights))
            for rows in [np.flatnonzero(classes == place)]
            for block in in_blocks(len(rows), block=self._options.block, generator=source)
        ]
        reports = []
        with single_thread():
            made = fabricated_blocks(vectors, blocks, self._options, device=self.device)
            for (_, chosen), (rows, one) in zip(blocks, made, strict=True):
                vectors[chosen] = rows
                reports.append(one)
        return vectors, tuple(reports)


def class_places(column: ModelledColumn) -> CoarseGrid:
    """Return the classes of a label: codes of a category, equal parts of a number's or date's declared range."""
    return coarse_grid(column, grid=LABEL_BINS, atoms=max(column.size, 1))


def is_classes(column: ModelledColumn) -> bool:
    """Return whether a label has few enough classes to measure moments by class; if not, it is an ordinary column."""
    return class_places(column).size <= MOST_CLASSES


@dataclass(frozen=True, slots=True)
class _Shares:
    columns: float
    length: float
    centre: float
    classes: float
    pairs: float


class RecordQuestions:
    """Ask a session for the moments of rows by class.

    Parameters
    ----------
    session : AnswerSource
    columns : tuple of ModelledColumn
        All modelled columns, the label among them.
    label : int, optional
        Place of the label among the columns.
    source : str
        Name of the asker, for receipts.
    """

    def __init__(
        self, session: AnswerSource, columns: tuple[ModelledColumn, ...], *, label: int | None, source: str
    ) -> None:
        self._session, self._columns, self._label, self._source = session, columns, label, source
        self._others = [d for d in range(len(columns)) if d != label]
        self._classes: OneHot | None = None
        if label is not None:
            column = columns[label]
            self._classes = OneHot((column.name,), (class_places(column).bins,), (column.size,))
        self._rows = max(session.rows.value, 1.0)
        self._tables: tuple[Lookup, ...] = ()

    @property
    def _n_classes(self) -> int:
        return 1 if self._classes is None else self._classes.dimension

    def ask(self) -> RowModel:
        """Ask all questions; this spends the whole session."""
        signal = sum(bool(self._columns[d].levels) for d in self._others) > _MANY_NUMBERS
        if not self._others:
            return self._label_alone()
        shares = self._shares(signal)
        one_ways = self._one_ways(shares.columns)
        layouts, start = [], 0
        for d in self._others:
            layouts.append(CalibratedColumn.of(one_ways.columns[d], start, ranked=not signal))
            start += layouts[-1].base.width
        self._tables = tuple(layout.table for layout in layouts)
        centre, variances = (np.concatenate(parts) for parts in zip(*(one.moments for one in layouts), strict=True))
        spread = float(variances.sum())
        if signal:
            centre, spread = self._centre(shares)
        spread = max(spread, 1e-3)
        weights, means, spread = self._class_means(shares, centre, spread)
        return RowModel(tuple(layouts), self._gaussians(shares, weights, means, variances, spread))

    def _shares(self, signal: bool) -> _Shares:
        """Divide the budget, based on the numbers of rows, coordinates and classes and the budget alone.

        What is hardest to measure gets more: one-way tables with few columns, class means with few rows.
        """
        mu = math.sqrt(self._session.budget.mu_squared)
        width = sum(ColumnEncoding(self._columns[d], 0).width for d in self._others)
        columns = 0.02
        if not signal:
            wanted = 2 * len(self._columns) / (mu * _CLEAR_COLUMNS * self._rows) ** 2
            columns = min(max(wanted, 0.05), 0.25)
        length, centre = (0.01, 0.04) if signal else (0.0, 0.0)
        left = 1.0 - columns - length - centre
        classes = 0.0
        if self._classes is not None:
            noise = width * (2 * self._n_classes / (mu * self._rows)) ** 2
            classes = left * min(max(noise / _CLEAR_MEANS, 0.2), 0.85)
        return _Shares(columns, length, centre, classes, (left - classes) / 2)

    def _one_ways(self, share: float) -> OneWayMarginals:
        return measure_one_way_marginals(
            self._session,
            self._columns,
            label=None if self._label is None else self._columns[self._label].name,
            share=share,
            source=self._source,
        )

    def _label_alone(self) -> RowModel:
        one_ways = self._one_ways(self._session.remaining_share)
        counts = one_ways.columns[self._label or 0].proportions
        weights = counts if len(counts) == self._n_classes else np.full(self._n_classes, 1 / self._n_classes)
        nothing = np.zeros((self._n_classes, 0))
        empty = ClassGaussians(weights, nothing, np.zeros((0, 0)), np.zeros((self._n_classes, 0, 0)), np.zeros(0))
        return RowModel((), empty)

    def _centre(self, shares: _Shares) -> tuple[Vector, float]:
        """Measure the length of rows, then their mean; return the mean and the mean squared distance from it."""
        lengths = tuple(Lookup(one.column, (one.table**2).sum(axis=1)[:, None], one.bins) for one in self._tables)
        d = len(lengths)
        # The mean of d numbers from 0 to 1, moved to the middle of its range.
        question = RowMoments(lengths, d / 2, (0.0, 1.0, 0.0), np.full(d, 0.5), projection=np.ones((d, 1)))
        answer = self._sum(question, shares.length, "lengths of rows")
        mean_square = (float(answer.value[0]) * d / 2) / self._rows + d / 2
        mean_square = min(max(mean_square, 0.01 * d), float(d))
        clip = _ROOM * math.sqrt(mean_square)
        answer = self._sum(RowMoments(self._tables, clip, (0.0, 1.0, 0.0)), shares.centre, "sum of rows")
        mean = np.asarray(answer.value) * clip / self._rows
        noise = len(mean) * (answer.noise_std * clip / self._rows) ** 2
        length = float((mean**2).sum())
        kept = max(0.0, 1.0 - noise / max(length, 1e-12))
        true = min(max(length - noise, 0.0), 0.95 * mean_square)
        # Rows are centred at kept * mean: its distance from the true mean adds to the distance of the rows.
        return kept * mean, mean_square - true + (1.0 - kept) ** 2 * true + kept**2 * noise

    def _class_means(self, shares: _Shares, centre: Vector, spread: float) -> tuple[Vector, Vector, float]:
        """Measure class sizes and sums; return class weights, means and the mean squared distance from them."""
        if self._classes is None:
            return np.ones(1), centre[None, :], spread
        clip, k = _ROOM * math.sqrt(spread), self._n_classes
        half = math.sqrt(0.5)
        moments = RowMoments(self._tables, clip, (half, half, 0.0), np.clip(centre, -2, 2))
        answer = self._sum(Product((self._classes, moments)), shares.classes, "class sizes and sums")
        noisy = np.asarray(answer.value).reshape(k, -1) / moments.factors
        noise = answer.noise_std / moments.factors[1]
        # A class of less than a twentieth of an even share would turn its noise into a mean.
        sizes = np.maximum(noisy[:, 0], self._rows / (20 * k))
        weights = sizes / sizes.sum()
        differences = shrunk_spread(noisy[:, 1:], noise) * clip / (weights * self._rows)[:, None]
        explained = float(weights @ (differences**2).sum(axis=1))
        return weights, centre + differences, max(spread - explained, 0.1 * spread)

    def _gaussians(
        self, shares: _Shares, weights: Vector, means: Vector, variances: Vector, spread: float
    ) -> ClassGaussians:
        """Measure pairs of coordinates, all classes together, then by class in the directions that matter."""
        p = means.shape[1]
        kept = np.sort(np.argsort(-variances, kind="stable")[:_MOST_COORDINATES])
        clip = math.sqrt(spread * (1.0 if len(kept) == p else float(variances[kept].sum() / variances.sum())))
        offsets = np.clip(means, -2, 2)
        chosen = None
        if len(kept) < p:
            chosen = np.zeros((p, len(kept)))
            chosen[kept, np.arange(len(kept))] = 1.0
        question = RowMoments(self._tables, clip, (0.0, 0.0, 1.0), offsets, self._classes, projection=chosen)
        share = shares.pairs
        answer = self._sum(question, share, "pairs of coordinates")
        scatter, noise = _symmetric(answer, question, clip**2 / self._rows)
        leading, along = leading_directions(scatter, noise, most=_MOST_DIRECTIONS)
        trace = float(np.trace(scatter))
        # The clip shortens long rows: the squared length that they lose is given back to every direction.
        stretch = 1.0
        if trace > 3 * noise * math.sqrt(2 * len(kept)):
            stretch = min(max(clip**2 / max(trace, clip**2 / 3), 1.0), 3.0)
        inside = np.maximum(along * stretch, 1e-6 * spread)
        inside *= min(1.0, 0.98 * clip**2 / float(inside.sum()))
        directions = np.zeros((p, len(inside)))
        directions[kept] = leading
        left = variances.copy()
        own = np.diag(scatter) * stretch - (leading**2 * inside).sum(axis=1)
        left[kept] = _residual_variances(own, noise * stretch, least=1e-6 * float(inside.sum()) / p)
        residual = np.sqrt(left)
        directions, common = _with_means(directions, inside, means, weights, residual)
        clip = math.sqrt(float(common.sum()))
        question = RowMoments(self._tables, clip, (0.0, 0.0, 1.0), offsets, self._classes, projection=directions)
        by_class: FeatureMap = question if self._classes is None else Product((self._classes, question))
        answer = self._sum(by_class, self._session.remaining_share, "pairs of directions by class")
        matrices, noises = _by_class(answer, question, clip**2 / (weights * self._rows))
        total = float(np.trace((weights[:, None, None] * matrices).sum(axis=0)))
        stretch = min(max(clip**2 / max(total, 1e-12), 1.0), 2.0)
        floor = 0.5 * max(min(float(np.mean(residual**2)), float(common.min())), 1e-9)
        factors = shrunk_covariances(stretch * matrices, stretch * noises, np.diag(common), floor)
        return ClassGaussians(weights, means, directions, factors, residual)

    def _sum(self, question: FeatureMap, share: float, query: str) -> NoisyAnswer:
        return self._session.noisy_sum(question, share=share, query=query, source=self._source)


def _residual_variances(own: Vector, noise_std: float, *, least: float) -> Vector:
    """Shrink the variances that directions leave in each coordinate towards their mean, by what noise explains.

    On the diagonal the variance of the noise is twice as large.
    """
    mean = max(float(own.mean()), least)
    apart = float(((own - mean) ** 2).sum())
    seen = max(0.0, 1.0 - len(own) * 2 * noise_std**2 / max(apart, 1e-300))
    return np.maximum(mean + seen * (own - mean), 0.05 * mean)


def _with_means(
    directions: Vector, inside: Vector, means: Vector, weights: Vector, residual: Vector
) -> tuple[Vector, Vector]:
    """Add the directions in which class means differ; return all directions and the common variance along each."""
    differences = (means - weights @ means) * np.sqrt(weights)[:, None]
    differences = differences - (differences @ directions) @ directions.T
    _, lengths, rows = np.linalg.svd(differences, full_matrices=False)
    room = len(directions) - directions.shape[1]
    apart = int(min((lengths > 1e-6 * max(float(np.abs(means).max()), 1e-12)).sum(), len(means) - 1, room))
    new = rows[:apart].T
    common = np.concatenate([inside, (new**2 * (residual**2)[:, None]).sum(axis=0)])
    # Orthonormal to the last digit, so that drawing adds nothing twice.
    return np.linalg.qr(np.concatenate([directions, new], axis=1))[0], common


def _symmetric(answer: NoisyAnswer, question: RowMoments, scale: float) -> tuple[Vector, float]:
    """Return the matrix behind an answer of products, and the noise of its entries off the diagonal."""
    matrices, noises = _by_class(answer, question, np.array([scale]))
    return matrices[0], float(noises[0])


def _by_class(answer: NoisyAnswer, question: RowMoments, scales: Vector) -> tuple[Vector, Vector]:
    n = question.length
    upper = np.asarray(answer.value, dtype=np.float64).reshape(len(scales), -1) / question.factors * scales[:, None]
    rows, columns = np.triu_indices(n)
    matrices = np.zeros((len(scales), n, n))
    matrices[:, rows, columns] = upper
    matrices[:, columns, rows] = upper
    off_diagonal = question.factors[1] if n > 1 else question.factors[0]
    return matrices, answer.noise_std / off_diagonal * scales
