"""What is lost while a table is read as declared, in sentences for its owner.

Exact, so for the owner only: a sentence of this module is shown, never kept in a bundle, and decides nothing about one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from synth.names import numbered, shown
from synth.schema import ModelledColumn, PrivacyUnit, Schema, people_of
from synth.schema.columns.base import LinkedCounts, PeopleCounts, ReadingCounts
from synth.schema.people_rules import about_people, is_about_pairs
from synth.schema.rule_lines import read_rules
from synth.schema.rules import CodeArray
from synth.schema.schema import LEFT_ONLY, MERGE, RIGHT_ONLY, LinkedTables

__all__ = [
    "MOST",
    "TOLD",
    "Losses",
    "became",
    "counts_of_linked",
    "counts_of_people",
    "looked_at",
    "losses_of",
    "with_linked",
]

TOLD = 1 / 20
"""The owner is told about a column or about lines of which a larger share is lost."""

_MOST_COLUMNS = 30
"""The most columns that have a sentence of their own: of several hundred nobody would read one by one."""

MOST = 1 / 2
"""A larger share is nearly always a mistake in the declaration, so a run waits for the owner's word."""

_ADVICE_ON_LINES = {
    "fewer": "Check the separator; if cells in quotation marks hold line breaks, add --format newlines=true",
    "one more": "If the first cell is a row's name, as R writes it, name that column too: --format row_names=row",
    "more": "Check the separator, and put cells that contain it in quotation marks",
    "quotation": "If cells in quotation marks hold line breaks and every mark is closed, add --format newlines=true",
    "encoding": "Name the encoding of the file, for example --format encoding=cp1252",
    "length": "Check that every row ends with a line feed",
}
_WORDS_ON_LINES = {
    "fewer": "have fewer cells than there are names",
    "one more": "have one cell more than there are names",
    "more": "have more cells than there are names",
    "quotation": "have a quotation mark out of place",
    "encoding": "are not in the declared encoding",
    "length": "are too long",
}


@dataclass(frozen=True, slots=True)
class Losses:
    """What the owner is told about lost lines and cells.

    Attributes
    ----------
    lines : tuple of str
        One sentence for the lines, and one for each column of which more than a twentieth is lost, the worst first, and
        one for all beyond the worst thirty; then one for each way in which people whose rows are kept together are not
        as declared, and one for each way in which two tables do not fit. None quotes a cell.
    mostly : bool
        Whether most lines, most cells of a column or most rows of people are lost, or most people differ.
    """

    lines: tuple[str, ...] = ()
    mostly: bool = False

    def __bool__(self) -> bool:
        return bool(self.lines)


def losses_of(reading: ReadingCounts, schema: Schema, advice: Mapping[str, str] | None = None) -> Losses:
    """Say what was lost while a table was read.

    A cell is lost if it cannot be read, is outside the declared values, or is empty where missing is not declared. One
    that becomes "other" where that is declared is as declared: the owner is told only if most cells of a column do, and
    a run waits only if nearly all do.

    Parameters
    ----------
    reading : ReadingCounts
    schema : Schema
    advice : mapping of str to str, optional
        By the name of a column, what would read most of its lost cells.

    Examples
    --------
    >>> from synth.schema import NumberColumn
    >>> from synth.schema.columns.base import CellCounts
    >>> schema = Schema((NumberColumn("pay", 0, 9_000, 1, missing=True),))
    >>> reading = ReadingCounts(300, 0, {}, 0, {"pay": CellCounts(malformed=288)})
    >>> losses_of(reading, schema, {"pay": "--format decimal=,"}).lines
    ("'pay': 96 % of the cells cannot be read as a number. Most are read with --format decimal=,.",)
    """
    lost = [_of_lines(reading)]
    of_tables = []
    if schema.tables is not None and reading.linked is not None:
        of_tables = _of_tables(reading, reading.linked, schema.tables, schema.unit)
    elif schema.unit.id_column is not None:
        lost.append(_of_ids(reading, schema.unit.id_column))
    of_columns = [
        _of_column(column, reading, _rows_with(column.name, reading, schema.unit), (advice or {}).get(column.name))
        for column in schema.modelled
    ]
    worst = sorted((one for one in of_columns if one.share > TOLD), key=lambda one: -one.share)
    told = [*(one for one in lost if one.share > TOLD), *worst[:_MOST_COLUMNS]]
    told = [*sorted(told, key=lambda one: -one.share), *_together(worst[_MOST_COLUMNS:])]
    lost += of_columns
    of_people = [] if reading.together is None else _of_people(reading.together, schema)
    beside = (*of_tables, *of_people)
    lines = (*(one.line for one in told), *(one.line for one in beside))
    return Losses(lines, any(one.waits for one in (*lost, *beside)))


