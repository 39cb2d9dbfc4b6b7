"""5 Report: what the rows are worth, each number with its badge."""

from __future__ import annotations

import streamlit as st

from pages.ui.evidence import read_evidence
from pages.ui.guards import guard, require, through_the_application
from pages.ui.panels import show_tab
from pages.ui.session import application, draft, go
from synth.reports.registry import tabs

__all__ = ["screen"]


def screen() -> None:
    """Draw the screen."""
    st.title("Read the report")
    require("run")
    require("report")
    run_id = draft()["run_id"]

    evidence = read_evidence(application().report(run_id))
    found = tabs()
    # Only the open tab is drawn: exact numbers are looked at, and the look recorded, when their tab is opened.
    places = st.tabs([tab.title for tab in found], on_change="rerun", key="report-tab")
    for tab, place in zip(found, places, strict=True):
        # Each tab has its own guard: the failure of one never hides the others.
        if place.open:
            with place, guard():
                show_tab(tab, run_id, evidence)

    st.divider()
    if st.button("Continue to 6 Release", type="primary", key="continue-release"):
        go("release")


if __name__ == "__main__":
    through_the_application()
    screen()
