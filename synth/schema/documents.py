"""Documents that people write, and the plain values in them: YAML read safely, and one sentence for each refusal.

Numbers are read as text and converted where a number is expected, so ``1e-6`` is a number (YAML 1.1 calls it a text)
and a category written 007 keeps its zeros. A value that reached us as a truth value was written unquoted (``yes``,
``no``, ``true``, ``false``): YAML 1.1 turns those words into truth values, and guessing which word it was would publish
a category nobody declared.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from synth.errors import ConfigError, SchemaError
from synth.limits import DOCUMENT_BYTES, DOCUMENT_DEPTH, DOCUMENT_NODES, NUMBER_CHARACTERS, TEXT_CHARACTERS
from synth.names import shown

__all__ = [
    "Section",
    "parse_date",
    "parse_number",
    "parse_text",
    "parse_whole",
    "read_mapping",
    "read_text",
    "refuse_unknown",
]

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


def parse_whole(where: str, value: object) -> int:
    """Read a whole number; ``where`` names it in the message."""
    number = parse_number(where, value)
    if not number.is_integer():
        raise ConfigError(f"{where} must be a whole number, got {number:g}.")
    # A float holds whole numbers exactly only up to 2^53; seeds may be larger.
    text = str(value).strip()
    return int(text) if text.lstrip("+-").isdigit() else int(number)


def refuse_unknown(content: Mapping[str, object], known: Iterable[str], *, within: str = "") -> None:
    """Refuse a mapping that has a key beside the known ones."""
    unknown = next((key for key in content if key not in known), None)
    if unknown is not None:
        raise ConfigError(f"{within}unknown key '{shown(str(unknown))}'. Known keys: {', '.join(sorted(known))}.")


class Section:
    """A mapping of a document, whose keys are taken out one by one by who knows them.

    Parameters
    ----------
    content : mapping
    within : str
        Where it stands, which begins every refusal: ``"budget: "``, or nothing for a whole document.
    """

    def __init__(self, content: Mapping[str, object], *, within: str = "") -> None:
        self.within = within
        self._left = dict(content)

    @property
    def unknown(self) -> str | None:
        """The first key that nobody took out, as it may stand in a message; None where there is none."""
        return next((shown(str(key)) for key in self._left), None)

    def has(self, *keys: str) -> bool:
        """Whether every one of these keys has a value."""
        return all(self._left.get(key) is not None for key in keys)

    def need(self, key: str, what: str) -> None:
        """Refuse a key that is absent or left blank, saying what belongs there."""
        if not self.has(key):
            raise ConfigError(f"{self.within}{key} is missing. {what}")

    def take(self, key: str, default: object = None) -> Any:
        """Take out a value as it is."""
        return self._left.pop(key, default)

    def number(self, key: str, default: float | None = None) -> float:
        """Take out a number."""
        return parse_number(f"{self.within}{key}", self.take(key, default))

    def whole(self, key: str, default: int = 0) -> int:
        """Take out a whole number; one that is left blank is the default."""
        value = self.take(key)
        return default if value is None else parse_whole(f"{self.within}{key}", value)

    def text(self, key: str, default: str | None = None) -> str:
        """Take out a text."""
        return parse_text(f"{self.within}{key}", self.take(key, default))

    def text_or_none(self, key: str) -> str | None:
        """Take out a text, None where it is absent or left blank."""
        return self.text(key) if self.has(key) else self.take(key)

    def texts(self, key: str) -> tuple[str, ...]:
        """Take out a list of texts, empty where it is not given."""
        values = self.take(key) or ()
        if isinstance(values, str) or not isinstance(values, Sequence):
            raise ConfigError(f"{self.within}{key} must be a list.")
        return tuple(parse_text(f"{self.within}{key}", value) for value in values)

    def date(self, key: str) -> datetime.date:
        """Take out an ISO date."""
        return parse_date(f"{self.within}{key}", self.take(key))

    def choice(self, key: str, default: str, allowed: Sequence[str]) -> Any:
        """Take out one of some words."""
        value = self.text(key, default)
        if value not in allowed:
            words = f"{', '.join(allowed[:-1])} or {allowed[-1]}"
            raise SchemaError(f"{self.within}{key} must be {words}, got {shown(value)}.")
        return value

    def flag(self, key: str, default: bool = False) -> bool:
        """Take out a truth value."""
        value = self.take(key, default)
        if not isinstance(value, bool):
            raise SchemaError(f"{self.within}{key} must be true or false.")
        return value

    def mapping(self, key: str) -> Mapping[str, object]:
        """Take out a mapping, empty where it is not given."""
        value = self.take(key) or {}
        if not isinstance(value, Mapping):
            raise ConfigError(f"{self.within}{key} must be a mapping, with a colon after each key.")
        return value

    def section(self, key: str, known: Iterable[str]) -> Section:
        """Take out a section that may have the ``known`` keys, empty where it is not given."""
        content = self.take(key)
        if content is not None and not isinstance(content, Mapping):
            raise ConfigError(f"{key} must be a mapping with the keys {', '.join(sorted(known))}.")
        refuse_unknown(content or {}, known, within=f"{key}: ")
        return Section(content or {}, within=f"{key}: ")
