"""Describe many columns at once: choose them, set once what they are, see what will change, and undo it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from pages.ui.charts import show_table
from pages.ui.column_groups import Applied, applied, as_another, differences, groups_of, set_in, undone
from pages.ui.column_rows import MODELLED_ROLES, ROLES, Row, form_of, host_of, lacks_fallback, state_of
from pages.ui.dictionaries import taken_row
from pages.ui.session import draft, renew_editor
from pages.ui.words import note, plain
from synth.errors import SchemaError
from synth.names import numbered, shown, visible
from synth.schema import FormField, presets
from synth.schema.columns_like import names_like

_ROUND = "many-round"
_MOST_UNDONE = 20
"""Applications that can be undone, the last one first."""

_MOST_LINES = 20
_BY_PATTERN, _LIKE_ONE, _BY_HAND = "a pattern of the name", "all declared like one column", "columns that I choose"
_SAME = "as another column is declared"
_PRESET = "preset: "

_PATTERN_HELP = "* is any text, ? one sign, [0-9] one digit. Capitals matter. In a configuration: columns_like."
_LEAVE_HELP = "Otherwise what is declared of them is replaced. The list below says what would change."
_LABELS = {
    "low": ("Lowest", "A number, or a date such as 2020-01-31"),
    "high": ("Highest", "A number, or a date such as 2025-12-31"),
    "step": ("Step", "1 for whole numbers, 0.1 or 0.01 for decimals; day, month, year; or hour, quarter, minute"),
    "categories": ("Categories", "Separated by commas; for a yes/no column its two words, yes first"),
    "fallback": ("Unreadable", "What a cell that cannot be read becomes if neither Empty nor Other is ticked"),
    "special": ("Special", "Numbers with a meaning of their own, such as 0 or 999"),
    "other": ("Other", "Undeclared values become 'other'; so do cells that cannot be read"),
}
_EMPTY_HELP = "Cells may be missing; one that cannot be read is then missing too"


class _Change(NamedTuple):
    """The rows that would replace others, and where their bounds come from."""

    after: dict[str, Row]
    source: str | None


def many_columns_panel() -> None:
    """Draw the panel."""
    held = draft()
    rows = [row for row in held["columns"] if not host_of(row)]
    _undo_line()
    which, what = st.columns(2)
    chosen = _chosen(which, rows)
    change = _asked(what, chosen, rows)
    if change is None:
        return
    own = {row["name"]: row for row in chosen}
    change = change._replace(after={name: row for name, row in change.after.items() if row != own[name]})
    _preview(chosen, change)
    wrong = next((state for row in change.after.values() if (state := state_of(row)).words.startswith("✕")), None)
    if wrong is not None:
        st.error(plain(wrong.sentence))
    many = numbered(len(change.after), "column")
    unusable = wrong is not None or not change.after
    if st.button(f"Apply to {many}", key="many-apply", type="primary", disabled=unusable):
        _apply(change)
        st.rerun()


# Which columns -------------------------------------------------------------------------------------------------------


def _key(name: str) -> str:
    """Return the key of a widget, which is another one once something was applied."""
    return f"many-{name}:{st.session_state.get(_ROUND, 0)}"


def _chosen(place: DeltaGenerator, rows: list[Row]) -> list[Row]:
    """Ask which columns are meant: a group that belongs together, or a choice of one's own."""
    groups = {group.label: group for group in groups_of(rows)}
    ways = [*groups, _BY_PATTERN, _LIKE_ONE, _BY_HAND]
    way = place.selectbox("Columns", ways, key=_key("which"), help="Groups are of incomplete columns, by name or role.")
    if way in groups:
        return [row for row in rows if row["name"] in set(groups[way].names)]
    names = [row["name"] for row in rows]
    if way == _BY_PATTERN:
        pattern = place.text_input("Pattern", key=_key("pattern"), placeholder="q[0-9]*", help=_PATTERN_HELP)
        found = set(names_like(names, pattern)) if pattern else set()
        if pattern and not found:
            place.warning(f"No column is called like '{plain(shown(pattern))}'.")
    elif way == _LIKE_ONE:
        one = place.selectbox("Column", names, index=None, key=_key("like"), format_func=visible)
        found = {row["name"] for row in rows if one is not None and _is_like(row, rows[names.index(one)])}
    else:
        found = set(place.multiselect("Chosen", names, key=_key("chosen"), format_func=visible))
    return _without_ready(place, [row for row in rows if row["name"] in found], leave=way == _BY_PATTERN)


def _is_like(row: Row, other: Row) -> bool:
    """Whether the same is declared of two columns."""
    return {**row, "name": "", "proposed": ""} == {**other, "name": "", "proposed": ""}


def _without_ready(place: DeltaGenerator, chosen: list[Row], *, leave: bool) -> list[Row]:
    """Ask about columns that are complete already; a pattern may mean them or not."""
    ready = [row["name"] for row in chosen if not state_of(row).is_open]
    if not ready or len(ready) == len(chosen):
        return chosen
    words = f"Leave {numbered(len(ready), 'column')} that {'is' if len(ready) == 1 else 'are'} complete"
    kept = place.checkbox(words, leave, key=_key("leave"), help=_LEAVE_HELP)
    return [row for row in chosen if not kept or row["name"] not in ready]


# What they are -------------------------------------------------------------------------------------------------------


