"""Admin: the key that signs, what rehearsals have stopped, and keeping the ledger whole."""

from __future__ import annotations

import streamlit as st

from pages.ui.admin import (
    earlier_releases,
    heads,
    one_owner,
    removed_strays,
    restored_ledgers,
    signing_key,
    stopped_releases,
)
from pages.ui.entrance import through_the_application
from pages.ui.guards import guard

__all__ = ["screen"]


def screen() -> None:
    """Draw the screen."""
    st.title("Admin")
    one_owner()
    for part in (signing_key, restored_ledgers, heads, earlier_releases, stopped_releases, removed_strays):
        with guard(away="pass"):
            part()


if __name__ == "__main__":
    through_the_application()
    screen()
