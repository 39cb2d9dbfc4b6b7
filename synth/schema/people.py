"""Whole people: what is asked about a unit with several rows, as one row of a wider table.

Where the rows of one unit are kept together, questions are not about its rows but about the unit: each becomes one row
of a table of people, which has

- the columns that are declared the same in all rows of a unit;
- how many rows it has (``count``);
- one of its rows, under the names of the columns, and the row after that (``next``), with what lies between the two in
  the column that gives the order (``gap``), and where the two are among its rows (``place``);
- a usual value of each number: a middle one of all of its rows.

A unit has one row there, however many it has in the private table, so a question moves by one row where a unit comes or
goes: bounds do not grow with ``rows_per_unit``. :mod:`synth.privacy.people` makes that row of a unit's own rows alone,
and :mod:`synth.generators.whole_people` turns synthetic rows of this table into people with several rows.

Where the declared table is joined from two, a unit may have no row in the second. Its ``count`` is then 0, and all that
is about its rows is missing.

Everything here follows from declarations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from synth.errors import SchemaError
from synth.schema.columns.base import Column, ModelledColumn
from synth.schema.columns.labels import CategoryColumn
from synth.schema.columns.number import NumberColumn
from synth.schema.rules import CodeArray, quoted
from synth.schema.schema import MERGE, NoRow, PrivacyUnit, Schema

__all__ = [
    "NOWHERE",
    "PLACES",
    "AskedUnit",
    "People",
    "asked_schema",
    "column_title",
    "declared_part",
    "people_asked",
    "people_of",
]

PLACES = ("only", "both", "first", "middle", "last")
"""Where the two rows are: a unit of one row has no second; of two rows they are both; else they are the first two, two
in the middle, or the last two."""

NOWHERE = "none"
"""The place where a unit has no row at all."""


@dataclass(frozen=True, slots=True)
class AskedUnit(PrivacyUnit):
    """A unit as questions see it: one row, that stands for up to ``stands_for`` rows of the ``declared`` table."""

    stands_for: int = 1
    declared: Schema | None = None
    without_rows: NoRow | None = None

    @property
    def no_row(self) -> NoRow | None:
        """How a row of the table of people says that the unit has no row in the second of two tables."""
        return self.without_rows

    @property
    def rows_at_most(self) -> int:
        """The most rows of the private table that one of them can have."""
        return self.stands_for


@dataclass(frozen=True, slots=True)
class People:
    """How a table with several rows per unit and its table of people belong together.

    Attributes
    ----------
    schema : Schema
        The declared table.
    asked : Schema
        The table of people, with one row per unit.
    own : tuple of str
        Modelled columns that are the same in all rows of a unit.
    by_row : tuple of str
        The other modelled columns, without :data:`synth.schema.schema.MERGE`.
    order : str, optional
        The one of these that gives the order.
    least, most : int
        The fewest rows of a unit, 1 or, where two tables were joined, 0; and the most.
    count, place : str
        Names of these columns in the table of people.
    gap : str, optional
        Where there is an order.
    following : mapping of str to str
        The name of the column of the next row, by that of every column of ``by_row`` except ``order``.
    usual : mapping of str to str
        The name of the column of usual values, by that of a number.
    next_order : str, optional
        What rules call the column of the order in the next row; the table of people has ``gap`` in its place.
    titles : mapping of str to str
        What each column is that the declared table does not have, in words: ``next.cost`` is "cost in the next row".
        No two are alike, and none is the name of a declared column.
    """

    schema: Schema
    asked: Schema
    own: tuple[str, ...]
    by_row: tuple[str, ...]
    order: str | None
    least: int
    most: int
    count: str
    place: str
    gap: str | None
    following: dict[str, str]
    usual: dict[str, str]
    titles: dict[str, str]
    next_order: str | None = None

    @property
    def structure(self) -> tuple[str, ...]:
        """What is true of every row of the table of people, as lines of ``rules:``, so that nobody has to count it."""
        count, place = quoted(self.count), quoted(self.place)
        several = f"{place} in (first, middle, last)"
        lines = [
            f"if {place} = only then {count} = 1",
            f"if {count} = 1 then {place} = only",
            f"if {place} = both then {count} = 2",
            f"if {count} = 2 then {place} = both",
        ]
        if self.most > 2:
            lines += [f"if {several} then {count} >= 3"]
        no_next, missing = f"{place} = only", {name: self.schema.modelled_column(name).missing for name in self.by_row}
        if self.least == 0:
            no_next = f"{place} in (only, {NOWHERE})"
            lines += self.of_no_row
            lines += [_absent(new, f"{place} = {NOWHERE}", missing=missing[name]) for name, new in self.usual.items()]
        lines += [_absent(new, no_next, missing=missing[name]) for name, new in self.following.items()]
        if self.gap is not None and self.order is not None:
            order = self.schema.modelled_column(self.order)
            # Nothing lies between a date and a special value either.
            lines.append(_absent(self.gap, no_next, missing=order.size > order.levels))
        return tuple(lines)

    @property
    def of_no_row(self) -> tuple[str, ...]:
        """What of the structure says which cells a unit without a row in the second of two tables has."""
        if self.least:
            return ()
        count, place = quoted(self.count), quoted(self.place)
        no_row = f"{place} = {NOWHERE}"
        cells = (_absent(name, no_row, missing=self.schema.modelled_column(name).missing) for name in self.by_row)
        return (f"if {count} = 0 then {no_row}", f"if {no_row} then {count} = 0", *cells)

    @property
    def made(self) -> frozenset[str]:
        """The columns of the table of people that the declared table does not have."""
        return frozenset(self.titles)

    @property
    def next_names(self) -> dict[str, str]:
        """What rules call columns of the next row, by the declared name; empty where nothing gives an order."""
        if self.order is None or self.next_order is None:
            return {}
        return self.following | {self.order: self.next_order}

    @property
    def of_rules(self) -> dict[str, ModelledColumn]:
        """What rules may name beside the declared columns: the number of rows, and the columns of the next row."""
        nexts = {new: replace(self.schema.modelled_column(name), name=new) for name, new in self.next_names.items()}
        return {self.count: NumberColumn(self.count, self.least, self.most, 1), **nexts}

    def declared_names(self, names: Iterable[str]) -> tuple[str, ...]:
        """Return the declared columns that what rules name is about."""
        next_of = {new: name for name, new in self.next_names.items()}
        return tuple(dict.fromkeys(next_of.get(name, name) for name in names if name != self.count))

    def cells(
        self,
        names: Iterable[str],
        of_row: Callable[[str], CodeArray],
        of_next: Callable[[str], CodeArray],
        count: CodeArray,
    ) -> dict[str, CodeArray]:
        """Return the codes of what rules name, by name.

        Parameters
        ----------
        names : iterable of str
        of_row, of_next : callable
            Return a declared column of rows, and of the row after each.
        count : array of shape (rows,)
            How many rows the person of each has.
        """
        next_of = {new: name for name, new in self.next_names.items()}
        return {
            name: count - self.least
            if name == self.count
            else of_next(next_of[name])
            if name in next_of
            else of_row(name)
            for name in names
        }

    def counted(self, codes: npt.NDArray[np.integer[Any]], units: npt.NDArray[np.integer[Any]]) -> CodeArray:
        """Return how many rows each unit has.

        Parameters
        ----------
        codes : array of shape (rows, modelled columns)
            Codes of the declared table.
        units : array of shape (rows,)
            The number of each row's unit, from 0, never decreasing.
        """
        no_row = self.schema.no_row
        if no_row is None:
            return np.bincount(units)
        return np.bincount(units, codes[:, self.schema.names.index(no_row.column)] != no_row.code).astype(np.int64)

    def title(self, name: str) -> str:
        """Return what a column of the table of people is, in words; a declared column is called by its name."""
        return self.titles.get(name, name)

    def absent_code(self, name: str) -> int:
        """Return the code of the next row's column where there is no next row: that of a missing cell."""
        return self.asked.size_of(self.following[name]) - 1

    def blank(self, name: str) -> int:
        """Return the code, in the declared table, of an empty cell about the row of a unit that has none."""
        return self.schema.modelled_column(name).unreadable_code


