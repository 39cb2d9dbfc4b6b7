"""Generators: what turns noisy answers into rows. Adding one is one file here and one line in the registry."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from synth.errors import ConfigError
from synth.generators.dp_hp import DpHp
from synth.generators.dp_hp_adaptive import DpHpAdaptive
from synth.generators.dp_merf import DpMerf
from synth.generators.independent import Independent, IndependentByClass
from synth.generators.kahm import Kahm
from synth.generators.options import OptionField, build_options, option_fields
from synth.generators.protocol import Card, Generator, GeneratorTask

__all__ = [
    "GENERATORS",
    "Card",
    "Generator",
    "GeneratorTask",
    "OptionField",
    "cards",
    "describe",
    "lets_rows_out",
    "make",
    "options_of",
    "restore",
]

_ALL: tuple[type[Generator], ...] = (DpHpAdaptive, Independent, IndependentByClass, DpMerf, DpHp, Kahm)

GENERATORS: dict[str, type[Generator]] = {generator.name: generator for generator in _ALL}
"""Every generator by name, in the order the app shows them: the default, the controls, the published methods."""


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
        If the generator or an option is unknown, of the wrong kind or out of range.
    """
    kind = _find(name)
    made = kind(task, build_options(kind.Options, options, generator=name))
    if task.schema.protection == "cell" and not lets_rows_out(made):
        raise ConfigError(
            f"generator '{name}' protects whole rows and cannot promise one cell; declare 'protection: record', or "
            "choose generator kahm with mode cell."
        )
    return made


def lets_rows_out(generator: Generator) -> bool:
    """Whether a generator, with its options, asks for noisy rows: the one question where one cell is hidden."""
    return bool(getattr(generator, "lets_rows_out", False))


def restore(name: str, task: GeneratorTask, options: Mapping[str, object], state: Mapping[str, Tensor]) -> Generator:
    """Rebuild a fitted generator from its saved tensors; sampling from it gives the same bytes as before."""
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
