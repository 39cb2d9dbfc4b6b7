"""Pictures: binned beforehand, one fixed colour for one meaning, with words and a table beside each."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Literal

import numpy as np
import numpy.typing as npt
import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from pages.ui.words import plain, small
from synth.generators.protocol import Picture
from synth.names import visible
from synth.reports.drawing import COLOURS, TRACES, cut, letters, pairs_of, twin_of_picture
from synth.reports.figures import MAXIMUM_POINTS, Bars, Figure, HeatMap, Meaning, Table
from synth.reports.wording import number_text

_DARK_LINE = "#B7C0C7"
"""Floor and ceiling on a dark page, where #444444 could not be seen."""

_INK = {"light": "#1F2933", "dark": "#E6EAED"}
_ACCENT = {"light": "#0B6E75", "dark": "#4FB3BA"}
_LONGEST_IN_FULL, _TALL, _MOST_LABELS = 40, 420, 40
_LONGEST_ON_AXIS, _HALF_LETTER = 24, 3
_FEW = 4
_DASHED = {"floor": "dot", "ceiling": "dash"}
_PLOT_OPTIONS = {"displayModeBar": False, "staticPlot": False}


def draw(figure: Figure, *, key: str) -> None:
    """Draw a picture and, folded below it, the same numbers as a table."""
    heading(figure)
    if isinstance(figure, Table):
        show_table(table_of(figure), alt=figure.title, key=key)
        return
    show_picture(figure, key=key)
    _folded(table_of(figure), title=figure.title, key=key)


def heading(figure: Figure) -> None:
    """Draw what is seen on a figure, and below it whether that is good."""
    judged = judged_words(figure)
    st.markdown(f"**{plain(figure.title)}**" + (f"  \n{small(plain(judged))}" if judged else ""))


def judged_words(figure: Figure) -> str:
    """Return the words that say whether what is seen is good; none where nothing is said."""
    return figure.sentence if isinstance(figure, Picture) else figure.subtitle


def show_picture(figure: Bars | HeatMap | Picture, *, key: str) -> None:
    """Draw a picture without its title and its table."""
    if isinstance(figure, Picture):
        made = picture_figure(figure)
    else:
        made = bars_figure(figure) if isinstance(figure, Bars) else heat_map_figure(figure)
    _plot(made, title=figure.title, key=key)


def show_histogram(figure: Bars, *, key: str) -> None:
    """Draw noisy counts as bars, each with its error, and folded below them the same numbers as a table."""
    heading(figure)
    _plot(bars_figure(figure, filled=True), title=figure.title, key=key)
    _folded(table_of(figure), title=figure.title, key=key)


def show_plot(made: go.Figure, *, title: str, twin: pd.DataFrame, key: str) -> None:
    """Draw a plot with its alternative text and its table twin; its words in the colour of the page's text."""
    _plot(made, title=title, key=key)
    _folded(twin, title=title, key=key)


def _plot(made: go.Figure, *, title: str, key: str) -> None:
    words = ink()
    made.update_xaxes(tickfont_color=words, title_font_color=words)
    made.update_yaxes(tickfont_color=words, title_font_color=words)
    made.update_traces(textfont_color=words, selector={"type": "bar"})
    made.update_layout(font_color=words, legend_font_color=words)
    st.plotly_chart(made, key=key, config=_PLOT_OPTIONS, alt=f"{title}. The same numbers are in the table below.")


def _folded(twin: pd.DataFrame, *, title: str, key: str) -> None:
    with st.expander("The same numbers as a table"):
        show_table(twin, alt=f"{title}, as a table", key=f"{key}-table")


