"""Orders of two columns: ask in one question how far apart their values are, and draw rows with these differences.

Bins of two dates are weeks wide while a stay in a hospital lasts days: a table of both shows in which weeks people
come and leave, but not how long they stay. So if a rule says ``left >= came``, rows are counted by their difference, in
bands that widen from zero; for two dates that no rule compares, in bands both ways. The two single columns, their table
and their difference then have one joint distribution of greatest entropy: that of the other tables, times a factor for
each band. The factors are found by iterative proportional fitting (Deming 1940); they give rows values inside their
bins.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from synth.generators.adaptive.bins import ColumnBins
from synth.generators.adaptive.code_masses import SummedMasses
from synth.generators.adaptive.steps import LOW, Steps, common_steps
from synth.generators.adaptive.survey import CLEAR
from synth.models.marginals import JointModel, NoisyMarginal
from synth.privacy.feature_maps import Stack
from synth.privacy.more.linear_guesses import LinearGuess
from synth.schema import ModelledColumn

__all__ = [
    "CountedDifferences",
    "Order",
    "OrderedPair",
    "pairs_from_state",
    "place_in_order",
    "state_of_pairs",
]

Vector = NDArray[np.float64]
Whole = NDArray[np.int64]

_BANDS = 56
"""Maximum number of bands of positive differences."""

_TURNS = 200

_UNHEARD = 1e-9
"""Factor of a band without any known rows, relative to that of the most likely band."""

_AT_ONCE = 2**15
"""Number of rows that get their values at a time."""


@dataclass(frozen=True, slots=True, eq=False)
class Order:
    """A column that is never below another, or two columns whose order is not declared.

    Attributes
    ----------
    earlier, later : int
        Positions of the columns.
    strict : bool
        Whether they are also never equal.
    both : bool
        Whether the later column may also be below the earlier one, with bands for negative differences.
    places : tuple of Steps
        Of the earlier and the later column: how many steps every code lies above the least value of both.
    """

    earlier: int
    later: int
    strict: bool
    places: tuple[Steps, Steps]
    both: bool = False

    @classmethod
    def between(
        cls, columns: Sequence[ModelledColumn], earlier: int, later: int, *, strict: bool = False, both: bool = False
    ) -> Self:
        """Compute the steps: those of the finer grid, or powers of two of them if there are too many."""
        return cls(earlier, later, strict, common_steps(columns[earlier], columns[later]), both)

    @property
    def reach(self) -> int:
        """Maximum number of steps."""
        return max(one.reach for one in self.places)

    def turned(self) -> Self:
        """Return the same two columns with reversed differences."""
        return replace(self, earlier=self.later, later=self.earlier, places=self.places[::-1])

    @property
    def lasts(self) -> Whole:
        """Last difference of every positive band, in steps, ascending; the last one is ``reach``."""
        growth = 1.0
        while True:
            growth += 0.01
            found = [1]
            while found[-1] < self.reach:
                found.append(min(max(found[-1] + 1, math.ceil(found[-1] * growth)), self.reach))
            if len(found) <= _BANDS:
                return np.array(found, dtype=np.int64)

    @property
    def bands(self) -> tuple[Whole, Whole]:
        """First and last difference of every band that satisfies the order, shape (bands,); ascending."""
        lasts = np.concatenate([[0], self.lasts])
        firsts = np.concatenate([[0], lasts[:-1] + 1])
        if self.both:
            return np.concatenate([-lasts[:0:-1], firsts]), np.concatenate([-firsts[:0:-1], lasts])
        return (firsts[1:], lasts[1:]) if self.strict else (firsts, lasts)

    @property
    def n_below(self) -> int:
        """Number of bands of negative differences, which come first."""
        return len(self.lasts) if self.both else 0

    def question(self) -> LinearGuess:
        """Return the question about the sign and the size of the difference.

        A row without one of the two values counts as farther apart than any difference.
        """
        far = (2 * self.reach + 2, 4 * self.reach + 4)
        below, above = (one.lookups(beyond) for one, beyond in zip(self.places, far, strict=True))
        tables = (*below, *above)
        # Each lookup has a lower and a higher part; half of an entry is a whole number of steps of 2^-16, the unit of a
        # confidence.
        signs = np.array([[-1.0, -float(LOW)] * len(below) + [1.0, float(LOW)] * len(above)])
        lasts = self.lasts
        # Zero or negative: zero, negative, and no difference. Positive: the bands, and no difference.
        edges = np.stack([np.concatenate([[0], np.full(len(lasts) - 1, self.reach)]), lasts])
        if self.both:
            # Either way: zero (counted on one side only), the bands, and no difference.
            edges = np.stack([np.concatenate([[0], lasts])] * 2)
        return LinearGuess(Stack(tables, (0.5,) * len(tables)), signs, edges.astype(np.int32))

    def table_in(self, model: JointModel | None) -> Vector | None:
        """Return a model's table of both columns, with the earlier one along the rows."""
        if model is None:
            return None
        table = model.marginal((min(self.earlier, self.later), max(self.earlier, self.later)))
        return table if self.earlier < self.later else table.T

    def kept(self, counts: Vector) -> Vector:
        """Return the counts of the bands that satisfy the order, from all counts of a question."""
        below, above = counts.reshape(2, -1)
        if self.both:
            return np.concatenate([below[-2:0:-1], below[:1], above[1:-1]])
        found = above[:-1]
        return found if self.strict else np.concatenate([below[:1], found])


