"""Whether rules can be kept: contradictions, and rules that say nothing, are reported before anything is spent.

This searches for a row of declared codes that keeps all rules. Nothing here depends on a row of a table.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np

from synth.errors import ConfigError
from synth.names import listed, shown
from synth.schema.columns.base import ModelledColumn
from synth.schema.people import People, people_of
from synth.schema.people_rules import about_people, is_about_pairs, renamed
from synth.schema.rule_lines import RuleSet, read_rules
from synth.schema.rules import (
    Among,
    Comparison,
    Dependency,
    Rule,
    Spans,
    codes_between,
    codes_in,
    n_codes,
    spans_of,
    spans_within,
    values_of,
)
from synth.schema.schema import Schema

__all__ = ["PersonSearch", "Search", "check_rules", "in_order", "linked", "problems_of_rules"]

_MOST_WORK = 20_000
"""Most rules that a search for one row may apply, one after the other."""

_MOST_BLAMED = 100_000
"""The same for all searches for the rules that contradict each other."""

_MOST_CHECKED = 200
"""Most rules that are compared one by one with all others; beyond it only a row that keeps all is searched for."""

_MOST_PEOPLE = 8
"""Most numbers of rows for which a person who keeps the rules is searched for."""

_FEW = 32
_MOST_LISTED = 4_096
_SHOWN = 90


# Whether one row can keep them ---------------------------------------------------------------------------------------

Domains = dict[str, Spans]
"""The codes that a column may still have."""


class Search:
    """A search for one row of declared codes that keeps some rules; it does not depend on any row of a table."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self.rules = rules
        self.columns = {column.name: column for rule in rules for column in _columns_of(rule)}
        self.about: dict[str, list[Rule]] = {name: [] for name in self.columns}
        for rule in rules:
            for name in rule.columns:
                self.about[name].append(rule)
        said = [one for rule in rules for one in (*rule.when, rule.then)]
        self.may_be_empty = {one.column.name for one in said if isinstance(one, Among) and one.of_empty}
        self.given_up = False
        self.work = 0

    def row(self, fixed: Mapping[str, Spans] | None = None, *, empty: bool = False) -> dict[str, int] | None:
        """Return the codes of a row that keeps all rules, or None where none was found.

        Parameters
        ----------
        fixed : mapping, optional
            Codes that a column is restricted to.
        empty : bool
            Whether to accept a row that keeps them only because a cell is empty that no rule allows to be empty.
        """
        fixed = fixed or {}
        whole: Domains = {}
        for name, column in self.columns.items():
            every = np.array([[0, column.size]], dtype=np.int64)
            whole[name] = spans_within(every, fixed[name], column.size) if name in fixed else every
        told = {name: self._without_empty(name, spans) for name, spans in whole.items()}
        self.given_up = False
        found = self._found(told)
        return self._found(whole) if found is None and empty else found

    def _without_empty(self, name: str, spans: Spans) -> Spans:
        column = self.columns[name]
        if column.missing_code is None or name in self.may_be_empty:
            return spans
        kept = spans_within(spans, np.array([[0, column.missing_code]], dtype=np.int64), column.size)
        return kept if len(kept) else spans

    def _found(self, domains: Domains) -> dict[str, int] | None:
        self.work = 0
        start = self._propagated(domains, self.columns)
        stack = [iter([start] if start is not None else [])]
        while self.work <= _MOST_WORK:
            if not stack:
                return None
            domains_now = next(stack[-1], None)
            if domains_now is None:
                stack.pop()
                continue
            open_columns = [name for name, spans in domains_now.items() if n_codes(spans) > 1]
            if not open_columns:
                row = {name: int(spans[0, 0]) for name, spans in domains_now.items()}
                table = {name: np.array([code]) for name, code in row.items()}
                if not any(rule.broken(table)[0] for rule in self.rules):
                    return row
                continue
            name = min(open_columns, key=lambda one: n_codes(domains_now[one]))
            stack.append(self._branches(domains_now, name))
        self.given_up = True
        return None

    def _branches(self, domains: Domains, name: str) -> Iterator[Domains]:
        for part in _parts(domains[name]):
            narrowed = self._propagated(domains | {name: part}, [name])
            if narrowed is not None:
                yield narrowed

    def _propagated(self, domains: Domains, changed: Iterable[str]) -> Domains | None:
        """Remove codes that no row with the others can have; None where a column has none left."""
        domains = dict(domains)
        if any(not len(spans) for spans in domains.values()):
            return None
        waiting = deque(dict.fromkeys(rule for name in changed for rule in self.about[name]))
        queued = set(waiting)
        while waiting and self.work <= _MOST_WORK:
            self.work += 1
            rule = waiting.popleft()
            queued.discard(rule)
            for name, spans in self._narrowed(rule, domains):
                before = domains[name]
                after = spans_within(before, spans, self.columns[name].size)
                if not len(after):
                    return None
                if n_codes(after) < n_codes(before):
                    domains[name] = after
                    fresh = [one for one in self.about[name] if one not in queued]
                    waiting.extend(fresh)
                    queued.update(fresh)
        return domains

    def _narrowed(self, rule: Rule, domains: Domains) -> Iterator[tuple[str, Spans]]:
        open_conditions = []
        for one in rule.when:
            spans = domains[one.column.name]
            met = one.count_in(spans)
            if not met:
                return
            if met < n_codes(spans):
                open_conditions.append(one)
        if not open_conditions:
            yield from _enforced(rule.then, domains)
        elif len(open_conditions) == 1 and not _is_possible(rule.then, domains):
            one = open_conditions[0]
            yield one.column.name, one.outside(domains[one.column.name])


