"""Drawing evidence: the three badges, of which every number on a screen carries exactly one, and cards and pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from pages.ui.charts import draw, heading, judged_words, show_picture, show_table, table_of
from pages.ui.words import note, plain, small
from synth.reports.evidence import OWNER_ONLY_SENTENCE, Evidence, Kind, evidence_from_dict
from synth.reports.figures import Bars, Figure, Table
from synth.reports.registry import is_upper_bound, section_words
from synth.reports.wording import as_far_as_known, first_sentence, known_range, number_text, short_sentence

BADGES: dict[Kind, tuple[str, str, str]] = {
    "safe": (
        "● safe to publish",
        "green",
        "Computed from synthetic rows, paid measurements, your declarations or public data.",
    ),
    "charged": (
        "◐ charged",
        "blue",
        "A noisy measurement of the private rows, paid for from the budget. It may be published.",
    ),
    "owner_only": (
        "○ owner only",
        "orange",
        "Read directly from the private rows, without noise. You may look at it; do not publish it.",
    ),
}

OWNER_ONLY_NOTE = (
    "These numbers were read directly from the private rows. You may look at them; publishing them, or "
    "changing settings because of them, weakens the guarantee."
)


def badge(kind: Kind) -> None:
    """Draw one badge; the words are always there, the colour only helps."""
    text, colour, meaning = BADGES[kind]
    st.badge(text, color=colour, help=meaning)  # type: ignore[arg-type]


def badge_text(kind: Kind) -> str:
    """Return a badge for use inside a line of markdown."""
    text, colour, _ = BADGES[kind]
    return f":{colour}-badge[{text}]"


def legend(place: DeltaGenerator) -> None:
    """Draw all three badges in one line."""
    place.markdown(" ".join(badge_text(kind) for kind in BADGES))


# Cards and pictures ---------------------------------------------------------------------------------------------------

_CARDS_IN_A_LINE = 3
_LONG_UNIT = 12
_LONG_TITLE = 34
_LONG_VALUE = 18
_MOST_TABLES = 4
"""Folded tables in a line."""

_NARROW = 24
"""Categories of bars that can be read in half the width of a page."""


def read_evidence(document: Mapping[str, Any]) -> list[Evidence]:
    """Read the numbers of a report document."""
    return [evidence_from_dict(entry) for entry in document["evidence"]]


def cards(entries: Sequence[Evidence], *, key: str, badged: bool = False) -> None:
    """Draw numbers in lines of three, then what has pictures, two beside each other, then tables alone; these folded.

    Numbers of one kind have one badge; with ``badged`` it is above them already. A card has the first sentence of
    what its number means, where no card before it has the same; all of it is folded.
    """
    badged = badged or _badge_of_all(entries)
    numbers = [entry for entry in entries if not entry.figures]
    said: set[str] = set()
    for start in range(0, len(numbers), _CARDS_IN_A_LINE):
        places = st.columns(_CARDS_IN_A_LINE)
        for entry, place in zip(numbers[start : start + _CARDS_IN_A_LINE], places, strict=False):
            with place.container(border=True, height="stretch"):
                number_card(entry, badged=badged, said=said)
    longer = [entry for entry in numbers if _on_card(entry) != _sentence(entry)]
    if longer:
        with st.expander("What these numbers mean"):
            for entry in longer:
                st.markdown(f"**{plain(entry.title or entry.id)}.** {plain(_sentence(entry))}")
    drawn = [entry for entry in entries if entry.figures]
    tables = [entry for entry in drawn if all(isinstance(figure, Table) for figure in entry.figures)]
    pictures = [entry for entry in drawn if entry not in tables]
    for alike, beside in ((pictures, _beside(pictures)), (tables, _MOST_TABLES)):
        for start in range(0, len(alike), beside):
            line = alike[start : start + beside]
            # One that is left over has the whole width.
            for entry, place in zip(line, st.columns(len(line)), strict=True):
                with place.container(border=True, height="stretch"):
                    _pictures(entry, key=f"{key}-{drawn.index(entry)}", badged=badged)


def _badge_of_all(entries: Sequence[Evidence]) -> bool:
    """Draw the badge of numbers that are all of one kind; return whether they are."""
    kinds = {entry.kind for entry in entries}
    if len(kinds) != 1:
        return False
    badge(kinds.pop())
    return True


def _beside(drawn: Sequence[Evidence]) -> int:
    """Return how many fit in a line: two if all of them can be read at half the width."""
    return 2 if all(_is_narrow(entry.figures) for entry in drawn) else 1


def _is_narrow(figures: Sequence[Figure]) -> bool:
    """Whether pictures can be read in half the width of a page."""
    return all(
        isinstance(figure, Table) or (isinstance(figure, Bars) and len(figure.categories) <= _NARROW)
        for figure in figures
    )


def _pictures(entry: Evidence, *, key: str, badged: bool) -> None:
    """Draw a number in one line, its pictures, and everything as tables and in words, folded."""
    first = entry.figures[0]
    shown = [(number, figure) for number, figure in enumerate(entry.figures) if not isinstance(figure, Table)]
    beside = 2 if len(shown) == 2 and _is_narrow([figure for _, figure in shown]) else 1
    judged, valued = plain(judged_words(first)), _valued(entry, first)
    under = [judged] if judged else [plain(_first_sentence(entry)), valued]
    if beside == 1 or not judged:
        st.markdown("  \n".join([f"**{plain(first.title)}**", *map(small, filter(None, under))]))
    if not badged:
        badge(entry.kind)
    # Titles may take another line each: this keeps the pictures below them level.
    places = st.columns(beside, vertical_alignment="bottom") if shown else []
    for place, (number, figure) in enumerate(shown):
        with places[place % beside]:
            if number or (beside == 2 and judged):
                heading(figure)
            show_picture(figure, key=f"{key}-{number}")
    with st.expander("Numbers"):
        st.markdown("  \n".join(filter(None, (valued, plain(_sentence(entry))))))
        for number, told in enumerate(entry.figures):
            if isinstance(told, Table) and told.title != first.title:
                draw(told, key=f"{key}-{number}")
            elif isinstance(told, Table):
                show_table(table_of(told), alt=told.title, key=f"{key}-{number}")
            else:
                show_table(table_of(told), alt=f"{told.title}, as a table", key=f"{key}-{number}-table")


def _valued(entry: Evidence, first: Figure) -> str:
    """Return the number that a picture belongs to, in one line; the picture's title says it as a reader counts."""
    if entry.value is None:
        return ""
    covers = "" if _half(entry) is None else f" ± {_error_text(entry)}"
    name = f"{plain(entry.title)}: " if entry.title != first.title else ""
    return f"{name}{value_text(entry)}{covers} {plain(entry.unit)}".rstrip()


