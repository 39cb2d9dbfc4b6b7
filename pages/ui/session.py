"""What one browser session holds: the draft, and identifiers that are also in the address; never a row."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import uuid4
from zoneinfo import ZoneInfo

import streamlit as st
from streamlit.delta_generator import DeltaGenerator
from streamlit.runtime.scriptrunner import get_script_run_ctx

from pages.server.uploads import incoming
from pages.ui.draft import (
    Draft,
    body_of,
    changed_answers,
    fill_from_body,
    fill_from_config,
    merged,
    new_draft,
    take_table,
)
from pages.ui.login import user_name
from pages.ui.words import note, plain
from synth.application import Application
from synth.errors import DatabaseAwayError, SynthError
from synth.ledger.rulings import Role
from synth.services.recognition import Recognised
from synth.services.views import ReceivedTable
from synth.store import Drafts, SavedDraft, now
from synth.system.settings import Settings

TABLE_TYPES = [
    *("csv", "tsv", "txt", "data", "dat", "gz", "parquet", "arrow", "feather", "xlsx", "xlsm", "xls", "xlsb", "ods"),
    *("sav", "zsav", "dta", "sas7bdat", "xpt"),
]
"""Endings of the files that are taken for tables."""

MOST_BUNDLE_MEGABYTES = 200
"""A bundle is held whole in the memory of the process that checks it."""

_FIELD = "field:"
_IDENTIFIERS = {"table": "table_id", "run": "run_id", "begun": "begun_id"}
_GONE = "table gone"
_USER = "user"

ANOTHER_RUN = "another-run"
"""Whether another run is being prepared, although one is open."""


@dataclass(frozen=True, slots=True)
class WaitingFile:
    """A file that is here, encrypted, until its owner has said whose it is, or has corrected its format.

    Attributes
    ----------
    ticket : bytes
        What it is claimed by.
    name : str
    refused : bool
        Whether it did not fit what the format says.
    may_start_with_row : bool
        Whether it was refused because its first line looks like a row.
    names_first : bool
        Whether its owner says that the first line holds names nonetheless.
    recognised : Recognised, optional
        How it seems to be written, where that differs from what the format says.
    looked : Recognised, optional
        What a look at its rows found, of which the format is in use.
    """

    ticket: bytes
    name: str
    refused: bool = False
    may_start_with_row: bool = False
    names_first: bool = False
    recognised: Recognised | None = None
    looked: Recognised | None = None

    @property
    def is_asked_about(self) -> bool:
        """Whether its owner has to say how it is written before it is read."""
        return self.refused or self.recognised is not None

    @property
    def is_looked_at(self) -> bool:
        """Whether its rows were looked at, which opened its account."""
        return self.looked is not None or (self.recognised is not None and self.recognised.looked)


@st.cache_resource(show_spinner=False)
def _application(home: str, database_url: str) -> Application:
    del home, database_url  # the key of the cache: another home is another application
    return Application.from_environment()


def whole_application() -> Application:
    """Return this process's application: handles to the store and the queue, no rows and no state of a session.

    It acts for the program itself; what a screen asks for goes through :func:`application`.
    """
    settings = Settings.from_environment()
    return _application(str(settings.home), settings.database_url)


def application() -> Application:
    """Return the application as the user of this session has it."""
    return whole_application().as_user(user_name())


def standing() -> tuple[frozenset[Role], bool]:
    """Return the roles of the user, and whether there is a single user.

    Where the installation cannot be opened, these are all: the screen itself says what is wrong, whichever it is.
    """
    try:
        access = application().access
        return access.roles, access.is_single_user
    except SynthError:
        return frozenset(Role), True


def keep_to_one_user() -> None:
    """Forget what a session holds where it is another user's now: a browser names the session it comes back to."""
    user = user_name()
    if st.session_state.setdefault(_USER, user) != user:
        st.session_state.clear()
        st.session_state[_USER] = user


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
    st.session_state.pop(_GONE, None)
    st.session_state.pop(ANOTHER_RUN, None)
    forget_widgets()


def open_run(run_id: str) -> None:
    """Open a run with its table, where that is still stored."""
    start_again()
    table_id = application().run(run_id).table_id
    st.session_state["left"] = [one for one in st.session_state["left"] if one not in (run_id, table_id)]
    if table_id is not None:
        _adopt("table", table_id)
    _adopt("run", run_id)
    forget_widgets()


