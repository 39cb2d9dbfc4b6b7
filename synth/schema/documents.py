"""Documents that people write, and the plain values in them: YAML read safely, and one sentence for each refusal.

Numbers are read as text and converted where a number is expected, so ``1e-6`` is a number (YAML 1.1 calls it a text)
and a category written 007 keeps its zeros. A value that reached us as a truth value was written unquoted (``yes``,
``no``, ``true``, ``false``): YAML 1.1 turns those words into truth values, and guessing which word it was would publish
a category nobody declared.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import yaml

from synth.errors import ConfigError, SchemaError
from synth.limits import DOCUMENT_BYTES, DOCUMENT_DEPTH, DOCUMENT_NODES, NUMBER_CHARACTERS, TEXT_CHARACTERS
from synth.names import shown

__all__ = ["Fields", "parse_date", "parse_number", "parse_text", "read_mapping", "read_text"]

_Value = TypeVar("_Value")

_PARSER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # only its events are used; the one in C is ten times faster
_WORDS: dict[str, bool | None] = {
    written: value
    for word, value in {**yaml.SafeLoader.bool_values, "null": None}.items()
    for written in (word, word.capitalize(), word.upper())
} | {"": None, "~": None}
"""The plain words that YAML 1.1 takes for truth values or for nothing."""

_TOO_LARGE = f"more than {DOCUMENT_BYTES:,} bytes. Make it shorter, for example by grouping categories."


def read_text(path: Path, what: str) -> str:
    """Return the text of a document that a user gives; ``what`` begins the sentence of a refusal.

    Raises
    ------
    ConfigError
        If the file cannot be read, is larger than a document may be, or is no text in UTF-8.
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
        raise ConfigError(f"{what} '{shown(path.name)}' is no text in UTF-8. Save it as UTF-8.") from None


def read_mapping(text: str, *, sealed: bool = False) -> dict[str, Any]:
    """Parse YAML (of which JSON is a part) into a mapping of texts, truth values, lists and mappings.

    Anchors, aliases and tags are refused: a short document of them can stand for a vast one.

    Parameters
    ----------
    text : str
        What a user gives, at most :data:`synth.limits.DOCUMENT_BYTES` in UTF-8.
    sealed : bool
        Whether it comes from a bundle instead, whose reader has limits of its own: size and lengths are not bounded.

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
    """One document, read event by event: whatever is refused is refused before anything is built of it."""

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
            # Only plain words are looked at: in quotes they are texts. Numbers stay as they are written.
            return _WORDS.get(event.value, event.value) if event.implicit[0] else event.value
        if depth == DOCUMENT_DEPTH:
            raise _refused(event, f"lies deeper than {DOCUMENT_DEPTH} levels. Make it flatter")
        return self._sequence(depth) if isinstance(event, yaml.SequenceStartEvent) else self._mapping(depth)

    def _admit(self, event: yaml.Event) -> None:
        """Refuse a key or value that exceeds a limit or is more than it says, whatever it is."""
        self._nodes += 1
        if self._bounded and self._nodes > DOCUMENT_NODES:
            raise _refused(event, f"begins more than {DOCUMENT_NODES:,} keys and values. Make it shorter")
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None:
            raise _refused(event, "has an anchor or an alias (& or *), which are not read. Write the value out")
        if getattr(event, "tag", None) is not None:
            raise _refused(event, "has a tag (!), which is not read. Leave it out")
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


def parse_number(where: str, value: object) -> float:
    """Read a number such as 5, "0.5" or "1e-6", in time linear in its digits; ``where`` names it in the message."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise SchemaError(f"{where} must be a number.")
    if isinstance(value, str) and len(value) > NUMBER_CHARACTERS:
        raise SchemaError(f"{where} must be a number of at most {NUMBER_CHARACTERS:,} characters.")
    try:
        return float(value)
    except (ValueError, OverflowError):  # of text, and of a whole number beyond the largest float
        raise SchemaError(f"{where} must be a number.") from None


def parse_text(where: str, value: object) -> str:
    """Read a text or a number as a text; ``where`` names it in the message."""
    if isinstance(value, bool) or not isinstance(value, str | int | float | datetime.date):
        raise SchemaError(f"{where} must be a text. Put yes, no, true, false and null in quotes if you mean the word.")
    return str(value)


