"""What fills many lines of the description at once: a data dictionary, and public presets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
import streamlit as st

from pages.server.uploads import whole_stream
from pages.ui.column_rows import Row, described_as, host_of, row_of_mapping, with_times
from pages.ui.guards import guard
from pages.ui.session import draft, renew_editor, show_refusal, taking, uploader_key
from pages.ui.words import note, plain
from synth.dictionaries import (
    DICTIONARY_ENDINGS,
    Description,
    DictionaryColumn,
    describe_columns,
    dictionary_of_file,
    open_facts,
    read_dictionary,
)
from synth.names import visible
from synth.schema import COLUMN_TYPES, Preset, preset_for, presets
from synth.services.views import DraftColumn

WAY, BY_DICTIONARY = "way", "Use a data dictionary"
"""The widget that chooses a way to fill many lines, and the name of this one."""

_MEGABYTES = 50
"""Of a file: the largest is an earlier bundle; every other kind has its own, lower limit."""

_MOST_SENTENCES = 20
_PASTED = "pasted.tsv"

_PRESET_HELP = "Limits and values that anyone can look up. The source is shown below."
_HIGHEST_HELP = "A public limit, for example from a pay scale or a tariff. Larger amounts are moved to it."


# A data dictionary ---------------------------------------------------------------------------------------------------


def dictionary_panel() -> None:
    """Take a dictionary in, show line by line what was understood of it, and fill the lines that are wanted."""
    held = draft()
    if held["dictionary"] is None:
        _ask_for_dictionary()
    else:
        _show_understood()


def _ask_for_dictionary() -> None:
    left, right = st.columns(2)
    with left:
        uploaded = st.file_uploader(
            "A file: CSV, Excel, datapackage.json, YAML, .names, or an earlier bundle (zip)",
            type=list(DICTIONARY_ENDINGS),
            key=uploader_key("dictionary"),
            max_upload_size=_MEGABYTES,
            help="One line per column, or one per value. It is treated as public: never upload rows here.",
        )
    with right:
        pasted = st.text_area(
            "Or cells pasted from a spreadsheet",
            key="dictionary-pasted",
            height=110,
            placeholder="name   type      lowest   highest   step\nage     integer   0           120          1",
            help="With a header line, in any of several languages; or without one, in the order of the table below.",
        )
        if st.button("Read the pasted cells", key="dictionary-read", disabled=not pasted.strip()):
            with taking("dictionary"):
                _understand(_PASTED, pasted.encode())
    if uploaded is not None:
        with taking("dictionary"), whole_stream(uploaded, most=_MEGABYTES * 2**20) as stream:
            _understand(uploaded.name, stream.read())
    show_refusal("dictionary")


def keep_own_dictionary(columns: Sequence[DraftColumn]) -> None:
    """Keep what the file of a table says about its own columns, if it does, as what a dictionary says."""
    described = [column.described for column in columns if column.described is not None]
    own = dictionary_of_file([column.name for column in columns], described)
    if own is not None:
        _keep(describe_columns([column.name for column in columns], [own]), own=True)
        st.session_state[WAY] = BY_DICTIONARY


def _understand(name: str, data: bytes) -> None:
    """Keep what was understood of a dictionary, beside the draft's lines, until it is taken or put away."""
    names = [row["name"] for row in draft()["columns"] if not host_of(row)]
    _keep(describe_columns(names, [read_dictionary(name, data, names=names)]))


def _keep(known: Description, *, own: bool = False) -> None:
    draft()["dictionary"] = {
        "own": own,
        "columns": [[one, dict(column.body), column.source] for one, column in known.columns.items()],
        "notes": list(known.notes),
    }


def _show_understood() -> None:
    held = draft()
    told = held["dictionary"]
    lines = [(name, DictionaryColumn(name, body), source) for name, body, source in told["columns"]]
    names = {row["name"] for row in held["columns"]}
    lines = [line for line in lines if line[0] in names or line[1].body.get("of") in names]
    own = {row["name"] for row in held["columns"] if not host_of(row)}
    told_of = sum(line[0] in own for line in lines)
    st.markdown(f"**Understood {told_of:,} of your {len(own):,} columns.** Nothing is filled in yet.")
    if told.get("own"):
        note(
            "The file itself says this of its columns: labels of values, and what columns mean. Fill in what anyone "
            "may know; it will be published."
        )
    shown = [[True, visible(name), visible(column.said), _open(column)] for name, column, _ in lines]
    chosen = st.data_editor(
        pd.DataFrame(shown, columns=["take", "name", "said", "open"]),
        key="dictionary-lines",
        hide_index=True,
        disabled=["name", "said", "open"],
        column_config={
            "take": st.column_config.CheckboxColumn("Use", width=50),
            "name": st.column_config.TextColumn("Name", width=150),
            "said": st.column_config.TextColumn("Understood as", width=460),
            "open": st.column_config.TextColumn("Still missing", width=220),
        },
        alt="What was understood of the dictionary, one line for each column",
    )
    sentences = told["notes"]
    if sentences:
        listed = [f"- {plain(sentence)}" for sentence in sentences[:_MOST_SENTENCES]]
        more = [f"- {len(sentences) - _MOST_SENTENCES:,} more"] if len(sentences) > _MOST_SENTENCES else []
        st.warning("\n".join(["Left for you to fill in:", *listed, *more]))
    wanted = {line[0] for line, take in zip(lines, chosen["take"], strict=True) if take}
    take, leave = st.columns([1, 3])
    if take.button(f"Fill in {len(wanted):,} columns", type="primary", key="dictionary-take", disabled=not wanted):
        body_of = {name: (dict(column.body), source) for name, column, source in lines if name in wanted}
        taken = [taken_row(row, body_of[row["name"]][0]) if row["name"] in body_of else row for row in held["columns"]]
        times = [row_of_mapping(name, body) for name, (body, _) in body_of.items() if "of" in body]
        held["columns"] = with_times(taken, times)
        sources = {name: source for name, (_, source) in body_of.items() if source}
        held["domain_source"] = {**held["domain_source"], **sources}
        _put_away()
    if leave.button("Discard", key="dictionary-leave"):
        _put_away()


