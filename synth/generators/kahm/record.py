"""KAHM at record level: rows drawn from noisy moments by class, smoothed by kernel affine hull machines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray

from synth.errors import ConfigError, InputError
from synth.generators.kahm.modes import FabricatedBlock, facts_of_blocks
from synth.generators.kahm.moments import RecordQuestions, RowModel, class_places, is_classes
from synth.generators.one_way_marginals import OneWayOptions, fine_grid
from synth.generators.protocol import Fact, GeneratorTask, State
from synth.generators.row_encoding import CalibratedColumn, ColumnEncoding
from synth.generators.sampling import check_rows, random_source, rounded_counts
from synth.models.class_gaussians import ClassGaussians
from synth.models.fabrication import fabrication, in_blocks
from synth.privacy.session import AnswerSource
from synth.progress import Progress
from synth.system.threads import single_thread

__all__ = ["RecordMode", "RecordSettings"]

MOST_COORDINATES = 2**12
"""Coordinates of a row: several matrices of them and of the directions that are kept lie in memory at once."""

MOST_CLASS_MEANS = 2**24
"""Coordinates of the means of all classes."""

_LEAST_DRAWN, _MOST_DRAWN = 1024, 8192
"""Rows that are drawn to learn how coordinates become categories and ranks: as many as the table has, within these."""


@dataclass(frozen=True, slots=True)
class RecordSettings:
    """What the record-level mode is told.

    Attributes
    ----------
    n : int
        Subspace dimension of a machine.
    steps : int
        Public number of machines that are built one after another; 0 leaves drawn rows as they are.
    block : int
        Most rows that a machine is built from.
    """

    n: int = 20
    steps: int = 2
    block: int = 1000


class RecordMode:
    """Asks for moments of whole rows, keeps a Gaussian for each class, draws and smooths.

    Parameters
    ----------
    task : GeneratorTask
    settings : RecordSettings
    """

    def __init__(self, task: GeneratorTask, settings: RecordSettings) -> None:
        self._task, self._settings = task, settings
        self._columns = task.schema.modelled
        label = None if task.label is None else task.schema.names.index(task.label)
        self._label = label if label is not None and is_classes(self._columns[label]) else None
        self._require_room()
        self._asked: tuple[RowModel, int] | None = None
        self._measured: RowModel | None = None
        self.blocks: tuple[FabricatedBlock, ...] = ()

    def _require_room(self) -> None:
        """Refuse more coordinates than matrices of them fit into memory; it follows from the schema alone."""
        width = sum(ColumnEncoding(column, 0).width for d, column in enumerate(self._columns) if d != self._label)
        classes = 1 if self._label is None else self._columns[self._label].size
        if width > MOST_COORDINATES or width * classes > MOST_CLASS_MEANS:
            by_class = f" in each of {classes:,} classes" if classes > 1 else ""
            raise ConfigError(
                f"The generator kahm sees these columns as {width:,} coordinates{by_class} (one for each number, and "
                f"one for each category), and at most {MOST_COORDINATES:,} are possible, and {MOST_CLASS_MEANS:,} in "
                "all classes together. Declare fewer categories, leave columns out, or choose another generator."
            )

    def fit(self, session: AnswerSource, progress: Progress) -> Self:
        """Ask for the moments of rows; how drawn vectors become codes is learned when it is first needed."""
        progress.phase("Measuring")
        with single_thread():
            asked = RecordQuestions(session, self._columns, label=self._label, source="generator kahm").ask()
        progress.check_cancelled()
        self._asked = asked, round(session.rows.value)
        return self

    def sample(self, n_rows: int, seed: int) -> NDArray[np.int64]:
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
        return codes[random.permutation(n_rows)]

    def facts(self) -> tuple[Fact, ...]:
        """Return what the mode promises and what its machines did to the rows that were last drawn."""
        chosen = self._settings
        return facts_of_blocks("record", self.blocks, n=chosen.n, steps=chosen.steps, block=chosen.block)

    def state(self) -> State:
        """Return the classes' Gaussians and the columns' layout."""
        measured = self._require_fitted()
        columns = {
            f"column.{place}.{name}": array
            for place, layout in enumerate(measured.layouts)
            for name, array in layout.state().items()
        }
        return {**columns, **{f"model.{name}": array for name, array in measured.model.state().items()}}

    @classmethod
    def from_state(cls, task: GeneratorTask, settings: RecordSettings, state: State) -> Self:
        """Rebuild a fitted generator; sampling from it gives the same bytes as before."""
        generator = cls(task, settings)
        layouts: list[CalibratedColumn] = []
        start = 0
        others = [column for d, column in enumerate(generator._columns) if d != generator._label]
        for place, column in enumerate(others):
            prefix = f"column.{place}."
            own = {name.removeprefix(prefix): one for name, one in state.items() if name.startswith(prefix)}
            layouts.append(CalibratedColumn.from_state(column, start, fine_grid(column, OneWayOptions()), own))
            start += layouts[-1].base.width
        model = {name.removeprefix("model."): one for name, one in state.items() if name.startswith("model.")}
        generator._measured = RowModel(tuple(layouts), ClassGaussians.from_state(model))
        return generator

    def _require_fitted(self) -> RowModel:
        if self._measured is None:
            if self._asked is None:
                raise InputError("This generator has not been fitted yet.")
            # Not in fit: what a run will ask is planned by a fit to answers of zero, which draws nothing.
            self._measured = self._calibrated(*self._asked)
        return self._measured

    def _calibrated(self, asked: RowModel, rows: int) -> RowModel:
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
        return RowModel(layouts, asked.model)

    def _drawn(
        self, model: ClassGaussians, classes: NDArray[np.int64], random: np.random.Generator, seed: int
    ) -> NDArray[np.float64]:
        """Draw vectors and smooth them within their class, in random blocks."""
        vectors = model.draw(classes, random)
        if not self._settings.steps or not vectors.shape[1]:
            return vectors
        source = torch.Generator().manual_seed(seed)
        blocks = []
        with single_thread():
            for place in range(len(model.weights)):
                rows = np.flatnonzero(classes == place)
                for block in in_blocks(len(rows), block=self._settings.block, generator=source):
                    chosen = rows[block.numpy()]
                    own = torch.from_numpy(vectors[chosen])
                    made = fabrication(own, n=self._settings.n, steps=self._settings.steps)
                    vectors[chosen] = made.rows.numpy()
                    blocks.append(FabricatedBlock.of(made, place))
        self.blocks = tuple(blocks)
        return vectors
