"""What the answers of a finding say: how each open column can be declared, by a public rule.

Anyone who checks a finding applies the rule again (:func:`columns_found`); it reads noisy answers alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from synth.errors import PrivacyError
from synth.names import in_natural_order
from synth.privacy.answers import NoisyAnswer
from synth.privacy.more.found_ranges import OUTSIDE, Counted, forget_shapes, likely_dates, likely_numbers, located
from synth.privacy.more.found_values import FoundValues
from synth.privacy.questions import Answer
from synth.schema import (
    CategoryColumn,
    Column,
    DateColumn,
    DropColumn,
    FindColumn,
    NumberColumn,
    Schema,
    guarded,
)
from synth.schema.columns.find import (
    DATE_BLOCKS,
    DATE_EDGES,
    MOST_DECIMALS,
    NUMBER_BLOCKS,
    NUMBER_EDGES,
    CellKind,
)
from synth.schema.columns.labels import MAXIMUM_CATEGORIES
from synth.schema.schema import COARSE_PLACES

__all__ = [
    "CLEAR",
    "FoundColumn",
    "FoundKind",
    "blocks_query",
    "bounds_query",
    "columns_found",
    "kind_of",
    "kind_query",
    "open_column",
    "open_columns",
    "required_columns",
    "values_query",
]

CLEAR = 5.0
"""Standard deviations above which a noisy count is taken for more than noise."""

UNCLEAR = 2.5
"""Standard deviations within which a noisy count may be only noise, although it looks like more."""

MOST_OF = 0.8
"""Part of the non-missing cells that must be of one kind, for a column to be of that kind and not text."""

RARE = 0.02
"""Part of the numbers that may have more decimals than the step of their column, and part of the cells that found
values must cover to describe the column."""

SPIKE = 0.05
"""Part of the numbers that must be one single number, for it to keep its own code beside the grid."""

MARKERS = 2
"""Words that may mark non-numbers in a column of numbers; if more are found, the numbers are codes."""

YEAR, QUARTER = 12, 3
"""Months: dates are found in whole years, or in whole quarters where they span less than two years."""

MOST_PLACES = 2**18
"""Most levels of the grid of a found number; the step is made ten times as long until there are fewer."""

FoundKind = Literal["integer", "decimal", "date", "text", "nothing"]


@dataclass(frozen=True, slots=True)
class FoundColumn:
    """The finding about one column, all of it noisy and safe to print.

    Attributes
    ----------
    name : str
    kind : FoundKind
    column : Column
        How it can be declared; dropped where nothing was found in it.
    count : float
        Approximate number of cells of this kind.
    lost : float
        Approximate number of its cells that are not as declared: they become other, missing, or an end of the range.
    said : str
        One sentence.
    """

    name: str
    kind: FoundKind
    column: Column
    count: float
    lost: float
    said: str


def open_columns(schema: Schema) -> tuple[str, ...]:
    """Return the names of the columns that are to be found, in order."""
    return tuple(column.name for column in schema.columns if isinstance(column, FindColumn))


def required_columns(schema: Schema) -> tuple[str, ...]:
    """Return the names of the columns that are to be found, or refuse where there are none."""
    names = open_columns(schema)
    if not names:
        raise PrivacyError("Every column is described already; leave a column open ('type: find') to have it found.")
    return names


def open_column(schema: Schema, name: str) -> FindColumn:
    """Return one column that is to be found, or refuse one that is described already."""
    column = schema[name]
    if not isinstance(column, FindColumn):
        raise PrivacyError(f"'{name}' is described already.")
    return column


def kind_query(name: str) -> str:
    """Name the question of what kind a column's cells are."""
    return f"kind of '{name}'"


def bounds_query(name: str) -> str:
    """Name the question of between which bounds a column's numbers or dates lie."""
    return f"bounds of '{name}'"


def blocks_query(name: str) -> str:
    """Name the question of between which bounds they lie roughly, counted in blocks of bins."""
    return f"rough bounds of '{name}'"


def values_query(names: Sequence[str]) -> str:
    """Name the question of which values some columns hold."""
    return f"values of {len(names):,} column{'s' if len(names) > 1 else ''}"


