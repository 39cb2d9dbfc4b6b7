"""KAHM as a generator: moments of whole rows, Gaussian classes, and kernel affine hull machines that smooth rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from synth.errors import ConfigError, InputError
from synth.generators.fine_places import OneWayOptions, fine_places
from synth.generators.kahm_modes import PAPER_REFUSAL
from synth.generators.kahm_record import Measured, RecordQuestions, class_places, is_classes
from synth.generators.options import check_between
from synth.generators.protocol import GeneratorTask
from synth.generators.row_layout import ColumnLayout
from synth.generators.sampling import check_rows, random_source, rounded_counts
from synth.kernels.fabrication import fabricate, in_blocks
from synth.models.class_gaussians import ClassGaussians
from synth.models.threads import single_thread
from synth.privacy.session import AnswerSource
from synth.progress import Progress

__all__ = ["Kahm", "KahmOptions"]

_LEAST_DRAWN, _MOST_DRAWN = 1024, 8192
"""Rows that are drawn to learn how coordinates become categories and ranks: as many as the table has, within these."""


@dataclass(frozen=True, slots=True)
class KahmOptions:
    """Options of the KAHM generator."""

    mode: Literal["record", "paper"] = "record"
    """What is protected: record (one person's whole row), or paper (as published; refused: it protects nobody)."""

    n: int = 20
    """Dimension of the subspace in which kernel affine hull machines compare rows."""

    steps: int = 2
    """Machines built one after another to smooth drawn rows; a public number. 0 leaves drawn rows as they are."""

    block: int = 1000
    """Most rows that one machine is built from; blocks are random."""

    def __post_init__(self) -> None:
        check_between("n", self.n, 1, 1000)
        check_between("steps", self.steps, 0, 50)
        check_between("block", self.block, 10, 5000)
        if self.mode == "paper":
            raise ConfigError(PAPER_REFUSAL)


class Kahm:
    """Rows drawn from noisy moments by class and smoothed by kernel affine hull machines (Kumar 2024, adapted).

    The session is asked for sums and products of whole rows by class (``kahm_record``); each class becomes a Gaussian
    in the directions that stand above the noise. Drawn rows are cut into random blocks within their class and smoothed
    by machines built from these rows alone, in a public number of steps.

    Notes
    -----
    Differs from the paper, which adds noise to every cell and builds its machines from the noisy rows: its promise is
    for one cell, at the same epsilon, and its stopping rule reads the private rows. Here noise is added to sums over
    all rows, and one person's whole row is hidden, label included.
    """

    name: ClassVar[str] = "kahm"
    title: ClassVar[str] = "KAHM (kernel affine hull machines)"
    summary: ClassVar[str] = (
        "Noisy means and directions of whole rows by class; rows drawn from them, smoothed by kernel affine hulls."
    )
    best_for: ClassVar[str] = (
        "Many numbers that belong together (pixels, spectra, embeddings) with a class to predict; 500 rows and more a "
        "class. (epsilon, delta) differential privacy for one person's whole row, labels included. Our adaptation; "
        "not the paper's algorithm."
    )
    loses_where: ClassVar[str] = (
        "Tables of categories and counts: every class is one cloud, so which values go together within a class is told "
        "by correlations alone; choose dp-hp-adaptive from three categorical columns on. Small classes; many classes."
    )
    reference: ClassVar[str] = "Kumar 2024 (machines and smoothing); the private moments are ours."
    Options: ClassVar[type[KahmOptions]] = KahmOptions
    measures_one_ways: ClassVar[bool] = True

    def __init__(self, task: GeneratorTask, options: KahmOptions) -> None:
        self._task, self._options = task, options
        self._columns = task.schema.modelled
        label = None if task.label is None else task.schema.names.index(task.label)
        self._label = label if label is not None and is_classes(self._columns[label]) else None
        self._measured: Measured | None = None

    def fit(self, session: AnswerSource, progress: Progress) -> Self:
        """Ask for the moments of rows and learn how drawn vectors become codes."""
        progress.phase("Measuring")
        with single_thread():
            asked = RecordQuestions(session, self._columns, label=self._label, source=f"generator {self.name}").ask()
            progress.phase("Fitting")
            progress.check_cancelled()
            self._measured = self._calibrated(asked, round(session.rows.value))
        return self

    def sample(self, n_rows: int, seed: int) -> Tensor:
        """Draw classes by controlled rounding, vectors from their Gaussians, and smooth them block by block."""
        check_rows(n_rows)
        measured = self._require_fitted()
        random = random_source(seed)
        classes = np.repeat(
            np.arange(len(measured.model.weights)), rounded_counts(measured.model.weights, n_rows, random)
        )
        vectors = self._drawn(measured.model, classes, random, seed)
        codes = np.empty((n_rows, len(self._columns)), dtype=np.int64)
        others = [d for d in range(len(self._columns)) if d != self._label]
        for d, layout in zip(others, measured.layouts, strict=True):
            codes[:, d] = layout.decode(vectors, classes, random)
        if self._label is not None:
            codes[:, self._label] = class_places(self._columns[self._label]).codes(classes, random.random(n_rows))
        return torch.from_numpy(codes[random.permutation(n_rows)])

    def state(self) -> Mapping[str, Tensor]:
        """Return the classes' Gaussians and the columns' layout."""
        measured = self._require_fitted()
        columns = {
            f"column.{place}.{name}": tensor
            for place, layout in enumerate(measured.layouts)
            for name, tensor in layout.state().items()
        }
        return {**columns, **{f"model.{name}": tensor for name, tensor in measured.model.state().items()}}

    @classmethod
    def from_state(cls, task: GeneratorTask, options: KahmOptions, state: Mapping[str, Tensor]) -> Self:
        """Rebuild a fitted generator; sampling from it gives the same bytes as before."""
        generator = cls(task, options)
        layouts: list[ColumnLayout] = []
        start = 0
        others = [column for d, column in enumerate(generator._columns) if d != generator._label]
        for place, column in enumerate(others):
            prefix = f"column.{place}."
            own = {name.removeprefix(prefix): one for name, one in state.items() if name.startswith(prefix)}
            layouts.append(ColumnLayout.from_state(column, start, fine_places(column, OneWayOptions()), own))
            start += layouts[-1].base.width
        model = {name.removeprefix("model."): one for name, one in state.items() if name.startswith("model.")}
        generator._measured = Measured(tuple(layouts), ClassGaussians.from_state(model))
        return generator

    def _require_fitted(self) -> Measured:
        if self._measured is None:
            raise InputError("This generator has not been fitted yet.")
        return self._measured

    def _calibrated(self, asked: Measured, rows: int) -> Measured:
        """Learn, from draws with a public seed, how coordinates become categories and ranks."""
        if not any(layout.is_calibrated_by_draws for layout in asked.layouts):
            return asked
        k = len(asked.model.weights)
        drawn_rows = min(max(rows, _LEAST_DRAWN), _MOST_DRAWN)
        classes = np.repeat(np.arange(k), max(drawn_rows // k, 64))
        drawn = self._drawn(asked.model, classes, random_source(self._task.seed), self._task.seed)
        layouts = tuple(
            layout.calibrated(drawn, classes, asked.model.weights, asked.model.means) for layout in asked.layouts
        )
        return Measured(layouts, asked.model)

    def _drawn(
        self, model: ClassGaussians, classes: NDArray[np.int64], random: np.random.Generator, seed: int
    ) -> NDArray[np.float64]:
        """Draw vectors and smooth them within their class, in random blocks."""
        vectors = model.draw(classes, random)
        if not self._options.steps or not vectors.shape[1]:
            return vectors
        source = torch.Generator().manual_seed(seed)
        with single_thread():
            for place in range(len(model.weights)):
                rows = np.flatnonzero(classes == place)
                for block in in_blocks(len(rows), block=self._options.block, generator=source):
                    chosen = rows[block.numpy()]
                    own = torch.from_numpy(vectors[chosen])
                    vectors[chosen] = fabricate(own, n=self._options.n, steps=self._options.steps).numpy()
        return vectors
