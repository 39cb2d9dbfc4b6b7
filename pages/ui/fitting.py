"""Preparing a run, whatever it makes: cards to choose from, options as a form, and the spending of its budget."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from pages.ui.charts import show_table
from pages.ui.draft import config_of
from pages.ui.evidence import badge
from pages.ui.guards import guard
from pages.ui.losses import ask_to_look, start_unless_lost
from pages.ui.session import ANOTHER_RUN, application, bind, draft
from pages.ui.words import amount, note, plain, upper
from synth.errors import SynthError
from synth.estimators import describe
from synth.generators.options import OptionField
from synth.generators.protocol import Card, Mode
from synth.reports.expected import Forecast
from synth.schema import RunConfig
from synth.services.devices import device_words
from synth.system.machine import available_gpus

_CARDS_IN_A_ROW = 3
_MODE = "field:mode"
_NOISE = "noise per cell (1 = the whole range of the column)"
_DEVICE_CHOICES = {"auto": "GPU if faster", "cpu": "CPU", "cuda": "GPU"}


def draw_cards(
    offered: Sequence[Card],
    *,
    chosen: str | None,
    is_ready: Callable[[Card], bool],
    choose: Callable[[str], None],
    others: str,
    whole: bool = False,
) -> None:
    """Draw one card for each of them: the chosen one above, the others folded; all open where none is chosen.

    Parameters
    ----------
    offered : sequence of Card
    chosen : str, optional
        Name of the one that is chosen.
    is_ready : callable
        Whether everything that one needs is declared.
    choose : callable
        Told the name when another one is chosen.
    others : str
        The title of the fold, such as ``"6 more, for special tables"``.
    whole : bool
        Whether people keep all of their rows, so that each says what it keeps of them.
    """
    place = st.container()
    for card in offered:
        if card.name == chosen:
            with place.container(border=True):
                _card(card, None, ready=is_ready(card), whole=whole)
            place = st.expander(others)
    left = [card for card in offered if card.name != chosen]
    with place:
        for start in range(0, len(left), _CARDS_IN_A_ROW):
            columns = st.columns(_CARDS_IN_A_ROW)
            for card, column in zip(left[start : start + _CARDS_IN_A_ROW], columns, strict=False):
                with column.container(border=True, height="stretch"):
                    _card(card, choose, ready=is_ready(card), whole=whole)


def _card(card: Card, choose: Callable[[str], None] | None, *, ready: bool, whole: bool) -> None:
    """Draw a card; one that is chosen already has nothing to press."""
    title = f"**{card.title}** `{card.name}`"
    st.markdown(title if choose is not None else f"{title} :gray-badge[chosen]")
    st.markdown(f"**Best for:** {card.best_for}")
    st.markdown(card.summary)
    st.markdown(f"**Weaknesses:** {card.loses_where}")
    if whole and card.keeps_people:
        st.markdown(f"**People with several rows:** {card.keeps_people}")
    note(card.reference)
    if card.needs.words and ready:
        note(f"Needs {card.needs.words}.")
    elif not ready:
        st.warning(f"Needs {card.needs.words}. Declare it on 2 Describe first.")
    if choose is not None:
        st.button("Choose", key=f"choose-{card.name}", on_click=choose, args=(card.name,), disabled=not ready)


def modes_panel(card: Card, place: str) -> bool:
    """Say where another one is better, let a mode be chosen by what it promises, and show what it will do.

    Parameters
    ----------
    card : Card
        Of what is chosen.
    place : str
        Where the draft keeps its options.

    Returns
    -------
    bool
        Whether what is chosen can make a release; one without modes always can.
    """
    held = draft()
    # Whole rows are hidden until a mode is chosen that hides one cell.
    held["protection"] = "record"
    advice = card.advice(config_of(held).schema)
    if advice:
        st.info(advice)
    if not card.modes:
        return True
    mode = _mode_chooser(card.modes, place)
    held["protection"] = mode.hides
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


def _mode_chooser(modes: tuple[Mode, ...], place: str) -> Mode:
    held = draft()
    by_name, unit = {mode.name: mode for mode in modes}, plain(held["protects"] or "person")
    names = list(by_name)
    chosen = str(held[place].get("mode", names[0]))
    st.header("What to protect")
    name = st.radio(
        "Mode",
        names,
        index=names.index(chosen) if chosen in names else 0,
        format_func={mode.name: mode.title for mode in modes}.__getitem__,
        captions=[plain(f"{mode.promise} {mode.beware}").replace("one person's", f"one {unit}'s") for mode in modes],
        key=_MODE,
        on_change=_keep_mode,
        args=(modes, place),
    )
    mode = by_name[name]
    if mode.hides == "cell":
        st.warning(f"**{plain(mode.promise)}** {plain(mode.beware)}")
        st.slider(
            "How far that cell may change, as a fraction of its declared range",
            min_value=0.05,
            max_value=1.0,
            step=0.05,
            help="1 hides any change of the cell. A smaller value is a weaker promise with less noise: it "
            "hides only smaller changes.",
            **bind("cell_change"),
        )
    return mode


def _keep_mode(modes: tuple[Mode, ...], place: str) -> None:
    held, name = draft(), str(st.session_state[_MODE])
    held[place] = {key: value for key, value in held[place].items() if key != "mode"}
    if name != modes[0].name:
        held[place]["mode"] = name
    # Before the page is drawn again: the header says what is hidden.
    held["protection"] = next(mode.hides for mode in modes if mode.name == name)


def _mode_facts(forecast: Forecast, instead: str) -> None:
    """Show what noisy rows will carry: the noise of every column, and what noise on cells is worth for a row."""
    if forecast.row_epsilon is not None:
        st.metric("Equivalent for replacing a whole row", f"ε = {upper(forecast.row_epsilon)}")
        badge("safe")
        note(
            f"At delta {forecast.delta:g}, for a row with the same label; a changed label has no protection. "
            f"The epsilon you enter, {amount(forecast.epsilon)}, is for one cell. Use this number, not that "
            f"one, to compare with other generators."
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
            f"In {len(drowned)} of {len(frame)} columns the noise is wider than the column's whole range. "
            f"Single rows will be meaningless; choose mode '{plain(instead)}', or a larger epsilon."
        )


def options_form(name: str, fields: Sequence[OptionField], held: dict[str, Any]) -> None:
    """Draw options from their declaration; what is left alone keeps its default.

    Parameters
    ----------
    name : str
        Of the generator or model.
    fields : sequence of OptionField
    held : dict
        Where what differs from its default is kept, by name.
    """
    # A mode decides what is promised, so it is chosen by its own words and not among the settings.
    fields = [field for field in fields if field.name != "mode"]
    with st.expander(f"Options of {name} (public defaults)"):
        if not fields:
            note("There are no options.")
        columns = st.columns(2, gap="large")
        for position, field in enumerate(fields):
            with columns[position % 2]:
                _option(field, held, key=f"field:option:{name}:{field.name}")


def _option(field: OptionField, held: dict[str, Any], *, key: str) -> None:
    value = held.get(field.name, field.default)
    label, words = field.name.replace("_", " "), plain(field.help)
    if field.kind is bool:
        chosen: int | float | bool | str = st.checkbox(label, bool(value), key=key, help=words)
    elif field.kind is int:
        chosen = int(st.number_input(label, value=int(value), step=1, key=key, help=words))
    elif field.kind is float:
        chosen = float(st.number_input(label, value=float(value), format="%g", key=key, help=words))
    elif field.choices:
        held_choice = str(field.choice(value))
        # What names columns is no plain choice: it was put together on 3 Budget, and stays.
        naming = field.naming is not None and held_choice.startswith(f"{field.naming.names} of ")
        choices = (*field.choices, held_choice) if naming else field.choices
        place = choices.index(held_choice) if held_choice in choices else 0
        chosen = st.selectbox(label, choices, index=place, key=key, help=words)
    else:
        chosen = st.text_input(label, str(value), key=key, help=words)
    if chosen == field.default:
        held.pop(field.name, None)
    else:
        held[field.name] = chosen


def seed_and_device(seed_means: str, device: DeltaGenerator, seed: DeltaGenerator) -> None:
    """Ask for the device and the public seed in two places; say what the seed draws, and which device that means."""
    device.selectbox(
        "Device",
        list(_DEVICE_CHOICES),
        format_func=_DEVICE_CHOICES.__getitem__,
        help="Affects only how long a run takes, not the promise.",
        **bind("device"),
    )
    seed.number_input(
        "Seed (public)",
        min_value=0,
        max_value=2**53 - 1,
        step=1,
        help=f"{seed_means} Nobody can set a seed for the privacy noise.",
        **bind("seed"),
    )
    with suppress(SynthError):  # a configuration that cannot be is refused where it is to be spent on
        config = config_of(draft())
        note(device_words(describe(config.generator), config.device, gpu=bool(available_gpus())))


# Spending ------------------------------------------------------------------------------------------------------------


def confirm_and_start(*, verb: str, made: str) -> None:
    """Offer to spend; the amount is on the button and again in the dialog.

    Parameters
    ----------
    verb : str
        What is done, on the button.
    made : str
        What the owner may not like afterwards.
    """
    config = config_of(draft())
    plan = application().plan(config)
    if plan.refusal is not None:
        st.error(plain(plan.refusal))
    st.divider()
    if plan.approval is not None:
        st.warning(plain(plan.approval))
        if plan.can_ask and st.button("Ask for approval", key="ask-approval"):
            application().ask_approval(config)
            st.rerun()
    label = f"Spend {amount(config.epsilon)} and {verb}"
    if st.button(label, type="primary", key="spend", disabled=(plan.refusal or plan.approval) is not None):
        st.session_state["confirming"] = True
    if st.session_state.get("confirming"):
        remaining = None if plan.epsilon_cap is None else max(0.0, plan.epsilon_cap - plan.epsilon_after)
        _confirm(config, remaining, label, made)


def _dismiss() -> None:
    st.session_state.pop("confirming", None)


@st.dialog("Spend this budget?", on_dismiss=_dismiss)
@guard()
def _confirm(config: RunConfig, remaining: float | None, label: str, made: str) -> None:
    text = (
        f"This will spend ε = {amount(config.epsilon)}, δ = {config.delta:g} from '{plain(config.account)}'. "
        f"Spending cannot be undone, even if you do not like the {made}."
    )
    st.markdown(text if remaining is None else f"{text} Remaining afterwards: {amount(remaining)}.")
    look = ask_to_look("look-before-run")
    yes, no = st.columns(2)
    held = draft()
    tables = {"table_id": held["table_id"], "test_table_id": held["test_table_id"]}
    pressed = yes.button(label, type="primary", key="confirm-spend")
    run_id = start_unless_lost(
        lambda reading: application().start(config, **tables, reading=reading),
        pressed=pressed,
        look=look,
        about=(config, tables),
        label=label,
    )
    if run_id is not None:
        _dismiss()
        st.session_state.pop(ANOTHER_RUN, None)
        held["run_id"] = run_id
        st.rerun()
    if no.button("Not yet", key="confirm-not"):
        _dismiss()
        st.rerun()
