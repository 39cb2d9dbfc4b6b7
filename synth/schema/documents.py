"""Documents that people write, and the plain values in them: YAML is read safely, and refused in one sentence.

Numbers are read as text and converted where a number is expected, so ``1e-6`` is a number (YAML 1.1 calls it a text)
and a category written 007 keeps its zeros. A value that reached us as a truth value was written unquoted (``yes``,
``no``, ``true``, ``false``): YAML 1.1 turns those words into truth values, and guessing which word it was would publish
a category nobody declared.
"""

from __future__ import annotations

import datetime
import functools
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, cast, get_type_hints

import yaml

from synth.errors import ConfigError, InputError, SchemaError
from synth.limits import (
    DESCRIPTION_CHARACTERS,
    DOCUMENT_BYTES,
    DOCUMENT_DEPTH,
    DOCUMENT_NODES,
    NUMBER_CHARACTERS,
    TEXT_CHARACTERS,
)
from synth.names import composed, shown

if TYPE_CHECKING:
    from pydantic import TypeAdapter

__all__ = [
    "Date",
    "Flag",
    "Needed",
    "Number",
    "Read",
    "Sentence",
    "Text",
    "Texts",
    "Whole",
    "Word",
    "as_date",
    "as_flag",
    "as_mapping",
    "as_number",
    "as_sentence",
    "as_text",
    "as_whole",
    "as_word",
    "each",
    "read",
    "read_as",
    "read_mapping",
    "read_text",
    "refuse_unknown",
    "to_yaml",
    "without_signed_zeros",
]

_Value = TypeVar("_Value")

_PARSER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # only its events are used; the one in C is ten times faster
_WORDS: dict[str, bool | None] = {
    written: value
    for word, value in {**yaml.SafeLoader.bool_values, "null": None}.items()
    for written in (word, word.capitalize(), word.upper())
} | {"": None, "~": None}
"""The plain words that YAML 1.1 reads as truth values or as nothing."""

_TOO_LARGE = f"more than {DOCUMENT_BYTES:,} bytes. Make it shorter, for example by grouping categories."


def read_text(path: Path, what: str) -> str:
    """Return the text of a document that a user gives; ``what`` begins the refusal.

    Raises
    ------
    ConfigError
        If the file cannot be read, is larger than a document may be, or is not UTF-8 text.
    """
    try:
        with path.open("rb") as stream:
            data = stream.read(DOCUMENT_BYTES + 1)
    except OSError:
        raise ConfigError(f"{what} '{shown(path.name)}' cannot be read. Check that the file exists.") from None
    if len(data) > DOCUMENT_BYTES:
        raise ConfigError(f"{what} '{shown(path.name)}' has {_TOO_LARGE}")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ConfigError(f"{what} '{shown(path.name)}' is not UTF-8 text. Save it as UTF-8.") from None


class _InFull(yaml.SafeDumper):
    """Writes what occurs twice twice: :func:`read_mapping` refuses anchors and aliases."""

    def ignore_aliases(self, data: object) -> bool:
        return True


def to_yaml(document: object, *, in_one_line: bool = False) -> str:
    """Write a mapping, or a part of one, as YAML that :func:`read_mapping` reads."""
    text: str = yaml.dump(
        document,
        Dumper=_InFull,
        sort_keys=False,
        allow_unicode=True,
        width=10**6 if in_one_line else 120,
        default_flow_style=in_one_line,
    )
    return text


def read_mapping(text: str, *, sealed: bool = False) -> dict[str, Any]:
    """Parse YAML (of which JSON is a part) into a mapping of texts, truth values, lists and mappings.

    Anchors, aliases and tags are refused: a short document of them can stand for a vast one.

    Parameters
    ----------
    text : str
        From a user, at most :data:`synth.limits.DOCUMENT_BYTES` in UTF-8.
    sealed : bool
        Whether it comes from a bundle instead, whose reader has its own limits: size and lengths are not bounded here.

    Raises
    ------
    ConfigError
        In one sentence that quotes nothing of the document.
    """
    if not sealed and (len(text) > DOCUMENT_BYTES or len(text.encode("utf-8", "replace")) > DOCUMENT_BYTES):
        raise ConfigError(f"The configuration has {_TOO_LARGE}")
    reader = _Document(text, bounded=not sealed)
    try:
        document = reader.read()
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark is not None else 1
        raise ConfigError(f"The configuration is not valid YAML near line {line}.") from None
    except (yaml.YAMLError, UnicodeError):
        raise ConfigError("The configuration is not valid YAML.") from None
    if not isinstance(document, dict):
        raise ConfigError("The configuration must be a mapping of keys such as account, budget and columns.")
    return document


