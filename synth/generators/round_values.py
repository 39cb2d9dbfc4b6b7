"""How rounded the values of a number are: one question, and what it says about the codes inside a bin.

People round. On a long grid most places hold too few rows to stand out from their neighbours, and a model that fills a
bin evenly produces incomes like 41,273 where the table has 41,000. Few cells are enough to describe how rounded a value
is: its trailing zeros, the digit before them, and its magnitude. The class of every code follows from the declared
column alone. One table of counts for each column gives the number of rows in each class; everything else is
post-processing of it.

If a number takes few values, on a grid not much longer than what is counted place by place, a second table identifies
these codes: it counts the remainders of codes modulo ``REMAINDERS``. All codes of one place have different remainders,
so a remainder with about as many rows as a clear place identifies the code in it.

A bin keeps its rows. Inside it, the probability of a code is that of the column's own counts, times a factor for its
class. The factors make all bins together agree with the counted classes (Deming 1940): of all distributions with these
totals this is the one nearest to the even one. A class that stands out by no more than noise and chance has no factor
of its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from synth.generators.code_chances import MOST_SINGLE, CodeChances
from synth.generators.stacked import answers_of_parts, column_weights
from synth.privacy.answers import AnswerSource
from synth.privacy.bins import PAGE, Bins
from synth.privacy.costs import Bound, between_neighbours
from synth.privacy.feature_maps import OneHot, Stack
from synth.schema import ModelledColumn

__all__ = [
    "MOST_ASIDE",
    "REMAINDERS",
    "RoundCounts",
    "RoundPlan",
    "chances_from_state",
    "class_factors",
    "long_numbers",
    "measure_round_values",
    "plan_round_values",
    "round_classes",
    "single_values",
]

Vector = NDArray[np.float64]

_RoundClasses = tuple[Bins, NDArray[np.int64], NDArray[np.bool_]]

_LONG = 64
"""Longest grid that is counted place by place, so that nothing is left to learn."""

REMAINDERS = 4096

_PLACES_OF_SEVERAL = (2**11, MOST_SINGLE)
"""Grids longer than the first and up to the second have several codes in a place, but few enough for remainders."""

_LARGEST = 2**53
"""Values from which digits are those of the float and not of a person."""

_MAGNITUDES = 4
"""Numbers of digits that are distinguished; all shorter numbers form one class."""

_QUARTER, _KINDS = 10, 11
"""A kind in addition to the digits 1 to 9: the two digits before the zeros are 25 or 75."""

_OUT = 0
"""Class of zero and both ends, which are counted on their own, and of codes that are not numbers."""

_NOISE = 1 / 2000
"""Target noise of a class, as a share of the rows."""

_LEAST_SHARE = 0.002

MOST_ASIDE = 0.03
"""Maximum share of the budget for a question aside from columns and tables: all others get at most 1.5 % more noise."""

_FAINT = 1 / 100
"""Noise of a class, as a share of the rows, above which a few wide classes show more."""

_DROWNED = 1 / 12
"""Noise of a class, as a share of the rows, above which not even a quarter of the rows would stand out."""

_CLEAR = 3.0
"""Standard deviations above which a class stands out."""

_CLEAR_PLACE, _CLEAR_VALUE = 5.0, 4.0
"""Standard deviations of noise above which a place, and a remainder, are clear."""

_FEW = 0.25
"""Expected clear remainders by chance, per place, above which those of other places would be mistaken for its own."""

_FEW_TURNS, _TURNS = 5, 100

_MOST_SETS = 40

_LEAST_FACTOR, _LARGEST_FACTOR = 1e-6, 1e6


@dataclass(frozen=True, slots=True, eq=False)
class RoundCounts:
    """How many rows of one column are in each class of roundness.

    Attributes
    ----------
    classes : Bins
        Class of every code of the declared grid; 0 for those outside all classes.
    magnitudes : array of shape (classes,), int64
        Magnitude of every class, from 1 on; 0 for class 0.
    sets : array of shape (sets, classes), bool
        Sets of classes that may stand out together.
    counts : array of shape (classes,)
        Noisy number of rows, of any sign; class 0 includes cells that are not numbers.
    noise_std : float
        Of each count, in rows.
    remainders : array of shape (REMAINDERS,), optional
        Noisy number of rows of each remainder, with the same noise; absent if places hold one code or very many.
    """

    classes: Bins
    magnitudes: NDArray[np.int64]
    sets: NDArray[np.bool_]
    counts: Vector
    noise_std: float
    remainders: Vector | None = None

    @property
    def fine(self) -> bool:
        """Whether classes distinguish magnitudes."""
        return int(self.magnitudes.max()) > 1


def long_numbers(columns: Sequence[ModelledColumn]) -> tuple[ModelledColumn, ...]:
    """Return the numbers whose grid is too long to be counted place by place; follows from the declaration."""
    return tuple(column for column in columns if column.is_summable and column.levels > _LONG and _has_digits(column))


def round_classes(column: ModelledColumn, magnitudes: int = _MAGNITUDES) -> _RoundClasses:
    """Return the class of every code of a number's grid, and which classes belong together; all public.

    A class is given by the number of digits (the four longest, and all shorter ones together), the number of trailing
    zeros, and the digit before them. With the fewest zeros that the grid has, this digit is any of 1 to 9, with 25 and
    75 separate; with more zeros it is 5, 25 or 75, or any other. If magnitudes are not distinguished, 5, 25 and 75 are
    one kind with any zeros, and other digits another. Digits are those of the printed value, without sign and point.

    Parameters
    ----------
    column : ModelledColumn
        One of :func:`long_numbers`.
    magnitudes : int
        Numbers of digits that are distinguished: four, or one if classes of four would be too faint.

    Returns
    -------
    classes : Bins
        Of the grid: 0 for zero, or the code nearest to it, and for both ends; other classes from 1 on, each with a
        code.
    magnitude : array of shape (number of classes,), int64
        From 1 on; 0 for class 0.
    sets : array of shape (number of sets, number of classes), bool
        Divisible by 1, 5 or 25 times a power of ten, and every kind, over all magnitudes and at each.

    Examples
    --------
    >>> from synth.schema import parse_column
    >>> income = parse_column("income", {"type": "number", "low": 0, "high": 100_000, "step": 1})
    >>> classes, _, _ = round_classes(income)
    >>> one, like, other = classes[np.array([41_000, 38_000, 41_500])]
    >>> bool(one == like != other)
    True
    """
    low, step = _whole(column)
    last = low + step * (column.levels - 1)
    longest = len(str(max(abs(low), abs(last))))
    zeros = _fewest_zeros(low, step, column.levels)
    outside = np.array([0, column.code_near_zero, column.levels - 1])

    def pages() -> Iterator[NDArray[np.int32]]:
        keys_of = partial(_keys, fewest=zeros, longest=longest, magnitudes=magnitudes)
        for number, page in enumerate(_pages_of_keys(low, step, column.levels, keys_of, unit=10**zeros)):
            inside = outside[outside // PAGE == number] - number * PAGE
            page[inside] = _OUT
            yield page

    keys = Bins.of_blocks(pages())
    kinds = keys.used.astype(np.int64)
    rank = np.zeros(keys.count, dtype=np.int32)
    rank[kinds] = np.arange(len(kinds))
    magnitude = 1 + (kinds - 1) // (_KINDS * (longest + 1))
    magnitude[_OUT] = 0
    return keys.merged(rank), magnitude, _sets(magnitude, *np.divmod((kinds - 1) % (_KINDS * (longest + 1)), _KINDS))


def _sets(magnitudes: NDArray[np.int64], zeros: NDArray[np.int64], kinds: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return sets of classes, given the magnitude, the trailing zeros and the kind of each."""
    found = []
    for many in np.unique(zeros[1:]).tolist():
        here, more = zeros == many, zeros > many
        found += [here | more, more | (here & ((kinds == 5) | (kinds == _QUARTER)))]
        # 25, 50, 75 and 100.
        found.append((zeros > many + 1) | (here & (kinds == _QUARTER)) | ((zeros == many + 1) & (kinds >= 5)))
        found += [here & (kinds == kind) for kind in np.unique(kinds[here]).tolist()]
    whole = np.stack(found)
    found += [whole & (magnitudes == magnitude) for magnitude in np.unique(magnitudes[1:]).tolist()]
    sets = np.concatenate([whole, *found[len(whole) :]])
    sets[:, _OUT] = False
    # Each once, sorted by bytes.
    different = sorted({one.tobytes() for one in sets[sets.any(axis=1)]})
    return np.frombuffer(b"".join(different), dtype=np.bool_).reshape(-1, len(magnitudes))


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundPlan:
    """How the question about rounding is asked.

    Attributes
    ----------
    share : float
        Share of the session's budget, in mu^2; 0 if noise would drown every class, or there is nothing to ask.
    fine : bool
        Whether magnitudes are distinguished and remainders are counted.
    """

    share: float
    fine: bool = True


