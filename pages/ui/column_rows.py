"""The rows of the table in which columns are described: one dict of texts and truth values for each; no Streamlit.

A row holds ``name, role, low, high, step, categories, missing, other, fallback, special, weight`` and ``extra`` for
what the table does not show (aliases, the pattern of a date).
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any

from synth.errors import SchemaError
from synth.names import words_of
from synth.schema import COLUMN_TYPES, Column, DropColumn, FormField, ModelledColumn, parse_column

__all__ = [
    "MAXIMUM_PAIR_CELLS",
    "MODELLED_ROLES",
    "PRESETS",
    "ROLES",
    "Row",
    "apply_preset",
    "errors_of_rows",
    "guess_role",
    "join_list",
    "lacks_fallback",
    "look_again",
    "mapping_of_row",
    "new_row",
    "notes_of_rows",
    "row_of_mapping",
    "split_list",
]

Row = dict[str, Any]

_MODELLED = [one for one in COLUMN_TYPES.values() if issubclass(one, ModelledColumn)]
_TYPE_OF: dict[str, type[Column]] = {one.role: one for one in COLUMN_TYPES.values()}

MODELLED_ROLES = tuple(one.role for one in _MODELLED)

FREE_TEXT = "text (dropped)"
"""A role of its own on the screen, which leaves the column out and says why."""

ROLES = (*MODELLED_ROLES, FREE_TEXT, *(role for role in _TYPE_OF if role not in MODELLED_ROLES))

MAXIMUM_PAIR_CELLS = 1_000_000
"""Cells of the largest two-way table beyond which a column should be grouped."""

_IDENTIFIER_WORDS = {
    "id", "ids", "uuid", "guid", "ssn", "nhs", "mrn", "nino", "iban", "email", "mail", "phone", "telephone", "mobile",
    "passport", "surname", "firstname", "lastname", "fullname", "address",
}  # fmt: skip
_TEXT_WORDS = {"note", "notes", "comment", "comments", "text", "description", "remark", "remarks", "message"}
_DATE_WORDS = {"date", "day", "visited", "birthday", "timestamp"}
_KINDS = {
    "number": "number", "integer": "number", "int": "number", "float": "number", "decimal": "number",
    "date": "date", "timestamp": "date", "datetime": "date",
    "yes_no": "yes/no", "bool": "yes/no", "boolean": "yes/no",
    "category": "category", "string": "category", "identifier": "identifier (replaced)",
    "text": FREE_TEXT, "drop": "leave out",
}  # fmt: skip

_NUMBER, _CATEGORY = {"role": "number"}, {"role": "category"}
PRESETS: dict[str, Row] = {
    "age in years 0-120": {**_NUMBER, "low": "0", "high": "120", "step": "1"},
    "percentage 0-100": {**_NUMBER, "low": "0", "high": "100", "step": "1"},
    "0 or 1": {"role": "yes/no", "categories": "1, 0"},
    "yes or no": {"role": "yes/no", "categories": "yes, no"},
    "rating 1-5": {**_NUMBER, "low": "1", "high": "5", "step": "1"},
    "money 0-500,000, zero kept apart": {**_NUMBER, "low": "0", "high": "500000", "step": "100", "special": "0"},
    "month 1-12": {**_NUMBER, "low": "1", "high": "12", "step": "1"},
    "month names": {
        **_CATEGORY,
        "categories": "January, February, March, April, May, June, July, August, September, October, "
        "November, December",
    },
    "weekday names": {
        **_CATEGORY,
        "categories": "Monday, Tuesday, Wednesday, Thursday, Friday, Saturday, Sunday",
    },
    "female or male": {**_CATEGORY, "categories": "female, male"},
    "countries of the European Union (ISO codes)": {
        **_CATEGORY,
        "categories": "AT, BE, BG, CY, CZ, DE, DK, EE, ES, FI, FR, GR, HR, HU, IE, IT, LT, LU, LV, MT, NL, PL, PT, RO, "
        "SE, SI, SK",
        "other": True,
    },
    "days 2020 to 2025": {"role": "date", "low": "2020-01-01", "high": "2025-12-31", "step": "day"},
}


def guess_role(name: str, kind: str) -> str:
    """Guess a column's role from its name and the kind it is known to be; empty where neither tells."""
    words = _words(name)
    if _named_like_identifier(words):
        return "identifier (replaced)"
    if words & _TEXT_WORDS:
        return FREE_TEXT
    guess = _KINDS.get(kind.lower(), "category") if kind else ""
    return "date" if guess in {"", "category"} and words & _DATE_WORDS else guess


