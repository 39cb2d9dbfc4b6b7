"""Drawing evidence: one number a card, its unit and its range under it, and a badge for it or for all around it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import streamlit as st

from pages.ui.badges import badge
from pages.ui.charts import draw, heading, judged_words, show_picture, show_table, table_of
from pages.ui.words import note, plain
from synth.reports import OWNER_ONLY_SENTENCE, Evidence, evidence_from_dict
from synth.reports.drawing import as_far_as_known, first_sentence, number_text
from synth.reports.figures import Bars, Figure, Table
from synth.reports.measured import OF_NOISE
from synth.reports.registry import is_upper_bound, section_words

__all__ = ["cards", "number_card", "read_evidence", "show_value", "value_text"]

_CARDS_IN_A_LINE = 3
_LONG_UNIT = 12
_LONG_TITLE = 34
_LONG_VALUE = 18
_NARROW = 24
"""Categories of bars that can be read in half the width of a page."""


def read_evidence(document: Mapping[str, Any]) -> list[Evidence]:
    """Read the numbers of a report document."""
    return [evidence_from_dict(entry) for entry in document["evidence"]]


def cards(entries: Sequence[Evidence], *, key: str, badged: bool = False) -> None:
    """Draw numbers in lines of three, then what has pictures, two beside each other, with its tables folded.

    Numbers of one kind have one badge; with ``badged`` it stands above them already. A card has the first sentence of
    what its number means; all of it is folded.
    """
    badged = badged or _badge_of_all(entries)
    numbers = [entry for entry in entries if not entry.figures]
    for start in range(0, len(numbers), _CARDS_IN_A_LINE):
        places = st.columns(_CARDS_IN_A_LINE)
        for entry, place in zip(numbers[start : start + _CARDS_IN_A_LINE], places, strict=False):
            with place.container(border=True, height="stretch"):
                number_card(entry, badged=badged)
    longer = [entry for entry in numbers if _first_sentence(entry) != _sentence(entry)]
    if longer:
        with st.expander("What these numbers mean"):
            for entry in longer:
                st.markdown(f"**{plain(entry.title or entry.id)}.** {plain(_sentence(entry))}")
    drawn = [entry for entry in entries if entry.figures]
    beside = _beside(drawn)
    for start in range(0, len(drawn), beside):
        places = st.columns(beside)
        for position, place in enumerate(places[: len(drawn) - start], start=start):
            with place.container(border=True, height="stretch"):
                _pictures(drawn[position], key=f"{key}-{position}", badged=badged)


def _badge_of_all(entries: Sequence[Evidence]) -> bool:
    """Draw the badge of numbers that are all of one kind; return whether they are."""
    kinds = {entry.kind for entry in entries}
    if len(kinds) != 1:
        return False
    badge(kinds.pop())
    return True


def _beside(drawn: Sequence[Evidence]) -> int:
    """Return how many stand in a line: two with pictures that can be read at half the width, four with tables alone."""
    if not all(_is_narrow(entry.figures) for entry in drawn):
        return 1
    without = all(isinstance(figure, Table) for entry in drawn for figure in entry.figures)
    return max(min(len(drawn), 4 if without else 2), 1)


def _is_narrow(figures: Sequence[Figure]) -> bool:
    """Whether pictures can be read in half the width of a page."""
    return all(
        isinstance(figure, Table) or (isinstance(figure, Bars) and len(figure.categories) <= _NARROW)
        for figure in figures
    )


def _pictures(entry: Evidence, *, key: str, badged: bool) -> None:
    """Draw a number in one line, its pictures, and everything as tables and in words, folded."""
    first = entry.figures[0]
    st.markdown("  \n".join([f"**{plain(first.title)}**", *map(_small, _under(entry, first))]))
    if not badged:
        badge(entry.kind)
    shown = [(number, figure) for number, figure in enumerate(entry.figures) if not isinstance(figure, Table)]
    beside = 2 if len(shown) == 2 and _is_narrow([figure for _, figure in shown]) else 1
    places = st.columns(beside) if shown else []
    for place, (number, figure) in enumerate(shown):
        with places[place % beside]:
            if number:
                heading(figure)
            show_picture(figure, key=f"{key}-{number}")
    with st.expander("Numbers"):
        st.markdown(plain(_sentence(entry)))
        for number, told in enumerate(entry.figures):
            if isinstance(told, Table) and told.title != first.title:
                draw(told, key=f"{key}-{number}")
            elif isinstance(told, Table):
                show_table(table_of(told), alt=told.title, key=f"{key}-{number}")
            else:
                show_table(table_of(told), alt=f"{told.title}, as a table", key=f"{key}-{number}-table")


def _under(entry: Evidence, first: Figure) -> list[str]:
    """Return what stands under a picture's title: whether what is seen is good, and the number that it belongs to."""
    judged = judged_words(first) or _first_sentence(entry)
    if entry.value is None:
        return [plain(judged)] if judged else []
    covers = "" if entry.error is None else f" ± {_error_text(entry)}"
    name = f"{plain(entry.title)}: " if entry.title != first.title else ""
    return [plain(judged), f"{name}{value_text(entry)}{covers} {plain(entry.unit)}".rstrip()]


