"""What every training against critics says of itself: how large its noise was, and whether it diverged."""

from __future__ import annotations

import copy
import math
from abc import abstractmethod
from typing import Any, Self

import numpy as np

from synth.generators.neural import NetworkGenerator
from synth.generators.protocol import Fact, GeneratorTask, State

__all__ = ["AdversarialGenerator"]

_LOOKED_AT = 1000
"""Rows that are drawn to tell whether all are alike."""

_MANY, _NEARLY_ALL = 8, 0.98
"""A network has collapsed where in columns of at least so many values one or two make up this part of the rows. In
an ordinary training some such column is far below: on a simulated table at epsilon .1, 1 and 8, at most .09."""


class AdversarialGenerator(NetworkGenerator):
    """A row network that learned from critics.

    Attributes
    ----------
    noise : float, optional
        Length of the noise of a step, in units of the clip norm; of a fitted one.
    diverged : bool
        Whether numbers left their range while it was trained.
    """

    def __init__(self, task: GeneratorTask, options: Any) -> None:
        super().__init__(task, options)
        self.noise: float | None = None
        self.diverged = False

    @abstractmethod
    def _fact_of_noise(self, noise: float) -> Fact:
        """Return how large the noise of a step was, in words."""

    def facts(self) -> tuple[Fact, ...]:
        """Return how large the noise of a step was, and whether the training diverged."""
        found = () if self.noise is None else (self._fact_of_noise(self.noise),)
        if self.diverged:
            return (*found, Fact("diverged", "Training diverged", "yes", _OUT_OF_RANGE))
        return (*found, Fact("diverged", "Training diverged", "yes", _ALIKE)) if self.draws_one_row() else found

    def draws_one_row(self) -> bool:
        """Whether nearly all rows that it draws are alike: columns of many values have one or two, other columns one.

        Columns of few values count only where no column has many: a network that has collapsed may still mix two of
        three values. Follows from the released network alone, and so is public. With classes, rows of the commonest
        are looked at.
        """
        if self.network is None or self.probabilities is None:
            return False
        many = [head for head in self._layout.heads if head.grid.size >= _MANY]
        looked_at = many or [head for head in self._layout.heads if head.grid.size > 1]
        alone = copy.copy(self)
        alone.probabilities = np.eye(len(self.probabilities))[int(self.probabilities.argmax())]
        codes = alone.sample(_LOOKED_AT, 0)
        names, kept = self._task.schema.names, 2 if many else 1
        for head in looked_at:
            place_of = np.repeat(np.arange(head.grid.size), head.grid.width)
            counts = np.bincount(place_of[codes[:, names.index(head.column.name)]], minlength=head.grid.size)
            if np.sort(counts)[-kept:].sum() < _NEARLY_ALL * _LOOKED_AT:
                return False
        return bool(looked_at)

    def state(self) -> State:
        """Return the network, and what the facts say; nothing of a critic."""
        noise = np.array([math.nan if self.noise is None else self.noise])
        return {**super().state(), "noise": noise, "diverged": np.array([self.diverged])}

    @classmethod
    def from_state(cls, task: GeneratorTask, options: Any, state: State) -> Self:
        """Rebuild a fitted generator; it draws the same bytes as before."""
        generator = super().from_state(task, options, state)
        generator.noise, generator.diverged = float(state["noise"][0]), bool(state["diverged"][0])
        return generator


_OUT_OF_RANGE = (
    "A number of a network left the range of numbers, or became too large; rows are drawn from its last state before "
    "that."
)

_ALIKE = (
    "Nearly all rows that the network draws are alike: in each column of many values, one or two make up 98 of 100. "
    "Unless the private rows are like that, it has learned nothing: take smaller step sizes, or another generator."
)