def number_card(entry: Evidence, *, badged: bool = False, whole: bool = False, said: set[str] | None = None) -> None:
    """Draw one number: title, value, unit and range, badge where it needs its own, first sentence or all of them.

    What is in ``said`` is not repeated; what this card says is added to it.
    """
    title = plain(entry.title or entry.id)
    short = bool(entry.unit) and len(entry.unit) < _LONG_UNIT
    if entry.value is None:
        st.markdown(f"**{title}**")
    else:
        show_value(title, f"{value_text(entry)} {plain(entry.unit)}" if short else value_text(entry))
    if not badged:
        badge(entry.kind)
    sentence = plain(_sentence(entry) if whole else _on_card(entry))
    lines = [_range_of(entry, unit=not short and entry.value is not None)]
    if said is None or sentence not in said:
        lines.append(sentence)
    if said is not None:
        said.add(sentence)
    if any(lines):
        st.markdown("  \n".join(map(small, filter(None, lines))))


def show_value(title: str, value: str) -> None:
    """Draw a value under its title. Streamlit cuts long ones off; as lines of their own they wrap."""
    wraps = len(title) > _LONG_TITLE or len(value) > _LONG_VALUE
    if wraps:
        note(title)
    if len(value) > _LONG_VALUE:
        st.markdown(f"**{value}**")
    else:
        st.metric(title, value, label_visibility="collapsed" if wraps else "visible")


def _range_of(entry: Evidence, *, unit: bool) -> str:
    """Return the line under a value: its unit and its range."""
    words = [plain(entry.unit)] if unit and entry.unit else []
    if _half(entry) is not None:
        covers = section_words(entry.section).covers
        words.append(f"± {_error_text(entry)} (95 %, {covers})")
    return ", ".join(words)


def _half(entry: Evidence) -> float | None:
    return known_range(entry.value, entry.error)


def _error_text(entry: Evidence) -> str:
    return number_text(as_far_as_known(0.0, _half(entry) or 0.0)[1])


def _sentence(entry: Evidence) -> str:
    # The badge, the head of the tab and the line of the range say it already; once more would hide what differs.
    return entry.sentence.replace(OWNER_ONLY_SENTENCE, "").strip()


def _on_card(entry: Evidence) -> str:
    """Return the text under a number; the reason why nothing was measured is given in full."""
    return _first_sentence(entry) if entry.value is None else short_sentence(_sentence(entry))


def _first_sentence(entry: Evidence) -> str:
    return first_sentence(_sentence(entry))


def value_text(entry: Evidence) -> str:
    """Write a value with thousands separators, at most three figures, and no digits beyond its range."""
    value, half = entry.value, _half(entry)
    if half is not None and isinstance(value, float) and not is_upper_bound(entry):
        value = as_far_as_known(value, half)[0]
    if isinstance(value, bool):
        return "yes" if value else "no"
    if is_upper_bound(entry):
        # Rounded up to what is printed: three figures would round it down again.
        return number_text(value)
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
    return plain(number_text(value))
