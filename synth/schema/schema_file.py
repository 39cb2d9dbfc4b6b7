"""Columns as they are written in a configuration file, and back.

A value that reached us as a truth value was written unquoted (``yes``, ``no``, ``true``, ``false``): YAML 1.1 turns
those words into truth values, and guessing which word it was would publish a category nobody declared.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from synth.errors import SchemaError
from synth.limits import NUMBER_CHARACTERS
from synth.names import name_problem, shown
from synth.schema import (
    CategoryColumn,
    Column,
    DateColumn,
    DateStep,
    DropColumn,
    IdentifierColumn,
    NumberColumn,
    Weight,
    YesNoColumn,
)

__all__ = ["check_pattern", "column_to_mapping", "parse_column", "parse_date", "parse_number", "parse_text"]

Fields = dict[str, Any]

_Value = TypeVar("_Value")

_SOME_MOMENT = datetime.datetime(2001, 12, 28, 13, 14, 15, tzinfo=datetime.UTC)


def parse_column(name: str, declared: object) -> Column:
    """Read one column of the ``columns`` section.

    Parameters
    ----------
    name : str
        Name of the column, used in every message.
    declared : object
        What stands under that name: a mapping with a ``type`` and the keys of that type.

    Raises
    ------
    SchemaError
        If the type or a key is unknown, or a value cannot be used.
    """
    problem = name_problem(name)
    if problem is not None:
        raise SchemaError(problem)
    if not isinstance(declared, Mapping):
        raise SchemaError(f"'{shown(name)}' needs a mapping with its type, for example {{type: drop}}.")
    fields: Fields = dict(declared)
    kind = parse_text(f"'{shown(name)}': type", fields.pop("type", "missing"))
    reader = _READERS.get(kind)
    if reader is None:
        raise SchemaError(f"'{shown(name)}': type must be one of {', '.join(_READERS)}, got {shown(kind)}.")
    column = reader(name, fields)
    if fields:
        raise SchemaError(
            f"'{shown(name)}': unknown key '{shown(str(next(iter(fields))))}' for a column of type {kind}."
        )
    return column


def column_to_mapping(column: Column) -> dict[str, object]:
    """Write one column as :func:`parse_column` reads it; keys at their defaults are left out."""
    if isinstance(column, NumberColumn):
        body: dict[str, object] = {"type": "number", "low": column.low, "high": column.high, "step": column.step}
        if column.special:
            body["special"] = list(column.special)
    elif isinstance(column, CategoryColumn):
        body = {"type": "category", "values": list(column.values)}
        if column.other:
            body["other"] = True
        if column.aliases:
            body["aliases"] = dict(column.aliases)
    elif isinstance(column, YesNoColumn):
        body = {"type": "yes_no", "yes": column.yes, "no": column.no}
    elif isinstance(column, DateColumn):
        body = {
            "type": "date",
            "low": column.low.isoformat(),
            "high": column.high.isoformat(),
            "step": str(column.step),
        }
        if column.pattern is not None:
            body["pattern"] = column.pattern
    else:
        return {"type": "identifier" if isinstance(column, IdentifierColumn) else "drop"}
    if column.missing:
        body["missing"] = True
    if column.fallback is not None:
        body["fallback"] = (
            column.fallback.isoformat() if isinstance(column.fallback, datetime.date) else column.fallback
        )
    if column.weight is not Weight.NORMAL:
        body["weight"] = str(column.weight)
    return body


def parse_number(where: str, value: object) -> float:
    """Read a number such as 5, "0.5" or "1e-6", in time linear in its digits; ``where`` names it in the message."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise SchemaError(f"{where} must be a number.")
    if isinstance(value, str) and len(value) > NUMBER_CHARACTERS:
        raise SchemaError(f"{where} must be a number of at most {NUMBER_CHARACTERS:,} characters.")
    try:
        return float(value)
    except (ValueError, OverflowError):  # of text, and of a whole number beyond the largest float
        raise SchemaError(f"{where} must be a number.") from None


def parse_text(where: str, value: object) -> str:
    """Read a text or a number as a text; ``where`` names it in the message."""
    if isinstance(value, bool) or not isinstance(value, str | int | float | datetime.date):
        raise SchemaError(f"{where} must be a text. Put yes, no, true, false and null in quotes if you mean the word.")
    return str(value)


def parse_date(where: str, value: object) -> datetime.date:
    """Read an ISO date; ``where`` names it in the message."""
    if isinstance(value, datetime.date):
        return value
    try:
        return datetime.date.fromisoformat(parse_text(where, value))
    except (ValueError, SchemaError):
        raise SchemaError(f"{where} must be a date such as 2020-01-31.") from None


def check_pattern(name: str, pattern: str) -> str:
    """Return how the dates of a column are written, or refuse what could read no cell.

    Raises
    ------
    SchemaError
        If ``strptime`` does not know a directive, or one stands there twice.
    """
    try:
        datetime.datetime.strptime(_SOME_MOMENT.strftime(pattern), pattern)
    except Exception:  # a directive that stands there twice ends in an error of the regular expressions inside
        raise SchemaError(
            f"'{shown(name)}': the pattern '{shown(pattern)}' cannot be used; write it like %d/%m/%Y."
        ) from None
    return pattern


