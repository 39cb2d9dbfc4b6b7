"""3 Budget: what is promised, what it costs in accuracy, and what has been spent on these people."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from typing import Any

import pandas as pd
import streamlit as st
from plotly.graph_objects import Figure

from pages.ui.charts import accent, ceiling, show_plot, show_table
from pages.ui.draft import EPSILON_STOPS, config_of, most_people
from pages.ui.evidence import badge
from pages.ui.finding import found_note
from pages.ui.forecast import (
    STRONG,
    WEAK,
    belief,
    dial,
    dial_data,
    error_sentence,
    forecast_panel,
    paid_predictions,
    parts_table,
    smallest_epsilon_form,
)
from pages.ui.guards import guard, require, through_the_application
from pages.ui.looking import taken_columns, taken_note
from pages.ui.previewing import preview_panel, previews_note
from pages.ui.session import application, bind, draft, go, own_table
from pages.ui.words import DELTA_MEANS, amount, count, note, plain
from synth.errors import ConfigError
from synth.generators import PURE, options_of
from synth.generators.options import Naming
from synth.names import visible
from synth.reports.expected import NO_LIMIT, Forecast, Promise
from synth.reports.forecast import LARGEST_EPSILON, SMALLEST_EPSILON, pure_refusal
from synth.schema import Neighbours, RunConfig, default_delta, prediction_refusal
from synth.services.views import Plan

MOST_ROWS = 10**12

USED = (
    ("US Census Bureau, 2020 redistricting data: persons", "17.14", "a person", "Census Bureau 2021"),
    ("The same, with housing units (2.47)", "19.61", "a person and a housing unit", "Census Bureau 2021"),
    ("Apple, several counts on devices", "2 to 16", "one day of a user", "NIST 2022"),
    ("Google, Community Mobility Reports", "2.64", "one day of a user", "NIST 2022"),
    ("Israel, registry of live births of 2014", "9.98", "a birth", "OpenDP registry"),
    ("Wikimedia, page views by country", "about 1", "ten page views of a device a day", "Wikimedia 2023"),
)
"""Epsilons that others published with, as stated by each source; see docs/references.md."""

_DIAL, _COLUMN, _LOOKED = "dial", "dial-column", "looked-at-rows"


_PURPOSES = (
    "The promise and its cost stay the same; what changes is how the budget is used. Regressions: how each "
    "pair of columns varies together, leaving out columns of low weight (2 Describe). Predicting: tables that "
    "include the label. Counts and tables: the label is treated like any other column."
)


def screen() -> None:
    """Draw the screen."""
    st.title("Choose a privacy budget")
    require("table")
    require("description")
    config = _config()
    if config is None:
        return
    plan = application().plan(config)

    badge("safe")
    dial(
        dial_data(
            config,
            totals=application().totals_with_another,
            column=st.session_state.get(_COLUMN),
            rows=draft()["about_rows"],
            looked=_looked() if config.schema.people != "whole" else None,
            accuracy=_rehearsed_accuracy(config),
        )
        | {"moved": _moved().get("move")},
        key=_DIAL,
        on_move=_take_move,
    )

    found_note(config)
    previews_note(config)
    taken_note(taken_columns(draft()))
    _purpose(config)
    ledger_box(plan)
    if plan.refusal is not None:
        st.error(plain(plan.refusal))
    if config.epsilon > WEAK:
        st.warning(f"At ε = {config.epsilon:g} the promise is weak: see 'What it buys'.")
    if plan.approval is not None:
        st.warning(plain(plan.approval))
    _onwards(config, refused=plan.refusal is not None)
    _details(config, plan)


def _config() -> RunConfig | None:
    """Return the configuration; or say why a delta of 0 cannot be kept, leave that choice within reach, return None."""
    try:
        config = application().as_released(config_of(draft()))
    except ConfigError as error:
        if draft()["delta"] != 0:
            raise
        st.error(plain(error))
        delta_controls()
        return None
    refusal = pure_refusal(config)
    if refusal is None:
        return config
    st.error(plain(refusal))
    delta_controls()
    st.page_link("pages/generate.py", label="Choose another generator (4 Generate)")
    return None


def _purpose(config: RunConfig) -> None:
    """Ask what the rows are for, where the generator divides its budget by that."""
    if config.is_model:
        return
    label, held = config.label, draft()["options"]
    field = next((one for one in options_of(config.generator) if one.name == "purpose"), None)
    if field is None:
        return
    words = {
        "balanced": "A bit of everything",
        "prediction": "" if label is None else f"Predicting {plain(label)}",
        "marginals": "" if label is None else "Counts and tables of any columns",
        "regression": "Regressions",
    }
    choices = [choice for choice in field.choices if words[choice]]
    value = str(held.get("purpose", field.default))
    word = value.partition(" of ")[0]
    chosen = st.radio(
        "What are the rows for?",
        choices,
        index=choices.index(word) if word in choices else 0,
        format_func=words.__getitem__,
        horizontal=True,
        key=f"budget-purpose:{config.generator}",
        help=_PURPOSES,
    )
    if field.naming is not None and chosen == field.naming.names:
        chosen = _named(field.naming, value, config.schema.names)
    if chosen != value:
        held.pop("purpose", None)
        if chosen != field.default:
            held["purpose"] = chosen


def _named(naming: Naming, value: str, names: Sequence[str]) -> str:
    """Ask which regression, where one is meant above all; return the purpose with its columns, or without."""
    try:
        held = naming.columns(value, names)
    except ConfigError:
        held = ()  # of a table that was described otherwise
    if held:
        st.session_state.setdefault("budget-outcome", held[0])  # a list that begins with a choice could not be cleared
    of, on = st.columns(2)
    outcome = of.selectbox(
        "Which outcome?",
        names,
        index=None,
        placeholder="Regressions of any columns",
        format_func=visible,
        key="budget-outcome",
        help="If you know which regression, the budget for regressions goes to its columns only.",
    )
    others = [name for name in names if name != outcome]
    predictors = on.multiselect(
        "From which predictors?",
        others,
        default=[name for name in held[1:] if name in others],
        format_func=visible,
        disabled=outcome is None,
        key=f"budget-predictors:{outcome}",
    )
    return naming.written(outcome, predictors) if outcome is not None and predictors else naming.names


def _onwards(config: RunConfig, *, refused: bool) -> None:
    if config.is_model:
        if st.button("Continue to Private models", type="primary", key="continue-models", disabled=refused):
            go("models")
        return
    onwards, rehearse, model = st.columns([3, 4, 5], vertical_alignment="center")
    if onwards.button("Continue to 4 Generate", type="primary", key="continue-generate", disabled=refused):
        go("generate")
    if config.schema.tables is not None:  # there are neither public stand-ins nor models of two tables
        rehearse.page_link("pages/rehearse.py", label="Rehearse on simulated rows (free)")
        return
    rehearse.page_link("pages/rehearse.py", label="Rehearse on public rows (free)")
    model.page_link("pages/models.py", label="Or release a private model instead of rows")


def _details(config: RunConfig, plan: Plan) -> None:
    """Offer what a choice does not need, folded; what is folded is not drawn."""
    st.header("Details")
    of_model = config.is_model
    parts: list[tuple[str, str, Callable[[], None]]] = [
        (
            "Expected error of the model" if of_model else "Expected error of counts, by column and pair",
            "errors",
            lambda: forecast_panel(plan.forecast, rows=_measured_rows(config)),
        ),
        ("Preview columns first, for a small charge", "preview", lambda: preview_panel(config)),
        ("Where the budget goes", "parts", lambda: _parts(config, plan)),
        ("Limits on attacks, and delta", "attacks", lambda: _attacks(config, plan)),
        ("What others have used", "others", others_used),
    ]
    if not of_model:
        parts.insert(3, ("Start from the accuracy you need", "accuracy", lambda: smallest_epsilon_form(config)))
    for title, name, drawn in parts:
        place = st.expander(title, key=f"budget-{name}", on_change="rerun")
        if place.open:
            with place, guard():
                drawn()


def _parts(config: RunConfig, plan: Plan) -> None:
    parts_table(plan, config.epsilon)
    if not config.is_model:
        _evaluation_share()
        _prediction_share(plan, config)


def _attacks(config: RunConfig, plan: Plan) -> None:
    promise_panel(config, plan.forecast)
    delta_controls()


def promise_panel(config: RunConfig, forecast: Forecast) -> None:
    """Explain a budget in three lines and a small chart."""
    promise, neighbours = forecast.promise, config.schema.neighbours
    always = neighbours is Neighbours.CELL or config.delta == 0
    but = "" if always else ", except with a chance of about δ"
    caught = "cells of which two values are possible" if neighbours is Neighbours.CELL else "real members"
    most = "" if promise.odds > NO_LIMIT else "at most "
    st.markdown(
        f"**Odds.** Whatever someone believed about {plain(belief(config))}, seeing this release can change their odds "
        f"by {most}{promise.odds_words} (ε = {forecast.epsilon:g}). A belief of 50 in 100 can rise to at most "
        f"{_in_hundred(promise.even)} in 100, and one of 1 in 100 to at most {_in_hundred(promise.rare)} in 100{but}."
    )
    st.markdown(
        f"**Attack ceiling.** An attacker allowed one false alarm in 100 catches at most {_hundredths(promise.caught)} "
        f"in 100 {caught}, whatever the method; the best advantage over guessing is {_hundredths(promise.advantage)} %."
    )
    st.markdown(f"**Error.** {error_sentence(forecast)}")
    made, twin = attack_figure(promise)
    show_plot(made, title="Upper limits on any attack", twin=twin, key="promise-chart")


def attack_figure(promise: Promise) -> tuple[Figure, pd.DataFrame]:
    """Return the two ceilings, for any method that meets the promise and for the noise of this release.

    The second is tighter because everything a run asks is Gaussian noise or converts to a known Gaussian cost; the
    report of attacks shows the same one.
    """
    measures = ["caught, one false alarm in 100", "advantage over guessing"]
    anything = [promise.caught, promise.advantage]
    this = [promise.noise_caught, promise.noise_advantage]
    made = Figure()
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
            "attack": measures,
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


def delta_controls() -> None:
    """Ask for delta, where the rule is not to choose it."""
    held = draft()
    before, default = held["delta"], default_delta(int(most_people(held) or 1))
    own = st.checkbox(
        f"Choose delta myself (default: {default:g})",
        value=held["delta"] is not None and held["delta"] != default,
        key="field:own-delta",
        help="Default: the smaller of 1e-6 and 1 over ten times the declared number of people, rounded down.",
    )
    if own:
        exponents = [*(10.0**-power for power in range(5, 13)), 0.0]
        chosen = held["delta"] if held["delta"] in exponents else default
        held["delta"] = st.selectbox(
            "Delta",
            exponents,
            index=exponents.index(chosen),
            format_func=lambda delta: f"{delta:g}" if delta else f"0 (only {', '.join(PURE)})",
            key="field:delta-choice",
            help="Smaller is safer, and makes the noise a little larger; at 0 (pure epsilon) much larger.",
        )
    else:
        held["delta"] = None
    if held["delta"] != before:
        st.rerun()  # what stands above was worked out for the delta before
    note(f"δ: {DELTA_MEANS} Keep it far below 1 / (number of people).")


def ledger_box(plan: Plan) -> None:
    """Say what has been spent on these people and where this release would bring them."""
    held = draft()
    with st.container(border=True):
        st.markdown(f"**Ledger of '{plain(held['account'])}'**")
        limit = " (no limit set)" if plan.epsilon_cap is None else f" of {amount(plan.epsilon_cap)}"
        st.markdown(
            f"Spent on these people so far: **{amount(plan.epsilon_spent_before)}**{_releases(held['account'])}. "
            f"After this release: **{amount(plan.epsilon_after)}**{limit}; simple sum {amount(plan.simple_sum_after)}."
        )
        st.page_link("pages/ledger.py", label="Ledger and limits")


def _evaluation_share() -> None:
    st.number_input(
        "Share for measurements the report can publish",
        min_value=0.0,
        max_value=0.5,
        step=0.05,
        format="%.2f",
        help="Pays for noisy one-way tables with error bars where the generator does not measure them itself.",
        **bind("evaluation_share"),
    )


def _prediction_share(plan: Plan, config: RunConfig) -> None:
    paid_predictions(
        "prediction_share",
        plan.forecast,
        refusal=prediction_refusal(config.schema, config.label, config.holdout, config.delta),
        means="Pays for noisy counts of held-out people by prediction and label (for a numeric label, noisy "
        "sums of squared errors). The report can then publish how well the label is predicted after training "
        "on synthetic rows.",
    )


def others_used() -> None:
    """Say which epsilons others have published with, and where that can be read."""
    frame = pd.DataFrame(USED, columns=["who", "epsilon", "what it protects", "source"])
    show_table(frame, alt="Epsilons that others published with", key="others-used")
    note(
        f"The words on the scale: researchers have recommended values around {STRONG:g}, and by broad "
        f"consensus low single digits, below {WEAK:g}, are conservative (NIST 2022). The NIST guidelines (SP "
        f"800-226, 2025) give no number that suits every use. What others have used is not advice: they "
        f"protect different units (a person, one day of a person), and some count several releases together."
    )


@guard()
def _take_move() -> None:
    """Take what was set in the browser into the draft; what is out of its range was refused there, in words."""
    moved = _moved()
    held = draft()
    epsilon, rows = moved.get("epsilon"), moved.get("rows")
    if isinstance(epsilon, int | float) and SMALLEST_EPSILON <= epsilon <= LARGEST_EPSILON:
        held["epsilon"] = float(epsilon)
    if rows is None or (isinstance(rows, int | float) and 0 < rows <= MOST_ROWS):
        # A number that was read from the table is not kept with what was declared.
        held["about_rows"] = None if rows is None or rows == _looked() else int(rows)
    if isinstance(moved.get("column"), int):
        st.session_state[_COLUMN] = max(0, moved["column"])
    table = own_table()
    if moved.get("look") and table is not None and table.n_rows is not None:
        application().note_look(table.account, "number of rows")
        st.session_state[_LOOKED] = table.table_id


def _moved() -> dict[str, Any]:
    """Return what was set in the browser last; its ``move`` goes back, so that the browser knows what is answered."""
    return dict((st.session_state.get(_DIAL) or {}).get("moved") or {})


def _looked() -> int | None:
    """Return the number of private rows to the owner who asked to see it; the look is in the ledger."""
    table = own_table()
    if table is None or st.session_state.get(_LOOKED) != table.table_id:
        return None
    return table.n_rows


def _measured_rows(config: RunConfig) -> float | None:
    """Return how many of the typed or looked-up rows are measured; None if neither is known.

    Where people are kept whole, people are typed, and a number of rows says nothing about them.
    """
    said = (None if config.schema.people == "whole" else _looked()) or draft()["about_rows"]
    return None if said is None else said * (1 - config.holdout)


def _rehearsed_accuracy(config: RunConfig) -> dict[str, Any] | None:
    """Return what rehearsals predicted after training on this generator's rows, for each epsilon; or None."""
    looked_for = sorted({*EPSILON_STOPS, config.epsilon})
    told = () if config.is_model else application().rehearsals.predictions(config, looked_for)
    if not told:
        return None
    measure = told[0].measure
    own = [one for one in told if one.measure == measure]
    found: dict[float, list[float]] = {}
    for one in own:
        found.setdefault(one.epsilon, []).append(one.score)
    real = [one.real for one in own if one.real is not None]
    return {
        "measure": measure,
        "generator": config.generator,
        "points": [[epsilon, statistics.fmean(values)] for epsilon, values in sorted(found.items())],
        "real": statistics.fmean(real) if real else None,
    }


def _releases(account: str) -> str:
    if account not in application().account_names():
        return " (new people)"
    number = application().account(account).releases
    return f" in {count(number)} charge{'' if number == 1 else 's'}"


if __name__ == "__main__":
    through_the_application()
    screen()
