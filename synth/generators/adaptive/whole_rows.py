"""Tables of the whole row: what only many columns together tell, counted in coarse cells, and a pool tilted to them.

A joint model of pairs and triples cannot hold a class that depends on four columns at once, and of a dense table it
holds few pairs. Here rows are drawn from that model (a pool). Sets of three to six columns are cut into few parts of
about equal mass; round by round the set that the pool describes worst is chosen privately and counted, and the pool's
rows are weighed so that it agrees (``synth.models.pool``). Then all columns count together: rows are counted by the
nearest of some centres of the pool (``synth.models.centres``) and the label. Whatever a row adds is one cell.

Which sets may be asked follows from the pool, from declared facts and from the number of rows as far as it is known.
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
from synth.generators.adaptive.survey import Survey
from synth.generators.adaptive.tables import expected_errors
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
from synth.privacy.feature_maps import Constant, OneHot, Stack
from synth.privacy.more.linear_guesses import LinearGuess
from synth.privacy.more.lookups import Lookup
from synth.privacy.more.products import Product
from synth.privacy.selection import Candidate

__all__ = ["STANDS_OUT", "WHOLE_ROUNDS", "WholeRows", "equal_parts", "sets_are_few"]

Vector = NDArray[np.float64]

_ROOT = math.sqrt(2.0 / math.pi)

WHOLE_ROUNDS = 12
"""Rounds among which the budget of whole rows is divided; fewer, sharper ones where an answer shows nothing."""

STANDS_OUT = 0.15
"""Part of the rows that a first set has to be off by, beyond what noise and chance make, for more to be asked: less
than the .17 to .98 of tables of up to twelve columns that hang together in many."""

_ROUNDED = 1e-6
"""Part of a round by which rounding may move what is left: who repeats answers decides alike."""

CENTRES_SHARE = 1.0 / 3.0
"""Part of what whole rows get that goes to tables by the nearest centre; a half was not better."""

_CENTRE_ROUNDS = 4
"""Rounds among which that is divided: in every one the pool has other centres."""

_ROWS_PER_NOISE = 2.5
"""Rows of a cell by nearest centre and class on average, in units of the noise of its count."""

_FEWEST_CENTRES, _MOST_CENTRES = 4, 256

_CENTRE_ROWS = 10_000
"""Rows of the pool of which centres are found."""

_STEPS_OF_UNIT = 16
"""Steps of a coordinate in one standard deviation of a column, and of a category from none to it."""

_MOST_KINDS = 64
"""Values of a category that count in distances at most; columns with more are left out there."""

_CLEAR = 2.0
"""Standard deviations by which an answer's distance has to pass that of noise and chance to show anything."""

_LABEL_WEIGHT = 2.0
"""What a wrong row counts in a set with the label: somebody means to predict it."""

_PARTS = (2, 4)
"""Parts that a column is cut into; all columns of a set are cut alike. Halves of parts lie in them, so that coarse sets
and fine ones tell of the same relations."""

_WITH_LABEL, _WITHOUT_LABEL = (2, 3, 4, 5), (3, 4)
"""Columns of a set, beside the label and where it has none."""

_ROWS_PER_CELL = 8.0
"""Rows that a cell of a set should hold on average: of public or released rows, never of counted ones."""

_MOST_CELLS = 2**12
_MOST_CLASSES = 2**8

_MOST_SETS = 600
"""Sets that are weighed in a round; of more, a public draw, which is the same in all rounds."""

_LEAST_WEIGHED = 1.0 / 3.0
"""Part of all sets that has to be among those weighed: twelve columns with a label have 1,507. Of wider tables a draw
holds few sets and each tells few relations; a first one stands out by its pairs alone. Discretised Adult (15 columns),
census (41) and thirty dense columns lost by sets: 3-way .036 to .043, .049 to .069 and .115 to .142."""

_MOST_HELD = 64
"""Tables of the base that a tilt is kept from moving; of more, the columns by themselves."""

_LEAST_EFFECTIVE = 4000.0
"""Rows, of those of a pool, that have to carry its weight: of fewer, sets of other columns are made of too few. Thirty
dense columns come to 1,000 in eight rounds and are then off by more in sets of five than before; artificial characters
end at 5,000 and nine columns of a causal model at 9,000."""

_STEPS, _LAST_STEPS = 12, 80

_ENTRY_BITS, _SCALE_BITS = 8, 4
"""Powers of two by which coordinates are divided, so that no row of them is longer than 1, and scores."""