def plan_round_values(session: AnswerSource, columns: Sequence[ModelledColumn]) -> RoundPlan:
    """Return how much budget the question gets, and how fine it is.

    Parameters
    ----------
    session : AnswerSource
        Only its declared facts and its number of rows, public or released, are used.
    columns : sequence of ModelledColumn
        Of :func:`long_numbers`.
    """
    if not columns:
        return RoundPlan(share=0.0)
    one_hot = between_neighbours(Bound(norm=1.0, diameter=math.sqrt(2.0)), session.schema)
    # Squared noise that the whole budget would leave in each class of one table, relative to the squared rows.
    least = one_hot**2 / session.budget.mu_squared / max(session.rows.value, 1.0) ** 2
    tables = len(columns) + sum(map(_has_remainders, columns))
    fine = tables * least <= MOST_ASIDE * _FAINT**2
    least *= tables if fine else len(columns)
    share = 0.0 if least > MOST_ASIDE * _DROWNED**2 else min(max(least / _NOISE**2, _LEAST_SHARE), MOST_ASIDE)
    return RoundPlan(share=share, fine=fine)


def measure_round_values(
    session: AnswerSource, columns: Sequence[ModelledColumn], *, plan: RoundPlan, source: str
) -> dict[str, RoundCounts]:
    """Count the classes of several columns, and remainders where they identify values, in one question.

    Parameters
    ----------
    session : AnswerSource
    columns : sequence of ModelledColumn
        Of :func:`long_numbers`.
    plan : RoundPlan
        For these columns; with a share above 0.
    source : str
        Who asks, for the receipt.

    Returns
    -------
    dict of RoundCounts
        By name of the column.
    """
    known = _tables_of(columns, fine=plan.fine)
    parts, parts_of_norm = [], []
    for column, (_, tables), weight in zip(columns, known, column_weights(tuple(columns)), strict=True):
        for bins in tables:
            parts.append(OneHot(columns=(column.name,), bins=(bins,), sizes=(column.size,)))
            parts_of_norm.append(weight**2)
    whole = math.fsum(parts_of_norm)
    question = Stack(parts=tuple(parts), weights=tuple(math.sqrt(part / whole) for part in parts_of_norm))
    answer = session.noisy_sum(question, share=plan.share, query="round values", source=source)
    counted = iter(answers_of_parts(answer, question))
    found = {}
    for column, ((classes, magnitude, sets), tables) in zip(columns, known, strict=True):
        counts, noise_std = next(counted)
        # Both tables of a column have the same share of the norm.
        remainders = next(counted)[0][1:] if len(tables) > 1 else None
        found[column.name] = RoundCounts(classes, magnitude, sets, counts, noise_std, remainders)
    return found


