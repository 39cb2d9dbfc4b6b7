"""What epsilon promises and what its noise will do, drawn while it is moved; no row is read and nothing is spent.

The dial answers in the browser, from numbers that are worked out here: promises at every place of the slider, errors
and composed totals at some of them, between which it draws a line. Once it rests the server works out the place itself.
"""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import streamlit as st
from streamlit.components.v2.bidi_component import main as mounting
from streamlit.components.v2.get_bidi_component_manager import get_bidi_component_manager
from streamlit.components.v2.manifest_scanner import ComponentConfig, ComponentManifest

from pages.ui.charts import accent, draw, show_plot, show_table
from pages.ui.evidence import cards
from pages.ui.guards import guard
from pages.ui.session import bind, draft
from pages.ui.words import count, note, plain
from synth.names import visible
from synth.reports.code_tables import bin_labels, coarse_bins
from synth.reports.drawing import letters
from synth.reports.expected import CellForecast, Forecast, ModelForecast, PairForecasts, promise_of
from synth.reports.figures import MAXIMUM_HEAT_MAP_SIDE, MAXIMUM_POINTS, HeatMap
from synth.reports.forecast import LARGEST_EPSILON, SMALLEST_EPSILON, forecast, smallest_epsilon
from synth.reports.measured import BAR
from synth.reports.overview import fact_evidence
from synth.reports.wording import in_hundred
from synth.schema import ModelledColumn, Neighbours, RunConfig, column_title, config_to_mapping, parse_config
from synth.services.planning import prediction_lines
from synth.services.views import Plan

PLACES = tuple(
    round(mantissa * 10.0**power, 4)
    for power in (-2, -1, 0, 1)
    for mantissa in (*np.arange(1, 2, 0.02), *np.arange(2, 5, 0.05), *np.arange(5, 10, 0.1))
    if 0.05 <= round(mantissa * 10.0**power, 4) <= 20
)
"""Where the slider stops: steps of one to two and a half per cent, on numbers that can be read."""

STRONG, WEAK = 1.0, 5.0
"""Up to the first a promise is called strong, above the second weak. Researchers recommended values around 1; the low
single digits, below 5, are the conservative choice by broad consensus (NIST 2022)."""

_WORKED_OUT = tuple(float(f"{0.05 * 400 ** (step / 6):.2g}") for step in range(7))
"""Where the curve of errors is exact. In between, its median error on three tables is .2 %, and at most
18 % where a generator asks other tables; with 13 places that was still 13 %, and took .13 s more to work out."""

_OF_A_WIDE_TABLE, _WIDE = (0.05, 0.2, 1.0, 5.0, 20.0), 200
_DRAWN = 24
"""Bars of a column's picture at most."""

_SHARE, _ALONE = "share of the budget", "epsilon if asked alone"

_FEW_MOVED = 0.05
"""A pair of which noise moves no larger share can be read."""

_UNTOLD = "This model cannot say in advance what error the noise will cause; its report will."
_NO_COUNTS = "This run measures no counts of single columns. Reserve a share of the budget for the report below."
_BASES = {
    "generator": "measured by the generator",
    "evaluation": "measured for the report",
    "if measured": "if every pair were measured",
}


def error_sentence(forecast: Forecast) -> str:
    """Say in one line what the noise does to a count, and which counts can be trusted."""
    if forecast.of_model is not None:
        return "A model makes no rows. How noise affects it depends on the model; what is known is shown below."
    typical, what = forecast.column_range, plain(forecast.counted)
    if typical is None or forecast.trustworthy is None:
        return _NO_COUNTS
    return (
        f"A typical one-column count has an error of up to ±{count(typical)} {what} (95 %). Trust counts above "
        f"about {count(forecast.trustworthy)} {what}; treat counts below {count(typical)} as noise."
    )


