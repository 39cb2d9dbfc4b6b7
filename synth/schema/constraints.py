"""Public rules between columns, kept by repairing synthetic rows: post-processing of a release, so it costs nothing.

A rule is one line: ``end >= start``, ``age >= 18``, ``total = part_a + part_b``. Where a row breaks it, the column on
the left moves to the nearest place of its declared grid that keeps it; where there is none, the column on the right
moves instead. Rows with a missing value in one of the columns are left alone.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from synth.errors import ConfigError, SchemaError
from synth.names import shown
from synth.schema import DateColumn, DateStep, ModelledColumn, NumberColumn, Schema
from synth.schema.schema_file import parse_date, parse_number

__all__ = ["Rule", "parse_rules", "repair"]

Relation = Literal[">=", ">", "<=", "<", "="]
FloatArray = npt.NDArray[np.float64]
CodeArray = npt.NDArray[np.int64]

_SIGNS: tuple[Relation, ...] = (">=", "<=", "==", "=", ">", "<")  # type: ignore[assignment]
_MIRROR: dict[Relation, Relation] = {">=": "<=", "<=": ">=", ">": "<", "<": ">", "=": "="}


@dataclass(frozen=True, slots=True)
class Rule:
    """``left relation right``: right is a sum of columns, or a constant in the unit of the left column."""

    text: str
    left: str
    relation: Relation
    columns: tuple[str, ...] = ()
    constant: float | None = None


def parse_rules(rules: Sequence[str], schema: Schema) -> tuple[Rule, ...]:
    """Read rules against the declared columns.

    Raises
    ------
    ConfigError
        If a rule is not of a known form, names an unknown column, or compares what cannot be compared.
    """
    declared = {column.name: column for column in schema.modelled}
    return tuple(_parse(text, declared) for text in rules)


def repair(codes: CodeArray, rules: Sequence[Rule], schema: Schema) -> CodeArray:
    """Return the rows with every rule kept where the declared grids allow it.

    Parameters
    ----------
    codes : int64 array of shape (rows, modelled columns)
        Synthetic codes; not changed.
    rules : sequence of Rule
        Applied in order, so a later rule wins.
    schema : Schema
        Declares the columns in the order of ``codes``.
    """
    repaired = codes.copy()
    declared = {column.name: column for column in schema.modelled}
    for rule in rules:
        _repair_one(repaired, rule, declared)
    return repaired


def _repair_one(codes: CodeArray, rule: Rule, declared: Mapping[str, ModelledColumn]) -> None:
    left = _ordered(rule.left, declared)
    place_of = {name: place for place, name in enumerate(declared)}
    place = place_of[rule.left]
    own = _values(left, codes[:, place])
    target = np.full(len(codes), rule.constant if rule.constant is not None else 0.0)
    for name in rule.columns:
        target += _values(_ordered(name, declared), codes[:, place_of[name]])
    broken = ~_holds(own, target, rule.relation) & np.isfinite(own) & np.isfinite(target)
    if not broken.any():
        return
    codes[broken, place] = _nearest(left, target[broken], rule.relation)
    if len(rule.columns) == 1:
        _move_right(codes, rule, declared, broken)


def _move_right(
    codes: CodeArray, rule: Rule, declared: Mapping[str, ModelledColumn], broken: npt.NDArray[np.bool_]
) -> None:
    """Move the other column where the left one had no place that keeps the rule."""
    right = _ordered(rule.columns[0], declared)
    place_of = {name: place for place, name in enumerate(declared)}
    place = place_of[rule.columns[0]]
    own = _values(_ordered(rule.left, declared), codes[:, place_of[rule.left]])
    still = broken & ~_holds(own, _values(right, codes[:, place]), rule.relation)
    codes[still, place] = _nearest(right, own[still], _MIRROR[rule.relation])


def _parse(text: str, declared: Mapping[str, ModelledColumn]) -> Rule:
    """Read one rule: what stands before its first sign, the sign, and what stands behind it."""
    place = min((found for sign in "<>=" if (found := text.find(sign)) >= 0), default=-1)
    sign = next((sign for sign in _SIGNS if text.startswith(sign, max(place, 0))), "")
    name, right = text[: max(place, 0)].strip(), text[place + len(sign) :].strip()
    if not (name and sign and right):
        raise ConfigError(f"rules: '{shown(text)}' is not a rule. Write for example 'end >= start' or 'total = a + b'.")
    relation: Relation = "=" if sign == "==" else sign  # type: ignore[assignment]
    left = _ordered(name, declared, rule=text)
    parts = [part.strip() for part in right.split("+")]
    if right in declared:
        columns: tuple[str, ...] = (right,)
    elif len(parts) > 1 and all(part in declared for part in parts):
        columns = tuple(parts)
    else:
        return Rule(text, left.name, relation, constant=_constant(right, left, text))
    kinds = {type(_ordered(name, declared, rule=text)) for name in columns}
    if kinds != {type(left)} or (isinstance(left, DateColumn) and len(columns) > 1):
        raise ConfigError(f"rules: '{shown(text)}' compares numbers with dates. Compare columns of one kind.")
    if left.name in columns:
        raise ConfigError(f"rules: '{shown(text)}' has the same column on both sides.")
    return Rule(text, left.name, relation, columns=columns)


def _constant(text: str, column: NumberColumn | DateColumn, rule: str) -> float:
    try:
        return float(
            parse_date("a rule", text).toordinal() if isinstance(column, DateColumn) else parse_number("a rule", text)
        )
    except SchemaError:
        raise ConfigError(f"rules: '{shown(rule)}' names neither a declared column nor a value on its right.") from None


def _ordered(name: str, declared: Mapping[str, ModelledColumn], *, rule: str = "") -> NumberColumn | DateColumn:
    column = declared.get(name)
    if column is None:
        raise ConfigError(f"rules: '{shown(rule)}' names '{shown(name)}', which is not a declared column with values.")
    if not isinstance(column, NumberColumn | DateColumn):
        raise ConfigError(
            f"rules: '{shown(rule)}' compares '{shown(name)}', which has no order. Use numbers and dates."
        )
    return column


def _grid(column: NumberColumn | DateColumn) -> FloatArray:
    """Value of every grid code: the number itself, or the day's ordinal."""
    if isinstance(column, NumberColumn):
        return np.asarray(column.low + column.step * np.arange(column.levels, dtype=np.float64))
    first = column.low.toordinal()
    if column.step is DateStep.DAY:
        return np.arange(first, first + column.levels, dtype=np.float64)
    months = np.arange(column.levels) * (12 if column.step is DateStep.YEAR else 1)
    start = np.datetime64(column.low, "Y" if column.step is DateStep.YEAR else "M").astype("datetime64[M]")
    days = (start + months).astype("datetime64[D]").astype(np.int64) + datetime.date(1970, 1, 1).toordinal()
    return np.asarray(np.maximum(days, first), dtype=np.float64)


