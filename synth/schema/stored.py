"""What becomes of a cell by the type it is stored as, in a Parquet file and in a column of a DataFrame alike.

A type is public, as the name of a column is: it decides here, and no value does. ``docs/python-and-command-line.md``
has the table. What columns read are texts, numbers, truth values, dates and durations; :func:`plain` turns every other
type that has a meaning into one of these, cell by cell, and :func:`refuse_type` refuses the rest by the column's name.
"""

from __future__ import annotations

import json
import math
import re
import uuid
from typing import Any, NamedTuple, NoReturn

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from synth.errors import TableError
from synth.names import shown
from synth.schema.columns.base import Column, ModelledColumn
from synth.schema.columns.number import NumberColumn
from synth.schema.encoding import is_bytes, is_date, is_number, is_text, texts_of

__all__ = [
    "DURATION_WORDS",
    "UNREADABLE",
    "WHOLE_BELOW",
    "needs_whole_numbers",
    "plain",
    "plain_type",
    "refuse",
    "refuse_type",
]

UNREADABLE = "\ufffd"
"""The text of a cell that has none, such as a list: it is not as declared, and so it is counted."""

WHOLE_BELOW = 2**53
"""From here on, one float of 64 bits may stand for several whole numbers."""

DURATION_WORDS = (
    "durations. Declare it as a number and say in what: 'duration: minutes' (or weeks, days, hours, seconds, "
    "milliseconds)"
)

_LONG_WHOLE = re.compile(r"[+-]?[0-9]{16,}")


# What is refused ------------------------------------------------------------------------------------------------------


def refuse_type(name: str, kind: pa.DataType, column: Column | None = None) -> None:
    """Refuse a column whose type cannot be read as it is declared; no cell is read to say so.

    Parameters
    ----------
    name : str
        The column's name.
    kind : pyarrow.DataType
        What :func:`plain_type` returned for it.
    column : Column, optional
        What is declared of it; without it, only what nobody can read is refused.

    Raises
    ------
    TableError
        In one sentence that names the column.
    """
    types = pa.types
    inner = kind.value_type if types.is_dictionary(kind) else kind
    if types.is_nested(inner):
        refuse(name, "lists, records or maps. Make a column of each value that you need, or leave the column out")
    if not _is_read(inner):
        refuse(name, f"{_shown_type(inner)}, a type that is not supported. Save it as text first")
    if types.is_timestamp(inner) and inner.tz is not None and not _is_known_zone(inner):
        refuse(name, "times of a time zone that this machine does not know. Convert them to a zone that it knows")
    if column is None:
        return
    if types.is_duration(inner) and (not isinstance(column, NumberColumn) or column.duration is None):
        refuse(name, DURATION_WORDS)
    if types.is_floating(inner) and needs_whole_numbers(column):
        refuse(
            name,
            "floats, which do not tell apart the whole numbers from 2^53 on that are declared. Store it as whole "
            "numbers, in pandas as Int64, or as text",
        )


def refuse(name: str, what: str) -> NoReturn:
    """Refuse a column for what its type says that it holds."""
    raise TableError(f"'{shown(name)}' holds {what}.")


def _is_read(kind: pa.DataType) -> bool:
    known = (is_number, is_date, is_text, is_bytes, pa.types.is_duration, pa.types.is_null)
    return any(check(kind) for check in known) and not isinstance(kind, pa.BaseExtensionType)


def _shown_type(kind: pa.DataType) -> str:
    return f"cells of type {shown(str(kind))}"


def _is_known_zone(kind: pa.TimestampType) -> bool:
    try:
        pc.local_timestamp(pa.array([0], kind))
    except pa.ArrowInvalid:
        return False
    return True


def needs_whole_numbers(column: Column) -> bool:
    """Return whether whole numbers are declared that a float of 64 bits does not tell apart."""
    if isinstance(column, NumberColumn):
        largest = max(map(abs, (column.low, column.high, *column.special)))
        return bool(largest >= WHOLE_BELOW and column.step < 2 * math.ulp(largest))
    if not isinstance(column, ModelledColumn):
        return False
    words = (word for word in column.listed if isinstance(word, str))
    return any(_LONG_WHOLE.fullmatch(word) and abs(int(word)) >= WHOLE_BELOW for word in words)


