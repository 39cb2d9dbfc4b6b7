"""The three badges: every number on a screen carries exactly one."""

from __future__ import annotations

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from synth.reports.evidence import Kind

__all__ = ["BADGES", "OWNER_ONLY_NOTE", "badge", "badge_text", "legend"]

BADGES: dict[Kind, tuple[str, str, str]] = {
    "safe": (
        "● safe to publish",
        "green",
        "Computed from synthetic rows, from paid measurements, from what you declared, or from public data.",
    ),
    "charged": ("◐ charged", "blue", "A noisy measurement of the private rows that was paid for. It may be published."),
    "owner_only": (
        "○ owner only",
        "orange",
        "Read directly from the private rows, without noise. Fine to look at; not to publish.",
    ),
}

OWNER_ONLY_NOTE = (
    "These numbers were read directly from the private rows. Looking is fine; publishing them, or running again with "
    "settings changed by them, weakens the guarantee."
)


def badge(kind: Kind) -> None:
    """Draw one badge; the words are always there, the colour only helps."""
    text, colour, meaning = BADGES[kind]
    st.badge(text, color=colour, help=meaning)  # type: ignore[arg-type]


def badge_text(kind: Kind) -> str:
    """Return a badge as it may stand inside a line of markdown."""
    text, colour, _ = BADGES[kind]
    return f":{colour}-badge[{text}]"


def legend(place: DeltaGenerator) -> None:
    """Draw all three badges in one line."""
    place.markdown(" ".join(badge_text(kind) for kind in BADGES))
