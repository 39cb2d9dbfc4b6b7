"""The controls of the budget, the ledger box, and where the budget goes."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from pages.ui.charts import show_table
from pages.ui.notes import note
from pages.ui.session import application, bind, draft
from pages.ui.words import DELTA_MEANS, amount, count, plain
from synth.schema import RunConfig, default_delta, prediction_refusal
from synth.services.planning import prediction_lines
from synth.services.views import Plan

__all__ = ["STOPS", "budget_controls", "ledger_box", "parts_table"]

_SHARE, _ALONE = "share of the budget", "epsilon if it were asked alone"
STOPS = (0.1, 0.25, 0.5, 1.0, 2.0, 4.0)


def budget_controls() -> None:
    """Ask for epsilon by a stop or by a number, and for delta."""
    held = draft()
    stops = sorted({*STOPS, float(held["epsilon"])})
    if st.session_state.get("field:epsilon-stop") != held["epsilon"]:
        st.session_state["field:epsilon-stop"] = float(held["epsilon"])
    st.select_slider(
        "Epsilon: stronger promise on the left, more accurate rows on the right",
        stops,
        format_func="{:g}".format,
        key="field:epsilon-stop",
        on_change=_take_stop,
    )
    bound = bind("epsilon")
    st.number_input("Epsilon, exactly", min_value=0.001, max_value=100.0, step=0.05, format="%g", **bound)
    default = default_delta(int(held["people_at_most"]))
    own = st.checkbox(
        f"Choose delta myself (the rule gives {default:g})",
        value=held["delta"] is not None and held["delta"] != default,
        key="field:own-delta",
        help="The rule: the smaller of 1e-6 and 1 over ten times the declared number of people, rounded down.",
    )
    if own:
        exponents = [10.0**-power for power in range(5, 13)]
        chosen = held["delta"] if held["delta"] in exponents else default
        held["delta"] = st.selectbox(
            "Delta", exponents, index=exponents.index(chosen), format_func="{:g}".format, key="field:delta-choice"
        )
    else:
        held["delta"] = None
    note(f"δ: {DELTA_MEANS} Keep it far below one over the number of people.")


def ledger_box(plan: Plan) -> None:
    """Say what has been spent on these people and where this release would bring them."""
    held = draft()
    with st.container(border=True):
        st.markdown(f"**Ledger of '{plain(held['account'])}'**")
        limit = "no limit is set" if plan.epsilon_cap is None else f"of {amount(plan.epsilon_cap)}"
        after = f"After this release: **{amount(plan.epsilon_after)}**"
        after += f" {limit}" if plan.epsilon_cap is not None else f" ({limit})"
        st.markdown(
            f"Spent on these people so far: **{amount(plan.epsilon_spent_before)}**{_releases(held['account'])}. "
            f"{after} (simple sum {amount(plan.simple_sum_after)})."
        )
        st.page_link("pages/ledger.py", label="Ledger and limits")


def parts_table(plan: Plan, config: RunConfig) -> None:
    """Show every question of the run with its share, and what the report may take of it; the shares add up to one."""
    frame = pd.DataFrame(
        {
            "part": [part.name for part in plan.parts],
            "question": [part.question for part in plan.parts],
            _SHARE: [100 * part.share for part in plan.parts],
            _ALONE: [part.epsilon_alone for part in plan.parts],
        }
    )
    total = 100 * sum(part.share for part in plan.parts)
    frame.loc[len(frame)] = ["total", "", total, float(draft()["epsilon"])]
    formats = {_SHARE: "%.1f %%", _ALONE: "%.2f"}
    show_table(frame, alt="Where the budget goes", key="budget-parts", formats=formats)
    if len(plan.parts) > 1:
        note(
            "Shares are of the squared cost (mu²), the currency that adds up exactly; the epsilons of the parts alone "
            "add up to more than the whole."
        )
    _evaluation_share()
    _prediction_share(plan, config)


def _evaluation_share() -> None:
    st.number_input(
        "Share kept for measuring what the report can publish",
        min_value=0.0,
        max_value=0.5,
        step=0.05,
        format="%.2f",
        help="Pays for noisy one-way tables with error bars where the generator does not measure them itself.",
        **bind("evaluation_share"),
    )


def _prediction_share(plan: Plan, config: RunConfig) -> None:
    refusal = prediction_refusal(config.schema, config.label, config.holdout)
    st.number_input(
        "Share kept for predictions on the hold-out",
        min_value=0.0,
        max_value=0.3,
        step=0.05,
        format="%.2f",
        disabled=refusal is not None,
        help="Pays for noisy counts of held-out people by prediction and label: the report can then publish how well "
        "the label is predicted after training on synthetic rows.",
        **bind("prediction_share"),
    )
    if refusal is not None:
        note(plain(f"Predictions cannot be paid for: {refusal}"))
    for line in prediction_lines(plan.forecast):
        note(plain(line.strip()))


def _take_stop() -> None:
    held = draft()
    held["epsilon"] = float(st.session_state["field:epsilon-stop"])
    st.session_state["field:epsilon"] = held["epsilon"]


def _releases(account: str) -> str:
    if account not in application().account_names():
        return " (new people)"
    number = application().account(account).releases
    return f" in {count(number)} release{'' if number == 1 else 's'}"
