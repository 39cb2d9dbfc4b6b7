"""4 Generate: choose a generator, spend, and watch; a run goes on without the page."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from pages.ui.badges import badge
from pages.ui.charts import show_table
from pages.ui.draft import config_of
from pages.ui.fitting import confirm_and_start, draw_cards, options_form, seed_and_device
from pages.ui.guards import guard, through_the_application
from pages.ui.running import prepare_or_follow
from pages.ui.session import application, bind, draft
from pages.ui.words import amount, note, plain, upper
from synth.generators import cards, describe, options_of
from synth.generators.protocol import Mode
from synth.reports.expected import Forecast
from synth.schema import RunConfig

__all__ = ["screen"]

_DEFAULT = RunConfig.__dataclass_fields__["generator"].default
_MODE = "field:mode"
_NOISE = "noise of one cell (1 = the whole range of the column)"


def screen() -> None:
    """Draw the screen."""
    st.title("Generate rows")
    prepare_or_follow(_prepare)


def _prepare() -> None:
    held = draft()
    held["makes"] = "table"
    generator_cards()
    releases = modes_panel()
    # A mode decides what is promised, so it is chosen by its own words and not among the settings.
    fields = [field for field in options_of(held["generator"]) if field.name != "mode"]
    options_form(held["generator"], fields, held["options"])
    output_form()
    if releases:
        # Its refusal does not hide the runs below.
        with guard():
            confirm_and_start(verb="generate", made="rows")


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
    draw_cards(
        offered,
        chosen=held["generator"],
        is_ready=lambda card: card.needs.are_met(config.schema, config.label),
        choose=_choose,
    )


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
    seed_and_device(
        "Seeds training and sampling, so that anybody can make the same rows from the saved measurements.", device, seed
    )


if __name__ == "__main__":
    through_the_application()
    screen()
