"""Private models that are themselves released; each ``fit`` is paid for. Adding one takes a folder and one line here.

The ``CARDS`` of a folder describe its models before they are built, as for a generator. A generator draws rows; a model
is released as its numbers. One pipeline fits both and finds them by name. ``regression`` contains models with the
interface of scikit-learn.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

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
from synth.generators.whole_people import POOL, MadePeople, as_declared, unfolded, with_a_row
from synth.privacy.more.sampled_runs import SAMPLING_DELTA_PART
from synth.privacy.more.together import epsilon_together
from synth.privacy.people import folded, made_up_hashes
from synth.schema import People, RunConfig, people_asked, people_of
from synth.schema.constraints import Repaired, asks_the_model, repair
from synth.schema.kept_by_people import RulesOfPeople
from synth.schema.people_rules import about_people
from synth.schema.rule_lines import RuleSet, read_rules
from synth.schema.shares import with_learnt_tables

__all__ = [
    "MODELS",
    "REPAIRED",
    "DrawnRows",
    "delta_added",
    "describe",
    "drawn_rows",
    "make",
    "model_cards",
    "promised_epsilon",
    "restore",
    "rows_as_asked",
]

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

CHANGED_PEOPLE = "people_changed"
"""Name of the fact with the number of people that rules about their rows have changed."""


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


def delta_added(config: RunConfig) -> float:
    """Return what the answers of a run add to delta: a part of it for a training on samples, else nothing."""
    card = GENERATORS.get(config.generator)  # a model has none, and a bundle may name one that nobody knows
    return SAMPLING_DELTA_PART * config.delta if card is not None and card.needs.sampling else 0.0


def promised_epsilon(config: RunConfig, *, at: float | None = None) -> float:
    """Return the largest epsilon that a certificate states, whatever was spent before the run included.

    ``at`` is as in :func:`synth.privacy.more.together.epsilon_together`.
    """
    return epsilon_together(config, additive_delta=delta_added(config), at=at)


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
    units : array of shape (rows,), optional
        Where people are kept whole, the number of each row's person, from 0, never decreasing.
    """

    codes: NDArray[np.int64]
    facts: tuple[Fact, ...] = ()
    units: NDArray[np.int64] | None = None


def drawn_rows(fitted: PrivateModel, config: RunConfig) -> DrawnRows:
    """Draw the rows of a run, and repair them by its rules; a model has no rows."""
    if config.schema.people != "whole" or not isinstance(fitted, Generator):
        return _drawn(fitted, config)
    people, seed = people_of(config.schema), (config.seed + 2) % 2**63
    # Structure is kept when people are made, so rows are repaired by the owner's rules, and by what tells whether there
    # is a row that these are about.
    asked = replace(config.asked, constraints=(*people.of_no_row, *config.constraints))
    rules = read_rules(config.constraints, config.schema)
    # The people themselves last, as some facts are about the rows that were drawn last.
    if rules.learnt:
        # One table of values for the people, for the pool and for what is made of both.
        learnt_from = fitted.sample(_ROWS_OF_MODEL, (asked.seed + 1) % 2**63)
        rules = with_learnt_tables(rules, config.schema, as_declared(learnt_from, people))
    pool = _drawn(fitted, replace(asked, rows=POOL, seed=seed), learnt_at=asked.seed)
    # Rules about people may shorten them, so that it takes more to have the rows asked for.
    all_at_once = config.by_people or bool(about_people(rules.rules, config.schema))
    drawn = _drawn(fitted, asked) if all_at_once else _people_for_rows(fitted, asked, people, pool.codes)
    of_people = RulesOfPeople(rules, people) if rules.rules else None
    made = unfolded(
        drawn.codes,
        pool.codes,
        people,
        rows=None if config.by_people else config.rows,
        seed=seed,
        rules=of_people,
    )
    facts = drawn.facts
    if of_people is not None and of_people.are_about_people:
        facts += (_changed_people(made, people),)
    return DrawnRows(made.codes, facts, made.units)


