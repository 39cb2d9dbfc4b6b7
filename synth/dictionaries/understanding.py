"""What a dictionary says about columns, translated into keys of a configuration; no fact is invented.

What is not said stays open, and what could not be understood is reported in a sentence.
"""

from __future__ import annotations

import math
from calendar import monthrange
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from fractions import Fraction
from typing import Any

from synth.dictionaries.values import Values, number_in, split_codes, values_in
from synth.dictionaries.words import (
    NO_WORDS,
    UNDECIDED_KINDS,
    YES_WORDS,
    folded,
    is_ordered,
    is_whole,
    kind_called,
)
from synth.errors import InputError
from synth.names import shown
from synth.schema import COLUMN_TYPES, parse_column
from synth.schema.documents import as_sentence

__all__ = ["Dictionary", "DictionaryColumn", "Facts", "open_facts", "understand"]

_NEEDED = {
    "number": {"low": "lowest", "high": "highest", "step": "step"},
    "date": {"low": "earliest", "high": "latest"},
    "category": {"values": "values"},
    "yes_no": {"yes": "word for yes", "no": "word for no"},
}
"""What a column of each type needs, by the key of a configuration, including the step of a number."""

_STEPS_OF_DATES = {"day": "day", "days": "day", "month": "month", "months": "month", "year": "year", "years": "year"}


@dataclass(frozen=True, slots=True)
class DictionaryColumn:
    """What was understood about one column.

    Attributes
    ----------
    name : str
    body : mapping
        Keys of a configuration that the dictionary fills; ``type`` is left out where it is left open.
    left : tuple of str
        What was not understood, one sentence each.
    """

    name: str
    body: Mapping[str, Any]
    left: tuple[str, ...] = ()

    @property
    def said(self) -> str:
        """What the column is declared as, on one line."""
        return _said_in_words(self.body)


@dataclass(frozen=True, slots=True)
class Dictionary:
    """What was understood from a data dictionary.

    Attributes
    ----------
    kind : str
        What it is, in words that follow "from": "a table of codes", "a Frictionless data package".
    columns : tuple of DictionaryColumn
        In its own order.
    left : tuple of str
        What was not understood about the whole, one sentence each.
    """

    kind: str
    columns: tuple[DictionaryColumn, ...]
    left: tuple[str, ...] = ()


@dataclass(slots=True)
class Facts:
    """What a dictionary says about one column, in its own words; ``codes`` are listed one by one."""

    name: str
    kind: str = ""
    low: str = ""
    high: str = ""
    range: str = ""
    step: str = ""
    decimals: str = ""
    values: str = ""
    labels: str = ""
    missing: str = ""
    empty: str = ""
    required: str = ""
    special: str = ""
    other: str = ""
    fallback: str = ""
    format: str = ""
    description: str = ""
    codes: list[tuple[str, str | None]] = field(default_factory=list)


def understand(facts: Facts) -> DictionaryColumn:
    """Return the keys of a configuration that a dictionary fills for a column."""
    body, left = _Understanding(facts).body()
    name = facts.name
    if not open_facts(body):
        # What would be refused later is reported now, and the column is left open.
        try:
            parse_column(name, body)
        except InputError as refusal:
            return DictionaryColumn(name, {}, (*left, str(refusal)))
    return DictionaryColumn(name, body, tuple(left))


def open_facts(body: Mapping[str, Any]) -> list[str]:
    """Return what must still be said about a column before it can be used, in words."""
    kind = body.get("type")
    if kind is None:
        return ["what kind of column it is"]
    return [words for key, words in _NEEDED.get(kind, {}).items() if key not in body]


def _said_in_words(body: Mapping[str, Any]) -> str:
    """Say what a column is declared as, on one line."""
    kind = body.get("type")
    meaning = (
        [f"means \N{LEFT DOUBLE QUOTATION MARK}{shown(body['description'])}\N{RIGHT DOUBLE QUOTATION MARK}"]
        if body.get("description")
        else []
    )
    if kind is None and not body.keys() - {"description"}:
        return "; ".join(meaning) or "nothing"
    said = [COLUMN_TYPES[kind].role if kind in COLUMN_TYPES else "of an unknown kind"]
    if "low" in body or "high" in body:
        said[0] += f" {body.get('low', '?')} to {body.get('high', '?')}"
    if "step" in body:
        said.append(f"step {body['step']}")
    if "of" in body:
        said.append(f"in the cells of {body['of']}")
    labels = body.get("labels", {})
    values = body.get("values") or [body[key] for key in ("yes", "no") if key in body]
    if values:
        said.append(_listed([f"{value} = {labels[value]}" if value in labels else str(value) for value in values]))
    if body.get("special"):
        said.append(f"special values {_listed(list(map(str, body['special'])))}")
    if body.get("other"):
        said.append("others become 'other'")
    if body.get("missing"):
        said.append("may be empty")
    if "fallback" in body:
        said.append(f"an empty or unreadable cell becomes {body['fallback']}")
    return "; ".join([*said, *meaning])


