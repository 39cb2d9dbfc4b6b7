"""The rows of the table in which columns are described: one dict of texts and truth values for each; no Streamlit.

A row holds ``name, role, low, high, step, categories, missing, other, fallback, special, weight, description``,
``extra`` for what the table does not show (aliases, the pattern of a date), and ``proposed``: why its column would be
replaced or dropped by a guess, until someone accepts or changes that.
"""

from __future__ import annotations

import contextlib
import csv
import datetime
import io
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from synth.errors import SchemaError
from synth.schema import (
    COLUMN_TYPES,
    READ_FROM_ROWS,
    Column,
    DropColumn,
    FindColumn,
    FormField,
    ModelledColumn,
    is_found,
    modelled_columns,
    parse_column,
)
from synth.schema.columns.moments import DateStep, TimeColumn, TimeStep
from synth.schema.guesses import fate_of, kind_by_name, step_by_name

Row = dict[str, Any]

_MODELLED = [one for one in COLUMN_TYPES.values() if issubclass(one, ModelledColumn)]
_TYPE_OF: dict[str, type[Column]] = {one.role: one for one in COLUMN_TYPES.values()}

MODELLED_ROLES = tuple(one.role for one in _MODELLED)

FREE_TEXT = "text (dropped)"
"""A role of its own on the screen, which leaves the column out and says why."""

IDENTIFIER = "identifier (replaced)"
"""The role of a column whose values say whose row it is; made anew in every release."""

ROLES = (*MODELLED_ROLES, FREE_TEXT, *(role for role in _TYPE_OF if role not in MODELLED_ROLES))

MAXIMUM_PAIR_CELLS = 1_000_000
"""Cells of the largest two-way table beyond which a column should be grouped."""

_KINDS = {
    "number": "number", "integer": "number", "int": "number", "float": "number", "decimal": "number",
    "date": "date", "timestamp": "date", "datetime": "date", "time": "time of day",
    "yes_no": "yes/no", "bool": "yes/no", "boolean": "yes/no",
    "category": "category", "string": "category", "identifier": IDENTIFIER,
    "text": FREE_TEXT, "drop": "leave out",
}  # fmt: skip


def with_order(rows: Sequence[Row]) -> list[str]:
    """Return the columns whose values have an order, and those that are still to be described."""
    ordered = {kind.role for kind in _MODELLED if kind.is_ordered}
    return [row["name"] for row in rows if row["role"] in (*ordered, "")]


def guess_role(name: str, kind: str) -> str:
    """Return the role that a column's kind proposes; empty where nothing is known of it."""
    role = _KINDS.get(kind.lower(), "category") if kind else ""
    # What is left out because of its name is left out as free text, which the page explains.
    return FREE_TEXT if role == "leave out" and kind_by_name(name) == "drop" else role


def new_row(name: str, kind: str) -> Row:
    """Return the row of an undescribed column: a guessed role, bounds and categories empty."""
    role = guess_role(name, kind)
    return {
        "name": name,
        "role": role,
        "low": "",
        "high": "",
        "step": _step_of(name, role),
        "categories": "",
        "missing": False,
        "other": False,
        "fallback": "",
        "special": "",
        "weight": "normal",
        "description": "",
        "extra": {},
        "proposed": fate_of(name, kind) or "",
    }


# Times in the cells of another column ---------------------------------------------------------------------------------


def host_of(row: Row) -> str:
    """Return the column of the file whose cells hold a row's time; empty if it has cells of its own."""
    return str((row.get("extra") or {}).get("of") or "")


def time_beside(dates: Row, rows: Sequence[Row]) -> Row:
    """Return a new row for the times of day in the cells of a column of dates, written and missing as these are.

    Parameters
    ----------
    dates : Row
    rows : sequence of Row
        All there are, of whose names the new one is none.
    """
    taken = {row["name"] for row in rows}
    names = (f"{dates['name']} time{number}" for number in ("", *(f" {k}" for k in range(2, len(rows) + 2))))
    fresh = new_row(next(name for name in names if name not in taken), "time")
    written = {key: value for key, value in (dates.get("extra") or {}).items() if key == "pattern"}
    extra = {**written, "of": dates["name"]}
    return {**fresh, "low": "00:00", "high": "23:59", "missing": dates["missing"], "extra": extra, "proposed": ""}


