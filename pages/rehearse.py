"""Rehearse, between 3 Budget and 4 Generate: the same run on a public table; optional and free."""

from __future__ import annotations

import streamlit as st

from pages.components.draft import config_of
from pages.components.entrance import through_the_application
from pages.components.guards import require
from pages.components.rehearsal import rehearsal_form, rehearsal_report
from pages.components.session import draft, go

through_the_application()

st.title("Rehearse")
require("table")
require("description")
st.markdown(
    "Practice on a stand-in. Nothing here reads your private rows: the same configuration, budget and generator are "
    "run on a table that is public, and every attack is tried on what comes out. It is optional and free."
)
config = config_of(draft())
rehearsal_report(config)
rehearsal_form(config)

st.divider()
if st.button("Continue to 4 Generate", type="primary", key="continue-generate"):
    go("generate")
