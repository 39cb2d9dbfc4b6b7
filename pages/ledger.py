"""Ledger: what has been spent on whom, and the limits."""

from __future__ import annotations

import dataclasses
import json

import pandas as pd
import streamlit as st

from pages.ui.charts import show_table
from pages.ui.evidence import badge
from pages.ui.guards import invite, through_the_application
from pages.ui.session import application
from pages.ui.words import add_row_worth, amount, note, plain, row_note, upper
from synth.errors import LedgerError
from synth.ledger.ledger import SPENT_OR_FREED
from synth.ledger.rulings import Role
from synth.services.views import AccountView, LedgerRow


def screen() -> None:
    """Draw the screen."""
    st.title("Ledger")
    st.markdown(
        f"Spending is counted per group of people, not per file, and recorded before any row is read. {SPENT_OR_FREED}"
    )

    accounts, rows = application().accounts(), checked_rows()
    if not rows and accounts:
        invite(
            "Nothing has been spent on these people yet. Each release is recorded here when it is made.",
            "generate",
            "4 Generate",
        )
    elif not rows:
        invite(
            "Nothing has been spent yet. This page will list who is protected and what each release cost.",
            "start",
            "Start",
        )
    if accounts:
        account_cards(accounts)
    if rows:
        charges_table(rows)
    roles = application().access.roles
    if accounts and Role.ADMIN in roles:
        limit_form(accounts)
    if roles & {Role.ADMIN, Role.AUDITOR} and not application().access.is_single_user:
        decisions_table()


def account_cards(accounts: list[AccountView]) -> None:
    """Show what has been spent on each group of people, composed exactly and simply added."""
    frame = pd.DataFrame(
        {
            "people": [view.name for view in accounts],
            "protects": [view.unit_sentence or "not yet declared" for view in accounts],
            "epsilon spent (composed)": [view.epsilon_spent for view in accounts],
            "at delta": [f"{view.delta_spent:g}" if view.epsilon_spent else "" for view in accounts],
            "epsilon spent (simple sum)": [view.epsilon_simple_sum for view in accounts],
            "limit on epsilon": ["none" if view.epsilon_cap is None else amount(view.epsilon_cap) for view in accounts],
            "releases": [view.releases for view in accounts],
        }
    )
    st.header("People")
    badge("safe")
    formats = dict.fromkeys(("epsilon spent (composed)", "epsilon spent (simple sum)"), "%.2f")
    show_table(frame, alt="What has been spent on each group of people", key="accounts", formats=formats)
    frozen = [view.name for view in accounts if view.frozen]
    if frozen:
        st.warning(
            f"Frozen, so no run can start: {plain(', '.join(frozen))}. A ledger may lack releases: enter the "
            f"missing ones and accept it on the Admin page."
        )
    for view in accounts:
        for sentence in view.notes:
            note(f"{plain(view.name)}: {plain(sentence)}.")
        if view.row_worth is not None:
            note(f"{plain(view.name)}: {_cells(view)}")
    note(
        "Composed: the exact total of all charges together, at the delta beside it; the limit applies to it. A charge "
        "with a larger delta can lower it."
    )


def _cells(view: AccountView) -> str:
    epsilon, delta = view.row_worth or (None, 0.0)
    spent = f"{amount(view.epsilon_spent)} is the epsilon of ONE CELL, with every other cell known. "
    if epsilon is None:
        return spent + "What it is worth for a whole row is not known here, because a charge has no configuration."
    return spent + (
        f"For replacing a whole row by one with the same label the same charges, simply added, are at most "
        f"{upper(epsilon)} at delta {delta:g}; a changed label has no protection."
    )


