"""Codebooks that are tables: one line for each column, or one line for each value of a column."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields
from typing import NamedTuple

from synth.dictionaries.understanding import Dictionary, DictionaryColumn, Facts, understand
from synth.dictionaries.words import fact_called, kind_called
from synth.errors import ConfigError, TableError
from synth.limits import DOCUMENT_NODES, TEXT_CHARACTERS
from synth.names import shown
from synth.reading.more.workbooks import sheet_rows

__all__ = ["dictionary_of_text", "dictionary_of_workbook"]

ORDER = ("name", "kind", "low", "high", "step", "values", "empty", "other", "fallback", "special")
"""What the cells of a line mean without a header: the order of the table on the screen."""

_LOOKED_AT = 20
"""Lines at the top that are searched for the header of the dictionary."""

_SEPARATORS = "\t;,|"

_NO_HEADER = (
    "No line of this dictionary says what its columns hold. Write a first line such as: name, type, lowest, highest, "
    "step, values, missing codes."
)
_TOO_MANY = f"The dictionary has more than {DOCUMENT_NODES:,} cells. Keep only the lines about this table."
_TOO_MANY_CELLS = (
    "its line has more cells than the header, so it is ignored. Put quotation marks around a list that contains the "
    "separator."
)
_Lines = list[list[str]]


def dictionary_of_text(name: str, data: bytes, names: Sequence[str]) -> Dictionary:
    """Read a codebook that is CSV, TSV or text from a spreadsheet."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        # Unlike a table, a codebook is public, so an encoding may be tried: that of Western office programs.
        text = data.decode("cp1252", "replace")
    return _dictionary(_lines_of(text), "a table of columns", names)


def dictionary_of_workbook(name: str, data: bytes, names: Sequence[str]) -> Dictionary:
    """Read a codebook that is a workbook; each of several sheets may fill what those before it leave open."""
    try:
        return _dictionary(_lines_of_sheet(data, None), _IN_A_WORKBOOK, names)
    except TableError as several:
        if several.key != "sheet":
            raise
        sheets = several.choices
    read: list[_Read] = []
    left: list[str] = []
    for sheet in sheets[:_MOST_SHEETS]:
        try:
            read.append(_read(_lines_of_sheet(data, sheet), names))
        except ConfigError:
            left.append(f"Its sheet '{shown(sheet)}' describes no columns.")
    if not read:
        raise ConfigError(_NO_HEADER)
    merged: dict[str, Facts] = {}
    for one in read:
        for facts in one.facts:
            _fill(merged.setdefault(facts.name, Facts(facts.name)), facts)
    broken = set[str]().union(*(one.broken for one in read))
    left = list(dict.fromkeys([*(line for one in read for line in one.left), *left]))
    return _understood(_Read(list(merged.values()), broken, left), _IN_A_WORKBOOK)


def _fill(facts: Facts, more: Facts) -> None:
    """Add what another sheet says about a column, where nothing was said yet; values come with their labels."""
    lists_values = bool(facts.values or facts.codes)
    _add(facts, {fact: getattr(more, fact) for fact in _KEPT - (_OF_VALUES if lists_values else set())})
    if not lists_values:
        facts.codes = list(more.codes)


def _add(facts: Facts, said: Mapping[str, str]) -> None:
    """Add what is said about a column, where nothing was said yet."""
    for fact, text in said.items():
        if not getattr(facts, fact):
            setattr(facts, fact, text)


_MOST_SHEETS = 20
"""Sheets that are read, from the first."""

_IN_A_WORKBOOK = "a table of columns in a workbook"
_OF_VALUES = {"values", "labels"}


def _lines_of_sheet(data: bytes, sheet: str | None) -> _Lines:
    lines: _Lines = []
    cells = 0
    for row in sheet_rows(io.BytesIO(data), sheet):
        # Counted while it is unpacked: a small file may hold a large sheet.
        cells += len(row)
        if cells > DOCUMENT_NODES:
            raise ConfigError(_TOO_MANY)
        lines.append([cell or "" for cell in row])
    return lines


def _lines_of(text: str) -> _Lines:
    """Split a text at the separator that makes one of the first lines a header."""
    found: list[tuple[int, _Lines]] = []
    for separator in _SEPARATORS:
        with suppress(csv.Error):
            lines = list(csv.reader(io.StringIO(text, newline=""), delimiter=separator, skipinitialspace=True))
            found.append((max((_known(line) for line in lines[:_LOOKED_AT]), default=0), lines))
    best = max((known for known, _ in found), default=0)
    if not found:
        raise ConfigError("The dictionary is not a table: a quotation mark is never closed, or a cell is too long.")
    if best > 1:
        return next(lines for known, lines in found if known == best)
    return max((lines for _, lines in found), key=lambda lines: max(map(len, lines), default=0))


