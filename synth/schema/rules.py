"""What a rule between columns is, whether rows keep it, and where a cell that breaks it is moved.

A rule is public: it is declared, like a bound. ``when`` are conditions on single columns, ``then`` is what must be true
of a row that meets all of them. A condition is the set of codes that meet it, so nothing here looks at a cell.

An empty cell meets no condition and breaks no conclusion, except those about being empty.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, Protocol, Self

import numpy as np
import numpy.typing as npt

from synth.schema.columns.base import ModelledColumn

__all__ = [
    "MIRROR",
    "Among",
    "BinsOfCodes",
    "BoolArray",
    "CodeArray",
    "Comparison",
    "Dependency",
    "Determined",
    "Every",
    "Heap",
    "Rule",
    "Spans",
    "Table",
    "Values",
    "codes_between",
    "codes_in",
    "complement",
    "holds",
    "joined",
    "n_codes",
    "nearest",
    "possible_cells",
    "quoted",
    "spans_of",
    "spans_within",
    "values_of",
]

Relation = Literal[">=", ">", "<=", "<", "="]
FloatArray = npt.NDArray[np.float64]
CodeArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

Spans = npt.NDArray[np.int64]
"""A set of codes: ranges from a first code to a last one (excluded), in order, none touching another; shape (n, 2)."""

MIRROR: dict[Relation, Relation] = {">=": "<=", "<=": ">=", ">": "<", "<": ">", "=": "="}


# Sets of codes -------------------------------------------------------------------------------------------------------


def spans_of(codes: npt.ArrayLike) -> Spans:
    """Return a set of codes as ranges."""
    found = np.asarray(codes, dtype=np.int64)
    if (found[1:] <= found[:-1]).any():
        found = np.unique(found)
    if not found.size:
        return np.empty((0, 2), np.int64)
    breaks = np.flatnonzero(np.diff(found) > 1)
    firsts, lasts = found[np.r_[0, breaks + 1]], found[np.r_[breaks, found.size - 1]]
    return np.stack([firsts, lasts + 1], axis=1)


def complement(spans: Spans, size: int) -> Spans:
    """Return the codes from 0 to ``size`` that are not in a set."""
    edges: Spans = np.r_[0, spans.reshape(-1), size].reshape(-1, 2)
    return edges[edges[:, 0] < edges[:, 1]]


def spans_within(one: Spans, other: Spans, size: int) -> Spans:
    """Return the codes that are in both of two sets."""
    if len(one) == 0 or len(other) == 0:
        return np.empty((0, 2), np.int64)
    if len(one) == 1 and len(other) == 1:
        both = np.array([[max(one[0, 0], other[0, 0]), min(one[0, 1], other[0, 1])]], dtype=np.int64)
        return both[both[:, 0] < both[:, 1]]
    # What is in neither complement: complements are joined by sorting their ends.
    out = np.concatenate([complement(one, size), complement(other, size)])
    out = out[np.argsort(out[:, 0], kind="stable")]
    if not len(out):
        return np.array([[0, size]], dtype=np.int64)
    reach = np.maximum.accumulate(out[:, 1])
    starts = np.r_[True, out[1:, 0] > reach[:-1]]
    ends = np.r_[reach[np.flatnonzero(starts)[1:] - 1], reach[-1]]
    return complement(np.stack([out[starts, 0], ends], axis=1), size)


def joined(one: Spans, other: Spans, size: int) -> Spans:
    """Return the codes that are in either of two sets."""
    if not (len(one) and len(other)):
        return other if len(other) else one
    return complement(spans_within(complement(one, size), complement(other, size), size), size)


def codes_in(spans: Spans) -> CodeArray:
    """Return the codes of a set, one by one."""
    codes = [np.arange(first, last, dtype=np.int64) for first, last in spans.tolist()]
    return np.asarray(np.concatenate([np.empty(0, np.int64), *codes]))


def _among(codes: CodeArray, spans: Spans) -> BoolArray:
    return np.asarray(np.searchsorted(spans.reshape(-1), codes, side="right") % 2 == 1)


def codes_between(column: ModelledColumn, low: float, high: float) -> Spans:
    """Return the codes of the values from ``low`` to ``high``, both included, without that of an empty cell."""
    values, plain = values_of(column), column.n_values
    (first,), (last,) = values.place(np.array([low]), "left"), values.place(np.array([high]), "right")
    others = values[np.arange(plain, column.size)]
    beside = plain + np.flatnonzero((others >= low) & (others <= high))
    on_grid = np.array([[first, last]] if first < last else np.empty((0, 2)), dtype=np.int64)
    if not beside.size:
        return on_grid
    return complement(complement(np.concatenate([on_grid, spans_of(beside)]), column.size), column.size)


def n_codes(spans: Spans) -> int:
    """Return how many codes a set has."""
    return int((spans[:, 1] - spans[:, 0]).sum())


@dataclass(frozen=True, slots=True)
class Every:
    """Every ``step``-th code of a long grid from ``first`` to ``last``: too many to be listed as ranges of one code."""

    first: int
    last: int
    step: int

    def kept(self, codes: CodeArray) -> BoolArray:
        """Return which codes it has."""
        return np.asarray((codes >= self.first) & (codes <= self.last) & ((codes - self.first) % self.step == 0))

    def at_or_after(self, codes: CodeArray) -> CodeArray:
        """Return the first of its codes from each code on, which may be beyond its last one."""
        return np.asarray(self.first + np.maximum(-((self.first - codes) // self.step), 0) * self.step)

    def at_or_before(self, codes: CodeArray) -> CodeArray:
        """Return the last of its codes up to each code, which may be before its first one."""
        return np.asarray(self.first + (np.minimum(codes, self.last) - self.first) // self.step * self.step)

    def within(self, spans: Spans) -> Spans:
        """Return ranges with all of its codes that are in a set; each begins and ends with one."""
        low, high = self.at_or_after(spans[:, 0]), self.at_or_before(spans[:, 1] - 1)
        return np.stack([low, high + 1], axis=1)[low <= high]

    def count_in(self, spans: Spans) -> int:
        """Return how many of its codes are in a set."""
        within = self.within(spans)
        return int(((within[:, 1] - 1 - within[:, 0]) // self.step + 1).sum())


@dataclass(frozen=True, slots=True)
class Values:
    """The values of the codes of an ordered column; those of a long one are calculated where they are asked for."""

    column: ModelledColumn

    def __getitem__(self, codes: CodeArray) -> FloatArray:
        """Return the values of codes, NaN for an empty cell."""
        return np.asarray(_short(self.column)[codes] if self._is_short else self.column.comparable_at(codes))

    def place(self, targets: FloatArray, side: Literal["left", "right"]) -> CodeArray:
        """Return how many plain values come before each target, as ``np.searchsorted`` does."""
        plain = self.column.n_values
        if self._is_short:
            return np.asarray(np.searchsorted(_short(self.column)[:plain], targets, side=side), dtype=np.int64)
        low, high = np.zeros(len(targets), dtype=np.int64), np.full(len(targets), plain, dtype=np.int64)
        while (low < high).any():
            middle = (low + high) // 2
            found = self.column.comparable_at(np.minimum(middle, plain - 1))
            # What is no number comes after all others.
            beyond = ~(found >= targets) if side == "left" else ~(found > targets)
            low, high = np.where(beyond & (low < high), middle + 1, low), np.where(beyond, high, middle)
        return low

    @property
    def _is_short(self) -> bool:
        return self.column.size <= _SHORT


_SHORT = 2**16
"""Most codes of a column whose values are kept."""


def values_of(column: ModelledColumn) -> Values:
    """Return the values of the codes of an ordered column."""
    return Values(column)


@lru_cache(maxsize=256)
def _short(column: ModelledColumn) -> FloatArray:
    return column.comparable_values()


# What is true of a row -----------------------------------------------------------------------------------------------

Table = Mapping[str, CodeArray]
"""Codes of rows, by column."""


@dataclass(frozen=True, slots=True, eq=False)
class Among:
    """A cell has one of some codes: ``age < 15``, ``type in (child, teenager)``, ``income is missing``.

    Attributes
    ----------
    of_empty : bool
        It says whether the cell is empty.
    every : Every, optional
        Codes of the grid in addition to ``codes``, which then has none of the grid.
    """

    column: ModelledColumn
    codes: Spans
    text: str
    of_empty: bool = False
    every: Every | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """Its column."""
        return (self.column.name,)

    def kept(self, rows: Table) -> BoolArray:
        """Return which rows it is true of."""
        return self._has(rows[self.column.name])

    def _has(self, codes: CodeArray) -> BoolArray:
        found = _among(codes, self.codes)
        return found if self.every is None else found | self.every.kept(codes)

    def within(self, spans: Spans) -> Spans:
        """Return the codes of a set that meet it; with ``every``, ranges that begin and end with such codes."""
        found = spans_within(spans, self.codes, self.column.size)
        return found if self.every is None else joined(found, self.every.within(spans), self.column.size)

    def outside(self, spans: Spans) -> Spans:
        """Return the codes of a set that do not meet it; with ``every``, also some that do, unless all do."""
        found = spans_within(spans, complement(self.codes, self.column.size), self.column.size)
        return found if self.every is None or self.count_in(spans) < n_codes(spans) else found[:0]

    def count_in(self, spans: Spans) -> int:
        """Return how many codes of a set meet it."""
        found = n_codes(spans_within(spans, self.codes, self.column.size))
        return found if self.every is None else found + self.every.count_in(spans)

    def listed(self) -> Spans:
        """Return the set of the codes that meet it, without ``every``: those may be millions of ranges."""
        if self.every is None:
            return self.codes
        codes = np.arange(self.every.first, self.every.last + 1, self.every.step)
        return joined(self.codes, np.stack([codes, codes + 1], axis=1), self.column.size)

    def as_conclusion(self) -> Among:
        """Return the same with the empty cell among its codes, as an empty cell breaks nothing."""
        code = self.column.missing_code
        if code is None or self.of_empty or self._has(np.array([code]))[0]:
            return self
        both = joined(self.codes, np.array([[code, code + 1]], dtype=np.int64), self.column.size)
        return Among(self.column, both, self.text, every=self.every)


@dataclass(frozen=True, slots=True, eq=False)
class Comparison:
    """``left relation right + constant``: right is a sum of columns, or none.

    The constant is in the unit of the left column; between two dates it counts days, between two times of day minutes.
    A sum of several columns equals what is within half a step of it, because grids need not meet.
    """

    left: ModelledColumn
    relation: Relation
    right: tuple[ModelledColumn, ...] = ()
    constant: float = 0.0

    @property
    def columns(self) -> tuple[str, ...]:
        """Its columns, the left one first."""
        return (self.left.name, *(column.name for column in self.right))

    @property
    def order(self) -> tuple[str, str, bool] | None:
        """The larger and the smaller of two columns that it puts in order, and whether they are never equal."""
        if len(self.right) != 1:
            return None
        left, right = self.columns
        if self.relation in (">=", ">", "=") and self.constant >= 0:
            return left, right, self.relation == ">" or self.constant > 0
        if self.relation in ("<=", "<", "=") and self.constant <= 0:
            return right, left, self.relation == "<" or self.constant < 0
        return None

    @property
    def tolerance(self) -> float:
        """How far apart two sides may be that count as equal."""
        if self.relation != "=" or len(self.right) < 2 or self.left.levels < 2:
            return 0.0
        first, second = values_of(self.left)[np.arange(2)]
        return float(second - first) / 2

    def sides(self, rows: Table) -> tuple[FloatArray, FloatArray]:
        """Return the two sides of every row; NaN where a cell is empty."""
        own = values_of(self.left)[rows[self.left.name]]
        target = np.full(len(own), self.constant)
        for column in self.right:
            target += values_of(column)[rows[column.name]]
        return own, target

    def kept(self, rows: Table) -> BoolArray:
        """Return which rows it is true of."""
        own, target = self.sides(rows)
        return holds(own, target, self.relation, self.tolerance) | ~(np.isfinite(own) & np.isfinite(target))


@dataclass(frozen=True, slots=True, eq=False)
class Determined:
    """The code of a second column for every code of a first; -1 where nothing is declared.

    Attributes
    ----------
    codes, values : arrays of shape (codes,), int64
        Codes of the first column, ascending, and those of the second that go with them.
    other : int
        What goes with all other codes, which may be millions.
    """

    codes: CodeArray
    values: CodeArray
    other: int = -1

    @classmethod
    def of(cls, pairs: Mapping[int, int], other: int = -1) -> Self:
        """Return the table of some pairs of codes."""
        codes = np.array(sorted(pairs), dtype=np.int64)
        return cls(codes, np.array([pairs[code] for code in codes.tolist()], dtype=np.int64), other)

    def __getitem__(self, codes: CodeArray) -> CodeArray:
        """Return what goes with each code."""
        if not len(self.codes):
            return np.full(np.shape(codes), self.other, dtype=np.int64)
        place = np.minimum(np.searchsorted(self.codes, codes), len(self.codes) - 1)
        return np.where(self.codes[place] == codes, self.values[place], self.other)

    @property
    def is_empty(self) -> bool:
        """Whether it says nothing about any code."""
        return self.other < 0 and bool((self.values < 0).all())


@dataclass(frozen=True, slots=True, eq=False)
class Dependency:
    """One column determines another: ``wanted`` has the code of the second for every code of the first.

    ``learnt``: no table of values is declared, so it comes from the model.
    """

    source: ModelledColumn
    target: ModelledColumn
    wanted: Determined
    learnt: bool = False

    @property
    def columns(self) -> tuple[str, ...]:
        """What is determined, and what determines it."""
        return (self.target.name, self.source.name)

    def kept(self, rows: Table) -> BoolArray:
        """Return which rows it is true of."""
        wanted, found = self.wanted[rows[self.source.name]], rows[self.target.name]
        empty = self.target.missing_code
        return np.asarray((wanted < 0) | (wanted == found) | (found == (-2 if empty is None else empty)))


Conclusion = Among | Comparison | Dependency


@dataclass(frozen=True, slots=True, eq=False)
class Rule:
    """One rule: every row that meets ``when`` must keep ``then``.

    Attributes
    ----------
    line : int
        The line of ``rules:`` that contains it, counted from 0; some lines contain several.
    text : str
        That line.
    """

    line: int
    text: str
    when: tuple[Among, ...]
    then: Conclusion

    @property
    def columns(self) -> tuple[str, ...]:
        """Its columns, those of the conclusion first."""
        return tuple(dict.fromkeys([*self.then.columns, *(name for one in self.when for name in one.columns)]))

    def broken(self, rows: Table) -> BoolArray:
        """Return which rows break it."""
        return self.broken_by(lambda part: part.kept(rows))

    def broken_by(self, kept: Callable[[Conclusion], BoolArray]) -> BoolArray:
        """Return which rows break it, given which rows each of its parts is true of."""
        found = ~kept(self.then)
        for one in self.when:
            if found.any():
                found &= kept(one)
        return found


@dataclass(frozen=True, slots=True, eq=False)
class Heap:
    """A share of the rows has one of some values, as people round; it is about the table, so no row can break it."""

    line: int
    text: str
    where: Among
    share: float


# Words ---------------------------------------------------------------------------------------------------------------


def quoted(text: str) -> str:
    """Return a name or a value as it is written in a line: in quotation marks where it could be misread."""
    plain = bool(text) and text == text.strip() and not any(sign in text for sign in '<>=!+,;()"')
    plain = plain and not _RESERVED & set(text.lower().split())
    return text if plain else '"' + text.replace('"', '""') + '"'


_RESERVED = {"if", "then", "and", "is", "in", "not", "determines", "by", "exactly"}


# Values --------------------------------------------------------------------------------------------------------------


def holds(left: FloatArray, right: FloatArray, relation: Relation, tolerance: float = 0.0) -> BoolArray:
    """Return whether a relation holds between values; floating-point sums count as what they would be on paper."""
    # Grid values are sums in floating point: 0.1 + 0.2 has to equal 0.3 here.
    gap = left - right
    slack = 1e-9 * np.maximum(1.0, np.abs(right))
    checks = {
        ">=": gap >= -slack,
        ">": gap > slack,
        "<=": gap <= slack,
        "<": gap < -slack,
        "=": np.abs(gap) <= tolerance + slack,
    }
    return np.asarray(checks[relation])


def nearest(column: ModelledColumn, target: FloatArray, relation: Relation) -> CodeArray:
    """Return the level nearest to ``target`` that has this relation to it, or the nearest end of the grid."""
    grid, last = values_of(column), column.n_values - 1
    slack = 1e-9 * np.maximum(1.0, np.abs(target))
    if relation == ">=":
        code = grid.place(target - slack, "left")
    elif relation == ">":
        code = grid.place(target + slack, "right")
    elif relation == "<=":
        code = grid.place(target + slack, "right") - 1
    elif relation == "<":
        code = grid.place(target - slack, "left") - 1
    else:
        after = np.clip(grid.place(target, "left"), 1, max(last, 1))
        after = np.minimum(after, last)
        before = np.maximum(after - 1, 0)
        code = np.where(np.abs(grid[after] - target) < np.abs(grid[before] - target), after, before)
    return np.clip(code, 0, last).astype(np.int64)


# Cells of a table that no row can be in ------------------------------------------------------------------------------

_MOST_LOOKED_AT = 4_000_000
"""Most combinations of codes that are checked; in larger tables every cell counts as possible."""


class BinsOfCodes(Protocol):
    """The bin of every code of a column."""

    @property
    def size(self) -> int:
        """Number of codes."""
        ...

    @property
    def count(self) -> int:
        """Number of bins."""
        ...

    @property
    def edges(self) -> CodeArray:
        """The first code of every run of codes with the same bin."""
        ...

    def __getitem__(self, codes: CodeArray, /) -> npt.NDArray[np.int32]:
        """Return the bin of each code."""
        ...


def possible_cells(rules: Sequence[Rule], bins: Mapping[str, BinsOfCodes]) -> BoolArray:
    """Return which cells of a table of bins a row can be in that keeps each of these rules by itself.

    Parameters
    ----------
    rules : sequence of Rule
        About columns of ``bins`` only.
    bins : mapping of str to BinsOfCodes
        The bin of every code, for each column of the table.

    Returns
    -------
    array of shape (bins of each column), bool
        In the order of ``bins``. True where it is not known.
    """
    shape = tuple(own.count for own in bins.values())
    found = np.ones(shape, bool)
    for rule in rules:
        if isinstance(rule.then, Dependency) and math.prod(own.size for own in bins.values()) > _MOST_LOOKED_AT:
            continue
        codes = {name: _told_apart(rule, name, own) for name, own in bins.items()}
        if math.prod(map(len, codes.values())) > _MOST_LOOKED_AT:
            continue
        rows = dict(zip(codes, (axis.reshape(-1) for axis in np.meshgrid(*codes.values(), indexing="ij")), strict=True))
        cell = np.ravel_multi_index([bins[name][own] for name, own in rows.items()], shape)
        for kept in _kept(rule, rows):
            found &= np.bincount(cell[kept], minlength=found.size).astype(bool).reshape(shape)
    return found


def _kept(rule: Rule, rows: Table) -> tuple[BoolArray, ...]:
    """Return which rows keep a rule; for an equality, where the left side is not too large, and not too small."""
    then = rule.then
    if not isinstance(then, Comparison) or then.relation != "=":
        return (~rule.broken(rows),)
    own, target = then.sides(rows)
    free = ~(np.isfinite(own) & np.isfinite(target))
    for one in rule.when:
        free |= ~one.kept(rows)
    return (free | (own <= target + then.tolerance), free | (own >= target - then.tolerance))


def _told_apart(rule: Rule, name: str, bins: BinsOfCodes) -> CodeArray:
    """Return enough codes of a column: if any code of a bin can keep a rule, one of these can.

    Those are all codes for a dependency; otherwise the first and last of each bin, which decide which side is larger,
    and the first and last inside and outside every condition.
    """
    if isinstance(rule.then, Dependency):
        return np.arange(bins.size)
    edges = [bins.edges, np.array([bins.size])]
    compared = [rule.then.left, *rule.then.right] if isinstance(rule.then, Comparison) else []
    conditions = [one for one in (*rule.when, rule.then) if isinstance(one, Among) and one.column.name == name]
    for column in (*compared, *(one.column for one in conditions)):
        if column.name == name:
            edges.append(np.arange(column.levels, column.size))
    of_grid = [one.every for one in conditions if one.every is not None]
    for every in of_grid:
        ends = np.concatenate(edges)
        near = np.concatenate([every.at_or_after(ends), every.at_or_before(ends - 1), [every.first, every.last]])
        edges += [near, near + 1]
    around = np.concatenate([*edges, *(one.codes.reshape(-1) for one in conditions)])
    around = np.concatenate([around - 1, around])
    return np.unique(around[(around >= 0) & (around < bins.size)])