def chances_from_state(column: ModelledColumn, state: Mapping[str, NDArray[Any]]) -> CodeChances:
    """Rebuild the chances of a column's codes from their state."""
    fine = bool(state["fine"].reshape(-1)[0])
    return CodeChances.of_state(round_classes(column, _MAGNITUDES if fine else 1)[0], state)


def _tables_of(columns: Sequence[ModelledColumn], *, fine: bool) -> list[tuple[_RoundClasses, list[Bins]]]:
    """Return the classes of every column, and the bins of its codes by class and by remainder; shared if alike."""
    made: dict[tuple[int, ...], tuple[_RoundClasses, list[Bins]]] = {}
    found = []
    for column in columns:
        codes = (*_whole(column), column.levels, column.size)
        if codes not in made:
            known = round_classes(column, _MAGNITUDES if fine else 1)
            # Special values and missing cells are outside all classes, like zero and the ends.
            tables = [known[0].followed_by(_OUT, column.size)]
            if fine and _has_remainders(column):
                inside = np.where(known[0].plain() == _OUT, 0, 1 + np.arange(column.levels) % REMAINDERS)
                tables.append(Bins.of_codes(inside).followed_by(0, column.size))
            made[codes] = (known, tables)
        found.append(made[codes])
    return found


def single_values(
    counted: RoundCounts, first: NDArray[np.int64], width: NDArray[np.int64], masses: Vector
) -> tuple[NDArray[np.int64], Vector]:
    """Return codes that hold much of a clear place, and how much more likely each is than the others there.

    Parameters
    ----------
    counted : RoundCounts
    first, width : arrays of shape (ordered places,)
        First code and number of codes of each place.
    masses : array of shape (ordered places,)
        Rows in each place, by the column's own counts.

    Returns
    -------
    codes : array of shape (values,), int64
    chances : array of shape (values,)
        Above 0.
    """
    codes: list[int] = []
    chances: list[float] = []
    noise = counted.noise_std
    if counted.remainders is not None:
        clear = (width > 1) & (masses > _CLEAR_PLACE * noise)
        # The rows of the other places are spread about evenly over all remainders.
        excess = counted.remainders - float(masses[~clear].sum()) / REMAINDERS
        stands_out = excess > _CLEAR_VALUE * noise
        by_chance = float(stands_out.mean())
        for place in np.flatnonzero(clear & (width * by_chance < _FEW)).tolist():
            inside = np.arange(first[place], first[place] + width[place])
            held = excess[inside % REMAINDERS]
            single = stands_out[inside % REMAINDERS] & (counted.classes[inside] != _OUT)
            if not single.any() or single.all():
                continue
            rows = np.minimum(held[single], masses[place])
            rows *= min(1.0, masses[place] / float(rows.sum()))
            rest = masses[place] - float(rows.sum())
            rest = rest if rest > 2 * noise else 0.0
            others = int((~single).sum())
            codes += inside[single].tolist()
            chances += (rows / max(rest / others, _LEAST_FACTOR * masses[place])).tolist()
    return np.array(codes, dtype=np.int64), np.array(chances, dtype=np.float64)


