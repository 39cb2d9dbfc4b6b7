"""What stands around every screen: the header above it and the footer below it."""

from __future__ import annotations

import streamlit as st

from pages.ui.badges import legend
from pages.ui.draft import missing_answers
from pages.ui.session import application, draft, own_table
from pages.ui.words import amount, note, plain
from synth.errors import DatabaseAwayError, SynthError
from synth.schema import PrivacyUnit
from synth.version import __version__

__all__ = ["ONE_OWNER", "footer", "header"]

ONE_OWNER = "There is no login: one installation has one owner, and whoever reaches it sees all of it."
_OUTSIDE = "No page asks another server for anything; usage statistics are off."


_DARK_BUTTONS = "<style>[data-testid='stBaseButton-primary'] {color: #12181C}</style>"
"""White on the dark page's accent has a contrast of 2.5; the theme has no setting for the words of a button."""


def header() -> None:
    """Say which table this is, whom it protects and how much epsilon is left, above every page."""
    if st.context.theme.type == "dark":
        st.html(_DARK_BUTTONS)
    table = own_table()
    line = "No table yet"
    if table is not None:
        line = f"**{plain(table.name)}** · {_unit_sentence()} · {_epsilon_left(table.account)}"
        if draft()["demonstration"]:
            line += ". Simulated data: no real person is in this table."
    left, right = st.columns([5, 3], vertical_alignment="top")
    note(line, left)
    with right.container(horizontal=True, horizontal_alignment="right"):
        legend(st.container(width="content"))


def footer() -> None:
    """Say which version this is, who sees what is here, and that no page asks elsewhere, below every page."""
    st.divider()
    note(f"Hermitage {__version__} · {ONE_OWNER} {_OUTSIDE}")


def _unit_sentence() -> str:
    held = draft()
    if any("how many rows" in problem or "whom" in problem for problem in missing_answers(held)):
        return "Nobody is named as protected yet"
    if held["protection"] == "cell":
        return "Protects ONE CELL, not a row; labels, class sizes and the number of rows are open"
    return plain(PrivacyUnit(held["protects"], int(held["rows_per_unit"])).sentence)


def _epsilon_left(account: str) -> str:
    try:
        view = application().account(account)
    except DatabaseAwayError:
        raise
    except SynthError:
        return "nothing spent yet"
    if view.epsilon_cap is None:
        return f"epsilon spent: {amount(view.epsilon_spent)}, no limit set"
    left = max(0.0, view.epsilon_cap - view.epsilon_spent)
    return f"epsilon left: {amount(left)} of {amount(view.epsilon_cap)}"
