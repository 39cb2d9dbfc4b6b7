"""What a file seems to be, in words: how it is written, and what its columns are, each with its evidence."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import streamlit as st

from pages.ui.column_rows import MODELLED_ROLES, row_of_mapping
from pages.ui.words import plain
from synth.names import visible
from synth.schema import ENCODINGS
from synth.services.recognition import ColumnProposal, FormatProposal

_KEYS: dict[str, str] = {
    "kind": "Kind of file",
    "encoding": "Encoding",
    "separator": "Separator",
    "decimal": "Decimal sign",
    "thousands": "Thousands separator",
    "dates": "Dates",
    "units": "Units beside numbers",
    "missing": "Codes for missing cells",
    "header": "Header",
    "header_rows": "Header lines",
    "names": "Names",
    "names_from": "Names are taken from header line",
    "skip_rows": "Lines above the table",
    "comment": "Comment lines begin with",
    "newlines": "Line breaks in cells",
    "row_names": "A first column without a name becomes",
    "strip": "Blanks around cells are left out",
    "rename": "Columns called otherwise",
}
_SIGNS = {",": "comma", ".": "point", ";": "semicolon", "\t": "tab", " ": "space", "'": "apostrophe", "|": "bar"}
_MOST_LISTED = 6
_ASKED = "recognised:"


def format_lines(proposals: Sequence[FormatProposal]) -> None:
    """List what is proposed about the format, where one value fits."""
    lines = [
        f"- **{_key(one)}: {plain(value_in_words(one.key, one.value))}.** {plain(_sentence(one.evidence))}"
        for one in proposals
        if not one.choices
    ]
    if lines:
        st.markdown("\n".join(lines))


def ask_open(proposals: Sequence[FormatProposal], choose: Callable[[str, object], None]) -> None:
    """Ask what the file leaves open; an answer goes to ``choose`` before the page is drawn again."""
    for one in proposals:
        if one.choices:
            st.radio(
                f"{_key(one)}: {plain(_sentence(one.evidence))} Which is meant?",
                one.choices,
                index=None,
                format_func=partial(_choice, one.key),
                horizontal=True,
                key=_ASKED + one.key,
                on_change=_answer,
                args=(one.key, choose),
            )


def _choice(key: str, value: object) -> str:
    return plain(value_in_words(key, value))


def _answer(key: str, choose: Callable[[str, object], None]) -> None:
    choose(key, st.session_state[_ASKED + key])


def _key(one: FormatProposal) -> str:
    return _KEYS.get(one.key, one.key.replace("_", " ").capitalize())


def _sentence(evidence: str) -> str:
    return f"{evidence[:1].upper()}{evidence[1:]}."


def value_in_words(key: str, value: object) -> str:
    """Return a value of a format as a person would say it."""
    if isinstance(value, bool):
        return "yes" if value else "none"
    if isinstance(value, list | tuple):
        shown = [value_in_words(key, one) for one in value if one != ""]
        more = f" and {len(shown) - _MOST_LISTED} more" if len(shown) > _MOST_LISTED else ""
        return ", ".join(shown[:_MOST_LISTED]) + more
    if key == "encoding":
        return ENCODINGS.get(str(value), str(value))
    if key == "dates":
        return in_days(str(value))
    return _SIGNS.get(str(value), str(value)) if key in {"separator", "decimal", "thousands"} else visible(str(value))


def in_days(pattern: str) -> str:
    """Return a pattern of ``strptime`` as it is written in forms: dd.mm.yyyy."""
    written = pattern
    for sign, letters in (("%d", "dd"), ("%m", "mm"), ("%Y", "yyyy"), ("%y", "yy"), ("%H", "hh"), ("%M", "mm")):
        written = written.replace(sign, letters)
    return written


def column_in_words(column: ColumnProposal) -> str:
    """Return what is proposed for a column, on one line."""
    if not column.body:
        return "yours to describe"
    row = row_of_mapping(column.name, column.body)
    limits = f"{row['low']} to {row['high']}" if row["low"] and row["high"] else ""
    step = f"step {row['step']}" if row["step"] and row["role"] in MODELLED_ROLES else ""
    empty = "may be empty" if row["missing"] else ""
    rarer = "others become 'other'" if row["other"] else ""
    unreadable = f"unreadable: {row['fallback']}" if row["fallback"] else ""
    meaning = (
        f"\N{LEFT DOUBLE QUOTATION MARK}{row['description']}\N{RIGHT DOUBLE QUOTATION MARK}"
        if row["description"]
        else ""
    )
    said = (row["role"], limits, step, row["categories"], rarer, empty, unreadable, meaning)
    return visible(" · ".join(filter(None, said)))


def evidence_of(column: ColumnProposal) -> str:
    """Return why, on one line, with what is not shown."""
    rarer = f"{column.rarer:,} rarer values are not shown" if column.rarer and not column.note else ""
    return visible("; ".join(filter(None, (column.evidence, rarer, column.note))))
