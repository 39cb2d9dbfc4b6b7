"""The frame of every screen: the name of its tab, the header above it and the footer below it."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import streamlit as st

from pages.ui.draft import missing_answers
from pages.ui.evidence import legend
from pages.ui.login import offer_sign_out, user_name
from pages.ui.session import application, draft, own_table, standing
from pages.ui.words import amount, note, plain
from synth.errors import DatabaseAwayError, InputError, SynthError
from synth.ledger.rulings import Role
from synth.schema import PrivacyUnit
from synth.version import __version__

ONE_OWNER = "There is no login: one installation has one owner, and anyone who reaches it sees everything."
_OUTSIDE = "Pages load nothing from other servers; no usage statistics."
_PICTURES = Path(__file__).parent / "pictures"
_SIDEBAR = 200
"""Width of the list of screens in pixels, when it is beside a screen."""

_WIDTH = f"""<style>
@media (min-width: 768px) {{
[data-testid='stSidebar'][data-collapsed='false']
{{width: {_SIDEBAR}px !important; min-width: {_SIDEBAR}px !important; max-width: {_SIDEBAR}px !important}}
}}
</style>"""
"""Streamlit keeps the width only if it is set before the list itself is drawn, which a reload may undo."""


def _groups(first_record: int) -> str:
    """Leave space above the steps of a release, and above the records.

    Groups with headings, as Streamlit draws them, make a list that is none to a screen reader.
    """
    items = "[data-testid='stSidebarNavItems'] > li"
    chosen = f"{items}:nth-child(2), {items}:nth-child({first_record + 1})"
    return f"<style>{chosen} {{margin-top: 1.2rem}}</style>"


_SPACE = "<style>[data-testid='stMainBlockContainer'] {padding-top: 4rem; padding-bottom: 3rem}</style>"
"""Streamlit leaves twice as much free above and below every screen."""

_NAMES = "<style>a[href^='mailto:'] {color: inherit !important; text-decoration: none; pointer-events: none}</style>"
"""Browsers are given the address of a user as a link to write to; here it is a name."""

_DARK_BUTTONS = "<style>[data-testid='stBaseButton-primary'] {color: #12181C}</style>"
"""White on the dark page's accent has a contrast of 2.5; the theme has no setting for the words of a button."""


def brand(title: str, *, first_record: int = 1) -> None:
    """Put the logo above the list of screens, and the screen's name on the browser's tab.

    ``first_record`` is the place of the first screen after the steps of a release, from 0.
    """
    name = title.lstrip("0123456789 ")
    st.set_page_config(
        page_title=f"{name} · Hermitage", page_icon=_PICTURES / "icon.png", initial_sidebar_state=_sidebar(title)
    )
    st.logo(str(_PICTURES / "logo.svg"), size="large")
    st.html(_groups(first_record) + _SPACE + _NAMES + _WIDTH)


def sidebar_at_first() -> int | None:
    """Return how wide the list of screens is beside a screen; a telephone has room for one of them."""
    return None if _is_telephone() else _SIDEBAR


def _sidebar(title: str) -> Literal["auto", "collapsed"] | None:
    """Return the state of the list of screens where it covers a screen: it closes when one is chosen.

    The browser looks at a state that is another one than before, and on a telephone closes it for either of these two.
    """
    if not _is_telephone():
        return None
    before, state = st.session_state.get("sidebar", (title, "auto"))
    if before != title:
        state = "collapsed" if state == "auto" else "auto"
    st.session_state["sidebar"] = (title, state)
    return "collapsed" if state == "collapsed" else "auto"


def _is_telephone() -> bool:
    return "Mobi" in (st.context.headers.get("User-Agent") or "")


def header() -> None:
    """Say which table this is, who is protected and how much epsilon is left, above every page."""
    if st.context.theme.type == "dark":
        st.html(_DARK_BUTTONS)
    if Role.OWNER not in standing()[0]:
        return
    table = own_table()
    line = "No table is open"
    if table is not None:
        line = f"**{plain(table.name)}** · {_unit_sentence()} · {_epsilon_left(table.account)}"
        if draft()["demonstration"]:
            line += f". Simulated data: no real person is in this table. {draft()['demonstration']}"
    left, right = st.columns([2, 1], vertical_alignment="top")
    note(line, left)
    with right.container(horizontal=True, horizontal_alignment="right"):
        legend(st.container(width="content"))


def footer() -> None:
    """Say which version this is, who sees what is here, and that no page asks elsewhere, below every page."""
    roles, single = standing()
    if single:
        note(f"Hermitage {__version__} · {ONE_OWNER} {_OUTSIDE}")
        return
    said = ", ".join(sorted(roles)) or "no role yet: an administrator gives roles"
    note(f"Hermitage {__version__} · You are {plain(user_name())} ({said}). {_OUTSIDE}")
    offer_sign_out()


def _unit_sentence() -> str:
    held = draft()
    if any("how many rows" in problem or "who you are" in problem for problem in missing_answers(held)):
        return "Who is protected is not declared yet"
    if held["protection"] == "cell":
        return "Protects ONE CELL, not a row; labels, class sizes and the number of rows are not protected"
    return plain(PrivacyUnit(held["protects"], int(held["rows_per_unit"])).sentence)


def _epsilon_left(account: str) -> str:
    try:
        view = application().account(account)
    except DatabaseAwayError:
        raise
    except InputError:
        return "nothing spent yet"
    except SynthError:
        return "its ledger cannot be read: see Ledger"
    if view.epsilon_cap is None:
        return f"epsilon spent: {amount(view.epsilon_spent)}, no limit set"
    left = max(0.0, view.epsilon_cap - view.epsilon_spent)
    return f"epsilon left: {amount(left)} of {amount(view.epsilon_cap)}"
