"""Planted bugs of trainings on random samples: each breaks the promise in one place; some layer must notice each."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from faults import tables_opened
from sampled_layers import BY_HAND

from synth.generators.adversarial.dp_gan import DpCgan
from synth.privacy.more import critics, sampled_gradients
from synth.privacy.more.critics import RowTerms
from synth.privacy.more.sampled_gradients import SampledGradients
from synth.privacy.more.training_steps import StepsPlan, StepsQuestion
from synth.privacy.noise import SystemNoise
from synth.privacy.receipt import PlannedCost
from synth.privacy.session import PrivateSession

Plant = Callable[[pytest.MonkeyPatch], None]
SAMPLED_FAULTS: dict[str, tuple[str, Plant]] = {}
"""By name: an asker in whose answers the bug shows, and how it is planted."""


def fault(name: str, asker: str = BY_HAND) -> Callable[[Plant], Plant]:
    def keep(plant: Plant) -> Plant:
        SAMPLED_FAULTS[name] = (asker, plant)
        return plant

    return keep


def through(patch: pytest.MonkeyPatch, wrapper: Callable[[SampledGradients, Any], Any]) -> None:
    """Put something between every training and its noise: it is asked for samples, and for noise."""
    right = StepsQuestion.draw

    def draw(self: Any, plan: Any, rows: Any, noise: Any, *, device: str) -> Any:
        return right(self, plan, rows, wrapper(self, noise), device=device)

    patch.setattr(StepsQuestion, "draw", draw)


class Between:
    """Hands everything on."""

    def __init__(self, question: SampledGradients, noise: Any) -> None:
        self.question, self.noise, self.private = question, noise, noise.private

    def gaussian(self, variance: int, size: int) -> np.ndarray:
        return self.noise.gaussian(variance, size)

    def sample(self, size: int, *, rate: int) -> np.ndarray:
        return self.noise.sample(size, rate=rate)

    @property
    def learning(self) -> Any:
        """What learns from the steps, which the audit may follow."""
        return getattr(self.question.training, "training", self.question.training)


def summed(patch: pytest.MonkeyPatch, lengths: Callable[[np.ndarray], np.ndarray]) -> None:
    """Shorten gradients by other lengths than their own."""
    right = critics.sum_of_terms

    def added(terms: RowTerms, own: np.ndarray, *, clip: float) -> np.ndarray:
        return right(terms, lengths(own), clip=clip)

    patch.setattr(sampled_gradients, "sum_of_terms", added)


def planned(patch: pytest.MonkeyPatch, change: Callable[[SampledGradients, StepsPlan], StepsPlan]) -> None:
    right = SampledGradients.plan
    patch.setattr(SampledGradients, "plan", lambda self, allowed: change(self, right(self, allowed)))


# Who is drawn


@fault("samples paid for and not drawn")
def _(patch: pytest.MonkeyPatch) -> None:
    class Everybody(Between):
        def sample(self, size: int, *, rate: int) -> np.ndarray:
            self.noise.sample(size, rate=rate)
            return np.arange(size)

    through(patch, Everybody)


@fault("samples by the replay seed")
def _(patch: pytest.MonkeyPatch) -> None:
    streams: dict[int, np.random.Generator] = {}
    right = SystemNoise.__init__

    def made(self: SystemNoise) -> None:
        right(self)
        streams[id(self)] = np.random.default_rng(3)

    def sample(self: SystemNoise, size: int, *, rate: int) -> np.ndarray:
        return np.flatnonzero(streams[id(self)].random(size) < rate / 2**32)

    patch.setattr(SystemNoise, "__init__", made)
    patch.setattr(SystemNoise, "sample", sample)


@fault("one sample for all steps")
def _(patch: pytest.MonkeyPatch) -> None:
    class Once(Between):
        first: np.ndarray | None = None

        def sample(self, size: int, *, rate: int) -> np.ndarray:
            drawn = self.noise.sample(size, rate=rate)
            self.first = drawn if self.first is None else self.first
            return self.first

    through(patch, Once)


@fault("samples of one size")
def _(patch: pytest.MonkeyPatch) -> None:
    def sample(self: SystemNoise, size: int, *, rate: int) -> np.ndarray:
        keys = self._stream.words(size)
        return np.sort(np.argsort(keys)[: round(size * rate / 2**32)])

    patch.setattr(SystemNoise, "sample", sample)


@fault("units drawn twice as often as is paid for")
def _(patch: pytest.MonkeyPatch) -> None:
    class Often(Between):
        def sample(self, size: int, *, rate: int) -> np.ndarray:
            return self.noise.sample(size, rate=min(2 * rate, 2**32))

    through(patch, Often)


@fault("rows of a unit drawn one by one")
def _(patch: pytest.MonkeyPatch) -> None:
    right = sampled_gradients.units_in_order
    patch.setattr(sampled_gradients, "units_in_order", lambda rows, by_unit: right(rows, by_unit=False))


# What a unit adds


@fault("gradients not shortened")
def _(patch: pytest.MonkeyPatch) -> None:
    summed(patch, lambda own: 0 * own)


@fault("gradients shortened to twice the clip norm")
def _(patch: pytest.MonkeyPatch) -> None:
    summed(patch, lambda own: own / 2)


@fault("a batch shortened as a whole")
def _(patch: pytest.MonkeyPatch) -> None:
    summed(patch, lambda own: np.full_like(own, own.mean() if own.size else 0.0))


@fault("rows shortened instead of units")
def _(patch: pytest.MonkeyPatch) -> None:
    def each(lengths: np.ndarray, starts: np.ndarray) -> np.ndarray:
        return np.maximum.reduceat(lengths, starts)

    patch.setattr(sampled_gradients, "rounded_lengths", each)


@fault("lengths rounded where somebody of a batch has several rows")
def _(patch: pytest.MonkeyPatch) -> None:
    right = sampled_gradients.rounded_lengths

    def rounded(lengths: np.ndarray, starts: np.ndarray) -> np.ndarray:
        return lengths if len(lengths) == len(starts) else right(lengths, starts)

    patch.setattr(sampled_gradients, "rounded_lengths", rounded)


# Noise and its price


@fault("half the noise of a training")
def _(patch: pytest.MonkeyPatch) -> None:
    right = sampled_gradients.noise_multiplier_of
    patch.setattr(sampled_gradients, "noise_multiplier_of", lambda *a, **named: right(*a, **named) / 2)


@fault("nine tenths of the noise of a training")
def _(patch: pytest.MonkeyPatch) -> None:
    right = sampled_gradients.noise_multiplier_of
    patch.setattr(sampled_gradients, "noise_multiplier_of", lambda *a, **named: right(*a, **named) * 0.9)


@fault("half the sensitivity of a step")
def _(patch: pytest.MonkeyPatch) -> None:
    def halved(question: SampledGradients, plan: StepsPlan) -> StepsPlan:
        noise = dataclasses.replace(plan.gaussian, variance=plan.gaussian.variance // 4)
        cost = dataclasses.replace(plan.cost, sensitivity=0.5, noise_scale=noise.noise_std, slack=4.1 * plan.cost.slack)
        return StepsPlan(noise, cost)

    planned(patch, halved)
    patch.setattr(SampledGradients, "sensitivity", lambda self, schema: 0.5)


@fault("noise in the first step alone")
def _(patch: pytest.MonkeyPatch) -> None:
    class First(Between):
        spent = False

        def gaussian(self, variance: int, size: int) -> np.ndarray:
            drawn = self.noise.gaussian(variance, size)
            self.spent, spent = True, self.spent
            return 0 * drawn if spent else drawn

    through(patch, First)


@fault("one noise for all steps")
def _(patch: pytest.MonkeyPatch) -> None:
    class Repeated(Between):
        first: np.ndarray | None = None

        def gaussian(self, variance: int, size: int) -> np.ndarray:
            drawn = self.noise.gaussian(variance, size)
            self.first = drawn if self.first is None else self.first
            return self.first.copy()

    through(patch, Repeated)


@fault("a step more than is charged")
def _(patch: pytest.MonkeyPatch) -> None:
    right = StepsQuestion.draw

    def draw(self: Any, plan: StepsPlan, rows: Any, noise: Any, *, device: str) -> Any:
        take = self.of_rows(plan, rows, noise, device=device)
        before = take(0, self.training.at()) + noise.gaussian(plan.gaussian.variance, self.dimension)
        learning = getattr(self.training, "training", self.training)
        if hasattr(learning, "_weights") and isinstance(learning._weights, np.ndarray):
            learning._weights = learning._weights - 0.1 * before * plan.gaussian.grid
        return right(self, plan, rows, noise, device=device)

    patch.setattr(StepsQuestion, "draw", draw)


@fault("half of the steps charged")
def _(patch: pytest.MonkeyPatch) -> None:
    right, cost = sampled_gradients.noise_multiplier_of, PlannedCost.of_sampled_run

    def costing(*noise: Any, steps: int, **named: Any) -> PlannedCost:
        return dataclasses.replace(cost(*noise, steps=(steps + 1) // 2, **named), steps=steps)

    patch.setattr(
        sampled_gradients, "noise_multiplier_of", lambda rate, steps, **named: right(rate, (steps + 1) // 2, **named)
    )
    patch.setattr(PlannedCost, "of_sampled_run", costing)


@fault("a lower rate charged")
def _(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SampledGradients, "probability", property(lambda self: self.rate / 2.0**33))


@fault("trainings not charged")
def trainings_not_charged(patch: pytest.MonkeyPatch) -> None:
    right = PrivateSession.noisy_steps

    def noisy_steps(self: PrivateSession, question: Any, **asked: Any) -> Any:
        before = self._spent_units
        answer = right(self, question, **asked)
        self._spent_units = before
        return answer

    patch.setattr(PrivateSession, "noisy_steps", noisy_steps)


# What is made of the steps


@fault("the mean over those who were drawn", "dp-gan")
def _(patch: pytest.MonkeyPatch) -> None:
    class Counting(Between):
        def sample(self, size: int, *, rate: int) -> np.ndarray:
            drawn = self.noise.sample(size, rate=rate)
            self.learning._per_row = 1.0 / max(len(drawn), 1)
            return drawn

    through(patch, Counting)


@fault("a training that keeps its samples", "dp-gan")
def _(patch: pytest.MonkeyPatch) -> None:
    right = DpCgan.__mro__[1].fit

    class Keeping(Between):
        def sample(self, size: int, *, rate: int) -> np.ndarray:
            kept.append(self.noise.sample(size, rate=rate))
            return kept[-1]

    kept: list[np.ndarray] = []

    def fit(self: Any, session: Any, progress: Any) -> Any:
        found = right(self, session, progress)
        found.samples = list(kept)
        return found

    through(patch, Keeping)
    patch.setattr(DpCgan.__mro__[1], "fit", fit)


@fault("exact shares of the classes", "dp-cgan")
def _(patch: pytest.MonkeyPatch) -> None:
    opened, right = tables_opened(patch), DpCgan._class_probabilities

    def exact(self: DpCgan, session: Any) -> np.ndarray:
        found = right(self, session)
        counts = np.bincount(opened[-1]._column(self._task.label), minlength=len(found))
        return counts / counts.sum()

    patch.setattr(DpCgan, "_class_probabilities", exact)


@fault("a batch that follows the true number of rows", "dp-gan")
def _(patch: pytest.MonkeyPatch) -> None:
    opened = tables_opened(patch)
    right = SampledGradients.__post_init__

    def made(self: SampledGradients) -> None:
        if opened and self.training is not None and self.rate < 2**32:
            object.__setattr__(self, "rate", round(14 / opened[-1]._rows * 2**32))
        right(self)

    patch.setattr(SampledGradients, "__post_init__", made)
