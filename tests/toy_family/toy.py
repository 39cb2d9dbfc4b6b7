"""What the toy asks and draws."""

from __future__ import annotations

import math
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from synth.generators import Card, Fact, Generator, GeneratorTask, Picture, State, Trace
from synth.generators.sampling import check_rows, random_source
from synth.models.simplex import project_to_simplex
from synth.privacy.answers import AnswerSource
from synth.privacy.feature_maps import OneHot, Stack
from synth.progress import Progress
from toy_family import CARDS, ToyOptions


class Toy(Generator):
    """Flattened one-way tables."""

    card: ClassVar[Card] = CARDS[0]

    def __init__(self, task: GeneratorTask, options: ToyOptions) -> None:
        self._columns, self._options = task.schema.modelled, options
        self._tables: list[NDArray[np.float64]] = []

    def fit(self, session: AnswerSource, progress: Progress) -> Self:
        progress.phase("Measuring")
        parts = tuple(OneHot((column.name,), (None,), (column.size,)) for column in self._columns)
        question = Stack(parts, (1 / math.sqrt(len(parts)),) * len(parts))
        answer = session.noisy_sum(question, share=session.remaining_share, query="counts", source="generator toy")
        ends = np.cumsum([part.dimension for part in parts])[:-1]
        for piece in np.split(answer.value / question.weights[0], ends):
            table = project_to_simplex(piece / max(session.rows.value, 1.0))
            flat = 1.0 if self._options.mode == "shy" else self._options.flatness
            self._tables.append((1 - flat) * table + flat / len(table))
        return self

    def sample(self, n_rows: int, seed: int) -> NDArray[np.int64]:
        check_rows(n_rows)
        random = random_source(seed)
        return np.stack([random.choice(len(table), n_rows, p=table / table.sum()) for table in self._tables], axis=1)

    def state(self) -> State:
        return {f"table.{place}": table.copy() for place, table in enumerate(self._tables)}

    @classmethod
    def from_state(cls, task: GeneratorTask, options: ToyOptions, state: State) -> Self:
        made = cls(task, options)
        made._tables = [state[f"table.{place}"] for place in range(len(made._columns))]
        return made

    def facts(self) -> tuple[Fact, ...]:
        return (Fact("flatness", "Flatness", self._options.flatness, "As it was chosen."),)

    def pictures(self) -> tuple[Picture, ...]:
        traces = tuple(
            Trace(column.name, tuple(map(float, range(len(table)))), tuple(table.tolist()))
            for column, table in zip(self._columns, self._tables, strict=True)
        )
        return (Picture(name="shares", title="Shares", kind="lines", across="code", up="share", traces=traces),)
