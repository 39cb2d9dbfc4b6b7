"""Private models that are themselves released; each ``fit`` is paid for. Adding one is a folder and one line here.

A folder says in ``CARDS`` what is known of its models before they are built, as a generator's does; rows are drawn from
a generator, and of a model its numbers are read. Both are fitted by one pipeline, which finds either of them by name.
``regression`` holds models that are used as those of scikit-learn are.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from synth.errors import ConfigError
from synth.generators import GENERATORS, Card, Generator, GeneratorTask, PrivateModel, State, build, build_from_state
from synth.schema import RunConfig
from synth.schema.constraints import parse_constraints, repair

__all__ = ["MODELS", "describe", "drawn_rows", "make", "model_cards", "restore"]

_FAMILIES: tuple[str, ...] = (
    "synth.estimators.random_features",
    "synth.estimators.expectation_maximization",
    "synth.generators.kahm.model",
)
"""Where models stand, in the order the app shows them."""

MODELS: dict[str, Card] = {card.name: card for family in _FAMILIES for card in importlib.import_module(family).CARDS}
"""The card of every model, by name."""


def make(name: str, task: GeneratorTask, options: Mapping[str, object]) -> PrivateModel:
    """Build an unfitted generator or model.

    Parameters
    ----------
    name : str
        A key of ``MODELS`` or of ``GENERATORS``.
    task : GeneratorTask
    options : mapping
        Option names and values as a configuration holds them; what is absent keeps its default.

    Raises
    ------
    ConfigError
        If the name or an option is unknown, of the wrong kind or out of range, or the table declares less than is
        needed.
    """
    return build(describe(name), task, options)


def restore(name: str, task: GeneratorTask, options: Mapping[str, object], state: State) -> PrivateModel:
    """Rebuild what was fitted from its saved arrays: it draws, and tells, the same bytes as before."""
    return build_from_state(describe(name), task, options, state)


def drawn_rows(fitted: PrivateModel, config: RunConfig) -> NDArray[np.int64]:
    """Draw the rows that a run asks for, and repair them by its rules; a model has none.

    Returns
    -------
    array of shape (rows, n_modelled), int64
        Codes, columns in ``schema.names`` order.
    """
    if not isinstance(fitted, Generator):
        return np.empty((0, len(config.schema.modelled)), np.int64)
    codes = fitted.sample(config.rows, config.seed)
    return repair(codes, parse_constraints(config.constraints, config.schema), config.schema)


def describe(name: str) -> Card:
    """Return the card of a generator or a model.

    Raises
    ------
    ConfigError
        If there is none of that name.
    """
    found = MODELS.get(name) or GENERATORS.get(name)
    if found is None:
        models = f" Models are: {', '.join(MODELS)}." if MODELS else ""
        raise ConfigError(f"There is no generator called '{name}'. Choose one of: {', '.join(GENERATORS)}.{models}")
    return found


def model_cards() -> tuple[Card, ...]:
    """Return every model's card, in the order of the registry."""
    return tuple(MODELS.values())