def class_factors(counted: RoundCounts, masses: Vector, *, rows: float) -> Vector:
    """Return how much more likely the codes of each class are than bins that are filled evenly would make them.

    Parameters
    ----------
    counted : RoundCounts
    masses : array of shape (bins, classes)
        Share of the rows in every bin and class, by the column's own counts.
    rows : float
        Known or estimated number of rows.

    Returns
    -------
    array of shape (classes,)
        Positive; all 1 if no class stands out. Inside a bin only their ratios matter.
    """
    factors = np.ones(len(counted.counts))
    table = masses.copy()
    table[:, _OUT] = 0.0
    expected = table.sum(axis=0) * rows
    counts = _as_bins_have_it(counted, expected)
    chosen: list[int] = []
    sets = counted.sets.astype(np.float64)
    while len(chosen) < _MOST_SETS:
        # Rows themselves differ from an even spread by chance.
        spread = np.sqrt(sets @ (counted.noise_std**2 + expected))
        clear = np.abs(sets @ (counts - expected)) / spread
        clear[chosen] = 0.0
        best = int(np.argmax(clear))
        if clear[best] <= _CLEAR:
            break
        chosen.append(best)
        factors = _raked(table, factors, counted.sets[chosen], sets[chosen] @ counts / rows, turns=_FEW_TURNS)
        expected = _tilted(table, factors) * rows
    if chosen:
        factors = _raked(table, factors, counted.sets[chosen], sets[chosen] @ counts / rows, turns=_TURNS)
    return factors


def _as_bins_have_it(counted: RoundCounts, expected: Vector) -> Vector:
    """Return counts in which each magnitude has as many rows as in the bins, which know it better than its classes."""
    kinds = np.maximum(np.bincount(counted.magnitudes), 1)
    own, held = (np.bincount(counted.magnitudes, each) for each in (counted.counts, expected))
    # Spread as much of the difference as noise explains equally over the classes, even below 0; the rest is a factor.
    noise = _CLEAR * counted.noise_std * np.sqrt(kinds)
    explained = np.clip(held - own, -noise, noise)
    scale = np.clip(np.divide(held, own + explained, out=np.ones_like(held), where=own + explained > 0), 0.5, 2.0)
    return np.asarray((counted.counts + (explained / kinds)[counted.magnitudes]) * scale[counted.magnitudes])


def _tilted(table: Vector, factors: Vector) -> Vector:
    """Return the column sums of a table after multiplying by factors, with its row sums kept."""
    rows, scaled = table.sum(axis=1), table @ factors
    by_row = np.divide(rows, scaled, out=np.zeros_like(rows), where=scaled > 0)
    return np.asarray((by_row @ table) * factors)


