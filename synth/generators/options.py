"""Options of a generator, each declared once: its type, its bounds, its default, and the help text below it.

That one declaration is enough to read an option from a configuration, check it and draw it as a form. The help text is
a docstring, so it is read from the source.
"""

from __future__ import annotations

import ast
import csv
import dataclasses
import functools
import inspect
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast, get_args, get_origin, get_type_hints

from synth.errors import ConfigError
from synth.names import shown
from synth.schema.documents import read_as

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler

_Mark = TypeVar("_Mark")

__all__ = ["Between", "Naming", "OptionField", "Options", "build_options", "check_between", "option_fields"]


@dataclass(frozen=True, slots=True)
class Between:
    """The smallest and the largest value of an option: ``bins: Annotated[int, Between(2, 256)] = 32``."""

    low: float
    high: float

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> Any:
        """Accept only numbers, no text and no truth value; :class:`Options` checks the bounds."""
        return {**handler(source), "strict": True}


_MOST_NAMED = 20


@dataclass(frozen=True, slots=True)
class Naming:
    """The words that an option accepts, one of which may be followed by columns: ``regression of Y on X, Z``.

    Attributes
    ----------
    words : tuple of str
        The values of the option.
    names : str
        The word that may be followed by columns.
    """

    words: tuple[str, ...]
    names: str

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> Any:
        """Accept only text; :class:`Options` checks which."""
        return {**handler(source), "strict": True}

    def check(self, option: str, value: str) -> None:
        """Refuse a value that is neither one of the words nor names columns."""
        if value not in self.words and not value.startswith(f"{self.names} of "):
            raise ConfigError(
                f"option '{option}' must be one of {', '.join(self.words)}, or '{self.names} of COLUMN on COLUMN, "
                f"COLUMN', got '{shown(value)}'."
            )

    def written(self, outcome: str, predictors: Sequence[str]) -> str:
        """Return the value that names columns, with quotation marks around names with a comma or a quotation mark."""
        return f"{self.names} of {_quoted(outcome)} on {', '.join(map(_quoted, predictors))}"

    def columns(self, value: str, known: Sequence[str]) -> tuple[str, ...]:
        """Return the columns that a value names, the outcome first; none if it is a single word.

        Raises
        ------
        ConfigError
            If a column does not exist, fewer than two are named, or they are not written as :meth:`written` does.
        """
        _, of, asked = value.partition(f"{self.names} of ")
        if not of:
            return ()
        # The longest first: of "net on loan on age" the outcome is "net on loan", if there is such a column.
        forms = sorted({(form, name) for name in known for form in (name, _quoted(name))}, key=lambda one: -len(one[0]))
        ends = ((name, asked[len(form) + 4 :]) for form, name in forms if asked.startswith(f"{form} on "))
        outcome, rest = next(ends, ("", ""))
        listed = ", ".join(known[:_MOST_NAMED]) + (", ..." if len(known) > _MOST_NAMED else "")
        if not outcome:
            raise ConfigError(
                f"'{shown(value)}' does not name an outcome in the table. Write: {self.names} of COLUMN on COLUMN, "
                f"COLUMN. Columns to choose from: {listed}."
            )
        found = (outcome, *(name.strip() for name in next(csv.reader([rest], skipinitialspace=True), [])))
        unknown = next((name for name in found if name not in known), None)
        if unknown is not None:
            raise ConfigError(
                f"'{shown(value)}': there is no column '{shown(unknown)}'. Columns to choose from: {listed}."
            )
        if len(set(found)) < max(len(found), 2):
            raise ConfigError(f"'{shown(value)}': name an outcome and at least one other column, each once.")
        written = self.written(found[0], found[1:])
        if value != written:
            # Blanks and quotation marks that say nothing would be room in a bundle.
            raise ConfigError(f"'{shown(value)}' has one form only. Write: {written}.")
        return found


def _quoted(name: str) -> str:
    plain = name == name.strip() and not set(name) & set(',"')
    return name if plain else '"' + name.replace('"', '""') + '"'