def with_linked(reading: ReadingCounts, linked: LinkedCounts, schema: Schema) -> ReadingCounts:
    """Return what became of a table that was joined from two, without the cells that a row has in neither of them."""
    cells = dict(reading.cells)
    for name in cells:
        empty = _without(name, linked, schema.unit)
        cells[name] = replace(cells[name], missing=max(cells[name].missing - empty, 0))
    return replace(reading, cells=cells, linked=linked)


def _without(name: str, linked: LinkedCounts, unit: PrivacyUnit) -> int:
    """Return how many rows of a joined table have no cell in a column, because its table has no such row."""
    if name == MERGE.name:
        return 0
    return linked.second_alone if name in unit.same_in_all_rows else linked.first_alone


def _rows_with(name: str, reading: ReadingCounts, unit: PrivacyUnit) -> int:
    return reading.rows if reading.linked is None else reading.rows - _without(name, reading.linked, unit)


def counts_of_linked(units: NDArray[np.uint64], merge: NDArray[Any], *, keyless: tuple[int, int]) -> LinkedCounts:
    """Count how the rows of two tables fit together.

    Parameters
    ----------
    units : array of shape (n_rows,)
        A number for each joined row that has a key, the same for all rows of one unit.
    merge : array of shape (n_rows,)
        The code of :data:`synth.schema.schema.MERGE` of each.
    keyless : tuple of two int
        How many further rows, of the first table and of the second, have no key.
    """
    alone = merge == LEFT_ONLY
    of_first, rows = np.unique(units[alone], return_counts=True)
    beside = np.isin(of_first, units[~alone])
    unknown = int((merge == RIGHT_ONLY).sum())
    return LinkedCounts(
        first_alone=int(alone.sum()) + keyless[0],
        second_alone=unknown + keyless[1],
        unknown=unknown,
        repeated=int((beside | (rows > 1)).sum()),
        keyless=keyless,
    )


def looked_at(schema: Schema, rules: Sequence[str]) -> tuple[str, ...]:
    """Return the columns that :func:`counts_of_people` looks at where people are kept whole.

    Parameters
    ----------
    schema : Schema
    rules : sequence of str
        The declared rules.
    """
    people = people_of(schema)
    about = about_people(read_rules(rules, schema).rules, schema)
    ordered = () if people.order is None else (people.order,)
    named = people.declared_names(name for rule in about for name in rule.columns)
    return tuple(dict.fromkeys((*people.own, *ordered, *named)))


def counts_of_people(
    units: NDArray[np.uint64],
    columns: Mapping[str, NDArray[Any]],
    schema: Schema,
    rules: Sequence[str] = (),
    *,
    merge: NDArray[Any] | None = None,
) -> PeopleCounts:
    """Count in what people whose rows are kept together are not as declared.

    Parameters
    ----------
    units : array of shape (n_rows,)
        A number for each row, the same for all rows of one person.
    columns : mapping of str to array of shape (n_rows,)
        Codes of the columns that :func:`looked_at` names.
    schema : Schema
        What is declared.
    rules : sequence of str
        The declared rules. Rows at the same place of the order are taken in the order of the file.
    merge : array of shape (n_rows,), optional
        The code of :data:`synth.schema.schema.MERGE` of each row, where two tables were joined: rows of the first alone
        are none then, and what a unit has several rows of in the first is for :func:`counts_of_linked`.
    """
    unit = schema.unit
    levels = 0 if unit.ordered_by is None else schema.modelled_column(unit.ordered_by).levels
    if merge is not None:
        some = merge != LEFT_ONLY
        of_rows = {name: codes[some] for name, codes in columns.items()}
        found = counts_of_people(units[some], of_rows, schema, rules)
        return replace(found, people=len(np.unique(units)), differing={})
    order = np.argsort(units, kind="stable")
    whose = units[order]
    first = np.flatnonzero(np.concatenate([[True], whose[1:] != whose[:-1]])) if len(whose) else np.zeros(0, np.int64)
    rows = np.diff(np.append(first, len(whose)))
    more = rows - unit.rows_per_unit
    differing = {}
    for name in (name for name in unit.same_in_all_rows if name in columns):
        codes = columns[name][order]
        several = np.maximum.reduceat(codes, first) != np.minimum.reduceat(codes, first) if len(codes) else first
        differing[name] = int(np.count_nonzero(several))
    unordered = 0 if unit.ordered_by is None else int(np.count_nonzero(columns[unit.ordered_by] >= levels))
    left_out = int(more[more > 0].sum())
    broken = _broken(units, columns, schema, rules, levels) if rules else {}
    return PeopleCounts(len(first), len(whose), int((more > 0).sum()), left_out, differing, unordered, broken)