def forecast_panel(forecast: Forecast, *, rows: float | None = None) -> None:
    """Show the expected error by column and by pair; of a model, what it says itself.

    Parameters
    ----------
    forecast : Forecast
    rows : float, optional
        How many rows are measured, where that is known; shares then refer to them, and else to the declared bound.
    """
    if forecast.of_model is not None:
        _of_model(forecast.of_model)
        note(plain(forecast.rows_sentence))
        return
    places, what = st.columns(3, border=True), plain(forecast.counted)
    typical = (("A count of one column", forecast.column_range), ("A count of a pair", forecast.pair_range))
    for (title, value), card in zip(typical, places, strict=False):
        card.metric(title, "not measured" if value is None else f"±{count(value)} {what}")
        note("Typical range from privacy noise (95 %)", card)
    trust = forecast.trustworthy
    places[2].metric("Smallest count to trust", "not measured" if trust is None else f"{count(trust)} {what}")
    note("Known to about 10 %; smaller counts are less accurate", places[2])
    sentence = forecast.rows_sentence
    if rows is not None and rows != forecast.rows:
        forecast = _among(forecast, rows)
        sentence = f"Shares are of the {count(rows)} {what} that are measured, from the number you gave."
    columns, pairs = st.tabs(["By column", "By pair"])
    with columns:
        _columns(forecast.columns, what)
    with pairs:
        _pairs(forecast.pairs, what)
    note(plain(f"Error from noise only, not from what the generator's model misses. {sentence}"))


def _among(forecast: Forecast, rows: float) -> Forecast:
    """Return a forecast whose shares refer to so many rows; the noise is the same."""

    def moved(cell: CellForecast) -> CellForecast:
        return CellForecast.of(cell.columns, cell.cells, cell.noise_std, rows, cell.basis)

    measured = {names: moved(cell) for names, cell in forecast.pairs.measured.items()}
    pairs = replace(forecast.pairs, rows=rows, measured=measured)
    return replace(forecast, rows=rows, columns=tuple(map(moved, forecast.columns)), pairs=pairs)


def _of_model(told: ModelForecast) -> None:
    facts = [fact_evidence(fact, "model") for fact in told.facts]
    if facts:
        cards(facts, key="forecast-model")
    else:
        note(_UNTOLD)
    if told.assumptions:
        st.markdown("**Assumed to be public**")
        for sentence in told.assumptions:
            st.markdown(f"- {plain(sentence)}")


def paid_predictions(name: str, forecast: Forecast, *, refusal: str | None, means: str) -> None:
    """Let a share be kept for predictions of people who are held out; or say why it cannot be.

    Parameters
    ----------
    name : str
        Of the share in the draft.
    refusal : str, optional
        Why nothing can be paid for.
    means : str
        What it pays for, and what the report can then say.
    """
    st.number_input(
        "Share for predictions on the hold-out",
        min_value=0.0,
        max_value=0.3,
        step=0.05,
        format="%.2f",
        disabled=refusal is not None,
        help=means,
        **bind(name),
    )
    if refusal is not None:
        note(plain(f"Predictions cannot be paid for: {refusal}"))
    for line in prediction_lines(forecast):
        note(plain(line.strip()))


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
            "Shares are of the squared cost (mu²), which adds up exactly; the epsilons of the parts alone add "
            "up to more than the total."
        )


def smallest_epsilon_form(config: RunConfig) -> None:
    """Solve for the smallest epsilon at which the error of every count is at most so many rows."""
    rows, which, button = st.columns([2, 2, 2], vertical_alignment="bottom")
    wanted = rows.number_input(
        f"Every count within ± {plain(config.asked.schema.unit.counted)}",
        min_value=0.1,
        value=100.0,
        step=10.0,
        key="wanted-error",
        help="The largest error you can accept. The smallest epsilon that achieves it is computed without "
        "reading any row.",
    )
    words = {"columns": "of single columns", "pairs": "of pairs"}
    of = which.selectbox("Counts", list(words), format_func=words.__getitem__, key="wanted-of")
    if button.button("Use the smallest epsilon for that", key="use-smallest"):
        with guard():
            draft()["epsilon"] = smallest_epsilon(config, float(wanted), of="pairs" if of == "pairs" else "columns")
            st.rerun()


