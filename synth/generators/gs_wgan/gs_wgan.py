"""GS-WGAN: a row network that learns from clipped, noisy gradients of private critics (Chen 2020)."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from synth.generators.adversarial.outcome import AdversarialGenerator
from synth.generators.adversarial.training import CriticRows, ReadRows
from synth.generators.gs_wgan import CARD, GsWganOptions
from synth.generators.protocol import Card, Fact, GeneratorTask, PrivateModel
from synth.generators.row_network import STEPS_TOGETHER, ClassBatch, Draw, OutputHeads, RowNetwork, Training
from synth.privacy.answers import AnswerSource, of_kind
from synth.privacy.more.critic_turns import CriticTurns
from synth.privacy.more.training_steps import NoisySteps
from synth.privacy.questions import Answer
from synth.progress import Progress
from synth.system.machine import single_thread

__all__ = ["GsWgan", "TurnTraining"]

_LEARNED_FROM = 256
"""Synthetic rows of a turn that its critic learns from. Those of the batch are answered; the others cost nothing."""

_CRITIC_BATCH = 64
"""Rows of its part, and as many synthetic ones, in a training step of a critic."""

_PARTS, _LEAST_IN_A_PART = 1000, 20
"""Parts where none are asked for, and the fewest people that each of them has then."""

_LARGEST_WEIGHT = 1e10
"""A training with a larger weight has diverged. Up to here no layer leaves the range of numbers."""


class GsWgan(AdversarialGenerator):
    """Train a row network on where private critics say, with noise, that its rows should move.

    Each turn the network draws rows as they would be published: a code of every category, a value of every number. The
    critic of that turn answers its gradient at some of them. The gradient in a code's one-hot stands for that in its
    probability (a straight-through estimate).

    Notes
    -----
    Differs from the paper (Chen 2020): critics take turns in public order, so a person pays for the turns of one part,
    and nothing is claimed of drawing critics at random; critics start from public weights and are not warmed up with
    generators of their own; each is a network of two layers; the clip norm and all that is learned from are those of
    rows in place of pictures; the label is one more column.
    """

    card: ClassVar[Card] = CARD

    def __init__(self, task: GeneratorTask, options: GsWganOptions) -> None:
        super().__init__(dataclasses.replace(task, label=None), options)
        self._rows = CriticRows.of(self._layout, None)
        self._question(None).check_numbers(task.schema)
        rows, most = options.batch_size, task.most_rows
        self._require_at_most(rows, most, does=f"asks about {rows:,} synthetic rows in a turn", smaller="batch_size")
        own = f"divides {task.schema.unit.plural} into {self._parts:,} parts"
        self._require_at_most(self._parts, self._most_people, does=own, smaller="number of parts")

    # Critics learn on the processor alone, and the network waits for them.
    device = PrivateModel.device

    @property
    def _most_people(self) -> int:
        """The declared upper bound on the number of units; 0 where a fitted model is only read."""
        return self._task.most_rows // self._task.schema.unit.rows_per_unit

    @property
    def _parts(self) -> int:
        """Number of critics; public, as it follows from what is declared."""
        people = self._task.schema.number_of_units or self._most_people
        fitting = max(1, min(_PARTS, people // _LEAST_IN_A_PART)) if people else _PARTS
        return int(self._options.parts) or fitting

    def _question(self, training: TurnTraining | None) -> CriticTurns:
        options = self._options
        return CriticTurns(
            tables=self._rows.tables,
            parts=self._parts,
            steps=options.turns,
            rows=options.batch_size,
            clip=options.clip,
            learned=options.critic_steps,
            batch=_CRITIC_BATCH,
            rate=options.critic_rate,
            seed=self._task.seed,
            training=training,
        )

    def fit(self, session: AnswerSource, progress: Progress) -> Self:
        """Let the critics take their turns, and the network learn from each."""
        progress.phase("Training")
        training = TurnTraining(
            self._layout,
            self._rows,
            rows=self._options.batch_size,
            clip=self._options.clip,
            steps=self._options.turns,
            rate=self._options.learning_rate,
            seed=self._task.seed,
            progress=progress,
        )
        answer = session.noisy_steps(
            self._question(training),
            share=session.remaining_share,
            query="turns of the critics",
            source=self._source,
        )
        answer.train(training)
        self.noise, self.diverged = _noise_of_a_turn(answer), training.diverged
        self.probabilities, self.network = np.ones(1), training.network
        return self

    def expected(self, asked: Sequence[Answer], rows: float) -> tuple[Fact, ...]:
        """Return how large the noise of a turn will be."""
        return tuple(self._fact_of_noise(_noise_of_a_turn(one)) for one in of_kind(asked, NoisySteps))

    def _fact_of_noise(self, noise: float) -> Fact:
        return Fact(
            "noise",
            "Noise of a turn",
            noise,
            "Length of the noise in the mean gradient of a turn, where that of a row is at most 1 long. Far above 1 "
            "the network learns little.",
        )


class TurnTraining:
    """A row network that learns from noisy gradients at its own rows, turn by turn.

    Parameters
    ----------
    layout : OutputHeads
    read : CriticRows
        What critics read of a row.
    rows : int
        Synthetic rows of a turn that are answered.
    clip : float
        Unit of the noisy gradients.
    steps : int
        Number of turns.
    rate : float
        Learning rate at first; it falls to 0.
    seed : int
        Public.
    progress : Progress
        Receives turns, and no number that follows from an answer, which may not have been kept yet; may stop.

    Attributes
    ----------
    network : RowNetwork
    taken : int
        Turns it has learned from.
    diverged : bool
        Whether a weight was too large, or no number, after some turn; the network then keeps the weights before it.
    """

    def __init__(
        self,
        layout: OutputHeads,
        read: CriticRows,
        *,
        rows: int,
        clip: float,
        steps: int,
        rate: float,
        seed: int,
        progress: Progress,
    ) -> None:
        batch = ClassBatch(np.ones(1), batch_size=max(rows, _LEARNED_FROM), device=torch.device("cpu"))
        self.network = RowNetwork.drawn(layout, classes=1, seed=seed)
        self._training = Training(layout, self.network, batch, steps=steps, rate=rate, seed=seed)
        self._layout, self._read, self._progress = layout, ReadRows(read, batch), progress
        self._answered, self._per_row, self._steps, self._size = rows, clip / rows, steps, batch.size
        self._width = read.width
        self._picks = torch.Generator().manual_seed(seed)
        self._drawn: tuple[Draw, Tensor] | None = None
        self.taken, self.diverged = 0, False

    def at(self) -> NDArray[np.float64]:
        """Return synthetic rows as critics read them, those to be answered first; shape (rows, width)."""
        return np.ascontiguousarray(self._draw()[1].double().numpy().T)

    def move(self, step: NDArray[np.float64]) -> None:
        """Move the network so that its rows move along noisy gradients, shape (rows * width,)."""
        self._progress.check_cancelled()
        draw, read = self._draw()
        with single_thread():
            slopes = torch.zeros_like(read)
            gradients = torch.from_numpy(step.reshape(self._answered, self._width).T)
            slopes[:, : self._answered] = gradients * -self._per_row
            self._read.back(slopes, draw, self._training.slopes)
            before = self.network.weights.clone()
            self._training.learn(self.taken % STEPS_TOGETHER)
            if not float(self.network.weights.abs().max()) <= _LARGEST_WEIGHT:
                self.diverged = True
                self.network.weights.copy_(before)
        self._drawn = None
        self.taken += 1
        self._progress.step(self.taken, self._steps)

    def _draw(self) -> tuple[Draw, Tensor]:
        """Return the rows of this turn: codes that were picked, as one-hots, and what critics read of them."""
        if self._drawn is None:
            with single_thread():
                place = self.taken % STEPS_TOGETHER
                if place == 0:
                    self._training.prepare(self.taken, min(STEPS_TOGETHER, self._steps - self.taken))
                draw = self._training.draw(place)
                uniforms = torch.rand((len(self._layout.heads), self._size), generator=self._picks)
                picked = self._picked(draw, self._layout.picked(draw, uniforms))
                self._drawn = picked, self._read.of_draw(picked)
        return self._drawn

    def _picked(self, draw: Draw, picked: Tensor) -> Draw:
        """Return a draw with one-hots of the picked choices in place of probabilities."""
        hots = []
        for block, choices in zip(self._layout.blocks, draw.choices, strict=True):
            heads = torch.tensor(block.heads)
            hots.append(torch.zeros_like(choices).scatter_(0, picked[heads][None], 1.0))
        return Draw(draw.values, tuple(hots))


def _noise_of_a_turn(answer: NoisySteps) -> float:
    """Return the expected length of the noise in a turn's mean gradient, in units of the clip norm."""
    question = answer.question
    rows = question.rows if isinstance(question, CriticTurns) else 1
    return answer.receipt.noise_scale * math.sqrt(question.dimension) / rows
