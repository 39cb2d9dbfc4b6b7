"""DP-GAN (Xie 2018) and DP-CGAN (Torkzadehmahani 2019): a row network against a critic trained by DP-SGD."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray

from synth.errors import ConfigError, InputError
from synth.generators.adversarial import DPCGAN, DPGAN, DpCganOptions, DpGanOptions
from synth.generators.adversarial.outcome import AdversarialGenerator
from synth.generators.adversarial.training import AdversarialTraining, CriticRows
from synth.generators.protocol import Card, Fact, GeneratorTask
from synth.generators.row_network import ClassBatch, RowNetwork
from synth.models.simplex import project_to_simplex
from synth.privacy.answers import AnswerSource
from synth.privacy.feature_maps import OneHot
from synth.privacy.more.critic_turns import MOST_NUMBERS
from synth.privacy.more.critics import Critic, CriticLoss
from synth.privacy.more.sampled_gradients import SampledGradients, whole_rate
from synth.privacy.more.training_steps import NoisySteps
from synth.progress import Progress
from synth.system.costs import Work
from synth.system.machine import single_thread

__all__ = ["DpCgan", "DpGan"]


_HIDDEN, _NUMBERS = 32, 2**22
"""Width of the critic's hidden layers where none is chosen, and the most noisy numbers with which it is so wide."""

_BATCH, _PART = 512, 0.25
"""Expected rows of a step where none are chosen, and the part of all rows that they are at most."""


class DpGan(AdversarialGenerator):
    r"""Train a row network against a critic that sees private rows through noisy gradients alone.

    The critic moves along :math:`\frac{1}{q n} (\sum_{u \in S_t} g_u + \text{noise})`, where units are drawn with
    probability q and n is their declared or released number, and along the gradient of synthetic rows, which is public.
    After each of its steps the network moves once along the critic's slopes (Xie 2018, algorithm 1, with Adam).

    Notes
    -----
    Differs from the paper: each person's gradient is shortened to the clip norm, where the paper relies on a bound that
    follows from the limit of the critic's weights; noise is discrete; the network draws exact probabilities of
    categories; the batch is a Poisson sample, for which the cost is proven.
    """

    card: ClassVar[Card] = DPGAN
    _loss: ClassVar[CriticLoss] = "wasserstein"

    def __init__(self, task: GeneratorTask, options: DpGanOptions | DpCganOptions) -> None:
        # Without classes a label is a column like any other.
        super().__init__(task if self.card.needs.label else replace(task, label=None), options)
        self._limit = options.weight_limit if isinstance(options, DpGanOptions) else math.inf
        self._require_at_most(
            options.batch_size,
            task.most_rows,
            does=f"reads about {options.batch_size:,} rows in a step",
            smaller="batch_size",
        )
        self._rows = CriticRows.of(self._layout, self._labels())
        self._hidden = self._widths(options.hidden or _HIDDEN, fits=not options.hidden)
        weights = self._weights(self._hidden)
        if options.steps * weights > MOST_NUMBERS:
            raise ConfigError(
                f"{options.steps:,} steps of a critic with {weights:,} weights are {options.steps * weights:,} noisy "
                f"numbers; at most {MOST_NUMBERS:,} can be released. Choose fewer steps or a smaller 'hidden' "
                "(4 Generate), or leave columns out (type: drop)."
            )

    def _weights(self, hidden: tuple[int, ...]) -> int:
        """Return the number of weights of a critic."""
        return Critic(self._rows.width, hidden).size

    def _widths(self, widest: int, *, fits: bool) -> tuple[int, ...]:
        """Return the widths of the critic's hidden layers; where they are to fit, the largest that do, or 1."""
        width = widest
        while fits and width > 1 and self._options.steps * self._weights((width, width)) > _NUMBERS:
            width -= 1
        return (width, width)

    def _labels(self) -> OneHot | None:
        return None

    def _class_probabilities(self, session: AnswerSource) -> NDArray[np.float64]:
        return np.ones(1)

    def fit(self, session: AnswerSource, progress: Progress) -> Self:
        """Count the classes, where there are any, and train both networks on noisy gradients."""
        device, options = torch.device(self.device), self._options
        self.probabilities = self._class_probabilities(session)
        rows = max(session.rows.value, 1.0)
        batch_size = options.batch_size or min(_BATCH, math.ceil(_PART * rows))
        rate = whole_rate(batch_size / rows)
        progress.phase("Training")
        with single_thread():
            training = AdversarialTraining(
                self._layout,
                self._rows,
                ClassBatch(self.probabilities, batch_size=options.generated, device=device),
                loss=self._loss,
                hidden=self._hidden,
                steps=options.steps,
                rows_of_a_step=min(batch_size, rows),
                clip=options.clip,
                rates=(options.critic_rate, options.learning_rate),
                limit=self._limit,
                seed=self._task.seed,
                progress=progress,
            )
            question = SampledGradients(
                tables=self._rows.tables,
                hidden=self._hidden,
                loss=self._loss,
                clip=options.clip,
                rate=rate,
                steps=options.steps,
                training=training,
            )
            answer = session.noisy_steps(
                question, share=session.remaining_share, query="gradients of the critic", source=self._source
            )
            answer.train(training)
        self.noise = _relative_noise(answer, rows)
        self.diverged = training.diverged
        if self._layout.outputs:
            weights = training.weights.cpu()
            self.network = RowNetwork(weights, classes=len(self.probabilities), outputs=self._layout.outputs)
        return self

    def work(self, rows: int) -> Work:
        """Return what training computes: the network, and the critic on synthetic rows twice."""
        hidden = self._hidden[0]
        network = self._work_of_network(steps=self._options.steps, operations=150.0)
        critic = 12.0 * self._options.generated * hidden * (self._rows.width + hidden)
        return Work(
            steps=network.steps,
            operations=network.operations,
            single=network.single + critic,
            bytes=network.bytes,
        )

    def _fact_of_noise(self, noise: float) -> Fact:
        return Fact(
            "noise",
            "Noise of a step",
            noise,
            "Length of the noise in the mean gradient of a step, where that of a row is at most 1 long. Above 1 the "
            "critic can hardly learn.",
        )


class DpCgan(DpGan):
    """Train a row network and a critic that both know the class of a row.

    The critic's loss is the logistic one (Torkzadehmahani 2019, algorithm 1).

    Notes
    -----
    Differs from the paper: synthetic rows are public, so only the gradients of private rows are shortened and noisy;
    classes are drawn in the proportions of a noisy count, where the paper takes labels from private rows.
    """

    card: ClassVar[Card] = DPCGAN
    _loss: ClassVar[CriticLoss] = "logistic"

    def _labels(self) -> OneHot | None:
        if self._task.label is None or self._label_places is None:
            raise InputError("dp-cgan needs a label.")
        size = self._task.schema.modelled_column(self._task.label).size
        return OneHot((self._task.label,), (self._label_places.bins,), (size,))

    def _class_probabilities(self, session: AnswerSource) -> NDArray[np.float64]:
        classes = self._labels()
        assert classes is not None  # noqa: S101 - as _labels says
        counts = session.noisy_sum(classes, share=self._options.label_share, query="classes", source=self._source)
        return project_to_simplex(np.asarray(counts.value).reshape(-1) / max(session.rows.value, 1.0))


def _relative_noise(answer: NoisySteps, rows: float) -> float:
    """Return the expected length of the noise in a step's mean gradient, in units of the clip norm."""
    receipt = answer.receipt
    return math.sqrt(answer.question.dimension) * receipt.noise_scale / max(receipt.sampling_rate * rows, 1.0)
