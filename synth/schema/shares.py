"""Rules kept, where possible, without changing how often the model draws each value of a column.

Where one column determines another, each value of the first has one value of the second: if the table of values is not
declared, :func:`with_learnt_tables` reads it off rows of the model.

Rows that break a rule exchange cells with rows that can take them, before anything is moved. Where a child has an
income, and an adult has none though most have one, the two exchange theirs: then both rows keep the rule, and every
column by itself holds what the model drew. Moving the child's income alone would make one more empty cell than the
model counted. Partners are tried by public randomness; of those that fit, the one is taken whose exchange changes
relations between columns least: how far each cell moves, times how far apart the rows are in another column, times how
much the two columns say about each other in the rows as drawn.

Other rules are kept by moving cells. Where one cell determines another (a sum, a table of values) there is one right
value. A rule about one column rules out values in any row. For two columns in order (a start and an end) the distance
between them matters, and an exchange between rows does not respect it: on simulated stays of a few days, lengths had
larger errors than after moving (.24 against .17, Kolmogorov-Smirnov). Like any repair, this is post-processing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from synth.schema.contradictions import Search, linked
from synth.schema.rule_lines import RuleSet
from synth.schema.rules import Among, Comparison, Conclusion, Dependency, Determined, Rule, spans_of
from synth.schema.schema import Schema

__all__ = ["exchanged", "with_learnt_tables"]

FloatArray = npt.NDArray[np.float64]
CodeArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

_TURNS = 16
_TRIED = 48
"""Partners that a row tries at once: a third of them anywhere, a third next to it in a column of the rule, and a third
among rows that also break a rule, because one may have what the other lacks."""

_IN_VAIN, _WORTH_A_TURN = 5, 0.02
"""After so many turns that mend a smaller part than this of what breaks a rule, the rest is left to be moved."""

_MOST_TRIED = 50_000_000
"""Most exchanges that are tried for rules that share columns: some twenty seconds. The rest is moved."""

_AT_ONCE = 4_096
_PARTS = 16
"""Parts of a column that measure how much two columns say about each other."""

_LOOKED_AT = 10_000
_MOST_BESIDE = 24
"""Most other columns that weigh an exchange: those that say most."""


# Tables of values that are not declared ------------------------------------------------------------------------------


def with_learnt_tables(rules: RuleSet, schema: Schema, drawn: CodeArray) -> RuleSet:
    """Return the rules with the tables of values that are not declared.

    Each value of the first column gets the value of the second that the model draws most often with it, of those that
    the other rules allow. Unless the model knows a pair well, the second value must also have rows left: values with
    many rows choose first, and use up rows of the value that they get. So the second column keeps the shares that the
    model drew, even where the model does not know how the two columns go together. A value that was not drawn gets the
    most frequent value of all.

    Parameters
    ----------
    rules : RuleSet
    schema : Schema
    drawn : array of shape (rows, modelled columns)
        Rows that the model drew with a public seed, never private ones.
    """
    place = {name: index for index, name in enumerate(schema.names)}
    known = [rule for rule in rules.rules if not (isinstance(rule.then, Dependency) and rule.then.learnt)]
    for rule in rules.rules:
        then = rule.then
        if isinstance(then, Dependency) and then.learnt:
            pairs = drawn[:, place[then.source.name]], drawn[:, place[then.target.name]]
            known.append(replace(rule, then=replace(then, wanted=_learnt(then, *pairs, known))))
    return replace(rules, rules=tuple(sorted(known, key=lambda rule: rule.line)))


def _learnt(then: Dependency, source: CodeArray, target: CodeArray, known: Sequence[Rule]) -> Determined:
    present = target != then.target.missing_code if then.target.missing_code is not None else np.ones(len(target), bool)
    source, target = source[present], target[present]
    # Of what was not drawn, only other rules could tell one value from another; a long range has too many to ask them.
    values = np.unique(target) if then.target.size > _MOST_ASKED else np.arange(then.target.size)
    values = values if len(values) else np.zeros(1, dtype=np.int64)
    target, size = np.searchsorted(values, target), len(values)
    pairs, counts = np.unique(source * size + target, return_counts=True)
    left = np.bincount(target, minlength=size).astype(np.float64)
    overall = np.argsort(-left, kind="stable")
    overall = overall[values[overall] != then.target.missing_code]
    shares = left / max(len(target), 1)
    beside = [rule for rule in known if set(rule.columns) & set(then.columns)]
    search = Search(beside) if beside else None
    drawn, times = np.unique(source[source != then.source.missing_code], return_counts=True)
    alike = search is None or then.source.size > _MOST_ASKED
    codes = drawn if alike else np.arange(then.source.size - then.source.missing)
    masses = np.zeros(len(codes), dtype=np.int64)
    masses[np.searchsorted(codes, drawn)] = times

    def chances(code: int, mass: int) -> FloatArray:
        first, last = np.searchsorted(pairs, [code * size, (code + 1) * size])
        likely = _SHRUNK * shares
        likely[pairs[first:last] % size] += counts[first:last]
        return np.asarray(likely / (mass + _SHRUNK))

    def choice(code: int, mass: int, *, known: bool) -> int:
        likely = chances(code, mass)
        if not known:
            likely *= np.clip(left / max(mass, 1), _LEAST_LEFT, 1.0)
        likeliest = int(overall[likely[overall].argmax()])
        if search is None or code < 0:
            return likeliest
        order = overall[np.argsort(-likely[overall], kind="stable")].tolist()
        # Where nothing fits, no row can have the value, so what it determines does not matter.
        return next((one for one in order if _fits(search, then, code, int(values[one]))), likeliest)

    each = zip(codes.tolist(), masses.tolist(), strict=True)
    # More than halfway from the share among all rows to certainty: the model knows the pair well.
    known_well = np.array([bool((chances(*one) > (1.0 + shares) / 2).any()) for one in each], bool)
    wanted = {} if then.source.missing_code is None else {then.source.missing_code: -1}
    for place in np.lexsort((-masses, ~known_well)).tolist():
        code, mass = int(codes[place]), int(masses[place])
        chosen = choice(code, mass, known=bool(known_well[place]))
        wanted[code] = int(values[chosen])
        left[chosen] -= mass
    return Determined.of(wanted, int(values[choice(-1, 0, known=False)]))


_SHRUNK = 5.0
"""Rows with the shares of the second column that are added to those drawn with each value of the first."""

_MOST_ASKED = 2**16
"""Most values of a column that are held against other rules although the model drew none of their rows."""

_LEAST_LEFT = 0.05
"""Weight of a value without rows left: one that the model draws twenty times as often still wins."""


def _fits(search: Search, then: Dependency, code: int, wanted: int) -> bool:
    pair = {then.source.name: spans_of([code]), then.target.name: spans_of([wanted])}
    return search.row({name: pair[name] for name in pair if name in search.columns}, empty=True) is not None


# Exchanges -----------------------------------------------------------------------------------------------------------


def exchanged(codes: CodeArray, rules: Sequence[Rule], schema: Schema, *, seed: int) -> CodeArray:
    """Return the rows with cells exchanged between some that broke a rule and some that did not.

    Parameters
    ----------
    codes : array of shape (rows, modelled columns)
        Synthetic codes; not changed.
    rules : sequence of Rule
    schema : Schema
        Declares the columns in the order of ``codes``.
    seed : int
        Public.

    Returns
    -------
    array of shape (rows, modelled columns)
        Each column holds the same codes as before in another order; none of the rules is broken more often.
    """
    apart = [rule for rule in rules if len(rule.columns) > 1 and _is_about_single_cells(rule)]
    found = codes.copy()
    random = np.random.Generator(np.random.PCG64([seed, len(codes)]))
    for together in linked(apart):
        _Exchange(found, together, schema, random).run()
    return found


def _is_about_single_cells(rule: Rule) -> bool:
    return isinstance(rule.then, Among) or (isinstance(rule.then, Comparison) and not rule.then.right)


class _Exchange:
    """Rows, and rules that share columns."""

    def __init__(self, codes: CodeArray, rules: Sequence[Rule], schema: Schema, random: np.random.Generator) -> None:
        self.codes, self.rules, self.random = codes, rules, random
        self.tried = 0
        self.place = {name: at for at, name in enumerate(schema.names)}
        self.columns = schema.modelled
        # Each part of these rules is about one cell, so whether it is true of a row moves with that cell.
        parts = {part for rule in rules for part in (rule.then, *rule.when)}
        self._kept = {part: part.kept({part.columns[0]: codes[:, self._at(part)]}) for part in parts}
        self._levels: dict[int, tuple[CodeArray, FloatArray]] = {}
        self._parts: dict[int, CodeArray] = {}
        self._shared: dict[tuple[int, int], float] = {}

    def run(self) -> None:
        """Exchange cells until nothing is broken, or no exchange is found."""
        everywhere = np.arange(len(self.codes))
        open_rows = [everywhere[self._broken([rule], everywhere) > 0] for rule in self.rules]
        in_vain = [0] * len(self.rules)
        for turn in range(_TURNS):
            for number, rule in enumerate(self.rules):
                # An exchange for another rule may have mended some rows, and breaks none.
                rows = open_rows[number]
                rows = rows[self._broken([rule], rows) > 0]
                if len(rows) and in_vain[number] < _IN_VAIN and self.tried < _MOST_TRIED:
                    self._turn(rule, rows, np.concatenate(open_rows), self._set_of(rule, turn))
                    left = rows[self._broken([rule], rows) > 0]
                    in_vain[number] += len(left) > (1 - _WORTH_A_TURN) * len(rows)
                    rows = left
                open_rows[number] = rows

    def _turn(self, rule: Rule, rows: CodeArray, broken: CodeArray, moved: Sequence[int]) -> None:
        column = self.codes[:, self.place[rule.columns[int(self.random.integers(len(rule.columns)))]]]
        order = np.argsort(column, kind="stable")
        placed = np.empty_like(order)
        placed[order] = np.arange(len(order))
        for first in range(0, len(rows), _AT_ONCE):
            part = rows[first : first + _AT_ONCE]
            self._try(part, self._partners(part, broken, order, placed), moved)

    def _set_of(self, rule: Rule, turn: int) -> list[int]:
        """Return the columns to exchange: first single columns of the rule, from its conclusion on, then any few."""
        own = list(rule.columns)
        if turn < len(own):
            return [self.place[own[turn]]]
        goes, stays = self.random.permutation(len(own))[:2]
        beside = {name for other in self.rules if set(other.columns) & set(own) for name in other.columns}
        free = sorted(beside - {own[goes], own[stays]})
        taken = [name for name, heads in zip(free, self.random.random(len(free)) < 0.5, strict=True) if heads]
        return sorted(self.place[name] for name in (own[goes], *taken))

    def _try(self, rows: CodeArray, partners: CodeArray, moved: Sequence[int]) -> None:
        """Let rows exchange the moved columns with the partners that take them at the lowest cost."""
        about = [one for one in self.rules if {self.place[name] for name in one.columns} & set(moved)]
        many = partners.shape[1]
        ours, theirs = np.repeat(rows, many), partners.reshape(-1)
        self.tried += len(ours)
        before_ours = np.repeat(self._broken(about, rows), many)
        fits = theirs != ours
        fits &= self._broken(about, ours, theirs, moved) < before_ours
        # Checked last and only where it matters: most partners are ruled out by then.
        left = np.flatnonzero(fits)
        fits[left] = self._unharmed(about, theirs[left], ours[left], moved)
        left = np.flatnonzero(fits)
        if not len(left):
            return
        cost = np.full(len(ours), np.inf)
        cost[left] = self._cost(ours[left], theirs[left], moved)
        best = cost.reshape(-1, many).argmin(axis=1)
        at = np.arange(len(rows)) * many + best
        at = at[np.isfinite(cost[at])]
        # A row exchanges once at a time: at the lowest cost, and not while it is the partner of another.
        at = at[np.argsort(cost[at], kind="stable")]
        at = at[np.unique(theirs[at], return_index=True)[1]]
        at = at[~np.isin(theirs[at], ours[at])]
        one, other = ours[at], theirs[at]
        for column in moved:
            self.codes[one, column], self.codes[other, column] = self.codes[other, column], self.codes[one, column]
        for part, kept in self._kept.items():
            if self._at(part) in moved:
                kept[one], kept[other] = kept[other], kept[one]

    def _partners(self, rows: CodeArray, broken: CodeArray, order: CodeArray, placed: CodeArray) -> CodeArray:
        """Return rows to try for each row; shape (rows, tried)."""
        n, third = len(self.codes), (len(rows), _TRIED // 3)
        anywhere = self.random.integers(0, n, third)
        like_it = broken[self.random.integers(0, len(broken), third)]
        reach = max(n // 64, 2)
        near = placed[rows][:, None] + self.random.integers(-reach, reach + 1, third)
        return np.concatenate([anywhere, order[np.clip(near, 0, n - 1)], like_it], axis=1)

    def _broken(
        self,
        rules: Sequence[Rule],
        rows: CodeArray,
        givers: CodeArray | None = None,
        moved: Sequence[int] = (),
    ) -> CodeArray:
        """Return how many rules each row breaks, with the moved columns of ``givers`` instead of its own."""
        found = np.zeros(len(rows), np.int64)
        for rule in rules:
            found += self._breaks(rule, rows, givers, moved)
        return found

    def _unharmed(self, rules: Sequence[Rule], rows: CodeArray, givers: CodeArray, moved: Sequence[int]) -> BoolArray:
        """Return which rows, with the moved columns of ``givers``, break no rule that they did not break before."""
        found = np.ones(len(rows), bool)
        for rule in rules:
            found &= ~self._breaks(rule, rows, givers, moved) | self._breaks(rule, rows, None, ())
        return found

    def _breaks(self, rule: Rule, rows: CodeArray, givers: CodeArray | None, moved: Sequence[int]) -> BoolArray:
        def kept(part: Conclusion) -> BoolArray:
            return self._kept[part].take(rows if givers is None or self._at(part) not in moved else givers)

        return rule.broken_by(kept)

    def _at(self, part: Conclusion) -> int:
        (name,) = part.columns
        return self.place[name]

    # What an exchange changes

    def _cost(self, ours: CodeArray, theirs: CodeArray, moved: Sequence[int]) -> FloatArray:
        """Return roughly how much an exchange changes the relations between columns."""
        found = np.zeros(len(ours))
        for at in moved:
            others = [other for other in range(len(self.columns)) if other not in moved]
            information = {other: self._information(at, other) for other in others}
            beside = sorted(others, key=lambda other: -information[other])[:_MOST_BESIDE]
            apart = np.zeros(len(ours))
            for other in beside:
                apart += information[other] * self._distance(other, ours, theirs)
            found += self._distance(at, ours, theirs) * apart
        return found

    def _distance(self, at: int, ours: CodeArray, theirs: CodeArray) -> FloatArray:
        """Return how far apart two cells are: the share of rows between them, or 1 where they differ."""
        one, other = self.codes[ours, at], self.codes[theirs, at]
        column = self.columns[at]
        differ = (one != other).astype(np.float64)
        if not column.levels:
            return np.asarray(differ)
        both = (one < column.n_values) & (other < column.n_values)
        return np.asarray(np.where(both, np.abs(self._level(at, one) - self._level(at, other)), differ))

    def _level(self, at: int, codes: CodeArray) -> FloatArray:
        """Return the share of rows below each of some codes of rows, which exchanges do not change."""
        if at not in self._levels:
            held, counts = np.unique(self.codes[:, at], return_counts=True)
            self._levels[at] = held, (np.cumsum(counts) - counts / 2) / max(len(self.codes), 1)
        held, levels = self._levels[at]
        return np.asarray(levels[np.searchsorted(held, codes)])

    def _part(self, at: int) -> CodeArray:
        """Return a coarse code of one column for the first rows."""
        if at not in self._parts:
            column, codes = self.columns[at], self.codes[:_LOOKED_AT, at]
            if column.levels:
                own = np.minimum((self._level(at, codes) * _PARTS).astype(np.int64), _PARTS - 1)
                self._parts[at] = np.where(codes < column.n_values, own, _PARTS)
            else:
                order = np.argsort(-np.bincount(codes, minlength=column.size), kind="stable")
                rank = np.empty(column.size, np.int64)
                rank[order] = np.arange(column.size)
                self._parts[at] = np.minimum(rank[codes], _PARTS)
        return self._parts[at]

    def _information(self, at: int, other: int) -> float:
        """Return the mutual information of two columns in bits, in the rows as they first were."""
        key = (min(at, other), max(at, other))
        if key not in self._shared:
            side = _PARTS + 1
            table = np.bincount(self._part(key[0]) * side + self._part(key[1]), minlength=side * side)
            shares = table.reshape(side, side) / max(table.sum(), 1)
            alone = shares.sum(axis=1, keepdims=True) * shares.sum(axis=0, keepdims=True)
            some = shares > 0
            self._shared[key] = float((shares[some] * np.log2(shares[some] / alone[some])).sum())
        return self._shared[key]
