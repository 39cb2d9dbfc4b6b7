"""The language of ``rules:``: a line of text each, about declared columns and their declared values.

==============================================================  =======================================================
line                                                            what it says
==============================================================  =======================================================
``end >= start``, ``age >= 18``, ``total = a + b``              an order, a bound, a sum
``if age < 15 then income is missing``                          what follows where all conditions are met
``if type = child and age < 15 then marital in (single, ?)``    conditions are joined by ``and``, conclusions too
``income is missing exactly when employed = no``                empty there and only there: not applicable
``dose in (0, 10, 20)``, ``price is a multiple of 0.05``        few values, or a grid within the declared one
``zone determines borough (1 = EWR, 2 = Queens)``               one value follows from another
``zone determines borough``                                     the same, with the table of values learnt by the model
``income is a multiple of 100 in 40 % of rows``                 heaped values: a share of the rows lies there
``left - came <= 30``                                           a difference: in days of dates, in minutes of times
``count <= 4``, ``next.cost >= cost``                           where people are kept whole: rows of a person, next row
==============================================================  =======================================================

Names and values that contain a word or a sign of the language are put in double quotation marks.
"""

from __future__ import annotations

import csv
import difflib
import io
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import cast

import numpy as np
import numpy.typing as npt

from synth.errors import ConfigError, InputError, SchemaError
from synth.limits import TEXT_CHARACTERS
from synth.names import shown
from synth.schema.columns.base import ModelledColumn
from synth.schema.documents import as_number, read, read_text
from synth.schema.people import People, people_asked
from synth.schema.people_rules import Named, as_asked, heap_as_asked
from synth.schema.rules import (
    Among,
    Comparison,
    Conclusion,
    Dependency,
    Determined,
    Every,
    Heap,
    Relation,
    Rule,
    Spans,
    codes_between,
    codes_in,
    complement,
    quoted,
    spans_of,
    values_of,
)
from synth.schema.schema import Schema

__all__ = ["RuleSet", "read_rules", "with_tables"]

CodeArray = npt.NDArray[np.int64]

_SIGNS = (">=", "<=", "==", "!=", "<>", "=", ">", "<")
_MOST_NAMED, _MOST_COMPARED = 6, 500
_AT_ONCE = 2**18
"""Codes of a column that are looked at together."""

MOST_LEVELS = 2**24
"""Values of the longest number or date that a rule can be about, unless it only says when a cell is empty."""

_MOST_SINGLE = 2**16
"""Most single codes of a condition that are listed where they are equally far apart."""

_HELP = "Write for example 'end >= start', 'total = a + b' or 'if age < 15 then income is missing'."


