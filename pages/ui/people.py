"""Questions about the people: who is protected, how many there are, and what the rows are for."""

from __future__ import annotations

from functools import partial

import streamlit as st

from pages.ui.column_rows import IDENTIFIER, MODELLED_ROLES, host_of, with_order
from pages.ui.draft import (
    MOST_PILLS,
    Draft,
    asks_for_number,
    columns_of_unit,
    keeps_together,
    linked_of,
    may_keep_together,
    plural_of,
)
from pages.ui.looking import seen_together
from pages.ui.session import bind, draft, renew_editor
from pages.ui.words import name_or, note, plain
from synth.names import listed
from synth.schema import READ_FROM_ROWS, PrivacyUnit
from synth.schema.guesses import belongs_to_unit_by_name, order_by_name

UNITS = ("person", "household", "organisation", "one event", "other")
_ROW_COUNT = {
    "public": "Yes: it is published, and the promise hides what the rows of any one of them say",
    "private": "No: it is measured with part of the budget, and the promise hides who is in the table at all",
}
_USUAL_ROWS = (1, 2, 3, 5, 10, 20)
_MORE_ROWS = "another number"

_MOST_SIDE_BY_SIDE = 16
"""Columns that are offered side by side; more are offered in a list."""

_WHO, _WHO_ELSE, _ROWS, _WHOSE = ("field:protects-choice", "field:protects-other", "field:rows-choice", "field:whose")
"""Widgets whose answers go into the draft before the page is drawn, so that all of it says the same."""


def unit_questions() -> None:
    """Ask who is protected, how many rows one of them can have, and whether their number is public."""
    held = draft()
    left, right = st.columns(2, gap="large")
    with left:
        _protects()
        unit = held["protects"] or "person"
        _rows_of_one(unit)
        if held["tables"] is not None:
            _whose_row_settled(unit)
        elif held["rows_per_unit"] and held["rows_per_unit"] > 1:
            _whose_row(unit)
    with right:
        st.radio(
            "Is their number public?",
            list(_ROW_COUNT),
            format_func=_ROW_COUNT.__getitem__,
            help="For a register of everyone, usually yes. For patients with one disease, usually no.",
            **bind("row_count"),
        )
        if asks_for_number(held):
            st.number_input(
                f"How many are there? (unit: {plain(unit)})",
                min_value=1,
                step=1,
                placeholder="a public number",
                help="Published and used as you type it. It is never counted in the table or compared with it.",
                **bind("number_of_units"),
            )
        else:
            st.number_input(
                f"How many are there at most? (unit: {plain(unit)})",
                min_value=1,
                step=1,
                placeholder="a public upper bound",
                help="Sets the default delta and the expected accuracy: a bound far above the true "
                "number makes the forecast too optimistic. It is published with the release and never read from the "
                "table.",
                **bind("people_at_most"),
            )
    if may_keep_together(held):
        _rows_together(held, plain(held["protects"] or "person"))
    if held["protects"] and held["rows_per_unit"]:
        st.markdown(f"**{plain(PrivacyUnit(held['protects'], int(held['rows_per_unit'])).sentence)}.**")


def task_questions() -> None:
    """Ask for the column to predict, the share of people held out for checking, and the groups to compare."""
    held = draft()
    left, right = st.columns(2, gap="large")
    modelled = [row["name"] for row in held["columns"] if row["role"] in MODELLED_ROLES]
    if held["label"] not in modelled:
        held["label"] = None
        st.session_state.pop("field:label", None)
    with left:
        st.selectbox(
            "Column to predict (optional)",
            [None, *modelled],
            placeholder="none",
            format_func=partial(name_or, none="none"),
            help="Some generators give priority to what predicts this column. The report says how well it is "
            "predicted.",
            **bind("label"),
        )
    with right:
        st.number_input(
            "Share of people held out for checking",
            min_value=0.0,
            max_value=0.5,
            step=0.05,
            format="%.2f",
            help="Drawn once per account and never seen by a generator. 0 uses everyone; a test table can "
            "then be used for checking.",
            **bind("holdout"),
        )
    _whose_groups(modelled)