def _columns_of(rule: Rule) -> Iterator[ModelledColumn]:
    then = rule.then
    if isinstance(then, Among):
        yield then.column
    elif isinstance(then, Comparison):
        yield from (then.left, *then.right)
    else:
        yield from (then.target, then.source)
    yield from (one.column for one in rule.when)


def _parts(spans: Spans) -> Iterator[Spans]:
    """Yield the parts of a set to try one after the other; together they are the whole set."""
    if n_codes(spans) <= _FEW:
        yield from (spans_of([code]) for code in codes_in(spans))
        return
    first, last = int(spans[0, 0]), int(spans[-1, 1]) - 1
    yield from (spans_of([code]) for code in (first, last))
    middle = (first + last) // 2
    for low, high in ((first + 1, middle), (middle, last)):
        part = spans_within(spans, np.array([[low, high]], dtype=np.int64), last + 1) if low < high else spans[:0]
        if len(part):
            yield part


def _ends(column: ModelledColumn, spans: Spans) -> tuple[float, float, bool]:
    """Return the lowest and the highest value of a set of codes, and whether it includes an empty cell."""
    values, plain = values_of(column), column.n_values
    codes = [code for first, last in spans.tolist() for code in (min(first, plain), min(last, plain) - 1)]
    beside = codes_in(spans_within(spans, np.array([[plain, column.size]]), column.size))
    found = values[np.array([*(code for code in codes if 0 <= code < plain), *beside], dtype=np.int64)]
    told = found[np.isfinite(found)]
    return (float(told.min()), float(told.max()), told.size < found.size) if told.size else (np.nan, np.nan, True)


class _Bounds:
    """What a comparison says about the bounds of its columns: the left side is at least, or at most, the right one."""

    def __init__(self, then: Comparison, domains: Domains) -> None:
        ends = [_ends(column, domains[column.name]) for column in (then.left, *then.right)]
        self.may_be_empty = any(empty for _, _, empty in ends)
        self.left, self.parts = ends[0][:2], [end[:2] for end in ends[1:]]
        self.least, self.most = (then.constant + math.fsum(part[side] for part in self.parts) for side in (0, 1))
        slack = 1e-9 * max(1.0, abs(then.constant), *(abs(number) for part in self.parts for number in part))
        self.gap = slack if then.relation in (">", "<") else -(slack + then.tolerance)
        self.at_least, self.at_most = then.relation in (">=", ">", "="), then.relation in ("<=", "<", "=")

    def possible(self) -> bool:
        """Whether some values within the bounds keep it."""
        if self.may_be_empty:
            return True
        low, high = self.left
        below = not self.at_least or high >= self.least + self.gap
        return below and (not self.at_most or low <= self.most - self.gap)

    def of_left(self) -> tuple[float, float]:
        """Return between which values the left column lies."""
        return (
            self.least + self.gap if self.at_least else -np.inf,
            self.most - self.gap if self.at_most else np.inf,
        )

    def of_part(self, part: tuple[float, float]) -> tuple[float, float]:
        """Return between which values one of the columns on the right lies."""
        return (
            self.left[0] - (self.most - part[1]) + self.gap if self.at_most else -np.inf,
            self.left[1] - (self.least - part[0]) - self.gap if self.at_least else np.inf,
        )


