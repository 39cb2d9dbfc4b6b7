"""How stand-in rows are simulated, asked column by column; what is typed is public."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

import pandas as pd
import streamlit as st

from pages.ui.columns import split_list
from pages.ui.notes import note
from synth.rehearsal.simulation import SHAPES, Simulation
from synth.rehearsal.simulation_file import parse_simulation
from synth.schema import RunConfig

__all__ = ["ask_simulation"]

_SHAPE, _SHARES, _FOLLOWS, _STRENGTH = "shape", "shares", "goes with", "strength"
_KEPT, _TABLE = "simulation-kept", "simulation-table"
_MOST_ROWS, _USUAL_STRENGTH, _MOST_IN_FULL = 20_000, 0.5, 40


def ask_simulation(config: RunConfig) -> Simulation:
    """Ask for rows, shapes, public shares and links, and return what they declare.

    Raises
    ------
    ConfigError
        If something typed cannot be used.
    """
    names = list(config.schema.names)
    rows = st.number_input(
        "Rows to simulate",
        min_value=100,
        max_value=1_000_000,
        value=max(100, min(config.rows, _MOST_ROWS)),
        step=1000,
        key="simulation-rows",
    )
    note(
        "Say only what anyone could know without looking at the table; what is left empty stays even and unrelated. "
        "Shares: one number for each declared value (no first), or for equal parts of a range. Goes with: high values "
        "of both together, or against each other where the strength is negative. A label that goes with nothing "
        "cannot be predicted."
    )
    frame = st.data_editor(
        _start(names),
        key=_TABLE,
        hide_index=True,
        height="content" if len(names) <= _MOST_IN_FULL else "auto",
        disabled=["column"],
        column_config={
            _SHAPE: st.column_config.SelectboxColumn(options=list(SHAPES), required=True),
            _FOLLOWS: st.column_config.SelectboxColumn(options=["", *names]),
            _STRENGTH: st.column_config.NumberColumn(min_value=-1.0, max_value=1.0, step=0.1, format="%.1f"),
        },
    )
    rows_of_table = frame.fillna({_SHARES: "", _FOLLOWS: "", _STRENGTH: _USUAL_STRENGTH}).to_dict("records")
    st.session_state[_KEPT] = rows_of_table
    columns = {str(row["column"]): _mapping(row) for row in rows_of_table}
    return parse_simulation({"columns": columns}, rows=int(rows))


def _start(names: list[str]) -> pd.DataFrame:
    """Return what the table starts from: the same for as long as it is on the screen, then what was typed last."""
    start = st.session_state.get("simulation-start", [])
    if _TABLE not in st.session_state or [row["column"] for row in start] != names:
        typed = {row["column"]: row for row in st.session_state.get(_KEPT, [])}
        fresh: dict[str, Any] = {_SHAPE: SHAPES[0], _SHARES: "", _FOLLOWS: "", _STRENGTH: _USUAL_STRENGTH}
        start = [{"column": name, **fresh, **typed.get(name, {})} for name in names]
        st.session_state["simulation-start"] = start
        st.session_state.pop(_TABLE, None)
    return pd.DataFrame(start)


def _mapping(row: Mapping[Hashable, Any]) -> dict[str, Any]:
    body: dict[str, Any] = {"shape": str(row[_SHAPE])}
    if str(row[_SHARES]).strip():
        body["shares"] = split_list(str(row[_SHARES]))
    if row[_FOLLOWS]:
        body |= {"follows": str(row[_FOLLOWS]), "strength": float(row[_STRENGTH])}
    return body
