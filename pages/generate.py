"""4 Generate: choose a generator, spend, and watch; a run goes on without the page."""

from __future__ import annotations

import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from pages.ui.badges import badge
from pages.ui.charts import show_plot, show_table
from pages.ui.draft import config_of
from pages.ui.guards import guard, guarded, require, through_the_application
from pages.ui.session import application, bind, draft
from pages.ui.words import add_row_worth, amount, note, plain, row_note, row_worth, upper
from synth.generators import cards, describe, options_of
from synth.generators.options import OptionField
from synth.generators.protocol import Card, Mode
from synth.reports.drawing import COLOURS
from synth.reports.expected import Forecast
from synth.reports.figures import MAXIMUM_POINTS
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
_DEFAULT = RunConfig.__dataclass_fields__["generator"].default
_CARDS_IN_A_ROW = 3
_MODE = "field:mode"
_NOISE = "noise of one cell (1 = the whole range of the column)"
_DEVICE_CHOICES = {"auto": "GPU where there is one", "cpu": "CPU", "cuda": "GPU"}


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


# Choosing a generator ------------------------------------------------------------------------------------------------


def generator_cards() -> None:
    """Draw one card for each generator, and choose among them."""
    held = draft()
    offered = cards()
    names = [card.name for card in offered]
    if held["generator"] not in names:
        held["generator"] = _DEFAULT if _DEFAULT in names else names[0]
        held["options"] = {}
    # What a generator needs is columns and a label; what a mode promises is said where it is chosen.
    config = config_of({**held, "protection": "record"})
    for start in range(0, len(offered), _CARDS_IN_A_ROW):
        places = st.columns(_CARDS_IN_A_ROW)
        for card, place in zip(offered[start : start + _CARDS_IN_A_ROW], places, strict=False):
            with place.container(border=True, height="stretch"):
                ready = card.needs.are_met(config.schema, config.label)
                _card(card, chosen=card.name == held["generator"], ready=ready)


def _card(card: Card, *, chosen: bool, ready: bool) -> None:
    st.markdown(f"**{card.title}**")
    note(f"`{card.name}`")
    st.markdown(card.summary)
    st.markdown(f"**Best for:** {card.best_for}")
    st.markdown(f"**Loses where:** {card.loses_where}")
    note(card.reference)
    if card.needs.words and ready:
        note(f"Needs {card.needs.words}.")
    elif not ready:
        st.warning(f"Needs {card.needs.words}. Declare it on 2 Describe first.")
    if chosen:
        st.badge("chosen", color="gray")
    else:
        st.button("Choose", key=f"choose-{card.name}", on_click=_choose, args=(card.name,), disabled=not ready)


def _choose(name: str) -> None:
    # Every generator hides whole rows until a mode is chosen that hides one cell.
    draft().update(generator=name, options={}, protection="record")


def modes_panel() -> bool:
    """Say where another generator is better, let a mode be chosen by what it promises, and show what it will do.

    Returns whether what is chosen can make a release; a generator without modes always can.
    """
    held = draft()
    card = describe(held["generator"])
    advice = card.advice(config_of({**held, "protection": "record"}).schema)
    if advice:
        st.info(advice)
    if not card.modes:
        return True
    mode = _mode_chooser(card.modes)
    if mode.refusal:
        st.error(plain(mode.refusal))
        return False
    if mode.perturbs_rows:
        if not _shows_nothing_new(card.modes[0].title):
            return False
        _mode_facts(application().plan(config_of(held)).forecast, card.modes[0].title)
    return True


def _shows_nothing_new(instead: str) -> bool:
    """Whether one row for every private one may be let out, by what was declared; if not, say what to declare."""
    held = draft()
    if held["row_count"] == "public" and held["rows_per_unit"] == 1:
        return True
    unit = plain(held["protects"] or "person")
    st.error(
        "This mode releases one noisy row for every private one, so the number of rows must be public and every "
        f"{unit} may have only one. Declare both on 2 Describe if they are true, or choose '{plain(instead)}'."
    )
    return False