class _Document:
    """One document, read event by event, so that anything refused is refused before it is built."""

    def __init__(self, text: str, *, bounded: bool) -> None:
        self._events = yaml.parse(text, Loader=_PARSER)
        self._bounded = bounded
        self._nodes = 0

    def read(self) -> object:
        """Return the only document of the text; None where there is none."""
        found: object = None
        documents = 0
        for event in self._events:
            if isinstance(event, yaml.DocumentStartEvent):
                documents += 1
                if documents > 1:
                    raise _refused(event, "begins a second document. Keep one")
            elif isinstance(event, yaml.NodeEvent):
                found = self._node(event, depth=0)
        return found

    def _node(self, event: yaml.Event, *, depth: int) -> object:
        self._admit(event)
        if isinstance(event, yaml.ScalarEvent):
            # Only plain words are converted: in quotes they are texts. Numbers stay as they are written.
            return _WORDS.get(event.value, event.value) if event.implicit[0] else event.value
        if depth == DOCUMENT_DEPTH:
            raise _refused(event, f"is nested more than {DOCUMENT_DEPTH} levels deep. Make it flatter")
        return self._sequence(depth) if isinstance(event, yaml.SequenceStartEvent) else self._mapping(depth)

    def _admit(self, event: yaml.Event) -> None:
        """Refuse a key or value that exceeds a limit, or that has an anchor, alias or tag."""
        self._nodes += 1
        if self._bounded and self._nodes > DOCUMENT_NODES:
            raise _refused(event, f"exceeds {DOCUMENT_NODES:,} keys and values. Make it shorter")
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None:
            raise _refused(event, "has an anchor or an alias (& or *), which is not allowed. Write the value out")
        if getattr(event, "tag", None) is not None:
            raise _refused(event, "has a tag (!), which is not allowed. Leave it out")
        if self._bounded and isinstance(event, yaml.ScalarEvent) and len(event.value) > TEXT_CHARACTERS:
            raise _refused(event, f"has a text of more than {TEXT_CHARACTERS:,} characters. Make it shorter")

    def _sequence(self, depth: int) -> list[object]:
        values = []
        while not isinstance(event := next(self._events), yaml.SequenceEndEvent):
            values.append(self._node(event, depth=depth + 1))
        return values

    def _mapping(self, depth: int) -> dict[str, object]:
        mapping: dict[str, object] = {}
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            self._admit(event)
            if not isinstance(event, yaml.ScalarEvent):
                raise ConfigError(f"A key is not a plain text (line {_line(event)}).")
            # Keys are read as written: a column may be called "no", which YAML would turn into a truth value.
            if event.value in mapping:
                # Not quoted: a table may have been given instead of a configuration.
                raise ConfigError(f"A key is given twice (line {_line(event)}).")
            mapping[event.value] = self._node(next(self._events), depth=depth + 1)
        return mapping


def _refused(event: yaml.Event, what: str) -> ConfigError:
    return ConfigError(f"Line {_line(event)} of the configuration {what}.")


def _line(event: yaml.Event) -> int:
    return 0 if event.start_mark is None else event.start_mark.line + 1


# Values of keys -------------------------------------------------------------------------------------------------------

# Each of these reads one value, or raises a ValueError that continues the sentence after the name of the key.


def as_number(value: object) -> float:
    """Read a number such as 5, "0.5" or "1e-6", in time linear in its digits."""
    if isinstance(value, str) and len(value) > NUMBER_CHARACTERS:
        raise ValueError(f"must be a number of at most {NUMBER_CHARACTERS:,} characters.")
    try:
        if not isinstance(value, bool) and isinstance(value, int | float | str):
            return float(value) + 0.0  # -0 is 0
    except (ValueError, OverflowError):  # of text, and of a whole number beyond the largest float
        raise ValueError("must be a number.") from None
    raise ValueError("must be a number.")