@dataclass(frozen=True, slots=True)
class Options:
    """Base of the options of a generator: a subclass lists them, and none can be outside its bounds."""

    def __post_init__(self) -> None:
        declared = _marked(type(self), Between)  # type: ignore[arg-type]  # mypy doubts that a class can be hashed
        for name, bounds in declared.items():
            check_between(name, getattr(self, name), bounds.low, bounds.high)
        for name, naming in _marked(type(self), Naming).items():  # type: ignore[arg-type]  # as above
            naming.check(name, getattr(self, name))


@dataclass(frozen=True, slots=True)
class OptionField:
    """One field of a form: ``kind`` is int, float, bool or str; ``choices`` are the allowed texts.

    With ``naming``, one of them may be followed by columns.
    """

    name: str
    kind: type
    default: int | float | bool | str
    help: str
    choices: tuple[str, ...] = ()
    naming: Naming | None = None

    def choice(self, value: object) -> object:
        """Return the choice that a value means, or the value itself: a configuration reads "0.2" as a number."""
        text = str(value) if isinstance(value, float) else value
        return text if text in self.choices else value


def option_fields(options_type: type[Any]) -> tuple[OptionField, ...]:
    """Return the fields of an options class in order, each with the docstring written under it."""
    helps = _field_docstrings(options_type)  # type: ignore[arg-type]  # mypy doubts that a class can be hashed
    hints = get_type_hints(options_type)
    found = []
    for field in dataclasses.fields(options_type):
        hint, default = hints[field.name], cast("int | float | bool | str", field.default)
        naming = _marked(options_type, Naming).get(field.name)  # type: ignore[arg-type]  # as above
        choices = naming.words if naming is not None else get_args(hint) if get_origin(hint) is Literal else ()
        found.append(OptionField(field.name, str if choices else hint, default, helps[field.name], choices, naming))
    return tuple(found)


def build_options(options_type: type[Any], values: Mapping[str, object], *, of: str) -> Any:
    """Build the options of a generator or a model from a configuration.

    Parameters
    ----------
    options_type : type
        A class of :class:`Options` whose fields have defaults and are numbers with bounds, a Flag, or texts (a Literal,
        or words of which one names columns).
    values : mapping
        Option names and values; an absent option keeps its default.
    of : str
        The owner of the options, for the message: "generator 'independent'".

    Raises
    ------
    ConfigError
        If an option is unknown, of the wrong kind or out of range.
    """
    fields = {field.name: field for field in option_fields(options_type)}
    given = {name: fields[name].choice(value) if name in fields else value for name, value in values.items()}
    return read_as(options_type, given, within=f"{of}: ")


def check_between(name: str, value: float, low: float, high: float) -> None:
    """Refuse an option outside [low, high]; the message names the option, its bounds and the value."""
    if not low <= value <= high:
        given = f"{value:g}" if isinstance(value, float) else shown(str(value))  # an int may be too large for a float
        raise ConfigError(f"option '{name}' must lie between {low:g} and {high:g}, got {given}.")


@functools.cache
def _marked(options_type: type[Any], sort: type[_Mark]) -> dict[str, _Mark]:
    """Return the annotations of one type, by option."""
    hints = get_type_hints(options_type, include_extras=True)
    return {
        name: mark
        for name, hint in hints.items()
        for mark in getattr(hint, "__metadata__", ())
        if isinstance(mark, sort)
    }


@functools.cache  # parsed from the source, and pages need it at every view
def _field_docstrings(options_type: type) -> dict[str, str]:
    found: dict[str, str] = {}
    for base in options_type.__bases__:
        if dataclasses.is_dataclass(base):
            found |= _field_docstrings(base)
    tree = ast.parse(textwrap.dedent(inspect.getsource(options_type)))
    body = tree.body[0].body if isinstance(tree.body[0], ast.ClassDef) else []
    for statement, following in zip(body, [*body[1:], None], strict=True):
        if not (isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name)):
            continue
        documented = isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant)
        text = following.value.value if documented else ""  # type: ignore[union-attr]
        found[statement.target.id] = inspect.cleandoc(str(text)).replace("\n", " ")
    return found