def number_card(entry: Evidence, *, badged: bool = False, whole: bool = False) -> None:
    """Draw one number: title, value, unit and range, badge where it needs its own, first sentence or all of them."""
    title = plain(entry.title or entry.id)
    short = bool(entry.unit) and len(entry.unit) < _LONG_UNIT
    if entry.value is None:
        st.markdown(f"**{title}**")
    else:
        show_value(title, f"{value_text(entry)} {plain(entry.unit)}" if short else value_text(entry))
    if not badged:
        badge(entry.kind)
    lines = _lines(entry, unit=not short and entry.value is not None, whole=whole)
    if lines:
        st.markdown("  \n".join(map(_small, lines)))


def show_value(title: str, value: str) -> None:
    """Draw a value under its title. Streamlit cuts long ones off; as lines of their own they wrap."""
    wraps = len(title) > _LONG_TITLE or len(value) > _LONG_VALUE
    if wraps:
        note(title)
    if len(value) > _LONG_VALUE:
        st.markdown(f"**{value}**")
    else:
        st.metric(title, value, label_visibility="collapsed" if wraps else "visible")


def _lines(entry: Evidence, *, unit: bool, whole: bool = False) -> list[str]:
    """Return what stands under a value: its unit and its range in one line, and what it means."""
    words = [plain(entry.unit)] if unit and entry.unit else []
    if entry.error is not None:
        covers = section_words(entry.section).covers
        words.append(f"± {_error_text(entry)} (95 %, {covers})")
    sentence = _sentence(entry) if whole else _first_sentence(entry)
    return [line for line in (", ".join(words), plain(sentence)) if line]


def _small(line: str) -> str:
    return f":small[:gray[{line}]]"


def _error_text(entry: Evidence) -> str:
    return number_text(as_far_as_known(0.0, entry.error or 0.0)[1])


def _sentence(entry: Evidence) -> str:
    # The badge, the head of the tab and the line of the range say it already; once more would hide what differs.
    return entry.sentence.replace(OWNER_ONLY_SENTENCE, "").replace(OF_NOISE, "").strip()


def _first_sentence(entry: Evidence) -> str:
    return first_sentence(_sentence(entry))[0]


def value_text(entry: Evidence) -> str:
    """Write a value; thousands apart, as far as its range leaves its digits any meaning, and three figures at most."""
    value = entry.value
    if entry.error and isinstance(value, float) and not is_upper_bound(entry):
        value = as_far_as_known(value, entry.error)[0]
    if isinstance(value, bool):
        return "yes" if value else "no"
    if is_upper_bound(entry):
        # Rounded up as far as it is printed: three figures would round it down again.
        return number_text(value)
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
    return plain(number_text(value))