def as_whole(value: object) -> int:
    """Read a whole number."""
    number = as_number(value)
    if not number.is_integer():
        raise ValueError(f"must be a whole number, got {number:g}.")
    # A float holds whole numbers exactly only up to 2^53; seeds may be larger.
    text = str(value).strip()
    return int(text) if text.lstrip("+-").isdigit() else int(number)


def as_text(value: object) -> str:
    """Read a text or a number as a text."""
    if isinstance(value, bool) or not isinstance(value, str | int | float | datetime.date):
        raise ValueError("must be a text. Put yes, no, true, false and null in quotes if you mean the word.")
    return str(value)


def as_sentence(value: object) -> str:
    """Read words about a column: one line with its letters composed, empty where it is left blank."""
    text = composed("" if value is None else as_text(value)).strip()
    if len(text) > DESCRIPTION_CHARACTERS:
        raise ValueError(f"must have at most {DESCRIPTION_CHARACTERS:,} characters, got {len(text):,}.")
    if any(unicodedata.category(character) in _NO_LINE for character in text):
        raise ValueError("must be one line of text, without line breaks, tabs or other control characters.")
    return text


_NO_LINE = frozenset({"Cc", "Cs", "Zl", "Zp"})
"""Kinds of characters that a line of text cannot hold: controls, halves of characters, and ends of lines."""


def as_date(value: object) -> datetime.date:
    """Read an ISO date."""
    try:
        return value if isinstance(value, datetime.date) else datetime.date.fromisoformat(as_text(value))
    except ValueError:
        raise ValueError("must be a date such as 2020-01-31.") from None


def as_flag(value: object) -> bool:
    """Read a truth value."""
    if not isinstance(value, bool):
        raise ValueError("must be true or false.")
    return value


def as_word(value: object) -> str:
    """Read a text as it is in cells: a whole number may be written as a number."""
    if isinstance(value, bool):
        raise ValueError(
            'must be in quotes where it says yes, no, true or false, for example values: ["yes", "no"], because YAML '
            "reads the bare words as truth values."
        )
    if value is None or isinstance(value, Mapping | list | tuple):
        raise ValueError("must be a text or a number; put null in quotes if you mean it.")
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def as_mapping(value: object) -> Mapping[str, object]:
    """Read a mapping, empty where it is left blank."""
    if value and not isinstance(value, Mapping):
        raise ValueError("must be a mapping, with a colon after each key.")
    return value if isinstance(value, Mapping) else {}


def read(where: str, convert: Callable[[object], _Value], value: object) -> _Value:
    """Read a single value; ``where`` names it in the refusal."""
    try:
        return convert(value)
    except ValueError as problem:
        raise SchemaError(f"{where} {problem}") from None


def each(convert: Callable[[object], _Value], example: str = "") -> Callable[[object], tuple[_Value, ...]]:
    """Return how a list of such values is read, empty where it is left blank."""

    def read_all(value: object) -> tuple[_Value, ...]:
        if value and (isinstance(value, str) or not isinstance(value, Sequence)):
            raise ValueError(f"must be a list{example}.")
        return tuple(map(convert, value)) if isinstance(value, Sequence) else ()

    return read_all


# What is declared by types --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Read:
    """How a document writes values of a type: ``Number = Annotated[float, Read(as_number)]``."""

    convert: Callable[[Any], object]

    def __get_pydantic_core_schema__(self, source: object, handler: object) -> dict[str, object]:
        """Let ``convert`` alone read a field of this type, in pydantic's terms."""
        return {"type": "function-plain", "function": {"type": "no-info", "function": self.convert}}


@dataclass(frozen=True, slots=True)
class Needed:
    """What to write under a key that documents must have, even if it has a default in Python."""

    what: str


