"""Look at the rows: what they say about undescribed columns, recorded."""

from __future__ import annotations

import streamlit as st

from pages.ui.column_rows import look_again
from pages.ui.session import application, draft, renew_editor
from pages.ui.words import note


def offer_look(*, first: bool) -> None:
    """Offer to look at the rows, which is recorded; ``first`` where this is the way that is offered first."""
    held = draft()
    st.markdown("**Look at your rows**" if first else "**Or look at your rows**")
    if st.button(
        "Look at my rows to guess the missing roles", key="look-at-rows", type="primary" if first else "secondary"
    ):
        table = application().intake.look_at_rows(held["table_id"])
        kinds = {column.name: column.kind for column in table.columns}
        held["columns"] = [look_again(row, kinds.get(row["name"], "")) for row in held["columns"]]
        renew_editor()
        st.rerun()
    note("○ owner only: the look is recorded, and what you choose because of it is not covered by epsilon.")
