"""Whole people from a table of people: rows that a generator draws become units with several rows each.

A row of the table of people (:mod:`synth.schema.people`) says how many rows a person has, two of them that follow each
other, and where these are. The others are found among a large pool of such rows: what came after a row like the last
one, in people like this one, comes next, and what came before a row like the first one, before it. So what belongs to
the person, the number of rows and a pair of rows come from the generator as one, and longer courses are chains of
pairs, tied together by the person, by usual values and by where a pair is.

Nothing here sees a private row, and everything follows from the fitted generator, the public seed and declarations.

Notes
-----
The pool is sorted by keys: columns of the person and of the row at hand, one after another the one that says most about
what follows beside those before it, as the pool itself tells (conditional mutual information, in at most 16 bins, less
what chance alone adds). A row that follows is drawn among those of the pool that agree in as many of the first keys as
leave at least five. Other dates at the step of the date that gives the order keep their distance to it.

Noise hides much of how a number in the next row depends on the person: its table with the usual value is one of many.
Where the pool's first rows tell more about a number than its pairs do, the number of a next row is that of a first row
that agrees with it in everything else, in a person like this one, if the number also stays alike from row to row. So
people differ from each other as much as they should. The two rows of a person who has no others stay as drawn.

Structure is by construction: a person has as many rows as drawn, in order, and what is the same in all rows is the
same. The next row is drawn again where it breaks a declared rule or leaves the declared range of the order; where no
draw will do, the row at hand is repeated, which keeps both.

A repeated row may break a rule about a row and the next (``next.visited > visited``). With such rules a last draw and
then the repeated row are moved as repairs move cells, beside a row that stays as it is. Where that does not help
either, a person's rows end there: further rows are sought at the other end, and if there are none either, the person
has fewer. Who then breaks a rule about the number of rows becomes another of the people made, all of whose rows keep
every rule, or where nobody does a public one, found in the declared columns before anything was charged.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from synth.generators.sampling import random_source
from synth.names import shown
from synth.schema import DateColumn, ModelledColumn, People
from synth.schema.kept_by_people import RulesOfPeople
from synth.schema.people import PLACES
from synth.schema.schema import LEFT_ONLY, MERGE

__all__ = ["POOL", "MadePeople", "as_declared", "broken_structure", "unfolded", "with_a_row"]

POOL = 60_000
"""Rows of the table of people that are drawn to find what follows what."""

_BINS = 16
_FEWEST = 5
_MOST_KEYS = 12
_CANDIDATES = 16
"""Keys among which each next one is looked for, those that say most by themselves."""
_LOOKED_AT = 20_000
"""Rows of the pool from which the order of keys follows."""
_TRIES = 8

_Whole = NDArray[np.int64]
_Mask = NDArray[np.bool_]
_ONLY, _BOTH, _FIRST, _MIDDLE, _LAST = range(len(PLACES))
_NOWHERE = len(PLACES)


@dataclass(frozen=True, slots=True, eq=False)
class MadePeople:
    """Rows of the declared table, person by person.

    Attributes
    ----------
    codes : array of shape (rows, n_modelled)
        Columns in the order of the declared schema. Where two tables were joined, a person without a row in the second
        has one, that of the first, with empty cells.
    units : array of shape (rows,)
        The number of each row's person, from 0, never decreasing.
    shortened, replaced : int
        People who have fewer rows than were drawn, and people who became others, so that every rule is kept.
    """

    codes: _Whole
    units: _Whole
    shortened: int = 0
    replaced: int = 0


def unfolded(
    drawn: _Whole, pool: _Whole, people: People, *, rows: int | None, seed: int, rules: RulesOfPeople | None = None
) -> MadePeople:
    """Make people of rows of the table of people.

    Parameters
    ----------
    drawn : array of shape (people, columns asked)
        One row for each person, which keeps every rule.
    pool : array of shape (rows, columns asked)
        More such rows.
    people : People
    rows : int, optional
        Stop with the person who completes this number of rows, whose rows are all kept; otherwise everybody is made.
    seed : int
        Public.
    rules : RulesOfPeople, optional
        The declared rules, if there are any.

    Returns
    -------
    MadePeople
    """
    random = random_source(seed)
    pairs = _Pairs(pool, people)

    def made(drawn: _Whole, count: _Whole) -> MadePeople:
        making = _Making(drawn, count, pairs, random, rules)
        making.begin()
        making.go_on()
        making.go_back()
        return making.finished()

    count = _rows_of(drawn, people)
    if rows is None:
        return made(drawn, count)
    drawn = drawn[random.permutation(len(drawn))]
    count = _rows_of(drawn, people)
    found: list[MadePeople] = []
    missing = rows
    # Again only where rules have shortened people: otherwise the first ones complete the number.
    while missing > 0 and len(drawn):
        enough = int(np.searchsorted(np.cumsum(count), missing)) + 1
        found.append(made(drawn[:enough], count[:enough]))
        drawn, count, missing = drawn[enough:], count[enough:], missing - len(found[-1].codes)
    return _together(found)


def _together(parts: Sequence[MadePeople]) -> MadePeople:
    """Return people made in several parts as one."""
    starts = np.cumsum([0, *(int(one.units[-1]) + 1 for one in parts)])
    return MadePeople(
        np.concatenate([one.codes for one in parts]),
        np.concatenate([one.units + start for one, start in zip(parts, starts, strict=False)]),
        sum(one.shortened for one in parts),
        sum(one.replaced for one in parts),
    )


def with_a_row(drawn: _Whole, people: People) -> _Whole:
    """Return the rows of the table of people in which all that is about a row can be in the declared table."""
    if people.least:
        return drawn
    names, found = people.asked.names, drawn[:, people.asked.names.index(people.count)] > 0
    for name in people.by_row:
        found &= drawn[:, names.index(name)] < people.schema.size_of(name)
    return drawn[found]


def as_declared(drawn: _Whole, people: People) -> _Whole:
    """Return the one row that rows of the table of people say of each person, as rows of the declared table.

    Where two tables were joined, without people who have no row in the second.
    """
    names, drawn = people.asked.names, with_a_row(drawn, people)
    both = np.zeros((len(drawn), 1), dtype=drawn.dtype)
    return np.hstack([both if name == MERGE.name else drawn[:, [names.index(name)]] for name in people.schema.names])


def _rows_of(drawn: _Whole, people: People) -> _Whole:
    """Return how many rows each person has in the declared table: nobody has none there."""
    count = drawn[:, people.asked.names.index(people.count)] + people.least
    return np.maximum(count, 1)


def _moving_dates(people: People) -> tuple[str, ...]:
    """Return the dates that move with the date that gives the order: all at the same step."""
    leading = None if people.order is None else people.schema.modelled_column(people.order)
    if not isinstance(leading, DateColumn):
        return ()
    columns = {name: people.schema.modelled_column(name) for name in people.following}
    return tuple(name for name, one in columns.items() if isinstance(one, DateColumn) and one.step == leading.step)


def broken_structure(codes: NDArray[np.integer[Any]], units: _Whole, people: People) -> Iterator[str]:
    """Yield what is wrong with people in a finished table, one sentence each.

    Parameters
    ----------
    codes, units
        As in :class:`MadePeople`.
    people : People
    """
    schema, who = people.schema, people.schema.unit.protects
    if np.bincount(units, minlength=1).max() > people.most:
        yield f"one {who} has more than {people.most:,} rows"
    same = np.diff(units) == 0
    for name in people.own:
        column = codes[:, schema.names.index(name)]
        if (column[1:] != column[:-1])[same].any():
            yield f"'{shown(name)}' is not the same in all rows of one {who}"
    if people.order is not None:
        # A special value or a missing cell comes after every value of the grid.
        levels = schema.modelled_column(people.order).levels
        column = np.minimum(codes[:, schema.names.index(people.order)], levels)
        if (column[1:] < column[:-1])[same].any():
            yield f"the rows of one {who} are not in the order of '{shown(people.order)}'"
    if people.schema.tables is not None:
        yield from _broken_join(codes, same, people)


def _broken_join(codes: NDArray[np.integer[Any]], same: _Mask, people: People) -> Iterator[str]:
    """Yield what is wrong with people of whom some have no row in the second of two tables."""
    schema, who = people.schema, people.schema.unit.protects
    alone = codes[:, schema.names.index(MERGE.name)] == LEFT_ONLY
    if (codes[:, schema.names.index(MERGE.name)] > LEFT_ONLY).any():
        yield f"one row belongs to no {who}"
    if (same & (alone[1:] | alone[:-1])).any():
        yield f"one {who} both has rows and has none"
    if any((codes[alone, schema.names.index(name)] != people.blank(name)).any() for name in people.by_row):
        yield f"one {who} without a row has a cell of one"


class _Pairs:
    """The rows of a pool that have a next row: what follows what."""

    def __init__(self, pool: _Whole, people: People) -> None:
        self.people = people
        self.at = {name: place for place, name in enumerate(people.asked.names)}
        self.rows = pool[self.with_next(pool)]
        place = self.rows[:, self.at[people.place]]
        self.is_first = ((place == _BOTH) | (place == _FIRST)).astype(np.int64)
        self.is_last = ((place == _BOTH) | (place == _LAST)).astype(np.int64)
        own = [*people.own, people.count, *people.usual.values()]
        self._coarse = {name: _Coarse(self.rows[:, self.at[name]], people.asked.modelled_column(name)) for name in own}
        for name in people.by_row:
            seen = [self.rows[:, self.at[name]]]
            if name in people.following:
                seen.append(self.rows[:, self.at[people.following[name]]])
            self._coarse[name] = _Coarse(np.concatenate(seen), people.schema.modelled_column(name))
        self.own = own

    def with_next(self, rows: _Whole) -> _Mask:
        """Return which rows of the table of people have a next row, each cell of which can be one of the table."""
        people = self.people
        place = rows[:, self.at[people.place]]
        found: _Mask = (_rows_of(rows, people) > 1) & (place != _ONLY) & (place != _NOWHERE)
        absent = np.ones(len(rows), dtype=bool)
        for name, new in people.following.items():
            none = rows[:, self.at[new]] == people.absent_code(name)
            absent &= none
            if not people.schema.modelled_column(name).missing:
                found &= ~none
        if people.following:
            found &= ~absent
        if people.least == 0:
            for name in people.by_row:
                if not people.schema.modelled_column(name).missing:
                    found &= rows[:, self.at[name]] != people.asked.size_of(name) - 1
        order = None if people.order is None else people.schema.modelled_column(people.order)
        if people.gap is not None and order is not None and order.size == order.levels:
            found &= rows[:, self.at[people.gap]] != people.asked.size_of(people.gap) - 1
        return found

    def this_row(self, places: _Whole | slice) -> dict[str, _Whole]:
        """Return the first row of pairs, by column."""
        return {name: self.rows[places, self.at[name]] for name in self.people.by_row}

    def next_row(self, places: _Whole | slice, rows: _Whole | None = None) -> dict[str, _Whole]:
        """Return the second row of pairs, by column, without the column of the order; of the pool, or of other rows."""
        rows = self.rows if rows is None else rows
        return {name: rows[places, self.at[new]] for name, new in self.people.following.items()}

    def gaps(self, places: _Whole | slice, rows: _Whole | None = None) -> _Whole | None:
        """Return what lies between the two, in steps; -1 where that is not known."""
        if self.people.gap is None:
            return None
        gaps = (self.rows if rows is None else rows)[places, self.at[self.people.gap]]
        return np.where(gaps == self.people.asked.size_of(self.people.gap) - 1, -1, gaps)

    def coarse(self, cells: dict[str, _Whole]) -> dict[str, _Whole]:
        """Return cells in their bins."""
        return {name: self._coarse[name].of(codes) for name, codes in cells.items()}

    def people_of(self, rows: _Whole) -> dict[str, _Whole]:
        """Return what rows of the table of people say about their person, by column."""
        return {name: rows[:, self.at[name]] for name in self.own}

    def matches(self, *, onwards: bool) -> _Matches:
        """Return where a next row is found by the one before, or one before by the next."""
        return self._onwards if onwards else self._backwards

    @cached_property
    def _onwards(self) -> _Matches:
        return self._found(onwards=True)

    @cached_property
    def _backwards(self) -> _Matches:
        return self._found(onwards=False)

    def _found(self, *, onwards: bool) -> _Matches:
        known, sought = (self.this_row, self.next_row) if onwards else (self.next_row, self.this_row)
        everything = slice(None)
        moving = _moving_dates(self.people)
        about = {name: codes for name, codes in known(everything).items() if name not in moving}
        keys = self.coarse(self.people_of(self.rows) | about)
        cells, gaps = sought(everything), self.gaps(everything)
        targets = list(self.coarse({name: codes for name, codes in cells.items() if name not in moving}).values())
        if gaps is not None and len(gaps) and self.people.gap is not None:
            targets.append(_Coarse(gaps, self.people.asked.modelled_column(self.people.gap)).of(np.maximum(gaps, 0)))
        return _Matches(keys, targets, self.is_last if onwards else self.is_first)

    def numbers(self) -> _Numbers:
        """Return where numbers of a next row are found by everything else that is known of it."""
        everything, usual = slice(None), self.people.usual
        person = self.coarse(self.people_of(self.rows))
        this, following = self.coarse(self.this_row(everything)), self.coarse(self.next_row(everything))
        rest = [name for name in following if name not in usual and name not in _moving_dates(self.people)]
        alone = person | {name: this[name] for name in rest}
        paired = person | this | {self.people.following[name]: following[name] for name in rest}
        names = [
            name
            for name in usual
            if self._is_own(this[name], following[name], person[usual[name]])
            and _told(alone, [this[name]])[1] > _told(paired, [following[name]])[1]
        ]
        known = [*rest, *(name for name in usual if name not in names)]
        keys = person | {name: this[name] for name in known}
        matches = _Matches(keys, [this[name] for name in names], np.zeros(len(self.rows), np.int64))
        return _Numbers(tuple(names), tuple(known), matches)

    @staticmethod
    def _is_own(this: _Whole, following: _Whole, usual: _Whole) -> bool:
        """Whether a number stays near the person's usual value from row to row.

        A usual value goes together with each row that it is the middle of, even where rows have nothing in common. If
        rows had nothing in common but the usual value, a row and the next would correlate as the square of how each
        goes together with it. Noise weakens what pairs show, so half of that is enough.
        """
        return _correlation(this, following) > 0.5 * _correlation(this, usual) ** 2


class _Coarse:
    """At most 16 bins of a column: parts of a grid with equally many rows, or the most frequent values."""

    def __init__(self, codes: _Whole, column: ModelledColumn) -> None:
        self._levels, self._edges, self._kept = column.levels, np.empty(0), np.empty(0, np.int64)
        on_grid = codes[codes < column.levels]
        if len(on_grid):
            parts = np.quantile(on_grid, np.arange(1, _BINS) / _BINS, method="inverted_cdf")
            self._edges = np.unique(parts)
        values, times = np.unique(codes[codes >= column.levels], return_counts=True)
        self._kept = np.sort(values[np.argsort(-times, kind="stable")][: _BINS - 1])

    def of(self, codes: _Whole) -> _Whole:
        """Return the bin of every code."""
        found = np.searchsorted(self._edges, codes, side="left")
        beside = codes >= self._levels
        if beside.any():
            place = np.searchsorted(self._kept, codes[beside])
            place[~np.isin(codes[beside], self._kept)] = len(self._kept)
            found[beside] = len(self._edges) + 1 + place
        return np.asarray(found, dtype=np.int64)


class _Matches:
    """A pool sorted by keys, the most informative first; rows that agree in the first keys lie together."""

    def __init__(self, keys: dict[str, _Whole], targets: list[_Whole], end: _Whole) -> None:
        self.names = _told(keys, targets)[0]
        sorted_by = [end, *(keys[name] for name in self.names)]
        self._order = np.lexsort(sorted_by[::-1])
        self._levels: list[tuple[int, _Whole, _Whole, _Whole]] = []
        group = np.zeros(len(end), dtype=np.int64)
        for codes in sorted_by:
            span = int(codes.max(initial=0)) + 1
            joined = group * span + codes[self._order]
            first = np.flatnonzero(np.diff(joined, prepend=-1))
            self._levels.append((span, joined[first], first, np.diff(np.append(first, len(joined)))))
            group = np.searchsorted(joined[first], joined)

    def drawn(self, keys: dict[str, _Whole], end: _Whole, random: np.random.Generator) -> _Whole:
        """Return for each query a row of the pool that agrees in as many of the first keys as leave enough to choose.

        Parameters
        ----------
        keys : mapping of name to array of shape (queries,)
        end : array of shape (queries,)
            Whether the new row is the last of its person (onwards) or the first (backwards).
        random : Generator
        """
        queries = len(end)
        group, first = np.zeros(queries, dtype=np.int64), np.zeros(queries, dtype=np.int64)
        width, live = np.full(queries, len(self._order)), np.ones(queries, dtype=bool)
        for (span, joined, starts, widths), codes in zip(
            self._levels, [end, *(keys[name] for name in self.names)], strict=True
        ):
            wanted = group * span + codes
            place = np.minimum(np.searchsorted(joined, wanted), len(joined) - 1)
            live &= (codes < span) & (joined[place] == wanted) & (widths[place] >= _FEWEST)
            group[live], first[live], width[live] = place[live], starts[place[live]], widths[place[live]]
        return np.asarray(self._order[first + (random.random(queries) * width).astype(np.int64)], dtype=np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class _Numbers:
    """Where numbers of a next row are found.

    Attributes
    ----------
    names : tuple of str
        The numbers that are found here.
    known : tuple of str
        Columns of the row that they follow from, beside its person.
    matches : _Matches
        First rows of the pool by these keys.
    """

    names: tuple[str, ...]
    known: tuple[str, ...]
    matches: _Matches


def _told(keys: dict[str, _Whole], targets: list[_Whole]) -> tuple[tuple[str, ...], float]:
    """Return keys in an order in which each tells most about the targets beside those before it, and what all tell."""
    keys = {name: codes[:_LOOKED_AT] for name, codes in keys.items()}
    targets = [codes[:_LOOKED_AT] for codes in targets]

    def said(codes: _Whole) -> float:
        return math.fsum(_information(codes, target) for target in targets)

    alone = {name: said(codes) for name, codes in keys.items()}
    open_ = sorted((name for name in alone if alone[name] > 0), key=lambda name: -alone[name])[:_CANDIDATES]
    chosen: list[str] = []
    group, known = np.zeros(len(targets[0]) if targets else 0, dtype=np.int64), 0.0
    while open_ and len(chosen) < _MOST_KEYS:
        joined = {name: _joined(group, keys[name]) for name in open_}
        more = {name: said(codes) for name, codes in joined.items()}
        best = max(open_, key=lambda name: more[name])
        if more[best] <= known:
            break
        chosen.append(best)
        open_.remove(best)
        group, known = joined[best], more[best]
    return tuple(chosen), known


def _correlation(one: _Whole, other: _Whole) -> float:
    """Return the correlation of two arrays of bins; 0 where one does not vary."""
    if not len(one) or np.ptp(one) == 0 or np.ptp(other) == 0:
        return 0.0
    return float(np.corrcoef(one, other)[0, 1])


def _joined(group: _Whole, codes: _Whole) -> _Whole:
    """Return the groups of rows that agree in a group and a code."""
    groups = np.unique(group * (int(codes.max(initial=0)) + 1) + codes, return_inverse=True)[1]
    return np.asarray(groups, dtype=np.int64)


def _information(one: _Whole, other: _Whole) -> float:
    """Return the mutual information of two arrays of bins, in nats, without what chance alone adds on average."""
    if not len(one):
        return 0.0
    sizes = int(one.max()) + 1, int(other.max()) + 1
    table = np.bincount(one * sizes[1] + other, minlength=sizes[0] * sizes[1]).reshape(sizes) / len(one)
    rows, columns = table.sum(axis=1), table.sum(axis=0)
    seen = table > 0
    found = float((table[seen] * np.log(table[seen] / np.outer(rows, columns)[seen])).sum())
    chance = ((rows > 0).sum() - 1) * ((columns > 0).sum() - 1) / (2 * len(one))
    return found - float(chance)


class _Making:
    """The rows that are being made: person by person in one array, of which some are still open."""

    def __init__(
        self, drawn: _Whole, count: _Whole, pairs: _Pairs, random: np.random.Generator, rules: RulesOfPeople | None
    ) -> None:
        self._drawn, self._count, self._pairs, self._random, self._rules = drawn, count, pairs, random, rules
        self._people = pairs.people
        self._at = {name: place for place, name in enumerate(self._people.schema.names)}
        self._start = np.cumsum(count) - count
        self._unit = np.repeat(np.arange(len(count)), count)
        self._own = pairs.coarse(pairs.people_of(drawn))
        self.made = np.zeros((int(count.sum()), len(self._at)), dtype=np.int64)
        for name in self._people.own:
            self.made[:, self._at[name]] = np.repeat(drawn[:, pairs.at[name]], count)
        self._low = self._high = np.zeros(len(count), dtype=np.int64)
        self._dates = _moving_dates(self._people)
        self._numbers = pairs.numbers()

    def begin(self) -> None:
        """Put the row of every person in its place, and the next row behind it where the generator drew one."""
        at, everybody = self._pairs.at, np.arange(len(self._count))
        place, count = self._drawn[:, at[self._people.place]], self._count
        low = (self._random.random(len(count)) * np.maximum(count - 1, 1)).astype(np.int64)
        low = np.where((place == _MIDDLE) & (count > 3), 1 + low % np.maximum(count - 3, 1), low)
        low = np.where((place == _FIRST) | (count <= 2), 0, low)
        low = np.where((place == _LAST) & (count > 2), count - 2, low)
        self._low, self._high = low, low.copy()
        rows = self._start + low
        for name in self._people.by_row:
            self.made[rows, self._at[name]] = self._drawn[:, at[name]]
        if self._people.least == 0:
            self._leave_out(rows)
        followed = everybody[self._pairs.with_next(self._drawn)]
        if not len(followed):
            return
        cells, gaps = self._pairs.next_row(followed, self._drawn), self._pairs.gaps(followed, self._drawn)
        of_more = count[followed] > 2
        for name, codes in self._numbers_of(followed, cells).items():
            cells[name] = np.where(of_more, codes, cells[name])
        new, fits = self._row_beside(rows[followed], cells, gaps, onwards=True)
        self.made[rows[followed[fits]] + 1] = new[fits]
        self._high[followed[fits]] += 1

    def _leave_out(self, rows: _Whole) -> None:
        """Empty the row of every person who has none in the second of two tables, and cells that are missing there."""
        alone = self._drawn[:, self._pairs.at[self._people.count]] == 0
        self.made[rows[alone], self._at[MERGE.name]] = LEFT_ONLY
        for name in self._people.by_row:
            there = self.made[rows, self._at[name]]
            cannot_be = there >= self._people.schema.size_of(name)
            self.made[rows, self._at[name]] = np.where(alone | cannot_be, self._people.blank(name), there)

    def go_on(self) -> None:
        """Find the rows behind the last one that each person has, one after another."""
        matches = self._pairs.matches(onwards=True)
        while len(who := np.flatnonzero(self._high < self._count - 1)):
            ended = self._add(
                who, self._high[who], (self._high[who] + 1 == self._count[who] - 1), matches, onwards=True
            )
            self._high[who[~ended]] += 1
            for person in who[ended]:
                self._end_with_these(int(person))

    def go_back(self) -> None:
        """Find the rows before the first one that each person has."""
        matches = self._pairs.matches(onwards=False)
        open_ = self._low > 0
        while len(who := np.flatnonzero(open_)):
            ended = self._add(who, self._low[who], self._low[who] - 1 == 0, matches, onwards=False)
            self._low[who[~ended]] -= 1
            open_[who] = ~ended & (self._low[who] > 0)

    def finished(self) -> MadePeople:
        """Return everybody, with the rows that were found."""
        if self._rules is None or not self._rules.are_about_people:
            return MadePeople(self.made, self._unit)
        rows = np.arange(len(self.made)) - self._start[self._unit]
        there = (rows >= self._low[self._unit]) & (rows <= self._high[self._unit])
        codes, units = self.made[there], self._unit[there]
        kept = self._rules.kept_by_people(codes, units)
        shortened = int(np.count_nonzero(kept & (self._high - self._low + 1 < self._count)))
        if kept.all():
            return MadePeople(codes, units, shortened)
        return MadePeople(*self._replaced(codes, units, kept), shortened, int(np.count_nonzero(~kept)))

    def _replaced(self, codes: _Whole, units: _Whole, kept: _Mask) -> tuple[_Whole, _Whole]:
        """Return everybody, with others of the people in the places of those who do not keep every rule."""
        count = np.bincount(units)
        start = np.cumsum(count) - count
        others = np.flatnonzero(kept)
        if not len(others) and self._rules is not None:
            somebody = self._rules.somebody(codes[0])
            if somebody is not None:
                codes = np.concatenate([codes, somebody])
                start, count = np.append(start, len(units)), np.append(count, len(somebody))
                others = np.array([len(kept)])
        whose = np.arange(len(kept))
        if len(others):
            whose[~kept] = others[self._random.integers(0, len(others), np.count_nonzero(~kept))]
        made = count[whose]
        within = np.arange(int(made.sum())) - np.repeat(np.cumsum(made) - made, made)
        return codes[np.repeat(start[whose], made) + within], np.repeat(np.arange(len(whose)), made)

    def _end_with_these(self, person: int) -> None:
        """Make the last row that a person has the last there is: the rows that are left come before."""
        start, left = int(self._start[person]), int(self._count[person] - 1 - self._high[person])
        low, high = int(self._low[person]), int(self._high[person])
        self.made[start + low + left : start + high + left + 1] = self.made[start + low : start + high + 1].copy()
        self._low[person] += left
        self._high[person] += left

    def _add(self, who: _Whole, place: _Whole, end: _Mask, matches: _Matches, *, onwards: bool) -> _Mask:
        """Draw a row behind, or before, the row in a place of some people; where none will do, that row again.

        Returns
        -------
        array of shape (people,)
            For whom nothing will do: the row at hand is the last, or the first.
        """
        rows, step = self._start[who] + place, 1 if onwards else -1
        self.made[rows + step] = self.made[rows]
        open_ = np.arange(len(who)) if len(self._pairs.rows) else np.empty(0, np.int64)
        known = self._people.by_row if onwards else tuple(self._people.following)
        state = {name: codes[who] for name, codes in self._own.items()}
        state |= self._pairs.coarse({name: self.made[rows, self._at[name]] for name in known})
        new = self.made[rows[open_]]
        for _ in range(_TRIES):
            if not len(open_):
                break
            found = matches.drawn(
                {name: c[open_] for name, c in state.items()}, end[open_].astype(np.int64), self._random
            )
            cells = self._pairs.next_row(found) if onwards else self._pairs.this_row(found)
            if onwards:
                cells |= self._numbers_of(who[open_], cells)
            gaps = self._pairs.gaps(found)
            new, fits = self._row_beside(rows[open_], cells, gaps, onwards=onwards, found=found)
            self.made[rows[open_[fits]] + step] = new[fits]
            open_, new = open_[~fits], new[~fits]
        return self._mend(rows, open_, new, onwards=onwards)

    def _mend(self, rows: _Whole, open_: _Whole, drawn: _Whole, *, onwards: bool) -> _Mask:
        """Put rows that keep the rules about pairs behind, or before, some; say of which none was found.

        Parameters
        ----------
        rows : array of shape (people,)
            The row at hand of each; the one beside it is the same so far.
        open_ : array of int
            The people for whom no row was found that was drawn, and in ``drawn`` the last draw for each.
        """
        ended = np.zeros(len(rows), dtype=bool)
        if self._rules is None or not self._rules.of_pairs:
            return ended
        if not len(self._pairs.rows):
            open_, drawn = np.arange(len(rows)), self.made[rows]
        for of_draw in (True, False):
            if not len(open_):
                break
            at = rows[open_]
            seed = int(self._random.integers(2**62))
            new = drawn if of_draw else self.made[at]
            new = self._rules.mended(new, self.made[at], self._count[self._unit[at]], onwards=onwards, seed=seed)
            fits = self._is_in_order(new, at, onwards=onwards) & self._keeps(new, at, onwards=onwards)
            self.made[at[fits] + (1 if onwards else -1)] = new[fits]
            open_, drawn = open_[~fits], drawn[~fits]
        ended[open_] = True
        return ended

    def _is_in_order(self, new: _Whole, rows: _Whole, *, onwards: bool) -> _Mask:
        """Return which new rows may come behind, or before, others of the same people."""
        order = str(self._people.order)
        levels = self._people.schema.modelled_column(order).levels
        one, other = (np.minimum(codes[:, self._at[order]], levels) for codes in (self.made[rows], new))
        return np.asarray(one <= other if onwards else other <= one)

    def _numbers_of(self, who: _Whole, cells: dict[str, _Whole]) -> dict[str, _Whole]:
        """Return numbers for next rows of some people where the pool's first rows tell more about them."""
        numbers = self._numbers
        if not numbers.names:
            return {}
        state = {name: codes[who] for name, codes in self._own.items()}
        state |= self._pairs.coarse({name: cells[name] for name in numbers.known})
        found = numbers.matches.drawn(state, np.zeros(len(who), np.int64), self._random)
        return {name: self._pairs.rows[found, self._pairs.at[name]] for name in numbers.names}

    def _row_beside(
        self,
        rows: _Whole,
        cells: dict[str, _Whole],
        gaps: _Whole | None,
        *,
        onwards: bool,
        found: _Whole | None = None,
    ) -> tuple[_Whole, _Mask]:
        """Return rows that stand behind, or before, others of the same people, and which of them may stand there."""
        new = self.made[rows].copy()
        fits = np.ones(len(rows), dtype=bool)
        order = self._people.order
        for name, codes in cells.items():
            if name != order:
                new[:, self._at[name]] = codes
        if order is not None and gaps is not None:
            column = self._people.schema.modelled_column(order)
            here = self.made[rows, self._at[order]]
            there = here + gaps if onwards else here - gaps
            known = (gaps >= 0) & (here < column.levels)
            fits &= ~known | ((there >= 0) & (there < column.levels))
            if onwards:
                # Rows without a value come last.
                unknown = here if column.missing_code is None else np.full(len(rows), column.missing_code)
            else:
                # What comes before a row without a value has that of the pair it is found in.
                unknown = cells[order]
                fits &= (unknown <= here) | known
            new[:, self._at[order]] = np.where(known, np.clip(there, 0, column.levels - 1), unknown)
            if found is not None:
                self._move_dates(new, found, known, onwards=onwards)
        if self._rules is not None:
            fits &= self._keeps(new, rows, onwards=onwards)
        return new, fits

    def _keeps(self, new: _Whole, rows: _Whole, *, onwards: bool) -> _Mask:
        """Return which new rows keep every rule behind, or before, others of the same people."""
        if self._rules is None:
            return np.ones(len(new), dtype=bool)
        beside, count = self.made[rows], self._count[self._unit[rows]]
        return self._rules.kept(new, beside if onwards else None, None if onwards else beside, count)

    def _move_dates(self, new: _Whole, found: _Whole, known: _Mask, *, onwards: bool) -> None:
        """Keep the other dates of found rows as far from their order's date as they were."""
        before = self._pairs.this_row(found)[str(self._people.order)]
        gaps = self._pairs.gaps(found)
        then = before if not onwards or gaps is None else before + gaps
        moved = new[:, self._at[str(self._people.order)]] - then
        for name in self._dates:
            column, place = self._people.schema.modelled_column(name), self._at[name]
            on_grid = known & (new[:, place] < column.levels)
            shifted = np.clip(new[:, place] + moved, 0, column.levels - 1)
            new[:, place] = np.where(on_grid, shifted, new[:, place])
