"""KAHM as a generator: four modes with different guarantees, and the two modes that add noise to every row.

In these two a row becomes a vector, noise is added to its numbers, and kernel affine hull machines smooth the noisy
rows, class by class and block by block, in a public number of steps (Kumar 2024, Definition 14, repaired). Only the
first of these operations sees rows. The result is one fabricated row for every private row, in an order drawn by the
privacy noise: nothing is sampled from a model.
"""

from __future__ import annotations

from typing import ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from synth.errors import ConfigError, InputError
from synth.generators.kahm import CARD, KahmOptions
from synth.generators.kahm.blocks import (
    MOST_CLASSES,
    FabricatedBlock,
    fabricated_blocks,
    facts_of_blocks,
    work_of_blocks,
)
from synth.generators.kahm.record import RecordMode
from synth.generators.protocol import Card, Fact, Generator, GeneratorTask, State
from synth.generators.row_encoding import RowEncoding
from synth.generators.sampling import check_rows, random_source
from synth.models.fabrication import in_blocks
from synth.privacy.answers import AnswerSource
from synth.privacy.more.perturbed_rows import PerturbedRows
from synth.progress import Progress
from synth.system.costs import Work
from synth.system.machine import resolved_device

__all__ = ["Kahm", "RowsMode"]

ROWS_QUERY = "noisy rows"


class Kahm(Generator):
    """Rows drawn from noisy moments by class and smoothed by kernel affine hull machines (Kumar 2024, adapted).

    In mode record, the default, the questions are sums and products of whole rows by class (``record``);
    each class becomes a Gaussian in the directions that stand above the noise. Drawn rows are cut into random blocks
    within their class and smoothed by machines built from these rows alone, in a public number of steps. The other
    modes add noise to every row (:class:`RowsMode`).

    Notes
    -----
    Differs from the paper, which adds noise to every cell and builds its machines from the noisy rows: its promise is
    for one cell, at the same epsilon, and its stopping rule reads the private rows. In mode record noise is added to
    sums over all rows, and one person's whole row is hidden, label included.
    """

    card: ClassVar[Card] = CARD

    def __init__(self, task: GeneratorTask, options: KahmOptions) -> None:
        self._mode: RecordMode | RowsMode = _kind(options)(task, options)

    @property
    def perturbs_rows(self) -> bool:
        """Whether the mode asks for noisy rows, one for every private row."""
        return isinstance(self._mode, RowsMode)

    @property
    def device(self) -> str:
        """The device that computes the machines, "cpu" or "cuda"."""
        return self._mode.device

    def work(self, rows: int) -> Work:
        """Return what the machines of a fit compute."""
        return self._mode.work(rows)

    def fit(self, session: AnswerSource, progress: Progress) -> Self:
        """Ask the mode's questions, and learn from the answers."""
        self._mode.fit(session, progress)
        return self

    def sample(self, n_rows: int, seed: int) -> NDArray[np.int64]:
        """Draw new rows (mode record), or return fabricated rows."""
        return self._mode.sample(n_rows, seed)

    def facts(self) -> tuple[Fact, ...]:
        """Return what the mode promises and what its machines did."""
        return self._mode.facts()

    def state(self) -> State:
        """Return everything ``sample`` needs."""
        return self._mode.state()

    @classmethod
    def from_state(cls, task: GeneratorTask, options: KahmOptions, state: State) -> Self:
        """Rebuild a fitted generator; sampling from it gives the same bytes as before."""
        generator = cls(task, options)
        generator._mode = _kind(options).from_state(task, options, state)
        return generator


def _kind(options: KahmOptions) -> type[RecordMode] | type[RowsMode]:
    return RowsMode if options.mode in {"rows", "cell"} else RecordMode


