"""Small print that can still be read: Streamlit's own captions fade below the contrast the pages promise."""

from __future__ import annotations

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

__all__ = ["note"]


def note(text: str, place: DeltaGenerator | None = None) -> None:
    """Write a line of small print, here or into a place of the page."""
    target = st if place is None else place
    target.markdown(f":small[:gray[{text}]]")
