"""The one way in: every screen is reached through app.py, where the guard and the header stand."""

from __future__ import annotations

import streamlit as st
from streamlit.runtime.pages_manager import PagesManager

__all__ = ["through_the_application"]


def through_the_application() -> None:
    """Run the application instead, where Streamlit opened this file by itself.

    Until ``st.navigation`` has run once, Streamlit takes the folder ``pages`` for its own and runs a file in it without
    app.py: after a restart, a reload of any screen would run outside the guard, and an error would be logged with its
    text.
    """
    if PagesManager.uses_pages_directory:
        PagesManager.uses_pages_directory = False
        st.rerun()