def show_table(frame: pd.DataFrame, *, alt: str, key: str, formats: Mapping[str, str] | None = None) -> None:
    """Draw a table without its index, in full where it is short; numbers are aligned right.

    It is text, not a picture of cells, so that it can be read aloud, searched, copied and printed.

    Parameters
    ----------
    formats : mapping, optional
        How the numbers of a column are printed, such as ``{"epsilon": "%.2f"}``.
    """
    forms = {_heading(name): text for name, text in (formats or {}).items()}
    frame = frame.map(lambda cell: plain(cell) if isinstance(cell, str) else cell).rename(columns=_heading)
    styled = frame.style.format(_cell_text)
    for name in forms.keys() & {*frame.columns}:
        styled = styled.format(partial(_cell_text, form=forms[name]), subset=[name])
    height: int | Literal["content"] = "content" if len(frame) <= _LONGEST_IN_FULL else _TALL
    with st.container(key=f"{key}-text"):
        st.table(styled, hide_index=True, alt=alt, height=height, border="horizontal")


def _heading(name: object) -> str:
    return plain(visible(str(name)))


def _cell_text(cell: object, form: str = "") -> str:
    if cell is None or cell is pd.NaT or (isinstance(cell, float) and math.isnan(cell)):
        return number_text(None)
    if isinstance(cell, np.number):
        cell = cell.item()
    if isinstance(cell, bool | np.bool_) or not isinstance(cell, int | float):
        return str(cell)
    return form % cell if form else number_text(cell)


def accent() -> str:
    """Return the one accent of the pages, for what belongs to this release and to no other meaning."""
    return _ACCENT["dark" if _is_dark() else "light"]


def ink() -> str:
    """Return the colour of the page's text."""
    return _INK["dark" if _is_dark() else "light"]


def ceiling() -> str:
    """Return the colour of floors and ceilings, which can be seen on this page."""
    return _DARK_LINE if _is_dark() else COLOURS["ceiling"]


def bars_figure(figure: Bars, *, filled: bool = False) -> go.Figure:
    """Return bars for synthetic rows and dots with whiskers for everything measured; lines for floor and ceiling.

    A joined figure is lines alone; a ``filled`` one has bars for what is measured, where it stands alone.
    """
    made = go.Figure()
    # Places and not names: two bins may have one name, such as 0 on the grid and 0 as a value of its own.
    places, categories = list(range(len(figure.categories))), _texts(figure.categories)
    for series in figure.series:
        colour = _colour(series.meaning)
        errors = None
        if series.errors is not None:
            errors = {"type": "data", "array": list(series.errors), "color": colour, "thickness": 1.5, "width": 4}
            if series.below is not None:
                errors |= {"symmetric": False, "arrayminus": list(series.below)}
        name, values = letters(series.name), list(series.values)
        if figure.joined:
            line = {"color": colour, "width": 2, "dash": _DASHED.get(series.meaning, "solid")}
            made.add_scatter(x=places, y=values, name=name, mode="lines", line=line, error_y=errors)
        elif series.meaning in _DASHED:
            line = {"dash": _DASHED[series.meaning], "color": colour, "width": 2}
            made.add_scatter(x=places, y=values, name=name, mode="lines", line=line)
        elif series.meaning == "synthetic" or filled:
            made.add_bar(x=places, y=values, name=name, marker_color=colour, error_y=errors)
        else:
            marker = {"color": colour, "size": 9}
            made.add_scatter(x=places, y=values, name=name, mode="markers", marker=marker, error_y=errors)
    ticks, shown = _ticks(figure.categories)
    # Few long names wrap, so that none of them runs out of a narrow picture.
    shown = [name.replace(" ", "<br>") for name in shown] if len(places) <= _FEW else shown
    made.update_xaxes(tickvals=ticks, ticktext=shown, automargin=True, ticklabeloverflow="allow")
    made.update_traces(hovertext=categories, hoverinfo="name+text+y")
    # Else the last name would be left out where it is wider than its bar.
    finished = _finish(made, figure.unit)
    finished.update_layout(margin_r=10 + _HALF_LETTER * len(shown[-1] if shown else ""))
    return finished