@dataclass(frozen=True, slots=True, eq=False)
class RuleSet:
    """The rules of a configuration, read.

    Attributes
    ----------
    lines : tuple of str
        As they were written.
    rules : tuple of Rule
        What every row must keep; a line may contain several.
    heaps : tuple of Heap
        What shares of the rows keep.
    """

    lines: tuple[str, ...] = ()
    rules: tuple[Rule, ...] = ()
    heaps: tuple[Heap, ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns of the rules."""
        return tuple(dict.fromkeys(name for rule in self.rules for name in rule.columns))

    @property
    def learnt(self) -> tuple[Dependency, ...]:
        """The dependencies whose tables of values are not declared."""
        return tuple(rule.then for rule in self.rules if isinstance(rule.then, Dependency) and rule.then.learnt)


def read_rules(lines: Sequence[str], schema: Schema) -> RuleSet:
    """Read the lines of ``rules:`` against the declared columns.

    Where people are kept whole, a line may name the number of rows of a person and columns of the next row. Against
    their table of people such a line is read as what that table can keep of it: a difference to the next row in the
    order is its column of gaps, and a rule that the table has no columns for is left out.

    Raises
    ------
    ConfigError
        If a line is not of a known form, names an unknown column or value, or compares what cannot be compared.
    """
    people = people_asked(schema)
    named = Named.of(schema)
    declared, structure = (named, ()) if people is None else (Named.of(people.schema), people.structure)
    found: list[Rule | Heap] = []
    for line, text in enumerate(lines):
        if text in structure:
            found += _Line(line, text, named).read()
        else:
            told = (_as_asked(entry, people) for entry in _Line(line, text, declared).read())
            found += [_about_rows(entry, schema) for entry in told if entry is not None]
    rules = tuple(entry for entry in found if isinstance(entry, Rule))
    return RuleSet(tuple(lines), rules, tuple(entry for entry in found if isinstance(entry, Heap)))


def _as_asked(entry: Rule | Heap, people: People | None) -> Rule | Heap | None:
    if people is None:
        return entry
    return as_asked(entry, people) if isinstance(entry, Rule) else heap_as_asked(entry, people)


def _about_rows(entry: Rule | Heap, schema: Schema) -> Rule | Heap:
    """Return a rule that says nothing of units without a row, if it is about what such a row holds."""
    no_row = schema.no_row
    if no_row is None or not isinstance(entry, Rule) or no_row.empty.isdisjoint(entry.columns):
        return entry
    column = schema.modelled_column(no_row.column)
    has_row = Among(column, complement(spans_of([no_row.code]), column.size), f"not {column.name}")
    return replace(entry, when=(has_row, *entry.when))


def with_tables(lines: Sequence[str], base: Path) -> tuple[str, ...]:
    """Return the lines with the tables of values in files written out, as a bundle stores them.

    Parameters
    ----------
    lines : sequence of str
        For example ``zone determines borough by zones.csv``, which names a public table with both columns.
    base : Path
        Folder to which its path is relative.

    Raises
    ------
    ConfigError
        If the file cannot be read, or does not have both columns.
    """
    return tuple(written for text in lines for written in _written_out(text, base))


# Words of a line -----------------------------------------------------------------------------------------------------


def _outside(text: str) -> list[bool]:
    """Say for every character whether it is outside quotation marks and parentheses."""
    found, depth, inside = [], 0, False
    for mark in text:
        if mark == '"':
            inside = not inside
        depth += 0 if inside else (mark == "(")
        found.append(not inside and depth <= 0 and mark != '"')
        depth -= 0 if inside else (mark == ")")
    return found


def _split(text: str, word: str) -> list[str]:
    """Split at a word or a sign wherever it is outside quotation marks and parentheses."""
    outside, lowered = _outside(text), text.lower()
    if len(lowered) != len(text):  # a capital letter of two small ones: nothing is split then but as it is written
        lowered = text
    pieces, first, place = [], 0, lowered.find(word)
    while place >= 0:
        if all(outside[place : place + len(word)]):
            pieces.append(text[first:place])
            first = place + len(word)
        place = lowered.find(word, max(place + 1, first))
    return [piece.strip() for piece in (*pieces, text[first:])]


def _unquoted(text: str) -> str:
    text = text.strip()
    return text[1:-1].replace('""', '"') if len(text) > 1 and text[0] == text[-1] == '"' else text


def _sign(text: str) -> tuple[str, str, str] | None:
    """Return what comes before the first sign, the sign, and what comes after it."""
    outside = _outside(text)
    place = next((index for index, mark in enumerate(text) if mark in "<>=!" and outside[index]), -1)
    sign = next((sign for sign in _SIGNS if place >= 0 and text.startswith(sign, place)), "")
    name, right = text[: max(place, 0)].strip(), text[place + len(sign) :].strip()
    return (name, {"==": "=", "<>": "!="}.get(sign, sign), right) if name and sign and right else None


class _Line:
    """One line, and the columns it may name."""

    def __init__(self, line: int, text: str, named: Named) -> None:
        self.line, self.text, self.named, self.declared = line, text, named, named.columns

    def read(self) -> Iterator[Rule | Heap]:
        """Yield what the line says."""
        text = self.text.strip()
        compared = _sign(text)
        if compared is not None and compared[0] in self.declared:
            # So that a name may contain any word, as it always could.
            yield self._rule((), self._comparison(*compared))
            return
        pieces = _split(text, " then ")
        if text.lower().startswith("if ") and len(pieces) == 2:
            when = tuple(self._condition(piece) for piece in _split(pieces[0][3:], " and "))
            for piece in _split(pieces[1], " and "):
                yield self._rule(when, self._conclusion(piece))
            return
        pieces = _split(text, " determines ")
        if len(pieces) == 2:
            yield self._rule((), self._dependency(*pieces))
            return
        pieces = _split(text, " exactly when ")
        if len(pieces) == 2:
            yield from self._exactly(*pieces)
            return
        share = _share(text)
        if share is not None:
            yield Heap(self.line, self.text, self._heap(share[0]), share[1])
            return
        for piece in _split(text, " and "):
            yield self._rule((), self._conclusion(piece))

    def _rule(self, when: tuple[Among, ...], then: Conclusion) -> Rule:
        return Rule(self.line, self.text, when, then)

    def _refused(self, why: str) -> ConfigError:
        return ConfigError(f"rules: '{shown(self.text)}' {why}")

    def _named(self, name: str, *, values: bool = True) -> ModelledColumn:
        name = _unquoted(name)
        column = self.declared.get(name)
        if values and column is not None and column.levels > MOST_LEVELS:
            raise self._refused(
                f"is about '{shown(name)}', which has {column.levels:,} values; rules are kept for at most "
                f"{MOST_LEVELS:,}. Choose a larger step for it, or leave the rule out."
            )
        if column is not None:
            return column
        why = self.named.why_not(name)
        if why is not None:
            raise self._refused(f"names '{shown(name)}', {why}")
        near: list[str] = []
        if len(name) <= TEXT_CHARACTERS // 64 and len(self.declared) <= _MOST_COMPARED:
            near = difflib.get_close_matches(name, self.declared, n=1)
        meant = f" Did you mean '{shown(near[0])}'?" if near else ""
        raise self._refused(f"names '{shown(name)}', which is not a declared column with values.{meant}")

    def _ordered(self, name: str) -> ModelledColumn:
        column = self._named(name)
        if not column.has_order:
            raise self._refused(
                f"compares '{shown(column.name)}', which has no order. Use numbers and dates, or write 'in' or '='."
            )
        return column

    # Conclusions and conditions

    def _conclusion(self, text: str) -> Conclusion:
        compared = _sign(text)
        if compared is not None and self._subtracted(compared[0]) is not None:
            return self._comparison(*compared)
        if compared is not None:
            column = self._named(compared[0])
            if compared[1] != "!=" and (column.has_order or self._is_column(compared[2])):
                return self._comparison(*compared)
        return self._condition(text).as_conclusion()

    def _is_column(self, right: str) -> bool:
        return _unquoted(right) in self.declared

    def _condition(self, text: str) -> Among:
        for ending, empty in _EMPTY:
            if text.lower().endswith(ending):
                return self._about_empty(text, text[: -len(ending)], empty=empty)
        for word, among in ((" not in ", False), (" in ", True)):
            pieces = _split(text, word)
            if len(pieces) == 2:
                column = self._named(pieces[0])
                return self._among(column, [self._codes(column, value) for value in self._list(pieces[1])], among, text)
        pieces = _split(text, " is a multiple of ")
        if len(pieces) == 2:
            return self._multiple(pieces[0], pieces[1], text)
        compared = _sign(text)
        if compared is None:
            raise self._refused(f"is not a rule. {_HELP}")
        name, sign, right = compared
        if self._subtracted(name) is not None:
            raise self._refused(
                "has a difference as its condition, and conditions are about one column. Turn it round: write "
                "'if again = no then left - came > 30' for 'if left - came <= 30 then again = yes'."
            )
        if sign in ("=", "!="):
            column = self._named(name)
            return self._among(column, [self._codes(column, right)], sign == "=", text)
        column = self._ordered(name)
        value = self._constant(right, column)
        slack = 1e-9 * max(1.0, abs(value))
        least = value + (slack if sign == ">" else -slack) if sign in (">", ">=") else -np.inf
        most = value + (-slack if sign == "<" else slack) if sign in ("<", "<=") else np.inf
        return Among(column, codes_between(column, least, most), text)

    def _about_empty(self, text: str, name: str, *, empty: bool) -> Among:
        column = self._named(name, values=False)
        code = column.missing_code
        if code is None:
            raise self._refused(
                f"is about empty cells, but '{shown(column.name)}' has none. Tick Empty, or declare 'missing: true'."
            )
        where = spans_of([code])
        return Among(column, where if empty else complement(where, column.size), text, of_empty=True)

    def _list(self, text: str) -> list[str]:
        if not (text.startswith("(") and text.endswith(")")):
            raise self._refused("needs its values in parentheses, for example in (single, unknown).")
        values = [value for value in _split(text[1:-1], ",") if value]
        if not values:
            raise self._refused("lists no value. Write for example in (single, unknown).")
        return values

    def _among(self, column: ModelledColumn, sets: Sequence[Spans], among: bool, text: str) -> Among:
        held = np.concatenate(sets)
        found = spans_of(codes_in(held))
        if not among:
            # A cell that is not one of these values is one of the others: an empty cell is neither.
            out = found if column.missing_code is None else np.concatenate([found, spans_of([column.missing_code])])
            found = complement(out, column.size)
        return Among(column, found, text)

    def _codes(self, column: ModelledColumn, text: str) -> Spans:
        value = _unquoted(text)
        if column.levels:
            number = self._constant(value, column)
            slack = 1e-9 * max(1.0, abs(number))
            found = codes_between(column, number - slack, number + slack)
            if not len(found):
                raise self._refused(
                    f"'{shown(value)}' is not one of the values of '{shown(column.name)}': check its "
                    "lowest, highest and step."
                )
            return found
        code = _codes_of_texts(column).get(value)
        if code is None:
            known = list(_codes_of_texts(column))
            more = ", ..." if len(known) > _MOST_NAMED else ""
            listed = ", ".join(shown(one) for one in known[:_MOST_NAMED])
            raise self._refused(
                f"'{shown(value)}' is not a declared value of '{shown(column.name)}'. It has: {listed}{more}."
            )
        return spans_of([code])

    def _constant(self, text: str, column: ModelledColumn) -> float:
        try:
            return column.comparable(_unquoted(text))
        except SchemaError:
            raise self._refused("has neither a declared column nor a value on its right-hand side.") from None

    def _multiple(self, name: str, text: str, line: str) -> Among:
        column = self._ordered(name)
        if not column.is_summable:
            raise self._refused(f"needs a number, but '{shown(column.name)}' is not one.")
        step = self._number(text)
        if not step > 0:
            raise self._refused("needs a number above 0 after 'is a multiple of'.")

        def found(start: int, end: int) -> CodeArray:
            parts = values_of(column)[np.arange(start, end)] / step
            with np.errstate(invalid="ignore"):
                on_it = np.abs(parts - np.rint(parts)) <= 1e-9 * np.maximum(1.0, np.abs(parts))
            return start + np.flatnonzero(on_it)

        starts = range(0, column.levels, _AT_ONCE)
        on_grid = (found(start, min(start + _AT_ONCE, column.levels)) for start in starts)
        listed, every = _listed(on_grid)
        beside = found(column.levels, column.size)
        return Among(column, spans_of(np.concatenate([listed, beside])), line, every=every)

    def _number(self, text: str) -> float:
        try:
            return read("a number", as_number, _unquoted(text))
        except InputError:
            raise self._refused(f"'{shown(text)}' is not a number.") from None

    # The other forms

    def _subtracted(self, text: str) -> tuple[ModelledColumn, ModelledColumn] | None:
        """Return the two columns of ``end - start``; None where that is no difference of columns."""
        if _unquoted(text) in self.declared:
            return None
        pieces = _split(text, "-")
        for place in range(1, len(pieces)):
            # A name may contain the sign.
            two = [_unquoted("-".join(part).strip()) for part in (pieces[:place], pieces[place:])]
            if all(name in self.declared for name in two):
                return self._named(two[0]), self._named(two[1])
        return None

    def _difference(self, left: ModelledColumn, right: ModelledColumn, sign: str, other: str) -> Comparison:
        for column in (left, right):
            if not column.levels:
                raise self._refused(
                    f"subtracts '{shown(column.name)}', which is not a number, a date or a time. Compare it instead."
                )
        if sign == "!=":
            raise self._refused("says what a difference is not. Use '<', '<=', '=', '>=' or '>'.")
        parts = [_unquoted(part) for part in _split(other, "+")]
        if all(part in self.declared for part in parts):
            others = (right, *(self._ordered(part) for part in parts))
            self._require_one_kind(left, others)
            return Comparison(left, cast("Relation", sign), others)
        self._require_one_kind(left, (right,))
        return Comparison(left, cast("Relation", sign), (right,), self._number(other))

    def _comparison(self, name: str, sign: str, right: str) -> Conclusion:
        two = self._subtracted(name)
        if two is not None:
            return self._difference(*two, sign, right)
        if sign == "!=":
            return self._condition(f"{quoted(name)} != {right}").as_conclusion()
        left = self._named(name)
        parts = _split(right, "+")
        whole = right if right in self.declared else _unquoted(right)
        names = [part if part in self.declared else _unquoted(part) for part in parts]
        if whole in self.declared:
            columns: tuple[str, ...] = (whole,)
        elif len(parts) > 1 and all(part in self.declared for part in names):
            columns = tuple(names)
        elif not left.levels and sign == "=":
            return Among(left, self._codes(left, right), f"{name} = {right}").as_conclusion()
        else:
            left = self._ordered(name)
            return Comparison(left, cast("Relation", sign), constant=self._constant(right, left))
        left = self._ordered(name)
        others = tuple(self._ordered(name) for name in columns)
        self._require_one_kind(left, others)
        return Comparison(left, cast("Relation", sign), others)

    def _require_one_kind(self, left: ModelledColumn, others: Sequence[ModelledColumn]) -> None:
        if {other.kind for other in others} != {left.kind} or (len(others) > 1 and not left.is_summable):
            raise self._refused("compares numbers with dates. Compare columns of the same kind.")
        if not left.levels and any(other.declared_labels != left.declared_labels for other in others):
            raise self._refused("compares columns with different categories. Compare columns with the same ones.")
        if left.name in [other.name for other in others]:
            raise self._refused("has the same column on both sides.")

    def _dependency(self, source: str, right: str) -> Dependency:
        name, pairs = right, ""
        if right.endswith(")") and "(" in right and right not in self.declared:
            outside = _outside(right)
            place = next(
                index for index, mark in enumerate(right) if mark == "(" and (index == 0 or outside[index - 1])
            )
            name, pairs = right[:place], right[place + 1 : -1]
        elif len(_split(right, " by ")) == 2:
            raise self._refused("names a file, which is read only with a configuration file. Give its values here.")
        determining, target = self._named(source), self._named(name)
        if determining.name == target.name:
            raise self._refused("has the same column on both sides.")
        wanted: dict[int, int] = {}
        entries = [entry for entry in _split(pairs, ",") if entry]
        for entry in entries:
            compared = _sign(entry)
            if compared is None or compared[1] != "=":
                raise self._refused("needs pairs of values, for example zone determines borough (1 = EWR, 2 = Queens).")
            code = int(self._codes(target, compared[2])[0, 0])
            wanted |= dict.fromkeys(codes_in(self._codes(determining, compared[0])).tolist(), code)
        if not entries and not self.named.of_people.isdisjoint((determining.name, target.name)):
            raise self._refused(
                "has no pairs of values, and none are learnt between a row and the next. Write them, for example "
                "ward determines next.ward (heart = heart)."
            )
        return Dependency(determining, target, Determined.of(wanted), learnt=not entries)

    def _exactly(self, left: str, right: str) -> Iterator[Rule]:
        empty = next((ending for ending, is_empty in _EMPTY if is_empty and left.lower().endswith(ending)), None)
        if empty is None:
            raise self._refused(
                "uses 'exactly when' for something other than 'is missing'. Write it as if ... then ..."
            )
        gone = self._about_empty(left, left[: -len(empty)], empty=True)
        when = tuple(self._condition(piece) for piece in _split(right, " and "))
        yield self._rule(when, gone)
        for one in when:
            if one.column.name == gone.column.name:
                raise self._refused("has the same column on both sides.")
            not_met = Among(one.column, complement(one.listed(), one.column.size), f"not {one.text}")
            there = Among(gone.column, complement(gone.codes, gone.column.size), f"not {gone.text}", of_empty=True)
            yield self._rule((not_met,), there)

    def _heap(self, text: str) -> Among:
        where = self._condition(text)
        if where.column.name in self.named.of_people:
            raise self._refused("is about a share of the rows. Say it of a declared column.")
        if not where.column.levels:
            raise self._refused(f"is about rounded numbers or dates, but '{shown(where.column.name)}' is neither.")
        valued = codes_between(where.column, -np.inf, np.inf)
        if not where.count_in(valued):
            raise self._refused(
                f"names values that '{shown(where.column.name)}' cannot have: check its lowest, highest and step."
            )
        return where


def _listed(parts: Iterable[CodeArray]) -> tuple[CodeArray, Every | None]:
    """Return ascending codes as a list, or without a list where they are very many and equally far apart."""
    held: list[CodeArray] = []
    every: Every | None = None
    may_be_even = True
    for part in filter(len, parts):
        if every is not None and np.array_equal(part, every.last + every.step * np.arange(1, len(part) + 1)):
            every = replace(every, last=int(part[-1]))
            continue
        if every is not None:
            held, every, may_be_even = [np.arange(every.first, every.last + 1, every.step)], None, False
        held.append(part)
        if may_be_even and sum(map(len, held)) > _MOST_SINGLE:
            codes = np.concatenate(held)
            apart = np.diff(codes)
            may_be_even = bool((apart == apart[0]).all())
            if may_be_even:
                held, every = [], Every(int(codes[0]), int(codes[-1]), int(apart[0]))
    return np.concatenate([np.empty(0, np.int64), *held]), every


_EMPTY = (
    (" is not missing", False),
    (" is not empty", False),
    (" is missing", True),
    (" is empty", True),
    (" is not applicable", True),
)
_OF_ROWS = (" of rows", " of the rows")


def _share(text: str) -> tuple[str, float] | None:
    """Return what comes before ``in 40 % of rows``, and the share."""
    ending = next((ending for ending in _OF_ROWS if text.lower().endswith(ending)), None)
    pieces = [] if ending is None else _split(text[: -len(ending)], " in ")
    if len(pieces) < 2 or not pieces[-1].endswith("%"):
        return None
    try:
        share = as_number(pieces[-1][:-1]) / 100
    except ValueError:
        return None
    return (" in ".join(pieces[:-1]), share) if 0 < share <= 1 else None


@lru_cache(maxsize=256)
def _codes_of_texts(column: ModelledColumn) -> dict[str, int]:
    """Return the code of every text of a column without a grid; the empty cell has none."""
    codes = range(column.size - column.missing)
    return dict(zip(column.texts(codes), codes, strict=True))


# Tables of values in files -------------------------------------------------------------------------------------------


def _written_out(text: str, base: Path) -> Iterator[str]:
    pieces = _split(text, " determines ")
    ends = _split(pieces[1], " by ") if len(pieces) == 2 else []
    if len(ends) != 2 or len(text) > TEXT_CHARACTERS:
        yield text
        return
    source, target = _unquoted(pieces[0]), _unquoted(ends[0])
    path = Path(_unquoted(ends[1])).expanduser()
    path = path if path.is_absolute() else base / path
    try:
        rows = list(csv.reader(io.StringIO(read_text(path, "The table of values")), strict=True))
        header = [name.strip() for name in rows[0]]
        places = header.index(source), header.index(target)
        pairs = dict.fromkeys((row[places[0]].strip(), row[places[1]].strip()) for row in rows[1:] if any(row))
    except (csv.Error, IndexError, ValueError):
        raise ConfigError(
            f"rules: '{shown(path.name)}' is not a table with the columns '{shown(source)}' and '{shown(target)}'. "
            "Save it as CSV with commas, with both names in its first line."
        ) from None
    if len({value for value, _ in pairs}) < len(pairs):
        raise ConfigError(
            f"rules: '{shown(path.name)}' has two values of '{shown(target)}' for one of '{shown(source)}'."
        )
    head, line = f"{quoted(source)} determines {quoted(target)} ", ""
    for value, wanted in pairs:
        pair = f"{quoted(value)} = {quoted(wanted)}"
        if line and len(head) + len(line) + len(pair) + 4 > TEXT_CHARACTERS:
            yield f"{head}({line})"
            line = ""
        line += f", {pair}" if line else pair
    if line:
        yield f"{head}({line})"
