"""The forecast: what the noise will do to counts, by column and by pair; no row is read and nothing is spent."""

from __future__ import annotations

import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from pages.ui.charts import accent, draw, show_plot, show_table
from pages.ui.evidence import cards
from pages.ui.session import draft
from pages.ui.words import count, note, plain
from synth.errors import SynthError
from synth.reports.drawing import letters
from synth.reports.expected import ModelForecast
from synth.reports.figures import MAXIMUM_HEAT_MAP_SIDE, MAXIMUM_POINTS, HeatMap
from synth.reports.forecast import CellForecast, Forecast, PairForecasts, smallest_epsilon
from synth.reports.overview import fact_evidence
from synth.schema import RunConfig
from synth.services.views import Plan

__all__ = ["error_sentence", "forecast_panel", "parts_table", "smallest_epsilon_form"]

_SHARE, _ALONE = "share of the budget", "epsilon if it were asked alone"

_FORMATS = {"± rows (95 %)": "%.1f"}
_BASES = {
    "generator": "measured by the generator",
    "evaluation": "measured for the report",
    "if measured": "if every pair were measured",
}


def error_sentence(forecast: Forecast) -> str:
    """Say in one line what the noise does to a count, and which counts can be trusted."""
    if forecast.of_model is not None:
        return "A model makes no rows. What noise does to it depends on the model, and stands below where it says so."
    typical = forecast.column_range
    if typical is None or forecast.trustworthy is None:
        return "This run measures no counts of single columns. Give the report a share of the budget below."
    return (
        f"A typical count of one column is off by up to ±{count(typical)} rows (95 %). Trust counts above about "
        f"{count(forecast.trustworthy)} rows; below {count(typical)}, treat as noise."
    )


def forecast_panel(forecast: Forecast) -> None:
    """Show the expected error by column and by pair; of a model, what it says itself."""
    if forecast.of_model is not None:
        _of_model(forecast.of_model)
        note(plain(forecast.rows_sentence))
        return
    places = st.columns(3, border=True)
    typical = (("A count of one column", forecast.column_range), ("A count of a pair", forecast.pair_range))
    for (title, value), card in zip(typical, places, strict=False):
        card.metric(title, "not measured" if value is None else f"±{count(value)} rows")
        note("Typical; range caused by privacy noise (95 %)", card)
    trust = forecast.trustworthy
    places[2].metric("Smallest count to trust", "not measured" if trust is None else f"{count(trust)} rows")
    note("Known to about 10 %; small groups fare worse", places[2])
    columns, pairs = st.tabs(["By column", "By pair"])
    with columns:
        _columns(forecast.columns)
    with pairs:
        _pairs(forecast.pairs)
    note(plain(f"Noise only. Does not include what the generator's model misses. {forecast.rows_sentence}"))


def _of_model(told: ModelForecast) -> None:
    facts = [fact_evidence(fact, "model") for fact in told.facts]
    if facts:
        cards(facts, key="forecast-model")
    else:
        note("This model does not say beforehand what error the noise will cause; its report does.")
    if told.assumptions:
        st.markdown("**Assumed to be public**")
        for sentence in told.assumptions:
            st.markdown(f"- {plain(sentence)}")


def parts_table(plan: Plan, epsilon: float) -> None:
    """Show every question of a run with its share; the shares add up to one."""
    frame = pd.DataFrame(
        {
            "part": [part.name for part in plan.parts],
            "question": [part.question for part in plan.parts],
            _SHARE: [100 * part.share for part in plan.parts],
            _ALONE: [part.epsilon_alone for part in plan.parts],
        }
    )
    frame.loc[len(frame)] = ["total", "", 100 * sum(part.share for part in plan.parts), epsilon]
    show_table(frame, alt="Where the budget goes", key="budget-parts", formats={_SHARE: "%.1f %%", _ALONE: "%.2f"})
    if len(plan.parts) > 1:
        note(
            "Shares are of the squared cost (mu²), the currency that adds up exactly; the epsilons of the parts alone "
            "add up to more than the whole."
        )


def smallest_epsilon_form(config: RunConfig) -> None:
    """Solve for the smallest epsilon at which every count is off by at most so many rows."""
    with st.container(border=True):
        st.markdown("**Start from the accuracy you need**")
        rows, which, button = st.columns([2, 2, 2], vertical_alignment="bottom")
        wanted = rows.number_input(
            "Every count within ± rows", min_value=0.1, value=100.0, step=10.0, key="wanted-error"
        )
        words = {"columns": "of single columns", "pairs": "of pairs"}
        of = which.selectbox("Counts", list(words), format_func=words.__getitem__, key="wanted-of")
        if button.button("Use the smallest epsilon for that", key="use-smallest"):
            try:
                draft()["epsilon"] = smallest_epsilon(config, float(wanted), of="pairs" if of == "pairs" else "columns")
            except SynthError as error:
                st.error(plain(error))
            else:
                for field in ("field:epsilon", "field:epsilon-stop"):
                    st.session_state.pop(field, None)
                st.rerun()


def _columns(cells: tuple[CellForecast, ...]) -> None:
    if not cells:
        st.info("Nothing in this run measures single columns.")
        return
    twin = _table(cells)
    shown = cells[:MAXIMUM_POINTS]
    made = go.Figure(
        go.Bar(
            x=[min(100.0, 100 * cell.moved) for cell in shown],
            y=[letters(cell.columns[0]) for cell in shown],
            orientation="h",
            marker_color=accent(),
            text=[f"±{count(cell.range95)} rows, {cell.moved_words}" for cell in shown],
            textposition="outside",
            cliponaxis=False,
        )
    )
    made.update_xaxes(title="rows of 100 that noise moves to another value", rangemode="tozero")
    made.update_yaxes(autorange="reversed", type="category")
    made.update_layout(height=120 + 26 * len(shown), margin={"l": 10, "r": 150, "t": 10, "b": 10}, bargap=0.4)
    show_plot(made, title="Expected error of the counts of each column", twin=twin, key="forecast-columns")


def _pairs(cells: PairForecasts) -> None:
    if not len(cells):
        st.info("One column alone has no pairs.")
        return
    names = cells.names
    if len(names) <= MAXIMUM_HEAT_MAP_SIDE:
        moved = {frozenset(cell.columns): min(1.0, cell.moved) for cell in cells}
        values = tuple(tuple(moved.get(frozenset((one, other))) for other in names) for one in names)
        draw(HeatMap("Share of rows that noise moves, by pair", "share", names, values), key="forecast-pairs")
    worst = cells.worst(10)
    st.markdown("**The ten pairs that noise hurts most**")
    show_table(_table(worst), alt="The ten pairs that noise hurts most", key="forecast-worst", formats=_FORMATS)


def _table(cells: list[CellForecast] | tuple[CellForecast, ...]) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "table": [" \N{MULTIPLICATION SIGN} ".join(cell.columns) for cell in cells],
            "counts": [cell.cells for cell in cells],
            "± rows (95 %)": [cell.range95 for cell in cells],
            "rows that noise moves": [cell.moved_words for cell in cells],
            "how": [_BASES[cell.basis] for cell in cells],
        }
    )