def _values(column: NumberColumn | DateColumn, codes: CodeArray) -> FloatArray:
    """Value of every row, NaN where it is missing."""
    special = np.asarray(column.special if isinstance(column, NumberColumn) else (), dtype=np.float64)
    table = np.concatenate([_grid(column), special, [np.nan] if column.missing else []])
    return np.asarray(table[codes])


def _holds(left: FloatArray, right: FloatArray, relation: Relation) -> npt.NDArray[np.bool_]:
    # Grid values are sums in floating point: 0.1 + 0.2 has to equal 0.3 here.
    gap = left - right
    slack = 1e-9 * np.maximum(1.0, np.abs(right))
    checks = {
        ">=": gap >= -slack,
        ">": gap > slack,
        "<=": gap <= slack,
        "<": gap < -slack,
        "=": np.abs(gap) <= slack,
    }
    return np.asarray(checks[relation])


def _nearest(column: NumberColumn | DateColumn, target: FloatArray, relation: Relation) -> CodeArray:
    """Grid code nearest to ``target`` that stands in ``relation`` to it, or the nearest end of the grid."""
    grid = _grid(column)
    slack = 1e-9 * np.maximum(1.0, np.abs(target))
    if relation == ">=":
        code = np.searchsorted(grid, target - slack, side="left")
    elif relation == ">":
        code = np.searchsorted(grid, target + slack, side="right")
    elif relation == "<=":
        code = np.searchsorted(grid, target + slack, side="right") - 1
    elif relation == "<":
        code = np.searchsorted(grid, target - slack, side="left") - 1
    else:
        after = np.clip(np.searchsorted(grid, target, side="left"), 1, max(len(grid) - 1, 1))
        after = np.minimum(after, len(grid) - 1)
        before = np.maximum(after - 1, 0)
        code = np.where(np.abs(grid[after] - target) < np.abs(grid[before] - target), after, before)
    return np.clip(code, 0, len(grid) - 1).astype(np.int64)