def columns_found(schema: Schema, answers: Iterable[Answer]) -> tuple[FoundColumn, ...]:
    """Conclude from the answers of a finding how each open column can be declared.

    Parameters
    ----------
    schema : Schema
        With the open columns.
    answers : iterable of Answer
        All answers of the finding.

    Raises
    ------
    PrivacyError
        If an answer is missing or was given to another question.
    """
    given = {answer.query: answer for answer in answers}
    kinds = {name: kind_of(_sum(given, kind_query(name))) for name in required_columns(schema)}
    values = _values(given, kinds)
    found: list[FoundColumn] = []
    for name, kinds_of in kinds.items():
        column = open_column(schema, name)
        if kinds_of.kind == "nothing":
            found.append(_left_out(name, kinds_of, "Too few of its cells can be distinguished from noise."))
        elif kinds_of.kind == "text" and values is not None:
            found.append(_category(column, kinds_of, values))
        else:
            bounds = _Bounds.of(given, name, len(kinds))
            if kinds_of.kind == "date":
                found.append(_date(column, kinds_of, bounds))
            elif values is None or name not in values.question.columns:
                found.append(_number(column, kinds_of, bounds))
            else:
                found.append(_number_or_codes(column, kinds_of, bounds, values))
    forget_shapes()
    return tuple(found)


def _values(given: dict[str, Answer], kinds: dict[str, _Kinds]) -> FoundValues | None:
    """Return the values found in columns of texts, and of numbers that may be codes; None without such columns."""
    names = tuple(name for name, kind in kinds.items() if kind.kind == "text" or kind.may_be_codes)
    if not names:
        return None
    values = given.get(values_query(names))
    if isinstance(values, FoundValues) and values.question.columns == names:
        return values
    raise PrivacyError("The answers of the finding lack the values of its columns of texts.")


@dataclass(frozen=True, slots=True)
class _Kinds:
    """The kind of most cells of a column, and the noisy counts of all kinds."""

    kind: FoundKind
    decimals: int
    whole: float
    numbers: float
    dates: float
    texts: float
    missing: float
    noise_std: float

    @property
    def present(self) -> float:
        return self.numbers + self.dates + self.texts

    @property
    def has_bounds(self) -> bool:
        return self.kind in ("integer", "decimal", "date")

    @property
    def mostly_whole(self) -> bool:
        return self.whole >= MOST_OF * self.numbers

    @property
    def may_be_codes(self) -> bool:
        """Whether there are words among numbers, or decimals among whole numbers."""
        words = self.texts >= CLEAR * self.noise_std
        return (self.kind == "integer" and words) or (self.kind == "decimal" and (words or self.mostly_whole))

    def least(self, cells: float) -> float:
        """Return about how many cells of a kind there are, at least as many as stand out from noise."""
        return max(cells, CLEAR * self.noise_std)

    @property
    def has_missing(self) -> bool:
        return self.missing >= CLEAR * self.noise_std


def _sum(given: dict[str, Answer], query: str) -> NoisyAnswer:
    answer = given.get(query)
    if not isinstance(answer, NoisyAnswer):
        raise PrivacyError(f"The answers of the finding lack '{query}'.")
    return answer


def kind_of(answer: NoisyAnswer) -> _Kinds:
    """Return the kind of most cells: dates, numbers with their decimals, or else texts."""
    if answer.value.shape != (CellKind.MISSING + 1,):
        raise PrivacyError(f"'{answer.query}' does not tell kinds of cells apart.")
    by_decimals, (dates, texts, missing) = np.split(answer.value, [CellKind.DATE])
    numbers = float(by_decimals.sum())
    # More decimals are rare, or noise: the step is that of the other numbers. Where noise is large, half are enough.
    finer = np.cumsum(by_decimals[::-1])[::-1]
    noise = answer.noise_std * np.sqrt(np.arange(len(finer), 0, -1))
    clear = np.maximum(np.minimum(CLEAR * noise, np.maximum(UNCLEAR * noise, numbers / 2)), RARE * numbers)
    decimals = int(np.flatnonzero(finer >= clear).max(initial=0))
    present = numbers + dates + texts
    kind: FoundKind = "text"
    if max(numbers, dates, texts) < CLEAR * answer.noise_std:
        kind = "nothing"
    elif _are_most(float(dates), 1, present, answer.noise_std):
        kind = "date"
    elif _are_most(numbers, len(by_decimals), present, answer.noise_std):
        kind = "decimal" if decimals else "integer"
    return _Kinds(
        kind,
        decimals,
        float(by_decimals[0]),
        numbers,
        float(dates),
        float(texts),
        float(missing),
        answer.noise_std,
    )


