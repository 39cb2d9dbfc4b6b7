"""What kind of column each column of a file might be: from its name or type (public), or from its cells (a look).

A guess is a word. No value, bound or category of the table is part of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from synth.names import words_of
from synth.reading.batches import Batches
from synth.reading.pipes import Request
from synth.schema.encoding import NO_DAY, days_of_texts, is_date, is_number, numbers_of_texts, texts_of

__all__ = ["ColumnKind", "SeenColumns", "describe_columns", "kind_by_name"]

ColumnKind = Literal["number", "category", "yes_no", "date", "identifier", "drop"]

LOOKED_AT = 10_000
"""Rows at the top of a text that a guess is made from."""

_IDENTIFIES = {
    "id", "ids", "uuid", "guid", "key", "nr", "nbr", "ssn", "nhs", "mrn", "passport", "email", "phone", "name",
    "firstname", "surname",
}  # fmt: skip
_PERSON_NAMES = tuple(
    f"{who}{between}name" for who in ("first", "last", "full", "sur", "user") for between in ("", "_")
)
_FREE_TEXT = {
    "note", "notes", "comment", "comments", "text", "description", "remark", "remarks", "address",
}  # fmt: skip
_DATES = {"date", "day", "dob", "birthday", "birthdate", "timestamp", "datetime"}
_SCALES = {
    "age", "year", "years", "amount", "income", "salary", "price", "cost", "count", "number", "num", "height", "weight",
    "bmi", "score", "hour", "hours", "days", "months", "percent", "rate", "gain", "loss", "total", "size", "length",
    "temperature", "duration",
}  # fmt: skip
_CLASSES = {
    "sex", "gender", "race", "ethnicity", "region", "country", "state", "city", "job", "occupation", "education",
    "status", "type", "class", "category", "group", "level", "band", "label", "outcome", "code",
}  # fmt: skip
_TRUTH_WORDS = {"yes", "no", "true", "false", "y", "n", "t", "f"}


def kind_by_name(name: str) -> ColumnKind | None:
    """Guess a column's kind from its name alone; None where the name says nothing."""
    words = words_of(name)
    if not words:
        return None
    first, last, several, known = words[0], words[-1], len(words) > 1, set(words)
    if last in _IDENTIFIES or (several and first in {"id", "name", "email", "phone"}):
        return "identifier"
    joined = "_".join(words)
    if any(person in joined for person in _PERSON_NAMES):
        return "identifier"
    if last in _FREE_TEXT:
        return "drop"
    if known & _DATES or (several and last in {"at", "on"}):
        return "date"
    if (several and first in {"is", "has", "had", "was", "can"}) or last in {"flag", "smoker", "alive", "deceased"}:
        return "yes_no"
    if known & _SCALES:
        return "number"
    return "category" if known & _CLASSES else None


@dataclass(frozen=True, slots=True)
class SeenColumns:
    """What a first reading of a table told.

    Attributes
    ----------
    kinds : tuple of ColumnKind or None
        From the types of a Parquet file and, where the owner asked to look, from cells; None where neither tells.
    rows : int
        How many rows there are; owner only.
    first_is_row : bool
        Whether the line that should hold the names looks like the rows below it.
    """

    kinds: tuple[ColumnKind | None, ...]
    rows: int
    first_is_row: bool


def describe_columns(batches: Batches, request: Request) -> SeenColumns:
    """Read a table to its end, count its rows, and see what its columns may be.

    Cells decide one thing that the owner did not ask for: whether the first line of a text is a row, which is refused
    and never shown.

    Raises
    ------
    TableError
        If the file cannot be read to its end, or a column is nested.
    """
    missing = request.format.missing
    top: list[pa.Array] | None = None
    rows = 0
    for batch in batches.read(range(len(batches.names))):
        top = top or [cells.slice(0, LOOKED_AT) for cells in batch.columns]
        rows += len(batch.columns[0])
    kinds = [None if batches.types is None else _kind_of_type(kind) for kind in batches.types or batches.names]
    if request.look:
        kinds = [kind or _kind_of_cells(cells, missing) for kind, cells in zip(kinds, top or (), strict=False)] or kinds
    is_text = batches.text is not None and request.format.header
    return SeenColumns(tuple(kinds), rows, is_text and top is not None and _is_row(batches.names, top, missing))


def _is_row(names: Sequence[str], columns: Sequence[pa.Array], missing: tuple[str, ...]) -> bool:
    """Whether names look like cells: one occurs among its own column's cells, or all of numbers and dates are such."""
    scales = like_scales = 0
    for name, cells in zip(names, columns, strict=True):
        texts = _present(cells, missing)
        if name and name not in missing and pc.any(pc.equal(texts, name)).as_py():
            return True
        if _kind_of_texts(texts) in {"number", "date"}:
            scales += 1
            like_scales += _kind_of_texts(pa.array([name], pa.string())) in {"number", "date"}
    return scales > 0 and scales == like_scales


def _kind_of_type(kind: pa.DataType) -> ColumnKind | None:
    value = kind.value_type if pa.types.is_dictionary(kind) else kind
    if pa.types.is_boolean(value):
        return "yes_no"
    if is_date(value):
        return "date"
    return "number" if is_number(value) else None


def _present(cells: pa.Array, missing: tuple[str, ...]) -> pa.Array:
    if pa.types.is_dictionary(cells.type):
        cells = cells.dictionary_decode()
    texts = pc.utf8_trim_whitespace(texts_of(cells)).drop_null()
    return texts.filter(pc.invert(pc.is_in(texts, value_set=pa.array([*missing, ""], texts.type))))


def _kind_of_cells(cells: pa.Array, missing: tuple[str, ...]) -> ColumnKind:
    return _kind_of_texts(_present(cells, missing))


def _kind_of_texts(texts: pa.Array) -> ColumnKind:
    if len(texts) == 0:
        return "category"
    if not np.isnan(numbers_of_texts(texts)).any():
        return "number"
    if (days_of_texts(texts, pattern=None, shortest=10) != NO_DAY).all():
        return "date"
    distinct = texts.unique()
    if len(distinct) <= 4 and {text.lower() for text in distinct.to_pylist()} <= _TRUTH_WORDS:
        return "yes_no"
    if len(distinct) == len(texts) and len(texts) >= 20:
        return "identifier"
    return "drop" if len(distinct) > max(200, len(texts) // 4) else "category"
