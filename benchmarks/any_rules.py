"""Rules between drawn columns, one of every form of the language; a few of them can never be kept, or say nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from any_columns import Draw, Drawn

from synth.schema.rules import quoted


def drawn_rules(draw: Draw, columns: Sequence[Drawn], most: int) -> list[str]:
    """Return a few rules about these columns."""
    lines = (form(draw, columns) for form in draw.some(_FORMS, draw.whole(1, most)))
    return [line for line in lines if line]


def _of(draw: Draw, columns: Sequence[Drawn], wanted: Callable[[Drawn], bool], count: int = 1) -> list[Drawn]:
    found = draw.some([column for column in columns if wanted(column)], count)
    return found if len(found) == count else []


def _is_number(column: Drawn) -> bool:
    return column.kind == "number"


def _is_listed(column: Drawn) -> bool:
    return column.kind in {"category", "yes_no"} and column.size > 1


def _has_grid(column: Drawn) -> bool:
    return column.kind in {"number", "date", "time"} and len(column.values) > 1


def _value(draw: Draw, column: Drawn) -> str:
    return quoted(draw.one(column.values))


def _bound(draw: Draw, columns: Sequence[Drawn]) -> str:
    for column in _of(draw, columns, _has_grid):
        sign, value = (">=", column.values[1]) if draw.chance(0.5) else ("<", column.values[-1])
        return f"{quoted(column.name)} {sign} {quoted(value)}"
    return ""


def _among(draw: Draw, columns: Sequence[Drawn]) -> str:
    for column in _of(draw, columns, _is_listed):
        listed = draw.some(column.values, draw.whole(1, max(1, min(4, len(column.values) - 1))))
        word = draw.one(("in", "not in"))
        return f"{quoted(column.name)} {word} ({', '.join(map(quoted, listed))})"
    return ""


def _order(draw: Draw, columns: Sequence[Drawn]) -> str:
    kind = draw.one(("number", "date", "time"))
    pair = _of(draw, columns, lambda column: column.kind == kind, 2)
    return f" {draw.one(('<=', '>=', '<'))} ".join(quoted(column.name) for column in pair)


def _sum(draw: Draw, columns: Sequence[Drawn]) -> str:
    total, *parts = _of(draw, columns, _is_number, 3) or [None]
    return "" if total is None else f"{quoted(total.name)} = {' + '.join(quoted(part.name) for part in parts)}"


def _consequence(draw: Draw, columns: Sequence[Drawn]) -> str:
    pair = _of(draw, columns, lambda column: _is_listed(column) or _has_grid(column), 2)
    if not pair:
        return ""
    cause, effect = pair
    when = f"{quoted(cause.name)} = {_value(draw, cause)}"
    if _has_grid(cause) and draw.chance(0.7):
        when = f"{quoted(cause.name)} < {quoted(cause.values[-1])}"
    then = f"{quoted(effect.name)} = {_value(draw, effect)}"
    if effect.may_be_empty and draw.chance(0.5):
        then = f"{quoted(effect.name)} is {draw.one(('missing', 'not missing'))}"
    elif _has_grid(effect):
        then = f"{quoted(effect.name)} >= {quoted(effect.values[1])}"
    return f"if {when} then {then}"


def _gone(draw: Draw, columns: Sequence[Drawn]) -> str:
    gone = _of(draw, columns, lambda column: column.may_be_empty)
    told = _of(draw, columns, lambda column: _is_listed(column) and column not in gone)
    if not (gone and told):
        return ""
    return f"{quoted(gone[0].name)} is missing exactly when {quoted(told[0].name)} = {_value(draw, told[0])}"


def _determined(draw: Draw, columns: Sequence[Drawn]) -> str:
    pair = _of(draw, columns, _is_listed, 2)
    if not pair:
        return ""
    known, told = pair
    pairs = [f"{quoted(value)} = {_value(draw, told)}" for value in known.values[:40]]
    return f"{quoted(known.name)} determines {quoted(told.name)} ({', '.join(pairs)})"


def _learnt(draw: Draw, columns: Sequence[Drawn]) -> str:
    return " determines ".join(quoted(column.name) for column in _of(draw, columns, _is_listed, 2))


def _multiple(draw: Draw, columns: Sequence[Drawn]) -> str:
    for column in _of(draw, columns, _is_number):
        return f"{quoted(column.name)} is a multiple of {column.declared['step'] * draw.one((2, 5, 10)):g}"
    return ""


def _heap(draw: Draw, columns: Sequence[Drawn]) -> str:
    line = _multiple(draw, columns)
    return f"{line} in {draw.whole(1, 100)} % of rows" if line else ""


_FORMS = (
    _bound, _bound, _among, _order, _sum, _consequence, _consequence, _gone, _determined, _learnt, _multiple, _heap,
)  # fmt: skip
