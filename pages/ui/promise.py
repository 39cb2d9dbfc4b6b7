"""What an epsilon means: odds, the ceiling of any attack, and the error in rows. Formulas only, nothing is read."""

from __future__ import annotations

import math

import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from pages.ui.charts import accent, ceiling, show_plot
from pages.ui.words import upper
from synth.reports.forecast import Forecast, Promise
from synth.schema import Neighbours

__all__ = ["attack_figure", "promise_panel"]


def promise_panel(forecast: Forecast, *, neighbours: Neighbours, unit: str, error_sentence: str) -> None:
    """Explain a budget in three lines and a small chart.

    Parameters
    ----------
    error_sentence : str
        The third line: what the noise does to a count.
    """
    promise = forecast.promise
    belief = {
        Neighbours.ADD_REMOVE: f"whether a {unit} is in the table",
        Neighbours.REPLACE: f"what the rows of a {unit} say",
        Neighbours.CELL: "what one cell says, with every other cell known",
    }[neighbours]
    but = "" if neighbours is Neighbours.CELL else ", except with a chance of about δ"
    caught = "cells of which two values are possible" if neighbours is Neighbours.CELL else "real members"
    st.markdown(
        f"**Odds.** Whatever someone believed about {belief}, seeing this release can change their odds by at most "
        f"\N{MULTIPLICATION SIGN}{upper(promise.odds)} (ε = {forecast.epsilon:g}). From 50:50 to at most "
        f"{_in_hundred(promise.even)} in 100; from 1 in 100 to at most {_in_hundred(promise.rare)} in 100{but}."
    )
    st.markdown(
        f"**Attack ceiling.** An attacker allowed one false alarm in 100 catches at most {_hundredths(promise.caught)} "
        f"in 100 {caught}, whatever the method; the best advantage over guessing is {_hundredths(promise.advantage)} %."
    )
    st.markdown(f"**Error.** {error_sentence}")
    made, twin = attack_figure(promise)
    show_plot(made, title="What an attack can reach at most", twin=twin, key="promise-chart")


def attack_figure(promise: Promise) -> tuple[go.Figure, pd.DataFrame]:
    """Return the two ceilings, for any method that meets the promise and for the noise of this release.

    The second is tighter because everything a run asks is Gaussian noise or converts to a known Gaussian cost; the
    report of attacks shows the same one.
    """
    measures = ["caught, one false alarm in 100", "advantage over guessing"]
    anything = [promise.caught, promise.advantage]
    this = [promise.noise_caught, promise.noise_advantage]
    made = go.Figure()
    for name, values, colour in (
        ("any method meeting this promise", anything, ceiling()),
        ("this release's noise", this, accent()),
    ):
        texts = [f"{_hundredths(value)} %" for value in values]
        # Drawn as it is printed, so that nothing on the page says another number.
        shown = [float(_hundredths(value)) for value in values]
        made.add_bar(
            y=measures, x=shown, name=name, orientation="h", marker_color=colour, text=texts, textposition="outside"
        )
    made.update_xaxes(range=[0, 118], title="in 100", tickvals=[0, 25, 50, 75, 100])
    made.update_layout(
        barmode="group",
        height=230,
        margin={"l": 10, "r": 10, "t": 30, "b": 10},
        legend={"orientation": "h", "yanchor": "bottom", "y": 1.0, "x": 0, "traceorder": "reversed"},
    )
    twin = pd.DataFrame(
        {
            "what an attack can reach": measures,
            "any method meeting this promise": [f"{_hundredths(value)} %" for value in anything],
            "this release's noise": [f"{_hundredths(value)} %" for value in this],
        }
    )
    return made, twin


def _hundredths(ceiling: float) -> str:
    """Write a ceiling, which is rounded up to a thousandth already, in hundredths."""
    return f"{100 * ceiling:.1f}".removesuffix(".0")


def _in_hundred(share: float) -> str:
    value = 100 * share
    # Rounded up: an upper bound may not be made smaller by the way it is printed.
    if value < 10:
        return f"{math.ceil(10 * value - 1e-9) / 10:g}"
    if value > 99.95:
        return "100"
    return f"{math.ceil(value - 1e-9):g}" if value < 99 else f"{value:.1f}"