def _number(name: str, fields: Fields) -> NumberColumn:
    for key in ("low", "high"):
        if fields.get(key) is None:
            raise SchemaError(
                f"'{shown(name)}' needs a lowest and a highest value. Choose limits you would be happy to print, for "
                "example 0 and 500,000. Values outside are moved to the limit."
            )
    special = fields.pop("special", None) or ()
    if isinstance(special, str) or not isinstance(special, Sequence):
        raise SchemaError(f"'{shown(name)}': special must be a list of numbers, for example [0].")
    return NumberColumn(
        name,
        low=parse_number(f"'{shown(name)}': low", fields.pop("low")),
        high=parse_number(f"'{shown(name)}': high", fields.pop("high")),
        step=parse_number(f"'{shown(name)}': step", fields.pop("step", 1)),
        special=tuple(parse_number(f"'{shown(name)}': special", value) for value in special),
        fallback=_fallback(fields, lambda value: parse_number(f"'{shown(name)}': fallback", value)),
        missing=_flag(name, "missing", fields),
        weight=_weight(name, fields),
    )


def _category(name: str, fields: Fields) -> CategoryColumn:
    values = fields.pop("values", None)
    if isinstance(values, str | Mapping) or not isinstance(values, Sequence) or not values:
        raise SchemaError(f'\'{name}\' needs its categories as a list, for example values: ["low", "high"].')
    aliases = fields.pop("aliases", None) or {}
    if not isinstance(aliases, Mapping):
        raise SchemaError(f"'{shown(name)}': aliases must be a mapping from a spelling to a declared value.")
    return CategoryColumn(
        name,
        values=tuple(_text(name, value) for value in values),
        other=_flag(name, "other", fields),
        missing=_flag(name, "missing", fields),
        weight=_weight(name, fields),
        fallback=_fallback(fields, lambda value: _text(name, value)),
        aliases=tuple((_text(name, spelling), _text(name, value)) for spelling, value in aliases.items()),
    )


def _yes_no(name: str, fields: Fields) -> YesNoColumn:
    return YesNoColumn(
        name,
        yes=_text(name, fields.pop("yes", "yes")),
        no=_text(name, fields.pop("no", "no")),
        fallback=_fallback(fields, lambda value: _text(name, value)),
        missing=_flag(name, "missing", fields),
        weight=_weight(name, fields),
    )


def _date(name: str, fields: Fields) -> DateColumn:
    for key in ("low", "high"):
        if fields.get(key) is None:
            raise SchemaError(f"'{shown(name)}' needs an earliest and a latest date, for example low: 2020-01-01.")
    step = parse_text(f"'{shown(name)}': step", fields.pop("step", DateStep.DAY))
    if step not in {str(known) for known in DateStep}:
        raise SchemaError(f"'{shown(name)}': step must be day, month or year, got {shown(step)}.")
    pattern = fields.pop("pattern", None)
    return DateColumn(
        name,
        low=parse_date(f"'{shown(name)}': low", fields.pop("low")),
        high=parse_date(f"'{shown(name)}': high", fields.pop("high")),
        step=DateStep(step),
        fallback=_fallback(fields, lambda value: parse_date(f"'{shown(name)}': fallback", value)),
        missing=_flag(name, "missing", fields),
        weight=_weight(name, fields),
        pattern=None if pattern is None else check_pattern(name, parse_text(f"'{shown(name)}': pattern", pattern)),
    )


def _identifier(name: str, _: Fields) -> IdentifierColumn:
    return IdentifierColumn(name)


def _drop(name: str, _: Fields) -> DropColumn:
    return DropColumn(name)


_READERS: dict[str, Callable[[str, Fields], Column]] = {
    "number": _number,
    "category": _category,
    "yes_no": _yes_no,
    "date": _date,
    "identifier": _identifier,
    "drop": _drop,
}


def _text(name: str, value: object) -> str:
    if isinstance(value, bool):
        raise SchemaError(
            f'\'{name}\': yes, no, true and false must be in quotes, for example values: ["yes", "no"], '
            "because YAML reads the bare words as truth values."
        )
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if value is None or isinstance(value, Mapping | list | tuple):
        raise SchemaError(
            f"'{shown(name)}': every category must be a text or a number; put null in quotes if you mean it."
        )
    return str(value)


def _fallback(fields: Fields, read: Callable[[object], _Value]) -> _Value | None:
    value = fields.pop("fallback", None)
    return None if value is None else read(value)


def _flag(name: str, key: str, fields: Fields) -> bool:
    value = fields.pop(key, False)
    if not isinstance(value, bool):
        raise SchemaError(f"'{shown(name)}': {key} must be true or false.")
    return value


def _weight(name: str, fields: Fields) -> Weight:
    value = parse_text(f"'{shown(name)}': weight", fields.pop("weight", Weight.NORMAL))
    if value not in {str(known) for known in Weight}:
        raise SchemaError(f"'{shown(name)}': weight must be low, normal or high, got {shown(value)}.")
    return Weight(value)
