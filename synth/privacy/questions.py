"""What a question about private rows is: planned from public data alone, charged, and only then answered.

A kind of question knows whether it fits a declared table, what noise a part of the budget buys, how it is answered from
rows, and what its answer looks like: in a receipt, in the file of answers, and to anyone who checks that file. The
kinds are sums (``answers``), choices (``selection``) and those of ``more``; ``answers`` lists them all.
"""

from __future__ import annotations

import hashlib
import json
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from synth.errors import PrivacyError
from synth.privacy.accounting import PrivacyBudget
from synth.privacy.costs import Bound, GaussianPlan, LaplacePlan, gaussian_on_grid, laplace_on_grid
from synth.privacy.counting import PrivateRows
from synth.privacy.feature_maps import FeatureMap
from synth.privacy.noise import MAXIMUM_SCALE, NoiseSource
from synth.privacy.receipt import PlannedCost, Receipt
from synth.schema import Schema

__all__ = [
    "Allowance",
    "Answer",
    "Asked",
    "Digest",
    "KeptAnswers",
    "Numbers",
    "OneReceipt",
    "Plan",
    "Question",
    "name_of",
    "plan_of",
]

Numbers = tuple[NDArray[np.int64], ...]
"""An answer before it is scaled: whole numbers of grid steps, an index, codes."""


@dataclass(frozen=True, slots=True)
class Allowance:
    """What a question may cost, and about which table it is asked; all of it public.

    ``units`` are those of ``budget``, the whole one, that the question may spend; ``slack`` is its discretisation cost
    c, and ``between_neighbours`` turns the bound of one row into that of one unit. ``additive_delta`` is what the
    questions before it have added to delta.
    """

    schema: Schema
    budget: PrivacyBudget
    units: int
    slack: float
    between_neighbours: Callable[[Bound], float]
    additive_delta: float = 0.0

    def least_laplace(self, grids: Sequence[int], sensitivity: Callable[[int], float]) -> LaplacePlan:
        """Find the least Laplace noise, on the first grid that can carry it.

        Parameters
        ----------
        grids : sequence of int
            Halves of the bits of each grid, in order of preference.
        sensitivity : callable
            Takes half the bits of a grid; returns how far one unit moves the answer there, in L1.

        Raises
        ------
        PrivacyError
            If no grid can carry such noise: the share is far too small.
        """
        for half_bits in grids:
            plan = laplace_on_grid(half_bits, sensitivity(half_bits), units=self.units)
            if plan.scale <= MAXIMUM_SCALE:
                return plan
        raise PrivacyError("No grid carries the noise of a question at this share of the budget; choose more epsilon.")

    def least_noise(self, grids: Sequence[int], sensitivity: Callable[[int], float], dimension: int) -> GaussianPlan:
        """Find the least Gaussian noise, on the first grid whose discretisation costs at most what is allowed.

        Parameters
        ----------
        grids : sequence of int
            Halves of the bits of each grid, in order of preference.
        sensitivity : callable
            Takes half the bits of a grid; returns how far one unit moves the answer there, in units of the answer.
        dimension : int
            Noisy numbers.

        Raises
        ------
        PrivacyError
            If no grid can carry such noise: the share is far too small or far too large.
        """
        for half_bits in grids:
            plan = gaussian_on_grid(half_bits, sensitivity(half_bits), dimension=dimension, units=self.units)
            if plan.slack <= self.slack and math.isqrt(plan.variance) + 1 <= MAXIMUM_SCALE:
                return plan
        raise PrivacyError(
            f"No grid carries the noise of a question with {dimension:,} numbers at this share of the budget; "
            "ask fewer numbers at a time, or choose epsilon between 0.001 and 100."
        )


class Plan(Protocol):
    """The noise of one question, calculated before a row is read."""

    @property
    def coordinates(self) -> int:
        """Noisy numbers for whose Gaussian tails a part of delta is set aside."""
        ...

    @property
    def costs(self) -> tuple[PlannedCost, ...]:
        """What each of its receipts will state; the first is that of the question itself."""
        ...


class Answer(ABC):
    """An answer with its receipts and the public question it was given to; safe to keep, print and publish."""

    __slots__ = ()

    @property
    @abstractmethod
    def receipts(self) -> tuple[Receipt, ...]:
        """The receipt of the question, and those of anything that came with it."""

    @property
    def query(self) -> str:
        """Name of the question."""
        return self.receipts[0].query

    def assumptions(self, schema: Schema) -> tuple[str, ...]:
        """Return the assumptions of its receipts, in addition to those of every receipt of the table."""
        return ()


class OneReceipt(Answer):
    """An answer with a single receipt."""

    __slots__ = ()

    receipt: Receipt

    @property
    def receipts(self) -> tuple[Receipt, ...]:
        """The one receipt."""
        return (self.receipt,)


PlanT = TypeVar("PlanT", bound=Plan)
AnswerT = TypeVar("AnswerT", bound=Answer, covariant=True)