_MOST_LISTED = 6


def _listed(texts: Sequence[str]) -> str:
    more = f" and {len(texts) - _MOST_LISTED:,} more" if len(texts) > _MOST_LISTED else ""
    return ", ".join(map(shown, texts[:_MOST_LISTED])) + more


class _Understanding:
    """One column on its way from words to a declaration."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._left: list[str] = []
        self._values = self._all_values()
        self._missing = [*self._values.missing, *split_codes(facts.missing)]

    def body(self) -> tuple[dict[str, Any], list[str]]:
        kind = self._kind()
        body: dict[str, Any] = {} if kind is None else {"type": kind}
        if kind in {None, "number", "date"}:
            body |= self._bounds(kind)
        if kind == "number":
            body |= self._step() | self._special()
        elif kind == "date":
            body |= self._dates()
        elif kind == "category":
            body |= self._categories()
        elif kind == "yes_no":
            body |= self._yes_and_no()
        body |= self._description()
        if kind in {"number", "date", "category", "yes_no"}:
            body |= self._empty_cells(body)
        return body, self._left

    def _description(self) -> dict[str, Any]:
        """Return what the column means, on one line."""
        try:
            said = as_sentence(" ".join(self._facts.description.split()))
        except ValueError as problem:
            self._leave(f"its description {problem}")
            return {}
        return {"description": said} if said else {}

    def _leave(self, what: str) -> None:
        self._left.append(f"'{shown(self._facts.name)}': {what}")

    def _all_values(self) -> Values:
        """Return what is listed, in the long form or in a cell, and the range, wherever it is written."""
        facts = self._facts
        if facts.codes:
            kept = [pair for pair in facts.codes if pair[1] is None or not values_in(f"x={pair[1]}").missing]
            gone = [pair for pair in facts.codes if pair not in kept]
            listed = Values(tuple(kept), tuple(gone))
        else:
            listed = values_in(facts.values)
        if facts.labels and listed.codes and all(label is None for _, label in listed.codes):
            labels = [code for code, _ in values_in(facts.labels).codes]
            if len(labels) == len(listed.codes):
                pairs = zip((code for code, _ in listed.codes), labels, strict=True)
                listed = Values(tuple(pairs), listed.missing, listed.low, listed.high, listed.unread)
            else:
                self._leave(
                    f"it has {len(listed.codes):,} values and {len(labels):,} labels, so its labels are ignored."
                )
        within = values_in(facts.range)
        if listed.unread:
            self._leave(f"{listed.unread}. Write the values out, with semicolons between them.")
        if within.unread or within.codes:
            if not listed.codes and not within.unread:
                # Some codebooks write lists where others write ranges.
                listed = Values(within.codes, (*listed.missing, *within.missing), listed.low, listed.high)
            elif within.unread:
                self._leave(f"its range is not understood: {within.unread}. Write for example 0-120.")
        return Values(listed.codes, listed.missing, listed.low or within.low, listed.high or within.high, listed.unread)

    def _kind(self) -> str | None:
        """Return the type that is stated, or that follows from what is listed."""
        said, codes = self._facts.kind, self._values.codes
        kind = kind_called(said) if said else None
        if said and kind is None and folded(said.partition("(")[0]) not in UNDECIDED_KINDS:
            self._leave(f"the kind '{shown(said)}' is not known. Write number, category, yes/no, date or id.")
        labelled = [pair for pair in codes if pair[1] is not None]
        has_bounds = bool(self._low or self._high)
        if kind == "number" and codes and not has_bounds and (labelled or self._words_listed()):
            # Surveys store answers as numbers; what is listed with labels is a list of answers.
            return "yes_no" if self._yes_no_pair() else "category"
        if kind in {"identifier", "drop"}:
            return kind
        if kind is not None:
            return kind
        if codes and not has_bounds:
            return "yes_no" if self._yes_no_pair() else "category"
        if number_in(self._low) is not None and number_in(self._high) is not None:
            return "number"
        if _is_day(self._low) and _is_day(self._high):
            return "date"
        if said and folded(said.partition("(")[0]) in UNDECIDED_KINDS:
            self._leave(
                f"'{shown(said)}' only says how it is stored. Say whether it is a category, an id or free text."
            )
        return None

    def _words_listed(self) -> bool:
        return any(number_in(code) is None for code, _ in self._values.codes)

    @property
    def _low(self) -> str:
        return self._facts.low.strip() or self._values.low

    @property
    def _high(self) -> str:
        return self._facts.high.strip() or self._values.high

    def _bounds(self, kind: str | None) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, words, text in (("low", "lowest", self._low), ("high", "highest", self._high)):
            if not text:
                continue
            number = number_in(text)
            if kind == "date" or (kind is None and _is_day(text)):
                day = _day(text, last=key == "high")
                if day is None:
                    self._leave(f"its {words} value is not a date such as 2020-01-31.")
                else:
                    found[key] = day
            elif number is None:
                self._leave(f"its {words} value is not a number.")
            else:
                found[key] = number
        listed = self._all_numbers()
        if kind == "number" and not found and len(listed) > 1:
            # Every value is listed: the ends of the list are its bounds.
            found = {"low": listed[0], "high": listed[-1]}
        return found

    def _all_numbers(self) -> list[str]:
        """Return the values of a number in their order, if every one of them is listed."""
        numbers = [number_in(code) for code, label in self._values.codes if label is None]
        if self._low or self._high or len(numbers) < len(self._values.codes):
            return []
        known = {number for number in numbers if number is not None}
        return sorted(known, key=Decimal) if None not in numbers else []

    def _step(self) -> dict[str, Any]:
        facts = self._facts
        step = number_in(facts.step)
        if facts.step and step is None:
            self._leave("its step is not a number. Write for example 1 or 0.01.")
        elif step is not None:
            return {"step": step}
        decimals = facts.decimals.strip()
        if decimals.isdecimal() and len(decimals) < 3 and int(decimals) <= 12:
            return {"step": str(Decimal(1).scaleb(-int(decimals)).normalize())} if int(decimals) else {"step": "1"}
        listed = [Fraction(number) for number in self._all_numbers()]
        if len(listed) > 1:
            # The largest step that reaches all of them, which gives the fewest values.
            shared = _shared_step([value - listed[0] for value in listed[1:]])
            return {"step": f"{Decimal(shared.numerator) / Decimal(shared.denominator):f}"}
        return {"step": "1"} if is_whole(facts.kind) else {}

    def _special(self) -> dict[str, Any]:
        """Return numbers that keep a code of their own: those listed as special, next to a range, or for missing."""
        beside = list(self._values.codes) if self._values.low or self._facts.low else []
        listed = [*split_codes(self._facts.special), *beside, *self._missing]
        numbers = [number_in(code) for code, _ in listed]
        special = list(dict.fromkeys(number for number in numbers if number is not None))
        texts = [code for (code, _), number in zip(listed, numbers, strict=True) if number is None and code]
        if [code for code in texts if code not in {missing for missing, _ in self._missing}]:
            self._leave("one of its special values is not a number; cells that contain it count as unreadable.")
        return {"special": special} if special else {}

    def _dates(self) -> dict[str, Any]:
        facts, found = self._facts, {}
        step = _STEPS_OF_DATES.get(folded(facts.step))
        if facts.step and step is None:
            self._leave("its step is not day, month or year.")
        if step is not None:
            found["step"] = step
        pattern = _pattern_of(facts.format)
        if facts.format and pattern is None:
            self._leave(
                f"the format of its dates, '{shown(facts.format)}', is not understood. Write for example DD/MM/YYYY."
            )
        if pattern:
            found["pattern"] = pattern
        return found

    def _categories(self) -> dict[str, Any]:
        pairs = list(dict.fromkeys([*self._values.codes, *self._missing]))
        if not pairs and self._low and self._high:
            pairs = [(str(value), None) for value in _whole_values(self._low, self._high)]
        if not pairs:
            return {}
        labels = {code: label for code, label in pairs if label and label != code}
        if any(code == "" for code, _ in pairs):
            pairs = [pair for pair in pairs if pair[0]]
            labels.pop("", None)
        body: dict[str, Any] = {"values": [code for code, _ in pairs]}
        if len(set(labels.values())) < len(labels) or set(labels.values()) & {
            code for code in body["values"] if code not in labels
        }:
            self._leave("two of its values have the same label, so its labels are ignored.")
            labels = {}
        if labels:
            body["labels"] = labels
        if is_ordered(self._facts.kind):
            body["ordered"] = True
        if folded(self._facts.other) in YES_WORDS:
            body["other"] = True
        return body

    def _yes_and_no(self) -> dict[str, Any]:
        pair = self._yes_no_pair()
        if pair is None:
            if self._values.codes:
                self._leave("it is not clear which of its two values is yes and which is no.")
            return {}
        labels = {code: label for code, label in self._values.codes if label and label != code}
        return {"yes": pair[0], "no": pair[1]} | ({"labels": labels} if len(set(labels.values())) == 2 else {})

    def _yes_no_pair(self) -> tuple[str, str] | None:
        """Return the codes for yes and no, recognised by their labels or, without labels, by themselves."""
        codes = self._values.codes
        if len(codes) != 2 or self._missing:
            return None
        words = [_truth_word(code if label is None else label) for code, label in codes]
        for yes, no in ((0, 1), (1, 0)):
            if words[yes] in YES_WORDS and words[no] in NO_WORDS:
                return codes[yes][0], codes[no][0]
        return None

    def _empty_cells(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return what an empty or unreadable cell becomes, if the dictionary says so."""
        facts = self._facts
        if facts.fallback:
            return {"fallback": number_in(facts.fallback) if body["type"] == "number" else facts.fallback}
        if body["type"] in {"number", "category"} and self._missing:
            coded = [code for code, _ in self._missing if code]
            numbers = [number for code in coded if (number := number_in(code)) is not None]
            first = numbers[:1] if body["type"] == "number" else coded[:1]
            # Missing cells are written as the code for missing.
            return {"fallback": first[0]} if first else {"missing": True}
        if self._missing or folded(facts.empty) in YES_WORDS or (facts.required and folded(facts.required) in NO_WORDS):
            return {"missing": True}
        return {}


