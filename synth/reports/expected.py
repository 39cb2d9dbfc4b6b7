"""What a forecast says: the error of tables of counts, and what epsilon means."""

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
"""Odds that may change by more than this are said in words: no digit of such a number means anything."""

Basis = Literal["generator", "evaluation", "if measured"]
"""Who measures a table: the generator, the charged evaluation, or nobody: what it would be if all pairs were."""


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
        One column, or a pair.
    cells : int
        Counts in the table.
    noise_std : float
        Standard error of one count, in rows.
    moved : float
        Rows that noise moves to another value, in parts of :attr:`Forecast.rows`: half the expected sum of the errors
        of all counts. It is no distance between tables and may exceed 1, where noise leaves no usable signal.
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
        """Return the forecast of a table of independent normal errors among so many rows."""
        moved = cells * noise_std * math.sqrt(2 / math.pi) / (2 * rows)
        return cls(columns, cells, noise_std, moved, basis)

    @property
    def range95(self) -> float:
        """A count is off by at most this many rows with 95 % chance."""
        return BAR * self.noise_std

    @property
    def usable(self) -> bool:
        """Whether noise leaves any signal in the table as a whole."""
        return self.moved < 1

    @property
    def moved_words(self) -> str:
        """``moved`` as it is printed; never more than all rows."""
        return f"{self.moved:.1%}" if self.usable else "no usable signal"


@dataclass(frozen=True, slots=True)
class PairForecasts:
    """Expected errors of the tables of all pairs of columns, made when they are asked for.

    Five thousand columns have twelve million pairs; all but the few that a generator measures share one standard error.

    Attributes
    ----------
    names : tuple of str
        The columns; pairs are in the order of :func:`itertools.combinations`. Fewer than two have none.
    bins : tuple of int
        Public bins of each column.
    noise_std : float
        Standard error of one count, in rows, of a pair that nobody measures, if all pairs were.
    rows : float
        Rows that :attr:`CellForecast.moved` refers to.
    measured : mapping of two columns to CellForecast
        What the generator measures.
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
        """95 % error of a typical count of a pair and of the worst, in rows; None where there is no pair."""
        others = len(self) - len(self.measured)
        own = sorted(cell.range95 for cell in self.measured.values())
        if not len(self):
            return None
        common = BAR * self.noise_std
        place = sum(value < common for value in own)

        def at(rank: int) -> float:
            # Of all ranges in order: measured ones below the common one, the common one, measured ones above it.
            return own[rank] if rank < place else common if rank < place + others else own[rank - others]

        middle = (at((len(self) - 1) // 2) + at(len(self) // 2)) / 2
        return middle, at(len(self) - 1)

    def worst(self, most: int) -> list[CellForecast]:
        """Return the pairs of which noise moves the largest part, the worst first; of all pairs only these are made."""
        order = sorted(range(len(self.names)), key=lambda place: -self.bins[place])
        # Without noise of its own a pair is moved by its number of cells: from the largest product downwards.
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

    ``odds`` is the largest factor by which anybody's odds change; ``even`` and ``rare`` are where beliefs of 50 % and
    1 % can end at most. ``advantage`` and ``caught`` (true positives at 1 % false alarms) hold for any method that
    meets the promise; ``noise_advantage`` and ``noise_caught`` for the noise of this release. These four are rounded up
    as they are printed.
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
        """The factor as it is said: three digits, never below what it is, and in words where it is no limit."""
        if self.odds > NO_LIMIT:
            return "more than a million times"
        return f"\N{MULTIPLICATION SIGN}{number_text(rounded_up(self.odds, 3))}"

    @property
    def even_words(self) -> str:
        """Where even odds can end at most, in hundredths, rounded up."""
        believed = math.ceil(100 * self.even - 1e-9)
        return f"{believed}:{100 - believed}" if believed < 100 else "almost certain"


@dataclass(frozen=True, slots=True)
class ColumnNoise:
    """Noise that each cell of a column will carry where rows are let out one by one.

    ``std`` is its standard deviation in units of how far one of the column's numbers can move: 1 is the whole range.
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
        Held-out rows: one for each unit there may be at most, times the share held out.
    bins : int
        Bins of prediction: guessed classes times bins of confidence; 1 where a number is predicted.
    noise_std : float
        Standard error of one count, in rows; of a number that of the sum of losses.
    groups : tuple of (name, values, standard error)
        Columns of groups that are told apart, with the standard error of one of their counts or sums.
    number : bool
        Whether the label is a number, so that what is measured is a mean squared error, its declared range being 1.
    """

    rows: float
    bins: int
    noise_std: float
    groups: tuple[tuple[str, int, float], ...] = ()
    number: bool = False

    @property
    def measure(self) -> str:
        """What is known so exactly, in words."""
        return "mean squared error (declared range as 1)" if self.number else "accuracy"

    @property
    def accuracy_std(self) -> float:
        """Standard error of the accuracy: in every bin the count of the guessed class is added up.

        Of a mean loss it is at most this.
        """
        return self.noise_std * math.sqrt(self.bins) / self.rows

    @property
    def hidden(self) -> bool:
        """Whether noise will hide even that: its range is wider than what a report shows."""
        return BAR * self.accuracy_std > (WIDEST_LOSS if self.number else WIDEST_RANGE)

    def group_rows(self, noise_std: float) -> float:
        """Return how many held-out rows a group needs for its measure to have a standard error of ``told``."""
        return noise_std * math.sqrt(self.bins) / self.told

    @property
    def told(self) -> float:
        """A standard error that tells groups apart."""
        return 0.01 if self.number else 0.05


@dataclass(frozen=True, slots=True)
class ModelForecast:
    """What a model says of a fit before it: facts that follow from noise and declared numbers, and what it assumes."""

    facts: tuple[Fact, ...]
    assumptions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Forecast:
    """What a run will give, from declared facts alone.

    ``people`` is the declared upper bound on the number of units; ``rows`` is the number of rows that shares of rows
    refer to, and ``rows_sentence`` says which rows these are. ``row_count_std`` is the standard error of the number of
    rows, 0 where it is public. ``columns`` is empty when nothing measures single columns. ``parts`` is where the budget
    goes; they add up to 1. ``row_noise`` is the noise on every column where rows are let out one by one;
    ``row_epsilon``, where one cell is hidden, what the same setting is worth for a whole row with the same label.
    ``prediction`` is what predictions on the hold-out will be off by, where they are paid for. ``of_model`` is what a
    model says of its fit; it makes no rows, so there are no counts to be off.
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
        """Counts of one column above about this many rows are known to 10 %."""
        return None if not self.columns else 10 * max(cell.noise_std for cell in self.columns)


@functools.lru_cache(maxsize=1024)
def promise_of(epsilon: float, delta: float, *, pure: bool = False) -> Promise:
    """Explain a promise; formulas only.

    Parameters
    ----------
    epsilon, delta : float
    pure : bool
        Whether the noise is that of single cells: it keeps epsilon with delta 0, and its own curve is Laplace noise's.
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
