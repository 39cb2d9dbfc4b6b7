"""What dictionaries and presets say about one table's columns, combined and written as lines of a configuration."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from synth.dictionaries.understanding import Dictionary, open_facts
from synth.dictionaries.words import folded
from synth.errors import SchemaError
from synth.names import listed, shown
from synth.schema import COLUMN_TYPES, ModelledColumn, Preset, preset_called
from synth.schema.documents import to_yaml

__all__ = ["Described", "Description", "chosen_presets", "describe_columns", "line_of", "with_words"]

_MOST_NAMED = 10
_NUMBERS = {"low", "high", "step", "fallback"}


@dataclass(frozen=True, slots=True)
class Described:
    """What is known about a column of the table: keys of a configuration, and the source of its bounds and values.

    ``source`` is empty if nothing is known but what the column means.
    """

    body: Mapping[str, Any]
    source: str

    @property
    def declares(self) -> bool:
        """Whether more is known than what the column means."""
        return bool(self.source)


@dataclass(frozen=True, slots=True)
class Description:
    """What is known about a table's columns.

    Attributes
    ----------
    columns : mapping
        By the names of the table, if anything is known about them; also times in the cells of its dates.
    notes : tuple of str
        What was not used, and why, one sentence each.
    """

    columns: Mapping[str, Described]
    notes: tuple[str, ...]

    @property
    def declared(self) -> Mapping[str, Described]:
        """The columns of which more is known than what they mean."""
        return {name: one for name, one in self.columns.items() if one.declares}


def chosen_presets(options: Sequence[str]) -> dict[str, tuple[Preset, str | None]]:
    """Read presets as given on the command line, by the columns they are for.

    Parameters
    ----------
    options : sequence of str
        ``age=patient_age,mother_age``, or ``money:500000=income`` if a preset asks for a value.

    Raises
    ------
    SchemaError
        If a preset is unknown or no column is named.
    """
    chosen: dict[str, tuple[Preset, str | None]] = {}
    for option in options:
        preset, sign, columns = option.partition("=")
        key, _, highest = preset.partition(":")
        if not sign or not columns.strip():
            raise SchemaError("A preset is given as PRESET=COLUMN,COLUMN, for example age=patient_age.")
        found = preset_called(key.strip()), highest.strip() or None
        chosen |= dict.fromkeys((name.strip() for name in columns.split(",") if name.strip()), found)
    return chosen


def describe_columns(
    names: Sequence[str],
    dictionaries: Sequence[Dictionary],
    presets: Mapping[str, tuple[Preset, str | None]] | None = None,
) -> Description:
    """Combine what is said about each column of a table.

    Parameters
    ----------
    names : sequence of str
        Of the table, in order.
    dictionaries : sequence of Dictionary
        The first one takes precedence; each further one fills what is left open.
    presets : mapping, optional
        Chosen ones by column, with the value that they ask for; they replace what a dictionary says.

    Raises
    ------
    SchemaError
        If a preset is for a column that the table does not have, or lacks the value that it asks for.
    """
    columns: dict[str, Described] = {}
    notes: list[str] = []
    for dictionary in dictionaries:
        notes += dictionary.left
        own_name = _matching(names, [column.name for column in dictionary.columns])
        # A time of day may be in the cells of a date; its column then has a name only in the description.
        beside = {one.name for one in dictionary.columns if one.body.get("of") in own_name and one.name not in own_name}
        absent = [column.name for column in dictionary.columns if column.name not in {*own_name, *beside}]
        if absent:
            notes.append(f"Ignored, as they are not in the table: {listed(list(map(shown, absent)), _MOST_NAMED)}.")
        for column in dictionary.columns:
            notes += column.left
            if column.name in beside:
                body = {**column.body, "of": own_name[str(column.body["of"])]}
                columns.setdefault(column.name, Described(body, _from(dictionary)))
                continue
            name = own_name.get(column.name)
            if name is None or not column.body:
                continue
            before, source = columns.get(name), _from(dictionary) if column.body.keys() - _IN_WORDS else ""
            if before is None:
                columns[name] = Described(column.body, source)
            elif before.body.get("type", column.body.get("type")) == column.body.get("type"):
                columns[name] = Described({**column.body, **before.body}, before.source or source)
            else:  # what a column means is as true of another type
                columns[name] = Described({**_words(column.body), **before.body}, before.source)
    for name, (preset, highest) in (presets or {}).items():
        if name not in names:
            raise SchemaError(f"There is no column '{shown(name)}' for the preset '{preset.title}'.")
        words = _words(columns[name].body) if name in columns else {}
        columns[name] = Described({**preset.body(highest), **words}, preset.domain_source)
    return Description(columns, tuple(notes))


_IN_WORDS = {"description"}


def _words(body: Mapping[str, Any]) -> dict[str, Any]:
    return {key: body[key] for key in _IN_WORDS & body.keys()}


def _from(dictionary: Dictionary) -> str:
    return f"declared from a data dictionary: {dictionary.kind}"


def _matching(names: Sequence[str], called: Sequence[str]) -> dict[str, str]:
    """Match a dictionary's names with those of the table: the same, or the same without capitals and signs."""
    same = {name: name for name in called if name in set(names)}
    free = [name for name in names if name not in same]
    alike = Counter(map(folded, free))
    by_fold = {folded(name): name for name in free if alike[folded(name)] == 1}
    said = Counter(folded(name) for name in called if name not in same)
    return same | {
        name: by_fold[folded(name)]
        for name in called
        if name not in same and said[folded(name)] == 1 and folded(name) in by_fold
    }


