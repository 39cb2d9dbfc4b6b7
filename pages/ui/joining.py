"""A second table of the same people: where it comes in, what both are called, and by which column they are joined."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, replace

import streamlit as st

from pages.server.uploads import incoming, ticket_of
from pages.ui.draft import take_joined
from pages.ui.format_form import FORM_OPEN, format_form
from pages.ui.session import (
    TABLE_TYPES,
    application,
    draft,
    forget_uploads,
    forget_widgets,
    refuse,
    show_refusal,
    uploader_key,
)
from pages.ui.words import note, plain
from synth.errors import SchemaError, SynthError, TableError
from synth.names import visible
from synth.schema import LinkedTables, parse_format
from synth.schema.schema import is_table_name
from synth.services.views import ReceivedTable

_SECOND = "second-file"
"""Where the session keeps a :class:`SecondFile`."""

_OPEN = "second-open"
_FIRST_NAME, _SECOND_NAME, _KEY = "second-first-name", "second-second-name", "second-key"
_TITLE = "Do these people have rows in a second table? For example visits of patients"


@dataclass(frozen=True, slots=True)
class SecondFile:
    """A second table that is here, encrypted, until it is joined to the stored one.

    Attributes
    ----------
    ticket : bytes
        What it is claimed by.
    name : str
    keys : tuple of str
        Columns of the stored table that it has too; none while it cannot be read in the present format.
    """

    ticket: bytes
    name: str
    keys: tuple[str, ...] = ()


def second_table(table: ReceivedTable) -> None:
    """Offer to join a second table to the stored one, which is the first; folded until a file is there."""
    held: SecondFile | None = st.session_state.get(_SECOND)
    with st.expander(_TITLE, expanded=held is not None or st.session_state.pop(_OPEN, False)):
        if "origin" in draft()["format"]:
            note(
                "This table came from a database. Let a query join both there, or save both tables as files and upload "
                "the one with a row for each person first."
            )
            return
        if held is None:
            _as_before()
            _uploader(table)
        else:
            _join_form(held, table)


def _uploader(table: ReceivedTable) -> None:
    name = plain(table.name)
    st.markdown(
        f"{name} then has one row for each person, and the second table has any number of rows for each: none, one or "
        "several. One column, which both have under the same name, says whose row it is. You get two synthetic tables "
        "back whose keys fit, and one promise covers both."
    )
    limit = application().settings.maximum_upload_bytes // 2**20
    uploaded = st.file_uploader(
        f"Second table, written as the first one is, at most {limit} MB",
        type=TABLE_TYPES,
        key=uploader_key("second"),
        max_upload_size=limit,
        help="Separator, encoding, dates and missing-value codes are the same in both files. One may be a CSV file and "
        "the other a Parquet file or a workbook.",
    )
    show_refusal("second")
    if uploaded is not None:
        _look_for_keys(SecondFile(ticket_of(uploaded), uploaded.name), table)


def _look_for_keys(held: SecondFile, table: ReceivedTable) -> None:
    """Read which columns both have; a file that other settings of the format may mend stays where it is."""
    st.session_state.pop(_SECOND, None)
    st.session_state[_OPEN] = True
    try:
        with (
            st.spinner("Checking the header"),
            incoming().claim(held.ticket, keep=True) as stream,
        ):
            keys = application().intake.keys_with(table.table_id, stream, parse_format(draft()["format"]))
    except SynthError as error:
        refuse("second", str(error))
        if isinstance(error, TableError) and error.key is None:
            forget_uploads()
        else:
            _keep(replace(held, keys=()))
            st.session_state[FORM_OPEN] = True
    else:
        _keep(replace(held, keys=keys))
        st.session_state[FORM_OPEN] = False
    st.rerun()


def _keep(held: SecondFile) -> None:
    st.session_state[_SECOND] = held
    draft()["joining"].setdefault("format", draft()["format"])
    forget_uploads(keep=held.ticket)


def _join_form(held: SecondFile, table: ReceivedTable) -> None:
    words, discard = st.columns([5, 1], vertical_alignment="center")
    words.markdown(f"**{plain(held.name)}** is here, encrypted.")
    if discard.button("Discard it", key="forget-second"):
        _discard()
    show_refusal("second")
    if held.keys:
        _ask_to_join(held, table)
    elif st.button("Read it again", key="second-again", type="primary", help="As 'File format' says now."):
        _look_for_keys(held, table)
    format_form()
    note("The format is that of both files.")


def _discard() -> None:
    st.session_state.pop(_SECOND, None)
    st.session_state[_OPEN] = True
    forget_uploads()
    st.rerun()


def _as_before() -> None:
    """Let the stored table be read as before a second file came, whose format may have been another one."""
    held = draft()
    if "format" in held["joining"]:
        held["format"] = held["joining"].pop("format")
        forget_widgets()


def _ask_to_join(held: SecondFile, table: ReceivedTable) -> None:
    said = draft()["joining"]
    left, right = st.columns(2)
    names = (said.get("first") or _proposed(table.name), said.get("second") or _proposed(held.name))
    first = left.text_input(
        f"What {plain(table.name)} is called",
        names[0],
        placeholder="patients",
        key=_FIRST_NAME,
        help="The synthetic tables are called so, and so are their files. Published.",
    ).strip()
    second = right.text_input(
        f"What {plain(held.name)} is called", names[1], placeholder="visits", key=_SECOND_NAME
    ).strip()
    proposed = said.get("key") if said.get("key") in held.keys else held.keys[0] if len(held.keys) == 1 else None
    key = st.selectbox(
        "Which column says whose row it is, in both tables?",
        held.keys,
        index=None if proposed is None else held.keys.index(proposed),
        placeholder="Choose a column that both have",
        format_func=visible,
        key=_KEY,
        help="Its values are never published: synthetic people get new ones, the same in both tables.",
    )
    problem = _problem(first, second, key)
    if problem is not None:
        note(problem)
    if st.button("Join both tables", key="join-tables", type="primary", disabled=problem is not None):
        _join(held, LinkedTables(first, second, str(key)), table)


def _proposed(file_name: str) -> str:
    """Return what a table may be called by the name of its file, or nothing where that does not fit."""
    stem = re.sub(r"[^A-Za-z0-9_-]+", "_", file_name.rpartition("/")[2].partition(".")[0]).strip("_")
    return stem if is_table_name(stem) else ""


def _problem(first: str, second: str, key: str | None) -> str | None:
    """Return what has to be said before the tables can be joined."""
    if not first or not second:
        return "Say what the two tables are called."
    if key is None:
        return "Choose the column that says whose row it is."
    try:
        LinkedTables(first, second, key)
    except SchemaError as error:
        return plain(str(error).removeprefix("tables: "))
    return None


def _join(second: SecondFile, tables: LinkedTables, table: ReceivedTable) -> None:
    """Join both tables; what is refused stays where it is, and the first table as it was."""
    held = draft()
    held["joining"].update(asdict(tables))
    try:
        with (
            st.spinner("Joining and encrypting both tables"),
            incoming().claim(second.ticket, keep=True) as stream,
        ):
            joined = application().intake.join(table.table_id, stream, tables, parse_format(held["format"]))
    except SynthError as error:
        refuse("second", str(error))
        st.session_state[FORM_OPEN] = isinstance(error, TableError) and bool(error.key)
        forget_uploads(keep=second.ticket)
    else:
        columns = [(column.name, column.kind) for column in joined.columns]
        take_joined(held, joined.table_id, columns, tables, [column.name for column in table.columns])
        st.session_state.pop(_SECOND, None)
        forget_widgets()
        forget_uploads()
    st.rerun()
