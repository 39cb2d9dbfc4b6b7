"""Drawing evidence: one number a card, its unit and its range under it, and always its badge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import streamlit as st

from pages.ui.badges import badge
from pages.ui.charts import draw
from pages.ui.words import note, plain
from synth.reports import OWNER_ONLY_SENTENCE, Evidence, evidence_from_dict
from synth.reports.drawing import number_text
from synth.reports.registry import is_upper_bound, section_words

__all__ = ["cards", "number_card", "read_evidence", "value_text"]

_CARDS_IN_A_LINE = 3
_LONG_UNIT = 12
_LONG_TITLE = 34
_LONG_VALUE = 24


def read_evidence(document: Mapping[str, Any]) -> list[Evidence]:
    """Read the numbers of a report document."""
    return [evidence_from_dict(entry) for entry in document["evidence"]]


def cards(entries: Sequence[Evidence], *, key: str) -> None:
    """Draw numbers in lines of three, and below them whatever has pictures, in full width."""
    numbers = [entry for entry in entries if not entry.figures]
    for start in range(0, len(numbers), _CARDS_IN_A_LINE):
        places = st.columns(_CARDS_IN_A_LINE)
        for entry, place in zip(numbers[start : start + _CARDS_IN_A_LINE], places, strict=False):
            with place.container(border=True, height="stretch"):
                number_card(entry)
    for position, entry in enumerate(entry for entry in entries if entry.figures):
        with st.container(border=True):
            number_card(entry)
            for number, figure in enumerate(entry.figures):
                draw(figure, key=f"{key}-{position}-{number}")


def number_card(entry: Evidence) -> None:
    """Draw one number: title, value, unit and range, badge, sentence."""
    title = plain(entry.title or entry.id)
    if entry.value is None:
        st.markdown(f"**{title}**")
    else:
        short = bool(entry.unit) and len(entry.unit) < _LONG_UNIT
        value = f"{value_text(entry)} {plain(entry.unit)}" if short else value_text(entry)
        # Streamlit cuts long labels and values off; as lines of their own they wrap.
        wraps = len(title) > _LONG_TITLE or len(value) > _LONG_VALUE
        if wraps:
            note(title)
        if len(value) > _LONG_VALUE:
            st.markdown(f"#### {value}")
        else:
            st.metric(title, value, label_visibility="collapsed" if wraps else "visible")
        words = [plain(entry.unit)] if entry.unit and not short else []
        if entry.error is not None:
            words.append(f"± {number_text(entry.error)}, {section_words(entry.section).covers} (95 %)")
        if words:
            note(", ".join(words))
    badge(entry.kind)
    # The badge and the head of the tab say it already; once more on every card would hide what differs.
    sentence = entry.sentence.replace(OWNER_ONLY_SENTENCE, "").strip()
    if sentence:
        note(plain(sentence))


def value_text(entry: Evidence) -> str:
    """Write a value; thousands apart, three figures for shares."""
    value = entry.value
    if isinstance(value, bool):
        return "yes" if value else "no"
    if is_upper_bound(entry):
        # Rounded up as far as it is printed: three figures would round it down again.
        return number_text(value)
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
    return plain(number_text(value))
