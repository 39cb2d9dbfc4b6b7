"""Ledger: what has been spent on whom, and the limits."""

from __future__ import annotations

import streamlit as st

from pages.ui.accounts import account_cards, charges_table, checked_rows, limit_form
from pages.ui.entrance import through_the_application
from pages.ui.session import application
from synth.ledger.ledger import SPENT_OR_FREED

__all__ = ["screen"]


def screen() -> None:
    """Draw the screen."""
    st.title("Ledger")
    st.markdown(
        f"Spending is counted on people, not on files, and entered before a row is read. {SPENT_OR_FREED} "
        "Whoever reaches this installation is its owner and sees all of it."
    )

    accounts, rows = application().accounts(), checked_rows()
    if not rows:
        st.info("Nothing spent yet.")
    if accounts:
        account_cards(accounts)
    if rows:
        charges_table(rows)
    if accounts:
        limit_form(accounts)


if __name__ == "__main__":
    through_the_application()
    screen()