def _asked(place: DeltaGenerator, chosen: list[Row], rows: list[Row]) -> _Change | None:
    """Ask what the chosen columns are; None until it is said."""
    titles = {f"{_PRESET}{preset.title}": key for key, preset in presets().items()}
    roles = {row["role"] for row in chosen}
    known = list(ROLES).index(roles.pop()) if len(roles) == 1 and roles <= set(ROLES) else None
    what = place.selectbox(
        "What they are",
        [*ROLES, _SAME, *titles],
        known,
        # With the role in the key, another group starts from its own.
        key=_key(f"what-{known}"),
        placeholder="a role, a preset, or another column",
        help="Presets are limits and values that anyone can look up.",
    )
    if what is None or not chosen:
        if not chosen:
            note("Choose columns first.")
        return None
    if what == _SAME:
        return _as_another(place, chosen, rows)
    if what in titles:
        return _by_preset(place, chosen, titles[what])
    return _by_role(chosen, what)


def _as_another(place: DeltaGenerator, chosen: list[Row], rows: list[Row]) -> _Change | None:
    ready = {row["name"]: row for row in rows if not state_of(row).is_open}
    if not ready:
        note("No column is complete yet. Describe one in the table first.")
        return None
    other = place.selectbox("As", list(ready), index=None, key=_key("as"), format_func=visible)
    if other is None:
        return None
    after = {row["name"]: as_another(row, ready[other]) for row in chosen if row["name"] != other}
    return _Change(after, draft()["domain_source"].get(other))


def _by_preset(place: DeltaGenerator, chosen: list[Row], key: str) -> _Change | None:
    preset, highest = presets()[key], None
    if preset.asks:
        highest = place.text_input("Highest value", key=_key("preset-highest"), placeholder="500000")
        if not highest:
            return None
    note(f"{preset.title}: {preset.source}.")
    try:
        body = preset.body(highest)
    except SchemaError as refusal:
        st.error(plain(str(refusal)))
        return None
    empty = _empty(st.container(), chosen, key)
    after = {row["name"]: taken_row({**row, "missing": empty}, body) for row in chosen}
    return _Change(after, preset.domain_source)


def _by_role(chosen: list[Row], role: str) -> _Change:
    """Ask for the cells that a role has, which are those of the table below."""
    cells: dict[str, Any] = {}
    fields = form_of(role)
    if role in MODELLED_ROLES:
        typed = [field for field in fields if field.shape != "flag"]
        for field, place in zip(typed, st.columns(len(typed)), strict=True):
            cells[field.cell] = _text(place, field, role)
        flags = st.container(horizontal=True)
        cells["missing"] = _empty(flags, chosen, role)
        for field in fields:
            if field.shape == "flag":
                label, words = _LABELS[field.cell]
                already = any(row[field.cell] for row in chosen)
                cells[field.cell] = flags.checkbox(label, already, key=_key(f"{field.cell}-{role}"), help=words)
        if any(row["role"] == role and any(row[cell] for cell in ("low", "high", "categories")) for row in chosen):
            note("A cell that you leave blank here stays as it is in each column.")
    return _Change({row["name"]: set_in(row, role, cells) for row in chosen}, None)


def _empty(place: DeltaGenerator, chosen: list[Row], what: str) -> bool:
    """Ask whether cells may be missing: proposed where it is not declared yet what an unreadable cell becomes."""
    proposed = any(row["missing"] or row["role"] not in MODELLED_ROLES or lacks_fallback(row) for row in chosen)
    return place.checkbox("Empty", proposed, key=_key(f"missing-{what}"), help=_EMPTY_HELP)


def _text(place: DeltaGenerator, field: FormField, role: str) -> str:
    label, words = _LABELS[field.cell]
    said = place.text_input(label, key=_key(f"{field.cell}-{role}"), placeholder=field.default or None, help=words)
    return said.strip()


# What will change, and what was --------------------------------------------------------------------------------------


def _preview(chosen: Sequence[Row], change: _Change) -> None:
    told = differences(chosen, change.after)
    if not told:
        note("Nothing would change.")
        return
    lines = [(one.columns, len(one.names), one.now, one.then) for one in told[:_MOST_LINES]]
    frame = pd.DataFrame(lines, columns=["Columns", "Number", "Now", "Will be"])
    show_table(frame, alt="What would change, in which columns", key="many-preview")
    if len(told) > _MOST_LINES:
        note(f"And {numbered(len(told) - _MOST_LINES, 'more change')} of this kind.")


def _apply(change: _Change) -> None:
    held = draft()
    held["columns"], held["domain_source"], undo = applied(
        held["columns"], held["domain_source"], change.after, source=change.source
    )
    st.session_state[_done_key()] = [*_done(), undo][-_MOST_UNDONE:]
    _begin_anew()


def _done_key() -> str:
    return f"many-done:{draft()['table_id']}"


def _done() -> list[Applied]:
    """Return what was applied to the columns of this table and can be undone."""
    done: list[Applied] = st.session_state.get(_done_key(), [])
    return done


def _begin_anew() -> None:
    st.session_state[_ROUND] = st.session_state.get(_ROUND, 0) + 1
    renew_editor()


def _undo_line() -> None:
    """Say what was applied last, and offer to undo it as a whole."""
    done = _done()
    if not done:
        return
    words, button = st.columns([6, 1], vertical_alignment="center")
    told = differences(list(done[-1].before.values()), done[-1].after)
    kinds = list(dict.fromkeys(one.then for one in told))
    became = kinds[0] if len(kinds) == 1 else f"{len(kinds)} different declarations"
    words.success(f"Set in {numbered(len(done[-1].after), 'column')}: {plain(became)}.")
    button.button("Undo", key="many-undo", on_click=_undo, help="Columns that you have changed since stay as they are.")


def _undo() -> None:
    held, done = draft(), _done()
    held["columns"], held["domain_source"], _ = undone(held["columns"], held["domain_source"], done[-1])
    st.session_state[_done_key()] = done[:-1]
    _begin_anew()
