"""Private models that are themselves released; each ``fit`` is paid for. Adding one takes a folder and one line here.

The ``CARDS`` of a folder describe its models before they are built, as for a generator. A generator draws rows; a model
is released as its numbers. One pipeline fits both and finds them by name. ``regression`` contains models with the
interface of scikit-learn.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from synth.errors import ConfigError
from synth.generators import (
    GENERATORS,
    Card,
    Fact,
    Generator,
    GeneratorTask,
    PrivateModel,
    State,
    build,
    build_from_state,
)
from synth.schema import RunConfig
from synth.schema.constraints import Repaired, asks_the_model, repair
from synth.schema.rule_lines import RuleSet, read_rules
from synth.schema.shares import with_learnt_tables

__all__ = ["MODELS", "REPAIRED", "DrawnRows", "describe", "drawn_rows", "make", "model_cards", "restore"]

_FAMILIES: tuple[str, ...] = (
    "synth.estimators.random_features",
    "synth.estimators.expectation_maximization",
    "synth.generators.kahm.model",
)
"""The packages of models, in the order in which the app shows them."""

MODELS: dict[str, Card] = {card.name: card for family in _FAMILIES for card in importlib.import_module(family).CARDS}
"""The card of every model, by name."""

REPAIRED = "rows_repaired"
"""Name of the fact with the number of repaired rows."""


def make(name: str, task: GeneratorTask, options: Mapping[str, object]) -> PrivateModel:
    """Build an unfitted generator or model.

    Parameters
    ----------
    name : str
        A key of ``MODELS`` or of ``GENERATORS``.
    task : GeneratorTask
    options : mapping
        Option names and values as in a configuration; absent options have their defaults.

    Raises
    ------
    ConfigError
        If the name or an option is unknown, an option has the wrong type or is out of range, or the table declares less
        than is needed.
    """
    return build(describe(name), task, options)


def restore(name: str, task: GeneratorTask, options: Mapping[str, object], state: State) -> PrivateModel:
    """Restore a fitted generator or model from its saved arrays: it draws and reports the same bytes as before."""
    return build_from_state(describe(name), task, options, state)


@dataclass(frozen=True, slots=True, eq=False)
class DrawnRows:
    """The rows of a run.

    Attributes
    ----------
    codes : array of shape (rows, n_modelled), int64
        Columns in ``schema.names`` order; every row keeps every rule.
    facts : tuple of Fact
        The repairs that this took; they follow from synthetic rows alone.
    """

    codes: NDArray[np.int64]
    facts: tuple[Fact, ...] = ()


def drawn_rows(fitted: PrivateModel, config: RunConfig) -> DrawnRows:
    """Draw the rows of a run, and repair them by its rules; a model has no rows."""
    schema = config.schema
    if not isinstance(fitted, Generator):
        return DrawnRows(np.empty((0, len(schema.modelled)), np.int64))
    rules = read_rules(config.constraints, schema)
    # A fixed number, so that the same row is repaired in the same way in a table of another length; and before the rows
    # themselves, as some facts are about the rows that were drawn last.
    drawn = fitted.sample(_ROWS_OF_MODEL, (config.seed + 1) % 2**63) if asks_the_model(rules) else None
    codes = fitted.sample(config.rows, config.seed)
    if not rules.lines:
        return DrawnRows(codes)
    if drawn is not None:
        rules = with_learnt_tables(rules, schema, drawn)
    found = repair(codes, rules, schema, seed=config.seed, drawn=drawn)
    return DrawnRows(found.codes, (_repairs(found, rules),))


_ROWS_OF_MODEL = 10_000
"""Rows from which a repair learns how the model draws a category."""


def _repairs(found: Repaired, rules: RuleSet) -> Fact:
    made, share = len(found.codes), found.changed / max(len(found.codes), 1)
    return Fact(
        name=REPAIRED,
        title="Rows changed to keep your rules",
        value=found.changed,
        sentence=f"Of {made:,} rows that the generator drew, {found.changed:,} ({share:.2%}) broke a rule and were "
        "changed where they broke it, so every row keeps every rule. This only uses synthetic rows: it costs nothing.",
        header=("rule", "rows that broke it as drawn"),
        rows=tuple((text, count) for text, count in zip(rules.lines, found.broken, strict=True)),
    )


def describe(name: str) -> Card:
    """Return the card of a generator or a model.

    Raises
    ------
    ConfigError
        If there is none with that name.
    """
    found = MODELS.get(name) or GENERATORS.get(name)
    if found is None:
        raise ConfigError(
            f"There is no generator called '{name}'. Choose one of: {', '.join(GENERATORS)}. Models are: "
            f"{', '.join(MODELS)}."
        )
    return found


def model_cards() -> tuple[Card, ...]:
    """Return every model's card, in the order of the registry."""
    return tuple(MODELS.values())