def _is_possible(then: Among | Comparison | Dependency, domains: Domains) -> bool:
    if isinstance(then, Comparison):
        return _Bounds(then, domains).possible()
    if isinstance(then, Among):
        return then.count_in(domains[then.column.name]) > 0
    return all(len(spans) > 0 for _, spans in _determined(then, domains))


def _enforced(then: Among | Comparison | Dependency, domains: Domains) -> Iterator[tuple[str, Spans]]:
    """Yield the codes that a conclusion leaves to its columns."""
    if isinstance(then, Among):
        yield then.column.name, then.within(domains[then.column.name])
    elif isinstance(then, Dependency):
        yield from _determined(then, domains)
    else:
        bounds = _Bounds(then, domains)
        if not bounds.may_be_empty:
            yield then.left.name, codes_between(then.left, *bounds.of_left())
            for column, part in zip(then.right, bounds.parts, strict=False):
                yield column.name, codes_between(column, *bounds.of_part(part))


def _determined(then: Dependency, domains: Domains) -> Iterator[tuple[str, Spans]]:
    known, told = domains[then.source.name], domains[then.target.name]
    if n_codes(known) > _MOST_LISTED:
        return
    codes = codes_in(known)
    wanted, empty = then.wanted[codes], then.target.missing_code
    allowed = Among(then.target, told, "").kept({then.target.name: np.maximum(wanted, 0)}) | (wanted < 0)
    may_be_empty = empty is not None and Among(then.target, told, "").kept({then.target.name: np.array([empty])})[0]
    if not may_be_empty:
        yield then.source.name, spans_of(codes[allowed])
    if (wanted >= 0).all():
        yield then.target.name, spans_of(wanted if empty is None else np.r_[wanted, empty])


# What is refused, and what is said of it -----------------------------------------------------------------------------


def check_rules(lines: Sequence[str], schema: Schema) -> RuleSet:
    """Read rules, and refuse those that no row can keep together and those that say nothing.

    Raises
    ------
    ConfigError
        With the sentence of the first line that cannot be used.
    """
    problems = problems_of_rules(lines, schema)
    first = next((problem for problem in problems if problem), None)
    if first is not None:
        raise ConfigError(first)
    return read_rules(lines, schema)


def problems_of_rules(lines: Sequence[str], schema: Schema) -> tuple[str, ...]:
    """Return for every line what is wrong with it in one sentence, or nothing; from declared domains alone."""
    return _problems(tuple(lines), schema)


@lru_cache(maxsize=16)
def _problems(lines: tuple[str, ...], schema: Schema) -> tuple[str, ...]:
    problems = [""] * len(lines)
    rules: list[Rule] = []
    for place, text in enumerate(lines):
        try:
            rules += [replace(rule, line=place) for rule in read_rules([text], schema).rules]
        except ConfigError as refusal:
            problems[place] = str(refusal)
    few = len(rules) <= _MOST_CHECKED
    for rule in rules if few else ():
        if not problems[rule.line] and all(_says_nothing(one) for one in rules if one.line == rule.line):
            problems[rule.line] = (
                f"rules: '{_short(rule)}' is always true: no row can break it within the declared columns. Delete it, "
                "or check the bounds and values of its columns."
            )
    people = people_of(schema) if schema.people == "whole" else None
    pairs = [] if people is None else [rule for rule in rules if is_about_pairs(rule, people)]
    _find_contradictions([rule for rule in rules if rule not in pairs], (), problems, one_by_one=few)
    if people is not None and pairs:
        # Apart from the others: a row that has no next one need not keep them.
        sound = [rule for rule in rules if rule not in pairs and not problems[rule.line]]
        _find_contradictions(pairs, _implied(sound, people), problems, one_by_one=few)
    if people is not None and not any(problems) and about_people(rules, schema):
        person = PersonSearch(rules, people)
        if person.rows() is None:
            problems[max(rule.line for rule in person.rules)] = _nobody(person, people)
    return tuple(problems)


def _find_contradictions(
    rules: Sequence[Rule], beside: Sequence[Rule], problems: list[str], *, one_by_one: bool
) -> None:
    """Write what is wrong with some rules to their lines; ``beside`` are others that a row has to keep."""
    sound = [rule for rule in rules if not problems[rule.line]]
    for together in linked([*sound, *beside]):
        ours = [rule for rule in together if rule in sound]
        if not ours:
            continue
        circle = _circle(together)
        if circle:
            problems[max(rule.line for rule in circle)] = _contradiction(circle, given_up=False)
            continue
        search = Search(together)
        if search.row() is None:
            blamed = _core(together, {})
            problems[max(rule.line for rule in blamed)] = _contradiction(blamed, given_up=search.given_up)
            continue
        for rule in ours if one_by_one else ():
            met = _met(rule)
            # What a search is restricted to leaves out the gaps between very many codes: a row has to keep these, too.
            told = [*together, *(Rule(rule.line, rule.text, (), one) for one in rule.when if one.every is not None)]
            search = Search(told)
            if met and not problems[rule.line] and search.row(met) is None and not search.given_up:
                problems[rule.line] = _never_met(rule, [one for one in _core(told, met) if one.line != rule.line])


