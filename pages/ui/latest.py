"""The latest tables and runs of this installation, offered where none is open; named only where they are asked for."""

from __future__ import annotations

from datetime import datetime

import streamlit as st

from pages.ui.session import application, go, in_their_zone, open_draft, open_run
from pages.ui.words import note, plain, stated
from synth.services.views import RunState, RunView
from synth.store import SavedDraft

MOST_LISTED = 10
"""Of each kind."""

STATES: dict[RunState, str] = {
    "queued": "waiting",
    "running": "running",
    "unchecked": "not checked yet",
    "reported": "report ready",
    "released": "released",
    "failed": "failed",
    "cancelled": "cancelled",
}

_LISTED = "begun listed"


def latest_work(label: str = "Continue where you left off") -> None:
    """Offer saved work and runs; names of tables are shown only in the tab that asks for them."""
    if not st.session_state.get(_LISTED):
        if st.button(label, key="list-begun", help="Lists the latest tables and runs on this server."):
            st.session_state[_LISTED] = True
            st.rerun()
        return
    st.header("The latest tables and runs")
    tables, runs = _begun(), application().latest_runs(MOST_LISTED)
    if not tables and not runs:
        note("No saved work on this server.")
    for name, identifier, words, saved in tables:
        if _line(words, "Saved", saved, "Continue", key=f"go-on:{identifier}"):
            open_draft(name, identifier)
            go("describe" if name == "table" else "upload")
    for run in runs:
        if _line(_words_of_run(run), "Started", run.created, "Open", key=f"open-run:{run.run_id}"):
            open_run(run.run_id)
            go("report" if run.state in {"reported", "released"} else "generate")


def _line(words: str, verb: str, moment: datetime, button: str, *, key: str) -> bool:
    """Draw a line of the list; return whether it was chosen, which folds the list."""
    said, when, place = st.columns([5, 2, 1], vertical_alignment="center")
    said.markdown(words)
    note(f"{verb} {in_their_zone(moment):%d %B %Y, %H:%M}", when)
    chosen = place.button(button, key=key)
    if chosen:
        st.session_state.pop(_LISTED)
    return bool(chosen)


def _begun() -> list[tuple[str, str, str, datetime]]:
    """Return the saved work, latest first: its kind, its id, a description, and when it was saved."""
    drafts = [("table", one) for one in application().drafts.latest(MOST_LISTED)]
    drafts += [("begun", one) for one in application().begun.latest(MOST_LISTED)]
    return [
        (name, one.table_id, _words_of_draft(name, one), one.saved)
        for name, one in sorted(drafts, key=lambda pair: pair[1].saved, reverse=True)[:MOST_LISTED]
    ]


def _words_of_draft(name: str, one: SavedDraft) -> str:
    table = application().intake.name_of(one.table_id) if name == "table" else "no table yet"
    columns = len(one.body.get("columns", {}))
    many = f" · {columns:,} column{'s' if columns > 1 else ''}" if columns else ""
    described = " · described" if one.body.get("described") else ""
    return f"**{plain(table)}** · {plain(one.body.get('account') or 'people not named yet')}{many}{described}"


def _words_of_run(run: RunView) -> str:
    table = f" of **{plain(run.table_name)}**" if run.table_name else ""
    return f"Run {run.run_id[:8]}{table} · {plain(run.account)} · ε = {stated(run)} · {STATES[run.state]}"
