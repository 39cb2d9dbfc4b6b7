"""A table of a database, or some of its rows, taken in as a file would be."""

from __future__ import annotations

from typing import Any

import streamlit as st

from pages.ui.draft import take_table
from pages.ui.notations import listed
from pages.ui.session import application, draft, refuse, show_refusal
from pages.ui.words import note, plain
from synth.errors import SynthError
from synth.schema import format_to_mapping, parse_format
from synth.schema.source import DatabaseSource, origin_sentences
from synth.services.databases import PasswordNeededError, connections_for, form_of_rows, refuse_unlisted

_TABLE, _VIEW, _QUERY = "A table, or some of its rows", "A view", "My own query (SQL)"
_BY_ADDRESS = "another, by its address"
_PASSWORD = "database-password"  # noqa: S105
_DATABASE = tuple(
    f"database-{name}" for name in ("connection", "url", "what", "table", "schema", "columns", "where", "sql")
)
"""What is kept of the panel with the draft: everything but the password."""

_CAUTION = "database-caution"
"""What there is to know of a database that a table of this session came from, with the id of the table."""


def database_panel(account: str | None) -> None:
    """Take a table in from a database; nothing is drawn if the server allows none."""
    settings = application().settings
    named = [one.name for one in connections_for(settings)]
    if not settings.databases and not named:
        return
    held = draft()
    for key, typed in held["database"].items():
        if key in _DATABASE:
            st.session_state.setdefault(key, typed)
    is_begun = any(st.session_state.get(f"database-{key}") for key in ("url", "table"))
    with st.expander("From a database (PostgreSQL or SQLite)", expanded=is_begun):
        place, password = _place(named, settings.databases)
        choices = [_TABLE, _VIEW] if "connection" in place else [_TABLE, _VIEW, _QUERY]
        if st.session_state.get("database-what") not in choices:
            st.session_state["database-what"] = _TABLE
        what = st.radio(
            "What to read",
            choices,
            key="database-what",
            horizontal=True,
            help="A view or a query can join tables or aggregate rows. What it does cannot be checked, so the "
            "certificate states what is assumed about it.",
        )
        said = _query() if what == _QUERY else _table(is_view=what == _VIEW)
        is_said = all(place.values()) and any(said.get(key) for key in ("table", "view", "sql"))
        if account is None:
            note("Say above whose table it is, then it can be read.")
        elif st.button("Read the table", key="database-read", disabled=not is_said):
            _receive_from({**place, **said}, password, account)
        show_refusal("database")
    held["database"] = _typed(held["database"])


def show_caution(table_id: str) -> None:
    """Say what there is to know of the database that a table came from, as long as this session lasts."""
    told_of, sentence = st.session_state.get(_CAUTION, (None, ""))
    if told_of == table_id:
        st.warning(plain(sentence))


def _place(named: list[str], listed_places: tuple[str, ...]) -> tuple[dict[str, str], str | None]:
    """Ask which database is meant: one that the administrator has named or, where that is allowed, any address."""
    if named:
        choices = [*named, *([_BY_ADDRESS] if listed_places else [])]
        if st.session_state.get("database-connection", choices[0]) not in choices:  # it is there no more
            del st.session_state["database-connection"]
        chosen = st.selectbox(
            "Database",
            choices,
            key="database-connection",
            help="Set up by the administrator of this server. You need no password.",
        )
        if chosen != _BY_ADDRESS:
            note("It is only read; tables are encrypted on arrival.")
            return {"connection": str(chosen)}, None
    note(
        f"This server may read from {plain(', '.join(listed_places))}. It only reads; tables are encrypted on arrival."
    )
    left, right = st.columns([3, 1])
    url = left.text_input(
        "Address",
        placeholder="postgresql://reader@db.example.org:5432/clinic, or sqlite:////data/clinic.sqlite",
        key="database-url",
        help="Without the password. Use a login that can only read.",
    )
    password = right.text_input("Password", type="password", key=_PASSWORD, help="It is not stored.")
    return {"url": url.strip()}, password or None


def _typed(before: dict[str, Any]) -> dict[str, Any]:
    """Return what was typed; an address with a password in it is kept nowhere, nor what is typed beside it."""
    # What the other way of reading asks is not on the page now, and stays as it was.
    typed = {**before, **{key: st.session_state[key] for key in _DATABASE if key in st.session_state}}
    if typed.get("database-url"):
        try:
            DatabaseSource(url=typed["database-url"].strip(), table="any")
        except SynthError:
            return before
    elif typed.get("database-connection", _BY_ADDRESS) == _BY_ADDRESS:
        return {}
    return {key: said for key, said in typed.items() if said}


def _table(*, is_view: bool) -> dict[str, Any]:
    left, middle, right = st.columns(3)
    name = left.text_input(
        "View" if is_view else "Table", placeholder="visits", key="database-table", help="Its name in the database."
    )
    schema = middle.text_input(
        "Schema, if it has one",
        placeholder="public",
        key="database-schema",
        help="Leave empty for the default schema.",
    )
    columns = right.text_input(
        "Columns, separated by commas", placeholder="all of them", key="database-columns", help="Only these are read."
    )
    where = st.text_input(
        "Only rows that meet this condition",
        placeholder="age >= 18 AND town IN ('north', 'south')",
        key="database-where",
        help="A condition on one row: columns, constants, comparisons, AND, OR, NOT, IN, BETWEEN, LIKE, IS NULL.",
    )
    if is_view or where:
        _assumed("view" if is_view else "selection")
    return {
        "view" if is_view else "table": name.strip() or None,
        "schema": schema.strip() or None,
        "columns": tuple(listed(columns)),
        "where": where or None,
    }


def _query() -> dict[str, Any]:
    sql = st.text_area(
        "SELECT statement",
        placeholder="SELECT person, age, town FROM visits JOIN people USING (id)",
        key="database-sql",
        help="Each row of its result must be about one person only (or one of whatever you protect).",
    )
    _assumed("query")
    return {"sql": sql.strip() or None}


def _assumed(origin: str) -> None:
    """Say before anything is read what the certificate will say."""
    for sentence in origin_sentences(origin):
        st.info(f"The certificate will say: Assumed: {sentence}")


def _receive_from(said: dict[str, Any], password: str | None, account: str) -> None:
    held = draft()
    try:
        source = DatabaseSource(**said)
        refuse_unlisted(source, application().settings)
        form = form_of_rows(source, parse_format({"missing": list(held["format"].get("missing", [""]))}))
        with st.spinner("Reading the table and encrypting it"):
            table = application().intake.receive_from(source, password, account, form)
    except PasswordNeededError:
        refuse("database", "The database asks for a password. Type it beside the address.")
    except SynthError as error:
        refuse("database", str(error))
    else:
        st.session_state.pop(_PASSWORD, None)
        if table.caution is not None:
            st.session_state[_CAUTION] = (table.table_id, table.caution)
        # Test rows are a file, in a format of its own.
        held["test_format"] = held["test_format"] or {**held["format"], "kind": "auto"}
        held["format"] = format_to_mapping(form)
        take_table(held, table.table_id, table.account, [(column.name, column.kind) for column in table.columns])
    st.rerun()