def _are_most(part: float, counts: int, present: float, noise_std: float) -> bool:
    """Whether a sum of so many counts is ``MOST_OF`` of the present cells, or is half of them and noise may hide it."""
    others = CellKind.MISSING - counts
    noise = noise_std * math.hypot((1 - MOST_OF) * math.sqrt(counts), MOST_OF * math.sqrt(others))
    return part >= max(MOST_OF * present - UNCLEAR * noise, present / 2)


@dataclass(frozen=True, slots=True)
class _Lost:
    """Approximate number of cells of a column that are not as declared, and the standard deviation of its noise."""

    cells: float
    noise_std: float

    @classmethod
    def outside(cls, kinds: _Kinds, inside: NDArray[np.float64], noise_std: float) -> _Lost:
        """Return the cells that are not missing and not among those counted ``inside``."""
        of_kinds = kinds.noise_std * math.sqrt(CellKind.MISSING)
        return cls(
            max(kinds.present - float(inside.sum()), 0.0), math.hypot(of_kinds, noise_std * math.sqrt(inside.size))
        )

    @classmethod
    def beside(cls, kinds: _Kinds, ranged: float) -> _Lost:
        """Return the cells of other kinds, and those expected outside a range of the ``ranged`` ones."""
        others = max(kinds.present - ranged, 0.0)
        return cls(others + 2 * OUTSIDE * max(ranged, 0.0), kinds.noise_std * math.sqrt(2))

    @property
    def most(self) -> str:
        """How many there may be, in two digits."""
        most = round(self.cells + 2 * self.noise_std)
        return f"up to about {round(most, 2 - len(str(most))):,} cells"


@dataclass(frozen=True, slots=True)
class _Bounds:
    """The two answers about the bounds of one column, and how many columns have such answers at most."""

    fine: NoisyAnswer
    coarse: NoisyAnswer
    columns: int

    @classmethod
    def of(cls, given: dict[str, Answer], name: str, columns: int) -> _Bounds:
        return cls(_sum(given, bounds_query(name)), _sum(given, blocks_query(name)), columns)

    def counted(self, edges: NDArray[np.float64], blocks: Sequence[int]) -> Counted:
        """Return the counts between edges, without what lies beyond them and what is of another kind."""
        for answer, size in ((self.fine, len(edges)), (self.coarse, len(blocks))):
            if answer.value.shape != (size + 2,):
                raise PrivacyError(f"'{answer.query}' does not count the bins that bounds are found in.")
        fine, coarse = ((np.asarray(one.value)[1:-2], one.noise_std) for one in (self.fine, self.coarse))
        return Counted.of(edges, np.array(blocks, dtype=np.intp), fine, coarse)


def _left_out(name: str, kinds: _Kinds, why: str) -> FoundColumn:
    return FoundColumn(
        name, kinds.kind, DropColumn(name), kinds.present, kinds.present, f"{why} The column is left out."
    )