def with_times(rows: Sequence[Row], others: Sequence[Row]) -> list[Row]:
    """Return rows, each followed by those of ``others`` that are in its cells and have no cells of their own."""
    known = {row["name"] for row in rows}
    beside = [row for row in others if host_of(row) and row["name"] not in known]
    return [one for row in rows for one in (row, *(other for other in beside if host_of(other) == row["name"]))]


def _step_of(name: str, role: str) -> str:
    asked = next((field for field in form_of(role) if field.cell == "step"), None)
    if asked is None:
        return ""
    return step_by_name(name) if asked.shape == "number" else asked.default


def is_proposed(row: Row) -> bool:
    """Whether a column would be replaced or dropped by a guess that nobody has accepted yet."""
    return bool(row.get("proposed")) and row["role"] not in ("", *MODELLED_ROLES)


def lacks_fallback(row: Row) -> bool:
    """Whether it is undeclared what an unreadable cell of the column becomes."""
    if row["role"] not in MODELLED_ROLES:
        return False
    return not (row["missing"] or row["fallback"] or (row["other"] and _asks_for_other(row["role"])))


def form_of(role: str) -> tuple[FormField, ...]:
    """Return what is asked about a column of a role."""
    return _TYPE_OF[role].form if role in _TYPE_OF else ()


def _asks_for_other(role: str) -> bool:
    return any(field.cell == "other" for field in form_of(role))


def split_list(text: str) -> list[str]:
    """Split categories as they are typed or pasted: commas or lines; double quotes keep a comma inside a value.

    Raises
    ------
    SchemaError
        If a quotation mark that is never closed leaves no list.
    """
    rows = csv.reader(io.StringIO(text), skipinitialspace=True)
    try:
        return [cell.strip() for row in rows for cell in row if cell.strip()]
    except csv.Error:
        raise SchemaError("A list of values cannot be read. Close its quotation marks, and make it shorter.") from None


def join_list(values: Sequence[object]) -> str:
    """Write categories as :func:`split_list` reads them."""
    return ", ".join(map(_quoted, map(str, values)))


def _quoted(value: str) -> str:
    doubled = value.replace('"', '""')
    return f'"{doubled}"' if not value or any(sign in value for sign in ',"\r\n') else value


def row_of_mapping(name: str, body: Mapping[str, Any]) -> Row:
    """Return the row of a column as a configuration declares it."""
    words = {"description": str(body.get("description") or "")}
    if body["type"] == FindColumn.kind:
        return {**new_row(name, ""), "role": "", **words}
    column_type = COLUMN_TYPES[str(body["type"])]
    row = {**new_row(name, ""), "role": column_type.role, **words}
    row |= {"missing": bool(body.get("missing", False)), "weight": str(body.get("weight", "normal"))}
    for field in column_type.form:
        values = [body[key] for key in field.keys if key in body]
        if values:
            row[field.cell] = _typed(field, values)
    return {**row, "extra": {key: body[key] for key in column_type.unasked if key in body}}


def _typed(field: FormField, values: list[Any]) -> str | bool:
    """Return the values of a configuration as they would be typed into a cell of the table."""
    if field.shape == "flag":
        return bool(values[0])
    if field.shape in {"numbers", "texts"}:
        entries = values if len(field.keys) > 1 else list(values[0])
        return join_list([_plain(entry) for entry in entries])
    return _plain(values[0])


def mapping_of_row(row: Row) -> dict[str, Any]:
    """Return what a configuration would hold for this row; only the keys of its role."""
    column_type = _TYPE_OF.get(row["role"], DropColumn)
    words = {"description": row["description"]} if row["description"] else {}
    if row["role"] not in MODELLED_ROLES:
        return {"type": column_type.kind, **words}
    body: dict[str, Any] = {"type": column_type.kind, **words, "missing": bool(row["missing"])}
    body["weight"] = row["weight"] or "normal"
    extra = row.get("extra") or {}
    body |= {key: extra[key] for key in column_type.unasked if key in extra}
    for field in column_type.form:
        body |= _read(field, row)
    return body


def _read(field: FormField, row: Row) -> dict[str, Any]:
    """Return what a cell of that table declares; nothing where it is empty."""
    typed = row[field.cell]
    if field.shape == "flag":
        return {field.keys[0]: bool(typed)}
    if field.shape in {"numbers", "texts"}:
        values = split_list(typed)
        if not values:
            return {}
        if field.shape == "numbers":
            return {field.keys[0]: [_number(value) for value in values]}
        if len(field.keys) == 1:
            return {field.keys[0]: values}
        if len(values) != len(field.keys):
            raise SchemaError(f"'{row['name']}'{field.needed}")
        return dict(zip(field.keys, values, strict=True))
    value = _number(typed) if field.shape == "number" else typed
    return {field.keys[0]: value} if value else {}