def _mode_chooser(modes: tuple[Mode, ...]) -> Mode:
    held = draft()
    by_name, unit = {mode.name: mode for mode in modes}, plain(held["protects"] or "person")
    names = list(by_name)
    chosen = str(held["options"].get("mode", names[0]))
    st.subheader("What is to be hidden")
    name = st.radio(
        "Mode",
        names,
        index=names.index(chosen) if chosen in names else 0,
        format_func={mode.name: mode.title for mode in modes}.__getitem__,
        captions=[plain(f"{mode.promise} {mode.beware}").replace("one person's", f"one {unit}'s") for mode in modes],
        key=_MODE,
        on_change=_keep_mode,
    )
    mode = by_name[name]
    if mode.hides == "cell":
        st.warning(f"**{plain(mode.promise)}** {plain(mode.beware)}")
        st.slider(
            "How far that cell may change, as a fraction of its declared range",
            min_value=0.05,
            max_value=1.0,
            step=0.05,
            **bind("cell_change"),
        )
    return mode


def _keep_mode() -> None:
    held, name = draft(), str(st.session_state[_MODE])
    modes = describe(held["generator"]).modes
    held["options"] = {key: value for key, value in held["options"].items() if key != "mode"}
    if name != modes[0].name:
        held["options"]["mode"] = name
    held["protection"] = next(mode.hides for mode in modes if mode.name == name)


def _mode_facts(forecast: Forecast, instead: str) -> None:
    """Show what noisy rows will carry: the noise of every column, and what noise on cells is worth for a row."""
    if forecast.row_epsilon is not None:
        st.metric("The same setting, for replacing a whole row", f"ε = {upper(forecast.row_epsilon)}")
        badge("safe")
        note(
            f"At delta {forecast.delta:g}, for a row with the same label; a changed label has no protection. "
            f"The epsilon you enter, {amount(forecast.epsilon)}, is for one cell. Compare other generators with this "
            "number, not with that one."
        )
    if not forecast.row_noise:
        return
    drowned = [noise.column for noise in forecast.row_noise if noise.drowned]
    frame = pd.DataFrame(
        {"column": [noise.column for noise in forecast.row_noise], _NOISE: [noise.std for noise in forecast.row_noise]}
    )
    badge("safe")
    show_table(frame, alt="Noise that every cell will carry, by column", key="row-noise", formats={_NOISE: "%.2f"})
    if drowned:
        st.warning(
            f"In {len(drowned)} of {len(frame)} columns the noise is wider than the column's whole range. Single rows "
            f"will mean nothing; choose mode '{plain(instead)}', or a larger epsilon."
        )


def options_form() -> None:
    """Draw the options of the chosen generator from its dataclass; what is left alone keeps its default."""
    held = draft()
    # A mode decides what is promised, so it is chosen by its own words and not among the settings.
    fields = [field for field in options_of(held["generator"]) if field.name != "mode"]
    with st.expander(f"Options of {held['generator']} (public defaults)"):
        if not fields:
            note("This generator has no options.")
        columns = st.columns(2, gap="large")
        for position, field in enumerate(fields):
            with columns[position % 2]:
                _option(field)


def _option(field: OptionField) -> None:
    held = draft()
    value = held["options"].get(field.name, field.default)
    key = f"field:option:{held['generator']}:{field.name}"
    label, words = field.name.replace("_", " "), plain(field.help)
    if field.kind is bool:
        chosen: int | float | bool | str = st.checkbox(label, bool(value), key=key, help=words)
    elif field.kind is int:
        chosen = int(st.number_input(label, value=int(value), step=1, key=key, help=words))
    elif field.kind is float:
        chosen = float(st.number_input(label, value=float(value), format="%g", key=key, help=words))
    elif field.choices:
        place = field.choices.index(str(value)) if value in field.choices else 0
        chosen = st.selectbox(label, field.choices, index=place, key=key, help=words)
    else:
        chosen = st.text_input(label, str(value), key=key, help=words)
    if chosen == field.default:
        held["options"].pop(field.name, None)
    else:
        held["options"][field.name] = chosen


def output_form() -> None:
    """Ask for the number of rows to make, the device and the public seed."""
    rows, device, seed = st.columns(3)
    rows.number_input(
        "Rows to make (a public number)",
        min_value=1,
        max_value=50_000_000,
        step=1000,
        **bind("rows"),
    )
    device.selectbox("Device", list(_DEVICE_CHOICES), format_func=_DEVICE_CHOICES.__getitem__, **bind("device"))
    seed.number_input(
        "Seed (public)",
        min_value=0,
        max_value=2**53 - 1,
        step=1,
        help="Seeds training and sampling, so that anybody can make the same rows from the saved measurements. "
        "The privacy noise has no seed that anybody can set.",
        **bind("seed"),
    )


# Spending, and following a run ---------------------------------------------------------------------------------------


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