def _absent(name: str, where: str, *, missing: bool) -> str:
    """Say that a cell about a row is missing where there is no such row, and only there if none can be missing."""
    if missing:
        return f"if {where} then {quoted(name)} is missing"
    return f"{quoted(name)} is missing exactly when {where}"


def asked_schema(schema: Schema) -> Schema:
    """Return the schema that questions are about: the table of people if units are kept whole, else the table."""
    return people_of(schema).asked if schema.people == "whole" else schema


def people_asked(schema: Schema) -> People | None:
    """Return how a table of people belongs to its declared table; None for the schema of any other table."""
    unit = schema.unit
    return people_of(unit.declared) if isinstance(unit, AskedUnit) and unit.declared is not None else None


def column_title(schema: Schema, name: str) -> str:
    """Return what a reader is told that a column is: its name, or words for one that only the table of people has.

    Parameters
    ----------
    schema : Schema
        A declared table, or the table of people that belongs to one.
    name : str
    """
    people = people_of(schema) if schema.people == "whole" else people_asked(schema)
    return name if people is None else people.title(name)


def declared_part(schema: Schema) -> Schema:
    """Return the table of people without the columns that it alone has; any other table is itself.

    They come last there, so codes of the others are those of the first columns.
    """
    people = people_asked(schema)
    made = frozenset() if people is None else people.made
    return replace(schema, columns=tuple(column for column in schema if column.name not in made)) if made else schema


