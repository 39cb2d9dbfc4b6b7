"""What is kept of people and their rows: exact distances between all private and all synthetic rows, for the owner.

Beside each distance stands that of the private people drawn again with replacement, as many as there are: a sample of
the same people would be about as far away.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from statistics import fmean
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri
from scipy.stats import rankdata

from synth.reports.code_tables import UnitRows, coarse_bins
from synth.reports.evidence import OwnerOnlyEvidence
from synth.reports.figures import Cell, Table
from synth.reports.wording import beside_anchors
from synth.schema import People
from synth.schema.schema import LEFT_ONLY, MERGE

__all__ = ["PeopleRows", "kept_of_people", "own_share"]

_Whole = NDArray[np.int64]
_Codes = NDArray[np.integer[Any]]
_PEOPLE = "Weighs people: everyone counts once."
_ROWS = "Weighs rows: who has more of them counts more."
_STEPS = "Weighs rows that have a next one: who has more of them counts more."
_WORST = 10

_FEW_CELLS = 2**16
"""A table of more cells than this, and than twice as many as there are rows, is not laid out whole."""


@dataclass(frozen=True, slots=True, eq=False)
class PeopleRows:
    """All rows of some people, as codes of the declared table and in at most 32 public bins.

    ``codes`` and ``binned`` hold an array of shape (n_rows,) by column, in small types; the rows of a person lie
    together, in their order, from ``first`` on, and are ``count`` many. ``before`` are the rows that have a next one.
    Where two tables were joined, a person without a row in the second has one here, for which ``there`` is false.
    """

    codes: dict[str, _Codes]
    binned: dict[str, _Codes]
    first: _Whole
    count: _Whole
    before: _Whole
    there: NDArray[np.bool_]

    @property
    def number(self) -> _Whole:
        """How many rows each person has, of shape (n_people,)."""
        return np.where(self.there[self.first], self.count, 0)

    @classmethod
    def of(cls, rows: UnitRows, people: People) -> PeopleRows:
        """Lay rows out by person."""
        columns = {name: people.schema.modelled_column(name) for name in people.schema.names}
        codes: dict[str, _Codes] = {
            one.name: one.smallest_codes(own) for one, own in zip(columns.values(), rows.codes, strict=True)
        }
        merged = None if people.least else codes.pop(MERGE.name)
        binned = {name: _small(coarse_bins(columns[name])[one]) for name, one in codes.items()}
        starts = np.ones(len(rows.units), dtype=bool)
        starts[1:] = rows.units[1:] != rows.units[:-1]
        first = np.flatnonzero(starts)
        there = np.ones(len(rows.units), dtype=bool) if merged is None else merged != LEFT_ONLY
        before = _but_last(first, len(rows.units))
        return cls(codes, binned, first, np.diff(np.append(first, len(rows.units))), before, there)

    def drawn_again(self, seed: int) -> PeopleRows:
        """Return as many people, drawn with replacement, each with all of their rows."""
        who = np.random.default_rng([seed, len(self.first), 43]).integers(0, len(self.first), len(self.first))
        count = self.count[who]
        first = np.cumsum(count) - count
        places = np.repeat(self.first[who] - first, count) + np.arange(count.sum())
        codes = {name: one[places] for name, one in self.codes.items()}
        binned = {name: one[places] for name, one in self.binned.items()}
        return PeopleRows(codes, binned, first, count, _but_last(first, len(places)), self.there[places])


def _but_last(first: _Whole, rows: int) -> _Whole:
    """Return the rows that are not the last of their person."""
    last = np.append(first[1:], rows) - 1
    kept = np.ones(rows, dtype=bool)
    kept[last] = False
    return np.flatnonzero(kept)


def _small(bins: NDArray[np.integer[Any]]) -> _Codes:
    return bins.astype(np.min_scalar_type(int(bins.max(initial=0))))


def kept_of_people(
    private: UnitRows, synthetic: UnitRows, people: People, *, seed: int
) -> tuple[OwnerOnlyEvidence, ...]:
    """Compare all rows of all people.

    Parameters
    ----------
    private, synthetic : UnitRows
        All rows, in columns of the declared table; those of a person lie together, in their order.
    people : People
    seed : int
        Public; people are drawn again from it.

    Returns
    -------
    tuple of OwnerOnlyEvidence
        ``people.rows``, ``.rows_by_own``, ``.pairs``, ``.next``, ``.gaps``, ``.own_share`` and ``.same``, those that
        there are columns for.
    """
    real = PeopleRows.of(private, people)
    made, floor = PeopleRows.of(synthetic, people), real.drawn_again(seed)
    unit, names = people.schema.unit.protects, tuple(real.codes)
    after = list(people.following)

    def far(name: str, title: str, sets: Sequence[tuple[str, ...]], cells: _Cells, weighs: str) -> OwnerOnlyEvidence:
        # One set after another: of all pairs of many columns the cells together would need gigabytes.
        return _distances(
            name, title, sets, ((cells(real, one), cells(made, one), cells(floor, one)) for one in sets), weighs
        )

    found = [far("rows", f"Rows of a {unit}", [("number of rows",)], lambda rows, _: [rows.number], _PEOPLE)]
    if people.own:
        own = [(name,) for name in people.own]
        found.append(
            far("rows_by_own", f"Rows of a {unit}, by what belongs to the {unit}", own, _rows_and_own, _PEOPLE)
        )
    if len(names) > 1:
        found.append(far("pairs", "Pairs of columns within a row", list(combinations(names, 2)), _within, _ROWS))
    if len(real.before) and after:
        across = list(product(after, after))
        found.append(far("next", "A row and the next", across, _row_and_next, _STEPS))
    if people.order is not None and len(real.before):
        found.append(_gaps(real, made, floor, people))
    found += _shares(real, made, floor, people)
    return tuple(found)


_Cells = Callable[[PeopleRows, tuple[str, ...]], Sequence[_Codes]]
"""The bins whose joint counts are compared, one array for each column of a set."""


def _rows_and_own(rows: PeopleRows, columns: tuple[str, ...]) -> Sequence[_Codes]:
    return [rows.number, *(rows.binned[name][rows.first] for name in columns)]


def _within(rows: PeopleRows, columns: tuple[str, ...]) -> Sequence[_Codes]:
    return [rows.binned[name][rows.there] for name in columns]


def _row_and_next(rows: PeopleRows, columns: tuple[str, ...]) -> Sequence[_Codes]:
    this, following = columns
    return [rows.binned[this][rows.before], rows.binned[following][rows.before + 1]]


def _distances(
    name: str,
    title: str,
    sets: Sequence[tuple[str, ...]],
    cells: Iterable[tuple[Sequence[_Codes], Sequence[_Codes], Sequence[_Codes]]],
    weighs: str,
) -> OwnerOnlyEvidence:
    joined = ", next row: " if name == "next" else " + "
    rows: list[tuple[str, float, float]] = [
        (joined.join(columns), _apart(real, made), _apart(real, floor))
        for columns, (real, made, floor) in zip(sets, cells, strict=True)
    ]
    rows.sort(key=lambda row: -row[1])
    mean, floor = fmean([row[1] for row in rows]), fmean([row[2] for row in rows])
    header = ("columns", "synthetic", "people drawn again")
    table = Table(_judged(mean, floor), header, tuple(rows[:_WORST]))
    over = "" if len(rows) == 1 else f" Mean over {len(rows):,}; numbers and dates in at most 32 public bins."
    return OwnerOnlyEvidence(
        id=f"people.{name}",
        title=title,
        value=mean,
        unit="total variation",
        sentence=f"{weighs}{over} The private people drawn again are {floor:.3f} away.",
        figures=(table,),
    )


def _judged(ours: float, floor: float) -> str:
    return beside_anchors(ours, control=None, floor=floor).replace("rows", "people")


def _apart(one: Sequence[_Codes], other: Sequence[_Codes]) -> float:
    """Return the total variation between two tables of counts; 1 where one of them is empty."""
    if not len(one[0]) or not len(other[0]):
        return 1.0
    sizes = [int(max(a.max(), b.max())) + 1 for a, b in zip(one, other, strict=True)]
    keys = [_joined(table, sizes) for table in (one, other)]
    if math.prod(sizes) > max(_FEW_CELLS, 2 * sum(map(len, keys))):
        place = np.unique(np.concatenate(keys), return_inverse=True)[1]
        keys = np.split(place.reshape(-1), [len(keys[0])])
    cells = max(int(key.max()) for key in keys) + 1
    counts = [np.bincount(key, minlength=cells) for key in keys]
    seen = (counts[0] > 0) | (counts[1] > 0)
    shares = [count[seen] / len(key) for count, key in zip(counts, keys, strict=True)]
    return float(np.abs(shares[0] - shares[1]).sum() / 2)


def _joined(table: Sequence[_Codes], sizes: Sequence[int]) -> _Whole:
    """Return one number for each row, different for different rows."""
    keys = table[0].astype(np.int64)
    for column, size in zip(table[1:], sizes[1:], strict=True):
        keys *= size
        keys += column
    return keys


def _gaps(real: PeopleRows, made: PeopleRows, floor: PeopleRows, people: People) -> OwnerOnlyEvidence:
    order = str(people.order)
    levels = people.schema.modelled_column(order).levels

    def of(rows: PeopleRows) -> _Whole:
        column = rows.codes[order].astype(np.int64)
        before, after = column[rows.before], column[rows.before + 1]
        return np.sort((after - before)[(before < levels) & (after < levels)])

    gaps, again = _largest(of(real), of(made)), _largest(of(real), of(floor))
    return OwnerOnlyEvidence(
        id="people.gaps",
        title=f"From {order} to the next",
        value=gaps,
        unit="largest distance of distributions (Kolmogorov-Smirnov)",
        sentence=f"{_STEPS} The private people drawn again are {again:.3f} away. {_judged(gaps, again)}",
    )


def _largest(one: _Whole, other: _Whole) -> float:
    """Return the Kolmogorov-Smirnov distance of two sorted samples; 1 where one of them is empty."""
    if not len(one) or not len(other):
        return 1.0
    at = np.union1d(one, other)
    shares = [np.searchsorted(sample, at, "right") / len(sample) for sample in (one, other)]
    return float(np.abs(shares[0] - shares[1]).max())


def _shares(real: PeopleRows, made: PeopleRows, floor: PeopleRows, people: People) -> list[OwnerOnlyEvidence]:
    """Return the person's own share of every number, and how often a category stays the same."""
    found = []
    tables = (real, made, floor)
    numbers = [name for name in people.following if people.schema.modelled_column(name).levels]
    categories = [name for name in people.following if name not in numbers]
    own = "Of the variance of a number's ranks, the share that lies between people (intraclass correlation)."
    if numbers:
        rows = [(name, *(own_share(one, name, people) for one in tables)) for name in numbers]
        found.append(_beside("own_share", "The person's own share of numbers", rows, f"{own} {_ROWS}"))
    if categories:
        rows = [(name, *(_stays(one, name) for one in tables)) for name in categories]
        found.append(_beside("same", "The same category in the next row", rows, _STEPS))
    return found