def _broken(
    units: NDArray[np.uint64], columns: Mapping[str, NDArray[Any]], schema: Schema, rules: Sequence[str], levels: int
) -> dict[str, tuple[int, int]]:
    """Return for every rule about people how many pairs, or people, break it, and how many there are."""
    people, about = people_of(schema), about_people(read_rules(rules, schema).rules, schema)
    if not about:
        return {}
    keys = (units,) if people.order is None else (np.minimum(columns[people.order], levels), units)
    rows = np.lexsort(keys)
    whose = np.cumsum(np.diff(units[rows], prepend=units[rows[:1]]) != 0)
    place = np.arange(len(rows)) - np.searchsorted(whose, whose)
    rows, whose = rows[place < people.most], whose[place < people.most]
    count = np.bincount(whose)
    pairs = np.flatnonzero(whose[1:] == whose[:-1])

    def codes(of: NDArray[np.int64]) -> Callable[[str], CodeArray]:
        return lambda name: columns[name][of].astype(np.int64)

    found: dict[str, tuple[int, int]] = {}
    for text in dict.fromkeys(rule.text for rule in about):
        line = [rule for rule in about if rule.text == text]
        of_pairs = any(is_about_pairs(rule, people) for rule in line)
        at = pairs if of_pairs else np.arange(len(rows))
        then = rows[at + 1] if of_pairs else rows
        broken = np.zeros(len(at), dtype=bool)
        for rule in line:
            broken |= rule.broken(people.cells(rule.columns, codes(rows[at]), codes(then), count[whose[at]]))
        of_people = len(np.unique(whose[at[broken]])), len(count)
        found[text] = (int(broken.sum()), len(pairs)) if of_pairs else of_people
    return found


@dataclass(frozen=True, slots=True)
class _Lost:
    share: float
    waits: bool
    line: str


def _together(rest: Sequence[_Lost]) -> list[_Lost]:
    """Say in one sentence what is lost of the columns that have none of their own."""
    if not rest:
        return []
    which = f"each of {len(rest):,} more columns" if len(rest) > 1 else "one more column"
    line = f"Up to {math.ceil(100 * rest[0].share)} % of the cells of {which} are not as declared either."
    return [_Lost(rest[0].share, waits=False, line=line)]


def _of_lines(reading: ReadingCounts) -> _Lost:
    lost = reading.unreadable_lines / reading.rows
    if not reading.unreadable:
        return _Lost(0.0, waits=False, line="")
    by_count = sorted(reading.unreadable, key=lambda reason: -reading.unreadable[reason])
    why = ", ".join(
        f"{_share(reading.unreadable[reason], reading.rows)} {_WORDS_ON_LINES[reason]}" for reason in by_count
    )
    line = (
        f"{_share(reading.unreadable_lines, reading.rows)} of the lines cannot be split into the declared columns, and "
        f"all of their cells are lost: {why}. {_ADVICE_ON_LINES[by_count[0]]}."
    )
    return _Lost(lost, lost > MOST, line)


def _of_ids(reading: ReadingCounts, id_column: str) -> _Lost:
    # An unreadable line has no id either.
    nobodys = max(reading.without_id - reading.unreadable_lines, 0)
    line = f"{_share(nobodys, reading.rows)} of the rows have no '{shown(id_column)}': they are nobody's, and not used."
    return _Lost(nobodys / reading.rows, reading.without_id / reading.rows > MOST, line)


def _of_tables(reading: ReadingCounts, linked: LinkedCounts, tables: LinkedTables, unit: PrivacyUnit) -> list[_Lost]:
    """Say in what two tables do not fit together; each such thing is told, as a reader cannot see it in one file."""
    lost, first, second = [], f"'{tables.first}'", f"'{tables.second}'"
    of_second = reading.rows - linked.first_alone
    if linked.unknown:
        several = linked.unknown > 1
        line = (
            f"{numbered(linked.unknown, 'row')} of {second} belong{'' if several else 's'} to a {unit.protects} that "
            f"{first} does not have: {'they are' if several else 'it is'} used, and the columns of {first} are empty "
            f"there. If {first} should have all of them, check how '{shown(tables.key)}' is written in both files."
        )
        lost.append(_Lost(linked.unknown / of_second, linked.unknown / of_second > MOST, line))
    if linked.repeated:
        who = f"1 {unit.protects} is" if linked.repeated == 1 else f"{linked.repeated:,} {unit.plural} are"
        line = f"{who} in {first} more than once: one row of each counts."
        share = linked.repeated / max(reading.together.people if reading.together else linked.repeated, 1)
        lost.append(_Lost(share, share > MOST, line))
    keyless = [
        f"{numbered(count, 'row')} of {table}"
        for count, table in zip(linked.keyless, (first, second), strict=True)
        if count
    ]
    if keyless:
        have = "has" if sum(linked.keyless) == 1 else "have"
        share = sum(linked.keyless) / reading.rows
        line = (
            f"{' and '.join(keyless)} {have} no '{shown(tables.key)}', or cannot be split into cells: "
            f"{'it is' if have == 'has' else 'they are'} nobody's, and not used."
        )
        lost.append(_Lost(share, share > MOST, line))
    return lost


