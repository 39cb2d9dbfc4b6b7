"""Ledger: what has been spent on whom, and the limits."""

from __future__ import annotations

import streamlit as st

from pages.components.accounts import account_cards, charges_table, checked_rows, limit_form
from pages.components.entrance import through_the_application
from pages.components.session import application

through_the_application()


st.title("Ledger")
st.markdown("Spending is counted on people, not on files: it is entered before a row is read and never given back.")

accounts, rows = application().accounts(), checked_rows()
if not rows:
    st.info("Nothing spent yet.")
if accounts:
    account_cards(accounts)
if rows:
    charges_table(rows)
if accounts:
    limit_form(accounts)