@lru_cache(maxsize=16)
def people_of(schema: Schema) -> People:
    """Return the table of people of a declared table whose units are kept whole.

    Raises
    ------
    SchemaError
        If it would have more columns or values than any generator can handle.
    """
    unit, modelled = schema.unit, {column.name: column for column in schema.modelled}
    own = tuple(name for name in modelled if name in unit.same_in_all_rows)
    by_row = tuple(name for name in modelled if name not in (*unit.same_in_all_rows, MERGE.name))
    least = 1 if schema.tables is None else 0
    taken = {column.name for column in schema}

    def free(name: str) -> str:
        while name in taken:
            name += "_"
        taken.add(name)
        return name

    count, place = free("count"), free("place")
    ordered = None if unit.ordered_by is None else modelled[unit.ordered_by]
    gap = None if ordered is None else free("gap")
    following = {name: free(f"next.{name}") for name in by_row if name != unit.ordered_by}
    usual = {name: free(f"usual.{name}") for name in following if modelled[name].is_summable}
    next_order = None if ordered is None else free(f"next.{ordered.name}")
    titles = {count: f"rows of a {unit.protects}", place: "place of the row"}
    titles |= {} if gap is None else {gap: f"from {unit.ordered_by} to the next"}
    titles |= {new: f"usual {of}" for of, new in usual.items()}
    titles |= {new: f"{of} in the next row" for of, new in following.items()}
    titles = {new: free(words) for new, words in titles.items()}
    more: list[Column] = [
        NumberColumn(count, least, unit.rows_per_unit, 1, fallback=1),
        CategoryColumn(place, PLACES if least else (*PLACES, NOWHERE), fallback=PLACES[0]),
    ]
    if ordered is not None and gap is not None:
        more.append(NumberColumn(gap, 0, ordered.levels - 1, 1, missing=True))
    columns = schema.columns
    if least == 0:
        emptied = {name: replace(modelled[name], missing=True) for name in by_row}
        columns = tuple(emptied.get(one.name, one) for one in schema.declared)
    more += [
        replace(modelled[name], name=new, missing=modelled[name].missing or not least) for name, new in usual.items()
    ]
    more += [replace(modelled[name], name=new, missing=True) for name, new in following.items()]
    try:
        asked = replace(
            schema,
            columns=(*columns, *more),
            unit=AskedUnit(
                protects=unit.protects,
                rows_per_unit=1,
                id_column=unit.id_column,
                stands_for=unit.rows_per_unit,
                declared=schema,
                without_rows=None if least else NoRow(count, 0, frozenset(by_row)),
            ),
            people="separate_rows",
            tables=None,
        )
    except SchemaError as problem:
        raise SchemaError(
            f"The rows of one {unit.protects} cannot be kept together in a table as wide as this one. Write 'people: "
            f"separate_rows', or mend it: {problem}"
        ) from None
    return People(
        schema=schema,
        asked=asked,
        own=own,
        by_row=by_row,
        order=unit.ordered_by,
        least=least,
        most=unit.rows_per_unit,
        count=count,
        place=place,
        gap=gap,
        following=following,
        usual=usual,
        next_order=next_order,
        titles=titles,
    )
