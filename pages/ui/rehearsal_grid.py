"""A grid of rehearsals on the screen: what is in it, what it came to, and taking over a cell."""

from __future__ import annotations

from typing import Any

import streamlit as st

from pages.ui.evidence import cards, read_evidence
from pages.ui.notes import note
from pages.ui.session import draft, forget_widgets
from pages.ui.spending import STOPS
from pages.ui.words import count, plain
from synth.errors import InputError
from synth.generators import cards as generator_cards
from synth.rehearsal.grid import Grid
from synth.schema import RunConfig

__all__ = ["ask_grid", "grid_report", "take_over"]


def ask_grid(config: RunConfig) -> Grid:
    """Ask which epsilons, generators and seeds are rehearsed.

    Raises
    ------
    InputError
        If that is no grid, or too large a one.
    """
    usual = Grid.usual(config)
    epsilons, generators, seeds = st.columns([3, 3, 1])
    chosen = epsilons.multiselect(
        "Epsilons",
        sorted({*STOPS, 8.0, config.epsilon}),
        default=list(usual.epsilons),
        format_func="{:g}".format,
        key="grid-epsilons",
    )
    names = generators.multiselect(
        "Generators",
        [card.name for card in generator_cards()],
        default=list(usual.generators),
        key="grid-generators",
    )
    number = seeds.number_input("Seeds", min_value=1, max_value=10, value=usual.seeds, key="grid-seeds")
    if not chosen or not names:
        raise InputError("Choose at least one epsilon and one generator.")
    grid = Grid(tuple(map(float, chosen)), tuple(names), int(number))
    note(
        f"{count(grid.cells)} rehearsals, one after the other, each about as long as a run with its predictions and "
        "attacks; after the first the time left is shown. What is done is kept when it is stopped."
    )
    return grid


def grid_report(report: dict[str, Any]) -> None:
    """Show the cells side by side, and those that failed."""
    if report["done"] < report["of"]:
        st.info(f"{count(report['done'])} of {count(report['of'])} rehearsals are done; these are their numbers.")
    for failure in report["failures"]:
        st.warning(plain(failure))
    cards(read_evidence(report), key="grid")


def take_over(report: dict[str, Any]) -> None:
    """Take a generator and an epsilon of the grid into the draft."""
    cells = sorted({(str(cell["generator"]), float(cell["epsilon"])) for cell in report["cells"]})
    if not cells:
        return
    titles = {f"{name}, ε = {epsilon:g}": (name, epsilon) for name, epsilon in cells}
    held = draft()
    now = f"{held['generator']}, ε = {float(held['epsilon']):g}"
    choice, button = st.columns([3, 2], vertical_alignment="bottom")
    chosen = choice.selectbox(
        "Generator and budget", list(titles), index=list(titles).index(now) if now in titles else 0, key="grid-choice"
    )
    name, epsilon = titles[str(chosen)]
    if button.button("Use this generator and ε", key="grid-use"):
        if name != held["generator"]:
            # As when its card is chosen: options belong to a generator, and only one of them hides single cells.
            held.update(generator=name, options={}, protection="record")
        held["epsilon"] = epsilon
        forget_widgets()
        st.rerun()
    note(
        f"The run is set to {plain(now)}. Choosing by a rehearsal weakens no promise: no private row had a part in it."
    )
