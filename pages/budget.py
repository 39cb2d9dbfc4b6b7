"""3 Budget: what is promised, what it costs in accuracy, and what has been spent on these people."""

from __future__ import annotations

import streamlit as st

from pages.ui.badges import badge
from pages.ui.draft import config_of
from pages.ui.entrance import through_the_application
from pages.ui.forecast import error_sentence, forecast_panel, smallest_epsilon_form
from pages.ui.guards import require
from pages.ui.promise import promise_panel
from pages.ui.session import application, draft, go
from pages.ui.spending import budget_controls, ledger_box, parts_table
from pages.ui.words import plain

__all__ = ["screen"]

WEAK_EPSILON = 4.0


def screen() -> None:
    """Draw the screen."""
    st.title("Choose a privacy budget")
    require("table")
    require("description")
    held = draft()

    left, right = st.columns([2, 3], gap="large")
    with left:
        budget_controls()
    config = config_of(held)
    plan = application().plan(config)

    with left:
        ledger_box(plan)
        if plan.refusal is not None:
            st.error(plain(plan.refusal))
        for warning in plan.warnings:
            st.warning(plain(warning))
        if config.epsilon > WEAK_EPSILON:
            weak = f"At ε = {config.epsilon:g} the promise is weak: see the ceiling on the right."
            approval = application().settings.approval_epsilon
            if approval is not None and config.epsilon > approval:
                weak += f" This installation refuses more than ε = {approval:g}: a run cannot start."
            st.warning(weak)
    with right:
        promise_panel(
            plan.forecast,
            neighbours=config.schema.neighbours,
            unit=plain(config.schema.unit.protects),
            error_sentence=error_sentence(plan.forecast),
        )

    st.subheader("What the noise will do to counts")
    badge("safe")
    forecast_panel(plan.forecast)
    smallest_epsilon_form(config)

    st.subheader("Where the budget goes")
    parts_table(plan, config)

    st.divider()
    st.page_link("pages/rehearse.py", label="Rehearse on public or simulated rows first (optional, free)")
    if st.button("Continue to 4 Generate", type="primary", key="continue-generate", disabled=plan.refusal is not None):
        go("generate")


if __name__ == "__main__":
    through_the_application()
    screen()