def _columns(cells: tuple[CellForecast, ...], what: str) -> None:
    if not cells:
        st.info("Nothing in this run measures single columns.")
        return
    twin = _table(cells, what)
    shown = cells[:MAXIMUM_POINTS]
    made = go.Figure(
        go.Bar(
            x=[min(100.0, 100 * cell.moved) for cell in shown],
            y=[letters(cell.columns[0]) for cell in shown],
            orientation="h",
            marker_color=accent(),
            text=[f"±{count(cell.range95)} {what}, {cell.moved_words}" for cell in shown],
            textposition="outside",
            cliponaxis=False,
        )
    )
    made.update_xaxes(title=f"{what} in 100 that noise moves to another value", rangemode="tozero")
    made.update_yaxes(autorange="reversed", type="category")
    made.update_layout(height=120 + 26 * len(shown), margin={"l": 10, "r": 150, "t": 10, "b": 10}, bargap=0.4)
    show_plot(made, title="Expected error of the counts of each column", twin=twin, key="forecast-columns")


def _pairs(cells: PairForecasts, what: str) -> None:
    if not len(cells):
        st.info("There is only one column, so there are no pairs.")
        return
    names = cells.names
    if len(names) <= MAXIMUM_HEAT_MAP_SIDE:
        moved = {frozenset(cell.columns): min(1.0, cell.moved) for cell in cells}
        values = tuple(tuple(moved.get(frozenset((one, other))) for other in names) for one in names)
        (farthest,) = cells.worst(1)
        few = sum(cell.moved <= _FEW_MOVED for cell in cells)
        moves = in_hundred(min(1.0, farthest.moved), what)
        title = f"{' + '.join(farthest.columns)}: noise moves {moves}, the most of all pairs"
        judged = f"At most {in_hundred(_FEW_MOVED, what)} in {few:,} of {len(cells):,} pairs."
        draw(HeatMap(title, "share", names, values, judged), key="forecast-pairs")
    worst = cells.worst(10)
    st.markdown("**The ten pairs most affected by noise**")
    formats = {_within(what): "%.1f"}
    twin = _table(worst, what)
    show_table(twin, alt="The ten pairs most affected by noise", key="forecast-worst", formats=formats)


def _within(what: str) -> str:
    return f"± {what} (95 %)"


def _table(cells: list[CellForecast] | tuple[CellForecast, ...], what: str) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "table": [" \N{MULTIPLICATION SIGN} ".join(cell.columns) for cell in cells],
            "counts": [cell.cells for cell in cells],
            _within(what): [cell.range95 for cell in cells],
            f"{what} that noise moves": [cell.moved_words for cell in cells],
            "how": [_BASES[cell.basis] for cell in cells],
        }
    )


# The dial: epsilon by hand, and what follows from it ------------------------------------------------------------------


_DIAL = "hermitage.dial"


def _presented_as_it_is(*_: object) -> Callable[[object, object], object]:
    return lambda value, _session: value


# What Streamlit presents the state of a component as belongs to a class that no session can write down, and sessions
# here must be writable (.streamlit/config.toml). Undocumented: its version is pinned, and the browser tests see it.
mounting.make_bidi_component_presenter = _presented_as_it_is  # type: ignore[attr-defined,assignment]


def dial(data: Mapping[str, Any], *, key: str, on_move: Callable[[], None]) -> None:
    """Draw the slider with its numbers and pictures.

    Parameters
    ----------
    data : mapping
        As :func:`dial_data` makes it.
    key : str
        Under which the session holds ``moved``: what was set in the browser last.
    on_move : callable
        Called before the page runs again after something was set.
    """
    manager = get_bidi_component_manager()
    if manager.get_component_asset_root(_DIAL) is None:
        owner, _, name = _DIAL.partition(".")
        # The script is a file of this server: the content policy lets no other be loaded, and none be made up.
        manager.register_from_manifest(
            ComponentManifest(name=owner, version="1", components=[ComponentConfig(name, asset_dir=name)]),
            Path(__file__).parent,
        )
    mounted = st.components.v2.component(_DIAL, css="dial.css", js="dial.js", isolate_styles=False)
    mounted(key=key, data=dict(data), on_moved_change=on_move)


