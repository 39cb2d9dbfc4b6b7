"""The controls: noisy one-way tables, overall or by class. They are printed beside every other generator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from synth.errors import ConfigError, InputError
from synth.generators.coarse_grid import LABEL_BINS, coarse_grid
from synth.generators.independent import BY_CLASS, INDEPENDENT, IndependentOptions
from synth.generators.protocol import Card, Generator, GeneratorTask, State
from synth.generators.sampling import check_rows, random_source, rounded_counts
from synth.generators.stacked import answers_of_parts, column_weights
from synth.models.simplex import project_to_simplex
from synth.privacy.answers import AnswerSource
from synth.privacy.feature_maps import OneHot, Stack
from synth.progress import Progress

__all__ = ["MOST_COUNTS", "Independent", "IndependentByClass"]

MOST_COUNTS = 2**22
"""The most counts by class. A check holds several copies: of four million it takes half a gibibyte, of ten too much."""


class IndependentByClass(Generator):
    """Noisy one-way tables of every column within every class of the label, in one release.

    The answer is the label's table and one table (column by label) for every other column, stacked; the columns share
    the squared norm of the question by their declared weights. Each table is projected onto the possible tables (not
    negative, right total), and rows are drawn so that counts follow the fitted tables to within one row.
    """

    card: ClassVar[Card] = BY_CLASS
    _conditional: ClassVar[bool] = True

    def __init__(self, task: GeneratorTask, options: IndependentOptions) -> None:
        self._columns = task.schema.modelled
        self._label: int | None = None
        if self._conditional and task.label is not None:
            self._label = task.schema.names.index(task.label)
        self._places = [
            coarse_grid(column, grid=LABEL_BINS if d == self._label else options.bins, atoms=max(column.size, 1))
            for d, column in enumerate(self._columns)
        ]
        self._tables: list[NDArray[np.float64]] | None = None
        self._require_room()

    def _require_room(self) -> None:
        """Refuse more counts than a bundle can hold that is checked; this follows from the schema alone."""
        if self._label is None:
            return
        classes = self._places[self._label].size
        values = sum(places.size for d, places in enumerate(self._places) if d != self._label)
        if values * classes > MOST_COUNTS:
            raise ConfigError(
                f"generator '{self.card.name}' counts the {values:,} values of the other columns in each of the "
                f"{classes:,} classes of '{self._columns[self._label].name}': {values * classes:,} counts, and at most "
                f"{MOST_COUNTS:,} are allowed. Choose a label with fewer classes, declare fewer categories (2 "
                "Describe), or choose fewer bins or another generator (4 Generate)."
            )

    def fit(self, session: AnswerSource, progress: Progress) -> Self:
        """Ask for all tables in one question, and project them onto possible tables."""
        progress.phase("Measuring")
        question = self._question()
        release = session.noisy_sum(
            question,
            share=session.remaining_share,
            query="one-way tables" if self._label is None else "one-way tables by class",
            source=f"generator {self.card.name}",
        )
        progress.phase("Fitting")
        answers = answers_of_parts(release, question)
        counts = [piece.reshape(places.size, -1) for (piece, _), places in zip(answers, self._places, strict=True)]
        total = max(session.rows.value, 1.0)
        noise = [noise_std for _, noise_std in answers]
        self._tables = self._fit_tables(counts, noise, total)
        return self

    def sample(self, n_rows: int, seed: int) -> NDArray[np.int64]:
        """Draw rows whose counts follow the fitted tables to within one row."""
        check_rows(n_rows)
        if self._tables is None:
            raise InputError("This generator has not been fitted yet.")
        random = random_source(seed)
        columns = []
        classes = np.zeros(1, dtype=np.int64) + n_rows
        if self._label is not None:
            classes = rounded_counts(self._tables[self._label][0], n_rows, random)
        for d, places in enumerate(self._places):
            if d == self._label:
                drawn = np.repeat(np.arange(places.size), classes)
            else:
                drawn = np.concatenate(
                    [
                        random.permutation(np.repeat(np.arange(places.size), rounded_counts(table, int(count), random)))
                        for table, count in zip(self._tables[d], classes, strict=True)
                    ]
                )
            codes = places.codes(drawn, random.random(n_rows))
            columns.append(codes.astype(np.min_scalar_type(self._columns[d].size - 1)))
        # Columns are written, and read, one after another; of a wide table a copy with other rows is large.
        rows = np.empty((len(columns), n_rows), dtype=np.int64)
        shuffled = random.permutation(n_rows)
        for place, column in enumerate(columns):
            rows[place] = column[shuffled]
        return rows.T

    def state(self) -> State:
        """Return the fitted tables, one array of shape (classes, levels) for each column."""
        if self._tables is None:
            raise InputError("This generator has not been fitted yet.")
        return {f"table.{d}": table.copy() for d, table in enumerate(self._tables)}

    @classmethod
    def from_state(cls, task: GeneratorTask, options: IndependentOptions, state: State) -> Self:
        """Rebuild a fitted control from its tables."""
        generator = cls(task, options)
        generator._tables = [state[f"table.{d}"].astype(np.float64) for d in range(len(generator._columns))]
        return generator

    def _question(self) -> Stack:
        parts = tuple(
            self._table((d,) if self._label in (None, d) else (d, self._label)) for d in range(len(self._columns))
        )
        return Stack(parts=parts, weights=column_weights(self._columns))

    def _table(self, positions: Sequence[int]) -> OneHot:
        return OneHot(
            columns=tuple(self._columns[d].name for d in positions),
            bins=tuple(self._places[d].bins for d in positions),
            sizes=tuple(self._columns[d].size for d in positions),
        )

    def _fit_tables(
        self, counts: list[NDArray[np.float64]], noise: list[float], total: float
    ) -> list[NDArray[np.float64]]:
        if self._label is None:
            return [project_to_simplex(table.T / total) for table in counts]
        classes = _class_counts(counts, noise, self._label, total)
        tables = []
        for d, table in enumerate(counts):
            if d == self._label:
                tables.append((classes / classes.sum())[None, :])
            else:
                # A class of less than one row would turn its noise into a table of one level.
                tables.append(project_to_simplex(table.T / np.maximum(classes, 1.0)[:, None]))
        return tables


class Independent(IndependentByClass):
    """Noisy one-way tables of all columns in one release; columns are drawn independently of each other."""

    card: ClassVar[Card] = INDEPENDENT
    _conditional: ClassVar[bool] = False


def _class_counts(
    counts: list[NDArray[np.float64]], noise: list[float], label: int, total: float
) -> NDArray[np.float64]:
    """Average every table's class counts, weighted by inverse variance, and project them onto possible counts."""
    summed = np.zeros(counts[label].shape[0])
    precision = 0.0
    for d, table in enumerate(counts):
        view, cells = (table[:, 0], 1) if d == label else (table.sum(axis=0), table.shape[0])
        weight = 1.0 / (cells * noise[d] ** 2)
        summed += weight * view
        precision += weight
    return total * project_to_simplex(summed / (precision * total))
