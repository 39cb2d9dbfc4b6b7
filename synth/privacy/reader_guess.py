"""What kind of column each column of a file might be: from its name (public) or from its cells (owner only).

A guess is a word. No value, bound or category of the table is part of it.
"""

from __future__ import annotations

import re
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from synth.cells import NO_DAY, days_of_texts, is_date, is_number, numbers_of_texts, texts_of
from synth.privacy.reader_batches import Batches
from synth.privacy.reader_pipes import Request

__all__ = ["ColumnKind", "guess_kinds", "kind_by_name"]

ColumnKind = Literal["number", "category", "yes_no", "date", "identifier", "drop"]

LOOKED_AT = 10_000
"""Rows at the top of a text that a guess is made from."""

_NAMES: tuple[tuple[ColumnKind, str], ...] = (
    ("identifier", r"(^|_)(id|ids|uuid|guid|key|nr|nbr|ssn|nhs|mrn|passport|email|phone|name|firstname|surname)$"),
    ("identifier", r"^(id|name|email|phone)_|(first|last|full|sur|user)_?name"),
    ("drop", r"(^|_)(notes?|comments?|text|description|remarks?|address|free_text)$"),
    ("date", r"(^|_)(date|day|dob|birthday|birthdate|timestamp|datetime)(_|$)|_(at|on)$"),
    ("yes_no", r"^(is|has|had|was|can)_|(^|_)(flag|smoker|alive|deceased)$"),
    (
        "number",
        r"(^|_)(age|year|years|amount|income|salary|price|cost|count|number|num|height|weight|bmi|score|hours?|days|"
        r"months|percent|rate|gain|loss|total|size|length|temperature|duration)(_|$)",
    ),
    (
        "category",
        r"(^|_)(sex|gender|race|ethnicity|region|country|state|city|job|occupation|education|status|type|class|"
        r"category|group|level|band|label|outcome|code)(_|$)",
    ),
)
_TRUTH_WORDS = {"yes", "no", "true", "false", "y", "n", "t", "f"}


def kind_by_name(name: str) -> ColumnKind | None:
    """Guess a column's kind from its name alone; None where the name says nothing."""
    plain = re.sub(r"[^a-z0-9]+", "_", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()).strip("_")
    for kind, pattern in _NAMES:
        if re.search(pattern, plain):
            return kind
    return None


def guess_kinds(batches: Batches, request: Request) -> tuple[list[ColumnKind], int]:
    """Guess each column's kind from its type or the first cells, and count the rows.

    Raises
    ------
    TableError
        If the file cannot be read to its end, or a column is nested.
    """
    kinds: list[ColumnKind] = []
    rows = 0
    for cells in batches.read(range(len(batches.names))):
        if not kinds:
            missing = request.format.missing
            kinds = [
                _kind(name, column.slice(0, LOOKED_AT), missing)
                for name, column in zip(batches.names, cells, strict=True)
            ]
        rows += len(cells[0])
    return kinds or ["category"] * len(batches.names), rows


def _kind(name: str, cells: pa.Array, missing: tuple[str, ...]) -> ColumnKind:
    if pa.types.is_dictionary(cells.type):
        cells = cells.dictionary_decode()
    if pa.types.is_boolean(cells.type):
        return "yes_no"
    if is_date(cells.type):
        return "date"
    by_name = kind_by_name(name)
    if by_name in {"identifier", "drop"}:
        return by_name
    if is_number(cells.type):
        return "number"
    texts = pc.utf8_trim_whitespace(texts_of(cells)).drop_null()
    texts = texts.filter(pc.invert(pc.is_in(texts, value_set=pa.array([*missing, ""], texts.type))))
    return _kind_of_texts(texts)


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