# Where people are kept whole ------------------------------------------------------------------------------------------


def in_order(people: People) -> Rule:
    """Return the order of rows as a rule."""
    names, columns = people.next_names, people.of_rules
    order = people.schema.modelled_column(str(people.order))
    return Rule(-1, f"ordered_by: {order.name}", (), Comparison(columns[names[order.name]], ">=", (order,)))


def _implied(rules: Sequence[Rule], people: People) -> list[Rule]:
    """Return what is true of a row and the next, beside rules about both.

    Each keeps the rules of every row, and the next is not before this one.
    """
    names = people.next_names
    again = [renamed(rule, names) for rule in rules if not names.keys().isdisjoint(rule.columns)]
    return [in_order(people), *rules, *again]


class PersonSearch:
    """A search for a person with as few rows as possible who keeps the rules; it does not depend on any table.

    Attributes
    ----------
    rules : list of Rule
        Those that have to do with the number of rows or with the next row.
    given_up : bool
        Whether it tried too much without an end.
    """

    def __init__(self, rules: Sequence[Rule], people: People) -> None:
        pairs = [rule for rule in rules if is_about_pairs(rule, people)]
        self._order = [in_order(people)] if pairs else []
        of_rows = [rule for rule in rules if rule not in pairs]
        groups = linked([*pairs, *(_implied(of_rows, people) if pairs else of_rows)])
        about = set(people.of_rules)
        ours = [rule for one in groups if any(about & set(rule.columns) for rule in one) for rule in one]
        self.rules = [rule for rule in rules if rule in ours]
        self.given_up = False
        self._people = people

    def rows(self) -> list[dict[str, int]] | None:
        """Return the rows of a person, as codes of the columns that the rules are about; None where none was found."""
        people, tried = self._people, 0
        alone = [rule for rule in self.rules if set(rule.columns) == {people.count}]
        for count in range(1, people.most + 1):
            codes = {people.count: np.array([count - people.least])}
            if tried == _MOST_PEOPLE or any(rule.broken(codes)[0] for rule in alone):
                continue
            tried += 1
            search = Search([rule for place in range(count) for rule in self._of_row(place, count)])
            fixed = {people.count: spans_of([count - people.least])} if people.count in search.columns else {}
            found = search.row(fixed)
            self.given_up |= search.given_up
            if found is not None:
                return [self._cells(found, place) for place in range(count)]
        return None

    def _names(self, place: int) -> dict[str, str]:
        """Return what the columns of a row are called beside those of the other rows."""
        return {name: f"{name}\n{place}" for name in self._people.by_row}

    def _of_row(self, place: int, count: int) -> Iterator[Rule]:
        this, following = self._names(place), self._names(place + 1)
        names = this | {new: following[name] for name, new in self._people.next_names.items()}
        for rule in (*self.rules, *self._order):
            if place + 1 < count or not is_about_pairs(rule, self._people):
                yield renamed(rule, names)

    def _cells(self, found: Mapping[str, int], place: int) -> dict[str, int]:
        names = self._names(place)
        return {name: found[key] for name in self._people.schema.names if (key := names.get(name, name)) in found}


def _nobody(search: PersonSearch, people: People) -> str:
    texts, who = list(dict.fromkeys(_short(rule) for rule in search.rules)), shown(people.schema.unit.protects)
    if search.given_up:
        return f"rules: no {who} was found who keeps {_and(texts)}. Write fewer or simpler rules."
    return (
        f"rules: no {who} with up to {people.most:,} rows can keep {_and(texts)} in all of them. Change or delete one "
        "of them, or check rows_per_unit and the bounds of the columns."
    )


# Whether a rule says something ----------------------------------------------------------------------------------------


