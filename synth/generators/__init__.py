"""Generators: what turns noisy answers into rows. Adding one is one file here and one line in the registry."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping, MutableMapping
from typing import cast

from synth.errors import ConfigError
from synth.generators.options import OptionField, build_options, option_fields
from synth.generators.protocol import Card, Generator, GeneratorTask, Needs, State

__all__ = [
    "CONTROL",
    "GENERATORS",
    "Card",
    "Generator",
    "GeneratorTask",
    "Needs",
    "OptionField",
    "State",
    "cards",
    "describe",
    "make",
    "options_of",
    "perturbs_rows",
    "restore",
]


class _Registry(MutableMapping[str, type[Generator]]):
    """Generators by name, each read when it is first asked for: some start torch, which takes longer than many runs."""

    def __init__(self, places: Mapping[str, tuple[str, str]]) -> None:
        self._places: dict[str, tuple[str, str] | type[Generator]] = dict(places)

    def __getitem__(self, name: str) -> type[Generator]:
        found = self._places[name]
        if isinstance(found, tuple):
            module, kind = found
            found = cast(type[Generator], getattr(importlib.import_module(f"synth.generators.{module}"), kind))
        return found

    def __setitem__(self, name: str, kind: type[Generator]) -> None:
        self._places[name] = kind

    def __delitem__(self, name: str) -> None:
        del self._places[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, name: object) -> bool:
        return name in self._places


GENERATORS: MutableMapping[str, type[Generator]] = _Registry(
    {
        "dp-hp-adaptive": ("adaptive.dp_hp_adaptive", "DpHpAdaptive"),
        "independent": ("independent.independent", "Independent"),
        "independent-by-class": ("independent.independent", "IndependentByClass"),
        "dp-merf": ("fourier.dp_merf", "DpMerf"),
        "dp-hp": ("hermite.dp_hp", "DpHp"),
        "kahm": ("kahm.kahm", "Kahm"),
    }
)
"""Every generator by name, in the order the app shows them: the default, the controls, the published methods."""

CONTROL = "independent"
"""The one that the others are held against."""


def make(name: str, task: GeneratorTask, options: Mapping[str, object]) -> Generator:
    """Build an unfitted generator.

    Parameters
    ----------
    name : str
        A key of ``GENERATORS``.
    task : GeneratorTask
    options : mapping
        Option names and values as a configuration holds them; what is absent keeps its default.

    Raises
    ------
    ConfigError
        If the generator or an option is unknown, of the wrong kind or out of range, or the table declares less than
        the generator needs.
    """
    kind = _find(name)
    if not kind.needs.are_met(task.schema, task.label):
        raise ConfigError(
            f"generator '{name}' needs {kind.needs.words}. Declare it ('label:' and 'columns:', or 2 Describe), or "
            "choose another generator (4 Generate)."
        )
    made = kind(task, build_options(kind.Options, options, generator=name))
    if task.schema.protection == "cell" and not perturbs_rows(made):
        raise ConfigError(
            f"generator '{name}' protects whole rows and cannot promise one cell; declare 'protection: record', or "
            "choose generator kahm with mode cell."
        )
    return made


def perturbs_rows(generator: Generator) -> bool:
    """Whether a generator, with its options, asks for noisy rows: the one question where one cell is hidden."""
    return bool(getattr(generator, "perturbs_rows", False))


def restore(name: str, task: GeneratorTask, options: Mapping[str, object], state: State) -> Generator:
    """Rebuild a fitted generator from its saved arrays; sampling from it gives the same bytes as before."""
    kind = _find(name)
    return kind.from_state(task, build_options(kind.Options, options, generator=name), state)


def describe(name: str) -> Card:
    """Return what the app says about a generator."""
    kind = _find(name)
    return Card(
        name=kind.name,
        title=kind.title,
        summary=kind.summary,
        best_for=kind.best_for,
        loses_where=kind.loses_where,
        reference=kind.reference,
        needs=kind.needs,
    )


def cards() -> tuple[Card, ...]:
    """Return every generator's card, in the order of the registry."""
    return tuple(describe(name) for name in GENERATORS)


def options_of(name: str) -> tuple[OptionField, ...]:
    """Return the fields of a generator's option form, in order."""
    return option_fields(_find(name).Options)


def _find(name: str) -> type[Generator]:
    if name not in GENERATORS:
        raise ConfigError(f"There is no generator called '{name}'. Choose one of: {', '.join(GENERATORS)}.")
    return GENERATORS[name]
