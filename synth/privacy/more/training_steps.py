"""Questions that are asked again at every step of a training, each step where the noisy answers before it have led.

A training alternates: what has been learned so far, which is public because it follows from noisy answers, says where
the next step is taken; the step reads rows and its answer is made noisy; the training learns from that. All steps are
one question, planned and charged before the first of them, with one receipt. Only noisy answers leave it, step by step,
and what the training makes of them is post-processing.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from synth.errors import PrivacyError
from synth.privacy.costs import GaussianPlan
from synth.privacy.counting import PrivateRows
from synth.privacy.feature_maps import Arrays, Inner
from synth.privacy.noise import NoiseSource
from synth.privacy.questions import Answer, Digest, Numbers, OneReceipt, Question
from synth.privacy.receipt import Mechanism, PlannedCost, Receipt
from synth.schema import Schema

__all__ = ["NoisySteps", "PublicTraining", "Step", "StepsPlan", "StepsQuestion"]

Step = Callable[[int, NDArray[np.float64]], NDArray[np.int64]]
"""Takes the number of a step, from 0, and the public point where it is taken; returns the exact answer in grid steps,
shape (dimension,)."""


class PublicTraining(Protocol):
    """What is trained on noisy steps and says where the next one is taken. It has no access to rows."""

    @property
    def taken(self) -> int:
        """Number of steps that it has learned from."""
        ...

    def at(self) -> NDArray[np.float64]:
        """Return where the next step is taken: a point that follows from the noisy steps before it."""
        ...

    def move(self, step: NDArray[np.float64]) -> None:
        """Learn from one noisy step, shape (dimension,), in units of the answer; may raise to stop."""
        ...


@dataclass(frozen=True, slots=True)
class StepsPlan:
    """Noise of every step of one question: all of it public.

    Attributes
    ----------
    gaussian : GaussianPlan
        Of each step, in units of the answer.
    cost : PlannedCost
        Of all steps together.
    """

    gaussian: GaussianPlan
    cost: PlannedCost

    @property
    def coordinates(self) -> int:
        """Noisy numbers of all steps."""
        return self.cost.dimension

    @property
    def costs(self) -> tuple[PlannedCost, ...]:
        """The one cost."""
        return (self.cost,)


@dataclass(frozen=True, slots=True, eq=False)
class NoisySteps(OneReceipt):
    """The noisy steps of one training and their receipt; safe to keep, print and publish."""

    receipt: Receipt
    question: StepsQuestion
    """What was asked; public."""
    whole: NDArray[np.signedinteger]
    """Noisy steps in grid steps, shape (steps, dimension); read-only, and of any size of integers, as there may be
    millions."""

    def __post_init__(self) -> None:
        whole = np.asarray(self.whole).reshape(self.question.steps, self.question.dimension).view()
        if whole.dtype.kind != "i":
            raise PrivacyError("Noisy steps are whole numbers of grid steps.")
        whole.flags.writeable = False
        object.__setattr__(self, "whole", whole)

    def train(self, training: PublicTraining) -> None:
        """Let a training learn from the steps that it has not learned from yet: all of them, if they are repeated."""
        for step in self.whole[training.taken :]:
            training.move(np.asarray(step * self.receipt.grid, dtype=np.float64))


class StepsQuestion(Question[StepsPlan, NoisySteps]):
    """A question that is asked at every step of a training.

    A subclass defines what a step reads, and by how much one unit can move the answers of all steps together, wherever
    they are taken.
    """

    __slots__ = ()

    kind: ClassVar[str]
    """Its name in a bundle."""
    mechanism: ClassVar[Mechanism]
    """Of its receipt."""

    training: PublicTraining | None
    """What learns from the steps while they are answered; None where old answers are only checked."""
    steps: int
    """Number of steps."""

    @property
    @abstractmethod
    def dimension(self) -> int:
        """Noisy numbers of a step."""

    @abstractmethod
    def of_rows(self, plan: StepsPlan, rows: PrivateRows, noise: NoiseSource, *, device: str) -> Step:
        """Return what takes a step on these rows, exactly; it may hold whatever it likes until the last step.

        ``noise`` is there for private samples of rows alone.
        """

    def draw(self, plan: StepsPlan, rows: PrivateRows, noise: NoiseSource, *, device: str) -> Numbers:
        """Take every step, add noise, and let the training learn from it before the next."""
        training = self.training
        if training is None or training.taken:
            raise PrivacyError("Steps can be taken on rows only together with a training that has not begun.")
        take = self.of_rows(plan, rows, noise, device=device)
        numbers = np.empty((self.steps, self.dimension), dtype=np.int64)
        for number, noisy in enumerate(numbers):
            noisy[:] = take(number, training.at()) + noise.gaussian(plan.gaussian.variance, self.dimension)
            training.move(np.asarray(noisy * plan.gaussian.grid, dtype=np.float64))
        return (numbers,)

    def answer(self, receipts: tuple[Receipt, ...], numbers: Numbers) -> NoisySteps:
        """Return the steps in grid steps."""
        (receipt,), (noisy,) = receipts, numbers
        return NoisySteps(receipt, self, noisy)

    def again(self, answer: Answer) -> NoisySteps:
        """Return old answers to the same question."""
        if not isinstance(answer, NoisySteps) or self.digest() != answer.question.digest():
            raise PrivacyError(
                f"'{answer.query}' was asked about other columns or with other settings; use the options of the "
                "recorded run."
            )
        return answer

    def foreseen(self, receipts: tuple[Receipt, ...], plan: StepsPlan) -> NoisySteps:
        """Return zeros: what the steps cost does not depend on where they are taken."""
        return self.answer(receipts, (np.zeros((self.steps, self.dimension), dtype=np.int64),))

    def digest(self) -> str:
        """Return the digest of everything but the training."""
        said, arrays = self.to_json("", {})
        found = Digest(self.kind)
        found.add_words(said)
        for name, array in arrays.items():
            found.add_words(name)
            found.add_array(array)
        return found.hexdigest()

    @abstractmethod
    def sensitivity(self, schema: Schema) -> float:
        """Return how far one unit moves the answer, as its receipt states it, in units of the answer."""

    def problems(self, receipt: Receipt) -> Iterator[str]:
        """Yield contradictions between this question and a receipt, besides those of sensitivity and noise."""
        return iter(())

    @abstractmethod
    def to_json(self, name: str, arrays: Arrays) -> tuple[dict[str, Any], Arrays]:
        """Return everything but the training: JSON types, and the arrays that they name, added to those given."""

    @classmethod
    @abstractmethod
    def from_json(cls, said: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], inner: Inner) -> Self:
        """Make the question, without a training, of what ``to_json`` returned."""
