"""KAHM as a generator: one name, four modes that promise different things (``modes``)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from synth.errors import ConfigError
from synth.generators.kahm.modes import PAPER_REFUSAL
from synth.generators.kahm.record import RecordMode, RecordSettings
from synth.generators.kahm.rows import RowsMode, RowsSettings
from synth.generators.options import check_between
from synth.generators.protocol import Fact, GeneratorTask, Needs, State
from synth.privacy.session import AnswerSource
from synth.progress import Progress

__all__ = ["Kahm", "KahmOptions"]


@dataclass(frozen=True, slots=True)
class KahmOptions:
    """Options of the KAHM generator."""

    mode: Literal["record", "rows", "cell", "paper"] = "record"
    """What is hidden: record or rows (one person's whole row), cell (one cell), paper (nothing: refused)."""

    n: int = 20
    """Dimension of the subspace in which kernel affine hull machines compare rows."""

    steps: int = 2
    """Machines built one after another to smooth rows; a public number. 0 (record only) leaves rows as they are."""

    block: int = 1000
    """Most rows that one machine is built from; blocks are random."""

    noise: Literal["gaussian", "laplace"] = "gaussian"
    """Noise of mode rows; one cell is always hidden by Laplace noise, and mode record adds none to rows."""

    label_share: float = 0.25
    """Part of the budget that protects the label in mode rows."""

    def __post_init__(self) -> None:
        check_between("n", self.n, 1, 1000)
        check_between("steps", self.steps, 0, 50)
        check_between("block", self.block, 10, 5000)
        check_between("label_share", self.label_share, 0.01, 0.99)
        if self.mode == "paper":
            raise ConfigError(PAPER_REFUSAL)
        if self.mode != "record" and self.steps < 1:
            raise ConfigError("option 'steps' must be at least 1 where noisy rows are fabricated, got 0.")


class Kahm:
    """Rows drawn from noisy moments by class and smoothed by kernel affine hull machines (Kumar 2024, adapted).

    In mode record, the default, the session is asked for sums and products of whole rows by class (``moments``);
    each class becomes a Gaussian in the directions that stand above the noise. Drawn rows are cut into random blocks
    within their class and smoothed by machines built from these rows alone, in a public number of steps. The other
    modes add noise to every row (``rows``).

    Notes
    -----
    Differs from the paper, which adds noise to every cell and builds its machines from the noisy rows: its promise is
    for one cell, at the same epsilon, and its stopping rule reads the private rows. In mode record noise is added to
    sums over all rows, and one person's whole row is hidden, label included.
    """

    name: ClassVar[str] = "kahm"
    title: ClassVar[str] = "KAHM (kernel affine hull machines)"
    summary: ClassVar[str] = (
        "Noisy means and directions of whole rows, by class of the label if there is one; rows drawn from them, "
        "smoothed by kernel affine hulls."
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
    needs: ClassVar[Needs] = Needs()

    def __init__(self, task: GeneratorTask, options: KahmOptions) -> None:
        self._part: RecordMode | RowsMode
        if options.mode == "rows" or options.mode == "cell":
            self._part = RowsMode(task, _rows_settings(options))
        else:
            self._part = RecordMode(task, _record_settings(options))

    @property
    def perturbs_rows(self) -> bool:
        """Whether the mode asks for noisy rows, one for every private one."""
        return isinstance(self._part, RowsMode)

    def fit(self, session: AnswerSource, progress: Progress) -> Self:
        """Ask, as the mode does, and learn from the answers."""
        self._part.fit(session, progress)
        return self

    def sample(self, n_rows: int, seed: int) -> NDArray[np.int64]:
        """Draw new rows (mode record), or hand out fabricated ones."""
        return self._part.sample(n_rows, seed)

    def facts(self) -> tuple[Fact, ...]:
        """Return what the mode promises and what its machines did."""
        return self._part.facts()

    def state(self) -> State:
        """Return everything ``sample`` needs."""
        return self._part.state()

    @classmethod
    def from_state(cls, task: GeneratorTask, options: KahmOptions, state: State) -> Self:
        """Rebuild a fitted generator; sampling from it gives the same bytes as before."""
        generator = cls(task, options)
        if options.mode == "rows" or options.mode == "cell":
            generator._part = RowsMode.from_state(task, _rows_settings(options), state)
        else:
            generator._part = RecordMode.from_state(task, _record_settings(options), state)
        return generator


def _record_settings(options: KahmOptions) -> RecordSettings:
    return RecordSettings(n=options.n, steps=options.steps, block=options.block)


def _rows_settings(options: KahmOptions) -> RowsSettings:
    return RowsSettings(
        mode="cell" if options.mode == "cell" else "rows",
        n=options.n,
        steps=options.steps,
        block=options.block,
        noise=options.noise,
        label_share=options.label_share,
    )
