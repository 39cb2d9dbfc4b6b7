"""4 Generate: choose a generator, spend, and watch; a run goes on without the page."""

from __future__ import annotations

import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from pages.ui.charts import show_plot, show_table
from pages.ui.draft import config_of
from pages.ui.generators import generator_cards, modes_panel, options_form, output_form
from pages.ui.guards import guard, guarded, require, through_the_application
from pages.ui.session import application, draft
from pages.ui.words import add_row_worth, amount, note, plain, row_note, row_worth
from synth.reports.charts import MAXIMUM_POINTS
from synth.reports.drawing import COLOURS
from synth.schema import RunConfig
from synth.services.views import RunView

__all__ = ["screen"]

STATES = {
    "queued": "waiting",
    "running": "running",
    "reported": "report ready",
    "released": "released",
    "failed": "failed",
    "cancelled": "cancelled",
}
_MOVING = {"queued", "running"}
WENT_ON = "It went on after its worker stopped, from the answers it had."
WILL_GO_ON = "Its worker stopped. It goes on from the answers it had as soon as a place is free."
NO_ROOM = (
    "Free some space soon. A run that cannot write to the database waits for an hour and then goes on by itself; one "
    "that cannot write a file ends, and what it spent stays spent."
)
_DEVICES = {"cpu": "CPU", "cuda": "GPU"}


def screen() -> None:
    """Draw the screen."""
    st.title("Generate rows")
    held = draft()

    if held["run_id"] is not None and not st.session_state.get("another-run"):
        follow_run(held["run_id"])
        st.divider()
        if st.button("Prepare another run", key="another", help="Every run is charged to the same people."):
            st.session_state["another-run"] = True
            st.rerun()
    else:
        require("table")
        require("description")
        generator_cards()
        releases = modes_panel()
        options_form()
        output_form()
        if releases:
            # Its refusal does not hide the runs below.
            with guard():
                confirm_and_start()

    if held["account"]:
        st.subheader("Runs")
        list_runs(application().runs(held["account"]))


def confirm_and_start() -> None:
    """Offer to spend; the amount stands on the button and again in the dialog."""
    config = config_of(draft())
    plan = application().plan(config)
    if plan.refusal is not None:
        st.error(plain(plan.refusal))
    st.divider()
    label = f"Spend {amount(config.epsilon)} and generate"
    if st.button(label, type="primary", key="spend", disabled=plan.refusal is not None):
        st.session_state["confirming"] = True
    if st.session_state.get("confirming"):
        _confirm(config, None if plan.epsilon_cap is None else max(0.0, plan.epsilon_cap - plan.epsilon_after))


def _dismiss() -> None:
    st.session_state.pop("confirming", None)


@st.dialog("Spend this budget?", on_dismiss=_dismiss)
@guarded
def _confirm(config: RunConfig, remaining: float | None) -> None:
    text = (
        f"This will spend ε = {amount(config.epsilon)}, δ = {config.delta:g} from '{plain(config.account)}'. "
        "Spending cannot be undone, even if you do not like the rows."
    )
    st.markdown(text if remaining is None else f"{text} Remaining after: {amount(remaining)}.")
    yes, no = st.columns(2)
    if yes.button(f"Spend {amount(config.epsilon)} and generate", type="primary", key="confirm-spend"):
        _dismiss()
        st.session_state.pop("another-run", None)
        held = draft()
        held["run_id"] = application().start(config, table_id=held["table_id"], test_table_id=held["test_table_id"])
        st.rerun()
    if no.button("Not yet", key="confirm-not"):
        _dismiss()
        st.rerun()


def follow_run(run_id: str) -> None:
    """Show where a run stands; the timer runs only while it moves."""
    if application().run(run_id).state in _MOVING:
        _moving(run_id)
    else:
        _standing(application().run(run_id))


@st.fragment(run_every=1.0)
@guarded
def _moving(run_id: str) -> None:
    run = application().run(run_id)
    if run.state not in _MOVING:
        # One run of the whole page: it draws the end without a timer.
        st.rerun()
    _title(run)
    share = run.step / run.of if run.of else 0.0
    words = "Waiting for a free place" if run.state == "queued" else _phase(run)
    text = f"{words} · {_clock(run.elapsed_seconds)}{_device(run)}{_time_left(run)}"
    st.progress(min(max(share, 0.0), 1.0), text=text)
    if run.full_disk is not None:
        st.warning(plain(f"{run.full_disk} {NO_ROOM}"))
    _losses(run)
    note("You can close this page. The run continues; find it under Generate → Runs.")
    if st.button(_stop_words(run), key="cancel-run"):
        application().cancel(run_id)