def _whose_groups(modelled: list[str]) -> None:
    held = draft()
    if not set(held["groups"]) <= set(modelled):
        held["groups"] = [name for name in held["groups"] if name in modelled]
        st.session_state.pop("field:groups", None)
    if len(modelled) > MOST_PILLS:
        chosen = ", ".join(plain(name) for name in held["groups"]) or "none"
        note(f"Columns to compare by group: {chosen}. For a table this wide, name them in a codebook.")
        return
    # Not a multiselect: the names that it shows cannot be read on a dark page.
    st.pills(
        "Columns to compare by group (optional)",
        modelled,
        selection_mode="multi",
        format_func=plain,
        help="The report then shows the accuracy for each group, at no cost. The default generator prefers tables of "
        "these columns.",
        **bind("groups"),
    )


def _protects() -> None:
    held = draft()
    known = held["protects"] in UNITS[:-1]
    if _WHO not in st.session_state and held["protects"] is not None:
        st.session_state[_WHO] = held["protects"] if known else UNITS[-1]
    chosen = st.radio(
        "Who are you protecting?",
        UNITS,
        index=None,
        horizontal=True,
        key=_WHO,
        on_change=_take_unit,
        help="Anyone the data could harm. All rows of one of them are protected together; one person may have "
        "several rows.",
    )
    if chosen == UNITS[-1]:
        if _WHO_ELSE not in st.session_state:
            st.session_state[_WHO_ELSE] = "" if known else held["protects"] or ""
        st.text_input("Who?", placeholder="patient", key=_WHO_ELSE, on_change=_take_unit)


def _take_unit() -> None:
    chosen = st.session_state.get(_WHO)
    draft()["protects"] = (st.session_state.get(_WHO_ELSE, "").strip() or None) if chosen == UNITS[-1] else chosen


def _rows_of_one(unit: str) -> None:
    """Ask for the cap on rows: the usual ones at a click, any other typed."""
    held, tables = draft(), linked_of(draft())
    if _ROWS not in st.session_state and held["rows_per_unit"]:
        st.session_state[_ROWS] = str(held["rows_per_unit"]) if held["rows_per_unit"] in _USUAL_ROWS else _MORE_ROWS
    # With one row for each at most, two tables would be one.
    usual = _USUAL_ROWS if tables is None else _USUAL_ROWS[1:]
    where = "" if tables is None else f" in {plain(tables.second)}"
    chosen = st.pills(
        f"At most how many rows can one {plain(unit)} have{where}?",
        [*map(str, usual), _MORE_ROWS],
        wrap=True,
        key=_ROWS,
        on_change=_take_rows,
        help="If each row is a visit and a patient has at most five visits: five. Rows beyond that are not used.",
    )
    if chosen == _MORE_ROWS:
        least = 1 if tables is None else 2
        st.number_input(
            "How many rows?", min_value=least, step=1, placeholder="a public number", **bind("rows_per_unit")
        )


def _take_rows() -> None:
    chosen = st.session_state.get(_ROWS)
    draft()["rows_per_unit"] = None if chosen in (None, _MORE_ROWS) else int(chosen)
    st.session_state.pop("field:rows_per_unit", None)


def _whose_row(unit: str) -> None:
    held = draft()
    names = [row["name"] for row in held["columns"] if not host_of(row)]
    label = "Which column identifies whose row it is?"
    words = "Rows with the same value belong together. The values are never published."
    if held["id_column"] in names:
        st.session_state.setdefault(_WHOSE, held["id_column"])
    if len(names) > _MOST_SIDE_BY_SIDE:
        none = "there is no such column"
        st.selectbox(
            label,
            [None, *names],
            placeholder=none,
            format_func=partial(name_or, none=none),
            help=words,
            key=_WHOSE,
            on_change=_take_whose_row,
        )
    else:
        st.pills(label, names, format_func=plain, help=words, wrap=True, key=_WHOSE, on_change=_take_whose_row)
    if held["id_column"] is None:
        st.warning(
            "Without such a column the limit cannot be enforced: the guarantee holds only if this number is true."
        )
        return
    _cap_note(unit)