class Question(ABC, Generic[PlanT, AnswerT]):
    """One question of a kind that the session knows."""

    __slots__ = ()

    tells_row_count: ClassVar[bool] = False
    """Whether its answer shows the number of rows, which must then be public."""

    unforeseen: ClassVar[str] = ""
    """The part of ``{query}`` that depends on rows, so that later questions cannot be planned; empty without any."""

    answers_pure: ClassVar[bool] = False
    """Whether it can be answered about whole rows with a delta of 0."""

    @abstractmethod
    def check(self, schema: Schema) -> None:
        """Refuse what cannot be asked of the declared table, by an error that costs nothing."""

    @abstractmethod
    def plan(self, allowed: Allowance) -> PlanT:
        """Find the least noise that keeps the question within what is allowed."""

    def check_size(self, plan: PlanT, n_rows: float) -> None:
        """Refuse an answer about too many rows; asked only where their number is public."""

    @abstractmethod
    def digest(self) -> str:
        """Return a SHA-256 that two questions share exactly if they are the same data, to the last bit."""

    @abstractmethod
    def draw(self, plan: PlanT, rows: PrivateRows, noise: NoiseSource, *, device: str) -> Numbers:
        """Read the rows and return the noisy answer in whole numbers."""

    @abstractmethod
    def answer(self, receipts: tuple[Receipt, ...], numbers: Numbers) -> AnswerT:
        """Return the answer that the whole numbers stand for."""

    @abstractmethod
    def again(self, answer: Answer) -> AnswerT:
        """Return an old answer if it was given to this question.

        Raises
        ------
        PrivacyError
            If it was given to another one.
        """

    def foreseen(self, receipts: tuple[Receipt, ...], plan: PlanT) -> AnswerT:
        """Return an answer without rows, where the next questions do not depend on it."""
        raise PrivacyError("What is asked next depends on this answer.")


def plan_of(question: Question[PlanT, Any], allowed: Allowance) -> PlanT:
    """Plan the noise of a question within what is allowed.

    Raises
    ------
    PrivacyError
        As :meth:`Question.plan`, and where delta is 0 and the question needs one.
    """
    if allowed.budget.delta == 0 and not question.answers_pure:
        raise PrivacyError(
            "With a delta of 0 only counts and private choices can be asked for. Choose a delta above 0, for example "
            "1e-6."
        )
    return question.plan(allowed)


@dataclass(frozen=True, slots=True, eq=False)
class Asked:
    """A question as it was planned, before a row is read: its receipts, and a digest of everything else about it."""

    receipts: tuple[Receipt, ...]
    digest: str

    def to_dict(self) -> dict[str, Any]:
        """Return JSON types that are equal exactly if the questions are."""
        return {"receipts": [receipt.to_dict() for receipt in self.receipts], "digest": self.digest}


class KeptAnswers(Protocol):
    """Where a session writes its answers before it passes them on, and reads them again."""

    def repeated(self, asked: Asked) -> Numbers | None:
        """Return the kept answer that is next, or None where no more are left.

        Raises
        ------
        JobError
            If it was given to another question, or cannot be read; every later question is then refused as well.
        """
        ...

    def keep(self, asked: Asked, answer: Numbers) -> None:
        """Write an answer; once this returns it survives a crash.

        Raises
        ------
        DiskFullError, JobError
            If it cannot be written. The answer must then not be used.
        """
        ...


_IN_ORDER = json.JSONEncoder(sort_keys=True)


class Digest:
    """A SHA-256 of words and arrays, each with its length and shape.

    In an array 0.0 and -0.0 are one number: the file of answers writes them alike.
    """

    def __init__(self, kind: str) -> None:
        self._found = hashlib.sha256(kind.encode())
        self._said: dict[int, tuple[NDArray[Any], bytes]] = {}

    def add_words(self, words: Any) -> None:
        """Add JSON types."""
        said = _IN_ORDER.encode(words).encode()
        self._found.update(len(said).to_bytes(8, "big") + said)

    def add_array(self, array: NDArray[Any]) -> None:
        """Add an array, its type and its shape; it must not change until the digest is made."""
        if id(array) not in self._said:  # thousands of candidates share a few arrays of bins
            said = f'["{array.dtype.str}", {list(array.shape)}]'.encode()  # the JSON of both, in a tenth of its time
            plain = array + 0.0 if array.dtype.kind == "f" else array
            self._said[id(array)] = array, len(said).to_bytes(8, "big") + said + plain.tobytes()
        self._found.update(self._said[id(array)][1])

    def add_map(self, feature_map: FeatureMap) -> None:
        """Add a map: two maps have one digest exactly if they are the same data, to the last bit."""
        description, arrays = feature_map.describe()
        self.add_words(description)
        for name, array in arrays.items():
            self.add_words(name)
            self.add_array(array)

    def hexdigest(self) -> str:
        """Return the digest of what was added."""
        return self._found.hexdigest()


def name_of(feature_map: FeatureMap) -> str:
    """Return a name that two different maps never share, and that no column has."""
    found = Digest(feature_map.kind)
    found.add_map(feature_map)
    return f"\0{feature_map.kind} {found.hexdigest()}"