class RowsMode:
    """Fit, keep and return fabricated rows.

    Parameters
    ----------
    task : GeneratorTask
    options : KahmOptions
        Of mode rows or cell.

    Raises
    ------
    ConfigError
        If the schema protects something other than the mode does, or the number of rows is private.
    """

    def __init__(self, task: GeneratorTask, options: KahmOptions) -> None:
        _check_protection(task, options.mode)
        self._task, self._options = task, options
        self._label = _label_of(task)
        self._vectors = RowEncoding.of(task.schema, [name for name in task.schema.names if name != self._label])
        self._codes: NDArray[np.int32] | None = None
        self.blocks: tuple[FabricatedBlock, ...] = ()

    @property
    def device(self) -> str:
        """The device that computes the machines, "cpu" or "cuda"."""
        return resolved_device(self._task.device)

    def work(self, rows: int) -> Work:
        """Return what fabricating a row for each private row computes."""
        return work_of_blocks(rows, self._vectors.width, self._options)

    def fit(self, session: AnswerSource, progress: Progress) -> Self:
        """Ask for noisy rows with all that is left of the budget, and fabricate rows from them."""
        _ = self.device  # refuses a missing one before anything is spent
        progress.phase("Measuring")
        release = session.perturb_rows(
            self._vectors.tables,
            label=self._label,
            label_share=self._options.label_share,
            noise="laplace" if self._options.mode == "cell" else self._options.noise,
            share=session.remaining_share,
            query=ROWS_QUERY,
            source="generator kahm",
        )
        progress.phase("Fitting")
        self._codes, self.blocks = self._fabricated(release, progress)
        return self

    def sample(self, n_rows: int, seed: int) -> NDArray[np.int64]:
        """Return fabricated rows: each once in a drawn order, then copies in other orders, the last one in part.

        There is one fabricated row for every private row, and no model to draw more rows from.
        """
        check_rows(n_rows)
        codes = self._fitted()
        if len(codes) == 0:
            # There are no rows to fabricate from. Whether a table is made must not depend on that, so any rows will do.
            draw = random_source(seed)
            return np.column_stack([draw.integers(size, size=n_rows) for size in self._task.schema.sizes])
        random = random_source(seed)
        orders = [random.permutation(len(codes)) for _ in range(-(-n_rows // len(codes)))]
        return codes[np.concatenate(orders)[:n_rows]].astype(np.int64)

    def facts(self) -> tuple[Fact, ...]:
        """Return what the mode promises and what its machines did, block by block."""
        return facts_of_blocks(self._options, self.blocks)

    def state(self) -> State:
        """Return the fabricated codes, shape (rows, columns), and the report of every block."""
        blocks = self.blocks
        labels = [-1 if block.label is None else block.label for block in blocks]
        counts = [[block.rows, block.n_effective, block.guarded] for block in blocks]
        return {
            "codes": self._fitted().copy(),
            "blocks.label": np.array(labels, dtype=np.int64),
            "blocks.counts": np.array(counts, dtype=np.int64).reshape(-1, 3),
            "blocks.regularisers": np.array([block.regularisers for block in blocks], dtype=np.float64),
        }

    @classmethod
    def from_state(cls, task: GeneratorTask, options: KahmOptions, state: State) -> Self:
        """Rebuild what was fitted."""
        made = cls(task, options)
        codes = state["codes"].astype(np.int32)
        sizes = np.array(task.schema.sizes)
        if codes.ndim != 2 or codes.shape[1] != len(sizes) or (codes < 0).any() or (codes >= sizes).any():
            raise InputError("The saved rows do not fit the declared columns; the model file is damaged.")
        made._codes = codes
        made.blocks = tuple(
            FabricatedBlock(None if label < 0 else label, rows, tuple(lambdas), effective, guarded)
            for label, (rows, effective, guarded), lambdas in zip(
                state["blocks.label"].tolist(),
                state["blocks.counts"].tolist(),
                state["blocks.regularisers"].tolist(),
                strict=True,
            )
        )
        return made

    def _fitted(self) -> NDArray[np.int32]:
        if self._codes is None:
            raise InputError("This generator has not been fitted yet.")
        return self._codes

    def _fabricated(
        self, release: PerturbedRows, progress: Progress
    ) -> tuple[NDArray[np.int32], tuple[FabricatedBlock, ...]]:
        names, options = self._task.schema.names, self._options
        n_rows = len(release.numbers)
        codes = np.zeros((n_rows, len(names)), dtype=np.int32)
        order = torch.Generator().manual_seed(self._task.seed)
        parts = [
            (label, rows[part].numpy())
            for label, rows in _classes(release.labels, n_rows)
            for part in in_blocks(len(rows), block=options.block, generator=order)
        ]
        columns = [place for place, name in enumerate(names) if name != self._label]
        reports = []
        made = fabricated_blocks(
            release.numbers,
            parts,
            options,
            device=self.device,
            unit=release.receipt.grid,
            checked=progress.check_cancelled,
        )
        for place, ((label, rows), (vectors, block)) in enumerate(zip(parts, made, strict=True)):
            codes[rows[:, None], columns] = self._vectors.decode(vectors)
            if label is not None:
                codes[rows, names.index(str(self._label))] = label
            reports.append(block)
            progress.step(place + 1, len(parts))
        return codes, tuple(reports)


def _check_protection(task: GeneratorTask, mode: str) -> None:
    """Refuse a schema that promises something other than the mode does, before anything is charged.

    Raises
    ------
    ConfigError
        With what to declare instead.
    """
    schema = task.schema
    if mode == "cell" and schema.protection != "cell":
        raise ConfigError(
            "generator 'kahm': mode 'cell' protects one cell, not a whole row; declare 'protection: cell', or choose "
            "mode 'record'."
        )
    if mode == "rows" and schema.protection != "record":
        raise ConfigError(
            "generator 'kahm': mode 'rows' protects whole rows; declare 'protection: record', or choose mode 'cell'."
        )
    if mode == "rows" and not (schema.rows_are_public and schema.unit.rows_at_most == 1):
        raise ConfigError(
            "generator 'kahm': mode 'rows' makes one row for every private row and so reveals how many there are; "
            "declare row_count: public and rows_per_unit: 1, or choose mode 'record'."
        )


def _label_of(task: GeneratorTask) -> str | None:
    """Return the label if its codes can be classes and it is not the only column."""
    if task.label is None or len(task.schema.names) == 1:
        return None
    return task.label if task.schema.modelled_column(task.label).size <= MOST_CLASSES else None


def _classes(labels: NDArray[np.int64] | None, n_rows: int) -> list[tuple[int | None, Tensor]]:
    """Return every class that has rows, with its row numbers."""
    if labels is None:
        return [(None, torch.arange(n_rows))]
    return [(int(label), torch.from_numpy(np.flatnonzero(labels == label))) for label in np.unique(labels)]
