r"""Private selection by the exponential mechanism: candidates, their whole-number scores, and the choice.

A candidate's score is weight * |histogram - table|_1 - penalty: how badly a public table describes the rows, less the
cost of improving it. One row moves one count by 1, so it moves a score by at most the weight. Counts are
integers, and tables, weights and penalties are rounded to whole steps before rows are read: what a row moves does not
depend on the order of rows or on how they are counted. The cost is proved in ``docs/proofs/exponential-mechanism.md``.
Other candidates are scored by how much a column depends on others (``more/dependence.py``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from synth.errors import PrivacyError
from synth.privacy.costs import MU_UNIT, Bound, between_neighbours, exponential_of_mu, mu_of_exponential, units_of
from synth.privacy.counting import PrivateRows, tables_of_counts
from synth.privacy.feature_maps import OneHot, frozen
from synth.privacy.more.cells import pure_units_of
from synth.privacy.more.dependence import Dependence, dependences_of
from synth.privacy.noise import NoiseSource
from synth.privacy.questions import (
    Allowance,
    Answer,
    Digest,
    Numbers,
    OneReceipt,
    Question,
)
from synth.privacy.receipt import PlannedCost, Receipt
from synth.schema import Schema

__all__ = [
    "ONE_SCORE",
    "SCORE_STEP",
    "AnyCandidate",
    "Candidate",
    "ChoicePlan",
    "PrivateChoice",
    "Selection",
    "scores_of",
    "sensitivity_of_choice",
]

TABLE_BITS = 10
WEIGHT_BITS = 12
SCORE_STEP = 2.0 ** -(TABLE_BITS + WEIGHT_BITS)
"""Scores are whole multiples of this, in units of one row of the candidate with the largest weight."""

ONE_SCORE = Bound(norm=1.0, diameter=2.0)
"""One row changes one count of a candidate by 1, replacing it changes two; the largest weight is scaled to 1."""

LARGEST_TABLE = 2.0**36
"""Most rows that a public table may describe; keeps every score below 2^61 steps."""

BLOCK_CELLS = 2**14
"""Cells whose distances are calculated at a time: what a cache holds."""

ROUNDED_DOWN = 1 - 2.0**-40


@dataclass(frozen=True, slots=True, eq=False)
class Candidate:
    """A table of counts that might be worth measuring.

    Parameters
    ----------
    one_hot : OneHot
        What would be counted.
    table : array of the shape of ``one_hot``, float64
        Public: what is believed about these counts so far, in rows; made of declared facts and earlier answers.
    weight : float
        Public and positive: how much a wrong row counts.
    penalty : float
        Public: taken off the score, in weighted rows; for example the expected error of measuring.
    """

    one_hot: OneHot
    table: NDArray[np.float64]
    weight: float = 1.0
    penalty: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "table", frozen(np.array(self.table, dtype=np.float64)))
        name, asked = ", ".join(self.columns), self.one_hot.shape
        if not (math.isfinite(self.weight) and self.weight > 0 and math.isfinite(self.penalty)):
            raise PrivacyError(f"Candidate {name}: the weight must be positive and finite, the penalty finite.")
        if not np.abs(self.table).sum() <= LARGEST_TABLE:  # nor where it holds a number that is not finite
            raise PrivacyError(f"Candidate {name}: the table must hold finite numbers of at most 2^36 rows together.")
        if self.table.shape != asked:
            raise PrivacyError(
                f"Candidate {name}: the table has the shape {self.table.shape}; its bins require {asked}."
            )

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that are counted."""
        return self.one_hot.columns

    @property
    def bound(self) -> Bound:
        """How far one row moves its score; the largest weight is scaled to 1."""
        return ONE_SCORE

    def is_same(self, other: object) -> bool:
        """Whether another candidate asks for the same score, to the last bit."""
        return (
            type(other) is Candidate
            and self.one_hot.is_same(other.one_hot)
            and (self.weight, self.penalty) == (other.weight, other.penalty)
            and self.table.tobytes() == other.table.tobytes()
        )


AnyCandidate = Candidate | Dependence


@dataclass(frozen=True, slots=True, eq=False)
class Selection(OneReceipt):
    """The candidate that a private selection chose, and what it cost."""

    receipt: Receipt
    index: int
    candidate: AnyCandidate


@dataclass(frozen=True, slots=True)
class ChoicePlan:
    """The parameter of the exponential mechanism, the sensitivity of a score, and the number of candidates.

    ``pure`` is whether its cost is the parameter itself, as pure epsilon.
    """

    parameter: float
    sensitivity: float
    candidates: int
    pure: bool = False
    coordinates: ClassVar[int] = 0

    @property
    def rate(self) -> Fraction:
        """The factor of a score in the exponent of a candidate's weight."""
        return Fraction(self.parameter) / (2 * Fraction(self.sensitivity)) * Fraction(SCORE_STEP)

    @property
    def costs(self) -> tuple[PlannedCost, ...]:
        """The one cost."""
        cost = PlannedCost(
            mechanism="exponential",
            sensitivity=self.sensitivity,
            noise_scale=self.parameter,
            dimension=self.candidates,
            grid=SCORE_STEP,
            mu_squared_units=0 if self.pure else units_of(mu_of_exponential(self.parameter) ** 2),
            pure_units=pure_units_of(self.parameter) if self.pure else 0,
        )
        return (cost,)


