"""What is not as declared in a table: told before anything is spent, and waited for where most would be lost."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import streamlit as st

from pages.ui.evidence import badge
from pages.ui.words import note, plain
from synth.errors import NotAsDeclaredError
from synth.services.intake import Reading

_WAITING, _TOLD = "waiting-for-word", "not-as-declared"


def ask_to_look(key: str) -> bool:
    """Ask whether the owner wants to know what would be lost, which is recorded as a look at the rows."""
    return st.checkbox(
        "Tell me first what of the table would be lost",
        True,
        key=key,
        help="The table is read once as declared, and you are told, before anything is spent, which columns and lines "
        "are not. This is recorded as a look at your rows: if you then run another configuration, its certificate says "
        "that it was chosen after looking.",
    )


def start_unless_lost(
    start: Callable[[Reading], str], *, pressed: bool, look: bool = True, about: object, label: str
) -> str | None:
    """Start what is charged, and return its id; where most would be lost, say what and wait for another button.

    Parameters
    ----------
    start : callable
        Reads the table once, reserves and starts.
    pressed : bool
        Whether the owner has just asked for it.
    look : bool
        Whether the owner wants to be told.
    about : object
        What is started: a word is waited for only as long as it is the same.
    label : str
        What is on the button that was pressed.
    """
    told: list[str] = []
    waiting = st.session_state.get(_WAITING)
    begun = None
    if pressed:
        try:
            begun = start(Reading(look, tell=told.append))
        except NotAsDeclaredError as error:
            waiting = st.session_state[_WAITING] = (about, error.lines)
    if begun is None and waiting is not None and waiting[0] == about:
        badge("owner_only")
        st.warning("Most would be lost of the table as it is declared. Nothing was spent.")
        _draw(waiting[1])
        note("What follows --format is a setting of how the file is written, on 1 Upload.")
        if st.button(f"{label} as declared", key="as-declared"):
            begun = start(Reading(as_declared=True, tell=told.append))
    if begun is not None:
        st.session_state.pop(_WAITING, None)
        st.session_state[_TOLD] = (begun, tuple(told))
    return begun


def draw_losses(begun: str) -> None:
    """Say again what was not as declared in the table of a run or a finding that this session started."""
    told = st.session_state.get(_TOLD)
    if told is not None and told[0] == begun and told[1]:
        badge("owner_only")
        st.warning("Not everything in the table is as declared.")
        _draw(told[1])


def _draw(lines: Sequence[str]) -> None:
    st.markdown("\n".join(f"- {plain(line)}" for line in lines))