# Types as those that columns read -------------------------------------------------------------------------------------


class _Extension(NamedTuple):
    name: str
    said: dict[str, Any]


def plain_type(field: pa.Field) -> pa.DataType:
    """Return the type of the cells that :func:`plain` returns for a field of a table."""
    extension = _extension_of(field)
    kind = field.type
    if extension is None and (pa.types.is_nested(kind) and not pa.types.is_run_end_encoded(kind)):
        return kind
    try:
        return plain(_none_of(kind), field).type
    except (pa.ArrowException, NotImplementedError):
        return kind


def plain(cells: pa.Array, field: pa.Field) -> pa.Array:
    """Return cells as one of the types that columns read; a cell follows from that cell and the type alone.

    Parameters
    ----------
    cells : pyarrow.Array of length rows
    field : pyarrow.Field
        Their column in the table, which may say what they mean.

    Returns
    -------
    pyarrow.Array of length rows
        Times of day, UUIDs and intervals as texts, periods as their first day or second; texts, numbers, truth values,
        dates and durations without what is only a way of storing them. Other cells as they are.
    """
    extension = _extension_of(field)
    if isinstance(cells, pa.ExtensionArray):
        cells = cells.storage
    if extension is not None:
        cells = _meant(cells, extension)
    kind, types = cells.type, pa.types
    if types.is_run_end_encoded(kind):
        return plain(pc.run_end_decode(cells), pa.field(field.name, kind.value_type))
    if types.is_dictionary(kind):
        words = cells.dictionary
        values = plain(words, pa.field(field.name, kind.value_type))
        # As it is wherever it can be: a text repeated in a million rows is stored once.
        return cells if values is words and not types.is_duration(kind.value_type) else values.take(cells.indices)
    if types.is_string_view(kind):
        return cells.cast(pa.large_string())
    if types.is_binary_view(kind):
        return cells.cast(pa.large_binary())
    return _times_as_texts(cells) if types.is_time(kind) else cells


