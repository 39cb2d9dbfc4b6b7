"""Public constraints between columns, the ``rules:`` of a configuration, kept by repairing synthetic rows.

That is post-processing of a release, so it costs nothing. A constraint is one line: ``end >= start``, ``age >= 18``,
``total = part_a + part_b``. Where a row breaks it, the column on the left moves to the nearest place of its declared
grid that keeps it; where there is none, the column on the right moves instead. Rows with a missing value in one of the
columns are left alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from synth.errors import ConfigError, SchemaError
from synth.names import shown
from synth.schema.columns import ModelledColumn
from synth.schema.schema import Schema

__all__ = ["Constraint", "parse_constraints", "repair"]

Relation = Literal[">=", ">", "<=", "<", "="]
FloatArray = npt.NDArray[np.float64]
CodeArray = npt.NDArray[np.int64]

_SIGNS: tuple[Relation, ...] = (">=", "<=", "==", "=", ">", "<")  # type: ignore[assignment]
_MIRROR: dict[Relation, Relation] = {">=": "<=", "<=": ">=", ">": "<", "<": ">", "=": "="}


@dataclass(frozen=True, slots=True)
class Constraint:
    """``left relation right``: right is a sum of columns, or a constant in the unit of the left column."""

    text: str
    left: str
    relation: Relation
    columns: tuple[str, ...] = ()
    constant: float | None = None


def parse_constraints(lines: Sequence[str], schema: Schema) -> tuple[Constraint, ...]:
    """Read the lines of ``rules:`` against the declared columns.

    Raises
    ------
    ConfigError
        If a line is not of a known form, names an unknown column, or compares what cannot be compared.
    """
    declared = {column.name: column for column in schema.modelled}
    return tuple(_parse(text, declared) for text in lines)


def repair(codes: CodeArray, constraints: Sequence[Constraint], schema: Schema) -> CodeArray:
    """Return the rows with every constraint kept where the declared grids allow it.

    Parameters
    ----------
    codes : int64 array of shape (rows, modelled columns)
        Synthetic codes; not changed.
    constraints : sequence of Constraint
        Applied in order, so a later one wins.
    schema : Schema
        Declares the columns in the order of ``codes``.
    """
    repaired = codes.copy()
    declared = {column.name: column for column in schema.modelled}
    for constraint in constraints:
        _repair_one(repaired, constraint, declared)
    return repaired


def _repair_one(codes: CodeArray, constraint: Constraint, declared: Mapping[str, ModelledColumn]) -> None:
    left = _ordered(constraint.left, declared)
    place_of = {name: place for place, name in enumerate(declared)}
    place = place_of[constraint.left]
    own = left.comparable_values()[codes[:, place]]
    target = np.full(len(codes), constraint.constant if constraint.constant is not None else 0.0)
    for name in constraint.columns:
        target += _ordered(name, declared).comparable_values()[codes[:, place_of[name]]]
    broken = ~_holds(own, target, constraint.relation) & np.isfinite(own) & np.isfinite(target)
    if not broken.any():
        return
    codes[broken, place] = _nearest(left, target[broken], constraint.relation)
    if len(constraint.columns) == 1:
        _move_right(codes, constraint, declared, broken)


def _move_right(
    codes: CodeArray, constraint: Constraint, declared: Mapping[str, ModelledColumn], broken: npt.NDArray[np.bool_]
) -> None:
    """Move the other column where the left one had no place that keeps the constraint."""
    right = _ordered(constraint.columns[0], declared)
    place_of = {name: place for place, name in enumerate(declared)}
    place = place_of[constraint.columns[0]]
    own = _ordered(constraint.left, declared).comparable_values()[codes[:, place_of[constraint.left]]]
    still = broken & ~_holds(own, right.comparable_values()[codes[:, place]], constraint.relation)
    codes[still, place] = _nearest(right, own[still], _MIRROR[constraint.relation])


def _parse(text: str, declared: Mapping[str, ModelledColumn]) -> Constraint:
    """Read one constraint: what stands before its first sign, the sign, and what stands behind it."""
    place = min((found for sign in "<>=" if (found := text.find(sign)) >= 0), default=-1)
    sign = next((sign for sign in _SIGNS if text.startswith(sign, max(place, 0))), "")
    name, right = text[: max(place, 0)].strip(), text[place + len(sign) :].strip()
    if not (name and sign and right):
        raise ConfigError(f"rules: '{shown(text)}' is not a rule. Write for example 'end >= start' or 'total = a + b'.")
    relation: Relation = "=" if sign == "==" else sign  # type: ignore[assignment]
    left = _ordered(name, declared, line=text)
    parts = [part.strip() for part in right.split("+")]
    if right in declared:
        columns: tuple[str, ...] = (right,)
    elif len(parts) > 1 and all(part in declared for part in parts):
        columns = tuple(parts)
    else:
        return Constraint(text, left.name, relation, constant=_constant(right, left, text))
    kinds = {_ordered(name, declared, line=text).kind for name in columns}
    if kinds != {left.kind} or (len(columns) > 1 and not left.is_summable):
        raise ConfigError(f"rules: '{shown(text)}' compares numbers with dates. Compare columns of one kind.")
    if left.name in columns:
        raise ConfigError(f"rules: '{shown(text)}' has the same column on both sides.")
    return Constraint(text, left.name, relation, columns=columns)


def _constant(text: str, column: ModelledColumn, line: str) -> float:
    try:
        return column.comparable(text)
    except SchemaError:
        raise ConfigError(f"rules: '{shown(line)}' names neither a declared column nor a value on its right.") from None


def _ordered(name: str, declared: Mapping[str, ModelledColumn], *, line: str = "") -> ModelledColumn:
    column = declared.get(name)
    if column is None:
        raise ConfigError(f"rules: '{shown(line)}' names '{shown(name)}', which is not a declared column with values.")
    if not column.is_ordered:
        raise ConfigError(
            f"rules: '{shown(line)}' compares '{shown(name)}', which has no order. Use numbers and dates."
        )
    return column


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


def _nearest(column: ModelledColumn, target: FloatArray, relation: Relation) -> CodeArray:
    """Grid code nearest to ``target`` that stands in ``relation`` to it, or the nearest end of the grid."""
    grid = column.grid()
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