def _standing(run: RunView) -> None:
    _title(run)
    if run.state in {"reported", "released"}:
        st.success(f"Done in {_clock(run.elapsed_seconds)}{_device(run)}. The report is ready.")
        if st.button("Continue to 5 Report", type="primary", key="continue-report"):
            st.switch_page("pages/report.py")
    elif run.state == "cancelled":
        st.info(plain(run.message or "The run was cancelled."))
        note(_fate(run))
    else:
        st.error(plain(run.message or "The run stopped before its end."))
        note(_fate(run) + (f" Incident {run.incident}." if run.incident else ""))
    _losses(run)


def list_runs(runs: list[RunView]) -> None:
    """List the runs about these people; one can be opened."""
    if not runs:
        note("No run yet about these people.")
        return
    frame = pd.DataFrame(
        {
            "run": [run.run_id[:8] for run in runs],
            "started (UTC)": [run.created.strftime("%Y-%m-%d %H:%M") for run in runs],
            "generator": [run.generator for run in runs],
            "epsilon": [run.epsilon for run in runs],
            "rows": [run.rows for run in runs],
            "state": [STATES[run.state] for run in runs],
        }
    )
    worths = [run.row_worth for run in runs]
    frame = add_row_worth(frame, worths)
    show_table(frame, alt="Runs about these people", key="runs", formats={"epsilon": "%.2f", "rows": "localized"})
    if words := row_note(worths):
        note(words)
    names = {run.run_id: f"{run.run_id[:8]} · {run.generator}" for run in runs}
    choice, button = st.columns([3, 1], vertical_alignment="bottom")
    chosen = choice.selectbox("Run", list(names), format_func=names.__getitem__, key="run-choice")
    if button.button("Open this run", key="open-run"):
        draft()["run_id"] = chosen
        st.session_state.pop("another-run", None)
        st.rerun()


def _title(run: RunView) -> None:
    st.subheader(f"Run {run.run_id[:8]}: {run.generator}, ε = {amount(run.epsilon)}{row_worth(run.row_worth)}")
    if run.went_on:
        note(WILL_GO_ON if run.state == "queued" else WENT_ON)


def _phase(run: RunView) -> str:
    words = run.phase or "Starting"
    return f"{words}: step {run.step} of {run.of}" if run.of else words


def _stop_words(run: RunView) -> str:
    if run.spent:
        return f"Stop the run (the {amount(run.epsilon)} stays spent)"
    return f"Cancel (the {amount(run.epsilon)} is freed unless it becomes spent first)"


def _fate(run: RunView) -> str:
    return f"The {amount(run.epsilon)} stays spent." if run.spent else f"The {amount(run.epsilon)} is not spent."


def _losses(run: RunView) -> None:
    if len(run.losses) < 2:
        return
    stride = -(-len(run.losses) // MAXIMUM_POINTS)
    steps, losses = list(range(0, len(run.losses), stride)), list(run.losses[::stride])
    made = go.Figure(go.Scatter(x=steps, y=losses, mode="lines", line={"color": COLOURS["synthetic"]}, name="loss"))
    made.update_layout(
        height=220, margin={"l": 10, "r": 10, "t": 10, "b": 10}, xaxis_title="reports so far", yaxis_title="loss"
    )
    note("How well the generator fits the noisy measurements (the loss reads no row; smaller is closer)")
    show_plot(made, title="Loss of the fit", twin=pd.DataFrame({"report": steps, "loss": losses}), key="losses")


def _time_left(run: RunView) -> str:
    """Guess the time left in this phase from the pace since the page first saw it."""
    seen = st.session_state.get("pace")
    if seen is None or seen[:2] != [run.run_id, run.phase]:
        st.session_state["pace"] = [run.run_id, run.phase, run.elapsed_seconds, run.step]
        return ""
    seconds, steps = run.elapsed_seconds - seen[2], run.step - seen[3]
    if seconds < 2 or steps < 1:
        return ""
    return f" · about {_clock(round(seconds * (run.of - run.step) / steps))} left in this phase"


def _clock(seconds: int) -> str:
    return f"{seconds} s" if seconds < 90 else f"{seconds // 60} min {seconds % 60} s"


def _device(run: RunView) -> str:
    return f" on the {_DEVICES.get(run.device, plain(run.device))}" if run.device else ""


if __name__ == "__main__":
    through_the_application()
    screen()