def _of_people(found: PeopleCounts, schema: Schema) -> list[_Lost]:
    """Say in what people are not as declared; every such thing is told, as a reader cannot see it in the rows."""
    lost, unit = [], schema.unit
    if found.left_out:
        share, most = found.left_out / found.rows, f"{unit.rows_per_unit:,}"
        kept = "the first in order are" if unit.ordered_by else f"{most}, drawn by chance, are"
        line = (
            f"{_share(found.left_out, found.rows)} of the rows are not used: {_share(found.crowded, found.people)} of "
            f"the {unit.plural} have more than {most}, of which {kept} kept. If more of them "
            "matter, raise rows_per_unit."
        )
        lost.append(_Lost(share, share > MOST, line))
    for name, people in found.differing.items():
        if people:
            line = (
                f"'{shown(name)}' is declared the same in all rows, but {_share(people, found.people)} of the "
                f"{unit.plural} have several values in it; the one in their first row counts. If it changes from "
                "row to row, leave it out of same_in_all_rows."
            )
            lost.append(_Lost(people / found.people, people / found.people > MOST, line))
    if found.unordered:
        line = (
            f"{_share(found.unordered, found.rows)} of the rows have no '{shown(str(unit.ordered_by))}', which gives "
            f"the order: they come last among the rows of their {unit.protects}. Fill it in, or name another column."
        )
        lost.append(_Lost(found.unordered / found.rows, found.unordered / found.rows > MOST, line))
    for rule, (broken, of) in found.broken.items():
        if broken:
            pairs = any(is_about_pairs(one, people_of(schema)) for one in read_rules([rule], schema).rules)
            what = f"pairs of a {unit.protects}'s row and the next" if pairs else unit.plural
            line = (
                f"The rule '{shown(rule)}' is broken by {_share(broken, of)} of the {what}. Every synthetic "
                f"{unit.protects} will keep it: if it is not true of the table, delete it."
            )
            lost.append(_Lost(broken / of, broken / of > MOST, line))
    return lost


def _of_column(column: ModelledColumn, reading: ReadingCounts, rows: int, advice: str | None) -> _Lost:
    """Say what is lost of a column that ``rows`` rows have a cell in."""
    counts = reading.cells[column.name]
    if not rows:
        return _Lost(0.0, waits=False, line="")
    lost = {
        f"cannot be read as a {column.role}": max(counts.malformed - reading.unreadable_lines, 0),
        "are outside the declared range" if column.is_ordered else "are none of the declared values": counts.outside,
        "are empty, which is not declared": 0 if column.missing_code is not None else counts.missing,
    }
    said = [f"{_share(count, rows)} {words}" for words, count in lost.items() if count]
    line = f"'{shown(column.name)}': {', '.join(said).replace('%', '% of the cells', 1)}."
    total = sum(lost.values())
    as_other = 0 if column.other_code is None else total
    waits = (reading.unreadable_lines + total - as_other) / rows > MOST
    waits |= as_other / rows > 1 - TOLD
    told = total if as_other == 0 or as_other / rows > MOST else 0
    return _Lost(told / rows, waits, line if advice is None else f"{line} Most are read with {advice}.")


def _share(count: int, of: int) -> str:
    """Return a share in whole percent; 0 and 100 only where it is none or all."""
    percent = round(100 * count / of)
    if 0 < count < of:
        percent = min(max(percent, 1), 99)
    return f"{percent} %"


def became(column: ModelledColumn) -> str:
    """Return what a cell of a column becomes that cannot be read."""
    if column.missing_code is not None:
        return "missing"
    if column.other_code is not None:
        return "other"
    if isinstance(column.fallback, float | int):
        return f"{column.fallback:,.12g}"
    return "the first value" if column.fallback is None else str(column.fallback)