@dataclass(frozen=True, slots=True, eq=False)
class CountedDifferences:
    """Noisy counts of rows in every band of differences that satisfies an order, and their noise."""

    order: Order
    counts: Vector
    noise_std: float

    @property
    def proportions(self) -> Vector:
        """Share of the rows with a difference in every band: not negative, sum 1."""
        found = self.held(CLEAR)
        return np.asarray(found / found.sum() if found.any() else self._widths / self._widths.sum())

    def held(self, clear: float) -> Vector:
        """Return the rows in every band that stand out from noise.

        From the smallest differences on, in each direction, bands are merged until they hold more than ``clear``
        standard deviations of noise. The remaining bands are empty: tails are long, and noise that is cut off at zero
        would fill them.
        """
        widths, below = self._widths, self.order.n_below
        found: Vector = np.zeros(len(widths))
        for way in (np.arange(below, len(widths)), np.arange(below)[::-1]):
            first = 0
            for end in range(1, len(way) + 1):
                own = way[first:end]
                held = float(self.counts[own].sum())
                if held > clear * self.noise_std * math.sqrt(end - first):
                    found[own] = held * widths[own] / widths[own].sum()
                    first = end
        return found

    @property
    def _widths(self) -> Vector:
        return np.asarray(np.subtract(*self.order.bands[::-1]) + 1.0)

    def turned(self) -> Self:
        """Return the same counts with reversed differences."""
        return replace(self, order=self.order.turned(), counts=self.counts[::-1])


@dataclass(frozen=True, slots=True, eq=False)
class _Later:
    """The later column by codes: its steps, the masses of its codes, and the codes of every bin.

    ``ends`` are the first code of each bin and the one after its last; bins without a value on the grid are empty.
    """

    steps: Steps
    ends: tuple[Whole, Whole]
    masses: SummedMasses

    @classmethod
    def of(cls, steps: Steps, bins: ColumnBins) -> Self:
        return cls(steps, bins.ends, bins.summed_masses())

    def ranges(self, places: Whole, bins: Whole, bands: tuple[Whole, Whole]) -> tuple[Whole, Whole]:
        """Return the codes of a bin in each band above a position: the first, and the one after the last.

        ``places`` and ``bins`` have the same shape; the results have one more axis.
        """
        start, end = (one[bins][..., None] for one in self.ends)
        low, high = (self.steps.first_from(places[..., None] + one) for one in (bands[0], bands[1] + 1))
        first = np.clip(low, start, end)
        return first, np.maximum(np.clip(high, start, end), first)