def heat_map_figure(figure: HeatMap) -> go.Figure:
    """Return a square of values; one hue, darker is larger. Of words the first is darkest."""
    names = _texts(figure.names)
    made = go.Figure(
        go.Heatmap(
            x=names,
            y=names,
            z=[list(row) for row in figure.values],  # noqa: PD011 - a tuple of ours
            colorscale=[[0, "#EAF3F9"], [1, COLOURS["synthetic"]]],
            colorbar={"title": letters(figure.unit)},
            hovertemplate="%{y} and %{x}: %{z:.3g}<extra></extra>",
        )
    )
    if figure.states:
        made.update_traces(**_in_words(figure))
        made.update_xaxes(side="top", showgrid=False)
        made.update_yaxes(showgrid=False)
    made.update_yaxes(autorange="reversed")
    finished = _finish(made, "")
    finished.update_layout(height=max(320, 26 * len(names) + 160))
    return finished


def table_figure(
    columns: tuple[str, ...], values: tuple[tuple[str, ...], ...], counts: npt.NDArray[np.float64]
) -> go.Figure:
    """Return a cross-table of two columns as a heat map, the first column downwards; one hue, darker is more."""
    down, across = values
    # Places and not names: two bins may have one name, such as 0 on the grid and 0 as a value of its own.
    made = go.Figure(
        go.Heatmap(
            z=counts,
            colorscale=[[0, "#EAF3F9"], [1, COLOURS["synthetic"]]],
            colorbar={"title": "rows"},
            text=[[f"{letters(left)}, {letters(right)}" for right in across] for left in down],
            hovertemplate="%{text}: %{z:.1f}<extra></extra>",
        )
    )
    for names, update in ((across, made.update_xaxes), (down, made.update_yaxes)):
        ticks, shown = _ticks(names)
        update(tickvals=ticks, ticktext=shown, automargin=True)
    made.update_xaxes(title_text=letters(columns[1]), showgrid=False)
    made.update_yaxes(autorange="reversed", showgrid=False)
    finished = _finish(made, columns[0])
    finished.update_layout(height=min(max(320, 26 * len(ticks) + 160), 800))
    return finished


