"""KAHM as a generator: one name, four modes that promise different things (``kahm.MODES``)."""

from __future__ import annotations

from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from synth.generators.kahm import CARD, KahmOptions
from synth.generators.kahm.record import RecordMode
from synth.generators.kahm.rows import RowsMode
from synth.generators.protocol import Card, Fact, Generator, GeneratorTask, State
from synth.privacy.answers import AnswerSource
from synth.progress import Progress

__all__ = ["Kahm"]


class Kahm(Generator):
    """Rows drawn from noisy moments by class and smoothed by kernel affine hull machines (Kumar 2024, adapted).

    In mode record, the default, the session is asked for sums and products of whole rows by class (``record``);
    each class becomes a Gaussian in the directions that stand above the noise. Drawn rows are cut into random blocks
    within their class and smoothed by machines built from these rows alone, in a public number of steps. The other
    modes add noise to every row (``rows``).

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
        """Whether the mode asks for noisy rows, one for every private one."""
        return isinstance(self._mode, RowsMode)

    def fit(self, session: AnswerSource, progress: Progress) -> Self:
        """Ask, as the mode does, and learn from the answers."""
        self._mode.fit(session, progress)
        return self

    def sample(self, n_rows: int, seed: int) -> NDArray[np.int64]:
        """Draw new rows (mode record), or hand out fabricated ones."""
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