def dial_data(
    config: RunConfig,
    *,
    totals: Callable[[RunConfig, Sequence[float]], Sequence[float]],
    column: int | None = None,
    rows: int | None = None,
    looked: int | None = None,
    accuracy: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return what the browser needs to answer by itself while epsilon is moved.

    Parameters
    ----------
    config : RunConfig
        The run as it is set now.
    totals : callable
        Returns what this release and another of its size come to, for each of some epsilons.
    column : int, optional
        Which of the forecast columns is drawn; by default the first of a few bars.
    rows : int, optional
        About how many rows there are, or people where they are kept whole, as typed by the owner; no default is used.
    looked : int, optional
        How many there are, where the owner asked to see it; for this screen alone.
    accuracy : mapping, optional
        Accuracy over epsilon, from a rehearsal.
    """
    schema = config.schema
    worked_out = _OF_A_WIDE_TABLE if len(schema.names) > _WIDE else _WORKED_OUT
    epsilons = tuple(sorted({*worked_out, config.epsilon}))
    found = [_expected(_key(config), epsilon) for epsilon in epsilons]
    public = schema.number_of_units if config.asked.schema.unit.rows_per_unit == 1 else None
    names = [cell.columns[0] for cell in found[0].columns]
    lines = _lines(config, found)
    place = _easy_to_read(found[0].columns) if column is None else min(max(column, 0), max(len(names) - 1, 0))
    return {
        "epsilon": config.epsilon,
        "smallest": SMALLEST_EPSILON,
        "largest": LARGEST_EPSILON,
        "scale": {"strong": STRONG, "weak": WEAK},
        "promises": promises(config.delta, pure=not schema.allows_sums),
        "here": _promise(config.epsilon, config.delta, pure=not schema.allows_sums),
        "belief": belief(config),
        "but": "" if not schema.allows_sums or config.delta == 0 else f"except with a chance of about {config.delta:g}",
        "attack": "tells one value of a cell from another" if not schema.allows_sums else "tells members from others",
        "at": list(epsilons),
        "again": [round(total, 6) for total in totals(config, epsilons)],
        "lines": lines,
        "none": None if lines else _UNTOLD if config.is_model else _NO_COUNTS,
        "rows": {
            "public": public,
            "typed": rows,
            "looked": looked,
            "measured": 1 - config.holdout,
            "counted": config.asked.schema.unit.counted,
        },
        "columns": [visible(name) for name in names],
        "column": place,
        "shape": _shape(config, found, names[place]) if names else None,
        "accuracy": accuracy,
    }


def _key(config: RunConfig) -> str:
    return json.dumps(config_to_mapping(replace(config, epsilon=1.0)))


@lru_cache(maxsize=512)
def _expected(key: str, epsilon: float) -> Forecast:
    return forecast(replace(_parsed(key), epsilon=epsilon))


@lru_cache(maxsize=16)
def _parsed(key: str) -> RunConfig:
    return parse_config(json.loads(key))


@lru_cache(maxsize=8)
def promises(delta: float, *, pure: bool) -> list[list[Any]]:
    """Return what each place of the slider promises; of the usual delta it is worked out when the server starts."""
    return [_promise(epsilon, delta, pure=pure) for epsilon in PLACES]


def _promise(epsilon: float, delta: float, *, pure: bool) -> list[Any]:
    """Return epsilon and what follows: odds, where even ones end, the best attack by any method and on this noise."""
    told = promise_of(epsilon, delta, pure=pure)
    return [
        epsilon,
        told.odds_words,
        told.even_words,
        math.ceil(100 * told.advantage - 1e-9),
        math.ceil(100 * told.noise_advantage - 1e-9),
    ]


def belief(config: RunConfig) -> str:
    """Return the belief about the table whose change the promise bounds."""
    unit = visible(config.schema.unit.protects)
    return {
        Neighbours.ADD_REMOVE: f"whether a {unit} is in the table",
        Neighbours.REPLACE: f"what the rows of a {unit} say",
        Neighbours.CELL: "what one cell says, with every other cell known",
    }[config.schema.neighbours]


def _lines(config: RunConfig, found: Sequence[Forecast]) -> list[dict[str, Any]]:
    """Return what is drawn over epsilon: each with a name, the numbers, and whether they are rows of the table."""
    if config.is_model:
        told = [{fact.title: fact for fact in one.of_model.facts} if one.of_model else {} for one in found]
        titles = [title for title, fact in told[0].items() if not isinstance(fact.value, str)]
        return [
            {"name": title, "of": title, "rows": False, "values": [float(facts[title].value) for facts in told]}
            for title in titles
            if all(title in facts and not isinstance(facts[title].value, str) for facts in told)
        ]
    if found[0].row_noise:
        middle = [statistics.median(noise.std for noise in one.row_noise) for one in found]
        name = "noise on a typical cell, as a fraction of its column's range"
        return [{"name": name, "of": "a cell", "rows": False, "values": [BAR * std for std in middle]}]
    ranges = (
        (f"a share of {found[0].counted} in one column", "one column", [one.column_range for one in found]),
        (f"a share of {found[0].counted} in a pair of columns", "a pair", [one.pair_range for one in found]),
    )
    return [
        {"name": name, "of": of, "rows": True, "values": values} for name, of, values in ranges if None not in values
    ]


def _easy_to_read(cells: Sequence[CellForecast]) -> int:
    return next((place for place, cell in enumerate(cells) if 3 <= cell.cells <= _DRAWN // 2), 0)


def _shape(config: RunConfig, found: Sequence[Forecast], name: str) -> dict[str, Any]:
    """Return a column to draw: invented shares of its values, the noise on a count, and how it falls on each bar."""
    schema = config.asked.schema
    column = next(one for one in schema.modelled if column_title(schema, one.name) == name)
    labels, widths = _bars(column)
    cells = [next((cell for cell in one.columns if cell.columns[0] == name), None) for one in found]
    return {
        "labels": labels,
        "shares": _invented(column, len(labels)),
        "noise": [None if cell is None else cell.noise_std for cell in cells],
        # How many of the counts that are measured are added up in a bar.
        "counts": [None if cell is None else cell.cells / column.size for cell in cells],
        "widths": widths,
        # The same draw at every epsilon, so that what moves is the noise alone; nothing of a run is drawn with it.
        "draws": np.random.default_rng([7, len(labels)]).standard_normal(len(labels)).round(4).tolist(),
    }


def _bars(column: ModelledColumn) -> tuple[list[str], list[float]]:
    """Return the names of a column's bars, and how many codes are in each."""
    bins = coarse_bins(column)
    labels = list(bin_labels(column, bins))
    widths = bins.widths.astype(float).tolist()
    if len(labels) > _DRAWN:
        more = len(labels) - _DRAWN + 1
        labels, widths = [*labels[: _DRAWN - 1], f"{more} more"], [*widths[: _DRAWN - 1], sum(widths[_DRAWN - 1 :])]
    return [visible(label) for label in labels], widths


def _invented(column: ModelledColumn, bars: int) -> list[float]:
    """Return made-up shares: a hill where values have an order, else each value a little rarer than the last."""
    place = np.arange(bars) / max(bars - 1, 1)
    hill = np.exp(-0.5 * ((place - 0.4) / 0.22) ** 2) + 0.02
    shares = hill if column.is_ordered else 1 / (1 + np.arange(bars))
    return [round(float(share), 6) for share in shares / shares.sum()]