def _none_of(kind: pa.DataType) -> pa.Array:
    if isinstance(kind, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(kind, _none_of(kind.storage_type))
    if pa.types.is_dictionary(kind):
        return pa.DictionaryArray.from_arrays(pa.array([], kind.index_type), _none_of(kind.value_type))
    return pa.array([], kind)


def _extension_of(field: pa.Field) -> _Extension | None:
    """Return the type beside those of Arrow that a field declares, whether or not this process knows it."""
    if isinstance(field.type, pa.BaseExtensionType):
        name = field.type.extension_name
        said = field.type.__arrow_ext_serialize__() if isinstance(field.type, pa.ExtensionType) else b""
    else:
        metadata = field.metadata or {}
        name = metadata.get(b"ARROW:extension:name", b"").decode("utf-8", "replace")
        said = metadata.get(b"ARROW:extension:metadata", b"")
    if not name:
        return None
    try:
        body = json.loads(said or b"{}")
    except ValueError:
        body = {}
    return _Extension(name, body if isinstance(body, dict) else {})


def _meant(cells: pa.Array, extension: _Extension) -> pa.Array:
    """Return cells as what their extension says they are; as they are stored where it cannot be that."""
    kind, types = cells.type, pa.types
    if extension.name == "arrow.uuid" and kind == pa.binary(16):
        texts = [None if cell is None else str(uuid.UUID(bytes=cell)) for cell in cells.to_pylist()]
        return pa.array(texts, pa.string())
    if extension.name == "arrow.bool8" and kind == pa.int8():
        return pc.not_equal(cells, 0)
    if extension.name == "pandas.period" and types.is_int64(kind):
        return _first_moments(cells, str(extension.said.get("freq", "")))
    if extension.name == "pandas.interval" and types.is_struct(kind) and kind.num_fields == 2:
        return _intervals_as_texts(cells, str(extension.said.get("closed", "right")))
    return cells


def _times_as_texts(cells: pa.Array) -> pa.Array:
    per_second = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[cells.type.unit]
    whole = cells.view(pa.int32() if pa.types.is_time32(cells.type) else pa.int64()).cast(pa.int64())
    seconds = pc.if_else(whole.is_null(), None, pa.array(_whole(whole) // per_second))
    is_time = pc.and_(pc.greater_equal(seconds, 0), pc.less(seconds, 86_400))
    texts = pc.if_else(is_time, seconds, None).cast(pa.int32()).cast(pa.time32("s")).cast(pa.string())
    return pc.if_else(pc.fill_null(is_time, True), texts, UNREADABLE)


_UNITS = {
    "W": "D", "B": "D", "Q": "M", "Y": "M", "A": "M", "M": "M", "D": "D", "h": "h", "H": "h", "min": "m", "T": "m",
    "s": "s", "S": "s", "ms": "ms", "L": "ms", "us": "us", "U": "us", "ns": "ns", "N": "ns",
}  # fmt: skip
"""How pandas calls a frequency of periods, and the unit of numpy in which the starts of such periods are counted."""

_WEEKDAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
_MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_MONTHS_EACH = {"Q": 3, "Y": 12, "A": 12}

_FURTHEST = {"M": 12 * 10**4, "D": 366 * 10**4, "h": 24 * 366 * 10**4, "m": 1440 * 366 * 10**4}
"""Places from 1970 that are beyond every calendar: further ones are moved there, so that none is too large."""


def _first_moments(cells: pa.Array, frequency: str) -> pa.Array:
    """Return when periods of pandas begin: they are counted from 1970, by the frequency that their type names.

    A number before it says that every so many of them are used, and changes no start.
    """
    name, _, anchor = frequency.lstrip("0123456789").partition("-")
    unit = _UNITS.get(name)
    anchors = _WEEKDAYS if name == "W" else _MONTHS if name in _MONTHS_EACH else ("",)
    if unit is None or (anchor and anchor not in anchors):
        return pa.nulls(len(cells), pa.month_day_nano_interval())  # which is refused by the column's name
    places = _whole(cells)
    if unit in _FURTHEST:
        places = np.clip(places, -_FURTHEST[unit], _FURTHEST[unit])
    if name == "W":  # the days up to and including the one that is named, a Sunday unless another one is
        places = 7 * places + _WEEKDAYS.index(anchor or "SUN") - 10
    elif name == "B":  # from Monday to Friday; 1970 begins on a Thursday
        places = (places + 3) // 5 * 7 + (places + 3) % 5 - 3
    elif name in _MONTHS_EACH:  # the months up to the one that is named, December unless another one is
        places = _MONTHS_EACH[name] * places + _MONTHS.index(anchor or "DEC") - 11
    if unit in _FURTHEST:
        places = np.clip(places, -_FURTHEST[unit], _FURTHEST[unit])
    moments = places.astype(f"datetime64[{unit}]")
    as_days = unit in "MD"
    kept = moments.astype("datetime64[D]" if as_days else f"datetime64[{unit if len(unit) == 2 else 's'}]")
    found = pa.array(kept.astype(np.int64))
    typed = found.cast(pa.int32()).cast(pa.date32()) if as_days else found.cast(pa.timestamp(_unit_of(kept)))
    return pc.if_else(cells.is_null(), None, typed)


def _unit_of(moments: npt.NDArray[Any]) -> str:
    return str(np.datetime_data(moments.dtype)[0])


def _intervals_as_texts(cells: pa.Array, closed: str) -> pa.Array:
    left, right = (texts_of(cells.field(place)) for place in range(2))
    opens, ends = ("[" if closed in ("left", "both") else "("), ("]" if closed in ("right", "both") else ")")
    joined = pc.binary_join_element_wise(opens, left, ", ", right, ends, "")
    return pc.if_else(cells.is_null(), None, joined)


def _whole(cells: pa.Array) -> npt.NDArray[np.int64]:
    values: npt.NDArray[Any] = pc.fill_null(cells, 0).to_numpy(zero_copy_only=False)
    return values.astype(np.int64)