def charges_table(rows: list[LedgerRow]) -> None:
    """Show every charge, and offer them as files."""
    frame = pd.DataFrame(
        {
            "entry": [row.sequence for row in rows],
            "time (UTC)": [row.time.strftime("%Y-%m-%d %H:%M:%S") for row in rows],
            "people": [row.account for row in rows],
            "run": [row.run_id[:8] for row in rows],
            "who": [row.who or "the program" for row in rows],
            "purpose": [row.purpose for row in rows],
            "epsilon": [row.epsilon for row in rows],
            "delta": [f"{row.delta:g}" for row in rows],
            "state": [row.state for row in rows],
            "certificate": [(row.certificate_id or "")[:8] for row in rows],
        }
    )
    st.header("Entries")
    worths = [row.row_worth for row in rows]
    frame = add_row_worth(frame, worths)
    show_table(frame, alt="Every entry of the ledger", key="charges", formats={"epsilon": "%.2f"})
    if words := row_note(worths):
        note(words)
    table, text = st.columns([1, 4])
    whole = pd.DataFrame([dataclasses.asdict(row) for row in rows])
    table.download_button(
        "Export CSV",
        data=lambda: whole.to_csv(index=False),
        file_name="ledger.csv",
        mime="text/csv",
        on_click="ignore",
        key="ledger-csv",
    )
    text.download_button(
        "Export JSON",
        data=lambda: json.dumps([dataclasses.asdict(row) for row in rows], default=str, indent=1),
        file_name="ledger.json",
        mime="application/json",
        on_click="ignore",
        key="ledger-json",
    )


def decisions_table() -> None:
    """Show every decision: who made it, and when."""
    st.header("Decisions")
    found = application().decisions()
    if not found:
        note("Nothing has been decided yet.")
        return
    frame = pd.DataFrame(
        {
            "time (UTC)": [one.time.strftime("%Y-%m-%d %H:%M:%S") for one in found],
            "people": [one.account or "the whole installation" for one in found],
            "who": [one.who or "the program" for one in found],
            "decision": [one.what for one in found],
        }
    )
    show_table(frame, alt="Every decision about accounts, tables, users and the policy", key="decisions")
    whole = pd.DataFrame([dataclasses.asdict(one) for one in found])
    st.download_button(
        "Export decisions as CSV",
        data=lambda: whole.to_csv(index=False),
        file_name="decisions.csv",
        mime="text/csv",
        on_click="ignore",
        key="decisions-csv",
    )


def checked_rows() -> list[LedgerRow]:
    """Return every charge after checking the chain of entries, and say whether it is whole."""
    try:
        rows = application().ledger_rows()
    except LedgerError as error:
        st.error(plain(error))
        return []
    if rows:
        st.success(
            "Every chain of entries is complete and matches its mark: no entry or limit was changed, removed "
            "or added outside the ledger. Only heads kept elsewhere can show that a whole installation was "
            "set back (Admin page)."
        )
    return rows


def limit_form(accounts: list[AccountView]) -> None:
    """Set the limit of a group of people; a run that would pass it is refused before it reads a row."""
    st.header("Limits")
    with st.form("limit", border=True):
        names, epsilon, delta, button = st.columns([3, 2, 2, 1], vertical_alignment="bottom")
        chosen = names.selectbox("People", [view.name for view in accounts], key="limit-account")
        cap = epsilon.number_input(
            "Limit on epsilon",
            min_value=0.01,
            value=4.0,
            step=0.5,
            key="limit-epsilon",
            help="For all releases about these people together. A run that would exceed it is refused and "
            "costs nothing.",
        )
        cap_delta = delta.selectbox(
            "at delta",
            [1e-5, 1e-6, 1e-7, 1e-8, 1e-9],
            index=1,
            format_func="{:g}".format,
            key="limit-delta",
            help="About the chance that the limit on epsilon fails to hold. Choose it far below 1 / (number "
            "of people).",
        )
        if button.form_submit_button("Set limit"):
            application().set_cap(chosen, float(cap), float(cap_delta))
            st.rerun()


if __name__ == "__main__":
    through_the_application()
    screen()
