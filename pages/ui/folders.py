"""A table from a folder on the server: one file, or several that match a pattern, taken in as an upload would be."""

from __future__ import annotations

import time
from collections.abc import Callable

import streamlit as st

from pages.ui.draft import take_table
from pages.ui.format_form import FORM_OPEN
from pages.ui.session import application, draft, refuse, show_refusal
from pages.ui.words import note, plain, size_in_words
from synth.errors import SynthError, TableError
from synth.schema import DropColumn, parse_format
from synth.services.intake import Stage

_PATH = "folder-path"
_CANCELLED = "Cancelled. Nothing of the table was kept."


def folder_panel(account: str | None) -> None:
    """Take a table in from a listed folder; nothing is drawn if the operator listed none."""
    folders = application().settings.folders
    if not folders:
        return
    with st.expander("From a folder on this server", expanded=bool(st.session_state.get(_PATH))):
        note(
            f"This server may read tables in {plain(', '.join(folders))}. Several texts or Parquet files with the same "
            "columns are read as one table, in the order of their names."
        )
        path = st.text_input("Path of the file or files", placeholder=f"{folders[0]}/2024-*.parquet", key=_PATH)
        if account is None:
            note("Say above whose table it is, then it can be read.")
        elif st.button("Read and encrypt it", key="folder-read", disabled=not path.strip()):
            _receive(path, account)
        show_refusal("folder")


def _receive(path: str, account: str) -> None:
    held = draft()
    bar = st.progress(0.0, "Reading the names of the columns")
    # A click draws the page anew, which ends the reading at its next word about progress.
    st.button("Cancel", key="folder-cancel", on_click=_cancelled, args=(held["table_id"],))
    try:
        table = application().intake.receive_listed(
            path,
            account=account,
            table_format=parse_format(held["format"]),
            declared=[DropColumn(row["name"]) for row in held["columns"]],
            watch=_shown_by(bar.progress),
        )
    except TableError as error:
        refuse("folder", f"{error}{' Set it below, under File format.' if error.key else ''}")
        st.session_state[FORM_OPEN] = bool(error.key)
    except SynthError as error:
        refuse("folder", str(error))
    else:
        take_table(held, table.table_id, table.account, [(column.name, column.kind) for column in table.columns])
    st.rerun()


def _cancelled(before: str | None) -> None:
    """Say so, unless the table was kept before the click arrived."""
    if draft()["table_id"] == before:
        refuse("folder", _CANCELLED)


def _shown_by(show: Callable[[float, str], object]) -> Callable[[Stage, int, int | None], None]:
    """Return what shows how much is read, then how much is encrypted, several times a second."""
    shown = -_EVERY_SECONDS

    def watch(stage: Stage, done: int, of: int | None) -> None:
        nonlocal shown
        if time.monotonic() - shown >= _EVERY_SECONDS:
            shown = time.monotonic()
            words = size_in_words(done) if of is None else f"{size_in_words(done)} of {size_in_words(of)}"
            show(0.0 if of is None else min(1.0, done / max(1, of)), f"{words} {stage}")

    return watch


_EVERY_SECONDS = 0.2
