"""Long work in the background: a button that says what it costs, then progress that can be left and stopped."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import streamlit as st

from pages.ui.guards import guard
from pages.ui.words import note, plain
from synth.store import Work, WorkState


@dataclass(frozen=True, slots=True)
class LongWork:
    """What can be followed and stopped, and how it is spoken of."""

    standing: Callable[[], Work | None]
    cancel: Callable[[], None]
    stop_label: str
    steps: str
    after_stop: str = "Stopped. The numbers above are unchanged."


def follow_work(work: LongWork, *, stop_key: str) -> bool:
    """Show how far the work is, or how it ended where that has to be said; return whether it is going on."""
    where = work.standing()
    if where is not None and where.is_active:
        _going_on(work, stop_key)
        return True
    if where is not None and where.state is WorkState.FAILED:
        st.error(plain(where.message))
    if where is not None and where.state is WorkState.CANCELLED:
        st.info(work.after_stop)
    return False


@st.fragment(run_every=1.0)
@guard()
def _going_on(work: LongWork, stop_key: str) -> None:
    where = work.standing()
    if where is None or not where.is_active:
        # One run of the whole page: it draws the new numbers without a timer.
        st.rerun()
        return
    phase = where.phase or "Starting"
    text = f"{phase}: {where.step} of {where.steps} {work.steps}" if where.steps else phase
    st.progress(where.step / where.steps if where.steps else 0.0, text=text)
    note("You can close this page. The work continues; come back here to see it.")
    if st.button(work.stop_label, key=stop_key):
        work.cancel()
        st.rerun()