def _open(column: DictionaryColumn) -> str:
    if column.body.keys() == {"description"}:
        return ""  # its line below says what it lacks
    return ", ".join(open_facts(column.body))


def _put_away() -> None:
    draft()["dictionary"] = None
    st.session_state.pop("dictionary-lines", None)
    renew_editor()
    st.rerun()


def taken_row(row: Row, body: Mapping[str, Any]) -> Row:
    """Return the row of a column with what a dictionary or a preset says of it; what they leave open stays as it was.

    Parameters
    ----------
    row : Row
    body : mapping
        Keys of a configuration, which may lack some, its type among them.
    """
    kind = body.get("type") or _KIND_OF.get(row["role"])
    if kind is None or not body.keys() - {"description"}:
        return {**row, "description": body.get("description", row["description"])}
    taken = described_as(row, row_of_mapping(row["name"], {**body, "type": kind}))
    taken |= {"weight": row["weight"], "proposed": ""}
    if host_of(row):
        taken["extra"] = {**taken["extra"], "of": host_of(row)}
    if taken["role"] == row["role"]:
        taken |= {cell: taken[cell] or row[cell] for cell in ("low", "high", "step", "categories")}
    if not {"missing", "fallback"} & body.keys():
        same = taken["role"] == row["role"]
        taken |= {"missing": row["missing"], "fallback": row["fallback"] if same else ""}
    return taken


_KIND_OF = {column_type.role: kind for kind, column_type in COLUMN_TYPES.items()}


# Presets -------------------------------------------------------------------------------------------------------------


def preset_panel() -> None:
    """Offer public presets for many columns in one click, and propose those that a column's name speaks of."""
    held = draft()
    _proposed_by_names()
    names, preset, rest = st.columns([3, 3, 2.4], vertical_alignment="bottom")
    known = [row["name"] for row in held["columns"]]
    chosen = names.multiselect("Columns", known, format_func=visible, key="preset-columns")
    titles = {name: one.title for name, one in presets().items()}
    named = preset.selectbox(
        "Preset", list(titles), format_func=titles.__getitem__, key="preset-kind", help=_PRESET_HELP
    )
    kind = presets()[named]
    asked, button = rest.columns([1.4, 1], vertical_alignment="bottom") if kind.asks else (rest, rest)
    highest = (
        asked.text_input("Highest value", key="preset-highest", placeholder="500000", help=_HIGHEST_HELP)
        if kind.asks
        else None
    )
    if button.button("Fill in", key="preset-fill", disabled=not chosen or (bool(kind.asks) and not highest)):
        with guard():
            _apply(dict.fromkeys(chosen, kind), highest)
            st.rerun()
    note(f"{kind.title}: {kind.source}.")
    sources = [f"{plain(name)} {plain(said)}" for name, said in held["domain_source"].items() if "preset" in said]
    if sources:
        note("; ".join(sources) + ".")


def _proposed_by_names() -> None:
    """Propose presets for empty lines by the words of their names; no cell is read."""
    proposed = {
        row["name"]: preset
        for row in draft()["columns"]
        if not (row["low"] or row["high"] or row["categories"])
        and (preset := preset_for(row["name"])) is not None
        and not preset.asks
    }
    if not proposed:
        return
    said, button = st.columns([5, 2], vertical_alignment="center")
    lines = [f"{plain(name)}: {preset.title}" for name, preset in proposed.items()]
    more = f"; {len(lines) - _MOST_SENTENCES:,} more" if len(lines) > _MOST_SENTENCES else ""
    said.markdown("Suggested by name: " + "; ".join(lines[:_MOST_SENTENCES]) + more + ".")
    if button.button(f"Fill in {len(lines)} column{'s' if len(lines) > 1 else ''}", key="preset-proposed"):
        _apply(proposed, None)
        st.rerun()


def _apply(chosen: dict[str, Preset], highest: str | None) -> None:
    held = draft()
    bodies: dict[str, dict[str, Any]] = {name: preset.body(highest) for name, preset in chosen.items()}
    held["columns"] = [taken_row(row, bodies[row["name"]]) if row["name"] in bodies else row for row in held["columns"]]
    sources = {name: preset.domain_source for name, preset in chosen.items()}
    held["domain_source"] = {**held["domain_source"], **sources}
    renew_editor()