def declared_columns(rows: Sequence[Row]) -> tuple[ModelledColumn, ...]:
    """Return the modelled columns whose declaration is complete."""
    columns = []
    for row in rows:
        with contextlib.suppress(SchemaError):
            columns.append(parse_column(row["name"], mapping_of_row(row)))
    return modelled_columns(columns)


def error_of_row(row: Row) -> str | None:
    """Return what keeps a row from being used, in one sentence; None where nothing does."""
    try:
        return _error_of_row(row)
    except SchemaError as error:
        return str(error)


def errors_of_rows(rows: Sequence[Row]) -> list[str]:
    """Return what keeps the description from being used, one sentence for each column concerned."""
    return [problem for problem in map(error_of_row, rows) if problem is not None]


class State(NamedTuple):
    """How far the description of a column has come: a few words for its line, and a sentence where it is open."""

    words: str
    sentence: str | None

    @property
    def is_open(self) -> bool:
        """Whether something is left to say."""
        return self.sentence is not None


_CELL_WORDS = {"low": "limits", "high": "limits"}


def state_of(row: Row, source: str = "") -> State:
    """Return how far a row has come; ``source`` is where its bounds and values are said to come from."""
    sentence = error_of_row(row)
    if sentence is None:
        words = {IDENTIFIER: "↻ replaced"}.get(row["role"], "⊘ dropped")
        ready = "● found" if is_found(source) else "● from rows" if source == READ_FROM_ROWS else "● ready"
        return State(ready if row["role"] in MODELLED_ROLES else words, None)
    if row["role"] not in ROLES:
        return State("○ role", sentence)
    if is_proposed(row):
        return State("○ replace?" if row["role"] == IDENTIFIER else "○ drop?", sentence)
    needed = (field for field in form_of(row["role"]) if field.needed and not field.default)
    absent = dict.fromkeys(_CELL_WORDS.get(field.cell, field.cell) for field in needed if not row[field.cell])
    if absent:
        return State(f"○ {', '.join(absent)}", sentence)
    if lacks_fallback(row) and "needs a value for cells" in sentence:
        return State("○ empty cells", sentence)
    return State("✕ check", sentence)


def described_as(row: Row, fresh: Row) -> Row:
    """Return ``fresh``, a row of the same column, with the description of ``row`` if it has none of its own."""
    return {**fresh, "description": fresh["description"] or row["description"]}


# A block that was pasted beside its place -----------------------------------------------------------------------------

_PASTED_INTO = ("role", "low", "high", "step", "categories")
"""Cells of a line that take pasted text, from left to right."""

_HEADINGS = {"role": "Role", "low": "Lowest", "high": "Highest", "step": "Step", "categories": "Categories"}
_FEWEST_PASTED = 3


def pasted_beside(changed: Sequence[tuple[Row, Row]]) -> str | None:
    """Return a warning that a block of cells seems to be one column off, judged by the kinds of its cells.

    Parameters
    ----------
    changed : sequence of (row before, row after)
        What changed at once.

    Returns
    -------
    str or None
        None if the cells fit where they are, or fit no better one column over.
    """
    blocks = [(before, after) for before, after in changed if len(_changed_cells(before, after)) > 1]
    if len(blocks) < _FEWEST_PASTED:
        return None
    wrong = sum(_is_wrong(before, after) for before, after in blocks)
    if 2 * wrong < len(blocks):
        return None
    for by, side in ((-1, "right"), (1, "left")):
        moved = [(before, _moved(before, after, by)) for before, after in blocks]
        if 4 * sum(row is None or _is_wrong(before, row) for before, row in moved) <= wrong:
            first = next(cell for cell in _PASTED_INTO if any(cell in _changed_cells(*block) for block in blocks))
            belongs = _PASTED_INTO[_PASTED_INTO.index(first) + by]
            return (
                f"The pasted block seems to be one column too far {side}: what belongs under "
                f"'{_HEADINGS[belongs]}' is under '{_HEADINGS[first]}'."
            )
    return None


def _changed_cells(before: Row, after: Row) -> list[str]:
    return [cell for cell in _PASTED_INTO if before[cell] != after[cell]]


