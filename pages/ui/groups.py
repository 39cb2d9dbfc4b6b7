"""The tab of groups: how small one can be, and what each loses, in its tables and in predictions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import streamlit as st

from pages.ui.badges import OWNER_ONLY_NOTE
from pages.ui.evidence import cards, read_evidence, section_of
from pages.ui.session import application
from synth.reports import Evidence

__all__ = ["GROUPS_SECTION", "by_group", "groups"]

GROUPS_SECTION = "groups"
_PREDICTED = "downstream.groups."


def groups(run_id: str, report: Mapping[str, Any]) -> None:
    """Show what can be published about groups, then exact numbers; asking for those is entered in the ledger."""
    if not application().config_of(run_id).groups:
        st.info(
            "No groups are declared. Name the columns whose groups are to be compared on 2 Describe, or under "
            "'groups:' in a codebook, before a run."
        )
        return
    published = [entry for entry in read_evidence(report) if section_of(entry) == GROUPS_SECTION]
    st.subheader("What the noise allows")
    if published:
        cards(published, key="published-groups")
    else:
        st.info("No column of groups was measured in this run, so nothing can be said about their sizes in public.")
    document = application().owner_report(run_id)
    if document is None:
        st.info(
            "No owner-only report: the rows were deleted before it could be built, or building it failed (see the log)."
        )
        return
    st.warning(OWNER_ONLY_NOTE)
    entries = by_group(read_evidence(document))
    for title, part in (
        ("Predictions by group", [entry for entry in entries if entry.id.startswith(_PREDICTED)]),
        ("Tables by group", [entry for entry in entries if not entry.id.startswith(_PREDICTED)]),
    ):
        st.subheader(title)
        if part:
            cards(part, key=f"owner-groups-{title}")
        else:
            st.info("Not part of this report. Predictions need a label and rows kept apart; tables a second column.")


def by_group(entries: Sequence[Evidence]) -> list[Evidence]:
    """Return the numbers that tell groups apart, which stand in this tab and in no other."""
    return [entry for entry in entries if section_of(entry) == GROUPS_SECTION or entry.id.startswith(_PREDICTED)]