def new_row(name: str, kind: str) -> Row:
    """Return the row of a column nobody has described: a guessed role, bounds and categories empty."""
    role = guess_role(name, kind)
    return {
        "name": name,
        "role": role,
        "low": "",
        "high": "",
        "step": next((field.default for field in _form(role) if field.cell == "step"), ""),
        "categories": "",
        "missing": False,
        "other": False,
        "fallback": "",
        "special": "",
        "weight": "normal",
        "extra": {},
    }


def look_again(row: Row, kind: str) -> Row:
    """Return a row with the kind that a look at the cells told, where nothing was known or decided before."""
    if row["role"]:
        return row
    return {**row, **{key: value for key, value in new_row(row["name"], kind).items() if key in {"role", "step"}}}


def lacks_fallback(row: Row) -> bool:
    """Whether nobody has said yet what a cell of the column becomes that cannot be read."""
    if row["role"] not in MODELLED_ROLES:
        return False
    return not (row["missing"] or row["fallback"] or (row["other"] and _asks_for_other(row["role"])))


def _form(role: str) -> tuple[FormField, ...]:
    """Return what is asked about a column of this role."""
    return _TYPE_OF[role].form if role in _TYPE_OF else ()


def _asks_for_other(role: str) -> bool:
    return any(field.cell == "other" for field in _form(role))


def apply_preset(row: Row, preset: str) -> Row:
    """Return the row with the values of a public preset."""
    blank = {"low": "", "high": "", "step": "", "categories": "", "special": "", "other": False, "extra": {}}
    return {**row, **blank, **PRESETS[preset]}


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
    column_type = COLUMN_TYPES[str(body["type"])]
    row = {**new_row(name, ""), "role": column_type.role, "step": ""}
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
    if row["role"] not in MODELLED_ROLES:
        return {"type": column_type.kind}
    body: dict[str, Any] = {"type": column_type.kind, "missing": bool(row["missing"])}
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


def errors_of_rows(rows: Sequence[Row]) -> list[str]:
    """Return what keeps the description from being used, one sentence for each column concerned."""
    problems = []
    for row in rows:
        try:
            problem = _error_of_row(row)
        except SchemaError as error:
            problem = str(error)
        if problem is not None:
            problems.append(problem)
    return problems


def notes_of_rows(rows: Sequence[Row]) -> list[str]:
    """Return what will happen without being asked again, one sentence each."""
    return [
        f"'{row['name']}' is free text. Free text cannot be released here; it will be dropped."
        for row in rows
        if row["role"] == FREE_TEXT
    ]


def _error_of_row(row: Row) -> str | None:
    name, role = row["name"], row["role"]
    if role not in ROLES:
        return f"'{name}' needs a role. Choose one, or 'leave out'."
    form = {field.cell: field for field in _form(role)}
    listed = "categories" in form and (row["categories"] or form["categories"].default)
    if _named_like_identifier(_words(name)) and role in MODELLED_ROLES and not listed:
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
        return f"'{name}' needs a place for a cell that cannot be read. Tick {ticks}, or type one under 'Unreadable'."
    return None


def _in_order(field: FormField, low: str, high: str) -> bool:
    if field.shape != "number":
        return low.strip() < high.strip()
    try:
        return float(_number(low) or "") < float(_number(high) or "")
    except ValueError:
        return True  # what is no number is told apart from a wrong order, by whoever parses the column


def _words(name: str) -> set[str]:
    return set(words_of(name))


def _named_like_identifier(words: set[str]) -> bool:
    return bool(words & _IDENTIFIER_WORDS) or words == {"name"} or ("name" in words and len(words & _PERSON_WORDS) > 0)


_PERSON_WORDS = {"first", "last", "full", "family", "patient", "person", "customer", "user", "client", "employee"}


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