def _raked(table: Vector, factors: Vector, sets: NDArray[np.bool_], wanted: Vector, *, turns: int) -> Vector:
    """Return column factors that give sets of columns the wanted sums, with row sums kept."""
    factors, whole = factors.copy(), float(table.sum())
    wanted = np.clip(wanted, _LEAST_FACTOR * whole, (1.0 - _LEAST_FACTOR) * whole)
    for _ in range(turns):
        before = factors.copy()
        for one, aim in zip(sets, wanted.tolist(), strict=True):
            held = float(_tilted(table, factors)[one].sum())
            if 0.0 < held < whole:
                factors[one] *= aim / held * (whole - held) / (whole - aim)
                factors = np.clip(factors, _LEAST_FACTOR, _LARGEST_FACTOR)
        if np.allclose(before, factors, rtol=1e-5, atol=0.0):
            break
    return factors


def _has_remainders(column: ModelledColumn) -> bool:
    return _PLACES_OF_SEVERAL[0] < column.levels <= _PLACES_OF_SEVERAL[1]


def _has_digits(column: ModelledColumn) -> bool:
    scale = column.scale
    largest = max(abs(Decimal(repr(scale.low))), abs(Decimal(repr(scale.high)))).scaleb(scale.decimals)
    return largest < _LARGEST


def _whole(column: ModelledColumn) -> tuple[int, int]:
    """Return the lowest value and the step in units of the last printed digit."""
    scale = column.scale
    low, step = (int(Decimal(repr(float(one))).scaleb(scale.decimals)) for one in (scale.low, scale.step))
    return low, step


def _fewest_zeros(low: int, step: int, levels: int) -> int:
    """Return how many trailing zeros all values of a grid share."""
    zeros, common = 0, math.gcd(low, step) if levels > 1 else low
    while common and common % 10 == 0:
        common //= 10
        zeros += 1
    return zeros


def _pages_of_keys(
    low: int, step: int, levels: int, keys_of: Callable[[NDArray[np.int64]], NDArray[np.int32]], *, unit: int
) -> Iterator[NDArray[np.int32]]:
    """Yield the keys of a grid's values page by page, in new memory.

    From one page to the next the last four digits of values repeat. They and the number of digits give the key of all
    values but multiples of a thousand, which alone are calculated for every page.
    """
    starts = np.arange(0, levels, PAGE, dtype=np.int64)
    first, last = low + step * starts, low + step * (np.minimum(starts + PAGE, levels) - 1)
    digits = np.searchsorted(10 ** np.arange(18, dtype=np.int64), np.abs(np.stack([first, last])), side="right")
    alike = (starts + PAGE <= levels) & ((first > 0) | (last < 0))
    kinds = np.where(alike & (digits[0] == digits[1]), np.sign(first) * digits[0], 0)
    known: dict[int, tuple[NDArray[np.int32], NDArray[np.int64], Iterator[NDArray[np.int32]]]] = {}
    for kind in np.unique(kinds[kinds != 0]).tolist():
        own = first[kinds == kind]
        values = np.abs(own[0] + step * np.arange(PAGE))
        far = np.flatnonzero(values % (1000 * unit) == 0)
        of_far = keys_of(np.abs(own[:, None] + step * far).reshape(-1)).reshape(len(own), -1)
        known[kind] = keys_of(values), far, iter(of_far)
    for start, kind in zip(starts.tolist(), kinds.tolist(), strict=True):
        if kind:
            keys, far, more = known[kind]
            page = keys.copy()
            page[far] = next(more)
        else:
            page = keys_of(np.abs(low + step * np.arange(start, min(start + PAGE, levels), dtype=np.int64)))
        yield page


def _keys(values: NDArray[np.int64], fewest: int, longest: int, magnitudes: int) -> NDArray[np.int32]:
    """Return a key for the class of every value: magnitude, trailing zeros, and the kind of the digit before them."""
    digits = np.searchsorted(10 ** np.arange(longest, dtype=np.int64), values, side="right")
    magnitude = np.clip(digits - (longest - magnitudes), 1, magnitudes) - 1
    zeros = np.zeros(len(values), dtype=np.int64)
    left = values.copy()
    for _ in range(longest):
        more = (left % 10 == 0) & (left > 0)
        if not more.any():
            break
        left[more] //= 10
        zeros += more
    kind = left % 10
    kind[(left % 50 == 25)] = _QUARTER
    many = zeros > fewest
    kind[many & (kind != 5) & (kind != _QUARTER)] = 1
    if magnitudes == 1:
        # Whether the last digit is divisible by 5: a few wide classes, which stand out from more noise.
        kind = np.where((kind == 5) | (kind == _QUARTER), 5, 1)
    keys = 1 + (magnitude * (longest + 1) + zeros) * _KINDS + kind
    return np.where(values == 0, _OUT, keys).astype(np.int32)
