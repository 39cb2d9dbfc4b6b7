"""Tables of two and three columns, chosen one after another.

Round by round, the marginal that the current model describes worst is chosen privately, as in AIM (McKenna 2022), and
counted (``SelectionRounds``). If a table has more cells than its rows can support, coarser versions are offered too
(``CoarseTables``). How coarse follows from what a model of earlier answers expects in the cells, and from the known
number of rows, never from the counts themselves.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from synth.generators.adaptive.bins import ColumnBins
from synth.generators.adaptive.budget import CHOOSING, columns_gain
from synth.generators.adaptive.coarsening import grouped
from synth.generators.adaptive.survey import Survey
from synth.generators.stacked import IMPORTANCE
from synth.models.joint_model import Fitter
from synth.models.junction_tree import ColumnSet
from synth.models.marginals import NoisyMarginal, coarse
from synth.privacy.bins import Bins
from synth.privacy.feature_maps import OneHot
from synth.privacy.selection import Candidate
from synth.schema import Weight, column_title

__all__ = ["CoarseTables", "SelectionRounds", "TableOffered", "expected_errors", "sampling_errors"]

Vector = NDArray[np.float64]

_TRIPLE_WEIGHT = 0.5
"""Weight of a wrong row in a table of three columns, relative to one of two: three pairs share the information."""

_PARTS = (16, 8, 4)
"""Maximum number of parts of a column in a coarse table, finest first; the label keeps its classes."""

_SHARPER = 0.5

_ROOT = math.sqrt(2.0 / math.pi)

_MOST_CANDIDATES = 10_000
"""Maximum number of pairs that are compared in a round; a public draw if there are more."""

_SEVERAL = 4
"""Different tables that are asked before a round's share grows or the rounds end: one answer shows little."""

_REST = 3
"""A table is asked again only after one other table for every this many columns."""

_TOO_FINE, _TOO_FINE_OF_FEW = 1.0, 0.25
"""Error from noise and chance, as a share of the rows, above which a table is offered in a coarser version too; smaller
if a small table has only a few rounds. In larger tables, coarse answers came before fine ones and hid them: errors of
sets of three columns were larger by .006 on white wine and .014 on simulated trips."""


@dataclass(frozen=True, slots=True, eq=False)
class TableOffered:
    """A candidate: a table that may be counted next.

    Attributes
    ----------
    columns : tuple of int
    one_hot : OneHot
        The question that counts it.
    believed : array of the shape of ``one_hot``, float64
        These counts by a model of earlier answers, in rows.
    cells : array of shape (bins of each column), whole numbers, optional
        For a coarse table, the count to which each combination of bins belongs.
    """

    columns: ColumnSet
    one_hot: OneHot
    believed: NDArray[np.float64]
    cells: NDArray[np.intp] | None = None


class CoarseTables:
    """Make coarse versions of tables; each is made once, as it is a candidate in many rounds.

    Parameters
    ----------
    survey : Survey
    bins : sequence of ColumnBins
    """

    def __init__(self, survey: Survey, bins: Sequence[ColumnBins]) -> None:
        self._survey, self._bins = survey, bins
        self._groups: dict[tuple[int, int], tuple[NDArray[np.int32], Bins]] = {}
        self._made: dict[tuple[ColumnSet, int], tuple[NDArray[np.intp], OneHot] | None] = {}

    def of(self, columns: ColumnSet, believed: NDArray[np.float64]) -> Iterator[TableOffered]:
        """Yield a table of bins with fewer and fewer parts.

        Parameters
        ----------
        columns : tuple of int
        believed : array of shape (bins of each column), float64
            In rows.
        """
        for parts in _PARTS:
            made = self._at(columns, parts)
            if made is not None:
                cells, one_hot = made
                yield TableOffered(columns, one_hot, coarse(believed, cells, one_hot.shape), cells)

    def _at(self, columns: ColumnSet, parts: int) -> tuple[NDArray[np.intp], OneHot] | None:
        """Return the cells of a table with so many parts, and its question; None if it is no coarser."""
        if (columns, parts) not in self._made:
            groups = [self._grouped(column, parts) for column in columns]
            sizes = [int(group.max()) + 1 for group, _ in groups]
            made = None
            if any(size < self._bins[column].size for column, size in zip(columns, sizes, strict=True)):
                cells = np.zeros((), dtype=np.intp)
                for (group, _), size in zip(groups, sizes, strict=True):
                    cells = cells[..., None] * size + group
                made = cells, self._survey.one_hot(columns, {c: g for c, (_, g) in zip(columns, groups, strict=True)})
            self._made[columns, parts] = made
        return self._made[columns, parts]

    def _grouped(self, column: int, parts: int) -> tuple[NDArray[np.int32], Bins]:
        """Return the part of every bin of a column, and of every code."""
        if (column, parts) not in self._groups:
            one = self._bins[column]
            group = grouped(one, one.size if column == self._survey.label else parts, 0.0)
            self._groups[column, parts] = group, one.grouped(group)
        return self._groups[column, parts]


