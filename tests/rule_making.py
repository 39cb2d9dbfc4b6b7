"""Random schemas, random rules as lines of text, and what each line means, worked out cell by cell and by hand."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from synth.schema import CategoryColumn, DateColumn, NumberColumn, Schema, YesNoColumn

Cell = Any
"""A number, a date, a text, or None for an empty cell."""

Means = Callable[[Mapping[str, Cell]], bool]


@dataclass(frozen=True)
class Made:
    """A line, and whether a row of cells keeps it."""

    text: str
    kept: Means


def made_schema(random: np.random.Generator) -> Schema:
    """Return a few columns of every kind."""
    words = ("low", "mid", "high", "top")
    columns: list[Any] = []
    for name in ("a", "b", "c"):
        low, step = float(random.integers(-5, 5)), float(random.choice([0.1, 0.5, 1, 2]))
        high = low + step * int(random.integers(1, 30))
        special = (99.0,) if random.random() < 0.3 else ()
        columns.append(NumberColumn(name, low, high, step, special=special, missing=bool(random.random() < 0.5)))
    for name in ("d", "e"):
        low = datetime.date(2020, 1, 1) + datetime.timedelta(days=int(random.integers(0, 60)))
        columns.append(DateColumn(name, low, low + datetime.timedelta(days=int(random.integers(1, 90))), missing=True))
    for name in ("k", "m", "o"):
        values = words[: int(random.integers(2, 5))]
        columns.append(
            CategoryColumn(
                name,
                values,
                other=bool(random.random() < 0.3),
                missing=bool(random.random() < 0.5),
                ordered=name == "o",
            )
        )
    columns.append(YesNoColumn("y", missing=bool(random.random() < 0.5)))
    return Schema(tuple(columns))


def cells_of(schema: Schema, codes: np.ndarray) -> list[dict[str, Cell]]:
    """Return rows as cells: numbers with the decimals that are printed, dates, texts."""
    columns = []
    for place, column in enumerate(schema.modelled):
        texts = column.texts(codes[:, place])
        if isinstance(column, NumberColumn):
            columns.append([None if text == "" else float(text) for text in texts])
        elif isinstance(column, DateColumn):
            columns.append([None if text == "" else datetime.date.fromisoformat(text) for text in texts])
        else:
            columns.append([text or None for text in texts])
    return [dict(zip(schema.names, row, strict=True)) for row in zip(*columns, strict=True)]


def made_rule(random: np.random.Generator, schema: Schema) -> Made:
    """Return a line of any form."""
    forms = [_order, _order, _difference, _sum, _implication, _implication, _implication, _exactly, _table, _few]
    return forms[random.integers(len(forms))](random, schema)


_COMPARED: dict[str, Callable[[Any, Any], bool]] = {
    ">=": lambda one, other: one >= other,
    ">": lambda one, other: one > other,
    "<=": lambda one, other: one <= other,
    "<": lambda one, other: one < other,
    "=": lambda one, other: one == other,
    "!=": lambda one, other: one != other,
}


def _near(compared: str, one: float, other: float, within: float = 0.0) -> bool:
    gap = round(one - other, 6)
    return abs(gap) <= within + 1e-6 if compared == "=" else _COMPARED[compared](gap, 0)


def _order(random: np.random.Generator, schema: Schema) -> Made:
    left, right = random.permutation(["a", "b", "c"] if random.random() < 0.6 else ["d", "e"])[:2]
    sign = str(random.choice([">=", ">", "<=", "<", "="]))

    def kept(row: Mapping[str, Cell]) -> bool:
        one, other = row[left], row[right]
        if one is None or other is None:
            return True
        return _near(sign, one, other) if isinstance(one, float) else _COMPARED[sign](one, other)

    return Made(f"{left} {sign} {right}", kept)


def _difference(random: np.random.Generator, schema: Schema) -> Made:
    left, right = random.permutation(["a", "b", "c"] if random.random() < 0.6 else ["d", "e"])[:2]
    sign, most = str(random.choice([">=", ">", "<=", "<"])), float(random.integers(-20, 20)) / 2

    def kept(row: Mapping[str, Cell]) -> bool:
        one, other = row[left], row[right]
        if one is None or other is None:
            return True
        return _near(sign, (one - other) if isinstance(one, float) else (one - other).days, most)

    return Made(f"{left} - {right} {sign} {most}", kept)


def _sum(random: np.random.Generator, schema: Schema) -> Made:
    left, first, second = random.permutation(["a", "b", "c"])
    sign = str(random.choice(["=", ">=", "<="]))
    within = schema[left].step / 2  # type: ignore[attr-defined]

    def kept(row: Mapping[str, Cell]) -> bool:
        cells = [row[name] for name in (left, first, second)]
        return None in cells or _near(sign, cells[0], cells[1] + cells[2], within)

    return Made(f"{left} {sign} {first} + {second}", kept)


def _value(random: np.random.Generator, schema: Schema, name: str) -> tuple[str, Cell]:
    column = schema.modelled_column(name)
    code = int(random.integers(column.size - column.missing))
    text = column.texts([code])[0]
    cell = cells_of(Schema((column,)), np.array([[code]]))[0][name]
    return text, cell


def _condition(random: np.random.Generator, schema: Schema) -> tuple[str, str, Callable[[Cell], bool], bool]:
    """Return a column, a text, what it means of a cell, and whether it is about empty cells."""
    name = str(random.choice(schema.names))
    column = schema.modelled_column(name)
    drawn = random.random()
    if column.missing and drawn < 0.2:
        negated = bool(random.random() < 0.5)
        text = f"{name} is not missing" if negated else f"{name} is missing"
        return name, text, lambda cell: (cell is None) != negated, True
    if drawn < 0.4:
        values = [_value(random, schema, name) for _ in range(int(random.integers(1, 4)))]
        negated = bool(random.random() < 0.3)
        cells = [cell for _, cell in values]
        listed = ", ".join(text for text, _ in values)
        word = "not in" if negated else "in"
        return name, f"{name} {word} ({listed})", lambda cell: cell is not None and (cell in cells) != negated, False
    text, wanted = _value(random, schema, name)
    signs = [">=", ">", "<=", "<", "=", "!="] if column.has_order and wanted in _ranked(column, wanted) else ["=", "!="]
    sign = str(random.choice(signs))

    def met(cell: Cell) -> bool:
        if cell is None:
            return False
        if isinstance(cell, float):
            return _near(sign, cell, wanted) if sign != "!=" else abs(cell - wanted) > 1e-6
        if isinstance(cell, str) and sign not in ("=", "!="):
            ranks = list(schema.modelled_column(name).declared_labels)
            return cell in ranks and _COMPARED[sign](ranks.index(cell), ranks.index(wanted))
        return _COMPARED[sign](cell, wanted)

    return name, f"{name} {sign} {text}", met, False


def _ranked(column: Any, wanted: Cell) -> Any:
    return column.declared_labels or [wanted]


def _implication(random: np.random.Generator, schema: Schema) -> Made:
    when = [_condition(random, schema) for _ in range(int(random.integers(1, 3)))]
    name, text, met, about_empty = _condition(random, schema)

    def kept(row: Mapping[str, Cell]) -> bool:
        if not all(one[2](row[one[0]]) for one in when):
            return True
        # "other" has no place in the order, so an order says nothing of it.
        unranked = row[name] == "other" and any(sign in text for sign in (" < ", " > ", " <= ", " >= "))
        return met(row[name]) or unranked or (row[name] is None and not about_empty)

    return Made(f"if {' and '.join(one[1] for one in when)} then {text}", kept)


def _exactly(random: np.random.Generator, schema: Schema) -> Made:
    empty = [column.name for column in schema.modelled if column.missing]
    gone = str(random.choice(empty))
    name, text, met, _ = _condition(random, schema)
    if name == gone:
        return _order(random, schema)
    return Made(f"{gone} is missing exactly when {text}", lambda row: (row[gone] is None) == met(row[name]))


def _table(random: np.random.Generator, schema: Schema) -> Made:
    source, target = random.permutation(["k", "m", "o", "y"])[:2]
    told = {}
    for _ in range(int(random.integers(1, 4))):
        (text, value), (of, wanted) = _value(random, schema, source), _value(random, schema, target)
        told[value] = (text, of, wanted)
    pairs = ", ".join(f"{text} = {of}" for text, of, _ in told.values())

    def kept(row: Mapping[str, Cell]) -> bool:
        found = told.get(row[source])
        return found is None or row[target] in (None, found[2])

    return Made(f"{source} determines {target} ({pairs})", kept)


def _few(random: np.random.Generator, schema: Schema) -> Made:
    name = str(random.choice(["a", "b", "c"]))
    values = [_value(random, schema, name) for _ in range(4)]
    cells = [cell for _, cell in values]
    return Made(
        f"{name} in ({', '.join(text for text, _ in values)})", lambda row: row[name] is None or row[name] in cells
    )