def _ticks(names: Sequence[str]) -> tuple[list[int], list[str]]:
    """Return the places on an axis that are named, and their names, cut where they are long.

    The last one is always among them: it is what has no place on a scale, such as "missing".
    """
    ticks = list(range(0, len(names), max(1, -(-len(names) // _MOST_LABELS))))
    ticks = [*ticks[:-1], len(names) - 1] if len(ticks) > 1 else ticks
    return ticks, _texts([cut(names[place], _LONGEST_ON_AXIS) for place in ticks])


def _in_words(figure: HeatMap) -> dict[str, object]:
    """Return what a map shows whose values are places of words: as many shades, each named beside the map."""
    of, words = len(figure.states), _texts(figure.states)
    # From one edge to the next a shade stays what it is.
    edges = [(place + side) / of for place in range(of) for side in (0, 1)]
    shades = [_between(place / max(of - 1, 1)) for place in range(of) for _ in range(2)]
    return {
        "colorscale": [list(one) for one in zip(edges, shades, strict=True)],
        "zmin": -0.5,
        "zmax": of - 0.5,
        "xgap": 1,
        "ygap": 1,
        "colorbar": {
            "title": {"text": letters(f"white: {figure.unit}"), "side": "bottom"},
            "tickvals": list(range(of)),
            "ticktext": words,
            "orientation": "h",
            "y": -0.02,
            "yanchor": "top",
            "thickness": 10,
        },
        "hovertemplate": "%{y} and %{x}: %{text}<extra></extra>",
        "text": [[letters(str(figure.word(cell))) for cell in row] for row in figure.values],  # noqa: PD011
    }


def _between(share: float) -> str:
    """Return a shade from the darkest, at 0, to the lightest, at 1."""
    dark, light = (tuple(bytes.fromhex(one[1:])) for one in (COLOURS["synthetic"], "#D3E6F3"))
    mixed = [round(start + share * (end - start)) for start, end in zip(dark, light, strict=True)]
    return f"#{bytes(mixed).hex()}"


def picture_figure(picture: Picture) -> go.Figure:
    """Return a model's picture: a heat map of one hue, darker is larger; or lines or points with whiskers."""
    made = go.Figure()
    if picture.kind == "heat_map":
        made.add_heatmap(
            x=_places(picture.columns),
            y=_places(picture.rows),
            z=[list(row) for row in picture.values],  # noqa: PD011 - a tuple of ours
            colorscale=[[0, "#EAF3F9"], [1, COLOURS["synthetic"]]],
            colorbar={"title": letters(picture.unit)},
            hovertemplate="%{x}, %{y}: %{z:.3g}<extra></extra>",
        )
    for place, trace in enumerate(picture.traces):
        colour = TRACES[place % len(TRACES)]
        errors = None
        if trace.errors is not None:
            errors = {"type": "data", "array": list(trace.errors), "color": colour, "thickness": 1.5, "width": 4}
        made.add_scatter(
            x=list(trace.across),
            y=list(trace.up),
            name=letters(trace.name),
            mode="lines" if picture.kind == "lines" else "markers",
            line={"color": colour, "width": 2},
            marker={"color": colour, "size": 9},
            error_y=errors,
            showlegend=True,
        )
    made.update_xaxes(title_text=letters(picture.across))
    finished = _finish(made, picture.up)
    # Below everything: many names beside the title would run over it in a narrow window.
    finished.update_layout(height=440, legend={"yref": "container", "y": 0, "x": 0, "xanchor": "left"})
    return finished


def table_of(figure: Figure) -> pd.DataFrame:
    """Return the numbers of a picture as a table."""
    if isinstance(figure, Picture):
        return table_of(twin_of_picture(figure))
    if isinstance(figure, Table):
        return pd.DataFrame([list(row) for row in figure.rows], columns=_told_apart(figure.header))
    if isinstance(figure, HeatMap) and figure.states:
        return table_of(pairs_of(figure))
    if isinstance(figure, HeatMap):
        frame = pd.DataFrame(list(figure.values), columns=list(figure.names))
        frame.insert(0, "column", list(figure.names))
        return frame
    frame = pd.DataFrame({"": list(figure.categories)})
    for series in figure.series:
        frame[series.name] = list(series.values)
        if series.errors is not None:
            if series.below is None:
                frame[f"{series.name}, range ±"] = list(series.errors)
            else:
                ends = zip(series.values, series.below, series.errors, strict=True)
                frame[[f"{series.name}, from", f"{series.name}, to"]] = [
                    (value - below, value + above) for value, below, above in ends
                ]
    return frame


def _told_apart(header: Sequence[str]) -> list[str]:
    """Number headings that occur twice: a column of the user's may be called like one of ours."""
    names: list[str] = []
    for heading in header:
        again = sum(name == heading or name.startswith(f"{heading} (") for name in names)
        names.append(f"{heading} ({again + 1})" if heading in names else heading)
    return names


def _finish(made: go.Figure, unit: str) -> go.Figure:
    made.update_layout(
        yaxis_title=letters(unit) or None,
        margin={"l": 10, "r": 10, "t": 30, "b": 10},
        legend={"orientation": "h", "yanchor": "bottom", "y": 1.0, "x": 0, "xanchor": "left"},
        bargap=0.35,
        height=240,
    )
    return made


def _places(places: Sequence[float | str]) -> list[float | str]:
    return [letters(place) if isinstance(place, str) else place for place in places]


def _texts(names: Sequence[str]) -> list[str]:
    # Plotly reads a little markup in its texts; names are shown letter for letter.
    return [letters(name) for name in names[:MAXIMUM_POINTS]]


def _colour(meaning: Meaning) -> str:
    return ceiling() if meaning in _DASHED else COLOURS[meaning]


def _is_dark() -> bool:
    return st.context.theme.type == "dark"