def _whose_row_settled(unit: str) -> None:
    """Say what two tables answer: whose row it is."""
    tables = linked_of(draft())
    if tables is not None:
        note(f"{plain(tables.key)}, the key of both tables, says whose row it is. Its values are never published.")
        if draft()["rows_per_unit"]:
            _cap_note(unit)


def _cap_note(unit: str) -> None:
    held = draft()
    which = "the first in their order" if keeps_together(held) and held["ordered_by"] else "chosen at random"
    where = "" if held["tables"] is None else f" in {plain(held['tables']['second'])}"
    note(f"Enforced: at most {held['rows_per_unit']} rows per {plain(unit)}{where} are kept, {which}.")


def _rows_together(held: Draft, unit: str) -> None:
    """Ask whether a synthetic unit has several rows too, what belongs to the unit, and in what order its rows come."""
    if held["tables"] is not None:
        _two_tables_together(held, unit)
        return
    st.radio(
        f"Should each synthetic {unit} have several rows too?",
        list(_TOGETHER),
        format_func=_TOGETHER.__getitem__,
        horizontal=True,
        help=f"If yes, what stays the same and what follows what is learnt from one row for each {unit}, so the noise "
        f"does not grow with the number of rows. If no, every synthetic row is a {unit} of its own.",
        **bind("kept_together"),
    )
    if not keeps_together(held):
        return
    _propose_together(held)
    left, right = st.columns(2, gap="large")
    names = [row["name"] for row in held["columns"] if row["role"] in (*MODELLED_ROLES, "")]
    with left:
        _keep_names("same_in_all_rows", [name for name in held["same_in_all_rows"] if name in names])
        label, words = f"Which columns belong to the {unit}?", f"They are the same in all rows of one {unit}."
        choices = [name for name in names if name != held["ordered_by"]]
        if len(names) > MOST_PILLS:
            st.multiselect(label, choices, format_func=plain, help=words, **bind("same_in_all_rows"))
        else:
            st.pills(
                label,
                choices,
                selection_mode="multi",
                format_func=plain,
                wrap=True,
                help=words,
                **bind("same_in_all_rows"),
            )
    with right:
        _order_question(held)


def _two_tables_together(held: Draft, unit: str) -> None:
    """Say what belongs to the unit, which two tables answer, and ask in what order rows of the second come."""
    said = held["tables"]
    _propose_together(held)
    left, right = st.columns(2, gap="large")
    with left:
        seen = {row["name"] for row in held["columns"] if row["role"] in (*MODELLED_ROLES, "")}
        names = [name for name in columns_of_unit(held) if name in seen]
        of_first = f"{plain(said['first'])} has no column but the key"
        if names:
            of_first = f"Columns of {plain(said['first'])} belong to the {unit}: {plain(listed(names, 12))}"
        st.markdown(
            f"**{of_first}.** A synthetic {unit} has 0 to {held['rows_per_unit']} rows in {plain(said['second'])}: "
            "how many is learnt."
        )
    with right:
        _order_question(held)


def _order_question(held: Draft) -> None:
    taken = columns_of_unit(held)
    ordered = [name for name in with_order(held["columns"]) if name not in taken]
    _keep_names("ordered_by", held["ordered_by"] if held["ordered_by"] in ordered else None)
    where = "the rows" if held["tables"] is None else f"rows of {plain(held['tables']['second'])}"
    st.selectbox(
        f"Which column says in what order {where} come?",
        [None, *ordered],
        placeholder=_NO_ORDER,
        format_func=partial(name_or, none=_NO_ORDER),
        help="A date, a time or a number. Synthetic rows keep that order, and the time between them is learnt.",
        **bind("ordered_by"),
    )