def _known(line: Sequence[str]) -> int:
    """Return how many cells of a line are known headings of a codebook; 0 without a column for names."""
    facts = [fact_called(cell) for cell in line]
    return len({fact for fact in facts if fact is not None}) if "name" in facts else 0


class _Read(NamedTuple):
    """What one table says: facts about columns, names whose lines are too long, and what is not used."""

    facts: list[Facts]
    broken: set[str]
    left: list[str]


def _dictionary(lines: _Lines, kind: str, names: Sequence[str]) -> Dictionary:
    return _understood(_read(lines, names), kind)


def _read(lines: _Lines, names: Sequence[str]) -> _Read:
    if sum(map(len, lines)) > DOCUMENT_NODES:
        raise ConfigError(_TOO_MANY)
    if any(len(cell) > TEXT_CHARACTERS for line in lines for cell in line):
        raise ConfigError(f"A cell of the dictionary has more than {TEXT_CHARACTERS:,} characters. Make it shorter.")
    place, header = _header(lines, names)
    used, unknown = _columns_of(header)
    found, broken = _facts_of(lines[place:], used, len(header))
    return _Read(found, broken, [f"Its column '{shown(cell)}' is not used." for cell in unknown])


def _understood(read: _Read, kind: str) -> Dictionary:
    columns = [
        DictionaryColumn(facts.name, {}, (f"'{shown(facts.name)}': {_TOO_MANY_CELLS}",))
        if facts.name in read.broken
        else understand(facts)
        for facts in read.facts
    ]
    return Dictionary(kind, tuple(columns), tuple(read.left))


def _header(lines: _Lines, names: Sequence[str]) -> tuple[int, list[str]]:
    """Return where the lines about columns begin, and the headings of their cells."""
    top = [_known(line) for line in lines[:_LOOKED_AT]]
    if top and max(top) > 1:
        place = top.index(max(top))
        return place + 1, lines[place]
    known = set(names)
    filled = [line for line in lines if any(cell.strip() for cell in line)]
    if filled and sum(line[0].strip() in known for line in filled) * 2 > len(filled):
        return 0, list(ORDER)
    raise ConfigError(_NO_HEADER)


def _columns_of(header: Sequence[str]) -> tuple[dict[int, str], list[str]]:
    """Return what each column of the dictionary says, and the unknown headings."""
    used: dict[int, str] = {}
    unknown = []
    for place, cell in enumerate(header):
        fact = fact_called(cell)
        if fact is None or (fact in used.values() and fact not in _SAID_TWICE):
            if cell.strip():
                unknown.append(cell)
        else:
            used[place] = fact
    if "values" not in used.values() and "description" not in used.values():
        # Without values, "label" is a description of the column.
        used = {place: "description" if fact == "labels" else fact for place, fact in used.items()}
    return used, unknown


_SAID_TWICE = {"values", "description"}
_KEPT = {one.name for one in fields(Facts)} - {"name", "codes"}


def _facts_of(lines: Iterable[Sequence[str]], used: dict[int, str], width: int) -> tuple[list[Facts], set[str]]:
    """Combine the lines of each column, one or one for each value, and list columns whose lines are too long."""
    broken: set[str] = set()
    found: dict[str, Facts] = {}
    every: dict[str, list[dict[str, str]]] = {}
    name = ""
    for line in lines:
        said: dict[str, str] = {}
        for place, fact in used.items():
            cell = line[place].strip() if place < len(line) else ""
            if cell and fact not in said:
                said[fact] = cell
        # In the long form, only the first line of a block has the name.
        name = said.get("name", name if "values" in said else "")
        if name:
            every.setdefault(name, []).append(said)
            if any(cell.strip() for cell in line[width:]):
                broken.add(name)
    for name, block in every.items():
        facts = found[name] = Facts(name)
        for said in block:
            _add(facts, {fact: said[fact] for fact in _KEPT & said.keys()})
        if len(block) > 1:
            _take_codes(facts, block)
        elif facts.labels and not facts.values:
            facts.labels = ""
    return list(found.values()), broken


def _take_codes(facts: Facts, block: Sequence[dict[str, str]]) -> None:
    """Read each line of a block as one value."""
    facts.values = facts.labels = ""
    listed = [said for said in block if "values" in said]
    described = all("description" in said for said in listed) and len({said.get("description") for said in listed}) > 1
    label = "labels" if any("labels" in said for said in listed) else "description" if described else ""
    facts.codes = [(said["values"], said.get(label)) for said in listed]
    if label == "description":  # of its values, not of the column
        facts.description = ""
    if len(facts.codes) == 1:
        facts.values, facts.codes = facts.codes[0][0], []
    kinds = [said["kind"] for said in block if kind_called(said.get("kind", ""))]
    facts.kind = kinds[0] if kinds else facts.kind
