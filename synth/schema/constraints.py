"""Rules between columns, kept by every row: synthetic rows that break one are repaired.

This is post-processing of a release, so it costs nothing: a repaired row follows from the row that was drawn, from its
place, from the public seed, the rules and the fitted model, and where rows exchange cells also from the other rows
drawn. Rows exchange cells first (``shares``). Where a row still breaks a rule, the conclusion of the rule moves to the
nearest value that keeps it; a category is drawn as the model draws it among rows that keep the rule. Where no such move
keeps all rules together, the row takes the values of a public row that keeps them, and then gets back its own values
where the rules allow them. So in the end every row keeps every rule, if any row can.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from synth.names import shown
from synth.schema.columns.base import ModelledColumn
from synth.schema.contradictions import Search, linked
from synth.schema.people import People, people_of
from synth.schema.people_rules import is_about_pairs
from synth.schema.rule_lines import RuleSet
from synth.schema.rules import (
    MIRROR,
    Among,
    Comparison,
    Dependency,
    Determined,
    Rule,
    Spans,
    codes_between,
    codes_in,
    complement,
    holds,
    nearest,
    spans_within,
    values_of,
)
from synth.schema.schema import Schema
from synth.schema.shares import exchanged

__all__ = ["Repaired", "asks_the_model", "mended_beside", "repair", "unkept"]

FloatArray = npt.NDArray[np.float64]
CodeArray = npt.NDArray[np.int64]

_MOST_TURNS = 20
_AT_ONCE = 65_536


# Repair --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Repaired:
    """Rows that keep every rule, and how much of them had to be changed.

    Attributes
    ----------
    codes : array of shape (rows, modelled columns)
    changed : int
        Rows in which a rule changed a cell.
    broken : tuple of int
        For every line of ``rules:`` how many drawn rows broke it; for heaped values, how many were moved.
    """

    codes: CodeArray
    changed: int
    broken: tuple[int, ...]


def asks_the_model(rules: RuleSet) -> bool:
    """Whether repairs need other rows of the model: for a category, a learnt table or a share of heaps."""
    return bool(rules.heaps or rules.learnt or any(isinstance(rule.then, Among) for rule in rules.rules))


def repair(
    codes: CodeArray,
    rules: RuleSet,
    schema: Schema,
    *,
    seed: int = 0,
    drawn: CodeArray | None = None,
) -> Repaired:
    """Return the rows with every rule kept: rows exchange cells where that mends them, then cells are moved.

    Parameters
    ----------
    codes : int64 array of shape (rows, modelled columns)
        Synthetic codes; not changed.
    rules : RuleSet
        Applied in order, again and again until all are kept. Learnt tables have been filled.
    schema : Schema
        Declares the columns in the order of ``codes``.
    seed : int
        Public.
    drawn : array of shape (rows, modelled columns), optional
        Rows of the model, from which categories are drawn to keep rules; without them all are equally likely.
    """
    repaired = codes.copy()
    broken = [0] * len(rules.lines)
    place = {name: index for index, name in enumerate(schema.names)}
    mending = _Mending(rules.rules, place, seed, drawn)
    for heap in rules.heaps:
        broken[heap.line] += mending.heap(heap.where, heap.share, repaired[:, place[heap.where.column.name]])
    for rule in rules.rules:
        broken[rule.line] += int(rule.broken({name: repaired[:, place[name]] for name in rule.columns}).sum())
    before = repaired
    if rules.rules:
        repaired = exchanged(before, rules.rules, schema, seed=seed)
    own = repaired.copy() if rules.rules else repaired
    open_rows = np.arange(len(codes))
    for _ in range(_MOST_TURNS if rules.rules else 0):
        open_rows = mending.turn(repaired, open_rows)
        if not len(open_rows):
            break
    if len(open_rows) and rules.rules:
        mending.settle(repaired, own, open_rows)
    return Repaired(repaired, int((repaired != before).any(axis=1).sum()), tuple(broken))


def mended_beside(
    codes: CodeArray, rules: Sequence[Rule], place: Mapping[str, int], *, moved: Collection[str], seed: int
) -> CodeArray:
    """Return rows with some of their columns moved so that they keep the rules, where that can be done so.

    Parameters
    ----------
    codes : int64 array of shape (rows, columns)
        Not changed.
    rules : sequence of Rule
        Applied in order, again and again until all are kept.
    place : mapping of str to int
        Which column of ``codes`` a name means.
    moved : collection of str
        The columns that may change.
    seed : int
        Public; draws categories.
    """
    found = codes.copy()
    mending = _Mending(tuple(rules), place, seed, None, fixed=place.keys() - set(moved))
    open_rows = np.arange(len(codes))
    for _ in range(_MOST_TURNS):
        open_rows = mending.turn(found, open_rows)
        if not len(open_rows):
            break
    return found


@dataclass(frozen=True, slots=True, eq=False)
class _Runs:
    """Codes that are drawn equally often: ``single`` ones several times, or runs of codes once each.

    ``first`` is the code, or the first of a run, and ``total`` how many there are up to and including it.
    """

    first: CodeArray
    total: CodeArray
    single: bool

    def at(self, chances: FloatArray) -> CodeArray:
        """Return the codes at which the cumulated share first exceeds each chance from 0 to below 1."""
        whole = int(self.total[-1])
        rank = np.minimum((chances * whole).astype(np.int64), whole - 1)
        # A product may be rounded beyond the share that it is compared with.
        rank -= (rank > 0) & (rank / whole > chances)
        rank += (rank + 1 < whole) & ((rank + 1) / whole <= chances)
        run = np.searchsorted(self.total, rank, side="right")
        return np.asarray(self.first[run] + (0 if self.single else rank - np.append(0, self.total)[run]))


class _Mending:
    """The rules, the public seed and the drawn rows that repair rows; columns that are ``fixed`` stay as they are."""

    def __init__(
        self,
        rules: tuple[Rule, ...],
        place: Mapping[str, int],
        seed: int,
        drawn: CodeArray | None,
        *,
        fixed: Set[str] = frozenset(),
    ) -> None:
        self.rules, self.place, self.seed, self.drawn, self.fixed = rules, place, seed, drawn, fixed
        self._runs: dict[int, _Runs] = {}

    def heap(self, where: Among, share: float, codes: CodeArray) -> int:
        """Move rows to heaps until about the declared share is there, counting those that were drawn there."""
        name = where.column.name
        model = codes if self.drawn is None else self.drawn[:, self.place[name]]
        already = float(where.kept({name: model}).mean()) if len(model) else 0.0
        if already >= share:
            return 0
        chance = (share - already) / (1 - already)
        moved = ~where.kept({name: codes}) & np.isfinite(values_of(where.column)[codes])
        moved &= _chance(np.arange(len(codes)), self.seed, self.place[name]) < chance
        codes[moved] = _nearest_among(where, codes[moved])
        return int(moved.sum())

    def turn(self, codes: CodeArray, open_rows: CodeArray) -> CodeArray:
        """Move cells that break a rule, rule by rule, and return the rows that still break one."""
        rows = {name: codes[open_rows, self.place[name]] for rule in self.rules for name in rule.columns}
        for number, rule in enumerate(self.rules):
            broken = rule.broken(rows)
            if broken.any():
                self._mend(rule, number, rows, np.flatnonzero(broken), open_rows)
        for name, column in rows.items():
            codes[open_rows, self.place[name]] = column
        still = np.zeros(len(open_rows), bool)
        for rule in self.rules:
            still |= rule.broken(rows)
        return open_rows[still]

    def _mend(
        self, rule: Rule, number: int, rows: dict[str, CodeArray], broken: CodeArray, open_rows: CodeArray
    ) -> None:
        then = rule.then
        if self.fixed >= set(then.columns if isinstance(then, Comparison) else then.columns[:1]):
            free = next((one for one in rule.when if one.column.name not in self.fixed), None)
            if free is None:
                return
            # What follows cannot move, so the condition must not be met.
            then = Among(free.column, complement(free.listed(), free.column.size), f"not {free.text}")
            rule, number = Rule(rule.line, rule.text, (), then), -1 - number
        if isinstance(then, Dependency):
            rows[then.target.name][broken] = then.wanted[rows[then.source.name][broken]]
        elif isinstance(then, Comparison):
            _move(then, rows, broken, self.fixed)
        else:
            codes = rows[then.column.name]
            valued = np.zeros(len(broken), bool)
            if then.column.has_order:
                some = then.count_in(_valued(then.column)) > 0
                valued = np.isfinite(values_of(then.column)[codes[broken]]) & some
            if valued.any():
                codes[broken[valued]] = _nearest_among(then, codes[broken[valued]])
            asked = broken[~valued]
            if len(asked) and then.count_in(np.array([[0, then.column.size]])):
                drawn = _chance(open_rows[asked], self.seed, len(self.place) + abs(number))
                codes[asked] = self._runs_of(then, rule, number).at(drawn)

    def _runs_of(self, then: Among, rule: Rule, number: int) -> _Runs:
        """Return the codes that keep a rule, as often as the model draws each in rows that meet it."""
        found = self._runs.get(number)
        if found is None:
            found = self._runs[number] = self._drawn_runs(then, rule)
        return found

    def _drawn_runs(self, then: Among, rule: Rule) -> _Runs:
        allowed, empty, size = then.listed(), then.column.missing_code, then.column.size
        if empty is not None and (len(allowed) > 1 or allowed[0, 1] - allowed[0, 0] > 1):
            allowed = spans_within(allowed, complement(np.array([[empty, empty + 1]]), size), size)
        if self.drawn is not None:
            rows = {name: self.drawn[:, self.place[name]] for name in rule.columns}
            meets = Among(then.column, allowed, "").kept(rows)
            for one in rule.when:
                meets &= one.kept(rows)
            for which in (meets, Among(then.column, allowed, "").kept(rows)):
                if which.any():
                    codes, times = np.unique(rows[then.column.name][which], return_counts=True)
                    return _Runs(codes.astype(np.int64), np.cumsum(times), single=True)
        return _Runs(allowed[:, 0], np.cumsum(allowed[:, 1] - allowed[:, 0]), single=False)

    def settle(self, codes: CodeArray, before: CodeArray, open_rows: CodeArray) -> None:
        """Give rows that no turn mends the values of a row that keeps all rules, then their own where allowed."""
        for together in linked(self.rules):
            search = Search(together)
            rows = {name: codes[open_rows, self.place[name]] for name in search.columns}
            broken = np.zeros(len(open_rows), bool)
            for rule in together:
                broken |= rule.broken(rows)
            public = search.row(empty=True) if broken.any() else None
            if public is None:
                continue
            which = open_rows[broken]
            held = {name: np.full(len(which), code, np.int64) for name, code in public.items()}
            # Conclusions of rules are given back last: they are what the rules would move.
            concluded = {name for rule in together for name in rule.then.columns[:1]}
            for name in sorted(held, key=lambda one: one in concluded):
                self._give_back(held, name, before[which, self.place[name]], search.about[name])
            for name, column in held.items():
                codes[which, self.place[name]] = column

    @staticmethod
    def _give_back(held: dict[str, CodeArray], name: str, own: CodeArray, about: Sequence[Rule]) -> None:
        trial = held | {name: own}
        broken = np.zeros(len(own), bool)
        for rule in about:
            broken |= rule.broken(trial)
        held[name] = np.where(broken, held[name], own)


def _valued(column: ModelledColumn) -> Spans:
    """Return the codes that have a value."""
    return codes_between(column, -np.inf, np.inf)


def _nearest_among(where: Among, codes: CodeArray) -> CodeArray:
    """Return the allowed code whose value is nearest; a value of the grid before one outside it."""
    column = where.column
    values, plain = values_of(column), column.n_values
    on_grid = spans_within(where.codes, np.array([[0, plain]], dtype=np.int64), column.size)
    target = values[codes]
    if where.every is not None:
        place = nearest(column, target, "=")
        low = np.maximum(where.every.at_or_before(place), where.every.first)
        high = np.minimum(low + where.every.step, where.every.last)
        return np.where(np.abs(values[low] - target) <= np.abs(values[high] - target), low, high)
    if not len(on_grid):
        beside = codes_in(spans_within(where.codes, _valued(column), column.size))
        return np.asarray(beside[np.abs(values[beside][None, :] - target[:, None]).argmin(axis=1)])
    place = nearest(column, target, "=")
    after = np.searchsorted(on_grid[:, 0], place, side="right")
    before = np.maximum(after - 1, 0)
    low = np.clip(place, on_grid[before, 0], on_grid[before, 1] - 1)
    high = np.maximum(on_grid[np.minimum(after, len(on_grid) - 1), 0], low)
    return np.where(np.abs(values[low] - target) <= np.abs(values[high] - target), low, high)


def _move(then: Comparison, rows: dict[str, CodeArray], broken: CodeArray, fixed: Set[str]) -> None:
    """Move the left column to a value that keeps a comparison, or a column on the right where it has none."""

    def sides() -> tuple[FloatArray, FloatArray]:
        return then.sides({name: rows[name][broken] for name in then.columns})

    def place_left() -> None:
        if then.left.name in fixed:
            return
        rows[then.left.name][broken] = nearest(then.left, sides()[1], then.relation)

    place_left()
    for column in (one for one in then.right if one.name not in fixed):
        own, target = sides()
        still = ~holds(own, target, then.relation, then.tolerance)
        if not still.any():
            return
        which = broken[still]
        others = target[still] - values_of(column)[rows[column.name][which]]
        rows[column.name][which] = nearest(column, own[still] - others, MIRROR[then.relation])
        if len(then.right) > 1:
            place_left()


def _chance(rows: CodeArray, seed: int, salt: int) -> FloatArray:
    """Return a number from 0 to 1 for every row, only from its place and public numbers (splitmix64)."""
    with np.errstate(over="ignore"):
        mixed = np.uint64(seed) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(salt + 1) * np.uint64(0xD1B54A32D192ED03)
        found = (rows.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15) + mixed
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            found = (found ^ (found >> np.uint64(shift))) * np.uint64(factor)
        found ^= found >> np.uint64(31)
    return (found >> np.uint64(11)).astype(np.float64) * 2.0**-53


# Whether rows keep them ----------------------------------------------------------------------------------------------


def unkept(
    rules: RuleSet,
    schema: Schema,
    codes: npt.NDArray[np.integer[Any]],
    units: npt.NDArray[np.integer[Any]] | None = None,
) -> Iterator[str]:
    """Yield which rules a finished table breaks, with one sentence for each line of ``rules:``.

    Parameters
    ----------
    rules : RuleSet
        As they were read: where no table of values is declared, the rows must agree with each other.
    schema : Schema
    codes : array of shape (rows, modelled columns)
    units : array of shape (rows,), optional
        Where people are kept whole, the number of each row's person, from 0, never decreasing.
    """
    place = {name: index for index, name in enumerate(schema.names)}
    people = None if units is None else people_of(schema)
    count = np.zeros(0, dtype=np.int64)
    if people is not None and units is not None:
        count = people.counted(codes, units)
    no_row = schema.no_row
    seen = {number: Determined.of({}) for number in range(len(rules.learnt))}
    said: set[int] = set()
    for first in range(0, len(codes), _AT_ONCE):
        # Column by column, with the first row of the next part: it may be the next row of the last one's person.
        part = slice(first, first + _AT_ONCE + 1)
        named = rules.columns if people is None else people.declared_names(rules.columns)
        cells = {name: codes[part, place[name]].astype(np.int64) for name in named}
        rows = {name: column[:_AT_ONCE] for name, column in cells.items()}
        for rule in rules.rules:
            if rule.line in said:
                continue
            if people is not None and units is not None and not place.keys() >= set(rule.columns):
                broken, what = _broken_by_people(rule, cells, units[part], count, people)
            else:
                broken, what = rule.broken(rows), "row {0:,} breaks"
            if broken.any():
                said.add(rule.line)
                row = first + int(broken.argmax()) + 1
                yield f"{what.format(row, row + 1)} '{shown(rule.text)}'"
        for number, one in enumerate(rules.learnt):
            if number in seen:
                source, target = rows[one.source.name], rows[one.target.name]
                if no_row is not None and not no_row.empty.isdisjoint((one.source.name, one.target.name)):
                    there = codes[first : first + _AT_ONCE, place[no_row.column]] != no_row.code
                    source, target = source[there], target[there]
                agreed = _agreed(one, source, target, seen[number])
                if agreed is not None:
                    seen[number] = agreed
                    continue
                del seen[number]
                yield f"'{shown(one.target.name)}' has two values where '{shown(one.source.name)}' has one"


def _broken_by_people(
    rule: Rule,
    cells: Mapping[str, CodeArray],
    units: npt.NDArray[np.integer[Any]],
    count: CodeArray,
    people: People,
) -> tuple[npt.NDArray[np.bool_], str]:
    """Return which rows break a rule about the number of rows or the next row, and how that is said."""
    pairs = is_about_pairs(rule, people)
    rows = slice(0, len(units) - 1 if pairs else _AT_ONCE)
    found = rule.broken(
        people.cells(rule.columns, lambda name: cells[name][rows], lambda name: cells[name][1:], count[units[rows]])
    )
    if not pairs:
        return found, "row {0:,} breaks"
    return found & (units[1:] == units[:-1]), "rows {0:,} and {1:,} break"


def _agreed(then: Dependency, source: CodeArray, target: CodeArray, seen: Determined) -> Determined | None:
    """Return the values of one column that go with those of another, with those of more rows; None if they differ."""
    valued = target != -2 if then.target.missing_code is None else target != then.target.missing_code
    if then.source.missing_code is not None:
        valued &= source != then.source.missing_code
    source = np.concatenate([seen.codes, source[valued]])
    target = np.concatenate([seen.values, target[valued]])
    codes, first, place = np.unique(source, return_index=True, return_inverse=True)
    return Determined(codes, target[first]) if (target[first][place] == target).all() else None
