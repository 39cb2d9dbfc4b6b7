r"""Values found privately: texts of some columns that occur in more rows than any single unit could have.

The occurrences of each text in each column are counted; every count that is not zero gets noise; the texts whose noisy
count reaches a threshold are released with it, and nothing about the others. The list of texts is private, so a count
of zero gets no noise and is never released: a text that one unit alone holds would reveal that unit. The threshold is
such that this happens with probability at most ``delta_key``, which the receipt states as an additional delta. The
proof is ``docs/proofs/found-values.md``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr, ndtri

from synth.errors import PrivacyError
from synth.privacy.costs import Bound, GaussianPlan
from synth.privacy.counting import MAXIMUM_ROWS, PrivateRows
from synth.privacy.noise import NoiseSource
from synth.privacy.questions import Allowance, Answer, Digest, Numbers, OneReceipt, Question
from synth.privacy.receipt import PlannedCost, Receipt
from synth.schema import FindColumn, Neighbours, Schema

__all__ = [
    "VALUE_GRIDS",
    "FoundValues",
    "ValuesPlan",
    "ValuesQuestion",
    "bound_of_row",
    "key_delta_of",
    "keys_of_unit",
    "largest_count",
    "threshold_of",
]

VALUE_GRIDS = (12, 14, 16)
"""Halves of the bits of a row's grid, in order of preference; a count of 2^27 rows is at most 2^59 steps."""

_LARGEST_NOISE = 2**53
"""In grid steps; no magnitude of noise reaches it (:data:`synth.privacy.noise.MAXIMUM_SCALE`)."""

_MARGIN = 1e-9
"""Relative margin over the errors of two distribution functions, on the safe side."""

_COARSE_BITS = 10
"""A threshold is a whole number of 2^-10 rows, so that the last bits of a distribution function do not change it."""


def keys_of_unit(columns: int, schema: Schema) -> int:
    """Return how many texts can belong to one unit alone, in a table or its neighbour: one for each changed cell."""
    return columns * schema.unit.rows_per_unit * (1 if schema.neighbours is Neighbours.ADD_REMOVE else 2)


def largest_count(grid: float) -> int:
    """Return a bound on every noisy count, in grid steps: all rows of the largest table, and the largest noise."""
    return MAXIMUM_ROWS * round(1 / grid) + _LARGEST_NOISE


