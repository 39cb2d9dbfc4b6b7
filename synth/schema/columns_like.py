"""Many columns declared at once, by a pattern of their names or by a list: ``columns_like`` in a configuration.

A pattern is that of file names in a shell: ``*`` is any text, ``?`` one sign, ``[0-9]`` one of these signs. Everybody
knows it, and the standard library matches it in time that is bounded by the lengths of pattern and name. A regular
expression can take longer than anybody waits.

What is declared so is written out in full, by name and in the order of the table, before anything else reads it: no
schema, run or bundle knows patterns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from synth.errors import ConfigError
from synth.limits import COLUMN_PATTERNS, DOCUMENT_NODES, NAME_CHARACTERS
from synth.names import listed, shown
from synth.schema.documents import as_text, each, read

__all__ = ["COLUMNS_LIKE", "all_declared", "around_number", "columns_in_full", "names_like"]

COLUMNS_LIKE = "columns_like"
"""The key of a configuration."""

_LIKE, _EXCEPT, _NAMES = "like", "except", "names"
_EXAMPLE = '- {like: "q*", type: number, low: 1, high: 5, step: 1, missing: true}'
_MOST_NAMED = 3
_DIGITS = "0123456789"


def names_like(names: Sequence[str], pattern: str) -> list[str]:
    """Return the names that a pattern matches as a whole, in their order; capitals matter.

    Examples
    --------
    >>> names_like(["q1", "q12", "q12_text", "age"], "q[0-9]*")
    ['q1', 'q12', 'q12_text']
    """
    return [name for name in names if fnmatchcase(name, pattern)]


def around_number(name: str) -> tuple[str, str] | None:
    """Return what stands before and behind the last number in a name; None where there is none.

    Examples
    --------
    >>> around_number("wave2_q17_text"), around_number("age")
    (('wave2_q', '_text'), None)
    """
    end = next((place for place in range(len(name), 0, -1) if name[place - 1] in _DIGITS), 0)
    return (name[:end].rstrip(_DIGITS), name[end:]) if end else None


@dataclass(frozen=True, slots=True)
class _Entry:
    """One entry of the list: which columns, how they were chosen in words, and what is declared of each of them."""

    columns: tuple[str, ...]
    said: str
    body: Mapping[str, Any]


def columns_in_full(columns: object, like: object, names: Sequence[str]) -> dict[str, Any]:
    """Return the section ``columns`` with what ``columns_like`` declares written out, in the order of the table.

    Parameters
    ----------
    columns : mapping or None
        The section ``columns``, which may be blank.
    like : list of mapping
        The section ``columns_like``. Each entry has either ``like``, a pattern, with the patterns of columns that it
        leaves out under ``except``, or ``names``, a list. The other keys are those of a column.
    names : sequence of str
        The names of the table, in order.

    Raises
    ------
    ConfigError
        If an entry cannot be used, its pattern matches nothing, or a column is declared twice.

    Examples
    --------
    >>> entry = {"like": "q*", "except": ["q*_text"], "type": "yes_no"}
    >>> columns_in_full({"q2_text": {"type": "drop"}}, [entry], ["q1", "q2", "q2_text"])
    {'q1': {'type': 'yes_no'}, 'q2': {'type': 'yes_no'}, 'q2_text': {'type': 'drop'}}
    """
    if columns is not None and not isinstance(columns, Mapping):
        raise ConfigError("columns must be a mapping from the name of each column to what is declared of it.")
    entries = _entries(like, names)
    nodes = sum(len(entry.columns) * _nodes(entry.body) for entry in entries)
    if nodes > DOCUMENT_NODES:
        raise ConfigError(
            f"{COLUMNS_LIKE} stands for {nodes:,} keys and values, and at most {DOCUMENT_NODES:,} are allowed. Declare "
            "fewer categories, or fewer columns."
        )
    declared: dict[str, Any] = {str(name): body for name, body in (columns or {}).items()}
    by = dict.fromkeys(declared, "under columns")
    for entry in entries:
        for name in entry.columns:
            if name in by:
                raise ConfigError(
                    f"The column '{shown(name)}' is declared twice: {by[name]} and {entry.said}. Declare it once; a "
                    f"pattern leaves out what is under its '{_EXCEPT}'."
                )
            by[name] = entry.said
            declared[name] = entry.body
    return _in_order_of(names, declared)


def all_declared(columns: object, like: object, names: Sequence[str]) -> bool:
    """Whether each of some names is declared by name, or by a pattern that says more than how long it is.

    Examples
    --------
    >>> all_declared({"town": {"type": "drop"}}, [{"like": "20[0-9][0-9]", "type": "yes_no"}], ["town", "2019", "2020"])
    True
    >>> all_declared({}, [{"like": "*", "type": "yes_no"}], ["3", "17"])
    False
    """
    entries = [one for one in like if isinstance(one, Mapping)] if isinstance(like, Sequence) else []
    known = {str(name) for name in columns} if isinstance(columns, Mapping) else set()
    for one in entries:
        listed_names = one.get(_NAMES)
        known |= set(map(str, listed_names)) if isinstance(listed_names, Sequence) else set()
    patterns = [str(one[_LIKE]) for one in entries if str(one.get(_LIKE) or "").strip("*?")]
    return all(name in known or any(fnmatchcase(name, pattern) for pattern in patterns) for name in names)


def _entries(like: object, names: Sequence[str]) -> list[_Entry]:
    if not isinstance(like, Sequence) or isinstance(like, str) or not all(isinstance(one, Mapping) for one in like):
        raise ConfigError(f"{COLUMNS_LIKE} must be a list of mappings, for example {_EXAMPLE}.")
    patterns = sum(1 + len(one[_EXCEPT]) if isinstance(one.get(_EXCEPT), Sequence) else 1 for one in like)
    if patterns > COLUMN_PATTERNS:
        raise ConfigError(
            f"{COLUMNS_LIKE} has {patterns:,} patterns and entries, and at most {COLUMN_PATTERNS:,} are allowed. Use "
            "wider patterns, or declare columns by name."
        )
    return [_entry(one, place, names) for place, one in enumerate(like, start=1)]


def _entry(said: Mapping[str, Any], place: int, names: Sequence[str]) -> _Entry:
    within = f"{COLUMNS_LIKE}, entry {place}: "
    body = {str(key): value for key, value in said.items() if key not in (_LIKE, _EXCEPT, _NAMES)}
    if (said.get(_LIKE) is None) == (said.get(_NAMES) is None):
        raise ConfigError(
            f"{within}give either '{_LIKE}' with a pattern or '{_NAMES}' with a list, for example {_EXAMPLE}."
        )
    if said.get(_NAMES) is not None:
        if _EXCEPT in said:
            raise ConfigError(f"{within}'{_EXCEPT}' is for a pattern. Leave the columns out of '{_NAMES}' instead.")
        listed_names = read(f"{within}{_NAMES}", each(as_text, " of columns"), said[_NAMES])
        if not listed_names:
            raise ConfigError(f"{within}'{_NAMES}' lists no column. List some, or take the entry out.")
        return _Entry(listed_names, f"by name in entry {place} of {COLUMNS_LIKE}", body)
    pattern = _pattern(within, _LIKE, said[_LIKE])
    matched = names_like(names, pattern)
    if not matched:
        raise ConfigError(f"{within}no column of the table is called like '{shown(pattern)}'. {_called(names)}")
    for other in read(f"{within}{_EXCEPT}", each(as_text, " of patterns"), said.get(_EXCEPT)):
        gone = set(names_like(matched, _pattern(within, _EXCEPT, other)))
        if not gone:
            raise ConfigError(
                f"{within}no column like '{shown(pattern)}' is called like '{shown(other)}', which is under "
                f"'{_EXCEPT}'. Take it out there."
            )
        matched = [name for name in matched if name not in gone]
    if not matched:
        raise ConfigError(f"{within}'{_EXCEPT}' leaves out every column like '{shown(pattern)}'. Take the entry out.")
    return _Entry(tuple(matched), f"by the pattern '{shown(pattern)}'", body)


def _pattern(within: str, key: str, said: object) -> str:
    pattern = read(f"{within}{key}", as_text, said)
    if len(pattern) > NAME_CHARACTERS:
        raise ConfigError(f"{within}a pattern has {len(pattern):,} characters; at most {NAME_CHARACTERS} are allowed.")
    return pattern


def _called(names: Sequence[str]) -> str:
    quoted = [f"'{shown(name)}'" for name in names]
    return f"Its columns are {listed(quoted, _MOST_NAMED)}. Correct the pattern, or take the entry out."


def _nodes(body: object) -> int:
    """Count keys and values as those of a document are counted."""
    if isinstance(body, Mapping):
        return 1 + sum(1 + _nodes(value) for value in body.values())
    if isinstance(body, Sequence) and not isinstance(body, str):
        return 1 + sum(map(_nodes, body))
    return 1


def _in_order_of(names: Sequence[str], declared: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is declared in the order of a table; what it does not have follows what it follows in the document.

    A time of day in the cells of a date is such a column: it has a name in the description only.
    """
    known = set(names)
    beside: dict[str | None, list[str]] = {}
    before = None
    for name in declared:
        if name in known:
            before = name
        else:
            beside.setdefault(before, []).append(name)
    order = list(beside.get(None, ()))
    for name in names:
        if name in declared:
            order += [name, *beside.get(name, ())]
    return {name: declared[name] for name in order}
