"""4 Generate: choose a generator, spend, and watch; a run continues without the page."""

from __future__ import annotations

import streamlit as st

from pages.ui.draft import config_of
from pages.ui.fitting import confirm_and_start, draw_cards, modes_panel, options_form, seed_and_device
from pages.ui.guards import guard, through_the_application
from pages.ui.people import output_number
from pages.ui.rules import rules_note
from pages.ui.running import prepare_or_follow
from pages.ui.session import draft
from synth.generators import cards, describe, options_of
from synth.schema import RunConfig

_DEFAULT = RunConfig.__dataclass_fields__["generator"].default


def screen() -> None:
    """Draw the screen."""
    st.title("Generate rows")
    prepare_or_follow(_prepare)


def _prepare() -> None:
    held = draft()
    held["makes"] = "table"
    generator_cards()
    releases = modes_panel(describe(held["generator"]), "options")
    options_form(held["generator"], options_of(held["generator"]), held["options"])
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
    asked = config.schema
    with guard():
        asked = config.asked.schema
    draw_cards(
        offered,
        chosen=held["generator"],
        is_ready=lambda card: card.needs.are_met(asked, config.label),
        choose=_choose,
        others=f"{len(offered) - 1} more, for special tables",
        whole=config.schema.people == "whole",
    )


def _choose(name: str) -> None:
    # Every generator hides whole rows until a mode is chosen that hides one cell.
    draft().update(generator=name, options={}, protection="record")


def output_form() -> None:
    """Ask for the number of rows to make, the device and the public seed."""
    rows, device, seed = st.columns(3)
    with rows:
        output_number()
    rules_note()
    seed_and_device(
        "Used for training and sampling, so that anyone can make the same rows from the saved measurements.",
        device,
        seed,
    )


if __name__ == "__main__":
    through_the_application()
    screen()