def _number(column: FindColumn, kinds: _Kinds, bounds: _Bounds) -> FoundColumn:
    """Declare a number: bounds are round numbers, the step is that of its decimals or ten thousandths of its range."""
    # Numbers beyond the last edges have no bound, and cells that are not numbers have no bin.
    counted = bounds.counted(np.array(NUMBER_EDGES[1:-1]), NUMBER_BLOCKS)
    ends = located(counted, (1, 2, 4), columns=bounds.columns)
    if ends is None:
        return _left_out(column.name, kinds, "Its numbers are too spread out to be distinguished from noise.")
    whole = kinds.kind == "integer"
    lowest, highest = map(_decimal, counted.edges[list(ends)].tolist())
    low, high = map(_decimal, likely_numbers(counted, ends, cells=kinds.least(kinds.numbers), whole=whole))
    if whole:
        (lowest, highest), (low, high), step = _whole_ends(lowest, highest), _whole_ends(low, high), Decimal(1)
    elif kinds.decimals < MOST_DECIMALS:
        step = Decimal(1).scaleb(-kinds.decimals)
    else:
        step = Decimal(1).scaleb((high - low).adjusted() - 4 if high > low else -MOST_DECIMALS)
    low, high = _round_ends(low, high, step)
    while (high - low) / step > MOST_PLACES:
        step *= 10
    low = (low / step).to_integral_value(ROUND_FLOOR) * step + 0
    high = max((high / step).to_integral_value(ROUND_CEILING) * step + 0, low + step)
    found = NumberColumn(column.name, float(low), float(high), float(step), missing=True, weight=column.weight)
    if found.levels > COARSE_PLACES:
        found = replace(found, special=_spikes(counted.fine, kinds, bounds.fine.noise_std))
    lost = _Lost.beside(kinds, kinds.numbers)
    words, ends_said = (
        "Whole numbers" if step >= 1 else f"Numbers in steps of {step:f}",
        (_written(low), _written(high)),
    )
    said = (
        f"{words} from {ends_said[0]} to {ends_said[1]}{_widened(_written(lowest), _written(highest), ends_said)}; "
        f"{lost.most} are outside this range or are not numbers."
    )
    return FoundColumn(column.name, kinds.kind, found, kinds.numbers, lost.cells, said)


def _written(number: Decimal) -> str:
    return f"{number.normalize():,f}"


def _widened(lowest: str, highest: str, ends: tuple[str, str]) -> str:
    """Say why a range is wider than where cells certainly are; nothing where it is not."""
    if (lowest, highest) == ends:
        return ""
    seen = f"{lowest} to {highest} stand" if lowest != highest else f"{lowest} stands"
    return f" ({seen} out from noise; the range is wider by what noise may hide, and ends at round values)"


def _round_ends(low: Decimal, high: Decimal, step: Decimal) -> tuple[Decimal, Decimal]:
    """Widen a range to multiples of 1, 2 or 5 times a power of ten: the largest that is at most an eighth of it."""
    eighth = max(high - low, step) / 8
    units = [Decimal(digit).scaleb(eighth.adjusted()) for digit in (1, 2, 5)]
    unit = max(step, *(one for one in units if one <= eighth))
    # Adding nothing turns a zero below zero into zero.
    first, last = (low / unit).to_integral_value(ROUND_FLOOR), (high / unit).to_integral_value(ROUND_CEILING)
    return first * unit + 0, last * unit + 0


def _number_or_codes(column: FindColumn, kinds: _Kinds, bounds: _Bounds, values: FoundValues) -> FoundColumn:
    """Declare numbers mixed with other values: as codes, written back unchanged, or as numbers after all.

    They are codes if several values are words and the found values cover most cells. Otherwise they are numbers, and
    the few with decimals are rounded: what is whole in the table is printed whole.
    """
    codes = _category(column, kinds, values)
    words = [text for text in values.counts(column.name) if any(map(str.isalpha, text))]
    if len(words) > MARKERS and codes.lost <= (1 - MOST_OF) * kinds.present:
        return replace(codes, kind="text", said=f"Codes, most of which look like numbers: {codes.said}")
    if kinds.kind == "integer" or not kinds.mostly_whole:
        return _number(column, kinds, bounds)
    whole = _number(column, replace(kinds, kind="integer", decimals=0), bounds)
    return replace(whole, said=f"{whole.said} The few values with decimals are rounded.")


