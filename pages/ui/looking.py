"""Look at the rows: what they propose for every undescribed column, recorded, and filled in once its owner confirms it.

Nothing that the look found is in the draft, or in the database, before that: it stays in this session.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pandas as pd
import streamlit as st

from pages.ui.column_rows import MODELLED_ROLES, described_as, host_of, is_proposed, row_of_mapping
from pages.ui.draft import Draft, take_table
from pages.ui.evidence import badge
from pages.ui.finding import open_names
from pages.ui.recognised import ask_open, column_in_words, evidence_of, format_lines
from pages.ui.session import application, draft, forget_widgets, renew_editor
from pages.ui.words import note, plain
from synth.names import listed, visible
from synth.schema import READ_FROM_ROWS, format_to_mapping
from synth.services.recognition import ColumnProposal, Recognised, Together

_LOOKED, _ROUND = "looked-at", "looked-round"
_MOST_NAMED = 6
_ROW_HEIGHT = 34
_MOST_LINES = 16


def offer_look(*, first: bool) -> None:
    """Offer to look at the rows, which is recorded; ``first`` where this is the way that is offered first."""
    st.markdown("**Look at your rows**" if first else "**Or look at your rows**")
    st.markdown(
        "Proposes everything at once: how the file is written, and for every column its role, rounded limits, and the "
        "categories that many rows hold. You then confirm what anyone could know."
    )
    if st.button(
        "Look at my rows and propose everything", key="look-at-rows", type="primary" if first else "secondary"
    ):
        held = draft()
        of_first = None if held["tables"] is None else held["tables"]["of_first"]
        with st.spinner("Looking at the rows"):
            keep_look(held["table_id"], application().intake.recognise_table(held["table_id"], of_first=of_first))
        st.rerun()
    note(
        "○ owner only: the look is recorded. The promise does not cover what you take from the rows; the certificate "
        "and the report name these columns."
    )


def keep_look(table_id: str, looked: Recognised) -> None:
    """Keep what a look at the rows of a table found, in this session."""
    st.session_state[_LOOKED] = (table_id, looked)
    _renew_lines()


def _renew_lines() -> None:
    """Let no line be ticked: a browser remembers ticks by their place, where other lines may stand now."""
    st.session_state[_ROUND] = st.session_state.get(_ROUND, 0) + 1


def proposals_of_look(held: Draft) -> Recognised | None:
    """Return what a look proposes for this table and is not filled in yet; None where there is nothing left."""
    table_id, looked = st.session_state.get(_LOOKED, (None, None))
    if looked is None or table_id != held["table_id"]:
        return None
    rows = held["columns"]
    # A column whose name comes with the proposed format is described by nobody yet.
    described = {row["name"] for row in rows} - {*open_names(rows), *(row["name"] for row in rows if is_proposed(row))}
    left = tuple(column for column in looked.columns if column.name not in described)
    return replace(looked, columns=left) if left else None


def seen_together(held: Draft) -> Together | None:
    """Return what a look at this table saw in the rows of one id, or None."""
    table_id, looked = st.session_state.get(_LOOKED, (None, None))
    return None if looked is None or table_id != held["table_id"] else looked.together_by(held["id_column"])


def show_look(held: Draft, looked: Recognised) -> bool:
    """Show what a look proposes, to be confirmed line by line or all at once.

    Returns
    -------
    bool
        Whether all of it was confirmed just now.
    """
    with st.container(border=True):
        st.markdown(
            "**Proposed from your rows; nothing is filled in yet.** By confirming a line you say that anyone could "
            "know it without this table."
        )
        badge("owner_only")
        format_lines(looked.proposals)
        ask_open(looked.proposals, _choose)
        lines = [
            [False, visible(column.name), column_in_words(column), evidence_of(column)] for column in looked.columns
        ]
        chosen = st.data_editor(
            pd.DataFrame(lines, columns=["take", "name", "said", "why"]),
            key=f"looked-lines:{st.session_state.get(_ROUND, 0)}",
            hide_index=True,
            disabled=["name", "said", "why"],
            column_config={
                "take": st.column_config.CheckboxColumn("Confirm", width=86),
                "name": st.column_config.TextColumn("Name", width=124),
                "said": st.column_config.TextColumn("Proposed", width=360),
                "why": st.column_config.TextColumn("Seen in the rows", width=360),
            },
            row_height=_ROW_HEIGHT,
            height=_ROW_HEIGHT * (min(len(lines), _MOST_LINES) + 1) + 3,
            alt="What the rows propose, one line for each column",
        )
        usable = [column for column in looked.columns if column.body]
        ticked = [column for column, take in zip(looked.columns, chosen["take"], strict=True) if take and column.body]
        if len(usable) < len(looked.columns):
            names = [column.name for column in looked.columns if not column.body]
            note(f"Answer what is open, or describe yourself: {plain(listed(names, _MOST_NAMED))}.")
        buttons = st.container(horizontal=True)
        confirmed = buttons.button(
            f"Confirm all {len(usable)} and continue to 3 Budget",
            type="primary",
            key="looked-all",
            disabled=not usable or bool(looked.open),
        )
        if buttons.button(
            f"Confirm the {len(ticked)} ticked", key="looked-take", disabled=not ticked or bool(looked.open)
        ):
            _take(held, looked, ticked)
            st.rerun()
        if buttons.button("Discard", key="looked-leave"):
            st.session_state.pop(_LOOKED)
            st.rerun()
    if confirmed:
        _take(held, looked, usable)
    return bool(confirmed)


def _choose(key: str, value: object) -> None:
    table_id, looked = st.session_state[_LOOKED]
    keep_look(table_id, looked.chosen(key, value))


def _take(held: Draft, looked: Recognised, columns: Sequence[ColumnProposal]) -> None:
    """Write confirmed proposals into the draft, with the format that they are about, and where they come from."""
    if looked.proposals:
        _read_as_proposed(held, looked)
    body_of = {column.name: column.body for column in columns}
    held["columns"] = [
        {**described_as(row, row_of_mapping(row["name"], body_of[row["name"]])), "proposed": ""}
        if row["name"] in body_of
        else row
        for row in held["columns"]
    ]
    taken = [row["name"] for row in held["columns"] if row["name"] in body_of and row["role"] in MODELLED_ROLES]
    held["domain_source"] = {**held["domain_source"], **dict.fromkeys(taken, READ_FROM_ROWS)}
    _renew_lines()
    renew_editor()


def _read_as_proposed(held: Draft, looked: Recognised) -> None:
    """Read the table in the proposed format from now on; its columns may have other names then."""
    table_id, whole = st.session_state[_LOOKED]
    table = application().intake.read_as(table_id, looked.form)
    held["format"] = {**held["format"], **format_to_mapping(looked.form)}
    # Two tables that were joined into one have given it its names.
    if held["tables"] is None and [column.name for column in table.columns] != [
        row["name"] for row in held["columns"] if not host_of(row)
    ]:
        take_table(held, table.table_id, table.account, [(column.name, column.kind) for column in table.columns])
    keep_look(table_id, replace(whole, proposals=()))
    forget_widgets()


def taken_columns(held: Draft) -> list[str]:
    """Return the columns whose ranges and categories were taken from the rows."""
    return [row["name"] for row in held["columns"] if held["domain_source"].get(row["name"]) == READ_FROM_ROWS]


def taken_note(names: Sequence[str]) -> None:
    """Say what the promise does not cover because it was taken from the rows; nothing where nothing was."""
    if names:
        st.info(
            f"Taken from the rows: the ranges and categories of {plain(listed(names, _MOST_NAMED))}. The promise does "
            f"not cover them; the certificate and the report say so."
        )
