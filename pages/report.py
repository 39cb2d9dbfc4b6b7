"""5 Report: what the rows are worth, each number with its badge."""

from __future__ import annotations

from functools import partial

import streamlit as st

from pages.ui.attacks import attacks
from pages.ui.groups import groups
from pages.ui.guards import guard, require, through_the_application
from pages.ui.prediction import prediction
from pages.ui.report import at_a_glance, columns_and_pairs, expected_accuracy, owner_only
from pages.ui.session import application, draft, go

__all__ = ["screen"]


def screen() -> None:
    """Draw the screen."""
    st.title("Read the report")
    require("run")
    require("report")
    run_id = draft()["run_id"]

    run, report = application().run(run_id), application().report(run_id)
    contents = {
        "● At a glance": partial(at_a_glance, run, report),
        "● Columns and pairs": partial(columns_and_pairs, report),
        "● Accuracy you can expect": partial(expected_accuracy, run_id, report),
        "○ Prediction": partial(prediction, run_id, report),
        "○ Groups": partial(groups, run_id, report),
        "○ Attacks": partial(attacks, run_id),
        "○ Owner only": partial(owner_only, run_id),
    }
    # Only the open tab is drawn: exact numbers are looked at, and the look recorded, when their tab is opened.
    tabs = st.tabs(list(contents), on_change="rerun", key="report-tab")
    for tab, content in zip(tabs, contents.values(), strict=True):
        # Each tab has its own guard: the failure of one never hides the others.
        if tab.open:
            with tab, guard():
                content()

    st.divider()
    if st.button("Continue to 6 Release", type="primary", key="continue-release"):
        go("release")


if __name__ == "__main__":
    through_the_application()
    screen()
