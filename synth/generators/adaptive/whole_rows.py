"""Tables of the whole row: count many columns together in coarse cells, and tilt a pool of rows to the answers.

A joint model of pairs and triples cannot represent a class that depends on four columns at once, and holds few pairs
of a dense table. Here rows are drawn from that model (a pool). The columns of sets of three to six are divided into a
few parts of about equal mass. Round by round, the set that the pool describes worst is chosen privately and counted,
and the pool's rows are weighted to agree (``synth.models.pool``). Then all columns are counted together: rows by the
nearest of some centres of the pool (``synth.models.centres``) and the label. A row adds to one cell of every table.

The candidate sets follow from the pool, from declared facts and from the known number of rows.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from synth.generators.adaptive.bins import ColumnBins
from synth.generators.adaptive.budget import CHOOSING
from synth.generators.adaptive.survey import CLEAR, Survey
from synth.generators.adaptive.tables import expected_errors
from synth.generators.stacked import IMPORTANCE
from synth.models.cells import CellsOfSet, PoolCells, cells_of_columns
from synth.models.centres import CellsOfCentres, centres_of, squares_of
from synth.models.junction_tree import ColumnSet
from synth.models.marginals import JointModel, NoisyMarginal
from synth.models.pool import (
    CountedCells,
    Pool,
    TiltedPool,
    effective_rows,
    tempered,
    tilted,
)
from synth.privacy.answers import NoisyAnswer
from synth.privacy.bins import Bins
from synth.privacy.feature_maps import Constant, OneHot, Stack
from synth.privacy.more.linear_guesses import LinearGuess
from synth.privacy.more.lookups import Lookup
from synth.privacy.more.products import Product
from synth.privacy.selection import Candidate
from synth.schema import Weight, column_title

__all__ = ["STANDS_OUT", "WHOLE_ROUNDS", "WholeRows", "equal_parts", "sets_are_few"]

Vector = NDArray[np.float64]

_ROOT = math.sqrt(2.0 / math.pi)

WHOLE_ROUNDS = 12
"""Number of rounds for the budget of whole rows; fewer, sharper ones after an answer that shows nothing."""

STANDS_OUT = 0.15
"""Minimum error of the model in a first set, as a share of the rows and beyond noise and chance, for more to be asked:
less than the .17 to .98 of tables of up to twelve columns with relations among many."""

_ROUNDED = 1e-6
"""Fraction of a round by which rounding may change what is left: a replay of the answers must decide alike."""

CENTRES_SHARE = 1.0 / 3.0
"""Share of the budget of whole rows for tables by the nearest centre; one half was no better."""

_CENTRE_ROUNDS = 4
"""Number of rounds for that share: the pool has new centres in each."""

_ROWS_PER_NOISE = 2.5
"""Average rows in a cell by nearest centre and class, in units of the noise of its count."""

_FEWEST_CENTRES, _MOST_CENTRES = 4, 256

_CENTRE_ROWS = 10_000
"""Rows of the pool from which centres are found."""

_STEPS_OF_UNIT = 16
"""Steps of a coordinate in one standard deviation of a column, and between the two values of an indicator."""

_MOST_KINDS = 64
"""Maximum number of values of a category that counts in distances; columns with more are left out."""

_PARTS = (2, 4)
"""Numbers of parts into which columns are divided, alike in all columns of a set. Fine parts are halves of coarse ones,
so that coarse and fine sets show the same relations."""

_WITH_LABEL, _WITHOUT_LABEL = (2, 3, 4, 5), (3, 4)
"""Columns of a set in addition to the label, and of one without it."""

_ROWS_PER_CELL = 8.0
"""Minimum average rows in a cell of a set, by the public or released number of rows, never by exact counts."""

_MOST_CELLS = 2**12
_MOST_CLASSES = 2**8

_MOST_SETS = 600
"""Maximum number of candidate sets; a public draw if there are more, the same in all rounds."""

_LEAST_WEIGHED = 1.0 / 3.0
"""Minimum share of all sets that must be candidates: twelve columns with a label have 1,507 sets. In wider tables, a
draw has few of the sets, each shows few relations, and a first one stands out merely by its pairs. Sets made
discretised Adult (15 columns), census (41) and thirty dense columns worse: 3-way .036 to .043, .049 to .069 and .115 to
.142."""

_MOST_HELD = 64
"""Maximum number of base tables that a tilt must not move; only the single columns if there are more."""

_LEAST_EFFECTIVE = 4000.0
"""Minimum number of effective rows of a pool: with fewer, sets of other columns rest on too few rows. Thirty dense
columns are left with 1,000 after eight rounds, and their errors in sets of five are then larger than before; artificial
characters keep 5,000 and nine columns of a causal model 9,000."""

_STEPS, _LAST_STEPS = 12, 80

_ENTRY_BITS, _SCALE_BITS = 8, 4
"""Exponents of the powers of two by which coordinates, so that no row is longer than 1, and scores are divided."""


@dataclass(frozen=True, slots=True, eq=False)
class _Set:
    """A candidate set: its cells in the pool, and the same cells as a question about private rows."""

    cells: CellsOfSet
    one_hot: OneHot
    weight: float


class WholeRows:
    """Choose sets of columns, count them, and tilt a pool of the base to all answers.

    Parameters
    ----------
    survey : Survey
    bins : sequence of ColumnBins
    base : JointModel
        Fitted to ``measured``.
    measured : sequence of NoisyMarginal
        The answers to which the base was fitted; the single columns first.
    total : float
        Known or estimated number of rows.
    unit_noise : float
        Noise of a count that gets the whole budget, in rows.
    seed : int
    checked : callable
        Called regularly, so that a fit can be cancelled.
    """

    def __init__(
        self,
        survey: Survey,
        bins: Sequence[ColumnBins],
        base: JointModel,
        measured: Sequence[NoisyMarginal],
        *,
        total: float,
        unit_noise: float,
        seed: int,
        checked: Callable[[], None],
    ) -> None:
        self._survey, self._bins = survey, bins
        self._total, self._unit_noise, self._seed, self._checked = max(total, 1.0), unit_noise, seed, checked
        self._answers: list[CountedCells] = []
        self._asked = 0
        self._start(base, measured)
        self._sets = _Candidates(survey, bins, self._pool, self._total, seed).sets()
        self._within = _larger_by_one([one.cells for one in self._sets])
        self._finer = _finer([one.cells for one in self._sets])

    @property
    def can_ask(self) -> bool:
        """Whether there is any candidate set."""
        return bool(self._sets)

    @property
    def carries(self) -> bool:
        """Whether the pool has enough effective rows."""
        return effective_rows(self._weights) >= _LEAST_EFFECTIVE

    def rebase(self, base: JointModel, measured: Sequence[NoisyMarginal]) -> None:
        """Continue from a newly fitted base, and keep the answers."""
        answers = self._answers
        self._start(base, measured)
        self._answers = [replace(one, believed=self._expected(one.cells)) for one in answers]
        self._tilt(_STEPS)

    def run(self, share: float, report: Callable[[float], None]) -> None:
        """Ask until a share of the session's budget is spent, or tables show only noise and chance.

        It also ends if the pool has too few effective rows.

        Parameters
        ----------
        share : float
            All that the session has left.
        report : callable
            Called with the spent fraction of the share.
        """
        of_centres = CENTRES_SHARE * share
        of_sets = share - of_centres
        left, informative = self._ask_in_rounds(
            of_sets, WHOLE_ROUNDS, self.ask, lambda left: report((of_sets - left) / share), ends=False
        )
        # If sets of a few columns show nothing more, all columns together show little: on parities, only noise.
        if informative:
            # Centres do not get what sets have left.
            self._ask_in_rounds(
                of_centres, _CENTRE_ROUNDS, self.ask_by_centre, lambda left: report(1.0 - left / share), ends=left <= 0
            )

    def _ask_in_rounds(
        self,
        share: float,
        rounds: int,
        ask: Callable[..., tuple[float, bool]],
        report: Callable[[float], None],
        *,
        ends: bool,
    ) -> tuple[float, bool]:
        """Ask repeatedly; return what is left of the share, and whether answers still showed something.

        With ``ends``, the last question takes all that is left of the session.
        """
        left, part, dull = share, share / rounds, 0
        while left > 0 and dull < 2 and self.carries:
            # Shares double, so one and a half may be left; a session that rounds costs down has slightly more.
            last = left - part < (0.5 - _ROUNDED) * part
            _, clear = ask(left if last else part, last=last and ends)
            left -= left if last else part
            # Fewer, sharper questions are better after one that shows nothing.
            dull, part = (0, part) if clear else (dull + 1, 2 * part)
            report(left)
        return left, dull < 2

    def ask(self, part: float, *, last: bool = False) -> tuple[float, bool]:
        """Choose a set and count it.

        Parameters
        ----------
        part : float
            Share of the session's budget.
        last : bool
            Whether it is all that is left: shares are rounded down, and the last question takes the remainder.

        Returns
        -------
        excess : float
            Difference between the answer and the pool beyond noise and chance, as a share of the rows.
        clear : bool
            Whether it shows anything beyond noise and chance.
        """
        noise = self._unit_noise / math.sqrt((1.0 - CHOOSING) * part)
        session, source = self._survey.session, self._survey.source
        self._asked += 1
        believed = self._tables()
        candidates = [
            Candidate(one.one_hot, table.reshape(one.one_hot.shape), weight=one.weight, penalty=one.weight * chance)
            for one, table, chance in zip(self._sets, believed, self._chances(believed, noise), strict=True)
        ]
        choice = session.noisy_max(
            candidates, share=CHOOSING * part, query=f"choice of wide table {self._asked}", source=source
        )
        chosen, table = self._sets[choice.index], believed[choice.index]
        named = [column_title(session.schema, name) for name in chosen.one_hot.columns]
        answer = session.noisy_sum(
            chosen.one_hot,
            share=session.remaining_share if last else (1.0 - CHOOSING) * part,
            query=f"wide table {self._asked}: {' x '.join(named)}",
            source=source,
        )
        return self._answered(chosen.cells, answer, table)

    def ask_by_centre(self, part: float, *, last: bool = False) -> tuple[float, bool]:
        """Count rows by the nearest centre of the pool and the label; there is nothing to choose.

        Parameters
        ----------
        part, last
            As for :meth:`ask`.

        Returns
        -------
        excess : float
        clear : bool
            As for :meth:`ask`; nothing is asked, and nothing is clear, if noise allows too few centres.
        """
        self._asked += 1
        cells = self._cells_of_centres(self._unit_noise / math.sqrt(part))
        if cells is None:
            return 0.0, False
        table = self._expected(cells)
        answer = self._survey.session.noisy_sum(
            self._question_of(cells),
            share=self._survey.session.remaining_share if last else part,
            query=f"rows by nearest centre {self._asked}",
            source=self._survey.source,
        )
        return self._answered(cells, answer, table)

    def _answered(self, cells: PoolCells, answer: NoisyAnswer, table: Vector) -> tuple[float, bool]:
        """Tilt the pool to one more answer; return how far it differed, and whether it shows anything."""
        counts = np.asarray(answer.value, dtype=np.float64).reshape(-1)
        self._answers.append(CountedCells(cells, counts, answer.noise_std, table))
        self._tilt(_STEPS)
        off, variance = counts - table, answer.noise_std**2 + self._variance(table)
        excess = float(np.abs(off).sum()) - _ROOT * float(np.sqrt(variance).sum())
        distance = float((off**2 / variance).sum()) - off.size
        return excess / self._total, distance > CLEAR * math.sqrt(2.0 * off.size)

    def _cells_of_centres(self, noise: float) -> CellsOfCentres | None:
        """Find as many centres of the pool as keep cells clear of noise; None if these are too few."""
        label = self._survey.label
        classes = 1 if label is None else self._bins[label].size
        most = min(int(self._total / (classes * _ROWS_PER_NOISE * noise)), _MOST_CENTRES)
        known = {d: self._coordinates(d) for d, one in enumerate(self._bins) if d != label and one.size > 1}
        coordinates = {d: one for d, one in known.items() if one is not None}
        if most < _FEWEST_CENTRES or not coordinates:
            return None
        places = np.searchsorted(np.cumsum(self._weights), (np.arange(_CENTRE_ROWS) + 0.5) / _CENTRE_ROWS)
        rows = np.minimum(places, self._pool.n_rows - 1)
        held, features = [self._pool.columns[d][rows] for d in coordinates], tuple(coordinates.values())
        centres = centres_of(held, features, most=most, seed=self._seed + self._asked)
        if len(centres) < _FEWEST_CENTRES:
            return None
        columns = tuple(sorted(coordinates if label is None else (*coordinates, label)))
        return CellsOfCentres(columns, features, centres, label, classes)

    def _coordinates(self, column: int) -> Vector | None:
        """Return the coordinates of a column's bins, whole numbers of shape (bins, width); None for too many values.

        A number's coordinate is its rank among the rows of the pool, which does not depend on units and long tails, in
        units of the standard deviation of distinct ranks. Values outside the grid have a second coordinate.
        """
        one = self._bins[column]
        ordered = _in_order(one)[: len(np.unique(one.bin_of_place[: one.grid.levels]))]
        if len(ordered) < 2:
            return None if one.size > _MOST_KINDS else _STEPS_OF_UNIT * np.eye(one.size)
        mass = np.bincount(self._pool.columns[column], self._weights, one.size)[ordered]
        ranks = (np.cumsum(mass) - mass / 2) / max(float(mass.sum()), 1e-300) - 0.5
        found = np.zeros((one.size, 1 if len(ordered) == one.size else 2))
        found[:, -1] = _STEPS_OF_UNIT if found.shape[1] > 1 else 0.0
        found[ordered] = 0.0
        found[ordered, 0] = np.rint(math.sqrt(12.0) * _STEPS_OF_UNIT * ranks)
        return found

    def _question_of(self, cells: CellsOfCentres) -> Product | LinearGuess:
        """Return the question for cells by the nearest centre: the guess of a linear classifier for the centres.

        |x - c|^2 is smallest if 2 c.x - |c|^2 is largest. Both are whole numbers here, in steps that neither the
        features nor the parameters of the question round.
        """
        columns = [self._survey.columns[d] for d in cells.features]
        # Half the bit length of the number of parts: weights are powers of two, and their squares sum to at most 1.
        halvings = (len(columns).bit_length() + 1) // 2
        lookups = (
            Lookup(column.name, one / 2.0**_ENTRY_BITS, self._bins[d].bins)
            for column, one, d in zip(columns, cells.coordinates, cells.features, strict=True)
        )
        parts = (Constant(), *lookups)
        features = Stack(parts, (0.5**halvings,) * len(parts))
        lengths = -squares_of(cells.centres) / 2.0**_ENTRY_BITS
        parameters = np.column_stack([lengths, 2.0 * cells.centres]) / 2.0**_SCALE_BITS
        guess = LinearGuess(features, parameters, np.zeros((len(cells.centres), 0), dtype=np.int32))
        if cells.label is None:
            return guess
        label = self._survey.columns[cells.label]
        return Product((guess, OneHot((label.name,), (self._bins[cells.label].bins,), (label.size,))))

    def finished(self, columns: Sequence[NoisyMarginal]) -> TiltedPool:
        """Return the pool, tilted to all answers but tempered to keep enough effective rows.

        Parameters
        ----------
        columns : sequence of NoisyMarginal
            The single columns by the latest answers.
        """
        own = {one.columns: one for one in columns}
        for place, held in enumerate(self._held):
            if held.cells.columns in own:
                newest = own[held.cells.columns]
                self._held[place] = replace(held, counts=newest.table, noise_std=newest.noise_std)
        self._tilt(_LAST_STEPS)
        cells = tuple(one.cells for one in (*self._held, *self._answers))
        factors = tempered(self._pool, cells, self._factors, least=_LEAST_EFFECTIVE)
        return TiltedPool(self._base, self._seed, cells, tuple(factors), first=self._pool)

    def _start(self, base: JointModel, measured: Sequence[NoisyMarginal]) -> None:
        """Draw a pool; its tables of the measured columns must stay as they are."""
        self._base, self._pool = base, Pool(base, (self._seed, 0))
        self._weights = np.full(self._pool.n_rows, 1.0 / self._pool.n_rows)
        self._factors: list[Vector] = []
        self._answers = []
        tables = {one.columns: one for one in measured}
        if len(tables) > _MOST_HELD:
            tables = {some: one for some, one in tables.items() if len(some) == 1}
        self._held = []
        for some, one in tables.items():
            cells = cells_of_columns(some, self._pool.sizes)
            table = one.table if len(some) == 1 else self._expected(cells)
            self._held.append(CountedCells(cells, table.reshape(-1), one.noise_std, table.reshape(-1), held=True))

    def _tilt(self, steps: int) -> None:
        every = [*self._held, *self._answers]
        self._factors, self._weights = tilted(
            self._pool, every, self._total, start=self._factors, steps=steps, checked=self._checked
        )

    def _tables(self) -> list[Vector]:
        """Return the expected table of every candidate set, in rows."""
        tables: dict[int, Vector] = {}
        # Larger and finer sets first: most others are sums of their tables, at a twentieth of the cost.
        sizes = [(len(one.cells.columns), one.cells.size) for one in self._sets]
        for place in sorted(range(len(self._sets)), key=sizes.__getitem__, reverse=True):
            within, finer = self._within[place], self._finer[place]
            if within is not None:
                larger, axis = within
                tables[place] = tables[larger].reshape(self._sets[larger].cells.shape).sum(axis=axis).reshape(-1)
            elif finer is not None:
                of, coarser = finer
                tables[place] = np.bincount(coarser, tables[of], self._sets[place].cells.size).astype(np.float64)
            else:
                # Weights change from round to round, cells do not.
                cells = self._sets[place].cells
                index = self._pool.once(cells, partial(cells.index, self._pool))
                tables[place] = self._total * np.bincount(index, self._weights, cells.size).astype(np.float64)
        return [tables[place] for place in range(len(self._sets))]

    def _expected(self, cells: PoolCells) -> Vector:
        return self._total * self._pool.counts(cells, self._weights)

    def _variance(self, table: Vector) -> Vector:
        """Return the variance of counts if the model is right, in squared rows: of the rows and of the pool."""
        return np.maximum(table * (1.0 + self._total / self._pool.n_rows), 1e-12)

    def _chances(self, tables: Sequence[Vector], noise: float) -> list[float]:
        """Return the approximate error of tables if the model is right, plus what measuring would leave, in rows."""
        every = np.concatenate(tables)
        sampled = np.minimum(2.0 * every, _ROOT * np.sqrt(self._variance(every)))
        starts = np.cumsum([0, *(table.size for table in tables[:-1])])
        return (np.add.reduceat(sampled, starts) + expected_errors(tables, noise)).tolist()  # type: ignore[no-any-return]


@dataclass(slots=True, eq=False)
class _Candidates:
    """Make the candidate sets."""

    survey: Survey
    bins: Sequence[ColumnBins]
    pool: Pool
    total: float
    seed: int
    _cuts: dict[tuple[int, int], tuple[NDArray[np.int32], Bins]] = field(default_factory=dict)

    def sets(self) -> list[_Set]:
        """Return every set once for each number of parts that leaves enough rows per cell."""
        limit = min(self.total / _ROWS_PER_CELL, _MOST_CELLS)
        found: dict[tuple[ColumnSet, tuple[int, ...]], _Set] = {}
        for subset in self._subsets():
            for b in _PARTS:
                cuts = [self._cut(column, b) for column in subset]
                cells = CellsOfSet(subset, tuple(parts for parts, _ in cuts))
                if cells.size > limit or (subset, cells.shape) in found:
                    continue
                names = tuple(self.survey.columns[column].name for column in subset)
                weight = IMPORTANCE[Weight.HIGH if self.survey.label in subset else Weight.NORMAL]
                found[subset, cells.shape] = _Set(cells, OneHot(names, tuple(codes for _, codes in cuts)), weight)
        return list(found.values())

    def _subsets(self) -> list[ColumnSet]:
        """Return sets of columns: all if they are few, else the smaller ones first and a public draw of the others."""
        random = np.random.Generator(np.random.PCG64(self.seed))
        features, label, kinds = _kinds(self.bins, self.survey.label)
        subsets: list[ColumnSet] = []
        for place, (size, labelled) in enumerate(kinds):
            room = (_MOST_SETS - len(subsets)) // (len(kinds) - place)
            drawn = _combinations(features, size, room, random)
            subsets += [tuple(sorted((*some, label))) if labelled and label is not None else some for some in drawn]
        return subsets

    def _cut(self, column: int, b: int) -> tuple[NDArray[np.int32], Bins]:
        """Return the part of every bin of a column, and of every code."""
        if (column, b) not in self._cuts:
            one = self.bins[column]
            parts = np.arange(one.size, dtype=np.int32)
            if column != self.survey.label and one.size > b:
                mass = np.bincount(self.pool.columns[column], minlength=one.size) / self.pool.n_rows
                parts = equal_parts(mass, _in_order(one), b)
            self._cuts[column, b] = parts, one.grouped(parts)
        return self._cuts[column, b]


def _larger_by_one(sets: Sequence[CellsOfSet]) -> list[tuple[int, int] | None]:
    """Return for every set the smallest with one more column, divided alike, and the axis of that column."""
    found: dict[tuple[tuple[int, bytes], ...], tuple[int, int]] = {}
    names = [tuple((d, parts.tobytes()) for d, parts in zip(one.columns, one.parts, strict=True)) for one in sets]
    for place in sorted(range(len(sets)), key=lambda place: sets[place].size):
        for axis in range(len(names[place])):
            found.setdefault((*names[place][:axis], *names[place][axis + 1 :]), (place, axis))
    return [found.get(name) for name in names]


def _finer(sets: Sequence[CellsOfSet]) -> list[tuple[int, NDArray[np.intp]] | None]:
    """Return for every set a finer one of the same columns, and the cell for each cell of the finer set."""
    finest: dict[ColumnSet, int] = {}
    for place, one in enumerate(sets):
        if one.columns not in finest or one.size > sets[finest[one.columns]].size:
            finest[one.columns] = place
    return [
        None if finest[one.columns] == place else _nested(finest[one.columns], sets[finest[one.columns]], one)
        for place, one in enumerate(sets)
    ]


def _nested(place: int, finer: CellsOfSet, one: CellsOfSet) -> tuple[int, NDArray[np.intp]] | None:
    """Return a set's position and the coarser cell of each of its cells; None if one of its parts is divided."""
    axes = []
    for parts, of in zip(finer.parts, one.parts, strict=True):
        part = np.zeros(int(parts.max()) + 1, dtype=np.intp)
        part[parts] = of
        if not np.array_equal(part[parts], of):
            return None
        axes.append(part)
    return place, np.ravel_multi_index(np.ix_(*axes), one.shape).reshape(-1)