Number = Annotated[float, Read(as_number)]
Whole = Annotated[int, Read(as_whole)]
Text = Annotated[str, Read(as_text)]
Sentence = Annotated[str, Read(as_sentence)]
Texts = Annotated[tuple[str, ...], Read(each(as_text))]
Date = Annotated[datetime.date, Read(as_date)]
Flag = Annotated[bool, Read(as_flag)]
Word = Annotated[str, Read(as_word)]


def read_as(
    kind: type[_Value],
    content: object,
    *,
    within: str = "",
    given: dict[str, object] | None = None,
    aside: Sequence[str] = (),
    error: type[InputError] = ConfigError,
) -> _Value:
    """Read a mapping of a document as a dataclass, whose types of fields say how each value is read.

    Parameters
    ----------
    kind : type
        A dataclass whose fields are of the types above, a ``Literal`` or an enumeration of texts, or None.
    content : object
        The mapping.
    within : str
        Where it is, which begins every refusal: ``"budget: "``, or nothing for a whole document.
    given : mapping, optional
        Fields that are already known, which the document must not have.
    aside : sequence of str
        Keys that the document may have besides the fields.
    error : type
        The type of the refusal.

    Raises
    ------
    InputError
        In one sentence about a key: first an unknown one, then a missing one, then one whose value cannot be used.
    """
    from pydantic import ValidationError  # here: processes that read no document need not load it

    given = given or {}
    adapter, keys = _adapter(kind)  # type: ignore[arg-type]  # mypy doubts that a class can be hashed
    known = dict.fromkeys(aside) | {key: needed for key, needed in keys.items() if key not in given}
    if not isinstance(content, Mapping):
        raise error(f"{within.removesuffix(': ')} must be a mapping with the keys {', '.join(sorted(known))}.")
    refuse_unknown(content, known, within=within, error=error)
    for key, needed in known.items():
        if needed is not None and content.get(key) is None:
            raise error(f"{within}{key} is missing. {needed.what}")
    try:
        return cast(
            "_Value", adapter.validate_python({key: content[key] for key in content if key not in aside} | given)
        )
    except ValidationError as refusal:
        first = refusal.errors(include_url=False)[0]
        raise error(f"{within}{first['loc'][0]} {_reason(first)}") from None


def refuse_unknown(
    content: Mapping[str, object], known: Iterable[str], *, within: str = "", error: type[InputError] = ConfigError
) -> None:
    """Refuse a mapping that has an unknown key."""
    unknown = next((key for key in content if key not in known), None)
    if unknown is not None:
        raise error(f"{within}unknown key '{shown(str(unknown))}'. Known keys: {', '.join(sorted(known))}.")


def without_signed_zeros(document: Any) -> Any:
    """Return plain values with 0.0 in place of -0.0: they are one number, and have one text."""
    if isinstance(document, float):
        return document + 0.0
    if isinstance(document, Mapping):
        return {key: without_signed_zeros(value) for key, value in document.items()}
    if isinstance(document, list | tuple):
        return [without_signed_zeros(value) for value in document]
    return document


_REASONS = {
    "int_type": "must be a whole number.",
    "float_type": "must be a number.",
    "string_type": "must be text.",
}


def _reason(refused: Mapping[str, Any]) -> str:
    """Say why a value was refused, to follow the name of its key."""
    if refused["type"] in _REASONS:
        return _REASONS[refused["type"]]
    if refused["type"] == "value_error":
        return str(refused["ctx"]["error"])
    try:
        given = as_text(refused["input"])
    except ValueError as no_text:
        return str(no_text)
    return f"must be {refused['ctx']['expected'].replace(chr(39), '')}, got {shown(given)}."


@functools.cache
def _adapter(kind: Any) -> tuple[TypeAdapter[Any], dict[str, Needed | None]]:
    """Return what reads a dataclass, and its keys with what is said of the needed ones."""
    from pydantic import TypeAdapter

    hints = get_type_hints(kind, include_extras=True)
    marks = {field.name: getattr(hints[field.name], "__metadata__", ()) for field in fields(kind) if field.init}
    needed = {key: next((mark for mark in own if isinstance(mark, Needed)), None) for key, own in marks.items()}
    return TypeAdapter(kind), needed