def open_draft(name: str, identifier: str) -> None:
    """Continue what was begun: the draft of a ``table``, or one that was ``begun`` before a table came."""
    start_again()
    st.session_state["left"] = [one for one in st.session_state["left"] if one != identifier]
    _adopt(name, identifier)
    forget_widgets()


def own_table() -> ReceivedTable | None:
    """Return the table this session works on, or None where there is none or it was deleted."""
    table_id = draft()["table_id"]
    if table_id is None:
        return None
    table = _stored(table_id)
    if table is None:
        # Deleted by hand or by the retention timer: the description stays, the table has to be uploaded again.
        # It is not begun anew by that: what was saved about it went with it.
        st.session_state[_GONE] = True
        draft().update(table_id=None, described=False)
    return table


def _stored(table_id: str) -> ReceivedTable | None:
    try:
        table = application().intake.table(table_id)
    except DatabaseAwayError:
        raise  # it is not deleted, only out of reach
    except SynthError:
        return None
    return table if table.columns else None


def keep_address() -> None:
    """Keep the identifiers in the address, so that a reload finds the table and the run again.

    An identifier that comes by address is used only where the application knows it as one of this owner's; who is no
    owner opens none.
    """
    if Role.OWNER not in standing()[0]:
        for name in _IDENTIFIERS:
            st.query_params.pop(name, None)
        return
    held = draft()
    for name, field in _IDENTIFIERS.items():
        given = st.query_params.get(name)
        if held[field] is None and given is not None and given not in st.session_state.get("left", []):
            _adopt(name, given)
        if name == "run" and held["run_id"] is None and held["table_id"] is not None:
            # Opened again by its table, or started in another tab: what is paid for is not asked for anew.
            latest = application().latest_run(held["table_id"])
            if latest is not None:
                _adopt("run", latest)
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
                _restore(application().drafts, table.table_id)
        elif name == "begun":
            # If the address names a table too, it has arrived since.
            if held["table_id"] is None and application().begun.find(identifier) is not None:
                held["begun_id"] = identifier
                _restore(application().begun, identifier)
        else:
            run = application().run(identifier)
            held.update(run_id=run.run_id, account=held["account"] or run.account)
            if held["table_id"] is not None and _kept() is None:
                # The table was not described on these screens: the description comes from its run.
                fill_from_config(held, application().config_of(identifier))
                held["described"] = True
    except DatabaseAwayError:
        raise
    except SynthError:
        # Not one of this owner's, or deleted since: the address is forgotten without a word about which.
        return


# The draft is saved with its table ------------------------------------------------------------------------------------

_KEPT, _ELSEWHERE, _UNSAVED = "kept-draft", "changed-elsewhere", "unsaved-draft"

_MOST_TRIES = 5
"""Times that a draft is merged with what others save at the same moment; what is left comes with the next change."""


def _saved_as() -> str | None:
    """Return the id under which this session's draft is saved: its table's, or before there is one its own."""
    held = draft()
    identifier: str | None = held["table_id"] or held["begun_id"]
    return identifier


def _kept() -> SavedDraft | None:
    """Return what this session last saved of its draft."""
    kept: SavedDraft | None = st.session_state.get(_KEPT)
    return kept if kept is not None and kept.table_id == _saved_as() else None


def _restore(drafts: Drafts, identifier: str) -> None:
    found = drafts.find(identifier)
    if found is not None:
        fill_from_body(draft(), found.body)
        st.session_state[_KEPT] = found


@contextmanager
def keeping_draft() -> Iterator[None]:
    """Save what a page changes in the draft, however the page ends; draw it again with what came from elsewhere."""
    came = False
    try:
        yield
    finally:
        came = keep_draft()
    if came:
        st.rerun()


def keep_draft(*, merge: bool = True) -> bool:
    """Save the draft where it has changed; where another tab has saved since, the later change of an answer wins.

    Parameters
    ----------
    merge : bool
        False before a page has read its widgets: their contents would be lost with answers from elsewhere.

    Returns
    -------
    bool
        Whether answers from elsewhere have come into the draft.
    """
    held = draft()
    try:
        if not _has_a_place(held):
            return False
        came = _save(held, merge=merge)
        st.session_state.pop(_UNSAVED, None)
    except SynthError as error:
        # Nothing is lost: it stays in this session, and is saved with the next change.
        st.session_state[_UNSAVED] = str(error)
        return False
    if came:
        st.session_state[_ELSEWHERE] = came
        forget_widgets()
    return came > 0