def line_of(body: Mapping[str, Any], *, empty: bool = False) -> str:
    """Write what is known about a column as it follows its name in a configuration, with blanks for what is not.

    Parameters
    ----------
    body : mapping
    empty : bool
        Whether an empty or unreadable cell becomes missing where nothing else is declared.
    """
    kind = body.get("type")
    column_type = COLUMN_TYPES.get(str(kind))
    whole = dict(body)
    modelled = column_type is not None and issubclass(column_type, ModelledColumn)
    if empty and modelled and not {"missing", "fallback"} & whole.keys() and not whole.get("other"):
        whole["missing"] = True
    left = open_facts(whole)
    keys = [key for field in ([] if column_type is None else column_type.form) for key in field.keys if field.needed]
    entries = [] if kind is None else [f"type: {kind}"]
    entries += [f"{key}: {_flow(_plain(str(kind), key, whole[key])) if key in whole else ''}" for key in keys]
    entries += [
        f"{key}: {_flow(_plain(str(kind), key, value))}" for key, value in whole.items() if key not in {"type", *keys}
    ]
    line = "{" + ", ".join(entries if kind is not None else ["type: ", *entries]) + "}"
    return f"{line}  # to fill in: {', '.join(left)}" if left else line


def with_words(line: str, body: Mapping[str, Any]) -> str:
    """Add what a column means to a line in which only a guess is written of it, before the comment.

    Examples
    --------
    >>> with_words("{type: category, values: }  # to fill in", {"description": "County of birth"})
    '{type: category, values: , description: County of birth}  # to fill in'
    """
    said = "".join(f", {key}: {_flow(value)}" for key, value in _words(body).items())
    end = line.index("}")
    return line[:end] + said + line[end:]


def _plain(kind: str, key: str, value: Any) -> Any:
    """Return numbers of a number column as numbers, so that they are written without quotation marks."""
    if kind == "number" and key == "special":
        return [_plain(kind, "low", one) for one in value]
    if kind == "number" and key in _NUMBERS:
        number = float(value)
        return int(number) if number.is_integer() else number
    return json.loads(json.dumps(value))


def _flow(value: Any) -> str:
    # Inside brackets, as it stands in its line: there a comma or a bracket in a text needs quotation marks.
    return to_yaml([value], in_one_line=True).strip()[1:-1]
