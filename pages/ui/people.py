"""Questions about the people: who is protected, how many there are, and what the rows are for."""

from __future__ import annotations

from functools import partial

import streamlit as st

from pages.ui.column_rows import MODELLED_ROLES, host_of
from pages.ui.draft import MOST_PILLS, asks_for_number
from pages.ui.session import bind, draft, renew_editor
from pages.ui.words import name_or, note, plain
from synth.schema import PrivacyUnit

UNITS = ("person", "household", "organisation", "one event", "other")
_ROW_COUNT = {
    "public": "Yes: it is published, and the promise hides what the rows of any one of them say",
    "private": "No: it is measured with part of the budget, and the promise hides who is in the table at all",
}


def unit_questions() -> None:
    """Ask who is protected, how many rows one of them can have, and whether their number is public."""
    held = draft()
    left, right = st.columns(2, gap="large")
    with left:
        _protects()
        unit = held["protects"] or "person"
        st.number_input(
            f"At most how many rows can one {plain(unit)} have?",
            min_value=1,
            step=1,
            placeholder="a public number",
            help="If each row is a visit and a patient has at most five visits: five. More rows need more noise.",
            **bind("rows_per_unit"),
        )
        if held["rows_per_unit"] and held["rows_per_unit"] > 1:
            _whose_row(unit)
    with right:
        st.radio(
            "Is their number public?",
            list(_ROW_COUNT),
            format_func=_ROW_COUNT.__getitem__,
            help="For a register of everyone, usually yes. For patients with one disease, usually no.",
            **bind("row_count"),
        )
        if asks_for_number(held):
            st.number_input(
                f"How many are there? (unit: {plain(unit)})",
                min_value=1,
                step=1,
                placeholder="a public number",
                help="Published and used as you type it. It is never counted in the table or compared with it.",
                **bind("number_of_units"),
            )
            # Their number is a bound on itself.
            held["people_at_most"] = held["number_of_units"]
            st.session_state.pop("field:people_at_most", None)
        else:
            st.number_input(
                f"How many are there at most? (unit: {plain(unit)})",
                min_value=1,
                step=1,
                placeholder="a public upper bound",
                help="Sets the default delta and the expected accuracy: a bound far above the true "
                "number makes the forecast too optimistic. It is published with the release and never read from the "
                "table.",
                **bind("people_at_most"),
            )
    if held["protects"] and held["rows_per_unit"]:
        st.markdown(f"**{plain(PrivacyUnit(held['protects'], int(held['rows_per_unit'])).sentence)}.**")


def task_questions() -> None:
    """Ask for the column to predict, the share of people held out for checking, and the groups to compare."""
    held = draft()
    left, right = st.columns(2, gap="large")
    modelled = [row["name"] for row in held["columns"] if row["role"] in MODELLED_ROLES]
    if held["label"] not in modelled:
        held["label"] = None
        st.session_state.pop("field:label", None)
    with left:
        st.selectbox(
            "Column to predict (optional)",
            [None, *modelled],
            placeholder="none",
            format_func=partial(name_or, none="none"),
            help="Some generators give priority to what predicts this column. The report says how well it is "
            "predicted.",
            **bind("label"),
        )
    with right:
        st.number_input(
            "Share of people held out for checking",
            min_value=0.0,
            max_value=0.5,
            step=0.05,
            format="%.2f",
            help="Drawn once per account and never seen by a generator. 0 uses everyone; a test table can "
            "then be used for checking.",
            **bind("holdout"),
        )
    _whose_groups(modelled)


def _whose_groups(modelled: list[str]) -> None:
    held = draft()
    if not set(held["groups"]) <= set(modelled):
        held["groups"] = [name for name in held["groups"] if name in modelled]
        st.session_state.pop("field:groups", None)
    if len(modelled) > MOST_PILLS:
        chosen = ", ".join(plain(name) for name in held["groups"]) or "none"
        note(f"Columns to compare by group: {chosen}. For a table this wide, name them in a codebook.")
        return
    # Not a multiselect: the names that it shows cannot be read on a dark page.
    st.pills(
        "Columns to compare by group (optional)",
        modelled,
        selection_mode="multi",
        format_func=plain,
        help="The report then shows the accuracy for each group. This costs nothing and does not change the rows.",
        **bind("groups"),
    )


def _protects() -> None:
    held = draft()
    known = held["protects"] in UNITS[:-1] or held["protects"] is None
    chosen = st.radio(
        "Who are you protecting?",
        UNITS,
        index=None if held["protects"] is None else (UNITS.index(held["protects"]) if known else len(UNITS) - 1),
        horizontal=True,
        key="field:protects-choice",
        help="Anyone the data could harm. All rows of one of them are protected together; one person may have "
        "several rows.",
    )
    if chosen == "other":
        typed = st.text_input(
            "Who?", "" if known else held["protects"], placeholder="patient", key="field:protects-other"
        )
        held["protects"] = typed.strip() or None
    elif chosen is not None:
        held["protects"] = chosen


def _whose_row(unit: str) -> None:
    held = draft()
    names = [row["name"] for row in held["columns"] if not host_of(row)]
    st.selectbox(
        "Which column identifies whose row it is?",
        [None, *names],
        placeholder="there is no such column",
        format_func=partial(name_or, none="there is no such column"),
        help="Rows with the same value belong together. The values are never published.",
        **bind("id_column"),
    )
    if held["id_column"] is None:
        st.warning(
            "Without such a column the limit cannot be enforced: the guarantee holds only if this number is true."
        )
        return
    for row in held["columns"]:
        if row["name"] == held["id_column"] and (row["role"] != "identifier (replaced)" or row["proposed"]):
            row.update(role="identifier (replaced)", proposed="")
            renew_editor()
            st.rerun()
    note(f"Enforced: at most {held['rows_per_unit']} rows per {plain(unit)} are kept, chosen at random.")
