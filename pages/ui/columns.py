"""The rows of the description table and the columns they declare; plain values, no Streamlit.

A row of the table is a dict of texts and truth values: ``name, role, low, high, step, categories, missing, other,
fallback, special, weight`` and ``extra`` for what the table does not show (aliases, the pattern of a date).
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any

from synth.errors import SchemaError
from synth.names import words_of
from synth.schema.schema_file import parse_column

__all__ = [
    "MAXIMUM_PAIR_CELLS",
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

ROLES = ("number", "category", "yes/no", "date", "text (dropped)", "identifier (replaced)", "leave out")

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
    "text": "text (dropped)", "drop": "leave out",
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
        return "text (dropped)"
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
        "step": {"number": "1", "date": "day"}.get(role, ""),
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
    if row["role"] not in {"number", "category", "yes/no", "date"}:
        return False
    return not (row["missing"] or row["fallback"] or (row["other"] and row["role"] == "category"))


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
    kind = str(body.get("type"))
    role = {"yes_no": "yes/no", "identifier": "identifier (replaced)", "drop": "leave out"}.get(kind, kind)
    categories = [body.get("yes", "yes"), body.get("no", "no")] if kind == "yes_no" else body.get("values", ())
    return {
        "name": name,
        "role": role,
        "low": _plain(body.get("low")),
        "high": _plain(body.get("high")),
        "step": _plain(body.get("step")),
        "categories": join_list(list(categories)) if categories else "",
        "missing": bool(body.get("missing", False)),
        "other": bool(body.get("other", False)),
        "fallback": _plain(body.get("fallback")),
        "special": join_list([_plain(value) for value in body.get("special", ())]) if body.get("special") else "",
        "weight": str(body.get("weight", "normal")),
        "extra": {key: body[key] for key in ("aliases", "pattern") if key in body},
    }


def mapping_of_row(row: Row) -> dict[str, Any]:
    """Return what a configuration would hold for this row; only the keys of its role."""
    role, extra = row["role"], row.get("extra") or {}
    common = {"missing": bool(row["missing"]), "weight": row["weight"] or "normal"}
    if row["fallback"]:
        common["fallback"] = _number(row["fallback"]) if role == "number" else row["fallback"]
    if role == "number":
        body: dict[str, Any] = {"type": "number", "low": _number(row["low"]), "high": _number(row["high"]), **common}
        if row["step"]:
            body["step"] = _number(row["step"])
        if row["special"]:
            body["special"] = [_number(value) for value in split_list(row["special"])]
        return body
    if role == "date":
        body = {"type": "date", "low": row["low"] or None, "high": row["high"] or None, **common}
        return {**body, "step": row["step"] or "day", **{key: extra[key] for key in ("pattern",) if key in extra}}
    if role == "category":
        body = {"type": "category", "values": split_list(row["categories"]), "other": bool(row["other"]), **common}
        return {**body, **{key: extra[key] for key in ("aliases",) if key in extra}}
    if role == "yes/no":
        words = split_list(row["categories"]) or ["yes", "no"]
        if len(words) != 2:
            raise SchemaError(f"'{row['name']}': a yes/no column needs two words, first yes and then no.")
        return {"type": "yes_no", "yes": words[0], "no": words[1], **common}
    return {"type": "identifier" if role == "identifier (replaced)" else "drop"}


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
        if row["role"] == "text (dropped)"
    ]


def _error_of_row(row: Row) -> str | None:
    name, role = row["name"], row["role"]
    if role not in ROLES:
        return f"'{name}' needs a role. Choose one, or 'leave out'."
    listed = role in {"category", "yes/no"} and row["categories"]
    if _named_like_identifier(_words(name)) and role in {"number", "date", "category"} and not listed:
        return f"'{name}' looks like an identifier by its name. Mark it as identifier or leave it out."
    if role == "category" and not split_list(row["categories"]):
        return f"'{name}' needs its categories. Type them with commas between, or fill them from a preset."
    if role == "date" and not (row["low"] and row["high"]):
        return f"'{name}' needs an earliest and a latest date, for example 2020-01-01 and 2025-12-31."
    if role in {"number", "date"} and row["low"] and row["high"] and not _in_order(role, row["low"], row["high"]):
        return f"Highest must be larger than lowest ({name}: {row['low']}, {row['high']})."
    parse_column(name, mapping_of_row(row))
    if lacks_fallback(row):
        ticks = "'Empty' or 'Other'" if role == "category" else "'Empty'"
        return f"'{name}' needs a place for a cell that cannot be read. Tick {ticks}, or type one under 'Unreadable'."
    return None


def _in_order(role: str, low: str, high: str) -> bool:
    if role == "date":
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
