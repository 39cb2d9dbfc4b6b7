"""Many rows of the description at once: which belong together, what is set in them, how it is undone; no Streamlit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from pages.ui.column_rows import MODELLED_ROLES, Row, form_of, host_of, is_proposed, mapping_of_row, new_row, state_of
from synth.dictionaries import DictionaryColumn
from synth.errors import SchemaError
from synth.names import listed, numbered, visible
from synth.schema import READ_FROM_ROWS, is_found
from synth.schema.columns_like import around_number

__all__ = ["Applied", "Difference", "Group", "applied", "as_another", "differences", "groups_of", "set_in", "undone"]

_FEWEST = 3
"""Columns that are offered together because of their names."""

_MOST_GROUPS = 30
_MOST_NAMED = 4
_SIGNS = "_-. "
"""What stands between the words of a name."""


# Which belong together -----------------------------------------------------------------------------------------------


class Group(NamedTuple):
    """Columns that are offered together, and what they have in common."""

    common: str
    names: tuple[str, ...]

    @property
    def label(self) -> str:
        """How it is called among choices."""
        return f"{visible(self.common)} · {numbered(len(self.names), 'column')}"


def groups_of(rows: Sequence[Row]) -> list[Group]:
    """Return groups of the rows that are not complete, the largest first: by their names, then by their roles.

    Names belong together that differ in their last number only, or that begin or end with the same word.
    """
    still = [row for row in rows if not host_of(row) and state_of(row).is_open]
    names = [row["name"] for row in still]
    by_name: dict[tuple[str, ...], str] = {}
    for around in (around_number, _first_word, _last_word):
        for (before, after), members in _grouped(names, around).items():
            if len(members) >= _FEWEST:
                by_name.setdefault(tuple(members), f"{before}*{after}")
    by_role: dict[tuple[str, ...], str] = {}
    for role in dict.fromkeys(row["role"] for row in still):
        members = [row["name"] for row in still if row["role"] == role]
        by_role[tuple(members)] = f"every {role}" if role else "every column without a role"
    others = {members: said for members, said in by_role.items() if members not in by_name}
    return [*_largest_first(by_name), *_largest_first(others)][:_MOST_GROUPS]


def _largest_first(found: Mapping[tuple[str, ...], str]) -> list[Group]:
    return sorted((Group(common, names) for names, common in found.items()), key=lambda group: -len(group.names))


def _grouped(names: Sequence[str], around: Callable[[str], tuple[str, str] | None]) -> dict[tuple[str, str], list[str]]:
    found: dict[tuple[str, str], list[str]] = {}
    for name in names:
        ends = around(name)
        if ends is not None:
            found.setdefault(ends, []).append(name)
    return found


def _first_word(name: str) -> tuple[str, str] | None:
    end = next((place for place, sign in enumerate(name) if sign in _SIGNS), 0)
    return (name[: end + 1], "") if end else None


def _last_word(name: str) -> tuple[str, str] | None:
    start = next((place for place in range(len(name) - 1, 0, -1) if name[place] in _SIGNS), 0)
    return ("", name[start:]) if start else None


# What is set in them -------------------------------------------------------------------------------------------------


def set_in(row: Row, role: str, cells: Mapping[str, Any]) -> Row:
    """Return a row with a role and what is set in its cells; a blank text leaves the cell of that role as it is.

    Parameters
    ----------
    row : Row
    role : str
    cells : mapping
        Texts and truth values by cell, ``missing`` among them.
    """
    same = row["role"] == role
    fresh = new_row(row["name"], "")
    found = {**fresh, "role": role, "weight": row["weight"], "extra": row["extra"] if same else {}, "proposed": ""}
    found["description"] = row["description"]
    if role not in MODELLED_ROLES:
        return found
    found["missing"] = bool(cells.get("missing"))
    for field in form_of(role):
        said = cells.get(field.cell, fresh[field.cell])
        found[field.cell] = said if said or not same or field.shape == "flag" else row[field.cell]
    return found


def as_another(row: Row, other: Row) -> Row:
    """Return a row that is declared as another one is, under its own name and description, in cells of its own."""
    extra = {key: value for key, value in (other.get("extra") or {}).items() if key != "of"}
    own = {key: row[key] for key in ("name", "description")}
    return {**other, **own, "extra": extra, "proposed": ""}


class Difference(NamedTuple):
    """Columns that change alike: what is declared of them now, and what will be."""

    names: tuple[str, ...]
    now: str
    then: str

    @property
    def columns(self) -> str:
        """The first names, and how many more there are."""
        return listed([visible(name) for name in self.names], _MOST_NAMED)


def differences(before: Sequence[Row], after: Mapping[str, Row]) -> list[Difference]:
    """Return what changes in which rows; rows that change alike are told together.

    Parameters
    ----------
    before : sequence of Row
    after : mapping
        The rows that are replaced, by their names.
    """
    alike: dict[tuple[str, str], list[str]] = {}
    for row in before:
        other = after.get(row["name"], row)
        if other != row:
            alike.setdefault((_said(row), _said(other)), []).append(row["name"])
    return [Difference(tuple(names), now, then) for (now, then), names in alike.items()]


def _said(row: Row) -> str:
    if not row["role"]:
        return "not described"
    if is_proposed(row):
        return f"{row['role']} (proposed)"
    state = state_of(row).words
    lacks = f" (still missing: {state.removeprefix('○ ')})" if state.startswith("○") else ""
    try:
        return DictionaryColumn(row["name"], mapping_of_row(row)).said + lacks
    except SchemaError:
        return f"{row['role']}{lacks}"  # a cell of it cannot be read yet, which its line says


# One application, and its undoing ------------------------------------------------------------------------------------


class Applied(NamedTuple):
    """Rows that were replaced at once: what they and the sources of their bounds were before, and what they are."""

    before: Mapping[str, Row]
    after: Mapping[str, Row]
    sources: Mapping[str, str]


def applied(
    columns: list[Row], sources: Mapping[str, str], after: Mapping[str, Row], *, source: str | None
) -> tuple[list[Row], dict[str, str], Applied]:
    """Replace rows, and return all rows, the sources of their bounds, and what undoes it.

    Parameters
    ----------
    columns : list of Row
        All there are.
    sources : mapping
        Where bounds and values are said to come from, by column.
    after : mapping
        The rows that are replaced, by their names.
    source : str, optional
        Where those of the replaced rows come from; None where the owner typed them. What was found privately was found
        for one column, and is declared for others. What was taken from the rows and is typed over stays so: its owner
        has seen them.
    """
    before = {row["name"]: row for row in columns if row["name"] in after}
    kept = {name: text for name, text in sources.items() if name not in after or text == READ_FROM_ROWS}
    if source is not None and not is_found(source):
        kept |= dict.fromkeys(after, source)
    # A page may change the rows themselves; what they were is kept apart.
    undo = Applied(
        before,
        {name: dict(row) for name, row in after.items()},
        {name: text for name, text in sources.items() if name in after},
    )
    return [after.get(row["name"], row) for row in columns], kept, undo


def undone(
    columns: list[Row], sources: Mapping[str, str], what: Applied
) -> tuple[list[Row], dict[str, str], tuple[str, ...]]:
    """Undo one application as a whole; rows that were changed since stay, and their names are returned last."""
    changed = tuple(row["name"] for row in columns if row != what.after.get(row["name"], row))
    back = {name: row for name, row in what.before.items() if name not in changed}
    kept = {name: text for name, text in sources.items() if name not in back}
    kept |= {name: text for name, text in what.sources.items() if name in back}
    return [back.get(row["name"], row) for row in columns], kept, changed