@dataclass(frozen=True, slots=True, eq=False)
class OrderedPair:
    """Two ordered columns, and what is known about their difference.

    Attributes
    ----------
    order : Order
    bins : tuple of ColumnBins
        Of the earlier and the later column.
    factors : array of shape (bands,)
        How much more likely a difference in every band is than the columns and their table alone would make it.
    """

    order: Order
    bins: tuple[ColumnBins, ColumnBins]
    factors: Vector

    @classmethod
    def unrelated(cls, order: Order, bins: Sequence[ColumnBins]) -> Self:
        """Return the pair with the differences of unrelated columns, given the bins of all columns."""
        return cls(order, (bins[order.earlier], bins[order.later]), np.ones(len(order.bands[0])))

    @property
    def expected(self) -> Vector:
        """Share of the rows in every band if both columns are unrelated; sum 1."""
        found = np.einsum("i,j,ijb->b", *(one.expected for one in self.bins), self.shares())
        return np.asarray(found / max(float(found.sum()), 1e-300))

    @classmethod
    def fitted(
        cls,
        counted: CountedDifferences,
        bins: Sequence[ColumnBins],
        table: Vector | None,
        total: float,
    ) -> tuple[Self, list[NoisyMarginal]]:
        """Find the distribution that agrees with both columns and their differences, and is nearest to a table of both.

        Parameters
        ----------
        counted : CountedDifferences
        bins : sequence of ColumnBins
            Of all columns.
        table : array of shape (bins of the earlier column, bins of the later one), optional
            Proportions of both; without them, only the single columns are known.
        total : float
            Known or estimated number of rows.

        Returns
        -------
        pair : OrderedPair
        tables : list of NoisyMarginal
            Of both columns: by bins, and by coarse cells of equal difference. None if a column has fewer than two bins
            with values, or no rows are left where the order allows them.
        """
        order = counted.order
        even = cls.unrelated(order, bins)
        shares = even.shares()
        # Bins without a value on the grid have no difference.
        ordered = [np.flatnonzero(shares.sum(axis=axes) > 0) for axes in ((1, 2), (0, 2))]
        if min(map(len, ordered)) < 2:
            return even, []
        inside = np.ix_(*ordered)
        alone = np.outer(*(one.expected for one in even.bins))
        joint, factors = _agreeing(alone[inside][..., None] * shares[inside], alone[inside], counted.proportions)
        if table is None:
            table = alone
        else:
            within = joint / np.maximum(joint.sum(axis=2, keepdims=True), 1e-300)
            joint, more = _agreeing(table[inside][..., None] * within, table[inside], counted.proportions)
            factors = factors * more / max(float((factors * more).max()), 1e-300)
        if joint.sum() <= 0:
            return even, []  # by what noise left, no two bins with rows have a difference that was counted
        # Rows of a bin without any known difference satisfy the order all the same.
        factors = np.maximum(factors, _UNHEARD)
        agreed = table.copy()
        agreed[inside] = joint.sum(axis=2)
        # The error of a count, from chance and lack of knowledge, is about the root of the count.
        chance = math.sqrt(total * float((agreed**2).sum() / agreed.sum()) + 1.0)
        # Sums of cells with a difference in the same band are known best.
        bands = np.zeros(table.shape, dtype=np.intp)
        bands[inside] = 1 + np.argmax(shares[inside], axis=2)
        bands = np.unique(bands, return_inverse=True)[1].reshape(table.shape)
        sums = np.asarray(total * np.bincount(bands.reshape(-1), weights=agreed.reshape(-1)), dtype=np.float64)
        if order.earlier > order.later:
            agreed, bands = agreed.T, bands.T
        positions = (min(order.earlier, order.later), max(order.earlier, order.later))
        tables = [
            NoisyMarginal(positions, total * np.ascontiguousarray(agreed), chance),
            NoisyMarginal(positions, sums, counted.noise_std, cells=np.ascontiguousarray(bands)),
        ]
        return cls(order, even.bins, factors), tables

    def placed(self, bins: Whole, codes: Whole, random: np.random.Generator, *, settled: bool) -> None:
        """Give rows values of both columns with the counted differences; ``codes`` are changed in place.

        Parameters
        ----------
        bins, codes : arrays of shape (rows, 2), int64
            For the earlier and the later column; values stay in their bins.
        random : Generator
        settled : bool
            Whether the earlier column's values must no longer be exchanged between rows.
        """
        known = np.flatnonzero((codes < [one.n_codes for one in self.bins]).all(axis=1))
        if not len(known):
            return
        later = _Later.of(self.order.places[1], self.bins[1])
        likely = None if settled else self._exchange(bins[known], codes, known, later, random)
        for start in range(0, len(known), _AT_ONCE):
            part = slice(start, start + _AT_ONCE)
            kept = self._place_later(known[part], bins, codes, later, random)
            if likely is not None and not kept.all():
                # No value of the bin satisfies the order with the earlier value that the row got, but some do with its
                # likely value.
                codes[known[part][~kept], 0] = likely[part][~kept]
                self._place_later(known[part][~kept], bins, codes, later, random)

    def _place_later(
        self, rows: Whole, bins: Whole, codes: Whole, later: _Later, random: np.random.Generator
    ) -> NDArray[np.bool_]:
        """Draw the later value of some rows, given the earlier value and the bin; return where one is possible."""
        first, end = later.ranges(self.order.places[0].of(codes[rows, 0]), bins[rows, 1], self.order.bands)
        weights = later.masses.between(first, end) * self.factors
        summed = np.cumsum(weights, axis=1)
        drawn = random.random(len(rows)) * summed[:, -1]
        band = np.minimum((summed <= drawn[:, None]).sum(axis=1), len(self.factors) - 1)
        at = np.arange(len(rows))
        beyond = (drawn - (summed[at, band] - weights[at, band])) / self.factors[band]
        first, end = first[at, band], end[at, band]
        found = later.masses.code_at(later.masses.before(first) + beyond)
        kept = summed[:, -1] > 0
        codes[rows[kept], 1] = np.clip(found, first, np.maximum(end - 1, first))[kept]
        return np.asarray(kept)

    def _exchange(self, bins: Whole, codes: Whole, rows: Whole, later: _Later, random: np.random.Generator) -> Whole:
        """Exchange the earlier values of rows inside each bin so that they suit the bins of the later values.

        Returns
        -------
        array of shape (rows,)
            For each row, a value that is compatible with its bin of the later column, if there is one.
        """
        slices = self._slices()
        most = max(len(points) for points, _ in slices)
        summed = np.zeros((self.bins[0].size, self.bins[1].size, most))
        points = np.zeros((self.bins[0].size, most), dtype=np.int64)
        for one, (own, masses) in enumerate(slices):
            if not len(own):
                continue
            chances = (self._above(own, later).sum(axis=2) * masses[:, None]).T
            # If no value satisfies the order, any value will do.
            chances = np.where(chances.sum(axis=1, keepdims=True) > 0, chances, masses)
            summed[one] = np.pad(np.cumsum(chances, axis=1), ((0, 0), (0, most - len(own))), mode="edge")
            points[one, : len(own)] = own
        chosen = np.empty(len(rows), dtype=np.int64)
        for start in range(0, len(rows), _AT_ONCE):
            part = slice(start, start + _AT_ONCE)
            own_sums = summed[bins[part, 0], bins[part, 1]]
            drawn = random.random(len(own_sums)) * own_sums[:, -1]
            chosen[part] = (own_sums <= drawn[:, None]).sum(axis=1)
        keys = chosen + random.random(len(rows))
        now = codes[rows, 0]
        codes[rows[np.lexsort((keys, bins[:, 0]))], 0] = now[np.lexsort((now, bins[:, 0]))]
        return np.asarray(points[bins[:, 0], np.minimum(chosen, most - 1)])

    def _above(self, codes: Whole, later: _Later) -> Vector:
        """Return the share of every bin of the later column in each band above some codes; (codes, bins, bands)."""
        shape = (len(codes), self.bins[1].size)
        first, end = later.ranges(
            np.broadcast_to(self.order.places[0].of(codes)[:, None], shape),
            np.broadcast_to(np.arange(shape[1]), shape),
            self.order.bands,
        )
        start, stop = later.ends
        held = later.masses.between(start, stop)
        masses = later.masses.between(first, end)
        parts = np.divide(masses, held[:, None], out=np.zeros_like(masses), where=held[:, None] > 0)
        return np.asarray(parts * self.factors)

    def shares(self) -> Vector:
        """Return the share of every pair of bins with a difference in each band; shape (bins, bins, bands)."""
        later = _Later.of(self.order.places[1], self.bins[1])
        found = np.zeros((self.bins[0].size, self.bins[1].size, len(self.factors)))
        for one, (codes, masses) in enumerate(self._slices()):
            # Bins without a value have no difference.
            if len(codes):
                found[one] = np.einsum("s,sjb->jb", masses, self._above(codes, later))
        return found

    def _slices(self) -> list[tuple[Whole, Vector]]:
        """Return, for each bin of the earlier column, codes that represent slices of it, and the shares of the slices.

        A bin is cut where a band begins to cross an edge of the later column's bins.
        """
        (earlier, later), bins = self.order.places, self.bins[0]
        masses = bins.summed_masses()
        edges = later.of(self.bins[1].edges)
        reached = edges[:, None] - np.concatenate([[0], self.order.bands[1]])[None, :]
        over = np.unique(earlier.first_from(reached))
        found = []
        for start, end in np.stack(bins.ends, axis=1).tolist():
            cuts = np.unique(np.concatenate([[start, end], over[(over > start) & (over < end)]]))
            held = masses.between(cuts[:-1], cuts[1:])
            middles = masses.code_at(masses.before(cuts[:-1]) + held / 2)
            kept = held > 0
            codes = np.clip(middles, cuts[:-1], np.maximum(cuts[1:] - 1, cuts[:-1]))[kept]
            found.append((codes.astype(np.int64), held[kept] / max(float(held.sum()), 1e-300)))
        return found