_TOGETHER = {"whole": "Yes: their rows are kept together", "separate_rows": "No: separate rows"}
_NO_ORDER = "no order"


def _keep_names(field: str, kept: object) -> None:
    """Let an answer name only columns that can still be chosen."""
    held = draft()
    if held[field] != kept:
        held[field] = kept
        st.session_state.pop(f"field:{field}", None)


def _propose_together(held: Draft) -> None:
    """Offer what names of columns suggest and, after a look at the rows, what they show; nothing is filled in before.

    What only rows show is marked as taken from them, as ranges are.
    """
    if held["same_in_all_rows"] or held["ordered_by"]:
        return
    # Of two tables it is settled which columns belong to the unit.
    settled = columns_of_unit(held)
    names = [row["name"] for row in held["columns"] if row["role"] in (*MODELLED_ROLES, "")]
    names = [name for name in names if name not in settled]
    same = [name for name in names if held["tables"] is None and belongs_to_unit_by_name(name)]
    order = order_by_name([name for name in with_order(held["columns"]) if name not in settled])
    looked = seen_together(held)
    if looked is not None:
        seen = [name for name in looked.same if held["tables"] is None and name in names]
        first = looked.order if looked.order in names else None
        if seen or first:
            st.markdown(f"Seen in your rows ({plain(looked.evidence)}): {_in_words(seen, first)}.")
            note("○ owner only. The certificate and the report name what you take from the rows.")
            if st.button("Take what the rows show", key="together-from-rows"):
                _take_together(held, seen, first, read=[name for name in (*seen, first) if name not in (*same, order)])
            return
    if same or order:
        st.markdown(f"By their names: {_in_words(same, order)}.")
        if st.button("Take what the names suggest", key="together-from-names"):
            _take_together(held, same, order, read=[])


def _in_words(same: list[str], order: str | None) -> str:
    unit = plain(draft()["protects"] or "person")
    belongs = f"{plain(listed(same, 6))} {'belongs' if len(same) == 1 else 'belong'} to the {unit}" if same else ""
    ordered = f"the order of rows is that of {plain(order)}" if order else ""
    return "; ".join(filter(None, (belongs, ordered)))


def _take_together(held: Draft, same: list[str], order: str | None, *, read: list[str | None]) -> None:
    held.update(same_in_all_rows=same, ordered_by=order)
    modelled = {row["name"] for row in held["columns"]}
    held["domain_source"] |= {name: READ_FROM_ROWS for name in read if name in modelled}
    for field in ("same_in_all_rows", "ordered_by"):
        st.session_state.pop(f"field:{field}", None)
    st.rerun()


def output_number() -> None:
    """Ask how many rows to make, or how many units where their rows are kept together."""
    held = draft()
    by_people = keeps_together(held) and held["by_people"]
    units = plain(plural_of(held["protects"]))
    if keeps_together(held) and held["tables"] is None:
        st.radio(
            "What to count",
            [False, True],
            format_func={False: "Rows", True: units.capitalize()}.__getitem__,
            horizontal=True,
            help=f"Synthetic {units} have up to {held['rows_per_unit']} rows each: how many is learnt. The rows of the "
            "last one are not cut, so there may be a few more rows than you ask for.",
            **bind("by_people"),
        )
    st.number_input(
        f"{units.capitalize() if by_people else 'Rows'} to make (a public number)",
        min_value=1,
        max_value=50_000_000,
        step=1000,
        help="As many as you like: more rows contain no more information and cost nothing. Do not type the "
        "exact number of private rows if that is secret.",
        **bind("rows"),
    )
    if held["tables"] is not None:
        first, second = plain(held["tables"]["first"]), plain(held["tables"]["second"])
        note(f"Each is one row of {first}, with up to {held['rows_per_unit']} rows of {second}, or none.")


def _take_whose_row() -> None:
    held = draft()
    held["id_column"] = st.session_state.get(_WHOSE)
    for row in held["columns"]:
        if row["name"] == held["id_column"]:
            row.update(role=IDENTIFIER, proposed="")
    renew_editor()
