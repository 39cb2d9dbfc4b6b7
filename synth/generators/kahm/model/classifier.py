"""The KAHM classifier as a private model: the generator's questions, its synthetic rows, and a machine for each class.

Machines are built only from synthetic rows, so the release reveals what these rows reveal and no more; and anyone who
has the rows can build the same machines.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any, ClassVar, Self, cast

import numpy as np
import torch
from numpy.typing import NDArray

from synth.errors import ConfigError, InputError
from synth.generators import build
from synth.generators.kahm import CARD as GENERATOR
from synth.generators.kahm import KahmOptions
from synth.generators.kahm.blocks import MOST_CLASSES, work_of_blocks
from synth.generators.kahm.model import CARD, MOST_ROWS, KahmClassifierOptions
from synth.generators.protocol import Card, Fact, Generator, GeneratorTask, ReleasedModel, State
from synth.generators.row_encoding import RowEncoding
from synth.models.kahm_classifier import KahmModel, matching_scores
from synth.privacy.answers import AnswerSource, NoisyAnswer, of_kind
from synth.privacy.more.products import Product
from synth.privacy.more.row_moments import RowMoments
from synth.privacy.questions import Answer
from synth.progress import Progress
from synth.system.costs import Work
from synth.system.machine import single_thread

__all__ = ["PrivateKahmClassifier"]

AT_A_TIME = 2000
"""Points whose distances are computed together."""

COORDINATES = (
    "A row is a point: a number or date is its place on the declared grid, from 0 to 1; special, other and missing "
    "values are the middle and a coordinate of their own; a category is a coordinate of its own."
)

DISTANCE = (
    "For every class there is one kernel affine hull machine of its rows (Kumar 2024, Definition 2). A point belongs "
    "to the class whose machine's image is nearest (Definition 7)."
)

OF_ROWS = {
    "rows": (
        "There is one accounting: that of the noise that is drawn, for one person's whole row. The paper's is for one "
        "cell; it has none for a row."
    ),
    "cell": (
        "There is one accounting: pure epsilon, which is exact for this noise. The paper's noise releases a cell "
        "unchanged with probability delta; this noise never does."
    ),
}


class PrivateKahmClassifier(ReleasedModel):
    """A kernel affine hull machine for each class of the label, built from synthetic rows of the generator kahm.

    Notes
    -----
    Differs from the paper: in mode record, the default, rows are drawn from noisy moments of whole rows by class; the
    paper builds machines from noisy rows, which modes rows and cell do.
    """

    card: ClassVar[Card] = CARD

    def __init__(self, task: GeneratorTask, options: KahmClassifierOptions) -> None:
        self._task, self._options = task, options
        if task.label is None or task.schema.modelled_column(task.label).size > MOST_CLASSES:
            raise ConfigError(f"model '{self.card.name}' needs a label of at most {MOST_CLASSES} classes.")
        self._label = task.label
        given = {field.name: getattr(options, field.name) for field in dataclasses.fields(KahmOptions)}
        self._generator = cast(Generator, build(GENERATOR, task, given))
        self._encoding = RowEncoding.of(task.schema, self._columns)
        self._codes: NDArray[np.int32] | None = None
        self._machines: KahmModel | None = None

    @property
    def perturbs_rows(self) -> bool:
        """Whether the mode asks for noisy rows, one for every private row."""
        return self._generator.perturbs_rows

    @property
    def device(self) -> str:
        """The device that makes the rows; their machines are built on the processor when they are first needed."""
        return self._generator.device

    def work(self, rows: int) -> Work:
        """Return what the generator's fit computes and, where it draws rows, the blocks of those that it makes here."""
        made, drawn = self._generator.work(rows), 0 if self.perturbs_rows else self._options.rows
        return dataclasses.replace(made, steps=made.steps + work_of_blocks(drawn, 1, self._options).steps)

    def fit(self, session: AnswerSource, progress: Progress) -> Self:
        """Ask the generator's questions, and keep rows that it makes."""
        self._generator.fit(session, progress)
        self._codes = self._generator.sample(self._options.rows, self._task.seed).astype(np.int32)
        return self

    def state(self) -> State:
        """Return the synthetic rows; the machines follow from them."""
        return {"codes": self._rows.copy()}

    @classmethod
    def from_state(cls, task: GeneratorTask, options: Any, state: State) -> Self:
        """Rebuild a fitted classifier."""
        made = cls(task, options)
        codes, sizes = state["codes"].astype(np.int32), np.array(task.schema.sizes)
        if codes.ndim != 2 or codes.shape[1] != len(sizes) or (codes < 0).any() or (codes >= sizes).any():
            raise InputError("The saved rows do not fit the declared columns; the model file is damaged.")
        made._codes = codes
        return made

    @property
    def machines(self) -> KahmModel:
        """The machines, by the printed text of their class."""
        if self._machines is None:
            texts = self._task.schema.modelled_column(self._label).texts()
            labels = [texts[code] for code in self._rows[:, self._place]]
            with single_thread():
                points = torch.from_numpy(self._encoding.encode(self._others(self._rows)))
                self._machines = KahmModel.fit(points, labels, n=self._options.n, block=MOST_ROWS)
        return self._machines

    def predict(self, codes: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return matching scores of every class, adding up to 1; they rank the classes but are not probabilities."""
        texts = self._task.schema.modelled_column(self._label).texts()
        places = [texts.index(str(label)) for label in self.machines.classes]
        found = np.zeros((len(codes), len(texts)))
        with single_thread():
            for start in range(0, len(codes), AT_A_TIME):
                some = slice(start, start + AT_A_TIME)
                points = torch.from_numpy(self._encoding.encode(self._others(codes[some])))
                scores = matching_scores(self.machines.distances(points).double())
                found[some, places] = (scores / scores.sum(dim=1, keepdim=True)).numpy()
        return found

    def document(self) -> dict[str, Any]:
        """Return the synthetic rows, class by class, and how points are made and compared."""
        texts = self._task.schema.modelled_column(self._label).texts()
        rows = self._others(self._rows)
        return {
            "coordinates": COORDINATES,
            "distance": DISTANCE,
            "subspace_dimension": self._options.n,
            "columns": self._columns,
            "classes": [
                {"label": texts[code], "rows": rows[self._rows[:, self._place] == code].tolist()}
                for code in np.unique(self._rows[:, self._place]).tolist()
            ],
        }

    def expected(self, asked: Sequence[Answer], rows: float) -> tuple[Fact, ...]:
        """Return how far noise moves the centre of a class, or that the rows are noisy, and by which accounting."""
        if self.perturbs_rows:
            told = "Noise is added to every number of a row; its width is listed by column."
            return (
                Fact(
                    "noise",
                    "Noise of the rows that machines are built from",
                    "on every number",
                    f"{told} {OF_ROWS[self._options.mode]}",
                ),
            )
        for answer in of_kind(asked, NoisyAnswer):
            question = answer.feature_map
            moments = question.factors[-1] if isinstance(question, Product) else None
            if isinstance(moments, RowMoments) and moments.weights[1] > 0:
                of_class = rows * moments.dimension / answer.value.size
                noise = answer.noise_std / moments.factors[1] * moments.clip / max(of_class, 1.0)
                return (self._of_centres(noise * math.sqrt(moments.width), of_class, moments.clip),)
        return ()

    def _of_centres(self, distance: float, of_class: float, clip: float) -> Fact:
        return Fact(
            "noise",
            "How far noise moves the centre of a class",
            round(float(distance), 4),
            f"A distance in units where a number's whole range is 1, for a class of {of_class:,.0f} rows that fill "
            f"their declared ranges evenly, each clipped at {clip:.2g} from the centre; it is smaller after "
            "shrinkage. The only accounting is the exact curve of the Gaussian mechanism: the paper's protects one "
            "cell, and it has none for whole rows.",
        )

    def facts(self) -> tuple[Fact, ...]:
        """Return what the mode promises, and the machines that there are."""
        promise = next(mode for mode in self.card.modes if mode.name == self._options.mode)
        reports = [hull.parts[0].report for hull in self.machines.hulls]
        return (
            Fact("mode", "KAHM", promise.title, f"{promise.promise} {promise.beware}"),
            Fact(
                "machines",
                "Affine hull machines",
                len(reports),
                "One for each class that has synthetic rows; a class without any is never predicted.",
                ("Class", "Rows", "n used"),
                tuple(
                    (str(label), report.n_rows, report.n_effective)
                    for label, report in zip(self.machines.classes, reports, strict=True)
                ),
            ),
        )

    @property
    def _rows(self) -> NDArray[np.int32]:
        if self._codes is None:
            raise InputError("This model has not been fitted yet.")
        return self._codes

    @property
    def _columns(self) -> list[str]:
        return [name for name in self._task.schema.names if name != self._label]

    @property
    def _place(self) -> int:
        return self._task.schema.names.index(self._label)

    def _others(self, codes: NDArray[Any]) -> NDArray[Any]:
        """Return the codes of all columns but the label."""
        return np.delete(codes, self._place, axis=1)
