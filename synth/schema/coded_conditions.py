"""Which of some coded rows a condition holds for: estimates from a bundle are about rows that are codes already."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from synth.errors import ConfigError, SchemaError
from synth.schema.columns.base import ModelledColumn
from synth.schema.conditions import SIGNS, Among, Between, Compared, Condition, Joined, Name, Not, Null

__all__ = ["holds"]

Vector = NDArray[np.float64]
Flags = NDArray[np.bool_]
Codes = NDArray[np.int64]


def holds(found: Condition, columns: Mapping[str, ModelledColumn], codes: Mapping[str, Codes]) -> tuple[Flags, Flags]:
    """Return for which coded rows a condition holds, and for which it does not; a missing cell is neither.

    Parameters
    ----------
    found : Condition
    columns : mapping of str to ModelledColumn
    codes : mapping of str to array of shape (rows,)

    Raises
    ------
    ConfigError
        If a column cannot be compared like that.
    """
    if isinstance(found, Joined):
        parts = [holds(one, columns, codes) for one in found.parts]
        every, some = np.logical_and.reduce, np.logical_or.reduce
        if found.word == "OR":
            every, some = some, every
        return every([one for one, _ in parts]), some([one for _, one in parts])
    if isinstance(found, Not):
        yes, no = holds(found.inner, columns, codes)
        return no, yes
    column = columns[found.left.column]
    own = codes[found.left.column]
    missing = own == column.missing_code if column.missing_code is not None else np.zeros(len(own), bool)
    if isinstance(found, Null):
        return missing, ~missing
    if isinstance(found, Compared) and isinstance(found.right, Name):
        other = columns[found.right.column]
        if not column.levels or not other.levels:
            raise ConfigError("Two columns can be compared only if both are numbers, or both are dates.")
        left, right = column.comparable_at(own), other.comparable_at(codes[found.right.column])
        known = np.isfinite(left) & np.isfinite(right)
        yes = _compared(left, found.sign, right) & known
        return yes, known & ~yes
    if isinstance(found, Compared):
        holding = _flags(column, own, found.sign, found.right)
    elif isinstance(found, Among):
        holding = np.any([_flags(column, own, "=", one) for one in found.constants], axis=0)
    elif isinstance(found, Between):
        holding = _flags(column, own, ">=", found.low) & _flags(column, own, "<=", found.high)
    else:
        raise ConfigError("LIKE is not supported in estimates. Name the values: COLUMN IN ('one', 'another').")
    yes = holding & ~missing
    return yes, ~yes & ~missing


def _flags(column: ModelledColumn, codes: Codes, sign: str, constant: object) -> Flags:
    """Return for which codes of a column the value compares like this with a constant."""
    if column.levels:
        try:
            return _compared(column.comparable_at(codes), sign, column.comparable(str(constant)))
        except SchemaError as error:
            raise ConfigError(f"'{column.name}' is compared with a value it cannot have: {error}") from None
    if sign not in ("=", "<>"):
        raise ConfigError(f"The values of '{column.name}' have no order. Use = or IN.")
    text = str(constant)
    if isinstance(constant, bool) and column.kind == "yes_no":
        text = column.texts([int(constant)])[0]
    texts = column.texts()
    if text not in texts:
        raise ConfigError(f"'{column.name}' has no value '{text}'. Its values: {', '.join(texts[:10])}.")
    same = np.array([one == text for one in texts])[codes]
    return same if sign == "=" else ~same


def _compared(left: Vector, sign: str, right: Vector | float) -> Flags:
    with np.errstate(invalid="ignore"):
        return np.asarray(SIGNS[sign](left, right), dtype=bool)
