"""Guards: the one way in, what a page needs before it can be used, and what happens to an error.

A :class:`~synth.errors.SynthError` is shown in its own words. Anything else becomes an incident number: its kind and
the place in the code are logged, its text never is, because libraries quote cells in their messages.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Literal

import streamlit as st
from streamlit.runtime.pages_manager import PagesManager

from pages.ui.latest import latest_work
from pages.ui.session import application, draft, own_table, whole_application
from pages.ui.words import plain
from synth.errors import DatabaseAwayError, SynthError
from synth.services.incidents import code_location, own_error, record_incident
from synth.services.views import RunState

INCIDENT_TEXT = (
    "Something went wrong. Nothing from your table was shown or logged. Give this number to the person who "
    "runs this server: incident {incident}."
)

Step = Literal["table", "description", "run", "report", "release"]

_MISSING: dict[Step, tuple[str, str, str]] = {
    "table": ("No table is open. Upload one, or try the demo table.", "upload", "1 Upload"),
    "description": ("The table is not described yet. Declare first what is public about it.", "describe", "2 Describe"),
    "run": ("There is no run of this table yet. Choose a generator and start one.", "generate", "4 Generate"),
    "report": ("The report is not ready yet. It is built at the end of the run.", "generate", "4 Generate"),
    "release": ("Nothing has been released yet. Read the report, then seal the release.", "release", "6 Release"),
}
_NO_RUN = ("No run is open. Upload a table, or try the demo table.", "upload", "1 Upload")
_STOPPED = ("This run stopped before it had a report.", "generate", "4 Generate, which says why")
_WITHOUT_REPORT: dict[RunState, tuple[str, str, str]] = {
    "failed": _STOPPED,
    "cancelled": _STOPPED,
    "unchecked": ("The bundle of this run is not checked yet.", "generate", "4 Generate, where it is checked again"),
}


def through_the_application() -> None:
    """Run the application instead, where Streamlit opened this file by itself.

    Until ``st.navigation`` has run once, Streamlit takes the folder ``pages`` for its own and runs a file in it without
    app.py: after a restart, a reload of any screen would run outside the guard, and an error would be logged with its
    text.
    """
    if PagesManager.uses_pages_directory:
        PagesManager.uses_pages_directory = False
        st.rerun()


@contextmanager
def guard(*, away: Literal["show", "hide", "pass"] = "show") -> Iterator[None]:
    """Show an error instead of raising it; the run control of Streamlit passes through.

    Fragments, dialogs and callbacks run outside the guard of the page: ``@guard()`` gives each its own.

    Parameters
    ----------
    away : {"show", "hide", "pass"}
        What becomes of the sentence that the database does not answer, so that a page says it once: what stands beside
        the page hides it, one of several parts of a page passes it on to the guard of the page.
    """
    try:
        yield
    except DatabaseAwayError as error:
        if away == "pass":
            raise
        if away == "show":
            st.error(plain(error))
    except SynthError as error:
        st.error(plain(error))
    except Exception as error:
        full = own_error(error)
        st.error(plain(full) if full is not None else INCIDENT_TEXT.format(incident=_kept(error)))


def _kept(error: Exception) -> str:
    """Record an incident, for the list of the Admin page too where the database takes it; return its number."""
    incident = record_incident(error)
    with suppress(Exception):  # the database may be what failed
        whole_application().note_incident(incident, error)
    return incident


def require(step: Step) -> None:
    """Stop with a sentence and a link where an earlier screen has to come first; offer what was begun before."""
    if not _is_met(step):
        invite(*_what_is_missing(step))
        if draft()["table_id"] is None:
            latest_work("Show the latest tables and runs")
        st.stop()


def invite(text: str, page: str, label: str) -> None:
    """Say what a screen will show once there is something, and lead on to where it begins."""
    st.info(text)
    st.page_link(f"pages/{page}.py", label=f"Go to {label}")


def _what_is_missing(step: Step) -> tuple[str, str, str]:
    if step == "run" and draft()["table_id"] is None:
        return _NO_RUN
    if step == "report":
        state = application().run(draft()["run_id"]).state
        return _WITHOUT_REPORT.get(state, _MISSING[step])
    return _MISSING[step]


def _is_met(step: Step) -> bool:
    held = draft()
    if step == "table":
        return own_table() is not None
    if step == "description":
        return bool(held["described"])
    if held["run_id"] is None:
        return False
    if step == "run":
        return True
    state = application().run(held["run_id"]).state
    return state == "released" if step == "release" else state in {"reported", "released"}


def quiet_logs() -> None:
    """Keep the text of exceptions out of every log of this process; their kind and place remain."""
    made = logging.getLogRecordFactory()
    if getattr(made, "quiet", False):
        return

    def record(*args: object, **kwargs: object) -> logging.LogRecord:
        entry = made(*args, **kwargs)
        if entry.exc_info and entry.exc_info[1] is not None:
            error = entry.exc_info[1]
            entry.msg, entry.args = "%s at %s", (type(error).__name__, code_location(error))
            entry.exc_info = entry.exc_text = None
        elif isinstance(entry.args, tuple):
            entry.args = tuple(type(arg).__name__ if isinstance(arg, BaseException) else arg for arg in entry.args)
        return entry

    record.quiet = True  # type: ignore[attr-defined]
    logging.setLogRecordFactory(record)