def _beside(name: str, title: str, rows: Sequence[tuple[Cell, ...]], sentence: str) -> OwnerOnlyEvidence:
    differences = [abs(row[1] - row[2]) for row in rows if isinstance(row[1], float) and isinstance(row[2], float)]
    largest = max(differences, default=None)
    said = (
        "There is nothing to compare" if largest is None else f"Synthetic and private shares are within {largest:.3f}"
    )
    table = Table(said, ("column", "private", "synthetic", "people drawn again"), tuple(rows))
    return OwnerOnlyEvidence(
        id=f"people.{name}",
        title=title,
        value=largest,
        unit="largest difference of a share",
        sentence=sentence,
        figures=(table,),
    )


def own_share(rows: PeopleRows, name: str, people: People) -> float | None:
    """Return the intraclass correlation of a number: of the variance of its normal scores, the share between people.

    Ranks do not depend on a scale, so a few very large numbers do not decide. None where nobody has two rows with a
    number, or all numbers are equal.
    """
    levels = people.schema.modelled_column(name).levels
    whose = np.repeat(np.arange(len(rows.count)), rows.count)
    known = (rows.codes[name] < levels) & rows.there
    codes, whose = rows.codes[name][known], np.unique(whose[known], return_inverse=True)[1]
    n = np.bincount(whose)
    if len(codes) == len(n) or len(n) < 2 or codes.min() == codes.max():
        return None
    values = ndtri(rankdata(codes) / (len(codes) + 1))
    means = np.bincount(whose, values) / n
    within = float(((values - means[whose]) ** 2).sum()) / (len(values) - len(n))
    between = float((n * (means - values.mean()) ** 2).sum()) / (len(n) - 1)
    size = (len(values) - float((n**2).sum()) / len(values)) / (len(n) - 1)
    between = max((between - within) / size, 0.0)
    return between / (between + within) if between + within > 0 else None


def _stays(rows: PeopleRows, name: str) -> float | None:
    before = rows.before
    return float((rows.codes[name][before] == rows.codes[name][before + 1]).mean()) if len(before) else None
