"""How cells are written, shown on invented cells: what a table or a column declares, and what reading makes of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
import streamlit as st

from pages.ui.charts import show_table
from pages.ui.words import note, plain
from synth.errors import SynthError
from synth.names import visible
from synth.schema import ModelledColumn, parse_format
from synth.schema.encoding import invented_cells, invented_cells_of

__all__ = ["notations_fold", "notations_note"]

_MOST_LINES = 60
"""That the fold shows: a table may have 5,000 columns."""


def notations_note(form: Mapping[str, Any]) -> None:
    """Show what the notation of a table makes of invented cells, or why it cannot be used."""
    try:
        read = invented_cells(parse_format(form))
    except SynthError as error:
        st.error(plain(str(error)))
        return
    if read:
        note("Invented cells: " + ", ".join(f"{plain(cell)} is read as {plain(became)}" for cell, became in read) + ".")


def notations_fold(columns: Sequence[ModelledColumn], form: Mapping[str, Any]) -> None:
    """Show what becomes of invented cells of the columns that are written otherwise than a program writes them."""
    try:
        read_by = parse_format(form)
    except SynthError:
        return  # said where the form of the file is asked for
    lines: list[tuple[str, str, str]] = []
    for column in columns:
        if len(lines) > _MOST_LINES:
            break
        lines += [(visible(column.name), *pair) for pair in invented_cells_of(column, read_by)]
    if not lines:
        return
    with st.expander("How cells are read, on invented cells"):
        note("Made from what you declared, and from no row.")
        frame = pd.DataFrame(lines[:_MOST_LINES], columns=["Column", "As written in the file", "What it becomes"])
        show_table(frame, alt="Invented cells of columns, and what they become", key="invented-cells")
        if len(lines) > _MOST_LINES:
            note("More columns are read in the same way.")