def _changed_people(made: MadePeople, people: People) -> Fact:
    unit, everybody = people.schema.unit, int(made.units[-1]) + 1
    return Fact(
        name=CHANGED_PEOPLE,
        title=f"{unit.plural.capitalize()} changed to keep your rules",
        value=made.shortened + made.replaced,
        sentence=f"Of {everybody:,} synthetic {unit.plural}, {made.shortened:,} have fewer rows than the generator "
        f"drew, because no further row kept your rules beside the others, and {made.replaced:,} have the rows of "
        "another one, because theirs broke a rule. So all of them keep every rule. This only uses synthetic rows: it "
        "costs nothing.",
    )


def _people_for_rows(fitted: PrivateModel, asked: RunConfig, people: People, pool: NDArray[np.int64]) -> DrawnRows:
    """Draw enough people for the rows that are asked for, and few more."""
    place = people.asked.names.index(people.count)
    usual = float((pool[:, place] + 1).mean())
    number = min(round(_FEW_MORE * asked.rows / usual) + 1, asked.rows)
    while True:
        drawn = _drawn(fitted, replace(asked, rows=number))
        # Everybody has a row, so as many people as rows are always enough.
        if number == asked.rows or int((drawn.codes[:, place] + 1).sum()) >= asked.rows:
            return drawn
        number = min(2 * number, asked.rows)


_FEW_MORE = 1.02
"""People that are drawn for each one who is likely to be needed."""


def rows_as_asked(drawn: DrawnRows, config: RunConfig) -> NDArray[np.int64]:
    """Return the rows of a run as its questions are about them: people that are kept whole have one row each.

    Returns
    -------
    array of shape (rows, columns asked), columns in the order of ``config.asked.schema.names``
    """
    if drawn.units is None:
        return drawn.codes
    people = people_of(config.schema)
    hashes, key = made_up_hashes(drawn.units, config.seed)
    columns = {
        column.name: column.smallest_codes(drawn.codes[:, place]) for place, column in enumerate(config.schema.modelled)
    }
    made = folded(columns, hashes, people, account_key=key)
    return np.column_stack([made[name].astype(np.int64) for name in people.asked.names])


def _drawn(fitted: PrivateModel, config: RunConfig, *, learnt_at: int | None = None) -> DrawnRows:
    """Draw and repair rows; what rows of the model teach comes from those of another seed where one is given."""
    schema = config.schema
    if not isinstance(fitted, Generator):
        return DrawnRows(np.empty((0, len(schema.modelled)), np.int64))
    rules = read_rules(config.constraints, schema)
    # A fixed number, so that the same row is repaired in the same way in a table of another length; and before the rows
    # themselves, as some facts are about the rows that were drawn last.
    learnt_at = config.seed if learnt_at is None else learnt_at
    drawn = fitted.sample(_ROWS_OF_MODEL, (learnt_at + 1) % 2**63) if asks_the_model(rules) else None
    codes = fitted.sample(config.rows, config.seed)
    if not rules.lines:
        return DrawnRows(codes)
    people = people_asked(schema)
    if drawn is not None:
        # Of two tables, nothing is learnt from people without a row about what rows hold.
        rules = with_learnt_tables(rules, schema, drawn if people is None else with_a_row(drawn, people))
    found = repair(codes, rules, schema, seed=config.seed, drawn=drawn)
    return DrawnRows(found.codes, (_repairs(found, rules, () if people is None else people.structure),))


_ROWS_OF_MODEL = 10_000
"""Rows from which a repair learns how the model draws a category."""


def _repairs(found: Repaired, rules: RuleSet, structure: Sequence[str]) -> Fact:
    made, share = len(found.codes), found.changed / max(len(found.codes), 1)
    # Of rules about the next row some are kept only when people are made; what tells whether there is a row is no rule.
    told = {rule.line for rule in rules.rules} | {heap.line for heap in rules.heaps}
    told -= {line for line, text in enumerate(rules.lines) if text in structure}
    return Fact(
        name=REPAIRED,
        title="Rows changed to keep your rules",
        value=found.changed,
        sentence=f"Of {made:,} rows that the generator drew, {found.changed:,} ({share:.2%}) broke a rule and were "
        "changed where they broke it, so every row keeps every rule. This only uses synthetic rows: it costs nothing.",
        header=("rule", "rows that broke it as drawn"),
        rows=tuple((text, found.broken[line]) for line, text in enumerate(rules.lines) if line in told),
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
