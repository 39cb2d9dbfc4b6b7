"""Cards of the generators and a form drawn from the options of the chosen one."""

from __future__ import annotations

import streamlit as st

from pages.ui.draft import config_of
from pages.ui.session import bind, draft
from pages.ui.words import note, plain
from synth.generators import Card, OptionField, cards, options_of
from synth.schema import RunConfig

__all__ = ["generator_cards", "options_form", "output_form"]

_DEFAULT = RunConfig.__dataclass_fields__["generator"].default
_CARDS_IN_A_ROW = 3
_DEVICES = {"auto": "GPU where there is one", "cpu": "CPU", "cuda": "GPU"}


def generator_cards() -> None:
    """Draw one card for each generator, and choose among them."""
    held = draft()
    offered = cards()
    names = [card.name for card in offered]
    if held["generator"] not in names:
        held["generator"] = _DEFAULT if _DEFAULT in names else names[0]
        held["options"] = {}
    # What a generator needs is columns and a label; what a mode of one of them promises is its own panel's to say.
    config = config_of({**held, "protection": "record"})
    for start in range(0, len(offered), _CARDS_IN_A_ROW):
        places = st.columns(_CARDS_IN_A_ROW)
        for card, place in zip(offered[start : start + _CARDS_IN_A_ROW], places, strict=False):
            with place.container(border=True, height="stretch"):
                ready = card.needs.are_met(config.schema, config.label)
                _card(card, chosen=card.name == held["generator"], ready=ready)


def options_form() -> None:
    """Draw the options of the chosen generator from its dataclass; what is left alone keeps its default."""
    held = draft()
    # The mode of KAHM decides what is promised, so it is chosen by its own words and not among the settings.
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
    # One cell is hidden by one mode of one generator; whatever else is chosen hides whole rows.
    draft().update(generator=name, options={}, protection="record")