def state_of_pairs(pairs: Sequence[OrderedPair]) -> dict[str, NDArray[Any]]:
    """Return everything that drawing needs beyond the columns and their bins."""
    return {
        f"pair.{number}.{name}": array
        for number, pair in enumerate(pairs)
        for name, array in (
            ("order", np.array([pair.order.earlier, pair.order.later, _kind(pair.order)], dtype=np.int64)),
            ("factors", pair.factors.copy()),
        )
    }


def pairs_from_state(
    state: Mapping[str, NDArray[Any]], columns: Sequence[ModelledColumn], bins: Sequence[ColumnBins]
) -> tuple[OrderedPair, ...]:
    """Rebuild pairs that draw the same values, from the arrays of :func:`state_of_pairs` and others."""
    found: list[OrderedPair] = []
    while f"pair.{len(found)}.order" in state:
        earlier, later, kind = (int(one) for one in state[f"pair.{len(found)}.order"])
        order = Order.between(columns, earlier, later, strict=bool(kind & 1), both=bool(kind & 2))
        factors = state[f"pair.{len(found)}.factors"].astype(np.float64)
        found.append(OrderedPair(order, (bins[earlier], bins[later]), factors))
    return tuple(found)


def _kind(order: Order) -> int:
    return int(order.strict) + 2 * int(order.both)


