"""What a forecast contains: the expected error of tables of counts, and the meaning of epsilon."""

from __future__ import annotations

import functools
import heapq
import math
import statistics
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from synth.generators.protocol import Fact
from synth.reports.holdout import WIDEST_LOSS, WIDEST_RANGE
from synth.reports.measured import BAR
from synth.reports.risk_bounds import (
    advantage_against_noise,
    advantage_ceiling,
    caught_against_noise,
    laplace_advantage,
    laplace_true_positive,
    posterior,
    printed_ceiling,
    true_positive_ceiling,
)
from synth.reports.wording import number_text, rounded_up

__all__ = [
    "NO_LIMIT",
    "Basis",
    "BudgetShare",
    "CellForecast",
    "ColumnNoise",
    "Forecast",
    "ModelForecast",
    "PairForecasts",
    "PredictionForecast",
    "Promise",
    "promise_of",
]

_FALSE_POSITIVE = 0.01

NO_LIMIT = 1e6
"""Odds that may change by more than this are given in words: no digit of such a number means anything."""

Basis = Literal["generator", "evaluation", "if measured"]
"""Who measures a table: the generator, the charged evaluation, or nobody (its error if all pairs were measured)."""


@dataclass(frozen=True, slots=True)
class BudgetShare:
    """One line of "where the budget goes": a fraction of mu^2."""

    name: str
    question: str
    share: float


@dataclass(frozen=True, slots=True)
class CellForecast:
    """Expected error of one table of counts.

    Attributes
    ----------
    columns : tuple of str
        One column, or a pair, as a reader is told them.
    cells : int
        Counts in the table.
    noise_std : float
        Standard error of one count, in rows.
    moved : float
        Rows that noise moves to another value, as a fraction of :attr:`Forecast.rows`: half the expected sum of the
        errors of all counts. It is not a distance between tables and may exceed 1; then noise leaves no usable signal.
    basis : Basis
        Who measures it.
    """

    columns: tuple[str, ...]
    cells: int
    noise_std: float
    moved: float
    basis: Basis

    @classmethod
    def of(cls, columns: tuple[str, ...], cells: int, noise_std: float, rows: float, basis: Basis) -> CellForecast:
        """Return the forecast for a table of counts with independent normal errors among so many rows."""
        moved = cells * noise_std * math.sqrt(2 / math.pi) / (2 * rows)
        return cls(columns, cells, noise_std, moved, basis)

    @property
    def range95(self) -> float:
        """The error of a count is at most this many rows with 95 % probability."""
        return BAR * self.noise_std

    @property
    def usable(self) -> bool:
        """Whether noise leaves any signal in the table as a whole."""
        return self.moved < 1

    @property
    def moved_words(self) -> str:
        """``moved`` as it is printed; at most all rows."""
        return f"{self.moved:.1%}" if self.usable else "no usable signal"