def _moved(before: Row, after: Row, by: int) -> Row | None:
    """Return the row with what was pasted moved; None where that leads out of the cells that take text."""
    places = [_PASTED_INTO.index(cell) + by for cell in _changed_cells(before, after)]
    if min(places) < 0 or max(places) >= len(_PASTED_INTO):
        return None
    return {**before, **{_PASTED_INTO[place]: after[_PASTED_INTO[place - by]] for place in places}}


def _is_wrong(before: Row, after: Row) -> bool:
    """Whether a cell that was typed into does not fit its column; what is still empty is not wrong."""
    role = after["role"]
    if role not in ROLES:
        if role != before["role"]:
            return True
        role = _role_of_cells(after)
    asked = {field.cell: field for field in form_of(role)}
    typed = [cell for cell in _PASTED_INTO[1:] if after[cell]]
    if any(cell not in asked for cell in typed):
        return True
    if any(not _fits(asked[cell], after[cell]) for cell in typed):
        return True
    bounds = [after[cell] for cell in ("low", "high") if cell in typed]
    return len(bounds) == 2 and not _in_order(asked["low"], *bounds)


def _role_of_cells(row: Row) -> str:
    """Return a role by what was typed, where none is known."""
    bounds = [row[cell] for cell in ("low", "high") if row[cell]]
    if row["categories"] and not bounds:
        return COLUMN_TYPES["category"].role
    date = COLUMN_TYPES["date"]
    return date.role if any(_fits(date.form[0], text) for text in bounds) else COLUMN_TYPES["number"].role


def _fits(field: FormField, typed: str) -> bool:
    """Whether a text is of the kind that a cell asks for; texts of categories may be anything."""
    if field.shape in {"text", "texts"} and field.cell == "categories":
        return True
    try:
        if field.shape == "number":
            return math.isfinite(float(_number(typed) or ""))
        if field.cell == "step":
            return typed in {*DateStep, *TimeStep}
        read = datetime.time if ":" in typed else datetime.date
        return bool(read.fromisoformat(typed.rjust(5, "0") if ":" in typed else typed))
    except ValueError:
        return False


def notes_of_rows(rows: Sequence[Row]) -> list[str]:
    """Return what will happen without being asked again, one sentence each."""
    return [
        f"'{row['name']}' is free text, which cannot be released here; it will be dropped."
        for row in rows
        if row["role"] == FREE_TEXT and not is_proposed(row)
    ]


def _error_of_row(row: Row) -> str | None:
    name, role = row["name"], row["role"]
    if role not in ROLES:
        return f"'{name}' needs a role. Choose one, or 'leave out'."
    if is_proposed(row):
        return f"'{name}' would be {row['proposed']}. Accept that above the table, or choose another role."
    if host_of(row) and role != TimeColumn.role:
        return f"'{name}' is a time in the cells of '{host_of(row)}': its role must be '{TimeColumn.role}'."
    form = {field.cell: field for field in form_of(role)}
    listed = "categories" in form and (row["categories"] or form["categories"].default)
    if kind_by_name(name) == "identifier" and role in MODELLED_ROLES and not listed:
        return f"'{name}' looks like an identifier by its name. Mark it as identifier or leave it out."
    for field in form.values():
        if field.needed and not field.default and not _read(field, row):
            return f"'{name}'{field.needed}"
    bounds = [row[cell] for cell in ("low", "high") if cell in form]
    if all(bounds) and bounds and not _in_order(form["low"], *bounds):
        return f"Highest must be larger than lowest ({name}: {row['low']}, {row['high']})."
    parse_column(name, mapping_of_row(row))
    if lacks_fallback(row):
        ticks = "'Empty' or 'Other'" if _asks_for_other(role) else "'Empty'"
        return f"'{name}' needs a value for cells that cannot be read. Tick {ticks}, or type one under 'Unreadable'."
    return None


def _in_order(field: FormField, low: str, high: str) -> bool:
    if field.shape != "number":
        return low.strip() < high.strip()
    try:
        return float(_number(low) or "") < float(_number(high) or "")
    except ValueError:
        return True  # parsing the column reports what is not a number


def _number(text: object) -> str | None:
    # Thousands separators are how people write money; the schema reads plain numbers.
    plain = str(text).strip().replace(",", "").replace(" ", "")
    return plain or None


def _plain(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)