@dataclass(frozen=True, slots=True, eq=False)
class _Set:
    """A set that may be asked: its cells in the pool, and the same as a question of private rows."""

    cells: CellsOfSet
    one_hot: OneHot
    weight: float


class WholeRows:
    """Chooses sets of columns, counts them, and tilts a pool of the base to all answers.

    Parameters
    ----------
    survey : Survey
    bins : sequence of ColumnBins
    base : JointModel
        Fitted to ``measured``.
    measured : sequence of NoisyMarginal
        What the base was fitted to; first every column by itself.
    total : float
        Number of rows, as far as it is known.
    unit_noise : float
        Noise of a count that is asked for the whole budget, in rows.
    seed : int
    checked : callable
        Called now and then, so that a fit can be cancelled.
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
        """Whether there is any set to ask for."""
        return bool(self._sets)

    @property
    def carries(self) -> bool:
        """Whether enough rows of the pool carry its weight."""
        return effective_rows(self._weights) >= _LEAST_EFFECTIVE

    def rebase(self, base: JointModel, measured: Sequence[NoisyMarginal]) -> None:
        """Go on from a base that was fitted anew; what was answered is kept."""
        answers = self._answers
        self._start(base, measured)
        self._answers = [replace(one, believed=self._expected(one.cells)) for one in answers]
        self._tilt(_STEPS)

    def run(self, share: float, told: Callable[[float], None]) -> None:
        """Ask until a share of the session's budget is spent, or tables tell no more than noise and chance make.

        It ends too where too few rows of the pool carry the weight that the answers ask for.

        Parameters
        ----------
        share : float
            All that the session has left.
        told : callable
            Told which part of the share is spent.
        """
        of_centres = CENTRES_SHARE * share
        of_sets = share - of_centres
        left, told_something = self._ask_in_rounds(
            of_sets, WHOLE_ROUNDS, self.ask, lambda left: told((of_sets - left) / share), ends=False
        )
        # All columns together tell little where few of them do no more: of parities centres showed noise.
        if told_something:
            # What sets left is not theirs.
            self._ask_in_rounds(
                of_centres, _CENTRE_ROUNDS, self.ask_by_centre, lambda left: told(1.0 - left / share), ends=left <= 0
            )

    def _ask_in_rounds(
        self,
        share: float,
        rounds: int,
        ask: Callable[..., tuple[float, bool]],
        told: Callable[[float], None],
        *,
        ends: bool,
    ) -> tuple[float, bool]:
        """Ask again and again; returns what is left of the share, and whether answers still showed something.

        ``ends`` says whether the last question takes all that is left of the session.
        """
        left, part, dull = share, share / rounds, 0
        while left > 0 and dull < 2 and self.carries:
            # Parts double, so one and a half may be left; a session that rounds costs down has a little more.
            last = left - part < (0.5 - _ROUNDED) * part
            _, clear = ask(left if last else part, last=last and ends)
            left -= left if last else part
            # Fewer, sharper questions are better where one shows nothing.
            dull, part = (0, part) if clear else (dull + 1, 2 * part)
            told(left)
        return left, dull < 2

    def ask(self, part: float, *, last: bool = False) -> tuple[float, bool]:
        """Choose a set and count it.

        Parameters
        ----------
        part : float
            Part of the session's budget.
        last : bool
            Whether it is all that is left: shares are rounded down, and the last question takes what that left.

        Returns
        -------
        excess : float
            Part of the rows by which the answer was off, beyond what noise and chance make.
        clear : bool
            Whether it shows anything beyond them.
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
        answer = session.noisy_sum(
            chosen.one_hot,
            share=session.remaining_share if last else (1.0 - CHOOSING) * part,
            query=f"wide table {self._asked}: {' x '.join(chosen.one_hot.columns)}",
            source=source,
        )
        return self._answered(chosen.cells, answer, table)

    def ask_by_centre(self, part: float, *, last: bool = False) -> tuple[float, bool]:
        """Count rows by the nearest centre of the pool and the label, which leaves nothing to choose.

        Parameters
        ----------
        part, last
            As those of :meth:`ask`.

        Returns
        -------
        excess : float
        clear : bool
            As those of :meth:`ask`; nothing is asked, and nothing clear, where noise leaves too few centres.
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
        """Tilt the pool to an answer too; returns by how much that was off, and whether it shows anything."""
        counts = np.asarray(answer.value, dtype=np.float64).reshape(-1)
        self._answers.append(CountedCells(cells, counts, answer.noise_std, table))
        self._tilt(_STEPS)
        off, variance = counts - table, answer.noise_std**2 + self._variance(table)
        excess = float(np.abs(off).sum()) - _ROOT * float(np.sqrt(variance).sum())
        distance = float((off**2 / variance).sum()) - off.size
        return excess / self._total, distance > _CLEAR * math.sqrt(2.0 * off.size)

    def _cells_of_centres(self, noise: float) -> CellsOfCentres | None:
        """Find as many centres of the pool as leave cells clear of noise; None where these are too few."""
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
        """Return the coordinates of a column's bins, whole numbers of shape (bins, width); None of too many kinds.

        A number's is its rank among the rows of the pool, which no unit and no long tail moves, in units of their
        standard deviation were they all different; what has no place on the grid has another coordinate of its own.
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
        """Return the question for cells by the nearest centre: what a linear classifier of the centres guesses.

        |x - c|^2 is least where 2 c.x - |c|^2 is largest. Both are whole numbers here, in steps that neither the
        features nor the parameters of the question round.
        """
        columns = [self._survey.columns[d] for d in cells.features]
        # Half as often as there are bits in the number of parts: weights are powers of two, their squares at most 1.
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
        """Return the pool, tilted to all answers as far as enough of its rows carry the weight.

        Parameters
        ----------
        columns : sequence of NoisyMarginal
            Every column by itself, as last answered.
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
        """Draw a pool, which what was measured of the base is held to."""
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
        """Return what is expected of every set that may be asked, in rows."""
        tables: dict[int, Vector] = {}
        # Larger and finer sets first: most others are sums of their tables, a twentieth of counting the pool's rows.
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
        """Return the variance of counts where the model is right, in squared rows: of the rows, and of the pool's."""
        return np.maximum(table * (1.0 + self._total / self._pool.n_rows), 1e-12)

    def _chances(self, tables: Sequence[Vector], noise: float) -> list[float]:
        """Return about how many rows tables are off by where the model is right, and what measuring would leave."""
        every = np.concatenate(tables)
        sampled = np.minimum(2.0 * every, _ROOT * np.sqrt(self._variance(every)))
        starts = np.cumsum([0, *(table.size for table in tables[:-1])])
        return (np.add.reduceat(sampled, starts) + expected_errors(tables, noise)).tolist()  # type: ignore[no-any-return]


