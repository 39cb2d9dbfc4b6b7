"""Noisy counts as pictures, one table at a time: a histogram of one column, a heat map of two; all of them as CSV."""

from __future__ import annotations

import streamlit as st

from pages.ui.charts import show_histogram, show_plot, table_figure
from pages.ui.words import note, plain, small
from synth.names import visible
from synth.reports.counted import CountedTable, Counts

_MOST_CELLS = 10_000
"""Most counts of a picture; more could not be told apart."""


def show_counts(counts: Counts, *, key: str, sealed: bool = True) -> None:
    """Show one table of counts as a picture, and offer all of them.

    Parameters
    ----------
    counts : Counts
    key : str
        Of the widgets.
    sealed : bool
        Whether they may be downloaded.
    """
    if not counts.tables:
        st.info(plain(counts.sentence))
        return
    places = range(len(counts.tables))
    names = [visible(table.title) for table in counts.tables]
    drawn = next((place for place in places if counts.tables[place].columns), 0)
    chosen = st.selectbox("Table of counts", places, drawn, format_func=names.__getitem__, key=f"{key}-of")
    show_counted(counts.tables[chosen], key=f"{key}-{chosen}")
    st.download_button(
        "Download all counts (CSV)",
        counts.csv,
        "counts.csv",
        "text/csv",
        on_click="ignore",
        disabled=not sealed,
        help=None if sealed else "Available once the release is sealed on 6 Release.",
        key=f"{key}-download",
    )
    if counts.sentence:
        note(plain(counts.sentence))


def show_counted(table: CountedTable, *, key: str) -> None:
    """Draw one table of counts: as a histogram, as a heat map, or in words where it cannot be drawn."""
    bars = table.bars
    if bars is not None:
        show_histogram(bars, key=key)
    elif len(table.columns) == 2 and table.counts.size <= _MOST_CELLS:
        title = " and ".join(table.titles)
        st.markdown(f"**{plain(title)}**  \n{small(plain(table.error_words))}")
        frame = table.frame(2)[["value_1", "value_2", "count"]]
        twin = frame.rename(columns=dict(zip(("value_1", "value_2"), table.titles, strict=True)))
        show_plot(table_figure(table.titles, table.values, table.counts), title=title, twin=twin, key=key)
    elif not table.columns:
        st.markdown(f"**{plain(table.title)}**: {table.counts[0]:,.1f}")
        note(table.error_words)
    else:
        st.info(f"{table.counts.size:,} counts of {plain(table.title)}: too many for a picture. They are in the CSV.")
        note(table.error_words)
