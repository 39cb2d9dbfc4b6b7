"""A table of a database in place of a file: which one, which rows of it, and what a query of one's own assumes."""

from __future__ import annotations

from typing import Any

import streamlit as st

from pages.ui.draft import take_table
from pages.ui.session import application, draft
from pages.ui.words import note, plain
from synth.errors import SynthError
from synth.schema import format_to_mapping, parse_format
from synth.schema.source import DatabaseSource, origin_sentences
from synth.services.databases import PasswordNeededError, form_of_rows, refuse_unlisted

__all__ = ["database_panel"]

_TABLE, _QUERY = "A table, or some of its rows", "A query of my own (SQL)"
_PASSWORD = "database-password"  # noqa: S105
_TYPED = tuple(f"database-{name}" for name in ("url", "what", "table", "schema", "columns", "where", "sql"))
"""What is kept of the panel with the draft: everything but the password."""


def database_panel(account: str) -> None:
    """Take a table in from a database; nothing is drawn where whoever runs the server lists none."""
    listed = application().settings.databases
    if not listed:
        return
    held = draft()
    for key, typed in held["database"].items():
        if key in _TYPED:
            st.session_state.setdefault(key, typed)
    with st.expander("From a database (PostgreSQL or SQLite)", expanded=bool(st.session_state.get("database-url"))):
        note(f"This server may read from {plain(', '.join(listed))}. It only reads, and encrypts the table on its way.")
        left, right = st.columns([3, 1])
        url = left.text_input(
            "Address",
            placeholder="postgresql://reader@db.example.org:5432/clinic, or sqlite:////data/clinic.sqlite",
            key="database-url",
            help="Without the password. Use a name that may do nothing but read.",
        )
        password = right.text_input("Password", type="password", key=_PASSWORD, help="It is kept nowhere.")
        what = st.radio(
            "What is read",
            [_TABLE, _QUERY],
            key="database-what",
            horizontal=True,
            help="A query joins tables or counts rows. What it does cannot be checked, so the certificate says what is "
            "assumed of it.",
        )
        said = _query() if what == _QUERY else _table()
        if st.button(
            "Read the table", key="database-read", disabled=not url or not (said.get("table") or said.get("sql"))
        ):
            _receive({"url": url.strip(), **said}, password or None, account)
        if "database-refusal" in st.session_state:
            st.error(plain(st.session_state.pop("database-refusal")))
    held["database"] = _kept(held["database"])


def _kept(before: dict[str, Any]) -> dict[str, Any]:
    """Return what was typed; an address with a password in it is kept nowhere, nor what is typed beside it."""
    # What the other way of reading asks is not on the page now, and stays as it was.
    typed = {**before, **{key: st.session_state[key] for key in _TYPED if key in st.session_state}}
    if not typed.get("database-url"):
        return {}
    try:
        DatabaseSource(url=typed["database-url"].strip(), table="any")
    except SynthError:
        return before
    return {key: said for key, said in typed.items() if said}


def _table() -> dict[str, Any]:
    left, middle, right = st.columns(3)
    table = left.text_input(
        "Table", placeholder="visits", key="database-table", help="Its name in the database. A view is no table."
    )
    schema = middle.text_input(
        "Schema, if it has one",
        placeholder="public",
        key="database-schema",
        help="The part of the database that holds the table; empty means the usual one.",
    )
    columns = right.text_input(
        "Columns, separated by commas", placeholder="all of them", key="database-columns", help="Others are not read."
    )
    where = st.text_input(
        "Only rows for which this holds",
        placeholder="age >= 18 AND town IN ('north', 'south')",
        key="database-where",
        help="A condition on one row: columns, constants, comparisons, AND, OR, NOT, IN, BETWEEN, LIKE, IS NULL.",
    )
    if where:
        _assumed("selection")
    names = tuple(name.strip() for name in columns.split(",") if name.strip())
    return {"table": table.strip() or None, "schema": schema.strip() or None, "columns": names, "where": where or None}


def _query() -> dict[str, Any]:
    sql = st.text_area(
        "One SELECT",
        placeholder="SELECT person, age, town FROM visits JOIN people USING (id)",
        key="database-sql",
        help="Each row of its result has to be about one person (or whatever you protect) alone.",
    )
    _assumed("query")
    return {"sql": sql.strip() or None}


def _assumed(origin: str) -> None:
    """Say before anything is read what the certificate will say."""
    for sentence in origin_sentences(origin):
        st.info(f"The certificate will say: Assumed: {sentence}")


def _receive(said: dict[str, Any], password: str | None, account: str) -> None:
    held = draft()
    try:
        source = DatabaseSource(**said)
        refuse_unlisted(source, application().settings.databases)
        form = form_of_rows(source, parse_format({"missing": list(held["format"].get("missing", [""]))}))
        with st.spinner("Reading the table and encrypting it"):
            table = application().receive_from(source, password, account, form)
    except PasswordNeededError:
        st.session_state["database-refusal"] = "The database asks for a password. Type it beside the address."
    except SynthError as error:
        st.session_state["database-refusal"] = str(error)
    else:
        del st.session_state[_PASSWORD]
        # Test rows are a file, in a format of its own.
        held["test_format"] = held["test_format"] or {**held["format"], "kind": "auto"}
        held["format"] = format_to_mapping(form)
        take_table(held, table.table_id, table.account, [(column.name, column.kind) for column in table.columns])
    st.rerun()
