"""Rehearse, between 3 Budget and 4 Generate: the same run on public or simulated rows; optional and free."""

from __future__ import annotations

import streamlit as st

from pages.ui.draft import config_of
from pages.ui.entrance import through_the_application
from pages.ui.guards import require
from pages.ui.rehearsal import rehearsal
from pages.ui.session import draft, go
from synth.reports.stand_in import REHEARSAL_SENTENCE

__all__ = ["screen"]


def screen() -> None:
    """Draw the screen."""
    st.title("Rehearse")
    require("table")
    require("description")
    st.markdown(
        "Practice on a stand-in: a run is made from rows that are nobody's to protect, and every attack is tried on "
        f"what comes out. **{REHEARSAL_SENTENCE}**"
    )
    rehearsal(config_of(draft()))

    st.divider()
    if st.button("Continue to 4 Generate", type="primary", key="continue-generate"):
        go("generate")


if __name__ == "__main__":
    through_the_application()
    screen()