def _spikes(counts: NDArray[np.float64], kinds: _Kinds, noise_std: float) -> tuple[float, ...]:
    """Return single numbers that many cells hold: where a generator groups levels, each of them keeps its own code.

    Only bins with one possible number can show this: zero, and small whole numbers among whole numbers.
    """
    clear = max(CLEAR * noise_std, SPIKE * kinds.numbers)
    ends = [_ends(place + 1) for place in np.flatnonzero(counts >= clear).tolist()]
    if kinds.kind == "integer":
        ends = [_whole_ends(low, high) for low, high in ends]
    return tuple(float(low) for low, high in ends if low == high)


def _ends(place: int) -> tuple[Decimal, Decimal]:
    """Return the numbers between which a bin lies; the one nearer to zero belongs to it."""
    low, high = map(_decimal, NUMBER_EDGES[place : place + 2])
    return low, high


def _decimal(edge: float) -> Decimal:
    """Return an edge of a bin as it is written; the smallest number above zero stands for zero."""
    return Decimal(0 if abs(edge) <= 2 * float(np.nextafter(0.0, 1.0)) else repr(edge))


def _whole_ends(low: Decimal, high: Decimal) -> tuple[Decimal, Decimal]:
    """Return the whole numbers between which a span of bins lies; the end farther from zero is excluded."""
    first = low.to_integral_value(ROUND_FLOOR) + 1 if low < 0 else low.to_integral_value(ROUND_CEILING)
    last = high.to_integral_value(ROUND_CEILING) - 1 if high > 0 else high.to_integral_value(ROUND_FLOOR)
    return first, max(first, last)


def _date(column: FindColumn, kinds: _Kinds, bounds: _Bounds) -> FoundColumn:
    """Declare a date between the first day of a year or quarter and the last day of one."""
    counted = bounds.counted(np.arange(len(DATE_EDGES), dtype=np.float64), DATE_BLOCKS)
    ends = located(counted, (1, 3), columns=bounds.columns)
    if ends is None:
        return _left_out(column.name, kinds, "Its dates are too spread out to be distinguished from noise.")
    first, last = likely_dates(counted, ends, cells=kinds.least(kinds.dates))
    months = QUARTER if last - first < 2 * YEAR else YEAR
    first, last = first - first % months, last + -last % months
    low, high = _month(first), _month(last) - timedelta(days=1)
    lowest, highest = _month(ends[0]), _month(ends[1]) - timedelta(days=1)
    found = DateColumn(column.name, low, high, pattern=column.pattern, missing=True, weight=column.weight)
    lost = _Lost.beside(kinds, kinds.dates)
    said = (
        f"Dates from {low} to {high}{_widened(str(lowest), str(highest), (str(low), str(high)))}; {lost.most} are "
        "outside this range or are not dates."
    )
    return FoundColumn(column.name, kinds.kind, found, kinds.dates, lost.cells, said)


def _month(place: int) -> date:
    """Return the first day of a month by its place among the edges, or of the month after the last of them."""
    return DATE_EDGES[place] if place < len(DATE_EDGES) else date(DATE_EDGES[-1].year + 1, 1, 1)


def _category(column: FindColumn, kinds: _Kinds, answer: FoundValues) -> FoundColumn:
    """Declare the values that were found, the most frequent ones where there are too many; all others are "other"."""
    counts = answer.counts(column.name)
    by_guard = {guarded(text): text for text in sorted(counts, key=lambda text: (counts[text], text))}
    most = sorted(by_guard.values(), key=lambda text: (-counts[text], text))[:MAXIMUM_CATEGORIES]
    values = in_natural_order(most)
    if not values or sum(counts[text] for text in values) < RARE * kinds.present:
        return _left_out(column.name, kinds, "No value, or too few values, occur in enough rows to be found.")
    lost = _Lost.outside(kinds, np.array([counts[text] for text in values]), answer.receipt.noise_scale)
    found = CategoryColumn(column.name, tuple(values), other=True, missing=kinds.has_missing, weight=column.weight)
    said = (
        f"{len(values):,} value{'s' if len(values) > 1 else ''}; {lost.most} hold other values, which become 'other'."
    )
    return FoundColumn(column.name, kinds.kind, found, kinds.texts, lost.cells, said)
