r"""How much a column depends on others, as the score of a private choice: the scores R and F of PrivBayes, in rows.

In a table of counts c of a column x and its possible parents p, with the table's own total n,

.. math:: R = \frac12 \sum_{x, p} \left| c_{xp} - \frac{c_x c_p}{n} \right|

is the number of rows that would have to move for the column to be independent of its parents (Zhang 2017).
One row more or less moves it by less than 2, and another row in place of one by less than 3, whatever the table. It
is computed in whole numbers and rounded down once, so a row moves the rounded score by no more than that.

F is for columns of two values. It is minus the number of rows that would have to move for the parents to determine the
column and both of its values to be as frequent. One row moves it by at most 1, under either relation. Both proofs are
in ``docs/proofs/dependence.md``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from synth.errors import PrivacyError
from synth.privacy.costs import Bound
from synth.privacy.counting import PrivateRows, tables_of_counts
from synth.privacy.feature_maps import OneHot

__all__ = ["ONE_BINARY", "ONE_DEPENDENCE", "Dependence", "DependenceScore", "dependences_of"]

DependenceScore = Literal["R", "F"]

ONE_DEPENDENCE = Bound(norm=2.0, diameter=3.0)
"""Most that R moves by one row more, and by another row in place of one, in rows."""

ONE_BINARY = Bound(norm=1.0, diameter=1.0)
"""The same for F."""


@dataclass(frozen=True, slots=True, eq=False)
class Dependence:
    """A column and its possible parents.

    Parameters
    ----------
    one_hot : OneHot
        What is counted to score them: the column first, then the parents. Two to six columns.
    score : {"R", "F"}
        F only for a column of two bins.
    """

    one_hot: OneHot
    score: DependenceScore = "R"

    def __post_init__(self) -> None:
        if self.score not in get_args(DependenceScore):
            raise PrivacyError(f"A dependence is scored by R or F, not by {self.score}.")
        if self.score == "F" and self.one_hot.shape[0] != 2:
            raise PrivacyError(f"Candidate {', '.join(self.columns)}: F scores a column of two values.")
        if len(self.columns) < 2:
            raise PrivacyError(f"Candidate {', '.join(self.columns)}: a column depends on at least one other column.")

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that are counted, the dependent one first."""
        return self.one_hot.columns

    @property
    def bound(self) -> Bound:
        """How far one row moves its score."""
        return ONE_DEPENDENCE if self.score == "R" else ONE_BINARY

    def is_same(self, other: object) -> bool:
        """Whether another candidate asks for the same score."""
        return type(other) is Dependence and self.score == other.score and self.one_hot.is_same(other.one_hot)


def dependences_of(candidates: Sequence[Dependence], rows: PrivateRows, *, bits: int) -> NDArray[np.int64]:
    """Score every candidate on the rows, in whole multiples of 2^-``bits`` rows, rounded down.

    Parameters
    ----------
    candidates : sequence of Dependence
    rows : PrivateRows
        Fewer than 2^27 of them, so that no number here leaves 2^55.
    bits : int
        At most 26.
    """
    counted = tables_of_counts(rows, [candidate.one_hot.axes for candidate in candidates])
    scores = [
        _dependence(counts, one.one_hot.shape[0], bits) if one.score == "R" else _determined(counts, bits)
        for one, counts in zip(candidates, counted, strict=True)
    ]
    return np.array(scores, dtype=np.int64)


def _dependence(counts: NDArray[np.int32], size: int, bits: int) -> int:
    """Return the score of one table of counts, given how many values the dependent column has."""
    table = counts.reshape(size, -1).astype(np.int64)
    total = int(table.sum())
    if total == 0:
        return 0
    gaps = total * table - np.outer(table.sum(axis=1), table.sum(axis=0))  # n times what is between the bars
    whole, rest = divmod(int(np.abs(gaps, out=gaps).sum()), 2 * total)
    return (whole << bits) + (rest << bits) // (2 * total)


def _determined(counts: NDArray[np.int32], bits: int) -> int:
    """Return F of one table of counts of a column of two values.

    Each cell of the parents is given one of the values. ``most`` holds, for every number of rows that have the first
    value in cells that were given it, the most rows that have the second one in the other cells. Numbers of at least
    half of the rows are as good as half (Zhang 2017).
    """
    table = counts.reshape(2, -1).astype(np.int64)
    total = int(table.sum())
    half = (total + 1) // 2
    most = np.full(half + 1, -1, dtype=np.int64)
    most[0] = 0
    for first, second in table.T.tolist():
        given_second = np.where(most >= 0, most + second, -1)
        first = min(first, half)
        given_first = np.full(half + 1, -1, dtype=np.int64)
        given_first[first:] = most[: half + 1 - first]
        given_first[half] = max(int(most[half - first :].max()), -1)
        most = np.maximum(given_first, given_second)
    there = np.flatnonzero(most >= 0)
    missing = np.maximum(total - 2 * there, 0) + np.maximum(total - 2 * most[there], 0)
    return -((int(missing.min()) << bits) // 2)
