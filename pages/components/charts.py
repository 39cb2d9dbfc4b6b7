"""Pictures: binned beforehand, one fixed colour for one meaning, with words and a table beside each."""

from __future__ import annotations

import html
from collections.abc import Sequence

import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from synth.reports.charts import MAXIMUM_POINTS, Bars, Figure, HeatMap, Meaning, Table
from synth.reports.drawing import COLOURS

__all__ = ["bars_figure", "draw", "heat_map_figure", "show_plot", "show_table", "table_of"]

_DARK_LINE = "#B7C0C7"
"""Floor and ceiling on a dark page, where #444444 could not be seen."""

_DASHED = {"floor", "ceiling"}
_PLOT_OPTIONS = {"displayModeBar": False, "staticPlot": False}


def draw(figure: Figure, *, key: str) -> None:
    """Draw a picture and, folded below it, the same numbers as a table."""
    if isinstance(figure, Table):
        st.markdown(f"**{figure.title}**")
        show_table(table_of(figure), alt=figure.title, key=key)
        return
    made = bars_figure(figure) if isinstance(figure, Bars) else heat_map_figure(figure)
    show_plot(made, title=figure.title, twin=table_of(figure), key=key)


def show_plot(made: go.Figure, *, title: str, twin: pd.DataFrame, key: str) -> None:
    """Draw a plot with its alternative text and its table twin."""
    st.plotly_chart(made, key=key, config=_PLOT_OPTIONS, alt=f"{title}. The same numbers are in the table below.")
    with st.expander("The same numbers as a table"):
        show_table(twin, alt=f"{title}, as a table", key=f"{key}-table")


def show_table(frame: pd.DataFrame, *, alt: str, key: str) -> None:
    """Draw a table without its index; numbers stand to the right."""
    st.dataframe(frame, hide_index=True, alt=alt, key=key)


def bars_figure(figure: Bars) -> go.Figure:
    """Return bars for synthetic rows and dots with whiskers for everything measured; lines for floor and ceiling."""
    made = go.Figure()
    categories = _texts(figure.categories)
    for series in figure.series:
        colour = _colour(series.meaning)
        errors = None
        if series.errors is not None:
            errors = {"type": "data", "array": list(series.errors), "color": colour, "thickness": 1.5, "width": 4}
        name, values = html.escape(series.name), list(series.values)
        if series.meaning in _DASHED:
            line = {"dash": "dash", "color": colour, "width": 2}
            made.add_scatter(x=categories, y=values, name=name, mode="lines", line=line)
        elif series.meaning == "synthetic":
            made.add_bar(x=categories, y=values, name=name, marker_color=colour, error_y=errors)
        else:
            marker = {"color": colour, "size": 9}
            made.add_scatter(x=categories, y=values, name=name, mode="markers", marker=marker, error_y=errors)
    made.update_xaxes(type="category")
    return _finish(made, figure.title, figure.unit)


def heat_map_figure(figure: HeatMap) -> go.Figure:
    """Return a square of values; one hue, darker is larger."""
    names = _texts(figure.names)
    made = go.Figure(
        go.Heatmap(
            x=names,
            y=names,
            z=[list(row) for row in figure.values],  # noqa: PD011 - a tuple of ours
            colorscale=[[0, "#EAF3F9"], [1, COLOURS["synthetic"]]],
            colorbar={"title": html.escape(figure.unit)},
            hovertemplate="%{y} and %{x}: %{z:.3g}<extra></extra>",
        )
    )
    made.update_yaxes(autorange="reversed")
    finished = _finish(made, figure.title, "")
    finished.update_layout(height=max(320, 26 * len(names) + 160))
    return finished


def table_of(figure: Figure) -> pd.DataFrame:
    """Return the numbers of a picture as a table."""
    if isinstance(figure, Table):
        return pd.DataFrame([list(row) for row in figure.rows], columns=list(figure.header))
    if isinstance(figure, HeatMap):
        frame = pd.DataFrame(list(figure.values), columns=list(figure.names))
        frame.insert(0, "column", list(figure.names))
        return frame
    frame = pd.DataFrame({"": list(figure.categories)})
    for series in figure.series:
        frame[series.name] = list(series.values)
        if series.errors is not None:
            frame[f"{series.name}, range ±"] = list(series.errors)
    return frame


def _finish(made: go.Figure, title: str, unit: str) -> go.Figure:
    made.update_layout(
        title={"text": html.escape(title), "font": {"size": 15}},
        yaxis_title=html.escape(unit) or None,
        margin={"l": 10, "r": 10, "t": 60, "b": 10},
        legend={"orientation": "h", "yanchor": "bottom", "y": 1.0, "x": 1, "xanchor": "right"},
        bargap=0.35,
        height=340,
    )
    return made


def _texts(names: Sequence[str]) -> list[str]:
    # Plotly reads a little markup in its texts; names are shown letter for letter.
    return [html.escape(name) for name in names[:MAXIMUM_POINTS]]


def _colour(meaning: Meaning) -> str:
    if meaning in _DASHED and st.context.theme.type == "dark":
        return _DARK_LINE
    return COLOURS[meaning]