def _agreeing(joint: Vector, table: Vector, proportions: Vector) -> tuple[Vector, Vector]:
    """Return the distribution that agrees with both columns of a table and with band proportions, and the band factors.

    Of all such distributions it is the one nearest to ``joint``, of shape (bins, bins, bands).
    """
    held, factors = float(table.sum()), np.ones(len(proportions))
    wanted = table.sum(axis=1)[:, None, None], table.sum(axis=0)[None, :, None], held * proportions[None, None, :]
    for _ in range(_TURNS):
        for one, axes in zip(wanted, ((1, 2), (0, 2), (0, 1)), strict=True):
            made = joint.sum(axis=axes, keepdims=True)
            ratio = np.divide(one, made, out=np.zeros_like(made), where=made > 0)
            joint = joint * ratio
        factors *= ratio[0, 0]
        factors /= max(float(factors.max()), 1e-300)
    return joint, factors


def place_in_order(
    pairs: Sequence[OrderedPair], bins: Mapping[int, Whole], codes: Whole, random: np.random.Generator
) -> None:
    """Give rows values with the counted differences.

    Parameters
    ----------
    pairs : sequence of OrderedPair
        Pairs of one chain, from its beginning.
    bins : mapping of int to array of shape (rows,), int64
        Bins of the columns of all pairs, by position.
    codes : array of shape (rows, columns), int64
        Codes inside the bins of all columns; they are changed in place and stay in their bins.
    random : Generator
    """
    settled: set[int] = set()
    for pair in pairs:
        positions = [pair.order.earlier, pair.order.later]
        own = codes[:, positions]
        pair.placed(np.stack([bins[d] for d in positions], axis=1), own, random, settled=positions[0] in settled)
        codes[:, positions] = own
        settled.update(positions)
