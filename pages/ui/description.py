"""The table of columns, its presets, and how large the declared tables are."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Hashable, Mapping
from typing import Any

import pandas as pd
import streamlit as st

from pages.ui.columns import (
    MAXIMUM_PAIR_CELLS,
    PRESETS,
    ROLES,
    Row,
    apply_preset,
    lacks_fallback,
    look_again,
    mapping_of_row,
)
from pages.ui.notes import note
from pages.ui.session import application, draft, editor_key, renew_editor
from pages.ui.words import plain
from synth.errors import SynthError
from synth.names import visible
from synth.schema import ModelledColumn, domain_problem, modelled_columns, parse_column

__all__ = ["column_editor", "domain_meter", "kinds_by_looking", "preset_form"]

_PLACES = 100
"""Places a number or a date counts for in the meter; a category counts in full, because nothing can group it."""

_ROW_HEIGHT = 34

_SHOWN = ("name", "role", "low", "high", "step", "categories", "missing", "other", "fallback", "special", "weight")


def preset_form() -> None:
    """Offer public presets for the columns they fit."""
    held = draft()
    with st.expander("Fill columns from a public preset"):
        names, preset, button = st.columns([3, 3, 1], vertical_alignment="bottom")
        known = [row["name"] for row in held["columns"]]
        chosen = names.multiselect("Columns", known, format_func=visible, key="preset-columns")
        kind = preset.selectbox("Preset", list(PRESETS), key="preset-kind")
        if button.button("Fill", key="preset-fill", disabled=not chosen):
            held["columns"] = [apply_preset(row, kind) if row["name"] in chosen else row for row in held["columns"]]
            held["domain_source"].update({name: f"declared from preset: {kind}" for name in chosen})
            renew_editor()
            st.rerun()
    sources = [f"{plain(name)} {source}" for name, source in held["domain_source"].items() if "preset" in source]
    if sources:
        note("; ".join(sources) + ".")


def column_editor() -> None:
    """Draw the table of columns; one row a column, written back into the draft."""
    held = draft()
    # Names are shown so that nothing in them deceives; which row is which is told by its place.
    shown = [[visible(name), *fields] for name, *fields in _editor_input(held["columns"])]
    edited = st.data_editor(
        pd.DataFrame(shown, columns=list(_SHOWN)),
        key=editor_key(),
        hide_index=True,
        num_rows="fixed",
        disabled=["name"],
        column_config=_column_config(),
        alt="One row for each column of the table: its role, limits, categories and accuracy weight",
        row_height=_ROW_HEIGHT,
        height=_ROW_HEIGHT * (len(shown) + 1) + 3,
    )
    rows = [
        {**_clean(row), "name": before["name"], "extra": before.get("extra") or {}}
        for row, before in zip(edited.to_dict("records"), held["columns"], strict=True)
    ]
    changed = [row["name"] for row, before in zip(rows, held["columns"], strict=True) if row != before]
    held["domain_source"] = {name: text for name, text in held["domain_source"].items() if name not in changed}
    held["columns"] = rows
    note(
        "Categories: separated by commas, with double quotes around a value that holds one. "
        "A yes/no column takes its two words there, yes first. "
        "Step: the precision of a number, or day, month, year. "
        "Special: numbers that mean something of their own, such as 0 or 999. "
        "Unreadable: what a cell such as '80kg' among numbers becomes, in columns that are never empty. "
        "Weight changes where accuracy goes; it does not change the protection of anybody."
    )


def kinds_by_looking() -> None:
    """Offer to guess open roles from the rows, which is recorded, and to give open columns a place for odd cells."""
    held = draft()
    look, empty = st.columns(2)
    unknown = [row["name"] for row in held["columns"] if not row["role"]]
    if unknown and look.button(
        "Look at my rows to guess the open roles",
        key="look-at-rows",
        help="Kinds are guessed from the cells; bounds and categories stay empty. Certificates will say that you chose "
        "after looking.",
    ):
        table = application().look_at_rows(held["table_id"])
        kinds = {column.name: column.kind for column in table.columns}
        held["columns"] = [look_again(row, kinds.get(row["name"], "")) for row in held["columns"]]
        renew_editor()
        st.rerun()
    if unknown:
        note("○ owner only: a look is recorded, and what is chosen by it is not covered by epsilon.", look)
    open_columns = [row["name"] for row in held["columns"] if lacks_fallback(row)]
    if open_columns and empty.button(
        f"Tick 'Empty' in {len(open_columns)} open column{'s' if len(open_columns) > 1 else ''}",
        key="tick-empty",
        help="A cell that cannot be read then becomes a missing one. Synthetic rows may have missing cells there.",
    ):
        held["columns"] = [{**row, "missing": True} if row["name"] in open_columns else row for row in held["columns"]]
        renew_editor()
        st.rerun()


def domain_meter() -> None:
    """Say how many cells the largest tables of one, two and three columns have, from the declarations alone."""
    columns = _declared(draft()["columns"])
    if not columns:
        return
    sizes = [(column.name, min(column.size, _PLACES) if column.levels else column.size) for column in columns]
    ordered = sorted(sizes, key=lambda entry: -entry[1])
    for width, place in zip((1, 2, 3), st.columns(3), strict=True):
        if len(ordered) >= width:
            top, card = ordered[:width], place.container(border=True)
            card.metric(f"Cells of the largest {width}-way table", f"{math.prod(size for _, size in top):,}")
            note(" \N{MULTIPLICATION SIGN} ".join(plain(name) for name, _ in top), card)
    note(f"Numbers and dates count as at most {_PLACES} places each: generators group them.")
    problem = domain_problem(columns)
    if problem is not None:
        st.error(plain(problem))
    elif len(ordered) > 1 and ordered[0][1] * ordered[1][1] > MAXIMUM_PAIR_CELLS:
        (name, size), (_, other) = ordered[:2]
        st.warning(
            f"{plain(name)} has {size:,} categories. Group it (for example by first digit), or leave it out. Keeping "
            f"it needs about {_about(size * other)} cells for pairs."
        )


def _about(cells: int) -> str:
    return f"{cells / 1e6:,.1f} million" if cells < 1e9 else f"{cells / 1e9:,.1f} billion"


def _declared(rows: list[Row]) -> tuple[ModelledColumn, ...]:
    """Return the modelled columns whose declaration is complete."""
    columns = []
    for row in rows:
        with contextlib.suppress(SynthError):
            columns.append(parse_column(row["name"], mapping_of_row(row)))
    return modelled_columns(columns)


def _editor_input(rows: list[Row]) -> list[list[Any]]:
    """Return what the editor starts from; it must not change while the editor is on the screen."""
    names = [row["name"] for row in rows]
    held = st.session_state.get("editor-input")
    fresh = editor_key() not in st.session_state
    if held is None or fresh or [line[0] for line in held] != names:
        held = [[row[field] for field in _SHOWN] for row in rows]
        st.session_state["editor-input"] = held
    return list(held)


def _clean(row: Mapping[Hashable, Any]) -> Row:
    texts = {
        key: "" if row[key] is None else str(row[key]).strip() for key in _SHOWN if key not in {"missing", "other"}
    }
    return {**texts, "missing": bool(row["missing"]), "other": bool(row["other"])}


def _column_config() -> dict[str, Any]:
    text, choice, tick = st.column_config.TextColumn, st.column_config.SelectboxColumn, st.column_config.CheckboxColumn
    # Widths in pixels: together no wider than the page at 1280, so the table never scrolls sideways.
    return {
        "name": text("Name", width=80),
        "role": choice("Role", options=list(ROLES), required=False, width=100),
        "low": text("Lowest", width=70, help="A number, or a date such as 2020-01-31"),
        "high": text("Highest", width=74, help="A number, or a date such as 2025-12-31"),
        "step": text("Step", width=54, help="Precision of a number, or day, month, year"),
        "categories": text("Categories", width=104),
        "missing": tick("Empty", width=66, help="Cells may be missing; one that cannot be read is then missing too"),
        "other": tick("Other", width=64, help="Undeclared values become 'other'; so does a cell that cannot be read"),
        "fallback": text(
            "Unreadable", width=92, help="What a cell that cannot be read becomes, without Empty or Other"
        ),
        "special": text("Special", width=70, help="Numbers kept apart from the grid"),
        "weight": choice("Weight", options=["low", "normal", "high"], required=True, width=68),
    }
