"""The draft of a release: one dict of plain values from which a configuration is made; no Streamlit.

The draft is the only truth of the pages. Widgets are drawn from it and write to it, because Streamlit forgets the
state of a widget as soon as its page is left.

A row of the table of columns is a dict of texts and truth values: ``name, role, low, high, step, categories, missing,
other, fallback, special, weight`` and ``extra`` for what the table does not show (aliases, the pattern of a date).
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from synth.errors import ConfigError, SchemaError
from synth.estimators import describe
from synth.names import words_of
from synth.reports.holdout import paid_refusal
from synth.schema import (
    COLUMN_TYPES,
    Column,
    DropColumn,
    FormField,
    ModelledColumn,
    RunConfig,
    config_to_mapping,
    parse_column,
    parse_config,
    prediction_refusal,
)

__all__ = [
    "EPSILON_STOPS",
    "MAXIMUM_PAIR_CELLS",
    "MODELLED_ROLES",
    "MOST_PILLS",
    "PRESETS",
    "ROLES",
    "Draft",
    "Row",
    "apply_preset",
    "asks_for_number",
    "config_of",
    "errors_of_rows",
    "fill_from_config",
    "guess_role",
    "join_list",
    "lacks_fallback",
    "look_again",
    "mapping_of_row",
    "missing_answers",
    "new_draft",
    "new_row",
    "notes_of_rows",
    "row_of_mapping",
    "split_list",
    "take_table",
]

Draft = dict[str, Any]

DEFAULT_ROWS = 10_000

EPSILON_STOPS = (0.1, 0.25, 0.5, 1.0, 2.0, 4.0)
"""Stops of the slider, and what a grid of rehearsals offers."""

MOST_PILLS = 60
"""Columns that are offered side by side; a wider table names them in its codebook."""


def new_draft() -> Draft:
    """Return a draft with nothing decided; questions about people have no answer selected."""
    return {
        "table_id": None,
        "test_table_id": None,
        "run_id": None,
        "demonstration": "",  # what the header says of a demonstration
        "described": False,
        "account": "",
        "format": {},
        "test_format": None,
        "columns": [],
        "protects": None,
        "rows_per_unit": None,
        "id_column": None,
        "row_count": None,
        "number_of_units": None,
        "people_at_most": None,
        "about_rows": None,
        "protection": "record",
        "cell_change": 1.0,
        "label": None,
        "groups": [],
        "rules": [],
        "holdout": 0.2,
        "undeclared": "refuse",
        "domain_source": {},
        "epsilon": 1.0,
        "delta": None,
        "evaluation_share": 0.1,
        "prediction_share": 0.0,
        "makes": "table",
        "generator": None,
        "options": {},
        "model": None,
        "model_options": {},
        "model_label": None,
        "model_columns": [],
        "model_prediction_share": 0.0,
        "rows": DEFAULT_ROWS,
        "seed": 0,
        "device": "auto",
    }


def take_table(draft: Draft, table_id: str, account: str, columns: Sequence[tuple[str, str]]) -> None:
    """Begin a release of a stored table; what was declared for columns of the same names is kept.

    Parameters
    ----------
    columns : sequence of (name, guessed kind)
    """
    known = {row["name"]: row for row in draft["columns"]}
    draft.update(
        table_id=table_id,
        test_table_id=None,
        run_id=None,
        about_rows=None,
        account=account,
        described=False,
        columns=[known.get(name) or new_row(name, kind) for name, kind in columns],
    )


def fill_from_config(draft: Draft, config: RunConfig) -> list[str]:
    """Fill the draft with a configuration; columns the table does not have are left out.

    Returns
    -------
    Names of declared columns that the table does not have.
    """
    body = config_to_mapping(config)
    declared = {name: row_of_mapping(name, column) for name, column in body["columns"].items()}
    present = dict.fromkeys([row["name"] for row in draft["columns"]] or declared)
    guessed = {row["name"]: row for row in draft["columns"]}
    draft["columns"] = [declared.get(name) or guessed[name] for name in present]
    draft["domain_source"] = {name: text for name, text in config.domain_source.items() if name in present}
    unit = body["unit"]
    draft.update(
        protects=unit["protects"],
        rows_per_unit=unit["rows_per_unit"],
        id_column=unit.get("id_column"),
        epsilon=config.epsilon,
        delta=config.delta,
        described=False,
    )
    for key in ("row_count", "people_at_most", "seed", "device", "undeclared"):
        draft[key] = body[key]
    draft["number_of_units"] = config.schema.number_of_units
    draft.update(protection=config.schema.protection, cell_change=config.schema.cell_change)
    draft["groups"] = list(config.groups)
    if config.is_model:
        _fill_model(draft, config)
    else:
        _fill_table(draft, config)
    draft["format"], draft["test_format"] = body["format"], body.get("test_format")
    if not draft["account"]:
        draft["account"] = config.account
    return [name for name in declared if name not in present]


def _fill_model(draft: Draft, config: RunConfig) -> None:
    """What the file of a model leaves out, which is about rows that are made, stays as it was in the draft."""
    draft.update(makes="model", model=config.generator, model_options=dict(config.options))
    draft.update(model_label=config.label, model_columns=[], model_prediction_share=config.prediction_share)
    if config.holdout:
        draft["holdout"] = config.holdout


def _fill_table(draft: Draft, config: RunConfig) -> None:
    draft.update(makes="table", generator=config.generator, options=dict(config.options), rows=config.rows)
    draft.update(label=config.label, rules=list(config.constraints), holdout=config.holdout)
    draft.update(evaluation_share=config.evaluation_share, prediction_share=config.prediction_share)


def missing_answers(draft: Draft) -> list[str]:
    """Return the questions about people that nobody has answered yet."""
    problems = []
    if not (draft["protects"] or "").strip():
        problems.append("Say whom you are protecting.")
    if not draft["rows_per_unit"]:
        problems.append(f"Say how many rows one {draft['protects'] or 'person'} can have at most.")
    if draft["row_count"] not in {"public", "private"}:
        problems.append("Say whether it is public how many there are.")
    if asks_for_number(draft) and not draft["number_of_units"]:
        problems.append(f"Say how many {_plural(draft['protects'])} there are: you said that their number is public.")
    elif not draft["people_at_most"]:
        problems.append(f"Say how many there are at most ({draft['protects'] or 'person'}): a public upper bound.")
    return problems


def asks_for_number(draft: Draft) -> bool:
    """Whether the public number of units has to be typed: it is public, and whose each row is can be told."""
    told_apart = draft["id_column"] is not None or draft["rows_per_unit"] == 1
    return bool(draft["row_count"] == "public" and told_apart and draft["protection"] == "record")


def _plural(unit: str | None) -> str:
    return {None: "people", "person": "people"}.get(unit, f"{unit}s")


def config_of(draft: Draft) -> RunConfig:
    """Make the configuration this draft describes.

    Raises
    ------
    SynthError
        If something is still missing or cannot be used; the text says what.
    """
    problems = missing_answers(draft)
    if problems:
        raise ConfigError(problems[0])
    columns: Mapping[str, Any] = {row["name"]: mapping_of_row(row) for row in draft["columns"]}
    body: dict[str, Any] = {
        "account": draft["account"],
        "unit": {key: draft[key] for key in ("protects", "rows_per_unit", "id_column")},
        "budget": {"epsilon": draft["epsilon"], "delta": draft["delta"]},
        "columns": columns,
    }
    for key in (
        "format", "test_format", "row_count", "people_at_most", "holdout", "rows", "label", "groups", "rules", "seed",
        "device", "undeclared", "evaluation_share",
    ):  # fmt: skip
        body[key] = draft[key]
    if draft["row_count"] == "public":
        body["number_of_units"] = draft["number_of_units"]
    if draft["protection"] == "cell":
        body |= {"protection": "cell", "cell_change": draft["cell_change"]}
    if draft["makes"] == "model":
        model = parse_config(_of_model(draft, body))
        share, held_out = draft["model_prediction_share"], replace(model, holdout=draft["holdout"])
        # As below, a share that cannot be used is passed over: the page says why.
        if share and paid_refusal(describe(model.generator), held_out) is None:
            return replace(held_out, prediction_share=share)
        return model
    if draft["generator"]:
        body["generator"] = {"name": draft["generator"], "options": draft["options"]}
    if draft["domain_source"]:
        body["domain_source"] = draft["domain_source"]
    config = parse_config(body)
    # A share that can no longer be used, since a label was taken away, is passed over: the page of the budget says so.
    if draft["prediction_share"] and prediction_refusal(config.schema, config.label, config.holdout) is None:
        return replace(config, prediction_share=draft["prediction_share"])
    return config


def _of_model(draft: Draft, body: dict[str, Any]) -> dict[str, Any]:
    """Return what the draft says of a model; columns that it does not look at are left out."""
    if draft["model"] is None:
        raise ConfigError("Choose a model first.")
    label, chosen = draft["model_label"], set(draft["model_columns"])
    used = {row["name"] for row in draft["columns"] if row["role"] in MODELLED_ROLES}
    left_out = used - chosen - {label} if chosen else set()
    columns = {name: {"type": "drop"} if name in left_out else column for name, column in body["columns"].items()}
    kept = {key: value for key, value in body.items() if key not in _OF_ROWS_MADE}
    # Nobody is held out of a model, unless its predictions are paid for: nothing else is computed from rows beside it.
    kept |= {"columns": columns, "label": label, "holdout": 0.0}
    kept["groups"] = [name for name in draft["groups"] if name not in left_out]
    kept["domain_source"] = {name: text for name, text in draft["domain_source"].items() if name not in left_out}
    return kept | {"model": {"name": draft["model"], "options": draft["model_options"]}}


_OF_ROWS_MADE = {"rows", "rules", "evaluation_share"}


# Its columns: the rows of the description table ----------------------------------------------------------------------


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
