"""Preparing a run, whatever it makes: cards to choose from, options as a form, and the spending of its budget."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from pages.ui.draft import config_of
from pages.ui.guards import guarded
from pages.ui.session import application, bind, draft
from pages.ui.words import amount, note, plain
from synth.generators.options import OptionField
from synth.generators.protocol import Card
from synth.schema import RunConfig

__all__ = ["confirm_and_start", "draw_cards", "options_form", "seed_and_device"]

_CARDS_IN_A_ROW = 3
_DEVICE_CHOICES = {"auto": "GPU where there is one", "cpu": "CPU", "cuda": "GPU"}


def draw_cards(
    offered: Sequence[Card], *, chosen: str | None, is_ready: Callable[[Card], bool], choose: Callable[[str], None]
) -> None:
    """Draw one card for each of them.

    Parameters
    ----------
    offered : sequence of Card
    chosen : str, optional
        Name of the one that is chosen.
    is_ready : callable
        Whether everything that one needs is declared.
    choose : callable
        Told the name when another one is chosen.
    """
    for start in range(0, len(offered), _CARDS_IN_A_ROW):
        places = st.columns(_CARDS_IN_A_ROW)
        for card, place in zip(offered[start : start + _CARDS_IN_A_ROW], places, strict=False):
            with place.container(border=True, height="stretch"):
                _card(card, choose, chosen=card.name == chosen, ready=is_ready(card))


def _card(card: Card, choose: Callable[[str], None], *, chosen: bool, ready: bool) -> None:
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
        st.button("Choose", key=f"choose-{card.name}", on_click=choose, args=(card.name,), disabled=not ready)


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
        place = field.choices.index(str(value)) if value in field.choices else 0
        chosen = st.selectbox(label, field.choices, index=place, key=key, help=words)
    else:
        chosen = st.text_input(label, str(value), key=key, help=words)
    if chosen == field.default:
        held.pop(field.name, None)
    else:
        held[field.name] = chosen


def seed_and_device(seed_means: str, device: DeltaGenerator, seed: DeltaGenerator) -> None:
    """Ask for the device and the public seed in two places, and say what the seed draws."""
    device.selectbox("Device", list(_DEVICE_CHOICES), format_func=_DEVICE_CHOICES.__getitem__, **bind("device"))
    seed.number_input(
        "Seed (public)",
        min_value=0,
        max_value=2**53 - 1,
        step=1,
        help=f"{seed_means} The privacy noise has no seed that anybody can set.",
        **bind("seed"),
    )


# Spending ------------------------------------------------------------------------------------------------------------


def confirm_and_start(*, verb: str, made: str) -> None:
    """Offer to spend; the amount stands on the button and again in the dialog.

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
    label = f"Spend {amount(config.epsilon)} and {verb}"
    if st.button(label, type="primary", key="spend", disabled=plan.refusal is not None):
        st.session_state["confirming"] = True
    if st.session_state.get("confirming"):
        remaining = None if plan.epsilon_cap is None else max(0.0, plan.epsilon_cap - plan.epsilon_after)
        _confirm(config, remaining, label, made)


def _dismiss() -> None:
    st.session_state.pop("confirming", None)


@st.dialog("Spend this budget?", on_dismiss=_dismiss)
@guarded
def _confirm(config: RunConfig, remaining: float | None, label: str, made: str) -> None:
    text = (
        f"This will spend ε = {amount(config.epsilon)}, δ = {config.delta:g} from '{plain(config.account)}'. "
        f"Spending cannot be undone, even if you do not like the {made}."
    )
    st.markdown(text if remaining is None else f"{text} Remaining after: {amount(remaining)}.")
    yes, no = st.columns(2)
    if yes.button(label, type="primary", key="confirm-spend"):
        _dismiss()
        st.session_state.pop("another-run", None)
        held = draft()
        held["run_id"] = application().start(config, table_id=held["table_id"], test_table_id=held["test_table_id"])
        st.rerun()
    if no.button("Not yet", key="confirm-not"):
        _dismiss()
        st.rerun()
