"""Following work in the background: a run, its end and the list of runs about the same people; any other long work."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from pages.ui.charts import show_plot, show_table
from pages.ui.guards import guard, require
from pages.ui.latest import STATES
from pages.ui.losses import draw_losses
from pages.ui.session import ANOTHER_RUN, application, draft
from pages.ui.words import add_row_worth, amount, note, plain, row_note, row_worth
from synth.bundle.verify import Limits
from synth.estimators import describe
from synth.progress import OWNER_PHASE
from synth.reports.drawing import COLOURS
from synth.reports.figures import MAXIMUM_POINTS
from synth.services.course import Course
from synth.services.devices import working_device
from synth.services.views import RunState, RunView
from synth.store import Work, WorkState

WENT_ON = "Its worker stopped; it continued from the answers it had."
WILL_GO_ON = "Its worker stopped. It will continue from the answers it had as soon as a slot is free."
NO_ROOM = (
    "Free some disk space soon. A run that cannot write to the database waits for an hour and then continues "
    "by itself; one that cannot write a file ends, and what it spent stays spent."
)
SEALED = (
    "The release is sealed. What remains is your own report on the private rows. Its progress depends on "
    "exact rows, so it is not shown; the time left is what tables of this size usually take."
)


def prepare_or_follow(prepare: Callable[[], None]) -> None:
    """Follow the run of this session, or prepare one; below it the runs about the same people."""
    held = draft()
    if held["run_id"] is not None and not st.session_state.get(ANOTHER_RUN):
        follow_run(held["run_id"])
        st.divider()
        if st.button("Prepare another run", key="another", help="Every run is charged to the same people."):
            st.session_state[ANOTHER_RUN] = True
            st.rerun()
    else:
        require("table")
        require("description")
        prepare()

    if held["account"]:
        st.header("Runs")
        _list_runs(application().runs(held["account"]))


def follow_run(run_id: str) -> None:
    """Show the state of a run; the timer runs only while it moves."""
    run = application().run(run_id)
    if run.state == "queued":
        _waiting(run_id)
    elif run.state == "running":
        _moving(run_id)
    else:
        _standing(run)


@st.fragment(run_every=5.0)
@guard()
def _waiting(run_id: str) -> None:
    # Of many runs all but one wait: their pages ask less often.
    _going("queued", run_id)


@st.fragment(run_every=1.0)
@guard()
def _moving(run_id: str) -> None:
    _going("running", run_id)


def _going(drawn: RunState, run_id: str) -> None:
    """Show a run that was in a state when the whole page was drawn."""
    run = application().run(run_id)
    if run.state != drawn:
        # One run of the whole page: it draws what follows with another timer, or the end without one.
        st.rerun()
    _title(run)
    course = course_of(run)
    words = "Waiting for a free slot" if run.state == "queued" else phase_words(run, course)
    left = f" · {course.left}" if course.left else ""
    # In one place of the page: lines that come and go must not close what is open below them.
    with st.container():
        st.progress(course.share, text=f"{words} · {_clock(run.elapsed_seconds)}{_device(run)}{left}")
        _why_there(run)
        if run.phase == OWNER_PHASE:
            note(SEALED)
        if run.full_disk is not None:
            st.warning(plain(f"{run.full_disk} {NO_ROOM}"))
        _losses(run)
    note("You can close this page. The run continues; find it under Generate → Runs.")
    with st.popover("Stop"):
        # What stays spent is read before the button that does it.
        st.markdown(_what_stopping_costs(run))
        if st.button(_stop_words(run), key="cancel-run"):
            application().cancel(run_id)


def _standing(run: RunView) -> None:
    _title(run)
    if run.state in {"reported", "released"}:
        st.success(f"Done in {_clock(run.elapsed_seconds)}{_device(run)}. The report is ready.")
        _why_there(run)
        if st.button("Continue to 5 Report", type="primary", key="continue-report"):
            st.switch_page("pages/report.py")
    elif run.state == "unchecked":
        _check_again(run)
    elif run.state == "cancelled":
        st.info(plain(run.message or "The run was cancelled."))
        note(_fate(run))
    else:
        st.error(plain(run.message or "The run stopped before it finished."))
        note(_fate(run) + (f" Incident {run.incident}." if run.incident else ""))
    _losses(run)


def _check_again(run: RunView) -> None:
    """Say why the sealed bundle of a run is not released yet, and offer another check of it."""
    check = LongWork(
        standing=lambda: application().checking(run.run_id),
        cancel=lambda: application().cancel_check(run.run_id),
        stop_label="Stop checking",
        steps="steps",
        after_stop="Stopped. The bundle is kept as it was.",
    )
    st.warning(plain(run.message or "The bundle of this run could not be checked."))
    note(_fate(run))
    if follow_work(check, stop_key="stop-check"):
        return
    memory, seconds, button = st.columns([1, 1, 1], vertical_alignment="bottom")
    gibibytes = memory.number_input("Memory (GiB)", min_value=1.0, max_value=1024.0, value=4.0, key="check-memory")
    most = seconds.number_input("Processor time (seconds)", min_value=60, max_value=86_400, value=600, key="check-time")
    if button.button("Check again", type="primary", key="check-again"):
        with guard():
            application().check_again(run.run_id, Limits(memory=gibibytes, seconds=float(most)))
            st.rerun()


def _list_runs(runs: list[RunView]) -> None:
    """List the runs about these people; one can be opened."""
    if not runs:
        note("No runs about these people yet.")
        return
    frame = pd.DataFrame(
        {
            "run": [run.run_id[:8] for run in runs],
            "started (UTC)": [run.created.strftime("%Y-%m-%d %H:%M") for run in runs],
            "generator or model": [run.generator for run in runs],
            "epsilon": [run.epsilon for run in runs],
            # A model makes none.
            "rows": [run.rows or None for run in runs],
            "state": [STATES[run.state] for run in runs],
        }
    )
    worths = [run.row_worth for run in runs]
    frame = add_row_worth(frame, worths)
    show_table(frame, alt="Runs about these people", key="runs", formats={"epsilon": "%.2f"})
    if words := row_note(worths):
        note(words)
    names = {run.run_id: f"{run.run_id[:8]} · {run.generator}" for run in runs}
    choice, button = st.columns([3, 1], vertical_alignment="bottom")
    chosen = choice.selectbox("Run", list(names), format_func=names.__getitem__, key="run-choice")
    if button.button("Open this run", key="open-run"):
        draft()["run_id"] = chosen
        st.session_state.pop(ANOTHER_RUN, None)
        st.rerun()


def _title(run: RunView) -> None:
    """Draw the heading of a run, and what was not as declared in its table."""
    st.header(f"Run {run.run_id[:8]}: {run.generator}, ε = {amount(run.epsilon)}{row_worth(run.row_worth)}")
    if run.went_on:
        note(WILL_GO_ON if run.state == "queued" else WENT_ON)
    draw_losses(run.run_id)


def phase_words(run: RunView, course: Course) -> str:
    """Say which of its steps a run is at."""
    words = run.phase or "Starting"
    inside = f", {run.step} of {run.of}" if run.of else ""
    return f"Step {course.place_of(run.phase)} of {len(course.stages)}: {words}{inside}"


def course_of(run: RunView) -> Course:
    """Return the course of a run as this session has watched it, up to now."""
    seen = st.session_state.get("course")
    if seen is None or seen[0] != run.run_id:
        seen = (run.run_id, Course(columns=run.columns, rows=run.rows))
        st.session_state["course"] = seen
    course: Course = seen[1]
    if run.state != "queued":
        course.tell(run.elapsed_seconds, run.phase, run.step, run.of)
    return course


def _what_stopping_costs(run: RunView) -> str:
    if run.phase == OWNER_PHASE:
        return "The synthetic table and its certificate are kept. Only your own report is left out."
    if run.spent:
        return f"The table was read, so {amount(run.epsilon)} stays spent. Nothing made so far is kept."
    return f"Nothing has been read yet: {amount(run.epsilon)} is freed unless it is spent first."


def _stop_words(run: RunView) -> str:
    if run.phase == OWNER_PHASE:
        return "Finish without my report"
    if run.spent:
        return f"Stop the run (the {amount(run.epsilon)} stays spent)"
    return f"Cancel (the {amount(run.epsilon)} is freed unless it is spent first)"


def _fate(run: RunView) -> str:
    return f"The {amount(run.epsilon)} stays spent." if run.spent else f"The {amount(run.epsilon)} is not spent."


def _losses(run: RunView) -> None:
    if len(run.losses) < 2:
        return
    stride = -(-len(run.losses) // MAXIMUM_POINTS)
    steps, losses = list(range(0, len(run.losses), stride)), list(run.losses[::stride])
    made = go.Figure(go.Scatter(x=steps, y=losses, mode="lines", line={"color": COLOURS["synthetic"]}, name="error"))
    made.update_layout(
        height=220, margin={"l": 10, "r": 10, "t": 10, "b": 10}, xaxis_title="progress reports", yaxis_title="error"
    )
    note("How far the fit is from the noisy answers; it falls as the fit improves. No row is read.")
    show_plot(made, title="Fit error", twin=pd.DataFrame({"report": steps, "error": losses}), key="losses")


def _clock(seconds: int) -> str:
    return f"{seconds} s" if seconds < 90 else f"{seconds // 60} min {seconds % 60} s"


def _why_there(run: RunView) -> None:
    """Say why the run got its device."""
    if run.device and (why := application().device_reason(run.run_id)):
        note(why)


def _device(run: RunView) -> str:
    return f" on the {working_device(describe(run.generator), run.device)}" if run.device else ""


# Any other long work --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LongWork:
    """What can be followed and stopped, and how it is spoken of.

    With ``shows_steps``, the page above shows what each step has found, so it is drawn again after each.
    """

    standing: Callable[[], Work | None]
    cancel: Callable[[], None]
    stop_label: str
    steps: str
    after_stop: str = "Stopped. The numbers above are unchanged."
    shows_steps: bool = False


def follow_work(work: LongWork, *, stop_key: str) -> bool:
    """Show how far the work is, or how it ended where that has to be said; return whether it is going on."""
    where = work.standing()
    if where is not None and where.is_active:
        _going_on(work, stop_key, drawn=where.step)
        return True
    if where is not None and where.state is WorkState.FAILED:
        st.error(plain(where.message))
    if where is not None and where.state is WorkState.CANCELLED:
        st.info(work.after_stop)
    return False


@st.fragment(run_every=1.0)
@guard()
def _going_on(work: LongWork, stop_key: str, *, drawn: int) -> None:
    """Show the step that work is at; ``drawn`` is the one it was at when the whole page was drawn."""
    where = work.standing()
    if where is None or not where.is_active or (work.shows_steps and where.step != drawn):
        # One run of the whole page: it draws the new numbers without a timer.
        st.rerun()
        return
    phase = where.phase or "Starting"
    text = f"{phase}: {where.step} of {where.steps} {work.steps}" if where.steps else phase
    st.progress(where.step / where.steps if where.steps else 0.0, text=text)
    note("You can close this page. The work continues; come back here to see it.")
    if st.button(work.stop_label, key=stop_key):
        work.cancel()
        st.rerun()
