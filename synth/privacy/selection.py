r"""Candidates of a private selection and their whole-number scores.

A candidate's score is weight * |histogram - table|_1 - penalty: how badly a public table describes the rows, less what
it costs to do something about it. One row moves one count by 1, so it moves a score by at most the weight.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from synth.errors import PrivacyError
from synth.privacy.counting import Rows, axes_of, joint_counts
from synth.privacy.features import OneHot
from synth.privacy.receipt import Receipt

__all__ = ["SCORE_STEP", "Candidate", "Selection", "scores_of"]

TABLE_BITS = 10
WEIGHT_BITS = 12
SCORE_STEP = 2.0 ** -(TABLE_BITS + WEIGHT_BITS)
"""Scores are whole multiples of this, in units of one row of the candidate with the largest weight."""

LARGEST_TABLE = 2.0**36
"""Most rows a public table may speak of; keeps every score below 2^61 steps."""


@dataclass(frozen=True, slots=True, eq=False)
class Candidate:
    """A table of counts that might be worth measuring.

    Parameters
    ----------
    columns : tuple of str
        One to three modelled columns.
    table : array of shape (bins of each column), float64
        Public: what is believed about these counts so far, in rows; made of declared facts and earlier answers.
    weight : float
        Public and positive: how much a wrong row counts.
    penalty : float
        Public: taken off the score, in weighted rows; for example the expected error of measuring.
    bins : tuple of (array of shape (column size,), int32, or None), optional
        Bin of every code, by column; None where the code is the bin.
    """

    columns: tuple[str, ...]
    table: NDArray[np.float64]
    weight: float = 1.0
    penalty: float = 0.0
    bins: tuple[NDArray[np.int32] | None, ...] = ()

    def __post_init__(self) -> None:
        table = np.array(self.table, dtype=np.float64)
        table.setflags(write=False)
        object.__setattr__(self, "table", table)
        object.__setattr__(self, "columns", tuple(self.columns))
        object.__setattr__(self, "bins", tuple(self.bins) or (None,) * len(self.columns))
        named = ", ".join(self.columns)
        if not (math.isfinite(self.weight) and self.weight > 0 and math.isfinite(self.penalty)):
            raise PrivacyError(f"Candidate {named}: the weight must be positive and finite, the penalty finite.")
        if not (np.isfinite(table).all() and np.abs(table).sum() <= LARGEST_TABLE):
            raise PrivacyError(f"Candidate {named}: the table must hold finite numbers of at most 2^36 rows together.")
        if table.shape != self.one_hot.shape:
            raise PrivacyError(
                f"Candidate {named}: the table has the shape {table.shape}; its bins ask for {self.one_hot.shape}."
            )

    @property
    def one_hot(self) -> OneHot:
        """The table of counts that is compared; sizes of columns without bins are those of the table."""
        sizes = tuple(size if one is None else len(one) for size, one in zip(self.table.shape, self.bins, strict=False))
        return OneHot(self.columns, self.bins, sizes)


@dataclass(frozen=True, slots=True, eq=False)
class Selection:
    """The candidate that a private selection chose, and what it cost."""

    receipt: Receipt
    index: int
    candidate: Candidate


def scores_of(candidates: Sequence[Candidate], rows: Rows) -> NDArray[np.int64]:
    """Score every candidate on the rows, in whole multiples of ``SCORE_STEP``.

    Weights are divided by the largest and rounded down, so that the largest is exactly 1 and one more row moves no
    score by more than 1.
    """
    largest = max(candidate.weight for candidate in candidates)
    return np.array([_score(candidate, largest, rows) for candidate in candidates], dtype=np.int64)


def _score(candidate: Candidate, largest_weight: float, rows: Rows) -> int:
    weight = math.floor(candidate.weight / largest_weight * 2**WEIGHT_BITS)
    counts = joint_counts(rows, axes_of(candidate.one_hot)) * 2**TABLE_BITS
    believed = np.rint(candidate.table.reshape(-1) * 2.0**TABLE_BITS).astype(np.int64)
    penalty = max(-(2.0**36), min(candidate.penalty / largest_weight, 2.0**36))
    distance = int(np.abs(counts - believed).sum())
    return int(weight * distance - math.floor(penalty / SCORE_STEP))