def sets_are_few(bins: Sequence[ColumnBins], label: int | None) -> bool:
    """Return whether enough sets of a table's columns can be candidates, given the position of its label."""
    features, _, kinds = _kinds(bins, label)
    return bool(kinds) and sum(math.comb(len(features), size) for size, _ in kinds) * _LEAST_WEIGHED <= _MOST_SETS


def _kinds(bins: Sequence[ColumnBins], label: int | None) -> tuple[list[int], int | None, list[tuple[int, bool]]]:
    """Return the columns for sets, the label if it is included, and the sizes of sets with and without it."""
    features = [column for column, one in enumerate(bins) if one.size > 1 and column != label]
    if label is not None and not 1 < bins[label].size <= _MOST_CLASSES:
        label = None
    kinds = [(size, True) for size in _WITH_LABEL if label is not None]
    kinds += [(size, False) for size in (_WITHOUT_LABEL if label is not None else (3, 4, 5))]
    return features, label, [(size, labelled) for size, labelled in kinds if size <= len(features)]


def _combinations(items: Sequence[int], size: int, most: int, random: np.random.Generator) -> list[ColumnSet]:
    """Return all subsets of a size, or a public draw of at most ``most``."""
    if math.comb(len(items), size) <= most:
        return list(itertools.combinations(items, size))
    drawn: dict[ColumnSet, None] = {}
    while len(drawn) < most:
        drawn[tuple(sorted(int(one) for one in random.choice(items, size, replace=False)))] = None
    return sorted(drawn)


def _in_order(one: ColumnBins) -> NDArray[np.int64]:
    """Return the bins of a column in the order of their first places."""
    firsts = np.full(one.size, len(one.bin_of_place))
    np.minimum.at(firsts, one.bin_of_place, np.arange(len(one.bin_of_place)))
    return np.argsort(firsts, kind="stable")


def equal_parts(mass: Vector, order: NDArray[np.int64], b: int) -> NDArray[np.int32]:
    """Divide bins, in an order, into at most b parts of about equal mass.

    Parameters
    ----------
    mass : array of shape (bins,), not negative
    order : array of shape (bins,)
    b : int

    Returns
    -------
    array of shape (bins,), int32: consecutive whole numbers from 0
    """
    held = np.cumsum(mass[order])
    middle = (held - mass[order] / 2) / max(float(held[-1]), 1e-300)
    _, parts = np.unique(np.minimum((middle * b).astype(np.int64), b - 1), return_inverse=True)
    found = np.empty(len(mass), dtype=np.int32)
    found[order] = parts
    return found
