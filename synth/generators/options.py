"""Options of a generator, each declared once: its type, its bounds, its default, and its help text below it.

From that one declaration it is read from a configuration, checked, and drawn as a form; the help text is a docstring,
so it is read from the source once.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import inspect
import math
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast, get_args, get_origin, get_type_hints

from synth.errors import ConfigError

__all__ = ["Between", "OptionField", "Options", "build_options", "check_between", "option_fields"]

_KIND_WORDS = {int: "a whole number", float: "a number", bool: "true or false", str: "a text"}


@dataclass(frozen=True, slots=True)
class Between:
    """The least and the largest value of an option: ``bins: Annotated[int, Between(2, 256)] = 32``."""

    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Options:
    """What the options of a generator begin as: a class below it lists them, and none can be out of its bounds."""

    def __post_init__(self) -> None:
        declared = _bounds(type(self))  # type: ignore[arg-type]  # mypy doubts that a class can be hashed
        for name, bounds in declared.items():
            check_between(name, getattr(self, name), bounds.low, bounds.high)


@dataclass(frozen=True, slots=True)
class OptionField:
    """One field of a form: ``kind`` is int, float, bool or str; ``choices`` are the texts a ``Literal`` allows."""

    name: str
    kind: type
    default: int | float | bool | str
    help: str
    choices: tuple[str, ...] = ()


def option_fields(options_type: type[Any]) -> tuple[OptionField, ...]:
    """Return the fields of an options class in order, each with the docstring written under it."""
    helps = _field_docstrings(options_type)  # type: ignore[arg-type]  # mypy doubts that a class can be hashed
    hints = get_type_hints(options_type)
    found = []
    for field in dataclasses.fields(options_type):
        hint, default = hints[field.name], cast("int | float | bool | str", field.default)
        choices = get_args(hint) if get_origin(hint) is Literal else ()
        found.append(OptionField(field.name, str if choices else hint, default, helps[field.name], choices))
    return tuple(found)


def build_options(options_type: type[Any], values: Mapping[str, object], *, generator: str) -> Any:
    """Build the options of a generator from a configuration.

    Parameters
    ----------
    options_type : type
        A class of :class:`Options` whose fields are int, float, bool, str or a Literal of texts, with defaults.
    values : mapping
        Option names and values; what is absent keeps its default.
    generator : str
        Name of the generator, for the message.

    Raises
    ------
    ConfigError
        If an option is unknown, of the wrong kind or out of range.
    """
    fields = {field.name: field for field in option_fields(options_type)}
    for name in values:
        if name not in fields:
            known = ", ".join(fields) or "none"
            raise ConfigError(f"generator '{generator}' has no option '{name}'. Its options are: {known}.")
    converted = {name: _convert(fields[name], value, generator) for name, value in values.items()}
    return options_type(**converted)


def check_between(name: str, value: float, low: float, high: float) -> None:
    """Refuse an option outside [low, high], naming option, bounds and value."""
    if not (math.isfinite(value) and low <= value <= high):
        raise ConfigError(f"option '{name}' must lie between {low:g} and {high:g}, got {value:g}.")


def _convert(field: OptionField, value: object, generator: str) -> object:
    if field.kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if type(value) is not field.kind:
        raise ConfigError(
            f"generator '{generator}': option '{field.name}' must be {_KIND_WORDS[field.kind]}, "
            f"for example {field.default}."
        )
    if field.choices and value not in field.choices:
        raise ConfigError(f"option '{field.name}' must be one of {', '.join(field.choices)}, got '{value}'.")
    return value


@functools.cache
def _bounds(options_type: type[Any]) -> dict[str, Between]:
    hints = get_type_hints(options_type, include_extras=True)
    return {
        name: bounds
        for name, hint in hints.items()
        for bounds in getattr(hint, "__metadata__", ())
        if isinstance(bounds, Between)
    }


@functools.cache  # read from the source, and pages ask at every view
def _field_docstrings(options_type: type) -> dict[str, str]:
    tree = ast.parse(textwrap.dedent(inspect.getsource(options_type)))
    body = tree.body[0].body if isinstance(tree.body[0], ast.ClassDef) else []
    found: dict[str, str] = {}
    for statement, following in zip(body, [*body[1:], None], strict=True):
        if not (isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name)):
            continue
        documented = isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant)
        text = following.value.value if documented else ""  # type: ignore[union-attr]
        found[statement.target.id] = inspect.cleandoc(str(text)).replace("\n", " ")
    return found