@dataclass(slots=True, eq=False)
class _Candidates:
    """Makes the sets that may be asked."""

    survey: Survey
    bins: Sequence[ColumnBins]
    pool: Pool
    total: float
    seed: int
    _cuts: dict[tuple[int, int], tuple[NDArray[np.int32], NDArray[np.int32]]] = field(default_factory=dict)

    def sets(self) -> list[_Set]:
        """Return every set once for each number of parts that leaves enough rows to a cell."""
        limit = min(self.total / _ROWS_PER_CELL, _MOST_CELLS)
        found: dict[tuple[ColumnSet, tuple[int, ...]], _Set] = {}
        for subset in self._subsets():
            for b in _PARTS:
                cuts = [self._cut(column, b) for column in subset]
                cells = CellsOfSet(subset, tuple(parts for parts, _ in cuts))
                if cells.size > limit or (subset, cells.shape) in found:
                    continue
                names = tuple(self.survey.columns[column].name for column in subset)
                weight = _LABEL_WEIGHT if self.survey.label in subset else 1.0
                found[subset, cells.shape] = _Set(cells, OneHot(names, tuple(codes for _, codes in cuts)), weight)
        return list(found.values())

    def _subsets(self) -> list[ColumnSet]:
        """Return sets of columns: all of few, else the smaller ones first and a public draw of the others."""
        random = np.random.Generator(np.random.PCG64(self.seed))
        features, label, kinds = _kinds(self.bins, self.survey.label)
        subsets: list[ColumnSet] = []
        for place, (size, labelled) in enumerate(kinds):
            room = (_MOST_SETS - len(subsets)) // (len(kinds) - place)
            drawn = _combinations(features, size, room, random)
            subsets += [tuple(sorted((*some, label))) if labelled and label is not None else some for some in drawn]
        return subsets

    def _cut(self, column: int, b: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Return the part of every bin of a column, and of every code."""
        if (column, b) not in self._cuts:
            one = self.bins[column]
            parts = np.arange(one.size, dtype=np.int32)
            if column != self.survey.label and one.size > b:
                mass = np.bincount(self.pool.columns[column], minlength=one.size) / self.pool.n_rows
                parts = equal_parts(mass, _in_order(one), b)
            codes = parts.copy() if one.bins is None else parts[one.bins]
            codes.setflags(write=False)  # questions share what nobody can change
            self._cuts[column, b] = parts, codes
        return self._cuts[column, b]


def _larger_by_one(sets: Sequence[CellsOfSet]) -> list[tuple[int, int] | None]:
    """Return for every set the smallest that has one column more, cut alike, and which of its axes that column is."""
    found: dict[tuple[tuple[int, bytes], ...], tuple[int, int]] = {}
    names = [tuple((d, parts.tobytes()) for d, parts in zip(one.columns, one.parts, strict=True)) for one in sets]
    for place in sorted(range(len(sets)), key=lambda place: sets[place].size):
        for axis in range(len(names[place])):
            found.setdefault((*names[place][:axis], *names[place][axis + 1 :]), (place, axis))
    return [found.get(name) for name in names]


def _finer(sets: Sequence[CellsOfSet]) -> list[tuple[int, NDArray[np.intp]] | None]:
    """Return for every set one of the same columns whose parts lie in its own, and its cell of each of theirs."""
    finest: dict[ColumnSet, int] = {}
    for place, one in enumerate(sets):
        if one.columns not in finest or one.size > sets[finest[one.columns]].size:
            finest[one.columns] = place
    return [
        None if finest[one.columns] == place else _nested(finest[one.columns], sets[finest[one.columns]], one)
        for place, one in enumerate(sets)
    ]


def _nested(place: int, finer: CellsOfSet, one: CellsOfSet) -> tuple[int, NDArray[np.intp]] | None:
    """Return a set's place with the cell of each of its own in a coarser set; None where a part of it is divided."""
    axes = []
    for parts, of in zip(finer.parts, one.parts, strict=True):
        part = np.zeros(int(parts.max()) + 1, dtype=np.intp)
        part[parts] = of
        if not np.array_equal(part[parts], of):
            return None
        axes.append(part)
    return place, np.ravel_multi_index(np.ix_(*axes), one.shape).reshape(-1)


def sets_are_few(bins: Sequence[ColumnBins], label: int | None) -> bool:
    """Return whether most sets of a table's columns can be weighed in a round, given the place of its label."""
    features, _, kinds = _kinds(bins, label)
    return bool(kinds) and sum(math.comb(len(features), size) for size, _ in kinds) * _LEAST_WEIGHED <= _MOST_SETS


def _kinds(bins: Sequence[ColumnBins], label: int | None) -> tuple[list[int], int | None, list[tuple[int, bool]]]:
    """Return the columns of which sets are made, the label if it goes with them, and sizes of sets with and without."""
    features = [column for column, one in enumerate(bins) if one.size > 1 and column != label]
    if label is not None and not 1 < bins[label].size <= _MOST_CLASSES:
        label = None
    kinds = [(size, True) for size in _WITH_LABEL if label is not None]
    kinds += [(size, False) for size in (_WITHOUT_LABEL if label is not None else (3, 4, 5))]
    return features, label, [(size, labelled) for size, labelled in kinds if size <= len(features)]


def _combinations(items: Sequence[int], size: int, most: int, random: np.random.Generator) -> list[ColumnSet]:
    """Return all subsets of a size, or a public draw of as many as there is room for."""
    if math.comb(len(items), size) <= most:
        return list(itertools.combinations(items, size))
    drawn: dict[ColumnSet, None] = {}
    while len(drawn) < most:
        drawn[tuple(sorted(int(one) for one in random.choice(items, size, replace=False)))] = None
    return sorted(drawn)


def _in_order(one: ColumnBins) -> NDArray[np.int64]:
    """Return the bins of a column in the order of the first place that each holds."""
    firsts = np.full(one.size, len(one.bin_of_place))
    np.minimum.at(firsts, one.bin_of_place, np.arange(len(one.bin_of_place)))
    return np.argsort(firsts, kind="stable")


def equal_parts(mass: Vector, order: NDArray[np.int64], b: int) -> NDArray[np.int32]:
    """Cut bins, in an order, into at most b parts of about equal mass.

    Parameters
    ----------
    mass : array of shape (bins,), not negative
    order : array of shape (bins,)
    b : int

    Returns
    -------
    array of shape (bins,), int32: whole numbers from 0 on, none left out
    """
    held = np.cumsum(mass[order])
    middle = (held - mass[order] / 2) / max(float(held[-1]), 1e-300)
    _, parts = np.unique(np.minimum((middle * b).astype(np.int64), b - 1), return_inverse=True)
    found = np.empty(len(mass), dtype=np.int32)
    found[order] = parts
    return found