def parse_date(where: str, value: object) -> datetime.date:
    """Read an ISO date; ``where`` names it in the message."""
    if isinstance(value, datetime.date):
        return value
    try:
        return datetime.date.fromisoformat(parse_text(where, value))
    except (ValueError, SchemaError):
        raise SchemaError(f"{where} must be a date such as 2020-01-31.") from None


class Fields:
    """What stands under the name of one declared column: keys are taken out by the type that knows them.

    Attributes
    ----------
    name : str
        Name of the column.
    shown : str
        The name as it may stand in a message.
    """

    def __init__(self, name: str, declared: Mapping[str, object]) -> None:
        self.name = name
        self.shown = shown(name)
        self._left = dict(declared)

    @property
    def unknown(self) -> str | None:
        """The first key that nobody took out, as it may stand in a message; None where there is none."""
        return next((shown(str(key)) for key in self._left), None)

    def has(self, *keys: str) -> bool:
        """Whether every one of these keys has a value."""
        return all(self._left.get(key) is not None for key in keys)

    def take(self, key: str, default: object = None) -> object:
        """Take out a value as it is."""
        return self._left.pop(key, default)

    def number(self, key: str, default: float | None = None) -> float:
        """Take out a number."""
        return self._number(key, self.take(key, default))

    def numbers(self, key: str) -> tuple[float, ...]:
        """Take out a list of numbers, empty where it is not given."""
        values = self.take(key) or ()
        if isinstance(values, str) or not isinstance(values, Sequence):
            raise SchemaError(f"'{self.shown}': {key} must be a list of numbers, for example [0].")
        return tuple(self._number(key, value) for value in values)

    def date(self, key: str) -> datetime.date:
        """Take out an ISO date."""
        return self._date(key, self.take(key))

    def choice(self, key: str, default: str, allowed: Iterable[str]) -> str:
        """Take out one of some words."""
        value = parse_text(f"'{self.shown}': {key}", self.take(key, default))
        known = list(allowed)
        if value not in known:
            words = f"{', '.join(known[:-1])} or {known[-1]}"
            raise SchemaError(f"'{self.shown}': {key} must be {words}, got {shown(value)}.")
        return value

    def flag(self, key: str) -> bool:
        """Take out a truth value, False where it is not given."""
        value = self.take(key, False)
        if not isinstance(value, bool):
            raise SchemaError(f"'{self.shown}': {key} must be true or false.")
        return value

    def label(self, key: str, default: str) -> str:
        """Take out a text as it stands in cells; see :meth:`as_label`."""
        return self.as_label(self.take(key, default))

    def as_label(self, value: object) -> str:
        """Read a text as it stands in cells: a whole number may be written as one."""
        if isinstance(value, bool):
            raise SchemaError(
                f'\'{self.shown}\': yes, no, true and false must be in quotes, for example values: ["yes", "no"], '
                "because YAML reads the bare words as truth values."
            )
        if isinstance(value, float) and value.is_integer():
            return str(int(value))
        if value is None or isinstance(value, Mapping | list | tuple):
            raise SchemaError(
                f"'{self.shown}': every category must be a text or a number; put null in quotes if you mean it."
            )
        return str(value)

    def fallback_number(self) -> float | None:
        """Take out a number as the fallback, if there is one."""
        return self._optional("fallback", lambda value: self._number("fallback", value))

    def fallback_date(self) -> datetime.date | None:
        """Take out a date as the fallback, if there is one."""
        return self._optional("fallback", lambda value: self._date("fallback", value))

    def fallback_label(self) -> str | None:
        """Take out a text of cells as the fallback, if there is one."""
        return self._optional("fallback", self.as_label)

    def _number(self, key: str, value: object) -> float:
        return parse_number(f"'{self.shown}': {key}", value)

    def _date(self, key: str, value: object) -> datetime.date:
        return parse_date(f"'{self.shown}': {key}", value)

    def _optional(self, key: str, read: Callable[[object], _Value]) -> _Value | None:
        value = self.take(key)
        return None if value is None else read(value)
