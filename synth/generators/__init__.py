"""Generators: they turn noisy answers into rows. Adding one takes a folder and one line in the registry.

A folder describes its generators in ``CARDS`` before they are built (``protocol.Card``).
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import replace
from typing import cast

from synth.errors import ConfigError
from synth.generators.options import OptionField, build_options, option_fields
from synth.generators.protocol import (
    Card,
    Fact,
    Generator,
    GeneratorTask,
    Mode,
    Needs,
    Picture,
    PrivateModel,
    ReleasedModel,
    State,
    Trace,
)
from synth.schema import people_asked

__all__ = [
    "CONTROL",
    "GENERATORS",
    "PURE",
    "Card",
    "Fact",
    "Generator",
    "GeneratorTask",
    "Mode",
    "Needs",
    "OptionField",
    "Picture",
    "PrivateModel",
    "ReleasedModel",
    "State",
    "Trace",
    "build",
    "build_from_state",
    "cards",
    "describe",
    "make",
    "options_of",
    "restore",
]

_FAMILIES = (
    "synth.generators.adaptive",
    "synth.generators.independent",
    "synth.generators.fourier",
    "synth.generators.hermite",
    "synth.generators.kahm",
    "synth.generators.sums_of_squares",
    "synth.generators.mixture",
    "synth.generators.privbayes",
    "synth.generators.adversarial",
    "synth.generators.gs_wgan",
)
"""The folders, in the order the app shows them: the default, the controls, the published methods."""

GENERATORS: dict[str, Card] = {
    card.name: card for family in _FAMILIES for card in importlib.import_module(family).CARDS
}
"""The card of every generator, by name."""

CONTROL = "independent"
"""The generator that every other has to beat: rehearsals and reports show it next to them."""


PURE = tuple(card.name for card in GENERATORS.values() if card.answers_pure)
"""Generators that can run with a delta of 0."""

_OF_PEOPLE = (
    " Where people keep all of their rows, a row is counted together with the next, so there are more columns than you "
    "declared; 'people: separate_rows' makes every row a person of its own."
)


def make(name: str, task: GeneratorTask, options: Mapping[str, object]) -> Generator:
    """Build an unfitted generator.

    Parameters
    ----------
    name : str
        A key of ``GENERATORS``.
    task : GeneratorTask
    options : mapping
        Option names and values as in a configuration; an absent option keeps its default.

    Raises
    ------
    ConfigError
        If the generator or an option is unknown, an option has the wrong type or is out of range, or the table declares
        less than the generator needs.
    """
    return cast(Generator, build(describe(name), task, options))


def restore(name: str, task: GeneratorTask, options: Mapping[str, object], state: State) -> Generator:
    """Rebuild a fitted generator from its saved arrays; it draws the same bytes as before."""
    return cast(Generator, build_from_state(describe(name), task, options, state))


def build(card: Card, task: GeneratorTask, options: Mapping[str, object]) -> PrivateModel:
    """Build the model of a card, unfitted; parameters and exceptions are those of :func:`make`."""
    who = f"{card.kind} '{card.name}'"
    if not card.needs.are_met(task.schema, task.label):
        instead = f", such as '{next(iter(GENERATORS))}'," if card.needs.numbers and card.kind == "generator" else ""
        # Only who can take no more columns is told why there are more than were declared.
        whole = _OF_PEOPLE if card.needs.numbers and people_asked(task.schema) is not None else ""
        raise ConfigError(
            f"{who} needs {card.needs.words}. Declare it ({card.needs.keys} or 2 Describe), or choose another "
            f"{card.kind}{instead} (4 Generate).{whole}"
        )
    if task.device == "auto" and card.on_card == "never":
        task = replace(task, device="cpu")
    made = card.model(task, build_options(card.options, options, of=who))
    if not task.schema.allows_sums and not made.perturbs_rows:
        raise ConfigError(
            f"{who} protects whole rows and cannot protect single cells; declare 'protection: record', or choose "
            f"{_that_hide_cells()}."
        )
    return made


def build_from_state(card: Card, task: GeneratorTask, options: Mapping[str, object], state: State) -> PrivateModel:
    """Rebuild the model of a card from its saved arrays."""
    return card.model.from_state(task, build_options(card.options, options, of=f"{card.kind} '{card.name}'"), state)


def describe(name: str) -> Card:
    """Return the card of a generator.

    Raises
    ------
    ConfigError
        If there is no generator of that name.
    """
    if name not in GENERATORS:
        raise ConfigError(f"There is no generator called '{name}'. Choose one of: {', '.join(GENERATORS)}.")
    return GENERATORS[name]


def cards() -> tuple[Card, ...]:
    """Return the cards of all generators, in the order of the registry."""
    return tuple(GENERATORS.values())


def options_of(name: str) -> tuple[OptionField, ...]:
    """Return the fields of a generator's option form, in order."""
    return option_fields(describe(name).options)


def _that_hide_cells() -> str:
    """Name the generators and modes that can protect single cells."""
    return " or ".join(
        f"generator {card.name} with mode {mode.name}"
        for card in cards()
        for mode in card.modes
        if mode.hides == "cell"
    )
