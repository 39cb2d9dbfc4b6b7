"""4 Generate: choose a generator, spend, and watch; a run goes on without the page."""

from __future__ import annotations

import streamlit as st

from pages.ui.entrance import through_the_application
from pages.ui.generators import generator_cards, options_form, output_form
from pages.ui.guards import guard, require
from pages.ui.kahm import kahm_panel
from pages.ui.runs import confirm_and_start, follow_run, list_runs
from pages.ui.session import application, draft

__all__ = ["screen"]


def screen() -> None:
    """Draw the screen."""
    st.title("Generate rows")
    held = draft()

    if held["run_id"] is not None and not st.session_state.get("another-run"):
        follow_run(held["run_id"])
        st.divider()
        if st.button("Prepare another run", key="another", help="Every run is charged to the same people."):
            st.session_state["another-run"] = True
            st.rerun()
    else:
        require("table")
        require("description")
        generator_cards()
        releases = held["generator"] != "kahm" or kahm_panel()
        options_form()
        output_form()
        if releases:
            # Its refusal does not hide the runs below.
            with guard():
                confirm_and_start()

    if held["account"]:
        st.subheader("Runs")
        list_runs(application().runs(held["account"]))


if __name__ == "__main__":
    through_the_application()
    screen()
