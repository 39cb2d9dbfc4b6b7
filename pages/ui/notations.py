"""How cells are written, for the whole table and single columns, shown on invented cells."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from pages.ui.charts import show_table
from pages.ui.column_rows import Row, declared_columns, host_of, time_beside, with_times
from pages.ui.session import draft, renew_editor
from pages.ui.words import note, plain
from synth.errors import SynthError
from synth.names import visible
from synth.schema import COLUMN_TYPES, parse_format
from synth.schema.encoding import invented_cells, invented_cells_of

_MOST_LINES = 60
"""That the fold shows: a table may have 5,000 columns."""

_POINTS: dict[str, str] = {".": "a point: 1.5", ",": "a comma: 1,5"}
_BETWEEN: dict[str, str] = {
    ",": "a comma: 1,234",
    ".": "a point: 1.234",
    " ": "a space: 1 234",
    "'": "an apostrophe: 1'234",
}
_OF_THE_TABLE: tuple[dict[str, str], dict[str, str]] = (
    {"": _POINTS["."], ",": _POINTS[","]},
    {"": "nothing: 1234", **_BETWEEN},
)
_AS_THE_TABLE: dict[str, str] = {"": "as in the rest of the file"}

_ASKED = "notation-columns"
_NUMBERS = ("decimal", "thousands", "units")

Key = Callable[[str, Any], str]
"""Gives a widget its key, having set what it starts from."""


# What is asked -------------------------------------------------------------------------------------------------------


def numbers_fields(
    places: tuple[DeltaGenerator, DeltaGenerator, DeltaGenerator], held: Mapping[str, Any], key: Key, *, column: bool
) -> dict[str, Any]:
    """Ask how numbers are written; return the keys of a format, or of a ``column``, that say something."""
    points, between = (_AS_THE_TABLE | _POINTS, _AS_THE_TABLE | _BETWEEN) if column else _OF_THE_TABLE
    point, separator = (held.get(name, "") for name in _NUMBERS[:2])
    decimal = places[0].selectbox(
        "Decimal sign",
        list(points),
        format_func=points.__getitem__,
        key=key("decimal", point if point in points else ""),
        help="One half is written 0.5 with a point and 0,5 with a comma.",
    )
    thousands = places[1].selectbox(
        "Thousands separator",
        list(between),
        format_func=between.__getitem__,
        key=key("thousands", separator if separator in between else ""),
        help="The sign between groups of three digits in long numbers.",
    )
    units = places[2].text_input(
        "Units written next to numbers, separated by commas",
        placeholder="€, kg, %",
        key=key("units", ", ".join(held.get("units", ()))),
        help="They are ignored: '80 kg' is 80 and '45 %' is 45.",
    )
    said = {"decimal": decimal, "thousands": thousands, "units": listed(units)}
    return {name: value for name, value in said.items() if value}


def dates_field(place: DeltaGenerator, held: Iterable[str], key: Key) -> list[str]:
    """Ask how dates are written; return the forms in the notation of ``strptime``."""
    return listed(
        place.text_input(
            "Date formats, separated by commas",
            placeholder="%d/%m/%Y",
            key=key("dates", ", ".join(held)),
            help="%d is the day, %m the month, %Y the year (%y with two digits), %H:%M the time; the first "
            "format that fits a cell is used. Dates such as 2024-01-31 are always read.",
        )
    )


def listed(text: str) -> list[str]:
    """Return the parts between commas."""
    return [part.strip() for part in text.split(",") if part.strip()]


# What is shown -------------------------------------------------------------------------------------------------------


def notations_note(form: Mapping[str, Any]) -> bool:
    """Show what a notation makes of invented cells, or why it cannot be used; return whether it can."""
    try:
        read = invented_cells(parse_format(form))
    except SynthError as error:
        st.error(plain(str(error)))
        return False
    if read:
        note("Invented cells: " + ", ".join(f"{plain(cell)} is read as {plain(became)}" for cell, became in read) + ".")
    return True


def notations_fold() -> None:
    """Ask which columns have a format of their own, and which lists of categories are ordered.

    Below, show how invented cells of every column with a format of its own are read.
    """
    rows = [row for row in draft()["columns"] if row["role"] in _KEYS]
    if not rows:
        return
    with st.expander("Formats of single columns, times of day in date columns, and ordered categories"):
        _order_field(rows)
        _times_field(rows)
        _columns_form(rows)
        _invented()


def _order_field(rows: list[Row]) -> None:
    names = [row["name"] for row in rows if row["role"] == _CATEGORY]
    if not names:
        return
    start = [row["name"] for row in rows if row["role"] == _CATEGORY and (row.get("extra") or {}).get("ordered")]
    chosen = st.multiselect(
        "Ordered categories, listed from lowest to highest",
        names,
        start,
        format_func=visible,
        # With the start in the key, what another tab says is shown here.
        key=f"ordered-columns:{start}",
        help="For example never, sometimes, often. Rules between columns can then compare them; generators "
        "treat them like other categories.",
    )
    if set(chosen) != set(start):
        _put(
            {name: {"ordered": True} if name in chosen else {} for name in names if (name in chosen) != (name in start)}
        )


def _times_field(rows: list[Row]) -> None:
    """Ask which dates have a time of day in the same cells, which is then a line of its own behind theirs."""
    held = draft()
    start = list(dict.fromkeys(host_of(row) for row in held["columns"] if host_of(row)))
    names = list(dict.fromkeys([*(row["name"] for row in rows if row["role"] == _DATE), *start]))
    if not names:
        return
    chosen = st.multiselect(
        "Date columns that also contain a time of day",
        names,
        start,
        format_func=visible,
        key=f"dates-with-times:{start}",
        help="In a cell such as 2024-03-01 14:35 the date and the time are learned separately. The time gets "
        "a line of its own below the date, and a column of its own in the synthetic rows.",
    )
    if set(chosen) != set(start):
        kept = [row for row in held["columns"] if not host_of(row) or host_of(row) in chosen]
        new = [time_beside(row, kept) for row in kept if row["name"] in set(chosen) - set(start)]
        held["columns"] = with_times([row for row in kept if not host_of(row)], [*kept, *new])
        renew_editor()
        st.rerun()


def _columns_form(rows: list[Row]) -> None:
    """Ask how cells of chosen columns are written where that is not as in the rest of the file."""
    role_of = {row["name"]: row["role"] for row in rows if row["role"] in (_NUMBER, _DATE, _TIME) and not host_of(row)}
    if not role_of:
        return
    chosen = st.multiselect(
        "Numbers, dates or times written differently from the rest of the file",
        list(role_of),
        format_func=visible,
        key=_ASKED,
        help="Columns with a unit, a decimal comma or a date format of their own. Yes/no words go in the "
        "table above, under Categories: first yes, then no.",
    )
    roles = {role_of[name] for name in chosen if name in role_of}
    if not roles:
        return
    extra_of = {row["name"]: row.get("extra") or {} for row in rows}
    of_number, of_date = (
        next((extra_of[name] for name in chosen if (role_of[name] == _NUMBER) == numbers), {})
        for numbers in (True, False)
    )

    def key(name: str, value: Any) -> str:
        # Of other columns another widget, which starts from what is said of them.
        one = f"notation-{name}:{chosen}"
        st.session_state.setdefault(one, value)
        return one

    numbers: dict[str, Any] = {}
    dates: list[str] = []
    first, second, third = st.columns(3)
    if _NUMBER in roles:
        numbers = numbers_fields((first, second, third), of_number, key, column=True)
    if roles & {_DATE, _TIME}:
        pattern = of_date.get("pattern") or ()
        dates = dates_field(first, [pattern] if isinstance(pattern, str) else pattern, key)
    form = {name: draft()["format"][name] for name in (*_NUMBERS, "dates") if name in draft()["format"]}
    usable = notations_note({**form, **numbers, **({"dates": dates} if dates else {})})
    many = f"these {len(chosen)} columns" if len(chosen) > 1 else "this column"
    if st.button(f"Apply to {many}", key="notation-use", disabled=not usable):
        said = {_NUMBER: numbers, _DATE: {"pattern": dates} if dates else {}}
        said[_TIME] = said[_DATE]
        # A time in the cells of a date is written as they are.
        beside = {row["name"]: host_of(row) for row in rows if host_of(row) in chosen}
        _put({name: said[role_of[beside.get(name, name)]] for name in (*chosen, *beside)})


def _put(said: Mapping[str, Mapping[str, Any]]) -> None:
    """Write into the lines of columns what is said of their cells, in place of what was."""
    held = draft()
    held["columns"] = [
        {**row, "extra": {**_kept(row), **said[row["name"]]}} if row["name"] in said else row for row in held["columns"]
    ]
    renew_editor()
    st.rerun()


def _kept(row: Row) -> dict[str, Any]:
    """Return what else is said of a column that no cell of the table shows."""
    return {name: value for name, value in (row.get("extra") or {}).items() if name not in _KEYS[row["role"]]}


def _invented() -> None:
    """Show what becomes of invented cells of the columns that are written otherwise than a program writes them."""
    held = draft()
    try:
        read_by = parse_format(held["format"])
    except SynthError:
        return  # said where the form of the file is asked for
    lines: list[tuple[str, str, str]] = []
    for column in declared_columns(held["columns"]):
        if len(lines) > _MOST_LINES:
            break
        lines += [(visible(column.name), *pair) for pair in invented_cells_of(column, read_by)]
    if not lines:
        return
    note("Invented cells, made from what you declared, not from any row:")
    frame = pd.DataFrame(lines[:_MOST_LINES], columns=["Column", "As written in the file", "What it becomes"])
    show_table(frame, alt="Invented cells of columns, and what they become", key="invented-cells")
    if len(lines) > _MOST_LINES:
        note("More columns are read in the same way.")


_NUMBER, _DATE, _TIME, _CATEGORY = (COLUMN_TYPES[kind].role for kind in ("number", "date", "time", "category"))
_KEYS: dict[str, tuple[str, ...]] = {
    _NUMBER: _NUMBERS,
    _DATE: ("pattern",),
    _TIME: ("pattern",),
    _CATEGORY: ("ordered",),
}
"""What is asked here, by the role of a column."""
