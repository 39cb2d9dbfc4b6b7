"""The tab of membership attacks: each beside guessing and under its proven ceiling, for the owner alone."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import streamlit as st

from pages.ui.badges import OWNER_ONLY_NOTE, badge
from pages.ui.evidence import cards, number_card, read_evidence, section_of
from pages.ui.long_work import LongWork, long_work
from pages.ui.session import application
from pages.ui.stand_in import stand_in_attacks
from pages.ui.words import plain
from synth.reports import Evidence
from synth.reports.shadow_evidence import SHADOW_PREFIX
from synth.reports.shadow_models import USUAL_RUNS

__all__ = ["ATTACKS_SECTION", "attacks"]

ATTACKS_SECTION = "attacks"
_NOTHING, _WARNING = "attacks.none", ".warning"


def attacks(run_id: str) -> None:
    """Show how well somebody with the released rows could tell who was in the table.

    Asking for it is entered in the ledger of these people.
    """
    document = application().owner_report(run_id)
    if document is None:
        st.info("No attacks: the rows were deleted before they could be tried.")
        return
    entries = [entry for entry in read_evidence(document) if section_of(entry) == ATTACKS_SECTION]
    shadows = [entry for entry in entries if entry.id.startswith(SHADOW_PREFIX)]
    _members(entries=[entry for entry in entries if entry not in shadows])
    _shadow_models(run_id, shadows)
    stand_in_attacks(application().config_of(run_id))


def _members(entries: Sequence[Evidence]) -> None:
    """Show the attacks of every run: members against those who were held out."""
    if not entries:
        st.info("This report was built before attacks were part of it.")
        return
    if entries[0].id == _NOTHING:
        badge(entries[0].kind)
        st.info(plain(entries[0].sentence))
        return
    st.warning(OWNER_ONLY_NOTE)
    rest = _without_warning(entries)
    st.markdown(
        "Somebody holds the released rows and one person's row, and guesses whether that person was in the private "
        "table. The guarantee bounds how often any such guess can be right; here is how often these are."
    )
    # One line of cards for each measure; the pictures follow.
    measures = [[entry for entry in rest if entry.id.endswith(name)] for name in (".area", ".caught")]
    shown = [entry for group in measures for entry in group]
    cards([*shown, *(entry for entry in rest if entry not in shown)], key="attacks")


def _without_warning(entries: Sequence[Evidence]) -> list[Evidence]:
    """Show a warning first, with its incident, and return the rest."""
    for entry in entries:
        if entry.id.endswith(_WARNING):
            with st.container(border=True):
                st.error(plain(entry.title))
                number_card(entry)
    return [entry for entry in entries if not entry.id.endswith(_WARNING)]


def _shadow_models(run_id: str, entries: Sequence[Evidence]) -> None:
    """Show what shadow models came to, and offer to train them."""
    st.subheader("Shadow models on the most exposed rows")
    reason = next((entry for entry in entries if entry.id == f"{SHADOW_PREFIX}none"), None)
    if reason is not None:
        badge(reason.kind)
        st.info(plain(reason.sentence))
    elif entries:
        cards(_without_warning(entries), key="shadows")
    minutes = application().shadow_minutes(run_id)
    long = "minutes" if minutes is None else f"about {minutes} minute{'' if minutes == 1 else 's'} on this machine"
    work = LongWork(
        standing=partial(application().shadowing, run_id),
        cancel=partial(application().cancel_shadowing, run_id),
        stop_label="Stop the shadow models",
        steps="runs",
    )
    long_work(
        work,
        start=partial(application().attack_with_shadows, run_id),
        start_label=f"Train {USUAL_RUNS} shadow models",
        about=(
            f"An attacker who knows more: this configuration is run {USUAL_RUNS} times more, each time with or "
            "without the rows that are farthest from everybody else's, and an attacker learns to tell which. It "
            f"takes {long}. Nothing is charged, because nothing of these runs leaves or is shown."
        ),
        start_key="shadow-models",
        stop_key="stop-shadow-models",
    )
