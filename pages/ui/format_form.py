"""How a file is written, as its owner says it: separator, encoding, header, numbers, dates, missing cells."""

from __future__ import annotations

from typing import Any

import streamlit as st

from pages.ui.notations import dates_field, listed, notations_note, numbers_fields
from pages.ui.session import draft
from pages.ui.words import plain
from synth.schema import ENCODINGS, MOST_HEADER_ROWS

_FORM = "field:format-"
"""Widgets of the form begin like those of the draft, so that they are forgotten with them when a codebook is read."""

_SEPARATORS = {
    "auto": "detect from the header",
    ",": "comma ,",
    ";": "semicolon ;",
    "\t": "tab",
    "|": "vertical bar |",
    " ": "space",
}

_ASKED_MORE = {"sheet", "header_rows", "names_from", "decimal", "thousands", "units", "dates", "labels"}

FORM_OPEN = "format asked"
"""Whether the form stays unfolded, because a file did not fit what it says."""

SHEETS = "sheets offered"
"""Names of the sheets of a workbook that was sent without saying which one is meant; public, as column names are."""


def format_form() -> None:
    """Ask how the file is written, folded away because most files need no answer."""
    held = draft()["format"]
    with st.expander(
        "File format (separator, header, numbers, dates, missing cells)",
        expanded=st.session_state.get(FORM_OPEN, False),
    ):
        left, right = st.columns(2)
        named = held.get("encoding", "utf-8")
        encodings = {**ENCODINGS, named: ENCODINGS.get(named, named)}
        separator = left.selectbox(
            "Separator",
            list(_SEPARATORS),
            format_func=_SEPARATORS.__getitem__,
            key=_key("separator", held.get("separator", "auto")),
            help="The character between two cells. It is usually clear from the header; choose it if there is "
            "no header.",
        )
        encoding = right.selectbox(
            "Encoding",
            list(encodings),
            format_func=encodings.__getitem__,
            key=_key("encoding", named),
            help="How accented and other special letters are stored. Older survey exports are often Western "
            "Europe (latin-1).",
        )
        missing = left.text_input(
            "Missing-value codes, separated by commas",
            placeholder="NA, ?",
            key=_key("missing-signs", ", ".join(sign for sign in held.get("missing", ()) if sign)),
            help="An empty cell always counts as missing.",
        )
        skipped = _key("comment", held.get("comment", ""))
        comment = right.text_input(
            "Skip lines at the top that begin with",
            key=skipped,
            placeholder="#",
            help="For comments above the header. Lines below the header are never skipped.",
        )
        newlines = right.checkbox(
            "Cells may contain line breaks",
            key=_key("newlines", held.get("newlines", False)),
            help="Only inside quotation marks. Ticking this states that every quotation mark in the file is "
            "closed, and the certificate repeats it: an unclosed one would pull other people's lines into its "
            "own cell.",
        )
        header = st.checkbox(
            "The first row contains the column names",
            key=_key("has-header", held.get("header", "fields" not in held)),
            help="Untick this if the data begin on the first line; then type the names, one per column.",
        )
        passed = left.number_input(
            "Lines to skip before the header, or before the first row",
            min_value=0,
            step=1,
            key=_key("skip-rows", int(held.get("skip_rows", 0))),
            help="For example a title or an export date above the table.",
        )
        given = _key("names", "\n".join(held.get("names", ())))
        placed = _key("positions", "\n".join(f"{name} {places}" for name, places in held.get("fields", {}).items()))
        positions = (
            ""
            if header
            else st.text_area(
                "Positions of the cells in a line, one column per line",
                key=placed,
                placeholder="id 1-5\nage 6-8",
                help="Only if nothing separates the cells. Positions count characters from 1.",
            )
        )
        names = (
            ""
            if header or positions.strip()
            else st.text_area(
                "Column names, one per line", key=given, help="In the order of the columns. They will be published."
            )
        )
        more = (_names_form(held) if header else {}) | _notation_form(held) | _labels_form(held)
    signs = listed(missing)
    # Settings of a codebook that have no field here stay as they are.
    form = {key: value for key, value in held.items() if key not in {"comment", "names", "fields", *_ASKED_MORE}}
    form |= {"separator": separator, "encoding": encoding, **more}
    form |= {"missing": ["", *signs], "header": header, "newlines": newlines, "skip_rows": int(passed)}
    if comment:
        form["comment"] = comment
    if positions.strip():
        form |= {"separator": "auto", "fields": dict(map(_field, filter(str.strip, positions.splitlines())))}
    elif not header:
        form["names"] = [name.strip() for name in names.splitlines() if name.strip()]
    draft()["format"] = form


def _labels_form(held: dict[str, Any]) -> dict[str, Any]:
    """Ask whether labels or codes are read; a list of columns, which has no field here, stays as it is."""
    said = held.get("labels", True)
    if not isinstance(said, bool):
        return {"labels": said}
    labels = st.checkbox(
        "Read the labels of values (SPSS, Stata)",
        key=_key("labels", said),
        help="'male' instead of 1, where the file has a label for a value. Untick this to read the codes.",
    )
    return {} if labels else {"labels": False}


def _field(line: str) -> tuple[str, str]:
    """Return the name and the positions that a line gives to a column."""
    name, _, places = line.strip().rpartition(" ")
    return name.strip(), places


def _names_form(held: dict[str, Any]) -> dict[str, Any]:
    """Ask which lines hold names; return the keys of a format that say something."""
    left, right = st.columns(2)
    rows = left.number_input(
        "Header lines",
        min_value=1,
        max_value=MOST_HEADER_ROWS,
        step=1,
        key=_key("header-rows", int(held.get("header_rows", 1))),
        help="Two if a line of questions or units follows the names.",
    )
    if rows == 1:
        return {}
    ways = ["all header lines, joined by _", *(f"header line {line}" for line in range(1, int(rows) + 1))]
    way = right.selectbox(
        "Take column names from",
        range(len(ways)),
        format_func=ways.__getitem__,
        key=_key("names-from", min(int(held.get("names_from") or 0), int(rows))),
        help="Joined, the names 2019 and 2020 below a heading 'income' become income_2019 and income_2020.",
    )
    return {"header_rows": int(rows)} | ({"names_from": way} if way else {})


def _notation_form(held: dict[str, Any]) -> dict[str, Any]:
    """Ask how numbers and dates are written, and which sheet is meant; return the keys that say something."""
    left, right = st.columns(2)
    offered = st.session_state.get(SHEETS, ())
    if offered:
        sheet = left.selectbox("Sheet of the workbook", offered, index=None, format_func=plain, key=_FORM + "a-sheet")
    else:
        sheet = left.text_input(
            "Sheet of a workbook",
            key=_key("sheet", held.get("sheet", "")),
            help="Needed only if there are several; once the workbook is uploaded, they are listed here.",
        )
    form = numbers_fields((right, left, right), held, _key, column=False)
    said = {"sheet": sheet or None, "dates": dates_field(left, held.get("dates", ()), _key)}
    form |= {key: value for key, value in said.items() if value}
    notations_note(form)
    return form


def _key(name: str, value: str | bool | int) -> str:
    """Return the key of a widget that starts from a value; a browser keeps what it showed before unless it is set."""
    if _FORM + name not in st.session_state:
        st.session_state[_FORM + name] = value
    return _FORM + name
