"""The tab of membership attacks: each beside guessing and under its proven ceiling, for the owner alone."""

from __future__ import annotations

import streamlit as st

from pages.components.badges import OWNER_ONLY_NOTE, badge
from pages.components.evidence import cards, number_card, read_evidence, section_of
from pages.components.session import application
from pages.components.words import plain

__all__ = ["ATTACKS_SECTION", "attacks"]

ATTACKS_SECTION = "attacks"
_NOTHING, _WARNING = "attacks.none", "attacks.warning"


def attacks(run_id: str) -> None:
    """Show how well somebody with the released rows could tell who was in the table.

    Asking for it is entered in the ledger of these people.
    """
    document = application().owner_report(run_id)
    if document is None:
        st.info("No attacks: the rows were deleted before they could be tried.")
        return
    entries = {entry.id: entry for entry in read_evidence(document) if section_of(entry) == ATTACKS_SECTION}
    if not entries:
        st.info("This report was built before attacks were part of it.")
        return
    if _NOTHING in entries:
        badge(entries[_NOTHING].kind)
        st.info(plain(entries[_NOTHING].sentence))
        return
    st.warning(OWNER_ONLY_NOTE)
    if _WARNING in entries:
        with st.container(border=True):
            st.error(plain(entries[_WARNING].title))
            number_card(entries.pop(_WARNING))
    st.markdown(
        "Somebody holds the released rows and one person's row, and guesses whether that person was in the private "
        "table. The guarantee bounds how often any such guess can be right; here is how often these are."
    )
    # One line of cards for each measure; the pictures follow.
    measures = [[entry for entry in entries.values() if entry.id.endswith(name)] for name in (".area", ".caught")]
    shown = [entry for group in measures for entry in group]
    cards([*shown, *(entry for entry in entries.values() if entry not in shown)], key="attacks")