@dataclass(frozen=True, slots=True, eq=False)
class PrivateChoice(Question[ChoicePlan, Selection]):
    """Which of the candidates describes the rows worst; or which column depends most on its possible parents."""

    unforeseen: ClassVar[str] = "What follows '{query}'"
    answers_pure: ClassVar[bool] = True

    candidates: tuple[AnyCandidate, ...]

    def check(self, schema: Schema) -> None:
        """Refuse candidates that do not fit the schema, or none, or of two kinds; and any where a cell is hidden."""
        schema.require_whole_rows()
        if not self.candidates:
            raise PrivacyError("A selection needs at least one candidate.")
        kinds = {(type(one), one.score if isinstance(one, Dependence) else "") for one in self.candidates}
        if kinds not in ({(Candidate, "")}, {(Dependence, "R")}, {(Dependence, "F")}):
            raise PrivacyError("All candidates of a selection must be scored in the same way, and in a known one.")
        for candidate in self.candidates:
            candidate.one_hot.check_codes(schema)

    def plan(self, allowed: Allowance) -> ChoicePlan:
        """Find the largest parameter."""
        pure = allowed.budget.is_pure
        # Units of 2^-40 below 2^53 are exact as a float.
        parameter = (
            allowed.units * MU_UNIT if pure else exponential_of_mu(math.sqrt(allowed.units * MU_UNIT) * ROUNDED_DOWN)
        )
        return ChoicePlan(parameter, allowed.between_neighbours(self.candidates[0].bound), len(self.candidates), pure)

    def digest(self) -> str:
        """Return the digest of everything that is weighed: all candidates, in order."""
        found = Digest("choice")
        for one, bins in ((one, one.one_hot.bins) for one in self.candidates):
            digests = [None if each is None else each.digest for each in bins]
            if isinstance(one, Dependence):
                found.add_words([one.score, list(one.columns), list(one.one_hot.sizes), digests])
                continue
            found.add_words([list(one.columns), float(one.weight), float(one.penalty), digests])
            found.add_array(one.table)
        return found.hexdigest()

    def draw(self, plan: ChoicePlan, rows: PrivateRows, noise: NoiseSource, *, device: str) -> Numbers:
        """Score every candidate exactly, and choose."""
        scores, rate = self._scores(rows), plan.rate
        chosen = noise.choose(scores, numerator=rate.numerator, denominator=rate.denominator)
        return (np.array([chosen], dtype=np.int64),)

    def answer(self, receipts: tuple[Receipt, ...], numbers: Numbers) -> Selection:
        """Return the chosen candidate; scores stay with the rows."""
        (receipt,), (chosen,) = receipts, numbers
        index = int(chosen[0])
        return Selection(receipt, index, self.candidates[index])

    def again(self, answer: Answer) -> Selection:
        """Return an old choice among as many candidates."""
        if not isinstance(answer, Selection) or len(self.candidates) != answer.receipt.dimension:
            raise PrivacyError(
                f"'{answer.query}' was asked with other candidates; use the options of the recorded run."
            )
        return Selection(answer.receipt, answer.index, self.candidates[answer.index])

    def _scores(self, rows: PrivateRows) -> NDArray[np.int64]:
        dependent = [one for one in self.candidates if isinstance(one, Dependence)]
        if dependent:
            return dependences_of(dependent, rows, bits=TABLE_BITS + WEIGHT_BITS)
        return scores_of([one for one in self.candidates if isinstance(one, Candidate)], rows)


def sensitivity_of_choice(candidate: AnyCandidate, schema: Schema) -> float:
    """Return how far one unit moves the score of any candidate of a private choice, in rows of weight 1.

    It depends on the kind of the candidates alone: weights are divided by the largest before they are scored.
    """
    return between_neighbours(candidate.bound, schema)


def scores_of(candidates: Sequence[Candidate], rows: PrivateRows) -> NDArray[np.int64]:
    """Score every candidate on the rows, in whole multiples of ``SCORE_STEP``.

    Weights are divided by the largest and rounded down, so that the largest is exactly 1 and one more row moves no
    score by more than 1.
    """
    largest = max(candidate.weight for candidate in candidates)
    whole_weights = np.floor(np.array([one.weight for one in candidates]) / largest * 2**WEIGHT_BITS).astype(np.int64)
    with np.errstate(over="ignore"):  # what overflows is cut off as well
        penalties = np.array([candidate.penalty for candidate in candidates]) / largest
    whole_penalties = np.floor(np.clip(penalties, -(2.0**36), 2.0**36) / SCORE_STEP).astype(np.int64)
    return np.asarray(whole_weights * _distances(candidates, rows) - whole_penalties)


def _distances(candidates: Sequence[Candidate], rows: PrivateRows) -> NDArray[np.int64]:
    """Return the L1 distance of every candidate's table to the counts, in steps of 2^-TABLE_BITS rows."""
    distances: list[NDArray[np.int64]] = []
    counts: list[NDArray[np.int32]] = []
    tables: list[NDArray[np.float64]] = []
    held = 0
    all_counts = tables_of_counts(rows, [candidate.one_hot.axes for candidate in candidates])
    for candidate, found in zip(candidates, all_counts, strict=True):
        counts.append(found)
        tables.append(candidate.table.reshape(-1))
        held += found.size
        if held >= BLOCK_CELLS:
            distances.append(_distances_of(counts, tables))
            counts, tables, held = [], [], 0
    if counts:
        distances.append(_distances_of(counts, tables))
    return np.concatenate(distances)


def _distances_of(counts: Sequence[NDArray[np.int32]], tables: Sequence[NDArray[np.float64]]) -> NDArray[np.int64]:
    believed = np.concatenate(tables)
    believed *= 2.0**TABLE_BITS
    gaps = np.rint(believed, out=believed).astype(np.int64)
    found = np.concatenate(counts, dtype=np.int64)
    found <<= TABLE_BITS
    gaps -= found
    np.abs(gaps, out=gaps)
    return np.asarray(np.add.reduceat(gaps, np.cumsum([0, *(one.size for one in counts[:-1])])))
