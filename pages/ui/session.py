"""What one browser session holds: the draft, and identifiers that also stand in the address; never a row."""

from __future__ import annotations

from typing import Any

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

from pages.server.uploads import incoming
from pages.ui.draft import Draft, fill_from_config, new_draft, take_table
from synth.application import Application
from synth.errors import DatabaseAwayError, SynthError
from synth.services.views import ReceivedTable
from synth.system.settings import Settings

__all__ = [
    "MOST_BUNDLE_MEGABYTES",
    "TABLE_TYPES",
    "application",
    "bind",
    "draft",
    "editor_key",
    "forget_uploads",
    "forget_widgets",
    "go",
    "keep_address",
    "own_table",
    "renew_editor",
    "start_again",
    "uploader_key",
]

TABLE_TYPES = ["csv", "tsv", "txt", "data", "gz", "parquet"]
"""Endings of the files that are taken for tables."""

MOST_BUNDLE_MEGABYTES = 200
"""A bundle is held whole in the memory of the process that checks it."""

_FIELD = "field:"
_IDENTIFIERS = {"table": "table_id", "run": "run_id"}


@st.cache_resource(show_spinner=False)
def _application(home: str, database_url: str) -> Application:
    del home, database_url  # the key of the cache: another home is another application
    return Application.from_environment()


def application() -> Application:
    """Return this process's application: handles to the store and the queue, no rows and no state of a session."""
    settings = Settings.from_environment()
    return _application(str(settings.home), settings.database_url)


def draft() -> Draft:
    """Return this session's draft."""
    if "draft" not in st.session_state:
        st.session_state["draft"] = new_draft()
    held: Draft = st.session_state["draft"]
    return held


def start_again() -> None:
    """Forget the draft of this session; tables and runs stay where they are."""
    left = [draft()[field] for field in _IDENTIFIERS.values() if draft()[field] is not None]
    # The address still names what was left, and is not changed before the next run of the page.
    st.session_state["left"] = [*st.session_state.get("left", []), *left]
    st.session_state["draft"] = new_draft()
    forget_widgets()


def own_table() -> ReceivedTable | None:
    """Return the table this session works on, or None where there is none or it was deleted."""
    table_id = draft()["table_id"]
    if table_id is None:
        return None
    table = _stored(table_id)
    if table is None:
        # Deleted by hand or by the retention timer: the description stays, the table has to come again.
        draft().update(table_id=None, described=False)
    return table


def _stored(table_id: str) -> ReceivedTable | None:
    try:
        table = application().table(table_id)
    except DatabaseAwayError:
        raise  # it is not deleted, only out of reach
    except SynthError:
        return None
    return table if table.columns else None


def keep_address() -> None:
    """Keep the identifiers in the address, so that a reload finds the table and the run again.

    An identifier that comes by address is used only where the application knows it as one of this owner's.
    """
    held = draft()
    for name, field in _IDENTIFIERS.items():
        given = st.query_params.get(name)
        if held[field] is None and given is not None and given not in st.session_state.get("left", []):
            _adopt(name, given)
        if held[field] is None:
            st.query_params.pop(name, None)
        elif st.query_params.get(name) != held[field]:
            st.query_params[name] = held[field]


def _adopt(name: str, identifier: str) -> None:
    held = draft()
    try:
        if name == "table":
            table = _stored(identifier)
            if table is not None:
                take_table(held, table.table_id, table.account, [(c.name, c.kind) for c in table.columns])
        else:
            run = application().run(identifier)
            held.update(run_id=run.run_id, account=held["account"] or run.account)
            if held["table_id"] is not None:
                # After a reload the description comes back from the run that was made with it.
                fill_from_config(held, application().config_of(identifier))
                held["described"] = True
    except DatabaseAwayError:
        raise
    except SynthError:
        # Not one of this owner's, or deleted since: the address is forgotten without a word about which.
        return


def bind(field: str) -> dict[str, Any]:
    """Return the arguments that tie a widget to a field of the draft.

    The widget starts from the draft and writes to it before the page runs again; its own state is never read later.
    """
    key = _FIELD + field
    if key not in st.session_state:
        st.session_state[key] = draft()[field]
    return {"key": key, "on_change": _write_back, "args": (field,)}


def _write_back(field: str) -> None:
    if _FIELD + field in st.session_state:
        draft()[field] = st.session_state[_FIELD + field]


def forget_widgets() -> None:
    """Let every bound widget start from the draft again; used when the draft was filled by something else."""
    for key in [key for key in st.session_state if str(key).startswith(_FIELD)]:
        del st.session_state[key]
    renew_editor()


def editor_key() -> str:
    """Return the key of the table of columns."""
    return f"columns:{st.session_state.get('editor-round', 0)}"


def renew_editor() -> None:
    """Let the table of columns start from the draft again."""
    st.session_state["editor-round"] = st.session_state.get("editor-round", 0) + 1
    st.session_state.pop("editor-input", None)


def uploader_key(name: str) -> str:
    """Return the key of an uploader; it changes after every file, so the widget forgets the file."""
    return f"upload:{name}:{st.session_state.get('uploads', 0)}"


def forget_uploads() -> None:
    """Forget every upload of this session: the encrypted files, and the tickets that Streamlit keeps for them.

    Streamlit keeps a ticket until *another* session ends. The call is undocumented, so the version of Streamlit is
    pinned and a test holds that they are gone.
    """
    for key in [key for key in st.session_state if str(key).startswith("upload:")]:
        del st.session_state[key]
    st.session_state["uploads"] = st.session_state.get("uploads", 0) + 1
    context = get_script_run_ctx()
    if context is not None:
        context.uploaded_file_mgr.remove_session_files(context.session_id)
        incoming().forget(context.session_id)


def go(page: str) -> None:
    """Open another screen."""
    st.switch_page(f"pages/{page}.py")
