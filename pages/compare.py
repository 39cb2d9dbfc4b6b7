"""Compare: runs about the same people side by side, and what all of them cost."""

from __future__ import annotations

import streamlit as st

from pages.ui.compare import choose_runs, side_by_side
from pages.ui.guards import guard, through_the_application

__all__ = ["screen"]


def screen() -> None:
    """Draw the screen."""
    st.title("Compare runs")
    st.markdown(
        "Numbers that may be published, of two to four runs about the same people. Looking at them costs nothing."
    )

    chosen = choose_runs()
    if chosen:
        with guard():
            side_by_side(chosen)


if __name__ == "__main__":
    through_the_application()
    screen()