def threshold_of(*, noise_std: float, grid: float, rows_per_unit: int, keys: int, delta_key: float) -> int:
    r"""Return the least threshold that texts of one unit alone pass with probability at most ``delta_key``.

    Parameters
    ----------
    noise_std, grid : float
        As a receipt states them, in rows.
    rows_per_unit : int
        Rows that one unit can have: m.
    keys : int
        Texts that can belong to one unit alone: k m, or twice as many where a unit is replaced.
    delta_key : float
        In (0, 1).

    Returns
    -------
    int
        In grid steps: m + sigma z rows and one step, rounded up, where (1 - Phi(-z))^keys = 1 - delta_key.
    """
    steps = _steps(noise_std, grid)
    each = -math.expm1(math.log1p(-delta_key) / keys)
    away = math.ceil(steps * max(-float(ndtri(each)), 0.0) * (1 + _MARGIN)) + 1
    coarse = max(round(1 / grid) >> _COARSE_BITS, 1)
    return rows_per_unit * round(1 / grid) + -(-away // coarse) * coarse


def key_delta_of(*, noise_std: float, grid: float, rows_per_unit: int, keys: int, threshold: int) -> float:
    """Return a bound on the probability that a text of one unit alone passes a threshold; arguments as above."""
    beyond = threshold - rows_per_unit * round(1 / grid) - 1
    if beyond < 0:
        return 1.0
    each = min(math.exp(float(log_ndtr(-beyond / _steps(noise_std, grid)))) * (1 + _MARGIN), 1.0)
    return 1.0 if each >= 1 else -math.expm1(keys * math.log1p(-each)) * (1 + _MARGIN)


def _steps(noise_std: float, grid: float) -> float:
    """Return the standard deviation in grid steps; receipts state it rounded down by a last digit."""
    return math.nextafter(math.nextafter(noise_std, math.inf) / grid, math.inf)


@dataclass(frozen=True, slots=True, eq=False)
class ValuesPlan:
    """Noise and threshold of found values."""

    gaussian: GaussianPlan
    keys: int
    threshold: int
    delta_key: float

    @property
    def coordinates(self) -> int:
        """Noisy numbers that can differ between neighbours."""
        return self.keys

    @property
    def costs(self) -> tuple[PlannedCost, ...]:
        """The one cost: of the noise, and of the probability that a text of one unit alone passes."""
        return (replace(PlannedCost.of_sum(self.gaussian, self.keys), additive_delta=self.delta_key),)


@dataclass(frozen=True, slots=True, eq=False)
class FoundValues(OneReceipt):
    """Texts that enough rows hold, with their noisy counts, and a receipt; safe to keep, print and publish.

    ``values`` are (column, text, noisy count), by column as asked and then by text; counts and ``threshold`` are whole
    numbers of grid steps.
    """

    receipt: Receipt
    question: ValuesQuestion
    threshold: int
    values: tuple[tuple[str, str, int], ...]

    def counts(self, column: str) -> dict[str, float]:
        """Return the found texts of one column with their noisy counts, in rows."""
        return {text: steps * self.receipt.grid for name, text, steps in self.values if name == column}


@dataclass(frozen=True, slots=True, eq=False)
class ValuesQuestion(Question[ValuesPlan, FoundValues]):
    """Which texts many rows hold in these columns, and about how many rows.

    Parameters
    ----------
    columns : tuple of str
        Open columns, each once.
    delta_key : float
        Largest probability of releasing a text that one unit alone holds; added to delta.
    """

    columns: tuple[str, ...]
    delta_key: float

    def check(self, schema: Schema) -> None:
        """Refuse columns that are described already, and any where a cell is hidden."""
        schema.require_whole_rows()
        if not self.columns or len(set(self.columns)) != len(self.columns):
            raise PrivacyError("Values can be found in one or more columns, each named once.")
        if not all(isinstance(schema[name], FindColumn) for name in self.columns):
            raise PrivacyError("Values can be found only in columns that are to be found privately ('type: find').")
        if not 0 < self.delta_key < 1:
            raise PrivacyError(f"delta_key must lie strictly between 0 and 1, got {self.delta_key}.")

    def plan(self, allowed: Allowance) -> ValuesPlan:
        """Find the least noise, and the threshold that goes with it."""
        k, keys = len(self.columns), keys_of_unit(len(self.columns), allowed.schema)
        sensitivity = allowed.between_neighbours(bound_of_row(k))
        gaussian = allowed.least_noise(VALUE_GRIDS, lambda _: sensitivity, keys)
        threshold = threshold_of(
            noise_std=gaussian.noise_std,
            grid=gaussian.grid,
            rows_per_unit=allowed.schema.unit.rows_per_unit,
            keys=keys,
            delta_key=self.delta_key,
        )
        return ValuesPlan(gaussian, keys, threshold, self.delta_key)

    def digest(self) -> str:
        """Return the digest of the columns and the probability."""
        found = Digest("values")
        found.add_words([list(self.columns), self.delta_key])
        return found.hexdigest()

    def draw(self, plan: ValuesPlan, rows: PrivateRows, noise: NoiseSource, *, device: str) -> Numbers:
        """Count texts, add noise to every count, and keep those that reach the threshold, in a public order."""
        if rows.texts is None:
            raise PrivacyError("This table was opened without its texts; open it to find values in it.")
        row, kept = round(1 / plan.gaussian.grid), []
        for place, counts in enumerate(rows.texts(self.columns)):
            noisy = row * np.fromiter(counts.values(), np.int64, len(counts))
            noisy += noise.gaussian(plan.gaussian.variance, len(counts))
            passed = noisy >= plan.threshold
            kept += sorted((place, text, int(noisy[one])) for one, text in enumerate(counts) if passed[one])
        letters = [np.frombuffer(text.encode("utf-32-le"), "<u4").astype(np.int64) for _, text, _ in kept]
        listed = np.array([(place, count, len(text)) for place, text, count in kept], dtype=np.int64).reshape(-1, 3)
        return (np.array([plan.threshold]), listed, np.concatenate([np.empty(0, np.int64), *letters]))

    def answer(self, receipts: tuple[Receipt, ...], numbers: Numbers) -> FoundValues:
        """Return the texts that the whole numbers encode."""
        (receipt,), (threshold, cells, letters) = receipts, numbers
        listed = cells.reshape(-1, 3)
        values = tuple(
            (self.columns[place], text, count)
            for (place, count, _), text in zip(listed.tolist(), _texts(listed[:, 2], letters), strict=True)
        )
        return FoundValues(receipt, self, int(threshold[0]), values)

    def again(self, answer: Answer) -> FoundValues:
        """Return old values that were asked for in the same columns."""
        if not isinstance(answer, FoundValues) or self.digest() != answer.question.digest():
            raise PrivacyError(f"'{answer.query}' was asked of other columns; use the options of the recorded run.")
        return answer

    def foreseen(self, receipts: tuple[Receipt, ...], plan: ValuesPlan) -> FoundValues:
        """Return no values."""
        return FoundValues(receipts[0], self, plan.threshold, ())


def bound_of_row(columns: int) -> Bound:
    """Bound what one row adds: 1 to one count of every column; another row may add to other counts."""
    return Bound(math.sqrt(columns) * (1 + _MARGIN), math.sqrt(2 * columns) * (1 + _MARGIN))


def _texts(lengths: NDArray[np.int64], letters: NDArray[np.int64]) -> Iterator[str]:
    ends = np.cumsum(lengths).tolist()
    for start, end in zip([0, *ends], ends, strict=False):
        yield letters[start:end].astype("<u4").tobytes().decode("utf-32-le")