def _shared_step(distances: Sequence[Fraction]) -> Fraction:
    """Return the largest number of which all distances are multiples."""
    whole = math.lcm(*(one.denominator for one in distances))
    return Fraction(math.gcd(*(int(one * whole) for one in distances)), whole)


def _truth_word(text: str) -> str:
    """Return a word for yes or no as it is listed; 1.0 is 1."""
    number = number_in(text)
    return folded(text) if number is None else f"{float(number):g}"


def _is_day(text: str) -> bool:
    return _day(text) is not None and not text.strip().isdecimal()


def _day(text: str, *, last: bool = False) -> str | None:
    """Return an ISO date; a month or a year stands for its first day, or its last."""
    pieces = text.strip()[:10].split("-")
    try:
        year, month = int(pieces[0]), int(pieces[1]) if len(pieces) > 1 else 12 if last else 1
        day = int(pieces[2]) if len(pieces) > 2 else monthrange(year, month)[1] if last else 1
        return date(year, month, day).isoformat() if len(pieces[0]) == 4 else None
    except ValueError:
        return None


_MOST_IN_RANGE = 200


def _whole_values(low: str, high: str) -> list[int]:
    """Return the whole numbers of a short range, as the values of a category."""
    if not all(text.removeprefix("-").isdecimal() and len(text) < 10 for text in (low, high)):
        return []
    if not 0 < int(high) - int(low) < _MOST_IN_RANGE:
        return []
    return list(range(int(low), int(high) + 1))


_PATTERN_PIECES = (
    ("yyyy", "%Y"),
    ("jjjj", "%Y"),
    ("aaaa", "%Y"),
    ("mm", "%m"),
    ("dd", "%d"),
    ("tt", "%d"),
    ("jj", "%d"),
)


def _pattern_of(text: str) -> str | None:
    """Return a date's pattern as a configuration writes it, from DD/MM/YYYY or %d/%m/%Y; "" where it is ISO."""
    pattern = text.strip()
    if folded(pattern) in {"", "iso", "iso 8601", "default"}:
        return ""
    if "%" not in pattern:
        pattern = pattern.lower()
        for piece, directive in _PATTERN_PIECES:
            if directive not in pattern:
                pattern = pattern.replace(piece, directive, 1)
    if not {"%Y", "%m", "%d"} <= {pattern[place : place + 2] for place in range(len(pattern))}:
        return None
    return "" if pattern == "%Y-%m-%d" else pattern
