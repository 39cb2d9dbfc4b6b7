"""Words as they are written on every page: texts of others, small print, and numbers."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from synth.names import visible, visible_lines
from synth.reports.wording import number_text, rounded_up
from synth.services.views import RowWorth, RunView

DELTA_MEANS = "By how much any probability may exceed what epsilon allows."
FOR_A_ROW = "epsilon for a whole row"

_MARKUP = frozenset("\\`*[]<>$~|#")


def plain(text: object) -> str:
    """Escape a text that someone else wrote, so that markdown shows it letter for letter, invisible characters too."""
    seen = visible_lines(str(text))
    pieces = []
    for before, character, after in zip(" " + seen, seen, seen[1:] + " ", strict=False):
        # An underscore inside a word is one; at its edge it would begin or end emphasis.
        at_edge = character == "_" and not (_in_word(before) and _in_word(after))
        pieces.append(f"\\{character}" if at_edge or character in _MARKUP else character)
    return "".join(pieces)


def _in_word(character: str) -> bool:
    return character.isalnum() or character == "_"


def name_or(name: str | None, *, none: str) -> str:
    """Show a column's name among choices, of which the first may be ``none`` of them."""
    return none if name is None else visible(name)


def note(text: str, place: DeltaGenerator | None = None) -> None:
    """Write a line of small print, here or into a place of the page.

    Streamlit's own captions fade below the contrast that the pages promise.
    """
    (place or st).markdown(small(text))


def small(text: str) -> str:
    """Return a line of small print as markdown."""
    return f":small[:gray[{text}]]"


def amount(epsilon: float) -> str:
    """Write an epsilon: two decimals, more where two would say zero."""
    if epsilon == 0 or epsilon >= 0.01:
        return f"{epsilon:.2f}"
    return f"{epsilon:.2g}"


def row_worth(worth: RowWorth | None) -> str:
    """Say after an epsilon of one cell what it is worth for a whole row; nothing after any other epsilon."""
    if worth is None:
        return ""
    return f" for one cell ({_row_epsilon(worth)} for a whole row)"


def cell_and_row(of_row: float | None) -> str:
    """Say after a certified epsilon of one cell what it is worth for a whole row: the two are always shown together."""
    return "" if of_row is None else f" for one cell, ε = {upper(of_row)} for a whole row"


def add_row_worth(frame: pd.DataFrame, worths: Sequence[RowWorth | None]) -> pd.DataFrame:
    """Say behind the epsilons of a table what each hides and, of one cell, what it is worth for a whole row.

    Returns
    -------
    DataFrame
        As it was where no epsilon is for one cell; else with two more columns behind the one called ``epsilon``.
    """
    if all(worth is None for worth in worths):
        return frame
    place = list(frame.columns).index("epsilon") + 1
    made = frame.copy()
    made.insert(place, "hides", ["one unit" if worth is None else "one cell" for worth in worths])
    made.insert(place + 1, FOR_A_ROW, ["" if worth is None else _row_epsilon(worth) for worth in worths])
    return made


def row_note(worths: Sequence[RowWorth | None]) -> str:
    """Return the sentence under a table whose epsilons are of one cell; empty under any other."""
    if all(worth is None for worth in worths):
        return ""
    return (
        "An entry that hides one cell hides it even if all other cells are known; labels are not hidden. Next "
        "to it is what the same noise is worth for replacing a whole row by one with the same label, at the "
        "same delta: use that number to compare with other releases."
    )


def _row_epsilon(worth: RowWorth) -> str:
    return "not known here" if worth[0] is None else upper(worth[0])


def upper(epsilon: float) -> str:
    """Write an upper bound, rounded up: print may not make it smaller."""
    return number_text(rounded_up(epsilon)) if epsilon > 0 else "0"


def stated(run: RunView) -> str:
    """Write the epsilon of a release: of the run, or rounded up of the run and what was found privately before it."""
    return amount(run.epsilon) if run.stated == run.epsilon else upper(run.stated)


def count(value: float) -> str:
    """Write a number of rows or cells: whole above ten, two figures below."""
    return f"{value:,.0f}" if abs(value) >= 10 or float(value).is_integer() else f"{value:.2g}"


def size_in_words(size_bytes: int) -> str:
    """Write the size of a file."""
    for unit in ("bytes", "kB", "MB"):
        if size_bytes < 1000 or unit == "MB":
            return f"{size_bytes:,.0f} {unit}" if unit == "bytes" or size_bytes >= 10 else f"{size_bytes:.1f} {unit}"
        size_bytes /= 1000  # type: ignore[assignment]
    return f"{size_bytes:,.0f} MB"
