"""Cards of the generators, the modes of the chosen one by what they promise, and a form of its options."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from pages.ui.badges import badge
from pages.ui.charts import show_table
from pages.ui.draft import config_of
from pages.ui.session import application, bind, draft
from pages.ui.words import amount, note, plain, upper
from synth.generators import Card, Mode, OptionField, cards, describe, options_of
from synth.reports.expected import Forecast
from synth.schema import RunConfig

__all__ = ["generator_cards", "modes_panel", "options_form", "output_form"]

_DEFAULT = RunConfig.__dataclass_fields__["generator"].default
_CARDS_IN_A_ROW = 3
_MODE = "field:mode"
_NOISE = "noise of one cell (1 = the whole range of the column)"
_DEVICES = {"auto": "GPU where there is one", "cpu": "CPU", "cuda": "GPU"}


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
    device.selectbox("Device", list(_DEVICES), format_func=_DEVICES.__getitem__, **bind("device"))
    seed.number_input(
        "Seed (public)",
        min_value=0,
        max_value=2**53 - 1,
        step=1,
        help="Seeds training and sampling, so that anybody can make the same rows from the saved measurements. "
        "The privacy noise has no seed that anybody can set.",
        **bind("seed"),
    )


def _shows_nothing_new(instead: str) -> bool:
    """Whether one row for every private one may be let out, by what was declared; if not, say what to declare."""
    held = draft()
    if held["row_count"] == "public" and held["rows_per_unit"] == 1:
        return True
    unit = plain(held["protects"] or "person")
    st.error(
        "This mode lets out one noisy row for every private one, so the number of rows must be public and every "
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
            "How far that cell may change, as a part of its declared range",
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


def _choose(name: str) -> None:
    # Every generator hides whole rows until a mode is chosen that hides one cell.
    draft().update(generator=name, options={}, protection="record")