class SelectionRounds:
    """Choose, count and fit until the budget is spent.

    Parameters
    ----------
    survey : Survey
        Pairs with its label are always candidates if the model can ever hold them.
    bins : tuple of ColumnBins
    fitter : Fitter
    share : float
        Share of the session's budget for all rounds.
    rounds : float
        Number of rounds at the first round's share; the share grows when tables show too little.
    cells : int
        Maximum number of cells of the joint model.
    few : bool
        Whether there are so few rounds that coarse tables are better.
    for_label : bool
        Whether a wrong row in a table with the label counts more.
    groups : tuple of int
        Positions of columns whose groups are compared: tables of two columns with one of them count more.
    unit_noise : float
        Noise of a count that gets the whole budget, in rows.
    total : float
        Known or estimated number of rows.
    columns_spent : float
        Share of the session's budget that single columns have got.
    seed : int
    """

    def __init__(
        self,
        survey: Survey,
        bins: tuple[ColumnBins, ...],
        *,
        fitter: Fitter,
        share: float,
        rounds: float,
        cells: int,
        few: bool,
        for_label: bool,
        groups: tuple[int, ...],
        unit_noise: float,
        total: float,
        columns_spent: float,
        seed: int,
    ) -> None:
        self._survey, self._session, self._columns = survey, survey.session, survey.columns
        self._label, self._source = survey.label, survey.source
        self._fitter, self._unit_noise, self._total = fitter, unit_noise, total
        self._share, self._cells, self._for_label, self._groups = share, cells, for_label, groups
        self._too_fine = _TOO_FINE_OF_FEW if few else _TOO_FINE
        self._columns_gain = columns_gain(bins, columns_spent)
        # Computed once: a column may have millions of codes.
        self._bins = [one.bins for one in bins]
        self._one_hots: dict[ColumnSet, OneHot] = {}
        self._coarse = CoarseTables(survey, bins)
        useful = [d for d, one in enumerate(bins) if one.size > 1]
        self._pairs = list(itertools.combinations(useful, 2))
        self._random = np.random.Generator(np.random.PCG64(seed))
        self._asked: list[ColumnSet] = []
        self._rest = max(len(useful) // _REST, 1)
        self.left = share
        self._part = share / rounds

    def run(self, measured: list[NoisyMarginal], refitted: Callable[[float], None], *, until: float = 1.0) -> bool:
        """Ask until the share is spent, or is better spent on columns, and add every answer to ``measured``.

        Parameters
        ----------
        measured : list of NoisyMarginal
            Answers so far; the fitter has been fitted to them.
        refitted : callable
            Called with the spent fraction of the share after every fit of the model.
        until : float
            Fraction of the share after which to stop; another call spends the rest.

        Returns
        -------
        bool
            Whether nothing is left to spend on tables.
        """
        kept = (1.0 - until) * self._share
        left, part = self.left, self._part
        while self._pairs and left > kept:
            spent = 1.0 - left / self._share
            limit = int(self._cells * max(0.2, spent))
            subsets = self._rested(self._candidates(limit))
            believed = {columns: self._total * table for columns, table in self._fitter.tables(subsets).items()}
            offered = self._offered(believed, part)
            chosen: list[NoisyMarginal] = []
            before = left
            while left > kept and offered and len(chosen) < self._fitter.together:
                answer, spent = self._ask(offered, part, left)
                left -= spent
                self.left = left
                chosen.append(answer)
                offered = [one for one in offered if one.columns != answer.columns]
            measured.extend(chosen)
            self._fitter.refit(measured, last=False)
            refitted(1.0 - left / self._share)
            several = len(set(self._asked)) >= min(_SEVERAL, len(self._pairs))
            if several and self._below_noise(chosen):
                if self._moved(believed) * left / (before - left) < self._columns_gain(left):
                    return True
                part = self._part = 2 * part
        return left <= 0 or not self._pairs

    def _candidates(self, limit: int) -> list[ColumnSet]:
        """Return the tables that may be counted next, by declared facts and earlier answers."""
        pairs = self._pairs
        if len(pairs) > _MOST_CANDIDATES:
            drawn = self._random.choice(len(pairs), _MOST_CANDIDATES, replace=False)
            pairs = [pairs[one] for one in np.sort(drawn)]
        subsets = dict.fromkeys(self._fitter.candidates(pairs, limit))
        if self._label is not None:
            labelled = [pair for pair in self._pairs if self._label in pair]
            subsets.update(dict.fromkeys(self._fitter.candidates(labelled, self._cells)))
        # The model may not hold any further pair, but some question has to be asked.
        return list(subsets) or [self._pairs[0]]

    def _rested(self, subsets: list[ColumnSet]) -> list[ColumnSet]:
        """Return the tables that were not asked recently, or all if there are none."""
        lately = set(self._asked[-self._rest :])
        return [subset for subset in subsets if subset not in lately] or subsets

    def _offered(self, believed: dict[ColumnSet, NDArray[np.float64]], part: float) -> list[TableOffered]:
        """Return tables of bins, and coarser versions of those with too large an error from noise and chance."""
        offered = [TableOffered(columns, self._counted(columns), table) for columns, table in believed.items()]
        if not self._fitter.takes_coarse:
            return offered
        most = self._too_fine * self._total
        noise = self._noise(part)
        for one, off in zip(list(offered), self._unexplained(offered, noise), strict=True):
            if off > most:
                coarser = list(self._coarse.of(one.columns, one.believed))
                clear = self._unexplained(coarser, noise) <= most if coarser else np.zeros(0)
                if coarser:
                    offered.append(coarser[int(np.argmax(clear)) if clear.any() else -1])
        return offered

    def _unexplained(self, offered: Sequence[TableOffered], noise: float) -> NDArray[np.float64]:
        """Return the error that counting would leave in tables if the model is right, in rows."""
        tables = [one.believed for one in offered]
        return np.asarray(np.hypot(expected_errors(tables, noise), sampling_errors(tables)))

    def _counted(self, columns: ColumnSet) -> OneHot:
        """Return the question for a table of counts; made once, as it is a candidate in many rounds."""
        if columns not in self._one_hots:
            self._one_hots[columns] = self._survey.one_hot(columns, self._bins)
        return self._one_hots[columns]

    def _noise(self, part: float) -> float:
        """Return the noise of a table's counts in a round."""
        return self._unit_noise / math.sqrt(part - CHOOSING * part)

    def _ask(self, offered: Sequence[TableOffered], part: float, left: float) -> tuple[NoisyMarginal, float]:
        """Choose one table and count it; return the answer and the share of the budget that it took."""
        choosing = CHOOSING * min(part, left)
        tables = [one.believed for one in offered]
        errors = expected_errors(tables, self._noise(part))
        sharper = _sharper(errors)
        # Noise and chance are independent, so they add up in squares.
        penalties = np.hypot(errors / np.sqrt(sharper), sampling_errors(tables))
        weights = [self._weight(one.columns) for one in offered]
        candidates = [
            Candidate(one.one_hot, one.believed, weight=weight, penalty=weight * float(penalty))
            for one, weight, penalty in zip(offered, weights, penalties, strict=True)
        ]
        selection = self._session.noisy_max(
            candidates, share=choosing, query=f"choice {len(self._asked) + 1}", source=self._source
        )
        chosen = offered[selection.index]
        self._asked.append(chosen.columns)
        named = [column_title(self._session.schema, name) for name in chosen.one_hot.columns]
        counting = (1.0 - CHOOSING) * part * float(sharper[selection.index])
        # A remainder too small for a round of its own goes into this one.
        last = left - choosing - counting < part
        release = self._session.noisy_sum(
            chosen.one_hot,
            # Shares are rounded down; the last question takes the remainder.
            share=self._session.remaining_share if last else counting,
            query=f"table {len(self._asked)}: {' x '.join(named)}",
            source=self._source,
        )
        counts = np.asarray(release.value, dtype=np.float64)
        answer = NoisyMarginal(chosen.columns, counts, release.noise_std, chosen.believed, chosen.cells)
        return answer, left if last else choosing + counting

    def _weight(self, columns: ColumnSet) -> float:
        """Return the weight of a wrong row: the geometric mean of declared importance, more with a label to predict."""
        weight = math.prod(IMPORTANCE[self._columns[d].weight] for d in columns) ** (1 / len(columns))
        if self._for_label and self._label in columns:
            weight *= IMPORTANCE[Weight.HIGH]
        if len(columns) == 2 and any(group in columns for group in self._groups):
            weight *= IMPORTANCE[Weight.HIGH]
        return weight * (_TRIPLE_WEIGHT if len(columns) > 2 else 1.0)

    def _moved(self, before: dict[ColumnSet, NDArray[np.float64]]) -> float:
        """Return how far the last answers moved all pairs together, as a share of the rows."""
        pairs = [columns for columns in before if len(columns) == 2]
        now = self._fitter.tables(pairs)
        return math.fsum(float(np.abs(now[pair] - before[pair] / self._total).sum()) for pair in pairs) / 2

    def _below_noise(self, chosen: Sequence[NoisyMarginal]) -> bool:
        """Whether the model moved by less than noise alone would move it: then fewer, sharper questions are better."""
        tables = self._fitter.tables([one.columns for one in chosen])
        moved = allowed = 0.0
        for one in chosen:
            if one.believed is not None:
                moved += float(np.abs(self._total * one.counted(tables[one.columns]) - one.believed).sum())
                allowed += float(expected_errors([one.believed], one.noise_std)[0])
        return moved <= allowed


def _sharper(errors: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return how much more than an equal share each table should get, by its expected error at the same noise.

    The error of a table grows with its cells and falls with the root of what is spent on it, so the sum over tables is
    smallest if each gets a share in proportion to its cells to the power of 2/3. The power is smaller here, as large
    tables are also the sparsest, and the share is bounded, so that no table takes it all.
    """
    logs = np.log(np.maximum(errors, 1e-12))
    return np.asarray(np.clip(np.exp(_SHARPER * (logs - logs.mean())), 0.4, 3.0))


def expected_errors(believed: Sequence[NDArray[np.float64]], noise: float) -> NDArray[np.float64]:
    """Return the approximate error of each table after it was counted with noise and fitted, in rows.

    A fit shrinks towards what was believed, so the error of a small count is at most about its own size.
    """
    variance = np.concatenate([table.reshape(-1) for table in believed]) ** 2
    starts = np.cumsum([0, *(table.size for table in believed[:-1])])
    return np.asarray(_ROOT * noise * np.add.reduceat(np.sqrt(variance / (variance + noise**2)), starts))


def sampling_errors(believed: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
    """Return the approximate sampling error of each table if the model is right, in rows.

    A Poisson count with expectation m has an average error of sqrt(2 m / pi), and of 2 m if m is small.
    """
    expected = np.concatenate([table.reshape(-1) for table in believed])
    starts = np.cumsum([0, *(table.size for table in believed[:-1])])
    return np.asarray(np.add.reduceat(np.minimum(2.0 * expected, _ROOT * np.sqrt(expected)), starts))
