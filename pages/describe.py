"""2 Describe: what anyone could know without looking at the table."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping
from functools import partial
from typing import Any, Literal

import pandas as pd
import streamlit as st

from pages.ui.column_rows import (
    MAXIMUM_PAIR_CELLS,
    ROLES,
    Row,
    State,
    declared_columns,
    errors_of_rows,
    is_proposed,
    lacks_fallback,
    notes_of_rows,
    pasted_beside,
    state_of,
)
from pages.ui.dictionaries import BY_DICTIONARY, WAY, dictionary_panel, preset_panel
from pages.ui.draft import Draft, as_files, config_of, missing_answers
from pages.ui.finding import finds_little, offer_finding, open_names, show_finding, take_finding
from pages.ui.guards import require, through_the_application
from pages.ui.looking import offer_look, proposals_of_look, show_look, taken_columns, taken_note
from pages.ui.many_columns import many_columns_panel
from pages.ui.notations import notations_fold
from pages.ui.people import task_questions, unit_questions
from pages.ui.rules import rule_problems, rules_panel
from pages.ui.session import draft, editor_key, go, keep_draft, renew_editor, say_when_saved
from pages.ui.words import note, plain
from synth.errors import SynthError
from synth.limits import DESCRIPTION_CHARACTERS
from synth.names import visible
from synth.schema import (
    READ_FROM_ROWS,
    RunConfig,
    config_to_yaml,
    domain_problem,
)

MOST_LINES = 24
"""That the table shows at once; of more it scrolls."""

MOST_PROPOSALS = 8
"""Columns that are asked about one by one."""

MOST_PROBLEMS = 50
"""That are listed at once: a table may have 5,000 columns."""

_PLACES = 100
"""Places a number or a date counts for in the meter; a category counts in full, because nothing can group it."""

_ROW_HEIGHT = 34
_WIDTHS = (112, 92, 96, 76, 80, 64, 92, 70, 68, 97)
"""Of the columns of the table that are always shown; together they are stretched to the page."""
_USUAL = ("name", "role", "low", "high", "step", "categories", "missing", "other", "fallback")
_MORE = ("special", "weight")
_IN_WORDS = ("name", "role", "description")
_SHOWN = (*_USUAL, *_MORE, "description")
_WIDTH_OF_WORDS = 560


def screen() -> None:
    """Draw the screen: the people, then the columns, and folded what a release can do without."""
    title, saved = st.columns([3, 1], vertical_alignment="bottom")
    title.title("Describe the table")
    require("table")
    take_finding()
    held = draft()
    # Before anything is drawn, so that every sentence of the page is about what stands in its table now.
    take_edits(held)

    st.markdown(
        "**Declare what anyone could know without looking at this table. Everything you type here will be published.**"
    )
    st.header("The people")
    unit_questions()
    confirmed = False
    if is_at_the_columns(held):
        st.header("The columns")
        confirmed = columns_step(held)
        with st.expander("A column to predict, people held out, groups to compare (optional)"):
            task_questions()
        with st.expander("Rules between columns (optional)", expanded=bool(held["rules"])):
            rules_panel()
    else:
        note(f"Next: {plain(missing_answers(held)[0])} The columns come after that.")

    config, problems = _configuration(held)
    held["described"] = held["described"] and not problems
    keep_draft(merge=False)
    say_when_saved(saved)

    st.divider()
    go_on(held, config, problems, at_once=confirmed)


def is_at_the_columns(held: Draft) -> bool:
    """Whether the people are declared, which finding columns privately needs; or columns have been begun already."""
    begun = any(row["low"] or row["high"] or row["categories"] for row in held["columns"])
    return begun or bool(held["domain_source"]) or not missing_answers(held)


def columns_step(held: Draft) -> bool:
    """Offer the ways to describe columns, the recommended one first, and the table in which they stand.

    Returns
    -------
    bool
        Whether everything that the rows propose was confirmed just now.
    """
    confirmed = False
    looked = proposals_of_look(held)
    if not show_finding():
        if looked is None:
            offers(held)
        else:
            confirmed = show_look(held, looked)
    taken_note(taken_columns(held))
    if looked is None:  # otherwise every open line has a proposal already
        ways()
        proposals()
    column_editor()
    tick_empty()
    notations_fold()
    for sentence in notes_of_rows(held["columns"]):
        st.info(plain(sentence))
    domain_meter()
    return confirmed


def offers(held: Draft) -> None:
    """Offer to find what is open privately, or to look at the rows."""
    names = open_names(held["columns"])
    if not names:
        return
    if missing_answers(held):
        note("The columns left can be found privately once the people are declared.")
        return
    if held["found"] is not None:
        with st.container(border=True):
            offer_look(first=False)
        return
    left, right = st.columns(2, border=True)
    blind = finds_little(names)
    with right if blind else left:
        offer_finding(names)
    with left if blind else right:
        offer_look(first=blind)


def _configuration(held: Draft) -> tuple[RunConfig | None, list[str]]:
    """Return the configuration that is described, or what keeps it from being one."""
    problems = [*missing_answers(held), *errors_of_rows(held["columns"])]
    if problems:
        return None, problems
    try:
        return config_of(held), rule_problems()
    except SynthError as error:
        return None, [str(error)]


def go_on(held: Draft, config: RunConfig | None, problems: list[str], *, at_once: bool) -> None:
    """Offer the next page and the description as a file, or say what is open; ``at_once`` goes on where it can."""
    left, middle, right = st.columns([2, 2, 2], vertical_alignment="center")
    # While proposals of a look wait above, confirming them is the way on that is offered first.
    kind: Literal["primary", "secondary"] = "primary" if proposals_of_look(held) is None else "secondary"
    if left.button("Continue to 3 Budget", type=kind, key="continue-budget") or at_once:
        if problems:
            st.session_state["asked"] = True
            if at_once:
                st.rerun()  # what was confirmed is in the table, and no longer above it
        else:
            held["described"] = True
            st.session_state.pop("asked", None)
            go("budget")
    open_lines = sum(state_of(row).is_open for row in held["columns"])
    if open_lines and is_at_the_columns(held):
        middle.button(
            f"Show {'the incomplete column' if open_lines == 1 else f'the {open_lines} incomplete columns'}",
            key="show-open",
            on_click=_show_lines,
            args=(_OPEN,),
        )
    if config is not None:
        right.download_button(
            "Download this description (YAML)",
            data=partial(config_to_yaml, as_files(held, config).published()),
            file_name="hermitage.yaml",
            mime="application/yaml",
            on_click="ignore",
            key="download-description",
            help="Contains only what you declared. Upload it with the next table, or use it on the command line.",
        )
    if problems and st.session_state.get("asked"):
        if _PASTED in st.session_state:
            st.error("Before you continue, check the pasted block: see the message above the table.")
            return
        more = [f"- {len(problems) - MOST_PROBLEMS:,} more"] if len(problems) > MOST_PROBLEMS else []
        listed = [f"- {plain(problem)}" for problem in problems[:MOST_PROBLEMS]]
        st.error("\n".join(["Before you continue:", *listed, *more]))
    elif problems and is_at_the_columns(held):
        note(f"{_what_is_open(open_lines, len(missing_answers(held)))}.")


def _what_is_open(lines: int, questions: int) -> str:
    """Say how many lines and how many questions below the table are open."""
    counted = [(lines, "column"), (questions, "question")]
    parts = [f"{number} {word}{'s' if number > 1 else ''}" for number, word in counted if number]
    verb = "is" if len(parts) == 1 and lines + questions == 1 else "are"
    return f"{' and '.join(parts)} {verb} incomplete" if parts else "Something is missing"


def ways() -> None:
    """Offer, in one row, the ways to fill many lines at once; the chosen one unfolds below it."""
    chosen = st.segmented_control("Fill in many columns at once", list(WAYS), key=WAY, help=_WAYS_HELP)
    if chosen is not None:
        with st.container(border=True):
            WAYS[chosen]()


def proposals() -> None:
    """List the columns that would be dropped or replaced by a guess, and ask about them, one by one or all at once."""
    held = draft()
    guessed = [row for row in held["columns"] if is_proposed(row)]
    if not guessed:
        return
    with st.container(border=True):
        many = f"{len(guessed)} columns" if len(guessed) > 1 else "One column"
        words, everything = st.columns([5, 2], vertical_alignment="center")
        words.markdown(f"**{many} would not be synthesised as {'they are' if len(guessed) > 1 else 'it is'}.**")
        if len(guessed) > 1:
            everything.button(
                f"Accept all {len(guessed)}", key="accept-all", on_click=_decide, args=([r["name"] for r in guessed],)
            )
        for row in guessed[:MOST_PROPOSALS]:
            text, accept, keep = st.columns([5, 1, 1], vertical_alignment="center")
            text.markdown(f"{plain(row['name'])} would be {plain(row['proposed'])}.")
            place = [one["name"] for one in held["columns"]].index(row["name"])
            accept.button("Accept", key=f"accept:{place}", on_click=_decide, args=([row["name"]],))
            keep.button("Keep it", key=f"keep:{place}", on_click=_decide, args=([row["name"]],), kwargs={"role": ""})
        if len(guessed) > MOST_PROPOSALS:
            names = ", ".join(plain(row["name"]) for row in guessed[MOST_PROPOSALS:])
            note(f"And {len(guessed) - MOST_PROPOSALS} more: {names}. Change their roles in the table.")


def _decide(names: list[str], role: str | None = None) -> None:
    """Accept what is proposed for columns, or give them another role."""
    for row in draft()["columns"]:
        if row["name"] in names:
            row.update({"proposed": ""} if role is None else {"proposed": "", "role": role})
    renew_editor()


WAYS: dict[str, Callable[[], None]] = {
    "Set like columns together": many_columns_panel,
    BY_DICTIONARY: dictionary_panel,
    "Use public presets": preset_panel,
}
"""Ways to fill in many lines at once, in the order offered: the label, and the panel that it opens."""

_WAYS_HELP = "Each shows first what it would fill in. You can edit everything afterwards."


def column_editor() -> None:
    """Draw the table of columns; one line a column, written back into the draft."""
    held = draft()
    names = _names_shown(held["columns"])
    start = _editor_input([row for row in held["columns"] if row["name"] in names])
    states = {row["name"]: state_of(row, held["domain_source"].get(row["name"], "")) for row in held["columns"]}
    cells = _choose_lines(held["columns"], states)
    undo_form()
    # Names are shown so that nothing in them deceives; rows are identified by position. What a line lacks is
    # that of the edited line: values may change under the editor, and its own edits stay.
    shown = [[states[name].words, visible(name), *fields] for name, *fields in start]
    st.data_editor(
        pd.DataFrame(shown, columns=["state", *_SHOWN]),
        key=editor_key(),
        hide_index=True,
        num_rows="fixed",
        disabled=["state", "name"],
        column_order=["state", *cells],
        column_config=_column_config(cells),
        alt="One row for each column of the table: what is missing, its role, limits, categories and accuracy weight",
        row_height=_ROW_HEIGHT,
        height=_ROW_HEIGHT * (min(len(shown), MOST_LINES) + 1) + 3,
    )
    first = next((states[name].sentence for name in names if states[name].is_open), None)
    if first is not None and _PASTED not in st.session_state:
        note(f"Next: {plain(first)}")
    with st.expander("What to type into this table"):
        note(
            "Bounds and categories start empty: nothing is taken from the rows unless you ask for it. Categories: "
            "separated by commas, with double quotes around a value that contains one; for a yes/no column its two "
            "words, yes first. Step: 1 for whole numbers, 0.1 or 0.01 for decimals; day, month or year; hour, quarter "
            "or minute. Empty: cells may be missing. Other: undeclared values become 'other'. "
            "Unreadable: what a cell such as '80kg' among numbers becomes, in columns that are never empty. "
            "Special: numbers with a meaning of their own, such as 0 or 999. "
            "Weight: which columns get more of the accuracy; everyone's protection stays the same. Description: what "
            "the column means, for those who will use the release; it is published with it."
        )


_ALL, _OPEN = "all", "open"
_ALL_CELLS_HELP = "Numbers with a meaning of their own, such as 0 or 999, and columns that matter more than others."
_DESCRIPTIONS_HELP = "What each column means, in one line: published with the release, beside its name."
_LINES, _CHOSEN, _PASTED = "lines", "lines-shown", "pasted"


def _choose_lines(rows: list[Row], states: Mapping[str, State]) -> tuple[str, ...]:
    """Say how far the lines have come, offer to show the open ones only, and return which cells are shown."""
    lines = len(states)
    still = sum(state.is_open for state in states.values())
    choice, words, cells, counts = st.columns([3.2, 1.4, 2.2, 2.2], vertical_alignment="center")
    st.session_state.setdefault(_LINES, _ALL)
    choice.segmented_control(
        "Lines",
        [_ALL, _OPEN],
        key=_LINES,
        format_func={_ALL: f"All {lines} columns", _OPEN: f"Incomplete only ({still})"}.__getitem__,
        label_visibility="collapsed",
        on_change=_show_chosen,
    )
    ends = {"ready": "●", "dropped": "⊘", "replaced": "↻"}
    told = [(sum(state.words.startswith(dot) for state in states.values()), word) for word, dot in ends.items()]
    note(" · ".join(f"{number} {word}" for number, word in told if number), counts)
    used = any(row["special"] or row["weight"] not in ("", "normal") for row in rows)
    described = words.checkbox("Descriptions", key="description-cells", help=_DESCRIPTIONS_HELP)
    everything = cells.checkbox("Special values and weights", used, key="all-cells", help=_ALL_CELLS_HELP)
    return _IN_WORDS if described else (*_USUAL, *_MORE) if everything else _USUAL


def _show_chosen() -> None:
    _show_lines(st.session_state.get(_LINES) or _ALL)


def _show_lines(which: str) -> None:
    """Show all lines, or those that are open now: a line that is filled stays until the next choice."""
    st.session_state[_LINES] = which
    rows = draft()["columns"]
    st.session_state[_CHOSEN] = [row["name"] for row in rows if state_of(row).is_open] if which == _OPEN else None
    renew_editor()


def _names_shown(rows: list[Row]) -> list[str]:
    names = [row["name"] for row in rows]
    chosen = st.session_state.get(_CHOSEN)
    kept = [name for name in names if chosen is None or name in chosen]
    return kept or names


def take_edits(held: Draft) -> None:
    """Write the edits of the table into the draft, and notice a block that was pasted one column off."""
    shown = _names_shown(held["columns"])
    start = _editor_input([row for row in held["columns"] if row["name"] in shown])
    edited = (st.session_state.get(editor_key()) or {}).get("edited_rows", {})
    values = {start[int(place)][0]: (start[int(place)], cells) for place, cells in edited.items()}
    before, rows, changed = held["columns"], [], []
    for row in before:
        if row["name"] not in values:
            rows.append(row)
            continue
        line, cells = values[row["name"]]
        typed = _clean({**dict(zip(_SHOWN, line, strict=True)), **cells})
        after = {**row, **typed, "name": row["name"]}
        if after["role"] != row["role"]:
            after["proposed"] = ""
        rows.append(after)
        if after != row:
            changed.append((row, after))
    if changed:
        # A description says nothing about bounds and values, and where these come from stays as it is.
        names = {row["name"] for row, after in changed if {**after, "description": row["description"]} != row}
        # What was taken from the rows stays so, however it is edited: its owner has seen them.
        held["domain_source"] = {
            name: text for name, text in held["domain_source"].items() if name not in names or text == READ_FROM_ROWS
        }
        held["columns"] = rows
        beside = pasted_beside(changed)
        st.session_state.pop(_PASTED, None)
        if beside is not None:
            st.session_state[_PASTED] = (beside, [row for row, _ in changed])


def undo_form() -> None:
    """Say that a block seems to be one column off, and offer to undo the paste."""
    if _PASTED not in st.session_state:
        return
    sentence, _ = st.session_state[_PASTED]
    words, button, leave = st.columns([5, 2, 1], vertical_alignment="center")
    words.warning(plain(sentence))
    button.button("Undo the paste", key="undo-paste", on_click=_undo, type="primary")
    leave.button("Leave it there", key="leave-paste", on_click=st.session_state.pop, args=(_PASTED, None))


def _undo() -> None:
    _, before = st.session_state.pop(_PASTED)
    known = {row["name"]: row for row in before}
    draft()["columns"] = [known.get(row["name"], row) for row in draft()["columns"]]
    renew_editor()


def tick_empty() -> None:
    """Offer to give all columns that lack one a place for cells that cannot be read."""
    held = draft()
    open_columns = [row["name"] for row in held["columns"] if lacks_fallback(row)]
    if open_columns and st.button(
        f"Tick 'Empty' in {len(open_columns)} column{'s' if len(open_columns) > 1 else ''}",
        key="tick-empty",
        help="A cell that cannot be read then becomes missing. Synthetic rows may have missing cells there.",
    ):
        held["columns"] = [{**row, "missing": True} if row["name"] in open_columns else row for row in held["columns"]]
        renew_editor()
        st.rerun()


def domain_meter() -> None:
    """Say how many cells the largest tables of one, two and three columns have, from the declarations alone."""
    columns = declared_columns(draft()["columns"])
    if not columns:
        return
    sizes = [(column.name, min(column.size, _PLACES) if column.levels else column.size) for column in columns]
    ordered = sorted(sizes, key=lambda entry: -entry[1])
    for width, place in zip((1, 2, 3), st.columns(3), strict=True):
        if len(ordered) >= width:
            top, card = ordered[:width], place.container(border=True)
            card.metric(f"Cells in the largest {width}-way table", f"{math.prod(size for _, size in top):,}")
            note(" \N{MULTIPLICATION SIGN} ".join(plain(name) for name, _ in top), card)
    note(f"Numbers and dates count as at most {_PLACES} bins each, because generators group them.")
    problem = domain_problem(columns)
    if problem is not None:
        st.error(plain(problem))
    elif len(ordered) > 1 and ordered[0][1] * ordered[1][1] > MAXIMUM_PAIR_CELLS:
        (name, size), (_, other) = ordered[:2]
        st.warning(
            f"{plain(name)} has {size:,} categories. Group it (for example by first digit), or leave it out. Keeping "
            f"it needs about {_about(size * other)} cells for pairs."
        )


def _about(cells: int) -> str:
    return f"{cells / 1e6:,.1f} million" if cells < 1e9 else f"{cells / 1e9:,.1f} billion"


def _editor_input(rows: list[Row]) -> list[list[Any]]:
    """Return what the editor starts from; it must not change while the editor is on the screen."""
    names = [row["name"] for row in rows]
    held = st.session_state.get("editor-input")
    fresh = editor_key() not in st.session_state
    if held is None or fresh or [line[0] for line in held] != names:
        held = [[row[field] for field in _SHOWN] for row in rows]
        st.session_state["editor-input"] = held
    return list(held)


def _clean(row: Mapping[Hashable, Any]) -> Row:
    texts = {
        key: "" if row[key] is None else str(row[key]).strip() for key in _SHOWN if key not in {"missing", "other"}
    }
    return {**texts, "missing": bool(row["missing"]), "other": bool(row["other"])}


def _column_config(cells: tuple[str, ...]) -> dict[str, Any]:
    text, choice, tick = st.column_config.TextColumn, st.column_config.SelectboxColumn, st.column_config.CheckboxColumn
    # Widths in pixels: together no wider than the page at 1280, so the table never scrolls sideways.
    widths = {
        _USUAL: _WIDTHS,
        (*_USUAL, *_MORE): (76, 72, 82, 74, 78, 62, 98, 68, 66, 96, 76, 74),
        _IN_WORDS: (112, 150, 110, _WIDTH_OF_WORDS),
    }[cells]
    wide = dict(zip(("state", *cells), widths, strict=True))
    return {
        "state": text(
            "State",
            width=wide.get("state"),
            help="● ready or found privately, ○ something missing, ✕ needs checking, ⊘ dropped, ↻ replaced",
        ),
        "name": text("Name", width=wide.get("name")),
        "role": choice("Role", options=list(ROLES), required=False, width=wide.get("role")),
        "low": text("Lowest", width=wide.get("low"), help="A number, or a date such as 2020-01-31"),
        "high": text("Highest", width=wide.get("high"), help="A number, or a date such as 2025-12-31"),
        "step": text(
            "Step",
            width=wide.get("step"),
            help="1 for whole numbers, 0.1 or 0.01 for decimals; day, month, year; or hour, quarter, minute",
        ),
        "categories": text("Categories", width=wide.get("categories")),
        "missing": tick(
            "Empty", width=wide.get("missing"), help="Cells may be missing; one that cannot be read is then missing too"
        ),
        "other": tick(
            "Other", width=wide.get("other"), help="Undeclared values become 'other'; so do cells that cannot be read"
        ),
        "fallback": text(
            "Unreadable",
            width=wide.get("fallback"),
            help="What a cell that cannot be read becomes if neither Empty nor Other is ticked",
        ),
        "special": text(
            "Special", width=wide.get("special"), help="Numbers with a meaning of their own, such as 0 or 999"
        ),
        "weight": choice("Weight", options=["low", "normal", "high"], required=True, width=wide.get("weight")),
        "description": text(
            "Description",
            width=wide.get("description"),
            max_chars=DESCRIPTION_CHARACTERS,
            help="What the column means, in one line. It is published.",
        ),
    }


if __name__ == "__main__":
    through_the_application()
    screen()