def _says_nothing(rule: Rule) -> bool:
    """Whether no combination of declared values breaks a rule."""
    domains: Domains = {column.name: np.array([[0, column.size]]) for column in _columns_of(rule)}
    for one in rule.when:
        met = one.within(domains[one.column.name])
        if not len(met):
            return True
        domains[one.column.name] = met
    then = rule.then
    if isinstance(then, Dependency):
        return not then.learnt and then.wanted.is_empty
    if isinstance(then, Among):
        return not len(then.outside(domains[then.column.name]))
    told = {
        name: spans_within(domains[name], codes_between(column, -np.inf, np.inf), column.size)
        for name, column in ((c.name, c) for c in (then.left, *then.right))
    }
    if not all(len(spans) for spans in told.values()):
        return True
    bounds = _Bounds(then, told)
    low, high = bounds.left
    breaks_below = bounds.at_least and low < bounds.most + bounds.gap
    return not (breaks_below or (bounds.at_most and high > bounds.least - bounds.gap))


def _circle(rules: Sequence[Rule]) -> list[Rule]:
    """Return orders in a circle, in which something would be larger than itself; empty without a circle."""
    larger: dict[str, list[tuple[str, Rule]]] = {}
    strict = []
    for rule in rules:
        then = rule.then
        if rule.when or not isinstance(then, Comparison) or then.order is None:
            continue
        high, low, never_equal = then.order
        larger.setdefault(high, []).append((low, rule))
        if never_equal:
            strict.append((high, low, rule))
        elif then.relation == "=":
            larger.setdefault(low, []).append((high, rule))
    for high, low, rule in strict[:_MOST_CHECKED]:
        # Is what is smaller at least as large?
        came: dict[str, tuple[str, Rule] | None] = {low: None}
        waiting = deque([low])
        while waiting and high not in came:
            name = waiting.popleft()
            for following, other in larger.get(name, ()):
                if following not in came:
                    came[following] = (name, other)
                    waiting.append(following)
        found, step = [rule], came.get(high)
        while step is not None:
            found.append(step[1])
            step = came[step[0]]
        if high in came:
            return found
    return []


def linked(rules: Sequence[Rule]) -> list[list[Rule]]:
    """Return the rules in groups that have no column in common."""
    group: dict[str, list[str]] = {}
    for rule in rules:
        joined = list(dict.fromkeys(name for one in rule.columns for name in group.get(one, [one])))
        group |= dict.fromkeys(joined, joined)
    found: dict[int, list[Rule]] = {}
    for rule in rules:
        found.setdefault(id(group[rule.columns[0]]), []).append(rule)
    return list(found.values())


def _core(rules: Sequence[Rule], met: Mapping[str, Spans]) -> list[Rule]:
    """Return a smallest set of rules that no row can keep together; ``met`` restricts the row."""
    kept, part, work = list(rules), max(len(rules) // 2, 1), 0
    while part and work < _MOST_BLAMED:
        place = 0
        while place < len(kept) and work < _MOST_BLAMED:
            without = kept[:place] + kept[place + part :]
            names = {name for rule in without for name in rule.columns}
            search = Search(without)
            fixed = {name: spans for name, spans in met.items() if name in names}
            unkept = without and search.row(fixed) is None and not search.given_up
            work += search.work
            if unkept:
                kept = without
            else:
                place += part
        part //= 2
    return kept


def _short(rule: Rule) -> str:
    return shown(rule.text) if len(rule.text) <= _SHOWN else shown(f"{rule.text[:_SHOWN]}...")


def _contradiction(rules: Sequence[Rule], *, given_up: bool) -> str:
    texts = list(dict.fromkeys(_short(rule) for rule in rules))
    if given_up:
        return f"rules: no row was found that keeps {_and(texts)} together. Write fewer or simpler rules."
    if len(texts) == 1:
        return (
            f"rules: no row can keep '{texts[0]}' within the declared columns. Check its values, and the bounds and "
            "categories of its columns."
        )
    return f"rules: {_and(texts)} contradict each other: no row can keep them together. Change or delete one of them."


def _met(rule: Rule) -> Domains:
    """Return the codes of a row that meets the conditions of a rule."""
    found: Domains = {}
    for one in rule.when:
        own = found.get(one.column.name, np.array([[0, one.column.size]], dtype=np.int64))
        found[one.column.name] = one.within(own)
    return found


def _never_met(rule: Rule, others: Sequence[Rule]) -> str:
    texts = list(dict.fromkeys(_short(other) for other in others))
    beside = f" while {_and(texts)} {'hold' if len(texts) > 1 else 'holds'}" if texts else ""
    return (
        f"rules: no row can meet the condition of '{_short(rule)}' and keep it{beside}, so it would only forbid its "
        "own condition. Change or delete one of them."
    )


def _and(texts: Sequence[str]) -> str:
    return listed([f"'{text}'" for text in texts], 4)