def _has_a_place(held: Draft) -> bool:
    """Give a draft a place where it is saved, as soon as something was typed; return whether it has one."""
    if held["table_id"] is not None:
        st.session_state.pop(_GONE, None)
        if held["begun_id"] is not None:
            application().begun.forget(held["begun_id"])
            held["begun_id"] = None
        return True
    if held["begun_id"] is None and not st.session_state.get(_GONE) and body_of(held) != body_of(new_draft()):
        held["begun_id"] = begun = str(uuid4())
        st.query_params["begun"] = begun  # a reload may come before the page runs again
    return held["begun_id"] is not None


def _save(held: Draft, *, merge: bool) -> int:
    """Return how many answers came from elsewhere."""
    drafts = application().begun if held["table_id"] is None else application().drafts
    table_id, ours = str(_saved_as()), body_of(held)
    kept = _kept()
    number = drafts.number(table_id)
    if kept is None:
        # A table that this session has begun: what was saved of it before, if anything was, is begun again.
        kept = SavedDraft(table_id, number, {}, now())
    body = ours
    for _ in range(_MOST_TRIES):
        if number != kept.number:
            found = drafts.find(table_id)
            if not merge or found is None:
                return 0
            body, kept, number = merged(found.body, kept.body, body), found, found.number
        saved = kept if body == kept.body else drafts.save(table_id, copy.deepcopy(body), seen=number)
        if saved is not None:
            st.session_state[_KEPT] = saved
            came = changed_answers(ours, body)
            if came:
                fill_from_body(held, body)
            return came
        number = drafts.number(table_id)
        if number == kept.number:
            return 0  # the table was deleted meanwhile
    return 0


def say_when_saved(place: DeltaGenerator) -> None:
    """Say beside a title when the draft was last saved, or that it could not be."""
    kept = _kept()
    if _UNSAVED in st.session_state:
        place.warning("Not saved yet. What you typed is still here and will be saved with your next change.")
    elif kept is not None:
        right = place.container(horizontal=True, horizontal_alignment="right")
        note(f"Saved {in_their_zone(kept.saved):%H:%M}", right.container(width="content"))


def in_their_zone(moment: datetime) -> datetime:
    """Return a moment as clocks show it where the browser is."""
    try:
        return moment.astimezone(ZoneInfo(st.context.timezone or "UTC"))
    except (KeyError, ValueError):  # a browser may name a zone that this machine does not know
        return moment.astimezone(ZoneInfo("UTC"))


def say_what_changed_elsewhere() -> None:
    """Say once that answers of another tab have come into this one."""
    came = st.session_state.pop(_ELSEWHERE, 0)
    if came:
        many = f"{came} answers were" if came > 1 else "One answer was"
        st.info(f"{many} changed in another tab. The latest are shown here, together with your own changes.")


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
        keep_draft(merge=False)  # a part of a page that runs alone has no end at which it would be saved


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


def forget_uploads(*, keep: bytes | None = None) -> None:
    """Forget every upload of this session: the encrypted files, and the tickets that Streamlit keeps for them.

    The file whose ticket is ``keep`` stays where it is, encrypted, for as long as uploads wait.

    Streamlit keeps a ticket until *another* session ends. The call is undocumented, so the version of Streamlit is
    pinned and a test holds that they are gone.
    """
    for key in [key for key in st.session_state if str(key).startswith("upload:")]:
        del st.session_state[key]
    st.session_state["uploads"] = st.session_state.get("uploads", 0) + 1
    context = get_script_run_ctx()
    if context is not None:
        context.uploaded_file_mgr.remove_session_files(context.session_id)
        incoming().forget(context.session_id, keep=keep)


@contextmanager
def taking(where: str) -> Iterator[None]:
    """Take an upload in and draw the page again; whatever happened, the upload is forgotten by then.

    What refuses it is said where :func:`show_refusal` is called for ``where``.
    """
    try:
        yield
    except SynthError as error:
        refuse(where, str(error))
    finally:
        forget_uploads()
    st.rerun()


def refuse(where: str, sentence: str) -> None:
    """Keep a sentence until the page is drawn again."""
    st.session_state["refusal"] = (where, sentence)


def show_refusal(where: str) -> None:
    """Show once what was refused here before the page was drawn again."""
    if st.session_state.get("refusal", ("",))[0] == where:
        st.error(plain(st.session_state.pop("refusal")[1]))


def go(page: str) -> None:
    """Open another screen."""
    st.switch_page(f"pages/{page}.py")