@dataclass(frozen=True, slots=True)
class PairForecasts:
    """Expected errors of the tables of all pairs of columns, made when they are needed.

    Five thousand columns have twelve million pairs; all but the few that a generator measures share one standard error.

    Attributes
    ----------
    names : tuple of str
        The columns, as a reader is told them; pairs are in the order of :func:`itertools.combinations`. Fewer than two
        have none.
    bins : tuple of int
        Public bins of each column.
    noise_std : float
        Standard error of one count, in rows, of a pair that is not measured, if all pairs were.
    rows : float
        Rows that :attr:`CellForecast.moved` refers to.
    measured : mapping of two columns to CellForecast
        The pairs that the generator measures.
    """

    names: tuple[str, ...] = ()
    bins: tuple[int, ...] = ()
    noise_std: float = 0.0
    rows: float = 1.0
    measured: Mapping[frozenset[str], CellForecast] = field(default_factory=dict)

    def __len__(self) -> int:
        return math.comb(len(self.names), 2)

    def __iter__(self) -> Iterator[CellForecast]:
        last = len(self.names)
        return (self._of(left, right) for left in range(last) for right in range(left + 1, last))

    @property
    def range95(self) -> tuple[float, float] | None:
        """95 % error of a typical count of a pair and of the worst, in rows; None if there is no pair."""
        others = len(self) - len(self.measured)
        own = sorted(cell.range95 for cell in self.measured.values())
        if not len(self):
            return None
        common = BAR * self.noise_std
        place = sum(value < common for value in own)

        def at(rank: int) -> float:
            # All ranges in order: measured ones below the common one, the common one, measured ones above it.
            return own[rank] if rank < place else common if rank < place + others else own[rank - others]

        middle = (at((len(self) - 1) // 2) + at(len(self) // 2)) / 2
        return middle, at(len(self) - 1)

    def worst(self, most: int) -> list[CellForecast]:
        """Return the pairs in which noise moves the most rows, the worst first, without making all pairs."""
        order = sorted(range(len(self.names)), key=lambda place: -self.bins[place])
        # Unmeasured pairs have the same noise, so those with the most cells are worst: from the largest product down.
        heap = [(-self.bins[order[0]] * self.bins[order[1]], 0, 1)] if len(order) > 1 else []
        found = list(self.measured.values())
        unmeasured = 0
        while heap and unmeasured < most:
            _, left, right = heapq.heappop(heap)
            columns = sorted((order[left], order[right]))
            if frozenset(self.names[place] for place in columns) not in self.measured:
                found.append(self._of(*columns))
                unmeasured += 1
            if right + 1 < len(order):
                heapq.heappush(heap, (-self.bins[order[left]] * self.bins[order[right + 1]], left, right + 1))
            if right == left + 1 and right + 1 < len(order):
                heapq.heappush(heap, (-self.bins[order[right]] * self.bins[order[right + 1]], right, right + 1))
        return sorted(found, key=lambda cell: -cell.moved)[:most]

    def _of(self, left: int, right: int) -> CellForecast:
        columns = (self.names[left], self.names[right])
        measured = self.measured.get(frozenset(columns))
        if measured is not None:
            return measured
        return CellForecast.of(columns, self.bins[left] * self.bins[right], self.noise_std, self.rows, "if measured")


@dataclass(frozen=True, slots=True)
class Promise:
    """What epsilon means: odds, and what no attacker can exceed.

    ``odds`` is the largest factor by which anyone's odds can change; ``even`` and ``rare`` are the largest beliefs that
    can result from 50 % and 1 %. ``advantage`` and ``caught`` (true positives at 1 % false alarms) hold for any method
    that meets the promise; ``noise_advantage`` and ``noise_caught`` for the noise of this release. These four are
    rounded up to the printed digits.
    """

    odds: float
    even: float
    rare: float
    advantage: float
    caught: float
    noise_advantage: float
    noise_caught: float

    @property
    def odds_words(self) -> str:
        """The factor as it is printed: three digits, rounded up, and in words if it is no real limit."""
        if self.odds > NO_LIMIT:
            return "more than a million times"
        return f"\N{MULTIPLICATION SIGN}{number_text(rounded_up(self.odds, 3))}"

    @property
    def even_words(self) -> str:
        """The largest belief that can result from even odds, in hundredths, rounded up."""
        believed = math.ceil(100 * self.even - 1e-9)
        return f"{believed}:{100 - believed}" if believed < 100 else "almost certain"


@dataclass(frozen=True, slots=True)
class ColumnNoise:
    """Noise on each cell of a column if rows are released one by one.

    ``std`` is its standard deviation as a fraction of the column's whole range.
    """

    column: str
    std: float

    @property
    def drowned(self) -> bool:
        """Whether noise is wider than the whole range."""
        return self.std > 1


@dataclass(frozen=True, slots=True)
class PredictionForecast:
    """Expected error of predictions on the hold-out, from noise alone.

    Attributes
    ----------
    rows : float
        Held-out rows: one for each of the most units there may be, times the share held out.
    bins : int
        Bins of prediction: guessed classes times bins of confidence; 1 if a number is predicted.
    noise_std : float
        Standard error of one count, in rows; for a number that of the sum of losses.
    groups : tuple of (name, values, standard error)
        Columns whose groups are compared, with the standard error of one of their counts or sums.
    number : bool
        Whether the label is a number; then a mean squared error is measured, with the declared range as 1.
    """

    rows: float
    bins: int
    noise_std: float
    groups: tuple[tuple[str, int, float], ...] = ()
    number: bool = False

    @property
    def measure(self) -> str:
        """What is measured, in words."""
        return "mean squared error (declared range as 1)" if self.number else "accuracy"

    @property
    def accuracy_std(self) -> float:
        """Standard error of the accuracy, which adds up one count of every bin; an upper bound for a mean loss."""
        return self.noise_std * math.sqrt(self.bins) / self.rows

    @property
    def hidden(self) -> bool:
        """Whether noise will hide it: its range is wider than a report shows."""
        return BAR * self.accuracy_std > (WIDEST_LOSS if self.number else WIDEST_RANGE)

    def group_rows(self, noise_std: float) -> float:
        """Return how many held-out rows a group needs for a standard error of ``told``."""
        return noise_std * math.sqrt(self.bins) / self.told

    @property
    def told(self) -> float:
        """A standard error small enough to tell groups apart."""
        return 0.01 if self.number else 0.05


@dataclass(frozen=True, slots=True)
class ModelForecast:
    """What a model says about a fit in advance: facts that follow from noise and declarations, and its assumptions."""

    facts: tuple[Fact, ...]
    assumptions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Forecast:
    """How accurate a run will be, from declared facts alone.

    ``people`` is the declared upper bound on the number of units; ``rows`` is the number of rows that shares of rows
    refer to, and ``rows_sentence`` says which rows these are. ``row_count_std`` is the standard error of the number of
    rows, 0 if it is public. ``columns`` is empty if nothing measures single columns. ``parts`` says where the budget
    goes; the shares add up to 1. ``row_noise`` is the noise on every column if rows are released one by one;
    ``row_epsilon`` is, if single cells are protected, what the same noise is worth for a whole row with the same label.
    ``prediction`` is the expected error of predictions on the hold-out, if they are paid for. ``of_model`` is what a
    model says about its fit; it makes no rows, so no counts have errors. ``counted`` is what counts are of: rows, or
    units that are kept whole.
    """

    epsilon: float
    delta: float
    people: int
    rows: float
    rows_sentence: str
    promise: Promise
    columns: tuple[CellForecast, ...]
    pairs: PairForecasts
    row_count_std: float
    parts: tuple[BudgetShare, ...]
    row_noise: tuple[ColumnNoise, ...] = ()
    row_epsilon: float | None = None
    prediction: PredictionForecast | None = None
    of_model: ModelForecast | None = None
    counted: str = "rows"

    @property
    def column_range(self) -> float | None:
        """95 % error of a typical count of one column, in rows."""
        return statistics.median(cell.range95 for cell in self.columns) if self.columns else None

    @property
    def pair_range(self) -> float | None:
        """95 % error of a typical count of a pair, in rows."""
        typical = self.pairs.range95
        return None if typical is None else typical[0]

    @property
    def trustworthy(self) -> float | None:
        """Counts of one column above about this many rows are known to within 10 %."""
        return None if not self.columns else 10 * max(cell.noise_std for cell in self.columns)


@functools.lru_cache(maxsize=1024)
def promise_of(epsilon: float, delta: float, *, pure: bool = False) -> Promise:
    """Explain a promise; formulas only.

    Parameters
    ----------
    epsilon, delta : float
    pure : bool
        Whether the noise is on single cells: it then has delta 0, and its own curve is that of Laplace noise.
    """
    if pure:
        delta = 0.0
        advantage = printed_ceiling(laplace_advantage(epsilon))
        caught = printed_ceiling(laplace_true_positive(epsilon, _FALSE_POSITIVE))
    else:
        advantage = advantage_against_noise(epsilon, delta)
        caught = caught_against_noise(epsilon, delta, _FALSE_POSITIVE)
    return Promise(
        odds=math.exp(min(epsilon, 700.0)),
        even=posterior(0.5, epsilon),
        rare=posterior(0.01, epsilon),
        advantage=printed_ceiling(advantage_ceiling(epsilon, delta)),
        caught=printed_ceiling(true_positive_ceiling(epsilon, delta, _FALSE_POSITIVE)),
        noise_advantage=advantage,
        noise_caught=caught,
    )
