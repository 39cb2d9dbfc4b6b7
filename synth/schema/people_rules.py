"""What rules may name where people are kept whole, and what their table of people can keep of such a rule.

A rule of a declared table is about a row. Where the rows of a person are kept together it may also name how many rows
the person has (``count``), and columns of the person's next row (``next.cost``): such a rule holds for every row that
has a next one. The table of people has one row for each person, with one of their rows and the next, so a generator
that keeps a rule there draws pairs of rows that keep it.

Everything here follows from declarations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from synth.names import shown
from synth.schema.columns.base import ModelledColumn
from synth.schema.columns.moments import DateColumn, DateStep
from synth.schema.people import PLACES, People, people_of
from synth.schema.rules import (
    MIRROR,
    Among,
    Comparison,
    Conclusion,
    Heap,
    Rule,
    codes_between,
    spans_of,
    spans_within,
    values_of,
)
from synth.schema.schema import Schema

__all__ = ["Named", "about_people", "as_asked", "heap_as_asked", "is_about_pairs", "renamed"]


@dataclass(frozen=True, slots=True, eq=False)
class Named:
    """The columns that rules of a table may name.

    Attributes
    ----------
    schema : Schema
    columns : mapping of str to ModelledColumn
    people : People, optional
        Where people are kept whole.
    """

    schema: Schema
    columns: Mapping[str, ModelledColumn]
    people: People | None = None

    @classmethod
    def of(cls, schema: Schema) -> Self:
        """Return what rules of a table may name."""
        people = people_of(schema) if schema.people == "whole" else None
        declared = {column.name: column for column in schema.modelled}
        return cls(schema, declared if people is None else declared | people.of_rules, people)

    @property
    def of_people(self) -> frozenset[str]:
        """The names that are not those of declared columns."""
        return frozenset() if self.people is None else frozenset(self.people.of_rules)

    def why_not(self, name: str) -> str | None:
        """Say why a rule cannot name what it could elsewhere; None for a name that means nothing anywhere."""
        unit, of = self.schema.unit, name.removeprefix("next.")
        is_next = name != of and of in self.schema.names
        who = shown(unit.protects)
        if self.people is None:
            if not is_next and name != "count":
                return None
            what = f"the next row of the same {who}" if is_next else f"the number of rows of a {who}"
            return (
                f"{what}, but rows are not kept together here. Declare an id_column, a rows_per_unit above 1 and "
                "ordered_by, without 'people: separate_rows', or leave the rule out."
            )
        if is_next and of in unit.same_in_all_rows:
            return f"but '{shown(of)}' is the same in all rows of one {who}. Write '{shown(of)}'."
        if is_next:
            return f"but nothing says in what order the rows of one {who} come. Declare ordered_by."
        if name in self.people.made:
            known = f"'{shown(self.people.count)}', the number of rows of a {who}"
            more = ", and 'next.' before a column that may change from row to row" if self.people.next_names else ""
            return f"which rules cannot be about. They may name your columns, {known}{more}."
        return None


def about_people(rules: Iterable[Rule], schema: Schema) -> tuple[Rule, ...]:
    """Return the rules about more than a row: about the number of rows of a person, or the next row."""
    beside = Named.of(schema).of_people
    return tuple(rule for rule in rules if not beside.isdisjoint(rule.columns))


def is_about_pairs(rule: Rule, people: People) -> bool:
    """Whether a rule is about a row and the next."""
    return not set(rule.columns).isdisjoint(people.next_names.values())


def renamed(rule: Rule, names: Mapping[str, str]) -> Rule:
    """Return the same rule about columns of other names."""
    return _about(rule, lambda column: replace(column, name=names.get(column.name, column.name)))


def as_asked(rule: Rule, people: People) -> Rule | None:
    """Return a rule as the table of people can keep it, or None where it has no columns for it.

    The column that gives the order has no next one there but a gap: of rules about its next value those are told that
    are about the difference alone, where the grid is even.
    """
    nexts = set(people.next_names.values()) & set(rule.columns)
    asked = {column.name: column for column in people.asked.modelled}
    if not nexts and people.count not in rule.columns:
        # Where a unit may have no row, columns about rows may be empty that never are in the declared table.
        return rule if people.least else _about(rule, lambda column: asked[column.name])
    known = replace(rule, when=_where_there_is_a_next_row(rule, people))
    if people.next_order not in nexts:
        return _about(known, lambda column: asked[column.name])
    if any(one.column.name == people.next_order for one in rule.when) or not isinstance(rule.then, Comparison):
        return None
    gap = _gap(rule.then, people)
    if gap is None:
        return None
    # The conclusion is one already; the conditions may be about other columns of the next row.
    return replace(known, when=tuple(replace(one, column=asked[one.column.name]) for one in known.when), then=gap)


def heap_as_asked(heap: Heap, people: People) -> Heap:
    """Return a share of rows as one of the rows of the table of people."""
    return replace(heap, where=replace(heap.where, column=people.asked.modelled_column(heap.where.column.name)))


def _where_there_is_a_next_row(rule: Rule, people: People) -> tuple[Among, ...]:
    """Return the conditions of a rule, with one more where a cell of no next row could be taken for an empty one."""
    said = [one for one in (*rule.when, rule.then) if isinstance(one, Among)]
    nexts = [one for one in said if one.column.name in people.next_names.values()]

    def takes_empty(one: Among) -> bool:
        empty = one.column.missing_code
        return empty is not None and bool(one.kept({one.column.name: np.array([empty])})[0])

    if not any(one.of_empty or (one is not rule.then and takes_empty(one)) for one in nexts):
        return rule.when
    place = people.asked.modelled_column(people.place)
    return (*rule.when, Among(place, spans_of(np.arange(1, len(PLACES))), f"{people.place} != {PLACES[0]}"))


def _gap(then: Comparison, people: People) -> Among | None:
    """Return what a difference between the order of a row and the next says about the gap between them."""
    order, gap = people.schema.modelled_column(str(people.order)), people.asked.modelled_column(str(people.gap))
    even = not isinstance(order, DateColumn) or order.step is DateStep.DAY
    if not even or set(then.columns) != {order.name, people.next_order} or len(then.right) != 1:
        return None
    onwards = then.left.name == people.next_order
    relation, least = (then.relation, then.constant) if onwards else (MIRROR[then.relation], -then.constant)
    start = float(values_of(order)[np.zeros(1, dtype=np.int64)][0])
    slack = 1e-9 * max(1.0, abs(start), abs(least))
    low = least + (slack if relation == ">" else -slack) if relation in (">", ">=", "=") else -np.inf
    high = least + (-slack if relation == "<" else slack) if relation in ("<", "<=", "=") else np.inf
    grid = np.array([[0, order.levels]], dtype=np.int64)
    return Among(
        gap, spans_within(codes_between(order, start + low, start + high), grid, order.size), "a gap"
    ).as_conclusion()


def _about(rule: Rule, column_of: Callable[[ModelledColumn], ModelledColumn]) -> Rule:
    """Return a rule about other columns, which have the codes of its own and may have that of an empty cell too."""

    def among(one: Among) -> Among:
        return replace(one, column=column_of(one.column))

    then: Conclusion
    if isinstance(rule.then, Among):
        then = among(rule.then).as_conclusion()
    elif isinstance(rule.then, Comparison):
        right = tuple(column_of(column) for column in rule.then.right)
        then = replace(rule.then, left=column_of(rule.then.left), right=right)
    else:
        then = replace(rule.then, source=column_of(rule.then.source), target=column_of(rule.then.target))
    return replace(rule, when=tuple(among(one) for one in rule.when), then=then)
