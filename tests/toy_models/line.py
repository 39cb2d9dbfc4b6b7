"""What the toy asks and tells."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from synth.generators import Card, Fact, GeneratorTask, ReleasedModel, State
from synth.generators.protocol import Picture, Trace
from synth.privacy.answers import AnswerSource
from synth.privacy.feature_maps import Constant, Stack
from synth.privacy.more.gradients import GradientQuestion
from synth.privacy.more.lookups import Lookup
from synth.privacy.more.losses import Losses
from synth.privacy.questions import Answer
from synth.progress import Progress
from toy_models import CARDS, LineOptions

CLIP = 0.25


class Line(ReleasedModel):
    """A line through the codes of columns, each from -1/2 at its lowest to 1/2 at its highest."""

    card: ClassVar[Card] = CARDS[0]

    def __init__(self, task: GeneratorTask, options: LineOptions) -> None:
        self._schema, self._label, self._options = task.schema, str(task.label), options
        self._names = [name for name in task.schema.names if name != task.label]
        parts = [Constant(), *map(self._lookup, self._names)]
        self._weight = 1 / math.sqrt(len(parts))
        self._features = Stack(tuple(parts), (self._weight,) * len(parts))
        self._line = np.zeros(len(parts))

    def _lookup(self, name: str) -> Lookup:
        return Lookup(name, np.linspace(-0.5, 0.5, self._size(name))[:, None])

    def _size(self, name: str) -> int:
        return self._schema.modelled_column(name).size

    @property
    def assumptions(self) -> tuple[str, ...]:
        return (f"Steps of {self._options.rate:g} were chosen without looking at the rows.",)

    def expected(self, asked: Sequence[Answer], rows: float) -> tuple[Fact, ...]:
        noise = asked[-1].receipts[0].noise_scale
        return (Fact("noise", "Noise of a gradient", noise, f"Of each of its numbers, over {rows:,.0f} rows."),)

    def fit(self, session: AnswerSource, progress: Progress) -> Self:
        progress.phase("Fitting")
        for step in range(self._options.steps):
            asked = GradientQuestion(self._features, self._lookup(self._label), "squared", self._line, CLIP)
            share = session.remaining_share / (self._options.steps - step)
            answer = session.noisy_gradient(asked, share=share, query=f"gradient {step}", source="model toy-line")
            self._line = asked.parameters - self._options.rate * answer.gradient / max(session.rows.value, 1.0)
            progress.step(step + 1, self._options.steps)
        return self

    def document(self) -> dict[str, Any]:
        slopes = dict(zip(self._names, map(float, self._weight * self._line[1:]), strict=True))
        return {"intercept": float(self._weight * self._line[0]), "slopes": slopes}

    def predict(self, codes: NDArray[np.int64]) -> NDArray[np.float64]:
        columns = dict(zip(self._schema.names, codes.T, strict=True))
        column = self._schema.modelled_column(self._label)
        low, high = column.grid()[[0, -1]]
        return low + np.clip(self._features.evaluate(columns) @ self._line + 0.5, 0, 1) * (high - low)

    def predictor(self, bins: int) -> Losses:
        # The first feature is the same for every row; codes lie from -1/2 to 1/2.
        return Losses(self._features, self._line, self._lookup(self._label))

    def state(self) -> State:
        return {"line": self._line.copy()}

    @classmethod
    def from_state(cls, task: GeneratorTask, options: LineOptions, state: State) -> Self:
        made = cls(task, options)
        made._line = state["line"]
        return made

    def facts(self) -> tuple[Fact, ...]:
        return (Fact("intercept", "Intercept", float(self._line[0]), "Where the line begins."),)

    def pictures(self) -> tuple[Picture, ...]:
        traces = (Trace("slopes", tuple(map(float, range(len(self._line)))), tuple(map(float, self._line))),)
        return (Picture(name="slopes", title="Slopes", kind="points", across="place", up="slope", traces=traces),)
